"""Makes operators of PyTorch of block kernels, for `joinery.torch.custom_op`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch

from ...promotion.errors import UserError
from ..kernel import Kernel
from .reporting import OWN_OPERATORS
from .tensors import require_plain, to_array

Launch = Callable[..., None]
"""Runs a kernel: grid, then one argument per parameter."""


def made_operator(
    kernel: Kernel, name: str, mutates_args: Sequence[str], threads: int | None
) -> Callable[[Callable[..., Any]], Any]:
    """See `joinery.torch.custom_op`."""
    if not isinstance(kernel, Kernel):
        raise UserError(f"custom_op: expected a kernel, got {type(kernel).__name__}; fix: joinery.kernel.from_triton_c(text)")
    if not isinstance(name, str) or name.count("::") != 1 or not all(name.split("::")):
        raise UserError(f"custom_op: name is {name!r}; fix: a namespace and a name, such as 'mine::add'")

    def made(function: Callable[..., Any]) -> Any:
        shown = _without_launch(function, name)

        @wraps(function)
        def implementation(*arguments: Any) -> Any:
            def launch(grid: int | Sequence[int], *given: Any) -> None:
                kernel.launch(grid, *[_argument(name, each) for each in given], threads=threads)

            return function(launch, *arguments)

        def fake(*arguments: Any) -> Any:
            return function(_nothing, *arguments)

        schema = torch.library.infer_schema(shown, mutates_args=tuple(mutates_args))
        operator = torch.library.custom_op(name, implementation, mutates_args=tuple(mutates_args), schema=schema)
        operator.register_fake(fake)
        OWN_OPERATORS.add(name)
        return operator

    return made


def _nothing(grid: object, *arguments: object) -> None:
    """Launch nothing: the tensors have no elements."""


def _argument(name: str, value: Any) -> Any:
    """Return an argument as a launch takes it: a tensor as an array over its memory."""
    if not isinstance(value, torch.Tensor):
        return value
    require_plain(value, f"{name}: a tensor")
    if not value.is_contiguous() or value.is_neg() or value._is_zerotensor():
        raise UserError(
            f"{name}: a tensor of shape {tuple(value.shape)} has strides {value.stride()}; kernels take contiguous ones; "
            "fix: x.contiguous()"
        )
    return to_array(value)


def _without_launch(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function with the parameters and annotations of another without its first."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters:
        raise UserError(f"custom_op {name!r}: no parameter for launches; fix: def {function.__name__}(launch, …)")
    hints = typing.get_type_hints(function)
    kept = [each.replace(annotation=hints.get(each.name, each.annotation)) for each in parameters[1:]]

    def shown(*arguments: Any) -> Any:
        return function(None, *arguments)

    result = hints.get("return", signature.return_annotation)
    shown.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=kept, return_annotation=None if result is type(None) else result
    )
    shown.__annotations__ = {each.name: each.annotation for each in kept}
    return shown
