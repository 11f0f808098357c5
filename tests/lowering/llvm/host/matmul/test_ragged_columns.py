"""Products whose columns fill no panel, beside NumPy: nothing beyond a row is written, and infinities stay in their lines."""

from __future__ import annotations

import functools
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

COLUMNS = (3, 7, 8, 9, 15, 17, 31, 33, 37, 48, 49, 53, 63, 65, 97, 130)
TARGETS = [target for target in (None, "x86-64-v3") if target is None or host_target().has("avx2")]


def product(m: int, k: int, n: int, dtype: Any, turned: tuple[bool, bool] = (False, False), target: str | None = None) -> Any:
    """A compiled product, whose operands are transposed as `turned` says."""
    shapes = [shape[::-1] if turn else shape for shape, turn in zip(((m, k), (k, n)), turned, strict=True)]
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, f"x{at}") for at, shape in enumerate(shapes)])
    sides = [jn.permute(side, (1, 0)) if turn else side for side, turn in zip(graph.inputs, turned, strict=True)]
    graph.output(sides[0] @ sides[1])
    return jn.compile(graph, "cpu", cache=False, target=target, threads=1)


def check(m: int, k: int, n: int, dtype: Any, turned: tuple[bool, bool] = (False, False), target: str | None = None) -> None:
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.integers(-9, 9, shape).astype(dtype) for shape in ((m, k), (k, n)))
    given = [np.ascontiguousarray(side.T) if turn else side for side, turn in zip((a, b), turned, strict=True)]
    found = product(m, k, n, dtype, turned, target)(*given)
    np.testing.assert_array_equal(found, a @ b, err_msg=f"{m} x {k} x {n}")


@pytest.mark.one_in(16)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", COLUMNS)
def test_columns_of_any_number(n: int, target: str | None) -> None:
    at = COLUMNS.index(n)
    dtype, m, k = ("float32", "float64")[at % 2], (5, 13, 25, 70)[at % 4], (1, 3, 6, 41)[at // 4]
    check(m, k, n, dtype, (at % 3 == 1, at % 5 == 2), target)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "k", "n"), [(67, 3, 1502), (33, 5, 1031), (9, 600, 35)])
def test_blocks_that_end_within_a_result(m: int, k: int, n: int, target: str | None) -> None:
    """Several blocks of columns, of which the last one is shorter, and sums in parts along k."""
    check(m, k, n, "float32", target=target)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("n", [2, 4, 5, 8])
def test_few_columns_of_a_matrix_that_lies_along_its_rows(n: int) -> None:
    for m, k, dtype in ((35, 70, "float32"), (64, 9, "float64"), (285, 21, "float32")):
        check(m, k, n, dtype, (True, n == 5))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("turned", [(False, False), (True, False)])
@pytest.mark.parametrize("n", [4, 37, 78])
def test_infinities_and_nan_stay_in_their_lines(n: int, turned: tuple[bool, bool]) -> None:
    a, b = np.ones((21, 11), np.float32), np.ones((11, n), np.float32)
    a[2, 3], a[20, 10], b[4, n - 1], b[10, 0] = np.inf, np.nan, -np.inf, np.nan
    found = product(21, 11, n, "float32", turned)(np.ascontiguousarray(a.T) if turned[0] else a, b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, a @ b)


TEXT = """tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>) {
    %r = tt.make_range {end = ROWS : i32, start = 0 : i32} : tensor<ROWSxi32>
    %k = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %p = tt.get_program_id x : i32
    %w = arith.constant 64 : i32
    %first = arith.muli %p, %w : i32
    %fs = tt.splat %first : i32 -> tensor<64xi32>
    %cc = arith.addi %c, %fs : tensor<64xi32>
    %r2 = tt.expand_dims %r {axis = 1 : i32} : tensor<ROWSxi32> -> tensor<ROWSx1xi32>
    %k2 = tt.expand_dims %k {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
    %kr = tt.expand_dims %k {axis = 0 : i32} : tensor<16xi32> -> tensor<1x16xi32>
    %c2 = tt.expand_dims %cc {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
    %x16 = arith.constant dense<16> : tensor<ROWSx1xi32>
    %y200 = arith.constant dense<200> : tensor<16x1xi32>
    %o200 = arith.constant dense<STRIDE> : tensor<ROWSx1xi32>
    %limit = arith.constant dense<LIMIT> : tensor<1x64xi32>
    %in = arith.cmpi slt, %c2, %limit : tensor<1x64xi32>
    %iny = tt.broadcast %in : tensor<1x64xi1> -> tensor<16x64xi1>
    %ino = tt.broadcast %in : tensor<1x64xi1> -> tensor<ROWSx64xi1>
    %xr = arith.muli %r2, %x16 : tensor<ROWSx1xi32>
    %yr = arith.muli %k2, %y200 : tensor<16x1xi32>
    %or = arith.muli %r2, %o200 : tensor<ROWSx1xi32>
    %xb = tt.broadcast %xr : tensor<ROWSx1xi32> -> tensor<ROWSx16xi32>
    %xk = tt.broadcast %kr : tensor<1x16xi32> -> tensor<ROWSx16xi32>
    %yb = tt.broadcast %yr : tensor<16x1xi32> -> tensor<16x64xi32>
    %yc = tt.broadcast %c2 : tensor<1x64xi32> -> tensor<16x64xi32>
    %ob = tt.broadcast %or : tensor<ROWSx1xi32> -> tensor<ROWSx64xi32>
    %oc = tt.broadcast %c2 : tensor<1x64xi32> -> tensor<ROWSx64xi32>
    %xat = arith.addi %xb, %xk : tensor<ROWSx16xi32>
    %yat = arith.addi %yb, %yc : tensor<16x64xi32>
    %oat = arith.addi %ob, %oc : tensor<ROWSx64xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<ROWSx16x!tt.ptr<f32>>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<16x64x!tt.ptr<f32>>
    %os = tt.splat %o : !tt.ptr<f32> -> tensor<ROWSx64x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %xat : tensor<ROWSx16x!tt.ptr<f32>>, tensor<ROWSx16xi32>
    %yp = tt.addptr %ys, %yat : tensor<16x64x!tt.ptr<f32>>, tensor<16x64xi32>
    %op = tt.addptr %os, %oat : tensor<ROWSx64x!tt.ptr<f32>>, tensor<ROWSx64xi32>
    %none = arith.constant dense<0.0> : tensor<16x64xf32>
    %zero = arith.constant dense<0.0> : tensor<ROWSx64xf32>
    %xv = tt.load %xp : tensor<ROWSx16x!tt.ptr<f32>>
    %yv = tt.load %yp, %iny, %none : tensor<16x64x!tt.ptr<f32>>
    %d = tt.dot %xv, %yv, %zero : tensor<ROWSx16xf32> * tensor<16x64xf32> -> tensor<ROWSx64xf32>
    tt.store %op, %d, %ino : tensor<ROWSx64x!tt.ptr<f32>>
    tt.return
  }"""


@functools.cache
def text(limit: int, stride: int, rows: int = 16) -> Any:
    found = TEXT.replace("ROWS", str(rows)).replace("LIMIT", str(limit)).replace("STRIDE", str(stride))
    return jn.kernel.from_ttir(found)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("limit", [5, 37, 64, 100, 144, 158, 192])
@pytest.mark.parametrize("stride", [200, 193])
def test_nothing_beyond_a_limit_is_written(limit: int, stride: int) -> None:
    """Three programs of 64 columns, of which some are cut, and some have none, in rows with room between them."""
    rng = np.random.default_rng(limit)
    x, y = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((16, 16), (16, 200)))
    found, wanted = np.full((18, stride), 7, np.float32), np.full((18, stride), 7, np.float32)
    text(limit, stride).launch((3,), x, y, found[1:])
    wanted[1:17, :limit] = (x @ y)[:, :limit]
    np.testing.assert_array_equal(found, wanted)


def test_rows_that_only_a_limit_keeps_apart() -> None:
    """Rows are 40 elements apart, fewer than a block has columns: each is written up to the limit only."""
    x, y = np.ones((16, 16), np.float32), np.ones((16, 200), np.float32)
    for limit in (37, 40):
        found = np.full(16 * 40 + 64, 7, np.float32)
        text(limit, 40).launch((1,), x, y, found)
        wanted = np.full(16 * 40 + 64, 7, np.float32)
        for row in range(16):
            wanted[row * 40 : row * 40 + limit] = 16
        np.testing.assert_array_equal(found, wanted)
