"""Explains keyword arguments that a function does not have, by what it calls them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable

from ...promotion.errors import close_names

_ELSEWHERE = {
    "dim": "axis", "dims": "axis", "axes": "axis", "keepdim": "keepdims", "keep_dims": "keepdims", "eps": "epsilon",
    "strides": "stride", "dilations": "dilation", "pad": "padding", "pads": "padding", "pad_width": "widths",
    "constant_values": "value", "constant_value": "value", "fill_value": "value", "ddof": "correction",
    "unbiased": "correction", "a_min": "low", "a_max": "high", "min": "low", "max": "high", "minval": "low", "maxval": "high",
    "attn_mask": "mask", "group": "groups", "feature_group_count": "groups",
    "decreasing": "descending", "shifts": "shift",
    "indices_or_sections": "sizes", "split_size_or_sections": "sizes", "sections": "sizes", "reps": "repeats",
}  # fmt: skip
"""Keywords of NumPy, PyTorch and JAX → joinery's, where a function has that one."""


def is_of_call(error: BaseException) -> bool:
    """Return whether a call raised the error before its function ran, so that the arguments do not fit its parameters."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def explained(error: TypeError, function: Callable[..., object], given: Iterable[str]) -> TypeError:
    """Return the error for keywords that `function` does not have with those that were meant; any other error as it is."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # no signature is known
        return error
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return error
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = [name for name, each in parameters.items() if each.kind in kinds and name != "self"]
    unknown = next((name for name in given if name not in named), None)
    if unknown is None:
        return error
    elsewhere = _ELSEWHERE.get(unknown)
    near = [elsewhere] if elsewhere in named else close_names(unknown, named, 2)
    hint = f"did you mean {' or '.join(near)}?" if near else f"its arguments are {', '.join(named)}"
    return TypeError(f"{str(error).partition('(')[0]}() got an unexpected keyword argument {unknown!r}; {hint}")
