"""Reads the tensors that a model keeps in files beside it: nothing outside the model's folder, and no links.

Every component of the path is opened relative to the folder before it, without following links, and the file is looked at
through its descriptor, so that nothing can change between the check and the reading.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ...promotion.errors import UserError

_KEYS = frozenset(("location", "offset", "length", "checksum"))
_FIX = "fix: keep the data in files inside the model's folder, or pass external_data_dir= if you trust the folder it lies in"


class ExternalData:
    """The folder that a model's data may come from; None for models that came as bytes.

    A caller who names the folder vouches for it: files with several hard links, as model caches make them, are read then.
    """

    def __init__(self, folder: str | None, is_named: bool) -> None:
        self.folder, self.is_named = folder, is_named

    def read(self, tensor: Any, nbytes: int, where: str) -> bytes:
        """Return the bytes of a tensor; `where`, the file and what holds the tensor in it, begins messages.

        Raises `UserError` for whatever is not plainly a part of a file of the folder."""
        what = f"{where} external data of tensor {tensor.name!r}"
        entries: dict[str, str] = {}
        for entry in tensor.external_data:
            if entry.key not in _KEYS or entry.key in entries:
                raise UserError(f"{what}: the key {entry.key!r:.80} is unknown or given twice; fix: save the model again")
            entries[entry.key] = entry.value
        if self.folder is None:
            raise UserError(f"{what}: a model from bytes has no folder; fix: pass external_data_dir=")
        offset = _number(entries.get("offset", "0"), f"{what}: offset")
        length = _number(entries["length"], f"{what}: length") if "length" in entries else nbytes
        if length != nbytes:
            raise UserError(f"{what}: {length} bytes, the tensor takes {nbytes}; fix: save the model again")
        parts = _components(entries.get("location", ""), what)
        with self._opened(parts, what) as descriptor:
            size = os.fstat(descriptor).st_size
            if offset + length > size:
                raise UserError(f"{what}: bytes {offset} to {offset + length} of a file of {size}; fix: fetch the file again")
            data = _read(descriptor, offset, length, what)
        checksum = entries.get("checksum")
        if checksum and hashlib.sha1(data).hexdigest() != checksum.lower():
            raise UserError(f"{what}: the SHA-1 checksum does not fit the data; fix: fetch the file again")
        return data

    @contextmanager
    def _opened(self, parts: list[str], what: str) -> Iterator[int]:
        """Open the file component by component and require that it is a regular file with one link."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        directory = getattr(os, "O_DIRECTORY", 0)
        opened = [os.open(str(self.folder), os.O_RDONLY | directory)]
        try:
            for position, part in enumerate(parts):
                last = position == len(parts) - 1
                opened.append(os.open(part, flags if last else flags | directory, dir_fd=opened[-1]))
            state = os.fstat(opened[-1])
            if not stat.S_ISREG(state.st_mode):
                raise UserError(f"{what}: {'/'.join(parts)!r} is no regular file; {_FIX}")
            if state.st_nlink > 1 and not self.is_named:
                raise UserError(f"{what}: {'/'.join(parts)!r} has several hard links; {_FIX}")
            yield opened[-1]
        except OSError as error:
            raise UserError(
                f"{what}: {'/'.join(parts)!r} cannot be opened ({error.strerror}): links are not followed; {_FIX}"
            ) from None
        finally:
            for descriptor in opened:
                with suppress(OSError):
                    os.close(descriptor)


def _number(text: str, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise UserError(f"{what} is {text!r:.80}; expected a decimal number; fix: save the model again")
    return int(text)


def _components(location: str, what: str) -> list[str]:
    """Return the components of a location, which is relative and stays below its folder."""
    parts = location.replace("\\", "/").split("/")
    is_drive = len(parts[0]) > 1 and parts[0][1] == ":"
    if is_drive or "\0" in location or not all(part not in ("", "..") for part in parts):
        raise UserError(f"{what}: the location {location!r:.120} is not a path inside the model's folder; {_FIX}")
    return [part for part in parts if part != "."] or ["."]


def _read(descriptor: int, offset: int, length: int, what: str) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    pieces: list[bytes] = []
    left = length
    while left:
        piece = os.read(descriptor, min(left, 1 << 30))
        if not piece:
            raise UserError(f"{what}: the file ends {left} bytes too early; fix: fetch the file again")
        pieces.append(piece)
        left -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
