"""The coefficients of the special functions, highest power first."""

from __future__ import annotations

from fractions import Fraction

ERFCX = (
    4.180821739675544e-11, -1.374652989001164e-10, -5.377133821031794e-10, 1.7903326159489847e-09,
    3.950879254166685e-09, -1.4709550868669278e-08, -2.1868462576141457e-08, 1.1009737295274889e-07,
    7.888177117406594e-08, -8.249198427508354e-07, 2.9094470866632674e-07, 5.709206053072183e-06,
    -1.1220772697788498e-05, -2.4398944545280832e-05, 0.00015062131406268513, -0.0001992567757633648,
    -0.0007577732210512849, 0.005031969992669933, -0.016197734065728945, 0.03716751553592911,
    -0.06633036581166812, 0.09373283499843826, -0.10103906603632413, 0.0680970542546904,
    0.015379652102620026, -0.1396211168405625, 1.2329951186255526,
)
"""(1 + 2x) erfcx(x) for x >= 0 as a polynomial in (x - 4) / (x + 4), relative error below 2e-18: our own Chebyshev fit."""

BESSEL_LIMIT = 20.0
"""The argument from which on the modified Bessel functions use their asymptotic series."""


def _bessel_series(order: int, terms: int = 46) -> tuple[float, ...]:
    """Returns the coefficients of I0(x) = Σ u^k / (k!)² or of 2 I1(x) / x = Σ u^k / (k! (k+1)!), u = x² / 4."""
    found = []
    factor = Fraction(1)
    for k in range(terms):
        if k:
            factor /= k * (k + order)
        found.append(float(factor))
    return tuple(reversed(found))


def _bessel_asymptotic(order: int, terms: int = 32) -> tuple[float, ...]:
    """Returns the coefficients of sqrt(2 pi x) exp(-x) I_order(x) in powers of 1 / x (Abramowitz and Stegun, 9.7.1)."""
    found = []
    factor = Fraction(1)
    for k in range(terms):
        if k:
            factor *= Fraction(-(4 * order * order - (2 * k - 1) ** 2), 8 * k)
        found.append(float(factor))
    return tuple(reversed(found))


BESSEL_SERIES = (_bessel_series(0), _bessel_series(1))
BESSEL_ASYMPTOTIC = (_bessel_asymptotic(0), _bessel_asymptotic(1))
