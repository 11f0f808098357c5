"""Integers in subscripts take elements of blocks, as NumPy's do."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import TYPES, first_problem, run, values

M = "int r[8] = 0 ... 8, q[16] = 0 ... 16, m[8, 16] = (r * 37 % 11)[:, newaxis] * 100 + q;"
R, Q = np.arange(8), np.arange(16)
X = (R * 37 % 11)[:, None] * 100 + Q
TEXT = """
__global__ void f(T *a, T *b, T *c, T *d, T *x, int *idx, int k, unsigned char u, long l) {
  int r[8] = 0 ... 8, q[16] = 0 ... 16;
  int g[4] = *(idx + 0 ... 4);
  T m[8, 16] = *(x + r[:, newaxis] * 16 + q);
  *(a + 0 ... 4) = m[:, k][g];
  *(b + r[:, newaxis] * 4 + 0 ... 4) = m[:, g];
  *c = m[u, l];
  T z[4] = g - 2 >= 0 && g - 2 < 8 ? m[g - 2, 3] : 0;
  *(d + 0 ... 4) = z;
}
"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int8, np.uint16, np.int32, np.int64, np.bool_])
def test_elements_of_every_type_on_every_device(dtype: Any) -> None:
    kernel = jn.kernel.from_triton_c(TEXT, {"T": TYPES[np.dtype(dtype).name]})
    x = np.random.default_rng(3).integers(0, 2 if dtype is np.bool_ else 100, (8, 16)).astype(dtype)
    index = np.array([7, 0, 3, 1], np.int32)
    expected = [x[:, 5][index], x[:, index], x[6, 9:10], np.where(index >= 2, x[np.maximum(index - 2, 0), 3], 0)]
    for device in ("interpreter", "sanitizer", "cpu", "ptxsim"):
        found = [np.zeros(each.shape, dtype) for each in expected]
        arguments = (*found, x, index, 5, 6, 9)
        if device == "interpreter":
            kernel.interpret((1,), *arguments)
        elif device == "sanitizer":
            assert kernel.sanitize((1,), *arguments).findings == ()
        else:
            kernel.launch((1,), *arguments, device=device)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_shapes_are_those_of_numpy() -> None:
    cases = [
        ("m[3, 5]", X[3, 5]), ("m[:, 5]", X[:, 5]), ("m[3, :]", X[3]), ("m[3, :][5]", X[3, 5]), ("m[0 ... 2, 5]", X[:2, 5]),
        ("m[1 ... 3, :]", X[1:3]), ("m[:, 15 - q]", X[:, ::-1]), ("m[r[3], max]", X[3].max()), ("m[+, q[2]]", X.sum(0)[2]),
        ("m[:, newaxis, 7 - r]", X[:, None, 7 - R]), ("m[newaxis, 3, :]", X[None, 3]), ("m[newaxis, 3, 5]", X[None, 3, 5]),
        ("m[7 - r, :][:, 0 ... 4]", X[::-1, :4]), ("(m > 400)[3, 5]", X[3, 5] > 400), ("(m + 1)[r[max], q[min]]", X[7, 0] + 1),
        ("(^m)[2, 7 - r]", X.T[2, ::-1]), ("(0 ... 1)[0]", 0), ("r[4 ... 8][r[0 ... 4]]", R[4:8]),
    ]  # fmt: skip
    found = values([(text, np.shape(value)) for text, value in cases], np.int32, M)
    for (text, expected), value in zip(cases, found, strict=True):
        assert (value == expected).all(), text


def test_blocks_of_pointers() -> None:
    text = "__global__ void f(int *y, int *x) { int *p[8] = x + 0 ... 8; *y = *p[5]; *(y + 1 + 0 ... 2) = *p[6 ... 8]; }"
    assert run(text, 1, np.zeros(3, np.int32), np.arange(10, 18, dtype=np.int32))[0].tolist() == [15, 16, 17]


def test_inactive_lanes_take_no_element() -> None:
    text = """__global__ void f(int *y, int *x, int n) {
  int i[16] = 0 ... 16, t[8] = *(x + 0 ... 8);
  *(y + i) = i >= 4 && i < n ? t[i - 4] : -1;
  if (n > 100) *y = t[n];
  *(y + 1) = n < 8 ? t[n] : 5;
}"""
    x = np.arange(10, 18, dtype=np.int32)
    assert run(text, 1, np.zeros(16, np.int32), x, 12)[0].tolist() == [-1, 5, -1, -1, *range(10, 18), *[-1] * 4]
    kernel = jn.kernel.from_triton_c(text)
    assert kernel.sanitize((1,), np.zeros(16, np.int32), x, 12).findings == ()
    assert [each.count for each in kernel.sanitize((1,), np.zeros(16, np.int32), x, 14).findings] == [2]


def test_an_index_outside_is_found() -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(int *y, int k) { int r[8] = 0 ... 8; *y = r[k]; }")
    y = np.zeros(1, np.int32)
    for index in (-1, 8):
        with pytest.raises(jn.UserError, match=f"index {index} lies outside axis 0, which has 8 elements"):
            kernel.interpret((1,), y, index)
        (finding,) = kernel.sanitize((1,), y, index).findings
        assert (finding.kind, finding.line) == ("out-of-bounds", "<text>:1:63")


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("m[8, 0]", "the index 8 lies outside axis 0 of int[8, 16], which has 8 elements; fix: 0 to 7"),
        ("m[0, -1]", "the index -1 lies outside axis 0 of int[16], which has 16 elements"),
        ("m[r, r]", "two blocks of indices in one subscript"),
        ("m[0.5f, :]", "an index of type float in a subscript of int[8, 16]; fix: an integer, or a cast"),
        ("m[m, :]", "an index of type int[8, 16] in a subscript of int[8, 16], which has several axes"),
        ("m[0]", "the subscript names 1 axes of int[8, 16], which has 2"),
        ("m[0, ^1]", "index beside ^ in one subscript"),
        ("m[0, 0][0]", "a subscript of a value of type int, which is no block"),
        ("m[0:2, :]", "an interval in a subscript of int[8, 16]"),
        ("r[3] = 1", "assign"),
    ],
)
def test_what_means_nothing(expression: str, message: str) -> None:
    assert message in first_problem(f"{M} {expression};")
