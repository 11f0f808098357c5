"""Draws programs of Triton-C: statements, each as source and as what it does to the values of variables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .choices import Draw
from .triton_c_expressions import MEMORY, SHAPES, Expression, Expressions, Function, N, State, Variable
from .triton_c_values import ARITHMETIC, DTYPES, FLOATS, Array, common, converted

Run = Callable[[State], None]


class Leave(Exception):
    """A jump: "break", "continue" or "return"."""


@dataclass(frozen=True, slots=True)
class Statement:
    text: str
    run: Run


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel: its source, the arrays that it is given and what they hold afterwards."""

    text: str
    arguments: list[Array]
    expected: list[Array]


def offsets(shape: tuple[int, ...]) -> str:
    """Return the source of a block's offsets in row-major order."""
    if len(shape) < 2:
        return f"0 ... {shape[0]}" if shape else "0"
    return f"(0 ... {shape[0]})[:, newaxis] * {shape[1]} + 0 ... {shape[1]}"


def declared(variable: Variable) -> str:
    return f"{variable.type} {variable.name}{list(variable.shape) if variable.shape else ''}"


class Programs:
    """Draws the statements of one kernel.

    Attributes:
        scopes: the variables of each open scope; those of loops count and are not assigned.
        declared: the name whose initial value is drawn: it hides the outer variables of that name already.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.scopes: list[list[Variable]] = [[]]
        self.counted: set[str] = set()
        self.declared = ""
        self.made = 0
        self.left = draw.integer(4, 14)
        self.expressions = Expressions(draw, self.visible)

    def visible(self) -> list[Variable]:
        """Return the variables that can be named, without those that an inner one of the same name hides."""
        found: dict[str, Variable] = {}
        for scope in self.scopes:
            found.update({each.name: each for each in scope})
        found.pop(self.declared, None)
        return list(found.values())

    def assignable(self) -> list[Variable]:
        return [each for each in self.visible() if each.key not in self.counted]

    def declare(self, name: str, type_: str, shape: tuple[int, ...]) -> Variable:
        self.made += 1
        variable = Variable(name, f"{name}.{self.made}", type_, shape)
        self.scopes[-1].append(variable)
        return variable

    def new_name(self) -> str:
        """Return a name that is free in the innermost scope; outer variables may have it."""
        taken = {each.name for each in self.scopes[-1]}
        return next(name for name in (f"v{number}" for number in range(self.draw.below(3), 99)) if name not in taken)

    def depth(self) -> int:
        return int(self.draw.one(1, 1, 2, 2, 3))

    # Statements

    def block(self, depth: int, jumps: tuple[str, ...], variables: tuple[Variable, ...] = ()) -> Statement:
        """Draw statements in braces, in a scope of their own."""
        self.scopes.append(list(variables))
        parts = [self.statement(depth, jumps) for _ in range(self.draw.integer(1, 3))]
        self.scopes.pop()
        runs = [each.run for each in parts]

        def run(s: State) -> None:
            for each in runs:
                each(s)

        return Statement("{ " + " ".join(each.text for each in parts) + " }", run)

    def statement(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        self.left -= 1
        kinds: list[tuple[int, Any]] = [(3, self._declaration), (5, self._assignment), (3, self._store), (1, self._atomic)]
        if depth and self.left > 0:
            kinds += [(3, self._branch), (3, self._for), (1, self._while), (1, self._do), (1, self._switch), (1, self._nested)]
        if jumps and self.draw.flag(5):
            return self._jump(jumps)
        made: Statement = self.draw.weighted(kinds)(depth - 1, jumps)
        return made

    def _jump(self, jumps: tuple[str, ...]) -> Statement:
        kind = self.draw.one(*jumps)
        condition = self.expressions.scalar(1)

        def run(s: State) -> None:
            if condition.value(s):
                raise Leave(kind)

        return Statement(f"if ({condition.text}) {kind};", run)

    def _fits(self, made: Expression, type_: str) -> Expression:
        """Return an expression that may be assigned to a type: floats to integers only by whether they are positive."""
        if made.type not in FLOATS or type_ in FLOATS or type_ == "bool":
            return made
        return self.expressions.compare(">", made, self.expressions.number(0))

    def _declaration(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        type_, shape = self.draw.one(*DTYPES), self.draw.one(*SHAPES)
        self.declared = self.new_name()
        value = self._fits(self.expressions.of_shape(self.depth(), shape), type_)
        variable = self.declare(self.declared, type_, shape)
        self.declared = ""
        return Statement(f"{declared(variable)} = {value.text};", self._assigning(variable, value))

    @staticmethod
    def _assigning(variable: Variable, value: Expression) -> Run:
        def run(s: State) -> None:
            s[variable.key] = np.broadcast_to(converted(value.value(s), variable.type), variable.shape)

        return run

    def _assignment(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        variables = self.assignable()
        if not variables:
            return self._store(depth, jumps)
        variable = self.draw.one(*variables)
        name, key, type_ = variable.name, variable.key, variable.type
        value = self._fits(self.expressions.of_shape(self.depth(), variable.shape), type_)
        if self.draw.flag() or type_ == "bool":
            return Statement(f"{name} = {value.text};", self._assigning(variable, value))
        operator = self.draw.one("+", "-", "*") if type_ in FLOATS or value.type in FLOATS else self.draw.one(*"+-*&|^")
        function, wide = ARITHMETIC[operator], common(type_, value.type)

        def run(s: State) -> None:
            found = function(converted(s[key], wide), converted(value.value(s), wide))
            s[key] = np.broadcast_to(converted(np.asarray(found), type_), variable.shape)

        if not variable.shape and type_ not in FLOATS and self.draw.flag(3):
            one = DTYPES[type_](1)

            def step(s: State) -> None:
                s[key] = np.asarray(s[key] + one, DTYPES[type_])

            return Statement(self.draw.one(f"{name}++;", f"++{name};", f"{name} += 1;"), step)
        return Statement(f"{name} {operator}= {value.text};", run)

    def _places(self) -> tuple[str, Callable[[State], Array], tuple[int, ...]]:
        """Draw places in memory that differ from lane to lane."""
        add = self.expressions.whole(1, ())
        if self.draw.flag(3):
            text = f"memory + ({add.at(7)} & {MEMORY - 1})"
            return text, lambda s: np.asarray(add.value(s).astype(np.int64) & (MEMORY - 1)), ()
        factor = self.draw.one(1, 3, 5)

        def value(s: State) -> Array:
            return np.asarray((np.arange(N) * factor + add.value(s).astype(np.int64)) & (MEMORY - 1))

        return f"memory + ((0 ... {N}) * {factor} + {add.at(12)} & {MEMORY - 1})", value, (N,)

    def _store(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        text, places, shape = self._places()
        value = self._fits(self.expressions.of_shape(self.depth(), shape), "int")
        mask = self.expressions.of_shape(1, shape) if self.draw.flag() else None
        operator = self.draw.one("", "", "+", "^") if value.type not in FLOATS else ""
        wide = common("int", value.type)

        def run(s: State) -> None:
            found, at = value.value(s), places(s)
            if operator:
                found = ARITHMETIC[operator](converted(s["memory"][at], wide), converted(found, wide))
            found = np.broadcast_to(converted(np.asarray(found), "int"), shape)
            lanes = np.broadcast_to(mask.value(s) != 0, shape) if mask is not None else np.ones(shape, bool)
            s["memory"] = s["memory"].copy()
            s["memory"][at[lanes]] = found[lanes]

        target = f"*({text})" if mask is None else f"*?({mask.text})({text})"
        return Statement(f"{target} {operator}= {value.text};", run)

    def _atomic(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        """Add to places that lanes may share."""
        value = self.expressions.whole(1)
        index = self.expressions.whole(1, value.shape)
        if not value.shape:
            index = self.expressions.scalar(1)
            index = index if index.type not in FLOATS else self.expressions.compare(">", index, self.expressions.number(0))

        def run(s: State) -> None:
            at, add = np.broadcast_arrays(index.value(s).astype(np.int64) & (MEMORY - 1), converted(value.value(s), "int"))
            s["memory"] = s["memory"].copy()
            np.add.at(s["memory"], at, add)

        place = f"memory + ({index.at(7)} & {MEMORY - 1})"
        return Statement(f"atomic_add({place}, (int){value.at(15)});", run)

    def _condition(self) -> tuple[str, Callable[[State], bool]]:
        """Draw a condition; one in four assigns a variable in it, if it gets that far."""
        condition = self.expressions.scalar(self.depth())
        scalars = [each for each in self.assignable() if not each.shape and each.type in ("int", "long")]
        if not scalars or not self.draw.flag(4):
            return condition.text, lambda s: bool(condition.value(s))
        variable, add = self.draw.one(*scalars), self.draw.one(1, 2, 100)

        def second(s: State) -> bool:
            s[variable.key] = np.asarray(s[variable.key] + DTYPES[variable.type](add))
            return bool(s[variable.key] > 7)

        if self.draw.flag():
            text = f"{condition.at(5)} && ({variable.name} += {add}) > 7"
            return text, lambda s: bool(condition.value(s)) and second(s)
        return f"{condition.at(4)} || ({variable.name} += {add}) > 7", lambda s: bool(condition.value(s)) or second(s)

    def _nested(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        return self.block(depth, jumps)

    def _branch(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        text, holds = self._condition()
        first = self.block(depth, jumps)
        second = self.block(depth, jumps) if self.draw.flag() else None

        def run(s: State) -> None:
            if holds(s):
                first.run(s)
            elif second is not None:
                second.run(s)

        return Statement(f"if ({text}) {first.text}" + (f" else {second.text}" if second else ""), run)

    def _for(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        type_ = self.draw.one("int", "int", "unsigned int", "long", "char")
        start, times, step = self.draw.integer(0, 4), self.draw.integer(0, 4), self.draw.one(1, 2, 3)
        self.made += 1
        name = f"i{self.made}"
        variable = Variable(name, name, type_, ())
        self.counted.add(variable.key)
        is_up = self.draw.flag() or type_ == "unsigned int"
        end = start + times * step if is_up else start - times * step
        operator, bound = ("<", end) if is_up else (">", end)
        if self.draw.flag(3):
            operator, bound = ("<=", end - 1) if is_up else (">=", end + 1)
        elif self.draw.flag(4):
            operator = "!="
        move = self.draw.one(f"{name} {'+' if is_up else '-'}= {step}", f"{name} = {name} {'+' if is_up else '-'} {step}")
        moves, also = self._moved_beside(move)
        body = self.block(depth, ("break", "continue", "return"), (variable,))
        holds = {"<": np.less, ">": np.greater, "<=": np.less_equal, ">=": np.greater_equal, "!=": np.not_equal}[operator]

        def run(s: State) -> None:
            number = start
            while holds(number, bound):
                s[variable.key] = np.asarray(number, DTYPES[type_])
                try:
                    body.run(s)
                except Leave as jump:
                    if str(jump) == "return":
                        raise
                    if str(jump) == "break":
                        return
                number += step if is_up else -step
                also(s)

        if operator in ("<=",) and bound < 0 and type_ == "unsigned int":
            return self._nested(depth, jumps)
        return Statement(f"for ({type_} {name} = {start}; {name} {operator} {bound}; {moves}) {body.text}", run)

    def _moved_beside(self, move: str) -> tuple[str, Run]:
        """Draw what else the step of a loop does, before and behind its counter; return all of it, and what that does."""
        variables = [each for each in self.assignable() if not each.shape and each.type in ("int", "long", "unsigned int")]
        count = self.draw.below(3) if variables and self.draw.flag() else 0
        others = [(self.draw.one(*variables), self.draw.integer(1, 5)) for _ in range(count)]
        parts = [self.draw.one(f"{each.name} += {add}", f"{each.name} = {each.name} + {add}") for each, add in others]
        parts.insert(self.draw.below(count + 1), move)

        def run(s: State) -> None:
            for each, add in others:
                s[each.key] = np.asarray(s[each.key] + DTYPES[each.type](add), DTYPES[each.type])

        return ", ".join(parts), run

    def _counting(self) -> tuple[Variable, int]:
        self.made += 1
        variable = Variable(f"i{self.made}", f"i{self.made}", "int", ())
        self.counted.add(variable.key)
        return variable, self.draw.integer(0, 3)

    def _loop(self, is_post: bool, depth: int) -> Statement:
        variable, times = self._counting()
        text, holds = self._condition()
        start, initial = self._assigned_in_condition()
        value = self.expressions.whole(1, ())
        self.made += 1
        seen = Variable(f"w{self.made}", f"w{self.made}", "int", ())
        is_seen = self.draw.flag()
        body = self.block(depth, ("break", "continue", "return"), (variable, *([seen] if is_seen else [])))
        place = self.draw.below(MEMORY) if is_seen and self.draw.flag() else None

        def goes_on(s: State) -> bool:
            if is_seen:
                s[seen.key] = np.asarray(converted(value.value(s), "int"))
            count = int(s[variable.key])
            s[variable.key] = np.asarray(count + 1, np.int32)
            return count < times and holds(s)

        def turns(s: State) -> None:
            is_first = is_post
            while is_first or goes_on(s):
                is_first = False
                try:
                    body.run(s)
                except Leave as jump:
                    if str(jump) == "return":
                        raise
                    if str(jump) == "break":
                        return

        def run(s: State) -> None:
            s[variable.key] = np.asarray(0, np.int32)
            s[seen.key] = np.asarray(initial(s), np.int32)
            turns(s)
            if place is not None:
                s["memory"] = s["memory"].copy()
                s["memory"][place] = s[seen.key]

        condition = f"{variable.name}++ < {times} && ({text})"
        before = after = ""
        if is_seen:
            condition = f"{seen.name} = {value.at(15)}, {condition}"
            before = f"int {seen.name} = 1; {start.replace('$', seen.name)}"
        if place is not None:
            after = f" *(memory + {place}) = {seen.name};"
        loop = f"do {body.text} while ({condition});" if is_post else f"while ({condition}) {body.text}"
        return Statement(f"{{ int {variable.name} = 0; {before}{loop}{after} }}", run)

    def _assigned_in_condition(self) -> tuple[str, Callable[[State], int]]:
        """Draw what a variable holds before a loop whose condition assigns it: `$` is its name."""
        condition = self.expressions.scalar(1)
        return f"if ({condition.text}) $ = 7; ", lambda s: 7 if condition.value(s) else 1

    def _while(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        return self._loop(False, depth)

    def _do(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        return self._loop(True, depth)

    def _switch(self, depth: int, jumps: tuple[str, ...]) -> Statement:
        subject = self.expressions.whole(1, ())
        labels: list[int | None] = self.draw.several([0, 1, 2, None], 1, 4, distinct=True)
        inner = tuple(dict.fromkeys(("break", *(each for each in jumps if each != "break"))))
        sections = [self.block(depth, inner) for _ in labels]
        ends = [self.draw.flag() for _ in labels]
        texts = [
            f"{'default' if label is None else f'case {label}'}: {section.text}{' break;' if is_end else ''}"
            for label, section, is_end in zip(labels, sections, ends, strict=True)
        ]

        def run(s: State) -> None:
            number = int(subject.value(s)) & 3
            start = labels.index(number) if number in labels else labels.index(None) if None in labels else len(labels)
            try:
                for section, is_end in list(zip(sections, ends, strict=True))[start:]:
                    section.run(s)
                    if is_end:
                        return
            except Leave as jump:
                if str(jump) != "break":
                    raise

        return Statement(f"switch ({subject.at(7)} & 3) {{ {' '.join(texts)} }}", run)


def function(draw: Draw, number: int, others: list[Function]) -> tuple[str, Function]:
    """Draw a device function, which may return early and call those before it."""
    parameters = tuple(
        Variable(f"a{each}", f"a{each}", draw.one(*DTYPES), draw.one(*SHAPES)) for each in range(draw.integer(1, 2))
    )
    expressions = Expressions(draw, lambda: parameters)
    expressions.has_memory = False
    expressions.functions = list(others)
    type_, shape = draw.one(*DTYPES), draw.one(*SHAPES)
    condition = expressions.scalar(1)
    results = []
    for _ in range(2):
        made = expressions.of_shape(2, shape)
        is_lossy = made.type in FLOATS and type_ not in FLOATS and type_ != "bool"
        results.append(expressions.compare(">", made, expressions.number(0)) if is_lossy else made)

    def value(s: State) -> Array:
        chosen = results[0] if condition.value(s) else results[1]
        return np.broadcast_to(converted(chosen.value(s), type_), shape)

    head = f"{type_} g{number}({', '.join(map(declared, parameters))}){list(shape) if shape else ''}"
    text = f"{head} {{ if ({condition.text}) return {results[0].text}; return {results[1].text}; }}\n"
    return text, Function(f"g{number}", parameters, type_, shape, value)


def drawn(draw: Draw) -> Program:
    """Draw a kernel and evaluate it."""
    made = Programs(draw)
    functions = ""
    for number in range(draw.below(3)):
        text, callee = function(draw, number, made.expressions.functions)
        functions += text
        made.expressions.functions.append(callee)
    rng = np.random.default_rng(draw.seed())
    variables, arguments, head = [], [], []
    for number in range(draw.integer(2, 5)):
        type_, shape = draw.one(*DTYPES), draw.one(*SHAPES)
        variable = made.declare(f"v{number}", type_, shape)
        variables.append(variable)
        arguments.append(_random(rng, type_, shape))
        head.append(f"{declared(variable)} = *(p{number} + {offsets(shape)});")
    memory = rng.integers(-100, 100, MEMORY).astype(np.int32)
    body = [made.statement(3, ("return",)) for _ in range(draw.integer(2, 6))]
    results = made.scopes[0]
    state: State = {each.key: value.reshape(each.shape) for each, value in zip(variables, arguments, strict=True)}
    state["memory"] = memory
    expected = [np.zeros(max(1, int(np.prod(each.shape))), DTYPES[each.type]) for each in results]
    with np.errstate(all="ignore"):
        try:
            for each in body:
                each.run(state)
            expected = [np.ascontiguousarray(state[each.key]).reshape(-1) for each in results]
        except Leave:
            pass
    parameters = [f"{each.type} *p{number}" for number, each in enumerate(variables)]
    parameters += ["int *memory", *(f"{each.type} *out{number}" for number, each in enumerate(results))]
    tail = [f"*(out{number} + {offsets(each.shape)}) = {each.name};" for number, each in enumerate(results)]
    lines = [*head, *(each.text for each in body), *tail]
    functions += "".join(made.expressions.loaders.values())
    text = f"{functions}__global__ void f({', '.join(parameters)}) {{\n" + "".join(f"  {line}\n" for line in lines) + "}\n"
    outputs = [np.zeros_like(each) for each in expected]
    return Program(text, [*arguments, memory, *outputs], [*arguments, state["memory"], *expected])


def _random(rng: np.random.Generator, type_: str, shape: tuple[int, ...]) -> Array:
    dtype, count = np.dtype(DTYPES[type_]), max(1, int(np.prod(shape)))
    if dtype.kind == "f":
        return (rng.integers(-64, 64, count) / 8).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    return rng.integers(0, 1 << 62, count).astype(dtype) >> dtype.type(rng.integers(0, dtype.itemsize * 6))


__all__ = ["Program", "drawn"]
