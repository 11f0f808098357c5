"""The interpreter's arithmetic against independent witnesses: Python integers, Fraction, ml_dtypes, mpmath."""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import mpmath
import numpy as np
import pytest
from joinery.lowering.tt.builder.block_builder import BlockBuilder
from joinery.lowering.tt.dialect.attributes import ROUNDING_MODES, enum_attr
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.numerics import fused_multiply_add, round_to_odd_float32, round_to_tf32
from joinery.lowering.tt.types import I1, ptr, scalar_type, tensor

RNG = np.random.default_rng(11)
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FLOATS = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
WITH_F8 = {**FLOATS, "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2}


def run(emit, result: str, result_dtype, *operands: tuple[str, np.ndarray]) -> np.ndarray:
    """Load blocks, apply `emit(builder, *blocks)`, store the block of type `result`."""
    n = len(operands[0][1])
    params = [(f"x{index}", ptr(elem)) for index, (elem, _) in enumerate(operands)]
    stored = "i8" if result == "i1" else result
    b = BlockBuilder.function("f", [*params, ("o", ptr(stored))])
    offsets = b.arange(n)
    blocks = [b.load(b.addptr(b.splat(p, (n,)), offsets)) for p in b.args[:-1]]
    value = emit(b, *blocks)
    if result == "i1":
        value = b.cast("arith.extui", value, "i8")
    b.store(b.addptr(b.splat(b.args[-1], (n,)), offsets), value)
    out = np.zeros(n, np.uint8 if result == "i1" else result_dtype)
    interpret(b.finish(), 1, [*(array for _, array in operands), out])
    return out


def wrap(value: int, width: int) -> int:
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def quotient(x: int, y: int) -> int:
    return 0 if y == 0 else int(Fraction(x, y))  # int() truncates


def shift_amount(y: int, width: int) -> int:
    return y & ((1 << width) - 1)


INTEGER_MEANING = {
    "arith.addi": lambda x, y, w: x + y,
    "arith.subi": lambda x, y, w: x - y,
    "arith.muli": lambda x, y, w: x * y,
    "arith.andi": lambda x, y, w: x & y,
    "arith.ori": lambda x, y, w: x | y,
    "arith.xori": lambda x, y, w: x ^ y,
    "arith.divsi": lambda x, y, w: quotient(x, y),
    "arith.remsi": lambda x, y, w: x - quotient(x, y) * y,
    "arith.maxsi": lambda x, y, w: max(x, y),
    "arith.minsi": lambda x, y, w: min(x, y),
    "arith.shrsi": lambda x, y, w: x >> min(shift_amount(y, w), w - 1),
    "arith.shli": lambda x, y, w: x << shift_amount(y, w) if shift_amount(y, w) < w else 0,
}
UNSIGNED_MEANING = {
    "arith.divui": lambda x, y, w: 0 if y == 0 else x // y,
    "arith.remui": lambda x, y, w: x if y == 0 else x % y,
    "arith.maxui": lambda x, y, w: max(x, y),
    "arith.minui": lambda x, y, w: min(x, y),
    "arith.shrui": lambda x, y, w: x >> y if y < w else 0,
    "tt.mulhiui": lambda x, y, w: (x * y) >> w,
}


def integer_samples(dtype) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    special = [0, 1, -1, 2, 7, info.min, info.min + 1, info.max, info.bits - 1, info.bits, 3]
    pairs = [(x, y) for x in special for y in special]
    x, y = (np.array(values, dtype) for values in zip(*pairs, strict=True))
    more = RNG.integers(info.min, info.max, (2, 128 - len(pairs)), dtype=dtype, endpoint=True)
    return np.concatenate([x, more[0]]), np.concatenate([y, more[1]])


@pytest.mark.parametrize("elem", INTEGERS)
@pytest.mark.parametrize("name", [*INTEGER_MEANING, *UNSIGNED_MEANING])
def test_integer_operations(name: str, elem: str) -> None:
    dtype = INTEGERS[elem]
    width = np.iinfo(dtype).bits
    x, y = integer_samples(dtype)
    found = run(lambda b, x, y: b.binary(name, x, y), elem, dtype, (elem, x), (elem, y))
    if name in INTEGER_MEANING:
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        expected = [wrap(INTEGER_MEANING[name](a, c, width), width) for a, c in pairs]
    else:
        mask = (1 << width) - 1
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        expected = [wrap(UNSIGNED_MEANING[name](a & mask, c & mask, width), width) for a, c in pairs]
    assert found.tolist() == expected


@pytest.mark.parametrize("elem", INTEGERS)
def test_bit_counts_and_absolute_value(elem: str) -> None:
    dtype = INTEGERS[elem]
    width = np.iinfo(dtype).bits
    x, _ = integer_samples(dtype)
    bits = [f"{value & ((1 << width) - 1):0{width}b}" for value in x.tolist()]
    meanings = {
        "math.ctlz": [len(text) - len(text.lstrip("0")) for text in bits],
        "math.cttz": [len(text) - len(text.rstrip("0")) for text in bits],
        "math.ctpop": [text.count("1") for text in bits],
        "math.absi": [wrap(abs(value), width) for value in x.tolist()],
    }
    for name, expected in meanings.items():
        assert run(lambda b, x, name=name: b.unary(name, x), elem, dtype, (elem, x)).tolist() == expected


@pytest.mark.parametrize("elem", INTEGERS)
def test_integer_comparisons(elem: str) -> None:
    dtype = INTEGERS[elem]
    x, y = integer_samples(dtype)
    wide = x.astype(object), y.astype(object)
    mask = (1 << np.iinfo(dtype).bits) - 1
    raw = tuple(np.array([value & mask for value in side.tolist()], object) for side in wide)
    relations = {
        "eq": "__eq__",
        "ne": "__ne__",
        "lt": "__lt__",
        "le": "__le__",
        "gt": "__gt__",
        "ge": "__ge__",
    }
    for predicate in ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]:
        a, c = raw if predicate[0] == "u" else wide
        relation = relations[predicate[-2:]]
        expected = [int(getattr(p, relation)(q)) for p, q in zip(a.tolist(), c.tolist(), strict=True)]
        found = run(lambda b, x, y, p=predicate: b.cmpi(p, x, y), "i1", None, (elem, x), (elem, y))
        assert found.tolist() == expected, predicate


def test_i1_is_a_one_bit_integer() -> None:
    """Signed, true is -1; arithmetic is modulo 2."""
    x = np.array([0, 0, 1, 1] * 2, np.int8)
    y = np.array([0, 1, 0, 1] * 2, np.int8)

    def binary(name: str):
        def emit(b, x, y):
            x, y = (b.cmpi("ne", v, b.const(0, "i8", (8,))) for v in (x, y))
            return b.binary(name, x, y)

        return run(emit, "i1", None, ("i8", x), ("i8", y)).tolist()[:4]

    assert binary("arith.addi") == [0, 1, 1, 0]
    assert binary("arith.subi") == [0, 1, 1, 0]
    assert binary("arith.muli") == [0, 0, 0, 1]
    assert binary("arith.maxsi") == [0, 0, 0, 1]
    assert binary("arith.minsi") == [0, 1, 1, 1]
    assert binary("arith.maxui") == [0, 1, 1, 1]
    assert binary("arith.minui") == [0, 0, 0, 1]

    def compare(predicate: str):
        def emit(b, x, y):
            return b.cmpi(predicate, *(b.cast("arith.trunci", v, I1) for v in (x, y)))

        return run(emit, "i1", None, ("i8", x), ("i8", y)).tolist()[:4]

    assert compare("slt") == [0, 0, 1, 0]
    assert compare("ult") == [0, 1, 0, 0]

    def cast(name: str, elem: str, dtype) -> list:
        def emit(b, x):
            return b.cast(name, b.cast("arith.trunci", x, I1), elem)

        return run(emit, elem, dtype, ("i8", np.array([0, 1, 2, 3] * 2, np.int8))).tolist()[:4]

    assert cast("arith.extsi", "i32", np.int32) == [0, -1, 0, -1]
    assert cast("arith.extui", "i32", np.int32) == [0, 1, 0, 1]
    assert cast("arith.sitofp", "f32", np.float32) == [0, -1, 0, -1]
    assert cast("arith.uitofp", "f32", np.float32) == [0, 1, 0, 1]

    def to_bit(name: str) -> list:
        values = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 7.0, np.nan], np.float32)
        return run(lambda b, x: b.cast(name, x, I1), "i1", None, ("f32", values)).tolist()

    assert to_bit("arith.fptosi") == [1, 1, 0, 0, 0, 0, 0, 0]
    assert to_bit("arith.fptoui") == [0, 0, 0, 0, 0, 1, 1, 0]


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    math.inf,
    -math.inf,
    math.nan,
    0.5,
    -2.5,
    3.5,
    1e-3,
    -7.25,
    100.0,
    1.5,
    2.5,
    -0.75,
]


def float_samples(elem: str) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(x, y) for x in SPECIAL for y in SPECIAL]
    x, y = (np.array(values) for values in zip(*pairs, strict=True))
    more = RNG.normal(size=(2, 256)) * 10.0 ** RNG.integers(-4, 5, (2, 256))
    x, y = np.concatenate([x, more[0]]), np.concatenate([y, more[1]])
    with np.errstate(all="ignore"):
        return x.astype(WITH_F8[elem]), y.astype(WITH_F8[elem])


def exact_bits(array: np.ndarray) -> list:
    """Values with the sign of zero; all NaN alike."""
    return [
        ("nan",) if math.isnan(v) else (v, math.copysign(1, v)) for v in array.astype(np.float64).tolist()
    ]


def rounded_once(values: list[float], elem: str) -> np.ndarray:
    """float32 results rounded to the type: how joinery defines 16-bit arithmetic. float64 for f64."""
    with np.errstate(all="ignore"):
        return np.array(values, np.float64 if elem == "f64" else np.float32).astype(FLOATS[elem])


def python_float(function, elem: str):
    """`function` on numbers of the working precision (float32 below f64)."""
    working = np.float64 if elem == "f64" else np.float32

    def apply(*numbers):
        with np.errstate(all="ignore"):
            return function(*(working(number) for number in numbers))

    return apply


def ieee_maximum(x, y, nan_wins: bool, sign: int):
    if math.isnan(x) or math.isnan(y):
        if nan_wins or (math.isnan(x) and math.isnan(y)):
            return math.nan
        return y if math.isnan(x) else x
    key = [(sign * v, sign * math.copysign(1, v)) for v in (x, y)]
    return x if key[0] >= key[1] else y


FLOAT_MEANING = {
    "arith.addf": lambda x, y: x + y,
    "arith.subf": lambda x, y: x - y,
    "arith.mulf": lambda x, y: x * y,
    "arith.divf": lambda x, y: x / y,
    "tt.precise_divf": lambda x, y: x / y,
    "arith.maximumf": lambda x, y: ieee_maximum(x, y, True, 1),
    "arith.minimumf": lambda x, y: ieee_maximum(x, y, True, -1),
    "arith.maxnumf": lambda x, y: ieee_maximum(x, y, False, 1),
    "arith.minnumf": lambda x, y: ieee_maximum(x, y, False, -1),
    "math.copysign": lambda x, y: math.copysign(x, y),
    "arith.remf": lambda x, y: math.nan if math.isinf(x) or y == 0 or math.isnan(x + y) else math.fmod(x, y),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("elem", FLOATS)
@pytest.mark.parametrize("name", FLOAT_MEANING)
def test_float_operations(name: str, elem: str) -> None:
    x, y = float_samples(elem)
    found = run(lambda b, x, y: b.binary(name, x, y), elem, FLOATS[elem], (elem, x), (elem, y))
    meaning = python_float(FLOAT_MEANING[name], elem)
    pairs = zip(x.astype(np.float64), y.astype(np.float64), strict=True)
    expected = rounded_once([meaning(a, c) for a, c in pairs], elem)
    assert exact_bits(found) == exact_bits(expected)


@pytest.mark.parametrize("elem", FLOATS)
def test_float_comparisons(elem: str) -> None:
    x, y = float_samples(elem)
    pairs = list(zip(x.astype(np.float64).tolist(), y.astype(np.float64).tolist(), strict=True))
    meanings = {
        "eq": lambda a, c: a == c,
        "ne": lambda a, c: a != c,
        "lt": lambda a, c: a < c,
        "le": lambda a, c: a <= c,
        "gt": lambda a, c: a > c,
        "ge": lambda a, c: a >= c,
    }
    for predicate in [
        "oeq",
        "one",
        "olt",
        "ole",
        "ogt",
        "oge",
        "ord",
        "ueq",
        "une",
        "ult",
        "ule",
        "ugt",
        "uge",
        "uno",
        "true",
        "false",
    ]:
        found = run(lambda b, x, y, p=predicate: b.cmpf(p, x, y), "i1", None, (elem, x), (elem, y)).tolist()
        for (a, c), value in zip(pairs, found, strict=True):
            nan = math.isnan(a) or math.isnan(c)
            if predicate in ("true", "false"):
                expected = predicate == "true"
            elif predicate in ("ord", "uno"):
                expected = nan == (predicate == "uno")
            else:
                expected = predicate[0] == "u" if nan else meanings[predicate[1:]](a, c)
            assert value == expected, (predicate, a, c)


def mp(function):
    """A real function evaluated with 80 digits."""

    def apply(x: float) -> float:
        with mpmath.workdps(80):
            return function(mpmath.mpf(x))

    return apply


ELEMENTARY = {
    "math.exp": (mp(mpmath.exp), -80, 80),
    "math.exp2": (mp(lambda x: mpmath.mpf(2) ** x), -100, 100),
    "math.expm1": (mp(mpmath.expm1), -5, 5),
    "math.log": (mp(mpmath.log), 1e-6, 1e6),
    "math.log2": (mp(lambda x: mpmath.log(x) / mpmath.log(2)), 1e-6, 1e6),
    "math.log1p": (mp(mpmath.log1p), -0.9, 5),
    "math.sqrt": (mp(mpmath.sqrt), 0, 1e6),
    "tt.precise_sqrt": (mp(mpmath.sqrt), 0, 1e6),
    "math.rsqrt": (mp(lambda x: 1 / mpmath.sqrt(x)), 1e-6, 1e6),
    "math.sin": (mp(mpmath.sin), -50, 50),
    "math.cos": (mp(mpmath.cos), -50, 50),
    "math.tan": (mp(mpmath.tan), -1.5, 1.5),
    "math.asin": (mp(mpmath.asin), -1, 1),
    "math.acos": (mp(mpmath.acos), -1, 1),
    "math.atan": (mp(mpmath.atan), -50, 50),
    "math.tanh": (mp(mpmath.tanh), -5, 5),
    "math.erf": (mp(mpmath.erf), -4, 4),
}


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions(name: str) -> None:
    """float32 results are correctly rounded on these samples; float64 is within 3 units in the last place."""
    function, low, high = ELEMENTARY[name]
    samples = RNG.uniform(low, high, 64)
    x = samples.astype(np.float32)
    found = run(lambda b, x: b.unary(name, x), "f32", np.float32, ("f32", x))
    expected = np.array([float(function(v)) for v in x.tolist()]).astype(np.float32)
    assert found.tolist() == expected.tolist()
    found = run(lambda b, x: b.unary(name, x), "f64", np.float64, ("f64", samples))
    for value, sample in zip(found.tolist(), samples.tolist(), strict=True):
        exact = function(sample)
        assert abs(exact - mpmath.mpf(value)) <= 3 * math.ulp(float(exact)), sample
    for elem in ("f16", "bf16"):
        small = np.clip(samples, max(low, -4), min(high, 8)).astype(FLOATS[elem])
        found = run(lambda b, x: b.unary(name, x), elem, FLOATS[elem], (elem, small))
        exact = [float(function(v)) for v in small.astype(np.float64).tolist()]
        assert found.tolist() == np.array(exact, np.float32).astype(FLOATS[elem]).tolist()


def test_power_and_rounding_functions() -> None:
    x = np.array([2.0, -2.0, 0.0, 9.0, 2.0, -8.0, 1.0, np.inf], np.float32)
    y = np.array([10.0, 3.0, 0.0, 0.5, -1.0, 1 / 3, np.nan, -1.0], np.float32)
    found = run(lambda b, x, y: b.binary("math.powf", x, y), "f32", np.float32, ("f32", x), ("f32", y))
    np.testing.assert_array_equal(found, np.array([1024, -8, 1, 3, 0.5, np.nan, 1, 0], np.float32))
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 2.7, -0.2], np.float32)
    expected = {
        "math.floor": [-3, -2, -1, 0, 1, 2, 2, -1],
        "math.ceil": [-2, -1, -0.0, 1, 2, 3, 3, -0.0],
        "math.trunc": [-2, -1, -0.0, 0, 1, 2, 2, -0.0],
        "math.roundeven": [-2, -2, -0.0, 0, 2, 2, 3, -0.0],
        "math.round": [-3, -2, -1, 1, 2, 3, 3, -0.0],
        "math.absf": [2.5, 1.5, 0.5, 0.5, 1.5, 2.5, x[6], -x[7]],
        "arith.negf": [2.5, 1.5, 0.5, -0.5, -1.5, -2.5, -x[6], -x[7]],
    }
    for name, values in expected.items():
        found = run(lambda b, x, name=name: b.unary(name, x), "f32", np.float32, ("f32", x))
        assert exact_bits(found) == exact_bits(np.array(values, np.float32)), name


def test_clamp() -> None:
    x = np.array([-3.0, 0.5, 3.0, np.nan, np.inf, -np.inf, 1.0, -1.0], np.float32)
    for propagate, at_nan in ((True, np.nan), (False, -1.0)):

        def emit(b, x, propagate=propagate):
            bounds = b.const(-1.0, "f32", (8,)), b.const(1.0, "f32", (8,))
            nan = {"propagateNan": enum_attr(0xFFFF if propagate else 0)}
            return b.op("tt.clampf", (x, *bounds), (x.type,), nan)[0]

        found = run(emit, "f32", np.float32, ("f32", x))
        np.testing.assert_array_equal(found, np.array([-1, 0.5, 1, at_nan, 1, -1, 1, -1], np.float32))


@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")  # the interpreter runs with warnings off
def test_fused_multiply_add_rounds_once() -> None:
    x, y, z = (RNG.normal(size=2000) * 10.0 ** RNG.integers(-3, 4, 2000) for _ in range(3))
    z = np.where(RNG.random(2000) < 0.5, -x * y * (1 + RNG.normal(size=2000) * 1e-7), z)  # cancellation
    a, b, c = (values.astype(np.float32) for values in (x, y, z))
    exact = [
        Fraction(p) * Fraction(q) + Fraction(r)
        for p, q, r in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    found = fused_multiply_add(a, b, c)
    for value, reference in zip(found.tolist(), exact, strict=True):
        distance = abs(Fraction(value) - reference)
        for neighbour in (np.nextafter(np.float32(value), np.float32(s * np.inf)) for s in (1, -1)):
            assert distance <= abs(Fraction(float(neighbour)) - reference)
    found = fused_multiply_add(x, y, z)
    exact = [
        Fraction(p) * Fraction(q) + Fraction(r)
        for p, q, r in zip(x.tolist(), y.tolist(), z.tolist(), strict=True)
    ]
    for value, reference in zip(found.tolist(), exact, strict=True):
        assert value == float(reference)
    assert fused_multiply_add(np.float64(1e300), np.float64(1e300), np.float64(-1.0)) == np.inf
    one = 1 + 2.0**-52
    factors = np.float64(2.0**1000 * one), np.float64(2.0**-1000 * one)
    assert fused_multiply_add(*factors, np.float64(-(1 + 2.0**-51))) == 2.0**-104
    assert fused_multiply_add(np.float64(1.7e308), np.float64(2.0), np.float64(-1.7e308)) == 1.7e308
    assert np.isnan(fused_multiply_add(np.float32(np.inf), np.float32(0), np.float32(1)))


# Conversions


def nearest(value: float, dtype, toward_zero: bool = False) -> float:
    """The representable value nearest to `value` (even last bit on ties), by search over all values of a 16- or 8-bit type."""
    size = np.dtype(dtype).itemsize
    patterns = np.arange(1 << (8 * size), dtype=f"u{size}").view(dtype)
    with np.errstate(all="ignore"):
        table = patterns.astype(np.float64)
    finite = np.isfinite(table)
    values, codes = table[finite], np.arange(len(table))[finite]
    if toward_zero:
        keep = np.abs(values) <= abs(value)
        values, codes = values[keep], codes[keep]
    distance = np.abs(values - value)
    best = np.flatnonzero(distance == distance.min())
    even = [
        index
        for index in best
        if codes[index] % 2 == 0 and math.copysign(1, values[index]) == math.copysign(1, value)
    ]
    return float(values[even[0] if even else best[0]])


@pytest.mark.one_in(3)
@pytest.mark.parametrize("elem", ["f16", "bf16", "f8E4M3FN", "f8E5M2"])
@pytest.mark.parametrize("rounding", ["rtne", "rtz"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_conversion_to_narrow_floats_rounds_once(elem: str, rounding: str, source: str) -> None:
    dtype = WITH_F8[elem]
    limit = float(ml_dtypes.finfo(dtype).max)
    samples = np.concatenate(
        [
            RNG.normal(size=120) * 10.0 ** RNG.integers(-6, 3, 120),
            [limit, -limit, 0.0, limit * 0.999],
        ]
    )
    # ties, and f64 values a hair beside a tie, which rounding by way of f32 would get wrong
    near = np.array([nearest(float(v), dtype) for v in RNG.uniform(0.5, 2.0, 2)])
    ulp = float(ml_dtypes.finfo(dtype).eps)
    ties = np.concatenate([near + ulp / 2, near + ulp / 2 * (1 + 1e-12)])
    samples = np.concatenate([np.clip(samples, -limit, limit), ties]).astype(FLOATS[source])

    mode = enum_attr(ROUNDING_MODES[rounding])

    def emit(b, x):
        (result,) = b.op("tt.fp_to_fp", (x,), (tensor(scalar_type(elem), (128,)),), {"rounding": mode})
        return result

    found = run(emit, elem, dtype, (source, samples)).astype(np.float64)
    expected = [nearest(float(v), dtype, rounding == "rtz") for v in samples.astype(np.float64)]
    assert found.tolist() == expected


def test_conversion_beyond_the_range() -> None:
    """8-bit floats saturate, infinities too, and keep NaN; f16 and bf16 become infinite."""
    x = np.array([1e9, -1e9, np.inf, -np.inf, np.nan, 449.0, -0.0, 1e-30], np.float32)

    def to(elem: str) -> list:
        return exact_bits(run(lambda b, x: b.cast("tt.fp_to_fp", x, elem), elem, WITH_F8[elem], ("f32", x)))

    def signs(*values: float) -> list:
        return exact_bits(np.array(values))

    assert to("f8E4M3FN") == signs(448, -448, 448, -448, np.nan, 448, -0.0, 0)
    assert to("f8E5M2") == signs(57344, -57344, 57344, -57344, np.nan, 448, -0.0, 0)
    assert to("f16") == signs(np.inf, -np.inf, np.inf, -np.inf, np.nan, 449, -0.0, 0)


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("elem", INTEGERS)
def test_float_to_integer_saturates(source: str, elem: str) -> None:
    dtype = INTEGERS[elem]
    width = np.iinfo(dtype).bits
    edges = [
        0.0,
        -0.5,
        0.999,
        1.5,
        -1.5,
        127.5,
        128.0,
        255.0,
        256.0,
        -128.0,
        -129.0,
        2.0**31,
        2.0**32,
        2.0**63,
        2.0**64,
    ]
    values = [*edges, *(-v for v in edges), math.nan, math.inf, -math.inf, 65504.0]
    with np.errstate(all="ignore"):
        x = np.array([*values, *RNG.uniform(-300, 300, 64 - len(values))]).astype(FLOATS[source])
    exact = x.astype(np.float64).tolist()
    for name, low, high in (
        ("arith.fptosi", -(1 << (width - 1)), (1 << (width - 1)) - 1),
        ("arith.fptoui", 0, (1 << width) - 1),
    ):
        found = run(lambda b, x, name=name: b.cast(name, x, elem), elem, dtype, (source, x)).tolist()
        for value, number in zip(exact, found, strict=True):
            if math.isnan(value):
                expected = 0
            elif math.isinf(value):
                expected = high if value > 0 else low
            else:
                expected = min(max(int(value), low), high)
            assert number == wrap(expected, width), (name, value)


@pytest.mark.parametrize("elem", ["f16", "bf16", "f32", "f64"])
def test_integer_to_float_rounds(elem: str) -> None:
    x, _ = integer_samples(np.int64)
    # Just beyond halves of bfloat16: float32, and float64 for the larger ones, would round to the half first.
    halves = [(2 * k + 1) << shift for k in (128, 129, 200, 255) for shift in (23, 40, 54)]
    x = np.concatenate([x, np.array([s * (v + d) for v in halves for d in (-1, 0, 1) for s in (1, -1)])])
    x = np.resize(x, 1 << (x.size - 1).bit_length())
    for name, numbers in (("arith.sitofp", x.tolist()), ("arith.uitofp", [v & (2**64 - 1) for v in x.tolist()])):
        found = run(lambda b, x, name=name: b.cast(name, x, elem), elem, FLOATS[elem], ("i64", x))
        assert exact_bits(found) == exact_bits(np.array([rounded_integer(v, elem) for v in numbers], FLOATS[elem])), name


def rounded_integer(value: int, elem: str) -> float:
    """The number of the type that is nearest to an integer, the even one of two; infinity beyond the largest by half a unit."""
    digits, largest = {"f16": (11, 65504), "bf16": (8, 255 << 120), "f32": (24, 2**128 - 2**104), "f64": (53, 2**1023)}[elem]
    size = abs(value)
    shift = max(0, size.bit_length() - digits)
    whole, rest = size >> shift, size & ((1 << shift) - 1)
    half = (1 << shift) >> 1
    whole += rest > half or (shift > 0 and rest == half and whole & 1)
    rounded = whole << shift
    return math.copysign(float(rounded) if rounded <= largest else math.inf, value if value else 1.0)


def test_integer_width_changes() -> None:
    x = np.array([0, 1, -1, 127, -128, 5, -7, 100], np.int8)
    assert (
        run(lambda b, x: b.cast("arith.extsi", x, "i32"), "i32", np.int32, ("i8", x)).tolist() == x.tolist()
    )
    assert (
        run(lambda b, x: b.cast("arith.extui", x, "i32"), "i32", np.int32, ("i8", x)).tolist()
        == x.view(np.uint8).tolist()
    )
    y = np.array([0, 255, 256, -1, 384, 2**31 - 1, -(2**31), 77], np.int32)
    assert run(lambda b, x: b.cast("arith.trunci", x, "i8"), "i8", np.int8, ("i32", y)).tolist() == [
        wrap(v, 8) for v in y.tolist()
    ]
    assert run(lambda b, x: b.cast("arith.trunci", x, I1), "i1", None, ("i32", y)).tolist() == [
        v & 1 for v in y.tolist()
    ]


def test_bitcast_keeps_the_bits() -> None:
    x = np.array([1.0, -0.0, np.inf, 1e-40, 3.5, -2.0, 0.0, 7.0], np.float32)
    found = run(lambda b, x: b.cast("tt.bitcast", x, "i32"), "i32", np.int32, ("f32", x))
    assert found.tolist() == x.view(np.int32).tolist()
    y = RNG.integers(-(2**15), 2**15, 8, dtype=np.int16)
    found = run(lambda b, x: b.cast("tt.bitcast", x, "bf16"), "bf16", ml_dtypes.bfloat16, ("i16", y))
    assert found.view(np.int16).tolist() == y.tolist()


def test_tf32_rounding() -> None:
    x = (RNG.normal(size=500) * 10.0 ** RNG.integers(-20, 20, 500)).astype(np.float32)
    for value, rounded in zip(x.tolist(), round_to_tf32(x).tolist(), strict=True):
        mantissa, exponent = math.frexp(value)
        expected = math.ldexp(round(Fraction(mantissa) * 2048), exponent - 11)
        assert rounded == expected
    assert round_to_tf32(np.array([np.inf, -np.inf], np.float32)).tolist() == [np.inf, -np.inf]
    assert np.isnan(round_to_tf32(np.array([np.nan], np.float32)))[0]


def test_rounding_to_odd() -> None:
    values = np.array([1.0, 1 + 2**-30, 1 + 2**-23, 1 + 2**-23 + 2**-40, -1 - 2**-30, 2.0, 0.0])
    found = round_to_odd_float32(values).astype(np.float64).tolist()
    above = 1 + 2**-23  # the odd neighbour of 1
    assert found == [1.0, above, above, above, -above, 2.0, 0.0]
