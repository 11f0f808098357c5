"""Emits reductions: combining functions and neutral elements by kind and dtype, for scalars and blocks
alike."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute, SSAValue

from ...graph.ops.opdef import OpDef
from ...graph.ops.table import OPS
from ...promotion.dtype import DType
from ...promotion.errors import InternalError, UnsupportedError
from ..nest import Nest
from ..tt.builder.block_builder import BlockBuilder, Combine
from ..tt.types import I64, bit_width
from .blocks import Block, Dimension, register_type, shape, union
from .elements.conversions import round_tensor_float32
from .emit import Frame
from .index_builder import Index
from .structure import may_be_negative_zero, reach


def _row(kind: str) -> OpDef:
    """Returns the row of the op table for a kind of reduction."""
    return OPS.get(f"reduce_{kind}") or OPS[kind]


def neutral(kind: str, dtype: DType) -> float:
    """Returns the neutral element of the reduction. Raises `InternalError` if it has none."""
    value = _row(kind).neutral
    if value is None:
        raise InternalError(f"tile: reduction {kind!r} has no neutral element")
    return value(dtype)


def combiner(kind: str, dtype: DType) -> Combine:
    """Returns the combining function of the reduction, which takes (value, position) pairs for arg*: the
    first of equal values and the first NaN win. Raises `UnsupportedError` if the dtype has none."""
    if kind in ("argmax", "argmin"):
        return _first_extreme(kind, dtype)
    row = OPS.get(_row(kind).combine)
    operation = "" if row is None else row.emit.get(dtype.kind, "")
    if not operation or operation[0] == "@":
        raise UnsupportedError(f"tile: reduction {kind!r} of {dtype}")

    def combine(b: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> Sequence[SSAValue]:
        return [b.binary(operation, left[0], right[0])]

    return combine


def _first_extreme(kind: str, dtype: DType) -> Combine:
    if dtype.is_float:
        relation = "ogt" if kind == "argmax" else "olt"
    else:
        sign = "s" if dtype.kind == "int" else "u"
        relation = sign + ("gt" if kind == "argmax" else "lt")

    def combine(b: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> Sequence[SSAValue]:
        (x, i), (y, j) = left, right
        if dtype.is_float:
            x_nan, y_nan = b.cmpf("uno", x, x), b.cmpf("uno", y, y)
            # A NaN beats every number; two NaNs, like two equal values, are decided by position.
            y_number = b.cmpf("ord", y, y)
            better = b.binary("arith.ori", b.cmpf(relation, x, y), b.binary("arith.andi", x_nan, y_number))
            same = b.binary("arith.ori", b.cmpf("oeq", x, y), b.binary("arith.andi", x_nan, y_nan))
        else:
            better, same = b.cmpi(relation, x, y), b.cmpi("eq", x, y)
        first = b.binary("arith.andi", same, b.cmpi("slt", i, j))
        take = b.binary("arith.ori", better, first)
        return [b.select(take, x, y), b.select(take, i, j)]

    return combine


def _extreme_so_far(kind: str, dtype: DType) -> Combine:
    """Returns the combining function of arg* where all positions on the right come after those on the left.

    What is on the left stays unless the other value is better: equal values, and NaN, need no comparison of positions.
    """
    relation = "gt" if kind == "argmax" else "lt"
    sign = "u" if dtype.is_float or dtype.kind != "int" else "s"  # of floats: or if one of them is NaN

    def combine(b: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> Sequence[SSAValue]:
        (x, i), (y, j) = left, right
        if dtype.is_float:
            take = b.binary("arith.andi", b.cmpf(sign + relation, y, x), b.cmpf("ord", x, x))
        else:
            take = b.cmpi(sign + relation, y, x)
        return [b.select(take, y, x), b.select(take, j, i)]

    return combine


class Reduction:
    """One `reduce` value of a nest: its partial results over a block, and how to combine and finish them."""

    def __init__(self, frame: Frame, number: int) -> None:
        nest = frame.kernel.nest
        self.value = nest.body[number]
        self.number = number
        self.operand = self.value.operands[0]
        self.kind: str = self.value.attrs["kind"]
        self.over: tuple[int, ...] = self.value.attrs["over"]
        self.dtype = nest.body[self.operand].dtype
        self.positional = self.kind in ("argmax", "argmin")
        self.combine = combiner(self.kind, self.dtype)
        self.neutral = neutral(self.kind, self.dtype)
        self.elems: list[Attribute] = [register_type(self.dtype), *([I64] if self.positional else [])]
        rises = self.positional and len(self.over) == 1
        self.continued: Combine = _extreme_so_far(self.kind, self.dtype) if rises else self.combine
        """Combines what comes before in the order of positions with what comes behind."""
        self._rises = rises

    def walk(self, extent: Index) -> None:
        """Says that partial results are of one position at a time. extent: how many there are.

        Positions are then as wide as values, if that is enough for them, so that a register has as many of both.
        """
        if self.positional and isinstance(extent, int):
            needed = next((bits for bits in (8, 16, 32) if extent < 1 << (bits - 1)), 64)
            self.elems[1] = IntegerType(max(needed, 8 * self.dtype.itemsize))

    @property
    def _past_end(self) -> int:
        """The largest position there may be."""
        return (1 << (bit_width(self.elems[1]) - 1)) - 1

    @property
    def is_exact(self) -> bool:
        """Whether the result does not depend on how its parts are combined."""
        return not self.dtype.is_float or self.positional or "idempotent" in OPS[_row(self.kind).combine].traits

    def initial(self, frame: Frame, dims: tuple[Dimension, ...]) -> list[SSAValue]:
        """Emits neutral accumulators over `dims`."""
        b = frame.builder
        values: list[int | float] = [self.neutral]
        if self.positional:
            values.append(0 if self._rises else self._past_end)
        return [b.const(value, elem, shape(dims)) for value, elem in zip(values, self.elems, strict=False)]

    def kept_dims(self, frame: Frame) -> tuple[Dimension, ...]:
        """Returns the block dimensions along which the result can vary."""
        coordinates = [frame.coordinates.get(axis) for axis in self.value.axes]
        return union(tuple([coordinate for coordinate in coordinates if isinstance(coordinate, Dimension)]))

    def partial(self, frame: Frame) -> tuple[list[SSAValue], tuple[Dimension, ...]]:
        """Reduces the operand over the block dimensions of `over`; the rest of `over` are scalar positions. A
        sum of nothing but -0.0 may be -0.0, since it does not start from 0."""
        values, dims, over = self.masked(frame)
        left = dims
        for dim in over:
            values = frame.builder.reduce(values, left.index(dim), self.combine)
            left = tuple([other for other in left if other is not dim])
        return values, left

    def masked(self, frame: Frame) -> tuple[list[SSAValue], tuple[Dimension, ...], tuple[Dimension, ...]]:
        """Returns the operand, which is neutral where it is not defined, its block dimensions and those of
        `over`."""
        b = frame.builder
        block = frame.block(self.operand)
        over = tuple([coordinate for axis in self.over if isinstance(coordinate := frame.coordinates[axis], Dimension)])
        dims = union(block.dims, over)
        values = [frame.expand(block, dims)]
        mask = frame.mask(over if self.positional else dims, dims)
        if mask is not None:
            values[0] = b.select(mask, values[0], b.const(self.neutral, self.elems[0], shape(dims)))
        if self.positional:
            positions = self._positions(frame, dims)
            if self.elems[1] != I64:
                positions = b.cast("arith.trunci", positions, self.elems[1])
            if mask is not None:
                positions = b.select(mask, positions, b.const(self._past_end, self.elems[1], shape(dims)))
            values.append(positions)
        return values, dims, over

    def begun(self, frame: Frame, values: list[SSAValue], dims: tuple[Dimension, ...]) -> list[SSAValue]:
        """Returns the partial results, after adding the 0 from which a sum of floats starts if that may
        matter."""
        if self.kind != "sum" or not self.dtype.is_float or not may_be_negative_zero(frame.kernel.nest, self.operand):
            return values
        start = frame.builder.const(self.neutral, self.elems[0], shape(dims))
        return [frame.builder.binary("arith.addf", values[0], start)]

    def _positions(self, frame: Frame, dims: tuple[Dimension, ...]) -> SSAValue:
        """Emits the row-major position within `over`."""
        indices = frame.indices
        start: Index = 0
        step: Index = 1
        terms: list[Block] = []
        for axis in reversed(self.over):
            coordinate = frame.coordinates[axis]
            if isinstance(coordinate, Dimension):
                terms.append(Block(frame.scaled_index(coordinate, step), (coordinate,), I64))
            else:
                start = indices.add(start, indices.mul(frame.scalar_coordinate(axis), step))
            step = indices.mul(step, frame.kernel.axis_extent(axis))
        return frame.offsets(start, terms, dims)

    def result(self, frame: Frame, values: Sequence[SSAValue], dims: tuple[Dimension, ...]) -> Block:
        value = values[1] if self.positional else values[0]
        if self.positional and self.elems[1] != I64:
            value = frame.builder.cast("arith.extsi", value, I64)
        if self.value.dtype.name == "tensor_float32" and self.kind in ("sum", "prod"):
            value = round_tensor_float32(frame.builder, value)
        return Block(value, dims, register_type(self.value.dtype))


def reduce_whole(frame: Frame, number: int) -> None:
    """Defines a reduction whose axes lie whole in the block dimensions of the frame, and with it independent
    later sums along the same axes, which share one pass over the block and one exchange between threads."""
    body = frame.kernel.nest.body
    if frame.known(number) is not None or not body[number].attrs["over"]:
        return  # `Frame.block` gives the operand
    with frame.kernel.at(body[number]):
        _reduce_whole(frame, number)


def _reduce_whole(frame: Frame, number: int) -> None:
    reductions = [Reduction(frame, number), *[Reduction(frame, other) for other in _beside(frame.kernel.nest, number)]]
    parts = [reduction.masked(frame) for reduction in reductions]
    _, dims, over = parts[0]
    together = [r for r, part in zip(reductions, parts, strict=True) if part[1:] == (dims, over)]
    values = [value for own, *where in parts if tuple(where) == (dims, over) for value in own]
    for dim in over:
        values = frame.builder.reduce(values, dims.index(dim), reductions[0].combine if len(together) == 1 else _sums)
        dims = tuple([other for other in dims if other is not dim])
    for coordinate, reduction in enumerate(together):
        own = values if len(together) == 1 else [values[coordinate]]
        frame.define(reduction.number, reduction.result(frame, reduction.begun(frame, own, dims), dims))


def _sums(b: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> Sequence[SSAValue]:
    return [b.binary("arith.addf", x, y) for x, y in zip(left, right, strict=True)]


def _beside(nest: Nest, number: int) -> list[int]:
    """Returns later sums of floats of the same type along the same axes that need neither this reduction nor
    a later reduction or scan."""
    first = nest.body[number]
    dtype = nest.body[first.operands[0]].dtype
    if first.attrs["kind"] != "sum" or not dtype.is_float:
        return []
    found = []
    for other, value in enumerate(nest.body[number + 1 :], number + 1):
        alike = value.op == "reduce" and value.axes == first.axes and value.attrs == first.attrs
        if alike and nest.body[value.operands[0]].dtype == dtype:
            before = reach(nest, value.operands)
            if not any(n >= number and nest.body[n].op in ("reduce", "scan") for n in before):
                found.append(other)
    return found
