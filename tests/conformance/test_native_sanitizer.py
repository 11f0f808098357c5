"""Sanitized launches that are run natively first have the sanitizer's findings, and leave the memory that it leaves.

The witness is the sanitizer itself, which interprets every lane.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.promotion.errors import JoineryError

from ..support.changed_texts import NAMES, changed, changed_arguments
from ..support.corpus import WITH_DATA, Case, read, run
from ..support.planted_bugs import recorded
from ..support.tiers import both_tiers, share

AT_ONCE = {
    "aligned_start": "computed", "pointer_table_sum": "loaded", "atomic_load_store": "waits", "print_values": "prints",
    "print_in_loop": "prints", "vector_reinterpret": "another size", "map_branchy": "in its region",
}  # fmt: skip
"""Texts that are interpreted at once, and a word of the reason."""
STRICTER = frozenset({"spin_lock_sum"})
"""Texts that are stopped although they are right: what orders programs is not followed."""
ORDERED = frozenset(
    {
        "layer_norm_without_its_lock", "lock_given_back_by_a_plain_store", "lock_that_orders_nothing", "lock_never_given_back",
        "counter_that_orders_nothing", "flag_that_is_no_atomic",
    }
)  # fmt: skip
"""Planted bugs whose right kernels are ordered by atomics."""


def natively(kernel: jn.kernel.Kernel, grid: Any, arguments: Any, unwritten: Any = None, needs_barriers: bool = True) -> bool:
    return kernel._first_look(grid, arguments, {} if unwritten is None else unwritten, needs_barriers).is_clean


@pytest.mark.slow
@both_tiers
def test_launches_of_the_corpus_run_natively(in_full: bool) -> None:
    for name in share(sorted(set(WITH_DATA) - set(AT_ONCE) - STRICTER), 0, 12, in_full):
        clean = []
        run(name, lambda kernel, grid, arguments, clean=clean: clean.append(natively(kernel, grid, arguments)))
        assert clean == [True], name


@pytest.mark.parametrize("name", AT_ONCE)
def test_some_kernels_are_interpreted_at_once_and_say_why(name: str) -> None:
    assert AT_ONCE[name] in str(read(name).sanitizer_obstacle)


PLANTED = [pytest.param(name, marks=() if number % 8 == 0 else pytest.mark.slow) for number, name in enumerate(recorded.NAMES)]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", PLANTED)
def test_planted_bugs_are_stopped_and_right_kernels_are_not(name: str) -> None:
    case = recorded.Recorded(name)
    kernel = case.kernel(False)
    given, arrays, unwritten = case.arguments(False)
    is_native = kernel.sanitizer_obstacle is None and name not in ORDERED
    assert natively(kernel, case.grid(False), given, unwritten) == is_native
    if is_native:
        case.check(arrays)
    given, _, unwritten = case.arguments(True)
    before = [each.tobytes() for each in given if isinstance(each, np.ndarray)]
    blank = {address: each.copy() for address, each in unwritten.items()}
    assert not natively(case.kernel(True), case.grid(True), given, unwritten)
    assert [each.tobytes() for each in given if isinstance(each, np.ndarray)] == before, "what was written is undone"
    assert all((blank[address] == each).all() for address, each in unwritten.items())


@pytest.mark.slow
@both_tiers
def test_what_ends_natively_has_no_findings(in_full: bool) -> None:
    """Changes texts and arrays at random. Launches that end natively agree with the sanitizer in findings and memory."""
    rng = random.Random(20 if in_full else 3)
    seen = {True: 0, False: 0}
    for _ in range(400 if in_full else 16):
        case = Case(rng.choice(NAMES))
        text, done = changed(case.text, rng)
        how, seed, needs_barriers = rng.choice(["", "short", "overlapping", "unwritten"]), rng.random(), rng.random() < 0.5
        try:
            kernel = jn.kernel.from_ttir(text, name=case.facts["entry"])
        except JoineryError:
            continue
        grid = tuple(case.facts["grid"])
        given, unwritten = changed_arguments(case, random.Random(seed), how)
        is_clean = natively(kernel, grid, given, unwritten, needs_barriers)
        again, expected = changed_arguments(case, random.Random(seed), how)
        try:
            findings = kernel.sanitize(grid, *again, unwritten=expected, needs_barriers=needs_barriers).findings
        except JoineryError:
            continue  # the interpreter refuses arguments
        seen[is_clean] += 1
        if is_clean:
            assert findings == (), (case.facts["entry"], done, how, text)
            assert [each.tolist() for each in unwritten.values()] == [each.tolist() for each in expected.values()]
    assert min(seen.values()) > (50 if in_full else 2)


ADD_ONE = """
module {
  tt.func public @f(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %o: !tt.ptr<f32>, %n: i32) {
    %c64 = arith.constant 64 : i32
    %pid = tt.get_program_id x : i32
    %start = arith.muli %pid, %c64 : i32
    %range = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %first = tt.splat %start : i32 -> tensor<64xi32>
    %at = arith.addi %first, %range : tensor<64xi32>
    %limit = tt.splat %n : i32 -> tensor<64xi32>
    %mask = arith.cmpi slt, %at, %limit : tensor<64xi32>
    %px = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ax = tt.addptr %px, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %a = tt.load %ax, %mask : tensor<64x!tt.ptr<f32>>
    %one = arith.constant dense<1.0> : tensor<64xf32>
    %b = arith.addf %a, %one : tensor<64xf32>
    %po = tt.splat %o : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %ao = tt.addptr %po, %at : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    tt.store %ao, %b, %mask : tensor<64x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("numerics", ["strict", "fast", "reproducible"])
def test_a_sanitized_launch_computes_what_a_launch_computes(numerics: str) -> None:
    kernel = jn.kernel.from_ttir(ADD_ONE, numerics=numerics)
    x, o = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    kernel.launch((16,), x, o, 1000, sanitize=True)
    np.testing.assert_array_equal(o, x + 1)
    with pytest.raises(jn.SanitizerError, match="out-of-bounds"):
        kernel.launch((16,), x, o[:999].copy(), 1000, sanitize=True)


def test_arguments_decide_what_runs_natively() -> None:
    kernel = jn.kernel.from_ttir(ADD_ONE)
    x, o = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    assert natively(kernel, 16, [x, o, 1000])
    assert natively(kernel, 16, [x, x, 1000]), "in place: each element by one program"
    assert not natively(kernel, 16, [x[:900], x[100:], 900]), "programs read what others write"
    assert not natively(kernel, 16, [x[1:], o, 999]), "an address that is no multiple of 16"
    closed = o.copy()
    closed.flags.writeable = False
    assert not natively(kernel, 16, [x, closed, 1000])
    assert not natively(kernel, 0, [x, o, 1000])
    assert not natively(kernel, 16, [x, o, np.float32(1.5)]), "the sanitizer says what is wrong with it"
    (found,) = kernel.sanitize(16, x[1:], o, 999, notes=False).findings
    assert found.kind == "divisibility"


def test_memory_that_is_written_counts_as_written() -> None:
    kernel = jn.kernel.from_ttir(ADD_ONE)
    x, o = np.ones(200, np.float32), np.empty(200, np.float32)
    unwritten = {o.__array_interface__["data"][0]: np.ones(o.nbytes, np.bool_)}
    assert natively(kernel, 2, [x, o, 128], unwritten)
    (blank,) = unwritten.values()
    assert not blank[:512].any()
    assert blank[512:].all()
    assert natively(kernel, 2, [o, x, 128], unwritten)
    assert not natively(kernel, 3, [o, x, 129], unwritten), "reads an element that nothing has written"


def test_instrumented_code_is_kept_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = jn.CompileCache(tmp_path / "cache")
    x, o = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    assert natively(jn.kernel.from_ttir(ADD_ONE, cache=cache), 2, [x, o, 100])
    again = jn.kernel.from_ttir(ADD_ONE, cache=cache)
    monkeypatch.setattr(jn.kernel.Kernel, "_lower", None)
    o[:] = 0
    assert natively(again, 2, [x, o, 100])
    np.testing.assert_array_equal(o, x + 1)
    assert not natively(again, 2, [x, o[:99].copy(), 100])
    with pytest.raises(TypeError):  # other code
        natively(jn.kernel.from_ttir(ADD_ONE.replace("1.0", "2.0"), cache=cache), 2, [x, o, 100])


def test_stamps_of_earlier_launches_mean_nothing() -> None:
    kernel = jn.kernel.from_ttir(ADD_ONE)
    arrays = [np.ones(1000, np.float32) for _ in range(3)]
    for turn in range(6):
        x, o = arrays[turn % 3], arrays[(turn + 1) % 3]
        assert natively(kernel, 16, [x, o, 1000])


WHILE = """
module {
  tt.func public @f(%x: !tt.ptr<i32>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %last = scf.while (%i = %zero) : (i32) -> i32 {
      %going = arith.cmpi ne, %i, %n : i32
      scf.condition(%going) %i : i32
    } do {
    ^bb0(%i: i32):
      %p = tt.addptr %x, %i : !tt.ptr<i32>, i32
      tt.store %p, %i : !tt.ptr<i32>
      %next = arith.addi %i, %one : i32
      scf.yield %next : i32
    }
    tt.return
  }
}
"""


def test_loops_whose_end_is_not_known_stop_in_the_end() -> None:
    kernel = jn.kernel.from_ttir(WHILE)
    x = np.zeros(8, np.int32)
    assert natively(kernel, 1, [x, 8])
    assert x.tolist() == list(range(8))
    assert not natively(kernel, 1, [x, 9])
    endless = jn.kernel.from_ttir(
        WHILE.replace("tt.store %p, %i : !tt.ptr<i32>", "").replace("arith.addi %i, %one", "arith.addi %i, %zero")
    )
    assert not natively(endless, 1, [x, 8])
    assert [each.kind for each in endless.sanitize(1, x, 8, notes=False).findings] == ["deadlock"]


HIDDEN = {
    "an access in a region": (
        """module { tt.func public @f(%o: !tt.ptr<i32>, %x: !tt.ptr<i32>) {
 %i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
 %v = "tt.map_elementwise"(%i) <{pack = 1 : i32}> ({
 ^bb0(%k: i32):
   %p = tt.addptr %x, %k : !tt.ptr<i32>, i32
   %w = tt.load %p : !tt.ptr<i32>
   tt.map_elementwise.return %w : i32
 }) : (tensor<8xi32>) -> tensor<8xi32>
 %po = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
 %q = tt.addptr %po, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
 tt.store %q, %v : tensor<8x!tt.ptr<i32>>
 tt.return } }""",
        [np.zeros(8, np.int32), np.zeros(4, np.int32)], "out-of-bounds",
    ),
    "an undefined value that a region takes from outside": (
        """module { tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
 %i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
 %z = arith.constant 0 : i32
 %m = arith.cmpi eq, %n, %z : i32
 %u = tt.load %o, %m : !tt.ptr<i32>
 %v = "tt.reduce"(%i) <{axis = 0 : i32}> ({ ^bb0(%x: i32, %y: i32):
   %s = arith.addi %x, %u : i32
   tt.reduce.return %s : i32 }) : (tensor<8xi32>) -> i32
 tt.store %o, %v : !tt.ptr<i32>
 tt.return } }""",
        [np.zeros(8, np.int32), 1], "uninitialised",
    ),
    "a loop in a region": (
        """module { tt.func public @f(%o: !tt.ptr<i32>, %n: i32) {
 %i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
 %z = arith.constant 0 : i32
 %one = arith.constant 1 : i32
 %v = "tt.map_elementwise"(%i) <{pack = 1 : i32}> ({
 ^bb0(%k: i32):
   %r = scf.for %j = %one to %z step %n iter_args(%a = %k) -> (i32) : i32 { scf.yield %a : i32 }
   tt.map_elementwise.return %r : i32
 }) : (tensor<8xi32>) -> tensor<8xi32>
 %po = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
 %q = tt.addptr %po, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
 tt.store %q, %v : tensor<8x!tt.ptr<i32>>
 tt.return } }""",
        [np.zeros(8, np.int32), 0], "error",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HIDDEN)
def test_what_regions_on_scalars_do_is_not_missed(name: str) -> None:
    text, arguments, kind = HIDDEN[name]
    kernel = jn.kernel.from_ttir(text)
    assert not natively(kernel, 1, arguments)
    assert [each.kind for each in kernel.sanitize(1, *arguments, notes=False).findings] == [kind]


CHOSEN = """module { tt.func public @f(%o: !tt.ptr<i32>, %x: !tt.ptr<i32>, %c: i1) {
 %p = arith.select %c, %o, %x : !tt.ptr<i32>
 %a = tt.ptr_to_int %p : !tt.ptr<i32> -> i64
 %b = arith.trunci %a : i64 to i32
 tt.store %o, %b : !tt.ptr<i32>
 tt.return } }"""


def test_pointers_that_are_not_accessed_may_be_of_any_parameter() -> None:
    assert natively(jn.kernel.from_ttir(CHOSEN), 1, [np.zeros(8, np.int32), np.zeros(8, np.int32), 1])


MOVED = """module { tt.func public @f(%o: !tt.ptr<i32>) {
 %i = tt.make_range {start = 0 : i32, end = 8 : i32} : tensor<8xi32>
 %po = tt.splat %o : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
 %q = tt.addptr %po, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
 %g = tt.gather %q[%i] {axis = 0 : i32} : (tensor<8x!tt.ptr<i32>>, tensor<8xi32>) -> tensor<8x!tt.ptr<i32>>
 tt.store %g, %i : tensor<8x!tt.ptr<i32>>
 tt.return } }"""


def test_pointers_that_are_gathered_are_for_the_sanitizer() -> None:
    kernel, x = jn.kernel.from_ttir(MOVED), np.zeros(8, np.int32)
    assert "makes pointers" in str(kernel.sanitizer_obstacle)
    kernel.launch(1, x, sanitize=True)
    assert x.tolist() == list(range(8))
