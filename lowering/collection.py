"""Pauses of Python's cyclic garbage collection while texts are read and code is made.

Readers and lowerings make tens of thousands of small values that live until they end. That many set off collections of all that
the process holds, which take longer than the work itself: 60 to 150 ms for a text of 20 ms.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """No cyclic garbage collection inside; afterwards as before. Nested and concurrent uses do no harm."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
