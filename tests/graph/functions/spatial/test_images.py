"""Functions of images against ONNX's reference evaluator and NumPy: dtypes, modes, devices, and what is refused."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.functions import agrees, built, last
from ....support.onnx_models import ReferenceEvaluator, model, node
from ....support.tiers import halved

F = np.float32


def reference(op: str, arrays: dict[str, Any], inputs: str, **attributes: Any) -> Any:
    """What ONNX's reference evaluator gives."""
    made = model([node(op, inputs, **attributes)], {name: (each.dtype, each.shape) for name, each in arrays.items()}, opset=22)
    return ReferenceEvaluator(made).run(None, arrays)[0]


def image(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(F)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "offset_groups", "masked"), [(1, 1, False), (2, 1, True), (1, 2, True)])
def test_deform_conv(groups: int, offset_groups: int, masked: bool) -> None:
    x, w, bias = image(2, 4, 5, 6), image(6, 4 // groups, 3, 2, seed=1), image(6, seed=2)
    moves, mask = image(2, 12 * offset_groups, 3, 5, seed=3), image(2, 6 * offset_groups, 3, 5, seed=4)
    arrays = {"x": x, "w": w, "o": moves, "b": bias, **({"m": mask} if masked else {})}
    options = {"strides": (2, 1), "dilations": (1, 2), "pads": (1, 0, 1, 1), "group": groups, "offset_group": offset_groups}
    expected = reference("DeformConv", arrays, "x w o b m" if masked else "x w o b", **options)
    kernel = np.ascontiguousarray(w.transpose(2, 3, 1, 0))

    def build(v: Any, o: Any, *m: Any) -> Any:
        padding = [(1, 1), (0, 1)]
        return jn.deform_conv(v, kernel, o, m[0] if m else None, (2, 1), (1, 2), padding, groups, offset_groups, bias)

    given = [last(x), last(moves), *([last(mask)] if masked else [])]
    agrees(built(build, given), given, [last(expected)], devices=(), rtol=1e-4, atol=1e-5)
    graph = built(build, given, [(1, 2, 3)] * len(given))
    agrees(graph, given, [last(expected)], rtol=1e-4, atol=1e-5, devices=["cpu"] if offset_groups > 1 else ())
    graph = built(build, given, [(3,)] * len(given))
    agrees(graph, given, [last(expected)], rtol=1e-4, atol=1e-5, devices=["cpu"] if masked else ())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("half", [True, False])
def test_roi_align(mode: str, half: bool) -> None:
    x = image(2, 3, 7, 8)
    rois = np.array([[0, 0, 6, 5], [1.5, 2.25, 3, 9], [-3, -2, 4, 4]], F)
    arrays = {"x": x, "r": rois, "i": np.array([1, 0, 1])}
    expected = reference(
        "RoiAlign", arrays, "x r i", mode=mode, output_height=3, output_width=2, sampling_ratio=2, spatial_scale=0.75,
        coordinate_transformation_mode="half_pixel" if half else "output_half_pixel",
    )  # fmt: skip

    def build(v: Any, r: Any, i: Any) -> Any:
        return jn.roi_align(v, r, i, (3, 2), 0.75, 2, mode, half)

    given = [last(x), rois, arrays["i"]]
    agrees(built(build, given), given, [last(expected)], devices=(), atol=1e-5)
    agrees(built(build, given, [(), (1,), ()]), given, [last(expected)], atol=1e-5)


COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "tf_crop_and_resize",
)  # fmt: skip


@pytest.mark.parametrize("coordinates", halved(COORDINATES))
def test_resize_in_all_coordinates(coordinates: str) -> None:
    x = image(1, 2, 5, 7)
    crops = coordinates == "tf_crop_and_resize"
    roi = [(0.1, 0.9), (0.2, 1.3)] if crops else None
    region = np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 1.3], F)
    expected, options = [], []
    for mode, rounding, size in itertools.product(
        ("nearest", "linear", "cubic"), ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"), ((4, 10), (8, 2))
    ):
        if mode != "nearest" and rounding != "floor":
            continue
        arrays = {"x": x, "r": region, "s": np.array([1, 2, *size])}
        expected.append(reference(
            "Resize", arrays, "x r _ s" if crops else "x _ _ s", mode=mode, nearest_mode=rounding, extrapolation_value=7.0,
            coordinate_transformation_mode=coordinates, exclude_outside=int(mode == "cubic"),
        ))  # fmt: skip
        options.append({"size": size, "mode": mode, "rounding": rounding, "exclude_outside": mode == "cubic"})

    def build(v: Any) -> Any:
        shared = {"axes": (2, 3), "coordinates": coordinates, "roi": roi, "extrapolation_value": 7.0}
        return [jn.resize(v, **shared, **each) for each in options]

    agrees(built(build, [x]), [x], expected, devices=(), rtol=1e-4, atol=1e-4)


def test_dtypes() -> None:
    """Integers become floats where numbers between them are needed, and 16 bits are rounded once."""
    whole = np.arange(24, dtype=np.int32).reshape(1, 4, 6, 1)
    rois, which = np.array([[0, 0, 3, 3]], F), np.zeros(1, np.int64)
    grid = np.zeros((1, 1, 1, 2), F)
    for dtype in ("int32", "float16", "bfloat16", "float64"):
        graph = jn.Graph("g", [jn.TensorType(dtype, whole.shape)])
        (x,) = graph.inputs
        floats = "float32" if dtype == "int32" else dtype
        found = {
            "linear": jn.resize(x, size=2, mode="linear"), "nearest": jn.resize(x, size=2), "grid": jn.grid_sample(x, grid),
            "pool": jn.lp_pool(x, 2), "roi": jn.roi_align(x, rois.astype(np.float16 if dtype == "float16" else F), which, 2),
            "back": jn.conv_transpose(x, np.ones((2, 2, 1, 1), whole.dtype)), "lrn": jn.lrn(x, 1),
            "unit": jn.lp_norm(x, axis=1),
            "best": jn.max_pool_with_indices(x, 2)[0],
        }  # fmt: skip
        kept = {"nearest": dtype, "best": dtype, "back": dtype}
        for name, symbol in found.items():
            wanted = "float32" if (name, dtype) == ("roi", "bfloat16") else kept.get(name, floats)
            assert symbol.dtype.name == wanted, (name, dtype)
        graph.output(*found.values())
        value = whole.astype(x.dtype.numpy)
        results = dict(zip(found, jn.evaluate(graph, value), strict=True))
        plain = whole.astype(np.float64)
        tolerance = {"float16": 2e-3, "bfloat16": 1e-2}.get(dtype, 1e-5)
        root = np.sqrt((plain.reshape(1, 2, 2, 3, 2) ** 2).sum((2, 4)))[..., None]
        np.testing.assert_allclose(results["pool"].astype(np.float64), root, rtol=tolerance)
        unit = plain / np.sqrt((plain**2).sum(1, keepdims=True))
        np.testing.assert_allclose(results["unit"].astype(np.float64), unit, rtol=tolerance, atol=1e-6)
        np.testing.assert_allclose(results["grid"].astype(np.float64).ravel(), [11.5], rtol=tolerance)
        np.testing.assert_array_equal(results["best"], value[:, 1::2, 1::2])


def test_nothing_and_one() -> None:
    for batch, extent in ((0, 4), (1, 1), (2, 4)):
        x = image(batch, extent, extent, 2)
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", extent, extent, 2))])
        (v,) = graph.inputs
        best, where = jn.max_pool_with_indices(v, 1)
        graph.output(jn.max_unpool(best, where, 1), jn.resize(v, scale=3), jn.conv_transpose(v, np.eye(2, dtype=F)[None, None]))
        expected = [x, x.repeat(3, 1).repeat(3, 2), x]
        agrees(graph, [x], expected, devices=["cpu"] if batch != 1 else ())


@pytest.mark.slow
def test_on_a_simulated_gpu() -> None:
    x, grid = image(1, 4, 5, 2), image(1, 3, 3, 2, seed=1)
    kernel = image(2, 2, 3, 2, seed=2)
    rois, which = np.array([[0, 0, 3, 3]], F), np.zeros(1, np.int64)

    def build(v: Any, g: Any) -> Any:
        best, where = jn.max_pool_with_indices(v, 2)
        moves = jn.broadcast_to(g.reshape((1, 9, 1, 2)), (1, 9, 4, 2)).reshape((1, 3, 3, 8))[:, :, :, :8]
        return [
            jn.conv_transpose(v, kernel, 2), best, where, jn.max_unpool(best, where, 2, output_size=(4, 5)), jn.lp_pool(v, 2),
            jn.resize(v, size=(6, 3), mode="linear"), jn.grid_sample(v, g), jn.roi_align(v, rois, which, 2),
            jn.col2im(v.reshape((1, 20, 2)), (4, 5), (1, 1)), jn.lrn(v, 2, axis=-1),
            jn.deform_conv(v, image(2, 2, 2, 3), moves[:, :, :3], stride=(1, 2), padding=[(0, 0), (0, 2)]),
        ]  # fmt: skip

    graph = built(build, [x, grid])
    agrees(graph, [x, grid], jn.evaluate(graph, x, grid), devices=["ptxsim"], rtol=1e-4, atol=1e-5)


SHAPES = {"x": (1, 4, 5, 2), "grid": (1, 3, 3, 2), "named": ("n", "h", 5, 2), "other": ("m", 3, 3, 2)}
G = jn.Graph("g", [jn.TensorType(jn.float32, shape, name) for name, shape in SHAPES.items()])
X, GRID, NAMED, OTHER = G.inputs
ONES = np.ones
REFUSED = {
    "conv_transpose: .* a kernel": lambda: jn.conv_transpose(X, ONES((2, 2), F)),
    "conv_transpose: 2 channels in 1 groups, a kernel for 3": lambda: jn.conv_transpose(X, ONES((2, 2, 4, 3), F)),
    "conv_transpose: output_padding 2": lambda: jn.conv_transpose(X, ONES((2, 2, 4, 2), F), output_padding=2),
    "conv_transpose: a result of -3": lambda: jn.conv_transpose(X, ONES((1, 1, 4, 2), F), padding=[(7, 0), (0, 0)]),
    "col2im: rows of 2 elements": lambda: jn.col2im(X.reshape((1, 20, 2)), (4, 5), (3, 1)),
    "col2im: blocks": lambda: jn.col2im(X.reshape((1, 20, 2)), (4, 5), (5, 1)),
    "reshape": lambda: jn.col2im(X.reshape((1, 20, 2)), (4, 4), (1, 1)),
    "max_unpool: axis 1 is 4, of the positions 3": lambda: jn.max_unpool(X, GRID.cast(jn.int64), 2),
    "max_unpool: .* and positions float32": lambda: jn.max_unpool(X, X, 2),
    "lp_pool: p is -1": lambda: jn.lp_pool(X, 2, p=-1),
    "lp_pool: padding 2": lambda: jn.lp_pool(X, 2, padding=2),
    "max_pool_with_indices: positions of int64": lambda: jn.max_pool_with_indices(X.cast(jn.int64), 2),
    "resize: mode is 'bilinear'": lambda: jn.resize(X, size=2, mode="bilinear"),
    "resize: both size and scale": lambda: jn.resize(X, size=2, scale=2),
    "resize: neither size nor scale": lambda: jn.resize(X),
    "resize: 3 sizes for 2 axes": lambda: jn.resize(X, size=(1, 2, 3)),
    "resize: scale 0": lambda: jn.resize(X, scale=0),
    "resize: roi": lambda: jn.resize(X, scale=2, roi=[(0, 1), (0, 1)]),
    "resize: antialias or crops of axis 1": lambda: jn.resize(NAMED, size=3, mode="linear", antialias=True),
    "grid_sample: a grid": lambda: jn.grid_sample(X, X[0]),
    "grid_sample: padding_mode is 'wrap'": lambda: jn.grid_sample(X, GRID, padding_mode="wrap"),
    "grid_sample: 1 images and a grid for 2": lambda: jn.grid_sample(X, jn.concat([GRID, GRID])),
    "grid_sample: the number of images and of grids": lambda: jn.grid_sample(NAMED, OTHER),
    "affine_grid: maps": lambda: jn.affine_grid(X[0], (3, 3)),
    "roi_align: images": lambda: jn.roi_align(X, ONES((3, 5), F), ONES(3, np.int64), 2),
    "roi_align: 3 regions, 2 indices": lambda: jn.roi_align(X, ONES((3, 4), F), ONES(2, np.int64), 2),
    "roi_align: indices of images are float32": lambda: jn.roi_align(X, ONES((3, 4), F), ONES(3, F), 2),
    "roi_align: output_size 2, sampling_ratio -1": lambda: jn.roi_align(X, ONES((3, 4), F), ONES(3, int), 2, sampling_ratio=-1),
    "deform_conv: 2 channels in 1 groups": lambda: jn.deform_conv(X, ONES((2, 2, 1, 3), F), X),
    "deform_conv: offsets": lambda: jn.deform_conv(X, ONES((2, 2, 2, 3), F), X),
    "lrn: size is 0": lambda: jn.lrn(X, 0),
    "lp_norm: p is 3": lambda: jn.lp_norm(X, 3),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    with pytest.raises((jn.UserError, jn.UnsupportedError), match=f"^{message}") as caught:
        REFUSED[message]()
    text = str(caught.value)
    assert "operand 0: " in text
    assert "test_images.py:" in text
    assert "fix: " in text
