"""What reductions and scans do with two values, and the order in which a scan in a fixed order takes them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, Region


def prefix_moves(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One level of a scan of `count` elements, where runs of `length` have their prefixes: (sources, takers), elementwise."""
    takers = np.flatnonzero(np.arange(count) & length)
    return (takers & -length) - 1, takers


def single_operation(region: Region) -> Operation | None:
    """The operation that is all a region does: it takes both arguments, in either order, and what it gives is returned."""
    operations = [each for block in region.blocks for each in block.ops]
    if len(region.blocks) != 1 or len(operations) != 2 or len(region.block.args) != 2:
        return None
    inner, end = operations
    takes, gives = list(inner.operands), list(end.operands)
    arguments = list(region.block.args)
    return inner if takes in (arguments, arguments[::-1]) and gives == list(inner.results) else None
