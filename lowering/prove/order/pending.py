"""Finds which accesses of a program may follow each other without a barrier between, by the text alone.

A region has a *head*, what may run in it before any barrier, and a *tail*, what may have run since the last one. What follows
in the text, or in a later iteration, meets the tail with its head. Each region is looked at once, whatever it is inside of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from xdsl.ir import Block, Operation, Region

from ....promotion.dataclass import dataclass
from ...tt.analysis.dominance import postorder
from ..evaluate.blocks import Blocks
from ..evaluate.contexts import NotModelled
from ..preparation import Access

LOOPS = ("scf.for", "scf.while")
Accesses = Mapping[int, Mapping[Access, None]]
"""Accesses by the array that they are to; never changed once made."""
_NONE: Accesses = {}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two accesses to one array of which the second may follow the first without a barrier between.

    Attributes:
        shared: the loops of which both are in the same iteration.
        carried: the loop of which the second is in a later iteration; None if there is none.
    """

    one: Access
    two: Access
    shared: tuple[Operation, ...]
    carried: Operation | None


@dataclass(frozen=True, slots=True)
class Ways:
    """What may happen in a part of the text. passes: whether there is a way through it without a barrier."""

    head: Accesses
    tail: Accesses
    passes: bool


_NOTHING = Ways(_NONE, _NONE, True)
_BARRIER = Ways(_NONE, _NONE, False)


class Pending:
    """The pairs of accesses without a barrier between of one function.

    Attributes:
        pairs: those of which at least one writes, each once.
    """

    def __init__(self, function: Operation, arrays: Mapping[Access, int], barriers: Collection[Operation]) -> None:
        """Looks at the whole text.

        Args:
            arrays: the accesses, and the array that each is to; others are left out.
            barriers: those that order anything.

        Raises `NotModelled` where operations may run again in a way that is no loop's, or in a region that is not known.
        """
        self.pairs: dict[Pair, None] = {}
        self._arrays = {access.op: (array, access) for access, array in arrays.items()}
        self._barriers = barriers
        self._blocks = Blocks()
        self._loops: list[Operation] = []
        self._region(function.regions[0])

    def _meet(self, tail: Accesses, head: Accesses, carried: Operation | None = None) -> None:
        """Notes that what may have run meets what may run then. carried: the loop of which that is in a later iteration."""
        shared = tuple(self._loops)
        for array in tail.keys() & head.keys():
            for one in tail[array]:
                for two in head[array]:
                    if one.writes or two.writes:
                        self.pairs[Pair(one, two, shared, carried)] = None

    def _then(self, one: Ways, two: Ways) -> Ways:
        """Returns what happens where one part follows another one, and notes what meets."""
        self._meet(one.tail, two.head)
        head = _joined(one.head, two.head) if one.passes else one.head
        tail = _joined(two.tail, one.tail) if two.passes else two.tail
        return Ways(head, tail, one.passes and two.passes)

    def _region(self, region: Region) -> Ways:
        if not region.blocks:
            return _NOTHING
        if not self._blocks.is_acyclic(region):
            raise NotModelled("what runs in which order, where branches lead back,")
        before: dict[Block, list[Ways]] = {region.blocks[0]: [_NOTHING]}
        ends: list[Ways] = []
        for block in reversed(list(postorder(region.blocks[0]))):
            found = self._then(_either(before.pop(block)), self._block(block))
            following = dict.fromkeys(() if block.last_op is None else block.last_op.successors)
            for each in following:
                before.setdefault(each, []).append(found)
            if not following:
                ends.append(found)
        return _either(ends)

    def _block(self, block: Block) -> Ways:
        """Returns what happens in a block. Pairs of all its accesses are noted one by one, so that heads are made once."""
        found = _NOTHING
        head: dict[int, dict[Access, None]] = {}
        tail: dict[int, dict[Access, None]] = {}
        passes = True
        for op in block.ops:
            found = self._operation(op)
            if found is _NOTHING:
                continue
            self._meet(tail, found.head)
            if passes:
                _add(head, found.head)
            if not found.passes:
                tail = {}
            _add(tail, found.tail)
            passes = passes and found.passes
        return Ways(head, tail, passes)

    def _operation(self, op: Operation) -> Ways:
        if op in self._arrays:
            array, access = self._arrays[op]
            own = {array: {access: None}}
            return Ways(own, own, True)
        if op in self._barriers:
            return _BARRIER
        if not op.regions:
            return _NOTHING
        match op.name:
            case "scf.if":
                return _either([self._region(region) for region in op.regions])
            case "scf.execute_region":
                return self._region(op.regions[0])
            case "scf.for":
                body = self._within(op)[0]
                self._meet(body.tail, body.head, op)
                return Ways(body.head, body.tail, True)
            case "scf.while":
                return self._while(op)
        if any(each in self._arrays for each in op.walk()):
            raise NotModelled(f"the order of accesses inside {op.name}")
        return _NOTHING

    def _within(self, loop: Operation) -> list[Ways]:
        self._loops.append(loop)
        try:
            return [self._region(region) for region in loop.regions]
        finally:
            self._loops.pop()

    def _while(self, loop: Operation) -> Ways:
        """Returns what happens in a loop with a condition: the first region runs once more than the second one."""
        first, second = self._within(loop)
        self._loops.append(loop)
        body = self._then(first, second)
        self._loops.pop()
        self._meet(body.tail, body.head, loop)
        return Ways(body.head, self._after(second, first).tail, first.passes)

    @staticmethod
    def _after(one: Ways, two: Ways) -> Ways:
        return Ways(_NONE, _joined(two.tail, one.tail) if two.passes else two.tail, False)


def loops_of(function: Operation) -> Iterator[Operation]:
    """Yields the loops of a function."""
    for op in function.walk():
        if op.name in LOOPS:
            yield op


def _add(own: dict[int, dict[Access, None]], more: Accesses) -> None:
    for array, accesses in more.items():
        own.setdefault(array, {}).update(accesses)


def _joined(one: Accesses, two: Accesses) -> Accesses:
    if not one or not two:
        return one or two
    found: dict[int, dict[Access, None]] = {}
    _add(found, one)
    _add(found, two)
    return found


def _either(ways: Collection[Ways]) -> Ways:
    """Returns what happens in one of several parts."""
    found = [*ways]
    if len(found) == 1:
        return found[0]
    head: dict[int, dict[Access, None]] = {}
    tail: dict[int, dict[Access, None]] = {}
    for each in found:
        _add(head, each.head)
        _add(tail, each.tail)
    return Ways(head, tail, any(each.passes for each in found))


__all__ = ["LOOPS", "Pair", "Pending", "loops_of"]
