"""What a model says of itself and does not keep: outputs that operators do not have, other types, missing values."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import onnx
import pytest

from ...support.onnx_models import body, model, node, value

F = np.float32


def declared(dtype: Any, shape: list[Any] | None) -> Any:
    made = model([node("Relu", "x")], {"x": (F, [2, "n"])})
    made.graph.output[0].CopyFrom(value("y", dtype, shape))
    return made


@pytest.mark.parametrize("outputs", ["y z", "y _", "_ y"])
def test_more_outputs_than_the_operator_gives(outputs: str) -> None:
    made = model([node("Relu", "x", outputs)], {"x": (F, [2])})
    with pytest.raises(onnx.checker.ValidationError):
        onnx.checker.check_model(made, full_check=True)
    with pytest.raises(jn.UserError, match=r"node 0 \(Relu\).*2 outputs, the operator gives 1; fix:"):
        jn.from_onnx(made)


def test_operators_with_several_outputs_keep_them() -> None:
    made = model([node("Split", "x", "a b c", num_outputs=3)], {"x": (F, [6])}, "a b c", opset=18)
    assert [each.tolist() for each in jn.evaluate(jn.from_onnx(made), np.arange(6, dtype=F))] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("dtype", [np.int64, np.float64, np.float16, bool])
def test_an_output_of_another_dtype(dtype: Any) -> None:
    with pytest.raises(jn.UserError, match=r"output 'y' is declared as \w+, and is float32; fix:"):
        jn.from_onnx(declared(dtype, [2, "n"]))


@pytest.mark.parametrize("shape", [[7], [3, "n"], [2, 3, 4], []])
def test_an_output_of_another_shape_is_worth_a_warning(shape: list[Any]) -> None:
    with pytest.warns(UserWarning, match=r"output 'y' is declared with the shape \(.*\), and has \(2, n\)"):
        graph = jn.from_onnx(declared(F, shape))
    np.testing.assert_array_equal(jn.evaluate(graph, -np.ones((2, 3), F)), np.zeros((2, 3), F))


@pytest.mark.parametrize("shape", [None, [2, "n"], ["a", "b"], [2, 5], [None, None], [0, "n"]])
def test_what_may_be_is_no_warning(shape: list[Any] | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jn.from_onnx(declared(F, shape))


def test_an_output_that_nothing_computes() -> None:
    with pytest.raises(jn.UserError, match=r"output 'other' has no value, nothing in graph 'graph' computes it; fix:"):
        jn.from_onnx(model([node("Relu", "x")], {"x": (F, [2])}, "other"))
    arm = body([node("Relu", "x", "a")], {}, "b")
    made = model([node("If", "c", then_branch=arm, else_branch=arm)], {"c": (bool, []), "x": (F, [2])})
    with pytest.raises(jn.JoineryError, match=r"'b'.*fix:"):
        jn.from_onnx(made)


def test_external_data_names_the_file_and_the_node(tmp_path: Path) -> None:
    made = model([node("Add", "x w")], {"x": (F, [2])}, constants={"w": np.ones(2, F)})
    constant = node("Constant", "", "c", value=onnx.numpy_helper.from_array(np.ones(2, F), "held"))
    inner = model([constant, node("Add", "x c")], {"x": (F, [2])})
    for each, tensor, where in (
        (made, made.graph.initializer[0], "external data of tensor 'w'"),
        (inner, inner.graph.node[0].attribute[0].t, r"node 0 \(Constant\): external data of tensor 'held'"),
    ):
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        tensor.external_data.add(key="location", value="gone.bin")
        (tmp_path / "m.onnx").write_bytes(each.SerializeToString())
        with pytest.raises(jn.UserError, match=rf"m\.onnx: graph 'graph': {where}"):
            jn.from_onnx(tmp_path / "m.onnx")
