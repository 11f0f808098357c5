"""Chooses a schedule for every nest: the cost model of the host.

Its figures are measurements on one AVX-512 host: blocks of 1024 to 4096 elements keep the per-program
work (decoding the program id, row pointers) below a percent; a panel of 64 columns and 512 steps of k stays
in the second-level cache while up to 256 rows pass over it; stores that bypass the caches pay when a kernel moves
more bytes than the last-level cache holds.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod

from ....promotion.dataclass import dataclass
from ....promotion.errors import InternalError
from ...choices.options import FEW_THREADS
from ...nest import Extent, Nest
from ...schedule.traffic import bytes_read, bytes_written
from ...target import CACHE_LINE, LONG_TRANSFORM, MAX_SORTED_BYTES, HostTarget
from ..blocks import power_of_two
from ..schedule import Schedule, is_whole
from ..structure import (
    Product,
    attention_products,
    contiguous_axis,
    is_of_whole_lines,
    products,
    reduced_axes,
    rows_extent,
    spaces_of,
    tile_side,
    values_of,
)
from .axes import (
    LONGEST_SEARCHED,
    TransposedCopy,
    capped,
    inner_axis,
    longest_whole_row,
    next_axis,
    ordered_blocks,
    padded_transposition,
    transposed_axis,
    transposed_copy,
)
from .columns import CHUNK, column_blocks, keeps_busy, rows_in_order, scanned_rows
from .vectors import LOW_BLOCK, MAX_ROW, has_one_row, is_read_in_rows, whole_row

PROGRAM_ELEMENTS = 1024
"""Least number of elements that a program of an elementwise or row kernel handles, if the problem has as
many."""

WIDEST_MAP_BLOCK = 4096
MANY_FACTORS, MIN_KEPT_COLUMNS = 16, 64
"""Bytes of factors for each column from which on it counts that they stay in a cache; the least columns of a block then."""
SMALL_BLOCK = 64
"""Elements of all positions along two axes, as of a small matrix, up to which a program takes positions of a third one, too."""
TRANSPOSE_TILE = 64
TRANSPOSED_COPY = 1 << 16
"""Elements of a block of a transposed copy: 64 of its rows, which are a cache line or more, and as much of its columns as fits.
The longer the pieces of the source's rows, the sooner the processor fetches ahead."""
UNALIGNED_COLUMN = 512
"""Bytes of a column of a block where columns start within cache lines: both ends are stored apart from the rest."""
TAKEN_APART = 24
"""Columns that a copy takes apart as they come: channels of images, coordinates of points."""
SCORE_BLOCK = 128
PRODUCT_COLUMNS, PRODUCT_DEPTH = 64, 512
SHORT_VECTOR, LONG_DEPTH = 32, 1024
"""Bytes of vectors whose micro-kernels have panels of a fourth of these columns, and the steps of a block then: sums are loaded
and stored less often, and the first tile copies its panel."""
PIECE_COLUMNS = 256
"""Columns of a block whose right operand comes from memory."""
STREAMED_ROWS, SHORT_STREAMED_ROWS, STREAMED_BLOCK = 128, 32, 1 << 17
"""Rows up to which a product is about as long as reading its right operand from memory, fewer where vectors are short, and the
most sums of a block of it."""
STREAMED_STEPS, STREAMED_PIECE = (32, 128), 1 << 15
"""The fewest and the most steps of k of such a block, and the elements of the operand that it reads before the sums of another
row: the sums of many columns leave the first-level cache, those of few are loaded and stored too often after few steps."""
MAX_STREAMED_COLUMNS, MIN_STREAMED_COLUMNS = 4096, 128
LARGE_PRODUCT_ROWS, SMALL_PRODUCT_ROWS, MIN_PRODUCT_ROWS = (256, 128), 64, 32
COPIED_PANEL_ROWS = 512
"""Rows of a block with short vectors, for which each narrow panel is copied first, if fewer rows of the left operand leave the
second-level cache, too: 3 to 4 % less time than with 256."""
FEW_SYMMETRIC, SYMMETRIC_BLOCK = 128, 16
"""Rows of a product of a matrix with its transpose below which its blocks have that side: few of them cross the diagonal."""
TILES, MIN_TILES, MIN_TILES_DEPTH = 32, 8, 64
"""Tiles of a convolution in tiles, and the fewest channels: their sums and a panel of filters share the second-level cache."""
MAX_SUMS = 1 << 18
"""The bytes of these sums. With more, convolutions take up to 6 % less time, and each thread as much more memory."""
SHALLOW = 64
"""Steps of k of one product up to which a low block of rows pays where the second operand is computed."""
SHORT, SHORT_BYTES, FEW_STEPS = 256, 64, 8
"""Steps of k of a whole product, of floats or of shorter elements, up to which 64 rows take less time than 256, whose sums fill
the first-level cache: 3 to 13 % at 16 to 128 steps, 2 to 5 % at 256; and those up to which writing the result is all of the
time."""
WIDE_COLUMNS = 1024
"""Columns of a block of such a product whose result is beyond the second-level cache: whole pages of its rows."""
PROGRAMS_PER_THREAD = 4
LANES = 256
"""Lines side by side in memory that a program of a scatter works on together."""
FEW_UPDATES = 16
"""A scatter with so many positions for each update is mostly a copy."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the cost model knows of a CPU: bytes of a vector register and of the caches, number of threads, whether it
    multiplies pairs of bfloat16, by the bytes of an element the longest tables that registers hold, and whether attention
    leaves out keys that are masked."""

    vector_bytes: int = 64
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    threads: int = FEW_THREADS
    pairs: bool = False
    tables: tuple[tuple[int, int], ...] = ()
    skips_masked_keys: bool = True

    @staticmethod
    def of(target: HostTarget, threads: int = FEW_THREADS, in_order: bool = False) -> HostLimits:
        """Returns the limits of a target. in_order: whether products are chains, which are not multiplied in pairs,
        and results those of GPUs, which walk all keys."""
        pairs = target.multiplies_pairs and not in_order
        caches = target.l1_bytes, target.l2_bytes, target.l3_bytes
        return HostLimits(target.vector_bytes, *caches, threads, pairs, target.tables, not in_order)

    @property
    def use_descriptors(self) -> bool:
        return False

    def table_elements(self, size: int) -> int:
        """Returns the elements of `size` bytes of the longest table that registers hold."""
        return dict(self.tables).get(size, 0)

    def schedule(self, nest: Nest, panel: int | None = None) -> Schedule:
        """Returns the schedule that the cost model chooses for the nest. panel: columns of the panels that a product reads."""
        return _default(nest, self, panel)


def _default(nest: Nest, limits: HostLimits, panel: int | None) -> Schedule:
    template = nest.template
    match template:
        case "map":
            blocks = _map_blocks(nest, limits)
        case "row" | "scan":
            blocks = _line_blocks(nest, limits) if is_of_whole_lines(nest) else _row_blocks(nest, limits)
        case "ordered":
            blocks = ordered_blocks(nest, LANES, 2 * limits.threads, is_cut=_is_mostly_copied)
        case "contract":
            blocks = _contract_blocks(nest, limits, panel)
        case _:
            blocks = _attention_blocks(nest, limits)
    traffic = bytes_read(nest) + bytes_written(nest)
    if type(traffic) is int and template == "map":
        traffic *= _share(nest)
    copied = transposed_copy(nest) if template == "map" else None
    least = limits.l3_bytes if copied is None else _least_streaming(nest, copied, limits)
    streaming = template in ("map", "row", "scan") and type(traffic) is int and traffic > least
    if template in ("contract", "attention") and has_one_row(nest):
        streaming = type(traffic) is not int or 2 * traffic > limits.l3_bytes
    group = _row_group(nest, dict(blocks), limits) if template == "contract" else 0
    lanes = False
    if template == "row" and (rows := rows_in_order(nest, dict(blocks), streaming)) is not None:
        blocks, lanes = rows, len(rows) > 1
    is_scan = template == "scan" and streaming and not is_of_whole_lines(nest)
    if is_scan and (rows := scanned_rows(nest, dict(blocks))) is not None:
        blocks = rows
    return Schedule(blocks, 0, streaming, group, lanes=lanes)


def _is_mostly_copied(positions: Extent, updates: Extent) -> bool:
    """Returns whether the lines of a scatter are cut: where copying them is most of the work.

    Updates are not worth it: every program would go through all of them, and whether one falls into a segment is a branch that
    no processor foresees. A million of them take ten times as long in four segments as in one.
    """
    return type(positions) is int and type(updates) is int and positions >= FEW_UPDATES * updates


def _share(nest: Nest) -> int:
    """Returns how many kernels like this one fill the memory that it stores to, of which caches keep all or nothing."""

    def elements(extents: Sequence[Extent]) -> int:
        return prod([extent for extent in extents if type(extent) is int])

    whole = sum([elements(store.buffer.shape) for store in nest.stores])
    own = sum([elements([nest.axes[axis].extent for axis in nest.body[store.value].axes]) for store in nest.stores])
    return max(1, whole // max(1, own))


def _least_streaming(nest: Nest, copied: TransposedCopy, limits: HostLimits) -> int:
    """Returns the traffic from which on transposed copies bypass the caches: if every line of the result is read before it is
    written, they take more than twice as long. Lines that columns of the result share are written in two parts, which takes up
    to three times as long past the caches where these hold the result, and always as long if parts begin anywhere. Where few
    columns are taken apart, a part of a line of each is written in turn, which takes up to five times as long."""
    if is_whole(nest.axes[copied.partner].extent, TAKEN_APART) and copied.together == 1:
        return limits.l3_bytes * 3 // 4
    between = nest.stores[0].at.coefficient(copied.partner)
    start = between * nest.body[0].dtype.itemsize % CACHE_LINE if type(between) is int else 1
    return limits.l3_bytes // 2 if start == 0 else limits.l3_bytes * 5 // 4 if start % 16 == 0 else sys.maxsize


def _transposed_copy_blocks(nest: Nest, copied: TransposedCopy, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    """Chooses blocks of whole cache lines of the result and long pieces of the source, or of few lines without gaps between
    them, which are taken apart as they come."""
    partner, inner = copied.partner, copied.inner
    columns, rows = nest.axes[partner].extent, nest.axes[inner].extent
    between, itemsize = nest.stores[0].at.coefficient(partner), nest.body[0].dtype.itemsize * copied.together
    size: Extent = 1
    for axis in range(len(nest.axes)):
        size = size if axis in copied.beside else size * nest.axes[axis].extent
    in_cache = type(size) is int and 2 * size * itemsize <= limits.l3_bytes // 8
    aligned = in_cache or (type(between) is int and between * nest.body[0].dtype.itemsize % CACHE_LINE == 0)
    beside = [(axis, capped(nest.axes[axis].extent, LANES)) for axis in copied.beside[::-1]]
    most = TRANSPOSED_COPY // prod([size for _, size in beside])
    height = capped(rows, TRANSPOSE_TILE if aligned else max(TRANSPOSE_TILE, UNALIGNED_COLUMN // power_of_two(itemsize)))
    width = capped(columns, TRANSPOSE_TILE if in_cache and height == TRANSPOSE_TILE else most // height)
    if width < TRANSPOSE_TILE:
        height = capped(rows, most // width)
    if type(size) is int:
        least = max(PROGRAM_ELEMENTS, size // (2 * PROGRAMS_PER_THREAD * limits.threads))
        while width * height > least and max(width, height) > TRANSPOSE_TILE:
            width, height = (width // 2, height) if width > height else (width, height // 2)
    return ((partner, width), (inner, height), *beside)


def _map_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    if not nest.axes:
        return ()
    copied = transposed_copy(nest)
    if copied is not None:
        return _transposed_copy_blocks(nest, copied, limits)
    inner = inner_axis(nest)
    extent = nest.axes[inner].extent
    partner = transposed_axis(nest, inner)
    if partner is None:
        partner = padded_transposition(nest, inner)
    if partner is not None:
        return (
            (partner, capped(nest.axes[partner].extent, TRANSPOSE_TILE)),
            (inner, capped(extent, TRANSPOSE_TILE)),
        )
    size = capped(extent, WIDEST_MAP_BLOCK if type(extent) is int else PROGRAM_ELEMENTS)
    outer = next_axis(nest, inner)
    size = min(size, _kept_columns(nest, inner, outer, limits))
    if size >= PROGRAM_ELEMENTS:
        return ((inner, size),)
    blocks = [(inner, size)] if size > 1 else []
    around = [axis for axis in range(len(nest.axes)) if axis != inner]
    while outer is not None:
        rows = capped(nest.axes[outer].extent, PROGRAM_ELEMENTS // size)
        blocks = [(outer, rows), *blocks] if rows > 1 else blocks
        size *= rows
        around.remove(outer)
        outer = next_axis(nest, inner, around) if size <= SMALL_BLOCK and around else None
        if outer is not None and not all(type(nest.axes[axis].extent) is int for axis in (inner, outer)):
            outer = None
    return tuple(blocks)


def _kept_columns(nest: Nest, inner: int, outer: int | None, limits: HostLimits) -> int:
    """Returns how many columns of what rows of a map share stay in the caches: twice as much as the first-level one holds.

    Such are the factors of a depthwise convolution, of which each tap has as many as there are channels. They are read once
    for several rows.
    """
    again = 0
    for load in nest.loads:
        at = load.attrs["at"]
        if outer is not None and not load.operands and at.coefficient(inner) == 1 and at.coefficient(outer) == 0:
            again += load.dtype.itemsize
    if again <= MANY_FACTORS or outer is None:
        return WIDEST_MAP_BLOCK
    kept, extent = limits.l1_bytes * 2 // again, nest.axes[inner].extent
    if type(extent) is int and extent <= kept:
        return WIDEST_MAP_BLOCK
    return max(MIN_KEPT_COLUMNS, power_of_two(kept + 1) // 2)


def _row_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    reduced = reduced_axes(nest)
    if not reduced:
        return _map_blocks(nest, limits)
    kept = [axis for axis in range(len(nest.axes)) if axis not in reduced]
    inner = contiguous_axis(nest, [*kept, *reduced])
    if inner is None:
        inner = reduced[-1]
    extents = [nest.axes[axis].extent for axis in reduced]
    sizes = {
        axis: power_of_two(extent)
        for axis, extent in zip(reduced, extents, strict=True)
        if type(extent) is int
    }
    whole = prod(sizes.values()) if len(sizes) == len(reduced) else None
    if inner in kept:
        return column_blocks(nest, inner, reduced, sizes, whole, limits.threads)
    longest = longest_whole_row(nest)
    if whole is not None and whole <= longest:
        rows = _row_axis(nest, kept, inner)
        order = [axis for axis in reduced if axis != inner] + [inner]
        count = 1 if rows is None else _rows_per_program(nest, nest.axes[rows].extent, whole, limits)
        first = [(rows, count)] if rows is not None and count > 1 else []
        return (*first, *[(axis, sizes[axis]) for axis in order])
    extent = nest.axes[inner].extent
    if values_of(nest, "scan"):
        rows = _row_axis(nest, kept, inner)
        count = 1 if rows is None else _rows_per_program(nest, nest.axes[rows].extent, CHUNK, limits)
        if rows is not None and count > 1:
            return ((rows, count), (inner, capped(extent, CHUNK)))
    return ((inner, capped(extent, longest if longest == LONGEST_SEARCHED and type(extent) is int else CHUNK)),)


def _line_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    """Chooses whole lines, as many as a register has lanes if these are short, or lie side by side."""
    (axis,) = reduced_axes(nest)
    extent = nest.axes[axis].extent
    if type(extent) is not int:
        raise InternalError(f"a line of {extent} elements in one program")
    length = power_of_two(extent)
    size = max([nest.body[number].dtype.itemsize for number in values_of(nest, "scan")])
    kept = [other for other in range(len(nest.axes)) if other != axis]
    is_transform = any(nest.body[number].attrs["kind"] != "sort_block" for number in values_of(nest, "scan"))
    inner = contiguous_axis(nest, [axis, *kept] if is_transform else [*kept, axis])  # the last one of equals
    beside = inner if inner in kept else _row_axis(nest, kept, axis)
    is_complex = any(nest.body[number].dtype.is_complex for number in values_of(nest, "scan"))
    lanes = limits.vector_bytes // (size // 2 if is_complex else size)  # parts of numbers are apart in registers
    most = MAX_SORTED_BYTES // (32 if beside == inner else lanes)  # short rows of blocks have room beside them
    is_alone = is_transform and beside != inner and extent >= LONG_TRANSFORM * (1 if is_complex else 2)
    if beside is None or length * size > most or is_alone:
        return ((axis, length),)
    lines = (beside, capped(nest.axes[beside].extent, lanes))
    return ((axis, length), lines) if beside == inner else (lines, (axis, length))


def _row_axis(nest: Nest, kept: Sequence[int], inner: int) -> int | None:
    return next_axis(nest, inner, kept)


def _rows_per_program(nest: Nest, extent: Extent, row: int, limits: HostLimits) -> int:
    count = max(1, PROGRAM_ELEMENTS // row)
    if values_of(nest, "scan"):  # rows side by side, a lane for each
        count = max(count, limits.vector_bytes // 4)
    if type(extent) is int:
        count = min(count, power_of_two(extent))
        while count > 1 and extent * row > 8 * PROGRAM_ELEMENTS and -(-extent // count) < FEW_THREADS:
            count //= 2  # whatever the threads are: a program of one row adds up a row in another order
    return count


def _contract_blocks(nest: Nest, limits: HostLimits, panel: int | None) -> tuple[tuple[int, int], ...]:
    first = products(nest)[0]
    tiled = spaces_of(nest.body[first.number])
    blocks = {}
    is_symmetric = nest.body[first.number].attrs.get("symmetric", False)
    if first.m is not None:
        columns = panel or PRODUCT_COLUMNS
        most = _tiles(nest, first, limits) if tiled else _product_rows(nest, first, limits, columns, panel is not None)
        most = min(most, SMALL_PRODUCT_ROWS) if is_symmetric else most
        blocks[first.m] = capped(rows_extent(nest, first), most)
    streamed = None if panel or len(products(nest)) > 1 else _streamed_block(nest, first, limits)
    is_short = limits.vector_bytes <= SHORT_VECTOR
    columns, depth = streamed or (PRODUCT_COLUMNS, LONG_DEPTH if is_short else PRODUCT_DEPTH)
    is_plain = first.m is not None and panel is None and streamed is None
    if is_plain and not (is_short and type(rows_extent(nest, first)) is int) and _comes_from_memory(nest, first, limits):
        columns, depth = _long_pieces(nest, first, limits)
    if first.m is not None and is_plain and _writes_more_than_it_sums(nest, first, limits):
        most = MIN_PRODUCT_ROWS if _has_few_steps(nest, first) else SMALL_PRODUCT_ROWS
        columns, blocks[first.m] = WIDE_COLUMNS, min(blocks[first.m], most)
    if tiled:
        depth = min(depth, _tiles_depth(nest, first, limits))
    is_enough = _programs(nest, first, LOW_BLOCK) >= limits.threads
    row = whole_row(nest, first, limits.l1_bytes, limits.l2_bytes, is_enough)
    if row is not None:
        depth = row
        if first.m is not None:
            blocks[first.m] = min(blocks[first.m], max(LOW_BLOCK, MAX_ROW * LOW_BLOCK // depth))
    if first.n is not None:
        blocks[first.n] = panel or capped(nest.axes[first.n].extent, columns)
        side = nest.axes[first.n].extent
        if is_symmetric and first.m is not None and panel is None and type(side) is int and side < FEW_SYMMETRIC:
            blocks[first.m] = blocks[first.n] = SYMMETRIC_BLOCK
    for product in products(nest):
        blocks[product.k] = capped(nest.axes[product.k].extent, depth * 4 // _operand_bytes(nest, product, limits))
    return tuple(blocks.items())


def _writes_more_than_it_sums(nest: Nest, product: Product, limits: HostLimits) -> bool:
    """Returns whether a product has few steps, and a result beyond the second-level cache: its rows are written in long pieces
    then, where columns of a panel lie in another page each."""
    rows, depth = rows_extent(nest, product), nest.axes[product.k].extent
    columns = nest.axes[product.n].extent if product.n is not None else 1
    if len(products(nest)) > 1 or product.outer or _operand_bytes(nest, product, limits) != 4:
        return False
    if type(rows) is not int or type(depth) is not int or type(columns) is not int:
        return False
    others = _programs(nest, product, max(1, rows), max(1, columns))
    return depth <= SHORT and columns >= WIDE_COLUMNS // 2 and 4 * others * rows * columns >= limits.l2_bytes


def _has_few_steps(nest: Nest, product: Product) -> bool:
    """Returns whether a product has so few steps of operands that are not copied that writing its result is all of its time:
    lower blocks are the faster ones then."""
    depth = nest.axes[product.k].extent
    return type(depth) is int and depth <= FEW_STEPS and is_read_in_rows(nest, product)


def _streamed_block(nest: Nest, product: Product, limits: HostLimits) -> tuple[int, int] | None:
    """Returns columns and steps of k of a block of a product with few rows, whose right operand comes from memory; else None.

    A program goes along the rows of that operand: pieces of several KiB stream, where those of a panel of 64 columns lie in
    another page each. The sums go through the second-level cache after few steps, or there are few of them.
    """
    rows, extent = rows_extent(nest, product), nest.axes[product.n].extent if product.n is not None else 1
    most = STREAMED_ROWS if limits.vector_bytes > SHORT_VECTOR else SHORT_STREAMED_ROWS
    if type(rows) is not int or rows > most or not is_read_in_rows(nest, product):
        return None
    right, depth = nest.body[nest.body[product.number].operands[1]], nest.axes[product.k].extent
    if type(extent) is not int:
        return (1024, PRODUCT_DEPTH // 2) if rows == 1 else None
    if rows > 1 and type(depth) is int and depth * extent * right.dtype.itemsize < limits.l2_bytes:
        return None
    columns = min(MAX_STREAMED_COLUMNS, STREAMED_BLOCK // power_of_two(max(rows, 32)), power_of_two(extent))
    least = MIN_STREAMED_COLUMNS * (2 if rows == 1 else 1)
    others = _programs(nest, product, max(1, rows), max(1, extent))
    while columns > least and others < 2 * limits.threads and not keeps_busy(extent, columns, limits.threads):
        columns //= 2
    if rows == 1:
        return columns, PRODUCT_DEPTH // 2
    fewest, most = STREAMED_STEPS
    return columns, max(fewest if rows <= 32 else 2 * fewest, min(most, STREAMED_PIECE // columns))


def _comes_from_memory(nest: Nest, product: Product, limits: HostLimits) -> bool:
    """Returns whether a right operand is read in rows, and does not fit in the second-level cache."""
    if not is_read_in_rows(nest, product) or product.outer or len(products(nest)) > 1:
        return False
    assert product.n is not None
    depth, extent = nest.axes[product.k].extent, nest.axes[product.n].extent
    size = nest.body[nest.body[product.number].operands[1]].dtype.itemsize
    return type(depth) is int and type(extent) is int and depth * extent * size >= limits.l2_bytes


def _long_pieces(nest: Nest, product: Product, limits: HostLimits) -> tuple[int, int]:
    """Returns columns and steps of k of a block whose right operand comes from memory, whatever the rows are.

    It has as many elements as a panel, and longer pieces of rows: few rows of a matrix of 4096 squared take half the time, and
    512 rows as long.
    """
    assert product.n is not None
    extent, columns = nest.axes[product.n].extent, PIECE_COLUMNS
    assert type(extent) is int
    while columns > PRODUCT_COLUMNS and not keeps_busy(extent, columns, limits.threads):
        columns //= 2
    return columns, PRODUCT_COLUMNS * PRODUCT_DEPTH // columns


def _operand_bytes(nest: Nest, product: Product, limits: HostLimits) -> int:
    """Returns the bytes of an element as it is multiplied: those of int8 and of pairs, otherwise as if it were float32."""
    dtypes = {nest.body[number].dtype.name for number in nest.body[product.number].operands}
    return 1 if dtypes == {"int8"} else 2 if dtypes == {"bfloat16"} and limits.pairs else 4


def _product_rows(nest: Nest, product: Product, limits: HostLimits, columns: int, is_packed: bool) -> int:
    """Returns the rows of a product's block: the more share a panel of the second operand the better, as long
    as every thread gets several programs, and two threads about as many. If the number of rows is known only at launch, the
    panels alone must be enough programs. columns: of a panel. is_packed: whether the second operand lies in panels, which are
    not copied again for each block: a short sum then gains more from results that stay in the first-level cache."""
    if product.outer and _is_decoded(nest, product):
        return SMALL_PRODUCT_ROWS
    large = () if is_packed and _is_short(nest, product, limits) else LARGE_PRODUCT_ROWS
    depth = nest.axes[product.k].extent
    row_bytes = min(depth, LONG_DEPTH) * _operand_bytes(nest, product, limits) if type(depth) is int else 0
    if not is_packed and limits.vector_bytes <= SHORT_VECTOR and LARGE_PRODUCT_ROWS[0] * row_bytes >= limits.l2_bytes:
        large = (COPIED_PANEL_ROWS, *large)
    for rows in large:
        programs = _programs(nest, product, rows)
        if programs >= PROGRAMS_PER_THREAD * limits.threads and _is_even(_programs(nest, product, rows, columns)):
            return rows
    programs, extent = _programs(nest, product, SMALL_PRODUCT_ROWS, columns), rows_extent(nest, product)
    is_scarce = limits.threads > FEW_THREADS and programs < limits.threads
    is_uneven = programs > 2 and not _is_even(programs)
    return MIN_PRODUCT_ROWS if type(extent) is int and (is_scarce or is_uneven) else SMALL_PRODUCT_ROWS


def _is_short(nest: Nest, product: Product, limits: HostLimits) -> bool:
    """Returns whether a product has so few steps, of all taps together, that moving its sums is much of its time."""
    depth = prod([nest.axes[axis].extent for axis in (product.k, *product.outer)])
    return type(depth) is int and depth <= (SHORT if _operand_bytes(nest, product, limits) == 4 else SHORT_BYTES)


def _is_even(programs: int) -> bool:
    """Returns whether two threads have about as many programs each: an odd one is a seventh more for one of them at most."""
    return programs % 2 == 0 or programs >= 15


def _tiles(nest: Nest, product: Product, limits: HostLimits) -> int:
    """Returns the tiles of a program of a convolution in tiles: fewer where many threads would have none."""
    tiles = TILES
    if limits.threads > FEW_THREADS and type(rows_extent(nest, product)) is int:
        while tiles > MIN_TILES and _programs(nest, product, tiles) < limits.threads:
            tiles //= 2
    return tiles


def _tiles_depth(nest: Nest, product: Product, limits: HostLimits) -> int:
    """Returns how many channels of a convolution in tiles are multiplied at a time: their sums wait for their products."""
    sums = 4 * TILES * (tile_side(nest, product) + 2) ** 2
    return max(MIN_TILES_DEPTH, power_of_two(min(MAX_SUMS, limits.l2_bytes) // sums + 1) // 2)


def _programs(nest: Nest, product: Product, rows: int, columns: int = PRODUCT_COLUMNS) -> int:
    """Returns the programs of a product whose blocks have that many rows and columns, where sizes are known; 1 for others."""
    extent = rows_extent(nest, product)
    programs = -(-extent // rows) if type(extent) is int else 1
    inner = [axis for space in spaces_of(nest.body[product.number]) for axis in (space.inside, space.taps)]
    for axis, each in enumerate(nest.axes):
        if axis not in (*product.rows, product.k, *product.outer, *inner) and type(each.extent) is int:
            programs *= -(-each.extent // columns) if axis == product.n else each.extent
    return programs


def _is_decoded(nest: Nest, product: Product) -> bool:
    """Returns whether few rows of the second operand are computed at a time.

    Sums then go through memory after each of them, and stay in the first-level cache if the block is low: at 1024 rows and
    2048² codes of 4 bits, blocks of 64 rows take 0.6 of the time of 256.
    """
    right = nest.body[nest.body[product.number].operands[1]]
    depth = nest.axes[product.k].extent
    return right.op != "load" and type(depth) is int and depth <= SHALLOW


def _row_group(nest: Nest, blocks: dict[int, int], limits: HostLimits) -> int:
    """Returns how many row blocks of the first operand fill half of the second-level cache, or are the share of a thread."""
    product = products(nest)[0]
    depth: Extent = nest.axes[product.k].extent
    for axis in product.outer:
        depth = depth * nest.axes[axis].extent
    if product.m is None or type(depth) is not int:
        return 0
    bytes_, height = _operand_bytes(nest, product, limits), blocks.get(product.m, 1)
    kept = max(1, limits.l2_bytes // 2 // (bytes_ * depth * height or 1))
    rows = rows_extent(nest, product)
    if type(rows) is not int or rows < limits.threads * height:
        return kept
    if not _is_cut_in_rows(nest, product, rows, depth * bytes_, limits):
        return kept
    return min(kept, -(-rows // height // limits.threads))


def _is_cut_in_rows(nest: Nest, product: Product, rows: int, row_bytes: int, limits: HostLimits) -> bool:
    """Returns whether threads are better off with rows of their own than with columns of their own.

    With rows of its own each reads the whole second operand; with columns the whole first one, and whoever reads the result by
    rows finds most of it in the caches of others.
    """
    columns = nest.axes[product.n].extent if product.n is not None else 1
    if type(columns) is not int:
        return False
    result = rows * columns * max([nest.body[store.value].dtype.itemsize for store in nest.stores])
    return columns * row_bytes <= rows * row_bytes // 2 + result // limits.threads


def _attention_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    """Chooses square score blocks: the keys of a block are transposed once for all of its rows, and a block
    stays in the second-level cache. More keys than a block has are a loop with a running softmax, but where the second block
    would not be full: half of its maxima and sums would be of nothing.

    Many threads get lower blocks where there are few heads."""
    _, values, m = attention_products(nest)
    extent = nest.axes[m].extent
    rows = capped(extent, SCORE_BLOCK)
    if limits.threads > FEW_THREADS and type(extent) is int:
        heads = prod([each.extent for axis in values.batch if type((each := nest.axes[axis]).extent) is int])
        while rows > MIN_PRODUCT_ROWS and heads * -(-extent // rows) < limits.threads:
            rows //= 2
    keys = nest.axes[values.k].extent
    is_short = type(keys) is int and SCORE_BLOCK < keys < 2 * SCORE_BLOCK
    return ((m, rows), (values.k, capped(keys, 2 * SCORE_BLOCK if is_short else SCORE_BLOCK)))
