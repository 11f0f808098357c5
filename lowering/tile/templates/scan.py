"""Builds running sums along one axis: `tt.scan` inside a chunk, a carry between chunks. Lines that blocks hold whole are one.

The carry enters the sum at the chunk's first position, so that a chunked scan adds in the same order as one
that is not chunked. An exclusive scan is an inclusive scan of the operand one position earlier, which needs
no subtraction and is therefore right for infinities too. Its padding is 0, from which an exclusive sum
starts; the padding of other scans is -0.0, which does not change the sign of a zero.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from ....promotion.errors import UnsupportedError
from ...tt.types import I1, I32, I64
from ..blocks import Block, Dimension, register_type, shape, union
from ..elements.conversions import round_tensor_float32
from ..emit import Frame
from ..reductions import combiner, neutral
from ..structure import reach, takes_whole_lines, values_of


class Scan:
    """One `scan` value of a nest. Raises `UnsupportedError` for scans other than sums, and exclusive scans of
    scans."""

    def __init__(self, frame: Frame, number: int) -> None:
        nest = frame.kernel.nest
        self.value = nest.body[number]
        self.number = number
        self.operand = self.value.operands[0]
        attrs = self.value.attrs
        self.axis: int = attrs["axis"]
        self.exclusive, self.reverse = bool(attrs["exclusive"]), bool(attrs["reverse"])
        self.kind: str = attrs["kind"]
        self.dtype = self.value.dtype
        self.elem = register_type(self.dtype)
        self.combine = None if takes_whole_lines(self.kind) else combiner(self.kind, self.dtype)
        self.length = nest.axes[self.axis].extent
        starts_signed = self.kind == "sum" and self.dtype.is_float and not self.exclusive
        is_transform = self.kind.startswith("fft_")
        self.neutral = -0.0 if starts_signed else 0 if is_transform else neutral(self.kind, self.dtype)
        if self.exclusive and set(values_of(nest, "scan")) & reach(nest, [self.operand]):
            raise UnsupportedError("tile: an exclusive scan of another scan in one nest")

    def _kept(self, frame: Frame) -> tuple[Dimension, ...]:
        coordinates = [frame.coordinates.get(axis) for axis in self.value.axes if axis != self.axis]
        return union(tuple([coordinate for coordinate in coordinates if isinstance(coordinate, Dimension)]))

    def initial(self, frame: Frame) -> SSAValue:
        """Emits the carry before the first chunk."""
        return frame.builder.const(self.neutral, self.elem, shape(self._kept(frame)))

    def _terms(self, frame: Frame, along: Dimension, dims: tuple[Dimension, ...]) -> SSAValue:
        """Emits the summand of each position of the chunk, which is neutral outside the axis."""
        b = frame.builder
        if not self.exclusive:
            block, source = frame.block(self.operand), along
        else:
            start = frame.indices.add(along.start, 1 if self.reverse else -1)
            source = Dimension(along.axis, along.size, start, along.extent, along.rank, may_precede=True)
            shifted = frame.child({self.axis: source})
            moved = shifted.block(self.operand)
            block = Block(
                moved.value,
                tuple([along if d is source else d for d in moved.dims]),
                moved.elem,
            )
        value = frame.expand(block, dims)
        if self.kind.startswith("fft_"):  # which reads nothing beyond the axis
            return value
        mask = frame.mask((source,), tuple([source if dim is along else dim for dim in dims]))
        return value if mask is None else b.select(mask, value, b.const(self.neutral, self.elem, shape(dims)))

    def _lane(self, frame: Frame, along: Dimension, dims: tuple[Dimension, ...], lane: int) -> SSAValue:
        """Emits the mask of one position of the chunk, as a block over `dims`."""
        b = frame.builder
        positions = b.cast("arith.extsi", b.arange(along.size), I64)
        chosen = b.cmpi("eq", positions, b.const(lane, I64, (along.size,)))
        return frame.expand(Block(chosen, (along,), I1), dims)

    def _before_last(self, frame: Frame, along: Dimension, dims: tuple[Dimension, ...]) -> SSAValue:
        """Emits the mask of all numbers of a line but the last one."""
        b = frame.builder
        assert isinstance(self.length, int)
        count = self.length - (1 if self.dtype.is_complex else 2)
        inside = b.cmpi("slt", b.arange(along.size), b.const(count, I32, (along.size,)))
        return frame.expand(Block(inside, (along,), I1), dims)

    def whole(self, frame: Frame) -> None:
        """Defines a scan along an axis that lies whole in the frame's blocks."""
        with frame.kernel.at(self.value):
            self._whole(frame)

    def _whole(self, frame: Frame) -> None:
        along = frame.coordinates[self.axis]
        if not isinstance(along, Dimension):  # one position
            one = frame.block(self.operand)
            frame.define(self.number, Block(self.neutral, (), self.elem) if self.exclusive else one)
            return
        dims = union(self._kept(frame), (along,))
        terms = self._terms(frame, along, dims)
        self._define(frame, terms, dims, along)

    def chunk(self, frame: Frame, carry: SSAValue) -> SSAValue:
        """Defines the scan in a chunk's frame; returns the carry of the next chunk."""
        with frame.kernel.at(self.value):
            return self._chunk(frame, carry)

    def _chunk(self, frame: Frame, carry: SSAValue) -> SSAValue:
        b = frame.builder
        along = frame.coordinates[self.axis]
        if not isinstance(along, Dimension):
            raise UnsupportedError("tile: a scan along an axis that is not blocked")
        if self.combine is None:
            raise UnsupportedError("tile: a line that is sorted or transformed does not lie whole in a block")
        kept = self._kept(frame)
        dims = union(kept, (along,))
        terms = self._terms(frame, along, dims)
        first, last = (along.size - 1, 0) if self.reverse else (0, along.size - 1)
        (started,) = self.combine(b, [frame.expand(Block(carry, kept, self.elem), dims)], [terms])
        terms = b.select(self._lane(frame, along, dims, first), started, terms)
        sums = self._define(frame, terms, dims, along)
        others = b.const(self.neutral, self.elem, shape(dims))
        final = b.select(self._lane(frame, along, dims, last), sums, others)
        return b.reduce([final], dims.index(along), self.combine)[0]

    def _define(self, frame: Frame, terms: SSAValue, dims: tuple[Dimension, ...], along: Dimension) -> SSAValue:
        b, axis = frame.builder, dims.index(along)
        if self.combine is not None:
            sums = b.scan([terms], axis, self.combine, self.reverse)[0]
        elif self.kind == "sort_block":
            sums = b.sort(terms, axis)
        else:
            kind = self.kind.removeprefix("fft_")
            assert isinstance(self.length, int)
            count = self.length if self.dtype.is_complex else self.length // 2
            sums = b.fft(terms, axis, kind, count - kind.startswith("real"))
            if kind == "real_inverse":  # which has a number less than it is given
                sums = b.select(self._before_last(frame, along, dims), sums, b.const(0, self.elem, shape(dims)))
        result = round_tensor_float32(frame.builder, sums) if self.dtype.name == "tensor_float32" else sums
        frame.define(self.number, Block(result, dims, self.elem))
        return sums
