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


_FOUND = ("argmax", "argmin", "argsort", "top_positions", "searchsorted", "nonzero", "dim_value", "popcount")
"""Rows whose results are positions or sizes."""
_MOVED = ("reshape", "permute", "broadcast_to", "slice", "flip", "gather", "take_along_axis", "gather_nd", "concat", "cast")
_DEPTH = 32


def is_never_negative(x: Symbol) -> bool:
    """Return whether integers are known to be 0 or more: constants, positions that something finds, or a maximum with one."""
    pending, steps = [x], 0
    while pending:
        each, steps = pending.pop(), steps + 1
        if steps > _DEPTH or not (each.dtype.is_integer or each.dtype.is_bool):
            return False
        if each.dtype.is_bool or each.dtype.kind == "uint":
            continue
        row = each.op.name
        if row in ("constant", "weight"):
            if bool((np.asarray(each.attrs["value"]) < 0).any()):
                return False
        elif row == "maximum":
            found = [operand for operand in each.inputs if operand.op.name in ("constant", "weight", *_FOUND)]
            if not any([is_never_negative(operand) for operand in found]):
                return False
        elif row == "where":
            pending.extend(each.inputs[1:])
        elif row in _MOVED:
            source = each.inputs[0]
            if row == "cast" and source.dtype is not each.dtype and source.dtype.bits >= each.dtype.bits:
                return False
            pending.extend(each.inputs if row == "concat" else (source,))
        elif row not in _FOUND:
            return False
    return True
