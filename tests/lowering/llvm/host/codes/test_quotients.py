"""Quotients by known scales in two instructions, beside the IEEE quotient and exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from joinery.lowering.llvm.host.codes.quotients import two_factors

F = np.float32


def _rounded(exact: Fraction) -> Any:
    """The float32 nearest to a fraction, halves to even; neither too large nor denormal."""
    if exact == 0:
        return F(0)
    near = F(float(exact))
    candidates = [np.nextafter(near, F(-np.inf)), near, np.nextafter(near, F(np.inf))]
    return min(candidates, key=lambda one: (abs(Fraction(float(one)) - exact), int(one.view(np.int32)) & 1))


def _in_two(x: Any, factors: tuple[float, float]) -> Any:
    large, small = (Fraction(factor) for factor in factors)
    exact = Fraction(float(x))
    return _rounded(exact * large + Fraction(float(_rounded(exact * small))))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(6))
def test_they_round_to_the_codes_of_ieee_quotients(seed: int) -> None:
    choose = random.Random(seed)
    scale = F(np.exp(choose.uniform(-9, 3)))
    low, high = choose.choice([(-128, 127), (0, 255), (-255, 0), (-3, 252)])
    factors = two_factors(float(scale), low, high)
    assert factors is not None
    xs = [F((choose.randint(low - 3, high + 3) + 0.5) * float(scale)) for _ in range(200)]
    for _ in range(3):
        xs += [np.nextafter(x, F(choose.choice([-np.inf, np.inf]))) for x in xs[-200:]]
    xs += [F(choose.uniform(-2, 2) * 300 * float(scale)) for _ in range(200)] + [F(0), F(1e-45), F(-1e-45), F(1e-38)]
    for x in xs:
        expected = np.clip(np.rint(x / scale), low, high)
        assert np.clip(np.rint(_in_two(x, factors)), low, high) == expected, (scale, x)


def test_powers_of_two_take_one() -> None:
    for exponent in (-20, -3, 0, 7):
        assert two_factors(2.0**exponent, -128, 127) == (2.0**-exponent, 0.0)


def test_what_is_not_shown_is_not_done() -> None:
    assert two_factors(0.1, -128, 127) is None  # no float32
    assert two_factors(float(F(0.1)), -(1 << 15), (1 << 15) - 1) is None  # too many steps to try
