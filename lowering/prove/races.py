"""Proves that programs, and lanes of a store, do not touch the same memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import claims
from .bounds import Bounds
from .evaluate.values import Pointer, Unknown
from .found import ALWAYS, SHOWN, Found, Level, joined, text_of, worse
from .preparation import Access
from .proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN
from .terms.formulas import Formula
from .world import World, Wrapping

MAX_PAIRS = 4000
"""Most pairs of accesses to one array that are looked at."""


class Races:
    """The verdicts on races of one function."""

    def __init__(self, bounds: Bounds, final: Mapping[Access, Found]) -> None:
        """Starts with nothing asked. bounds: has the worlds; final: the verdicts on bounds with those of loads relied on."""
        self._bounds = bounds
        self._final = final
        self._accesses = tuple([each for each in bounds.prepared.accesses if not each.is_gather])
        self._found: dict[Access, Found] = {}
        self._addresses: dict[Access, Found] = {}

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        self._found = {access: Found(PROVEN) for access in self._accesses}
        known = {access: self._bounds.pointer(access) for access in self._accesses}
        groups: dict[int, list[Access]] = {}
        strays: list[Access] = []
        for access, pointer in known.items():
            if isinstance(pointer, Pointer):
                groups.setdefault(pointer.base, []).append(access)
            else:
                strays.append(access)
        for stray in strays:
            self._stray(stray, known)
        for accesses in groups.values():
            self._group(accesses)
        self._leave(groups)
        return self._found

    def _worsen(self, access: Access, result: Found) -> None:
        self._found[access] = worse(self._found[access], result)

    def _stray(self, stray: Access, known: Mapping[Access, Pointer | Unknown]) -> None:
        """Notes that an access whose address is not known may meet every other one."""
        unknown = Found(UNKNOWN, reason=f"it may meet {stray.op.name} at {stray.line}, whose address is not known")
        others = [each for each in known if stray.writes or each.writes]
        if len(others) > MAX_PAIRS or not others:
            others = list(known) if others else []
        for each in others:
            if self._found[each].verdict != UNKNOWN:
                self._worsen(each, unknown)
        if others:
            self._worsen(stray, unknown)

    def _group(self, accesses: list[Access]) -> None:
        """Looks at the accesses to one array."""
        for access in accesses:
            if access.writes and access.shape:
                self._worsen(access, self._guarded(self._lanes, access))
        writers = sum(access.writes for access in accesses)
        pairs = writers * (writers + 1) // 2 + writers * (len(accesses) - writers)
        if pairs > MAX_PAIRS:
            for access in accesses:
                reason = f"{pairs} pairs of accesses to its array; at most {MAX_PAIRS} are tried"
                self._worsen(access, Found(UNKNOWN, reason=reason))
            return
        for number, one in enumerate(accesses):
            for two in accesses[number:]:
                if one.writes or two.writes:
                    result = self._guarded(self._meeting, one, two)
                    self._worsen(one, result)
                    self._worsen(two, result)

    def _guarded(self, ask: Callable[..., Found], *accesses: Access) -> Found:
        return self._bounds.guarded(lambda: ask(*accesses))

    def _leave(self, groups: Mapping[int, list[Access]]) -> None:
        """Notes that an access that may leave its array may meet those to all others."""
        worst: dict[tuple[int, bool], Found] = {}
        for base, accesses in groups.items():
            for access in accesses:
                bounds = self._final[access]
                if base not in self._bounds.world().extents or bounds.verdict in (PROVEN, NEVER):
                    continue
                result = Found(UNDER, bounds.level, reads=bounds.reads)
                if bounds.verdict != UNDER:
                    reason = f"{access.op.name} at {access.line} is not proven to stay inside its array: it may meet any other"
                    result = Found(UNKNOWN, reason=reason)
                for writes in {False, access.writes}:
                    before = worst.get((base, writes))
                    worst[base, writes] = result if before is None else worse(before, result)
        for (base, writes), result in worst.items():
            others = [each for other, own in groups.items() if other != base for each in own if writes or each.writes]
            for each in others:
                self._worsen(each, result)
            if others:
                for each in groups[base]:
                    if self._final[each].verdict not in (PROVEN, NEVER):
                        self._worsen(each, result)

    # Questions

    def _address_of(self, access: Access) -> Found:
        """Returns under what the terms of an address are the address."""
        found = self._addresses.get(access)
        if found is None:
            pointer = self._bounds.pointer(access)
            assert isinstance(pointer, Pointer)
            bounds = self._bounds.bounds_of(access)
            if bounds.verdict in SHOWN:
                found = bounds
            else:
                climbed, outcome = self._bounds.climb(access, pointer.base, claims.address_needs)
                reason = ""
                if climbed is None:
                    reason = f"an address may wrap: {text_of(self._bounds.world(), outcome.wrapping[0])}"
                found = climbed or Found(UNKNOWN, reason=reason)
            self._addresses[access] = found
        return found

    def _is_inside(self, access: Access) -> bool:
        return self._bounds.bounds_of(access).verdict in SHOWN

    def _disjoint(self, accesses: tuple[Access, ...], claim: Callable[[World], list[Formula] | None]) -> Found:
        """Returns whether a claim about accesses is impossible, with numbers as their addresses need them."""
        statuses = [self._address_of(access) for access in accesses]
        bad = next((each for each in statuses if each.verdict not in SHOWN), None)
        if bad is not None:
            return Found(UNKNOWN, reason=bad.reason)
        level = ALWAYS
        wrapping: Wrapping = frozenset()
        for each in statuses:
            level, wrapping = joined(level, each.level), wrapping | each.wrapping
        reads = tuple(dict.fromkeys([read for each in statuses for read in each.reads]))
        world = self._bounds.world(wrapping)
        formulas = claim(world)
        if formulas is None:
            return Found(UNKNOWN, reason="the address is not known")
        if not world.solver.is_impossible(*world.base, *level.formulas(world), *formulas):
            return self._with_exact_numbers(accesses, claim, level, reads) if wrapping else Found(UNKNOWN)
        if wrapping and any(not claims.address_needs(world, each, level.formulas(world)).holds for each in accesses):
            return Found(UNKNOWN, reason="an address may wrap")
        return Found(UNDER if level.texts else PROVEN, level, wrapping, reads=reads)

    def _with_exact_numbers(
        self,
        accesses: tuple[Access, ...],
        claim: Callable[[World], list[Formula] | None],
        given: Level,
        reads: tuple[Access, ...],
    ) -> Found:
        """Returns whether a claim is impossible under conditions with which no number wraps."""
        world = self._bounds.world()
        formulas = claim(world)
        pointer = self._bounds.pointer(accesses[0])
        if formulas is None or not isinstance(pointer, Pointer):
            return Found(UNKNOWN)
        for weak in self._bounds.levels(world, pointer.base):
            level = joined(given, weak)
            facts = level.formulas(world)
            outcomes = [claims.address_needs(world, each, facts) for each in accesses]
            if all(each.holds for each in outcomes) and world.solver.is_impossible(*world.base, *facts, *formulas):
                more = [read for each in outcomes for read in self._bounds.accesses_of(each.reads)]
                return Found(UNDER, level, reads=tuple(dict.fromkeys([*reads, *more])))
        return Found(UNKNOWN)

    def _meeting(self, one: Access, two: Access) -> Found:
        if self._are_updates_of_elements(one, two):
            return Found(PROVEN)
        are_inside = (self._is_inside(one), self._is_inside(two))
        result = self._disjoint((one, two), lambda world: claims.programs_meet(world, one, two, are_inside))
        if result.verdict != UNKNOWN:
            return result
        world = self._bounds.world()
        formulas = claims.programs_meet(world, one, two, (True, True)) or []
        found = self._bounds.launches.search(world, "races", (one, two), formulas)
        if found is not None:
            return Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        what = f"two programs are not shown to touch different elements: {one.op.name} at {one.line}"
        if one is not two:
            what += f", {two.op.name} at {two.line}"
        if one.is_atomic or two.is_atomic:
            what += "; an order that atomics make is not modelled"
        return Found(UNKNOWN, reason=what)

    def _are_updates_of_elements(self, one: Access, two: Access) -> bool:
        """Returns whether two accesses are atomics that programs see in one order, each to a whole element of one size."""
        if not (one.is_ordered and two.is_ordered and one.size == two.size):
            return False
        return all(self._is_whole(each) for each in (one, two))

    def _is_whole(self, access: Access) -> bool:
        """Returns whether an access is to whole elements of its size, whichever its address wraps to."""
        pointer = self._bounds.pointer(access)
        if not isinstance(pointer, Pointer) or pointer.needs:
            return False
        return pointer.offset.divisor % access.size == 0 and pointer.offset.constant_part % access.size == 0

    def _lanes(self, access: Access) -> Found:
        if access.is_atomic and self._is_whole(access):
            return Found(PROVEN)
        is_inside = self._is_inside(access)
        result = self._disjoint((access,), lambda world: claims.lanes_meet(world, access, is_inside))
        if result.verdict != UNKNOWN:
            return result
        world = self._bounds.world()
        formulas = claims.lanes_meet(world, access, True) or []
        found = self._bounds.launches.search(world, "races", (access,), formulas)
        if found is not None:
            return Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        return Found(UNKNOWN, reason="two lanes of the store are not shown to have different elements, or equal values")


__all__ = ["MAX_PAIRS", "Races"]
