"""Random kernels notice a prover that is wrong: one part after the other is made so, and some run refutes what is proven."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import joinery as jn
import pytest

pytest.importorskip("z3")

from joinery.lowering.prove import claims, found, preparation, world
from joinery.lowering.prove.evaluate import contexts, evaluator, loops
from joinery.lowering.prove.races import verdicts as races
from joinery.lowering.prove.terms.formulas import FALSE, Formula, at_most, either, less, within

from ...support.proving import (
    attacks,
    attacks_on_control,
    attacks_on_memory,
    differential,
    exhausting,
    far_runs,
    stating,
    witness,
)
from ...support.proving.differential import MAKERS
from ...support.proving.faulty import FAULTY
from ...support.proving.hostile import HOSTILE
from ...support.proving.makers.small_counting import small_counting_kernel

KERNELS = 150


def noticed(first: int = 0) -> str:
    """Which of three witnesses notices a fault of the prover, and by which kernel; "" if none does."""
    for seed in range(first, first + KERNELS):
        for name, check in (("terms", _terms), ("far", _far), ("near", _near)):
            try:
                check(seed)
            except AssertionError:
                return f"{name}, kernel {seed}"
    return ""


def _terms(seed: int) -> None:
    rng = random.Random(seed)
    witness.check(MAKERS["idioms"](rng), rng, 2, 25, "")


def _far(seed: int) -> None:
    far_runs.check_random("idioms", seed, 5, values=8)


def _near(seed: int) -> None:
    differential.check(seed, 8, kind="idioms")


def _shortened(world: Any, access: Any, pointer: Any) -> Formula | None:
    """An array that seems to have an element more than it has."""
    if access.is_gather or pointer.base not in world.extents:
        return None
    size = world.prepared.parameters[pointer.base].element_size
    end = (world.extents[pointer.base] + 1) * size
    return either(at_most(pointer.offset, -1), less(end, pointer.offset + access.size))


def _fits(self: evaluator.Evaluator, number: Any, width: int) -> bool:
    """Numbers fit as soon as they are not shown to be outside."""
    half = 1 << (width - 1)
    return not self.run.solver.is_impossible(*self.run.base, *self.given, within(number, -half, half - 1))


def _proven(*args: Any) -> found.Found:
    return found.Found("proven")


def _of_any_scope(
    self: races.Races, one: Any, two: Any, before: Callable[..., Any] = races.Races._meeting
) -> Any:
    return _proven() if one.is_atomic and two.is_atomic else before(self, one, two)


def _one_less(run: Any, loop: Any, before: Callable[..., Any] = loops._iterations) -> Any:
    count = before(run, loop)
    return None if count is None else count - 1


SABOTAGE: dict[str, tuple[Any, str, Any]] = {
    "nothing wraps": (evaluator.Run, "wraps", False),
    "numbers fit that may": (evaluator.Evaluator, "fits", _fits),
    "arrays are longer": (claims, "outside", _shortened),
    "the other branch has the same condition": (contexts, "negated", lambda condition: condition),
    "loops run once less": (loops, "_iterations", _one_less),
    "atomics of any scope are ordered": (races.Races, "_meeting", _of_any_scope),
}  # fmt: skip
"""What is made wrong: where, its name, what stands there then."""
QUICK = {"numbers fit that may": 1, "loops run once less": 2}
"""What is tried in the fast tier, and the first kernel that notices it: earlier ones take their time to notice nothing."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in SABOTAGE]
)
def test_a_wrong_prover_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value = SABOTAGE[name]
    monkeypatch.setattr(owner, attribute, value)
    assert noticed(QUICK.get(name, 0))


@pytest.mark.slow
def test_lanes_that_never_meet_are_noticed_by_kernels_of_many_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races.Races, "_lanes", _proven)
    assert _is_refuted(lambda seed: differential.check(seed, 8, kind="stores"))


def _is_refuted(check: Callable[[int], object], first: int = 0) -> bool:
    """Whether a kernel refutes what is proven of it. first: the first one that did, before which none is tried."""
    for seed in range(first, first + KERNELS):
        try:
            check(seed)
        except AssertionError:
            return True
    return False


def _first_axis(one: Any, two: Any, before: Callable[..., Any] = claims.others) -> list[Formula]:
    found = before(one, two)
    return [*found[:1], FALSE, FALSE] if len(found) == 3 else found


def _in_the_kernel_alone(inlined: Any, before: Callable[..., Any] = preparation._tensor_maps) -> Any:
    return [each for each in before(inlined) if "called at" not in each.line]


def _no_longer_than_extents(self: world.World, before: Callable[..., Any] = world.World._describe_tensors) -> None:
    before(self)
    self.base += [at_most(self.extents[position], extent) for position, extent in self.specified.items()]


STATED: dict[str, tuple[Any, str, Any]] = {
    "tensor maps are looked for in the kernel alone": (preparation, "_tensor_maps", _in_the_kernel_alone),
    "arrays of descriptors are as long as their extents": (world.World, "_describe_tensors", _no_longer_than_extents),
    "a name means one parameter": (preparation, "_meant", lambda name: set()),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", STATED)
def test_what_is_taken_from_texts_and_specifications_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, attribute, value = STATED[name]
    monkeypatch.setattr(owner, attribute, value)
    assert _is_refuted(stating.check)


@pytest.mark.slow
def test_programs_that_meet_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two stores of two programs are taken for disjoint unless they are one store."""
    before = races.Races._meeting
    monkeypatch.setattr(
        races.Races, "_meeting", lambda self, one, two: before(self, one, two) if one is two else _proven()
    )
    assert _is_refuted(lambda seed: differential.check(seed, 5, kind="stores"), 5)
    assert _is_refuted(exhausting.check)


@pytest.mark.slow
def test_programs_of_a_second_axis_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "others", _first_axis)
    assert _is_refuted(lambda seed: differential.check(seed, 8, kind="stores"))


def test_counters_that_wrap_are_noticed_where_nearly_all_sizes_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(contexts, "_stays_exact", lambda *args: True)
    assert _is_refuted(exhausting.check, 4)


def test_lanes_that_never_meet_are_noticed_by_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(races.Races, "_lanes", _proven)
    every = FAULTY | HOSTILE | attacks.ATTACKS | attacks_on_memory.ATTACKS
    subjects = [each for each in every.values() if each.launch is not None and each.launch[2] == "lane-race"]
    proofs = [
        jn.kernel.from_ttir(each.text).prove(each.assume, each.extents, each.grid, (each.prop,))
        for each in subjects
    ]
    assert any(proof.ok for proof in proofs)


def test_counters_that_are_taken_for_exact_are_noticed_by_attacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop with a condition whose counter wraps."""
    monkeypatch.setattr(loops, "_stays_exact", lambda *args: True)
    subjects = [each for name, each in attacks_on_control.ATTACKS.items() if "a counter that wraps" in name]
    proofs = [jn.kernel.from_ttir(each.text).prove(each.assume, each.extents, each.grid, (each.prop,)) for each in subjects]
    done = ("proven", "never executed")
    assert sum(all(each.verdict in done for each in proof.accesses) for proof in proofs) > 4


@pytest.mark.slow
def test_counters_that_are_taken_for_exact_are_noticed_where_nearly_all_sizes_are_tried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loops, "_stays_exact", lambda *args: True)
    assert _is_refuted(lambda seed: exhausting.check(seed, small_counting_kernel))
