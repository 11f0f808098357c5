"""Emits loads of single elements of a short array as `tt.gather` from a block of all of it, which is loaded once.

Registers of hosts hold such a block, and pick its elements faster than memory is accessed for each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

from xdsl.ir import SSAValue

from ...promotion.dtype import DType, uint8
from ..nest import Value
from ..target import is_table
from ..tt.builder.block_builder import BlockBuilder
from ..tt.types import I32, shape_of
from .blocks import memory_type, power_of_two
from .elements import scalar

MIN_LOOKUPS = 4
"""How many times as many elements of a table have to be looked up by a program as it has."""


class Table(NamedTuple):
    """The elements of an array that a position picks from: so many, one in every `step`, from the first one on."""

    length: int
    first: int
    step: int


def no_tables(size: int) -> int:
    """Returns 0: the elements of `size` bytes of a table where registers hold none."""
    return 0


def table_of(body: Sequence[Value], load: Value, table_elements: Callable[[int], int]) -> Table | None:
    """Returns the table that a load takes single elements of by a position, if registers hold it.

    table_elements: returns the most elements of so many bytes that they hold.
    """
    attrs, dtype = load.attrs, load.dtype
    if len(load.operands) != 1 or attrs["guarded"] or attrs["at"].terms:
        return None
    (step,), first = attrs["strides"], attrs["at"].offset
    extents = [extent for extent in attrs["buffer"].shape if type(extent) is int]
    if dtype.is_complex or (dtype.bits < 8 and not dtype.is_bool) or len(extents) < len(attrs["buffer"].shape):
        return None
    if type(step) is not int or type(first) is not int or not 0 <= first < step:
        return None
    length, is_short = -(-(prod(extents) - first) // step), unsigned_position(body, load.operands[0]) is not None
    return Table(length, first, step) if is_table(dtype, length, is_short, table_elements) else None


def unsigned_position(body: Sequence[Value], number: int) -> int | None:
    """Returns the unsigned integers of 8 or 16 bits that positions are, if they are such."""
    value = body[number]
    if value.op != "cast":
        return None
    source: DType = body[value.operands[0]].dtype
    return value.operands[0] if source.kind == "uint" and source.bits in (8, 16) else None


def loaded_table(b: BlockBuilder, pointer: SSAValue, dtype: DType, table: Table) -> SSAValue:
    """Emits the load of a table as a block of a power of two; of bool as bytes."""
    dtype = uint8 if dtype.is_bool else dtype
    size, elem = power_of_two(table.length), memory_type(dtype)
    positions = offsets = b.arange(size)
    if table.step > 1:
        offsets = b.binary("arith.muli", offsets, b.const(table.step, I32, (size,)))
    if table.first:
        offsets = b.binary("arith.addi", offsets, b.const(table.first, I32, (size,)))
    pointers = b.addptr(b.splat(pointer, (size,)), offsets)
    if size == table.length:
        return scalar.from_memory(b, b.load(pointers), dtype)
    inside = b.cmpi("slt", positions, b.const(table.length, I32, (size,)))
    return scalar.from_memory(b, b.load(pointers, inside, b.const(0, elem, (size,))), dtype)


def picked(
    b: BlockBuilder, table: SSAValue, dtype: DType, positions: SSAValue, sizes: tuple[int, ...], is_unsigned: bool
) -> SSAValue:
    """Emits the elements of a table at a block of positions, which lie within it."""
    positions = b.cast("arith.extui" if is_unsigned else "arith.trunci", positions, I32)
    for _ in sizes[1:]:
        table = b.expand_dims(table, 0)
    whole = b.broadcast(table, (*sizes[:-1], shape_of(table.type)[-1]))
    found = b.gather(whole, positions, len(sizes) - 1)
    return scalar.from_memory(b, found, dtype) if dtype.is_bool else found
