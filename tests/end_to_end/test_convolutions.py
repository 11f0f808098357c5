"""Products with windows: convolutions against sums written out in NumPy, on the CPU and simulated GPUs."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

Array = np.ndarray[Any, Any]

CASES = {
    "3x3": ((1, 7, 7, 16), (3, 3), (1, 1), (1, 1), 1, 64),
    "stride 2, three images": ((3, 9, 8, 16), (3, 3), (2, 2), (1, 1), 1, 33),
    "dilated, odd kernel": ((2, 9, 8, 8), (3, 2), (1, 1), (2, 2), 1, 70),
    "stride 2 and 1, dilated 1 and 3": ((1, 10, 11, 8), (2, 3), (2, 1), (1, 3), 0, 5),
    "few channels, 7x7": ((1, 12, 11, 3), (7, 7), (2, 2), (1, 1), 3, 8),
    "one channel": ((2, 6, 7, 1), (3, 3), (1, 1), (1, 1), 1, 40),
    "1x1, stride 2": ((1, 6, 5, 32), (1, 1), (2, 2), (1, 1), 0, 16),
    "as large as the image": ((2, 4, 3, 8), (4, 3), (1, 1), (1, 1), 0, 9),
    "no window": ((1, 2, 5, 8), (3, 3), (1, 1), (1, 1), 0, 4),
    "one window of one row": ((1, 3, 3, 8), (3, 3), (1, 1), (1, 1), 0, 64),
}


def convolution(
    dtype: Any, shape: Any, kernel: Any, strides: Any, dilations: Any, pad: int, filters: int, weights: Array, images: str = ""
) -> jn.Graph:
    sizes = (images or shape[0], *shape[1:])
    graph = jn.Graph("g", [jn.TensorType(dtype, sizes, name="x")])
    x = jn.pad(graph.inputs[0], ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    taken = jn.windows(x, kernel, (1, 2), strides, dilations)
    rows = taken.permute((0, 1, 2, 4, 5, 3)).reshape((*taken.shape[:3], kernel[0] * kernel[1] * shape[3]))
    graph.output(rows @ graph.weight("w", weights))
    return graph


def written_out(x: Array, kernel: Any, strides: Any, dilations: Any, pad: int, weights: Array) -> Array:
    wide = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    sizes = [max(0, (n - span) // stride + 1) for n, span, stride in zip(wide.shape[1:3], spans, strides, strict=True)]
    total = np.zeros((x.shape[0], *sizes, weights.shape[1]))
    factors = weights.astype(np.float64).reshape(*kernel, x.shape[3], -1)
    for i, j in itertools.product(*map(range, kernel)):
        top, left = i * dilations[0], j * dilations[1]
        part = wide[:, top :: strides[0], left :: strides[1]][:, : sizes[0], : sizes[1]]
        total += part @ factors[i, j]
    return total


def numbers(shape: Any, seed: int) -> Array:
    """Small integers, whose products and sums are exact in every dtype."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("device", ["cpu", pytest.param("sm_80", marks=pytest.mark.slow), "sm_90a"])
@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str, device: str) -> None:
    shape, kernel, strides, dilations, pad, filters = CASES[name]
    weights, x = numbers((kernel[0] * kernel[1] * shape[3], filters), 1), numbers(shape, 2)
    graph = convolution(jn.float32, shape, kernel, strides, dilations, pad, filters, weights)
    expected = written_out(x, kernel, strides, dilations, pad, weights)
    options = {"device": "cpu"} if device == "cpu" else {"device": "ptxsim", "target": device}
    model = jn.compile(graph, cache=False, **options)
    np.testing.assert_array_equal(model(x), expected)
    np.testing.assert_array_equal(jn.evaluate(graph, x), expected)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("device", ["cpu", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int8", "int32"])
def test_dtypes(dtype: str, device: str) -> None:
    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    shape, kernel, strides, dilations, pad, filters = CASES["stride 2, three images"]
    weights, x = (numbers(s, 3).astype(kind) for s in ((kernel[0] * kernel[1] * shape[3], filters), shape))
    graph = convolution(jn.DType(dtype), shape, kernel, strides, dilations, pad, filters, weights)
    options = {"device": "cpu"} if device == "cpu" else {"device": "ptxsim", "target": device}
    found = jn.compile(graph, cache=False, **options)(x)
    np.testing.assert_array_equal(found.astype(np.float64), written_out(x, kernel, strides, dilations, pad, weights))


def test_a_number_of_images_known_at_launch() -> None:
    shape, kernel, strides, dilations, pad, filters = CASES["3x3"]
    weights = numbers((kernel[0] * kernel[1] * shape[3], filters), 4)
    graph = convolution(jn.float32, shape, kernel, strides, dilations, pad, filters, weights, "n")
    for device, counts in (("cpu", (0, 1, 2, 7)), ("ptxsim", (0, 2))):
        model = jn.compile(graph, device=device, cache=False)
        for count in counts:
            x = numbers((count, *shape[1:]), count)
            np.testing.assert_array_equal(model(x), written_out(x, kernel, strides, dilations, pad, weights))


def test_images_whose_sizes_are_known_at_launch() -> None:
    weights = numbers((9 * 8, 24), 5)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "h", "w", 8), name="x")])
    taken = jn.windows(graph.inputs[0], (3, 3), (1, 2), 2)
    graph.output(taken.permute((0, 1, 2, 4, 5, 3)).reshape((*taken.shape[:3], 72)) @ weights)
    model = jn.compile(graph, device="cpu", cache=False)
    for n, h, w in ((1, 3, 3), (2, 9, 14), (1, 2, 8), (3, 31, 5)):
        x = numbers((n, h, w, 8), h)
        np.testing.assert_array_equal(model(x), written_out(x, (3, 3), (2, 2), (1, 1), 0, weights))


def test_three_and_one_dimensions() -> None:
    for sizes, kernel in (((9,), (4,)), ((4, 5, 6), (2, 3, 2))):
        rank = len(sizes)
        weights, x = numbers((int(np.prod(kernel)) * 8, 10), 6), numbers((2, *sizes, 8), 7)
        graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, name="x")])
        taken = jn.windows(graph.inputs[0], kernel, tuple(range(1, rank + 1)))
        order = (*range(rank + 1), *range(rank + 2, 2 * rank + 2), rank + 1)
        graph.output(taken.permute(order).reshape((*taken.shape[: rank + 1], weights.shape[0])) @ weights)
        windows = np.lib.stride_tricks.sliding_window_view(x, kernel, tuple(range(1, rank + 1)))
        expected = windows.transpose(order).reshape(*windows.shape[: rank + 1], -1) @ weights
        np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(x), expected)


def test_bias_activation_and_a_sum_are_part_of_the_product() -> None:
    shape, kernel, strides, dilations, pad, filters = CASES["3x3"]
    weights, bias = numbers((kernel[0] * kernel[1] * shape[3], filters), 8), numbers((filters,), 9)
    types = [jn.TensorType(jn.float32, shape, "x"), jn.TensorType(jn.float32, (1, 7, 7, filters), "y")]
    graph = jn.Graph("g", types)
    x, y = graph.inputs
    wide = jn.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    taken = jn.windows(wide, kernel, (1, 2))
    rows = taken.permute((0, 1, 2, 4, 5, 3)).reshape((1, 7, 7, 144))
    graph.output(jn.relu(rows @ weights + bias + y))
    model = jn.compile(graph, device="cpu", cache=False)
    assert [kernel.template for kernel in model.kernels] == ["map", "contract"]
    assert model.kernels[0].fused == ("pad",)
    assert "_gathered" in model.kernels[1].llvm_ir
    a, b = numbers(shape, 10), numbers((1, 7, 7, filters), 11)
    expected = np.maximum(written_out(a, kernel, strides, dilations, pad, weights) + bias + b, 0)
    np.testing.assert_array_equal(model(a, b), expected)


def test_short_runs_are_stored_first_and_right() -> None:
    """Channels first: a row of a window has three neighbours, too few to read them where they lie."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 4, 9, 8), name="x")])
    weights = numbers((36, 6), 12)
    taken = jn.windows(graph.inputs[0], (3, 3), (2, 3))
    graph.output(taken.permute((0, 2, 3, 1, 4, 5)).reshape((2, 7, 6, 36)) @ weights)
    x = numbers((2, 4, 9, 8), 13)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    expected = windows.transpose(0, 2, 3, 1, 4, 5).reshape(2, 7, 6, 36) @ weights
    np.testing.assert_array_equal(jn.compile(graph, device="cpu", cache=False)(x), expected)
    np.testing.assert_array_equal(jn.compile(graph, device="ptxsim", cache=False)(x), expected)


def test_reproducible_numerics_give_the_bits_of_every_device() -> None:
    shape, kernel, strides, dilations, pad, filters = CASES["3x3"]
    rng = np.random.default_rng(14)
    weights = rng.standard_normal((144, filters)).astype(np.float32)
    graph = convolution(jn.float32, shape, kernel, strides, dilations, pad, filters, weights)
    x = rng.standard_normal(shape).astype(np.float32)
    results = [jn.compile(graph, device=d, numerics="reproducible", cache=False)(x).tobytes() for d in ("cpu", "ptxsim")]
    assert results[0] == results[1]


def test_windows_of_a_convolution_are_not_computed_again_for_every_tap() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 12, 12, 8), name="x")])
    weights = [graph.weight(f"w{i}", numbers((9, 8), i)) for i in range(3)]
    x = graph.inputs[0]
    for factors in weights:
        taken = jn.windows(x, (3, 3), (1, 2))
        terms = [taken[..., i // 3, i % 3] * factors[i] for i in range(9)]
        x = jn.relu(sum(terms[1:], start=terms[0]))
    graph.output(x)
    model = jn.compile(graph, device="cpu", cache=False)
    assert len(model.kernels) == 3
    a = numbers((1, 12, 12, 8), 15)
    np.testing.assert_array_equal(model(a), jn.evaluate(graph, a))
