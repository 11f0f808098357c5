"""Index arithmetic: the coordinates of a thread's elements as shifts, masks and XORs of its lane and warp.

L(register ^ thread) = L(register) ^ L(thread): the thread's part is computed once, each register contributes a constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dataclass import dataclass
from .layout import REGISTER, LinearLayout
from .linear import table


@dataclass(frozen=True, slots=True)
class Term:
    """The bits `mask` of an input dim, shifted left by `shift` (right when negative); terms are XORed."""

    dim: str
    mask: int
    shift: int

    def at(self, index: int) -> int:
        bits = index & self.mask
        return bits << self.shift if self.shift >= 0 else bits >> -self.shift


@dataclass(frozen=True, slots=True)
class IndexExpression:
    """One output coordinate: the XOR of the terms, XOR the constant of the register.

    `disjoint`: no two terms reach the same bit, so they can be combined by "or disjoint" or an addition. `thread_bits`: the
    bits that the terms reach; a constant without them can be added, as the immediate of an address.
    """

    terms: tuple[Term, ...]
    constants: tuple[int, ...]
    disjoint: bool
    thread_bits: int

    def at(self, register: int, **thread: int) -> int:
        found = self.constants[register]
        for term in self.terms:
            found ^= term.at(thread.get(term.dim, 0))
        return found


def index_arithmetic(
    layout: LinearLayout, strides: Sequence[int] | None = None
) -> tuple[IndexExpression, ...]:
    """Returns an expression for each output coordinate, multiplied by powers of two `strides` when these are given."""
    if strides is not None and len(strides) != len(layout.shape):
        raise ValueError(f"{len(strides)} strides for {len(layout.shape)} dims")
    return tuple(
        _expression(layout, axis, 1 if strides is None else strides[axis])
        for axis in range(len(layout.shape))
    )


def _expression(layout: LinearLayout, axis: int, stride: int) -> IndexExpression:
    if stride < 1 or stride & (stride - 1):
        raise ValueError(f"stride {stride} is not a power of two")
    diagonals: dict[tuple[str, int], int] = {}
    disjoint, reached = True, 0
    for name, bit in layout.input_bits():
        if name == REGISTER:
            continue
        image = layout.coordinates(layout[name][bit])[axis] * stride
        disjoint = disjoint and not image & reached
        reached |= image
        while image:
            low = image & -image
            key = (name, low.bit_length() - 1 - bit)
            diagonals[key] = diagonals.get(key, 0) | 1 << bit
            image ^= low
    constants = table([layout.coordinates(each)[axis] * stride for each in layout[REGISTER]])
    return IndexExpression(
        tuple(Term(name, mask, shift) for (name, shift), mask in diagonals.items()),
        constants,
        disjoint,
        reached,
    )
