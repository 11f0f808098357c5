"""Defines what goes wrong in a run over many blocks."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError, UserError


class RunError(UserError):
    """No block of a run can be computed or written: the model cannot be opened, versions or targets differ, a disk is full."""

    __module__ = "joinery.distributed"


@dataclass(frozen=True, slots=True)
class Failure:
    """A block that failed for good.

    Attributes:
        number: which block, from 0.
        error: what its last attempt raised.
        attempts: how often it was tried.
        rows: first row of the input and the one after the last, where the run knows them.
    """

    number: int
    error: str
    attempts: int
    rows: tuple[int, int] | None = None

    def __str__(self) -> str:
        rows = "" if self.rows is None else f" (rows {self.rows[0]} to {self.rows[1] - 1})"
        times = "" if self.attempts == 1 else f" {self.attempts} times"
        return f"block {self.number}{rows} failed{times}: {self.error}"


class BlocksFailed(JoineryError, RuntimeError):
    """Some blocks failed for good; all others are done.

    Attributes:
        failures: one for each of these blocks, in order.
    """

    __module__ = "joinery.distributed"
    _SHOWN = 10

    def __init__(self, failures: Sequence[Failure]) -> None:
        self.failures = tuple(sorted(failures, key=lambda failure: failure.number))
        lines = [str(failure) for failure in self.failures[: self._SHOWN]]
        if len(self.failures) > self._SHOWN:
            lines.append(f"and {len(self.failures) - self._SHOWN} more")
        count = len(self.failures)
        super().__init__(f"{count} block{'s' if count > 1 else ''} failed, all others are done\n  " + "\n  ".join(lines))
