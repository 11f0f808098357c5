"""Random typed graphs from the op table: compiled code must agree with the reference evaluator on all of them.

Values that only exact operations touch must agree bit for bit; for the others `error_bounds` knows how far rounding may carry.
"""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from joinery.graph.dims.dim import evaluate_dim

from ..fuzz import graphs
from ..fuzz.graphs import grid


class Source:
    """Decisions, drawn by hypothesis."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def one(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def several(self, choices: Any, low: int, high: int, distinct: bool = False) -> list[Any]:
        return self.draw(st.lists(st.sampled_from(choices), min_size=low, max_size=high, unique=distinct))

    def order(self, count: int) -> list[int]:
        return self.draw(st.permutations(range(count)))


def drawn(source: Any, symbolic: bool) -> tuple[jn.Graph, list[np.ndarray]]:
    builder = graphs.drawn(source, symbolic)
    return builder.graph, graphs.arrays_of(source, builder)


def check(agreement: Any, graph: jn.Graph, arrays: list[np.ndarray]) -> None:
    model = agreement.compile(graph)
    try:
        agreement.evaluate(graph, *arrays)
    except jn.UserError:  # sizes that break a check of the graph break it on both sides
        with pytest.raises(jn.UserError):
            model(*arrays)
        return
    agreement.bounded(graph, *arrays, model=model)


SETTINGS: dict[str, Any] = {
    "suppress_health_check": list(HealthCheck),
}


@pytest.mark.slow
@settings(max_examples=12, **SETTINGS)
@given(data=st.data())
def test_static_shapes(agreement: Any, data: Any) -> None:
    check(agreement, *drawn(Source(data.draw), symbolic=False))


@pytest.mark.slow
@settings(max_examples=14, **SETTINGS)
@given(data=st.data())
def test_symbolic_shapes(agreement: Any, data: Any) -> None:
    check(agreement, *drawn(Source(data.draw), symbolic=True))


# -- what random graphs and the tests of single ops found, reduced by hand -------------------------------------------------


def made(*types: tuple[str, tuple[Any, ...]]) -> jn.Graph:
    return jn.Graph("found", [jn.TensorType(dtype, shape, f"x{i}") for i, (dtype, shape) in enumerate(types)])


def confirm(agreement: Any, graph: jn.Graph, sizes: dict[str, int] | None = None, seed: int = 0) -> None:
    arrays = []
    for number, symbol in enumerate(graph.inputs):
        shape = tuple([evaluate_dim(entry, sizes or {}) for entry in symbol.shape])
        arrays.append(grid(np.random.default_rng([seed, number]).integers(-8, 9, shape), symbol.dtype))
    check(agreement, graph, arrays)


def test_lanes_beyond_a_masked_column_stay_neutral(agreement: Any) -> None:
    """Reducing two axes that are not neighbours: the lanes outside must be neutral for the second one as well."""
    for dtype in ("int64", "float32", "uint8"):
        for axes in ((0, 2), (0, 3), (1, 3)):
            graph = made((dtype, (2, 3, 4, 5)))
            (x,) = graph.inputs
            graph.output(
                jn.prod(x + 1, axes), jn.min(x + 20 if x.dtype.kind == "uint" else jn.abs(x) + 1, axis=axes)
            )
            confirm(agreement, graph)


def test_values_needed_again_are_kept_by_reductions_without_a_neutral_element(agreement: Any) -> None:
    graph = made(("uint16", (1,)), ("float32", (3,)))
    x, y = graph.inputs
    taken = jn.take_along_axis(jn.flip(jn.concat([x, x], 0)), np.array([0, 0, 4], np.int8), 0)
    scaled = jn.exp(jn.tanh(y) + 1)
    graph.output(jn.argmax(taken, 0, keepdims=True), taken, jn.argmin(scaled, 0), scaled)
    confirm(agreement, graph)


def test_an_empty_reshape_reads_nothing(agreement: Any) -> None:
    graph = made(("float32", (0, 5, 8, 1)), ("float32", (0, 5, 8, 1)))
    x, y = graph.inputs
    total = jn.logsumexp(x, keepdims=True)
    scaled = jn.rms_norm((y <= x).cast("float32")) * total
    pieces = jn.concat([jn.flip(y <= x, 0).reshape(0, 1, 5, 8, 1), scaled.reshape(0, 1, 5, 8, 1)], 1)
    graph.output(jn.rms_norm(pieces.reshape(0, 2, 5, 8, 1, 1)))
    confirm(agreement, graph)


@pytest.mark.parametrize("size", [0, 1, 5000])
def test_stores_along_some_of_the_reduced_axes(agreement: Any, size: int) -> None:
    """The other reduced axis may be empty, which must not keep the store from happening."""
    graph = made(("index", (2, "m")), ("bool", ()))
    x, flag = graph.inputs
    twice = jn.concat([x.reshape(2, 1, x.shape[1]), x.reshape(2, 1, x.shape[1])], 1)
    both = flag.broadcast_to((2,))
    graph.output(jn.where(both.cast("int64") < 1, jn.sum(twice.cast("uint64")), jn.min(both).cast("uint64")))
    confirm(agreement, graph, {"m": size})


@pytest.mark.one_in(4)
@pytest.mark.parametrize("rows", [1, 5, 64, 130])
def test_products_with_one_column(agreement: Any, rows: int) -> None:
    """No whole vectors may be written, and infinities in one row must not reach the next."""
    for depth in (1, 7, 600, "k"):
        graph = made(("float32", (rows, depth)), ("float32", (depth, 1)))
        x, y = graph.inputs
        graph.output(x @ y, y.T @ x.T)
        confirm(agreement, graph, {"k": 1030})
        a = np.ones((rows, 600 if depth == "k" else depth), np.float32)
        a[0, -1] = np.inf
        check(agreement, graph, [a, np.ones((a.shape[1], 1), np.float32)])
    graph = made(("int8", (rows, 5)), ("int8", (5, 0)), ("int8", (5, 1)))
    x, none, one = graph.inputs
    graph.output(none.T @ x.T, x @ none, x @ one)
    confirm(agreement, graph)


def test_constants_of_bools_in_panels(agreement: Any) -> None:
    graph = made(("bool", (9, 7)))
    (x,) = graph.inputs
    w = np.random.default_rng(0).integers(0, 2, (7, 64)).astype(bool)
    graph.output(x @ graph.constant(w), jn.matmul(x.cast("float32"), graph.constant(w)))
    confirm(agreement, graph)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float64", "int64", "uint8"])
def test_reductions_one_lane_wide(agreement: Any, dtype: str) -> None:
    graph = made((dtype, ("n", 1)), (dtype, (1, "m")), (dtype, ("n", "m", 3)))
    x, y, z = graph.inputs
    nothing = z[:, :, 3:]
    of_nothing = jn.prod(nothing), jn.sum(nothing, (0, 2))
    graph.output(jn.sum(x * 2, 1), jn.sum(y, 0), jn.sum(jn.sum(x, 1, keepdims=True) * 3), *of_nothing)
    for n, m in ((0, 3), (1, 1), (9, 70), (2, 0)):
        confirm(agreement, graph, {"n": n, "m": m})


def test_bits_of_scalars_and_powers_by_one_exponent(agreement: Any) -> None:
    graph = made(("int16", ()), ("float32", (5,)))
    x, y = graph.inputs
    graph.output(x.bitcast("uint16"), x.bitcast("float16").bitcast("int16"), y**0.5, y**2, y**-1.0)
    check(agreement, graph, [np.int16(-2).reshape(()), np.float32([-np.inf, -0.0, 0.0, np.inf, 4])])


def test_checks_that_contradict_each_other_are_refused() -> None:
    graph = made(("float32", ("n",)), ("float32", (2,)))
    x, y = graph.inputs
    jn.pad(x, 5, mode="reflect")
    with pytest.raises(
        jn.UserError, match="contradicts a check made before: pad: axis 0 must have more than 5"
    ):
        x + y
    jn.pad(x[:1], 1)
    graph.output(x + 1)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(8))
def test_many(agreement: Any, number: int) -> None:
    @seed(number)
    @settings(max_examples=500, **{**SETTINGS, "derandomize": False})
    @given(data=st.data())
    def run(data: Any) -> None:
        check(agreement, *drawn(Source(data.draw), symbolic=bool(number % 2)))

    run()
