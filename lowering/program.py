"""Defines block programs and their launches: what the tiler hands to the back ends."""

from __future__ import annotations

from typing import Any

from ..promotion.dataclass import dataclass
from .nest import Buffer, Extent


@dataclass(frozen=True, slots=True)
class BlockProgram:
    """A block kernel and nothing about where its arguments come from.

    `func` is a `tt.func` (see `lowering/tt`); its parameters are `pointers` pointers followed by `scalars` i64 values and
    `descriptors` tensor descriptors.
    `key` identifies the program up to names: equal keys compile once.
    """

    name: str
    func: Any  # xdsl Operation; typed loosely so that this module does not import xDSL
    key: str
    pointers: int
    scalars: int
    template: str  # which tile template made it: "map", "row", "contract", "attention", "scan", ...
    tiles: tuple[tuple[str, int], ...]  # axis name → block extent, for reports
    warps: int  # GPU warps that run a program together
    descriptors: int = 0


@dataclass(frozen=True, slots=True)
class DescriptorArgument:
    """The tensor behind a descriptor parameter: its buffer, extents and strides (in elements), outermost axis first."""

    buffer: Buffer
    extents: tuple[Extent, ...]
    strides: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One use of a block program in a model. Sizes may depend on runtime dims; `grid` is the number of programs."""

    program: int
    buffers: tuple[Buffer, ...]  # one per pointer parameter
    scalars: tuple[Extent, ...]  # one per scalar parameter
    grid: Extent
    fused: tuple[str, ...]
    bytes_read: Extent
    bytes_written: Extent
    flops: Extent
    descriptors: tuple[DescriptorArgument, ...] = ()  # one per descriptor parameter
