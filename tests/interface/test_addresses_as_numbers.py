"""Addresses as numbers: memory holds those of the host, in every way to run a kernel, and is never looked through for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.tt.interpret.memory import AccessError
from joinery.promotion.arrays import PointerArgument
from joinery.runtime.ptxsim.checks.findings import PtxCheckError

Run = Callable[..., object]


def sanitized(kernel: jn.kernel.Kernel, *args: Any, notes: bool = True) -> None:
    findings = kernel.sanitize(1, *args, notes=notes).findings
    assert findings == (), findings


RUNS: dict[str, Run] = {
    "host": lambda kernel, *args: kernel.launch(1, *args),
    "checked": lambda kernel, *args: kernel.launch(1, *args, check_bounds=True),
    "interpreter": lambda kernel, *args: kernel.interpret(1, *args),
    "sanitizer": sanitized,
    "native sanitizer": lambda kernel, *args: sanitized(kernel, *args, notes=False),
    "ptxsim": lambda kernel, *args: kernel.launch(1, *args, device="ptxsim"),
}
each_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def function(parameters: str, body: str) -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"module {{ tt.func public @f({parameters}) {{\n{body}\ntt.return\n}} }}")


COPY = function("%x: !tt.ptr<i64>, %o: !tt.ptr<i64>", """
    %r = tt.make_range {end = 32 : i32, start = 0 : i32} : tensor<32xi32>
    %0 = tt.splat %x : !tt.ptr<i64> -> tensor<32x!tt.ptr<i64>>
    %1 = tt.addptr %0, %r : tensor<32x!tt.ptr<i64>>, tensor<32xi32>
    %2 = tt.load %1 : tensor<32x!tt.ptr<i64>>
    %3 = tt.splat %o : !tt.ptr<i64> -> tensor<32x!tt.ptr<i64>>
    %4 = tt.addptr %3, %r : tensor<32x!tt.ptr<i64>>, tensor<32xi32>
    tt.store %4, %2 : tensor<32x!tt.ptr<i64>>""")
BUILD = function("%t: !tt.ptr<i64>, %a: !tt.ptr<f32>, %b: !tt.ptr<f32>", """
    %one = arith.constant 1 : i32
    %two = arith.constant 2 : i32
    %0 = tt.ptr_to_int %a : !tt.ptr<f32> -> i64
    tt.store %t, %0 : !tt.ptr<i64>
    %1 = tt.addptr %t, %one : !tt.ptr<i64>, i32
    %2 = tt.addptr %b, %two : !tt.ptr<f32>, i32
    %3 = tt.ptr_to_int %2 : !tt.ptr<f32> -> i64
    tt.store %1, %3 : !tt.ptr<i64>""")
STORE_POINTER = function("%t: !tt.ptr<!tt.ptr<f32>>, %a: !tt.ptr<f32>", """
    %old = tt.load %t : !tt.ptr<!tt.ptr<f32>>
    %v = tt.load %old : !tt.ptr<f32>
    tt.store %a, %v : !tt.ptr<f32>
    %one = arith.constant 1 : i32
    %0 = tt.addptr %old, %one : !tt.ptr<f32>, i32
    tt.store %t, %0 : !tt.ptr<!tt.ptr<f32>>""")
FOLLOW = """
    %bytes = arith.constant {bytes} : i64
    %0 = tt.load %t : !tt.ptr<i64>
    %1 = arith.addi %0, %bytes : i64
    %2 = tt.int_to_ptr %1 : i64 -> !tt.ptr<f32>
    %after = arith.constant {after} : i32
    %3 = tt.addptr %2, %after : !tt.ptr<f32>, i32
    %4 = tt.load %3 : !tt.ptr<f32>
    tt.store %o, %4 : !tt.ptr<f32>"""


def follow(bytes_: int, after: int = 0) -> jn.kernel.Kernel:
    text = FOLLOW.replace("{bytes}", str(bytes_)).replace("{after}", str(after))
    return function("%t: !tt.ptr<i64>, %o: !tt.ptr<f32>, %x: !tt.ptr<f32>", text)


def address(array: Any) -> int:
    return int(array.ctypes.data)


@each_run
def test_memory_that_holds_what_looks_like_addresses_is_written_where_it_is(run: Run) -> None:
    x = np.arange(32, dtype=np.int64)
    o = np.full(32, address(x))
    run(COPY, x, o)
    assert (o == x).all()


@each_run
def test_a_table_that_a_kernel_builds_has_the_addresses_of_the_host(run: Run) -> None:
    a, b, table = np.zeros(4, np.float32), np.arange(8, dtype=np.float32), np.zeros(2, np.int64)
    run(BUILD, table, a, b)
    assert table.tolist() == [address(a), address(b) + 8]
    o = np.zeros(1, np.float32)
    run(follow(4), table[1:], o, b)
    assert o[0] == 3, "what another launch reads through it"


@each_run
def test_pointers_in_memory_are_loaded_and_stored(run: Run) -> None:
    x, o = np.arange(5, 9, dtype=np.float32), np.zeros(1, np.float32)
    table = jn.PointerTable([x])
    if run is RUNS["ptxsim"]:
        with pytest.raises(PtxCheckError, match="read-only"):
            run(STORE_POINTER, table, o)
        return
    run(STORE_POINTER, table, o)
    assert (o[0], table.native()[0]) == (5, address(x) + 4)
    run(STORE_POINTER, table, o)
    assert o[0] == 6, "the table keeps what a launch wrote"


@each_run
def test_an_address_outside_of_its_array_may_come_back(run: Run) -> None:
    x, o = np.arange(-2048, 2048, dtype=np.float32)[2048:2056], np.zeros(1, np.float32)
    table = np.array([address(x)])
    run(follow(-4096, 1024 + 3), table, o, x)
    assert o[0] == 3


@pytest.mark.parametrize("name", ["interpreter", "ptxsim", "checked"])
def test_an_address_behind_its_array_is_refused(name: str) -> None:
    x, o = np.arange(64, dtype=np.float32)[:8], np.zeros(1, np.float32)  # no other array lies behind x
    with pytest.raises((AccessError, PtxCheckError)) as raised:
        RUNS[name](follow(4 * 8), np.array([address(x)]), o, x)
    assert o[0] == 0
    if name == "interpreter":
        assert "element 8 of array 'x' is read, which has elements 0 … 7" in str(raised.value)


def test_the_sanitizer_names_the_array_that_an_address_misses() -> None:
    x, o = np.arange(64, dtype=np.float32)[:8], np.zeros(1, np.float32)  # no other array lies behind x
    (found,) = follow(4 * 9).sanitize(1, np.array([address(x)]), o, x).findings
    assert (found.kind, found.address) == ("out-of-bounds", "%x + 4 * 9 (array of 8 elements)")


@pytest.mark.parametrize("name", ["interpreter", "sanitizer", "ptxsim"])
def test_memory_that_is_no_argument_is_asked_for(name: str) -> None:
    hidden, o = np.arange(8, dtype=np.float32), np.zeros(1, np.float32)
    table = np.array([address(hidden)])
    asked: list[int] = []

    def elsewhere(at: int) -> Any:
        asked.append(at)
        return hidden.view(np.uint8) if address(hidden) <= at < address(hidden) + hidden.nbytes else None

    given = PointerArgument(table.view(np.uint8), 0, elsewhere)
    RUNS[name](follow(8), given, o, np.zeros(1, np.float32))
    assert o[0] == 2
    assert asked
    asked.clear()
    RUNS[name](COPY, PointerArgument(np.full(32, address(hidden)).view(np.uint8), 0, elsewhere), np.zeros(32, np.int64))
    assert not asked, "a kernel that copies numbers follows none"


def test_the_first_lane_outside_is_named_and_an_update_is_a_write() -> None:
    body = """
    %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %0 = tt.splat %o : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>>
    %1 = tt.addptr %0, %r : tensor<128x!tt.ptr<i32>>, tensor<128xi32>
    """
    store = "tt.store %1, %r : tensor<128x!tt.ptr<i32>>"
    mask = "%m = arith.constant dense<true> : tensor<128xi1>\n"
    types = "(tensor<128x!tt.ptr<i32>>, tensor<128xi32>, tensor<128xi1>) -> tensor<128xi32>"
    update = f"{mask}%old = tt.atomic_rmw add, relaxed, gpu, %1, %r, %m : {types}"
    for operation in (store, update):
        kernel = function("%o: !tt.ptr<i32>", body + operation)
        for name in ("interpreter", "checked"):
            with pytest.raises(AccessError, match="element 100 of array 'o' is written"):
                RUNS[name](kernel, np.zeros(100, np.int32))


# Distances between addresses: a pointer to one array that is moved into another

DISTANCE = """
    %a0 = tt.ptr_to_int %a : !tt.ptr<f32> -> i64
    %b0 = tt.ptr_to_int %b : !tt.ptr<f32> -> i64
    %bytes = arith.subi %b0, %a0 : i64
    %four = arith.constant 4 : i64
    %elements = arith.divsi %bytes, %four : i64
"""
MOVED = function("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %o: !tt.ptr<f32>, %more: i64", DISTANCE + """
    %there = tt.addptr %a, %elements : !tt.ptr<f32>, i64
    %at = tt.addptr %there, %more : !tt.ptr<f32>, i64
    %0 = tt.load %at : !tt.ptr<f32>
    tt.store %o, %0 : !tt.ptr<f32>""")
IN_LOOP = function("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %o: !tt.ptr<f32>, %more: i64", DISTANCE + """
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %three = arith.constant 3 : i32
    %none = arith.constant 0 : i64
    %d = scf.for %i = %zero to %three step %one iter_args(%last = %none) -> (i64) : i32 {
      %wide = arith.extsi %i : i32 to i64
      %next = arith.addi %elements, %wide : i64
      scf.yield %next : i64
    }
    %there = tt.addptr %a, %d : !tt.ptr<f32>, i64
    %at = tt.addptr %there, %more : !tt.ptr<f32>, i64
    %0 = tt.load %at : !tt.ptr<f32>
    tt.store %o, %0 : !tt.ptr<f32>""")
GIVEN = function("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %o: !tt.ptr<f32>, %more: i64", """
    %at = tt.addptr %a, %more : !tt.ptr<f32>, i64
    %0 = tt.load %at : !tt.ptr<f32>
    tt.store %o, %0 : !tt.ptr<f32>""")
STORES = function("%a: !tt.ptr<f32>, %b: !tt.ptr<f32>, %o: !tt.ptr<f32>, %more: i64", DISTANCE + """
    %there = tt.addptr %a, %elements : !tt.ptr<f32>, i64
    %before = tt.load %b : !tt.ptr<f32>
    %v = arith.constant 9.0 : f32
    tt.store %there, %v : !tt.ptr<f32>
    %after = tt.load %b : !tt.ptr<f32>
    %0 = arith.addf %before, %after : f32
    tt.store %o, %0 : !tt.ptr<f32>""")


def arrays() -> tuple[Any, Any, Any]:
    return np.arange(8, dtype=np.float32), np.arange(100, 108, dtype=np.float32), np.zeros(1, np.float32)


@each_run
def test_a_pointer_is_moved_into_another_array_by_a_distance_that_the_kernel_computes(run: Run) -> None:
    a, b, o = arrays()
    for kernel, more, value in ((MOVED, 0, 100), (MOVED, 7, 107), (IN_LOOP, 0, 102), (STORES, 0, 109)):
        run(kernel, a, b, o, more)
        assert o[0] == value
    assert (b[0], a[0]) == (9, 0)


@pytest.mark.parametrize("name", ["checked", "interpreter", "sanitizer", "native sanitizer", "ptxsim"])
def test_it_lands_in_memory_that_is_known_or_not_at_all(name: str) -> None:
    a, b, o = np.arange(64, dtype=np.float32)[:8], np.arange(64, dtype=np.float32)[:8], np.zeros(1, np.float32)
    for kernel, more in ((MOVED, 8), (MOVED, -1), (IN_LOOP, 6)):
        with pytest.raises((AccessError, PtxCheckError, AssertionError)):
            RUNS[name](kernel, a, b, o, more)
    assert o[0] == 0


@pytest.mark.parametrize("name", ["checked", "interpreter", "sanitizer", "native sanitizer", "ptxsim"])
def test_a_distance_that_the_kernel_is_given_leaves_its_array(name: str) -> None:
    a, b, o = arrays()
    with pytest.raises((AccessError, PtxCheckError, AssertionError)):
        RUNS[name](GIVEN, a, b, o, (address(b) - address(a)) // 4)
    assert o[0] == 0
