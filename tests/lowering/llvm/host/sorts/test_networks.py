"""The comparisons of sorting networks, by the 0-1 principle: what sorts all sequences of two numbers sorts every sequence."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from joinery.lowering.llvm.host.sorts.network import halves, odd_even_merges


def sequences(count: int) -> np.ndarray:
    """All sequences of so many zeros and ones, a column each."""
    return np.arange(1 << count)[None, :] >> np.arange(count)[:, None] & 1


def compared(values: np.ndarray, comparisons: Iterable[tuple[int, int]]) -> np.ndarray:
    values = values.copy()
    for low, high in comparisons:
        assert low < high
        values[[low, high]] = np.minimum(values[low], values[high]), np.maximum(values[low], values[high])
    return values


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_merges_of_merges_sort(count: int) -> None:
    found = compared(sequences(count), odd_even_merges(count))
    assert (np.diff(found, axis=0) >= 0).all()
    without_last = list(odd_even_merges(count))[:-1]
    assert count == 1 or (np.diff(compared(sequences(count), without_last), axis=0) < 0).any()


@pytest.mark.parametrize("count", [2, 4, 8, 16])
def test_halves_of_halves_sort_what_is_bitonic(count: int) -> None:
    """One change from ones to zeros and one back, on a circle, at most."""
    every = sequences(count)
    bitonic = every[:, (every != np.roll(every, 1, axis=0)).sum(axis=0) <= 2]
    assert (np.diff(compared(bitonic, halves(count)), axis=0) >= 0).all()
