"""Reads rows of arrays in files: .npy, .npz, Zarr, Parquet, safetensors."""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ....graph.weights.safetensors_files import load_safetensors
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import JoineryError, UserError
from ..extras import required
from ..failures import RunError

_MEMBERS = re.compile(r"(?P<path>.*\.(?P<kind>npz|parquet|safetensors))(?::(?P<member>.+))?", re.DOTALL)
_ZARR = re.compile(r"(?P<path>.*?\.zarr)(?:/(?P<member>.+?))?/?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of an input come from.

    Attributes:
        name: the input.
        kind: "npy", "npz", "zarr", "parquet" or "safetensors".
        path: of the file, absolute.
        member: of an array in the file, or a column of it; "" where the file is the array.
        stamp: size and time of change of the file, by which a later run knows it again; of folders, those of the folder.
    """

    name: str
    kind: str
    path: str
    member: str
    stamp: tuple[int, int]

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else self.path


@dataclass(frozen=True, slots=True)
class Ragged:
    """Rows of different lengths: `values` has them one after the other, row i from `offsets[i]` to `offsets[i + 1]`."""

    values: Array
    offsets: Array

    @property
    def lengths(self) -> Array:
        return np.diff(self.offsets)

    def padded(self, rows: Array, width: int) -> Array:
        """Return some rows as an array of that width, with zeros behind what they have."""
        found = np.zeros((len(rows), width), self.values.dtype)
        for at, row in enumerate(rows):
            part = self.values[self.offsets[row] : self.offsets[row + 1]]
            found[at, : len(part)] = part
        return found


class Column(Protocol):
    """Rows of a file that is open.

    Attributes:
        rows: how many there are.
        dtype: of the elements.
        item: the shape of a row; None for rows of different lengths.
    """

    rows: int
    dtype: np.dtype[Any]
    item: tuple[int, ...] | None

    def read(self, start: int, stop: int) -> Array | Ragged:
        """Return some rows."""


def source(name: str, text: str) -> Source:
    """Return where an input's rows are, of `NAME=PATH` or `NAME=PATH:MEMBER`.

    Raises `UserError` for a file that is not there, or of another format.
    """
    if text.endswith(".npy"):
        kind, path, member = "npy", text, ""
    elif found := _MEMBERS.fullmatch(text):
        kind, path, member = found["kind"], found["path"], found["member"] or name
    elif found := _ZARR.fullmatch(text):
        kind, path, member = "zarr", found["path"], found["member"] or ""
    else:
        raise UserError(
            f"input {name!r}: {text} is in no format that batch reads; fix: .npy, .npz:NAME, .zarr/NAME, .parquet:COLUMN or "
            ".safetensors:NAME"
        )
    try:
        status = os.stat(path)
    except OSError as error:
        raise UserError(f"input {name!r}: {path} cannot be read: {error.strerror or error}") from error
    return Source(name, kind, os.path.abspath(path), member, (status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=64)
def opened(source: Source) -> Column:
    """Return the rows of a source; a process opens each once.

    Raises `RunError` where the file cannot be read, or has no such member.
    """
    try:
        return _OPENERS[source.kind](source)
    except JoineryError:
        raise
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise RunError(f"input {source.name!r}: {source} cannot be read: {error}; fix: a path that all workers see") from error


class _ArrayColumn:
    """Rows along the first axis of an array, or of what is indexed like one."""

    def __init__(self, source: Source, array: Any) -> None:
        if not array.ndim:
            raise RunError(f"input {source.name!r}: {source} is a number, it has no rows; fix: an array")
        self._array = array
        self.rows = int(array.shape[0])
        self.item: tuple[int, ...] | None = tuple(map(int, array.shape[1:]))
        self.dtype = np.dtype(array.dtype)

    def read(self, start: int, stop: int) -> Array:
        return np.asarray(self._array[start:stop])


def _npy(source: Source) -> Column:
    return _ArrayColumn(source, np.load(source.path, mmap_mode="r", allow_pickle=False))


def _npz(source: Source) -> Column:
    with np.load(source.path, allow_pickle=False) as members:
        if source.member not in members:
            raise _no_member(source, list(members))
        return _ArrayColumn(source, members[source.member])


def _safetensors(source: Source) -> Column:
    return _ArrayColumn(source, load_safetensors(source.path, [source.member])[source.member])


def _zarr(source: Source) -> Column:
    found = required("zarr", "batch").open(source.path, mode="r")
    member = source.member
    if hasattr(found, "array_keys"):
        member = member or source.name
        if member not in found or hasattr(found[member], "array_keys"):
            raise _no_member(source, sorted(found.array_keys()))
        found = found[member]
    elif member:
        raise RunError(f"input {source.name!r}: {source.path} is an array, not a group; fix: leave out /{member}")
    return _ArrayColumn(source, found)


def _no_member(source: Source, members: list[str]) -> RunError:
    known = ", ".join(members) or "none"
    return RunError(f"input {source.name!r}: {source.path} has no {source.member or source.name!r}; fix: one of {known}")


class _ParquetColumn:
    """A column of a Parquet file, or of a folder of them in the order of their names.

    Numbers, lists of one length, and lists of different lengths; no nulls.
    """

    def __init__(self, source: Source) -> None:
        self._parquet = required("pyarrow.parquet", "batch")
        self._source = source
        folder = Path(source.path)
        paths = sorted(folder.glob("*.parquet")) if folder.is_dir() else [folder]
        self._files = [self._parquet.ParquetFile(path, memory_map=True) for path in paths]
        if not self._files or source.member not in self._files[0].schema_arrow.names:
            raise _no_member(source, self._files[0].schema_arrow.names if self._files else [])
        self._groups = [(file, number) for file in self._files for number in range(file.metadata.num_row_groups)]
        counts = [file.metadata.row_group(number).num_rows for file, number in self._groups]
        self._starts = [0, *accumulate(counts)]
        self.rows = self._starts[-1]
        kind = self._files[0].schema_arrow.field(source.member).type
        first = self.read(0, min(1, self.rows)) if self.rows else None
        is_list = hasattr(kind, "value_type")
        self.dtype = np.dtype((kind.value_type if is_list else kind).to_pandas_dtype())
        fixed = getattr(kind, "list_size", None)
        self.item: tuple[int, ...] | None = None if isinstance(first, Ragged) or (is_list and fixed is None) else (
            (int(fixed),) if fixed is not None else ()
        )  # fmt: skip

    def read(self, start: int, stop: int) -> Array | Ragged:
        pyarrow = required("pyarrow", "batch")
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, max(stop - 1, start)) - 1
        pieces = []
        for (file, number), begin in zip(self._groups[first : last + 1], self._starts[first : last + 1], strict=False):
            column = file.read_row_group(number, columns=[self._source.member]).column(0)
            pieces.append(column.slice(max(start - begin, 0), stop - max(start, begin)))
        column = pyarrow.chunked_array([chunk for piece in pieces for chunk in piece.chunks], pieces[0].type).combine_chunks()
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.chunk(0) if column.num_chunks else pyarrow.array([], column.type)
        return self._array(column, pyarrow)

    def _array(self, column: Any, pyarrow: Any) -> Array | Ragged:
        types = pyarrow.types
        values = column.flatten() if types.is_nested(column.type) else column
        if column.null_count or values.null_count or not types.is_primitive(values.type):
            why = f"elements of {values.type}" if not types.is_primitive(values.type) else "nulls"
            raise RunError(f"input {self._source.name!r}: {self._source} has {why}; fix: a column of numbers or lists of them")
        flat: Array = np.asarray(values)
        if types.is_fixed_size_list(column.type):
            return flat.reshape(len(column), column.type.list_size)
        if not types.is_nested(column.type):
            return flat
        offsets = np.asarray(column.offsets)
        return Ragged(flat, offsets - offsets[0])


_OPENERS: dict[str, Callable[[Source], Column]] = {
    "npy": _npy, "npz": _npz, "zarr": _zarr, "parquet": _ParquetColumn, "safetensors": _safetensors,
}  # fmt: skip
