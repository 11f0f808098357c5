"""Single elements of short arrays, which registers of hosts hold: every length, dtype and position agrees with NumPy."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

from ...support.tiers import each

RNG = np.random.default_rng(5)
LENGTHS = (1, 2, 3, 10, 16, 17, 64, 65, 100, 128, 129, 200, 255, 256, 257, 512, 600)
DTYPES = ("uint8", "int8", "int16", "float16", "int32", "float32", "uint64", "float64", "bool", "bfloat16")
POSITIONS = ("uint8", "uint16", "int8", "int32", "int64", "uint64")


def picked(table: Any, positions: Any, build: Any = None, **options: Any) -> tuple[Any, jn.Model]:
    graph = jn.Graph("g", [jn.TensorType(str(table.dtype), table.shape), jn.TensorType(str(positions.dtype), positions.shape)])
    graph.output((build or (lambda t, i: jn.gather(t, i, axis=0)))(*graph.inputs))
    model = jn.compile(graph, device="cpu", cache=False, **options)
    return np.asarray(model(table, positions)), model


def table_of(count: int, dtype: str) -> Any:
    return RNG.integers(0, 2 if dtype == "bool" else 100, count).astype(jn.DType(dtype).numpy)


def clipped(positions: Any, count: int) -> Any:
    """Positions as gather takes them: negative ones count from the end, all others are clipped."""
    exact = positions.astype(object)
    return np.array([min(max(at + count if at < 0 else at, 0), count - 1) for at in exact.reshape(-1)]).reshape(positions.shape)


@pytest.mark.one_in(10)
@pytest.mark.parametrize(("dtype", "kind"), each(DTYPES, POSITIONS))
def test_every_length_and_position(dtype: str, kind: str) -> None:
    for count in LENGTHS:
        table, info = table_of(count, dtype), np.iinfo(kind)
        positions = RNG.integers(max(info.min, -2 * count), min(info.max, 2 * count), 3000, endpoint=True).astype(kind)
        positions[:4] = info.min, info.max, min(count - 1, info.max), 0
        found, _ = picked(table, positions)
        np.testing.assert_array_equal(found, table[clipped(positions, count)], err_msg=f"{dtype} {kind} {count}")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("shape", [(1,), (7,), (1500,), (40, 33), (3, 65, 64), (1000, 3), (5, 1)])
def test_every_shape(shape: tuple[int, ...]) -> None:
    for count in (10, 256):
        table, positions = table_of(count, "float32"), RNG.integers(0, count, shape).astype(np.uint8)
        np.testing.assert_array_equal(picked(table, positions)[0], table[positions])
        twice, _ = picked(table, positions, lambda t, i: jn.gather(t, i, axis=0) * 2.0 + jn.sum(jn.gather(t * t, i, axis=0)))
        squares = (table * table)[positions].sum(dtype=np.float64)
        np.testing.assert_allclose(twice, table[positions] * 2 + squares, rtol=1e-5)


def test_tables_that_a_kernel_computes_and_positions_that_it_computes() -> None:
    table, positions = table_of(200, "float32"), RNG.integers(0, 50, (60, 70)).astype(np.int64)
    found, _ = picked(table, positions, lambda t, i: jn.gather(jn.cumsum(t, axis=0), i * 3 + 1, axis=0))
    np.testing.assert_allclose(found, np.cumsum(table)[positions * 3 + 1], rtol=1e-5)


def test_sums_over_rows_of_picked_elements() -> None:
    table, positions = table_of(37, "float32"), RNG.integers(0, 37, (130, 300)).astype(np.uint8)
    for axis in (0, 1):
        found, _ = picked(table, positions, lambda t, i, axis=axis: jn.sum(jn.gather(t, i, axis=0), axis=axis))
        np.testing.assert_allclose(found, table[positions].sum(axis=axis), rtol=1e-5)


def test_registers_hold_tables() -> None:
    most = host_target().table_elements(4)
    if most == 0:
        pytest.skip("needs AVX2")
    table, positions = table_of(most, "float32"), RNG.integers(0, most, 5000).astype(np.uint8)
    assert "tt.gather" in picked(table, positions)[1].kernels[0].ttir
    assert "tt.gather" not in picked(table_of(most + 1, "float32"), positions)[1].kernels[0].ttir
    assert "tt.gather" not in picked(table, positions[: most // 2])[1].kernels[0].ttir  # loading it would take longer


@pytest.mark.parametrize(("count", "dtype", "kind", "is_table"), [
    (32, "float32", "uint8", True), (33, "float32", "uint8", False), (32, "float32", "int64", True),
    (256, "uint8", "uint8", True), (256, "uint8", "uint16", True), (16, "uint8", "int64", False),
    (8, "float64", "uint8", False),
])  # fmt: skip
def test_registers_of_avx2_hold_short_tables(count: int, dtype: str, kind: str, is_table: bool) -> None:
    if not host_target().has("avx2"):
        pytest.skip("needs AVX2")
    table, positions = table_of(count, dtype), RNG.integers(0, count, 5000).astype(kind)
    found, model = picked(table, positions, target="x86-64-v3")
    np.testing.assert_array_equal(found, table[positions])
    assert ("tt.gather" in model.kernels[0].ttir) == is_table


@pytest.mark.parametrize("count", [10, 256])
def test_the_sanitizer_finds_nothing(count: int) -> None:
    table, positions = table_of(count, "float32"), RNG.integers(0, count, 5000).astype(np.uint8)
    assert picked(table, positions)[1].sanitize(table, positions).findings == ()
