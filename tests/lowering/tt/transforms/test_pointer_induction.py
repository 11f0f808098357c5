"""Blocks that loops move by the same distance everywhere: the loop carries the distance, and everything stays what it was."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.pipeline import Pipeline, pipeline_of
from xdsl.dialects import scf

P, F = "tensor<16x!tt.ptr<f32>>", "tensor<16xf32>"

INDUCTION = Pipeline.parse("pointer-induction")


def text(loop: str, after: str = "%where = tt.addptr %out0, %r : PTRS, INTS\n  tt.store %where, %sum : PTRS") -> str:
    body = f"""
module {{
  tt.func public @walk(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>, %n: i32, %step: i32) {{
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %two = arith.constant dense<2> : INTS
    %sum0 = arith.constant dense<0.0> : {F}
    %r = tt.make_range {{start = 0 : i32, end = 16 : i32}} : INTS
    %x0 = tt.splat %x : !tt.ptr<f32> -> PTRS
    %out0 = tt.splat %out : !tt.ptr<f32> -> PTRS
    %p0 = tt.addptr %x0, %r : PTRS, INTS
    %steps = tt.splat %step : i32 -> INTS
{loop}
    {after}
    tt.return
  }}
}}
"""
    return body.replace("PTRS", P).replace("INTS", "tensor<16xi32>")


def carried(source: str) -> list[list[str]]:
    """Of each loop, the types of what it carries, after the rewriting."""
    function = find_function(parse(source), "walk")
    (pipeline_of("host") + INDUCTION).run(function)
    return [[str(value.type) for value in op.results] for op in function.walk() if isinstance(op, scf.ForOp)]


def walks(source: str, n: int, step: int, most: int = 200) -> None:
    """Simulated code against the interpreter, which runs the text as it stands."""
    kernel = jn.kernel.from_ttir(source)
    x = np.random.default_rng(3).standard_normal(most).astype(np.float32)
    expected, found = np.zeros(64, np.float32), np.zeros(64, np.float32)
    kernel.interpret((1,), x, expected, n, step)
    kernel.launch((1,), x, found, n, step, device="ptxsim", sanitize=True)
    np.testing.assert_array_equal(found, expected)
    assert n == 0 or expected.any()


POINTERS = f"""
    %sum, %end = scf.for %i = %zero to %n step %one iter_args(%acc = %sum0, %p = %p0) -> ({F}, PTRS) : i32 {{
      %v = tt.load %p : PTRS
      %next = arith.addf %acc, %v : {F}
      %q = tt.addptr %p, %steps : PTRS, INTS
      scf.yield %next, %q : {F}, PTRS
    }}"""
INTEGERS = f"""
    %sum, %end = scf.for %i = %zero to %n step %one iter_args(%acc = %sum0, %k = %r) -> ({F}, INTS) : i32 {{
      %p = tt.addptr %x0, %k : PTRS, INTS
      %v = tt.load %p : PTRS
      %next = arith.addf %acc, %v : {F}
      %j = arith.addi %steps, %k : INTS
      scf.yield %next, %j : {F}, INTS
    }}"""
GROWING = POINTERS.replace("%q =", "%far = arith.muli %i, %step : i32\n      %fars = tt.splat %far : i32 -> INTS\n      %q =")
GROWING = GROWING.replace("%p, %steps", "%p, %fars")
NESTED = f"""
    %sum, %last = scf.for %j = %zero to %n step %one iter_args(%outer = %sum0, %begin = %p0) -> ({F}, PTRS) : i32 {{
      %inner, %end = scf.for %i = %zero to %n step %one iter_args(%acc = %outer, %p = %begin) -> ({F}, PTRS) : i32 {{
        %v = tt.load %p : PTRS
        %next = arith.addf %acc, %v : {F}
        %q = tt.addptr %p, %steps : PTRS, INTS
        scf.yield %next, %q : {F}, PTRS
      }}
      scf.yield %inner, %end : {F}, PTRS
    }}"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("loop", "types"),
    [
        (POINTERS, [[F, "i64"]]),
        (POINTERS.replace("%p, %steps", "%p, %two"), [[F, "i64"]]),
        (INTEGERS, [[F, "i32"]]),
        (INTEGERS.replace("%steps, %k", "%k, %two"), [[F, "i32"]]),
        (GROWING, [[F, "i64"]]),
        (NESTED, [[F, "i64"], [F, "i64"]]),
    ],
)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_one_distance_is_carried(loop: str, types: list[list[str]], n: int) -> None:
    source = text(loop)
    assert carried(source) == types
    walks(source, n, 5)


@pytest.mark.parametrize(("name", "n"), [("pointers", 0), ("pointers", 3), ("integers", 0), ("integers", 4)])
def test_where_the_block_ends_up(name: str, n: int) -> None:
    """What a loop leaves is the start of the next, and may be read."""
    after = """
    %out1 = tt.addptr %out0, %r : PTRS, INTS
    %there = LAST
    %v9 = tt.load %there : PTRS
    tt.store %out1, %v9 : PTRS
    %more = tt.addptr %out1, %sixteen : PTRS, INTS
    tt.store %more, %sum : PTRS"""
    last = {"pointers": "tt.addptr %end, %r : PTRS, INTS", "integers": "tt.addptr %p0, %end : PTRS, INTS"}[name]
    loop = {"pointers": POINTERS, "integers": INTEGERS}[name] + "\n    %sixteen = arith.constant dense<16> : INTS"
    walks(text(loop, after.replace("LAST", last)), n, 7)


@pytest.mark.parametrize(("advance", "n"), [("%p, %r", 3), ("%p0, %steps", 3)])
def test_other_blocks_stay(advance: str, n: int) -> None:
    """A distance for every element; a block that does not go on from the last turn's."""
    source = text(POINTERS.replace("%p, %steps", advance))
    assert carried(source) == [[F, P]]
    walks(source, n, 2)


def test_integers_wrap_around() -> None:
    """2^31 - 8 and 2^32 - 16 further than they began, they are small again."""
    loop = INTEGERS.replace("%j = arith.addi %steps, %k", "%j = arith.addi %k, %steps")
    far = loop.replace("%p = tt.addptr %x0, %k", "%low = arith.andi %k, %mask : INTS\n      %p = tt.addptr %x0, %low")
    source = text("    %mask = arith.constant dense<127> : INTS" + far)
    assert carried(source) == [[F, "i32"]]
    for step in (2**31 - 8, -(2**31), -5):
        walks(source, 5, step)


def test_a_function_without_such_blocks_is_left_alone() -> None:
    function = find_function(parse(text(POINTERS.replace("%p, %steps", "%p, %r"))), "walk")
    assert INDUCTION.run_on_copy(function) is function
    own = find_function(parse(text(POINTERS)), "walk")
    before = print_module(own)
    assert INDUCTION.run_on_copy(own) is not own
    assert print_module(own) == before
