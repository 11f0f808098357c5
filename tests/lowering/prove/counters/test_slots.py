"""Places that a counter gives: programs are apart and inside, and nothing is said where anything is not exactly that."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.specify.expressions import evaluate, parse_size

from ....support.corpus import read
from ....support.proving.launches import PROVED
from ....support.tiers import both_tiers
from ..evaluate.test_addresses import is_broken, is_proven

ASSUME = ("at_launch(count[:]) == 0",)
ADD = "^bb0(%a: i32, %b: i32):\n      %s = arith.addi %a, %b : i32"
LARGEST = ADD.replace("addi", "maxsi")


def compacting(
    *, element: str = "%keep", scanned: str = "%keep", summed: str = "%keep", combine: str = ADD, reduce: str = ADD,
    reverse: str = "false", exclusive: str = "arith.subi %pos, %keep", shift: str = "%zero", amount: str = "%sum",
    mask: str = "%live", sem: str = "acq_rel", scope: str = "gpu", kind: str = "add", at: str = "%count", guard: str = "%true",
    relation: str = "slt", size: int = 8, after: str = "", before: str = "", base: str = "%old", row: str = "%p",
) -> Any:  # fmt: skip
    """Each program writes those of its elements that are positive behind each other, where a counter says."""
    return jn.kernel.from_ttir(f"""
tt.func public @k(%x: !tt.ptr<i32>, %o: !tt.ptr<i32>, %count: !tt.ptr<i32>, %n: i32, %m: i32) {{
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %minus = arith.constant -1 : i32
  %many = arith.constant 8 : i32
  %size = arith.constant {size} : i32
  %zeros = arith.constant dense<0> : tensor<8xi32>
  %twos = arith.constant dense<2> : tensor<8xi32>
  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %even = arith.cmpi slt, %p, %one : i32
  %first = arith.muli {row}, %size : i32
  %lanes = tt.make_range {{end = 8 : i32, start = 0 : i32}} : tensor<8xi32>
  %fs = tt.splat %first : i32 -> tensor<8xi32>
  %i = arith.addi %fs, %lanes : tensor<8xi32>
  %ns = tt.splat %n : i32 -> tensor<8xi32>
  %inside = arith.cmpi slt, %i, %ns : tensor<8xi32>
  %counts = arith.cmpi {relation}, %i, %ns : tensor<8xi32>
  %xs = tt.splat %x : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %xp = tt.addptr %xs, %i : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  %v = tt.load %xp, %inside, %zeros : tensor<8x!tt.ptr<i32>>
  %positive = arith.cmpi sgt, %v, %zeros : tensor<8xi32>
  %kept = arith.andi %positive, %counts : tensor<8xi1>
  %keep = arith.extui %kept : tensor<8xi1> to tensor<8xi32>
  %all = arith.extui %counts : tensor<8xi1> to tensor<8xi32>
  %twice = arith.muli %keep, %twos : tensor<8xi32>
  %less = arith.subi %zeros, %keep : tensor<8xi32>
  %es = tt.splat %even : i1 -> tensor<8xi1>
  %some = arith.andi %kept, %es : tensor<8xi1>
  %always = arith.constant dense<true> : tensor<8xi1>
  {before}
  %pos = "tt.scan"({scanned}) <{{axis = 0 : i32, reverse = {reverse}}}> ({{
    {combine}
      tt.scan.return %s : i32
  }}) : (tensor<8xi32>) -> tensor<8xi32>
  %place = {exclusive} : tensor<8xi32>
  %sum = "tt.reduce"({summed}) <{{axis = 0 : i32}}> ({{
    {reduce}
      tt.reduce.return %s : i32
  }}) : (tensor<8xi32>) -> i32
  %cp = tt.addptr %count, %p : !tt.ptr<i32>, i32
  %c1 = tt.addptr %count, %one : !tt.ptr<i32>, i32
  %old = tt.atomic_rmw {kind}, {sem}, {scope}, {at}, {amount}, {guard} : (!tt.ptr<i32>, i32, i1) -> i32
  %live = arith.cmpi ne, %keep, %zeros : tensor<8xi32>
  %begin = arith.addi {base}, {shift} : i32
  %ob = tt.addptr %o, %begin : !tt.ptr<i32>, i32
  %os = tt.splat %ob : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
  %op = tt.addptr %os, %place : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
  tt.store %op, %v, {mask} : tensor<8x!tt.ptr<i32>>
  {after}
  tt.return
}}
""")


def proof_of(change: dict[str, Any], assume: tuple[str, ...] = ASSUME, o: str = "n", grid: Any = "cdiv(n, 8)") -> Any:
    return compacting(**change).prove(assume, {"x": "n", "o": o, "count": "64"}, grid, ("bounds", "races"))


def findings(
    change: dict[str, Any], n: int, *, start: int = 0, more: int = 0, grid: Any = None, is_mixed: bool = True
) -> set[str]:
    """What the sanitizer finds where all elements are kept, or not all. more: elements of the result beyond n."""
    x = np.ones(n, np.int32)
    x[1 : n * is_mixed : 5] = -1
    arrays = [x, np.zeros(n + more, np.int32), np.full(64, start, np.int32)]
    report = compacting(**change).sanitize(grid or -(-n // 8), *arrays, n, 3)
    return {each.kind for each in report.findings}


ANY = "%len = arith.addi %sum, %zero : i32"
RIGHT: dict[str, dict[str, Any]] = {
    "plain": {},
    "relaxed": {"sem": "relaxed"},
    "of the system": {"scope": "sys"},
    "all that is inside": {"scanned": "%all", "summed": "%all", "exclusive": "arith.subi %pos, %all"},
    "reserves those of two": {"scanned": "%twice", "summed": "%twice", "exclusive": "arith.subi %pos, %twice"},
    "some programs": {"guard": "%even", "mask": "%some"},
    "without a condition of the loaded": {"mask": "%kept"},
    "a place beside the counter": {"at": "%c1"},
}
WRONG: dict[str, dict[str, Any]] = {
    "an element further": {"shift": "%one"},
    "an element before": {"shift": "%minus"},
    "any element": {"shift": "%m"},
    "the place behind itself": {"exclusive": "arith.addi %pos, %zeros"},
    "from the end": {"reverse": "true"},
    "the largest of those before": {"combine": LARGEST},
    "the largest is added": {"reduce": LARGEST},
    "another number is scanned": {"scanned": "%all"},
    "another number is added": {"scanned": "%all", "exclusive": "arith.subi %pos, %all"},
    "twice what is added": {"scanned": "%twice", "exclusive": "arith.subi %pos, %twice"},
    "a loaded number is scanned": {"scanned": "%v", "summed": "%v", "exclusive": "arith.subi %pos, %v"},
    "lanes that are not counted": {"mask": "%counts"},
    "all lanes": {"mask": "%always"},
    "a negative sum": {"summed": "%less"},
    "adds -1": {"amount": "%minus"},
    "adds 1": {"amount": "%one"},
    "adds 0": {"amount": "%zero"},
    "adds any number": {"amount": "%m"},
    "the scope of one program": {"scope": "cta"},
    "the largest number": {"kind": "max"},
    "exchanged": {"kind": "exch"},
    "some programs add": {"guard": "%even"},
    "the counter is reset": {"after": "tt.store %count, %zero : !tt.ptr<i32>"},
    "the counter is set at first": {"before": "tt.store %count, %zero : !tt.ptr<i32>"},
    "another place is written": {"after": "tt.store %c1, %one : !tt.ptr<i32>"},
    "added to twice": {"after": "%t = tt.atomic_rmw add, relaxed, gpu, %count, %minus, %true : (!tt.ptr<i32>, i32, i1) -> i32"},
    "a place for each program": {"at": "%cp"},
    "the index of the program": {"base": "%p"},
    "a part too many": {"size": 4},
}
BREAKS = {
    "an element further", "an element before", "the place behind itself", "lanes that are not counted", "a part too many",
    "another number is scanned", "adds 1", "adds 0", "adds -1", "the counter is reset", "the counter is set at first",
    "a place for each program", "the index of the program", "another number is added", "twice what is added", "all lanes",
    "exchanged", "a negative sum", "added to twice", "a loaded number is scanned",
}
"""Those that a launch breaks, whose programs run one after the other; of the others nothing is said."""


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", RIGHT)
def test_places_that_a_counter_gives_are_apart_and_inside(name: str) -> None:
    change = RIGHT[name]
    more = "2 * n" if "two" in name else "n"
    proof = proof_of(change, o=more)
    assert is_proven(proof), proof
    for n in (1, 7, 8, 9, 40):
        for is_mixed in (False, True):
            assert not findings(change, n, more=n * ("two" in name), is_mixed=is_mixed) & {"race", "lane-race", "out-of-bounds"}


@pytest.mark.one_in(29)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_place_of_its_own_is_not_proven(name: str) -> None:
    assert not is_proven(proof_of(WRONG[name]))
    if name in BREAKS:
        found = findings(WRONG[name], 30) | findings(WRONG[name], 30, is_mixed=False)
        assert found & {"race", "lane-race", "out-of-bounds"}


@pytest.mark.slow
def test_the_bounds_of_all_places_are_those_of_what_is_counted() -> None:
    assert not is_proven(proof_of({}, o="n - 1"))
    assert not is_proven(proof_of({}, ()))
    assert not is_proven(proof_of({}, ("at_launch(count[:]) == 1",)))
    assert is_proven(proof_of({}, ("at_launch(count[:]) == 1",), "n + 1"))
    assert not is_proven(proof_of({}, ("at_launch(count[:]) == -1",)))
    assert not is_proven(proof_of({}, ("at_launch(count[:]) == m", "m >= 0")))
    assert is_proven(proof_of({}, ("at_launch(count[:]) == m", "m >= 0", "m <= 1000", "n <= 2**30"), "n + m"))
    assert not is_proven(proof_of({}, ("at_launch(count[:]) == m",), "n + m"))
    for start, more, is_right in ((0, 0, True), (1, 0, False), (1, 1, True), (-1, 0, False), (3, 3, True)):
        found = findings({}, 16, start=start, more=more, is_mixed=False) & {"race", "lane-race", "out-of-bounds"}
        assert bool(found) != is_right


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("change", "grid", "o"), [
    ({"relation": "sle"}, "cdiv(n, 8)", "n"),  # one too many may be counted, though none of them is positive
    ({"size": 4}, "cdiv(n, 4)", "n"),  # most elements twice
    ({}, ("cdiv(n, 8)", "2"), "n"),  # all elements twice
    ({}, ("cdiv(n, 8)", "grid_y"), "n"),
    ({"row": "%q"}, ("cdiv(n, 8)", "cdiv(n, 8)"), "n"),
    ({"row": "%zero"}, "cdiv(n, 8)", "n"),
])  # fmt: skip
def test_what_all_programs_count_is_not_what_each_part_has(change: dict[str, Any], grid: Any, o: str) -> None:
    assert proof_of(change, o=o, grid=grid).verdict("bounds") not in PROVED


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("change", "grid", "o"), [
    ({"size": 16}, "cdiv(n, 16)", "n"),  # half of the elements
    ({}, "grid_x", "n"),
    ({"row": "%q"}, ("1", "cdiv(n, 8)"), "n"),
    ({}, 5, "40"),
    ({}, "min(grid_x, 100)", "800"),
    ({}, ("grid_x", "3"), "24 * grid_x"),
])  # fmt: skip
def test_what_all_programs_count_is_bounded_by_parts_or_by_programs(change: dict[str, Any], grid: Any, o: str) -> None:
    proof = proof_of(change, (*ASSUME, "n <= 2**30", "number(grid_x)", "grid_x <= 2**20"), o, grid)
    assert proof.verdict("races") in PROVED, proof
    assert proof.verdict("bounds") in PROVED, proof


def narrow(bits: int, amount: int, loop: str = "") -> Any:
    """Each program writes a run of elements where a counter says, of which it adds the length."""
    add = f"tt.atomic_rmw add, relaxed, gpu, %count, %k, %true : (!tt.ptr<i{bits}>, i{bits}, i1) -> i{bits}"
    wide = f"%wide = arith.extsi %old : i{bits} to i64" if bits < 64 else "%wide = arith.addi %old, %none : i64"
    body = f"""
  %old = {add}
  {wide}
  %os = tt.addptr %o, %wide : !tt.ptr<i32>, i64
  %lanes = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
  %ps = tt.splat %os : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
  %op = tt.addptr %ps, %lanes : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
  tt.store %op, %lanes : tensor<4x!tt.ptr<i32>>"""
    if loop:
        body = f"scf.for %i = %zero to {loop} step %one : i32 {{{body}\n  }}"
    return jn.kernel.from_ttir(f"""
tt.func public @k(%o: !tt.ptr<i32>, %count: !tt.ptr<i{bits}>, %n: i32) {{
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %k = arith.constant {amount} : i{bits}
  %none = arith.constant 0 : i64
  {body}
  tt.return
}}
""")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("bits", "programs", "is_right"), [
    (8, 31, True), (8, 32, False), (16, 8191, True), (16, 8192, False), (32, (1 << 29) - 1, True), (32, 1 << 29, False),
    (64, (1 << 31) - 1, True),
])  # fmt: skip
def test_a_counter_that_may_wrap_gives_no_places(bits: int, programs: int, is_right: bool) -> None:
    """The end of what all add is 2 ** (bits - 1) - 1 at most, though the last sum is returned to nobody."""
    given = (["at_launch(count[:]) == 0"], {"o": "4 * grid_x", "count": 1}, "grid_x", ("bounds", "races"))
    proof = narrow(bits, 4).prove([*given[0], f"grid_x <= {programs}"], *given[1:])
    verdicts = {proof.verdict("bounds"), proof.verdict("races")}
    assert verdicts == {"proven"} if is_right else "proven" not in verdicts
    if bits == 8:
        for each, is_broken_there in ((31, False), (33, True)):
            report = narrow(8, 4).sanitize(each, np.zeros(4 * each, np.int32), np.zeros(1, np.int8), 0)
            assert is_broken(report) == is_broken_there


def test_conditions_are_found_under_which_no_sum_wraps() -> None:
    proof = narrow(32, 4).prove(["at_launch(count[:]) == 0"], {"o": "4 * grid_x", "count": 1}, "grid_x", ("bounds", "races"))
    assert {proof.verdict("bounds"), proof.verdict("races")} == {"proven under"}
    conditions = [each.condition for each in proof.accesses if each.operation == "tt.store"]
    assert all(any("<= 2**" in text for text in each) for each in conditions)


@pytest.mark.parametrize("loop", ["%two", "%n"])
def test_of_a_counter_that_a_program_adds_to_more_than_once_nothing_is_said(loop: str) -> None:
    assume = ["at_launch(count[:]) == 0", "n >= 0", "n <= 100", "grid_x <= 100"]
    proof = narrow(32, 4, loop).prove(assume, {"o": 100000, "count": 1}, "grid_x", ("bounds", "races"))
    assert not is_proven(proof)


def test_the_kernel_of_the_corpus_is_proven_and_breaks_nothing() -> None:
    subject = read("compact_positive")
    rng = np.random.default_rng(3)
    for n in (1, 63, 64, 65, 200):
        x = rng.integers(-3, 4, n).astype(np.int32)
        arrays = [x, np.zeros(n, np.int32), np.zeros(1, np.int32)]
        assert not is_broken(subject.sanitize(-(-n // 64), *arrays, n))
        assert sorted(arrays[1][: arrays[2][0]]) == sorted(x[x > 0])


# Random kernels


def is_wrong(seed: int, launches: int) -> tuple[bool, str]:
    """Whether anything is proven of a random kernel, and what of that a launch breaks."""
    rng = random.Random(seed)
    pool = [*RIGHT.values(), *WRONG.values(), *[{"size": size} for size in (4, 16)], {"relation": "sle"}, {"row": "%q"}]
    change: dict[str, Any] = {}
    for each in rng.sample(pool, rng.choice((0, 1, 1, 2, 2, 3))):
        change |= each
    size = change.get("size", 8)
    grid = rng.choice((f"cdiv(n, {size})", f"cdiv(n, {size})", "grid_x", (f"cdiv(n, {size})", "2"), ("2", f"cdiv(n, {size})")))
    extent = rng.choice(("n", "n", "n + 1", "2 * n", "8 * cdiv(n, 8)", "8 * cdiv(n, 4)", "16 * cdiv(n, 8)", "64"))
    start = rng.choice((0, 0, 0, 1))
    assume = [f"at_launch(count[:]) == {start}", "n <= 64", "n >= 0", "number(grid_x)", "grid_x <= 8"]
    kernel = compacting(**change)
    proof = kernel.prove(assume, {"x": "n", "o": extent, "count": "64"}, grid, ("bounds", "races"), limit=200_000)
    free = {prop: proof.verdict(prop) in PROVED for prop in ("bounds", "races")}
    for _ in range(launches if any(free.values()) else 0):
        n = rng.choice((0, 1, 7, 8, 9, 16, 17, 33, 64))
        sizes = {"n": n, "grid_x": rng.randrange(9)}
        x, y = [evaluate(parse_size(axis, "grid"), sizes) for axis in (grid if isinstance(grid, tuple) else (grid, "1"))]
        data = np.array([rng.choice((-1, 1, 1, 2)) for _ in range(n)], np.int32)
        arrays = [data, np.zeros(evaluate(parse_size(extent, "extent"), sizes), np.int32), np.full(64, start, np.int32)]
        found = {each.kind for each in kernel.sanitize((x, y), *arrays, n, rng.randrange(-2, 9)).findings}
        wrong = (free["bounds"] and "out-of-bounds" in found) or (free["races"] and found & {"race", "lane-race"})
        if wrong:
            return True, f"{seed}: {found} {sizes} {change} {extent} {grid}\n{proof}"
    return any(free.values()), ""


@pytest.mark.slow
@both_tiers
def test_what_is_proven_of_random_places_holds_in_the_sanitizer(in_full: bool) -> None:
    proven = 0
    for seed in range(600 if in_full else 30):
        its, wrong = is_wrong(seed, 6)
        assert not wrong
        proven += its
    assert proven > 3
