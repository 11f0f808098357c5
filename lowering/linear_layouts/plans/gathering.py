"""Plans gathers along one axis, result[.., i, ..] = source[.., index[.., i, ..], ..], as data.

When no value has to leave its warp, the register and lane of a value are a linear function of the index and of the reader's
register, lane and warp, and a shuffle fetches it, one for each register that may hold it. Otherwise the source is stored to
shared memory and read back.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from ....promotion.dataclass import dataclass
from ..coordinates import flatten
from ..f2 import Span, extend, log2
from ..layout import LANE, OFFSET, REGISTER, WARP, LinearLayout
from ..levels import check_pair
from ..linear import ThreadMap, ThreadPredicate, expand_unique, table
from ..matching import bank_conflicts, offsets, vector_accesses, vector_elements
from .exchange import Accesses

MAX_CANDIDATES = 4
"""The most registers to choose from; with more, shared memory takes fewer instructions."""


@dataclass(frozen=True, slots=True)
class WarpGather:
    """The value at index i for register r is in register R and lane N of the own warp.

    R = registers[r] ^ register_of(lane, warp) ^ XOR of index_registers[b] over the set bits b of i,
    N = lanes[r] ^ lane_of(lane, warp) ^ XOR of index_lanes[b].
    In one shuffle for each candidate c, a lane offers register registers[r] ^ c ^ (its warp's part of register_of); a reader
    reads lane N and keeps the value if R is that register.
    """

    registers: tuple[int, ...]
    lanes: tuple[int, ...]
    register_of: ThreadMap
    lane_of: ThreadMap
    index_registers: tuple[int, ...]
    index_lanes: tuple[int, ...]
    candidates: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedGather:
    """Stores the source, and after a barrier loads from (address ^ bases[r]) + i * stride, in bytes."""

    bytes: int
    store: Accesses
    address: ThreadMap
    bases: tuple[int, ...]
    stride: int


@lru_cache(maxsize=1024)
def plan_gather(
    source: LinearLayout, index: LinearLayout, axis: int, element_bits: int
) -> WarpGather | SharedGather:
    """Plans a gather with indices in range; `index` is the layout of the indices and of the result.

    ValueError when the shapes differ in another dim than `axis`, or `source` does not hold every element.
    """
    source.slice(axis)  # rejects a wrong axis
    axis %= len(source.shape)
    shapes = [[size for dim, size in enumerate(each.shape) if dim != axis] for each in (source, index)]
    if len(source.shape) != len(index.shape) or shapes[0] != shapes[1]:
        raise ValueError(f"shapes {source.shape} and {index.shape} differ outside axis {axis}")
    if not source.is_surjective:
        raise ValueError("the layout of a block must hold every element")
    wanted = _at_index_zero(source, index, axis)
    check_pair(source, wanted)
    local = _warp_gather(source, wanted, axis)
    if local is not None and len(local.candidates) <= MAX_CANDIDATES:
        return local
    return _shared_gather(source, wanted, axis, max(8, element_bits) // 8)


def _at_index_zero(source: LinearLayout, index: LinearLayout, axis: int) -> LinearLayout:
    """Maps each position of the index block to the element of the source that it reads when its index is 0."""

    def move(element: int) -> int:
        coordinate = list(index.coordinates(element))
        coordinate[axis] = 0
        return flatten(coordinate, source.shape)

    return LinearLayout.of(
        {name: [move(each) for each in column] for name, column in index.bases}, source.shape
    )


def _warp_gather(source: LinearLayout, wanted: LinearLayout, axis: int) -> WarpGather | None:
    own, names = source.unique_registers(), expand_unique(source)
    registers = len(own[REGISTER])
    span = Span([*own[REGISTER], *own[LANE]])
    # Lanes that differ should read different lanes, not different registers.
    lanes_first = Span([*own[LANE], *own[REGISTER]])
    step = prod(source.shape[axis + 1 :])
    along = [span.solve(step << bit) for bit in range(log2(source.shape[axis]))]
    per_register = [span.solve(each) for each in wanted[REGISTER]]
    warps = [span.solve(a ^ b) for a, b in zip(wanted[WARP], own[WARP], strict=True)]
    turned = [lanes_first.solve(each) for each in wanted[LANE]]
    blocks = [None if a ^ b else 0 for a, b in zip(wanted["block"], own["block"], strict=True)]
    if None in (*along, *per_register, *warps, *turned, *blocks):
        return None
    low, lanes = (1 << registers) - 1, len(own[LANE])
    per_lane = [each >> lanes | (each & (1 << lanes) - 1) << registers for each in turned if each is not None]
    indices = [each for each in along if each is not None]
    starts = table([each for each in per_register if each is not None])
    uniform = [each for each in warps if each is not None]
    differing = extend((), [names[each & low] for each in (*indices, *per_lane)])
    return WarpGather(
        tuple(names[each & low] for each in starts),
        tuple(each >> registers for each in starts),
        ThreadMap(
            0, tuple(names[each & low] for each in per_lane), tuple(names[each & low] for each in uniform)
        ),
        ThreadMap(
            0, tuple(each >> registers for each in per_lane), tuple(each >> registers for each in uniform)
        ),
        tuple(names[each & low] for each in indices),
        tuple(each >> registers for each in indices),
        table(differing),
    )


def _shared_gather(source: LinearLayout, wanted: LinearLayout, axis: int, size: int) -> SharedGather:
    """Plans a row-major buffer with the axis last, so that the index is added after everything else is known."""
    order = [*(dim for dim in range(len(source.shape)) if dim != axis), axis]
    own, names = source.unique_registers(), expand_unique(source)
    plain = LinearLayout.of({OFFSET: [1 << bit for bit in range(source.out_bits)]}, (1 << source.out_bits,))
    flat = own.transpose(order).reshape(plain.shape)
    where = offsets(flat, plain)
    elements = vector_elements(where, size * 8)
    free = own.free_masks()
    accesses = tuple(
        type(each)(tuple(names[register] for register in each.registers), each.offset)
        for each in vector_accesses(where, size * 8, elements)
    )
    lanes, warps = ([basis * size for basis in where[name]] for name in (LANE, WARP))
    target = wanted.transpose(order)
    return SharedGather(
        size << source.out_bits,
        Accesses(
            ThreadMap(0, tuple(lanes), tuple(warps)),
            accesses,
            ThreadPredicate(free[LANE], free[WARP]),
            bank_conflicts(lanes, size * elements),
        ),
        ThreadMap(
            0, tuple(each * size for each in target[LANE]), tuple(each * size for each in target[WARP])
        ),
        table([each * size for each in target[REGISTER]]),
        size,
    )
