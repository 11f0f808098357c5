"""Functions of elements, permutations, pooling, tables, an optimizer."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .cases import F16, F32, F64, I32, TYPES, Generator, kernel, normal

Made = tuple[list[Any], dict[int, Any]]


def _erf(x: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf)(x)


_FUNCTIONS: list[tuple[str, str, str, dict[str, object], Any]] = [
    ("LEAKY(x)", "float", "float", {}, lambda x, y: np.where(x > 0, x, x / 8)),
    ("GELU(x)", "float", "half", {}, lambda x, y: 0.5 * x * (1 + _erf(x * math.sqrt(0.5)))),
    ("SWISH(x)", "half", "half", {}, lambda x, y: x / (1 + np.exp(-x))),
    ("CLAMP(x, -1, y)", "float", "float", {"BINARY": True}, lambda x, y: np.fmin(np.fmax(x, -1), y)),
    ("x == 0 ? 1 : y / x", "float", "float", {"BINARY": True}, lambda x, y: np.where(x == 0, 1, y / np.where(x == 0, 1, x))),
    ("(x > 0) - (x < 0)", "float", "int", {}, lambda x, y: np.sign(x)),
    ("x > y", "half", "bool", {"BINARY": True}, lambda x, y: x > y),
]


def _add_functions() -> None:
    for op, type_, out, flags, function in _FUNCTIONS:
        for has_second in (True, False) if "y / x" in op else (bool(flags),):

            tolerance = 3e-3 if "half" in (type_, out) else 2e-6

            @kernel(f"{op}, {type_} to {out}, {has_second}", "elementwise", (3,), tolerance, NAME="map", TYPE=type_, OUT=out,
                    TILE=64, OP=op, **flags)  # fmt: skip
            def _(
                rng: Generator, out: str = out, type_: str = type_, has_second: bool = has_second, function: Any = function
            ) -> Made:
                dtype, result = dict(TYPES)[type_], {"float": F32, "half": F16, "int": I32, "bool": np.bool_}[out]
                x, y = normal(rng, 150, dtype=dtype), normal(rng, 150, dtype=dtype)
                x[::9] = 0
                value = function(x.astype(F64), y.astype(F64) if has_second else np.ones(150))
                return [np.zeros(150, result), x, y if has_second else None, 150], {0: value}


_add_functions()

for _order in ((0, 1, 2, 3), (3, 1, 0, 2), (0, 3, 2, 1), (1, 2, 3, 0)):
    for _turned, (_type, _dtype) in zip((0, 1), TYPES, strict=True):

        @kernel(f"permutation {''.join(map(str, _order))} {_type}", "permutation", (2, 3, 2), TYPE=_type, TM=16, TN=8,
                TRANSPOSE=_turned, S2_MULT="__multipleof(1)" if _turned else "")  # fmt: skip
        def _(rng: Generator, order: tuple[int, ...] = _order, dtype: Any = _dtype) -> Made:
            x = normal(rng, 3, 2, 13, 11, dtype=dtype)
            expected = np.ascontiguousarray(x.transpose(order))
            of_axis = dict(zip(order, expected.strides, strict=True))
            strides = [each // x.itemsize for each in itertools.chain(x.strides, (of_axis[axis] for axis in range(4)))]
            return [x, np.zeros(expected.shape, dtype), *x.shape, *strides], {1: expected}


for _type, _dtype in TYPES:

    @kernel(f"max pool {_type}", "max_pool", (2, 3), TYPE=_type, TILE=16, RR=2, SS=3, STRIDE=2)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        x = rng.permutation(3 * 9 * 10).reshape(3, 9, 10).astype(dtype)
        padded = np.pad(x, [(0, 0), (0, 3), (0, 3)], constant_values=-np.inf)
        taps = np.stack([padded[:, r : r + 10 : 2, s : s + 10 : 2] for r in range(2) for s in range(3)])
        y, where = np.zeros((3, 5, 5), dtype), np.zeros((3, 5, 5), np.uint8)
        return [y, where, x, 9, 10, 5, 5], {0: taps.max(0), 1: taps.argmax(0)}


@kernel("embedding", "embedding", (3,), function="gather", TYPE="half", TM=8, TN=16)
def _(rng: Generator) -> Made:
    table, index = normal(rng, 30, 21, dtype=F16), rng.integers(-1, 30, 19)
    expected = np.where(index[:, None] < 0, 0, table[index])
    return [np.full((19, 21), 7, F16), table, index, 19, 21], {0: expected}


@kernel("embedding backward", "embedding", (19,), 1e-4, "scatter", TYPE="half", TM=8, TN=16)
def _(rng: Generator) -> Made:
    gradient, index = normal(rng, 19, 21, dtype=F16), rng.integers(-1, 5, 19)
    expected = np.zeros((5, 21))
    np.add.at(expected, index[index >= 0], gradient[index >= 0].astype(F64))
    return [np.zeros((5, 21), F32), gradient, index, 19, 21], {0: expected}


for _how, _flags in (("plain", {}), ("decay", {"DECAY": True, "SCALED": True})):

    @kernel(f"adam {_how}", "optimizer", (3,), 2e-3, TYPE="half", TILE=64, **_flags)
    def _(rng: Generator, flags: dict[str, object] = _flags) -> Made:
        p, m, v, g = normal(rng, 150), normal(rng, 150), rng.random(150).astype(F32), normal(rng, 150, dtype=F16)
        grad = g.astype(F64)
        if flags:
            grad = grad * 0.5 + 0.01 * p
        average, square = 0.9 * m + 0.1 * grad, 0.99 * v + 0.01 * grad**2
        value = p - 1e-2 * (average / (1 - 0.9**3)) / (np.sqrt(square / (1 - 0.99**3)) + 1e-8)
        model = np.zeros(150, F16) if flags else None
        results = {1: value, 2: average, 3: square, **({0: value} if flags else {})}
        return [model, p, m, v, g, 1e-2, 0.9, 0.99, 1e-8, 0.01, 0.5, 3, 150], results
