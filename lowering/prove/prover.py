"""Proves the properties of a prepared function: for all sizes, under a condition, or by a launch that breaks them.

A verdict is sought in this order: with exact numbers; with numbers that wrap where an exact one may not fit; under conditions
on sizes. What remains is looked for in launches with small sizes, which are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from xdsl.ir import Operation

from ...promotion.errors import UserError
from ..tt import types as t
from . import claims
from .claims import Outcome
from .evaluate.paths import NotModelled
from .evaluate.values import Pointer, Unknown
from .found import SHOWN, Found, Level, joined, observers, text_of
from .launches import Confirm, Launches
from .overflow import Overflow
from .preparation import Access, PreparedFunction
from .proof import NEVER, PROPERTIES, PROVEN, REFUTED, UNDER, UNKNOWN, AccessVerdict, Proof
from .races import Races
from .specify.expressions import names_in
from .specify.specification import GRID_NAMES, Specification
from .terms.formulas import Formula
from .terms.polynomials import TooLarge
from .terms.solver import DEFAULT_LIMIT, Budget
from .world import World, Wrapping

_QUESTIONS = 50
"""Questions that take all steps that they may, before nothing more is asked."""
_ATTEMPTS = 3
_TOO_LONG = "its address is too long a term"


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
        self.launches = Launches(prepared, self._parsed, confirm, self._array)
        self._budget = Budget(limit, _QUESTIONS * limit)
        self._worlds: dict[Wrapping, World] = {}
        self._bounds: dict[Access, Found] = {}
        self._pointers: dict[Access, Pointer | Unknown] = {}
        self._final: dict[Access, Found] | None = None
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
        named = {name for axis in self._parsed.grid for name in names_in(axis)}
        for name in sorted(named & set(GRID_NAMES) & set(numbers)):
            raise UserError(
                f"prove: {name} is a parameter of @{function}, and no number of programs; fix: another name in the grid, which "
                f"stands for any number"
            )
        for name in self._parsed.names():
            if name in others:
                raise UserError(f"prove: {name!r} is no integer; numbers: {', '.join(numbers) or 'none'}, and new names")

    def prove(self, properties: Sequence[str]) -> Proof:
        """Returns the verdicts. Raises `UserError` for assumptions that contradict each other."""
        try:
            world = self.world()
        except (TooLarge, RecursionError):
            raise UserError(f"prove: the specification is too long:\n{self.specification}\nfix: shorter expressions") from None
        if world.solver.is_impossible(*world.base):
            raise UserError(
                f"prove: the assumptions contradict each other, and everything would follow:\n{self.specification}\n"
                "fix: take out one of them; extents are 0 or more, and a grid has at most 2**31 - 1 programs along an axis"
            )
        example = self.launches.sizes(world, [])
        self._check_contents()
        found: list[AccessVerdict] = []
        for prop in properties:
            own = self._of_property(prop)
            if example is None:
                reason = "no sizes were found that satisfy the assumptions; fix: simpler assumptions, or small sizes among them"
                own = {access: Found(UNKNOWN, reason=reason) for access in own}
            found += [self._verdict(prop, access, each) for access, each in own.items()]
        return Proof(
            self.prepared.function.sym_name.data, self.specification, tuple(properties), tuple(found),
            tuple([*self.specification.assume, *world.promises]), tuple(sorted((example or {}).items())),
            sum(each.solver.asked for each in self._worlds.values()), sum(each.solver.steps for each in self._worlds.values()),
        )  # fmt: skip

    def _verdict(self, prop: str, access: Access, found: Found) -> AccessVerdict:
        return AccessVerdict(
            prop, access.line, access.op.name, self._array(access), found.verdict, found.level.texts, found.reason,
            found.counterexample,
        )  # fmt: skip

    def _array(self, access: Access) -> str:
        pointer = None if access.obstacle else self.pointer(access)
        return self.prepared.parameters[pointer.base].name if isinstance(pointer, Pointer) else ""

    def _of_property(self, prop: str) -> dict[Access, Found]:
        match prop:
            case "bounds":
                return self._final_bounds()
            case "races":
                return self._relying(Races(self).verdicts(), self._final_bounds())
            case _:
                return self._relying(Overflow(self).verdicts(), self._final_bounds())

    def _final_bounds(self) -> dict[Access, Found]:
        """Returns the verdicts on bounds, as far as the loads that they rely on are inside their arrays."""
        if self._final is None:
            found = {access: self.bounds_of(access) for access in self.prepared.accesses}
            self._final = self._relying(found, found)
        return self._final

    # Worlds and levels

    def world(self, wrapping: Wrapping = frozenset()) -> World:
        """Returns the terms with which operations may look at numbers that wrap."""
        found = self._worlds.get(wrapping)
        if found is None:
            found = self._worlds[wrapping] = World(self.prepared, self._parsed, self._budget, wrapping)
        return found

    def levels(self, world: World, array: int | None) -> Iterator[Level]:
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

    def pointer(self, access: Access) -> Pointer | Unknown:
        """Returns where an access reads or writes, or why that is not known."""
        found = self._pointers.get(access)
        if found is None:
            try:
                found = Unknown(access.obstacle) if access.obstacle else self.world().access_terms(access).pointer
            except NotModelled as error:
                found = Unknown(error.reason)
            except (TooLarge, RecursionError):
                found = Unknown(_TOO_LONG)
            self._pointers[access] = found
        return found

    def guarded(self, ask: Callable[[], Found]) -> Found:
        """Returns a verdict; unknown where a term outgrows its limits."""
        try:
            return ask()
        except NotModelled as error:
            return Found(UNKNOWN, reason=f"{error.reason} is not modelled")
        except (TooLarge, RecursionError):
            return Found(UNKNOWN, reason=_TOO_LONG)

    def bounds_of(self, access: Access) -> Found:
        """Returns the verdict on the bounds of an access, as far as the loads that it relies on are inside their arrays."""
        found = self._bounds.get(access)
        if found is None:
            found = self._bounds[access] = self.guarded(lambda: self._find_bounds(access))
        return found

    def _find_bounds(self, access: Access) -> Found:
        pointer = self.pointer(access)
        if isinstance(pointer, Unknown):
            return Found(UNKNOWN, reason=f"the address is not known: {pointer.reason}")
        name = self.prepared.parameters[pointer.base].name
        world = self.world()
        if claims.is_never_executed(world, access):
            return self._never(world, access)
        if pointer.base not in world.extents:
            return Found(UNKNOWN, reason=f"{name} has no extent; fix: extents={{{name!r}: 'n'}}")
        found, outcome = self.climb(access, pointer.base, claims.bounds)
        if found is not None:
            return found
        counterexample = None
        if outcome.is_possible:
            terms = world.access_terms(access)
            fault = claims.outside(world, access, pointer)
            assert fault is not None
            counterexample = self.launches.search(world, "bounds", (access,), [terms.live, fault])
        if counterexample is not None:
            return Found(REFUTED, counterexample=counterexample)
        return Found(UNKNOWN, reason=self._why(world, access, outcome))

    def _never(self, world: World, access: Access) -> Found:
        """Returns the verdict of an access that never runs, if nothing that this was shown by may wrap."""
        failed, reads = claims.unmet(world, (), access)
        if failed:
            return Found(UNKNOWN, reason=f"it may never run, but a number may wrap: {text_of(world, failed[0])}")
        return Found(NEVER, reads=self.accesses_of(reads))

    def climb(
        self, access: Access, array: int | None, claim: Callable[[World, Access, Sequence[Formula]], Outcome]
    ) -> tuple[Found | None, Outcome]:
        """Tries a claim with exact numbers, with wrapped ones, and under conditions; returns the first outcome, too."""
        world = self.world()
        first = outcome = claim(world, access, ())
        wrapping: Wrapping = frozenset()
        for _ in range(_ATTEMPTS):
            if outcome.holds:
                return Found(PROVEN, wrapping=wrapping, reads=self.accesses_of(outcome.reads)), first
            more = wrapping | observers(outcome.wrapping)
            if outcome.is_possible or more == wrapping:
                break
            wrapping = more
            outcome = claim(self.world(wrapping), access, ())
        if outcome.holds:
            return Found(PROVEN, wrapping=wrapping, reads=self.accesses_of(outcome.reads)), first
        if not first.is_possible:
            for level in self.levels(world, array):
                left, _ = claims.unmet(world, level.formulas(world), access, first.wrapping)
                if not left:
                    return Found(UNDER, self._weakened(world, access, level, first), reads=self.accesses_of(first.reads)), first
                wrapping = observers(left)
                outcome = claim(self.world(wrapping), access, level.formulas(self.world(wrapping))) if wrapping else outcome
                if outcome.holds:
                    return Found(UNDER, level, wrapping, reads=self.accesses_of(outcome.reads)), first
        return None, first

    def _weakened(self, world: World, access: Access, level: Level, outcome: Outcome) -> Level:
        """Returns the conditions without those that are not needed; bounds of arrays are the last to go."""
        texts = level.texts
        for text in reversed(level.texts):
            fewer = Level(tuple([each for each in texts if each != text]))
            if fewer.texts and not claims.unmet(world, fewer.formulas(world), access, outcome.wrapping)[0]:
                texts = fewer.texts
        return Level(texts)

    def accesses_of(self, operations: Iterable[Operation]) -> tuple[Access, ...]:
        """Returns the accesses that operations are, each once."""
        return tuple([self._by_op[op] for op in dict.fromkeys(operations)])

    def _why(self, world: World, access: Access, outcome: Outcome) -> str:
        if not outcome.is_possible:
            return f"a number that the address is computed from may wrap: {text_of(world, outcome.wrapping[0])}"
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

    def _relying(self, found: dict[Access, Found], bounds: dict[Access, Found]) -> dict[Access, Found]:
        """Returns verdicts in which those that rely on loads are no better than the verdicts on the bounds of these."""
        changed = True
        while changed:
            changed = False
            for access, own in found.items():
                if own.verdict not in SHOWN:
                    continue
                level = own.level
                for read in own.reads:
                    other = bounds[read]
                    if other.verdict not in SHOWN:
                        reason = f"it relies on the load at {read.line}, which is not proven to be inside its array"
                        found[access] = Found(UNKNOWN, reason=reason)
                        changed = True
                        break
                    level = joined(level, other.level)
                else:
                    if level.texts != own.level.texts:
                        found[access] = Found(UNDER, level, own.wrapping, reads=own.reads)
                        changed = True
        return found

    # Launches

    def _check_contents(self) -> None:
        """Refuses assumptions about contents of arrays that the kernel writes: they would not hold for long."""
        for name in self._parsed.contents():
            position = self.prepared.arrays[name]
            for access in self.prepared.accesses:
                pointer = self.pointer(access)
                if access.writes and (isinstance(pointer, Unknown) or pointer.base == position):
                    where = "there" if isinstance(pointer, Pointer) else "to an address that is not known"
                    raise UserError(
                        f"prove: the assumption about elements of {name} may not last: {access.op.name} at {access.line} "
                        f"writes {where}; fix: leave it out"
                    )


__all__ = ["PROPERTIES", "Confirm", "Prover"]
