"""The last program that counts: what others did before is done then, and whatever is not exactly that orders nothing."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ..evaluate.test_addresses import is_broken, is_proven

EXTENTS = {"part": "64", "out": "64", "count": "64", "other": "64"}
ASSUME = ("at_launch(count[:]) == 0", "at_launch(other[:]) == 0", "grid_x <= 16", "grid_y <= 2")
STORE = "tt.store %pp, %p : !tt.ptr<i32>"
READ = """%lanes = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %ps = tt.splat %part : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %ap = tt.addptr %ps, %lanes : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %v = tt.load %ap : tensor<64x!tt.ptr<i32>>
    %os = tt.splat %out : !tt.ptr<i32> -> tensor<64x!tt.ptr<i32>>
    %op = tt.addptr %os, %lanes : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    tt.store %op, %v : tensor<64x!tt.ptr<i32>>"""
RESET = "tt.store %count, %zero : !tt.ptr<i32>"


def add(
    *, name: str = "old", kind: str = "add", sem: str = "acq_rel", scope: str = "gpu", at: str = "%count", amount: str = "%one",
    mask: str = "%true",
) -> str:  # fmt: skip
    return f"%{name} = tt.atomic_rmw {kind}, {sem}, {scope}, {at}, {amount}, {mask} : (!tt.ptr<i32>, i32, i1) -> i32"


def counting(
    *, before: str = STORE, barrier: str = "ttg.barrier all", count: str = "", between: str = "",
    compare: str = "eq, %old, %last", then: str = READ, after: str = "", each: str = "%id", **change: str,
) -> Any:  # fmt: skip
    """Each program writes its own part, counts, and the last one reads all parts. each: the index of its part."""
    return jn.kernel.from_ttir(f"""
tt.func public @k(%part: !tt.ptr<i32>, %out: !tt.ptr<i32>, %count: !tt.ptr<i32>, %other: !tt.ptr<i32>, %n: i32) {{
  %true = arith.constant true
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %two = arith.constant 2 : i32
  %minus = arith.constant -1 : i32
  %p = tt.get_program_id x : i32
  %q = tt.get_program_id y : i32
  %g = tt.get_num_programs x : i32
  %h = tt.get_num_programs y : i32
  %sixteen = arith.constant 16 : i32
  %row = arith.muli %q, %sixteen : i32
  %id = arith.addi %row, %p : i32
  %all = arith.muli %g, %h : i32
  %last = arith.subi %all, %one : i32
  %lastx = arith.subi %g, %one : i32
  %lasty = arith.subi %h, %one : i32
  %last2 = arith.subi %all, %two : i32
  %even = arith.cmpi slt, %p, %one : i32
  %pp = tt.addptr %part, {each} : !tt.ptr<i32>, i32
  %op0 = tt.addptr %out, %p : !tt.ptr<i32>, i32
  %cp = tt.addptr %count, %p : !tt.ptr<i32>, i32
  %cq = tt.addptr %count, %q : !tt.ptr<i32>, i32
  %c1 = tt.addptr %count, %one : !tt.ptr<i32>, i32
  {before}
  {barrier}
  {count or add(**change)}
  {between}
  %is = arith.cmpi {compare} : i32
  scf.if %is {{
    {then}
  }}
  {after}
  tt.return
}}
""")


def proof_of(change: dict[str, str], assume: tuple[str, ...] = ASSUME, grid: Any = ("grid_x", "grid_y")) -> Any:
    return counting(**change).prove(assume, EXTENTS, grid, ("bounds", "races"))


def launch(subject: Any, grid: tuple[int, int] = (4, 2), start: int = 0) -> Any:
    arrays = [np.zeros(64, np.int32), np.zeros(64, np.int32), np.full(64, start, np.int32), np.zeros(64, np.int32)]
    return subject.sanitize(grid, *arrays, 5)


BRANCH = f"scf.if %even {{\n    {STORE}\n  }}"
LOOP = f"scf.for %i = %zero to %two step %one : i32 {{\n    {STORE}\n  }}"
ROW = """%start = arith.muli %q, %sixteen : i32
    %rs = tt.addptr %part, %start : !tt.ptr<i32>, i32
    %lanes = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %gs = tt.splat %g : i32 -> tensor<16xi32>
    %m = arith.cmpi slt, %lanes, %gs : tensor<16xi32>
    %ps = tt.splat %rs : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %ap = tt.addptr %ps, %lanes : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %v = tt.load %ap, %m : tensor<16x!tt.ptr<i32>>
    %os = tt.addptr %out, %q : !tt.ptr<i32>, i32
    tt.store %os, %q : !tt.ptr<i32>
    tt.store %cq, %zero : !tt.ptr<i32>"""
COLUMN = """%low = tt.addptr %part, %p : !tt.ptr<i32>, i32
    %high = tt.addptr %low, %sixteen : !tt.ptr<i32>, i32
    %v = tt.load %low : !tt.ptr<i32>
    %w = tt.load %high : !tt.ptr<i32>"""
BY_ROW = {"at": "%cq", "compare": "eq, %old, %lastx", "then": ROW}
RIGHT: dict[str, dict[str, str]] = {
    "plain": {},
    "of the system": {"scope": "sys"},
    "the old spelling of barriers": {"barrier": "gpu.barrier"},
    "reset by the last program": {"then": f"{READ}\n    {RESET}"},
    "reset by an exchange of the last program": {
        "then": f"{READ}\n    {add(name='r', kind='exch', amount='%zero', sem='relaxed')}"
    },
    "at least": {"compare": "sge, %old, %last"},
    "the number afterwards": {"between": "%now = arith.addi %old, %one : i32", "compare": "eq, %now, %all"},
    "written in a branch": {"before": BRANCH},
    "written in a loop": {"before": LOOP},
    "one place for each row": BY_ROW,
    "others leave": {"between": "%not = arith.cmpi ne, %old, %last : i32\n  cf.cond_br %not, ^leave, ^go\n^leave:\n  "
                     "tt.return\n^go:", "compare": "eq, %zero, %zero"},
    "others leave, in another block": {
        "before": f"cf.cond_br %even, ^one, ^two\n^one:\n  cf.br ^two\n^two:\n  {STORE}",
        "between": "%not = arith.cmpi ne, %old, %last : i32\n  cf.cond_br %not, ^leave, ^go\n^leave:\n  tt.return\n^go:",
        "compare": "eq, %zero, %zero",
    },
    "written in an earlier block": {"before": f"{STORE}\n  cf.cond_br %even, ^one, ^two\n^one:\n  cf.br ^two\n^two:"},
    "one place for each column": {"at": "%cp", "compare": "eq, %old, %lasty", "then": COLUMN},
    "an atomic part": {"before": add(name="t", at="%pp", sem="relaxed")},
    "more barriers": {"between": "ttg.barrier all"},
    "another counter beside it": {"between": add(name="t", at="%other")},
}
TWICE = f"{add(name='t')}\n  {add()}"
IN_LOOP = f"""%old = scf.for %i = %zero to %two step %one iter_args(%c = %zero) -> (i32) : i32 {{
    {add(name='t')}
    scf.yield %t : i32
  }}"""
WRONG: dict[str, dict[str, str]] = {
    "written afterwards": {"before": "", "between": STORE},
    "written at the end": {"after": "%pq = tt.addptr %part, %id : !tt.ptr<i32>, i32\n  tt.store %pq, %p : !tt.ptr<i32>"},
    "the last leaves": {"between": "%not = arith.cmpi eq, %old, %last : i32\n  cf.cond_br %not, ^leave, ^go\n^leave:\n  "
                        "tt.return\n^go:", "compare": "eq, %zero, %zero"},
    "a barrier in an earlier block": {
        "before": f"{STORE}\n  ttg.barrier all\n  cf.cond_br %even, ^one, ^two\n^one:\n  {STORE}\n  cf.br ^two\n^two:",
        "barrier": "",
    },
    "blocks in a circle": {
        "count": f"cf.br ^again\n^again:\n  ttg.barrier all\n  {add()}\n  %stop = arith.cmpi sge, %old, %one : i32",
        "between": "cf.cond_br %stop, ^go, ^again\n^go:",
    },
    "written behind the barrier": {"before": "ttg.barrier all", "barrier": STORE},
    "no barrier": {"barrier": ""},
    "a barrier afterwards": {"barrier": "", "between": "ttg.barrier all"},
    "a barrier for shared memory": {"barrier": "ttg.barrier local"},
    "a barrier of some": {"barrier": "scf.if %even {\n    ttg.barrier all\n  }"},
    "relaxed": {"sem": "relaxed"},
    "released alone": {"sem": "release"},
    "acquired alone": {"sem": "acquire"},
    "the scope of one program": {"scope": "cta"},
    "adds 2": {"amount": "%two"},
    "adds -1": {"amount": "%minus"},
    "adds any number": {"amount": "%n"},
    "the largest": {"kind": "max"},
    "exchanged": {"kind": "exch"},
    "some count": {"mask": "%even"},
    "the last but one": {"compare": "eq, %old, %last2"},
    "one of two last": {"compare": "sge, %old, %last2"},
    "not the last": {"compare": "ne, %old, %last"},
    "at most": {"compare": "sle, %old, %last"},
    "the last of a row": {"compare": "eq, %old, %lastx"},
    "the last of a column": {"compare": "eq, %old, %lasty"},
    "the last program's index": {"compare": "eq, %id, %last"},
    "the number afterwards is the last index": {
        "between": "%now = arith.addi %old, %one : i32", "compare": "eq, %now, %last",
    },
    "a parameter": {"compare": "eq, %old, %n"},
    "counts twice": {"count": TWICE},
    "counts twice with the first result": {"count": f"{add()}\n  {add(name='t')}"},
    "counts in a loop": {"count": IN_LOOP},
    "counts and looks in a loop": {
        "count": "scf.for %i = %zero to %two step %one : i32 {", "compare": "eq, %t, %last", "after": "}",
        "between": f"{STORE}\n  ttg.barrier all\n  {add(name='t')}",
    },
    "counts in a branch": {
        "count": f"%old = scf.if %even -> (i32) {{\n    {add(name='t')}\n    scf.yield %t : i32\n  }} else {{\n"
        "    scf.yield %last : i32\n  }"
    },
    "reset by all": {"after": RESET},
    "reset at first": {"before": f"{RESET}\n  {STORE}"},
    "reset elsewhere by the last of a row": {**BY_ROW, "then": ROW.replace("%cq", "%c1")},
    "written elsewhere by all": {"after": "tt.store %cp, %zero : !tt.ptr<i32>"},
    "two counters mixed up": {"between": add(name="t", at="%other"), "barrier": "", "count":
                              f"{add(at='%other', name='s')}\n  ttg.barrier all\n  {add()}", "compare": "eq, %s, %last"},
    "a place for each program": {"at": "%cp"},
    "a place for each row, and the last of all": {"at": "%cq"},
    "a place for each row, and all parts": {"at": "%cq", "compare": "eq, %old, %lastx"},
    "a place for each row, and columns": {"at": "%cq", "compare": "eq, %old, %lasty", "then": COLUMN},
    "a place for each column, and rows": {**BY_ROW, "at": "%cp"},
    "a place for each row, and one result": {
        **BY_ROW, "then": ROW.replace("%os = tt.addptr %out, %q", "%os = tt.addptr %out, %zero")
    },
    "read by all": {"then": "", "after": READ},
    "read before it is known": {"before": f"{STORE}\n  {READ}", "then": ""},
    "not the last reads": {"then": "} else {\n    " + READ},
    "an added number that wraps": {
        "between": "%big = arith.constant 2147483647 : i32\n  %w = arith.addi %old, %big : i32", "compare": "slt, %w, %zero",
    },
}
RACES = {
    "written afterwards", "written at the end", "relaxed", "the scope of one program", "the last but one", "one of two last",
    "not the last", "at most", "the last of a row", "the last of a column", "counts twice", "reset by all", "reset at first",
    "read by all", "not the last reads", "acquired alone", "released alone", "a place for each row, and all parts",
    "a place for each row, and one result",
}
"""Those of which a launch, whose programs run one after the other, shows the fault."""


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", RIGHT)
def test_the_last_program_comes_after_all_others(name: str) -> None:
    proof = proof_of(RIGHT[name])
    assert is_proven(proof), proof
    for grid in ((1, 1), (2, 1), (3, 2), (16, 2)):
        assert not is_broken(launch(counting(**RIGHT[name]), grid))


@pytest.mark.one_in(25)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_last_program_orders_nothing(name: str) -> None:
    assert proof_of(WRONG[name]).verdict("races") not in ("proven", "proven under")
    if name in RACES:
        assert is_broken(launch(counting(**WRONG[name])))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("assume", [
    ASSUME[1:], ("at_launch(count[:]) == 1", *ASSUME[1:]), ("at_launch(count[:]) == -1", *ASSUME[1:]),
    ("at_launch(count[:]) == n", *ASSUME[1:]), ("at_launch(other[:]) == 0", *ASSUME[2:]),
])  # fmt: skip
def test_a_counter_that_may_start_at_another_number_orders_nothing(assume: tuple[str, ...]) -> None:
    """One that starts lower never comes so far; that the last program finds less is nothing that is looked for."""
    proof = proof_of({}, assume)
    if "at_launch(count[:]) == -1" in assume:
        assert is_proven(proof)
    else:
        assert proof.verdict("races") in ("unknown", "refuted")


def test_a_counter_that_starts_elsewhere_counts_from_there() -> None:
    between = "%five = arith.constant 5 : i32\n  %from = arith.subi %old, %five : i32"
    change = {"between": between, "compare": "eq, %from, %last"}
    assert is_proven(proof_of(change, ("at_launch(count[:]) == 5", *ASSUME[1:])))
    assert not is_proven(proof_of(change, ("at_launch(count[:]) == 6", *ASSUME[1:])))
    assert not is_broken(launch(counting(**change), start=5))
    assert is_broken(launch(counting(**change), start=6))


@pytest.mark.parametrize("change", [
    {"amount": "%zero"}, {"between": "%m = arith.subi %old, %two : i32", "compare": "eq, %m, %last"},
])  # fmt: skip
def test_a_number_that_no_counter_comes_to_is_found_by_nobody(change: dict[str, str]) -> None:
    assert is_proven(proof_of(change))
    assert not is_broken(launch(counting(**change)))
