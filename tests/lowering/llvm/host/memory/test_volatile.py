"""Volatile loads on the host: the values of the interpreter, each read once, where it stands."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

N = 32
TEXT = """
module { tt.func public @k(%p: !tt.ptr<T>, %o: !tt.ptr<T>, %n: i32) {
  %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
  %ns = tt.splat %n : i32 -> tensor<32xi32>
  %m = arith.cmpi slt, %r, %ns : tensor<32xi32>
  %fill = arith.constant dense<FILL> : tensor<32xT>
  %ps = tt.splat %p : !tt.ptr<T> -> tensor<32x!tt.ptr<T>>
  %pp = tt.addptr %ps, %r : tensor<32x!tt.ptr<T>>, tensor<32xi32>
  %x = tt.load %pp, %m, %fill {isVolatile = true} : tensor<32x!tt.ptr<T>>
  %s = tt.load %p {isVolatile = true} : !tt.ptr<T>
  tt.store %pp, %fill : tensor<32x!tt.ptr<T>>
  %os = tt.splat %o : !tt.ptr<T> -> tensor<32x!tt.ptr<T>>
  %op = tt.addptr %os, %r : tensor<32x!tt.ptr<T>>, tensor<32xi32>
  tt.store %op, %x : tensor<32x!tt.ptr<T>>
  %last = arith.constant 32 : i32
  %q = tt.addptr %o, %last : !tt.ptr<T>, i32
  tt.store %q, %s : !tt.ptr<T>
  tt.return
} }
"""


@pytest.mark.parametrize(
    ("type_", "fill", "dtype"),
    [("i8", 7, np.int8), ("i64", -7, np.int64), ("f16", 7.0, np.float16), ("f64", 0.5, np.float64), ("i1", True, np.bool_)],
)
@pytest.mark.parametrize("count", [0, 20, N])
def test_masks_and_types(type_: str, fill: float, dtype: Any, count: int) -> None:
    text = TEXT.replace("T>", f"{type_}>").replace("xT", f"x{type_}").replace("FILL", str(fill).lower())
    k = jn.kernel.from_ttir(text)
    given, other = np.arange(1, N + 1).astype(dtype), np.array(fill, dtype)
    for how in ("interpret", "launch"):
        p, o = given.copy(), np.zeros(N + 1, dtype)
        getattr(k, how)(1, p, o, count)
        np.testing.assert_array_equal(p, np.full(N, other))
        np.testing.assert_array_equal(o[:N], np.where(np.arange(N) < count, given, other))
        assert o[N] == given[0]


TABLE = """
module { tt.func public @k(%table: !tt.ptr<!tt.ptr<i32>>, %o: !tt.ptr<i32>) {
  %r = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
  %ts = tt.splat %table : !tt.ptr<!tt.ptr<i32>> -> tensor<2x!tt.ptr<!tt.ptr<i32>>>
  %tp = tt.addptr %ts, %r : tensor<2x!tt.ptr<!tt.ptr<i32>>>, tensor<2xi32>
  %a = tt.load %tp {isVolatile = true} : tensor<2x!tt.ptr<!tt.ptr<i32>>>
  %x = tt.load %a {isVolatile = true} : tensor<2x!tt.ptr<i32>>
  %b = tt.load %table {isVolatile = true} : !tt.ptr<!tt.ptr<i32>>
  %y = tt.load %b : !tt.ptr<i32>
  %ys = tt.splat %y : i32 -> tensor<2xi32>
  %z = arith.addi %x, %ys : tensor<2xi32>
  %os = tt.splat %o : !tt.ptr<i32> -> tensor<2x!tt.ptr<i32>>
  %op = tt.addptr %os, %r : tensor<2x!tt.ptr<i32>>, tensor<2xi32>
  tt.store %op, %z : tensor<2x!tt.ptr<i32>>
  tt.return
} }
"""


def test_pointers_are_read_too() -> None:
    first, second = np.array([100], np.int32), np.array([7], np.int32)
    for how in ("interpret", "launch"):
        found = np.zeros(2, np.int32)
        getattr(jn.kernel.from_ttir(TABLE), how)(1, jn.PointerTable([first, second]), found)
        assert found.tolist() == [200, 107]


def test_a_block_is_read_once_however_often_it_is_used() -> None:
    text = TEXT.replace("T>", "i32>").replace("xT", "xi32").replace("FILL", "7")
    reads = jn.kernel.from_ttir(text.replace("  tt.store %q", "  tt.store %pp, %x : tensor<32x!tt.ptr<i32>>\n  tt.store %q"))
    ir = reads.llvm_ir("host")
    assert ir.count("load volatile i32") == 2
