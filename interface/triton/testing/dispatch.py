"""Python code that torch calls back: implementations that libraries register for CUDA, and backward passes.

Tensors on the CPU stand in for those on CUDA, so what is registered for CUDA is called for them. torch leaves a mode while it
runs a function that the mode was shown: code that it calls back would see the real devices. It enters the mode again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any


def lead_registrations(torch: Any, mode: Any) -> None:
    """Let libraries that register implementations for CUDA register them for the CPU, to run in this mode."""
    library = torch.library.Library
    make, register = library.__init__, library.impl

    def make_led(self: Any, ns: str, kind: str, dispatch_key: str = "") -> None:
        make(self, ns, kind, _led(dispatch_key))

    def register_led(self: Any, op_name: Any, fn: Any, dispatch_key: str = "", **keywords: Any) -> None:
        key = _led(dispatch_key) or self.dispatch_key
        if "Meta" not in key and fn is not torch.library.fallthrough_kernel and callable(fn):
            fn = _in_mode(torch, mode, fn)
        register(self, op_name, fn, _led(dispatch_key), **keywords)

    library.__init__, library.impl = make_led, register_led
    _lead_custom_operators(torch)
    _lead_redispatch(torch)


def enter_in_backward(torch: Any, mode: Any) -> None:
    """Run backward passes in this mode."""
    graph = torch.autograd.graph
    run = getattr(graph, "_engine_run_backward", None)
    if run is not None:
        graph._engine_run_backward = torch.autograd._engine_run_backward = _in_mode(torch, mode, run)


def _in_mode(torch: Any, mode: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, in the mode: entered if it was left."""

    @functools.wraps(function)
    def led(*args: Any, **keywords: Any) -> Any:
        is_entered = mode in torch.overrides._get_current_function_mode_stack()
        with contextlib.nullcontext() if is_entered else mode:
            return function(*args, **keywords)

    return led


def _led(key: str) -> str:
    """The dispatch key of the CPU for one of CUDA: AutogradCPU for AutogradCUDA."""
    return key.replace("CUDA", "CPU")


def _lead_custom_operators(torch: Any) -> None:
    """Let `torch.library.custom_op(…, device_types="cuda")` make an operator of the CPU."""
    definition = torch._library.custom_ops.CustomOpDef
    register = definition.register_kernel

    def register_led(self: Any, device_types: Any, fn: Any = None, /) -> Any:
        if isinstance(device_types, str):
            device_types = "cpu" if device_types == "cuda" else device_types
        elif device_types is not None:
            device_types = ["cpu" if each == "cuda" else each for each in device_types]
        return register(self, device_types, fn)

    definition.register_kernel = register_led


def _lead_redispatch(torch: Any) -> None:
    """Let implementations call the next one with CUDA's devices: torch shows these calls to no mode."""
    operator = torch._ops.OpOverload
    plain = operator.redispatch
    cpu = torch.device("cpu")

    def led(value: Any) -> Any:
        return cpu if isinstance(value, torch.device) and value.type == "cuda" else value

    def redispatch(self: Any, /, keyset: Any, *args: Any, **keywords: Any) -> Any:
        return plain(self, keyset, *map(led, args), **{name: led(value) for name, value in keywords.items()})

    operator.redispatch = redispatch
