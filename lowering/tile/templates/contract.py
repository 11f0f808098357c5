"""Builds the contract template: matrix products with elementwise work on operands and result.

The grid is batch × column panels × row blocks, rows fastest, so that programs that run one after the other
share a panel of the second operand. A program walks k in steps; operands are read in the order they lie in
memory and transposed in registers where the product wants the other order. Lanes of k outside its extent are
zero in both operands.
"""

from __future__ import annotations

from ..blocks import Coordinate, Dimension, Merged
from ..emit import Frame, Kernel
from ..index_builder import Index
from ..schedule import Schedule
from ..structure import Product, products, spaces_of
from .products import contraction
from .winograd import Convolution

ROW_RANK, COLUMN_RANK = 0, 2


def build_contract(kernel: Kernel, schedule: Schedule) -> list[tuple[int, int]]:
    """Emits the program; returns the grid as (axis, block) pairs."""
    nest = kernel.nest
    blocks = dict(schedule.blocks)
    found = products(nest)
    first = found[0]
    tiled = [axis for axis in (first.n, first.m) if axis is not None]
    spaces = spaces_of(nest.body[first.number])
    inside = {axis for product in found for axis in (*product.outer, product.k, *product.rows)}
    inside.update(space.inside for space in spaces)
    grid = [(axis, 1) for axis in range(len(nest.axes)) if axis not in tiled and axis not in inside]
    grid += [(axis, blocks.get(axis, 1)) for axis in tiled]
    if len(first.rows) > 1:
        kernel.merge(first.rows)
    starts = kernel.grid(grid, schedule.group)
    rows = row_dimension(kernel, first.m, blocks, starts)
    columns = kernel.dimension(
        first.n,
        1 if first.n is None else blocks.get(first.n, 1),
        0 if first.n is None else starts[first.n],
        COLUMN_RANK,
    )
    tile: dict[int, Coordinate] = {axis: dim for axis, dim in ((first.m, rows), (first.n, columns)) if axis is not None}
    if len(first.rows) > 1:
        tile.update(dict.fromkeys(first.rows, Merged(rows, first.rows)))
    frame = Frame(kernel, {**starts, **tile})
    if spaces:
        Convolution(frame, first, rows, columns, blocks.get(first.k, 1)).store()
        return grid
    if nest.body[first.number].attrs.get("symmetric"):
        _Symmetric(kernel, schedule, first, rows, columns).build(starts)
        return grid
    for product in found:
        step = blocks.get(product.k, 1)
        packed = (schedule.packed_b, schedule.together) if product is first and schedule.packed_b else None
        if packed is not None:
            frame.mask((columns,))  # where the host finds, before the product, which columns of a panel there are
        frame.define(product.number, contraction(frame, product, rows, columns, step, packed))
    for store in nest.stores:
        frame.store(store)
    return grid


def row_dimension(
    kernel: Kernel, axis: int | None, blocks: dict[int, int], starts: dict[int, Index]
) -> Dimension:
    if axis is None:
        return kernel.dimension(None, 1, 0, ROW_RANK)
    return kernel.dimension(axis, blocks.get(axis, 1), starts[axis], ROW_RANK)


class _Symmetric:
    """A product of a matrix with its own transpose.

    Blocks that lie below the diagonal are left out. Those above it are stored twice, the second time with rows and columns
    in each other's place; those that the diagonal passes through have both sides.
    """

    def __init__(self, kernel: Kernel, schedule: Schedule, product: Product, rows: Dimension, columns: Dimension) -> None:
        self.kernel, self.schedule, self.product, self.rows, self.columns = kernel, schedule, product, rows, columns

    def build(self, starts: dict[int, Index]) -> None:
        kernel, product, rows, columns = self.kernel, self.product, self.rows, self.columns
        assert product.m is not None
        assert product.n is not None
        indices, b = kernel.indices, kernel.builder
        is_kept = indices.is_less(rows.start, indices.add(columns.start, columns.size))
        with b.if_(is_kept).then(), indices.scope():
            frame = Frame(kernel, {**starts, product.m: rows, product.n: columns})
            packed = (self.schedule.packed_b, self.schedule.together) if self.schedule.packed_b else None
            if packed is not None:
                frame.mask((columns,))
            step = dict(self.schedule.blocks).get(product.k, 1)
            sums = contraction(frame, product, rows, columns, step, packed)
            frame.define(product.number, sums)
            for store in kernel.nest.stores:
                frame.store(store)
            is_above = indices.is_less(indices.add(rows.start, rows.size - 1), columns.start)
            with b.if_(is_above).then(), indices.scope():
                mirrored = Frame(kernel, {**starts, product.m: columns, product.n: rows})
                mirrored.define(product.number, sums)
                for store in kernel.nest.stores:
                    mirrored.store(store)
