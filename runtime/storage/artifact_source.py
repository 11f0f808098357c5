"""Reads the bytes of an artifact from a file, from a stream or from memory."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ..host.memory import empty, is_aligned

_PIECE = 1 << 20
"""Bytes that are asked of a stream at once, where its length is not known."""
_BYTE = np.dtype(np.uint8)


@runtime_checkable
class Stream(Protocol):
    """A file that is open for reading bytes, such as `io.BytesIO`, a member of an archive or an HTTP response."""

    def read(self, size: int = ..., /) -> bytes: ...


Location = str | os.PathLike[str] | bytes | bytearray | memoryview | mmap.mmap | Stream
"""What an artifact is opened from."""


class Source(Protocol):
    """The bytes of an artifact.

    Attributes:
        name: what messages call it.
        size: in bytes.
    """

    name: str
    size: int

    def section(self, offset: int, length: int) -> Array:
        """Return bytes as an array on a 64-byte boundary that nobody else writes. Raises `UserError` if they are not there
        any more."""
        ...


def _at_once(path: str, flags: int) -> int:
    """Open a file without waiting for the writer of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


class _File:
    """A file of the file system, which stays open."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = open(path, "rb", buffering=0, opener=_at_once)  # noqa: SIM115 - closed by `opened`
        status = os.fstat(self._file.fileno())
        if not stat.S_ISREG(status.st_mode):
            self._file.close()
            raise UserError(f"artifact {path} is no regular file; fix: check the path, or pass a stream: open(…, 'rb')")
        self.size = status.st_size

    def section(self, offset: int, length: int) -> Array:
        body = empty((length,), _BYTE)
        self._file.seek(offset)
        if _fill(body, self._file.readinto) < length:
            raise bad(self.name, "it ends before its sections do: it was cut while it was read")
        return body

    def close(self) -> None:
        self._file.close()


class _Memory:
    """Bytes in memory. What can be written is copied; what is read-only and lies on a 64-byte boundary is used in place."""

    def __init__(self, data: memoryview, name: str) -> None:
        self.name, self.size = name, data.nbytes
        self._bytes = np.frombuffer(data.cast("B") if data.nbytes else b"", np.uint8)

    def section(self, offset: int, length: int) -> Array:
        part = self._bytes[offset : offset + length]
        if length and not part.flags.writeable and is_aligned(part):
            return part
        body = empty((length,), _BYTE)
        body[:] = part
        return body

    def close(self) -> None:
        pass


def opened(location: object) -> _File | _Memory:
    """Open the bytes of an artifact; the caller closes them.

    Args:
        location: a path; bytes, or anything that gives its memory as C-contiguous bytes; or a stream, which is read from where
            it stands to its end.

    Raises `UserError` for what is none of these, and for a file or stream that cannot be read.
    """
    if isinstance(location, (str, os.PathLike)):
        path = Path(location)
        try:
            return _File(path)
        except UserError:  # which is a ValueError
            raise
        except OSError as error:
            raise UserError(f"artifact {path} cannot be opened: {error.strerror or error}") from error
        except ValueError as error:  # of a NUL, or of what has no form in bytes
            raise UserError(f"artifact {str(path)!r} cannot be opened: {error}; fix: another path") from error
    try:
        view = memoryview(location)  # type: ignore[arg-type]
    except TypeError:
        if isinstance(location, Stream):
            return _Memory(_read_all(location).data.toreadonly(), f"<stream {_named(location)}>")
        raise UserError(
            f"load: expected a path, bytes or a file open for reading, got {type(location).__name__}; fix: "
            "joinery.load('model.joinery')"
        ) from None
    except ValueError as error:  # such as a mapping that is closed
        raise UserError(f"load: the memory of a {type(location).__name__} cannot be read: {error}") from error
    if not view.c_contiguous:
        raise UserError(f"load: the memory of a {type(location).__name__} is not contiguous; fix: bytes(…) of it")
    return _Memory(view, f"<{view.nbytes} bytes in memory>")


def bad(name: str, what: str) -> UserError:
    return UserError(f"{name} is not a joinery artifact that can be used: {what}; fix: save or copy the file again")


def _named(stream: Stream) -> str:
    name = getattr(stream, "name", None)
    return repr(name)[:200] if isinstance(name, str) else type(stream).__name__


def _read_all(stream: Stream) -> Array:
    """Return what is left of a stream, on a 64-byte boundary."""
    try:
        pieces: list[bytes] = []
        while piece := stream.read(_PIECE):
            if not isinstance(piece, bytes | bytearray | memoryview):
                raise UserError(
                    f"stream {_named(stream)} gives {type(piece).__name__}, not bytes; fix: open the file in mode 'rb'"
                )
            pieces.append(bytes(piece))
    except (OSError, ValueError, EOFError) as error:  # ValueError: it is closed; EOFError: an archive that was cut
        raise UserError(f"stream {_named(stream)} cannot be read: {error}") from error
    whole = empty((sum(map(len, pieces)),), _BYTE)
    at = 0
    for piece in pieces:
        whole[at : at + len(piece)] = np.frombuffer(piece, np.uint8)
        at += len(piece)
    return whole


def _fill(body: Array, read: Callable[[Any], int | None]) -> int:
    """Read into an array until it is full or nothing comes; return how many bytes came."""
    view, at = body.data, 0
    while at < len(view):
        count = read(view[at:])
        if not count:
            break
        at += count
    return at
