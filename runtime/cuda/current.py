"""The driver of this process, loaded at the first use, and whether there is one."""

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
    """The driver once it was asked for, and the devices made of it."""

    open: Callable[[], Driver]
    driver: Driver | None = None
    process: int = 0
    devices: dict[int, Any] = field(default_factory=dict)
    is_known: bool = False
    problem: str | None = None


_current = _Current(open_driver)
lock = threading.RLock()
"""Held while the driver, or a device, is made."""


def driver() -> Driver:
    """The driver, loaded and initialised. Raises `DeviceError` saying what is missing and how to get it."""
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
    """The devices of the driver that were used, by number."""
    return _current.devices


@contextmanager
def installed(open_driver: Callable[[], Driver]) -> Iterator[None]:
    """Inside, the driver is what `open_driver` gives; tests run on a driver of theirs."""
    global _current
    with lock:
        previous, _current = _current, _Current(open_driver)
    try:
        yield
    finally:
        with lock:
            _current = previous


def device_count() -> int:
    """How many devices the driver has. Raises `DeviceError` without a driver."""
    return driver().cuDeviceGetCount()


def why_unavailable() -> str | None:
    """None if there is a device; else why there is none. Found out once: looking for a driver takes its time."""
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
