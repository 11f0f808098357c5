"""Functions that torch has for CUDA and not for the CPU, computed by those that the CPU has; and one that no mode sees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .attention import ATTENTION
from .cells import CELLS
from .factors import FACTORS
from .normalization import NORMALIZATION
from .sums import SUMS, is_short

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
_SOFTMAXES = ("_softmax", "_log_softmax")
_GRADIENTS = ("_softmax_backward_data", "_log_softmax_backward_data")

_OTHERS: dict[str, Callable[..., Any]] = {**CELLS, **ATTENTION, **NORMALIZATION, **FACTORS}
LACKING = (
    *_PRODUCTS, *_SOFTMAXES, *_GRADIENTS, "histc", "_conv_depthwise2d", "cudnn_convolution", *_OTHERS, *SUMS
)  # fmt: skip
"""Names of what may have to be computed otherwise."""


def computed_otherwise(func: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], torch: Any) -> Any:
    """What the CPU computes in place of a call that it lacks. Returns `NotImplemented` for calls that it has."""
    name = getattr(func, "__name__", "")
    if name in _PRODUCTS:
        return _product(func, args, keywords, torch)
    if name == "histc" and isinstance(args[0], torch.Tensor) and not args[0].dtype.is_floating_point:
        return func(args[0].double(), *args[1:], **keywords).to(args[0].dtype)
    if name in _SOFTMAXES and args[-1] is True:  # of float16, in float32
        return func(args[0].float(), args[1], False, **keywords)
    if name in _SOFTMAXES and args[-1] is False and not keywords and is_short(torch, args[0]):  # which the CPU rounds twice
        return func(args[0].float(), args[1], False).to(args[0].dtype)
    if name in _GRADIENTS and args[0].dtype != args[-1] and not keywords:
        return func(*args[:-1], args[0].dtype).to(args[-1])
    if name in _OTHERS:
        return _OTHERS[name](torch, *args, **keywords)
    if name in SUMS:
        return SUMS[name](torch, func, *args, **keywords)
    if name == "_conv_depthwise2d" and not keywords:
        x, weight, _, bias, stride, padding, dilation = args
        return torch.conv2d(x, weight, bias, stride, padding, dilation, x.shape[-3])
    if name == "cudnn_convolution" and not keywords:
        x, weight, padding, stride, dilation, groups = args[:6]
        return torch.convolution(x, weight, None, stride, padding, dilation, False, [0] * len(stride), groups)
    return NotImplemented


def _product(func: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], torch: Any) -> Any:
    """A product that says the dtype of its result: GPUs add up in it, so its operands are converted first."""
    result = keywords.get("out_dtype")
    if result is None:
        result = next((arg for arg in args if isinstance(arg, torch.dtype)), None)
    if result is None:
        return NotImplemented
    operands = [arg.to(result) if isinstance(arg, torch.Tensor) else arg for arg in args if not isinstance(arg, torch.dtype)]
    return func(*operands, **{name: value for name, value in keywords.items() if name != "out_dtype"})


def lead_range(torch: Any) -> None:
    """Let `torch.range` take CUDA's devices: torch shows it to no mode."""
    plain = torch.range

    @functools.wraps(plain)
    def led(*args: Any, **keywords: Any) -> Any:
        if str(keywords.get("device")).startswith("cuda"):
            keywords["device"] = "cpu"
        return plain(*args, **keywords)

    torch.range = led
