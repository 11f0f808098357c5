"""Defines the interpreter's memory: the argument arrays in one 64-bit address space, with every access
checked.

Each array gets a segment of 2**41 bytes and starts in its middle, so that an address says which array it
belongs to and how far outside it lies, and the distance between two arrays never hides a mistake. Addresses
are the same in every run.

Numbers and memory hold the addresses of the host, as those of native code do: a pointer becomes one where it is made a number
or stored (`to_host`), and a number becomes a pointer where it is made or loaded as one (`from_host`). So memory is never
looked through for what might be an address.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from types import EllipsisType
from typing import Any

import numpy as np

from ....promotion.arrays import Array, NumpyDType
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError, public

SEGMENT_BITS = 41
"""An address shifted right by so many bits is the number of its array."""
_MIDDLE = 1 << (SEGMENT_BITS - 1)
_BEHIND_HOST = 1 << 48
_FIRST_SEGMENT = _BEHIND_HOST >> SEGMENT_BITS
"""Segments lie behind the addresses of the host, so that none of them is one here."""
_SMALLEST_OF_HOST = 1 << 16
_NEAR_ARRAY = 1 << 20
"""Bytes around an array in which an access at an address of the host is taken for one that misses it."""

NEAR_NULL = 1 << (SEGMENT_BITS - 2)
"""Addresses below belong to no array, but to arithmetic with a null pointer."""

Scalar = Array | np.generic | float
"""One value: of a block, of a NumPy type, or Python's own."""


def segment_of(address: Any) -> Any:
    """Return the number of the array, or of the arrays of several addresses; no array has it for addresses in no segment."""
    return (address >> SEGMENT_BITS) - _FIRST_SEGMENT


def is_near_null(address: int) -> bool:
    """Return whether an address is one that arithmetic with a null pointer gives."""
    return -NEAR_NULL < address < NEAR_NULL


@public
class AccessError(UserError):
    """A block program read or wrote outside its arrays, or at an address that is not a multiple of the
    element size.

    Attributes:
        program: the coordinates of the program that native code found it in; None if they are not known.
    """

    program: tuple[int, int, int] | None = None


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
    """The arrays a program may touch.

    elsewhere: finds the array that an address of the host lies in which belongs to none of them; None if there is none.
    """

    def __init__(self) -> None:
        self.elsewhere: Callable[[int], Array | None] | None = None
        self._has_strays = False  # whether a pointer is still an address of the host, as it lay in no array
        self._spans = np.zeros((0, 3), np.int64)  # first byte and end on the host, and the address here
        self._buffers: list[_Buffer] = []
        self._bases: dict[tuple[int, int], int] = {}  # by address and size: two pointers to the same memory meet there

    def add(self, array: Array, name: str) -> int:
        """Makes a C-contiguous array reachable; returns its address, a multiple of 2**40. Adding it again gives the same."""
        key = (int(array.__array_interface__["data"][0]), array.nbytes)
        base = self._bases.get(key) if array.nbytes else None
        if base is None:
            base = self._bases[key] = ((len(self._buffers) + _FIRST_SEGMENT) << SEGMENT_BITS) + _MIDDLE
            raw = array.reshape(-1).view(np.uint8)
            self._buffers.append(_Buffer(name, raw, base, array.flags.writeable))
            self._spans = np.vstack([self._spans, np.array([[key[0], key[0] + key[1], base]], np.int64)])
        return base

    def to_host(self, pointers: Array | np.generic) -> Array:
        """Return the addresses that pointers have outside of the interpreter."""
        pointers = np.asarray(pointers)
        numbers = segment_of(pointers)
        known = (numbers >= 0) & (numbers < len(self._spans))
        if not known.any():
            return pointers
        spans = self._spans[np.where(known, numbers, 0)]
        return np.asarray(np.where(known, pointers - spans[..., 2] + spans[..., 0], pointers))

    def from_host(self, addresses: Array | np.generic, nearest: bool = False) -> Array:
        """Return pointers to what lies at addresses of the host.

        Addresses in no array stay as they are: offsets may still lead into one. nearest: whether they are taken for ones that
        miss an array close to them.
        """
        addresses = np.asarray(addresses)
        left = (addresses >= _SMALLEST_OF_HOST) & (addresses < _BEHIND_HOST)
        if not left.any():
            return addresses
        found = addresses.copy()
        for first, end, base in self._spans.tolist():
            left = self._moved(found, left, first, end, base)
        if left.any() and self.elsewhere is not None:
            for address in np.unique(found[left]).tolist():
                array = self.elsewhere(address) if (left & (found == address)).any() else None
                if array is not None:
                    base = self.add(array, f"tensor at {int(array.__array_interface__['data'][0]):#x}")
                    first, end, _ = self._spans[segment_of(base)].tolist()
                    left = self._moved(found, left, first, end, base)
        if left.any() and nearest and len(self._spans):
            lanes = found[left]
            gaps = np.maximum(self._spans[:, 0, np.newaxis] - lanes, lanes - self._spans[:, 1, np.newaxis])
            spans = self._spans[np.argmin(gaps, axis=0)]
            found[left] = np.where(gaps.min(axis=0) < _NEAR_ARRAY, lanes - spans[:, 0] + spans[:, 2], lanes)
        elif left.any():
            self._has_strays = True
        return found if found.shape else np.asarray(found)[()]

    def _moved(self, found: Array, left: Array, first: int, end: int, base: int) -> Array:
        """Make pointers of those of the addresses left that lie from `first` to `end`, in place; return those still left."""
        inside = left & (found >= first) & (found < end)
        found[inside] += base - first
        return np.asarray(left & ~inside)

    def resolved(self, pointers: Array) -> Array:
        """Return pointers that are about to be used, of which some may still be addresses of the host."""
        return self.from_host(pointers, nearest=True) if self._has_strays else pointers

    def load(
        self, addresses: Array, mask: Array | None, dtype: NumpyDType, fill: Scalar, verb: str = "read"
    ) -> Array:
        """Return the elements at `addresses` where `mask` holds, and `fill` (an array of that shape or a
        scalar) elsewhere. verb: what messages say of it."""
        addresses = np.asarray(self.resolved(addresses))
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
                result[live] = single.view(dtype)[self._indices(single, lanes, dtype, verb)]
            else:
                values = np.empty(lanes.shape, dtype)
                for buffer, selected in self._groups(lanes, verb):
                    values[selected] = buffer.view(dtype)[
                        self._indices(buffer, lanes[selected], dtype, verb)
                    ]
                result[live] = values
        return result

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        """Write where `mask` holds. Of several lanes with one address the last in row-major order wins."""
        addresses = np.asarray(self.resolved(addresses))
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
        low, high = segment_of(int(lanes.min())), segment_of(int(lanes.max()))
        return self._buffers[low] if low == high and 0 <= low < len(self._buffers) else None

    def _groups(self, lanes: Array, verb: str) -> list[_Selected]:
        segments = segment_of(lanes)
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
            outside = (offsets < 0) | (offsets + size > len(buffer.raw))
            first = int(offsets[outside][0])
            raise AccessError(
                f"element {first // size} of array {buffer.name!r} is {verb}, "
                f"which has elements 0 … {len(buffer.raw) // size - 1} ({len(buffer.raw)} bytes)"
            )
        if size == 1:
            return np.asarray(offsets)
        if (offsets & (size - 1)).any():
            raise AccessError(
                f"array {buffer.name!r} is {verb} at a byte offset that is no multiple of {size}"
            )
        return np.asarray(offsets // size)
