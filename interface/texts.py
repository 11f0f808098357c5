"""Reads the texts of block kernels, from strings and files."""

from __future__ import annotations

import os
from pathlib import Path

from ..promotion.errors import UserError

MAX_TEXT = 1 << 26
"""Most bytes of text that are read."""


def read_text(text_or_path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return a text, and what names it in messages; given itself, or as a path: a `Path`, or one line ending in .ttir or .mlir.

    Raises `UserError` for other types, files that cannot be read, and texts longer than `MAX_TEXT` or not in UTF-8.
    """
    if not isinstance(text_or_path, str | os.PathLike):
        raise UserError(f"from_ttir: expected text or a path, got {type(text_or_path).__name__}")
    is_text = isinstance(text_or_path, str) and ("\n" in text_or_path or not text_or_path.endswith((".ttir", ".mlir")))
    if is_text:
        text = str(text_or_path)
        if len(text) > MAX_TEXT:
            raise UserError(f"from_ttir: {len(text)} characters; at most {MAX_TEXT} are read")
        return text, "<text>"
    path = Path(text_or_path)
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_TEXT + 1)
    except OSError as error:
        raise UserError(f"from_ttir: {path} cannot be read: {error.strerror or error}") from None
    if len(content) > MAX_TEXT:
        raise UserError(f"from_ttir: {path} is larger than {MAX_TEXT} bytes")
    try:
        return content.decode("utf-8"), path.name
    except UnicodeDecodeError as error:
        raise UserError(f"from_ttir: {path} is no UTF-8 text: {error}") from None


__all__ = ["MAX_TEXT", "read_text"]
