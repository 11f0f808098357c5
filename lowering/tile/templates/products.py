"""Emits matrix products over blocks: the steps along k, the operands, and the types in which they are multiplied."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Attribute, SSAValue

from ....promotion.dtype import DType
from ....promotion.errors import UnsupportedError
from ...nest import Buffer, Extent, Nest, Value
from ...tt.types import BF16, F16, F32, F64, I1, I8, I64, bit_width, elem, shape_of
from ..blocks import Block, Coordinate, Dimension, memory_type, register_type, shape
from ..elements.conversions import from_memory, round_tensor_float32
from ..emit import Frame, Kernel
from ..index_builder import Index
from ..schedule import is_whole
from ..structure import Product, contracted_extent, products

INNER_RANK = 1
"""The rank of the dimension of k: after the rows', before the columns'."""


def contraction(
    frame: Frame,
    product: Product,
    rows: Dimension,
    columns: Dimension,
    step: int,
    packed: tuple[int, int] | None = None,
    rank: int = INNER_RANK,
) -> Block:
    """Emits the product over (rows, columns), in steps of `step` along k unless the frame already has k in a
    block."""
    with frame.kernel.at(frame.kernel.nest.body[product.number]):
        return _contraction(frame, product, rows, columns, step, packed, rank)


def _contraction(
    frame: Frame, product: Product, rows: Dimension, columns: Dimension, step: int, packed: tuple[int, int] | None, rank: int
) -> Block:
    kernel, b = frame.kernel, frame.builder
    value = kernel.nest.body[product.number]
    accumulator = accumulator_type(value.dtype)
    zeros = b.const(0, accumulator, (rows.size, columns.size))
    coordinate = frame.coordinates.get(product.k)
    if isinstance(coordinate, Dimension):
        total = _step(frame, product, rows, coordinate, columns, zeros, packed)
    elif not product.outer and is_whole(kernel.nest.axes[product.k].extent, step):
        inner = kernel.dimension(product.k, step, 0, rank)
        total = _step(frame.child({product.k: inner}), product, rows, inner, columns, zeros, packed)
    else:
        frame.hoist(value.operands, [product.k, *product.outer])
        if packed is not None:
            frame.divide_rows(kernel.nest.body[value.operands[0]])
        indices = kernel.indices
        steps = indices.ceil_div(kernel.axis_extent(product.k), step)
        count = steps
        for axis in product.outer:
            count = indices.mul(count, kernel.axis_extent(axis))
        with kernel.loop(count, [zeros]) as loop:
            coordinates, start = _step_coordinates(kernel, product, loop.index, steps)
            inner = kernel.dimension(product.k, step, indices.mul(start, step), rank)
            child = frame.child({**coordinates, product.k: inner})
            loop.yield_([_step(child, product, rows, inner, columns, loop.args[0], packed)])
        total = loop.results[0]
    return Block(finish(frame, total, value.dtype), (rows, columns), register_type(value.dtype))


def _step_coordinates(
    kernel: Kernel, product: Product, index: Index, steps: Index
) -> tuple[dict[int, Coordinate], Index]:
    """Returns the indices of the outer contracted axes in iteration `index` of a product's loop, and which of the `steps`
    along k it is."""
    if not product.outer:
        return {}, index
    indices = kernel.indices
    position, found = indices.div(index, steps), dict[int, Coordinate]()
    for axis in reversed(product.outer[1:]):
        extent = kernel.axis_extent(axis)
        found[axis] = indices.mod(position, extent)
        position = indices.div(position, extent)
    found[product.outer[0]] = position
    return found, indices.mod(index, steps)


def accumulator_type(dtype: DType) -> Attribute:
    """Returns the type in which products are summed: the value's own, but float32 for narrower floats and
    int32 for narrower integers."""
    if dtype.is_float:
        return F64 if dtype.name == "float64" else F32
    return register_type(dtype) if dtype.bits >= 32 else register_type(DType("int32"))


def finish(frame: Frame, total: SSAValue, dtype: DType) -> SSAValue:
    """Converts the accumulator to `dtype`, rounding once."""
    b, want = frame.builder, register_type(dtype)
    if dtype.name == "tensor_float32":
        return round_tensor_float32(b, total)
    if dtype.is_bool:
        return b.cmpi("ne", total, b.const(0, elem(total.type), shape_of(total.type)))
    if elem(total.type) == want:
        return total
    return b.cast("arith.truncf" if dtype.is_float else "arith.trunci", total, want)


def _step(
    frame: Frame,
    product: Product,
    rows: Dimension,
    inner: Dimension,
    columns: Dimension,
    total: SSAValue,
    packed: tuple[int, int] | None,
) -> SSAValue:
    """Emits total + a · b over one block of k."""
    b = frame.builder
    value = frame.kernel.nest.body[product.number]
    left, right = value.operands
    first = operand(frame, left, rows, inner, inner)
    second = (
        _packed_operand(frame, product, inner, columns, packed)
        if packed is not None
        else operand(frame, right, inner, columns, inner)
    )
    dtypes = [frame.kernel.nest.body[number].dtype for number in value.operands]
    first, second = matched(frame, first, second, dtypes[0], dtypes[1], elem(total.type))
    tf32 = value.attrs.get("precision", "ieee") == "tf32" and elem(first.type) == F32
    return b.dot(first, second, total, "tf32" if tf32 else "ieee")


def operand(frame: Frame, number: int, outer: Dimension, last: Dimension, inner: Dimension) -> SSAValue:
    """Emits an operand over (outer, last); lanes outside the extent of k (`inner`) are zero."""
    b = frame.builder
    block = frame.block(number)
    dims = (outer, last)
    value = frame.expand(block, dims)
    mask = frame.mask((inner,), dims)
    if mask is None or (block.zero_outside and inner in block.dims):
        return value
    elem_type = elem(value.type)
    return b.select(mask, value, b.const(False if elem_type == I1 else 0, elem_type, shape(dims)))


def matched(
    frame: Frame, a: SSAValue, other: SSAValue, a_dtype: DType, b_dtype: DType, accumulator: Attribute
) -> tuple[SSAValue, SSAValue]:
    """Converts the operands to types that `tt.dot` multiplies: both to one 16-bit float type, both to i8, or
    both to the accumulator's type."""
    b = frame.builder
    a_elem, b_elem = elem(a.type), elem(other.type)
    if a_dtype.is_float:
        if a_elem == b_elem and (a_elem == accumulator or (a_elem in (F16, BF16) and accumulator == F32)):
            return a, other
        wide = [
            x if elem(x.type) == accumulator else b.cast("arith.extf", x, accumulator) for x in (a, other)
        ]
        return wide[0], wide[1]
    narrow = {dtype.name for dtype in (a_dtype, b_dtype)} <= {"int8", "bool", "int4"} and bit_width(
        accumulator
    ) == 32
    target = I8 if narrow else accumulator
    result = []
    for x, dtype in ((a, a_dtype), (other, b_dtype)):
        if bit_width(x.type) < bit_width(target):
            x = b.cast("arith.extsi" if dtype.kind == "int" else "arith.extui", x, target)
        result.append(x)
    return result[0], result[1]


def packable_operand(nest: Nest) -> tuple[Buffer, Extent, int] | None:
    """Returns (buffer, K, N) if the second operand of the nest's only product is a dense (…, K, N) matrix
    that may be stored in panels, else None. Its last axes are k, and n in one or several factors."""
    found = products(nest)
    if len(found) != 1:
        return None
    product = found[0]
    value = nest.body[nest.body[product.number].operands[1]]
    if value.op != "load" or value.operands or len(value.attrs["buffer"].shape) < 2:
        return None
    buffer: Buffer = value.attrs["buffer"]
    height, width = buffer.shape[-2:]
    if type(width) is not int or type(height) is not int or product.n is None:
        return None
    at = value.attrs["at"]
    if (
        type(at.offset) is not int
        or at.offset != 0
        or at.coefficient(product.n) != 1
    ):
        return None
    if contracted_extent(nest, product, at, width) != height or not _covers(nest, value, product, height, width):
        return None
    return buffer, height, width


def _covers(nest: Nest, value: Value, product: Product, height: int, width: int) -> bool:
    """Returns whether the axes other than k and n step over columns inside a row, or over whole matrices."""
    columns = nest.axes[product.n].extent if product.n is not None else 1
    for axis, coefficient in value.attrs["at"].terms:
        if axis in (product.k, product.n, *product.outer):
            continue
        extent = nest.axes[axis].extent
        if type(coefficient) is not int or coefficient < 0:
            return False
        if coefficient % (height * width) == 0:
            continue
        if type(extent) is not int or coefficient >= width:
            return False
        columns = columns + coefficient * (extent - 1)
    return type(columns) is int and columns <= width


def _packed_operand(
    frame: Frame, product: Product, inner: Dimension, columns: Dimension, panels: tuple[int, int]
) -> SSAValue:
    """Loads B stored as panels: element (k, n) at `panel · K · width + k · width + n % width`, zero padded in n.

    panels: the width, and how many rows r lie together: then (k, n) is at `panel · K · width + (k // r · width + n % width) · r
    + k % r`, where each segment of k is padded to a multiple of r. The column block is one panel, so no mask on n is needed.
    """
    b, indices = frame.builder, frame.indices
    width, together = panels
    nest = frame.kernel.nest
    value = nest.body[nest.body[product.number].operands[1]]
    found, segment = packable_operand(nest), nest.axes[product.k].extent
    if found is None or columns.size != width or (together > 1 and type(segment) is not int):
        raise UnsupportedError(
            f"tile: operand in panels of {width} columns that is no (K, N) constant read in such blocks"
        )
    buffer, height, total = found
    assert isinstance(height, int)

    def stored(rows: int) -> int:
        """Returns the rows in memory of so many rows, which are whole segments."""
        return rows if type(segment) is not int or together == 1 else rows // segment * -(-segment // together) * together

    panel: Index = 0
    start: Index = 0
    for axis, coefficient in value.attrs["at"].terms:
        if axis == product.n:
            panel = indices.add(panel, indices.div(columns.start, width))
        elif axis in product.outer:
            rows = stored(coefficient // total)
            start = indices.add(start, indices.mul(frame.scalar_coordinate(axis), rows * width))
        elif axis != product.k and coefficient % (height * total) == 0:
            matrix = coefficient // (height * total) * stored(height) * -(-total // width) * width
            start = indices.add(start, indices.mul(frame.scalar_coordinate(axis), matrix))
        elif axis != product.k:
            if coefficient % width:
                raise UnsupportedError(
                    f"tile: panels of {width} columns cut by an axis of stride {coefficient}"
                )
            panel = indices.add(panel, indices.mul(frame.scalar_coordinate(axis), coefficient // width))
    start = indices.add(start, indices.mul(panel, stored(height) * width))
    lanes = replace(columns, start=0, extent=width)
    if together == 1:
        down = Block(frame.scaled_index(inner, width), (inner,), I64)
    elif inner.size % together == 0:  # blocks begin with a group
        start = indices.add(start, indices.mul(inner.start, width))
        down = _rows_together(frame, inner, b.cast("arith.extsi", b.arange(inner.size), I64), panels)
    else:
        down = _rows_together(frame, inner, frame.index(inner), panels)
    terms = [down, Block(frame.scaled_index(lanes, together), (columns,), I64)]
    order = (inner, columns)
    pointers = frame.pointers(buffer, start, terms, order)
    mask = frame.mask((inner,), order)
    other = None if mask is None else b.const(0, memory_type(value.dtype), shape(order))
    return from_memory(b, b.load(pointers, mask, other), value.dtype)


def _rows_together(frame: Frame, inner: Dimension, rows: SSAValue, panels: tuple[int, int]) -> Block:
    """Returns where rows begin that lie together in groups: `row // r · width · r + row % r`, for a power of two r."""
    (width, together), b = panels, frame.builder
    group = b.binary("arith.shrsi", rows, b.const(together.bit_length() - 1, I64, (inner.size,)))
    inside = b.binary("arith.andi", rows, b.const(together - 1, I64, (inner.size,)))
    begins = b.binary("arith.muli", group, b.const(width * together, I64, (inner.size,)))
    return Block(b.binary("arith.addi", begins, inside), (inner,), I64)
