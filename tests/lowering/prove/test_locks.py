"""Locks: what programs do while they hold one is in an order, and whatever is not exactly that is not said to be."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ...support.corpus import read
from .evaluate.test_addresses import is_broken, is_proven

EXTENTS = {"x": "n", "lock": 1, "total": 1}
ASSUME = ("0 <= lock[:] <= 1",)


def locked(
    *, sem: str = "acq_rel", back: str = "acq_rel", scope: str = "gpu", taken: int = 1, free: int = 0,
    compare: str = "eq, %old, %one", at: str = "%lock", mask: str = "%true", kind: str = "exch",
    barrier: str = "ttg.barrier all", before: str = "", inside: str = "", between: str = "", after: str = "", give: str = "",
) -> Any:  # fmt: skip
    """Each program adds its index to one element while it holds a lock."""
    exchange = f"tt.atomic_rmw {kind}, {back}, {scope}, {at}, %f, {mask} : (!tt.ptr<i32>, i32, i1) -> i32"
    return jn.kernel.from_ttir(f"""
tt.func public @k(%x: !tt.ptr<i32>, %lock: !tt.ptr<i32>, %total: !tt.ptr<i32>, %n: i32) {{
  %true = arith.constant true
  %one = arith.constant 1 : i32
  %zero = arith.constant 0 : i32
  %f = arith.constant {free} : i32
  %t = arith.constant {taken} : i32
  %p = tt.get_program_id x : i32
  %even = arith.cmpi slt, %p, %one : i32
  %lp = tt.addptr %lock, %p : !tt.ptr<i32>, i32
  {before}
  scf.while : () -> () {{
    {inside}
    %old = tt.atomic_cas {sem}, {scope}, {at}, %zero, %t : (!tt.ptr<i32>, i32, i32) -> i32
    %again = arith.cmpi {compare} : i32
    scf.condition(%again)
  }} do {{
    scf.yield
  }}
  %v = tt.load %total : !tt.ptr<i32>
  %w = arith.addi %v, %p : i32
  tt.store %total, %w : !tt.ptr<i32>
  {barrier}
  {between}
  {give or f"%g = {exchange}"}
  {after}
  tt.return
}}
""")


def launch(subject: Any, programs: int = 4) -> Any:
    arrays = [np.zeros(programs, np.int32), np.zeros(programs, np.int32), np.zeros(1, np.int32)]
    return subject.sanitize(programs, *arrays, programs)


ADD = "%u = tt.load %total : !tt.ptr<i32>\n  %e = arith.addi %u, %one : i32\n  tt.store %total, %e : !tt.ptr<i32>"
LEAVES = """scf.if %even {
    %g = tt.atomic_rmw exch, acq_rel, gpu, %lock, %f, %true : (!tt.ptr<i32>, i32, i1) -> i32
  }"""
WRONG: dict[str, dict[str, Any]] = {
    "before it is taken": {"before": ADD},
    "while it is taken": {"inside": ADD},
    "behind the barrier": {"between": ADD},
    "after it is given back": {"after": ADD},
    "no barrier": {"barrier": ""},
    "a barrier for shared memory": {"barrier": "ttg.barrier local"},
    "taken without an order": {"sem": "relaxed"},
    "taken with an order of what was before": {"sem": "release"},
    "given back without an order": {"back": "relaxed"},
    "given back with an order of what comes": {"back": "acquire"},
    "the order of one program": {"scope": "cta"},
    "a lock for each program": {"at": "%lp"},
    "exchanged for the same number": {"taken": 0},
    "given back as another number": {"free": 2},
    "not given back": {"free": 1},
    "given back by a sum": {"kind": "add"},
    "given back by some": {"mask": "%even"},
    "given back in a branch": {"give": LEAVES},
    "goes on while it is free": {"compare": "eq, %old, %zero"},
    "goes on while it is not taken": {"compare": "ne, %old, %one"},
    "goes on while it is more": {"compare": "sgt, %old, %zero"},
    "goes on by another number": {"compare": "eq, %p, %one"},
    "given back twice": {"before": LEAVES.splitlines()[1].replace("%g", "%h")},
    "read by others": {"before": "%h = tt.load %lock : !tt.ptr<i32>"},
    "a store into it": {"before": "tt.store %lock, %zero : !tt.ptr<i32>"},
    "a store to a place that is not known": {"before": "tt.store %q, %zero : !tt.ptr<i32>"},
}
RACES = {"before it is taken", "after it is given back", "the order of one program", "a lock for each program",
         "taken without an order", "taken with an order of what was before", "given back without an order",
         "given back with an order of what comes"}  # fmt: skip
"""Those of which a launch of a few programs, one after the other, shows the fault."""


def proof_of(change: dict[str, Any], assume: tuple[str, ...] = ASSUME) -> Any:
    change = dict(change)
    if change.get("before", "").startswith("tt.store %q"):
        far = "%far = arith.muli %n, %n : i32\n  %q = tt.addptr %x, %far : !tt.ptr<i32>, i32\n  "
        change["before"] = far + change["before"]
    return locked(**change).prove(assume, {**EXTENTS, "lock": "n", "total": 1}, "n")


def is_proven_of(change: dict[str, Any], assume: tuple[str, ...]) -> bool:
    """Whether bounds and races are proven; what is assumed of a lock that is written otherwise is refused."""
    try:
        return is_proven(proof_of(change, assume))
    except jn.UserError as error:
        if "may not last" not in str(error):
            raise
        return False


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("assume", "change"), [
    (ASSUME, {}),
    (ASSUME, {"compare": "eq, %one, %old"}),
    ((), {"compare": "ne, %old, %zero"}),
    ((), {"compare": "ne, %old, %zero", "taken": 7}),
    (ASSUME, {"sem": "acquire", "back": "release", "scope": "sys"}),
    (ASSUME, {"barrier": "gpu.barrier"}),
    (ASSUME, {"barrier": "scf.if %even {\n  " + ADD + "\n  }\n  ttg.barrier all"}),
])  # fmt: skip
def test_what_programs_do_while_they_hold_a_lock_is_in_an_order(assume: tuple[str, ...], change: dict[str, Any]) -> None:
    assert is_proven(proof_of(change, assume))
    for programs in (1, 2, 5):
        assert not is_broken(launch(locked(**change), programs))


@pytest.mark.one_in(13)
@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_lock_orders_nothing(name: str) -> None:
    for assume in (ASSUME, ()):
        assert not is_proven_of(WRONG[name], assume)
    if name in RACES:
        assert is_broken(launch(locked(**WRONG[name])))


@pytest.mark.parametrize("assume", [(), ("0 <= lock[:] <= 2",), ("-1 <= lock[:] <= 1",), ("0 <= lock[:]",), ("lock[:] <= 1",)])
def test_a_lock_that_may_be_another_number_at_first_is_none(assume: tuple[str, ...]) -> None:
    """The first program that finds a 2 goes on beside whoever holds it."""
    assert not is_proven_of({}, assume)


def test_what_is_assumed_of_a_lock_lasts_only_if_all_that_is_written_is_of_the_range() -> None:
    for change in ({"taken": 2}, {"free": 5}, {"kind": "add"}, {"before": "tt.store %lock, %zero : !tt.ptr<i32>"}):
        with pytest.raises(jn.UserError, match="may not last"):
            proof_of(change)
    with pytest.raises(jn.UserError, match="may not last"):
        proof_of({}, ("sorted(lock[:])",))


def test_the_sum_under_a_lock_is_proven_and_breaks_nothing() -> None:
    subject = read("spin_lock_sum")
    for n in (1, 63, 64, 65, 200):
        arrays = [np.ones(n, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32), np.zeros(1, np.int32)]
        assert not is_broken(subject.sanitize(-(-n // 64), *arrays, n))
        assert arrays[1][0] == n
