"""Schedules: how a nest is cut into blocks, what makes one legal, and the default from a small cost model.

The model's figures are measurements on one AVX-512 host: blocks of 1024 to 4096 elements keep the per-program
work (decoding the program id, row pointers) below a percent; a panel of 64 columns and 512 steps of k stays
in the second-level cache while up to 256 rows pass over it; stores that bypass the caches pay when a kernel moves
more bytes than the last-level cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ...promotion.errors import UserError
from ..nest import Affine, Extent, Nest
from ..schedule.traffic import bytes_read, bytes_written
from ..target import HostTarget
from .blocks import MAX_BLOCK_ELEMENTS, power_of_two
from .structure import (
    Product,
    accesses,
    attention_products,
    contiguous_axis,
    products,
    reduced_axes,
    template_of,
    unit_axis,
    values_of,
)

PROGRAM_ELEMENTS = 1024
"""Elements a program of an elementwise or row kernel handles at least, where the problem has them."""

WIDEST_MAP_BLOCK = 4096
LONGEST_WHOLE_ROW = 16384
CHUNK = 2048
COLUMN_CHUNK = 8
TRANSPOSE_TILE = 64
SCORE_BLOCK = 128
PRODUCT_COLUMNS, PRODUCT_DEPTH = 64, 512
LARGE_PRODUCT_ROWS, SMALL_PRODUCT_ROWS = (256, 128), 64
PROGRAMS_PER_THREAD = 4


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What the cost model knows of a CPU: bytes of a vector register and of the caches, number of threads."""

    vector_bytes: int = 64
    l1_bytes: int = 32 << 10
    l2_bytes: int = 1 << 20
    l3_bytes: int = 32 << 20
    threads: int = 2

    @staticmethod
    def of(target: HostTarget, threads: int = 2) -> HostLimits:
        return HostLimits(target.vector_bytes, target.l1_bytes, target.l2_bytes, target.l3_bytes, threads)


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one nest is tiled. Tails are always masked, so any block extent is right for any problem size.

    Attributes:
        blocks: (axis, block extent) pairs; an axis that is not listed has one position per program or per
            step. For map, row and scan nests their order is the order of the block dimensions, the contiguous
            axis last. Blocks of reduced axes (of k, of attention's keys) that cover the extent mean no loop.
        packed_b: columns per panel when the second operand of a product is stored in panels ("panels:<n>"),
            else 0.
        streaming: whether stores bypass the caches.
        group: of a contract nest, row blocks that pass over all column blocks together (0: all of them). Any number is legal.
    """

    blocks: tuple[tuple[int, int], ...] = ()
    packed_b: int = 0
    streaming: bool = False
    group: int = 0


def is_whole(extent: Extent, block: int) -> bool:
    """Whether a block covers an axis of that extent; never for an extent known only at launch."""
    return type(extent) is int and block >= extent


def check_schedule(nest: Nest, schedule: Schedule) -> None:
    """Raises `UserError` unless the schedule is legal for the nest.

    Legal: every listed axis exists, once; block extents are powers of two; no block the template forms has
    more than 2**20 elements; scans are along a listed axis; `packed_b` is 0 or the block of the product's
    columns.
    """
    axes = [axis for axis, _ in schedule.blocks]
    if len(set(axes)) != len(axes) or any(not 0 <= axis < len(nest.axes) for axis in axes):
        raise UserError(
            f"schedule: blocks {schedule.blocks} of a nest with {len(nest.axes)} axes; fix: list each axis once"
        )
    for axis, size in schedule.blocks:
        if size < 1 or size & (size - 1):
            name = nest.axes[axis].name
            raise UserError(
                f"schedule: block {size} of axis {name}; fix: use a power of two, such as {power_of_two(size)}"
            )
    blocks = dict(schedule.blocks)
    template = template_of(nest)
    if template in ("contract", "attention"):
        _check_products(nest, blocks, schedule, template)
    else:
        if prod(blocks.values()) > MAX_BLOCK_ELEMENTS:
            raise UserError(
                f"schedule: blocks {schedule.blocks} exceed 2**20 elements; fix: use smaller ones"
            )
        if schedule.packed_b:
            raise UserError("schedule: packed_b on a nest without a product; fix: leave it 0")
        for number in values_of(nest, "scan"):
            axis = nest.body[number].attrs["axis"]
            if axis not in blocks:
                raise UserError(
                    f"schedule: the scanned axis {nest.axes[axis].name} has no block; fix: add ({axis}, 1024)"
                )


def _check_products(nest: Nest, blocks: dict[int, int], schedule: Schedule, template: str) -> None:
    for product in products(nest):
        sizes = [1 if axis is None else blocks.get(axis, 1) for axis in (product.m, product.n, product.k)]
        if template == "attention":
            sizes = [
                _attention_block(nest, blocks, axis) if axis is not None else 1
                for axis in (product.m, product.n, product.k)
            ]
        m, n, k = sizes
        if max(m * n, m * k, k * n) > MAX_BLOCK_ELEMENTS:
            raise UserError(
                f"schedule: blocks {schedule.blocks} exceed 2**20 elements in a product; fix: use smaller ones"
            )
    if schedule.packed_b:
        columns = products(nest)[0].n
        if template != "contract" or columns is None or blocks.get(columns, 1) != schedule.packed_b:
            raise UserError(
                f"schedule: packed_b={schedule.packed_b} is not the block of the product's columns; fix: make them equal"
            )


def _attention_block(nest: Nest, blocks: dict[int, int], axis: int) -> int:
    scores, values = attention_products(nest)
    extent = nest.axes[axis].extent
    if axis in (scores.k, values.n) and type(extent) is int:
        return power_of_two(extent)
    return blocks.get(axis, 1)


def default_schedule(nest: Nest, limits: HostLimits | None = None) -> Schedule:
    """The schedule the cost model picks. Raises `UnsupportedError` when no template fits the nest."""
    limits = HostLimits() if limits is None else limits
    template = template_of(nest)
    match template:
        case "map":
            blocks = _map_blocks(nest)
        case "row" | "scan":
            blocks = _row_blocks(nest, limits)
        case "contract":
            blocks = _contract_blocks(nest, limits)
        case _:
            blocks = _attention_blocks(nest)
    traffic = bytes_read(nest) + bytes_written(nest)
    streaming = template in ("map", "row") and type(traffic) is int and traffic > limits.l3_bytes
    group = _row_group(nest, dict(blocks), limits) if template == "contract" else 0
    return Schedule(blocks, 0, streaming, group)


def _capped(extent: Extent, cap: int) -> int:
    return min(power_of_two(extent), cap) if type(extent) is int else cap


def _inner_axis(nest: Nest) -> int:
    """The axis that is contiguous in the widest store, else in most of the loads, else the last one."""
    widest = max(nest.stores, key=lambda store: len(store.at.terms), default=None)
    found = unit_axis(widest.at) if widest is not None else None
    if found is None:
        found = contiguous_axis(nest, range(len(nest.axes)))
    return len(nest.axes) - 1 if found is None else found


def _map_blocks(nest: Nest) -> tuple[tuple[int, int], ...]:
    if not nest.axes:
        return ()
    inner = _inner_axis(nest)
    extent = nest.axes[inner].extent
    partner = _transposed_axis(nest, inner)
    if partner is not None:
        return (
            (partner, _capped(nest.axes[partner].extent, TRANSPOSE_TILE)),
            (inner, _capped(extent, TRANSPOSE_TILE)),
        )
    size = _capped(extent, WIDEST_MAP_BLOCK if type(extent) is int else PROGRAM_ELEMENTS)
    if size >= PROGRAM_ELEMENTS:
        return ((inner, size),)
    outer = _next_axis(nest, inner)
    rows = 1 if outer is None else _capped(nest.axes[outer].extent, PROGRAM_ELEMENTS // size)
    blocks = [(inner, size)] if size > 1 else []
    return ((outer, rows), *blocks) if outer is not None and rows > 1 else tuple(blocks)


def _transposed_axis(nest: Nest, inner: int) -> int | None:
    """The axis along which a load is contiguous that strides along `inner`."""
    for value in nest.loads:
        at: Affine = value.attrs["at"]
        step, unit = at.coefficient(inner), unit_axis(at)
        far = type(step) is not int or abs(step) > 1
        if (
            unit is not None
            and unit != inner
            and far
            and not value.operands
            and not is_whole(nest.axes[unit].extent, 4)
        ):
            return unit
    return None


def _next_axis(nest: Nest, inner: int, candidates: Sequence[int] | None = None) -> int | None:
    """The axis with the smallest known step in the widest access, after `inner`."""
    allowed = [
        axis for axis in (range(len(nest.axes)) if candidates is None else candidates) if axis != inner
    ]
    if not allowed:
        return None
    at = max((at for at, _ in accesses(nest)), key=lambda at: len(at.terms), default=Affine())
    steps = {axis: abs(step) for axis, step in at.terms if axis in allowed and type(step) is int}
    return min(steps, key=lambda axis: steps[axis]) if steps else allowed[-1]


def _row_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    reduced = reduced_axes(nest)
    if not reduced:
        return _map_blocks(nest)
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
        return _column_blocks(nest, limits, inner, reduced, sizes, whole)
    if whole is not None and whole <= LONGEST_WHOLE_ROW:
        rows = _row_axis(nest, kept, inner)
        order = [axis for axis in reduced if axis != inner] + [inner]
        count = 1 if rows is None else _rows_per_program(nest.axes[rows].extent, whole, limits)
        first = [(rows, count)] if rows is not None and count > 1 else []
        return (*first, *[(axis, sizes[axis]) for axis in order])
    extent = nest.axes[inner].extent
    return ((inner, _capped(extent, CHUNK)),)


def _row_axis(nest: Nest, kept: Sequence[int], inner: int) -> int | None:
    return _next_axis(nest, inner, kept)


def _rows_per_program(extent: Extent, row: int, limits: HostLimits) -> int:
    count = max(1, PROGRAM_ELEMENTS // row)
    if type(extent) is int:
        count = min(count, power_of_two(extent))
        while count > 1 and extent * row > 8 * PROGRAM_ELEMENTS and -(-extent // count) < limits.threads:
            count //= 2
    return count


def _column_blocks(
    nest: Nest,
    limits: HostLimits,
    inner: int,
    reduced: Sequence[int],
    sizes: dict[int, int],
    whole: int | None,
) -> tuple[tuple[int, int], ...]:
    """Blocks when a kept axis is the contiguous one: columns side by side, the reduced axis in chunks of
    rows."""
    extent = nest.axes[inner].extent
    chunk_axis = max(reduced, key=lambda axis: sizes.get(axis, CHUNK))
    passes = 1 + len({value.attrs["kind"] for value in nest.body if value.op == "reduce"})
    columns = 512
    if (
        passes > 2 and type(nest.axes[chunk_axis].extent) is int
    ):  # the column block is read again: keep it in cache
        columns = max(32, min(512, power_of_two(limits.l2_bytes // 2 // (4 * (whole or CHUNK)) + 1) // 2))
    columns = _capped(extent, columns)
    if type(extent) is int:
        while (
            columns > 16
            and -(-extent // columns) < 2 * limits.threads
            and extent * (whole or CHUNK) > 1 << 14
        ):
            columns //= 2
    if whole is not None and whole <= 2 * COLUMN_CHUNK:
        return (*[(axis, sizes[axis]) for axis in reduced], (inner, columns))
    chunk = min(COLUMN_CHUNK, sizes.get(chunk_axis, COLUMN_CHUNK))
    if values_of(nest, "scan"):
        chunk = min(4 * COLUMN_CHUNK, sizes.get(chunk_axis, 4 * COLUMN_CHUNK))
    return ((chunk_axis, chunk), (inner, columns))


def _contract_blocks(nest: Nest, limits: HostLimits) -> tuple[tuple[int, int], ...]:
    first = products(nest)[0]
    blocks = {}
    if first.m is not None:
        blocks[first.m] = _capped(nest.axes[first.m].extent, _product_rows(nest, first, limits))
    if first.n is not None:
        blocks[first.n] = _capped(nest.axes[first.n].extent, PRODUCT_COLUMNS)
    for product in products(nest):
        blocks[product.k] = _capped(nest.axes[product.k].extent, PRODUCT_DEPTH)
    return tuple(blocks.items())


def _product_rows(nest: Nest, product: Product, limits: HostLimits) -> int:
    """Rows of a product's block: the more share a panel of the second operand the better, while every thread gets several
    programs. Where the number of rows is known only at launch, the panels alone must be enough programs."""
    programs = 1
    for axis in range(len(nest.axes)):
        extent = nest.axes[axis].extent
        if axis not in (product.m, product.k) and type(extent) is int:
            programs *= -(-extent // PRODUCT_COLUMNS) if axis == product.n else extent
    extent = 1 if product.m is None else nest.axes[product.m].extent
    for rows in LARGE_PRODUCT_ROWS:
        if programs * (-(-extent // rows) if type(extent) is int else 1) >= PROGRAMS_PER_THREAD * limits.threads:
            return rows
    return SMALL_PRODUCT_ROWS


def _row_group(nest: Nest, blocks: dict[int, int], limits: HostLimits) -> int:
    """Row blocks of the first operand that fill half of the second-level cache."""
    product = products(nest)[0]
    depth = nest.axes[product.k].extent
    if product.m is None or type(depth) is not int:
        return 0
    return max(1, limits.l2_bytes // 2 // (4 * depth * blocks.get(product.m, 1) or 1))


def _attention_blocks(nest: Nest) -> tuple[tuple[int, int], ...]:
    """Square score blocks: the keys of a block are transposed once for all of its rows, and a block stays in the second-level
    cache. More keys than that are a loop with a running softmax."""
    scores, values = attention_products(nest)
    assert scores.m is not None
    rows = _capped(nest.axes[scores.m].extent, SCORE_BLOCK)
    return ((scores.m, rows), (values.k, _capped(nest.axes[values.k].extent, SCORE_BLOCK)))
