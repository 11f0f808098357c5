"""Finds losses of classifications, of log probabilities or of scores."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from .....promotion.dtype import int32, int64
from ....functions.networks.losses import cross_entropy, nll_loss
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .composed import Composed

_DTYPES = ("float32", "float64")
_MAX_STEPS = 8


def loss(
    root: Symbol, graph: Graph, consumers: Mapping[int, Sequence[Symbol]], taken: Container[int]
) -> Composed | None:
    """Return the node of a loss, and of the logarithms of softmax if these are read elsewhere. taken: ids of other results."""
    if root.dtype.name not in _DTYPES:
        return None
    reduction = "mean" if root.op.name in ("mean", "div") else "sum" if root.op.name == "reduce_sum" else "none"
    chosen, factors, ignored = _parts(root, reduction)
    if chosen is None or chosen.attrs["axis"] != 1 or len(chosen.inputs[0].shape) < 2:
        return None
    value, at = chosen.inputs
    index = None
    if ignored is not None:
        number = ignored.inputs[1]
        if ignored.op.name != "equal" or number.op.name != "constant" or number.shape:
            return None
        index = int(number.attrs["value"])
    target = _target(at)
    if target is None:
        return None
    weights = (None,) if factors is None else (factors,)
    rest = [each for each in weights if each is not None]
    scores = value.inputs[0] if value.op.name == "logsoftmax" and value.attrs["axis"] == 1 else None
    is_read = len(consumers.get(value.id, ())) > 1 or any([value is each for each in graph.outputs])
    if is_read and (value.id in taken or any([each.id > value.id for each in (target, *rest)])):
        scores = None
    for x, function in ((scores, cross_entropy), (value, nll_loss)):
        if x is None:
            continue

        def make(_: Graph, given: Symbol, classes: Symbol, *weight: Symbol, function: Any = function) -> Symbol:
            made: Symbol = function(given, classes, *(weight or (None,)), index, reduction)
            return made

        if found_among(graph, make, (x, target, *rest), (root,)) is None:
            continue
        attributes: dict[str, Any] = {"reduction": reduction, **({} if index is None else {"ignore_index": index})}
        if function is cross_entropy and 0 in x.shape:
            continue  # onnxruntime refuses losses of nothing
        if function is nll_loss:
            return Composed("NegativeLogLikelihoodLoss", (x, target, factors), ((root,),), attributes, {})
        results = ((root,), (value,)) if is_read else ((root,),)
        return Composed("SoftmaxCrossEntropyLoss", (x, target, factors), results, attributes, {})
    return None


def _parts(root: Symbol, reduction: str) -> tuple[Symbol | None, Symbol | None, Symbol | None]:
    """Return where elements are chosen, the weights of classes, and which elements are ignored."""
    each, factors, ignored = root, None, None
    for _ in range(_MAX_STEPS):
        row = each.op.name
        if row == "take_along_axis":
            return each, factors, ignored
        if row == "where" and ignored is None:
            ignored, each = each.inputs[0], each.inputs[2]
        elif row == "mul" and factors is None and each.inputs[1].op.name == "gather":
            factors, each = each.inputs[1].inputs[0], each.inputs[0]
        elif row in ("div", "mean", "reduce_sum", "negate", "reshape") and each.inputs:
            each = each.inputs[0]
        else:
            break
    return None, None, None


def _target(at: Symbol) -> Symbol | None:
    """Return the classes of which positions are made, before they are integers of 64 bits if they were of 32."""
    if at.op.name != "reshape":
        return None
    which = at.inputs[0]
    if which.op.name == "where":
        which = which.inputs[2]
    if which.op.name == "cast" and which.inputs[0].dtype is int32:
        return which.inputs[0]
    return which if which.dtype is int64 else None
