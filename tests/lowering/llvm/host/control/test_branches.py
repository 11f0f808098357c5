"""Blocks that branch to each other, in functions, in called functions and in regions on scalars."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

N = 32
HEAD = f"""
  tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %k: i32) {{
    %r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %po = tt.addptr %bo, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %a = tt.load %px : tensor<{N}x!tt.ptr<f32>>
"""
RNG = np.random.default_rng(4)


def run(agree, lines: str, k: int, before: str = "", grid: int = 1) -> tuple[np.ndarray, np.ndarray]:
    x = RNG.normal(size=N).astype(np.float32)
    text = "module {\n" + before + HEAD + lines + "\n }\n}\n"
    return x, agree(text, grid, x, np.zeros(N, np.float32), k)[1]


@pytest.mark.parametrize("k", [-1, 0, 1])
def test_a_diamond_with_values(agree, k: int) -> None:
    lines = f"""
    %s = math.exp %a : tensor<{N}xf32>
    %up = arith.cmpi sgt, %k, %zero : i32
    cf.cond_br %up, ^left(%a, %one : tensor<{N}xf32>, i32), ^right(%s : tensor<{N}xf32>)
  ^left(%l: tensor<{N}xf32>, %n: i32):
    %f = arith.sitofp %n : i32 to f32
    %fs = tt.splat %f : f32 -> tensor<{N}xf32>
    %m = arith.addf %l, %fs : tensor<{N}xf32>
    cf.br ^end(%m : tensor<{N}xf32>)
  ^right(%q: tensor<{N}xf32>):
    %m2 = arith.mulf %q, %q : tensor<{N}xf32>
    cf.br ^end(%m2 : tensor<{N}xf32>)
  ^end(%v: tensor<{N}xf32>):
    tt.store %po, %v : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    run(agree, lines, k)


@pytest.mark.parametrize("k", [0, 1, 2, 7])
def test_a_loop_that_swaps_its_values(agree, k: int) -> None:
    """Arguments are handed over all at once: (a, b) becomes (b, a + 1), which the scalars do too."""
    lines = f"""
    %ones = arith.constant dense<1.000000e+00> : tensor<{N}xf32>
    %half = arith.constant 5.000000e-01 : f32
    %quarter = arith.constant 2.500000e-01 : f32
    cf.br ^head(%zero, %a, %ones, %half, %quarter : i32, tensor<{N}xf32>, tensor<{N}xf32>, f32, f32)
  ^head(%i: i32, %u: tensor<{N}xf32>, %v: tensor<{N}xf32>, %s: f32, %t: f32):
    %more = arith.cmpi slt, %i, %k : i32
    cf.cond_br %more, ^body, ^end
  ^body:
    %j = arith.addi %i, %one : i32
    %w = arith.addf %u, %ones : tensor<{N}xf32>
    cf.br ^head(%j, %v, %w, %t, %s : i32, tensor<{N}xf32>, tensor<{N}xf32>, f32, f32)
  ^end:
    %ss = tt.splat %s : f32 -> tensor<{N}xf32>
    %y = arith.mulf %u, %ss : tensor<{N}xf32>
    tt.store %po, %y : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, k)
    u, v = x, np.ones(N, np.float32)
    for _ in range(k):
        u, v = v, u + 1
    assert np.array_equal(o, u * (0.25 if k % 2 else 0.5))


def test_nested_loops_and_an_early_exit(agree) -> None:
    """Σ over i < k of Σ over j < i of j, in blocks; leaves the inner loop at j = 3."""
    lines = f"""
    %c = arith.constant dense<0.000000e+00> : tensor<{N}xf32>
    %three = arith.constant 3 : i32
    cf.br ^outer(%zero, %c : i32, tensor<{N}xf32>)
  ^outer(%i: i32, %acc: tensor<{N}xf32>):
    %more = arith.cmpi slt, %i, %k : i32
    cf.cond_br %more, ^inner(%zero, %acc : i32, tensor<{N}xf32>), ^end
  ^inner(%j: i32, %sum: tensor<{N}xf32>):
    %inside = arith.cmpi slt, %j, %i : i32
    cf.cond_br %inside, ^check, ^next
  ^check:
    %stop = arith.cmpi eq, %j, %three : i32
    cf.cond_br %stop, ^next, ^add
  ^add:
    %f = arith.sitofp %j : i32 to f32
    %fs = tt.splat %f : f32 -> tensor<{N}xf32>
    %t = arith.mulf %a, %fs : tensor<{N}xf32>
    %total = arith.addf %sum, %t : tensor<{N}xf32>
    %j1 = arith.addi %j, %one : i32
    cf.br ^inner(%j1, %total : i32, tensor<{N}xf32>)
  ^next:
    %i1 = arith.addi %i, %one : i32
    cf.br ^outer(%i1, %sum : i32, tensor<{N}xf32>)
  ^end:
    tt.store %po, %acc : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, 6)
    expected = np.zeros(N, np.float32)
    for i in range(6):
        for j in range(min(i, 3)):
            expected = expected + x * np.float32(j)
    assert np.array_equal(o, expected)


def test_loads_before_a_loop_of_blocks_that_writes(agree) -> None:
    """The load is read in every turn, after the store of the turn before."""
    lines = f"""
    cf.br ^head(%zero : i32)
  ^head(%i: i32):
    %more = arith.cmpi slt, %i, %k : i32
    cf.cond_br %more, ^body, ^end
  ^body:
    %b = tt.load %px : tensor<{N}x!tt.ptr<f32>>
    %s = arith.addf %a, %b : tensor<{N}xf32>
    tt.store %px, %s : tensor<{N}x!tt.ptr<f32>>
    %j = arith.addi %i, %one : i32
    cf.br ^head(%j : i32)
  ^end:
    tt.store %po, %a : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, 3)
    assert np.array_equal(o, x)


def test_pointers_and_scf_inside_blocks(agree) -> None:
    lines = f"""
    cf.br ^head(%zero, %px : i32, tensor<{N}x!tt.ptr<f32>>)
  ^head(%i: i32, %p: tensor<{N}x!tt.ptr<f32>>):
    %v = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    %w = scf.for %n = %zero to %two step %one iter_args(%acc = %v) -> (tensor<{N}xf32>) : i32 {{
      %t = arith.addf %acc, %v : tensor<{N}xf32>
      scf.yield %t : tensor<{N}xf32>
    }}
    tt.store %po, %w : tensor<{N}x!tt.ptr<f32>>
    %j = arith.addi %i, %one : i32
    %more = arith.cmpi slt, %j, %k : i32
    cf.cond_br %more, ^head(%j, %po : i32, tensor<{N}x!tt.ptr<f32>>), ^end
  ^end:
    tt.return
"""
    x, o = run(agree, lines, 3)
    for _ in range(3):
        x = x + x + x
    assert np.array_equal(o, x)


CALLEE = f"""
  tt.func private @choose(%v: tensor<{N}xf32>, %n: i32) -> (tensor<{N}xf32>, i32) attributes {{noinline = false}} {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %none = arith.cmpi eq, %n, %zero : i32
    cf.cond_br %none, ^same, ^other
  ^same:
    tt.return %v, %zero : tensor<{N}xf32>, i32
  ^other:
    %w = arith.mulf %v, %v : tensor<{N}xf32>
    tt.return %w, %one : tensor<{N}xf32>, i32
  }}
"""


@pytest.mark.parametrize("k", [0, 1, 3])
def test_calls_of_functions_that_branch(agree, k: int) -> None:
    """Called twice, once inside a loop."""
    lines = f"""
    %u:2 = tt.call @choose(%a, %k) : (tensor<{N}xf32>, i32) -> (tensor<{N}xf32>, i32)
    %w = scf.for %i = %zero to %two step %one iter_args(%acc = %u#0) -> (tensor<{N}xf32>) : i32 {{
      %t:2 = tt.call @choose(%acc, %i) : (tensor<{N}xf32>, i32) -> (tensor<{N}xf32>, i32)
      scf.yield %t#0 : tensor<{N}xf32>
    }}
    %f = arith.sitofp %u#1 : i32 to f32
    %fs = tt.splat %f : f32 -> tensor<{N}xf32>
    %all = arith.addf %w, %fs : tensor<{N}xf32>
    tt.store %po, %all : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, k, CALLEE)
    first = x if k == 0 else x * x
    assert np.array_equal(o, first * first + np.float32(k != 0))


REGION = f"""
    %m = "tt.map_elementwise"(%a) <{{pack = PACK : i32}}> ({{
    ^bb0(ARGS):
      %none = arith.constant 0.000000e+00 : f32
      %up = arith.cmpf ogt, %e0, %none : f32
      cf.cond_br %up, ^yes, ^no
    ^yes:
      %root = math.sqrt %e0 : f32
      tt.map_elementwise.return RESULTS
    ^no:
      %n = scf.while (%v = %e0) : (f32) -> f32 {{
        %small = arith.cmpf olt, %v, %none : f32
        scf.condition(%small) %v : f32
      }} do {{
      ^bb1(%v: f32):
        %c1 = arith.constant 1.000000e+00 : f32
        %next = arith.addf %v, %c1 : f32
        scf.yield %next : f32
      }}
      tt.map_elementwise.return OTHERS
    }}) : (tensor<{N}xf32>) -> tensor<{N}xf32>
    tt.store %po, %m : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""


def test_maps_that_branch_and_loop(agree) -> None:
    text = REGION.replace("PACK", "1").replace("ARGS", "%e0: f32")
    text = text.replace("RESULTS", "%root : f32").replace("OTHERS", "%n : f32")
    x, o = run(agree, text, 0)
    up = x + np.ceil(-x)
    np.testing.assert_allclose(o, np.where(x > 0, np.sqrt(np.abs(x)), up), rtol=1e-6, atol=1e-6)


def test_maps_of_packed_elements(agree) -> None:
    """Pairs: where the first is positive, its root and the second; else the second and the first, moved up."""
    text = REGION.replace("PACK", "2").replace("ARGS", "%e0: f32, %e1: f32")
    text = text.replace("RESULTS", "%root, %e1 : f32, f32").replace("OTHERS", "%e1, %n : f32, f32")
    x, o = run(agree, text, 0)
    first, second = x[0::2], x[1::2]
    up = first + np.ceil(-first)
    np.testing.assert_allclose(o[0::2], np.where(first > 0, np.sqrt(np.abs(first)), second), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(o[1::2], np.where(first > 0, second, up), rtol=1e-6, atol=1e-6)


COMBINE = """
    ^bb0(%l: f32, %m: f32):
      %less = arith.cmpf olt, %l, %m : f32
      %best = scf.if %less -> (f32) {
        scf.yield %m : f32
      } else {
        scf.yield %l : f32
      }
      tt.OP.return %best : f32
    })"""


@pytest.mark.parametrize(("shape", "axis"), [((N,), 0), ((4, 8), 0), ((4, 8), 1), ((2, 4, 4), 1), ((1, N), 0), ((N, 1), 1)])
def test_reductions_whose_region_branches(agree, shape: tuple[int, ...], axis: int) -> None:
    left = (*shape[:axis], *shape[axis + 1 :])
    of = "x".join(map(str, shape))
    type_ = "tensor<" + "x".join(map(str, left)) + "xf32>" if left else "f32"
    kept = _expanded(shape, axis)
    spread = f"tt.broadcast %e : {kept} -> tensor<{of}xf32>" if left else f"tt.splat %s : f32 -> tensor<{of}xf32>"
    lines = f"""
    %v = tt.reshape %a : tensor<{N}xf32> -> tensor<{of}xf32>
    %s = "tt.reduce"(%v) <{{axis = {axis} : i32}}> ({{{COMBINE.replace("OP", "reduce")} : (tensor<{of}xf32>) -> {type_}
    {f"%e = tt.expand_dims %s {{axis = {axis} : i32}} : {type_} -> {kept}" if left else ""}
    %w = {spread}
    %back = tt.reshape %w : tensor<{of}xf32> -> tensor<{N}xf32>
    tt.store %po, %back : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, 0)
    assert np.array_equal(o, np.broadcast_to(x.reshape(shape).max(axis, keepdims=True), shape).reshape(-1))


def _expanded(shape: tuple[int, ...], axis: int) -> str:
    return "tensor<" + "x".join(str(1 if d == axis else n) for d, n in enumerate(shape)) + "xf32>"


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((N,), 0), ((4, 8), 0), ((4, 8), 1)])
def test_scans_whose_region_branches(agree, shape: tuple[int, ...], axis: int, reverse: bool) -> None:
    of = "x".join(map(str, shape))
    flag = "true" if reverse else "false"
    lines = f"""
    %v = tt.reshape %a : tensor<{N}xf32> -> tensor<{of}xf32>
    %s = "tt.scan"(%v) <{{axis = {axis} : i32, reverse = {flag}}}> ({{{COMBINE.replace("OP", "scan")}
        : (tensor<{of}xf32>) -> tensor<{of}xf32>
    %back = tt.reshape %s : tensor<{of}xf32> -> tensor<{N}xf32>
    tt.store %po, %back : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    x, o = run(agree, lines, 0)
    blocks = np.flip(x.reshape(shape), axis) if reverse else x.reshape(shape)
    expected = np.maximum.accumulate(blocks, axis)
    assert np.array_equal(o, (np.flip(expected, axis) if reverse else expected).reshape(-1))


def test_recursion_through_branches_is_refused() -> None:
    callee = CALLEE.replace(
        f"%w = arith.mulf %v, %v : tensor<{N}xf32>",
        f"%w:2 = tt.call @choose(%v, %zero) : (tensor<{N}xf32>, i32) -> (tensor<{N}xf32>, i32)",
    ).replace("tt.return %w, %one", "tt.return %w#0, %one")
    lines = f"""
    %u:2 = tt.call @choose(%a, %k) : (tensor<{N}xf32>, i32) -> (tensor<{N}xf32>, i32)
    tt.store %po, %u#0 : tensor<{N}x!tt.ptr<f32>>
    tt.return
"""
    kernel = jn.kernel.from_ttir("module {\n" + callee + HEAD + lines + "\n }\n}\n")
    with pytest.raises(jn.UserError, match="recursion through @choose"):
        kernel.launch(1, np.zeros(N, np.float32), np.zeros(N, np.float32), 0)


def test_what_a_branch_passes_on_may_need_code_of_several_blocks() -> None:
    """A product is multiplied, and moved between threads, where its registers are wanted: in the block that ends."""
    text = """module {
tt.func public @f(%x: !tt.ptr<f16>, %y: !tt.ptr<f32>) {
  %n = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
  %at = tt.reshape %n : tensor<64xi32> -> tensor<8x8xi32>
  %px = tt.splat %x : !tt.ptr<f16> -> tensor<8x8x!tt.ptr<f16>>
  %qx = tt.addptr %px, %at : tensor<8x8x!tt.ptr<f16>>, tensor<8x8xi32>
  %a = tt.load %qx : tensor<8x8x!tt.ptr<f16>>
  %zero = arith.constant dense<0.0> : tensor<8x8xf32>
  %product = tt.dot %a, %a, %zero : tensor<8x8xf16> * tensor<8x8xf16> -> tensor<8x8xf32>
  %turned = tt.reshape %product : tensor<8x8xf32> -> tensor<4x4x4xf32>
  %none = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %turns = arith.constant 2 : i32
  cf.br ^head(%none, %turned : i32, tensor<4x4x4xf32>)
^head(%i: i32, %sum: tensor<4x4x4xf32>):
  %again = arith.cmpi slt, %i, %turns : i32
  cf.cond_br %again, ^body, ^end(%sum : tensor<4x4x4xf32>)
^body:
  %next = arith.addi %i, %one : i32
  cf.br ^head(%next, %turned : i32, tensor<4x4x4xf32>)
^end(%last: tensor<4x4x4xf32>):
  %flat = tt.reshape %last : tensor<4x4x4xf32> -> tensor<64xf32>
  %py = tt.splat %y : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %qy = tt.addptr %py, %n : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.store %qy, %flat : tensor<64x!tt.ptr<f32>>
  tt.return
}
}
"""
    x, y = (np.arange(64) % 7).astype(np.float16), np.zeros(64, np.float32)
    jn.kernel.from_ttir(text).launch(1, x, y, device="ptxsim", target="sm_80", sanitize=True)
    assert np.array_equal(y.reshape(8, 8), np.linalg.matrix_power(x.reshape(8, 8).astype(np.float32), 2))
