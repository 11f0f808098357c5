"""Opens files that a caller names: regular ones only, because a pipe waits for a writer and a device never ends."""

from __future__ import annotations

import os
import stat
from typing import BinaryIO

from .errors import UserError


def open_regular(path: str | os.PathLike[str], what: str, buffering: int = -1) -> BinaryIO:
    """Open a regular file for reading bytes. `what` opens the message of the `UserError` for anything else.

    Raises `OSError` where the file cannot be opened.
    """
    flags = (getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    descriptor = os.open(path, sum(flags, os.O_RDONLY))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise UserError(f"{what} is no regular file; fix: check the path, or read it yourself and pass the bytes")
    return os.fdopen(descriptor, "rb", buffering)  # type: ignore[return-value]
