"""float32 functions of the inline math library against NumPy and scipy in double precision."""

from functools import partial

import numpy as np
import pytest
from joinery.lowering.llvm import ir, values
from joinery.lowering.llvm.compile import host_target
from joinery.lowering.llvm.math.library import MATH_NAMES, SHORT_NAMES, check_target, emit_math
from joinery.lowering.llvm.math.recipes import _RECIPES, Form
from joinery.lowering.target import HostTarget
from joinery.promotion.errors import InternalError, UnsupportedError
from scipy import special

from ....support.native_code import HASWELL, MapKernel, assembly, host_has_avx2, map_module

REFERENCE = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "tanh": np.tanh,
    "erf": special.erf,
    "sigmoid": special.expit,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "abs": np.abs,
}
EXACT = {"sqrt", "floor", "ceil", "round", "trunc", "abs"}
# Bounds a little above what every 193rd bit pattern showed.
ULPS = {"sin": 1.6, "cos": 1.65, "expm1": 1.5, "rsqrt": 1.5, "sigmoid": 1.5, "tanh": 1.5, "log1p": 1.4, "erf": 1.3,
        "log10": 1.2}  # fmt: skip
HOST_ULPS = ULPS | {"log": 1.3, "log2": 1.45, "log10": 1.5}
"""The same where instructions of this processor may be used: with those of AVX-512 logarithms take tables."""

LARGEST = float(np.finfo(np.float32).max)
# From here on float32 rounding gives infinity.
OVERFLOW = LARGEST + 2.0**103


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def patterns(step: int) -> np.ndarray:
    """Every step-th float32 bit pattern: denormals, infinities and NaN among them."""
    return np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32).view(np.float32)


_ROUND_NUMBERS = [
    0.0,
    -0.0,
    np.inf,
    -np.inf,
    np.nan,
    1,
    -1,
    0.5,
    2,
    128,
    -149,
    -149.5,
    -150,
    -126.5,
    0.625,
    65536,
]
_EDGES = [
    1e-45,
    -1e-45,
    1.1754942e-38,
    1.1754944e-38,
    LARGEST,
    -LARGEST,
    88.72283,
    88.72284,
    -87.33655,
    -103.97208,
]
_ANGLES = [
    3.1415927,
    -3.1415927,
    65536.01,
    1e22,
    16367173.0 * 2.0**72,
    2.0**27,
    2.0**27 + 16,
    0.9999999,
    1.0000001,
]
SPECIALS = np.array([*_ROUND_NUMBERS, *_EDGES, *_ANGLES, -103.97209, 127.99999], np.float32)


def errors_in_ulps(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """|got - expected| in units of the float32 spacing at `expected`; infinity where a special value is
    wrong.
    """
    rounded = expected.astype(np.float32)
    spacing = np.spacing(np.minimum(np.abs(rounded), np.float32(LARGEST / 2)))
    spacing = np.where(np.abs(expected) > LARGEST / 2, np.float32(2.0**104), spacing).astype(np.float64)
    error = np.abs(got.astype(np.float64) - expected) / spacing
    same = (got == rounded) & (np.signbit(got) == np.signbit(rounded))
    overflow = np.abs(expected) >= OVERFLOW
    # Within an ulp of the overflow threshold infinity and the largest number are both acceptable.
    error = np.where(overflow, np.where(same | (np.abs(expected) < OVERFLOW + 2.0**104), 0, np.inf), error)
    error = np.where(np.isnan(expected), np.where(np.isnan(got), 0, np.inf), error)
    wrong_sign = ~np.isnan(expected) & (np.signbit(got) != np.signbit(expected))
    return np.where(wrong_sign, np.inf, np.where(np.isinf(error) & same, 0, error))


PLAIN, HOST = frozenset[str](), host_target().features
"""Features: none that functions make use of, and those of this processor."""
both = pytest.mark.parametrize("features", [PLAIN, HOST], ids=["plain", "host"])


def unary(
    name: str, lanes: int = 16, form: Form = "accurate", cpu: str | None = None, features: frozenset[str] = PLAIN
) -> MapKernel:
    return MapKernel(lambda fn, x: emit_math(fn, name, x, form=form), ["float"], "float", lanes, cpu, features)


@pytest.mark.one_in(9)
@both
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_every_float_within_two_ulps(name, features):
    x = np.concatenate([patterns(1021 * 7), SPECIALS])
    error = errors_in_ulps(unary(name, features=features)(x), REFERENCE[name](x.astype(np.float64)))
    worst = int(np.argmax(error))
    limit = 0.5001 if name in EXACT else (HOST_ULPS if features else ULPS).get(name, 1.1)
    assert error[worst] <= limit, f"{name}({x[worst]!r}) is off by {error[worst]} ulp"


@pytest.mark.one_in(12)
@both
@pytest.mark.parametrize("name", ["exp", "log", "erf", "tanh", "sigmoid", "sin", "cos", "expm1", "log2", "log10", "log1p"])
def test_dense_where_results_vary(name, features):
    """Every 193rd pattern between 2^-13 and 2^13, both signs."""
    magnitude = np.arange(0x39000000, 0x46000000, 193, dtype=np.uint32).view(np.float32)
    x = np.concatenate([magnitude, -magnitude])
    error = errors_in_ulps(unary(name, features=features)(x), REFERENCE[name](x.astype(np.float64)))
    assert error.max() <= 1.65


@both
@pytest.mark.parametrize("name", ["log", "log2", "log10", "log1p"])
def test_logarithms_next_to_1(name, features):
    """Where results vanish: every float from 1 - 2^-12 to 1 + 2^-12, and fewer to 1/2 and 2."""
    near = np.arange(0x3F800000 - (1 << 12), 0x3F800000 + (1 << 11), dtype=np.uint32)
    x = np.concatenate([near, np.arange(0x3F000000, 0x40000000, 257, dtype=np.uint32)]).view(np.float32)
    if name == "log1p":
        x = x - np.float32(1)
    error = errors_in_ulps(unary(name, features=features)(x), REFERENCE[name](x.astype(np.float64)))
    assert error.max() <= 1.5


@both
def test_logarithms_of_powers_are_whole(features):
    exponents = np.arange(-149, 128)
    two = np.ldexp(1.0, exponents).astype(np.float32)
    assert np.array_equal(unary("log2", features=features)(two), exponents)
    ten = np.array([1, 10, 100, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10], np.float32)
    assert np.array_equal(unary("log10", features=features)(ten), np.arange(11))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_large_angles(name):
    """Every exponent above the fast path's limit."""
    exponent = np.repeat(np.arange(16, 128), 400)
    mantissa = np.random.default_rng(1).uniform(1, 2, exponent.size)
    x = np.ldexp(mantissa, exponent).astype(np.float32)
    x = np.concatenate([x, -x])
    error = errors_in_ulps(unary(name)(x), REFERENCE[name](x.astype(np.float64)))
    assert error.max() <= 1.65


def test_one_large_lane_does_not_disturb_the_others():
    x = np.linspace(-3, 3, 16, dtype=np.float32)
    for name in ("sin", "cos", "tan"):
        kernel = unary(name)
        alone = kernel(x)
        mixed = x.copy()
        mixed[5] = 1e30
        together = kernel(mixed)
        assert np.array_equal(np.delete(together, 5), np.delete(alone, 5))
        assert errors_in_ulps(together[5:6], REFERENCE[name](mixed[5:6].astype(np.float64))).max() <= 1.65


@both
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_special_values(name, features):
    """Exact results where the function has one: zeros with their signs, infinities, NaN, integers."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0], np.float32)
    expected = REFERENCE[name](x.astype(np.float64)).astype(np.float32)
    got = unary(name, 1, features=features)(x)
    exact = [i for i, v in enumerate(expected) if v in (0, 1, -1) or not np.isfinite(v)]
    assert exact, name
    np.testing.assert_array_equal(got[exact], expected[exact])
    defined = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[defined]), np.signbit(expected[defined]))


@pytest.mark.one_in(6)
@both
@pytest.mark.parametrize("lanes", [1, 4, 8])
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_lane_counts_agree(name, lanes, features):
    x = np.concatenate([patterns(1 << 20), SPECIALS])
    np.testing.assert_array_equal(unary(name, lanes, features=features)(x), unary(name, features=features)(x))


@pytest.mark.one_in(2)
@pytest.mark.skipif(not host_has_avx2(), reason="needs an x86-64 CPU with AVX2")
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_avx2_code_gives_the_same_bits(name):
    x = np.concatenate([patterns(1 << 20), SPECIALS])
    np.testing.assert_array_equal(unary(name, 8, cpu=HASWELL)(x), unary(name, 16)(x))


def power(lanes: int = 16, features: frozenset[str] = PLAIN) -> MapKernel:
    return MapKernel(lambda fn, x, y: emit_math(fn, "pow", x, y), ["float"] * 2, "float", lanes, None, features)


@both
def test_pow_within_one_ulp(features):
    rng = np.random.default_rng(2)
    n = 200_000
    base = np.exp(rng.uniform(-88, 88, n))
    near_one = 1 + rng.standard_normal(n) * 10.0 ** rng.uniform(-7, -1, n)
    bits = rng.integers(0, 1 << 32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    x = np.concatenate([base, near_one, bits[0], -rng.integers(1, 60, n)]).astype(np.float32)
    y = np.concatenate(
        [rng.uniform(-105, 105, n) / np.log(base), rng.uniform(-105, 105, n) / np.log(near_one)]
    )
    y = np.concatenate([y, bits[1], rng.integers(-40, 40, n)]).astype(np.float32)
    error = errors_in_ulps(power(features=features)(x, y), np.power(x.astype(np.float64), y.astype(np.float64)))
    assert error.max() <= (0.97 if features else 0.51)  # with AVX-512 2^r is computed in float32


@both
def test_pow_special_cases(features):
    values = [0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 3, -3, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 0.1, 2.5, -2.5]
    values += [
        16777216,
        16777215,
        -16777215,
        8388607.5,
        -8388607.5,
        1.0000001,
        0.9999999,
        LARGEST,
        -LARGEST,
        1e30,
    ]
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(values, values))
    error = errors_in_ulps(power(4, features)(x, y), np.power(x.astype(np.float64), y.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= (0.97 if features else 0.51), (x[worst], y[worst])


@both
def test_pow_of_integers_is_exact(features):
    x, y = (v.ravel().astype(np.float32) for v in np.meshgrid(np.arange(1, 200), np.arange(0, 4)))
    inside = x**y < 2**24
    np.testing.assert_array_equal(power(features=features)(x[inside], y[inside]), x[inside] ** y[inside])


def test_fmod_is_exact():
    rng = np.random.default_rng(3)
    n = 100_000
    bits = rng.integers(0, 1 << 32, (2, n), dtype=np.uint64).astype(np.uint32).view(np.float32)
    grid = [v.ravel().astype(np.float32) for v in np.meshgrid(SPECIALS, SPECIALS)]
    x = np.concatenate([rng.standard_normal(n) * 100, bits[0], grid[0], rng.integers(0, 50, n)]).astype(
        np.float32
    )
    y = np.concatenate([rng.standard_normal(n), bits[1], grid[1], rng.integers(1, 9, n)]).astype(np.float32)
    kernel = MapKernel(lambda fn, a, b: emit_math(fn, "fmod", a, b), ["float", "float"], "float")
    got, expected = kernel(x, y), np.fmod(x, y)
    np.testing.assert_array_equal(got, expected)
    number = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got[number]), np.signbit(expected[number]))


def test_fma_and_copysign():
    rng = np.random.default_rng(4)
    a, b, c = (rng.standard_normal(1000).astype(np.float32) for _ in range(3))
    fused = MapKernel(lambda fn, *v: emit_math(fn, "fma", *v), ["float"] * 3, "float")(a, b, -a * b)
    exact = a.astype(np.float64) * b.astype(np.float64) + (-a * b).astype(np.float64)
    np.testing.assert_array_equal(
        fused, exact.astype(np.float32)
    )  # the rounding error of a * b: exact in double
    signed = MapKernel(lambda fn, *v: emit_math(fn, "copysign", *v), ["float"] * 2, "float")(a, c)
    np.testing.assert_array_equal(signed, np.copysign(a, c))


def test_fast_forms_keep_their_documented_errors():
    x = np.concatenate([np.linspace(-100, 100, 400_001), np.linspace(-5, 5, 400_001)]).astype(np.float32)
    wide = x.astype(np.float64)
    erf, tanh, exp, sigmoid = (unary(name, form="short")(x) for name in ("erf", "tanh", "exp", "sigmoid"))
    assert np.abs(erf - special.erf(wide)).max() <= 5e-7
    assert np.array_equal(erf[np.abs(x) > 3.73], np.sign(x[np.abs(x) > 3.73]))
    assert errors_in_ulps(tanh, np.tanh(wide)).max() <= 6
    valid = (x >= -87.33) & (x <= 88)
    assert np.abs(exp[valid] / np.exp(wide[valid]) - 1).max() <= 3e-7
    assert np.all(exp[x < -87.34] == 0)
    assert np.all(np.abs(exp[x > 88] / np.exp(88.0) - 1) <= 3e-7)
    valid = x >= -87.33
    assert np.abs(sigmoid[valid] / special.expit(wide[valid]) - 1).max() <= 6e-7
    assert np.all(sigmoid[x < -88.01] == 0)


@pytest.mark.parametrize("name", sorted(SHORT_NAMES))
def test_fast_forms_at_infinity_and_nan(name):
    got = unary(name, 4, form="short")(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], np.float32))
    limits = {"erf": (1, -1), "tanh": (1, -1), "sigmoid": (1, 0), "exp": (got[0], 0)}[name]
    assert (got[0], got[1]) == limits
    assert np.isnan(got[2])
    if name in ("erf", "tanh"):
        assert np.signbit(got[4])
        assert not np.signbit(got[3])


def library_calls(emit, cpu: str | None = None) -> list[str]:
    text = assembly(map_module(emit, ["float"], "float", 16), cpu)
    calls = [line for line in text.splitlines() if line.split()[:1] in (["callq"], ["bl"])]
    return [line for line in calls if "joinery." not in line]  # our own rare paths


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_no_library_calls_remain(name):
    for cpu in (None, HASWELL) if host_has_avx2() else (None,):
        assert not library_calls(lambda fn, x: emit_math(fn, name, x), cpu)
    assert library_calls(lambda fn, x: fn.intrinsic("exp", [x])), "the check would not see a call"


def test_misuse_is_reported():
    fn = ir.Function(ir.Module(), "f", [])
    half, x, scalar = values.V("%h", "<8 x half>"), values.V("%x", "<8 x float>"), values.V("%s", "float")
    with pytest.raises(InternalError, match="widen 16-bit floats first"):
        emit_math(fn, "exp", half)
    with pytest.raises(InternalError, match="takes 2 operands of one type"):
        emit_math(fn, "pow", x, scalar)
    with pytest.raises(InternalError, match="takes 1 operands"):
        emit_math(fn, "exp", x, x)
    with pytest.raises(UnsupportedError, match="'gamma'"):
        emit_math(fn, "gamma", x)


def test_targets_without_fma_are_refused():
    features = frozenset({"sse4.1", "fma", "f16c"})
    check_target(HostTarget("x86_64-unknown-linux-gnu", "haswell", features, 32))
    check_target(HostTarget("aarch64-unknown-linux-gnu", "neoverse-v1", frozenset(), 16))
    with pytest.raises(UnsupportedError, match="needs fma"):
        check_target(HostTarget("x86_64-unknown-linux-gnu", "ivybridge", features - {"fma"}, 32))


def test_every_name_with_float32_code_is_covered_here():
    """A name that has a recipe for doubles alone is rounded from one; the tests of its row cover it."""
    covered = set(REFERENCE) | {"pow", "fma", "copysign", "fmod"}
    assert covered <= MATH_NAMES
    assert {name for name, element, _ in _RECIPES if element == "float" and name in MATH_NAMES} <= covered


def _emit(name: str, fn: ir.Function, x: values.V) -> values.V:
    return emit_math(fn, name, x)


@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("name", ["erf", "tanh"])
def test_functions_of_pieces_meet_and_end_at_one(name, kind):
    """Where a table has another polynomial, numbers next to each other have results next to each other; none is beyond 1."""
    end = {"erf": {"float": 3.95, "double": 5.95}, "tanh": {"float": 9.02, "double": 19.1}}[name]
    dtype = np.float32 if kind == "float" else np.float64
    f = MapKernel(partial(_emit, name), [kind], kind)
    last = dtype(end[kind])
    beyond = np.array([np.nextafter(last, dtype(np.inf)), 2 * last, np.finfo(dtype).max, np.inf], dtype)
    np.testing.assert_array_equal(f(np.concatenate([beyond, -beyond])), [1] * 4 + [-1] * 4)
    steps = np.concatenate([step * np.arange(1, 33) for step in (0.125, 0.375, 289 / 1024)]).astype(dtype)
    steps = steps[steps < last]
    below, above = f(np.nextafter(steps, dtype(0))), f(np.nextafter(steps, dtype(np.inf)))
    units = 3 * np.spacing(below)  # what two results may be off by, and the slope of at most one
    assert (np.abs(above - below) <= units).all()
    assert max(below.max(), above.max()) <= 1
    tiny = np.array([0.0, -0.0, np.finfo(dtype).smallest_subnormal, -np.finfo(dtype).tiny, np.nan], dtype)
    got = f(tiny)
    expected = REFERENCE[name](tiny) if kind == "float" or name == "tanh" else special.erf(tiny)
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=0)
    np.testing.assert_array_equal(np.signbit(got[:4]), [False, True, False, True])
