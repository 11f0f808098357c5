"""The simulator as a device: memory that lives on, kernels, recordings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from joinery.lowering.artifact import KernelCode
from joinery.promotion.errors import DeviceMemoryError, InternalError
from joinery.runtime.ptxsim.checks.findings import PtxCheckError
from joinery.runtime.ptxsim.device import CAPACITY, SimulatedGpu
from joinery.runtime.ptxsim.memory.spaces import GLOBAL_BASE

PTX = """
.version 7.0
.target sm_80
.address_size 64
.global .u32 count = 5;
.visible .entry add(.param .u64 p, .param .u32 n)
.reqntid 32
{
    .reg .u64 %rd<4>;
    .reg .u32 %r<4>;
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd1, %r0, 4;
    ld.param.u64 %rd0, [p];
    cvta.to.global.u64 %rd0, %rd0;
    add.u64 %rd0, %rd0, %rd1;
    ld.param.u32 %r1, [n];
    ld.global.u32 %r2, [count];
    add.u32 %r1, %r1, %r2;
    st.global.u32 [count], %r1;
    st.global.u32 [%rd0], %r1;
    ret;
}
"""
CODE = KernelCode("add", "sm_80", PTX, 70, 32, 0, ("i64", "i32"))


@pytest.fixture
def gpu() -> SimulatedGpu:
    return SimulatedGpu("sm_80")


def test_memory_keeps_what_is_written(gpu: SimulatedGpu) -> None:
    small, large = gpu.allocate(100), gpu.allocate(3 << 20)  # more than there was at first
    assert small.address % 256 == large.address % 256 == 0
    values = np.random.default_rng(0).integers(0, 256, 100).astype(np.uint8)
    gpu.upload(small, 0, values)
    gpu.upload(large, 3 << 19, np.arange(50.0))
    gpu.upload(small, 96, np.int32([-1]))
    read = np.empty(100, np.uint8)
    gpu.download(small, 0, read)
    assert (read[:96] == values[:96]).all()
    assert (read[96:] == 255).all()
    floats = np.empty((5, 10))
    gpu.download(large, 3 << 19, floats)
    assert (floats.ravel() == np.arange(50)).all()


def test_freed_memory_is_used_again_and_not_by_its_last_owner(gpu: SimulatedGpu) -> None:
    first, second = gpu.allocate(1000), gpu.allocate(10)
    address = first.address
    first.free()
    first.free()
    assert gpu.allocate(900).address == address
    assert gpu.allocate(0).address == 0
    assert second.address not in (0, address)
    with pytest.raises(InternalError, match="after it was freed"):
        gpu.upload(first, 0, np.zeros(1))
    with pytest.raises(InternalError, match="8 bytes at 4 of an allocation of 10"):
        gpu.upload(second, 4, np.zeros(1))


def test_memory_of_no_bytes_shares_no_place(gpu: SimulatedGpu) -> None:
    kept = [gpu.allocate(nbytes) for nbytes in (64, 0, 1000, 0, 0)]
    gpu.upload(kept[2], 0, np.full(1000, 7, np.uint8))
    kept[1].free()
    kept += [gpu.allocate(nbytes) for nbytes in (0, 700, 0, 300)]
    starts = sorted((each.range(0, 0).start, each.nbytes) for number, each in enumerate(kept) if number != 1)
    assert all(start + nbytes <= after for (start, nbytes), (after, _) in itertools.pairwise(starts))
    found = np.empty(1000, np.uint8)
    gpu.download(kept[2], 0, found)
    assert (found == 7).all()


def test_too_much_memory_is_refused(gpu: SimulatedGpu) -> None:
    kept = gpu.allocate(5000)
    with pytest.raises(DeviceMemoryError, match=f"{CAPACITY} bytes do not fit: 5000 of {CAPACITY} are in use"):
        gpu.allocate(CAPACITY)
    assert gpu.allocate(5000).address > kept.address
    del kept
    assert gpu.allocate(20).address == 256 + GLOBAL_BASE  # memory goes back with its object


def test_variables_of_a_module_live_as_long_as_the_device(gpu: SimulatedGpu) -> None:
    memory = gpu.allocate(128)
    loaded = gpu.load(CODE)
    assert gpu.load(CODE) is loaded
    for total in (7, 9, 11):
        gpu.launch(loaded, (1, 1, 1), [memory.address, 2])
        gpu.synchronize()
        read = np.empty(32, np.uint32)
        gpu.download(memory, 0, read)
        assert (read == total).all()
    gpu.launch(loaded, (0, 1, 1), [memory.address, 2])
    gpu.launch(gpu.load(CODE), (1, 1, 1), [memory.address, -11])
    gpu.download(memory, 0, read)
    assert (read == 0).all()


def test_accesses_outside_an_allocation_are_found(gpu: SimulatedGpu) -> None:
    loaded = gpu.load(CODE)
    for nbytes in (124, 4):
        memory = gpu.allocate(nbytes)
        with pytest.raises(PtxCheckError, match=f"byte {nbytes} of allocation of {nbytes} bytes"):
            gpu.launch(loaded, (1, 1, 1), [memory.address, 1])


def test_recordings(gpu: SimulatedGpu) -> None:
    memory, loaded = gpu.allocate(128), gpu.load(CODE)
    read = np.zeros(32, np.uint32)
    gpu.upload(memory, 0, read)

    def record() -> None:
        gpu.launch(loaded, (1, 1, 1), [memory.address, 1])
        gpu.launch(loaded, (1, 1, 1), [memory.address, 2])

    recording = gpu.capture(record)
    gpu.download(memory, 0, read)
    assert (read == 0).all()  # recorded, not run
    recording.replay()
    recording.replay()
    gpu.download(memory, 0, read)
    assert (read == 5 + 6).all()
    recording.free()
    recording.free()
    with pytest.raises(InternalError, match="after it was freed"):
        recording.replay()


def test_a_recording_that_fails_ends(gpu: SimulatedGpu) -> None:
    with pytest.raises(ZeroDivisionError):
        gpu.capture(lambda: 1 / 0)
    with pytest.raises(InternalError, match="a recording inside a recording"):
        gpu.capture(lambda: gpu.capture(lambda: None))
    gpu.capture(lambda: None).replay()
