"""Matrix products that each thread multiplies and adds for its own elements: float32 in full precision, and what is too small
for an instruction.

Both operands are staged in shared memory, a line for each step of the contraction: A transposed, B as it is. A step reads
the thread's rows and columns, neighbours together, and adds their outer product. Steps are a loop where there are many, so
that code and registers stay within bounds. Every element is a chain of fused multiply-adds in the order of the contraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...linear_layouts.distributed import blocked
from ...linear_layouts.f2 import log2
from ...linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...linear_layouts.linear import Elected
from ..elementwise import emit_map, register_element
from ..ir import V, const, element
from ..syntax import element_name
from .nodes import Node, Shape
from .threads import bits_of, i32

if TYPE_CHECKING:
    from .kernel import KernelLowering

Registers = list[V]

_UNROLLED = 128
"""Multiply-adds of a thread that are printed one after the other; more are a loop."""
_WIDEST = 16
"""Bytes of an access."""


def thread_tiles(shape: Sequence[int], warps: int) -> LinearLayout:
    """Up to 4 x 4 elements for each thread, 8 x 4 threads in a warp."""
    rows, columns = shape
    tile = [1, 1]
    while tile[0] * tile[1] * 32 * warps < rows * columns and tile != [4, 4]:
        tile[1 if (tile[1] <= tile[0] and tile[1] < min(4, columns)) or tile[0] >= min(4, rows) else 0] *= 2
        if tile[0] >= min(4, rows) and tile[1] >= min(4, columns):
            break
    lanes = [1, 32]
    while lanes[1] > 1 and (lanes[1] * tile[1] > columns or lanes[1] > 8):
        lanes = [lanes[0] * 2, lanes[1] // 2]
    split = [1, 1]
    for _ in range(log2(warps)):
        split[0 if split[0] * lanes[0] * tile[0] < rows else 1] *= 2
    return blocked(shape, tile, lanes, split, (1, 0))


def rounded(k: KernelLowering, operand: Any, precision: str) -> Node:
    """An operand as a node, float32 rounded to tf32 where that is asked for."""
    node = k.node(operand)
    if element_name(operand.type) == "f32" and precision == "tf32":
        return k.ev.compute("joinery.round_tf32", node.shape, "f32", [node], {})
    return node


class _Line:
    """How the elements of one operand that belong to a step lie: one after the other along `axis` of the result."""

    def __init__(self, layout: LinearLayout, axis: int, length: int, elem: str, start: int) -> None:
        """start: where the operand begins in the buffer, in bytes."""
        self.elem, self.start, self.size = elem, start, bits_of(elem) // 8
        self.pitch = length * self.size + _WIDEST  # lines of a transposed store begin in different banks
        moved = [[layout.coordinates(basis)[axis] for basis in layout[name]] for name in (LANE, WARP)]
        self.thread = tuple([each * self.size for each in column] for column in moved)
        places = [layout.coordinates(layout.apply_flat(register=r))[axis] for r in range(layout.size(REGISTER))]
        self.places = sorted(set(places))
        self.vector = 1
        while (
            2 * self.vector * self.size <= _WIDEST
            and all(place ^ self.vector in self.places for place in self.places)
            and not any(each % (2 * self.vector) for column in moved for each in column)
        ):
            self.vector *= 2

    def bytes(self, depth: int) -> int:
        return depth * self.pitch


class ThreadProduct:
    """Products of one shape in one layout of the result."""

    def __init__(
        self, k: KernelLowering, layout: LinearLayout, shape: Shape, depth: int, elems: tuple[str, str], elem: str
    ) -> None:
        self.k, self.shape, self.depth, self.elem = k, shape, depth, elem
        batch_bits = 0 if len(shape) == 2 else log2(shape[0])
        flat = LinearLayout.of(
            {**dict(layout.bases), REGISTER: layout[REGISTER][: len(layout[REGISTER]) - batch_bits]}, shape[-2:]
        )
        self.places = [flat.coordinates(flat.apply_flat(register=r)) for r in range(flat.size(REGISTER))]
        left = _Line(flat, 0, shape[-2], elems[0], 0)
        right = _Line(flat, 1, shape[-1], elems[1], -(-left.bytes(depth) // _WIDEST) * _WIDEST)
        self.lines = (left, right)
        self.bytes = right.start + right.bytes(depth)

    def run(self, sources: Sequence[Node], batch: int, start: Registers) -> Registers:
        """start + A · B for one batch."""
        k, f = self.k, self.k.f
        base = k.shared.reserve(self.bytes)
        k.shared.before_writing()
        for axis, (line, source) in enumerate(zip(self.lines, sources, strict=True)):
            self._store(line, source, batch, base, 1 - axis)
        k.shared.between()
        own = [k.shared.at(k.shared.at(base, i32(line.start)), k.t.linear(*line.thread)) for line in self.lines]
        result = list(start)
        if self.depth * len(start) <= _UNROLLED:
            for step in range(self.depth):
                at = [k.shared.at(place, i32(step * line.pitch)) for place, line in zip(own, self.lines, strict=True)]
                result = self._step(at, result)
        else:
            with f.loop(i32(0), i32(self.depth), i32(1), [*result, *own], at_least_once=True, keep=True) as loop:
                *sums, left, right = loop.values
                places = [left, right]
                following = [
                    k.shared.at(place, i32(line.pitch)) for place, line in zip(places, self.lines, strict=True)
                ]
                loop.next = [*self._step(places, sums), *following]
            result = loop.results[: len(result)]
        k.shared.after_reading()
        return result

    def _step(self, places: Sequence[V], sums: Registers) -> Registers:
        """One step of the contraction; `places`: where the thread's parts of its lines begin."""
        left, right = (self._read(place, line) for place, line in zip(places, self.lines, strict=True))
        return [self._add(left[m], right[n], total) for (m, n), total in zip(self.places, sums, strict=True)]

    def _read(self, place: V, line: _Line) -> dict[int, V]:
        k, bits = self.k, 8 * line.size * line.vector
        type_ = f"i{bits}" if bits <= 32 or line.vector == 1 else f"<{bits // 32} x i32>"
        found: dict[int, V] = {}
        for first in line.places:
            if first % line.vector:
                continue
            pointer = k.shared.at(place, i32(first * line.size))
            word = k.f.op(f"load {type_}, ptr addrspace(3) {pointer.ref}, align {bits // 8}", type_)
            for offset, piece in enumerate(k.t.unpack(word, line.vector, 8 * line.size)):
                found[first + offset] = self._widened(k.t.from_bits(piece, line.elem), line.elem)
        return found

    def _widened(self, value: V, elem: str) -> V:
        """An operand's element as the sums have it."""
        k = self.k
        if elem.startswith("f8"):
            value = emit_map(k.f, "tt.fp_to_fp", "f32", [value], [elem], {})
        wide = register_element(self.elem)
        if element(value.type) == wide:
            return value
        return k.f.cast("fpext" if wide in ("float", "double") else "sext", value, wide)

    def _add(self, a: V, b: V, total: V) -> V:
        if total.type in ("float", "double"):
            return self.k.f.fma(a, b, total)
        return self.k.f.binary("add", total, self.k.f.binary("mul", a, b))

    def _store(self, line: _Line, node: Node, batch: int, base: V, contracted: int) -> None:
        """An operand to shared memory, every element once. contracted: which of its two last dims steps go along."""
        k, f = self.k, self.k.f
        layout = k.ev.choose_layout([node]) or k.coalesced(node.shape)
        values = k.ev.at(node, layout)
        free = layout.free_masks()
        first = len(node.shape) - 2
        registers = [register for register in range(layout.size(REGISTER)) if not register & free[REGISTER]]
        steps, along = (k.t.split_indices(layout, first + dim, registers) for dim in (contracted, 1 - contracted))
        batches = k.t.indices(layout, 0, registers) if first else []
        elected = k.t.elected(Elected(free[LANE], free[WARP]))
        start = k.shared.at(base, i32(line.start))
        with k.t.where(elected):
            for number, register in enumerate(registers):
                (step, step_constant), (place, constant) = steps[number], along[number]
                thread = f.add(f.mul(step, i32(line.pitch)), f.mul(place, i32(line.size)))
                pointer = k.shared.at(
                    k.shared.at(start, thread), i32(step_constant * line.pitch + constant * line.size)
                )
                mine = f.icmp("eq", batches[number], const(batch, "i32")) if first else None
                with k.t.where(mine):  # other batches come later
                    bits = k.t.to_bits(values[register], line.elem)
                    f.emit(f"store {bits.type} {bits.ref}, ptr addrspace(3) {pointer.ref}, align {line.size}")
