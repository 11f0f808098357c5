"""Spoils texts in Triton-C token by token, and makes texts that expand, nest or include without end."""

from __future__ import annotations

import re

from .choices import Choices

_TOKEN = re.compile(r"\w+|\s+|\.\.\.|[^\w\s]")
_STRANGE = (
    "", "{", "}", "(", ")", "[", "]", "*", "?", "^", "@", "...", "#if 1\n", "#define X X X\n", '"', "'", "/*", "\\\n", "\0",
    "é", "0x", "1e", "9" * 40, "int", "newaxis", ":", "= 0", "[99999999, 99999999]", "struct", "for (;;)", "return", "TM", "##",
    "#include \"/etc/passwd\"\n", "#include <stdio.h>\n", "#else\n", "#endif\n", "#error\n", "[1048576, 1048576]",
    "0 ... 1048577", "[+]", "[max, :]",
    "goto x;", "break;", "case 1:", "__global__", "typedef", "enum {", "sizeof", "bitcast<", "/ 0", "% 0",
    "<< 99", "#define TM TM TM\n", "__VA_ARGS__", "-2147483648", "1.0", "*?(1)", "&", "->x", "\r", "\ufeff", "\U0001f600",
)  # fmt: skip


def mutated_tokens(choices: Choices, text: str) -> str:
    """Delete, double, swap, insert and move tokens, and cut the text off."""
    tokens = _TOKEN.findall(text)
    for _ in range(choices.one(1, 1, 2, 3, 6)):
        tokens = tokens or [" "]
        at, other = choices.below(len(tokens)), choices.below(len(tokens))
        kind = choices.below(7)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[other])
        elif kind == 2:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind in (3, 4):
            tokens.insert(at, choices.one(*_STRANGE))
        elif kind == 5:
            tokens[at:at] = tokens[min(at, other) : max(at, other)] * choices.one(1, 2)
        else:
            tokens = tokens[: max(1, at)]
    return "".join(tokens)


def bomb(choices: Choices) -> tuple[str, dict[str, str]]:
    """Return a text that grows or nests, and the files that it may include."""
    depth = choices.one(5, 30, 60, 300, 5000, 60000)
    inside = {
        "brackets": lambda: f"*x = {'(' * depth}1{')' * depth};",
        "indexed": lambda: f"*x = {'y[' * depth}1{']' * depth};",
        "unary": lambda: f"*x = {choices.one('-', '!', '~', '^', '* ', '(int)', '- ') * depth}1;",
        "ternary": lambda: f"*x = {'1 ? ' * depth}1{' : 2' * depth};",
        "right ternary": lambda: f"*x = {'*x ? 1 : ' * depth}1;",
        "sum": lambda: f"*x = 1{choices.one(' + *x', ' - 1', ' * 3', ' && *x', ' , 1', ' == 1') * depth};",
        "assigned": lambda: f"int a; {'a = ' * depth}1;",
        "braces": lambda: "{" * depth + "}" * depth,
        "ifs": lambda: "if (*x) " * depth + ";",
        "else ifs": lambda: "if (*x) ; else " * depth + ";",
        "loops": lambda: "for (;*x;) " * depth + ";",
        "dos": lambda: "do " * depth + ";" + " while (*x);" * depth,
        "switches": lambda: "switch (*x) { case 1: " * depth + "}" * depth,
        "statements": lambda: "*x = *x + 1;" * depth,
        "variables": lambda: "".join(f"int a{number} = *x;" for number in range(depth)),
        "calls": lambda: f"*x = {'min(1, ' * depth}1{')' * depth};",
        "shape": lambda: f"int a[{', '.join(['2'] * depth)}];",
        "views": lambda: f"int a[4] = 0 ... 4; a[:{', newaxis' * depth}];",
        "large": lambda: f"int a[{1 << choices.one(20, 21, 31, 40, 62)}]; int b[1024, 1024] = 0; float c[1024, 1024] = b @ b;",
        "stars": lambda: f"int {'*' * depth}a = 0;",
    }  # fmt: skip
    head = {
        "doubled": lambda: "#define A0 1\n" + "".join(f"#define A{n + 1} A{n} + A{n}\n" for n in range(min(depth, 300))),
        "called": lambda: "#define F(x) x + x\n",
        "pasted": lambda: "#define P0 a\n" + "".join(f"#define P{n + 1} J(P{n}, P{n})\n" for n in range(min(depth, 300)))
        + "#define J(x, y) J_(x, y)\n#define J_(x, y) x##y\n",
        "conditions": lambda: "#if 1\n" * depth + choices.one("", "#endif\n" * depth),
        "condition": lambda: f"#if {'(' * depth}1{')' * depth}\n#endif\n",
        "long condition": lambda: f"#if 1{choices.one(' + 1', ' && 1', ' ? 1 : 1', ' || 0') * depth}\n#endif\n",
        "included": lambda: '#include "self.h"\n' * choices.one(1, 300),
        "functions": lambda: "".join(
            f"int g{n + 1}(int a) {{ return g{n}(a) + g{n}(a); }}\n" for n in range(min(depth, 300))
        ) + "int g0(int a) { return a; }\n",
        "recursion": lambda: "int g(int a) { return h(a); }\nint h(int a) { return g(a); }\n",
        "lines": lambda: "\\\n" * depth,
        "comment": lambda: "/" + "*" * depth,
    }  # fmt: skip
    uses = {
        "doubled": f"*x = A{min(depth, 300)};", "called": f"*x = {'F(' * min(depth, 3000)}1{')' * min(depth, 3000)};",
        "pasted": f"int P{min(depth, 300)};", "functions": f"*x = g{min(depth, 300)}(1);", "recursion": "*x = g(1);",
    }  # fmt: skip
    include = {"self.h": choices.one('#include "self.h"\n', "#define Q 1\n", '#include "other.h"\n#include "other.h"\n')}
    include["other.h"] = choices.one("int a;", '#include "self.h"\n#include "self.h"\n')
    name = choices.one(*inside, *head)
    if name in inside:
        return f"__global__ void f(int *x) {{ {inside[name]()} }}\n", include
    return f"{head[name]()}__global__ void f(int *x) {{ {uses.get(name, '*x = 1;')} }}\n", include


__all__ = ["bomb", "mutated_tokens"]
