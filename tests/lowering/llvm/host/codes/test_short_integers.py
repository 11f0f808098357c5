"""Integers of 32 bits that are computed in 16, against NumPy: random expressions, and the ends of what 16 bits hold."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.host.codes import short_integers

SOURCES = ("uint8", "int8", "int16", "uint16", "bool")
RESULTS = ("uint8", "int8", "int16", "uint16")


class Both:
    """The same expression as a symbol and as NumPy's int32."""

    def __init__(self, symbol: Any, array: Any) -> None:
        self.symbol, self.array = symbol, array


def cast(x: Both, dtype: str) -> Both:
    return Both(jn.cast(x.symbol, getattr(jn, dtype)), x.array.astype(dtype))


def step(r: random.Random, known: list[Both]) -> Both:
    a, b = r.choice(known), r.choice(known)
    small, wide = r.choice([0, 1, 2, 3, 5, 7, 10, 127, 255]), r.choice([-32768, -129, -1, 256, 1000, 32767, 32768, 65535])
    shift = r.randrange(1, 9)
    kind = r.randrange(16)
    if kind == 0:
        return Both(a.symbol + b.symbol, a.array + b.array)
    if kind == 1:
        return Both(a.symbol - b.symbol, a.array - b.array)
    if kind == 2:
        return Both(a.symbol * b.symbol, a.array * b.array)
    if kind == 3:
        number = r.choice([small, wide])
        return Both(a.symbol * number, a.array * np.int32(number))
    if kind == 4:
        number = r.choice([small, wide])
        return Both(a.symbol + number, a.array + np.int32(number))
    if kind == 5:
        return Both(a.symbol >> shift, a.array >> shift)
    if kind == 6:
        return Both(a.symbol << shift, a.array << shift)
    if kind == 7:
        return Both(jn.maximum(a.symbol, b.symbol), np.maximum(a.array, b.array))
    if kind == 8:
        return Both(jn.minimum(a.symbol, small), np.minimum(a.array, np.int32(small)))
    if kind == 9:
        mask = r.choice([1, 15, 255, 4095, 65535])
        return Both(a.symbol & mask, a.array & np.int32(mask))
    if kind == 10:
        return Both(a.symbol // (1 << shift), a.array // np.int32(1 << shift))
    divisor = r.choice([1, 2, 3, 7, 9, 10, 100, 255, 1000, 32767, 40000, 65535])
    if kind == 11:
        return Both(a.symbol // divisor, a.array // np.int32(divisor))
    if kind == 12:
        return Both(a.symbol % divisor, a.array % np.int32(divisor))
    if kind == 14:
        whole = r.choice([1, 100, 255, 256])
        c = known[0]
        return Both(a.symbol * b.symbol + c.symbol * (whole - b.symbol), a.array * b.array + c.array * (whole - b.array))
    if kind == 13:
        return Both(jn.trunc_div(a.symbol, divisor), (a.array / divisor).astype(np.int32))
    return Both(jn.where(a.symbol > b.symbol, a.symbol, b.symbol - 1), np.where(a.array > b.array, a.array, b.array - 1))


def numbers(r: np.random.Generator, dtype: str, count: int) -> Any:
    if dtype == "bool":
        return r.integers(0, 2, count).astype(bool)
    ends = np.iinfo(dtype)
    x = r.integers(ends.min, ends.max, count, endpoint=True)
    x[: count // 4] = r.choice([ends.min, ends.max, 0, 1, ends.max - 1], count // 4)
    return x.astype(dtype)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", range(18))
def test_random_expressions(seed: int) -> None:
    r, rng = random.Random(seed), np.random.default_rng(seed)
    count = r.choice([5, 33, 131, 1000])
    dtypes = [r.choice(SOURCES) for _ in range(3)]
    arrays = [numbers(rng, dtype, count) for dtype in dtypes]
    graph = jn.Graph("g", [jn.TensorType(dtype, (count,), f"x{n}") for n, dtype in enumerate(dtypes)])
    leaves = [cast(Both(x, array), "int32") for x, array in zip(graph.inputs, arrays, strict=True)]
    results = []
    with np.errstate(over="ignore"):
        for _ in range(10):
            known = list(leaves)
            for _ in range(r.randrange(1, 7)):
                known.append(step(r, known))
            results.append(cast(known[-1], r.choice(RESULTS)))
    graph.output(*[each.symbol for each in results])
    found = jn.compile(graph, "cpu", threads=1, cache=False)(*arrays)
    for got, each in zip(found, results, strict=True):
        np.testing.assert_array_equal(got, each.array)


def llvm_of(make: Any, dtype: str = "uint8") -> str:
    graph = jn.Graph("g", [jn.TensorType(dtype, (1000,), name) for name in "xy"])
    graph.output(jn.cast(make(*[jn.cast(x, jn.int32) for x in graph.inputs]), jn.uint8))
    model = jn.compile(graph, "cpu", threads=1, cache=False)
    return str(model.kernels[0].llvm_ir)


def test_what_is_shortened_and_what_is_not() -> None:
    for make in (
        lambda x, y: (x + y + 1) >> 1,
        lambda x, y: (x * y) >> 8,  # up to 65025, without a sign
        lambda x, y: (x - y) * 77 + 5,  # its lower bits alone
        lambda x, y: jn.where(x > y, x - y, y - x),
        lambda x, y: (x + y * 8) // 9,
        lambda x, y: (x * y) % 10 - (x - y) // 7,
        lambda x, y: (x * y + y * (255 - y) + 127) // 255,
        lambda x, y: ((255 - y) * x + 7 * y) // 255,
    ):
        assert " x i16>" in llvm_of(make)
        assert " x i32> %" not in llvm_of(make)
    for make in (
        lambda x, y: (x * y * 2) >> 8,
        lambda x, y: (x * y - 32769) >> 8,
        lambda x, y: jn.minimum(x * 1000, y),
        lambda x, y: (x - y) // 40000,  # a divisor that is negative in 16 bits
        lambda x, y: (x * y + x * (254 - y)) // 255,  # a share may be negative
        lambda x, y: (y * y + x * (255 - x)) // 255,  # shares that do not belong together
    ):
        assert " x i16>" not in llvm_of(make)


@pytest.mark.parametrize(("make", "is_shortened"), [
    (lambda x, y, pick, least: least(x * y + 510, 200), True),  # up to 65535
    (lambda x, y, pick, least: least(x * y + 511, 200), False),
    (lambda x, y, pick, least: pick(x * -128 - 128, -100), True),  # from -32768 on
    (lambda x, y, pick, least: pick(x * -128 - 129, -100), False),
    (lambda x, y, pick, least: pick(x * 257 - 1, y), False),  # from -1 up to 65534: neither signed nor unsigned
])  # fmt: skip
def test_ends_of_sixteen_bits(make: Any, is_shortened: bool) -> None:
    assert (" x i16>" in llvm_of(lambda x, y: make(x, y, jn.maximum, jn.minimum))) == is_shortened
    x = np.array([0, 1, 254, 255] * 10, np.uint8)
    y = np.repeat(np.array([0, 1, 254, 255], np.uint8), 10)
    graph = jn.Graph("g", [jn.TensorType("uint8", x.shape, name) for name in "xy"])
    wide = [jn.cast(each, jn.int32) for each in graph.inputs]
    graph.output(jn.cast(make(*wide, jn.maximum, jn.minimum), jn.uint8))
    expected = make(x.astype(np.int32), y.astype(np.int32), np.maximum, np.minimum).astype(np.uint8)
    np.testing.assert_array_equal(jn.compile(graph, "cpu", threads=1, cache=False)(x, y), expected)


def test_shared_conditions_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visits = []
    look = short_integers._Shortening._chosen_by
    monkeypatch.setattr(short_integers._Shortening, "_chosen_by", lambda self, node: (visits.append(node), look(self, node))[1])
    rng = np.random.default_rng(0)
    arrays = [rng.integers(0, 256, 40).astype(np.uint8) for _ in range(2)]
    graph = jn.Graph("g", [jn.TensorType("uint8", (40,), name) for name in "xy"])
    both = [Both(jn.cast(x, jn.int32), array.astype(np.int32)) for x, array in zip(graph.inputs, arrays, strict=True)]
    a, b = both
    choice = Both(a.symbol < b.symbol, a.array < b.array)
    for n in range(12):
        one = Both(jn.logical_and(choice.symbol, a.symbol > n), choice.array & (a.array > n))
        other = Both(jn.logical_or(choice.symbol, b.symbol > 2 * n), choice.array | (b.array > 2 * n))
        choice = Both(jn.logical_xor(one.symbol, other.symbol), one.array ^ other.array)
    graph.output(jn.cast(jn.where(choice.symbol, a.symbol, b.symbol + 1), jn.uint8))
    found = jn.compile(graph, "cpu", threads=1, cache=False)(*arrays)
    np.testing.assert_array_equal(found, np.where(choice.array, a.array, b.array + 1).astype(np.uint8))
    assert 0 < len(visits) <= short_integers.MAX_OPERATIONS
