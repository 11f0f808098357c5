"""Handles losses of classifications."""

from __future__ import annotations

from ....functions.activations import logsoftmax
from ....functions.networks.losses import cross_entropy, nll_loss
from ...node import Node, Result
from ...registry import handles

_REDUCTIONS = ("none", "sum", "mean")


def _options(node: Node) -> tuple[int | None, str]:
    """Return the class that does not count, and the reduction."""
    reduction, ignored = node.attr("reduction"), node.attr("ignore_index", None)
    node.require(reduction in _REDUCTIONS, f"reduction {reduction!r}", f"one of {', '.join(_REDUCTIONS)}")
    rank, classes = len(node.shape(0)), len(node.shape(1))
    node.require(rank >= 2 and classes == rank - 1, f"{rank} axes of scores, {classes} of classes; (N, C, …) and (N, …)")
    return None if ignored is None else int(ignored), reduction


@handles("NegativeLogLikelihoodLoss")
def negative_log_likelihood(node: Node) -> Result:
    """Choose the log probabilities of classes, weigh, and reduce them."""
    ignored, reduction = _options(node)
    return nll_loss(node[0], node[1], node.get(2), ignored, reduction)


@handles("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(node: Node) -> Result:
    """Take the loss of scores, and their log probabilities if these are wanted."""
    ignored, reduction = _options(node)
    x, classes, weights = node[0], node[1], node.get(2)
    if not node.wants(1):
        return cross_entropy(x, classes, weights, ignored, reduction)
    logarithms = logsoftmax(x, 1)
    if x.dtype.bits >= 32:
        return nll_loss(logarithms, classes, weights, ignored, reduction), logarithms
    return cross_entropy(x, classes, weights, ignored, reduction), logarithms  # which rounds once
