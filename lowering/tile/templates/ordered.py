"""Builds programs that work in the memory of their result, one step after the other: scatters and sorts.

Lines are what such an operation treats alike, a line for each index of the other axes. The lanes of a block are lines side by
side, which take their steps together; each has memory of its own, so no lane waits for another one. A program of a scatter
also owns a segment of its lines: it copies that, goes through all positions in their order, and applies the updates that fall
into the segment. So results do not depend on the number of programs, and long lines keep all threads busy.

Elements of a sort are packed with their positions: they differ from each other, so any sort of them is stable. Short lines, and
lines that are lanes, merge runs of 1, 2, 4, … elements from one row of their result to the other and back. Long lines are
distributed from row to row by the four bytes of their keys, the lowest first (a radix sort); a third row has the counters.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

from ....graph.ops.shape import LONG_LINE
from ....promotion.errors import InternalError, UnsupportedError
from ...nest import Affine, Store, Value
from ...target import SHORT_LINE
from ...tt.facts import PROGRAM_ORDER
from ...tt.types import I64
from ..blocks import Block, Coordinate, Dimension, Merged, memory_type, shape, union
from ..elements import scalar
from ..emit import Frame, Kernel
from ..index_builder import Index
from ..schedule import Schedule

_COMBINE = {"add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}
"""Reduction of a scatter → the map that combines an element with an update."""
_ROUNDS = 24
"""Pairs of merges: runs grow fourfold in each, to 2^48 elements. Those that a line does not need have no steps."""
_LARGEST = 2**63 - 1
_BYTE = 8
"""Bits of a key by which a long line is distributed at a time."""
TOGETHER = 16
"""Short lines that a program sorts: as many as a register of the host has elements of 32 bits."""
UPDATES = 4
"""Updates of a scatter that an iteration does, one after the other."""
CHUNK = 1024
"""Elements that are copied together, where a line is alone in its program."""


def build_ordered(kernel: Kernel, schedule: Schedule) -> list[tuple[int, int]]:
    """Emits the program; returns the grid as (axis, block) pairs."""
    (store,) = kernel.nest.stores
    value = kernel.nest.body[store.value]
    function = kernel.builder.func
    function.attributes = {key: fact for key, fact in function.attributes.items() if key != PROGRAM_ORDER}
    kinds: dict[str, type[_Scatter | _Sort | _SortLines]] = {"scatter": _Scatter, "sort": _Sort, "sort_lines": _SortLines}
    return kinds[value.op](kernel, schedule, store, value).build()


class _Ordered:
    """What both kinds of programs share: the lines of a program, and copies of its operand into its result."""

    def __init__(self, kernel: Kernel, schedule: Schedule, store: Store, value: Value) -> None:
        self.kernel, self.builder, self.indices = kernel, kernel.builder, kernel.indices
        self.store, self.value = store, value
        self.blocks = dict(schedule.blocks)

    def open(self, fixed: tuple[int, ...], segmented: int = -1) -> tuple[Frame, Index, list[tuple[int, int]]]:
        """Opens the frame of the program's lines; returns it with the start of its segment and the grid."""
        lines = [axis for axis in range(len(self.kernel.nest.axes)) if axis not in fixed]
        grid = [(axis, self.blocks.get(axis, 1)) for axis in ([segmented] if segmented >= 0 else []) + lines]
        starts = self.kernel.grid(grid)
        coordinates: dict[int, Coordinate] = {}
        for axis in lines:
            size = self.blocks.get(axis, 1)
            coordinates[axis] = starts[axis] if size == 1 else self.kernel.dimension(axis, size, starts[axis])
        self.lanes = tuple([c for c in coordinates.values() if isinstance(c, Dimension)])
        return Frame(self.kernel, coordinates), starts.get(segmented, 0), grid

    def fill(self, frame: Frame, axis: int, start: Index, count: Index, number: int, rows: dict[int, Coordinate]) -> None:
        """Stores a value at `count` positions of an axis from `start` on: at those of all lanes one by one, else in chunks."""
        if axis < 0:
            self._put(frame.child(rows), number)
            return
        size = 1 if self.lanes else min(CHUNK, self.blocks.get(axis, CHUNK))
        with self.kernel.loop(self.indices.ceil_div(count, size)) as loop:
            at = self.indices.add(start, self.indices.mul(loop.index, size))
            where = at if size == 1 else self.kernel.dimension(axis, size, at)
            self._put(frame.child({**rows, axis: where}), number)

    def _put(self, frame: Frame, number: int) -> None:
        frame.define(self.store.value, frame.block(number))
        frame.store(self.store)

    def line_address(self, frame: Frame, without: tuple[int, ...]) -> Affine:
        """Returns the address of a line in the result: that of the store without the terms of some axes."""
        at = self.store.at
        return Affine(at.offset, tuple([(axis, step) for axis, step in at.terms if axis not in without]))

    def count(self, axis: int) -> Index:
        return 1 if axis < 0 else self.kernel.axis_extent(axis)

    def step(self, axis: int) -> Index:
        """Returns the distance of two neighbours along an axis of the result, in elements."""
        return 0 if axis < 0 else self.kernel.extent(self.store.at.coefficient(axis))

    def all_of(self, masks: list[SSAValue | None]) -> SSAValue:
        """Emits the conjunction of masks of one shape, of which the first is there."""
        joined: SSAValue | None = None
        for mask in masks:
            if mask is not None:
                joined = mask if joined is None else self.builder.binary("arith.andi", joined, mask)
        if joined is None:
            raise InternalError("tile: an access in order without a mask")
        return joined


class _Scatter(_Ordered):
    def build(self) -> list[tuple[int, int]]:
        attrs = self.value.attrs
        target, over = attrs["target"], attrs["over"]
        frame, start, grid = self.open((target, over), target)
        extent = self.count(target)
        stop = self.indices.minimum(self.indices.add(start, self.blocks.get(target, 1)), extent)
        self.fill(frame, target, start, self.indices.sub(stop, start), self.value.operands[0], {})
        with self.kernel.at(self.value):
            if over < 0:
                self._update(frame, start, stop)
            else:
                self._updates(frame, over, start, stop)
        return grid

    def _updates(self, frame: Frame, over: int, start: Index, stop: Index) -> None:
        """Emits all updates in their order, several in an iteration: what counts iterations is half of one otherwise."""
        count, indices = self.count(over), self.indices
        together = UPDATES if isinstance(count, int) and count >= UPDATES else 1
        with self.kernel.loop(count // together if isinstance(count, int) else count) as loop:
            first = indices.mul(loop.index, together)
            for number in range(together):
                self._update(frame.child({over: indices.add(first, number)}), start, stop)
        if isinstance(count, int):
            for number in range(count - count % together, count):
                self._update(frame.child({over: number}), start, stop)

    def _update(self, frame: Frame, start: Index, stop: Index) -> None:
        b, target = self.builder, self.value.attrs["target"]
        position, update = (frame.block(operand) for operand in self.value.operands[1:])
        base, terms = frame.position(self.line_address(frame, (target,)), [(self._index(position), self.step(target))])
        order = union(position.dims, update.dims, *[term.dims for term in terms])
        lanes = order if position.dims else ()
        at = frame.expand(position, lanes) if lanes else frame.scalar_value(position)
        low, high = (self._limit(bound, lanes) for bound in (start, stop))
        if start == 0 and isinstance(start, int):  # what is negative is above all sizes as an unsigned number
            inside: list[SSAValue | None] = [b.cmpi("ult", at, high)]
        else:
            inside = [b.cmpi("sge", at, low), b.cmpi("slt", at, high)]
        pointers = frame.pointers(self.store.buffer, base, terms, order)
        new = frame.expand(update, order) if order else frame.scalar_value(update)
        within = frame.mask(order) if order else None
        if lanes:
            self._apply(pointers, new, self.all_of([*inside, within]), order)
            return
        with b.if_(self.all_of(inside)).then():  # a row goes to one position, or nowhere
            self._apply(pointers, new, within, order)

    def _apply(self, pointers: SSAValue, new: SSAValue, mask: SSAValue | None, order: tuple[Dimension, ...]) -> None:
        """Stores an update, or what it and the element there make."""
        b, dtype, kind = self.builder, self.value.dtype, self.value.attrs["kind"]
        if kind != "none":
            other = None if mask is None else b.const(0, memory_type(dtype), shape(order))
            old = scalar.from_memory(b, b.load(pointers, mask, other), dtype)
            call = scalar.Call(b, _COMBINE[kind], (dtype, dtype), dtype, {}, (None, None))
            new = scalar.emit(call, [old, new])
        b.store(pointers, scalar.to_memory(b, new, dtype), mask)

    def _index(self, position: Block) -> Block:
        """Returns the position as the index of an access, of which constants are ints."""
        return position if position.constant is None else Block(int(position.constant), (), I64)

    def _limit(self, bound: Index, order: tuple[Dimension, ...]) -> SSAValue:
        value = self.indices.value(bound)
        return self.builder.splat(value, shape(order)) if order else value


class _SortLines(_Ordered):
    def build(self) -> list[tuple[int, int]]:
        """Emits programs of a line each. Of short lines, which are sorted beside each other, every sixteenth program sorts as
        many, and the others none: so there are programs for all threads, whatever the lengths turn out to be.
        """
        axis = self.value.attrs["axis"]
        frame, _, grid = self.open((axis,))
        extent, beside = self.count(axis), self._beside(axis)
        b, indices = self.builder, self.indices
        with self.kernel.at(self.value):
            if beside < 0:
                self.fill(frame, axis, 0, extent, self.value.operands[0], {})
                self._sort(frame, axis, indices.value(1), extent)
                return grid
            first = frame.coordinates[beside]
            if isinstance(first, Dimension | Merged):
                raise UnsupportedError("tile: lines that are sorted in memory, in blocks of several lines")
            left = indices.minimum(indices.sub(self.count(beside), first), TOGETHER)
            begins = b.cmpi("eq", indices.value(indices.mod(first, TOGETHER)), indices.value(0))
            together = b.select(begins, indices.value(left), indices.value(0))
            lines = b.select(indices.is_less(extent, SHORT_LINE + 1), together, indices.value(1))
            with self.kernel.loop(lines) as loop:
                inner = frame.child({beside: indices.add(first, loop.index)})
                self.fill(inner, axis, 0, extent, self.value.operands[0], {})
            self._sort(frame, axis, lines, extent)
        return grid

    def _beside(self, axis: int) -> int:
        """Returns the axis of the grid along which lines lie one after the other; -1 for none."""
        extent = 1 if axis < 0 else self.kernel.nest.axes[axis].extent
        found = [each for each, step in self.store.at.terms if each != axis and step == extent]
        return found[0] if found else -1

    def _sort(self, frame: Frame, axis: int, lines: SSAValue, extent: Index) -> None:
        if axis < 0:  # of one element
            return
        if self.step(axis) != 1:
            raise InternalError("tile: elements of a line that is sorted in memory do not lie side by side")
        start, terms = frame.position(self.line_address(frame, (axis,)))
        line = frame.pointers(self.store.buffer, start, terms, ())
        self.builder.sort_lines(line, lines, self.indices.value(extent))


class _Sort(_Ordered):
    def build(self) -> list[tuple[int, int]]:
        axis, half = self.value.attrs["axis"], self.value.attrs["half"]
        frame, _, grid = self.open((axis, half))
        self.frame, self.axis, self.half, self.extent = frame, axis, half, self.count(axis)
        self.base, self.terms = frame.position(self.line_address(frame, (axis, half)))
        with self.kernel.at(self.value):
            self._chunks(self._packed)
            if self.lanes or (isinstance(self.extent, int) and self.extent < LONG_LINE):
                self._merge_all(self.extent)
                self.source: Index = 0
            elif isinstance(self.extent, int):
                self.source = self._distribute_all(4)
            else:
                none, extent = self.builder.const(0, I64), self.indices.value(self.extent)
                short = self.indices.is_less(self.extent, LONG_LINE)
                self._merge_all(self.builder.select(short, extent, none))
                self.source = self._distribute_all(self.builder.select(short, none, self.builder.const(4, I64)))
            self._chunks(self._unpacked)
        return grid

    def _pointers(self, row: Index, at: SSAValue, dims: tuple[Dimension, ...]) -> SSAValue:
        """Emits pointers to positions (a block over `dims`, or a scalar) of a row of the result."""
        start = self.indices.add(self.base, self.indices.mul(self.step(self.half), row))
        if not dims:
            return self.frame.pointers(self.store.buffer, self.indices.add(start, at), self.terms, ())
        return self.frame.pointers(self.store.buffer, start, [*self.terms, Block(at, dims, I64)], dims)

    def _chunks(self, body: Callable[[Frame, SSAValue, tuple[Dimension, ...]], None]) -> None:
        """Goes along the line, in chunks or one position of all lanes after the other."""
        size = 1 if self.lanes else CHUNK
        with self.kernel.loop(self.indices.ceil_div(self.extent, size)) as loop:
            start = self.indices.mul(loop.index, size)
            if size == 1 or self.axis < 0:
                where: Coordinate = start
                at, dims = self.frame.offsets(start, [], self.lanes), self.lanes
            else:
                where = self.kernel.dimension(self.axis, size, start)
                at, dims = self.frame.index(where), (where,)
            inner = self.frame.child({} if self.axis < 0 else {self.axis: where})
            body(inner, at, dims)

    def _packed(self, frame: Frame, at: SSAValue, dims: tuple[Dimension, ...]) -> None:
        b = self.builder
        block = frame.block(self.value.operands[0])
        keys = frame.expand(block, dims) if dims else frame.scalar_value(block)
        upper = b.binary("arith.shli", b.cast("arith.extsi", keys, I64), b.const(32, I64, shape(dims)))
        b.store(self._pointers(0, at, dims), b.binary("arith.addi", upper, at), frame.mask(dims) if dims else None)

    def _unpacked(self, frame: Frame, at: SSAValue, dims: tuple[Dimension, ...]) -> None:
        b = self.builder
        mask = frame.mask(dims) if dims else None
        other = None if mask is None else b.const(0, I64, shape(dims))
        packed = b.load(self._pointers(self.source, at, dims), mask, other)
        if not isinstance(self.source, int):
            b.store(self._pointers(0, at, dims), packed, mask)
        position = b.binary("arith.andi", packed, b.const((1 << 32) - 1, I64, shape(dims)))
        b.store(self._pointers(1, at, dims), position, mask)

    def _distribute_all(self, passes: Index) -> SSAValue:
        """Sorts a line by the bytes of its keys, and returns the row in which it ends.

        A pass counts how many elements have each value of a byte, adds these numbers up to where the first of them goes, and
        moves the elements there in their order. Where all have the same byte, they stay where they are.
        """
        b, indices = self.builder, self.indices
        zero, one, byte = (b.const(number, I64) for number in (0, 1, (1 << _BYTE) - 1))
        extent = indices.value(self.extent)
        with self.kernel.loop(passes, [zero]) as loop:
            (source,) = loop.args
            shift = b.binary("arith.addi", b.binary("arith.muli", loop.index, b.const(_BYTE, I64)), b.const(32, I64))
            signed = b.cmpi("eq", loop.index, b.const(3, I64))
            flip = b.select(signed, b.const(1 << _BYTE - 1, I64), zero)  # the upper bit of a key is its sign

            def counter(element: SSAValue) -> SSAValue:
                digit = b.binary("arith.andi", b.binary("arith.shrui", element, shift), byte)
                return self._pointers(2, b.binary("arith.xori", digit, flip), ())

            with self.kernel.loop(1 << _BYTE) as each:
                b.store(self._pointers(2, each.index, ()), zero)
            with self.kernel.loop(extent) as each:
                at = counter(b.load(self._pointers(source, each.index, ())))
                b.store(at, b.binary("arith.addi", b.load(at), one))
            whole = b.cmpi("eq", b.load(counter(b.load(self._pointers(source, zero, ())))), extent)
            target = b.select(whole, source, b.binary("arith.subi", one, source))
            with self.kernel.loop(1 << _BYTE, [zero]) as each:
                at = self._pointers(2, each.index, ())
                number = b.load(at)
                b.store(at, each.args[0])
                each.yield_([b.binary("arith.addi", each.args[0], number)])
            with self.kernel.loop(b.select(whole, zero, extent)) as each:
                element = b.load(self._pointers(source, each.index, ()))
                at = counter(element)
                first = b.load(at)
                b.store(at, b.binary("arith.addi", first, one))
                b.store(self._pointers(target, first, ()), element)
            loop.yield_([target])
        return loop.results[0]

    def _merge_all(self, extent: Index) -> None:
        b, indices = self.builder, self.indices
        if isinstance(extent, int) and extent < 2:
            return
        rounds = (extent - 1).bit_length() + 1 >> 1 if isinstance(extent, int) else _ROUNDS
        with self.kernel.loop(rounds, [indices.value(1)]) as loop:
            (width,) = loop.args
            double = b.binary("arith.addi", width, width)
            left = b.select(indices.is_less(width, extent), indices.value(extent), b.const(0, I64))
            self._merge(0, 1, width, double, left)
            fourfold = b.binary("arith.addi", double, double)
            self._merge(1, 0, double, fourfold, left)
            loop.yield_([fourfold])

    def _merge(self, source: int, result: int, width: SSAValue, double: SSAValue, extent: SSAValue) -> None:
        """Merges pairs of runs of `width` elements from one row to the other, of `extent` elements or of none."""
        b = self.builder
        runs = b.binary("arith.divsi", b.binary("arith.subi", b.binary("arith.addi", extent, double), b.const(1, I64)), double)
        with self.kernel.loop(runs) as outer:
            low = b.binary("arith.muli", outer.index, double)
            middle = b.binary("arith.minsi", b.binary("arith.addi", low, width), extent)
            high = b.binary("arith.minsi", b.binary("arith.addi", low, double), extent)
            first, second, end_first, end_second = (self._all(each) for each in (low, middle, middle, high))
            heads = [first, second, self._head(source, first, end_first), self._head(source, second, end_second)]
            with self.kernel.loop(b.binary("arith.subi", high, low), heads) as inner:
                i, j, a, c = inner.args
                at = self._all(b.binary("arith.addi", low, inner.index))
                takes_first = b.cmpi("sle", a, c)
                b.store(self._pointers(result, at, self.lanes), b.select(takes_first, a, c), self._inside())
                one, none = (b.const(number, I64, shape(self.lanes)) for number in (1, 0))
                i = b.binary("arith.addi", i, b.select(takes_first, one, none))
                j = b.binary("arith.addi", j, b.select(takes_first, none, one))
                end = b.select(takes_first, end_first, end_second)
                head = self._head(source, b.select(takes_first, i, j), end)
                inner.yield_([i, j, b.select(takes_first, head, a), b.select(takes_first, c, head)])

    def _all(self, value: SSAValue) -> SSAValue:
        """Emits a number for all lanes."""
        return self.builder.splat(value, shape(self.lanes)) if self.lanes else value

    def _inside(self) -> SSAValue | None:
        return self.frame.mask(self.lanes) if self.lanes else None

    def _head(self, row: int, at: SSAValue, end: SSAValue) -> SSAValue:
        """Emits the element of a run at `at`, or the largest number where the run has ended."""
        b = self.builder
        mask = self.all_of([b.cmpi("slt", at, end), self._inside()])
        return b.load(self._pointers(row, at, self.lanes), mask, b.const(_LARGEST, I64, shape(self.lanes)))
