"""Functions that torch has for CUDA and not for the CPU, computed by those that the CPU has; and one that no mode sees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")


def with_result_type(func: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], torch: Any) -> Any:
    """A product that says the dtype of its result: GPUs add up in it, so its operands are converted first.

    Returns `NotImplemented` for every other call.
    """
    if getattr(func, "__name__", "") not in _PRODUCTS:
        return NotImplemented
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
