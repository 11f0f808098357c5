"""Verdicts on random kernels against the sanitizer: no access of which something is proven breaks it in any small launch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

pytest.importorskip("z3")

from ...support.proving import contents, exhausting, far_runs, stating
from ...support.proving.differential import MAKERS, check
from ...support.proving.makers.small_counting import small_counting_kernel
from ...support.proving.makers.small_kernels import SmallKernel, small_kernel


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize(
    "first", [0, *[pytest.param(first, marks=pytest.mark.slow) for first in range(4, 24, 4)]]
)
def test_what_is_proven_of_random_kernels_holds_in_small_launches(first: int, kind: str) -> None:
    verdicts = sum([check(seed, 3, kind=kind) for seed in range(first, first + 4)], Counter())
    proven = sum(verdicts[prop, each] for prop in ("bounds", "races") for each in ("proven", "proven under"))
    assert proven > (0 if first else 3)
    assert first or verdicts["bounds", "unknown"] > 0


@pytest.mark.slow
def test_what_is_refuted_is_run() -> None:
    verdicts = sum([check(seed, 4, refutes=True) for seed in range(20)], Counter())
    assert verdicts["bounds", "refuted"] > 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_what_is_proven_of_many_random_kernels_holds(first: int, kind: str) -> None:
    """`python -m tests.support.proving.differential mixed SEED COUNT LAUNCHES` tries others."""
    for seed in range(first, first + 50):
        check(seed, 20, kind=kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_proven_of_random_kernels_holds_near_the_ends_of_types(kind: str) -> None:
    found = sum([far_runs.check_random(kind, seed, 4) for seed in range(2, 5)], Counter())
    assert found["proven"] > (2 if kind == "searching" else 5)  # whose loops seldom have steps there
    assert found["launches"] > 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_what_is_proven_of_many_random_kernels_holds_near_the_ends_of_types(first: int, kind: str) -> None:
    """`python -m tests.support.proving.far_runs idioms SEED COUNT LAUNCHES` tries others."""
    for seed in range(first, first + 50):
        far_runs.check_random(kind, seed, 10)


@pytest.mark.slow
def test_what_is_proven_of_names_descriptors_and_called_functions_holds() -> None:
    found = sum([stating.check(seed) for seed in range(80)], Counter())
    assert found["proven"] > 10
    assert found["refused"] > 10


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 500))
def test_what_is_proven_of_many_names_descriptors_and_called_functions_holds(first: int) -> None:
    """`python -m tests.support.proving.stating SEED COUNT` tries others."""
    for seed in range(first, first + 500):
        stating.check(seed, 20)


@pytest.mark.slow
def test_what_is_proven_of_small_kernels_holds_for_nearly_all_sizes() -> None:
    found = sum([exhausting.check(seed) for seed in range(4)], Counter())
    assert found["held"] > 8
    assert found["sizes"] > 1000


@pytest.mark.slow
def test_what_is_proven_of_small_kernels_that_count_holds_for_nearly_all_sizes() -> None:
    found = sum([exhausting.check(seed, small_counting_kernel) for seed in range(3, 8)], Counter())
    assert found["held"] > 8
    assert found["sizes"] > 1000


@pytest.mark.slow
@pytest.mark.parametrize("make", [small_kernel, small_counting_kernel])
@pytest.mark.parametrize("first", range(0, 1000, 50))
def test_what_is_proven_of_many_small_kernels_holds_for_nearly_all_sizes(
    first: int, make: Callable[[random.Random], SmallKernel]
) -> None:
    """`python -m tests.support.proving.exhausting SEED COUNT counters` tries others."""
    for seed in range(first, first + 50):
        exhausting.check(seed, make)


@pytest.mark.slow
@pytest.mark.parametrize("kind", contents.MAKERS)
def test_what_is_proven_of_kernels_over_tables_holds(kind: str) -> None:
    found = sum([contents.check(kind, seed, 3) for seed in range(9, 14)], Counter())
    assert found["bounds", "proven under"] + found["bounds", "proven"] > 3
    assert found["bounds", "unknown"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", contents.MAKERS)
@pytest.mark.parametrize("first", [0, *range(1000, 2000, 100)])
def test_what_is_proven_of_many_kernels_over_tables_holds(first: int, kind: str) -> None:
    """`python -m tests.support.proving.contents ordered SEED COUNT LAUNCHES` tries others."""
    for seed in range(first, first + 100):
        contents.check(kind, seed, 8)


@pytest.mark.slow
def test_what_is_proven_of_kernels_with_locks_holds_in_every_order_of_two_programs() -> None:
    found = sum([contents.check_locks(seed) for seed in range(12)], Counter())
    assert found["races", "proven"] > 3
    assert found["races", "unknown"] > 3


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 250))
def test_what_is_proven_of_many_kernels_with_locks_holds_in_every_order_of_two_programs(first: int) -> None:
    """`python -m tests.support.proving.contents locking SEED COUNT 0` tries others."""
    for seed in range(first, first + 250):
        contents.check_locks(seed)
