"""Declares the calls of the CUDA driver that are used, its errors and its versions.

Handles, addresses, attributes and flags are integers here, and a call that fails raises `CudaFailure`. `bindings.py` translates
to NVIDIA's Python bindings; `current.py` keeps the driver of this process.

Source: NVIDIA, "CUDA Driver API"; "PTX ISA", "Release Notes" for the PTX versions that drivers accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...promotion.errors import DeviceError

OUT_OF_MEMORY = 2
NO_DEVICE = 100
RECORDED = frozenset(range(900, 909))
"""Error codes of calls that are not allowed while a stream, also another library's, is being captured."""
ASSERT = 710
STICKY = frozenset({
    4, 201, 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 999,
})  # fmt: skip
"""Error codes after which the device is unusable in this process: illegal addresses, traps, assertions, ECC
and others."""

# CUdevice_attribute
MAX_THREADS_PER_BLOCK, MAX_GRID_DIM_X, MAX_GRID_DIM_Y, MAX_GRID_DIM_Z = 1, 5, 6, 7
CLOCK_RATE, L2_BYTES = 13, 38
MULTIPROCESSOR_COUNT, MAJOR, MINOR, SHARED_OPTIN, POOLS_SUPPORTED = 16, 75, 76, 97, 115
# CUfunction_attribute
FUNCTION_MAX_THREADS, FUNCTION_STATIC_SHARED, FUNCTION_REGISTERS, FUNCTION_DYNAMIC_SHARED = 0, 1, 4, 8
# CUmemPool_attribute, CUpointer_attribute
RELEASE_THRESHOLD = 4
POINTER_ORDINAL = 9
STREAM_NON_BLOCKING = 1
EVENT_DEFAULT, EVENT_DISABLE_TIMING = 0, 2
CAPTURE_THREAD_LOCAL = 1
MAP_BYTES, MAP_ALIGNMENT = 128, 64
"""The size and the alignment of a tensor map in bytes."""
DEFAULT_SHARED = 48 << 10
"""Bytes of dynamic shared memory that a kernel may use without setting an attribute."""


class CudaFailure(DeviceError):
    """A call of the driver that failed. log: the messages of the driver's assembler."""

    def __init__(self, call: str, code: int, name: str, meaning: str, log: str = "") -> None:
        self.call = call
        self.meaning = meaning
        self.log = log
        super().__init__(f"{call}: {name} ({code}): {meaning}{log and f'; {log}'}", code, name)


class Driver(Protocol):
    """The calls of the driver that are used, under the driver's names. They raise `CudaFailure`."""

    def cuInit(self) -> None: ...
    def cuDriverGetVersion(self) -> int: ...
    def cuDeviceGetCount(self) -> int: ...
    def cuDeviceGet(self, ordinal: int) -> int: ...
    def cuDeviceGetName(self, device: int) -> str: ...
    def cuDeviceGetAttribute(self, attribute: int, device: int) -> int: ...
    def cuDeviceTotalMem(self, device: int) -> int: ...
    def cuDevicePrimaryCtxRetain(self, device: int) -> int: ...
    def cuCtxGetCurrent(self) -> int: ...
    def cuCtxPushCurrent(self, context: int) -> None: ...
    def cuCtxPopCurrent(self) -> None: ...
    def cuCtxSynchronize(self) -> None: ...
    def cuStreamCreate(self, flags: int) -> int: ...
    def cuStreamSynchronize(self, stream: int) -> None: ...
    def cuStreamWaitEvent(self, stream: int, event: int) -> None: ...
    def cuStreamBeginCapture(self, stream: int, mode: int) -> None: ...
    def cuStreamEndCapture(self, stream: int) -> int: ...
    def cuEventCreate(self, flags: int) -> int: ...
    def cuEventRecord(self, event: int, stream: int) -> None: ...
    def cuEventSynchronize(self, event: int) -> None: ...
    def cuEventDestroy(self, event: int) -> None: ...
    def cuEventElapsedTime(self, first: int, second: int) -> float:
        """Returns the milliseconds between two events that have happened."""
        ...

    def cuGraphInstantiate(self, graph: int) -> int: ...
    def cuGraphLaunch(self, executable: int, stream: int) -> None: ...
    def cuGraphExecDestroy(self, executable: int) -> None: ...
    def cuGraphDestroy(self, graph: int) -> None: ...
    def cuDeviceGetDefaultMemPool(self, device: int) -> int: ...
    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None: ...
    def cuMemPoolTrimTo(self, pool: int, kept: int) -> None: ...
    def cuMemAllocAsync(self, nbytes: int, stream: int) -> int: ...
    def cuMemFreeAsync(self, address: int, stream: int) -> None: ...
    def cuMemAlloc(self, nbytes: int) -> int: ...
    def cuMemFree(self, address: int) -> None: ...
    def cuMemGetInfo(self) -> tuple[int, int]:
        """Returns the free and the total memory in bytes."""
        ...

    def cuMemHostAlloc(self, nbytes: int) -> int: ...
    def cuMemFreeHost(self, address: int) -> None: ...
    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None: ...
    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None: ...
    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None: ...
    def cuPointerGetAttribute(self, attribute: int, address: int) -> int: ...
    def cuTensorMapEncodeTiled(
        self,
        element: int,
        address: int,
        extents: Sequence[int],
        strides: Sequence[int],
        box: Sequence[int],
        swizzle: int,
        promotion: int,
        fill: int,
    ) -> bytes:
        """Returns the 128 bytes of a map without interleaving, with element strides of 1. Axes are innermost
        first; strides are in bytes, without the innermost axis."""
        ...

    def cuModuleLoadDataEx(self, image: bytes) -> int:
        """Loads a PTX text as a module. The assembler's errors are in the failure's `log`."""
        ...

    def cuModuleGetFunction(self, module: int, name: str) -> int: ...
    def cuModuleUnload(self, module: int) -> None: ...
    def cuLibraryLoadData(self, image: bytes) -> int:
        """Loads a PTX text as a library, at the same time as other threads theirs. Drivers have it from `LIBRARIES` on."""
        ...

    def cuLibraryGetModule(self, library: int) -> int:
        """Returns the module of a library in the current context. It lives as long as the library."""
        ...

    def cuLibraryUnload(self, library: int) -> None: ...
    def cuFuncGetAttribute(self, attribute: int, function: int) -> int: ...
    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None: ...
    def cuLaunchKernelEx(
        self,
        function: int,
        grid: Sequence[int],
        threads: int,
        shared: int,
        stream: int,
        cluster: Sequence[int] | None,
        parameters: int,
    ) -> None:
        """Launches a kernel. parameters: the address of an array of the parameters' addresses. The grid
        counts blocks, also with clusters."""
        ...


# -- versions --------------------------------------------------------------------------------

DRIVERS: dict[int, int] = {
    70: 11000, 71: 11010, 72: 11020, 73: 11030, 74: 11040, 75: 11050, 76: 11060, 77: 11070, 78: 11080, 80: 12000, 81: 12010,
    82: 12020, 83: 12030, 84: 12040, 85: 12050, 86: 12070, 87: 12080, 88: 12090, 90: 13000, 91: 13010, 92: 13020, 93: 13030,
}  # fmt: skip
"""PTX version, times ten → the first driver version that accepts it, as 1000 * major + 10 * minor."""
LIBRARIES = 12000
"""The first driver version with `cuLibraryLoadData`."""


def highest_ptx(version: int) -> int:
    """Returns the highest PTX version, times ten, that a driver of this version accepts; 0 for drivers older
    than the table."""
    return max((ptx for ptx, needed in DRIVERS.items() if needed <= version), default=0)


def version_text(version: int) -> str:
    """Formats a driver version: 12040 → "12.4"."""
    return f"{version // 1000}.{version % 1000 // 10}"


def ptx_text(version: int) -> str:
    """Formats a PTX version: 84 → "8.4"."""
    return f"{version // 10}.{version % 10}"


def check_ptx(needed: int, version: int, what: str) -> None:
    """Raises `DeviceError` if PTX of version `needed` requires a newer driver than this one; the error names
    that driver."""
    first = DRIVERS.get(needed)
    if first is None:
        raise DeviceError(f"{what} is PTX {ptx_text(needed)}; no driver that this version of joinery knows takes it")
    if version < first:
        raise DeviceError(
            f"{what} is PTX {ptx_text(needed)}, which takes a driver for CUDA {version_text(first)} or newer; the driver here "
            f"is for CUDA {version_text(version)}, with PTX up to {ptx_text(highest_ptx(version))}; fix: install a newer driver"
        )
