"""Constant memory: tables and constants outside of functions, on every device, against NumPy; and what is wrong with them."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import TYPES, problems, run

TABLES = """
__constant__ T weights[] = {1, 2, 3, 4, 5, 6, 7};
static const T grid[3, 4] = {{10, 11, 12, 13}, {20, 21}, {30, 31, 32, 33}};
T second(int i[16])[16] { return grid[i % 3, i % 4]; }
__global__ void f(T *y, int k) {
  int i[16] = 0 ... 16;
  *(y + i) = i < 7 ? weights[i] : 0;
  *(y + 16 + i) = second(i);
  *(y + 32) = grid[1, k]; *(y + 33) = weights[2]; *(y + 34) = *(weights + k); *(y + 35) = sizeof weights / sizeof(T);
  const T *p[4] = grid[0 ... 1, 0 ... 1] > 0 ? weights + (0 ... 4) : grid;
  *(y + 36 + 0 ... 4) = *p;
}
"""
WEIGHTS = np.arange(1, 8)
GRID = np.array([[10, 11, 12, 13], [20, 21, 0, 0], [30, 31, 32, 33]])


def on(device: str, kernel: jn.kernel.Kernel, *args: Any) -> None:
    """Run one program of a kernel."""
    if device == "interpreter":
        kernel.interpret(1, *args)
    elif device == "sanitizer":
        assert kernel.sanitize(1, *args).findings == ()
    else:
        kernel.launch(1, *args, device=device)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_tables_of_every_type_on_every_device(dtype: Any) -> None:
    kernel = jn.kernel.from_triton_c(TABLES, {"T": TYPES[np.dtype(dtype).name]})
    i = np.arange(16)
    wanted = np.r_[WEIGHTS, [0] * 9, GRID[i % 3, i % 4], GRID[1, 1], 3, 2, 7, WEIGHTS[:4]].astype(dtype)
    for device in ("interpreter", "sanitizer", "cpu", "ptxsim"):
        y = np.zeros(40, dtype)
        on(device, kernel, y, 1)
        np.testing.assert_array_equal(y, wanted)
    assert [each.name for each in kernel.parameters] == ["y", "k", "weights", "grid"]


def test_values_are_computed_in_their_types() -> None:
    text = """enum { A = 5 };
#define THIRD 1.0f / 3
const double d[6] = {1.0 / 3, THIRD, -(2.5 + A), (float)0.1, 7 / 2 * 2, 1L << 40};
const half h[2] = {0.1, 65504.0 * 2};
const bfloat16 b[1] = {0.1};
const bool t[3] = {2, 0, A > 3};
const unsigned char u[3] = {300, -1, 'a'};
__global__ void f(double *y) {
  *(y + 0 ... 4) = d[0 ... 4]; *(y + 4 + 0 ... 2) = d[4 ... 6]; *(y + 6 + 0 ... 2) = h[0 ... 2]; *(y + 8) = b[0];
  *(y + 9) = t[0]; *(y + 10) = t[1]; *(y + 11) = t[2]; *(y + 12) = u[0]; *(y + 13) = u[1]; *(y + 14) = u[2];
}"""
    third = float(np.float32(1) / np.float32(3))
    wanted = [1 / 3, third, -7.5, float(np.float32(0.1)), 6, float(1 << 40), float(np.float16(0.1)), np.inf, 0.10009765625,
              1, 0, 1, 44, 255, 97]  # fmt: skip
    assert run(text, 1, np.zeros(15))[0].tolist() == wanted


def test_constants_outside_of_functions_are_extents_and_values() -> None:
    text = """
const int N = 2 * 4, M = N * 2;
__constant__ float EPS = 0.5f;
typedef int row[M];
__global__ void f(float *y) { row i = 0 ... M; int j[N] = 0 ... N; *(y + i) = i * EPS; *(y + M + j) = j; }"""
    assert run(text, 1, np.zeros(24, np.float32))[0].tolist() == [*(np.arange(16) / 2), *range(8)]


FILLED = """
__constant__ char *AD = calloc(64);
__constant__ float *table = calloc(4 * sizeof(float));
__global__ void f(float *y, int k) { *y = *((const int*)AD + k); *(y + 1) = table[k]; *(y + 2) = *(table + k - 1); }
"""


@pytest.mark.parametrize("device", ["interpreter", "sanitizer", "cpu", "ptxsim"])
def test_the_host_fills_tables_in(device: str) -> None:
    kernel = jn.kernel.from_triton_c(FILLED)
    y = np.ones(3, np.float32)
    on(device, kernel, y, 2)
    assert y.tolist() == [0, 0, 0]
    kernel.constants["AD"].view(np.int32)[:] = np.arange(16) * 7
    kernel.constants["table"][:] = [1, 2, 3, 4]
    on(device, kernel, y, 2)
    assert y.tolist() == [14, 3, 2]
    own = np.ones(64, np.int8), np.full(4, 9, np.float32)
    on(device, kernel, y, 1, *own)
    assert y.tolist() == [float(np.float32(0x01010101)), 9, 9]


def test_tuned_kernels_read_tables() -> None:
    text = "__constant__ int t[2] = {3, 4}; __global__ void f(int *y, int n) { *(y + 0 ... B) = t[n]; }\n"
    kernel = jn.kernel.tune(text, {"B": [2, 4]}, lock=None, progress=False)
    y = np.zeros(4, np.int32)
    kernel.launch(1, y, 1)
    assert y[:2].tolist() == [4, 4]
    filled = jn.kernel.tune(FILLED.replace("*y =", "*y = B - B +"), {"B": [1]}, lock=None, progress=False)
    z = np.zeros(3, np.float32)
    filled.launch(1, z, 1, np.zeros(64, np.int8), np.full(4, 5, np.float32))
    assert z.tolist() == [0, 5, 5]


def test_what_the_text_gives_cannot_be_changed() -> None:
    body = "*((int*)t) = 5; *y = t[0];"
    kernel = jn.kernel.from_triton_c(f"__constant__ int t[2] = {{3, 4}};\n__global__ void f(int *y) {{ {body} }}\n")
    assert not kernel.constants["t"].flags.writeable
    with pytest.raises(jn.UserError, match=r"parameter t of type .* is read-only"):
        kernel.launch(1, np.zeros(1, np.int32))


def test_reads_outside_are_found() -> None:
    text = "__constant__ int t[5] = {1};\n__global__ void f(int *y, int k) {\n  *y = t[k];\n  *(y + 1) = *(t + k - 5);\n}\n"
    kernel = jn.kernel.from_triton_c(text)
    y = np.zeros(2, np.int32)
    assert kernel.sanitize(1, y, 5).findings[0].line == "<text>:3:9"
    findings = kernel.sanitize(1, y, 4).findings
    assert [(each.kind, each.line) for each in findings] == [("out-of-bounds", "<text>:4:14")]
    with pytest.raises(jn.UserError, match="element 5 of array 't' is read, which has elements 0 … 4"):
        kernel.interpret(1, y, 5)
    with pytest.raises(jn.UserError, match="element 5 of array 't' is read, which has elements 0 … 4"):
        kernel.launch(1, y, 5, check_bounds=True)


def test_tables_that_nobody_reads_are_no_parameters() -> None:
    text = "__constant__ int t[2] = {3, 4}; int used(int k) { return t[k]; }\n__global__ void f(int *y) { *y = 3; }\n"
    assert len(jn.kernel.from_triton_c(text).parameters) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("int q = 3;", "1:5: error: q is a variable outside of functions; fix: __constant__ before it"),
        ("__constant__ int t;", "1:18: error: t of type int in constant memory has no values"),
        ("__constant__ int *t;", "1:19: error: t of type const int* in constant memory has no values"),
        ("__constant__ int t[4];", "1:18: error: table t has no values"),
        ("__constant__ int t[2] = {1, 2, 3};", "1:32: error: 3 values for an axis of 2"),
        ("__constant__ int t[2, 2] = {1, 2, 3, 4, 5};", "1:41: error: 5 values for axes of [2, 2]"),
        ("__constant__ int t[2, 2] = {{1, 2}, {3, 4}, 5};", "1:45: error: too many values for a table of shape [2, 2]"),
        ("__constant__ int t[2, 2] = {{1, 2, 3}};", "1:36: error: 3 values for an axis of 2"),
        ("__constant__ int t[2] = {{1, 2}};", "1:26: error: braces around an element of a table, not with one number in them"),
        ("__constant__ int t[2] = {.x = 1};", "1:27: error: .x in a table, which has no members"),
        ("__constant__ int t[2] = {[2] = 1};", "1:26: error: the index 2 of an initial value lies outside the table"),
        ("__constant__ int t[2] = {[0 ... 1] = 1};", "1:29: error: a range of indices before an initial value; fix: one value"),
        ("__constant__ int t[2] = {[0, 1] = 1};", "1:26: error: more indices than the table has axes"),
        ("__constant__ int t[] = {[-1] = 1};", "1:25: error: the index -1 of an initial value lies outside the table"),
        ("__constant__ int t[] = {[1 << 30] = 1};", "is larger than 16777216 bytes"),
        ("__constant__ int t[2] = {[q] = 1};", "1:27: error: q is not declared"),
        ("struct p { int x, y[2]; }; const struct p c = {1};", "a int[2] of a struct in constant memory; fix: members"),
        ("__constant__ int t[0] = {};", "1:18: error: table t has extents [0]"),
        ("__constant__ int t[2] = {exp(1), 2};", "1:26: error: a value in constant memory is no constant"),
        ("__constant__ int t[2] = {1 / 0, 2};", "1:28: error: a value in constant memory is no constant"),
        ("__constant__ int t[2] = {q, 2};", "1:26: error: q is not declared"),
        ("__constant__ int t[2][2] = {{1}};", "1:19: error: arrays of arrays are not supported"),
        ("__constant__ float *t[2] = {0};", "1:21: error: a table of const float*; fix: numbers"),
        ("__constant__ int t[1 << 24] = {0};", "is larger than 16777216 bytes"),
        ("__constant__ int *t = calloc(6);", "1:23: error: calloc(6) for const int*; fix: a positive multiple of 4 bytes"),
        ("__constant__ int *t = calloc(0);",
         "calloc(0) for const int*"), ("__constant__ int t = calloc(4);", "calloc for t of type"),
        ("__constant__ int *t = calloc(4, 4);", "calloc takes 1 argument, got 2"),
        ("const int t[2] = {1, 2}, t = 3;", "1:26: error: t is declared twice in this scope"),
        ("const int N __aligned(4) = 3;", "1:13: error: __aligned on N; it is for parameters"),
    ],
)
def test_a_mistake_outside_of_functions_is_told(text: str, message: str) -> None:
    found = problems(f"{text}\n__global__ void f(int *y) {{ }}")
    assert message in found
    assert found.splitlines()[2].strip() == "^"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("t[0];", "3:2: error: 1 indices of table t, which has 2 axes; fix: elements of a table are taken at integers"),
        ("t[0, 3];", "3:6: error: the index 3 lies outside table t, which has 3 elements there; fix: 0 to 2"),
        ("t[-1, 0];", "the index -1 lies outside table t, which has 2 elements there"),
        ("t[:, 0];", "3:3: error: : in a subscript of table t"), ("t[+, 0];", "+ in a subscript of table t"),
        ("t[0, 1.5f];", "3:6: error: an index of type float of table t; fix: an integer, or a cast"),
        ("t[0 ... 4, 0 ... 2];", "do not broadcast"), ("*t = 3;", "3:1: error: a store through const int*, which is const"),
        ("t = 0;", "3:1: error: t is a constant or a type"), ("int *p = t;", "const int* is converted to int*"),
        ("t[0, 0] = 3;", "3:2: error: this is not assigned to"), ("__constant__ int u[2] = {1, 2};", "outside of functions"),
    ],
)
def test_a_mistake_in_their_use_is_told(body: str, message: str) -> None:
    found = problems(f"__constant__ int t[2, 3] = {{{{1, 2, 3}}, {{4, 5, 6}}}};\n__global__ void f(int *y) {{\n{body}\n}}")
    assert message in found
    assert found.splitlines()[2].strip() == "^"
