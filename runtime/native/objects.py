"""Reads what arrays hold where the interpreter keeps it: NumPy's protocols take as long as the rest of a launch."""

from __future__ import annotations

import ctypes
import functools

from ...promotion.arrays import Array
from .library import has_known_layout

_ADDRESS_OFFSET = 16
"""Where an array has its address, in bytes from the object: behind the head of every object (`entry.ll`)."""
_from_address = ctypes.c_int64.from_address


@functools.cache
def are_readable() -> bool:
    """Returns whether `address_in` may be called, as far as `has_known_layout` can tell."""
    return has_known_layout()


def address_in(array: Array) -> int:
    """Returns the address of an array's first element; right where `are_readable()` only."""
    return _from_address(id(array) + _ADDRESS_OFFSET).value
