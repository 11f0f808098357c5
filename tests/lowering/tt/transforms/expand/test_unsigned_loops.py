"""Loops that compare their counter with the end as unsigned numbers, beside Python's ranges, and sums of type `index`."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

LOOP = """tt.func public @k(%x: !tt.ptr<TYPE>, %low: TYPE, %n: TYPE, %step: TYPE) {
  %c1 = arith.constant 1 : i32
  %r = scf.for %i = %low to %n step %step iter_args(%a = %c1) -> (i32) : TYPE {
    %p = tt.addptr %x, %a : !tt.ptr<TYPE>, i32
    tt.store %p, %i : !tt.ptr<TYPE>
    %b = arith.addi %a, %c1 : i32
    scf.yield %b : i32
  } {unsignedCmp}
  tt.return
}"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("bits", [8, 32, 64])
@pytest.mark.parametrize("run", ["interpret", "sanitize", "cpu", "ptxsim"])
def test_unsigned_loops(run: str, bits: int) -> None:
    kernel, dtype = jn.kernel.from_ttir(LOOP.replace("TYPE", f"i{bits}")), np.dtype(f"int{bits}")
    least, most, over = np.iinfo(dtype).min, np.iinfo(dtype).max, 1 << bits
    for low, high, step in (
        (-10, 3, 1), (-10, -3, 2), (3, -1, 1 << (bits - 3)), (0, 5, 1), (5, 0, 1), (most - 2, least + 3, 1), (-3, -1, 1),
        (-9, -1, most), (0, -1, least), (5, -1, least + 1), (-1, -1, 1), (7, -1, -3),
    ):  # fmt: skip
        counted = range(low % over, high % over, step % over)
        numbers = [number - over if number >= over // 2 else number for number in counted]
        x = np.zeros(20, dtype)
        args: tuple[Any, ...] = ((1,), x, low, high, step)
        if run in ("interpret", "sanitize"):
            getattr(kernel, run)(*args)
        else:
            kernel.launch(*args, device=run)
        assert x.tolist() == [0, *numbers, *[0] * (19 - len(numbers))], (low, high, step)


@pytest.mark.parametrize("run", ["interpret", "sanitize", "cpu", "ptxsim"])
def test_unsigned_loops_with_steps_that_are_known(run: str) -> None:
    """Of 128 and more, which are no positive signed numbers, and of one bit."""
    cases = ("i8", 0, -1, -128, 2), ("i8", 5, -1, -127, 2), ("i8", 0, -1, 100, 3), ("i1", 0, -1, -1, 1)
    for type_, low, high, step, times in cases:
        kernel = jn.kernel.from_ttir(f"""tt.func public @k(%x: !tt.ptr<i32>) {{
          %low = arith.constant {low} : {type_}
          %high = arith.constant {high} : {type_}
          %step = arith.constant {step} : {type_}
          %one = arith.constant 1 : i32
          %zero = arith.constant 0 : i32
          %r = scf.for %i = %low to %high step %step iter_args(%a = %zero) -> (i32) : {type_} {{
            %b = arith.addi %a, %one : i32
            scf.yield %b : i32
          }} {{unsignedCmp}}
          tt.store %x, %r : !tt.ptr<i32>
          tt.return
        }}""")
        x = np.zeros(1, np.int32)
        if run in ("interpret", "sanitize"):
            getattr(kernel, run)((1,), x)
        else:
            kernel.launch((1,), x, device=run)
        assert x[0] == times, (type_, low, high, step)


def test_sums_of_type_index_in_the_sanitizer() -> None:
    kernel = jn.kernel.from_ttir("""tt.func public @k(%x: !tt.ptr<i32>, %n: i64) {
      %zero = arith.constant 0 : index
      %one = arith.constant 1 : index
      %seven = arith.constant 7 : i32
      %end = arith.index_cast %n : i64 to index
      %r = scf.for %i = %zero to %end step %one iter_args(%a = %zero) -> (index) {
        %k = arith.index_cast %a : index to i64
        %p = tt.addptr %x, %k : !tt.ptr<i32>, i64
        tt.store %p, %seven : !tt.ptr<i32>
        %b = arith.addi %a, %one : index
        scf.yield %b : index
      }
      tt.return
    }""")
    x = np.zeros(5, np.int32)
    kernel.sanitize((1,), x, 3)
    assert x.tolist() == [7, 7, 7, 0, 0]
    assert not kernel.sanitize((1,), x, 5).findings
    assert [found.kind for found in kernel.sanitize((1,), x, 6).findings] == ["out-of-bounds"]
