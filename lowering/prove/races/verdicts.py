"""Proves that programs, and lanes of a store, do not touch the same memory.

Only accesses that are shown to be inside their arrays are looked at in pairs. One that is not may meet every other one, and one
that is under a condition every other one beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from .. import claims
from ..bounds import Bounds, Live
from ..counters.last import LastProgram, find_counters
from ..evaluate.values import Pointer
from ..found import SHOWN, Found, joined, shown, worse
from ..preparation import Access
from ..proof import NEVER, PROVEN, REFUTED, UNDER, UNKNOWN
from ..world import Level
from .axes import are_apart
from .locks import Lock, find_locks
from .steps import are_one_program, is_one_lane

MAX_PAIRS = 4000
"""Most pairs of accesses to one array that are looked at."""


class Races:
    """The verdicts on races of one function.

    Attributes:
        prop: the property.
    """

    prop = "races"

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms, and the verdicts on bounds."""
        self._bounds = bounds
        self._accesses = tuple([each for each in bounds.prepared.accesses if not each.is_gather])
        self._found: dict[Access, Found] = {}
        self._locks: list[Lock] = []
        self._counters: list[LastProgram] = []

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        self._found = {access: Found(PROVEN) for access in self._accesses}
        groups: dict[int, list[Access]] = {}
        strays: list[Access] = []
        for access in self._accesses:
            pointer = self._bounds.pointer(access)
            verdict = self._bounds.bounds_of(access).verdict
            if verdict == NEVER:
                self._found[access] = Found(NEVER)
            elif verdict in SHOWN and isinstance(pointer, Pointer):
                groups.setdefault(pointer.base, []).append(access)
            else:
                strays.append(access)
        self._begin(groups)
        for accesses in groups.values():
            self._group(accesses)
        self._stray(strays)
        for access, found in list(self._found.items()):
            if found.verdict == UNKNOWN and not access.obstacle:  # it may meet one of several accesses of a line
                for example in self._bounds.launches.broken(self.prop, access)[:1]:
                    self._worsen(access, Found(REFUTED, counterexample=example))
        self._rely()
        return self._found

    def _begin(self, groups: Mapping[int, Sequence[Access]]) -> None:
        """Looks at all accesses that are inside their arrays, by array."""
        self._locks = find_locks(self._bounds, groups)
        self._counters = find_counters(self._bounds, groups)

    def _rely(self) -> None:
        """Notes that accesses meet no other ones only where those, of whatever array, are inside their own.

        One that is inside under a condition may be anywhere beyond it: a write meets all accesses there, a read those that
        write.
        """
        own = {access: self._level(access) for access in self._accesses}
        of_writes = joined(*[level for access, level in own.items() if access.writes])
        of_all = joined(*own.values())
        is_written = any(access.writes for access in self._accesses)
        for access, found in self._found.items():
            level = of_all if access.writes else joined(own[access], of_writes)
            if is_written and level and found.verdict in (PROVEN, UNDER):
                self._found[access] = shown(self._bounds.needed(joined(found.level, level)))

    def _worsen(self, access: Access, result: Found) -> None:
        self._found[access] = worse(self._found[access], result)

    def _stray(self, strays: list[Access]) -> None:
        """Notes that an access that is not shown to be inside an array may meet every other one."""
        for is_writing in (True, False):
            stray = next((each for each in strays if each.writes or not is_writing), None)
            if stray is None:
                continue
            reason = (
                f"it may meet {stray.op.name} at {stray.line}, which is not shown to stay inside its array"
            )
            for access in self._accesses:
                if (is_writing or access.writes) and self._found[access].verdict in (PROVEN, UNDER):
                    self._worsen(access, Found(UNKNOWN, reason=reason))
        writers = [each for each in self._accesses if each.writes]
        for stray in strays:
            if writers and self._found[stray].verdict in SHOWN:
                reason = "it is not shown to stay inside its array: it may meet any other one"
                self._worsen(stray, Found(UNKNOWN, reason=reason))
        self._refute(strays)

    def _refute(self, strays: list[Access]) -> None:
        """Looks for launches in which a stray access to a known array meets itself."""
        world = self._bounds.world
        for stray in strays:
            pointer = self._bounds.pointer(stray)
            if not stray.writes or not isinstance(pointer, Pointer) or pointer.base not in world.extents:
                continue
            found = self._bounds.guarded(partial(self._counterexample, stray, stray))
            if found.counterexample is not None:
                self._worsen(stray, found)

    def _counterexample(self, one: Access, two: Access) -> Found:
        world = self._bounds.world
        pointer = self._bounds.pointer(one)
        assert isinstance(pointer, Pointer)
        found = self._bounds.searched(
            "races", (one, two), pointer.base, lambda level: claims.programs_meet(world, one, two, level)
        )
        return Found(UNKNOWN) if found is None else Found(REFUTED, counterexample=found)

    def _group(self, accesses: list[Access]) -> None:
        """Looks at the accesses to one array."""
        for access in accesses:
            if access.writes and access.shape and not access.is_atomic:
                self._worsen(access, self._bounds.guarded(partial(self._lanes, access)))
        writers = sum(access.writes for access in accesses)
        pairs = writers * (writers + 1) // 2 + writers * (len(accesses) - writers)
        if pairs > MAX_PAIRS:
            for access in accesses:
                reason = f"{pairs} pairs of accesses to its array; at most {MAX_PAIRS} are tried"
                self._worsen(access, Found(UNKNOWN, reason=reason))
            return
        for number, one in enumerate(accesses):
            for two in accesses[number:]:
                is_open = self._found[one].verdict != REFUTED or self._found[two].verdict != REFUTED
                if is_open and (one.writes or two.writes):
                    result = self._bounds.guarded(partial(self._meeting, one, two))
                    self._worsen(one, result)
                    self._worsen(two, result)

    # Questions

    def _level(self, *accesses: Access) -> Level:
        """Returns the conditions under which accesses are inside their array, which is taken for granted then."""
        return joined(*[self._bounds.bounds_of(access).level for access in accesses])

    def _live(self, *accesses: Access) -> list[Live]:
        """Returns what says that accesses are executed."""
        return [partial(self._bounds.live, access) for access in dict.fromkeys(accesses)]

    def _meeting(self, one: Access, two: Access) -> Found:
        if one.is_ordered and two.is_ordered and one.size == two.size:
            return Found(PROVEN)  # updates of whole elements, as both are at multiples of their size
        if any(lock.guards(one.op) and lock.guards(two.op) for lock in self._locks):
            return Found(PROVEN)  # one program at a time, in an order
        world, bounds = self._bounds.world, self._bounds
        pointer = bounds.pointer(one)
        assert isinstance(pointer, Pointer)

        def holds(level: Level) -> bool:
            apart = [counter.apart(one, two, level) for counter in self._counters]
            unordered = [each for each in apart if each is not None]
            if are_one_program(world, one, two, level):
                return True
            return are_apart(world, level, [*claims.programs_meet(world, one, two, level), *unordered])

        result = bounds.climb(pointer.base, holds, self._live(one, two), self._level(one, two))
        if result.verdict in SHOWN:
            return result
        found = self._counterexample(one, two)
        if found.counterexample is not None:
            return found
        if result.reason:
            return result
        what = f"two programs are not shown to touch different elements: {one.op.name} at {one.line}"
        if one is not two:
            what += f", {two.op.name} at {two.line}"
        if one.is_atomic or two.is_atomic:
            what += "; an order that atomics make is not modelled"
        return Found(UNKNOWN, reason=what)

    def _lanes(self, access: Access) -> Found:
        world, bounds = self._bounds.world, self._bounds
        pointer = bounds.pointer(access)
        assert isinstance(pointer, Pointer)
        result = bounds.climb(
            pointer.base,
            lambda level: (
                is_one_lane(world, access, level) or are_apart(world, level, claims.lanes_meet(world, access, level))
            ),
            self._live(access),
            self._level(access),
        )
        if result.verdict in SHOWN:
            return result
        found = bounds.searched("races", (access,), pointer.base, lambda level: claims.lanes_meet(world, access, level))
        if found is not None:
            return Found(REFUTED, counterexample=found)
        return Found(
            UNKNOWN, reason=result.reason or "two lanes of the store are not shown to have different elements, or equal values"
        )


__all__ = ["MAX_PAIRS", "Races"]
