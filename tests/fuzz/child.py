"""Runs functions in forked children, with limits of time and memory: crashes and hangs there are results here."""

from __future__ import annotations

import contextlib
import faulthandler
import math
import os
import pickle
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

SECONDS = 60.0
PATIENCE = 6.0
"""How many times its processor time a child may take in wall-clock time: other processes may be busy, and it
may wait for ever."""
MEMORY = 6 << 30
"""Bytes of address space that a child may use beyond what it starts with."""
most_memory = MEMORY
SHOWN = 3000
"""How many characters of a child's standard error are kept."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a child: its result or its failure.

    Attributes:
        how: "returned", "raised", "crashed" or "hung".
        value: the function's result.
        text: for the other ends the signal or the traceback, and the standard error.
    """

    how: str
    value: Any = None
    text: str = ""


def in_child(function: Callable[[], Any], seconds: float = SECONDS, memory: int = 0) -> Ended:
    """Runs `function` in a forked child and returns how that ended. The result must be picklable. seconds: of
    processor time.  memory: 0 for `most_memory`."""
    memory = memory or most_memory
    sys.stdout.flush()
    sys.stderr.flush()
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as errors:
        pid = os.fork()
        if not pid:
            os.close(reading)
            _child(function, writing, errors, seconds, memory)
        os.close(writing)
        try:
            data, late = _read(reading, PATIENCE * seconds)
        finally:
            os.close(reading)
        if late:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        errors.seek(0)
        said = errors.read().decode(errors="replace")[-SHOWN:]
    if late:
        return Ended("hung", text=f"no result after {PATIENCE * seconds:g} s\n{said}")
    if os.WIFSIGNALED(status):
        name = signal.Signals(os.WTERMSIG(status)).name
        how = "hung" if name == "SIGXCPU" else "crashed"
        return Ended(how, text=f"{name}\n{said}")
    if os.WEXITSTATUS(status) or not data:
        return Ended("crashed", text=f"exit status {os.WEXITSTATUS(status)}\n{said}")
    how, value = pickle.loads(data)
    return Ended(how, value) if how == "returned" else Ended(how, text=value)


def _read(descriptor: int, seconds: float) -> tuple[bytes, bool]:
    """Returns the bytes from a pipe until its end, and whether that took too long."""
    end, parts = time.monotonic() + seconds, []
    while True:
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        if not ready:
            return b"", True
        part = os.read(descriptor, 1 << 20)
        if not part:
            return b"".join(parts), False
        parts.append(part)


def _child(function: Callable[[], Any], writing: int, errors: BinaryIO, seconds: float, memory: int) -> None:
    """Runs the function in the child, writes the result to the pipe and exits."""
    try:
        os.setpgid(0, 0)
        os.dup2(errors.fileno(), 2)
        os.dup2(errors.fileno(), 1)
        faulthandler.enable(file=2, all_threads=False)
        faulthandler.dump_traceback_later(0.9 * PATIENCE * seconds, file=2)  # shows where it hangs
        faulthandler.register(signal.SIGXCPU, file=2, chain=True)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        limit = math.ceil(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        try:
            result = ("returned", function())
        except BaseException:
            import traceback

            result = ("raised", traceback.format_exc())
        data = memoryview(pickle.dumps(result))
        while data:
            data = data[os.write(writing, data) :]
        os.close(writing)
    except BaseException:
        os._exit(3)
    os._exit(0)
