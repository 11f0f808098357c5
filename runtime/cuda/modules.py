"""Loads kernels on a device: the driver's assembler compiles their PTX to machine code for that very chip.

The driver takes whole PTX texts (cuModuleLoadDataEx) and caches their machine code on disk itself. Its linker, which would
return the machine code, treats texts as relocatable: kernels took up to two and a half times the registers that way.
Threads that load modules wait for each other; threads that load libraries (cuLibraryLoadData) do not.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ...lowering.artifact import KernelCode
from ...promotion.errors import DeviceError, InternalError, UserError
from ..gpu import PARAMETER_BYTES
from ..host.threads import default_threads
from . import driver as cu
from .device_properties import DeviceProperties
from .images import Image
from .targets import capability_of, runs_on

MAX_ASSEMBLERS = 16
"""Most threads that assemble kernels at once."""


class CudaKernel:
    """A kernel on a device; implements `LoadedKernel`.

    Attributes:
        function: the driver's handle.  registers: per thread.  prints: whether it may print.
        parameters: the address of the parameters' addresses, which a launch takes.
        is_lent: whether it was launched on a stream of another library, which may have recorded it: it is never unloaded then.
    """

    def __init__(self, device: DeviceProperties, code: KernelCode, image: Image, function: int, registers: int) -> None:
        self.device = device
        self.code = code
        self.function = function
        self.registers = registers
        self.is_lent = False
        self.prints = "vprintf" in code.ptx
        self._image = image
        count = len(code.parameters)
        self._slots = (ctypes.c_uint64 * max(count, 1))()
        self._maps = (ctypes.c_uint8 * (cu.MAP_BYTES * code.parameters.count("ptr") + cu.MAP_ALIGNMENT))()
        next_map = -(-ctypes.addressof(self._maps) // cu.MAP_ALIGNMENT) * cu.MAP_ALIGNMENT
        addresses: list[int] = []
        for index, type_ in enumerate(code.parameters):
            if type_ == "ptr":
                addresses.append(next_map)
                next_map += cu.MAP_BYTES
            else:
                addresses.append(ctypes.addressof(self._slots) + 8 * index)
        self._addresses = tuple(addresses)
        self._pointers = (ctypes.c_void_p * max(count, 1))(*addresses)
        self.parameters = ctypes.addressof(self._pointers)
        self._bits = tuple(8 * PARAMETER_BYTES[type_] for type_ in code.parameters)

    def __repr__(self) -> str:
        return f"<CudaKernel @{self.code.name} on {self.device.name}: {self.registers} registers>"

    def fill(self, arguments: Sequence[int]) -> None:
        """Writes the arguments where the driver reads the parameters. Raises `InternalError` for arguments
        that do not fit."""
        slots = self._slots
        for index, (argument, bits) in enumerate(zip(arguments, self._bits, strict=True)):
            if not -(1 << (bits - 1)) <= argument < 1 << bits:
                raise InternalError(f"@{self.code.name}, argument {index}: {argument} for a parameter of {bits} bits")
            if bits > 64:
                ctypes.memmove(self._addresses[index], argument.to_bytes(bits // 8, "little"), bits // 8)
            else:
                slots[index] = argument & ((1 << bits) - 1)

    def __del__(self) -> None:
        if not self.is_lent:
            self.device.deferred_images.append(self._image)


def check_code(device: DeviceProperties, code: KernelCode) -> None:
    """Raises `UserError` or `DeviceError` for code that cannot run on the device; the error says which limit
    it exceeds."""
    what = f"@{code.name}"
    if not runs_on(code.target, device.capability):
        first, is_exact = capability_of(code.target)
        takes = f"capability {first // 10}.{first % 10}{'' if is_exact else ' or newer'}"
        raise UserError(
            f"{what} was made for {code.target}, which takes {takes}; {device.name} ({device.model}) has "
            f"{device.capability // 10}.{device.capability % 10}; fix: make it for {device.target}"
        )
    cu.check_ptx(code.ptx_version, device.driver_version, what)
    if code.threads > device.max_threads:
        raise UserError(f"{what} has {code.threads} threads in a block; {device.name} takes {device.max_threads} at most")
    if code.shared_bytes > device.max_shared:
        raise UserError(
            f"{what} needs {code.shared_bytes} bytes of shared memory, {code.shared_bytes - device.max_shared} more than the "
            f"{device.max_shared} that a block has on {device.name} ({device.model}); fix: smaller blocks"
        )
    unknown = [type_ for type_ in code.parameters if type_ not in PARAMETER_BYTES]
    if unknown:
        raise InternalError(f"{what} has parameters of types {', '.join(unknown)}, which no launch can fill")


def load_kernel(device: DeviceProperties, code: KernelCode) -> CudaKernel:
    """Loads a checked kernel; the device's context must be current. Raises `UserError` or `DeviceError` if
    the machine code needs too many registers or too much shared memory."""
    return _kernel(device, code, Image(device.driver.cuModuleLoadDataEx(_text(code)), 0))


def load_kernels(device: DeviceProperties, context: int, codes: Sequence[KernelCode]) -> list[CudaKernel]:
    """Loads checked kernels in several threads, each with the context of the device that is current here.

    Leaves out those that have an error: `load_kernel` raises it. The driver must be one with libraries.
    """
    driver = device.driver

    def library(code: KernelCode) -> int:
        driver.cuCtxPushCurrent(context)
        try:
            return driver.cuLibraryLoadData(_text(code))
        except cu.CudaFailure:
            return 0
        finally:
            driver.cuCtxPopCurrent()

    with ThreadPoolExecutor(min(len(codes), MAX_ASSEMBLERS, default_threads())) as pool:
        libraries = list(pool.map(library, codes))
    found: list[CudaKernel] = []
    for code, handle in zip(codes, libraries, strict=True):
        if handle:
            try:
                module = driver.cuLibraryGetModule(handle)
            except cu.CudaFailure:
                driver.cuLibraryUnload(handle)
                continue
            try:
                found.append(_kernel(device, code, Image(module, handle)))
            except (UserError, DeviceError, cu.CudaFailure):
                continue  # `_kernel` has given the code back
    return found


def _text(code: KernelCode) -> bytes:
    return code.ptx.encode() + b"\0"


def _kernel(device: DeviceProperties, code: KernelCode, image: Image) -> CudaKernel:
    """Makes the kernel of loaded code. Unloads the code where it raises."""
    driver, module = device.driver, image.module
    try:
        function = driver.cuModuleGetFunction(module, code.name)
        static = driver.cuFuncGetAttribute(cu.FUNCTION_STATIC_SHARED, function)
        registers = driver.cuFuncGetAttribute(cu.FUNCTION_REGISTERS, function)
        threads = driver.cuFuncGetAttribute(cu.FUNCTION_MAX_THREADS, function)
        if code.threads > threads:
            raise DeviceError(
                f"@{code.name}: {code.threads} threads of {registers} registers do not fit; {device.name} takes {threads} of "
                "them"
            )
        if code.shared_bytes + static > device.max_shared:
            raise UserError(
                f"@{code.name} needs {code.shared_bytes} + {static} bytes of shared memory, "
                f"{code.shared_bytes + static - device.max_shared} more than the {device.max_shared} that a block has on "
                f"{device.name}; fix: smaller blocks"
            )
        if code.shared_bytes + static > cu.DEFAULT_SHARED:
            driver.cuFuncSetAttribute(function, cu.FUNCTION_DYNAMIC_SHARED, code.shared_bytes)
    except BaseException:
        image.unload(driver)
        raise
    return CudaKernel(device, code, image, function, registers)
