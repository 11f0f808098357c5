"""Formulas that several families use. `lib` is joinery, or has its names (`libraries.py`)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any


def total(parts: Iterable[Any]) -> Any:
    """Return the sum of parts, beginning with the first one, not with 0."""
    return functools.reduce(operator.add, parts)


def logistic(lib: Any, x: Any) -> Any:
    """Return the logistic function by its formula."""
    return 1 / (1 + lib.exp(-x))


def softmax(axis: int, sharpened: Callable[[Any], Any] = lambda x: x) -> Any:
    """Return a program of a softmax by its formula. `sharpened` changes what lies below the largest number by a factor."""

    def program(lib: Any, x: Any) -> Any:
        powers = lib.exp(sharpened(x - lib.max(x, axis=axis, keepdims=True)))
        return powers / lib.sum(powers, axis=axis, keepdims=True)

    return program


def log_softmax(lib: Any, x: Any) -> Any:
    """Return logarithms of a softmax of rows."""
    below = x - lib.max(x, axis=1, keepdims=True)
    return below - lib.log(lib.sum(lib.exp(below), axis=1, keepdims=True))


def standardised(lib: Any, x: Any, axis: int, epsilon: float = 0.0) -> Any:
    """Return deviations from the mean over their root mean square."""
    deviations = x - lib.mean(x, axis=axis, keepdims=True)
    squares = lib.mean(deviations * deviations, axis=axis, keepdims=True)
    return deviations / lib.sqrt(squares + epsilon if epsilon else squares)


def halved(x: Any) -> Any:
    """Return means of 2x2 neighbours on the first two axes."""
    return (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]) * 0.25


def doubled(lib: Any, x: Any) -> Any:
    """Return an image of twice the size, whose pixels on the last two axes are repeated."""
    *outer, height, width = x.shape
    wide = lib.stack([x, x], axis=len(x.shape))
    return lib.reshape(lib.stack([wide, wide], axis=len(x.shape) - 1), (*outer, 2 * height, 2 * width))
