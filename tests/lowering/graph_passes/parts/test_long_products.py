"""Products with few results and long sums, which are computed in parts, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

Make = Callable[..., Any]
LINES = WholeLines(1, True, True)


def graph_of(shapes: list[tuple[Any, ...]], make: Make, dtype: jn.DType = jn.float32) -> jn.Graph:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    return graph


def product(a: jn.Symbol, b: jn.Symbol) -> jn.Symbol:
    return a @ b


def shapes_of_products(graph: jn.Graph, lines: WholeLines = LINES) -> list[tuple[Any, ...]]:
    return [s.inputs[0].shape for s in expand(graph, lines).symbols if s.op.name == "matmul"]


def arrays(shapes: list[tuple[int, ...]], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("rows", "steps", "columns"),
    [
        (16, 20000, 16), (64, 5000, 64), (64, 5003, 64), (17, 9973, 33), (1, 20011, 768), (3, 65537, 1), (2, 131075, 1),
        (100, 7001, 100),
    ],
)  # fmt: skip
def test_sums_in_parts_are_those_of_numpy(rows: int, steps: int, columns: int, dtype: str) -> None:
    shapes = [(rows, steps), (steps, columns)]
    graph = graph_of(shapes, product, getattr(jn, dtype))
    assert len(shapes_of_products(graph)[0]) == 3
    a, b = arrays(shapes, dtype)
    wanted = a.astype(np.longdouble) @ b.astype(np.longdouble)
    bound = (steps + 4) * np.finfo(dtype).eps * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    assert (np.abs(jn.compile(graph, device="cpu")(a, b) - wanted) <= bound).all()


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        ([(512, 4096), (4096, 512)], "many results"),
        ([(16, 1000), (1000, 64)], "short sums"),
        ([(8, 1024), (1024, 16)], "little work"),
        ([(1, 4096), (4096, 16384)], "a long row"),
        ([(3, 16, 20000), (3, 20000, 16)], "several products"),
        ([("n", 20000), (20000, 16)], "rows that runs decide"),
        ([(16, "n"), ("n", 16)], "steps that runs decide"),
    ],
)
def test_others_stay_whole(shapes: list[tuple[Any, ...]], why: str) -> None:
    (shape,) = shapes_of_products(graph_of(shapes, product))
    assert tuple(map(str, shape)) == tuple(map(str, shapes[0])), why


def test_products_that_are_chains_or_of_constants_stay_whole() -> None:
    shapes = [(16, 20000), (20000, 16)]
    assert shapes_of_products(graph_of(shapes, product), WholeLines(1, False, False)) == [(16, 20000)]
    a, b = arrays(shapes)
    assert shapes_of_products(graph_of(shapes[:1], lambda a: a @ b)) == [(16, 20000)]
    assert shapes_of_products(graph_of(shapes[1:], lambda b: a @ b)) == [(16, 20000)]
    chains = jn.compile(graph_of(shapes, product), device="cpu", numerics="reproducible")(a, b)
    assert np.allclose(chains, a @ b, atol=1e-2)


def test_attention_of_few_heads_stays_one_kernel() -> None:
    def attention(q: jn.Symbol, k: jn.Symbol, v: jn.Symbol) -> jn.Symbol:
        return jn.softmax(q @ k.T * 0.125, axis=-1) @ v

    graph = graph_of([(64, 64), (4096, 64), (4096, 64)], attention)
    assert [kernel.template for kernel in jn.compile(graph, device="cpu").kernels] == ["attention"]
    # The same without a softmax is two products.
    graph = graph_of([(64, 64), (4096, 64), (4096, 64)], lambda q, k, v: jn.relu(q @ k.T) @ v)
    assert len(shapes_of_products(graph)[-1]) == 3


@pytest.mark.one_in(2)
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_do_not_depend_on_the_threads(threads: int) -> None:
    shapes = [(40, 30011), (30011, 24)]
    a, b = arrays(shapes)
    graph = graph_of(shapes, product)
    found = (jn.compile(graph, device="cpu", threads=count)(a, b) for count in (1, threads))
    assert np.array_equal(*found)


def test_what_is_computed_of_operands_and_results() -> None:
    def covariance(x: jn.Symbol) -> jn.Symbol:
        centered = x - jn.mean(x, axis=0)
        return jn.relu(centered.T @ centered / 4999.0) + 1.0

    (x,) = arrays([(5000, 40)])
    found = jn.compile(graph_of([(5000, 40)], covariance), device="cpu")(x)
    assert np.allclose(found, np.maximum(np.cov(x.T), 0) + 1, atol=1e-4)


def test_infinities_and_nan_reach_their_results_alone() -> None:
    a, b = arrays([(16, 20000), (20000, 16)])
    a[3, 17], a[5, 19999], b[4, 7] = np.inf, np.nan, -np.inf
    found = jn.compile(graph_of([a.shape, b.shape], product), device="cpu")(a, b)
    with np.errstate(invalid="ignore"):
        wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    assert np.array_equal(found[np.isinf(wanted)], wanted[np.isinf(wanted)])
    assert np.isfinite(found[np.isfinite(wanted)]).all()


def test_large_computed_operands_are_not_copied() -> None:
    def computed(a: jn.Symbol, b: jn.Symbol) -> jn.Symbol:
        return a @ jn.exp(b)

    assert len(shapes_of_products(graph_of([(1, 400009), (400009, 16)], computed))) == 1
    assert len(shapes_of_products(graph_of([(1, 400009), (400009, 16)], product))) == 2
    assert len(shapes_of_products(graph_of([(1, 400000), (400000, 16)], computed))[0]) == 3
