"""Random programs: expressions against an evaluator of their own in NumPy, and texts that are no programs any more.

The evaluator knows C's rules from the reference alone: no line of the front end is used.
"""

from __future__ import annotations

import operator as op
import random
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import joinery as jn
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ....support.tiers import both_tiers

DATA = Path(__file__).resolve().parents[3] / "data" / "triton_c"
RANKS = {"bool": 0, "char": 1, "unsigned char": 1, "short": 2, "int": 3, "unsigned int": 3, "long": 4, "unsigned long": 4,
         "half": 6, "float": 7, "double": 8}  # fmt: skip
DTYPES = {"bool": np.bool_, "char": np.int8, "unsigned char": np.uint8, "short": np.int16, "int": np.int32,
          "unsigned int": np.uint32, "long": np.int64, "unsigned long": np.uint64, "half": np.float16, "float": np.float32,
          "double": np.float64}  # fmt: skip
VARIABLES = {"a": ("int", (8,)), "b": ("unsigned int", (4, 1)), "c": ("char", (4, 8)), "d": ("long", (8,)),
             "e": ("float", (4, 8)), "f": ("half", (8,)),
             "g": ("unsigned char", ()), "h": ("int", ()), "k": ("double", (4, 1)), "m": ("bool", (1, 8)),
             "n": ("unsigned long", ()), "o": ("short", (4, 8))}  # fmt: skip
FLOATS = frozenset(["half", "float", "double"])


class Value(NamedTuple):
    """The text of an expression, its type, and what it is."""

    text: str
    type: str
    value: np.ndarray


def promoted(type_: str) -> str:
    return "int" if RANKS[type_] < RANKS["int"] else type_


def common(a: str, b: str) -> str:
    a, b = promoted(a), promoted(b)
    if RANKS[a] != RANKS[b]:
        return a if RANKS[a] > RANKS[b] else b
    return a if a.startswith("unsigned") else b


def converted(value: np.ndarray, type_: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return value != 0 if type_ == "bool" else value.astype(DTYPES[type_])


class Generator:
    """Draws expressions, but what the language leaves open: division by zero, shifts past the width, floats as integers."""

    def __init__(self, chosen: random.Random, values: dict[str, np.ndarray]) -> None:
        self.random = chosen
        self.values = values

    def expression(self, depth: int) -> Value:
        if depth == 0 or self.random.random() < 0.1:
            return self.leaf()
        return self.random.choice(
            [self.arithmetic, self.arithmetic, self.integer, self.division, self.shift, self.comparison, self.logical,
             self.unary, self.cast, self.conditional, self.extremum, self.reduction, self.transpose]
        )(depth - 1)  # fmt: skip

    def leaf(self) -> Value:
        if self.random.random() < 0.7:
            name = self.random.choice(sorted(VARIABLES))
            return Value(name, VARIABLES[name][0], self.values[name])
        kind = self.random.randrange(4)
        number = self.random.randrange(1, 1000)
        if kind == 0:
            return Value(str(number), "int", np.int32(number))
        if kind == 1:
            return Value(f"{number}u", "unsigned int", np.uint32(number))
        if kind == 2:
            return Value(f"{number / 8}f", "float", np.float32(number / 8))
        return Value("(0 ... 8)", "int", np.arange(8, dtype=np.int32))

    def fits(self, *values: Value) -> bool:
        try:
            return len(np.broadcast_shapes(*(each.value.shape for each in values))) <= 2
        except ValueError:
            return False

    def pair(self, depth: int) -> tuple[Value, Value]:
        while True:
            a, b = self.expression(depth), self.expression(depth)
            if self.fits(a, b):
                return a, b

    def integers(self, depth: int) -> tuple[Value, Value]:
        a, b = self.pair(depth)
        return self.whole(a), self.whole(b)

    def whole(self, a: Value) -> Value:
        """An integer: of floats, whether they are positive."""
        return a if a.type not in FLOATS else Value(f"({a.text} > 0)", "bool", a.value > 0)

    def arithmetic(self, depth: int) -> Value:
        a, b = self.pair(depth)
        operator = self.random.choice(["+", "-", "*"])
        type_ = common(a.type, b.type)
        x, y = converted(a.value, type_), converted(b.value, type_)
        with np.errstate(all="ignore"):
            found = {"+": x + y, "-": x - y, "*": x * y}[operator]
        return Value(f"({a.text} {operator} {b.text})", type_, np.asarray(found, DTYPES[type_]))

    def integer(self, depth: int) -> Value:
        a, b = self.integers(depth)
        operator = self.random.choice(["&", "|", "^"])
        type_ = common(a.type, b.type)
        x, y = converted(a.value, type_), converted(b.value, type_)
        return Value(f"({a.text} {operator} {b.text})", type_, {"&": x & y, "|": x | y, "^": x ^ y}[operator])

    def division(self, depth: int) -> Value:
        a, b = self.integers(depth)
        type_ = common(a.type, common(b.type, "int"))
        operator = self.random.choice(["/", "%"])
        x, y = converted(a.value, type_), (converted(b.value, type_) & DTYPES[type_](7)) + DTYPES[type_](1)
        x, y = np.broadcast_arrays(x, y)
        found = []
        for p, q in zip(map(int, x.flat), map(int, y.flat), strict=True):
            quotient = abs(p) // q * (-1 if p < 0 else 1)
            found.append(quotient if operator == "/" else p - q * quotient)
        value = np.array(found, DTYPES[type_]).reshape(x.shape)
        return Value(f"({a.text} {operator} (({b.text} & 7) + 1))", type_, value)

    def shift(self, depth: int) -> Value:
        a, b = self.integers(depth)
        type_ = promoted(a.type)
        x, y = converted(a.value, type_), converted(converted(b.value, common(b.type, "int")) & 7, type_)
        operator = self.random.choice(["<<", ">>"])
        return Value(f"({a.text} {operator} ({b.text} & 7))", type_, x << y if operator == "<<" else x >> y)

    def comparison(self, depth: int) -> Value:
        a, b = self.pair(depth)
        operator = self.random.choice(["<", "<=", ">", ">=", "==", "!="])
        type_ = common(a.type, b.type)
        x, y = converted(a.value, type_), converted(b.value, type_)
        found = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[operator]
        return Value(f"({a.text} {operator} {b.text})", "bool", np.asarray(found))

    def logical(self, depth: int) -> Value:
        a, b = self.pair(depth)
        operator = self.random.choice(["&&", "||"])
        x, y = a.value != 0, b.value != 0
        return Value(f"({a.text} {operator} {b.text})", "bool", np.asarray(x & y if operator == "&&" else x | y))

    def unary(self, depth: int) -> Value:
        a = self.expression(depth)
        operator = self.random.choice(["-", "+", "!"] if a.type in FLOATS or a.type == "bool" else ["-", "+", "!", "~"])
        if operator == "!":
            return Value(f"!{a.text}", "bool", np.asarray(a.value == 0))
        type_ = promoted(a.type)
        x = converted(a.value, type_)
        with np.errstate(all="ignore"):
            found = -x if operator == "-" else ~x if operator == "~" else x
        return Value(f"({operator}{a.text})", type_, np.asarray(found, DTYPES[type_]))

    def cast(self, depth: int) -> Value:
        a = self.expression(depth)
        names = [each for each in DTYPES if a.type not in FLOATS or each in FLOATS or each == "bool"]
        type_ = self.random.choice(names)
        return Value(f"({type_}){a.text}" if a.text[0] != "-" else f"({type_})({a.text})", type_, converted(a.value, type_))

    def conditional(self, depth: int) -> Value:
        while True:
            c, (a, b) = self.expression(depth), self.pair(depth)
            if self.fits(a, b, c):
                break
        type_ = common(a.type, b.type)
        found = np.where(c.value != 0, converted(a.value, type_), converted(b.value, type_))
        if not c.value.shape:
            found = np.broadcast_to(found, np.broadcast_shapes(a.value.shape, b.value.shape))
        return Value(f"({c.text} ? {a.text} : {b.text})", type_, np.asarray(found, DTYPES[type_]))

    def extremum(self, depth: int) -> Value:
        a, b = self.pair(depth)
        name = self.random.choice(["min", "max"])
        type_ = common(a.type, b.type)
        x, y = converted(a.value, type_), converted(b.value, type_)
        found = (np.fmin if name == "min" else np.fmax)(x, y)
        return Value(f"{name}({a.text}, {b.text})", type_, np.asarray(found, DTYPES[type_]))

    def reduction(self, depth: int) -> Value:
        a = self.expression(depth)
        if not a.value.shape:
            return a
        axis = self.random.randrange(a.value.ndim)
        operator = self.random.choice(["max", "min"] if a.type in FLOATS else ["max", "min", "+"])
        entries = ", ".join(operator if each == axis else ":" for each in range(a.value.ndim))
        if operator == "+":
            type_ = "int" if a.type == "bool" else a.type
            return Value(f"({a.text})[{entries}]", type_, a.value.sum(axis, dtype=DTYPES[type_]))
        function = np.fmax if operator == "max" else np.fmin
        return Value(f"({a.text})[{entries}]", a.type, np.asarray(function.reduce(a.value, axis), DTYPES[a.type]))

    def transpose(self, depth: int) -> Value:
        a = self.expression(depth)
        return Value(f"(^^{a.text})", a.type, a.value) if a.value.ndim == 2 else a


def offsets(shape: tuple[int, ...]) -> str:
    if not shape:
        return "0"
    return f"0 ... {shape[0]}" if len(shape) == 1 else f"(0 ... {shape[0]})[:, newaxis] * {shape[1]} + 0 ... {shape[1]}"


def inputs(chosen: random.Random) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(chosen.randrange(1 << 32))
    found = {}
    for name, (type_, shape) in VARIABLES.items():
        dtype = np.dtype(DTYPES[type_])
        if dtype.kind == "f":
            found[name] = (rng.integers(-64, 64, shape) / 8).astype(dtype)
        elif dtype.kind == "b":
            found[name] = rng.integers(0, 2, shape).astype(bool)
        else:
            found[name] = rng.integers(0, 1 << 62, shape).astype(dtype) >> dtype.type(rng.integers(0, dtype.itemsize * 4))
    return found


def check_expressions(seed: int, count: int, natively: bool) -> None:
    chosen = random.Random(seed)
    values = inputs(chosen)
    generator = Generator(chosen, values)
    parameters = [f"{type_} *p{name}" for name, (type_, _) in VARIABLES.items()]
    lines = [
        f"{type_} {name}{list(shape) or ''} = *(p{name} + {offsets(shape)});" for name, (type_, shape) in VARIABLES.items()
    ]
    expected = []
    for number in range(count):
        each = generator.expression(chosen.randrange(1, 5))
        expected.append(each)
        parameters.append(f"{each.type} *out{number}")
        lines.append(f"*(out{number} + {offsets(each.value.shape)}) = {each.text};")
    text = f"__global__ void f({', '.join(parameters)}) {{\n" + "\n".join(lines) + "\n}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jn.TritonCWarning)
        kernel = jn.kernel.from_triton_c(text, cache=False)
    arrays = [np.ascontiguousarray(values[name]).reshape(-1).copy() for name in VARIABLES]
    results = [np.zeros(max(1, each.value.size), DTYPES[each.type]) for each in expected]
    run: Callable[..., object] = kernel.launch if natively else kernel.interpret
    run(1, *arrays, *results)
    for each, found in zip(expected, results, strict=True):
        np.testing.assert_array_equal(found, each.value.reshape(-1), err_msg=each.text)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 32))
def test_random_expressions_are_what_numpy_says(seed: int) -> None:
    check_expressions(seed, 6, natively=seed % 4 == 0)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans())
def test_more_random_expressions(seed: int, natively: bool) -> None:
    check_expressions(seed, 10, natively)


# Control flow


class Leave(Exception):
    """A jump: "break", "continue" or "return"."""


Run = Callable[[dict[str, int]], object]
"""A statement in Python. Variables and the array (`y0` …) are in one dictionary."""


def wrapped(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Statements:
    """Draws statements, each as text and as what it does."""

    def __init__(self, chosen: random.Random) -> None:
        self.random = chosen
        self.counters = 0

    def number(self) -> tuple[str, Callable[[dict[str, int]], int]]:
        name, constant = f"x{self.random.randrange(4)}", self.random.randrange(-9, 10)
        operator = self.random.choice(["+", "-", "*", "^", "<", "==", "=", "&&"])
        if operator == "=":
            return f"({name} = {constant})", lambda s: s.__setitem__(name, constant) or constant
        if operator == "&&":
            return f"({name} > {constant} && ({name} += 2) > 0)", lambda s: self._both(s, name, constant)
        act = {"+": op.add, "-": op.sub, "*": op.mul, "^": op.xor, "<": op.lt, "==": op.eq}[operator]
        return f"({name} {operator} {constant})", lambda s: wrapped(int(act(s[name], constant)))

    @staticmethod
    def _both(s: dict[str, int], name: str, constant: int) -> int:
        if s[name] <= constant:
            return 0
        s[name] = wrapped(s[name] + 2)
        return int(s[name] > 0)

    def block(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        parts = [self.statement(depth, jumps) for _ in range(self.random.randrange(1, 5))]
        runs = [run for _, run in parts]

        def run_all(s: dict[str, int]) -> None:
            for each in runs:
                each(s)

        return "{ " + " ".join(text for text, _ in parts) + " }", run_all

    def statement(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        kinds = [self.assign, self.assign, self.store]
        if depth:
            kinds += [self.branch, self.branch, self.loop, self.loop, self.switch]
        if jumps and self.random.random() < 0.3:
            kind = self.random.choice(jumps)

            def leave(s: dict[str, int]) -> None:
                raise Leave(kind)

            return f"{kind};", leave
        return self.random.choice(kinds)(depth - 1, jumps)

    def assign(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        name = f"x{self.random.randrange(4)}"
        text, value = self.number()
        if self.random.random() < 0.5:
            return f"{name} = {text};", lambda s: s.__setitem__(name, value(s))

        def add(s: dict[str, int]) -> None:
            found = value(s)
            s[name] = wrapped(s[name] + found)

        return f"{name} += {text};", add

    def store(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        at = self.random.randrange(4)
        text, value = self.number()
        return f"*(y + {at}) += {text};", lambda s: s.__setitem__(f"y{at}", wrapped(value(s) + s[f"y{at}"]))

    def branch(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        text, value = self.number()
        first, run_first = self.block(depth, jumps)
        if self.random.random() < 0.4:
            return f"if ({text}) {first}", lambda s: run_first(s) if value(s) else None
        second, run_second = self.block(depth, jumps)
        return f"if ({text}) {first} else {second}", lambda s: run_first(s) if value(s) else run_second(s)

    def loop(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        self.counters += 1
        i, times = f"i{self.counters}", self.random.randrange(4)
        body, run_body = self.block(depth, ("break", "continue", "return"))
        text, value = self.number()
        kind = self.random.randrange(4)

        def run(s: dict[str, int]) -> None:
            count = 0
            while True:
                if kind in (0, 3) and count >= times:
                    break
                if kind == 1:
                    count += 1
                    if count > times or not value(s):
                        break
                try:
                    run_body(s)
                except Leave as jump:
                    if str(jump) == "return":
                        raise
                    if str(jump) == "break":
                        break
                if kind in (0, 3):
                    count += 1
                if kind == 2:
                    count += 1
                    if count > times or not value(s):
                        break

        texts = {
            0: f"for (int {i} = 0; {i} < {times}; {i}++) {body}",
            1: f"int {i} = 0; while ({i}++ < {times} && {text}) {body}",
            2: f"int {i} = 0; do {body} while ({i}++ < {times} && {text});",
            3: f"for (int {i} = {times}; {i} > 0; {i} -= 1) {body}",
        }
        return "{ " + texts[kind] + " }", run

    def switch(self, depth: int, jumps: tuple[str, ...]) -> tuple[str, Run]:
        name = f"x{self.random.randrange(4)}"
        labels: list[int | None] = self.random.sample([0, 1, 2, 3, None], self.random.randrange(1, 5))
        sections = [self.block(depth, tuple({*jumps, "break"})) for _ in labels]
        ends = [self.random.random() < 0.5 for _ in labels]
        text = " ".join(
            f"{'default' if label is None else f'case {label}'}: {body}{' break;' if end else ''}"
            for label, (body, _), end in zip(labels, sections, ends, strict=True)
        )

        def run(s: dict[str, int]) -> None:
            subject = s[name] & 3
            start = labels.index(subject) if subject in labels else labels.index(None) if None in labels else len(labels)
            try:
                for (_, each), end in list(zip(sections, ends, strict=True))[start:]:
                    each(s)
                    if end:
                        return
            except Leave as jump:
                if str(jump) != "break":
                    raise

        return f"switch ({name} & 3) {{ {text} }}", run


MEMBERS = {"x0": "s.x0", "x1": "s.inner.x1", "x2": "s.bits.x2", "x3": "s.inner.x3"}
STRUCT = "struct four { int x0; struct { int x1, x3; } inner; union { unsigned int u; int x2; } bits; };"


def check_statements(seed: int, natively: bool, as_members: bool) -> None:
    """Compare a program of four variables with Python; as_members: of the members of one struct."""
    chosen = random.Random(seed)
    body, run = Statements(chosen).block(3, ("return",))
    names = [f"x{number}" for number in range(4)]
    text = f"__global__ void f(int *y, int x0, int x1, int x2, int x3) {{\n{body}\n"
    text += "\n".join(f"*(y + {4 + number}) = {name};" for number, name in enumerate(names)) + "\n}\n"
    if as_members:
        text = re.sub(r"\bx[0-3]\b", lambda found: MEMBERS[found[0]], text)
        text = STRUCT + re.sub(r"int s\.x0, .*\)", "struct four s)", text, count=1)
    kernel = jn.kernel.from_triton_c(text, cache=False)
    for _ in range(4):
        start = [chosen.randrange(-9, 10) for _ in names]
        arguments: list[object] = [*start]
        if as_members:
            arguments = [{"x0": start[0], "inner": (start[1], start[3]), "bits": {"u": start[2] % (1 << 32)}}]
        state = {**dict(zip(names, start, strict=True)), **{f"y{number}": 0 for number in range(8)}}
        try:
            run(state)
            state |= {f"y{4 + number}": state[name] for number, name in enumerate(names)}
        except Leave:
            pass
        y = np.zeros(8, np.int32)
        (kernel.launch if natively else kernel.interpret)(1, y, *arguments)
        assert list(y) == [state[f"y{number}"] for number in range(8)], (text, start)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32))
def test_random_statements_do_what_python_does(seed: int) -> None:
    check_statements(seed, natively=seed % 8 == 0, as_members=bool(seed & 1))


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 32), st.booleans(), st.booleans())
def test_more_random_statements(seed: int, natively: bool, as_members: bool) -> None:
    check_statements(seed, natively, as_members)


# Texts that are no programs


TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DATA.glob("*.tc"))} | {
    "structs": """__constant__ float table[2, 2] = {{1, 2.5f}, {-3}}; typedef struct { float re, im; } complex;
struct both { complex z[TM]; union { float f; int i; } bits; };
complex times(complex x, complex y) { return (complex){x.re * y.re - x.im * y.im, .im = x.re * y.im + x.im * y.re}; }
__global__ void f(float *y, complex a, int n) {
  struct both b = {.bits.f = 1}, c = b;
  for (int i = 0; i < n; i++) { a = i > 3 ? times(a, a) : a; c.z.re += table[1, i % 2]; b.bits.i++; }
  *(y + 0 ... TM) = c.z.re + a.im + b.bits.f;
}
""",
}
DEFINES = {"BS": 64, "TM": 16, "TN": 32, "TK": 16, "TYPE": "half", "TB": 2, "ACT": 1}
TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
STRANGE = (
    "", "{", "}", "(", ")", "[", "]", "*", "?", "^", "@", "...", "#if 1\n", "#define X X X\n", '"', "'", "/*", "\\\n",
    "\0", "é", "0x", "1e", "9" * 40, "int", "newaxis", ":", "= 0", "[99999999, 99999999]", "struct", "for (;;)",
    "return", "TM", "##", "union", ".re", "{1, .im = 2}", "struct both", "__constant__ ", "a", "b", "complex", "->", "&",
)  # fmt: skip


def mutated(text: str, chosen: random.Random) -> str:
    tokens = TOKEN.findall(text)
    for _ in range(chosen.randrange(1, 4)):
        tokens = tokens or [" "]
        at = chosen.randrange(len(tokens))
        kind = chosen.randrange(5)
        if kind == 0:
            del tokens[at]
        elif kind == 1:
            tokens.insert(at, tokens[chosen.randrange(len(tokens))])
        elif kind == 2:
            other = chosen.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3:
            tokens.insert(at, chosen.choice(STRANGE))
        else:
            tokens = tokens[: max(1, at)]
    return "".join(tokens)


def problem(text: str) -> str | None:
    """What is wrong with a text; None for a kernel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jn.TritonCWarning)
        try:
            jn.kernel.from_triton_c(text + "\n", DEFINES, cache=False)
        except jn.UserError as error:
            return str(error)
    return None


@both_tiers
def test_a_mutated_text_is_a_kernel_or_has_located_errors(in_full: bool) -> None:
    chosen = random.Random(2)
    refused = 0
    for _ in range(2000 if in_full else 150):
        name = chosen.choice(sorted(TEXTS))
        text = mutated(TEXTS[name], chosen)
        start = time.process_time()
        message = problem(text)
        refused += message is not None
        assert message is None or re.match(r"\S+:\d+:\d+: error: ", message), (text, message)
        assert time.process_time() - start < 5, text
    assert refused > 50
