"""Compiles configurations in a process of its own, which `precompiling` starts."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import TYPE_CHECKING

from ...promotion.errors import JoineryError
from ..kernel import Kernel
from ..native.code import encode_native
from .precompiling import Job

if TYPE_CHECKING:
    from ..gpu_code import GpuEntry


def serve(mark: bytes) -> None:
    """Read jobs from standard input until it ends, and write the code of each to standard output, the first behind a mark."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the code decides
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not get between the results
    output.write(mark)
    output.flush()
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_compiled(job), output)
        output.flush()


def _compiled(job: Job) -> bytes | GpuEntry | None:
    """Return the code that a job asks for, for the CPU that of the simplest specialization.

    None if there is none: who wants it finds the error.
    """
    try:
        kernel = Kernel(job.text, job.name, None, job.numerics, job.debug)
        return encode_native(*kernel.native_code()) if job.gpu is None else kernel.gpu_entry(job.gpu)
    except JoineryError:
        return None


__all__ = ["serve"]
