"""Defines the elementwise functions: one per `map` row without attributes, and others made of these.

Those of rows are generated from the op table.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..construction import primitives
from ..errors import mistake
from ..graph import graph_of
from ..ops.opdef import OpDef
from ..ops.table import OPS
from ..protocols import TensorLike
from ..symbol import Symbol
from .building import apply, as_floats, in_float, symbol_of

_OPERANDS = """

Operands are symbols, NumPy arrays (strong: they promote) or scalars of Python or NumPy (weak: they take the tensor's dtype
where their kind allows it; the rule set may make NumPy's strong); at least one is a Symbol. Shapes broadcast as in NumPy.
Raises `UserError` when there is no join, a literal does not fit, or the shapes do not broadcast; `UnsupportedError` for
dtypes that are only stored."""


def _generated(row: OpDef) -> Callable[..., Symbol]:
    if row.arity == 1:

        def function(x: TensorLike) -> Symbol:
            return graph_of(row.name, x).apply(row, (x,))
    elif row.arity == 2:

        def function(x: TensorLike, y: TensorLike) -> Symbol:  # type: ignore[misc]
            return graph_of(row.name, x, y).apply(row, (x, y))
    else:

        def function(condition: TensorLike, x: TensorLike, y: TensorLike) -> Symbol:  # type: ignore[misc]
            return graph_of(row.name, condition, x, y).apply(row, (condition, x, y))

    function.__name__ = function.__qualname__ = row.name
    function.__doc__ = f"{row.doc}{_OPERANDS}\n\nResult dtype: {row.promote.summary}."
    return function


FUNCTIONS: dict[str, Callable[..., Symbol]] = {
    row.name: _generated(row) for row in OPS.values() if row.kind == "map" and not row.attrs
}
"""The generated functions, attributes of this module, too; a dict, because some are named like built-ins."""


def __getattr__(name: str) -> Callable[..., Symbol]:
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


# -- arithmetic --------------------------------------------------------------------------------------------------------


def square(x: TensorLike) -> Symbol:
    """Compute x * x, in the dtype of `x`; integers wrap."""
    return apply("mul", x, x)


def reciprocal(x: TensorLike) -> Symbol:
    """Compute 1 / x. Bools and integers become the default float first."""
    return apply("div", 1, x)


def fmod(x: TensorLike, y: TensorLike) -> Symbol:
    """Compute the remainder with the sign of `x`, as C's fmod; the op is `rem`."""
    return apply("rem", x, y)


def divmod_(x: TensorLike, y: TensorLike) -> tuple[Symbol, Symbol]:
    """Return (floor_div(x, y), mod(x, y)), as Python's divmod."""
    return apply("floor_div", x, y), apply("mod", x, y)


def clip(x: TensorLike, low: TensorLike | None = None, high: TensorLike | None = None) -> Symbol:
    """Compute minimum(maximum(x, low), high); a bound that is None is left out.

    NaN stays NaN; `high` wins where low > high. Bounds are symbols, arrays or Python scalars, and promote
    like operands of maximum. Raises `UserError` when both bounds are None.
    """
    if low is None and high is None:
        raise mistake("clip", "both bounds are None", (x,), "a lower or an upper bound", "clip(x, 0.0, 1.0)")
    result = x
    if low is not None:
        result = apply("maximum", result, low)
    if high is not None:
        result = apply("minimum", result, high)
    return symbol_of("clip", result)


def logaddexp(x: TensorLike, y: TensorLike) -> Symbol:
    """Compute log(exp(x) + exp(y)) without overflow.

    Two equal infinities give that infinity; an infinity beside another value gives the larger of the two.
    """
    result, (a, b) = as_floats("logaddexp", x, y)
    tail = apply("log1p", apply("exp", apply("negate", apply("abs", apply("sub", a, b)))))
    total = apply("add", apply("maximum", a, b), tail)
    return primitives.cast(apply("where", apply("equal", a, b), apply("add", a, math.log(2)), total), result)


def isclose(x: TensorLike, y: TensorLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Symbol:
    """Return whether |x - y| <= atol + rtol * |y|, as bool, like numpy.isclose.

    Infinities are close to themselves only; NaN to NaN if `equal_nan`.
    """
    _, (a, b) = as_floats("isclose", x, y)
    bound = apply("add", apply("mul", apply("abs", b), float(rtol)), float(atol))
    near = apply("less_equal", apply("abs", apply("sub", a, b)), bound)
    result = apply("logical_or", apply("logical_and", near, is_finite(b)), apply("equal", a, b))
    if equal_nan:
        result = apply("logical_or", result, apply("logical_and", apply("is_nan", a), apply("is_nan", b)))
    return result


# -- bits, selection, classification -------------------------------------------------------------------------------------


def bit_shift(x: TensorLike, y: TensorLike, direction: str = "left") -> Symbol:
    """Compute x << y or x >> y by `direction`, "left" or "right" (ONNX BitShift)."""
    if direction not in ("left", "right"):
        raise mistake(
            "bit_shift", f"unknown direction {direction!r}", (x, y), '"left" or "right"', 'direction="left"'
        )
    return apply(f"shift_{direction}", x, y)


def masked_fill(x: TensorLike, mask: TensorLike, value: TensorLike) -> Symbol:
    """Return `value` where the bool `mask` holds, else `x`."""
    return apply("where", mask, value, x)


def is_inf(x: TensorLike) -> Symbol:
    """Return whether x is an infinity, as bool; false for bools and integers."""
    symbol = symbol_of("is_inf", x)
    if not symbol.dtype.is_float:
        return apply("is_nan", symbol)
    return apply("equal", apply("abs", symbol), math.inf)


def is_finite(x: TensorLike) -> Symbol:
    """Return whether x is neither infinite nor NaN, as bool; true for bools and integers."""
    symbol = symbol_of("is_finite", x)
    if not symbol.dtype.is_float:
        return apply("logical_not", apply("is_nan", symbol))
    return apply("less", apply("abs", symbol), math.inf)


# -- functions of a float ------------------------------------------------------------------------------------------------


@in_float
def tan(x: Symbol) -> Symbol:
    """Compute the tangent of x (radians), as sin(x) / cos(x)."""
    return apply("div", apply("sin", x), apply("cos", x))


def _signed(magnitude: Symbol, x: Symbol) -> Symbol:
    """Return `magnitude` with the sign of x, for odd functions; zeros keep their sign."""
    return apply(
        "where",
        apply("less", x, 0.0),
        apply("negate", magnitude),
        apply("where", apply("equal", x, 0.0), x, magnitude),
    )


_NEAR_OVERFLOW = {
    "float32": (88.0, 87.28125, 4.024716117869335e37),
    "float64": (709.0, 708.2535400390625, 1.9479339719256895e307),
}
"""Numbers below which exp(a) is finite, then c and exp(c) / 2 for those above, of which exp(a) / 2 may still be. c was
searched for whose exp(c) / 2 is nearly a number of the dtype; a - c is exact."""


def _before_overflow(size: Symbol) -> tuple[Symbol, Symbol, float]:
    """Return whether exp(size) is finite, size or what it is beyond c, and exp(c) / 2."""
    limit, c, half = _NEAR_OVERFLOW["float64" if size.dtype.name == "float64" else "float32"]
    is_finite = apply("less", size, limit)
    return is_finite, apply("sub", size, apply("where", is_finite, 0.0, c)), half


@in_float
def sinh(x: Symbol) -> Symbol:
    """Compute the hyperbolic sine of x.

    With a = |x| and p = e^a - 1 it is (p + p / (p + 1)) / 2, and e^(a - c) · e^c / 2 where e^a overflows before e^a / 2.
    """
    size = apply("abs", x)
    is_small, reduced, half = _before_overflow(size)
    powers = apply("expm1", reduced)
    above = apply("add", powers, 1.0)
    small = apply("mul", apply("add", powers, apply("div", powers, above)), 0.5)
    return _signed(apply("where", is_small, small, apply("mul", above, half)), x)


@in_float
def cosh(x: Symbol) -> Symbol:
    """Compute the hyperbolic cosine of x.

    With a = |x| it is (e^a + e^-a) / 2, and e^(a - c) · e^c / 2 where e^a overflows before e^a / 2.
    """
    is_small, reduced, half = _before_overflow(apply("abs", x))
    powers = apply("exp", reduced)
    small = apply("mul", apply("add", powers, apply("div", 1.0, powers)), 0.5)
    return apply("where", is_small, small, apply("mul", powers, half))


_LARGE = 2.0**60
"""From here on log(1 + a) is log(a) and √(a² ± 1) is a in float64, too; up to here a² is finite in float32."""


def _log_of_twice(is_small: Symbol, small: Symbol, size: Symbol) -> Symbol:
    """Return log1p of a number where it is small, else log(2 size): both by one logarithm."""
    y = apply("log1p", apply("where", is_small, small, size))
    return apply("where", is_small, y, apply("add", y, math.log(2)))


@in_float
def asinh(x: Symbol) -> Symbol:
    """Compute the inverse hyperbolic sine of x.

    With a = |x| it is log1p(a + a² / (1 + √(1 + a²))), and log(a) + log 2 for large a.
    """
    size = apply("abs", x)
    squared = apply("mul", size, size)
    root = apply("add", apply("sqrt", apply("add", squared, 1.0)), 1.0)
    small = apply("add", size, apply("div", squared, root))
    return _signed(_log_of_twice(apply("less", size, _LARGE), small, size), x)


@in_float
def acosh(x: Symbol) -> Symbol:
    """Compute the inverse hyperbolic cosine of x; NaN for x < 1.

    With t = x - 1 it is log1p(t + √(2t + t²)), and log(x) + log 2 for large x.
    """
    above = apply("sub", x, 1.0)
    small = apply("add", above, apply("sqrt", apply("mul", above, apply("add", above, 2.0))))
    return apply("where", apply("less", x, 1.0), math.nan, _log_of_twice(apply("less", x, _LARGE), small, x))


@in_float
def atanh(x: Symbol) -> Symbol:
    """Compute the inverse hyperbolic tangent of x: infinite at ±1, NaN beyond.

    With a = |x| it is log1p(2a / (1 - a)) / 2.
    """
    size = apply("abs", x)
    ratio = apply("div", apply("add", size, size), apply("sub", 1.0, size))
    return _signed(apply("mul", apply("log1p", ratio), 0.5), x)


@in_float
def log10(x: Symbol) -> Symbol:
    """Compute the logarithm of x to base 10."""
    return apply("log10", x)


@in_float
def cbrt(x: Symbol) -> Symbol:
    """Compute the real cube root of x, also of negative x."""
    return apply("cbrt", x)
