"""Whatever is written runs in onnxruntime and computes the same, for every number of axes, with sizes down to none."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_export.agreement import exported, outputs
from .....support.onnx_export.forms import Form, forms
from .....support.onnx_export.single import agrees, built, floats
from .....support.tiers import both_tiers, share

onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(7)

REFUSED = re.compile(
    r"running (Conv|MaxPool|AveragePool|LpPool|GlobalAveragePool|Attention) node|Reshape node. Name:'' Status Message"
)
"""Operators that onnxruntime refuses for nothing: images without pixels or smaller than a window, no keys, and, inside of
GroupNormalization and SoftmaxCrossEntropyLoss, which it inlines, no elements. Their sizes are known at a run only."""
LEFT_OPEN = ("ReduceMean", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "MaxPool")
"""Operators whose result for nothing is another one: means, and the largest of padding alone."""
POOLS = ("MaxPool", "AveragePool", "LpPool")


def session(model: Any) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(compiled: Any, graph: Any, arrays: list[Any]) -> tuple[list[Any], str]:
    """What onnxruntime computes, or what it says instead."""
    feeds = {symbol.name: array for symbol, array in zip(graph.inputs, arrays, strict=True)}
    try:
        return compiled.run(None, feeds), ""
    except Exception as error:
        return [], str(error)


def same(form: Form, opset: int | None, size: int | str) -> None:
    graph = form.graph(size)
    try:
        model = exported(graph, opset=opset)
    except jn.UnsupportedError:
        return
    compiled, where = session(model), f"{form.name}, opset {opset}, n = {size}"
    operators = {node.op_type for node in model.graph.node}
    for number in form.sizes if size == "n" else (size,):
        arrays = form.arrays(int(number))
        try:
            with np.errstate(all="ignore"):
                want = outputs(graph, arrays)
        except jn.UserError:  # an image without a window
            continue
        got, told = run(compiled, graph, arrays)
        assert not told or (number != size and number < 2 and REFUSED.search(told)), (where, told)
        for one, other in zip(got, want, strict=bool(got)):
            if number == 1 and operators & set(POOLS) and one.shape != other.shape:
                assert 0 in other.shape, where  # onnxruntime has one window in an image that is a bit smaller than it
                continue
            assert (one.dtype, one.shape) == (other.dtype, other.shape), where
            if number == 0 and operators & set(LEFT_OPEN):
                continue
            a, b = one.astype(np.float64), other.astype(np.float64)
            largest = float(np.abs(b[np.isfinite(b)]).max(initial=1.0))
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5 * largest, err_msg=where)


@pytest.mark.slow
@both_tiers
@pytest.mark.parametrize("opset", [18, None, 23, 24])
def test_forms_run_and_compute_the_same(opset: int | None, in_full: bool) -> None:
    for form in share(list(forms()), opset or 0, 19, in_full):
        for size in (4, "n"):
            same(form, opset, size)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("opset", [25, 28])
def test_forms_that_lost_their_kernels_run(opset: int) -> None:
    """RoiAlign from opset 22 on, Swish from 25 on."""
    alone = Form("swish", lambda x: x * jn.sigmoid(x * 0.5), (("float32", ("n", 3)),))
    for form in (alone, *[each for each in forms() if each.name.startswith(("roi_align", "silu", "swiglu"))]):
        for size in (4, "n"):
            same(form, opset, size)


MASKS: tuple[tuple[Any, ...], ...] = ((1, "k"), (2, 1, 1, "k"), (1, 4, 1, "k"), (1, 1, "k"), (2, 4, 3, "k"), (2, 1, "q", "k"))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("opset", [21, 23, 24])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("dtype", ["bool", "float32"])
@pytest.mark.parametrize("named", [False, True])
def test_masks_for_all_queries_have_a_row_for_each(opset: int, mask: tuple[Any, ...], dtype: str, named: bool) -> None:
    """Padding masks (N, 1, 1, keys), which runtimes refuse; what is read back broadcasts again."""
    sizes = {"q": 3, "k": 5}
    q, k, shape = (tuple(d if named else sizes.get(d, d) for d in each) for each in ((2, 4, "q", 8), (2, 4, "k", 8), mask))
    if named and mask[-2] == 3:
        q = (2, 4, 3, 8)
    graph = built(jn.attention, ("float32", q), ("float32", k), ("float32", k), (dtype, shape))
    whole = [sizes.get(d, d) for d in mask]
    given = RNG.integers(0, 2, whole).astype(bool) if dtype == "bool" else RNG.normal(size=whole).astype(np.float32)
    given[..., 0] = 1
    found = agrees(graph, [floats(2, 4, 3, 8), floats(2, 4, 5, 8), floats(2, 4, 5, 8), given], opset=opset)
    assert ("Attention" in found) == (opset >= 23)
    assert ("Expand" in found) == (opset >= 23 and mask[-2] == 1)


@pytest.mark.parametrize(("rank", "axis"), [(3, 1), (4, 1), (5, 1), (3, -1), (4, -1), (5, -1)])
def test_norms_of_channels_are_one_node_for_images_of_four_axes(rank: int, axis: int) -> None:
    shape = (2, 6, 5, 4, 6)[:rank] if axis == 1 else (2, 5, 4, 3, 6)[5 - rank :]
    graph, x = built(lambda x: jn.lrn(x, 3, axis=axis), ("float32", shape)), floats(*shape)
    model = exported(graph)
    (got,), told = run(session(model), graph, [x])
    assert not told
    np.testing.assert_allclose(got, jn.evaluate(graph, x), rtol=1e-5, atol=1e-6)
    assert ("LRN" in [node.op_type for node in model.graph.node]) == (rank == 4)


def test_a_depth_that_may_be_none_is_no_node() -> None:
    def of_size(extra: int) -> list[str]:
        graph = built(lambda x, y: jn.one_hot(jn.maximum(x, 0), jn.Dim("m") + extra), ("int64", ("n",)), ("float32", ("m",)))
        return agrees(graph, [np.array([0, 3, 1]), np.zeros(0, np.float32)])

    assert "OneHot" not in of_size(0)
    assert "OneHot" in of_size(1)


@pytest.mark.parametrize("build", [
    lambda x: jn.group_norm(x, 2, np.ones(4, np.float32), np.ones(4, np.float32)),
    lambda x: jn.cross_entropy(x, jn.argmax(x, 1), reduction="none"),
    lambda x: jn.mean(x, axis=(2, 3), keepdims=True) + jn.sum(x) * 0,
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2, 4, 0, 3), (2, 4, 3, 0)])
def test_what_is_known_to_be_empty_is_no_operator_that_is_refused(build: Any, shape: tuple[int, ...]) -> None:
    graph = built(build, ("float32", shape))
    (got,), told = run(session(exported(graph)), graph, [np.zeros(shape, np.float32)])
    assert not told
    assert got.shape == outputs(graph, [np.zeros(shape, np.float32)])[0].shape
