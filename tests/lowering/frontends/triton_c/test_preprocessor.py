"""The preprocessor: directives and macros as C has them, tokens that know where they come from, and budgets."""

from __future__ import annotations

import tracemalloc

import pytest
from joinery.lowering.frontends.triton_c.reading.diagnostics import Diagnostics, TritonCError
from joinery.lowering.frontends.triton_c.reading.macros import MAX_CHARACTERS, MAX_EXPANDED
from joinery.lowering.frontends.triton_c.reading.preprocessor import preprocess
from joinery.lowering.frontends.triton_c.reading.source import Source, Token

from ....support.python_calls import calls


def tokens(text: str, defines: dict[str, str] | None = None, include: dict[str, str] | None = None) -> list[Token]:
    diagnostics = Diagnostics()
    found = preprocess(Source("k.tc", text), defines or {}, include or {}, diagnostics)
    diagnostics.check()
    return found[:-1]


def texts(text: str, defines: dict[str, str] | None = None, include: dict[str, str] | None = None) -> str:
    return " ".join(each.text for each in tokens(text, defines, include))


def errors(text: str, include: dict[str, str] | None = None) -> str:
    with pytest.raises(TritonCError) as caught:
        tokens(text, {}, include)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/* x\n y */b // c\nd", "a b d"),
        ("0...16 0 ... 16 1. .5e-3f 0x1Fu 1...x", "0 ... 16 0 ... 16 1. .5e-3f 0x1Fu 1 ... x"),
        ("* ?(m)p *?(m)p a<<=b", "* ? ( m ) p * ? ( m ) p a <<= b"),
        ("a\\\nb c\\\r\nd", "ab cd"),
        ('"a // b" \'x\' "\\""', '"a // b" \'x\' "\\""'),
    ],
)  # fmt: skip
def test_tokens(text: str, expected: str) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("#define A 1\nA B A", "1 B 1"),
        ("#define F(x) x + x\nF(a, ) F (1) F", None),
        ("#define F(x) [x]\nF((a, b)) F () F", "[ ( a , b ) ] [ ] F"),
        ("#define F(x, y) x##y #x #y\nF(a, b c) F(1,)", 'ab c "a" "b c" 1 "1" ""'),
        ("#define V(f, ...) f(__VA_ARGS__)\nV(g) V(g, 1, 2)", "g ( ) g ( 1 , 2 )"),
        ("#define V(...) g(0, ## __VA_ARGS__)\nV() V(1, 2)", "g ( 0 ) g ( 0 , 1 , 2 )"),
        ("#define f(a) a*g\n#define g(a) f(a)\nf(2)(9)", "2 * 9 * g"),
        ("#define x 3\n#define f(a) f(x * (a))\n#undef x\n#define x 2\nf(x+1)", "f ( 2 * ( 2 + 1 ) )"),
        ("#define hash(a) # a\nhash(\"a\\n\" 'b')", '"\\"a\\\\n\\" \'b\'"'),
        ("#define A B\n#define B A\nA B", "A B"),
        ("#define L(a) \\\n  a \\\n  + 1\nL(2)", "2 + 1"),
        ("#define A 1\n#undef A\nA", "A"),
        ("#define F() 7\nF() F(\n)", "7 7"),
        ("__LINE__\n#line 40 \"other\"\n__LINE__ __FILE__", '1 40 "other"'),
        ("#pragma once\n#\nx", "x"),
        ("#define P(a, b) a ## b\nP(,x) P(x,) P(,) P(<,<=)", "x x <<="),
        ("#define F(p) x ## p\nF(a + F (b))", "xa + F ( b )"),  # an argument beside ## is in F's expansion, too
        ("#define P(a, b) a ## b\n#define Q P(Q, Q)\nP(Q, Q) Q", "QQ QQ"),
        ("#define S(x) #x\n#define T(p) S(F p)\nT(z) T( (1,2) )", '"F z" "F (1,2)"'),
        ("#define S(x) #x\nS('\"') S('\\n') S(\"a\")", r'''"'\"'" "'\\n'" "\"a\""'''),
    ],
)  # fmt: skip
def test_macros(text: str, expected: str | None) -> None:
    if expected is None:
        assert "macro F takes 1 arguments, got 2" in errors(text)
    else:
        assert texts(text) == expected


def test_commas_in_square_brackets_separate_the_arguments_of_macros() -> None:
    message = errors("#define F(p, m) p m\nF(x[:, newaxis], y)")
    assert "macro F takes 2 arguments, got 3; fix: parentheses around an argument with commas in [ ]" in message
    assert "fix" not in errors("#define F(p, m) p m\nF(x[:], y, z)")
    assert texts("#define F(p, m) p m\nF((x[:, newaxis]), y)") == "( x [ : , newaxis ] ) y"


@pytest.mark.parametrize(
    ("body", "use", "expected"),
    [
        ("^a", "B", "^ a"), ("TM, TK", "x[B]", "x [ TM , TK ]"), ("newaxis, :", "v[B]", "v [ newaxis , : ]"),
        ("a[^1, ^0, ^2]", "B @ c", "a [ ^ 1 , ^ 0 , ^ 2 ] @ c"), ("max, :", "v[B]", "v [ max , : ]"),
        ("S0 * S1", "p * B", "p * S0 * S1"), ("", "a B b", "a b"), ("unsigned long", "(B)x", "( unsigned long ) x"),
    ],
)  # fmt: skip
def test_macros_of_the_caller_are_any_tokens(body: str, use: str, expected: str) -> None:
    assert texts(use, {"B": body}) == expected


def test_macros_of_the_caller_may_have_parameters() -> None:
    assert texts("F(a, 1)", {"F(x, y)": "(x) + y"}) == "( a ) + 1"


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("1", True), ("0", False), ("X", False), ("defined A", True), ("defined(B)", False), ("!defined(B) && A == 3", True),
        ("A * 2 + 1 == 7", True), ("1 ? 0 : 1", False), ("0 && 1 / 0", False), ("1 || 1 % 0", True), ("-1 < 0u", False),
        ("-1 < 0", True),
        ("-1 > 0u && 0 - 1u > 0", True), ("-1 / 2u > 5", True), ("-2 >> 1 == -1 && -2u >> 1 > 0", True), ("1 << 1u == 2", True),
        ("(1 ? -1 : 0u) > 0", True), ("(2u > 1) - 2 < 0 && !0u - 2 < 0", True), ("~0u == 0xffffffffffffffff", True),
        ("-1 == 0xffffffffffffffff", True), ("0x7fffffffffffffff > -1", True), ("18446744073709551615 > 0", True),
        ("~0 == -1", True), ("(1 << 4) > 15", True), ("'a' == 97", True), ("0x10 == 16 && 010 == 8", True),
        ("-7 / 2 == -3", True),
        ("-7 % 2 == -1", True), ("defined(bool) && defined(F32_INFINITY)", True), ("true", True),
        ("A == 3 ? A : 0", True), ("HAS", True), ("defined A && HAS", True), ("defined HAS && !defined(HASNT)", True),
    ],
)  # fmt: skip
def test_conditions(condition: str, holds: bool) -> None:
    assert texts(f"#if {condition}\nyes\n#else\nno\n#endif", {"A": "3", "HAS": "defined(A)"}) == ("yes" if holds else "no")


def test_branches() -> None:
    text = "#if A\na\n#elif B\nb\n#elif C\nc\n#else\nd\n#endif\n#ifdef A\ne\n#endif\n#ifndef A\nf\n#endif"
    assert texts(text) == "d f"
    assert texts(text, {"A": "1"}) == "a e"
    assert texts(text, {"B": "1", "C": "1"}) == "b f"
    assert texts("#if 0\n#if 1\na\n#else\nb\n#endif\n#error c\n#include \"x\"\n#foo\n'\n#endif\nd") == "d"


def test_files_are_included_from_those_given() -> None:
    files = {"a.h": "#pragma once\n#define A 3\n", "b/c.h": '#include "a.h"\nA'}
    assert texts('#include "a.h"\n#include <b/c.h>\nA', {}, files) == "3 3"
    assert "#include x.h: no such file was given; fix: include={'x.h': text}; files that were given: a.h, b/c.h" in errors(
        '#include "x.h"\n', files
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#if 1\n", "1:2: error: this condition has no #endif"), ("#endif\n", "1:2: error: #endif without #if"),
        ("#else\n", "#else without #if"), ("#if 1\n#else\n#else\n#endif", "3:2: error: #else behind #else"),
        ("#if 1 +\n#endif", "the condition is not complete"), ("#if 1 / 0\n#endif", "1:7: error: #if: a division by zero"),
        ("#if (1\n#endif", "expected )"), ("#if\n#endif", "#if without a condition"), ("#if 1.5\n#endif", "1.5 is no integer"),
        ("#if 1 2\n#endif", "2 behind the condition"),
        ("#if 18446744073709551616\n#endif", "18446744073709551616 does not fit into 64 bits"),
        ("#if defined\n#endif", "defined takes one name"),
        ("#define\n", "#define takes a name"), ("#define F(x\n", "the parameters of macro F do not end"),
        ("#define F(x, x) x\n", "no list of different names"), ("#define A ##\n", "begins or ends with ##"),
        ("#undef A B\n", "#undef takes one name"), ("#ifdef\n#endif", "#ifdef takes one name"),
        ("#define F(x) x\nF(1", "2:1: error: the arguments of macro F do not end"), ("#deifne A\n", "fix: #define"),
        ("#error not today\n", "1:2: error: #error not today"), ("#include x\n", '#include takes "file" or <file>'),
        ("#line x\n", "#line takes a number"), ("/* a\n", "1:1: error: a comment begins here and does not end"),
        ("#define P(a, b) a ## b\nP(+, x)\n", "+ ## x is no token"), ("1" * 600, "a number of 600 characters"),
    ],
)  # fmt: skip
def test_mistakes(text: str, message: str) -> None:
    assert message in errors(text)


def test_several_mistakes_are_told_at_once() -> None:
    found = errors("#foo\n#if 1 +\n#endif\n#undef\n")
    assert [line for line in found.split("\n") if ": error:" in line] == [
        "k.tc:1:2: error: #foo is no directive; fix: one of define, undef, if, ifdef, ifndef, elif, elifdef, elifndef, else, "
        "endif, include, error, warning, line, pragma",
        "k.tc:2:7: error: #if: the condition is not complete; fix: integers, macros of integers, defined(NAME)",
        "k.tc:4:2: error: #undef takes one name",
    ]


def test_a_token_knows_where_it_is_written_and_by_which_macros_it_came() -> None:
    text = "#define ADD(a) (a + \\\n   ONE)\n#define ONE 1\nint x = ADD(y);\n"
    found = {each.text: each for each in tokens(text)}
    assert found["x"].position == ("k.tc", 4, 5)
    assert found["x"].uses == []
    assert found["y"].position == ("k.tc", 4, 13)
    assert found["+"].position == ("k.tc", 1, 19)
    assert [(each.text, *each.position) for each in found["+"].uses] == [("ADD", "k.tc", 4, 9)]
    assert found["1"].position == ("k.tc", 3, 13)
    assert [(each.text, *each.position) for each in found["1"].uses] == [("ADD", "k.tc", 4, 9), ("ONE", "k.tc", 2, 4)]


def test_a_macro_defined_again_as_something_else_is_warned_about() -> None:
    diagnostics = Diagnostics()
    preprocess(Source("k.tc", "#define A 1\n#define A 1\n#define A 2\n#warning so so\n"), {}, {}, diagnostics)
    assert [(each.severity, each.message) for each in diagnostics.found] == [
        ("warning", "macro A is defined again, as something else"), ("warning", "#warning so so"),
    ]  # fmt: skip


# Budgets


def test_a_macro_that_doubles_itself_is_stopped() -> None:
    lines = ["#define M0 x x", *(f"#define M{n} M{n - 1} M{n - 1}" for n in range(1, 60)), "M59"]
    found = errors("\n".join(lines))
    assert found.startswith(f"k.tc:61:1: error: macros expand to more than {MAX_EXPANDED} tokens")
    assert "k.tc:60:13: from macro M59" in found
    assert found.count("\n") < 40


def test_arguments_that_double_themselves_are_stopped() -> None:
    text = "#define D(x) x x\n" + "D(" * 40 + "1" + ")" * 40
    assert "macros expand to more than" in errors(text)


@pytest.mark.parametrize("macro", ["F(...) #__VA_ARGS__", "F(a, b) a##b"])
def test_strings_and_names_that_double_themselves_are_stopped(macro: str) -> None:
    inner = f"#define {macro}\n#define G(x) F(x,x)\n#define H(x) G(x)\n" + "H(" * 40 + "a" + ")" * 40
    tracemalloc.start()
    assert f"macros make more than {MAX_CHARACTERS} characters of strings and names" in errors(inner)
    assert tracemalloc.get_traced_memory()[1] < 100 << 20
    tracemalloc.stop()


def test_what_is_pasted_wrongly_is_told_where_it_is_used() -> None:
    for use in ("C(/,*)", "C(/,/)", "C(a,+)", "C(',x)", "C(1" + "1" * 300 + ",1" + "1" * 300 + ")"):
        found = errors(f"#define C(a,b) a ## b\nx {use}")
        assert found.startswith("k.tc:2:")
        assert "<pasted>" not in found


def test_positions_behind_many_line_directives() -> None:
    text = "".join(f"#line {7 * n + 3} \"f{n}\"\na\n\n" for n in range(3000))
    found = tokens(text)
    assert [each.position for each in found] == [(f"f{n}", 7 * n + 3, 1) for n in range(3000)]
    before = {each.source for each in found}.pop()

    def positions() -> None:
        assert before.position(0) == ("k.tc", 1, 1)
        assert before.position(len(text) - 3) == ("f2999", 7 * 2999 + 3, 1)

    assert calls(positions) < 100


def test_uses_in_arguments_are_nested_no_deeper_than_some_limit() -> None:
    text = "#define I(x) x\n" + "I(" * 2000 + "1" + ")" * 2000
    assert "more than 100 uses of macros in the arguments of others" in errors(text)


@pytest.mark.parametrize("files", [{"a": '#include "a"\n'}, {"a": '#include "b"\n', "b": '#include "a"\n#include "a"\n'}])
def test_files_that_include_themselves_are_stopped(files: dict[str, str]) -> None:
    assert "files include one another without end: k.tc → a → " in errors('#include "a"\n', files)


def test_a_file_that_is_included_too_often_is_stopped() -> None:
    files = {"a": '#include "b"\n' * 16, "b": '#include "c"\n' * 16, "c": "x\n"}
    assert "files include one another" in errors('#include "a"\n', files)


def test_a_condition_is_nested_no_deeper_than_some_limit() -> None:
    assert "nested too deeply" in errors("#if " + "(" * 5000 + "1" + ")" * 5000 + "\n#endif\n")
    assert texts("#if " + "1 + " * 5000 + "1\nx\n#endif") == "x"
    assert texts("#if " + "!" * 5000 + "1\nx\n#endif") == "x"


@pytest.mark.slow
def test_macros_that_double_one_another_share_what_their_tokens_remember() -> None:
    text = "#define A0 1\n" + "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(200)) + "A200"
    tracemalloc.start()
    assert "macros expand to more than 131072 tokens" in errors(text)
    assert tracemalloc.get_traced_memory()[1] < 150e6
    tracemalloc.stop()


def test_sets_of_macros_are_limited() -> None:
    names = "".join(f"#define B{n}(x) x C{n}\n#define C{n} 1\n" for n in range(1500))
    inner = "1"
    for number in range(90):
        inner = f"B{number}({inner})"
    assert texts(names + inner).count("1") == 91
    chain = "#define D0 1\n" + "".join(f"#define D{n + 1} D{n}\n" for n in range(3000))
    assert "too many macros use one another" in errors(chain + "D3000")


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # those with capitals are the examples of C23, 6.10.5.2
        ("#define X(a, ...) (a __VA_OPT__(+) __VA_ARGS__)\nX(1, 2) X(1) X(1,)", "( 1 + 2 ) ( 1 ) ( 1 )"),
        ("#define F(...) f(0 __VA_OPT__(,) __VA_ARGS__)\n#define EMP\nF(a, b) F() F(EMP)", "f ( 0 , a , b ) f ( 0 ) f ( 0 )"),
        ("#define S(n, ...) S n __VA_OPT__(= { __VA_ARGS__ })\nS(foo) S(bar, 1, 2)", "S foo S bar = { 1 , 2 }"),
        ("#define H2(X, Y, ...) __VA_OPT__(X ## Y,) __VA_ARGS__\nH2(a, b, c, d)", "ab , c , d"),
        ("#define H3(X, ...) #__VA_OPT__(X##X X##X)\nH3(, 0) H3(a, 0) H3(a)", '"" "aa aa" ""'),
        ("#define H4(X, ...) __VA_OPT__(a X ## X) ## b\nH4(, 1)", "a b"),
        ("#define H5A(...) __VA_OPT__()/**/__VA_OPT__()\n#define B(X) a ## X ## b\n#define C(X) B(X)\nC(H5A())", "ab"),
        ('_Pragma("unroll") a _Pragma("x") b\n#define P(x) _Pragma(#x) c\nP(unroll 4)', "a b c"),
        ("#if 0\n#elifdef A\na\n#elifndef A\nb\n#else\nc\n#endif", "b"),
        ("#ifdef A\n#elifdef int8\na\n#elifndef A\nb\n#endif\n#if 1\nc\n#elifdef\n#endif", "a c"),
    ],
)
def test_what_c23_has(text: str, expected: str) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("#define H(X) __VA_OPT__(x)", "macro H has __VA_OPT__, which is for macros with ... among their parameters"),
        ("#define H(X, ...) __VA_OPT__(x ## X ## )", "has __VA_OPT__, whose content begins or ends with ##"),
        ("#define H(...) __VA_OPT__(", "has __VA_OPT__ without content in parentheses"),
        ("#define H(...) __VA_OPT__ a b)", "has __VA_OPT__ without content in parentheses"),
        ("#define H(...) __VA_OPT__(__VA_OPT__(a))", "has __VA_OPT__ within __VA_OPT__"),
        ("_Pragma(unroll) a", '1:1: error: _Pragma takes one string; fix: _Pragma("…"), or #pragma on a line of its own'),
        ("a _Pragma", "_Pragma takes one string"),
        ("#elifdef A", "#elifdef without #if"),
        ("#if 0\n#elifndef 3\n#endif", "2:2: error: #elifndef takes one name"),
    ],
)
def test_mistakes_in_what_c23_has(text: str, message: str) -> None:
    assert message in errors(text)
