"""Addresses along axes over which one block dimension runs as over their row-major product."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from xdsl.ir import SSAValue

from ..nest import Affine, Extent, Nest
from ..tt.types import I64
from .blocks import Merged
from .index_builder import Index, IndexBuilder


def quotient_terms(
    indices: IndexBuilder, nest: Nest, merged: Merged, at: Affine, position: SSAValue, extent_of: Callable[[Extent], Index]
) -> list[SSAValue]:
    """Emits what an offset has, as i64 blocks, besides the last axis' coefficient times the position.

    With q[j] = position // (extents after axis j), the index of axis j is q[j] - q[j - 1] * extent[j]. So every axis over which
    the next one does not step on adds a quotient, times what its own step is beyond that.
    """
    b, sizes = indices.builder, (merged.dim.size,)

    def filled(index: Index) -> SSAValue:
        return b.const(index, I64, sizes) if isinstance(index, int) else b.splat(index, sizes)

    terms = []
    inside: Index = 1
    for axis, following in reversed(list(pairwise(merged.axes))):
        extent = nest.axes[following].extent
        inside = indices.mul(inside, extent_of(extent))
        coefficient, step = at.coefficient(axis), at.coefficient(following)
        if coefficient == step * extent:
            continue
        beyond = indices.sub(extent_of(coefficient), indices.mul(extent_of(step), extent_of(extent)))
        divide = partial(b.binary, "arith.divsi", position, filled(inside))
        quotient = indices.once(("quotient", merged.dim, axis), divide)
        terms.append(b.binary("arith.muli", quotient, filled(beyond)))
    return terms
