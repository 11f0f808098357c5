"""Integer divisions by zero and shifts by the width or more: findings where their lanes are used, in both sanitizers."""

from __future__ import annotations

import functools
from typing import Any

import joinery as jn
import numpy as np
import pytest

INT = "tensor<8xi32>"
PTR = "tensor<8x!tt.ptr<i32>>"


@functools.cache
def kernel(body: str) -> jn.kernel.Kernel:
    """Stores %v to %o; %x and %y are loaded in the lanes that %m has: the first %n."""
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @f(%px: !tt.ptr<i32>, %py: !tt.ptr<i32>, %po: !tt.ptr<i32>, %n: i32) {{
    %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : {INT}
    %zero = arith.constant dense<0> : {INT}
    %limit = tt.splat %n : i32 -> {INT}
    %m = arith.cmpi slt, %r, %limit : {INT}
    %bx = tt.splat %px : !tt.ptr<i32> -> {PTR}
    %ax = tt.addptr %bx, %r : {PTR}, {INT}
    %x = tt.load %ax, %m, %zero : {PTR}
    %by = tt.splat %py : !tt.ptr<i32> -> {PTR}
    %ay = tt.addptr %by, %r : {PTR}, {INT}
    %y = tt.load %ay, %m, %zero : {PTR}
    %bo = tt.splat %po : !tt.ptr<i32> -> {PTR}
    %o = tt.addptr %bo, %r : {PTR}, {INT}
    {body}
    tt.return
  }}
}}
""", cache=False)


def found(body: str, y: Any, n: int = 8) -> tuple[Any, ...]:
    """The findings of the interpreted sanitizer, with which the native one has to agree."""
    x = np.arange(1, 9, dtype=np.int32)
    given = [x, np.array(y, np.int32), np.zeros(8, np.int32), n]
    function = kernel(body)
    assert function.sanitize(1, *given).findings == (), "joinery's own integers have results everywhere"
    report = function.sanitize(1, *given, undefined_arithmetic=True)
    given[2] = np.zeros(8, np.int32)
    assert function.sanitizer_obstacle is None
    assert function._first_look(1, given, {}, False, True).is_clean == (not report.findings), report
    return report.findings


def stored(operation: str, mask: str = "") -> str:
    return f"%v = {operation} %x, %y : {INT}\ntt.store %o, %v{mask} : {PTR}"


ODD = [1, 2, 0, 4, 5, 0, 7, 8]


@pytest.mark.parametrize("name", ["divsi", "divui", "remsi", "remui", "ceildivsi", "floordivsi"])
def test_a_quotient_by_zero_that_is_stored(name: str) -> None:
    (one,) = found(stored(f"arith.{name}"), ODD)
    assert (one.kind, one.lane, one.count) == ("division-by-zero", (2,), 2)
    assert "divides by zero" in one.message
    assert found(stored(f"arith.{name}"), [3] * 8) == ()


@pytest.mark.parametrize("name", ["shli", "shrsi", "shrui"])
def test_a_shift_by_the_width_that_is_stored(name: str) -> None:
    (one,) = found(stored(f"arith.{name}"), [31, 0, 32, 1, -1, 5, 40, 31])
    assert (one.kind, one.lane, one.count) == ("shift-exponent", (2,), 3)
    assert found(stored(f"arith.{name}"), [31, 0] * 4) == ()


def test_lanes_that_nobody_uses_are_no_mistake() -> None:
    assert found(stored("arith.divsi", ", %m"), [3] * 8, n=5) == (), "lanes that the mask turns off divide 0 by 0"
    chosen = f"""
    %q = arith.remsi %x, %y : {INT}
    %fine = arith.cmpi ne, %y, %zero : {INT}
    %v = arith.select %fine, %q, %zero : tensor<8xi1>, {INT}
    tt.store %o, %v : {PTR}"""
    assert found(chosen, ODD) == ()
    unused = f"%q = arith.divsi %x, %y : {INT}\ntt.store %o, %x : {PTR}"
    assert found(unused, ODD) == ()


def test_a_mask_that_was_divided_by_zero() -> None:
    body = f"""
    %q = arith.divsi %x, %y : {INT}
    %c = arith.cmpi sgt, %q, %zero : {INT}
    tt.store %o, %x, %c : {PTR}"""
    (one,) = found(body, ODD)
    assert (one.kind, one.lane) == ("division-by-zero", (2,))
    assert "the mask is undefined" in one.message


def test_a_number_that_all_lanes_are_divided_by() -> None:
    body = f"""
    %0 = tt.splat %n : i32 -> {INT}
    %v = arith.divsi %x, %0 : {INT}
    tt.store %o, %v : {PTR}"""
    (one,) = found(body, ODD, n=0)
    assert (one.kind, one.count) == ("division-by-zero", 8)
    assert found(body, ODD, n=3) == ()


def test_a_division_in_a_region() -> None:
    body = f"""
    %s = "tt.reduce"(%y) <{{axis = 0 : i32}}> ({{
    ^bb0(%a: i32, %b: i32):
      %q = arith.divsi %a, %b : i32
      tt.reduce.return %q : i32
    }}) : ({INT}) -> i32
    tt.store %po, %s : !tt.ptr<i32>"""
    function = kernel(body)
    given = [np.ones(8, np.int32), np.array(ODD, np.int32), np.zeros(8, np.int32), 8]
    kinds = [each.kind for each in function.sanitize(1, *given, undefined_arithmetic=True, notes=False).findings]
    assert kinds == ["division-by-zero"]


def test_an_argument_that_no_access_reaches_and_nothing_has_written() -> None:
    body = f"tt.store %o, %x : {PTR}"
    x, o = np.arange(8, dtype=np.int32), np.zeros(8, np.int32)
    spare = np.zeros(8, np.int32)
    text = kernel(body).text().replace("%py: !tt.ptr<i32>", "%py: !tt.ptr<i32>, %more: !tt.ptr<i32>")
    blank = {int(spare.ctypes.data): np.ones(32, np.bool_), int(o.ctypes.data): np.ones(32, np.bool_)}
    unused = jn.kernel.from_ttir(text, cache=False)
    assert unused.sanitize(1, x, x.copy(), spare, o, 8, unwritten=blank, notes=False).findings == ()
    assert (o == x).all()
    assert not blank[int(o.ctypes.data)].any()
    assert blank[int(spare.ctypes.data)].all(), "nothing wrote there"
