"""Shows joinery's threads to threadpoolctl, which programs use to limit the thread pools of all libraries at once."""

from __future__ import annotations

import sys
import threading
from types import ModuleType

from . import threads

_LOADED = "_multiarray_umath"
"""threadpoolctl goes through the shared libraries that are loaded. joinery's native code is in none; this one of NumPy is
always there."""
_lock = threading.Lock()
_known_to: ModuleType | None = None


class _Found(int):
    """What threadpoolctl is told and puts back later. It knows whether that was a limit: by then there may be wider pools.

    Attributes:
        limit: the limit of threadpoolctl that held; None where there was none.
    """

    limit: int | None = None


def register() -> None:
    """Make joinery known to threadpoolctl, if the program has imported that, and nobody has done it."""
    global _known_to
    module = sys.modules.get("threadpoolctl")
    if module is None or module is _known_to:
        return
    with _lock:
        if module is not _known_to and hasattr(module, "LibController") and hasattr(module, "register"):
            module.register(_controller(module))
        _known_to = module


def _package() -> ModuleType:
    return sys.modules[__name__.removesuffix(".runtime.host.threadpools")]


def _controller(module: ModuleType) -> type:
    """Return the class by which threadpoolctl asks and limits."""
    base: type = module.LibController

    class JoineryController(base):  # type: ignore[misc]
        """The thread pools of joinery in this process."""

        user_api = "joinery"
        internal_api = "joinery"
        filename_prefixes = (_LOADED,)

        def get_num_threads(self) -> int:
            """Return how many threads threadpoolctl lets a call use: its limit, or those of the widest pool.

            Limits of `limit_threads` are not in it: it is put back when a limit of threadpoolctl ends, and they may have ended
            before.
            """
            limit = threads.outside_limit()
            found = _Found(min(threads.widest_pool(), limit or threads.MAX_THREADS))
            found.limit = limit
            return found

        def set_num_threads(self, num_threads: int) -> None:
            """Limit calls to a number of threads, or put back what was found: a limit, or that there is none."""
            if isinstance(num_threads, _Found):
                threads.limit_from_outside(num_threads.limit)
            else:
                threads.limit_from_outside(min(max(1, num_threads), threads.MAX_THREADS))

        def get_version(self) -> str:
            """Return joinery's version."""
            return str(_package().__version__)

        def set_additional_attributes(self) -> None:
            """Say where joinery is, in the place of the library by which it was found."""
            self.prefix, self.filepath = "joinery", str(_package().__path__[0])

    return JoineryController
