"""Rulings of the language that no other test has for its subject; `docs/triton_c_promises.md` has them all."""

from __future__ import annotations

import warnings
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import first_problem, problems, run


def ints(body: str, functions: str = "", **defines: Any) -> list[int]:
    """Return what a kernel leaves in eight ints, interpreted and on the host."""
    text = f"{functions}\n__global__ void f(int *y) {{\n{body}\n}}"
    found: list[int] = run(text, 1, np.zeros(8, np.int32), defines=defines)[0].tolist()
    return found


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("int i[8] = 0 ... 8; *?(i * 0.5f)(y + i) = 1;", [0, 1, 1, 1, 1, 1, 1, 1]),
        ("int i[8] = 0 ... 8; * ? (i % 2)(y + i) = 0...8;", [0, 1, 0, 3, 0, 5, 0, 7]),
        ("int max = 3, i[8] = 0 ... 8; *y = i[max]; *(y + 1) = max; int min = 2; *(y + 2) = i[min] + min;", [7, 3, 2]),
        ("int i[8] = 0 ... 8; *(y + i) = i > 3 ? 8 / (i - 3) : 0 ? 1 / 0 : 8 % (i + 1);", [0, 0, 2, 0, 8, 4, 2, 2]),
        ("half h = 1; *y = sizeof(exp(h)); *(y + 1) = sizeof(exp(1)); *(y + 2) = sizeof(exp(1.0));"
         "*(y + 3) = sizeof(sqrtf(2));",
         [4, 4, 8, 4]),
        ("int i[8] = 0 ... 8; *(y + i) = 5; int old[8] = atomic_xchg(y + i, i); *(y + i) += old;", [*range(5, 13)]),
        ("long long a = 1ll << 40; *y = a >> 38; long unsigned int b = -1; *(y + 1) = b > 0;"
         " short int s = 70000; *(y + 2) = s;",
         [4, 1, 4464]),
        ("int v[1] = 5; int s = v; *y = s; int w[1, 1] = 3; *(y + 1) = w;", [5, 3]),
        ("int i[8] = 0 ... 8; bool m[8] = i < 4; *y = m[+]; *(y + 1) = m[max]; *(y + 2) = m[min]; *(y + 3) = m[|] + m[&];",
         [4, 1, 0, 1]),
        ("bool b = 2; *y = b + b; b = 0.5f; *(y + 1) = b;", [2, 1]),
        ("for (int i = 0; i < 0; i++) *y = 1; int k = 3; while (k < 0) *y = 2; *(y + 1) = k;", [0, 3]),
        ("typedef int tile[8]; tile a = 0 ... 8; *(y + 0 ... 8) = (tile)3 + a + sizeof(tile);", [*range(35, 43)]),
    ],
)  # fmt: skip
def test_what_is_ruled(body: str, wanted: list[int]) -> None:
    assert ints(body)[: len(wanted)] == wanted


@pytest.mark.parametrize(
    ("before", "body", "wanted"),
    [
        ("extern int get_program_id(int);\nextern int min(int a, int b);\nextern float exp(float);\n"
         "extern void __debug_barrier(void);\nextern void __debug_barrier();\nextern int atomic_add(int*, int, bool);",
         "*y = min(get_program_id(0) + 3, 5); __debug_barrier(); *(y + 1) = exp(0.0f);", [3, 1]),
        ("__device__ int g(int a) { return a * 2; }\nstatic inline __device__ int h(int a) { return g(a) + 1; }",
         "*y = h(3);", [7]),
        ("int g(int p[4], __constant__ int *q) { return p[+]; }\n__device__ void nothing() { }",
         "*y = g(0 ... 4, y);", [6]),
        ("", "*y = 0x1.8p3 + 0X.8P+4f; *(y + 1) = 0x10p-2; *(y + 2) = 0x1p2 == 4.0; *(y + 3) = (0x0...0x8)[+];",
         [20, 4, 1, 28]),
        ("", "*y = 0x1p99999 == INFINITY; *(y + 1) = 0x1p-99999 == 0; *(y + 2) = sizeof(0x1p0f) + sizeof(0x1p0) * 10;",
         [1, 1, 84]),
        ("_Static_assert(1, \"a\" \"b\");",
         "assert(*y == 0, \"one\" \" two\"); _Static_assert(2 > 1, \"c\"\n\"d\" \"e\"); *y = 3;", [3]),
        ("", "int int1 = 3, fp32 = 4, align = 5; int1 = int1 + fp32; align = 6; *y = int1 + align;", [13]),
        ("const int G = 3;\nconst float H = 0.5f;", "*y = G + H * 4; int i[8] = 0 ... 8; *(y + 1) = (i < G)[+];", [5, 3]),
    ],
)  # fmt: skip
def test_spellings(before: str, body: str, wanted: list[int]) -> None:
    assert ints(body, before)[: len(wanted)] == wanted


def test_constants_of_messages_are_joined() -> None:
    assert "_Static_assert fails: a b c" in first_problem('_Static_assert(0, "a " "b" " c");')
    assert "0x1.8 is no number" in first_problem("n = 0x1.8;")


def test_the_qualifier_of_constant_memory_on_a_parameter_means_const() -> None:
    text = "void f(int *y, __constant__ int *lut) { int i[4] = 0 ... 4; *(y + i) = *(lut + 3 - i); }"
    assert run(text, 1, np.zeros(4, np.int32), np.arange(4, dtype=np.int32))[0].tolist() == [3, 2, 1, 0]
    assert "which is const" in problems("void f(int *y, __constant__ int *lut) { *lut = 1; }")


def test_a_device_function_is_no_kernel() -> None:
    text = "__device__ void g(int *y) { *y = 1; } void f(int *y) { *y = 2; }"
    assert jn.kernel.from_triton_c(text).name == "f"
    assert "the text has no kernel" in problems("__device__ void g(int *y) { *y = 1; }")


def test_double_constants_are_warned_about_wherever_a_block_meets_them() -> None:
    for operand in ("i", "(i > 2)", "(char[8])i", "(float[8])i", "(half[8])i"):
        with pytest.warns(jn.TritonCWarning, match=r"so that \* computes \S+\[8\] in double; fix: 0.5f"):
            jn.kernel.from_triton_c(f"__global__ void f(float *y) {{ int i[8] = 0 ... 8; *(y + i) = {operand} * 0.5; }}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for body in ("i * 0.5f", "(double[8])i * 0.5", "n * 0.5", "i * 2", "i * (double)n"):
            jn.kernel.from_triton_c(f"__global__ void f(double *y, int n) {{ int i[8] = 0 ... 8; *(y + i) = {body}; }}")
        text = "__global__ void f(float *y) { int i[8] = 0 ... 8; *(y + i) = i * 0.5; }"
        jn.kernel.from_triton_c(text, single_precision_constants=True)


def test_a_macro_of_the_caller_is_preferred_to_what_is_built_in() -> None:
    assert ints("*y = INFINITY; *(y + 1) = NAN; *(y + 2) = true;", INFINITY="3", NAN=4, true="5")[:3] == [3, 4, 5]


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.float64])
def test_any_memory_goes_to_a_pointer_to_void(dtype: Any) -> None:
    text = "__global__ void f(int *y, const void *p, void *q, void *r) {\n" + (
        "*y = *(const int*)p; *((int*)q + 1) = 9; *(y + 1) = r == 0; *(y + 2) = p == q; }\n"
    )
    kernel = jn.kernel.from_triton_c(text)
    data = np.arange(16, dtype=dtype)
    expected = int(data.reshape(-1).view(np.int32)[0])
    for device in ("interpreter", "sanitizer", "cpu", "ptxsim"):
        y, other = np.zeros(3, np.int32), np.zeros((2, 8), dtype)
        if device == "interpreter":
            kernel.interpret(1, y, data, other, None)
        elif device == "sanitizer":
            assert kernel.sanitize(1, y, data, other, None).findings == ()
        else:
            kernel.launch(1, y, data, other, None, device=device)
        assert y.tolist() == [expected, 1, 0]
        assert other.reshape(-1).view(np.int32)[:2].tolist() == [0, 9]


@pytest.mark.parametrize("grid", [0, (1, 0), (0, 1, 1), [1, 1, 0]])
def test_a_grid_has_sizes_of_at_least_one(grid: Any) -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(int *y) { *y = 3; }\n")
    for launch in (kernel.launch, kernel.interpret, kernel.sanitize):
        with pytest.raises(jn.UserError, match=r"@f: grid .* has a size of 0; fix: 1 or more programs along each axis"):
            launch(grid, np.zeros(1, np.int32))
    with pytest.raises(jn.UserError, match="expected one to three numbers of programs"):
        kernel.launch((-1,), np.zeros(1, np.int32))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("n = __sum(0 ... 8, 0);", "2:5: error: __sum is of the dialect of early 2019, another language; fix: v[+]"),
        ("int i[8] = get_global_range[8](0);",
         "get_global_range is of the dialect of early 2019, another language; fix: get_program_id"),
        ("__debug_barrier;",
         "2:1: error: __debug_barrier is not declared as a variable, and is a function; fix: __debug_barrier(…)"),
        ("n = min;", "2:5: error: min is not declared as a variable, and is a function"),
        ("int a<:4:>;", "expected ; behind a declaration, got '<'"),
        ("int *p = &n;", "2:10: error: variables have no addresses: unary & is not supported"),
        ("float v[16, 1] = (float[16])0;",
         "2:7: error: v has shape [16, 1], and the value has shape [16]; fix: did you mean v[:, newaxis]?"),
    ],
)  # fmt: skip
def test_what_is_refused(body: str, message: str) -> None:
    assert message in first_problem(body)


def test_names_in_inactive_text_are_not_looked_at() -> None:
    text = "__global__ void f(int *y) {\n#if TZ > 1\n  atomic_xchg(locks, 1);\n#endif\n  *y = TZ;\n}"
    assert run(text, 1, np.zeros(1, np.int32), defines={"TZ": 1})[0].tolist() == [1]
    assert "3:15: error: locks is not declared" in problems(text, {"TZ": 2})
