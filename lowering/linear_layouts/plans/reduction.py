"""Plans reductions along one axis, as data.

A thread folds its registers, a warp exchanges by butterflies, and warps combine through shared memory.

Moves of the hardware that only travel along the axis are the kernel of the layout with that coordinate dropped; those between
copies are the kernel of the layout itself. A basis of the first modulo the second gives the directions, each of which halves
what is left to do. Copies are no directions, so no element is counted twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError
from ..coordinates import axis_mask
from ..f2 import Span, combine, dual, extend, kernel, log2, parity, units
from ..layout import LANE, REGISTER, WARP, LinearLayout
from ..linear import Condition, expand_unique, table
from .exchange import SharedExchange, plan_exchange

_INNER = (REGISTER, LANE, WARP)


@dataclass(frozen=True, slots=True)
class Butterfly:
    """Accumulator a becomes f of itself and of accumulator a ^ `register_mask` of lane ^ `lane_mask` (shfl.bfly).

    Where `first` holds, the own value is the first operand. That depends on the position along the axis alone: from a layout in
    normal form all copies of a result are equal to the bit even when f is not commutative to the bit.
    """

    lane_mask: int
    register_mask: int
    first: Condition


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """The steps of a reduction: a thread folds the registers `groups[a]`, in order along the axis, into accumulator a.

    The butterflies follow. Without `exchange` accumulator a is register a of the result. With it, `partials` values
    per register of the result come back: register r is the fold of values r * partials, …, in order, in every thread
    alike.
    """

    result: LinearLayout
    groups: tuple[tuple[int, ...], ...]
    butterflies: tuple[Butterfly, ...]
    partials: int
    exchange: SharedExchange | None

    def is_of_whole_warp(self, copies: Sequence[int] = ()) -> bool:
        """Whether the butterflies together make one value of all 32 lanes: redux.sync does that for 32-bit integers.

        copies: masks that lead to lanes with the same elements, where it does not matter how often an element counts.
        """
        masks = [each.lane_mask for each in self.butterflies if not each.register_mask]
        return len(masks) == len(self.butterflies) > 0 and Span([*masks, *copies]).rank == 5


@lru_cache(maxsize=1024)
def plan_reduction(layout: LinearLayout, axis: int, element_bits: int) -> ReductionPlan:
    """Plans how the values along `axis` become one; the result layout is the slice, and every copy of it holds the result.

    ValueError when the layout does not hold every element, UnsupportedError for a reduction over the blocks of a cluster.
    """
    result = layout.slice(axis)  # rejects a wrong axis
    axis %= len(layout.shape)
    if not layout.is_surjective:
        raise ValueError("the layout of a block must hold every element")
    own = layout.unique_registers()
    columns, dropped = own.columns(_INNER), own.collapse(axis)
    moves = kernel(dropped.columns(_INNER))
    # Low leading bits first: registers, then lanes, then warps.
    directions = extend(kernel(columns), Span(moves).rows)
    if len(directions) != log2(layout.shape[axis]):
        raise UnsupportedError("a reduction over the blocks of a cluster is not supported")
    registers, lanes = len(own[REGISTER]), len(own[LANE])
    inside = [each for each in directions if each < 1 << registers]
    between_lanes = [each for each in directions if 1 << registers <= each < 1 << registers + lanes]
    between_warps = [each for each in directions if each >= 1 << registers + lanes]
    sides = dual([combine(columns, each) for each in directions], own.out_bits)

    span = Span()
    kept = [bit for bit, basis in enumerate(dropped[REGISTER]) if span.add(basis)]
    accumulators = Span(dropped[REGISTER][bit] for bit in kept)

    def accumulator(registers_moved: int) -> int:
        return accumulators.coordinates(combine(dropped[REGISTER], registers_moved))

    butterflies = []
    for direction in between_lanes:
        side = sides[directions.index(direction)]
        first = Condition(
            0,
            _mask([parity(side & own[REGISTER][bit]) for bit in kept]),
            _mask([parity(side & basis) for basis in own[LANE]]),
            _mask([parity(side & basis) for basis in own[WARP]]),
        )
        moved = accumulator(direction & ((1 << registers) - 1))
        butterflies.append(Butterfly(direction >> registers, moved, first))

    return ReductionPlan(
        result,
        _groups(layout, own, axis, kept, inside),
        tuple(butterflies),
        1 << len(between_warps),
        _between_warps(own, result, kept, sides[len(sides) - len(between_warps) :], element_bits)
        if between_warps
        else None,
    )


def _groups(
    layout: LinearLayout, own: LinearLayout, axis: int, kept: list[int], inside: list[int]
) -> tuple[tuple[int, ...], ...]:
    """Returns the registers of each accumulator, named as in `layout`, by rising coordinate along the axis."""
    names, mask = expand_unique(layout), axis_mask(layout.shape, axis)
    groups = []
    for start in table([1 << bit for bit in kept]):
        members = sorted(table(inside, start), key=lambda register: combine(own[REGISTER], register) & mask)
        groups.append(tuple(names[register] for register in members))
    return tuple(groups)


def _between_warps(
    own: LinearLayout, result: LinearLayout, kept: list[int], sides: list[int], element_bits: int
) -> SharedExchange:
    """Plans how partial results get to every thread that wants them: a conversion of (element of the result, partial number).

    Threads read all partials of their elements, as vectors, and fold them in one order: one pass through shared memory for any
    number of warps, where lanes exchanging them again would need two.
    """
    bits = len(sides)

    def partial(vector: int) -> int:
        return _mask([parity(side & vector) for side in sides])

    def tag(elements: tuple[int, ...], vectors: tuple[int, ...] | list[int]) -> list[int]:
        return [element << bits | partial(each) for element, each in zip(elements, vectors, strict=True)]

    shape = (*result.shape, 1 << bits)
    current = {
        REGISTER: tag(result[REGISTER], [own[REGISTER][bit] for bit in kept]),
        LANE: tag(result[LANE], own[LANE]),
        WARP: tag(result[WARP], own[WARP]),
    }
    wanted = {name: [each << bits for each in result[name]] for name in _INNER}
    wanted[REGISTER] = [*units(bits), *wanted[REGISTER]]
    return plan_exchange(LinearLayout.of(current, shape), LinearLayout.of(wanted, shape), element_bits)


def _mask(bits: list[int]) -> int:
    return sum(bit << index for index, bit in enumerate(bits))
