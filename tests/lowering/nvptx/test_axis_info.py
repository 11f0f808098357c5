"""What the axis analysis says of integer blocks holds for the numbers that the interpreter computes."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.nvptx.axis_info import MOST, AxisAnalysis, AxisInfo
from joinery.lowering.tt.interpret import find_function, interpret
from joinery.lowering.tt.text import parse


def groups(values: np.ndarray, dim: int, size: int) -> np.ndarray:
    """Aligned groups of `size` elements along a dim, one per row."""
    return np.moveaxis(values, dim, -1).reshape(-1, size)


def check(info: AxisInfo, values: np.ndarray, what: str) -> None:
    wide = values.astype(np.int64)
    for dim in range(values.ndim):
        runs = groups(wide, dim, min(info.contiguity[dim], values.shape[dim]))
        assert (np.diff(runs, axis=1) == 1).all(), f"{what}: contiguity {info} along {dim}"
        least = min(info.divisibility[dim], MOST)
        assert (runs[:, 0] % least == 0).all(), f"{what}: divisibility {info} along {dim}"
        same = groups(wide, dim, min(info.constancy[dim], values.shape[dim]))
        assert (same == same[:, :1]).all(), f"{what}: constancy {info} along {dim}"


def follow(text: str, *args: int) -> int:
    """Check every integer block of a function for these arguments; how many there were."""
    module = parse(text)
    function = find_function(module, None)
    analysis = AxisAnalysis(function)
    named = {result.name_hint: analysis.of(result) for op in function.walk() for result in op.results}
    checked = 0

    def look(step: jn.kernel.Step) -> None:
        nonlocal checked
        value = step.results[0] if len(step.results) == 1 else None
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind in "iub":
            check(named[step.text.split(" ")[0].removeprefix("%")], value, f"{step.text} with {args}")
            checked += 1

    interpret(module, (2,), args, None, look)
    return checked


TEXT = """
tt.func @f(%n: i32 {tt.divisibility = 16 : i32}, %m: i32) {
  %pid = tt.get_program_id x : i32
  %size = arith.constant 64 : i32
  %first = arith.muli %pid, %size : i32
  %r = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32>
  %late = tt.make_range {start = 24 : i32, end = 88 : i32} : tensor<64xi32>
  %f = tt.splat %first : i32 -> tensor<64xi32>
  %at = arith.addi %f, %r : tensor<64xi32>
  %ns = tt.splat %n : i32 -> tensor<64xi32>
  %ms = tt.splat %m : i32 -> tensor<64xi32>
  %below = arith.cmpi slt, %at, %ns : tensor<64xi32>
  %above = arith.cmpi sge, %at, %ms : tensor<64xi32>
  %turned = arith.cmpi sgt, %ns, %at : tensor<64xi32>
  %most = arith.cmpi sle, %ms, %at : tensor<64xi32>
  %both = arith.andi %below, %above : tensor<64xi1>
  %wrapped = arith.remsi %at, %ns : tensor<64xi32>
  %wrapped_m = arith.remsi %late, %ms : tensor<64xi32>
  %moved = arith.addi %late, %ms : tensor<64xi32>
  %back = arith.subi %late, %ns : tensor<64xi32>
  %away = arith.subi %ns, %late : tensor<64xi32>
  %scaled = arith.muli %late, %ns : tensor<64xi32>
  %twelve = arith.constant dense<12> : tensor<64xi32>
  %by = arith.muli %at, %twelve : tensor<64xi32>
  %sum = arith.addi %by, %late : tensor<64xi32>
  %chosen = arith.select %below, %at, %late : tensor<64xi1>, tensor<64xi32>
  %row = tt.expand_dims %r {axis = 0 : i32} : tensor<64xi32> -> tensor<1x64xi32>
  %q = tt.make_range {start = 0 : i32, end = 16 : i32} : tensor<16xi32>
  %column = tt.expand_dims %q {axis = 1 : i32} : tensor<16xi32> -> tensor<16x1xi32>
  %wide = tt.splat %n : i32 -> tensor<16x1xi32>
  %start = arith.muli %column, %wide : tensor<16x1xi32>
  %rows = tt.broadcast %start : tensor<16x1xi32> -> tensor<16x64xi32>
  %columns = tt.broadcast %row : tensor<1x64xi32> -> tensor<16x64xi32>
  %places = arith.addi %rows, %columns : tensor<16x64xi32>
  %other = tt.trans %places {order = array<i32: 1, 0>} : tensor<16x64xi32> -> tensor<64x16xi32>
  %long = arith.extsi %places : tensor<16x64xi32> to tensor<16x64xi64>
  %short = arith.trunci %places : tensor<16x64xi32> to tensor<16x64xi16>
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %three = arith.constant 3 : i32
  %step = arith.constant dense<48> : tensor<64xi32>
  %end = scf.for %i = %zero to %three step %one iter_args(%x = %at) -> (tensor<64xi32>) : i32 {
    %y = arith.addi %x, %step : tensor<64xi32>
    %z = arith.cmpi slt, %x, %ns : tensor<64xi32>
    scf.yield %y : tensor<64xi32>
  }
  %last = arith.addi %end, %r : tensor<64xi32>
  %turn = arith.constant 64 : i32
  scf.for %i = %n to %m step %turn : i32 {
    %is = tt.splat %i : i32 -> tensor<64xi32>
    %ir = arith.addi %is, %r : tensor<64xi32>
    %inside = arith.cmpi slt, %ir, %ns : tensor<64xi32>
    scf.yield
  }
  scf.for %j = %one to %m step %one : i32 {
    %js = tt.splat %j : i32 -> tensor<64xi32>
    %jr = arith.addi %js, %r : tensor<64xi32>
    scf.yield
  }
  tt.return
}
"""


@pytest.mark.parametrize("n", [0, 16, 48, 64, 96, 1024])
@pytest.mark.parametrize("m", [1, 7, 24, 64])
def test_the_facts_hold(n: int, m: int) -> None:
    assert follow(TEXT, n, m) > 80


def test_facts_that_make_wide_accesses() -> None:
    function = find_function(parse(TEXT), None)
    analysis = AxisAnalysis(function)
    named = {result.name_hint: analysis.of(result) for op in function.walk() for result in op.results}
    assert named["at"].contiguity == (64,)
    assert named["below"].constancy == (16,)
    assert named["ir"].divisibility == (16,)  # of the start and the step
    assert named["jr"].divisibility == (1,)
    assert named["wrapped"].contiguity == (16,)
    assert named["wrapped_m"].contiguity == (1,)
    assert (named["places"].contiguity, named["places"].divisibility) == ((1, 64), (1, 16))
    assert named["end"].contiguity == (64,)
    assert named["end"].divisibility == (16,)


def test_pointers_count_in_bytes() -> None:
    text = """
tt.func @f(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %q: !tt.ptr<f32>) {
  %r = tt.make_range {start = 4 : i32, end = 68 : i32} : tensor<64xi32>
  %ps = tt.splat %p : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %known = tt.addptr %ps, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
  %unknown = tt.addptr %qs, %r : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
  tt.return
}
"""
    function = find_function(parse(text), None)
    named = {}
    for multiples in ({}, {1: 32}):
        analysis = AxisAnalysis(function, multiples)
        named[len(multiples)] = {r.name_hint: analysis.of(r) for op in function.walk() for r in op.results}
    assert (named[0]["known"].contiguity, named[0]["known"].divisibility) == ((64,), (16,))
    assert named[0]["unknown"].divisibility == (4,)
    assert named[1]["unknown"].divisibility == (16,)
