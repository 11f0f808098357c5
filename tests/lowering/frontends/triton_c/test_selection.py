"""A kernel that is chosen by name: the others are not looked at, so that what they need may be missing."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from ....support.triton_c import problems

OTHERS = [
    "__global__ void a(TYPE *y) { *y = 1; }",
    "__global__ void a(int *y) { TYPE v[TM] = 1; }",
    "__global__ void a(int *y) { *y = (TYPE)1 + (TYPE[TM])2; }",
    "__global__ void a(int *y) { *y = bitcast<TYPE>(1); }",
    "__global__ void a(int *y ATTR, float *z __aligned(ALIGN)) { *y = 1; }",
    "__global__ void a(int *y) { *y = 1; BARRIER; LOAD(x) }",
    "TYPE unused(TYPE x) { return x; } __global__ void a(int *y) { *y = 1; }",
    "TYPE unused(TYPE v[TM])[TM] { return v; }",
    "TYPE unused(TYPE x); __global__ void a(TYPE *y);",
    "__attribute__((global)) void a(int *y) { unknown a b c; if }",
    "struct pair { int a, b; }; struct pair unused(TYPE x) { return (struct pair){1, 2}; }",
]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("is_first", [True, False])
def test_others_may_need_what_is_missing(other: str, is_first: bool) -> None:
    own = "__global__ void b(int *y) { *y = twice(4); } int twice(int x) { return 2 * x; }"
    kernel = jn.kernel.from_triton_c("\n".join([other, own] if is_first else [own, other]) + "\n", name="b", cache=False)
    y = np.zeros(1, np.int32)
    kernel.interpret(1, y)
    assert y.tolist() == [8]
    with pytest.raises(jn.UserError):  # without a name everything is read
        jn.kernel.from_triton_c(f"{other}\n{own}\nvoid c(TYPE x) {{ }}\n", cache=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("__global__ void b(int *y) { *y = g(1); } int g(TYPE x) { return 1; }", "the type of a parameter, got 'TYPE'"),
        ("int h(TYPE x) { return x; } int g(int x) { return h(x); } __global__ void b(int *y) { *y = g(1); }", "'TYPE'"),
        ("__global__ void a(int *y) { if (1) { *y = 1; } __global__ void b(int *y) { *y = 1; }", "b is defined within another"),
        ("__global__ void a(int *y) { *y = (1; } __global__ void b(int *y) { *y = 1; }", "expected ), got ';'"),
        ("__global__ void a(int *y) { *y = 1; } } __global__ void b(int *y) { *y = 1; }", "this brace closes nothing"),
        ("__global__ void a(TYPE *y) { *y = 1; } void b(int *y) { *y = 1; }", "b is no kernel; kernels: a"),
        ("__global__ void a(TYPE *y); void a(TYPE *y) { *y = 1; } void b(int *y) { *y = 1; }", "b is no kernel; kernels: a"),
        ("void a(TYPE *y) { b(y); } void b(int *y) { *y = 1; }", "b is no kernel; kernels: a"),
        ("void a(TYPE *y) { *y = 1; } void c(int *y) { *y = 1; }", "the text has no kernel b; kernels: a, c; fix: name='a'"),
        ("const TYPE N = 8; __global__ void b(int *y) { *y = 1; }", "TYPE"),
    ],
)
def test_what_the_kernel_needs_and_brackets_are_still_looked_at(text: str, expected: str) -> None:
    assert expected in problems(text, name="b")


def test_a_void_function_that_nobody_calls_is_a_kernel_beside_one_with_a_missing_type() -> None:
    kernel = jn.kernel.from_triton_c("void a(TYPE *y) { c(y); }\nvoid b(int *y) { *y = 3; }\nvoid c(int *y) { }\n", name="b")
    assert kernel.name == "b"
