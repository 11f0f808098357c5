"""Holds quantised weights as they are stored: small integers, and numbers for each block of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, float32
from ...promotion.errors import UserError
from ...promotion.float_modes import default_modes
from ..construction import primitives
from ..graph import Graph
from ..symbol import Symbol
from ..types import DTypeLike, as_dtype


@dataclass(frozen=True, slots=True, eq=False)
class BlockQuantized:
    """An array whose last axis is cut into blocks of equal length: values · scale + offset of their block, in float32.

    Attributes:
        values: integers of 2, 4 or 8 bits, in the array's shape.
        scales: a float for each block, in the array's shape but for the last axis.
        offsets: what is added in each block, or None.
    """

    values: Array
    scales: Array
    offsets: Array | None = None

    def __post_init__(self) -> None:
        parts = [self.scales] if self.offsets is None else [self.scales, self.offsets]
        whole = self.values.shape
        for part in parts:
            fits = part.ndim == len(whole) > 0 and part.shape[:-1] == whole[:-1]
            if not fits or (whole[-1] % part.shape[-1] if part.shape[-1] else whole[-1]) or part.shape != self.scales.shape:
                raise UserError(
                    f"BlockQuantized: numbers of shape {part.shape} for blocks of values of shape {whole}; fix: as many axes, "
                    "all but the last of the same size, and that a divisor of the values'"
                )
        for what, array, right in (("values", self.values, "is_integer"), *(("scales", part, "is_float") for part in parts)):
            dtype = DType.from_numpy(array.dtype)
            if not getattr(dtype, right):
                kind = "integers" if right == "is_integer" else "floats"
                raise UserError(f"BlockQuantized: {what} of {dtype}; fix: {kind}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's sizes."""
        return tuple(self.values.shape)

    @property
    def block(self) -> int:
        """The number of elements of a block; 0 of an array without elements."""
        return self.shape[-1] // self.scales.shape[-1] if self.scales.shape[-1] else 0

    @property
    def nbytes(self) -> int:
        """The bytes of values, scales and offsets as bits without gaps, as graphs store them."""
        bits = DType.from_numpy(self.values.dtype).bits
        return -(-self.values.size * bits // 8) + self.scales.nbytes + (0 if self.offsets is None else self.offsets.nbytes)

    def dequantize(self) -> Array:
        """Return the numbers that are meant, in float32; every operation rounds once."""
        blocks = self.values.astype(np.float32).reshape(*self.scales.shape, self.block)
        with default_modes(), np.errstate(all="ignore"):  # stored scales may be any bits
            found = blocks * self.scales.astype(np.float32)[..., None]
            if self.offsets is not None:
                found = found + self.offsets.astype(np.float32)[..., None]
        return found.reshape(self.shape)

    def symbol(self, graph: Graph, name: str, dtype: DTypeLike = float32) -> Symbol:
        """Return the numbers that are meant as a symbol, which kernels compute of the stored ones where they read them.

        Args:
            graph: where its weights are made: `name`, `name.scales` and, if there are offsets, `name.offsets`.
            name: the values' name.
            dtype: what the numbers, computed in float32, are converted to.
        """
        values = primitives.cast(graph.weight(name, self.values), float32).reshape((*self.scales.shape, self.block))

        def of_blocks(what: str, array: Array) -> Symbol:
            return primitives.cast(graph.weight(f"{name}.{what}", array), float32).reshape((*array.shape, 1))

        found = graph.apply("mul", (values, of_blocks("scales", self.scales)), {})
        if self.offsets is not None:
            found = graph.apply("add", (found, of_blocks("offsets", self.offsets)), {})
        return primitives.cast(found.reshape(self.shape), as_dtype(dtype))
