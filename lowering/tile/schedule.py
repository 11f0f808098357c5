"""Defines schedules, which say how a nest is cut into blocks, and checks that they are legal. The cost models
that choose one are `cost_models/host.py` and `cost_models/gpu.py`."""

from __future__ import annotations

from math import prod

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError
from ..llvm.nvptx.targets import MAX_WARPS
from ..nest import Extent, Nest
from .blocks import MAX_BLOCK_ELEMENTS, power_of_two
from .structure import attention_products, products, spaces_of, takes_whole_lines, values_of


@dataclass(frozen=True, slots=True)
class Schedule:
    """How one nest is tiled. Tails are always masked, so any block extent is right for any problem size.

    Attributes:
        blocks: (axis, block extent) pairs; an axis that is not listed has one position per program or per
            step. For map, row and scan nests their order is the order of the block dimensions, the contiguous
            axis last. Blocks of reduced axes (of k, of attention's keys) that cover the extent mean no loop. The block of a
            product's m is one of all its rows (`Product.rows`).
        packed_b: columns per panel when the second operand of a product is stored in panels ("panels:<n>"),
            else 0.
        streaming: whether stores bypass the caches; of products with one row, whether what it is multiplied with is fetched.
        group: for a contract nest, the number of row blocks that pass over all column blocks together (0: all of
            them). Any number is legal.
        warps: how many warps of a GPU run one program; a power of two. Hosts ignore it.
        lanes: whether a row walked in chunks is combined position by position, and the block of partial results reduced once
            at the end, not each chunk: on GPUs threads then exchange nothing until the end.
        together: rows of panels that lie together, column by column ("panels:<packed_b>:<together>x<s>").
    """

    blocks: tuple[tuple[int, int], ...] = ()
    packed_b: int = 0
    streaming: bool = False
    group: int = 0
    warps: int = 4
    lanes: bool = False
    together: int = 1


def is_whole(extent: Extent, block: int) -> bool:
    """Returns whether a block covers an axis of that extent; never for an extent known only at launch."""
    return type(extent) is int and block >= extent


def check_schedule(nest: Nest, schedule: Schedule) -> None:
    """Raises `UserError` unless the schedule is legal for the nest.

    Legal: every listed axis exists, once; block extents are powers of two; no block the template forms has
    more than 2**20 elements; scans are along a listed axis; `packed_b` is 0 or the block of the product's
    columns; `warps` is a power of two up to 32.
    """
    if not 1 <= schedule.warps <= MAX_WARPS or schedule.warps & (schedule.warps - 1):
        raise UserError(f"schedule: {schedule.warps} warps; fix: use a power of two up to {MAX_WARPS}")
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
    template = nest.template
    if template in ("contract", "attention"):
        _check_products(nest, blocks, schedule, template)
    else:
        cut = {nest.body[number].attrs["target"] for number in values_of(nest, "scatter")}  # segments are no blocks
        if prod([size for axis, size in blocks.items() if axis not in cut]) > MAX_BLOCK_ELEMENTS:
            raise UserError(
                f"schedule: blocks {schedule.blocks} exceed 2**20 elements; fix: use smaller ones"
            )
        if schedule.packed_b:
            raise UserError("schedule: packed_b on a nest without a product; fix: leave it 0")
        for number in values_of(nest, "scan"):
            axis = nest.body[number].attrs["axis"]
            extent = nest.axes[axis].extent
            is_whole = takes_whole_lines(nest.body[number].attrs["kind"])
            size = power_of_two(extent) if is_whole and type(extent) is int else 1024
            if axis not in blocks:
                name = nest.axes[axis].name
                raise UserError(f"schedule: the scanned axis {name} has no block; fix: add ({axis}, {size})")
            if is_whole and blocks[axis] < size:
                raise UserError(
                    f"schedule: a block of {blocks[axis]} along the axis {nest.axes[axis].name}, whose lines are sorted or "
                    f"transformed; fix: whole lines, ({axis}, {size})"
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
    first = nest.body[products(nest)[0].number]
    if spaces_of(first) and blocks.get(products(nest)[0].n or 0, 1) != first.attrs["panel"]:
        panel, name = first.attrs["panel"], nest.axes[products(nest)[0].n or 0].name
        raise UserError(f"schedule: filters lie in panels of {panel}; fix: {name} = {panel} in blocks")
    if schedule.packed_b:
        columns = products(nest)[0].n
        if template != "contract" or columns is None or blocks.get(columns, 1) != schedule.packed_b:
            raise UserError(
                f"schedule: packed_b={schedule.packed_b} is not the block of the product's columns; fix: make them equal"
            )


def _attention_block(nest: Nest, blocks: dict[int, int], axis: int) -> int:
    scores, values, _ = attention_products(nest)
    extent = nest.axes[axis].extent
    if axis in (scores.k, values.n) and type(extent) is int:
        return power_of_two(extent)
    return blocks.get(axis, 1)
