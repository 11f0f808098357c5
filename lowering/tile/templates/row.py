"""Builds the row and scan templates: reductions and scans, with everything elementwise before, between and
after them.

Short rows of known length lie whole in a block: one pass over memory. Longer ones, and lengths known only at
launch, are walked in chunks: one loop per level of dependent reductions (the maximum, then the sum of a
softmax), and a last loop for what is stored along the row. A program handles several rows when they are
short, and a block of columns when the kept axis is the contiguous one.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from ....promotion.errors import UnsupportedError
from ...nest import Nest, Store
from ..blocks import Block, Coordinate, Dimension, union
from ..emit import Frame, Kernel
from ..index_builder import Index
from ..reductions import Reduction, reduce_whole
from ..schedule import Schedule, is_whole
from ..structure import reach, reduced_axes, values_of
from .map import open_frame
from .scan import Scan


def build_row(kernel: Kernel, schedule: Schedule) -> list[tuple[int, int]]:
    """Emits the program; returns the grid as (axis, block) pairs."""
    nest = kernel.nest
    reduced = reduced_axes(nest)
    kept = [axis for axis in range(len(nest.axes)) if axis not in reduced]
    blocks = dict(schedule.blocks)
    frame = open_frame(kernel, schedule, kept)
    if all(is_whole(nest.axes[axis].extent, blocks.get(axis, 1)) for axis in reduced):
        _whole(kernel, schedule, frame, reduced)
    else:
        _Chunks(kernel, schedule, frame, reduced).run()
    return [(axis, blocks.get(axis, 1)) for axis in kept]


def _whole(kernel: Kernel, schedule: Schedule, outer: Frame, reduced: tuple[int, ...]) -> None:
    blocks = dict(schedule.blocks)
    ranks = {axis: rank for rank, (axis, _) in enumerate(schedule.blocks)}
    coordinates: dict[int, Coordinate] = {}
    for axis in reduced:
        # An axis of extent 1 needs no dimension; an empty one does, whose lanes are all masked.
        coordinates[axis] = 0 if axis not in blocks else kernel.dimension(axis, blocks[axis], 0, ranks[axis])
    frame = outer.child(coordinates)
    targets = [store.value for store in kernel.nest.stores]
    for number, value in enumerate(kernel.nest.body):
        if value.op in ("reduce", "scan"):
            frame.hoist(targets, reduced)
        if value.op == "reduce":
            reduce_whole(frame, number)
        elif value.op == "scan":
            Scan(frame, number).whole(frame)
    for store in kernel.nest.stores:
        frame.store(store)


_SEGMENT = 64
"""Number of chunks whose results are added one by one."""


class _Chunks:
    """A row walked in chunks of one of its axes; further reduced axes are walked position by position."""

    def __init__(self, kernel: Kernel, schedule: Schedule, frame: Frame, reduced: tuple[int, ...]) -> None:
        self.kernel, self.frame, self.reduced = kernel, frame, reduced
        self.nest: Nest = kernel.nest
        self.lanes = schedule.lanes
        ranks = {axis: rank for rank, (axis, _) in enumerate(schedule.blocks)}
        self.blocks = {axis: (size, ranks[axis]) for axis, size in schedule.blocks if axis in reduced}
        self.reductions: dict[int, list[Reduction]] = {}
        self.first: list[Store] = []  # of what needs no reduction: stored in the pass of the first ones, which compute it, too
        self.last: dict[tuple[int, ...], list[Store]] = {}  # the others, by the reduced axes they lie along
        self.scans = [Scan(frame, number) for number in values_of(self.nest, "scan")]
        self._levels()
        self.counts = {
            axis: kernel.indices.ceil_div(kernel.axis_extent(axis), self.blocks.get(axis, (1, 0))[0])
            for axis in reduced
        }

    def _levels(self) -> None:
        """Groups the reductions by how many others they depend on, and checks that they can be computed in
        chunks."""
        nest = self.nest
        level = [0] * len(nest.body)
        scanned = set(values_of(nest, "scan"))
        for number, value in enumerate(nest.body):
            level[number] = max([level[operand] for operand in value.operands], default=0)
            if value.op != "reduce" or not value.attrs["over"]:
                continue
            reduction = Reduction(self.frame, number)
            if set(reduction.over) != set(self.reduced):
                raise UnsupportedError(
                    "tile: reductions over different axes of rows that are too long to lie in one block"
                )
            if scanned & reach(nest, value.operands):
                raise UnsupportedError(
                    "tile: a reduction of a scan along rows that are too long to lie in one block"
                )
            if len(reduction.over) == 1 and (self.lanes or reduction.over[0] not in self.blocks):
                reduction.walk(self.kernel.axis_extent(reduction.over[0]))
            level[number] += 1
            self.reductions.setdefault(level[number], []).append(reduction)
        for store in nest.stores:
            along = self._axes_of(store)
            if along == self.reduced and not level[store.value] and self.reductions and not self.scans:
                self.first.append(store)
            else:
                self.last.setdefault(along, []).append(store)
        if self.scans and (len(self.reduced) > 1 or len({scan.reverse for scan in self.scans}) > 1):
            raise UnsupportedError("tile: scans along several axes or in both directions in one nest")

    def run(self) -> None:
        kept = [each for each in self.frame.coordinates.values() if isinstance(each, Dimension)]
        for dimension in kept:  # where the host finds, before the chunks, which of the carried elements there are
            self.frame.mask((dimension,))
        for level in sorted(self.reductions):
            self._reduce(self.reductions[level], self.first if level == 1 else [])
        for along, stores in self.last.items():
            if along:
                self._walk(stores, along)
            else:
                for store in stores:
                    self.frame.store(store)

    def _axes_of(self, store: Store) -> tuple[int, ...]:
        """Returns the reduced axes that a store lies along."""
        touched = set(self.nest.body[store.value].axes) | {axis for axis, _ in store.at.terms}
        if {scan.number for scan in self.scans} & reach(self.nest, [store.value]):
            return self.reduced
        return tuple([axis for axis in self.reduced if axis in touched])

    def _count(self, axes: tuple[int, ...]) -> Index:
        """Returns the number of chunks along some of the reduced axes."""
        total: Index = 1
        for axis in axes:
            total = self.kernel.indices.mul(total, self.counts[axis])
        return total

    def _coordinates(self, chunk: Index, axes: tuple[int, ...]) -> dict[int, Coordinate]:
        """Returns the coordinates of chunk number `chunk` along `axes`; the last axis varies fastest."""
        indices, kernel = self.kernel.indices, self.kernel
        coordinates: dict[int, Coordinate] = {}
        rest = chunk
        for position, axis in reversed(list(enumerate(axes))):
            count = self.counts[axis]
            at = rest if position == 0 else indices.mod(rest, count)
            rest = rest if position == 0 else indices.div(rest, count)
            if axis in self.blocks:
                size, rank = self.blocks[axis]
                coordinates[axis] = kernel.dimension(axis, size, indices.mul(at, size), rank)
            else:
                coordinates[axis] = at
        return coordinates

    def _reduce(self, reductions: list[Reduction], stores: list[Store]) -> None:
        frame = self.frame
        frame.hoist([*[reduction.operand for reduction in reductions], *[store.value for store in stores]], self.reduced)
        dims = [reduction.kept_dims(frame) for reduction in reductions]
        over = self._dimensions(0) if self.lanes else ()
        lanes = [union(kept, over) for kept in dims]
        count = self._count(self.reduced)
        if all(reduction.is_exact for reduction in reductions) or (isinstance(count, int) and count <= _SEGMENT):
            results = self._accumulate(reductions, stores, lanes, count, lambda index: index)
        else:
            results = self._accumulate_segments(reductions, stores, lanes, count)
        for reduction, kept, left in zip(reductions, dims, lanes, strict=True):
            size = len(reduction.elems)
            with frame.kernel.at(reduction.value):
                values = results[:size]
                for dim in over:
                    values = frame.builder.reduce(values, left.index(dim), reduction.combine)
                    left = tuple([other for other in left if other is not dim])
                frame.define(reduction.number, reduction.result(frame, values, kept))
            results = results[size:]

    def _dimensions(self, chunk: Index) -> tuple[Dimension, ...]:
        """Returns the block dimensions of a chunk along the reduced axes."""
        coordinates = self._coordinates(chunk, self.reduced).values()
        return tuple([each for each in coordinates if isinstance(each, Dimension)])

    def _accumulate_segments(
        self, reductions: list[Reduction], stores: list[Store], dims: list[tuple[Dimension, ...]], count: Index
    ) -> list[SSAValue]:
        """Accumulates as `_accumulate` does, in segments whose results are combined: a sum is then rounded
        once per chunk of a segment and once per segment, not once per chunk of the row."""
        kernel, indices = self.kernel, self.kernel.indices
        with kernel.loop(indices.ceil_div(count, _SEGMENT), self._initial(reductions, dims)) as loop:
            start = indices.mul(loop.index, _SEGMENT)
            left = indices.add(count, indices.mul(start, -1))
            length = kernel.builder.binary("arith.minsi", indices.value(left), indices.value(_SEGMENT))
            parts = self._accumulate(reductions, stores, dims, length, lambda index: indices.add(start, index))
            following: list[SSAValue] = []
            carried = list(loop.args)
            for reduction in reductions:
                size = len(reduction.elems)
                with kernel.at(reduction.value):
                    following.extend(reduction.continued(kernel.builder, carried[:size], parts[:size]))
                carried, parts = carried[size:], parts[size:]
            loop.yield_(following)
        return list(loop.results)

    def _initial(self, reductions: list[Reduction], dims: list[tuple[Dimension, ...]]) -> list[SSAValue]:
        return [
            value
            for reduction, kept in zip(reductions, dims, strict=True)
            for value in reduction.initial(self.frame, kept)
        ]

    def _accumulate(
        self,
        reductions: list[Reduction],
        stores: list[Store],
        dims: list[tuple[Dimension, ...]],
        count: Index,
        chunk: Callable[[SSAValue], Index],
    ) -> list[SSAValue]:
        """Accumulates, and stores, in one loop over `count` chunks; `chunk` maps the loop index to the number of a
        chunk."""
        frame, kernel = self.frame, self.kernel
        with kernel.loop(count, self._initial(reductions, dims)) as loop:
            inner = frame.child(self._coordinates(chunk(loop.index), self.reduced))
            carried = list(loop.args)
            following: list[SSAValue] = []
            for reduction, kept in zip(reductions, dims, strict=True):
                with kernel.at(reduction.value):
                    if self.lanes:
                        values, left, over = reduction.masked(inner)
                        order = union(reduction.kept_dims(frame), over)
                    else:
                        values, left = reduction.partial(inner)
                        order = kept
                    values = [
                        inner.expand(Block(value, left, elem), order)
                        for value, elem in zip(values, reduction.elems, strict=True)
                    ]
                    accumulated, carried = carried[: len(values)], carried[len(values) :]
                    following.extend(reduction.continued(kernel.builder, accumulated, values))
            for store in stores:
                inner.store(store)
            loop.yield_(following)
        return list(loop.results)

    def _walk(self, stores: list[Store], axes: tuple[int, ...]) -> None:
        """Emits the loop that stores along some of the reduced axes, and carries the scans."""
        frame, kernel, indices = self.frame, self.kernel, self.kernel.indices
        frame.hoist([store.value for store in stores], axes)
        inits = [scan.initial(frame) for scan in self.scans]
        reverse = bool(self.scans) and self.scans[0].reverse
        count = self._count(axes)
        with kernel.loop(count, inits) as loop:
            chunk = loop.index
            if reverse:
                last = indices.add(count, -1)
                chunk = kernel.builder.binary("arith.subi", indices.value(last), chunk)
            inner = frame.child(self._coordinates(chunk, axes))
            loop_values = [
                scan.chunk(inner, carry) for scan, carry in zip(self.scans, loop.args, strict=True)
            ]
            for store in stores:
                inner.store(store)
            loop.yield_(loop_values)
