"""Products of a matrix with its own transpose, of which one side of the diagonal is computed, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Make = Callable[..., Any]
SIDES: dict[str, tuple[Make, Make]] = {
    "rows": (lambda x: x @ jn.permute(x, (*range(len(x.shape) - 2), -1, -2)), lambda x: x @ x.swapaxes(-1, -2)),
    "columns": (lambda x: jn.permute(x, (*range(len(x.shape) - 2), -1, -2)) @ x, lambda x: x.swapaxes(-1, -2) @ x),
}


def compiled(shapes: list[Any], make: Make, dtype: str = "float32", **options: Any) -> jn.Model:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    return jn.compile(graph, device="cpu", **options)


def halves(model: jn.Model) -> bool:
    return any("scf.if" in kernel.ttir for kernel in model.kernels)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(shape[0]).standard_normal(shape).astype(dtype)


@pytest.mark.one_in(48)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "steps"), [(128, 32), (129, 700), (200, 100), (300, 64), (513, 33), (640, 1100)])
@pytest.mark.parametrize("threads", [1, 3])
def test_both_sides_are_there(rows: int, steps: int, dtype: str, side: str, threads: int) -> None:
    ours, theirs = SIDES[side]
    x = numbers(*((rows, steps) if side == "rows" else (steps, rows)), dtype=dtype)
    model = compiled([x.shape], ours, dtype, threads=threads)
    found = model(x)
    np.testing.assert_allclose(found, theirs(x.astype(np.float64)), rtol=1e-4, atol=2e-3 if dtype == "float32" else 1e-10)
    assert halves(model)
    assert np.array_equal(found, found.T)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("rows", "steps"), [(17, 32), (31, 33), (48, 5003), (50, 700), (64, 2000), (100, 64), (127, 4001)])
def test_small_results_of_short_vectors(rows: int, steps: int, dtype: str, side: str) -> None:
    """Blocks of 16 rows and columns, also of parts of long sums."""
    ours, theirs = SIDES[side]
    x = numbers(*((rows, steps) if side == "rows" else (steps, rows)), dtype=dtype)
    model = compiled([x.shape], ours, dtype, target="x86-64-v3")
    found = model(x)
    np.testing.assert_allclose(found, theirs(x.astype(np.float64)), rtol=1e-4, atol=5e-3 if dtype == "float32" else 1e-9)
    assert halves(model)
    assert np.array_equal(found, found.T)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
def test_they_are_the_chains_of_the_whole_product(numerics: str) -> None:
    """Another matrix with the same numbers makes a product that is no square of one."""
    x = numbers(300, 257)
    half = compiled([x.shape], lambda x: x @ jn.permute(x, (1, 0)), numerics=numerics)
    whole = compiled([x.shape, x.shape], lambda x, y: x @ jn.permute(y, (1, 0)), numerics=numerics)
    assert halves(half)
    assert not halves(whole)
    assert np.array_equal(half(x), whole(x, x.copy()))


AFTERWARDS: dict[str, tuple[list[tuple[int, ...]], Make, Make]] = {
    "mean": ([], lambda p: p / 200.0, lambda p: p / 200),
    "a row": ([(260,)], lambda p, v: p + v, lambda p, v: p + v),
    "a column": ([(260, 1)], lambda p, v: jn.relu(p - v), lambda p, v: np.maximum(p - v, 0)),
    "another matrix": ([(260, 260)], lambda p, m: p * m, lambda p, m: p * m),
    "its transpose": ([(260, 260)], lambda p, m: p + jn.permute(m, (1, 0)), lambda p, m: p + m.T),
    "distances": (
        [(260,)],
        lambda p, s: jn.exp((s[:, None] + s[None, :] - 2.0 * p) * -0.01),
        lambda p, s: np.exp((s[:, None] + s[None, :] - 2 * p) * -0.01),
    ),
    "lower half": ([], jn.tril, np.tril),
    "two results": ([], lambda p: jn.concat([p, p * 2.0], 0), lambda p: np.concatenate([p, p * 2])),
}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", AFTERWARDS)
def test_what_is_computed_of_them(name: str) -> None:
    shapes, ours, theirs = AFTERWARDS[name]
    x, others = numbers(260, 90), [numbers(*shape) for shape in shapes]
    model = compiled([x.shape, *shapes], lambda x, *others: ours(x @ jn.permute(x, (1, 0)), *others))
    np.testing.assert_allclose(model(x, *others), theirs(x @ x.T, *others), rtol=1e-4, atol=1e-3)


@pytest.mark.slow
def test_batches_constants_and_steps_that_runs_decide() -> None:
    x = numbers(3, 200, 64)
    model = compiled([x.shape], SIDES["rows"][0])
    np.testing.assert_allclose(model(x), x @ x.swapaxes(1, 2), rtol=1e-4, atol=1e-3)
    weights = numbers(200, 150)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (200, 200), "y")])
    constant = graph.constant(weights)
    graph.output(graph.inputs[0] + constant @ jn.permute(constant, (1, 0)))
    y = numbers(200, 200)
    np.testing.assert_allclose(jn.compile(graph, device="cpu")(y), y + weights @ weights.T, rtol=1e-4, atol=1e-3)
    model = compiled([(150, "k")], SIDES["rows"][0])
    assert halves(model)
    for steps in (0, 1, 31, 500):
        x = numbers(150, steps)
        np.testing.assert_allclose(model(x), x @ x.T, rtol=1e-4, atol=1e-3)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("shapes", "make"),
    [
        ([(200, 64), (200, 64)], lambda x, y: x @ jn.permute(y, (1, 0))),
        ([(200, 200)], lambda x: x @ x),
        ([(16, 64)], lambda x: x @ jn.permute(x, (1, 0))),
        ([(400, 64)], lambda x: x[:200] @ jn.permute(x[200:], (1, 0))),
        ([(2, 200, 64)], lambda x: x @ jn.permute(jn.flip(x, 0), (0, 2, 1))),
        ([(200, 64)], lambda x: x @ jn.permute(jn.flip(x, 1), (1, 0))),
        ([(200, 64)], lambda x: jn.flip(x, 0) @ jn.permute(x, (1, 0))),
    ],
)
def test_other_products_are_whole(shapes: list[tuple[int, ...]], make: Make) -> None:
    model = compiled(shapes, make)
    assert not halves(model)
    arrays = [numbers(*shape) for shape in shapes]
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    expected = jn.evaluate(graph, *arrays)
    np.testing.assert_allclose(model(*arrays), expected, rtol=1e-4, atol=2e-3)


def test_not_a_number_reaches_its_row_and_its_column() -> None:
    x = numbers(300, 64)
    x[250, 3] = np.nan
    found = compiled([x.shape], SIDES["rows"][0])(x)
    expected = np.zeros((300, 300), bool)
    expected[250], expected[:, 250] = True, True
    assert np.array_equal(np.isnan(found), expected)
