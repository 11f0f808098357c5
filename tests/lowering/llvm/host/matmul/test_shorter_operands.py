"""Products read right operands of 16-bit floats where they lie and widen them: the same sums as of what they are widened to."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

F = np.float32
DTYPES = [jn.float16, jn.bfloat16]
SIZES = [(1, 64, 64), (1, 3, 17), (5, 515, 100), (23, 70, 64), (24, 70, 64), (70, 33, 130), (6, 1, 1), (0, 8, 16), (9, 128, 32)]


def _whole(rng: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """Integers: products and sums are exact, in any order."""
    return rng.integers(-8, 9, shape).astype(dtype.numpy)


def _product(dtype: Any, sizes: tuple[int, int, int], made: str, symbolic: bool) -> tuple[Any, list[Any]]:
    """A graph of a product with a right operand of `dtype`, and its inputs.

    made: whether it is a constant or an input, and whether the left operand is of `dtype` or of float32.
    """
    m, k, n = sizes
    rng = np.random.default_rng(m + k + n)
    left = jn.float32 if "wide" in made else dtype
    shape = ("m", "k", "n") if symbolic else sizes
    types = [jn.TensorType(left, shape[:2] if "constant" not in made else (shape[0], k), "x")]
    if "constant" not in made:
        types.append(jn.TensorType(dtype, shape[1:], "w"))
    graph = jn.Graph("g", types)
    w = _whole(rng, dtype, (k, n))
    right = graph.constant(w) if "constant" in made else graph.inputs[1]
    graph.output(graph.inputs[0] @ (right.cast(jn.float32) if "wide" in made else right))
    x = _whole(rng, left, (m, k))
    return graph, [x] if "constant" in made else [x, w]


@pytest.mark.one_in(128)
@pytest.mark.parametrize("made", ["constant", "input", "wide constant", "wide input"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_they_are_exact_for_integers(sizes: tuple[int, int, int], dtype: Any, made: str) -> None:
    for symbolic in (False, True):
        graph, inputs = _product(dtype, sizes, made, symbolic)
        found = jn.compile(graph, "cpu", cache=False)(*inputs)
        np.testing.assert_array_equal(found.astype(F), jn.evaluate(graph, *inputs).astype(F))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("made", ["constant", "input", "wide constant", "wide input"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_infinities_and_nan_reach_every_sum_that_has_them(dtype: Any, made: str) -> None:
    """Sizes end within blocks, so that masks cut both operands; numbers beyond the ends are never part of a sum."""
    for row, number in ((0, np.inf), (69, np.nan), (33, -np.inf)):
        graph, inputs = _product(dtype, (70, 70, 70), made, True)
        if "constant" in made:
            inputs[0][row, 3] = number
        else:
            inputs[1][3, row] = number
        with np.errstate(all="ignore"):
            found = jn.compile(graph, "cpu", cache=False)(*inputs)
            np.testing.assert_array_equal(found.astype(F), jn.evaluate(graph, *inputs).astype(F))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_number_of_the_dtype_is_widened(dtype: Any) -> None:
    """All bit patterns, read as columns by a row of ones and zeros: infinities, denormals and NaN too."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).reshape(64, 1024)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (1, 1), "x"), jn.TensorType(dtype, (1, "n"), "w")])
    graph.output(graph.inputs[0] @ graph.inputs[1].cast(jn.float32))
    model = jn.compile(graph, "cpu", cache=False)
    for row in every:
        np.testing.assert_array_equal(model(np.ones((1, 1), F), row[None])[0], row.astype(F))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_reproducible_bits_are_those_of_the_widened_operand(dtype: Any) -> None:
    rng = np.random.default_rng(4)
    w, x = rng.standard_normal((130, 90)).astype(dtype.numpy), rng.standard_normal((7, 130)).astype(F)
    graphs = [jn.Graph("g", [jn.TensorType(jn.float32, (7, 130), "x")]) for _ in range(2)]
    graphs[0].output(graphs[0].inputs[0] @ graphs[0].constant(w).cast(jn.float32))
    graphs[1].output(graphs[1].inputs[0] @ graphs[1].constant(w.astype(F)))
    found, expected = (jn.compile(graph, "cpu", cache=False, numerics="reproducible")(x) for graph in graphs)
    np.testing.assert_array_equal(found, expected)
