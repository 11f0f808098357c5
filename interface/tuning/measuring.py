"""Times launches on a device, each with the memory that the caller gave, and leaves that memory as it was."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...lowering.artifact import KernelCode
from ...lowering.llvm.compile import host_target
from ...lowering.tt.host_values import TableArgument
from ...promotion.arrays import Array
from ...promotion.errors import UnsupportedError
from ...runtime.gpu import LoadedKernel

MAX_SECONDS = 0.05
"""For how long one configuration is launched again in one round."""
MAX_LAUNCHES = 20
"""How often, at most."""


class HostTimer:
    """Times launches on the CPU.

    Attributes:
        name: of the device, in lock files.
        has_warps: whether the number of warps matters.
        args: the arguments that are launched.
    """

    has_warps = False

    def __init__(self, args: Sequence[Any]) -> None:
        self.name = f"cpu {host_target().cpu}"
        self.args = tuple(args)
        self._kept: list[tuple[Array, Array]] = []

    def __enter__(self) -> HostTimer:
        arrays = {id(each): each for arg in self.args for each in _arrays(arg) if each.flags.writeable}
        self._kept = [(each, each.copy()) for each in arrays.values()]
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        self._kept = []

    def _restore(self) -> None:
        for array, content in self._kept:
            np.copyto(array, content)

    def once(self, launch: Callable[[], object]) -> None:
        """Launch without taking time, so that the kernel is compiled."""
        self._restore()
        launch()

    def seconds(self, launch: Callable[[], object]) -> float:
        """Return the shortest time of some launches."""
        best, total = math.inf, 0.0
        for _ in range(MAX_LAUNCHES):
            self._restore()  # programs may wait for what memory holds, and take longer or shorter for it
            start = time.perf_counter()
            launch()
            taken = time.perf_counter() - start
            best, total = min(best, taken), total + taken
            if total > MAX_SECONDS:
                break
        return best


class CudaTimer:
    """Times launches on a GPU, with copies of NumPy arrays that lie there. The attributes are those of `HostTimer`."""

    has_warps = True

    def __init__(self, args: Sequence[Any], device: str) -> None:
        from ...runtime.cuda.buffers import Buffer, buffer_of
        from ...runtime.cuda.device import cuda_device

        self._device = cuda_device(device)
        self.name = self._device.model
        copies: dict[int, Buffer] = {}
        self._kept: list[tuple[Buffer, Array | Buffer]] = []
        found: list[Any] = []
        for arg in args:
            if isinstance(arg, np.ndarray):
                if id(arg) not in copies:
                    copies[id(arg)] = Buffer(arg, device=self._device)
                    self._kept.append((copies[id(arg)], arg))
                found.append(copies[id(arg)])
                continue
            buffer = buffer_of(arg)
            if buffer is not None and not buffer.is_read_only:
                content = Buffer(buffer.shape, buffer.dtype, buffer.cuda)
                content.copy_from(buffer)
                self._kept.append((buffer, content))
            found.append(arg if buffer is None else buffer)
        self.args = tuple(found)

    def __enter__(self) -> CudaTimer:
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()
        self._kept = []

    def _restore(self) -> None:
        for buffer, content in self._kept:
            buffer.copy_from(content)

    def preload(self, codes: Sequence[KernelCode]) -> Sequence[LoadedKernel]:
        """Assemble several kernels at once. They are there for as long as the caller has what is returned."""
        return self._device.preload(codes)

    def once(self, launch: Callable[[], object]) -> None:
        """Launch without taking time, so that the kernel is compiled and errors of the device show."""
        self._restore()
        launch()
        self._device.synchronize()

    def seconds(self, launch: Callable[[], object]) -> float:
        """Return the shortest time of some launches."""
        best, total = math.inf, 0.0
        for _ in range(MAX_LAUNCHES):
            self._restore()
            taken = self._device.time(launch)[0] / 1e3
            best, total = min(best, taken), total + taken
            if total > MAX_SECONDS:
                break
        return best


def timer_of(device: str, args: Sequence[Any]) -> HostTimer | CudaTimer:
    """Return what times launches on a device. Raises `UnsupportedError` for one whose time means nothing."""
    if device == "cpu":
        return HostTimer(args)
    if isinstance(device, str) and device.split(":")[0] == "cuda":
        return CudaTimer(args, device)
    fix = f"device='cpu' or 'cuda', or best(…).kernel.launch(device={device!r})"
    raise UnsupportedError(f"tune: device {device!r} has no time to compare; fix: {fix}")


def device_name(device: str) -> str:
    """Return the name of a device in lock files."""
    return timer_of(device, ()).name


def _arrays(arg: object) -> Sequence[Array]:
    """Return the memory of the host that a kernel may reach through an argument."""
    if isinstance(arg, np.ndarray):
        return (arg,)
    return arg.arrays if isinstance(arg, TableArgument) else ()


__all__ = ["CudaTimer", "HostTimer", "device_name", "timer_of"]
