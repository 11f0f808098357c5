"""Computes products of 8-bit codes with constant codes in integers, where a graph states them in floats or in int32.

Quantised models say `dequantize(x) @ dequantize(w)`: floats, from codes q as s · (q - z). A sum of such products is
s · t · Σ (q - z) · v, in which the sum is one of integers, so exact. It is a product of int8 in int32, which processors have
instructions for, and x is read as the codes that it is stored in. With q = p + 128 for codes of uint8, so that p is int8,

    Σ (q - z) · v  =  Σ p · v  -  (z - 128) · Σ v,

where Σ v is a constant for each column. What pads x with zeros pads p with z - 128. Tensors that are only read as what their
codes stand for are quantised to int8 at once, with another zero point: all numbers are the same. For processors that multiply
unsigned bytes with signed ones, codes stay uint8, and a product reads p as q with its highest bit flipped, which their code
undoes: it is nothing but another way to write q.

Convolutions of single channels, which are sums of products tap by tap, are the same sums: each tap reads the codes.

What this may change of a result in floats is less than what the order of its sum may (docs/design/011-numerics.md);
`numerics="reproducible"` keeps the floats. Products stated in int32 (ConvInteger, QLinearConv, MatMulInteger) are the same
numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ....graph.graph import Graph
from ....graph.ops.attributes import Attributes
from ....graph.ops.control import has_control
from ....graph.symbol import Symbol
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType, float32, int8, int32, uint8
from ..constant_values import MAX_WEIGHTS, constant_value, viewed

SCALES = 2.0**-48, 2.0**48
"""Scales are 0 or between these: then no product or sum of either form overflows, or is denormal, as long as sums are int32."""
_MOVES = frozenset(("reshape", "permute", "windows", "slice", "flip", "broadcast_to", "contiguous"))
_RIGHT_VIEWS = frozenset(("reshape", "permute", "slice", "contiguous"))
_SHIFT = 128
MIN_FOURS = 3
"""Fewest taps that are summed in fours."""
MAX_TAPS = 64
"""Taps of a sum of products; convolutions of single channels have no more (`graph/functions/spatial/convolution.py`)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A left operand: views, and padding with zeros, of codes without their zero point.

    codes: of int8 or uint8.  inner: views between these and where the zero point is taken off; outer: those after it. Both
    begin with the first.  zero: the zero point, or a symbol of int32 that holds it.  scale: None for operands in int32.
    """

    codes: Symbol
    inner: tuple[Symbol, ...]
    outer: tuple[Symbol, ...]
    zero: int | Symbol
    scale: float | None

    def reads_as(self, other: Rows) -> bool:
        """Return whether both are of the same codes, with the same zero point and scale."""
        one, two = ((each.zero.id if isinstance(each.zero, Symbol) else each.zero) for each in (self, other))
        known = isinstance(self.zero, Symbol) == isinstance(other.zero, Symbol)
        return self.codes is other.codes and known and one == two and self.scale == other.scale

    @property
    def windows(self) -> Symbol | None:
        """The windows among the views, if there are any."""
        return next((view for view in (*self.inner, *self.outer) if view.op.name == "windows"), None)

    @property
    def signed_zero(self) -> int | None:
        """The zero point of the codes as int8, where it is known."""
        if isinstance(self.zero, Symbol):
            return None
        return self.zero - (_SHIFT if self.codes.dtype is uint8 else 0)


@dataclass(frozen=True, slots=True)
class Matrix:
    """A constant right operand: what its codes are without zero point, (…, K, N) of int8, and their scales, (…, 1, N) or ()."""

    codes: Array
    scale: Array | None


@dataclass(frozen=True, slots=True)
class Product:
    """A product of a left operand with a matrix. largest: the exponent of two that no result in floats exceeds."""

    rows: Rows
    matrix: Matrix
    largest: int = 0

    @property
    def read(self) -> Rows:
        """What is read, but for its views."""
        return self.rows

    @property
    def scale(self) -> Array | None:
        return self.matrix.scale


@dataclass(frozen=True, slots=True)
class Taps:
    """The sum over taps of views of one tensor of codes, each times a constant, as convolutions of single channels are.

    rows: what is read at each tap, which differ in their views alone.  factors: int8, in a shape that broadcasts against the
    sum.  scale: of the factors at all taps, in that shape or (); None for sums in int32.  largest: as in `Product`.
    """

    rows: tuple[Rows, ...]
    factors: tuple[Array, ...]
    scale: Array | None
    largest: int = 0

    @property
    def read(self) -> Rows:
        """What is read, but for its views."""
        return self.rows[0]


def with_integer_products(
    graph: Graph, exact_only: bool = False, fours: bool = False, unsigned: bool = False
) -> Graph:
    """Return a finished graph with products of codes in int8; the graph itself where there are none, or loops or branches.

    exact_only: whether products that the graph states in floats stay as they are. fours: whether sums over taps are sums of
    four products each (`sum_of_four`), of unsigned codes. unsigned: whether left operands of products are kept as uint8.
    """
    if has_control(graph):
        return graph
    found: dict[int, Product | Taps] = {}
    inner: set[int] = set()
    for symbol in reversed(graph.symbols):
        product: Product | Taps | None = None
        if symbol.op.name == "matmul":
            product = _product(symbol)
        elif symbol.op.name in ("add", "multiply_add") and symbol.id not in inner:
            terms = _terms(symbol)
            product = _taps(symbol, terms)
            if product is not None:
                inner.update(_sums_below(symbol, len(terms)))
        if product is not None and not (exact_only and product.scale is not None):
            found[symbol.id] = product
    return _Rewriting(graph, found, fours, unsigned).run() if found else graph


# -- finding ---------------------------------------------------------------------------------------------------------------


def _product(symbol: Symbol) -> Product | None:
    """Return a product of codes, None of any other product."""
    if symbol.dtype not in (float32, int32) or symbol.attrs["accumulate"] is not symbol.dtype:
        return None
    if len(symbol.inputs[1].shape) < 2:
        return None
    rows = _rows(symbol.inputs[0])
    if rows is None or (rows.scale is None) != (symbol.dtype is int32):
        return None
    matrix = _matrix(symbol.inputs[1], rows.scale is not None)
    if matrix is None:
        return None
    if matrix.scale is None:
        return Product(rows, matrix)
    largest = _largest(rows, np.abs(matrix.codes.astype(np.int64)).sum(-2, keepdims=True), matrix.scale)
    return None if largest is None else Product(rows, matrix, largest)


def _terms(symbol: Symbol) -> list[tuple[Symbol, Symbol]]:
    """Return the operands of the products that a symbol is the sum of, one added after the other; none of any other symbol."""
    found: list[tuple[Symbol, Symbol]] = []
    while len(found) < MAX_TAPS:
        if symbol.op.name == "multiply_add":
            left, right, _ = symbol.inputs
        elif symbol.op.name == "add" and symbol.inputs[1].op.name == "mul":
            left, right = symbol.inputs[1].inputs
        else:
            break
        found.append((left, right))
        symbol = _sum_before(symbol)
    if not found or symbol.op.name != "mul":
        return []
    left, right = symbol.inputs
    return [*found, (left, right)]


def _sum_before(symbol: Symbol) -> Symbol:
    """Return the sum that a sum of one product more begins with."""
    return symbol.inputs[2] if symbol.op.name == "multiply_add" else symbol.inputs[0]


def _sums_below(symbol: Symbol, count: int) -> list[int]:
    """Return the ids of the sums of `count` products, the last one and those before it."""
    found = [symbol.id]
    for _ in range(count - 2):
        symbol = _sum_before(symbol)
        found.append(symbol.id)
    return found


def _taps(symbol: Symbol, terms: Sequence[tuple[Symbol, Symbol]]) -> Taps | None:
    """Return a sum of products of codes with constants, None of any other symbol.

    One in floats is taken only over the taps of one `windows`: it is what a convolution is made of, whose order of summing is
    left open. Every operation of other sums is rounded as the graph states it.
    """
    if not terms or symbol.dtype not in (float32, int32):
        return None
    scaled = symbol.dtype is float32
    rows: list[Rows] = []
    factors: list[Array] = []
    scale: Array | None = None
    for left, right in terms:
        one = _rows(left)
        other = None if one is None else _factors(right, scaled)
        if one is None or other is None or (one.scale is None) == scaled or len(left.shape) != len(symbol.shape):
            return None
        first = rows[0] if rows else one
        if not first.reads_as(one) or (scaled and (one.windows is None or one.windows is not first.windows)):
            return None
        if factors and scaled and not np.array_equal(cast(Array, other.scale), cast(Array, scale)):
            return None
        rows.append(one)
        factors.append(other.codes)
        scale = other.scale
    if scale is None:
        return Taps(tuple(rows), tuple(factors), None)
    largest = _largest(rows[0], sum(np.abs(each.astype(np.int64)) for each in factors), scale)  # type: ignore[arg-type]
    return None if largest is None else Taps(tuple(rows), tuple(factors), scale, largest)


def _largest(rows: Rows, sums: Array, scale: Array) -> int | None:
    """Return the exponent of two that no result in floats exceeds.

    None where sums of codes leave int32, or a scale makes floats overflow or denormal. sums: of the magnitudes of the factors
    of each result, in a shape that broadcasts against the scales.
    """
    zero = rows.signed_zero
    assert zero is not None
    assert rows.scale is not None
    most = sums * max(_SHIFT + zero, _SHIFT - 1 - zero)
    scales = np.abs(np.append(scale.ravel(), np.float32(rows.scale)))
    inside = (scales == 0) | ((scales >= SCALES[0]) & (scales <= SCALES[1]))
    if most.max(initial=0) >= 1 << 31 or not inside.all():
        return None
    result = (most * np.abs(scale.astype(np.float64))).max(initial=0) * abs(rows.scale)
    return math.frexp(result * (1 + 2.0**-20))[1]  # with what rounding the sum, the scale and their product adds


def _views(symbol: Symbol, names: frozenset[str]) -> tuple[Symbol, tuple[Symbol, ...]]:
    """Return what a symbol is a chain of views of, and the chain, its first view first."""
    chain: list[Symbol] = []
    while symbol.op.name in names and (symbol.op.name != "pad" or _pads_zeros(symbol)):
        chain.append(symbol)
        symbol = symbol.inputs[0]
    return symbol, tuple(reversed(chain))


def _pads_zeros(symbol: Symbol) -> bool:
    return symbol.attrs["mode"] == "constant" and symbol.attrs["value"] == 0


def _rows(symbol: Symbol) -> Rows | None:
    base, outer = _views(symbol, _MOVES | {"pad"})
    name, scale, zero = base.op.name, None, cast(int | Symbol, 0)
    if name == "dequantize" and base.dtype is float32:
        number = _number(base.inputs[1])
        point = _number(base.inputs[2]) if len(base.inputs) == 3 else 0
        if number is None or point is None:
            return None
        codes, scale, zero = base.inputs[0], float(number), int(point)
    elif name == "sub" and base.dtype is int32:
        codes, point = base.inputs[0], _number(base.inputs[1])
        zero = base.inputs[1] if point is None else int(point)
        if not _is_number(base.inputs[1]) or not _is_widened(codes):
            return None
        codes = codes.inputs[0]
    elif _is_widened(base):
        codes = base.inputs[0]
    else:
        return None
    codes, inner = _views(codes, _MOVES)
    if codes.dtype not in (int8, uint8) or not (isinstance(zero, Symbol) or _in_range(zero, codes)):
        return None
    return Rows(codes, inner, outer, zero, scale)


def _in_range(zero: int, codes: Symbol) -> bool:
    return int(codes.dtype.min_value) <= zero <= int(codes.dtype.max_value)


def _is_widened(symbol: Symbol) -> bool:
    return symbol.op.name == "cast" and symbol.dtype is int32 and symbol.inputs[0].dtype in (int8, uint8)


def _is_number(symbol: Symbol) -> bool:
    return all(extent == 1 for extent in symbol.shape)


def _number(symbol: Symbol) -> float | int | None:
    """Return a constant of one element; None for any other symbol."""
    found = constant_value(symbol) if _is_number(symbol) else None
    return None if found is None else cast(float | int, found.reshape(()).item())


def _factors(symbol: Symbol, scaled: bool) -> Matrix | None:
    """Return constant factors of int8, whatever their rank, and their scales: one, or as many."""
    if not scaled:
        found = constant_value(symbol)
        return None if found is None else _narrowed(found, None)
    base, chain = _views(symbol, _RIGHT_VIEWS)
    dequantized = _dequantized(base)
    if dequantized is None:
        return None
    codes, scale = dequantized
    return _narrowed(_moved(codes, chain), _moved(np.broadcast_to(scale, codes.shape), chain) if scale.shape else scale)


def _matrix(symbol: Symbol, scaled: bool) -> Matrix | None:
    """Return a matrix of constant factors, with scales that differ along its columns alone."""
    found = _factors(symbol, scaled)
    if found is None or found.scale is None or not found.scale.shape:
        return found
    first = found.scale[..., :1, :]
    return Matrix(found.codes, first) if bool((found.scale == first).all()) else None


def _dequantized(symbol: Symbol) -> tuple[Array, Array] | None:
    """Return constant codes without their zero points, in int32, and scales of float32 that broadcast against them."""
    if symbol.op.name != "dequantize" or symbol.dtype is not float32 or symbol.attrs["block_size"]:
        return None
    codes, scale = constant_value(symbol.inputs[0]), constant_value(symbol.inputs[1])
    zero = constant_value(symbol.inputs[2]) if len(symbol.inputs) == 3 else np.zeros((), np.int32)
    known = codes is not None and scale is not None and zero is not None
    if not known or symbol.inputs[0].dtype not in (int8, uint8) or scale.dtype != np.float32:  # type: ignore[union-attr]
        return None
    assert codes is not None
    assert scale is not None
    assert zero is not None
    along = (*scale.shape, *(1,) * (codes.ndim - 1 - symbol.attrs["axis"])) if scale.shape else ()
    wide = codes.astype(np.int32) - zero.astype(np.int32).reshape(along if zero.shape else ())
    return wide, scale.reshape(along)


def _moved(array: Array, chain: Sequence[Symbol]) -> Array:
    for view in chain:
        array = viewed(array, view)
    return array


def _narrowed(codes: Array, scale: Array | None) -> Matrix | None:
    """Return a matrix of integers as int8, if they are."""
    if codes.size > MAX_WEIGHTS or codes.min(initial=0) < -_SHIFT or codes.max(initial=0) >= _SHIFT:
        return None
    return Matrix(np.ascontiguousarray(codes.astype(np.int8)), scale)


# -- rewriting -------------------------------------------------------------------------------------------------------------


class _Rewriting:
    """Copies a graph. Of a symbol its value is made, its codes as int8, or both: what is read."""

    def __init__(self, graph: Graph, products: Mapping[int, Product | Taps], fours: bool, unsigned: bool) -> None:
        self.graph, self.target, self.products = graph, graph.rewriting(), products
        self._fours, self._unsigned_rows = fours, unsigned
        self.new: dict[int, Symbol] = {}
        self.signed: dict[int, Symbol] = {}
        self.unsigned: dict[int, Symbol] = {}
        self._chains: dict[tuple[object, ...], Symbol] = {}
        wanted = {each.read.codes.id for each in products.values() if not self._reads_unsigned(each)}
        as_unsigned = {each.read.codes.id for each in products.values() if self._reads_unsigned(each)}
        as_codes = {symbol.id for symbol in graph.outputs}  # that are read as they are, too
        for symbol in graph.symbols:
            if symbol.op.name != "dequantize" or _point(symbol) is None:
                as_codes.update([operand.id for operand in symbol.inputs])
        quantized = [symbol.id for symbol in graph.symbols if _is_quantized(symbol)]
        self.moved = {each for each in quantized if each in wanted or not (unsigned or each in as_codes | as_unsigned)}
        """Codes of uint8 that are quantised to int8 instead."""
        signed = [symbol.id for symbol in graph.symbols if unsigned and _is_quantized(symbol, int8)]
        self.raised = {each for each in signed if each not in wanted | as_codes}
        """Codes of int8 that are quantised to uint8 instead."""
        conversions = [symbol for symbol in graph.symbols if symbol.op.name in ("quantize", "dequantize")]
        self._parameters = {operand.id for symbol in conversions for operand in symbol.inputs[1:] if _is_number(operand)}

    def run(self) -> Graph:
        plain, signed = self._needed()
        for symbol in self.graph.symbols:
            with self.target.located(symbol.location):
                if symbol.id in self.raised and symbol.id in plain:
                    self.unsigned[symbol.id] = self._shifted(self._adopted(symbol), uint8)
                elif symbol.id in plain:
                    self.new[symbol.id] = self._made(symbol)
                if symbol.id in signed:
                    self.signed[symbol.id] = self._as_int8(symbol)
        self.target.output(*[self.new[symbol.id] for symbol in self.graph.outputs], names=self.graph.output_names)
        return self.target

    def _needed(self) -> tuple[set[int], set[int]]:
        """Return the ids of the symbols whose values are needed, and of those whose codes are as int8."""
        plain, signed = {symbol.id for symbol in (*self.graph.outputs, *self.graph.inputs)}, set[int]()
        for symbol in reversed(self.graph.symbols):
            operands = [operand.id for operand in symbol.inputs]
            if symbol.id in signed:
                plain.update(operands if symbol.id in self.moved else [symbol.id])
            if symbol.id not in plain:
                continue
            if symbol.id in self.raised:
                plain.update(operands)
                continue
            product = self.products.get(symbol.id)
            if product is not None:
                codes = product.read.codes
                is_unsigned = codes.id in self.raised or (codes.dtype is uint8 and codes.id not in self.moved)
                (plain if is_unsigned and self._reads_unsigned(product) else signed).add(codes.id)
                operands = [product.read.zero.id] if isinstance(product.read.zero, Symbol) else []
            elif self._stands_for_moved(symbol):
                signed.add(operands[0])
                operands = operands[1:2]
            plain.update(operands)
        return plain, signed

    def _stands_for_moved(self, symbol: Symbol) -> bool:
        """Return whether a symbol is the numbers of codes that become int8."""
        return symbol.op.name == "dequantize" and symbol.inputs[0].id in self.moved and _point(symbol) is not None

    def _as_int8(self, symbol: Symbol) -> Symbol:
        if symbol.dtype is int8:
            return self.new[symbol.id]
        return self._shifted(self._adopted(symbol) if symbol.id in self.moved else self.new[symbol.id], int8)

    def _shifted(self, codes: Symbol, dtype: DType) -> Symbol:
        """Return codes as those of the other dtype: 128 less or more. That of NaN is 0 before, whatever it stands for."""
        shift = self.target.constant(np.int32(-_SHIFT if dtype is int8 else _SHIFT))
        return _cast(self.target.apply("add", (_cast(codes, int32), shift)), dtype)

    def _with_point(self, symbol: Symbol, codes: Symbol) -> Symbol:
        """Return what codes stand for, for those of the other dtype, whose zero point is 128 less or more."""
        point, shift = _point(symbol), -_SHIFT if codes.dtype is int8 else _SHIFT
        assert point is not None
        zero = self.target.constant(np.full(symbol.inputs[1].shape, point + shift, codes.dtype.numpy))
        return self.target.apply(symbol.op, (codes, self.new[symbol.inputs[1].id], zero), symbol.attrs, symbol.dtype)

    def _made(self, symbol: Symbol) -> Symbol:
        product = self.products.get(symbol.id)
        if product is not None:
            return self._product(product)
        if self._stands_for_moved(symbol):
            return self._with_point(symbol, self.signed[symbol.inputs[0].id])
        if symbol.op.name == "dequantize" and symbol.inputs[0].id in self.raised:
            return self._with_point(symbol, self.unsigned[symbol.inputs[0].id])
        if symbol.op.name == "weight" and symbol.id in self._parameters:
            return self.target.constant(symbol.attrs["value"])  # one of a constant is part of the code
        return self._adopted(symbol)

    def _adopted(self, symbol: Symbol) -> Symbol:
        return self.target.adopt(symbol, [self.new[operand.id] for operand in symbol.inputs])

    def _product(self, product: Product | Taps) -> Symbol:
        apply, constant = self.target.apply, self.target.constant
        unsigned = self._in_fours(product)
        zero = self._zero(product.read, unsigned)
        if isinstance(product, Product):
            codes = product.matrix.codes
            sums = codes.sum(-2, np.int32, keepdims=True)
            operands = self._signed_left(product.rows, zero), constant(codes)
            total = apply("matmul", operands, {"accumulate": int32, "precision": "ieee"})
        else:
            factors = [each.astype(np.int32) for each in product.factors]
            sums = sum(factors[1:], factors[0])
            total = self._in_four_bytes(product, zero) if unsigned else self._tap_by_tap(product, factors, zero)
        if isinstance(zero, Symbol):
            total = apply("sub", (total, apply("mul", (constant(sums), zero))))
        elif zero:
            total = apply("sub", (total, constant(sums * np.int32(zero))))
        if product.scale is None or product.read.scale is None:
            return total
        scale = (product.scale.astype(np.float64) * product.read.scale).astype(np.float32)
        return apply("mul_bounded", (_cast(total, float32), constant(scale)), {"exponent": product.largest})

    def _reads_unsigned(self, product: Product | Taps) -> bool:
        """Return whether a product reads its codes as unsigned ones, if they are."""
        return self._unsigned_rows if isinstance(product, Product) else self._in_fours(product)

    def _signed_left(self, rows: Rows, zero: int | Symbol) -> Symbol:
        """Return the views of a left operand as int8, of unsigned codes if those are what there is. zero: the one of int8."""
        if rows.codes.id in self.signed:
            return self._left(rows, zero)
        codes = self._left(rows, self._zero(rows, True), self._unsigned_codes(rows))
        as_int8 = self.target.apply("bitcast", (codes,), {"dtype": int8}, int8)
        return self.target.apply("bitwise_xor", (as_int8, self.target.constant(np.int8(-_SHIFT))))

    def _unsigned_codes(self, rows: Rows) -> Symbol:
        """Return the codes of an operand in uint8, which there are."""
        found = self.unsigned.get(rows.codes.id)
        return self.new[rows.codes.id] if found is None else found

    def _in_fours(self, product: Product | Taps) -> bool:
        """Return whether a sum over taps is one of four products each."""
        if not self._fours or not isinstance(product, Taps) or len(product.factors) < MIN_FOURS:
            return False
        return all(each.shape == product.factors[0].shape for each in product.factors)

    def _tap_by_tap(self, product: Taps, factors: Sequence[Array], zero: int | Symbol) -> Symbol:
        apply, constant = self.target.apply, self.target.constant
        terms = [
            apply("mul", (_cast(self._left(rows, zero), int32), constant(each)))
            for rows, each in zip(product.rows, factors, strict=True)
        ]
        total = terms[0]
        for term in terms[1:]:
            total = apply("add", (total, term))
        return total

    def _in_four_bytes(self, product: Taps, zero: int | Symbol) -> Symbol:
        """Return a sum over taps as sums of up to four products, as many in each as can be, with factors in bytes of int32."""
        apply, count = self.target.apply, len(product.factors)
        parts = -(-count // 4)
        total: Symbol | None = None
        for part in range(parts):
            taps = range(part * count // parts, (part + 1) * count // parts)
            packed = sum((product.factors[tap].astype(np.int64) & 0xFF) << (8 * number) for number, tap in enumerate(taps))
            xs = [self._unsigned(product.rows[tap], zero) for tap in taps]
            operands = (*xs, *xs[:1] * (4 - len(xs)), self.target.constant(np.asarray(packed).astype(np.uint32).view(np.int32)))
            found = apply("sum_of_four", operands, {"k": len(xs)})
            total = found if total is None else apply("add", (total, found))
        assert total is not None
        return total

    def _unsigned(self, rows: Rows, zero: int | Symbol) -> Symbol:
        """Return the views of an operand as unsigned codes in int32."""
        apply = self.target.apply
        if rows.codes.id not in self.signed:
            return _cast(self._left(rows, zero, self._unsigned_codes(rows)), int32)
        inside = zero - _SHIFT if isinstance(zero, int) else apply("sub", (zero, self.target.constant(np.int32(_SHIFT))))
        flipped = apply("bitwise_xor", (self._left(rows, inside), self.target.constant(np.int8(-_SHIFT))))
        return _cast(apply("bitcast", (flipped,), {"dtype": uint8}, uint8), int32)

    def _zero(self, rows: Rows, unsigned: bool) -> int | Symbol:
        """Return the zero point of the codes as int8, or unsigned: a number, or a symbol of int32 without axes."""
        moved = (_SHIFT if unsigned else 0) - (_SHIFT if rows.codes.dtype is uint8 else 0)
        if not isinstance(rows.zero, Symbol):
            return rows.zero + moved
        found = self.new[rows.zero.id]
        found = self.target.apply("reshape", (found,), {"shape": ()}) if found.shape else found
        return self.target.apply("add", (found, self.target.constant(np.int32(moved)))) if moved else found

    def _left(self, rows: Rows, zero: int | Symbol, codes: Symbol | None = None) -> Symbol:
        """Return the views of a left operand, each padding and view made once. codes: what of; as int8, where that is None."""
        apply, found = self.target.apply, self.signed[rows.codes.id] if codes is None else codes
        key: tuple[object, ...] = (found.id, zero if isinstance(zero, int) else zero.id)
        for view in (*rows.inner, *rows.outer):
            key = (*key, view.id)
            if key not in self._chains:
                with self.target.located(view.location):
                    if view.op.name != "pad":
                        self._chains[key] = apply(view.op, (found,), view.attrs)
                    elif isinstance(zero, int):
                        self._chains[key] = apply(view.op, (found,), _with(view.attrs, value=zero))
                    else:
                        inside = apply("sub", (_cast(found, int32), zero))
                        padded = apply(view.op, (inside,), view.attrs)
                        self._chains[key] = _cast(apply("add", (padded, zero)), found.dtype)
            found = self._chains[key]
        return found


def _cast(x: Symbol, dtype: DType) -> Symbol:
    return x.graph.apply("cast", (x,), {"dtype": dtype, "rounding": "nearest", "saturate": True}, dtype)


def _with(attrs: Attributes, **changes: Any) -> Attributes:
    return cast(Attributes, {**attrs, **changes})


def _is_quantized(symbol: Symbol, dtype: DType = uint8) -> bool:
    """Return whether codes of a dtype are made by a quantisation with one zero point that is known."""
    return symbol.op.name == "quantize" and symbol.dtype is dtype and _point(symbol) is not None


def _point(symbol: Symbol) -> int | None:
    """Return the zero point of a quantisation or its inverse, where it is one number that is known."""
    if len(symbol.inputs) == 2:
        return None if symbol.inputs[1].shape else 0
    found = _number(symbol.inputs[2])
    return None if found is None else int(found)
