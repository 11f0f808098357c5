"""Rows of palettes that positions pick, column by column, agree with NumPy for every dtype, length and position."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from ....support.tiers import each

RNG = np.random.default_rng(9)
DTYPES = ("uint8", "int16", "float16", "float32", "float64", "bool", "complex64")


def picked(palette: Any, positions: Any, **options: Any) -> tuple[Any, jn.Model]:
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), x.shape) for x in (palette, positions)])
    graph.output(jn.gather(*graph.inputs, axis=0))
    model = jn.compile(graph, device="cpu", cache=False, **options)
    return np.asarray(model(palette, positions)), model


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "columns"), each(DTYPES, (1, 2, 3, 4, 5)))
def test_every_palette(dtype: str, columns: int) -> None:
    for rows in (1, 2, 10, 37, 64, 256, 300):
        palette = RNG.integers(0, 2 if dtype == "bool" else 100, (rows, columns)).astype(dtype)
        for kind in ("uint8", "uint16", "int64"):
            positions = RNG.integers(0 if kind[0] == "u" else -2 * rows, 2 * rows, (67, 100), endpoint=True)
            positions = positions.clip(0, np.iinfo(kind).max) if kind[0] == "u" else positions
            at = np.clip(np.where(positions < 0, positions + rows, positions), 0, rows - 1)
            found, _ = picked(palette, positions.astype(kind))
            np.testing.assert_array_equal(found, palette[at], err_msg=f"{rows} {kind}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
def test_columns_are_tables(numerics: Any) -> None:
    if host_target().table_elements(1) == 0:
        pytest.skip("needs AVX-512 VBMI")
    palette, positions = RNG.integers(0, 256, (256, 3)).astype(np.uint8), RNG.integers(0, 256, (100, 90)).astype(np.uint8)
    found, model = picked(palette, positions, numerics=numerics)
    np.testing.assert_array_equal(found, palette[positions])
    assert all("tt.gather" in kernel.ttir for kernel in model.kernels)
    few, model = picked(palette, positions[:2])
    np.testing.assert_array_equal(few, palette[positions[:2]])
    assert not any("tt.gather" in kernel.ttir for kernel in model.kernels)
