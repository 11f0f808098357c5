"""Writes the results of blocks: each block one region, whole, into .npy, Zarr or Parquet."""

from __future__ import annotations

import errno
import math
import os
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import DType
from ....promotion.errors import UserError
from ..extras import required
from ..failures import RunError


@dataclass(frozen=True, slots=True)
class Tensor:
    """An output: its name, dtype, and the shape of a row."""

    name: str
    dtype: str
    item: tuple[int, ...]

    @property
    def row_bytes(self) -> int:
        return math.prod(self.item) * DType(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go.

    Attributes:
        kind: "npy" for one file, "folder" for a folder of one .npy file per output, "zarr" or "parquet".
        path: what there is in the end, absolute. Until then blocks are written to `data`, in the folder `partial` beside it.
        tensors: the outputs.
        rows, block: rows in all, and in each block but the last.
    """

    kind: str
    path: str
    tensors: tuple[Tensor, ...]
    rows: int
    block: int

    @property
    def partial(self) -> Path:
        return Path(f"{self.path}.partial")

    @property
    def data(self) -> Path:
        return self.partial / "data"

    def prepare(self) -> None:
        """Make what blocks are written to. Raises `UserError` where that is not possible."""
        try:
            self.data.mkdir(parents=True, exist_ok=True)
            _PREPARE.get(self.kind, _nothing)(self)
        except OSError as error:
            raise UserError(f"--output {self.path} cannot be written: {_reason(error)}") from error

    def write(self, number: int, start: int, arrays: Mapping[str, Array]) -> None:
        """Write the rows of a block. Raises `RunError` where the disk does not take them."""
        try:
            _WRITE[self.kind](self, number, start, arrays)
        except OSError as error:
            raise RunError(
                f"block {number} cannot be written to {self.data}: {_reason(error)}; fix that, then --resume"
            ) from error

    def finish(self) -> None:
        """Put the results where they belong, in one step."""
        done = self.data / _npy_name(self.tensors[0]) if self.kind == "npy" else self.data
        try:
            os.replace(done, self.path)
        except OSError as error:
            raise UserError(
                f"--output {self.path} cannot be written: {_reason(error)}; all blocks are in {done}"
            ) from error


def output_kind(path: str, tensors: int) -> str:
    """Return the kind of an output by its suffix. Raises `UserError` for others, and for several outputs in one .npy file."""
    suffix = Path(path).suffix
    if suffix == ".npy" and tensors > 1:
        raise UserError(f"--output {path}: the model has {tensors} outputs; fix: a folder, .zarr or .parquet")
    kinds = {".npy": "npy", ".zarr": "zarr", ".parquet": "parquet", "": "folder"}
    if suffix not in kinds:
        raise UserError(f"--output {path}: batch does not write {suffix}; fix: .npy, .zarr, .parquet, or a folder for .npy")
    return kinds[suffix]


def _reason(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{error.strerror or error}" + (": free some space" if full else "")


def _nothing(output: Output) -> None:
    """Blocks are files of their own."""


# --- .npy: one file per output, of its full size from the beginning, so that a full disk is found before anything runs


def _npy_name(tensor: Tensor) -> str:
    if "/" in tensor.name or tensor.name.startswith("."):
        raise UserError(f"output {tensor.name!r} is no name for a file; fix: --output out.zarr")
    return f"{tensor.name}.npy"


def _write_header(file: BinaryIO, tensor: Tensor, rows: int) -> None:
    dtype = DType(tensor.dtype).numpy
    descr = dtype.str if dtype.kind in "biufc" else f"<V{dtype.itemsize}"  # ml_dtypes are bytes in .npy files
    np.lib.format.write_array_header_1_0(
        file, {"descr": descr, "fortran_order": False, "shape": (rows, *tensor.item)}
    )


def _prepare_npy(output: Output) -> None:
    for tensor in output.tensors:
        path = output.data / _npy_name(tensor)
        if path.exists():
            continue
        temporary = path.with_suffix(f".{uuid.uuid4().hex}.new")
        try:
            with open(temporary, "wb") as file:
                _write_header(file, tensor, output.rows)
                size = file.tell() + output.rows * tensor.row_bytes
                file.flush()
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file.fileno(), 0, size)
                else:
                    file.truncate(size)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def _write_npy(output: Output, number: int, start: int, arrays: Mapping[str, Array]) -> None:
    del number
    for tensor in output.tensors:
        with open(output.data / _npy_name(tensor), "r+b") as file:
            version = np.lib.format.read_magic(file)
            np.lib.format.read_array_header_1_0(file) if version == (1, 0) else np.lib.format.read_array_header_2_0(file)
            file.seek(start * tensor.row_bytes, os.SEEK_CUR)
            file.write(np.ascontiguousarray(arrays[tensor.name]).view(np.uint8).data if tensor.row_bytes else b"")


# --- Zarr: a group with an array per output, whose chunks are the blocks; chunks are written to temporary names and renamed


def _prepare_zarr(output: Output) -> None:
    zarr = required("zarr", "batch")
    group = zarr.open_group(output.data, mode="a", zarr_format=3)
    for tensor in output.tensors:
        if tensor.name in group:
            continue
        dtype = DType(tensor.dtype).numpy
        if dtype.kind not in "biufc":
            raise UserError(
                f"output {tensor.name!r} is {tensor.dtype}, which Zarr has no name for; fix: --output a folder"
            )
        chunks = tuple(max(1, size) for size in (output.block, *tensor.item))
        group.create_array(tensor.name, shape=(output.rows, *tensor.item), dtype=dtype, chunks=chunks)


def _write_zarr(output: Output, number: int, start: int, arrays: Mapping[str, Array]) -> None:
    del number
    for tensor in output.tensors:
        array = _zarr_array(output, tensor.name)
        array[start : start + len(arrays[tensor.name])] = arrays[tensor.name]


@lru_cache(maxsize=64)
def _zarr_array(output: Output, name: str) -> Any:
    """Return an array; a process opens each once, and anew for blocks of another size."""
    return required("zarr", "batch").open_group(output.data, mode="r+")[name]


# --- Parquet: a folder with a file per block


def _prepare_parquet(output: Output) -> None:
    required("pyarrow.parquet", "batch")
    for tensor in output.tensors:
        if len(tensor.item) > 1 or DType(tensor.dtype).numpy.kind not in "biuf":
            raise UserError(
                f"output {tensor.name!r} is {tensor.dtype}{list(tensor.item)} for each row; Parquet takes numbers and lists of "
                "numbers; fix: --output out.zarr"
            )


def _write_parquet(output: Output, number: int, start: int, arrays: Mapping[str, Array]) -> None:
    del start
    pyarrow, parquet = required("pyarrow", "batch"), required("pyarrow.parquet", "batch")
    columns = {}
    for tensor in output.tensors:
        flat = pyarrow.array(np.ascontiguousarray(arrays[tensor.name]).reshape(-1))
        columns[tensor.name] = pyarrow.FixedSizeListArray.from_arrays(flat, tensor.item[0]) if tensor.item else flat
    path = output.data / f"part-{number:08}.parquet"
    temporary = path.with_suffix(f".{uuid.uuid4().hex}.new")
    try:
        parquet.write_table(pyarrow.table(columns), temporary)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


_PREPARE: dict[str, Callable[[Output], None]] = {
    "npy": _prepare_npy, "folder": _prepare_npy, "zarr": _prepare_zarr, "parquet": _prepare_parquet,
}  # fmt: skip
_WRITE: dict[str, Callable[[Output, int, int, Mapping[str, Array]], None]] = {
    "npy": _write_npy, "folder": _write_npy, "zarr": _write_zarr, "parquet": _write_parquet,
}  # fmt: skip
