"""Products with few columns as sums of products, and what is stored side by side and reduced along rows, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.whole_lines import WholeLines

Make = Callable[..., jn.Symbol]


def run(shapes: list[tuple[Any, ...]], make: Make, arrays: list[np.ndarray], numerics: str = "strict") -> np.ndarray:
    graph = jn.Graph("g")
    kinds = {np.dtype(np.float32): jn.float32, np.dtype(np.float64): jn.float64}
    named = enumerate(zip(shapes, arrays, strict=True))
    graph.output(make(*[graph.input(kinds[array.dtype], shape, name=f"x{i}") for i, (shape, array) in named]))
    return np.asarray(jn.compile(graph, device="cpu", numerics=numerics)(*arrays))


def arrays(shapes: list[tuple[int, ...]], dtype: Any = np.float32) -> list[np.ndarray]:
    rng = np.random.default_rng(sum(map(len, shapes)))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


@pytest.mark.one_in(14)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("steps", "columns"), [(1, 3), (2, 2), (3, 3), (4, 4), (3, 1), (4, 3), (3, 2)])
def test_products_of_rows_with_a_small_matrix(steps: int, columns: int, dtype: Any) -> None:
    for rows in ((16,), (17,), (1000,), (3, 33), (2, 5, 16)):
        shapes = [(*rows, steps), (steps, columns)]
        x, matrix = arrays(shapes, dtype)
        found = run(shapes, lambda x, m: x @ m, [x, matrix])
        assert np.allclose(found, x @ matrix, rtol=1e-5, atol=1e-5)


def test_they_become_sums_only_where_programs_store_columns_together() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (100, 3), "x"), jn.TensorType(jn.float32, (3, 3), "m")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    assert [s.op.name for s in expand(graph).symbols].count("matmul") == 1
    assert [s.op.name for s in expand(graph, WholeLines(1, True, True)).symbols].count("matmul") == 0


@pytest.mark.parametrize(
    "shapes",
    [[(15, 3), (3, 3)], [(100, 5), (5, 3)], [(100, 3), (3, 5)], [(2, 100, 3), (2, 3, 3)], [(3,), (3, 3)]],
)
def test_other_products_stay(shapes: list[tuple[int, ...]]) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    assert [s.op.name for s in expand(graph, WholeLines(1, True, True)).symbols].count("matmul") == 1


SHORT = WholeLines(1, True, True, True)
SMALL = [
    ((3, 3), (3, 3)), ((4, 4), (4, 4)), ((2, 2), (2, 2)), ((3, 3), (3, 1)), ((1, 3), (3, 3)), ((4, 2), (2, 3)),
    ((3, 5), (5, 4)), ((5, 1), (1, 2)), ((1, 2), (2, 8)), ((8, 4), (4, 2)), ((5, 5), (5, 5)), ((8, 8), (8, 8)),
    ((7, 7), (7, 7)),
    ((3, 2), (2, 20)), ((6, 3), (3, 6)), ((8, 2), (2, 1)), ((3, 6), (6, 1)), ((4, 4), (4, 1)), ((8, 8), (8, 1)),
    ((16, 4), (4, 4)),
]  # fmt: skip


@pytest.mark.one_in(20)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("left", "right"), SMALL)
def test_products_of_many_small_matrices(left: tuple[int, int], right: tuple[int, int], dtype: Any) -> None:
    """Of known numbers of them, and of one that is known at launch."""
    for around in ((16,), (17,), (1003,), (3, 33)):
        shapes = [(*around, *left), (*around, *right)]
        a, b = arrays(shapes, dtype)
        for given in (shapes, [("n", *shape[1:]) for shape in shapes]):
            found = run(given, lambda a, b: jn.relu(a @ b + 1.0), [a, b])
            np.testing.assert_allclose(found, np.maximum(a @ b + 1, 0), rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("steps", "columns"), [(5, 3), (3, 5), (6, 6), (8, 7), (8, 3), (1, 15), (7, 12)])
def test_products_of_short_rows(steps: int, columns: int, dtype: Any) -> None:
    for rows in ((16,), (1000,), (3, 33)):
        shapes = [(*rows, steps), (steps, columns)]
        x, matrix = arrays(shapes, dtype)
        found = run(shapes, lambda x, m: jn.tanh(x @ m), [x, matrix])
        np.testing.assert_allclose(found, np.tanh(x @ matrix), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "is_product"),
    [
        ([(100, 3), (3, 3)], False), ([(100, 8), (8, 8)], False), ([(20, 4, 4), (20, 4, 4)], False),
        ([(20, 3, 3), (20, 3, 1)], False), ([(100, 9), (9, 8)], True), ([(100, 8), (8, 2)], True),
        ([(100, 4), (4, 16)], True), ([(15, 8), (8, 8)], True), ([(20, 5, 4), (20, 4, 4)], False),
        ([(20, 8, 8), (20, 8, 8)], False), ([(20, 9, 8), (20, 8, 8)], True), ([(20, 4, 4), (20, 4, 16)], True),
        ([(20, 4, 4), (20, 4, 1)], True), ([(20, 4, 3), (20, 3, 1)], False), ([(20, 3, 7), (20, 7, 1)], True),
        ([(15, 4, 4), (15, 4, 4)], True), ([(20, 4, 4), (1, 4, 4)], True), ([(4, 4), (4, 4)], True),
    ],
)  # fmt: skip
def test_which_products_are_sums_of_short_rows(shapes: list[tuple[int, ...]], is_product: bool) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    assert [s.op.name for s in expand(graph, SHORT).symbols].count("matmul") == int(is_product)


FEW_STEPS = [
    ((3, 3), (3, 3)), ((4, 4), (4, 1)), ((1, 5), (5, 6)), ((6, 6), (6, 6)), ((2, 1), (1, 3)), ((17, 3), (3, 40)),
    ((3, 2), (2, 70)),
]  # fmt: skip


@pytest.mark.one_in(14)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("left", "right"), FEW_STEPS)
def test_many_products_of_few_steps(left: tuple[int, int], right: tuple[int, int], dtype: Any) -> None:
    """Of operands in memory and of computed ones, of known numbers of matrices and of one that is known at launch."""
    for around in ((16,), (301,), (3, 33)):
        shapes = [(*around, *left), (*around, *right)]
        a, b = arrays(shapes, dtype)
        for given in (shapes, [("n", *shape[1:]) for shape in shapes]):
            found = run(given, lambda a, b: jn.exp(a) @ jn.tanh(b) - 1.0, [a, b])
            np.testing.assert_allclose(found, np.exp(a) @ np.tanh(b) - 1, rtol=1e-5, atol=1e-5)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
@pytest.mark.parametrize(("rows", "steps", "columns"), [(40, 3, 60), (1000, 6, 17), (16, 1, 64), (5, 4, 1000), (513, 5, 9)])
def test_one_product_of_few_steps(rows: int, steps: int, columns: int, numerics: str) -> None:
    shapes = [(rows, steps), (steps, columns)]
    a, b = arrays(shapes)
    expected = np.maximum(a.astype(np.float64) @ b - 0.5, 0)
    for given in (shapes, [("n", steps), (steps, columns)]):
        found = run(given, lambda a, b: jn.relu(a @ b - 0.5), [a, b], numerics)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "is_product"),
    [
        ([(100, 6), (6, 20)], False), ([(100, 7), (7, 20)], True), ([(20, 6, 6), (20, 6, 1)], False),
        ([(20, 7, 7), (20, 7, 7)], True), ([(15, 3, 3), (15, 3, 3)], True), ([(2, 16, 3, 3), (2, 16, 3, 3)], False),
        ([(20, 4, 4), (1, 4, 4)], True), ([(20, 6), (6, 20)], True), ([(100, 6), (6, 1)], True), ([(6, 6), (6, 3000)], True),
    ],
)  # fmt: skip
def test_which_products_are_sums_of_few_steps(shapes: list[tuple[int, ...]], is_product: bool) -> None:
    """Where rows of few elements are computed one by one."""
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    found = expand(graph, WholeLines(1, True, True))
    assert [s.op.name for s in found.symbols].count("matmul") == int(is_product)


def test_infinities_nan_and_zeros_of_both_signs_are_those_of_chains() -> None:
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -2.0, 1e-45], np.float32)
    rng = np.random.default_rng(0)
    x, matrix = rng.choice(special, (500, 3)), rng.choice(special, (3, 3))
    for m in (matrix, np.where(np.isfinite(matrix), matrix, np.float32(-1)), np.float32(-1) * np.eye(3, dtype=np.float32)):
        both = ("strict", "reproducible")
        found, chains = (run([(500, 3), (3, 3)], lambda x, m: x @ m, [x, m], numerics) for numerics in both)
        assert np.array_equal(found, chains, equal_nan=True)
        known = ~np.isnan(found)
        assert np.array_equal(np.signbit(found)[known], np.signbit(chains)[known])


def test_steps_of_which_one_side_is_known_at_launch() -> None:
    x, matrix = arrays([(100, 6), (6, 5)])
    found = run([("n", "k"), (6, 5)], lambda x, m: x @ m, [x, matrix])
    assert np.allclose(found, x @ matrix, atol=1e-5)
    with pytest.raises(jn.UserError):
        run([("n", "k"), (6, 5)], lambda x, m: x @ m, [x[:, :5], matrix])


@pytest.mark.parametrize("rows", [1, 15, 16, 40, 1001])
def test_sizes_that_runs_decide(rows: int) -> None:
    x, matrix, bias = arrays([(rows, 3), (3, 3), (3,)])
    found = run([("n", 3), (3, 3), (3,)], lambda x, m, b: jn.relu(x @ m + b), [x, matrix, bias])
    assert np.allclose(found, np.maximum(x @ matrix + bias, 0), atol=1e-5)


CONSUMERS: dict[str, tuple[Make, Callable[[np.ndarray], np.ndarray]]] = {
    "sum of rows": (lambda y: jn.sum(y * y, axis=1), lambda y: (y * y).sum(1)),
    "sum of columns": (lambda y: jn.sum(y, axis=0), lambda y: y.sum(0)),
    "softmax": (lambda y: jn.softmax(y, axis=-1), lambda y: np.exp(y) / np.exp(y).sum(1, keepdims=True)),
    "two": (lambda y: jn.max(y, axis=0) + jn.mean(y, axis=0), lambda y: y.max(0) + y.mean(0)),
    "permute": (lambda y: jn.permute(y, (1, 0)), lambda y: y.T),
    "column": (lambda y: y[:, 1], lambda y: y[:, 1]),
    "flip": (lambda y: jn.flip(y, 0), lambda y: y[::-1]),
    "product": (lambda y: jn.permute(y, (1, 0)) @ y, lambda y: y.T @ y),
    "reshape": (lambda y: jn.reshape(y, (50, -1)), lambda y: y.reshape(50, -1)),
    "columns": (lambda y: y[:, 1:], lambda y: y[:, 1:]),
    "pad": (lambda y: jn.pad(jn.tanh(y), ((0, 0), (1, 2))), lambda y: np.pad(np.tanh(y), ((0, 0), (1, 2)))),
    "running": (lambda y: jn.cumsum(y, axis=0), lambda y: y.cumsum(0)),
    "picked": (lambda y: jn.gather(y, jn.arange(y, 999, 0, -3)), lambda y: y[999:0:-3]),
    "pairs": (lambda y: y[:, None] + y[None, :8], lambda y: y[:, None] + y[None, :8]),
    "again": (lambda y: jn.tanh(y) @ y[:3], lambda y: np.tanh(y) @ y[:3]),
    "concat": (lambda y: jn.concat([y, y * 2.0], axis=1), lambda y: np.concatenate([y, y * 2], 1)),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", CONSUMERS)
def test_what_reads_them(name: str) -> None:
    ours, theirs = CONSUMERS[name]
    x, matrix = arrays([(1000, 3), (3, 3)])
    found = run([(1000, 3), (3, 3)], lambda x, m: ours(x @ m), [x, matrix])
    assert np.allclose(found, theirs(x @ matrix), rtol=1e-4, atol=1e-3)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("make", "kernels"),
    [
        (lambda y, m: y, 1),
        (lambda y, m: jn.tanh(y) * 2.0, 1),
        (lambda y, m: y @ m, 2),
        (lambda y, m: jn.tanh(y @ m) @ m, 3),
        (lambda y, m: jn.softmax(y, axis=-1), 2),
        (lambda y, m: jn.pad(y, ((0, 0), (0, 4))), 2),
        (lambda y, m: jn.cumsum(y, axis=0), 2),
    ],
)
def test_other_readers_find_them_in_memory(make: Make, kernels: int) -> None:
    """A lane of another one would compute all columns, and choose."""
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (1000, 3), "x"), jn.TensorType(jn.float32, (3, 3), "m")])
    graph.output(make(graph.inputs[0] @ graph.inputs[1], graph.inputs[1]))
    assert len(jn.compile(graph, device="cpu").kernels) == kernels


@pytest.mark.one_in(6)
@pytest.mark.parametrize("parts", [2, 3, 4, 5])
@pytest.mark.parametrize("rows", [3, 16, 37, 1000])
def test_computed_parts_side_by_side(rows: int, parts: int) -> None:
    (x,) = arrays([(rows, 6)])
    found = run([(rows, 6)], lambda x: jn.stack([jn.exp(x[:, i]) * float(i + 1) for i in range(parts)], axis=-1), [x])
    assert np.allclose(found, np.stack([np.exp(x[:, i]) * (i + 1) for i in range(parts)], -1), rtol=1e-5)


REDUCTIONS: dict[str, tuple[Make, Callable[..., np.ndarray]]] = {
    "sum": (lambda x: jn.sum(x, axis=-1), lambda x: x.sum(-1)),
    "prod": (lambda x: jn.prod(x, axis=-1), lambda x: x.prod(-1)),
    "max": (lambda x: jn.max(x, axis=-1), lambda x: x.max(-1)),
    "min": (lambda x: jn.min(jn.exp(x), axis=-1), lambda x: np.exp(x).min(-1)),
    "span": (lambda x: jn.max(x, axis=-1) - jn.min(x, axis=-1), lambda x: x.max(-1) - x.min(-1)),
    "scaled": (lambda x: x / jn.sum(x * x, axis=-1, keepdims=True), lambda x: x / (x * x).sum(-1, keepdims=True)),
}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_rows_of_few_elements_are_reduced(size: int, name: str) -> None:
    ours, theirs = REDUCTIONS[name]
    for shape in ((1, size), (15, size), (16, size), (300, size), (4, 21, size)):
        (x,) = arrays([shape])
        if size > 1:
            x.reshape(-1)[:: 7 * size] = np.nan
        found = run([shape], ours, [x])
        assert np.allclose(found, theirs(x), rtol=1e-5, atol=1e-6, equal_nan=True), shape


def test_zeros_of_both_signs_are_added_as_ever() -> None:
    x = np.where(np.random.default_rng(0).random((100, 3)) < 0.5, 0.0, -0.0).astype(np.float32)
    found = run([(100, 3)], lambda x: jn.sum(x, axis=1), [x])
    assert np.array_equal(np.signbit(found), np.signbit(x.sum(1)))
