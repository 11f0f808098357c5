"""Concatenations that are read across their rows, or those of their parts, are stored: kernels, and values beside NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Make = Callable[..., Any]


class Numpy:
    """NumPy's functions by joinery's names."""

    concat, stack, permute, relu, tanh, sum = (
        np.concatenate, np.stack, np.transpose, staticmethod(lambda x: np.maximum(x, 0)), np.tanh, np.sum,
    )  # fmt: skip


A, B = (7, 120, 40), (7, 3, 40)
STORED: dict[str, tuple[Make, list[tuple[int, ...]]]] = {
    "permuted": (lambda lib, a, b: lib.permute(lib.concat([a, b], axis=1), (0, 2, 1)), [A, B]),
    "permuted, computed": (lambda lib, a, b: lib.relu(lib.permute(lib.concat([a, b], axis=1), (0, 2, 1))), [A, B]),
    "of computed parts": (lambda lib, a, b: lib.permute(lib.concat([lib.tanh(a), b * 2], axis=1), (0, 2, 1)), [A, B]),
    "transposed rows": (lambda lib, a, b: lib.permute(lib.concat([a, b], axis=0), (1, 0)), [(90, 70), (33, 70)]),
    "transposed columns": (lambda lib, a, b: lib.permute(lib.concat([a, b], axis=1), (1, 0)), [(90, 70), (90, 33)]),
    "of permuted parts": (
        lambda lib, a, b: lib.relu(lib.concat([lib.permute(a, (0, 2, 1)), lib.permute(b, (0, 2, 1))], axis=2)), [A, B],
    ),
    "of one of two": (lambda lib, a, b: lib.relu(lib.concat([lib.permute(a, (1, 0)), b], axis=0)), [(40, 90), (50, 40)]),
}  # fmt: skip
FLOATING: dict[str, tuple[Make, list[tuple[int, ...]]]] = {
    "along rows": (lambda lib, a, b: lib.relu(lib.concat([a, b], axis=1)), [A, B]),
    "rows that stay": (lambda lib, a, b: lib.permute(lib.concat([a, b], axis=1), (1, 0, 2)) * 2, [A, B]),
    "both turned": (
        lambda lib, a, b: lib.permute(lib.concat([lib.permute(a, (1, 0)), lib.permute(b, (1, 0))], axis=1), (1, 0)) * 2,
        [(90, 70), (33, 70)],
    ),
    "few elements": (lambda lib, a, b: lib.permute(lib.concat([a, b], axis=0), (1, 0)) * 2, [(40, 6), (33, 6)]),
    "summed": (lambda lib, a, b: lib.sum(lib.permute(lib.concat([a, b], axis=1), (0, 2, 1)), axis=1), [A, B]),
}


def run(make: Make, shapes: list[Any], given: list[np.ndarray], **options: Any) -> tuple[jn.Model, np.ndarray]:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, f"x{i}") for i, shape in enumerate(shapes)])
    graph.output(make(jn, *graph.inputs))
    model = jn.compile(graph, device="cpu", **options)
    return model, np.asarray(model(*given))


def drawn(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [np.random.default_rng(3).standard_normal(shape, dtype=np.float32) for shape in shapes]


@pytest.mark.parametrize("target", [None, "x86-64-v3"])
@pytest.mark.parametrize("name", STORED)
def test_stored(name: str, target: str | None) -> None:
    make, shapes = STORED[name]
    given = drawn(shapes)
    model, found = run(make, shapes, given, target=target)
    np.testing.assert_allclose(found, make(Numpy, *given), rtol=1e-5)
    assert len(model.kernels) == 3


@pytest.mark.parametrize("name", FLOATING)
def test_read_where_they_lie(name: str) -> None:
    make, shapes = FLOATING[name]
    given = drawn(shapes)
    model, found = run(make, shapes, given)
    np.testing.assert_allclose(found, make(Numpy, *given), rtol=1e-4, atol=1e-5)
    assert len(model.kernels) == 1


def test_sizes_that_runs_decide() -> None:
    make, _ = STORED["permuted, computed"]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("b", n, 40), name) for n, name in (("n", "x"), ("m", "y"))])
    graph.output(make(jn, *graph.inputs))
    model = jn.compile(graph, device="cpu")
    for batch, rows, more in ((1, 1, 1), (2, 100, 1), (3, 0, 5), (2, 5, 0), (0, 4, 4), (1, 33, 90)):
        given = drawn([(batch, rows, 40), (batch, more, 40)])
        np.testing.assert_array_equal(model(*given), make(Numpy, *given))


def test_read_by_several() -> None:
    a, b = drawn([(90, 70), (33, 70)])
    graph = jn.Graph("g", [jn.TensorType(jn.float32, each.shape, name) for each, name in ((a, "a"), (b, "b"))])
    joined = jn.concat([*graph.inputs], axis=0)
    graph.output(jn.permute(joined, (1, 0)), joined * 2, joined @ jn.permute(joined, (1, 0)), joined)
    turned, double, product, kept = jn.compile(graph, device="cpu")(a, b)
    expected = np.concatenate([a, b])
    np.testing.assert_array_equal(turned, expected.T)
    np.testing.assert_array_equal(double, expected * 2)
    np.testing.assert_array_equal(kept, expected)
    np.testing.assert_allclose(product, expected @ expected.T, rtol=1e-4, atol=1e-4)
