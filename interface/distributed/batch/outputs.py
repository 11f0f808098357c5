"""Defines where the results of a run go, and what is done to make them last."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ..failures import RunError
from .formats import FORMATS, BlockStore, Tensor, has_npy_form, read_npy
from .stamps import is_utf8


@dataclass(frozen=True, slots=True)
class Output:
    """Where results go.

    Attributes:
        kind: "npy" for one file, "folder" for a folder of one .npy file per output, "zarr" or "parquet".
        path: what there is in the end, absolute. Until then blocks are written to the folder `partial` beside it.
        tensors: the outputs.
        rows, block: rows in all, and in each block but the last.
        run: what tells this run from earlier and later ones to the same path; its blocks lie in a folder of that name.
    """

    kind: str
    path: str
    tensors: tuple[Tensor, ...]
    rows: int
    block: int
    run: str = ""

    @property
    def partial(self) -> Path:
        return Path(f"{self.path}.partial")

    @property
    def store(self) -> BlockStore:
        partial = self.partial
        return BlockStore(partial / f"data-{self.run}", partial / f"new-{self.run}", self.tensors, self.rows, self.block)

    @property
    def whole(self) -> Path:
        """What gets the output's name when all blocks are there."""
        return self.store.folder / f"{self.tensors[0].name}.npy" if self.kind == "npy" else self.store.folder

    def prepare(self) -> None:
        """Make what blocks are written to. Raises `UserError` where that is not possible, `ValueError` for another form."""
        try:
            self.store.folder.mkdir(parents=True, exist_ok=True)
            self.store.temporary.mkdir(exist_ok=True)
            FORMATS[self.kind].prepare(self.store)
        except OSError as error:
            raise UserError(f"--output {self.path} cannot be written: {_reason(error)}") from error

    def write(self, number: int, arrays: Mapping[str, Array]) -> None:
        """Write a block. Raises `RunError` where the disk does not take it, or the run has ended meanwhile."""
        try:
            FORMATS[self.kind].write(self.store, number, arrays)
        except OSError as error:
            raise RunError(
                f"block {number} cannot be written to {self.store.folder}: {_reason(error)}; fix that, then --resume"
            ) from error

    def is_right(self, number: int, digest: str) -> bool:
        """Tell whether a block is there, and what was written."""
        try:
            return block_digest(FORMATS[self.kind].read(self.store, number)) == digest
        except Exception:  # whatever libraries say about files that are damaged or gone
            return False

    def finished_block(self, number: int) -> dict[str, Array]:
        """Return a block of the output that has its name. Raises whatever comes of files that are gone or damaged."""
        if self.kind == "npy":
            (tensor,) = self.tensors
            return {tensor.name: read_npy(Path(self.path), tensor, self.store, number)}
        return FORMATS[self.kind].read(replace(self.store, folder=Path(self.path)), number)

    def has_form(self) -> bool:
        """Tell whether the output that has its name is as large as the run made it, and nothing is beside its blocks."""
        path = Path(self.path)
        try:
            if self.kind == "npy":
                return has_npy_form(path, self.tensors[0], self.rows)
            store = replace(self.store, folder=path)
            strays = [each for each in path.iterdir() if not FORMATS[self.kind].is_part(store, each.name)]
            return not strays and FORMATS[self.kind].has_form(store)
        except Exception:  # whatever libraries say about files that are damaged or gone
            return False

    def sync(self, numbers: Iterable[int]) -> None:
        """Wait until the disk has some blocks. Raises `RunError` where it does not take them."""
        files = dict.fromkeys(path for number in numbers for path in FORMATS[self.kind].files(self.store, number))
        try:
            for path in [*files, *dict.fromkeys(path.parent for path in files)]:
                sync_file(path)
        except OSError as error:
            raise RunError(f"{self.store.folder} cannot be written: {_reason(error)}; fix that, then --resume") from error

    def _put_aside(self, strays: list[Path]) -> None:
        """Move what others have put beside the blocks out of what becomes the output; it stays where the run was."""
        aside = self.partial / f"stray-{self.run}"
        for path in strays:
            aside.mkdir(exist_ok=True)
            os.replace(path, aside / path.name)

    def finish(self) -> None:
        """Put the results where they belong, in one step."""
        folder, done = self.store.folder, self.whole
        try:
            if self.kind == "zarr":  # of writers that were killed
                for left in [path for path in folder.rglob("*.partial") if path.is_file()]:
                    left.unlink()
            self._put_aside([path for path in folder.iterdir() if not FORMATS[self.kind].is_part(self.store, path.name)])
            sync_file(folder)
            if os.path.lexists(self.path):
                raise FileExistsError(errno.EEXIST, "it has been made meanwhile", self.path)
            os.replace(done, self.path)
            sync_file(Path(self.path).parent)
        except OSError as error:
            raise UserError(f"--output {self.path} cannot be written: {_reason(error)}; all blocks are in {done}") from error


def output_kind(path: str, tensors: tuple[Tensor, ...]) -> str:
    """Return the kind of an output by its suffix.

    Raises `UserError` for others, for several outputs in one .npy file, for a folder in a Zarr, and for outputs that the format
    does not take.
    """
    suffix = Path(path).suffix
    if suffix == ".npy" and len(tensors) > 1:
        raise UserError(f"--output {path}: the model has {len(tensors)} outputs; fix: a folder, .zarr or .parquet")
    kinds = {".npy": "npy", ".zarr": "zarr", ".parquet": "parquet", "": "folder"}
    if suffix not in kinds:
        raise UserError(f"--output {path}: batch does not write {suffix}; fix: .npy, .zarr, .parquet, or a folder for .npy")
    if kinds[suffix] == "folder" and (group := _zarr_around(path)):
        names = ", ".join(tensor.name for tensor in tensors)
        raise UserError(
            f"--output {path}: {group} is a Zarr, which would not see a folder of .npy files in it; batch writes a Zarr of its "
            f"own, with an array for each output; fix: --output out.zarr, with {names}"
        )
    if kinds[suffix] == "parquet" and not is_utf8(os.path.abspath(path)):
        raise UserError(
            f"--output: {os.path.abspath(path)!r} is no UTF-8, and Parquet takes no other paths; fix: another name, or .npy"
        )
    FORMATS[kinds[suffix]].check(tensors)
    return kinds[suffix]


def _zarr_around(path: str) -> Path | None:
    """Return the Zarr that a path leads into, by its name or by what is in it."""
    for folder in Path(os.path.abspath(path)).parents:
        if folder.suffix == ".zarr" or any(os.path.exists(folder / name) for name in ("zarr.json", ".zgroup", ".zarray")):
            return folder
    return None


def block_digest(arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of the results of a block: names, dtypes, shapes and bytes."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name} {array.dtype} {array.shape}\n".encode())
        found.update(array.reshape(-1).view(np.uint8).data if array.size else b"")
    return found.hexdigest()


def sync_file(path: Path) -> None:
    """Wait until the disk has a file or a folder; nothing for one that is not there."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except (FileNotFoundError, PermissionError):  # Windows opens no folders
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems that cannot sync folders
            raise
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes, temporary: Path | None = None) -> None:
    """Write a file in one step, which the disk has afterwards. Raises `UserError` where it does not take it.

    temporary: where it is written before it has its name; by default the name with the suffix .new.
    """
    temporary = temporary or path.with_suffix(".new")
    try:
        temporary.write_bytes(data)
        sync_file(temporary)
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from error


def _reason(error: OSError) -> str:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{error.strerror or error}" + (": free some space" if full else "")
