"""C that is rare and legal, against what C compilers make of it, and mistakes that must not hide others."""

from __future__ import annotations

import functools

import joinery as jn
import numpy as np
import pytest

I32 = np.int32


@functools.cache
def kernel_of(text: str) -> jn.kernel.Kernel:
    return jn.kernel.from_triton_c(text, cache=False)


def result(body: str, n: int = 0, before: str = "") -> list[int]:
    kernel = kernel_of(f"{before}\n__global__ void f(int *y, int n) {{ {body} }}")
    found = []
    for run in (kernel.interpret, kernel.launch):
        y = np.zeros(4, I32)
        run(1, y, n)
        found.append(y.tolist())
    assert found[0] == found[1]
    return found[0]


def errors(body: str) -> list[str]:
    return [each.partition("error: ")[2] for each in located(f"__global__ void f(int *y, int n) {{ {body} }}")]


def located(text: str) -> list[str]:
    """The errors of a text, each from its line on, without fixes."""
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(text + "\n", name="f", cache=False)
    lines = [each for each in str(caught.value).splitlines() if ": error: " in each]
    return [each.partition("; fix: ")[0].removeprefix("<text>:") for each in lines]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(*y)++; (*y)++; *(y + 1) = (*y)--; *(y + 2) = *y;", [1, 2, 1, 0]),
        ("int *p = y; (*p++)++; (*p)--;", [1, -1, 0, 0]),
        ("int i[4] = 0 ... 4; (*?(i > 1)(y + i))++;", [0, 0, 1, 1]),
        ("switch (n) { int q; case 2: q = 5; *y = q; break; default: q = 7; *y = q; }", [7, 0, 0, 0]),
        ("switch (n) { int q = 3; case 0: q = 5; case 1: *y = q; }", [5, 0, 0, 0]),
        ("int (x) = 3, (z)[4] = 2; *y = x + z[+];", [11, 0, 0, 0]),
        ("enum { A = 2147483646, B }; *y = B;", [2147483647, 0, 0, 0]),
    ],
)
def test_rare_statements(body: str, expected: list[int]) -> None:
    assert result(body) == expected


@pytest.mark.parametrize(("n", "expected"), [(1, [1, 0, 0, 0]), (5, [0, 1, 0, 0])])
def test_one_of_two_calls_of_void_functions(n: int, expected: list[int]) -> None:
    assert result("n < 3 ? s(y) : s(y + 1);", n, "void s(int *p) { *p = 1; }") == expected


def test_void_arms_of_a_block_of_conditions_and_of_another_type() -> None:
    before = "void s(int *p) { *p = 1; }"
    for body, message in [
        ("int i[4] = 0 ... 4; i < 3 ? s(y) : s(y + 1);", "the arms of ?: on a block of conditions are void"),
        ("n ? s(y) : 1;", "one arm of ?: is void"),
    ]:
        with pytest.raises(jn.UserError, match=message.replace("?", r"\?")):
            result(body, 0, before)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("n", [0, 3, 39, 40, 77])
def test_many_cases_and_many_exits(n: int) -> None:
    cases = " ".join(f"case {k}: *y = {k * k + 1}; if (n == 39) break; *(y + 1) = 1; break;" for k in range(40))
    expected = [n * n + 1, int(n != 39)] if n < 40 else [-1, 0]
    assert result(f"switch (n) {{ {cases} default: *y = -1; }} *(y + 2) = 9;", n)[:3] == [*expected, 9]
    exits = " ".join(f"if (n == {k}) {{ *y = a; return; }} int v{k} = n + a; a = v{k} - n + 1;" for k in range(40))
    assert result(f"int a = 5; {exits} *y = a + v3;", n)[0] == (5 + n if n < 40 else 45 + n + 8)
    breaks = " ".join(f"if (s == {k * 3}) {'continue' if k % 2 else 'break'}; s += 1;" for k in range(1, 20))
    total = 0
    for _ in range(n):
        for k in range(1, 20):
            if total == k * 3:
                break
            total += 1
        else:
            continue
        if k % 2 == 0:
            break
    assert result(f"int s = 0; for (int j = 0; j < n; j++) {{ {breaks} }} *y = s;", n)[0] == total


def test_mistakes_do_not_hide_others() -> None:
    body = """
    while (q1) { q2; } for (int i = 0; i < q3; i++) { q4; } switch (q5) { case 1: q6; } if (q7) q8;
    switch (n) { case 1: case 1: q9; case q10: ; } break;
    enum { A = 2147483647, B, C };
    """
    found = errors(body)
    for number in range(1, 11):
        assert any(f"q{number} " in each or each.endswith(f"q{number}") or f"q{number};" in each for each in found), number
    assert "case 1 is there twice in this switch" in found
    assert any(each.startswith("break outside of loops and switches") for each in found)
    assert any("the constant B of an enum is 2147483648, which is no int" in each for each in found)


@pytest.mark.parametrize("argument", [12, 12.0, np.float32(12), np.int64(4)])
def test_promises_of_numbers_hold_whatever_their_type(argument: object) -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(int *y, int n __multipleof(8)) { *y = n; }")
    with pytest.raises(jn.UserError, match=r"__multipleof\(8\) is promised"):
        kernel.launch(1, np.zeros(1, I32), argument)
    kernel.launch(1, np.zeros(1, I32), 16.0)


POINT = "struct point { int x, y; }; struct line { struct point from, to; int w; };"


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("before", "body", "expected"),
    [
        ("struct a; struct a { int x; };", "struct a v = {3}; *y = v.x;", [3]),
        ("union a; union a { int x; float f; };", "union a v = {3}; *y = v.x;", [3]),
        ("enum e; enum e { A = 3 }; enum e;", "enum e v = A; *y = v;", [3]),
        ("typedef struct a A; struct a { int x; };", "A v = {3}; { struct a { float z, w; }; A u = v; *y = u.x; }", [3]),
        ("struct a { int x; };", "struct a; *y = 3;", [3]),
        ("typedef int I; typedef int I; typedef int (J);", "I i = 3; J j = 4; *y = i + j;", [7]),
        ("int; int static inline g(int const a) { return a; }", "int const M = 3; int; *y = g(M);", [3]),
        ("int (g)(int a) { return a + 1; } int *(h)(int *a) { return a; }", "*h(y) = (g)(2);", [3]),
        ("int g(int), h(int); int h(int a) { return a + 1; } int g(int a) { return a; }", "*y = g(1) + h(2);", [4]),
        ("const int N = 4, g(int); int g(int a) { return a; }", "*y = g(N);", [4]),
        ("int g(int a); int g(int); int g(); int g(const int b) { return b; } int g(int c);", "int g(int); *y = g(3);", [3]),
        ("int g(void); int g() { return 3; } int s(int[4]), t(int v[4])[4]; int s(int v[4]) { return v[+]; }",
         "*y = g() + s(0 ... 4);", [9]),
        ("static __inline__ __attribute__((always_inline)) int g(int a) { return a; } static_assert(1, \"ok\");",
         "static_assert(sizeof(int) == 4); *y = g(3);", [3]),
        ("", "int (*p) = y, ((q)) = 3, (r)[4] = 0 ... 4; *p = q + r[+];", [9]),
        ("", "int a = {3}, b = {4,}; *y = a + b;", [7]),
        ("const int N = {3};", "*y = N;", [3]),
        ("__constant__ int t[2, 2] = {1, 2, 3, 4,};", "*(y + 0 ... 4) = t[(0 ... 4) / 2, (0 ... 4) % 2];", [1, 2, 3, 4]),
        ("__constant__ int t[2, 2] = {{1}, 3, 4};", "*(y + 0 ... 4) = t[(0 ... 4) / 2, (0 ... 4) % 2];", [1, 0, 3, 4]),
        ("__constant__ int t[2, 2] = {1, {2}, {3}};", "*(y + 0 ... 4) = t[(0 ... 4) / 2, (0 ... 4) % 2];", [1, 2, 3, 0]),
        ("__constant__ int t[2, 2] = {[1] = {5, 6}, [0] = 7};", "*(y + 0 ... 4) = t[(0 ... 4) / 2, (0 ... 4) % 2];",
         [7, 0, 5, 6]),
        ("__constant__ int t[2, 2] = {[0, 1] = 5, 6, [1][1] = 8};", "*(y + 0 ... 4) = t[(0 ... 4) / 2, (0 ... 4) % 2];",
         [0, 5, 6, 8]),
        ("__constant__ int t[4] = {[2] = 5, 6, [0] = {1}, 2};", "*(y + 0 ... 4) = t[0 ... 4];", [1, 2, 5, 6]),
        ("__constant__ int t[] = {[3] = 5, [0] = 1, 2};", "*(y + 0 ... 4) = t[0 ... 4];", [1, 2, 0, 5]),
        (POINT, "struct line v = {1, 2, 3, 4, 5}; *y = v.from.y; *(y + 1) = v.to.x; *(y + 2) = v.w;", [2, 3, 5]),
        (POINT, "struct line v = {{1}, 3, 4}; *y = v.from.x; *(y + 1) = v.from.y; *(y + 2) = v.to.y;", [1, 0, 4]),
        (POINT, "struct point p = {7, 8}; struct line v = {p, 3, 4}; *y = v.from.y; *(y + 1) = v.to.y;", [8, 4]),
        (POINT, "struct line v = {.to.x = 5, 6, 7, .from.y = 2}; *y = v.to.y; *(y + 1) = v.w; *(y + 2) = v.from.y;", [6, 7, 2]),
        (POINT, "struct line v = {.from = 1, 2, 3}; *y = v.from.x; *(y + 1) = v.from.y; *(y + 2) = v.to.x;", [1, 2, 3]),
        (POINT, "struct point v[4] = {0 ... 4, .x = 2}; *(y + 0 ... 4) = v.x + v.y;", [2, 2, 2, 2]),
        (POINT, "int k = 0; struct point v = {k++, k++}; *y = v.x; *(y + 1) = v.y; *(y + 2) = k;", [0, 1, 2]),
        (POINT + "const struct line L = {.to = {3, 4 * 2}, 9};", "*y = L.to.y; struct point p = L.to; *(y + 1) = p.x + L.w;",
         [8, 12]),
        ("struct s { int a; struct { int b, c; }; union { float f; int bits; }; };",
         "struct s v = {1, 2, 3, 1.0f}; v.b += 4; *y = v.b; *(y + 1) = v.c; *(y + 2) = v.bits;", [6, 3, 0x3F800000]),
        ("struct s { int (a), (b)[4];; };", "struct s v = {1, .b = 0 ... 4}; *y = v.a + v.b[+];", [7]),
        ("", "*y = fmaxf(1, 3) * 100 + fmin(2.5, 1) * 10 + floorf(1.5f) + powf(2, 2) + fmaf(1, 2, 3) + rsqrtf(4) * 2;", [321]),
        ("void f(int *, int); void other(int *y) { *y = 4; }", "*y = 3;", [3]),
    ],
)  # fmt: skip
def test_rare_declarations(before: str, body: str, expected: list[int]) -> None:
    assert result(body, 0, before) == [*expected, *[0] * (4 - len(expected))]


def test_a_prototype_makes_a_function_a_kernel() -> None:
    text = "__global__ void f(int *y);\nvoid f(int *y) { *y = 3; }\nvoid g(int *y) { *y = 4; }\n"
    assert jn.kernel.from_triton_c(text).name == "f"


def test_members_without_a_name_are_given_by_their_members() -> None:
    text = "struct v { int *p; struct { int a, b; }; };\n__global__ void f(struct v w) { *w.p = w.a * 10 + w.b; }\n"
    kernel = jn.kernel.from_triton_c(text)
    for make in (lambda y: {"p": y, "a": 3, "b": 4}, lambda y: (y, 3, 4)):
        y = np.zeros(1, I32)
        kernel.launch(1, make(y))
        assert y[0] == 34
    with pytest.raises(jn.UserError, match="which has p, a, b"):
        kernel.launch(1, {"p": np.zeros(1, I32), "a": 3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("float g(int);", "1:7: error: function g is declared as float (int), and defined as int (int)"),
        ("int g(int, int);", "1:5: error: function g is declared as int (int, int), and defined as int (int)"),
        ("int g(int[4]);", "1:5: error: function g is declared as int (int[4]), and defined as int (int)"),
        ("int other(int); int x(int a) { return other(a); }", "1:39: error: other is declared, and has no body"),
    ],
)
def test_prototypes_that_do_not_fit(text: str, expected: str) -> None:
    call = "x(n)" if " x(" in text else "g(n)"
    assert located(f"{text} int g(int a) {{ return a; }}\n__global__ void f(int *y, int n) {{ *y = {call}; }}") == [expected]


MIXED = [
    ("""int a = 3 +;
        float b = q1;
        *y = a + b + q2;
        int c[24] = 0 ... 24;
        if (n > ) { *y = q3; } else *y = n @ 2;""",
     ["2 expected an expression", "3 q1", "4 q2", "5 the extent 24", "6 expected an expression", "6 q3", "6 int @ int"]),
    ("""int a = 3
        int b = q1
        if (b < a) *y = b
        return
        """, ["2 expected ; behind a declaration", "3 q1", "3 expected ;", "4 expected ;", "5 expected ; behind return"]),
    ("""if (n) *y = ; else *y = q1;
        while (n < 3 { *y = q2; }
        for (int i = 0; i < n i++) { *y = i + q3; }
        do { *y = q4; } while (n;
        *y = q5;""",
     ["2 expected an expression", "2 q1", "3 expected )", "3 q2", "4 expected ; behind the condition of for", "4 q3",
      "5 expected )", "6 q5"]),
    ("""switch (n) {
          case 1 *y = 3; break;
          case 2: *y = q1; break;
          default: *y = 5 6;
        }
        switch (n +) { case 1: *y = q2; }""",
     ["3 expected : behind case", "4 q1", "5 expected ; behind an expression", "7 expected an expression", "7 q2"]),
    ("""struct s { int x y; } v; struct s w; enum { A B, C }; typedef int I +; I z = 3;
        int d[16] = , e = 5, *c = y; T g = 3; T *h = y; int k = (3, m = 4;
        *y = d + e + g + v.x + w.x + A + C + z + m + q1; *h = *c;""",
     ["2 expected ; behind a member", "2 expected , or } in an enum", "2 expected ; behind a declaration",
      "3 expected an expression", "3 expected a type", "3 expected a type", "3 expected )", "4 q1"]),
    ("""goto end; *y = q1;
        *y = ((n + 1) * 2; *(y + n = q1; *y = q2[3;
        end: *y = q3; ) *y = 3;
        int t = {1; *y = t + q4;""",
     ["2 goto", "2 q1", "3 expected )", "3 expected )", "3 expected ]", "4 labels", "4 q3", "4 expected an expression",
      "5 expected , or }", "5 q4"]),
    ("*y = TM + 1; for (int i = 0; i < TM; i += TM) *y = TM * q1 + q1;", ["2 TM", "2 q1"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "expected"), MIXED, ids=range(len(MIXED)))
def test_errors_of_syntax_hide_none_of_types_and_make_none(body: str, expected: list[str]) -> None:
    lines = located(f"__global__ void f(int *y, int n) {{\n{body}\n}}")
    found = [each.partition(":")[0] + each.partition("error:")[2] for each in lines]
    assert len(found) == len(expected), found
    for error, wanted in zip(found, expected, strict=True):
        assert error.startswith(wanted), found


def test_errors_of_functions_with_errors_in_parameters_and_of_what_they_call() -> None:
    text = """float g(float a, float ) { return a + q1; }
    float h(float a b, int c) { return a + b + c + q2; }
    int k(int a) { int b = a +; return b + q3; }
    __global__ void f(float *y __foo, int n) { *y = g(n) + h(n) + k(n) + q4;"""
    found = [each.partition(":")[0] + each.partition("error:")[2] for each in located(text)]
    wanted = ["1 parameter 2 of function g has no name", "1 q1 is", "2 expected , or ) in the parameters", "2 q2 is",
              "3 expected an expression", "3 q3 is", "4 __foo is no attribute", "4 this brace is not closed",
              "4 q4 is"]  # fmt: skip
    assert [each.startswith(start) for each, start in zip(found, wanted, strict=True)] == [True] * 9, found


def test_braces_too_many_and_too_few() -> None:
    head = "__global__ void f(int *y, int n) {\n"
    assert located(head + "  if (n) { *y = q1; } }\n  *y = 3;\n}") == [
        "2:17: error: q1 is not declared", "3:3: error: expected a type, got '*'",
    ]  # fmt: skip
    assert located(head + "  } }\n  int s = 3;\n  int t = s;\n  *y = t;\n}\nint g(int a) { return a; }") == [
        "2:5: error: this brace closes nothing",
    ]  # fmt: skip
    inner = "int g(int a) { int b = a; for (;;) { b = q2; } return b; }"
    assert located(head + f"  if (n) {{ *y = g(q1);\n  *y = 3;\n}}\n{inner}") == [
        "2:19: error: q1 is not declared", "5:5: error: function g is defined within another function",
        "5:42: error: q2 is not declared",
    ]  # fmt: skip
    assert located(head + "  if (n) { *y = q1;\n  *y = 3;\n}\nvoid g() { }") == [
        "2:17: error: q1 is not declared", "5:6: error: function g is defined within another function",
    ]  # fmt: skip
