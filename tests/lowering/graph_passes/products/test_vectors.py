"""Products with vectors, in every order of the matrix, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

PRODUCTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "matrix, column": lambda w, right, _: w @ right,
    "row, matrix": lambda w, _, left: left @ w,
    "transposed matrix, column": lambda w, _, left: w.T @ left,
    "row, transposed matrix": lambda w, right, _: right @ w.T,
    "computed": lambda w, right, left: (left * 2.0) @ (w + 1.0) + 3.0 * left @ w,
}
SHAPES = [
    (1, 1), (3, 5), (17, 4097), (40, 5000), (64, 8192), (9, 33000), (300, 129), (129, 300), (512, 512), (600, 700), (1000, 64),
    (257, 2048), (2048, 300),
]  # fmt: skip
TARGETS = [None, "x86-64-v3"]


def compiled(make: Callable[..., Any], shapes: list[Any], dtype: str = "float32", **options: Any) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    return jn.compile(graph, device="cpu", **options)


def arrays(shapes: list[Any], dtype: str) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(len, shapes)))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.one_in(12)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_with_vectors(shape: tuple[int, int], name: str, dtype: str, target: str | None) -> None:
    shapes: list[Any] = [shape, shape[1:], shape[:1]]
    given, make = arrays(shapes, dtype), PRODUCTS[name]
    bound = (1e-5 if dtype == "float32" else 1e-13) * 4 * np.sqrt(max(shape))
    expected = make(*[each.astype(np.float64) for each in given])
    for dims in (shapes, [("m", "n"), ("n",), ("m",)]):
        for threads in (1, 2):
            found = compiled(make, dims, dtype, target=target, threads=threads)(*given)
            assert found.shape == expected.shape
            np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * 4)


@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_infinities_and_nan_reach_their_results(name: str, numerics: str) -> None:
    shapes: list[Any] = [(70, 4100), (4100,), (70,)]
    given = arrays(shapes, "float32")
    given[0][3, 4099], given[0][69, 0], given[0][68, 17] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = PRODUCTS[name](*[each.astype(np.float64) for each in given])
    found = compiled(PRODUCTS[name], shapes, numerics=numerics)(*given)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(found[np.isinf(expected)], expected[np.isinf(expected)])


INNER: list[tuple[tuple[Any, ...], tuple[Any, ...]]] = [
    ((1, 1000), (1000, 1)), ((1, 262_147), (262_147, 1)), ((1, 1), (1, 1)), ((50, 1, 3), (50, 3, 1)),
    ((7, 1, 300), (7, 300, 1)),
    ((2, 3, 1, 9), (2, 3, 9, 1)), ((5, 1, 8), (1, 8, 1)), ((0, 1, 8), (0, 8, 1)), ((4, 1, 0), (4, 0, 1)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32"])
@pytest.mark.parametrize(("left", "right"), INNER)
def test_rows_with_columns(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    a, b = (each * (3 if dtype == "int32" else 1) for each in arrays([left, right], "float64"))
    a, b = a.astype(dtype), b.astype(dtype)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    bound = {"float16": 2e-3, "float32": 1e-6}.get(dtype, 1e-12) * np.sqrt(left[-1] + 1) * 4
    sizes = [tuple("n" if axis == 0 and len(shape) > 2 and extent > 1 else extent for axis, extent in enumerate(shape))
             for shape in (left, right)]  # fmt: skip
    for dims in ([left, right], sizes):
        found = compiled(lambda a, b: a @ b, dims, dtype)(a, b)
        assert found.dtype == a.dtype
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)


def test_which_products_have_another_form() -> None:
    lines = WholeLines(1, True, True, True)
    for shapes, make, products in [
        ([(1, 50), (50, 1)], lambda a, b: a @ b, 0),
        ([(1, 50), (50, 2)], lambda a, b: a @ b, 1),
        ([(20, 1, 50), (20, 50, 1)], lambda a, b: a @ b, 0),
        ([(50,), (50,)], lambda a, b: jn.dot(a, b), 0),
    ]:
        graph = jn.Graph("g", [jn.TensorType("float32", shape, f"x{number}") for number, shape in enumerate(shapes)])
        graph.output(make(*graph.inputs))
        assert sum(symbol.op.name == "matmul" for symbol in expand(graph, lines).symbols) == products
        assert sum(symbol.op.name == "matmul" for symbol in expand(graph).symbols) == 1  # programs of other targets
