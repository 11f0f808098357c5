"""Searches, counts, bits of numbers and special functions against NumPy, Python's own and mpmath."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import mpmath
import numpy as np
import pytest

from ...support.aten_calls import run, several

RANDOM = np.random.default_rng(8)
SORTED = np.sort(RANDOM.standard_normal((3, 9)).astype(np.float32), 1)
X = RANDOM.standard_normal((3, 5)).astype(np.float32)
X[0, 0], X[1, 1], X[2, 2] = SORTED[0, 4], np.inf, np.nan
N = RANDOM.integers(-40, 40, (4, 6))
M = RANDOM.integers(-40, 40, (4, 6))
FLOATS = np.array([0.0, -0.0, 1.0, -1.5, 3e-42, -1e-45, 1e38, math.inf, -math.inf, math.nan], np.float32)


@pytest.mark.parametrize("right", [False, True])
def test_rows_are_searched_each_on_its_own(right: bool) -> None:
    wanted = np.stack([np.searchsorted(row, x, "right" if right else "left") for row, x in zip(SORTED, X, strict=True)])
    wanted[2, 2] = 9  # NaN is behind everything
    np.testing.assert_array_equal(run("searchsorted.Tensor", SORTED, X, dtype=jn.int64, shape=X.shape, right=right), wanted)
    flat = np.where(np.isnan(X), 9, np.searchsorted(SORTED[1], X, "right" if right else "left"))
    for op, given in (("searchsorted.Tensor", (SORTED[1], X)), ("bucketize.Tensor", (X, SORTED[1]))):
        np.testing.assert_array_equal(run(op, *given, dtype=jn.int64, shape=X.shape, right=right), flat)


def test_a_search_takes_an_order_a_number_and_smaller_results() -> None:
    order = RANDOM.permutation(9)
    got = run("searchsorted.Tensor", SORTED[0][order], X[0], sorter=np.argsort(order), side="right", dtype=jn.int64, shape=(5,))
    np.testing.assert_array_equal(got, np.searchsorted(SORTED[0], X[0], "right"))
    got = run("bucketize.Scalar", 0.25, SORTED[0], out_int32=True, dtype=jn.int32, shape=())
    assert int(got) == np.searchsorted(SORTED[0], np.float32(0.25))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 8])
def test_rows_of_any_size_are_searched(size: int) -> None:
    rows, sought = np.arange(2 * size).reshape(2, size), np.array([[-1, 0, 3], [size, size + 1, 99]])
    wanted = np.stack([np.searchsorted(*pair) for pair in zip(rows, sought, strict=True)])
    np.testing.assert_array_equal(run("searchsorted.Tensor", rows, sought, dtype=jn.int64, shape=(2, 3)), wanted)


def test_elements_are_counted_in_intervals() -> None:
    x = RANDOM.standard_normal(500).astype(np.float32)
    for low, high in ((-1.0, 2.0), (0.0, 0.0)):
        limits = (low, high) if low != high else (x.min(), x.max())
        wanted = np.histogram(x, 7, limits)[0].astype(np.float32)
        np.testing.assert_array_equal(run("histc.default", x, 7, low, high, dtype=jn.float32, shape=(7,)), wanted)
    counts, edges = np.histogram(x, 6, (-2.0, 2.0), weights=x)
    results = [counts.astype(np.float32), edges.astype(np.float32)]
    got = several("histogram.bin_ct", x, 6, (-2.0, 2.0), x, results=results)
    np.testing.assert_allclose(got[0], results[0], rtol=1e-4)
    np.testing.assert_allclose(got[1], results[1], rtol=2e-7)
    steps = np.array([-1, 0, 0.5, 3], np.float32)
    wanted = np.histogram(x, steps, density=True)[0].astype(np.float32)
    got = several("histogram.bins_tensor", x, steps, density=True, results=[wanted, steps])
    np.testing.assert_allclose(got[0], wanted, rtol=1e-5)


def test_members_are_found() -> None:
    got = run("isin.Tensor_Tensor", N, M[0], dtype=jn.bool, shape=N.shape, invert=True)
    np.testing.assert_array_equal(got, ~np.isin(N, M[0]))


def test_positions_of_a_known_number() -> None:
    mask = N > 0
    wanted = np.full((30, 2), -7)
    wanted[: mask.sum()] = np.argwhere(mask)
    got = run("nonzero_static.default", mask, size=30, fill_value=-7, dtype=jn.int64, shape=(30, 2))
    np.testing.assert_array_equal(got, wanted)
    few = run("nonzero_static.default", mask, size=3, dtype=jn.int64, shape=(3, 2))
    np.testing.assert_array_equal(few, np.argwhere(mask)[:3])


def test_divisors_and_multiples() -> None:
    np.testing.assert_array_equal(run("gcd.default", N, M, dtype=jn.int64, shape=N.shape), np.gcd(N, M))
    np.testing.assert_array_equal(run("lcm.default", N, M, dtype=jn.int64, shape=N.shape), np.lcm(N, M))


def test_neighbours_exponents_and_signs_of_floats() -> None:
    with np.errstate(all="ignore"):
        for towards in (math.inf, -math.inf, 0.0, math.nan):
            other = np.full_like(FLOATS, towards)
            got = run("nextafter.default", FLOATS, other, dtype=jn.float32, shape=FLOATS.shape)
            np.testing.assert_array_equal(got, np.nextafter(FLOATS, other))
    mantissa, exponent = np.frexp(FLOATS)
    exponent = np.where(np.isfinite(FLOATS), exponent, 0).astype(np.int32)
    for mine, theirs in zip(several("frexp.Tensor", FLOATS, results=[mantissa, exponent]), (mantissa, exponent), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(run("signbit.default", FLOATS, dtype=jn.bool, shape=FLOATS.shape), np.signbit(FLOATS))
    got = run("ldexp.Tensor", FLOATS[:4], np.array([3, 2, -1, 5]), dtype=jn.float32, shape=(4,))
    np.testing.assert_array_equal(got, np.ldexp(FLOATS[:4], [3, 2, -1, 5]))


def test_the_larger_one_is_never_nan() -> None:
    other = np.roll(FLOATS, 3)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run("fmax.default", FLOATS, other, dtype=jn.float32, shape=(10,)), np.fmax(FLOATS, other))
        np.testing.assert_array_equal(run("fmin.default", FLOATS, other, dtype=jn.float32, shape=(10,)), np.fmin(FLOATS, other))


def test_diagonals_are_replaced_and_triangles_listed() -> None:
    wanted = M.copy()
    np.fill_diagonal(wanted[:, 1:], [1, 2, 3, 4])
    source = np.array([1, 2, 3, 4])
    np.testing.assert_array_equal(run("diagonal_scatter.default", M, source, 1, dtype=jn.int64, shape=M.shape), wanted)
    wanted = np.stack(np.tril_indices(4, -1, 6))
    np.testing.assert_array_equal(run("tril_indices.default", 4, 6, -1, dtype=jn.int64, shape=wanted.shape), wanted)


# -- special functions -------------------------------------------------------------------------------------------------

POINTS = np.array([1e-10, 0.01, 0.3, 0.5, 0.97, 1.3, 1.5, 2.4, 7.99, 8.0, 8.3, 10.2, 25.0])
POINTS = np.concatenate([POINTS, 0.003 - POINTS])


def _log_gamma(x: Any) -> Any:
    return mpmath.log(abs(mpmath.gamma(x)))


SPECIAL: dict[str, Callable[[Any], Any]] = {
    "lgamma": _log_gamma, "digamma": mpmath.digamma, "i0": lambda x: mpmath.besseli(0, x),
    "special_i1": lambda x: mpmath.besseli(1, x), "special_i0e": lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)),
    "special_i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "special_erfcx": lambda x: mpmath.erfc(x) * mpmath.exp(x * x),
}  # fmt: skip


def assert_close_to(op: str, function: Callable[[Any], Any], points: np.ndarray, *given: Any) -> None:
    with mpmath.workdps(40):
        wanted = np.array([float(function(mpmath.mpf(float(x)))) for x in points])
    got = run(op, *given, points, dtype=jn.float64, shape=points.shape)
    np.testing.assert_allclose(got, wanted, rtol=2e-14, atol=4e-15)
    half = run(op, *given, points.astype(np.float32), dtype=jn.float32, shape=points.shape)
    assert half.dtype == np.float32


@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_have_the_digits_of_float64(name: str) -> None:
    assert_close_to(f"{name}.default", SPECIAL[name], POINTS)


def test_the_derivative_of_digamma() -> None:
    assert_close_to("polygamma.default", lambda x: mpmath.psi(1, x), POINTS, 1)


@pytest.mark.parametrize("order", [2, 3, 7, 40])
def test_higher_derivatives_of_digamma(order: int) -> None:
    with mpmath.workdps(40):
        wanted = np.array([float(mpmath.psi(order, mpmath.mpf(float(x)))) for x in POINTS])
    got = run("polygamma.default", order, POINTS, dtype=jn.float64, shape=POINTS.shape)
    np.testing.assert_allclose(got, wanted, rtol=1e-13)
    poles = np.array([0.0, -0.0, -3.0, math.inf, math.nan])
    ends = run("polygamma.default", order, poles, dtype=jn.float64, shape=(5,))
    sign = 1 if order % 2 else -1
    np.testing.assert_array_equal(ends, [sign * math.inf] * 3 + [0.0, math.nan])


def test_derivatives_of_digamma_beyond_float64_are_refused() -> None:
    with pytest.raises(jn.UnsupportedError, match="the derivative 101 of the digamma function"):
        run("polygamma.default", 101, POINTS, dtype=jn.float64, shape=POINTS.shape)


def test_inverses_of_error_functions() -> None:
    inside = np.array([1e-20, 1e-5, 0.2, 0.49, 0.51, 0.9, 0.999999, -0.3, -0.99])
    assert_close_to("erfinv.default", mpmath.erfinv, inside)
    shares = np.array([1e-12, 1e-4, 0.3, 0.5, 0.8, 0.99999])
    assert_close_to("special_ndtri.default", lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), shares)


@pytest.mark.parametrize(("name", "points", "wanted"), [
    ("lgamma", (0.0, -3.0, math.inf, -math.inf, 1.0), (math.inf,) * 4 + (0.0,)),
    ("digamma", (0.0, -0.0, -2.0, math.inf), (-math.inf, math.inf, math.nan, math.inf)),
    ("erfinv", (1.0, -1.0, 0.0, 1.5), (math.inf, -math.inf, 0.0, math.nan)),
    ("special_ndtri", (0.0, 1.0, -0.1), (-math.inf, math.inf, math.nan)),
    ("i0", (0.0, math.inf, -math.inf, math.nan), (1.0, math.inf, math.inf, math.nan)),
    ("special_i1", (0.0, math.inf, -math.inf), (0.0, math.inf, -math.inf)),
    ("special_erfcx", (math.inf, -math.inf, 0.0), (0.0, math.inf, 1.0)),
])  # fmt: skip
def test_special_functions_at_their_ends(name: str, points: tuple[float, ...], wanted: tuple[float, ...]) -> None:
    got = run(f"{name}.default", np.array(points), dtype=jn.float64, shape=(len(points),))
    np.testing.assert_allclose(got, wanted, atol=1e-15)
