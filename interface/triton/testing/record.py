"""What was launched, and what was found, while somebody looks: the pytest plugin, or a process that a test started."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....promotion.dataclass import dataclass
from .reports.excerpts import Excerpt, excerpts_of


@dataclass(slots=True)
class Finding:
    """What a launch was stopped by.

    Attributes:
        error: the error that was raised, until it is known what became of it.
        is_expected: whether the test waited for it.
        subtest: the part of the test that it belongs to.
        excerpts: the lines of the kernel that it is about.
    """

    kernel: str
    text: str
    error: BaseException | None = None
    is_expected: bool = False
    subtest: str = ""
    excerpts: Sequence[Excerpt] = ()


@dataclass(slots=True)
class Record:
    """Launches by kernel, and findings. judged: how many of the findings have been looked at."""

    launches: Counter[str]
    findings: list[Finding]
    judged: int = 0


_records: list[Record] = []
_written: list[int] = []
"""The file that this process writes to, for the process that started it."""


def start() -> Record:
    """Note launches from now on, in a record of their own."""
    _records[:] = [Record(Counter(), [])]
    return _records[0]


def launched(kernel: str) -> None:
    """Note a launch that was made, if somebody looks: not one that was refused."""
    if _records:
        _records[0].launches[kernel] += 1
    if _written:
        _write({"kernel": kernel})


def found(kernel: str, error: BaseException) -> None:
    """Note a launch, and what it was stopped by, if somebody looks."""
    launched(kernel)
    if not _records and not _written:
        return
    text, excerpts = f"{type(error).__name__}: {error}", excerpts_of(error)
    if _records:
        _records[0].findings.append(Finding(kernel, text, error, excerpts=excerpts))
    if _written:
        _write({"kernel": kernel, "found": text, "excerpts": [dataclasses.astuple(each) for each in excerpts]})


def write_to(folder: str) -> None:
    """Write what is noted to a file in a folder as well, as long as the folder is there."""
    stop_writing()
    try:
        _written.append(os.open(Path(folder) / f"{os.getpid()}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:  # the process that would read it has ended
        return


def stop_writing() -> None:
    """Write to no file."""
    for each in _written:
        os.close(each)
    _written.clear()


def take_from(folder: str, record: Record | None) -> None:
    """Add what other processes have written to a folder, and remove it from there."""
    for path in Path(folder).iterdir():
        if path.name == f"{os.getpid()}.jsonl":  # of a forked process, which has it in its record
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        path.unlink()
        for entry in map(json.loads, lines):
            if record is None:
                continue
            if "found" in entry:
                text = f"in a process that the test started: {entry['found']}"
                excerpts = [Excerpt(*each) for each in entry["excerpts"]]
                record.findings.append(Finding(entry["kernel"], text, excerpts=excerpts))
            else:
                record.launches[entry["kernel"]] += 1


def _write(entry: dict[str, Any]) -> None:
    os.write(_written[0], json.dumps(entry).encode() + b"\n")
