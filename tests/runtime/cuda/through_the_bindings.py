"""Run by test_bindings.py in a process that finds the stub driver: every call of `Driver`, then a launch as users write it."""

from __future__ import annotations

import ctypes

import joinery as jn
import numpy as np
from joinery.runtime.cuda import current, driver
from joinery.runtime.cuda.device import cuda_device

ADD_ONE_TO_N = """
tt.func public @put(%o: !tt.ptr<i32>, %n: i32) {
  tt.store %o, %n : !tt.ptr<i32>
  tt.return
}
"""


def say(*values: object) -> None:
    print(*values, flush=True)


def every_call() -> None:
    d = current.driver()
    say(d.cuDriverGetVersion(), d.cuDeviceGetCount(), d.cuDeviceGet(1), d.cuDeviceGetName(71), d.cuDeviceTotalMem(71))
    say(d.cuDeviceGetAttribute(97, 71), hex(d.cuDevicePrimaryCtxRetain(71)), d.cuCtxGetCurrent())
    d.cuCtxPushCurrent(0xC1)
    d.cuCtxPopCurrent()
    stream = d.cuStreamCreate(1)
    d.cuStreamWaitEvent(stream, 14)
    event = d.cuEventCreate(2)
    d.cuEventRecord(event, stream)
    d.cuEventSynchronize(event)
    say(d.cuEventElapsedTime(event, 15))
    d.cuEventDestroy(event)
    d.cuStreamBeginCapture(stream, 1)
    graph = d.cuStreamEndCapture(stream)
    executable = d.cuGraphInstantiate(graph)
    d.cuGraphLaunch(executable, stream)
    d.cuGraphExecDestroy(executable)
    d.cuGraphDestroy(graph)
    pool = d.cuDeviceGetDefaultMemPool(71)
    d.cuMemPoolSetAttribute(pool, 4, 1 << 33)
    d.cuMemPoolTrimTo(pool, 5)
    address = d.cuMemAllocAsync(100, stream)
    host = d.cuMemHostAlloc(99)
    ctypes.memset(host, 7, 12)
    d.cuMemcpyHtoDAsync(address, host, 12, stream)
    d.cuMemcpyDtoHAsync(host + 12, address, 12, stream)
    d.cuMemcpyDtoDAsync(address + 50, address, 12, stream)
    say(ctypes.string_at(host + 12, 12) == b"\7" * 12, d.cuPointerGetAttribute(9, address))
    d.cuMemFreeHost(host)
    d.cuMemFreeAsync(address, stream)
    try:
        d.cuMemAllocAsync(1 << 21, stream)
    except driver.CudaFailure as failure:
        say(repr(failure), failure.code, failure.name)
    say(d.cuMemAlloc(7), d.cuMemGetInfo())
    d.cuMemFree(126)
    say(list(d.cuTensorMapEncodeTiled(9, 1 << 40, [7, 6, 1 << 32], [16, 1 << 39], [8, 4, 2], 3, 2, 1)) == list(range(128)))
    try:
        d.cuTensorMapEncodeTiled(99, 32, [1, 2, 3], [4, 5], [6, 7, 8], 0, 0, 0)
    except driver.CudaFailure as failure:
        say(repr(failure), failure.code, failure.name)
    module = d.cuModuleLoadDataEx(b"good\0")
    function = d.cuModuleGetFunction(module, "kern")
    try:
        d.cuModuleLoadDataEx(b"bad\0")
    except driver.CudaFailure as failure:
        say(repr(failure), failure.log)
    say(d.cuFuncGetAttribute(4, function))
    d.cuFuncSetAttribute(function, 8, 99)
    d.cuModuleUnload(module)
    library = d.cuLibraryLoadData(b"good too\0")
    try:
        d.cuLibraryLoadData(b"bad\0")
    except driver.CudaFailure as failure:
        say(repr(failure), failure.log)
    say(d.cuLibraryGetModule(library))
    d.cuLibraryUnload(library)
    slots = (ctypes.c_uint64 * 2)(0x7F0000001111, 0xFFFFFFFF)
    pointers = (ctypes.c_void_p * 2)(ctypes.addressof(slots), ctypes.addressof(slots) + 8)
    d.cuLaunchKernelEx(function, (3, 4, 5), 128, 1024, stream, None, ctypes.addressof(pointers))
    d.cuLaunchKernelEx(function, (4, 4, 5), 128, 1024, stream, (2, 1, 1), ctypes.addressof(pointers))
    try:
        d.cuStreamSynchronize(0xBAD)
    except driver.CudaFailure as failure:
        say(repr(failure), failure.code, failure.name)


def a_launch() -> None:
    array = np.arange(1000, dtype=np.float32)
    with jn.Buffer(array) as buffer:
        say("round trip", np.array_equal(buffer.numpy(), array))
    out = np.zeros(1, np.int32)
    kernel = jn.kernel.from_ttir(ADD_ONE_TO_N, cache=False)
    kernel.launch((2, 3), out, -42, device="cuda")
    device = cuda_device()
    memory = device.allocate(4)
    loaded = device.load(kernel.gpu_code(device.target).kernel)
    device.capture(lambda: device.launch(loaded, (1, 1, 1), [memory.address, 5])).replay()


if __name__ == "__main__":
    every_call()
    say("-- as users write it")
    a_launch()
