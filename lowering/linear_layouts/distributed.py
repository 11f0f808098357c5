"""Distributed layouts: blocked ones, and the fragments of the matrix instructions.

Fragments are those of NVIDIA, "PTX ISA", sections "Matrix fragments for mma.m8n8k4 / m16n8k8 / m16n8k16 / m16n8k32",
"ldmatrix", "stmatrix" and "Register fragments and shared memory matrix layouts" (wgmma). Coordinates are (row, column): A is
(m, k), B is (k, n), C is (m, n). Register bits are those of the element index of a thread, low first; elements narrower than 32
bits fill a 32-bit register in that order.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from .coordinates import flatten
from .f2 import log2, units
from .layout import LANE, REGISTER, WARP, LinearLayout
from .linear import table

LANES = 32
MAX_VECTOR_BITS = 128

Coordinate = tuple[int, int]


def blocked(
    shape: Sequence[int],
    size_per_thread: Sequence[int],
    lanes: Sequence[int],
    warps: Sequence[int],
    order: Sequence[int],
) -> LinearLayout:
    """Makes a layout of nested tiles of registers, lanes and warps, each walking the dims in `order`, the fastest first.

    Where the tile outgrows the shape, lanes and warps hold copies; where it is too small, registers repeat it.
    """
    shape = tuple(shape)
    if sorted(order) != list(range(len(shape))):
        raise ValueError(f"order {tuple(order)} is no permutation of {len(shape)} dims")
    tiles = ((REGISTER, size_per_thread), (LANE, lanes), (WARP, warps))
    if any(len(tile) != len(shape) for _, tile in tiles):
        raise ValueError(f"every tile needs one size for each of {len(shape)} dims")
    size = [1] * len(shape)
    bases: dict[str, list[int]] = {REGISTER: [], LANE: [], WARP: []}
    for name, tile in tiles:
        for dim in order:
            for _ in range(log2(tile[dim])):
                if size[dim] < shape[dim]:
                    bases[name].append(_unit(shape, dim, size[dim]))
                    size[dim] *= 2
                elif name != REGISTER:
                    bases[name].append(0)
    return _repeat(LinearLayout.of(bases, shape), size, order)


def default_blocked(
    shape: Sequence[int],
    warps: int,
    element_bits: int = 32,
    *,
    order: Sequence[int] | None = None,
    contiguity: int | None = None,
    alignment: int | None = None,
    lanes: int = LANES,
) -> LinearLayout:
    """Makes the layout of a coalesced access: up to 128 bits in a thread, then lanes, then warps along the dims in `order`.

    `contiguity` is the number of consecutive elements along order[0] known to lie one after the other in memory, `alignment`
    the bytes that divide the address of each such run. Without them whole rows are taken to be contiguous and aligned.
    """
    shape = tuple(shape)
    order = tuple(reversed(range(len(shape)))) if order is None else tuple(order)
    if not shape:
        return LinearLayout.of({REGISTER: (), LANE: [0] * log2(lanes), WARP: [0] * log2(warps)}, ())
    fast = order[0]
    vector = min(max(1, MAX_VECTOR_BITS // element_bits), shape[fast], max(1, prod(shape) // (lanes * warps)))
    for limit in (contiguity, None if alignment is None else max(1, alignment * 8 // element_bits)):
        if limit is not None:
            vector = min(vector, limit & -limit)
    per_thread, left = [1] * len(shape), {"lane": lanes, "warp": warps}
    per_thread[fast] = vector
    size = list(per_thread)
    tiles: dict[str, list[int]] = {}
    for name in ("lane", "warp"):
        tiles[name] = [1] * len(shape)
        for dim in order:
            take = min(left[name], max(1, shape[dim] // size[dim]))
            tiles[name][dim], left[name] = take, left[name] // take
            size[dim] *= take
        tiles[name][order[-1]] *= left[name]  # more threads than elements: copies
    return blocked(shape, per_thread, tiles["lane"], tiles["warp"], order)


# ---------------------------------------------------------------- fragments


def accumulator_fragment(rows: int = 16) -> LinearLayout:
    """Makes the fragment of C and D of mma.m16n8 (also of m8n8k4 for f64 with `rows` = 8)."""
    registers: list[Coordinate] = [(0, 1), (8, 0)][: 1 if rows == 8 else 2]
    return _fragment((rows, 8), registers, [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)])


def operand_a_fragment(element_bits: int, k_width: int | None = None) -> LinearLayout:
    """Makes the fragment of A of mma.m16n8 with `k_width` consecutive k in a thread (default: those of a 32-bit register).

    64 bits: f64 m8n8k4, or with `k_width` 1 the m16n8k8 of sm_90. A fragment wider than one instruction's feeds several of
    them, see `instruction_registers`.
    """
    if element_bits == 64 and k_width is None:
        return _fragment((8, 4), [], [(0, 1), (0, 2), (1, 0), (2, 0), (4, 0)])
    k = _k_width(element_bits, k_width)
    registers = [*((0, 1 << bit) for bit in range(log2(k))), (8, 0), (0, 4 * k)]
    return _fragment((16, 8 * k), registers, [(0, k), (0, 2 * k), (1, 0), (2, 0), (4, 0)])


def operand_b_fragment(element_bits: int, k_width: int | None = None) -> LinearLayout:
    """Makes the fragment of B of mma.m16n8, in the sizes of `operand_a_fragment`."""
    if element_bits == 64 and k_width is None:
        return _fragment((4, 8), [], [(1, 0), (2, 0), (0, 1), (0, 2), (0, 4)])
    k = _k_width(element_bits, k_width)
    registers = [*((1 << bit, 0) for bit in range(log2(k))), (4 * k, 0)]
    return _fragment((8 * k, 8), registers, [(k, 0), (2 * k, 0), (0, 1), (0, 2), (0, 4)])


def instruction_registers(
    fragment: LinearLayout, element_bits: int, k_width: int
) -> tuple[tuple[int, ...], ...]:
    """Returns the registers that each instruction takes from an operand fragment with wide `k_width`, in their order there."""
    low = log2(max(1, 32 // element_bits))
    extra = log2(_k_width(element_bits, k_width)) - low
    inside = [*units(low), *(1 << bit for bit in range(low + extra, len(fragment[REGISTER])))]
    return tuple(table(inside, number << low) for number in range(1 << extra))


def fragment_tiles(
    layout: LinearLayout, fragment: LinearLayout
) -> tuple[tuple[tuple[int, ...], Coordinate], ...]:
    """Returns, for each fragment that a warp holds of a block, its registers in order and its coordinate for warp 0."""
    count = len(fragment[REGISTER])
    names = table(units(count))
    tiles = table(layout[REGISTER][count:])
    found = []
    for number, tile in enumerate(tiles):
        row, column = layout.coordinates(tile)
        found.append((tuple(number << count | each for each in names), (row, column)))
    return tuple(found)


def wgmma_accumulator_fragment(columns: int) -> LinearLayout:
    """Makes the fragment of D of wgmma.m64nNk with N a power of two from 8 to 256, over the four warps of a group."""
    if not 8 <= columns <= 256:
        raise ValueError(f"the columns of a wgmma instruction are 8 to 256, not {columns}")
    registers = [(0, 1), (8, 0), *((0, 8 << bit) for bit in range(log2(columns // 8)))]
    lanes = [(0, 2), (0, 4), (1, 0), (2, 0), (4, 0)]
    return _fragment((64, columns), registers, lanes, [(16, 0), (32, 0)])


def wgmma_a_fragment(element_bits: int) -> LinearLayout:
    """Makes the fragment of A of wgmma in registers: one instruction's 64 rows by 32 bytes of k."""
    if element_bits not in (8, 16, 32):
        raise ValueError(f"wgmma has no operands of {element_bits} bits")
    fragment = operand_a_fragment(element_bits)
    tile = LinearLayout.from_coordinates((4, 1), {WARP: [(1, 0), (2, 0)]})
    return fragment * tile


# ---------------------------------------------------------------- fragments over a block


def mma_accumulator(
    shape: Sequence[int], warps: Sequence[int], *, element_bits: int = 32, warp_order: Sequence[int] = (0, 1)
) -> LinearLayout:
    """Makes the layout of C of a block computed by warps[0] x warps[1] warps with mma.m16n8 (64-bit elements: m8n8k4)."""
    fragment = accumulator_fragment(8 if element_bits == 64 else 16)
    return _over_block(fragment, shape, warps, warp_order)


def dot_operand(
    shape: Sequence[int],
    operand: str,
    warps: Sequence[int],
    element_bits: int,
    *,
    k_width: int | None = None,
    warp_order: Sequence[int] = (0, 1),
) -> LinearLayout:
    """Makes the layout of operand "a" (m x k) or "b" (k x n) for an accumulator spread over warps[0] x warps[1] warps.

    Warps that split the other operand's dim hold the same values. Any `k_width` is right as long as A and B use the same one:
    it only permutes the contraction index.
    """
    if operand not in ("a", "b"):
        raise ValueError(f'the operand is "a" or "b", not {operand!r}')
    make = operand_a_fragment if operand == "a" else operand_b_fragment
    own = 0 if operand == "a" else 1
    return _over_block(make(element_bits, k_width), shape, warps, warp_order, shared=1 - own)


def wgmma_accumulator(shape: Sequence[int], columns: int, warps: Sequence[int] = (4, 1)) -> LinearLayout:
    """Makes the layout of D of a block computed with wgmma.m64n`columns`.

    warps[0] is a multiple of 4, else ValueError; further groups of four warps follow along m, then n.
    """
    return _over_groups(wgmma_accumulator_fragment(columns), shape, warps, shared=None)


def wgmma_operand_a(shape: Sequence[int], element_bits: int, warps: Sequence[int] = (4, 1)) -> LinearLayout:
    """Makes the layout of A in registers for `wgmma_accumulator`."""
    return _over_groups(wgmma_a_fragment(element_bits), shape, warps, shared=1)


def _over_groups(
    fragment: LinearLayout, shape: Sequence[int], warps: Sequence[int], shared: int | None
) -> LinearLayout:
    if warps[0] % 4:
        raise ValueError(f"a wgmma instruction takes four warps along m, not {warps[0]}")
    return _over_block(fragment, shape, (warps[0] // 4, warps[1]), (0, 1), shared=shared)


def _over_block(
    fragment: LinearLayout,
    shape: Sequence[int],
    warps: Sequence[int],
    warp_order: Sequence[int],
    *,
    shared: int | None = None,
) -> LinearLayout:
    """Spreads warps over the fragment, then repeats registers up to the shape; warps along dim `shared` hold copies."""
    shape = tuple(shape)
    if len(shape) != 2 or len(warps) != 2:
        raise ValueError("matrix layouts have two dims")
    if any(size % part for size, part in zip(shape, fragment.shape, strict=True)):
        raise ValueError(f"shape {shape} is not made of whole {fragment.shape} fragments")
    size = list(fragment.shape)
    bases = {
        name: [flatten(fragment.coordinates(each), shape) for each in fragment[name]]
        for name in (REGISTER, LANE, WARP)
    }
    for dim in warp_order:
        for _ in range(log2(warps[dim])):
            if dim != shared and size[dim] < shape[dim]:
                bases[WARP].append(_unit(shape, dim, size[dim]))
                size[dim] *= 2
            else:
                bases[WARP].append(0)
    return _repeat(LinearLayout.of(bases, shape), size, (1, 0))


def _repeat(layout: LinearLayout, size: Sequence[int], order: Sequence[int]) -> LinearLayout:
    more = []
    for dim in order:
        reached = size[dim]
        while reached < layout.shape[dim]:
            more.append(_unit(layout.shape, dim, reached))
            reached *= 2
    return layout.with_bases(register=[*layout[REGISTER], *more])


def _fragment(
    shape: Coordinate, registers: list[Coordinate], lanes: list[Coordinate], warps: Sequence[Coordinate] = ()
) -> LinearLayout:
    bases: dict[str, Sequence[Coordinate]] = {REGISTER: registers, LANE: lanes}
    return LinearLayout.from_coordinates(shape, {**bases, WARP: warps} if warps else bases)


def _k_width(element_bits: int, k_width: int | None) -> int:
    least = max(1, 32 // element_bits)
    k = least if k_width is None else k_width
    log2(k)
    if element_bits not in (8, 16, 32, 64) or k < least:
        raise ValueError(f"{k} consecutive k of {element_bits} bits do not fill a register of an operand")
    return k


def _unit(shape: Sequence[int], dim: int, index: int) -> int:
    return index * prod(shape[dim + 1 :])
