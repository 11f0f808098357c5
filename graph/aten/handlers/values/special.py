"""Handles special functions, computed in float64 and rounded once: gamma, error and Bessel functions.

The series are sums of Chebyshev polynomials, whose coefficients were computed with 40 digits (mpmath) at 80 nodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .....promotion.dtype import float64
from ....functions import special
from ....functions.building import apply
from ....functions.elementwise import tan
from ....symbol import Symbol
from ...node import Node
from ...registry import handles

_I0 = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
"""exp(-x) I0(x) of x from 0 to 8, in u = x / 4 - 1."""
_I0_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18,
)  # fmt: skip
"""√x exp(-x) I0(x) of x from 8 on, in u = 16 / x - 1."""
_I1 = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17, 2.7779141127610464e-18,
)  # fmt: skip
"""exp(-x) I1(x) / x of x from 0 to 8."""
_I1_FAR = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18,
    7.517296310842105e-18,
)  # fmt: skip
"""√x exp(-x) I1(x) of x from 8 on."""
_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189, -0.026658668435305753,
    0.009074997670705265, -0.002413163540417608, 0.0004907758365258086, -6.916973302501207e-05, 4.13902798607301e-06,
    7.74038306619849e-07, -2.1886401049234397e-07, 1.076499946567091e-08, 4.521959811218287e-09,
    -7.754400208831351e-10, -6.318088340886684e-11, 2.86879501093067e-11, 1.9455868545777347e-13,
    -9.65469674843344e-13, 3.25254814814874e-14, 3.3478119482868056e-14, -1.864562880419313e-15,
    -1.2507950530688648e-15, 7.418235256624044e-17, 5.0681489047961116e-17,
)  # fmt: skip
"""(1 + 2x) exp(x²) erfc(x) of x from 0 on, in u = (x - 15/4) / (x + 15/4)."""
_BERNOULLI = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)
"""B(2k) / 2k, of the asymptotic series of the digamma function."""
_BERNOULLI_NUMBERS = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)
"""B(2k), of those of its derivatives."""
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""B(2k) / (2k (2k - 1)), of that of the logarithm of the gamma function."""
_STEPS = 10
"""How far arguments are moved up, to where asymptotic series have all digits of a float64."""


def _add(x: Symbol, y: Symbol | float) -> Symbol:
    return apply("add", x, _of(x, y))


def _sub(x: Symbol | float, y: Symbol | float) -> Symbol:
    like = x if isinstance(x, Symbol) else y
    assert isinstance(like, Symbol)
    return apply("sub", _of(like, x), _of(like, y))


def _mul(x: Symbol, y: Symbol | float) -> Symbol:
    return apply("mul", x, _of(x, y))


def _div(x: Symbol | float, y: Symbol) -> Symbol:
    return apply("div", _of(y, x), y)


def _where(condition: Symbol, x: Symbol | float, y: Symbol | float) -> Symbol:
    like = x if isinstance(x, Symbol) else y
    assert isinstance(like, Symbol)
    return apply("where", condition, _of(like, x), _of(like, y))


def _is(row: str, x: Symbol, y: Symbol | float) -> Symbol:
    return apply(row, x, _of(x, y))


def _of(like: Symbol, value: Symbol | float) -> Symbol:
    return value if isinstance(value, Symbol) else like.graph.scalar(value, like.dtype)


def _series(u: Symbol, coefficients: Sequence[float]) -> Symbol:
    """Return a sum of Chebyshev polynomials (Clenshaw)."""
    twice = _add(u, u)
    one, two = _mul(u, 0.0), _mul(u, 0.0)
    for number in reversed(coefficients[1:]):
        one, two = _add(_sub(_mul(twice, one), two), number), one
    return _add(_sub(_mul(u, one), two), coefficients[0])


def _powers(x: Symbol, coefficients: Sequence[float]) -> Symbol:
    """Return a polynomial (Horner)."""
    found = _mul(x, 0.0)
    for number in reversed(coefficients):
        found = _add(_mul(found, x), number)
    return found


# -- gamma -------------------------------------------------------------------------------------------------------------


def _fraction(x: Symbol) -> Symbol:
    """Return how far numbers are from the nearest integer."""
    return _sub(x, apply("round", x))


def _lgamma(x: Symbol) -> Symbol:
    is_left = _is("less", x, 0.5)
    right = _where(is_left, _sub(1.0, x), x)
    is_small = _is("less", right, float(_STEPS))
    moved = _where(is_small, _add(right, float(_STEPS)), right)
    product = _where(is_small, right, 1.0)
    for step in range(1, _STEPS):
        product = _mul(product, _where(is_small, _add(right, float(step)), 1.0))
    inverse = _div(1.0, moved)
    rest = _mul(_powers(_mul(inverse, inverse), _STIRLING), inverse)
    log = apply("log", moved)
    found = _sub(_mul(_sub(moved, 0.5), _sub(log, 1.0)), apply("log", product))
    found = _add(_add(found, 0.5 * math.log(2 * math.pi) - 0.5), rest)
    found = _where(_is("equal", moved, math.inf), math.inf, found)
    sine = apply("abs", apply("sin", _mul(_fraction(x), math.pi)))
    mirrored = _sub(_sub(math.log(math.pi), apply("log", sine)), found)
    found = _where(is_left, mirrored, found)
    is_root = apply("logical_or", _is("equal", x, 1.0), _is("equal", x, 2.0))
    return _where(_is("equal", x, -math.inf), math.inf, _where(is_root, 0.0, found))


def _digamma(x: Symbol) -> Symbol:
    is_left = _is("less", x, 0.5)
    at = _where(is_left, _sub(1.0, x), x)
    moved = _add(at, float(_STEPS))
    inverse = _div(1.0, moved)
    square = _mul(inverse, inverse)
    found = _sub(_sub(apply("log", moved), _mul(inverse, 0.5)), _mul(_powers(square, _BERNOULLI), square))
    for step in range(_STEPS):
        found = _sub(found, _div(1.0, _add(at, float(step))))
    fraction = _fraction(x)
    mirrored = _sub(found, _div(math.pi, tan(_mul(fraction, math.pi))))
    mirrored = _where(_is("equal", fraction, 0.0), math.nan, mirrored)
    found = _where(is_left, mirrored, found)
    at_zero = _div(-1.0, x)
    return _where(_is("equal", x, 0.0), at_zero, _where(_is("equal", x, math.inf), math.inf, found))


def _trigamma(x: Symbol) -> Symbol:
    is_left = _is("less", x, 0.5)
    at = _where(is_left, _sub(1.0, x), x)
    moved = _add(at, float(_STEPS))
    inverse = _div(1.0, moved)
    square = _mul(inverse, inverse)
    found = _add(_add(inverse, _mul(square, 0.5)), _mul(_mul(_powers(square, _BERNOULLI_NUMBERS), square), inverse))
    for step in range(_STEPS):
        shifted = _add(at, float(step))
        found = _add(found, _div(1.0, _mul(shifted, shifted)))
    sine = apply("sin", _mul(_fraction(x), math.pi))
    return _where(is_left, _sub(_div(math.pi**2, _mul(sine, sine)), found), found)


# -- error functions ---------------------------------------------------------------------------------------------------


def _erfcx(x: Symbol) -> Symbol:
    at = apply("abs", x)
    far = _where(_is("equal", at, math.inf), 1.0, _div(_sub(at, 15 / 4), _add(at, 15 / 4)))
    found = _div(_series(far, _ERFCX), _add(_mul(at, 2.0), 1.0))
    return _where(_is("less", x, 0.0), _sub(_mul(apply("exp", _mul(x, x)), 2.0), found), found)


def _tail(q: Symbol) -> Symbol:
    """Return where the normal distribution has a share q ≤ 1/2 beyond: a first guess, better by some 1/2000."""
    t = apply("sqrt", _mul(apply("log", q), -2.0))
    above = _powers(t, (2.515517, 0.802853, 0.010328))
    return _sub(t, _div(above, _powers(t, (1.0, 1.432788, 0.189269, 0.001308))))


def _refined(z: Symbol, error: Callable[[Symbol], Symbol]) -> Symbol:
    """Return a zero of what falls as the normal distribution's share beyond z does, by three steps of Halley's."""
    for _ in range(3):
        density = _mul(apply("exp", _mul(_mul(z, z), -0.5)), 1 / math.sqrt(2 * math.pi))
        step = _div(error(z), density)
        z = _add(z, _div(step, _sub(1.0, _mul(_mul(step, z), 0.5))))
    return z


def _beyond(z: Symbol) -> Symbol:
    return _mul(special.erfc(_mul(z, math.sqrt(0.5))), 0.5)


def _ndtri(p: Symbol) -> Symbol:
    is_low = _is("less", p, 0.5)
    q = _where(is_low, p, _sub(1.0, p))
    z = _refined(_tail(q), lambda z: _sub(_beyond(z), q))
    z = _where(_is("equal", q, 0.0), math.inf, z)
    return _where(is_low, apply("negate", z), z)


def _erfinv(x: Symbol) -> Symbol:
    size = apply("abs", x)
    q = _mul(_sub(1.0, size), 0.5)
    is_far = _is("greater", size, 0.5)

    def error(z: Symbol) -> Symbol:
        near = _mul(_sub(size, apply("erf", _mul(z, math.sqrt(0.5)))), 0.5)
        return _where(is_far, _sub(_beyond(z), q), near)

    z = _mul(_refined(_tail(q), error), math.sqrt(0.5))
    z = _where(_is("equal", size, 1.0), math.inf, z)
    return _where(_is("less", x, 0.0), apply("negate", z), _where(_is("equal", x, 0.0), x, z))


# -- Bessel ------------------------------------------------------------------------------------------------------------


def _bessel(x: Symbol, near: Sequence[float], far: Sequence[float], odd: bool) -> Symbol:
    """Return exp(-|x|) I(x), of the order 0 or 1."""
    size = apply("abs", x)
    is_near = _is("less_equal", size, 8.0)
    inside = _where(is_near, size, 8.0)
    outside = _where(is_near, 8.0, size)
    first = _series(_sub(_mul(inside, 0.25), 1.0), near)
    first = _mul(first, inside) if odd else first
    found = _where(is_near, first, _div(_series(_sub(_div(16.0, outside), 1.0), far), apply("sqrt", outside)))
    found = _where(apply("is_nan", x), x, found)
    return _where(_is("less", x, 0.0), apply("negate", found), found) if odd else found


def _i0e(x: Symbol) -> Symbol:
    return _bessel(x, _I0, _I0_FAR, False)


def _i1e(x: Symbol) -> Symbol:
    return _bessel(x, _I1, _I1_FAR, True)


def _i0(x: Symbol) -> Symbol:
    size = apply("abs", x)
    return _where(_is("equal", size, math.inf), math.inf, _mul(_i0e(x), apply("exp", size)))


def _i1(x: Symbol) -> Symbol:
    size = apply("abs", x)
    return _where(_is("equal", size, math.inf), x, _mul(_i1e(x), apply("exp", size)))


_FUNCTIONS: dict[str, Callable[[Symbol], Symbol]] = {
    "lgamma": _lgamma, "digamma": _digamma, "erfinv": _erfinv, "i0": _i0, "special_i0e": _i0e, "special_i1": _i1,
    "special_i1e": _i1e, "special_erfcx": _erfcx, "special_ndtri": _ndtri,
}  # fmt: skip


@handles(*[f"{kind}.default" for kind in _FUNCTIONS])
def function(node: Node, x: Symbol) -> Symbol:
    """Apply a special function; of integers it is the default float."""
    return _FUNCTIONS[node.kind](x.cast(float64)).cast(node.dtype)


_ORDERS = 100
"""The highest derivative of the digamma function: of more, its factors leave float64."""


@handles("polygamma.default")
def polygamma(node: Node, n: int, x: Symbol) -> Symbol:
    """Compute the digamma function, or a derivative of it."""
    node.require(n <= _ORDERS, f"the derivative {n} of the digamma function", f"n of at most {_ORDERS}")
    at = x.cast(float64)
    return (_digamma(at) if n == 0 else _trigamma(at) if n == 1 else _polygamma(n, at)).cast(node.dtype)


def _polygamma(n: int, x: Symbol) -> Symbol:
    """Return (-1)^(n+1) n! Σ 1 / (x + k)^(n+1): some terms, and the asymptotic series of the rest (Euler and Maclaurin).

    Left of 1/2 it is that of 1 - x, mirrored: they differ by π times a derivative of cot(πx), a polynomial of it.
    """
    is_left = _is("less", x, 0.5)
    at = _where(is_left, _sub(1.0, x), x)
    steps = _STEPS + n
    moved = _add(at, float(steps))
    inverse = _div(1.0, moved)
    series = [_BERNOULLI_NUMBERS[k - 1] * math.comb(2 * k + n - 1, n) / (2 * k) for k in range(1, 8)]
    square = _mul(inverse, inverse)
    rest = _add(_add(_mul(_powers(square, series), square), _mul(inverse, 0.5)), 1 / n)
    found = _mul(rest, _power(inverse, n))
    for step in range(steps):
        found = _add(found, _power(_div(1.0, _add(at, float(step))), n + 1))
    sign, factor = -1.0 if n % 2 == 0 else 1.0, math.factorial(n)
    right = _mul(found, sign * factor)
    fraction = _fraction(x)
    cotangent = _div(1.0, tan(_mul(fraction, math.pi)))
    mirrored = _sub(_mul(right, (-1.0) ** n), _mul(_powers(cotangent, _cotangent_derivative(n)), math.pi ** (n + 1)))
    mirrored = _where(_is("equal", fraction, 0.0), sign * math.inf, mirrored)
    return _where(is_left, mirrored, _where(_is("equal", x, math.inf), sign * 0.0, right))


def _power(x: Symbol, exponent: int) -> Symbol:
    """Return a power by squaring."""
    found: Symbol | None = None
    while exponent:
        if exponent % 2:
            found = x if found is None else _mul(found, x)
        exponent //= 2
        x = _mul(x, x) if exponent else x
    assert found is not None
    return found


def _cotangent_derivative(n: int) -> tuple[float, ...]:
    """Return the polynomial of c = cot(u) that is its derivative n: that of c^k is -k (c^(k-1) + c^(k+1))."""
    found = [0, 1]
    for _ in range(n):
        after = [0] * (len(found) + 1)
        for k, coefficient in enumerate(found[1:], start=1):
            after[k - 1] -= k * coefficient
            after[k + 1] -= k * coefficient
        found = after
    return tuple(map(float, found))
