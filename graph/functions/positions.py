"""0, 1, 2, … along an axis."""

from __future__ import annotations

import numpy as np

from ..symbol import Symbol
from .building import apply


def positions(x: Symbol, axis: int) -> Symbol:
    """int64 positions along `axis` of `x`, of shape (n, 1, …, 1) so that they broadcast against `x`."""
    extent, trailing = x.shape[axis], len(x.shape) - 1 - axis
    shape = (extent, *(1,) * trailing)
    if isinstance(extent, int):
        return x.graph.constant(np.arange(extent, dtype=np.int64).reshape(extent, *(1,) * trailing))
    ones = apply("broadcast_to", x.graph.constant(np.ones((1,) * len(shape), np.int64)), shape=shape)
    return apply("cumsum", ones, axis=0, exclusive=True, reverse=False)
