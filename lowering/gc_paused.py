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
    """Pauses collection, and moves the objects of newly loaded modules to the oldest generation on exit.

    Modules stay alive, and a collection that finds this out for xDSL's takes 30 ms. Only the outermost of
    nested uses moves objects, and only if a module was loaded, since `gc.get_freeze_count` counts frozen
    objects one by one.
    """
    is_outermost, before = gc.isenabled(), len(sys.modules)
    with gc_paused():
        yield
        is_loaded = is_outermost and len(sys.modules) > before
        if is_loaded and gc.get_freeze_count() == 0:  # else the application has frozen objects, which must stay frozen
            gc.freeze()
            gc.unfreeze()
