"""Implements `Driver` with NVIDIA's Python bindings (cuda.bindings.driver), loaded when a CUDA device is first used.

Without a driver every call of the bindings raises a `RuntimeError`; `open_driver` turns that into an error with a fix.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import platform
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, SupportsInt

from ...promotion.errors import DeviceError
from .driver import MAP_ALIGNMENT, MAP_BYTES, NO_DEVICE, CudaFailure, Driver

LOG_BYTES = 1 << 14
"""The size of the buffer for messages of the driver's assembler."""
FIRST_WITH_MAPS = 12000
"""The first version of the driver's interface that has tensor maps (CUDA 12.0)."""


def open_driver() -> Driver:
    """Loads and initialises the driver. Raises `DeviceError` where the bindings, a driver or a device are missing."""
    try:
        cu = importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise _missing_bindings() from error
    found = Bindings(cu)
    try:
        found.cuInit()
    except CudaFailure as failure:
        if failure.code == NO_DEVICE:
            raise DeviceError("the CUDA driver finds no device", failure.code, failure.name) from failure
        raise
    return found


def library_is_there() -> bool:
    """Returns whether the system has a CUDA driver; much faster than to call it or to load the bindings."""
    name = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}.get(sys.platform)
    try:
        return name is not None and ctypes.CDLL(name) is not None
    except OSError:
        return False


NO_DRIVER = (
    "this machine has no CUDA driver (libcuda was not found); fix: install NVIDIA's display driver, or run on "
    "device='cpu', or GPU code on device='ptxsim'"
)


def _missing_bindings() -> DeviceError:
    """Makes the error for a Python without NVIDIA's bindings."""
    machine, system = platform.machine(), sys.platform
    has_wheels = (system == "linux" and machine in ("x86_64", "aarch64")) or (system == "win32" and machine == "AMD64")
    hint = "fix: pip install cuda-python" if has_wheels else f"it has no wheels for {system} on {machine}"
    return DeviceError(f"CUDA devices need the package cuda-python, which is not installed; {hint}")


class Bindings:
    """Implements `Driver`. cu: the module cuda.bindings.driver."""

    def __init__(self, cu: ModuleType) -> None:
        self._cu = cu
        self._device_attribute = cu.CUdevice_attribute
        self._function_attribute = cu.CUfunction_attribute

    def _call(self, name: str, *args: object) -> Any:
        """Calls a function of the bindings and returns its result without the status. Raises `CudaFailure`
        for a status other than success."""
        try:
            status, *results = getattr(self._cu, name)(*args)
        except RuntimeError as error:
            raise self._missing(name, error) from error
        if int(status) != 0:
            raise self._failure(name, status)
        return results[0] if results else None

    def _missing(self, name: str, error: RuntimeError) -> DeviceError:
        """Makes the error for a missing driver, or one that lacks a function."""
        if name == "cuInit":
            return DeviceError(NO_DRIVER)
        return DeviceError(f"the CUDA driver has no {name}: {error}; fix: install a newer driver")

    def _failure(self, name: str, status: SupportsInt, log: str = "") -> CudaFailure:
        _, text = self._cu.cuGetErrorString(status)
        meaning = text.decode("utf-8", "replace") if isinstance(text, bytes) else "unknown error"
        return CudaFailure(name, int(status), getattr(status, "name", "unknown"), meaning, log)

    # -- devices and contexts

    def cuInit(self) -> None:
        self._call("cuInit", 0)

    def cuDriverGetVersion(self) -> int:
        return int(self._call("cuDriverGetVersion"))

    def cuDeviceGetCount(self) -> int:
        return int(self._call("cuDeviceGetCount"))

    def cuDeviceGet(self, ordinal: int) -> int:
        return int(self._call("cuDeviceGet", ordinal))

    def cuDeviceGetName(self, device: int) -> str:
        name: bytes = self._call("cuDeviceGetName", 256, device)
        return name.split(b"\0")[0].decode("utf-8", "replace").strip()

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> int:
        return int(self._call("cuDeviceGetAttribute", self._device_attribute(attribute), device))

    def cuDeviceTotalMem(self, device: int) -> int:
        return int(self._call("cuDeviceTotalMem", device))

    def cuDevicePrimaryCtxRetain(self, device: int) -> int:
        return int(self._call("cuDevicePrimaryCtxRetain", device))

    def cuCtxGetCurrent(self) -> int:
        return int(self._call("cuCtxGetCurrent"))

    def cuCtxPushCurrent(self, context: int) -> None:
        self._call("cuCtxPushCurrent", context)

    def cuCtxPopCurrent(self) -> None:
        self._call("cuCtxPopCurrent")

    def cuCtxSynchronize(self) -> None:
        self._call("cuCtxSynchronize")

    # -- streams, events, graphs

    def cuStreamCreate(self, flags: int) -> int:
        return int(self._call("cuStreamCreate", flags))

    def cuStreamSynchronize(self, stream: int) -> None:
        self._call("cuStreamSynchronize", stream)

    def cuStreamWaitEvent(self, stream: int, event: int) -> None:
        self._call("cuStreamWaitEvent", stream, event, 0)

    def cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        self._call("cuStreamBeginCapture", stream, self._cu.CUstreamCaptureMode(mode))

    def cuStreamEndCapture(self, stream: int) -> int:
        return int(self._call("cuStreamEndCapture", stream))

    def cuEventCreate(self, flags: int) -> int:
        return int(self._call("cuEventCreate", flags))

    def cuEventRecord(self, event: int, stream: int) -> None:
        self._call("cuEventRecord", event, stream)

    def cuEventSynchronize(self, event: int) -> None:
        self._call("cuEventSynchronize", event)

    def cuEventDestroy(self, event: int) -> None:
        self._call("cuEventDestroy", event)

    def cuEventElapsedTime(self, first: int, second: int) -> float:
        return float(self._call("cuEventElapsedTime", first, second))

    def cuGraphInstantiate(self, graph: int) -> int:
        return int(self._call("cuGraphInstantiate", graph, 0))

    def cuGraphLaunch(self, executable: int, stream: int) -> None:
        self._call("cuGraphLaunch", executable, stream)

    def cuGraphExecDestroy(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", executable)

    def cuGraphDestroy(self, graph: int) -> None:
        self._call("cuGraphDestroy", graph)

    # -- memory

    def cuDeviceGetDefaultMemPool(self, device: int) -> int:
        return int(self._call("cuDeviceGetDefaultMemPool", device))

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        number = self._cu.cuuint64_t(value)
        self._call("cuMemPoolSetAttribute", pool, self._cu.CUmemPool_attribute(attribute), number)

    def cuMemPoolTrimTo(self, pool: int, kept: int) -> None:
        self._call("cuMemPoolTrimTo", pool, kept)

    def cuMemAllocAsync(self, nbytes: int, stream: int) -> int:
        return int(self._call("cuMemAllocAsync", nbytes, stream))

    def cuMemFreeAsync(self, address: int, stream: int) -> None:
        self._call("cuMemFreeAsync", address, stream)

    def cuMemAlloc(self, nbytes: int) -> int:
        return int(self._call("cuMemAlloc", nbytes))

    def cuMemFree(self, address: int) -> None:
        self._call("cuMemFree", address)

    def cuMemGetInfo(self) -> tuple[int, int]:
        try:
            status, free, total = self._cu.cuMemGetInfo()
        except RuntimeError as error:
            raise self._missing("cuMemGetInfo", error) from error
        if int(status) != 0:
            raise self._failure("cuMemGetInfo", status)
        return int(free), int(total)

    def cuMemHostAlloc(self, nbytes: int) -> int:
        return int(self._call("cuMemHostAlloc", nbytes, 0))

    def cuMemFreeHost(self, address: int) -> None:
        self._call("cuMemFreeHost", address)

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyHtoDAsync", target, source, nbytes, stream)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoHAsync", target, source, nbytes, stream)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self._call("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> int:
        return int(self._call("cuPointerGetAttribute", self._cu.CUpointer_attribute(attribute), address))

    # -- tensor maps

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
        rank = len(extents)
        room = (ctypes.c_uint8 * (MAP_BYTES + MAP_ALIGNMENT))()
        offset = -ctypes.addressof(room) % MAP_ALIGNMENT
        uint64_array, uint32_array = ctypes.c_uint64 * 5, ctypes.c_uint32 * 5
        status = self._encode(
            ctypes.addressof(room) + offset, element, rank, address, uint64_array(*extents), uint64_array(*strides),
            uint32_array(*box), uint32_array(*[1] * rank), 0, swizzle, promotion, fill,
        )  # fmt: skip
        if status != 0:
            raise self._failure("cuTensorMapEncodeTiled", self._cu.CUresult(status))
        return bytes(room)[offset : offset + MAP_BYTES]

    @functools.cached_property
    def _encode(self) -> Callable[..., int]:
        """The driver's own function: the bindings' objects for maps are not aligned to 64 bytes, as the
        driver requires."""
        address = self._call("cuGetProcAddress", b"cuTensorMapEncodeTiled", FIRST_WITH_MAPS, 0)
        if not address:
            raise DeviceError("the CUDA driver has no cuTensorMapEncodeTiled; fix: install a newer driver")
        number, pointer = ctypes.c_int, ctypes.c_void_p
        kinds = [pointer, number, ctypes.c_uint32, pointer, pointer, pointer, pointer, pointer, number, number, number, number]
        calling = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)
        return calling(number, *kinds)(int(address))

    # -- code and launches

    def cuModuleLoadDataEx(self, image: bytes) -> int:
        return self._assembled("cuModuleLoadDataEx", image)

    def cuLibraryLoadData(self, image: bytes) -> int:
        return self._assembled("cuLibraryLoadData", image, [], [], 0)

    def _assembled(self, name: str, image: bytes, *rest: object) -> int:
        """Calls a function that assembles a text. The assembler's errors are in the failure's `log`."""
        option, log = self._cu.CUjit_option, bytearray(LOG_BYTES)
        keys = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        values = [log, len(log)]
        given = (len(keys), keys, values) if name == "cuModuleLoadDataEx" else (keys, values, len(keys))
        try:
            status, handle = getattr(self._cu, name)(image, *given, *rest)
        except RuntimeError as error:
            raise self._missing(name, error) from error
        if int(status) != 0:
            said = bytes(log).split(b"\0")[0].decode("utf-8", "replace").strip()
            raise self._failure(name, status, said)
        return int(handle)

    def cuModuleGetFunction(self, module: int, name: str) -> int:
        return int(self._call("cuModuleGetFunction", module, name.encode()))

    def cuModuleUnload(self, module: int) -> None:
        self._call("cuModuleUnload", module)

    def cuLibraryGetModule(self, library: int) -> int:
        return int(self._call("cuLibraryGetModule", library))

    def cuLibraryUnload(self, library: int) -> None:
        self._call("cuLibraryUnload", library)

    def cuFuncGetAttribute(self, attribute: int, function: int) -> int:
        return int(self._call("cuFuncGetAttribute", self._function_attribute(attribute), function))

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self._call("cuFuncSetAttribute", function, self._function_attribute(attribute), value)

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
        cu = self._cu
        if cluster is None:  # the older call, which takes plain numbers, is the quicker one
            self._call("cuLaunchKernel", function, *grid, threads, 1, 1, shared, stream, parameters, 0)
            return
        attribute = cu.CUlaunchAttribute()
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = cluster
        config = cu.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes, config.hStream = shared, cu.CUstream(stream)
        config.attrs, config.numAttrs = [attribute], 1
        self._call("cuLaunchKernelEx", config, function, parameters, 0)
