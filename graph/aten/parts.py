"""Tells how complex numbers stand in the inputs and outputs of a program: as pairs of their parts."""

from __future__ import annotations

from ..ops.complex.parts import PARTS
from ..types import TensorType


def of_parts(declared: TensorType) -> TensorType:
    """Return the dtype and shape of the pairs of parts that stand for complex numbers in inputs and outputs of a graph."""
    part = PARTS.get(declared.dtype)
    return declared if part is None else TensorType(part, (*declared.shape, 2), declared.name)
