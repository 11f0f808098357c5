"""Matrix products in which each thread multiplies and adds for its own elements.

They compute float32 in full precision, and products too small for an instruction.

Both operands are in shared memory. Blocks that a pipelined loop has loaded have the same order as in global memory: steps of
the contraction are lines of it, or its lines run along the contraction, of which a thread then reads four steps at a time.
Others are stored, a line for each step: A transposed, B as it is. A step reads the thread's rows and columns, neighbours
together, and adds their outer product. Steps are a loop where there are many, so that code and registers stay within bounds.
Every element is a chain of fused multiply-adds in the order of the contraction.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from .....promotion.dataclass import dataclass
from ....linear_layouts.distributed import blocked
from ....linear_layouts.f2 import log2, units
from ....linear_layouts.layout import LANE, OFFSET, REGISTER, WARP, LinearLayout
from ....linear_layouts.linear import ThreadPredicate
from ....linear_layouts.matching import offsets
from ....linear_layouts.shared import plain
from ...elementwise import emit_map, register_element
from ...syntax import element_name
from ...values import V, const, element, i32
from ..context import KernelContext
from ..nodes import Node, Shape, Staged
from ..threads import bits_of

Registers = list[V]

_UNROLLED = 128
"""The most multiply-adds of a thread that are unrolled; more are a loop."""
_ITERATION = 256
"""The multiply-adds of an iteration of that loop: they hide the latency of the loads of all but its first step."""
_WIDEST = 16
"""The most bytes of an access."""


def thread_tiles(shape: Sequence[int], warps: int) -> LinearLayout:
    """Returns a layout with up to 4 x 4 elements for each thread, 8 x 4 threads in a warp."""
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


def rounded(k: KernelContext, operand: SSAValue, precision: str) -> Node:
    """Returns an operand as a node, float32 rounded to tf32 where the precision asks for it."""
    node = k.node(operand)
    if element_name(operand.type) == "f32" and precision == "tf32":
        return k.ev.compute("joinery.round_tf32", node.shape, "f32", [node], {})
    return node


@dataclass(frozen=True, slots=True)
class StagedLines:
    """An operand of 32-bit elements that is in shared memory as it was loaded, contiguous along `axis`."""

    shape: Shape
    elem: str
    shared: LinearLayout
    axis: int

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * 4


def staged_lines(shape: Shape, side: str, elem: str, axis: int, result: LinearLayout) -> StagedLines | None:
    """Plans operand `side` of a product whose threads have the elements of `result`.

    None where threads cannot read four steps at a time of lines along the contraction. In such lines chunks of 16 bytes are
    swapped with those of other lines, such that adjacent lanes read different banks.
    """
    contracted = 1 if side == "a" else 0
    if axis != contracted:
        return StagedLines(shape, elem, plain(shape, (axis, 1 - axis)), axis)
    if shape[axis] < _WIDEST // 4:
        return None
    lines = 1 - axis
    moved = [result.coordinates(basis)[lines] for basis in result[LANE]]
    flips = dict(zip([each for each in moved if each], (4, 8, 16), strict=False))
    step = (shape[1], 1)
    bases = [step[axis] << bit for bit in range(log2(shape[axis]))]
    for bit in range(log2(shape[lines])):
        flip = flips.get(1 << bit, 0)
        basis = step[lines] << bit
        bases.append(basis ^ bases[log2(flip)] if flip and log2(flip) < len(bases) else basis)
    return StagedLines(shape, elem, LinearLayout.of({OFFSET: bases}, shape), axis)


class _Side:
    """The part of one operand that a thread reads: its positions along an axis of the result, at every step."""

    steps = 1
    """The number of steps that are read at a time."""

    def __init__(self, k: KernelContext, layout: LinearLayout, axis: int, elem: str, sums: str) -> None:
        """Begins a side. sums: the element type in which products are added."""
        self.k, self.elem, self.sums, self.size = k, elem, sums, bits_of(elem) // 8
        self.moved = [[layout.coordinates(basis)[axis] for basis in layout[name]] for name in (LANE, WARP)]
        positions = [layout.coordinates(layout.apply_flat(register=r))[axis] for r in range(layout.size(REGISTER))]
        self.positions = sorted(set(positions))

    def first(self) -> V:
        """Emits the position of the first step; a loop carries it."""
        raise NotImplementedError

    def after(self, where: V, steps: int) -> V:
        """Emits the position `steps` steps later."""
        raise NotImplementedError

    def read(self, where: V, step: int) -> list[dict[int, V]]:
        """Returns, by position along the axis, the elements of this step after `where` and of those that are read with it."""
        raise NotImplementedError

    def _load(self, pointer: V, count: int) -> list[V]:
        k, bits = self.k, 8 * self.size * count
        type_ = f"i{bits}" if bits <= 32 or count == 1 else f"<{bits // 32} x i32>"
        packed = k.f.op(f"load {type_}, ptr addrspace(3) {pointer.operand()}, align {bits // 8}", type_)
        return [self._widened(k.t.from_bits(piece, self.elem)) for piece in k.t.unpack(packed, count, 8 * self.size)]

    def _widened(self, value: V) -> V:
        """Converts an element to the type of the sums."""
        k, elem = self.k, self.elem
        if elem.startswith("f8"):
            value = emit_map(k.f, "tt.fp_to_fp", "f32", [value], [elem], {})
        wide = register_element(self.sums)
        if element(value.type) == wide:
            return value
        return k.f.cast("fpext" if wide in ("float", "double") else "sext", value, wide)


class _Across(_Side):
    """A side in which every step is a line, along which the positions lie."""

    def __init__(
        self, k: KernelContext, layout: LinearLayout, axis: int, elem: str, sums: str, length: int, base: V | None
    ) -> None:
        """Begins a side across lines.

        base: where the first line starts; the others follow. None: not known yet, and lines begin in different banks,
        for stores across them.
        """
        super().__init__(k, layout, axis, elem, sums)
        self.base, self.pitch = base, length * self.size + (_WIDEST if base is None else 0)
        self.vector = 1
        while (
            2 * self.vector * self.size <= _WIDEST
            and all(position ^ self.vector in self.positions for position in self.positions)
            and not any(each % (2 * self.vector) for column in self.moved for each in column)
        ):
            self.vector *= 2

    def bytes(self, depth: int) -> int:
        return -(-depth * self.pitch // _WIDEST) * _WIDEST

    def first(self) -> V:
        assert self.base is not None
        return self.k.shared.at(self.base, self.k.t.linear(*[[each * self.size for each in column] for column in self.moved]))

    def after(self, where: V, steps: int) -> V:
        return self.k.shared.at(where, i32(steps * self.pitch))

    def read(self, where: V, step: int) -> list[dict[int, V]]:
        found: dict[int, V] = {}
        for first in self.positions:
            if first % self.vector:
                continue
            pointer = self.k.shared.at(where, i32(step * self.pitch + first * self.size))
            found.update(enumerate(self._load(pointer, self.vector), first))
        return [found]


class _Along(_Side):
    """A side in which every position is a line, along which the steps lie."""

    steps = 4

    def __init__(
        self, k: KernelContext, layout: LinearLayout, axis: int, elem: str, sums: str, operand: StagedLines, base: V
    ) -> None:
        super().__init__(k, layout, axis, elem, sums)
        self.base = base
        depth, unit = operand.shape[1 - axis], (operand.shape[1], 1)
        bits = [bit for bit in units(log2(operand.shape[axis])) if bit in self.positions]
        where = offsets(
            LinearLayout.of(
                {
                    REGISTER: [*[unit[1 - axis] << bit for bit in range(log2(depth))], *[unit[axis] * bit for bit in bits]],
                    LANE: [unit[axis] * each for each in self.moved[0]],
                    WARP: [unit[axis] * each for each in self.moved[1]],
                },
                operand.shape,
            ),
            operand.shared,
        )
        self.lines = dict(zip(bits, where[REGISTER][log2(depth) :], strict=True))
        self.thread = k.t.linear(*[[each * self.size for each in where[name]] for name in (LANE, WARP)])
        self.moving = depth * self.size - 1
        for each in (*where[LANE], *where[WARP]):
            self.moving |= each * self.size

    def first(self) -> V:
        return i32(0)

    def after(self, where: V, steps: int) -> V:
        return self.k.f.add(where, i32(steps * self.size))

    def read(self, where: V, step: int) -> list[dict[int, V]]:
        k = self.k
        thread = k.f.binary("xor", self.thread, where)
        found: list[dict[int, V]] = [{} for _ in range(self.steps)]
        for position in self.positions:
            line = 0
            for bit, start in self.lines.items():
                line ^= start if position & bit else 0
            pointer = k.shared.address(self.base, thread, (line ^ step) * self.size, self.moving)
            for each, value in zip(found, self._load(pointer, self.steps), strict=True):
                each[position] = value
        return found


class ThreadProduct:
    """Emits products of one shape in one layout of the result."""

    def __init__(
        self, k: KernelContext, layout: LinearLayout, shape: Shape, depth: int, elems: tuple[str, str], elem: str
    ) -> None:
        self.k, self.shape, self.depth, self.elems, self.elem = k, shape, depth, elems, elem
        batch_bits = 0 if len(shape) == 2 else log2(shape[0])
        self.flat = LinearLayout.of(
            {**dict(layout.bases), REGISTER: layout[REGISTER][: len(layout[REGISTER]) - batch_bits]}, shape[-2:]
        )
        self.positions = [
            self.flat.coordinates(self.flat.apply_flat(register=r)) for r in range(self.flat.size(REGISTER))
        ]

    def run(self, sources: Sequence[Node], batch: int, start: Registers) -> Registers:
        """Emits start + A · B for one batch."""
        k, f = self.k, self.k.f
        sides = [self._side(axis, source) for axis, source in enumerate(sources)]
        stored = [each for each in sides if isinstance(each, _Across) and each.base is None]
        if stored:
            base = k.shared.reserve(sum(each.bytes(self.depth) for each in stored))
            offset = 0
            for each in stored:
                each.base = k.shared.at(base, i32(offset))
                offset += each.bytes(self.depth)
            k.shared.before_writing()
            for axis, (side, source) in enumerate(zip(sides, sources, strict=True)):
                if side in stored:
                    assert isinstance(side, _Across)
                    self._store(side, source, batch, 1 - axis)
            k.shared.between()
        left, right = sides
        result = list(start)
        if self.depth * len(start) <= _UNROLLED:
            result = self._steps(left, right, left.first(), right.first(), self.depth, result)
        else:
            steps = max(left.steps, right.steps)
            while 2 * steps * len(start) <= _ITERATION and 2 * steps <= self.depth:
                steps *= 2
            begin = [*result, left.first(), right.first()]
            with f.loop(i32(0), i32(self.depth), i32(steps), begin, at_least_once=True, keep=True) as loop:
                *sums, a, b = loop.values
                sums = self._steps(left, right, a, b, steps, sums)
                loop.next = [*sums, left.after(a, steps), right.after(b, steps)]
            result = loop.results[: len(result)]
        if stored:
            k.shared.after_reading()
        return result

    def _side(self, axis: int, source: Node) -> _Side:
        k, elem = self.k, self.elems[axis]
        if not isinstance(source, Staged):
            return _Across(k, self.flat, axis, elem, self.elem, self.shape[axis - 2], None)
        operand = source.operand
        assert isinstance(operand, StagedLines)
        if operand.axis == axis:
            return _Across(k, self.flat, axis, elem, self.elem, self.shape[axis - 2], source.base)
        return _Along(k, self.flat, axis, elem, self.elem, operand, source.base)

    def _steps(self, left: _Side, right: _Side, a: V, b: V, count: int, sums: Registers) -> Registers:
        """Emits `count` steps of the contraction from the positions a and b."""
        result = sums
        rows: list[dict[int, V]] = []
        columns: list[dict[int, V]] = []
        for step in range(count):
            rows = rows or left.read(a, step)
            columns = columns or right.read(b, step)
            row, column = rows.pop(0), columns.pop(0)
            result = [self._add(row[m], column[n], total) for (m, n), total in zip(self.positions, result, strict=True)]
        return result

    def _add(self, a: V, b: V, total: V) -> V:
        if total.type in ("float", "double"):
            return self.k.f.fma(a, b, total)
        return self.k.f.binary("add", total, self.k.f.binary("mul", a, b))

    def _store(self, line: _Across, node: Node, batch: int, contracted: int) -> None:
        """Stores an operand to shared memory, every element once. contracted: which of its two last dims is contracted."""
        assert line.base is not None
        k, f = self.k, self.k.f
        layout = k.ev.choose_layout([node]) or k.accesses.coalesced(node.shape)
        values = k.ev.at(node, layout)
        free = layout.free_masks()
        first = len(node.shape) - 2
        registers = [register for register in range(layout.size(REGISTER)) if not register & free[REGISTER]]
        steps, along = (k.t.split_indices(layout, first + dim, registers) for dim in (contracted, 1 - contracted))
        batches = k.t.indices(layout, 0, registers) if first else []
        predicate = k.t.predicate(ThreadPredicate(free[LANE], free[WARP]))
        with k.t.where(predicate):
            for number, register in enumerate(registers):
                (step, step_constant), (position, constant) = steps[number], along[number]
                thread = f.add(f.mul(step, i32(line.pitch)), f.mul(position, i32(line.size)))
                pointer = k.shared.at(
                    k.shared.at(line.base, thread), i32(step_constant * line.pitch + constant * line.size)
                )
                mine = f.icmp("eq", batches[number], const(batch, "i32")) if first else None
                with k.t.where(mine):  # other batches come later
                    bits = k.t.to_bits(values[register], line.elem)
                    f.emit(f"store {bits.type} {bits.operand()}, ptr addrspace(3) {pointer.operand()}, align {line.size}")
