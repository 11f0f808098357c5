"""Makes ranges, identity and triangular matrices, and one-hot vectors: masks of positions, never stored."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from ...promotion.dtype import float32, float64, int64
from ...promotion.errors import UserError
from ...promotion.literals import check_literal, is_numpy_scalar, number_of
from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import Dim, Extent, ceil_div, exact_quotient, maximum
from ..errors import describe, describing, mistake
from ..graph import Graph
from ..ops.opdef import accumulator
from ..ops.shape import normalize_axis
from ..protocols import TensorLike
from ..reference.numerics import convert
from ..symbol import Symbol
from ..types import DimLike, DTypeLike, as_dtype, as_extent
from .building import apply, symbol_of
from .creation import creates, owner_of
from .positions import counting

_Bound: TypeAlias = "float | np.generic | str | Dim"

_FARTHEST = 1 << 62
"""Diagonals beyond this one hold no element either, and a row's number added to theirs still fits 64 bits."""


@creates
def arange(
    graph: Graph | Symbol, start: _Bound, stop: _Bound | None = None, step: _Bound = 1,
    dtype: DTypeLike | None = None,
) -> Symbol:  # fmt: skip
    """Return start, start + step, … up to but without `stop`, as numpy.arange; with one number, 0 up to it.

    Args:
        graph: the graph it belongs to, or any symbol of it; there is no current graph.
        start, stop: numbers, names or dims.
        step: a number other than 0; an int or a dim where start or stop is symbolic. A launch requires dims to be 1 or more.
        dtype: by default int64, or the rule set's default float where a number is a float.
    """
    owner = owner_of("arange", graph)
    if stop is None:
        start, stop = 0, start
    first, last, stride = (
        _number(value, name) for value, name in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    if stride == 0:
        raise UserError(f"arange: step is {step!r}; expected a number other than 0; fix: arange(graph, stop)")
    numbers = (first, last, stride)
    real = any(isinstance(value, float) for value in numbers)
    if real and not all(math.isfinite(value) for value in numbers if isinstance(value, (int, float))):
        raise UserError(f"arange: {start!r} to {stop!r} by {step!r} has no length; fix: pass finite numbers")
    default = owner.rules.literals.float_default if real else int64
    target = default if dtype is None else as_dtype(dtype, "arange: dtype")
    if isinstance(first, Dim) or isinstance(last, Dim) or isinstance(stride, Dim):
        if real:
            raise UserError(
                f"arange: {start!r} to {stop!r} by {step!r} mixes sizes and floats; fix: scale ints, arange(x, n) * 0.5"
            )
        if isinstance(stride, Dim):
            owner.shape_checks.require_at_least(stride, 1, f"arange: step {stride} is 1 or more")
        count = _count(first, last, stride)  # type: ignore[arg-type]
        return primitives.cast(counting(owner, count) * stride + first, target)
    length = max(math.ceil((last - first) / stride) if real else -int((first - last) // stride), 0)
    for index in (0, length - 1) if length else ():
        check_literal(first + index * stride, target, "arange")
    if length <= 1 << 16:
        if not real and not target.is_float:
            whole = np.array([first + index * stride for index in range(length)], np.object_)
            return owner.constant(whole.astype(target.numpy), target)
        values = np.array([first + index * stride for index in range(length)], np.float64)
        return owner.constant(convert(values, float64, target), target)
    counted = counting(owner, length)
    scaled = counted.cast(float64) * float(stride) + float(first) if real else counted * stride + first
    return primitives.cast(scaled, target)


@creates
def linspace(
    graph: Graph | Symbol, start: TensorLike, stop: TensorLike, num: DimLike = 50, endpoint: bool = True,
    dtype: DTypeLike | None = None,
) -> Symbol:  # fmt: skip
    """Return `num` numbers from `start` to `stop` at equal distances, as numpy.linspace.

    Args:
        graph: the graph it belongs to, or any symbol of it; there is no current graph.
        start, stop: numbers, or rank-0 symbols.
        num: how many numbers, 0 or more; an int, name or dim.
        endpoint: whether `stop` is the last number; otherwise it would be the one after the last.
        dtype: by default that of symbols, or the rule set's default float. Integers are rounded down.
    """
    owner = owner_of("linspace", graph)
    target = None if dtype is None else as_dtype(dtype, "linspace: dtype")
    ends = [end for end in (start, stop) if isinstance(end, Symbol)]
    for name, end in (("start", start), ("stop", stop)):
        if isinstance(end, bool) or not (isinstance(end, (int, float, np.generic)) or getattr(end, "shape", None) == ()):
            raise UserError(f"linspace: {name} is {describe(end)}; expected a number or a scalar; fix: linspace(graph, 0, 1)")
    work = owner.promoted("linspace", ends, "sqrt" if len(ends) < 2 else "div")[0].dtype if ends else None
    if work is None:
        work = target if target is not None and target.is_float and target.has_arithmetic else owner.rules.literals.default(0.5)
    size = as_extent(num, "linspace: num")
    wide = float64 if work is float64 or not ends else accumulator(work)
    first, last = (primitives.cast(owner.as_symbol(end, "linspace"), wide) for end in (start, stop))
    spread = spaced(first, last, size, endpoint)
    if target is not None and target.is_integer:
        return primitives.cast(apply("floor", spread), target)
    return primitives.cast(spread, target or work)


def spaced(first: Symbol, last: Symbol, size: Extent, endpoint: bool = True) -> Symbol:
    """Return numbers at equal distances between two scalars of one float dtype. The last one is exact, as the first is."""
    graph, dtype = first.graph, first.dtype
    numbers = primitives.cast(counting(graph, size), dtype)
    gaps = size - 1 if endpoint else size
    divisor = primitives.cast(graph.dim_value(maximum(gaps, 1)), dtype)
    found = apply("add", apply("mul", numbers, apply("div", apply("sub", last, first), divisor)), first)
    if not endpoint or size in (0, 1):
        return found
    is_last = apply("equal", counting(graph, size), graph.dim_value(maximum(gaps, 1)))
    return apply("where", is_last, last, found)


def _count(start: Extent, stop: Extent, step: Extent) -> Extent:
    if isinstance(step, Dim):
        whole = exact_quotient(stop - start, step)
        return maximum(ceil_div(stop - start, step) if whole is None else whole, 0)
    span = stop - start if step > 0 else start - stop
    return maximum((span + (abs(step) - 1)) // abs(step), 0)


def _number(value: object, name: str) -> int | float | Dim:
    if is_numpy_scalar(value):
        value = number_of(value)
    if isinstance(value, Dim) or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    if isinstance(value, str):
        size = as_extent(value, f"arange: {name}")
        return size
    raise UserError(f"arange: {name} is {describe(value)}; expected a number or a size; fix: arange(graph, 0, n)")


@creates
def eye(graph: Graph | Symbol, n: DimLike, m: DimLike | None = None, k: int | Dim = 0, dtype: DTypeLike = float32) -> Symbol:
    """Return the (n, m) matrix with ones on diagonal `k` and zeros elsewhere; `m` defaults to `n`.

    A positive `k` is above the main diagonal. Sizes are ints, names or dims; `graph` is the graph the matrix
    belongs to, or any symbol of it.
    """
    owner = owner_of("eye", graph)
    rows, columns = as_extent(n, "eye: n"), as_extent(n if m is None else m, "eye: m")
    row_numbers = primitives.reshape(counting(owner, rows), (rows, 1))
    return primitives.cast(apply("equal", _shifted(row_numbers, k, "eye"), counting(owner, columns)), dtype)


def tril(x: TensorLike, k: int | Dim = 0) -> Symbol:
    """Return the lower triangles of the last two axes, with zeros above diagonal `k`, as numpy.tril.

    `x` may have any dtype that can be stored.
    """
    return _triangle("tril", "greater_equal", x, k)


def triu(x: TensorLike, k: int | Dim = 0) -> Symbol:
    """Return the upper triangles of the last two axes, with zeros below diagonal `k`, as numpy.triu.

    `x` may have any dtype that can be stored.
    """
    return _triangle("triu", "less_equal", x, k)


def band_part(x: TensorLike, num_lower: int | None = None, num_upper: int | None = None, exclude: bool = False) -> Symbol:
    """Return the last two axes with zeros outside the `num_lower` diagonals below the main one and the `num_upper` above it.

    None keeps all on its side. exclude: whether the elements inside are 0 instead. As MAX's band_part.
    """
    symbol = symbol_of("band_part", x)
    with describing("band_part", symbol):
        if len(symbol.shape) < 2:
            raise ShapeError(f"the operand has {len(symbol.shape)} axes", "two axes or more", "reshape it into a matrix")
    for name, number in (("num_lower", num_lower), ("num_upper", num_upper)):
        if number is not None and (type(number) is not int or number < 0):
            problem = f"{name} is {number!r:.40}"
            raise mistake("band_part", problem, (symbol,), "0 or more diagonals, or None for all", f"{name}=0")
    rows, columns = symbol.shape[-2:]
    row_numbers = primitives.reshape(counting(symbol.graph, rows), (rows, 1))
    distance = apply("sub", counting(symbol.graph, columns), row_numbers)
    nothing = False if symbol.dtype.is_bool else 0
    inside: Symbol = symbol.graph.constant(np.True_)
    if num_lower is not None:
        inside = apply("greater_equal", distance, -min(num_lower, _FARTHEST))
    if num_upper is not None:
        inside = apply("logical_and", inside, apply("less_equal", distance, min(num_upper, _FARTHEST)))
    return apply("where", inside, nothing, symbol) if exclude else apply("where", inside, symbol, nothing)


def _triangle(op: str, relation: str, x: TensorLike, k: int | Dim) -> Symbol:
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        if len(symbol.shape) < 2:
            raise ShapeError(f"the operand has {len(symbol.shape)} axes", "two axes or more", "reshape it into a matrix")
    rows, columns = symbol.shape[-2:]
    row_numbers = primitives.reshape(counting(symbol.graph, rows), (rows, 1))
    kept = apply(relation, _shifted(row_numbers, k, op), counting(symbol.graph, columns))
    return apply("where", kept, symbol, False if symbol.dtype.is_bool else 0)


def _shifted(row_numbers: Symbol, k: int | Dim, op: str) -> Symbol:
    if isinstance(k, Dim):
        return apply("add", row_numbers, k)
    if isinstance(k, bool) or not hasattr(k, "__index__"):
        raise UserError(f"{op}: the diagonal k is {describe(k)}; expected an int or a size; fix: k=0")
    diagonal = min(max(int(k), -_FARTHEST), _FARTHEST)
    return row_numbers if diagonal == 0 else apply("add", row_numbers, diagonal)


def one_hot(indices: TensorLike, depth: DimLike, dtype: DTypeLike = float32, axis: int = -1) -> Symbol:
    """Return ones at `indices` along a new axis of size `depth`, zeros elsewhere.

    An index out of range, or negative, gives zeros. `depth` is an int, name or dim, `axis` the position of
    the new axis. Raises `UserError` for indices that are no integers.
    """
    symbol = symbol_of("one_hot", indices)
    if not symbol.dtype.is_integer:
        raise mistake("one_hot", f"the indices are {symbol.dtype}", (symbol,), "integers", "indices.cast(int64)")
    size = as_extent(depth, "one_hot: depth")
    with describing("one_hot", symbol):
        axis_index = normalize_axis(axis, len(symbol.shape) + 1)
    trailing = len(symbol.shape) - axis_index
    apart = primitives.reshape(primitives.cast(symbol, int64), (*symbol.shape[:axis_index], 1, *symbol.shape[axis_index:]))
    counted = primitives.reshape(counting(symbol.graph, size), (size, *(1,) * trailing))
    return primitives.cast(apply("equal", apart, counted), dtype)
