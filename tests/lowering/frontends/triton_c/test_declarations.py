"""Declarations as C has them: specifiers in any order, the typedefs of the historical prelude, constants declared twice."""

from __future__ import annotations

import numpy as np
import pytest

from ....support.triton_c import problems, run

PRELUDE = """
#define bool _Bool
#define true 1
#define false 0
#define __readonly __attribute__((readonly))
#define __noalias __attribute__((noalias))
#define __aligned(A) __attribute__((aligned(A)))
#define __multipleof(A) __attribute__((multipleof(A)))
#define F32_INFINITY bitcast<float>(0x7F800000)
#define F16_INFINITY bitcast<half>((int16)0x7C00)
extern int atomic_xchg(int*, int);
extern int select(bool, int, int);
extern char __constant__ * calloc(int);
typedef unsigned char uint8;
typedef unsigned short uint16;
typedef unsigned int uint32;
typedef unsigned long uint64;
typedef char int8;
typedef short int16;
typedef int int32;
typedef long int64;
"""


def result(body: str, before: str = "") -> int:
    return int(run(f"{before}\n__global__ void f(int *y) {{ {body} }}", 1, np.zeros(1, np.int32))[0][0])


@pytest.mark.parametrize(
    ("body", "before", "expected"),
    [
        ("const static int a = 1; int static const b = 2; static const int unsigned c = 3; *y = a + b + c;", "", 6),
        ("*y = g(N) + h(1);", "int const static N = 4; const inline static int g(int x) { return x; } "
         "int static h(register int x) { return x; }", 5),
        ("uint8 a = 300; int8 b = 200; uint16 c = 65537; uint64 d = 1; *y = a + b + c + d;", PRELUDE, 44 - 56 + 1 + 1),
        ("T b = 7; *y = b;", "int typedef T; typedef int32 int32, S; typedef _Bool bool; typedef S int32;", 7),
        ("typedef int int32; int32 a = 3; *y = a;", "", 3),
    ],
)  # fmt: skip
def test_specifiers_stand_in_any_order_and_built_in_types_may_be_declared_again(body: str, before: str, expected: int) -> None:
    assert result(body, before) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("typedef unsigned short uint8;",
         "1:24: error: uint8 is the built-in type unsigned char, and this typedef makes it unsigned short"),
        ("typedef float half;", "1:15: error: half is a built-in type, and this typedef makes it float; fix: another name"),
        ("typedef char int8[4];", "int8 is the built-in type char, and this typedef makes it char[4]"),
        ("typedef char *int8;", "int8 is the built-in type char, and this typedef makes it char*"),
        ("void g(static int x) { }", "expected the type of a parameter, got the keyword static"),
        ("void g(int static x) { }", "1:12: error: static on a parameter"),
        ("typedef float void;", "float void is no type"),
    ],
)  # fmt: skip
def test_other_declarations_are_refused(text: str, message: str) -> None:
    assert message in problems(f"{text} __global__ void f(int *y) {{ }}")


@pytest.mark.parametrize(
    ("body", "before", "expected"),
    [
        ("*y = N;", "const int N; extern const int N; const int N = 8; const int N;", 8),
        ("*y = t[1];", "__constant__ int t[3]; extern __constant__ int t[]; __constant__ int t[3] = {1, 2, 3};", 2),
        ("*y = s.a;", "struct S { int a; }; const struct S s; const struct S s = {3};", 3),
        ("*y = *p;", "__constant__ char *p; __constant__ char *p = calloc(4);", 0),
    ],
)
def test_a_constant_may_be_declared_before_and_behind_its_definition(body: str, before: str, expected: int) -> None:
    assert result(body, before) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("const int N;", "1:11: error: N of type int in constant memory has no values; fix: N = …"),
        ("const int N; const int M = N; const int N = 2;", "N has no value yet; fix: its definition before this use"),
        ("const int N; const long N = 2;", "1:25: error: N is declared before as something else"),
        ("__constant__ int t[3]; __constant__ int t[4] = {1};", "t is declared before as something else"),
        ("__constant__ int t[3] = {1}; __constant__ int t[4];", "t is declared before as something else"),
        ("__constant__ int t[3];", "table t has no values; fix: t[…] = {…}"),
        ("const int N = 1; const int N = 2;", "N is declared twice in this scope"),
    ],
)
def test_declarations_of_constants_agree_and_one_has_the_value(text: str, message: str) -> None:
    assert message in problems(f"{text} __global__ void f(int *y) {{ *y = 1; }}")


def test_only_what_is_declared_is_suggested() -> None:
    found = problems("__global__ void f(int *y) {\n  *y = fooBar;\n  *y = fooBaz;\n  int fooBat = *y; *y = fooBay;\n}")
    lines = [line for line in found.splitlines() if "error" in line]
    assert [line.partition("error: ")[2] for line in lines] == [
        "fooBar is not declared; fix: did you mean floor or floorf?",
        "fooBaz is not declared",
        "fooBay is not declared; fix: did you mean fooBat?",
    ]
