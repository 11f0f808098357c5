"""Numbers of 32 bits that wrap on purpose and are widened or compared: hosts and GPUs compute what the interpreter does."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tt.interpret.memory import AccessError

NARROW, WIDE, MASK = "tensor<64xi32>", "tensor<64xi64>", "tensor<64xi1>"
HASH = f"%h = arith.muli %i, %c : {NARROW}"
BODIES = {
    "a remainder": f"{HASH}\n%w = arith.extsi %h : {NARROW} to {WIDE}\n%y = arith.remsi %w, %ms : {WIDE}",
    "without sign": f"{HASH}\n%w = arith.extui %h : {NARROW} to {WIDE}\n%y = arith.remsi %w, %ms : {WIDE}",
    "itself": f"{HASH}\n%y = arith.extsi %h : {NARROW} to {WIDE}",
    "by a parameter": f"%h = arith.muli %i, %ns : {NARROW}\n%w = arith.extsi %h : {NARROW} to {WIDE}\n"
    f"%y = arith.remui %w, %ms : {WIDE}",
    "compared": f"%h = arith.muli %ns, %c : {NARROW}\n%g = arith.addi %h, %i : {NARROW}\n"
    f"%k = arith.cmpi slt, %g, %ns : {NARROW}\n%y = arith.extui %k : {MASK} to {WIDE}",
    "widened and compared": f"{HASH}\n%w = arith.extsi %h : {NARROW} to {WIDE}\n%k = arith.cmpi slt, %w, %ms : {WIDE}\n"
    f"%y = arith.extui %k : {MASK} to {WIDE}",
    "carried": f"""{HASH}
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %five = arith.constant 5 : i32
  %none = arith.constant dense<0> : {WIDE}
  %last, %y = scf.for %t = %zero to %five step %one iter_args(%a = %h, %s = %none) -> ({NARROW}, {WIDE}) : i32 {{
    %next = arith.muli %a, %c : {NARROW}
    %w = arith.extsi %next : {NARROW} to {WIDE}
    %sum = arith.addi %s, %w : {WIDE}
    scf.yield %next, %sum : {NARROW}, {WIDE}
  }}""",
    "a table's place": f"{HASH}\n%w = arith.extsi %h : {NARROW} to {WIDE}\n%k = arith.remsi %w, %ms : {WIDE}\n"
    f"%b0 = arith.addi %k, %ms : {WIDE}\n%b1 = arith.remsi %b0, %ms : {WIDE}\n"
    f"%tp = tt.splat %table : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>\n"
    f"%tq = tt.addptr %tp, %b1 : tensor<64x!tt.ptr<i64>>, {WIDE}\n%y = tt.load %tq : tensor<64x!tt.ptr<i64>>",
}


def text(body: str) -> str:
    return f"""
tt.func public @f(%o: !tt.ptr<i64>, %table: !tt.ptr<i64>, %n: i32, %m: i64) {{
  %r = tt.make_range {{start = 0 : i32, end = 64 : i32}} : {NARROW}
  %c = arith.constant dense<1103515245> : {NARROW}
  %pid = tt.get_program_id x : i32
  %c64 = arith.constant 64 : i32
  %b = arith.muli %pid, %c64 : i32
  %bs = tt.splat %b : i32 -> {NARROW}
  %i = arith.addi %bs, %r : {NARROW}
  %ns = tt.splat %n : i32 -> {NARROW}
  %ms = tt.splat %m : i64 -> {WIDE}
  {body}
  %p = tt.splat %o : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>
  %q = tt.addptr %p, %i : tensor<64x!tt.ptr<i64>>, {NARROW}
  tt.store %q, %y : tensor<64x!tt.ptr<i64>>
  tt.return
}}
"""


@pytest.mark.one_in(9)
@pytest.mark.parametrize("what", BODIES)
def test_numbers_that_wrap(agree, what: str) -> None:
    table = np.arange(1009, dtype=np.int64) * 7
    for n in (3, 2**30 + 7, -5):
        found = agree(text(BODIES[what]), 3, np.zeros(192, np.int64), table, n, 1009)[0]
        simulated = np.zeros(192, np.int64)
        kernel = jn.kernel.from_ttir(text(BODIES[what]))
        kernel.launch((3,), simulated, table.copy(), n, 1009, device="ptxsim", target="sm_80")
        np.testing.assert_array_equal(simulated, found)
        if what == "a remainder":
            with np.errstate(over="ignore"):
                hashed = (np.arange(192, dtype=np.int32) * np.int32(1103515245)).astype(np.int64)
            np.testing.assert_array_equal(found, np.fmod(hashed, 1009))


def test_widened_offsets_that_pass_the_end_stop_the_launch() -> None:
    body = f"%h = arith.muli %i, %ns : {NARROW}\n%w = arith.extsi %h : {NARROW} to {WIDE}\n" \
        "%tp = tt.splat %table : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>\n" \
        f"%tq = tt.addptr %tp, %w : tensor<64x!tt.ptr<i64>>, {WIDE}\n%y = tt.load %tq : tensor<64x!tt.ptr<i64>>"  # fmt: skip
    kernel = jn.kernel.from_ttir(text(body))
    out, table = np.zeros(64, np.int64), np.arange(64, dtype=np.int64)
    kernel.launch((1,), out, table, 1, 1)
    np.testing.assert_array_equal(out, table)
    with pytest.raises(AccessError, match=r"32-bit offsets that arith\.extsi uses"):
        kernel.launch((1,), out, table, 2**30, 1)
