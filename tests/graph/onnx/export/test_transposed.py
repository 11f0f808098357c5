"""Transposed convolutions, which are convolutions of residues here, become the one node that they were."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_export.structure import structure
from .test_windows import agrees, model, node, operators, weights

RNG = np.random.default_rng(11)
OPERATOR = "ConvTranspose"

CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "plain": ((4, 3, 3, 3), {}),
    "as far apart as it is wide": ((4, 3, 2, 2), {"strides": [2, 2]}),
    "classes of two sizes": ((4, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 0]}),
    "residues without taps": ((4, 3, 2, 1), {"strides": [3, 2], "output_padding": [1, 0]}),
    "dilation": ((4, 3, 3, 2), {"strides": [2, 3], "dilations": [3, 2], "pads": [2, 0, 1, 1]}),
    "groups": ((4, 3, 4, 3), {"strides": [2, 1], "group": 2, "pads": [1, 0, 0, 1]}),
    "depthwise": ((4, 1, 3, 3), {"strides": [2, 2], "group": 4}),
    "one axis": ((4, 2, 5), {"strides": [3], "pads": [2, 1]}),
    "as large as strides say": ((4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_an_imported_node_is_the_one_that_it_was(case: str, sized: bool) -> None:
    shape, attributes = CASES[case]
    spatial = [7, 6][: len(shape) - 2]
    filters = shape[1] * attributes.get("group", 1)
    sizes = spatial if sized else ["height", "width"][: len(spatial)]
    made_of = {"w": weights(*shape), "b": weights(filters)}
    graph = jn.from_onnx(model([node(OPERATOR, "x", "w", "b", "y", **attributes)], ["n", 4, *sizes], made_of))
    made = agrees(graph, RNG.normal(size=(2, 4, *spatial)).astype(np.float32))
    assert operators(made) == [OPERATOR]
    assert structure(jn.from_onnx(made)) == structure(graph)


@pytest.mark.parametrize("source", ["an input", "a constant"])
def test_weights_that_are_symbols_are_read_by_the_node(source: str) -> None:
    kernel, is_input = weights(3, 4, 5, 2), source == "an input"
    types = [jn.TensorType(jn.float32, (2, 2, "h", 6), "x"), jn.TensorType(jn.float32, kernel.shape, "w")]
    graph = jn.Graph("g", types if is_input else types[:1])
    factors = graph.inputs[1] if is_input else graph.constant(kernel)
    last = graph.inputs[0].permute((0, 2, 3, 1))
    graph.output(jn.conv_transpose(last, factors, (2, 3), padding=1).permute((0, 3, 1, 2)))
    x = RNG.normal(size=(2, 2, 5, 6)).astype(np.float32)
    made = agrees(graph, *([x, kernel] if is_input else [x]))
    assert operators(made) == ["Transpose", OPERATOR]
    assert structure(jn.from_onnx(made)) == structure(graph)


@pytest.mark.parametrize("case", ["more than onnxruntime takes", "a residue is changed", "other groups", "cut inside"])
def test_what_is_no_such_node_keeps_its_value(case: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 4, 5, 2), "x")])
    (x,) = graph.inputs
    if case == "more than onnxruntime takes":
        graph.output(jn.conv_transpose(x, weights(2, 2, 3, 2), 2, dilation=3, output_padding=2))
    elif case in ("a residue is changed", "other groups"):
        whole = [jn.conv(x, weights(1, 1, 2, 4)).reshape((2, 4, 5, 1, 1, 4)) for _ in range(3)]
        changed = jn.conv(x, weights(1, 1, 1, 4), groups=2).reshape((2, 4, 5, 1, 1, 4))
        other = changed if case == "other groups" else jn.abs(whole[0])
        rows = [jn.concat(whole[:2], 4), jn.concat([whole[2], other], 4)]
        graph.output(jn.concat(rows, 3).permute((0, 1, 3, 2, 4, 5)).reshape((2, 8, 10, 4)))
    else:
        graph.output(jn.conv_transpose(x, weights(3, 3, 3, 2), 2)[:, ::2])
    made = agrees(graph, RNG.normal(size=(2, 4, 5, 2)).astype(np.float32))
    assert (OPERATOR in operators(made)) == (case not in ("a residue is changed", "other groups"))
    for each in made.graph.node:
        if each.op_type == OPERATOR:
            given = {attribute.name: list(attribute.ints) for attribute in each.attribute}
            assert all(more < stride for more, stride in zip(given["output_padding"], given["strides"], strict=True))
