"""Describes a CUDA device: its name, what it can run, and its limits."""

from __future__ import annotations

from collections import deque

from . import driver as cu
from .images import Image
from .targets import choose_target


class DeviceProperties:
    """The properties of one device of the driver, read without a context.

    Attributes:
        ordinal, name, model: such as 1, "cuda:1", "NVIDIA H200".
        capability: 90 for 9.0.  target: the newest target that code can be compiled for.
        total_memory, l2_bytes: in bytes.  processors: multiprocessors.  clock_hz: their highest clock rate.
        deferred_images: the code whose kernel objects died, to be unloaded once no kernel runs.
    """

    def __init__(self, driver: cu.Driver, ordinal: int) -> None:
        self.driver = driver
        self.ordinal = ordinal
        self.name = "cuda" if ordinal == 0 else f"cuda:{ordinal}"
        self.handle = driver.cuDeviceGet(ordinal)
        self.model = driver.cuDeviceGetName(self.handle)
        self.driver_version = driver.cuDriverGetVersion()
        self.capability = 10 * self._attribute(cu.MAJOR) + self._attribute(cu.MINOR)
        self.target = choose_target(self.capability, self.driver_version, f"{self.name} ({self.model})")
        self.max_threads = self._attribute(cu.MAX_THREADS_PER_BLOCK)
        self.max_shared = self._attribute(cu.SHARED_OPTIN)
        self.processors = self._attribute(cu.MULTIPROCESSOR_COUNT)
        self.max_blocks = tuple(self._attribute(axis) for axis in (cu.MAX_GRID_DIM_X, cu.MAX_GRID_DIM_Y, cu.MAX_GRID_DIM_Z))
        self.total_memory = driver.cuDeviceTotalMem(self.handle)
        self.deferred_images: deque[Image] = deque()

    def _attribute(self, which: int) -> int:
        return self.driver.cuDeviceGetAttribute(which, self.handle)

    @property
    def l2_bytes(self) -> int:
        return self._attribute(cu.L2_BYTES)

    @property
    def clock_hz(self) -> int:
        return 1000 * self._attribute(cu.CLOCK_RATE)
