"""What is proven to be initialised of random kernels is so in launches, and what is refuted is not."""

from __future__ import annotations

from collections import Counter

import pytest

pytest.importorskip("z3")

from ....support.proving.differential import MAKERS, UNDEFINED_MAKERS, check

_PROPERTIES = ("bounds", "initialised")


@pytest.mark.slow
def test_what_is_proven_of_random_kernels_holds_in_launches() -> None:
    found = sum([check(seed, 3, kind="undefined", properties=_PROPERTIES) for seed in range(10)], Counter())
    assert found["initialised", "proven"] > 10
    assert found["initialised", "unknown"] > 3


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seeds"), [("nesting", range(2, 6)), ("shaped", range(8))])
def test_what_is_proven_of_nested_or_shaped_kernels_holds_in_launches(kind: str, seeds: range) -> None:
    found = sum([check(seed, 3, kind=kind, properties=_PROPERTIES) for seed in seeds], Counter())
    assert found["initialised", "proven"] > 10
    assert found["initialised", "unknown"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1257, 1502, 1538, 2618])
def test_what_is_proven_of_loops_inside_loops_holds_in_launches(seed: int) -> None:
    """Earlier rules proved wrong things of each: what was shown under one assumption was kept under another one."""
    found = check(seed, 30, kind="carrying", properties=_PROPERTIES)
    assert found["initialised", "proven"] >= 2
    assert found["initialised", "unknown"] >= 2


@pytest.mark.slow
def test_what_is_refuted_is_run() -> None:
    found = sum([check(seed, 3, True, "undefined", _PROPERTIES) for seed in range(40)], Counter())
    assert found["initialised", "refuted"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*UNDEFINED_MAKERS, *MAKERS])
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_what_is_proven_of_many_random_kernels_holds_in_launches(first: int, kind: str) -> None:
    """`python -m tests.support.proving.differential undefined SEED COUNT LAUNCHES` tries others."""
    for seed in range(first, first + 100):
        check(seed, 8, kind=kind, properties=_PROPERTIES)
