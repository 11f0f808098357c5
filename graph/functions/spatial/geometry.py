"""Computes where the windows of convolutions and poolings lie: the arguments they share, padding, strides, and single taps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ....promotion.dataclass import dataclass
from ...dims.dim import Extent, maximum
from ...errors import mistake
from ...symbol import Symbol
from ..building import apply
from ..joining import cropped

PerAxis = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]


def numbers_per_axis(
    op: str, operands: Sequence[Symbol], name: str, numbers: PerAxis, rank: int, least: int = 1
) -> tuple[int, ...]:
    """Return one number for each spatial axis, where one may stand for all. Raises `UserError` for numbers below `least`."""
    found = (numbers,) * rank if isinstance(numbers, int) else tuple(numbers)
    if len(found) != rank or any(type(number) is not int or number < least for number in found):
        raise mistake(op, f"{name} {numbers}", operands, f"{least} or more, once or for each of {rank} axes", f"{name}={least}")
    return found


def padding_pairs(op: str, operands: Sequence[Symbol], padding: Padding, rank: int) -> list[tuple[int, int]]:
    """Return how much is added before and after each spatial axis."""
    given: list[int | tuple[int, int]] = [padding] * rank if isinstance(padding, int) else list(padding)
    pairs = [(each, each) if isinstance(each, int) else each for each in given]
    if len(pairs) != rank or any(len(pair) != 2 or min(pair) < 0 for pair in pairs):
        expected = f"0 or more, once, for each of {rank} axes, or as (before, after) pairs"
        raise mistake(op, f"padding {padding}", operands, expected, "padding=0")
    return [(pair[0], pair[1]) for pair in pairs]


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over the spatial axes of a tensor, which lie side by side.

    Attributes:
        low, high: padding, as it is stated.
        sizes: how many windows there are along each axis; the last may reach beyond the padding.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[Extent, ...]
    high: tuple[Extent, ...]
    sizes: tuple[Extent, ...]

    @property
    def taps(self) -> Iterator[tuple[int, ...]]:
        """The positions in a window, in row-major order."""
        return itertools.product(*[range(size) for size in self.kernel])


def kernel_span(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Return how many elements a window reaches over."""
    return tuple([(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)])


def around(x: Symbol, low: Sequence[Extent], high: Sequence[Extent], value: float, first: int = 2) -> Symbol:
    """Pad the axes of a tensor from `first` on; negative numbers remove elements."""
    rest = (0,) * (len(x.shape) - len(low) - first)
    low, high = ((*(0,) * first, *widths, *rest) for widths in (low, high))
    x, pairs = cropped(x, low, high)
    if all(width == 0 for pair in pairs for width in pair):
        return x
    before, after = zip(*pairs, strict=True)
    number = value if x.dtype.is_float else int(value)
    return apply("pad", x, low=before, high=after, mode="constant", value=number)


def padded(x: Symbol, over: Windows, value: float, first: int = 2) -> Symbol:
    """Pad the spatial axes, which begin at `first`, so that every window lies inside."""
    spatial = x.shape[first : first + len(over.kernel)]
    spans = kernel_span(over.kernel, over.dilations)
    high = [
        maximum((count - 1) * stride + span - extent - low, 0)
        for count, stride, span, extent, low in zip(over.sizes, over.strides, spans, spatial, over.low, strict=True)
    ]
    return around(x, over.low, high, value, first)


def tap(x: Symbol, over: Windows, position: Sequence[int], first: int = 2) -> Symbol:
    """Return, for one position in the window, its element of each window of a padded tensor."""
    rank = len(over.kernel)
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    for axis, count, stride, dilation, offset in zip(
        range(first, first + rank), over.sizes, over.strides, over.dilations, position, strict=True
    ):
        starts[axis], steps[axis] = offset * dilation, stride
        stops[axis] = offset * dilation + (count - 1) * stride + 1 if count != 0 else offset * dilation
    whole = not any(starts) and tuple(stops) == x.shape and all(stride == 1 for stride in over.strides)
    return x if whole else apply("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def along(x: Symbol, over: Windows, axis: int, offset: int, first: int = 2) -> Symbol:
    """Return, for one position along one spatial axis, its element of each window; other axes stay whole."""
    count, stride, dilation = over.sizes[axis], over.strides[axis], over.dilations[axis]
    starts, stops, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    starts[axis + first], steps[axis + first] = offset * dilation, stride
    stops[axis + first] = offset * dilation + (count - 1) * stride + 1 if count != 0 else offset * dilation
    return apply("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def spread(x: Symbol, strides: Sequence[int], first: int = 2) -> Symbol:
    """Insert stride - 1 zeros between the elements of the axes from `first` on, as many as there are strides."""
    if all(stride == 1 for stride in strides):
        return x
    lead, spatial, rest = x.shape[:first], x.shape[first : first + len(strides)], x.shape[first + len(strides) :]
    apart = apply("reshape", x, shape=(*lead, *(size for extent in spatial for size in (extent, 1)), *rest))
    gaps = [width for stride in strides for width in (0, stride - 1)]
    high = (*(0,) * len(lead), *gaps, *(0,) * len(rest))
    filled = apply("pad", apart, low=(0,) * len(high), high=high, mode="constant", value=0.0 if x.dtype.is_float else 0)
    wide = (*lead, *(extent * stride for extent, stride in zip(spatial, strides, strict=True)), *rest)
    flat = apply("reshape", filled, shape=wide)
    ends = [extent * stride - (stride - 1) for extent, stride in zip(spatial, strides, strict=True)]
    stops = (*lead, *[0 if extent == 0 else end for extent, end in zip(spatial, ends, strict=True)], *rest)
    return apply("slice", flat, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
