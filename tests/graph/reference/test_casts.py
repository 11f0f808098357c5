"""The op cast against exact rationals, NumPy and ml_dtypes; bitcast against raw bytes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from joinery.graph.reference.evaluate import REFERENCE, BoundSymbol
from joinery.graph.reference.numerics import convert, literal, round_float64
from joinery.promotion import DTYPES, DType, UnsupportedError

from ...support.tiers import examples

INTEGERS = [d for d in DTYPES.values() if d.is_integer and not d.storage_only]
EIGHTS = [d for d in DTYPES.values() if d.is_float and d.bits == 8]
ROUNDED = [DType(n) for n in ("float16", "bfloat16", "tensor_float32", "float32")]


def cast(values, source, target, **attrs):
    source, target = DType(source), DType(target)
    values = np.asarray(values, source.numpy)
    symbol = BoundSymbol("cast", target, values.shape, (BoundSymbol("input", source, values.shape),), attrs)
    result = REFERENCE["cast"](symbol, values)
    assert result.dtype == target.numpy
    return result


def nearest(value, dtype, toward_zero=False):
    """`value` (a Fraction) rounded to a float dtype by exact arithmetic, ties to even."""
    if value == 0:
        return 0.0
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, dtype.min_exponent) - dtype.mantissa_bits)
    count = int(magnitude / unit) if toward_zero else round(magnitude / unit)
    rounded = count * unit
    if rounded > Fraction(dtype.max_value):
        rounded = dtype.max_value if toward_zero else math.inf
    return math.copysign(float(rounded), value)


@settings(max_examples=examples(400))
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(ROUNDED))
@example(1 + 2**-8 + 2**-30, DType("bfloat16"))  # double rounding through float32 would lose the sticky bit
@example(65520.0, DType("float16"))
@example(65519.9999, DType("float16"))
@example(2.0**-25, DType("float16"))
@example(2.0**-150, DType("float32"))
@example(-0.0, DType("bfloat16"))
def test_float_casts_round_once(value, dtype):
    result = float(cast(value, "float64", dtype))
    expected = nearest(Fraction(value), dtype)
    assert result == expected
    assert math.copysign(1, result) == math.copysign(1, value)
    chopped = float(cast(value, "float64", dtype, rounding="toward_zero"))
    assert chopped == nearest(Fraction(value), dtype, toward_zero=True)


@settings(max_examples=examples(400))
@given(
    st.integers(-(2**63), 2**64 - 1),
    st.sampled_from([*ROUNDED, DType("float64")]),
    st.sampled_from(["nearest", "toward_zero"]),
)
@example(2**62 + 2**54 + 1, DType("bfloat16"), "nearest")
@example(-(2**62) - 2**54 - 1, DType("bfloat16"), "nearest")
@example(16777217, DType("float32"), "nearest")
@example(2**64 - 1, DType("float64"), "nearest")
@example(2**64 - 1, DType("float64"), "toward_zero")
@example(2**63 - 1, DType("float64"), "toward_zero")
@example(-(2**63) + 1, DType("float64"), "toward_zero")
def test_integers_to_floats_round_once(value, dtype, rounding):
    source = "uint64" if value >= 2**63 else "int64"
    result = float(cast(value, source, dtype, rounding=rounding))
    assert result == nearest(Fraction(value), dtype, rounding == "toward_zero")


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize(
    "source", ["float16", "bfloat16", "float32", "tensor_float32", "float64", "float8_e5m2"]
)
def test_floats_to_integers_truncate_saturate_and_send_nan_to_zero(source, target):
    points = [0.0, -0.0, 0.5, -0.5, 0.99, 1.5, -1.5, 2.5, 100.0, -100.0, 1e4, 3e9, -3e9, 1e20, -1e20]
    points += [float(target.max_value), float(target.min_value), 2.0**63, 2.0**64, -(2.0**63)]
    with np.errstate(all="ignore"):
        array = np.array([*points, np.inf, -np.inf, np.nan]).astype(
            np.float32 if source != "float64" else None
        )
        array = array.astype(DType(source).numpy)
    result = cast(array, source, target)
    for x, y in zip(array.astype(np.float64), result, strict=True):
        if math.isnan(x):
            expected = 0
        elif math.isinf(x):
            expected = target.max_value if x > 0 else target.min_value
        else:
            expected = min(max(math.trunc(x), target.min_value), target.max_value)
        assert int(y) == expected, (x, y)


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_casts_wrap(source, target):
    low, high = source.min_value, source.max_value
    values = sorted(
        {
            v
            for v in (low, low + 1, -130, -129, -9, -8, -1, 0, 1, 7, 8, 15, 16, 127, 128, 255, high)
            if low <= v <= high
        }
    )
    for value, result in zip(values, cast(values, source, target), strict=True):
        expected = value % 2**target.bits
        if target.kind == "int" and expected >= 2 ** (target.bits - 1):
            expected -= 2**target.bits
        assert int(result) == expected


def test_casts_of_bool():
    for target in [d for d in DTYPES.values() if not d.storage_only and d.name != "float8_e8m0fnu"]:
        assert cast([False, True], "bool", target).astype(np.float64).tolist() == [0, 1]
    assert cast([0.0, -0.0, 0.5, np.nan, np.inf], "float32", "bool").tolist() == [
        False,
        False,
        True,
        True,
        True,
    ]
    assert cast([0, 256, -1], "int32", "bool").tolist() == [False, True, True]
    assert cast([2**63], "uint64", "bool").tolist() == [True]
    assert cast([0, -8], "int4", "bool").tolist() == [False, True]
    assert cast([2.0**-9], "float8_e4m3fn", "bool").tolist() == [True]


@pytest.mark.parametrize("target", EIGHTS, ids=str)
def test_eight_bit_floats(target):
    generator = np.random.default_rng(0)
    values = (generator.normal(size=2000) * 10.0 ** generator.uniform(-4, 4, 2000)).astype(np.float32)
    if not target.is_signed:
        values = np.abs(values)
    inside = values[np.abs(values) < target.max_value]
    with np.errstate(all="ignore"):
        expected = inside.astype(target.numpy)
    np.testing.assert_array_equal(cast(inside, "float32", target).astype(float), expected.astype(float))
    if not target.is_signed:
        assert np.isnan(cast(np.float32([-1.0, np.nan]), "float32", target).astype(float)).all()
        return
    extremes = np.float32([np.inf, -np.inf, 1e9, -1e9])
    saturated = cast(extremes, "float32", target).astype(float)
    assert saturated.tolist() == [target.max_value, -target.max_value] * 2
    loose = cast(extremes, "float32", target, saturate=False).astype(float)
    if target.has_infinity:
        assert loose.tolist() == [np.inf, -np.inf] * 2
    else:
        assert np.isnan(loose).all()
    assert np.isnan(cast(np.float32(np.nan), "float32", target).astype(float))


@pytest.mark.parametrize("source", EIGHTS, ids=str)
def test_eight_bit_floats_widen_exactly(source):
    values = np.arange(256, dtype=np.uint8).view(source.numpy)
    wide = values.astype(np.float64)
    for target in ("float32", "float64", "bfloat16"):
        np.testing.assert_array_equal(cast(values, source, target).astype(np.float64), wide)


def test_float16_overflow_is_infinity_not_saturation():
    assert np.isinf(cast(1e5, "float32", "float16"))
    assert np.isinf(cast(3.4e38, "float32", "bfloat16"))


def test_a_cast_there_and_back_is_not_elided():
    assert float(cast(cast(1.001, "float32", "bfloat16"), "bfloat16", "float32")) == 1.0


def test_casts_to_four_bits_agree_with_ml_dtypes():
    ties = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 0.3, 4.9, 5.1, 6.0, 7.0, 1e9, 0.0, np.inf]
    values = np.array([*ties, *[-value for value in ties], np.nan], np.float32)
    expected = values.astype(ml_dtypes.float4_e2m1fn)
    assert cast(values, "float32", "float4_e2m1fn").view(np.uint8).tolist() == expected.view(np.uint8).tolist()
    codes = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    assert cast(codes, "float4_e2m1fn", "float32").tobytes() == codes.astype(np.float32).tobytes()
    assert cast(codes, "float4_e2m1fn", "int2").tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 0, 0, -1, -1, -2, -2, -2, -2]


def test_unsupported_casts():
    with pytest.raises(UnsupportedError, match=r"complex64.*storage-only"):
        cast(1.0, "float32", "complex64")
    with pytest.raises(UnsupportedError, match="float6_e2m3fn"):
        cast(1.0, "float32", "float6_e2m3fn")
    with pytest.raises(UnsupportedError, match="rounding 'up'"):
        convert(np.zeros(1, np.float32), DType("float32"), DType("float16"), rounding="up")


@pytest.mark.parametrize("dtype", [*EIGHTS, DType("float16")], ids=str)
def test_round_float64_keeps_every_value(dtype):
    bits = np.uint16 if dtype.bits == 16 else np.uint8
    with np.errstate(all="ignore"):
        values = np.arange(2**dtype.bits, dtype=bits).view(dtype.numpy).astype(np.float64)
        rounded = round_float64(values, dtype)
    np.testing.assert_array_equal(rounded, values)


def bitcast(values, source, target):
    source, target = DType(source), DType(target)
    symbol = BoundSymbol("bitcast", target, values.shape, (BoundSymbol("input", source, values.shape),), {})
    return REFERENCE["bitcast"](symbol, values)


def test_bitcast():
    floats = np.float32([1.0, -0.0, np.nan])
    assert bitcast(floats, "float32", "uint32").tolist() == [0x3F800000, 0x80000000, 0x7FC00000]
    back = bitcast(bitcast(floats, "float32", "int32"), "int32", "float32")
    assert back.tobytes() == floats.tobytes()
    assert bitcast(np.array([0x3F80], np.uint16), "uint16", "bfloat16").tolist() == [1.0]
    assert bitcast(np.array([True, False]), "bool", "uint8").tolist() == [1, 0]
    assert bitcast(np.array([2, 0], np.uint8), "uint8", "bool").tolist() == [True, False]
    assert bitcast(np.array([-1, 7]).astype(ml_dtypes.int4), "int4", "uint4").astype(int).tolist() == [15, 7]
    assert bitcast(np.array([15, 7]).astype(ml_dtypes.uint4), "uint4", "int4").astype(int).tolist() == [-1, 7]
    assert bitcast(np.array([2]).astype(ml_dtypes.uint4), "uint4", "float4_e2m1fn").astype(
        float
    ).tolist() == [1.0]
    assert bitcast(np.array([6.0]).astype(ml_dtypes.float4_e2m1fn), "float4_e2m1fn", "uint4").astype(
        int
    ).tolist() == [7]
    column = np.arange(6, dtype=np.int32).reshape(2, 3).T  # not contiguous
    assert bitcast(column, "int32", "uint32").tolist() == column.tolist()
    with pytest.raises(UnsupportedError, match=r"float32 \(32 bits\) to int64 \(64 bits\)"):
        bitcast(floats, "float32", "int64")


def test_literals():
    assert literal(16777217, DType("float32")) == 16777216
    assert literal(0.1, DType("bfloat16")) == ml_dtypes.bfloat16(0.1)
    assert np.signbit(literal(-0.0, DType("float16")))
    assert literal(2**63, DType("uint64")) == 2**63
    assert np.isinf(literal(math.inf, DType("float8_e5m2")).astype(float))
    assert literal(0, DType("complex64")) == 0
