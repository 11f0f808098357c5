"""Expressions of positions and scalars that a loop does not change: computed before it, in the layout that it wants."""

from __future__ import annotations

import re

import joinery as jn
import numpy as np
import pytest

from .....support.kernels.blocks import check

SLOW = re.compile(r"\b(?:div|rem)\.\w+|\bsqrt\.")
BLOCK, POINTERS = "tensor<32x16xf32>", "tensor<32x16x!tt.ptr<f32>>"


def inner_loops(ptx: str) -> list[str]:
    """The text of loops that load and have no such loop inside: from a label to the last branch back to it."""
    lines = ptx.splitlines()
    spans = []
    for first, line in enumerate(lines):
        label = re.match(r"(\$L__BB\d+_\d+):", line)
        last = max((i for i in range(first, len(lines)) if label and re.search(rf"bra.*\{label[1]};", lines[i])), default=None)
        if last is not None and any("ld.global" in each for each in lines[first:last]):
            spans.append((first, last))
    inner = [(a, b) for a, b in spans if not any((c, d) != (a, b) and a <= c and d <= b for c, d in spans)]
    return ["\n".join(lines[a : b + 1]) for a, b in inner]


def kernel(value: str, around: str) -> jn.kernel.Kernel:
    """value: makes %slow, numbers of rows, from rows 0 to 31 in %r and the number %d. around: has LOAD, which reads the rows
    that %slow says, as %x."""
    load = f"""
    %e = tt.expand_dims %slow {{axis = 1 : i32}} : tensor<32xi32> -> tensor<32x1xi32>
    %b = tt.broadcast %e : tensor<32x1xi32> -> tensor<32x16xi32>
    %w = arith.muli %b, %width : tensor<32x16xi32>
    %at = arith.addi %w, %columns : tensor<32x16xi32>
    %ptr = tt.addptr %from, %at : {POINTERS}, tensor<32x16xi32>
    %x = tt.load %ptr : {POINTERS}"""
    return jn.kernel.from_ttir(f"""
tt.func public @k(%p: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %o: !tt.ptr<f32>, %n: i32, %d: i32) {{
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %sum0 = arith.constant dense<0.0> : {BLOCK}
  %width = arith.constant dense<16> : tensor<32x16xi32>
  %r = tt.make_range {{start = 0 : i32, end = 32 : i32}} : tensor<32xi32>
  %re = tt.expand_dims %r {{axis = 1 : i32}} : tensor<32xi32> -> tensor<32x1xi32>
  %rb = tt.broadcast %re : tensor<32x1xi32> -> tensor<32x16xi32>
  %rw = arith.muli %rb, %width : tensor<32x16xi32>
  %c = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
  %ce = tt.expand_dims %c {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
  %columns = tt.broadcast %ce : tensor<1x16xi32> -> tensor<32x16xi32>
  %own = arith.addi %rw, %columns : tensor<32x16xi32>
  %from = tt.splat %p : !tt.ptr<f32> -> {POINTERS}
  %ds = tt.splat %d : i32 -> tensor<32xi32>
  {value}
  {around.replace("LOAD", load)}
  %os = tt.splat %o : !tt.ptr<f32> -> {POINTERS}
  %op = tt.addptr %os, %own : {POINTERS}, tensor<32x16xi32>
  tt.store %op, %sum : {POINTERS}
  tt.return
}}
""")


REMAINDER = "%slow = arith.remsi %r, %ds : tensor<32xi32>"
QUOTIENT = """%rf = arith.sitofp %r : tensor<32xi32> to tensor<32xf32>
  %df = arith.sitofp %ds : tensor<32xi32> to tensor<32xf32>
  %qf = arith.divf %rf, %df : tensor<32xf32>
  %slow = arith.fptosi %qf : tensor<32xf32> to tensor<32xi32>"""
FOR = f"""%sum = scf.for %i = %zero to %n step %one iter_args(%acc = %sum0) -> ({BLOCK}) : i32 {{
    LOAD
    %next = arith.addf %acc, %x : {BLOCK}
    scf.yield %next : {BLOCK}
  }}"""
INNER = f"""%inner = scf.for %i = %zero to %n step %one iter_args(%acc = %outer) -> ({BLOCK}) : i32 {{
      LOAD
      %next = arith.addf %acc, %x : {BLOCK}
      scf.yield %next : {BLOCK}
    }}
    scf.yield %inner : {BLOCK}"""
NESTED = f"""%sum = scf.for %j = %zero to %n step %one iter_args(%outer = %sum0) -> ({BLOCK}) : i32 {{
    {INNER}
  }}"""
CHANGING = f"""%sum = scf.for %j = %one to %n step %one iter_args(%outer = %sum0) -> ({BLOCK}) : i32 {{
    %js = tt.splat %j : i32 -> tensor<32xi32>
    %slow = arith.remsi %r, %js : tensor<32xi32>
    {INNER}
  }}"""
WHILE = f"""%sum, %last = scf.while (%acc = %sum0, %i = %zero) : ({BLOCK}, i32) -> ({BLOCK}, i32) {{
    %more = arith.cmpi slt, %i, %n : i32
    scf.condition(%more) %acc, %i : {BLOCK}, i32
  }} do {{
  ^bb0(%acc: {BLOCK}, %i: i32):
    LOAD
    %next = arith.addf %acc, %x : {BLOCK}
    %following = arith.addi %i, %one : i32
    scf.yield %next, %following : {BLOCK}, i32
  }}"""
SOMETIMES = f"""%sum = scf.for %i = %zero to %n step %one iter_args(%acc = %sum0) -> ({BLOCK}) : i32 {{
    %odd = arith.andi %i, %one : i32
    %is_odd = arith.cmpi eq, %odd, %one : i32
    %next = scf.if %is_odd -> ({BLOCK}) {{
      LOAD
      %more = arith.addf %acc, %x : {BLOCK}
      scf.yield %more : {BLOCK}
    }} else {{
      scf.yield %acc : {BLOCK}
    }}
    scf.yield %next : {BLOCK}
  }}"""
LATER = f"""{FOR.replace("%sum =", "%early =")}
  %sum = scf.for %i = %zero to %n step %one iter_args(%acc = %early) -> ({BLOCK}) : i32 {{
    LOAD
    %next = arith.addf %acc, %x : {BLOCK}
    scf.yield %next : {BLOCK}
  }}"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("turns", [0, 3])
@pytest.mark.parametrize(
    "around", [FOR, NESTED, WHILE, SOMETIMES, LATER], ids=["for", "nested", "while", "sometimes", "two loops"]
)
@pytest.mark.parametrize("value", [REMAINDER, QUOTIENT], ids=["remainder", "quotient"])
def test_slow_expressions_are_computed_before_a_loop(value: str, around: str, turns: int) -> None:
    """Quotients of many numbers by one branch, so what comes before the loop may be several blocks."""
    k = kernel(value, around)
    x = np.random.default_rng(1).standard_normal((32, 16)).astype(np.float32)
    row = np.arange(32) % 5 if value is REMAINDER else np.arange(32) // 5
    times = {FOR: turns, NESTED: turns * turns, WHILE: turns, SOMETIMES: turns // 2, LATER: 2 * turns}[around]
    expected = np.zeros((32, 16), np.float32)
    for _ in range(times):
        expected += x[row]
    for target in ("sm_80", "sm_90a"):
        (_, out, *_) = check(k, x, np.zeros((32, 16), np.float32), turns, 5, target=target)
        np.testing.assert_array_equal(out, expected)
    found = inner_loops(k.ptx("sm_80"))
    assert len(found) == (2 if around is LATER else 1)
    assert not any(SLOW.search(each) for each in found)


def test_what_the_outer_loop_changes_stays_in_it() -> None:
    k = kernel("", CHANGING)
    x = np.random.default_rng(2).standard_normal((32, 16)).astype(np.float32)
    (_, out, *_) = check(k, x, np.zeros((32, 16), np.float32), 4, 5)
    expected = np.zeros((32, 16), np.float32)
    for j in range(1, 4):
        for _ in range(4):
            expected += x[np.arange(32) % j]
    np.testing.assert_array_equal(out, expected)
    ptx = k.ptx("sm_80")
    assert SLOW.search(ptx)
    assert not any(SLOW.search(each) for each in inner_loops(ptx))


def test_divisors_of_zero_before_a_loop_that_does_not_run() -> None:
    k = kernel(REMAINDER, FOR)
    (_, out, *_) = check(k, np.ones((32, 16), np.float32), np.full((32, 16), 7, np.float32), 0, 0)
    assert (out == 0).all()


def test_as_much_is_kept_as_there_are_registers_for() -> None:
    """A thread has 4 of the 512 elements: their places are found before the loop, by shifts and a sum. Of 32768 elements it has
    256, whose places are found again in every turn, but for the remainders."""
    small = kernel(REMAINDER, FOR)
    assert not re.search(r"\b(?:shl|mad|mul|rem)\.", *inner_loops(small.ptx("sm_80")))
    wide = jn.kernel.from_ttir(small.text().replace("32x", "2048x").replace("<32x", "<2048x").replace("end = 32", "end = 2048"))
    (loop,) = inner_loops(wide.ptx("sm_80"))
    assert re.search(r"\b(?:shl|mad|mul)\.", loop)
    assert "rem." not in loop
