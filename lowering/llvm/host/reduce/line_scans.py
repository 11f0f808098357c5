"""Scans of one line, in vectors.

The order of integers does not show: a vector is scanned by itself in log2 n steps, then with all before it. Sums and products
of floats are chains in the order of the elements, each of which waits for one operation; vectors are loaded and stored beside
it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...elementwise import constant, identity, memory_size, to_memory
from ...masks.accesses import store_lanes
from ...values import V, lanes
from ..loops.coordinates import Bound, Coordinate, decompose_mask, stride_of
from ..loops.loop_nests import LoopNests
from ..loops.vector_loop import vector_loop
from ..nodes import Map, Node, Pointers, Splat, Stored
from .combine import Combine

_INTEGERS = ("i64", "i32", "i16", "i8")
_CHAINS = ("arith.addf", "arith.mulf")
_FEWEST = 4
"""Lanes from which on a vector takes less time than its elements one by one."""


def exact_neutral(combine: Combine, operands: Sequence[Node]) -> int | None:
    """Returns the neutral element of a scan of integers, whose order does not matter; None for other scans."""
    if combine.kind is None or len(operands) != 1 or operands[0].elem not in _INTEGERS:
        return None
    neutral = identity(combine.kind, operands[0].elem)
    return neutral if isinstance(neutral, int) else None


def _chain_neutral(combine: Combine, operands: Sequence[Node]) -> float | None:
    """Returns the neutral element of a sum or product of float32 or float64; None for other scans."""
    if combine.kind not in _CHAINS or len(operands) != 1 or operands[0].elem not in ("f32", "f64"):
        return None
    neutral = identity(combine.kind, operands[0].elem)
    return None if neutral is None else float(neutral)


def scan_in_vectors(nests: LoopNests, operand: Node, axis: int, outer: Sequence[Coordinate | None], combine: Combine,
                    neutral: V, first: V, within: Sequence[Bound], memory: Stored) -> None:  # fmt: skip
    """Scans along the vector dimension into scratch. neutral: as many lanes as a vector; first: what is before them."""
    ev, f, n, size = nests.ev, nests.ev.f, lanes(neutral.type), operand.shape[axis]
    loop = ev.open_loop({bound.limit.operand() for bound in within})
    with f.loop(0, size, n, [first], at_least_once=True) as state, ev.scope():
        here = tuple([Coordinate(state.index, 0, n, loop) if d == axis else c for d, c in enumerate(outer)])
        so_far, following = _step(nests, combine, f.splat(ev.at(operand, here), n), neutral, state.values[0])
        ev.write_scratch(memory, here, so_far)
        state.next = [following]


def _step(nests: LoopNests, combine: Combine, value: V, neutral: V, before: V) -> tuple[V, V]:
    """Returns the scan of a vector with what is before it in all lanes, and what is before the next one."""
    ev, f, n = nests.ev, nests.ev.f, lanes(value.type)
    distance = 1
    while distance < n:
        moved = f.shuffle(value, neutral, [lane - distance if lane >= distance else n + lane for lane in range(n)])
        (value,) = combine.emit(ev, [moved], [value])
        distance *= 2
    (so_far,) = combine.emit(ev, [before], [value])
    total = f.shuffle(value, value, [n - 1] * n)  # the next vector waits for one operation only
    (following,) = combine.emit(ev, [before], [total])
    return so_far, following


def _chained(nests: LoopNests, combine: Combine, value: V, before: V) -> tuple[V, V]:
    """Returns the scan of a vector in the order of its lanes, after the number before it, and its last result."""
    ev, f, so_far = nests.ev, nests.ev.f, value
    for lane in range(lanes(value.type)):
        (before,) = combine.emit(ev, [before], [f.extract(value, lane)])
        so_far = f.insert(so_far, before, lane)
    return so_far, before


class LineScan:
    """An inclusive scan of a line, from its first element on, that is written where a store wants it.

    start: what the first element is combined with, or None. end: the last result, once the scan has been emitted.
    """

    def __init__(self, nests: LoopNests, operand: Node, combine: Combine, neutral: float) -> None:
        self.nests, self.operand, self.combine, self.is_chain = nests, operand, combine, isinstance(neutral, float)
        self.shape, self.elem, self.neutral = operand.shape, operand.elem, constant(neutral, operand.elem)
        self.lanes = nests.ev.lanes_for(operand.elem)
        self.start: Node | None = None
        self.is_carried = False
        self.end: V | None = None

    @staticmethod
    def of(nests: LoopNests, operands: Sequence[Node], combine: Combine, reverse: bool) -> LineScan | None:
        """Returns the scan of a block by a region; None where it is no line that vectors divide."""
        neutral: float | None = exact_neutral(combine, operands)
        if neutral is None:
            neutral = _chain_neutral(combine, operands)
        if neutral is None or reverse or len(operands[0].shape) != 1:
            return None
        n = nests.ev.lanes_for(operands[0].elem)
        is_divided = n >= _FEWEST and operands[0].shape[0] >= 2 * n and operands[0].shape[0] % n == 0
        return LineScan(nests, operands[0], combine, neutral) if is_divided else None

    def store(self, pointers: Pointers, mask: Node | None, streaming: bool) -> bool:
        """Emits the scan into the memory that a store writes; returns False, and emits nothing, where that does not apply."""
        ev, f, n, size = self.nests.ev, self.nests.ev.f, self.lanes, memory_size(pointers.pointee)
        bounds, rest = decompose_mask(mask)
        if rest or pointers.rest is not None or not ev.is_affine(pointers, 0) or stride_of(pointers, 0) != 1:
            return False
        row = ev.row_pointer(pointers, (Coordinate(ev.s.constant(0)),), 0)
        is_whole_line = ev.s.multiple(row) % (n * size) == 0
        if pointers.pointee != self.elem or (streaming and not is_whole_line):
            return False
        inside, masked = self._inside()
        visited = {(bound.dim, bound.limit.operand()) for bound in bounds}
        if self.is_carried and not visited <= {(bound.dim, bound.limit.operand()) for bound in masked}:
            return False  # elements beyond the store count
        operand = inside if {(bound.dim, bound.limit.operand()) for bound in masked} <= visited else self.operand
        self.nests.materialize_operands([operand])
        first, neutral = self.neutral, f.splat(self.neutral, n)
        if self.start is not None:
            first = ev.at(self.start, (Coordinate(ev.s.constant(0)),))

        def body(here: Coordinate, mask: V | None, state: list[V]) -> list[V]:
            value = f.splat(ev.at(operand, (here,), mask), n)
            if mask is not None:
                value = f.select(mask, value, neutral)
            if self.is_chain:
                so_far, following = _chained(self.nests, self.combine, value, state[0])
            else:
                so_far, following = _step(self.nests, self.combine, value, neutral, state[0])
            data, pointer = to_memory(f, so_far, pointers.pointee), ev.pointer_at(pointers, (here,), 0)
            if mask is not None:
                store_lanes(f, data, pointer, mask, size)
            else:
                f.store(data, pointer, n * size if streaming else size, nontemporal=streaming)
            return [following]

        copies = vector_loop(ev, self.shape[0], bounds, 0, n, 1, body, [first if self.is_chain else f.splat(first, n)])
        self.end = copies[0][0] if self.is_chain else f.extract(copies[0][0], 0)
        return True

    def _inside(self) -> tuple[Node, Sequence[Bound]]:
        """Returns what the operand is within the bounds beyond which it is neutral, and these bounds."""
        node = self.operand
        if isinstance(node, Map) and node.op == "arith.select":
            bounds, rest = decompose_mask(node.operands[0])
            padding = node.operands[2]
            if not rest and isinstance(padding, Splat) and padding.value == self.neutral:
                return node.operands[1], bounds
        return node, []
