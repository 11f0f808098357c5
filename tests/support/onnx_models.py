"""Models in ONNX for tests, and the comparison with ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import joinery as jn
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

Shape = Sequence["int | str | None"]


def code(dtype: Any) -> int:
    """ONNX's number of a NumPy dtype."""
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def value(name: str, dtype: Any, shape: Shape | None) -> Any:
    """The declaration of an input or output."""
    return helper.make_tensor_value_info(name, code(dtype), shape)


def node(op: str, inputs: str, outputs: str = "y", **attributes: Any) -> Any:
    """A node from names with spaces between; `_` is an input or output that is left out."""
    names = [["" if name == "_" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(op, *names, **attributes)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, tuple[Any, Shape]],
    outputs: str = "y",
    *,
    constants: Mapping[str, Any] | None = None,
    opset: int = 23,
    functions: Sequence[Any] = (),
    domains: Mapping[str, int] | None = None,
) -> Any:
    """A model; outputs are declared without a type, which proves nothing anyway."""
    graph = helper.make_graph(
        list(nodes), "graph", [value(name, dtype, shape) for name, (dtype, shape) in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs.split()],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (constants or {}).items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(*entry) for entry in (domains or {}).items())]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)


def body(nodes: Sequence[Any], inputs: Mapping[str, tuple[Any, Shape]], outputs: str) -> Any:
    """A subgraph whose outputs have no declared type."""
    return model(nodes, inputs, outputs).graph


def evaluated(made: Any, *arrays: Any, **options: Any) -> list[Any]:
    """What the imported model computes, as the reference evaluator of graphs says."""
    graph = jn.from_onnx(made, **options)
    assert graph.casts() == ()
    results = jn.evaluate(graph, *arrays)
    return list(results) if isinstance(results, tuple) else [results]


def agrees(made: Any, *arrays: Any, rtol: float = 1e-5, atol: float = 1e-6, **options: Any) -> list[Any]:
    """Compare an imported model with ONNX's reference evaluator: shapes and dtypes exactly, values closely."""
    found = evaluated(made, *arrays, **options)
    given = [each.name for each in made.graph.input if each.name not in (options.get("constants") or {})]
    feeds = {**dict(zip(given, arrays, strict=True)), **(options.get("constants") or {})}
    expected = ReferenceEvaluator(made).run(None, feeds)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (np.asarray(other).dtype, np.shape(other))
        np.testing.assert_allclose(one, other, rtol=rtol, atol=atol)
    return found


__all__ = [
    "ReferenceEvaluator", "TensorProto", "agrees", "body", "code", "evaluated", "helper", "model", "node", "numpy_helper",
    "value",
]  # fmt: skip
