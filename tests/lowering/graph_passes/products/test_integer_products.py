"""Products of codes become products of int8: which ones, and that no number changes that a sum in floats has exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.products.integer_products import with_integer_products

from ....support.tiers import both_tiers

F = np.float32
RNG = np.random.default_rng(11)
CODES = {"int8": np.int8, "uint8": np.uint8}


def _products(graph: Any) -> list[str]:
    """The dtypes of the operands of the products of a graph."""
    found = with_integer_products(graph).symbols
    return [symbol.inputs[0].dtype.name for symbol in found if symbol.op.name == "matmul"]


def _codes(dtype: str, shape: tuple[int, ...]) -> Any:
    limits = np.iinfo(CODES[dtype])
    return RNG.integers(limits.min, limits.max + 1, shape).astype(CODES[dtype])


def _zero(dtype: str, value: int | None) -> Any:
    return None if value is None else CODES[dtype](value)


def _built(
    codes: str = "uint8", zero: int | None = 3, weights: str = "int8", w_zero: Any = None, scale: float = 0.25,
    w_scale: Any = 0.5, depth: int = 24, axis: int = 1,
) -> Any:  # fmt: skip
    """x quantised, times constant codes: scales are powers of two, so that sums in floats are exact."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", depth), "x")])
    x = jn.quantize(graph.inputs[0], F(scale), _zero(codes, zero), dtype=codes)
    w = graph.constant(_codes(weights, (depth, 40)))
    w_scale = np.asarray(w_scale, F)
    point = None if w_zero is None else np.broadcast_to(np.asarray(w_zero, CODES[weights]), w_scale.shape)
    factors = jn.dequantize(w, w_scale, None if point is None else np.array(point), axis=axis)
    result = jn.dequantize(x, F(scale), _zero(codes, zero)) @ factors
    graph.output(result, jn.quantize(jn.relu(result + np.arange(40, dtype=F)), F(2.0), np.uint8(7), dtype="uint8"))
    return graph


def _agrees(graph: Any, *inputs: Any, numerics: str = "strict") -> None:
    expected = jn.evaluate(graph, *inputs)
    found = jn.compile(graph, "cpu", cache=False, numerics=numerics)(*inputs)
    for one, other in zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]:
        np.testing.assert_array_equal(one, other)


POWERS = 2.0 ** RNG.integers(-3, 4, 40)
TAKEN: dict[str, Any] = {
    "uint8": _built(), "int8": _built("int8", -5), "no zero": _built("uint8", None), "int8, no zero": _built("int8", None),
    "uint8, first": _built("uint8", 0), "uint8, last": _built("uint8", 255), "int8, first": _built("int8", -128),
    "int8, last": _built("int8", 127), "uint8 weights": _built(weights="uint8", w_zero=128), "scales": _built(w_scale=POWERS),
    "a scale of 0": _built(w_scale=np.where(np.arange(40) == 3, 0, POWERS)),
    "zeros": _built(w_scale=POWERS, w_zero=np.zeros(40)),
    "depth 1": _built(depth=1), "depth 0": _built(depth=0), "long": _built(depth=3000),
}  # fmt: skip


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize("rows", [0, 1, 7])
def test_products_of_codes_are_products_of_int8(name: str, rows: int) -> None:
    graph = TAKEN[name]
    assert _products(graph) == ["int8"]
    _agrees(graph, (RNG.standard_normal((rows, graph.inputs[0].shape[1])) * 30).astype(F))


@pytest.mark.parametrize("name", TAKEN)
def test_codes_are_unsigned_where_they_are_multiplied_so(name: str) -> None:
    graph = TAKEN[name]
    found = with_integer_products(graph, unsigned=True)
    (left,) = [symbol.inputs[0] for symbol in found.symbols if symbol.op.name == "matmul"]
    assert (left.op.name, left.dtype.name) == ("bitwise_xor", "int8")
    assert (left.inputs[0].op.name, left.inputs[0].inputs[0].dtype.name) == ("bitcast", "uint8")
    x = (RNG.standard_normal((5, graph.inputs[0].shape[1])) * 30).astype(F)
    for one, other in zip(jn.evaluate(found, x), jn.evaluate(graph, x), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("unsigned", [False, True])
def test_the_code_of_nan_is_0_before_and_after(codes: str, unsigned: bool) -> None:
    graph = _built(codes, 40)
    x = np.full((3, 24), np.nan, F)
    x[1:] = np.inf
    x[2] *= -1
    found = with_integer_products(graph, unsigned=unsigned)
    with np.errstate(invalid="ignore"):
        for one, other in zip(jn.evaluate(found, x), jn.evaluate(graph, x), strict=True):
            np.testing.assert_array_equal(one, other)
        _agrees(graph, x)


LEFT: dict[str, Callable[[], Any]] = {
    "scales along k": lambda: _built(w_scale=2.0 ** RNG.integers(-3, 4, 24), axis=0),
    "weights beyond int8": lambda: _built(weights="uint8", w_zero=3),
    "a scale too small": lambda: _built(scale=2.0**-60),
    "a scale too large": lambda: _built(w_scale=2.0**60),
    "a scale that is infinite": lambda: _built(w_scale=np.inf),
    "sums beyond int32": lambda: _built(zero=0, depth=1 << 18),
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", LEFT)
def test_other_products_stay_in_floats(name: str) -> None:
    assert _products(LEFT[name]()) == ["float32"]


def test_reproducible_numerics_keep_floats() -> None:
    graph = _built()
    found = with_integer_products(graph, exact_only=True)
    assert [symbol.inputs[0].dtype.name for symbol in found.symbols if symbol.op.name == "matmul"] == ["float32"]
    _agrees(graph, RNG.standard_normal((5, 24)).astype(F), numerics="reproducible")


def test_a_scale_that_is_an_input_keeps_floats() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, (4, 8), "x"), jn.TensorType(jn.float32, (), "s")])
    x, scale = graph.inputs
    graph.output(jn.dequantize(x, scale) @ jn.dequantize(graph.constant(_codes("int8", (8, 4))), F(0.5)))
    assert _products(graph) == ["float32"]


def test_codes_that_are_read_as_they_are_stay() -> None:
    """Codes of uint8 are an output, too."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (6, 8), "x")])
    codes = jn.quantize(graph.inputs[0], F(0.25), np.uint8(100), dtype="uint8")
    number = jn.dequantize(codes, F(0.25), np.uint8(100))
    graph.output(codes, number @ jn.dequantize(graph.constant(_codes("int8", (8, 4))), F(0.5)), number + F(1), codes[:, 2:5])
    assert _products(graph) == ["int8"]
    _agrees(graph, (RNG.standard_normal((6, 8)) * 40).astype(F))


def test_between_layers_codes_are_what_is_stored() -> None:
    """A chain of layers with a sum: no kernel writes floats but the last."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (300, 64), "x")])
    point, scale = np.uint8(90), F(0.5)

    def coded(x: Any) -> Any:
        return jn.dequantize(jn.quantize(x, scale, point, dtype="uint8"), scale, point)

    first = value = coded(graph.inputs[0])
    for _ in range(3):
        value = coded(value @ jn.dequantize(graph.constant(_codes("int8", (64, 64))), F(2.0**-7)) + first)
    graph.output(value)
    model = jn.compile(graph, "cpu", cache=False)
    assert sum(kernel.bytes_written for kernel in model.kernels[:-1]) == 3 * 300 * 64
    assert model.kernels[-1].bytes_written == 4 * 300 * 64
    _agrees(graph, (RNG.standard_normal((300, 64)) * 20).astype(F))


def _convolution(seed: int) -> tuple[Any, Any]:
    """A random convolution of codes in the Graph API, and its input."""
    choose = random.Random(seed)
    rank, groups = choose.choice([1, 2, 2, 3]), choose.choice([1, 1, 1, 2, 3])
    channels, filters = groups * choose.choice([1, 3, 5, 8, 17]), groups * choose.choice([1, 2, 7, 16, 35])
    kernel = [choose.randint(1, 3) for _ in range(rank)]
    dtype = choose.choice(["int8", "uint8"])
    limits = np.iinfo(CODES[dtype])
    zero = CODES[dtype](choose.choice([limits.min, limits.max, 1, 77]))
    rng = np.random.default_rng(seed)
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n", *[choose.randint(5, 9) for _ in range(rank)], channels), "x")])
    weights = graph.constant(rng.integers(-128, 128, (*kernel, channels // groups, filters)).astype(np.int8))
    scales = (2.0 ** rng.integers(-3, 4, filters)).astype(F)
    factors = jn.dequantize(weights, scales, np.zeros(filters, np.int8), axis=rank + 1)
    result = jn.conv(
        jn.dequantize(graph.inputs[0], F(0.25), zero), factors,
        stride=[choose.randint(1, 3) for _ in range(rank)], dilation=[choose.randint(1, 2) for _ in range(rank)],
        padding=[(choose.randint(0, 2), choose.randint(0, 2)) for _ in range(rank)], groups=groups,
        bias=graph.constant(rng.integers(-50, 50, filters).astype(F)),
    )  # fmt: skip
    graph.output(result, jn.quantize(result, F(0.5), dtype="int8"))
    shape = (choose.choice([1, 2]), *[int(extent) for extent in graph.inputs[0].shape[1:]])
    return graph, rng.integers(limits.min, limits.max + 1, shape).astype(CODES[dtype])


@pytest.mark.one_in(16)
@pytest.mark.parametrize("seed", range(48))
@both_tiers
def test_convolutions_of_codes_have_the_bits_of_the_evaluator(seed: int, in_full: bool) -> None:
    """Scales are powers of two and sums short: floats are exact, and so integers give the same bits."""
    if not in_full and seed % 2:
        pytest.skip("one of two in the fast tier")
    graph, x = _convolution(seed)
    _agrees(graph, x)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", CODES)
def test_products_in_int32_with_a_zero_point_known_at_run_time(dtype: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n", 9, 9, 5), "x"), jn.TensorType(dtype, (1,), "z")])
    x, zero = graph.inputs
    kernel = graph.constant(RNG.integers(-128, 128, (3, 3, 5, 6)).astype(np.int32))
    graph.output(jn.conv(x.cast("int32") - zero.cast("int32").reshape(()), kernel, padding=2, stride=2))
    assert _products(graph) == ["int8"]
    for value in (np.iinfo(CODES[dtype]).min, np.iinfo(CODES[dtype]).max, 9):
        _agrees(graph, _codes(dtype, (2, 9, 9, 5)), np.array([value], CODES[dtype]))
        _agrees(graph, _codes(dtype, (2, 9, 9, 5)), np.array([value], CODES[dtype]), numerics="reproducible")


def test_int32_that_does_not_fit_stays() -> None:
    graph = jn.Graph("g", [jn.TensorType("int8", (4, 8), "x")])
    graph.output(graph.inputs[0].cast("int32") @ graph.constant(np.full((8, 4), 128, np.int32)))
    assert _products(graph) == ["int32"]


def test_a_graph_with_a_loop_is_left_alone() -> None:
    graph = jn.Graph("g", [jn.TensorType("int8", (4, 4), "x")])
    w = graph.constant(_codes("int8", (4, 4)).astype(np.int32))
    graph.output(jn.fori_loop(0, 2, lambda _, h: h @ w, graph.inputs[0].cast("int32")))
    assert with_integer_products(graph) is graph


def test_a_quantised_network_differs_by_less_than_its_sums_may() -> None:
    """Scales that are no powers of two: both forms are within the bound of the sum of exact products."""
    rng = np.random.default_rng(5)
    graph = jn.Graph("g", [jn.TensorType(jn.uint8, (50, 700), "x")])
    weights, scales = _codes("int8", (700, 33)), (rng.random(33) / 70).astype(F)
    w = jn.dequantize(graph.constant(weights), scales, np.zeros(33, np.int8), axis=1)
    graph.output(jn.dequantize(graph.inputs[0], F(0.0371), np.uint8(113)) @ w)
    x = _codes("uint8", (50, 700))
    real = (x.astype(np.int64) - 113).astype(np.float64) * float(F(0.0371))
    factors = weights.astype(np.float64) * scales.astype(np.float64)
    found = jn.compile(graph, "cpu", cache=False)(x)
    assert (np.abs(found - real @ factors) <= 4 * 2.0**-24 * np.abs(real @ factors) + 1e-30).all()
    bound = (700 + 4) * 2.0**-24 * (np.abs(real) @ np.abs(factors))
    assert (np.abs(found.astype(np.float64) - jn.evaluate(graph, x)) <= bound).all()


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", range(12))
def test_views_of_codes_and_batches(seed: int) -> None:
    """Codes that are permuted, cut and flipped before and after they become numbers; batches on either side."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    batch, rows = choose.randint(1, 3), choose.randint(1, 9)
    depth, columns = choose.choice([4, 7, 32]), choose.choice([1, 5, 40, 65])
    graph = jn.Graph("g", [jn.TensorType("uint8", (batch, depth + 2, "rows"), "x")])
    codes = graph.inputs[0][:, 1:-1]
    codes = codes.permute((0, 2, 1)) if seed % 2 else codes
    number = jn.dequantize(codes, F(0.5), np.uint8(choose.choice([0, 9, 255])))
    number = number if seed % 2 else number.permute((0, 2, 1))
    number = jn.flip(number, axis=2) if seed % 3 == 0 else number
    number = jn.pad(number, [(0, 0), (1, 0), (0, 0)]) if seed % 4 < 2 else number
    shape = (batch, columns, depth) if seed % 5 == 0 else (columns, depth)
    weights = graph.constant(rng.integers(-128, 128, shape).astype(np.int8))
    scales = (2.0 ** rng.integers(-3, 4, columns)).astype(F)
    factors = jn.dequantize(weights, scales, np.zeros(columns, np.int8), axis=len(shape) - 2)
    graph.output(number @ factors.permute((*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)))
    assert _products(graph) == ["int8"]
    _agrees(graph, rng.integers(0, 256, (batch, depth + 2, rows)).astype(np.uint8))
