"""Pointers that a loop advances: they are computed from the number of the iteration, and never stored."""

from __future__ import annotations

from dataclasses import replace

from .....promotion.dataclass import dataclass
from ...values import V
from ..nodes import Affine, Pointers
from ..scalars import Scalars


@dataclass(frozen=True, slots=True)
class Advance:
    """Pointers that advance by `step` in every iteration of a loop."""

    start: Pointers
    step: Affine

    def after(self, s: Scalars, iterations: V) -> Pointers:
        """Returns the pointers after `iterations` iterations."""
        start = self.start
        offset = start.offset
        moved = Affine(
            start.shape,
            "i64",
            s.mul(self.step.base, iterations),
            tuple(None if c is None else s.mul(c, iterations) for c in self.step.coefficients),
        )
        pairs = zip(offset.coefficients, moved.coefficients, strict=True)
        sums = tuple(b if a is None else a if b is None else s.add(a, b) for a, b in pairs)
        return replace(start, offset=Affine(start.shape, "i64", s.add(offset.base, moved.base), sums))
