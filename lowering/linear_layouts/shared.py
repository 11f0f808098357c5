"""Shared-memory layouts: which element lies at which offset, and the matrix descriptors of wgmma for them.

A layout here maps "offset", counted in elements, to coordinates. Swizzles follow NVIDIA, "PTX ISA", "Swizzling modes" of the
tensor copies and "Shared memory matrix layout" of wgmma; descriptor fields follow "Matrix-descriptor format".
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ...promotion.dataclass import dataclass
from .f2 import log2
from .layout import OFFSET, LinearLayout

CHUNK_BYTES = 16
SWIZZLES = (128, 64, 32, 0)
_MODES = {0: 0, 128: 1, 64: 2, 32: 3}


def plain(shape: Sequence[int], order: Sequence[int] | None = None) -> LinearLayout:
    """Makes a layout that is contiguous along order[0], then order[1], …; row-major without an order."""
    order = _order(shape, order)
    bases = [_step(shape, dim) << bit for dim in order for bit in range(log2(shape[dim]))]
    return LinearLayout.of({OFFSET: bases}, shape)


def swizzled(
    shape: Sequence[int], vec: int, per_phase: int, max_phase: int, order: Sequence[int] | None = None
) -> LinearLayout:
    """Permutes the vectors of `vec` elements in row r of the two fastest dims by XOR with (r / per_phase) mod max_phase."""
    order = _order(shape, order)
    if len(order) < 2:
        raise ValueError("a swizzle needs two dims")
    log2(vec), log2(per_phase), log2(max_phase)
    fast, slow = order[:2]
    bases = [_step(shape, fast) << bit for bit in range(log2(shape[fast]))]
    for bit in range(log2(shape[slow])):
        flip = vec * ((1 << bit) // per_phase % max_phase) % shape[fast]
        bases.append(_step(shape, slow) << bit | flip * _step(shape, fast))
    bases += [_step(shape, dim) << bit for dim in order[2:] for bit in range(log2(shape[dim]))]
    return LinearLayout.of({OFFSET: bases}, shape)


def matrix_swizzled(
    shape: Sequence[int], element_bits: int, swizzle: int, order: Sequence[int] | None = None
) -> LinearLayout:
    """Makes the layout that a tensor copy writes and wgmma reads: atoms of 8 rows by `swizzle` bytes (0: 16, not swizzled).

    Atoms lie one after the other along the slow dim, then along the fast one.
    """
    order = _order(shape, order)
    if len(shape) != 2:
        raise ValueError("matrix layouts have two dims")
    fast, slow = order
    width = _atom_width(element_bits, swizzle)
    if shape[slow] < 8 or shape[fast] < width:
        raise ValueError(f"shape {tuple(shape)} is smaller than an atom, 8 rows by {width} elements")
    chunk = CHUNK_BYTES * 8 // element_bits
    phase = {128: 1, 64: 2, 32: 4, 0: 8}[swizzle]
    bases = [_step(shape, fast) << bit for bit in range(log2(width))]
    for bit in range(log2(shape[slow])):
        flip = ((1 << bit) // phase * chunk) if swizzle and bit < 3 else 0
        bases.append(_step(shape, slow) << bit | flip * _step(shape, fast))
    bases += [_step(shape, fast) << bit for bit in range(log2(width), log2(shape[fast]))]
    return LinearLayout.of({OFFSET: bases}, shape)


def swizzle_address(address: int, swizzle: int) -> int:
    """XORs bits 7.. of a byte address into bits 4..: one bit for 32 bytes, two for 64, three for 128. Its own inverse."""
    if swizzle not in _MODES:
        raise ValueError(f"{swizzle} is no swizzle width; there are 128, 64, 32 and 0 for none")
    return address ^ ((address >> 7 & (swizzle // CHUNK_BYTES - 1)) << 4) if swizzle else address


@dataclass(frozen=True, slots=True)
class MatrixDescriptor:
    """Fields of a wgmma matrix descriptor, in bytes; a stride that the instruction does not use is 16.

    `row_steps` and `k_steps` are added to the start address for each bit of an instruction's position in the block, counted in
    instruction tiles along m or n, and along k.
    """

    swizzle: int
    k_major: bool
    leading_bytes: int
    stride_bytes: int
    row_steps: tuple[int, ...]
    k_steps: tuple[int, ...]

    @property
    def mode(self) -> int:
        return _MODES[self.swizzle]

    @property
    def alignment(self) -> int:
        """Alignment of the buffer in bytes: a whole pattern of the swizzle, which takes address bits."""
        return 8 * self.swizzle or CHUNK_BYTES

    def encode(self, start: int) -> int:
        """Returns the 64-bit descriptor for a start address in shared memory, with base offset 0."""
        low = (start >> 4 & 0x3FFF) | (self.leading_bytes >> 4 & 0x3FFF) << 16
        return low | (self.stride_bytes >> 4 & 0x3FFF) << 32 | self.mode << 62


def match_descriptor(
    layout: LinearLayout, element_bits: int, rows: int, *, k_axis: int = 1
) -> MatrixDescriptor | None:
    """Finds the descriptor with which wgmma reads `rows` (m or n) by 32 bytes of k of this layout; None when there is none.

    Canonical forms as CUTLASS writes them, T elements in 16 bytes, w chunks in an atom, addresses before the XOR:
    K-major ((8,m),(T,2)) : ((T,SBO),(1,LBO)), swizzled ((wT,SBO),(1,T));
    MN-major ((T,1,m),(8,k)) : ((1,T,SBO),(T,LBO)), swizzled ((T,w,m),(8,k)) : ((1,T,LBO),(wT,SBO)).
    """
    if (
        len(layout.shape) != 2
        or element_bits not in (8, 16, 32)
        or not layout.is_invertible
        or layout.dims != (OFFSET,)
    ):
        return None
    depth = 256 // element_bits
    if layout.shape[1 - k_axis] < rows or layout.shape[k_axis] < depth:
        return None
    for swizzle in SWIZZLES:
        for k_major in (True, False):
            found = _match(layout, element_bits, rows, depth, k_axis, swizzle, k_major)
            if found is not None:
                return found
    return None


def _match(
    layout: LinearLayout, element_bits: int, rows: int, depth: int, k_axis: int, swizzle: int, k_major: bool
) -> MatrixDescriptor | None:
    if not k_major and element_bits != 16:
        return None  # operands of 8 and 32 bits must be K-major
    inverse, size = layout.pseudo_inverse(), element_bits // 8
    offsets = [swizzle_address(each * size, swizzle) for each in inverse[OFFSET]]
    if any(each & (each - 1) for each in offsets):
        return None  # an address would not be a sum of strides
    k_low = sum(log2(each) for each in layout.shape[k_axis + 1 :])
    row_low = sum(log2(each) for each in layout.shape[2 - k_axis :])
    along_k = offsets[k_low : k_low + log2(layout.shape[k_axis])]
    along_rows = offsets[row_low : row_low + log2(layout.shape[1 - k_axis])]
    k, row = along_k[: log2(depth)], along_rows[: log2(rows)]
    chunk, width = log2(CHUNK_BYTES // size), swizzle or CHUNK_BYTES
    unit = [size << bit for bit in range(log2(width // size))]
    eight = [width << bit for bit in range(3)]
    if k_major:
        inner = min(len(unit), len(k))
        good = k[:inner] == unit[:inner] and row[:3] == eight[: len(row[:3])]
        leading, stride = k[inner:], row[3:]
        good = good and inner >= chunk
    else:
        good = row[: len(unit)] == unit and k[:3] == eight[: len(k[:3])]
        leading, stride = (row[len(unit) :], k[3:]) if swizzle else (k[3:], row[len(unit) :])
    regular = all(each == part[0] << bit for part in (leading, stride) for bit, each in enumerate(part))
    if not good or not regular:
        return None
    return MatrixDescriptor(
        swizzle,
        k_major,
        leading[0] if leading else CHUNK_BYTES,
        stride[0] if stride else CHUNK_BYTES,
        tuple(along_rows[len(row) :]),
        tuple(along_k[len(k) :]),
    )


def _atom_width(element_bits: int, swizzle: int) -> int:
    if swizzle not in _MODES:
        raise ValueError(f"{swizzle} is no swizzle width; there are 128, 64, 32 and 0 for none")
    if element_bits not in (8, 16, 32, 64):
        raise ValueError(f"matrix layouts hold elements of 8 to 64 bits, not {element_bits}")
    return (swizzle or CHUNK_BYTES) * 8 // element_bits


def _order(shape: Sequence[int], order: Sequence[int] | None) -> tuple[int, ...]:
    found = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    if sorted(found) != list(range(len(shape))):
        raise ValueError(f"order {found} is no permutation of {len(shape)} dims")
    return found


def _step(shape: Sequence[int], dim: int) -> int:
    return prod(shape[dim + 1 :])
