"""A cast anywhere inside an attention is performed, whatever the number of keys: by one kernel or by several.

Every edge of softmax(q kᵀ) v gets a cast to a narrower float and back, one at a time. The data are such that leaving the cast
out changes the result by far more than rounding may; the reference evaluator is the witness.
"""

from __future__ import annotations

from typing import Any

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

from ..support.tiers import each

ROWS, WIDTH = 3, 4
EDGES = {  # name: (narrow dtype, largest score, spread of the scores)
    "scores": ("bfloat16", 10, 6),
    "scores of the maximum": ("float8_e4m3fn", 1000, 600),
    "scores of the difference": ("bfloat16", 10, 6),
    "maximum": ("bfloat16", 1e6, 100),
    "difference": ("float8_e4m3fn", 10, 6),
    "powers": ("float8_e4m3fn", 10, 3),
    "powers of the quotient": ("float8_e4m3fn", 10, 3),
    "powers of the sum": ("float8_e4m3fn", 10, 3),
    "sum": ("float8_e4m3fn", 10, 3),
    "weights": ("float8_e4m3fn", 10, 3),
}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def graph_of(dtype: str, rows: int, keys: int, width: int = WIDTH) -> Any:
    shapes = {"q": (rows, width), "k": (keys, width), "v": (keys, width)}
    return jn.Graph("attention", [jn.TensorType(dtype, shape, name) for name, shape in shapes.items()])


def attention(edge: str, narrow: str, keys: int) -> Any:
    graph = graph_of("float32", ROWS, keys)
    q, k, v = graph.inputs

    def on(name: str, x: Any) -> Any:
        return x.cast(narrow).cast("float32") if name == edge else x

    scores = on("scores", q @ k.T)
    maximum = on("maximum", jn.max(on("scores of the maximum", scores), axis=-1, keepdims=True))
    powers = on("powers", jn.exp(on("difference", on("scores of the difference", scores) - maximum)))
    total = on("sum", jn.sum(on("powers of the sum", powers), axis=-1, keepdims=True))
    graph.output(on("weights", on("powers of the quotient", powers) / total) @ v)
    return graph


def arrays(rng: np.random.Generator, keys: int, largest: float, spread: float) -> list[np.ndarray]:
    """The scores of all rows are the first column of k, exactly, and rise."""
    q, k = np.zeros((ROWS, WIDTH), np.float32), rng.standard_normal((keys, WIDTH)).astype(np.float32)
    q[:, 0] = 1
    k[:, 0] = largest - spread * np.sort(rng.random(keys))[::-1]
    return [q, k, rng.random((keys, WIDTH)).astype(np.float32)]


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("edge", "keys"), each(list(EDGES), [100, 300]))
def test_a_cast_is_performed_whatever_the_number_of_keys(rng: np.random.Generator, edge: str, keys: int) -> None:
    narrow, largest, spread = EDGES[edge]
    given = arrays(rng, keys, largest, spread)
    graph, without = attention(edge, narrow, keys), attention("none", narrow, keys)
    with np.errstate(all="ignore"):
        expected, different = jn.evaluate(graph, *given), jn.evaluate(without, *given)
    tolerance = 2e-5
    assert not np.allclose(different, expected, rtol=0, atol=4 * tolerance), "the cast has no effect on these data"
    result = jn.compile(graph, "cpu", cache=False)(*given)
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("edge", ["maximum", "powers of the quotient"])
def test_a_cast_is_performed_on_gpus(rng: np.random.Generator, edge: str) -> None:
    narrow, largest, spread = EDGES[edge]
    given = arrays(rng, 150, largest, spread)
    graph = attention(edge, narrow, 150)
    with np.errstate(all="ignore"):
        expected = jn.evaluate(graph, *given)
    np.testing.assert_allclose(jn.compile(graph, "ptxsim", cache=False)(*given), expected, rtol=0, atol=2e-5)


def test_an_attention_of_16_bit_operations_rounds_each(rng: np.random.Generator) -> None:
    """Written out in float16 every step rounds: the sum of so many ones is infinite, and all weights are 0."""
    keys = 70_000
    graph = graph_of("float16", 64, keys, 8)
    q, k, v = graph.inputs
    scores = q @ k.T
    powers = jn.exp(scores - jn.max(scores, axis=-1, keepdims=True))
    graph.output(powers / jn.sum(powers, axis=-1, keepdims=True) @ v)
    given = [np.zeros((64, 8), np.float16), np.zeros((keys, 8), np.float16), np.ones((keys, 8), np.float16)]
    assert not jn.compile(graph, "cpu", cache=False)(*given).any()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("dtype", "unit", "tiny"), [("float16", 2.0**-11, 2.0**-25), ("bfloat16", 2.0**-9, 0.0)])
def test_weights_of_16_bits_err_no_more_than_their_own_rounding(
    rng: np.random.Generator, dtype: str, unit: float, tiny: float
) -> None:
    """softmax rounds to 16 bits. One kernel rounds before the division, where rising maxima make weights larger than they end
    up: the error stays below that of rounding the weights themselves, and one rounding of the result."""
    keys = 700
    graph = graph_of(dtype, ROWS, keys)
    q, k, v = graph.inputs
    graph.output(jn.softmax(q @ k.T, axis=-1) @ v)
    model = jn.compile(graph, "cpu", cache=False)
    assert [kernel.template for kernel in model.kernels] == ["attention"]
    numpy_type = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    for largest, spread in ((18, 18), (3, 3), (0, 0), (16, 40)):
        given = [array.astype(numpy_type) for array in arrays(rng, keys, largest, spread)]
        scores = given[0].astype(np.float64) @ given[1].T.astype(np.float64)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
        values = given[2].astype(np.float64)
        exact = weights @ values
        bound = 1.001 * (unit + 2.0**-16) * weights @ np.abs(values) + tiny * np.abs(values).sum(0)
        bound += unit * (np.abs(exact) + bound)
        assert (np.abs(model(*given).astype(np.float64) - exact) <= bound).all()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("heads", [(1, 2), (2, 1), (2, 2)])
def test_weights_are_broadcast_over_values_of_more_heads(rng: np.random.Generator, heads: tuple[int, int]) -> None:
    shapes = [(1, heads[0], 4, 8), (1, heads[0], 8, 6), (1, heads[1], 6, 8)]
    graph = jn.Graph("heads", inputs=[jn.TensorType(jn.float32, shape) for shape in shapes])
    q, k, v = graph.inputs
    graph.output(jn.softmax(q @ k) @ v * 2.0)
    given = [rng.standard_normal(shape, np.float32) for shape in shapes]
    scores = given[0].astype(np.float64) @ given[1]
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = powers / powers.sum(-1, keepdims=True) @ given[2] * 2
    for device in ("cpu", "ptxsim"):
        np.testing.assert_allclose(jn.compile(graph, device, cache=False)(*given), wanted, rtol=1e-5, atol=1e-5)
