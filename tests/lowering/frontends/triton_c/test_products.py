"""Products of all element types: what they are made in, with sums that leave 16 bits, on every device against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from ....support.triton_c import TYPES

TEXT = """
__global__ void f(R *out, T *a, T *b) {
  int m[16] = 0 ... 16, k[32] = 0 ... 32, n[8] = 0 ... 8;
  T x[16, 32] = *(a + m[:, newaxis] * 32 + k), y[32, 8] = *(b + k[:, newaxis] * 8 + n);
  R c[16, 8] = 1, d[16, 8] = x @ y;
  c += x @ y;
  *(out + m[:, newaxis] * 8 + n) = c; *(out + 128 + m[:, newaxis] * 8 + n) = d;
  *(out + 256 + m[:, newaxis] * 8 + n) = dot(x, y, (R[16, 8])2);
  *(out + 384 + m[:, newaxis] * 8 + n) = sizeof(x @ y) / (16 * 8);
}
"""
RESULTS = {
    np.int8: np.int32, np.uint8: np.int32, np.int16: np.int16, np.uint16: np.uint16, np.int32: np.int32, np.uint32: np.uint32,
    np.int64: np.int64, np.uint64: np.uint64,
}  # fmt: skip


def product(dtype: Any, name: str, result: Any) -> tuple[jn.kernel.Kernel, np.ndarray, np.ndarray, np.ndarray]:
    kernel = jn.kernel.from_triton_c(TEXT, {"T": name, "R": TYPES[np.dtype(result).name]})
    rng = np.random.default_rng(4)
    if name in ("half", "bfloat16"):
        a, b = rng.integers(-9, 9, (16, 32)).astype(dtype), rng.integers(-9, 9, (32, 8)).astype(dtype)
    else:
        limits = np.iinfo(dtype)
        a = rng.integers(limits.min, limits.max, (16, 32), dtype=dtype, endpoint=True)
        b = rng.integers(limits.min, limits.max, (32, 8), dtype=dtype, endpoint=True)
    wide = np.float64 if name in ("half", "bfloat16") else np.uint64
    found = (a.astype(wide)[:, :, None] * b.astype(wide)).sum(1)
    with np.errstate(over="ignore"):
        one = np.array(1, wide)
        wanted = np.stack([found + one, found, found + one + one]).astype(result)
    return kernel, a, b, wanted


def check(dtype: Any, name: str, result: Any, devices: tuple[str, ...]) -> None:
    kernel, a, b, wanted = product(dtype, name, result)
    for device in devices:
        out = np.zeros((4, 16, 8), result)
        if device == "interpreter":
            kernel.interpret(1, out, a, b)
        else:
            kernel.launch(1, out, a, b, device=device)
        np.testing.assert_array_equal(out[:3], wanted)
        assert (out[3] == np.dtype(result).itemsize).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", RESULTS)
def test_products_of_integers(dtype: Any) -> None:
    check(dtype, TYPES[np.dtype(dtype).name], RESULTS[dtype], ("interpreter", "cpu"))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16])
def test_products_of_integers_simulated(dtype: Any) -> None:
    check(dtype, TYPES[np.dtype(dtype).name], RESULTS[dtype], ("ptxsim",))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "name"), [(np.float16, "half"), (ml_dtypes.bfloat16, "bfloat16")])
def test_products_of_sixteen_bits_are_float(dtype: Any, name: str) -> None:
    check(dtype, name, np.float32, ("interpreter", "cpu", "ptxsim"))


def test_products_of_bytes_are_one_operation() -> None:
    for name in ("char", "unsigned char"):
        kernel, *_ = product(np.int8, name, np.int32)
        assert kernel.ttir.count("tt.dot ") == 3


def test_promises_of_locals_are_not_believed() -> None:
    text = """__global__ void f(%s *y, int n) {
  int i __multipleof(16) = n;
  int j[16] __multipleof(16) = i + 0 ... 16;
  *(y + j) = j %% 16 + i / 16;
}"""
    for type_ in ("int", "half"):
        kernel = jn.kernel.from_triton_c(text % type_ + "\n")
        assert "divisibility" not in kernel.ttir
        for device in ("cpu", "ptxsim"):
            y = np.zeros(40, np.int32 if type_ == "int" else np.float16)
            kernel.launch(1, y, 5, device=device)
            assert y.tolist() == [*[0] * 5, *(each % 16 for each in range(5, 21)), *[0] * 19]
