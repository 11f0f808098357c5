"""Descriptors and block pointers as values: carried by loops, chosen by branches and selects, passed to functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.analysis.integer_facts import MANY, never_negative, trailing_zeros
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline
from joinery.lowering.tt.verify import verify

Runner = Callable[..., None]


def interpret(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.interpret(grid, *args)


def launch(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.launch(grid, *args, threads=1)


def simulate(kernel: Any, grid: Any, *args: Any) -> None:
    kernel.launch(grid, *args, device="ptxsim", target="sm_90a")


both = pytest.mark.parametrize("run", [interpret, launch])

HEAD = """
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %c4 = arith.constant 4 : i32
  %c8 = arith.constant 8 : i32
  %one = arith.constant 1 : i64
  %nw = arith.extsi %n : i32 to i64
"""
BLOCK = "!tt.ptr<tensor<8xf32>>"
DESC = "!tt.tensordesc<8xf32>"
MADE = """
  %p = tt.make_tensor_ptr %x, [%nw], [%one], [%c0] {order = array<i32: 0>} : <tensor<8xf32>>
  %q = tt.make_tensor_ptr %y, [%nw], [%one], [%c0] {order = array<i32: 0>} : <tensor<8xf32>>
  %d = tt.make_tensor_descriptor %x, [%n], [%one] : <f32>, <8xf32>
  %e = tt.make_tensor_descriptor %y, [%n], [%one] : <f32>, <8xf32>
"""
CHECKED = "{boundaryCheck = array<i32: 0>}"
PADDED = "{boundaryCheck = array<i32: 0>, padding = 1 : i32}"


def kernel(body: str, parameters: str = "%k: i32", others: str = "") -> Any:
    signature = f"%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, {parameters}"
    text = f"tt.func public @f({signature}) {{{HEAD}{MADE}{body}\ntt.return\n}}\n{others}"
    return jn.kernel.from_ttir(text, name="f")


def arrays(n: int) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(1, n + 1, dtype=np.float32), np.full(n + 16, -1, np.float32)


@both
@pytest.mark.parametrize("step", [8, 4, 3])
def test_pointers_advance_in_a_loop_and_after_it(step: int, run: Runner) -> None:
    """Copies blocks that may overlap, then one more from where the loop left the pointers."""
    k = kernel(f"""
      %s = arith.constant {step} : i32
      %a, %b = scf.for %i = %c0 to %k step %c1 iter_args(%v = %p, %w = %q) -> ({BLOCK}, {BLOCK}) : i32 {{
        %t = tt.load %v {PADDED} : {BLOCK}
        tt.store %w, %t {CHECKED} : {BLOCK}
        %v1 = tt.advance %v, [%s] : <tensor<8xf32>>
        %w1 = tt.advance %w, [%s] : <tensor<8xf32>>
        scf.yield %v1, %w1 : {BLOCK}, {BLOCK}
      }}
      %t = tt.load %a {PADDED} : {BLOCK}
      %u = arith.addf %t, %t : tensor<8xf32>
      tt.store %b, %u {CHECKED} : {BLOCK}""")
    for turns in (0, 1, 2, 5):
        x, y = arrays(20)
        run(k, 1, x, y, 20, turns)
        expected = np.full(36, -1, np.float32)
        for turn in range(turns):
            expected[step * turn : min(step * turn + 8, 20)] = x[step * turn : step * turn + 8]
        last = slice(min(step * turns, 20), min(step * turns + 8, 20))
        expected[last] = 2 * x[last]
        np.testing.assert_array_equal(y, expected)


@both
def test_a_pointer_that_moves_backwards(run: Runner) -> None:
    k = kernel(f"""
      %m5 = arith.constant -5 : i32
      %at = tt.advance %p, [%k] : <tensor<8xf32>>
      %a, %b = scf.for %i = %c0 to %c4 step %c1 iter_args(%v = %at, %w = %q) -> ({BLOCK}, {BLOCK}) : i32 {{
        %t = tt.load %v {PADDED} : {BLOCK}
        tt.store %w, %t {CHECKED} : {BLOCK}
        %v1 = tt.advance %v, [%m5] : <tensor<8xf32>>
        %w1 = tt.advance %w, [%c8] : <tensor<8xf32>>
        scf.yield %v1, %w1 : {BLOCK}, {BLOCK}
      }}""")
    x, y = arrays(32)
    run(k, 1, x, y, 32, 9)
    padded = np.concatenate([np.zeros(20, np.float32), x])
    np.testing.assert_array_equal(y[:32], np.concatenate([padded[20 + at : 28 + at] for at in (9, 4, -1, -6)]))


@both
def test_descriptors_change_places_in_a_loop(run: Runner) -> None:
    """Turn by turn the block goes from one array to the other and back, one larger."""
    k = kernel(f"""
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      %a, %b = scf.for %i = %c0 to %k step %c1 iter_args(%v = %d, %w = %e) -> ({DESC}, {DESC}) : i32 {{
        %t = tt.descriptor_load %v[%c2] : {DESC} -> tensor<8xf32>
        %u = arith.addf %t, %ones : tensor<8xf32>
        tt.descriptor_store %w[%c2], %u : {DESC}, tensor<8xf32>
        scf.yield %w, %v : {DESC}, {DESC}
      }}""")
    for turns in range(4):
        x, y = arrays(20)
        expected = [x.copy(), y.copy()]
        for turn in range(turns):
            expected[1 - turn % 2][2:10] = expected[turn % 2][2:10] + 1
        run(k, 1, x, y, 20, turns)
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(y, expected[1])


@both
def test_while_loops_carry_pointers(run: Runner) -> None:
    """Copies until a block begins with a number above %k; then marks the block behind."""
    k = kernel(f"""
      %z = arith.constant dense<0.0> : tensor<8xf32>
      %kf = arith.sitofp %k : i32 to f32
      %a, %b = scf.while (%v = %p, %w = %q) : ({BLOCK}, {BLOCK}) -> ({BLOCK}, {BLOCK}) {{
        %t = tt.load %v {PADDED} : {BLOCK}
        %m = "tt.reduce"(%t) <{{axis = 0 : i32}}> ({{
        ^bb0(%l: f32, %r: f32):
          %h = arith.maximumf %l, %r : f32
          tt.reduce.return %h : f32
        }}) : (tensor<8xf32>) -> f32
        %go = arith.cmpf ole, %m, %kf : f32
        scf.condition(%go) %v, %w : {BLOCK}, {BLOCK}
      }} do {{
      ^bb0(%v: {BLOCK}, %w: {BLOCK}):
        %t = tt.load %v {PADDED} : {BLOCK}
        tt.store %w, %t {CHECKED} : {BLOCK}
        %v1 = tt.advance %v, [%c8] : <tensor<8xf32>>
        %w1 = tt.advance %w, [%c8] : <tensor<8xf32>>
        scf.yield %v1, %w1 : {BLOCK}, {BLOCK}
      }}
      tt.store %b, %z {CHECKED} : {BLOCK}""")
    for limit, copied in ((4, 0), (16, 16), (30, 24)):
        x, y = arrays(30)
        x[copied + 1] = 1000
        run(k, 1, x, y, 30, limit)
        expected = np.full(46, -1, np.float32)
        expected[:copied] = x[:copied]
        expected[copied : min(copied + 8, 30)] = 0
        np.testing.assert_array_equal(y, expected)


@both
def test_while_loops_change_descriptors(run: Runner) -> None:
    k = kernel(f"""
      %ones = arith.constant dense<1.0> : tensor<8xf32>
      %a, %b, %c = scf.while (%v = %d, %i = %c0, %w = %e) : ({DESC}, i32, {DESC}) -> ({DESC}, i32, {DESC}) {{
        %go = arith.cmpi slt, %i, %k : i32
        scf.condition(%go) %w, %i, %v : {DESC}, i32, {DESC}
      }} do {{
      ^bb0(%w: {DESC}, %i: i32, %v: {DESC}):
        %t = tt.descriptor_load %v[%c1] : {DESC} -> tensor<8xf32>
        %u = arith.addf %t, %ones : tensor<8xf32>
        tt.descriptor_store %w[%c1], %u : {DESC}, tensor<8xf32>
        %j = arith.addi %i, %c1 : i32
        scf.yield %w, %j, %v : {DESC}, i32, {DESC}
      }}
      %t = tt.descriptor_load %a[%c0] : {DESC} -> tensor<8xf32>
      tt.descriptor_store %a[%c8], %t : {DESC}, tensor<8xf32>""")
    for turns in range(4):
        x, y = arrays(20)
        expected = [x.copy(), y.copy()]
        for turn in range(turns):
            expected[1 - turn % 2][1:9] = expected[turn % 2][1:9] + 1
        final = expected[1 - turns % 2]
        final[8:16] = final[:8].copy()
        run(k, 1, x, y, 20, turns)
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(y, expected[1])


@both
def test_branches_and_selects_choose(run: Runner) -> None:
    k = kernel(f"""
      %big = arith.cmpi sgt, %k, %c2 : i32
      %v = scf.if %big -> ({BLOCK}) {{
        %m = tt.advance %p, [%c8] : <tensor<8xf32>>
        scf.yield %m : {BLOCK}
      }} else {{
        %m = tt.advance %p, [%k] : <tensor<8xf32>>
        scf.yield %m : {BLOCK}
      }}
      %t = tt.load %v {PADDED} : {BLOCK}
      %w = arith.select %big, %q, %p : {BLOCK}
      tt.store %w, %t {CHECKED} : {BLOCK}
      %ds, %same = scf.if %big -> ({DESC}, i32) {{
        scf.yield %d, %c1 : {DESC}, i32
      }} else {{
        scf.yield %e, %c2 : {DESC}, i32
      }}
      %de = arith.select %big, %e, %d : {DESC}
      %u = tt.descriptor_load %ds[%same] : {DESC} -> tensor<8xf32>
      tt.descriptor_store %de[%c8], %u : {DESC}, tensor<8xf32>""")
    for value in (1, 5):
        x, y = arrays(16)
        wanted = [x.copy(), y.copy()]
        big = value > 2
        at = 8 if big else value
        target = wanted[1] if big else wanted[0]
        target[:8] = wanted[0][at : at + 8].copy()
        block = wanted[0][1:9].copy() if big else wanted[1][2:10].copy()
        target[8:16] = block
        run(k, 1, x, y, 16, value)
        np.testing.assert_array_equal(x, wanted[0])
        np.testing.assert_array_equal(y, wanted[1])


@both
def test_calls_pass_and_return_them(run: Runner) -> None:
    callee = f"""
    tt.func private @next(%v: {BLOCK}, %d: {DESC}, %by: i32) -> ({BLOCK}, {DESC}, tensor<8xf32>) {{
      %m = tt.advance %v, [%by] : <tensor<8xf32>>
      %t = tt.descriptor_load %d[%by] : {DESC} -> tensor<8xf32>
      tt.return %m, %d, %t : {BLOCK}, {DESC}, tensor<8xf32>
    }}"""
    k = kernel(
        f"""
      %v, %g, %t = tt.call @next(%q, %d, %k) : ({BLOCK}, {DESC}, i32) -> ({BLOCK}, {DESC}, tensor<8xf32>)
      %w, %h, %u = tt.call @next(%v, %g, %c8) : ({BLOCK}, {DESC}, i32) -> ({BLOCK}, {DESC}, tensor<8xf32>)
      tt.store %v, %t {CHECKED} : {BLOCK}
      tt.store %w, %u {CHECKED} : {BLOCK}""",
        others=callee,
    )
    x, y = arrays(30)
    run(k, 1, x, y, 30, 3)
    expected = np.full(46, -1, np.float32)
    expected[3:11], expected[11:19] = x[3:11], x[8:16]
    np.testing.assert_array_equal(y, expected)


@both
def test_leading_axes_of_one_may_be_left_out(run: Runner) -> None:
    text = """
    tt.func public @f(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %m: i32, %i: i32, %j: i32) {
      %one = arith.constant 1 : i64
      %s = arith.extsi %m : i32 to i64
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c8 = arith.constant 8 : i32
      %d = tt.make_tensor_descriptor %x, [%c1, %n, %m], [%one, %s, %one] {padding = 2 : i32} : <f32>, <1x1x8xf32>
      %e = tt.make_tensor_descriptor %y, [%c1, %c8], [%one, %one] : <f32>, <1x8xf32>
      %t = tt.descriptor_load %d[%c0, %i, %j] : !tt.tensordesc<1x1x8xf32> -> tensor<8xf32>
      tt.descriptor_store %e[%c0, %c0], %t : !tt.tensordesc<1x8xf32>, tensor<8xf32>
      tt.return
    }"""
    k = jn.kernel.from_ttir(text)
    x = np.arange(30, dtype=np.float32).reshape(3, 10)
    padded = np.full((5, 24), np.nan, np.float32)
    padded[1:4, 5:15] = x
    for i in range(-1, 4):
        for j in (-5, 0, 4, 10):
            y = np.zeros(8, np.float32)
            run(k, 1, x, y, 3, 10, i, j)
            np.testing.assert_array_equal(y, padded[i + 1, j + 5 : j + 13])


def test_what_a_loop_does_not_change_is_not_carried() -> None:
    """Strides stay constants, so that the host knows which axis is contiguous."""
    k = kernel(f"""
      %a = scf.for %i = %c0 to %k step %c1 iter_args(%v = %p) -> ({BLOCK}) : i32 {{
        %t = tt.load %v {PADDED} : {BLOCK}
        tt.store %q, %t {CHECKED} : {BLOCK}
        %v1 = tt.advance %v, [%c8] : <tensor<8xf32>>
        scf.yield %v1 : {BLOCK}
      }}""")
    module = parse(k.ttir)
    function = find_function(module)
    Pipeline.parse("canonicalize,cse,dce,expand-descriptors").run(function)
    verify(module)
    text = print_module(module)
    assert re.search(r"iter_args\((%\S+) = %\S+\) -> \(i64\)", text)  # the offset alone
    assert "tt.advance" not in text
    assert "tensor_ptr" not in text
    # Its multiples of 8 need no comparison with zero per lane.
    assert "arith.cmpi sge" not in re.sub(r"arith\.cmpi sge, %\S+, %\S+ : i64", "", text)


@pytest.mark.parametrize(
    ("text", "zeros", "sure"),
    [
        ("%v = arith.constant 0 : i32", MANY, True),
        ("%v = arith.constant -8 : i32", 3, False),
        ("%v = arith.muli %a, %c8 : i32", 3, False),
        ("%v = arith.muli %pid, %c8 : i32", 3, False),  # it can wrap
        ("%v = arith.remsi %pid, %c8 : i32", 0, True),
        ("%v = arith.divsi %pid, %c8 : i32", 0, True),
        ("%w = arith.divsi %pid, %c8 : i32\n%v = arith.muli %w, %c8 : i32", 3, True),
        ("%w = arith.extsi %pid : i32 to i64\n%w8 = arith.extsi %c8 : i32 to i64\n%v = arith.muli %w, %w8 : i64", 3, True),
        ("%w = arith.muli %a, %c8 : i32\n%v = arith.addi %w, %c4 : i32", 2, False),
        ("%w = arith.muli %a, %c8 : i32\n%v = arith.subi %w, %c8 : i32", 3, False),
        ("%v = arith.shli %a, %c4 : i32", 4, False),
        ("%v = arith.andi %a, %c8 : i32", 3, True),
        ("%v = arith.maxsi %a, %c8 : i32", 0, True),
        ("%v = arith.minsi %a, %c8 : i32", 0, False),
        ("%v = arith.select %b, %c4, %c8 : i32", 2, True),
        ("%v = arith.extui %a : i32 to i64", 0, True),
        ("%v = scf.for %i = %c0 to %a step %c1 iter_args(%w = %c8) -> (i32) : i32 {\n"
         "%x = arith.addi %w, %c4 : i32\nscf.yield %x : i32\n}", 2, False),
        ("%v = scf.for %i = %c0 to %a step %c1 iter_args(%w = %c8) -> (i32) : i32 {\n"
         "%x = arith.addi %w, %a : i32\nscf.yield %x : i32\n}", 0, False),
    ],
)  # fmt: skip
def test_integer_facts(text: str, zeros: int, sure: bool) -> None:
    constants = "\n".join(f"%c{n} = arith.constant {n} : i32" for n in (0, 1, 4, 8))
    start = "%pid = tt.get_program_id x : i32"
    module = parse(f"tt.func public @f(%a: i32, %b: i1) {{\n{start}\n{constants}\n{text}\ntt.return\n}}")
    block = find_function(module).body.block
    value = next(result for op in block.ops for result in op.results if result.name_hint == "v")
    assert trailing_zeros(value) == zeros
    assert never_negative(value) == sure


def test_facts_about_loops() -> None:
    module = parse("""tt.func public @f(%a: i32, %l: i32) {
      %c0 = arith.constant 0 : i32
      %c8 = arith.constant 8 : i32
      scf.for %i = %c0 to %a step %c8 : i32 { scf.yield }
      scf.for %i = %l to %a step %c8 : i32 { scf.yield }
      tt.return }""")
    up, other = (op.regions[0].block.args[0] for op in find_function(module).body.block.ops if op.name == "scf.for")
    assert (trailing_zeros(up), never_negative(up)) == (3, True)
    assert (trailing_zeros(other), never_negative(other)) == (0, False)


@pytest.mark.slow
def test_long_chains_of_operations_are_not_followed_for_ever() -> None:
    """Facts about 2**300 paths, and pointers advanced 3000 times."""
    sums = "\n".join(f"%s{i + 1} = arith.addi %s{i}, %s{i} : i32" for i in range(300))
    moves = "\n".join(f"%p{i + 1} = tt.advance %p{i}, [%c1] : <tensor<8xf32>>" for i in range(3000))
    k = kernel(f"""
      %s0 = arith.addi %k, %c1 : i32
      {sums}
      %p0 = tt.advance %p, [%s300] : <tensor<8xf32>>
      {moves}
      %t = tt.load %p3000 {PADDED} : {BLOCK}
      tt.store %q, %t {CHECKED} : {BLOCK}""")
    x, y = arrays(3005)
    k.launch(1, x, y, 3005, 0)  # 2**300 wraps to 0
    np.testing.assert_array_equal(y[:8], [*x[3000:], 0, 0, 0])


@pytest.mark.one_in(2)
@pytest.mark.parametrize("run", [interpret, launch, simulate])
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
def test_branches_hand_over_pointers(turns: int, run: Runner) -> None:
    """A loop of blocks: pointers, a number and descriptors go round; what is reached last stands first in the text."""
    k = kernel(f"""
      cf.br ^turn(%p, %c0, %e, %q : {BLOCK}, i32, {DESC}, {BLOCK})
    ^behind(%l: {BLOCK}, %f: {DESC}):
      %t2 = tt.load %l {PADDED} : {BLOCK}
      %u2 = arith.addf %t2, %t2 : tensor<8xf32>
      tt.descriptor_store %f[%c0], %u2 : {DESC}, tensor<8xf32>
      tt.return
    ^copy(%v1: {BLOCK}, %i1: i32, %w1: {BLOCK}):
      %t = tt.load %v1 {PADDED} : {BLOCK}
      tt.store %w1, %t {CHECKED} : {BLOCK}
      %v2 = tt.advance %v1, [%c4] : <tensor<8xf32>>
      %w2 = tt.advance %w1, [%c8] : <tensor<8xf32>>
      %i2 = arith.addi %i1, %c1 : i32
      cf.br ^turn(%v2, %i2, %e, %w2 : {BLOCK}, i32, {DESC}, {BLOCK})
    ^turn(%v: {BLOCK}, %i: i32, %g: {DESC}, %w: {BLOCK}):
      %more = arith.cmpi slt, %i, %k : i32
      cf.cond_br %more, ^copy(%v, %i, %w : {BLOCK}, i32, {BLOCK}), ^behind(%v, %g : {BLOCK}, {DESC})
    ^never(%h: {DESC}):
      %t3 = tt.descriptor_load %h[%c0] : {DESC} -> tensor<8xf32>
      cf.br ^behind(%q, %h : {BLOCK}, {DESC})
    ^nor_that:""")
    x, y = arrays(40)
    run(k, 1, x, y, 40, turns)
    expected = np.full(56, -1, np.float32)
    for turn in range(turns):
        expected[8 * turn : 8 * turn + 8] = x[4 * turn : 4 * turn + 8]
    expected[:8] = 2 * x[4 * turns : 4 * turns + 8]
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("run", [interpret, launch, simulate])
@pytest.mark.parametrize(("chosen", "source", "at"), [(0, 0, 2), (1, 1, 3), (2, 0, 8), (7, 0, 2)])
def test_switches_hand_over_descriptors(chosen: int, source: int, at: int, run: Runner) -> None:
    k = kernel(f"""
      cf.switch %k : i32, [
        default: ^end(%d, %c2, %e : {DESC}, i32, {DESC}),
        1: ^end(%e, %c3, %d : {DESC}, i32, {DESC}),
        2: ^other
      ]
    ^other:
      cf.br ^end(%d, %c8, %e : {DESC}, i32, {DESC})
    ^end(%from: {DESC}, %i: i32, %to: {DESC}):
      %t = tt.descriptor_load %from[%i] : {DESC} -> tensor<8xf32>
      tt.descriptor_store %to[%c0], %t : {DESC}, tensor<8xf32>""")
    both_arrays = arrays(24)
    run(k, 1, *both_arrays, 24, chosen)
    x, y = arrays(24)
    expected = [x.copy(), y.copy()]
    expected[1 - source][:8] = (x, y)[source][at : at + 8]
    for found, wanted in zip(both_arrays, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
