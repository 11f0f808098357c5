"""Valid models at the ends of what their operators allow: empty axes, nothing to reduce, steps beyond every axis, sequences of
different lengths. onnxruntime witnesses."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import body, model, node

F = np.float32


def same(made: Any, *arrays: Any) -> None:
    """Compare the evaluator and compiled code with onnxruntime."""
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, dict(zip([each.name for each in made.graph.input], arrays, strict=True)))
    graph = jn.from_onnx(made)
    assert graph.casts() == ()
    for run in (lambda *given: jn.evaluate(graph, *given), jn.compile(graph, device="cpu")):
        found = run(*arrays)
        for one, other in zip(found if isinstance(found, tuple) else (found,), want, strict=True):
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*the size is 0")
@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax_of_an_axis_that_may_be_empty(opset: int) -> None:
    lines = np.array([[3, 1, 3], [-np.inf, -np.inf, -np.inf], [-np.inf, 2, 5]], F)
    for shape, arrays in (([3, 0], [lines[:, :0]]), ([3, "n"], [lines, lines[:, :1], lines[:, :0]])):
        made = model([node("Hardmax", "x", axis=1)], {"x": (F, shape)}, opset=opset)
        for each in arrays:
            same(made, each)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_logarithm_of_the_sum_of_nothing_but_one_integer(dtype: Any) -> None:
    inputs = {"x": (dtype, [4]), "axes": (np.int64, [0])}
    made = model([node("ReduceLogSum", "x axes", noop_with_empty_axes=1)], inputs, opset=18)
    del made.graph.input[1:]
    made.graph.initializer.extend(model([], {}, "", constants={"axes": np.zeros(0, np.int64)}).graph.initializer)
    same(made, np.array([1, 2, 100, 3000], dtype))
    same(model([node("ReduceLogSum", "x", keepdims=0)], {"x": (dtype, [])}, opset=18), np.array(100, dtype))


@pytest.mark.parametrize("step", [2**62, 2**63 - 1, -(2**62), -(2**63)])
def test_steps_beyond_every_axis(step: int) -> None:
    ends = {"s": np.array([1 if step > 0 else -1]), "e": np.array([2**63 - 1 if step > 0 else -(2**63)])}
    constants = {**ends, "a": np.array([0]), "by": np.array([step])}
    made = model([node("Slice", "x s e a by")], {"x": (np.float64, ["n"])}, constants=constants)
    for count in (5, 1, 2):
        same(made, np.arange(1.0, count + 1))
    graph = jn.Graph("g", [jn.TensorType(jn.float64, ("n", 3), "x")])
    graph.output(graph.inputs[0][::step])
    x = np.arange(12.0).reshape(4, 3)
    np.testing.assert_array_equal(jn.compile(graph, device="cpu")(x), x[::step])


def scanned(lengths: Any, direction: int) -> Any:
    step = body([node("Add", "s e", "so"), node("Mul", "so e", "sc")], {"s": (F, [2]), "e": (F, [2])}, "so sc")
    inputs = {"first": (F, [2, 2]), "x": (F, [2, 3, 2])}
    scan = node("Scan", "lengths first x", "last rows", body=step, num_scan_inputs=1, directions=[direction])
    made = model([scan], inputs, "last rows", constants={"lengths": np.array(lengths)}, opset=8)
    for each in step.output:
        each.type.tensor_type.elem_type = 1
    for each in (*made.graph.node[0].attribute[0].g.output, *made.graph.output):
        each.type.tensor_type.elem_type = 1
    return made


@pytest.mark.one_in(2)
@pytest.mark.parametrize("direction", [0, 1])
def test_sequences_of_different_lengths(direction: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 2)).astype(F)
    for lengths in ([2, 3], [3, 3], [1, 2]):
        same(scanned(lengths, direction), np.ones((2, 2), F), x)


@pytest.mark.parametrize("lengths", [[0, 3], [4, 1], [-1, 2], [2]])
def test_lengths_that_no_sequence_has(lengths: list[int]) -> None:
    with pytest.raises(jn.UserError, match=r"Scan[\s\S]*sequence_lens .* for 2 sequences of 3"):
        jn.from_onnx(scanned(lengths, 0))
