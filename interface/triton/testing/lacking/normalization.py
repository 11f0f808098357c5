"""Batch normalization by the name of cuDNN's, which torch has for GPUs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _batch_norm(
    torch: Any, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, factor: float, epsilon: float
) -> tuple[Any, Any, Any, Any]:
    """The result, the statistics that the backward pass wants, and a reserve of no bytes."""
    found = torch.native_batch_norm(x, weight, bias, mean, variance, training, factor, epsilon)
    return *found, torch.empty(0, dtype=torch.uint8)


def _batch_norm_backward(
    torch: Any, x: Any, gradient: Any, weight: Any, mean: Any, variance: Any, kept_mean: Any, kept: Any, epsilon: float,
    reserve: Any,
) -> Any:  # fmt: skip
    """The gradients of the operand, the weight and the bias."""
    of = torch.ops.aten.native_batch_norm_backward
    return of(gradient, x, weight, mean, variance, kept_mean, kept, True, epsilon, [True, True, True])


NORMALIZATION: dict[str, Callable[..., Any]] = {
    "cudnn_batch_norm": _batch_norm, "cudnn_batch_norm_backward": _batch_norm_backward,
}  # fmt: skip
