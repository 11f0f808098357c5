"""The examples of the Triton-C reference: macros, grid, arguments, and what they mean in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

F16, F32, I32, I64 = np.float16, np.float32, np.int32, np.int64
Generator = np.random.Generator
Make = Callable[[Generator], tuple[list[Any], dict[int, Any]]]
"""Arguments of a launch, and by position what the arrays among them hold afterwards."""


@dataclass(frozen=True)
class Case:
    """One example with its macros. tolerance: relative and absolute; 0 for equality."""

    file: str
    defines: dict[str, object]
    grid: tuple[int, ...]
    make: Make
    tolerance: float = 0.0


CASES: dict[str, Case] = {}


def case(name: str, file: str, grid: tuple[int, ...], tolerance: float = 0.0, **defines: object) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        CASES[name] = Case(file, defines, grid, make, tolerance)
        return make

    return add


def normal(rng: Generator, *shape: int, dtype: Any = F32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


@case("e1", "e1_masked_axpby", (3,), 1e-6, BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x, y = normal(rng, 150), normal(rng, 150)
    return [np.full(192, 7, F32), x, y, 1.5, -2.0, 150], {0: np.r_[F32(1.5) * x + F32(-2) * y, np.full(42, 7)]}


@case("e2", "e2_row_softmax", (5,), 2e-6, BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = normal(rng, 5, 50)
    powers = np.exp(x[:, :45].astype(np.float64) - x[:, :45].max(1, keepdims=True))
    expected = np.full((5, 48), 7.0)
    expected[:, :45] = powers / powers.sum(1, keepdims=True)
    return [np.full((5, 48), 7, F32), x, 45, 50, 48], {0: expected}


for _type, _dtype in (("float", F32), ("half", F16)):

    @case(f"e3 {_type}", "e3_transpose", (3, 2), TYPE=_type, TM=16, TN=32)
    def _(rng: Generator, dtype: Any = _dtype) -> tuple[list[Any], dict[int, Any]]:
        source = normal(rng, 37, 50, dtype=dtype)
        return [np.zeros((50, 37), dtype), source, 37, 50], {0: source.T}

    for _act in (0, 1):

        @case(f"e4 {_type} {_act}", "e4_product", (3, 2), 4e-3, TYPE=_type, TM=16, TN=32, TK=16, ACT=_act)
        def _(rng: Generator, dtype: Any = _dtype, act: int = _act) -> tuple[list[Any], dict[int, Any]]:
            a, b = normal(rng, 37, 45, dtype=dtype), normal(rng, 45, 50, dtype=dtype)
            product = a.astype(np.float64) @ b.astype(np.float64)
            return [np.zeros((37, 50), dtype), a, b, 37, 50, 45, 45, 50, 50], {0: np.maximum(product, 0) if act else product}

    @case(f"e7 {_type}", "e7_strided_copy", (2, 2, 2), TYPE=_type, TB=2, TM=8, TN=16)
    def _(rng: Generator, dtype: Any = _dtype) -> tuple[list[Any], dict[int, Any]]:
        source = normal(rng, 3, 17, 11, dtype=dtype)  # read as [b, m, n] = source[b, n, m]
        return [np.zeros((3, 11, 17), dtype), source, 3, 11, 17, 187, 1, 11, 187, 17, 1], {0: source.transpose(0, 2, 1)}


@case("e5", "e5_split_k", (3, 2, 3), 2e-3, TM=16, TN=32, TK=16)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    a, b = normal(rng, 37, 70, dtype=F16), normal(rng, 70, 50, dtype=F16)
    return [np.zeros((37, 50), F32), a, b, 37, 50, 70, 32], {0: a.astype(np.float64) @ b.astype(np.float64)}


@case("e6", "e6_layer_norm", (4,), 1e-5, BS=32)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x, w, b = normal(rng, 4, 75), normal(rng, 75), normal(rng, 75)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * w + b
    return [np.zeros((4, 75), F32), x, w, b, 75, 1e-5], {0: expected}


@case("e8", "e8_row_argmin", (5,), BS=16)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = rng.integers(0, 20, (5, 37)).astype(F32)
    return [np.zeros(5, I32), np.zeros(5, F32), x, 37], {0: x.argmin(1), 1: x.min(1)}


def collatz(start: int) -> int:
    steps = 0
    while start != 1:
        start, steps = (start // 2 if start % 2 == 0 else 3 * start + 1), steps + 1
    return steps


@case("e9", "e9_collatz", (3,), BS=16)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    seeds = np.arange(1, 41, dtype=I32)
    return [np.zeros(40, I32), seeds, 40], {0: [collatz(int(each)) for each in seeds]}


@case("e10", "e10_dropout", (3,), 1e-6, BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = normal(rng, 150)
    h = np.arange(150, dtype=np.uint32) ^ np.uint32(3000000007)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x7FEB352D)
    h = (h ^ (h >> np.uint32(15))) * np.uint32(0x846CA68B)
    h ^= h >> np.uint32(16)
    kept = (h >> np.uint32(8)) * 2.0**-24 >= F32(0.4)
    return [np.zeros(150, F32), x, 150, 0.4, 3000000007], {0: np.where(kept, x / (F32(1) - F32(0.4)), 0)}


@case("e11", "e11_leaky_relu", (3,), BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = normal(rng, 150, dtype=F16)
    wide = x.astype(F32)
    return [np.zeros(150, F16), x, 0.1, 150], {0: np.where(wide > 0, wide, F32(0.1) * wide).astype(F16)}


@case("e12", "e12_histogram", (3,), BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    keys = rng.integers(-3, 12, 150).astype(I32)
    inside = keys[(keys >= 0) & (keys < 9)]
    return [np.ones(9, I32), keys, 150, 9], {0: 1 + np.bincount(inside, minlength=9)}


@case("e13", "e13_batched_product", (1,), 1e-5, TM=16, TN=32, TK=16, TB=2)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    a, b = normal(rng, 2, 16, 16), normal(rng, 2, 16, 32)
    return [np.zeros((2, 16, 32), F32), a, b], {0: a.swapaxes(1, 2) @ b}


@case("e14", "e14_device_function", (3,), 2e-6, BS=64)
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = normal(rng, 150)
    return [np.zeros(150, F32), x, 150], {0: x / (1 + np.exp(-1.702 * x.astype(np.float64)))}


@case("e15", "e15_scalar_control_flow", (6,))
def _(rng: Generator) -> tuple[list[Any], dict[int, Any]]:
    x = rng.integers(-5, 9, (6, 20)).astype(I32)
    expected = []
    for row in x:
        over = np.flatnonzero((np.where(row < 0, 0, row).cumsum() > 30) & (row >= 0))
        expected.append(over[0] if len(over) else -1)
    return [np.zeros(6, I32), x, 20, 30], {0: expected}
