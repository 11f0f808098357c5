"""Writes to the standard streams of a process, which may take nothing: a full disk, a pipe that nobody reads, none at all."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TextIO


def tell(text: str, end: str = "\n") -> None:
    """Write to standard error where it takes that: what is told there is no reason to lose what was computed."""
    refusal(text, sys.stderr, end)


def refusal(text: str, stream: TextIO | None, end: str = "\n") -> str | None:
    """Write to a stream and return None, or why it does not take that; what it has not taken is forgotten then."""
    if stream is None:  # `print` would take standard output
        return "it is closed"
    try:
        stream.write(text + end)
        stream.flush()
    except (OSError, ValueError) as error:
        forget(stream)
        return str(getattr(error, "strerror", None) or error)
    return None


def is_terminal(stream: TextIO | None) -> bool:
    """Tell whether somebody looks at a stream as it is written."""
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # it is closed
        return False


def forget(stream: TextIO) -> None:
    """Empty what a stream keeps to write it later: Python tries that when it ends, and then has an exit status of its own."""
    with contextlib.suppress(OSError, ValueError):
        number = stream.fileno()
        kept, nowhere = os.dup(number), os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, number)
            stream.flush()
        finally:
            os.dup2(kept, number)
            os.close(kept)
            os.close(nowhere)


def occupy_descriptors() -> None:
    """Give the descriptors of standard streams that are closed to files that take anything.

    The next file that is opened would get them, and then what libraries in C print: a file of results, for one.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # it gets the lowest that is free: this one
