"""A prover that is wrong about counters is noticed, and what is proven of random kernels that count holds in random orders."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.counters import adding, last
from joinery.lowering.prove.counters.last import LastProgram
from joinery.lowering.prove.terms import counts
from joinery.lowering.prove.terms.formulas import TRUE
from joinery.lowering.prove.terms.polynomials import constant

from ....support.proving import consistency
from ....support.proving.counting import check
from ....support.proving.launches import PROVED
from ....support.tiers import both_tiers
from ..terms.test_lemmas import holds
from . import test_last, test_slots


@pytest.mark.slow
@both_tiers
def test_what_is_proven_of_random_kernels_that_count_holds_in_random_orders(in_full: bool) -> None:
    """`python -m tests.support.proving.counting SEED COUNT ORDERS` tries others."""
    found = sum([check(seed, 20) for seed in range(1000 if in_full else 20)], Counter())
    assert found["free"] > 10
    assert found["racing"] > 5


def _of_fewer(self: LastProgram, access: Any, level: Any, before: Any = LastProgram._finds_all) -> bool:
    self._start = self._start - 1
    try:
        return bool(before(self, access, level))
    finally:
        self._start = self._start + 1


def _named(*names: str) -> Callable[..., str]:
    """Reads each of some names as the last one of them."""
    before = last.enum_name
    return lambda known, value: names[-1] if before(known, value) in names else before(known, value)


def _of_rows(self: LastProgram, level: Any) -> tuple[int, ...]:
    _, pointer, _ = last.claims.located(self._world, self.access, level)
    return (0,) if self._world.terms.depends(pointer.offset) else ()


SABOTAGE: dict[str, tuple[Any, str, Any, str]] = {
    "barriers are not looked at": (last, "_has_barrier", lambda op, behind=None: True, "no barrier"),
    "one other program may be missing": (LastProgram, "_finds_all", _of_fewer, "the last but one"),
    "all programs have one place": (LastProgram, "_other_locations", lambda self, level: [], "a place for each program"),
    "the rows of places are other ones": (LastProgram, "_found_shared", _of_rows, "a place for each row, and columns"),
    "what else writes is not looked at": (LastProgram, "_is_counter_under", lambda self, level: True, "counts twice"),
    "all is done before": (LastProgram, "_is_before", lambda self, access: True, "written afterwards"),
    "loops are not looked at": (last, "runs_once", lambda run, op: True, "counts and looks in a loop"),
    "any number is 1": (last, "number_of", lambda world, op, ssa: 1, "adds 2"),
    "orders are not looked at": (last, "enum_name", _named("relaxed", "acq_rel"), "relaxed"),
    "kinds are not looked at": (last, "enum_name", _named("max", "add"), "the largest"),
}
"""What is made wrong: where, its name, what stands there then, and a kernel that is proven then, and wrong."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SABOTAGE)
def test_a_wrong_rule_of_the_last_program_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value, subject = SABOTAGE[name]
    monkeypatch.setattr(owner, attribute, value)
    assert test_last.proof_of(test_last.WRONG[subject]).verdict("races") in PROVED


OF_SLOTS: dict[str, tuple[Any, str, Any, str]] = {
    "what else writes is not looked at": (adding, "_array_of", lambda prepared, access, before=adding._array_of:
                                          -1 if access.op.name == "tt.store" else before(prepared, access),
                                          "the counter is reset"),
    "kinds are not looked at": (adding, "enum_name", _named("exch", "add"), "exchanged"),
    "what reductions do is not looked at": (adding, "single_operation", lambda region: _Sum(), "the largest of those before"),
}


class _Sum:
    name = "arith.addi"


@pytest.mark.parametrize("name", OF_SLOTS)
def test_a_wrong_rule_of_places_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value, subject = OF_SLOTS[name]
    monkeypatch.setattr(owner, attribute, value)
    proof = test_slots.proof_of(test_slots.WRONG[subject])
    own = [each.verdict for each in proof.accesses if each.operation == "tt.store" and each.array == "o"]
    assert {*own} <= {*PROVED}


@pytest.mark.slow
def test_what_is_said_of_sums_holds_for_all_small_blocks() -> None:
    """Of each block with four elements, and of each two of its lanes; what is not the sum of a block breaks it."""
    for block in itertools.product(range(3), repeat=4):
        sums, whole = [sum(block[: lane + 1]) for lane in range(4)], constant(sum(block))
        for lanes in itertools.product(range(4), repeat=2):
            counted = {
                at: counts.Prefix(0, constant(lane), constant(block[lane]), whole, TRUE, ()) for at, lane in enumerate(lanes)
            }
            said = list(counts.relations(counted))
            assert all(holds(each, {at: sums[lane] for at, lane in enumerate(lanes)}) for each in said)
            for wrong in itertools.product(range(-1, 9), repeat=2):
                if lanes[0] < lanes[1] and all(holds(each, dict(enumerate(wrong))) for each in said):
                    assert block[lanes[0]] <= wrong[0] <= wrong[1] - block[lanes[1]]
                    assert wrong[1] <= sum(block)


def test_what_is_said_of_two_programs_that_add_holds_in_each_order() -> None:
    for amounts in itertools.product(range(3), repeat=3):
        for order in itertools.permutations(range(3)):
            found, number = {}, 5
            for program in order:
                found[program], number = number, number + amounts[program]
            slots = {
                program: counts.Slot(0, constant(amounts[program]), TRUE, (constant(program),)) for program in range(3)
            }
            assert all(holds(each, found) for each in counts.relations(slots))
            if amounts[0] and amounts[1]:
                assert not all(holds(each, found | {0: found[1]}) for each in counts.relations(slots))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["plain", "one place for each row", "others leave", "adds 2", "counts and looks in a loop"])
def test_facts_of_counters_exclude_no_run(name: str) -> None:
    change = test_last.RIGHT.get(name) or test_last.WRONG.get(name, {})
    text = test_last.counting(**change).ttir
    assert not consistency.check(text, test_last.ASSUME, test_last.EXTENTS, ("grid_x", "grid_y"), random.Random(3))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ["plain", "some programs", "an element further", "adds 1", "a part too many"])
def test_facts_of_sums_and_places_exclude_no_run(name: str) -> None:
    change = test_slots.RIGHT.get(name) or test_slots.WRONG.get(name, {})
    text = test_slots.compacting(**change).ttir
    extents = {"x": "n", "o": "2 * n", "count": "64"}
    grid = ("cdiv(n, 8)", "2") if name == "an element further" else ("cdiv(n, 8)",)
    assert not consistency.check(text, ("at_launch(count[:]) == 0", "n <= 2**20"), extents, grid, random.Random(5))


# What is assumed


@pytest.mark.parametrize(("assume", "message"), [
    (["at_launch(count[:]) <= 0"], "at_launch"), (["at_launch(count) == 0"], "at_launch"),
    (["0 == at_launch(count[:])"], "expected"), (["at_launch(count[:]) == other[:]"], "at_launch"),
    (["at_launch(count[:]) == 0 or n >= 1"], "compared with sizes"),
    (["at_launch(count[:]) == 0", "at_launch(count[:]) == 1"], "twice"), (["at_launch(nothing[:]) == 0"], "no array"),
    (["at_launch(count[:]) == 0", "0 <= count[:] <= 1"], "one of the two"), (["at_launch(count[:]) == 2**31"], "contradict"),
    (["at_launch(count[:]) == n", "n <= -1", "n >= 1"], "contradict"), (["at_launch(count[:]) == rest"], "no number"),
    (["at_launch(count[:] == 0"], "expected"), (["at_launch(count[:])"], "at_launch"),
])  # fmt: skip
def test_what_says_nothing_of_a_launch_is_refused(assume: list[str], message: str) -> None:
    with pytest.raises(jn.UserError, match=message):
        test_last.proof_of({}, tuple(assume))


def test_arrays_of_floats_are_no_counters() -> None:
    kernel = jn.kernel.from_ttir("tt.func public @k(%x: !tt.ptr<f32>) {\n  tt.return\n}")
    with pytest.raises(jn.UserError, match="for integers"):
        kernel.prove(["at_launch(x[:]) == 0"])


def test_what_is_refuted_holds_what_is_said_at_launch() -> None:
    proof = test_last.proof_of({}, ("at_launch(count[:]) == 1", *test_last.ASSUME[1:]))
    refuted = [each.counterexample for each in proof.accesses if each.verdict == "refuted"]
    assert refuted
    assert all(each is not None and dict(each.contents)["count"] == 1 for each in refuted)


def test_a_kernel_whose_other_accesses_may_be_anywhere_has_no_counter() -> None:
    """What is not shown to be inside its array may write into the counter."""
    kernel = test_last.counting(before=f"%far = tt.addptr %out, %n : !tt.ptr<i32>, i32\n  tt.store %far, %p : !tt.ptr<i32>\n  "
                                f"{test_last.STORE}")  # fmt: skip
    proof = kernel.prove(test_last.ASSUME, test_last.EXTENTS, ("grid_x", "grid_y"), ("bounds", "races"))
    assert proof.verdict("races") not in PROVED
    assert not [each for each in proof.accesses if each.prop == "races" and each.verdict in PROVED]
