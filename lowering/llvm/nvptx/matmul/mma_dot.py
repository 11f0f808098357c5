"""Lowers tt.dot: by the matrix instructions of a warp (mma.sync) or of warpgroups, or by multiply-adds of each thread.

Fragments are those of NVIDIA, "PTX ISA", "Matrix fragments for mma.m16n8k8 / m16n8k16 / m16n8k32 / m8n8k4"; they are linear
layouts (`linear_layouts.distributed`), so an operand gets there by a conversion like any other.

float32 in full precision, unless something narrower is known to hold its numbers, and products too small for an instruction
are multiplied thread by thread, from shared memory. float32 as tf32x3 or bf16x3/x6 is split into two tf32 numbers each: three
products keep 22 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Block, Operation

from ....linear_layouts.conversion import is_warp_local
from ....linear_layouts.distributed import (
    accumulator_fragment,
    dot_operand,
    fragment_tiles,
    instruction_registers,
    mma_accumulator,
    operand_a_fragment,
    operand_b_fragment,
)
from ....linear_layouts.f2 import log2
from ....linear_layouts.layout import REGISTER, LinearLayout
from ....tt.facts import ORDERED
from ....tt.transforms.loops.mark_pipelined_loads import uses_in_products
from ... import conversions
from ...elementwise import emit_map
from ...syntax import element_name, shape_of
from ...values import V, const
from ..context import Handler, KernelContext
from ..memory.shared_memory import ALIGNMENT
from ..nodes import Distributed, Node, Shape, Staged
from ..threads import bits_of
from . import fp8
from .fma_dot import StagedLines, ThreadProduct, rounded, staged_lines, thread_tiles
from .matrix_loads import OperandLoad, StagedOperand, plan_operand, staged_operand
from .operand_kinds import NAMES, SPLIT, Instruction, instruction_of, kind_of, may_be_imprecise, precision_of
from .warpgroup_dot import dot_of_warpgroups
from .wgmma import Matrix

Registers = list[V]


_KEPT = 32
"""The most registers that an operand may take in which a loop keeps it."""


def _dot(k: KernelContext, op: Operation) -> None:
    a, b, c = op.operands[:3]
    result = op.results[0]
    shape, elem = shape_of(result.type), element_name(result.type)
    depth = shape_of(a.type)[-1]
    product = k.product(op)
    if product is not None:
        layout = product.accumulator
        if k.ev.only_layouts:
            registers = k.ev.any(elem, layout.size(REGISTER))
        else:
            registers = tuple(_finished(k, value, elem) for value in dot_of_warpgroups(k, op, product))
        k.define(result, Distributed(shape, elem, layout, registers))
        return
    precision = precision_of(op)
    elems = (element_name(a.type), element_name(b.type))
    kind = kind_of(op)
    instruction = instruction_of(op, kind)
    if instruction is not None:
        warps = _warps(k, shape[-2:], instruction)
        layout = with_batches(mma_accumulator(shape[-2:], warps, element_bits=64 if elem == "f64" else 32), shape)
    else:
        layout = with_batches(thread_tiles(shape[-2:], k.warps), shape)
    if k.ev.only_layouts:
        k.define(result, Distributed(shape, elem, layout, k.ev.any(elem, layout.size(REGISTER))))
        return
    start = list(k.registers(c, layout))  # 16-bit floats are float32 in registers
    batches = 1 if len(shape) == 2 else shape[0]
    size = len(start) // batches
    total: Registers = []
    if instruction is None:
        multiply = ThreadProduct(k, layout, shape, depth, elems, elem)
        sources = [rounded(k, operand, precision) for operand in (a, b)]
        for batch in range(batches):
            total += multiply.run(sources, batch, start[batch * size : (batch + 1) * size])
    else:
        instruction, parts = _operands(k, op, instruction, shape, depth, kind or "", precision)
        for batch in range(batches):
            own = start[batch * size : (batch + 1) * size]
            for left, right in parts:
                lengths = [len(side) // batches for side in (left, right)]
                x, y = (side[batch * n : (batch + 1) * n] for side, n in zip((left, right), lengths, strict=True))
                own = _Instructions(k, instruction, shape[-2:], depth).run(x, y, own)
            total += own
    if ORDERED in op.attributes:
        total = [k.f.binary("fadd", value, const(0.0, value.type)) for value in total]  # no -0
    k.define(result, Distributed(shape, elem, layout, tuple(_finished(k, value, elem) for value in total)))


def _warps(k: KernelContext, shape: Sequence[int], instruction: Instruction) -> tuple[int, int]:
    """Returns how many warps share the rows and the columns: as square as the tile of each warp can be.

    Where rows are reduced, as in attention, a warp has whole rows if there are enough: the reduction stays inside it, and the
    next product takes its operand from the registers of the last.
    """
    split = [1, 1]
    while split[0] * split[1] < k.warps:
        left = [size // (tile * n) for size, tile, n in zip(shape, instruction.shape, split, strict=False)]
        tiles = [size // n for size, n in zip(shape, split, strict=True)]
        rows = left[0] > 1 and (tiles[0] >= tiles[1] or left[1] <= 1 or shape[0] in k.reduced_rows)
        split[0 if rows or left[1] <= 1 else 1] *= 2
    return split[0], split[1]


def with_batches(layout: LinearLayout, shape: Shape) -> LinearLayout:
    """Extends a layout of matrices to a block of them: the batch is the highest part of the register number."""
    if len(shape) == 2:
        return layout
    step = shape[-2] * shape[-1]
    more = [step << bit for bit in range(log2(shape[0]))]
    bases = {**dict(layout.bases), REGISTER: [*layout[REGISTER], *more]}
    return LinearLayout.of(bases, shape)


def _finished(k: KernelContext, value: V, elem: str) -> V:
    """Rounds a sum to the type of the result."""
    if elem in ("f16", "bf16"):
        return emit_map(k.f, "arith.truncf", elem, [value], ["f32"], {})
    return value


# -- mma.sync ----------------------------------------------------------------------------------


def _operands(
    k: KernelContext, op: Operation, instruction: Instruction, shape: Shape, depth: int, kind: str, precision: str
) -> tuple[Instruction, list[tuple[Registers, Registers]]]:
    """Returns the instruction, which may be another one for the same fragments, and pairs of operands in fragments.

    The result is the sum of their products, the smallest first.
    """
    warps = _warps(k, shape[-2:], instruction)
    wanted: list[tuple[Node, LinearLayout]] = []
    for name, operand, matrix in (("a", op.operands[0], (shape[-2], depth)), ("b", op.operands[1], (depth, shape[-1]))):
        layout = with_batches(dot_operand(matrix, name, warps, instruction.bits), shape_of(operand.type))
        node, elem = k.node(operand), element_name(operand.type)
        if elem.startswith("f8") and kind != "f8":
            node = k.ev.compute("tt.fp_to_fp", node.shape, "f16", [node], {})
        elif elem == "f32" and kind == "bf16":
            node = k.ev.compute("arith.truncf", node.shape, "bf16", [node], {})
        wanted.append((node, layout))
    if kind == "f8":
        return _eight(k, op, instruction, wanted)
    sides = _fragments(k, wanted)
    if kind != "tf32":
        return instruction, [(sides[0], sides[1])]
    if precision not in SPLIT:
        rounded_sides = [[conversions.round_to_tf32(k.f, v) for v in side] for side in sides]
        return instruction, [(rounded_sides[0], rounded_sides[1])]
    big = [[conversions.round_to_tf32(k.f, v) for v in side] for side in sides]
    small = [
        [conversions.round_to_tf32(k.f, k.f.binary("fsub", v, w)) for v, w in zip(side, rough, strict=True)]
        for side, rough in zip(sides, big, strict=True)
    ]
    return instruction, [(small[0], big[1]), (big[0], small[1]), (big[0], big[1])]


def _eight(
    k: KernelContext, op: Operation, instruction: Instruction, wanted: Sequence[tuple[Node, LinearLayout]]
) -> tuple[Instruction, list[tuple[Registers, Registers]]]:
    """Returns the same for 8-bit floats.

    They stay bytes as far as they can go to their fragments, and into the instruction if that is allowed.
    """
    rank = len(wanted[0][0].shape)
    in_bytes = [fp8.lies_along(k, node, axis) for (node, _), axis in zip(wanted, (rank - 1, rank - 2), strict=True)]
    orders: list[tuple[int, ...] | None] = [None, None]
    ways = list(wanted)
    for number, (node, layout) in enumerate(wanted):
        if not in_bytes[number]:
            layout, orders[number] = fp8.by_instruction(layout, "ab"[number])
            ways[number] = fp8.as_halves(k, node), layout
    sides = _fragments(k, ways)
    if all(in_bytes) and fp8.has_instruction(k) and may_be_imprecise(op):
        name = ".".join(node.elem for node, _ in wanted)
        return replace(instruction, name=name, register_type="i32", feeds=1), [(sides[0], sides[1])]
    found: list[Registers] = []
    for side, (node, _), order in zip(sides, wanted, orders, strict=True):
        values = fp8.halves(k, side, node.elem) if order is None else list(side)
        if order is not None:
            for pointer, value in zip(order, side, strict=True):
                values[pointer] = value
        found.append(values)
    return instruction, [(found[0], found[1])]


StagedBlock = StagedOperand | StagedLines | Matrix


def staged(k: KernelContext, load: Operation, axis: int) -> tuple[StagedBlock, bool] | None:
    """Plans how a block lies in shared memory just as it was loaded, contiguous along `axis`, for its products.

    Also returns whether they take its transpose. None where products take it otherwise, or not all in the same way.
    """
    elem, found = element_name(load.results[0].type), uses_in_products(load)
    turned = found[0][2]
    first, *others = [_staged(k, op, number, elem, 1 - axis if turned else axis) for op, number, _ in found]
    same = all(other == first for other in others) and all(each[2] == turned for each in found)
    return (first, turned) if first is not None and same else None


def _staged(k: KernelContext, op: Operation, number: int, elem: str, axis: int) -> StagedBlock | None:
    product, side = k.product(op), "ab"[number]
    if product is not None:
        return product.matrix(side, axis) if elem == product.elem and elem != "f32" else None
    shape, own = shape_of(op.results[0].type), shape_of(op.operands[number].type)
    if len(shape) != 2:
        return None
    kind = kind_of(op)
    instruction = instruction_of(op, kind)
    if instruction is None:
        is_rounded = elem == "f32" and precision_of(op) == "tf32"
        if bits_of(elem) != 32 or is_rounded:
            return None
        return staged_lines(own, side, elem, axis, thread_tiles(shape, k.warps))
    taken = {"tf32": ["f32"], "f8": NAMES}.get(kind or "", [kind])  # the element types that the instruction takes directly
    if elem not in taken or elem == "f64":
        return None
    return staged_operand(elem, axis, dot_operand(own, side, _warps(k, shape, instruction), instruction.bits))


def prepare(k: KernelContext, body: Block) -> None:
    """Fetches operands of a loop's products that the loop does not change, before it, where registers can keep them."""
    for op in body.ops:
        if op.name != "tt.dot" or k.ev.only_layouts or k.product(op) is not None:
            continue
        for index, operand in enumerate(op.operands[:2]):
            node = None if _is_inside(operand, body) else k.node(operand)
            if not isinstance(node, Distributed) or node.elem not in ("f16", "bf16"):
                continue
            layout = _fragment(k, op, index)
            if layout is not None and layout.size(REGISTER) * bits_of(node.elem) <= 32 * _KEPT:
                k.ev.remember(node, layout, tuple(_fragments(k, [(node, layout)])[0]))


def _fragment(k: KernelContext, op: Operation, index: int) -> LinearLayout | None:
    """Returns the fragment layout in which a product takes its operand 0 or 1; None where each thread multiplies."""
    shape, instruction = shape_of(op.results[0].type), instruction_of(op, kind_of(op))
    if instruction is None or len(shape) != 2:
        return None
    return dot_operand(shape_of(op.operands[index].type), "ab"[index], _warps(k, shape, instruction), instruction.bits)


def _is_inside(value: Any, body: Any) -> bool:
    owner = value.owner
    while owner is not None and owner is not body:
        owner = owner.parent
    return owner is body


def _fragments(k: KernelContext, wanted: Sequence[tuple[Node, LinearLayout]]) -> list[Registers]:
    """Fetches operands in fragments. Those that go by ldmatrix are stored together, before one barrier."""
    known = [k.ev.known(node, layout) for node, layout in wanted]
    if any(found is not None for found in known):
        return [
            list(found) if found is not None else _fragments(k, [each])[0]
            for found, each in zip(known, wanted, strict=True)
        ]
    if any(isinstance(node, Staged) for node, _ in wanted):
        return [
            node.operand.fetch(k, node.base) if isinstance(node, Staged) else _fragments(k, [(node, layout)])[0]
            for node, layout in wanted
        ]
    loads = [_by_matrices(k, node, layout) for node, layout in wanted]
    starts, size = [], 0
    for load in loads:
        starts.append(size)
        size += -(-load.bytes // ALIGNMENT) * ALIGNMENT if load is not None else 0
    if not size:
        return [list(k.ev.at(node, layout)) for node, layout in wanted]
    base = k.shared.reserve(size)
    pointers = [k.shared.at(base, const(start, "i32")) for start in starts]
    k.shared.before_writing()
    for load, pointer in zip(loads, pointers, strict=True):
        if load is not None:
            load.store(k, pointer)
    k.shared.between()
    fetched = [None if load is None else load.fetch(k, pointer) for load, pointer in zip(loads, pointers, strict=True)]
    k.shared.after_reading()
    return [
        list(k.ev.at(node, layout)) if found is None else found
        for found, (node, layout) in zip(fetched, wanted, strict=True)
    ]


def _by_matrices(k: KernelContext, node: Node, layout: LinearLayout) -> OperandLoad | None:
    """Plans the way by ldmatrix where that fits and values have to move between warps anyway, else returns None."""
    own = k.ev.choose_layout([node])
    if own is None or len(node.shape) != 2 or is_warp_local(own, layout):
        return None
    return plan_operand(k.ev.at(node, own), node.elem, own, layout)


class _Instructions:
    """Emits one product of matrices in fragments."""

    def __init__(self, k: KernelContext, instruction: Instruction, shape: Sequence[int], depth: int) -> None:
        self.k, self.instruction = k, instruction
        warps = _warps(k, shape, instruction)
        bits = instruction.bits
        rows, columns = shape
        fragments = (operand_a_fragment(bits), operand_b_fragment(bits), accumulator_fragment(instruction.shape[0]))
        layouts = (
            dot_operand((rows, depth), "a", warps, bits),
            dot_operand((depth, columns), "b", warps, bits),
            mma_accumulator(shape, warps, element_bits=64 if bits == 64 else 32),
        )
        tiles = [fragment_tiles(layout, fragment) for layout, fragment in zip(layouts, fragments, strict=True)]
        self.a, self.b = ({pointer: registers for registers, pointer in side} for side in tiles[:2])
        self.c = [(registers, pointer) for registers, pointer in tiles[2]]
        self.depths = range(0, depth, instruction.shape[2])
        self.taken = [
            instruction_registers(fragment, bits * instruction.feeds, max(1, 32 // bits)) if instruction.feeds > 1 else None
            for fragment in fragments[:2]
        ]
        """The registers of a fragment that each instruction takes; None: all."""

    def run(self, a: Registers, b: Registers, c: Registers) -> Registers:
        result = list(c)
        left = {pointer: self._operand_registers(a, registers, self.taken[0]) for pointer, registers in self.a.items()}
        right = {pointer: self._operand_registers(b, registers, self.taken[1]) for pointer, registers in self.b.items()}
        for depth in self.depths:
            for registers, (row, column) in self.c:
                own = [result[register] for register in registers]
                for x, y in zip(left[row, depth], right[depth, column], strict=True):
                    own = self._multiply(x, y, own)
                for register, value in zip(registers, own, strict=True):
                    result[register] = value
        return result

    def _operand_registers(
        self, values: Registers, registers: Sequence[int], taken: Sequence[Sequence[int]] | None
    ) -> list[Registers]:
        """Packs elements into registers as each instruction takes them."""
        k, bits = self.k, self.instruction.bits * self.instruction.feeds
        elem = {"<2 x half>": "f16", "double": "f64"}.get(self.instruction.register_type)
        if elem is None:
            elem = {8: "i8", 16: "bf16", 32: "f32"}[bits]
        raw = [k.t.to_bits(values[register], elem) for register in registers]
        each = max(1, 32 // bits)
        found = []
        for numbers in taken or [range(len(raw))]:
            own = [raw[number] for number in numbers]
            packed = [k.t.pack(own[start : start + each]) for start in range(0, len(own), each)]
            found.append([k.f.bitcast(value, self.instruction.register_type) for value in packed])
        return found

    def _multiply(self, a: Registers, b: Registers, c: Registers) -> Registers:
        if self.instruction.name.startswith("f8"):
            return fp8.multiply_bytes(self.k, self.instruction.name.split("."), a, b, c)
        f, name = self.k.f, f"llvm.nvvm.mma.{self.instruction.name}"
        type_ = "{" + ", ".join([self.instruction.accumulator] * len(c)) + "}"
        got = self.k.f.target_intrinsic(name, [*a, *b, *c], type_)
        return [f.op(f"extractvalue {type_} {got.operand()}, {i}", self.instruction.accumulator) for i in range(len(c))]


DOTS: dict[str, Handler] = {"tt.dot": _dot}
