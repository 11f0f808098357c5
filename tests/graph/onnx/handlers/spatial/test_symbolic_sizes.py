"""Operators on sizes that have names compute what they do for the numbers: `sizes=` fixes them."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import agrees, body, model, node

F = np.float32
COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "half_pixel_symmetric", "tf_half_pixel_for_nn",
)  # fmt: skip
ROUNDINGS = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


def both_ways(made: Any, *arrays: Any, sizes: dict[str, int]) -> None:
    """Compare a graph with symbolic sizes with the one for these numbers."""
    symbolic, fixed = jn.from_onnx(made), jn.from_onnx(made, sizes=sizes)
    assert symbolic.dim_names
    assert not fixed.dim_names
    got, want = jn.evaluate(symbolic, *arrays), jn.evaluate(fixed, *arrays)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_resize(mode: str, coordinates: str) -> None:
    rng = np.random.default_rng(0)
    roundings = ROUNDINGS if mode == "nearest" else ROUNDINGS[:1]
    for rounding, excludes in itertools.product(roundings, (0, 1) if mode == "cubic" else (0,)):
        options = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        options["exclude_outside"] = excludes
        for scales in ([1, 1, 2, 0.5], [1, 1, 1.5, 1], [1, 1, 0.75, 3]):
            inputs = {"x": (F, [1, 2, "h", "w"])}
            made = model([node("Resize", "x _ s", **options)], inputs, constants={"s": np.array(scales, F)})
            for h, w in ((4, 6), (1, 5), (8, 2)):
                both_ways(made, rng.normal(size=(1, 2, h, w)).astype(F), sizes={"h": h, "w": w})
        nodes = [node("Shape", "z", "s"), node("Resize", "x _ _ s", **options)]
        made = model(nodes, {"x": (F, ["b", 1, "h", 5]), "z": (F, ["b", 1, "k", "m"])})
        for h, k, m in ((4, 7, 5), (3, 1, 2), (1, 3, 9)):
            x, z = (rng.normal(size=(2, 1, *frame)).astype(F) for frame in ((h, 5), (k, m)))
            both_ways(made, x, z, sizes={"b": 2, "h": h, "k": k, "m": m})


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("shape", [(2, 3, 4, 5), (2, 1, 3, 2, 4)])
def test_affine_grid(corners: int, shape: tuple[int, ...]) -> None:
    rank = len(shape) - 2
    maps = np.random.default_rng(1).normal(size=(2, rank, rank + 1)).astype(F)
    fixed = model([node("AffineGrid", "m s", align_corners=corners)], {"m": (F, [2, rank, rank + 1])},
                  constants={"s": np.array(shape)})  # fmt: skip
    agrees(fixed, maps)
    names = ["b", *[f"s{axis}" for axis in range(len(shape) - 1)]]
    made = model([node("Shape", "z", "s"), node("AffineGrid", "m s", align_corners=corners)],
                 {"m": (F, ["b", rank, rank + 1]), "z": (F, names)})  # fmt: skip
    both_ways(made, maps, np.zeros(shape, F), sizes=dict(zip(names, shape, strict=True)))


@pytest.mark.parametrize("length", [8, 9, 13])
def test_stft(length: int) -> None:
    window = np.hanning(8).astype(F)
    made = model([node("STFT", "x step window")], {"x": (F, ["b", "t", 1])}, constants={"step": np.int64(3), "window": window})
    both_ways(made, np.random.default_rng(2).normal(size=(2, length, 1)).astype(F), sizes={"b": 2, "t": length})


@pytest.mark.parametrize("upper", [0, 1])
def test_trilu_at_a_diagonal_that_is_a_size(upper: int) -> None:
    made = model([node("Size", "z", "k"), node("Trilu", "x k", upper=upper)], {"x": (F, ["n", 5]), "z": (F, ["k"])})
    both_ways(made, np.ones((4, 5), F), np.zeros(2, F), sizes={"n": 4, "k": 2})


def test_writes_of_slices() -> None:
    rng = np.random.default_rng(3)
    rows = np.array([[1], [-1], [1]])
    made = model([node("ScatterND", "x i u")], {"x": (F, [5, "n"]), "u": (F, [3, "n"])}, constants={"i": rows})
    both_ways(made, *(rng.normal(size=(rows, 4)).astype(F) for rows in (5, 3)), sizes={"n": 4})
    nodes = [node("Shape", "u", "s"), node("Expand", "i s", "wide"), node("ScatterElements", "x wide u", axis=1)]
    made = model(nodes, {"x": (F, ["n", 5]), "u": (F, ["n", 1])}, constants={"i": np.array([[-2]])})
    both_ways(made, *(rng.normal(size=(4, columns)).astype(F) for columns in (5, 1)), sizes={"n": 4})


def test_a_loop_that_only_its_condition_ends() -> None:
    inner = [node("Mul", "x half", "x2"), node("Add", "n one", "n2"), node("ReduceSum", "x2", "total", keepdims=0),
             node("Greater", "total limit", "large"), node("Less", "n2 most", "few"),
             node("And", "large few", "on")]  # fmt: skip
    step = body(inner, {"i": (np.int64, []), "c": (bool, []), "x": (F, [2]), "n": (np.int64, [])}, "on x2 n2")
    constants = {"half": F(0.5), "one": np.int64(1), "zero": np.int64(0), "limit": F(1), "most": np.int64(6), "true": np.True_}
    made = model([node("Loop", "_ true start zero", "y count", body=step)], {"start": (F, [2])}, "y count", constants=constants)
    for start in ([1.0, 1.0], [8.0, 3.0], [1e6, 1.0]):
        agrees(made, np.array(start, F))
    del made.graph.node[0].attribute[0].g.node[5:]
    made.graph.node[0].attribute[0].g.output[0].name = "large"
    for start in ([1.0, 1.0], [8.0, 3.0], [1e6, 1.0]):
        agrees(made, np.array(start, F))


@pytest.mark.slow
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(masked: bool) -> None:
    ort = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(5)
    weights = rng.normal(size=(6, 2, 3, 2)).astype(F)
    options = {"strides": [1, 2], "pads": [1, 0, 1, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}
    inputs = {"x": (F, ["b", 4, "h", "w_"]), "o": (F, ["b", 24, "p", "q"]), "m": (F, ["b", 12, "p", "q"])}
    if not masked:
        del inputs["m"]
    made = model([node("DeformConv", f"x w o b {'m' if masked else ''}", **options)], inputs, opset=19,
                 constants={"w": weights, "b": np.arange(6, dtype=F)})  # fmt: skip
    made.graph.output[0].type.tensor_type.elem_type = 1
    made.ir_version = 9
    try:
        session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    except Exception as error:  # older ones have no kernel
        pytest.skip(str(error)[:80])
    graph = jn.from_onnx(made)
    compiled = jn.compile(graph, device="cpu")
    for batch, height, width in ((1, 4, 5), (2, 1, 3), (2, 6, 4)):
        sizes = (height, (width + 1 - 3) // 2 + 1)
        feed = {"x": rng.normal(size=(batch, 4, height, width)), "o": rng.normal(size=(batch, 24, *sizes)) * 2,
                "m": rng.random((batch, 12, *sizes))}  # fmt: skip
        feed = {name: feed[name].astype(F) for name in inputs}
        (want,) = session.run(None, feed)
        for got in (jn.evaluate(graph, *feed.values()), compiled(*feed.values())):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    empty = [np.zeros(shape, F) for shape in ((1, 4, 4, 1), (1, 24, 4, 0), (1, 12, 4, 0))][: len(feed)]
    with pytest.raises(jn.UserError, match=r"a kernel of \[3, 2\] over images \(h, w_\) has a window"):
        compiled(*empty)
    feed["o"] = feed["o"][:, :, ::-1, :1]
    with pytest.raises(jn.UserError, match=r"must equal|axes agree"):
        compiled(*feed.values())
