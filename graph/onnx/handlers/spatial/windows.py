"""Computes where the windows of convolutions and poolings lie, and takes their taps apart: one strided slice for each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from collections.abc import Sequence as Ordered

from .....promotion.dataclass import dataclass
from ....dims.dim import Extent, ceil_div, maximum, minimum
from ....functions.building import apply
from ....functions.spatial.convolution import around
from ....symbol import Symbol
from ....types import Shape
from ...node import Node


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows over the spatial axes, which come after batch and channels.

    Attributes:
        low, high: padding, as the model states it.
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


def per_axis(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """Return positive numbers, one for each spatial axis, by default 1."""
    numbers = tuple(node.attr(name, None) or (1,) * rank)
    node.require(
        len(numbers) == rank and all(number > 0 for number in numbers), f"{name} {list(numbers)} for {rank} spatial axes"
    )
    return numbers


def kernel_span(kernel: Ordered[int], dilations: Ordered[int]) -> tuple[int, ...]:
    """Return how many elements a window reaches over."""
    return tuple([(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)])


def padding(node: Node, rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the explicit padding before and after, which may not be negative."""
    pads = tuple(node.attr("pads", None) or (0,) * (2 * rank))
    node.require(len(pads) == 2 * rank and all(pad >= 0 for pad in pads), f"pads {list(pads)} for {rank} spatial axes")
    return pads[:rank], pads[rank:]


def windows(node: Node, spatial: Shape, kernel: Ordered[int]) -> Windows:
    """Return the windows that the attributes of a node describe."""
    rank = len(spatial)
    node.require(len(kernel) == rank and all(size > 0 for size in kernel), f"a kernel {list(kernel)} for {rank} spatial axes")
    node.require(math.prod(kernel) <= node.limits.unrolled_nodes, f"a kernel of {math.prod(kernel)} taps", "a smaller kernel")
    strides, dilations = per_axis(node, "strides", rank), per_axis(node, "dilations", rank)
    before, after = padding(node, rank)
    mode, ceils = node.attr("auto_pad", "NOTSET"), node.attr("ceil_mode", 0)
    node.require(mode in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"), f"auto_pad {mode!r}")
    low, high, sizes = [], [], []
    for axis, (extent, span, stride) in enumerate(zip(spatial, kernel_span(kernel, dilations), strides, strict=True)):
        first: Extent = before[axis] if mode == "NOTSET" else 0
        last: Extent = after[axis] if mode == "NOTSET" else 0
        if mode.startswith("SAME"):
            count = ceil_div(extent, stride)
            total = maximum((count - 1) * stride + span - extent, 0)
            first = total // 2 if mode == "SAME_UPPER" else total - total // 2
            last = total - first
        else:
            reach = extent + first + last - span
            count = (ceil_div(reach, stride) if ceils else reach // stride) + 1
            if ceils:  # a window that would begin in the padding at the end is dropped
                count = minimum(count, ceil_div(extent + first, stride))
        node.require(not isinstance(count, int) or count > 0 or extent == 0, f"a window of {span} elements over {extent}")
        low.append(first)
        high.append(last)
        sizes.append(maximum(count, 0) if isinstance(count, int) else count)
    return Windows(tuple(kernel), strides, dilations, tuple(low), tuple(high), tuple(sizes))


def padded(x: Symbol, over: Windows, value: float, first: int = 2) -> Symbol:
    """Pad the spatial axes, which begin at `first`, so that every window lies inside."""
    spatial = x.shape[first : first + len(over.kernel)]
    spans = kernel_span(over.kernel, over.dilations)
    high = [
        maximum((count - 1) * stride + span - extent - low, 0)
        for count, stride, span, extent, low in zip(over.sizes, over.strides, spans, spatial, over.low, strict=True)
    ]
    return around(x, over.low, high, value, first)


def tap(x: Symbol, over: Windows, position: Ordered[int]) -> Symbol:
    """Return, for one position in the window, its element of each window of a padded tensor."""
    starts: list[Extent] = [0, 0]
    stops: list[Extent] = list(x.shape[:2])
    for count, stride, dilation, offset in zip(over.sizes, over.strides, over.dilations, position, strict=True):
        starts.append(offset * dilation)
        stops.append(offset * dilation + (count - 1) * stride + 1 if count != 0 else offset * dilation)
    whole = all(start == 0 for start in starts) and tuple(stops) == x.shape and all(stride == 1 for stride in over.strides)
    return x if whole else apply("slice", x, starts=tuple(starts), stops=tuple(stops), steps=(1, 1, *over.strides))


def along(x: Symbol, over: Windows, axis: int, offset: int) -> Symbol:
    """Return, for one position along one spatial axis, its element of each window; other axes stay whole."""
    count, stride, dilation = over.sizes[axis], over.strides[axis], over.dilations[axis]
    starts: list[Extent] = [0] * len(x.shape)
    stops: list[Extent] = list(x.shape)
    steps = [1] * len(x.shape)
    starts[axis + 2], steps[axis + 2] = offset * dilation, stride
    stops[axis + 2] = offset * dilation + (count - 1) * stride + 1 if count != 0 else offset * dilation
    return apply("slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def spread(x: Symbol, strides: Ordered[int]) -> Symbol:
    """Insert stride - 1 zeros between the elements of the spatial axes."""
    if all(stride == 1 for stride in strides):
        return x
    lead, spatial = x.shape[:2], x.shape[2:]
    apart = x.reshape((*lead, *(size for extent in spatial for size in (extent, 1))))
    high = (0, 0, *(width for stride in strides for width in (0, stride - 1)))
    filled = apply("pad", apart, low=(0,) * len(high), high=high, mode="constant", value=0.0 if x.dtype.is_float else 0)
    wide = filled.reshape((*lead, *(extent * stride for extent, stride in zip(spatial, strides, strict=True))))
    stops = (*lead, *((extent - 1) * stride + 1 for extent, stride in zip(spatial, strides, strict=True)))
    return apply("slice", wide, starts=(0,) * len(stops), stops=stops, steps=(1,) * len(stops))
