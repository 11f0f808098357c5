"""Handles incomplete gamma functions and the zeta function of Hurwitz, computed in float64 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable

from .....promotion.dtype import float64
from ....functions.building import apply
from ....functions.control.loops import while_loop
from ....functions.reductions import any_
from ....symbol import Symbol
from ...node import Node, Operand
from ...registry import handles
from .special import _STIRLING, _lgamma

_EULER_MACLAURIN = (
    12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792, 74724249600.0, -2950130727918.1641,
    116467828143500.67, -4597978722407472.6, 181521054019435467.8, -7166165256175667011.3,
)  # fmt: skip
"""(2k)! / B(2k)."""
_NEAR_ONE = (
    -0.5772156649015329, 0.8224670334241132, -0.40068563438653143, 0.27058080842778454, -0.207385551028674,
    0.16955717699740822, -0.14404989676884614, 0.12550966952474304, -0.11133426586956469, 0.10009945751278179,
    -0.09095401714582904, 0.083353840546109, -0.0769325164113522, 0.07143294629536134, -0.06666870588242046,
    0.06250095514121304, -0.05882397865868458, 0.055555767627403614, -0.05263167937961666, 0.05000004769810169,
    -0.04761907033014223, 0.04545455629320467, -0.04347826605304026,
)  # fmt: skip
"""The series of log Γ(1 + a) in a, from a on: -γ, and ζ(k) (-1)^k / k."""
_TERMS = 10
"""How many terms of the zeta function are added before the series of the rest."""
_ITERATIONS = 1 << 20
_SMALL = 2.0**-54
_TINY = 1e-290


def _of(row: str) -> Callable[..., Symbol]:
    def applied(*operands: Symbol | float) -> Symbol:
        graph = next(each.graph for each in operands if isinstance(each, Symbol))
        return apply(row, *[each if isinstance(each, Symbol) else graph.scalar(each, float64) for each in operands])

    return applied


_add, _sub, _mul, _div, _pow = (_of(row) for row in ("add", "sub", "mul", "div", "pow"))
_less, _equal, _greater, _where = (_of(row) for row in ("less", "equal", "greater", "where"))


def _wide(node: Node, *operands: Operand) -> list[Symbol]:
    """Return operands as float64 in the declared shape."""
    wide = [each.cast(float64) if isinstance(each, Symbol) else node.operand(each, float64) for each in operands]
    return [node.broadcast(each) for each in wide]


# -- gamma -------------------------------------------------------------------------------------------------------------


def _weight(a: Symbol, x: Symbol) -> Symbol:
    """Return x^a exp(-x) / Γ(a + 1): of larger a by the distance from x, where the powers would lose digits."""
    plain = apply("exp", _sub(_sub(_mul(a, apply("log", x)), x), _log_gamma_after(a)))
    far = apply("maximum", a, a.graph.scalar(1.0, float64))
    distance = _div(_sub(x, far), far)
    inverse = _div(1.0, far)
    square, rest = _mul(inverse, inverse), a.graph.scalar(_STIRLING[-1], float64)
    for coefficient in _STIRLING[-2::-1]:
        rest = _add(_mul(rest, square), coefficient)
    exponent = _sub(_mul(far, _sub(apply("log1p", distance), distance)), _mul(rest, inverse))
    near = _div(apply("exp", exponent), apply("sqrt", _mul(far, 2 * math.pi)))
    is_near = apply("logical_and", _greater(a, 10.0), _less(apply("abs", distance), 0.5))
    return _where(is_near, near, plain)


def _log_gamma_after(a: Symbol) -> Symbol:
    """Return log Γ(1 + a), for small a without rounding 1 + a."""
    near = _where(_less(a, 0.15), a, 0.0)
    found = a.graph.scalar(_NEAR_ONE[-1], float64)
    for coefficient in _NEAR_ONE[-2::-1]:
        found = _add(_mul(found, near), coefficient)
    return _where(_less(a, 0.15), _mul(found, near), _lgamma(_add(a, 1.0)))


def _rest(a: Symbol, x: Symbol) -> Symbol:
    """Return the upper function of small a and x: 1 - x^a / Γ(1 + a) Σ (-x)^k / k! a / (a + k), without a difference from 1."""
    factor, total = a.graph.scalar(1.0, float64), _mul(a, 0.0)
    for number in range(1, 25):
        factor = _div(_mul(factor, apply("negate", x)), float(number))
        total = _add(total, _div(factor, _add(a, float(number))))
    exponent = _sub(_mul(a, apply("log", x)), _log_gamma_after(a))
    return _sub(apply("negate", apply("expm1", exponent)), _mul(_mul(apply("exp", exponent), a), total))


def _series(a: Symbol, x: Symbol) -> Symbol:
    """Return 1 + x / (a + 1) + x² / ((a + 1) (a + 2)) + …"""

    def more(state: tuple[Symbol, ...]) -> Symbol:
        number, term, total = state
        going = any_(_greater(term, _mul(total, _SMALL)))
        return apply("logical_and", going, _less(number, float(_ITERATIONS)))

    def step(state: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        number, term, total = state
        number = _add(number, 1.0)
        term = _mul(term, _div(x, _add(a, number)))
        return number, term, _add(total, term)

    one = _add(_mul(a, 0.0), 1.0)
    found: Symbol = while_loop(more, step, (a.graph.scalar(0.0, float64), one, one))[2]
    return found


def _fraction(a: Symbol, x: Symbol) -> Symbol:
    """Return the continued fraction 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - …)) (Lentz)."""

    def more(state: tuple[Symbol, ...]) -> Symbol:
        number, _, _, _, change = state
        going = any_(_greater(apply("abs", _sub(change, 1.0)), 2 * _SMALL))
        return apply("logical_and", going, _less(number, float(_ITERATIONS)))

    def step(state: tuple[Symbol, ...]) -> tuple[Symbol, ...]:
        number, found, c, d, _ = state
        number = _add(number, 1.0)
        above = _mul(number, _sub(a, number))
        below = _add(_sub(x, a), _add(_mul(number, 2.0), 1.0))
        d = _div(1.0, _nonzero(_add(_mul(above, d), below)))
        c = _nonzero(_add(below, _div(above, c)))
        change = _mul(c, d)
        return number, _mul(found, change), c, d, change

    begin = _nonzero(_sub(_add(x, 1.0), a))
    first = _div(1.0, begin)
    huge = _div(1.0, _add(_mul(x, 0.0), _TINY))
    zero = _mul(x, 0.0)
    result: Symbol = while_loop(more, step, (x.graph.scalar(0.0, float64), first, huge, first, zero))[1]
    return result


def _nonzero(x: Symbol) -> Symbol:
    return _where(_equal(x, 0.0), _TINY, x)


@handles("igamma.default", "igammac.default")
def igamma(node: Node, a: Symbol, x: Symbol) -> Symbol:
    """Compute the regularised lower or upper incomplete gamma function: that which is small is computed, not its complement."""
    order, at = _wide(node, a, x)
    lower = node.kind == "igamma"
    usual = apply("logical_and", apply("logical_and", _greater(order, 0.0), _greater(at, 0.0)),
                  apply("logical_and", _less(order, math.inf), _less(at, math.inf)))  # fmt: skip
    by_series = _less(at, _add(order, 1.0))
    for_series, for_fraction = (apply("logical_and", usual, each) for each in (by_series, apply("logical_not", by_series)))
    a_low, x_low = _where(for_series, order, 1.0), _where(for_series, at, 0.5)
    a_high, x_high = _where(for_fraction, order, 1.0), _where(for_fraction, at, 4.0)
    low = _mul(_weight(a_low, x_low), _series(a_low, x_low))
    high = _mul(_mul(_weight(a_high, x_high), a_high), _fraction(a_high, x_high))
    if lower:
        found = _where(by_series, low, _sub(1.0, high))
    else:
        is_small = apply("logical_and", for_series, _less(apply("maximum", a_low, x_low), 1.1))
        rest = _rest(_where(is_small, a_low, 0.5), _where(is_small, x_low, 0.5))
        found = _where(by_series, _where(is_small, rest, _sub(1.0, low)), high)
    nothing, all_ = (0.0, 1.0) if lower else (1.0, 0.0)
    found = _where(_equal(at, 0.0), nothing, found)
    found = _where(_equal(order, 0.0), _where(_greater(at, 0.0), all_, math.nan), found)
    found = _where(_equal(at, math.inf), all_, found)
    found = _where(_equal(order, math.inf), _where(_equal(at, math.inf), math.nan, nothing), found)
    bad = apply("logical_or", _less(order, 0.0), _less(at, 0.0))
    absent = apply("logical_or", apply("is_nan", order), apply("is_nan", at))
    return _where(apply("logical_or", bad, absent), math.nan, found).cast(node.dtype)


# -- zeta --------------------------------------------------------------------------------------------------------------


def _from_zero(power: Symbol, at: Symbol) -> Symbol:
    """Return Σ (q + k)^-x of q that is not negative."""
    exponent = apply("negate", power)
    total = _pow(at, exponent)
    for number in range(1, _TERMS):
        total = _add(total, _pow(_add(at, float(number)), exponent))
    end = _add(at, float(_TERMS))
    last = _pow(end, exponent)
    rest = _add(_div(_mul(last, end), _sub(power, 1.0)), _mul(last, 0.5))
    factor, term = power, _div(last, end)
    for number, coefficient in enumerate(_EULER_MACLAURIN):
        rest = _add(rest, _div(_mul(factor, term), coefficient))
        factor = _mul(_mul(factor, _add(power, 2.0 * number + 1)), _add(power, 2.0 * number + 2))
        term = _div(_div(term, end), end)
    return _where(_equal(last, 0.0), total, _add(total, rest))


@handles("special_zeta.default", "special_zeta.other_scalar", "special_zeta.self_scalar")
def zeta(node: Node, x: Operand, q: Operand) -> Symbol:
    """Compute Σ (q + k)^-x: some terms, and the series of the rest (Euler and Maclaurin)."""
    power, first = _wide(node, x, q)
    left = _less(first, 0.0)
    moved = apply("maximum", apply("negate", apply("floor", first)), first.graph.scalar(0.0, float64))
    at = _add(first, _where(left, moved, 0.0))
    found = _from_zero(power, at)
    mirrored = _where(left, _sub(1.0, at), 1.0)  # terms of negative q + k, with the sign of their power
    before = _sub(_from_zero(power, mirrored), _from_zero(power, _where(left, _sub(1.0, first), 1.0)))
    half = _mul(power, 0.5)
    is_odd = apply("not_equal", apply("floor", half), half)
    found = _where(left, _add(found, _where(is_odd, apply("negate", before), before)), found)
    is_whole = _equal(apply("floor", first), first)
    pole = apply("logical_and", apply("logical_or", left, _equal(first, 0.0)), is_whole)
    undefined = apply("logical_and", left, apply("not_equal", apply("floor", power), power))
    found = _where(undefined, math.nan, found)
    found = _where(pole, math.inf, found)
    found = _where(_less(power, 1.0), math.nan, _where(_equal(power, 1.0), math.inf, found))
    absent = apply("logical_or", apply("is_nan", power), apply("is_nan", first))
    return _where(absent, math.nan, found).cast(node.dtype)
