"""What instrumentation decides before a launch: which lanes may be equal, which offsets may wrap, which memory is watched."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.analysis.aliasing import AliasAnalysis
from joinery.lowering.tt.analysis.integer_ranges import LaunchRanges
from joinery.lowering.tt.instrument.plan import Plan
from joinery.lowering.tt.instrument.watches import Watch, has_distinct_lanes, watches
from joinery.lowering.tt.instrument.wraps import offsets_of
from joinery.lowering.tt.interpret.machine import find_function

PARAMETERS = "%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %n: i32, %w: i64"
HEAD = """
    %pid = tt.get_program_id x : i32
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %c8 = arith.constant 8 : i32
    %ps = tt.splat %x : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %os = tt.splat %o : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %ns = tt.splat %n : i32 -> tensor<16xi32>
    %start = arith.muli %pid, %n : i32
    %starts = tt.splat %start : i32 -> tensor<16xi32>
"""


def text(body: str) -> str:
    return f"module {{\n  tt.func public @f({PARAMETERS}) {{{HEAD}{body}\n    tt.return\n  }}\n}}\n"


DISTINCT = {
    "a range": ("%p = tt.addptr %ps, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>", True),
    "a range behind a start": (
        """%at = arith.addi %starts, %r : tensor<16xi32>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        True,
    ),
    "a range behind a moved pointer": (
        """%row = tt.addptr %x, %start : !tt.ptr<i32>, i32
    %rows = tt.splat %row : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %p = tt.addptr %rows, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        True,
    ),
    "what a loop moves on": (
        """%first = tt.addptr %ps, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %p = scf.for %i = %c0 to %c8 step %c1 iter_args(%q = %first) -> (tensor<16x!tt.ptr<i32>>) : i32 {
      %next = tt.addptr %q, %ns : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
      scf.yield %next : tensor<16x!tt.ptr<i32>>
    }""",
        True,
    ),
    "what a loop moves by lanes": (
        """%first = tt.addptr %ps, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %p = scf.for %i = %c0 to %c8 step %c1 iter_args(%q = %first) -> (tensor<16x!tt.ptr<i32>>) : i32 {
      %next = tt.addptr %q, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
      scf.yield %next : tensor<16x!tt.ptr<i32>>
    }""",
        False,
    ),
    "one place": ("%p = tt.addptr %ps, %ns : tensor<16x!tt.ptr<i32>>, tensor<16xi32>", False),
    "a multiple of a range": (
        """%at = arith.muli %r, %ns : tensor<16xi32>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        False,
    ),
    "a remainder": (
        """%at = arith.remsi %r, %ns : tensor<16xi32>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        False,
    ),
    "a range less itself": (
        """%at = arith.subi %r, %r : tensor<16xi32>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        False,
    ),
    "what memory says": (
        """%from = tt.addptr %os, %r : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %at = tt.load %from : tensor<16x!tt.ptr<i32>>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>""",
        False,
    ),
}


@pytest.mark.parametrize("name", DISTINCT)
def test_lanes_that_are_known_to_be_distinct(name: str) -> None:
    body, is_distinct = DISTINCT[name]
    function = find_function(parse(text(f"{body}\n    tt.store %p, %r : tensor<16x!tt.ptr<i32>>")), None)
    (store,) = [op for op in function.walk() if op.name == "tt.store"]
    assert has_distinct_lanes(store.operands[0]) == is_distinct


def test_equal_lanes_of_a_store_are_for_the_sanitizer() -> None:
    body, _ = DISTINCT["a remainder"]
    kernel = jn.kernel.from_ttir(text(f"{body}\n    tt.store %p, %r : tensor<16x!tt.ptr<i32>>"))
    x = np.zeros(16, np.int32)
    kernel.launch(1, x, x.copy(), 16, 0, sanitize=True)
    assert x.tolist() == list(range(16))
    with pytest.raises(jn.SanitizerError, match="lanes"):
        kernel.launch(1, x, x.copy(), 15, 0, sanitize=True)


STORE = """
    %at = arith.addi %starts, %r : tensor<16xi32>
    %p = tt.addptr %ps, %at : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %half = arith.divsi %at, %ns : tensor<16xi32>
    %low = arith.muli %half, %ns : tensor<16xi32>
    tt.store %p, %low : tensor<16x!tt.ptr<i32>>"""


def test_only_offsets_that_may_wrap_are_checked() -> None:
    """The start and its sum with the range make addresses; the product that is stored does not."""
    offsets = offsets_of(find_function(parse(text(STORE)), None))
    assert [op.name for _, op in offsets.narrow] == ["arith.muli", "arith.addi"]

    def wraps(programs: int, n: int) -> int:
        return len(offsets.may_wrap(LaunchRanges(((programs, programs), (1, 1), (1, 1)), {2: (n, n)})))

    largest = (1 << 31) - 1
    assert wraps(100, 16) == 0
    assert wraps(largest, 1) == 1, "the last start and 15"
    assert wraps(largest - 14, 1) == 0
    assert wraps(3, 1 << 30) == 2
    assert wraps(2, 1 << 30) == 0
    assert wraps(100, -16) == 0


def test_claims_of_the_text_prove_nothing() -> None:
    nsw = text(STORE.replace("%at = arith.addi %starts, %r :", "%at = arith.addi %starts, %r overflow<nsw> :"))
    offsets = offsets_of(find_function(parse(nsw), None))
    assert len(offsets.may_wrap(LaunchRanges(((1, 1), (1, 1), (1, 1)), {2: (1, 1)}))) == 0
    assert len(offsets.may_wrap(LaunchRanges())) == 2


def watched(body: str, **plan: object) -> dict[int, Watch]:
    function = find_function(parse(text(body)), None)
    return watches(function, AliasAnalysis(function), Plan(**plan))  # type: ignore[arg-type]


def test_memory_that_no_program_can_race_for_is_not_watched() -> None:
    load = "%v = tt.load %ps : tensor<16x!tt.ptr<i32>>\n"
    store = "tt.store %os, %v : tensor<16x!tt.ptr<i32>>\n"
    update = "%old = tt.atomic_rmw add, relaxed, gpu, %x, %n : (!tt.ptr<i32>, i32) -> i32\n"
    assert watched(load) == {}
    assert watched(load + store) == {1: Watch(races=True, readers=False, lanes=False, unwritten=False)}
    assert watched(update) == {}
    assert watched(update.replace("gpu", "cta")) == {0: Watch(races=True, readers=True, lanes=False, unwritten=False)}
    assert watched(update + load) == {0: Watch(races=True, readers=True, lanes=False, unwritten=False)}
    in_place = load + store.replace("%os", "%ps")
    assert watched(in_place, needs_barriers=True) == {0: Watch(races=True, readers=True, lanes=True, unwritten=False)}
    assert watched(load, unwritten=frozenset({0})) == {0: Watch(races=False, readers=False, lanes=False, unwritten=True)}
