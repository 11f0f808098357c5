"""Compiles configurations before their launches, in several processes, where that pays.

LLVM's lock lets one thread of a process compile at a time, and Python has half of the work. Processes are started by their
command, not by `multiprocessing`, which would run the caller's program again in each.
"""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from ...promotion.dataclass import dataclass
from ...runtime.host.threads import default_threads
from ..texts import TritonCText

if TYPE_CHECKING:  # loads on first use, as in `interface.kernel`
    from ..gpu_code import GpuEntry, GpuRequest

START_SECONDS = 1.0
"""From the start of a process to its first code."""
LINK_SECONDS = 0.015
"""To read the text here and to link code that another process made."""
MAX_WORKERS = 16
_GAIN = 1.3
"""How many times as long it has to take in this process for others to be started."""
_CHILD = "import pickle, sys; sys.path[:], mark = pickle.load(sys.stdin.buffer); from {0} import serve; serve(mark)"
_MAX_PRINTED = 1 << 20
"""Bytes that an interpreter may print as it starts."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a kernel is made of. name: of the function; None for the only one. gpu: the code to make; None: that of the CPU."""

    text: TritonCText
    name: str | None
    numerics: str
    debug: bool
    gpu: GpuRequest | None = None


def workers_for(count: int, seconds: float, cores: int | None = None) -> int:
    """Return how many processes are to compile some configurations; 0: this one is as fast.

    Args:
        count: how many configurations there are.
        seconds: what one takes.
        cores: how many are idle; None for those that this process may use, without what runs beside it.
    """
    if cores is None:
        busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 1.0
        cores = default_threads() - max(0, round(busy) - 1)  # this process is one of those that are busy
    workers = min(cores, count // 2, MAX_WORKERS)
    if workers < 2 or not sys.executable:
        return 0
    elsewhere = START_SECONDS + count * (seconds / workers + LINK_SECONDS)
    return workers if count * seconds > _GAIN * elsewhere else 0


def precompiled(jobs: Sequence[Job], workers: int) -> list[bytes | GpuEntry | None]:
    """Return the code of each job: for the CPU as `encode_native` makes it, for a GPU as `Kernel.gpu_entry` does.

    None stands for what has an error, and for what a process that ended early did not make: it is compiled where it is wanted.
    """
    found: list[bytes | GpuEntry | None] = [None] * len(jobs)
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in range(len(jobs)):
        waiting.put(number)
    command = [sys.executable, "-c", _CHILD.format(f"{__package__}.worker")]
    mark = secrets.token_bytes(16)
    children: list[subprocess.Popen[bytes]] = []

    def feed(child: subprocess.Popen[bytes]) -> None:
        try:
            _send(child, (sys.path, mark))
            if not _has_begun(child, mark):
                return
            while True:
                number = waiting.get_nowait()
                _send(child, jobs[number])
                found[number] = pickle.load(child.stdout)  # type: ignore[arg-type]
        except (Empty, EOFError, OSError, pickle.UnpicklingError):
            return

    try:
        for _ in range(workers):
            try:
                children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE))
            except OSError:
                break  # no more processes: those that there are do the work
        if not children:
            return found
        with ThreadPoolExecutor(len(children)) as pool:
            try:
                for each in [pool.submit(feed, child) for child in children]:
                    each.result()
            finally:  # after an interrupt nobody waits for code
                for child in children:
                    child.kill()
    finally:
        for child in children:
            child.kill()
            child.communicate()
    return found


def _has_begun(child: subprocess.Popen[bytes], mark: bytes) -> bool:
    """Read what an interpreter prints as it starts, up to the mark of results, and return whether that has come."""
    assert child.stdout is not None
    read = b""
    while not read.endswith(mark) and len(read) < _MAX_PRINTED:
        byte = child.stdout.read(1)
        if not byte:
            return False
        read += byte
    return read.endswith(mark)


def _send(child: subprocess.Popen[bytes], value: Any) -> None:
    assert child.stdin is not None
    pickle.dump(value, child.stdin)
    child.stdin.flush()


__all__ = ["Job", "precompiled", "workers_for"]
