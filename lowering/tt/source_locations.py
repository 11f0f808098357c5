"""Maps operations to lines of a source: finds the line of an operation, and makes locations that name
lines."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from xdsl.dialects.builtin import (
    UNKNOWN_LOC,
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    IntAttr,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
)
from xdsl.ir import Attribute, Operation

from ...promotion.errors import JoineryError

MAX_FUSED = 16
"""Most lines that one location names."""


@functools.lru_cache(maxsize=1 << 12)
def line_location(file: str, line: int) -> FileLineColLoc:
    """Returns `loc("file":line:0)`; graphs know no columns."""
    return FileLineColLoc(StringAttr(file), IntAttr(line), IntAttr(0))


def fused_location(locations: Sequence[LocationAttr]) -> LocationAttr:
    """Fuses locations into one, in their order: `loc(fused["a.py":1:0, "a.py":7:0])`. Debuggers see the
    first. Fused locations are flattened, unknown ones left out."""
    found: dict[LocationAttr, None] = {}
    for location in locations:
        if isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
            found.update(dict.fromkeys(location.locations.data))
        else:
            found[location] = None
    found.pop(UNKNOWN_LOC, None)
    if len(found) < 2:
        return next(iter(found), UNKNOWN_LOC)
    return FusedLoc(ArrayAttr(list(found)[:MAX_FUSED]), NoneAttr())


def fuse_locations(function: Operation, other: Operation) -> None:
    """Gives the operations of a function the locations of an equal function as well."""
    for own, twin in zip(function.walk(), other.walk(), strict=True):
        if own.location != twin.location:
            own.location = fused_location((own.location, twin.location))


def source_location(op: Operation) -> tuple[str, int] | None:
    """Returns (file, line) of an operation's location; for inlined code the one in the callee, for fused
    locations the first known one. None if there is none."""
    found = first_line(op.location)
    return None if found is None else (found.filename.data, found.line.data)


def first_line(location: Attribute) -> FileLineColLoc | None:
    """Returns the position in a source that stands for a location, as in `source_location`; None if there is
    none."""
    waiting: list[Attribute] = [location]
    seen: set[int] = set()  # of objects: locations share their parts
    while waiting:
        location = waiting.pop()
        if id(location) in seen:
            continue
        seen.add(id(location))
        if isinstance(location, FileLineColLoc):
            return location
        if isinstance(location, NameLoc):
            waiting.append(location.location)
        elif isinstance(location, CallSiteLoc):
            waiting += [location.caller, location.callee]
        elif isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
            waiting += reversed(location.locations.data)
    return None


def name_line(error: JoineryError, op: Operation) -> None:
    """Adds the line of an operation to the message of an error that its lowering raised, unless the message
    names one."""
    line = line_of(op)
    if line and error.origin is None:
        error.origin = line
        error.args = (f"{error}\n  at {line}", *error.args[1:])


def line_of(op: Operation) -> str:
    """Returns `file:line` of the operation or its nearest ancestor that has one; "" if none has."""
    here: Operation | None = op
    while here is not None:
        location = source_location(here)
        if location is not None:
            return f"{location[0]}:{location[1]}"
        here = here.parent_op()
    return ""
