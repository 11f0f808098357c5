"""Defines complex numbers while a program is imported: graphs compute with their real and imaginary parts."""

from __future__ import annotations

from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, complex64, complex128, float32, float64
from ..construction import primitives
from ..functions.building import apply
from ..functions.joining import stack
from ..symbol import Symbol
from ..types import Shape, TensorType

PARTS: dict[DType, DType] = {complex64: float32, complex128: float64}
"""Dtypes of complex numbers → those of their parts."""


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A tensor of complex numbers, of which a program knows the real and imaginary parts, of one dtype and shape."""

    real: Symbol
    imaginary: Symbol

    @property
    def dtype(self) -> DType:
        """The dtype of the numbers."""
        return complex128 if self.real.dtype is float64 else complex64

    @property
    def shape(self) -> Shape:
        """The shape, in numbers."""
        return self.real.shape


def of_parts(declared: TensorType) -> TensorType:
    """Return the dtype and shape of the pairs of parts that stand for complex numbers in inputs and outputs of a graph."""
    part = PARTS.get(declared.dtype)
    return declared if part is None else TensorType(part, (*declared.shape, 2), declared.name)


def from_pairs(pairs: Symbol) -> Complex:
    """Return the complex numbers whose parts lie side by side on a last axis."""
    *lead, _ = pairs.shape
    last = len(lead)

    def part(at: int) -> Symbol:
        starts, stops = (0,) * last + (at,), (*lead, at + 1)
        return primitives.reshape(apply("slice", pairs, starts=starts, stops=stops, steps=(1,) * (last + 1)), tuple(lead))

    return Complex(part(0), part(1))


def to_pairs(x: Complex) -> Symbol:
    """Return real and imaginary parts side by side on a new last axis."""
    return stack([x.real, x.imaginary], -1)
