"""Called functions that branch, on threads: the interpreter is the witness, under the simulator's strictest checks."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

N = 64
BLOCK = f"tensor<{N}xf32>"
PLACES = f"""
    %r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %b = tt.splat %o : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %p = tt.addptr %b, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>"""
NUMBERS = """
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c3 = arith.constant 3 : i32"""

CHOOSE = f"""
  tt.func private @choose(%v: {BLOCK}, %n: i32) -> ({BLOCK}, i32) attributes {{noinline = false}} {{{NUMBERS}
    %none = arith.cmpi eq, %n, %c0 : i32
    cf.cond_br %none, ^same, ^other
  ^same:
    tt.return %v, %c3 : {BLOCK}, i32
  ^other:
    %sum = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %a, %c : f32
      tt.reduce.return %s : f32
    }}) : ({BLOCK}) -> f32
    %sums = tt.splat %sum : f32 -> {BLOCK}
    %w = arith.subf %sums, %v : {BLOCK}
    tt.return %w, %n : {BLOCK}, i32
  }}
"""
POWER = f"""
  tt.func private @power(%v: {BLOCK}, %n: i32) -> {BLOCK} attributes {{noinline = false}} {{{NUMBERS}
    cf.br ^head(%c0, %v : i32, {BLOCK})
  ^head(%i: i32, %w: {BLOCK}):
    %more = arith.cmpi slt, %i, %n : i32
    cf.cond_br %more, ^body, ^end
  ^body:
    %x = arith.mulf %w, %v : {BLOCK}
    %j = arith.addi %i, %c1 : i32
    cf.br ^head(%j, %x : i32, {BLOCK})
  ^end:
    tt.return %w : {BLOCK}
  }}
"""
WRITE = f"""
  tt.func private @write(%o: !tt.ptr<f32>, %v: {BLOCK}, %n: i32) attributes {{noinline = false}} {{{NUMBERS}{PLACES}
    %none = arith.cmpi eq, %n, %c1 : i32
    cf.cond_br %none, ^leave, ^store
  ^leave:
    tt.return
  ^store:
    %old = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    %new = arith.addf %old, %v : {BLOCK}
    tt.store %p, %new : tensor<{N}x!tt.ptr<f32>>
    tt.return
  }}
"""
STRAIGHT = f"""
    %u:2 = tt.call @choose(%v, %k) : ({BLOCK}, i32) -> ({BLOCK}, i32)
    %f = arith.sitofp %u#1 : i32 to f32
    %fs = tt.splat %f : f32 -> {BLOCK}
    %w = arith.addf %u#0, %fs : {BLOCK}
    tt.store %p, %w : tensor<{N}x!tt.ptr<f32>>"""
IN_A_LOOP = f"""
    %w = scf.for %i = %c0 to %c3 step %c1 iter_args(%acc = %v) -> ({BLOCK}) : i32 {{
      %n = arith.addi %i, %k : i32
      %t:2 = tt.call @choose(%acc, %n) : ({BLOCK}, i32) -> ({BLOCK}, i32)
      tt.call @write(%o, %t#0, %i) : (!tt.ptr<f32>, {BLOCK}, i32) -> ()
      scf.yield %t#0 : {BLOCK}
    }}
    tt.call @write(%o, %w, %k) : (!tt.ptr<f32>, {BLOCK}, i32) -> ()"""
IN_A_CHOICE = f"""
    %yes = arith.cmpi sgt, %k, %c0 : i32
    %w = scf.if %yes -> ({BLOCK}) {{
      %z = tt.call @power(%v, %k) : ({BLOCK}, i32) -> {BLOCK}
      scf.yield %z : {BLOCK}
    }} else {{
      %y:2 = tt.call @choose(%v, %k) : ({BLOCK}, i32) -> ({BLOCK}, i32)
      scf.yield %y#0 : {BLOCK}
    }}
    tt.store %p, %w : tensor<{N}x!tt.ptr<f32>>"""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("warps", [1, 4])
@pytest.mark.parametrize("k", [-1, 0, 1, 2])
@pytest.mark.parametrize("body", [STRAIGHT, IN_A_LOOP, IN_A_CHOICE], ids=["straight", "loop", "choice"])
def test_functions_that_branch(body: str, k: int, warps: int) -> None:
    """Ends with blocks and scalars, ends after which nothing was written, loops of blocks, exchanges between warps."""
    head = f"tt.func public @f(%x: !tt.ptr<f32>, %o: !tt.ptr<f32>, %k: i32) {{{NUMBERS}{PLACES}"
    load = f"""
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %v = tt.load %px : tensor<{N}x!tt.ptr<f32>>"""
    kernel = jn.kernel.from_ttir(f"module {{{CHOOSE}{POWER}{WRITE}  {head}{load}{body}\n    tt.return\n  }}\n}}\n")
    x = np.random.default_rng(k + 1).integers(-3, 4, N).astype(np.float32)
    found, expected = np.ones(N, np.float32), np.ones(N, np.float32)
    kernel.interpret(1, x, expected, k)
    kernel.launch(1, x, found, k, device="ptxsim", sanitize=True, warps=warps)
    assert np.array_equal(found, expected)


def test_a_function_that_never_ends_compiles() -> None:
    text = """module {
  tt.func private @spin(%n: i32) -> i32 attributes {noinline = false} {
    cf.br ^head(%n : i32)
  ^head(%i: i32):
    %j = arith.addi %i, %i : i32
    cf.br ^head(%j : i32)
  }
  tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
    %m = tt.call @spin(%n) : (i32) -> i32
    tt.store %o, %m : !tt.ptr<i32>
    tt.return
  }
}
"""
    assert "bra" in jn.kernel.from_ttir(text).ptx("sm_80")
