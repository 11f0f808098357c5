"""Expands composite ops into primitive ones: makes a new graph of the same values, without duplicate or dead
symbols.

There are two passes. The first copies the graph, replacing every composite by its expansion (`OpDef.expand`), every long
reduction to few values by two shorter ones, those over stacks by operations on the pieces, products with few results and
long sums, running sums of long rows and sums at few positions by those of parts, products of one row with converted weights
or with one column by sums, rows of palettes by their columns, concatenations of a value with itself by views, products of
int8 that were made int32 first by products of int8, whose sums are int32 anyway, arctangents of ratios by their shorter form,
and casts of one of several numbers by the choice of one that is cast. The second gives equal symbols one node (hash-consing by
op, operands, attributes and dtype), so that expansions share what they have in common, and drops what no output needs. Inputs,
weights, checks, output names and the user's lines are kept.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...graph.graph import Graph
from ...graph.ops.complex.parts import is_wide
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol
from ...promotion.arrays import Array
from ...promotion.dtype import int8, int32
from ...promotion.errors import InternalError
from .constant_values import holds_array
from .parts.cuts import FEW_PARTS, FROM_MEMORY, MAX_PARTS, MIN_LENGTH, MIN_PARTS, Slices, part_count
from .parts.long_positions import extreme_of_parts, is_long_extreme
from .parts.long_products import is_long_product, sum_of_parts
from .parts.long_scans import is_long_scan, scan_in_parts
from .parts.long_scatters import counts_from_0_on, is_long_scatter, scatter_in_parts, with_unsigned_positions
from .parts.narrow_columns import is_of_narrow_columns, reduced_in_wide_columns
from .parts.palettes import is_of_palette, picked_by_column
from .parts.stacks import reduced_piece_by_piece, reductions_of_stacks
from .products.computed_rows import (
    is_row_of_computed,
    is_row_of_transposed,
    is_transposed_with_column,
    product_with_column,
    product_with_row,
    sum_of_row,
)
from .products.grouped_convolutions import is_narrow_in_groups, sum_over_planes
from .products.inner_products import is_inner_product, sum_of_inner
from .products.narrow_products import is_narrow, sum_of_products
from .ratios import is_arctangent_of_ratio
from .roundings import choice_of_casts, is_cast_of_choice
from .sorted_lines import is_sorted_in_memory, is_sorted_whole, sorted_in_memory, sorted_whole
from .tiles import is_tile, repeated
from .transformed_lines import is_transform_of_lines, transformed_whole
from .whole_lines import NO_LINES, WholeLines

SPLIT_KEPT = 64
SPLIT_REDUCED = 65536
"""A reduction to fewer than `SPLIT_KEPT` values over more than `SPLIT_REDUCED` elements each is done in two stages, because
one stage would keep no more threads busy than there are results."""
LEADING_PARTS = 16
"""The fewest parts that lie along short outer axes."""
SPLIT_COLUMNS, SPLIT_ROWS = 2048, 16384
"""So is one to fewer than `SPLIT_COLUMNS` values side by side in memory over `SPLIT_ROWS` or more each: a program sums a few of
the columns, so that a GPU has few programs, and a CPU reads rows in pieces."""
FAR_COLUMNS = 8192
"""The same for rows that come from memory, of which a program reads whole ones."""


def expand(graph: Graph, lines: WholeLines = NO_LINES) -> Graph:
    """Returns the graph in primitive ops. `graph` is not changed; if it is not finished, `InternalError` is
    raised.

    lines: which lines programs of the target have whole.
    """
    if not graph.finished:
        raise InternalError(f"expand: graph {graph.name!r} is not finished")
    current, outputs = graph, graph.outputs
    while True:
        stacks = reductions_of_stacks(_live(current, outputs), outputs) if lines.columns else frozenset()
        if not stacks and not any(_has_expansion(symbol, lines) for symbol in current.symbols):
            break
        current, outputs = _rewrite(current, outputs, lines, stacks)
    return _interned(graph, current, outputs)


def _has_expansion(symbol: Symbol, lines: WholeLines) -> bool:
    if _is_composite(symbol) or counts_from_0_on(symbol) or _is_long_reduction(symbol) or is_tile(symbol):
        return True
    if _is_widened_product(symbol) or is_arctangent_of_ratio(symbol) or is_cast_of_choice(symbol):
        return True
    if lines.tables and is_of_palette(symbol, dict(lines.tables)):
        return True
    if not lines.columns:
        return False
    is_row = is_row_of_computed(symbol) or is_row_of_transposed(symbol) or is_transposed_with_column(symbol)
    is_product = is_row or is_inner_product(symbol) or is_narrow(symbol, lines.short_rows) or is_narrow_in_groups(symbol)
    return is_product or _has_parts(symbol)


def _is_composite(symbol: Symbol) -> bool:
    return symbol.op.kind == "composite" and not is_wide(symbol)


def _has_parts(symbol: Symbol) -> bool:
    is_long = is_long_product(symbol) or is_long_scan(symbol) or is_long_scatter(symbol) or is_long_extreme(symbol)
    return is_long or is_of_narrow_columns(symbol)


def _in_parts(symbol: Symbol, operands: list[Symbol]) -> SymbolLike:
    if symbol.op.name == "matmul":
        return sum_of_parts(symbol, *operands)
    if is_of_narrow_columns(symbol):
        return reduced_in_wide_columns(symbol, *operands)
    if symbol.op.kind == "reduce":
        return extreme_of_parts(symbol, *operands)
    return scatter_in_parts(*operands) if symbol.op.name == "scatter" else scan_in_parts(symbol, *operands)


def _live(graph: Graph, outputs: tuple[Symbol, ...]) -> list[Symbol]:
    """Returns the symbols that the outputs need, and all inputs, in order."""
    needed = {symbol.id for symbol in (*outputs, *graph.inputs)}
    for symbol in reversed(graph.symbols):
        if symbol.id in needed:
            needed.update([operand.id for operand in symbol.inputs])
    return [symbol for symbol in graph.symbols if symbol.id in needed]


def _rewrite(
    graph: Graph, outputs: tuple[Symbol, ...], lines: WholeLines, stacks: Collection[int]
) -> tuple[Graph, tuple[Symbol, ...]]:
    target = graph.rewriting()
    new: dict[int, Symbol] = {}
    live = _live(graph, outputs)
    has_composites = any(_is_composite(symbol) for symbol in live)
    slices = Slices(live, outputs, new)
    for symbol in live:
        operands = [new[operand.id] for operand in symbol.inputs]
        with target.located(symbol.location):
            if is_sorted_whole(symbol, lines.sorted_bytes):
                result = _made(sorted_whole(symbol, operands[0]))
            elif is_sorted_in_memory(symbol, lines.sorted_bytes):
                result = _made(sorted_in_memory(symbol, operands[0]))
            elif lines.transforms and is_transform_of_lines(symbol):
                result = _made(transformed_whole(symbol, operands[0]))
            elif is_tile(symbol):
                result = _made(repeated(symbol, operands))
            elif counts_from_0_on(symbol):
                result = _made(with_unsigned_positions(symbol, operands))
            elif lines.tables and is_of_palette(symbol, dict(lines.tables)):
                result = _made(picked_by_column(symbol, *operands))
            elif symbol.id in stacks:
                result = _made(reduced_piece_by_piece(symbol, operands[0]))
            elif lines.columns and is_row_of_computed(symbol):
                result = _made(sum_of_row(*operands))
            elif lines.columns and is_row_of_transposed(symbol):
                result = _made(product_with_column(symbol, *operands))
            elif lines.columns and is_transposed_with_column(symbol):
                result = _made(product_with_row(symbol, *operands))
            elif lines.columns and is_inner_product(symbol):
                result = _made(sum_of_inner(symbol, *operands))
            elif lines.columns and is_narrow(symbol, lines.short_rows):
                result = _made(sum_of_products(operands[0], operands[1], lines.short_rows))
            elif lines.columns and is_narrow_in_groups(symbol):
                result = _made(sum_over_planes(*operands))
            elif lines.columns and _has_parts(symbol):
                result = _made(_in_parts(symbol, operands))
            elif _is_composite(symbol):
                result = _expansion(symbol, operands)
            elif _is_long_reduction(symbol) and not has_composites:
                result = _in_two_stages(symbol, operands[0], slices)
            elif _is_widened_product(symbol):
                result = target.apply("matmul", tuple(map(_narrowed, operands)), symbol.attrs)
            elif is_arctangent_of_ratio(symbol):
                result = target.apply("atan_ratio", (operands[0],), {})
            elif is_cast_of_choice(symbol):
                result = choice_of_casts(operands[0], symbol)
            else:
                result = target.adopt(symbol, operands)
        if result.dtype is not symbol.dtype or result.shape != symbol.shape:
            raise InternalError(f"expand: {symbol.op.name} became {result!r}, expected {symbol!r}")
        new[symbol.id] = result
    return target, tuple([new[symbol.id] for symbol in outputs])


def _expansion(symbol: Symbol, operands: list[Symbol]) -> Symbol:
    if symbol.op.expand is None:
        raise InternalError(f"expand: the composite {symbol.op.name} has no expansion")
    result: Symbol = symbol.op.expand(symbol, *operands)
    return result


def _made(result: SymbolLike) -> Symbol:
    assert isinstance(result, Symbol)
    return result


# -- hash-consing ---------------------------------------------------------------------------------------------------------


def _interned(original: Graph, graph: Graph, outputs: tuple[Symbol, ...]) -> Graph:
    target = original.rewriting()
    new: dict[int, Symbol] = {}
    known: dict[Any, Symbol] = {}
    for symbol in _live(graph, outputs):
        operands = tuple([new[operand.id] for operand in symbol.inputs])
        key = (symbol.op.name, symbol.dtype, tuple([operand.id for operand in operands]), _attrs_key(symbol))
        found = known.get(key)
        if found is None:
            with target.located(symbol.location):
                found = known[key] = target.adopt(symbol, operands)
        new[symbol.id] = found
    target.output(*[new[symbol.id] for symbol in outputs], names=original.output_names)
    return target


def _attrs_key(symbol: Symbol) -> Any:
    """Returns a key that is equal for equal attributes. Scalars compare by type and bits: in Python True == 1
    == 1.0 and 0.0 == -0.0."""
    name = symbol.op.name
    if name in ("input", "weight"):
        return symbol.name
    if name == "constant":
        value: Array = symbol.attrs["value"]
        return (value.shape, value.tobytes()) if value.nbytes <= 4096 else id(value)
    attrs: Mapping[str, Any] = symbol.attrs
    return tuple(
        [_scalar_key(value) if type(value) in (float, complex) else (type(value), value) for value in attrs.values()]
    )


def _scalar_key(value: float | complex) -> tuple[str, str]:
    if isinstance(value, complex):
        return ("complex", f"{_scalar_key(value.real)[1]} {_scalar_key(value.imag)[1]}")
    return ("float", "nan" if math.isnan(value) else value.hex())


# -- products of int8 in int32 --------------------------------------------------------------------------------------------


def _is_widened_product(symbol: Symbol) -> bool:
    """Returns whether a product of int32 is one of int8 that are cast first, none of them constant.

    Products with constant codes are found later, with their zero points (`products/integer_products.py`).
    """
    if symbol.op.name != "matmul" or symbol.dtype is not int32 or symbol.attrs["accumulate"] is not int32:
        return False
    sources = [_widened(operand) for operand in symbol.inputs]
    return all(source is not None and not holds_array(source) for source in sources)


def _widened(symbol: Symbol) -> Symbol | None:
    """Returns the int8 that a symbol of int32 holds, rearranged; None for others."""
    while symbol.op.name in ("permute", "reshape"):
        symbol = symbol.inputs[0]
    is_cast = symbol.op.name == "cast" and symbol.dtype is int32 and symbol.inputs[0].dtype is int8
    return symbol.inputs[0] if is_cast else None


def _narrowed(symbol: Symbol) -> Symbol:
    """Rearranges the int8 as the symbol rearranges them as int32."""
    if symbol.op.name == "cast":
        return symbol.inputs[0]
    return symbol.graph.apply(symbol.op.name, (_narrowed(symbol.inputs[0]),), symbol.attrs)


# -- long reductions ------------------------------------------------------------------------------------------------------


def _is_long_reduction(symbol: Symbol) -> bool:
    if symbol.op.kind != "reduce" or not symbol.op.combine:
        return False
    shape, axes = symbol.inputs[0].shape, symbol.attrs["axes"]
    if not all(isinstance(extent, int) for extent in shape):
        return False
    sizes: list[int] = [extent for extent in shape if isinstance(extent, int)]
    reduced = math.prod([sizes[axis] for axis in axes])
    kept = math.prod([extent for axis, extent in enumerate(sizes) if axis not in axes])
    if kept < SPLIT_KEPT:
        return reduced > SPLIT_REDUCED
    is_far = kept * reduced * symbol.dtype.itemsize >= FROM_MEMORY  # fewer rows do then, and longer ones
    least, most = (FEW_PARTS * MIN_LENGTH, FAR_COLUMNS) if is_far else (SPLIT_ROWS, SPLIT_COLUMNS)
    return kept < most and reduced >= least and len(sizes) - 1 not in axes


def _in_two_stages(symbol: Symbol, x: Symbol, slices: Slices) -> Symbol:
    """Reduces to partial results along one axis first, and reduces these second. The axis is the outermost reduced one in
    memory that is long enough, so that a part reads what lies together; when it is long it is cut into equal parts, and a
    remainder that does not fill a part is reduced by itself and combined. Where all axes are short, partial results lie
    along several of them."""
    graph, name = x.graph, symbol.op.name
    sizes = [extent for extent in x.shape if isinstance(extent, int)]
    axes: tuple[int, ...] = tuple(symbol.attrs["axes"])
    order = _outermost_first(x, axes)
    axis = next((a for a in order if sizes[a] >= MIN_PARTS), axes[0])
    others = tuple([a for a in axes if a != axis])
    keepdims = symbol.attrs["keepdims"]

    def reduce(value: Symbol, over: tuple[int, ...], keep: bool) -> Symbol:
        return graph.apply(name, (value,), {"axes": over, "keepdims": keep})

    outer = _leading(order, sizes)
    if outer:
        inner = tuple([a for a in axes if a not in outer])
        return _dropped(reduce(reduce(x, inner, True), outer, True), symbol)
    if sizes[axis] < MIN_PARTS:
        last = _enough(axes, sizes)
        first = tuple([a for a in axes if a not in last])
        return _dropped(reduce(reduce(x, first, True), last, True), symbol)
    if others and MIN_PARTS <= sizes[axis] <= MAX_PARTS * 2:
        return _dropped(reduce(reduce(x, others, True), (axis,), True), symbol)
    parts = part_count(sizes[axis])
    length = sizes[axis] // parts
    whole = x if parts * length == sizes[axis] else slices.of(symbol.inputs[0], axis, 0, parts * length)
    shape = (*sizes[:axis], parts, length, *sizes[axis + 1 :])
    cut = graph.apply("reshape", (whole,), {"shape": shape})
    inner = tuple(sorted([a if a < axis else a + 1 for a in others] + [axis + 1]))
    total = reduce(reduce(cut, inner, True), (axis,), True)
    result = graph.apply(
        "reshape", (total,), {"shape": tuple([1 if a in axes else e for a, e in enumerate(sizes)])}
    )
    if whole is not x:
        rest = reduce(slices.of(symbol.inputs[0], axis, parts * length, sizes[axis]), axes, True)
        result = graph.apply(symbol.op.combine, (result, rest))
    return result if keepdims else _dropped(result, symbol)


def _outermost_first(x: Symbol, axes: tuple[int, ...]) -> list[int]:
    """Returns axes in the order in which they lie in memory, outermost first: of what a permutation reads, or of x itself."""
    while x.op.kind == "map" and x.inputs and x.inputs[0].shape == x.shape:
        x = x.inputs[0]
    order = x.attrs["axes"] if x.op.name == "permute" else range(len(x.shape))
    return sorted(axes, key=lambda axis: order[axis])


def _leading(order: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the outermost axes that partial results lie along, if these are short ones, and what is reduced first lies
    together and is neither short nor very long; else none. order: the reduced axes, outermost first."""
    count = 1
    while count < len(order) and math.prod([sizes[axis] for axis in order[:count]]) < LEADING_PARTS:
        count += 1
    parts, length = [math.prod([sizes[axis] for axis in some]) for some in (order[:count], order[count:])]
    is_short = sizes[order[0]] < MIN_PARTS and LEADING_PARTS <= parts <= 8 * MAX_PARTS
    return tuple(sorted(order[:count])) if is_short and MIN_LENGTH <= length <= SPLIT_REDUCED else ()


def _enough(axes: tuple[int, ...], sizes: list[int]) -> tuple[int, ...]:
    """Returns the first axes along which there are enough partial results; one axis at least is left.

    Axes are shorter than `MIN_PARTS`, and there are more elements along all of them than its square.
    """
    count = 0
    while math.prod([sizes[axis] for axis in axes[:count]]) < MIN_PARTS:
        count += 1
    return axes[:count]


def _dropped(value: Symbol, symbol: Symbol) -> Symbol:
    """Reshapes `value`, which has all dimensions, to the shape of `symbol`."""
    if value.shape == symbol.shape:
        return value
    return value.graph.apply("reshape", (value,), {"shape": symbol.shape})
