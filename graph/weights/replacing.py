"""Writes files whole: under another name first, which then takes the place of the file."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator


@contextlib.contextmanager
def replacing(path: str) -> Iterator[str]:
    """Give the name of a new, empty file beside `path`, and put it in place of that when the block ends without an error.

    So nobody sees a part of a file, and nothing is written through a link. The file has the rights that new files have.
    """
    temporary = os.path.join(os.path.dirname(path) or ".", f".joinery-{secrets.token_hex(8)}")
    os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
