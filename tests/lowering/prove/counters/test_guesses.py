"""What counters and locks hold at first is guessed from the launch, where more is proven with it."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

pytest.importorskip("z3")

from ....support.corpus import Case, read


def proof_of(name: str, **replaced: Any) -> jn.kernel.Proof:
    case = Case(name)
    args, _ = case.arguments()
    kernel = read(name)
    names = [each.name for each in kernel.parameters]
    given = [replaced.get(own, arg) for own, arg in zip(names, args, strict=True)]
    return kernel.prove.like(tuple(case.facts["grid"]), *given)


@pytest.mark.slow
def test_a_counter_begins_with_what_it_holds() -> None:
    proof = proof_of("compact_positive")
    assert "at_launch(counter[:]) == 0" in proof.specification.assume
    assert proof.verdict("bounds") == proof.verdict("races") == "proven"
    assert any("at_launch(counter[:]) == 0" in each for each in proof.doubts)


def test_a_lock_is_free_or_taken() -> None:
    proof = proof_of("spin_lock_sum")
    assert "0 <= lock[:] <= 1" in proof.specification.assume
    assert proof.verdict("races") == "proven"


@pytest.mark.one_in(2)
@pytest.mark.parametrize("held", [2, -1])
def test_a_lock_that_holds_something_else_is_none(held: int) -> None:
    proof = proof_of("spin_lock_sum", lock=np.full(1, held, np.int32))
    assert not any("lock" in each for each in proof.specification.assume)
    assert proof.verdict("races") != "proven"


def test_a_counter_that_holds_two_numbers_begins_with_none() -> None:
    proof = proof_of("compact_positive", counter=np.array([0, 1], np.int32))
    assert not any("counter" in each for each in proof.specification.assume)


@pytest.mark.slow
def test_several_launches_must_hold_the_same() -> None:
    """A counter that begins with another number in one of them is not said to begin with any."""
    case, kernel = Case("compact_positive"), read("compact_positive")
    args, _ = case.arguments()
    names = [each.name for each in kernel.parameters]
    grid = tuple(case.facts["grid"])
    others = [np.full_like(arg, 1) if own == "counter" else arg for own, arg in zip(names, args, strict=True)]
    assert kernel.prove.specification(grid, *others).assume == ("n >= 1",)  # elements from the second on do not fit
    both = kernel.prove.specification(grid, *others, before=[kernel.prove.launch(grid, *args)])
    assert not any("counter" in each for each in both.assume)
    both = kernel.prove.specification(grid, *args, before=[kernel.prove.launch(grid, *others)])
    assert not any("counter" in each for each in both.assume)
    assert kernel.prove.describes(kernel.prove.specification(grid, *args), kernel.prove.launch(grid, *args))
    assert not kernel.prove.describes(kernel.prove.specification(grid, *args), kernel.prove.launch(grid, *others))
