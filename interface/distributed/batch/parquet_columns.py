"""Reads rows of a column of Parquet files, in order, each once."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from ....promotion.arrays import Array
from ....promotion.errors import JoineryError, UserError
from ..extras import required
from ..failures import RunError
from .sources import Ragged, Source
from .stamps import parquet_files

_PIECE_BYTES = 4 << 20
_KEPT_BYTES = 64 << 20
"""Decoded rows that a process keeps for each input: those of blocks that follow, or that are tried again."""
_MAX_PIECE_ROWS = 8192


class ParquetColumn:
    """A column of a Parquet file, or of a folder of them in the order of their names.

    Numbers, lists of one length, and lists of different lengths. Row groups are decoded in pieces of a few MB, one after the
    other: a block goes on where the one before it ended, so each group is decoded once by a process, whatever its size.
    """

    is_number = False

    def __init__(self, source: Source, no_member: Callable[[Source, list[str]], RunError]) -> None:
        self._parquet, self._pyarrow = required("pyarrow.parquet", "batch"), required("pyarrow", "batch")
        self._source = source
        source.require_unchanged()
        paths = parquet_files(source.name, Path(source.path))
        self._groups: list[tuple[Path, int]] = []
        counts: list[int] = []
        for path in paths:
            with self._file(path) as file:
                schema = file.schema_arrow
                if source.member not in schema.names:
                    raise no_member(source, schema.names) if path == paths[0] else self._differs(path, "has no such column")
                if schema.names.count(source.member) > 1:
                    raise self._differs(path, f"is there {schema.names.count(source.member)} times")
                found = schema.field(source.member).type
                if path == paths[0]:
                    self._type = found
                elif found != self._type:
                    raise self._differs(path, f"has {found}, {paths[0].name} has {self._type}")
                metadata = file.metadata
                for number in range(metadata.num_row_groups):
                    self._groups.append((path, number))
                    counts.append(metadata.row_group(number).num_rows)
        if not paths:
            raise RunError(f"input {source.name!r}: {source.path} has no files *.parquet; fix: another folder")
        self._starts = [0, *accumulate(counts)]
        self._damaged: dict[int, tuple[int, str]] = {}  # of row groups: the first row that cannot be decoded, and why
        self.rows = self._starts[-1]
        self.dtype, self.item = self._kind()
        self._lock = threading.Lock()
        self._kept: deque[tuple[int, Any]] = deque()  # the first row of each piece, and the piece
        self._kept_bytes = 0
        self._pieces: Iterator[tuple[int, Any]] = iter(())
        self._at = 0  # the row that `_pieces` goes on with

    def _file(self, path: Path) -> Any:
        """Open a file. Raises `RunError` for one whose footer cannot be read."""
        try:
            return self._parquet.ParquetFile(path, memory_map=True, page_checksum_verification=True)
        except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors and OSErrors without a number
            if getattr(error, "errno", None) is not None:
                raise
            raise RunError(
                f"input {self._source.name!r}: {path} is no .parquet file, or a part of one: {_text(error)}; fix: write it anew"
            ) from error

    def _differs(self, path: Path, how: str) -> RunError:
        return RunError(f"input {self._source.name!r}: {path}: column {self._source.member!r} {how}; fix: files of one schema")

    def _kind(self) -> tuple[np.dtype[Any], tuple[int, ...] | None]:
        """Return the dtype of the elements, and the shape of a row. Raises `RunError` for what are no numbers."""
        types, length = self._pyarrow.types, self._source.length
        item: tuple[int, ...] | None = ()
        element = self._type
        if types.is_fixed_size_list(element):
            item, element = (int(element.list_size),), element.value_type
        elif types.is_list(element) or types.is_large_list(element):
            item, element = None if length is None else (length,), element.value_type
        if not (types.is_integer(element) or types.is_floating(element) or types.is_boolean(element)):
            raise RunError(
                f"input {self._source.name!r}: {self._source} has {self._type}; fix: a column of numbers or lists of them"
            )
        return np.dtype(element.to_pandas_dtype()), item

    def files(self, start: int, stop: int) -> list[Path]:
        first, last = self._group_of(start), self._group_of(max(stop - 1, start))
        return list(dict.fromkeys(path for path, _ in self._groups[first : last + 1]))

    def read(self, start: int, stop: int) -> Array | Ragged:
        with self._lock:
            parts = [
                piece.slice(max(start - at, 0), min(stop, at + len(piece)) - max(start, at))
                for at, piece in self._covering(start, stop)
            ]
        column = self._pyarrow.concat_arrays(parts) if parts else self._pyarrow.array([], self._type)
        return self._numbers(column, start)

    # --- decoding, one block after the other

    def _group_of(self, row: int) -> int:
        return max(0, bisect_right(self._starts, row) - 1)

    def _covering(self, start: int, stop: int) -> list[tuple[int, Any]]:
        """Return the decoded pieces that have some rows, with the first row of each."""
        if start >= stop:
            return []
        for group in range(self._group_of(start), self._group_of(stop - 1) + 1):
            if group in self._damaged and self._damaged[group][0] < stop:
                raise UserError(self._damaged[group][1])
        begun = self._kept[0][0] if self._kept else self._at
        if start < begun or self._group_of(start) > self._group_of(self._at) or not self._at:
            self._forget()
            self._at, self._pieces = self._starts[self._group_of(start)], self._decoded(self._group_of(start))
        while self._at < stop:
            try:
                row, piece = next(self._pieces)
            except BaseException:  # a page that cannot be decoded ends the reader, and the next block begins another one
                self._forget()
                self._at = 0
                raise
            self._at = row + len(piece)
            if self._at <= start:  # rows that nobody asked for; what is kept has no gaps
                self._forget()
            else:
                self._kept.append((row, piece))
                self._kept_bytes += piece.nbytes
        found = [(row, piece) for row, piece in self._kept if row < stop and row + len(piece) > start]
        while len(self._kept) > 1 and self._kept_bytes > _KEPT_BYTES:
            self._kept_bytes -= self._kept.popleft()[1].nbytes
        return found

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_bytes = 0

    def _decoded(self, group: int) -> Iterator[tuple[int, Any]]:
        """Yield the pieces of row groups from one to the last, with the first row of each.

        Raises `UserError` where a group cannot be decoded, and notes it: the reader cannot go on behind a page that is damaged.
        """
        opened: Path | None = None
        file: Any = None
        for number in range(group, len(self._groups)):
            path, inside = self._groups[number]
            first, end = self._starts[number], self._starts[number + 1]
            row = first
            try:
                if path != opened:
                    file, opened = self._file(path), path
                for chunk in self._chunks(file, inside, end - row):
                    if row + len(chunk) > end:
                        raise ValueError(f"it has more than the {end - first} rows that its footer says")
                    yield row, chunk
                    row += len(chunk)
                if row != end:
                    raise ValueError(f"it has {row - first} rows, its footer says {end - first}")
            except (JoineryError, MemoryError):
                raise
            except Exception as error:  # of a library that meets damaged pages
                if getattr(error, "errno", None) is not None:  # of the disk, which may do better another time
                    raise
                self._damaged[number] = row, (
                    f"input {self._source.name!r}: row group {inside} of {path}, rows {first} to {end - 1}, "
                    f"cannot be decoded from row {row} on: {_text(error)}; fix: write the file anew"
                )
                raise UserError(self._damaged[number][1]) from error

    def _chunks(self, file: Any, group: int, count: int) -> Iterator[Any]:
        """Yield the pieces of a row group."""
        size = self._size(file.metadata.row_group(group))
        rows = max(1, min(_MAX_PIECE_ROWS, _PIECE_BYTES * count // max(1, size)))
        # A dot in a name is one of a field in a struct as well, so that other columns may come with it.
        options = {"columns": [self._source.member], "use_threads": False}
        if rows >= count:
            yield from file.read_row_group(group, **options).column(self._source.member).chunks
        else:
            for batch in file.iter_batches(rows, row_groups=[group], **options):
                yield batch.column(self._source.member)

    def _size(self, group: Any) -> int:
        """Return the bytes of the column in a row group, not compressed."""
        columns = (group.column(number) for number in range(group.num_columns))
        member = self._source.member
        return sum(int(each.total_uncompressed_size) for each in columns if f"{each.path_in_schema}.".startswith(f"{member}."))

    # --- numbers

    def _numbers(self, column: Any, start: int) -> Array | Ragged:
        """Return decoded rows as arrays. Raises `UserError` that names a row with a null, or with a list of another length."""
        types = self._pyarrow.types
        is_list = types.is_nested(column.type)
        values = column.flatten() if is_list else column
        if column.null_count or values.null_count:
            row = next(at for at, each in enumerate(column) if each.as_py() is None or (is_list and None in each.as_py()))
            raise UserError(
                f"input {self._source.name!r}: row {start + row} of {self._source} is null, or has a null; fix: fill it, or "
                "leave the row out"
            )
        flat: Array = np.asarray(values)
        if types.is_fixed_size_list(column.type):
            return flat.reshape(len(column), column.type.list_size)
        if not is_list:
            return flat
        offsets = np.asarray(column.offsets)
        found = Ragged(flat, offsets - offsets[0])
        return found if self._source.length is None else self._of_one_length(found, self._source.length, start)

    def _of_one_length(self, found: Ragged, length: int, start: int) -> Array:
        others = np.flatnonzero(found.lengths != length)
        if len(others):
            raise UserError(
                f"input {self._source.name!r}: row {start + others[0]} of {self._source} has {found.lengths[others[0]]} "
                f"elements, the model takes {length}; fix: rows of {length}"
            )
        return found.values.reshape(-1, length)


def _text(error: Exception) -> str:
    return f"{' '.join(str(error).split()).partition('. ')[0]:.120}"
