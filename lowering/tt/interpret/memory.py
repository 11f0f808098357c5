"""Defines the interpreter's memory: the argument arrays in one 64-bit address space, with every access
checked.

Each array gets a segment of 2**41 bytes and starts in its middle, so that an address says which array it
belongs to and how far outside it lies, and the distance between two arrays never hides a mistake. Addresses
are the same in every run.
"""

from __future__ import annotations

from dataclasses import field
from types import EllipsisType

import numpy as np

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError, public

SEGMENT_BITS = 41
"""An address shifted right by so many bits is the number of its array."""
_MIDDLE = 1 << (SEGMENT_BITS - 1)

NEAR_NULL = 1 << (SEGMENT_BITS - 2)
"""Addresses below belong to no array, but to arithmetic with a null pointer."""

Scalar = Array | np.generic | float
"""One value: of a block, of a NumPy type, or Python's own."""


def is_near_null(address: int) -> bool:
    """Return whether an address is one that arithmetic with a null pointer gives."""
    return -NEAR_NULL < address < NEAR_NULL


@public
class AccessError(UserError):
    """A block program read or wrote outside its arrays, or at an address that is not a multiple of the
    element size."""


@dataclass(slots=True)
class _Buffer:
    name: str
    raw: Array  # uint8, one axis, shares the caller's memory
    base: int
    writeable: bool
    views: dict[NumpyDType, Array] = field(default_factory=dict)

    def view(self, dtype: NumpyDType) -> Array:
        """Return the memory as elements of `dtype`; bytes left over at the end belong to no element."""
        found = self.views.get(dtype)
        if found is None:
            whole = len(self.raw) // dtype.itemsize * dtype.itemsize
            found = self.views[dtype] = self.raw[:whole].view(dtype)
        return found


_Selected = tuple[_Buffer, Array | EllipsisType]
"""A buffer, and the lanes that lie in it."""


class Memory:
    """The arrays a program may touch."""

    def __init__(self) -> None:
        self._buffers: list[_Buffer] = []
        self._bases: dict[tuple[int, int], int] = {}  # by address and size: two pointers to the same memory meet there

    def add(self, array: Array, name: str) -> int:
        """Makes a C-contiguous array reachable; returns its address, a multiple of 2**40. Adding it again gives the same."""
        key = (int(array.__array_interface__["data"][0]), array.nbytes)
        base = self._bases.get(key) if array.nbytes else None
        if base is None:
            base = self._bases[key] = (len(self._buffers) << SEGMENT_BITS) + _MIDDLE
            raw = array.reshape(-1).view(np.uint8)
            self._buffers.append(_Buffer(name, raw, base, array.flags.writeable))
        return base

    def load(self, addresses: Array, mask: Array | None, dtype: NumpyDType, fill: Scalar) -> Array:
        """Return the elements at `addresses` where `mask` holds, and `fill` (an array of that shape or a
        scalar) elsewhere."""
        addresses = np.asarray(addresses)
        if mask is None:
            result = np.empty(addresses.shape, dtype)
            live: Array | EllipsisType = ...
        else:
            result = np.empty(addresses.shape, dtype)
            result[...] = fill
            live = mask
        lanes = addresses[live]
        if lanes.size:
            single = self._single(lanes)
            if single is not None:
                result[live] = single.view(dtype)[self._indices(single, lanes, dtype, "read")]
            else:
                values = np.empty(lanes.shape, dtype)
                for buffer, selected in self._groups(lanes, "read"):
                    values[selected] = buffer.view(dtype)[
                        self._indices(buffer, lanes[selected], dtype, "read")
                    ]
                result[live] = values
        return result

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        """Write where `mask` holds. Of several lanes with one address the last in row-major order wins."""
        addresses = np.asarray(addresses)
        values = np.broadcast_to(values, addresses.shape)
        live: Array | EllipsisType = ... if mask is None else mask
        lanes = addresses[live]
        if not lanes.size:
            return
        written = values[live]
        dtype = written.dtype
        single = self._single(lanes)
        groups: list[_Selected] = [(single, ...)] if single is not None else self._groups(lanes, "written")
        for buffer, selected in groups:
            indices = self._indices(buffer, lanes[selected], dtype, "written")
            if not buffer.writeable:
                raise AccessError(f"array {buffer.name!r} is read-only, and the program writes to it")
            buffer.view(dtype)[indices] = written[selected]

    def _single(self, lanes: Array) -> _Buffer | None:
        """Return the buffer in whose segment all lanes lie, or None."""
        low, high = int(lanes.min()) >> SEGMENT_BITS, int(lanes.max()) >> SEGMENT_BITS
        return self._buffers[low] if low == high and 0 <= low < len(self._buffers) else None

    def _groups(self, lanes: Array, verb: str) -> list[_Selected]:
        segments = lanes >> SEGMENT_BITS
        groups: list[_Selected] = []
        for segment in np.unique(segments).tolist():
            selected = segments == segment
            if not 0 <= segment < len(self._buffers):
                address = int(lanes[selected].reshape(-1)[0])
                why = "is reached from a null pointer" if is_near_null(address) else "lies in no array"
                raise AccessError(f"address {address:#x} is {verb}, which {why}")
            groups.append((self._buffers[segment], selected))
        return groups

    def _indices(self, buffer: _Buffer, lanes: Array, dtype: NumpyDType, verb: str) -> Array:
        offsets = lanes - buffer.base
        size = dtype.itemsize
        low, high = int(offsets.min()), int(offsets.max())
        if low < 0 or high + size > len(buffer.raw):
            worst = low if low < 0 else high
            if is_near_null(worst + buffer.base):
                raise AccessError(f"address {worst + buffer.base:#x} is {verb}, which is reached from a null pointer")
            raise AccessError(
                f"element {worst // size} of array {buffer.name!r} is {verb}, "
                f"which has elements 0 … {len(buffer.raw) // size - 1} ({len(buffer.raw)} bytes)"
            )
        if size == 1:
            return np.asarray(offsets)
        if (offsets & (size - 1)).any():
            raise AccessError(
                f"array {buffer.name!r} is {verb} at a byte offset that is no multiple of {size}"
            )
        return np.asarray(offsets // size)
