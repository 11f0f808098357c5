"""The grammar: precedences, types, statements, and errors behind which the parser goes on."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.triton_c.reading.diagnostics import Diagnostics, TritonCError
from joinery.lowering.frontends.triton_c.reading.preprocessor import preprocess
from joinery.lowering.frontends.triton_c.reading.source import Source
from joinery.lowering.frontends.triton_c.syntax import tree
from joinery.lowering.frontends.triton_c.syntax.parser import parse

from ....support.triton_c import problems


def parsed(text: str) -> list[tree.Statement]:
    diagnostics = Diagnostics()
    found = parse(preprocess(Source("k.tc", text), {}, {}, diagnostics), diagnostics)
    diagnostics.check()
    return found


def shown(node: object) -> str:
    """An expression with all its brackets."""
    match node:
        case tree.Binary():
            return f"({shown(node.left)} {node.token.text} {shown(node.right)})"
        case tree.Unary():
            return f"{node.token.text}{shown(node.operand)}"
        case tree.MaskedDereference():
            return f"*?({shown(node.mask)}){shown(node.operand)}"
        case tree.Postfix():
            return f"{shown(node.operand)}{node.token.text}"
        case tree.Conditional():
            return f"({shown(node.condition)} ? {shown(node.first)} : {shown(node.second)})"
        case tree.Assignment():
            return f"({shown(node.target)} {node.token.text} {shown(node.value)})"
        case tree.Cast():
            return f"<{shown(node.type)}>{shown(node.operand)}"
        case tree.Bitcast():
            return f"bits<{shown(node.type)}>({shown(node.operand)})"
        case tree.SizeOf():
            return f"sizeof({shown(node.operand)})"
        case tree.TypeName():
            shape = f"[{', '.join(map(shown, node.shape))}]" if node.shape is not None else ""
            return f"{node.base}{'*' * (len(node.constant) - 1)}{shape}"
        case tree.Subscript():
            entries = [entry.kind + (shown(entry.value) if entry.value else "") for entry in node.entries]
            return f"{shown(node.operand)}[{', '.join(entries)}]"
        case tree.Call():
            return f"{shown(node.callee)}({', '.join(map(shown, node.arguments))})"
        case tree.Node():
            return node.token.text
    raise AssertionError(node)


def expression(text: str) -> str:
    (function,) = parsed(f"void f() {{ {text}; }}")
    assert isinstance(function, tree.Function)
    assert function.body is not None
    (statement,) = function.body.statements
    assert isinstance(statement, tree.Evaluation)
    return shown(statement.expression)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p * T + 0 ... T", "((p * T) + (0 ... T))"), ("0 ... T / 2", "((0 ... T) / 2)"),
        ("alpha * a @ b", "(alpha * (a @ b))"),
        ("a @ b @ c", "((a @ b) @ c)"), ("a - b - c", "((a - b) - c)"), ("a + b * c << d < e == f & g ^ h | i && j || k",
         "(((((((((a + (b * c)) << d) < e) == f) & g) ^ h) | i) && j) || k)"),
        ("a = b = c ? d : e ? f : g", "(a = (b = (c ? d : (e ? f : g))))"), ("c ? a, b : d", "(c ? (a , b) : d)"),
        ("-(float[N]) *p", "-<float[N]>*p"), ("(float[N]) - INFINITY", "<float[N]>-INFINITY"), ("(a) - b", "(a - b)"),
        ("a * *?(in)(x + i)", "(a * *?(in)(x + i))"), ("a * ? (m)p", None), ("* ? (m)p", "*?(m)p"),
        ("*?(m)*?(n)p", "*?(m)*?(n)p"),
        ("c * *p ? a : b", "((c * *p) ? a : b)"), ("^x @ y", "(^x @ y)"), ("a ^ ^b", "(a ^ ^b)"),
        ("x[^1, ^0] @ ^w", "(x[^1, ^0] @ ^w)"),
        ("(m ? v : 0)[+]", "(m ? v : 0)[+]"), ("exp(v)[max]", "exp(v)[max]"),
        ("v[:, newaxis, min, *]", "v[:, newaxis, min, *]"),
        ("v[max + 1]", "v[index(max + 1)]"), ("v[+ 1]", "v[index+1]"), ("-x[+]", "-x[+]"), ("!a && ~b", "(!a && ~b)"),
        ("x++ + ++y", "(x++ + ++y)"), ("--x", "--x"), ("sizeof(float) * sizeof x", "(sizeof(float) * sizeof(x))"),
        ("bitcast<int[4]>(x + 1)", "bits<int32[4]>((x + 1))"), ("(unsigned long int)x", "<uint64>x"),
        ("(long long)x", "<int64>x"),
        ("(const float*)p", "<float*>p"), ("(half*[4, 8])p", "<half*[4, 8]>p"), ("f()", "f()"),
        ("f(a, b = c)", "f(a, (b = c))"),
        ("atomic_add(float, TM, TN)(p, v)", "atomic_add(float, TM, TN)(p, v)"), ("a += b <<= c", "(a += (b <<= c))"),
        ("true && 'a' < 0x1F", "(true && ('a' < 0x1F))"), ("p + i * s + 1 ... 3 @ x", "((p + (i * s)) + ((1 ... 3) @ x))"),
    ],
)  # fmt: skip
def test_precedences(text: str, expected: str | None) -> None:
    if expected is None:
        with pytest.raises(TritonCError):
            expression(text)
    else:
        assert expression(text) == expected


def test_a_typedef_is_a_type_where_no_variable_hides_it() -> None:
    (_, function) = parsed("typedef float T; void f() { (T)-x; { int T; (T)-x; } (T)-x; }")
    assert isinstance(function, tree.Function)
    assert function.body is not None
    first, block, last = function.body.statements
    assert isinstance(block, tree.Compound)
    found = [first, block.statements[1], last]
    assert [shown(each.expression) for each in found if isinstance(each, tree.Evaluation)] == ["<T>-x", "(T - x)", "<T>-x"]


def test_functions_and_attributes() -> None:
    (kernel, device, prototype) = parsed(
        "__global__ void f(float *x __noalias __readonly, const half *restrict y __aligned(16), int n __multipleof(8),"
        " __attribute__((retune)) int m, char *p __attribute__((noalias, aligned(8)))) {}\n"
        "static inline float g(float v[B], float k)[B] { return v; }\nextern float atomic_add(float *, float);"
    )
    assert isinstance(kernel, tree.Function)
    assert isinstance(device, tree.Function)
    assert isinstance(prototype, tree.Declaration)
    assert kernel.is_global
    assert not device.is_global
    assert [[each.name for each in parameter.attributes] for parameter in kernel.parameters] == [
        ["noalias", "readonly"], ["noalias", "aligned"], ["multipleof"], ["retune"], ["noalias", "aligned"],
    ]  # fmt: skip
    assert [shown(each.type) for each in kernel.parameters] == ["float*", "half*", "int32", "int32", "int8*"]
    assert [shown(each.type) for each in device.parameters] == ["float[B]", "float"]
    assert shown(device.result) == "float[B]"
    assert [each.name for each in prototype.prototypes] == ["atomic_add"]


def test_attributes_stand_before_or_behind_the_shape() -> None:
    (function,) = parsed("void f() { int a __multipleof(8)[16] = 1, b[16] __multipleof(8) = 2; }")
    assert isinstance(function, tree.Function)
    assert function.body is not None
    (declaration,) = function.body.statements
    assert isinstance(declaration, tree.Declaration)
    assert [shown(each.type) for each in declaration.declarators] == ["int32[16]", "int32[16]"]
    assert all(each.attributes[0].name == "multipleof" for each in declaration.declarators)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("int a = 3 +;", "2:12: error: expected an expression, got ';'"), ("x = ;", "expected an expression, got ';'"),
        ("struct s x;", "2:1: error: struct s is not defined; fix: struct s { … }; before it"),
        ("union u x;", "union u is not defined"),
        ("goto end;", "goto is not supported; use break, continue, return, or a loop"),
        ("end: x = 0;", "labels are not supported"),
        ("int x[2][3];", "arrays of arrays are not supported; fix: the extents of a block, as in x[16, 32]"),
        ("float y[4] = {1, 2};", "brace lists are not supported"), ("y = {1};", "brace lists are not supported"),
        ("*?(m)*p = 3;", "*?(m) already dereferences; fix: write *?(m)p"),
        ("long double d;", "long double is no type; fix: double"),
        ("unsigned float d;", "unsigned float is no type"), ("p = &x;", "unary & is not supported"),
        ("int y[];", "an empty shape"),
        ("p->x = 3;", "2:2: error: -> of a pointer to a struct, and there are none: structs are values; fix: v.member"),
        ("v[] = 3;", "an empty subscript"),
        ("if x { }", "expected ( and the condition"),
        ("for (int i = 0, i < 3; i++) { }", "behind a declaration"), ("do { } while (1)", "expected ; behind do"),
        ("switch (x) x = 3;", "expected { and the cases of switch"), ("x = 3", "expected ; behind an expression, got '}'"),
        ("f(a b);", "expected , or ) in the arguments of a call"),
        ("x = 3 $ 4;", "expected ; behind an expression, got the character '$'"),
        ("int 3x;", "expected a name, got '3x'"), ("int if = 3;", "expected a name, got the keyword if"),
        ("x = ((3);", "expected )"),
        ("int y __foo;", "__foo is no attribute; fix: __global"),
        ("int y __aligned;", "expected ( and the argument of __aligned"),
        ("_Static_assert(1, 2);", "expected the message"), ("enum { A B };", "expected , or } in an enum"),
        ("__constant__ char *t;", "2:1: error: constant memory is declared outside of functions"),
        ("x = *?m p;", "expected ( and the mask behind *?"),
        ("bitcast<int>x;", "expected ( and the operand of a bitcast"), ("case 3 x;", "expected : behind case"),
    ],
)  # fmt: skip
def test_mistakes_in_statements(body: str, message: str) -> None:
    assert message in problems(f"__global__ void f(float *p) {{\n{body}\n}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("__global__ void f(float *x, read_only fp32 *y) {}",
         "read_only is of the dialect of early 2019, another language; fix: T *p __readonly"),
        ("__global__ void f(fp32 *y) {}", "fp32 is of the dialect of early 2019, another language; fix: float"),
        ("__global__ void f(restrict float *y) {}", "restrict before a type is of the dialect of early 2019"),
        ("void f() { const tunable int TM = {32, 64}; }",
         "tunable is of the dialect of early 2019, another language; fix: #define"),
        ("void f(float *p) { @m *p = 3; }", "wrote @mask *p = v; fix: *?(mask)p = v"),
        ("void f() { int r[16] = get_range_id(0); }", "get_program_id"),
        ("int q = 3;", "q is a variable outside of functions"), ("x = 3;", "expected a function, got 'x'"),
        ("", "the text has no kernel"),
        ("void f(int a) { ", "1:15: error: this brace is not closed"),
        ("void f(int) x", "expected the body of function f, got 'x'"),
        ("void f(a) {}", "expected the type of a parameter, got 'a'"),
        ("void f(int a, ...) {}", "a varying number of arguments is not supported"),
        ("void f(int (*g)(int)) {}", "1:12: error: pointers to functions are not supported"),
        ("void f(int (*)(int)) {}", "1:12: error: pointers to functions are not supported"),
        ("void f(int g(int)) {}", "parameters that are functions are not supported"),
        ("typedef int F(int); void f() {}", "types of functions are not supported"),
        ("int (f(int a)) { return a; }", "parameters in the parentheses around a name"),
        ("void f(int a) { int (*p)[4]; }", "pointers to blocks are not supported; fix: a block of pointers, T *p[…]"),
        ("void f(int a) { void g(int b) { } }", "1:22: error: function g is defined within another function; fix: a closing"),
        ("struct s { int g(int); }; void f() {}", "a function is no member"),
        ("void f(int a; int b) {}", "expected , or ) in the parameters"),
        ("void 3() {}", "expected the name of a function, got '3'"),
    ],
)  # fmt: skip
def test_mistakes_outside_of_statements(text: str, message: str) -> None:
    assert message in problems(text)


def test_several_mistakes_are_told_with_carets() -> None:
    found = problems("__global__ void f(int *x) {\n  int a = 3 +;\n  for (;;) { goto b; }\n  *x = (3;\n}\nvoid g(y) {}\n")
    assert found == (
        "<text>:2:14: error: expected an expression, got ';'\n    int a = 3 +;\n               ^\n"
        "<text>:3:14: error: goto is not supported; use break, continue, return, or a loop\n    for (;;) { goto b; }\n"
        "               ^\n"
        "<text>:4:10: error: expected ), got ';'\n    *x = (3;\n           ^\n"
        "<text>:6:8: error: expected the type of a parameter, got 'y'\n  void g(y) {}\n         ^"
    )


def test_reading_stops_at_twenty_errors() -> None:
    found = problems("__global__ void f(int *x) {\n" + "x = ;\n" * 100 + "}")
    assert found.count(": error:") == 20
    assert found.endswith("20 errors; reading stops here")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 5000 + "1" + ")" * 5000 + ";", "x = " + "-" * 5000 + "1;", "{" * 5000 + "}" * 5000,
        "if (1) " * 5000 + ";",
        "x = " + "a ? b ? " * 5000 + "c;", "x = " + "f(" * 5000 + ")" * 5000 + ";", "x = v" + "[+]" * 5000 + ";",
        "x = " + "v[^" * 5000 + ";", "x = " + "a = " * 5000 + "1;", "x = " + "(int)" * 5000 + "1;",
        "x = " + "sizeof " * 5000 + "1;", "x = " + "sizeof(" * 5000 + ";", "x = " + "bitcast<int>(" * 5000 + ";",
        "void g() {" * 5000, "x = f" + "()" * 5000 + ";",
    ],
)  # fmt: skip
def test_nesting_is_limited(text: str) -> None:
    found = problems(f"__global__ void f(int *p) {{ {text} }}")
    assert "error: more than 48" in found
    assert len(found) < 2000


@pytest.mark.parametrize("operator", ["+", "&&", ",", "*", "<", "@", "|"])
def test_long_chains_are_read(operator: str) -> None:
    (function,) = parsed("void f() { x = " + f"1 {operator} " * 3000 + "1; }")
    assert isinstance(function, tree.Function)


def calls(count: int, body: str) -> str:
    functions = [f"int g{number}(int a) {{ return {body.format(number - 1)}; }}" for number in range(1, count)]
    head = "\n".join(["int g0(int a) { return a + 1; }", *functions])
    return f"{head}\n__global__ void f(int *x) {{ *x = g{count - 1}(3); }}"


def test_calls_that_double_one_another_are_stopped() -> None:
    assert "the function has more than 131072 expressions, with what it calls" in problems(calls(60, "g{0}(a) + g{0}(a)"))


def test_calls_are_nested_no_deeper_than_some_limit() -> None:
    assert "nested too deeply" in problems(calls(400, "g{0}(a)"))
    x = np.zeros(1, np.int32)
    jn.kernel.from_triton_c(calls(40, "g{0}(a)") + "\n").launch(1, x)
    assert x[0] == 4


def test_the_tokens_of_a_text_are_limited() -> None:
    assert "more than 65536 tokens" in problems("__global__ void f(int *x) { " + "*x = 3; " * 20000 + "}")


def test_conditional_expressions_are_nested_no_deeper_than_the_block_ir_allows() -> None:
    inner = "(*x ? " * 12 + "*x" + " : *x)" * 12
    text = "__global__ void f(int *x) {" + "if (*x) " * 20 + f"*x = {inner}; }}"
    assert "more than 31 branches and loops in one another, of conditional expressions too" in problems(text)
    text = "__global__ void f(int *x) {" + "if (*x) " * 12 + f"*x = {inner}; }}\n"
    kernel = jn.kernel.from_triton_c(text, cache=False)
    assert jn.kernel.from_ttir(kernel.ttir, cache=False).ttir == kernel.ttir


def test_a_typedef_gives_a_name_of_the_old_dialect_a_meaning() -> None:
    parsed("typedef float fp32;\n__global__ void f(fp32 *y, const fp32 x) { fp32 z = x; *y = z; }")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"int {'*' * 40}a = 0;", "2:1: error: 40 pointers to one another; at most 16 are possible"),
        ("typedef int **********P; P *******a = 0;", "17 pointers to one another; at most 16 are possible"),
        (f"int a[4] = 0 ... 4; a[:{', newaxis' * 5000}];", "a subscript with 5001 entries; at most 32 are possible"),
        (f"int a[4{', 1' * 40}] = 0;", "a block with 41 axes; at most 32 are possible"),
    ],
)
def test_axes_and_pointers_to_pointers_are_limited(body: str, message: str) -> None:
    assert message in problems(f"__global__ void f(int *x) {{\n{body}\n}}")


def test_blocks_of_many_axes_are_kernels() -> None:
    view = ", ".join(["newaxis"] * 31)
    kernel = jn.kernel.from_triton_c(f"__global__ void f(int **x) {{ int a[4] = 0 ... 4; a[{view}, :]; }}\n", cache=False)
    assert jn.kernel.from_ttir(kernel.ttir, cache=False).ttir == kernel.ttir
