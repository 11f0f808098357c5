"""Positions out of range in models: clamped or dropped, or with `check_positions` an error, as onnxruntime has it."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import parser  # noqa: E402

onnxruntime = pytest.importorskip("onnxruntime")

X = np.arange(12, dtype=np.float32).reshape(3, 4)
REFUSED = r"out of bounds|out of data bounds|invalid ind|Out of range"
NODES = {
    "Gather": ("int64[k] i", "y = Gather <axis = 1> (x, i)", [0, -1], [0, 4], 1),
    "GatherElements": ("int64[3, 1] i", "y = GatherElements <axis = 1> (x, i)", [[0], [3], [-4]], [[0], [9], [1]], 1),
    "GatherND": ("int64[k, 2] i", "y = GatherND (x, i)", [[0, 3], [-1, -4]], [[0, 3], [3, 1]], 0),
    "ScatterElements": ("int64[1, 4] i", "u = Slice (x, zero, one)\n y = ScatterElements (x, i, u)", [[0, 1, 2, -3]],
                        [[0, 1, 2, 3]], 0),
    "ScatterND": ("int64[k, 1] i", "u = Slice (x, zero, one)\n y = ScatterND (x, i, u)", [[-1]], [[7]], 0),
}  # fmt: skip


def model(indices: str, body: str) -> Any:
    head = '<ir_version: 8, opset_import: ["" : 18]>\n'
    constants = "zero = Constant <value = int64[1] {0}> ()\n one = Constant <value = int64[1] {1}> ()\n"
    made = parser.parse_model(f"{head}g (float[n, 4] x, {indices}) => (float[a, b] y) {{ {constants} {body} }}")
    del made.graph.output[0].type.tensor_type.shape.dim[:]
    made.graph.output[0].type.tensor_type.ClearField("shape")
    return made


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", NODES)
def test_errors_that_onnxruntime_raises_too(op: str) -> None:
    indices, body, good, bad, axis = NODES[op]
    made = model(indices, body)
    session = onnxruntime.InferenceSession(made.SerializeToString())
    graph = jn.from_onnx(made, check_positions=True)
    right, wrong = np.array(good, np.int64), np.array(bad, np.int64)
    (wanted,) = session.run(None, {"x": X, "i": right})
    for run in (jn.compile(graph, "cpu"), jn.compile_onnx(made, "cpu", check_positions=True)):
        np.testing.assert_array_equal(run(X, right), wanted)
        with pytest.raises(jn.UserError, match=rf"position {wrong.max()}.*axis {axis}, whose size is"):
            run(X, wrong)
    with pytest.raises(Exception, match=REFUSED):
        session.run(None, {"x": X, "i": wrong})
    exported = onnxruntime.InferenceSession(jn.to_onnx(graph).SerializeToString())
    np.testing.assert_array_equal(exported.run(None, {"x": X, "i": right})[0], wanted)
    assert jn.compile(jn.from_onnx(made), "cpu")(X, wrong).shape == wanted.shape  # clamped or left out


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "ScatterElements"])
def test_what_is_exported_leaves_the_error_to_the_runtime(op: str) -> None:
    indices, body, _, bad, _ = NODES[op]
    graph = jn.from_onnx(model(indices, body), check_positions=True)
    session = onnxruntime.InferenceSession(jn.to_onnx(graph).SerializeToString())
    with pytest.raises(Exception, match=REFUSED):
        session.run(None, {"x": X, "i": np.array(bad, np.int64)})


@pytest.mark.parametrize("flag", [True, False])
def test_a_branch_that_is_not_taken_raises_nothing(flag: bool) -> None:
    head = '<ir_version: 8, opset_import: ["" : 18]>\n'
    made = parser.parse_model(f"""{head}g (float[3, 4] x, int64[k] i, bool flag) => (float[k, 4] y) {{
        y = If (flag) <
            then_branch = a () => (float[k, 4] p) {{ p = Gather (x, i) }},
            else_branch = b () => (float[k, 4] q) {{ r = Gather (x, i)
              q = Neg (r) }}
        > }}""")
    run = jn.compile(jn.from_onnx(made, check_positions=True), "cpu")
    assert run(X, np.array([0, 9]), np.array(flag)).shape == (2, 4)
