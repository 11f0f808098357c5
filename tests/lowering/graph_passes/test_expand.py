"""expand: composites become primitives, equal symbols become one, and nothing the user can see changes."""

import joinery as jn
import numpy as np
import pytest
from joinery import rebind
from joinery.graph.reference.evaluate import evaluate
from joinery.lowering.graph_passes.expand import expand
from joinery.promotion.errors import InternalError


def ops(graph):
    return [symbol.op.name for symbol in graph.symbols]


def test_only_primitive_ops_remain(harness):
    graph = harness.graph((4, 6), (6,), (6,))
    x, scale, bias = graph.inputs
    y = harness.layer_norm(x, scale, bias)
    graph.output(harness.op("gelu", harness.op("softmax", y, axis=1), approximate="tanh"))
    expanded = expand(graph)
    assert {symbol.op.kind for symbol in expanded.symbols} <= {"source", "map", "reduce", "view"}
    arrays = [harness.array(4, 6), harness.array(6), harness.array(6, seed=1)]
    np.testing.assert_allclose(evaluate(expanded, *arrays), evaluate(graph, *arrays), rtol=1e-5, atol=1e-6)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_int8_cast_to_int32_are_products_of_int8(turned):
    graph = jn.Graph("g", [jn.TensorType("int8", (3, 5, 40)), jn.TensorType("int8", (7, 40) if turned else (40, 7))])
    x, y = (jn.cast(each, "int32") for each in graph.inputs)
    graph.output(x @ (jn.permute(y, (1, 0)) if turned else y))
    product = next(symbol for symbol in expand(graph).symbols if symbol.op.name == "matmul")
    assert [each.dtype.name for each in product.inputs] == ["int8", "int8"]
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, spec.shape).astype(np.int8) for spec in graph.inputs)
    wide = a.astype(np.int32) @ (b.T if turned else b).astype(np.int32)
    np.testing.assert_array_equal(jn.compile(graph)(a, b), wide)


@pytest.mark.parametrize(("left", "right", "work"), [
    ("uint8", "int8", "int32"), ("int8", "int16", "int32"), ("int8", "int8", "int64"), ("int8", "int8", "float32"),
])  # fmt: skip
def test_other_widened_products_stay(left, right, work):
    graph = jn.Graph("g", [jn.TensorType(left, (3, 40)), jn.TensorType(right, (40, 7))])
    graph.output(jn.cast(graph.inputs[0], work) @ jn.cast(graph.inputs[1], work))
    product = next(symbol for symbol in expand(graph).symbols if symbol.op.name == "matmul")
    assert [each.dtype.name for each in product.inputs] == [work, work]


def test_the_given_graph_is_not_changed(harness):
    graph = harness.graph((4, 6))
    graph.output(harness.op("softmax", graph.inputs[0], axis=1))
    before = str(graph)
    expand(graph)
    assert str(graph) == before


def test_equal_expansions_are_shared(harness):
    graph = harness.graph((4, 6))
    (x,) = graph.inputs
    graph.output(
        harness.op("softmax", x, axis=1)
        + harness.op("softmax", x, axis=1) * harness.op("logsoftmax", x, axis=1)
    )
    names = ops(expand(graph))
    assert names.count("reduce_max") == 1
    assert names.count("exp_shifted") == 2  # the weights, and that of the maximum


def test_attributes_keep_symbols_apart(harness):
    graph = harness.graph((4, 4))
    (x,) = graph.inputs
    graph.output(
        harness.reduce("reduce_sum", x, 0),
        harness.reduce("reduce_sum", x, 1),
        harness.reduce("reduce_sum", x, 0, keepdims=False),
    )
    assert ops(expand(graph)).count("reduce_sum") == 3


def test_scalars_are_told_apart_by_type_and_bits(harness):
    """0.0 == -0.0 and 1 == 1.0 == True in Python, but not in a graph."""
    graph = harness.graph((3,))
    (x,) = graph.inputs
    pads = [
        harness.op("pad", x, low=(1,), high=(0,), mode="constant", value=value) for value in (0.0, -0.0, 1.0)
    ]
    graph.output(
        *pads, x * graph.scalar(0.0, "float32"), x * graph.scalar(-0.0, "float32"), names=list("abcde")
    )
    expanded = expand(graph)
    assert ops(expanded).count("pad") == 3
    assert ops(expanded).count("mul") == 2
    results = evaluate(expanded, np.ones(3, np.float32))
    assert [np.signbit(result[0]) for result in results] == [False, True, False, False, True]


def test_dead_symbols_go_and_unread_inputs_stay(harness):
    graph = harness.graph((4,), (5,))
    x, unread = graph.inputs
    harness.op("exp", unread)
    graph.output(x + 1.0)
    expanded = expand(graph)
    assert "exp" not in ops(expanded)
    assert [symbol.shape for symbol in expanded.inputs] == [(4,), (5,)]


def test_lines_names_checks_and_weights_are_kept(harness):
    graph = harness.graph(("n", 4), ("m", 4))
    x, y = graph.inputs
    weight = graph.weight("scale", np.ones(4, np.float32))
    result = harness.op("softmax", (x + rebind(y, x.shape)) * weight, axis=1)
    graph.output(result, name="probabilities")
    expanded = expand(graph)
    assert expanded.output_names == ("probabilities",)
    assert expanded.checks == graph.checks
    assert len(graph.checks) == 1
    assert list(expanded.weights) == ["scale"]
    assert expanded.outputs[0].location == result.location


def test_an_unfinished_graph_is_refused(harness):
    with pytest.raises(InternalError, match="not finished"):
        expand(harness.graph((4,)))


def test_long_reductions_are_cut_without_losing_the_remainder(harness):
    graph = harness.graph((70001,))
    graph.output(harness.op("reduce_max", graph.inputs[0], axes=(0,), keepdims=False))
    expanded = expand(graph)
    assert ops(expanded).count("reduce_max") == 3
    for position in (0, 69999, 70000):
        values = np.full(70001, -5.0, np.float32)
        values[position] = 3.0
        assert evaluate(expanded, values) == 3.0


def test_short_reductions_are_left_alone(harness):
    graph = harness.graph((65536,))
    graph.output(harness.op("reduce_max", graph.inputs[0], axes=(0,), keepdims=False))
    assert ops(expand(graph)) == ["input", "reduce_max"]
