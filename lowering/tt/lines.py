"""Where an operation stands in its author's source."""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
from xdsl.ir import Attribute, Operation


def line_of(op: Operation) -> str:
    """`file:line:column` of the operation, or of the nearest one around it that has a place; "" if none has."""
    here: Operation | None = op
    while here is not None:
        found = _place(here.location)
        if found:
            return found
        here = here.parent_op()
    return ""


def _place(location: Attribute, depth: int = 16) -> str:
    if depth == 0:
        return ""
    match location:
        case FileLineColLoc():
            return f"{location.filename.data}:{location.line.data}:{location.column.data}"
        case NameLoc():
            return _place(location.location, depth - 1)
        case CallSiteLoc():
            return _place(location.callee, depth - 1)
        case FusedLoc():
            parts = location.locations.data if isinstance(location.locations, ArrayAttr) else ()
            return next((place for part in parts if (place := _place(part, depth - 1))), "")
    return ""
