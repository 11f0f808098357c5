"""Follows the mask of a conditional's arm through what changes shapes, so that inactive lanes never touch memory.

An access is needed where any lane that it leads to is active: a lane of an operand that is broadcast, where any of its copies
is; a lane that is reduced, where the result is.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ....tt import types as t
from ....tt.builder.block_builder import BlockBuilder
from ..types import joined_shape


class Masks:
    """Makes masks with a builder. Masks are i1 values; a scalar one stands for all lanes."""

    def __init__(self, builder: BlockBuilder) -> None:
        self._builder = builder

    def any_along(self, mask: SSAValue, axis: int) -> SSAValue:
        """Return whether any lane along an axis is active; the axis disappears."""
        return self._builder.reduce([mask], axis, lambda b, x, y: [b.binary("arith.ori", x[0], y[0])])[0]

    def any_at_all(self, mask: SSAValue) -> SSAValue:
        """Return whether any lane is active, a scalar."""
        while t.shape_of(mask.type):
            mask = self._builder.reduce([mask], 0, lambda b, x, y: [b.binary("arith.ori", x[0], y[0])])[0]
        return mask

    def shaped(self, mask: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Return a mask in a shape that its own stretches to."""
        own = t.shape_of(mask.type)
        if own == tuple(shape):
            return mask
        if not own:
            return self._builder.splat(mask, shape)
        while len(own) < len(shape):
            mask = self._builder.expand_dims(mask, 0)
            own = (1, *own)
        return self._builder.broadcast(mask, shape)

    def before_broadcast(self, mask: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """Return the mask of an operand of this shape, which is broadcast to the shape that the mask is for."""
        while len(t.shape_of(mask.type)) > len(shape):
            mask = self.any_along(mask, 0)
        for axis in range(len(t.shape_of(mask.type))):
            extents = t.shape_of(mask.type)
            if extents[axis] > shape[axis + len(shape) - len(extents)]:
                mask = self.any_along(mask, axis)
                if len(extents) == 1:
                    return mask
                mask = self._builder.expand_dims(mask, axis)
        return mask

    def fitting(self, mask: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        """Return the mask of a value of any shape: by lanes where the shapes broadcast, else whether any lane is active."""
        own = t.shape_of(mask.type)
        if joined_shape(own, shape) == own:
            return self.before_broadcast(mask, shape)
        return mask if joined_shape(own, shape) == shape else self.any_at_all(mask)

    def rearranged(self, mask: SSAValue, placement: Sequence[int | None], shape: tuple[int, ...]) -> SSAValue:
        """Return a mask for a value of a shape, whose axes those of the mask are by `placement`.

        Along axes that the value has not any lane counts; along those that the mask has not all are active.
        """
        for axis in reversed(range(len(placement))):
            if placement[axis] is None:
                mask = self.any_along(mask, axis)
        kept = [each for each in placement if each is not None]
        if not kept:
            return mask
        mask = self._builder.trans(mask, sorted(range(len(kept)), key=kept.__getitem__)) if kept != sorted(kept) else mask
        for axis in range(len(shape)):
            mask = mask if axis in kept else self._builder.expand_dims(mask, axis)
        return self._builder.broadcast(mask, shape)

    def both(self, a: SSAValue | None, b: SSAValue | None) -> SSAValue | None:
        """Return the lanes that two masks have; None is all lanes. Shapes broadcast."""
        if a is None or b is None:
            return a if b is None else b
        shape = joined_shape(t.shape_of(a.type), t.shape_of(b.type))
        if shape is None:
            a, shape = self.any_at_all(a), t.shape_of(b.type)
        return self._builder.binary("arith.andi", self.shaped(a, shape), self.shaped(b, shape))


__all__ = ["Masks"]
