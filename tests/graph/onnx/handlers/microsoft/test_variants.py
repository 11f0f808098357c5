"""Variants of operators of com.microsoft, as onnxruntime computes them: turned batches, outputs, sinks, rounded windows."""

from __future__ import annotations

import importlib.util
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_texts import agrees, model, serves

pytestmark = pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="onnxruntime is not installed")
RNG = np.random.default_rng(45)


def floats(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


def stored(x: Any, is_turned: int, is_batch_turned: int) -> Any:
    """Matrices as an operand that is transposed, or whose rows come first, has them."""
    x = x.swapaxes(-1, -2) if is_turned else x
    return np.ascontiguousarray(np.moveaxis(x, -2, 0) if is_batch_turned else x)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("batch", [(3,), (3, 2)])
@pytest.mark.parametrize(("a", "b"), [((0, 1), (0, 0)), ((0, 0), (0, 1)), ((1, 1), (1, 1)), ((1, 1), (0, 0)), ((0, 1), (1, 0))])
def test_products_of_turned_batches(a: tuple[int, int], b: tuple[int, int], batch: tuple[int, ...]) -> None:
    x, y = stored(floats(*batch, 4, 5), *a), stored(floats(*batch, 5, 6), *b)
    names = "mnopqr"
    shapes = [", ".join(f"{name}{letter}" for letter in names[: each.ndim]) for name, each in (("a", x), ("b", y))]
    attributes = f"transA={a[0]}, transBatchA={a[1]}, transB={b[0]}, transBatchB={b[1]}, alpha=0.5"
    for left, right in ((str(list(x.shape))[1:-1], str(list(y.shape))[1:-1]), (shapes[0], shapes[1])):
        made = model(f"(float[{left}] x, float[{right}] y) => (float z)", f"z = com.microsoft.FusedMatMul<{attributes}>(x, y)")
        serves(made, {"x": x, "y": y}, tolerance=1e-4)


def test_a_batch_to_turn_has_three_axes() -> None:
    made = model("(float[4, 5] x, float[5, 6] y) => (float z)", "z = com.microsoft.FusedMatMul<transBatchA=1>(x, y)")
    with pytest.raises(jn.UserError, match="transBatchA of a tensor of 2 axes; fix: 3 axes or more"):
        jn.from_onnx(made)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("outputs", ["y, m", "y, , v", "y, m, v", "y, m, v, t", "y, , , t"])
def test_normalised_sums_return_mean_and_deviation(outputs: str, bias: bool) -> None:
    wanted = ", ".join(f"float[a{name}, b{name}, c{name}] {name}" for name in outputs.split(", ") if name)
    inputs = "x, s, g, o, c" if bias else "x, s, g, o"
    body = f"{outputs} = com.microsoft.SkipLayerNormalization<epsilon=0.01>({inputs})"
    arrays = {"g": floats(8), "o": floats(8), **({"c": floats(8)} if bias else {})}
    made = model(f"(float[n, k, 8] x, float[n, k, 8] s) => ({wanted})", body, **arrays)
    agrees(made, {"x": floats(2, 3, 8), "s": floats(2, 3, 8)}, {"x": floats(1, 1, 8), "s": floats(1, 1, 8)}, tolerance=1e-4)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("outputs", ["y, m", "y, , v", "y, m, v", "y, m, v, t"])
def test_sums_divided_by_their_root_mean_square_return_its_inverse(outputs: str) -> None:
    """And for the mean, of which there is none, zeros."""
    wanted = ", ".join(f"float[a{name}, b{name}, c{name}] {name}" for name in outputs.split(", ") if name)
    body = f"{outputs} = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=0.01>(x, s, g)"
    made = model(f"(float[n, k, 8] x, float[n, k, 8] s) => ({wanted})", body, g=floats(8))
    agrees(made, {"x": floats(2, 3, 8), "s": floats(2, 3, 8)}, tolerance=1e-4)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("options", ["", ", do_rotary=1", ", local_window_size=2", ", softcap=3.0"])
@pytest.mark.parametrize("sink", ["smooth", "sinks"])
def test_a_score_that_has_no_value(sink: str, options: str) -> None:
    """One more in each sum of exponentials: 0, or one for each head."""
    smooth = ", smooth_softmax=1" if sink == "smooth" else ""
    rotary = "do_rotary" in options
    inputs = f"q, k, v, pk, pv, n, t, {'c, s' if rotary else ', '}{', , , h' if sink == 'sinks' else ''}"
    body = f"y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2{smooth}{options}>({inputs})"
    angles = RNG.random((10, 8)).astype(np.float32)
    arrays = {"t": np.array(6, np.int32), "c": np.cos(angles), "s": np.sin(angles), "h": floats(4)}
    arrays = {name: array for name, array in arrays.items() if f"{name}" in inputs.replace(",", " ").split()}
    for batch, new in ((1, 3), (2, 1)):
        past = 6 - new
        shapes = {"q": (batch, new, 64), **dict.fromkeys("kv", (batch, new, 32)), "pk": (batch, 2, past, 16)}
        shapes["pv"] = shapes["pk"]
        given = ", ".join(f"float{list(shape)} {name}" for name, shape in shapes.items())
        made = model(f"({given}, int32[{batch}] n) => (float y, float nk, float nv)", body, **arrays)
        feeds = {name: floats(*shape) for name, shape in shapes.items()}
        serves(made, {**feeds, "n": np.array([5, 4][:batch], np.int32)}, tolerance=1e-4)


@pytest.mark.one_in(12)
@pytest.mark.parametrize("zero", [0, 100])
@pytest.mark.parametrize("include", [0, 1])
@pytest.mark.parametrize("windows", [
    "kernel_shape=[2, 3], strides=[2, 2]", "kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]",
    "kernel_shape=[2, 3], strides=[3, 2], pads=[0, 1, 1, 0]",
])  # fmt: skip
def test_windows_of_codes_that_are_rounded_up(windows: str, include: int, zero: int) -> None:
    """Where padding counts, onnxruntime divides by the elements of a whole window, though some lie behind the padding."""
    attributes = f"{windows}, ceil_mode=1, count_include_pad={include}"
    arrays = {"s": np.float32(0.05), "z": np.uint8(zero), "t": np.float32(0.05), "o": np.uint8(zero)}
    for shape in ("[1, 2, 4, 6]", "[n, 2, h, w]"):
        body = f"y = com.microsoft.QLinearAveragePool<{attributes}>(x, s, z, t, o)"
        made = model(f"(uint8{shape} x) => (uint8 y)", body, **arrays)
        serves(made, {"x": RNG.integers(0, 256, (1, 2, 4, 6)).astype(np.uint8)})
