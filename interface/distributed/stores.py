"""Keeps copies of models' files in a folder, under their digests, and removes those that nobody needs any more."""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ...promotion.errors import UserError
from ...runtime.storage import artifact_file

try:
    import fcntl
except ImportError:  # Windows, where files that are open cannot be removed
    fcntl = None  # type: ignore[assignment]

KEPT_SECONDS = 30 * 86400.0
"""Copies go that nobody has opened for this long."""
KEPT_SHARE = 4
"""Copies together may have one part in this many of their disk; beyond it those go that were opened least recently."""
_SPARED_SECONDS = 3600.0
"""Copies that were opened this recently stay: a reference to one may be on its way to a process that opens it."""
_STALE_SECONDS = 86400.0
_NAME = re.compile(r"[0-9a-f]{64}\.joinery")
_TEMPORARY = ".new-"


class ModelStore:
    """Files of models in a folder of the user's own, by digest.

    Who uses one keeps it open, which locks it: others remove no file that is locked, and one that was removed can still be read
    by those who have it open. Where the file system has no locks, nothing is removed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, digest: str) -> Path:
        """Return where the file with a digest is, or would be."""
        return self.folder / f"{digest}.joinery"

    def get(self, digest: str, check: bool = True) -> BinaryIO | None:
        """Return the file with a digest, open; it stays at its path until it is closed. None where there is none that is whole.

        check: False for a file that was read a moment ago.
        """
        path = self.path(digest)
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller keeps it open
        except OSError:
            return None
        with contextlib.suppress(OSError):
            _lock(file.fileno(), shared=True)
        try:
            is_there = os.path.samestat(os.fstat(file.fileno()), os.stat(path))
        except OSError:  # it was removed before it was locked
            is_there = False
        if not is_there or (check and not is_whole(file, digest)):
            file.close()
            return None
        with contextlib.suppress(OSError):  # the time of its change tells whether somebody changed it, and stays
            os.utime(path, ns=(time.time_ns(), os.fstat(file.fileno()).st_mtime_ns))
        return file

    @contextlib.contextmanager
    def writing(self, digest: str) -> Iterator[Path]:
        """Yield a path to write a file to, which is renamed when that has gone well, unless one is there; then trim the store.

        Raises `OSError` where the folder cannot be written.
        """
        descriptor, name = tempfile.mkstemp(prefix=_TEMPORARY, suffix=".joinery", dir=self.folder)
        os.close(descriptor)
        try:
            yield Path(name)
            with self._alone():
                there = self.get(digest)
                if there is None:
                    os.replace(name, self.path(digest))
                else:  # another process has written it meanwhile, and may have locked it
                    there.close()
                    os.unlink(name)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        self.trim(digest)

    def trim(self, kept: str) -> None:
        """Remove copies that are old or too many, but the one with the digest `kept`, and what killed writers have left."""
        now, found = time.time(), []
        with contextlib.suppress(OSError), self._alone() as is_alone:
            if not is_alone:
                return
            limit = shutil.disk_usage(self.folder).total // KEPT_SHARE
            for entry in os.scandir(self.folder):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    if entry.name.startswith(_TEMPORARY):
                        if now - status.st_mtime > _STALE_SECONDS:
                            os.unlink(entry.path)
                    elif _NAME.fullmatch(entry.name):
                        found.append((max(status.st_atime, status.st_mtime), status.st_size, Path(entry.path)))
            total = sum(size for _, size, _ in found)
            for used, size, path in sorted(found):
                is_spared = path == self.path(kept) or now - used < _SPARED_SECONDS
                if not is_spared and (total > limit or now - used > KEPT_SECONDS) and _remove(path):
                    total -= size

    @contextlib.contextmanager
    def _alone(self) -> Iterator[bool]:
        """Rename and remove while no other process does; yield whether that is certain."""
        with open(self.folder / ".lock", "ab") as file:
            try:
                _lock(file.fileno())
                is_alone = fcntl is not None
            except OSError:
                is_alone = False
            yield is_alone


def _lock(descriptor: int, shared: bool = False, wait: bool = True) -> None:
    """Lock a file until it is closed. Raises `OSError` where the file system cannot, or somebody else has locked it."""
    if fcntl is not None:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))


def _remove(path: Path) -> bool:
    """Remove a file unless somebody has it open, and return whether it is gone."""
    try:
        descriptor = os.open(path, os.O_RDWR)  # network file systems lock only what may be written
    except OSError:
        return False
    try:
        _lock(descriptor, wait=False)
        os.unlink(path)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def mapped(file: BinaryIO) -> mmap.mmap:
    """Return the memory of a file. Raises `ValueError` for an empty one."""
    return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def is_whole(file: BinaryIO, digest: str) -> bool:
    """Tell whether a file is an artifact with a digest, all of it."""
    try:
        artifact_file.load(mapped(file), digest=digest)
    except (OSError, ValueError, UserError):
        return False
    return True
