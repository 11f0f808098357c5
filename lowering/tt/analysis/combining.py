"""Finds how reductions and scans combine two values, and in which order a scan in a fixed order takes
them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation, Region


def prefix_moves(count: int, length: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns one level of a scan of `count` places in which runs of `length` have their prefixes already:
    the places that are combined into others, and these others."""
    takers = np.flatnonzero(np.arange(count) & length)
    return (takers & -length) - 1, takers


def single_operation(region: Region) -> Operation | None:
    """Returns the single operation of a region if it takes both arguments, in either order, and its result is
    what the region returns; else None."""
    operations = [each for block in region.blocks for each in block.ops]
    if len(region.blocks) != 1 or len(operations) != 2 or len(region.block.args) != 2:
        return None
    inner, end = operations
    takes, gives = list(inner.operands), list(end.operands)
    arguments = list(region.block.args)
    return inner if takes in (arguments, arguments[::-1]) and gives == list(inner.results) else None
