"""Casts and bit casts between all dtypes: exact rational arithmetic decides what one rounding gives."""

import math
from fractions import Fraction

import numpy as np
import pytest
from joinery.promotion.dtype import DTYPES, DType
from joinery.promotion.errors import UnsupportedError

NUMERIC = [d.name for d in DTYPES.values() if not d.storage_only and not d.is_complex]
EIGHT_BITS = [d.name for d in DTYPES.values() if d.is_float and d.bits == 8]


def inputs(dtype):
    rng = np.random.default_rng(11)
    if dtype.is_bool:
        return np.array([False, True])
    if dtype.bits < 8 and dtype.is_float:
        return np.arange(1 << dtype.bits, dtype=np.uint8).view(dtype.numpy)
    if dtype.bits < 8:
        return np.arange(int(dtype.min_value), int(dtype.max_value) + 1).astype(dtype.numpy)
    if dtype.bits <= 8:
        return np.arange(256).astype(np.uint8).view(dtype.numpy)
    if dtype.is_float:
        special = np.array(
            [0.0, -0.0, 1.0, -1.0, 0.49, 1.5, 2.5, -2.5, 127.5, 128, 255.9, 300, -300, 32768, 65504, 65519, 65520, 70000, 2**31,
             2.0**32, 2.0**63, 2.0**64, -(2.0**63), 1e30, 3.4e38, 1e300, math.inf, -math.inf, math.nan, 448, 464, 480, 57344,
             61440, 1 + 2.0**-11,
             1 + 2.0**-8, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-9, 1e-7, 2.0**-149, 2.0**-133, 2.0**-25, 1e-310]
        )  # fmt: skip
        bits = (
            rng.integers(0, 2**dtype.bits, 300, dtype=np.uint64)
            .astype(f"u{dtype.itemsize}")
            .view(dtype.numpy)
        )
        with np.errstate(all="ignore"):
            return np.concatenate(
                [special.astype(dtype.numpy), bits, (rng.standard_normal(100) * 100).astype(dtype.numpy)]
            )
    low, high = int(dtype.min_value), int(dtype.max_value)
    near = [
        v + d
        for v in (2**11, 2**24, 2**25, 2**53, 2**54, 2**62, 2**63)
        for d in (-3, -1, 0, 1, 3, 2**10, 2**40 + 1)
    ]
    values = [
        low,
        low + 1,
        -1,
        0,
        1,
        127,
        128,
        255,
        256,
        65535,
        high,
        high - 1,
        high - 1000,
        *near,
        *[-v for v in near],
    ]
    values += [int(v) for v in rng.integers(0, 2**63, 100)]
    return np.array([v for v in values if low <= v <= high], object).astype(dtype.numpy)


def round_float(value, dtype, toward_zero=False, saturate=True):
    """One rounding of an exact number (int, Fraction) or a special float; the result as a Python float."""
    eight = dtype.bits == 8 or not dtype.has_nan
    saturate = saturate or not dtype.has_nan
    largest = Fraction(dtype.max_value)
    if isinstance(value, float) and math.isnan(value):
        return math.nan if dtype.has_nan else -0.0
    if not dtype.is_signed and value <= 0:
        return math.nan
    if isinstance(value, float) and math.isinf(value):
        if saturate and eight:
            return math.copysign(dtype.max_value, value)
        return value if dtype.has_infinity else math.nan
    exact = abs(Fraction(value))
    if exact == 0:
        return 0.0
    exponent = max(exact.numerator.bit_length() - exact.denominator.bit_length() - 1, dtype.min_exponent - 1)
    while exact >= Fraction(2) ** (exponent + 1):
        exponent += 1
    exponent = max(exponent, dtype.min_exponent)
    unit = Fraction(2) ** (exponent - dtype.mantissa_bits)
    steps = exact / unit
    whole = int(steps)
    rest = steps - whole
    if not toward_zero and (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)):
        whole += 1
    rounded = whole * unit
    if not dtype.is_signed:
        rounded = max(rounded, Fraction(dtype.min_value))
    if rounded > largest:
        if toward_zero or (saturate and eight):
            rounded = largest
        else:
            return (math.inf if value > 0 else -math.inf) if dtype.has_infinity else math.nan
    return float(rounded if value > 0 else -rounded)


def exact(item):
    if isinstance(item, bool | int):
        return int(item)
    number = float(item)
    return Fraction(number) if math.isfinite(number) else number


def expected(item, source, target, toward_zero=False, saturate=True):
    value = exact(item)
    special = isinstance(value, float)
    if target.is_bool:
        return value != 0 if not special else True
    if target.is_integer:
        if special and math.isnan(value):
            return 0
        if source.is_float:
            if special:
                return int(target.max_value if value > 0 else target.min_value)
            return min(max(math.trunc(value), int(target.min_value)), int(target.max_value))
        value &= (1 << target.bits) - 1
        return value - (1 << target.bits) if target.kind == "int" and value >> (target.bits - 1) else value
    result = round_float(value, target, toward_zero, saturate)
    if result == 0 and not special:
        has_negative_zero = not target.name.endswith("fnuz")
        return math.copysign(0.0, float(item)) if source.is_float and has_negative_zero else 0.0
    return result


def cast(body, x, source, target, **attrs):
    b = body(i=len(x))
    b.store(b.add("cast", target, (0,), (b.load(x, ["i"], source),), **attrs), ["i"])
    return b.run()[0]


def check(found, items, source, target, **options):
    for item, result in zip(items.tolist(), found.tolist(), strict=True):
        want = expected(item, source, target, **options)
        got = float(result) if target.is_float else result
        if isinstance(want, float) and math.isnan(want):
            assert math.isnan(got), (source, target, item, got)
        else:
            assert got == want, (source, target, item, got, want)
            assert math.copysign(1, float(got)) == math.copysign(1, float(want)), (source, target, item)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("source", NUMERIC)
def test_casts_round_once(body, source):
    x = inputs(DType(source))
    for target in NUMERIC:
        if target != source:
            check(cast(body, x, DType(source), DType(target)), x, DType(source), DType(target))


@pytest.mark.one_in(9)
@pytest.mark.parametrize("target", [n for n in NUMERIC if DType(n).is_float])
def test_casts_toward_zero(body, target):
    for source in ("float64", "float32", "float16", "bfloat16", "int64", "uint64", "int32", "int8"):
        if source == target:
            continue
        x = inputs(DType(source))
        found = cast(body, x, DType(source), DType(target), rounding="toward_zero", saturate=True)
        check(found, x, DType(source), DType(target), toward_zero=True)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", EIGHT_BITS)
def test_casts_without_saturation(body, target):
    for source in ("float32", "float64", "int32", "bfloat16"):
        x = inputs(DType(source))
        found = cast(body, x, DType(source), DType(target), rounding="nearest", saturate=False)
        check(found, x, DType(source), DType(target), saturate=False)


def test_storage_only_dtypes_have_no_casts(body):
    source = DType("float6_e2m3fn")
    with pytest.raises(UnsupportedError, match="storage-only"):
        cast(body, np.zeros(3, source.numpy), source, DType("float32"))
    with pytest.raises(UnsupportedError, match="rounding 'up'"):
        cast(body, np.zeros(3, np.float32), DType("float32"), DType("int8"), rounding="up")


def test_bit_casts_keep_the_bytes(body):
    rng = np.random.default_rng(5)
    checked = 0
    for source in DTYPES.values():
        for target in DTYPES.values():
            widths_fit = source.bits == target.bits or source.is_bool or target.is_bool
            if (
                not widths_fit
                or source.itemsize != target.itemsize
                or source.itemsize > 8
                or source is target
            ):
                continue
            raw = rng.integers(0, 256, 40 * source.itemsize).astype(np.uint8)
            if source.bits < 8:
                raw &= (1 << source.bits) - 1
            b = body(i=40)
            b.store(
                b.add(
                    "bitcast", target, (0,), (b.load(raw.view(source.numpy), ["i"], source),), dtype=target
                ),
                ["i"],
            )
            found = b.run()[0].view(np.uint8)
            np.testing.assert_array_equal(
                found, (raw != 0) if target.is_bool else raw, err_msg=f"{source} -> {target}"
            )
            checked += 1
    assert checked > 40


def test_bit_cast_needs_equal_widths(body):
    b = body(i=3)
    b.store(b.op("bitcast", b.load(np.zeros(3, np.float32), ["i"]), dtype=DType("int64")), ["i"])
    with pytest.raises(UnsupportedError, match="32 bits"):
        b.run()
