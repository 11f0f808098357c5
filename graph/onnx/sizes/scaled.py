"""Turns what sizes become on their way through floats into sizes again: the quotient of integers that agrees with the floats.

Exporters write `floor(n * 0.6)` in float32 or float64, where products are rounded. Such a function of one size is tabulated in
the floats' own arithmetic; if a quotient `(p * n + r) // q` has the same values, that is the size.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from ....promotion.dtype import DType
from ...construction.scaled_sizes import TRIED, ratio_of, require_tried
from ...dims.dim import Dim, Extent
from ...graph import Graph
from ..values import Ratio, Tabulated

_MAX_VALUE = 1 << 40

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "cast": np.positive,
}  # fmt: skip
"""What ops on floats compute."""


def tabulated(op: str, dtype: DType, *items: object) -> Tabulated | None:
    """Return a function of floats, all of whose operands are numbers or depend on one size.

    The result is None for other operands, and for what is no moderate number for some size.
    """
    size: Dim | None = None
    arrays: list[Any] = []
    for item in items:
        if isinstance(item, Tabulated):
            own, values = item.size, item.values
        elif not isinstance(item, Ratio):
            return None
        elif isinstance(item.dividend, int):
            arrays.append(dtype.numpy.type(item.dividend / item.divisor))
            continue
        elif item.divisor & (item.divisor - 1):
            return None  # a quotient that was rounded already
        else:
            own, values = item.dividend, np.arange(TRIED + 1) / item.divisor
        if size is not None and size != own:
            return None
        size = own
        arrays.append(values.astype(dtype.numpy))
    if size is None:
        return None
    with np.errstate(all="ignore"):
        values = np.asarray(_FUNCTIONS[op](*arrays))
    known = np.isfinite(values).all() and np.abs(values).max() < _MAX_VALUE
    return Tabulated(size, values, op, items, dtype) if known else None


def size_of(graph: Graph, table: Tabulated) -> Extent | None:
    """Return the size that a table is, rounded towards 0; None where no quotient of integers gives all its values.

    A launch of the graph refuses sizes that are not in the table.
    """
    found = _quotient_of(table)
    if found is not None:
        require_tried(graph, table.size)
    return found


def _quotient_of(table: Tabulated) -> Extent | None:
    counts = np.trunc(table.values).astype(np.int64)
    ratio = ratio_of(counts)
    if ratio is not None:
        return (table.size * ratio.numerator) // ratio.denominator
    sizes = np.arange(counts.size)
    slope = Fraction(int(counts[-1] - counts[0]), counts.size - 1)
    for limit in (1, 4, 16, 64, 256, 1024):
        near = slope.limit_denominator(limit)
        rest = counts * near.denominator - sizes * near.numerator
        # (p * n + r) // q is c where q * c <= p * n + r < q * (c + 1)
        offset = int(rest.max())
        if offset - int(rest.min()) < near.denominator:
            return (table.size * near.numerator + offset) // near.denominator
    return None
