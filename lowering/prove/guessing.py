"""Guesses a specification from one launch: the simplest sizes that have its values, and with which the most is proven.

Every guess holds in the launch, so guesses never contradict each other. What they say of others is for the user to read.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr

from ...promotion.dataclass import dataclass
from ..tt import types as t
from ..tt.dialect.attributes import property_number
from . import claims
from .evaluate.contexts import NotModelled
from .evaluate.evaluator import Run
from .evaluate.values import Pointer
from .hints import Hints
from .preparation import Access, PreparedFunction
from .specify import candidates
from .specify.expressions import Assumption, evaluate, holds, names_in, parse_assumption, parse_size
from .specify.remarks import factors, is_usual_extent
from .specify.specification import GRID_NAMES, Specification
from .terms.atoms import Terms
from .terms.formulas import Formula, at_most, equal, negated, polynomials_of
from .terms.polynomials import TooLarge
from .terms.solver import Budget
from .world import ALWAYS, AccessTerms, World

_MAX_CANDIDATES = 6
_MAX_SHORTER = 2
_MAX_GRIDS = 6
_MANY = 12
_MAX_BLOCK = 4096
_MAX_ONES = 6
_MAX_POOL = 160
_MAX_PARTNERS = 12
_LIMIT = 300_000
_TOTAL = 24_000_000
_FOR_A_GRID = 12_000_000
_OF_AN_EQUATION = 10
"""What an equation counts, and an axis of the grid with one number of programs, where other assumptions count 1."""
_OF_A_TARGET, _OF_A_NUMBER = 5, 2
"""What a target counts that is proven, and what a size takes away that is one number: three of them are more than a target."""
_PATIENCE = 2
"""Grids in a row that bring nothing better, after which no more are tried."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch was called with.

    Attributes:
        numbers: integer parameters by name.
        elements: by array, its number of elements.
        contents: by array of integers that has elements, its least and largest one.
        grid: the numbers of programs.
        distinct: arrays of integers of which no two elements are equal.
        axes: names for the numbers of programs, none of them a parameter's.
        broken: parameters that are not multiples of what the text promises (`tt.divisibility`).
    """

    numbers: Mapping[str, int]
    elements: Mapping[str, int]
    contents: Mapping[str, tuple[int, int]]
    grid: tuple[int, int, int]
    distinct: frozenset[str] = frozenset()
    axes: tuple[str, str, str] = GRID_NAMES
    broken: tuple[str, ...] = ()

    def sizes(self) -> dict[str, int]:
        """Returns the integer parameters and the numbers of programs, by what specifications call them."""
        return {**dict(zip(self.axes, self.grid, strict=True)), **self.numbers}


class _RunOfSmallNumbers(Run):
    """A program whose numbers fit: what is guessed with it is proven without."""

    wraps = False


def guess(prepared: PreparedFunction, launch: Launch, others: Sequence[Launch] = ()) -> Specification:
    """Returns a specification that fits a launch, and other ones of the same function.

    It is made of what the launch says in which most sizes are different ones, and of one with the number 1 least is said.
    """
    first, *rest = sorted((launch, *others), key=lambda each: -len({*each.sizes().values()} - {1}))
    return _Guess(prepared, first, rest).run()


class _Guess:
    def __init__(self, prepared: PreparedFunction, launch: Launch, others: Sequence[Launch]) -> None:
        self.prepared = prepared
        self.launch = launch
        self.others = others
        self.blocks = _blocks(prepared)
        self.factors = factors(own_numbers(prepared))
        self.budget = Budget(_LIMIT, _FOR_A_GRID)
        self.texts: list[str] = []
        self.numbers = _used(prepared, launch.numbers)
        self.signs = self._true(candidates.signs(self.numbers))
        self.hints = self._make_hints()
        used = prepared.asked_axes
        several = [any(each.grid[axis] != 1 for each in (launch, *others)) for axis in range(3)]
        self.axes = [
            self._axis(axis, value) if axis in used or several[axis] else ["1"] for axis, value in enumerate(launch.grid)
        ]
        self.products = self.hints.products([axis[0] for axis in self.axes])

    def _axis(self, axis: int, value: int) -> list[str]:
        """Returns what the number of programs along an axis may be, the likeliest first."""
        first = self.hints.grids(axis, value)
        if not first and value > 1:
            first = [*[name for name, number in self.numbers.items() if number == value][:1], self.launch.axes[axis]]
        found = dict.fromkeys([*first, *candidates.grids(value, self.numbers, self.blocks, self.launch.axes[axis])])
        meant_twice = self.numbers.keys() & set(GRID_NAMES)  # in a grid, these are refused
        return [
            text for text in found if not meant_twice & set(names_in(parse_size(text, "the grid")))
            and all(_value(text, other) == other.grid[axis] for other in self.others)
        ]  # fmt: skip

    def _true(self, texts: Sequence[str]) -> list[str]:
        """Returns those assumptions about sizes that hold in all other launches."""
        return [text for text in texts if all(holds(parse_assumption(text), other.sizes()) for other in self.others)]

    def _make_hints(self) -> Hints:
        """Returns what the kernel's masks and addresses say, for a grid of any size."""
        world = self._world(self.signs, {}, self.launch.axes)
        terms = [world.access_terms(access) for accesses in self._by_array(world).values() for access in accesses]
        return Hints(world, terms, self.numbers)

    def run(self) -> Specification:
        signs = self.signs
        ones = self._true([f"{name} == 1" for name, number in self.numbers.items() if number == 1])[:_MAX_ONES]
        left = _TOTAL
        best: tuple[tuple[int, int], Specification] | None = None
        every = itertools.product(*[range(len(axis)) for axis in self.axes])
        ranked = sorted(every, key=lambda ranks: (sum(ranks), max(ranks)))[:_MAX_GRIDS]
        variants: list[list[str]] = [[], ones] if ones else [[]]
        tried = [(ranks, fixed) for ranks in ranked for fixed in variants]
        better = 0
        for number, (ranks, fixed) in enumerate(tried):
            grid = [axis[rank] for axis, rank in zip(self.axes, ranks, strict=True)]
            names = dict(self.numbers)
            for axis, text in enumerate(grid):
                if text == self.launch.axes[axis]:
                    names[text] = self.launch.grid[axis]
            self.budget.left = given = min(_FOR_A_GRID, left)
            found, proven, all_, relations, closed = self._with_grid((grid[0], grid[1], grid[2]), names, [*signs, *fixed])
            left -= given - self.budget.left
            relations = [*relations, *fixed]
            cost = sum(_OF_AN_EQUATION if "==" in each else 1 for each in relations) + _OF_AN_EQUATION * closed
            score = (_OF_A_TARGET * proven - _OF_A_NUMBER * _fixed(relations, grid, names), -cost)
            if best is None or score > best[0]:
                best, better = (score, found), number
            few = number >= min(3, len(tried) - 1)
            if left <= 0 or number - better >= _PATIENCE * len(variants):
                break
            if proven == all_ and (few or not (closed or any("==" in each or "%" in each for each in relations))):
                break
        assert best is not None
        return best[1]

    def _with_grid(
        self, grid: tuple[str, str, str], names: Mapping[str, int], signs: list[str]
    ) -> tuple[Specification, int, int, list[str], int]:
        ranges: list[str] = []
        elements = {name: value for name, value in self.launch.elements.items() if self._has_extent(name)}
        world = self._world(signs, {}, grid)
        by_array = self._by_array(world)
        indexed = {name for name, accesses in by_array.items() if any(self._is_indexed(world, each) for each in accesses)}
        hinted = {name: self._hinted(name, value, grid) for name, value in elements.items()}
        programs = names.keys() - self.numbers.keys()
        sizes = {
            name: self._extents(name, names, [*hinted[name][0], *candidates.extents(value, names, name in indexed, programs)])
            for name, value in elements.items()
        }  # fmt: skip
        sizes = {name: options for name, options in sizes.items() if options}
        chosen = {name: options[0] for name, options in sizes.items()}
        self.texts = texts = self._pool(world, by_array, names)
        pool = [parse_assumption(text) for text in texts]
        formulas = self._named(world, pool)
        for name in [each for each in by_array if each in sizes]:
            position = self.prepared.arrays[name]
            options = sizes[name]
            if name not in indexed:  # loaded indices reach as far as the array does
                shorter = [candidates.shorter(elements[name], names), hinted[name][1]]
                products, ends = [self._fitting(name, each)[:_MAX_SHORTER] for each in shorter]
                options = self._in_order(options, products, ends, names, elements[name])
            found = self._sized(world, by_array[name], position, options, sizes[name], formulas)
            chosen[name] = found
            world.extents[position] = world.size(parse_size(found, "extent"))
        relations = self._relations(world, by_array, formulas, texts)
        ranges = self._contents(world, by_array, signs, relations, chosen, grid, names)
        if ranges:
            world = self._world([*signs, *relations, *ranges], chosen, grid)
            by_array = self._by_array(world)
            relations += self._relations(world, by_array, self._named(world, pool), texts)
            world = self._world([*signs, *relations, *ranges], chosen, grid)
            by_array = self._by_array(world)
        else:
            world = self._world([*signs, *relations], chosen, grid)
            by_array = self._by_array(world)
        proven, all_ = self._proven(world, by_array)
        if proven < all_ and (orders := self._orders(by_array)):
            given = [*signs, *relations, *ranges]
            with_orders, own = self._proven_with([*given, *orders], chosen, grid)
            if with_orders > proven:
                for order in list(orders):
                    fewer = [each for each in orders if each != order]
                    if fewer and self._proven_with([*given, *fewer], chosen, grid)[0] >= with_orders:
                        orders = fewer
                proven, by_array, ranges = with_orders, own, [*ranges, *orders]
        used = [name for name in chosen if name in by_array]
        specification = Specification(
            tuple([*signs, *relations, *ranges]), tuple([(name, chosen[name]) for name in chosen if name in used]), grid
        )
        return specification, proven, all_, relations, self._closed(world, relations)

    def _is_indexed(self, world: World, access: Access) -> bool:
        """Returns whether an access is where loaded numbers say."""
        return any(atom in world.terms.loaded for atom in _all_atoms(world.terms, world.access_terms(access)))

    def _closed(self, world: World, relations: Sequence[str]) -> int:
        """Returns along how many axes a guess leaves one program, of those along which programs ask which one they are.

        One program has no races with others, so this is not to be preferred where more are proven as well. An axis of which
        an equation fixes the size is none of them: the equation counts.
        """
        equations = [parse_assumption(text) for text in relations if "==" in text]
        equated = {name for each in equations for name in names_in(each)} - {*self.launch.axes}
        is_limited = any("==" in text or "<=" in text for text in relations)
        found = 0
        for axis in self.prepared.asked_axes:
            programs = world.grid[axis]
            if self.launch.grid[axis] == 1 and not equated & set(names_in(world.specification.grid[axis])):
                several = negated(equal(programs, 1))
                found += programs.number == 1 or (is_limited and world.solver.is_impossible(*world.base, several))
        return found

    def _proven(self, world: World, by_array: Mapping[str, list[Access]]) -> tuple[int, int]:
        """Returns how many targets are proven where sizes are small, and how many there are."""
        sizes = [*world.symbols.values(), *world.extents.values()]
        small = [at_most(size, 1 << 30) for size in sizes if size.number is None]
        targets = self._targets(world, by_array)
        return sum(world.solver.is_impossible(*world.base, *small, *target) for target in targets), len(targets)

    def _proven_with(
        self, assume: Sequence[str], chosen: Mapping[str, str], grid: tuple[str, str, str]
    ) -> tuple[int, dict[str, list[Access]]]:  # fmt: skip
        """Returns how many targets are proven under other assumptions, and the accesses by array."""
        world = self._world(assume, chosen, grid)
        by_array = self._by_array(world)
        return self._proven(world, by_array)[0], by_array

    def _orders(self, by_array: Mapping[str, list[Access]]) -> list[str]:
        """Returns that no two elements are equal of arrays of which that is so in the launch, and which are only read."""
        written = {name for name, accesses in by_array.items() if any(access.writes for access in accesses)}
        distinct = self.launch.distinct.intersection(*[other.distinct for other in self.others])
        names = [name for name in by_array if name in distinct and name not in written and self._has_extent(name)]
        return [f"distinct({name}[:])" for name in names]

    def _sized(
        self, world: World, accesses: Sequence[Access], position: int, options: Sequence[str], near: Sequence[str],
        formulas: Sequence[tuple[Formula, frozenset[str]]],
    ) -> str:  # fmt: skip
        """Returns the size with which the most accesses of an array are inside, or with everything that holds in the launch.

        options: sizes in the order in which they are tried; those that are not near ones count if all accesses are inside.
        """
        best, found = -1, near[0]
        for option in options:
            world.extents[position] = world.size(parse_size(option, "extent"))
            proven = sum(self._is_inside(world, access, []) for access in accesses)
            if proven == len(accesses):
                return option
            if proven > best and option in near:
                best, found = proven, option
        for option in near:
            world.extents[position] = world.size(parse_size(option, "extent"))
            if sum(self._is_inside_with(world, access, formulas) for access in accesses) > best:
                return option
        return found

    def _in_order(
        self, near: Sequence[str], products: Sequence[str], hinted: Sequence[str], names: Mapping[str, int], elements: int
    ) -> list[str]:  # fmt: skip
        """Returns near sizes of an array of so many elements with shorter ones between them, and just that before blocks.

        That an array is longer than it has to be is a better guess than a number that only fits the launch; `n + 1` comes
        before whole blocks, as it is marked where it is fitted to a fault.
        """
        odd = [text for text in near if not is_usual_extent(text, names, self.factors)]
        first = near.index(odd[0]) if odd else len(near)
        alone = [text for text in odd if " + " not in text]
        second = near.index(alone[0]) if alone else len(near)
        is_of_blocks = bool(near) and "cdiv" in near[0]
        exact = [text for text in near if names.get(text) == elements and is_of_blocks]
        return list(dict.fromkeys([*exact, *near[:first], *products, *near[first:second], *hinted, *near[second:]]))

    def _extents(self, name: str, names: Mapping[str, int], texts: Sequence[str]) -> list[str]:
        """Returns those sizes of an array, or what other launches say of it, that it has in all launches, at least."""
        for other in self.others:
            sizes = other.sizes()
            texts = [*texts, *candidates.extents(other.elements.get(name, 0), {each: sizes[each] for each in names})]
        return self._fitting(name, texts)[:_MAX_CANDIDATES]

    def _fitting(self, name: str, texts: Sequence[str]) -> list[str]:
        """Returns those sizes that an array has in all launches, at least."""
        every = (self.launch, *self.others) if self.others else ()
        fitting = [text for text in texts if all(0 <= _value(text, each) <= each.elements.get(name, 0) for each in every)]
        return list(dict.fromkeys(fitting))

    def _has_extent(self, name: str) -> bool:
        """Returns whether a parameter is an array without a descriptor, whose launches check its extent."""
        position = self.prepared.arrays.get(name)
        return position is not None and not self.prepared.parameters[position].rank

    def _hinted(self, name: str, value: int, grid: tuple[str, str, str]) -> tuple[list[str], list[str]]:
        position = self.prepared.arrays[name]
        element = self.prepared.parameters[position].element_size
        return self.hints.extents(position, element, grid, self.launch.grid, value)

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

    def _pool(self, world: World, by_array: Mapping[str, list[Access]], names: Mapping[str, int]) -> list[str]:
        """Returns assumptions that hold in the launch, about sizes from which one array is addressed."""
        found: dict[str, None] = {}
        for accesses in by_array.values():
            about: set[str] = set()
            for access in accesses:
                terms = world.access_terms(access)
                assert isinstance(terms.pointer, Pointer)
                about |= _names(world, [terms.live, at_most(terms.pointer.offset, 0)])
            own = {name: number for name, number in names.items() if name in about}
            found.update(dict.fromkeys(self._true(candidates.assumptions(own, self.blocks, self.products))[-_MAX_POOL:]))
        return list(found)

    def _named(self, world: World, pool: Sequence[Assumption]) -> list[tuple[Formula, frozenset[str]]]:
        """Returns assumptions as formulas, with the sizes that they are about."""
        return [(self._formula(world, each), frozenset(names_in(each))) for each in pool]

    def _is_inside_with(self, world: World, access: Access, formulas: Sequence[tuple[Formula, frozenset[str]]]) -> bool:
        """Returns whether an access is inside its array where all assumptions hold that are about its sizes."""
        terms = world.access_terms(access)
        assert isinstance(terms.pointer, Pointer)
        fault = claims.outside(world, access, terms.pointer)
        if fault is None:
            return False
        target = [terms.live, fault]
        names = _names(world, target)
        return any(
            world.solver.is_impossible(*world.base, *[formulas[number][0] for number in tier], *target)
            for tier in self._tiers(formulas, names)
        )

    def _tiers(self, named: Sequence[tuple[Formula, frozenset[str]]], names: frozenset[str]) -> Iterator[list[int]]:
        """Yields positions of assumptions about some sizes: the usual ones, with which less is asked, and all."""
        own = [number for number, (_, about) in enumerate(named) if about <= names]
        usual = [number for number in own if candidates.is_usual(self.texts[number])]
        yield usual
        if usual != own:
            yield own

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
        self, world: World, by_array: Mapping[str, list[Access]], named: Sequence[tuple[Formula, frozenset[str]]],
        texts: list[str],
    ) -> list[str]:  # fmt: skip
        """Returns assumptions from the pool with which more is proven than without, none of them for nothing."""
        def is_impossible(target: list[Formula], given: Sequence[Formula]) -> bool:
            return world.solver.is_impossible(*world.base, *given, *target)

        formulas = [each for each, _ in named]
        kept: dict[int, None] = {}
        for target in self._targets(world, by_array):
            given = [formulas[number] for number in kept]
            if is_impossible(target, given):
                continue
            names = _names(world, target)
            tiers = self._tiers(named, names)
            chosen = next((tier for tier in tiers if is_impossible(target, [formulas[number] for number in tier])), [])
            if not chosen:
                continue
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
            others = [other for other in self.others if name in other.contents]
            low = min([low, *[other.contents[name][0] for other in others]])
            most = max([high, *[other.contents[name][1] for other in others]])
            factors = [text.split(" ")[0] for text in chosen.values()]
            limits = [int(factor) for factor in factors if factor.isdigit()]
            limits += sorted({t.shape_of(each.op.operands[0].type)[property_number(each.op, "axis")] for each in gathers})
            options = [
                text for end in dict.fromkeys((high, most))
                for text in candidates.contents(name, low, end, names, limits, self.blocks)
                if all(_bounds(text, name, other) for other in others)
            ][: 2 * _MAX_CANDIDATES]  # fmt: skip
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


def _fixed(relations: Sequence[str], grid: Sequence[str], names: Mapping[str, int]) -> int:
    """Returns how many sizes and numbers of programs are those of the launch; a size of 1 is often meant, as a stride."""
    equations = [text.partition(" == ") for text in relations]
    sizes = sum(right == str(names.get(left)) != "1" for left, _, right in equations)
    return sizes + sum(axis.isdigit() and axis != "1" for axis in grid)


def _value(text: str, launch: Launch) -> int:
    """Returns the number that a size is in a launch."""
    return evaluate(parse_size(text, "size"), launch.sizes())


def _bounds(text: str, name: str, launch: Launch) -> bool:
    """Returns whether what is assumed of the elements of an array holds in a launch."""
    ranges = Specification((text,), (), ("1", "1", "1")).parsed().ranges_of_contents(launch.sizes())
    (low, high), (least, most) = ranges[name], launch.contents[name]
    return (low is None or low <= least) and (high is None or most <= high)


def _names(world: World, formulas: Sequence[Formula]) -> frozenset[str]:
    """Returns the sizes that formulas, with what defines their atoms, are about."""
    atoms = _reached(world.terms, [atom for each in polynomials_of(formulas) for atom in each.atoms])
    return frozenset(name for name, symbol in world.symbols.items() if symbol.atoms & atoms.keys())


def _all_atoms(terms: Terms, access: AccessTerms) -> list[int]:
    assert isinstance(access.pointer, Pointer)
    first = [*access.pointer.offset.atoms, *[atom for each in polynomials_of((access.live,)) for atom in each.atoms]]
    return list(_reached(terms, first))


def _reached(terms: Terms, waiting: list[int]) -> dict[int, None]:
    """Returns atoms, and those that define them."""
    seen: dict[int, None] = {}
    while waiting:
        atom = waiting.pop()
        if atom not in seen:
            seen[atom] = None
            waiting += [each for polynomial in polynomials_of(terms.atoms[atom].facts) for each in polynomial.atoms]
    return seen


def _used(prepared: PreparedFunction, numbers: Mapping[str, int]) -> dict[str, int]:
    """Returns the numbers of a launch: where there are many, those that the function uses."""
    if len(numbers) <= _MANY:
        return dict(numbers)
    arguments = prepared.function.regions[0].block.args
    return {name: number for name, number in numbers.items() if arguments[prepared.numbers[name]].uses}


def _blocks(prepared: PreparedFunction) -> list[int]:
    """Returns the extents of blocks of the function, and its constants that may be such.

    A constant that is one less than another number is there to round up a quotient by that one.
    """
    constants = {value for value in _constants(prepared, of_blocks=False) if value <= _MAX_BLOCK}
    found = {*_extents(prepared), *constants}
    return sorted(each for each in found if each not in constants or each + 1 not in found)


def own_numbers(prepared: PreparedFunction) -> frozenset[int]:
    """Returns the extents of blocks of the function, and its constants, those of all lanes of a block included."""
    return frozenset([*_extents(prepared), *_constants(prepared, of_blocks=True)])


def _extents(prepared: PreparedFunction) -> Iterator[int]:
    for op in prepared.function.walk():
        for result in op.results:
            if t.is_tensor(result.type):
                yield from t.shape_of(result.type)


def _constants(prepared: PreparedFunction, of_blocks: bool) -> Iterator[int]:
    """Yields integer constants from 2 on. of_blocks: also those of all lanes of a block."""
    for op in prepared.function.walk():
        found = op.properties["value"] if op.name == "arith.constant" else None
        value = getattr(getattr(found, "value", None), "data", 0)
        if of_blocks and isinstance(found, DenseIntOrFPElementsAttr) and found.is_splat():
            value = next(iter(found.get_values()))
        if isinstance(value, int) and value > 1:
            yield value


__all__ = ["Launch", "guess", "own_numbers"]
