"""Computes with extents: ints as long as possible, `Dim` polynomials where a size is known only at launch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from ...graph.dims import dim as dims
from ...graph.dims.dim import at_most
from ..nest import Extent

__all__ = ["ALIGNMENT", "align_up", "at_most", "contiguous_strides", "exact_quotient", "is_one", "is_zero", "product"]

ALIGNMENT = 64
"""Alignment of every buffer and every slot of the arena in bytes: a cache line."""


def is_one(extent: Extent) -> bool:
    return type(extent) is int and extent == 1


def is_zero(extent: Extent) -> bool:
    return type(extent) is int and extent == 0


def product(extents: Iterable[Extent]) -> Extent:
    result: Extent = 1
    for extent in extents:
        if not (type(extent) is int and extent == 1):
            result = result * extent
    return result


@lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Returns the strides in elements of a C-contiguous array."""
    strides: list[Extent] = []
    step: Extent = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    strides.reverse()
    return tuple(strides)


def exact_quotient(extent: Extent, divisor: Extent) -> Extent | None:
    """Returns `extent / divisor` if that is whole for all values of the runtime dims, else None."""
    if type(extent) is int and type(divisor) is int:
        return extent // divisor if divisor and extent % divisor == 0 else None
    return dims.exact_quotient(extent, divisor)


def align_up(extent: Extent, alignment: int) -> Extent:
    """Rounds `extent` up to a multiple of `alignment`."""
    if exact_quotient(extent, alignment) is not None:
        return extent
    return dims.ceil_div(extent, alignment) * alignment
