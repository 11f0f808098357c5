"""What a model looks like: names, casts, metadata, functions, opsets, determinism, and the errors of `to_onnx`."""

from __future__ import annotations

import sys
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest

from ....support.onnx_export.agreement import by_reference, difference, exported, outputs
from ....support.onnx_export.cases import op_cases
from ....support.onnx_export.structure import structure

F = np.float32


def layer() -> Any:
    graph = jn.Graph("layer", [jn.TensorType(jn.float32, ("n", 4), "x"), jn.TensorType(jn.int8, ("n", 4), "mask")])
    x, mask = graph.inputs
    graph.output(jn.silu(x @ graph.weight("w", np.eye(4, dtype=F))) + mask, name="y")
    return graph


def metadata(message: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in message.metadata_props}


def test_each_symbol_is_one_node_that_names_its_symbol_and_line() -> None:
    model = exported(layer())
    assert [(node.op_type, node.domain, list(node.input), list(node.output)) for node in model.graph.node] == [
        ("MatMul", "", ["x", "w"], ["matmul_3"]),
        ("silu_float32", "joinery", ["matmul_3"], ["silu_4"]),
        ("Cast", "", ["mask"], ["cast_5"]),
        ("Add", "", ["silu_4", "cast_5"], ["y"]),
    ]
    found = metadata(model.graph.node[1])
    assert found["joinery.symbol"] == "%4 silu"
    assert found["joinery.location"].startswith("test_model.py:")
    assert found["joinery.location"].endswith(" in layer")
    assert [each.name for each in model.graph.initializer] == ["w"]
    assert (model.producer_name, model.ir_version, model.graph.name) == ("joinery", 10, "layer")
    assert metadata(model) == {"joinery.semantics": "max", "joinery.policy": "lattice"}


def test_implicit_casts_are_nodes_that_say_so() -> None:
    graph = layer()
    (entry,) = graph.casts()
    casts = [node for node in exported(graph).graph.node if node.op_type == "Cast"]
    assert [metadata(node)["joinery.cast"] for node in casts] == ["implicit add"]
    assert metadata(casts[0])["joinery.loss"] == str(entry.loss)


def test_functions_have_the_definition_of_their_op_and_are_written_once() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (4,), "x")])
    (x,) = graph.inputs
    graph.output(jn.silu(jn.silu(x)), jn.var(x), jn.var(x, correction=1))
    model = exported(graph)
    assert [function.name for function in model.functions] == ["silu_float32", "var_float32", "var_float32_2"]
    assert model.functions[0].doc_string == "x · sigmoid(x)."
    assert [node.op_type for node in model.graph.node] == ["silu_float32", "silu_float32", "var_float32", "var_float32_2"]


def test_equal_graphs_give_equal_bytes() -> None:
    one, two = (jn.to_onnx(layer()).SerializeToString(deterministic=True) for _ in range(2))
    assert one == two


def test_the_file_holds_the_model(tmp_path: Any) -> None:
    path = tmp_path / "layer.onnx"
    model = jn.to_onnx(layer(), path)
    assert path.read_bytes() == model.SerializeToString(deterministic=True)
    assert structure(jn.from_onnx(path)) == structure(layer())


def test_outputs_may_be_inputs_weights_constants_sizes_and_each_other() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n",), "x")])
    (x,) = graph.inputs
    y = jn.exp(x)
    graph.output(
        x, x, y, y, graph.weight("w", np.ones(2, F)), graph.scalar(3, jn.int16), graph.dim_value(x.shape[0]),
        jn.floor(jn.argmax(x)),
        names=["x", "again", "y", "z", "w", "c", "n", "f"],
    )  # fmt: skip
    model = exported(graph)
    array = np.linspace(0, 1, 5, dtype=F)
    for got, want in zip(by_reference(model, graph, [array]), outputs(graph, [array]), strict=True):
        assert not difference(got, want, "float32")
    assert [each.name for each in model.graph.output] == ["x", "again", "y", "z", "w", "c", "n", "f"]


def test_names_that_nodes_would_get_may_be_taken() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2,), "exp_2"), jn.TensorType(jn.float32, (2,), "constant")])
    x, y = graph.inputs
    graph.output(jn.exp(x) * y + graph.weight("weight/a b", np.ones(2, F)), -y, names=["mul_3", "shape"])
    model = exported(graph)
    arrays = [np.ones(2, F), np.full(2, 2, F)]
    for got, want in zip(by_reference(model, graph, arrays), outputs(graph, arrays), strict=True):
        assert not difference(got, want, "float32")


def test_unused_symbols_are_left_out_and_unused_inputs_kept() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2,), "x"), jn.TensorType(jn.float32, (2,), "unused")])
    x, _ = graph.inputs
    jn.sin(x)
    graph.output(jn.cos(x), name="y")
    model = exported(graph)
    assert [node.op_type for node in model.graph.node] == ["Cos"]
    assert [each.name for each in model.graph.input] == ["x", "unused"]


@pytest.mark.parametrize("opset", range(18, 29))
def test_older_and_newer_opsets_compute_the_same(opset: int) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3, 4), "x"), jn.TensorType(jn.int32, (3, 4), "i")])
    x, i = graph.inputs
    scale = graph.weight("scale", np.linspace(0.5, 2, 4, dtype=F))
    graph.output(
        jn.gelu(x), jn.gelu(x, approximate="tanh"), jn.rms_norm(x, scale), jn.layer_norm(x, scale), jn.reshape(x, (4, 3)),
        jn.pad(x, 1), jn.sum(i, axis=0), i << 2, i // 3, jn.max(x, axis=1), x[::-1], x[:, :2],
    )  # fmt: skip
    model = exported(graph, opset=opset)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", opset), ("joinery", 1)]
    arrays = [np.random.default_rng(0).normal(size=(3, 4)).astype(F), np.arange(-6, 6, dtype=np.int32).reshape(3, 4)]
    for number, (got, want) in enumerate(zip(by_reference(model, graph, arrays), outputs(graph, arrays), strict=True)):
        assert not difference(got, want, "float32"), number
    assert structure(jn.from_onnx(model)) == structure(graph)


@pytest.mark.slow
@pytest.mark.parametrize("opset", [18, 19, 20, 22, 23, 24, 25, 26, 27, 28])
def test_every_op_is_accepted_in_every_opset_that_has_its_dtypes(opset: int) -> None:
    refused = set()
    for case in op_cases():
        told = ""
        try:
            exported(case.graph, opset=opset)
        except jn.UnsupportedError as error:
            told = str(error)
            refused.add(case.row if case.row == "bitcast" else case.dtype)
        assert not told or "fix: opset=" in told
    stored = {str(symbol) for symbol in ("int4", "uint4", "bfloat16", "bool")}
    assert opset >= 26 or "bitcast" in refused
    assert opset < 26 or not refused
    assert opset > 18 or stored & refused


def test_a_newer_opset_is_taken_where_the_graph_needs_it_and_named_where_it_is_given() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2,), "x")])
    graph.output(graph.inputs[0].bitcast(jn.int32), name="y")
    model = exported(graph)
    assert [entry.version for entry in model.opset_import if entry.domain == ""] == [26]
    assert model.ir_version == 13
    text = r"bitcast at test_model.*BitCast is in opset 26 and later, not in 21(.|\n)*fix: opset=26"
    with pytest.raises(jn.UnsupportedError, match=text):
        jn.to_onnx(graph, opset=21)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"opset": 17}, "opset 17; expected 18 to 28; fix: leave it out for 21"),
        ({"opset": 29}, "opset 29; expected 18 to 28"),
        ({"opset": "21"}, "opset '21'; expected 18 to 28"),
        ({"opset": True}, "opset True; expected 18 to 28"),
        ({"external_data": "yes"}, "external_data 'yes'; expected \"auto\", True, False or a number of bytes; fix: "),
        ({"external_data": -1}, "external_data -1; expected"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], text: str) -> None:
    with pytest.raises(jn.UserError) as caught:
        jn.to_onnx(layer(), **options)
    assert text in str(caught.value)


def test_a_graph_without_outputs_and_what_is_no_graph_are_told() -> None:
    with pytest.raises(jn.UserError, match=r"to_onnx: graph 'g' has no outputs yet; fix: call graph\.output"):
        jn.to_onnx(jn.Graph("g", [jn.TensorType(jn.float32, (), "x")]))
    with pytest.raises(jn.UserError, match="to_onnx"):
        jn.to_onnx(3)  # type: ignore[arg-type]


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(jn.UserError, match=r"to_onnx needs the package onnx; fix: pip install 'joinery-graph\[onnx\]'"):
        jn.to_onnx(layer())


def test_an_output_with_the_name_of_another_input_is_refused() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (), "x")])
    graph.output(-graph.inputs[0], name="x")
    with pytest.raises(jn.UnsupportedError, match=r"output 'x' is another value than the input .* fix: graph\.output"):
        jn.to_onnx(graph)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: jn.matmul(x, x, precision="tf32"), r'matmul at test_model.*ONNX has no precision="tf32"(.|\n)*fix: matmul'),
        (lambda x: x.cast(jn.float16, rounding="toward_zero"), r"cast at test_model.*toward_zero(.|\n)*fix: cast with"),
        (lambda x: x.cast(jn.tensor_float32), r"cast at test_model.*ONNX has no tensor_float32(.|\n)*fix: cast to float32"),
        (lambda x: x.cast(jn.float8_e8m0fnu), r"cast at test_model(.|\n)*powers of two(.|\n)*fix: cast to another"),
        (lambda x: x.cast(jn.float8_e3m4), r"cast at test_model.*float8_e3m4 is no tensor data type(.|\n)*fix: cast"),
    ],
)
def test_what_onnx_has_no_form_of_is_refused(build: Any, text: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 2), "x")])
    graph.output(build(graph.inputs[0]))
    with pytest.raises(jn.UnsupportedError, match=text):
        jn.to_onnx(graph)


def test_casts_that_round_nothing_may_round_towards_zero() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float16, (2,), "x")])
    graph.output(graph.inputs[0].cast(jn.float32, rounding="toward_zero"))
    exported(graph)


# -- functions that are read back ------------------------------------------------------------------------------------------


def silu_model() -> Any:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (3,), "x")])
    graph.output(jn.silu(graph.inputs[0]), name="y")
    return exported(graph)


def ops_of(model: Any) -> list[str]:
    return [symbol.op.name for symbol in jn.from_onnx(model).symbols if symbol.op.kind != "source"]


def test_a_function_of_this_exporter_is_its_op_again() -> None:
    assert ops_of(silu_model()) == ["silu"]


def test_a_function_that_computes_something_else_is_not_taken_for_the_op_it_names() -> None:
    model = silu_model()
    (node,) = [node for node in model.functions[0].node if node.op_type == "Sigmoid"]
    node.op_type = "Tanh"
    assert ops_of(model) != ["silu"]
    array = np.array([0.5, -1, 2], F)
    np.testing.assert_allclose(jn.evaluate(jn.from_onnx(model), array), array * np.tanh(array), rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "", "[", "[]", "null", "7", '{"row": 1}', '["silu",["float32"],"float32",{"axis":1}]',
        '["nothing",["float32"],"float32",{}]',
        '["silu",["float32","float32"],"float32",{}]', '["silu",[],"float32",{}]', '["silu",["float64"],"float64",{}]',
        '["input",[],"float32",{"index":0,"name":"x"}]', '["relu",["float32"],"float32",{}]', "[" * 4000, "x" * 100_000,
        '["silu",["weak_float"],"float32",{}]', '["silu","float32","float32",{}]', '[["silu"],[],[],[]]',
        '["layer_norm",["float32"],"float32",{"epsilon":"a","has_bias":1,"has_scale":2}]',
        '["reduce_max",["float32"],"float32",{"axes":[-9],"keepdims":false}]',
    ],
)  # fmt: skip
def test_a_claim_that_is_not_true_is_inlined(text: str) -> None:
    model = silu_model()
    (entry,) = [entry for entry in model.functions[0].metadata_props if entry.key == "joinery.call"]
    entry.value = text
    assert sorted(ops_of(model)) == ["equal", "mul", "sigmoid", "where"]


def test_operands_of_another_dtype_than_the_function_was_written_for_are_inlined() -> None:
    model = silu_model()
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    with pytest.raises(jn.UserError):  # the body's constants are float32
        jn.from_onnx(model)


def test_a_function_without_the_metadata_is_inlined() -> None:
    model = silu_model()
    del model.functions[0].metadata_props[:]
    assert "silu" not in ops_of(model)
    model.functions[0].metadata_props.add(key="joinery.call", value='["silu",["float32"],"float32",{}]')
    assert ops_of(model) == ["silu"]


def test_functions_of_constants_are_folded() -> None:
    model = silu_model()
    graph = jn.from_onnx(model, constants={"x": np.array([0.0, 1, 2], F)})
    assert [symbol.op.name for symbol in graph.symbols] == ["constant"]
