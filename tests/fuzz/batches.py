"""Runs very many cases of one kind, hundreds in each child: `python -m tests.fuzz --batched 2 --kind onnx --cases 1000000`.

A child tells what it begins, so that a crash or a hang belongs to a case; the next child goes on after it. What fails is run
again alone, shrunk and kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field

from .cases import Fault, Kind
from .child import PATIENCE
from .choices import Choices
from .session import Session

BATCH = 250
CASE_SECONDS = 30.0
"""Processor time of one case before its child is ended, and `PATIENCE` times as long for one that waits."""
SLOW_SECONDS = 10.0
"""Processor time from which on a case is a fault, although it ends."""
MEMORY = 4 << 30
TELL_SECONDS = 60.0


@dataclass(slots=True)
class _Worker:
    """A child. at: the case that it runs. since, busy: when it began, and the processor time it had taken then. pending: bytes
    of a line that is not complete."""

    pid: int
    pipe: int
    end: int
    at: int
    since: float = field(default_factory=time.monotonic)
    busy: float = 0.0
    pending: bytes = b""

    def is_late(self, seconds: float) -> bool:
        """Returns whether a case takes so long in processor time, or far longer without any: the machine may be busy."""
        waited = time.monotonic() - self.since
        return waited > seconds and (waited > PATIENCE * seconds or self.processor_time() - self.busy > seconds)

    def processor_time(self) -> float:
        with contextlib.suppress(OSError, IndexError, ValueError), open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return 0.0


class Batches:
    """Runs cases of a kind in children, and gives those that fail to a session."""

    def __init__(self, kind: Kind, session: Session, seed: int, workers: int) -> None:
        self.kind, self.session, self.seed, self.workers = kind, session, seed, workers
        self.counts: Counter[str] = Counter()
        self.failed: list[int] = []
        self._left: list[tuple[int, int]] = []
        self._next = self._end = 0

    def name(self, number: int) -> str:
        """Returns the seed of a case, by which a session generates it too."""
        return f"{self.seed}/{self.kind.name}/{number}"

    def run(self, first: int = 0, cases: int = 0, minutes: float = 0.0, seconds: float = CASE_SECONDS) -> None:
        """Runs cases until there are no more or the time is over."""
        start = told = time.monotonic()
        self._next, self._end = first, first + cases if cases else 1 << 62
        running: list[_Worker] = []
        while True:
            over = bool(minutes) and time.monotonic() > start + 60 * minutes
            while len(running) < self.workers and not over:
                span = self._span()
                if span is None:
                    break
                running.append(self._forked(*span))
            if not running:
                break
            ready, _, _ = select.select([worker.pipe for worker in running], [], [], 0.5)
            for worker in list(running):
                ended = worker.pipe in ready and self._heard(worker)
                late = worker.is_late(seconds)
                if ended or late:
                    running.remove(worker)
                    self._ended(worker, late and not ended)
            if time.monotonic() > told + TELL_SECONDS:
                told = time.monotonic()
                self.session.say(self.report(told - start))
        self.session.say(self.report(time.monotonic() - start))

    def report(self, seconds: float) -> str:
        done = self.counts["cases"]
        return (
            f"{done} cases in {seconds:.0f} s, {done / max(seconds, 1e-9):.1f} per second; {self.counts['refused']} refused, "
            f"{self.counts['runs']} runs, {len(self.failed)} failed"
        )

    def _span(self) -> tuple[int, int] | None:
        """Returns the first case and the end of another batch: what a child left, or new ones; None if there are none."""
        if self._left:
            return self._left.pop()
        if self._next >= self._end:
            return None
        first, self._next = self._next, min(self._next + BATCH, self._end)
        return first, self._next

    def _forked(self, first: int, end: int) -> _Worker:
        sys.stdout.flush()
        sys.stderr.flush()
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            self._child(writing, first, end)
        os.close(writing)
        return _Worker(pid, reading, end, first)

    def _child(self, writing: int, first: int, end: int) -> None:
        try:
            os.setpgid(0, 0)
            nothing = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nothing, 1)
            os.dup2(nothing, 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            with open("/proc/self/statm") as statm:
                used = int(statm.read().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
            for number in range(first, end):
                start = time.process_time()
                os.write(writing, json.dumps({"begin": number, "busy": start}).encode() + b"\n")
                told = {"done": number, "refused": False, "runs": 0, "faults": 0}
                try:
                    data = self.kind.generate(Choices(self.name(number)), self.session.settings)
                    outcome = self.kind.run(data, self.session.settings)
                    told |= {"refused": outcome.refused, "runs": outcome.runs, "faults": len(outcome.faults)}
                except BaseException:
                    told["faults"] = 1
                told["seconds"] = time.process_time() - start
                os.write(writing, json.dumps(told).encode() + b"\n")
        except BaseException:
            os._exit(3)
        os._exit(0)

    def _heard(self, worker: _Worker) -> bool:
        """Reads what a child tells; returns whether it has ended."""
        data = os.read(worker.pipe, 1 << 16)
        *lines, worker.pending = (worker.pending + data).split(b"\n")
        for line in lines:
            told = json.loads(line)
            worker.since = time.monotonic()
            if "begin" in told:
                worker.at, worker.busy = told["begin"], told["busy"]
                continue
            worker.at = told["done"] + 1
            self.counts.update(cases=1, refused=int(told["refused"]), runs=told["runs"])
            if told["faults"]:
                self._failed(told["done"], "failed in a batch")
            elif told["seconds"] > SLOW_SECONDS:
                self._failed(told["done"], f"took {told['seconds']:.1f} s of processor time in a batch")
        return not data

    def _ended(self, worker: _Worker, hung: bool) -> None:
        if hung:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(worker.pid, signal.SIGKILL)
        os.close(worker.pipe)
        _, status = os.waitpid(worker.pid, 0)
        if worker.at >= worker.end:
            return
        if hung or status:
            self.counts.update(cases=1)
            self._failed(worker.at, "hung in a batch" if hung else f"ended its batch with status {status}")
            worker.at += 1
        if worker.at < worker.end:
            self._left.append((worker.at, worker.end))

    def _failed(self, number: int, what: str) -> None:
        """Runs a case again alone, in which it is shrunk and kept; keeps it as it is where it then does not fail."""
        self.failed.append(number)
        if self.session.attempt(self.kind, self.name(number)):
            return
        fault = Fault("batch", f"{what}, not alone")
        self.session.totals.faults[f"{self.kind.name}: {fault.signature}"] += 1
        self.session._keep(self.kind, self.name(number), fault, [], None)
