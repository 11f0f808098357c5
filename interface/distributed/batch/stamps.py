"""Tells whether files are those that they were: sizes and times of change of a file, or of all files of a folder."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at files has found.

    Attributes:
        stamp: theirs.
        watch: a number like the digest of a stamp, of the times at which the system changed what it knows of files, folders and
            links, which nobody can set: it differs once a file was written, moved or replaced, or a link was turned, even if
            all is as before then. Copies have another.
        real: the path without links, and a digest of where links in the folder lead, if it has any. Another file behind a link
            may have the size and the time of the one before. Workers of other hosts may have other links to their copies.
    """

    stamp: Stamp
    watch: str
    real: str


def look_at(path: Path) -> Look:
    """Look at a file, or at the files in a folder and below it.

    Each file of a folder costs a system call, and none is read. Raises `OSError` where one cannot be looked at.
    """
    return _look(path, _files(path) if path.is_dir() else [_Found("", os.stat(path))])


def look_at_parquet(name: str, path: Path) -> Look:
    """Look at the files that an input reads of a Parquet file or folder. Raises as `parquet_files` does."""
    files = parquet_files(name, path)
    names = ("" if file == path else file.name for file in files)
    return _look(path, (_Found(name, os.stat(path / name), bool(name) and (path / name).is_symlink()) for name in names))


def is_utf8(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is one for pyarrow, which takes none of other bytes."""
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def parquet_files(name: str, path: Path) -> list[Path]:
    """Return a Parquet file, or the files *.parquet of a folder in the order of their names.

    Names that begin with "_" or "." are left out, which is where writers keep what are no rows.

    Raises `RunError` for a folder with others in it, whose names may stand for a column, and for names that are no UTF-8, and
    `OSError` where it cannot be looked at.
    """
    if not path.is_dir():
        _require_utf8(name, [path])
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
    files = [path / each for each in sorted(found)]
    _require_utf8(name, files)
    return files


def _require_utf8(name: str, files: list[Path]) -> None:
    for each in files:
        if not is_utf8(each):
            raise RunError(f"input {name!r}: {str(each)!r} is no UTF-8, and Parquet takes no other paths; fix: rename it")


class _Found(NamedTuple):
    """A file or folder, by its name in the folder that is looked at, and whether it is a link there."""

    name: str
    status: os.stat_result
    is_link: bool = False


def _look(path: Path, found: Iterable[_Found]) -> Look:
    links: list[str] = []
    stamp, watch = _sums(found, links)
    watch += sum(_number(f"{os.lstat(link).st_ctime_ns} {link}") for link in _links([path, *(path / name for name in links)]))
    real = os.path.realpath(path)
    if links:
        real += f" with links {_hexadecimal(sum(_number(f'{os.path.realpath(path / name)} {name}') for name in links))}"
    return Look(stamp, _hexadecimal(watch), real)


def _sums(found: Iterable[_Found], links: list[str]) -> tuple[Stamp, int]:
    """Return stamp and watch of files and folders, and add the names of those that are links to `links`."""
    files, size, newest, digest, watch = 0, 0, 0, 0, 0
    for name, status, is_link in found:
        watch += _number(f"{status.st_ctime_ns} {name}")
        if is_link:
            links.append(name)
        if stat.S_ISDIR(status.st_mode):  # which tells by its watch that a file was moved away and back
            continue
        files, size, newest = files + 1, size + status.st_size, max(newest, status.st_mtime_ns)
        digest += _number(f"{status.st_size} {status.st_mtime_ns} {name}")
    return Stamp(files, size, newest, _hexadecimal(digest)), watch


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest(), "little")


def _hexadecimal(number: int) -> str:
    return f"{number % (1 << 256):064x}"


def _links(paths: list[Path]) -> Iterator[Path]:
    """Yield the links among some paths and the folders above them, and those that they lead to."""
    seen: set[Path] = set()
    while paths:
        path = paths.pop()
        for each in (path, *path.parents):
            if each in seen:  # and so are the folders above it
                break
            seen.add(each)
            if each.is_symlink():
                yield each
                paths.append(Path(os.path.abspath(each.parent / os.readlink(each))))


def _files(folder: Path) -> Iterator[_Found]:
    """Yield what is in a folder and below it, and the folder."""
    pending = [str(folder)]
    yield _Found("", os.stat(folder))
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                yield _Found(os.path.relpath(entry.path, folder), entry.stat(), entry.is_symlink())


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
        same = status.st_mtime_ns <= stamp.newest if is_folder else _sums([_Found("", status)], [])[0] == stamp
        if not same:
            return path
    return None
