"""Encodes the steps of a GPU's program as JSON, and checks those that come from a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...lowering.artifact import GpuBranch, GpuCarried, GpuLoop, GpuSection, GpuSlice, GpuStep, Location
from .header import Check, Json, integer, items, non_negative, row, size, text

MAX_DEPTH = 64
"""How deep loops and branches of a file may lie inside each other."""
_KINDS = ("input", "constant", "output", "temporary", "variable")


def step_fields(step: GpuStep) -> Json:
    """Return a step as JSON."""
    match step:
        case GpuSection():
            return ["launches", step.first, step.last]
        case GpuBranch():
            arms: list[Json] = [[step_fields(each) for each in arm] for arm in (step.then, step.otherwise)]
            return ["branch", list(step.condition), *arms, _optional(step.number)]
    carried: Json = [
        [list(each.begin), each.now, each.following, each.spare, [list(memory) for memory in each.memory]]
        for each in step.carried
    ]
    slices: Json = [_slice_fields(each) for each in step.slices]
    body, condition = ([step_fields(each) for each in steps] for steps in (step.body, step.condition))
    optional = [_optional(each) for each in (step.limit, step.asked, step.index, step.count)]
    return ["loop", body, carried, slices, step.length, condition, *optional, step.reverse]


def _slice_fields(each: GpuSlice) -> Json:
    if each.positions is None:
        return [list(each.whole), each.row, each.nbytes]
    return [list(each.whole), each.row, each.nbytes, list(each.positions), each.count, each.bits]


def _optional(location: Location | None) -> Json:
    return None if location is None else list(location)


def location(value: object) -> Location:
    """Check a location."""
    kind, index = row(value, text, non_negative)
    if kind not in _KINDS:
        raise ValueError(f"a buffer of kind {kind[:100]!r}")
    return kind, index


def _maybe(value: object) -> Location | None:
    return None if value is None else location(value)


def _variable(value: object) -> int:
    found = integer(value)
    if found < -1:
        raise ValueError(f"variable {found}")
    return found


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"expected true or false, got {type(value).__name__}")
    return value


def _carried(value: object) -> GpuCarried:
    found = GpuCarried(*row(value, location, non_negative, _variable, _variable, items(location)))
    rotates = found.following >= 0 and found.spare >= 0 and len(found.memory) == 2
    if not rotates and (found.following, found.spare, found.memory) != (-1, -1, ()):
        raise ValueError("a carried value without two locations for it")
    return found


def _slice(value: object) -> GpuSlice:
    plain = (location, non_negative, size)
    if not isinstance(value, list) or len(value) == len(plain):
        return GpuSlice(*row(value, *plain))
    found = GpuSlice(*row(value, *plain, location, size, non_negative))
    if found.bits not in (32, 64):
        raise ValueError(f"positions of {found.bits} bits")
    return found


def _length(value: object) -> int | str:
    return text(value) if isinstance(value, str) else _variable(value)


def steps(value: object, depth: int = 0) -> tuple[GpuStep, ...]:
    """Check the steps of a program or region; whether their numbers fit the program is `check_steps`' part."""
    if depth > MAX_DEPTH:
        raise ValueError(f"loops and branches {depth} deep")

    def inner(given: object) -> tuple[GpuStep, ...]:
        return steps(given, depth + 1)

    forms: Mapping[str, tuple[Callable[..., GpuStep], tuple[Check, ...]]] = {
        "launches": (GpuSection, (non_negative, non_negative)),
        "branch": (GpuBranch, (location, inner, inner, _maybe)),
        "loop": (_loop, (inner, items(_carried), items(_slice), _length, inner, _maybe, _maybe, _maybe, _maybe, _flag)),
    }

    def step(given: object) -> GpuStep:
        kind = given[0] if isinstance(given, list) and given else None
        if not isinstance(kind, str) or kind not in forms:
            raise ValueError(f"a step of kind {kind!r:.100}")
        made, checks = forms[kind]
        return made(*row(given, text, *checks)[1:])

    return items(step)(value)


def _loop(body: Any, carried: Any, slices: Any, length: Any, condition: Any, limit: Any, asked: Any, index: Any, count: Any,
          reverse: bool) -> GpuLoop:  # fmt: skip
    if condition and asked is None:
        raise ValueError("a loop with a condition that nothing reads")
    return GpuLoop(body, carried, slices, length, limit, condition, asked, index, count, reverse)


def check_steps(found: Iterable[GpuStep], launches: int, counts: Mapping[str, int]) -> str:
    """Return what numbers of steps are out of range, or "". counts: of the buffers of each kind, and of variables."""
    for step in found:
        variables: list[int] = []
        locations: list[Location | None] = []
        inner: list[tuple[GpuStep, ...]] = []
        match step:
            case GpuSection():
                if not step.first <= step.last <= launches:
                    return f"launches {step.first} to {step.last} of {launches}"
            case GpuBranch():
                locations, inner = [step.condition, step.number], [step.then, step.otherwise]
            case GpuLoop():
                locations = [step.limit, step.asked, step.index, step.count]
                locations += [one for each in step.slices for one in (each.whole, each.positions)]
                locations += [one for each in step.carried for one in (each.begin, *each.memory)]
                variables = [number for each in step.carried for number in (each.now, each.following, each.spare)]
                variables += [each.row for each in step.slices]
                inner = [step.condition, step.body]
        for each in locations:
            if each is not None and each[1] >= counts[each[0]]:
                return f"{each[0]} {each[1]} of {counts[each[0]]}"
        for number in variables:
            if number >= counts["variable"]:
                return f"variable {number} of {counts['variable']}"
        for region in inner:
            problem = check_steps(region, launches, counts)
            if problem:
                return problem
    return ""
