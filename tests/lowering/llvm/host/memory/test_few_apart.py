"""Elements two to sixteen apart come with those between them: under masks, of which nothing beyond an array may be left out."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from .....fuzz.fences import Fence
from .....support.tiers import each

HERE = host_target()
TARGETS = [
    target for target, feature in (("x86-64-v3", "avx2"), ("x86-64-v4", "avx512vl")) if HERE.has(feature)
] or [None]  # fmt: skip
FAR = ((5, 6, 7), (9, 10), (12, 16))
EXTENTS = (1, 2, 3, 7, 8, 9, 16, 17, 18, 33, 51, 102, 130)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "target"), each(["float32", "int64", "uint8", "int16", "float16"], [*TARGETS, None]))
@pytest.mark.parametrize("strides", [(2, 3, 4), *[pytest.param(far, marks=pytest.mark.slow) for far in FAR]])
def test_nothing_beyond_an_array_is_read_or_written(dtype: str, target: str | None, strides: tuple[int, ...]) -> None:
    fence = Fence(at_end=True)
    for stride in strides:
        graph = jn.Graph("g", [jn.TensorType(dtype, (extent * stride,), f"x{extent}") for extent in EXTENTS])
        made: list[Any] = []
        for x in graph.inputs:
            parts = [x[first::stride] for first in range(stride)]
            made += [parts[0] + parts[-1], jn.stack([part + 1 for part in parts], -1)]
        graph.output(*made)
        arrays = [fence.copy((np.arange(extent * stride) % 120).astype(dtype), 8) for extent in EXTENTS]
        model = jn.compile(graph, device="cpu", target=target, threads=1, cache=False)
        found = iter(model(*arrays))
        for x in arrays:
            assert np.array_equal(next(found), x[::stride] + x[stride - 1 :: stride])
            assert np.array_equal(next(found), x.reshape(-1, stride) + 1)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64"])
@pytest.mark.parametrize("stride", range(5, 17))
def test_columns_of_longer_rows(stride: int, dtype: str) -> None:
    """One column, and sums of them all, of more rows than a program has. The last row ends where memory does."""
    fence = Fence(at_end=True)
    x = fence.copy((np.arange(2003 * stride) % 97).astype(dtype).reshape(2003, stride), 8)
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n", stride), "x")])
    columns = [graph.inputs[0][:, at] for at in range(stride)]
    weighted = [column * (at + 1) for at, column in enumerate(columns)]
    graph.output(columns[1] + 1, columns[-1], sum(weighted[1:], weighted[0]))
    one, last, total = jn.compile(graph, "cpu", cache=False)(x)
    assert np.array_equal(one, x[:, 1] + 1)
    assert np.array_equal(last, x[:, -1])
    assert np.array_equal(total, (x * np.arange(1, stride + 1).astype(dtype)).sum(1, dtype=dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "uint32", "float16", "float32"])
def test_one_element_of_a_register_is_widened(dtype: str) -> None:
    wide = {"int8": "int64", "uint16": "int64", "uint32": "uint64", "float16": "float32", "float32": "float64"}[dtype]
    graph = jn.Graph("g", [jn.TensorType(dtype, (extent,), f"x{extent}") for extent in EXTENTS])
    graph.output(*[x.cast(wide) for x in graph.inputs])
    arrays = [(np.arange(extent) % 100).astype(dtype) for extent in EXTENTS]
    for found, x in zip(jn.compile(graph, device="cpu", cache=False)(*arrays), arrays, strict=True):
        assert np.array_equal(found, x.astype(wide))


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("dtype", "pads"),
    each(["float32", "float64", "int32", "int64", "int8", "float16"], [(1, 0), (0, 1), (1, 1), (0, 2)], times=2),
)
def test_short_padded_rows_without_registers_for_masks(pads: tuple[int, int], dtype: str) -> None:
    """LLVM 22 mixed up lanes of masks that several loads of elements apart shared, for x86-64-v3."""
    x = np.arange(1, 41).reshape(20, 2).astype(dtype)
    wide = np.pad(x, ((0, 0), pads))
    graph = jn.Graph("g", [jn.TensorType(jn.DType(dtype), ("b", 2), "x")])
    padded = jn.pad(graph.inputs[0], [(0, 0), pads])
    graph.output(jn.max(padded, axis=1), jn.sum(padded, axis=1), jn.min(padded, axis=1))
    for target in (None, "x86-64-v3"):
        try:
            model = jn.compile(graph, "cpu", cache=False, threads=1, target=target)
        except jn.JoineryError:
            assert target is not None
            continue
        for found, expected in zip(model(x), (wide.max(1), wide.sum(1), wide.min(1)), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
@pytest.mark.parametrize("begin", [0, 1, 5])
def test_means_of_neighbours_are_computed_in_twice_the_bits(dtype: str, begin: int) -> None:
    limits = np.iinfo(dtype)
    x = np.random.default_rng(begin).integers(limits.min, limits.max, (9, 2 * 333 + begin), endpoint=True).astype(dtype)
    wide = f"{'u' * (limits.min == 0)}int{2 * limits.bits}"
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, "x")])
    one, other = (jn.cast(graph.inputs[0][:, begin + n :: 2], wide) for n in (0, 1))
    graph.output(jn.cast((one + other) // 2, dtype), one - other)
    mean, difference = jn.compile(graph, device="cpu", cache=False)(x)
    first, second = x[:, begin::2].astype(wide), x[:, begin + 1 :: 2].astype(wide)
    np.testing.assert_array_equal(mean, ((first + second) // 2).astype(dtype))
    np.testing.assert_array_equal(difference, first - second)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize("target", TARGETS)
def test_ends_of_rows_that_are_known(dtype: str, target: str | None) -> None:
    """They are read by vectors of fewer lanes, and nothing beyond the last row, which ends where memory does."""
    fence = Fence(at_end=True)
    for stride in (2, 3, 5, 8):
        for count in (5, 8, 12, 28, 31, 56):
            x = fence.copy((np.arange(9 * ((count - 1) * stride + 1)) % 120).astype(dtype).reshape(9, -1), 8)
            graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
            rows = graph.inputs[0]
            graph.output(rows[:, ::stride] + 1, jn.maximum(rows[:-1, ::stride], rows[1:, ::stride]))
            low, high = jn.compile(graph, device="cpu", target=target, threads=1, cache=False)(x)
            apart = x[:, ::stride]
            np.testing.assert_array_equal(low, apart + 1)
            np.testing.assert_array_equal(high, np.maximum(apart[:-1], apart[1:]))
