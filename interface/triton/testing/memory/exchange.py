"""Storages of torch that are given other memory: every tensor that lies in one sees it.

torch resizes storages of the CPU, which it has allocated. The memory of those that stand for a GPU's comes from elsewhere, so
two storages exchange what their objects of C++ say of it: the address, the function that gives it back, the size. Where these
stand in the object is found by looking at storages whose address and size are known.
"""

from __future__ import annotations

import ctypes
from typing import Any

_SLOT = ctypes.sizeof(ctypes.c_void_p)
_SEARCHED = 8
"""Words of the object that are looked through: a table of functions and counts of references come first."""
_MEMORY = 4
"""Words of a pointer to memory: its address, what gives it back (two), its device."""


class Exchange:
    """Lets two storages exchange their memory. Raises `LookupError` where objects do not look as expected."""

    def __init__(self, torch: Any) -> None:
        positions = {_position_of(torch.UntypedStorage(size)) for size in (8 * 1237, 8 * 4099)}
        if len(positions) != 1 or None in positions:
            raise LookupError("storages of this torch have no place for their memory that is known")
        self._position = positions.pop() or 0
        one, other = torch.UntypedStorage(24), torch.UntypedStorage(40)
        expected = [(each.data_ptr(), each.nbytes()) for each in (other, one)]
        self(one, other)
        if [(each.data_ptr(), each.nbytes()) for each in (one, other)] != expected:
            raise LookupError("storages of this torch do not exchange their memory")

    def __call__(self, one: Any, other: Any) -> None:
        first, second = _slots(one, self._position), _slots(other, self._position)
        first[:], second[:] = second[:], first[:]


def _slots(storage: Any, first: int) -> Any:
    return (ctypes.c_uint64 * (_MEMORY + 1)).from_address(storage._cdata + first * _SLOT)


def _position_of(storage: Any) -> int | None:
    """Where the memory stands in a storage's object, in words; its size follows."""
    for first in range(1, _SEARCHED):
        found = _slots(storage, first)
        if found[0] == storage.data_ptr() and found[_MEMORY] == storage.nbytes():
            return first
    return None
