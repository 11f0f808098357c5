"""Loops that add up a matrix product, with blocks that follow one another, and with blocks that do not."""

from __future__ import annotations

import re

import joinery as jn
import ml_dtypes
import numpy as np
import pytest

M, N, BK = 32, 64, 16
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f64": np.float64, "i8": np.int8}


def kernel(
    elem: str = "f32", masked: bool = True, other: str = "0.000000e+00", moves: int = BK, wraps: str = "",
    limit: str = "left",
) -> str:  # fmt: skip
    """One block of C += A · B over k in blocks of 16. Carries the pointers, the product, and what is left of k.

    moves: elements that the pointers into A advance by.  wraps: `"columns"` of B modulo the width, `"rows"` of A modulo k.
    limit: how the mask along k is written: by the carried number, by the turn, or by a number that never changes.
    """
    total = "i32" if elem == "i8" else "f64" if elem == "f64" else "f32"
    zero = "0" if total == "i32" else "0.000000e+00"
    a, b = f"tensor<{M}x{BK}x", f"tensor<{BK}x{N}x"
    pointers = f"{a}!tt.ptr<{elem}>>, {b}!tt.ptr<{elem}>>"
    mask = {
        "left": "%bound = arith.addi %left_in, %none : i32",
        "turn": "%done = arith.muli %i, %bk : i32\n %bound = arith.subi %k, %done : i32",
        "fixed": "%bound = arith.addi %k, %none : i32",
    }[limit]
    loads = f"""
      {mask}
      %la = tt.splat %bound : i32 -> tensor<1x{BK}xi32>
      %ma = arith.cmpi slt, %rk_a, %la : tensor<1x{BK}xi32>
      %ma2 = tt.broadcast %ma : tensor<1x{BK}xi1> -> {a}i1>
      %lb = tt.splat %bound : i32 -> tensor<{BK}x1xi32>
      %mb = arith.cmpi slt, %rk_b, %lb : tensor<{BK}x1xi32>
      %mb2 = tt.broadcast %mb : tensor<{BK}x1xi1> -> {b}i1>
      %oa = arith.constant dense<{other}> : {a}{elem}>
      %ob = arith.constant dense<{other}> : {b}{elem}>
      %x = tt.load %pa_in, %ma2, %oa : {a}!tt.ptr<{elem}>>
      %y = tt.load %pb_in, %mb2, %ob : {b}!tt.ptr<{elem}>>"""
    plain = f"""
      %x = tt.load %pa_in : {a}!tt.ptr<{elem}>>
      %y = tt.load %pb_in : {b}!tt.ptr<{elem}>>"""
    columns = f"%rn = arith.{'remsi %rn0, %width' if wraps == 'columns' else 'addi %rn0, %same'} : tensor<{N}xi32>"
    rows = f"%rm1 = arith.{'remsi %rm, %height' if wraps == 'rows' else 'addi %rm, %same_row'} : tensor<{M}xi32>"
    return f"""
module {{
  tt.func public @f(%pa: !tt.ptr<{elem}>, %pb: !tt.ptr<{elem}>, %pc: !tt.ptr<{total}>, %k: i32, %sa: i32, %sb: i32, %turns: i32,
                    %out: !tt.ptr<i32>) {{
    %none = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %bk = arith.constant {BK} : i32
    %rm = tt.make_range {{end = {M} : i32, start = 0 : i32}} : tensor<{M}xi32>
    %rn0 = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %width = tt.splat %sb : i32 -> tensor<{N}xi32>
    %same = arith.constant dense<0> : tensor<{N}xi32>
    {columns}
    %height = tt.splat %k : i32 -> tensor<{M}xi32>
    %same_row = arith.constant dense<0> : tensor<{M}xi32>
    {rows}
    %rm1_a = tt.expand_dims %rm1 {{axis = 1 : i32}} : tensor<{M}xi32> -> tensor<{M}x1xi32>
    %rk = tt.make_range {{end = {BK} : i32, start = 0 : i32}} : tensor<{BK}xi32>
    %rk_a = tt.expand_dims %rk {{axis = 0 : i32}} : tensor<{BK}xi32> -> tensor<1x{BK}xi32>
    %rk_b = tt.expand_dims %rk {{axis = 1 : i32}} : tensor<{BK}xi32> -> tensor<{BK}x1xi32>
    %rm_a = tt.expand_dims %rm {{axis = 1 : i32}} : tensor<{M}xi32> -> tensor<{M}x1xi32>
    %rn_b = tt.expand_dims %rn {{axis = 0 : i32}} : tensor<{N}xi32> -> tensor<1x{N}xi32>
    %sas = tt.splat %sa : i32 -> tensor<{M}x1xi32>
    %rows_a = arith.muli %rm1_a, %sas : tensor<{M}x1xi32>
    %base_a = tt.splat %pa : !tt.ptr<{elem}> -> tensor<{M}x1x!tt.ptr<{elem}>>
    %at_a = tt.addptr %base_a, %rows_a : tensor<{M}x1x!tt.ptr<{elem}>>, tensor<{M}x1xi32>
    %wide_a = tt.broadcast %at_a : tensor<{M}x1x!tt.ptr<{elem}>> -> {a}!tt.ptr<{elem}>>
    %cols_a = tt.broadcast %rk_a : tensor<1x{BK}xi32> -> {a}i32>
    %pa0 = tt.addptr %wide_a, %cols_a : {a}!tt.ptr<{elem}>>, {a}i32>
    %sbs = tt.splat %sb : i32 -> tensor<{BK}x1xi32>
    %rows_b = arith.muli %rk_b, %sbs : tensor<{BK}x1xi32>
    %base_b = tt.splat %pb : !tt.ptr<{elem}> -> tensor<{BK}x1x!tt.ptr<{elem}>>
    %at_b = tt.addptr %base_b, %rows_b : tensor<{BK}x1x!tt.ptr<{elem}>>, tensor<{BK}x1xi32>
    %wide_b = tt.broadcast %at_b : tensor<{BK}x1x!tt.ptr<{elem}>> -> {b}!tt.ptr<{elem}>>
    %cols_b = tt.broadcast %rn_b : tensor<1x{N}xi32> -> {b}i32>
    %pb0 = tt.addptr %wide_b, %cols_b : {b}!tt.ptr<{elem}>>, {b}i32>
    %acc0 = arith.constant dense<{zero}> : tensor<{M}x{N}x{total}>
    %step_a = arith.constant dense<{moves}> : {a}i32>
    %step = arith.muli %sb, %bk : i32
    %step_b = tt.splat %step : i32 -> {b}i32>
    %r:4 = scf.for %i = %none to %turns step %one iter_args(%pa_in = %pa0, %pb_in = %pb0, %acc = %acc0, %left_in = %k)
        -> ({pointers}, tensor<{M}x{N}x{total}>, i32) : i32 {{
      {loads if masked else plain}
      %d = tt.dot %x, %y, %acc, inputPrecision = ieee : {a}{elem}> * {b}{elem}> -> tensor<{M}x{N}x{total}>
      %pa_next = tt.addptr %pa_in, %step_a : {a}!tt.ptr<{elem}>>, {a}i32>
      %pb_next = tt.addptr %pb_in, %step_b : {b}!tt.ptr<{elem}>>, {b}i32>
      %left_next = arith.subi %left_in, %bk : i32
      scf.yield %pa_next, %pb_next, %d, %left_next : {pointers}, tensor<{M}x{N}x{total}>, i32
    }}
    tt.store %out, %r#3 : !tt.ptr<i32>
    %wn = arith.constant dense<{N}> : tensor<{M}x1xi32>
    %rows_c = arith.muli %rm_a, %wn : tensor<{M}x1xi32>
    %rows_c2 = tt.broadcast %rows_c : tensor<{M}x1xi32> -> tensor<{M}x{N}xi32>
    %rn_c = tt.expand_dims %rn0 {{axis = 0 : i32}} : tensor<{N}xi32> -> tensor<1x{N}xi32>
    %cols_c2 = tt.broadcast %rn_c : tensor<1x{N}xi32> -> tensor<{M}x{N}xi32>
    %at_c = arith.addi %rows_c2, %cols_c2 : tensor<{M}x{N}xi32>
    %base_c = tt.splat %pc : !tt.ptr<{total}> -> tensor<{M}x{N}x!tt.ptr<{total}>>
    %ptr_c = tt.addptr %base_c, %at_c : tensor<{M}x{N}x!tt.ptr<{total}>>, tensor<{M}x{N}xi32>
    tt.store %ptr_c, %r#2 : tensor<{M}x{N}x!tt.ptr<{total}>>
    tt.return
  }}
}}
"""


def matrices(elem: str, k: int, width: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Small whole numbers: products are exact in every order. Guards of a block's size behind A and B."""
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-2, 3, shape).astype(NUMPY[elem]) for shape in ((M + 16, k), (k + 64, width)))
    total = np.int32 if elem == "i8" else np.float64 if elem == "f64" else np.float32
    return a, b, np.zeros((M, N), total)


@pytest.mark.one_in(18)
@pytest.mark.parametrize("elem", NUMPY)
@pytest.mark.parametrize("k", [1, 15, 16, 17, 250, 256, 300])
def test_every_depth(agree, elem: str, k: int) -> None:
    a, b, c = matrices(elem, k)
    text = kernel(elem, other="0" if elem == "i8" else "0.000000e+00")
    turns = -(-k // BK)
    found = agree(text, 1, a, b, c, k, k, N, turns, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M].astype(c.dtype) @ b[:k].astype(c.dtype))
    assert found[7][0] == k - turns * BK


@pytest.mark.parametrize(("text", "deep"), [(kernel(), True), (kernel(wraps="columns"), True), (kernel(limit="fixed"), False)])
def test_which_loops_are_deep_products(text: str, deep: bool) -> None:
    """The product of several turns is 256 deep; of one, where the program finds that they are no neighbours."""
    found = re.search(r"select i1 \S+, i64 (\d+), i64 1\n", jn.kernel.from_ttir(text).llvm_ir())
    assert (found is not None and int(found[1]) * BK == 256) == deep


@pytest.mark.parametrize("limit", ["left", "turn"])
def test_however_the_mask_is_written(agree, limit: str) -> None:
    a, b, c = matrices("f32", 200)
    found = agree(kernel(limit=limit), 1, a, b, c, 200, 200, N, 13, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M] @ b[:200])


@pytest.mark.parametrize("turns", [0, 1, 7, 16, 17])
def test_without_masks(agree, turns: int) -> None:
    k = 17 * BK
    a, b, c = matrices("f32", k)
    found = agree(kernel(masked=False), 1, a, b, c, k, k, N, turns, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M, : turns * BK] @ b[: turns * BK])


def test_fewer_turns_than_the_mask_allows(agree) -> None:
    a, b, c = matrices("f32", 300)
    found = agree(kernel(), 1, a, b, c, 300, 300, N, 5, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M, : 5 * BK] @ b[: 5 * BK])


@pytest.mark.parametrize("moves", [0, 1, 8, 32])
def test_pointers_that_move_otherwise(agree, moves: int) -> None:
    """Blocks that overlap or leave gaps are products of their own."""
    k = 12 * 32
    a, b, c = matrices("f32", k)
    found = agree(kernel(masked=False, moves=moves), 1, a, b, c, k, k, N, 10, np.zeros(1, np.int32))
    expected = sum(a[:M, t * moves : t * moves + BK] @ b[t * BK : (t + 1) * BK] for t in range(10))
    assert np.array_equal(found[2], expected)


def test_a_mask_that_does_not_move(agree) -> None:
    """Every turn leaves out the same columns of its block."""
    k = 10 * BK
    a, b, c = matrices("f32", k)
    found = agree(kernel(limit="fixed"), 1, a, b, c, 5, k, N, 10, np.zeros(1, np.int32))
    expected = sum(a[:M, t * BK : t * BK + 5] @ b[t * BK : t * BK + 5] for t in range(10))
    assert np.array_equal(found[2], expected)


def test_masked_elements_that_count(agree) -> None:
    """Masked elements of both operands are 2: each adds 4 to the product."""
    a, b, c = matrices("f32", 100)
    found = agree(kernel(other="2.000000e+00"), 1, a, b, c, 100, 100, N, 8, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M] @ b[:100] + 4 * (8 * BK - 100))


@pytest.mark.parametrize("width", [N, 40, 7])
def test_columns_modulo_the_width(agree, width: int) -> None:
    """One run of neighbours, or several."""
    a, b, c = matrices("f32", 150, width)
    found = agree(kernel(wraps="columns"), 1, a, b, c, 150, 150, width, 10, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[:M] @ b[:150, np.arange(N) % width])


@pytest.mark.parametrize("height", [150, M, 20, 5])
def test_rows_modulo_the_height(agree, height: int) -> None:
    """All rows in place, or some of them read again."""
    a, b, c = matrices("f32", height)
    turns = -(-height // BK)
    found = agree(kernel(wraps="rows"), 1, a, b, c, height, height, N, turns, np.zeros(1, np.int32))
    assert np.array_equal(found[2], a[np.arange(M) % height] @ b[:height])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["float", "double", "int"])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 2), (2, 1)])
def test_two_products_are_added_to_one_block(dtype: str, rows: int, columns: int) -> None:
    """Of one element, too: what it was before the first product is not what the second one is added to."""
    text = f"""
__global__ void f({dtype} *z, {dtype} *x, {dtype} *y, int k) {{
  int i[{rows}] = 0 ... {rows}, j[{columns}] = 0 ... {columns};
  {dtype} c[{rows}, {columns}] = 1;
  for (int t = 0; t < k; t += 16) {{
    int q[16] = t + 0 ... 16;
    {dtype} a[{rows}, 16] = *(x + i[:, newaxis] * k + q[newaxis, :]);
    {dtype} b[16, {columns}] = *(y + q[:, newaxis] * {columns} + j[newaxis, :]);
    c += a @ b;
    c += a @ b;
  }}
  *(z + i[:, newaxis] * {columns} + j[newaxis, :]) = c;
}}
"""
    kind = {"float": np.float32, "double": np.float64, "int": np.int32}[dtype]
    kernel = jn.kernel.from_triton_c(text)
    for k in (16, 48):
        x = np.arange(rows * k).reshape(rows, k).astype(kind) % 5
        y = np.arange(k * columns).reshape(k, columns).astype(kind) % 7
        z = np.zeros((rows, columns), kind)
        kernel.launch((1,), z, x, y, k)
        np.testing.assert_array_equal(z, 1 + 2 * (x @ y))
