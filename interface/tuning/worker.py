"""Compiles configurations for the CPU in a process of its own, which `precompiling` starts."""

from __future__ import annotations

import os
import pickle
import signal
import sys

from ...promotion.errors import JoineryError
from ..kernel import Kernel
from ..native.code import encode_native
from .precompiling import Job


def serve() -> None:
    """Read jobs from standard input until it ends, and write the code of each to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that waits for the code decides
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what anything prints must not get between the results
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_compiled(job), output)
        output.flush()


def _compiled(job: Job) -> bytes | None:
    """Return the code for launches of the simplest specialization; None if there is none: who wants it finds the error."""
    try:
        return encode_native(*Kernel(job.text, job.name, None, job.numerics, job.debug).native_code())
    except JoineryError:
        return None


__all__ = ["serve"]
