"""What is proven to be initialised of random kernels is so in launches, and what is refuted is not."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("z3")

from ....support.proving.differential import MAKERS, check

_PROPERTIES = ("bounds", "initialised")


def test_what_is_proven_of_random_kernels_holds_in_launches() -> None:
    found = sum([check(seed, 3, kind="undefined", properties=_PROPERTIES) for seed in range(10)], Counter())
    assert found["initialised", "proven"] > 10
    assert found["initialised", "unknown"] > 3


@pytest.mark.slow
def test_what_is_refuted_is_run() -> None:
    found = sum([check(seed, 3, True, "undefined", _PROPERTIES) for seed in range(40)], Counter())
    assert found["initialised", "refuted"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["undefined", *MAKERS])
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_what_is_proven_of_many_random_kernels_holds_in_launches(first: int, kind: str) -> None:
    """`python -m tests.support.proving.differential undefined SEED COUNT LAUNCHES` tries others."""
    for seed in range(first, first + 100):
        check(seed, 8, kind=kind, properties=_PROPERTIES)
