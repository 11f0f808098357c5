"""float64 functions of the inline math library against mpmath and, where it has 64 bits of precision,
NumPy's long double.
"""

import functools

import mpmath
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math.library import emit_math

from ....support.native_code import HASWELL, MapKernel, host_has_avx2

mpmath.mp.prec = 160


@functools.cache
def _sigmoid(x):
    return 1 / (1 + mpmath.exp(-x))


# name -> (mpmath function, NumPy function)
REFERENCE = {
    "exp": (mpmath.exp, np.exp),
    "exp2": (lambda x: mpmath.power(2, x), np.exp2),
    "expm1": (mpmath.expm1, np.expm1),
    "log": (mpmath.log, np.log),
    "log2": (lambda x: mpmath.log(x, 2), np.log2),
    "log10": (mpmath.log10, np.log10),
    "log1p": (mpmath.log1p, np.log1p),
    "sqrt": (mpmath.sqrt, np.sqrt),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), lambda x: 1 / np.sqrt(x)),
    "sin": (mpmath.sin, np.sin),
    "cos": (mpmath.cos, np.cos),
    "tan": (mpmath.tan, np.tan),
    "asin": (mpmath.asin, np.arcsin),
    "acos": (mpmath.acos, np.arccos),
    "atan": (mpmath.atan, np.arctan),
    "tanh": (mpmath.tanh, np.tanh),
    "erf": (mpmath.erf, None),
    "sigmoid": (_sigmoid, lambda x: np.where(x < 0, np.exp(x) / (1 + np.exp(x)), 1 / (1 + np.exp(-x)))),
}
# Bounds a little above what a million samples showed.
ULPS = {"expm1": 1.85, "rsqrt": 1.5, "sigmoid": 1.5, "asin": 1.15, "acos": 1.15, "sqrt": 0.501, "tanh": 1.9,
        "log2": 0.82, "log10": 0.82}  # fmt: skip
POSITIVE = {"log", "log2", "log10", "sqrt", "rsqrt"}
UNIT = {"asin", "acos"}
PLAIN, HOST = frozenset[str](), host_target().features
"""Features: none that functions make use of, and those of this processor."""
both = pytest.mark.parametrize("features", [PLAIN, HOST], ids=["plain", "host"])
LONG = np.finfo(np.longdouble).nmant >= 63
TINY = 5e-324


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def samples(name: str, n: int, seed: int = 0) -> np.ndarray:
    """Points in the function's domain: its bends, all magnitudes, denormals."""
    rng = np.random.default_rng(seed)
    spread = np.ldexp(rng.uniform(0.5, 1, n), rng.integers(-1073, 1024, n))
    middle = rng.standard_normal(n) * 10.0 ** rng.uniform(-2, 3, n)
    x = np.concatenate([spread * rng.choice([-1, 1], n), middle, 1 + rng.standard_normal(n) * 0.1])
    x = np.concatenate(
        [x, [1, 0.5, 2, 709.78, -745.13, -708.5, 1023.999, -1074, 7 / 16, 39 / 16, 0.9999999999999999]]
    )
    multiples = np.arange(1, 200) * (np.pi / 2)
    x = np.concatenate(
        [x, multiples, 1e22 * multiples, rng.uniform(-6.5, 6.5, n), [6381956970095103.0 * 2.0**797]]
    )
    if name in POSITIVE:
        return np.abs(x)
    if name in UNIT:
        return x[np.abs(x) <= 1]
    return x[x > -1] if name == "log1p" else x


def ulps(got: np.ndarray, exact: list, largest: float = np.finfo(np.float64).max) -> float:
    """The largest error in units of the spacing at the exact (mpmath) values; infinity for wrong signs or
    overflow.
    """
    worst = 0.0
    for value, true in zip(got.tolist(), exact, strict=True):
        if abs(true) > largest:
            error = 0.0 if abs(value) in (np.inf, largest) else np.inf
        else:
            spacing = max(np.spacing(min(abs(float(true)), largest / 2)), TINY)
            error = float(abs(mpmath.mpf(value) - true) / spacing) if np.isfinite(value) else np.inf
        if true != 0 and value != 0 and (value < 0) != (true < 0):
            error = np.inf
        worst = max(worst, error)
    return worst


def unary(name: str, lanes: int = 8, cpu: str | None = None, features: frozenset[str] = PLAIN) -> MapKernel:
    return MapKernel(lambda fn, x: emit_math(fn, name, x), ["double"], "double", lanes, cpu, features)


@pytest.mark.one_in(12)
@both
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_within_two_ulps_of_mpmath(name, features):
    x = samples(name, 250)
    if name in ("exp", "exp2", "expm1", "sigmoid"):
        x = x[np.abs(x) < 2000]  # mpmath would compute e^(10^300)
    exact = [REFERENCE[name][0](mpmath.mpf(v)) for v in x.tolist()]
    assert ulps(unary(name, features=features)(x), exact) <= ULPS.get(name, 1.1)


@pytest.mark.one_in(8)
@both
@pytest.mark.skipif(not LONG, reason="long double has no more than 53 bits here")
@pytest.mark.parametrize("name", sorted(set(REFERENCE) - {"erf"}))
def test_many_samples_within_two_ulps(name, features):
    x = samples(name, 60_000, 1)
    exact = REFERENCE[name][1](x.astype(np.longdouble))
    got = unary(name, features=features)(x)
    inside = np.abs(exact) < np.longdouble(np.finfo(np.float64).max)
    np.testing.assert_array_equal(np.isinf(got[~inside]) | (np.abs(got[~inside]) > 1.79e308), True)
    spacing = np.maximum(np.spacing(np.abs(exact[inside]).astype(np.float64)), TINY)
    error = np.abs(got[inside].astype(np.longdouble) - exact[inside]) / spacing
    assert float(error.max()) <= ULPS.get(name, 1.1)


@both
@pytest.mark.parametrize("name", sorted(set(REFERENCE) - {"erf"}))
def test_special_values(name, features):
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e300, -1e300, 2.0, -2.0])
    expected = REFERENCE[name][1](x)
    got = unary(name, 1, features=features)(x)
    exact = [i for i, v in enumerate(expected) if v in (0, 1, -1) or not np.isfinite(v)]
    np.testing.assert_array_equal(got[exact], expected[exact])
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def test_erf_special_values():
    got = unary("erf", 1)(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 6.0, -7.0, 1e300]))
    np.testing.assert_array_equal(got, [0, 0, 1, -1, np.nan, 1, -1, 1])
    assert np.signbit(got[1])


@pytest.mark.one_in(6)
@both
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_lane_counts_agree(name, lanes, features):
    x = samples(name, 300, 2)
    np.testing.assert_array_equal(unary(name, lanes, features=features)(x), unary(name, 8, features=features)(x))


@pytest.mark.one_in(2)
@pytest.mark.skipif(not host_has_avx2(), reason="needs an x86-64 CPU with AVX2")
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_avx2_code_gives_the_same_bits(name):
    x = np.concatenate([samples(name, 300, 3), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    np.testing.assert_array_equal(unary(name, 4, HASWELL)(x), unary(name, 8)(x))


def power(lanes: int = 8) -> MapKernel:
    return MapKernel(lambda fn, x, y: emit_math(fn, "pow", x, y), ["double", "double"], "double", lanes)


def test_pow_within_two_ulps():
    rng = np.random.default_rng(5)
    n = 700
    base = np.exp(rng.uniform(-708, 708, n))
    near_one = 1 + rng.standard_normal(n) * 10.0 ** rng.uniform(-15, -1, n)
    x = np.concatenate([base, near_one, -rng.integers(1, 60, n)])
    y = [rng.uniform(-744, 709, n) / np.log(base), rng.uniform(-744, 709, n) / np.log(near_one)]
    y = np.concatenate([*y, rng.integers(-180, 170, n)])
    exact = [mpmath.power(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert ulps(power()(x, y), exact) <= 1.0


def test_pow_special_cases():
    values = [
        0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        2,
        -2,
        3,
        -3,
        np.inf,
        -np.inf,
        np.nan,
        TINY,
        -TINY,
        0.1,
        2.5,
        -2.5,
        1e300,
    ]
    values += [2.0**53, 2.0**53 - 1, 1 - 2.0**53, 2.0**51 + 0.5, -(2.0**51) - 0.5, 1 + 2.0**-52, 1 - 2.0**-53]
    x, y = (v.ravel() for v in np.meshgrid(values, values))
    got, expected = power(4)(x, y), np.power(x, y)
    np.testing.assert_allclose(got, expected, rtol=3e-16, atol=0)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def test_pow_of_integers_is_exact():
    x, y = (v.ravel().astype(np.float64) for v in np.meshgrid(np.arange(1, 400), np.arange(0, 6)))
    np.testing.assert_array_equal(power()(x, y), x**y)


def test_fmod_is_exact():
    rng = np.random.default_rng(6)
    n = 20_000
    bits = rng.integers(0, 1 << 64, (2, n), dtype=np.uint64).view(np.float64)
    special = np.array(
        [0, -0.0, 1, -1, 0.1, np.inf, -np.inf, np.nan, TINY, -TINY, 1e308, 2.0**-1022, 3e-310, 2.0**60, 7]
    )
    grid = [v.ravel() for v in np.meshgrid(special, special)]
    x = np.concatenate([rng.standard_normal(n) * 1e3, bits[0], grid[0], rng.integers(0, 50, n) * 0.1])
    y = np.concatenate([rng.standard_normal(n), bits[1], grid[1], np.full(n, 0.1)])
    for lanes in (1, 8):
        kernel = MapKernel(
            lambda fn, a, b: emit_math(fn, "fmod", a, b), ["double", "double"], "double", lanes
        )
        got, expected = kernel(x, y), np.fmod(x, y)
        np.testing.assert_array_equal(got, expected)
        number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log1p", "log2", "sin", "cos", "rsqrt", "sqrt"])
def test_the_portable_form_has_the_bits_that_all_targets_have(name):
    x = samples(name, 300, 3)
    portable = MapKernel(
        lambda fn, x: emit_math(fn, name, x, form="portable"), ["double"], "double", 8, features=HOST
    )
    np.testing.assert_array_equal(portable(x), unary(name)(x))


@both
def test_logarithms_of_powers_are_whole(features):
    two = np.arange(-1074, 1024)
    assert np.array_equal(unary("log2", features=features)(np.ldexp(1.0, two)), two)
    ten = np.arange(-307, 309)
    x = np.array([float(f"1e{n}") for n in ten])
    assert np.array_equal(unary("log10", features=features)(x), ten)


def test_powers_with_large_exponents_are_within_one_ulp():
    """Also of numbers near 1, where exponents are largest beside the logarithm: errors of 2^-62 of that are 2 ulp."""
    rng = np.random.default_rng(5)
    near = 1 + rng.uniform(-1 / 16, 1 / 16, 300)
    x = np.concatenate([near, np.exp2(rng.uniform(-20, 20, 200)), [0.968479115, 1.0594873679597554]])
    y = rng.uniform(-1000, 1000, len(x)) / np.log2(x)
    exact = [mpmath.power(mpmath.mpf(a), mpmath.mpf(b)) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    assert ulps(power()(x, y), exact) <= 1.0
