"""Shows on a terminal how far tuning is."""

from __future__ import annotations

import shutil
import sys
from typing import TextIO

BAR = 24
"""Characters of the bar."""


class Progress:
    """A line that is written over and over, and removed at the end of a `with`. Without a terminal nothing is written.

    Args:
        is_shown: None to find out whether the stream is a terminal.
    """

    def __init__(self, title: str, total: int, is_shown: bool | None, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._title = title
        self._total = total
        self._done = 0
        self._is_shown = self._stream.isatty() if is_shown is None else is_shown

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def step(self, what: str) -> None:
        """Count one more, and say what comes out of it."""
        self.reach(self._done + 1, what)

    def reach(self, done: int, what: str) -> None:
        """Say how much is done, and what comes out of it."""
        self._done = min(done, self._total)
        if not self._is_shown:
            return
        filled = BAR * self._done // self._total
        line = f"{self._title} [{'#' * filled}{' ' * (BAR - filled)}] {self._done}/{self._total}  {what}"
        self._stream.write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")
        self._stream.flush()


__all__ = ["Progress"]
