"""Ranges, triangles, one-hot vectors and rolls, with sizes that are known and sizes that come with the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

Array = np.ndarray[Any, Any]
SIZES = (0, 1, 63, 64, 65)


def _same(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def _one_hot(indices: Array, depth: int) -> Array:
    return (indices[..., None] == np.arange(depth)).astype(np.float32)


CASES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "arange": (lambda x, i, n: jn.arange(x, n), lambda x, i, n: np.arange(n)),
    "arange from to": (lambda x, i, n: jn.arange(x, 2, 3 * n, 2), lambda x, i, n: np.arange(2, 3 * n, 2)),
    "arange by a size": (lambda x, i, n: jn.arange(x, 1, 5 * n, n + 1), lambda x, i, n: np.arange(1, 5 * n, n + 1)),
    "arange down": (lambda x, i, n: jn.arange(x, n, -3, -2), lambda x, i, n: np.arange(n, -3, -2)),
    "arange dtype": (lambda x, i, n: jn.arange(x, n, dtype="float32"), lambda x, i, n: np.arange(n, dtype=np.float32)),
    "eye": (lambda x, i, n: jn.eye(x, n), lambda x, i, n: np.eye(n, dtype=np.float32)),
    "eye apart": (lambda x, i, n: jn.eye(x, n, 5, k=-1, dtype="int8"), lambda x, i, n: np.eye(n, 5, -1, np.int8)),
    "tril": (lambda x, i, n: jn.tril(x), lambda x, i, n: np.tril(x)),
    "triu": (lambda x, i, n: jn.triu(x, 2), lambda x, i, n: np.triu(x, 2)),
    "triu below": (lambda x, i, n: jn.triu(x.T, -3), lambda x, i, n: np.triu(x.T, -3)),
    "triangle of bools": (lambda x, i, n: jn.tril(x > 0, -1), lambda x, i, n: np.tril(x > 0, -1)),
    "one_hot": (lambda x, i, n: jn.one_hot(i, 7), lambda x, i, n: _one_hot(i, 7)),
    "one_hot deep": (lambda x, i, n: jn.one_hot(i, n), lambda x, i, n: _one_hot(i, n)),
    "one_hot first": (lambda x, i, n: jn.one_hot(i, 4, axis=0, dtype="bool"), lambda x, i, n: _one_hot(i, 4).T > 0),
    "roll": (lambda x, i, n: jn.roll(x, 5, 0), lambda x, i, n: np.roll(x, 5, 0)),
    "roll back": (lambda x, i, n: jn.roll(x, (-2, 3), (0, 1)), lambda x, i, n: np.roll(x, (-2, 3), (0, 1))),
    "roll all": (lambda x, i, n: jn.roll(x, -1), lambda x, i, n: np.roll(x, -1)),
}  # fmt: skip


def _graph(size: Any) -> Any:
    types = [jn.TensorType("float32", (size, 6), name="x"), jn.TensorType("int32", (5,), name="i")]
    graph = jn.Graph("positions", inputs=types)
    x, i = graph.inputs
    n = x.shape[0]
    graph.output(*[built(x, i, n) for built, _ in CASES.values()])
    return graph


def _check(call: Callable[..., Any], size: int) -> None:
    x = np.random.default_rng(size).standard_normal((size, 6)).astype(np.float32)
    i = np.array([0, 3, -1, 6, 64], np.int32)
    for (name, (_, expected)), found in zip(CASES.items(), call(x, i), strict=True):
        try:
            _same(np.asarray(found), np.asarray(expected(x, i, size)))
        except AssertionError as error:
            raise AssertionError(name) from error


@pytest.mark.one_in(6)
@pytest.mark.parametrize("size", SIZES)
def test_known_sizes(size: int) -> None:
    graph = _graph(size)
    _check(jn.compile(graph, device="cpu", cache=False), size)
    _check(lambda *arrays: jn.evaluate(graph, *arrays), size)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("device", "sizes"), [("cpu", SIZES), ("ptxsim", (0, 1, 9))])
def test_sizes_that_come_with_the_call(device: str, sizes: tuple[int, ...]) -> None:
    graph = _graph("n")
    model = jn.compile(graph, device=device, cache=False)
    for size in sizes:
        _check(model, size)
        _check(lambda *arrays: jn.evaluate(graph, *arrays), size)


def test_triangles_move_every_dtype_that_has_a_zero() -> None:
    for dtype in ("bfloat16", "float8_e4m3fn", "int4", "complex128"):
        graph = jn.Graph("g", inputs=[jn.TensorType(dtype, (5, 5), name="x")])
        graph.output(jn.tril(graph.inputs[0]))
        x = np.arange(25).reshape(5, 5).astype(np.int8) % 7
        x = x.astype(jn.DType(dtype).numpy)
        expected = np.where(np.tri(5, dtype=bool), x, np.zeros((), x.dtype))
        _same(jn.compile(graph, device="cpu", cache=False)(x), expected)


def test_ranges_of_floats_are_rounded_once() -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (1,))])
    graph.output(
        jn.arange(graph, 0.0, 1.0, 0.1), jn.arange(graph, 1, 3, 0.25, dtype="bfloat16"), jn.arange(graph, 70_000),
        jn.arange(graph, 0.0, 7e4, 1.0), jn.arange(graph, np.int64(3)),
    )  # fmt: skip
    found = jn.evaluate(graph, np.zeros(1, np.float32))
    _same(found[0], (np.arange(10) * 0.1).astype(np.float32))
    assert found[1].astype(np.float32).tolist() == np.arange(1, 3, 0.25).tolist()
    _same(found[2], np.arange(70_000))
    _same(found[3], np.arange(70_000, dtype=np.float32))
    _same(found[4], np.arange(3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: jn.arange(5), r"arange: the first argument must be a graph(.|\n)*not literal 5; fix: arange\(graph, stop\)"),
        (lambda x: jn.eye((3, 3)), "eye: the first argument must be a graph"),
        (lambda x: jn.arange(x, 0, 5, 0), "arange: step is 0"),
        (lambda x: jn.arange(x, 0, x.shape[0], 0.5), "mixes sizes and floats"),
        (lambda x: jn.arange(x, 0, float("inf")), "has no length"),
        (lambda x: jn.arange(x, 300, dtype="int8"), "literal 299 does not fit int8"),
        (lambda x: jn.arange(x, [3]), "arange: stop is list"),
        (lambda x: jn.eye(x, -1), "eye: n"),
        (lambda x: jn.eye(x, 3, k=0.5), "the diagonal k is literal 0.5"),
        (lambda x: jn.tril(x[0]), "tril: the operand has 1 axes(.|\n)*operand 0"),
        (lambda x: jn.one_hot(x, 3), "one_hot: the indices are float32(.|\n)*indices.cast\\(int64\\)"),
        (lambda x: jn.roll(x, 1.5, 0), "roll: the shift is 1.5"),
        (lambda x: jn.roll(x, (1, 2), 0), "roll: 2 shifts for 1 axes"),
        (lambda x: jn.roll(x, 1, 2), "roll: axis 2"),
    ],
)  # fmt: skip
def test_messages(build: Callable[[Any], Any], message: str) -> None:
    (x,) = jn.Graph("g", inputs=[jn.TensorType("float32", ("n", 3))]).inputs
    with pytest.raises(jn.UserError, match=message):
        build(x)
