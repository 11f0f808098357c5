"""Keeps compiled graphs on disk: one file per entry, written atomically, checked on every read, safe for many
processes.

The entries hold object code that will run, so the directory must be the user's own: created with mode 0700,
and ignored when someone else owns it or may write to it. Processes never wait for each other: an entry
appears by renaming a finished temporary file, and of two writers the last wins with equal content. A process
killed while writing leaves a temporary file, which a later trim removes.

An entry consists of 8 bytes magic, u32 version, u32 length of the key, u64 length of the data, 32 bytes SHA-256 of
key and data, the key, and the data.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import time
from pathlib import Path
from typing import Literal

from ...lowering.artifact import CompiledGraph
from ...lowering.machine import use_store
from ...promotion.errors import UserError
from .serialize import decode_compiled, encode_compiled

DEFAULT_BUDGET_BYTES = 1 << 30
_MAGIC = b"JNCACHE\x00"
_VERSION = 1
_HEADER = struct.Struct("<8sIIQ32s")
_SUFFIX = ".entry"
_TEMPORARY = ".writing-"
_STALE_SECONDS = 3600.0
_MAX_ENTRY_BYTES = 2 << 30
_TRIM_SHARE = 64
_WRITTEN: dict[Path, int] = {}
"""Bytes that this process has written to each directory since it was last trimmed. To scan thousands of
entries takes longer than to write one, so a process trims with the first entry that it writes and after each
1/64 of the budget."""


def default_directory() -> Path:
    """Returns `joinery` in the user's cache directory (~/.cache). Raises `UserError` for a user without a
    home directory."""
    try:
        return Path.home() / ".cache" / "joinery"
    except RuntimeError as error:
        raise UserError(
            "this user has no home directory to keep a cache in; fix: pass a cache directory"
        ) from error


class CompileCache:
    """Stores compiled graphs by key, in a directory.

    Errors of the disk only disable caching: reads become misses and writes are dropped, and `problem` says why (a
    read-only or foreign directory, a full disk).

    Args:
        directory: where the entries are; created with mode 0700 when missing. None: `default_directory()`.
        budget_bytes: the size of all entries together; beyond it the least recently used are removed.
    """

    def __init__(
        self, directory: str | os.PathLike[str] | None = None, budget_bytes: int = DEFAULT_BUDGET_BYTES
    ) -> None:
        self.directory = Path(directory) if directory is not None else default_directory()
        self.budget_bytes = budget_bytes
        self.problem: str | None = None
        self.hits = 0
        self.misses = 0
        self._usable = self._open_directory()

    def _open_directory(self) -> bool:
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = os.stat(self.directory)
        except OSError as error:
            self.problem = f"the cache directory {self.directory} cannot be used: {error.strerror or error}"
            return False
        if os.name == "posix":
            if status.st_uid != os.geteuid():
                self.problem = (
                    f"the cache directory {self.directory} belongs to another user; fix: one of your own"
                )
                return False
            if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                self.problem = f"others may write to the cache directory {self.directory}; fix: chmod 700 it"
                return False
        return True

    # --- compiled graphs

    def get(self, key: str) -> CompiledGraph | None:
        """Returns the compiled graph stored under this key, or None. A damaged entry is removed and counts as
        a miss."""
        data = self.get_bytes(key)
        if data is None:
            return None
        try:
            return decode_compiled(data)
        except UserError:
            # the envelope is valid but its content is not: another version wrote it, and it must not run
            self._remove(self._path(key))
            self.hits -= 1
            self.misses += 1
            return None

    def put(self, key: str, compiled: CompiledGraph) -> None:
        """Stores a compiled graph under a key."""
        self.put_bytes(key, encode_compiled(compiled))

    # --- bytes

    def get_bytes(self, key: str) -> bytes | None:
        """Returns the bytes stored under this key, or None."""
        data = self._read(key) if self._usable else None
        if data is None:
            self.misses += 1
            return None
        self.hits += 1
        with contextlib.suppress(OSError):
            os.utime(self._path(key))  # `trim` removes the entries with the oldest times first
        return data

    def recall(self, key: str) -> bytes | None:
        """Returns the bytes stored under this key, or None, and counts neither as a hit nor as a miss."""
        return self._read(key) if self._usable else None

    def put_bytes(self, key: str, data: bytes) -> None:
        """Stores bytes under a key; does nothing when the directory cannot be written."""
        if not self._usable:
            return
        import tempfile  # which reading needs not, and takes as long as a tenth of opening a model

        name = key.encode()
        digest = hashlib.sha256(name + data).digest()
        header = _HEADER.pack(_MAGIC, _VERSION, len(name), len(data), digest)
        temporary = None
        try:
            # mkstemp: mode 0600 and a unique name; in the same directory, so that the rename is atomic
            descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=self.directory)
            with os.fdopen(descriptor, "wb") as file:
                file.write(header + name)
                file.write(data)
            os.replace(temporary, self._path(key))
        except OSError as error:
            self.problem = f"an entry could not be written to {self.directory}: {error.strerror or error}"
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        written = _WRITTEN.get(self.directory)
        _WRITTEN[self.directory] = (written or 0) + len(data)
        if written is None or _WRITTEN[self.directory] > self.budget_bytes // _TRIM_SHARE:
            self.trim()

    def _path(self, key: str) -> Path:
        return self.directory / (hashlib.sha256(key.encode()).hexdigest() + _SUFFIX)

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            descriptor = os.open(
                path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
            )
        except OSError:
            return None
        try:
            with os.fdopen(descriptor, "rb") as file:
                status = os.fstat(file.fileno())
                if os.name == "posix" and status.st_uid != os.geteuid():
                    return None
                content = file.read() if status.st_size <= _MAX_ENTRY_BYTES else b""
        except OSError:
            return None
        data = _unwrap(content, key.encode())
        if data is None:
            self._remove(path)
        return data

    @staticmethod
    def _remove(path: Path) -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    # --- space

    def trim(self) -> None:
        """Removes least recently used entries until the budget holds, and temporary files of writers that died."""
        if not self._usable:
            return
        _WRITTEN[self.directory] = 0
        entries: list[tuple[float, int, str]] = []
        now = time.time()
        try:
            with os.scandir(self.directory) as listing:
                for item in listing:
                    with contextlib.suppress(OSError):  # another process may remove it meanwhile
                        status = item.stat(follow_symlinks=False)
                        if item.name.startswith(_TEMPORARY):
                            if now - status.st_mtime > _STALE_SECONDS:
                                os.unlink(item.path)
                        elif item.name.endswith(_SUFFIX):
                            entries.append((status.st_mtime, status.st_size, item.path))
        except OSError:
            return
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.budget_bytes:
                break
            self._remove(Path(path))
            total -= size

    def clear(self) -> None:
        """Removes every entry."""
        for path in self.directory.glob(f"*{_SUFFIX}"):
            self._remove(path)

    def __repr__(self) -> str:
        state = f"problem: {self.problem}" if self.problem else f"{self.hits} hits, {self.misses} misses"
        return f"<joinery.CompileCache {str(self.directory)!r}; {state}>"


CacheOption = bool | Literal["must-hit"] | str | os.PathLike[str] | CompileCache


def cache_of(option: CacheOption) -> CompileCache | None:
    """Returns the cache that an option names; None for no cache. The first one keeps what LLVM says of this machine. Raises
    `UserError` for anything that is not an option."""
    if option is False:
        return None
    found = _opened(option)
    use_store(found)
    return found


def _opened(option: CacheOption) -> CompileCache:
    if isinstance(option, CompileCache):
        return option
    if option is True or option == "must-hit":
        return CompileCache()
    if not isinstance(option, (str, os.PathLike)) or option == "":
        raise UserError(
            f"cache is {option!r}; expected True, False, 'must-hit', a directory or a CompileCache; "
            "fix: cache=False to do without"
        )
    return CompileCache(option)


def _unwrap(content: bytes, key: bytes) -> bytes | None:
    """Returns the data of an entry, or None if its header, key or checksum is wrong."""
    if len(content) < _HEADER.size:
        return None
    magic, version, key_length, data_length, digest = _HEADER.unpack_from(content)
    if magic != _MAGIC or version != _VERSION or len(content) != _HEADER.size + key_length + data_length:
        return None
    body = memoryview(content)[_HEADER.size :]
    if hashlib.sha256(body).digest() != digest or body[:key_length] != key:
        return None
    return bytes(body[key_length:])
