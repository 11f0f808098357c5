"""Shows joinery's threads to threadpoolctl, which programs use to limit the thread pools of all libraries at once."""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import threads

_LOADED = "_multiarray_umath"
"""threadpoolctl goes through the shared libraries that are loaded. joinery's native code is in none; this one of NumPy is
always there."""
_SETS = "_set_threadpool_limits"
"""The function of threadpoolctl that sets limits. It gives on what was found when `limits=` is what `threadpool_info` returned;
all others put that back."""
_lock = threading.Lock()
_known_to: ModuleType | None = None


class _Origin:
    """A moment at which threadpoolctl asked, which it does before it sets limits, in the same thread.

    Attributes:
        limit: the limit of threadpoolctl that held; None where there was none.
        order: which moments and limits came before.
        is_over: whether what was found then has been put back.
    """

    __slots__ = ("__weakref__", "is_over", "limit", "order")

    def __init__(self, limit: int | None, order: int) -> None:
        self.limit, self.order, self.is_over = limit, order, False


class _Found(int):
    """What threadpoolctl is told and puts back later. It knows when that was and which limit held; its copies are numbers."""

    origin: _Origin

    def __reduce__(self) -> tuple[Callable[[int], int], tuple[int]]:
        return int, (int(self),)


class _Limit:
    """A limit that is not put back.

    Attributes:
        threads: how many; None for no limit.
        origin: what puts it back; nothing once that is gone, and then the limit stays.
        order: which moments and limits came before.
        thread: who set it.
    """

    __slots__ = ("order", "origin", "thread", "threads")

    def __init__(self, threads: int | None, origin: _Origin | None, order: int, thread: int) -> None:
        self.threads, self.order, self.thread = threads, order, thread
        self.origin = (lambda: None) if origin is None else weakref.ref(origin)


class _Limits:
    """The limits that threadpoolctl has set, in their order; the last one counts.

    threadpoolctl puts back the number that it has found, as if blocks were left in the opposite order to that in which they
    were entered. Those of several threads are not, and then a limit of a block that was left would stay. So what is put back
    ends the limit that was set after the same look, whatever others have set since, and those that nobody can put back.
    """

    def __init__(self) -> None:
        self._set: list[_Limit] = []
        self._orders = itertools.count()
        self._latest = threading.local()

    def look(self) -> _Origin:
        """Return what holds now, as that which this thread may put back."""
        with _lock:
            origin = _Origin(threads.outside_limit(), next(self._orders))
        self._latest.origin = weakref.ref(origin)
        return origin

    def set(self, limit: int | None) -> None:
        """Set a limit, until what this thread has found last is put back."""
        latest: _Origin | None = getattr(self._latest, "origin", lambda: None)()
        origin = None if latest is None or latest.is_over else latest
        with _lock:
            kept = [each for each in self._set if origin is None or each.origin() is not origin]
            self._write([*kept, _Limit(limit, origin, next(self._orders), threading.get_ident())])

    def put_back(self, origin: _Origin) -> None:
        """End the limit that was set after a look, and later ones that stayed where nobody puts anything back."""
        with _lock:
            origin.is_over = True
            found = [(each, each.origin()) for each in self._set]
            self._write([
                each for each, of in found if of is not origin and (of is not None or each.order < origin.order)
            ])  # fmt: skip

    def forget_others(self) -> None:
        """End limits that other threads would put back: in a forked process, which does not have them."""
        own = threading.get_ident()
        self._write([each for each in self._set if each.thread == own or each.origin() is None])

    def _write(self, found: list[_Limit]) -> None:
        stay = [each.origin() is None for each in found] + [False]
        # Of those that stay, one after the other, the last one hides the others for good.
        self._set = [each for at, each in enumerate(found) if not (stay[at] and stay[at + 1])]
        threads.limit_from_outside(self._set[-1].threads if self._set else None)


_limits = _Limits()


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
            origin = _limits.look()
            found = _Found(min(threads.widest_pool(), origin.limit or threads.MAX_THREADS))
            found.origin = origin
            return found

        def set_num_threads(self, num_threads: int) -> None:
            """Limit calls to a number of threads, or put back what was found: that another limit holds, or none."""
            if not isinstance(num_threads, _Found):
                _limits.set(min(max(1, num_threads), threads.MAX_THREADS))
            elif sys._getframe(1).f_code.co_name == _SETS:
                _limits.set(num_threads.origin.limit)
            else:
                _limits.put_back(num_threads.origin)

        def get_version(self) -> str:
            """Return joinery's version."""
            return str(_package().__version__)

        def set_additional_attributes(self) -> None:
            """Say where joinery is, in the place of the library by which it was found, and what is wrong of its settings."""
            self.prefix, self.filepath = "joinery", str(_package().__path__[0])
            problem = threads.variable_problem()
            if problem is not None:
                self.problem: Any = problem

    return JoineryController


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()
    _limits.forget_others()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
