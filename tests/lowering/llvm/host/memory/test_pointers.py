"""Blocks of pointers that are not a base plus offsets: chosen, carried, stored, and made from addresses."""

from __future__ import annotations

import numpy as np
import pytest

N = 32
HEAD = f"""
module {{
  tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %o: !tt.ptr<f32>, %k: i32) {{
    %r = tt.make_range {{end = {N} : i32, start = 0 : i32}} : tensor<{N}xi32>
    %bx = tt.splat %x : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %px = tt.addptr %bx, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %by = tt.splat %y : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %py = tt.addptr %by, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %bo = tt.splat %o : !tt.ptr<f32> -> tensor<{N}x!tt.ptr<f32>>
    %po = tt.addptr %bo, %r : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
"""
TAIL = "\n tt.return\n }\n}\n"
RNG = np.random.default_rng(1)


def run(agree, lines: str, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = (RNG.normal(size=4 * N).astype(np.float32) for _ in range(2))
    found = agree(HEAD + lines + TAIL, 1, x, y, np.zeros(N, np.float32), k)
    return x, y, found[2]


def test_pointers_chosen_lane_by_lane(agree) -> None:
    lines = f"""
    %limit = tt.splat %k : i32 -> tensor<{N}xi32>
    %left = arith.cmpi slt, %r, %limit : tensor<{N}xi32>
    %p = arith.select %left, %px, %py : tensor<{N}xi1>, tensor<{N}x!tt.ptr<f32>>
    %v = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    tt.store %po, %v : tensor<{N}x!tt.ptr<f32>>
"""
    x, y, o = run(agree, lines, 10)
    assert np.array_equal(o, np.where(np.arange(N) < 10, x[:N], y[:N]))


@pytest.mark.parametrize("k", [0, 1])
def test_pointers_chosen_as_a_whole(agree, k: int) -> None:
    lines = f"""
    %yes = arith.cmpi ne, %k, %zero : i32
    %p = arith.select %yes, %px, %py : tensor<{N}x!tt.ptr<f32>>
    %q = scf.if %yes -> (tensor<{N}x!tt.ptr<f32>>) {{
      scf.yield %py : tensor<{N}x!tt.ptr<f32>>
    }} else {{
      scf.yield %px : tensor<{N}x!tt.ptr<f32>>
    }}
    %s = arith.select %yes, %x, %y : !tt.ptr<f32>
    %v = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    %w = tt.load %q : tensor<{N}x!tt.ptr<f32>>
    %u = tt.load %s : !tt.ptr<f32>
    %us = tt.splat %u : f32 -> tensor<{N}xf32>
    %d = arith.subf %v, %w : tensor<{N}xf32>
    %e = arith.addf %d, %us : tensor<{N}xf32>
    tt.store %po, %e : tensor<{N}x!tt.ptr<f32>>
"""
    x, y, o = run(agree, lines, k)
    first, second = (x, y) if k else (y, x)
    assert np.array_equal(o, first[:N] - second[:N] + first[0])


@pytest.mark.parametrize("k", [0, 1, 3])
def test_pointers_that_advance_unevenly(agree, k: int) -> None:
    """Every turn doubles the distance; lanes move by their own steps."""
    lines = f"""
    %acc0 = arith.constant dense<0.000000e+00> : tensor<{N}xf32>
    %two = arith.constant dense<2> : tensor<{N}xi32>
    %three = arith.remui %r, %two : tensor<{N}xi32>
    %p, %acc = scf.for %i = %zero to %k step %one iter_args(%at = %px, %sum = %acc0)
        -> (tensor<{N}x!tt.ptr<f32>>, tensor<{N}xf32>) : i32 {{
      %v = tt.load %at : tensor<{N}x!tt.ptr<f32>>
      %s = arith.addf %sum, %v : tensor<{N}xf32>
      %times = tt.splat %i : i32 -> tensor<{N}xi32>
      %step = arith.muli %three, %times : tensor<{N}xi32>
      %next = tt.addptr %at, %step : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
      scf.yield %next, %s : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xf32>
    }}
    %last = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    %all = arith.addf %acc, %last : tensor<{N}xf32>
    tt.store %po, %all : tensor<{N}x!tt.ptr<f32>>
"""
    x, _, o = run(agree, lines, k)
    at, total = np.arange(N), np.zeros(N, np.float32)
    for turn in range(k):
        total = total + x[at]
        at = at + (np.arange(N) % 2) * turn
    assert np.array_equal(o, total + x[at])


def test_pointers_in_a_while_loop(agree) -> None:
    lines = f"""
    %p, %n = scf.while (%at = %px, %i = %zero) : (tensor<{N}x!tt.ptr<f32>>, i32) -> (tensor<{N}x!tt.ptr<f32>>, i32) {{
      %more = arith.cmpi slt, %i, %k : i32
      scf.condition(%more) %at, %i : tensor<{N}x!tt.ptr<f32>>, i32
    }} do {{
    ^bb0(%at: tensor<{N}x!tt.ptr<f32>>, %i: i32):
      %ones = tt.splat %one : i32 -> tensor<{N}xi32>
      %next = tt.addptr %at, %ones : tensor<{N}x!tt.ptr<f32>>, tensor<{N}xi32>
      %j = arith.addi %i, %one : i32
      scf.yield %next, %j : tensor<{N}x!tt.ptr<f32>>, i32
    }}
    %v = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    tt.store %po, %v : tensor<{N}x!tt.ptr<f32>>
"""
    x, _, o = run(agree, lines, 5)
    assert np.array_equal(o, x[5 : 5 + N])


def test_addresses_as_numbers(agree) -> None:
    """Pointers become integers, move by bytes, and become pointers again; the distance of two pointers is known."""
    lines = f"""
    %a = tt.ptr_to_int %px : tensor<{N}x!tt.ptr<f32>> -> tensor<{N}xi64>
    %eight = arith.constant dense<8> : tensor<{N}xi64>
    %b = arith.addi %a, %eight : tensor<{N}xi64>
    %p = tt.int_to_ptr %b : tensor<{N}xi64> -> tensor<{N}x!tt.ptr<f32>>
    %v = tt.load %p : tensor<{N}x!tt.ptr<f32>>
    %d = arith.subi %b, %a : tensor<{N}xi64>
    %f = arith.sitofp %d : tensor<{N}xi64> to tensor<{N}xf32>
    %m = arith.mulf %v, %f : tensor<{N}xf32>
    tt.store %po, %m : tensor<{N}x!tt.ptr<f32>>
"""
    x, _, o = run(agree, lines, 0)
    assert np.array_equal(o, x[2 : 2 + N] * 8)


def test_views_of_chosen_pointers(agree) -> None:
    lines = f"""
    %limit = tt.splat %k : i32 -> tensor<{N}xi32>
    %left = arith.cmpi slt, %r, %limit : tensor<{N}xi32>
    %p = arith.select %left, %px, %py : tensor<{N}xi1>, tensor<{N}x!tt.ptr<f32>>
    %q = tt.reshape %p : tensor<{N}x!tt.ptr<f32>> -> tensor<4x{N // 4}x!tt.ptr<f32>>
    %t = tt.trans %q {{order = array<i32: 1, 0>}} : tensor<4x{N // 4}x!tt.ptr<f32>> -> tensor<{N // 4}x4x!tt.ptr<f32>>
    %v = tt.load %t : tensor<{N // 4}x4x!tt.ptr<f32>>
    %w = tt.reshape %v : tensor<{N // 4}x4xf32> -> tensor<{N}xf32>
    tt.store %po, %w : tensor<{N}x!tt.ptr<f32>>
"""
    x, y, o = run(agree, lines, 13)
    assert np.array_equal(o, np.where(np.arange(N) < 13, x[:N], y[:N]).reshape(4, -1).T.reshape(-1))


@pytest.mark.parametrize("narrow", ["i8", "i16", "i64", "f64"])
def test_pointers_to_elements_of_another_width(agree, narrow: str) -> None:
    """The pointers of a block of f32, seen as pointers to elements of another width and moved by those."""
    lines = f"""
    %k2 = arith.muli %k, %one : i32
    %ks = tt.splat %k2 : i32 -> tensor<{N}xi32>
    %q = tt.bitcast %px : tensor<{N}x!tt.ptr<f32>> -> tensor<{N}x!tt.ptr<{narrow}>>
    %p = tt.addptr %q, %ks : tensor<{N}x!tt.ptr<{narrow}>>, tensor<{N}xi32>
    %s = tt.bitcast %p : tensor<{N}x!tt.ptr<{narrow}>> -> tensor<{N}x!tt.ptr<i32>>
    %v = tt.load %s : tensor<{N}x!tt.ptr<i32>>
    %f = arith.bitcast %v : tensor<{N}xi32> to tensor<{N}xf32>
    tt.store %po, %f : tensor<{N}x!tt.ptr<f32>>
"""
    width = int(narrow[1:]) // 8
    k = 4 // width * 3 if width <= 4 else 2  # aligned for the load of four bytes
    x, _, o = run(agree, lines, k)
    assert np.array_equal(o, x[k * width // 4 :][:N])


LINE = f"tensor<{N}x!tt.ptr<f32>>"
COMBINE = """({
    ^bb0(%u: !tt.ptr<f32>, %w: !tt.ptr<f32>):
      %ui = tt.ptr_to_int %u : !tt.ptr<f32> -> i64
      %wi = tt.ptr_to_int %w : !tt.ptr<f32> -> i64
      %gt = arith.cmpi ugt, %ui, %wi : i64
      CHOICE
      tt.reduce.return %s : !tt.ptr<f32>
    })"""
SELECT = "%s = arith.select %gt, %u, %w : !tt.ptr<f32>"
BRANCH = """%s = scf.if %gt -> (!tt.ptr<f32>) {
        scf.yield %u : !tt.ptr<f32>
      } else {
        scf.yield %w : !tt.ptr<f32>
      }"""
FARTHEST = f'%q = "tt.reduce"(%px) <{{axis = 0 : i32}}> {COMBINE} : ({LINE}) -> !tt.ptr<f32>'


@pytest.mark.parametrize(
    ("lines", "at"),
    [
        (FARTHEST.replace("CHOICE", SELECT), N - 1),
        (FARTHEST.replace("CHOICE", BRANCH), N - 1),
        ("%one1 = tt.splat %x : !tt.ptr<f32> -> tensor<1x!tt.ptr<f32>>\n"
         "%q = tt.unsplat %one1 : tensor<1x!tt.ptr<f32>>", 0),
        ("%one1 = tt.splat %x : !tt.ptr<f32> -> tensor<1x1x!tt.ptr<f32>>\n%k1 = tt.splat %k : i32 -> tensor<1x1xi32>\n"
         "%two1 = tt.addptr %one1, %k1 : tensor<1x1x!tt.ptr<f32>>, tensor<1x1xi32>\n"
         "%q = tt.unsplat %two1 : tensor<1x1x!tt.ptr<f32>>", 3),
    ],
    ids=["reduce", "reduce with branches", "unsplat", "unsplat moved"],
)  # fmt: skip
def test_one_pointer_of_a_block(agree, lines: str, at: int) -> None:
    lines += f"""
    %p = tt.splat %q : !tt.ptr<f32> -> {LINE}
    %v = tt.load %p : {LINE}
    tt.store %po, %v : {LINE}
"""
    x, _, o = run(agree, lines, 3)
    assert (o == x[at]).all()


def test_addresses_of_equal_pointers(agree) -> None:
    """Blocks that hold one address: as numbers, moved, and as pointers again."""
    lines = f"""
    %a = tt.ptr_to_int %bx : {LINE} -> tensor<{N}xi64>
    %first = tt.ptr_to_int %x : !tt.ptr<f32> -> i64
    %firsts = tt.splat %first : i64 -> tensor<{N}xi64>
    %d = arith.subi %a, %firsts : tensor<{N}xi64>
    %l = arith.extsi %k : i32 to i64
    %bytes = arith.muli %l, %l : i64
    %ls = tt.splat %bytes : i64 -> tensor<{N}xi64>
    %b = arith.addi %a, %ls : tensor<{N}xi64>
    %p = tt.int_to_ptr %b : tensor<{N}xi64> -> {LINE}
    %q = tt.addptr %p, %d : {LINE}, tensor<{N}xi64>
    %v = tt.load %q : {LINE}
    tt.store %po, %v : {LINE}
"""
    x, _, o = run(agree, lines, 4)
    assert (o == x[4]).all()
