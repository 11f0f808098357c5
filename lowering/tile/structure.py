"""Analyses the structure of a nest: its reductions, scans and contractions, the roles of its axes, and its
memory accesses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from ..nest import Affine, Buffer, Extent, Nest, Value


def pointer_buffers(nest: Nest) -> tuple[Buffer, ...]:
    """Returns the buffers of a nest in the order of the pointer parameters: loads, then stores, each once."""
    found = {(v.attrs["buffer"].kind, v.attrs["buffer"].index): v.attrs["buffer"] for v in nest.loads}
    for store in nest.stores:
        found.setdefault((store.buffer.kind, store.buffer.index), store.buffer)
    return tuple(found.values())


def runtime_extents(nest: Nest) -> tuple[Extent, ...]:
    """Returns the sizes known only at launch, in the order of the scalar parameters, each once."""
    found: dict[Extent, None] = {}

    def see(*extents: Extent) -> None:
        for extent in extents:
            if type(extent) is not int:
                found.setdefault(extent)

    def see_affine(at: Affine) -> None:
        see(at.offset, *[coefficient for _, coefficient in at.terms])

    see(*[axis.extent for axis in nest.axes])
    for value in nest.body:
        if "at" in value.attrs:
            see_affine(value.attrs["at"])
        if value.op == "load":
            see(*value.attrs["strides"])
        elif value.op == "dim":
            see(value.attrs["extent"])
        see(*[space.extent for space in spaces_of(value)])
    for store in nest.stores:
        see_affine(store.at)
    return tuple(found)


def values_of(nest: Nest, op: str) -> tuple[int, ...]:
    """Returns the numbers of all body values with that op."""
    return tuple([number for number, value in enumerate(nest.body) if value.op == op])


def reach(nest: Nest, targets: Iterable[int], stop: Iterable[int] = ()) -> set[int]:
    """Returns every value that `targets` need, themselves included, without following the operands of
    `stop`."""
    ends, found, pending = set(stop), set[int](), list(targets)
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            if number not in ends:
                pending.extend(nest.body[number].operands)
    return found


def reduced_axes(nest: Nest) -> tuple[int, ...]:
    """Returns the axes that a reduction runs over, or a scan along, in order."""
    found: set[int] = set()
    for value in nest.body:
        if value.op == "reduce":
            found.update(value.attrs["over"])
        elif value.op == "scan":
            found.add(value.attrs["axis"])
    return tuple(sorted(found))


def reduction_levels(nest: Nest) -> int:
    """Returns how many reductions in a row need each other's results, and so read their operands one after the other."""
    levels: list[int] = []
    for value in nest.body:
        below = max([levels[operand] for operand in value.operands], default=0)
        levels.append(below + (value.op == "reduce"))
    return max(levels, default=0)


def takes_whole_lines(kind: str) -> bool:
    """Returns whether a kind of scan is one of lines that blocks hold whole: a sort, or a Fourier transform."""
    return kind == "sort_block" or kind.startswith("fft_")


def is_of_whole_lines(nest: Nest) -> bool:
    """Returns whether the nest sorts or transforms lines that its blocks hold whole."""
    return any(takes_whole_lines(nest.body[number].attrs["kind"]) for number in values_of(nest, "scan"))


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction and the roles of its axes. `m` or `n` is None when its operand has no axis of its own.

    outer: the other axes that it runs over, outermost first.
    rows: the axes whose row-major product is the rows of a tile, m the last: m alone, or more of those that only the first
    operand has. All axes that are none of these are batch axes.
    """

    number: int
    m: int | None
    n: int | None
    k: int
    outer: tuple[int, ...]
    rows: tuple[int, ...]
    batch: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """The axes along one axis of space of a convolution computed tile by tile: of the tiles, of the results inside of one, and
    of a filter's taps (`graph_passes/winograd.py`). extent: how many results there are; the last tile may have fewer."""

    tiles: int
    inside: int
    taps: int
    extent: Extent


def spaces_of(value: Value) -> tuple[Space, ...]:
    """Returns the axes of space of a contraction that is computed in tiles, none for others."""
    return tuple([Space(*axes) for axes in value.attrs.get("winograd", ())])


def tile_side(nest: Nest, product: Product) -> int:
    """Returns the results along each axis of space of a tile of a contraction, 1 where it is computed as the plain sum."""
    spaces = spaces_of(nest.body[product.number])
    side = nest.axes[spaces[0].inside].extent if spaces else 1
    assert type(side) is int
    return side


WIDE_ROWS = 256
"""Rows along one axis of the nest from which on a tile has no need of others."""


def product_of(nest: Nest, number: int) -> Product:
    """Returns a contraction with the roles of its axes: m is the last axis that only the first operand has, n
    the last that only the second has; all others are batch axes."""
    value = nest.body[number]
    k: int = value.attrs["over"]
    left, right = (nest.body[operand].axes for operand in value.operands)
    outer: tuple[int, ...] = value.attrs.get("outer", ())
    inside = {space.inside for space in spaces_of(value)}
    rows = [axis for axis in left if axis not in right and axis != k and axis not in inside]
    columns = [axis for axis in right if axis not in left and axis != k]
    m = rows[-1] if rows else None
    n = columns[-1] if columns else None
    extent = None if m is None else nest.axes[m].extent
    few = outer or (type(extent) is int and extent < WIDE_ROWS)
    tiled = tuple(rows) if few else tuple(rows[-1:])
    batch = tuple([axis for axis in value.axes if axis != n and axis not in tiled])
    return Product(number, m, n, k, outer, tiled, batch)


def rows_extent(nest: Nest, product: Product) -> Extent:
    """Returns the number of rows of a product, without batch axes."""
    count: Extent = 1
    for axis in product.rows:
        count = count * nest.axes[axis].extent
    return count


def contracted_extent(nest: Nest, product: Product, at: Affine, width: Extent) -> Extent | None:
    """Returns the rows of an operand that lies in memory as a (K, N) matrix with rows of `width` elements; None if the
    contracted axes do not step over its rows in order."""
    count: Extent = 1
    for axis in (product.k, *reversed(product.outer)):
        if at.coefficient(axis) != count * width:
            return None
        count = count * nest.axes[axis].extent
    return count


def products(nest: Nest) -> tuple[Product, ...]:
    return tuple([product_of(nest, number) for number in values_of(nest, "contract")])


def accesses(nest: Nest) -> list[tuple[Affine, Value | None]]:
    """Returns the addresses of the stores (with None) and of the loads (with the load)."""
    return [(store.at, None) for store in nest.stores] + [(v.attrs["at"], v) for v in nest.loads]


def unit_axis(at: Affine) -> int | None:
    """Returns the axis along which an address moves by one element, or None."""
    for axis, coefficient in at.terms:
        if type(coefficient) is int and coefficient == 1:
            return axis
    return None


def contiguous_axis(nest: Nest, candidates: Iterable[int]) -> int | None:
    """Returns the candidate axis along which most of the memory traffic is contiguous: accesses along more
    axes weigh more, those of the positions that pick what is loaded among them."""
    weights = dict.fromkeys(candidates, 0)
    for at, load in accesses(nest):
        axis = unit_axis(at)
        if axis in weights:
            positions = () if load is None else load.operands[: len(load.attrs["strides"])]
            picked = {each for position in positions for each in nest.body[position].axes}
            weights[axis] += 16 ** len(picked.union([each for each, _ in at.terms]))
    best = max(weights.values(), default=0)
    return next((axis for axis in reversed(weights) if weights[axis] == best), None) if best else None


def attention_products(nest: Nest) -> tuple[Product, Product, int]:
    """Returns the products (scores, values) of an attention nest, and the axis of the scores' rows."""
    first, second = products(nest)
    if second.number in reach(nest, nest.body[first.number].operands):
        first, second = second, first
    if first.m is None:
        raise InternalError("tile: scores of an attention without rows")
    return first, second, first.m


def may_be_negative_zero(nest: Nest, number: int) -> bool:
    """Returns whether a float value of the nest may be -0.0, as far as its operation tells."""
    value = nest.body[number]
    match value.op:
        case "const":
            return bool(np.signbit(np.float64(value.attrs["value"])))
        case "mul" if value.operands[0] == value.operands[1]:
            return False
        case "where":
            return any(may_be_negative_zero(nest, operand) for operand in value.operands[1:])
        case "cast":
            source = nest.body[value.operands[0]].dtype
            return source.is_float and may_be_negative_zero(nest, value.operands[0])
    return value.op not in ("abs", "exp", "exp2", "exp_shifted", "exp_shifted_unchecked", "one_unless_below", "sigmoid")
