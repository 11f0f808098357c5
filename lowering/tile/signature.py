"""Computes the signature of a nest, its structure without names: nests of equal signature and schedule have
the same block program.

Buffers enter by position, dtype and whether their alignment is known; sizes known only at launch by the order
in which they appear. This is sound because tiling only compares such sizes for equality.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from ...promotion.dtype import DType
from ..nest import Affine, Buffer, Extent, Nest
from .structure import pointer_buffers, runtime_extents

Signature = tuple[Hashable, ...]


class _Eraser:
    def __init__(self, nest: Nest) -> None:
        self.buffers = {(b.kind, b.index): number for number, b in enumerate(pointer_buffers(nest))}
        self.extents = {extent: number for number, extent in enumerate(runtime_extents(nest))}

    def extent(self, extent: Extent) -> Hashable:
        return extent if type(extent) is int else ("n", self.extents[extent])

    def affine(self, at: Affine) -> Hashable:
        return (self.extent(at.offset), tuple([(axis, self.extent(value)) for axis, value in at.terms]))

    def buffer(self, buffer: Buffer) -> Hashable:
        shape = (
            buffer.shape if buffer.kind == "constant" else ()
        )  # only panels of constants depend on the shape
        kind = "input" if buffer.kind == "variable" else buffer.kind if buffer.kind in ("input", "constant") else "other"
        return (self.buffers[buffer.kind, buffer.index], buffer.dtype.name, kind, shape)

    def attrs(self, attrs: Mapping[str, Any]) -> Hashable:
        return tuple([(key, self.attribute(value)) for key, value in sorted(attrs.items())])

    def attribute(self, value: Any) -> Hashable:
        if isinstance(value, Affine):
            return self.affine(value)
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, DType):
            return value.name
        if isinstance(value, np.generic | np.ndarray):
            return (str(value.dtype), value.tobytes())
        if isinstance(value, float):
            return value.hex()
        if isinstance(value, bool | int | str | None):
            return (type(value).__name__, value)
        if isinstance(value, tuple):
            return tuple([self.attribute(item) for item in value])
        return self.extent(value)


def signature(nest: Nest) -> Signature:
    """Returns the structure of a nest as a hashable value, which is cheap compared with building the
    program."""
    eraser = _Eraser(nest)
    axes = tuple([eraser.extent(axis.extent) for axis in nest.axes])
    body = tuple([
        (value.op, value.dtype.name, value.axes, value.operands, eraser.attrs(value.attrs)) for value in nest.body
    ])  # fmt: skip
    stores = tuple(
        [(store.value, eraser.buffer(store.buffer), eraser.affine(store.at)) for store in nest.stores]
    )
    return (axes, body, stores)
