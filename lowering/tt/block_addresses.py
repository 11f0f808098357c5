"""Builds pointers to the elements of a block of a tensor, and a mask, from offsets, extents and strides.

They are built so that back ends recognise them: indices are a range plus a scalar, offsets sums of indices times scalars, masks
conjunctions of `index < scalar` along one axis each.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...promotion.dataclass import dataclass
from . import types as t
from .analysis.integer_facts import never_negative, trailing_zeros, zeros_of
from .builder.block_builder import BlockBuilder


@dataclass(frozen=True, slots=True)
class Span:
    """One axis of an access: the range that starts at `offset` (a scalar i64).

    `extent` is None if the index is not checked. `zeros`: trailing zero bits of the offset, if more are known
    than the value itself tells.
    """

    stride: SSAValue
    extent: SSAValue | None
    offset: SSAValue
    zeros: int = 0


@dataclass(frozen=True, slots=True)
class Chosen:
    """One axis of an access: the `indices` (i64, on one axis), each of which is checked."""

    stride: SSAValue
    extent: SSAValue
    indices: SSAValue


Axis = Span | Chosen


def place_block(
    b: BlockBuilder, base: SSAValue, axes: Sequence[Axis], block: Sequence[int], shape: Sequence[int]
) -> tuple[SSAValue, SSAValue | None]:
    """Emits pointers of `shape` to the elements of a block, and the mask of those inside the tensor (None:
    all are).

    `shape` is `block`, perhaps without leading axes of extent 1.
    """
    missing = len(block) - len(shape)
    last = len(block) - 1
    pointer, inside = base, None
    blocks: list[int] = []
    for d, axis in enumerate(axes):
        if isinstance(axis, Chosen) or block[d] != 1 or d == last:
            blocks.append(d)
            continue
        # A single index moves the base, and decides for the whole block.
        pointer = b.addptr(pointer, b.binary("arith.muli", axis.offset, axis.stride))
        if axis.extent is not None:
            inside = _both(b, inside, b.cmpi("slt", axis.offset, axis.extent))
            if not never_negative(axis.offset):
                inside = _both(b, inside, b.cmpi("sge", axis.offset, b.const(0, t.I64)))
    offsets: SSAValue | None = None
    mask: SSAValue | None = None
    for d in blocks:
        axis = axes[d]
        indices = _indices(b, axis, block[d])
        step = b.binary("arith.muli", indices, b.splat(axis.stride, t.shape_of(indices.type)))
        offsets = _sum(b, offsets, spread(b, step, d - missing, shape))
        for condition in _conditions(b, axis, indices, block[d], inside if d == last else None):
            mask = _both(b, mask, spread(b, condition, d - missing, shape))
    assert offsets is not None
    return b.addptr(b.splat(pointer, shape), offsets), mask


def spread(b: BlockBuilder, values: SSAValue, axis: int, shape: Sequence[int]) -> SSAValue:
    """Repeats values along one axis along the others."""
    for d in range(len(shape)):
        if d != axis:
            values = b.expand_dims(values, d)
    return b.broadcast(values, shape)


def _indices(b: BlockBuilder, axis: Axis, extent: int) -> SSAValue:
    if isinstance(axis, Chosen):
        return axis.indices
    return b.binary("arith.addi", b.cast("arith.extsi", b.arange(extent), t.I64), b.splat(axis.offset, (extent,)))


def _conditions(
    b: BlockBuilder, axis: Axis, indices: SSAValue, extent: int, inside: SSAValue | None
) -> list[SSAValue]:
    """Emits the conditions on the indices along an axis; no index fulfils them where the scalar `inside` is
    false."""
    shape = t.shape_of(indices.type)
    zero = b.const(0, t.I64)
    if isinstance(axis, Chosen):
        return [b.cmpi("slt", indices, b.splat(axis.extent, shape)), b.cmpi("sge", indices, b.splat(zero, shape))]
    limit = axis.extent
    below = False
    if limit is not None and not never_negative(axis.offset):
        # A block that starts at a multiple of its extent lies before the tensor as a whole or not at all.
        if max(axis.zeros, trailing_zeros(axis.offset)) >= zeros_of(extent):
            limit = b.select(b.cmpi("sge", axis.offset, zero), limit, axis.offset)
        else:
            below = True
    if inside is not None:
        everything = b.binary("arith.addi", axis.offset, b.const(extent, t.I64)) if limit is None else limit
        limit = b.select(inside, everything, axis.offset)  # no index lies before the offset
    if limit is None:
        return []
    found = [b.cmpi("slt", indices, b.splat(limit, shape))]
    if below:
        found.append(b.cmpi("sge", indices, b.splat(zero, shape)))
    return found


def _both(b: BlockBuilder, one: SSAValue | None, other: SSAValue) -> SSAValue:
    return other if one is None else b.binary("arith.andi", one, other)


def _sum(b: BlockBuilder, one: SSAValue | None, other: SSAValue) -> SSAValue:
    return other if one is None else b.binary("arith.addi", one, other)
