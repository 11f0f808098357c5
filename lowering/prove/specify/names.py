"""Tells new names of specifications from mistyped ones, which would be any number without anybody noticing."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterator, Sequence

from .expressions import Assumption, Comparison, Declared, Joined, Name, arrays_in, names_in
from .specification import GRID_NAMES, ParsedSpecification

_OPTIONS = ("num_warps", "num_stages", "num_ctas")
_FREE_GRID = re.compile(rf"({'|'.join(GRID_NAMES)})_*")


def mistaken(parsed: ParsedSpecification, numbers: Sequence[str]) -> str | None:
    """Returns what is wrong with a name that is no number of a kernel's, with a fix; None if nothing is.

    numbers: the integer parameters. A new name is one that an extent or the grid has, or an equation with known ones, and
    that is not nearly a parameter's; one that an equation defines; or one that `number(name)` declares.
    """
    declared = [name for _, assumption in parsed.assume for name in _declared(assumption, ("and", "or"))]
    for name in declared:
        if name in numbers:
            return f"number({name}) declares a new number, and {name!r} is one of the kernel's; fix: leave it out"
        if name in _OPTIONS:
            return _no_size(name)
    sizes = (*parsed.extents.values(), *parsed.grid, *parsed.points().values())
    launched = {name for each in sizes for name in names_in(each)}
    known = {*numbers, *[name for _, assumption in parsed.assume for name in _declared(assumption, ("and",))]}
    comparisons = [each for _, assumption in parsed.assume for each in _comparisons(assumption)]
    said = known | launched
    while True:  # what an equation says of names that are known
        new = {name for each in comparisons for name in _named(each, said)} - said
        if not new:
            break
        said |= new
    defined = _definitions(comparisons, numbers, known | launched)
    for name in parsed.names():
        if name in known or (_FREE_GRID.fullmatch(name) and name in launched):
            continue
        near = nearest(name, numbers)
        if name in _OPTIONS:
            return _no_size(name)
        slip = _slips(name, numbers)
        equation = defined.get(name)
        if equation is not None and slip:
            # Whoever means a parameter does not say what it is by itself, and has no use for another name.
            is_used = name in launched or any(_relates(each, name) for each in comparisons if each is not equation)
            slip = [] if is_used else [each for each in slip if each not in names_in(equation)]
        if slip:
            return f"{name!r} is no number of the kernel's, and nearly {slip[0]!r}; fix: {slip[0]!r}, or {_declaring(name)}"
        if name not in said:
            meant = f"{near!r}, or " if near else ""
            return (
                f"{name!r} is no number of the kernel's, and stands in no extent, in no grid and in no equation with what "
                f"does; fix: {meant}{_declaring(name)}"
            )
    return None


def _no_size(option: str) -> str:
    return f"{option} is how a kernel is compiled, which no proof depends on, and no size; fix: leave it out"


def nearest(name: str, known: Collection[str]) -> str | None:
    """Returns the known name that is most like another one; None if there are none."""
    return next(iter(difflib.get_close_matches(name, known, 1, 0.0)), None)


def _declaring(name: str) -> str:
    return f"'number({name})' among the assumptions, which declares a new one"


def _declared(assumption: Assumption, joins: Collection[str]) -> list[str]:
    """Returns the names that are declared. joins: what may join the declaration to something else."""
    match assumption:
        case Declared(name):
            return [name]
        case Joined(by, parts) if by in joins:
            return [name for part in parts for name in _declared(part, joins)]
    return []


def _comparisons(assumption: Assumption) -> Iterator[Comparison]:
    """Yields the comparisons that hold in every launch."""
    match assumption:
        case Comparison():
            yield assumption
        case Joined("and", parts):
            for part in parts:
                yield from _comparisons(part)


def _named(comparison: Comparison, said: Collection[str]) -> list[str]:
    """Returns the names in an equation that has a name of which something is said."""
    names = list(names_in(comparison)) if comparison.relation == "==" else []
    return names if any(name in said for name in names) else []


def _definitions(comparisons: Sequence[Comparison], numbers: Sequence[str], known: Collection[str]) -> dict[str, Comparison]:
    """Returns the equations that say what new names are: the name alone, and something of known names only.

    numbers: the parameters. known: these and other names that launches have or that are declared.
    """
    given = {name for name in known if name in numbers or not _slips(name, numbers)}
    found: dict[str, Comparison] = {}
    while True:
        before = len(found)
        for each in comparisons:
            for one, two in ((each.left, each.right), (each.right, each.left)):
                others = {*names_in(two)}
                is_known = others and others <= given | found.keys() and not any(True for _ in arrays_in(two))
                if each.relation == "==" and isinstance(one, Name) and is_known and one.name not in {*others, *numbers}:
                    found.setdefault(one.name, each)
        if len(found) == before:
            return found


def _relates(comparison: Comparison, name: str) -> bool:
    """Returns whether a comparison is about a name and another one, too: one with numbers alone may be about a slip."""
    return {name} < {*names_in(comparison)}


def _slips(name: str, numbers: Sequence[str]) -> list[str]:
    return [each for each in numbers if _is_slip(name, each)]


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
