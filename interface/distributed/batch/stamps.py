"""Tells whether files are those that they were: sizes and times of change of a file, or of all files of a folder."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ....promotion.dataclass import dataclass
from ..failures import RunError

ZARR_METADATA = ("zarr.json", ".zarray")
"""What the folder of an array has one of."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What is known of the files of an input without reading them.

    Attributes:
        files, size: how many there are, and their bytes together.
        newest: the latest time of change of one of them, in nanoseconds.
        digest: the sum, modulo 2^256, of a SHA-256 of each file's name, size and time of change, in hexadecimal.
    """

    files: int
    size: int
    newest: int
    digest: str


def stamp_of(path: Path) -> tuple[Stamp, str]:
    """Return the stamp of a file, or of the files in a folder and below it, and their watch.

    A watch is like the digest of a stamp, of the times at which the system changed what it knows of files and folders, which
    nobody can set: it differs once a file was written, moved or replaced, even if all is as before then. Copies have another.

    Each file of a folder costs a system call, and none is read. Raises `OSError` where one cannot be looked at.
    """
    return _stamp(_files(path) if path.is_dir() else [("", os.stat(path))])


def stamp_of_parquet(name: str, path: Path) -> tuple[Stamp, str]:
    """Return stamp and watch of the files that an input reads of a Parquet file or folder. Raises as `parquet_files` does."""
    return _stamp((file.name if file != path else "", os.stat(file)) for file in parquet_files(name, path))


def parquet_files(name: str, path: Path) -> list[Path]:
    """Return a Parquet file, or the files *.parquet of a folder in the order of their names.

    Names that begin with "_" or "." are left out, which is where writers keep what are no rows.

    Raises `RunError` for a folder with others in it, whose names may stand for a column, and `OSError` where it cannot be
    looked at.
    """
    if not path.is_dir():
        return [path]
    found: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.name.startswith(("_", ".")):
                continue
            if entry.is_dir():
                raise RunError(
                    f"input {name!r}: {path} has a folder in it, {entry.name}, and batch reads the files of one folder; fix: "
                    "move its files up and their columns into them, or one run for each folder"
                )
            if entry.name.lower().endswith(".parquet"):
                found.append(entry.name)
    return [path / each for each in sorted(found)]


def _stamp(found: Iterable[tuple[str, os.stat_result]]) -> tuple[Stamp, str]:
    files, size, newest, digest, watch = 0, 0, 0, 0, 0
    for name, status in found:
        seen = hashlib.sha256(f"{status.st_ctime_ns} {name}".encode("utf-8", "surrogateescape")).digest()
        watch = (watch + int.from_bytes(seen, "little")) % (1 << 256)
        if stat.S_ISDIR(status.st_mode):  # which tells by its watch that a file was moved away and back
            continue
        files, size, newest = files + 1, size + status.st_size, max(newest, status.st_mtime_ns)
        one = hashlib.sha256(f"{status.st_size} {status.st_mtime_ns} {name}".encode("utf-8", "surrogateescape")).digest()
        digest = (digest + int.from_bytes(one, "little")) % (1 << 256)
    return Stamp(files, size, newest, f"{digest:064x}"), f"{watch:064x}"


def _files(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what is in a folder and below it, and the folder."""
    pending = [str(folder)]
    yield "", os.stat(folder)
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                yield os.path.relpath(entry.path, folder), entry.stat()


def changed_file(stamp: Stamp, paths: Iterable[Path], is_folder: bool) -> Path | None:
    """Return a file that has changed since the stamp was made, among some of those that it stands for.

    A file of a folder has if it is newer than all of them were. A chunk that is gone is no change here: Zarr has no file for
    one of zeros. The whole stamp sees both that and older files in its place.
    """
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            if is_folder and path.name not in ZARR_METADATA:
                continue
            return path
        same = status.st_mtime_ns <= stamp.newest if is_folder else stamp_of(path)[0] == stamp
        if not same:
            return path
    return None
