"""Finds out before a run of the evaluator whether its results fit: compiled models allocate all of theirs at once, too."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...promotion.errors import UserError
from ..checks import MAX_SIZE
from ..data_sizes import mentioned
from ..dims.dim import evaluate_dim
from ..symbol import Symbol

_FEW = 1 << 28
"""Bytes that are not asked for before: they are there, or the run itself says so soon."""


def require_memory(symbols: Sequence[Symbol], outputs: Sequence[Symbol], dims: Mapping[str, int]) -> None:
    """Raise `UserError` for results that 64 bits do not address, and `MemoryError` for more memory at once than there is.

    Results whose sizes a run decides later, and those of regions, are not counted; views need none.
    """
    last = {operand.id: position for position, symbol in enumerate(symbols) for operand in symbol.inputs}
    kept = {symbol.id for symbol in outputs}
    ends: dict[int, int] = {}
    now = most = 0
    for position, symbol in enumerate(symbols):
        needed = _nbytes(symbol, dims)
        if symbol.op.kind not in ("view", "source"):
            now += needed
            most = max(most, now)
            if symbol.id not in kept and symbol.id in last:
                ends[last[symbol.id]] = ends.get(last[symbol.id], 0) + needed
        now -= ends.pop(position, 0)
    most = max(most, now + sum(_nbytes(symbol, dims) for symbol in outputs))  # these are copied
    if most > _FEW:
        try:
            np.empty(most, np.uint8)
        except (MemoryError, ValueError):
            raise MemoryError(f"no memory for {most / 2**20:.4g} MiB, which evaluating the graph needs at once") from None


def _nbytes(symbol: Symbol, dims: Mapping[str, int]) -> int:
    if not mentioned(symbol.shape) <= dims.keys():
        return 0
    shape = tuple([evaluate_dim(extent, dims) for extent in symbol.shape])
    require_addressed(symbol, shape)
    return max(math.prod(shape), 0) * symbol.dtype.numpy.itemsize


def require_addressed(symbol: Symbol, shape: tuple[int, ...], attribute: int = 0) -> None:
    """Raise `UserError` unless 64 bits address a result of a shape, and hold a size among the attributes.

    Axes of size 0 count as 1: NumPy has no array of 0 elements whose other sizes are too large.
    """
    if max(math.prod([abs(size) or 1 for size in shape]) * symbol.dtype.itemsize, attribute) >= MAX_SIZE:
        raise UserError(
            f"evaluate: a size of {symbol.op.name}, which gives {shape}, is more than 64 bits address "
            f"(from {symbol.location}); fix: pass smaller arrays"
        )
