"""Products whose results are stored with their rows along memory, with what follows them, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

SLOW = pytest.mark.slow
SHAPES = (("m", "k"), ("k", "n"), ("n",), ("n", "m"))
SIZES = ((1, 3, 5), (5, 3, 1), (17, 5, 33), (64, 7, 64), (100, 27, 32), (257, 9, 129), (0, 3, 4))


@pytest.mark.parametrize("dtype", ["float32", *[pytest.param(each, marks=SLOW) for each in ("float64", "float16", "int32")]])
def test_transposed_results(dtype: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, name) for name, shape in zip("xwbo", SHAPES, strict=True)])
    x, w, bias, other = graph.inputs
    product = x @ w
    graph.output((product + bias).permute((1, 0)), product.permute((1, 0)) * other, product)
    models = [jn.compile(graph, device="cpu", cache=False, threads=threads) for threads in (1, 2)]
    rng = np.random.default_rng(0)
    for m, k, n in SIZES:
        x, w, bias, other = (rng.integers(-5, 5, shape).astype(dtype) for shape in ((m, k), (k, n), (n,), (n, m)))
        whole = x.astype(np.float64) @ w.astype(np.float64)
        for model in models:
            for found, expected in zip(model(x, w, bias, other), ((whole + bias).T, whole.T * other, whole), strict=True):
                np.testing.assert_array_equal(found.astype(np.float64), expected.astype(dtype).astype(np.float64))
