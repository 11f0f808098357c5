"""Which graphs may be computed in blocks: the evaluator computes whole and blocks, and says whether they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.text.parsing import from_text
from joinery.interface.distributed.independence import Along, Mixture, independence

BATCH, SEQ = jn.dim("batch"), jn.dim("seq")
W = np.random.default_rng(0).standard_normal((8, 8)).astype(np.float32)
TABLE = np.random.default_rng(1).standard_normal((11, 4)).astype(np.float32)
Build = Callable[..., Any]


def graph_of(build: Build, shapes: tuple[tuple[Any, ...], ...], dtype: Any = jn.float32) -> jn.Graph:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, shape in enumerate(shapes)])
    graph.output(build(*graph.inputs))
    return graph


INDEPENDENT: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], Along]] = {
    "map": (lambda x: jn.exp(x) + 1, (("batch", 8),), Along(0)),
    "softmax of rows": (lambda x: jn.softmax(x @ W), (("batch", 8),), Along(0)),
    "layer norm of merged axes": (
        lambda x: jn.layer_norm(jn.reshape(x, (BATCH * SEQ, 8))) @ W, (("batch", "seq", 8),), Along(0, SEQ),
    ),
    "heads": (
        lambda x: jn.permute(jn.reshape(x @ W, (BATCH, SEQ, 2, 4)), (0, 2, 1, 3)), (("batch", "seq", 8),), Along(0),
    ),
    "attention": (
        lambda x: jn.softmax(x @ jn.transpose(x, -1, -2)) @ x, (("batch", "seq", 8),), Along(0),
    ),
    "repeated": (lambda x: jn.concat([x, x], axis=0), (("batch", 8),), Along(0, 1, 2)),
    "transposed": (lambda x: jn.transpose(x, 0, 1), (("batch", 8),), Along(1)),
    "columns": (lambda x: x[:, 1:7:2], (("batch", 8),), Along(0)),
    "reduced": (lambda x: jn.mean(x, axis=(1, 2)), (("batch", "seq", 8),), Along(0)),
    "behind": (lambda x: jn.sum(x, axis=0), (("seq", "batch"),), Along(0)),
    "two inputs": (lambda x, y: jn.concat([x, y * 2], axis=1), (("batch", 8), ("batch", 3)), Along(0)),
    "scan of rows": (lambda x: jn.cumsum(x, axis=1), (("batch", 8),), Along(0)),
    "order of rows": (lambda x: jn.argsort(x, axis=1), (("batch", 8),), Along(0)),
    "padded rows": (lambda x: jn.pad(x, ((0, 0), (1, 2))), (("batch", 8),), Along(0)),
    "second operand": (lambda x, y: jn.transpose(y, 0, 1) @ jn.transpose(x, 0, 1), (("batch", 8), (8, 3)), Along(1)),
    "merged behind": (  # as in PyTorch's attention
        lambda x: jn.permute(jn.reshape(jn.reshape(jn.permute(x, (1, 0, 2)), (3 * BATCH, 8)) @ W, (3, BATCH, 8)), (1, 0, 2)),
        (("batch", 3, 8),), Along(0),
    ),
    "merged in the middle": (
        lambda x: jn.permute(
            jn.reshape(jn.exp(jn.reshape(jn.permute(x, (1, 0, 2)), (24 * BATCH,))), (3, BATCH, 8)), (1, 0, 2)
        ), (("batch", 3, 8),), Along(0),
    ),
    "merged and not divided": (
        lambda x: jn.reshape(jn.permute(x, (1, 0, 2)), (3 * BATCH, 8)), (("batch", 3, 8),), Along(0, 1, 3),
    ),
    "scanned": (
        lambda x: scanned(x, lambda state, row: (jn.tanh(state + row @ W), state * 2)), (("batch", 4, 8),), Along(1),
    ),
    "nested loops": (
        lambda x: jn.fori_loop(0, 2, lambda i, v: jn.fori_loop(0, 3, lambda j, w: w * 2 + 1, v) - v, x),
        (("batch", 8),), Along(0),
    ),
    "branches": (
        lambda x, z: jn.cond(jn.sum(z) > 0, lambda: x * 2, lambda: jn.softmax(x)), (("batch", 8), (3,)), Along(0),
    ),
    "broadcast": (lambda x: x[:, None, :] + jn.broadcast_to(x[:, :1, None], (BATCH, 3, 8)), (("batch", 8),), Along(0)),
}  # fmt: skip

MIXED: dict[str, tuple[Build, tuple[tuple[Any, ...], ...], str]] = {
    "sizes of values": (lambda x: jn.nonzero(x), (("batch", 8),), "nonzero"),
    "sizes of values in between": (
        lambda x: x * jn.sum(jn.bincount(jn.cast(x[:, 0], jn.int64))), (("batch", 8),), "has a size that values decide",
    ),
    "sum": (lambda x: jn.sum(x, axis=0), (("batch", 8),), "reduces over 'batch'"),
    "softmax": (lambda x: jn.softmax(x, axis=0), (("batch", 8),), "reduces over 'batch'"),
    "centred": (lambda x: x - jn.mean(x, axis=0), (("batch", 8),), "reduces over 'batch'"),
    "gram": (lambda x: x @ jn.transpose(x, 0, 1), (("batch", 8),), "pairs elements of different positions"),
    "contracted": (lambda x: jn.transpose(x, 0, 1) @ x, (("batch", 8),), "contracts 'batch'"),
    "scan": (lambda x: jn.cumsum(x, axis=0), (("batch", 8),), "runs along 'batch'"),
    "part": (lambda x: x[1:], (("batch", 8),), "takes a part of 'batch'"),
    "reversed": (lambda x: x[::-1], (("batch", 8),), "'batch'"),
    "joined": (lambda x: jn.concat([x, x * 2], axis=0), (("batch", 8),), "joins arrays along 'batch'"),
    "padded": (lambda x: jn.pad(x, ((1, 0), (0, 0))), (("batch", 8),), "pads 'batch'"),
    "flat": (lambda x: jn.reshape(x, (8, BATCH)), (("batch", 8),), "'batch'"),
    "sorted": (lambda x: jn.sort(x, axis=0), (("batch", 8),), "'batch'"),
    "counted": (lambda x: x * BATCH, (("batch", 8),), "computes with the number 'batch'"),
    "table by the number": (lambda x, z: x + z[BATCH : BATCH + 1], (("batch", 8), (100, 8)), "computes with the number"),
    "end of a table": (lambda x, z: x + z[BATCH - 1 : BATCH], (("batch", 8), (100, 8)), "computes with the number"),
    "table by the number in a loop": (
        lambda x, z: jn.fori_loop(0, 2, lambda i, v: v + z[BATCH : BATCH + 1], x), (("batch", 8), (100, 8)), "with the number",
    ),
    "by position": (lambda x: x + jn.arange(x, BATCH)[:, None].cast(jn.float32), (("batch", 8),), "'batch'"),
    "scan of mixed rows": (
        lambda x: scanned(x, lambda state, row: (state + jn.mean(row, axis=0), row)), (("batch", 4, 8),), "reduces over",
    ),
    "scan of reversed rows": (
        lambda x: scanned(x, lambda state, row: (jn.flip(state, 0) + row, row)), (("batch", 4, 8),), "reverses 'batch'",
    ),
    "scan along": (
        lambda x: jn.scan(lambda state, row: (state + row, state), x[0] * 0, x)[1], (("batch", 8),), "'batch'",
    ),
    "nested loop of mixed rows": (
        lambda x: jn.fori_loop(0, 2, lambda i, v: jn.fori_loop(0, 3, lambda j, w: w - jn.mean(w, axis=0), v + 1), x),
        (("batch", 8),), "reduces over 'batch'",
    ),
    "branch that mixes": (
        lambda x, z: jn.cond(jn.sum(z) > 9, lambda: x * 2, lambda: x - jn.mean(x, axis=0)), (("batch", 8), (3,)),
        "reduces over",
    ),
    "branch by rows": (lambda x: jn.cond(jn.sum(x) > 0, lambda: x * 2, lambda: x), (("batch", 8),), "reduces over 'batch'"),
    "merged behind and reduced": (
        lambda x: jn.sum(jn.reshape(jn.permute(x, (1, 0, 2)), (3 * BATCH, 8)), axis=0), (("batch", 3, 8),), "reduces over",
    ),
    "merged behind and divided otherwise": (
        lambda x: jn.permute(jn.reshape(jn.reshape(jn.permute(x, (1, 0, 2)), (3 * BATCH, 8)), (BATCH, 3, 8)), (0, 1, 2)),
        (("batch", 3, 8),), "divides 'batch' among several axes",
    ),
    "square": (lambda x: x + 1, (("batch", "batch"),), "several axes"),
}  # fmt: skip


def scanned(x: Any, step: Any) -> Any:
    """A scan over the second axis of (batch, time, 8): what it stacks and what it carries, joined."""
    rows = jn.permute(x, (1, 0, 2))
    last, every = jn.scan(step, rows[0] * 0, rows)
    return jn.concat([every, last[None]], axis=0)


def in_blocks(graph: jn.Graph, shapes: tuple[tuple[Any, ...], ...], along: Along | None) -> bool:
    """Whether two blocks have the values of the whole, by the evaluator."""
    rng = np.random.default_rng(3)
    sizes = {"batch": 5, "seq": 3}
    arrays = [rng.standard_normal([sizes.get(extent, extent) for extent in shape]).astype(np.float32) for shape in shapes]
    axes = [shape.index("batch") if "batch" in shape else None for shape in shapes]
    whole = jn.evaluate(graph, *arrays)
    parts = [
        jn.evaluate(graph, *[
            array if axis is None else np.take(array, range(*part), axis) for array, axis in zip(arrays, axes, strict=True)
        ])
        for part in ((0, 2), (2, 5))
    ]  # fmt: skip
    axis = 0 if along is None else along.axis
    try:
        return np.array_equal(np.concatenate(parts, axis), whole)
    except ValueError:  # they do not even fit
        return False


@pytest.mark.parametrize("name", INDEPENDENT)
def test_graphs_that_treat_each_element_alone(name: str) -> None:
    build, shapes, expected = INDEPENDENT[name]
    graph = graph_of(build, shapes)
    assert independence(graph, "batch") == {"output0": expected}
    assert in_blocks(graph, shapes, expected) == (expected.outer == 1)


@pytest.mark.parametrize("name", MIXED)
def test_graphs_that_mix_elements(name: str) -> None:
    build, shapes, why = MIXED[name]
    found = independence(graph_of(build, shapes), "batch")
    assert isinstance(found, Mixture)
    assert why in str(found)
    assert "test_independence.py:" in str(found)
    if name != "square":
        assert not in_blocks(graph_of(build, shapes), shapes, None)


def test_rows_of_a_table_are_taken_for_each_element() -> None:
    graph = graph_of(lambda ids: jn.gather(graph_constant(ids, TABLE), ids, axis=0), (("batch", "seq"),), jn.int64)
    assert independence(graph, "batch") == {"output0": Along(0)}
    assert independence(graph, "seq") == {"output0": Along(1)}


def test_elements_taken_along_the_dim_are_mixed() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("batch", 8), "x"), jn.TensorType(jn.int64, (3,), "at")])
    x, at = graph.inputs
    graph.output(jn.gather(x, at, axis=0))
    assert "by index" in str(independence(graph, "batch"))


def test_an_output_without_the_dim_is_told_apart() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("batch", 8), "x"), jn.TensorType(jn.float32, (3,), "z")])
    x, z = graph.inputs
    graph.output(x + 1, z * 2, names=["y", "other"])
    assert independence(graph, "batch") == {"y": Along(0), "other": None}


def looped(step: Any, going: Any, *state: Any) -> Any:
    """A graph of (batch, 8) whose loop carries it, and what is made of it."""
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("batch", 8), "x")])
    (x,) = graph.inputs
    graph.output(jn.while_loop(going, step, (x, *[make(x) for make in state]))[0])
    return graph


def truths(x: Any) -> Any:
    return jn.sum(x, axis=1, keepdims=True) > 0


def halved(state: Any) -> Any:
    """Halve the rows whose truth holds, until their sum is below 1."""
    x, goes = state
    goes = jn.logical_and(goes, jn.sum(x, axis=1, keepdims=True) > 1)
    return jn.where(goes, x / 2, x), goes


def test_loops_of_a_known_length_are_looked_into() -> None:
    for step, expected in ((lambda i, v: v * 2, "Along"), (lambda i, v: v - jn.sum(v, axis=0), "reduces over"),
                           (lambda i, v: jn.flip(v, 0), "reverses")):  # fmt: skip
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("batch", 8), "x")])
        graph.output(jn.fori_loop(0, 3, step, graph.inputs[0]))
        assert expected in str(independence(graph, "batch"))


def test_a_loop_that_rows_end_is_alone_if_the_others_stay_as_they_are() -> None:
    graph = looped(halved, lambda state: jn.any(state[1]), truths)
    assert independence(graph, "batch") == {"output0": Along(0)}
    x = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32) * 9
    whole = jn.evaluate(graph, x)
    parts = [jn.evaluate(graph, part) for part in np.array_split(x, 7)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert (whole != x).any()


def test_loops_that_rows_end_together_mix_them() -> None:
    def always(state: Any) -> Any:
        return state[0] / 2, jn.logical_and(state[1], jn.sum(state[0], axis=1, keepdims=True) > 1)

    def woken(state: Any) -> Any:
        x, goes = state
        return jn.where(goes, x / 2, x), jn.sum(x, axis=1, keepdims=True) > 1

    def turned(state: Any) -> Any:
        x, goes = state
        goes = jn.logical_and(goes, jn.sum(x, axis=1, keepdims=True) > 1)
        return jn.where(goes, x, x / 2), goes

    for step in (always, woken, turned):
        assert "say so together" in str(independence(looped(step, lambda state: jn.any(state[1]), truths), "batch"))
    for going in (lambda state: jn.all(state[1]), lambda state: jn.sum(state[0]) > 1):
        assert "say so together" in str(independence(looped(halved, going, truths), "batch"))


def test_probabilities_of_support_vectors_are_computed_row_by_row() -> None:
    onnx = pytest.importorskip("onnx")
    h = onnx.helper
    rng = np.random.default_rng(1)
    numbers = {name: rng.standard_normal(count).tolist() for name, count in
               {"coefficients": 12, "support_vectors": 18, "rho": 3, "prob_a": 3, "prob_b": 3}.items()}  # fmt: skip
    node = h.make_node("SVMClassifier", ["x"], ["y", "p"], domain="ai.onnx.ml", vectors_per_class=[2, 2, 2], kernel_type="RBF",
                       kernel_params=[0.3, 0.0, 2.0], classlabels_ints=[0, 1, 2], **numbers)  # fmt: skip
    outputs = [h.make_tensor_value_info("y", 7, ["n"]), h.make_tensor_value_info("p", 1, ["n", 3])]
    made = h.make_model(h.make_graph([node], "g", [h.make_tensor_value_info("x", 1, ["n", 3])], outputs),
                        opset_imports=[h.make_opsetid("", 18), h.make_opsetid("ai.onnx.ml", 3)], ir_version=9)  # fmt: skip
    graph = jn.from_onnx(made)
    assert independence(graph, "n") == {"y": Along(0), "p": Along(0)}
    x = rng.standard_normal((50, 3)).astype(np.float32)
    whole = jn.evaluate(graph, x)[1]
    np.testing.assert_array_equal(whole, np.concatenate([jn.evaluate(graph, part)[1] for part in np.array_split(x, 6)]))


def graph_constant(symbol: Any, array: np.ndarray) -> Any:
    return symbol.graph.constant(array)


def test_a_second_truth_of_a_loop_does_not_stay() -> None:
    """A row that was done before the loop began gets the new truth in another carried value as soon as others go on."""
    types = [jn.TensorType(jn.bool, ("batch",), "t"), jn.TensorType(jn.bool, ("batch",), "u"),
             jn.TensorType(jn.float32, ("batch",), "x")]  # fmt: skip
    graph = jn.Graph("g", types)

    def body(state: Any) -> Any:
        after = jn.logical_and(state[0], state[2] > 100.0)
        return after, after, state[2]

    graph.output(*jn.while_loop(lambda state: jn.any(state[0]), body, tuple(graph.inputs)))
    assert "say so together" in str(independence(graph, "batch"))
    arrays = [np.array([False, True]), np.array([True, True]), np.zeros(2, np.float32)]
    blocks = [jn.evaluate(graph, *[each[i : i + 1] for each in arrays])[1] for i in range(2)]
    assert not np.array_equal(np.concatenate(blocks), jn.evaluate(graph, *arrays)[1])


@pytest.mark.parametrize("use", ["branch", "captured", "loop"])
def test_how_often_a_loop_ran_is_decided_by_all_rows(use: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.bool, ("batch",), "t"), jn.TensorType(jn.float32, ("batch",), "x")])
    t, x = graph.inputs

    def step(state: Any) -> Any:
        y = state[1] * 2 + 1
        return jn.logical_and(state[0], jn.abs(y) < 20.0), jn.where(state[0], y, state[1])

    y = jn.while_loop(lambda state: jn.any(state[0]), step, (t, x))[1]
    count = y.inputs[0].cast(jn.float32) if use != "captured" else y.inputs[0]
    if use == "loop":
        z = jn.fori_loop(0, 3, lambda i, v: v + count, y)
    else:
        p = graph.input(jn.bool, (), "p")
        z = jn.cond(p, lambda v: v + (count if use == "branch" else count.cast(jn.float32)), lambda v: v, y)
    graph.output(y, z)
    assert "uses how often a loop ran" in str(independence(graph, "batch"))


HOST_BRANCH = '''graph "g" semantics "max" policy "strict"
  %0 = input {index = 0, name = "x"} : float32 [batch, 3]
  %1 = input {index = 1, name = "c"} : bool []
  region "then"
    %0 = dim_value {extent = <EXTENT>} : int64 []
    %1 = cast(%0) {dtype = float32, rounding = "nearest", saturate = true} : float32 []
    output %1 "v"
  end
  region "else"
    %0 = constant {value = hex"00000000"} : float32 []
    output %0 "v"
  end
  %2 = host_branch(%1) {captured = (0, 0)} : int64 []
  %3 = host_result(%2) {dtype = float32, extents = (), index = 0, shape = ()} : float32 []
  %4 = mul(%0, %3) : float32 [batch, 3]
  output %4 "y"
'''
HOST_LOOP = '''graph "g" semantics "max" policy "strict"
  %0 = input {index = 0, name = "x"} : float32 [batch, 3]
  %1 = input {index = 1, name = "go"} : bool []
  %2 = input {index = 2, name = "most"} : int64 []
  %3 = input {index = 3, name = "seed"} : float32 [size]
  region "body"
    %0 = input {index = 0, name = "i"} : int64 []
    %1 = input {index = 1, name = "going"} : bool []
    %2 = input {index = 2, name = "s"} : float32 [t]
    %3 = dim_value {extent = <EXTENT>} : int64 []
    %4 = cast(%3) {dtype = float32, rounding = "nearest", saturate = true} : float32 []
    %5 = mul(%2, %4) : float32 [t]
    %6 = concat(%2, %5) {axis = 0} : float32 [t + t]
    output %1 "a"
    output %6 "b"
  end
  %4 = host_loop(%2, %1, %3) {captured = (0), carried = 2, limited = true} : int64 []
  %5 = host_result(%4) {dtype = float32, extents = (<k>), index = 1, shape = (<k>)} : float32 [k]
  %6 = reduce_sum(%5) {axes = (0), keepdims = false} : float32 []
  %7 = mul(%0, %6) : float32 [batch, 3]
  output %7 "y"
'''


@pytest.mark.parametrize("text", [HOST_BRANCH, HOST_LOOP], ids=["branch", "loop"])
def test_regions_of_the_host_are_looked_into(text: str) -> None:
    """They ask for a size anew, so that no operand has it."""
    budget = jn.Budget(open_loops=True)
    found = independence(from_text(text.replace("EXTENT", "batch"), budget=budget), "batch")
    assert isinstance(found, Mixture)
    assert "computes with the number 'batch'" in found.why
    text = text.replace("[batch, 3]", "[batch, other]").replace("EXTENT", "other")
    assert independence(from_text(text, budget=budget), "batch") == {"y": Along(0)}
