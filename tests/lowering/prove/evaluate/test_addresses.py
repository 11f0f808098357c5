"""Addresses as integers, and addresses that are loaded: what is proven of them holds in the sanitizer, and nothing more is."""

from __future__ import annotations

import itertools
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ....support.corpus import Case, read
from ....support.proving.launches import PROVED
from ..test_corpus import WRITTEN

FOUND = ("out-of-bounds", "race", "lane-race", "misaligned")


def kernel(parameters: str, body: str) -> Any:
    return jn.kernel.from_ttir(f"tt.func public @k({parameters}) {{\n{body}\n  tt.return\n}}\n")


def is_proven(proof: Any) -> bool:
    return all(proof.verdict(each) in PROVED for each in ("bounds", "races"))


def is_broken(report: Any) -> bool:
    return any(each.kind in FOUND for each in report.findings)


# Addresses of parameters


def moved(begin: str, rest: str, *, element: int = 4, lanes: int = 4) -> Any:
    """Each program reads some elements of x behind a number that is made of addresses, and writes them to o."""
    return kernel("%x: !tt.ptr<i32>, %y: !tt.ptr<i32>, %o: !tt.ptr<i32>, %k: i64", f"""
  %p = tt.get_program_id x : i32
  %size = arith.constant {element} : i64
  %c = arith.constant {lanes} : i32
  %a = tt.ptr_to_int %x : !tt.ptr<i32> -> i64
  %b = tt.ptr_to_int %y : !tt.ptr<i32> -> i64
  %w = arith.extsi %p : i32 to i64
  %far = arith.muli %w, %size : i64
{rest}
  %number = {begin}
  %q = tt.int_to_ptr %number : i64 -> !tt.ptr<i32>
  %i = tt.make_range {{end = {lanes} : i32, start = 0 : i32}} : tensor<{lanes}xi32>
  %qs = tt.splat %q : !tt.ptr<i32> -> tensor<{lanes}x!tt.ptr<i32>>
  %at = tt.addptr %qs, %i : tensor<{lanes}x!tt.ptr<i32>>, tensor<{lanes}xi32>
  %v = tt.load %at : tensor<{lanes}x!tt.ptr<i32>>
  %row = arith.muli %p, %c : i32
  %or = tt.addptr %o, %row : !tt.ptr<i32>, i32
  %os = tt.splat %or : !tt.ptr<i32> -> tensor<{lanes}x!tt.ptr<i32>>
  %ot = tt.addptr %os, %i : tensor<{lanes}x!tt.ptr<i32>>, tensor<{lanes}xi32>
  tt.store %ot, %v : tensor<{lanes}x!tt.ptr<i32>>""")


RIGHT = {
    "the address and an offset": (moved("arith.addi %a, %far : i64", ""), "n + 3"),
    "a distance in one array": (moved(
        "arith.addi %a, %d : i64", "  %z = arith.addi %a, %far : i64\n  %d = arith.subi %z, %a : i64"), "n + 3"),
    "an address that cancels out": (moved(
        "arith.subi %s, %b : i64", "  %r = arith.addi %b, %far : i64\n  %s = arith.addi %r, %a : i64"), "n + 3"),
    "rounded up to eight bytes": (moved(
        "arith.addi %a, %up : i64",
        "  %seven = arith.constant 7 : i64\n  %e = arith.constant 8 : i64\n  %m = arith.addi %far, %seven : i64\n"
        "  %h = arith.divsi %m, %e : i64\n  %up = arith.muli %h, %e : i64"), "n + 4"),
}
WRONG = {
    "one element too few": (moved("arith.addi %a, %far : i64", ""), "n + 2"),
    "rounded up, one element too few": (RIGHT["rounded up to eight bytes"][0], "n + 2"),
    "not at a whole element": (moved("arith.addi %a, %far : i64", "", element=2), "n + 3"),
    "before the array": (moved("arith.subi %a, %far : i64", ""), "n + 3"),
    "twice the address": (moved("arith.addi %t, %far : i64", "  %t = arith.addi %a, %a : i64"), "n + 3"),
    "no address": (moved("arith.addi %far, %k : i64", ""), "n + 3"),
    "two addresses": (moved("arith.addi %t, %far : i64", "  %t = arith.addi %a, %b : i64"), "n + 3"),
}


def small_launches(subject: Any, extent: str) -> int:
    """How many launches of one to five programs break something."""
    found = 0
    for n in range(1, 6):
        x, y, o = np.zeros(eval(extent, {"n": n}), np.int32), np.zeros(9, np.int32), np.zeros(4 * n, np.int32)
        found += is_broken(subject.sanitize(n, x, y, o, 0))
    return found


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", RIGHT)
def test_an_address_that_is_computed_as_an_integer_is_one_of_its_array(name: str) -> None:
    subject, extent = RIGHT[name]
    assert is_proven(subject.prove([], {"x": extent, "o": "4 * n"}, "n"))
    assert small_launches(subject, extent) == 0


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_address_inside_its_array_is_not_proven(name: str) -> None:
    subject, extent = WRONG[name]
    assert not is_proven(subject.prove([], {"x": extent, "y": 9, "o": "4 * n"}, "n"))
    assert small_launches(subject, extent)


def test_a_distance_between_two_arrays_leads_into_none_that_is_known() -> None:
    """x + (y - x) is y: nothing is said of it, though the term has the address of x once and a number beside it."""
    rest = "  %d = arith.subi %b, %a : i64\n  %one = arith.constant 1 : i64\n  %h = arith.divsi %d, %one : i64"
    subject = moved("arith.addi %a, %h : i64", rest)
    proof = subject.prove([], {"x": "n + 3", "y": "n + 3", "o": "4 * n"}, "n")
    assert {each.verdict for each in proof.accesses if each.operation == "tt.load"} == {"unknown"}


def test_two_programs_that_write_through_integers_meet() -> None:
    text = """
  %p = tt.get_program_id x : i32
  %w = arith.extsi %p : i32 to i64
  %c = arith.constant {step} : i64
  %a = tt.ptr_to_int %x : !tt.ptr<i32> -> i64
  %two = arith.constant 2 : i64
  %half = arith.divsi %w, %two : i64
  %far = arith.muli %{index}, %c : i64
  %s = arith.addi %a, %far : i64
  %q = tt.int_to_ptr %s : i64 -> !tt.ptr<i32>
  tt.store %q, %p : !tt.ptr<i32>"""
    right, wrong = [kernel("%x: !tt.ptr<i32>", text.format(step=4, index=each)) for each in ("w", "half")]
    assert is_proven(right.prove([], {"x": "n"}, "n"))
    assert wrong.prove([], {"x": "n"}, "n").verdict("races") == "refuted"


# Arrays whose addresses are loaded


def gathered(*, place: str = "%p", relation: str = "slt", write: bool = False, pad: int = 0) -> Any:
    """Each program adds up an array whose address is in a table, and whose length is in another one."""
    body = f"""
  %p = tt.get_program_id x : i32
  %zero = arith.constant 0 : i32
  %tp = tt.addptr %tab, %p : !tt.ptr<i64>, i32
  %a = tt.load %tp : !tt.ptr<i64>
  %off = arith.constant {pad} : i64
  %b = arith.addi %a, %off : i64
  %q = tt.int_to_ptr %b : i64 -> !tt.ptr<f32>
  %lp = tt.addptr %lens, {place} : !tt.ptr<i32>, i32
  %n = tt.load %lp : !tt.ptr<i32>
  %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
  %ns = tt.splat %n : i32 -> tensor<16xi32>
  %m = arith.cmpi {relation}, %i, %ns : tensor<16xi32>
  %qs = tt.splat %q : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
  %at = tt.addptr %qs, %i : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
  %none = arith.constant dense<0.0> : tensor<16xf32>
  %v = tt.load %at, %m, %none : tensor<16x!tt.ptr<f32>>
  %s = "tt.reduce"(%v) <{{axis = 0 : i32}}> ({{
  ^bb0(%x: f32, %y: f32):
    %z = arith.addf %x, %y : f32
    tt.reduce.return %z : f32
  }}) : (tensor<16xf32>) -> f32
  %op = tt.addptr %o, %p : !tt.ptr<f32>, i32
  tt.store %op, %s : !tt.ptr<f32>"""
    if write:
        body += "\n  tt.store %at, %v, %m : tensor<16x!tt.ptr<f32>>"
    return kernel("%tab: !tt.ptr<i64>, %lens: !tt.ptr<i32>, %o: !tt.ptr<f32>", body)


EXTENTS = {"tab": "n", "lens": "n", "o": "n"}


def of_tables(subject: Any, seed: int) -> bool:
    """Whether a launch with random lengths breaks something."""
    rng = random.Random(seed)
    lengths = [rng.randrange(18) for _ in range(rng.randrange(1, 6))]
    table = jn.PointerTable([np.zeros(each, np.float32) for each in lengths])
    n = len(lengths)
    return is_broken(subject.sanitize(n, table, np.array(lengths, np.int32), np.zeros(n, np.float32)))


def test_an_array_whose_address_is_loaded_has_the_bytes_that_are_said() -> None:
    subject = gathered()
    assert is_proven(subject.prove(["points(tab[:], 4 * lens[:])"], EXTENTS, "n"))
    assert not any(of_tables(subject, seed) for seed in range(8))
    assert is_proven(gathered(relation="sle").prove(["points(tab[:], 4 * lens[:] + 4)"], EXTENTS, "n"))
    assert is_proven(gathered(relation="sge").prove(["points(tab[:], size)", "size >= 64"], EXTENTS, "n"))
    quotient = "points(tab[:], 64 + 64 // max(lens[:], 1))"
    assert is_proven(gathered(relation="sge").prove([quotient, "0 <= lens[:] <= 100"], EXTENTS, "n"))


@pytest.mark.parametrize("change", [{"relation": "sle"}, {"place": "%zero"}, {"pad": 4}, {"relation": "ult", "pad": 4}])
def test_what_is_beyond_an_array_whose_address_is_loaded_is_not_proven(change: Any) -> None:
    subject = gathered(**change)
    proof = subject.prove(["points(tab[:], 4 * lens[:])"], EXTENTS, "n")
    assert proof.verdict("bounds") == "unknown"  # no launch with such a table is made
    assert any(of_tables(subject, seed) for seed in range(8))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("assume", "extents"), [
    ("points(tab[:], 4 * lens[:] - 1)", EXTENTS),
    ("points(tab[:], lens[:])", EXTENTS),
    ("points(tab[:], 60)", EXTENTS),
    ("points(tab[:], 4 * lens[:])", {**EXTENTS, "tab": "n - 1"}),
    ("points(tab[:], 4 * lens[:])", {**EXTENTS, "lens": "n - 1"}),
    ("0 <= lens[:]", EXTENTS),
])  # fmt: skip
def test_less_than_what_is_read_is_not_enough(assume: str, extents: dict[str, str]) -> None:
    proof = gathered().prove([assume, "n >= 1"], extents, "n")
    assert proof.verdict("bounds") != "proven"
    assert not is_proven(proof)


def test_lengths_that_may_be_unsigned_are_none() -> None:
    """64 - lens[:] is no bound of bytes where an element may be 2**32 - 1 to its user, and -1 here."""
    assert not is_proven(gathered(relation="sge").prove(["points(tab[:], 64 - lens[:])"], EXTENTS, "n"))


def test_what_is_written_to_an_array_whose_address_is_loaded_is_not_known() -> None:
    """It may be that of another program, or the table itself: then nothing may be said of what the table holds."""
    with pytest.raises(jn.UserError, match=r"may not last: tt\.store .* to an address that is not known"):
        gathered(write=True).prove(["points(tab[:], 4 * lens[:])"], EXTENTS, "n")


@pytest.mark.parametrize(("assume", "message"), [
    ("points(lens[:], 4)", "no addresses, which have 64 bits"),
    ("points(tab[:], 4) or n >= 1", "compared with sizes"),
    ("points(tab, 4)", r"as in points\(idx\[:\], 64\)"),
    ("points(tab[:])", "expected ','"),
    ("points(tab[:], 4 * o[:])", "assumptions about elements are for integers"),
    ("points(tab[:], 64 // lens[:])", r"divides by lens\[:\], .* fix: a divisor such as max\(lens\[:\], 1\)"),
    ("points(tab[:], 64 % min(lens[:], 8))", r"fix: a divisor such as max\(lens\[:\], 1\)"),
    ("points(tab[:], 64 // 0)", "// by 0, which may be 0 or less; fix: another divisor"),
    ("points(tab[:], 2**63)", r"no array has 9223372036854775808 bytes; fix: 2\*\*63 - 1 at most"),
    ("points(tab[:], 2**62 * 2**62) and n >= 1", "contradict each other"),
    ("points(tab[:], size * 2**40) and size >= 2**24 and n >= 1", "contradict each other"),
    ("sorted(lens)", r"as in sorted\(idx\[:\]\)"),
    ("distinct(lens[:]) or n >= 1", "compared with sizes"),
    ("sorted(z[:])", "no array 'z'"),
    ("sorted(o[:])", "assumptions about elements are for integers"),
])  # fmt: skip
def test_what_is_said_of_elements_wrongly_is_refused(assume: str, message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        gathered().prove([assume], EXTENTS, "n")


def test_a_table_without_an_extent_and_one_that_is_said_twice_are_refused() -> None:
    with pytest.raises(jn.UserError, match="about lens, of which no extent is said"):
        gathered().prove(["points(tab[:], 4 * lens[:])"], {"tab": "n"}, "n")
    with pytest.raises(jn.UserError, match="assumed twice"):
        gathered().prove(["points(tab[:], 4)", "points(tab[:], 8)"], EXTENTS, "n")


def test_more_distinct_elements_than_numbers_contradict_each_other() -> None:
    assume = ["distinct(lens[:])", "0 <= lens[:] < n", "n >= 1"]
    with pytest.raises(jn.UserError, match="contradict each other"):
        gathered().prove(assume, {**EXTENTS, "lens": "n + 1"}, "n")
    assert gathered().prove(assume, EXTENTS, "n").verdict("bounds") == "unknown"


# The kernels of the corpus that rest on these


def ragged(rng: np.random.Generator) -> tuple[int, list[Any]]:
    rows, total = int(rng.integers(1, 6)), int(rng.integers(0, 70))
    ends = np.sort(rng.integers(0, total + 1, rows + 1, np.int32))
    return rows, [np.zeros(total, np.float16), ends, np.zeros(total, np.float16)]


def scattered(rng: np.random.Generator) -> tuple[int, list[Any]]:
    rows, columns = 16 * int(rng.integers(1, 3)), 16 * int(rng.integers(1, 6))
    arrays = [np.zeros(rows * columns, np.float32), rng.permutation(rows)[:8].astype(np.int32)]
    return -(-columns // 32), [*arrays, np.zeros(rows * columns, np.float32), rows, columns]


def tables(rng: np.random.Generator) -> tuple[int, list[Any]]:
    lengths = rng.integers(0, 70, int(rng.integers(1, 6)), np.int32)
    return lengths.size, [
        jn.PointerTable([np.zeros(each, np.float32) for each in lengths]), lengths, np.zeros(lengths.size, np.float32),
    ]  # fmt: skip


def aligned(rng: np.random.Generator) -> tuple[int, list[Any]]:
    rows, last = int(rng.integers(1, 6)), int(rng.integers(0, 90))
    starts = rng.integers(0, last + 1, rows, np.int32)
    return rows, [np.zeros(last + 31, np.float32), starts, np.zeros(16 * rows, np.float32), 0]


LAUNCHES = {
    "ragged_softmax": ragged, "desc_gather_scatter": scattered, "pointer_table_sum": tables, "aligned_start": aligned,
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LAUNCHES)
def test_kernels_of_the_corpus_break_nothing_in_small_launches_within_their_assumptions(name: str) -> None:
    subject = read(name)
    for seed in range(6):
        grid, arguments = LAUNCHES[name](np.random.default_rng(seed))
        assert not is_broken(subject.sanitize(grid, *arguments)), (seed, arguments)


def test_an_aligned_start_is_proven_of_the_offsets_that_fit() -> None:
    subject = read("aligned_start")
    for elements, verdict in (("last + 31", True), ("last + 30", False)):
        extents = {"x": elements, "offs": "rows", "o": "16 * rows"}
        assert is_proven(subject.prove(["0 <= offs[:] <= last", "last >= 0", "last <= 2**24"], extents, "rows")) == verdict
    arguments = [np.zeros(47 - 1, np.float32), np.array([17], np.int32), np.zeros(16, np.float32), 0]
    assert is_broken(subject.sanitize(1, *arguments))  # last + 29 elements


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["desc_gather_scatter", "ragged_softmax", "pointer_table_sum"])
def test_each_assumption_about_elements_is_needed(name: str) -> None:
    written = WRITTEN["specifications"][name]
    for each in [each for each in written["assume"] if "[:]" in each]:
        proof = read(name).prove(**{**written, "assume": [other for other in written["assume"] if other != each]})
        assert not is_proven(proof) or (name, each) == ("desc_gather_scatter", "0 <= idx[:] < rows"), each


def test_the_launches_of_the_corpus_are_within_what_is_assumed() -> None:
    (_, ends, _), _ = Case("ragged_softmax").arguments()
    assert [*ends] == sorted(ends)
    (_, chosen, _, rows, _), _ = Case("desc_gather_scatter").arguments()
    assert len({*chosen}) == chosen.size == 8
    assert 0 <= chosen.min() <= chosen.max() < rows
    (table, lengths, _), _ = Case("pointer_table_sum").arguments()
    assert all(array.nbytes >= 4 * length for array, length in zip(table.arrays, lengths, strict=True))
    assert not any(one is two for one, two in itertools.combinations(table.arrays, 2))
