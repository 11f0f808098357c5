"""Reads where the windows of convolutions and poolings lie from the attributes of a node."""

from __future__ import annotations

import math
from collections.abc import Sequence as Ordered

from ....dims.dim import Extent, ceil_div, maximum, minimum
from ....functions.spatial.geometry import Windows, kernel_span
from ....types import Shape
from ...node import Node


def per_axis(node: Node, name: str, rank: int) -> tuple[int, ...]:
    """Return positive numbers, one for each spatial axis, by default 1."""
    numbers = tuple(node.attr(name, None) or (1,) * rank)
    node.require(
        len(numbers) == rank and all(number > 0 for number in numbers), f"{name} {list(numbers)} for {rank} spatial axes"
    )
    return numbers


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
