"""The corpus: how much is proven with specifications guessed from its one launch each, and how much with written ones."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("z3")

from ...support.corpus import CASES, ROOT, WITH_DATA, Case, read
from ...support.proving.launches import PROVED
from ...support.tiers import both_tiers

QUICK = ("vec_add", "gather_axes", "raw_early_exit")
"""Kernels of the fast tier: both properties are proven."""
MIN_BOUNDS, MIN_RACES, MIN_BOTH, MIN_ORDER = 144, 142, 142, 140
"""Kernels, of 147 with a launch, of which bounds, races, both, and order are proven; some under a condition."""
WRITTEN = json.loads((ROOT.parent / "proofs" / "written.json").read_text())
"""Specifications where a guess is not enough, and verdicts, with reasons, where none is."""
GUESSED = {
    "desc_gather_scatter": "distinct(idx[:])", "compact_positive": "at_launch(counter[:]) == 0",
    "spin_lock_sum": "0 <= lock[:] <= 1",
}  # fmt: skip
"""Kernels with a written specification that their guess proves, too, and what it assumes for that."""


@pytest.mark.slow
@both_tiers
def test_most_kernels_are_proven_with_guessed_specifications(in_full: bool) -> None:
    verdicts = {}
    for name in WITH_DATA if in_full else QUICK:
        case = Case(name)
        arguments, _ = case.arguments()
        proof = read(name).prove.like(tuple(case.facts["grid"]), *arguments, properties=("bounds", "races", "order"))
        verdicts[name] = proof.verdict("bounds"), proof.verdict("races"), proof.verdict("order")
    bounds = [name for name, (one, _, _) in verdicts.items() if one in PROVED]
    races = [name for name, (_, two, _) in verdicts.items() if two in PROVED]
    order = [name for name, (_, _, three) in verdicts.items() if three in PROVED]
    both = sorted({*bounds} & {*races})
    rest = {name: each for name, each in verdicts.items() if name not in {*both} & {*order}}
    counts = len(bounds), len(races), len(both), len(order)
    print(f"bounds {counts[0]}, races {counts[1]}, both {counts[2]}, order {counts[3]} of {len(verdicts)}; the rest: {rest}")
    if in_full:
        least = MIN_BOUNDS, MIN_RACES, MIN_BOTH, MIN_ORDER
        assert all(one >= two for one, two in zip(counts, least, strict=True)), rest
    else:
        assert not rest


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in WRITTEN["specifications"]])
def test_kernels_are_proven_with_written_specifications(name: str) -> None:
    proof = read(name).prove(**WRITTEN["specifications"][name], properties=("bounds", "races"))
    assert proof.verdict("bounds") in PROVED, proof
    assert proof.verdict("races") in PROVED, proof


@pytest.mark.parametrize("name", WRITTEN["reasons"])
def test_what_is_proven_of_no_kernel_has_a_reason(name: str) -> None:
    """A kernel that is proven after all has to leave the list."""
    case = Case(name)
    bounds, races, reason = WRITTEN["reasons"][name]
    assert reason
    if name in WITH_DATA:
        arguments, _ = case.arguments()
        proof = read(name).prove.like(tuple(case.facts["grid"]), *arguments, properties=("bounds", "races"))
    else:
        proof = read(name).prove(properties=("bounds", "races"))
    assert (proof.verdict("bounds"), proof.verdict("races")) == (bounds, races)


def test_every_kernel_is_proven_or_has_a_reason() -> None:
    """With those that are guessed, of which another test counts the proven ones."""
    listed = {*WRITTEN["specifications"], *WRITTEN["reasons"]}
    assert listed <= {*CASES}
    assert len(CASES) - len(WRITTEN["reasons"]) == 147
    assert len(WITH_DATA) - len((listed - {*GUESSED}) & {*WITH_DATA}) == MIN_BOTH


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", GUESSED)
def test_kernels_that_had_to_be_written_are_proven_with_their_guess(name: str) -> None:
    case = Case(name)
    arguments, _ = case.arguments()
    proof = read(name).prove.like(tuple(case.facts["grid"]), *arguments, properties=("bounds", "races"))
    assert {proof.verdict("bounds"), proof.verdict("races")} <= {*PROVED}
    assert GUESSED[name] in proof.specification.assume
