"""Conversions against NumPy and ml_dtypes, and against exact rational arithmetic where those round twice."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.llvm import conversions, conversions_fp8, ir
from joinery.promotion.errors import InternalError

from ....support.native_code import HASWELL, MapKernel, assembly, host_has_avx2, map_module

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FP8 = [*conversions_fp8.FORMATS, "float8_e8m0fnu"]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def floats(step: int = 1021) -> np.ndarray:
    """Every step-th bit pattern, every bfloat16 value and its neighbours half a step away (ties)."""
    some = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    high = np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)
    ties = np.concatenate(
        [high, high + np.uint32(0x8000), high + np.uint32(0x7FFF), high + np.uint32(0x8001)]
    )
    return np.concatenate([some, ties]).view(np.float32)


def same_bits_or_nan(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal including signs of zero; NaN equals NaN of any payload."""
    nan = np.isnan(expected.astype(np.float64))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float64)), nan)
    integer = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(got.view(integer)[~nan], expected.view(integer)[~nan])


HASWELL_FEATURES = frozenset({"sse2", "sse4.1", "avx", "avx2", "fma", "f16c"})
"""Features that emitters make use of."""


def on_all_targets(emit, inputs, output, lanes=16):
    yield MapKernel(emit, inputs, output, lanes)
    yield MapKernel(emit, inputs, output, 1)
    if host_has_avx2():
        yield MapKernel(emit, inputs, output, 8, HASWELL)
        yield MapKernel(emit, inputs, output, 8, HASWELL, HASWELL_FEATURES)


def round_to_format(value: float, precision: int, smallest: int, largest: float) -> float:
    """Nearest value with `precision` bits, multiples of 2^smallest, ties to even, exactly; the witness for
    single rounding.
    """
    if value == 0 or not math.isfinite(value):
        return value
    exact = Fraction(value)
    exponent = max(math.frexp(value)[1] - precision, smallest)
    scaled = exact / Fraction(2) ** exponent
    result = float(round(scaled) * Fraction(2) ** exponent)
    if abs(result) > largest:
        result = math.inf
    return math.copysign(result, value)


def to_half(value: float) -> float:
    return round_to_format(value, 11, -24, 65504.0)


def to_bfloat(value: float) -> float:
    return round_to_format(value, 8, -133, 2.0**128 - 2.0**120)


# -- bfloat16, float16, tf32 ---------------------------------------------------


@pytest.mark.slow
def test_float_to_bfloat():
    x = floats()
    for kernel in on_all_targets(conversions.float_to_bfloat, ["float"], "bfloat"):
        same_bits_or_nan(kernel(x).view(BFLOAT16), x.astype(BFLOAT16))
    for kernel in on_all_targets(conversions.float_to_bfloat_bits, ["float"], "i16"):
        same_bits_or_nan(kernel(x).view(BFLOAT16), x.astype(BFLOAT16))
    for kernel in on_all_targets(conversions.round_to_bfloat, ["float"], "float"):
        same_bits_or_nan(kernel(x), x.astype(BFLOAT16).astype(np.float32))


def test_bfloat_nan_keeps_sign_and_becomes_quiet():
    signalling = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF], np.uint32).view(np.float32)
    got = MapKernel(conversions.float_to_bfloat_bits, ["float"], "i16")(signalling).view(np.uint16)
    assert [hex(v) for v in got] == ["0x7fc0", "0xffc0", "0x7fff"]


def test_bfloat_to_float():
    bits = np.arange(1 << 16, dtype=np.uint16)
    expected = bits.view(BFLOAT16).astype(np.float32)
    for kernel in on_all_targets(conversions.bfloat_to_float, ["bfloat"], "float"):
        same_bits_or_nan(kernel(bits), expected)
    for kernel in on_all_targets(conversions.bfloat_bits_to_float, ["i16"], "float"):
        same_bits_or_nan(kernel(bits), expected)


@pytest.mark.slow
def test_half_both_ways():
    x = floats()
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    middle = np.concatenate(
        [halves.astype(np.float32), (halves.astype(np.float32) * 1.00048828125).astype(np.float32)]
    )
    x = np.concatenate([x, middle, np.array([65504, 65519.99, 65520, 2.0**-25, 2.0**-24 * 1.5], np.float32)])
    for kernel in on_all_targets(conversions.float_to_half, ["float"], "half"):
        same_bits_or_nan(kernel(x), x.astype(np.float16))
    for kernel in on_all_targets(conversions.half_to_float, ["half"], "float"):
        same_bits_or_nan(kernel(halves), halves.astype(np.float32))


def doubles_near_ties() -> np.ndarray:
    """Doubles a hair beside the midpoints of half and bfloat, where rounding through float goes wrong; and
    all magnitudes.
    """
    rng = np.random.default_rng(0)
    half = np.arange(0, 0x7C00, 37, dtype=np.uint16).view(np.float16).astype(np.float64)
    brain = (np.arange(0, 0x7F80, 29, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    ties = np.concatenate(
        [half + np.spacing(half.astype(np.float16)).astype(np.float64) / 2, brain * (1 + 2.0**-8)]
    )
    beside = np.concatenate(
        [ties, np.nextafter(ties, np.inf), np.nextafter(ties, -np.inf), ties * (1 + 2.0**-40)]
    )
    wide = np.ldexp(rng.uniform(-1, 1, 20_000), rng.integers(-160, 140, 20_000))
    edges = [
        0,
        -0.0,
        np.inf,
        -np.inf,
        np.nan,
        65519.999999999,
        65520,
        3.3961775292304e38,
        3.4e38,
        1e300,
        5e-324,
    ]
    edges += [2.0**-25, 2.0**-25 * (1 + 2.0**-40), 2.0**-134, 2.0**-134 * (1 + 2.0**-40), 1e-200]
    return np.concatenate([beside, -beside, wide, edges])


@pytest.mark.slow
def test_double_to_16_bit_floats_rounds_once():
    x = doubles_near_ties()
    naive = x.astype(np.float32).astype(np.float16)
    half = np.array([to_half(v) for v in x.tolist()])
    assert np.sum(naive.astype(np.float64) != half) > 10, "the samples must tell single from double rounding"
    for kernel in on_all_targets(conversions.double_to_half, ["double"], "half", 8):
        same_bits_or_nan(kernel(x), half.astype(np.float16))
        same_bits_or_nan(kernel(x), x.astype(np.float16))
    brain = np.array([to_bfloat(v) for v in x.tolist()]).astype(np.float32).astype(BFLOAT16)
    for kernel in on_all_targets(conversions.double_to_bfloat, ["double"], "bfloat", 8):
        same_bits_or_nan(kernel(x).view(BFLOAT16), brain)
    for target, expected in (("f16", half), ("bf16", brain), ("f32", x)):
        kernel = MapKernel(lambda fn, v, t=target: conversions.round_double(fn, v, t), ["double"], "float", 8)
        same_bits_or_nan(kernel(x), expected.astype(np.float32))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("source", ["half", "bfloat", "float", "double"])
@pytest.mark.parametrize("target", ["half", "bfloat", "float", "double"])
def test_convert_float_between_any_two(source, target):
    numpy_type = {"half": np.float16, "bfloat": BFLOAT16, "float": np.float32, "double": np.float64}
    x = doubles_near_ties()
    rounder = {"half": to_half, "bfloat": to_bfloat}
    if source != "double":
        x = x.astype(np.float32).astype(numpy_type[source])
    values = x.astype(np.float64).tolist()
    expected = np.array([rounder[target](v) for v in values]) if target in rounder else np.array(values)
    expected = (
        expected.astype(np.float32).astype(numpy_type[target])
        if target in rounder
        else x.astype(numpy_type[target])
    )
    kernel = MapKernel(lambda fn, v: conversions.convert_float(fn, v, target), [source], target, 8)
    given = x.view(np.uint16) if source == "bfloat" else x
    same_bits_or_nan(kernel(given).view(numpy_type[target]), expected)


@pytest.mark.slow
def test_round_to_tf32():
    x = floats()
    bits = x.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000).astype(np.uint32).view(np.float32)
    values = [v for v in x[::97].tolist() if math.isfinite(v)]
    witness = np.array([round_to_format(v, 11, -136, 3.4011621342146535e38) for v in values], np.float32)
    for kernel in on_all_targets(conversions.round_to_tf32, ["float"], "float"):
        same_bits_or_nan(kernel(x), np.where(np.isnan(x), x, rounded))
        same_bits_or_nan(kernel(np.array(values, np.float32)), witness)


def test_python_values_round_like_the_instructions():
    x = doubles_near_ties()
    for value in x[::7].tolist():
        for got, expected in (
            (conversions.half_value(value), to_half(value)),
            (conversions.bfloat_value(value), to_bfloat(value)),
        ):
            assert got == expected or (got != got and expected != expected), value
            assert math.copysign(1, got) == math.copysign(1, expected) or value != value


# -- 8-bit floats -----------------------------------------------------------------


def fp8_inputs(name: str) -> np.ndarray:
    """Dense patterns, all bfloat16, and every midpoint of the format with its float32 neighbours."""
    values = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name)).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    middle = ((values[1:].astype(np.float64) + values[:-1]) / 2).astype(np.float32)
    top = np.float32(values[-1] * 2)
    around = [
        middle,
        np.nextafter(middle, np.float32(np.inf)),
        np.nextafter(middle, np.float32(-np.inf)),
        values,
    ]
    return np.concatenate([floats(), *around, np.linspace(values[-1], top, 1001, dtype=np.float32)])


def nearest_scale(x: np.ndarray, converted: np.ndarray) -> np.ndarray:
    """ml_dtypes takes float32 denormals just above 2^-127 to 2^-126 in float8_e8m0fnu; the nearest is
    2^-127.
    """
    if converted.dtype == ml_dtypes.float8_e8m0fnu:
        converted[(x > 2.0**-127) & (x < 1.5 * 2.0**-127)] = 2.0**-127
    return converted


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", FP8)
def test_float_to_fp8_equals_ml_dtypes(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = fp8_inputs(name)
    expected = nearest_scale(x, x.astype(dtype))
    for kernel in on_all_targets(
        lambda fn, v: conversions_fp8.float_to_fp8(fn, v, name, saturate=False), ["float"], "i8"
    ):
        np.testing.assert_array_equal(kernel(x).view(np.uint8), expected.view(np.uint8))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", FP8)
def test_float_to_fp8_saturates(name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    limit = np.float32(ml_dtypes.finfo(dtype).max)
    x = fp8_inputs(name)
    expected = np.where(np.isnan(x), x, np.clip(x, -limit, limit)).astype(np.float32).astype(dtype)
    expected = nearest_scale(x, expected)
    kernel = MapKernel(lambda fn, v: conversions_fp8.float_to_fp8(fn, v, name), ["float"], "i8")
    np.testing.assert_array_equal(kernel(x).view(np.uint8), expected.view(np.uint8))


@pytest.mark.parametrize("name", FP8)
def test_fp8_to_float_equals_ml_dtypes(name):
    bits = np.arange(256, dtype=np.uint8)
    expected = bits.view(getattr(ml_dtypes, name)).astype(np.float32)
    for kernel in on_all_targets(lambda fn, v: conversions_fp8.fp8_to_float(fn, v, name), ["i8"], "float"):
        same_bits_or_nan(kernel(bits), expected)


BLOCK_NAMES = {
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
    "f8E3M4": "float8_e3m4",
}


@pytest.mark.parametrize("name", sorted(BLOCK_NAMES))
def test_convert_fp8_from_double_rounds_once_and_toward_zero(name):
    dtype = np.dtype(getattr(ml_dtypes, BLOCK_NAMES[name]))
    codes = np.arange(256, dtype=np.uint8)
    values = codes.view(dtype).astype(np.float64)
    codes, values = codes[np.isfinite(values)], values[np.isfinite(values)]
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    middle = (ordered[1:] + ordered[:-1]) / 2
    x = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf), ordered])
    # Nearest by exact search (these sums of few bits are exact); a tie goes to the even code.
    distance = np.abs(x[:, None] - values[None, :])
    best = distance == distance.min(axis=1, keepdims=True)
    near = np.argmax(best * (1 + (codes % 2 == 0)[None, :]), axis=1)
    got = MapKernel(lambda fn, v: conversions.convert_fp8(fn, v, "f64", name), ["double"], "i8", 8)(x)
    np.testing.assert_array_equal(got.view(dtype).astype(np.float64), values[near])
    toward = np.where(
        (np.abs(values)[None, :] <= np.abs(x)[:, None]) & (values * np.sign(x)[:, None] >= 0),
        distance,
        np.inf,
    )
    got = MapKernel(lambda fn, v: conversions.convert_fp8(fn, v, "f64", name, "rtz"), ["double"], "i8", 8)(x)
    np.testing.assert_array_equal(got.view(dtype).astype(np.float64), values[np.argmin(toward, axis=1)])


def test_convert_fp8_to_wider_and_to_other_fp8():
    bits = np.arange(256, dtype=np.uint8)
    values = bits.view(ml_dtypes.float8_e5m2)
    for target, output, expected in (
        ("f64", "double", values.astype(np.float64)),
        ("f32", "float", values.astype(np.float32)),
        ("f16", "float", values.astype(np.float32)),
        ("bf16", "float", values.astype(np.float32)),
    ):
        kernel = MapKernel(
            lambda fn, v, t=target: conversions.convert_fp8(fn, v, "f8E5M2", t), ["i8"], output
        )
        same_bits_or_nan(kernel(bits), expected)
    kernel = MapKernel(lambda fn, v: conversions.convert_fp8(fn, v, "f8E5M2", "f8E4M3FN"), ["i8"], "i8")
    wide = values.astype(np.float32)
    expected = (
        np.where(np.isnan(wide), wide, np.clip(wide, -448, 448))
        .astype(np.float32)
        .astype(ml_dtypes.float8_e4m3fn)
    )
    np.testing.assert_array_equal(kernel(bits).view(np.uint8), expected.view(np.uint8))
    scale = MapKernel(lambda fn, v: conversions.convert_fp8(fn, v, "f8E8M0FNU", "f16"), ["i8"], "float")(bits)
    expected = bits.view(ml_dtypes.float8_e8m0fnu).astype(np.float32).astype(np.float16).astype(np.float32)
    same_bits_or_nan(scale, expected)


# -- integers -------------------------------------------------------------------


def saturated(x: np.ndarray, bits: int, signed: bool) -> np.ndarray:
    """Truncation by Python's integers, clamped; NaN → 0."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    out = []
    for v in x.astype(np.float64).tolist():
        if v != v:
            out.append(0)
        elif math.isinf(v):
            out.append(high if v > 0 else low)
        else:
            out.append(min(max(math.trunc(v), low), high))
    return np.array(out, dtype=f"{'i' if signed else 'u'}{bits // 8}")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("source", ["half", "float", "double"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_float_to_int_saturates(source, bits, signed):
    rng = np.random.default_rng(bits)
    dtype = {"half": np.float16, "float": np.float32, "double": np.float64}[source]
    powers = np.ldexp(1.0, np.arange(0, 66))
    edges = np.concatenate(
        [powers, powers - 1, powers + 1, powers - 0.5, powers * (1 - 2.0**-24), powers * (1 - 2.0**-53)]
    )
    spread = np.ldexp(rng.uniform(-1, 1, 2000), rng.integers(-3, 70, 2000))
    x = np.concatenate(
        [edges, -edges, spread, [0.0, -0.0, 0.9, -0.9, np.inf, -np.inf, np.nan, 1e-45, 3e38]]
    ).astype(dtype)
    kernels = on_all_targets(
        lambda fn, v: conversions.float_to_int_saturating(fn, v, f"i{bits}", signed), [source], f"i{bits}"
    )
    expected = saturated(x, bits, signed)
    for kernel in kernels:
        np.testing.assert_array_equal(kernel(x).view(expected.dtype), expected)


def integers(bits: int, signed: bool) -> np.ndarray:
    rng = np.random.default_rng(bits)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    values = {low, high, low + 1, high - 1, 0, 1, high // 3}
    for exponent in range(bits):
        for precision in (8, 11, 24, 53):  # ties of the target formats and their neighbours
            half = 1 << max(exponent - precision, 0)
            odd = int(rng.integers(0, 1 << min(precision, exponent + 1))) if exponent else 0
            center = (1 << exponent) + odd * 2 * half + half
            values |= {center - 1, center, center + 1, -center, -center - 1, -center + 1}
    dtype = f"{'i' if signed else 'u'}{bits // 8}"
    return np.array(sorted(v for v in values if low <= v <= high), dtype=dtype)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@pytest.mark.parametrize("signed", [True, False])
def test_int_to_float_rounds_once(bits, signed):
    x = integers(bits, signed)
    numbers = [int(v) for v in x]

    def rounded(precision: int, smallest: int, largest: float) -> np.ndarray:
        result = []
        for number in numbers:
            exponent = max(number.bit_length() - precision, smallest, 0)
            value = float(round(Fraction(number, 1 << exponent)) * (1 << exponent))
            result.append(value if abs(value) <= largest else math.copysign(math.inf, value))
        return np.array(result)

    for target, output, expected in (
        ("f64", "double", rounded(53, 0, math.inf)),
        ("f32", "float", rounded(24, 0, math.inf)),
        ("bf16", "float", rounded(8, 0, math.inf)),
        ("f16", "float", rounded(11, 0, 65504.0)),
    ):
        emit = lambda fn, v, t=target: conversions.int_to_float(fn, v, t, signed)  # noqa: E731
        for kernel in on_all_targets(emit, [f"i{bits}"], output):
            np.testing.assert_array_equal(kernel(x).astype(np.float64), expected, err_msg=target)


def test_bool_to_and_from_float():
    x = np.array([0, 1, 5, -3], np.int8)
    kernel = MapKernel(
        lambda fn, v: conversions.int_to_float(fn, fn.icmp("ne", v, ir.const(0, v.type)), "f16", False),
        ["i8"],
        "float",
        4,
    )
    np.testing.assert_array_equal(kernel(x), [0, 1, 1, 1])


# -- code and misuse ----------------------------------------------------------------


@pytest.mark.skipif(not host_has_avx2(), reason="needs an x86-64 CPU with AVX2")
@pytest.mark.parametrize("cpu", [None, HASWELL])
def test_half_conversions_are_instructions(cpu):
    for emit, inputs, output in (
        (conversions.float_to_half, ["float"], "half"),
        (conversions.half_to_float, ["half"], "float"),
        (conversions.double_to_half, ["double"], "half"),
        (conversions.double_to_bfloat, ["double"], "bfloat"),
    ):
        for lanes in (1, 8, 16):
            assert "call" not in assembly(map_module(emit, inputs, output, lanes), cpu)


def test_misuse_is_reported():
    fn = ir.Function(ir.Module(), "f", [])
    x, i, d = ir.V("%x", "<4 x float>"), ir.V("%i", "<4 x i32>"), ir.V("%d", "double")
    with pytest.raises(InternalError, match="expected lanes of float"):
        conversions.float_to_bfloat(fn, d)
    with pytest.raises(InternalError, match="'i32'"):
        conversions.convert_float(fn, x, "i32")
    with pytest.raises(InternalError, match="i24"):
        conversions.float_to_int_saturating(fn, x, "i24", True)
    with pytest.raises(InternalError, match="not f32, f16 or bf16"):
        conversions.int_to_float(fn, i, "f8E5M2", True)
    with pytest.raises(InternalError, match="not an 8-bit float"):
        conversions_fp8.float_to_fp8(fn, x, "float8_e9m9")
    with pytest.raises(InternalError, match="takes i8 lanes"):
        conversions_fp8.fp8_to_float(fn, i, "float8_e5m2")
    with pytest.raises(InternalError, match="neither rtne nor rtz"):
        conversions.convert_fp8(fn, x, "f32", "f8E5M2", "up")
