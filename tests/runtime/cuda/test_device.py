"""CUDA devices on the fake driver: memory, copies, kernels, recordings, and what goes wrong."""

from __future__ import annotations

import gc
import os
import re
import threading
from typing import Any

import numpy as np
import pytest
from joinery import DeviceError, DeviceMemoryError, InternalError, UserError
from joinery.runtime.cuda import current
from joinery.runtime.cuda.device import CudaDevice, cuda_device
from joinery.runtime.cuda.transfers import PIECE, PIECES
from joinery.runtime.gpu import GpuDevice

from ...support.cuda.kernels import add_one

ROOM = 1 << 23


def filled(device: CudaDevice, array: np.ndarray[Any, Any]) -> Any:
    memory = device.allocate(array.nbytes)
    device.upload(memory, 0, array)
    return memory


def contents(device: CudaDevice, memory: Any, dtype: str = "u1") -> np.ndarray[Any, Any]:
    array = np.zeros(memory.nbytes // np.dtype(dtype).itemsize, dtype)
    device.download(memory, 0, array)
    return array


# -- which device


def test_a_device_is_the_protocol_and_says_what_it_is(fake: Any) -> None:
    device: GpuDevice = cuda_device()
    assert (device.name, device.target) == ("cuda", "sm_80")
    assert cuda_device("cuda:0") is device
    assert repr(device) == "<CudaDevice 'cuda': Fake GPU 0, sm_80>"


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1:2", "CUDA"])
def test_other_names_are_refused(fake: Any, name: str) -> None:
    with pytest.raises(UserError, match=f"device '{name}': expected 'cuda' or 'cuda:N'"):
        cuda_device(name)


def test_a_number_that_is_not_there(install: Any) -> None:
    install(devices=2)
    with pytest.raises(DeviceError, match="there is no device cuda:2; the driver finds 2 CUDA devices"):
        cuda_device("cuda:2")


def test_without_a_driver_the_error_says_what_to_do() -> None:
    if current.why_unavailable() is None:
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(DeviceError, match="fix: "):
        cuda_device()


def test_no_device(install: Any) -> None:
    install(devices=0)
    assert current.why_unavailable() == "the CUDA driver finds no device"
    with pytest.raises(DeviceError, match="there is no device cuda:0; the driver finds 0 CUDA devices"):
        cuda_device()


def test_another_driver_gives_other_devices_and_leaves_nothing_behind(install: Any) -> None:
    install()
    first = cuda_device()
    install(capability=(9, 0), version=13000)
    assert cuda_device() is not first
    assert cuda_device().target == "sm_90a"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_is_told_to_be_spawned(fake: Any) -> None:
    cuda_device()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            cuda_device()
            said = "nothing"
        except DeviceError as error:
            said = str(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = stream.read()
    os.waitpid(child, 0)
    assert "CUDA was used in this process before it was forked" in said
    assert "'spawn'" in said


# -- memory and copies


@pytest.mark.parametrize("nbytes", [1, 255, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7])
def test_bytes_come_back(fake: Any, nbytes: int) -> None:
    device = cuda_device()
    array = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    memory = filled(device, array)
    assert memory.address % 256 == 0
    np.testing.assert_array_equal(contents(device, memory), array)
    memory.free()
    device.synchronize()
    assert fake.live() == []


def test_the_source_may_change_after_an_upload(install: Any) -> None:
    install(memory=6 * PIECE)
    device = cuda_device()
    array = np.arange((PIECES + 1) * PIECE // 4, dtype=np.int32)
    expected = array.copy()
    memory = filled(device, array)
    array[:] = -1
    np.testing.assert_array_equal(contents(device, memory, "i4"), expected)


def test_pieces_of_page_locked_memory_wait_for_their_copies(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(PIECES * 8)
    for index in range(PIECES * 4):
        device.upload(memory, 8 * (index % PIECES), np.array([index], np.int64))
    assert contents(device, memory, "i8").tolist() == [3 * PIECES + i for i in range(PIECES)]
    assert len(fake.named("cuMemHostAlloc")) == PIECES


def test_page_locked_memory_goes_back_where_its_event_fails(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(8)
    fake.fail("cuEventCreate", 2)
    with pytest.raises(DeviceError, match="copying 8 bytes to the device"):
        device.upload(memory, 0, np.zeros(8, np.uint8))
    assert fake.pinned == {}
    device.upload(memory, 0, np.arange(8, dtype=np.uint8))
    assert contents(device, memory).tolist() == list(range(8))


def test_page_locked_memory_goes_back_when_memory_runs_out(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.arange(100, dtype=np.uint8))
    assert len(fake.pinned) == 1
    events = len(fake.named("cuEventDestroy"))
    with pytest.raises(DeviceMemoryError):
        device.allocate(2 * ROOM)
    assert fake.pinned == {}
    assert len(fake.named("cuEventDestroy")) == events + 1
    assert contents(device, memory).tolist() == list(range(100))  # the next copy makes a new piece
    assert len(fake.pinned) == 1


def test_copies_at_an_offset(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(16, np.uint8))
    device.upload(memory, 5, np.array([1, 2, 3], np.uint8))
    part = np.zeros(4, np.uint8)
    device.download(memory, 4, part)
    assert part.tolist() == [0, 1, 2, 3]


def test_copies_are_checked(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(16)
    with pytest.raises(UserError, match="upload: bytes 8 to 24 of memory that has 16"):
        device.upload(memory, 8, np.zeros(16, np.uint8))
    with pytest.raises(UserError, match="download: bytes -1 to 3 of memory that has 16"):
        device.download(memory, -1, np.zeros(4, np.uint8))
    with pytest.raises(UserError, match="not C-contiguous"):
        device.upload(memory, 0, np.zeros((4, 4), np.uint8)[:, ::2])
    locked = np.zeros(4, np.uint8)
    locked.flags.writeable = False
    with pytest.raises(UserError, match="read-only"):
        device.download(memory, 0, locked)
    memory.free()
    with pytest.raises(UserError, match="of memory that has 0"):
        device.upload(memory, 0, locked)


def test_nothing_is_memory_too(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(0)
    device.upload(memory, 0, np.zeros(0, np.float32))
    memory.free()
    assert fake.named("cuMemAllocAsync", "cuMemFreeAsync", "cuMemcpyHtoDAsync") == []
    with pytest.raises(UserError, match="-1 bytes"):
        device.allocate(-1)


def test_memory_is_freed_once_and_when_it_dies(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(64)
    memory.free()
    memory.free()
    device.allocate(64)  # dies at once
    gc.collect()
    device.synchronize()
    assert fake.live() == []
    assert len(fake.named("cuMemFreeAsync")) == 2


def test_without_pools_memory_is_allocated_plainly(install: Any) -> None:
    fake = install(pools=False)
    device = cuda_device()
    memory = filled(device, np.arange(9, dtype=np.uint8))
    assert contents(device, memory).tolist() == list(range(9))
    memory.free()
    assert fake.live() == []
    assert fake.named("cuMemAllocAsync") == []


def test_a_full_pool_is_trimmed_and_the_allocation_done_again(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(ROOM - 1000)
    memory.free()
    device.synchronize()
    assert device.allocate(2000).nbytes == 2000  # the pool still holds the other size
    assert [name for name, _ in fake.named("cuMemPoolTrimTo")] == ["cuMemPoolTrimTo"]


def test_memory_in_cycles_is_found_when_it_is_short(fake: Any) -> None:
    device = cuda_device()
    cycle: list[Any] = [device.allocate(ROOM - 1000)]
    cycle.append(cycle)
    del cycle
    assert device.allocate(2000).nbytes == 2000


def test_out_of_memory_says_how_much_and_the_device_works_on(fake: Any) -> None:
    device = cuda_device()
    kept = device.allocate(ROOM - 5000)
    with pytest.raises(DeviceMemoryError) as caught:
        device.allocate(6000)
    assert str(caught.value).startswith(
        f"cuda (Fake GPU 0): 6000 bytes of memory were asked for, 5000 of {ROOM} are free; fix: "
    )
    assert (caught.value.asked, caught.value.free, caught.value.total) == (6000, 5000, ROOM)
    assert isinstance(caught.value, MemoryError)
    assert contents(device, filled(device, np.arange(100, dtype=np.uint8))).tolist() == list(range(100))
    kept.free()
    device.allocate(6000)


# -- kernels


def test_a_kernel_runs_and_is_loaded_once(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.arange(64, dtype=np.int32))
    loaded = device.load(add_one())
    assert device.load(add_one()) is loaded
    device.launch(loaded, (2, 1, 1), [memory.address, 5])
    device.launch(loaded, (1, 1, 1), [memory.address, -1])
    assert fake.named("cuLaunchKernelEx")[0][1][1:] == ((2, 1, 1), 32, 0, device.stream, None)
    expected = np.arange(64) + 5
    expected[:32] -= 1
    np.testing.assert_array_equal(contents(device, memory, "i4"), expected)
    assert len(fake.named("cuModuleLoadDataEx")) == 1


def test_a_kernel_that_dies_is_unloaded_after_it_ran(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    loaded = device.load(add_one())
    device.launch(loaded, (1, 1, 1), [memory.address, 1])
    del loaded
    gc.collect()
    device.synchronize()
    assert fake.modules == {}
    assert contents(device, memory, "i4").tolist() == [1] * 32


@pytest.mark.parametrize(
    ("word", "fits"), [(-(1 << 31), True), ((1 << 32) - 1, True), (1 << 32, False), (-(1 << 31) - 1, False)]
)
def test_words_have_the_width_of_their_parameter(fake: Any, word: int, fits: bool) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    loaded = device.load(add_one())
    if fits:
        device.launch(loaded, (1, 1, 1), [memory.address, word])
        assert contents(device, memory, "u4")[0] == word % (1 << 32)
    else:
        with pytest.raises(InternalError, match=f"argument 1: {word} for a parameter of 32 bits"):
            device.launch(loaded, (1, 1, 1), [memory.address, word])
    with pytest.raises(InternalError, match="takes 2 arguments, 1 were given"):
        device.launch(loaded, (1, 1, 1), [memory.address])


def test_grids(fake: Any) -> None:
    device = cuda_device()
    loaded = device.load(add_one())
    device.launch(loaded, (0, 5, 1), [0, 0])
    assert fake.named("cuLaunchKernelEx") == []
    text = "@add_one on grid (1, 65536, 1): 65536 programs along y; cuda takes 65535 at most"
    with pytest.raises(UserError, match=re.escape(text)):
        device.launch(loaded, (1, 65536, 1), [0, 0])
    with pytest.raises(UserError, match="65536 programs along z"):
        device.launch(loaded, (1, 1, 65536), [0, 0])
    with pytest.raises(UserError, match="2147483648 programs along x; cuda takes 2147483647 at most"):
        device.launch(loaded, (1 << 31, 1, 1), [0, 0])
    with pytest.raises(UserError, match=re.escape("clusters of (2, 1, 1) blocks do not divide the grid (3, 1, 1)")):
        device.launch(loaded, (3, 1, 1), [0, 0], (2, 1, 1))


def test_clusters_reach_the_driver(install: Any) -> None:
    fake = install(capability=(9, 0))
    device = cuda_device()
    memory = filled(device, np.zeros(128, np.int32))
    device.launch(device.load(add_one()), (4, 1, 1), [memory.address, 3], (2, 1, 1))
    assert fake.named("cuLaunchKernelEx")[0][1][-1] == (2, 1, 1)
    assert contents(device, memory, "i4").tolist() == [3] * 128


def test_shared_memory_above_48_kib_is_asked_for(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    for shared in (48 << 10, (48 << 10) + 1, 166912):
        loaded = device.load(add_one(shared=shared))
        device.launch(loaded, (1, 1, 1), [memory.address, 1])
    assert [args[2] for _, args in fake.named("cuFuncSetAttribute")] == [(48 << 10) + 1, 166912]
    assert contents(device, memory, "i4")[0] == 3


def test_what_a_device_has_not_is_refused(install: Any) -> None:
    install(version=12000, max_threads=512)
    device = cuda_device()
    text = "needs 166913 bytes of shared memory, 1 more than the 166912 that a block has on cuda"
    with pytest.raises(UserError, match=text):
        device.load(add_one(shared=166913))
    with pytest.raises(UserError, match="has 544 threads in a block; cuda takes 512 at most"):
        device.load(add_one(threads=544))
    text = "was made for sm_90a, which takes capability 9.0; cuda (Fake GPU 0) has 8.0; fix: make it for sm_80"
    with pytest.raises(UserError, match=re.escape(text)):
        device.load(add_one("sm_90a", 80))
    with pytest.raises(UserError, match=r"made for sm_86, which takes capability 8\.6 or newer"):
        device.load(add_one("sm_86", 71))
    text = "@add_one is PTX 8.4, which takes a driver for CUDA 12.4 or newer; the driver here is for CUDA 12.0, with PTX up"
    with pytest.raises(DeviceError, match=re.escape(text)):
        device.load(add_one(ptx=84))


def test_what_the_assembler_says_is_in_the_error(fake: Any) -> None:
    device = cuda_device()
    code = add_one()
    broken = type(code)(code.name, code.target, "nonsense", code.ptx_version, 32, 0, code.parameters)
    text = r"loading @add_one for sm_80, PTX 7\.0: CUDA_ERROR_INVALID_PTX \(218\).*no \.version"
    with pytest.raises(DeviceError, match=text):
        device.load(broken)
    misnamed = type(code)("other", code.target, code.ptx, code.ptx_version, 32, 0, code.parameters)
    with pytest.raises(DeviceError, match="CUDA_ERROR_NOT_FOUND"):
        device.load(misnamed)
    assert fake.modules == {}
    device.load(code)


def test_a_kernel_of_another_device_is_refused(install: Any) -> None:
    install(devices=2)
    loaded = cuda_device("cuda:1").load(add_one())
    with pytest.raises(InternalError, match="loaded on another device"):
        cuda_device().launch(loaded, (1, 1, 1), [0, 0])


def test_two_devices_work_side_by_side(install: Any) -> None:
    fake = install(devices=2)
    devices = [cuda_device("cuda"), cuda_device("cuda:1")]
    assert [device.name for device in devices] == ["cuda", "cuda:1"]
    memories = [filled(device, np.full(32, 10 * device.ordinal, np.int32)) for device in devices]
    for device, memory in zip(devices, memories, strict=True):
        device.launch(device.load(add_one()), (1, 1, 1), [memory.address, 1])
    assert [contents(d, m, "i4")[0] for d, m in zip(devices, memories, strict=True)] == [1, 11]
    fake._stack().append(2)  # another library has made device 1 current
    assert contents(devices[0], memories[0], "i4")[0] == 1
    assert fake._stack() == [2]


def test_threads_share_a_device(fake: Any) -> None:
    device = cuda_device()
    loaded = device.load(add_one())
    found: dict[int, list[int]] = {}

    def work(number: int) -> None:
        memory = filled(device, np.full(32, number, np.int32))
        for _ in range(5):
            device.launch(loaded, (1, 1, 1), [memory.address, number])
        found[number] = contents(device, memory, "i4").tolist()
        memory.free()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    device.synchronize()
    assert found == {number: [6 * number] * 32 for number in range(6)}
    assert fake.live() == []


# -- errors of kernels


def test_an_illegal_address_ends_the_device_for_this_process(install: Any) -> None:
    fake = install(devices=2)
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    loaded = device.load(add_one())
    device.launch(loaded, (3, 1, 1), [memory.address, 1])  # 96 elements of 32
    with pytest.raises(DeviceError) as caught:
        device.synchronize()
    text = str(caught.value)
    assert text.startswith("cuda, waiting for the device: CUDA_ERROR_ILLEGAL_ADDRESS (700): ")
    assert "on their way were: @add_one on grid (3, 1, 1); nothing on this device works any more" in text
    assert (caught.value.code, caught.value.name) == (700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    before = len(fake.calls)
    for use in (
        lambda: device.allocate(1), lambda: contents(device, memory), lambda: device.launch(loaded, (1, 1, 1), [0, 0]),
        device.synchronize, lambda: device.load(add_one(shared=5)), lambda: device.capture(lambda: None),
    ):  # fmt: skip
        with pytest.raises(DeviceError, match=r"cuda is lost to this process since an earlier error\. It was: cuda, waiting"):
            use()
    memory.free()  # what tidies up does not fail
    assert len(fake.calls) == before
    assert contents(cuda_device("cuda:1"), filled(cuda_device("cuda:1"), np.zeros(3, np.uint8))).tolist() == [0, 0, 0]


def test_an_error_that_is_not_final_leaves_the_device(fake: Any) -> None:
    device = cuda_device()
    loaded = device.load(add_one())
    memory = filled(device, np.zeros(32, np.int32))
    fake.fail("cuLaunchKernelEx", 1)
    text = "launching @add_one on grid (1, 1, 1) with 32 threads and 0 bytes of shared memory: CUDA_ERROR_INVALID_VALUE (1)"
    with pytest.raises(DeviceError, match=re.escape(text)):
        device.launch(loaded, (1, 1, 1), [memory.address, 1])
    device.launch(loaded, (1, 1, 1), [memory.address, 1])
    assert contents(device, memory, "i4")[0] == 1


# -- recordings


def test_a_recording_runs_every_time_it_is_replayed(fake: Any) -> None:
    device = cuda_device()
    loaded = device.load(add_one())
    memory = filled(device, np.zeros(64, np.int32))

    def twice() -> None:
        device.launch(loaded, (1, 1, 1), [memory.address, 1])
        device.launch(loaded, (2, 1, 1), [memory.address, 10])

    recording = device.capture(twice)
    assert contents(device, memory, "i4").tolist() == [0] * 64
    for _ in range(3):
        recording.replay()
    assert contents(device, memory, "i4").tolist() == [33] * 32 + [30] * 32
    assert len(fake.named("cuGraphInstantiate")) == 1
    assert fake.graphs == {}
    recording.free()
    recording.free()
    assert fake.executables == {}
    with pytest.raises(UserError, match="the recording was freed"):
        recording.replay()


def recorded_launch(device: CudaDevice, address: int) -> Any:
    loaded = device.load(add_one())
    return device.capture(lambda: device.launch(loaded, (1, 1, 1), [address, 1]))


def test_a_recording_keeps_its_kernels_and_dies_with_the_object(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    recording = recorded_launch(device, memory.address)
    gc.collect()
    device.synchronize()
    recording.replay()
    assert contents(device, memory, "i4")[0] == 1
    del recording
    gc.collect()
    device.synchronize()
    assert (fake.executables, fake.modules) == ({}, {})


def test_only_launches_are_recorded(fake: Any) -> None:
    device = cuda_device()
    memory = filled(device, np.zeros(32, np.int32))
    array = np.zeros(4, np.uint8)
    for what, use in (
        ("memory is allocated", lambda: device.allocate(8)),
        ("memory is copied", lambda: device.upload(memory, 0, array)),
        ("memory is copied", lambda: device.download(memory, 0, array)),
        ("a kernel is loaded", lambda: device.load(add_one())),
        ("the device is waited for", device.synchronize),
        ("a recording begins", lambda: device.capture(lambda: None)),
    ):
        with pytest.raises(UserError, match=f"cuda: {what} while launches are recorded; fix: do it before"):
            device.capture(use)
    assert fake.graphs == {}
    assert contents(device, memory, "i4")[0] == 0


def test_memory_that_is_freed_while_recording_goes_afterwards(fake: Any) -> None:
    device = cuda_device()
    memory = device.allocate(64)
    recording = device.capture(memory.free)
    device.synchronize()
    assert fake.live() == []
    recording.replay()
    recording.free()


def test_an_error_inside_a_recording_leaves_no_graph(fake: Any) -> None:
    device = cuda_device()
    with pytest.raises(ZeroDivisionError):
        device.capture(lambda: 1 // 0)
    fake.fail("cuGraphInstantiate", 2)
    with pytest.raises(DeviceError, match="recording launches: CUDA_ERROR_OUT_OF_MEMORY"):
        device.capture(lambda: None)
    assert (fake.graphs, fake.executables) == ({}, {})
    device.capture(lambda: None).replay()
