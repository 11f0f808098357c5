"""Rewrites operations on descriptors, block pointers and tensor maps into operations on scalars and plain
pointers, one function each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from xdsl.ir import Attribute, Block, Operation, SSAValue

from ....promotion.errors import UnsupportedError
from .. import types as t
from ..analysis.control_flow import parent_block
from ..block_addresses import Axis, Chosen, Span, place_block
from ..builder.block_builder import BlockBuilder
from ..dialect.attributes import PADDING_OPTIONS, case_name, enum_attr, enum_name, property_number
from ..dialect.memory.atomics import HOST_RMW_OPERATIONS, MEMORY_ORDERS, MEMORY_SCOPES, AtomicRMWOp
from ..dialect.memory.block_pointers import AdvanceOp, MakeTensorPtrOp
from ..dialect.memory.descriptor_types import TensorDescType, block_of
from ..dialect.memory.descriptors import REDUCE_KINDS, MakeTensorDescriptorOp
from ..dialect.memory.pointers import LOAD_SEGMENTS, NOT_VOLATILE, SEGMENTS, LoadOp, StoreOp
from ..dialect.memory.tensormaps import TensormapCreateOp
from ..host_values import (
    MAP_ADDRESS,
    MAP_EXTENTS,
    MAP_KIND,
    MAP_MAGIC,
    MAP_NAN,
    MAP_STRIDES,
    TENSOR_MAP_MAGIC,
    map_kind,
)
from ..interpret.descriptors import checked_axes
from .folding import constant_of

Parts = tuple[SSAValue, ...]
Made = list[Parts]
"""For every result of the operation: its parts, or the one value of a plain result."""
Access = Callable[[BlockBuilder, Operation, Sequence[Parts], Sequence[int]], Made]
"""(builder, operation, the parts of its composite operands, trailing zeros of a block pointer's offsets) -> its results."""


@contextmanager
def build_before(b: BlockBuilder, op: Operation) -> Iterator[BlockBuilder]:
    """Inserts what is built inside before the operation, with its location."""
    made = Block()
    b.location = op.location
    with b.inside(made, visible=False):
        yield b
    target = parent_block(op)
    for each in list(made.ops):
        made.detach_op(each)
        target.insert_op_before(each, op)


def _wide(b: BlockBuilder, values: Sequence[SSAValue]) -> list[SSAValue]:
    return [b.cast("arith.extsi", value, t.I64) for value in values]


def _split(parts: Parts, rank: int) -> tuple[SSAValue, Parts, Parts, Parts]:
    """Splits parts into (base, extents, strides, what follows)."""
    return parts[0], parts[1 : 1 + rank], parts[1 + rank : 1 + 2 * rank], parts[1 + 2 * rank :]


def _axes(b: BlockBuilder, parts: Parts, rank: int, offsets: Sequence[SSAValue]) -> list[Axis]:
    _, extents, strides, _ = _split(parts, rank)
    return [
        Span(stride, extent, offset)
        for stride, extent, offset in zip(strides, extents, _wide(b, offsets), strict=True)
    ]


def _padding(b: BlockBuilder, elem: Attribute, shape: Sequence[int], nan: SSAValue) -> SSAValue:
    zero = b.const(0, elem)
    known = constant_of(nan) if t.is_float(elem) else 0
    if known is None:
        return b.splat(b.select(nan, b.const(float("nan"), elem), zero), shape)
    return b.const(float("nan") if known else 0, elem, shape)


def _load(
    b: BlockBuilder, op: Operation, pointers: SSAValue, mask: SSAValue | None, other: SSAValue | None
) -> Made:
    operands = [pointers] if mask is None else [pointers, mask] if other is None else [pointers, mask, other]
    properties: dict[str, Attribute] = {SEGMENTS: LOAD_SEGMENTS[len(operands) - 1], "isVolatile": NOT_VOLATILE}
    for name in ("cachePolicy", "isVolatile"):
        if name in op.properties:
            properties[name] = op.properties[name]
    return [(b.op(LoadOp, operands, [op.results[0].type], properties)[0],)]


def _store(b: BlockBuilder, op: Operation, pointers: SSAValue, value: SSAValue, mask: SSAValue | None) -> Made:
    policy = op.properties.get("cachePolicy")
    operands = [pointers, value] if mask is None else [pointers, value, mask]
    b.op(StoreOp, operands, [], {} if policy is None else {"cachePolicy": policy})
    return []


# Descriptors


def _make_descriptor(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    assert isinstance(op, MakeTensorDescriptorOp)
    return [(op.base, *_wide(b, op.shape), *op.strides, b.const(int(op.pads_with_nan), t.I1))]


def _load_block(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    block, elem = block_of(op.operands[0].type)
    shape = t.shape_of(op.results[0].type)
    axes = _axes(b, parts[0], len(block), op.operands[1:])
    pointers, mask = place_block(b, parts[0][0], axes, block, shape)
    return _load(b, op, pointers, mask, _padding(b, elem, shape, parts[0][-1]))


def _store_block(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    block, _ = block_of(op.operands[0].type)
    value = op.operands[1]
    axes = _axes(b, parts[0], len(block), op.operands[2:])
    pointers, mask = place_block(b, parts[0][0], axes, block, t.shape_of(value.type))
    return _store(b, op, pointers, value, mask)


def _reduce_block(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    described = op.operands[0].type
    assert isinstance(described, TensorDescType)
    block, value = described.shape, op.operands[1]
    axes = _axes(b, parts[0], len(block), op.operands[2:])
    pointers, mask = place_block(b, parts[0][0], axes, block, t.shape_of(value.type))
    kind = case_name(REDUCE_KINDS, op.properties["kind"])
    if t.is_float(described.elem):
        kind = f"f{kind}"
    elif described.is_unsigned and kind in ("min", "max"):
        kind = f"u{kind}"
    properties: dict[str, Attribute] = {
        "atomic_rmw_op": enum_attr(HOST_RMW_OPERATIONS[kind]),
        "sem": enum_attr(MEMORY_ORDERS["relaxed"]),
        "scope": enum_attr(MEMORY_SCOPES["gpu"]),
    }
    b.op(AtomicRMWOp, [pointers, value, *([] if mask is None else [mask])], [value.type], properties)
    return []


def _rows(b: BlockBuilder, op: Operation, parts: Parts) -> tuple[SSAValue, SSAValue | None, tuple[int, ...]]:
    """Emits pointers and mask of rows by their numbers; returns them with their shape."""
    block, _ = block_of(op.operands[0].type)
    numbers, column = op.operands[1:3]
    shape = (*t.shape_of(numbers.type), block[1])
    base, extents, strides, _ = _split(parts, 2)
    (start,) = _wide(b, [column])
    axes: list[Axis] = [
        Chosen(strides[0], extents[0], b.cast("arith.extsi", numbers, t.I64)),
        Span(strides[1], extents[1], start),
    ]
    return *place_block(b, base, axes, shape, shape), shape


def _gather(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    pointers, mask, shape = _rows(b, op, parts[0])
    return _load(b, op, pointers, mask, _padding(b, t.elem(op.results[0].type), shape, parts[0][-1]))


def _scatter(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    pointers, mask, _ = _rows(b, op, parts[0])
    return _store(b, op, pointers, op.operands[3], mask)


# Block pointers


def _make_block_pointer(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    assert isinstance(op, MakeTensorPtrOp)
    return [(op.base, *op.shape, *op.strides, *_wide(b, op.offsets))]


def _advance(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    assert isinstance(op, AdvanceOp)
    rank = len(op.offsets)
    old, steps = parts[0], _wide(b, op.offsets)
    moved = [
        offset if constant_of(given) == 0 else b.binary("arith.addi", offset, step)
        for offset, step, given in zip(old[1 + 2 * rank :], steps, op.offsets, strict=True)
    ]
    return [(*old[: 1 + 2 * rank], *moved)]


def _block_at(
    b: BlockBuilder, op: Operation, parts: Parts, zeros: Sequence[int]
) -> tuple[SSAValue, SSAValue | None, tuple[int, ...], Attribute]:
    block, elem = block_of(op.operands[0].type)
    base, extents, strides, offsets = _split(parts, len(block))
    checked = checked_axes(op)
    axes = [
        Span(strides[d], extents[d] if d in checked else None, offsets[d], zeros=zeros[d]) for d in range(len(block))
    ]
    return *place_block(b, base, axes, block, block), block, elem


def _load_through(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    pointers, mask, shape, elem = _block_at(b, op, parts[0], zeros)
    padding = enum_name(PADDING_OPTIONS, op.properties.get("padding"))
    other = None if padding is None else _padding(b, elem, shape, b.const(int(padding == "nan"), t.I1))
    return _load(b, op, pointers, mask, other)


def _store_through(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    pointers, mask, _, _ = _block_at(b, op, parts[0], zeros)
    return _store(b, op, pointers, op.operands[1], mask)


# Tensor maps


def _word(b: BlockBuilder, pointer: SSAValue, index: int) -> SSAValue:
    return b.addptr(b.cast("tt.bitcast", pointer, t.ptr(t.I64)), b.const(index, t.I64))


def _create_map(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    assert isinstance(op, TensormapCreateOp)
    if property_number(op, "interleave_layout"):
        raise UnsupportedError(f"host lowering: {op.name}: an interleaved layout; only interleave_layout = 0 is known")
    if any(constant_of(step) != 1 for step in op.element_stride):
        raise UnsupportedError(f"host lowering: {op.name}: element strides that are not the constant 1")
    extents, strides = _wide(b, op.global_dim), list(op.global_stride)
    size = _element_size(t.value_type(op.operands[1].type))
    words = {
        MAP_MAGIC: b.const(TENSOR_MAP_MAGIC, t.I64),
        MAP_ADDRESS: b.cast("tt.ptr_to_int", op.operands[1], t.I64),
        MAP_KIND: b.const(map_kind(len(extents), size), t.I64),
        MAP_NAN: b.const(property_number(op, "fill_mode"), t.I64),
    }
    words |= {MAP_EXTENTS + axis: extent for axis, extent in enumerate(extents)}
    words |= {MAP_STRIDES + axis: stride for axis, stride in enumerate([b.const(size, t.I64), *strides])}
    for index, word in words.items():
        b.store(_word(b, op.operands[0], index), word)
    return []


def _fence(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    return []


def _read_map(b: BlockBuilder, op: Operation, parts: Sequence[Parts], zeros: Sequence[int]) -> Made:
    """Emits the parts of the descriptor that a tensor map in memory stands for. Anything that is no tensor
    map of this kind reads as an empty tensor, so that nothing is accessed."""
    block, elem = block_of(op.results[0].type)
    rank, size = len(block), _element_size(elem)

    def word(index: int) -> SSAValue:
        return b.load(_word(b, op.operands[0], index))

    is_map = b.binary(
        "arith.andi",
        b.cmpi("eq", word(MAP_MAGIC), b.const(TENSOR_MAP_MAGIC, t.I64)),
        b.cmpi("eq", word(MAP_KIND), b.const(map_kind(rank, size), t.I64)),
    )
    zero = b.const(0, t.I64)
    base = b.cast("tt.int_to_ptr", word(MAP_ADDRESS), t.ptr(elem))
    axes = range(rank - 1, -1, -1)
    extents = [b.select(is_map, word(MAP_EXTENTS + axis), zero) for axis in axes]
    shift = b.const(size.bit_length() - 1, t.I64)
    strides = [
        b.binary("arith.shrsi", word(MAP_STRIDES + axis), shift) if axis else b.const(1, t.I64) for axis in axes
    ]
    return [(base, *extents, *strides, b.cmpi("ne", word(MAP_NAN), zero))]


def _element_size(elem: Attribute) -> int:
    return max(1, t.bit_width(elem) // 8)


ACCESSES: dict[str, Access] = {
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _load_block,
    "tt.descriptor_store": _store_block,
    "tt.descriptor_reduce": _reduce_block,
    "tt.descriptor_gather": _gather,
    "tt.descriptor_scatter": _scatter,
    "tt.make_tensor_ptr": _make_block_pointer,
    "tt.advance": _advance,
    "tt.load": _load_through,
    "tt.store": _store_through,
    "ttng.tensormap_create": _create_map,
    "ttng.tensormap_fenceproxy_acquire": _fence,
    "ttng.reinterpret_tensor_descriptor": _read_map,
}
