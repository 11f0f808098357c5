"""Convolutions between permutations, as graphs state them whose tensors have channels first, against sums over taps."""

import itertools
import math

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(11)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def expected(x, kernel, stride=1, padding=0, dilation=1):
    """A cross-correlation of x (N, C, …) with a kernel (M, C, …), in float64."""
    space = kernel.ndim - 2
    wide = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *[(padding, padding)] * space])
    counts = [(n - dilation * (k - 1) - 1) // stride + 1 for n, k in zip(wide.shape[2:], kernel.shape[2:], strict=True)]
    total = np.zeros((x.shape[0], kernel.shape[0], *counts))
    for tap in itertools.product(*map(range, kernel.shape[2:])):
        cut = [slice(t * dilation, t * dilation + stride * (n - 1) + 1, stride) for t, n in zip(tap, counts, strict=True)]
        total += np.einsum("nc...,mc->nm...", wide[(slice(None), slice(None), *cut)], kernel[(..., *tap)].astype(np.float64))
    return total


def convolved(x, kernel, numerics="strict", after=lambda y: y, **options):
    """Kernels and result of the same in channels last, between permutations."""
    space = kernel.ndim - 2
    last, first = (0, *range(2, space + 2), 1), (0, space + 1, *range(1, space + 1))
    filters = np.ascontiguousarray(kernel.transpose(*range(2, space + 2), 1, 0))
    graph = jn.Graph("g", [jn.TensorType(jn.DType(str(x.dtype)), x.shape, "x")])
    result = jn.conv(jn.permute(graph.inputs[0], last), filters, **options)
    graph.output(after(jn.permute(result, first)))
    model = jn.compile(graph, device="cpu", cache=False, numerics=numerics)
    return model(x), model.kernels


def close(found, right, terms):
    np.testing.assert_allclose(found, right, rtol=0, atol=np.abs(right).max() * 1e-6 * math.sqrt(terms) + 1e-6)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("padding", [0, 2])
@pytest.mark.parametrize(("channels", "length", "taps"), [(64, 400, 7), (12, 101, 5), (1, 300, 9), (33, 57, 1)])
def test_one_axis_of_space(channels, length, taps, padding):
    x, kernel = normal(2, channels, length), normal(24, channels, taps)
    found, kernels = convolved(x, kernel, padding=padding)
    close(found, expected(x, kernel, padding=padding), channels * taps)
    if channels == 64:  # channels are put side by side: no windows are stored
        assert kernels[0].bytes_written == 4 * 2 * channels * (length + 2 * padding)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("after", ["nothing", "relu"])
@pytest.mark.parametrize(("channels", "filters", "side"), [(32, 64, 20), (40, 33, 13), (31, 64, 20)])
def test_tiles_are_stored_before_they_are_permuted(channels, filters, side, after):
    x, kernel = normal(1, channels, side, side + 3), normal(filters, channels, 3, 3)
    step = jn.relu if after == "relu" else lambda y: y
    found, kernels = convolved(x, kernel, after=step, padding=1)
    right = expected(x, kernel, padding=1)
    close(found, np.maximum(right, 0) if after == "relu" else right, 9 * channels)
    is_tiled = channels >= 32
    assert [each.template for each in kernels] == ["map", "contract", *["map"] * is_tiled]


def test_what_the_next_convolution_reads_is_not_apart():
    """Of two layers beside what they add to, the permutation reads the last one alone: the first one adds in its own kernel."""
    x = normal(1, 32, 16, 16)
    kernels = [normal(32, 32, 3, 3) for _ in range(2)]
    filters = [np.ascontiguousarray(each.transpose(2, 3, 1, 0)) for each in kernels]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, "x")])
    value = jn.permute(graph.inputs[0], (0, 2, 3, 1))
    for each in filters:
        value = jn.relu(value + jn.conv2d(value, each, padding=1))
    graph.output(jn.permute(value, (0, 3, 1, 2)))
    model = jn.compile(graph, device="cpu", cache=False)
    right = x.astype(np.float64)
    for each in kernels:
        right = np.maximum(right + expected(right, each, padding=1), 0)
    close(model(x), right, 9 * 32)
    products = [each for each in model.kernels if each.template == "contract"]
    assert ["relu" in each.fused for each in products] == [True, False]


def test_reproducible_convolutions_have_no_tiles():
    x, kernel = normal(1, 32, 12, 12), normal(64, 32, 3, 3)
    found, kernels = convolved(x, kernel, "reproducible", padding=1)
    close(found, expected(x, kernel, padding=1), 9 * 32)
    assert [each.template for each in kernels] == ["map", "contract"]


@pytest.mark.one_in(18)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("filters", "taps"), [(1, 5), (2, 3), (8, 7), (9, 7), (16, 5), (17, 3), (16, 1)])
def test_one_channel(filters, taps, stride):
    x, kernel = normal(3, 1, 29, 34), normal(filters, 1, taps, taps)
    found, kernels = convolved(x, kernel, stride=stride, padding=1)
    close(found, expected(x, kernel, stride, 1), taps * taps)
    has_products = filters > (16 if taps <= 5 else 8) or (stride > taps and filters < 8)
    assert ("contract" in [each.template for each in kernels]) is has_products


def test_one_channel_with_windows_apart_is_a_product_unless_filters_fill_a_register():
    for filters, template in ((1, "contract"), (7, "contract"), (8, "map")):
        x, kernel = normal(2, 1, 24, 24), normal(filters, 1, 8, 8)
        found, kernels = convolved(x, kernel, stride=8)
        close(found, expected(x, kernel, 8), 64)
        assert kernels[-1].template == template


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("taps", "stride"), [((3, 3), 2), ((2, 2), 2), ((1, 3), (1, 2)), ((7, 7), 2), ((5, 5), (1, 4)), ((3, 1), (2, 1))]
)
def test_one_channel_with_steps_is_a_sum_over_taps_while_windows_meet(taps, stride):
    """As a product it took up to six times as long."""
    x, kernel = normal(2, 1, 31, 37), normal(4, 1, *taps)
    found, kernels = convolved(x, kernel, stride=stride, padding=1)
    steps = stride if isinstance(stride, tuple) else (stride, stride)
    whole = expected(x, kernel, 1, 1)
    close(found, whole[:, :, :: steps[0], :: steps[1]], taps[0] * taps[1])
    assert {each.template for each in kernels} == {"map"}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("taps", "is_stored"), [((3, 3), True), ((2, 4), True), ((3, 1), False), ((2, 3), False), ((3,), True), ((2,), False)]
)
def test_padding_of_one_channel_is_stored_for_many_taps(taps, is_stored):
    x, kernel = normal(2, 1, *[40] * len(taps)), normal(2, 1, *taps)
    found, kernels = convolved(x, kernel, padding=1)
    close(found, expected(x, kernel, padding=1), 9)
    assert len(kernels) == 1 + is_stored


@pytest.mark.one_in(4)
@pytest.mark.parametrize("activation", ["silu", "hardswish", "square", "to an output"])
def test_activations_that_read_a_number_twice_are_stored_before_the_permutation(activation):
    x, kernel = normal(1, 32, 20, 23), normal(64, 32, 3, 3)
    filters = np.ascontiguousarray(kernel.transpose(2, 3, 1, 0))
    graph = jn.Graph("g", [jn.TensorType(jn.float32, x.shape, "x")])
    value = jn.conv2d(jn.permute(graph.inputs[0], (0, 2, 3, 1)), filters, padding=1)
    after = {
        "silu": lambda v: v * jn.sigmoid(v), "hardswish": lambda v: v * jn.clip(v + 3.0, 0.0, 6.0) / 6.0,
        "square": lambda v: v * v, "to an output": lambda v: v * 2.0,
    }[activation]  # fmt: skip
    outputs = [jn.permute(after(value), (0, 3, 1, 2))]
    graph.output(*outputs, *([jn.sum(value, axis=(1, 2))] if activation == "to an output" else []))
    model = jn.compile(graph, device="cpu", cache=False)
    found = model(x)
    right = expected(x, kernel, padding=1)
    made = {
        "silu": right / (1 + np.exp(-right)), "hardswish": right * np.clip(right + 3, 0, 6) / 6, "square": right * right,
        "to an output": right * 2,
    }[activation]  # fmt: skip
    if activation == "to an output":  # the sum reads what is stored with channels last in any case
        found, sums = found
        close(sums, right.sum(axis=(2, 3)), 9 * 32 * 460)
    close(found, made, 9 * 32)
    templates = [each.template for each in model.kernels]
    assert templates.count("contract") == 1
    if activation != "to an output":
        assert templates == ["map", "contract", "map"]


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_one_channel_of_other_floats(dtype):
    x, kernel = normal(2, 1, 20, 20, dtype=dtype), normal(4, 1, 3, 3, dtype=dtype)
    found, _ = convolved(x, kernel)
    assert found.dtype == dtype
    bound = 1e-2 if dtype == "float16" else 1e-12
    np.testing.assert_allclose(found, expected(x, kernel), rtol=bound, atol=bound)


def test_integers_of_one_channel_are_products():
    x = RNG.integers(-128, 128, (2, 1, 12, 12)).astype(np.int8)
    kernel = RNG.integers(-128, 128, (4, 1, 3, 3)).astype(np.int8)
    found, _ = convolved(x, kernel)
    np.testing.assert_array_equal(found, expected(x, kernel).astype(found.dtype))
