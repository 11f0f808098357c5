"""Gives proofs as many frames of Python's stack as anybody else's, however deep the caller is.

Terms are made recursively, and one that outgrows the stack is unknown: without this, verdicts would depend on who asks.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import FrameType

FRAMES = 1000
"""Frames of a proof: Python's own limit, of which nothing is taken here."""
_lock = threading.Lock()
_limits: list[int] = []
"""The limit that there was, and those of the proofs that are going on."""


@contextlib.contextmanager
def own_frames() -> Iterator[None]:
    """Raises Python's limit of recursion, if it is too low, so that `FRAMES` frames may follow.

    The limit is that of all threads. The last proof that ends puts it back.
    """
    wanted = _depth() + FRAMES
    with _lock:
        if not _limits:
            _limits.append(sys.getrecursionlimit())
        _limits.append(wanted)
        sys.setrecursionlimit(max(_limits))
    try:
        yield
    finally:
        with _lock:
            _limits.remove(wanted)
            sys.setrecursionlimit(max(_limits))
            if len(_limits) == 1:
                _limits.clear()


def _depth() -> int:
    frame: FrameType | None = sys._getframe()
    depth = 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth


__all__ = ["FRAMES", "own_frames"]
