"""The sanitizer on lanes that load what other lanes of their program stored, loops that never end, and memory nobody wrote."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest


def findings(body: str, *args: Any, parameters: str = "%o: !tt.ptr<i32>", programs: int = 1, **options: Any) -> tuple[Any, ...]:
    """What is found in a kernel with 8 lanes: %r counts them, %p points to their elements of %o, %q from the last one on."""
    kernel = block(body, parameters)
    given = args or (np.zeros(8, np.int32),)
    found: tuple[Any, ...] = kernel.sanitize((programs,), *given, needs_barriers=True, **options).findings
    return found


def block(body: str, parameters: str = "%o: !tt.ptr<i32>") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @f({parameters}) {{
    %pid = tt.get_program_id x : i32
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %t = arith.constant true
    %r = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
    %seven = arith.constant dense<7> : tensor<8xi32>
    %back = arith.subi %seven, %r : tensor<8xi32>
    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %p0, %r : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %q = tt.addptr %p0, %back : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    {body}
    tt.return
  }}
}}
""")


STORE = 'tt.store %p, %r : tensor<8x!tt.ptr<i32>> loc("b.py":1:1)\n'
LOAD = '%v = tt.load %q : tensor<8x!tt.ptr<i32>> loc("b.py":3:1)\n'
ADD = "%a = tt.atomic_rmw add, acq_rel, gpu, %o, %c1, %t : (!tt.ptr<i32>, i32, i1) -> i32\n"


def test_a_lane_reads_what_another_stored() -> None:
    (found,) = findings(STORE + LOAD)
    assert (found.kind, found.program, found.lane, found.count) == ("lane-race", (0, 0, 0), (0,), 8)
    assert (found.line, found.origin, found.address) == ("b.py:3:1", "b.py:1:1", "%o + 4 * 7 (array of 8 elements)")
    assert "lane [7] wrote at b.py:1:1, with no barrier between" in found.message


@pytest.mark.parametrize(
    "between",
    [
        "ttg.barrier all\n",
        "gpu.barrier\n",
        ADD,
        '%s = "tt.reduce"(%r) <{axis = 0 : i32}> ({\n^bb0(%x: i32, %y: i32):\n%z = arith.addi %x, %y : i32\n'
        "tt.reduce.return %z : i32\n}) : (tensor<8xi32>) -> i32\n",
    ],
)
def test_what_threads_wait_for(between: str) -> None:
    assert findings(STORE + between + LOAD) == ()
    assert len(findings(between + STORE + LOAD)) == 1


CLEAN = {
    "its own element": STORE + LOAD.replace("%q", "%p"),
    "its own element, as a column": STORE
    + "%w = tt.expand_dims %p {axis = 1 : i32} : tensor<8x!tt.ptr<i32>> -> tensor<8x1x!tt.ptr<i32>>\n"
    "%v = tt.load %w : tensor<8x1x!tt.ptr<i32>>\n",
    "its own element, stored last": STORE + STORE.replace("%p", "%q") + LOAD,
    "a scalar": "tt.store %o, %c1 : !tt.ptr<i32>\n%v = tt.load %o : !tt.ptr<i32>\n",
    "lanes that are off": "%lane0 = arith.constant dense<0> : tensor<8xi32>\n%m = arith.cmpi eq, %r, %lane0 : tensor<8xi32>\n"
    "tt.store %p, %r, %m : tensor<8x!tt.ptr<i32>>\n%v = tt.load %q, %m : tensor<8x!tt.ptr<i32>>\n",
    "one value from all lanes": "%ones = arith.constant dense<1> : tensor<8xi32>\n"
    "tt.store %p0, %ones : tensor<8x!tt.ptr<i32>>\n%v = tt.load %p0 : tensor<8x!tt.ptr<i32>>\n",
    "what was loaded before": LOAD + STORE,
}


@pytest.mark.parametrize("name", CLEAN)
def test_no_barrier_is_needed(name: str) -> None:
    assert findings(CLEAN[name]) == ()


def test_operations_in_order_need_no_barrier() -> None:
    """As joinery runs programs: see `needs_barriers`."""
    assert block(STORE + LOAD).sanitize((1,), np.zeros(8, np.int32)).findings == ()


def test_the_latest_store_counts() -> None:
    (found,) = findings(STORE.replace("%p", "%q") + STORE + LOAD)
    assert found.origin == "b.py:1:1"
    assert found.count == 8


def test_one_thread_and_a_block() -> None:
    (found,) = findings("tt.store %o, %c1 : !tt.ptr<i32>\n" + LOAD)
    assert (found.lane, found.count) == ((7,), 1)
    assert "which one thread wrote" in found.message
    (found,) = findings(STORE + "%v = tt.load %o : !tt.ptr<i32>\n")
    assert found.lane == ()


def test_programs_wait_for_themselves_alone() -> None:
    """What another program stored is no matter of barriers: it is a race."""
    own = "%far = tt.addptr %p, %shift : tensor<8x!tt.ptr<i32>>, tensor<8xi32>\n"
    shift = "%eight = arith.constant 8 : i32\n%at = arith.muli %pid, %eight : i32\n"
    shift += "%shift = tt.splat %at : i32 -> tensor<8xi32>\n"
    body = shift + own + "tt.store %far, %r : tensor<8x!tt.ptr<i32>>\n" + LOAD.replace("%q", "%far")
    assert findings(body, np.zeros(24, np.int32), programs=3) == ()


# Loops that never end

WAIT = """%n = scf.while (%i = %c0) : (i32) -> i32 {
  %old = tt.atomic_cas acq_rel, gpu, %o, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32
  %taken = arith.cmpi eq, %old, %c1 : i32
  scf.condition(%taken) %i : i32
} do {
^bb0(%j: i32):
  scf.yield NEXT : i32
} loc("w.py":4:1)
tt.store %o, %c1 : !tt.ptr<i32>"""


def test_a_lock_that_nobody_gives_back() -> None:
    for next_ in ("%j", "%c0"):
        found, *_ = findings(WAIT.replace("NEXT", next_), np.ones(1, np.int32))
        assert (found.kind, found.program, found.line) == ("deadlock", (0, 0, 0), "w.py:4:1")
        assert "never ends" in found.message
    assert findings(WAIT.replace("NEXT", "%j"), np.zeros(1, np.int32)) == ()


def test_a_loop_that_changes_something_may_end() -> None:
    """It waits for 100 turns: what it counts is in its values, or in memory."""
    limit = "%limit = arith.constant 100 : i32\n"
    counting = WAIT.replace("NEXT", "%more").replace("scf.yield", "%more = arith.addi %j, %c1 : i32\nscf.yield")
    counting = counting.replace("arith.cmpi eq, %old, %c1", "arith.cmpi slt, %i, %limit")
    assert findings(limit + counting, np.ones(1, np.int32)) == ()
    ticket = "%old = tt.atomic_rmw add, acq_rel, gpu, %o, %c1, %t : (!tt.ptr<i32>, i32, i1) -> i32"
    cas = "%old = tt.atomic_cas acq_rel, gpu, %o, %c0, %c1 : (!tt.ptr<i32>, i32, i32) -> i32"
    in_memory = WAIT.replace("NEXT", "%j").replace(cas, ticket).replace("cmpi eq, %old, %c1", "cmpi slt, %old, %limit")
    assert findings(limit + in_memory.replace("tt.store %o, %c1 : !tt.ptr<i32>", ""), np.zeros(1, np.int32)) == ()
    polling = in_memory.replace("%o, %c1, %t", "%o, %c0, %t")  # an update that leaves what it found
    (found,) = findings(limit + polling.replace("tt.store %o, %c1 : !tt.ptr<i32>", ""), np.zeros(1, np.int32))
    assert found.kind == "deadlock"


# Memory that nothing has written


def blank(array: np.ndarray, *written: int) -> dict[int, np.ndarray]:
    mask = np.ones((array.size, array.itemsize), np.bool_)
    mask[list(written)] = False
    return {array.__array_interface__["data"][0]: mask.reshape(-1)}


def test_a_use_of_what_nothing_wrote() -> None:
    body = '%v = tt.load %p : tensor<8x!tt.ptr<i32>> loc("b.py":3:1)\ntt.store %p, %v : tensor<8x!tt.ptr<i32>> loc("b.py":4:1)'
    o = np.zeros(8, np.int32)
    (found,) = findings(body, o, unwritten=blank(o, 2, 5))
    assert (found.kind, found.line, found.origin, found.lane, found.count) == ("uninitialised", "b.py:4:1", "b.py:3:1", (0,), 6)
    assert "comes from %o + 4 * 0 (array of 8 elements), which" in found.message
    assert found.message.split("; ")[0].endswith("at b.py:3:1 reads and nothing has written")
    assert findings(body.split("\n")[0], o, unwritten=blank(o)) == ()  # loaded and not used
    assert findings(body, o) == ()
    assert findings(STORE + body, o, unwritten=blank(o)) == ()


def test_lanes_that_are_off_and_lanes_nobody_wrote() -> None:
    body = """%four = arith.constant dense<4> : tensor<8xi32>
    %m = arith.cmpi slt, %r, %four : tensor<8xi32>
    %v = tt.load %p, %m, %r : tensor<8x!tt.ptr<i32>>
    tt.store %p, %v, MASK : tensor<8x!tt.ptr<i32>>"""
    o = np.zeros(8, np.int32)
    (found,) = findings(body.replace(", MASK", ""), o, unwritten=blank(o, 0, 1))
    assert (found.lane, found.count) == ((2,), 2)
    assert findings(body.replace("MASK", "%m"), o, unwritten=blank(o, 0, 1, 2, 3)) == ()


def test_an_update_of_what_nothing_wrote_is_found_at_once() -> None:
    o = np.zeros(8, np.int32)
    (found,) = findings(ADD, o, unwritten=blank(o))
    assert (found.kind, found.lane, found.count) == ("uninitialised", (), 1)
    assert found.message == "updates what nothing has written: %o + 4 * 0 (array of 8 elements)"
    assert findings(ADD + ADD.replace("%a", "%b"), o, unwritten=blank(o))[0].count == 1  # it is written then


# Two pointers to the same memory


def test_the_array_behind_a_second_pointer_to_the_same_memory() -> None:
    """%o, %y and %z: the first two are one array, so that the third is the second array, not the third."""
    body = """
    %back1 = arith.subi %c1, %pid : i32
    %from = tt.addptr %o, %pid : !tt.ptr<i32>, i32
    %v = tt.load %from : !tt.ptr<i32>
    %to = tt.addptr %z, INDEX : !tt.ptr<i32>, i32
    tt.store %to, %v : !tt.ptr<i32>"""
    parameters = "%o: !tt.ptr<i32>, %y: !tt.ptr<i32>, %z: !tt.ptr<i32>"
    for index, count in (("%back1", 0), ("%c0", 1)):
        x, z = np.zeros(8, np.int32), np.zeros(8, np.int32)
        found = findings(body.replace("INDEX", index), x, x, z, parameters=parameters, programs=2)
        assert len(found) == count
        assert all(each.address == "%z + 4 * 0 (array of 8 elements)" for each in found)
