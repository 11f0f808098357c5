"""Products with constant codes decode them: every weight is the graph's to the bit, whatever blocks, zero points and sizes."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest
from joinery.lowering.graph_passes.coded_weights import with_coded_weights

from ...support.tiers import both_tiers

F = np.float32
LIMITS = {"uint2": (0, 3), "int2": (-2, 1), "uint4": (0, 15), "int4": (-8, 7), "uint8": (0, 255), "int8": (-128, 127)}
STORED = {name: getattr(ml_dtypes, name, None) or np.dtype(name).type for name in LIMITS}


def _codes(rng: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    low, high = LIMITS[dtype]
    return rng.integers(low, high + 1, shape).astype(np.int16).astype(STORED[dtype])


def _weights(graph: Any, rng: Any, dtype: str, depth: int, columns: int, block: int, zero: str, spread: float) -> Any:
    """Weights (K, N) of codes (N, K) in blocks along K; every scale is another one."""
    codes = _codes(rng, dtype, (columns, depth))
    count = -(-depth // block)
    scale = ((rng.random((columns, count)) + 0.5) * spread).astype(F)
    points = {
        "none": None,
        "one": np.full((columns, count), _codes(rng, dtype, ()), STORED[dtype]),
        "each": _codes(rng, dtype, (columns, count)),
    }[zero]
    return jn.dequantize(graph.constant(codes), scale, points, axis=1, block_size=block).transpose()


def _read_back(build: Any, depth: int) -> tuple[Any, Any, Any]:
    """A graph of x @ weights, and what it makes of the identity: the weights themselves, since sums of one number are exact."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", depth), "x")])
    weights = build(graph)
    graph.output(graph.inputs[0] @ weights)
    alone = jn.Graph("w", [])
    alone.output(build(alone))
    return graph, jn.compile(graph, "cpu", cache=False)(np.eye(depth, dtype=F)), jn.evaluate(alone)


def _is_decoded(graph: Any) -> bool:
    """Whether the product reads packed codes: it has no larger constant of floats, and one kernel does all."""
    if with_coded_weights(graph) is graph:
        return False
    kernels = jn.compile(graph, "cpu", cache=False).kernels
    assert len(kernels) == 1
    return True


def _has_all(found: Any, expected: Any) -> None:
    """Equal bits, but for the sign of zero: 0 · w is added."""
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("zero", ["none", "one", "each"])
@pytest.mark.parametrize("dtype", LIMITS)
def test_every_weight_is_the_graphs(dtype: str, zero: str) -> None:
    rng = np.random.default_rng(3)
    graph, found, expected = _read_back(lambda g: _weights(g, rng_again(), dtype, 192, 96, 32, zero, 0.01), 192)
    assert _is_decoded(graph)
    _has_all(found, expected)
    x = rng.standard_normal((5, 192)).astype(F)
    np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(x), x @ expected, rtol=1e-5, atol=1e-5)


def rng_again() -> Any:
    return np.random.default_rng(5)


@pytest.mark.slow
@both_tiers
def test_any_sizes_and_blocks(in_full: bool) -> None:
    count = 300 if in_full else 30
    pick = random.Random(count)
    decoded = 0
    for number in range(count):
        dtype, zero = pick.choice(list(LIMITS)), pick.choice(["none", "one", "each"])
        block = pick.choice([8, 16, 17, 24, 32, 48, 64, 96, 100, 128, 300])
        depth = pick.choice([block, 2 * block, 3 * block, 5 * block, 4 * block, 4 * block + 5])
        columns = pick.choice([16, 17, 63, 64, 65, 100, 128, 200])
        spread = pick.choice([1.0, 2.0**-60, 2.0**100, 0.1])

        def build(graph: Any, seed: int = number, of: tuple[Any, ...] = (dtype, depth, columns, block, zero, spread)) -> Any:
            return _weights(graph, np.random.default_rng(seed), *of)

        graph, found, expected = _read_back(build, depth)
        decoded += with_coded_weights(graph) is not graph
        _has_all(found, expected)
    assert decoded > count // 3


@pytest.mark.one_in(8)
@pytest.mark.parametrize("shape", [(64,), (1, 64), (7, 64), (2, 3, 64), (0, 64), (2, 0, 64)])
def test_operands_of_any_rank(shape: tuple[int, ...]) -> None:
    """The product has the shape that the graph states, also without rows; symbolic sizes too."""
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, shape).astype(F)
    for sizes in (shape, (*[f"d{axis}" for axis in range(len(shape) - 1)], 64)):
        graph = jn.Graph("g", [jn.TensorType(jn.float32, sizes, "x")])
        graph.output(graph.inputs[0] @ _weights(graph, rng_again(), "uint4", 64, 96, 32, "each", 1.0) + F(1))
        assert with_coded_weights(graph) is not graph
        found = jn.compile(graph, "cpu", cache=False)(x)
        expected = jn.evaluate(graph, x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_are_rounded_as_the_graph_rounds_them(dtype: str) -> None:
    def build(graph: Any) -> Any:
        return jn.cast(_weights(graph, rng_again(), "uint4", 128, 64, 32, "each", 0.01), dtype)

    graph = jn.Graph("g", [jn.TensorType(getattr(jn, dtype), ("n", 128), "x")])
    graph.output(graph.inputs[0] @ build(graph))
    assert with_coded_weights(graph) is not graph
    alone = jn.Graph("w", [])
    alone.output(build(alone))
    found = jn.compile(graph, "cpu", cache=False)(np.eye(128).astype(graph.inputs[0].dtype.numpy))
    np.testing.assert_array_equal(found.astype(F), jn.evaluate(alone).astype(F))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("columns", [48, 64, 100, 130])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_weights_in_16_bits_are_in_panels(dtype: str, columns: int) -> None:
    """They are read as float32, from either order in memory, and rounded again where the graph says so."""
    w = np.random.default_rng(1).standard_normal((columns, 96)).astype(getattr(jn, dtype).numpy)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (96, 96), "x")])
    x = graph.inputs[0]
    weights = graph.constant(w).cast(jn.float32).transpose()
    other = jn.bfloat16 if dtype == "float16" else jn.float16
    graph.output(x @ weights, x.cast(other) @ weights.cast(other))
    assert with_coded_weights(graph) is not graph
    eye = np.eye(96, dtype=F)
    whole, rounded = jn.compile(graph, "cpu", cache=False)(eye)
    np.testing.assert_array_equal(whole, w.astype(F).T)
    np.testing.assert_array_equal(rounded.astype(F), w.astype(F).T.astype(other.numpy).astype(F))


@pytest.mark.one_in(8)
@pytest.mark.parametrize("scale", [np.nan, np.inf, 0.0, 2.0**-149, 2.0**-126, 3 * 2.0**-148, 3e38])
def test_scales_at_the_ends_of_their_range(scale: float) -> None:
    """A scale that a power of two would round is not moved; infinities, NaN and zeros are what they are."""

    def build(graph: Any) -> Any:
        scales = np.ones((64, 2), F)
        scales[3, 1] = scale
        codes = _codes(rng_again(), "int4", (64, 64))
        return jn.dequantize(graph.constant(codes), scales, axis=1, block_size=32).transpose()

    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 64), "x")])
    graph.output(graph.inputs[0] @ build(graph))
    alone = jn.Graph("w", [])
    alone.output(build(alone))
    weights = jn.evaluate(alone)
    for row in (0, 31, 32, 40, 63):
        x = np.zeros((1, 64), F)
        x[0, row] = 1
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(jn.compile(graph, "cpu", cache=False)(x), x @ weights)


def test_columns_that_are_read_backwards() -> None:
    """A slice that ends before the first column."""

    def build(graph: Any) -> Any:
        weights = _weights(graph, rng_again(), "uint4", 64, 64, 32, "each", 0.1)
        return graph.apply("slice", (weights,), {"starts": (0, 63), "stops": (64, -1), "steps": (1, -1)})

    graph, found, expected = _read_back(build, 64)
    assert _is_decoded(graph)
    _has_all(found, expected)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("zero", [3e37, -3e38, 1e-40, 0.3])
def test_zero_points_that_are_floats(zero: float) -> None:
    """They are moved with their field where that is exact, and else the matrix stays as it is."""

    def build(graph: Any) -> Any:
        codes = graph.constant(_codes(rng_again(), "uint4", (128, 64))).cast(jn.float32)
        points = np.full((4, 1, 64), 8, F)
        points[2, 0, 5] = zero
        numbers = (codes.reshape((4, 32, 64)) - points) * graph.constant(np.full((4, 1, 64), 0.25, F))
        return numbers.reshape((128, 64))

    _, found, expected = _read_back(build, 128)
    _has_all(found, expected)


def test_offsets_and_blocks_of_files() -> None:
    """`jn.BlockQuantized`: values · scale + offset, as language models are stored."""
    rng = np.random.default_rng(2)
    stored = jn.BlockQuantized(
        rng.integers(0, 16, (96, 128)).astype(ml_dtypes.uint4), rng.random((96, 4)).astype(np.float16),
        rng.standard_normal((96, 4)).astype(np.float16),
    )  # fmt: skip
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 128), "x")])
    graph.output(graph.inputs[0] @ stored.symbol(graph, "w").transpose())
    assert _is_decoded(graph)
    _has_all(jn.compile(graph, "cpu", cache=False)(np.eye(128, dtype=F)), stored.dequantize().T)


def test_what_follows_is_part_of_the_kernel() -> None:
    """Bias, activation and residual sums join the product, where its columns fill panels."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 64), "x"), jn.TensorType(jn.float32, ("n", 128), "r")])
    x, residual = graph.inputs
    product = x @ _weights(graph, rng_again(), "uint4", 64, 128, 32, "one", 0.1)
    graph.output(jn.gelu(product + np.arange(128, dtype=F)) + residual)
    model = jn.compile(graph, "cpu", cache=False)
    assert len(model.kernels) == 1
    inputs = [np.random.default_rng(1).standard_normal((3, size)).astype(F) for size in (64, 128)]
    np.testing.assert_allclose(model(*inputs), jn.evaluate(graph, *inputs), rtol=1e-5, atol=1e-5)


def test_models_keep_the_codes_only(tmp_path: Any) -> None:
    """A saved model holds bytes of two codes, and gives the same bits where it is loaded."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 1024), "x")])
    graph.output(graph.inputs[0] @ _weights(graph, rng_again(), "uint4", 1024, 2048, 32, "none", 0.1))
    model = jn.compile(graph, "cpu", cache=False)
    path = tmp_path / "m.joinery"
    model.save(path)
    packed = 1024 * 2048 // 2 + 1024 * 64 * 4
    assert packed < path.stat().st_size < packed + (1 << 18)
    x = np.random.default_rng(1).standard_normal((1, 1024)).astype(F)
    np.testing.assert_array_equal(jn.load(path, trusted=True)(x), model(x))


def _plain(case: str) -> Any:
    """Graphs that the pass must leave alone."""
    rng = rng_again()
    if case == "codes that are an input":
        graph = jn.Graph("g", [jn.TensorType(jn.float32, (4, 64), "x"), jn.TensorType(jn.uint8, (64, 64), "q")])
        x, codes = graph.inputs
        graph.output(x @ jn.dequantize(codes, F(0.5)))
        return graph
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4, 64), "x")])
    x = graph.inputs[0]
    if case == "short blocks":
        graph.output(x @ _weights(graph, rng, "uint4", 64, 64, 8, "none", 1.0))
    elif case == "few columns":
        graph.output(x @ _weights(graph, rng, "uint8", 64, 8, 32, "none", 1.0))
    elif case == "floats":
        graph.output(x @ rng.standard_normal((64, 64)).astype(F))
    elif case == "functions of codes":
        graph.output(x @ jn.exp(_weights(graph, rng, "int4", 64, 64, 32, "none", 0.1)))
    else:
        graph.output(jn.matmul(x.reshape((4, 1, 64)), jn.dequantize(graph.constant(_codes(rng, "int8", (4, 64, 64))), F(0.5))))
    return graph


CASES = ["codes that are an input", "short blocks", "few columns", "floats", "functions of codes", "batches"]


@pytest.mark.parametrize("case", CASES)
def test_others_are_left_alone(case: str) -> None:
    graph = _plain(case)
    assert with_coded_weights(graph) is graph
    inputs = [np.ones(symbol.shape, symbol.dtype.numpy) for symbol in graph.inputs]
    np.testing.assert_allclose(jn.compile(graph, "cpu", cache=False)(*inputs), jn.evaluate(graph, *inputs), rtol=1e-4)


def test_reproducible_bits() -> None:
    """In reproducible numerics the product is one chain along K, as that of the floats is."""
    rng = np.random.default_rng(9)
    x = rng.standard_normal((3, 192)).astype(F)
    graph, _, weights = _read_back(lambda g: _weights(g, rng_again(), "uint4", 192, 96, 32, "each", 0.1), 192)
    plain = jn.Graph("p", [jn.TensorType(jn.float32, ("n", 192), "x")])
    plain.output(plain.inputs[0] @ weights)
    found, expected = (jn.compile(each, "cpu", cache=False, numerics="reproducible")(x) for each in (graph, plain))
    np.testing.assert_array_equal(found, expected)
