"""What kernels would compute again and again is stored once; results and the number of kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.schedule.fusion.repeated import MAX_TOGETHER
from joinery.lowering.schedule.plan import schedule

Make = Callable[..., jn.Symbol]
REPEATED: dict[str, tuple[list[tuple[int, ...]], Make, Callable[..., np.ndarray], int]] = {
    "outer product": (
        [(300,), (700,)],
        lambda u, v: jn.exp(u)[:, None] * jn.exp(v)[None, :],
        lambda u, v: np.exp(u)[:, None] * np.exp(v)[None, :],
        2,
    ),
    "the whole chain": (
        [(300, 200), (200,)],
        lambda x, v: x * (jn.exp(v) * 2.0 + 1.0),
        lambda x, v: x * (np.exp(v) * 2 + 1),
        2,
    ),
    "two of them": (
        [(300, 200), (200,), (200,)],
        lambda x, v, w: x * jn.exp(v) + jn.tanh(w),
        lambda x, v, w: x * np.exp(v) + np.tanh(w),
        2,
    ),
    "rotation": (
        [(8, 64, 32), (64, 1), (1, 32)],
        lambda x, at, by: x * jn.cos(at * by) + jn.flip(x, -1) * jn.sin(at * by),
        lambda x, at, by: x * np.cos(at * by) + x[..., ::-1] * np.sin(at * by),
        2,
    ),
    "sums of rows": (
        [(300, 400), (400,)],
        lambda x, v: jn.sum(x * jn.exp(v), axis=1),
        lambda x, v: (x * np.exp(v)).sum(1),
        2,
    ),
    "parts": (
        [(100, 3), (3, 400)],
        lambda u, v: (lambda a, b: a[:, :1] * b[:1] + a[:, 1:2] * b[1:2])(jn.exp(u), jn.exp(v)),
        lambda u, v: np.exp(u)[:, :2] @ np.exp(v)[:2],
        2,
    ),
}
TOGETHER: dict[str, tuple[list[tuple[int, ...]], Make, Callable[..., np.ndarray]]] = {
    "a number of a row": ([(300, 400), (300,)], lambda x, u: x * jn.exp(u)[:, None], lambda x, u: x * np.exp(u)[:, None]),
    "little work": ([(300, 400), (400,)], lambda x, v: x * (v + 1.0), lambda x, v: x * (v + 1)),
    "few elements": ([(30, 40), (40,)], lambda x, v: x * jn.exp(v), lambda x, v: x * np.exp(v)),
    "twice": ([(2, 40000), (40000,)], lambda x, v: x * jn.exp(v), lambda x, v: x * np.exp(v)),
    "sums of columns": (
        [(300, 400), (400,)],
        lambda x, v: jn.sum(x * jn.exp(v), axis=0),
        lambda x, v: (x * np.exp(v)).sum(0),
    ),
    "a few rows of an outer product": (
        [(2000,), (400,), (200, 400)],
        lambda u, v, x: jn.exp(u[:, None] + v[None, :])[7:8] * x,
        lambda u, v, x: np.exp(u[7] + v) * x,
    ),
    "a row": ([(500, 400), (300, 400)], lambda y, x: jn.exp(y)[7] * x, lambda y, x: np.exp(y[7]) * x),
    "a row in a hundred": (
        [(500, 400), (50, 5, 400)],
        lambda y, x: jn.tanh(y)[None, ::100] * x,
        lambda y, x: np.tanh(y[::100]) * x,
    ),
    "each once": ([(300, 400)], lambda x: jn.exp(x) + jn.permute(jn.exp(x), (0, 1)), lambda x: 2 * np.exp(x)),
}


def run(shapes: list[Any], make: Make, arrays: list[np.ndarray]) -> tuple[jn.Model, np.ndarray]:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(*graph.inputs))
    model = jn.compile(graph, device="cpu")
    return model, np.asarray(model(*arrays))


def arrays(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(shapes))
    return [rng.standard_normal(shape, dtype=np.float32) for shape in shapes]


@pytest.mark.parametrize("name", REPEATED)
def test_repeated_values_are_stored(name: str) -> None:
    shapes, ours, theirs, kernels = REPEATED[name]
    given = arrays(shapes)
    model, found = run(shapes, ours, given)
    np.testing.assert_allclose(found, theirs(*given), rtol=2e-5, atol=1e-4)
    assert len(model.kernels) == kernels


@pytest.mark.parametrize("name", TOGETHER)
def test_others_are_computed_where_they_are_read(name: str) -> None:
    shapes, ours, theirs = TOGETHER[name]
    given = arrays(shapes)
    model, found = run(shapes, ours, given)
    np.testing.assert_allclose(found, theirs(*given), rtol=2e-5, atol=1e-4)
    assert len(model.kernels) == 1


def test_sizes_that_runs_decide() -> None:
    for rows, columns in ((1, 1), (1, 3000), (700, 1), (300, 400), (0, 5), (5, 0)):
        given = arrays([(rows, columns), (columns,)])
        model, found = run([("m", "n"), ("n",)], lambda x, v: x * jn.exp(v), given)
        np.testing.assert_allclose(found, given[0] * np.exp(given[1]), rtol=1e-5)
        assert len(model.kernels) == 2


def test_outputs_and_loops_have_them_too() -> None:
    x, v = arrays([(300, 200), (200,)])
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, x.shape, "x"), jn.TensorType(jn.float32, v.shape, "v")])
    a, b = graph.inputs
    factors = jn.exp(b)
    graph.output(a * factors, factors, jn.fori_loop(0, 3, lambda i, y: y * jn.exp(b) * 0.5, a))
    product, kept, looped = jn.compile(graph, device="cpu")(x, v)
    np.testing.assert_allclose(product, x * np.exp(v), rtol=1e-5)
    np.testing.assert_allclose(kept, np.exp(v), rtol=1e-5)
    np.testing.assert_allclose(looped, x * (np.exp(v) * 0.5) ** 3, rtol=1e-5)


def test_a_row_that_runs_choose_is_computed_alone() -> None:
    kinds = {"y": (jn.float32, (500, 400)), "i": (jn.int64, ()), "x": (jn.float32, (300, 400))}
    graph = jn.Graph("g", inputs=[jn.TensorType(*kind, name) for name, kind in kinds.items()])
    y, i, x = graph.inputs
    graph.output(jn.exp(y)[i] * x)
    model = jn.compile(graph, device="cpu")
    given_y, given_x = arrays([(500, 400), (300, 400)])
    np.testing.assert_allclose(model(given_y, np.int64(311), given_x), np.exp(given_y[311]) * given_x, rtol=1e-5)
    assert len(model.kernels) == 1


def chain(length: int, is_reversed: bool = False) -> tuple[jn.Graph, Callable[..., list[np.ndarray]]]:
    """Products of rows with each value of a chain of square roots."""
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (300, 500), "m"), jn.TensorType(jn.float32, (500,), "v")])
    m, v = graph.inputs
    products = []
    for _ in range(length):
        v = jn.sqrt(v)
        products.append(m * v[None, :])
    graph.output(*(reversed(products) if is_reversed else products))

    def expected(m: np.ndarray, v: np.ndarray) -> list[np.ndarray]:
        found = []
        for _ in range(length):
            v = np.sqrt(v)
            found.append(m * v)
        return found[::-1] if is_reversed else found

    return graph, expected


@pytest.mark.one_in(7)
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("length", [1, 2, 3, 15, 16, 17, 40])
def test_one_kernel_stores_the_values_of_a_chain(length: int, is_reversed: bool) -> None:
    graph, expected = chain(length, is_reversed)
    assert len(schedule(graph, stores_repeated=True).nests) == len(schedule(graph).nests) + -(-length // MAX_TOGETHER)
    m, v = np.random.default_rng(1).random((300, 500), np.float32), np.random.default_rng(2).random(500, np.float32)
    found = jn.compile(graph, device="cpu")(m, v)
    for one, other in zip(found if length > 1 else [found], expected(m, v), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_one_kernel_stores_values_that_have_nothing_in_common() -> None:
    count, rng = 20, np.random.default_rng(3)
    types = [jn.TensorType(jn.float32, (300, 500), "m"), *(jn.TensorType(jn.float32, (500,), f"v{i}") for i in range(count))]
    graph = jn.Graph("g", inputs=types)
    m, *factors = graph.inputs
    total = m
    for factor in factors:
        total = total + m * jn.exp(factor)
    graph.output(total)
    assert len(schedule(graph, stores_repeated=True).nests) == 3
    x, *given = [rng.standard_normal(kind.shape, dtype=np.float32) for kind in types]
    found = jn.compile(graph, device="cpu")(x, *given)
    np.testing.assert_allclose(found, x * (1 + sum(map(np.exp, given))), rtol=1e-4, atol=1e-4)


def test_values_that_depend_on_what_reads_others_have_kernels_of_their_own() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (300, 300), "x"), jn.TensorType(jn.float32, (300,), "v")])
    x, v = graph.inputs
    for _ in range(3):
        v = jn.flip(jn.sum(x * jn.exp(v), axis=1), 0) * (1 / 300)
    graph.output(v)
    assert len(schedule(graph, stores_repeated=True).nests) == len(schedule(graph).nests) + 3
    a, b = np.random.default_rng(1).random((300, 300), np.float32), np.random.default_rng(2).random(300, np.float32)
    found = jn.compile(graph, device="cpu")(a, b)
    for _ in range(3):
        b = (a * np.exp(b)).mean(1)[::-1]
    np.testing.assert_allclose(found, b, rtol=1e-5)


@pytest.mark.slow
def test_many_repeated_values_beside_many_other_attempts() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (300, 500), "m"), jn.TensorType(jn.float32, (500,), "v")])
    m, v = graph.inputs
    outputs, rows = [], jn.exp(m)
    for _ in range(40):
        v = jn.sqrt(v)
        outputs.append(m * v[None, :])
    for number in range(110):  # each attempt finds one that has to be stored
        rows = jn.exp(rows * 0.25)
        outputs.append(sum((rows[:, i : 400 + i] for i in range(14)), start=m[:, :400] * number))
    graph.output(*outputs)
    assert len(schedule(graph, stores_repeated=True).nests) < 240


def test_targets_whose_arithmetic_is_cheap_have_one_kernel() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (300,), "u"), jn.TensorType(jn.float32, (700,), "v")])
    u, v = graph.inputs
    graph.output(jn.exp(u)[:, None] * jn.exp(v)[None, :])
    assert [len(schedule(graph, stores_repeated=stored).nests) for stored in (False, True)] == [1, 2]
