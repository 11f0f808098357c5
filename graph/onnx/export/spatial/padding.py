"""Finds the attributes of a convolution or pooling, `pads` or `auto_pad`, from how wide an image was padded.

An image is padded as far as its windows reach. Where a size is symbolic, that is an expression of it, and the numbers that a
model states are those from which the importer computes the same number of windows and the same widths.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from .....promotion.dataclass import dataclass
from ....dims.dim import Extent, ceil_div, maximum, minimum
from ....symbol import Symbol

Widths: TypeAlias = tuple[tuple[Extent, Extent], ...]
"""Padding before and after, along each axis of space."""


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
    pairs = [_pair(line, False) for line in lines]
    if all(pair is not None for pair in pairs):
        return {"pads": _pads(pairs)}
    for mode in ("SAME_UPPER", "SAME_LOWER"):
        if all(_is_same(line, mode) for line in lines):
            return {"auto_pad": mode}
    if may_round_up:
        pairs = [_pair(line, True) for line in lines]
        if all(pair is not None for pair in pairs):
            return {"pads": _pads(pairs), "ceil_mode": 1}
    return None


def _pads(pairs: Sequence[tuple[int, int] | None]) -> tuple[int, ...]:
    known = [pair for pair in pairs if pair is not None]
    return (*[low for low, _ in known], *[high for _, high in known])


def _pair(line: Line, rounds_up: bool) -> tuple[int, int] | None:
    if not isinstance(line.low, int):
        return None
    for high in _candidates(line):
        reach = line.extent + line.low + high - line.span
        if rounds_up:  # a window that would begin in the padding at the end is dropped
            count = minimum(ceil_div(reach, line.stride) + 1, ceil_div(line.extent + line.low, line.stride))
        else:
            count = reach // line.stride + 1
        if _positive(count) == line.count and line.high in (high, _width(line)):
            return line.low, high
    return None


def _candidates(line: Line) -> Iterator[int]:
    if isinstance(line.high, int):
        yield line.high
    if isinstance(line.low, int):
        yield line.low
    yield from range(min(line.span, 64))


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
