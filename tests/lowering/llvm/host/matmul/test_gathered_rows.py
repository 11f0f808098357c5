"""Products whose left operand has rows anywhere in memory, each with its elements side by side: rows that indices pick, rows
of windows, rows modulo their number. They are read where they lie, whatever masks cut."""

import joinery as jn
import numpy as np
import pytest

M, N, K = 32, 64, 16

TEXT = """
module {{
  tt.func public @kernel(%a: !tt.ptr<{a}>, %at: !tt.ptr<i32>, %b: !tt.ptr<f32>, %c: !tt.ptr<f32>, %rows: i32, %depth: i32) {{
    %rm = tt.make_range {{start = 0 : i32, end = {M} : i32}} : tensor<{M}xi32>
    %rk = tt.make_range {{start = 0 : i32, end = {K} : i32}} : tensor<{K}xi32>
    %rn = tt.make_range {{start = 0 : i32, end = {N} : i32}} : tensor<{N}xi32>
    %rows_m = tt.splat %rows : i32 -> tensor<{M}xi32>
    %inside = arith.cmpi slt, %rm, %rows_m : tensor<{M}xi32>
    %depth_k = tt.splat %depth : i32 -> tensor<{K}xi32>
    %deep = arith.cmpi slt, %rk, %depth_k : tensor<{K}xi32>
    %zero_m = arith.constant dense<0> : tensor<{M}xi32>
    %at_s = tt.splat %at : !tt.ptr<i32> -> tensor<{M}x!tt.ptr<i32>>
    %at_p = tt.addptr %at_s, %rm : tensor<{M}x!tt.ptr<i32>>, tensor<{M}xi32>
    %begin0 = tt.load %at_p, %inside, %zero_m : tensor<{M}x!tt.ptr<i32>>
    %begin = {begin} : tensor<{M}xi32>
    %begin_c = tt.expand_dims %begin {{axis = 1 : i32}} : tensor<{M}xi32> -> tensor<{M}x1xi32>
    %begin_b = tt.broadcast %begin_c : tensor<{M}x1xi32> -> tensor<{M}x{K}xi32>
    %rk_r = tt.expand_dims %rk {{axis = 0 : i32}} : tensor<{K}xi32> -> tensor<1x{K}xi32>
    %rk_b = tt.broadcast %rk_r : tensor<1x{K}xi32> -> tensor<{M}x{K}xi32>
    %a_s = tt.splat %a : !tt.ptr<{a}> -> tensor<{M}x{K}x!tt.ptr<{a}>>
    %a_r = tt.addptr %a_s, %begin_b : tensor<{M}x{K}x!tt.ptr<{a}>>, tensor<{M}x{K}xi32>
    %a_p = tt.addptr %a_r, %rk_b : tensor<{M}x{K}x!tt.ptr<{a}>>, tensor<{M}x{K}xi32>
    %in_c = tt.expand_dims %inside {{axis = 1 : i32}} : tensor<{M}xi1> -> tensor<{M}x1xi1>
    %in_b = tt.broadcast %in_c : tensor<{M}x1xi1> -> tensor<{M}x{K}xi1>
    %dk_r = tt.expand_dims %deep {{axis = 0 : i32}} : tensor<{K}xi1> -> tensor<1x{K}xi1>
    %dk_b = tt.broadcast %dk_r : tensor<1x{K}xi1> -> tensor<{M}x{K}xi1>
    %a_mask = {a_mask} : tensor<{M}x{K}xi1>
    %a_zero = arith.constant dense<0.0> : tensor<{M}x{K}x{a}>
    %a_v = tt.load %a_p, %a_mask, %a_zero : tensor<{M}x{K}x!tt.ptr<{a}>>
    {widened}
    %bk_c = tt.expand_dims %rk {{axis = 1 : i32}} : tensor<{K}xi32> -> tensor<{K}x1xi32>
    %n_k = arith.constant dense<{N}> : tensor<{K}x1xi32>
    %bk = arith.muli %bk_c, %n_k : tensor<{K}x1xi32>
    %bk_b = tt.broadcast %bk : tensor<{K}x1xi32> -> tensor<{K}x{N}xi32>
    %bn_r = tt.expand_dims %rn {{axis = 0 : i32}} : tensor<{N}xi32> -> tensor<1x{N}xi32>
    %bn_b = tt.broadcast %bn_r : tensor<1x{N}xi32> -> tensor<{K}x{N}xi32>
    %b_at = arith.addi %bk_b, %bn_b : tensor<{K}x{N}xi32>
    %b_s = tt.splat %b : !tt.ptr<f32> -> tensor<{K}x{N}x!tt.ptr<f32>>
    %b_p = tt.addptr %b_s, %b_at : tensor<{K}x{N}x!tt.ptr<f32>>, tensor<{K}x{N}xi32>
    %db_c = tt.expand_dims %deep {{axis = 1 : i32}} : tensor<{K}xi1> -> tensor<{K}x1xi1>
    %db_b = tt.broadcast %db_c : tensor<{K}x1xi1> -> tensor<{K}x{N}xi1>
    %b_zero = arith.constant dense<0.0> : tensor<{K}x{N}xf32>
    %b_v = {b_load}
    %zeros = arith.constant dense<0.0> : tensor<{M}x{N}xf32>
    %sum = tt.dot %x, %b_v, %zeros, inputPrecision = ieee : tensor<{M}x{K}xf32> * tensor<{K}x{N}xf32> -> tensor<{M}x{N}xf32>
    %cm_c = tt.expand_dims %rm {{axis = 1 : i32}} : tensor<{M}xi32> -> tensor<{M}x1xi32>
    %n_m = arith.constant dense<{N}> : tensor<{M}x1xi32>
    %cm = arith.muli %cm_c, %n_m : tensor<{M}x1xi32>
    %cm_b = tt.broadcast %cm : tensor<{M}x1xi32> -> tensor<{M}x{N}xi32>
    %cn_r = tt.expand_dims %rn {{axis = 0 : i32}} : tensor<{N}xi32> -> tensor<1x{N}xi32>
    %cn_b = tt.broadcast %cn_r : tensor<1x{N}xi32> -> tensor<{M}x{N}xi32>
    %c_at = arith.addi %cm_b, %cn_b : tensor<{M}x{N}xi32>
    %c_s = tt.splat %c : !tt.ptr<f32> -> tensor<{M}x{N}x!tt.ptr<f32>>
    %c_p = tt.addptr %c_s, %c_at : tensor<{M}x{N}x!tt.ptr<f32>>, tensor<{M}x{N}xi32>
    tt.store %c_p, %sum : tensor<{M}x{N}x!tt.ptr<f32>>
    tt.return
  }}
}}
"""


def text(a: str = "f32", masks: str = "both", begin: str = "arith.addi %begin0, %zero_m") -> str:
    """masks: which of rows and depth cut the left operand ("both", "rows", "depth"); the right one is cut along the depth,
    unless the left one is not ("whole": along the depth, and the right operand nowhere)."""
    widened = "" if a == "f32" else f"%x = arith.extf %a_v : tensor<{M}x{K}x{a}> to tensor<{M}x{K}xf32>"
    masked = {"rows": "arith.andi %in_b, %in_b", "depth": "arith.andi %dk_b, %dk_b"}.get(masks, "arith.andi %in_b, %dk_b")
    cut = "" if masks == "whole" else ", %db_b, %b_zero"
    made = TEXT.format(
        M=M, N=N, K=K, a=a, begin=begin, a_mask=masked, widened=widened,
        b_load=f"tt.load %b_p{cut} : tensor<{K}x{N}x!tt.ptr<f32>>",
    )  # fmt: skip
    return made.replace("%x,", "%a_v,") if a == "f32" else made


def run(kernel, a, at, b, rows, depth, device="cpu"):
    c = np.full((M, N), -1, np.float32)
    kernel.launch((1,), a, at, b, c, rows, depth, device=device)
    return c


def sparse(seed: int, size: int = 500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    a = rng.integers(-4, 5, size).astype(np.float32)
    return a, rng.integers(0, size - K, M).astype(np.int32), rng.integers(-4, 5, (K, N)).astype(np.float32)


def product(a, at, b, rows, depth):
    """Returns the product of what masks leave, in float64, where every product of zero with infinity counts."""
    left = np.zeros((M, K))
    for row in range(rows):
        left[row, :depth] = a[at[row] : at[row] + depth].astype(np.float64)
    with np.errstate(invalid="ignore"):
        return left @ b.astype(np.float64)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("a_type", ["f32", "f16"])
@pytest.mark.parametrize(("rows", "depth"), [(M, K), (1, K), (M, 1), (13, 7), (0, K), (M, 0)])
def test_rows_that_indices_pick(a_type: str, rows: int, depth: int) -> None:
    kernel = jn.kernel.from_ttir(text(a_type))
    a, at, b = sparse(rows + depth)
    a = a.astype(np.float16 if a_type == "f16" else np.float32)
    at[rows:] = 10**8  # never read
    cut = np.where(np.arange(K)[:, None] < depth, b, 0)
    np.testing.assert_array_equal(run(kernel, a, at, b, rows, depth), product(a, at, cut, rows, depth))


def test_rows_are_not_copied() -> None:
    ir = jn.kernel.from_ttir(text()).llvm_ir("host")
    assert "_gathered" in ir


def test_rows_modulo_their_number_and_far_apart() -> None:
    modulo = jn.kernel.from_ttir(text(begin="arith.remsi %rm, %rows_m"))
    a, at, b = sparse(5)
    found = run(modulo, a, at, b, 5, K)
    left = np.lib.stride_tricks.sliding_window_view(a, K)[np.arange(M) % 5].copy()
    left[5:] = 0
    np.testing.assert_array_equal(found, left @ b)


@pytest.mark.parametrize(("masks", "where"), [("rows", "left"), ("rows", "right"), ("depth", "right"), ("whole", "right")])
def test_infinities_beyond_what_a_mask_leaves(masks: str, where: str) -> None:
    """Where one operand ends and the other does not, 0 · ∞ is NaN, as in the interpreter."""
    kernel = jn.kernel.from_ttir(text(masks=masks))
    a, at, b = sparse(9)
    rows, depth = 11, 9
    if where == "left":
        a[at[3] + depth + 2] = np.inf
    else:
        b[2, 5] = np.inf
        b[depth + 1, 7] = np.nan
    expected = np.full((M, N), -1, np.float32)
    kernel.interpret((1,), a, at, b, expected, rows, depth)
    np.testing.assert_array_equal(run(kernel, a, at, b, rows, depth), expected)
    assert not np.isfinite(expected).all()
