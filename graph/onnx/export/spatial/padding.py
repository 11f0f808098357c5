"""Finds the attributes of a convolution or pooling, `pads` or `auto_pad`, from how wide an image was padded.

An image is padded as far as its windows reach. Where a size is symbolic, that is an expression of it, and the numbers that a
model states are those from which the importer computes the same number of windows and the same widths.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from .....promotion.dataclass import dataclass
from ....dims.dim import Extent, ceil_div, maximum, minimum
from ....symbol import Symbol

Widths: TypeAlias = tuple[tuple[Extent, Extent], ...]
"""Padding before and after, along each axis of space."""
MAX_SPAN = 64
"""How far padding that is looked for may reach."""
MAX_PADDINGS = 32
"""Combinations of paddings that are tried."""


@dataclass(frozen=True, slots=True)
class Line:
    """The windows along one axis of space: of how many elements, and how many windows of what reach."""

    extent: Extent
    count: Extent
    span: int
    stride: int
    low: Extent
    high: Extent


def unpadded(x: Symbol, value: float, channels: int) -> tuple[Symbol, Widths]:
    """Return what `x` pads with `value` in space, and the widths; `x` itself with none otherwise.

    channels: the axis of channels, 1 or the last one; the other axes but the first are those of space.
    """
    rank = len(x.shape)
    space = [axis for axis in range(1, rank) if axis != channels % rank]
    none: Widths = ((0, 0),) * len(space)
    if x.op.name != "pad" or x.attrs["mode"] != "constant" or x.attrs["value"] != value:
        return x, none
    low, high = x.attrs["low"], x.attrs["high"]
    if any(low[axis] != 0 or high[axis] != 0 for axis in range(rank) if axis not in space):
        return x, none
    if any(isinstance(width, int) and width < 0 for width in (*low, *high)):
        return x, none
    return x.inputs[0], tuple([(low[axis], high[axis]) for axis in space])


def stated(lines: Sequence[Line], may_round_up: bool) -> dict[str, Any] | None:
    """Return `pads`, with `ceil_mode` where the count of windows is rounded up, or `auto_pad`; None if there are none."""
    return next(all_stated(lines, may_round_up), None)


def all_stated(lines: Sequence[Line], may_round_up: bool) -> Iterator[dict[str, Any]]:
    """Yield what `stated` returns, and what else may be stated of windows that lie there."""
    yield from ({"pads": pads} for pads in _pads(lines, False))
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        if all(_is_same(line, mode) for line in lines):
            yield {"auto_pad": mode}
    if may_round_up:
        yield from ({"pads": pads, "ceil_mode": 1} for pads in _pads(lines, True))


def is_inferred(line: Line, high: int) -> bool:
    """Return whether ONNX infers as many windows, rounded up: of known sizes it counts some that begin in the padding."""
    if not (isinstance(line.extent, int) and isinstance(line.low, int)):
        return True
    return -(-(line.extent + line.low + high - line.span) // line.stride) + 1 == line.count


def _pads(lines: Sequence[Line], rounds_up: bool) -> Iterator[tuple[int, ...]]:
    choices = [list(_pairs(line, rounds_up)) for line in lines]
    for pairs in itertools.islice(itertools.product(*choices), MAX_PADDINGS):
        yield (*[low for low, _ in pairs], *[high for _, high in pairs])


def _pairs(line: Line, rounds_up: bool) -> Iterator[tuple[int, int]]:
    if not isinstance(line.low, int):
        return
    for high in dict.fromkeys(_candidates(line)):
        reach = line.extent + line.low + high - line.span
        if rounds_up:  # a window that would begin in the padding at the end is dropped
            count = minimum(ceil_div(reach, line.stride) + 1, ceil_div(line.extent + line.low, line.stride))
        else:
            count = reach // line.stride + 1
        if _positive(count) != line.count or line.high not in (high, _width(line)):
            continue
        if not rounds_up or is_inferred(line, high):
            yield line.low, high


def _candidates(line: Line) -> Iterator[int]:
    if isinstance(line.high, int):
        yield line.high
    if isinstance(line.low, int):
        yield line.low
    yield from range(min(line.span, MAX_SPAN))


def _is_same(line: Line, mode: str) -> bool:
    count = ceil_div(line.extent, line.stride)
    total = maximum((count - 1) * line.stride + line.span - line.extent, 0)
    low = total // 2 if mode == "SAME_UPPER" else total - total // 2
    return count == line.count and low == line.low and _width(line) == line.high


def _width(line: Line) -> Extent:
    """Return how far windows reach beyond the end of an axis."""
    return maximum((line.count - 1) * line.stride + line.span - line.extent - line.low, 0)


def _positive(count: Extent) -> Extent:
    return max(count, 0) if isinstance(count, int) else count
