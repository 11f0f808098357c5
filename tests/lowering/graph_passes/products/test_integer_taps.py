"""Convolutions of single channels of codes are sums of int32, tap by tap, and read the codes."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.products.integer_products import with_integer_products

F = np.float32
CODES = {"int8": np.int8, "uint8": np.uint8}


def _agrees(graph: Any, *inputs: Any, numerics: str = "strict") -> None:
    found = jn.compile(graph, "cpu", cache=False, numerics=numerics)(*inputs)
    np.testing.assert_array_equal(found, jn.evaluate(graph, *inputs))


def _pads(graph: Any) -> set[str]:
    return {symbol.dtype.name for symbol in with_integer_products(graph).symbols if symbol.op.name == "pad"}


def _layer(seed: int, scaled: bool) -> tuple[Any, Any]:
    """A random convolution of single channels of codes, and its input; scales are powers of two."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    rank, channels, each = choose.choice([1, 2, 2, 3]), choose.choice([2, 3, 16, 17, 70]), choose.choice([1, 1, 1, 2, 5])
    kernel = [choose.choice([1, 2, 3]) for _ in range(rank - 1)] + [choose.choice([2, 3])]
    dtype = choose.choice(list(CODES))
    limits = np.iinfo(CODES[dtype])
    zero = CODES[dtype](choose.choice([limits.min, limits.max, 1, 77]))
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n", *[choose.randint(5, 9) for _ in range(rank)], channels), "x")])
    codes = rng.integers(-128, 128, (*kernel, 1, channels * each)).astype(np.int8)
    x = graph.inputs[0]
    if scaled:
        scales = (2.0 ** rng.integers(-3, 4, channels * each)).astype(F)
        factors = jn.dequantize(graph.constant(codes), scales, np.zeros(channels * each, np.int8), axis=rank + 1)
        value = jn.dequantize(x, F(0.25), zero)
    else:
        factors, value = graph.constant(codes.astype(np.int32)), x.cast("int32") - np.int32(zero)
    graph.output(jn.conv(
        value, factors, groups=channels, padding=[(1, choose.randint(0, 2)) for _ in range(rank)],
        stride=[choose.randint(1, 3) for _ in range(rank)], dilation=[choose.randint(1, 2) for _ in range(rank)],
    ))  # fmt: skip
    shape = (choose.choice([0, 1, 2]), *[int(extent) for extent in x.shape[1:]])
    return graph, rng.integers(limits.min, limits.max + 1, shape).astype(CODES[dtype])


@pytest.mark.one_in(18)
@pytest.mark.parametrize("scaled", [True, False], ids=["floats", "int32"])
@pytest.mark.parametrize("seed", range(12))
def test_they_have_the_bits_of_the_evaluator(seed: int, scaled: bool) -> None:
    graph, x = _layer(seed, scaled)
    assert _pads(graph) == {"int8"}
    _agrees(graph, x)


def test_reproducible_numerics_keep_floats() -> None:
    graph, x = _layer(3, True)
    assert all(symbol.dtype is not jn.int32 for symbol in with_integer_products(graph, exact_only=True).symbols)
    _agrees(graph, x, numerics="reproducible")


def test_a_zero_point_that_is_known_at_run_time() -> None:
    graph = jn.Graph("g", [jn.TensorType("uint8", (1, 7, 7, 4), "x"), jn.TensorType("uint8", (), "z")])
    x, zero = graph.inputs
    rng = np.random.default_rng(1)
    kernel = graph.constant(rng.integers(-128, 128, (3, 3, 1, 4)).astype(np.int32))
    graph.output(jn.conv(x.cast("int32") - zero.cast("int32"), kernel, padding=1, groups=4))
    assert with_integer_products(graph) is not graph
    for value in (0, 9, 255):
        _agrees(graph, rng.integers(0, 256, (1, 7, 7, 4)).astype(np.uint8), np.array(value, np.uint8))


def _sums(*zeros: int, scales: tuple[float, float] = (0.5, 0.5), tensors: int = 1) -> Any:
    """Two taps of windows of dequantised tensors, or of one twice, each times constant codes."""
    graph = jn.Graph("g", [jn.TensorType("uint8", (4, 40), f"x{number}") for number in range(tensors)])
    codes = np.random.default_rng(2).integers(-128, 128, (2, 40)).astype(np.int8)
    sources = [(number % tensors, zero) for number, zero in enumerate(zeros)]
    windows = {
        source: jn.windows(jn.dequantize(graph.inputs[source[0]], F(0.25), np.uint8(source[1])), 2, axes=0)
        for source in dict.fromkeys(sources)
    }
    taps = [windows[source][..., number] for number, source in enumerate(sources)]
    factors = [jn.dequantize(graph.constant(each), F(scale)) for each, scale in zip(codes, scales, strict=True)]
    graph.output(taps[0] * factors[0] + taps[1] * factors[1])
    return graph


@pytest.mark.parametrize(("made", "taken"), [
    (_sums(3, 3), True), (_sums(3, 4), False), (_sums(3, 3, scales=(0.5, 0.25)), False), (_sums(3, 3, tensors=2), False),
], ids=["one tensor", "two zero points", "two scales", "two tensors"])  # fmt: skip
def test_only_sums_over_one_tensor_of_codes(made: Any, taken: bool) -> None:
    assert (with_integer_products(made) is not made) == taken
    rng = np.random.default_rng(3)
    _agrees(made, *[rng.integers(0, 256, (4, 40)).astype(np.uint8) for _ in made.inputs])


def test_sums_that_are_no_convolution_are_rounded_as_they_are_stated() -> None:
    """Products and sums of elements have the same bits in strict numerics, whatever they are of."""
    graph = jn.Graph("g", [jn.TensorType("uint8", (4, 40), "x")])
    codes = np.random.default_rng(2).integers(-128, 128, (3, 40)).astype(np.int8)
    number = jn.dequantize(graph.inputs[0], F(0.0413), np.uint8(3))
    first, *others = [number[:, 2 - k : 40 - k] * jn.dequantize(graph.constant(codes[k, 2:]), F(0.0077)) for k in range(3)]
    for each in others:
        first = first + each
    graph.output(first)
    assert with_integer_products(graph) is graph
    _agrees(graph, np.random.default_rng(3).integers(0, 256, (4, 40)).astype(np.uint8))


def test_factors_that_are_read_backwards() -> None:
    """Kernels turned round, whose slices end before the first element."""
    graph = jn.Graph("g", [jn.TensorType("uint8", (1, 6, 6, 16), "x")])
    codes = np.random.default_rng(4).integers(-128, 128, (3, 3, 1, 16)).astype(np.int8)
    factors = jn.dequantize(graph.constant(codes), F(0.5))
    turned = graph.apply("slice", (factors,), {"starts": (2, 2, 0, 0), "stops": (-1, -1, 1, 16), "steps": (-1, -1, 1, 1)})
    graph.output(jn.conv(jn.dequantize(graph.inputs[0], F(0.25), np.uint8(9)), turned, groups=16))
    assert with_integer_products(graph) is not graph
    _agrees(graph, np.random.default_rng(5).integers(0, 256, (1, 6, 6, 16)).astype(np.uint8))
