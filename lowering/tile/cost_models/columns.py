"""Chooses blocks of columns: of reductions and scans along another axis than the one that is contiguous in memory."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...nest import Nest
from ...schedule.costs import MAX_WHOLE_COLUMN
from ..blocks import power_of_two
from ..structure import contiguous_axis, reduced_axes, reduction_levels, values_of
from .axes import capped

CHUNK = 2048
COLUMN_CHUNK, PICKED_CHUNK, PICKED_ROW = 8, 32, 2048
"""Rows that are reduced together, and such rows as are picked by positions, for which several vectors are read side by side, if
they have fewer bytes than the third number."""
REDUCED_COLUMNS, MAX_REDUCED_COLUMNS, COLUMN_PIECE = 512, 2048, 4096
"""Columns that are reduced side by side; the most of them where one pass over a known number of columns does, and the bytes
of a row of a block then: long pieces stream."""
MIN_SINGLE_ROW, MAX_SINGLE_ROW, SHORT_ROW = 256, 4096, 512
"""Bytes of rows from which on and up to which they are added to sums one by one, and up to which a single chain of comparisons
waits for itself."""
MAX_PLANES, PLANE_PIECE = 256, 8192
"""Rows up to which positions of extremes are found in pieces of single rows that are no whole ones, and bytes of a piece."""
MIN_SCANNED_ROW, MAX_SCANNED_ROW = 128, 16384
"""Bytes of a row up to which few sums wait for themselves, and up to which running sums of all columns stay in the first-level
cache."""


def column_blocks(
    nest: Nest, inner: int, reduced: Sequence[int], sizes: dict[int, int], whole: int | None, threads: int
) -> tuple[tuple[int, int], ...]:
    """Chooses blocks when a kept axis is the contiguous one: columns side by side, the reduced axis in chunks of rows.

    inner: the contiguous axis.  sizes: of the reduced axes that are known, rounded up to powers of two.  whole: their product,
    if all are known.
    """
    extent = nest.axes[inner].extent
    chunk_axis = max(reduced, key=lambda axis: sizes.get(axis, CHUNK))
    columns = REDUCED_COLUMNS
    # Blocks that are read again are no narrower, although a cache would hold them then: short pieces of rows that lie far apart
    # do not stream (design note 024, "Columns that are read again").
    if type(extent) is int:
        columns = min(MAX_REDUCED_COLUMNS, COLUMN_PIECE // min([load.dtype.itemsize for load in nest.loads], default=4))
    columns = capped(extent, columns)
    if type(extent) is int:
        others = prod([each for axis in range(len(nest.axes)) if axis not in (*reduced, inner)
                       and type(each := nest.axes[axis].extent) is int])  # fmt: skip
        while (
            columns > 16
            and threads > 1
            and others * -(-extent // columns) < 2 * threads
            and extent * (whole or CHUNK) > 1 << 14
            and not (others == 1 and keeps_busy(extent, columns, threads))
        ):
            columns //= 2
    if whole is not None and whole <= MAX_WHOLE_COLUMN:
        return (*[(axis, sizes[axis]) for axis in reduced], (inner, columns))
    picked = any(chunk_axis in nest.body[position].axes for load in nest.loads for position in load.operands)
    size = max([load.dtype.itemsize for load in nest.loads], default=4)
    longest = PICKED_CHUNK if picked and columns * size < PICKED_ROW else COLUMN_CHUNK
    chunk = min(longest, sizes.get(chunk_axis, longest))
    if values_of(nest, "scan"):
        chunk = min(4 * COLUMN_CHUNK, sizes.get(chunk_axis, 4 * COLUMN_CHUNK))
    return ((chunk_axis, chunk), (inner, columns))


def rows_in_order(nest: Nest, blocks: dict[int, int], streaming: bool) -> tuple[tuple[int, int], ...] | None:
    """Chooses blocks that are combined row by row, in the order in which rows lie in memory; None where the rows of a block are
    combined with each other first.

    That takes fewer loads and stores of partial results, but reads blocks by columns, and processors that follow streams do not
    foresee that: sums of (65536, 256) float32 take 2.5 times as long. Positions of extremes take fewer comparisons where it is
    known which one comes first, so they are found in this order wherever rows come from.
    """
    reduced = set(reduced_axes(nest))
    if len(blocks) != 2 or len(reduced & set(blocks)) != 1 or values_of(nest, "scan"):
        return None
    ((inner, columns),) = [(axis, size) for axis, size in blocks.items() if axis not in reduced]
    (along,) = reduced & set(blocks)
    if inner != contiguous_axis(nest, [*[axis for axis in range(len(nest.axes)) if axis not in reduced], *reduced]):
        return None  # rows of which each is reduced
    rows = nest.axes[along].extent
    kinds = {value.attrs["kind"] for value in nest.body if value.op == "reduce"}
    row = columns * max([load.dtype.itemsize for load in nest.loads], default=4)
    extent = nest.axes[inner].extent
    is_whole = type(extent) is int and columns >= extent
    if kinds & {"argmax", "argmin"}:
        if row <= SHORT_ROW:
            is_one_block = type(rows) is int and blocks[along] >= rows
            return None if is_one_block else ((along, blocks[along]), (inner, columns))
        if is_whole or not streaming:
            return ((inner, columns),)
        if type(rows) is int and rows <= MAX_PLANES:  # channels of images: their pages are met again by the next programs
            size = max([load.dtype.itemsize for load in nest.loads], default=4)
            return ((inner, max(columns, capped(extent, PLANE_PIECE // size))),)
        return None
    is_read_once = reduction_levels(nest) == 1  # what is read again is in a cache then
    is_single = streaming and is_whole and is_read_once and MIN_SINGLE_ROW <= row <= MAX_SINGLE_ROW
    return ((inner, columns),) if is_single else None


def scanned_rows(nest: Nest, blocks: dict[int, int]) -> tuple[tuple[int, int], ...] | None:
    """Chooses whole rows, one after the other, for scans of columns. None for other scans, and rows that are longer.

    One thread that reads and writes what lies together comes to nine tenths of the rate of memory, and two with half of each
    row to a fifth.
    """
    scans = values_of(nest, "scan")
    kept = [axis for axis in blocks if axis not in reduced_axes(nest)]
    if len(kept) != 1 or len(blocks) != 2 or kept[0] != contiguous_axis(nest, range(len(nest.axes))):
        return None
    extent = nest.axes[kept[0]].extent
    size = max([nest.body[number].dtype.itemsize for number in scans])
    if type(extent) is not int or extent * size > MAX_SCANNED_ROW:
        return None
    (scanned,) = [axis for axis in blocks if axis not in kept]
    return ((scanned, 1 if extent * size > MIN_SCANNED_ROW else 4 * COLUMN_CHUNK), (kept[0], power_of_two(extent)))


def keeps_busy(extent: int, block: int, threads: int) -> bool:
    """Returns whether programs of so many columns are nearly as much work for each thread."""
    programs = -(-extent // block)
    longest = min(-(-programs // threads) * block, extent)  # lanes beyond the last column take no time
    return longest * threads * 7 <= extent * 8


__all__ = ["CHUNK", "column_blocks", "keeps_busy", "rows_in_order", "scanned_rows"]
