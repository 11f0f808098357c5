"""Values that a kernel would compute again and again along an axis.

A plan shows which they are: the body of a nest says along which axes a value varies. The next plan stores them, several of the
same shape in one kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

from ....graph.symbol import Symbol
from ...nest import Extent
from ..extents import at_most, product
from ..groups import Group

LANES = 64
"""Elements of the innermost axes that vectors lie along."""
MIN_WORK, MIN_REPEATED = 4, 16
"""Work of an element, as in `costs.py`, from which on loading it takes less, and the least work that is spared for each element
that is stored: all of a value is, of which few rows may be read."""
MIN_SPARED = 1 << 17
"""Work from which on it is worth a kernel, which takes a microsecond or two."""
UNKNOWN = 256
"""What an extent is taken for that is known at launch only."""
MAX_TOGETHER = 16
"""Most values that one kernel stores."""


def is_repeated(symbol: Symbol, depends: int, group: Group, work: int) -> bool:
    """Returns whether a nest computes elements of `symbol`, which vary along the axes in the mask `depends`, so often that
    storing them takes less time. work: of an element, in simple instructions.

    `exp(u)[:, None] * exp(v)[None, :]` would be one kernel, each row of which computes all of `exp(v)`. That of `u` is a
    number of a row, which blocks compute once. Lanes of a vector are the innermost axes, so what depends on one of these is
    repeated along all others that it lacks, but for those of a reduction: blocks compute such values before the loop.
    Columns of short rows are computed side by side, and share what they have in common.
    """
    if work < MIN_WORK or group.kind not in ("map", "row"):
        return False
    innermost = _innermost(group)
    if not any(depends >> axis & 1 for axis in innermost):
        return False
    shared = {*innermost, *group.reduced_axes}
    times = known([each for axis, each in enumerate(group.axes) if not depends >> axis & 1 and axis not in shared])
    stored = known(symbol.shape)
    computed = times * known([each for axis, each in enumerate(group.axes) if depends >> axis & 1])
    return (computed - stored) * work >= max(MIN_SPARED, MIN_REPEATED * stored)


def _innermost(group: Group) -> list[int]:
    """Returns the last axes of a group, from the one that fills a vector on."""
    found: list[int] = []
    extent: Extent = 1
    for axis in reversed(range(len(group.axes))):
        found.append(axis)
        extent = product([extent, group.axes[axis]])
        if not at_most(extent, LANES - 1):
            break
    return found


def known(extents: Iterable[Extent]) -> int:
    """Returns the product of extents, with a number for those that are known at launch only."""
    total = 1
    for extent in extents:
        total *= extent if type(extent) is int else UNKNOWN
    return total
