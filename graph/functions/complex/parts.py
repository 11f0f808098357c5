"""Defines complex numbers by their real and imaginary parts, which graphs compute with."""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ...construction import primitives
from ...ops.complex.parts import WHOLE
from ...protocols import SymbolLike
from ...symbol import Symbol
from ...types import Shape
from ..building import apply
from ..joining import stack


@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A tensor of complex numbers of which the real and imaginary parts are known, of one dtype and shape."""

    real: Symbol
    imaginary: Symbol

    @property
    def dtype(self) -> DType:
        """The dtype of the numbers."""
        return WHOLE[self.real.dtype]

    @property
    def shape(self) -> Shape:
        """The shape, in numbers."""
        return self.real.shape


def parts_of(x: Symbol) -> Complex:
    """Return the parts of a complex symbol: those that it was made of, where it was made of parts."""
    if x.op.name == "complex" and all(operand.shape == x.shape for operand in x.inputs):
        return Complex(*x.inputs)
    return Complex(apply("real", x), apply("imag", x))


def whole(x: Complex) -> Symbol:
    """Return complex numbers as a symbol: the one that they are the parts of, or a view of it, if there is one."""
    found = taken_apart(x.real, x.imaginary)
    return apply("complex", x.real, x.imaginary) if found is None else found


def taken_apart(real: SymbolLike, imaginary: SymbolLike) -> Symbol | None:
    """Return complex numbers of which these are the parts, or a view of such; None if there are none."""
    if real.op.name == "real" and imaginary.op.name == "imag" and real.inputs[0] is imaginary.inputs[0]:
        assert isinstance(real.inputs[0], Symbol)
        return real.inputs[0]
    if real.op.kind != "view" or real.op is not imaginary.op or real.attrs != imaginary.attrs:
        return None
    inner = taken_apart(real.inputs[0], imaginary.inputs[0])
    return None if inner is None else inner.graph.apply(real.op, (inner,), real.attrs)


def converted(x: Complex, dtype: DType) -> Complex:
    """Return numbers with parts of another dtype."""
    return Complex(primitives.cast(x.real, dtype), primitives.cast(x.imaginary, dtype))


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
