"""Proves that lanes of one program that touch the same memory, where one of them writes, are in an order.

Threads of a program are not ordered without a barrier, and which thread a lane belongs to is not known, nor whether it is the
same one for two accesses. So two accesses that may follow each other without a barrier must not meet, whichever lanes and
iterations they are of. Two things alone are in order: the updates of a scalar, which one thread does, outside of loops that
may do an iteration's before those of an earlier one; and a lane that is loaded to be stored in place, as what is stored is
made of what was loaded. All of this is asked for one symbolic program.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from xdsl.ir import Attribute, Operation

from ...tt import types as t
from ...tt.dialect.attributes import enum_name
from ...tt.dialect.hints import OLD_SPELLING
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS
from .. import claims
from ..bounds import Bounds
from ..evaluate.contexts import NotModelled
from ..evaluate.undefined import Undefined
from ..found import SHOWN, Found, joined, shown, worse
from ..preparation import Access
from ..proof import NEVER, ORDER, PROVEN, REFUTED, UNKNOWN
from ..races.locks import is_barrier
from ..races.verdicts import MAX_PAIRS, Races
from ..terms.formulas import Formula
from ..world import Level
from .barriers import COUNTED, barriers_of, has_several_blocks, is_divided, loops_as_written
from .differing import may_differ
from .pending import LOOPS, Pair, Pending, loops_of

_COMMUTING = frozenset({"and", "or", "xor", "add", "max", "min", "umax", "umin"})
_BY_ONE_THREAD = frozenset({"tt.store", "tt.atomic_rmw", "tt.atomic_cas"})
"""What one thread does for all, if it is of a scalar."""
_CHANGING = (
    "its address, its mask or its path, or that of a barrier, is computed from what threads may have different numbers of: "
    "what is loaded while it changes, what a mask leaves undefined, what assembly or foreign functions return"
)


class Order(Races):
    """The verdicts on the order of the lanes of one program."""

    prop = ORDER

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms, and the verdicts on bounds."""
        super().__init__(bounds)
        self._loops = frozenset(loops_of(bounds.prepared.function))
        self._is_divided = is_divided(bounds.prepared.original)
        self._as_written = loops_as_written(bounds.prepared)
        self._pairs: dict[int, list[Pair]] = {}
        self._of_written: dict[Access, int] = {}
        self._obstacle = ""

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        return self._resting(super().verdicts())

    def _begin(self, groups: Mapping[int, Sequence[Access]]) -> None:
        prepared = self._bounds.prepared
        if has_several_blocks(prepared.original):
            self._obstacle = "a program of several blocks of threads (num_ctas), each with barriers of its own, is not modelled"
        arrays: dict[Access, int] = {}
        for array, accesses in groups.items():
            writers = sum(access.writes for access in accesses)
            if writers:
                self._of_written |= dict.fromkeys(accesses, len(accesses))
            if writers and writers * len(accesses) <= MAX_PAIRS:
                arrays |= dict.fromkeys(accesses, array)
        try:
            pairs = Pending(prepared.function, arrays, barriers_of(prepared)).pairs
        except NotModelled as error:
            self._obstacle = f"{error.reason} is not modelled"
            return
        except RecursionError:
            self._obstacle = "regions inside each other, too many of them"
            return
        for pair in pairs:
            self._pairs.setdefault(arrays[pair.one], []).append(pair)

    def _refute(self, strays: list[Access]) -> None:
        """Looks for no launches: of what a stray access meets nothing is known."""

    def _group(self, accesses: list[Access]) -> None:
        writers = sum(access.writes for access in accesses)
        reason = self._obstacle if writers else ""
        if writers * len(accesses) > MAX_PAIRS:
            reason = f"{writers * len(accesses)} pairs of accesses to its array; at most {MAX_PAIRS} are tried"
        if reason:
            for access in accesses:
                self._worsen(access, Found(UNKNOWN, reason=reason))
            return
        array = self._bounds.pointer(accesses[0])
        for pair in self._pairs.get(getattr(array, "base", -1), ()):
            if self._found[pair.one].verdict != REFUTED or self._found[pair.two].verdict != REFUTED:
                result = self._bounds.guarded(partial(self._ordered, pair))
                self._worsen(pair.one, result)
                self._worsen(pair.two, result)

    def _ordered(self, pair: Pair) -> Found:
        """Returns whether two accesses are in an order wherever they meet."""
        one, two = pair.one, pair.two
        if (kind := _commuting(one.op)) is not None and kind == _commuting(two.op):
            return Found(PROVEN)  # whatever the order, the same is left, and nobody sees what was there before
        world, bounds = self._bounds.world, self._bounds
        array: int | None = getattr(bounds.pointer(one), "base", None)
        loops = self._loops - {*pair.shared}

        def formulas(level: Level, is_own: bool) -> list[Formula]:
            return claims.lanes_meet_later(world, one, two, level, loops, pair.carried, is_own)

        is_own = not self._is_divided and _is_in_order(pair, self._as_written)
        result = bounds.climb(
            array, lambda level: world.is_impossible(level, *formulas(level, is_own)),
            self._live(one, two), self._level(one, two),
        )  # fmt: skip
        if result.verdict in SHOWN:
            return result
        if one.op.name == "tt.store" and two.op.name == "tt.load":
            found = bounds.searched(ORDER, (two, one), array, lambda level: formulas(level, is_own))
            if found is not None:
                return Found(REFUTED, counterexample=found)
        if result.reason:
            return result
        return Found(UNKNOWN, reason=f"{self._why(pair, is_own)}{self._example(pair, loops, formulas((), is_own))}")

    def _why(self, pair: Pair, is_own: bool) -> str:
        one, two = pair.one, pair.two
        what = f"{one.op.name} at {one.line}"
        if one is not two:
            what += f" and {two.op.name} at {two.line}"
        lanes = "two lanes" if is_own else "threads"
        later = ", in different iterations" if pair.carried is not None else ""
        fix = "fix: tl.debug_barrier() between"
        if self._is_divided:
            fix = "barriers do not wait for copies by descriptors, nor for warps with operations of their own"
        elif pair.shared or pair.carried is not None:
            fix += ", in the body of the loop itself: loads may be fetched ahead, and updates with them"
            if any(OLD_SPELLING in op.attributes for op in self._bounds.prepared.function.walk() if is_barrier(op)):
                fix += "; a barrier that is spelled as before Triton 3.7 is not known to keep them back"
        if not is_own and one.shape and one.shape == two.shape:
            fix = f"two accesses of one lane may have different layouts, and so be two threads'; {fix}"
        return f"{lanes} may touch one element by {what}{later}, and nothing orders them; {fix}"

    def _example(self, pair: Pair, loops: frozenset[Operation], formulas: Sequence[Formula]) -> str:
        """Returns sizes and lanes with which two accesses meet, as far as the formula knows: no launch that is run shows it."""
        world = self._bounds.world
        lanes = [*world.run().lanes(pair.one.shape)]
        later = [world.other_lane_and(loops).polynomial(each) for each in world.run().lanes(pair.two.shape)]
        found = self._bounds.launches.by_formula(world, formulas, [*lanes, *later])
        if found is None:
            return ""
        sizes, values = found
        launch = "".join([f"{name} = {value}, " for name, value in sizes.items()])
        first, second = [
            f"lane {list(each)}" if each else "a scalar" for each in (values[: len(lanes)], values[len(lanes) :])
        ]  # fmt: skip
        return f"; shown by the formula alone: {launch}{first} and then {second}"

    def _resting(self, found: dict[Access, Found]) -> dict[Access, Found]:
        """Returns verdicts that say no more than what addresses, masks and paths are computed from.

        What threads have different numbers of is no single term.
        """
        level = joined(*[each.level for each in found.values() if each.verdict in SHOWN])
        open_ = {access.op for access, each in found.items() if access.reads and each.verdict not in SHOWN}
        changing = {access: access.op for access in self._of_written if access.reads and access.op not in open_}
        doubtful = self._in_doubt(open_)
        if doubtful != self._in_doubt({*open_, *changing.values()}):  # then what other programs write counts
            races = Races(self._bounds).verdicts()
            racing = {op for access, op in changing.items() if races[access].verdict not in SHOWN}
            doubtful = self._in_doubt(open_ | racing)
            level = joined(level, *[races[access].level for access, op in changing.items() if op not in racing])
        result = {}
        for access, each in found.items():
            result[access] = each
            if each.verdict not in SHOWN or each.verdict == NEVER:
                continue
            if level:
                result[access] = shown(joined(each.level, level))
            if access in doubtful:
                result[access] = worse(each, Found(UNKNOWN, reason=_CHANGING))
        return result

    def _in_doubt(self, loads: Collection[Operation]) -> set[Access]:
        """Returns the accesses to written arrays that threads may do elsewhere, or one and not the other.

        An address counts where an access may follow another one without a barrier. A path counts wherever an array has
        another access: threads may take two ways of which a program takes one. If threads may not come to a barrier, all count.
        """
        function = self._bounds.prepared.function
        differing = Undefined(function, lambda op: may_differ(op, loads))
        if any(is_barrier(op) and differing.is_path(op) for op in function.walk()):
            return {*self._of_written}
        paired = {access for pairs in self._pairs.values() for pair in pairs for access in (pair.one, pair.two)}
        found = {access for access, count in self._of_written.items() if count > 1 and differing.is_path(access.op)}
        return found | {each for each in paired if differing.is_value(each.pointer) or differing.is_value(each.mask)}


def _is_in_order(pair: Pair, as_written: Collection[Operation]) -> bool:
    """Returns whether what two accesses do in one lane happens in the order of the text, whoever does it.

    as_written: the loops that count of which no iteration's operations are done before those of an earlier one.
    """
    one, two = pair.one, pair.two
    if one.shape != two.shape or one.size != two.size:
        return False
    if not one.shape and one.op.name in _BY_ONE_THREAD and two.op.name in _BY_ONE_THREAD:
        # What a load's address is computed from is done iterations ahead with it, updates of scalars too.
        both = {*_loops_around(one.op)} & {*_loops_around(two.op)}
        return all(loop.name != COUNTED or loop in as_written for loop in both)
    return pair.carried is None and {*_loops_around(one.op)} <= {*pair.shared} and is_stored_in_place(one.op, two.op)


def _loops_around(op: Operation) -> Iterator[Operation]:
    around = op.parent_op()
    while around is not None:
        if around.name in LOOPS:
            yield around
        around = around.parent_op()


def is_stored_in_place(load: Operation, store: Operation) -> bool:
    """Returns whether all that is made of what is loaded in a lane is what a later store writes there.

    Then whoever stores the lane does so after all the loads that have a part in it, and nobody sees what other ones load.
    """
    if load.name != "tt.load" or store.name != "tt.store" or load.parent is not store.parent:
        return False
    if not load.is_before_in_block(store):
        return False
    shape = t.shape_of(load.results[0].type)
    is_stored = False
    seen, waiting = {load}, [load]
    while waiting:
        for use in [use for result in waiting.pop().results for use in result.uses]:
            op = use.operation
            if op is store:
                if use.index != 1:
                    return False
                is_stored = True
            elif not op.name.startswith(("arith.", "math.")) or any(t.shape_of(each.type) != shape for each in op.results):
                return False
            elif op not in seen:
                seen.add(op)
                waiting.append(op)
    return is_stored


def _commuting(op: Operation) -> tuple[str, Attribute] | None:
    """Returns the kind and type of a read-modify-write whose order among its like nobody sees; None for others.

    Its result is not used, and it is one of integers: sums of floats are rounded.
    """
    if op.name != "tt.atomic_rmw" or any(True for _ in op.results[0].uses):
        return None
    kind = enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"])
    type_ = t.elem(op.results[0].type)
    return (kind, type_) if kind in _COMMUTING and t.is_integer(type_) else None


__all__ = ["Order", "is_stored_in_place"]
