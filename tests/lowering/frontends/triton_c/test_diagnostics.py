"""What is wrong with a program: each message with its line and column, the types at fault and a fix."""

from __future__ import annotations

import re

import joinery as jn
import pytest

from ....support.triton_c import problems

HEAD = "__global__ void f(float *p, const float *c, void *v, int n, half *h) {"
BLOCKS = "int i[16] = 0 ... 16; float a[16] = 0, m[16, 32] = 0, b[32] = 0; bool k[16] = i < n;"

CASES = [
    # shapes that do not broadcast
    ("a + b;",
     "3:3: error: shapes [16] and [32] do not broadcast: axis 0 is 16 and 32; fix: did you mean v[:, newaxis] of one of them?"),
    ("m + a;", "3:3: error: shapes [16, 32] and [16] do not broadcast: axis 1 is 32 and 16; fix: did you mean v[:, newaxis]"
     " of the one of shape [16]?"),
    ("*(p + m) = 0; *(p + i) = b;", "the target has shape [16], and the value has shape [32]"),
    ("*?(k)(p + 0 ... 32) = 0;", "3:1: error: shapes [32] and [16] do not broadcast"),
    ("k ? a : b;", "3:3: error: shapes [16] and [32] do not broadcast"), ("max(a, b);", "do not broadcast"),
    # assignments that shrink
    ("float x[16] = m;",
     "3:7: error: x has shape [16], and the value has shape [16, 32]; fix: a reduction, as in v[+] or v[:, max]"),
    ("float x = a;", "3:7: error: x is a scalar, and the value has shape [16]; fix: a reduction, as in v[+] or v[:, max]"),
    ("m = a;", "m has shape [16, 32], and the value has shape [16]; fix: did you mean v[:, newaxis]?"), ("*p = a;",
     "the target is a scalar"),
    ("(float[1, 16])m;", "the type of the cast has shape [1, 16], and the value has shape [16, 32]"),
    ("(float[8])a;", "the type of the cast has shape [8], and the value has shape [16]; fix: a reduction"),
    # lengths
    ("int x[24];", "3:7: error: the extent 24 of a block is no power of two; fix: 32, and a mask"), ("int x[n];",
     "the extent of a block is no constant"),
    ("int x[0];", "the extent 0 of a block is no power of two; fix: 1, 2, 4, 8"), ("int x[1024, 2048];",
     "a block of 2097152 elements; at most"),
    ("0 ... 24;", "3:3: error: the range 0 ... 24 has 24 elements, which is no power of two; fix: 0 ... 32, and a mask"),
    ("0 ... n;", "3:7: error: the end of a range is no constant integer; fix: a constant end, and a mask"),
    ("n ... 16;", "3:1: error: the start of a range is no constant integer; fix: start + 0 ... N"), ("8 ... 8;",
     "the range 8 ... 8 is empty"),
    ("8 ... 0;", "is empty"), ("2147483640 ... 2147483656;", "does not fit into int"), ("0 ... 2097152;",
     "at most 1048576 are possible"),
    ("0 ... 1.5;", "the end of a range is no constant integer"),
    # products
    ("m @ m;", "3:3: error: float[16, 32] @ float[16, 32]: axis 1 of the first and axis 0 of the second must agree, "
     "and are 32 and 16; fix: ^ before one of them"),
    ("m @ n;", "float[16, 32] @ int: both are blocks of two axes, or of three"), ("a @ b;",
     "float[16] @ float[32]: both are blocks of two axes"),
    ("m @ (half[32, 16])0;", "float[16, 32] @ half[32, 16]: the elements differ"), ("(bool[16, 16])1 @ (bool[16, 16])1;",
     "a product of bools"),
    ("(float[4, 8, 2])0 @ (float[8, 4, 4])0;", "the batches, axis 2, are 2 and 4"), ("dot(m, m);",
     "must agree"),
    # conditions
    ("if (k) n = 1;",
     "3:5: error: the condition is a block of shape [16]; fix: use ?: or a mask, or reduce it: (c)[max] = any, (c)[min] = all"),
    ("while (i < 3) ;", "3:10: error: the condition is a block of shape [16]"), ("for (; k; ) ;",
     "the condition is a block of shape [16]"),
    ("do ; while (k);", "the condition is a block of shape [16]"), ("switch (i) { case 1: ; }",
     "a switch over a value of type int[16]"),
    # subscripts
    ("a[16];", "3:3: error: the index 16 lies outside axis 0 of float[16], which has 16 elements; fix: 0 to 15"),
    ("a[a];", "3:3: error: an index of type float[16] in a subscript of float[16]; fix: an integer, or a cast"), ("a[0:3];",
     "an interval in a subscript of float[16]"),
    ("m[:];", "3:2: error: the subscript names 1 axes of float[16, 32], which has 2"), ("a[:, :];",
     "names 2 axes of float[16], which has 1"),
    ("n[:];", "3:2: error: a subscript of a value of type int, which is no block"), ("^n;",
     "3:1: error: ^ of a value of type int, which is no block"),
    ("m[^0, ^0];", "[^0, ^0] is no permutation of the 2 axes of float[16, 32]"), ("m[^0, :];", ": beside ^ in one subscript"),
    ("m[^n, ^0];", "the axis of a permutation is no constant integer"), ("a[-];",
     "there is no reduction by -; fix: [+] of the negated block"),
    ("a[&];", "a reduction of float[16] by &, which needs integers"), ("(p + i)[+];", "a reduction of float*[16] by +"),
    # dereferences
    ("*n;", "3:1: error: a value of type int is dereferenced, which is no pointer"), ("*v;",
     "3:1: error: void* is dereferenced; fix: a cast, as in (float*)p"),
    ("*?(k)*p = 1;", "3:6: error: *?(m) already dereferences; fix: write *?(m)p"), ("v + 1;", "void* is dereferenced"),
    ("n = p;",
     "a value of type float* where int is expected"),
    # operands
    ("a % 2;", "3:3: error: float[16] % int: % needs integers"), ("n << 1.5f;", "3:3: error: int << float: << needs integers"),
    ("a & i;", "float[16] & int[16]: & needs integers"), ("~a;",
     "3:1: error: ~ of a value of type float[16], which needs integers"), ("p * 2;",
     "* of a value of type float*, expected a number"),
    ("p + 1.5f;", "float* + float: pointers move by integers; fix: a cast, (int)…"), ("p + p;",
     "float* + float*: pointers of one type can be subtracted, and no more"),
    ("1 - p;", "int - float*: a pointer is subtracted from a number"), ("p - h;",
     "float* - half*: pointers of one type can be subtracted"),
    ("p < 3;", "float* < int: pointers are compared with pointers of their type, or 0"), ("-p;",
     "- of a value of type float*, expected a number"),
    # left sides
    ("n + 1 = 3;", "3:3: error: this is not assigned to; what is assigned to is a name, a member, *p or *?(m)p"), ("a[+] = 3;",
     "this is not assigned to"),
    ("3 = n;", "this is not assigned to"), ("*c = 3;",
     "3:1: error: a store through const float*, which is const; fix: a pointer without const"),
    ("const int q = 3; q = 4;", "3:18: error: q is const, and is assigned to"), ("f = 3;", "f is not declared"), ("n++ += 1;",
     "this is not assigned to"),
    ("atomic_add(c, 1.0f);", "atomic_add through const float*, which is const"), ("float *q = c;",
     "const float* is converted to float*, which could be stored through"),
    ("(n + 1)++;", "this is not assigned to"), ("enum { A }; A = 3;", "A is a constant or a type"),
    ("k ? n = 3 : 4;", "an arm of ?: on a block of conditions assigns n; fix: n = c ? … : n"), ("k && n++;",
     "on blocks assigns variables"),
    # axes
    ("get_program_id(3);", "3:16: error: axis 3 of get_program_id, expected 0 to 2"), ("get_program_id(n);",
     "the axis of get_program_id is no constant integer"),
    ("get_num_programs(-1);", "axis -1 of get_num_programs, expected 0 to 2"), ("argmax(a, 1);",
     "axis 1 of argmax, expected 0 to 0"), ("argmax(n, 0);", "which is no block"),
    # names
    ("x = 3;", "3:1: error: x is not declared"), ("n = nn;", "3:5: error: nn is not declared"), ("n = gt_program_id(0);",
     "did you mean get_program_id or get_num_programs?"),
    ("n = TM;", "3:5: error: TM is not declared; fix: missing define? defines={'TM': …}"), ("int n; int n;",
     "3:12: error: n is declared twice in this scope"),
    ("{ int q; } q = 3;", "q is not declared"), ("T x;", "3:1: error: expected a type, got 'T'; fix: missing define?"),
    ("n = n(3);",
     "n is no function"), ("n = (1)(3);", "only functions can be called"),
    # calls
    ("exp(1, 2);", "3:1: error: exp takes 1 arguments, got 2"), ("min(1);", "min takes 2 arguments, got 1"), ("exp(p);",
     "exp of a value of type float*, expected a number"),
    ("g(1);", "g takes 2 arguments, got 1"), ("g(a, 1);",
     "parameter x of g is a scalar, and the value has shape [16]"), ("f(p, c, v, n, h);", "recursion is not supported: f → f"),
    ("r(1);", "recursion is not supported: r → s → r; fix: a loop"), ("atomic_add(n, 1);",
     "a value of type int is dereferenced"), ("e(p);", "e is a kernel, and is called"),
    ("atomic_cas(p, 1, 2);", "it compares integers"), ("atomic_max(p, 1);",
     "it is for integers"), ("atomic_add((char*)v, 1);", "atomics are on half, float"),
    ("atomic_add(p);", "atomic_add takes (p, value) or (p, value, mask), got 1 arguments"),  ("exp(1)(3);",
     "the result of exp is no function"),
    ("int q = w(1);", "a value of type void where int is expected"), ("exp(float);", "a type, expected a value"),
    # casts
    ("bitcast<int>(h);", "bitcast of a value of type half*"), ("bitcast<long>(n);",
     "bitcast of int to long: the widths of the elements differ"),
    ("(int)p;", "a cast of a value of type float* to int: addresses are integers of 64 bits; fix: (int)(long)…"), ("(float*)n;",
     "a cast of a value of type int to float*: addresses are integers of 64 bits; fix: (float*)(long)…"), ("(float*)1.5;",
     "a cast of a value of type double to float*"), ("p = h;", "a value of type half* where float* is expected; fix: a cast"),
    ("sizeof(void);", "void is no type of values"), ("void q;", "void is no type of values"), ("99999999999999999999;",
     "does not fit into 64 bits"), ("0189;", "0189 is no number"),
    ("'ab';", "'ab' is no single character"), ("1.5x;", "1.5x is no number"),
    # statements
    ("break;", "3:1: error: break outside of loops and switches"), ("continue;",
     "continue outside of loops"), ("switch (n) { case 1: continue; }", "continue outside of loops"),
    ("switch (n) { n = 3; case 1: ; }", "a statement before the first case"), ("switch (n) { case 1: ; case 1: ; }",
     "case 1 is there twice in this switch"),
    ("switch (n) { default: ; default: ; }", "default is there twice"), ("switch (n) { case n: ; }",
     "the value of a case is no constant integer"), ("case 1: ;", "case is not directly in the braces"),
    ("return 3;", "3:1: error: a value of type int is returned from a void function; fix: return;"), ("n = q();",
     "return without a value in a function of type int"),
    ("_Static_assert(sizeof(int) == 8, \"size\");", "3:1: error: _Static_assert fails: size"), ("_Static_assert(n, \"\");",
     "the condition of _Static_assert is no constant"),
    ("int x __noalias;", "__noalias on the local variable x; it is for parameters"), ("int x __aligned(4);",
     "__aligned on x of type int"), ("assert(n, 3);", "the message of assert is no string"),
    ("n = assert(1);", "a value of type void where int is expected"), ("n = \"a\";", "a string, which is for print"),
]  # fmt: skip
OTHERS = """
int g(int x, float y) { return x; }
int r(int x) { return s(x); }
int s(int x) { return r(x); }
int q() { return; }
void w(int x) { }
__global__ void e(float *x) { }
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("body", "message"), CASES, ids=lambda each: str(each)[:40])
def test_a_mistake_is_told(body: str, message: str) -> None:
    found = problems(f"{HEAD}\n{BLOCKS}\n{body}\n}}\n{OTHERS}", name="f")
    assert (f"<text>:{message}" if re.match(r"\d+:\d+: ", message) else message) in found
    first, excerpt, caret = found.split("\n")[:3]
    column = int(first.split(":")[2])
    assert excerpt.strip()
    assert len(caret) - 2 == column


@pytest.mark.parametrize(
    ("parameter", "message"),
    [
        ("float x __multipleof(4)",
         "1:27: error: __multipleof on x of type float; it goes with an integer"), ("int n __aligned(4)",
         "it goes with a pointer"),
        ("int n __noalias", "it goes with a pointer"), ("float *x __aligned(3)",
         "__aligned(3), expected a power of two"), ("int n __multipleof(0)", "expected a positive number"),
        ("float x[16]", "parameter x of a kernel is a block; fix: a pointer"), ("int n, int n",
         "n is declared twice in this scope"), ("float *x __global__", "it goes with a function"),
        ("int n __multipleof(m)", "m is not declared"), ("void x", "void is no type of values"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_parameter_is_told(parameter: str, message: str) -> None:
    assert message in problems(f"__global__ void f({parameter}) {{ }}")


def test_a_kernel_returns_nothing() -> None:
    assert "kernel f returns int; fix: void, and a pointer parameter" in problems("__global__ int f() { return 3; }")
    assert "function f is defined twice" in problems("__global__ void f() {}\n__global__ void f() {}")
    assert "g is no kernel; kernels: f" in problems("void g() {}\n__global__ void f() {}", name="g")


def test_the_values_of_macros_are_told() -> None:
    text = "#define T (N * 3)\n__global__ void f() {\n  int x[T] = 0 ... T;\n}"
    found = problems(text, {"N": 8})
    assert found.startswith("<text>:3:9: error: the extent 24 of a block is no power of two (N = 8, T = 24)")
    text = "#define TWICE(n) (n * 2)\n__global__ void f() { int x[TM * TN] = 0; int y[TWICE(K)] = 0; }"
    assert "the extent 7 of a block is no power of two (TK = 2, TM = 3, TN = 3)" in problems(text, {"TM": 3, "TN": "TK + 1",
     "TK": 2, "K": 8})
    assert "the extent 6 of a block is no power of two (K = 3)" in problems(text, {"TM": 2, "TN": 2, "K": 3})
    assert "no power of two; fix" in problems(text, {"TM": 3, "TN": 1, "K": "sizeof(int)"}).replace(" (TM = 3, TN = 1)", "")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("__global__ void f(TYPE *y) { }", "TYPE"), ("__global__ void f(float *y) { TYPE x = 1; }", "TYPE"),
        ("__global__ void f(float *y) { TYPE *p = y; }", "TYPE"), ("__global__ void f(float *y) { TYPE x[4]; }", "TYPE"),
        ("__global__ void f(float *y, int n STRIDE_8) { }", "STRIDE_8"),
        ("struct s { TYPE x; }; __global__ void f() { }", "TYPE"),
        ("TYPE g(int x) { return x; } __global__ void f() { }", "TYPE"),
        ("__global__ void f() { for (TYPE i = 0; i < 3; i++); }", "TYPE"),
        ("__global__ void f(float *y) { *y = (TYPE)3; }", "TYPE"), ("__global__ void f(float *y) { *y = (TYPE)*y; }", "TYPE"),
        ("__global__ void f(float *y) { *y = bitcast<TYPE>(3); }", "TYPE"),
        ("__global__ void f(float *y) { *y = sizeof(TYPE); }", "TYPE"),
        ("__global__ void f(float *y) { *y = (TYPE[4])*y; }", "TYPE"),
        ("__global__ void f(int *y) { *y = 1; } MARK void g() { }", "MARK"),
    ],
)  # fmt: skip
def test_macros_that_are_missing_where_a_type_is_expected(text: str, name: str) -> None:
    found = problems(text)
    assert f"fix: missing define? defines={{{name!r}: …}}" in found
    assert found.count("error:") == 1


def test_names_of_types_with_a_slip() -> None:
    assert "expected a type, got 'flaot'; fix: did you mean float" in problems("__global__ void f() { flaot x = 1; }")
    assert "fix: did you mean double" in problems("__global__ void f(duoble *x) { }")


@pytest.mark.parametrize(
    ("statement", "fix"),
    [
        ("int a[4, 8] = 0; int b[8, 4] = a;", "fix: ^ before the value, which transposes it"),
        ("int c[2, 4] = 0 ... 8;", "shape [8]\n"),
        ("int a[4, 8] = 0; int b[8] = a;", "fix: a reduction"), ("int a[4, 8] = 0; int b = a;", "fix: a reduction"),
        ("int a[4, 8] = 0; int b[16] = a;", "shape [4, 8]\n"), ("*y = y[0];", "fix: *(y + 0)"),
        ("*y = (y + 1)[3];", "fix: *(p + 3)"),
        ("int i = 3; *y = y[i];", "fix: *(y + i)"),
        ("atomic_max((float*)y, 1);", "it is for integers; fix: integers, or a loop of"),
        ("int1 c[16] = 1;", "int1 is of the dialect of early 2019, another language; fix: bool"),
    ],
)  # fmt: skip
def test_what_is_proposed_helps(statement: str, fix: str) -> None:
    assert fix in problems(f"__global__ void f(int *y) {{\n{statement}\n}}")


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("__global__ void f(float) { }", "1:19: error: parameter 1 of function f"),
        ("__global__ void f(float *y, int) { *y = 1; }", "1:29: error: parameter 2 of function f"),
        ("float g(float, int a) { return a; }\n__global__ void f(float *y) { *y = g(1, 2); }",
         "1:9: error: parameter 1 of function g"),
        ("struct s { int a; };\n__global__ void f(float *y, struct s) { *y = 1; }", "2:29: error: parameter 2 of function f"),
        ("__global__ void f(float *y, int[8]) { *y = 1; }", "1:29: error: parameter 2 of function f"),
    ],
)  # fmt: skip
def test_parameters_have_names(text: str, position: str) -> None:
    found = problems(text)
    assert found.startswith(f"<text>:{position} has no name, which prototypes alone leave out; fix: a name behind its type")
    assert found.count("error:") == 1


def test_mistakes_behind_mistakes_of_syntax_are_told() -> None:
    text = """int g(int a) { return a + b; }
int h(int a) { int c = ; return d; }
int unused(int a) { return e; }
__global__ void f(read_only fp16 *a, write_only fp32 *b, int n) {
  @chk *pc = 1;
  *b = g(n) + h(n);
}
"""
    found = [line for line in problems(text).split("\n") if "error:" in line]
    assert [line.split(":")[1] + line.partition("error:")[2].partition("; fix")[0] for line in found] == [
        "1 b is not declared", "2 expected an expression, got ';'", "2 d is not declared",
        "4 read_only is of the dialect of early 2019, another language",
        "4 write_only is of the dialect of early 2019, another language",
        "5 @ before an expression: the dialect of early 2019 wrote @mask *p = v",
    ]  # fmt: skip
    same = "#define BAD int c = ;\nint g(int a) { BAD return c; }\n__global__ void f(int *y) { BAD *y = g(c); }"
    assert problems(same).count("error:") == 1


def test_mistakes_in_several_parameters_are_told() -> None:
    text = "__global__ void f(int *y __aligned(3), int n __multipleof(Q), int q __multipleof(0), TYPE x) { *y = zz; }"
    wanted = ["expected a power of two", "Q is not declared", "expected a positive number", "zz is not declared"]
    assert all(each in problems(text, {"TYPE": "int"}) for each in wanted)
    assert "got 'TYPE'" in problems(text)
    assert problems("__global__ void f(wrong x, int n, int n[) { }").count("error:") == 2


def test_the_macros_that_a_mistake_came_by_are_shown() -> None:
    text = "#define INNER(v) v @ 3\n#define OUTER(v) (INNER(v) + 1)\n__global__ void f(int *x) {\n  *x = OUTER(*x);\n}"
    assert problems(text) == (
        "<text>:4:8: error: int @ int: both are blocks of two axes, or of three with a batch axis that is the last\n"
        "    *x = OUTER(*x);\n         ^\n"
        "<text>:2:19: from macro OUTER\n  #define OUTER(v) (INNER(v) + 1)\n                    ^\n"
        "<text>:1:20: from macro INNER\n  #define INNER(v) v @ 3\n                     ^"
    )


def test_several_mistakes_are_told_once_each() -> None:
    text = """__global__ void f(int *x) {
      int a = b, c = d;
      if (e) { *x = 3.5f % 2; } else { *x = g(); }
      for (int i = h; i < 3; i++) *x = i @ 2;
      *x = a + c;
    }"""
    found = [line for line in problems(text).split("\n") if "error:" in line]
    assert [line.split(":")[1] + line.partition("error:")[2] for line in found] == [
        "2 b is not declared", "2 d is not declared", "3 e is not declared", "3 float % int: % needs integers",
        "3 g is not declared",
        "4 h is not declared",
        "4 int @ int: both are blocks of two axes, or of three with a batch axis that is the last",
    ]  # fmt: skip


def test_diagnostics_are_values_too() -> None:
    text = "#define M(v) v @ 3\n__global__ void f(float *x) {\n  float a[4] = *(x + 0 ... 4) * 0.5; M(2);\n}\n"
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(text)
    warning, error = caught.value.diagnostics
    assert [warning.severity, error.severity] == ["warning", "error"]
    at = {"file": "<text>", "line": 1, "column": 16, "endLine": 1, "endColumn": 17}
    assert error.json["macros"] == [{**at, "note": "from macro M"}]
    assert (error.json["endLine"], error.json["endColumn"]) == (3, 39)


def test_ends_are_behind_what_is_meant() -> None:
    text = "__global__ void f(float *x) {\n  *x = unk\\\nnown + 3;\n  *x = 1\n}\n#define P(a, b) a ## b\nvoid g() { P(q, r); }"
    with pytest.raises(jn.UserError) as caught:
        jn.kernel.from_triton_c(text + "\n")
    names = ("line", "column", "endLine", "endColumn")
    found = [tuple(each.json[name] for name in names) for each in caught.value.diagnostics]
    assert found[:2] == [(2, 8, 3, 5), (4, 9, 4, 9)]


def test_too_many_nested_branches_are_told() -> None:
    body = "if (*x) " * 29 + "*x = 2;"
    assert "more than 28 branches and loops in one another" in problems(f"__global__ void f(int *x) {{\n{body}\n}}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((1,), "@f takes 2 arguments, got 1; parameters: float* x, int n; fix: arguments for n (int)"),
        ((), "@f takes 2 arguments, got 0; parameters: float* x, int n; fix: arguments for x (float*), n (int)"),
        ((1, 2), "parameter x of type float* (<text>:1): expected an array, got int"),
        (("x", 2.5), "parameter x of type float* (<text>:1): expected an array, got str"),
    ],
)  # fmt: skip
def test_arguments_of_a_launch_are_checked(args: tuple[object, ...], message: str) -> None:
    kernel = jn.kernel.from_triton_c("__global__ void f(float *x, int n) { *x = n; }\n")
    with pytest.raises(jn.UserError, match=re.escape(message)):
        kernel.launch(1, *args)
    with pytest.raises(jn.UserError, match="expected one to three numbers of programs"):
        kernel.launch((1, 2, 3, 4), *args)


HINTS = "int i[4] = 0 ... 4; float v[4] = 0, m[4, 8] = 0; bool b[4] = i < n;"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("max(v);", "3:1: error: max takes 2 arguments, got 1; fix: v[max]"),
        ("max(m);", "max takes 2 arguments, got 1; fix: m[max, max]"),
        ("sum(m);", "3:1: error: sum is not declared; fix: m[+, +]"),
        ("sum(v + 1);", "sum is not declared; fix: (…)[+]"),
        ("any(b);", "any is not declared; fix: b[max]"),
        ("p = p + i;", "3:3: error: p is a scalar, and the value has shape [4]; fix: a block of pointers, float* p[4]"),
        ("*(b)p = 1;", "3:1: error: a mask of * stands behind *?, and what is dereferenced behind it; fix: *?(mask)p"),
        ("*(i < 2)(p + i) = 1;", "3:1: error: a mask of * stands behind *?"),
        ("*(b)(p + i) = 1;", "b is no function; fix: *?(b)p, where it is a mask"),
        ("(TYPE[TM])v;", "3:2: error: expected the type of a cast, got 'TYPE'; fix: missing define? defines={'TYPE': …}"),
        ("(TYPE*)p;", "3:2: error: expected the type of a cast, got 'TYPE'"),
        ("(TYPE*[4])p;", "3:2: error: expected the type of a cast, got 'TYPE'"),
        ("_Atomic int q;", "3:1: error: atomic types are not supported; use atomic_add(p, v) and its like"),
        ("_Complex float q;", "3:1: error: complex numbers are not supported"),
        ("n = 1\nn = 2;", "3:6: error: expected ; behind an expression, got 'n'"),
        ("n = 1 // one\n;n = 2\n\n\n", "4:7: error: expected ; behind an expression, got '}'"),
        ("n = 1 }", "3:7: error: expected ; behind an expression, got '}'"),
    ],
)
def test_what_was_meant_is_told(body: str, message: str) -> None:
    assert message in problems(f"{HEAD}\n{HINTS}\n{body}\n}}")


def test_stars_before_parentheses_are_products_and_accesses() -> None:
    text = "__constant__ float t[2] = {1, 2}; const float *g(int n) { return t + n; }\n"
    body = "*(y) = *(g)(1) * (n) + *(g(0)) * (float)n + *(float*)y;"
    kernel = jn.kernel.from_triton_c(f"{text}__global__ void f(float *y, int n) {{ {body} }}")
    assert kernel.name == "f"
    assert "a table of struct P; fix: one table for each member" in problems(
        "struct P { int a; }; __constant__ struct P t[2] = {1, 2}; __global__ void f(int *y) { }"
    )
