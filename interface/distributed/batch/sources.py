"""Defines where rows of inputs come from: files .npy, .npz, Zarr, Parquet, safetensors."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import JoineryError, UserError
from ..failures import InputChanged, RunError
from .stamps import ZARR_METADATA, Look, Stamp, changed_file, look_at, look_at_parquet

_MEMBERS = re.compile(r"(?P<path>.*\.(?P<kind>npz|(?i:parquet)|safetensors))(?::(?P<member>.+))?", re.DOTALL)
_ZARR = re.compile(r"\.zarr(?=/|$)")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of an input come from.

    Attributes:
        name: the input.
        kind: "npy", "npz", "zarr", "parquet" or "safetensors".
        path: of the file, absolute.
        member: of an array in the file, or a column of it; "" where the file is the array.
        stamp: by which workers and later runs know the files again.
        length: of lists in a column, which are refused one by one if they have another one; None for any length.
        raw: the dtype of elements that the file has as bytes, which is how .npy files have those that NumPy does not know.
        watch: by which the client knows whether somebody did anything to the files. Processes keep nothing that they have
            decoded for a run with another one.
        real: where links on the path, and in the folder, lead on the client.
    """

    name: str
    kind: str
    path: str
    member: str
    stamp: Stamp
    length: int | None = None
    raw: str = ""
    watch: str = ""
    real: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.member}" if self.member else self.path

    @property
    def is_folder(self) -> bool:
        return os.path.isdir(self.path)

    @property
    def folder(self) -> Path | None:
        """The folder whose files the stamp is of; None for a file."""
        if self.kind == "zarr":
            return _zarr_folder(self.name, Path(self.path), self.member)
        return Path(self.path) if self.is_folder else None

    def require_unchanged(self, paths: list[Path] | None = None) -> None:
        """Raise `InputChanged` if the files are others than when the run was planned: all of them, or some of a folder's.

        Raises `RunError` where they cannot be looked at.
        """
        try:
            if paths is not None:
                found = changed_file(self.stamp, paths, self.is_folder)
            else:
                found = None if self._look().stamp == self.stamp else Path(self.path)
        except OSError as error:
            raise self._unreadable(error) from error
        if found is not None:
            raise self._changed(found)

    def require_undisturbed(self) -> None:
        """Raise as `require_unchanged` does, also for files that were others in between. This holds on the client alone."""
        try:
            look = self._look()
        except OSError as error:
            raise self._unreadable(error) from error
        if look.stamp != self.stamp:
            raise self._changed(Path(self.path))
        if look.real != self.real:
            raise InputChanged(
                f"input {self.name!r}: {self} leads to {look.real} now, and led to {self.real} when the run was planned, so "
                "blocks of different inputs would be mixed; fix: links as they were, and --resume, or begin anew with the "
                "files themselves"
            )
        if look.watch != self.watch:
            raise InputChanged(
                f"input {self.name!r}: somebody wrote, moved or replaced files of {self} while blocks were computed, or "
                "changed their rights or links, and they have the sizes and times of before; fix: --resume, which computes "
                "those blocks again, when nobody does that any more"
            )

    def _look(self) -> Look:
        return _look(self.name, self.kind, self.path, self.member)

    def _unreadable(self, error: OSError) -> RunError:
        return RunError(
            f"input {self.name!r}: {self} cannot be read: {error.strerror or error}; fix: a path that all workers see"
        )

    def _changed(self, path: Path) -> InputChanged:
        return InputChanged(
            f"input {self.name!r}: {path} is not what it was when the run was planned, by its size and time of change, so "
            "blocks of different inputs would be mixed; fix: the files as they were, with their times, and --resume, or begin "
            "anew with inputs that nobody changes meanwhile (copies on other hosts need their times: cp -p, rsync -t)"
        )


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
        is_number: whether it is a number, which every block gets, and no rows.
        rows: how many there are.
        dtype: of the elements.
        item: the shape of a row; None for rows of different lengths.
    """

    is_number: bool
    rows: int
    dtype: np.dtype[Any]
    item: tuple[int, ...] | None

    def read(self, start: int, stop: int) -> Array | Ragged:
        """Return some rows, or the number. Raises `UserError` for rows that are no numbers."""

    def files(self, start: int, stop: int) -> list[Path]:
        """Return the files that some rows come from."""


def source(name: str, text: str) -> Source:
    """Return where an input's rows are, of `NAME=PATH` or `NAME=PATH:MEMBER`.

    Raises `UserError` for a file that is not there, or of another format.
    """
    if text.endswith(".npy") and not _is_member(text):
        kind, path, member = "npy", text, ""
    elif found := _MEMBERS.fullmatch(text):
        kind, path, member = found["kind"].lower(), found["path"], found["member"] or name
    elif ends := [found.end() for found in _ZARR.finditer(text)]:
        at = next((end for end in ends if _is_zarr(text[:end])), ends[0])  # folders above it may be called so too
        kind, path, member = "zarr", text[:at], text[at:].strip("/")
    elif folder := _folder_of_parquet(text):  # which Spark, Ray and others give any name
        kind, path, member = "parquet", folder[0], folder[1] or name
    else:
        raise UserError(
            f"input {name!r}: {text} is in no format that batch reads; fix: .npy, .npz:NAME, .zarr/NAME, .parquet:COLUMN, a "
            "folder of files .parquet, or .safetensors:NAME"
        )
    if kind == "zarr" and not {".", ".."}.isdisjoint(member.split("/")):
        raise UserError(f"input {name!r}: {text}: {member} is no name in a group; fix: the path of another group before .zarr")
    try:
        path = os.path.abspath(path)
        mode = os.stat(path).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise UserError(f"input {name!r}: {path} is a pipe or a device; fix: a file, since rows of it are read again")
        look = _look(name, kind, path, member)
        return Source(name, kind, path, member, look.stamp, watch=look.watch, real=look.real)
    except OSError as error:
        why = error.strerror or error
        raise UserError(f"input {name!r}: {path} cannot be read: {why}; fix: the path of a file that is there") from error
    except ValueError as error:  # of a NUL
        if isinstance(error, JoineryError):
            raise
        raise UserError(f"input {name!r}: {path!r} cannot be read: {error}; fix: another path") from error


def _is_member(text: str) -> bool:
    """Tell whether a path that ends in .npy is that of an array of such a name in a file or a Zarr."""
    if "\0" in text or os.path.isfile(text):
        return False
    return _MEMBERS.fullmatch(text) is not None or any(_is_zarr(text[: found.end()]) for found in _ZARR.finditer(text))


def _folder_of_parquet(text: str) -> tuple[str, str] | None:
    """Return folder and column of `PATH` or `PATH:COLUMN` if the path is a folder with files of Parquet in it."""
    for path, member in ((text, ""), text.rpartition(":")[::2]):
        with contextlib.suppress(OSError, ValueError):  # it is no folder, or has a NUL in it
            if path and any(each.lower().endswith(".parquet") for each in os.listdir(path)):
                return path, member
    return None


def _is_zarr(path: str) -> bool:
    return "\0" not in path and any(os.path.exists(os.path.join(path, name)) for name in (*ZARR_METADATA, ".zgroup"))


def _zarr_folder(name: str, path: Path, member: str) -> Path:
    """Return where the files of an array are: of a group the folder of the one array."""
    array = path / (member or name)
    return array if any((array / each).exists() for each in ZARR_METADATA) else path


def _look(name: str, kind: str, path: str, member: str) -> Look:
    """Look at what a source reads: of a Zarr group the one array, of a folder of Parquet its files."""
    folder = Path(path)
    if kind == "zarr":
        return look_at(_zarr_folder(name, folder, member))
    return look_at_parquet(name, folder) if kind == "parquet" else look_at(folder)
