"""Handles operators whose sizes the values decide; of constants they are computed while importing."""

from __future__ import annotations

import numpy as np

from .....promotion.dtype import int64
from ....functions.building import apply
from ....functions.host.data_sized import image_decode, non_max_suppression, nonzero, unique
from ....functions.ordered.searching import searchsorted
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles
from ...values import Known

_ALL = (1 << 31) - 1
"""As many boxes of a class as nobody has."""


@handles("Compress")
def compress(node: Node) -> Result:
    """Keep the slices of an axis, or elements of all, for which a condition holds."""
    x = node[0]
    axis = node.attr("axis", None)
    if axis is None:
        x, axis = x.reshape((-1,)), 0
    axis = node.axis(axis, len(x.shape))
    extent, condition = x.shape[axis], node.value(1)
    if isinstance(condition, Known):
        kept = np.flatnonzero(node.known(1, "the condition of Compress"))
        node.require(
            not kept.size or not isinstance(extent, int) or int(kept[-1]) < extent, "the condition is longer than the axis"
        )
        return apply("gather", x, node.constant(kept, int64), axis=axis)
    mask = node[1].reshape((-1,))
    covered = x[(*(slice(None),) * axis, slice(0, mask.shape[0]))] if mask.shape[0] != extent else x
    return apply("gather", covered, nonzero(mask)[0], axis=axis)


@handles("NonZero", structural=True)
def non_zero(node: Node) -> Result:
    """Return the positions of what is not zero."""
    if isinstance(node.value(0), Known):
        array = node.known(0, "the operand of NonZero")
        return Known(np.array(np.nonzero(array), np.int64).reshape(array.ndim, -1))
    return nonzero(node[0])


@handles("Unique")
def distinct(node: Node) -> Result:
    """Return distinct elements or slices, where each is first, which one each is, and counts."""
    axis = node.attr("axis", None)
    return unique(node[0], None if axis is None else node.axis(axis, len(node[0].shape)), bool(node.attr("sorted", 1)))


@handles("NonMaxSuppression")
def suppression(node: Node) -> Result:
    """Select the boxes of each class that overlap no better one."""
    boxes, scores, centered = node[0], node[1], bool(node.attr("center_point_box", 0))
    iou = node.number(3, "iou_threshold") if node.has(3) else 0.0
    least, most = (_computed(node, 4, "score_threshold"), _computed(node, 2, "max_output_boxes_per_class"))
    score = float("-inf")
    if least is not None:
        scores = apply("where", apply("greater", scores, least.cast(scores.dtype)), scores, float("-inf"))
    elif node.has(4):
        score = node.number(4, "score_threshold")
    if most is None:
        limit = node.integer(2, "max_output_boxes_per_class") if node.has(2) else 0
        return non_max_suppression(boxes, scores, max(limit, 0), iou, score, centered)
    found = non_max_suppression(boxes, scores, _ALL, iou, score, centered)
    kind = apply("add", apply("mul", found[:, 0], node.graph.dim_value(scores.shape[1])), found[:, 1])
    position = apply("sub", counting(found.graph, found.shape[0]), searchsorted(kind, kind))  # among the boxes of its class
    return apply("gather", found, nonzero(apply("less", position, most.cast(int64)))[0], axis=0)


def _computed(node: Node, position: int, what: str) -> Symbol | None:
    """Return a number that data inside the model decides; None for others, to which a model is specialised."""
    value = node.value(position) if node.has(position) else None
    if not isinstance(value, Symbol):
        return None
    error = node.needed(value, what)
    if getattr(error, "inputs", ()) or getattr(error, "sizes", ()) or value.size != 1:
        return None
    return value.reshape(())


@handles("ImageDecoder")
def decoder(node: Node) -> Result:
    """Decode the bytes of a picture."""
    return image_decode(node[0], node.attr("pixel_format"))
