"""Signals during a launch.

Python runs signal handlers between bytecodes of the main thread, which is inside native code during a launch. The C handler
writes to the wakeup descriptor at once, though: a thread that waits there cancels the launch for Ctrl-C, whose handler raises.
Other handlers may raise or not, such as those of time limits: where there is one, another thread launches.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal.getsignal looks its result up in an enumeration, which takes longer
import ctypes
import os
import signal
import socket
import threading
from collections.abc import Callable

from ..lowering.llvm.host.control.sites import CANCELLED

_SIGINT = int(signal.SIGINT)
_HANDLED = tuple([int(getattr(signal, name)) for name in ("SIGALRM", "SIGTERM") if hasattr(signal, name)])
"""Signals whose handlers in Python end what takes too long."""
_LONGEST_WAIT = 0.05
"""The seconds after which the main thread looks for signals: one that another thread received interrupts no waiting."""


class Watcher:
    """The thread that waits for signals while the main thread is inside a launch."""

    def __init__(self) -> None:
        self._status: int | None = None
        self._lock = threading.Lock()  # who writes to a launch's status words holds it: they are there until `stop` has it
        self._previous = -1  # the wakeup descriptor that was there before
        self._reading, self._writing = socket.socketpair()
        self._writing.setblocking(False)
        self._descriptor = self._writing.fileno()
        threading.Thread(target=self._watch, name="joinery-interrupts", daemon=True).start()

    def start(self, status: int) -> None:
        """Let Ctrl-C cancel the launch whose status words are at this address, until `stop`."""
        self._status = status
        self._previous = signal.set_wakeup_fd(self._descriptor, warn_on_full_buffer=False)

    def stop(self) -> None:
        """Let signals go where they went before."""
        signal.set_wakeup_fd(self._previous)
        with self._lock:
            self._status = None

    def _watch(self) -> None:
        while numbers := self._reading.recv(64):
            previous = self._previous
            if previous >= 0:
                os.write(previous, numbers)
            with self._lock:
                if self._status is not None and _SIGINT in numbers:
                    ctypes.c_int64.from_address(self._status).value = CANCELLED


_watchers: list[Watcher] = []
_main_thread = threading.main_thread().ident


def _after_fork_in_child() -> None:
    """Threads do not survive a fork, and the one that forked is the child's main thread."""
    global _main_thread
    _watchers.clear()
    _main_thread = threading.main_thread().ident


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


def watcher_for_launches() -> Watcher | None:
    """The watcher for a launch of this thread; None where Ctrl-C does not raise `KeyboardInterrupt` here."""
    if threading.get_ident() != _main_thread or _signal.getsignal(_SIGINT) is not signal.default_int_handler:
        return None
    if not _watchers:
        _watchers.append(Watcher())
    return _watchers[0]


def has_handlers() -> bool:
    """Return whether handlers in Python may want to run in this thread during a launch, other than that of Ctrl-C."""
    if threading.get_ident() != _main_thread:
        return False
    if callable(found := _signal.getsignal(_SIGINT)) and found is not signal.default_int_handler:
        return True
    return any([callable(_signal.getsignal(number)) for number in _HANDLED])


def begin_watching(status: int) -> bool | None:
    """Watch for Ctrl-C during a launch of this thread, whose status words are at this address, until `end_watching`.

    Returns True; None where Ctrl-C is not to be watched for, and False where another thread has to launch.
    """
    if threading.get_ident() != _main_thread:
        return None
    if has_handlers():
        return False
    watcher = watcher_for_launches()
    if watcher is None:
        return None
    try:
        watcher.start(status)
    except KeyboardInterrupt:
        watcher.stop()
        raise
    return True


def end_watching() -> None:
    """End what `begin_watching` returned True for."""
    _watchers[0].stop()


def launch_aside(launch: Callable[[], None], status: int) -> None:
    """Launch in another thread, so that this one runs handlers of signals meanwhile. What they raise cancels the launch.

    status: the address of the launch's status words.
    """
    begun, ended = threading.Lock(), threading.Lock()
    ended.acquire()

    def run() -> None:
        if begun.acquire(blocking=False):
            try:
                launch()
            finally:
                ended.release()

    thread = threading.Thread(target=run, name="joinery-launch", daemon=True)
    raised: BaseException | None = None
    is_asked = False
    while True:
        try:
            if raised is not None:
                ctypes.c_int64.from_address(status).value = CANCELLED
                if begun.acquire(blocking=False):
                    break  # a handler raised while the thread was started: it has not launched, and will not
            if not is_asked:
                is_asked = True
                thread.start()
            while not ended.acquire(timeout=_LONGEST_WAIT):
                pass  # handlers of signals that other threads received have run
            break
        except BaseException as error:
            raised = raised or error  # memory stays in use until the launch has ended
    if raised is not None:
        raise raised
