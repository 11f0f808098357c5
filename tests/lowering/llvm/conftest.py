"""Kernels from text: launched, and interpreted for comparison."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import numpy as np
import pytest


def _same(found: Any, expected: Any) -> None:
    if isinstance(found, np.ndarray):
        bits = f"u{found.dtype.itemsize}"
        equal = found.view(bits) == expected.view(bits)
        if found.dtype.kind not in "iub":
            equal |= np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        assert equal.all(), f"{(~equal).sum()} of {equal.size} differ, first at {int(np.argmin(equal))}"


@functools.lru_cache(maxsize=64)
def _kernel(text: str) -> jn.kernel.Kernel:
    """The kernel of a text: read and compiled once, however many sizes and values a test tries it with."""
    return jn.kernel.from_ttir(text)


def _agree(text: str, grid: int | Sequence[int], *args: Any) -> tuple[Any, ...]:
    """Launches on one and two threads and interprets; all three must write the same bits. Arguments stay as they are; the
    result is what they became."""
    kernel = _kernel(text)
    results = []
    for run in (
        lambda *own: kernel.interpret(grid, *own),
        lambda *own: kernel.launch(grid, *own, threads=1),
        lambda *own: kernel.launch(grid, *own, threads=2),
    ):
        # arrays that share memory, or are one array, go on doing so
        bases = {id(_base(arg)): _base(arg).copy() for arg in args if isinstance(arg, np.ndarray)}
        own = [_like(arg, bases[id(_base(arg))]) if isinstance(arg, np.ndarray) else arg for arg in args]
        run(*own)
        results.append(own)
    for other in results[1:]:
        for one, two in zip(results[0], other, strict=True):
            _same(two, one)
    return tuple(results[0])


def _base(array: np.ndarray) -> np.ndarray:
    return array if array.base is None else array.base


def _like(array: np.ndarray, base: np.ndarray) -> np.ndarray:
    """The view of a copied base that `array` is of its own."""
    start = array.__array_interface__["data"][0] - _base(array).__array_interface__["data"][0]
    raw = base.reshape(-1).view(np.uint8)[start : start + array.nbytes]
    return raw.view(array.dtype).reshape(array.shape)


@pytest.fixture
def agree() -> Callable[..., tuple[Any, ...]]:
    return _agree


@pytest.fixture
def same() -> Callable[[Any, Any], None]:
    """Asserts that two arrays hold the same bits, or NaN both."""
    return _same
