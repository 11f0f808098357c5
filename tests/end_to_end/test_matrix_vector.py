"""Products of matrices and vectors against NumPy: every order of axes, sizes around vectors and blocks, known and open, NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

PRODUCTS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "W @ v": (lambda w, v: w @ v, 1), "W.T @ v": (lambda w, v: w.T @ v, 0), "v @ W": (lambda w, v: v @ w, 0),
    "v @ W.T": (lambda w, v: v @ w.T, 1),
}  # fmt: skip
SIZES = ((1, 1), (1, 5), (5, 1), (17, 33), (64, 65), (130, 700), (700, 129), (0, 4), (4, 0))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", *[pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("float64", "int32")]])
@pytest.mark.parametrize("name", PRODUCTS)
def test_a_matrix_and_a_vector(name: str, dtype: str) -> None:
    product, axis = PRODUCTS[name]
    rng = np.random.default_rng(0)
    opened = jn.Graph("g", [jn.TensorType(dtype, ("m", "n"), "w"), jn.TensorType(dtype, (("m", "n")[axis],), "v")])
    opened.output(product(*opened.inputs))
    symbolic = [jn.compile(opened, device="cpu", cache=False, threads=threads) for threads in (1, 2)]
    for shape in SIZES:
        w, v = (rng.integers(-9, 9, size).astype(dtype) for size in (shape, shape[axis]))
        if dtype != "int32":
            w, v = w / np.float32(7).astype(dtype), v / np.float32(7).astype(dtype)
        found = [model(w, v) for model in symbolic]
        np.testing.assert_array_equal(found[0], found[1])
        expected = product(w.astype(np.float64), v.astype(np.float64))
        np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-4)
        if shape == (130, 700):
            known = jn.Graph("g", [jn.TensorType(dtype, w.shape, "w"), jn.TensorType(dtype, v.shape, "v")])
            known.output(product(*known.inputs) + 1)
            np.testing.assert_allclose(jn.compile(known, device="cpu", cache=False)(w, v), expected + 1, rtol=1e-4, atol=1e-4)
        if dtype != "int32" and min(shape) > 2:
            w[2, 2], v[:3] = np.inf, 0
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(np.isnan(symbolic[1](w, v)), np.isnan(product(w, v)))
