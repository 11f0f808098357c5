"""Errors of the simulator name the user's line, the program and the argument, as native code that checks bounds does."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.arrays import PointerArgument
from joinery.runtime.ptxsim.checks.findings import PtxCheckError
from joinery.runtime.ptxsim.launch import Module
from joinery.runtime.ptxsim.memory.spaces import GAP

from ..support.planted_bugs.recorded import FACTS, NAMES, Recorded

ELSEWHERE = ("lock_never_given_back", "size_of_another_group")  # no access, and an address that comes from a table
OUTSIDE = [name for name in NAMES if FACTS[name]["noticed"]["ptxsim"] == "error" and name not in ELSEWHERE]
CASES = [pytest.param(name, marks=() if number % 8 == 6 else pytest.mark.slow) for number, name in enumerate(OUTSIDE)]

NATIVE = re.compile(
    r"^(?P<line>[\w.]+:\d+): @\w+, program (?P<program>\(.*?\)): tt\.\w+: element (?P<element>-?\d+) of array '(?P<name>\w+)'"
    r".*has elements 0 … (?P<last>\d+) \((?P<bytes>\d+) bytes\)", re.DOTALL,
)  # fmt: skip
SIMULATED = re.compile(
    r"^PTX line \d+: .*(ld|st|cp)\..*: bounds: (?P<size>\d+) bytes at global address \w+, which is byte (?P<byte>-?\d+) "
    r"of argument \d+ \((?P<name>\w+)\) with (?P<bytes>\d+) bytes, (?P<beyond>\d+) bytes "
    r"(?P<side>before its start|beyond its end) \(program (?P<program>\(.*?\)), threads? [\d, ]+\) \[(?P<line>[\w.]+:\d+)\]"
)


def error_of(recorded: Recorded, **options: Any) -> jn.UserError:
    given, _, _ = recorded.arguments(True)
    with pytest.raises(jn.UserError) as caught:
        recorded.kernel(True).launch(recorded.grid(True), *given, **options)
    return caught.value


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_says_what_native_code_says(name: str) -> None:
    recorded = Recorded(name)
    given, arrays, _ = recorded.arguments(False)
    recorded.kernel(False).launch(recorded.grid(False), *given, device="ptxsim")
    recorded.check(arrays)

    native = NATIVE.match(str(error_of(recorded, check_bounds=True, threads=1)))
    error = error_of(recorded, device="ptxsim")
    simulated = SIMULATED.match(str(error))
    assert native is not None
    assert simulated is not None, str(error)
    assert [simulated[each] for each in ("line", "program", "name", "bytes")] == [
        native[each] for each in ("line", "program", "name", "bytes")
    ]
    nbytes = int(native["bytes"])
    byte = int(native["element"]) * (nbytes // (int(native["last"]) + 1))
    assert int(simulated["byte"]) == byte
    beyond = -byte if byte < 0 else byte + int(simulated["size"]) - nbytes
    assert (int(simulated["beyond"]), simulated["side"]) == (beyond, "before its start" if byte < 0 else "beyond its end")
    assert error.origin == simulated["line"]


def test_addresses_from_tables_are_compared_with_all_memory() -> None:
    error = error_of(Recorded("size_of_another_group"), device="ptxsim")
    assert re.search(r"byte 160 of argument 0 \(sources\)\[1\] with 160 bytes, 4 bytes beyond its end \(the", str(error))
    assert error.origin == "addresses.py:329"


def test_a_deadlock_names_its_line() -> None:
    error = error_of(Recorded("lock_never_given_back"), device="ptxsim")
    assert "deadlock: polls, and nothing else moves" in str(error)
    assert error.origin == FACTS["lock_never_given_back"]["line"]


TEXT = """
module {
  tt.func public @copy(%x: !tt.ptr<i32>, %to: !tt.ptr<i32>, %shift: i64, %step: i32) {
    %lane = tt.make_range {start = 0 : i32, end = 64 : i32} : tensor<64xi32> loc("copy.py":3:0)
    %steps = tt.splat %step : i32 -> tensor<64xi32> loc("copy.py":4:0)
    %place = arith.muli %lane, %steps : tensor<64xi32> loc("copy.py":4:0)
    %first = tt.addptr %x, %shift : !tt.ptr<i32>, i64 loc("copy.py":5:0)
    %base = tt.splat %first : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>> loc("copy.py":6:0)
    %from = tt.addptr %base, %place : tensor<64x!tt.ptr<i32>>, tensor<64xi32> loc("copy.py":6:0)
    %value = tt.load %from : tensor<64x!tt.ptr<i32>> loc("copy.py":7:0)
    %out = tt.splat %to : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>> loc("copy.py":8:0)
    %there = tt.addptr %out, %lane : tensor<64x!tt.ptr<i32>>, tensor<64xi32> loc("copy.py":8:0)
    tt.store %there, %value : tensor<64x!tt.ptr<i32>> loc("copy.py":9:0)
    tt.return loc("copy.py":10:0)
  } loc("copy.py":2:0)
}
"""
COPY = jn.kernel.from_ttir(TEXT)


def copied(x: Any, shift: int = 0, step: int = 1, to: Any = None) -> np.ndarray:
    found = np.zeros(64, np.int32) if to is None else to
    COPY.launch((1,), x, found, shift, step, device="ptxsim")
    return found


def test_views_that_overlap_are_one_memory() -> None:
    memory = np.arange(256, dtype=np.int32)
    low, high = memory[:128], memory[64:192]
    copied(low, 128, to=high)
    assert np.array_equal(memory[64:128], np.arange(128, 192))
    with pytest.raises(PtxCheckError, match=r"byte 768 of argument 0 \(x\) with 512 bytes, 4 bytes beyond the end of its"):
        copied(low, 129, to=high)


def test_what_lies_behind_a_view_is_another_array() -> None:
    """Two views of one array that share no byte are two arguments, wherever they lie."""
    memory = np.arange(256, dtype=np.int32)
    with pytest.raises(PtxCheckError, match=r"byte 512 of argument 0 \(x\) with 512 bytes, 4 bytes beyond its end"):
        copied(memory[:128], 65, to=memory[128:192])


def test_negative_strides_into_memory_on_both_sides() -> None:
    memory = np.arange(100, dtype=np.int32)
    octets = memory.view(np.uint8)
    assert np.array_equal(copied(PointerArgument(octets, 63 * 4), step=-1), memory[63::-1])
    assert np.array_equal(copied(PointerArgument(octets, 80 * 4), -80), memory[:64])
    problem = r"byte -252 of argument 0 \(x\) with 152 bytes, 4 bytes before the start of its memory, bytes -248 to 152 \("
    with pytest.raises(PtxCheckError, match=problem):
        copied(PointerArgument(octets, 62 * 4), step=-1)


def test_an_index_that_leads_into_another_argument_is_outside() -> None:
    x, to = np.arange(64, dtype=np.int32), np.zeros(64, np.int32)
    pair = np.concatenate([x, to])  # in order, so that it is known which one has the higher address
    x, to = pair[:64], pair[64:]
    distance = GAP + x.nbytes
    with pytest.raises(PtxCheckError) as caught:
        copied(x, distance // 4 + 64, to=to)  # one array further, so that it lies in none
    assert f"which is byte {distance + 256} of argument 0 (x) with 256 bytes" in str(caught.value)
    problem = rf"byte {distance} of argument 0 \(x\) with 256 bytes, {distance - 252} bytes beyond its end, in the memory of "
    with pytest.raises(PtxCheckError, match=problem + r"argument 1 \(to\)"):
        copied(x, distance // 4, to=to)


def test_a_null_pointer_is_named() -> None:
    problem = r"outside all buffers: it is 28 bytes from argument 0 \(x\), a null pointer \(program \(0, 0, 0\).*copy.py:7"
    with pytest.raises(PtxCheckError, match=problem):
        copied(None, 7)


def test_only_simulated_text_has_lines() -> None:
    kernel = jn.kernel.from_ttir(TEXT)
    before = kernel.ptx()
    kernel.launch((1,), np.zeros(64, np.int32), np.zeros(64, np.int32), 0, 1, device="ptxsim")
    assert kernel.ptx() == before
    assert ".loc" not in before
    assert "copy.py" not in before


@pytest.mark.parametrize(("grid", "axis", "most"), [((1, 65536), "y", 65535), ((1, 1, 65536), "z", 65535)])
def test_grids_of_a_gpu_are_limited_and_others_are_not(grid: tuple[int, ...], axis: str, most: int) -> None:
    counted = jn.kernel.from_ttir("""
module { tt.func public @count(%total: !tt.ptr<i32>) {
  %one = arith.constant 1 : i32
  %true = arith.constant true
  %old = tt.atomic_rmw add, relaxed, gpu, %total, %one, %true : (!tt.ptr<i32>, i32, i1) -> i32
  tt.return
} }
""")
    total = np.zeros(1, np.int32)
    problem = rf"@count on grid .*: 65536 programs along {axis}; a GPU takes {most} at most; fix: put the large extent on x"
    with pytest.raises(jn.UserError, match=problem):
        counted.launch(grid, total, device="ptxsim")
    assert total[0] == 0
    counted.launch(grid, total)
    assert total[0] == 65536


def test_a_kernel_with_too_many_threads_is_refused() -> None:
    with pytest.raises(jn.UserError, match="64 warps for a program; fix: one of 1, 2, 4, 8, 16, 32"):
        COPY.launch((1,), np.zeros(64, np.int32), np.zeros(64, np.int32), 0, 1, device="ptxsim", warps=64)


RACE = """
module {
  tt.func public @turn(%x: !tt.ptr<f32>, %to: !tt.ptr<f32>) {
    %lane = tt.make_range {start = 0 : i32, end = 32 : i32} : tensor<32xi32> loc("turn.py":3:0)
    %rows = tt.expand_dims %lane {axis = 1 : i32} : tensor<32xi32> -> tensor<32x1xi32> loc("turn.py":3:0)
    %columns = tt.expand_dims %lane {axis = 0 : i32} : tensor<32xi32> -> tensor<1x32xi32> loc("turn.py":3:0)
    %stride = arith.constant dense<32> : tensor<32x1xi32> loc("turn.py":4:0)
    %scaled = arith.muli %rows, %stride : tensor<32x1xi32> loc("turn.py":4:0)
    %left = tt.broadcast %scaled : tensor<32x1xi32> -> tensor<32x32xi32> loc("turn.py":4:0)
    %right = tt.broadcast %columns : tensor<1x32xi32> -> tensor<32x32xi32> loc("turn.py":4:0)
    %place = arith.addi %left, %right : tensor<32x32xi32> loc("turn.py":4:0)
    %base = tt.splat %x : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>> loc("turn.py":5:0)
    %from = tt.addptr %base, %place : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32> loc("turn.py":5:0)
    %value = tt.load %from : tensor<32x32x!tt.ptr<f32>> loc("turn.py":6:0)
    %turned = tt.trans %value {order = array<i32: 1, 0>} : tensor<32x32xf32> -> tensor<32x32xf32> loc("turn.py":7:0)
    %out = tt.splat %to : !tt.ptr<f32> -> tensor<32x32x!tt.ptr<f32>> loc("turn.py":8:0)
    %there = tt.addptr %out, %place : tensor<32x32x!tt.ptr<f32>>, tensor<32x32xi32> loc("turn.py":8:0)
    tt.store %there, %turned : tensor<32x32x!tt.ptr<f32>> loc("turn.py":9:0)
    tt.return loc("turn.py":10:0)
  } loc("turn.py":2:0)
}
"""


def test_both_sides_of_a_race_have_their_lines() -> None:
    code = jn.kernel.from_ttir(RACE, debug=True).gpu_code("sm_80")
    x, to = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)

    def launch(text: str) -> None:
        kernel = Module(text).kernel("turn")
        kernel.launch(1, args=[x, to], shared=code.kernel.shared_bytes, level=3, names=["x", "to"])

    launch(code.ptx)
    assert np.array_equal(to.reshape(32, 32), x.reshape(32, 32).T)
    with pytest.raises(PtxCheckError, match=r"race: .* at PTX line \d+ \[turn.py:\d+\]; no barrier .*\[turn.py:\d+\]"):
        launch(re.sub(r"\tbar\.sync[^;]*;", "", code.ptx))
