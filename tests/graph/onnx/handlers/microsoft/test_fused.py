"""Operators of com.microsoft, each against its definition in NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from scipy.special import erf, expit

from .....support.onnx_models import evaluated, model, node

F = np.float32
RNG = np.random.default_rng(2)
X, B = RNG.standard_normal((2, 3, 8)).astype(F), RNG.standard_normal(8).astype(F)


def run(op: str, names: str, *arrays: Any, outputs: str = "y", domain: str = "com.microsoft", **attributes: Any) -> list[Any]:
    inputs = {
        name: (array.dtype, array.shape) for name, array in zip([n for n in names.split() if n != "_"], arrays, strict=True)
    }
    made = model(
        [node(op, names, outputs, domain=domain, **attributes)], inputs, outputs.replace(" _", ""), domains={"com.microsoft": 1}
    )
    return evaluated(made, *arrays)


def gelu(x: Any) -> Any:
    return x / 2 * (1 + erf(x / np.sqrt(2)))


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_activations() -> None:
    close(run("Gelu", "x", X)[0], gelu(X))
    close(run("BiasGelu", "x b", X, B)[0], gelu(X + B))
    v = X + B
    close(run("FastGelu", "x b", X, B)[0], v / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))))
    close(run("QuickGelu", "x", X, alpha=1.5)[0], X * expit(1.5 * X))


def test_products_of_transposed_operands() -> None:
    a, b = RNG.standard_normal((2, 4, 3)).astype(F), RNG.standard_normal((2, 5, 4)).astype(F)
    close(run("FusedMatMul", "a b", a, b, transA=1, transB=1, alpha=0.5)[0], 0.5 * a.swapaxes(1, 2) @ b.swapaxes(1, 2))


def test_normalised_sums() -> None:
    skip, gamma = RNG.standard_normal(X.shape).astype(F), RNG.standard_normal(8).astype(F)
    total = X + skip + B
    centred = total - total.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3) * gamma + B
    found = run("SkipLayerNormalization", "x s g b c", X, skip, gamma, B, B, outputs="y _ _ t", epsilon=1e-3)
    close(found[0], expected)
    close(found[1], total)
    expected = (X + skip) / np.sqrt(((X + skip) ** 2).mean(-1, keepdims=True) + 1e-3) * gamma
    close(run("SkipSimplifiedLayerNormalization", "x s g", X, skip, gamma, epsilon=1e-3)[0], expected)
    close(run("SimplifiedLayerNormalization", "x g", X + skip, gamma, domain="", epsilon=1e-3)[0], expected)


def packed(codes: Any) -> Any:
    """Two elements of a row in each byte, the first in the low bits."""
    return (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)


@pytest.mark.parametrize("with_zeros", [False, True])
def test_weights_of_4_bits(with_zeros: bool) -> None:
    n, k, block = 3, 40, 16
    codes, scales = RNG.integers(0, 16, (n, 3, block)), RNG.standard_normal((n, 3)).astype(F)
    zeros = RNG.integers(0, 16, (n, 4)) if with_zeros else np.full((n, 4), 8)
    weights = ((codes - zeros[:, :3, None]) * scales[..., None]).reshape(n, -1)[:, :k]
    x = RNG.standard_normal((2, k)).astype(F)
    arrays = [x, packed(codes), scales.reshape(-1), *([packed(zeros).reshape(-1)] if with_zeros else [])]
    found = run("MatMulNBits", "x w s z" if with_zeros else "x w s", *arrays, K=k, N=n, bits=4, block_size=block)
    close(found[0], x @ weights.T)


def test_weights_of_8_bits() -> None:
    codes, scales = RNG.integers(0, 256, (3, 2, 16)), RNG.standard_normal(6).astype(F)
    x = RNG.standard_normal((2, 32)).astype(F)
    weights = ((codes - 128) * scales.reshape(3, 2, 1)).reshape(3, -1)
    found = run("MatMulNBits", "x w s", x, codes.astype(np.uint8), scales, K=32, N=3, bits=8, block_size=16)[0]
    np.testing.assert_allclose(found, x @ weights.T, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("opset", [13, 14, 16])
def test_layer_normalization_in_a_model_of_an_earlier_opset(opset: int) -> None:
    """As onnxruntime's optimiser writes it: the opset does not have it, so its defaults stand nowhere else."""
    rng = np.random.default_rng(1)
    x, scale, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 8), (8,), (8,)))
    inputs = {"x": (np.float32, x.shape), "s": (np.float32, scale.shape), "b": (np.float32, bias.shape)}
    made = model([node("LayerNormalization", "x s b", "y")], inputs, "y", opset=opset)
    found = jn.evaluate(jn.from_onnx(made), x, scale, bias)
    wide = x.astype(np.float64)
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, normal * scale + bias, rtol=1e-5, atol=1e-6)
