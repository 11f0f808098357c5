"""A GPU's device where torch cannot be told of it (`guard`).

Names of CUDA's devices go to the CPU in every call that torch lets a mode see, and tensors say that they are on "cuda:0". There
is one device: what is moved to "cpu" is on "cuda:0" as well.

Tensors on the CPU stand in for those on CUDA, so what is registered for CUDA is called for them. torch leaves a mode while it
runs a function that the mode was shown: code that it calls back would see the real devices. It enters the mode again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from .lacking.functions import computed_otherwise, lead_range

_modes: list[Any] = []
"""The mode that was entered: it lives as long as the process."""


def install(torch: Any) -> None:
    """Lead CUDA's devices of torch to the CPU."""
    _replace_classes(torch)
    lead_range(torch)
    mode = _mode(torch)
    lead_registrations(torch, mode)
    enter_in_backward(torch, mode)
    mode.__enter__()
    _modes.append(mode)


def is_cuda(device: Any) -> bool:
    """Whether it names a device of CUDA, as text or as `torch.device`."""
    if isinstance(device, str):
        return device == "cuda" or device.startswith("cuda:")
    return getattr(device, "type", None) == "cuda"


def _mode(torch: Any) -> Any:
    cpu, cuda = torch.device("cpu"), torch.device("cuda", 0)
    names_devices = {"to", "type", "cuda", "set_default_device", "_to"}

    def led(value: Any, strings: bool) -> Any:
        if isinstance(value, torch.device):
            return cpu if value.type == "cuda" else value
        return cpu if strings and isinstance(value, str) and is_cuda(value) else value

    class LedToCpu(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        """Every function of torch sees the CPU where it was given a device of CUDA."""

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = getattr(func, "__name__", "")
            if name == "__get__":
                attribute = getattr(func, "__self__", None)
                if attribute is torch.Tensor.is_cuda:
                    return func(*args, **kwargs) or bool(torch.Tensor.is_cpu.__get__(args[0]))
                found = func(*args, **kwargs)
                return cuda if attribute is torch.Tensor.device and found.type == "cpu" else found
            if name == "get_device":
                return 0
            if name == "cuda":
                return args[0]
            if name == "pin_memory":
                return args[0]
            if name == "is_pinned":
                return False
            if any(map(is_cuda, args)):
                strings = name in names_devices
                args = tuple([led(arg, strings) for arg in args])
            if name == "to" and len(args) > 1 and type(args[1]) is int:
                args = (args[0], cpu, *args[2:])
            if is_cuda(device := kwargs.get("device")) or type(device) is int:  # a number is one of the accelerator's devices
                kwargs = {**kwargs, "device": cpu}
            if kwargs.get("pin_memory"):
                kwargs = {**kwargs, "pin_memory": False}
            found = computed_otherwise(func, args, kwargs, torch)
            return func(*args, **kwargs) if found is NotImplemented else found

    return LedToCpu()


def _replace_classes(torch: Any) -> None:
    """Classes that take a device and that no mode sees."""
    plain_autocast = torch.autocast

    class autocast(plain_autocast):  # type: ignore[misc,valid-type]
        def __init__(self, device_type: str = "cuda", *args: Any, **keywords: Any) -> None:
            super().__init__("cpu" if is_cuda(device_type) else device_type, *args, **keywords)

    torch.autocast = torch.amp.autocast = autocast
    from torch.utils._device import DeviceContext  # of `torch.set_default_device`, and `with torch.device(…)`

    make_context = DeviceContext.__init__

    def make_led(self: Any, device: Any) -> None:
        make_context(self, "cpu" if is_cuda(device) else device)

    DeviceContext.__init__ = make_led


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
