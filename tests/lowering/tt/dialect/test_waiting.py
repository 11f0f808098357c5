"""tt.atomic_poll and the operations about overlapping launches."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.printing import print_module

KERNEL = """tt.func public @f(%flag: !tt.ptr<{elem}>, %seen: !tt.ptr<i8>, %value: {elem}, %time: i64) {{
  %program = tt.get_program_id x : i32
  %matched = tt.atomic_poll {order}, gpu, %flag, %value{timeout} : !tt.ptr<{elem}>, {elem} -> i1
  %wide = arith.extui %matched : i1 to i8
  %place = tt.addptr %seen, %program : !tt.ptr<i8>, i32
  tt.store %place, %wide : !tt.ptr<i8>
  %true = arith.constant true
  %one = arith.constant 1 : {elem}
  %next = tt.atomic_rmw add, release, gpu, %flag, %one, %true : (!tt.ptr<{elem}>, {elem}, i1) -> {elem}
  tt.return
}}"""


@pytest.mark.parametrize("elem", ["i32", "i64"])
@pytest.mark.parametrize("order", ["acquire", "relaxed"])
def test_a_scalar_poll(elem: str, order: str) -> None:
    """Each program raises the flag: the third of six sees what it waits for, the others run into their timeout."""
    kernel = jn.kernel.from_ttir(KERNEL.format(elem=elem, order=order, timeout=" timeout %time"))
    flag, seen = np.array([-2], elem.replace("i", "int")), np.full(6, 9, np.uint8)
    kernel.interpret(6, flag, seen, 0, 1 << 62)
    assert seen.tolist() == [0, 0, 1, 0, 0, 0]
    assert flag[0] == 4


def test_a_poll_without_a_timeout() -> None:
    kernel = jn.kernel.from_ttir(KERNEL.format(elem="i32", order="acquire", timeout=""))
    flag, seen = np.array([5], np.int32), np.full(1, 9, np.uint8)
    kernel.interpret(1, flag, seen, 5, 0)
    assert seen[0] == 1
    with pytest.raises(jn.UnsupportedError, match=r"tt\.atomic_poll without a timeout .* fix: pass a timeout"):
        kernel.interpret(1, flag, seen, 5, 0)


def poll(operands: str, types: str, result: str = "i1") -> str:
    return f"tt.func public @f({PARAMETERS}) {{\n%m = tt.atomic_poll {operands} : {types} -> {result}\ntt.return\n}}"


PARAMETERS = (
    "%p: !tt.ptr<i32>, %v: i32, %t: i64, %q: !tt.ptr<f32>, %w: f32, %b: !tt.ptr<i8>, %c: i8, %h: !tt.ptr<i16>, %i: i16, "
    "%p8: tensor<2x4x!tt.ptr<i64>>, %v8: tensor<2x4xi64>"
)


def test_a_block_poll() -> None:
    text = """tt.func public @f(%p: !tt.ptr<i16>, %o: !tt.ptr<i8>, %t: i64) {
      %r = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
      %s = tt.splat %p : !tt.ptr<i16> -> tensor<8x!tt.ptr<i16>>
      %q = tt.addptr %s, %r : tensor<8x!tt.ptr<i16>>, tensor<8xi32>
      %v = arith.trunci %r : tensor<8xi32> to tensor<8xi16>
      %m = tt.atomic_poll acquire, sys, %q, %v timeout %t : tensor<8x!tt.ptr<i16>>, tensor<8xi16> -> tensor<8xi1>
      %w = arith.extui %m : tensor<8xi1> to tensor<8xi8>
      %u = tt.splat %o : !tt.ptr<i8> -> tensor<8x!tt.ptr<i8>>
      %a = tt.addptr %u, %r : tensor<8x!tt.ptr<i8>>, tensor<8xi32>
      tt.store %a, %w : tensor<8x!tt.ptr<i8>>
      tt.return
    }"""
    flags, seen = np.arange(8, dtype=np.int16), np.zeros(8, np.uint8)
    flags[[2, 5]] = -1
    jn.kernel.from_ttir(text).interpret(1, flags, seen, 100)
    np.testing.assert_array_equal(seen, flags >= 0)


@pytest.mark.parametrize(
    "operation",
    [
        ("acquire, gpu, %p, %v timeout %t", "!tt.ptr<i32>, i32", "i1"),
        ("relaxed, cta, %p, %v", "!tt.ptr<i32>, i32", "i1"),
        ("acquire, sys, %h, %i", "!tt.ptr<i16>, i16", "i1"),
        ("acquire, sys, %p8, %v8 timeout %t", "tensor<2x4x!tt.ptr<i64>>, tensor<2x4xi64>", "tensor<2x4xi1>"),
    ],
)
def test_text(operation) -> None:
    text = poll(*operation)
    printed = print_module(parse(text))
    assert text.splitlines()[1] in printed
    assert print_module(parse(printed)) == printed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (poll("release, gpu, %p, %v", "!tt.ptr<i32>, i32"), "order release; expected relaxed or acquire"),
        (poll("acq_rel, gpu, %p, %v", "!tt.ptr<i32>, i32"), "order acq_rel"),
        (poll("acquire, gpu, %v, %v", "i32, i32"), "ptr is i32, expected pointer elements"),
        (poll("acquire, gpu, %p, %t", "!tt.ptr<i32>, i64"), "expected is i64, expected i32"),
        (poll("acquire, gpu, %q, %w", "!tt.ptr<f32>, f32"), "expected is f32; polls read integers of 16, 32 or 64 bits"),
        (poll("acquire, gpu, %b, %c", "!tt.ptr<i8>, i8"), "expected is i8; polls read integers"),
        (poll("acquire, gpu, %p, %v", "!tt.ptr<i32>, i32", "i32"), "result is i32, expected i1"),
        (poll("acquire, gpu, %p8, %v8", "tensor<2x4x!tt.ptr<i64>>, tensor<2x4xi64>"), r"result is i1, expected tensor<2x4xi1>"),
        (poll("sequential, gpu, %p, %v", "!tt.ptr<i32>, i32"), "expected a sem: relaxed"),
        (poll("acquire, world, %p, %v", "!tt.ptr<i32>, i32"), "expected a scope: gpu"),
        (poll("acquire, gpu, %p", "!tt.ptr<i32>"), "expected a pointer and a value"),
        (poll("acquire, gpu, %p, %v, %t", "!tt.ptr<i32>, i32, i64"), "expected a pointer and a value"),
        (poll("acquire, gpu, %p, %v timeout %v", "!tt.ptr<i32>, i32"), "i64"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        jn.kernel.from_ttir(text)


def test_a_timeout_of_another_type() -> None:
    call = '%m = "tt.atomic_poll"(%p, %v, %v) <{sem = 2 : i32, scope = 1 : i32}> : (!tt.ptr<i32>, i32, i32) -> i1'
    with pytest.raises(jn.UserError, match="timeout is i32, expected i64"):
        jn.kernel.from_ttir(f"tt.func public @f({PARAMETERS}) {{\n{call}\ntt.return\n}}")


def test_launches_do_not_overlap() -> None:
    text = """tt.func public @f(%p: !tt.ptr<i32>) {
      tt.grid_dependency_wait
      %v = arith.constant 3 : i32
      tt.store %p, %v : !tt.ptr<i32>
      tt.grid_dependency_launch_dependents
      tt.return
    }"""
    kernel = jn.kernel.from_ttir(text)
    assert kernel.ttir.count("tt.grid_dependency_") == 2
    assert jn.kernel.from_ttir(kernel.ttir).ttir == kernel.ttir
    first, second = np.zeros(1, np.int32), np.zeros(1, np.int32)
    kernel.interpret(1, first)
    kernel.launch(1, second)
    assert first[0] == second[0] == 3
