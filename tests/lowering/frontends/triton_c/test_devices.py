"""Constructs that back ends see in few other kernels, on every device: what they leave in their first argument."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import joinery as jn
import numpy as np
import pytest

I8, U8, U32, I32, I64, F16, F32, F64 = (
    np.int8, np.uint8, np.uint32, np.int32, np.int64, np.float16, np.float32, np.float64,
)  # fmt: skip
AT = "y + (0 ... 16)[:, newaxis] * 16 + 0 ... 16"
RANDOM = np.random.default_rng(1).standard_normal((4, 8)).astype(F32)


class Case(NamedTuple):
    """Parameters behind `y`, the body, functions before the kernel, the other arguments, and what `y` is then."""

    parameters: str
    body: str
    arguments: tuple[Any, ...]
    expected: np.ndarray
    functions: str = ""
    grid: int = 1


def geometric() -> np.ndarray:
    value, count = np.arange(16, dtype=F32), 0
    while True:
        value, count = value * F32(0.5) + 1, count + 1
        if value.max() <= 2.5:
            return np.r_[value, F32(count)]


CASES = {
    "a matrix of bools": Case("int *y", "bool m[8, 8] = (0 ... 8)[:, newaxis] > 0 ... 8; *(y + 0 ... 8) = m[:, +];", (),
                              np.arange(8, dtype=I32)),
    "an axis of nothing": Case("int *y", "int m[8, 8] = (0 ... 8)[:, newaxis] * 0 ... 8;"
    " *(y + 0 ... 1) = m[+, +, newaxis];", (),
                               np.array([784], I32)),
    "indices of extrema": Case(
        "int *y, float *x", "float v[4, 8] = *(x + (0 ... 4)[:, newaxis] * 8 + 0 ... 8);"
        " *(y + 0 ... 4) = argmax(v, 1); *(y + 4 + 0 ... 8) = argmin(v, 0);", (RANDOM,),
        np.r_[RANDOM.argmax(1), RANDOM.argmin(0)].astype(I32)),
    "a choice of pointers": Case(
        "int *y, int *x, int n", "int *p = n > 3 ? x : y; *y = *(p + 1); int i[8] = 0 ... 8;"
        " int *q[8] = i > 4 ? x + i : y + i; *q = 7;",
        (np.arange(8, dtype=I32), 5), np.array([7, 7, 7, 7, 7, 0, 0, 0], I32)),
    "a pointer through loops": Case(
        "int *y, int *x, int n", "int *p = x; for (int k = 0; k < n; k++) { *y += *p; p += 2;"
        " } while (p > x) { p -= 1; *(y + 1) += 1; }",
        (np.arange(20, dtype=I32), 5), np.array([20, 10], I32)),
    "a block through do": Case(
        "float *y", "float v[16] = 0 ... 16; int k = 0; do { v = v * 0.5f + 1; k++; } while (v[max] > 2.5f);"
        " *(y + 0 ... 16) = v; *(y + 16) = k;", (), geometric()),
    "loads of a function under a mask": Case(
        "float *y, float *x, int n", "int i[8] = 0 ... 8; *(y + i) = i < n ? sum(x + i, 3) : -1;", (np.arange(5, dtype=F32), 5),
        np.array([0, 3, 6, 9, 12, -1, -1, -1], F32),
        "float sum(float *p[8], int n)[8] { float s[8] = 0; for (int k = 0; k < n; k++) s += *(p + k * 0); return s; }"),
    "longs": Case("long *y, long n", "int i[8] = 0 ... 8;"
    " *(y + i) = n * i + (n >> 33);", (1 << 40,), np.arange(8) * (1 << 40) + 128),
    "chars": Case("char *y", "char v[8] = (0 ... 8) * 40; *(y + 0 ... 8) = v + v;", (), (np.arange(8) * 80).astype(I8)),
    "unsigned chars": Case("float *y, unsigned char *x", "*(y + 0 ... 8) = *(x + 0 ... 8) * 1.0f;",
        (np.arange(250, 258).astype(U8),),
                           np.arange(250, 258).astype(U8).astype(F32)),
    "a product of bfloat16": Case("float *y", f"bfloat16 v[16, 16] = 1.5f; *({AT}) = v @ v;", (), np.full(256, 36, F32)),
    "a product of char": Case("int *y", f"char v[16, 32] = 3, w[32, 16] = -2; *({AT}) = v @ w;", (), np.full(256, -192, I32)),
    "a product of int": Case("int *y", f"int v[16, 16] = 3; *({AT}) = v @ v;", (), np.full(256, 144, I32)),
    "a product of long": Case("long *y", f"long v[16, 16] = 3; *({AT}) = v @ v;", (), np.full(256, 144, I64)),
    "a product of double": Case("double *y", f"double v[16, 16] = 3; *({AT}) = v @ v;", (), np.full(256, 144, F64)),
    "a small product": Case("float *y", "float v[2, 4] = 3;"
    " *(y + (0 ... 2)[:, newaxis] * 2 + 0 ... 2) = v @ ^v;", (), np.full(4, 36, F32)),
    "four axes": Case(
        "int *y", "int v[2, 2, 2, 2] = (0 ... 2)[:, newaxis, newaxis, newaxis] * 8 + (0 ... 2)[:, newaxis, newaxis] * 4"
        " + (0 ... 2)[:, newaxis] * 2 + 0 ... 2; *(y + v) = ^v; *(y + 16) = v[+, max, min, +];", (),
        np.r_[np.arange(16).reshape(2, 2, 2, 2).transpose(1, 2, 3, 0).ravel(),
              np.arange(16).reshape(2, 2, 2, 2).sum(0).max(0).min(0).sum()].astype(I32)),
    "a product of halves": Case("half *y", "half v[8] = 1.25f; *y = v[*];", (), np.array([F32(1.25) ** 8], F16)),
    "atomics in a loop": Case("int *y", "for (int k = 0; k < 4;"
    " k++) atomic_add(y + (0 ... 8) % 2, k);", (), np.array([24, 24], I32)),
    "a loop around cas": Case(
        "int *y", "int o = *y; while (1) { int a = o; o = atomic_cas(y, a, a + get_program_id(0)); if (o == a) break; }", (),
        np.array([28], I32), "", 8),
    "scalars of all kinds": Case("double *y, bool b, char c, unsigned short s, double d, half h", "*y = b ? c : s;"
    " *(y + 1) = d * h + s;",
                                 (True, -3, 60000, 0.25, 0.5), np.array([-3, 60000.125])),
    "unsigned numbers": Case("unsigned *y, unsigned a", "*y = a / 7u; *(y + 1) = a % 10u; *(y + 2) = a >> 4;"
    " float q = a; *(y + 3) = q;",
                             (4000000000,), np.array([571428571, 0, 250000000, 4000000000], U32)),
}  # fmt: skip


def check(name: str, **options: Any) -> None:
    case = CASES[name]
    text = f"{case.functions}\n__global__ void f({case.parameters}) {{ {case.body} }}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error", jn.TritonCWarning)
        kernel = jn.kernel.from_triton_c(text)
    y = np.zeros_like(case.expected)
    run = kernel.launch if options else kernel.interpret
    run(case.grid, y, *(each.copy() if isinstance(each, np.ndarray) else each for each in case.arguments), **options)
    np.testing.assert_array_equal(y, case.expected)


@pytest.mark.parametrize("name", CASES)
def test_interpreted(name: str) -> None:
    check(name)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", CASES)
def test_on_the_host(name: str) -> None:
    check(name, device="cpu")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [(name, target) for name in CASES for target in ("sm_80", "sm_90a")])
def test_simulated(name: str, target: str) -> None:
    check(name, device="ptxsim", target=target)
