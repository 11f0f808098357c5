"""Concatenations and stacks of a value with itself, against NumPy, and their kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

TYPES = ["float32", "float64", "float16", "int64", "int32", "uint8", "bool", "complex64"]
SHAPES = [(1,), (7,), (1, 1), (3, 5), (1, 6), (6, 1), (2, 3, 4), (0, 4), (33, 65)]
CASES: dict[str, Callable[[Any, Any], Any]] = {
    "twice along the first": lambda lib, x: lib.concat([x, x], 0),
    "three times along the last": lambda lib, x: lib.concat([x, x, x], len(x.shape) - 1),
    "a stack before": lambda lib, x: lib.stack([x] * 4, 0),
    "a stack behind": lambda lib, x: lib.stack([x, x], len(x.shape)),
    "of a computed one": lambda lib, x: lib.concat([x + x] * 2, 0),
    "and others": lambda lib, x: lib.concat([x, x, x + x], 0),
    "tiles of tiles": lambda lib, x: lib.concat([lib.concat([x, x], 0)] * 2, 0),
    "reduced": lambda lib, x: lib.max(lib.stack([x, x], 0), 0),
}
REDUCTIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "sum": (jn.sum, np.sum),
    "prod": (jn.prod, np.prod),
    "max": (jn.max, np.max),
    "mean": (jn.mean, np.mean),
    "argmax": (jn.argmax, np.argmax),
    "argmin": (jn.argmin, np.argmin),
}


class InNumPy:
    concat = staticmethod(lambda parts, axis: np.concatenate(parts, axis))
    stack = staticmethod(np.stack)
    max = staticmethod(lambda x, axis: x.max(axis))


class InJoinery:
    concat = staticmethod(lambda parts, axis: jn.concat(parts, axis=axis))
    stack = staticmethod(lambda parts, axis: jn.stack(parts, axis=axis))
    max = staticmethod(lambda x, axis: jn.max(x, axis=axis))


def made(dtype: str, shape: tuple[Any, ...], function: Callable[[Any, Any], Any]) -> jn.Model:
    graph = jn.Graph("g", inputs=[jn.TensorType(dtype, shape, "x")])
    graph.output(function(InJoinery, graph.inputs[0]))
    return jn.compile(graph, device="cpu", threads=1)


@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for name in CASES for dtype in TYPES if (name, dtype) != ("reduced", "complex64")]
)
def test_every_part_is_there(name: str, dtype: str) -> None:
    for shape in SHAPES:
        x = np.random.default_rng(len(shape)).integers(0, 2 if dtype == "bool" else 50, shape).astype(dtype)
        np.testing.assert_array_equal(made(dtype, shape, CASES[name])(x), CASES[name](InNumPy, x), err_msg=f"{shape}")


@pytest.mark.parametrize("name", CASES)
def test_sizes_that_runs_decide(name: str) -> None:
    model = made("float32", ("m", "n"), CASES[name])
    for shape in ((1, 1), (3, 5), (1, 7), (40, 1), (0, 3), (3, 0)):
        x = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        np.testing.assert_array_equal(model(x), CASES[name](InNumPy, x))


def test_views_take_no_kernels_of_their_own() -> None:
    def doubled(lib: Any, x: Any) -> Any:
        wide = lib.reshape(lib.stack([x, x], -1), (4, 6, 16))
        return lib.reshape(lib.stack([wide, wide], 2), (4, 12, 16))

    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (4, 6, 8), "x")])
    graph.output(doubled(jn, graph.inputs[0]))
    model = jn.compile(graph, device="cpu")
    x = np.random.default_rng(0).standard_normal((4, 6, 8), dtype=np.float32)
    np.testing.assert_array_equal(model(x), x.repeat(2, 1).repeat(2, 2))
    assert len(model.kernels) == 1


def test_what_takes_long_is_computed_once() -> None:
    model = made("float32", (300, 700), lambda lib, x: lib.stack([jn.exp(x)] * 4, 0))
    x = np.random.default_rng(0).standard_normal((300, 700), dtype=np.float32)
    np.testing.assert_allclose(model(x), np.stack([np.exp(x)] * 4), rtol=1e-6)
    assert len(model.kernels) == 2


def test_reshapes_that_differ_are_no_tiles() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (2, 3), "x"), jn.TensorType("float32", (2, 3), "y")])
    x, y = graph.inputs
    lines, turned = [jn.reshape(x, (6,)), jn.reshape(y, (6,))], [jn.permute(x, (1, 0)), jn.reshape(x, (3, 2))]
    graph.output(jn.concat(lines, axis=0), jn.concat(turned, axis=0))
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), -np.ones((2, 3), np.float32)
    one, other = jn.compile(graph, device="cpu")(a, b)
    np.testing.assert_array_equal(one, np.concatenate([a.ravel(), b.ravel()]))
    np.testing.assert_array_equal(other, np.concatenate([a.T, a.reshape(3, 2)]))


@pytest.mark.parametrize("axis", [0, 1])
def test_many_tiles_of_tiles(axis: int) -> None:
    """Each splits an axis; after some of them there is a kernel of its own."""

    def doubled(lib: Any, x: Any) -> Any:
        for _ in range(18):
            x = lib.concat([x, x], axis)
        return x

    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expected = np.tile(x, (1 << 18, 1) if axis == 0 else (1, 1 << 18))
    for shape in ((2, 3), ("m", "n")):
        np.testing.assert_array_equal(made("float32", shape, doubled)(x), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_what_is_repeated(name: str) -> None:
    """Each of the equal parts counts."""
    ours, theirs = REDUCTIONS[name]
    x = np.random.default_rng(1).integers(1, 5, (3, 7)).astype(np.float32)
    for number in (2, 3, 5):
        for axis in (0, 1, 2):
            for shape in ((3, 7), ("m", "n")):
                graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, "x")])
                graph.output(ours(jn.stack([graph.inputs[0]] * number, axis=axis), axis=axis))
                found = jn.compile(graph, device="cpu", threads=1)(x)
                expected = theirs(np.stack([x] * number, axis), axis=axis)
                np.testing.assert_array_equal(found, expected, err_msg=f"{number} {axis}")
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (1, 7), "x")])
        graph.output(ours(jn.concat([graph.inputs[0]] * number, axis=0), axis=0))
        found = jn.compile(graph, device="cpu", threads=1)(x[:1])
        np.testing.assert_array_equal(found, theirs(np.repeat(x[:1], number, 0), axis=0))
