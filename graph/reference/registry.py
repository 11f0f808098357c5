"""Holds the table of reference implementations, and the view of a symbol that they are called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import InternalError


class Operand(Protocol):
    """The parts of an operand's symbol that implementations read."""

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> tuple[int, ...]: ...


@dataclass(frozen=True, slots=True)
class BoundSymbol:
    """A symbol whose dims are numbers: the first argument of every reference implementation."""

    op: str
    dtype: DType
    shape: tuple[int, ...]
    inputs: tuple[Operand, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)


Implementation = Callable[..., Array]

REFERENCE: dict[str, Implementation] = {}
"""Row of the op table → function (symbol, *operand arrays) → array of `symbol.dtype` and `symbol.shape`."""


def row(*names: str) -> Callable[[Implementation], Implementation]:
    """Register a function for rows.

    It runs without floating-point warnings, because every case is defined.
    """

    def register(function: Implementation) -> Implementation:
        def quiet(symbol: BoundSymbol, *operands: Array) -> Array:
            with np.errstate(all="ignore"):
                found = function(symbol, *operands)
                return np.array(found, object) if isinstance(found, str) else np.asarray(found)  # one string of an array

        quiet.__name__ = function.__name__
        quiet.__doc__ = function.__doc__
        for name in names:
            if name in REFERENCE:
                raise InternalError(f"two reference implementations of {name}")
            REFERENCE[name] = quiet
        return function

    return register
