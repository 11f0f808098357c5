"""Fakes a CUDA driver for tests: memory, streams, modules, graphs and launches, which the PTX simulator carries out.

Streams are lazy: work on a stream is done when something waits for it, so that a missing or late wait shows. Addresses are
never used twice. Use that the real driver leaves undefined (accesses outside an allocation or after its free, double frees)
raises `AssertionError` here.
"""

from __future__ import annotations

import ctypes
import itertools
import re
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from joinery.promotion.errors import UserError
from joinery.runtime.cuda.driver import CudaFailure, highest_ptx
from joinery.runtime.ptxsim.checks.findings import PtxCheckError
from joinery.runtime.ptxsim.core import arguments
from joinery.runtime.ptxsim.core.arguments import Arena
from joinery.runtime.ptxsim.core.binder import bind
from joinery.runtime.ptxsim.core.machine import Machine
from joinery.runtime.ptxsim.launch import BUDGET, Module, _Launch
from joinery.runtime.ptxsim.memory.spaces import GLOBAL_BASE, Allocation, GlobalMemory

from .fake_maps import encoded_map
from .fake_objects import Block, Function, Loaded, Stream

NAMES = {
    1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 3: "CUDA_ERROR_NOT_INITIALIZED", 100: "CUDA_ERROR_NO_DEVICE",
    201: "CUDA_ERROR_INVALID_CONTEXT", 209: "CUDA_ERROR_NO_BINARY_FOR_GPU", 218: "CUDA_ERROR_INVALID_PTX",
    222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", 400: "CUDA_ERROR_INVALID_HANDLE", 500: "CUDA_ERROR_NOT_FOUND",
    700: "CUDA_ERROR_ILLEGAL_ADDRESS", 710: "CUDA_ERROR_ASSERT", 600: "CUDA_ERROR_NOT_READY", 719: "CUDA_ERROR_LAUNCH_FAILED",
    900: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", 901: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
}  # fmt: skip
WINDOW = 1 << 24
"""The range of addresses of one device."""
GAP = 4096


class FakeDriver:
    """Implements `Driver` without a GPU.

    Args:
        devices, capability, version, memory, pools: the properties of the driver and of each device.
        max_threads: the limit that devices and functions report.

    `calls`: (name, arguments) of every call.  `printed`: the output of kernels.  `violations`: their violations.
    """

    def __init__(
        self,
        devices: int = 1,
        capability: tuple[int, int] = (8, 0),
        version: int = 12040,
        memory: int = 1 << 23,
        pools: bool = True,
        max_threads: int = 1024,
    ) -> None:
        self.count, self.capability, self.version, self.memory = devices, capability, version, memory
        self.pools, self.max_threads = pools, max_threads
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.printed = ""
        self.violations: list[str] = []
        self.cached: Counter[tuple[int, int]] = Counter()  # (device, size) → freed allocations that a pool keeps
        self.blocks: dict[int, Block] = {}
        self.streams: dict[int, Stream] = {}
        self.events: dict[int, tuple[Stream, int] | None] = {}
        self.timed: set[int] = set()
        self.graphs: dict[int, list[Callable[[], None]]] = {}
        self.executables: dict[int, list[Callable[[], None]]] = {}
        self.modules: dict[int, Loaded] = {}
        self.functions: dict[int, Function] = {}
        self.pinned: dict[int, Any] = {}
        self.dead: dict[int, int] = {}  # device → the error that ended it
        self._places = [WINDOW * n + GAP for n in range(devices)]
        self._contexts = threading.local()
        self._failures: dict[str, dict[int, int]] = {}
        self._counts: Counter[str] = Counter()
        self._handles = itertools.count(101)  # threads load libraries at once

    # -- for tests

    def fail(self, name: str, code: int, nth: int = 1) -> None:
        """Makes the nth call of this name from now on fail."""
        self._failures.setdefault(name, {})[self._counts[name] + nth] = code

    def named(self, *names: str) -> list[tuple[str, tuple[Any, ...]]]:
        return [call for call in self.calls if call[0] in names]

    def live(self) -> list[Block]:
        return [block for block in self.blocks.values() if not block.is_freed and not block.is_variable]

    def settle(self) -> None:
        """Carries out the work on all streams."""
        for stream in self.streams.values():
            self._run(stream, len(stream.todo))

    def outside(self, device: int, array: np.ndarray[Any, Any]) -> int:
        """Allocates memory of another library with the contents of an array; returns its address."""
        address = self._block(device, array.nbytes, False).address
        self.blocks[address].data[...] = array.reshape(-1).view(np.uint8)
        return address

    def foreign_stream(self, device: int, handle: int) -> Stream:
        self.streams[handle] = Stream(device)
        return self.streams[handle]

    # -- internals

    def _failed(self, name: str, code: int, log: str = "") -> CudaFailure:
        return CudaFailure(name, code, NAMES.get(code, "CUDA_ERROR_UNKNOWN"), "says the fake driver", log)

    def _called(self, name: str, *args: Any, context: bool = True) -> int:
        """Records a call; returns the number of the current context's device."""
        self.calls.append((name, args))
        self._counts[name] += 1
        code = self._failures.get(name, {}).pop(self._counts[name], 0)
        if code:
            raise self._failed(name, code)
        if not context:
            return -1
        if not self._stack():
            raise self._failed(name, 201)
        device = self._stack()[-1] - 1
        if device in self.dead:
            raise self._failed(name, self.dead[device])
        return device

    def _stack(self) -> list[int]:
        if not hasattr(self._contexts, "stack"):
            self._contexts.stack = []
        stack: list[int] = self._contexts.stack
        return stack

    def _handle(self) -> int:
        return next(self._handles)

    def _stream(self, name: str, handle: int, device: int) -> Stream:
        if handle in (1, 2):  # the default streams, of every device
            return self.streams.setdefault(-10 * device - handle, Stream(device))
        stream = self.streams.get(handle)
        if stream is None or stream.device != device:
            raise self._failed(name, 400)
        return stream

    def _put(self, stream: Stream, step: Callable[[], None]) -> None:
        (stream.todo if stream.recorded is None else stream.recorded).append(step)

    def _run(self, stream: Stream, until: int) -> None:
        while stream.done < until and stream.device not in self.dead:
            step = stream.todo[stream.done]
            stream.done += 1
            step()

    def _wait(self, name: str, stream: Stream, until: int) -> None:
        if stream.recorded is not None:
            raise self._failed(name, 900)
        self._run(stream, until)
        if stream.device in self.dead:
            raise self._failed(name, self.dead[stream.device])

    def _block(self, device: int, size: int, pooled: bool) -> Block:
        place = self._places[device]
        self._places[device] = -(-(place + size + GAP) // 256) * 256
        assert self._places[device] < (device + 1) * WINDOW, "the fake device's addresses are used up"
        block = Block(device, GLOBAL_BASE + place, size, pooled, np.full(size, 0xA5, np.uint8))
        self.blocks[block.address] = block
        return block

    def _bytes(self, address: int, size: int) -> np.ndarray[Any, Any]:
        for block in self.blocks.values():
            if block.address <= address and address + size <= block.address + block.size:
                assert not block.is_freed, f"{size} bytes at {address:#x}, which were freed"
                return block.data[address - block.address : address - block.address + size]
        raise AssertionError(f"{size} bytes at {address:#x}, outside all allocations")

    # -- devices and contexts

    def cuInit(self) -> None:
        self._called("cuInit", context=False)

    def cuDriverGetVersion(self) -> int:
        self._called("cuDriverGetVersion", context=False)
        return self.version

    def cuDeviceGetCount(self) -> int:
        self._called("cuDeviceGetCount", context=False)
        return self.count

    def cuDeviceGet(self, ordinal: int) -> int:
        self._called("cuDeviceGet", ordinal, context=False)
        if not 0 <= ordinal < self.count:
            raise self._failed("cuDeviceGet", 101)
        return ordinal

    def cuDeviceGetName(self, device: int) -> str:
        return f"Fake GPU {device}"

    def cuDeviceGetAttribute(self, attribute: int, device: int) -> int:
        self._called("cuDeviceGetAttribute", attribute, device, context=False)
        major, minor = self.capability
        return {
            1: self.max_threads, 5: (1 << 31) - 1, 6: 65535, 7: 65535, 8: 49152, 13: 1_500_000, 16: 4, 38: 1 << 16,
            75: major, 76: minor, 97: 232448 if major == 9 else 166912, 115: int(self.pools),
        }[attribute]  # fmt: skip

    def cuDeviceTotalMem(self, device: int) -> int:
        return self.memory

    def cuDevicePrimaryCtxRetain(self, device: int) -> int:
        self._called("cuDevicePrimaryCtxRetain", device, context=False)
        return device + 1

    def cuCtxGetCurrent(self) -> int:
        return self._stack()[-1] if self._stack() else 0

    def cuCtxPushCurrent(self, context: int) -> None:
        self._called("cuCtxPushCurrent", context, context=False)
        self._stack().append(context)

    def cuCtxPopCurrent(self) -> None:
        self._called("cuCtxPopCurrent", context=False)
        self._stack().pop()

    def cuCtxSynchronize(self) -> None:
        device = self._called("cuCtxSynchronize")
        for stream in [each for each in self.streams.values() if each.device == device]:
            self._wait("cuCtxSynchronize", stream, len(stream.todo))

    # -- streams, events, graphs

    def cuStreamCreate(self, flags: int) -> int:
        device = self._called("cuStreamCreate", flags)
        handle = self._handle()
        self.streams[handle] = Stream(device)
        return handle

    def cuStreamSynchronize(self, stream: int) -> None:
        found = self._stream("cuStreamSynchronize", stream, self._called("cuStreamSynchronize", stream))
        self._wait("cuStreamSynchronize", found, len(found.todo))

    def cuStreamWaitEvent(self, stream: int, event: int) -> None:
        found = self._stream("cuStreamWaitEvent", stream, self._called("cuStreamWaitEvent", stream, event))
        recorded = self.events[event]
        assert recorded is not None, "a wait for an event that was never recorded"
        source, until = recorded
        self._put(found, lambda: self._run(source, until))

    def cuStreamBeginCapture(self, stream: int, mode: int) -> None:
        found = self._stream("cuStreamBeginCapture", stream, self._called("cuStreamBeginCapture", stream, mode))
        assert found.recorded is None
        found.recorded = []

    def cuStreamEndCapture(self, stream: int) -> int:
        found = self._stream("cuStreamEndCapture", stream, self._called("cuStreamEndCapture", stream))
        assert found.recorded is not None
        handle = self._handle()
        self.graphs[handle], found.recorded = found.recorded, None
        return handle

    def cuEventCreate(self, flags: int) -> int:
        self._called("cuEventCreate", flags)
        handle = self._handle()
        self.events[handle] = None
        if flags == 0:
            self.timed.add(handle)
        return handle

    def cuEventRecord(self, event: int, stream: int) -> None:
        found = self._stream("cuEventRecord", stream, self._called("cuEventRecord", event, stream))
        assert event in self.events
        self.events[event] = found, len(found.todo)

    def cuEventSynchronize(self, event: int) -> None:
        self._called("cuEventSynchronize", event)
        recorded = self.events[event]
        if recorded is not None:
            self._wait("cuEventSynchronize", *recorded)

    def cuEventDestroy(self, event: int) -> None:
        self._called("cuEventDestroy", event)
        del self.events[event]

    def cuEventElapsedTime(self, first: int, second: int) -> float:
        """Returns a millisecond for each operation on the stream between the two events."""
        self._called("cuEventElapsedTime", first, second)
        if not {first, second} <= self.timed:
            raise self._failed("cuEventElapsedTime", 400)
        begin, end = self.events[first], self.events[second]
        assert begin is not None
        assert end is not None
        assert begin[0] is end[0], "events of two streams"
        if end[0].done < end[1]:
            raise self._failed("cuEventElapsedTime", 600)
        return float(end[1] - begin[1])

    def cuGraphInstantiate(self, graph: int) -> int:
        self._called("cuGraphInstantiate", graph)
        handle = self._handle()
        self.executables[handle] = list(self.graphs[graph])
        return handle

    def cuGraphLaunch(self, executable: int, stream: int) -> None:
        found = self._stream("cuGraphLaunch", stream, self._called("cuGraphLaunch", executable, stream))
        for step in self.executables[executable]:
            self._put(found, step)

    def cuGraphExecDestroy(self, executable: int) -> None:
        self._called("cuGraphExecDestroy", executable)
        del self.executables[executable]

    def cuGraphDestroy(self, graph: int) -> None:
        self._called("cuGraphDestroy", graph)
        del self.graphs[graph]

    # -- memory

    def cuDeviceGetDefaultMemPool(self, device: int) -> int:
        assert self.pools
        return 1000 + device

    def cuMemPoolSetAttribute(self, pool: int, attribute: int, value: int) -> None:
        self._called("cuMemPoolSetAttribute", pool, attribute, value)

    def cuMemPoolTrimTo(self, pool: int, kept: int) -> None:
        self._called("cuMemPoolTrimTo", pool, kept)
        for key in [key for key in self.cached if key[0] == pool - 1000]:
            del self.cached[key]

    def _used(self, device: int) -> int:
        live = sum(block.size for block in self.live() if block.device == device)
        return live + sum(size * n for (own, size), n in self.cached.items() if own == device)

    def _allocate(self, name: str, device: int, nbytes: int, pooled: bool) -> int:
        assert nbytes > 0
        if pooled and self.cached[device, nbytes]:
            self.cached[device, nbytes] -= 1
        elif self._used(device) + nbytes > self.memory:
            raise self._failed(name, 2)
        return self._block(device, nbytes, pooled).address

    def cuMemAllocAsync(self, nbytes: int, stream: int) -> int:
        device = self._called("cuMemAllocAsync", nbytes, stream)
        assert self._stream("cuMemAllocAsync", stream, device).recorded is None, "an allocation was captured"
        return self._allocate("cuMemAllocAsync", device, nbytes, True)

    def cuMemFreeAsync(self, address: int, stream: int) -> None:
        device = self._called("cuMemFreeAsync", address, stream)
        found = self._stream("cuMemFreeAsync", stream, device)
        assert found.recorded is None, "a free was captured"
        assert address in self.blocks, f"a free of {address:#x}, where nothing was allocated"
        assert self.blocks[address].device == device, "a free on another device"
        self._put(found, lambda: self._free(address, True))

    def _free(self, address: int, pooled: bool) -> None:
        block = self.blocks[address]
        assert not block.is_freed, f"a double free of {address:#x}"
        assert block.pooled == pooled, "freed by the wrong call"
        block.is_freed = True
        if pooled:
            self.cached[block.device, block.size] += 1

    def cuMemAlloc(self, nbytes: int) -> int:
        return self._allocate("cuMemAlloc", self._called("cuMemAlloc", nbytes), nbytes, False)

    def cuMemFree(self, address: int) -> None:
        self._called("cuMemFree", address)
        self._free(address, False)

    def cuMemGetInfo(self) -> tuple[int, int]:
        device = self._called("cuMemGetInfo")
        return self.memory - self._used(device), self.memory

    def cuMemHostAlloc(self, nbytes: int) -> int:
        self._called("cuMemHostAlloc", nbytes)
        buffer = (ctypes.c_uint8 * nbytes)()
        self.pinned[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def cuMemFreeHost(self, address: int) -> None:
        self._called("cuMemFreeHost", address)
        del self.pinned[address]

    def _host(self, address: int, nbytes: int) -> np.ndarray[Any, Any]:
        for start, buffer in self.pinned.items():
            if start <= address and address + nbytes <= start + len(buffer):
                return np.frombuffer(buffer, np.uint8)[address - start : address - start + nbytes]
        raise AssertionError("an asynchronous copy of memory that is not page-locked")

    def cuMemcpyHtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        name = "cuMemcpyHtoDAsync"
        found, host = self._stream(name, stream, self._called(name, target, nbytes, stream)), self._host(source, nbytes)

        def copy() -> None:
            self._bytes(target, nbytes)[...] = host

        self._put(found, copy)

    def cuMemcpyDtoHAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        name = "cuMemcpyDtoHAsync"
        found, host = self._stream(name, stream, self._called(name, source, nbytes, stream)), self._host(target, nbytes)

        def copy() -> None:
            host[...] = self._bytes(source, nbytes)

        self._put(found, copy)

    def cuMemcpyDtoDAsync(self, target: int, source: int, nbytes: int, stream: int) -> None:
        name = "cuMemcpyDtoDAsync"
        found = self._stream(name, stream, self._called(name, target, source, nbytes, stream))

        def copy() -> None:
            self._bytes(target, nbytes)[...] = self._bytes(source, nbytes).copy()

        self._put(found, copy)

    def cuPointerGetAttribute(self, attribute: int, address: int) -> int:
        self._called("cuPointerGetAttribute", attribute, address)
        for block in self.blocks.values():
            if block.address <= address < block.address + max(block.size, 1):
                return block.device
        raise self._failed("cuPointerGetAttribute", 1)

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
        """Returns a map in the simulator's format, or fails where the real driver would."""
        name = "cuTensorMapEncodeTiled"
        self._called(name, element, address, tuple(extents), tuple(strides), tuple(box), swizzle, promotion, fill)
        made = encoded_map(element, address, extents, strides, box, swizzle, promotion, fill)
        if self.capability < (9, 0) or made is None:
            raise self._failed(name, 1)
        return made

    # -- code and launches

    def cuModuleLoadDataEx(self, image: bytes) -> int:
        return self._load("cuModuleLoadDataEx", image)

    def cuLibraryLoadData(self, image: bytes) -> int:
        assert self.version >= 12000, "the driver has no libraries"
        return self._load("cuLibraryLoadData", image)

    def cuLibraryGetModule(self, library: int) -> int:
        self._called("cuLibraryGetModule", library)
        assert library in self.modules
        return library

    def cuLibraryUnload(self, library: int) -> None:
        self._called("cuLibraryUnload", library)
        self._unload(library)

    def _load(self, name: str, image: bytes) -> int:
        device = self._called(name, image)
        assert image.endswith(b"\0"), "the text does not end with a zero"
        text = image[:-1].decode()
        version = re.search(r"^\.version (\d+)\.(\d+)", text, re.M)
        if version is None:
            raise self._failed(name, 218, "ptxas application ptx input, line 1; fatal: no .version")
        if int(version[1]) * 10 + int(version[2]) > highest_ptx(self.version):
            raise self._failed(name, 222)
        try:
            module = Module(text)
        except UserError as error:
            raise self._failed(name, 218, str(error)) from error
        addresses = {}
        for variable in module.ptx.variables.values():
            if variable.space in ("global", "const") and variable.size is not None:
                block = self._block(device, variable.size, False)
                block.is_variable = True
                block.data[...] = 0
                addresses[variable.name] = block.address
        handle = self._handle()
        self.modules[handle] = Loaded(device, module, addresses)
        return handle

    def cuModuleGetFunction(self, module: int, name: str) -> int:
        self._called("cuModuleGetFunction", module, name)
        loaded = self.modules[module]
        if name not in loaded.module.names:
            raise self._failed("cuModuleGetFunction", 500)
        handle = self._handle()
        self.functions[handle] = Function(loaded, loaded.module.kernel(name))
        return handle

    def cuModuleUnload(self, module: int) -> None:
        self._called("cuModuleUnload", module)
        self._unload(module)

    def _unload(self, module: int) -> None:
        loaded = self.modules.pop(module)
        for address in loaded.addresses.values():
            self.blocks[address].is_freed = True

    def cuFuncGetAttribute(self, attribute: int, function: int) -> int:
        self._called("cuFuncGetAttribute", attribute, function)
        variables = self.functions[function].loaded.module.ptx.variables.values()
        static = sum(v.size or 0 for v in variables if v.space == "shared")
        return {0: self.max_threads, 1: static, 4: 32}[attribute]

    def cuFuncSetAttribute(self, function: int, attribute: int, value: int) -> None:
        self._called("cuFuncSetAttribute", function, attribute, value)
        assert attribute == 8
        self.functions[function].dynamic = value

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
        name = "cuLaunchKernelEx"
        device = self._called(name, function, tuple(grid), threads, shared, stream, cluster)
        found, own = self._stream(name, stream, device), self.functions[function]
        if own.loaded.device != device:
            raise self._failed(name, 400)
        if shared > own.dynamic or grid[1] > 65535 or grid[2] > 65535:
            raise self._failed(name, 1)
        kinds = own.kernel.function.parameters
        pointers = (ctypes.c_void_p * max(len(kinds), 1)).from_address(parameters)
        values = [ctypes.string_at(pointers[i], kind.size) for i, kind in enumerate(kinds)]
        assert all(pointers[i] % kind.align == 0 for i, kind in enumerate(kinds)), "a parameter that is not aligned"
        self._put(found, lambda: self._execute(own, tuple(grid), threads, shared, cluster or (1, 1, 1), values))

    def _execute(
        self, function: Function, grid: Any, threads: int, shared: int, cluster: Any, values: list[bytes]
    ) -> None:
        """Runs a kernel on the memory of its device."""
        loaded = function.loaded
        assert loaded in self.modules.values(), "a module was unloaded before its kernel ran"
        device, kernel, module = loaded.device, function.kernel, loaded.module
        blocks = sorted((b for b in self.blocks.values() if b.device == device and not b.is_freed), key=lambda b: b.address)
        allocations = [Allocation(f"block {n}", b.address - GLOBAL_BASE, b.size, True, b.address) for n, b in enumerate(blocks)]
        memory = GlobalMemory(allocations[-1].start + allocations[-1].size + GAP if allocations else GAP, allocations)
        for block in blocks:
            start = block.address - GLOBAL_BASE
            memory.octets[start : start + block.size] = block.data
        arena = Arena(memory, loaded.addresses, arguments._parameter_space(kernel.function), {}, [])
        offset = 0
        for parameter, value in zip(kernel.function.parameters, values, strict=True):
            offset = -(-offset // parameter.align) * parameter.align
            arena.offsets[parameter.name] = offset
            arena.parameters.octets[offset : offset + parameter.size] = np.frombuffer(value, np.uint8)
            offset += parameter.size
        for variable in module.ptx.variables.values():
            if variable.name in loaded.addresses and not loaded.is_initialised:
                start, width = loaded.addresses[variable.name] - GLOBAL_BASE, arguments.SIZES[variable.type]
                arguments._initialise(arena, module.ptx, start, width, variable.values)
        loaded.is_initialised = True
        machine = Machine(
            module.ptx, kernel.function, module.lines, (threads, 1, 1), grid, tuple(cluster), memory, loaded.addresses,
            arena.parameters, arena.offsets, shared, 1, "late", 0, BUDGET,
        )  # fmt: skip
        bind(machine)
        try:
            with np.errstate(all="ignore"):
                _Launch(machine, arena).run()
            failed = [finding for finding in machine.findings if not finding.warning]
            if failed:
                raise PtxCheckError(failed)
        except PtxCheckError as error:
            self.violations.append(str(error))
            self.dead[device] = 710 if error.findings[0].kind == "assert" else 700
        self.printed += machine.printer.text
        for block in blocks:
            start = block.address - GLOBAL_BASE
            block.data[...] = memory.octets[start : start + block.size]
