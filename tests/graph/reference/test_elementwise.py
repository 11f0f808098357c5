"""Map rows of the reference evaluator against Python integers, mpmath, scipy and NumPy's own float16/32."""

import itertools
import math
import warnings
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery.graph.reference.evaluate import REFERENCE, BoundSymbol
from joinery.promotion import DType

from ...support.tiers import examples

INTEGERS = [DType(f"{sign}int{width}") for sign in ("", "u") for width in (8, 16, 32, 64)]
FLOATS = [DType(name) for name in ("float16", "bfloat16", "float32", "tensor_float32", "float64")]
HALVES = [DType("float16"), DType("bfloat16")]


def run(op, *arrays, dtype=None, source=None, **attrs):
    """Evaluate one row. `source`: dtype of the operands (default: their NumPy dtype); `dtype`: result's."""
    arrays = [np.asarray(a) for a in arrays]
    sources = [DType(source) if source else DType.from_numpy(a.dtype) for a in arrays]
    result = DType(dtype) if dtype else sources[0]
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    inputs = tuple(BoundSymbol("input", d, a.shape) for d, a in zip(sources, arrays, strict=True))
    value = REFERENCE[op](BoundSymbol(op, result, shape, inputs, attrs), *arrays)
    assert value.dtype == result.numpy
    assert value.shape == shape
    return value


def same(actual, expected):
    """Equal as values with signs of zero; NaN equals NaN."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    wide_actual, wide_expected = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(wide_actual, wide_expected)
    numbers = ~np.isnan(wide_actual)
    np.testing.assert_array_equal(np.signbit(wide_actual)[numbers], np.signbit(wide_expected)[numbers])


def wrap(value, dtype):
    value %= 2**dtype.bits
    return value - 2**dtype.bits if dtype.kind == "int" and value >= 2 ** (dtype.bits - 1) else value


def interesting(dtype):
    low, high = dtype.min_value, dtype.max_value
    values = {low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 8, 100}
    if dtype.kind == "int":
        values |= {-1, -2, -3, -5, -7, -8, -100}
    return sorted(values)


def truncated(a, b):
    quotient = abs(a) // abs(b)
    return -quotient if (a < 0) != (b < 0) else quotient


INTEGER_OPS = {
    "add": lambda a, b, d: a + b,
    "sub": lambda a, b, d: a - b,
    "mul": lambda a, b, d: a * b,
    "floor_div": lambda a, b, d: a // b if b else 0,
    "mod": lambda a, b, d: a % b if b else a,
    "trunc_div": lambda a, b, d: truncated(a, b) if b else 0,
    "rem": lambda a, b, d: a - truncated(a, b) * b if b else a,
    "minimum": lambda a, b, d: min(a, b),
    "maximum": lambda a, b, d: max(a, b),
    "bitwise_and": lambda a, b, d: a & b,
    "bitwise_or": lambda a, b, d: a | b,
    "bitwise_xor": lambda a, b, d: a ^ b,
    "shift_left": lambda a, b, d: a << b if 0 <= b < d.bits else 0,
    "shift_right": lambda a, b, d: a >> b if 0 <= b < d.bits else -(a < 0),
    "pow": lambda a, b, d: pow(a, b, 2**d.bits) if b >= 0 else truncated(1, a**-b) if a else 0,
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", INTEGER_OPS)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_binary_ops_against_python(op, dtype):
    """Exhaustive over int8/uint8 pairs; corner values for wider types."""
    if op == "pow":
        values = [v for v in interesting(dtype) if abs(v) <= 200]
    elif dtype.bits == 8:
        values = range(dtype.min_value, dtype.max_value + 1, 3 if op != "floor_div" else 1)
        values = sorted({*values, *interesting(dtype)})
    else:
        values = interesting(dtype)
    pairs = list(itertools.product(values, repeat=2))
    a, b = (np.array(column, dtype.numpy) for column in zip(*pairs, strict=True))
    expected = [wrap(INTEGER_OPS[op](x, y, dtype), dtype) for x, y in pairs]
    assert run(op, a, b).tolist() == expected


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_division_identities(dtype):
    values = interesting(dtype)
    a, b = (np.array(c, dtype.numpy) for c in zip(*itertools.product(values, repeat=2), strict=True))
    for quotient, remainder in (("floor_div", "mod"), ("trunc_div", "rem")):
        rebuilt = run("add", run("mul", run(quotient, a, b), b), run(remainder, a, b))
        np.testing.assert_array_equal(rebuilt, a)


def test_division_traps():
    assert run("floor_div", np.int32(-7), np.int32(2)) == -4
    assert run("mod", np.int32(-7), np.int32(2)) == 1
    assert run("floor_div", np.int32(8), np.int32(-3)) == -3
    assert run("trunc_div", np.int32(-7), np.int32(2)) == -3
    assert run("rem", np.int32(-7), np.int32(2)) == -1
    assert run("trunc_div", np.int32(8), np.int32(-3)) == -2
    ceil = run("negate", run("floor_div", run("negate", np.int32(-36)), np.int32(5)))
    assert ceil == -7
    for bits in (8, 16, 32, 64):
        lowest = np.array(-(2 ** (bits - 1)), f"int{bits}")
        minus = np.array(-1, f"int{bits}")
        for op, expected in (("floor_div", lowest), ("trunc_div", lowest), ("mod", 0), ("rem", 0)):
            assert run(op, lowest, minus) == expected
        assert run("negate", lowest) == lowest
        assert run("abs", lowest) == lowest


def test_uint64_arithmetic_is_exact_above_two_to_53():
    assert int(run("add", np.uint64(1400000002000000600), np.uint64(1))) == 1400000002000000601
    assert run("less", np.int64(2**31), np.int64(0), dtype="bool") == np.False_


@pytest.mark.parametrize("op", ["add", "sub", "mul", "minimum", "maximum", "floor_div", "pow"])
def test_bool_arithmetic_is_integer_arithmetic_made_bool(op):
    for a, b in itertools.product([False, True], repeat=2):
        expected = bool(INTEGER_OPS[op](int(a), int(b), DType("int64")))
        assert run(op, np.array(a), np.array(b)) == expected


def test_shifts_of_bool_and_past_the_width():
    assert run("shift_left", np.True_, np.False_) == np.True_
    assert run("shift_left", np.True_, np.True_) == np.False_
    assert run("shift_left", np.int32(1), np.int32(32)) == 0
    assert run("shift_left", np.int32(1), np.int32(-1)) == 0
    assert run("shift_left", np.int32(1), np.int32(31)) == -(2**31)
    assert run("shift_right", np.int8(-5), np.int8(100)) == -1
    assert run("shift_right", np.int8(-5), np.int8(-1)) == -1
    assert run("shift_right", np.uint64(2**63), np.uint64(2**63 + 5)) == 0


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_unary_ops(dtype):
    values = interesting(dtype)
    array = np.array(values, dtype.numpy)
    assert run("negate", array).tolist() == [wrap(-v, dtype) for v in values]
    assert run("abs", array).tolist() == [wrap(abs(v), dtype) for v in values]
    assert run("sign", array).tolist() == [(v > 0) - (v < 0) for v in values]
    assert run("bitwise_not", array).tolist() == [wrap(~v, dtype) for v in values]
    assert run("relu", array).tolist() == [max(v, 0) for v in values]
    for op in ("floor", "ceil", "round", "trunc"):
        assert run(op, array).tolist() == values
    assert not run("is_nan", array, dtype="bool").any()


COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("op", COMPARISONS)
def test_comparisons(op):
    python = dict(
        zip(COMPARISONS, ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"), strict=True)
    )[op]
    values = [-math.inf, -1.5, -0.0, 0.0, 2.0, math.inf, math.nan]
    for dtype in FLOATS:
        pairs = list(itertools.product(values, repeat=2))
        a, b = (np.array(c).astype(dtype.numpy) for c in zip(*pairs, strict=True))
        result = run(op, a, b, dtype="bool")
        assert result.tolist() == [getattr(x, python)(y) for x, y in pairs]
    big = np.array([2**63, 2**63 + 1], np.uint64)
    assert run(op, big[:1], big[1:], dtype="bool")[0] == getattr(2**63, python)(2**63 + 1)


def test_logic_and_where():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    assert run("logical_and", a, b).tolist() == [True, False, False, False]
    assert run("logical_or", a, b).tolist() == [True, True, True, False]
    assert run("logical_xor", a, b).tolist() == [False, True, True, False]
    assert run("logical_not", a).tolist() == [False, False, True, True]
    picked = run("where", a, np.float32([[1], [np.nan]]), np.float32(-0.0), dtype="float32")
    same(picked, [[1, 1, -0.0, -0.0], [np.nan, np.nan, -0.0, -0.0]])


def every_half(dtype):
    return np.arange(2**16, dtype=np.uint16).view(dtype.numpy)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_float_arithmetic_rounds_the_exact_value_once(op, dtype):
    """Exact rationals, rounded to nearest even by counting the neighbours in the dtype."""
    generator = np.random.default_rng(3)
    if dtype.bits == 16:
        a, b = (generator.choice(every_half(dtype), 400) for _ in range(2))
    else:
        bits = {32: np.uint32, 64: np.uint64}[dtype.bits]
        a, b = (generator.integers(0, 2**dtype.bits, 400, bits, False).view(dtype.numpy) for _ in range(2))
        if dtype.name == "tensor_float32":
            a, b = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, b))
    with np.errstate(all="ignore"):
        usable = (
            np.isfinite(a.astype(np.float64))
            & np.isfinite(b.astype(np.float64))
            & (b.astype(np.float64) != 0)
        )
    a, b = a[usable], b[usable]
    result = run(op, a, b, source=dtype.name, dtype=dtype.name)
    exactly = {"add": Fraction.__add__, "sub": Fraction.__sub__, "mul": Fraction.__mul__}
    for x, y, z in zip(a, b, result, strict=True):
        fx, fy = Fraction(float(x)), Fraction(float(y))
        exact = fx / fy if op == "div" else exactly[op](fx, fy)
        assert_nearest(exact, float(z), dtype, slack=2**-12 if op == "div" and dtype.bits == 16 else 0)
    assert len(result) > 150


def assert_nearest(exact, value, dtype, slack=0):
    """`value` is a value of dtype, at most half a unit in the last place (plus slack) away from `exact`."""
    if not math.isfinite(value):
        half = Fraction(2) ** (math.frexp(dtype.max_value)[1] - 2 - dtype.mantissa_bits)
        assert abs(exact) >= Fraction(dtype.max_value) + half * (1 - slack)
        return
    exponent = max(math.frexp(value)[1] - 1, dtype.min_exponent) if value else dtype.min_exponent
    unit = Fraction(2) ** (exponent - dtype.mantissa_bits)
    assert (Fraction(value) / unit).denominator == 1, "not a value of the dtype"
    assert abs(exact - Fraction(value)) <= unit * (Fraction(1, 2) + Fraction(slack))


@pytest.mark.parametrize("op", ["add", "mul"])
def test_half_arithmetic_is_numpy_float16(op):
    a, b = (np.random.default_rng(seed).choice(every_half(HALVES[0]), 20000) for seed in (1, 2))
    with np.errstate(all="ignore"):
        expected = a + b if op == "add" else a * b
    np.testing.assert_array_equal(run(op, a, b), expected)


def test_float_specials():
    f32 = np.float32
    same(run("div", f32([1, -1, 0, 1]), f32([0.0, 0.0, 0, -0.0])), [np.inf, -np.inf, np.nan, -np.inf])
    same(run("add", f32(-0.0), f32(0.0)), 0.0)
    same(run("add", f32(-0.0), f32(-0.0)), -0.0)
    same(run("sub", f32(0.0), f32(0.0)), 0.0)
    same(run("negate", f32([0.0, -0.0, np.inf])), [-0.0, 0.0, -np.inf])
    same(run("mul", f32(1e-30), f32(1e-10)), f32(1e-40))  # denormals are kept
    tiny = np.array(1, np.uint32).view(f32)
    same(run("add", tiny, f32(0)), tiny)


def test_bfloat16_product_and_sum_round_separately():
    bf16 = ml_dtypes.bfloat16
    x, y, z = bf16(1.0078125), bf16(1.0078125), bf16(-1.015625)
    product = run("mul", x, y)
    assert float(product) == 1.015625  # the exact product is 1.01568603515625
    assert float(run("add", product, z)) == 0.0


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_maximum_and_minimum_of_floats(dtype):
    values = np.array([-np.inf, -2.0, -0.0, 0.0, 1.0, np.inf, np.nan])
    for x, y in itertools.product(values, repeat=2):
        a, b = np.array(x).astype(dtype.numpy), np.array(y).astype(dtype.numpy)
        for op, key in (("maximum", 1), ("minimum", -1)):
            if math.isnan(x) or math.isnan(y):
                expected = math.nan
            else:
                expected = max((x, y), key=lambda v, k=key: (k * v, k * math.copysign(1, v)))
            same(run(op, a, b, source=dtype.name, dtype=dtype.name), expected)


def test_sign_abs_relu_keep_their_promises():
    f32 = np.float32
    values = f32([-np.inf, -3, -0.0, 0.0, 2, np.inf, np.nan])
    same(run("sign", values), [-1, -1, -0.0, 0.0, 1, 1, np.nan])
    same(run("abs", values), [np.inf, 3, 0.0, 0.0, 2, np.inf, np.nan])
    same(run("relu", values), [0, 0, 0.0, 0.0, 2, np.inf, np.nan])
    assert run("is_nan", values, dtype="bool").tolist() == [False] * 6 + [True]


def test_rounding_to_integers():
    values = np.float32([-2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 1e30, np.inf, np.nan])
    same(run("round", values), [-2, -2, -0.0, -0.0, 0, 2, 2, np.float32(1e30), np.inf, np.nan])
    same(run("floor", values), [-3, -2, -1, -0.0, 0, 1, 2, np.float32(1e30), np.inf, np.nan])
    same(run("ceil", values), [-2, -1, -0.0, -0.0, 1, 2, 3, np.float32(1e30), np.inf, np.nan])
    same(run("trunc", values), [-2, -1, -0.0, -0.0, 0, 1, 2, np.float32(1e30), np.inf, np.nan])
    same(run("round", ml_dtypes.bfloat16(2.5)), 2.0)


@settings(max_examples=examples(300))
@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_float_division_family_is_pythons(a, b):
    x, y = np.float64(a), np.float64(b)
    if b == 0:
        assert np.isnan(run("mod", x, y))
        assert np.isnan(run("rem", x, y))
        with np.errstate(all="ignore"):
            same(run("floor_div", x, y), np.divide(x, y))
            same(run("trunc_div", x, y), np.divide(x, y))
        return
    same(run("mod", x, y), a % b)
    same(run("rem", x, y), math.fmod(a, b))
    if math.isfinite(a / b):
        assert run("floor_div", x, y) == a // b
        exact = math.trunc(Fraction(a) / Fraction(b))
        assert float(run("trunc_div", x, y)) == pytest.approx(float(exact), rel=1e-15, abs=0)


def test_float_division_family_specials():
    f64 = np.float64
    assert run("floor_div", f64(1.0), f64(0.1)) == 9.0
    assert run("trunc_div", f64(1.0), f64(0.1)) == 9.0
    assert run("trunc_div", f64(-1.0), f64(0.1)) == -9.0
    same(
        run("trunc_div", f64([-1.0, 1.0, np.inf, np.nan]), f64([3.0, -np.inf, 2.0, 1.0])),
        [-0.0, -0.0, np.inf, np.nan],
    )
    same(run("mod", f64(-5.0), f64(np.inf)), np.inf)
    same(run("rem", f64(-5.0), f64(np.inf)), -5.0)
    assert float(run("floor_div", np.float16(-7), np.float16(2))) == -4
    assert float(run("mod", ml_dtypes.bfloat16(-7), ml_dtypes.bfloat16(2))) == 1


ELEMENTARY = {
    "sqrt": (mpmath.sqrt, 0, 1e30),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), 1e-30, 1e30),
    "exp": (mpmath.exp, -100, 88),
    "exp2": (lambda x: mpmath.power(2, x), -140, 127),
    "expm1": (mpmath.expm1, -20, 80),
    "log": (mpmath.log, 1e-38, 1e38),
    "log2": (lambda x: mpmath.log(x, 2), 1e-38, 1e38),
    "log10": (mpmath.log10, 1e-38, 1e38),
    "log1p": (mpmath.log1p, -0.99, 1e5),
    "sin": (mpmath.sin, -1e4, 1e4),
    "cos": (mpmath.cos, -1e4, 1e4),
    "asin": (mpmath.asin, -1, 1),
    "acos": (mpmath.acos, -1, 1),
    "atan": (mpmath.atan, -100, 100),
    "tanh": (mpmath.tanh, -10, 10),
    "erf": (mpmath.erf, -5, 5),
    "sigmoid": (lambda x: 1 / (1 + mpmath.exp(-x)), -80, 80),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("op", ELEMENTARY)
def test_elementary_functions_against_mpmath(op):
    """float32 within 0.501 ulp, float16/bfloat16 within 0.51, float64 within 4."""
    exact, low, high = ELEMENTARY[op]
    generator = np.random.default_rng(5)
    points = generator.uniform(low, high, 60)
    if low > 0:
        points = np.exp(generator.uniform(math.log(low), math.log(high), 60))
    points = np.concatenate([points, [low, high], points[:20] * 1e-3 if low <= 0 else points[:20]])
    points = np.clip(points, low, high)
    mpmath.mp.prec = 200
    for dtype, tolerance in (("float32", 0.501), ("float64", 4), ("float16", 0.51), ("bfloat16", 0.51)):
        d = DType(dtype)
        with np.errstate(all="ignore"):
            values = points.astype(np.float32).astype(d.numpy)
        wide = values.astype(np.float64)
        kept = np.isfinite(wide) & (wide >= low) & (wide <= high)
        for x, y in zip(wide[kept], run(op, values[kept]), strict=True):
            truth = exact(mpmath.mpf(float(x)))
            if abs(truth) >= d.max_value:
                continue
            magnitude = mpmath.frexp(truth)[1] - 1 if truth else d.min_exponent
            unit = mpmath.mpf(2) ** (max(magnitude, d.min_exponent) - d.mantissa_bits)
            assert abs(mpmath.mpf(float(y)) - truth) <= tolerance * unit, (dtype, x, y)


def test_elementary_specials():
    f32 = np.float32
    inf, nan = np.inf, np.nan
    same(run("exp", f32([-inf, inf, 1000, -1000, nan])), [0, inf, inf, 0, nan])
    same(run("log", f32([0, -0.0, -1, inf])), [-inf, -inf, nan, inf])
    same(run("sqrt", f32([-0.0, -1, inf])), [-0.0, nan, inf])
    same(run("rsqrt", f32([0.0, -0.0, inf, -1])), [inf, -inf, 0, nan])
    same(run("log1p", f32([-1, -0.0, -2])), [-inf, -0.0, nan])
    same(run("expm1", f32([-inf, -0.0])), [-1, -0.0])
    same(run("erf", f32([-inf, -0.0, inf, nan])), [-1, -0.0, 1, nan])
    same(run("tanh", f32([-inf, -0.0, inf])), [-1, -0.0, 1])
    same(run("sigmoid", f32([-inf, 0, inf, -1000, nan])), [0, 0.5, 1, 0, nan])
    same(run("sin", f32([-0.0, inf])), [-0.0, nan])
    same(run("asin", f32([2])), [nan])
    assert run("erf", np.zeros((0, 3), f32)).shape == (0, 3)
    x = np.linspace(-4, 4, 101)
    np.testing.assert_allclose(run("erf", x), scipy.special.erf(x), rtol=1e-15)


def test_exp_of_a_cancelling_product_is_one():
    x, s = np.float32(3.0e38), np.float32(0.999)
    product = run("mul", x, s)
    assert run("exp", run("sub", product, product)) == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_pow(dtype):
    inf, nan = np.inf, np.nan
    cases = [(2, 10, 1024), (0, 0, 1), (nan, 0, 1), (1, nan, 1), (-2, 3, -8), (-2, 0.5, nan), (0, -1, inf)]
    cases += [(-0.0, -1, -inf), (inf, -1, 0), (-inf, 3, -inf), (4, 0.5, 2)]
    for base, exponent, expected in cases:
        a, b = (np.array(v, np.float64).astype(dtype.numpy) for v in (base, exponent))
        same(run("pow", a, b, source=dtype.name, dtype=dtype.name), expected)


def test_tensor_float32_rounds_after_every_op():
    def tf32(value):
        """Round to 11 significant bits with exact rationals."""
        if value == 0:
            return 0.0
        unit = Fraction(2) ** (math.frexp(float(value))[1] - 11)
        return float(round(Fraction(value) / unit) * unit)

    generator = np.random.default_rng(11)
    a = np.array([tf32(float(v)) for v in generator.normal(size=200)], np.float32)
    b = np.array([tf32(float(v)) for v in generator.normal(size=200)], np.float32)
    added = run("add", a, b, source="tensor_float32", dtype="tensor_float32")
    multiplied = run("mul", a, b, source="tensor_float32", dtype="tensor_float32")
    for x, y, total, product in zip(a, b, added, multiplied, strict=True):
        # float32 rounding first, as the hardware-independent definition says
        assert float(total) == tf32(float(np.float32(Fraction(float(x)) + Fraction(float(y)))))
        assert float(product) == tf32(float(x) * float(y))
    assert not (added.view(np.uint32) & np.uint32(0x1FFF)).any()
    top = np.array(DType("float32").max_value, np.float32)
    assert np.isinf(run("cast", top, source="float32", dtype="tensor_float32"))


def test_no_warning_leaks():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("div", np.float32([1, 0]), np.float32([0, 0]))
        run("log", np.float32([-1, 0]))
        run("floor_div", np.int32([1]), np.int32([0]))
        run("add", np.int8(127), np.int8(127))
        run("add", np.uint8(200), np.uint8(128))
        run("cast", np.float32([1e30, np.nan]), dtype="int8")
        run("cast", np.float32([1e30]), dtype="bfloat16")
        run("cast", np.float32([1e30]), dtype="float16")
        run("mul", np.float16([65504]), np.float16([2]))
        run("cast", np.float32([1e30]), dtype="float8_e4m3fn")
    assert run("add", np.uint8(200), np.uint8(128)) == 72
