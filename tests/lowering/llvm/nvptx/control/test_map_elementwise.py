"""tt.map_elementwise with control flow or packs, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from joinery.promotion.errors import UnsupportedError

from .....support.kernels.blocks import block_type, check, empty, kernel, simulate, simulate_with, some


def mapped(shape, inputs, outputs, region: str, pack: int = 1, before: str = ""):
    sources = ", ".join(f"%x{n}" for n in range(len(inputs)))
    arguments = ", ".join(f"%a{n}: {elem}" for n, elem in enumerate(e for e in inputs for _ in range(pack)))
    given = ", ".join(block_type(shape, elem) for elem in inputs)
    results = ", ".join(block_type(shape, elem) for elem in outputs)
    body = f"""{before}
    %true = arith.constant true
    %y:{len(outputs)} = "tt.map_elementwise"({sources}) <{{pack = {pack} : i32}}> ({{
    ^bb0({arguments}):
    {region}
    }}) : ({given}) -> {results if len(outputs) == 1 else f"({results})"}
    """
    for n, elem in enumerate(outputs):
        body += f"%y{n} = arith.select %true, %y#{n}, %y#{n} : i1, {block_type(shape, elem)}\n"
    return kernel([(shape, e) for e in inputs], [(shape, e) for e in outputs], body)


BRANCH = """%zero = arith.constant 0.0 : f32
    %p = arith.cmpf ogt, %a0, %zero : f32
    %v = scf.if %p -> (f32) {
      %m = arith.mulf %a0, %a1 : f32
      scf.yield %m : f32
    } else {
      %s = arith.subf %a1, %a0 : f32
      scf.yield %s : f32
    }
    tt.map_elementwise.return %v : f32"""

# Steps of 3n + 1 until 1, with a bound.
COLLATZ = """%one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %three = arith.constant 3 : i32
    %zero = arith.constant 0 : i32
    %most = arith.constant 50 : i32
    cf.br ^head(%a0, %zero : i32, i32)
  ^head(%n: i32, %count: i32):
    %big = arith.cmpi sgt, %n, %one : i32
    %few = arith.cmpi slt, %count, %most : i32
    %go = arith.andi %big, %few : i1
    cf.cond_br %go, ^turn, ^done(%count : i32)
  ^turn:
    %next = arith.addi %count, %one : i32
    %low = arith.andi %n, %one : i32
    %odd = arith.cmpi eq, %low, %one : i32
    cf.cond_br %odd, ^up, ^down
  ^up:
    %t = arith.muli %n, %three : i32
    %u = arith.addi %t, %one : i32
    cf.br ^head(%u, %next : i32, i32)
  ^down:
    %h = arith.shrsi %n, %one : i32
    cf.br ^head(%h, %next : i32, i32)
  ^done(%r: i32):
    tt.map_elementwise.return %r : i32"""

# Swaps and tells which of a pair was larger.
PAIR = """%g = arith.cmpi sgt, %a0, %a1 : i32
    %w = arith.extui %g : i1 to i64
    tt.map_elementwise.return %a1, %a0, %w, %w : i32, i32, i64, i64"""

FOUR = """%s = arith.addi %a0, %a1 : i32
    %t = arith.addi %s, %a2 : i32
    %u = arith.addi %t, %a3 : i32
    tt.map_elementwise.return %a0, %s, %t, %u : i32, i32, i32, i32"""


@pytest.mark.parametrize("shape", [(1,), (8,), (64,), (512,), (1, 16), (8, 32), (2, 4, 16)])
def test_threads_take_different_ways(shape: tuple[int, ...]) -> None:
    x, y = some(shape, "f32", 1), some(shape, "f32", 2)
    found = check(mapped(shape, ["f32", "f32"], ["f32"], BRANCH), x, y, empty(shape, "f32"))
    np.testing.assert_array_equal(found[2], np.where(x > 0, x * y, y - x))


def test_regions_of_blocks_that_branch_to_each_other() -> None:
    x = np.arange(256, dtype=np.int32)
    check(mapped((256,), ["i32"], ["i32"], COLLATZ), x, empty((256,), "i32"))


@pytest.mark.parametrize("shape", [(2,), (16,), (256,), (16, 2), (8, 1, 32), (1024,)])
def test_pairs_in_row_major_order(shape: tuple[int, ...]) -> None:
    x = some(shape, "i32")
    out = empty(shape, "i32"), empty(shape, "i64")
    found = check(mapped(shape, ["i32"], ["i32", "i64"], PAIR, pack=2), x, *out)
    np.testing.assert_array_equal(found[1].reshape(-1, 2), x.reshape(-1, 2)[:, ::-1])


@pytest.mark.parametrize("shape", [(4,), (32,), (2048,), (16, 8), (32, 2)])
def test_packs_of_four(shape: tuple[int, ...]) -> None:
    x = some(shape, "i32")
    found = check(mapped(shape, ["i32"], ["i32"], FOUR, pack=4), x, empty(shape, "i32"))
    np.testing.assert_array_equal(found[1].reshape(-1, 4), np.cumsum(x.reshape(-1, 4), 1, dtype=np.int32))


def test_packs_of_a_transposed_block() -> None:
    """The elements of a pack come from different threads."""
    body = """%turned = tt.trans %x0 {order = array<i32: 1, 0>} : tensor<32x16xi32> -> tensor<16x32xi32>
    %y0 = "tt.map_elementwise"(%turned) <{pack = 4 : i32}> ({
    ^bb0(%a0: i32, %a1: i32, %a2: i32, %a3: i32):
    """ + FOUR + """
    }) : (tensor<16x32xi32>) -> tensor<16x32xi32>"""
    x = some((32, 16), "i32")
    _, out = simulate(kernel([((32, 16), "i32")], [((16, 32), "i32")], body), x, empty((16, 32), "i32"))
    np.testing.assert_array_equal(out, np.cumsum(x.T.reshape(-1, 4), 1, dtype=np.int32).reshape(16, 32))


def test_a_load_inside_waits_for_an_earlier_store() -> None:
    """Each thread reads an element that another one wrote."""
    before = """%r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
    %s = tt.splat %p1 : !tt.ptr<i32> -> tensor<256x!tt.ptr<i32>>
    %q = tt.addptr %s, %r : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
    tt.store %q, %x0 : tensor<256x!tt.ptr<i32>>"""
    region = """%last = arith.constant 255 : i32
    %ten = arith.constant 10 : i32
    %p = arith.cmpi sgt, %a0, %ten : i32
    %v = scf.if %p -> (i32) {
      %i = arith.subi %last, %a0 : i32
      %a = tt.addptr %p1, %i : !tt.ptr<i32>, i32
      %w = tt.load %a : !tt.ptr<i32>
      scf.yield %w : i32
    } else {
      scf.yield %ten : i32
    }
    tt.map_elementwise.return %v : i32"""
    shape = (256,)
    k = mapped(shape, ["i32"], ["i32"], region, before=before)
    x = np.arange(256, dtype=np.int32)
    # %p1 is also where the results go, so they are compared with what was there before.
    _, out = simulate(k, x, empty(shape, "i32"))
    np.testing.assert_array_equal(out, np.where(x > 10, 255 - x, 10))


def test_stores_inside_are_refused() -> None:
    region = """%p = arith.constant true
    scf.if %p {
      tt.store %p0, %a0 : !tt.ptr<i32>
      scf.yield
    }
    tt.map_elementwise.return %a0 : i32"""
    with pytest.raises(UnsupportedError, match=r"tt\.store in its region"):
        mapped((32,), ["i32"], ["i32"], region).ptx()


@pytest.mark.parametrize("warps", [1, 8])
def test_programs_of_other_sizes(warps: int) -> None:
    x = some((128,), "i32")
    _, out = simulate_with(mapped((128,), ["i32"], ["i32"], FOUR, pack=4), warps, x, empty((128,), "i32"))
    np.testing.assert_array_equal(out.reshape(-1, 4), np.cumsum(x.reshape(-1, 4), 1, dtype=np.int32))
