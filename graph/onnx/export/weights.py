"""Writes models and the arrays that lie beside them: each array is a file named by what it holds, so that models share them."""

from __future__ import annotations

import hashlib
import os
import stat

from ....promotion.errors import UserError
from ...weights.replacing import replacing

FOLDER = "weights"
"""The folder beside the model."""


def store(folder: str, data: bytes | memoryview) -> str:
    """Write the bytes of an array into the folder of weights, unless they are there, and return the location for the model."""
    digest = hashlib.sha256(data).hexdigest()
    name = f"{digest}.bin"
    directory = os.path.join(folder, FOLDER)
    os.makedirs(directory, exist_ok=True)
    if not stat.S_ISDIR(os.lstat(directory).st_mode):
        raise UserError(
            f"to_onnx: {directory!r} is a link or a file, no folder for weights; fix: remove it, or export to another folder"
        )
    path = os.path.join(directory, name)
    if not _holds(path, len(data), digest):
        replace(path, data)
    return f"{FOLDER}/{name}"


def _holds(path: str, size: int, digest: str) -> bool:
    """Return whether a file of one link holds so many bytes of this digest."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    with os.fdopen(descriptor, "rb") as stream:
        state = os.fstat(stream.fileno())
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1 or state.st_size != size:
            return False
        return hashlib.file_digest(stream, "sha256").hexdigest() == digest


def replace(path: str, data: bytes | memoryview) -> None:
    """Write a file whole, in place of what has its name."""
    with replacing(path) as temporary, open(temporary, "wb") as stream:
        stream.write(data)
