"""Shows how far a run is: a line on a terminal, or one every half minute elsewhere."""

from __future__ import annotations

import sys
import time

from ....runtime.host.streams import is_terminal, tell

_TERMINAL_SECONDS = 0.5
_FILE_SECONDS = 30.0


class Progress:
    """Counts the blocks of a run and shows them on standard error, if that takes anything.

    Args:
        total: blocks of the run.
        done: those that an earlier run did.
        quiet: whether nothing is shown.
    """

    def __init__(self, total: int, done: int, quiet: bool) -> None:
        self.total, self.done, self.failed = total, done, 0
        self._began, self._before = time.monotonic(), done
        self._is_terminal = is_terminal(sys.stderr)
        self._quiet = quiet
        self._seconds = _TERMINAL_SECONDS if self._is_terminal else _FILE_SECONDS
        self._next = self._began + self._seconds

    def count(self, failed: bool) -> None:
        """Count a block that has ended."""
        self.failed += failed
        self.done += not failed
        now = time.monotonic()
        if now >= self._next and not self._quiet:
            self._next = now + self._seconds
            self._show(now)

    def line(self, now: float) -> str:
        """Return what is shown: blocks, rate, failures, time left."""
        computed = self.done + self.failed - self._before
        rate = computed / max(now - self._began, 1e-9)
        missing = self.total - self.done - self.failed
        left = "an unknown time" if missing and not rate else _duration(missing / rate if rate else 0.0)
        return f"{self.done}/{self.total} blocks, {rate:.3g} blocks/s, {self.failed} failed, {left} left"

    def _show(self, now: float) -> None:
        end = "" if self._is_terminal else "\n"
        tell(("\r\033[K" if self._is_terminal else "") + self.line(now), end)

    def end(self) -> None:
        """Show how far it came, and end the line for what is printed next."""
        if not self._quiet:
            self._show(time.monotonic())
            if self._is_terminal:
                tell("")


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"
