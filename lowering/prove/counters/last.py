"""Finds counters by which the last program knows that it is the last: what others did before they counted is done then.

Each program adds 1 to a place, once, and looks at the number that was there. Nothing else writes there, so each number is
returned to one program. Whoever finds as many as there are other programs with the same place comes after all of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from xdsl.ir import Block, Operation

from ....promotion.dataclass import dataclass
from ...tt import types as t
from ...tt.dialect.attributes import enum_name
from ...tt.dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS
from .. import claims
from ..bounds import Bounds
from ..evaluate.contexts import NotModelled, context
from ..evaluate.values import Condition, Integer, Pointer
from ..order.barriers import has_several_blocks, is_divided
from ..preparation import Access
from ..races.locks import is_barrier, number_of
from ..terms.formulas import TRUE, Formula, either, equal, less, negated
from ..terms.polynomials import ONE, Polynomial, TooLarge
from ..world import Level
from .adding import runs_once


@dataclass(frozen=True, slots=True)
class Position:
    """An operation of a function: where it stands in the block of another one, or of an operation around that.

    Attributes:
        depth: of how many operations around the other one that block is inside them.
        within: the operation, or the one around it, that stands in the block.
    """

    depth: int
    within: Operation


class LastProgram:
    """A counter to which each program adds 1, once at most.

    Attributes:
        access: the addition.
    """

    def __init__(self, bounds: Bounds, access: Access, start: Polynomial, others: Sequence[Access]) -> None:
        """Starts with nothing asked. start: what the place is at first. others: that write into the same array."""
        self.access = access
        self._bounds = bounds
        self._world = bounds.world
        self._start = start
        self._others = others
        self._around = list(_around(access.op, bounds.prepared.function))
        self._axes: dict[Level, tuple[int, ...]] = {}
        self._is_last: dict[tuple[Level, Access], bool] = {}
        self._is_counter: dict[Level, bool] = {}

    def apart(self, one: Access, two: Access, level: Level) -> Formula | None:
        """Returns what must hold of two programs whose accesses this counter does not order; None if it orders none."""
        try:
            if not self._is_counter_under(level):
                return None
            is_last = self._is_last_under(one, level), self._is_last_under(two, level)
            is_before = self._is_before(one), self._is_before(two)
            if all(is_last) or (is_last[0] and is_before[1]) or (is_last[1] and is_before[0]):
                return either(*self._other_locations(level))
        except (NotModelled, TooLarge, RecursionError):
            pass
        return None

    def _other_locations(self, level: Level) -> list[Formula]:
        """Returns, by axis, that two programs have places of their own: those with one place have one index there."""
        program = self._world.run(level).program
        own = [program[axis] for axis in self._shared(level)]
        return [negated(equal(each, self._world.other_program.polynomial(each))) for each in own]

    def _shared(self, level: Level) -> tuple[int, ...]:
        """Returns the axes along which all programs that add to one place have one index."""
        found = self._axes.get(level)
        if found is None:
            found = self._axes[level] = self._found_shared(level)
        return found

    def _found_shared(self, level: Level) -> tuple[int, ...]:
        world = self._world
        live, pointer, inside = claims.located(world, self.access, level)
        if not world.terms.depends(pointer.offset):
            return ()
        renaming = world.other_program
        one_location = equal(pointer.offset - renaming.polynomial(pointer.offset), 0)
        given = [live, renaming.formula(live), inside, renaming.formula(inside), one_location]
        found = []
        for axis, index in enumerate(world.run(level).program):
            other = negated(equal(index, renaming.polynomial(index)))
            if world.grid[axis].number != 1 and world.is_impossible(level, *given, other):
                found.append(axis)
        return tuple(found)

    def _is_counter_under(self, level: Level) -> bool:
        """Returns whether what else writes into the array does so in the last programs alone, each at its own place."""
        found = self._is_counter.get(level)
        if found is None:
            found = self._is_counter[level] = all(self._is_reset(each, level) for each in self._others)
        return found

    def _is_reset(self, other: Access, level: Level) -> bool:
        own, its = [self._world.access_terms(each, level).pointer for each in (self.access, other)]
        is_one_location = isinstance(own, Pointer) and isinstance(its, Pointer) and own.offset == its.offset
        is_whole = other.size == self.access.size and not other.shape
        return is_one_location and is_whole and self._is_last_under(other, level)

    def _is_last_under(self, access: Access, level: Level) -> bool:
        """Returns whether an access touches memory only where its program has found that it is the last one of its place."""
        found = self._is_last.get((level, access))
        if found is None:
            found = self._is_after(access.op) and self._finds_all(access, level)
            self._is_last[level, access] = found
        return found

    def _finds_all(self, access: Access, level: Level) -> bool:
        world, own = self._world, self.access.op
        assert own.parent is not None
        ev = context(world.run(level), own.parent)
        old = ev.value(own.results[0], ())
        if not isinstance(old, Integer):
            return False
        shared = self._shared(level)
        programs = prod([each for axis, each in enumerate(world.grid) if axis not in shared], start=ONE)
        live = world.access_terms(access, level).live
        return world.is_impossible(level, live, less(ev.signed(old), self._start + programs - 1))

    # The order of the text

    def _is_after(self, op: Operation) -> bool:
        """Returns whether an operation is done, if at all, after the addition of its program."""
        own = self.access.op
        position = _position(op, self._around[:1])
        if position is not None:
            return own.is_before_in_block(position.within)
        return _dominates(self._bounds, own.parent, op)

    def _is_before(self, access: Access) -> bool:
        """Returns whether all threads have done all of an access when one does the addition; so the addition itself."""
        if access is self.access:
            return True
        position = _position(access.op, self._around)
        if position is None:  # in another block of the function
            *_, first = _around(access.op, self._bounds.prepared.function)
            return _dominates(self._bounds, first.parent, self.access.op) and any(map(_has_barrier, self._around))
        last = self._around[position.depth]
        if position.within is last or not position.within.is_before_in_block(last):
            return False
        return _has_barrier(last, position.within) or any(_has_barrier(own) for own in self._around[: position.depth])


def find_counters(bounds: Bounds, groups: Mapping[int, Sequence[Access]]) -> list[LastProgram]:
    """Returns the counters of a function. groups: the accesses that are inside their arrays, by array."""
    found: list[LastProgram] = []
    original = bounds.prepared.original
    if not bounds.world.starts or has_several_blocks(original) or is_divided(original):
        return found
    for base, accesses in groups.items():
        writing = [each for each in accesses if each.writes]
        adding = [each for each in writing if each.op.name == "tt.atomic_rmw"]
        for access in adding if base in bounds.world.starts else ():
            others = [each for each in writing if each is not access]
            try:
                if adds_one(bounds, access):
                    found.append(LastProgram(bounds, access, bounds.world.starts[base], others))
            except (NotModelled, TooLarge, RecursionError):
                continue
    return found


def adds_one(bounds: Bounds, access: Access) -> bool:
    """Returns whether each program adds 1 to a whole element, once at most, and is ordered by that with others that do."""
    op = access.op
    kind = enum_name(HOST_RMW_OPERATIONS, op.properties["atomic_rmw_op"])
    order = enum_name(MEMORY_ORDERS, op.properties["sem"])
    value = op.results[0].type
    if kind != "add" or order != "acq_rel" or not access.is_ordered or access.shape or not t.is_integer(value):
        return False
    pointer = bounds.pointer(access)
    assert isinstance(pointer, Pointer)
    element = bounds.prepared.parameters[pointer.base].element_size
    if not access.size == element == t.bit_width(value) // 8 or number_of(bounds.world, op, op.operands[1]) != 1:
        return False
    if not runs_once(bounds.world.run(), op):
        return False
    assert op.parent is not None
    mask = None if access.mask is None else context(bounds.world.run(), op.parent).value(access.mask, ())
    return mask is None or (isinstance(mask, Condition) and mask.formula == TRUE)


def _around(op: Operation, function: Operation) -> Iterator[Operation]:
    """Yields an operation and those around it, up to the one that stands in the function itself."""
    while op is not function:
        yield op
        above = op.parent_op()
        assert above is not None
        op = above


def _position(op: Operation, around: Sequence[Operation]) -> Position | None:
    """Returns the innermost block of operations that another one is in, with where it stands there."""
    for depth, own in enumerate(around):
        within: Operation | None = op
        while within is not None and within.parent is not own.parent:
            within = within.parent_op()
        if within is not None:
            return Position(depth, within)
    return None


def _dominates(bounds: Bounds, block: Block | None, op: Operation) -> bool:
    """Returns whether each way to an operation passes a block of the function's, which has not the operation in it."""
    function = bounds.prepared.function
    region = function.regions[0]
    blocks = bounds.world.run().blocks
    if block is None or block.parent is not region or not blocks.is_acyclic(region):
        return False
    first = [*_around(op, function)][-1].parent
    if first is None or first is block:
        return False
    while first is not region.blocks[0]:
        if not blocks.is_reachable(first):
            return False
        first = blocks.dominator(first)
        if first is block:
            return True
    return False


def _has_barrier(op: Operation, behind: Operation | None = None) -> bool:
    """Returns whether a barrier of all threads stands in an operation's block before it, and behind another one."""
    assert op.parent is not None
    return any(
        is_barrier(each) and each.is_before_in_block(op) and (behind is None or behind.is_before_in_block(each))
        for each in op.parent.ops
    )


__all__ = ["LastProgram", "adds_one", "find_counters"]
