"""Convolutions and poolings with channels last: against sums, maxima and means over NumPy's windows."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.errors import UserError

Array = np.ndarray[Any, Any]


def taken(x: Array, sizes: Any, strides: Any, dilations: Any) -> Array:
    """Returns all windows of an array (N, …, C) as (N, …, C, *sizes)."""
    axes = tuple(range(1, x.ndim - 1))
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    every = np.lib.stride_tricks.sliding_window_view(x, spans, axes)
    thin = (slice(None), *[slice(None, None, s) for s in strides], slice(None), *[slice(None, None, d) for d in dilations])
    return every[thin]


def convolved(x: Array, kernel: Array, strides: Any, dilations: Any, pads: Any, groups: int) -> Array:
    wide = np.pad(x.astype(np.float64), [(0, 0), *pads, (0, 0)])
    windows = taken(wide, kernel.shape[:-2], strides, dilations)
    depth, filters = kernel.shape[-2], kernel.shape[-1] // groups
    rank, letters = x.ndim - 2, "ijk"[: x.ndim - 2]
    parts = []
    for g in range(groups):
        here = windows.take(range(g * depth, (g + 1) * depth), rank + 1)
        part = kernel[..., g * filters : (g + 1) * filters].astype(np.float64)
        parts.append(np.einsum(f"n...c{letters},{letters}cm->n...m", here, part))
    return np.concatenate(parts, -1)


CASES = [
    ((2, 9, 4), (3, 4, 5), 1, 1, 0, 1),
    ((1, 7, 8, 4), (3, 2, 4, 6), (2, 1), (1, 2), (1, 0), 1),
    ((3, 6, 5, 6), (3, 3, 3, 4), 1, 1, [(2, 0), (0, 1)], 2),
    ((2, 8, 9, 6), (3, 3, 1, 6), 2, 1, 1, 6),
    ((1, 6, 7, 4), (3, 3, 1, 12), 1, 2, 2, 4),
    ((2, 5, 6, 7, 3), (2, 3, 2, 3, 4), (1, 2, 1), 1, 1, 1),
    ((1, 20, 4), (65, 1, 4), 1, 1, 32, 4),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("shape", "kernel", "stride", "dilation", "padding", "groups"), CASES)
def test_convolutions(shape: Any, kernel: Any, stride: Any, dilation: Any, padding: Any, groups: int) -> None:
    rank = len(shape) - 2
    rng = np.random.default_rng(len(shape))
    x, w = (rng.integers(-3, 4, s).astype(np.float32) for s in (shape, kernel))
    bias = np.arange(kernel[-1], dtype=np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", *shape[1:]), "x")])
    named = {1: jn.conv1d, 2: jn.conv2d, 3: jn.conv3d}[rank]
    arguments = (graph.inputs[0], w, stride, dilation, padding, groups, bias)
    graph.output(jn.conv(*arguments), named(*arguments))
    strides, dilations = ((each,) * rank if isinstance(each, int) else each for each in (stride, dilation))
    pads = [(p, p) if isinstance(p, int) else p for p in ((padding,) * rank if isinstance(padding, int) else padding)]
    expected = convolved(x, w, strides, dilations, pads, groups) + bias
    for found in (*jn.evaluate(graph, x), *jn.compile(graph, "cpu", cache=False)(x)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float16", "int8", "float64"])
@pytest.mark.parametrize("groups", [1, 4])
def test_dtypes(dtype: str, groups: int) -> None:
    rng = np.random.default_rng(1)
    x, w = (rng.integers(-3, 4, s).astype(dtype) for s in ((1, 6, 5, 4), (3, 3, 4 // groups, 8)))
    graph = jn.Graph("g", [jn.TensorType(dtype, x.shape, "x")])
    y = jn.conv2d(graph.inputs[0], w, padding=1, groups=groups)
    assert y.dtype.name == ("int32" if dtype == "int8" else dtype)
    graph.output(y)
    expected = convolved(x, w, (1, 1), (1, 1), [(1, 1)] * 2, groups)
    for found in (jn.evaluate(graph, x), jn.compile(graph, "cpu", cache=False)(x)):
        np.testing.assert_array_equal(found, expected)


def test_operands_join_once() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float16, (1, 5, 4), "x")])
    for groups in (1, 4):
        y = jn.conv1d(graph.inputs[0], np.ones((3, 4 // groups, 4), np.float32), groups=groups)
        assert y.dtype is jn.float32
    assert {(str(entry.source), str(entry.target)) for entry in graph.casts()} == {("float16", "float32")}


def pooled(
    x: Array, sizes: Any, strides: Any, dilations: Any, pads: Any, ceil_mode: bool, boundary: bool
) -> tuple[Array, Array]:
    """Returns maxima and means, window by window."""
    rank, counts = x.ndim - 2, []
    for axis in range(rank):
        reach = x.shape[axis + 1] + sum(pads[axis]) - (sizes[axis] - 1) * dilations[axis] - 1
        count = (math.ceil if ceil_mode else math.floor)(reach / strides[axis]) + 1
        counts.append(count - (ceil_mode and (count - 1) * strides[axis] >= x.shape[axis + 1] + pads[axis][0]))
    largest = np.full((x.shape[0], *counts, x.shape[-1]), -np.inf)
    total, number = np.zeros_like(largest), np.zeros((1, *counts, 1))
    for window in np.ndindex(*counts):
        for tap in itertools.product(*map(range, sizes)):
            at = [window[a] * strides[a] + tap[a] * dilations[a] - pads[a][0] for a in range(rank)]
            here = (slice(None), *window)
            if all(0 <= at[a] < x.shape[a + 1] for a in range(rank)):
                largest[here] = np.maximum(largest[here], x[(slice(None), *at)])
                total[here] += x[(slice(None), *at)]
                number[here] += 1
            elif all(-pads[a][0] <= at[a] < x.shape[a + 1] + pads[a][1] for a in range(rank)):
                number[here] += boundary
    return largest, total / number


POOLS = [
    ((2, 7, 8, 3), (2, 3), None, 1, 0, False),
    ((1, 9, 6, 5), (3, 3), 2, 1, 1, False),
    ((1, 10, 7, 4), (3, 2), (2, 3), (2, 1), [(1, 2), (0, 1)], True),
    ((2, 11, 2), 3, 2, 1, 1, True),
    ((1, 5, 4, 6, 2), 2, 1, 1, 0, False),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("boundary", [True, False])
@pytest.mark.parametrize(("shape", "size", "stride", "dilation", "padding", "ceil_mode"), POOLS)
def test_poolings(shape: Any, size: Any, stride: Any, dilation: Any, padding: Any, ceil_mode: bool, boundary: bool) -> None:
    rank = len(shape) - 2
    x = np.random.default_rng(2).integers(-9, 9, shape).astype(np.float32)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", *shape[1:]), "x")])
    most = jn.max_pool(graph.inputs[0], size, stride, dilation, padding, ceil_mode)
    graph.output(most, jn.avg_pool(graph.inputs[0], size, stride, dilation, padding, ceil_mode, boundary))
    sizes, dilations = ((each,) * rank if isinstance(each, int) else each for each in (size, dilation))
    strides = sizes if stride is None else (stride,) * rank if isinstance(stride, int) else stride
    pads = [(p, p) if isinstance(p, int) else p for p in ((padding,) * rank if isinstance(padding, int) else padding)]
    largest, average = pooled(x, sizes, strides, dilations, pads, ceil_mode, boundary)
    for found in (jn.evaluate(graph, x), jn.compile(graph, "cpu", cache=False)(x)):
        np.testing.assert_array_equal(found[0], largest)
        np.testing.assert_allclose(found[1], average, rtol=1e-6)


def test_pools_of_integers_and_of_halves() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.int8, (1, 4, 1), "x"), jn.TensorType(jn.float16, (1, 4, 1), "y")])
    graph.output(jn.max_pool(graph.inputs[0], 3, 1, padding=1), jn.avg_pool(graph.inputs[1], 2))
    x = np.array([-128, -3, -128, -128], np.int8).reshape(1, 4, 1)
    largest, average = jn.evaluate(graph, x, np.array([1, 2, 65504, 65504], np.float16).reshape(1, 4, 1))
    assert largest.ravel().tolist() == [-3, -3, -3, -128]
    assert average.ravel().tolist() == [1.5, 65504]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: jn.conv1d(x, np.ones((3, 3, 4, 2), np.float32)), r"conv1d: .*kernel \(3, 3, 4, 2\)"),
        (lambda x: jn.conv(x, np.ones((3, 4, 2), np.float32)), "as many axes in the kernel"),
        (lambda x: jn.conv2d(x, np.ones((3, 3, 3, 2), np.float32)), "4 channels in 1 groups, a kernel of 3 channels to 2"),
        (lambda x: jn.conv2d(x, np.ones((3, 3, 2, 3), np.float32), groups=2), "a kernel of 2 channels to 3"),
        (lambda x: jn.conv2d(x, np.ones((0, 3, 4, 3), np.float32)), "sizes of 1 or more"),
        (lambda x: jn.conv2d(x, np.ones((3, 3, 4, 2), np.float32), stride=0), "stride 0"),
        (lambda x: jn.conv2d(x, np.ones((3, 3, 4, 2), np.float32), dilation=(1, 2, 3)), "dilation"),
        (lambda x: jn.conv2d(x, np.ones((3, 3, 4, 2), np.float32), padding=(1, -1)), "padding"),
        (lambda x: jn.max_pool(x, 2, padding=2), "less padding than a window is long"),
        (lambda x: jn.max_pool(x[0, 0], 2), "N, …, C"),
        (lambda x: jn.avg_pool(x.cast("int32"), 2), r"cast it first"),
    ],
)
def test_mistakes(call: Any, message: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 6, 6, 4), "x")])
    with pytest.raises(UserError, match=f"(?s){message}"):
        call(graph.inputs[0])


@pytest.mark.parametrize(("shape", "kernel", "fix"), [
    ((1, 3, 9, 8), (16, 3, 3, 3), "channels come last here: x.permute((0, 2, 3, 1)), kernel.permute((2, 3, 1, 0))"),
    ((1, 32, 9, 8), (16, 32, 3, 3), "channels come last here: x.permute((0, 2, 3, 1)), kernel.permute((2, 3, 1, 0))"),
    ((1, 3, 9, 8), (3, 3, 3, 16), "channels come last here: x.permute((0, 2, 3, 1))"),
    ((1, 9, 8, 4), (16, 4, 3, 3), "channels come last here: kernel.permute((2, 3, 1, 0))"),
    ((1, 16, 100), (32, 16, 5), "channels come last here: x.permute((0, 2, 1)), kernel.permute((2, 1, 0))"),
    ((1, 9, 8, 5), (3, 3, 4, 16), "check groups="),
])  # fmt: skip
def test_channels_that_come_first_are_told_of(shape: Any, kernel: Any, fix: str) -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", shape, "x"), jn.TensorType("float32", kernel, "k")])
    with pytest.raises(jn.UserError, match=re.escape(f"fix: {fix}")):
        jn.conv(*graph.inputs)
