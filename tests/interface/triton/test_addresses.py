"""Which memory a launch that follows addresses may reach: that of the tensors whose addresses are in its arguments."""

from __future__ import annotations

import ctypes
import gc
import mmap
import weakref
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.triton import memory
from joinery.interface.triton.known import seen
from joinery.runtime.host import addresses

torch = pytest.importorskip("torch")


def spans(*tables: Any) -> Any:
    return list(memory._seen.among([np.array(table, np.int64) for table in tables]))


def span(tensor: Any) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def test_tensors_that_are_addressed_are_found() -> None:
    one, two = torch.zeros(100), torch.zeros(300)
    assert sorted(spans([one.data_ptr(), 7, 0, -3], [two[5:].data_ptr()])) == sorted([span(one), span(two)])
    assert spans([1, 2, 3]) == []
    late = torch.zeros(50)
    assert spans([late.data_ptr() + 8]) == [span(late)], "a tensor that was made later"


def test_objects_are_looked_through_only_when_an_address_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = torch.zeros(100)
    spans([kept.data_ptr()])
    monkeypatch.setattr(gc, "get_objects", lambda *_: pytest.fail("looks through all objects"))
    assert spans([kept.data_ptr(), kept.data_ptr() + 396]) == [span(kept)]


def test_memory_of_tensors_that_are_gone_is_not_reached() -> None:
    gone, other = torch.zeros(1000), torch.zeros(10)
    first, last = span(gone)
    assert spans([first]) == [(first, last)]
    del gone
    found = spans([first, other.data_ptr()])
    assert (first, last) not in found
    assert span(other) in found, "all that is alive, where an address leads nowhere"
    moved = torch.zeros(64)
    before = span(moved)
    spans([before[0]])
    moved.resize_(1 << 16)
    assert spans([moved.data_ptr()]) == [span(moved)], "its memory is another"


def test_numbers_in_memory() -> None:
    table = np.zeros(addresses.MAX_TABLE + 2, np.int64).view(np.uint8)
    assert addresses.integers_in(table) is None, "long tables are not looked through"
    numbers = np.arange(1, 6)
    octets = np.concatenate([[7], numbers.astype(np.int64).view(np.uint8)]).astype(np.uint8)  # at no multiple of 8
    for step, found in ((8, set()), (4, set()), (1, {1, 2, 3, 4, 5})):
        integers = addresses.integers_in(octets, step)
        assert integers is not None
        assert found <= set(integers.tolist())
        assert len(integers) <= len(octets)
    halves = np.array([9, 0, *numbers.astype(np.int64).view(np.int32)], np.int32)[1:]
    found_of = [addresses.integers_in(halves.view(np.uint8), step) for step in (4, 1)]
    assert all(each is not None and {1, 2, 3, 4, 5} <= set(each.tolist()) for each in found_of)
    assert addresses.integers_in(np.empty(0, np.uint8), 1) is not None
    assert addresses.mapped([1, table.ctypes.data, 1 << 46]) == [table.ctypes.data]


def test_tensors_without_memory_are_none() -> None:
    """Tensors for shapes alone say that they lie at 0: small numbers would be addresses in them."""
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        fake = torch.zeros(1 << 20)
    assert all(first >= addresses.SMALLEST_ADDRESS for first, _ in memory._seen.everything())
    assert spans([100_000]) == []
    assert fake.shape == (1 << 20,)


def test_arrays_storages_and_what_is_frozen_are_found() -> None:
    array = np.ones(1000)
    first = array.ctypes.data
    assert any(low <= first < high for low, high in spans([first + 8]))
    storage = torch.ones(1000).untyped_storage()
    assert spans([storage.data_ptr() + 8]) == [(storage.data_ptr(), storage.data_ptr() + 4000)]
    frozen = torch.ones(1000)
    gc.freeze()
    try:
        assert spans([frozen.data_ptr()]) == [span(frozen)]
    finally:
        gc.unfreeze()


def test_a_tensor_of_a_part_does_not_hide_the_whole() -> None:
    whole = np.zeros(64, np.float32)
    outer, inner = torch.from_numpy(whole), torch.from_numpy(whole[10:20])
    assert spans([outer.data_ptr() + 100]) == [span(outer)]
    assert inner.data_ptr() > outer.data_ptr()


def test_what_was_made_a_short_time_ago_is_found_without_looking_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen, "FAR_LOOKS", (lambda: pytest.fail("looks at all that is alive"),))
    for _ in range(50):
        one, two = torch.zeros(100), [np.ones(100)]
        array = (two[0].ctypes.data, two[0].ctypes.data + 800)
        assert sorted(spans([one.data_ptr(), two[0].ctypes.data + 8, 7])) == sorted([span(one), array])
    assert spans([memory_free_of_tensors()]) == [], "a number that leads nowhere"


def memory_free_of_tensors() -> int:
    """An address that no page of the process is mapped at."""
    with mmap.mmap(-1, 1 << 20) as pages:
        octet = ctypes.c_char.from_buffer(pages)
        address = ctypes.addressof(octet) + (1 << 19)
        del octet
    return address


def test_looking_keeps_nothing_alive() -> None:
    gc.disable()
    try:
        tensor = torch.zeros(100)
        gone = weakref.ref(tensor)
        assert spans([tensor.data_ptr()]) == [span(tensor)]
        del tensor
        assert gone() is None
    finally:
        gc.enable()


def test_memory_that_is_given_out_again_is_what_it_is_now() -> None:
    rng = np.random.default_rng(5)
    alive: list[Any] = []
    for _ in range(200):
        if alive and rng.random() < 0.5:
            alive.pop(int(rng.integers(len(alive))))
        tensor = torch.zeros(int(rng.integers(1, 2000)))
        alive.append(tensor[int(rng.integers(tensor.numel())) :] if rng.random() < 0.3 else tensor)
        del tensor
        chosen = [alive[int(number)] for number in rng.integers(0, len(alive), 3)]
        assert sorted(spans([each.data_ptr() for each in chosen])) == sorted({span(each) for each in chosen})


def test_memory_in_order() -> None:
    """Against a list of all, of memory that overlaps."""
    rng = np.random.default_rng(3)
    known, holders = seen.Spans(), []
    for _ in range(300):
        holder = np.zeros(int(rng.integers(1, 50)), np.uint8)
        part = holder[: len(holder)]
        holders.append(part)
        known.add(seen.span_of(part), [part])
        if rng.random() < 0.2:
            holders.pop(int(rng.integers(len(holders))))
        assert known.starts == sorted(known.starts)
        assert known.ends == sorted(known.ends)
        alive = {seen.span_of(each) for each in holders}
        addresses = sorted({low for low, _ in alive} | {high - 1 for _, high in alive})
        found, left = known.around(addresses)
        assert set(found) == alive
        assert left == []
    assert seen.positions([10, 20], [9, 10, 19, 20] * 100) == [-1, 0, 0, 1] * 100


def test_mapped_pages_one_by_one_and_by_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    here = np.zeros(10).ctypes.data
    asked = [1 << 17, here, 1 << 46, memory_free_of_tensors()]
    alone = addresses.mapped(asked)
    monkeypatch.setattr(addresses, "_FEW_PAGES", 0)
    assert addresses.mapped(asked) == alone == [here]


def test_numbers_that_no_address_is_made_of_are_not_looked_up() -> None:
    """A size may lie where the process has memory: of the program itself, or of freed tensors."""
    text = """
    tt.func public @k(%t: !tt.ptr<i64>, %n: i32, %a: i64) {
      %p = tt.load %t : !tt.ptr<i64>
      %q = tt.int_to_ptr %p : i64 -> !tt.ptr<f32>
      %r = tt.int_to_ptr %a : i64 -> !tt.ptr<f32>
      %o = tt.addptr %q, %n : !tt.ptr<f32>, i32
      %v = tt.load %o : !tt.ptr<f32>
      tt.store %r, %v : !tt.ptr<f32>
      tt.return
    }"""
    kernel = jn.kernel.from_ttir(text)
    assert kernel.checked_native.facts.tables == ((0, 8), (2, 0))


def test_addresses_that_the_kernel_keeps_in_memory_are_looked_up() -> None:
    text = """
    tt.func public @k(%t: !tt.ptr<i64>, %n: i32, %a: i64, %o: !tt.ptr<f32>) {
      tt.store %t, %a : !tt.ptr<i64>
      gpu.barrier
      %p = tt.load %t : !tt.ptr<i64>
      %q = tt.int_to_ptr %p : i64 -> !tt.ptr<f32>
      %v = tt.load %q : !tt.ptr<f32>
      tt.store %o, %v : !tt.ptr<f32>
      tt.return
    }"""
    kernel = jn.kernel.from_ttir(text)
    assert kernel.checked_native.facts.tables == ((0, 8), (2, 0))


def test_what_launches_look_through_holds_no_memory() -> None:
    """Arrays of an earlier launch may be left in a cycle: memory that was freed is not theirs."""
    gone = torch.zeros(1 << 18)
    first, last = span(gone)
    cycle: list[Any] = [memory.bytes_of((first, last)), memory.bytes_of((first, last))[8:].view(np.float32)]
    cycle.append(cycle)
    assert all(seen.span_of(each) is None for each in cycle[:2])
    del gone
    assert (first, last) not in spans([first])
