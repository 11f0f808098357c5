"""Computes 3 × 3 convolutions with fewer multiplications, by Winograd's F(2×2, 3×3) and F(4×4, 3×3).

Two neighbouring results y of a filter w with three taps take four products, where six would do, of four elements x:

    m0 = (x0 - x2) w0                      y0 = m0 + m1 + m2
    m1 = (x1 + x2) (w0 + w1 + w2) / 2      y1 = m1 - m2 - m3
    m2 = (x2 - x1) (w0 - w1 + w2) / 2
    m3 = (x1 - x3) w2

(A. Lavin and S. Gray, Fast Algorithms for Convolutional Neural Networks, CVPR 2016.) Along both axes of space, 16 products
make 2 × 2 results, where 36 would. What depends on the filters alone is computed when a model is loaded.

Four results take six products, so that 36 make 4 × 4 results, where 144 would. With two numbers a and b, p = a², q = b²:

    m0 = (pq x0 - (p + q) x2 + x4) w0 / pq
    m1, m2 = (x4 - q x2 ± a (x3 - q x1)) (w0 ± a w1 + p w2) / 2p(p - q)
    m3, m4 = (x4 - p x2 ± b (x3 - p x1)) (w0 ± b w1 + q w2) / 2q(q - p)
    m5 = (pq x1 - (p + q) x3 + x5) w2
    y0 = m0 + (m1 + m2) + (m3 + m4)        y2 = p (m1 + m2) + q (m3 + m4)
    y1 = a (m1 - m2) + b (m3 - m4)         y3 = ap (m1 - m2) + bq (m3 - m4) + m5

The polynomials of elements and taps are multiplied at the points 0, ±a, ±b and ∞ (A. Toom, 1963; S. Cook, 1966). Which points
decides the error: with 5/8 and 3/2 the mean error is half of that with the usual 1 and 2, and the worst one a third to a half
(B. Barabasz, A. Anderson, K. Soodhalter and D. Gregg, Error Analysis and Improving the Accuracy of Winograd Convolution for
Deep Neural Networks, ACM TOMS 46, 2020, looks for points).

Here the contraction gets the axes that this needs: its results along each axis of space become tiles and the results inside of
one. It is the same contraction still, and programs compute it as one where a result is not finite
(`tile/templates/winograd.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

from ...graph.dims.dim import ceil_div
from ...graph.graph import Graph
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.dtype import float32
from ..choices.model_schedule import ALGORITHMS, Algorithm
from ..nest import Affine, Axis, Buffer, Extent, Nest, Store, Value
from ..tile.cost_models.axes import capped
from ..tile.cost_models.host import PRODUCT_COLUMNS
from ..tile.structure import Product, product_of, products, reach
from .products.depthwise import is_permuted, sums_apart

TAPS = 3
SMALL, LARGE = ALGORITHMS["winograd"], ALGORITHMS["winograd4"]
"""Results of a tile along each axis."""
MIN_CHANNELS, MIN_FILTERS, MIN_TILES = 32, 32, 32
FEW_ROWS = 12
"""A large tile takes as long as three small ones, measured, and a panel of filters for large tiles as twelve of them more: its
products read filters for a quarter of the rows."""
USUAL = 16
"""What an extent counts as that is known only at launch."""


@dataclass(frozen=True, slots=True)
class Convolution:
    """A nest whose only contraction is a 3 × 3 convolution of channels with constant filters.

    product: the contraction, over the rows of a filter, its columns, and the channels. results: its axis of filters. rows,
    columns: the axes of the results along the axes of space. filters: the position of their load. count: how many there are.
    """

    nest: Nest
    product: Product
    results: int
    rows: int
    columns: int
    filters: int
    channels: int
    count: int

    @property
    def panel(self) -> int:
        """The filters whose transformed taps lie side by side, those of a program."""
        return capped(self.count, PRODUCT_COLUMNS)

    def layout(self, inside: int) -> str:
        """Returns the layout of the filters' sums of taps for tiles with so many results along each axis."""
        return f"{'winograd4' if inside == LARGE else 'winograd'}:{self.channels}:{self.panel}"


def convolution_of(nest: Nest) -> Convolution | None:
    """Returns the nest as a convolution of float32 tensors with steps of 1; None if it is none."""
    found = products(nest)
    if len(found) != 1 or found[0].n is None or nest.body[found[0].number].attrs["precision"] != "ieee":
        return None
    nest = _with_axis_of_columns(nest, found[0])
    product = product_of(nest, found[0].number)
    left, right = nest.body[product.number].operands
    load, channels = nest.body[right], nest.axes[product.k].extent
    if product.n is None or [nest.axes[axis].extent for axis in product.outer] != [TAPS, TAPS]:
        return None
    count = nest.axes[product.n].extent
    dtypes = {nest.body[number].dtype.name for number in (product.number, left, right)}
    if dtypes != {"float32"} or type(channels) is not int or type(count) is not int:
        return None
    if load.op != "load" or load.operands or sum(v.operands.count(right) for v in nest.body) != 1:
        return None
    vertical, horizontal = product.outer
    steps = {product.n: 1, product.k: count, horizontal: channels * count, vertical: TAPS * channels * count}
    buffer: Buffer = load.attrs["buffer"]
    if buffer.kind != "constant" or prod(buffer.shape) != TAPS * TAPS * channels * count:
        return None
    if load.attrs["at"] != Affine(0, tuple(sorted(steps.items()))):
        return None
    rows, columns = (_results_along(nest, left, product, taps) for taps in (vertical, horizontal))
    if rows is None or columns is None or rows == columns:
        return None
    return Convolution(nest, product, product.n, rows, columns, right, channels, count)


def convolutions_apart(graph: Graph) -> frozenset[int]:
    """Returns the ids of products that may be computed in tiles and are permuted to channels first next, and of sums over taps.

    Stored with channels apart, the results of a tile would be written one number at a time, which takes as long as the
    products: a kernel that permutes them takes a twentieth of that.
    """
    readers: dict[int, list[Symbol]] = {}
    for symbol in graph.symbols:
        for operand in symbol.inputs:
            readers.setdefault(operand.id, []).append(symbol)
    in_tiles = [symbol.id for symbol in graph.symbols if _is_in_tiles(symbol) and is_permuted(symbol, readers)]
    return sums_apart(graph, readers).union(in_tiles)


def _is_in_tiles(symbol: Symbol) -> bool:
    """Returns whether a symbol is a 3 × 3 convolution with enough channels and filters."""
    if symbol.op.name != "matmul" or symbol.dtype is not float32:
        return False
    windows, filters = symbol.inputs
    while filters.op.name == "reshape":
        filters = filters.inputs[0]
    while windows.op.name in ("reshape", "permute"):
        windows = windows.inputs[0]
    if windows.op.name != "windows" or filters.op.name not in ("constant", "weight") or len(filters.shape) != 4:
        return False
    attrs, (channels, count) = windows.attrs, filters.shape[2:]
    steps = (attrs["sizes"], attrs["strides"], attrs["dilations"])
    large = isinstance(channels, int) and channels >= MIN_CHANNELS and isinstance(count, int) and count >= MIN_FILTERS
    return large and steps == ((TAPS, TAPS), (1, 1), (1, 1))


def _with_axis_of_columns(nest: Nest, product: Product) -> Nest:
    """Returns the nest with the columns of a filter as an axis, where they and the channels are one axis, as in memory."""
    depth = nest.axes[product.k].extent
    if len(product.outer) != 1 or type(depth) is not int or depth % TAPS:
        return nest
    k, channels, added = product.k, depth // TAPS, len(nest.axes)

    def split(at: Affine) -> Affine:
        step = at.coefficient(k)
        return at if step == 0 else _affine(at.offset, [*at.terms, (added, step * channels)])

    axes = [replace(axis, extent=channels) if number == k else axis for number, axis in enumerate(nest.axes)]
    body = [_moved(value, split, lambda axes: (*axes, added) if k in axes else axes) for value in nest.body]
    attrs = {**body[product.number].attrs, "outer": (*product.outer, added)}
    body[product.number] = replace(body[product.number], attrs=attrs)
    return replace(nest, axes=(*axes, Axis("columns", TAPS, "reduction")), body=tuple(body))


def _results_along(nest: Nest, left: int, product: Product, taps: int) -> int | None:
    """Returns the axis of the results along which a window moves as along its taps; None if there is none."""
    loads = [nest.body[number].attrs["at"] for number in reach(nest, [left]) if nest.body[number].op == "load"]
    for axis in reversed([axis for axis in nest.body[left].axes if axis in nest.body[product.number].axes]):
        if all(at.coefficient(axis) == at.coefficient(taps) for at in loads) and any(at.coefficient(axis) != 0 for at in loads):
            return axis
    return None


def best_side(found: Convolution, wanted: Algorithm | None, allowed: Sequence[Algorithm]) -> int:
    """Returns how many results along each axis the tiles of a convolution have, 1 where it is computed as the plain sum.

    wanted: the algorithm that the user says, which is taken if it is allowed. Otherwise fewer products must be worth the sums
    that they take, and 16 or 36 numbers for every nine of a filter.
    """
    if wanted is not None and wanted in allowed:
        return ALGORITHMS[wanted]
    small, large = _tiles(found, SMALL), _tiles(found, LARGE)
    if found.channels < MIN_CHANNELS or found.count < MIN_FILTERS:
        return 1
    if "winograd4" in allowed and small >= 3 * large + FEW_ROWS:
        return LARGE
    return SMALL if "winograd" in allowed and small >= MIN_TILES else 1


def _tiles(found: Convolution, side: int) -> int:
    tiles = 1
    for axis in found.product.rows:
        extent = found.nest.axes[axis].extent
        if not isinstance(extent, int):
            extent = USUAL
        tiles *= -(-extent // side) if axis in (found.rows, found.columns) else extent
    return tiles


def in_tiles(found: Convolution, transformed: Buffer, side: int) -> Nest:
    """Returns the nest with tiles of side × side results. The contraction refers to a load of the transformed filters."""
    nest, number = found.nest, found.product.number
    first = len(nest.axes)
    inside = {found.rows: first, found.columns: first + 1}
    axes = [
        replace(axis, extent=ceil_div(axis.extent, side)) if position in inside else axis
        for position, axis in enumerate(nest.axes)
    ]

    def tiled(at: Affine) -> Affine:
        terms: list[tuple[int, Extent]] = []
        for axis, step in at.terms:
            terms += [(axis, step * side), (inside[axis], step)] if axis in inside else [(axis, step)]
        return _affine(at.offset, terms)

    def grown(of: tuple[int, ...]) -> tuple[int, ...]:
        return (*of, *[inside[axis] for axis in inside if axis in of])

    body = [_moved(value, tiled, grown) for value in nest.body]
    stores = [Store(store.value, store.buffer, tiled(store.at), store.lines) for store in nest.stores]
    product = body[number]
    extents = [nest.axes[axis].extent for axis in inside]
    spaces = tuple(zip(inside, inside.values(), found.product.outer, extents, strict=True))
    attrs = {**product.attrs, "winograd": spaces, "transformed": len(body), "panel": found.panel}
    body[number] = replace(product, attrs=attrs)
    at = _affine(0, [(found.results, 1), (found.product.k, found.panel)])
    load = {"buffer": transformed, "at": at, "strides": (), "guarded": False, "fill": 0}
    over = tuple(sorted((found.results, found.product.k)))
    body.append(Value("load", nest.body[found.filters].dtype, over, (), load, product.lines))
    added = (Axis("row", side), Axis("column", side))
    return replace(nest, axes=(*axes, *added), body=tuple(body), stores=tuple(stores))


def _moved(value: Value, move: Callable[[Affine], Affine], axes: Callable[[tuple[int, ...]], tuple[int, ...]]) -> Value:
    attrs = {**value.attrs, "at": move(value.attrs["at"])} if "at" in value.attrs else value.attrs
    return replace(value, axes=tuple(sorted(axes(value.axes))), attrs=attrs)


def _affine(offset: Extent, terms: list[tuple[int, Extent]]) -> Affine:
    return Affine(offset, tuple(sorted(terms, key=lambda term: term[0])))
