"""One row times weights that are converted and lie along their rows agrees with NumPy, and reads them where they lie."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(2)


def run(build: Any, *arrays: Any, shapes: Any = None, **options: Any) -> tuple[Any, jn.Model]:
    given = shapes or [x.shape for x in arrays]
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), shape) for x, shape in zip(arrays, given, strict=True)])
    graph.output(build(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False, **options)
    return np.asarray(model(*arrays)), model


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint8", "float16", "int32"])
@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
def test_converted_weights(dtype: str, rows: int, numerics: Any) -> None:
    for n, k in ((64, 128), (33, 100), (1, 7), (200, 1)):
        x, q = RNG.integers(-4, 5, (rows, k)).astype(np.float32), RNG.integers(0, 9, (n, k)).astype(dtype)
        wanted = x @ q.T.astype(np.float32) * 0.5
        first, _ = run(lambda x, q: x @ (jn.permute(jn.cast(q, "float32"), (1, 0)) * 0.5), x, q, numerics=numerics)
        second, _ = run(lambda x, q: x @ (jn.cast(jn.permute(q, (1, 0)), "float32") * 0.5), x, q, numerics=numerics)
        np.testing.assert_allclose(first, wanted, rtol=1e-6)
        np.testing.assert_allclose(second, wanted, rtol=1e-6)


def test_sizes_known_at_launch_and_zero_points() -> None:
    x, q = RNG.integers(-4, 5, (1, 90)).astype(np.float32), RNG.integers(0, 255, (70, 90)).astype(np.uint8)
    shapes = [(1, "k"), ("n", "k")]
    found, _ = run(lambda x, q: x @ jn.permute((jn.cast(q, "float32") - 128.0) * 0.25, (1, 0)), x, q, shapes=shapes)
    np.testing.assert_allclose(found, x @ ((q.astype(np.float32) - 128) * 0.25).T, rtol=1e-6)


def test_nothing_is_stored_transposed() -> None:
    x, q = np.ones((1, 256), np.float32), np.ones((512, 256), np.int8)
    found, model = run(lambda x, q: x @ jn.permute(jn.cast(q, "float32"), (1, 0)), x, q)
    np.testing.assert_array_equal(found, np.full((1, 512), 256, np.float32))
    assert len(model.kernels) == 1
    assert "tt.dot" not in model.kernels[0].ttir


def test_scales_of_rows_are_a_product_as_before() -> None:
    x, q, s = np.ones((1, 64), np.float32), RNG.integers(-9, 9, (48, 64)).astype(np.int8), np.arange(48, dtype=np.float32)
    found, _ = run(lambda x, q, s: x @ jn.permute(jn.cast(q, "float32") * jn.unsqueeze(s, 1), (1, 0)), x, q, s)
    np.testing.assert_allclose(found, x @ (q * s[:, None]).T, rtol=1e-6)
