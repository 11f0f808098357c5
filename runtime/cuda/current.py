"""Keeps the driver of this process, loaded at its first use, and reports whether there is one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import DeviceError
from .bindings import NO_DRIVER, library_is_there, open_driver
from .driver import Driver


@dataclass(slots=True)
class _Current:
    """The driver, once it is loaded, and the devices opened with it."""

    open: Callable[[], Driver]
    driver: Driver | None = None
    process: int = 0
    devices: dict[int, Any] = field(default_factory=dict)
    is_known: bool = False
    problem: str | None = None


_current = _Current(open_driver)
lock = threading.RLock()
"""Held while the driver is loaded or a device is opened."""


def driver() -> Driver:
    """Returns the driver, loaded and initialised. Raises `DeviceError`, which says what is missing and how to
    get it, and in a process that was forked after the driver was loaded."""
    with lock:
        current = _current
        if current.driver is None:
            current.driver, current.process = current.open(), os.getpid()
        if current.process != os.getpid():
            raise DeviceError(
                "CUDA was used in this process before it was forked, and does not survive that; fix: start processes with the "
                "'spawn' method of multiprocessing"
            )
        return current.driver


def devices() -> dict[int, Any]:
    """Returns the devices that were used, by number."""
    return _current.devices


@contextmanager
def installed(open_driver: Callable[[], Driver]) -> Iterator[None]:
    """Replaces the driver inside a `with` statement by the one that `open_driver` returns; tests install a
    fake driver this way."""
    global _current
    with lock:
        previous, _current = _current, _Current(open_driver)
    try:
        yield
    finally:
        with lock:
            _current = previous


def device_count() -> int:
    """Returns how many devices the driver has. Raises `DeviceError` without a driver."""
    return driver().cuDeviceGetCount()


def why_unavailable() -> str | None:
    """Returns None if there is a device, else the reason why there is none. The answer is kept, since looking
    for a driver takes time."""
    current = _current
    if not current.is_known:
        try:
            if current.open is open_driver and not library_is_there():
                raise DeviceError(NO_DRIVER)
            current.problem = None if device_count() else "the CUDA driver finds no device"
        except DeviceError as error:
            current.problem = str(error)
        current.is_known = True
    return current.problem
