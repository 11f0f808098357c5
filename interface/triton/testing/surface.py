"""Functions and classes of `torch.cuda` and `torch.accelerator`, which answer as for one GPU.

What cannot be stood in for raises.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ..utilities import Event, device_properties
from .graphs.capture import captures
from .memory.counts import Counts
from .memory.streams import Streams

CAPABILITY = (9, 0)
NAME = "NVIDIA H100 (joinery on the CPU)"
VERSION = "12.8"
"""What `torch.version.cuda` says: projects look there for whether torch is built for GPUs."""
MEMORY = 80 << 30
NO_DEVICE = "CUDA error: invalid device ordinal; there is one device"


def replacements(torch: Any, generator: Any, is_device: bool) -> dict[str, Any]:
    """What stands in `torch.cuda`, by name. is_device: whether torch has a device of CUDA."""
    properties = SimpleNamespace(
        name=NAME, major=CAPABILITY[0], minor=CAPABILITY[1], total_memory=MEMORY, warp_size=32, gcnArchName="sm_90",
        multi_processor_count=device_properties()["multiprocessor_count"], max_threads_per_multi_processor=2048,
        max_threads_per_block=1024, pci_device_id=0, pci_domain_id=0,
        regs_per_multiprocessor=65536, shared_memory_per_block=49152, shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20, is_integrated=False, is_multi_gpu_board=False,
        clock_rate=1_000_000, memory_clock_rate=1_000_000, memory_bus_width=512, uuid=uuid.UUID(int=0), pci_bus_id=0,
    )  # fmt: skip
    answers: dict[str, Any] = {
        "is_available": True,
        "is_initialized": True,
        "init": None,
        "_lazy_init": None,
        "_lazy_call": None,
        "device_count": 1,
        "current_device": 0,
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
        "can_device_access_peer": False,
        "empty_cache": None,
        "ipc_collect": None,
        "_sleep": None,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
        "memory_snapshot": [],
        "set_per_process_memory_fraction": None,
    }
    streams = Streams(torch, "cuda" if is_device else "cpu")

    def of_device(answer: Any, refusal: Exception | None = None) -> Callable[..., Any]:
        def answer_for(device: Any = None) -> Any:
            index = device if isinstance(device, int) else torch.device(device or "cuda").index
            if index is not None and index > 0:
                raise refusal or AssertionError(f"Invalid device id: {device}; there is one device")
            return answer

        return answer_for

    # torch's own tables go by identity: no two names share a function
    functions = {
        "get_arch_list": lambda: ["sm_90"],
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
        "Stream": streams.made,
        "ExternalStream": type("ExternalStream", (streams.made,), {}),
        "current_stream": lambda device=None: streams.current(),
        "default_stream": lambda device=None: streams.default,
        "set_stream": lambda stream: streams.enter(stream),
        "stream": lambda stream=None: streams.context(stream),
        "StreamContext": streams.context,
        "synchronize": _synchronize,
        "set_device": of_device(None, RuntimeError(NO_DEVICE)),
        "get_device_name": of_device(NAME),
        "get_device_capability": of_device(CAPABILITY),
        "get_device_properties": of_device(properties),
        "device": _DeviceContext,
        "device_of": type("device_of", (_DeviceContext,), {"__init__": lambda self, of: setattr(self, "idx", 0)}),
        "_DeviceGuard": type("_DeviceGuard", (_DeviceContext,), {}),
        "CUDAGraph": _NoGraph,
        "graph": type("graph", (_NoGraph,), {}),
    }
    return {name: _ignoring(answer) for name, answer in answers.items()} | functions


def memory_functions(counts: Counts) -> dict[str, Any]:
    """Statistics of memory in `torch.cuda`, by name. No memory is kept for later: what is reserved is allocated."""
    return {
        "memory_allocated": lambda device=None: counts.allocated(),
        "max_memory_allocated": lambda device=None: counts.peak(),
        "memory_reserved": lambda device=None: counts.allocated(),
        "max_memory_reserved": lambda device=None: counts.peak(),
        "memory_cached": lambda device=None: counts.allocated(),
        "max_memory_cached": lambda device=None: counts.peak(),
        "reset_peak_memory_stats": lambda device=None: counts.forget_peak(),
        "reset_max_memory_allocated": lambda device=None: counts.forget_peak(),
        "reset_max_memory_cached": lambda device=None: counts.forget_peak(),
        "reset_accumulated_memory_stats": lambda device=None: None,
        "memory_stats": lambda device=None: Counter(counts.statistics()),
        "memory_stats_as_nested_dict": lambda device=None: {},
        "memory_summary": lambda device=None, abbreviated=False: f"bytes: {counts.allocated()}, at most {counts.peak()}",
        "mem_get_info": lambda device=None: (max(MEMORY - counts.allocated(), 0), MEMORY),
    }


def marks() -> Any:
    """Functions behind `torch.cuda.nvtx`, which mark ranges for a profiler: nobody looks."""
    names = ("rangePushA", "rangePop", "rangeStartA", "rangeEnd", "markA")
    return SimpleNamespace(**{name: _ignoring(0) for name in names})


def runtime(counts: Counts) -> Any:
    """The module behind `torch.cuda.cudart()`: nobody profiles, and all memory is the host's."""
    names = ("cudaProfilerStart", "cudaProfilerStop", "cudaHostRegister", "cudaHostUnregister")
    return SimpleNamespace(
        cudaError=SimpleNamespace(success=0),
        cudaGetErrorString=lambda code: "no error",
        cudaMemGetInfo=lambda device: (max(MEMORY - counts.allocated(), 0), MEMORY),
        **{name: _ignoring(0) for name in names},
    )


def _ignoring(result: Any) -> Callable[..., Any]:
    """A function of any arguments with this result."""

    def answer(*args: Any, **keywords: Any) -> Any:
        return result

    return answer


def _synchronize(device: Any = None) -> None:
    """Launches have ended. Raises `RuntimeError` while a graph is captured."""
    if captures:
        captures[0].forbid("torch.cuda.synchronize", "waits for the GPU", "leave it out of the graph")


class _DeviceContext:
    """`torch.cuda.device(…)`: there is one device. Entering it raises `RuntimeError` for another one."""

    def __init__(self, device: Any = None) -> None:
        index = getattr(device, "index", device)
        if isinstance(device, str):
            index = int(device.partition(":")[2] or 0)
        self.idx = index if isinstance(index, int) else 0

    def __enter__(self) -> None:
        if self.idx > 0:
            raise RuntimeError(NO_DEVICE)

    def __exit__(self, *error: object) -> None:
        """Nothing was changed."""


class _NoGraph:
    """`torch.cuda.CUDAGraph` is a class in annotations; where the CPU is the only device, it cannot be made."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        raise NotImplementedError("graphs of CUDA record launches of a GPU; joinery on the CPU has none")


def replace_accelerator(torch: Any, counts: Counts) -> None:
    """Let `torch.accelerator` answer as for one GPU."""
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
    for name, value in memory_functions(counts).items():
        name = "get_memory_info" if name == "mem_get_info" else name
        if hasattr(accelerator, name):
            setattr(accelerator, name, value)
