"""Copies blocks of tensors with descriptors by TMA: one thread starts the copies, an mbarrier counts their bytes.

A block has the layout in shared memory that wgmma and ldmatrix read: panels as wide as the swizzle, a copy for each panel.
Elements outside the tensor are filled in by the copy. A descriptor is a parameter of the kernel: a tensor map, passed by value,
whether the text takes it or makes it (`hoistable_descriptors`).

Source: NVIDIA, "PTX ISA", "cp.async.bulk.tensor", "mbarrier", "fence.proxy"; "CUDA Driver API", "cuTensorMapEncodeTiled".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from .....promotion.dataclass import dataclass
from .....promotion.errors import InternalError, UnsupportedError
from ....artifact import TensorMap
from ....linear_layouts.layout import LinearLayout
from ....linear_layouts.matching import match_matrix, offsets
from ....linear_layouts.shared import matrix_swizzled, plain
from ....tt.analysis.hoistable_descriptors import SOURCE, source_of
from ....tt.arguments import parameters_of
from ....tt.dialect.functions import FuncOp
from ....tt.dialect.memory.descriptor_types import TensorDescType
from ....tt.facts import parameter_attributes
from ....tt.source_locations import name_line
from ...syntax import element_name, shape_of
from ...values import FALSE, V, const, i32, i64
from ..context import Handler, KernelContext
from ..matmul.matrix_loads import read_block, store_block
from ..nodes import Distributed
from ..targets import GpuTarget
from ..threads import bits_of
from .mbarriers import BARRIER_BYTES, expect, make_barriers, remove_barriers, wait_for_phase

MAX_EXTENT = 256
"""The largest extent of a box along an axis."""
MAP_TYPE = 'ptr byval([16 x i64]) align 64 "nvvm.grid_constant"'
_SWIZZLES = (128, 64, 32)


@dataclass(frozen=True, slots=True)
class MappedBlock:
    """A block of a described tensor in shared memory: `rows` x `columns` elements, in panels of `width` columns.

    Each panel is copied in boxes of at most 256 rows. leading: axes of extent 1 before these.
    """

    rows: int
    columns: int
    elem: str
    swizzle: int
    width: int
    leading: int

    @property
    def bytes(self) -> int:
        return self.rows * self.columns * bits_of(self.elem) // 8

    @property
    def layout(self) -> LinearLayout:
        shape = (self.rows, self.columns)
        return matrix_swizzled(shape, bits_of(self.elem), self.swizzle) if self.swizzle else plain(shape)

    @property
    def box(self) -> tuple[int, ...]:
        return (1,) * self.leading + (min(self.rows, MAX_EXTENT), self.width)

    @property
    def boxes(self) -> list[tuple[int, int, int]]:
        """The (row, column, byte offset) of every box."""
        size = bits_of(self.elem) // 8
        return [
            (row, column, (column * self.rows + row * self.width) * size)
            for column in range(0, self.columns, self.width)
            for row in range(0, self.rows, MAX_EXTENT)
        ]


def mapped_block(type_: TensorDescType) -> MappedBlock | None:
    """Plans how TMA copies the blocks of a descriptor; None where it does not."""
    shape, elem = shape_of(type_.block), element_name(type_.block)
    if not 2 <= len(shape) <= 5 or any(extent != 1 for extent in shape[:-2]) or elem == "i1":
        return None
    rows, columns = shape[-2:]
    row_bytes = columns * bits_of(elem) // 8
    if row_bytes % 16:
        return None
    swizzle = next((each for each in _SWIZZLES if row_bytes % each == 0), 0) if rows >= 8 else 0
    width = swizzle * 8 // bits_of(elem) if swizzle else columns
    return MappedBlock(rows, columns, elem, swizzle, width, len(shape) - 2) if width <= MAX_EXTENT else None


def kept_block(type_: TensorDescType) -> MappedBlock:
    """Returns the block of a descriptor that was not expanded; InternalError where TMA does not copy it."""
    block = mapped_block(type_)
    if block is None:
        raise InternalError(f"{type_} is no block of a tensor map, and has not been expanded")
    return block


def check_descriptors(function: FuncOp, target: GpuTarget) -> None:
    """Checks that every parameter that is a descriptor is one that a launch passes as a tensor map.

    The passes of the target leave no others, but a pipeline that a user wrote may. Raises `UnsupportedError`.
    """
    for number, parameter in enumerate(parameters_of(function)):
        if not isinstance(parameter.type, TensorDescType):
            continue
        source = parameter_attributes(function, number).get(SOURCE)
        if source is None:
            what = "nothing says what a launch makes its tensor map of"
            fix = "expand-descriptors in the pipeline, which says so of those that it keeps"
        elif source_of(source) is None:
            what = f"{SOURCE} = {source} is not what expand-descriptors writes"
            fix = "compile the text that expand-descriptors was not run on"
        elif not target.has_tensor_copies:
            what = f"{target.name} has no copies by tensor maps"
            fix = "expand-descriptors without keep, or a target such as sm_90a"
        elif mapped_block(parameter.type) is None:
            what = "no tensor map copies blocks of this shape"
            fix = "expand-descriptors that does not keep it"
        else:
            continue
        error = UnsupportedError(f"nvptx lowering: {parameter.what}: a descriptor that is left, and {what}; fix: {fix}")
        name_line(error, function)
        raise error


def tensor_maps(function: FuncOp) -> tuple[TensorMap, ...]:
    """Returns what a launch needs to make the tensor maps that the last parameters are."""
    found = []
    for number, argument in enumerate(function.body.blocks[0].args):
        if isinstance(argument.type, TensorDescType):
            block = kept_block(argument.type)
            source = source_of(parameter_attributes(function, number)[SOURCE])
            if source is None:
                raise InternalError(f"@{function.sym_name.data}: {SOURCE} of parameter {number} has not been checked")
            found.append(TensorMap(source, block.elem, block.box, block.swizzle))
    return tuple(found)


# -- copies -----------------------------------------------------------------------------------


def _coordinates(k: KernelContext, indices: Sequence[SSAValue], row: int, column: int) -> list[V]:
    """Returns the coordinates of a box, innermost first."""
    *leading, first, last = (k.scalar(index) for index in indices)
    return [k.f.add(last, i32(column)), k.f.add(first, i32(row)), *reversed(leading)]


def start_copies(k: KernelContext, op: Any, block: MappedBlock, base: V, barrier: V) -> None:
    """Copies a tt.descriptor_load's block to shared memory; one thread executes it."""
    rank = len(block.box)
    for row, column, offset in block.boxes:
        pointer = k.shared.at(base, i32(offset))
        target = k.f.op(f"addrspacecast ptr addrspace(3) {pointer.operand()} to ptr addrspace(7)", "ptr addrspace(7)")
        operands = [target, barrier, k.scalar(op.desc), *_coordinates(k, op.indices, row, column)]
        rest = [const(0, "i16"), i64(0), FALSE, FALSE, i32(0)]
        k.t.call(f"cp.async.bulk.tensor.g2s.tile.{rank}d", [*operands, *rest], "void")


def _load(k: KernelContext, op: Any) -> None:
    """Lowers tt.descriptor_load: waits for the block and loads it to registers."""
    result = op.results[0]
    if op in k.staged:
        k.define(result, k.staged[op])
        return
    k.order.before(op, None)
    shape, elem = shape_of(result.type), element_name(result.type)
    block = kept_block(op.desc.type)
    base = k.shared.reserve(block.bytes + BARRIER_BYTES)
    barrier = k.shared.at(base, i32(block.bytes))
    k.shared.before_writing()
    make_barriers(k.shared, [barrier])
    with k.f.when(k.t.is_first()):
        expect(k.shared, barrier, block.bytes)
        start_copies(k, op, block, base, barrier)
    wait_for_phase(k.shared, barrier, i32(0))
    layout = k.accesses.coalesced(shape)
    flat = layout.reshape((block.rows, block.columns))
    values = read_block(k, elem, flat, block.layout, base)
    remove_barriers(k.shared, [barrier])
    k.define(result, Distributed(shape, elem, layout, values))


def _store(k: KernelContext, op: Any) -> None:
    """Lowers tt.descriptor_store: copies a block through shared memory.

    The program goes on; the next barrier waits for the copy, or the program's end does.
    """
    k.order.before(op, None)
    elem, shape = element_name(op.src.type), shape_of(op.src.type)
    block = kept_block(op.desc.type)
    node = k.node(op.src)
    own = k.ev.choose_layout([node])
    layout = own if own is not None else k.accesses.coalesced(shape)
    values = k.ev.at(node, layout)
    base = k.shared.reserve(block.bytes)
    k.shared.before_writing()
    flat = layout.reshape((block.rows, block.columns))
    if not _store_matrices(k, values, elem, flat, block.layout, base):
        store_block(k, values, elem, flat, block.layout, base)
    k.t.call("fence.proxy.async.shared_cta", [], "void")
    k.shared.between()
    with k.f.when(k.t.is_first()):
        for row, column, offset in block.boxes:
            pointer = k.shared.at(base, i32(offset))
            operands = [pointer, k.scalar(op.desc), *_coordinates(k, op.indices, row, column), i64(0), FALSE]
            k.t.call(f"cp.async.bulk.tensor.s2g.tile.{len(block.box)}d", operands, "void")
        k.t.call("cp.async.bulk.commit.group", [], "void")
    k.shared.copies_start()


def _store_matrices(
    k: KernelContext, values: Sequence[V], elem: str, layout: LinearLayout, shared: LinearLayout, base: V
) -> bool:
    """Stores a block by stmatrix, where its rows fit; returns whether they did."""
    t, bits = k.t, bits_of(elem)
    where = offsets(layout, shared)
    access = match_matrix(where, bits) if bits == 16 else None
    free = layout.free_masks()
    if access is None or access.count < 4 or any(free.values()):
        return False
    row = t.map(access.row_address)
    each = 32 // bits
    for part in access.accesses:
        pointer = k.shared.address(base, row, part.offset, access.row_address.thread_bits)
        raw = [t.to_bits(values[register], elem) for register in part.registers]
        packed = [k.f.bitcast(t.pack(raw[start : start + each]), "i32") for start in range(0, len(raw), each)]
        t.call(f"stmatrix.sync.aligned.m8n8.x{access.count}.b16.p3", [pointer, *packed], "void")
    return True


DESCRIPTORS: dict[str, Handler] = {"tt.descriptor_load": _load, "tt.descriptor_store": _store}
