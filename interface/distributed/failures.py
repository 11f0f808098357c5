"""Defines what goes wrong in a run over many blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError, UserError

_SHOWN = 10


class RunError(UserError):
    """No block of a run can be computed or written: the model cannot be opened, versions or targets differ, a disk is full."""

    __module__ = "joinery.distributed"

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
        # By a function of this module: Ray's pickle takes a class by value whose module is none that was imported by that name,
        # and what arrives is then of another class, which ends no run.
        return _arrived, (type(self).__name__, *self.args), vars(self)


class InputChanged(RunError):
    """Files of an input are not what they were when a run was planned, or were something else in between."""


def _arrived(name: str, *args: Any) -> RunError:
    return (InputChanged if name == InputChanged.__name__ else RunError)(*args)


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

    def __init__(self, failures: Sequence[Failure]) -> None:
        self.failures = tuple(sorted(failures, key=lambda failure: failure.number))
        super().__init__(_listed(self.failures, "failed, all others are done"))


def note_failures(error: BaseException, failures: Sequence[Failure]) -> None:
    """Add a note to an error that ends a run: which blocks have failed before."""
    if failures:
        error.add_note(_listed(sorted(failures, key=lambda failure: failure.number), "failed before this error ended the run"))


def _listed(failures: Sequence[Failure], what: str) -> str:
    lines = [str(failure) for failure in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"and {len(failures) - _SHOWN} more")
    return f"{len(failures)} block{'s' if len(failures) > 1 else ''} {what}\n  " + "\n  ".join(lines)
