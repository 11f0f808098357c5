"""Stacks of up to 32 columns, whose vectors no registers hold all, against NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest


@pytest.mark.one_in(10)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int16"])
@pytest.mark.parametrize("count", [8, 9, 12, 16, 17, 31, 32, 33])
def test_stacks_of_computed_columns(count: int, dtype: str) -> None:
    for rows in (1, 7, 16, 100, 1000):
        x = np.random.default_rng(rows).integers(0, 9, (rows, 3)).astype(dtype)

        def made(lib: Any, x: Any) -> Any:
            factors = [float(number) if dtype.startswith("float") else number for number in range(count)]
            return lib.stack([x[:, 0] * x[:, 1] + x[:, 2] * factor for factor in factors], 1)

        graph = jn.Graph("g", inputs=[jn.TensorType(dtype, x.shape, "x")])
        graph.output(made(jn, graph.inputs[0]))
        np.testing.assert_array_equal(jn.compile(graph, device="cpu", threads=1)(x), made(np, x).astype(dtype))


def test_nine_neighbours_of_each_pixel() -> None:
    x = np.random.default_rng(0).standard_normal((40, 50), dtype=np.float32)

    def made(lib: Any, x: Any) -> Any:
        return lib.stack([x[i : 38 + i, j : 48 + j] for i in range(3) for j in range(3)], -1)

    graph = jn.Graph("g", inputs=[jn.TensorType("float32", x.shape, "x")])
    graph.output(made(jn, graph.inputs[0]))
    np.testing.assert_array_equal(jn.compile(graph, device="cpu")(x), made(np, x))
