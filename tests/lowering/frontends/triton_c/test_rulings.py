"""Rulings of the language that no other test has for its subject; `docs/triton_c_promises.md` has them all."""

from __future__ import annotations

import random
import warnings
from fractions import Fraction
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


@pytest.mark.parametrize("grid", [0, (1, 0), (0, 1, 1), [1, 1, 0], -1, (2, -3)])
def test_a_grid_has_sizes_of_at_least_one(grid: Any) -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(int *y) { *y = 3; }\n")
    for launch in (kernel.launch, kernel.interpret, kernel.sanitize):
        with pytest.raises(jn.UserError, match=r"@f: grid .* has a size of (0|-1|-3); fix: 1 or more programs along each axis"):
            launch(grid, np.zeros(1, np.int32))
    with pytest.raises(jn.UserError, match="expected one to three numbers of programs"):
        kernel.launch((1, 1, 1, 1), np.zeros(1, np.int32))


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


# Conversions of constants


def test_constants_are_rounded_once() -> None:
    """A little more than the middle of two numbers of bfloat16: a double, an int, and of float."""
    assert ints("*y = bitcast<unsigned short>((bfloat16)1.003906250931322574615478515625);")[0] == 16257
    assert ints("*y = bitcast<unsigned short>((bfloat16)-1.003906250931322574615478515625);")[0] == 16257 + 32768
    assert ints("*y = (int)(float)(bfloat16)16842753; *(y + 1) = (int)(float)(bfloat16)16842752;")[:2] == [16908288, 16777216]
    assert ints("*y = bitcast<unsigned short>((bfloat16)1e39); *(y + 1) = bitcast<unsigned short>((bfloat16)1e-50);")[:2] == [
        0x7F80, 0]  # fmt: skip
    # 1 + 2^-24 is the middle of two floats, and what double makes of both numbers
    text = "*y = bitcast<int>(1.0000000596046447753906251f); *(y + 1) = bitcast<int>(1.0000000596046447753906249f);"
    assert ints(text)[:2] == [0x3F800001, 0x3F800000]
    assert ints("*y = bitcast<int>(1e999999999f); *(y + 1) = bitcast<int>(0e999999999f);")[:2] == [0x7F800000, 0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(3))
def test_bfloat16_constants_are_those_of_fractions(seed: int) -> None:
    """The nearest of all numbers of bfloat16, found by exact comparison."""
    chosen = random.Random(seed)
    numbers = [chosen.randrange(1 << 48, 1 << 53) / (1 << 52) for _ in range(4)]
    for _ in range(4):
        middle = (2 * chosen.randrange(128, 256) + 1) / 256
        numbers += [middle, np.nextafter(middle, 0), np.nextafter(middle, 9)]
    stores = " ".join(f"*(y + {at}) = bitcast<unsigned short>((bfloat16){float(x)!r});" for at, x in enumerate(numbers))
    y = np.zeros(len(numbers), np.int32)
    jn.kernel.from_triton_c(f"__global__ void f(int *y) {{ {stores} }}\n").interpret(1, y)
    every = [(bits, Fraction(float(np.uint32(bits << 16).view(np.float32)))) for bits in range(0x3D00, 0x4081)]
    for found, number in zip(y, numbers, strict=True):
        exact = Fraction(float(number))
        assert int(found) == min(every, key=lambda each: (abs(each[1] - exact), each[0] & 1))[0]


# What C refuses


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("int *p = 0.0f;", "2:6: error: a value of type float where int* is expected; fix: 0, the null pointer"),
        ("int *p = n ? y : 0.0;", "a value of type double where int* is expected; fix: 0, the null pointer"),
        ("int *p = (int*)0.0f;", "a cast of a value of type float to int*: addresses are integers of 64 bits"),
        ("int *p[4] = 0.0;", "a value of type double where int* is expected"), ("n = y == 0.0;", "pointers are compared with"),
        ("y = n > 1;", "a value of type bool where int* is expected"), ("y = (int*)(n > 1);", "a cast of a value of type bool"),
        ("switch ((unsigned)n) { case -1: ; break; case 4294967295u: ; }", "case 4294967295 is there twice"),
        ("switch (n) { case 4294967295u: ; break; case -1: ; }", "case -1 is there twice in this switch"),
        ("switch ((char)n) { case 1ul << 32: ; break; case 0: ; }", "case 0 is there twice in this switch"),
        ("typedef int T = 3;", "2:15: error: a value for T, which is the name of a type; fix: no typedef before it"),
        ("int int;", "2:1: error: int int is no type"), ("int int q;", "int int is no type"), ("char int q;", "is no type"),
        ("short int int q;", "short int int is no type"), ("unsigned int long int q;", "is no type"),
        ("f32_atomic_add(y, 1);", "2:1: error: f32_atomic_add of float through int*, which points to int; fix: atomic_add(…),"),
        ("atomic_add(float, 4, 4)(y, 1);", "atomic_add of float through int*, which points to int"),
        ("atomic_add(T)(y, 1);", "atomic_add of half through int*"), ("atomic_add_float_64x64(y, 1);", "of float through int*"),
        ("atomic_xchg_half(y, 1);", "atomic_xchg_half of half"),
        ("i64_atomic_cas(y, 1, 2);", "i64_atomic_cas of long through int*"),
        ("static int s = 0;", "2:1: error: the local variable s is static, and no variable outlives a program instance; "
         "fix: a pointer parameter, or no static"),
        ("static int s, t;", "the local variable t is static"), ("extern int q;", "the local variable q is extern, and no"),
        ("extern const int q;", "the local variable q is extern"),
    ],
)  # fmt: skip
def test_what_c_refuses_is_refused(body: str, message: str) -> None:
    assert message in problems(f"typedef half T;\n__global__ void f(int *y, int n) {{\n{body}\n}}").replace(":3:", ":2:")


def test_what_looks_like_it_is_accepted() -> None:
    text = """switch ((unsigned)*y) { case -1: *y = 1; break; case 2: *y = 3; }
      static const int s = 3; short int a = 1; long int int1 = 2; unsigned long long int b = 3; int *p = 0, *q = false;
      atomic_add(int, 1, 1)(y + 1, 2); i32_atomic_add(y + 1, 3); atomic_add_int_1x1(y + 1, 1, (bool)1);
      atomic_add(uint32, 1)(y + 1, 1); *(y + 2) = s + a + int1 + b + (p == q) + (y != 0) + (p == (int*)0);"""
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int *y) {{ {text} }}\n")
    y = np.array([-1, 0, 0], np.int32)
    kernel.interpret(1, y)
    assert y.tolist() == [1, 7, 12]


@pytest.mark.parametrize(
    ("before", "message"),
    [
        ("#define F(a) #b", "1:14: error: # in the body of macro F is not before a parameter; fix: # before one of a"),
        ("#define F(a) a #", "# in the body of macro F is not before a parameter"), ("#define F() #x", "is not before a"),
        ("#define F(a) # #a", "is not before a parameter"),
    ],
)
def test_the_operator_of_strings_stands_before_a_parameter(before: str, message: str) -> None:
    assert message in problems(f"{before}\n__global__ void f(int *y) {{ *y = 1; }}")


def test_where_it_does_or_is_none_it_is_no_error() -> None:
    before = "#define F(a) #a\n#define G(a, ...) # a #__VA_ARGS__\n#define H #x\n#define HASH #"
    assert ints("assert(1, F(x)); assert(1, G(x, y)); *y = 3;", before)[0] == 3


def test_characters_have_a_sign_in_conditions_too() -> None:
    before = "#if '\\377' < 0 && '\\xff' == -1 && '\\177' == 127 && 'a' == 97\n#define A 1\n#else\n#define A 2\n#endif"
    assert ints("*y = A; *(y + 1) = '\\377' < 0; *(y + 2) = '\\177';", before)[:3] == [1, 1, 127]


# Scopes


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("int a = 41; { int a = a + 1; *y = a; }", 1), ("int a = 41; { int b = a, a = b + 1; *y = a; }", 42),
        ("int a = 1; for (int k = 0; k < 3; k++) { int a = a + 5; *y = a; }", 5),
        ("struct s { int p, q; }; struct s a = {1, 2}; { struct s a = {a.q + 3, 4}; *y = a.p; }", 3),
        ("int a[2] = 7; { int a[2] = a + (0 ... 2); *y = a[+]; }", 1),
    ],
)  # fmt: skip
def test_a_variable_is_known_in_its_own_initial_value(body: str, wanted: int) -> None:
    if "b = a, a" in body:
        assert ints(body)[0] == wanted
        return
    with pytest.warns(jn.TritonCWarning, match="may be read before something is assigned to it: it is 0"):
        assert ints(body)[0] == wanted


def test_its_size_is_known_there_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ints("long a = 1; { int a = sizeof(a); *y = a; }")[0] == 4
