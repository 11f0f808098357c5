"""Pauses of Python's cyclic garbage collection while code is printed.

A lowering makes tens of thousands of small values that live until it ends. That many set off collections of everything the
process holds, which take longer than the lowering.
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
