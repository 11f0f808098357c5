"""Artifacts from memory and from streams: the same as from a file, whatever the memory is like, and a word for what is none."""

from __future__ import annotations

import gzip
import io
import mmap
import zipfile
from typing import Any

import numpy as np
import pytest
from joinery.promotion.errors import UserError
from joinery.runtime.storage.artifact_file import StoredWeight, load, save

WEIGHT = np.arange(1000, dtype=np.float32).reshape(20, 50)


@pytest.fixture
def path(tmp_path, symbolic):
    target = tmp_path / "model.joinery"
    save(target, "net", "text", [symbolic], [StoredWeight.plain("w", WEIGHT)])
    return target


def placed(data: bytes, offset: int) -> Any:
    """Returns the bytes in memory at a distance from a 64-byte boundary."""
    room = np.zeros(len(data) + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    room[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return room[start : start + len(data)]


def shares(artifact: Any, memory: Any) -> bool:
    return np.shares_memory(artifact.weights["w"], np.frombuffer(memory, np.uint8))


@pytest.mark.parametrize("offset", [0, 1, 29, 48])
@pytest.mark.parametrize("is_read_only", [False, True])
def test_memory_of_any_kind(path, offset, is_read_only):
    """Only what nobody may write, and kernels can read, is used in place."""
    memory = placed(path.read_bytes(), offset)
    view = memoryview(memory)
    found = load(view.toreadonly() if is_read_only else view)
    np.testing.assert_array_equal(found.weights["w"], WEIGHT)
    assert found.weights["w"].ctypes.data % 64 == 0
    assert not found.weights["w"].flags.writeable
    assert shares(found, memory) == (is_read_only and offset == 0)
    assert found.manifest == load(path).manifest
    if not is_read_only:
        memory[:] = 0
        np.testing.assert_array_equal(found.weights["w"], WEIGHT)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.float32)])
def test_what_gives_its_memory(path, make):
    data = path.read_bytes()
    found = load(make(data + bytes(-len(data) % 4)))
    np.testing.assert_array_equal(found.weights["w"], WEIGHT)
    assert found.source == f"<{len(data) + -len(data) % 4} bytes in memory>"


def test_a_mapped_file_is_used_in_place(path):
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    found = load(mapped)
    assert shares(found, mapped)
    with pytest.raises(BufferError):  # as long as a weight is there
        mapped.close()
    np.testing.assert_array_equal(found.weights["w"], WEIGHT)


def test_streams_are_read_from_where_they_stand(path, tmp_path):
    data = path.read_bytes()
    stream = io.BytesIO(b"before" + data)
    stream.seek(6)
    np.testing.assert_array_equal(load(stream).weights["w"], WEIGHT)
    with zipfile.ZipFile(tmp_path / "z.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.joinery", data)
    with zipfile.ZipFile(tmp_path / "z.zip") as archive, archive.open("inside.joinery") as member:
        found = load(member)
    np.testing.assert_array_equal(found.weights["w"], WEIGHT)
    assert found.weights["w"].ctypes.data % 64 == 0
    assert found.source == "<stream 'inside.joinery'>"


class Slow(io.RawIOBase):
    """Gives a few bytes at a time, as sockets do."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(min(size, 97))


def test_short_reads(path):
    np.testing.assert_array_equal(load(Slow(path.read_bytes())).weights["w"], WEIGHT)


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000)])
def test_bytes_that_are_no_artifact(data):
    for location, name in ((data, f"<{len(data)} bytes in memory>"), (io.BytesIO(data), "<stream BytesIO>")):
        with pytest.raises(UserError, match=f"{name} is not a joinery artifact that can be used"):
            load(location)


def test_cut_and_changed_bytes_are_noticed(path):
    data = path.read_bytes()
    with pytest.raises(UserError, match=r"ends at byte .*: it is truncated"):
        load(data[:-1])
    for position in range(0, len(data), 997):
        changed = bytearray(data)
        changed[position] ^= 1
        try:
            found = load(changed)
        except UserError:
            continue
        assert found.weights["w"].tobytes() == WEIGHT.tobytes()  # between two sections


@pytest.mark.parametrize("wrong", [None, 5, ["model.joinery"], object()])
def test_what_is_no_source(wrong):
    with pytest.raises(UserError, match="load: expected a path, bytes or a file open for reading, got"):
        load(wrong)


def test_streams_that_cannot_be_read(path):
    with open(path, encoding="latin-1") as file, pytest.raises(UserError, match="gives str, not bytes; fix: open the file in"):
        load(file)
    with open(path, "rb") as file:
        pass
    with pytest.raises(UserError, match="cannot be read: read of closed file"):
        load(file)
    half = io.BytesIO(gzip.compress(path.read_bytes())[:-20])
    with gzip.open(half) as cut, pytest.raises(UserError, match="cannot be read: "):
        load(cut)


def test_memory_with_gaps_is_refused(path):
    data = np.frombuffer(path.read_bytes(), np.uint8)
    with pytest.raises(UserError, match="the memory of a ndarray is not contiguous; fix: bytes"):
        load(np.repeat(data, 2)[::2])
