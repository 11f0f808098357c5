"""What a launch and its native code agree on: names, the words of its status, and the operations that can stop it.

The runtime reads this without the code generator, to launch what it finds in a cache.
"""

from __future__ import annotations

from .....promotion.dataclass import dataclass

KERNEL, PRINT = "jn_kernel", "jn_print"
"""The function that object code defines, and the one that it calls to print."""
WORKER, WORKERS = "jn_worker", "jn_workers"
"""The functions that tell the number of the worker that runs a program, and how many workers there are."""

RUNNING, CANCELLED, STOPPED = 0, 1, 2
STATUS_WORDS = 5
"""The state, and the site, program, lane and address of the first error."""


@dataclass(frozen=True, slots=True)
class Access:
    """An access whose bounds are checked.

    verb: "read" or "written".  size: bytes of an element.  parameters: (position, name) of those behind which it may reach;
    none where the address was loaded from memory.
    """

    verb: str
    size: int
    parameters: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Site:
    """An operation of a kernel that can stop the launch.

    kind: "assert", "overflow" of 32-bit address arithmetic, "memory" that could not be had, or "bounds" that an access leaves.
    location: (file, line) in the source that the text was made from, if it says.  shape: of the block that the lane is a
    row-major position in.  access: of "bounds", what was accessed.  callers: lines of the calls around the operation, the
    innermost first.
    """

    kind: str
    message: str
    location: tuple[str, int] | None = None
    shape: tuple[int, ...] = ()
    access: Access | None = None
    callers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Printed:
    """An operand of a print in scratch (16-bit floats as float32): its block element type, shape, and strides in bytes."""

    elem: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PrintSite:
    """A print, which calls the runtime with the addresses of its operands."""

    prefix: str
    hexadecimal: bool
    signed: tuple[bool, ...]
    operands: tuple[Printed, ...]
