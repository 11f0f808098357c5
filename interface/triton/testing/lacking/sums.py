"""Sums and products that torch computes in 16 bits on the CPU, and in float32 on GPUs.

They were found by comparison with float64: what else torch adds up there is within a rounding of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _of_operand(torch: Any, func: Callable[..., Any], x: Any, *args: Any, **keywords: Any) -> Any:
    """Results of the first operand's dtype, computed in float32."""
    if not is_short(torch, x) or any(value is not None for value in keywords.values()):
        return NotImplemented
    found = func(x.float(), *(_widened(torch, arg) for arg in args))
    return tuple(each.to(x.dtype) for each in found) if isinstance(found, tuple) else found.to(x.dtype)


def _layer_norm(torch: Any, func: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The result in the operand's dtype, and the statistics in float32, as they are kept on GPUs."""
    if keywords or not is_short(torch, args[0]):
        return NotImplemented
    found, *statistics = func(*(_widened(torch, arg) for arg in args))
    return found.to(args[0].dtype), *statistics


def _layer_norm_backward(torch: Any, func: Callable[..., Any], *args: Any, **keywords: Any) -> Any:
    """The gradients of the operand, the weight and the bias, in their dtypes."""
    if keywords or not is_short(torch, args[0]):
        return NotImplemented
    x, weight, bias = args[1], args[5], args[6]
    found = func(*(_widened(torch, arg) for arg in args))
    dtypes = [x.dtype, *((x if of is None else of).dtype for of in (weight, bias))]
    return tuple(each if each is None else each.to(dtype) for each, dtype in zip(found, dtypes, strict=True))


def is_short(torch: Any, value: Any) -> bool:
    """Whether a value is a tensor of 16-bit floats."""
    return isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16)


def _widened(torch: Any, value: Any) -> Any:
    return value.float() if is_short(torch, value) else value


SUMS: dict[str, Callable[..., Any]] = {
    "prod": _of_operand, "nll_loss_forward": _of_operand, "nll_loss2d_forward": _of_operand,
    "embedding_dense_backward": _of_operand, "_embedding_bag_dense_backward": _of_operand,
    "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward,
}  # fmt: skip
