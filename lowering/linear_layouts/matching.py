"""Matches accesses to instructions: vector widths, ldmatrix and stmatrix, and what an access costs.

An instruction moves a tile; it fits when the map from (register, lane, warp) to memory offsets can be divided on the left by
that tile (Zhou et al., arXiv 2505.23819). Register bits may be renumbered first: registers have no order in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from ...promotion.dataclass import dataclass
from .f2 import log2, rank, units
from .layout import LANE, REGISTER, WARP, LinearLayout
from .linear import ThreadMap, table

MAX_VECTOR_BITS = 128
BANKS, BANK_BYTES, SECTOR_BYTES = 32, 4, 32


@dataclass(frozen=True, slots=True)
class Access:
    """One instruction: the registers it moves, by rising address, and the byte offset that is XORed into the address."""

    registers: tuple[int, ...]
    offset: int


@dataclass(frozen=True, slots=True)
class MatrixAccess:
    """ldmatrix or stmatrix (.b16, x`count`): lane a gives the address of row a % 8 of matrix a / 8.

    Each access names the registers it moves: those packed into one 32-bit word of matrix 0, then of matrix 1, …
    """

    count: int
    transposed: bool
    row_address: ThreadMap
    accesses: tuple[Access, ...]


def offsets(distributed: LinearLayout, shared: LinearLayout) -> LinearLayout:
    """Maps (register, lane, warp) to the offset in elements, for a block that lies in memory as `shared` says."""
    found = distributed.invert_and_compose(shared)
    return found.reshape((prod(found.shape),))


def vector_elements(where: LinearLayout, element_bits: int, limit_bits: int = MAX_VECTOR_BITS) -> int:
    """Returns how many elements the widest aligned load or store of one thread moves; `where` as `offsets` gives it."""
    best = 1
    while best * 2 * element_bits <= limit_bits and best * 2 <= where.shape[0]:
        wider = _registers_first(where, units(log2(best * 2)))
        if wider is None or wider.divide_left(LinearLayout.identity(best * 2, REGISTER)) is None:
            break
        best *= 2
    return best


def vector_accesses(where: LinearLayout, element_bits: int, elements: int) -> tuple[Access, ...]:
    """Returns the instructions of a thread when each moves `elements` elements, with offsets in bytes.

    ValueError when no so many consecutive elements lie in registers of one thread.
    """
    indices = [_register_at(where, image) for image in units(log2(elements))]
    if any(index is None for index in indices):
        raise ValueError(f"no {elements} consecutive elements lie in registers of one thread")
    vector = table([1 << index for index in indices if index is not None])
    rest = [bit for bit in range(len(where[REGISTER])) if bit not in indices]
    starts = table([1 << bit for bit in rest])
    vector_offsets = table([where[REGISTER][bit] for bit in rest])
    return tuple(
        Access(tuple(start ^ each for each in vector), offset * element_bits // 8)
        for start, offset in zip(starts, vector_offsets, strict=True)
    )


@lru_cache(maxsize=1024)
def global_vector_elements(
    layout: LinearLayout,
    element_bits: int,
    *,
    axis: int = -1,
    contiguity: int,
    alignment: int,
    mask_constancy: int | None = None,
) -> int:
    """Returns how many elements the widest access to global memory along `axis` moves.

    It is bounded by what is known of the pointers, `contiguity` (consecutive elements) and `alignment` (bytes that divide the
    address of such a run), and of the mask, `mask_constancy` (consecutive elements with one value).
    """
    axis %= len(layout.shape)
    fast_last = layout.transpose([*(i for i in range(len(layout.shape)) if i != axis), axis])
    where = fast_last.reshape((prod(layout.shape),))
    limit = min(
        contiguity & -contiguity, layout.shape[axis], max(1, (alignment & -alignment) * 8 // element_bits)
    )
    if mask_constancy is not None:
        limit = min(limit, mask_constancy & -mask_constancy)
    return vector_elements(where, element_bits, min(MAX_VECTOR_BITS, limit * element_bits))


def match_matrix(where: LinearLayout, element_bits: int, *, transposed: bool = False) -> MatrixAccess | None:
    """Plans ldmatrix (or stmatrix) for a block between registers and shared memory; None when rows of 16 bytes do not fit.

    A row is two lane bits of 32-bit words, or three lane bits of 16-bit elements when transposed; every other basis must be a
    multiple of 16 bytes, so that all rows are aligned.
    """
    lanes, registers = where[LANE], where[REGISTER]
    if len(lanes) != 5 or element_bits not in (8, 16, 32) or (transposed and element_bits != 16):
        return None
    size, row = element_bits // 8, 128 // element_bits
    if transposed:
        if not registers or lanes[2:] != (1, 2, 4):
            return None
        pack = [0]
        rows = (registers[0], lanes[0], lanes[1])
    else:
        per_bank = 32 // element_bits
        found = [_register_at(where, image) for image in units(log2(per_bank))]
        if any(each is None for each in found) or lanes[:2] != (per_bank, 2 * per_bank):
            return None
        pack = [each for each in found if each is not None]
        rows = (lanes[2], lanes[3], lanes[4])
    rest = [bit for bit in range(len(registers)) if bit not in pack]
    others = [*rows, *(registers[bit] for bit in rest), *where[WARP]]
    if any(each % row for each in others):
        return None
    matrices = rest[:2]
    starts = [1 << bit for bit in rest[len(matrices) :]]
    images = [registers[bit] for bit in rest[len(matrices) :]]
    moved = table([1 << bit for bit in (*pack, *matrices)])
    numbers = [registers[bit] * size for bit in matrices] + [0] * (2 - len(matrices))
    return MatrixAccess(
        1 << len(matrices),
        transposed,
        ThreadMap(0, (*(each * size for each in rows), *numbers), tuple(each * size for each in where[WARP])),
        tuple(
            Access(tuple(start ^ each for each in moved), image * size)
            for start, image in zip(table(starts), table(images), strict=True)
        ),
    )


def bank_conflicts(lane_bytes: Sequence[int], access_bytes: int) -> int:
    """Counts how often an access is served: the most distinct words that one bank has to give at a time.

    `lane_bytes`: the byte offset of each lane bit. An access of more than 4 bytes is served for fewer lanes at a time, 128
    bytes in all; lanes that read one word share it.
    """
    banks = max(1, access_bytes // BANK_BYTES)
    together = lane_bytes[: max(0, log2(BANKS) - log2(banks))]
    columns = [each // BANK_BYTES for each in together] + units(log2(banks))
    return 1 << (rank(columns) - rank([each % BANKS for each in columns]))


def sectors(lane_bytes: Sequence[int]) -> int:
    """Counts the sectors of 32 bytes that the lanes of a warp touch, each with an aligned access of at most a sector."""
    return 1 << rank([each // SECTOR_BYTES for each in lane_bytes])


def _registers_first(layout: LinearLayout, images: Sequence[int]) -> LinearLayout | None:
    """Renumbers the register bits of a layout so that they start with these images; None when they are not there."""
    rest = list(layout[REGISTER])
    for image in images:
        if image not in rest:
            return None
        rest.remove(image)
    return layout.with_bases(register=[*images, *rest])


def _register_at(where: LinearLayout, image: int) -> int | None:
    return where[REGISTER].index(image) if image in where[REGISTER] else None
