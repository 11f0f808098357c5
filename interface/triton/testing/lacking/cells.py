"""Cells of recurrent networks: one step, and its gradients, which torch has in one operator for GPUs alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


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


CELLS: dict[str, Callable[..., Any]] = {
    "_thnn_fused_lstm_cell": _cell, "_thnn_fused_lstm_cell_backward_impl": _cell_backward,
    "_thnn_fused_gru_cell": _gated, "_thnn_fused_gru_cell_backward": _gated_backward,
}  # fmt: skip
