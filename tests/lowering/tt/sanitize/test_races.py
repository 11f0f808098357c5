"""The sanitizer on races between programs and between lanes, with what orders them, and what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest

CORPUS = Path(__file__).resolve().parents[3] / "data" / "ttir"


def kernel(body: str, parameters: str = "%o: !tt.ptr<i32>") -> jn.kernel.Kernel:
    return jn.kernel.from_ttir(f"""
module {{
  tt.func public @f({parameters}) {{
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %pid = tt.get_program_id x : i32
    %own = tt.addptr %o, %pid : !tt.ptr<i32>, i32
    {body}
    tt.return
  }}
}}
""")


def findings(body: str, programs: int = 4, size: int = 8) -> tuple[Any, ...]:
    found: tuple[Any, ...] = kernel(body).sanitize((programs,), np.zeros(size, np.int32)).findings
    return found


def test_two_programs_write_one_element() -> None:
    (found,) = findings('tt.store %o, %pid : !tt.ptr<i32> loc("r.py":3:1)')
    assert (found.kind, found.program, found.other_program, found.lane) == ("race", (1, 0, 0), (0, 0, 0), ())
    assert (found.line, found.origin, found.count) == ("r.py:3:1", "r.py:3:1", 3)
    assert found.address == "%o + 4 * 0 (array of 8 elements)"
    assert found.message.startswith("write-write race on %o + 4 * 0")
    assert "program (0, 0, 0) wrote it at r.py:3:1" in found.message
    assert "same value" not in found.message
    assert findings("tt.store %own, %pid : !tt.ptr<i32>") == ()
    assert findings("tt.store %o, %pid : !tt.ptr<i32>", 1) == ()


def test_the_same_value_is_a_race_and_said_to_be_the_same() -> None:
    (found,) = findings("tt.store %o, %c1 : !tt.ptr<i32>")
    assert found.message.endswith("(both write the same value)")


def test_a_program_reads_what_another_writes() -> None:
    body = """
    %next = tt.addptr %own, %c1 : !tt.ptr<i32>, i32
    %v = tt.load %next : !tt.ptr<i32> loc("r.py":2:1)
    tt.store %own, %v : !tt.ptr<i32> loc("r.py":3:1)"""
    (found,) = findings(body)  # program 1 writes what program 0 has read
    assert found.message.startswith("read-write race on %o + 4 * 1")
    assert (found.program, found.other_program, found.line, found.origin) == (
        (1, 0, 0),
        (0, 0, 0),
        "r.py:3:1",
        "r.py:2:1",
    )
    (found,) = findings(
        body.replace("%own, %c1", "%own, %back").replace(
            "%next", "%back = arith.constant -1 : i32\n%next", 1
        ),
        1,
        8,
    )
    assert found.kind == "out-of-bounds"  # program 0 has nobody before it


def test_a_program_reads_what_another_has_written() -> None:
    body = """
    tt.store %own, %pid : !tt.ptr<i32> loc("r.py":2:1)
    %v = tt.load %o : !tt.ptr<i32> loc("r.py":3:1)"""
    (found,) = findings(body)
    assert found.message.startswith("write-read race on %o + 4 * 0")
    assert (found.program, found.other_program, found.count) == ((1, 0, 0), (0, 0, 0), 3)


def test_all_readers_are_remembered() -> None:
    """Programs 0 … 3 read element 0; the last one, which has also read it, writes it."""
    body = """
    %v = tt.load %o : !tt.ptr<i32>
    %c3 = arith.constant 3 : i32
    %is = arith.cmpi eq, %pid, %c3 : i32
    tt.store %o, %v, %is : !tt.ptr<i32>"""
    (found,) = findings(body)
    assert (found.program, found.other_program) == ((3, 0, 0), (2, 0, 0))


BLOCK = """
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %k = tt.splat %step : i32 -> tensor<8xi32>
    %first = arith.muli %pid, %step : i32
    %start = tt.splat %first : i32 -> tensor<8xi32>
    %at = arith.addi %start, %r : tensor<8xi32>
    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %p0, %at : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %p, %at : tensor<8x!tt.ptr<i32>>"""


def test_blocks_that_overlap_name_the_lane() -> None:
    block = kernel(BLOCK, "%o: !tt.ptr<i32>, %step: i32")
    (found,) = block.sanitize((2,), np.zeros(16, np.int32), 7).findings
    assert (found.lane, found.count, found.address) == ((0,), 1, "%o + 4 * 7 (array of 16 elements)")
    assert found.message.endswith("(both write the same value)")
    (found,) = block.sanitize((3,), np.zeros(32, np.int32), 5).findings
    assert found.count == 6
    assert block.sanitize((2,), np.zeros(16, np.int32), 8).findings == ()


def test_arrays_that_share_memory() -> None:
    body = "%other = tt.addptr %y, %pid : !tt.ptr<i32>, i32\n%v = tt.load %other : !tt.ptr<i32>\n"
    body += "tt.store %own, %v : !tt.ptr<i32>"
    shared = kernel(body, "%o: !tt.ptr<i32>, %y: !tt.ptr<i32>")
    memory = np.zeros(9, np.int32)
    (found,) = shared.sanitize((4,), memory[:8], memory[1:]).findings
    assert (found.program, found.other_program, found.address) == (
        (1, 0, 0),
        (0, 0, 0),
        "%o + 4 * 1 (array of 8 elements)",
    )
    assert shared.sanitize((4,), memory[:8], memory[:8]).findings == ()
    assert shared.sanitize((4,), memory[:8], np.zeros(8, np.int32)).findings == ()


def test_one_array_for_two_parameters_leaves_the_others_what_they_are() -> None:
    same, shared, own = np.zeros(4, np.int32), np.arange(4, dtype=np.int32), np.full(4, 9, np.int32)
    body = """
    %first = tt.load %b : !tt.ptr<i32>
    %at = tt.addptr %a, %pid : !tt.ptr<i32>, i32
    tt.store %at, %first : !tt.ptr<i32>
    tt.store %own, %first : !tt.ptr<i32>"""
    program = kernel(body, "%x: !tt.ptr<i32>, %a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %o: !tt.ptr<i32>")
    assert program.sanitize((4,), same, same, shared, own).findings == ()
    last = body.replace("%first = tt.load %b", "%first = tt.load %x")
    program = kernel(last, "%x: !tt.ptr<i32>, %a: !tt.ptr<i32>, %b: !tt.ptr<i32>, %o: !tt.ptr<i32>")
    (found,) = program.sanitize((4,), same, same, shared, own).findings
    assert found.message.startswith("write-read race on %x + 4 * 0 (array of 4 elements)")


def test_neighbouring_bytes_do_not_race() -> None:
    body = """
    %bytes = tt.bitcast %o : !tt.ptr<i32> -> !tt.ptr<i8>
    %at = arith.divsi %pid, %step : i32
    %mine = tt.addptr %bytes, %at : !tt.ptr<i8>, i32
    %v = arith.trunci %pid : i32 to i8
    tt.store %mine, %v : !tt.ptr<i8>"""
    pieces = kernel(body, "%o: !tt.ptr<i32>, %step: i32")
    assert pieces.sanitize((8,), np.zeros(2, np.int32), 1).findings == ()
    (found,) = pieces.sanitize((8,), np.zeros(2, np.int32), 2).findings
    assert (found.program, found.count, found.address) == ((1, 0, 0), 4, "%o + 1 * 0 (array of 8 elements)")


# Atomics


def test_atomics_do_not_race_with_each_other() -> None:
    add = "%old = tt.atomic_rmw add, relaxed, SCOPE, %o, %c1, %t : (!tt.ptr<i32>, i32, i1) -> i32"
    body = f"%t = arith.constant true\n{add}"
    assert findings(body.replace("SCOPE", "gpu")) == ()
    assert findings(body.replace("SCOPE", "sys")) == ()
    (found,) = findings(body.replace("SCOPE", "cta"))  # atomic within one program only
    assert found.message.startswith("write-write race")
    found = findings(body.replace("SCOPE", "gpu") + "\n%v = tt.load %o : !tt.ptr<i32>")
    assert [each.message.split(" race")[0] for each in found] == [
        "read-write",
        "write-read",
    ]  # the next add, and the load itself


LAST_BLOCK = """
    %t = arith.constant true
    %counter = tt.addptr %o, %n : !tt.ptr<i32>, i32
    tt.store %own, %pid : !tt.ptr<i32> loc("last.py":1:1)
    %old = tt.atomic_rmw add, ORDER, SCOPE, %counter, %c1, %t : (!tt.ptr<i32>, i32, i1) -> i32
    %last = arith.subi %n, %c1 : i32
    %is = arith.cmpi eq, %old, %last : i32
    scf.if %is {
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (i32) : i32 {
        %q = tt.addptr %o, %i : !tt.ptr<i32>, i32
        %v = tt.load %q : !tt.ptr<i32> loc("last.py":5:1)
        %next = arith.addi %s, %v : i32
        scf.yield %next : i32
      }
      tt.store %o, %sum : !tt.ptr<i32>
    }"""


def test_the_last_program_may_read_what_was_released_to_it() -> None:
    def run(order: str, scope: str = "gpu") -> tuple[Any, ...]:
        body = LAST_BLOCK.replace("ORDER", order).replace("SCOPE", scope)
        o = np.zeros(9, np.int32)
        found: tuple[Any, ...] = kernel(body, "%o: !tt.ptr<i32>, %n: i32").sanitize((8,), o, 8).findings
        assert o[0] == sum(range(8))
        return found

    assert run("acq_rel") == ()
    for order in ("relaxed", "acquire", "release"):
        read = next(found for found in run(order) if found.line == "last.py:5:1")
        assert (read.kind, read.origin, read.program, read.count) == ("race", "last.py:1:1", (7, 0, 0), 7)
        assert read.message.startswith("write-read race on %o + 4 * 0")
    assert any(found.line == "last.py:5:1" for found in run("acq_rel", "cta"))


FLAG = """
    %flag = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
    %is = arith.cmpi eq, %pid, %c0 : i32
    scf.if %is {
      tt.store %o, %c1 : !tt.ptr<i32>
      tt.atomic_store RELEASE, gpu, %flag, %c1 : !tt.ptr<i32>
    } else {
      %f = tt.atomic_load ACQUIRE, gpu, %flag : (!tt.ptr<i32>) -> i32
      %v = tt.load %o : !tt.ptr<i32>
    }"""


@pytest.mark.parametrize(
    ("release", "acquire"), [("release", "acquire"), ("relaxed", "acquire"), ("release", "relaxed")]
)
def test_message_passing(release: str, acquire: str) -> None:
    found = findings(FLAG.replace("RELEASE", release).replace("ACQUIRE", acquire))
    if (release, acquire) == ("release", "acquire"):
        assert found == ()
    else:
        assert [(each.kind, each.program, each.count) for each in found] == [("race", (1, 0, 0), 3)]


def test_a_relaxed_store_ends_what_was_released() -> None:
    """Reading the value of the relaxed store says nothing about what came before the released one."""
    overwritten = "tt.atomic_store release, gpu, %flag, %c1 : !tt.ptr<i32>\n"
    overwritten += "tt.atomic_store relaxed, gpu, %flag, %c0 : !tt.ptr<i32>"
    body = FLAG.replace("tt.atomic_store RELEASE, gpu, %flag, %c1 : !tt.ptr<i32>", overwritten).replace(
        "ACQUIRE", "acquire"
    )
    assert len(findings(body)) == 1


def test_order_is_handed_on() -> None:
    """Program 0 → 1 → 2 by two flags: 2 knows what 0 wrote."""
    step = "tt.atomic_rmw add, acq_rel, gpu, {flag}, %c1, %t : (!tt.ptr<i32>, i32, i1) -> i32"
    body = f"""
    %t = arith.constant true
    %c2 = arith.constant 2 : i32
    %one = tt.addptr %o, %c1 : !tt.ptr<i32>, i32
    %two = tt.addptr %o, %c2 : !tt.ptr<i32>, i32
    %is0 = arith.cmpi eq, %pid, %c0 : i32
    %is1 = arith.cmpi eq, %pid, %c1 : i32
    %is2 = arith.cmpi eq, %pid, %c2 : i32
    scf.if %is0 {{
      tt.store %o, %c1 : !tt.ptr<i32>
      %a = {step.format(flag="%one")}
    }}
    scf.if %is1 {{
      %b = {step.format(flag="%one")}
      %c = {step.format(flag="%two")}
    }}
    scf.if %is2 {{
      %d = {step.format(flag="%two")}
      tt.store %o, %c0 : !tt.ptr<i32>
    }}"""
    assert findings(body, 3) == ()
    broken = body.replace(f"%b = {step.format(flag='%one')}\n", "")
    (found,) = findings(broken, 3)
    assert (found.program, found.other_program) == ((2, 0, 0), (0, 0, 0))


def spin_lock(text: str, programs: int = 5) -> tuple[Any, ...]:
    x = np.ones(300, np.float32)
    total, lock, count = np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    found: tuple[Any, ...] = (
        jn.kernel.from_ttir(text).sanitize((programs,), x, total, lock, count, 300).findings
    )
    assert (total[0], count[0], lock[0]) == (300, programs, 0)
    return found


def test_a_spin_lock_orders_what_it_guards() -> None:
    text = (CORPUS / "spin_lock_sum" / "kernel.ttir").read_text()
    assert spin_lock(text) == ()
    assert spin_lock(text, 40) == ()
    for one in ("atomic_cas acq_rel", "exch, acq_rel"):
        assert one in text
        found = spin_lock(text.replace(one, one.replace("acq_rel", "relaxed")))
        assert {each.kind for each in found} == {"race"}
        assert any("k_mem.py:173:21" in each.line and each.origin == "k_mem.py:173:5" for each in found)


def test_a_lock_that_is_given_back_by_a_plain_store() -> None:
    text = (CORPUS / "spin_lock_sum" / "kernel.ttir").read_text()
    exchange = "%4 = tt.atomic_rmw exch, acq_rel, gpu, %lock, %c0_i32, %true : (!tt.ptr<i32>, i32, i1) -> i32"
    assert exchange in text
    found = spin_lock(text.replace(exchange, "tt.store %lock, %c0_i32 : !tt.ptr<i32>"))
    assert any("%lock" in each.address and each.kind == "race" for each in found)


# Between lanes


def test_lanes_that_write_different_values_to_one_address() -> None:
    body = """
    %r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %two = arith.constant dense<2> : tensor<8xi32>
    %half = arith.divsi %r, %two : tensor<8xi32>
    %p0 = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %p0, %half : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    %even = arith.remsi %r, %two : tensor<8xi32>
    %zero = arith.constant dense<0> : tensor<8xi32>
    %mask = arith.cmpi eq, %even, %zero : tensor<8xi32>
    tt.store %p, VALUE : tensor<8x!tt.ptr<i32>>"""
    (found,) = findings(body.replace("VALUE", "%r"), 1)
    assert (found.kind, found.program, found.lane, found.count) == ("lane-race", (0, 0, 0), (0,), 4)
    assert (
        found.message
        == "lanes [0] and [1] write different values to %o + 4 * 0 (array of 8 elements); either may stay"
    )
    assert findings(body.replace("VALUE", "%half"), 1) == ()
    assert findings(body.replace("VALUE", "%r, %mask"), 1) == ()
