"""What Triton and its benchmarks ask of a device: properties, loaded code, events."""

from __future__ import annotations

import functools
import time
from typing import Any

from .binary import LoadedKernel
from .testing.graphs.capture import captures
from .versions import as_loaded

REGISTERS, SPILLS, MAX_THREADS = 32, 0, 1 << 20
"""Reported of every kernel: programs divide by the first to size their grids."""
SHARED_BYTES = 1024
"""Reported as a kernel's shared memory, for the same reason."""
MEGAHERTZ = 1000
"""Reported as the clocks of processors and memory, by which models of a kernel's speed choose configurations."""
_C_TYPES = {
    "i1": "int8_t", "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "u1": "uint8_t", "u8": "uint8_t",
    "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t", "fp16": "double", "bf16": "double", "fp32": "double",
    "f32": "double", "fp64": "double", "nvTmaDesc": "void*",
}  # fmt: skip


class Utilities:
    """Loads compiled kernels, and tells the properties of the device."""

    def load_binary(self, name: str, code: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """(module, function, registers, spills, threads at most), as this version of Triton takes them."""
        return as_loaded(LoadedKernel(name, code), REGISTERS, SPILLS, MAX_THREADS)

    def unload_module(self, module: LoadedKernel) -> None:
        """Code is unmapped when nobody holds it."""

    def get_device_properties(self, device: int = 0) -> dict[str, Any]:
        return device_properties()

    def set_printf_fifo_size(self, size: int) -> None:
        """Prints are written as they come."""


@functools.cache
def device_properties() -> dict[str, Any]:
    from ...runtime.host.threads import default_threads

    return {
        "max_shared_mem": 232448,  # of an H100, by which programs choose their blocks
        "max_num_regs": 65536,
        "multiprocessor_count": default_threads(),
        "warpSize": 32,
        "sm_clock_rate": 1000 * MEGAHERTZ,
        "mem_clock_rate": 1000 * MEGAHERTZ,
        "mem_bus_width": 512,
        "arch": "0",
    }


def c_type(type_: str) -> str:
    """The type of C of an argument, by Triton's name of its type."""
    if type_.startswith("*"):
        return "void*"
    if type_.startswith("tensordesc"):
        return "void*"
    return _C_TYPES[type_]


def memory_beyond_caches() -> Any:
    """A tensor larger than the caches: writing it takes what a kernel has read before out of them."""
    import torch

    from ...lowering.llvm.compile import host_target

    return torch.empty(2 * host_target().l3_bytes // 4, dtype=torch.int32)


class Event:
    """A moment, as `torch.cuda.Event`: launches end before the call returns, so a clock tells all."""

    cuda_event = 0

    def __init__(self, enable_timing: bool = False, *args: Any, **ignored: Any) -> None:
        self._is_timed = enable_timing
        self._time: int | None = None
        self._is_captured = False

    def record(self, stream: Any = None) -> None:
        self._time = time.perf_counter_ns()
        self._is_captured = bool(captures) and captures[0].covers(stream)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to another. Raises `ValueError` for events that were not recorded, or are not timed."""
        if not (self._is_timed and end._is_timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._time is None or end._time is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return (end._time - self._time) / 1e6

    def synchronize(self) -> None:
        """Launches have ended."""

    def wait(self, stream: Any = None) -> None:
        """Launches have ended. The stream is captured from now on if that of the event is."""
        if captures and self._is_captured:
            captures[0].join(stream)

    def query(self) -> bool:
        return True


class DeviceInterface:
    """What `triton.testing` asks of a device, as of `torch.cuda`."""

    Event = Event

    @staticmethod
    def synchronize(device: Any = None) -> None:
        """Launches end before the call returns."""

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def set_device(device: Any) -> None:
        """There is one device."""

    @staticmethod
    def is_available() -> bool:
        return True
