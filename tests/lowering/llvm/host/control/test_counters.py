"""Loops whose counter would pass the largest number of its type by its last step: they end, on every device."""

from __future__ import annotations

import functools

import joinery as jn
import numpy as np
import pytest

from .....support.tiers import each, pairs

MOST = 10
"""Turns of a loop, at most."""


def text(elem: str, bounds: dict[str, int | None]) -> str:
    """Writes the number of turns, the sum of the counter, and the counter of each turn. A bound is a constant, or None for a
    parameter."""
    constants = "".join(f"  %{name} = arith.constant {value} : {elem}\n" for name, value in bounds.items() if value is not None)
    low, high, step = (f"%{name}" if value is not None else f"%p_{name}" for name, value in bounds.items())
    widened = "%w = arith.extsi %i : i32 to i64" if elem == "i32" else "%w = arith.addi %i, %zero : i64"
    return f"""
tt.func public @f(%o: !tt.ptr<i64>, %p_low: {elem}, %p_high: {elem}, %p_step: {elem}) {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %two = arith.constant 2 : i64
{constants}  %r:2 = scf.for %i = {low} to {high} step {step} iter_args(%n = %zero, %sum = %zero) -> (i64, i64) : {elem} {{
    {widened}
    %m = arith.addi %n, %one : i64
    %t = arith.addi %sum, %w : i64
    %e = arith.addi %n, %two : i64
    %pe = tt.addptr %o, %e : !tt.ptr<i64>, i64
    tt.store %pe, %w : !tt.ptr<i64>
    scf.yield %m, %t : i64, i64
  }}
  %p = tt.addptr %o, %one : !tt.ptr<i64>, i64
  tt.store %o, %r#0 : !tt.ptr<i64>
  tt.store %p, %r#1 : !tt.ptr<i64>
  tt.return
}}
"""


WIDENED = """
tt.func public @f(%o: !tt.ptr<i64>, %low: ELEM, %high: ELEM, %step: ELEM) {
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %n = scf.for %i = %low to %high step %step iter_args(%n = %zero) -> (i64) : ELEM {
    %w = arith.extui %i : ELEM to i64
    %p = tt.addptr %o, %n : !tt.ptr<i64>, i64
    tt.store %p, %w : !tt.ptr<i64>
    %m = arith.addi %n, %one : i64
    scf.yield %m : i64
  }
  tt.return
}
"""


@pytest.mark.parametrize("device", ["interpret", "cpu", "ptxsim"])
@pytest.mark.parametrize("elem", ["i16", "i32"])
def test_negative_counters_are_widened_without_sign(elem: str, device: str) -> None:
    kernel = jn.kernel.from_ttir(WIDENED.replace("ELEM", elem))
    found = np.full(5, -1, np.int64)
    if device == "interpret":
        kernel.interpret((1,), found, -3, 2, 1)
    else:
        kernel.launch((1,), found, -3, 2, 1, device=device)
    np.testing.assert_array_equal(found, np.arange(-3, 2) % 2 ** int(elem[1:]))


def loops(top: int) -> list[tuple[int, int, int]]:
    half = (top + 1) // 2
    return [
        (0, top, half), (0, top, half + 1), (0, top, top), (-top - 1, top, half), (-5, top, half), (0, -3, half), (5, -3, 1),
        (3, 3, 7), (-top - 1, -top + 5, 3), (top - 1, top, top), (top - 3, top, 1), (0, 10, 3), (7, top, top // 7),
    ]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("bound", "target"),
    pairs([("i32", 2**31 - 1), ("i64", 2**63 - 1)], ["interpret", "cpu"])
    + each([("i32", 2**31 - 1), ("i64", 2**63 - 1)], ["sm_80", "sm_90a"]),
)
def test_counters_near_the_largest_number(bound: tuple[str, int], target: str) -> None:
    elem, top = bound
    read = functools.cache(jn.kernel.from_ttir)  # loops whose bounds are parameters are one kernel
    for constant in ((True, True, True), (False, False, False), (True, False, True)):
        for loop in loops(top):
            names = zip(("low", "high", "step"), loop, constant, strict=True)
            kernel = read(text(elem, {name: value if known else None for name, value, known in names}))
            turns = list(range(*loop))
            expected = np.zeros(2 + MOST, np.int64)
            expected[: 2 + len(turns)] = [len(turns), (sum(turns) + 2**63) % 2**64 - 2**63, *turns]
            found = np.zeros_like(expected)
            if target == "interpret":
                kernel.interpret((1,), found, *loop)
            elif target == "cpu":
                kernel.launch((1,), found, *loop)
            else:
                kernel.launch((1,), found, *loop, device="ptxsim", target=target)
            np.testing.assert_array_equal(found, expected, err_msg=f"{loop}, constant: {constant}")
