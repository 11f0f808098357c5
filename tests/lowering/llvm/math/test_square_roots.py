"""Square roots without the instruction for them: the numbers that are hard to round, and all that leave the short path."""

import math

import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math.library import emit_math

from ....support.native_code import MapKernel

FEATURES = host_target().features
TYPES = {"float": (np.float32, 24), "double": (np.float64, 53)}


def hard_numbers(precision: int, distance: int) -> list[tuple[int, int, int]]:
    """Lists (x, k, j): x 2^(1 - precision) in [1, 4), whose root is next to the middle k 2^-precision of two floats.

    In units of 2^(-2 precision) x is k² + j, and |j| < distance. Roots of k² ≡ -j modulo a power of two come from those
    modulo half of it.
    """
    found = []
    for scale in (precision + 1, precision + 2):
        for j in range(1 - distance, distance):
            roots = [k for k in (1, 3, 5, 7) if (k * k + j) % 8 == 0]
            for bits in range(4, scale + 1):
                lifted = {k + half for k in roots for half in (0, 1 << (bits - 1))}
                roots = [k for k in lifted if (k * k + j) % (1 << bits) == 0]
            for root in roots:
                for k in range(root, 2 << precision, 1 << scale):
                    x = (k * k + j) >> scale
                    if k > 1 << precision and 1 << (precision - 1) <= x < 1 << precision:
                        found.append((x << (scale - precision - 1), k, j))
    return found


def test_hard_numbers_are_found():
    hard = hard_numbers(11, 64)
    assert hard == [(x, k, j) for x, k, j in hard if (x << 12) == k * k + j and abs(j) < 64]
    expected = set()
    for x in [*range(1 << 10, 1 << 11), *range(1 << 11, 1 << 12, 2)]:
        k = 2 * math.isqrt(x << 10) + 1
        if abs((x << 12) - k * k) < 64:
            expected.add((x, k, (x << 12) - k * k))
    assert set(hard) == expected
    assert len(expected) > 20


def sqrt(element: str, lanes: int) -> MapKernel:
    return MapKernel(lambda fn, x: emit_math(fn, "sqrt", x), [element], element, lanes, features=FEATURES)


def samples(element: str) -> np.ndarray:
    """Numbers that are hard to round in every tenth binade, random bits, what leaves the short path and what is next to it."""
    dtype, precision = TYPES[element]
    largest = np.finfo(dtype).maxexp
    exponents = 2 * np.arange(-largest // 2 + 1, largest // 2, 5)[:, None]
    hard = np.array([x for x, _, _ in hard_numbers(precision, 256)], np.float64)
    bits = np.random.default_rng(0).integers(0, 1 << 32 if element == "float" else 1 << 63, 100_000)
    random = bits.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
    around = np.exp2(np.arange(-largest - precision + 4, largest)).astype(dtype)
    around = np.concatenate([np.nextafter(around, dtype(0)), around, np.nextafter(around, dtype(np.inf))])
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -1e-45], dtype)
    return np.concatenate([np.ldexp(hard, exponents + 1 - precision).reshape(-1).astype(dtype), random, around, special])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("lanes", [1, 4, 8, 16, 32])
@pytest.mark.parametrize("element", sorted(TYPES))
def test_square_roots_are_rounded_correctly(element, lanes):
    x = samples(element)
    with np.errstate(all="ignore"):
        expected = np.sqrt(x)
    found = sqrt(element, lanes)(x)
    np.testing.assert_array_equal(found, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[number]), np.signbit(expected[number]))


@pytest.mark.slow
def test_every_float():
    kernel = sqrt("float", 16)
    for start in range(0, 1 << 31, 1 << 24):
        x = np.arange(start, start + (1 << 24), dtype=np.uint32).view(np.float32)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(kernel(x), np.sqrt(x))
