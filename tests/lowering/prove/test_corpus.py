"""The corpus with specifications guessed from its one launch each: how much is proven."""

from __future__ import annotations

import pytest

pytest.importorskip("z3")

from ...support.corpus import WITH_DATA, Case, read
from ...support.proving.launches import PROVED
from ...support.tiers import both_tiers

QUICK = ("vec_add", "gather_axes", "raw_early_exit")
"""Kernels of the fast tier: both properties are proven."""
MIN_BOUNDS, MIN_RACES, MIN_BOTH = 135, 131, 131
"""Kernels, of 147 with a launch, of which bounds, races and both are proven; some under a condition."""


@both_tiers
def test_most_kernels_are_proven_with_guessed_specifications(in_full: bool) -> None:
    verdicts = {}
    for name in WITH_DATA if in_full else QUICK:
        case = Case(name)
        arguments, _ = case.arguments()
        proof = read(name).prove.like(tuple(case.facts["grid"]), *arguments, properties=("bounds", "races"))
        verdicts[name] = proof.verdict("bounds"), proof.verdict("races")
    bounds = [name for name, (one, _) in verdicts.items() if one in PROVED]
    races = [name for name, (_, two) in verdicts.items() if two in PROVED]
    both = sorted({*bounds} & {*races})
    rest = {name: each for name, each in verdicts.items() if name not in both}
    print(f"bounds {len(bounds)}, races {len(races)}, both {len(both)} of {len(verdicts)}; the rest: {rest}")
    if in_full:
        assert (len(bounds) >= MIN_BOUNDS, len(races) >= MIN_RACES, len(both) >= MIN_BOTH) == (True, True, True), rest
    else:
        assert not rest
