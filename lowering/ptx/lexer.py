"""PTX text to tokens."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...promotion.errors import UserError

MAX_TEXT = 1 << 20
"""Characters of PTX that are read at most."""

_TOKEN = re.compile(
    r"""(?P<space>[\s]+|//[^\n]*|/\*.*?\*/)
      |(?P<bits>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w))
      |(?P<decimal>\d+\.\d*(?:[eE][+-]?\d+)?(?![\w])|\d+[eE][+-]?\d+(?!\w))
      |(?P<integer>0[xX][0-9a-fA-F]+U?(?!\w)|0[bB][01]+U?(?!\w)|\d+U?(?!\w))
      |(?P<dotted>\.[A-Za-z0-9_]+(?:::[A-Za-z0-9_]+)*)
      |(?P<name>[A-Za-z_$%][\w$]*)
      |(?P<string>"[^"\n]*")
      |(?P<mark>[{}()\[\]<>;:,@!|+=-])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    kind: str
    text: str
    line: int
    start: int
    end: int


def tokens_of(text: str, limit: int = MAX_TEXT) -> list[Token]:
    """The tokens of a text, comments left out, and one of kind "end". Raises `UserError` naming the line."""
    if len(text) > limit:
        raise UserError(f"PTX: {len(text)} characters; at most {limit} are read")
    found: list[Token] = []
    position, line = 0, 1
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            rest = text[position : position + 12].split("\n")[0]
            problem = "a comment that does not end" if rest.startswith("/*") else f"no token starts with {rest!r}"
            raise UserError(f"PTX line {line}: {problem}")
        kind, word = str(match.lastgroup), match[0]
        if kind != "space":
            found.append(Token(kind, word, line, position, match.end()))
        line += word.count("\n")
        position = match.end()
    found.append(Token("end", "", line, position, position))
    return found
