"""Locations of operations in the kernel's own source."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation


def source_location(op: Operation) -> tuple[str, int] | None:
    """(file, line) of an operation's location; for inlined code the one in the callee, for fused locations the first
    known one. None if the text has none."""
    waiting: list[Attribute] = [op.location]
    seen: set[int] = set()  # of objects: locations share their parts
    while waiting:
        location = waiting.pop()
        if id(location) in seen:
            continue
        seen.add(id(location))
        if isinstance(location, FileLineColLoc):
            return location.filename.data, location.line.data
        if isinstance(location, NameLoc):
            waiting.append(location.location)
        elif isinstance(location, CallSiteLoc):
            waiting += [location.caller, location.callee]
        elif isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
            waiting += reversed(location.locations.data)
    return None


def line_of(op: Operation) -> str:
    """`file:line` of the operation or its nearest ancestor that has one; "" if none has."""
    here: Operation | None = op
    while here is not None:
        location = source_location(here)
        if location is not None:
            return f"{location[0]}:{location[1]}"
        here = here.parent_op()
    return ""
