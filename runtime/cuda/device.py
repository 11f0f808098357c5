"""Implements CUDA devices: memory, kernels, launches, recordings. `cuda_device("cuda:1")` opens one by name.

A device has one stream of its own in the primary context, which the other libraries of the process share. One thread at a
time uses it. Errors in a kernel surface later, at the next call that waits for it; they then name the kernels in flight.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from types import TracebackType

from ...lowering.artifact import KernelCode, TensorMap
from ...promotion.arrays import Array
from ...promotion.errors import DeviceError, DeviceMemoryError, InternalError, UserError
from ..gpu import GpuMemory, LoadedKernel, check_grid
from . import current
from . import driver as cu
from .device_properties import DeviceProperties
from .modules import CudaKernel, check_code, load_kernel, load_kernels
from .tensor_maps import FIRST_CAPABILITY, encode_map
from .transfers import Transfers

_NAME = re.compile(r"cuda(?::(\d+))?")


def cuda_device(name: str | int = "cuda") -> CudaDevice:
    """Returns the device `"cuda"`, `"cuda:1"` or of that number; the same object every time.

    Raises `UserError` for other names; `DeviceError` where there is no driver or no device of that number, or where one of
    them is too old.
    """
    if isinstance(name, str):
        match = _NAME.fullmatch(name)
        if match is None:
            raise UserError(f"device {name!r}: expected 'cuda' or 'cuda:N'")
        ordinal = int(match[1] or 0)
    else:
        ordinal = int(name)
    with current.lock:
        driver, devices = current.driver(), current.devices()
        if ordinal not in devices:
            count = driver.cuDeviceGetCount()
            if not 0 <= ordinal < count:
                found = f"{count} CUDA device{'s' if count != 1 else ''}"
                raise DeviceError(f"there is no device cuda:{ordinal}; the driver finds {found}, numbered from 0")
            devices[ordinal] = CudaDevice(driver, ordinal)
        device: CudaDevice = devices[ordinal]
        return device


NOWHERE, LEGACY, ANYWHERE = 0, 1, 2
"""Which streams of other libraries may use memory: none, the legacy default stream only, any."""
LEGACY_STREAM = 1
"""The legacy default stream's number in DLPack, the CUDA array interface and the driver."""


class CudaMemory:
    """An allocation on a device; implements `GpuMemory`. Memory that was not freed is freed when the object dies.

    Attributes:
        elsewhere: which streams of other libraries may use it. These libraries release it when they have queued its last
            use, which may not be done yet: before it is freed, the device waits for these streams too.
    """

    __slots__ = ("__weakref__", "address", "device", "elsewhere", "nbytes")

    def __init__(self, device: CudaDevice, address: int, nbytes: int) -> None:
        self.device = device
        self.address = address
        self.nbytes = nbytes
        self.elsewhere = NOWHERE

    def __repr__(self) -> str:
        return f"<CudaMemory on {self.device.name}: {self.nbytes} bytes at {self.address:#x}>"

    def free(self) -> None:
        address, self.address, self.nbytes = self.address, 0, 0
        if address:
            self.device.release(address, self.elsewhere)

    def __del__(self) -> None:
        # runs on any thread, in the middle of any call: the free is only deferred
        if self.address:
            self.device.deferred_frees.append((self.address, self.elsewhere))


class CudaRecording:
    """A graph of launches; implements `Recording`."""

    def __init__(self, device: CudaDevice, executable: int, launches: list[tuple[CudaKernel, tuple[int, int, int]]]) -> None:
        self._device = device
        self._executable = executable
        self._launches = launches  # keeps the kernels loaded

    def replay(self) -> None:
        if not self._executable:
            raise UserError("the recording was freed")
        self._device.replay(self._executable, self._launches)

    def free(self) -> None:
        executable, self._executable = self._executable, 0
        if executable:
            self._device.release_graph(executable)

    def __del__(self) -> None:
        if self._executable:
            self._device.deferred_graphs.append(self._executable)


class _ContextGuard:
    """Makes the device's context current, excludes other threads, and adds to driver errors what was being done."""

    __slots__ = ("_device", "_doing", "_pushed", "_values")

    def __init__(self, device: CudaDevice, doing: str, values: tuple[object, ...]) -> None:
        self._device = device
        self._doing, self._values = doing, values
        self._pushed = False

    def __enter__(self) -> None:
        device = self._device
        device.lock.acquire()
        try:
            device.check_alive()
            if device.driver.cuCtxGetCurrent() != device.context:
                device.driver.cuCtxPushCurrent(device.context)
                self._pushed = True
        except BaseException:
            device.lock.release()
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        device = self._device
        try:
            if self._pushed:
                device.driver.cuCtxPopCurrent()
        finally:
            device.lock.release()
        if isinstance(error, cu.CudaFailure):
            raise device.error_of(error, self._doing % self._values) from error


class CudaDevice(DeviceProperties):
    """Implements `GpuDevice` for a CUDA device. stream: the handle of its own stream."""

    def __init__(self, driver: cu.Driver, ordinal: int) -> None:
        super().__init__(driver, ordinal)
        self.lock = threading.RLock()
        self.deferred_frees: deque[tuple[int, int]] = deque()
        self.deferred_graphs: deque[int] = deque()
        self._lost: DeviceError | None = None
        self._in_flight: deque[tuple[str, tuple[int, int, int]]] = deque(maxlen=8)
        self._prints = False
        self._recorded: list[tuple[CudaKernel, tuple[int, int, int]]] | None = None
        self._kernels: weakref.WeakValueDictionary[KernelCode, CudaKernel] = weakref.WeakValueDictionary()
        self.context = driver.cuDevicePrimaryCtxRetain(self.handle)
        self._pool = driver.cuDeviceGetDefaultMemPool(self.handle) if self._attribute(cu.POOLS_SUPPORTED) else 0
        with self._context_guard("setting up the device"):
            if self._pool:
                # freed memory is kept for later allocations, up to a quarter of the total, since others need memory too
                driver.cuMemPoolSetAttribute(self._pool, cu.RELEASE_THRESHOLD, self.total_memory // 4)
            self.stream = driver.cuStreamCreate(cu.STREAM_NON_BLOCKING)
            self._transfers = Transfers(driver, self.stream)

    def __repr__(self) -> str:
        return f"<CudaDevice {self.name!r}: {self.model}, {self.target}>"

    # -- context and errors ----------------------------------------------------------------

    def _context_guard(self, doing: str, *values: object) -> _ContextGuard:
        return _ContextGuard(self, doing, values)

    def check_alive(self) -> None:
        """Raises `DeviceError` if an earlier error made the device unusable in this process."""
        if self._lost is not None:
            lost = self._lost
            text = f"{self.name} is lost to this process since an earlier error. It was: {lost}"
            raise DeviceError(text, lost.code, lost.name)

    def error_of(self, failure: cu.CudaFailure, doing: str) -> DeviceError:
        """Returns the error for a failed call: what was being done, and which kernels may have caused it."""
        text = f"{self.name}, {doing}: {failure.name} ({failure.code}): {failure.meaning}"
        if failure.log:
            text += f"; the driver's assembler says: {failure.log}"
        if failure.code not in cu.STICKY:
            return DeviceError(text, failure.code, failure.name)
        if self._in_flight:
            launched = ", ".join(f"@{name} on grid {grid}" for name, grid in self._in_flight)
            text += f"; on their way were: {launched}"
        if failure.code == cu.ASSERT:
            text += "; an assertion of a kernel failed, and the device wrote which one to the standard error output"
        text += "; nothing on this device works any more in this process; fix: start a new one; device='ptxsim' finds the line"
        self._lost = DeviceError(text, failure.code, failure.name)
        return self._lost

    def _not_while_recording(self, what: str) -> None:
        if self._recorded is not None:
            raise UserError(f"{self.name}: {what} while launches are recorded; fix: do it before")

    def _sweep(self) -> None:
        """Frees the memory, recordings and modules whose objects died."""
        if self.deferred_frees:
            self._free_deferred()
        while self.deferred_graphs:
            self.driver.cuGraphExecDestroy(self.deferred_graphs.popleft())
        if self.deferred_images:
            self.driver.cuStreamSynchronize(self.stream)  # code must not be unloaded while its kernels run
            while self.deferred_images:
                self.deferred_images.popleft().unload(self.driver)

    # -- memory --------------------------------------------------------------------------

    def allocate(self, nbytes: int) -> CudaMemory:
        """Implements `GpuDevice.allocate`. When memory runs out, memory that the pool and copies keep is
        freed before another attempt."""
        if nbytes < 0:
            raise UserError(f"{self.name}: {nbytes} bytes of memory")
        if nbytes == 0:
            return CudaMemory(self, 0, 0)
        with self._context_guard("allocating %d bytes", nbytes):
            self._not_while_recording("memory is allocated")
            self._sweep()
            try:
                return CudaMemory(self, self._allocate(nbytes), nbytes)
            except cu.CudaFailure as failure:
                if failure.code != cu.OUT_OF_MEMORY:
                    raise
            gc.collect()
            self._sweep()
            self.driver.cuStreamSynchronize(self.stream)
            if self._pool:
                self.driver.cuMemPoolTrimTo(self._pool, 0)
            self._transfers.free()  # page-locked memory counts where host and device share their memory
            try:
                return CudaMemory(self, self._allocate(nbytes), nbytes)
            except cu.CudaFailure as failure:
                if failure.code != cu.OUT_OF_MEMORY:
                    raise
                free, total = self.driver.cuMemGetInfo()
                raise DeviceMemoryError(
                    f"{self.name} ({self.model}): {nbytes} bytes of memory were asked for, {free} of {total} are free; fix: "
                    "free other buffers, use smaller ones, or another device",
                    nbytes, free, total,
                ) from failure  # fmt: skip

    def _allocate(self, nbytes: int) -> int:
        return self.driver.cuMemAllocAsync(nbytes, self.stream) if self._pool else self.driver.cuMemAlloc(nbytes)

    def _free_deferred(self) -> None:
        dead = [self.deferred_frees.popleft() for _ in range(len(self.deferred_frees))]
        for address, elsewhere in dead:
            if elsewhere == NOWHERE:
                self._free(address)
        lent = [(address, elsewhere) for address, elsewhere in dead if elsewhere != NOWHERE]
        if lent and self._wait_elsewhere(max(elsewhere for _, elsewhere in lent)):
            for address, _ in lent:
                self._free(address)
        else:
            self.deferred_frees.extend(lent)

    def _wait_elsewhere(self, streams: int) -> bool:
        """Orders frees after the work on these streams of other libraries. Returns False if that is
        impossible now, because one of the streams is being captured: the free must wait. Only the default
        stream is certain to exist still; for others the whole context is synchronized."""
        try:
            if streams == LEGACY:
                self._follow(LEGACY_STREAM, self.stream)
            elif streams == ANYWHERE:
                self.driver.cuCtxSynchronize()
        except cu.CudaFailure as failure:
            if failure.code in cu.RECORDED:
                return False
            raise
        return True

    def _free(self, address: int) -> None:
        if self._pool:
            self.driver.cuMemFreeAsync(address, self.stream)
        else:
            self.driver.cuStreamSynchronize(self.stream)
            self.driver.cuMemFree(address)

    def release(self, address: int, elsewhere: int = NOWHERE) -> None:
        """Frees memory in the order of the stream, and after the streams of other libraries that may use it.
        Does nothing on a lost device; defers the free during a recording."""
        if self._lost is not None:
            return
        with self._context_guard("freeing memory"):
            if self._recorded is not None or not self._wait_elsewhere(elsewhere):
                self.deferred_frees.append((address, elsewhere))
            else:
                self._free(address)

    def release_graph(self, executable: int) -> None:
        if self._lost is None:
            with self._context_guard("freeing a recording"):
                self.driver.cuGraphExecDestroy(executable)

    def upload(self, memory: GpuMemory, offset: int, array: Array) -> None:
        self._check_copy(memory, offset, array, "upload")
        if array.nbytes:
            with self._context_guard("copying %d bytes to the device", array.nbytes):
                self._not_while_recording("memory is copied")
                self._transfers.upload(memory.address + offset, array.ctypes.data, array.nbytes)

    def download(self, memory: GpuMemory, offset: int, array: Array) -> None:
        self._check_copy(memory, offset, array, "download")
        if not array.flags.writeable:
            raise UserError(f"{self.name}, download: the array is read-only")
        if array.nbytes:
            with self._context_guard("copying %d bytes from the device", array.nbytes):
                self._not_while_recording("memory is copied")
                self._transfers.download(array.ctypes.data, memory.address + offset, array.nbytes)

    def read(self, address: int, array: Array) -> None:
        """Implements `GpuDevice.read`."""
        with self._context_guard("reading %d bytes from address %#x", array.nbytes, address):
            self._not_while_recording("memory is read")
            self._transfers.download(array.ctypes.data, address, array.nbytes)

    def write(self, address: int, array: Array) -> None:
        """Implements `GpuDevice.write`."""
        with self._context_guard("writing %d bytes to address %#x", array.nbytes, address):
            self._not_while_recording("memory is written")
            self._transfers.upload(address, array.ctypes.data, array.nbytes)

    def copy_between(self, target: int, source: int, nbytes: int) -> None:
        """Copies bytes from one address to another, in the order of the calls."""
        if nbytes:
            with self._context_guard("copying %d bytes on the device", nbytes):
                self._not_while_recording("memory is copied")
                self.driver.cuMemcpyDtoDAsync(target, source, nbytes, self.stream)

    def copy(self, target: GpuMemory, target_offset: int, source: GpuMemory, source_offset: int, nbytes: int) -> None:
        """Copies bytes between allocations of this device, in the order of the calls. Raises `UserError` for
        bytes out of bounds."""
        for memory, offset in ((target, target_offset), (source, source_offset)):
            if offset < 0 or nbytes < 0 or offset + nbytes > memory.nbytes:
                raise UserError(f"{self.name}, copy: bytes {offset} to {offset + nbytes} of memory that has {memory.nbytes}")
        self.copy_between(target.address + target_offset, source.address + source_offset, nbytes)

    def _check_copy(self, memory: GpuMemory, offset: int, array: Array, what: str) -> None:
        if not array.flags.c_contiguous or array.dtype.hasobject:
            raise UserError(f"{self.name}, {what}: the array is not C-contiguous; pass numpy.ascontiguousarray(array)")
        if offset < 0 or offset + array.nbytes > memory.nbytes:
            raise UserError(
                f"{self.name}, {what}: bytes {offset} to {offset + array.nbytes} of memory that has {memory.nbytes}"
            )

    # -- kernels -------------------------------------------------------------------------

    def load(self, code: KernelCode) -> CudaKernel:
        """Implements `GpuDevice.load`. The driver compiles the PTX to machine code and caches that on disk."""
        check_code(self, code)
        with self._context_guard("loading @%s for %s, PTX %s", code.name, code.target, cu.ptx_text(code.ptx_version)):
            found = self._kernels.get(code)
            if found is None:
                self._not_while_recording("a kernel is loaded")
                self._sweep()
                found = load_kernel(self, code)
                self._kernels[code] = found
            return found

    def preload(self, codes: Sequence[KernelCode]) -> Sequence[LoadedKernel]:
        """Implements `GpuDevice.preload`: the driver assembles the texts on several threads, if it can (from CUDA 12 on)."""
        if self.driver_version < cu.LIBRARIES:
            return ()
        fitting: list[KernelCode] = []
        for code in dict.fromkeys(codes):
            try:
                check_code(self, code)
            except (UserError, DeviceError):
                continue
            fitting.append(code)
        with self._context_guard("loading %d kernels", len(fitting)):
            kept = [self._kernels.get(code) for code in fitting]
            rest = [code for code, kernel in zip(fitting, kept, strict=True) if kernel is None]
            if len(rest) < 2:
                return [kernel for kernel in kept if kernel is not None]
            self._not_while_recording("kernels are loaded")
            self._sweep()
            found = load_kernels(self, self.context, rest)
            self._kernels.update({kernel.code: kernel for kernel in found})
            return [*[kernel for kernel in kept if kernel is not None], *found]

    def launch(
        self,
        loaded: LoadedKernel,
        grid: tuple[int, int, int],
        arguments: Sequence[int],
        cluster: tuple[int, int, int] | None = None,
        stream: int | None = None,
    ) -> None:
        """Implements `GpuDevice.launch`. cluster: blocks of a cluster along x, y, z, which must divide the grid.
        stream: another library's, to launch there; the caller orders it with the device's own."""
        if not isinstance(loaded, CudaKernel) or loaded.device is not self:
            raise InternalError(f"{self.name}: a launch of {loaded!r}, which was loaded on another device")
        code = loaded.code
        if 0 in grid:
            return
        self._check_grid(code.name, grid, cluster)
        if len(arguments) != len(code.parameters):
            raise InternalError(f"@{code.name} takes {len(code.parameters)} arguments, {len(arguments)} were given")
        doing = "launching @%s on grid %s with %d threads and %d bytes of shared memory"
        with self._context_guard(doing, code.name, grid, code.threads, code.shared_bytes):
            loaded.is_lent = loaded.is_lent or stream is not None
            loaded.fill(arguments)
            self.driver.cuLaunchKernelEx(
                loaded.function, grid, code.threads, code.shared_bytes, self.stream if stream is None else stream, cluster,
                loaded.parameters,
            )  # fmt: skip
            if self._recorded is not None:
                self._recorded.append((loaded, grid))
            else:
                self._note(loaded, grid)

    def tensor_map(
        self, facts: TensorMap, address: int, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool = False
    ) -> int:
        """Implements `GpuDevice.tensor_map`. Raises `UserError` also for devices without tensor maps."""
        if self.capability < FIRST_CAPABILITY:
            raise UserError(f"{self.name} ({self.model}) has no tensor maps; they came with compute capability 9.0")
        with self._context_guard("making a tensor map"):
            return encode_map(self.driver, facts, address, extents, strides, pads_with_nan)

    def _note(self, kernel: CudaKernel, grid: tuple[int, int, int]) -> None:
        self._in_flight.append((kernel.code.name, grid))
        self._prints = self._prints or kernel.prints

    def _check_grid(self, name: str, grid: tuple[int, int, int], cluster: tuple[int, int, int] | None) -> None:
        check_grid(name, grid, self.name, self.max_blocks)
        if cluster is not None and any(c < 1 or g % c for g, c in zip(grid, cluster, strict=True)):
            raise UserError(f"@{name}: clusters of {cluster} blocks do not divide the grid {grid}")

    def synchronize(self) -> None:
        """Implements `GpuDevice.synchronize`. What kernels printed is written to the standard output by then."""
        with self._context_guard("waiting for the device"):
            self._not_while_recording("the device is waited for")
            self._sweep()
            if self._prints:
                sys.stdout.flush()  # before C's buffer, which holds what kernels print and goes to the same file
            self.driver.cuStreamSynchronize(self.stream)
            self._in_flight.clear()
            if self._prints and os.name == "posix":
                ctypes.CDLL(None).fflush(None)
            self._prints = False

    def time(self, call: Callable[[], object], repeats: int = 1) -> list[float]:
        """Measures the device time, in milliseconds, of the work that each of `repeats` calls queues; waits
        at the end.

        It is the time between two events on the stream, which includes idle time where the device is faster
        than the host.
        """
        events: list[tuple[int, int]] = []
        try:
            for _ in range(repeats):
                with self._context_guard("timing"):
                    self._not_while_recording("time is taken")
                    first = self.driver.cuEventCreate(cu.EVENT_DEFAULT)
                    events.append((first, 0))
                    events[-1] = first, self.driver.cuEventCreate(cu.EVENT_DEFAULT)
            for first, second in events:
                with self._context_guard("timing"):
                    self.driver.cuEventRecord(first, self.stream)
                call()
                with self._context_guard("timing"):
                    self.driver.cuEventRecord(second, self.stream)
            self.synchronize()
            with self._context_guard("timing"):
                return [self.driver.cuEventElapsedTime(first, second) for first, second in events]
        finally:
            if self._lost is None:
                with self._context_guard("timing"):
                    for event in [each for pair in events for each in pair if each]:
                        self.driver.cuEventDestroy(event)

    # -- recordings ----------------------------------------------------------------------

    def capture(self, record: Callable[[], object]) -> CudaRecording:
        """Implements `GpuDevice.capture` with a CUDA graph that is instantiated once. Other threads wait
        meanwhile."""
        with self._context_guard("recording launches"):
            self._not_while_recording("a recording begins")
            self._sweep()
            self._recorded = []
            try:
                self.driver.cuStreamBeginCapture(self.stream, cu.CAPTURE_THREAD_LOCAL)
                try:
                    record()
                except BaseException:
                    self._end_capture_after_error()
                    raise
                graph = self.driver.cuStreamEndCapture(self.stream)
                try:
                    return CudaRecording(self, self.driver.cuGraphInstantiate(graph), self._recorded)
                finally:
                    self.driver.cuGraphDestroy(graph)
            finally:
                self._recorded = None

    def _end_capture_after_error(self) -> None:
        try:
            graph = self.driver.cuStreamEndCapture(self.stream)
        except cu.CudaFailure:  # the failed call may have ended the capture; the first error is the one to report
            return
        if graph:
            self.driver.cuGraphDestroy(graph)

    def replay(self, executable: int, launches: list[tuple[CudaKernel, tuple[int, int, int]]]) -> None:
        """Launches a recorded graph."""
        with self._context_guard("replaying %d recorded launches", len(launches)):
            self._not_while_recording("a recording is replayed")
            self.driver.cuGraphLaunch(executable, self.stream)
            for kernel, grid in launches[-8:]:
                self._note(kernel, grid)
            self._prints = self._prints or any(kernel.prints for kernel, _ in launches)

    # -- other streams -------------------------------------------------------------------

    @property
    def is_recording(self) -> bool:
        """Whether `capture` is recording launches."""
        return self._recorded is not None

    def wait_for(self, stream: int) -> None:
        """Makes later work of this device wait for the work queued now on another library's stream."""
        self._order(stream, self.stream)

    def let_wait(self, stream: int) -> None:
        """Makes later work on another library's stream wait for the work queued now on this device."""
        self._order(self.stream, stream)

    def _order(self, first: int, second: int) -> None:
        with self._context_guard("ordering streams"):
            self._not_while_recording("a stream of another library is waited for")
            self._follow(first, second)

    def _follow(self, first: int, second: int) -> None:
        event = self.driver.cuEventCreate(cu.EVENT_DISABLE_TIMING)
        try:
            self.driver.cuEventRecord(event, first)
            self.driver.cuStreamWaitEvent(second, event)
        finally:
            self.driver.cuEventDestroy(event)

    def ordinal_of(self, address: int) -> int:
        """Returns the number of the device whose memory contains an address. Raises `DeviceError` for other
        addresses."""
        with self._context_guard("asking whose address %#x is", address):
            return self.driver.cuPointerGetAttribute(cu.POINTER_ORDINAL, address)
