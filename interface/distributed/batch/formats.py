"""Writes rows of blocks into .npy files, Zarr or Parquet, each block whole, and reads them again."""

from __future__ import annotations

import math
import os
import re
import uuid
from collections.abc import Mapping
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ....promotion.errors import UserError
from ..extras import required

_FOLDER = "out, a folder of .npy files"
_PART = re.compile(r"part-([0-9]{8,})\.parquet")
_FILE_NAME = re.compile(r"[^./\\\0][^/\\\0]{0,199}")


def is_of_numpy(dtype: DType) -> bool:
    """Tell whether NumPy has a dtype itself, so that files and other libraries have a name for it; others are ml_dtypes'."""
    return dtype.numpy.isbuiltin == 1  # ml_dtypes' float8_e5m2 has the kind of floats


@dataclass(frozen=True, slots=True)
class Tensor:
    """An output: its name, dtype, and the shape of a row."""

    name: str
    dtype: str
    item: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.item) * DType(self.dtype).itemsize

    def file_name(self, reserved: bool = False) -> str:
        """Return the name as one of a file. Raises `UserError` for names that lead to another folder, or are `reserved`."""
        if reserved or not _FILE_NAME.fullmatch(self.name) or len(os.fsencode(self.name)) > 200:
            raise UserError(f"output {self.name!r:.80} is no name for a file; fix: another name in graph.output(…, names=…)")
        return self.name


@dataclass(frozen=True, slots=True)
class BlockStore:
    """The blocks of a run on disk, until all of them are there.

    Attributes:
        folder: where they are. It has the number of the run in its name, so that nobody else finds it.
        temporary: where files are written before they get their names in `folder`.
        tensors: the outputs.
        rows, block: rows in all, and in each block but the last.
    """

    folder: Path
    temporary: Path
    tensors: tuple[Tensor, ...]
    rows: int
    block: int

    def bounds(self, number: int) -> tuple[int, int]:
        """Return the first row of a block and the one after its last."""
        start = number * self.block
        return start, min(start + self.block, self.rows)


class Format(Protocol):
    """How blocks lie on disk."""

    def check(self, tensors: tuple[Tensor, ...]) -> None:
        """Raise `UserError` for outputs that the format has no place for."""

    def prepare(self, store: BlockStore) -> None:
        """Make what blocks are written to. Raises `ValueError` if it is there, and of another form."""

    def write(self, store: BlockStore, number: int, arrays: Mapping[str, Array]) -> None:
        """Write a block. Raises `OSError` where the disk does not take it."""

    def read(self, store: BlockStore, number: int) -> dict[str, Array]:
        """Return a block that was written. Raises whatever comes of files that are gone or damaged."""

    def files(self, store: BlockStore, number: int) -> list[Path]:
        """Return the files that hold a block, some of which may not be there."""

    def is_part(self, store: BlockStore, name: str) -> bool:
        """Tell whether a file or folder of that name in the store's folder belongs to the blocks."""

    def has_form(self, store: BlockStore) -> bool:
        """Tell whether the files of all blocks are as large as they are made. Raises whatever comes of damaged ones."""


# --- .npy: one file per output, of its full size from the beginning, so that a full disk is found before anything runs


class Npy:
    def check(self, tensors: tuple[Tensor, ...]) -> None:
        for tensor in tensors:
            tensor.file_name()

    def prepare(self, store: BlockStore) -> None:
        for tensor in store.tensors:
            header = _npy_header(tensor, store.rows)
            size = len(header) + store.rows * tensor.row_bytes
            path = _npy_path(store, tensor)
            if path.exists():
                if not has_npy_form(path, tensor, store.rows):
                    raise ValueError(f"{path} is of another form")
                continue
            temporary = store.temporary / f"{uuid.uuid4().hex}.npy"
            with open(temporary, "wb") as new:
                new.write(header)
                new.flush()
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(new.fileno(), 0, size)
                else:
                    new.truncate(size)
            os.replace(temporary, path)

    def write(self, store: BlockStore, number: int, arrays: Mapping[str, Array]) -> None:
        for tensor in store.tensors:
            with open(_npy_path(store, tensor), "r+b") as file:
                _seek(file, store, tensor, number)
                file.write(np.ascontiguousarray(arrays[tensor.name]).view(np.uint8).data if tensor.row_bytes else b"")

    def read(self, store: BlockStore, number: int) -> dict[str, Array]:
        return {tensor.name: read_npy(_npy_path(store, tensor), tensor, store, number) for tensor in store.tensors}

    def files(self, store: BlockStore, number: int) -> list[Path]:
        return [_npy_path(store, tensor) for tensor in store.tensors]

    def is_part(self, store: BlockStore, name: str) -> bool:
        return any(name == _npy_path(store, tensor).name for tensor in store.tensors)

    def has_form(self, store: BlockStore) -> bool:
        return all(has_npy_form(_npy_path(store, tensor), tensor, store.rows) for tensor in store.tensors)


def has_npy_form(path: Path, tensor: Tensor, rows: int) -> bool:
    """Tell whether a file has the header and the size of an output. Raises `OSError` where it cannot be read."""
    header = _npy_header(tensor, rows)
    with open(path, "rb") as file:
        return file.read(len(header)) == header and os.fstat(file.fileno()).st_size == len(header) + rows * tensor.row_bytes


def read_npy(path: Path, tensor: Tensor, store: BlockStore, number: int) -> Array:
    """Return a block of an output in a file of its own. Raises `OSError` and `ValueError` where it is not there."""
    start, stop = store.bounds(number)
    with open(path, "rb") as file:
        _seek(file, store, tensor, number)
        data = file.read((stop - start) * tensor.row_bytes)
    return np.frombuffer(data, DType(tensor.dtype).numpy).reshape(stop - start, *tensor.item)


def _npy_path(store: BlockStore, tensor: Tensor) -> Path:
    return store.folder / f"{tensor.file_name()}.npy"


def _npy_header(tensor: Tensor, rows: int) -> bytes:
    dtype = DType(tensor.dtype).numpy
    descr = dtype.str if is_of_numpy(DType(tensor.dtype)) else f"<V{dtype.itemsize}"  # ml_dtypes are bytes in .npy files
    file = BytesIO()
    shape = (rows, *tensor.item)
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


def _seek(file: BinaryIO, store: BlockStore, tensor: Tensor, number: int) -> None:
    file.seek(len(_npy_header(tensor, store.rows)) + store.bounds(number)[0] * tensor.row_bytes)


# --- Zarr: a group with an array per output, whose chunks are the blocks; chunks are written to temporary names and renamed


class Zarr:
    def check(self, tensors: tuple[Tensor, ...]) -> None:
        for tensor in tensors:
            tensor.file_name(tensor.name.startswith("__") or tensor.name == "zarr.json")
            if not is_of_numpy(DType(tensor.dtype)):
                raise UserError(
                    f"output {tensor.name!r} is {tensor.dtype}, which Zarr has no name for; fix: --output {_FOLDER}"
                )

    def prepare(self, store: BlockStore) -> None:
        group = required("zarr", "batch").open_group(store.folder, mode="a", zarr_format=3)
        for tensor in store.tensors:
            shape, chunks, dtype = _zarr_form(store, tensor)
            if tensor.name not in group:
                group.create_array(tensor.name, shape=shape, dtype=dtype, chunks=chunks)
            elif not _has_zarr_form(group[tensor.name], store, tensor):
                raise ValueError(f"{tensor.name} is of another form")

    def write(self, store: BlockStore, number: int, arrays: Mapping[str, Array]) -> None:
        if not (store.folder / "zarr.json").exists():  # Zarr would make the folder of a run that has ended
            raise FileNotFoundError(2, "the run has ended", str(store.folder))
        start, stop = store.bounds(number)
        for tensor in store.tensors:
            _zarr_array(store, tensor.name)[start:stop] = arrays[tensor.name]

    def read(self, store: BlockStore, number: int) -> dict[str, Array]:
        start, stop = store.bounds(number)
        return {tensor.name: np.asarray(_zarr_array(store, tensor.name)[start:stop]) for tensor in store.tensors}

    def files(self, store: BlockStore, number: int) -> list[Path]:
        found = []
        for tensor in store.tensors:
            key = _zarr_array(store, tensor.name).metadata.encode_chunk_key((number, *[0] * len(tensor.item)))
            found.append(store.folder / tensor.name / key)
        return found

    def is_part(self, store: BlockStore, name: str) -> bool:
        return name == "zarr.json" or any(name == tensor.name for tensor in store.tensors)

    def has_form(self, store: BlockStore) -> bool:
        group = required("zarr", "batch").open_group(store.folder, mode="r")
        return all(_has_zarr_form(group[tensor.name], store, tensor) for tensor in store.tensors)


def _has_zarr_form(array: Any, store: BlockStore, tensor: Tensor) -> bool:
    return bool((array.shape, array.chunks, array.dtype) == _zarr_form(store, tensor))


def _zarr_form(store: BlockStore, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...], np.dtype[np.generic]]:
    """Return the shape, the chunks and the dtype of an output's array."""
    # Zarr makes chunks in full, those too that reach beyond the array.
    chunks = tuple(max(1, size) for size in (min(store.block, store.rows), *tensor.item))
    return (store.rows, *tensor.item), chunks, DType(tensor.dtype).numpy


@lru_cache(maxsize=64)
def _zarr_array(store: BlockStore, name: str) -> Any:
    """Return an array; a process opens each once, and anew for each run."""
    zarr = required("zarr", "batch")
    # Zarr leaves out chunks that equal zero, as complex numbers do whose zeros have signs: each block gets its file. An array
    # keeps what is set where it is opened; Zarr 3.1.0 has no other way to say it of one.
    with zarr.config.set({"array.write_empty_chunks": True}):
        return zarr.open_group(store.folder, mode="r+")[name]


# --- Parquet: a folder with a file per block


class Parquet:
    def check(self, tensors: tuple[Tensor, ...]) -> None:
        required("pyarrow.parquet", "batch")
        for tensor in tensors:
            dtype = DType(tensor.dtype)
            if len(tensor.item) > 1 or 0 in tensor.item or not is_of_numpy(dtype) or dtype.is_complex:
                raise UserError(
                    f"output {tensor.name!r} is {tensor.dtype}{list(tensor.item)} for each row; Parquet takes numbers and "
                    f"lists of one or more numbers; fix: --output {'out.zarr' if is_of_numpy(dtype) else _FOLDER}"
                )

    def prepare(self, store: BlockStore) -> None:
        if not store.rows:  # a file without rows keeps the names and types of columns
            self.write(store, 0, {each.name: np.empty((0, *each.item), DType(each.dtype).numpy) for each in store.tensors})

    def write(self, store: BlockStore, number: int, arrays: Mapping[str, Array]) -> None:
        pyarrow, parquet = required("pyarrow", "batch"), required("pyarrow.parquet", "batch")
        columns = {}
        for tensor in store.tensors:
            flat = pyarrow.array(np.ascontiguousarray(arrays[tensor.name]).reshape(-1))
            columns[tensor.name] = pyarrow.FixedSizeListArray.from_arrays(flat, tensor.item[0]) if tensor.item else flat
        temporary = store.temporary / f"{uuid.uuid4().hex}.parquet"
        try:
            parquet.write_table(pyarrow.table(columns), temporary)
            os.replace(temporary, _part(store, number))
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def read(self, store: BlockStore, number: int) -> dict[str, Array]:
        start, stop = store.bounds(number)
        with required("pyarrow.parquet", "batch").ParquetFile(_part(store, number)) as file:
            table = file.read().combine_chunks()
        if table.column_names != [tensor.name for tensor in store.tensors]:
            raise ValueError(f"block {number} has columns that no run has written")
        found: dict[str, Array] = {}
        for tensor in store.tensors:
            column = table.column(tensor.name).combine_chunks()
            flat = np.asarray(column.flatten() if tensor.item else column)
            found[tensor.name] = flat.reshape(stop - start, *tensor.item)
        return found

    def files(self, store: BlockStore, number: int) -> list[Path]:
        return [_part(store, number)]

    def is_part(self, store: BlockStore, name: str) -> bool:
        number = int(found[1]) if (found := _PART.fullmatch(name)) else -1
        return 0 <= number < max(1, -(-store.rows // store.block)) and name == _part(store, number).name

    def has_form(self, store: BlockStore) -> bool:
        if store.rows:  # each file is read as a block, and has its rows or is none
            return True
        found = self.read(store, 0)
        return all(found[tensor.name].dtype == DType(tensor.dtype).numpy for tensor in store.tensors)


def _part(store: BlockStore, number: int) -> Path:
    return store.folder / f"part-{number:08}.parquet"


FORMATS: Mapping[str, Format] = {"npy": Npy(), "folder": Npy(), "zarr": Zarr(), "parquet": Parquet()}
