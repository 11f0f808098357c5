"""Which loads of a loop are marked to be done ahead of the products that read them, and who takes notice of the mark."""

from __future__ import annotations

import re

import joinery as jn
import numpy as np
import pytest

KERNEL = """
tt.func public @product(%a: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %b: !tt.ptr<f16> {tt.divisibility = 16 : i32},
                        %o: !tt.ptr<f32>, %indices: !tt.ptr<i32>, %turns: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : tensor<32x32xf16>
  %none = arith.constant dense<0.0> : tensor<32x32xf32>
  %step = arith.constant dense<1024> : tensor<32x32xi32>
  %most = arith.constant dense<30> : tensor<32x32xi32>
  %width = arith.constant dense<32> : tensor<32x1xi32>
  %r = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32>
  %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32>
  %starts = arith.muli %rows, %width : tensor<32x1xi32>
  %i0 = tt.broadcast %starts : tensor<32x1xi32> -> tensor<32x32xi32>
  %columns = tt.expand_dims %r {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32>
  %i1 = tt.broadcast %columns : tensor<1x32xi32> -> tensor<32x32xi32>
  %i = arith.addi %i0, %i1 : tensor<32x32xi32>
  %as = tt.splat %a : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>>
  %bs = tt.splat %b : !tt.ptr<f16> -> tensor<32x32x!tt.ptr<f16>>
  %os = tt.splat %o : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>>
  %op = tt.addptr %os, %i : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32>
  %b0 = tt.addptr %bs, %i : tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>
  %sum, %b1 = scf.for %t = %c0 to %turns step %c1 iter_args(%acc = %none, %bp = %b0)
      -> (tensor<32x32xf32>, tensor<32x32x!tt.ptr<f16>>) : i32 {
    %index = arith.addi %t, %c0 : i32
    %k = tt.splat %index : i32 -> tensor<32x32xi32>
    %kd = arith.muli %k, %step : tensor<32x32xi32>
    %ai = arith.addi %kd, %i : tensor<32x32xi32>
    %ap = tt.addptr %as, %ai : tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>
    %mask = arith.cmpi slt, %k, %most : tensor<32x32xi32>
    %x = tt.load %ap, %mask, %zero : tensor<32x32x!tt.ptr<f16>>
    %y = tt.load %bp : tensor<32x32x!tt.ptr<f16>>
    %next = tt.dot %x, %y, %acc : tensor<32x32xf16> * tensor<32x32xf16> -> tensor<32x32xf32>
    %then = tt.addptr %bp, %step : tensor<32x32x!tt.ptr<f16>>, tensor<32x32xi32>
    scf.yield %next, %then : tensor<32x32xf32>, tensor<32x32x!tt.ptr<f16>>
  }
  tt.store %op, %sum : tensor<32x32x!tt.ptr<f32>>
  tt.return
}
"""
Change = tuple[str, str]
LOAD_X = "%x = tt.load %ap, %mask, %zero :"
LOAD_Y = "%y = tt.load %bp :"
DOT = "%next = tt.dot %x, %y, %acc : tensor<32x32xf16> * tensor<32x32xf16> -> tensor<32x32xf32>"
MARK = "joinery.pipelined"


def changed(*changes: Change) -> str:
    text = KERNEL
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def marked(text: str) -> list[bool]:
    """Of each load of f16 blocks, in order, after the pass."""
    after = jn.kernel.from_ttir(text).ttir_after("mark-pipelined-loads", "sm_80")
    return [MARK in line for line in after.splitlines() if "= tt.load" in line and "x!tt.ptr<f16>" in line]


def launched(text: str, **options: object) -> np.ndarray:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, (40, 32, 32)).astype(np.float16) for _ in range(2))
    out = np.zeros((32, 32), np.float32)
    jn.kernel.from_ttir(text).launch((1,), a, b, out, np.arange(40, dtype=np.int32), 33, **options)
    expected = np.einsum("tik,tkj->ij", a[:30].astype(np.float32), b[:30].astype(np.float32))
    np.testing.assert_array_equal(out, expected)
    return out


def test_loads_that_only_products_read_are_marked() -> None:
    assert marked(KERNEL) == [True, True]
    assert marked(changed((DOT, "%u = tt.trans %x {order = array<i32: 1, 0>} : tensor<32x32xf16> -> tensor<32x32xf16>\n"
                                + DOT.replace("%x", "%u")))) == [True, True]  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([(DOT, f"%more = arith.addf %x, %x : tensor<32x32xf16>\n{DOT.replace('%x', '%more')}")], [False, True]),
        ([(DOT, f"%wide = arith.extf %y : tensor<32x32xf16> to tensor<32x32xf32>\n{DOT.replace('%acc', '%wide')}")],
         [True, False]),  # a summand too
        ([("arith.constant dense<0.0> : tensor<32x32xf16>", "arith.constant dense<1.0> : tensor<32x32xf16>")], [False, True]),
        ([("arith.constant dense<0.0> : tensor<32x32xf16>", "arith.constant dense<-0.0> : tensor<32x32xf16>")], [False, True]),
        ([(LOAD_Y, "%y = tt.load %bp {isVolatile = true} :")], [True, False]),
        ([("%index = arith.addi %t, %c0 : i32",
           "%ip = tt.addptr %indices, %t : !tt.ptr<i32>, i32\n%index = tt.load %ip : !tt.ptr<i32>")], [False, True]),
        ([(DOT, f"{DOT}\ntt.store %op, %next : tensor<32x32x!tt.ptr<f32>>")], [False, False]),
        ([(DOT, f"{DOT}\n%was = tt.atomic_rmw add, relaxed, gpu, %indices, %c1 : (!tt.ptr<i32>, i32) -> i32")], [False, False]),
        ([(DOT, "%next = scf.for %u = %c0 to %c1 step %c1 iter_args(%inner = %acc) -> (tensor<32x32xf32>) : i32 {\n"
                f"{DOT.replace('%next', '%nested').replace('%acc', '%inner')}\n"
                "scf.yield %nested : tensor<32x32xf32>\n}")], [False, False]),  # products of another loop's turns
    ],
)  # fmt: skip
def test_other_loads_are_not(changes: list[Change], expected: list[bool]) -> None:
    assert marked(changed(*changes)) == expected


def test_loads_outside_of_loops_are_not() -> None:
    body = re.search(r"\{\n    %index.*?(?=    scf\.yield)", KERNEL, re.DOTALL)
    assert body is not None
    head = KERNEL[: KERNEL.index("  %sum, %b1 = scf.for")]
    straight = body[0][1:].replace("%acc", "%none").replace("%bp", "%b0").replace("%t,", "%c1,")
    assert marked(head + straight + "  tt.store %op, %next : tensor<32x32x!tt.ptr<f32>>\n  tt.return\n}\n") == [False, False]


def test_the_text_after_the_pass_can_be_read_again() -> None:
    after = jn.kernel.from_ttir(KERNEL).ttir_after("mark-pipelined-loads", "sm_80")
    assert jn.kernel.from_ttir(after).ttir_after("mark-pipelined-loads", "sm_80") == after
    launched(after, device="cpu")


def test_marks_of_a_text_count_for_nothing() -> None:
    """Ones that are wrong would have products read what was not loaded yet."""
    indirect = ("%index = arith.addi %t, %c0 : i32",
                "%ip = tt.addptr %indices, %t : !tt.ptr<i32>, i32\n%index = tt.load %ip : !tt.ptr<i32>")  # fmt: skip
    plain, lying = changed(indirect), changed(indirect, (LOAD_X, f"{LOAD_X[:-2]} {{{MARK}}} :"))
    assert marked(lying) == [False, True]
    assert jn.kernel.from_ttir(lying).ptx("sm_80") == jn.kernel.from_ttir(plain).ptx("sm_80")
    launched(lying, device="ptxsim", target="sm_80", sanitize=True)


def test_gpus_take_notice_and_hosts_do_not() -> None:
    kernel = jn.kernel.from_ttir(KERNEL)
    host, gpu = kernel.llvm_ir("host"), kernel.ptx("sm_80")
    assert "cp.async" in gpu
    results = [launched(KERNEL, device="cpu"), launched(KERNEL, device="ptxsim", target="sm_80", sanitize=True)]
    assert kernel.llvm_ir("host", passes=f"{kernel.pipeline('host')},mark-pipelined-loads") == host
    assert kernel.ptx("sm_80", passes=kernel.pipeline("sm_80")) == gpu
    assert "cp.async" not in kernel.ptx("sm_80", passes=kernel.pipeline("sm_80").replace("mark-pipelined-loads,", ""))
    for result in results:
        np.testing.assert_array_equal(result, results[0])
