"""Joins, splits, repeats and pads tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ...promotion.dtype import int64
from ...promotion.errors import UserError
from ...promotion.literals import check_literal, is_numpy_scalar, is_scalar, number_of
from ..checks import ShapeError
from ..construction import primitives
from ..construction.stated import require_at_most
from ..dims.dim import Dim, Extent, at_most, maximum, minimum, product
from ..errors import describing, mistake
from ..graph import Graph, graph_of
from ..ops.shape import normalize_axis, slice_length
from ..protocols import TensorLike
from ..symbol import Symbol
from ..types import Axis, DimLike, ShapeLike, as_extent
from .building import apply, symbol_of
from .positions import counting

Widths: TypeAlias = DimLike | Sequence[DimLike | Sequence[DimLike]]


def _tensors(op: str, values: Sequence[TensorLike]) -> tuple[Symbol, ...]:
    if not isinstance(values, (tuple, list)) or not values:
        raise mistake(
            op, "expected a non-empty list of tensors", (values,), f"{op}([x, y], axis)", f"{op}([x, y])"
        )
    graph = graph_of(op, values)
    return tuple([graph.as_symbol(value, op) for value in values])


def concat(values: Sequence[TensorLike], axis: int = 0) -> Symbol:
    """Concatenate tensors along `axis`; they are cast to the join of all their dtypes.

    The other axes must agree: decided now, or checked at launch.
    """
    symbols = _tensors("concat", values)
    with describing("concat", *symbols):
        axis_index = normalize_axis(axis, len(symbols[0].shape))
    if len(symbols) == 1:
        return symbols[0]
    return symbols[0].graph.apply("concat", symbols, {"axis": axis_index})


def stack(values: Sequence[TensorLike], axis: int = 0) -> Symbol:
    """Stack tensors of equal shape along a new axis at position `axis`."""
    symbols = _tensors("stack", values)
    first = symbols[0].shape
    with describing("stack", *symbols):
        axis_index = normalize_axis(axis, len(first) + 1)
        for position, symbol in enumerate(symbols):
            if len(symbol.shape) != len(first):
                raise ShapeError(
                    f"operand {position} has {len(symbol.shape)} axes, operand 0 has {len(first)}", "equal shapes",
                    "reshape or broadcast the operands first",
                )  # fmt: skip
    parts = [primitives.reshape(s, (*s.shape[:axis_index], 1, *s.shape[axis_index:])) for s in symbols]
    return concat(parts, axis_index)


def _pieces(x: Symbol, sizes: Sequence[Extent], axis: int) -> tuple[Symbol, ...]:
    pieces: list[Symbol] = []
    start: Extent = 0
    whole = x.shape
    for size in sizes:
        starts = tuple([start if a == axis else 0 for a in range(len(whole))])
        stops = tuple([start + size if a == axis else extent for a, extent in enumerate(whole)])
        pieces.append(apply("slice", x, starts=starts, stops=stops, steps=(1,) * len(whole)))
        start = start + size
    return tuple(pieces)


def split(x: TensorLike, sizes: int | Sequence[DimLike], axis: int = 0) -> tuple[Symbol, ...]:
    """Split `x` along `axis` into pieces.

    sizes: the size of each piece (ints or dims; they must sum to the axis), or an int: the number of pieces
    of equal size.
    """
    symbol = symbol_of("split", x)
    with describing("split", symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
        extent = symbol.shape[axis_index]
        if isinstance(sizes, int):
            if isinstance(sizes, bool) or sizes < 1:
                raise ShapeError(f"cannot split into {sizes} pieces", "a positive count, or a list of sizes")
            if isinstance(extent, int) and extent % sizes:
                raise ShapeError(
                    f"axis {axis_index} of size {extent} does not split into {sizes} equal pieces", "a divisor of the size",
                    "give a list of sizes, or use joinery.chunk",
                )  # fmt: skip
            parts: list[Extent] = [extent // sizes] * sizes
        else:
            parts = [as_extent(size, f"split: size {position}") for position, size in enumerate(sizes)]
        total: Extent = sum(parts[1:], parts[0]) if parts else 0
        if symbol.graph.shape_checks.decide(total, extent) is False:
            raise ShapeError(
                f"the sizes sum to {total}, axis {axis_index} has {extent}", "sizes that sum to the axis"
            )
        symbol.graph.shape_checks.add(
            total, extent, f"split: the sizes along axis {axis_index} must sum to {extent}"
        )
    return _pieces(symbol, parts, axis_index)


def chunk(x: TensorLike, chunks: int, axis: int = 0) -> tuple[Symbol, ...]:
    """Split `x` along `axis` into at most `chunks` pieces of ceil(n / chunks) elements.

    The last one may be shorter. A symbolic axis must divide into `chunks` pieces, which is checked at launch.
    """
    symbol = symbol_of("chunk", x)
    with describing("chunk", symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
        if isinstance(chunks, bool) or not isinstance(chunks, int) or chunks < 1:
            raise ShapeError(f"cannot cut into {chunks!r} pieces", "a positive count")
    extent = symbol.shape[axis_index]
    if isinstance(extent, Dim):
        return split(symbol, chunks, axis_index)
    length = max(-(-extent // chunks), 1)
    sizes = [min(length, extent - start) for start in range(0, extent, length)] or [0]
    return _pieces(symbol, sizes, axis_index)


def tile(x: TensorLike, repeats: ShapeLike) -> Symbol:
    """Repeat the whole of `x` `repeats[i]` times along axis i, as numpy.tile.

    Missing entries on the left are 1.
    """
    symbol = symbol_of("tile", x)
    entries = tuple(repeats) if isinstance(repeats, (tuple, list)) else (repeats,)
    counts = [as_extent(count, f"tile: repeats[{position}]") for position, count in enumerate(entries)]
    rank = max(len(counts), len(symbol.shape))
    counts = [*(1,) * (rank - len(counts)), *counts]
    sizes: list[Extent] = [*(1,) * (rank - len(symbol.shape)), *symbol.shape]
    apart: list[Extent] = []
    wide: list[Extent] = []
    for count, extent in zip(counts, sizes, strict=True):
        if count != 1:
            apart.append(1)
            wide.append(count)
        apart.append(extent)
        wide.append(extent)
    spread = primitives.broadcast_to(primitives.reshape(symbol, tuple(apart)), tuple(wide))
    return primitives.reshape(
        spread, tuple([count * extent for count, extent in zip(counts, sizes, strict=True)])
    )


def repeat_interleave(x: TensorLike, repeats: DimLike, axis: int | None = None) -> Symbol:
    """Repeat every element along `axis` `repeats` times in place; None flattens first, as numpy.repeat."""
    symbol = symbol_of("repeat_interleave", x)
    if axis is None:
        symbol, axis = primitives.reshape(symbol, (product(symbol.shape),)), 0
    with describing("repeat_interleave", symbol):
        axis_index = normalize_axis(axis, len(symbol.shape))
    count = as_extent(repeats, "repeat_interleave: repeats")
    before, extent, after = symbol.shape[:axis_index], symbol.shape[axis_index], symbol.shape[axis_index + 1 :]
    apart = primitives.reshape(symbol, (*before, extent, 1, *after))
    wide = primitives.broadcast_to(apart, (*before, extent, count, *after))
    return primitives.reshape(wide, (*before, extent * count, *after))


def roll(x: TensorLike, shift: int | Dim | Sequence[int | Dim], axis: Axis = None) -> Symbol:
    """Move elements by `shift` positions along `axis`, those past the end to the front, as numpy.roll.

    shift: an int or dim, or one per axis. axis: None rolls the flattened elements.
    """
    symbol = symbol_of("roll", x)
    if axis is None:
        flat = primitives.reshape(symbol, (product(symbol.shape),))
        return primitives.reshape(_rolled(flat, _shift(symbol, shift), 0), symbol.shape)
    axes = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    shifts = tuple(shift) if isinstance(shift, (tuple, list)) else (shift,) * len(axes)
    if len(shifts) != len(axes):
        raise mistake(
            "roll", f"{len(shifts)} shifts for {len(axes)} axes", (symbol,), "one per axis", "roll(x, 1, axis=0)"
        )
    for number, count in zip(axes, shifts, strict=True):
        with describing("roll", symbol):
            where = normalize_axis(number, len(symbol.shape))
        symbol = _rolled(symbol, _shift(symbol, count), where)
    return symbol


def _shift(x: Symbol, shift: object) -> int | Dim:
    if isinstance(shift, Dim):
        return shift
    if isinstance(shift, bool) or not hasattr(shift, "__index__"):
        raise mistake("roll", f"the shift is {shift!r}", (x,), "an int or a size", "roll(x, 1, axis=0)")
    return int(shift)


_SHORT_SHIFT = 1 << 20
"""The farthest shift of which the remainder is a size. Launches refuse sizes that may not fit 64 bits, as products with it."""


def _first_of_rolled(extent: Extent, shift: int | Dim) -> Extent | None:
    """Return the position from which on elements come first after a roll; None where it is no size."""
    if at_most(0, shift) and at_most(shift, extent):
        return extent - shift
    if at_most(shift, 0) and at_most(0 - shift, extent):
        return 0 - shift
    if isinstance(shift, int) and abs(shift) <= _SHORT_SHIFT:
        return extent - shift % maximum(extent, 1)
    return None


def _rolled(x: Symbol, shift: int | Dim, axis: int) -> Symbol:
    extent = x.shape[axis]
    if isinstance(extent, int) and isinstance(shift, int):
        count = shift % extent if extent else 0
        return concat(_pieces(x, (extent - count, count), axis)[::-1], axis) if count else x
    start = _first_of_rolled(extent, shift)
    if start is not None and slice_length(start, start + extent, 1) == extent:  # a size that may be below 0 has no such slice
        return _pieces(concat([x, x], axis), (start, extent), axis)[1]
    moved: int | Dim | Symbol = shift
    if isinstance(shift, int) and abs(shift) > 1 << 62:  # a position minus the shift must fit 64 bits
        moved = apply("mod", x.graph.constant(shift, int64), x.graph.as_symbol(maximum(extent, 1)))
    positions = apply("mod", apply("sub", counting(x.graph, extent), moved), x.graph.as_symbol(extent))
    return apply("gather", x, positions, axis=axis)


def pad(x: TensorLike, widths: Widths, mode: str = "constant", value: complex = 0) -> Symbol:
    """Add elements around `x`.

    Args:
        widths: one (before, after) pair per axis, the same as a flat list, or one int for all sides; ints or
            dims >= 0.
        mode: as numpy.pad. "constant" adds `value`, "edge" repeats the border, "reflect" mirrors without repeating the
            border and "symmetric" with it, "wrap" continues with the other end. "reflect" adds fewer elements than an axis
            has; "symmetric" and "wrap" add any number.
        value: a number that fits the dtype of `x`.
    """
    symbol = symbol_of("pad", x)
    rank = len(symbol.shape)
    pairs = _pairs(symbol, widths, rank)
    if mode not in _MODES:
        raise mistake("pad", f"unknown mode {mode!r}", (symbol,), _QUOTED)
    if is_numpy_scalar(value):
        value = number_of(value)
    if not is_scalar(value):
        raise mistake("pad", "the value must be a number", (symbol, value), "a number", "value=0")
    if symbol.dtype.kind in ("bool", "int", "uint") and isinstance(value, float) and value.is_integer():
        value = int(value)
    if mode == "constant":
        check_literal(value, symbol.dtype, "pad")
    low = tuple([_width(before, axis) for axis, (before, _) in enumerate(pairs)])
    high = tuple([_width(after, axis) for axis, (_, after) in enumerate(pairs)])
    if mode == "constant" and not any(isinstance(w, Dim) or w for w in (*low, *high)):
        return symbol
    if mode in _PERIODIC:
        return continued(symbol, list(zip(low, high, strict=True)), mode)
    return apply("pad", symbol, low=low, high=high, mode=mode, value=value)


_PERIODIC = ("wrap", "symmetric")
_MODES = ("constant", "edge", "reflect", *_PERIODIC)
_QUOTED = ", ".join([f'"{mode}"' for mode in _MODES])


def continued(x: Symbol, pairs: Sequence[tuple[Extent, Extent]], mode: str) -> Symbol:
    """Pad each axis in turn with its own elements: again from the other end ("wrap"), or as a mirror that repeats the border
    ("symmetric"). A launch checks that symbolic axes have elements, and that symbolic widths are 0 or more."""
    for axis, (before, after) in enumerate(pairs):
        if before == 0 and after == 0:
            continue
        extent = x.shape[axis]
        for width in (before, after):
            if isinstance(width, int) and width < 0:
                problem = f"the pad width {width} on axis {axis} is negative"
                raise mistake("pad", problem, (x,), "widths of 0 or more", "slice instead")
            require_at_most(x.graph, 0, width, f"pad: the width {width} must not be negative")
        if extent == 0:
            problem = f"axis {axis} is empty, mode {mode!r} has nothing to repeat"
            raise mistake("pad", problem, (x,), f"elements on axis {axis}", 'use mode="constant"')
        some = f"pad: axis {axis} must not be empty in mode {mode!r}"
        require_at_most(x.graph, minimum(before + after, 1), extent, some)
        if isinstance(extent, int) and at_most(before, extent) and at_most(after, extent):
            x = _joined_ends(x, before, after, axis, mode)
        else:
            x = apply("gather", x, _periodic(x.graph, extent, before, after, mode), axis=axis)
    return x


def _joined_ends(x: Symbol, before: Extent, after: Extent, axis: int, mode: str) -> Symbol:
    extent = x.shape[axis]
    first, last = _pieces(x, (after, extent - after), axis)[0], _pieces(x, (extent - before, before), axis)[1]
    if mode == "symmetric":
        first, last = _pieces(x, (before, extent - before), axis)[0], _pieces(x, (extent - after, after), axis)[1]
        first, last = apply("flip", last, axes=(axis,)), apply("flip", first, axes=(axis,))
    ends = ((last, before), (x, extent), (first, after))
    return concat([piece for piece, width in ends if width != 0], axis)


def _periodic(graph: Graph, extent: Extent, before: Extent, after: Extent, mode: str) -> Symbol:
    """Return which elements of an axis lie at its positions from -before to extent + after: a period is the axis itself, or
    the axis and its mirror image."""
    counted = apply("sub", counting(graph, before + extent + after), before)
    if mode == "wrap":
        return apply("mod", counted, extent)
    position = apply("mod", counted, extent * 2)
    return apply("minimum", position, apply("sub", extent * 2 - 1, position))


def cropped(
    x: Symbol, low: Sequence[Extent], high: Sequence[Extent], checked: bool = False
) -> tuple[Symbol, list[tuple[Extent, Extent]]]:
    """Remove what negative widths remove, and return the result with the widths of the constant to put around it.

    Element i of an axis so padded is x[i - low], or the constant where `x` has none. A width may remove more than there is
    if the other one adds as much. checked: whether a launch refuses symbolic sizes of which less than nothing remains.
    """
    removed: list[tuple[Extent, Extent]] = [(0, 0)] * len(x.shape)
    pairs = list(zip(low, high, strict=True))
    for axis, (extent, (before, after)) in enumerate(zip(x.shape, pairs, strict=True)):
        if at_most(0, before) and at_most(0, after):
            continue
        if at_most(before, 0) and at_most(after, 0):
            removed[axis], pairs[axis] = (before * -1, after * -1), (0, 0)
            continue
        size = extent + before + after
        if isinstance(size, int) and size < 0:
            raise _nothing_left(x, axis, before, after)
        start = minimum(maximum(before * -1, 0), extent)
        stop = maximum(minimum(extent + after, extent), start)
        width = minimum(maximum(before, 0), size)
        removed[axis], pairs[axis] = (start, extent - stop), (width, size - width - (stop - start))
    return without_ends(x, removed, checked), pairs


def without_ends(x: Symbol, removed: Sequence[tuple[Extent, Extent]], checked: bool) -> Symbol:
    """Remove elements from both ends of each axis, no more than there are: a reshape makes launches check it."""
    for axis, (before, after) in enumerate(removed):
        left = x.shape[axis] - before - after
        if isinstance(left, int) and left < 0:
            raise _nothing_left(x, axis, before * -1, after * -1)
    stops = [extent - after for extent, (_, after) in zip(x.shape, removed, strict=True)]
    if all(before == 0 and after == 0 for before, after in removed):
        return x
    rest = tuple([stop - before for stop, (before, _) in zip(stops, removed, strict=True)])
    inner = apply("slice", x, starts=tuple([before for before, _ in removed]), stops=tuple(stops), steps=(1,) * len(stops))
    return inner if inner.shape == rest or not checked else apply("reshape", inner, shape=rest)


def _nothing_left(x: Symbol, axis: int, before: Extent, after: Extent) -> UserError:
    problem = f"widths {before} and {after} remove more than axis {axis} has"
    return mistake("pad", problem, (x,), "0 elements or more to remain", "remove fewer")


def _width(value: DimLike, axis: int) -> Extent:
    """Return a pad width; negative ones are left to the shape rule, whose error names the operand."""
    return value if type(value) is int else as_extent(value, f"pad: axis {axis}")


def _pairs(x: Symbol, widths: Any, rank: int) -> list[tuple[DimLike, DimLike]]:
    if isinstance(widths, (int, Dim)):
        return [(widths, widths)] * rank
    entries = list(widths) if hasattr(widths, "__iter__") else [widths]
    nested = [isinstance(entry, (tuple, list)) or getattr(entry, "ndim", 0) == 1 for entry in entries]
    if all(nested) and len(entries) == rank and all(len(entry) == 2 for entry in entries):
        return [(before, after) for before, after in entries]
    if not any(nested) and len(entries) == 2 * rank:
        return list(zip(entries[::2], entries[1::2], strict=True))
    raise mistake(
        "pad",
        f"widths {widths!r} do not fit {rank} axes",
        (x,),
        "one (before, after) pair per axis",
        "pad(x, [(1, 1), (0, 0)])",
    )
