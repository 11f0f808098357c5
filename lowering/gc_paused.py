"""Pauses Python's cyclic garbage collector while modules load, texts are parsed and code is generated.

Parsers and lowerings make tens of thousands of small values that live until they end. That many trigger collections of the
whole heap, which take longer than the work itself: 60 to 150 ms for a text of 20 ms.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Disables cyclic garbage collection and restores the previous state on exit. Nested and concurrent uses do no harm."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def loading_modules() -> Iterator[None]:
    """Pauses collection, and moves what was made meanwhile to the oldest generation: modules stay, and to find that out once
    for xDSL's takes 30 ms. Of nested uses, the outermost does so, and only where a module came: frozen objects are counted one
    by one."""
    is_outermost, before = gc.isenabled(), len(sys.modules)
    with gc_paused():
        yield
        is_loaded = is_outermost and len(sys.modules) > before
        if is_loaded and gc.get_freeze_count() == 0:  # else somebody has frozen objects, which are to stay so
            gc.freeze()
            gc.unfreeze()
