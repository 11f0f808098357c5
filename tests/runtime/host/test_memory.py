"""Aligned, recycled memory."""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import re
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from joinery.runtime.host import memory
from joinery.runtime.native.library import native_library


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (0, 7), (1000, 1000), (1 << 18,), (3 << 20,)])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "float64", "complex128"])
def test_arrays_are_aligned_and_ordinary(shape, dtype):
    array = memory.empty(shape, np.dtype(dtype))
    normal = np.empty(shape, dtype)
    assert memory.address(array) % 64 == 0
    assert (array.shape, array.dtype, array.flags.num) == (normal.shape, normal.dtype, normal.flags.num)
    assert array.strides == normal.strides or array.size == 0  # NumPy's choice for empty arrays varies
    assert sys.getrefcount(array) == 2
    array[...] = 1
    assert (array == 1).all()


def test_blocks_come_back_when_the_array_and_its_views_are_gone():
    memory.trim()
    array = memory.empty((1 << 20,), np.dtype(np.float32))
    address = memory.address(array)
    view = array[10:20]
    del array
    assert memory.cached_bytes() == 0, "a view keeps the block"
    del view
    assert memory.cached_bytes() >= 4 << 20
    again = memory.empty((1 << 20,), np.dtype(np.float32))
    assert memory.address(again) == address
    assert memory.cached_bytes() == 0


def test_neighbouring_blocks_do_not_overlap():
    sizes = [*range(1, 200, 7), 4095, 4096, 4097, 65_535, 1 << 20, (1 << 20) + 1, 3_000_000]
    arrays = [memory.empty((size,), np.dtype(np.uint8)) for size in sizes * 2]
    for number, array in enumerate(arrays):
        array[:] = number % 251
    for number, array in enumerate(arrays):
        assert (array == number % 251).all()
    spans = sorted((memory.address(array), array.nbytes) for array in arrays)
    assert all(low + size <= high for (low, size), (high, _) in itertools.pairwise(spans))


def test_the_cache_is_bounded():
    gc.collect()  # what other tests have left in cycles
    memory.trim()
    limit = native_library().entry.cached_limit
    before, limit.value = limit.value, 10 << 20
    try:
        arrays = [memory.empty((3 << 20,), np.dtype(np.uint8)) for _ in range(10)]
        del arrays
        assert 0 < memory.cached_bytes() <= 10 << 20
        memory.trim()
        small = [memory.empty((64,), np.dtype(np.uint8)) for _ in range(1000)]
        del small
        gc.collect()
        assert memory.cached_bytes() == 32 * 64, "32 blocks of a class are kept"
    finally:
        limit.value = before
        memory.trim()
    assert memory.cached_bytes() == 0


def test_large_blocks_ask_for_huge_pages():
    memory.trim()  # the block is mapped here and now
    array = memory.empty((8 << 20,), np.dtype(np.uint8))
    assert memory.address(array) % (2 << 20) == 0
    if sys.platform == "linux":
        assert " hg" in vm_flags(memory.address(array))


def vm_flags(address: int) -> str:
    """The flags of the mapping that holds an address, as Linux reports them. Names of files, in which other tests map what no
    encoding has, are read like the rest."""
    inside = False
    with open("/proc/self/smaps", errors="surrogateescape") as file:
        for line in file:
            bounds = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
            if bounds:
                inside = int(bounds[1], 16) <= address < int(bounds[2], 16)
            elif inside and line.startswith("VmFlags:"):
                return line
    raise AssertionError("not mapped")


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux reports")
def test_flags_are_found_behind_a_file_of_any_name(tmp_path):
    """As tests of other folders leave one mapped, below or above the block, until their cycles are collected."""
    path = os.path.join(os.fsencode(tmp_path), b"\xff")
    with open(path, "wb+") as file:
        file.truncate(mmap.PAGESIZE)
        with mmap.mmap(file.fileno(), mmap.PAGESIZE):
            lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
            stack = next(line for line in lines if line.endswith("[stack]"))  # above all files
            assert vm_flags(int(stack.partition("-")[0], 16)).startswith("VmFlags: ")


def test_threads_allocate_and_free_at_once():
    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept = []
        for _ in range(500):
            array = memory.empty((int(rng.integers(1, 5000)),), np.dtype(np.int64))
            array[:] = seed
            kept.append(array)
            if len(kept) > 20:
                gone = kept.pop(int(rng.integers(20)))
                if not (gone == seed).all():
                    failures.append(seed)

    failures: list[int] = []
    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def test_no_memory_is_said_with_the_size():
    with pytest.raises(
        MemoryError, match=r"no memory for an array of float32 with shape \(1099511627776, 1099511627776\)"
    ):
        memory.empty((1 << 40, 1 << 40), np.dtype(np.float32))
    with pytest.raises(MemoryError, match=r"\(6.711e\+07 MiB\)"):
        memory.empty((1 << 44,), np.dtype(np.float32))


def test_aligned_copy_copies_only_when_needed():
    array = memory.empty((16,), np.dtype(np.float32))
    assert memory.aligned_copy(array) is array
    array[:] = range(16)
    copy = memory.aligned_copy(array[1:])
    np.testing.assert_array_equal(copy, range(1, 16))
    assert memory.is_aligned(copy)
    assert memory.is_aligned(memory.aligned_copy(np.asfortranarray(np.ones((3, 5)))))


def test_scratch():
    with memory.scratch(0) as nothing:
        assert nothing == 0
    with memory.scratch(1000) as first, memory.scratch(1000) as second:
        assert first % 64 == second % 64 == 0
        assert abs(first - second) >= 1000
