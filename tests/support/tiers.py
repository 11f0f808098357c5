"""The two tiers of a product of cases: what `make test` runs of it, and what is left to `make test-all`.

A product of shapes, dtypes, targets … finds its faults by what each value does, and by what two values do together. The fast
tier therefore has every value, or every pair of values; the slow tier has the product.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from typing import Any

import pytest

both_tiers = pytest.mark.parametrize(
    "in_full", [pytest.param(False, id="share"), pytest.param(True, id="all", marks=pytest.mark.slow)]
)
"""Runs a test twice: with a `share` of its cases, and (slow) with all of them."""


def share(cases: Sequence[Any], number: int, of: int, in_full: bool = False) -> Sequence[Any]:
    """Every `of`-th case from case `number` on, so that tests with successive numbers have all of them; all when `in_full`."""
    return cases if in_full else cases[number % of :: of]


def each(*axes: Sequence[Any], times: int = 1) -> list[Any]:
    """The product of the axes as parameters. Fast are as many as have every value `times` times, slow the rest."""
    longest = max(len(axis) for axis in axes)
    chosen = {
        tuple((i + place * shift) % len(axis) for place, axis in enumerate(axes))
        for i in range(longest)
        for shift in range(1, times + 1)
    }
    return _marked(axes, chosen)


def pairs(*axes: Sequence[Any]) -> list[Any]:
    """The product of the axes as parameters. Fast are about as few as have every two values of two axes together, slow the
    rest."""
    left = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(range(len(axes)), 2)
        for i in range(len(axes[a]))
        for j in range(len(axes[b]))
    }
    places = list(itertools.product(*[range(len(axis)) for axis in axes]))
    chosen = set()
    while left:
        best = max(places, key=lambda place: len(left & _pairs_of(place)))
        chosen.add(best)
        left -= _pairs_of(best)
    return _marked(axes, chosen)


def _pairs_of(place: Sequence[int]) -> set[Hashable]:
    return set(itertools.combinations(enumerate(place), 2))


def _marked(axes: Sequence[Sequence[Any]], chosen: set[tuple[int, ...]]) -> list[Any]:
    found = []
    for place in itertools.product(*[range(len(axis)) for axis in axes]):
        values = [axis[i] for axis, i in zip(axes, place, strict=True)]
        found.append(pytest.param(*values, marks=() if place in chosen else pytest.mark.slow))
    return found
