"""Literals become the nearest value of a dtype, rounded once."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joinery import DType
from joinery.graph.constants import nearest, scalar_array

from ..support.tiers import examples

FORMATS: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn, "float8_e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


def neighbours(value: float, dtype: str) -> list[Fraction]:
    """The values of the dtype around a number, found by trying every candidate next to NumPy's conversion."""
    kind = FORMATS[dtype]
    start = np.asarray(value).astype(kind)
    width = start.dtype.itemsize
    bits = int.from_bytes(start.tobytes(), "little")
    found = []
    for candidate in (bits - 1, bits, bits + 1):
        if 0 <= candidate < 256**width:
            number = float(np.frombuffer(candidate.to_bytes(width, "little"), start.dtype)[0])
            if np.isfinite(number):
                found.append(Fraction(number))
    return found


@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(FORMATS)), st.floats(-400, 400) | st.floats(-1e-4, 1e-4) | st.integers(-448, 448)
)
def test_no_value_of_the_dtype_is_nearer(dtype: str, value: float) -> None:
    result = Fraction(nearest(value, DType(dtype)))
    exact = Fraction(value)
    assert all(abs(result - exact) <= abs(other - exact) for other in neighbours(float(value), dtype))
    stored = scalar_array(value, DType(dtype))
    assert Fraction(float(stored)) == result
    assert stored.dtype == FORMATS[dtype]


def test_double_rounding_is_avoided() -> None:
    """1 + 2**-11 + 2**-40 is above the tie of float16; through float32 it would fall onto the tie and round to even."""
    value = 1 + 2.0**-11 + 2.0**-40
    assert nearest(value, DType("float16")) == 1 + 2.0**-10
    assert float(np.float16(np.float32(value))) == 1.0
    large = 2**63 + 2**39 + 1  # as float64 it is the tie of float32
    assert nearest(large, DType("float32")) == 2.0**63 + 2.0**40


@pytest.mark.parametrize("value", [0.0, -0.0, float("inf"), float("-inf"), float("nan")])
def test_special_values_stay(value: float) -> None:
    result = scalar_array(value, DType("bfloat16")).astype(np.float64)
    assert np.array_equal(result, value, equal_nan=True)
    assert np.signbit(result) == np.signbit(value)


def test_ties_go_to_even_and_subnormals_are_kept() -> None:
    assert nearest(2049, DType("float16")) == 2048
    assert nearest(2051, DType("float16")) == 2052
    assert nearest(2.0**-24, DType("float16")) == 2.0**-24
    assert nearest(2.0**-25, DType("float16")) == 0.0
    assert nearest(1 + 2.0**-10 + 2.0**-11, DType("tensor_float32")) == 1 + 2.0**-9


@pytest.mark.parametrize(
    ("value", "dtype"), [(True, "bool"), (-128, "int8"), (2**64 - 1, "uint64"), (-8, "int4"), (3, "index")]
)
def test_integers_are_exact(value: int, dtype: str) -> None:
    assert int(scalar_array(value, DType(dtype))) == value
