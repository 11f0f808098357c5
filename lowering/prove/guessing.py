"""Guesses a specification from one launch: the simplest sizes that have its values, and with which the most is proven.

Every guess holds in the launch, so guesses never contradict each other. What they say of others is for the user to read.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from ...promotion.dataclass import dataclass
from ..tt import types as t
from ..tt.dialect.attributes import property_number
from . import claims
from .evaluate.contexts import NotModelled
from .evaluate.evaluator import Run
from .evaluate.values import Pointer
from .preparation import Access, PreparedFunction
from .specify import candidates
from .specify.expressions import parse_assumption, parse_size
from .specify.specification import GRID_NAMES, Specification
from .terms.atoms import Terms
from .terms.formulas import Formula, at_most, polynomials_of
from .terms.polynomials import TooLarge
from .terms.solver import Budget
from .world import ALWAYS, AccessTerms, World

_MAX_CANDIDATES = 6
_MAX_GRIDS = 6
_MAX_POOL = 160
_MAX_PARTNERS = 12
_LIMIT = 300_000
_TOTAL = 20_000_000
_FOR_A_GRID = 4_000_000


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch was called with.

    Attributes:
        numbers: integer parameters by name.
        elements: by array, its number of elements.
        contents: by array of integers, its least and largest element.
        grid: the numbers of programs.
    """

    numbers: Mapping[str, int]
    elements: Mapping[str, int]
    contents: Mapping[str, tuple[int, int]]
    grid: tuple[int, int, int]


class _RunOfSmallNumbers(Run):
    """A program whose numbers fit: what is guessed with it is proven without."""

    wraps = False


def guess(prepared: PreparedFunction, launch: Launch) -> Specification:
    """Returns a specification that fits a launch."""
    return _Guess(prepared, launch).run()


class _Guess:
    def __init__(self, prepared: PreparedFunction, launch: Launch) -> None:
        self.prepared = prepared
        self.launch = launch
        self.blocks = _blocks(prepared)
        used = {op.properties["axis"].value.data for op in prepared.function.walk() if op.name == "tt.get_program_id"}  # type: ignore[attr-defined]
        self.axes = [
            candidates.grids(value, launch.numbers, self.blocks, GRID_NAMES[axis]) if axis in used or value != 1 else ["1"]
            for axis, value in enumerate(launch.grid)
        ]  # fmt: skip
        self.budget = Budget(_LIMIT, 0)

    def run(self) -> Specification:
        signs = candidates.signs(self.launch.numbers)
        left = _TOTAL
        best: tuple[tuple[int, int], Specification] | None = None
        for number, grid in enumerate(itertools.islice(itertools.product(*self.axes), _MAX_GRIDS)):
            names = dict(self.launch.numbers)
            for axis, text in enumerate(grid):
                if text == GRID_NAMES[axis]:
                    names[text] = self.launch.grid[axis]
            self.budget.left = given = min(_FOR_A_GRID, left)
            found, proven, all_, relations = self._with_grid((grid[0], grid[1], grid[2]), names, signs)
            left -= given - self.budget.left
            score = (proven, -sum(10 if "==" in each else 1 for each in relations))
            if best is None or score > best[0]:
                best = score, found
            if left <= 0 or (proven == all_ and (number > 2 or not any("==" in each or "%" in each for each in relations))):
                break
        assert best is not None
        return best[1]

    def _with_grid(
        self, grid: tuple[str, str, str], names: Mapping[str, int], signs: list[str]
    ) -> tuple[Specification, int, int, list[str]]:
        ranges: list[str] = []
        sizes = {
            name: candidates.extents(value, names)[:_MAX_CANDIDATES] for name, value in self.launch.elements.items()
            if name in self.prepared.arrays
        }  # fmt: skip
        chosen = {name: options[0] for name, options in sizes.items()}
        world = self._world(signs, {}, grid)
        by_array = self._by_array(world)
        texts = candidates.assumptions(names, self.blocks)[-_MAX_POOL:]
        pool = [parse_assumption(text) for text in texts]
        formulas = [self._formula(world, each) for each in pool]
        for name, accesses in by_array.items():
            if name not in sizes:
                continue
            position = self.prepared.arrays[name]
            best = -1
            for option in sizes[name]:
                world.extents[position] = world.size(parse_size(option, "extent"))
                if best < 0:
                    best_option = option
                proven = sum(self._is_inside(world, access, []) for access in accesses)
                if proven > best:
                    best, best_option = proven, option
                if proven == len(accesses):
                    break
            if best < len(accesses):  # with everything that holds in the launch
                for option in sizes[name]:
                    world.extents[position] = world.size(parse_size(option, "extent"))
                    proven = sum(self._is_inside(world, access, formulas) for access in accesses)
                    if proven > best:
                        best, best_option = proven, option
                        break
            chosen[name] = best_option
            world.extents[position] = world.size(parse_size(best_option, "extent"))
        relations = self._relations(world, by_array, formulas, texts)
        ranges = self._contents(world, by_array, signs, relations, chosen, grid, names)
        if ranges:
            world = self._world([*signs, *relations, *ranges], chosen, grid)
            by_array = self._by_array(world)
            relations += self._relations(world, by_array, [self._formula(world, each) for each in pool], texts)
            world = self._world([*signs, *relations, *ranges], chosen, grid)
            by_array = self._by_array(world)
        else:
            world = self._world([*signs, *relations], chosen, grid)
            by_array = self._by_array(world)
        small = [at_most(size, 1 << 30) for size in (*world.symbols.values(), *world.extents.values()) if size.number is None]
        proven = sum(world.solver.is_impossible(*world.base, *small, *target) for target in self._targets(world, by_array))
        used = [name for name in chosen if name in by_array]
        specification = Specification(
            tuple([*signs, *relations, *ranges]), tuple([(name, chosen[name]) for name in chosen if name in used]), grid
        )
        all_ = len(self._targets(world, by_array))
        return specification, proven, all_, relations

    def _world(self, assume: Sequence[str], extents: Mapping[str, str], grid: tuple[str, str, str]) -> World:
        parsed = Specification(tuple(assume), tuple(extents.items()), grid).parsed()
        return World(self.prepared, parsed, self.budget, _RunOfSmallNumbers)

    def _formula(self, world: World, assumption: object) -> Formula:
        return world.assumption(assumption)  # type: ignore[arg-type]

    def _by_array(self, world: World) -> dict[str, list[Access]]:
        found: dict[str, list[Access]] = {}
        for access in self.prepared.accesses:
            try:
                pointer = None if access.obstacle else world.access_terms(access).pointer
            except (NotModelled, TooLarge, RecursionError):
                continue
            if isinstance(pointer, Pointer) and not access.is_gather:
                found.setdefault(self.prepared.parameters[pointer.base].name, []).append(access)
        return found

    def _gathers(self, world: World) -> list[Access]:
        """Returns the accesses to elements of blocks by indices that are known as terms."""
        found = []
        for access in self.prepared.accesses:
            try:
                if access.is_gather and isinstance(world.access_terms(access).pointer, Pointer):
                    found.append(access)
            except (NotModelled, TooLarge, RecursionError):
                continue
        return found

    def _is_inside(self, world: World, access: Access, given: Sequence[Formula]) -> bool:
        terms = world.access_terms(access)
        assert isinstance(terms.pointer, Pointer)
        fault = claims.outside(world, access, terms.pointer)
        return fault is not None and world.solver.is_impossible(*world.base, *given, terms.live, fault)

    def _targets(self, world: World, by_array: Mapping[str, list[Access]]) -> list[list[Formula]]:
        """Returns what must be impossible: accesses outside their arrays, programs and lanes that meet."""
        found: list[list[Formula]] = []
        for accesses in by_array.values():
            for number, one in enumerate(accesses):
                terms = world.access_terms(one)
                assert isinstance(terms.pointer, Pointer)
                fault = claims.outside(world, one, terms.pointer)
                if fault is not None:
                    found.append([terms.live, fault])
                if one.writes and not one.is_atomic and one.shape and fault is not None:
                    found.append(claims.lanes_meet(world, one, ALWAYS))
                found += [
                    claims.programs_meet(world, one, two, ALWAYS) for two in accesses[number:][:_MAX_PARTNERS]
                    if (one.writes or two.writes) and not (one.is_ordered and two.is_ordered) and fault is not None
                ]  # fmt: skip
        return found

    def _relations(
        self, world: World, by_array: Mapping[str, list[Access]], formulas: list[Formula], texts: list[str]
    ) -> list[str]:
        """Returns assumptions from the pool with which more is proven than without, none of them for nothing."""
        def is_impossible(target: list[Formula], given: Sequence[Formula]) -> bool:
            return world.solver.is_impossible(*world.base, *given, *target)

        kept: dict[int, None] = {}
        for target in self._targets(world, by_array):
            given = [formulas[number] for number in kept]
            if is_impossible(target, given) or not is_impossible(target, formulas):
                continue
            chosen = list(range(len(formulas)))
            step = max(1, len(chosen) // 2)
            while True:
                at = 0
                while at < len(chosen):
                    fewer = chosen[:at] + chosen[at + step :]
                    if is_impossible(target, [*given, *[formulas[number] for number in fewer]]):
                        chosen = fewer
                    else:
                        at += step
                if step == 1:
                    break
                step = max(1, step // 2)
            kept.update(dict.fromkeys(chosen))
        return [texts[number] for number in sorted(kept, reverse=True)]

    def _contents(
        self, world: World, by_array: Mapping[str, list[Access]], signs: list[str], relations: list[str],
        chosen: Mapping[str, str], grid: tuple[str, str, str], names: Mapping[str, int],
    ) -> list[str]:  # fmt: skip
        """Returns ranges of arrays of integers from which addresses are computed that are not proven without."""
        wanted: dict[str, None] = {}
        for accesses in by_array.values():
            for access in accesses:
                terms = world.access_terms(access)
                given = [self._formula(world, parse_assumption(text)) for text in relations]
                if isinstance(terms.pointer, Pointer) and not self._is_inside(world, access, given):
                    for atom in _all_atoms(world.terms, terms):
                        if atom in world.terms.loaded:
                            wanted[self.prepared.parameters[world.terms.loaded[atom]].name] = None
        gathers = self._gathers(world)
        for access in gathers:
            terms = world.access_terms(access)
            given = [self._formula(world, parse_assumption(text)) for text in relations]
            if not self._is_inside(world, access, given):
                for atom in _all_atoms(world.terms, terms):
                    if atom in world.terms.loaded:
                        wanted[self.prepared.parameters[world.terms.loaded[atom]].name] = None
        written = {name for name, accesses in by_array.items() if any(access.writes for access in accesses)}
        found: list[str] = []
        for name in wanted:
            if name in written or name not in self.launch.contents:
                continue
            low, high = self.launch.contents[name]
            factors = [text.split(" ")[0] for text in chosen.values()]
            limits = [int(factor) for factor in factors if factor.isdigit()]
            limits += sorted({t.shape_of(each.op.operands[0].type)[property_number(each.op, "axis")] for each in gathers})
            options = candidates.contents(name, low, high, names, limits)[:_MAX_CANDIDATES]
            best, kept = -1, None
            for option in options:
                tried = self._world([*signs, *relations, *found, option], chosen, grid)
                proven = sum(self._is_inside(tried, access, []) for each in self._by_array(tried).values() for access in each)
                proven += sum(self._is_inside(tried, access, []) for access in self._gathers(tried))
                if proven > best:
                    best, kept = proven, option
            if kept is not None:
                found.append(kept)
        return found


def _all_atoms(terms: Terms, access: AccessTerms) -> list[int]:
    assert isinstance(access.pointer, Pointer)
    seen: dict[int, None] = {}
    waiting = [*access.pointer.offset.atoms, *[atom for each in polynomials_of((access.live,)) for atom in each.atoms]]
    while waiting:
        atom = waiting.pop()
        if atom not in seen:
            seen[atom] = None
            waiting += [each for polynomial in polynomials_of(terms.atoms[atom].facts) for each in polynomial.atoms]
    return list(seen)


def _blocks(prepared: PreparedFunction) -> list[int]:
    """Returns the extents of blocks of the function."""
    found: dict[int, None] = {}
    for op in prepared.function.walk():
        for result in op.results:
            if t.is_tensor(result.type):
                found.update(dict.fromkeys(t.shape_of(result.type)))
        if op.name == "arith.constant":
            value = getattr(getattr(op.properties["value"], "value", None), "data", 0)
            if isinstance(value, int) and 1 < value <= 4096:
                found[value] = None
    return sorted(found)


__all__ = ["Launch", "guess"]
