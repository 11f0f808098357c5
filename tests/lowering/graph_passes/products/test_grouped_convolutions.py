"""Convolutions of few channels in a group as sums over planes of channels, against the reference evaluation and NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

Array = Any
CASES = {
    "resnext": ((1, 9, 8, 16), (3, 3, 4, 16), 1, 1, 4),
    "two channels, steps": ((2, 9, 7, 8), (5, 5, 2, 4), 2, 2, 4),
    "three channels, more filters": ((2, 6, 5, 15), (3, 2, 3, 35), 1, 0, 5),
    "eight channels, one filter": ((1, 7, 6, 24), (3, 3, 8, 3), 1, 1, 3),
    "one tap": ((3, 4, 5, 8), (1, 1, 2, 8), 1, 0, 4),
    "one axis": ((2, 11, 6), (3, 3, 4), 1, 1, 2),
    "three axes": ((1, 4, 5, 3, 4), (2, 3, 1, 2, 6), 1, 0, 2),
}


def numbers(shape: tuple[int, ...]) -> Array:
    """Whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(np.float32)


def one_group_after_the_other(x: Array, w: Array, step: int, padding: int, groups: int) -> Array:
    """The definition: windows of the channels of a group times its filters, in float64."""
    rank, depth, each = x.ndim - 2, w.shape[-2], w.shape[-1] // groups
    wide = np.pad(x.astype(np.float64), [(0, 0), *[(padding, padding)] * rank, (0, 0)])
    views = np.lib.stride_tricks.sliding_window_view(wide, w.shape[:-2], tuple(range(1, rank + 1)))
    views = views[(slice(None), *[slice(None, None, step)] * rank)]
    letters = "ijk"[:rank]
    parts = []
    for group in range(groups):
        here = views.take(range(group * depth, (group + 1) * depth), rank + 1)
        parts.append(np.einsum(f"n...c{letters},{letters}cm->n...m", here, w[..., group * each : (group + 1) * each]))
    return np.concatenate(parts, -1)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("filters", ["constants", "inputs"])
@pytest.mark.parametrize("case", CASES)
def test_they_are_the_sums_of_their_groups(case: str, filters: str, dtype: str) -> None:
    shape, kernel, step, padding, groups = CASES[case]
    x, w = numbers(shape).astype(dtype), numbers(kernel).astype(dtype)
    graph = jn.Graph("g", [jn.TensorType(jn.DType(dtype), ("n", *shape[1:]), name="x")])
    right = w if filters == "constants" else graph.input(jn.DType(dtype), kernel, name="w")
    graph.output(jn.conv(graph.inputs[0], right, stride=step, padding=padding, groups=groups))
    arguments = (x,) if filters == "constants" else (x, w)
    model = jn.compile(graph, "cpu")
    assert not any(each.template == "contract" for each in model.kernels)
    for found in (jn.evaluate(graph, *arguments), model(*arguments)):
        np.testing.assert_array_equal(found, one_group_after_the_other(x, w, step, padding, groups))


def test_sums_of_negative_zeros_are_zero_as_those_of_products_are() -> None:
    x, w = np.full((1, 4, 4, 16), -0.0, np.float32), np.ones((3, 3, 4, 16), np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, name="x")])
    graph.output(jn.conv2d(graph.inputs[0], w, groups=4))
    for found in (jn.compile(graph, "cpu")(x), jn.compile(graph, "cpu", numerics="reproducible")(x)):
        assert not np.signbit(np.asarray(found)).any()


def test_floats_of_any_size_are_near_the_exact_sums() -> None:
    """So are those of reproducible numerics, in which they stay products."""
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((1, 12, 12, 16), dtype=np.float32), rng.standard_normal((3, 3, 4, 16), dtype=np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, name="x")])
    graph.output(jn.conv2d(graph.inputs[0], w, padding=1, groups=4))
    exact = one_group_after_the_other(x, w, 1, 1, 4)
    for numerics in ("strict", "reproducible"):
        model = jn.compile(graph, "cpu", numerics=numerics)
        assert any(each.template == "contract" for each in model.kernels) == (numerics == "reproducible")
        assert np.abs(np.asarray(model(x)) - exact).max() <= 2e-6 * np.abs(exact).max()


@pytest.mark.parametrize(
    ("channels", "kernel", "groups", "step", "dtype", "fits"),
    [
        (8, (3, 3, 4, 8), 2, 1, "float32", True),
        (8, (3, 3, 4, 8), 2, 2, "float32", True),
        (8, (3, 3, 8, 8), 1, 1, "float32", False),  # one group
        (8, (3, 3, 1, 8), 8, 1, "float32", False),  # one channel in each: no product at all
        (32, (3, 3, 8, 32), 4, 1, "float32", False),  # eight channels to eight filters
        (32, (3, 3, 16, 2), 2, 1, "float32", False),  # sixteen channels
        (8, (3, 3, 4, 32), 2, 1, "float32", False),  # sixteen filters
        (8, (7, 7, 4, 8), 2, 1, "float32", False),  # 196 products
        (8, (3, 3, 4, 8), 2, 3, "float32", False),  # a tap for each place of the image
        (8, (1, 1, 4, 8), 2, 1, "float32", False),
        (8, (3, 3, 4, 8), 2, 1, "float16", False),
        (8, (3, 3, 4, 8), 2, 1, "int32", False),
    ],
)
def test_others_stay_products(channels: int, kernel: Any, groups: int, step: int, dtype: str, fits: bool) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.DType(dtype), (1, 12, 12, channels), name="x")])
    graph.output(jn.conv2d(graph.inputs[0], np.ones(kernel, dtype), stride=step, groups=groups))
    names = {symbol.op.name for symbol in expand(graph, WholeLines(columns=True)).symbols}
    assert ("contiguous" in names) == fits
    assert "contiguous" not in {symbol.op.name for symbol in expand(graph).symbols}


def test_products_that_are_nearly_convolutions_stay_products() -> None:
    """Groups in another order, and a matrix of another one: they are what they say, and no convolution."""
    x, w = numbers((1, 5, 5, 8)), numbers((2, 36, 4))
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, name="x")])
    apart = graph.inputs[0].reshape((1, 5, 5, 2, 4))
    taken = jn.windows(apart, (3, 3), axes=(1, 2))
    rows = taken.permute((0, 3, 1, 2, 5, 6, 4)).reshape((1, 2, 3, 3, 36))
    other = taken.permute((0, 3, 1, 2, 6, 5, 4)).reshape((1, 2, 3, 3, 36))  # columns of windows before rows
    right = w.reshape((2, 1, 36, 4))
    graph.output(rows @ right, other @ right)
    views = np.lib.stride_tricks.sliding_window_view(x.reshape((5, 5, 2, 4)), (3, 3), (0, 1))
    for found, letters in zip(jn.compile(graph, "cpu")(x), ("ijc", "jic"), strict=True):
        matrix = w.reshape((2, 3, 3, 4, 4))
        expected = np.einsum(f"xygcij,g{letters}m->gxym", views, matrix)
        np.testing.assert_array_equal(found[0], expected)
