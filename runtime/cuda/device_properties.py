"""What a CUDA device is: its name, what it can run, and how much it has of everything."""

from __future__ import annotations

from collections import deque

from . import driver as cu
from .targets import choose_target


class DeviceProperties:
    """One device of the driver, before anything is done with it.

    Attributes:
        ordinal, name, model: 1, "cuda:1", "NVIDIA H200".
        capability: 90 for 9.0.  target: what code is made for.
        total_memory, l2_bytes: bytes.  processors, clock_hz: of them, at most.
        deferred_modules: handles of modules whose kernels died, to be unloaded when none of them runs.
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
        self.deferred_modules: deque[int] = deque()

    def _attribute(self, which: int) -> int:
        return self.driver.cuDeviceGetAttribute(which, self.handle)

    @property
    def l2_bytes(self) -> int:
        return self._attribute(cu.L2_BYTES)

    @property
    def clock_hz(self) -> int:
        return 1000 * self._attribute(cu.CLOCK_RATE)
