"""Looks for launches: small sizes that satisfy assumptions, and those that break a property, which the sanitizer runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from ..tt.sanitize.findings import Finding
from .preparation import GATHER, Access, PreparedFunction
from .proof import Counterexample
from .specify.expressions import evaluate
from .specify.specification import ParsedSpecification
from .terms.formulas import Formula, at_least, at_most
from .world import World

Confirm = Callable[[Mapping[str, int], Mapping[str, int], tuple[int, int, int], Mapping[str, int]], Sequence[Finding]]
"""Runs a launch in the sanitizer: (sizes, extents of arrays, grid, contents of arrays of integers) → what it found."""

_SMALL = (8, 40, 300, 3000)
_MAX_ELEMENTS = 1 << 22
_MAX_PROGRAMS = 1 << 10
_KINDS = {"bounds": ("out-of-bounds",), "races": ("race", "lane-race")}
_OPERATION = re.compile(r"\b(?:tt|ttng)\.[a-z_]+")


class Launches:
    """Finds launches of one function under one specification.

    Attributes:
        arrays: says which parameter an access is to; "" if that is not known.
    """

    def __init__(
        self, prepared: PreparedFunction, parsed: ParsedSpecification, confirm: Confirm | None, arrays: Callable[[Access], str]
    ) -> None:
        """Starts with nothing run."""
        self._prepared = prepared
        self._parsed = parsed
        self._confirm = confirm
        self._arrays = arrays

    def sizes(self, world: World, formulas: Sequence[Formula], bound: int | None = None) -> dict[str, int] | None:
        """Returns sizes that satisfy the assumptions, and formulas besides, small ones if there are any."""
        found = self._model(world, formulas, (bound,) if bound is not None else (*_SMALL, 1 << 40))
        return None if found is None else found[0]

    def _model(
        self, world: World, formulas: Sequence[Formula], bounds: Sequence[int]
    ) -> tuple[dict[str, int], dict[str, int]] | None:
        """Returns (sizes, contents of arrays) for which formulas hold; None if none are found."""
        for bound in bounds:
            small = [at_most(size, bound) for size in world.symbols.values() if size.number is None]
            small += [at_least(size, -bound) for size in world.symbols.values() if size.number is None]
            model = world.solver.model([*world.base, *formulas, *small])
            if model is None:
                continue
            sizes = {}
            for name, symbol in world.symbols.items():
                sizes[name] = symbol.value(model)
            if not self._parsed.holds(sizes):
                continue
            contents: dict[str, int] = {}
            for atom, position in world.terms.loaded.items():
                if atom in model:
                    contents.setdefault(self._prepared.parameters[position].name, model[atom])
            return sizes, contents
        return None

    def _fills(self, sizes: Mapping[str, int], contents: Mapping[str, int]) -> list[dict[str, int]]:
        """Returns values for the elements of arrays of integers: those of a model, and 0, as far as they are allowed."""
        ranges = self._parsed.ranges_of_contents(sizes)
        found = []
        for wanted in (contents, {}):
            fill = dict(wanted)
            for name, (low, high) in ranges.items():
                value = fill.get(name, 0)
                value = value if low is None or value >= low else low
                fill[name] = value if high is None or value <= high else high
            if fill not in found:
                found.append(fill)
        return found

    def search(
        self, world: World, prop: str, accesses: tuple[Access, ...], formulas: Sequence[Formula]
    ) -> Counterexample | None:
        """Looks for a small launch in which the formulas hold, and runs it in the sanitizer."""
        if self._confirm is None or not formulas:
            return None
        for bound in _SMALL:
            found = self._model(world, formulas, (bound,))
            if found is None:
                continue
            sizes, contents = found
            x, y, z = [evaluate(axis, sizes) for axis in self._parsed.grid]
            extents = {name: evaluate(extent, sizes) for name, extent in self._parsed.extents.items()}
            if x * y * z > _MAX_PROGRAMS or sum(extents.values()) > _MAX_ELEMENTS:
                continue
            for fill in self._fills(sizes, contents):
                for finding in self._confirm(sizes, extents, (x, y, z), fill):
                    if finding.kind in _KINDS[prop] and self._is_of(finding, accesses):
                        return Counterexample(tuple(sizes.items()), (x, y, z), tuple(fill.items()), finding)
        return None

    def _is_of(self, finding: Finding, accesses: tuple[Access, ...]) -> bool:
        """Returns whether a finding is about one of the accesses, and of a race the other side about another one."""
        for access in accesses:
            if self._guilty(finding) is not access:
                continue
            others = [each for each in accesses if each is not access] or [access]
            if finding.kind != "race" or any(_is_at(finding.origin, each.line) for each in others):
                return True
        return False

    def _guilty(self, finding: Finding) -> Access | None:
        """Returns the access that a finding is about; None if there are several that it could be."""
        named = _OPERATION.search(finding.operation)
        kind = "" if named is None else _kind(named.group())
        possible = [each for each in self._prepared.accesses if _kind(each.op.name) == kind and _is_at(finding.line, each.line)]
        exact = [each for each in possible if each.line == finding.line]
        possible = exact or possible
        if len(possible) > 1:
            name = finding.address.partition(" ")[0].removeprefix("%")
            possible = [each for each in possible if self._arrays(each) == name]
        return possible[0] if len(possible) == 1 else None


def _kind(operation: str) -> str:
    """Returns what an operation does to memory, by its name; descriptors' are expanded to others of the same kind."""
    if operation == GATHER:
        return operation
    for kind, names in (("atomic", ("atomic", "reduce")), ("load", ("load", "gather")), ("store", ("store", "scatter"))):
        if any(name in operation for name in names):
            return kind
    return operation


def _is_at(line: str, other: str) -> bool:
    """Returns whether two lines are one; inlined operations name their callers, too."""
    return line == other or line.split(" called at ")[0] == other.split(" called at ")[0]


__all__ = ["Confirm", "Launches"]
