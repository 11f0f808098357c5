"""Draws well-typed expressions of Triton-C: each with its source and what it is worth in NumPy.

An expression knows its type, its shape, how tightly its source binds, and a function from the values of variables to its own.
Nothing is drawn that the language leaves open: division by zero, shifts past the width, floats that do not fit into integers,
sums of floats that are rounded, two effects without an order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .choices import Draw
from .triton_c_values import (
    ARITHMETIC,
    COMPARISONS,
    DTYPES,
    FLOATS,
    INTEGERS,
    Array,
    common,
    converted,
    product,
    promoted,
    reduced,
)

N = 16
"""The extent of axes that are longer than one."""
MEMORY = 64
"""Elements of the array that is loaded from and stored to."""
SHAPES: tuple[tuple[int, ...], ...] = ((), (N,), (N, 1), (1, N), (N, N))
State = dict[str, Array]
"""The values of variables, and under "memory" the array that kernels load from and store to."""
LEVELS = {
    "@": 13, "*": 12, "/": 12, "%": 12, "+": 11, "-": 11, "<<": 10, ">>": 10, "<": 9, "<=": 9, ">": 9, ">=": 9, "==": 8,
    "!=": 8, "&": 7, "^": 6, "|": 5, "&&": 4, "||": 3,
}  # fmt: skip
PRIMARY, UNARY, RANGE, CONDITIONAL = 16, 15, 14, 2


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression. level: how tightly its operator binds."""

    text: str
    level: int
    type: str
    shape: tuple[int, ...]
    value: Callable[[State], Array]

    def at(self, level: int) -> str:
        """Return the source as an operand of an operator that binds this tightly."""
        return self.text if self.level >= level else f"({self.text})"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable: its name in the source, and that of its value, which no other variable has."""

    name: str
    key: str
    type: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A device function: the types and shapes of its parameters and of its result, and what it returns."""

    name: str
    parameters: tuple[Variable, ...]
    type: str
    shape: tuple[int, ...]
    value: Callable[[State], Array]


def joined(*shapes: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the shape that shapes broadcast to; None if they do not, or to another than the known ones."""
    try:
        found = tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return None
    return found if found in SHAPES else None


class Expressions:
    """Draws expressions over the variables that are visible."""

    def __init__(self, draw: Draw, visible: Callable[[], Sequence[Variable]]) -> None:
        self.draw = draw
        self.visible = visible
        self.functions: list[Function] = []
        self.has_memory = True
        self.loaders: dict[tuple[int, ...], str] = {}

    def any(self, depth: int) -> Expression:
        if depth <= 0 or self.draw.flag(8):
            return self.leaf()
        kinds = (
            (5, self._arithmetic), (2, self._bits), (2, self._division), (2, self._shift), (3, self._comparison),
            (2, self._logical), (3, self._unary), (3, self._cast), (4, self._conditional), (1, self._extremum),
            (3, self._reduction), (2, self._view), (1, self._transpose), (1, self._product), (2, self._load),
            (1, self._element), (1, self._select), (1, self._rounded), (1, self._index_of), (1, self._bitcast),
            (1, self._cube), (1, self._batches), (2 if self.functions else 0, self._call),
        )  # fmt: skip
        made: Expression = self.draw.weighted(kinds)(depth - 1)
        if self.draw.flag(12):
            return Expression(f"({made.text})", PRIMARY, made.type, made.shape, made.value)
        return made

    def of_shape(self, depth: int, shape: tuple[int, ...]) -> Expression:
        """Draw an expression that broadcasts to a shape; one of a larger shape is reduced."""
        made = self.any(depth)
        if joined(made.shape, shape) == shape:
            return made
        while made.shape:
            made = self._reduce(made, 0, "max")
        return made

    def scalar(self, depth: int) -> Expression:
        return self.of_shape(depth, ())

    def whole(self, depth: int, shape: tuple[int, ...] | None = None) -> Expression:
        """Draw an integer; of a float, whether it is positive."""
        made = self.any(depth) if shape is None else self.of_shape(depth, shape)
        return made if made.type not in FLOATS else self.compare(">", made, self.number(0))

    # Leaves

    def leaf(self) -> Expression:
        variables = self.visible()
        if variables and not self.draw.flag(4):
            return self.use(self.draw.one(*variables))
        return self.draw.weighted(((3, self._literal), (1, self._range)))()

    @staticmethod
    def use(variable: Variable) -> Expression:
        key = variable.key
        return Expression(variable.name, PRIMARY, variable.type, variable.shape, lambda s: s[key])

    @staticmethod
    def number(value: int) -> Expression:
        return Expression(str(value), PRIMARY, "int", (), lambda s: np.asarray(value, np.int32))

    def _literal(self) -> Expression:
        number = self.draw.one(0, 1, 2, 3, 7, 8, 100, 255, 1000, 32767, 65536, 2147483647)
        text, type_, value = self.draw.one(
            (str(number), "int", number), (f"{number}u", "unsigned int", number), (f"{number}L", "long", number),
            (f"{number}ul", "unsigned long", number), (hex(number), "int", number), (f"0{number:o}", "int", number),
            ("0xffffffff", "unsigned int", 0xFFFFFFFF), ("4294967296", "long", 1 << 32), ("'a'", "int", 97),
            (f"{number / 8}f", "float", number / 8), (f"{number / 8}", "double", number / 8), ("1e3f", "float", 1000),
            (".5f", "float", 0.5), ("true", "bool", 1), ("0x7fffffffffffffff", "long", (1 << 63) - 1),
        )  # fmt: skip
        return Expression(text, PRIMARY, type_, (), lambda s: np.asarray(value, DTYPES[type_]))

    def _range(self) -> Expression:
        start = self.draw.one(0, 0, 1, 7)
        text = f"{start} ... {start + N}" if self.draw.flag() else f"{start}...{start + N}"
        return Expression(text, RANGE, "int", (N,), lambda s: np.arange(start, start + N, dtype=np.int32))

    # Operators

    def pair(self, depth: int) -> tuple[Expression, Expression, tuple[int, ...]]:
        a, b = self.any(depth), self.any(depth)
        shape = joined(a.shape, b.shape)
        if shape is None:
            b = self.of_shape(depth, a.shape)
            shape = a.shape
        return a, b, shape

    @staticmethod
    def binary(operator: str, a: Expression, b: Expression, shape: tuple[int, ...]) -> Expression:
        """Make an operation on two operands of one type, or a comparison."""
        level, type_ = LEVELS[operator], common(a.type, b.type)
        function = COMPARISONS.get(operator) or ARITHMETIC[operator]

        def value(s: State) -> Array:
            return np.asarray(function(converted(a.value(s), type_), converted(b.value(s), type_)))

        result = "bool" if operator in COMPARISONS else type_
        return Expression(f"{a.at(level)} {operator} {b.at(level + 1)}", level, result, shape, value)

    def compare(self, operator: str, a: Expression, b: Expression) -> Expression:
        shape = joined(a.shape, b.shape)
        assert shape is not None
        return self.binary(operator, a, b, shape)

    def _arithmetic(self, depth: int) -> Expression:
        a, b, shape = self.pair(depth)
        return self.binary(self.draw.one("+", "-", "*"), a, b, shape)

    def _bits(self, depth: int) -> Expression:
        a = self.whole(depth)
        return self.binary(self.draw.one("&", "|", "^"), a, self.whole(depth, a.shape), a.shape)

    def _bounded(self, a: Expression, limit: int) -> Expression:
        """Return an integer from 0 to limit, a power of two minus one."""
        return self.binary("&", a, self.number(limit), a.shape)

    def _division(self, depth: int) -> Expression:
        a, b = self.any(depth), None
        if a.type in FLOATS:
            b = self.of_shape(depth, a.shape)
            squared = self.binary("*", b, b, b.shape)
            return self.binary("/", a, self.binary("+", squared, self.number(1), b.shape), a.shape)
        b = self.whole(depth, a.shape)
        shift = self.draw.one(1, 1, -9)
        divisor = self.binary("+" if shift > 0 else "-", self._bounded(b, 7), self.number(abs(shift)), b.shape)
        if shift < 0 and common(a.type, divisor.type).startswith("unsigned"):
            divisor = self.binary("|", divisor, self.number(1), b.shape)
        return self.binary(self.draw.one("/", "%"), a, divisor, a.shape)

    def _shift(self, depth: int) -> Expression:
        a = self.whole(depth)
        by, operator, type_ = self._bounded(self.whole(depth, a.shape), 7), self.draw.one("<<", ">>"), promoted(a.type)

        def value(s: State) -> Array:
            x, y = converted(a.value(s), type_), by.value(s).astype(DTYPES[type_])
            return np.asarray(x << y if operator == "<<" else x >> y)

        return Expression(f"{a.at(10)} {operator} {by.at(11)}", 10, type_, a.shape, value)

    def _comparison(self, depth: int) -> Expression:
        a, b, shape = self.pair(depth)
        return self.binary(self.draw.one(*COMPARISONS), a, b, shape)

    def _logical(self, depth: int) -> Expression:
        a, b, shape = self.pair(depth)
        operator = self.draw.one("&&", "||")
        level = LEVELS[operator]
        act = np.logical_and if operator == "&&" else np.logical_or
        text = f"{a.at(level)} {operator} {b.at(level + 1)}"
        return Expression(text, level, "bool", shape, lambda s: np.asarray(act(a.value(s) != 0, b.value(s) != 0)))

    def _unary(self, depth: int) -> Expression:
        a = self.any(depth)
        operator = self.draw.one(*("-+!" if a.type in FLOATS or a.type == "bool" else "-+!~"))
        inner = a.at(UNARY)
        text = f"{operator}{' ' if inner[0] in '+-' else ''}{inner}"
        if operator == "!":
            return Expression(text, UNARY, "bool", a.shape, lambda s: np.asarray(a.value(s) == 0))
        type_ = promoted(a.type)
        act: Any = {"-": np.negative, "+": np.positive, "~": np.invert}[operator]
        return Expression(text, UNARY, type_, a.shape, lambda s: np.asarray(act(converted(a.value(s), type_))))

    def _cast(self, depth: int) -> Expression:
        a = self.any(depth)
        if a.type in FLOATS and self.draw.flag(3):  # floats that surely fit; min and max give a number for NaN
            low, high = self.number(0), self.number(100)
            a = self.call("min", self.call("max", a, low), high)
            type_ = self.draw.one(*INTEGERS)
        else:
            type_ = self.draw.one("bool", *FLOATS) if a.type in FLOATS else self.draw.one(*DTYPES)
        shape = a.shape
        text = f"({type_}){a.at(UNARY)}"
        if self.draw.flag(4):
            shape = self.draw.one(*(each for each in SHAPES if joined(each, a.shape) == each and each), a.shape)
            text = f"({type_}{list(shape)}){a.at(UNARY)}" if shape else text
        return Expression(text, UNARY, type_, shape, lambda s: np.broadcast_to(converted(a.value(s), type_), shape))

    def conditional(self, c: Expression, a: Expression, b: Expression, shape: tuple[int, ...]) -> Expression:
        type_ = common(a.type, b.type)
        if not c.shape:
            shape = joined(a.shape, b.shape) or shape

        def value(s: State) -> Array:
            found = np.where(c.value(s) != 0, converted(a.value(s), type_), converted(b.value(s), type_))
            return np.broadcast_to(found, shape)

        text = f"{c.at(CONDITIONAL + 1)} ? {a.at(CONDITIONAL)} : {b.at(CONDITIONAL)}"
        return Expression(text, CONDITIONAL, type_, shape, value)

    def _conditional(self, depth: int) -> Expression:
        c = self.any(depth)
        a, b = self.of_shape(depth, c.shape), self.of_shape(depth, c.shape)
        if not c.shape:
            a, b, _ = self.pair(depth)
        return self.conditional(c, a, b, c.shape)

    def call(self, name: str, a: Expression, b: Expression) -> Expression:
        """Call min or max."""
        type_, shape = common(a.type, b.type), joined(a.shape, b.shape)
        assert shape is not None
        act = ARITHMETIC[name]

        def value(s: State) -> Array:
            return np.asarray(act(converted(a.value(s), type_), converted(b.value(s), type_)))

        return Expression(f"{name}({a.text}, {b.text})", PRIMARY, type_, shape, value)

    def _extremum(self, depth: int) -> Expression:
        a, b, _ = self.pair(depth)
        return self.call(self.draw.one("min", "max"), a, b)

    def _select(self, depth: int) -> Expression:
        c = self.any(depth)
        a, b = self.of_shape(depth, c.shape), self.of_shape(depth, c.shape)
        type_ = common(a.type, b.type)

        def value(s: State) -> Array:
            found = np.where(c.value(s) != 0, converted(a.value(s), type_), converted(b.value(s), type_))
            return np.broadcast_to(found, shape)

        shape = c.shape or joined(a.shape, b.shape) or ()
        return Expression(f"select({c.text}, {a.text}, {b.text})", PRIMARY, type_, shape, value)

    def _rounded(self, depth: int) -> Expression:
        a = self.any(depth)
        type_ = a.type if a.type == "double" else "float"
        name, act = self.draw.one(("floor", np.floor), ("ceil", np.ceil), ("sqrt", np.sqrt), ("sqrtf", np.sqrt))
        if name.startswith("sqrt"):
            a = self.call("max", a, self.number(0))
            type_ = a.type if a.type == "double" else "float"
        return Expression(
            f"{name}({a.text})", PRIMARY, type_, a.shape, lambda s: np.asarray(act(converted(a.value(s), type_)))
        )

    def _bitcast(self, depth: int) -> Expression:
        a = self.whole(depth)
        if a.type == "bool":
            return a
        other = a.type.removeprefix("unsigned ") if a.type.startswith("unsigned") else f"unsigned {a.type}"
        shape = list(a.shape) if a.shape and self.draw.flag() else ""
        text = f"bitcast<{other}{shape}>({a.text})"
        return Expression(text, PRIMARY, other, a.shape, lambda s: a.value(s).astype(DTYPES[other]))

    # Shapes

    def _reduce(self, a: Expression, axis: int, operator: str) -> Expression:
        entries = ", ".join(operator if each == axis else ":" for each in range(len(a.shape)))
        type_ = "int" if a.type == "bool" and operator not in ("max", "min") else a.type
        shape = a.shape[:axis] + a.shape[axis + 1 :]
        text = f"{a.at(PRIMARY)}[{entries}]"
        return Expression(text, PRIMARY, type_, shape, lambda s: reduced(operator, a.value(s), axis, type_))

    def _reduction(self, depth: int) -> Expression:
        a = self.any(depth)
        if not a.shape:
            return a
        operators = ("max", "min", "+", "*", "&", "|")[: 2 if a.type in FLOATS else 3 if a.type == "bool" else 6]
        found = self._reduce(a, self.draw.below(len(a.shape)), self.draw.one(*operators))
        return found if found.shape in SHAPES else self._reduce(found, 0, "max")

    def _index_of(self, depth: int) -> Expression:
        a = self.whole(depth)
        if not a.shape:
            return a
        axis, name = self.draw.below(len(a.shape)), self.draw.one("argmax", "argmin")
        act: Any = getattr(np, name)
        shape = a.shape[:axis] + a.shape[axis + 1 :]
        made = Expression(
            f"{name}({a.text}, {axis})", PRIMARY, "int", shape, lambda s: np.asarray(act(a.value(s), axis), np.int32)
        )
        return made if shape in SHAPES else self._reduce(made, 0, "max")

    def _view(self, depth: int) -> Expression:
        a = self.of_shape(depth, (N,))
        if a.shape != (N,):
            return a
        axis = self.draw.below(2)
        text = f"{a.at(PRIMARY)}[{'newaxis, :' if axis == 0 else ':, newaxis'}]"
        return Expression(text, PRIMARY, a.type, (1, N) if axis == 0 else (N, 1), lambda s: np.expand_dims(a.value(s), axis))

    def _transpose(self, depth: int) -> Expression:
        a = self.any(depth)
        if not a.shape:
            return a
        text, level = f"^{a.at(UNARY)}", UNARY
        if len(a.shape) == 2 and self.draw.flag():
            text, level = f"{a.at(PRIMARY)}[^1, ^0]", PRIMARY
        return Expression(text, level, a.type, a.shape[::-1], lambda s: np.transpose(a.value(s)))

    def _product(self, depth: int) -> Expression:
        """Multiply matrices of numbers from 0 to 3: no sum is rounded."""
        own = self.draw.one("half", "float", "char", "int", "double")
        matrices = []
        for _ in range(2):
            small = self._bounded(self.whole(depth, (N, N)), 3)
            text, value = f"({own}[{N}, {N}]){small.at(UNARY)}", small.value
            if self.draw.flag(3):
                matrices.append((f"^{text}", lambda s, v=value: np.broadcast_to(v(s), (N, N)).T))
            else:
                matrices.append((text, lambda s, v=value: np.broadcast_to(v(s), (N, N))))
        (left, x), (right, y) = matrices
        type_ = {"half": "float", "char": "int"}.get(own, own)
        return Expression(f"{left} @ {right}", 13, type_, (N, N), lambda s: product(x(s), y(s), type_))

    def _cube(self, depth: int) -> Expression:
        """Combine two matrices to a block of three axes, and reduce one or two of them, from left to right."""
        a, b = self.whole(depth, (N, N)), self.whole(depth, (N, N))
        operator = self.draw.one("+", "*", "&", "^")
        type_ = common(a.type, b.type)
        how = self.draw.one(
            (":", ":", "+"), ("max", ":", ":"), (":", "min", ":"), ("+", "max", ":"), (":", "+", "&"), ("min", "|", "+")
        )
        views = [f"(({common(each.type, 'int')}[{N}, {N}]){each.at(UNARY)})" for each in (a, b)]
        text = f"({views[0]}[:, newaxis, :] {operator} {views[1]}[newaxis, :, :])[{', '.join(how)}]"

        def value(s: State) -> Array:
            x, y = (np.broadcast_to(converted(each.value(s), type_), (N, N)) for each in (a, b))
            found = ARITHMETIC[operator](x[:, None, :], y[None, :, :])
            removed = 0
            for axis, each in enumerate(how):
                if each != ":":
                    found = reduced(each, found, axis - removed, type_)
                    removed += 1
            return found

        return Expression(text, PRIMARY, type_, (N,) * how.count(":"), value)

    def _batches(self, depth: int) -> Expression:
        """Multiply two batches of matrices, which the last axis counts, and add the products."""
        own = self.draw.one("half", "float", "char")
        small = [self._bounded(self.whole(depth, (N, N)), 3) for _ in range(2)]
        parts = [f"({own}[{N}, {N}, 2])(((int[{N}, {N}]){each.at(UNARY)})[:, :, newaxis] + (0 ... 2))" for each in small]

        def value(s: State) -> Array:
            x, y = (np.broadcast_to(each.value(s), (N, N))[:, :, None].astype(np.int64) + np.arange(2) for each in small)
            return product(x, y, type_).sum(2, dtype=DTYPES[type_])

        type_ = "int" if own == "char" else "float"
        return Expression(f"({parts[0]} @ {parts[1]})[:, :, +]", PRIMARY, type_, (N, N), value)

    def _call(self, depth: int) -> Expression:
        function = self.draw.one(*self.functions)
        arguments = []
        for each in function.parameters:
            made = self.of_shape(depth, each.shape)
            is_lossy = made.type in FLOATS and each.type not in FLOATS and each.type != "bool"
            arguments.append(self.compare(">", made, self.number(0)) if is_lossy else made)

        def value(s: State) -> Array:
            pairs = zip(function.parameters, arguments, strict=True)
            inner = {each.key: np.broadcast_to(converted(a.value(s), each.type), each.shape) for each, a in pairs}
            return function.value(inner)

        text = f"{function.name}({', '.join(each.text for each in arguments)})"
        return Expression(text, PRIMARY, function.type, function.shape, value)

    def _element(self, depth: int) -> Expression:
        """Take elements at an index, which is in range."""
        a = self.of_shape(depth, (N,))
        if a.shape != (N,):
            return a
        index = self._bounded(self.whole(depth, self.draw.one((), (N,))), N - 1)
        place = f"({index.text})" if index.text.startswith("^") else index.text  # [^i] permutes axes
        return Expression(
            f"{a.at(PRIMARY)}[{place}]", PRIMARY, a.type, index.shape,
            lambda s: np.take(a.value(s), index.value(s).astype(np.int64)),
        )  # fmt: skip

    # Memory

    def _load(self, depth: int) -> Expression:
        """Load where an index is within the array; what stands between the load and the condition keeps the lanes."""
        if not self.has_memory:
            return self.leaf()
        index = self.whole(depth)
        type_ = promoted(index.type)
        index = self.binary("-", index, self.number(self.draw.one(0, 5)), index.shape)
        inside = self._logical_and(self.compare("<", index, self.number(MEMORY)), self.compare(">=", index, self.number(0)))
        where = index

        def value(s: State) -> Array:
            at = where.value(s)
            ok = (at >= 0) & (at < MEMORY) if type_ else at
            return np.asarray(s["memory"][np.where(ok, at, 0).astype(np.int64)])

        how = self.draw.below(5)
        place = f"(memory + {index.at(12)})"
        if how == 0:

            def masked(s: State) -> Array:
                return np.where(inside.value(s), value(s), 0).astype(np.int32)

            return Expression(f"*?({inside.text}){place}", UNARY, "int", index.shape, masked)
        arm = load = Expression(f"*{place}", UNARY, "int", index.shape, value)
        if how == 2:
            arm = self.binary(self.draw.one("+", "*", "^"), load, self.number(3), index.shape)
        elif how == 3:  # a load in the address of another one
            inner = f"*(memory + (*{place} & {MEMORY - 1}))"
            arm = Expression(inner, UNARY, "int", index.shape, lambda s: np.asarray(s["memory"][value(s) & (MEMORY - 1)]))
        elif how == 4:  # a function that loads, and is called under the mask
            arm = Expression(f"{self._loader(index.shape)}{place}", PRIMARY, "int", index.shape, value)
        other = self.of_shape(depth, index.shape)
        return self.conditional(inside, arm, other, index.shape)

    def _loader(self, shape: tuple[int, ...]) -> str:
        """Return the name of a function that loads from a block of pointers, in two statements."""
        name = "at" + "x".join(map(str, shape))
        block = str(list(shape)) if shape else ""
        self.loaders[shape] = f"int {name}(int *p{block}){block} {{ int w{block} = *p; return w; }}\n"
        return name

    @staticmethod
    def _logical_and(a: Expression, b: Expression) -> Expression:
        return Expression(f"{a.at(4)} && {b.at(5)}", 4, "bool", a.shape, lambda s: a.value(s) & b.value(s))


__all__ = ["MEMORY", "SHAPES", "Expression", "Expressions", "Function", "N", "State", "Variable"]
