"""Operators that go in as one node come out as one, and so do functions of the graph; onnxruntime computes the same."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

from ....support.code_weights import code_weights
from ....support.onnx_export.agreement import exported
from ....support.onnx_export.single import agrees, built, floats, imported

pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(11)


# -- codes -------------------------------------------------------------------------------------------------------------


def codes(dtype: str, *shape: int) -> Any:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("a", "b", "is_one"), [
    ("uint8", "uint8", True), ("uint8", "int8", True), ("int8", "int8", True), ("int8", "uint8", False),
])  # fmt: skip
def test_products_of_codes_that_become_codes(a: str, b: str, is_one: bool) -> None:
    for columns, shape, runtime in itertools.product((False, True), ((), (1,)), (False, True)):
        scale = np.linspace(0.01, 0.02, 5, dtype=np.float32) if columns else np.full(shape, 0.015, np.float32)
        zero = codes(b, 5) if columns else np.full(shape, 3, b)
        known = (2, 3, 4, 5, 7) if runtime else (1, 2, 3, 4, 5, 6, 7)
        inputs = [
            codes(a, 3, 6), np.full(shape, 0.05, np.float32), np.full(shape, 7, a), code_weights(RNG, b, 6, 5), scale, zero,
            np.full(shape, 0.3, np.float32), np.full(shape, 2, a),
        ]  # fmt: skip
        graph, arrays = imported("QLinearMatMul", inputs, known, {0: ["n", 6]})
        assert (agrees(graph, arrays, steps=1) == ["QLinearMatMul"]) == is_one


def test_scales_of_rows_stay_apart() -> None:
    inputs = [
        codes("uint8", 3, 6), np.array([0.05, 0.1, 0.2], np.float32), np.full((), 7, np.uint8),
        code_weights(RNG, np.int8, 6, 5), np.array(0.02, np.float32), np.array(1, np.int8), np.array(0.3, np.float32),
        np.array(3, np.uint8),
    ]  # fmt: skip
    graph, arrays = imported("QLinearMatMul", inputs, (1, 2, 3, 4, 5, 6, 7))
    assert agrees(graph, arrays, steps=1)[0] == "MatMulInteger"


# -- positions ---------------------------------------------------------------------------------------------------------

POSITIONS = np.array([0, -1, 2, 5, -4, 7, 3])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64", "float64"])
@pytest.mark.parametrize("axis", [-1, 0])
def test_one_of_two_values_at_positions(dtype: str, axis: int) -> None:
    for values, known in itertools.product(([0, 1], [-2, 3]), ((1, 2), (1,))):
        inputs = [POSITIONS, np.array(4), np.array(values, dtype)]
        found = agrees(*imported("OneHot", inputs, known, {0: ["n"]}, axis=axis))
        assert (found == ["OneHot"]) == (dtype != "float64")  # for which onnxruntime has no kernel


def test_ones_are_a_node_where_positions_are_not_negative() -> None:
    x = ("float32", ("n", 5))
    assert agrees(built(lambda x: jn.one_hot(jn.argmax(x, -1), 5), x), [floats(3, 5)])[-1] == "OneHot"
    assert agrees(built(lambda x: jn.one_hot(x, 5, axis=0), ("uint8", ("n",))), [np.array([0, 3, 7], np.uint8)])[-1] == "OneHot"
    found = agrees(built(lambda x: jn.one_hot(jn.maximum(x, 0), 5, jn.int64), ("int64", ("n",))), [POSITIONS])
    assert found == ["Max", "OneHot"]
    for function in (lambda x: jn.one_hot(x, 5), lambda x: jn.one_hot(jn.minimum(x, 3), 5)):  # ONNX counts -1 from the end
        assert "OneHot" not in agrees(built(function, ("int64", ("n",))), [POSITIONS])


def test_single_positions_are_no_node() -> None:
    found = agrees(built(lambda x: jn.one_hot(jn.argmax(x, -1), 5), ("float32", (5,))), [floats(5)])
    found += agrees(built(lambda x: jn.one_hot(x, 5), ("uint8", ())), [np.array(3, np.uint8)])
    assert "OneHot" not in found  # which has positions of one axis or more


def test_a_depth_may_be_a_size_but_not_none() -> None:
    types = (("int64", ("n", "k")), ("int64", ("m",)))
    symbolic = built(lambda x, y: jn.one_hot(jn.maximum(x, 0), jn.Dim("m") + 1, axis=1), *types)
    assert "OneHot" in agrees(symbolic, [RNG.integers(-3, 9, (3, 4)), np.zeros(5, int)])
    assert "OneHot" not in agrees(built(lambda x: jn.one_hot(x, 0), ("uint8", ("n",))), [np.array([0], np.uint8)])


# -- losses ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("op", ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_losses(op: str, reduction: str) -> None:
    cases = itertools.product(("float32", "float64"), ("int32", "int64"), (None, 1, -5), (False, True), ((6, 5), (2, 5, 3)))
    for dtype, classes, ignored, weighed, shape in cases:
        target = RNG.integers(0, 5, (shape[0], *shape[2:])).astype(classes)
        if ignored == -5:
            target.flat[:3] = -5
        options = {"reduction": reduction, **({} if ignored is None else {"ignore_index": ignored})}
        inputs = [floats(*shape, dtype=dtype), target, *([abs(floats(5, dtype=dtype))] if weighed else [])]
        dims = {0: ["n", *shape[1:]], 1: ["n", *shape[2:]]}
        for outputs in (1, 2) if op == "SoftmaxCrossEntropyLoss" else (1,):
            assert agrees(*imported(op, inputs, (), dims, outputs, **options)) == [op]


def test_losses_of_the_graph() -> None:
    types = (("float32", ("n", 3, 2)), ("int64", ("n", 2)))
    arrays = [floats(4, 3, 2), RNG.integers(0, 3, (4, 2))]
    assert agrees(built(jn.cross_entropy, *types), arrays) == ["SoftmaxCrossEntropyLoss"]
    assert agrees(built(jn.nll_loss, *types), arrays) == ["NegativeLogLikelihoodLoss"]

    def two(x: Any, target: Any) -> Any:
        logarithms = jn.logsoftmax(x, 1)
        return jn.nll_loss(logarithms, target), jn.exp(logarithms), jn.nll_loss(logarithms, target, reduction="sum")

    assert agrees(built(two, *types), arrays) == ["SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "Exp"]

    def later(x: Any, target: Any) -> Any:
        logarithms = jn.logsoftmax(x, 1)
        return jn.nll_loss(logarithms, target * 1), logarithms

    assert "NegativeLogLikelihoodLoss" in agrees(built(later, *types), arrays)  # the node would stand before its classes
    last = built(lambda x, t: jn.cross_entropy(x, t, axis=-1), ("float32", ("n", 2, 3)), types[1])
    assert "SoftmaxCrossEntropyLoss" not in agrees(last, [floats(4, 2, 3), arrays[1]])


# -- Fourier transforms ------------------------------------------------------------------------------------------------


@pytest.mark.one_in(6)
@pytest.mark.parametrize("opset", [19, 21])
@pytest.mark.parametrize("length", [2, 8, 12, 100, 127, 256])
def test_transforms_of_models(opset: int, length: int) -> None:
    for parts, inverse, onesided in ((1, 0, 0), (2, 0, 0), (2, 1, 0), (1, 0, 1), (2, 1, 1)):
        x = floats(2, length, 3, parts)
        axis: Any = {"axis": 1} if opset < 20 else {}
        inputs = [x] if opset < 20 else [x, None, np.array(1)]
        dims = {0: ["n", length, "k", parts]}
        graph, arrays = imported("DFT", inputs, (2,), dims, opset=opset, inverse=inverse, onesided=onesided, **axis)
        assert agrees(graph, arrays, 2e-4, opset=opset) == ["DFT"]  # onnxruntime's is that exact


def test_lengths_that_are_stated() -> None:
    for length, (parts, inverse, onesided) in itertools.product((4, 9, 16), ((1, 0, 0), (1, 0, 1), (2, 1, 0), (2, 1, 1))):
        inputs = [floats(2, 8, parts), np.array(length)]
        is_whole = not (inverse and onesided)  # of which onnxruntime makes something else
        graph, arrays = imported("DFT", inputs, (1,), {0: ["n", 8, parts]}, inverse=inverse, onesided=onesided)
        assert (agrees(graph, arrays, 1e-4, is_same=is_whole) == ["DFT"]) == is_whole


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [8, 9, 256, 500])
def test_transforms_of_the_graph_are_nodes_where_runtimes_are_as_exact(dtype: str, length: int) -> None:
    tolerance = 2e-6 if dtype == "float32" else 1e-11
    is_power = length & (length - 1) == 0
    for axis, shape in ((-1, (3, length)), (0, (length, 3))):
        named = tuple(["n" if size == 3 else size for size in shape])
        forward = built(lambda x, axis=axis: jn.fft(x, axis=axis), (dtype, (*named, 2)))
        inverse = built(lambda x, axis=axis: jn.ifft(x, axis=axis), (dtype, (*named, 2)))
        halves = built(lambda x, axis=axis: jn.rfft(x, axis=axis), (dtype, named))
        pairs = floats(*shape, 2, dtype=dtype)
        same = {"is_same": is_power or dtype == "float64"}  # complex numbers are written as their parts
        assert (agrees(forward, [pairs], tolerance, **same) == ["DFT"]) == (is_power or dtype == "float64")
        assert (agrees(inverse, [pairs], tolerance, is_same=is_power) == ["DFT"]) == is_power
        found = agrees(halves, [pairs[..., 0]], tolerance, **same)
        assert (found == ["Unsqueeze", "DFT"]) == (is_power or dtype == "float64")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_transforms_of_frames(dtype: str) -> None:
    cases = itertools.product((7, 8), (False, True), ((2, 20), (2, 20, 1), (2, 20, 2)), (0, 1), (20, "m"))
    for length, windowed, shape, onesided, size in cases:
        if onesided and shape[2:] == (2,):
            continue
        window = np.hanning(length).astype(dtype) if windowed else None
        inputs = [floats(*shape, dtype=dtype), np.array(3), window, np.array(length)]
        known = (1, 2, 3) if windowed else (1, 3)
        graph, arrays = imported("STFT", inputs, known, {0: ["n", size, *shape[2:]]}, onesided=onesided)
        assert agrees(graph, arrays, 2e-5 if dtype == "float32" else 1e-12)[-1] == "STFT"
    own = built(lambda x: jn.stft(x, 8, 3, np.hanning(8).astype(dtype)), (dtype, ("n", "m")))
    assert agrees(own, [floats(2, 20, dtype=dtype)], 1e-5) == ["Unsqueeze", "STFT"]
    deeper = built(lambda x: jn.stft(x, 8, 3), (dtype, (2, "n", 20)))
    assert agrees(deeper, [floats(2, 2, 20, dtype=dtype)], 1e-5)[-1] == "DFT"


# -- images ------------------------------------------------------------------------------------------------------------

DEFORMED: list[dict[str, Any]] = [
    {}, {"group": 2, "offset_group": 2}, {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]},
    {"kernel": (1, 1), "strides": [2, 3]}, {"kernel": (1, 3), "group": 4, "strides": [3, 1]}, {"kernel": (6, 7)},
    {"kernel": (3, 1), "offset_group": 2, "dilations": [2, 1]},
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", range(len(DEFORMED)))
def test_taps_that_are_moved(dtype: str, case: int) -> None:
    options = dict(DEFORMED[case])
    kernel, groups = options.pop("kernel", (3, 3)), options.get("offset_group", 1)
    pads, strides, dilations = options.get("pads", [0] * 4), options.get("strides", [1, 1]), options.get("dilations", [1, 1])
    size = [
        (n + pads[axis] + pads[2 + axis] - (kernel[axis] - 1) * dilations[axis] - 1) // strides[axis] + 1
        for axis, n in enumerate((6, 7))
    ]  # fmt: skip
    taps = kernel[0] * kernel[1] * groups
    for masked, biased in itertools.product((False, True), repeat=2):
        inputs = [
            floats(2, 4, 6, 7, dtype=dtype), floats(8, 4 // options.get("group", 1), *kernel, dtype=dtype),
            floats(2, 2 * taps, *size, dtype=dtype) * 2, floats(8, dtype=dtype) if biased else None,
            floats(2, taps, *size, dtype=dtype) if masked else None,
        ]  # fmt: skip
        while inputs[-1] is None:
            inputs.pop()
        dims = {number: ["n", *each.shape[1:]] for number, each in enumerate(inputs) if each is not None}
        graph, arrays = imported("DeformConv", inputs, (1, 3), dims, opset=19, **options)
        assert agrees(graph, arrays, 1e-4 if dtype == "float32" else 1e-11, opset=19) == ["DeformConv"]
    assert "DeformConv" not in [node.op_type for node in exported(graph, opset=18).graph.node]


def test_moved_taps_with_channels_last() -> None:
    kernel = floats(3, 3, 4, 5)
    graph = built(lambda x, moves: jn.deform_conv(x, kernel, moves, bias=np.ones(5, np.float32)),
                  ("float32", ("n", 6, 6, 4)), ("float32", ("n", 4, 4, 18)))  # fmt: skip
    found = agrees(graph, [floats(2, 6, 6, 4), floats(2, 4, 4, 18)], 1e-4)
    assert found == ["Transpose", "Transpose", "Transpose", "DeformConv", "Transpose", "Add"]


@pytest.mark.parametrize(("shape", "options"), [
    ((1, 1, 2, 2), {"kernel_shape": [2, 2], "strides": [2, 2]}), ((2, 3, 4), {"kernel_shape": [2], "strides": [3]}),
    ((2, 3, 4, 5), {"kernel_shape": [3, 3], "strides": [2, 1], "pads": [1, 0, 0, 0]}),
    ((1, 2, 3, 3, 3), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}),
])  # fmt: skip
def test_elements_that_are_put_back(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    kernel, pads = options["kernel_shape"], options.get("pads", [0] * 6)
    sizes = [(n - 1) * s + k - p for n, s, k, p in zip(shape[2:], options["strides"], kernel, pads, strict=False)]
    count = int(np.prod(shape[:2]) * np.prod(sizes))
    for symbolic in (False, True):
        named = ["n", shape[1], *[f"h{axis}" for axis in range(len(kernel))]] if symbolic else list(shape)
        inputs = [floats(*shape), RNG.permutation(count)[: int(np.prod(shape))].reshape(shape)]
        assert agrees(*imported("MaxUnpool", inputs, (), {0: named, 1: named}, **options)) == ["MaxUnpool"]
    wide = imported("MaxUnpool", [floats(*shape, dtype="float64"), inputs[1]], **options)
    assert "MaxUnpool" not in agrees(*wide)  # onnxruntime has it for float32


def resized(kind: str, factor: float, **attributes: Any) -> Any:
    """A model that resizes an image (n, 3, h, w), by scales, to multiples of its sizes, or to (8, 9)."""
    arrays = {
        "scales": np.array([1, 1, factor, factor], np.float32), "by": np.array([1, 1, int(factor), int(factor)]),
        "fixed": np.array([8, 9]),
    }  # fmt: skip
    before = {
        "scales": [], "multiples": [helper.make_node("Shape", ["x"], ["s"]), helper.make_node("Mul", ["s", "by"], ["sizes"])],
        "fixed": [
            helper.make_node("Shape", ["x"], ["s"], start=0, end=2),
            helper.make_node("Concat", ["s", "fixed"], ["sizes"], axis=0),
        ],
    }[kind]  # fmt: skip
    inputs = ["x", "", "scales"] if kind == "scales" else ["x", "", "", "sizes"]
    nodes = [*before, helper.make_node("Resize", inputs, ["y"], **attributes)]
    x = helper.make_tensor_value_info("x", 1, ["n", 3, "h", "w"])
    tensors = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    made = helper.make_graph(nodes, "g", [x], [ValueInfoProto(name="y")], tensors)
    return jn.from_onnx(helper.make_model(made, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "factor"), [("scales", 2), ("scales", 1.5), ("multiples", 2), ("fixed", 1)])
def test_images_of_symbolic_sizes_that_are_resized(kind: str, factor: float) -> None:
    ways: list[dict[str, Any]] = [
        {"mode": "nearest", "nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"},
        {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}, {"mode": "linear"},
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel"},
        {"mode": "cubic", "exclude_outside": 1, "cubic_coeff_a": -0.5},
        *([{"mode": "linear", "coordinate_transformation_mode": "align_corners"}] if kind != "scales" else []),
    ]  # fmt: skip
    for way in ways:
        assert agrees(resized(kind, factor, **way), [floats(2, 3, 5, 7)])[-1] == "Resize"


def test_corners_that_are_kept_and_scales_stay_apart() -> None:
    graph = resized("scales", 1.5, mode="linear", coordinate_transformation_mode="align_corners")
    assert "Resize" not in agrees(graph, [floats(2, 3, 5, 7)])
