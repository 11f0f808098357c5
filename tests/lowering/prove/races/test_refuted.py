"""What a launch refutes of races is the access that the finding is about."""

from __future__ import annotations

import joinery as jn
import pytest

pytest.importorskip("z3")

KERNEL = """tt.func public @k(%x: !tt.ptr<i32>, %n: i32, %e: i32) {
  %r = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
  %p = tt.get_program_id x : i32
  %pp = arith.muli %p, %p : i32
  %pq = arith.addi %pp, %p : i32
  %two = arith.constant 2 : i32
  %t = arith.divsi %pq, %two : i32
  %m = arith.cmpi ult, %t, %e : i32
  %ms = tt.splat %m : i1 -> tensor<2xi1>
  %s = tt.splat %x : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
  %o = tt.splat %t : i32 -> tensor<2xi32>
  %a = tt.addptr %s, %o : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
  tt.store %a, %r, %ms : tensor<2x!tt.ptr<i32>>
  %q = tt.addptr %x, %t : !tt.ptr<i32>, i32
  %v = tt.load %q, %m : !tt.ptr<i32>
  tt.return
}"""
"""Stores the numbers of two lanes to the element p (p + 1) / 2, and loads it: programs have elements of their own."""


@pytest.mark.slow
def test_lanes_of_a_store_refute_no_other_access() -> None:
    found = jn.kernel.from_ttir(KERNEL).prove(["n >= 1", "n <= 1000", "e >= 0"], {"x": "e"}, "n", ("races",))
    verdicts = {each.operation: each.verdict for each in found.accesses}
    assert verdicts["tt.store"] == "refuted"
    assert verdicts["tt.load"] in ("proven", "unknown")


@pytest.mark.slow
def test_lanes_of_a_store_that_write_one_value_refute_nothing() -> None:
    text = KERNEL.replace("tt.store %a, %r", "tt.store %a, %o")
    found = jn.kernel.from_ttir(text).prove(["n >= 1", "n <= 1000", "e >= 0"], {"x": "e"}, "n", ("races",))
    assert "refuted" not in {each.verdict for each in found.accesses}
