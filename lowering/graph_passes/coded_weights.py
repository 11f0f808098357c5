"""Lays constant matrices of codes out so that products decode them as they read them.

Models with quantised weights say `x @ ((q - z) · s)`: codes q of 2, 4 or 8 bits, and a zero point and scale for each block
along K. The numbers would take 4 to 16 times the memory of the codes, and a product of few rows takes as long as its weights
take to be read. Codes are packed into bytes of which a block of a product decodes as much as its micro-kernel reads next:

    codes (K, N)  ─►  bytes (panel, block, row, column), 64 columns a panel
    field f of byte [p, o, r, c]  =  code of row (o · fields + f) · rows + r, column 64 p + c

so that along K one field after the other is read, each with one zero point and scale per column, and all addresses are affine
(`schedule/fusion/` splits K for them). A field is not shifted down: with m = 2^(bits · f) it is m q, and m z and s / m are
its zero point and scale, so that (m q - m z) · (s / m) is (q - z) · s to the bit, as m is a power of two. So every weight is
the number that the graph states; only the order of a sum is the product's, which the contract leaves open. Weights in floats of
16 bits are rounded as the graph rounds them. Weights that are stored in 16 bits and read as float32 are in panels, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...graph.graph import Graph
from ...graph.ops.control import has_control
from ...graph.symbol import Symbol
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, bfloat16, float16, float32
from .constant_values import MAX_WEIGHTS, constant_value, viewed

PANEL, NARROW_PANEL = 64, 32
"""Columns of a panel: what a block of a product has; and those of matrices with few columns that do not fill others. Where they
do not fill these either, the last panel has columns of zeros, and the result is copied without them."""
FEW_COLUMNS = 1024
MIN_ELEMENTS = 1 << 12
"""Elements from which on a matrix is worth it."""
SHORTEST, LONGEST = 16, 128
"""Rows that share a byte's field: matrices with fewer are left as they are, and more are cut."""
_VIEWS = frozenset(("reshape", "permute", "slice"))
_EXACT = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Decoded:
    """What codes stand for: rounded to `dtype`, ((codes - zero) · scale) + offset in float32, all of one shape."""

    codes: Array
    scale: Array | None
    zero: Array | None = None
    offset: Array | None = None
    dtype: DType = float32


@dataclass(frozen=True, slots=True)
class Packed:
    """A matrix (K, N) in panels.

    codes: bytes (panels, blocks, rows, columns), `fields` to a byte.  scale, zero, offset: () or (panels or 1, blocks or 1,
    fields or 1, 1, columns or 1), for the fields where they stand in their bytes; numbers in 16 bits have none.  columns: N.
    """

    codes: Array
    fields: int
    columns: int
    scale: Array | None = None
    zero: Array | None = None
    offset: Array | None = None
    dtype: DType = float32


def with_coded_weights(graph: Graph) -> Graph:
    """Return a finished graph whose products read constant codes in panels.

    It is the graph itself where there are none, or loops or branches.
    """
    if has_control(graph):
        return graph
    made: dict[int, Packed | None] = {}
    found: dict[int, Packed] = {}
    for symbol in graph.symbols:
        if symbol.op.name != "matmul" or not _may_be_coded(symbol):
            continue
        right = symbol.inputs[1]
        if right.id not in made:
            decoded = _decoded(right)
            made[right.id] = None if decoded is None else _packed(decoded)
        packed = made[right.id]
        if packed is not None:
            found[symbol.id] = packed
    return _rewritten(graph, found) if found else graph


def _may_be_coded(symbol: Symbol) -> bool:
    left, right = symbol.inputs
    if len(right.shape) != 2 or not symbol.dtype.is_float:
        return False
    depth, columns = right.shape
    if not isinstance(depth, int) or not isinstance(columns, int):
        return False
    if not MIN_ELEMENTS <= depth * columns <= MAX_WEIGHTS or columns < SHORTEST:
        return False
    while left.op.kind == "view":  # rows of windows are read where they lie, by steps along K of their own
        if left.op.name == "windows":
            return False
        left = left.inputs[0]
    return True


# -- what codes stand for --------------------------------------------------------------------------------------------------


def _decoded(symbol: Symbol) -> Decoded | None:
    """Return the codes and parameters that a symbol is computed of, which are constants; None of any other symbol."""
    name = symbol.op.name
    if name in _VIEWS:
        inner = _decoded(symbol.inputs[0])
        return None if inner is None else _viewed(inner, symbol)
    if name == "dequantize":
        return _of_dequantize(symbol)
    if name == "cast":
        return _of_cast(symbol)
    if name not in ("mul", "sub", "add") or symbol.dtype is not float32:
        return None
    first, second = symbol.inputs
    if name != "sub" and not _holds_codes(first):
        first, second = second, first
    inner = _decoded(first) if _holds_codes(first) else None
    if inner is None or inner.dtype is not float32 or inner.codes.shape != symbol.shape:
        return None
    if not _is_code(DType.from_numpy(inner.codes.dtype)):
        return None
    given = constant_value(second)
    if given is None:
        return None
    if name == "mul" and inner.offset is None and inner.scale is None:
        return Decoded(inner.codes, _spread(given, symbol), inner.zero)
    if name == "sub" and inner.offset is None and inner.zero is None and inner.scale is None:
        return Decoded(inner.codes, None, _spread(given, symbol))
    if name == "add" and inner.offset is None and inner.scale is not None:
        return Decoded(inner.codes, inner.scale, inner.zero, _spread(given, symbol))
    return None


def _holds_codes(symbol: Symbol) -> bool:
    """Return whether a symbol may be computed of codes: the way to them is by views, casts and arithmetic with parameters."""
    while symbol.op.name in _VIEWS or symbol.op.name in ("mul", "sub", "add"):
        symbol = symbol.inputs[0]
    return symbol.op.name == "dequantize" or (symbol.op.name == "cast" and _is_code(symbol.inputs[0].dtype))


def _is_code(dtype: DType) -> bool:
    return dtype.is_integer and dtype.bits <= 8


def _is_short(dtype: DType) -> bool:
    """Return whether products take numbers of a dtype as they are and widen them: floats of 16 bits."""
    return dtype in (float16, bfloat16)


def _spread(given: Array, symbol: Symbol) -> Array:
    return np.broadcast_to(given.astype(np.float32), symbol.shape)  # type: ignore[arg-type]


def _of_cast(symbol: Symbol) -> Decoded | None:
    operand = symbol.inputs[0]
    if _is_code(operand.dtype) or (symbol.dtype is float32 and _is_short(operand.dtype)):
        codes = constant_value(operand) if symbol.dtype is float32 else None
        return None if codes is None else Decoded(codes, None)
    if not symbol.dtype.is_float or symbol.dtype.bits > 32 or symbol.attrs["rounding"] != "nearest":
        return None
    inner = _decoded(operand)
    if inner is None or inner.dtype is not float32:
        return None
    return Decoded(inner.codes, inner.scale, inner.zero, inner.offset, symbol.dtype)


def _of_dequantize(symbol: Symbol) -> Decoded | None:
    if symbol.dtype is not float32 or symbol.inputs[1].dtype is not float32 or not _is_code(symbol.inputs[0].dtype):
        return None
    found = [constant_value(operand) for operand in symbol.inputs]
    if any(each is None for each in found):
        return None
    codes, scale, *zero = [np.asarray(each) for each in found]
    attrs = symbol.attrs
    axis, block = attrs["axis"], attrs["block_size"]

    def spread(parameter: Array) -> Array:
        if parameter.ndim == 0:
            return _spread(parameter, symbol)
        if block:
            parameter = np.repeat(parameter, block, axis)
            parameter = parameter[(*(slice(None),) * axis, slice(codes.shape[axis]))]
            return _spread(parameter, symbol)
        return _spread(parameter.reshape((*parameter.shape, *(1,) * (codes.ndim - 1 - axis))), symbol)

    return Decoded(codes, spread(scale), spread(zero[0].astype(np.int32)) if zero else None)


def _viewed(inner: Decoded, view: Symbol) -> Decoded:
    scale, zero, offset = (None if each is None else viewed(each, view) for each in (inner.scale, inner.zero, inner.offset))
    return Decoded(viewed(inner.codes, view), scale, zero, offset, inner.dtype)


# -- packing ---------------------------------------------------------------------------------------------------------------


def _packed(decoded: Decoded) -> Packed | None:
    """Return a matrix in panels; None where its blocks are too short, and for codes without a scale."""
    if decoded.codes.dtype.kind not in "iu" and _is_short(DType.from_numpy(decoded.codes.dtype)):
        columns = decoded.codes.shape[1]
        panels = np.ascontiguousarray(_in_panels(decoded.codes, _width(columns)))
        return Packed(panels[:, None], 1, columns, dtype=decoded.dtype)
    if decoded.scale is None:
        return None
    codes = decoded.codes.astype(np.int16)
    zero = decoded.zero
    low, high = int(codes.min()), int(codes.max())
    bits = 8
    for narrow in (2, 4):
        shift = 0 if low >= 0 else 1 << (narrow - 1)
        if bits == 8 and low + shift >= 0 and high + shift < 1 << narrow and (not shift or _is_whole(zero)):
            bits, codes = narrow, codes + np.int16(shift)
            if shift:
                zero = np.full(codes.shape, shift, np.float32) if zero is None else zero + np.float32(shift)
    block = math.gcd(codes.shape[0], *[_block(each) for each in (decoded.scale, zero, decoded.offset) if each is not None])
    shape = _fields(codes.shape[0], block, 8 // bits)
    if shape is None:
        return None
    fields, rows = shape
    width = _width(codes.shape[1])
    apart = _in_panels(codes.reshape(-1, fields, rows, codes.shape[1]), width)
    joined = apart[:, :, 0]
    for field in range(1, fields):
        joined = joined | apart[:, :, field] << (field * bits)
    packed = np.ascontiguousarray(joined.astype(np.int8 if bits == 8 and low < 0 else np.uint8))
    scale, zero, offset = (
        None if each is None else _parameter(each, block, fields, rows, width) for each in (decoded.scale, zero, decoded.offset)
    )
    assert scale is not None
    factors = (2.0 ** (bits * np.arange(fields))).astype(np.float32).reshape(-1, 1, 1)
    if fields > 1:
        points = np.zeros((), np.float32) if zero is None else zero
        moved, scaled = points * factors, scale / factors
        if not bool((scaled * factors == scale).all() and (moved / factors == points).all()):
            return None
        scale, zero = scaled, None if zero is None else moved
    return Packed(packed, fields, codes.shape[1], scale, zero, offset, decoded.dtype)


def _width(columns: int) -> int:
    fills = columns % PANEL and columns % NARROW_PANEL == 0
    return NARROW_PANEL if fills and columns < FEW_COLUMNS else min(PANEL, columns)


def _is_whole(zero: Array | None) -> bool:
    """Return whether a zero point is integers small enough that a shift of it and of the codes changes no difference."""
    return zero is None or bool(((np.rint(zero) == zero) & (np.abs(zero) < _EXACT)).all())


def _block(parameter: Array) -> int:
    """Return how many rows along K have equal parameters, always: a divisor of all their counts."""
    depth = int(parameter.shape[0])
    if parameter.strides[0] == 0:  # as where it is broadcast along K
        return depth
    changes = np.flatnonzero((parameter[1:] != parameter[:-1]).any(1)) + 1
    return math.gcd(depth, *[int(each) for each in changes])


def _fields(depth: int, block: int, fields: int) -> tuple[int, int] | None:
    """Return how many codes a byte holds, and how many rows of the matrix its fields are apart; None for short blocks."""
    rows = block
    while rows > LONGEST and rows % 2 == 0:
        rows //= 2
    if rows > LONGEST and fields > 1:
        return None
    while fields > 1 and depth // rows % fields:
        if rows % 2:
            return None
        rows //= 2
    return (fields, rows) if rows >= SHORTEST else None


def _parameter(given: Array, block: int, fields: int, rows: int, width: int) -> Array:
    """Return a parameter of all elements as one for all, for each column, or for each column of each field."""
    if bool((given == given[:1, :1]).all()):
        return np.array(given[0, 0])
    if block == given.shape[0]:
        return np.ascontiguousarray(_in_panels(given[:1], width))[:, None, None]
    return np.ascontiguousarray(_in_panels(given[::rows].reshape(-1, fields, 1, given.shape[1]), width))


def _in_panels(array: Array, width: int) -> Array:
    """Return (…, N) as (panels, …, width), with zeros for columns that are missing."""
    columns = array.shape[-1]
    missing = -columns % width
    if missing:
        array = np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, missing)])
    return np.moveaxis(array.reshape((*array.shape[:-1], -1, width)), -2, 0)


# -- rewriting -------------------------------------------------------------------------------------------------------------


def _rewritten(graph: Graph, found: dict[int, Packed]) -> Graph:
    needed = {symbol.id for symbol in (*graph.outputs, *graph.inputs)}
    for symbol in reversed(graph.symbols):
        if symbol.id in needed:
            operands = symbol.inputs[:1] if symbol.id in found else symbol.inputs
            needed.update([operand.id for operand in operands])
    target = graph.rewriting()
    weights: dict[int, Symbol] = {}
    new: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        if symbol.id not in needed:
            continue
        with target.located(symbol.location):
            packed = found.get(symbol.id)
            if packed is None:
                new[symbol.id] = target.adopt(symbol, [new[operand.id] for operand in symbol.inputs])
                continue
            right = symbol.inputs[1]
            if right.id not in weights:
                weights[right.id] = _decoding(target, packed)
            new[symbol.id] = _product(new[symbol.inputs[0].id], weights[right.id], symbol, packed)
    target.output(*[new[symbol.id] for symbol in graph.outputs], names=graph.output_names)
    return target


def _decoding(graph: Graph, packed: Packed) -> Symbol:
    """Return the numbers that a matrix in panels stands for, as (panels, K, columns)."""
    panels, blocks, rows, width = packed.codes.shape
    apply = graph.apply
    codes = apply("reshape", (graph.constant(packed.codes),), {"shape": (panels, blocks, 1, rows, width)})
    if packed.fields > 1:
        bits = 8 // packed.fields
        masks = (((1 << bits) - 1) << bits * np.arange(packed.fields)).astype(np.uint8)
        codes = apply("bitwise_and", (codes, graph.constant(masks.reshape(-1, 1, 1))))
    numbers = _cast(codes, float32)
    if packed.zero is not None and packed.zero.any():
        numbers = apply("sub", (numbers, graph.constant(packed.zero)))
    if packed.scale is not None:
        numbers = apply("mul", (numbers, graph.constant(packed.scale)))
    if packed.offset is not None:
        numbers = apply("add", (numbers, graph.constant(packed.offset)))
    depth = blocks * packed.fields * rows
    numbers = apply("reshape", (numbers,), {"shape": (panels, depth, width)})
    return numbers if packed.dtype is float32 else _cast(numbers, packed.dtype)


def _product(left: Symbol, right: Symbol, symbol: Symbol, packed: Packed) -> Symbol:
    """Return a product with a matrix in panels, in the shape of the product that the graph states."""
    apply = left.graph.apply
    outer: Sequence[object] = left.shape[:-1]
    count = math.prod(outer) if outer else 1  # type: ignore[arg-type]
    panels, depth, width = (int(extent) for extent in right.shape)  # type: ignore[arg-type]
    rows = apply("reshape", (left,), {"shape": (1, count, depth)})
    apart = apply("matmul", (rows, right), symbol.attrs)
    joined = apply("permute", (apart,), {"axes": (1, 0, 2)})
    flat = apply("reshape", (joined,), {"shape": (count, panels * width)})
    if packed.columns != flat.shape[1]:
        flat = apply("slice", (flat,), {"starts": (0, 0), "stops": (count, packed.columns), "steps": (1, 1)})
    return apply("reshape", (flat,), {"shape": symbol.shape})


def _cast(x: Symbol, dtype: DType) -> Symbol:
    return x.graph.apply("cast", (x,), {"dtype": dtype, "rounding": "nearest", "saturate": True}, dtype)


