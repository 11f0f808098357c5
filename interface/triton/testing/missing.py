"""Functions that torch has for CUDA and not for the CPU, computed by those that the CPU has; and one that no mode sees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")
_SOFTMAXES = ("_softmax", "_log_softmax")
_GRADIENTS = ("_softmax_backward_data", "_log_softmax_backward_data")


def computed_otherwise(func: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], torch: Any) -> Any:
    """What the CPU computes in place of a call that it lacks. Returns `NotImplemented` for calls that it has."""
    name = getattr(func, "__name__", "")
    if name in _PRODUCTS:
        return _product(func, args, keywords, torch)
    if name == "histc" and isinstance(args[0], torch.Tensor) and not args[0].dtype.is_floating_point:
        return func(args[0].double(), *args[1:], **keywords).to(args[0].dtype)
    if name in _SOFTMAXES and args[-1] is True:  # of float16, in float32
        return func(args[0].float(), args[1], False, **keywords)
    if name in _GRADIENTS and args[0].dtype != args[-1] and not keywords:
        return func(*args[:-1], args[0].dtype).to(args[-1])
    if name in _CELLS:
        return _CELLS[name](torch, *args, **keywords)
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


def _cell(torch: Any, gates: Any, more: Any, before: Any, bias: Any = None, bias_of_more: Any = None) -> tuple[Any, Any, Any]:
    """One step of an LSTM: its output, its state, and what the backward pass wants."""
    total = gates + more if bias is None else gates + more + bias + bias_of_more
    i, f, g, o = total.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    state = f * before + i * g
    return o * state.tanh(), state, torch.cat([i, f, g, o], 1)


def _cell_backward(
    torch: Any, of_output: Any, of_state: Any, before: Any, state: Any, kept: Any, has_bias: bool
) -> tuple[Any, Any, Any]:
    """The gradients of a step: of its gates, of the state before it, and of a bias."""
    if of_output is None and of_state is None:
        return None, None, None
    i, f, g, o = kept.chunk(4, 1)
    inner = state.tanh()
    output = torch.zeros_like(state) if of_output is None else of_output
    total = output * o * (1 - inner * inner) + (0 if of_state is None else of_state)
    gates = torch.cat(
        [total * g * i * (1 - i), total * before * f * (1 - f), total * i * (1 - g * g), output * inner * o * (1 - o)], 1
    )
    return gates, total * f, gates.sum(0) if has_bias else None


def _gated(torch: Any, gates: Any, more: Any, before: Any, bias: Any = None, bias_of_more: Any = None) -> tuple[Any, Any]:
    """One step of a GRU: its state, and what the backward pass wants."""
    if bias is not None:
        gates, more = gates + bias, more + bias_of_more
    r, z, n = gates.chunk(3, 1)
    more_r, more_z, more_n = more.chunk(3, 1)
    r, z = (r + more_r).sigmoid(), (z + more_z).sigmoid()
    n = (n + r * more_n).tanh()
    return n + z * (before - n), torch.cat([r, z, n, before, more_n], 1)


def _gated_backward(torch: Any, of_state: Any, kept: Any, has_bias: bool) -> tuple[Any, Any, Any, Any, Any]:
    """The gradients of a step: of its gates on both sides, of the state before it, and of two biases."""
    r, z, n, before, more_n = kept.chunk(5, 1)
    of_n = of_state * (1 - z) * (1 - n * n)
    of_r, of_z = of_n * more_n * r * (1 - r), of_state * (before - n) * z * (1 - z)
    gates, more = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    return gates, more, of_state * z, gates.sum(0) if has_bias else None, more.sum(0) if has_bias else None


_CELLS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _cell, "_thnn_fused_lstm_cell_backward_impl": _cell_backward,
    "_thnn_fused_gru_cell": _gated, "_thnn_fused_gru_cell_backward": _gated_backward,
}  # fmt: skip
LACKING = (*_PRODUCTS, *_SOFTMAXES, *_GRADIENTS, "histc", "_conv_depthwise2d", "cudnn_convolution", *_CELLS)
"""Names of what may have to be computed otherwise."""


def lead_range(torch: Any) -> None:
    """Let `torch.range` take CUDA's devices: torch shows it to no mode."""
    plain = torch.range

    @functools.wraps(plain)
    def led(*args: Any, **keywords: Any) -> Any:
        if str(keywords.get("device")).startswith("cuda"):
            keywords["device"] = "cpu"
        return plain(*args, **keywords)

    torch.range = led
