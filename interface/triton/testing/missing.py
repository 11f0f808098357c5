"""Functions that torch has for CUDA and not for the CPU, computed by those that the CPU has; and one that no mode sees."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_PRODUCTS = ("mm", "bmm", "addmm", "baddbmm")


def computed_otherwise(func: Callable[..., Any], args: Sequence[Any], keywords: Mapping[str, Any], torch: Any) -> Any:
    """What the CPU computes in place of a call that it lacks. Returns `NotImplemented` for calls that it has."""
    name = getattr(func, "__name__", "")
    if name in _PRODUCTS:
        return _product(func, args, keywords, torch)
    if name == "histc" and isinstance(args[0], torch.Tensor) and not args[0].dtype.is_floating_point:
        return func(args[0].double(), *args[1:], **keywords).to(args[0].dtype)
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
