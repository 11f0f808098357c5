"""Words of launches: numbers as bits, and bits as the bytes of a parameter."""

from __future__ import annotations

import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.promotion.errors import InternalError
from joinery.runtime.gpu import PARAMETER_BYTES, argument_bytes, to_bits


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("i8", np.bool_(True), b"\1"), ("i8", np.int8(-1), b"\xff"), ("i16", np.int16(-2), b"\xfe\xff"),
        ("i32", np.int32(-3), struct.pack("<i", -3)), ("i64", np.int64(-4), struct.pack("<q", -4)),
        ("half", np.float16(1.5), struct.pack("<e", 1.5)), ("bfloat", ml_dtypes.bfloat16(1.5), b"\xc0\x3f"),
        ("float", np.float32(-0.1), struct.pack("<f", -0.1)), ("double", np.float64(0.1), struct.pack("<d", 0.1)),
    ],
)  # fmt: skip
def test_numbers_become_the_bytes_of_their_parameter(type_: str, value: Any, expected: bytes) -> None:
    assert argument_bytes(type_, to_bits(value)) == expected
    assert len(expected) == PARAMETER_BYTES[type_]


def test_signed_words_are_taken_as_they_are_stored() -> None:
    assert argument_bytes("i32", -1) == argument_bytes("i32", (1 << 32) - 1) == b"\xff" * 4


@pytest.mark.parametrize("word", [1 << 32, -(1 << 31) - 1])
def test_words_that_do_not_fit_are_refused(word: int) -> None:
    with pytest.raises(InternalError, match=f"value {word} for a parameter of type i32"):
        argument_bytes("i32", word)
    with pytest.raises(InternalError, match="a kernel's parameter of type x86_fp80 has no known size"):
        argument_bytes("x86_fp80", 0)
