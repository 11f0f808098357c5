"""Proves that accesses stay inside their arrays.

A verdict is sought in this order: with exact numbers; with numbers that wrap where an exact one may not fit; under conditions
on sizes. What remains is looked for in launches with small sizes, which are run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from xdsl.ir import Operation

from . import claims
from .claims import Outcome
from .evaluate.paths import NotModelled
from .evaluate.values import Pointer, Unknown
from .found import Found, Level, observers, text_of
from .launches import Confirm, Launches
from .preparation import Access, PreparedFunction
from .proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN
from .specify.specification import ParsedSpecification, Specification
from .terms.formulas import Formula
from .terms.polynomials import TooLarge
from .terms.solver import Budget
from .world import BLOCK, World, Wrapping

Claim = Callable[[World, Access, Sequence[Formula]], Outcome]
"""(terms, access, what is given besides) → what becomes of a claim about the access."""
_QUESTIONS = 20
"""Questions that take all steps that they may, before nothing more is asked."""
_ATTEMPTS = 3
_TOO_LONG = "its address is too long a term"


class Bounds:
    """The verdicts on bounds of one function, and the worlds in which all properties are asked for.

    Attributes:
        launches: looks for launches that break a property.
        worlds: the terms of the function, by the operations that may look at numbers that wrap.
    """

    def __init__(
        self, prepared: PreparedFunction, specification: Specification, parsed: ParsedSpecification, confirm: Confirm | None,
        limit: int,
    ) -> None:  # fmt: skip
        """Starts with nothing proven."""
        self.prepared = prepared
        self.specification = specification
        self.launches = Launches(prepared, parsed, confirm, self.array)
        self.worlds: dict[Wrapping, World] = {}
        self._parsed = parsed
        self._budget = Budget(limit, _QUESTIONS * limit)
        self._bounds: dict[Access, Found] = {}
        self._pointers: dict[Access, Pointer | Unknown] = {}
        self._by_op = {access.op: access for access in prepared.accesses}

    def array(self, access: Access) -> str:
        """Returns the parameter that an access is to; "" if that is not known."""
        pointer = None if access.obstacle else self.pointer(access)
        is_known = isinstance(pointer, Pointer) and pointer.base != BLOCK
        return self.prepared.parameters[pointer.base].name if isinstance(pointer, Pointer) and is_known else ""

    # Worlds and levels

    def world(self, wrapping: Wrapping = frozenset()) -> World:
        """Returns the terms with which operations may look at numbers that wrap."""
        found = self.worlds.get(wrapping)
        if found is None:
            found = self.worlds[wrapping] = World(self.prepared, self._parsed, self._budget, wrapping)
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
        name = self.array(access)
        world = self.world()
        if claims.is_never_executed(world, access):
            return self._never(world, access)
        if pointer.base not in world.extents and not access.is_gather:
            return Found(UNKNOWN, reason=f"{name} has no extent; fix: extents={{{name!r}: 'n'}}")
        found, outcome = self.climb(access, pointer.base, claims.bounds)
        if found is not None:
            if not access.is_gather and not claims.is_aligned(world, access, pointer):
                return Found(UNKNOWN, reason=f"its address is not shown to be a multiple of {access.size} bytes")
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
        self, access: Access, array: int | None, claim: Claim
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
                under = claim(world, access, level.formulas(world))
                if under.holds:
                    level = self._weakened(world, access, level, claim)
                    return Found(UNDER, level, reads=self.accesses_of((*first.reads, *under.reads))), first
                wrapping = observers(under.wrapping)
                outcome = claim(self.world(wrapping), access, level.formulas(self.world(wrapping))) if wrapping else outcome
                if outcome.holds:
                    return Found(UNDER, level, wrapping, reads=self.accesses_of(outcome.reads)), first
        return None, first

    def _weakened(self, world: World, access: Access, level: Level, claim: Claim) -> Level:
        """Returns the conditions without those that are not needed; bounds of arrays are the last to go."""
        texts = level.texts
        for text in reversed(level.texts):
            fewer = Level(tuple([each for each in texts if each != text]))
            if fewer.texts and claim(world, access, fewer.formulas(world)).holds:
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
        if access.is_gather:
            return f"not shown to be an index of the block: {world.terms.text(terms.pointer.offset)}"
        loaded = [world.terms.name(atom) for atom in sorted(terms.pointer.offset.atoms) if atom in world.terms.loaded]
        if loaded:
            arrays = sorted(
                {self.prepared.parameters[world.terms.loaded[atom]].name for atom in terms.pointer.offset.atoms
                 if atom in world.terms.loaded}
            )  # fmt: skip
            return f"the address depends on what is loaded from {', '.join(arrays)}; fix: assume=['0 <= {arrays[0]}[:] < n']"
        return f"not shown to be inside: element {world.terms.text(terms.pointer.offset)} (in bytes)"


__all__ = ["Bounds"]
