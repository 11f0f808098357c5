"""What a process writes to its standard output, native code included."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def written() -> Iterator[list[str]]:
    """The lines that are written meanwhile: filled at the end."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        sys.stdout.flush()
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield lines
        finally:
            sys.stdout.flush()
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            lines += file.read().decode().splitlines()
