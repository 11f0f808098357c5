"""Random programs of loops and branches, as graphs and as NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np

Array = np.ndarray[Any, Any]


class Program:
    """A random program of loops and branches on vectors of length 3, as a graph and as NumPy, from the same choices."""

    def __init__(self, seed: int) -> None:
        self.choices = np.random.default_rng(seed)

    def expression(self, values: list[Any], depth: int) -> Callable[[list[Any], Any], Any]:
        """Return a function of values and a namespace (`Ops`), which computes one vector."""
        pick = int(self.choices.integers(0, 8 if depth < 3 else 4))
        a, b = (int(i) for i in self.choices.integers(0, len(values), 2))
        factor = float(np.float32(self.choices.uniform(-1, 1)))
        if pick < 2:
            return lambda v, ops: v[a] * factor + v[b]
        if pick < 4:
            return lambda v, ops: ops.tanh(v[a] - v[b])
        if pick == 4:
            count = int(self.choices.integers(0, 4))
            inner = self.expression([*values, None], depth + 1)
            return lambda v, ops: ops.repeat(count, lambda s: inner([*v, s], ops), v[a])
        if pick == 5:
            then, otherwise = (self.expression(values, depth + 1) for _ in range(2))
            return lambda v, ops: ops.choose(v[a], lambda: then(v, ops), lambda: otherwise(v, ops))
        if pick == 6:
            inner = self.expression([*values, None, None], depth + 1)
            return lambda v, ops: ops.rows(lambda c, e: inner([*v, c, e], ops), v[a], v[b])
        inner = self.expression([*values, None], depth + 1)
        return lambda v, ops: ops.until(lambda s: inner([*v, s], ops), v[a])


class InNumPy:
    tanh = staticmethod(np.tanh)

    @staticmethod
    def repeat(count: int, step: Any, state: Array) -> Array:
        for _ in range(count):
            state = step(state)
        return state

    @staticmethod
    def choose(x: Array, then: Any, otherwise: Any) -> Array:
        return then() if x[0] > x[1] else otherwise()

    @staticmethod
    def rows(step: Any, state: Array, xs: Array) -> Array:
        total = np.zeros(3, xs.dtype)
        for number, e in enumerate(xs):
            total[number] = state[0]
            state = step(state, np.broadcast_to(e, (3,)))
        return total + state

    @staticmethod
    def until(step: Any, state: Array) -> Array:
        count = 0
        while state[0] < 0.5 and count < 4:
            state, count = step(state), count + 1
        return state


class InGraph:
    tanh = staticmethod(jn.tanh)

    @staticmethod
    def repeat(count: int, step: Any, state: Any) -> Any:
        return jn.fori_loop(0, count, lambda i, s: step(s), state)

    @staticmethod
    def choose(x: Any, then: Any, otherwise: Any) -> Any:
        return jn.cond(x[0] > x[1], then, otherwise)

    @staticmethod
    def rows(step: Any, state: Any, xs: Any) -> Any:
        last, firsts = jn.scan(lambda c, e: (step(c, jn.broadcast_to(e, (3,))), c[0]), state, xs)
        return firsts + last

    @staticmethod
    def until(step: Any, state: Any) -> Any:
        first = (state, state.graph.scalar(0, jn.int64))
        goes = lambda s: (s[0][0] < 0.5) & (s[1] < 4)  # noqa: E731
        return jn.while_loop(goes, lambda s: (step(s[0]), s[1] + 1), first)[0]
