"""A prover of "order" that is wrong is noticed: rules are made so, and threads, enumerated, break what is proven."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("z3")

from joinery.lowering.prove.order import pending, verdicts
from joinery.lowering.prove.order.pending import Pair, Pending, Ways
from joinery.lowering.prove.terms.atoms import LANE
from joinery.lowering.prove.terms.renaming import Renaming
from joinery.lowering.prove.world import World

from ....support.proving.differential import MAKERS, check
from ....support.proving.makers.ordering_kernels import (
    Barrier,
    Choice,
    Loop,
    Touch,
    disagreement,
    random_body,
)
from ....support.tiers import both_tiers

KERNELS = 400


def is_noticed(seed: int) -> bool:
    body = random_body(random.Random(seed))
    return disagreement(body)[0] != ""


def _all_ways(ways: Any, before: Callable[..., Ways] = pending._either) -> Ways:
    found = before(ways)
    return Ways(found.head, found.tail, all(each.passes for each in ways))


def _not_carried(self: Pending, tail: Any, head: Any, carried: Any = None, before: Callable[..., None] = Pending._meet) -> None:
    if carried is None:
        before(self, tail, head)


def _at_least_once(self: Pending, op: Any, before: Callable[..., Ways] = Pending._operation) -> Ways:
    found = before(self, op)
    if op.name != "scf.for":
        return found
    return Ways(found.head, found.tail, not any(each.name == "ttg.barrier" for each in op.walk()))


def _of_one_shape(pair: Pair, as_written: Any) -> bool:
    return pair.one.shape == pair.two.shape


def _all_scalars(pair: Pair, as_written: Any, before: Callable[[Pair, Any], bool] = verdicts._is_in_order) -> bool:
    return before(pair, as_written) or (not pair.one.shape and not pair.two.shape)


def _all_loops(prepared: Any) -> frozenset[Any]:
    return frozenset([op for op in prepared.function.walk() if op.name == "scf.for"])


def _all_barriers(prepared: Any) -> frozenset[Any]:
    return frozenset([op for op in prepared.function.walk() if op.name == "ttg.barrier"])


def _of_one_program(self: World, loops: Any) -> Renaming:
    return Renaming(self.terms, LANE)


def _of_one_lane(self: World, loops: Any) -> Renaming:
    return Renaming(self.terms, "nothing", *loops)


SABOTAGE: dict[str, tuple[Any, str, Any, int]] = {
    "a barrier in one branch": (pending, "_either", _all_ways, 193),
    "iterations meet in the order of the text": (Pending, "_meet", _not_carried, 11),
    "loops run": (Pending, "_operation", _at_least_once, 105),
    "iterations are the same": (World, "other_lane_and", _of_one_program, 11),
    "lanes are the same": (World, "other_lane_and", _of_one_lane, 0),
    "a lane is one thread": (verdicts, "_is_in_order", _of_one_shape, 5),
    "scalars are one thread's": (verdicts, "_is_in_order", _all_scalars, 5),
    "scalars of all loops are in the order of the text": (verdicts, "loops_as_written", _all_loops, 220),
    "atomics commute": (verdicts, "_commuting", lambda op: op.name if op.name == "tt.atomic_rmw" else None, 186),
    "what is loaded has no part in anything": (verdicts, "is_stored_in_place", lambda load, store: True, 5),
}  # fmt: skip
"""What is made wrong: where, its name, what stands there then, and the first random kernel that notices it."""


@pytest.mark.one_in(10)
@pytest.mark.parametrize("name", SABOTAGE)
def test_a_wrong_rule_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value, seed = SABOTAGE[name]
    assert not is_noticed(seed)
    monkeypatch.setattr(owner, attribute, value)
    assert is_noticed(seed)


def test_barriers_that_loads_are_fetched_ahead_of_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random kernels have no such loops that nothing else breaks."""
    waiting = Choice(0, (Barrier(),), (Barrier(),))
    body = (Loop((Touch(1, "load"), waiting, Touch(2, "store", step=-1, base=31), waiting)),)
    assert not disagreement(body)[0]
    monkeypatch.setattr(verdicts, "barriers_of", _all_barriers)
    assert disagreement(body)[0]


@pytest.mark.slow
@both_tiers
def test_random_kernels_are_in_the_order_that_is_proven(in_full: bool) -> None:
    """Of those that are in an order nearly all are proven."""
    right = proven = 0
    for seed in range(KERNELS if in_full else 25):
        text, its_right, its_proven = disagreement(random_body(random.Random(seed)))
        assert not text, (seed, text)
        right, proven = right + its_right, proven + its_proven
    assert proven > 0.85 * right > 0


@pytest.mark.slow
@both_tiers
def test_what_is_proven_of_other_random_kernels_holds_in_the_sanitizer(in_full: bool) -> None:
    """In launches that need barriers no lane loads what another one stored, by an access that is proven."""
    found: Counter[tuple[str, str]] = Counter()
    for kind in MAKERS if in_full else ("stores", "random"):
        for seed in range(60 if in_full else 6):
            found += check(seed, 4, kind=kind, properties=("bounds", "order"))
    assert found["order", "proven"] > 0
