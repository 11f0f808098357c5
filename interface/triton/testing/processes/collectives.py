"""Collective operations of `torch.distributed` on tensors on "cuda:0": gloo does them on the same memory, as the CPU's.

gloo of a build without GPUs has nothing for CUDA, and follows a null pointer.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

_kept: list[Any] = []


def install(torch: Any, on_cpu: Callable[[Any], Any], check: Callable[[Any], None]) -> None:
    """Lead what `torch.distributed` asks of process groups to the CPU.

    on_cpu: the memory of a tensor, as the CPU's.  check: is told of each operation, and raises where it must not be.
    """
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    own = torch.library.Library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it overrides what is there, which is meant
        for name in torch._C._dispatch_get_all_op_names():
            if name.startswith("c10d::") and has(name, "CUDA"):
                operator = getattr(torch.ops.c10d, name.removeprefix("c10d::")).default
                own.impl(operator._opname, functools.partial(_run, operator, torch.Tensor, on_cpu, check), "CUDA")
    _kept.append(own)


def _run(
    operator: Any, tensor: Any, on_cpu: Callable[[Any], Any], check: Callable[[Any], None], *args: Any, **keywords: Any
) -> Any:
    """Let the CPU's back end of the process group do it. What an operator writes comes first, and is what it returns."""

    check(operator)

    def led(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return type(value)([led(each) for each in value])
        return on_cpu(value) if isinstance(value, tensor) and value.is_cuda else value

    found = operator(*map(led, args), **{name: led(value) for name, value in keywords.items()})
    return (args[0], *found[1:]) if isinstance(found, tuple) else found
