"""Interrupts what the main thread runs, as Ctrl-C does, until it ends.

Python drops an interrupt that arrives in a callback whose errors nobody gets, such as that of a collection: one is not enough.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


def is_interrupted(call: Callable[[], object], after: float) -> bool:
    """Returns whether a call on the main thread ends with KeyboardInterrupt. after: seconds until the first, and the next."""
    done, lock = threading.Event(), threading.Lock()

    def interrupt() -> None:
        while not done.wait(after):
            with lock:  # the last interrupt arrives before `done` is set
                if not done.is_set():
                    _thread.interrupt_main()

    helper = threading.Thread(target=interrupt)
    helper.start()
    found = False
    try:
        call()
    except KeyboardInterrupt:
        found = True
    while helper.is_alive():
        try:
            with lock:
                done.set()
            helper.join()
        except KeyboardInterrupt:  # one more came meanwhile
            continue
    return found
