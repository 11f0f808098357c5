"""Defines reductions and running sums.

`axis` is None (all axes), an int or a tuple of ints; negative axes count from the end. `keepdims` keeps
reduced axes with size 1.
"""

from __future__ import annotations

import math

from ...promotion.dtype import DType, bool_, int64
from ...promotion.literals import is_numpy_scalar, number_of
from ...promotion.result_rules import ACCUMULATE
from ..checks import ShapeError
from ..construction import primitives
from ..dims.dim import Dim, minimum, product
from ..errors import describing, mistake
from ..ops.attributes import Attributes
from ..ops.shape import normalize_axes, normalize_axis
from ..protocols import TensorLike
from ..symbol import Symbol
from ..types import Axis, DTypeLike, as_dtype
from .building import apply, as_floats, symbol_of


def _axes(op: str, x: TensorLike, axis: Axis) -> tuple[Symbol, tuple[int, ...]]:
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        return symbol, normalize_axes(axis, len(symbol.shape))


def _reduce(op: str, x: Symbol, axes: tuple[int, ...], keepdims: bool) -> Symbol:
    return apply(op, x, axes=axes, keepdims=bool(keepdims)) if axes else x


def accumulated(op: str, x: Symbol, dtype: DTypeLike | None) -> DType:
    """Return the dtype of a sum or product of `x`: `dtype`, or what the rule set widens to."""
    given = None if dtype is None else as_dtype(dtype, f"{op}: dtype")
    return ACCUMULATE.apply(x.graph.rules, [x.dtype], op=op, dtype=given).result


def _total(op: str, row: str, x: TensorLike, axis: Axis, keepdims: bool, dtype: DTypeLike | None) -> Symbol:
    symbol, axes = _axes(op, x, axis)
    result = accumulated(op, symbol, dtype)
    value = _reduce(row, primitives.accumulate_in(symbol, result), axes, keepdims)
    return primitives.cast(value, result)


def sum_(x: TensorLike, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Symbol:
    """Compute the sum over `axis`; 0 over no elements.

    Bools and signed integers are summed in int64, unsigned ones in uint64, 16-bit floats in float32 with one
    rounding at the end. `dtype` overrides the result dtype (and then the accumulator: float32 for 16-bit
    floats).
    """
    return _total("sum", "reduce_sum", x, axis, keepdims, dtype)


def prod(x: TensorLike, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Symbol:
    """Compute the product over `axis`; 1 over no elements. Dtypes are those of `sum`."""
    return _total("prod", "reduce_prod", x, axis, keepdims, dtype)


def _extreme(name: str, x: TensorLike, y: TensorLike | None, axis: Axis, keepdims: bool) -> Symbol:
    if y is not None:
        if not hasattr(y, "dtype"):
            raise mistake(
                name, f"the second argument {y!r} is no tensor", (x,), f"{name}(x, axis=…) or two tensors",
                f"{name}(x, axis={y!r}) to reduce, or {name}imum(x, {y!r}) to compare with a number",
            )  # fmt: skip
        if axis is not None or keepdims:
            raise mistake(
                name, "two tensors and axis= or keepdims=", (x, y), "one or the other", f"{name}imum(x, y)"
            )
        return apply(f"{name}imum", x, y)
    symbol, axes = _axes(name, x, axis)
    require_elements(name, symbol, axes)
    return _reduce(f"reduce_{name}", symbol, axes, keepdims)


def require_elements(op: str, x: Symbol, axes: tuple[int, ...]) -> None:
    """Require elements along these axes, now or by a check at launch; other axes may be empty.

    The largest of no elements does not exist. Raises `UserError` for an axis of size 0.
    """
    with describing(op, x):
        for axis in axes:
            extent = x.shape[axis]
            if extent == 0:
                raise ShapeError(
                    f"axis {axis} is empty", "at least one element", "reduce a non-empty axis, or pad first"
                )
            if isinstance(extent, Dim):
                x.graph.shape_checks.add(minimum(extent, 1), 1, f"{op}: axis {axis} must not be empty")


def max_(x: TensorLike, y: TensorLike | None = None, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute the largest element over `axis`, NaN if there is one; with two tensors, `maximum(x, y)`.

    Of zeros of both signs over an axis the result may be either, except with `numerics="reproducible"`, where
    0.0 is larger. Raises `UserError` for an empty axis; whether a symbolic one is empty is checked at launch.
    """
    return _extreme("max", x, y, axis, keepdims)


def min_(x: TensorLike, y: TensorLike | None = None, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute the smallest element over `axis`, NaN if there is one; with two tensors, `minimum(x, y)`.

    Zeros and empty axes are treated as by `max`.
    """
    return _extreme("min", x, y, axis, keepdims)


def _position(op: str, x: TensorLike, axis: int | None, keepdims: bool) -> Symbol:
    symbol = symbol_of(op, x)
    if axis is None:
        flat = primitives.reshape(symbol, (-1,)) if product(symbol.shape) != 0 else symbol
        require_elements(op, symbol, tuple(range(len(symbol.shape))))
        result = apply(op, flat, axes=(0,), keepdims=False)
        return primitives.reshape(result, (1,) * len(symbol.shape)) if keepdims else result
    with describing(op, symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
    require_elements(op, symbol, (axis_index,))
    return apply(op, symbol, axes=(axis_index,), keepdims=bool(keepdims))


def argmax(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Symbol:
    """Compute the position (int64) of the first largest element along `axis`, or of the first NaN.

    With `axis` None, it is the position in row-major order of all elements.
    """
    return _position("argmax", x, axis, keepdims)


def argmin(x: TensorLike, axis: int | None = None, keepdims: bool = False) -> Symbol:
    """Compute the position (int64) of the first smallest element along `axis`, or of the first NaN.

    With `axis` None, it is the position in row-major order of all elements.
    """
    return _position("argmin", x, axis, keepdims)


def _truth(op: str, row: str, x: TensorLike, axis: Axis, keepdims: bool) -> Symbol:
    symbol, axes = _axes(op, x, axis)
    truth = symbol if symbol.dtype is bool_ else apply("not_equal", symbol, 0)
    if any(symbol.shape[axis_index] == 0 for axis_index in axes):  # any and all of nothing exist
        shape = [1 if axis_index in axes else extent for axis_index, extent in enumerate(symbol.shape)]
        kept = shape if keepdims else [extent for axis_index, extent in enumerate(shape) if axis_index not in axes]
        return primitives.broadcast_to(symbol.graph.scalar(op == "all"), tuple(kept))
    return _reduce(row, truth, axes, keepdims)


def any_(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute whether some element over `axis` is true (not zero), as bool; False over no elements."""
    return _truth("any", "reduce_max", x, axis, keepdims)


def all_(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute whether every element over `axis` is true (not zero), as bool; True over no elements."""
    return _truth("all", "reduce_min", x, axis, keepdims)


def count_nonzero(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Count the elements over `axis` that are not zero, as int64; NaN is not zero."""
    symbol, axes = _axes("count_nonzero", x, axis)
    truth = symbol if symbol.dtype is bool_ else apply("not_equal", symbol, 0)
    return _reduce("reduce_sum", primitives.cast(truth, int64), axes, keepdims)


def _in_float(op: str, symbol: Symbol, dtype: DTypeLike | None) -> Symbol:
    """Return the operand of a mean or moment, cast to `dtype` if it is given. Raises `UserError` unless that is a float."""
    if dtype is None:
        return symbol
    target = as_dtype(dtype, f"{op}: dtype")
    if not target.is_float:
        raise mistake(op, f"dtype={target} cannot hold a mean", (symbol,), "a float dtype", "dtype=float32")
    return primitives.cast(symbol, target)


def _moment(op: str, x: TensorLike, axis: Axis, dtype: DTypeLike | None, attrs: Attributes) -> Symbol:
    symbol, axes = _axes(op, x, axis)
    return symbol.graph.apply(op, (_in_float(op, symbol, dtype),), {**attrs, "axes": axes})


def _number(op: str, x: TensorLike, correction: int | float) -> int | float:
    """Return the correction of a variance. Raises `UserError` unless it is a number."""
    number = number_of(correction) if is_numpy_scalar(correction) else correction
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise mistake(op, f"correction is {correction!r}", (x,), "a number", "correction=1")
    return number


def mean(x: TensorLike, axis: Axis = None, keepdims: bool = False, dtype: DTypeLike | None = None) -> Symbol:
    """Compute the arithmetic mean over `axis`; NaN over no elements.

    Bools and integers give float32 under the default rules; `dtype` overrides the result dtype (a float).
    """
    return _moment("mean", x, axis, dtype, {"keepdims": bool(keepdims)})


def var(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, correction: int | float = 0, dtype: DTypeLike | None = None
) -> Symbol:
    """Compute the variance over `axis`: sum((x - mean)²) / (count - correction), in two passes.

    correction: 0 for the population, 1 for Bessel's correction. Dtypes are those of `mean`.
    """
    return _moment("var", x, axis, dtype, {"keepdims": bool(keepdims), "correction": _number("var", x, correction)})


def stdev(
    x: TensorLike, axis: Axis = None, keepdims: bool = False, correction: int | float = 0, dtype: DTypeLike | None = None
) -> Symbol:
    """Compute the standard deviation over `axis`, √var. The arguments are those of `var`."""
    symbol, axes = _axes("stdev", x, axis)
    (own,) = symbol.graph.promoted("stdev", (_in_float("stdev", symbol, dtype),), "mean")
    wide = primitives.accumulate_in(own, own.dtype)
    value = apply("sqrt", var(wide, axes, keepdims, _number("stdev", x, correction)))
    return primitives.cast(value, own.dtype)


def logsumexp(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute log(sum(exp(x))) over `axis`, without overflow; -inf where all elements are -inf."""
    symbol, axes = _axes("logsumexp", x, axis)
    return apply("logsumexp", symbol, axes=axes, keepdims=bool(keepdims))


def cumsum(
    x: TensorLike, axis: int = -1, exclusive: bool = False, reverse: bool = False, dtype: DTypeLike | None = None
) -> Symbol:
    """Compute running sums along `axis`. Dtypes are those of `sum`.

    exclusive: leave the element itself out of its sum; reverse: run from the end.
    """
    return running("cumsum", x, axis, exclusive, reverse, dtype)


def running(op: str, x: TensorLike, axis: int, exclusive: bool, reverse: bool, dtype: DTypeLike | None) -> Symbol:
    """Apply a scan whose dtypes are those of the reduction with the same combination."""
    symbol = symbol_of(op, x)
    with describing(op, symbol):
        number = normalize_axis(axis, len(symbol.shape))
    result = accumulated(op, symbol, dtype)
    work = primitives.accumulate_in(symbol, result)
    return primitives.cast(apply(op, work, axis=number, exclusive=bool(exclusive), reverse=bool(reverse)), result)


# -- norms -------------------------------------------------------------------------------------------------------------


def _wide(op: str, x: TensorLike) -> tuple[Symbol, DType]:
    """Return the operand in the dtype its sums are computed in, and the dtype of a sum of it."""
    symbol = symbol_of(op, x)
    result = accumulated(op, symbol, None)
    return primitives.accumulate_in(symbol, result), result


def reduce_l1(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute sum(|x|) over `axis`. Dtypes are those of `sum`."""
    work, result = _wide("reduce_l1", x)
    return primitives.cast(sum_(apply("abs", work), axis, keepdims), result)


def sum_square(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute sum(x²) over `axis`. Dtypes are those of `sum`."""
    work, result = _wide("sum_square", x)
    return primitives.cast(sum_(apply("mul", work, work), axis, keepdims), result)


def reduce_l2(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute √sum(x²) over `axis`: a float, the default one for bools and integers."""
    result, (work,) = as_floats("reduce_l2", x)
    return primitives.cast(apply("sqrt", sum_(apply("mul", work, work), axis, keepdims)), result)


def log_sum(x: TensorLike, axis: Axis = None, keepdims: bool = False) -> Symbol:
    """Compute log(sum(x)) over `axis`: a float, the default one for bools and integers."""
    symbol = symbol_of("log_sum", x)
    total = apply("log", sum_(primitives.accumulate_in(symbol, symbol.dtype), axis, keepdims))
    return primitives.cast(total, symbol.dtype) if symbol.dtype.is_float else total


def norm(x: TensorLike, ord: int | float = 2, axis: Axis = None, keepdims: bool = False) -> Symbol:  # noqa: A002  NumPy's name
    """Compute the vector norm of order `ord` over `axis`: (Σ|x|^ord)^(1/ord).

    It is max|x| for inf, min|x| for -inf, and the count of non-zero elements for 0. The result is a float,
    the default one for bools and integers.
    """
    if isinstance(ord, bool) or not isinstance(ord, (int, float)) or ord != ord:
        raise mistake("norm", f"ord is {ord!r}", (x,), "a number, inf or -inf", "ord=2")
    if ord == 2:
        return reduce_l2(x, axis, keepdims)
    result, (work,) = as_floats("norm", x)
    size = apply("abs", work)
    if ord == math.inf:
        value = max_(size, axis=axis, keepdims=keepdims)
    elif ord == -math.inf:
        value = min_(size, axis=axis, keepdims=keepdims)
    elif ord == 0:
        value = count_nonzero(size, axis, keepdims)
    elif ord == 1:
        value = sum_(size, axis, keepdims)
    else:
        value = apply("pow", sum_(apply("pow", size, float(ord)), axis, keepdims), 1 / ord)
    return primitives.cast(value, result)
