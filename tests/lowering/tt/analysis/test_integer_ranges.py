"""What is said of ranges of integers holds for the numbers that the interpreter computes."""

from __future__ import annotations

import re
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.frontends.ttir.text import parse
from joinery.lowering.tt.analysis.integer_ranges import ANY_LAUNCH, IntegerRanges, LaunchRanges, Range
from joinery.lowering.tt.interpret.interpreter import interpret
from joinery.lowering.tt.interpret.machine import find_function
from joinery.lowering.tt.printing import print_module
from joinery.lowering.tt.transforms.expand.legalize_division import legalize_division
from xdsl.dialects.builtin import UnitAttr

from ....support.random_kernels.hashes import CONSTANTS, program
from ....support.tiers import both_tiers


def ranges_of(function: Any, launch: LaunchRanges, trusting: bool = False) -> dict[str | None, Range]:
    ranges = IntegerRanges(launch, trusting=trusting)
    return {result.name_hint: ranges.of(result) for op in function.walk() for result in op.results}


def follow(text: str, grid: int, *args: Any) -> int:
    """Check every integer of a function in a launch, with what is known of any launch and of this one; how many there were."""
    module = parse(text)
    function = find_function(module, None)
    numbers = {place: (arg, arg) for place, arg in enumerate(args) if isinstance(arg, int)}
    found = [ranges_of(function, launch) for launch in (ANY_LAUNCH, LaunchRanges(((grid, grid), (1, 1), (1, 1)), numbers))]
    checked = 0

    def look(step: jn.kernel.Step) -> None:
        nonlocal checked
        if len(step.results) != 1 or not step.text.startswith("%") or np.asarray(step.results[0]).dtype.kind not in "iu":
            return
        values = np.asarray(step.results[0]).astype(np.int64)
        for each in found:
            low, high = each[step.text.split(" ")[0].removeprefix("%")]
            assert low <= values.min(), f"{step.text}: {low} … {high}, {values.min()}"
            assert values.max() <= high, f"{step.text}: {low} … {high}, {values.max()}"
            checked += 1

    interpret(module, (grid,), args, None, look)
    return checked


@pytest.mark.one_in(4)
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_hashes(first: int) -> None:
    for seed in range(first, first + 10):
        case = program(seed)
        data, out = np.zeros(2 * case.size, np.float32), np.zeros(case.grid * case.width, np.float32)
        assert follow(case.text, case.grid, data, out, *case.numbers, case.size) > 20


KINDS = (
    "addi", "subi", "muli", "divsi", "remsi", "divui", "remui", "minsi", "maxsi", "minui", "maxui", "andi", "ori", "xori",
    "shli", "shrsi", "shrui",
)  # fmt: skip


@pytest.mark.one_in(9)
@both_tiers
@pytest.mark.parametrize("kind", KINDS)
def test_every_operation(kind: str, in_full: bool) -> None:
    """Between numbers of every sign and length, known and bounded; with what guards divisions and shifts."""
    numbers = (*CONSTANTS, 0, 1, -1, 2, 31, 32, 33)
    blocks = "\n".join(
        f"%c{n} = arith.constant dense<{number}> : tensor<8xi32>\n%m{n} = arith.minsi %a, %c{n} : tensor<8xi32>\n"
        f"%b{n} = arith.maxsi %a, %c{n} : tensor<8xi32>\n%l{n} = arith.andi %a, %c{n} : tensor<8xi32>"
        for n, number in enumerate(numbers)
    )
    names = [f"{letter}{n}" for n in range(len(numbers)) for letter in "cbml"]
    rng = np.random.default_rng(len(kind))
    pairs = [tuple(rng.choice(names, 2)) for _ in range(150 if in_full else 50)]
    results = "\n".join(f"%r{n} = arith.{kind} %{x}, %{y} : tensor<8xi32>" for n, (x, y) in enumerate(pairs))
    text = f"""tt.func @f(%p: !tt.ptr<i32>) {{
      %i = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
      %ps = tt.splat %p : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
      %pi = tt.addptr %ps, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
      %a = tt.load %pi : tensor<8x!tt.ptr<i32>>
      {blocks}
      {results}
      tt.return
    }}"""
    array = np.array([0, 1, -1, 5, -(1 << 31), (1 << 31) - 1, 31, -7], np.int32)
    assert follow(text, 1, array) > (250 if in_full else 150)
    total = parse(text)
    legalize_division(find_function(total, None))
    assert follow(re.sub(r"%(\d)", r"%v\1", print_module(total)), 1, array) > (250 if in_full else 150)


LOOPS = """tt.func @f(%n: i32, %m: i32) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %nine = arith.constant 9 : i32
  %by = arith.constant 1664525 : i32
  %mask = arith.constant 1023 : i32
  %pid = tt.get_program_id x : i32
  %all = tt.get_num_programs x : i32
  %sum, %hash, %last = scf.for %i = %pid to %n step %all iter_args(%s = %zero, %h = %pid, %l = %m) -> (i32, i32, i32) : i32 {
    %s1 = arith.addi %s, %nine : i32
    %h1 = arith.muli %h, %by : i32
    %h2 = arith.andi %h1, %mask : i32
    %b = arith.cmpi slt, %i, %m : i32
    %x = arith.select %b, %i, %m : i32
    %inner = scf.for %j = %zero to %i step %one iter_args(%t = %s) -> (i32) : i32 {
      %t1 = arith.subi %t, %one : i32
      scf.yield %t1 : i32
    }
    %y = scf.if %b -> (i32) {
      %y1 = arith.addi %inner, %h2 : i32
      scf.yield %y1 : i32
    } else {
      scf.yield %x : i32
    }
    scf.yield %s1, %h2, %y : i32, i32, i32
  }
  %end = arith.addi %sum, %hash : i32
  %rest = arith.remsi %last, %nine : i32
  tt.return
}"""


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, -5), (30, 7), (50, 1 << 20), (7, -(1 << 31))])
def test_loops(n: int, m: int) -> None:
    assert follow(LOOPS, 3, n, m) > 20


def bounds(lines: str, launch: LaunchRanges = ANY_LAUNCH, trusting: bool = True) -> Range:
    start = "%pid = tt.get_program_id x : i32\n%c64 = arith.constant 64 : i32\n%c0 = arith.constant 0 : i32"
    module = parse(f"tt.func @f(%n: i32, %m: i32) {{\n{start}\n{lines}\ntt.return\n}}")
    return ranges_of(find_function(module, None), launch, trusting)["v"]


ALL = -(1 << 31), (1 << 31) - 1


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("%v = arith.muli %pid, %c64 : i32", ALL),
        ("%v = arith.muli %pid, %c64 overflow<nsw> : i32", (0, ALL[1])),
        ("%v = arith.muli %pid, %c64 overflow<nuw> : i32", ALL),
        ("%v = arith.addi %n, %c64 overflow<nsw> : i32", (ALL[0] + 64, ALL[1])),
        ("%b = arith.cmpi sgt, %n, %c0 : i32\nllvm.intr.assume %b : i1\n%v = arith.subi %n, %c64 : i32", (-63, ALL[1] - 64)),
        ("%v = arith.addi %n, %c0 : i32\n%b = arith.cmpi sle, %c0, %v : i32\n%d = arith.cmpi slt, %v, %c64 : i32\n"
         "%e = arith.andi %b, %d : i1\nllvm.intr.assume %e : i1", (0, 63)),
        ("%b = arith.cmpi ult, %n, %c64 : i32\n%v = arith.select %b, %n, %c64 : i32", ALL),
        ("%b = arith.cmpi slt, %n, %c64 : i32\n%v = arith.select %b, %n, %c64 : i32", (ALL[0], 64)),
        ("%w = arith.remsi %pid, %c64 : i32\n%v = arith.muli %w, %c64 : i32", (0, 63 * 64)),
        ("scf.for %i = %c0 to %n step %c64 : i32 {\n%b = arith.cmpi sgt, %m, %c0 : i32\nllvm.intr.assume %b : i1\n}\n"
         "%v = arith.addi %m, %c0 : i32", ALL),  # it may never be run
    ],
)  # fmt: skip
def test_what_is_proven(lines: str, found: Range) -> None:
    assert bounds(lines) == found


def test_claims_count_only_where_they_are_trusted() -> None:
    assumption = "%b = arith.cmpi sgt, %n, %c0 : i32\nllvm.intr.assume %b : i1\n%v = arith.addi %n, %c0 : i32"
    for lines in (assumption, "%v = arith.muli %pid, %c64 overflow<nsw> : i32"):
        assert bounds(lines) != ALL
        assert bounds(lines, trusting=False) == ALL


def test_what_launches_make_of_it() -> None:
    lines = "%w = arith.muli %pid, %n : i32\n%v = arith.addi %w, %c64 : i32"
    assert bounds(lines) == ALL
    assert bounds(lines, LaunchRanges(((1, 100), (1, 1), (1, 1)), {0: (3, 7)})) == (64, 99 * 7 + 64)
    assert bounds(lines, LaunchRanges(((1, 1 << 20), (1, 1), (1, 1)), {0: (3, 1 << 12)})) == ALL


def test_counters_that_are_compared_without_sign() -> None:
    module = parse("""tt.func @f(%n: i32) {
      %zero = arith.constant 0 : i32
      %one = arith.constant 1 : i32
      scf.for %i = %zero to %n step %one : i32 {
        %v = arith.addi %i, %zero : i32
      }
      tt.return
    }""")
    function = find_function(module, None)
    assert ranges_of(function, ANY_LAUNCH)["v"] == (0, ALL[1] - 1)
    (loop,) = (op for op in function.walk() if op.name == "scf.for")
    loop.attributes["unsignedCmp"] = UnitAttr()
    assert ranges_of(function, ANY_LAUNCH)["v"] == ALL


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "uge"])
@pytest.mark.parametrize("high", [3, 4, 5, 7])
def test_conditions_that_are_decided(predicate: str, high: int) -> None:
    """A choice between 100 and 200 by how 4, or 3 … high, compare with 4: all that come out are said to."""
    lines = f"""%c4 = arith.constant 4 : i32
    %b = arith.cmpi {predicate}, %n, %c4 : i32
    %yes = arith.constant 100 : i32
    %no = arith.constant 200 : i32
    %v = arith.select %b, %yes, %no : i32"""
    compare = {"eq": "==", "ne": "!=", "slt": "<", "ult": "<", "sle": "<=", "sgt": ">", "sge": ">=", "uge": ">="}[predicate]
    for low in {min(4, high), 3}:
        outcomes = {100 if eval(f"{n} {compare} 4") else 200 for n in range(low, high + 1)}
        found = bounds(lines, LaunchRanges(numbers={0: (low, high)}))
        assert found[0] <= min(outcomes)
        assert found[1] >= max(outcomes)
        assert predicate[0] == "u" or found == (min(outcomes), max(outcomes))


def test_conditions_that_share_their_parts_are_looked_at_once() -> None:
    """Thirty levels that use the one before twice: 2^30 ways through them."""
    lines = ["%c0 = arith.cmpi slt, %n, %m : i32", "%d0 = arith.cmpi slt, %m, %n : i32"]
    for level in range(30):
        lines += [
            f"%g{level} = arith.andi %c{level}, %d{level} : i1",
            f"%h{level} = arith.ori %c{level}, %d{level} : i1",
            f"%c{level + 1} = arith.andi %g{level}, %h{level} : i1",
            f"%d{level + 1} = arith.ori %g{level}, %h{level} : i1",
        ]
    body = "\n".join(lines)
    text = f"""tt.func @k(%p: !tt.ptr<i32>, %n: i32, %m: i32) {{
{body}
%s = arith.select %c30, %n, %m : i32
%k16 = arith.constant 16 : i32
%r = arith.remsi %s, %k16 : i32
tt.store %p, %r : !tt.ptr<i32>
tt.return
}}"""
    k = jn.kernel.from_ttir(text, cache=False)
    results = [np.zeros(1, np.int32), np.zeros(1, np.int32)]
    k.interpret(1, results[0], 21, 39)
    k.launch(1, results[1], 21, 39, device="ptxsim", target="sm_80")
    assert results[0] == results[1] != 0
