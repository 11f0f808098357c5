"""Exports graphs and models of one node, runs them in onnxruntime, and reads them back."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
from onnx import ValueInfoProto, helper, numpy_helper

from .agreement import by_onnxruntime, exported
from .structure import structure

RNG = np.random.default_rng(11)


def floats(*shape: int, dtype: str = "float32") -> Any:
    return RNG.normal(size=shape).astype(dtype)


def agrees(
    graph: Any, arrays: list[Any], tolerance: float = 2e-5, steps: int = 0, is_same: bool = True, **options: Any
) -> list[str]:
    """Export a graph, and return the operators: values are onnxruntime's, bytes are the same again, and it is read back.

    is_same: whether it is the same graph then, and not only one of the same values.
    """
    made = exported(graph, **options)
    want = jn.evaluate(graph, *arrays)
    for got, expected in zip(by_onnxruntime(made, graph, arrays), want if isinstance(want, tuple) else (want,), strict=True):
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        if steps:  # codes that lie halfway may become either
            assert np.abs(got.astype(int) - expected.astype(int)).max() <= steps
        else:
            wide = expected.astype(np.float64)
            largest = float(np.abs(wide[np.isfinite(wide)]).max(initial=0.0))
            np.testing.assert_allclose(got.astype(np.float64), wide, tolerance, tolerance * max(largest, 1.0))
    assert jn.to_onnx(graph, **options).SerializeToString(deterministic=True) == made.SerializeToString(deterministic=True)
    back = jn.from_onnx(made)
    if is_same:
        assert structure(back) == structure(graph)
    else:
        expected = jn.evaluate(graph, *arrays)
        np.testing.assert_allclose(jn.evaluate(back, *arrays), expected, tolerance, tolerance * float(np.abs(expected).max()))
    return [node.op_type for node in made.graph.node]


def imported(
    op: str, inputs: list[Any], known: tuple[int, ...] = (), dims: dict[int, list[Any]] | None = None, outputs: int = 1,
    opset: int = 21, **attributes: Any,
) -> tuple[Any, list[Any]]:  # fmt: skip
    """The graph of one node, and the arrays of its inputs. known: which are constants; None: an input that is left out."""
    names = [f"i{number}" if array is not None else "" for number, array in enumerate(inputs)]
    given = {name: (number, array) for number, (name, array) in enumerate(zip(names, inputs, strict=True)) if name}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), (dims or {}).get(number, array.shape))
        for name, (number, array) in given.items() if number not in known
    ]  # fmt: skip
    results = [f"o{number}" for number in range(outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, (number, array) in given.items() if number in known]
    node = helper.make_node(op, names, results, **attributes)
    made = helper.make_graph([node], "g", infos, [ValueInfoProto(name=name) for name in results], tensors)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return jn.from_onnx(model), [array for number, array in given.values() if number not in known]


def built(function: Any, *types: tuple[str, tuple[Any, ...]]) -> Any:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{number}") for number, (dtype, shape) in enumerate(types)])
    found = function(*graph.inputs)
    graph.output(*(found if isinstance(found, tuple) else (found,)))
    return graph
