"""Opens the rows of arrays in files, and keeps what was decoded of them for the next block."""

from __future__ import annotations

import itertools
import os
import threading
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ....graph.weights.safetensors_files import load_safetensors
from ....promotion.arrays import Array
from ....promotion.dtype import DType
from ....promotion.errors import JoineryError, UserError
from ..extras import required
from ..failures import RunError
from .parquet_columns import ParquetColumn
from .sources import Column, Ragged, Source
from .stamps import ZARR_METADATA

KEPT_BYTES = 128 << 20
"""Decoded chunks of Zarr that a process keeps for each input. Larger chunks are decoded again for each block."""

_SHOWN_MEMBERS = 20


def read_rows(source: Source, start: int, stop: int) -> Array | Ragged:
    """Return rows of a source.

    Raises `RunError` where the files cannot be read, or have changed since the run was planned, `UserError` for rows that are
    no numbers.
    """
    column = opened(source)
    try:
        found = column.read(start, stop)
    except Exception:
        source.require_unchanged(column.files(start, stop))  # which says more than what comes of half a change
        raise
    source.require_unchanged(column.files(start, stop))
    return found


@lru_cache(maxsize=64)
def opened(source: Source) -> Column:
    """Return the rows of a source; a process opens each once.

    Raises `RunError` where the file cannot be read, or has no such member.
    """
    try:
        return _OPENERS[source.kind](source)
    except JoineryError:
        raise
    except MemoryError as error:
        raise _too_large(source, str(error)) from error
    except OSError as error:
        if error.errno is not None:
            raise RunError(
                f"input {source.name!r}: {source} cannot be read: {error.strerror or error}; fix: a path that all workers see"
            ) from error
        raise _damaged(source, error) from error
    except Exception as error:  # of a library that meets a file of another format, or a part of one
        raise _damaged(source, error) from error


if hasattr(os, "register_at_fork"):  # locks of the parent may be held, and its readers are in the middle of files
    os.register_at_fork(after_in_child=opened.cache_clear)


def _damaged(source: Source, error: Exception) -> RunError:
    text = " ".join(str(error).split()).partition(". ")[0]
    return RunError(
        f"input {source.name!r}: {source.path} is no .{source.kind} file, or a part of one: {text:.120}; "
        "fix: write it anew"
    )


def _too_large(source: Source, why: str) -> RunError:
    return RunError(
        f"input {source.name!r}: {source} does not fit into memory, where each worker has all of it: {why:.120}; fix: .npy or "
        ".zarr, of which blocks are read"
    )


def _no_numbers(source: Source, what: str) -> RunError:
    return RunError(f"input {source.name!r}: {source} has {what}; fix: an array of numbers")


class _ArrayColumn:
    """Rows along the first axis of an array, or a number."""

    def __init__(self, source: Source, array: Any) -> None:
        self._source, self._array, self._files = source, array, [Path(source.path)]
        self.is_number = not array.ndim
        self.rows = 0 if self.is_number else int(array.shape[0])
        self.item: tuple[int, ...] | None = tuple(map(int, array.shape[1:]))
        self.dtype = DType(source.raw).numpy if source.raw else np.dtype(array.dtype)

    def read(self, start: int, stop: int) -> Array:
        found: Array = np.asarray(self._array[() if self.is_number else slice(start, stop)])
        return np.asarray(found, order="C").view(self.dtype) if self._source.raw else found

    def files(self, start: int, stop: int) -> list[Path]:
        return self._files


class _ZarrColumn(_ArrayColumn):
    """Rows of an array of Zarr. Chunks that a block takes a part of are kept, since its neighbours take the others."""

    def __init__(self, source: Source, array: Any) -> None:
        super().__init__(source, array)
        self._chunks = tuple(map(int, array.chunks))
        if any(size and not chunk for size, chunk in zip(array.shape, self._chunks, strict=True)):
            raise _damaged(source, ValueError(f"its shape is {array.shape}, its chunks are {self._chunks}"))
        self._row_bytes = self.dtype.itemsize * max(1, int(np.prod(array.shape[1:])))
        self._kept: OrderedDict[int, Array] = OrderedDict()
        self._lock = threading.Lock()
        self._folder = Path(source.path, array.path)
        self._metadata = [path for name in ZARR_METADATA if (path := self._folder / name).exists()]

    def read(self, start: int, stop: int) -> Array:
        try:
            return self._read(start, stop)
        except JoineryError:
            raise
        except Exception as error:  # of a library that decodes
            damage = self._damage(start, stop)
            if damage is None:
                raise
            raise damage from error

    def _damage(self, start: int, stop: int) -> UserError | None:
        """Return the error that names the file of some rows that cannot be decoded; None where each can be."""
        sizes, indices = self._cells(start, stop)
        for index in indices:
            cell = tuple([slice(at * size, at * size + size) for at, size in zip(index, sizes, strict=True)])
            try:
                self._array[cell]
            except Exception as error:  # of a library that meets a part of a file
                text = " ".join(str(error).split())
                return UserError(
                    f"input {self._source.name!r}: {self._path(index)} cannot be decoded: {type(error).__name__}: {text:.120}; "
                    "fix: write it anew"
                )
        return None

    def _read(self, start: int, stop: int) -> Array:
        if self.is_number:
            return super().read(start, stop)
        step = max(1, self._chunks[0])
        if step * self._row_bytes > KEPT_BYTES:
            return super().read(start, stop)
        pieces, at = [], start
        while at < stop:
            first, last = at // step * step, min(at // step * step + step, self.rows)
            if at == first and stop >= last:  # whole chunks, as many as there are
                end = stop if stop == self.rows else stop // step * step
                pieces.append(super().read(at, end))
            else:
                end = min(stop, last)
                pieces.append(self._part(first, last)[at - first : end - first])
            at = end
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces) if pieces else super().read(start, stop)

    def _part(self, first: int, last: int) -> Array:
        """Return the rows of a chunk, which is decoded once for all blocks that follow each other."""
        with self._lock:
            found = self._kept.get(first)
            if found is None:
                found = self._kept[first] = super().read(first, last)
                while sum(each.nbytes for each in self._kept.values()) > KEPT_BYTES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(first)
        return found

    def files(self, start: int, stop: int) -> list[Path]:
        return self._metadata + [self._path(index) for index in self._cells(start, stop)[1]]

    def _cells(self, start: int, stop: int) -> tuple[tuple[int, ...], Iterator[tuple[int, ...]]]:
        """Return the shape of what a file holds, and the positions along each axis of the files that have some rows."""
        sizes = tuple(map(int, getattr(self._array, "shards", None) or self._chunks))
        if self.is_number:
            return sizes, iter([()])
        if start >= stop or not all(sizes) or not all(self._array.shape):
            return sizes, iter(())
        rows = range(start // sizes[0], (stop - 1) // sizes[0] + 1)
        others = [range(-(-size // chunk)) for size, chunk in zip(self._array.shape[1:], sizes[1:], strict=True)]
        return sizes, itertools.product(rows, *others)

    def _path(self, index: tuple[int, ...]) -> Path:
        return Path(self._folder, self._array.metadata.encode_chunk_key(index))


def _npy(source: Source) -> Column:
    with open(source.path, "rb") as file:
        np.lib.format.read_magic(file)  # what has none would be taken for a pickle
    try:
        with np.errstate(all="ignore"):  # sizes that overflow, which are refused
            return _ArrayColumn(source, np.load(source.path, mmap_mode="r", allow_pickle=False))
    except ValueError as error:
        raise _of_objects(source, error) from error


def _npz(source: Source) -> Column:
    with open(source.path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it has not the end of an archive")
    with np.load(source.path, allow_pickle=False) as members:
        sizes = {each.filename: each.file_size for each in members.zip.infolist()}
        # NumPy takes the name of a file in the archive for that of an array: with "x" and "x.npy" in it, the one for the other.
        stored = next((name for name in (f"{source.member}.npy", source.member) if name in sizes), None)
        if stored is None:
            raise no_member(source, list(members))
        if sizes[stored] > memory_bytes():
            raise _too_large(source, f"it has {sizes[stored]} bytes when it is unpacked, this machine has {memory_bytes()}")
        try:
            found = members[stored]
        except ValueError as error:
            raise _of_objects(source, error) from error
    if not isinstance(found, np.ndarray):
        raise _no_numbers(source, "bytes that are no array")
    return _ArrayColumn(source, found)


def _of_objects(source: Source, error: ValueError) -> Exception:
    """Return the error for an array of Python objects, which NumPy has no class for."""
    is_of_objects = "Object arrays cannot be loaded" in str(error) or "Python objects in dtype" in str(error)
    return _no_numbers(source, "Python objects, which are not unpacked") if is_of_objects else error


def memory_bytes() -> int:
    """Return how much memory this machine has."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 1 << 62


def _safetensors(source: Source) -> Column:
    return _ArrayColumn(source, load_safetensors(source.path, [source.member])[source.member])


def _zarr(source: Source) -> Column:
    # A group's copy of the metadata of its arrays stays as it was when rows are added to one.
    found = required("zarr", "batch").open(source.path, mode="r", use_consolidated=False)
    member = source.member
    if hasattr(found, "array_keys"):
        member = member or source.name
        if member not in found or hasattr(found[member], "array_keys"):
            every = (name for name, each in found.members(max_depth=None) if not hasattr(each, "array_keys"))
            raise no_member(source, sorted(itertools.islice(every, _SHOWN_MEMBERS)))
        found = found[member]
    elif member:
        raise RunError(f"input {source.name!r}: {source.path} is an array, not a group; fix: leave out /{member}")
    return _ZarrColumn(source, found)


def no_member(source: Source, members: list[str]) -> RunError:
    """Return the error for a member that a file has not."""
    fix = f"one of {', '.join(members)}" if members else "another file, there is nothing in this one"
    return RunError(f"input {source.name!r}: {source.path} has no {source.member or source.name!r}; fix: {fix}")


def _parquet(source: Source) -> Column:
    return ParquetColumn(source, no_member)


_OPENERS: dict[str, Callable[[Source], Column]] = {
    "npy": _npy, "npz": _npz, "zarr": _zarr, "parquet": _parquet, "safetensors": _safetensors,
}  # fmt: skip
