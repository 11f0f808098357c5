"""Functions of images and networks become models: onnxruntime computes the same, and the model read back is the graph."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_export.agreement import by_onnxruntime, by_reference, exported
from ....support.onnx_export.structure import structure
from ....support.tiers import halved

F = np.float32
RNG = np.random.default_rng(7)


def array(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(F)


KERNEL, ROIS, WHICH = array(2, 3, 5, 4), np.array([[0, 0, 3, 3], [1, 1, 6, 5]], F), np.array([0, 1])
GRID, MAPS, MOVES = array(2, 3, 3, 2), array(2, 2, 3), array(2, 5, 5, 18) / 2
W, R = array(1, 16, 4), array(1, 16, 4)
TARGET = np.arange(72).reshape(2, 6, 6) % 4

FUNCTIONS: dict[str, Any] = {
    "conv_transpose": lambda x: jn.conv_transpose(x, KERNEL, (2, 1), padding=(1, 0)),
    "conv_transpose with a bias": lambda x: jn.conv_transpose(x, KERNEL, 2, bias=np.arange(5, dtype=F)),
    "conv_transpose in groups": lambda x: jn.conv_transpose(x, array(2, 3, 3, 4), (3, 1), groups=2, output_padding=(2, 0)),
    "conv_transpose of one axis": lambda x: jn.conv_transpose(x[0] if len(x.shape) == 4 else x, array(3, 5, 4), 1, 2, [(2, 1)]),
    "col2im": lambda x: jn.col2im(x.reshape((2, 36, 4)), (7, 7), (2, 2)),
    "deform_conv": lambda x: jn.deform_conv(x, array(3, 3, 4, 2), jn.mean(x) * MOVES, padding=[(1, 0), (0, 1)]),
    "lp_pool": lambda x: jn.lp_pool(x, 2, 1),
    "lp_pool of order 1": lambda x: jn.lp_pool(x, (3, 2), 2, p=1),
    "lp_pool of order 3": lambda x: jn.lp_pool(x, 2, padding=1, p=3),
    "max_unpool": lambda x: jn.max_unpool(*jn.max_pool_with_indices(x, 2), 2),
    "nearest": lambda x: jn.resize(x, scale=2, coordinates="asymmetric", rounding="floor"),
    "halves": lambda x: jn.resize(x, scale=0.5),
    "linear corners": lambda x: jn.resize(x, scale=1.5, mode="linear", coordinates="align_corners"),
    "second axis": lambda x: jn.resize(x, size=9, axes=2, mode="linear"),
    "cubic with channels first": lambda x: jn.resize(x, size=(9, 4), axes=(2, 3), mode="cubic", exclude_outside=True),
    "linear": lambda x: jn.resize(x, size=(9, 4), mode="linear"),
    "cubic": lambda x: jn.resize(x, size=(9, 4), mode="cubic"),
    "antialias": lambda x: jn.resize(x, size=(3, 4), mode="linear", antialias=True),
    "grid_sample": lambda x: jn.grid_sample(x, GRID),
    "affine_grid": lambda x: jn.grid_sample(x, jn.affine_grid(x[:, :2, :3, 0] + MAPS, (4, 5))),
    "roi_align": lambda x: jn.roi_align(x, ROIS, WHICH, 2),
    "lstm": lambda x: jn.lstm(x[:, :, 0], W, R)[0],
    "gru": lambda x: jn.gru(x[0], W[:, :12], R[:, :12], direction="reverse")[1],
    "rotary_embedding": lambda x: jn.rotary_embedding(x, array(6, 2), array(6, 2)),
    "cross_entropy": lambda x: jn.cross_entropy(x, TARGET, ignore_index=2, axis=-1),
    "hann_window": lambda x: x * jn.hann_window(x, 4),
    "lrn": lambda x: jn.lrn(x, 3, 0.5),
    "lrn of last channels": lambda x: jn.lrn(x, 3, 0.5, axis=-1),
    "lrn of an even number": lambda x: jn.lrn(x, 2, 0.5, axis=-1),
    "lp_norm": lambda x: jn.lp_norm(x),
}  # fmt: skip

NODES = {
    "conv_transpose": "ConvTranspose", "conv_transpose in groups": "ConvTranspose",
    "conv_transpose of one axis": "ConvTranspose",
    "nearest": "Resize", "halves": "Resize", "linear": "Resize", "linear corners": "Resize",
    "cubic with channels first": "Resize", "second axis": "Resize",
    "lp_pool": "LpPool", "lp_pool of order 1": "LpPool", "lp_pool of order 3": "LpPool", "lrn": "LRN",
    "lrn of last channels": "LRN",
}  # fmt: skip
"""Functions that one node of ONNX means."""


OF_NUMBERS = frozenset(("deform_conv", "affine_grid", "grid_sample", "cross_entropy", "col2im", "roi_align"))
"""Functions here whose other operands have numbers as sizes."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("name", "batch"),
    [*[(name, 2) for name in FUNCTIONS], *halved([pytest.param(name, "n") for name in FUNCTIONS if name not in OF_NUMBERS])],
)
def test_models(name: str, batch: int | str) -> None:
    x = array(2, 6, 6, 4)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (batch, *x.shape[1:]), "x")])
    graph.output(FUNCTIONS[name](graph.inputs[0]))
    made = exported(graph)
    want = jn.evaluate(graph, x)
    run = by_onnxruntime if importlib.util.find_spec("onnxruntime") is not None else by_reference
    (got,) = run(made, graph, [x])
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    back = jn.from_onnx(made)
    assert back.casts() == ()
    if name in NODES:
        operators = [each.op_type for each in made.graph.node]
        assert operators.count(NODES[name]) == 1
        assert not {"Gather", "MatMul", "Pow"} & set(operators)
    np.testing.assert_allclose(jn.evaluate(back, x), want, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in NODES if name != "lrn of last channels"])
def test_one_node_is_the_function_when_it_is_read(name: str) -> None:
    """With channels first, as ONNX has them, nothing is left of the permutations."""
    shape = (2, 4, 6) if name.endswith("one axis") else (2, 4, 6, 6)
    rank = len(shape)
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, "x")])
    (x,) = graph.inputs
    if name == "lrn" or NODES[name] == "Resize":
        graph.output(FUNCTIONS[name](x))
    else:
        last = x.permute((0, *range(2, rank), 1))
        graph.output(FUNCTIONS[name](last).permute((0, rank - 1, *range(1, rank - 1))))
    made = jn.to_onnx(graph)
    assert [each.op_type for each in made.graph.node] == [NODES[name]]
    assert structure(jn.from_onnx(made)) == structure(graph)
