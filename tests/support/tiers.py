"""Splits a product of cases into two tiers: those that `make test` runs, and those left to `make test-all`.

Most faults in a product of shapes, dtypes, targets … show with one value, or with two values together. The fast tier
therefore has every value, or every pair of values; the slow tier has the product.
"""

from __future__ import annotations

import itertools
import os
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

both_tiers = pytest.mark.parametrize(
    "in_full", [pytest.param(False, id="share"), pytest.param(True, id="all", marks=pytest.mark.slow)]
)
"""Runs a test twice: with a `share` of its cases, and (slow) with all of them."""


def share(cases: Sequence[Any], number: int, of: int, in_full: bool = False) -> Sequence[Any]:
    """Returns every `of`-th case from case `number` on, so that tests with successive numbers cover all of
    them; all when `in_full`."""
    return cases if in_full else cases[number % of :: of]


def examples(number: int) -> int:
    """Returns how many cases a random test tries: half of the number where each run has the same ones, and all of it in the
    nightly profile."""
    return number if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else -(-number // 2)


def each(*axes: Sequence[Any], times: int = 1) -> list[Any]:
    """Returns the product of the axes as parameters. The fast ones cover every value `times` times; the rest
    is slow."""
    longest = max(len(axis) for axis in axes)
    chosen = {
        tuple((i + place * shift) % len(axis) for place, axis in enumerate(axes))
        for i in range(longest)
        for shift in range(1, times + 1)
    }
    return _marked(axes, chosen)


def halved(parameters: Sequence[Any]) -> list[Any]:
    """Returns the parameters, every other one of them slow."""
    found = []
    for number, each_one in enumerate(parameters):
        values, name = (each_one.values, each_one.id) if hasattr(each_one, "values") else ((each_one,), None)
        found.append(pytest.param(*values, id=name, marks=pytest.mark.slow if number % 2 else ()))
    return found


def pairs(*axes: Sequence[Any]) -> list[Any]:
    """Returns the product of the axes as parameters. The fast ones cover every two values of two axes
    together, with about as few cases as possible; the rest is slow."""
    left = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(range(len(axes)), 2)
        for i in range(len(axes[a]))
        for j in range(len(axes[b]))
    }
    places = itertools.product(*[range(len(axis)) for axis in axes])
    pairs_of = {place: set(itertools.combinations(enumerate(place), 2)) for place in places}
    chosen = set()
    while left:
        best = max(pairs_of, key=lambda place: len(left & pairs_of[place]))
        chosen.add(best)
        left -= pairs_of[best]
    return _marked(axes, chosen)


def one_in(names: Sequence[str], n: int) -> set[int]:
    """Returns the numbers of the cases that `@pytest.mark.one_in(n)` leaves in the fast tier: one in n of them, rounded up.

    Their names have the values of a product: those cases are taken that have the most values which no other one has had, and
    once each value was there, the same again. Where that does not decide, a checksum does: the same in every run, and another
    for tests of other names that go through the same list.
    """
    facts = [set(enumerate(name.split("-"))) for name in names]
    order = sorted(range(len(names)), key=lambda number: zlib.crc32(names[number].encode()))
    wanted = set().union(*facts)
    left, chosen = set(wanted), set[int]()
    for _ in range(-(-len(names) // n)):
        best = max((number for number in order if number not in chosen), key=lambda number: len(left & facts[number]))
        if not left & facts[best]:
            left = set(wanted)
            best = max((number for number in order if number not in chosen), key=lambda number: len(left & facts[number]))
        chosen.add(best)
        left -= facts[best]
    return chosen


def _marked(axes: Sequence[Sequence[Any]], chosen: set[tuple[int, ...]]) -> list[Any]:
    found = []
    for place in itertools.product(*[range(len(axis)) for axis in axes]):
        values = [axis[i] for axis, i in zip(axes, place, strict=True)]
        found.append(pytest.param(*values, marks=() if place in chosen else pytest.mark.slow))
    return found
