"""Atomic operations on threads: who acts, what everybody gets, and what others see."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest

from .....support.kernels.blocks import (
    DTYPES,
    block_type,
    check,
    empty,
    kernel,
    simulate,
    simulate_with,
    some,
)


def update(shape, kind: str, elem: str, sem: str = "relaxed", scope: str = "gpu", masked: bool = False):
    """(values, indices, cells) → old values, where the index is not negative."""
    pointers, numbers, mask = (block_type(shape, each) for each in (f"!tt.ptr<{elem}>", "i32", "i1"))
    types = f"({pointers}, {block_type(shape, elem)}, {mask}) -> {block_type(shape, elem)}"
    spread = f"%b = tt.splat %p2 : !tt.ptr<{elem}> -> {pointers}" if shape else ""
    body = f"""{spread}
    %a = tt.addptr {"%b" if shape else "%p2"}, %x1 : {pointers}, {numbers}
    %true = arith.constant {f"dense<true> : {mask}" if shape else "true"}
    %zero = arith.constant {"dense<0>" if shape else "0"} : {numbers}
    %m = arith.cmpi sge, %x1, %zero : {numbers}
    %y0 = tt.atomic_rmw {kind}, {sem}, {scope}, %a, %x0, {"%m" if masked else "%true"} : {types}"""
    return kernel([(shape, elem), (shape, "i32"), (None, elem)], [(shape, elem)], body)


KINDS = ("and", "or", "xor", "add", "max", "min", "umax", "umin", "exch")


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("kind", "elem"),
    [*((kind, "i32") for kind in KINDS), *((kind, "i64") for kind in KINDS), *((kind, "i16") for kind in KINDS),
     *((kind, "i8") for kind in KINDS),
     *((kind, elem) for kind in ("fadd", "exch") for elem in ("f16", "bf16", "f32", "f64"))],
)  # fmt: skip
def test_every_kind(kind: str, elem: str) -> None:
    """Every cell once; the old values come back, and nothing (0) where the mask is false."""
    shape = (64,)
    where = np.random.default_rng(1).permutation(64).astype(np.int32)
    where[::5] = -1
    k = update(shape, kind, elem, masked=True)
    cells = some(shape, elem, 3)
    found = check(k, some(shape, elem, 2), where, cells, empty(shape, elem))
    np.testing.assert_array_equal(found[3], np.where(where >= 0, cells[where], 0))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
def test_bfloat16_takes_the_instruction_where_there_is_one(target: str) -> None:
    k = update((32,), "fadd", "bf16")
    assert ("atom.relaxed.gpu.global.add.noftz.bf16" in k.ptx(target)) == (target == "sm_90a")
    assert ("cas.b16" in k.ptx(target)) == (target == "sm_80")
    where = np.zeros(32, np.int32)
    cells = np.zeros(1, DTYPES["bf16"])
    simulate(k, np.ones(32, DTYPES["bf16"]), where, cells, empty((32,), "bf16"), target=target)
    found = simulate(k, np.ones(32, DTYPES["bf16"]), where, cells, empty((32,), "bf16"), target=target)
    assert float(found[2][0]) == 32
    assert sorted(float(old) for old in found[3]) == list(range(32))


@pytest.mark.one_in(54)
@pytest.mark.parametrize("shape", [(), (1,), (2,), (32,), (64,), (256,), (1024,), (1, 16), (4, 1, 8)])
@pytest.mark.parametrize("elem", ["i8", "i16", "i32", "i64", "f32"])
def test_an_element_acts_once_however_many_copies_there_are(shape: tuple[int, ...], elem: str) -> None:
    """All add 1 to one cell: the old values are 0, 1, 2, …, whoever comes first."""
    own = shape or (1,)
    k = update(shape, "fadd" if elem == "f32" else "add", elem, "acq_rel")
    count, programs = int(np.prod(own)), 2
    cells = np.zeros(2, DTYPES[elem])  # a byte is exchanged with the one beside it
    ones, where = np.ones(own, DTYPES[elem]), np.zeros(own, np.int32)
    found = simulate(k, ones, where, cells, empty(own, elem), grid=programs, races=False)
    wrapped = np.arange(2 * count).astype(DTYPES[elem])
    assert found[2][0] == np.array(count * programs).astype(DTYPES[elem])
    np.testing.assert_array_equal(np.sort(found[3].reshape(-1)), np.sort(wrapped[count:]))  # the second program wrote last


@pytest.mark.one_in(2)
@pytest.mark.parametrize("warps", [1, 2, 8])
@pytest.mark.parametrize("shape", [(), (1,), (16,), (64,), (512,)])
def test_programs_of_other_sizes(warps: int, shape: tuple[int, ...]) -> None:
    own = shape or (1,)
    k = update(shape, "add", "i32", "acq_rel")
    found = simulate_with(k, warps, np.ones(own, np.int32), np.zeros(own, np.int32), np.zeros(1, np.int32), empty(own, "i32"))
    assert sorted(found[3].tolist()) == list(range(own[0]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "elem"),
    [*((kind, elem) for kind in ("add", "min", "max") for elem in ("f16", "bf16", "f32")),
     *((kind, "i32") for kind in ("add", "min", "max", "inc", "dec", "and", "or", "xor"))],
)  # fmt: skip
def test_what_descriptors_can_do_beyond(kind: str, elem: str) -> None:
    """Floats have no instruction for the larger of two."""
    described = f"!tt.tensordesc<8x16x{elem}>"
    k = jn.kernel.from_ttir(f"""
tt.func public @k(%x: !tt.ptr<{elem}>, %out: !tt.ptr<{elem}>) {{
  %zero = arith.constant 0 : i32
  %rows = arith.constant 8 : i32
  %columns = arith.constant 16 : i32
  %stride = arith.constant 16 : i64
  %one = arith.constant 1 : i64
  %from = tt.make_tensor_descriptor %x, [%rows, %columns], [%stride, %one] : !tt.ptr<{elem}>, {described}
  %to = tt.make_tensor_descriptor %out, [%rows, %columns], [%stride, %one] : !tt.ptr<{elem}>, {described}
  %v = tt.descriptor_load %from[%zero, %zero] : {described} -> tensor<8x16x{elem}>
  tt.descriptor_reduce {kind}, %to[%zero, %zero], %v : {described}, tensor<8x16x{elem}>
  tt.return
}}
""")
    check(k, some((8, 16), elem, 1), some((8, 16), elem, 2))


def test_an_old_value_decides_for_all_threads() -> None:
    """The program that comes first writes a block."""
    body = """%one = arith.constant 1 : i32
    %zero = arith.constant 0 : i32
    %true = arith.constant true
    %old = tt.atomic_rmw add, acq_rel, gpu, %p1, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32
    %first = arith.cmpi eq, %old, %zero : i32
    %n = tt.splat %old : i32 -> tensor<256xi32>
    %s = arith.addi %x0, %n : tensor<256xi32>
    scf.if %first {
      tt.store %q0, %s : tensor<256x!tt.ptr<i32>>
    }"""
    k = kernel([((256,), "i32"), ((), "i32")], [], body)
    x = some((256,), "i32")
    found = simulate(k, x, np.zeros(1, np.int32), grid=4, races=False)
    np.testing.assert_array_equal(found[0], x)
    assert found[1][0] == 4


@pytest.mark.one_in(3)
@pytest.mark.parametrize("elem", ["i8", "i16", "i32", "i64", "f16", "f32"])
@pytest.mark.parametrize("shape", [(), (8,), (256,)])
def test_compare_and_swap(shape: tuple[int, ...], elem: str) -> None:
    own = shape or (2,)
    pointers, type_ = block_type(shape, f"!tt.ptr<{elem}>"), block_type(shape, elem)
    place = "%q2" if shape else "%p2"
    body = f"""%y0 = tt.atomic_cas acq_rel, sys, {place}, %x0, %x1 : ({pointers}, {type_}, {type_}) -> {type_}"""
    k = kernel([(shape, elem)] * 3, [(shape, elem)], body)
    cells = some(own, elem, 1)
    expected = np.where(np.arange(cells.size).reshape(own) % 2 == 0, cells, cells + 1).astype(cells.dtype)
    found = check(k, expected, some(own, elem, 2), cells, empty(own, elem))
    changed = np.where(expected == cells, some(own, elem, 2), cells)
    np.testing.assert_array_equal(found[2][: None if shape else 1], changed[: None if shape else 1])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("elem", ["i8", "i16", "i32", "i64", "f16", "f32"])
@pytest.mark.parametrize("shape", [(), (8,), (256,)])
def test_loads_and_stores(shape: tuple[int, ...], elem: str) -> None:
    own = shape or (1,)
    pointers, mask = block_type(shape, f"!tt.ptr<{elem}>"), block_type(shape, "i1")
    zero = "dense<0>" if shape else "0"
    place, other = ("%q0", "%q1") if shape else ("%p0", "%p1")
    body = f"""%zero = arith.constant {zero} : {block_type(shape, "i8")}
    %m = arith.cmpi ne, %x2, %zero : {block_type(shape, "i8")}
    %y0 = tt.atomic_load acquire, gpu, {place}, %m : ({pointers}, {mask}) -> {block_type(shape, elem)}
    tt.atomic_store release, cta, {other}, %x0, %m : {pointers}"""
    k = kernel([(shape, elem), (shape, elem), (shape, "i8")], [(shape, elem)], body)
    text = k.ptx()
    assert "ld.acquire.gpu.global" in text
    assert "st.release.cta.global" in text
    bits = np.random.default_rng(5).integers(0, 2, own).astype(np.int8)
    x, y = some(own, elem, 1), some(own, elem, 2)
    found = check(k, x, y, bits, empty(own, elem))
    np.testing.assert_array_equal(found[1], np.where(bits, x, y))
    np.testing.assert_array_equal(found[3], np.where(bits, x, 0))


def test_order_and_scope_are_said() -> None:
    for sem, scope in (("relaxed", "cta"), ("acquire", "gpu"), ("release", "sys"), ("acq_rel", "gpu")):
        assert f"atom.{sem}.{scope}.global.add.u32" in update((32,), "add", "i32", sem, scope).ptx()


def test_without_a_result_a_reduction_is_enough() -> None:
    body = """%one = arith.constant 1 : i32
    %true = arith.constant true
    %old = tt.atomic_rmw add, release, gpu, %p0, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32"""
    k = kernel([((), "i32")], [], body)
    assert "red.release.gpu.global.add.u32" in k.ptx()
    assert "atom." not in k.ptx()
    assert simulate(k, np.zeros(1, np.int32), grid=5)[0][0] == 5


def test_what_all_threads_wrote_is_released() -> None:
    """Program 0 writes a block and sets a flag; program 1 waits for it and reads the block the other way round."""
    k = jn.kernel.from_ttir("""
tt.func public @k(%data: !tt.ptr<i32>, %p1: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
  %pid = tt.get_program_id x : i32
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %r = tt.make_range {start = 0 : i32, end = 512 : i32} : tensor<512xi32>
  %last = arith.constant dense<511> : tensor<512xi32>
  %back = arith.subi %last, %r : tensor<512xi32>
  %s = tt.splat %data : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>>
  %there = tt.addptr %s, %r : tensor<512x!tt.ptr<i32>>, tensor<512xi32>
  %turned = tt.addptr %s, %back : tensor<512x!tt.ptr<i32>>, tensor<512xi32>
  %o = tt.splat %out : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>>
  %result = tt.addptr %o, %r : tensor<512x!tt.ptr<i32>>, tensor<512xi32>
  %first = arith.cmpi eq, %pid, %zero : i32
  scf.if %first {
    tt.store %there, %r : tensor<512x!tt.ptr<i32>>
    tt.atomic_store release, gpu, %p1, %one : !tt.ptr<i32>
  } else {
    %flag = tt.atomic_poll acquire, gpu, %p1, %one : !tt.ptr<i32>, i32 -> i1
    %v = tt.load %turned : tensor<512x!tt.ptr<i32>>
    tt.store %result, %v : tensor<512x!tt.ptr<i32>>
  }
  tt.return
}
""")
    found = simulate(k, np.zeros(512, np.int32), np.zeros(1, np.int32), empty((512,), "i32"), grid=2)
    np.testing.assert_array_equal(found[2], np.arange(512)[::-1])


@pytest.mark.one_in(12)
@pytest.mark.parametrize("shape", [(), (4,), (256,)])
@pytest.mark.parametrize("elem", ["i16", "i32", "i64"])
def test_a_poll_that_times_out_tells_which_elements_came(shape: tuple[int, ...], elem: str) -> None:
    own = shape or (1,)
    pointers, type_, mask = block_type(shape, f"!tt.ptr<{elem}>"), block_type(shape, elem), block_type(shape, "i1")
    body = f"""%time = arith.constant 1000 : i64
    %c = tt.atomic_poll relaxed, gpu, {"%q0" if shape else "%p0"}, %x1 timeout %time : {pointers}, {type_} -> {mask}
    %y0 = arith.extui %c : {mask} to {block_type(shape, "i32")}"""
    k = kernel([(shape, elem), (shape, elem)], [(shape, "i32")], body)
    there, wanted = some(own, elem, 1), some(own, elem, 1)
    wanted.reshape(-1)[::3] += 1
    found = check(k, there, wanted, empty(own, "i32"))
    np.testing.assert_array_equal(found[2], there == wanted)


def test_a_lock_protects_what_all_threads_do() -> None:
    """Every program adds its block under a lock: compare and swap to take it, an exchange to give it back."""
    k = jn.kernel.from_ttir("""
tt.func public @k(%lock: !tt.ptr<i32>, %sum: !tt.ptr<i32>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %true = arith.constant true
  %r = tt.make_range {start = 0 : i32, end = 256 : i32} : tensor<256xi32>
  %s = tt.splat %sum : !tt.ptr<i32> -> tensor<256x!tt.ptr<i32>>
  %there = tt.addptr %s, %r : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
  scf.while : () -> () {
    %old = tt.atomic_cas acquire, gpu, %lock, %zero, %one : (!tt.ptr<i32>, i32, i32) -> i32
    %taken = arith.cmpi eq, %old, %one : i32
    scf.condition(%taken)
  } do {
    scf.yield
  }
  %v = tt.load %there : tensor<256x!tt.ptr<i32>>
  %w = arith.addi %v, %r : tensor<256xi32>
  tt.store %there, %w : tensor<256x!tt.ptr<i32>>
  %free = tt.atomic_rmw exch, release, gpu, %lock, %zero, %true : (!tt.ptr<i32>, i32, i1) -> i32
  tt.return
}
""")
    found = simulate(k, np.zeros(1, np.int32), np.zeros(256, np.int32), grid=6)
    np.testing.assert_array_equal(found[1], 6 * np.arange(256))
    assert found[0][0] == 0


def test_a_plain_load_waits_for_an_atomic() -> None:
    """Every thread reads what others have added to."""
    types = "(tensor<256x!tt.ptr<i32>>, tensor<256xi32>, tensor<256xi1>) -> tensor<256xi32>"
    body = f"""%last = arith.constant dense<255> : tensor<256xi32>
    %back = arith.subi %last, %r0 : tensor<256xi32>
    %a = tt.addptr %s0, %back : tensor<256x!tt.ptr<i32>>, tensor<256xi32>
    %true = arith.constant dense<true> : tensor<256xi1>
    %old = tt.atomic_rmw add, relaxed, gpu, %q0, %r0, %true : {types}
    %y0 = tt.load %a : tensor<256x!tt.ptr<i32>>"""
    k = kernel([((256,), "i32")], [((256,), "i32")], body)
    x = some((256,), "i32")
    found = check(k, x, empty((256,), "i32"))
    np.testing.assert_array_equal(found[1], (x + np.arange(256))[::-1])


@pytest.mark.parametrize(("sem", "waits"), [("relaxed", False), ("release", True)])
def test_sums_that_nobody_reads_do_not_wait_for_each_other(sem: str, waits: bool) -> None:
    types = "(tensor<128x!tt.ptr<i32>>, tensor<128xi32>, tensor<128xi1>) -> tensor<128xi32>"
    body = f"""%zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %four = arith.constant 4 : i32
    %true = arith.constant dense<true> : tensor<128xi1>
    %place = tt.splat %p1 : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
    scf.for %i = %zero to %four step %one : i32 {{
      %old = tt.atomic_rmw add, {sem}, gpu, %place, %x0, %true : {types}
      scf.yield
    }}"""
    k = kernel([((128,), "i32"), (None, "i32")], [], body)
    assert ("bar.sync" in k.ptx()) == waits
    x = some((128,), "i32")
    assert simulate(k, x, np.zeros(1, np.int32), grid=3)[1][0] == 12 * x.sum()
