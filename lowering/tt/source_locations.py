"""Maps operations to lines of a source: finds the line of an operation, and makes locations that name
lines."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from types import TracebackType

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

from ...promotion.errors import JoineryError, KernelAssertionError, called_from, printable

MAX_FUSED = 16
"""Most lines that one location names."""
MAX_CALLERS = 16
"""Most calls around an operation that are named."""


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
    """Returns (file, line) of an operation's location, the file's name as messages show it; for inlined code the one in
    the callee, for fused locations the first known one. None if there is none."""
    found = first_line(op.location)
    return None if found is None else _shown(found)


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


def callers_of(op: Operation) -> tuple[tuple[str, int], ...]:
    """Returns (file, line) of the calls through which an operation became a part of its function, the innermost first."""
    return tuple([_shown(each) for each in _frames(op.location)[1:]])


def _shown(position: FileLineColLoc) -> tuple[str, int]:
    return printable(position.filename.data), position.line.data


def calls_to(root: Operation, line: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    """Returns the calls that lead to the operations of a line, the innermost first: as far as they are the same for all."""
    chains = {callers_of(op) for op in root.walk() if source_location(op) == line}
    found: list[tuple[str, int]] = []
    for each in zip(*chains, strict=False):
        if len(set(each)) > 1:
            break
        found.append(each[0])
    return tuple(found)


def _frames(location: Attribute) -> list[FileLineColLoc]:
    """Returns the lines of a location and of the calls around it, at most `MAX_CALLERS` of them."""
    found: list[FileLineColLoc] = []
    waiting: list[Attribute] = [location]
    steps = 0
    while waiting and len(found) <= MAX_CALLERS and steps < 4 * MAX_CALLERS:
        location, steps = waiting.pop(), steps + 1
        if isinstance(location, FileLineColLoc):
            found.append(location)
        elif isinstance(location, NameLoc):
            waiting.append(location.location)
        elif isinstance(location, CallSiteLoc):
            waiting += [location.caller, location.callee]
        elif isinstance(location, FusedLoc) and isinstance(location.locations, ArrayAttr):
            known = next((each for each in location.locations.data if first_line(each) is not None), None)
            waiting += [] if known is None else [known]
    return found


def called_location(callee: LocationAttr, caller: LocationAttr) -> LocationAttr:
    """Returns the location of an operation that a call is replaced by."""
    if UNKNOWN_LOC in (callee, caller):
        return callee
    return CallSiteLoc(callee, caller)


class naming_line:
    """Names the line of an operation in what is raised inside: `with naming_line(op): …`.

    Whatever treats operations one after the other stands in one for each: back ends, passes, the interpreter. The innermost
    operation that has a line counts, and a function is the last resort of those who treat it as a whole. A class, as there is
    one for every operation, and generators take ten times as long.
    """

    __slots__ = ("_op",)

    def __init__(self, op: Operation) -> None:
        self._op = op

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, JoineryError):
            name_line(error, self._op)


def name_line(error: JoineryError, op: Operation) -> None:
    """Adds the line that an operation comes from to the message of what treating it raised, unless the message
    names one; of a call that it happened in, the line that calls."""
    is_assertion = isinstance(error, KernelAssertionError)  # which says itself where it stands, if it is known
    if op.name == "tt.call" and (error.origin is not None or is_assertion):
        calls = called_from([each for each in (source_location(op), *callers_of(op)) if each is not None])
        if not str(error).endswith(calls):  # an inlined operation knows its callers
            error.args = (f"{error}{calls}", *error.args[1:])
    if error.origin is not None or is_assertion:
        return
    line = line_of(op)
    if line:
        error.origin = line
        error.args = (f"{error}\n  at {line}{called_from(callers_of(op))}", *error.args[1:])


def line_of(op: Operation) -> str:
    """Returns `file:line` of the operation or its nearest ancestor that has one; "" if none has."""
    here: Operation | None = op
    while here is not None:
        location = source_location(here)
        if location is not None:
            return f"{location[0]}:{location[1]}"
        here = here.parent_op()
    return ""
