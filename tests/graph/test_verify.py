"""The verifier finds symbols that contradict the op table, however they got there."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.location import UNKNOWN
from joinery.graph.ops.table import OPS
from joinery.graph.verify import problems, verify


def base() -> Any:
    return jn.Graph(
        "g", inputs=[jn.TensorType(jn.float32, ("n", 3), name="x"), jn.TensorType(jn.int32, (3,), name="i")]
    )


def bad(name: str, *operands: int, result: str = "float32", shape: Any = ("n", 3), **attrs: Any) -> list[str]:
    graph = base()
    extents = tuple([jn.dim(e) if isinstance(e, str) else e for e in shape])
    inputs = [graph.symbols[number] for number in operands]
    graph.restore(OPS[name], inputs, MappingProxyType(attrs), jn.DType(result), extents, UNKNOWN)
    return list(problems(graph))


def test_a_sound_graph_has_no_problems() -> None:
    graph = base()
    x, i = graph.inputs
    jn.softmax(x + i) @ np.ones((3, 2), np.float32)
    assert list(problems(graph)) == []


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        (("exp", 0), {"result": "float16"}, "its dtype is float16, the op gives float32"),
        (("exp", 0), {"shape": (3,)}, "its shape is (3,), the op gives (n, 3)"),
        (("exp", 0, 0), {}, "2 operands, the op has 1"),
        (("exp",), {}, "0 operands, the op has 1"),
        (("add", 0, 1), {}, "operands are float32, int32, the op computes in float32, float32"),
        (("exp", 1), {"result": "int32", "shape": (3,)}, "operands are int32, the op computes in float32"),
        (("exp", 0), {"axis": 1}, "attributes ['axis'], the op has []"),
        (("softmax", 0), {}, "attributes [], the op has ['axis']"),
        (("softmax", 0), {"axis": -1}, "axis -1 is not normalised"),
        (("softmax", 0), {"axis": 5}, "out of range"),
        (("reduce_sum", 0), {"axes": (1, 0), "keepdims": False, "shape": ()}, "not sorted"),
        (("reduce_sum", 0), {"axes": (0,), "keepdims": 1, "shape": (3,)}, "keepdims must be True or False"),
        (("argmax", 0), {"axes": (0, 1), "keepdims": False, "shape": (), "result": "int64"}, "exactly one axis"),
        (("reshape", 0), {"shape_": 1}, "attributes"),
        (("permute", 0), {"axes": (0,)}, "no permutation"),
        (("slice", 0), {"starts": (0,), "stops": (1,), "steps": (1,)}, "slice attributes for 1 axes"),
        (("slice", 0), {"starts": (0, 2), "stops": (1, 9), "steps": (1, 1)}, "leaves axis 1 of size 3"),
        (("slice", 0), {"starts": (0, 0), "stops": (1, 3), "steps": (1, 0)}, "slice step 0"),
        (("concat", 0, 0), {"axis": 2}, "out of range"),
        (("gather", 0, 0), {"axis": 0}, "the indices must be integers"),
        (("pad", 0), {"low": (0, 0), "high": (0,), "mode": "constant", "value": 0}, "pad widths"),
        (("pad", 0), {"low": (0, 0), "high": (0, 0), "mode": "wrap", "value": 0}, "unknown mode"),
        (("cast", 0), {"dtype": jn.int8, "rounding": "nearest", "saturate": True}, "the op gives int8"),
        (("constant",), {"value": np.ones(3)}, "it holds float64 (3,), its type is float32 (n, 3)"),
        (("dim_value",), {"extent": 3}, "a size is an int64 scalar"),
        (("matmul", 0, 0), {"accumulate": 1, "precision": "ieee"}, "accumulate must be the dtype of a tensor, not 1"),
        (("matmul", 0, 0), {"accumulate": jn.int32, "precision": "ieee"}, "are accumulated in float32, not int32"),
        (("bitcast", 0), {"dtype": jn.int64, "result": "int64"}, "float32 has 32 bits, int64 has 64"),
        (("layer_norm", 0), {"epsilon": 1e-5, "has_scale": True, "has_bias": False}, "1 operands, the attributes say 2"),
    ],
)  # fmt: skip
def test_every_contradiction_is_found(
    arguments: tuple[Any, ...], options: dict[str, Any], problem: str
) -> None:
    found = bad(*arguments, **options)
    assert any(problem in line for line in found), found
    assert all(line.startswith("%2 ") for line in found)


def test_operands_must_come_first_and_belong_to_the_graph() -> None:
    graph, other = base(), base()
    graph.restore(
        OPS["exp"], [other.symbols[0]], MappingProxyType({}), jn.float32, other.symbols[0].shape, UNKNOWN
    )
    assert any("does not come before it" in line for line in problems(graph))


def test_the_builders_faults_are_internal_errors() -> None:
    graph = base()
    graph.restore(
        OPS["exp"], [graph.symbols[0]], MappingProxyType({}), jn.float64, graph.symbols[0].shape, UNKNOWN
    )
    with pytest.raises(jn.InternalError, match="graph 'g': %2 exp: its dtype is float64"):
        verify(graph)
    with pytest.raises(jn.InternalError):
        graph.output(graph.symbols[2])


def test_a_dim_no_input_has_is_the_users_mistake() -> None:
    graph = base()
    y = jn.zeros(graph, ("heads", 2))
    with pytest.raises(
        jn.UserError, match=r"the dim heads appears in the shape of no input(.|\n)*dims of the inputs: n"
    ):
        graph.output(y)
    assert not graph.finished
    graph.output(graph.inputs[0])
    assert graph.finished
