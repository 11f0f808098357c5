"""What was launched, and what was found, while somebody looks: the pytest plugin."""

from __future__ import annotations

from collections import Counter

from ....promotion.dataclass import dataclass


@dataclass(slots=True)
class Record:
    """Launches by kernel, and findings as (kernel, text)."""

    launches: Counter[str]
    findings: list[tuple[str, str]]


_records: list[Record] = []


def start() -> Record:
    """Note launches from now on, in a record of their own."""
    _records[:] = [Record(Counter(), [])]
    return _records[0]


def launched(kernel: str) -> None:
    """Note a launch, if somebody looks."""
    if _records:
        _records[0].launches[kernel] += 1


def found(kernel: str, error: BaseException) -> None:
    """Note what a launch was stopped by, if somebody looks."""
    if _records:
        _records[0].findings.append((kernel, f"{type(error).__name__}: {error}"))
