"""Interprets descriptors, block pointers and tensor maps, and so defines what accesses through them mean.

Offsets, extents and strides are 64-bit integers. A lane is inside the tensor when `0 <= index < extent` on every axis that is
checked: all of a descriptor's, those that `boundaryCheck` names of a block pointer's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import SupportsInt

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase
from xdsl.ir import Attribute, Operation

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError, UserError
from .. import types as t
from ..arguments import Parameter
from ..dialect.attributes import PADDING_OPTIONS, case_name, enum_name, property_number
from ..dialect.memory.descriptor_types import TensorDescType, block_of, is_composite
from ..dialect.memory.descriptors import REDUCE_KINDS
from ..dialect.memory.tensormaps import TensormapCreateOp
from ..host_values import (
    MAP_ADDRESS,
    MAP_EXTENTS,
    MAP_KIND,
    MAP_MAGIC,
    MAP_NAN,
    MAP_STRIDES,
    TENSOR_MAP_MAGIC,
    TENSOR_MAP_WORDS,
    DescriptorArgument,
    TableArgument,
    address_of,
    map_kind,
)
from ..types import numpy_dtype
from .evaluators import EVALUATORS, Evaluator, Maker, poison
from .memory import AccessError, Memory, Scalar
from .numerics import unsigned

Integer = np.int64 | Array
"""An address, an extent or an offset: of one program, or of all iterations of a region at once."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor in memory: address, extents, strides in elements, and whether elements outside it read as
    NaN."""

    base: Integer
    extents: tuple[Integer, ...]
    strides: tuple[Integer, ...]
    nan: bool


@dataclass(frozen=True, slots=True)
class BlockPointer:
    """A block at `offsets` of a tensor in memory."""

    base: Integer
    extents: tuple[Integer, ...]
    strides: tuple[Integer, ...]
    offsets: tuple[Integer, ...]


Lanes = tuple[Array, Array | None]
"""Addresses of elements, and which of them lie inside the tensor (None: all)."""


def _to_int64(values: Sequence[SupportsInt]) -> tuple[np.int64, ...]:
    return tuple(np.int64(value) for value in values)


def bind_host_value(parameter: Parameter, arg: object, memory: Memory) -> Descriptor | np.int64:
    """Returns the value of a parameter that takes a `TensorDescriptor` or a `PointerTable`. Raises
    `UserError` if `arg` does not fit the parameter."""
    if isinstance(parameter.type, TensorDescType):
        given = parameter.descriptor(arg)
        base = np.int64(memory.add(given.array, parameter.name))
        return Descriptor(base, _to_int64(given.shape), _to_int64(given.strides), given.padding == "nan")
    if isinstance(arg, DescriptorArgument) and parameter.is_map:
        memory.add(arg.array, f"{parameter.name}, its tensor")
        return np.int64(memory.add(arg.encode_map(address_of(arg.array), parameter.what), parameter.name))
    if isinstance(arg, TableArgument) and parameter.is_table:
        for number, array in enumerate(arg.arrays):
            memory.add(array, f"{parameter.name}[{number}]")
        return np.int64(memory.add(arg.native(), parameter.name))
    parameter.array(arg) if parameter.is_pointer else parameter.scalar(arg)
    raise UserError(f"{parameter.what}: {arg!r} does not go to this parameter")


# Addresses


def _axis(values: Array, axis: int, rank: int) -> Array:
    """Reshapes values to lie along one axis of a block of `rank` axes."""
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def _reach(base: Integer, size: int, strides: Sequence[Integer], indices: Sequence[Array], extents: Sequence[Integer] | None,
           checked: Sequence[int]) -> Lanes:  # fmt: skip
    """Returns (addresses, mask) of the lanes with these indices, one broadcastable block per axis."""
    shape = np.broadcast_shapes(*[index.shape for index in indices])
    addresses = np.broadcast_to(base, shape)
    for index, stride in zip(indices, strides, strict=True):
        addresses = addresses + index * (stride * np.int64(size))
    if not checked or extents is None:
        return addresses, None
    mask = np.ones(shape, np.bool_)
    for axis in checked:
        mask &= (indices[axis] >= 0) & (indices[axis] < extents[axis])
    return addresses, mask


def _element_size(elem: Attribute) -> int:
    return max(1, t.bit_width(elem) // 8)


class _Blocks:
    """Blocks of one shape and element type: computes their addresses, and reads and writes them."""

    def __init__(self, shape: tuple[int, ...], elem: Attribute, memory: Memory) -> None:
        self.shape, self.elem, self.memory = shape, elem, memory
        self.dtype = numpy_dtype(elem)
        self.stored = np.dtype(np.uint8) if self.dtype == np.bool_ else self.dtype
        self.size = _element_size(elem)
        self.steps = [_axis(np.arange(extent, dtype=np.int64), d, len(shape)) for d, extent in enumerate(shape)]

    def lanes(self, where: Descriptor | BlockPointer, offsets: Sequence[Integer], checked: Sequence[int]) -> Lanes:
        indices = [step + np.int64(offset) for step, offset in zip(self.steps, offsets, strict=True)]
        return _reach(where.base, self.size, where.strides, indices, where.extents, checked)

    def rows(self, where: Descriptor, numbers: Array, column: Integer) -> Lanes:
        indices = [numbers.astype(np.int64)[:, None], self.steps[1] + np.int64(column)]
        return _reach(where.base, self.size, where.strides, indices, where.extents, (0, 1))

    def load(self, lanes: Lanes, fill: Scalar) -> Array:
        value = self.memory.load(*lanes, self.stored, fill)
        return value != 0 if self.dtype == np.bool_ else value

    def store(self, lanes: Lanes, value: Array) -> None:
        self.memory.store(lanes[0], np.asarray(value).astype(self.stored, copy=False), lanes[1])

    def padding(self, nan: bool) -> Scalar:
        return np.asarray(np.nan if nan else 0).astype(self.stored)[()]


def _blocks_behind(op: Operation, memory: Memory) -> _Blocks:
    return _Blocks(*block_of(op.operands[0].type), memory)


# Descriptors


def _make_descriptor(op: Operation, memory: Memory) -> Evaluator:
    rank = len(block_of(op.results[0].type)[0])
    nan = enum_name(PADDING_OPTIONS, op.properties.get("padding")) == "nan"
    return lambda base, *sizes: Descriptor(base, _to_int64(sizes[:rank]), _to_int64(sizes[rank:]), nan)


def _load(op: Operation, memory: Memory) -> Evaluator:
    blocks = _blocks_behind(op, memory)
    shape, axes = t.shape_of(op.results[0].type), range(len(blocks.shape))

    def run(desc: Descriptor, *indices: Integer) -> Array:
        return blocks.load(blocks.lanes(desc, indices, axes), blocks.padding(desc.nan)).reshape(shape)

    return run


def _store(op: Operation, memory: Memory) -> Evaluator:
    blocks = _blocks_behind(op, memory)
    axes = range(len(blocks.shape))

    def run(desc: Descriptor, value: Array, *indices: Integer) -> None:
        blocks.store(blocks.lanes(desc, indices, axes), value.reshape(blocks.shape))

    return run


def _gather(op: Operation, memory: Memory) -> Evaluator:
    blocks = _blocks_behind(op, memory)
    return lambda desc, numbers, column: blocks.load(blocks.rows(desc, numbers, column), blocks.padding(desc.nan))


def _scatter(op: Operation, memory: Memory) -> Evaluator:
    blocks = _blocks_behind(op, memory)
    return lambda desc, numbers, column, value: blocks.store(blocks.rows(desc, numbers, column), value)


def _without_sign(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    return lambda old, value: function(unsigned(old), unsigned(value)).astype(unsigned(old).dtype).view(old.dtype)


_INTEGERS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "inc": _without_sign(lambda old, value: np.where(old >= value, 0, old + 1)),
    "dec": _without_sign(lambda old, value: np.where((old == 0) | (old > value), value, old - 1)),
}  # fmt: skip
_FLOATS: dict[str, Callable[[Array, Array], Array]] = {"add": np.add, "min": np.fmin, "max": np.fmax}


def _reduce(op: Operation, memory: Memory) -> Evaluator:
    """Makes the evaluator of tt.descriptor_reduce. Lanes are combined one after the other where several have
    one address (a stride may be 0)."""
    blocks = _blocks_behind(op, memory)
    type_ = op.operands[0].type
    assert isinstance(type_, TensorDescType)
    kind = case_name(REDUCE_KINDS, op.properties["kind"])
    combine = (_FLOATS if t.is_float(type_.elem) else _INTEGERS)[kind]
    if type_.is_unsigned and kind in ("min", "max"):
        combine = _without_sign(combine)
    axes = range(len(blocks.shape))

    def once(addresses: Array, value: Array) -> None:
        old = memory.load(addresses, None, blocks.stored, 0, "written")
        memory.store(addresses, np.asarray(combine(old, value)).astype(blocks.stored), None)

    def run(desc: Descriptor, value: Array, *indices: Integer) -> None:
        addresses, mask = blocks.lanes(desc, indices, axes)
        addresses, value = addresses[mask], np.asarray(value).reshape(blocks.shape)[mask].astype(blocks.stored)
        if len(np.unique(addresses)) == len(addresses):
            once(addresses, value)
            return
        for lane in range(len(addresses)):
            once(addresses[lane : lane + 1], value[lane : lane + 1])

    return run


def lanes_inside(op: Operation, memory: Memory) -> Callable[..., Array | None]:
    """Returns the function of a descriptor operation's operands that tells which lanes of `tt.descriptor_reduce` are inside."""
    blocks = _blocks_behind(op, memory)
    axes = range(len(blocks.shape))
    return lambda desc, value, *indices: blocks.lanes(desc, indices, axes)[1]


# Block pointers


def _make_block_pointer(op: Operation, memory: Memory) -> Evaluator:
    rank = len(block_of(op.results[0].type)[0])

    def run(base: Integer, *sizes: Integer) -> BlockPointer:
        return BlockPointer(base, _to_int64(sizes[:rank]), _to_int64(sizes[rank : 2 * rank]), _to_int64(sizes[2 * rank :]))

    return run


def _advance(op: Operation, memory: Memory) -> Evaluator:
    def run(pointer: BlockPointer, *offsets: Integer) -> BlockPointer:
        moved = tuple(old + np.int64(step) for old, step in zip(pointer.offsets, offsets, strict=True))
        return BlockPointer(pointer.base, pointer.extents, pointer.strides, moved)

    return run


def checked_axes(op: Operation) -> tuple[int, ...]:
    """Returns the axes that `boundaryCheck` names."""
    checked = op.properties.get("boundaryCheck")
    return tuple(int(axis) for axis in checked.get_values()) if isinstance(checked, DenseArrayBase) else ()


def _load_any(op: Operation, memory: Memory) -> Evaluator:
    if not t.is_block_pointer(op.operands[0].type):
        return EVALUATORS["tt.load"](op, memory)
    blocks = _blocks_behind(op, memory)
    checked = checked_axes(op)
    padding = enum_name(PADDING_OPTIONS, op.properties.get("padding"))
    fill = poison(blocks.dtype) if padding is None else blocks.padding(padding == "nan")
    return lambda pointer: blocks.load(blocks.lanes(pointer, pointer.offsets, checked), fill)


def _store_any(op: Operation, memory: Memory) -> Evaluator:
    if not t.is_block_pointer(op.operands[0].type):
        return EVALUATORS["tt.store"](op, memory)
    blocks = _blocks_behind(op, memory)
    checked = checked_axes(op)
    return lambda pointer, value: blocks.store(blocks.lanes(pointer, pointer.offsets, checked), value)


def _select_any(op: Operation, memory: Memory) -> Evaluator:
    if not is_composite(op.results[0].type):
        return EVALUATORS["arith.select"](op, memory)
    return lambda condition, yes, no: yes if condition else no


# Tensor maps


def _create_map(op: Operation, memory: Memory) -> Evaluator:
    assert isinstance(op, TensormapCreateOp)
    rank = len(op.box_dim)
    size = _element_size(t.value_type(op.operands[1].type))
    nan = property_number(op, "fill_mode") == 1
    if property_number(op, "interleave_layout"):
        raise UnsupportedError(f"{op.name}: an interleaved layout; only interleave_layout = 0 is known")

    def run(pointer: Integer, address: Integer, *sizes: Integer) -> None:
        extents, strides, steps = sizes[rank : 2 * rank], sizes[2 * rank : 3 * rank - 1], sizes[3 * rank - 1 :]
        if any(step != 1 for step in steps):
            raise UnsupportedError(f"{op.name}: element strides {[int(step) for step in steps]}; only 1 is known")
        encoded = np.zeros(TENSOR_MAP_WORDS, np.int64)
        encoded[MAP_MAGIC], encoded[MAP_KIND] = TENSOR_MAP_MAGIC, map_kind(rank, size)
        encoded[MAP_ADDRESS] = memory.to_host(address)
        encoded[MAP_NAN] = nan
        encoded[MAP_EXTENTS : MAP_EXTENTS + rank] = extents
        encoded[MAP_STRIDES : MAP_STRIDES + rank] = [size, *strides]
        memory.store(pointer + 8 * np.arange(TENSOR_MAP_WORDS, dtype=np.int64), encoded, None)

    return run


def _read_map(op: Operation, memory: Memory) -> Evaluator:
    shape, elem = block_of(op.results[0].type)
    rank, size = len(shape), _element_size(elem)

    def run(pointer: Integer) -> Descriptor:
        addresses = pointer + 8 * np.arange(TENSOR_MAP_WORDS, dtype=np.int64)
        encoded = memory.load(addresses, None, np.dtype(np.int64), 0)
        if encoded[MAP_MAGIC] != TENSOR_MAP_MAGIC or encoded[MAP_KIND] != map_kind(rank, size):
            raise AccessError(
                f"{op.name}: there is no tensor map of {rank} axes and elements of {size} bytes in memory; fix: "
                f"ttng.tensormap_create before it, or a joinery.TensorDescriptor as the argument"
            )
        extents = encoded[MAP_EXTENTS : MAP_EXTENTS + rank][::-1]
        strides = encoded[MAP_STRIDES : MAP_STRIDES + rank][::-1] // size
        return Descriptor(memory.from_host(encoded[MAP_ADDRESS]), tuple(extents), tuple(strides), bool(encoded[MAP_NAN]))

    return run


DESCRIPTOR_EVALUATORS: dict[str, Maker] = {
    "tt.make_tensor_descriptor": _make_descriptor,
    "tt.descriptor_load": _load,
    "tt.descriptor_store": _store,
    "tt.descriptor_reduce": _reduce,
    "tt.descriptor_gather": _gather,
    "tt.descriptor_scatter": _scatter,
    "tt.make_tensor_ptr": _make_block_pointer,
    "tt.advance": _advance,
    "tt.load": _load_any,
    "tt.store": _store_any,
    "arith.select": _select_any,
    "ttng.tensormap_create": _create_map,
    "ttng.tensormap_fenceproxy_acquire": lambda op, memory: lambda pointer: None,
    "ttng.reinterpret_tensor_descriptor": _read_map,
}
