"""Proves that lanes of one program that touch the same memory, where one of them writes, are in an order.

Threads of a program are not ordered without a barrier, and which thread a lane belongs to is not known. So two accesses that
may follow each other without a barrier must not meet, whichever lanes and iterations they are of; only the accesses of one lane
of blocks of the same shape and element width are in order, if no other thread uses what it loads of that lane. All of this is
asked for one symbolic program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

from xdsl.ir import Operation

from ...tt import types as t
from ...tt.dialect.attributes import enum_name
from ...tt.dialect.functions import FuncOp, called_functions
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS
from .. import claims
from ..bounds import Bounds
from ..evaluate.contexts import NotModelled
from ..evaluate.undefined import Undefined
from ..found import SHOWN, Found, joined, shown, worse
from ..locks import is_barrier
from ..preparation import Access
from ..proof import NEVER, ORDER, PROVEN, REFUTED, UNKNOWN
from ..races import MAX_PAIRS, Races
from ..terms.formulas import Formula
from ..world import Level
from .pending import Pair, Pending, loops_of

WARPS = "num_warps"
"""What specifications call the number of warps of a program, where the kernel has no parameter of that name."""
_DEFAULT_WARPS = 4
_THREADS = 32
_COMMUTING = frozenset({"and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin"})
_APART = ("tt.descriptor_", "tt.experimental_descriptor_", "ttng.")
"""Operations that other units than the program's threads carry out, for which these do not wait at a barrier."""
_CHANGING = "its address, its mask or its path, or that of a barrier, is computed from what is loaded while it changes"
_DIVIDED = "tt.warp_specialize"
"""The attribute of a loop whose operations are divided among warps."""


class Order(Races):
    """The verdicts on the order of the lanes of one program."""

    prop = ORDER

    def __init__(self, bounds: Bounds) -> None:
        """Starts with nothing asked. bounds: has the terms, and the verdicts on bounds."""
        super().__init__(bounds)
        function = bounds.prepared.function
        self._loops = frozenset(loops_of(function))
        self._is_divided = _is_divided(bounds.prepared.original)
        self._pairs: dict[int, list[Pair]] = {}
        self._obstacle = ""
        warps = None if WARPS in bounds.prepared.numbers else bounds.world.specification.ranges().get(WARPS)
        most = _DEFAULT_WARPS if warps is None else warps[1]
        self._threads = None if most is None else max(1, most) * _THREADS
        self._relies_on_threads = False

    def verdicts(self) -> dict[Access, Found]:
        """Returns the verdict of every access."""
        found = self._resting(super().verdicts())
        if self._relies_on_threads:
            self._bounds.world.promises.append(f"order: a program has at most {self._threads} threads ({WARPS} of {_THREADS})")
        return found

    def _begin(self, groups: Mapping[int, Sequence[Access]]) -> None:
        arrays: dict[Access, int] = {}
        for array, accesses in groups.items():
            writers = sum(access.writes for access in accesses)
            if writers and writers * len(accesses) <= MAX_PAIRS:
                arrays |= dict.fromkeys(accesses, array)
        try:
            pairs = Pending(self._bounds.prepared.function, arrays, not self._is_divided).pairs
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
        if _commutes(one.op) and _commutes(one.op) == _commutes(two.op) and one.size == two.size:
            return Found(PROVEN)  # whatever the order, the same is left, and nobody sees what was there before
        world, bounds = self._bounds.world, self._bounds
        pointer = bounds.pointer(one)
        loops = self._loops - {*pair.shared}

        def formulas(level: Level, is_own: bool) -> list[Formula]:
            return claims.lanes_meet_later(world, one, two, level, loops, pair.carried, is_own)

        is_own = self._has_own_threads(one, two)
        level = bounds.climb(
            getattr(pointer, "base", None), lambda level: world.is_impossible(level, *formulas(level, is_own)),
            self._level(one, two),
        )  # fmt: skip
        if level is not None:
            self._relies_on_threads |= is_own and self._counts_threads(pair)
            return shown(level)
        if one.op.name == "tt.store" and two.op.name == "tt.load":
            found = bounds.launches.search(world, ORDER, (two, one), formulas((), is_own))
            if found is not None:
                return Found(REFUTED, counterexample=found)
        return Found(UNKNOWN, reason=f"{self._why(pair, is_own)}{self._example(pair, loops, formulas((), is_own))}")

    def _has_own_threads(self, one: Access, two: Access) -> bool:
        """Returns whether what two accesses do in one lane, they do in the order of the text.

        A lane is stored, and a scalar updated, by one thread, and loaded by that and, of a scalar or of a block with fewer
        elements than threads, others besides. These may load too early or too late, which nobody sees if they do nothing
        with it.
        """
        return _is_alike(one, two) and not self._is_divided and all(self._is_one_thread(each) for each in (one, two))

    def _is_one_thread(self, access: Access) -> bool:
        """Returns whether a lane is touched by one thread, or by others besides that do nothing with what they load."""
        return access.writes or is_only_stored(access.op) or self._has_lane_for_each(access)

    def _has_lane_for_each(self, access: Access) -> bool:
        return self._threads is not None and bool(access.shape) and prod(access.shape) >= self._threads

    def _counts_threads(self, pair: Pair) -> bool:
        """Returns whether a verdict that lanes are in order rests on the number of threads."""
        return any(not each.writes and not is_only_stored(each.op) for each in (pair.one, pair.two))

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
        elif not is_own and _is_alike(one, two):
            fix = f"several threads (of {self._threads}, or as many as an assumption of {WARPS} says) load a lane; {fix}"
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
        """Returns verdicts that say no more than those of all loads from which an address, a mask or a path is computed.

        What is loaded while another lane may write it is not one number for all threads.
        """
        level = joined(*[each.level for each in found.values() if each.verdict in SHOWN])
        open_ = {access.op: access for access, each in found.items() if access.reads and each.verdict not in SHOWN}
        function = self._bounds.prepared.function
        doubtful = Undefined(function, lambda op: op in open_) if open_ else None
        is_doubtful = doubtful is not None and any(is_barrier(op) and doubtful.is_path(op) for op in function.walk())
        result = {}
        for access, each in found.items():
            result[access] = each
            if each.verdict not in SHOWN or each.verdict == NEVER:
                continue
            if level:
                result[access] = shown(joined(each.level, level))
            if doubtful is not None:
                used = (access.pointer, access.mask)
                if is_doubtful or doubtful.is_path(access.op) or any(map(doubtful.is_value, used)):
                    result[access] = worse(each, Found(UNKNOWN, reason=_CHANGING))
        return result


def _is_alike(one: Access, two: Access) -> bool:
    """Returns whether accesses give the same thread the same lane; which one updates which lane of a block is not known."""
    is_plain = not one.is_atomic and not two.is_atomic
    is_scalar = one.writes and two.writes and not one.shape
    return one.shape == two.shape and one.size == two.size and (is_plain or is_scalar)


def is_only_stored(load: Operation) -> bool:
    """Returns whether all that is made of what an operation loads is stored, lane by lane, by whoever loads it.

    What other threads load of the same lane has a part in nothing then.
    """
    shape = t.shape_of(load.results[0].type)
    seen, waiting = {load}, [load]
    while waiting:
        for use in [use for result in waiting.pop().results for use in result.uses]:
            op = use.operation
            if op.name == "tt.store":
                if t.shape_of(op.operands[0].type) != shape:
                    return False
            elif not op.name.startswith(("arith.", "math.")) or any(t.shape_of(each.type) != shape for each in op.results):
                return False
            elif op not in seen:
                seen.add(op)
                waiting.append(op)
    return True


def _commutes(op: Operation) -> str:
    """Returns the kind of a read-modify-write whose order among its like nobody sees, as its result is not used; else ""."""
    if op.name != "tt.atomic_rmw" or any(True for _ in op.results[0].uses):
        return ""
    kind = enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"])
    return kind if kind in _COMMUTING else ""


def _is_divided(original: FuncOp) -> bool:
    """Returns whether other units than the threads, or some threads alone, carry out operations of a function."""
    for function in (original, *called_functions(original)):
        for op in function.walk():
            if op.name.startswith(_APART) or _DIVIDED in op.attributes:
                return True
    return False


__all__ = ["WARPS", "Order", "is_only_stored"]
