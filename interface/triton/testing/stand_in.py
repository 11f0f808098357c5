"""A GPU's surface of torch, led to the CPU: what a test-suite that was written for a GPU asks for before it launches anything.

Device names of CUDA go to the CPU in every call that torch lets a mode see; functions of `torch.cuda` answer as for one GPU.
What cannot be stood in for raises: graphs of CUDA, for example.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..utilities import Event, device_properties
from .dispatch import enter_in_backward, lead_registrations
from .generators import default_generator, generator_class
from .missing import computed_otherwise, lead_range

CAPABILITY = (9, 0)
NAME = "NVIDIA H100 (joinery on the CPU)"
_MEMORY = 80 << 30


def install() -> None:
    """Lead CUDA's devices of torch to the CPU from now on, in this process.

    `torch.compile` returns functions as they are, unless `TORCHDYNAMO_DISABLE=0` is set: it would compile them for a GPU.
    """
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    import torch

    if getattr(torch.cuda, "joinery_stands_in", False):
        return
    torch.cuda.joinery_stands_in = True
    torch.Generator = generator_class(torch)
    generator = default_generator(torch)
    torch.cuda.default_generators = (generator,)
    for name, value in _replacements(torch, generator).items():
        setattr(torch.cuda, name, value)
    _replace_accelerator(torch)
    _replace_classes(torch)
    lead_range(torch)
    mode = _mode(torch)
    lead_registrations(torch, mode)
    enter_in_backward(torch, mode)
    mode.__enter__()
    _modes.append(mode)


_modes: list[Any] = []
"""The mode that was entered: it lives as long as the process."""


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


def _replacements(torch: Any, generator: Any) -> dict[str, Any]:
    properties = SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=_MEMORY, warp_size=32, gcnArchName="",
        multi_processor_count=device_properties()["multiprocessor_count"], max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536, shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20, is_integrated=False, is_multi_gpu_board=False,
        clock_rate=1_000_000, memory_clock_rate=1_000_000, memory_bus_width=512, uuid="joinery", pci_bus_id=0,
    )  # fmt: skip
    answers = {
        "is_available": True,
        "is_initialized": True,
        "init": None,
        "_lazy_init": None,
        "_lazy_call": None,
        "device_count": 1,
        "current_device": 0,
        "set_device": None,
        "get_device_name": NAME,
        "get_device_capability": CAPABILITY,
        "get_device_properties": properties,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "can_device_access_peer": False,
        "synchronize": None,
        "empty_cache": None,
        "ipc_collect": None,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "reset_peak_memory_stats": None,
        "reset_max_memory_allocated": None,
        "mem_get_info": (_MEMORY, _MEMORY),
        "set_stream": None,
    }
    # torch's own tables go by identity: no two names share a function
    functions = {
        "get_arch_list": lambda: ["sm_90"],
        "memory_stats": lambda device=None: {},
        "manual_seed": lambda seed: generator.manual_seed(seed),
        "manual_seed_all": lambda seed: generator.manual_seed(seed),
        "seed": lambda: generator.seed(),
        "seed_all": lambda: generator.seed(),
        "initial_seed": lambda: generator.initial_seed(),
        "get_rng_state": lambda device=None: generator.get_state(),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state": lambda state, device=None: generator.set_state(state),
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        "Event": Event,
        "Stream": Stream,
        "ExternalStream": type("ExternalStream", (Stream,), {}),
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "stream": lambda stream=None: contextlib.nullcontext(),
        "StreamContext": lambda stream=None: contextlib.nullcontext(),
        "device": _DeviceContext,
        "device_of": type("device_of", (_DeviceContext,), {}),
        "_DeviceGuard": type("_DeviceGuard", (_DeviceContext,), {}),
        "CUDAGraph": _NoGraph,
        "graph": type("graph", (_NoGraph,), {}),
    }
    return {name: _ignoring(answer) for name, answer in answers.items()} | functions


def _ignoring(result: Any) -> Callable[..., Any]:
    """A function of any arguments with this result."""

    def answer(*args: Any, **keywords: Any) -> Any:
        return result

    return answer


class Stream:
    """The one stream there is: launches end before the call returns."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    priority = 0

    def __init__(self, *args: Any, **keywords: Any) -> None:
        """It takes what `torch.cuda.Stream` takes."""

    def synchronize(self) -> None:
        """Launches have ended."""

    def wait_stream(self, stream: Any) -> None:
        """Launches have ended."""

    def wait_event(self, event: Any) -> None:
        """Launches have ended."""

    def record_event(self, event: Event | None = None) -> Event:
        event = event or Event()
        event.record()
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was entered."""


class _DeviceContext:
    """`torch.cuda.device(…)`: there is one device."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        """Nothing changes."""

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""


class _NoGraph:
    """`torch.cuda.CUDAGraph` is a class in annotations; it cannot be made."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        raise NotImplementedError("graphs of CUDA record launches of a GPU; joinery on the CPU has none")


def _replace_accelerator(torch: Any) -> None:
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    answers = {
        "is_available": True,
        "current_accelerator": torch.device("cuda"),
        "device_count": 1,
        "current_device_index": 0,
        "current_device_idx": 0,
        "set_device_index": None,
        "synchronize": None,
        "empty_cache": None,
    }
    for name, answer in answers.items():
        setattr(accelerator, name, _ignoring(answer))


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
