"""Runs samples in a child process that is started again where a sample ends it, and keeps what became of each at once."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .report import ROOT

SECONDS = 120.0
"""How long a sample may take, on a clock."""
SILENCE = 900.0
"""How long a child may take until its first sample: it imports PyTorch and makes samples that are known already."""
STARTS = 200
SHARE = 1000
"""Samples of one child: what PyTorch keeps of each graph for the length of a process adds up."""

Results = dict[str, tuple[str, str, str]]


class Journal:
    """A file of lines, one when a sample begins and one when it has ended, which a later run goes on with."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> list[dict[str, Any]]:
        """Return what was written; a last line that a killed process left unfinished is none."""
        if not self.path.exists():
            return []
        found = []
        for line in self.path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return found

    def results(self) -> Results:
        """Return what became of samples: operator, outcome, reason."""
        return {line["name"]: (line["op"], line["kind"], line["reason"]) for line in self.lines() if "kind" in line}

    def begun(self) -> dict[str, str] | None:
        """Return the sample that has begun and not ended, which is the last one."""
        lines = self.lines()
        return lines[-1] if lines and "kind" not in lines[-1] and "name" in lines[-1] else None

    def begin(self, name: str, op: str) -> None:
        """Write that a sample begins."""
        self._write({"name": name, "op": op})

    def end(self, name: str, op: str, kind: str, reason: str) -> None:
        """Write what became of a sample."""
        self._write({"name": name, "op": op, "kind": kind, "reason": reason})

    def _write(self, line: dict[str, str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        cut = self.path.exists() and self.path.read_bytes()[-1:] not in (b"", b"\n")
        with self.path.open("a", encoding="utf-8") as file:
            file.write("\n" * cut + json.dumps(line, ensure_ascii=False) + "\n")


def run(journal: Journal, arguments: Sequence[str], seconds: float = SECONDS, silence: float = SILENCE) -> Results:
    """Run the samples that a journal does not know, in children with these arguments, and return what became of all.

    A sample that ends its child, or takes longer than `seconds`, has raised; the next child goes on after it.
    """
    for _ in range(STARTS):
        before = len(journal.results())
        status = _watched(journal, arguments, seconds, silence)
        if last := journal.begun():
            journal.end(last["name"], last["op"], "raises", _end(status, seconds))
        elif status == 0 and len(journal.results()) == before:
            return journal.results()
        elif status != 0:
            raise SystemExit(f"the child ended with status {status} outside of samples")
    raise SystemExit(f"more than {STARTS} children were needed")


def _watched(journal: Journal, arguments: Sequence[str], seconds: float, silence: float) -> int | None:
    """Return the status of a child, None of one that was ended since nothing came of it."""
    child = subprocess.Popen([*arguments], cwd=ROOT)
    size, since = -1, time.monotonic()
    limit = silence
    while child.poll() is None:
        now = journal.path.stat().st_size if journal.path.exists() else 0
        if now != size:
            limit = silence if size < 0 else seconds
            size, since = now, time.monotonic()
        elif time.monotonic() - since > limit:
            child.kill()
            child.wait()
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.2)
    return child.returncode


def _end(status: int | None, seconds: float) -> str:
    if status is None:
        return f"it took more than {seconds:.0f} s"
    how = f"by {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
    return f"it ended the process {how}"


def command(journal: Path, every: int, entries: Sequence[str]) -> list[str]:
    """Return the command of a child."""
    return [sys.executable, "-m", "tests.conformance.torch_ops", "--child", str(journal), "--every", str(every), *entries]
