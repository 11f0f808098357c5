"""Defines losses of classifications: `nll_loss` of log probabilities, `cross_entropy` of scores."""

from __future__ import annotations

from ....promotion.dtype import int64
from ...construction import primitives
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..activations import logsoftmax
from ..building import apply
from ..reductions import mean, sum_


def nll_loss(
    x: TensorLike, target: TensorLike, weight: TensorLike | None = None, ignore_index: int | None = None,
    reduction: str = "mean", axis: int = 1,
) -> Symbol:  # fmt: skip
    """Return the negative log likelihood of classes, -weight[target] · x[target]: ONNX's NegativeLogLikelihoodLoss.

    Args:
        x: (N, C, …), log probabilities of C classes; integers become the rule set's default float.
        target: (N, …), integers: the class of each. Those out of range are clamped.
        weight: (C,), a weight for each class; None for 1. It joins with x in a float dtype, the result's.
        ignore_index: the class of elements that do not count; it need not be in range.
        reduction: "none" for the shape of `target`, "sum", or "mean", which divides by the sum of the weights that count (NaN
            where none does).
        axis: that of the classes.

    16-bit floats are computed in float32 and rounded once. Raises `UserError` for targets of other axes or dtypes.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", 3), "x"), jn.TensorType(jn.int64, ("n",), "target")])
        >>> jn.nll_loss(*g.inputs).shape
        ()
    """
    return _loss("nll_loss", x, target, weight, ignore_index, reduction, axis, False)


def cross_entropy(
    x: TensorLike, target: TensorLike, weight: TensorLike | None = None, ignore_index: int | None = None,
    reduction: str = "mean", axis: int = 1,
) -> Symbol:  # fmt: skip
    """Return `nll_loss` of logsoftmax(x) over the classes: as ONNX's SoftmaxCrossEntropyLoss and torch's cross_entropy.

    The arguments are those of `nll_loss`, of scores (logits) instead of log probabilities.

    Example:
        >>> g = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "h", 3), "x"), jn.TensorType(jn.int64, ("n", "h"), "target")])
        >>> jn.cross_entropy(*g.inputs, reduction="none", axis=-1).shape
        (Dim('n'), Dim('h'))
    """
    return _loss("cross_entropy", x, target, weight, ignore_index, reduction, axis, True)


def _loss(
    op: str, x: TensorLike, target: TensorLike, weight: TensorLike | None, ignore_index: int | None, reduction: str, axis: int,
    of_scores: bool,
) -> Symbol:  # fmt: skip
    given = [x] if weight is None else [x, weight]
    graph = graph_of(op, *given, target)
    joined = graph.promoted(op, given, "sqrt" if weight is None else "div")
    result = joined[0].dtype
    value, *factors = [primitives.cast(each, accumulator(result)) for each in joined]
    classes = graph.as_symbol(target, op)
    operands = (*joined, classes)
    with describing(op, value):
        where = normalize_axis(axis, len(value.shape))
    shape = (*value.shape[:where], *value.shape[where + 1 :])
    fits = len(classes.shape) == len(shape) and all(
        graph.shape_checks.decide(one, other) is not False for one, other in zip(classes.shape, shape, strict=True)
    )
    if not classes.dtype.is_integer or not fits:
        what = f"targets {classes.dtype} {shape_text(classes.shape)} for {shape_text(value.shape)}, classes on axis {where}"
        raise mistake(op, what, operands, f"integers {shape_text(shape)}", "target.cast(int64), or another axis=")
    with describing(op, *operands):
        for one, other in zip(classes.shape, shape, strict=True):
            graph.shape_checks.require_equal(one, other, "the shape of targets")
    if factors and (len(factors[0].shape) != 1 or graph.shape_checks.decide(factors[0].shape[0], value.shape[where]) is False):
        what = f"weights {shape_text(factors[0].shape)} of {value.shape[where]} classes"
        raise mistake(op, what, operands, f"({value.shape[where]},)", "weight=None")
    if reduction not in ("none", "sum", "mean"):
        raise mistake(op, f"reduction is {reduction!r:.40}", operands, "none, sum or mean", 'reduction="mean"')
    if ignore_index is not None and type(ignore_index) is not int:
        raise mistake(op, f"ignore_index is {ignore_index!r:.40}", operands, "an int, or None", "ignore_index=-100")
    if of_scores:
        value = logsoftmax(value, where)
    which = primitives.cast(classes, int64)
    ignored = None if ignore_index is None else apply("equal", which, graph.scalar(ignore_index, int64))
    if ignored is not None:
        which = apply("where", ignored, graph.scalar(0, int64), which)
    at = primitives.reshape(which, (*shape[:where], 1, *shape[where:]))
    chosen = primitives.reshape(apply("take_along_axis", value, at, axis=where), shape)
    loss = apply("negate", chosen)
    counted: Symbol | None = apply("gather", factors[0], which, axis=0) if factors else None
    if counted is not None:
        loss = apply("mul", loss, counted)
    if ignored is not None:
        nothing, unit = (graph.scalar(number, value.dtype) for number in (0.0, 1.0))
        loss = apply("where", ignored, nothing, loss)
        counted = apply("where", ignored, nothing, unit if counted is None else counted)
    if reduction == "none":
        return primitives.cast(loss, result)
    if reduction == "sum":
        return primitives.cast(sum_(loss), result)
    return primitives.cast(mean(loss) if counted is None else apply("div", sum_(loss), sum_(counted)), result)
