"""Limits what a text in the block IR may ask for. Texts are untrusted: everything that could grow is bounded,
and real kernels stay far below every bound."""

from __future__ import annotations

MAX_TEXT = 1 << 24
"""Longest text that is read, in characters. Time and memory grow with the length, not faster: ordinary texts take 0.6 s and
40 MB a million characters, others 2.4 s."""

MAX_SOURCE = 1 << 22
"""Longest text of a language that is read, in characters."""

MAX_NESTED_REGIONS = 32
"""Regions nested in one another; readers, printers and passes recurse over them."""

MAX_DEPTH = 32
"""Types, attributes or locations nested in one another, aliases expanded."""

MAX_BLOCKS = 1024
"""Blocks of one region."""

MAX_LOCATION_SIZE = 1024
"""Parts of one location, aliases expanded."""

MAX_ALIAS_SIZE = 1 << 20
"""Attributes and types into which all uses of aliases in one text expand."""

MAX_CONSTANT_BYTES = 1 << 26
"""Bytes of all block constants of one text. A splat is stored as one element."""

MAX_LITERAL = 512
"""Characters of one number."""

MAX_INTEGER_WIDTH = 128
"""Bits of an integer type."""

MAX_SHAPE = 256
"""Characters of the shape of a block."""

MAX_NAME = 4096
"""Characters of a function's name."""

MAX_DISTANCE = 1 << 60
"""Bytes that a number may move a pointer by: no memory is so far away. Launches that are checked say what moved it further."""
