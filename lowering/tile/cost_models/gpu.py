"""Chooses a schedule for every nest: the cost model of GPUs.

It computes with published limits, not with measurements: a program should give every thread one or two
accesses of 128 bits, every multiprocessor should have a program, what a thread carries must fit its
registers, and what threads exchange must fit shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ...llvm.nvptx.targets import WARP_SIZE
from ...nest import Extent, Nest
from ...schedule.costs import name_cost
from ..blocks import power_of_two
from ..schedule import Schedule
from ..structure import (
    Product,
    attention_products,
    contiguous_axis,
    products,
    reduced_axes,
    rows_extent,
    values_of,
)
from .axes import capped, inner_axis, next_axis, ordered_blocks, transposed_axis

PROGRAM_ELEMENTS = 1024
"""Elements of a program of a memory-bound kernel: 8 per thread of 4 warps."""
PER_THREAD = 8
MIN_MAP_BLOCK = 256
LONGEST_WHOLE_ROW = 16384
MAX_ROW_WARPS = 16
"""Most warps for a row: a thread then carries up to 32 elements of it, and of what is computed from it."""
CHUNK = 2048
PROGRAMS_IN_FLIGHT, MAX_PER_THREAD = 4, 16
"""Programs per multiprocessor that keep memory busy with `PER_THREAD` elements a thread; with fewer, threads take up to so
many elements of a chunk."""
COLUMNS, MIN_COLUMNS = 128, 32
TRANSPOSE_TILE, TRANSPOSE_WARPS = 64, 8
SUMS = 64
"""Accumulators of a product's block that a thread keeps in registers; an epilogue needs as many again."""
WARPGROUP_ROWS = 64
"""Least number of rows of a wgmma instruction."""
MAX_EPILOGUE = 12
"""Most operations per element of a product's wide block, loads and the product itself included."""
ROW_GROUP = 8
"""Number of row blocks of a product that pass over all columns together, so that what they read stays in the
second-level cache."""

@dataclass(frozen=True, slots=True)
class _Tile:
    """Rows, columns and depth of a product's block, and the least of each that its instruction takes."""

    rows: int
    columns: int
    depth: int
    least: tuple[int, int, int] = (1, 1, 1)


_TILES = {
    "f16": _Tile(128, 128, 64, (16, 16, 16)),
    "i8": _Tile(128, 128, 64, (16, 16, 32)),
    "tf32": _Tile(128, 64, 32, (16, 16, 8)),
    "f64": _Tile(64, 64, 16, (8, 8, 4)),
    "threads": _Tile(128, 128, 16),
    "wide": _Tile(32, 32, 16),
}
"""Tiles by the kind of operands of the matrix instruction; "threads" and "wide" (64 bits) have no
instruction."""


@dataclass(frozen=True, slots=True)
class GpuLimits:
    """What the cost model knows of a GPU: bytes of shared memory per thread block, number of multiprocessors,
    whether it copies blocks through tensor descriptors (TMA), whether four warps multiply together (wgmma),
    and whether floats are multiplied by matrix instructions at all."""

    shared_bytes: int = 163 << 10
    processors: int = 108
    use_descriptors: bool = False
    warpgroups: bool = False
    matrix_instructions: bool = True

    @property
    def skips_masked_keys(self) -> bool:
        """Returns False: a loop over all keys is fetched ahead."""
        return False

    def table_elements(self, size: int) -> int:
        """Returns 0: threads have no registers in common that hold a table."""
        return 0

    def schedule(self, nest: Nest) -> Schedule:
        """Returns the schedule that the cost model chooses for the nest."""
        match nest.template:
            case "map":
                return _map(nest, self)
            case "row" | "scan":
                return _row(nest, self)
            case "ordered":
                return Schedule(ordered_blocks(nest, WARP_SIZE, self.processors, any_lines=True), warps=1)
            case "contract":
                return _contract(nest, self)
            case _:
                return _attention(nest, self)


def _warps(elements: int, most: int = 4) -> int:
    """Returns the number of warps for a block of so many elements, at most `most`."""
    return max(1, min(most, elements // (WARP_SIZE * PER_THREAD)))


def _programs(
    nest: Nest, blocks: dict[int, int], leave: tuple[int, ...] = (), product: Product | None = None
) -> int | None:
    """Returns the number of programs, without the axes `leave`; None if it is known only at launch. product: whose rows and
    contracted axes are counted as tiles have them."""
    count = 1
    if product is not None:
        leave = (*leave, *product.outer, product.k, *product.rows)
        rows = rows_extent(nest, product)
        if type(rows) is not int:
            return None
        count = 1 if product.m is None else -(-rows // blocks.get(product.m, 1))
    for number, axis in enumerate(nest.axes):
        if number in leave:
            continue
        if type(axis.extent) is not int:
            return None
        count *= -(-axis.extent // blocks.get(number, 1))
    return count


def _map(nest: Nest, limits: GpuLimits) -> Schedule:
    if not nest.axes:
        return Schedule(warps=1)
    inner = inner_axis(nest)
    extent = nest.axes[inner].extent
    partner = transposed_axis(nest, inner)
    if partner is not None:
        sides = [capped(nest.axes[axis].extent, TRANSPOSE_TILE) for axis in (partner, inner)]
        warps = _warps(sides[0] * sides[1], TRANSPOSE_WARPS)
        return Schedule(((partner, sides[0]), (inner, sides[1])), warps=warps)
    size = capped(extent, PROGRAM_ELEMENTS)
    blocks = {inner: size} if size > 1 else {}
    outer = next_axis(nest, inner) if size < PROGRAM_ELEMENTS else None
    if outer is not None:
        rows = capped(nest.axes[outer].extent, PROGRAM_ELEMENTS // size)
        blocks = {outer: rows, **blocks} if rows > 1 else blocks
    if not blocks:
        return Schedule(warps=1)
    first = next(iter(blocks))
    elements = size * (blocks[outer] if outer in blocks and outer != inner else 1)
    while elements > MIN_MAP_BLOCK and blocks[first] > 1:
        count = _programs(nest, blocks)
        if count is None or count >= limits.processors:
            break
        blocks[first] //= 2
        elements //= 2
    return Schedule(tuple(blocks.items()), warps=_warps(elements))


def _row(nest: Nest, limits: GpuLimits) -> Schedule:
    reduced = reduced_axes(nest)
    if not reduced:
        return _map(nest, limits)
    kept = [axis for axis in range(len(nest.axes)) if axis not in reduced]
    inner = contiguous_axis(nest, [*kept, *reduced])
    if inner is None:
        inner = reduced[-1]
    sizes: dict[int, int] = {}
    whole: int | None = 1
    for axis in reduced:
        extent = nest.axes[axis].extent
        if type(extent) is int and whole is not None:
            sizes[axis] = power_of_two(extent)
            whole *= sizes[axis]
        else:
            whole = None
    if inner in kept:
        return _columns(nest, limits, inner, reduced, whole, sizes)
    longest = min(LONGEST_WHOLE_ROW, _exchangeable(nest, limits))
    if whole is None or whole > longest:
        rows = _programs(nest, {}, leave=reduced)
        elements, warps = _chunk(nest, limits, rows, CHUNK)
        chunk = capped(nest.axes[inner].extent, min(elements, longest))
        return Schedule(((inner, chunk),), warps=min(warps, _warps(chunk, MAX_ROW_WARPS)), lanes=True)
    blocks: list[tuple[int, int]] = []
    rows = next_axis(nest, inner, kept)
    count = 1 if rows is None else capped(nest.axes[rows].extent, max(1, PROGRAM_ELEMENTS // whole))
    while rows is not None and count > 1:
        programs = _programs(nest, {rows: count}, leave=reduced)
        if programs is None or programs >= limits.processors:
            break
        count //= 2
    if rows is not None and count > 1:
        blocks.append((rows, count))
    blocks += [(axis, sizes[axis]) for axis in reduced if axis != inner] + [(inner, sizes[inner])]
    return Schedule(tuple(blocks), warps=_warps(whole * count, MAX_ROW_WARPS))


def _chunk(nest: Nest, limits: GpuLimits, programs: int | None, least: int) -> tuple[int, int]:
    """Returns how many elements of a row, or of columns side by side, one step takes, at least `least`, and the most warps.

    Loads of one step are on their way together, and the next step waits for them: where multiprocessors have few programs,
    each must ask for more at a time.
    """
    if programs is None or programs >= PROGRAMS_IN_FLIGHT * limits.processors or values_of(nest, "scan"):
        return least, _warps(least, MAX_ROW_WARPS)
    per_thread = MAX_PER_THREAD
    carried = sum(max(1, nest.body[number].dtype.itemsize // 4) for number in values_of(nest, "reduce"))
    while per_thread > PER_THREAD and per_thread * carried > SUMS:
        per_thread //= 2
    return max(least, per_thread * MAX_ROW_WARPS * WARP_SIZE), MAX_ROW_WARPS


def _exchangeable(nest: Nest, limits: GpuLimits) -> int:
    """Returns how many elements of the widest dtype fit half of shared memory, as a power of two: any block
    may have to be moved between threads."""
    widest = max((value.dtype.itemsize for value in nest.body), default=4)
    return power_of_two(limits.shared_bytes // 2 // max(widest, 1) + 1) // 2


def _columns(
    nest: Nest, limits: GpuLimits, inner: int, reduced: tuple[int, ...], whole: int | None, sizes: dict[int, int]
) -> Schedule:
    """Chooses blocks of columns side by side, with the reduced axis in chunks of rows."""
    columns = capped(nest.axes[inner].extent, COLUMNS)
    while columns > MIN_COLUMNS:
        programs = _programs(nest, {inner: columns}, leave=reduced)
        if programs is None or programs >= limits.processors:
            break
        columns //= 2
    programs = _programs(nest, {inner: columns}, leave=reduced)
    elements, most = _chunk(nest, limits, programs, PROGRAM_ELEMENTS)
    rows = max(1, elements // columns)
    if whole is not None and whole <= rows:
        return Schedule(
            (*[(axis, sizes[axis]) for axis in reduced], (inner, columns)), warps=_warps(whole * columns, most)
        )
    chunk_axis = max(reduced, key=lambda axis: sizes.get(axis, CHUNK))
    if values_of(nest, "scan"):
        chunk_axis = nest.body[values_of(nest, "scan")[0]].attrs["axis"]
    chunk = min(rows, sizes.get(chunk_axis, rows))
    return Schedule(((chunk_axis, chunk), (inner, columns)), warps=_warps(chunk * columns, most), lanes=True)


def _tile_of(nest: Nest, product: Product, limits: GpuLimits) -> _Tile:
    value = nest.body[product.number]
    first, second = (nest.body[operand].dtype for operand in value.operands)
    if first != second:
        return _TILES["wide" if max(first.itemsize, second.itemsize) > 4 else "threads"]
    kind = _kind(first, value.attrs.get("precision", "ieee"), value.dtype)
    if first.is_float and not limits.matrix_instructions:
        kind = "wide" if first.itemsize > 4 else "threads"
    return _TILES[kind]


def _kind(dtype: DType, precision: str, result: DType) -> str:
    match dtype.name:
        case "float16" | "bfloat16":
            return "f16"
        case "tensor_float32":
            return "tf32"
        case "float32":
            return "tf32" if precision == "tf32" else "threads"
        case "float64":
            return "f64"
        case "int8":
            return "i8" if result.name == "int32" else "threads"
    return "wide" if dtype.itemsize > 4 or result.itemsize > 4 else "threads"


def _cut(extent: Extent, most: int, least: int) -> int:
    return max(capped(extent, most), least)


def _is_wide(nest: Nest, product: Product, tile: _Tile, limits: GpuLimits) -> bool:
    """Returns whether blocks of twice as many columns pay: two warpgroups then read three quarters as much
    for a product from the second-level cache and from shared memory, for which smaller blocks wait. Every
    multiprocessor must still get a block, and the epilogue must be short, since no second block multiplies on
    the multiprocessor meanwhile."""
    if not limits.warpgroups or tile is not _TILES["f16"] or product.m is None or product.n is None:
        return False
    columns = nest.axes[product.n].extent
    if type(columns) is not int or -columns % (2 * tile.columns) >= tile.columns:
        return False
    if sum(name_cost(value.op) for value in nest.body if value.operands) > MAX_EPILOGUE:
        return False
    blocks = {product.m: tile.rows, product.n: 2 * tile.columns}
    programs = _programs(nest, blocks, product=product)
    return programs is not None and programs >= limits.processors


def _contract(nest: Nest, limits: GpuLimits) -> Schedule:
    found = products(nest)
    first = found[0]
    tile = _tile_of(nest, first, limits)
    least_rows = WARPGROUP_ROWS if limits.warpgroups and tile is _TILES["f16"] else 32
    wide = len(found) == 1 and _is_wide(nest, first, tile, limits)
    if wide:
        tile = replace(tile, columns=2 * tile.columns)
    sides = {
        axis: _cut(rows_extent(nest, first) if axis == first.m else nest.axes[axis].extent, most, least)
        for axis, most, least in ((first.m, tile.rows, tile.least[0]), (first.n, tile.columns, tile.least[1]))
        if axis is not None
    }
    least = {axis: least_rows if axis == first.m else 32 for axis in sides}
    while any(sides[axis] > least[axis] for axis in sides):
        programs = _programs(nest, sides, product=first)
        if programs is None or programs >= limits.processors:
            break
        sides[max(sides, key=lambda axis: sides[axis] / least[axis])] //= 2
    blocks = dict(sides)
    for product in found:
        blocks[product.k] = _cut(nest.axes[product.k].extent, tile.depth, tile.least[2])
    area = prod(sides.values())
    sums = 2 * SUMS if wide else SUMS
    return Schedule(tuple(blocks.items()), group=ROW_GROUP, warps=max(_warps(area), area // (WARP_SIZE * sums)))


def _attention(nest: Nest, limits: GpuLimits) -> Schedule:
    """Chooses score blocks that leave room in the registers of 4 warps for the sums of wide heads. With
    warpgroups, and enough rows for all multiprocessors, two such blocks read keys and values once for
    both."""
    scores, values, m = attention_products(nest)
    tile = _tile_of(nest, scores, limits)
    heads = [nest.axes[axis].extent for axis in (scores.k, values.n) if axis is not None]
    width = max([extent for extent in heads if type(extent) is int], default=1)
    registers = width * max(1, nest.body[values.number].dtype.itemsize // 4)
    has_fragments = tile.least[0] > 1 and tile.depth > 16
    most_rows = 64 if has_fragments or registers <= 64 else 32
    most_keys = 64 if registers <= (128 if has_fragments else 64) else 32
    least = max(tile.least[0], _tile_of(nest, values, limits).least[2])
    rows = _cut(nest.axes[m].extent, most_rows, least)
    keys = _cut(nest.axes[values.k].extent, most_keys, least)
    extent = nest.axes[m].extent
    if limits.warpgroups and tile is _TILES["f16"] and type(extent) is int and -extent % (2 * most_rows) < most_rows:
        inner = [axis for axis in (scores.k, values.k, values.n) if axis is not None]
        programs = _programs(nest, {m: 2 * most_rows}, leave=tuple(inner))
        if programs is not None and programs >= limits.processors:
            return Schedule(((m, 2 * most_rows), (values.k, keys)), warps=2 * _warps(most_rows * keys))
    return Schedule(((m, rows), (values.k, keys)), warps=_warps(rows * keys))
