"""Literals of floats: each is the number nearest to the one that it was made of, rounded once."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from joinery.lowering.llvm.values import ConstantFloat, const

BFLOAT_MAX = 0x7F7F


def bfloat(bits: int) -> float:
    """The number of a bfloat16."""
    return float(struct.unpack("<f", struct.pack("<I", bits << 16))[0])


def nearest_bfloat(value: float) -> int:
    """The bits of the bfloat16 nearest to a finite number, by exact arithmetic; ties go to even bits."""
    exact, sign = Fraction(abs(value)), 0x8000 if math.copysign(1, value) < 0 else 0
    low, high = 0, BFLOAT_MAX + 1  # as many: infinity, which stands for the number that would follow
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(bfloat(middle)) <= exact else (low, middle)
    above = Fraction(2) ** 128 if high > BFLOAT_MAX else Fraction(bfloat(high))
    below = exact - Fraction(bfloat(low))
    up = below > above - exact or (below == above - exact and low & 1)
    return sign | (high if up else low)


def samples() -> Iterator[float]:
    """Numbers of all sizes; ties between two bfloat16s, and the float64s and float32s beside them."""
    random_ = random.Random(3)
    for _ in range(2000):
        yield struct.unpack("<d", struct.pack("<Q", random_.getrandbits(64)))[0]
    for bits in [0, 1, 2, 0x7F, 0x80, 0x81, BFLOAT_MAX - 1, BFLOAT_MAX, *random_.sample(range(BFLOAT_MAX), 500)]:
        tie = (bfloat(bits) + (2.0**128 if bits == BFLOAT_MAX else bfloat(bits + 1))) / 2
        beside = (math.nextafter(tie, 0), math.nextafter(tie, math.inf), tie * (1 - 2**-25), tie * (1 + 2**-25))
        for value in (bfloat(bits), tie, *beside):
            yield value
            yield -value
    yield from (1e39, -1e39, 1.7e308, 5e-324)


def test_bfloats_are_rounded_once() -> None:
    for value in samples():
        if not math.isfinite(value):
            continue
        constant, bits = const(value, "bfloat"), nearest_bfloat(value)
        assert isinstance(constant, ConstantFloat)
        assert constant.operand() == f"0xR{bits:04X}", value
        assert constant.number == bfloat(bits)


@pytest.mark.parametrize(("type_", "dtype"), [("half", np.float16), ("float", np.float32)])
def test_other_floats_are_numpys(type_: str, dtype: type[np.floating]) -> None:
    for value in samples():
        if not math.isfinite(value):
            continue
        constant = const(value, type_)
        assert isinstance(constant, ConstantFloat)
        with np.errstate(over="ignore"):
            assert constant.number == float(dtype(value)), value


@pytest.mark.parametrize("type_", ["half", "bfloat", "float", "double"])
def test_infinities_and_nan(type_: str) -> None:
    for value in (math.inf, -math.inf, math.nan):
        constant = const(value, type_)
        assert isinstance(constant, ConstantFloat)
        assert constant.number == value or (math.isnan(constant.number) and math.isnan(value))
