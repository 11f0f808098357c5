"""Turns what sizes become on their way through floats into sizes again: the quotient of integers that agrees with the floats.

Exporters write `floor(n * 0.6)` in float32 or float64, where products are rounded. Such a function of one size is tabulated in
the floats' own arithmetic; if a quotient `(p * n + r) // q` has the same values, that is the size.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dtype import DType
from ...checks import Check
from ...dims.dim import Dim, Extent, at_most, minimum
from ...graph import Graph
from ...region import Region
from ..values import Ratio, Tabulated

_TRIED = 1 << 17
"""Sizes up to this one have what the floats give; beyond it their rounding may differ by one: a launch refuses larger ones."""
_MAX_SCALE = 1 << 16
_MAX_VALUE = 1 << 40


def scaled_size(graph: Graph, extent: Extent, scale: float) -> Extent | None:
    """Return how many elements so many are by a scale, the floor of a product in float32; None where no quotient gives it.

    A launch of the graph refuses sizes that were not tried, unless the scale is the quotient itself.
    """
    ratio = _ratio(scale)
    if ratio is None:
        return None
    if ratio != Fraction(scale):
        _require_tried(graph, extent)
    return (extent * ratio.numerator) // ratio.denominator


def _require_tried(graph: Graph, size: Extent) -> None:
    """State for the whole graph, which no operation does, that a size is in the table."""
    while isinstance(graph, Region):
        graph = graph.parent
    what = f"a size {size} that is scaled in floats is at most {_TRIED}; fix: the number itself for larger ones, by sizes={{…}}"
    check = Check(minimum(size, _TRIED), size, what)
    if not at_most(size, _TRIED) and check not in graph.standing:
        graph.standing = (*graph.standing, check)


@lru_cache(maxsize=256)
def _ratio(scale: float) -> Fraction | None:
    """Return the simplest fraction whose product with every size, rounded down, is that of a scale in float32."""
    if scale > _MAX_SCALE:
        return None
    sizes = np.arange(_TRIED + 1, dtype=np.float32)
    return _lower(np.floor(sizes * np.float32(scale)).astype(np.int64))


def _lower(counts: Array) -> Fraction | None:
    """Return the simplest fraction whose product with n, rounded down, is `counts[n]` for all n."""
    sizes = np.arange(1, counts.size)
    found = counts[1:]
    if counts[0] or (found < 0).any():
        return None
    low, high = int(np.argmax(found / sizes)), int(np.argmin((found + 1) / sizes))
    (p, q), (above, part) = (found[low], sizes[low]), (found[high] + 1, sizes[high])
    denominators = sizes[:q]  # the smallest one that has a numerator in [p / q, above / part)
    numerators = -(-p * denominators // q)
    fits = numerators * part < above * denominators
    first = int(np.argmax(fits))
    return Fraction(int(numerators[first]), int(denominators[first])) if fits[first] else None


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
            own, values = item.dividend, np.arange(_TRIED + 1) / item.divisor
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
        _require_tried(graph, table.size)
    return found


def _quotient_of(table: Tabulated) -> Extent | None:
    counts = np.trunc(table.values).astype(np.int64)
    ratio = _lower(counts)
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
