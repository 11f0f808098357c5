"""Tells new names of specifications from mistyped ones, which would be any number without anybody noticing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence

from .expressions import Assumption, Comparison, Declared, Joined, names_in
from .specification import GRID_NAMES, ParsedSpecification

_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_FREE_GRID = re.compile(rf"({'|'.join(GRID_NAMES)})_*")


def mistaken(parsed: ParsedSpecification, numbers: Sequence[str]) -> str | None:
    """Returns what is wrong with a name that is no number of a kernel's, with a fix; None if nothing is.

    numbers: the integer parameters. A new name is one that an extent or the grid has, or an equation with known ones, and
    that is not nearly a parameter's; or one that `number(name)` declares.
    """
    declared = {each for _, assumption in parsed.assume for each in _declared(assumption)}
    sizes = (*parsed.extents.values(), *parsed.grid, *parsed.points().values())
    launched = {name for each in sizes for name in names_in(each)}
    known = {*numbers, *declared}
    said = known | launched
    while True:  # what an equation says of names that are known
        new = {name for _, assumption in parsed.assume for name in _defined(assumption, said)} - said
        if not new:
            break
        said |= new
    for name in parsed.names():
        if name in known or (_FREE_GRID.fullmatch(name) and name in launched):
            continue
        near = nearest(name, numbers)
        if name in _OPTIONS:
            return f"{name} is how a kernel is compiled, which no proof depends on, and no size; fix: leave it out"
        slip = [each for each in numbers if _is_slip(name, each)]
        if slip:
            return f"{name!r} is no number of the kernel's, and nearly {slip[0]!r}; fix: {slip[0]!r}, or {_declaring(name)}"
        if name not in said:
            meant = f"{near!r}, or " if near else ""
            return (
                f"{name!r} is no number of the kernel's, and stands in no extent, in no grid and in no equation with what "
                f"does; fix: {meant}{_declaring(name)}"
            )
    return None


def nearest(name: str, known: Collection[str]) -> str | None:
    """Returns the known name that is most like another one; None if there are none."""
    return next(iter(difflib.get_close_matches(name, known, 1, 0.0)), None)


def _declaring(name: str) -> str:
    return f"'number({name})' among the assumptions, which declares a new one"


def _declared(assumption: Assumption) -> list[str]:
    match assumption:
        case Declared(name):
            return [name]
        case Joined("and", parts):
            return [name for part in parts for name in _declared(part)]
    return []


def _defined(assumption: Assumption, said: Collection[str]) -> list[str]:
    """Returns the names in equations that have a name of which something is said."""
    match assumption:
        case Comparison("==", _, _):
            names = list(names_in(assumption))
            return names if any(name in said for name in names) else []
        case Joined("and", parts):
            return [name for part in parts for name in _defined(part, said)]
    return []


def _is_slip(name: str, known: str) -> bool:
    """Returns whether a name is another one but for one letter, case or underscores; two single letters are two names."""
    one, two = [each.replace("_", "").casefold() for each in (name, known)]
    if one == two:
        return True
    if max(len(one), len(two)) < 2 or abs(len(one) - len(two)) > 1 or not one or not two:
        return False
    if len(one) == len(two):
        other = [at for at in range(len(one)) if one[at] != two[at]]
        at = other[0]
        return len(other) == 1 or (other == [at, at + 1] and one[at : at + 2] == two[at : at + 2][::-1])
    short, long = sorted((one, two), key=len)
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


__all__ = ["mistaken", "nearest"]
