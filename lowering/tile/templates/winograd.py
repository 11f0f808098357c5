"""Builds convolutions in tiles of 2 × 2 or 4 × 4 results, by Winograd's F(2×2, 3×3) and F(4×4, 3×3) (`graph_passes/winograd.py`
has the formulas).

A program makes the tiles of a block of rows for a panel of filters: 16 or 36 products over the channels, each of sums of
elements of the input with a transformed filter, whose sums are 4 or 16 blocks of results. What is not finite makes every result
NaN or infinite in whose window it is, and may do so with others of the tile; they may be NaN where the plain sum is infinite or
large, too. A block with such a result is computed again as the plain product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.ir import SSAValue

from ....promotion.errors import UnsupportedError
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32, I64
from ..blocks import Block, Coordinate, Dimension, Merged, shape
from ..emit import Frame
from ..index_builder import Index
from ..structure import Product, Space, spaces_of, tile_side
from .products import INNER_RANK, contraction, operand
from .winograd_sums import sums_of_elements, sums_of_products

TAPS = 3


class Convolution:
    """A convolution in tiles, as a program makes it."""

    def __init__(self, frame: Frame, product: Product, rows: Dimension, columns: Dimension, step: int) -> None:
        """Begins the program. frame: binds the grid and the filters. rows: tiles. step: channels per product."""
        self.frame, self.product, self.rows, self.columns, self.step = frame, product, rows, columns, step
        nest = frame.kernel.nest
        self.spaces, self.inside = spaces_of(nest.body[product.number]), tile_side(nest, product)
        self.side = self.inside + TAPS - 1
        positions = [(row, column) for row in range(self.inside) for column in range(self.inside)]
        self.within = {position: self._rows_with(*position) for position in positions}

    def store(self) -> None:
        """Emits the results and all stores of the nest."""
        b, indices = self.frame.builder, self.frame.indices
        results = self._results()
        branch = b.if_(self._is_odd(list(results.values())))
        with branch.then(), indices.scope():
            self._store_plain()
        with branch.otherwise(), indices.scope():
            for position, result in results.items():
                self._store(self.frame.child(self._at(*position)), result, self.within[position])

    # -- coordinates -------------------------------------------------------------------------------------

    def _at(self, row: int, column: int) -> dict[int, Coordinate]:
        """Returns the coordinates of the results at one position inside of their tiles."""
        inside = dict(zip([space.inside for space in self.spaces], (row, column), strict=True))
        return {**dict.fromkeys(self.product.rows, Merged(self.within[row, column], self.product.rows)), **inside}

    def _rows_with(self, row: int, column: int) -> Dimension:
        """Returns the tiles that have a result at a position inside of them."""
        lanes: SSAValue | None = None
        for space, position in zip(self.spaces, (row, column), strict=True):
            if position and not self._is_whole(space):
                tile = self._position(self.rows, self.product.rows, space.tiles)
                last = self._below(space, tile, position, self.rows.size)
                lanes = last if lanes is None else self.frame.builder.binary("arith.andi", lanes, last)
        return self.rows if lanes is None else replace(self.rows, inside=lanes)

    def _is_whole(self, space: Space) -> bool:
        return type(space.extent) is int and space.extent % self.inside == 0

    def _position(self, dim: Dimension, axes: tuple[int, ...], axis: int) -> SSAValue:
        """Emits the index along one of the axes over whose product a dimension runs."""
        b, kernel = self.frame.builder, self.frame.kernel
        step: Index = 1
        for following in axes[axes.index(axis) + 1 :]:
            step = self.frame.indices.mul(step, kernel.extent(kernel.nest.axes[following].extent))
        extent = kernel.extent(kernel.nest.axes[axis].extent)
        quotient = b.binary("arith.divsi", self.frame.index(dim), self._filled(step, dim.size))
        return b.binary("arith.remsi", quotient, self._filled(extent, dim.size))

    def _below(self, space: Space, tile: SSAValue, inside: SSAValue | int, size: int) -> SSAValue:
        """Emits which results are within the extent along one axis of space."""
        b = self.frame.builder
        first = b.binary("arith.muli", tile, self._filled(self.inside, size))
        result = b.binary("arith.addi", first, self._filled(inside, size) if isinstance(inside, int) else inside)
        return b.cmpi("slt", result, self._filled(self.frame.kernel.extent(space.extent), size))

    def _filled(self, index: Index, size: int) -> SSAValue:
        b = self.frame.builder
        return b.const(index, I64, (size,)) if isinstance(index, int) else b.splat(index, (size,))

    # -- results -----------------------------------------------------------------------------------------

    def _results(self) -> dict[tuple[int, int], SSAValue]:
        """Emits the blocks of results, by their position inside of a tile."""
        b, side = self.frame.builder, self.side
        products = self._products()
        parts = [sums_of_products(b, [products[side * row + column] for row in range(side)]) for column in range(side)]
        found = {}
        for row in range(self.inside):
            for column, result in enumerate(sums_of_products(b, [part[row] for part in parts])):
                found[row, column] = result
        return found

    def _products(self) -> list[SSAValue]:
        """Emits the products over all channels."""
        kernel, b = self.frame.kernel, self.frame.builder
        zeros = [b.const(0, F32, (self.rows.size, self.columns.size))] * self.side**2
        channels = kernel.nest.axes[self.product.k].extent
        assert type(channels) is int
        if channels <= self.step:
            return self._step(0, zeros)
        with kernel.loop(-(-channels // self.step), zeros) as loop:
            loop.yield_(self._step(self.frame.indices.mul(loop.index, self.step), loop.args))
        return loop.results

    def _step(self, start: Index, totals: Sequence[SSAValue]) -> list[SSAValue]:
        """Emits `totals` plus the products over one block of channels."""
        b, side = self.frame.builder, self.side
        inner = self.frame.kernel.dimension(self.product.k, self.step, start, INNER_RANK)
        across = [sums_of_elements(b, [self._elements(row, column, inner) for column in range(side)]) for row in range(side)]
        down = [sums_of_elements(b, [across[row][column] for row in range(side)]) for column in range(side)]
        found = []
        for number, total in enumerate(totals):
            row, column = divmod(number, side)
            found.append(b.dot(down[column][row], self._filters(row, column, inner), total))
        return found

    def _elements(self, row: int, column: int, inner: Dimension) -> SSAValue:
        """Emits the elements of the input at one position of what all tiles' windows cover.

        They are zero where only windows beyond the last result have them.
        """
        value = self.frame.kernel.nest.body[self.product.number]
        taps = dict(zip([space.taps for space in self.spaces], (row, column), strict=True))
        first = max(0, row - TAPS + 1), max(0, column - TAPS + 1)  # the first result that has it in its window
        inside = {space.inside: 0 for space in self.spaces}
        child = self.frame.child({**self._at(*first), **inside, **taps, self.product.k: inner})
        return operand(child, value.operands[0], self.within[first], inner, inner)

    def _filters(self, row: int, column: int, inner: Dimension) -> SSAValue:
        """Loads what one of the products takes of the filters: element (k, n) of panel p at
        `((p · products + product) · channels + k) · width + n`."""
        frame, indices = self.frame, self.frame.indices
        nest = frame.kernel.nest
        value = nest.body[nest.body[self.product.number].attrs["transformed"]]
        channels, width = nest.axes[self.product.k].extent, nest.body[self.product.number].attrs["panel"]
        assert type(channels) is int
        if self.columns.size != width:
            raise UnsupportedError(f"tile: filters in panels of {width}, read in blocks of {self.columns.size}")
        panel = indices.div(self.columns.start, width)
        number = indices.add(indices.mul(panel, self.side**2), self.side * row + column)
        lanes = replace(self.columns, start=0, extent=width)
        terms = [
            Block(frame.scaled_index(inner, width), (inner,), I64),
            Block(frame.scaled_index(lanes, 1), (self.columns,), I64),
        ]
        order = (inner, self.columns)
        pointers = frame.pointers(value.attrs["buffer"], indices.mul(number, channels * width), terms, order)
        mask = frame.mask((inner,), order)
        other = None if mask is None else frame.builder.const(0, F32, shape(order))
        return frame.builder.load(pointers, mask, other)

    def _is_odd(self, results: Sequence[SSAValue]) -> SSAValue:
        """Emits whether any result is not finite: 0 · x is NaN then."""
        b, sizes = self.frame.builder, (self.rows.size, self.columns.size)
        zeros = b.const(0, F32, sizes)
        sums = zeros
        for result in results:
            sums = b.binary("arith.addf", sums, b.binary("arith.mulf", result, zeros))
        mask = self.frame.mask((self.rows, self.columns))
        if mask is not None:
            sums = b.select(mask, sums, zeros)
        for _ in sizes:
            (sums,) = b.reduce([sums], 0, _sum)
        return b.cmpf("uno", sums, sums)

    # -- stores ------------------------------------------------------------------------------------------

    def _store(self, frame: Frame, result: SSAValue, rows: Dimension) -> None:
        frame.define(self.product.number, Block(result, (rows, self.columns), F32))
        for store in frame.kernel.nest.stores:
            frame.store(store)

    def _store_plain(self) -> None:
        """Emits the plain product for all results of all tiles, side by side, and the stores of them."""
        indices, spaces = self.frame.indices, self.spaces
        axes = (*self.product.rows, *[space.inside for space in spaces])
        count = self.inside**2
        start, extent = indices.mul(self.rows.start, count), indices.mul(self.rows.extent, count)
        rows = Dimension(axes[-1], self.rows.size * count, start, extent, self.rows.rank)
        lanes: SSAValue | None = None
        for space in spaces:
            if not self._is_whole(space):
                tile, inside = (self._position(rows, axes, axis) for axis in (space.tiles, space.inside))
                below = self._below(space, tile, inside, rows.size)
                lanes = below if lanes is None else self.frame.builder.binary("arith.andi", lanes, below)
        rows = rows if lanes is None else replace(rows, inside=lanes)
        child = self.frame.child(dict.fromkeys(axes, Merged(rows, axes)))
        self._store(child, contraction(child, self.product, rows, self.columns, self.step).emitted, rows)


def _sum(b: BlockBuilder, left: list[SSAValue], right: list[SSAValue]) -> Sequence[SSAValue]:
    return [b.binary("arith.addf", left[0], right[0])]
