"""Counts 0, 1, 2, … along an axis."""

from __future__ import annotations

import numpy as np

from ...promotion.dtype import int64
from ..construction import primitives
from ..dims.dim import Extent
from ..graph import Graph
from ..symbol import Symbol

_STORED = 1 << 16
"""Up to this many positions are a constant; more are computed when the graph runs."""


def counting(graph: Graph, extent: Extent) -> Symbol:
    """Return 0, 1, …, extent - 1 as int64."""
    if isinstance(extent, int) and extent <= _STORED:
        return graph.constant(np.arange(extent, dtype=np.int64))
    ones = primitives.broadcast_to(graph.scalar(1, int64), (extent,))
    return graph.apply("cumsum", (ones,), {"axis": 0, "exclusive": True, "reverse": False})


def positions(x: Symbol, axis: int) -> Symbol:
    """Return int64 positions along `axis` of `x`, of shape (n, 1, …, 1) to broadcast against `x`."""
    trailing = len(x.shape) - 1 - axis
    return primitives.reshape(counting(x.graph, x.shape[axis]), (x.shape[axis], *(1,) * trailing))
