"""Which memory a launch that follows addresses may reach: that of the tensors whose addresses are in its arguments."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest
from joinery.interface.triton import memory
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
    assert len(addresses.mapped(np.array([1, table.ctypes.data, 1 << 46]))) == 1


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
