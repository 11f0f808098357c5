"""Weak Python scalars: the dtype they take, values that do not fit, exactness against NumPy."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from joinery.promotion import DTYPES, DType, UserError, check_literal, rules

from ..support.tiers import examples

MAX = rules("max")
PROMOTE = MAX.promote
FLOATS = [d for d in DTYPES.values() if d.is_float]


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        (("int8", 1), "int8"),
        (("uint8", 255), "uint8"),
        (("int8", True), "int8"),
        (("float16", 0.0), "float16"),
        (("float16", 7), "float16"),
        (("bfloat16", 0.1), "bfloat16"),
        (("bool", True), "bool"),
        (("bool", 1), "int64"),
        (("bool", 1.5), "float32"),
        (("int8", 1.5), "float32"),
        (("int64", 1.5), "float32"),
        (("uint64", 2**64 - 1), "uint64"),
        (("index", 3), "index"),
        (("index", 0.5), "float32"),
        (("float64", 1e300), "float64"),
        (("tensor_float32", 1), "tensor_float32"),
        (("int8", "int16", 300), "int16"),
        (("int8", "bfloat16", 300), "bfloat16"),
        (("int8", 1, 2.5), "float32"),
        (("float8_e4m3fn", 2.0), "float8_e4m3fn"),
        (("int4", 7), "int4"),
        ((1,), "int64"),
        ((True,), "bool"),
        ((1.0,), "float32"),
        ((1, 2.0, True), "float32"),
        ((True, False), "bool"),
    ],
)
def test_what_literals_take(operands, expected):
    assert PROMOTE(*operands).name == expected
    for order in itertools.permutations(operands):
        assert PROMOTE(*order).name == expected


@pytest.mark.parametrize(
    ("dtype", "value", "message"),
    [
        ("int8", 300, r"literal 300 does not fit int8, whose range is \[-128, 127\]; fix: .*\.cast\(int16\)"),
        ("int8", -129, r"\.cast\(int16\)"),
        ("uint8", -1, r"does not fit uint8, whose range is \[0, 255\]; fix: .*\.cast\(int16\)"),
        ("uint8", 256, r"\.cast\(int16\)|\.cast\(uint16\)"),
        (
            "float16",
            1e30,
            r"does not fit float16, whose range is \[-65504, 65504\]; fix: .*\.cast\(float32\)",
        ),
        ("float16", 65520.0, r"\.cast\(float32\)"),
        ("float16", 70000, r"\.cast\(float32\)"),
        ("bfloat16", 1e300, r"\.cast\(float64\)"),
        ("float32", 1e39, r"\.cast\(float64\)"),
        ("uint64", -1, r"does not fit uint64"),
        ("index", -1, "does not fit index"),
        ("bool", 2**63, r"does not fit int64.*\.cast\(uint64\)"),
        ("int8", 1e39, "does not fit float32"),
        ("int64", 2**70, r"does not fit int64"),
        ("float64", 10**400, "does not fit float64.*no dtype holds"),
        ("float8_e4m3fn", math.inf, "does not fit float8_e4m3fn"),
        ("float8_e8m0fnu", -1.0, "does not fit float8_e8m0fnu"),
        ("int8", 1j, "complex scalars"),
    ],
)
def test_literals_that_do_not_fit(dtype, value, message):
    with pytest.raises(UserError, match=message):
        PROMOTE(dtype, value)


def test_the_op_is_named():
    with pytest.raises(UserError, match=r"^add: literal 300 does not fit int8"):
        check_literal(300, DType("int8"), "add")
    with pytest.raises(UserError, match=r"float 1\.5 cannot become int8"):
        check_literal(1.5, DType("int8"))


@pytest.mark.parametrize("dtype", [d for d in FLOATS if d.has_infinity], ids=str)
def test_infinities_and_nan_are_fine_for_floats(dtype):
    for value in (math.inf, -math.inf, math.nan):
        assert check_literal(value, dtype) == "exact"


def test_numpy_arrays_are_strong_and_numpy_scalars_weak():
    assert PROMOTE("float16", np.float64(1.0)).name == "float16"
    assert PROMOTE("float16", np.array(1.0)).name == "float64"
    assert PROMOTE("int8", np.array([1, 2], np.int64)).name == "int64"
    assert PROMOTE(np.zeros(2, np.int8), ml_dtypes.bfloat16(1)).name == "float32"
    with pytest.raises(UserError, match=r"literal 1e\+30 does not fit float16"):
        PROMOTE("float16", np.float64(1e30))
    with pytest.raises(UserError, match="no joinery dtype"):
        PROMOTE("int8", np.array(["text"]))


def test_exactness_by_round_trip():
    f32, f16 = DType("float32"), DType("float16")
    assert check_literal(16777218, f32) == "exact"
    assert check_literal(16777217, f32) == "rounding"
    assert check_literal(0.1, f32) == "rounding"
    assert check_literal(0.5, f16) == "exact"
    assert check_literal(65519.0, f16) == "rounding"
    assert check_literal(5e-324, DType("float64")) == "exact"
    assert check_literal(5e-324, f32) == "rounding"
    assert check_literal(-0.0, f16) == "exact"
    assert check_literal(2**63, f32) == "exact"
    assert check_literal(255, DType("uint8")) == "exact"


WITNESSED = [d for d in FLOATS if d.name not in ("tensor_float32", "float8_e8m0fnu")]


@settings(max_examples=examples(400))
@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(WITNESSED))
@example(65519.999, DType("float16"))
@example(3.4028235677973366e38, DType("float32"))
@example(1.5 * 2.0**-149, DType("float32"))
def test_floats_fit_and_round_as_numpy_converts(value, dtype):
    with np.errstate(all="ignore"):
        converted = float(np.array(value, np.float64).astype(dtype.numpy).astype(np.float64))
    overflowed = not math.isfinite(converted)
    if not dtype.has_infinity and not dtype.has_nan:  # packed formats saturate
        overflowed = abs(value) >= dtype.max_value + 2.0 ** (
            math.frexp(dtype.max_value)[1] - 2 - dtype.mantissa_bits
        )
    try:
        loss = check_literal(value, dtype)
    except UserError:
        limit = dtype.max_value + 2.0 ** (math.frexp(dtype.max_value)[1] - 2 - dtype.mantissa_bits)
        assert overflowed or abs(value) == limit
    else:
        assert not overflowed
        assert (loss == "exact") == (converted == value)


@settings(max_examples=examples(300))
@given(st.integers(-(2**70), 2**70), st.sampled_from([d for d in DTYPES.values() if d.is_integer]))
def test_integers_fit_as_python_says(value, dtype):
    low, high = (
        (0, 2**dtype.bits - 1)
        if dtype.kind == "uint"
        else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
    )
    if low <= value <= high:
        assert check_literal(value, dtype) == "exact"
    else:
        with pytest.raises(UserError, match="does not fit"):
            check_literal(value, dtype)
