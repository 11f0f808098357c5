"""Products whose sums are written where a store puts them: within its mask, beside other memory, and not over operands."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest


def text(row_mask: bool, column_mask: bool, dtype: str = "f32", stride: int = 40) -> str:
    """A block of 32 × 32 and 32 steps; rows of the left operand are read up to m, the store is within the masks said here."""
    masks = [f"%{name}in" for name, used in (("r", row_mask), ("c", column_mask)) if used]
    both = "%kept = arith.andi %rin, %cin : tensor<32x32xi1>" if len(masks) == 2 else ""
    mask = f", {'%kept' if both else masks[0]}" if masks else ""
    loads = "\n".join(f"""
    %{name}s = arith.constant dense<{step}> : tensor<32x1xi32>
    %{name}r = arith.muli %r2, %{name}s : tensor<32x1xi32>
    %{name}rb = tt.broadcast %{name}r : tensor<32x1xi32> -> tensor<32x32xi32>
    %{name}at = arith.addi %{name}rb, %cb : tensor<32x32xi32>
    %{name}p = tt.splat %{name} : !tt.ptr<{dtype}> -> tensor<32x32x!tt.ptr<{dtype}>>
    %{name}a = tt.addptr %{name}p, %{name}at : tensor<32x32x!tt.ptr<{dtype}>>, tensor<32x32xi32>""" for name, step in
        (("x", 32), ("y", 32), ("o", stride)))  # fmt: skip
    return f"""tt.func public @f(%x: !tt.ptr<{dtype}>, %y: !tt.ptr<{dtype}>, %o: !tt.ptr<{dtype}>, %m: i32, %n: i32) {{
    %r = tt.make_range {{end = 32 : i32, start = 0 : i32}} : tensor<32xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<32xi32> -> tensor<32x1xi32>
    %c2 = tt.expand_dims %r {{axis = 0 : i32}} : tensor<32xi32> -> tensor<1x32xi32>
    %cb = tt.broadcast %c2 : tensor<1x32xi32> -> tensor<32x32xi32>
    {loads}
    %ms = tt.splat %m : i32 -> tensor<32x1xi32>
    %ri = arith.cmpi slt, %r2, %ms : tensor<32x1xi32>
    %rin = tt.broadcast %ri : tensor<32x1xi1> -> tensor<32x32xi1>
    %ns = tt.splat %n : i32 -> tensor<1x32xi32>
    %ci = arith.cmpi slt, %c2, %ns : tensor<1x32xi32>
    %cin = tt.broadcast %ci : tensor<1x32xi1> -> tensor<32x32xi1>
    {both}
    %zero = arith.constant dense<0.0> : tensor<32x32x{dtype}>
    %xv = tt.load %xa, %rin, %zero : tensor<32x32x!tt.ptr<{dtype}>>
    %yv = tt.load %ya : tensor<32x32x!tt.ptr<{dtype}>>
    %d = tt.dot %xv, %yv, %zero : tensor<32x32x{dtype}> * tensor<32x32x{dtype}> -> tensor<32x32x{dtype}>
    tt.store %oa, %d{mask} : tensor<32x32x!tt.ptr<{dtype}>>
    tt.return
  }}"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("masks", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_only_what_the_mask_says_is_written(dtype: str, masks: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(3)
    kernel = jn.kernel.from_ttir(text(*masks, "f32" if dtype == "float32" else "f64"))
    x, y = (rng.integers(-9, 9, (32, 32)).astype(dtype) for _ in range(2))
    for m, n in ((32, 32), (24, 16), (1, 31), (0, 32), (-1, 5), (40, 40)):
        found = np.full((34, 40), 7, dtype)
        kernel.launch((1,), x, y, found[1:], m, n)
        wanted = np.full((34, 40), 7, dtype)
        rows, columns = (min(max(limit, 0), 32) if used else 32 for limit, used in zip((m, n), masks, strict=True))
        read = x * (np.arange(32) < m)[:, None]
        wanted[1 : 1 + rows, :columns] = (read @ y)[:rows, :columns]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{m}, {n}")


@pytest.mark.parametrize("where", ["left", "right", "beside"])
def test_operands_are_read_before_they_are_overwritten(where: str) -> None:
    rng = np.random.default_rng(4)
    kernel = jn.kernel.from_ttir(text(False, False, stride=32))
    memory = rng.integers(-9, 9, 5000).astype(np.float32)
    x, y = memory[:1024].copy(), memory[1024:2048].copy()
    at = {"left": 0, "right": 1024, "beside": 700}[where]
    kernel.launch((1,), memory[:1024], memory[1024:2048], memory[at:], 32, 32)
    found = memory[at : at + 1024].reshape(32, 32)
    np.testing.assert_array_equal(found, x.reshape(32, 32) @ y.reshape(32, 32))


@pytest.mark.parametrize("stride", [0, 16, 31])
def test_rows_of_a_result_that_overlap(stride: int) -> None:
    """Which row is there in the end is not said; where only one of them writes, its sums are."""
    rng = np.random.default_rng(5)
    x, y = (rng.integers(-9, 9, (32, 32)).astype(np.float32) for _ in range(2))
    found = np.full(2048, 7, np.float32)
    jn.kernel.from_ttir(text(False, False, stride=stride)).launch((1,), x, y, found, 32, 32)
    wanted, reached = x @ y, 31 * stride + 32
    np.testing.assert_array_equal(found[:stride], wanted[0, :stride])
    np.testing.assert_array_equal(found[31 * stride + 32 - stride : reached], wanted[31, 32 - stride :])
    assert (found[reached:] == 7).all()


def test_infinities_beside_what_a_mask_leaves_out() -> None:
    """A row that the mask of the left operand leaves out is 0 · y, NaN where y is infinite."""
    kernel = jn.kernel.from_ttir(text(False, False))
    x, y = np.ones((32, 32), np.float32), np.ones((32, 32), np.float32)
    y[3, 5], y[4, 6] = np.inf, np.nan
    found = np.full((32, 40), 7, np.float32)
    kernel.launch((1,), x, y, found, 24, 32)
    read = x * (np.arange(32) < 24)[:, None].astype(np.float32)
    with np.errstate(invalid="ignore"):
        wanted = read @ y
    np.testing.assert_array_equal(found[:, :32], wanted)
    assert (found[:, 32:] == 7).all()


@pytest.mark.parametrize("rows", [1, 8])
def test_programs_that_store_the_same_sums_do_no_harm(rows: int) -> None:
    """Tiles that overlap, as the last one of a row moved back into it does: what is read there in between is finished."""
    block, depth = f"tensor<{rows}x128x", 256
    kernel = jn.kernel.from_ttir(f"""tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>) {{
    %r = tt.make_range {{end = {rows} : i32, start = 0 : i32}} : tensor<{rows}xi32>
    %k = tt.make_range {{end = {depth} : i32, start = 0 : i32}} : tensor<{depth}xi32>
    %n = tt.make_range {{end = 128 : i32, start = 0 : i32}} : tensor<128xi32>
    %r2 = tt.expand_dims %r {{axis = 1 : i32}} : tensor<{rows}xi32> -> tensor<{rows}x1xi32>
    %k2 = tt.expand_dims %k {{axis = 1 : i32}} : tensor<{depth}xi32> -> tensor<{depth}x1xi32>
    %kr = tt.expand_dims %k {{axis = 0 : i32}} : tensor<{depth}xi32> -> tensor<1x{depth}xi32>
    %n2 = tt.expand_dims %n {{axis = 0 : i32}} : tensor<128xi32> -> tensor<1x128xi32>
    %kw = arith.constant dense<{depth}> : tensor<{rows}x1xi32>
    %nr = arith.constant dense<128> : tensor<{rows}x1xi32>
    %nk = arith.constant dense<128> : tensor<{depth}x1xi32>
    %xr = arith.muli %r2, %kw : tensor<{rows}x1xi32>
    %yr = arith.muli %k2, %nk : tensor<{depth}x1xi32>
    %or = arith.muli %r2, %nr : tensor<{rows}x1xi32>
    %xrb = tt.broadcast %xr : tensor<{rows}x1xi32> -> tensor<{rows}x{depth}xi32>
    %xkb = tt.broadcast %kr : tensor<1x{depth}xi32> -> tensor<{rows}x{depth}xi32>
    %xat = arith.addi %xrb, %xkb : tensor<{rows}x{depth}xi32>
    %yrb = tt.broadcast %yr : tensor<{depth}x1xi32> -> tensor<{depth}x128xi32>
    %ynb = tt.broadcast %n2 : tensor<1x128xi32> -> tensor<{depth}x128xi32>
    %yat = arith.addi %yrb, %ynb : tensor<{depth}x128xi32>
    %orb = tt.broadcast %or : tensor<{rows}x1xi32> -> {block}i32>
    %onb = tt.broadcast %n2 : tensor<1x128xi32> -> {block}i32>
    %oat = arith.addi %orb, %onb : {block}i32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<{rows}x{depth}x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %xat : tensor<{rows}x{depth}x!tt.ptr<f32>>, tensor<{rows}x{depth}xi32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<{depth}x128x!tt.ptr<f32>>
    %yp = tt.addptr %ys, %yat : tensor<{depth}x128x!tt.ptr<f32>>, tensor<{depth}x128xi32>
    %os = tt.splat %o : !tt.ptr<f32> -> {block}!tt.ptr<f32>>
    %op = tt.addptr %os, %oat : {block}!tt.ptr<f32>>, {block}i32>
    %xv = tt.load %xp : tensor<{rows}x{depth}x!tt.ptr<f32>>
    %yv = tt.load %yp : tensor<{depth}x128x!tt.ptr<f32>>
    %zero = arith.constant dense<0.0> : {block}f32>
    %d = tt.dot %xv, %yv, %zero : tensor<{rows}x{depth}xf32> * tensor<{depth}x128xf32> -> {block}f32>
    tt.store %op, %d : {block}!tt.ptr<f32>>
    tt.return
  }}""")
    rng = np.random.default_rng(6)
    x, y = rng.integers(-9, 9, (rows, depth)).astype(np.float32), rng.integers(-9, 9, (depth, 128)).astype(np.float32)
    wanted = x @ y
    for _ in range(100):
        found = np.zeros((rows, 128), np.float32)
        kernel.launch((64,), x, y, found, threads=2)
        np.testing.assert_array_equal(found, wanted)
