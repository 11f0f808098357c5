"""Proves the properties of a prepared function: for all sizes, under a condition, or by a launch that breaks them.

A verdict is sought in this order: with exact numbers; with numbers that wrap where an exact one may not fit; under conditions
on sizes. What remains is looked for in launches with small sizes, which are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..tt import types as t
from ..tt.sanitize.findings import Finding
from . import claims
from .claims import Outcome
from .evaluate.control import NotModelled
from .evaluate.values import Need, Pointer, Unknown
from .preparation import Access, PreparedFunction, line_of
from .proof import NEVER, PROPERTIES, PROVEN, REFUTED, UNDER, UNKNOWN, AccessVerdict, Counterexample, Proof
from .specify.expressions import evaluate, parse_assumption
from .specify.specification import Specification
from .terms.formulas import Formula, at_least, at_most
from .terms.polynomials import TooLarge
from .terms.solver import DEFAULT_LIMIT, Budget
from .world import World, Wrapping

Confirm = Callable[[Mapping[str, int], Mapping[str, int], tuple[int, int, int], Mapping[str, int]], Sequence[Finding]]
"""Runs a launch in the sanitizer: (sizes, extents of arrays, grid, contents of arrays of integers) → what it found."""

MAX_PAIRS = 4000
_QUESTIONS = 50
"""Questions that take all steps that they may, before nothing more is asked."""
_SMALL = (8, 40, 300, 3000)
_MAX_ELEMENTS = 1 << 22
_MAX_PROGRAMS = 1 << 10
_ATTEMPTS = 3
_KINDS = {"bounds": ("out-of-bounds", "overflow"), "races": ("race", "lane-race")}


@dataclass(frozen=True, slots=True)
class Level:
    """Conditions under which numbers are smaller than they could be, as assumptions."""

    texts: tuple[str, ...]

    def formulas(self, world: World) -> list[Formula]:
        """Returns the conditions as formulas of a world."""
        return [world.assumption(parse_assumption(text)) for text in self.texts]


ALWAYS = Level(())


@dataclass(frozen=True, slots=True)
class _Found:
    """A verdict with what it was found by."""

    verdict: str
    level: Level = ALWAYS
    wrapping: Wrapping = frozenset()
    reason: str = ""
    counterexample: Counterexample | None = None
    reads: tuple[Access, ...] = ()


class Prover:
    """Proves the properties of one function under one specification."""

    def __init__(
        self, prepared: PreparedFunction, specification: Specification, confirm: Confirm | None, limit: int = DEFAULT_LIMIT
    ) -> None:
        """Starts with nothing proven. Raises `UserError` for names that are not there."""
        self.prepared = prepared
        self.specification = specification
        self._parsed = specification.parsed()
        self._check_names()
        self._confirm = confirm
        self._budget = Budget(limit, _QUESTIONS * limit)
        self._worlds: dict[Wrapping, World] = {}
        self._bounds: dict[Access, _Found] = {}
        self._addresses: dict[Access, _Found] = {}
        self._final: dict[Access, _Found] | None = None
        self._by_op = {access.op: access for access in prepared.accesses}

    def _check_names(self) -> None:
        arrays, numbers = self.prepared.arrays, self.prepared.numbers
        function = self.prepared.function.sym_name.data
        for name in self._parsed.extents:
            if name not in arrays:
                raise UserError(
                    f"prove: @{function} has no array {name!r}; arrays: {', '.join(arrays) or 'none'}"
                )
        for name in self._parsed.contents():
            if name not in arrays:
                raise UserError(f"prove: @{function} has no array {name!r}; arrays: {', '.join(arrays) or 'none'}")
            pointee = self.prepared.parameters[arrays[name]].type.pointee  # type: ignore[attr-defined]
            if not t.is_integer(pointee) or t.bit_width(pointee) == 1:
                raise UserError(f"prove: {name} holds {pointee}; assumptions about elements are for integers")
        others = {each.name for each in self.prepared.parameters} - set(numbers)
        for name in self._parsed.names():
            if name in others:
                raise UserError(f"prove: {name!r} is no integer; numbers: {', '.join(numbers) or 'none'}, and new names")

    def prove(self, properties: Sequence[str]) -> Proof:
        """Returns the verdicts. Raises `UserError` for assumptions that contradict each other."""
        world = self._world()
        if world.solver.is_impossible(*world.base):
            raise UserError(
                f"prove: the assumptions contradict each other, and everything would follow:\n{self.specification}\n"
                "fix: take out one of them; extents are 0 or more, and a grid has at most 2**31 - 1 programs along an axis"
            )
        example = self._sizes(world, [])
        self._check_contents()
        found: list[AccessVerdict] = []
        for prop in properties:
            own = self._of_property(prop)
            if example is None:
                reason = "no sizes were found that satisfy the assumptions; fix: simpler assumptions, or small sizes among them"
                own = {access: _Found(UNKNOWN, reason=reason) for access in own}
            found += [self._verdict(prop, access, each) for access, each in own.items()]
        return Proof(
            self.prepared.function.sym_name.data, self.specification, tuple(properties), tuple(found),
            tuple([*self.specification.assume, *world.promises]), tuple(sorted((example or {}).items())),
            sum(each.solver.asked for each in self._worlds.values()), sum(each.solver.steps for each in self._worlds.values()),
        )  # fmt: skip

    def _verdict(self, prop: str, access: Access, found: _Found) -> AccessVerdict:
        return AccessVerdict(
            prop, access.line, access.op.name, self._array(access), found.verdict, found.level.texts, found.reason,
            found.counterexample,
        )  # fmt: skip

    def _array(self, access: Access) -> str:
        pointer = None if access.obstacle else self._pointer(access)
        return self.prepared.parameters[pointer.base].name if isinstance(pointer, Pointer) else ""

    def _of_property(self, prop: str) -> dict[Access, _Found]:
        match prop:
            case "bounds":
                return self._final_bounds()
            case "races":
                return self._relying(self._races(), self._final_bounds())
            case _:
                found = {access: self._overflow_of(access) for access in self.prepared.accesses}
                return self._relying(found, self._final_bounds())

    def _final_bounds(self) -> dict[Access, _Found]:
        """Returns the verdicts on bounds, as far as the loads that they rely on are inside their arrays."""
        if self._final is None:
            found = {access: self._bounds_of(access) for access in self.prepared.accesses}
            self._final = self._relying(found, found)
        return self._final

    # Worlds and levels

    def _world(self, wrapping: Wrapping = frozenset()) -> World:
        found = self._worlds.get(wrapping)
        if found is None:
            found = self._worlds[wrapping] = World(self.prepared, self._parsed, self._budget, wrapping)
        return found

    def _levels(self, world: World, array: int | None) -> Iterator[Level]:
        """Yields conditions, the weakest first, that are possible at all."""
        names = {position: name for name, position in self.prepared.arrays.items()}
        texts = dict(self.specification.extents)
        extents = [
            (texts[names[position]], extent) for position, extent in world.extents.items()
            if extent.number is None and names[position] in texts
        ]  # fmt: skip
        own = [(texts[names[array]], world.extents[array])] if array in world.extents and names[array] in texts else []
        sizes = [*extents, *[(name, symbol) for name, symbol in world.symbols.items()]]
        sizes += [
            (text, axis) for text, axis in zip(self.specification.grid, world.grid, strict=True) if axis.number is None
        ]  # fmt: skip
        bounds = [(own, (1 << 31) - 1, "2**31 - 1"), (extents, (1 << 31) - 1, "2**31 - 1")]
        bounds += [(sizes, (1 << 31) - (1 << 16), "2**31 - 2**16"), (sizes, 1 << 30, "2**30"), (sizes, 1 << 24, "2**24")]
        for parts, limit, text in bounds:
            limited = [f"{name} <= {text}" for name, size in parts if not world.terms.fits(size, -limit, limit)]
            level = Level(tuple(dict.fromkeys(limited)))
            if limited and not world.solver.is_impossible(*world.base, *level.formulas(world)):
                yield level

    # Bounds

    def _pointer(self, access: Access) -> Pointer | Unknown:
        if access.obstacle:
            return Unknown(access.obstacle)
        try:
            return self._world().access_terms(access).pointer
        except NotModelled as error:
            return Unknown(error.reason)
        except TooLarge:
            return Unknown("its address is too long a term")

    def _bounds_of(self, access: Access) -> _Found:
        found = self._bounds.get(access)
        if found is None:
            try:
                found = self._bounds[access] = self._find_bounds(access)
            except TooLarge:
                found = self._bounds[access] = _Found(UNKNOWN, reason="its address is too long a term")
        return found

    def _find_bounds(self, access: Access) -> _Found:
        pointer = self._pointer(access)
        if isinstance(pointer, Unknown):
            return _Found(UNKNOWN, reason=f"the address is not known: {pointer.reason}")
        name = self.prepared.parameters[pointer.base].name
        world = self._world()
        if claims.is_never_executed(world, access):
            return self._never(world, access)
        if pointer.base not in world.extents:
            return _Found(UNKNOWN, reason=f"{name} has no extent; fix: extents={{{name!r}: 'n'}}")
        found, outcome = self._climb(access, pointer.base, claims.bounds)
        if found is not None:
            return found
        counterexample = None
        if outcome.is_possible:
            terms = world.access_terms(access)
            fault = claims.outside(world, access, pointer)
            assert fault is not None
            counterexample = self._search(world, "bounds", (access,), [terms.live, fault])
        if counterexample is not None:
            return _Found(REFUTED, counterexample=counterexample)
        return _Found(UNKNOWN, reason=self._why(world, access, outcome))

    def _never(self, world: World, access: Access) -> _Found:
        """Returns the verdict of an access that never runs, if nothing that this was shown by may wrap."""
        failed, reads = claims.unmet(world, (), access)
        if failed:
            return _Found(UNKNOWN, reason=f"it may never run, but a number may wrap: {self._needs(world, failed)}")
        return _Found(NEVER, reads=tuple([self._by_op[op] for op in reads]))

    def _climb(
        self, access: Access, array: int | None, claim: Callable[[World, Access, Sequence[Formula]], Outcome]
    ) -> tuple[_Found | None, Outcome]:
        """Tries a claim with exact numbers, with wrapped ones, and under conditions; returns the first outcome, too."""
        world = self._world()
        first = outcome = claim(world, access, ())
        wrapping: Wrapping = frozenset()
        for _ in range(_ATTEMPTS):
            if outcome.holds:
                return _Found(PROVEN, wrapping=wrapping, reads=self._reads(outcome)), first
            more = wrapping | _observers(outcome.wrapping)
            if outcome.is_possible or more == wrapping:
                break
            wrapping = more
            outcome = claim(self._world(wrapping), access, ())
        if outcome.holds:
            return _Found(PROVEN, wrapping=wrapping, reads=self._reads(outcome)), first
        if not first.is_possible:
            for level in self._levels(world, array):
                left, _ = claims.unmet(world, level.formulas(world), access, first.wrapping)
                if not left:
                    return _Found(UNDER, self._weakened(world, access, level, first), reads=self._reads(first)), first
                wrapping = _observers(left)
                outcome = claim(self._world(wrapping), access, level.formulas(self._world(wrapping))) if wrapping else outcome
                if outcome.holds:
                    return _Found(UNDER, level, wrapping, reads=self._reads(outcome)), first
        return None, first

    def _weakened(self, world: World, access: Access, level: Level, outcome: Outcome) -> Level:
        """Returns the conditions without those that are not needed; bounds of arrays are the last to go."""
        texts = level.texts
        for text in reversed(level.texts):
            fewer = Level(tuple([each for each in texts if each != text]))
            if fewer.texts and not claims.unmet(world, fewer.formulas(world), access, outcome.wrapping)[0]:
                texts = fewer.texts
        return Level(texts)

    def _reads(self, outcome: Outcome) -> tuple[Access, ...]:
        return tuple([self._by_op[op] for op in outcome.reads])

    def _why(self, world: World, access: Access, outcome: Outcome) -> str:
        if not outcome.is_possible:
            return f"a number that the address is computed from may wrap: {self._needs(world, outcome.wrapping)}"
        terms = world.access_terms(access)
        assert isinstance(terms.pointer, Pointer)
        loaded = [world.terms.name(atom) for atom in sorted(terms.pointer.offset.atoms) if atom in world.terms.loaded]
        if loaded:
            arrays = sorted(
                {self.prepared.parameters[world.terms.loaded[atom]].name for atom in terms.pointer.offset.atoms
                 if atom in world.terms.loaded}
            )  # fmt: skip
            return f"the address depends on what is loaded from {', '.join(arrays)}; fix: assume=['0 <= {arrays[0]}[:] < n']"
        return f"not shown to be inside: element {world.terms.text(terms.pointer.offset)} (in bytes)"

    def _needs(self, world: World, needs: Sequence[Need]) -> str:
        need = needs[0]
        return f"{world.terms.text(need.value)} in {need.width} bits at {line_of(need.op)}"

    def _relying(self, found: dict[Access, _Found], bounds: dict[Access, _Found]) -> dict[Access, _Found]:
        """Returns verdicts in which those that rely on loads are no better than the verdicts on the bounds of these."""
        changed = True
        while changed:
            changed = False
            for access, own in found.items():
                if own.verdict not in (PROVEN, UNDER, NEVER):
                    continue
                level = own.level
                for read in own.reads:
                    other = bounds[read]
                    if other.verdict not in (PROVEN, UNDER, NEVER):
                        reason = f"it relies on the load at {read.line}, which is not proven to be inside its array"
                        found[access] = _Found(UNKNOWN, reason=reason)
                        changed = True
                        break
                    level = _joined(level, other.level)
                else:
                    if level.texts != own.level.texts:
                        found[access] = _Found(UNDER, level, own.wrapping, reads=own.reads)
                        changed = True
        return found

    # Races

    def _address_of(self, access: Access) -> _Found:
        found = self._addresses.get(access)
        if found is None:
            pointer = self._pointer(access)
            assert isinstance(pointer, Pointer)
            bounds = self._bounds_of(access)
            if bounds.verdict in (PROVEN, UNDER, NEVER):
                found = bounds
            else:
                climbed, outcome = self._climb(access, pointer.base, claims.address_needs)
                reason = "" if climbed is not None else f"an address may wrap: {self._needs(self._world(), outcome.wrapping)}"
                found = climbed or _Found(UNKNOWN, reason=reason)
            self._addresses[access] = found
        return found

    def _races(self) -> dict[Access, _Found]:
        accesses = self.prepared.accesses
        found: dict[Access, _Found] = {access: _Found(PROVEN) for access in accesses}
        known = {access: self._pointer(access) for access in accesses}
        pairs = 0
        for number, one in enumerate(accesses):
            if one.writes and not one.is_atomic and one.shape and isinstance(known[one], Pointer):
                self._worsen(found, one, self._lanes(one))
            for two in accesses[number:]:
                if not (one.writes or two.writes) or (one.is_atomic and two.is_atomic):
                    continue
                first, second = known[one], known[two]
                if isinstance(first, Pointer) and isinstance(second, Pointer) and first.base != second.base:
                    continue
                pairs += 1
                self._pair(found, one, two, first, second, pairs)
        return found

    def _pair(
        self, found: dict[Access, _Found], one: Access, two: Access, first: Pointer | Unknown, second: Pointer | Unknown,
        pairs: int,
    ) -> None:  # fmt: skip
        if pairs > MAX_PAIRS:
            result = _Found(UNKNOWN, reason=f"more than {MAX_PAIRS} pairs of accesses")
        elif isinstance(first, Unknown) or isinstance(second, Unknown):
            unknown = one if isinstance(first, Unknown) else two
            result = _Found(UNKNOWN, reason=f"it may meet {unknown.op.name} at {unknown.line}, whose address is not known")
        else:
            try:
                result = self._meeting(one, two)
            except (TooLarge, NotModelled):
                result = _Found(UNKNOWN, reason="the addresses are too long terms")
        self._worsen(found, one, result)
        self._worsen(found, two, result)

    def _worsen(self, found: dict[Access, _Found], access: Access, result: _Found) -> None:
        before = found[access]
        order = (PROVEN, NEVER, UNDER, UNKNOWN, REFUTED)
        reads = tuple(dict.fromkeys((*before.reads, *result.reads)))
        if before.verdict == UNDER and result.verdict == UNDER:
            found[access] = _Found(UNDER, _joined(before.level, result.level), reads=reads)
        elif order.index(result.verdict) > order.index(before.verdict):
            found[access] = _Found(result.verdict, result.level, result.wrapping, result.reason, result.counterexample, reads)
        else:
            found[access] = _Found(before.verdict, before.level, before.wrapping, before.reason, before.counterexample, reads)

    def _disjoint(self, accesses: tuple[Access, ...], claim: Callable[[World], list[Formula] | None]) -> _Found:
        """Returns whether a claim about accesses is impossible, with numbers as their addresses need them."""
        statuses = [self._address_of(access) for access in accesses]
        bad = next((each for each in statuses if each.verdict not in (PROVEN, UNDER, NEVER)), None)
        if bad is not None:
            return _Found(UNKNOWN, reason=bad.reason)
        level = ALWAYS
        wrapping: Wrapping = frozenset()
        for each in statuses:
            level, wrapping = _joined(level, each.level), wrapping | each.wrapping
        reads = tuple(dict.fromkeys([read for each in statuses for read in each.reads]))
        world = self._world(wrapping)
        formulas = claim(world)
        if formulas is None:
            return _Found(UNKNOWN, reason="the address is not known")
        if not world.solver.is_impossible(*world.base, *level.formulas(world), *formulas):
            return _Found(UNKNOWN)
        if wrapping and any(not claims.address_needs(world, each, level.formulas(world)).holds for each in accesses):
            return _Found(UNKNOWN, reason="an address may wrap")
        return _Found(UNDER if level.texts else PROVEN, level, wrapping, reads=reads)

    def _meeting(self, one: Access, two: Access) -> _Found:
        result = self._disjoint((one, two), lambda world: claims.programs_meet(world, one, two))
        if result.verdict != UNKNOWN:
            return result
        found = self._search(self._world(), "races", (one, two), claims.programs_meet(self._world(), one, two) or [])
        if found is not None:
            return _Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        what = f"two programs are not shown to touch different elements: {one.op.name} at {one.line}"
        if one is not two:
            what += f", {two.op.name} at {two.line}"
        if one.is_atomic or two.is_atomic:
            what += "; an order that atomics make is not modelled"
        return _Found(UNKNOWN, reason=what)

    def _lanes(self, access: Access) -> _Found:
        try:
            result = self._disjoint((access,), lambda world: claims.lanes_meet(world, access))
        except (TooLarge, NotModelled):
            return _Found(UNKNOWN, reason="the addresses are too long terms")
        if result.verdict != UNKNOWN:
            return result
        found = self._search(self._world(), "races", (access,), claims.lanes_meet(self._world(), access) or [])
        if found is not None:
            return _Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        return _Found(UNKNOWN, reason="two lanes of the store are not shown to have different elements, or equal values")

    # Overflow

    def _overflow_of(self, access: Access) -> _Found:
        pointer = self._pointer(access)
        if isinstance(pointer, Unknown):
            return _Found(UNKNOWN, reason=f"the address is not known: {pointer.reason}")
        world = self._world()
        failed, loads = claims.unmet(world, (), access, observed=False)
        reads = tuple([self._by_op[op] for op in loads])
        if not failed:
            return _Found(PROVEN, reads=reads)
        for level in self._levels(world, pointer.base):
            if not claims.unmet(world, level.formulas(world), access, failed, observed=False)[0]:
                return _Found(UNDER, level, reads=reads)
        return _Found(UNKNOWN, reason=f"may wrap: {self._needs(world, failed)}")

    # Launches

    def _check_contents(self) -> None:
        """Refuses assumptions about contents of arrays that the kernel writes: they would not hold for long."""
        for name in self._parsed.contents():
            position = self.prepared.arrays[name]
            for access in self.prepared.accesses:
                pointer = self._pointer(access)
                if access.writes and (isinstance(pointer, Unknown) or pointer.base == position):
                    where = "there" if isinstance(pointer, Pointer) else "to an address that is not known"
                    raise UserError(
                        f"prove: the assumption about elements of {name} may not last: {access.op.name} at {access.line} "
                        f"writes {where}; fix: leave it out"
                    )

    def _sizes(self, world: World, formulas: Sequence[Formula], bound: int | None = None) -> dict[str, int] | None:
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
                (atom,) = symbol.atoms
                sizes[name] = model[atom]
            if not self._parsed.holds(sizes):
                continue
            contents: dict[str, int] = {}
            for atom, position in world.terms.loaded.items():
                if atom in model:
                    contents.setdefault(self.prepared.parameters[position].name, model[atom])
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

    def _search(
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
                    if finding.kind in _KINDS[prop] and any(_is_at(finding.line, access.line) for access in accesses):
                        return Counterexample(tuple(sizes.items()), (x, y, z), tuple(fill.items()), finding)
        return None


def _observers(needs: Sequence[Need]) -> Wrapping:
    """Returns the operations that may look at wrapped numbers: an address that wraps is hardly ever inside."""
    return frozenset(need.op for need in needs if need.op.name != "tt.addptr")


def _is_at(line: str, other: str) -> bool:
    """Returns whether two lines are one; inlined operations name their callers, too."""
    return line == other or line.split(" called at ")[0] == other.split(" called at ")[0]


def _joined(one: Level, two: Level) -> Level:
    texts = tuple(dict.fromkeys((*one.texts, *two.texts)))
    return Level(texts)


__all__ = ["PROPERTIES", "Confirm", "Prover"]
