"""Runs kernels of Triton that a compiled model launches, through whatever driver Triton has: joinery's, if that is enabled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._higher_order_ops.triton_kernel_wrap import (
    clone_preserve_strides,
    kernel_side_table,
    triton_kernel_wrapper_functional,
    triton_kernel_wrapper_mutation,
)

from .reading import is_view


def is_launch(node: Any) -> bool:
    """Return whether a node launches a kernel of Triton."""
    return node.target in (triton_kernel_wrapper_functional, triton_kernel_wrapper_mutation)


def kernel_name(node: Any) -> str:
    """Return the name of the kernel that a node launches, as reports have it."""
    kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    while not hasattr(kernel, "arg_names") or not hasattr(getattr(kernel, "fn", None), "__name__"):
        kernel = kernel.fn
    return f"triton.{kernel.fn.__name__}"


def launch_function(node: Any) -> Callable[..., Any]:
    """Return what is called for a node that launches a kernel.

    A functional launch writes into copies of tensors; one that nothing but the launch needs is written to itself.
    """
    if node.target is triton_kernel_wrapper_mutation:
        return triton_kernel_wrapper_mutation  # type: ignore[no-any-return]
    given = node.kwargs["kwargs"]
    spent = frozenset(name for name in node.kwargs["tensors_to_clone"] if _is_spent(given[name], node, list(given.values())))

    def launch(*, kwargs: dict[str, Any], tensors_to_clone: list[str], **others: Any) -> dict[str, Any]:
        written = {name: kwargs[name] if name in spent else clone_preserve_strides(kwargs[name]) for name in tensors_to_clone}
        triton_kernel_wrapper_mutation(kwargs={**kwargs, **written}, **others)
        return written

    return launch


def _is_spent(source: Any, node: Any, given: list[Any]) -> bool:
    """Return whether a tensor is one of its own that nothing but a launch needs, which gets it once."""
    if source.op != "call_function" or set(source.users) != {node} or given.count(source) != 1:
        return False
    return not is_view(source) and not any(is_view(user) for user in source.users)
