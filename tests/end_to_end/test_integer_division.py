"""Quotients and remainders of integers against Python's own: vectors are divided by floats, or by known numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.x86_targets import compile_for

SLOW = pytest.mark.slow
DTYPES = ("int8", "uint16", "int32", *[pytest.param(d, marks=SLOW) for d in ("uint8", "int16", "uint32", "int64", "uint64")])
OPS = ("floor_div", "mod", "trunc_div", "rem")


@pytest.fixture(params=["own", "avx2", pytest.param("128 bits", marks=SLOW)])
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_for(request.param, monkeypatch)


def wanted(op: str, x: Any, y: Any) -> Any:
    """What the contract says, in Python's integers: x // 0 = 0 and x % 0 = x, and results wrap."""
    kind = x.dtype
    found = []
    for a, b in zip(x.tolist(), y.tolist(), strict=True):
        cut = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0
        quotient = cut if op in ("trunc_div", "rem") else a // b if b else 0
        found.append(a - quotient * b if op in ("mod", "rem") else quotient)
    bits = 8 * kind.itemsize
    return np.array([each % (1 << bits) for each in found], dtype=f"uint{bits}").view(kind)


def hurting(dtype: str) -> Iterator[int]:
    """Numbers around the ends of ranges and the powers of two, where floats round."""
    info = np.iinfo(dtype)
    for power in (0, 1, 3, 7, 15, 23, 24, 25, 30, 31, 32, 51, 52, 53, 54, 62, 63):
        for number in (1 << power, 3 << power, (1 << power) + (1 << power // 2)):
            for near in (number - 1, number, number + 1):
                yield from (each for each in (near, -near) if info.min <= each <= info.max)
    yield from (0, info.min, info.min + 1, info.max, info.max - 1)


def pairs(dtype: str) -> tuple[Any, Any]:
    rng, info = np.random.default_rng(7), np.iinfo(dtype)
    some = np.array(sorted(set(hurting(dtype))), dtype)
    x, y = (each.reshape(-1) for each in np.meshgrid(some, some))
    wide = rng.integers(info.min, info.max, 3000, dtype, endpoint=True)
    small = rng.integers(1, 100, 3000).astype(dtype)
    # multiples of the divisor, and their neighbours: where a quotient that is rounded becomes the next number
    multiples = (wide // small * small).astype(dtype)
    with np.errstate(over="ignore"):
        beside = multiples - np.array(1, dtype)
    lists = [(x, y), (wide, wide[::-1]), (wide, small), (multiples, small), (beside, small), (small, wide)]
    return tuple(np.concatenate([each[side] for each in lists]) for side in (0, 1))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_divided_by_vectors(dtype: str, target: None) -> None:
    x, y = pairs(dtype)
    if dtype in ("int8", "uint8"):
        x, y = (each.reshape(-1) for each in np.meshgrid(*[np.arange(256, dtype=np.uint8).view(dtype)] * 2))
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.DType(dtype), x.shape)] * 2)
    graph.output(*[getattr(jn, op)(*graph.inputs) for op in OPS])
    for op, got in zip(OPS, jn.compile(graph, cache=False)(x, y), strict=True):
        np.testing.assert_array_equal(np.asarray(got), wanted(op, x, y), err_msg=op)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("dtype", DTYPES)
def test_vectors_are_divided_by_known_numbers(dtype: str, target: None) -> None:
    info = np.iinfo(dtype)
    divisors = [
        each for each in (0, 1, -1, 2, 7, -7, 8, -8, 100, 641, 1 << 20, (1 << 52) - 1, (1 << 52) + 1, info.max, info.min)
        if info.min <= each <= info.max
    ]  # fmt: skip
    x = pairs(dtype)[0][::7]
    if dtype in ("int8", "uint8"):
        x = np.arange(256, dtype=np.uint8).view(dtype)
    for op in OPS:
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.DType(dtype), x.shape)])
        graph.output(*[getattr(jn, op)(graph.inputs[0], np.array(each, dtype)) for each in divisors])
        for divisor, got in zip(divisors, jn.compile(graph, cache=False)(x), strict=True):
            message = f"{op} by {divisor}"
            np.testing.assert_array_equal(np.asarray(got), wanted(op, x, np.full_like(x, divisor)), err_msg=message)


def test_large_numbers_among_small_ones_are_divided_exactly() -> None:
    """One number of 64 bits that floats do not hold has its whole vector divided otherwise; its neighbours stay right."""
    x = np.arange(1, 5001, dtype=np.int64) * 12345
    for at in (0, 7, 8, 63, 2000, 4999):
        for large in ((1 << 52) - 1, 1 << 52, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63), -(1 << 52), -(1 << 52) - 1):
            x[at] = large
            graph = jn.Graph("g", inputs=[jn.TensorType(jn.int64, x.shape)] * 2)
            graph.output(graph.inputs[0] // graph.inputs[1], graph.inputs[0] % 12345)
            y = np.full_like(x, 3)
            quotient, rest = jn.compile(graph)(x, y)
            np.testing.assert_array_equal(np.asarray(quotient), x // 3)
            np.testing.assert_array_equal(np.asarray(rest), x % 12345)
