"""Random programs of loops, branches, sorts and scatters on vectors of integers: as trees, in NumPy and as graphs.

A tree is nested lists, so that a case is plain data. Its first entry is a name, the others are trees or numbers. Trees see
values by their number: the inputs, then what the loops around them carry. Integers wrap, so results are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import numpy as np

from .choices import Choices

Tree = list[Any]
Array = np.ndarray[Any, Any]

DTYPES = ("int64", "int32", "int16", "uint8", "uint64", "int8")
MAPS = ("add", "sub", "mul", "maximum", "minimum", "bitwise_xor")
RUNNING = ("cumsum", "cumprod", "cummax", "cummin")
REDUCTIONS = ("none", "add", "mul", "min", "max")
NESTING = 2
"""How many loops may stand in each other."""
_PLAIN = ((4, "input"), (6, "map"), (1, "where"))
_ORDERED = ((2, "sort"), (2, "argsort"), (1, "top"), (2, "running"), (4, "scatter"), (2, "take"))
_CONTROL = ((3, "repeat"), (2, "until"), (3, "scan"), (3, "cond"))


def drawn(choices: Choices, values: int, depth: int = 0, nested: int = 0) -> Tree:
    """Draw a tree that sees so many values."""
    names = [*_PLAIN]
    if depth < 3:
        names += _ORDERED
        if nested < NESTING:
            names += _CONTROL
    name = choices.weighted(names if depth < 4 else _PLAIN[:1])

    def tree(more: int = 0, inside: int = 0) -> Tree:
        return drawn(choices, values + more, depth + 1, nested + inside)

    match name:
        case "input":
            return [name, choices.below(values)]
        case "map":
            return [name, choices.one(*MAPS), tree(), tree()]
        case "where":
            return [name, tree(), tree(), tree(), tree()]
        case "sort" | "argsort" | "top":
            return [name, int(choices.flag()), tree()]
        case "running":
            kind = choices.one(*RUNNING)
            return [name, kind, int(choices.flag()), int(choices.flag()), tree()]
        case "scatter":
            return [name, choices.one(*REDUCTIONS), choices.one("drop", "clip"), tree(), tree(), tree()]
        case "take":
            return [name, tree(), tree()]
        case "repeat":
            return [name, choices.integer(0, 4), choices.one("number", "value", "size"), tree(2, 1), tree()]
        case "until":
            return [name, choices.integer(0, 4), tree(1, 1), tree()]
        case "scan":
            return [name, int(choices.flag()), tree(2, 1), tree(), tree()]
    return [name, tree(), tree(0, 1), tree(0, 1)]


def names_in(tree: Tree) -> set[str]:
    """The names of what a tree does."""
    found = {tree[0]}
    for entry in tree[1:]:
        if isinstance(entry, list):
            found |= names_in(entry)
    return found


class Ops:
    """What a program is computed with. `evaluate` is the same for all; the methods that it calls differ."""

    def evaluate(self, tree: Tree, values: Sequence[Any]) -> Any:
        name, *rest = tree
        if name == "input":
            return values[rest[0]]
        if name in ("repeat", "until", "scan", "cond"):
            return getattr(self, name)(rest, values)
        operands = [self.evaluate(entry, values) if isinstance(entry, list) else entry for entry in rest]
        return getattr(self, name)(*operands)

    def body(self, tree: Tree, values: Sequence[Any]) -> Callable[..., Any]:
        return lambda *own: self.evaluate(tree, [*values, *own])


class InNumPy(Ops):
    """Plain loops over arrays of one length."""

    def map(self, name: str, x: Array, y: Array) -> Array:
        function = {"sub": np.subtract, "mul": np.multiply}.get(name) or getattr(np, name)
        found: Array = function(x, y)
        return found

    def where(self, a: Array, b: Array, x: Array, y: Array) -> Array:
        return np.where(a < b, x, y)

    def sort(self, descending: int, x: Array) -> Array:
        return np.sort(x)[::-1] if descending else np.sort(x)

    def argsort(self, descending: int, x: Array) -> Array:
        return np.argsort(~x if descending else x, kind="stable").astype(x.dtype)

    def top(self, largest: int, x: Array) -> Array:
        return np.full_like(x, x.max() if largest else x.min())

    def running(self, kind: str, reverse: int, exclusive: int, x: Array) -> Array:
        turned = x[::-1] if reverse else x
        if kind in ("cummax", "cummin"):
            found = (np.maximum if kind == "cummax" else np.minimum).accumulate(turned)
        else:
            function, first = (np.add, 0) if kind == "cumsum" else (np.multiply, 1)
            found = function.accumulate(turned, dtype=x.dtype)
            if exclusive:
                found = np.concatenate([np.array([first], x.dtype), found[:-1]])
        return found[::-1] if reverse else found

    def scatter(self, reduction: str, mode: str, x: Array, updates: Array, places: Array) -> Array:
        found, size = x.copy(), len(x)
        functions = {"add": np.add, "mul": np.multiply, "min": np.minimum, "max": np.maximum}
        for update, position in zip(updates, self._positions(places), strict=True):
            at = position + size if position < 0 else position
            at = min(max(at, 0), size - 1) if mode == "clip" else at
            if 0 <= at < size:
                found[at] = update if reduction == "none" else functions[reduction](found[at : at + 1], update)[0]
        return found

    def take(self, x: Array, places: Array) -> Array:
        size = len(x)
        at = [position + size if position < 0 else position for position in self._positions(places)]
        return x[[min(max(position, 0), size - 1) for position in at]]

    def _positions(self, places: Array) -> list[int]:
        size = len(places)
        return [int(value) % (2 * size + 3) - size - 1 for value in places.astype(np.int64)]

    def repeat(self, rest: list[Any], values: Sequence[Array]) -> Array:
        count, _, body, init = rest
        state, step = self.evaluate(init, values), self.body(body, values)
        for i in range(self._count(rest, values, count)):
            state = step(state, np.full_like(state, i))
        return state

    def _count(self, rest: list[Any], values: Sequence[Array], count: int) -> int:
        return {"number": count, "size": len(values[0]), "value": int(values[0][0].astype(np.int64)) % 4}[rest[1]]

    def until(self, rest: list[Any], values: Sequence[Array]) -> Array:
        most, body, init = rest
        state, step, count = self.evaluate(init, values), self.body(body, values), 0
        while count < most and state[0] % 3 != 0:
            state, count = step(state), count + 1
        return state

    def scan(self, rest: list[Any], values: Sequence[Array]) -> Array:
        reverse, body, init, rows = rest
        state, step, xs = self.evaluate(init, values), self.body(body, values), self.evaluate(rows, values)
        firsts = np.zeros_like(xs)
        for at in range(len(xs))[::-1] if reverse else range(len(xs)):
            firsts[at] = state[0]
            state = step(state, np.full_like(xs, xs[at]))
        return firsts + state

    def cond(self, rest: list[Any], values: Sequence[Array]) -> Array:
        flag = self.evaluate(rest[0], values)
        return self.evaluate(rest[1] if flag[0] % 2 == 0 else rest[2], values)


class InGraph(Ops):
    """joinery's functions, with a length that is symbolic."""

    def map(self, name: str, x: Any, y: Any) -> Any:
        return getattr(jn, name)(x, y)

    def where(self, a: Any, b: Any, x: Any, y: Any) -> Any:
        return jn.where(a < b, x, y)

    def sort(self, descending: int, x: Any) -> Any:
        return jn.sort(x, descending=bool(descending))

    def argsort(self, descending: int, x: Any) -> Any:
        return jn.argsort(x, descending=bool(descending)).cast(x.dtype)

    def top(self, largest: int, x: Any) -> Any:
        return jn.broadcast_to(jn.top_k(x, 1, largest=bool(largest))[0], x.shape)

    def running(self, kind: str, reverse: int, exclusive: int, x: Any) -> Any:
        if kind in ("cummax", "cummin"):
            return getattr(jn, kind)(x, reverse=bool(reverse))
        return getattr(jn, kind)(x, exclusive=bool(exclusive), reverse=bool(reverse), dtype=x.dtype)

    def scatter(self, reduction: str, mode: str, x: Any, updates: Any, places: Any) -> Any:
        return jn.scatter(x, updates, self._positions(places), 0, reduction, mode=mode)

    def take(self, x: Any, places: Any) -> Any:
        return jn.gather(x, self._positions(places))

    def _positions(self, places: Any) -> Any:
        size = places.shape[0]
        return places.cast(jn.int64) % (2 * size + 3) - size - 1

    def repeat(self, rest: list[Any], values: Sequence[Any]) -> Any:
        count, bound, body, init = rest
        state, step = self.evaluate(init, values), self.body(body, values)
        upper: Any = {"number": lambda: count, "size": lambda: values[0].shape[0],
                      "value": lambda: values[0][0].cast(jn.int64) % 4}[bound]()  # fmt: skip
        return jn.fori_loop(0, upper, lambda i, s: step(s, jn.broadcast_to(i.cast(s.dtype), s.shape)), state)

    def until(self, rest: list[Any], values: Sequence[Any]) -> Any:
        most, body, init = rest
        state, step = self.evaluate(init, values), self.body(body, values)
        first = (state, state.graph.scalar(0, jn.int64))
        goes_on = lambda s: (s[1] < most) & (s[0][0] % 3 != 0)  # noqa: E731
        return jn.while_loop(goes_on, lambda s: (step(s[0]), s[1] + 1), first)[0]

    def scan(self, rest: list[Any], values: Sequence[Any]) -> Any:
        reverse, body, init, rows = rest
        state, step, xs = self.evaluate(init, values), self.body(body, values), self.evaluate(rows, values)

        def one(carry: Any, x: Any) -> Any:
            return step(carry, jn.broadcast_to(x, carry.shape)), carry[0]

        last, firsts = jn.scan(one, state, xs, reverse=bool(reverse))
        return firsts + last

    def cond(self, rest: list[Any], values: Sequence[Any]) -> Any:
        flag = self.evaluate(rest[0], values)
        then, otherwise = (self.body(tree, values) for tree in rest[1:])
        return jn.cond(flag[0] % 2 == 0, then, otherwise)
