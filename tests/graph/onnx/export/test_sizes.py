"""Symbolic sizes keep their names and arithmetic, and one model serves all of them."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_export.agreement import by_reference, difference, exported, outputs
from ....support.onnx_export.structure import structure

F = np.float32


def graph_of(*types: tuple[Any, Any, str]) -> Any:
    return jn.Graph("sizes", [jn.TensorType(*entry) for entry in types])


def agree(graph: Any, *batches: tuple[Any, ...], reads_back: bool = True) -> Any:
    """The model of a graph computes what the graph does, for all sizes."""
    model = exported(graph)
    for arrays in batches:
        for got, want in zip(by_reference(model, graph, arrays), outputs(graph, arrays), strict=True):
            assert not difference(got, want, "float32")
    if reads_back:
        assert structure(jn.from_onnx(model)) == structure(graph)
    return model


def arrays(batch: int, n: int) -> tuple[Any]:
    return (np.random.default_rng(batch + n).normal(size=(batch, n, 6)).astype(F),)


def test_views_read_shapes_and_compute_with_them() -> None:
    graph = graph_of((jn.float32, ("batch", "n", 6), "x"))
    (x,) = graph.inputs
    batch, n, _ = x.shape
    graph.output(
        jn.reshape(x, (-1, 3)), x[:, : n // 2], x[:, ::-2, 1:], x[:, :-1], jn.pad(x, ((0, 0), (1, 2), (0, 0)), mode="edge"),
        jn.broadcast_to(jn.mean(x, axis=1, keepdims=True), (batch, n + 3, 6)), jn.concat([x, x[:, :1]], axis=1),
    )  # fmt: skip
    agree(graph, arrays(2, 4), arrays(1, 7), arrays(3, 2))


def test_statistics_divide_by_counts_that_are_known_at_a_run() -> None:
    graph = graph_of((jn.float32, ("batch", "n", 6), "x"))
    (x,) = graph.inputs
    graph.output(jn.var(x, axis=(0, 1), correction=1), jn.mean(x, axis=0), jn.layer_norm(x), jn.softmax(x, axis=1))
    agree(graph, arrays(2, 4), arrays(1, 7))


@pytest.mark.parametrize(
    ("text", "is_kept"),
    [
        ("n", True), ("3*n*n - n + 7", True), ("n // 2", True), ("(n + 5) // 3 % 4", True), ("max(n - 4, 0)", True),
        ("min(n, 3)", True), ("n**3", True), ("m*n - 2*m", True), ("(n - 5) // 2", False), ("(n - 5) % 3", False),
        ("n // m", False), ("n % m", False),
    ],
)  # fmt: skip
def test_expressions_of_sizes_are_values(text: str, is_kept: bool) -> None:
    """Quotients that may be negative, or of 0, are numbers that are computed when they are read back."""
    graph = graph_of((jn.float32, ("n", "m"), "x"))
    size: Any = jn.Dim.parse(text)
    graph.output(graph.dim_value(size), graph.inputs[0])
    model = exported(graph)
    for n, m in ((1, 1), (2, 3), (3, 2), (7, 4), (12, 5), (4, 0), (0, 2)):
        array = np.zeros((n, m), F)
        assert int(by_reference(model, graph, (array,))[0]) == size.evaluate({"n": n, "m": m})
    again = jn.from_onnx(model)
    assert (structure(again) == structure(graph)) or not is_kept
    for n, m in ((7, 4), (2, 3)):
        assert int(jn.evaluate(again, np.zeros((n, m), F))[0]) == size.evaluate({"n": n, "m": m})


def test_a_size_that_stands_in_expressions_only_is_solved_for() -> None:
    graph = graph_of((jn.float32, ("2*h + 1", "h*w + w + 3"), "x"))
    (x,) = graph.inputs
    graph.output(graph.dim_value(jn.dim("h") * jn.dim("w")), x[:, : jn.dim("w")])
    for h, w in ((2, 3), (0, 4), (5, 0)):
        array = np.zeros((2 * h + 1, h * w + w + 3), F)
        agree(graph, (array,), reads_back=False)


def test_a_size_that_no_shape_determines_is_refused() -> None:
    graph = graph_of((jn.float32, ("n*n", 2), "x"))
    graph.output(graph.dim_value(jn.dim("n")), graph.inputs[0])
    with pytest.raises(jn.UnsupportedError, match=r"dim_value at .*'n' cannot be computed(.|\n)*fix: an input that has 'n'"):
        jn.to_onnx(graph)


def test_a_slice_that_may_begin_before_the_first_element_is_refused() -> None:
    graph = graph_of((jn.float32, ("n",), "x"), (jn.float32, ("m",), "y"))
    x, y = graph.inputs
    m = y.shape[0]
    graph.output(graph.apply("slice", [x], {"starts": (m - 1,), "stops": (-1,), "steps": (-1,)}))
    with pytest.raises(jn.UnsupportedError, match=r"slice at .*before the first element of axis 0(.|\n)*fix: joinery.flip"):
        jn.to_onnx(graph)


def test_conditions_of_a_launch_are_told_in_the_metadata() -> None:
    graph = graph_of((jn.float32, ("n",), "x"))
    (x,) = graph.inputs
    graph.output(graph.constant(np.arange(5, dtype=F))[: x.shape[0]] + x)
    facts = {entry.key: entry.value for entry in exported(graph).metadata_props}
    assert facts["joinery.check.0"].startswith("min(n, 5) = n: slice")


def test_names_and_expressions_of_sizes_are_declared() -> None:
    graph = graph_of((jn.float32, ("batch", 4), "x"))
    graph.output(jn.reshape(graph.inputs[0], (-1, 2)), name="pairs")
    model = exported(graph)
    given, made = model.graph.input[0].type.tensor_type.shape.dim, model.graph.output[0].type.tensor_type.shape.dim
    assert (given[0].dim_param, given[1].dim_value) == ("batch", 4)
    assert (made[0].dim_param, made[1].dim_value) == ("2*batch", 2)


def test_positions_are_broadcast_against_the_data() -> None:
    graph = graph_of((jn.float32, ("n", 1), "x"), (jn.int64, (1, "m"), "i"))
    x, i = graph.inputs
    graph.output(graph.apply("take_along_axis", [x, i], {"axis": 0}))
    for n, m in ((3, 2), (1, 4)):
        agree(graph, (np.arange(n, dtype=F)[:, None], np.arange(m)[None] - 1), reads_back=False)
