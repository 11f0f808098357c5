"""What a native run of a sanitized launch says, and how the sanitizer goes on from there.

Where the native run stopped, a mistake is likely, and one program shows it. Interpreting all programs of a large launch to
say so takes minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Protocol

from ...lowering.tt.sanitize.findings import Report
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass

FEW_PROGRAMS = 64
"""Programs of a launch that are all looked at, whatever is found in the first ones."""


class Sanitized(Protocol):
    """Runs programs under the sanitizer, as `tt.sanitize.sanitizer.sanitize` does with these arguments."""

    def __call__(self, *, enough: int | None = None, only: int | None = None) -> Report: ...


class Before:
    """Runs natively what comes before the program that stopped, for which nothing was found, and undoes it."""

    def __init__(self, run: Callable[[int], FirstLook], stopped: int, memory: Sequence[Array]) -> None:
        """run: runs so many programs. memory: what they write."""
        self._run = run
        self._stopped = stopped
        self._memory = memory
        self._kept: list[Array] = []

    def run(self) -> bool:
        """Run them; returns whether they ended, and memory is as they left it."""
        self._kept = [each.copy() for each in self._memory]
        return self._run(self._stopped).is_clean

    def undo(self) -> None:
        """Make memory what it was."""
        for each, before in zip(self._memory, self._kept, strict=True):
            each[:] = before


@dataclass(frozen=True, slots=True)
class FirstLook:
    """What a native run says.

    is_clean: whether the sanitizer would find nothing.  stopped: the number of the program that stopped it, where something may
    be found; None if that is not known.  before: what runs the programs before that one.
    """

    is_clean: bool
    stopped: int | None = None
    before: Before | None = field(default=None, compare=False)

    def second(self, sanitized: Sanitized) -> Report:
        """Look at the programs that show what is wrong: at the one that stopped, where that is enough, else at all up to it.

        Where nothing is wrong with these, the native code was too strict, and all programs are looked at.
        """
        stopped = 0 if self.stopped is None else self.stopped
        if stopped >= FEW_PROGRAMS and self.before is not None:
            if self.before.run():
                report = sanitized(only=stopped)
                if report.findings:
                    return report
            self.before.undo()
        return sanitized(enough=max(stopped + 1, FEW_PROGRAMS))


CLEAN, UNKNOWN = FirstLook(True), FirstLook(False)

__all__ = ["CLEAN", "FEW_PROGRAMS", "UNKNOWN", "Before", "FirstLook", "Sanitized"]
