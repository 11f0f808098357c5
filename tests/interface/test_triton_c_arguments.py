"""Arguments of launches of Triton-C: arrays hold what the parameter points to, integers are in its range."""

from __future__ import annotations

import functools
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

POINTERS = {
    "float": ["float32"], "half": ["float16"], "double": ["float64"], "bfloat16": ["bfloat16"], "int": ["int32", "uint32"],
    "unsigned": ["int32", "uint32"], "short": ["int16", "uint16"], "long": ["int64", "uint64"],
    "char": ["int8", "uint8", "bool"], "unsigned char": ["int8", "uint8", "bool"], "bool": ["bool", "int8", "uint8"],
    "float*": ["int64", "uint64"],
}  # fmt: skip
DTYPES = [
    *(np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)), np.dtype("float16"), np.dtype("float32"),
    np.dtype("float64"), np.dtype(ml_dtypes.bfloat16), np.dtype("bool"), np.dtype("complex64"), np.dtype("datetime64[s]"),
    np.dtype(">f4"), np.dtype(">i4"), np.dtype("object"),
]  # fmt: skip
RANGES = {
    "char": (-128, 127), "unsigned char": (0, 255), "short": (-(1 << 15), (1 << 15) - 1), "uint16": (0, (1 << 16) - 1),
    "int": (-(1 << 31), (1 << 31) - 1), "unsigned": (0, (1 << 32) - 1), "long": (-(1 << 63), (1 << 63) - 1),
    "unsigned long": (0, (1 << 64) - 1), "bool": (0, 1),
}  # fmt: skip


@functools.cache
def kernel(text: str) -> jn.kernel.Kernel:
    return jn.kernel.from_triton_c(text)


def refusal(text: str, *args: Any) -> str:
    """Return why arguments are refused, by every way to run a kernel."""
    made = kernel(text)
    messages = set()
    for run in (made.launch, made.interpret, made.sanitize):
        with pytest.raises(jn.UserError) as caught:
            run(1, *args)
        messages.add(str(caught.value))
    (message,) = messages
    return message


@pytest.mark.parametrize("type_", POINTERS)
def test_arrays_hold_what_a_pointer_points_to(type_: str) -> None:
    text = f"__global__ void f(int *y, {type_} *x) {{ *y = 3; }}"
    for dtype in DTYPES:
        y, x = np.zeros(1, np.int32), np.zeros(4, dtype)
        if dtype.isnative and dtype.name in POINTERS[type_]:
            kernel(text).interpret(1, y, x)
            assert y[0] == 3
        else:
            name = "unsigned int" if type_ == "unsigned" else type_
            assert f"of type {name}* (<text>:1): an array of {dtype}, and" in refusal(text, y, x)
    kernel("__global__ void f(int *y, void *x) { *y = x == 0; }").interpret(1, np.zeros(1, np.int32), np.zeros(3, np.complex64))


@pytest.mark.parametrize("type_", RANGES)
def test_integers_are_in_the_range_of_their_parameter(type_: str) -> None:
    text = f"__global__ void f({type_ if type_ != 'bool' else 'char'} *y, {type_} n) {{ *y = n; }}"
    low, high = RANGES[type_]
    dtype = np.dtype(f"{'u' if not low else ''}int{max(8, high.bit_length() + (low < 0))}")
    for value in (low, high, np.int8(1), True, np.True_, 1.0):
        y = np.zeros(1, dtype)
        kernel(text).interpret(1, y, value)
        assert y[0] == int(value)
    for value in (low - 1, high + 1, 1 << 70):
        message = refusal(text, y, value)
        name = {"unsigned": "unsigned int", "uint16": "unsigned short"}.get(type_, type_)
        assert f", parameter n of type {name} (<text>:1): {value} does" in message
        assert f"does not fit into {low} to {high}; fix: " in message


def test_fixes_name_what_to_do() -> None:
    text = "__global__ void f(float *y, int n, bfloat16 *b, float a) { *y = n; }"
    y, b = np.zeros(4, np.float32), np.zeros(4, ml_dtypes.bfloat16)
    kernel(text).launch(1, y, 3, None, 2)
    assert y[0] == 3
    for args, wanted in (
        ((y.view(np.int32), 1, b, 0), "fix: .astype(np.float32) for its numbers, or .view(np.float32) for its bits"),
        ((y.astype(float), 1, b, 0),
         "parameter y of type float* (<text>:1): an array of float64, and memory is not converted; fix: .astype("),
        ((y, 1, b.view(np.uint16), 0), "or .view(ml_dtypes.bfloat16) for its bits"),
        ((y, 1 << 31, b, 0), "2147483648 does not fit into -2147483648 to 2147483647; fix: a parameter of type long"),
        ((y, 1.5, b, 0),
         "@f, parameter n of type int (<text>:1): 1.5 is no integer; fix: int(…), or a parameter of type float"),
        ((y, "3", b, 0), "@f, parameter n of type int (<text>:1): expected a number, got str"),
        ((y, 3, b, None), "@f, parameter a of type float (<text>:1): expected a number, got NoneType"),
        ((y[::2], 3, b, 0), "the array is not C-contiguous; fix: numpy.ascontiguousarray(array)"),
        ((y, 3), "@f takes 4 arguments, got 2; parameters: float* y, int n, bfloat16* b, float a; fix: arguments for b ("),
        ((y, 3, b, 0, 0), "got 5; parameters: float* y, int n, bfloat16* b, float a; fix: one argument for each parameter"),
    ):
        assert wanted in refusal(text, *args)


def test_members_and_tuned_kernels_are_checked_too() -> None:
    text = "struct s { float *p; short n; };\n__global__ void f(int *y, struct s v) { *y = v.n + N; }"
    made = jn.kernel.tune(text, {"N": [1, 2]})
    for run in (functools.partial(made.launch, 1), functools.partial(jn.kernel.from_triton_c(text, {"N": 1}).launch, 1)):
        with pytest.raises(jn.UserError, match=r"parameter v.n of type short \(<text>:2\): 40000 does not fit into -32768"):
            run(np.zeros(1, np.int32), {"p": None, "n": 40000})
        with pytest.raises(jn.UserError, match=r"parameter v.p of type float\* \(<text>:2\): an array of int32"):
            run(np.zeros(1, np.int32), (np.zeros(1, np.int32), 4))


def test_macros_may_be_dtypes_of_numpy() -> None:
    names = {np.float32: "float", np.dtype("float16"): "half", np.uint8: "uint8", ml_dtypes.bfloat16: "bfloat16"}
    for dtype, name in names.items():
        y = np.zeros(2, dtype)
        jn.kernel.from_triton_c("__global__ void f(T *y) { *y = 1; *(y + 1) = sizeof(T); }", {"T": dtype}).interpret(1, y)
        assert y.tolist() == [1, y.itemsize]
        jn.kernel.from_triton_c(f"typedef {name} same; __global__ void f(T *y) {{ same *p = y; *p = 1; }}", {"T": dtype})
    with pytest.raises(jn.UserError, match="is complex64, which Triton-C does not have"):
        jn.kernel.from_triton_c("__global__ void f(T *y) { }", {"T": np.complex64})
    with pytest.raises(jn.UserError, match="got 'float16'; fix: half"):
        jn.kernel.from_triton_c("__global__ void f(T *y) { }", {"T": "float16"})


STORE = "__global__ void f({} *y) {{ *y = A; }}\n"


@pytest.mark.parametrize(
    ("type_", "value"),
    [("unsigned long", 2**64 - 1), ("unsigned long", 2**63), ("long", -(2**63)), ("long", 2**63 - 1), ("int", -(2**31))],
)
def test_macros_may_be_all_integers_of_64_bits(type_: str, value: int) -> None:
    y = np.zeros(1, {"unsigned long": np.uint64, "long": np.int64, "int": np.int32}[type_])
    condition = f"#if (A {'<' if value < 0 else '>'} 0) && A / 2 == {value // 2}{'u' if value >= 2**63 else ''}\n"
    jn.kernel.from_triton_c(f"{condition}{STORE.format(type_)}#endif\n", {"A": value}).interpret(1, y)
    assert y[0] == value


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"defines": [("A", 1)]}, "defines is a list, expected a mapping of macros; fix: dict(…) of the pairs"),
    ({"defines": "A=1"}, "defines is a str, expected a mapping of macros; fix: {'NAME': value}"),
    ({"defines": {"A": 2**64}}, "defines['A'] is an integer of 65 bits, and integers have 64; fix: a smaller number"),
    ({"defines": {"A": -(2**63) - 1}}, "is an integer of 65 bits"),
    ({"defines": {"A": 10**5000}}, "is an integer of 16610 bits"),
    ({"defines": {"A": "1 // \ud800"}}, "defines['A'] has a lone surrogate, '\\ud800', at 5"),
    ({"defines": {"F(\ud800)": "1"}}, "expected the name of a macro"),
    ({"include": "lib.h"}, "include is a str, expected paths, or a mapping of names; fix: include=['lib.h']"),
    ({"include": 3}, "include is a int, expected paths"),
    ({"include": [3]}, "include: expected a path, got int"),
    ({"include": {"a": 3}}, "include: expected a path, got int"),
    ({"include": {3: "a"}}, "include has 3, expected the name of a file"),
    ({"include": ["a\0.h"]}, "include 'a\\x00.h' has a NUL character"),
    ({"include": {"a": "\ud800"}}, "include['a'] has a lone surrogate"),
    ({"name": 3}, "name is 3, expected the name of a kernel"),
    ({"text_or_path": "a\0.tc"}, "the path 'a\\x00.tc' has a NUL character; fix: the name of a file"),
    ({"text_or_path": "a\ud800.tc"}, "the path 'a\\ud800.tc' has a lone surrogate"),
    ({"text_or_path": "void f(int *y) { } // \ud800"}, "the text has a lone surrogate"),
]


@pytest.mark.parametrize(("given", "message"), REFUSED)
def test_what_can_be_no_text_macro_or_file_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(**{"text_or_path": STORE.format("int"), "defines": {"A": 1}, **given})
    assert f"from_triton_c: {message}" in str(caught.value) or f" {message}" in str(caught.value)
    str(caught.value).encode("utf-8")


@pytest.mark.parametrize("type_", ["half", "float", "double"])
def test_numbers_that_no_float_holds_are_refused(type_: str) -> None:
    text = f"__global__ void f({type_} *y, {type_} a) {{ *y = a; }}"
    y = np.zeros(1, {"half": np.float16, "float": np.float32, "double": np.float64}[type_])
    for value in (10**400, -(10**400)):
        message = f"parameter a of type {type_} (<text>:1): an integer of 1329 bits; fix: float('inf')"
        assert message in refusal(text, y, value)
    for number in (float("inf"), float("nan"), np.float64("-inf"), 2**10, True):
        kernel(text).interpret(1, y, number)
        np.testing.assert_equal(float(y[0]), float(number))


@pytest.mark.parametrize(
    ("text", "args", "is_refused"),
    [
        ("void f(float *y, float *p) { *y = *p; }", (None,), True),
        ("void f(float *y, float *p) { int i[4] = 0 ... 4; float *q[4] = p + i; for (int k = 0; k < 3; k++) y += 0; *q = 1; }",
         (None,), True),
        ("struct s { float *p; int n; }; void f(float *y, struct s v) { *v.p = v.n; }", ((None, 3),), True),
        ("void f(float *y, float *p) { atomic_add(p, 1); }", (None,), True),
        ("void f(float *y, float *p) { if (p == 0) return; *p = 1; }", (None,), False),
        ("void f(float *y, float *p) { p = y; *p = 1; }", (None,), False),
        ("void f(float *y, float *p) { *y = p ? *p : 3; }", (None,), False),
        ("void f(float *y, float *p) { if (!p) p = y; *p = 1; }", (None,), False),
        ("void f(float *y, float *p, float z) { *?(z > 3)p = 1; (p = y, *p = 2); }", (None, 1.0), False),
        ("void f(float *y, float *p) { bool m[4] = 0 ... 4 > 7; *?(m)(p + 0 ... 4) = 1; *y = p && *p; }", (None,), False),
    ],
)  # fmt: skip
def test_a_null_pointer_that_every_program_goes_through_is_refused(text: str, args: tuple[Any, ...], is_refused: bool) -> None:
    y = np.zeros(4, np.float32)
    if not is_refused:
        kernel(text).launch(1, y, *args)
        return
    with pytest.raises(jn.UserError, match="None is a null pointer, and every program accesses memory through it at <text>:1"):
        kernel(text).launch(1, y, *args)
    with pytest.raises(jn.UserError, match="null pointer"):
        kernel(text).launch(1, y, *args, check_bounds=True)


def test_errors_of_launches_name_the_types_of_the_text() -> None:
    y = np.zeros(1, np.float32)
    y.flags.writeable = False
    with pytest.raises(jn.UserError, match=r"^@f, parameter y of type float\* \(<text>:1\): the array is read-only"):
        kernel("void f(float *y) { *y = 1; }").launch(1, y)
    assert "2 does not fit into 0 to 1; fix: bool(…), which is true for all numbers but 0" in refusal("void f(bool b) { }", 2)
