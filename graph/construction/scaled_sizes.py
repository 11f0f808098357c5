"""Multiplies sizes by floats: the quotient of integers that is, for every size, the product that floats round."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np

from ...promotion.arrays import Array
from ..checks import Check
from ..dims.dim import Extent, at_most, minimum
from ..graph import Graph
from .stated import state

TRIED = 1 << 17
"""Sizes up to this one have what the floats give; beyond it their rounding may differ by one: a launch refuses larger ones."""
_MAX_SCALE = 1 << 16


def scaled_size(graph: Graph, extent: Extent, scale: float) -> Extent | None:
    """Return how many elements so many are by a scale, the floor of a product in float32; None where no quotient gives it.

    A launch of the graph refuses sizes that were not tried, unless the scale is the quotient itself.
    """
    ratio = _ratio(scale)
    if ratio is None:
        return None
    if ratio != Fraction(scale):
        require_tried(graph, extent)
    return (extent * ratio.numerator) // ratio.denominator


def require_tried(graph: Graph, size: Extent) -> None:
    """State for the whole graph, which no operation does, that a size is in the table."""
    what = f"a size {size} that is scaled in floats is at most {TRIED}; fix: the number itself for larger ones, by sizes={{…}}"
    if not at_most(size, TRIED):
        state(graph, Check(minimum(size, TRIED), size, what))


@lru_cache(maxsize=256)
def _ratio(scale: float) -> Fraction | None:
    """Return the simplest fraction whose product with every size, rounded down, is that of a scale in float32."""
    if scale > _MAX_SCALE:
        return None
    sizes = np.arange(TRIED + 1, dtype=np.float32)
    return ratio_of(np.floor(sizes * np.float32(scale)).astype(np.int64))


def ratio_of(counts: Array) -> Fraction | None:
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
