"""Plans reductions and scans along one axis in an order that does not depend on the layout, as data.

The order goes by the bits of the position along the axis, lowest first: see `tt/transforms/numerics/fix_order.py`. A bit that
is one register or one lane is combined in place. Where the next bit is neither, the block moves to a layout in which all
remaining bits are registers or lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ....promotion.dataclass import dataclass
from ..f2 import log2
from ..layout import HARDWARE, LANE, REGISTER, WARP, LinearLayout
from ..linear import expand_unique

_INNER = (REGISTER, LANE, WARP)
_PER_THREAD = 5
"""The most bits of the axis that a thread keeps in registers of its own before others go to idle lanes."""


@dataclass(frozen=True, slots=True)
class Take:
    """Keeps these registers, in this order, and drops the others."""

    registers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Moves all elements from one layout to another."""

    source: LinearLayout
    destination: LinearLayout


@dataclass(frozen=True, slots=True)
class Fold:
    """Makes register i the combination of a pair of registers, left and right."""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Combines every register with that of lane ^ `lane_mask`; it is the left operand where the lane has none of the bits."""

    lane_mask: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Combines prefixes into the elements after them along the axis.

    takers: pairs (source register, register that takes). The source is in lane (lane | `lanes_on`) & ~`lanes_off`, which is
    the own lane if both are 0. Lanes whose bit `lane_bit` is `value` take; all do if it is 0.
    """

    takers: tuple[tuple[int, int], ...]
    lanes_on: int
    lanes_off: int
    lane_bit: int
    value: bool


ReductionStep = Take | Move | Fold | Exchange
ScanStep = Take | Move | Spread


def plan_ordered_reduction(layout: LinearLayout, axis: int) -> tuple[list[ReductionStep], LinearLayout]:
    """Returns the steps, and the layout of the result, which is `layout.slice(axis)`."""
    result = layout.slice(axis)
    axis %= len(layout.shape)
    steps: list[ReductionStep] = [Take(expand_unique(layout))]
    own = layout.unique_registers()
    while own.shape[axis] > 1:
        lowest = _bits_along(own, axis)[0]
        if lowest is None or lowest[0] == WARP:
            gathered = _gathered(own, axis)  # where every bit along the axis is one of registers or lanes
            steps.append(Move(own, gathered))
            own = gathered
            continue
        name, bit = lowest
        if name == REGISTER:
            left = [register for register in range(own.size(REGISTER)) if not register >> bit & 1]
            steps.append(Fold(tuple([(register, register | 1 << bit) for register in left])))
        else:
            steps.append(Exchange(1 << bit))
        own = _halved(own, axis, name, bit)
    flat = own.slice(axis)
    if not flat.same_map(result):
        steps.append(Move(flat, result))
    return steps, result


def plan_ordered_scan(layout: LinearLayout, axis: int, reverse: bool) -> list[ScanStep]:
    """Returns the steps; the result has the layout `layout.unique_registers()`, without registers that hold copies."""
    axis %= len(layout.shape)
    steps: list[ScanStep] = [Take(expand_unique(layout))]
    own = layout.unique_registers()
    working = own
    if any(bit_of is None or bit_of[0] == WARP for bit_of in _bits_along(own, axis)):
        working = _gathered(own, axis)
        steps.append(Move(own, working))
    bits = [bit_of for bit_of in _bits_along(working, axis) if bit_of is not None]
    for level, (name, bit) in enumerate(bits):
        lower = {each: sum(1 << other for kind, other in bits[:level] if kind == each) for each in (REGISTER, LANE)}
        here = {each: 1 << bit if name == each else 0 for each in (REGISTER, LANE)}
        # A forward scan gives the lower half's last prefix to the upper half, a reverse one the upper half's
        # first to the lower.
        on, off = (here, lower) if reverse else (lower, here)
        takers = [
            ((register | on[REGISTER]) & ~off[REGISTER], register)
            for register in range(working.size(REGISTER))
            if name != REGISTER or bool(register >> bit & 1) != reverse
        ]
        steps.append(Spread(tuple(takers), on[LANE], off[LANE], here[LANE], not reverse))
    if working is not own:
        steps.append(Move(working, own))
    return steps


def _bits_along(layout: LinearLayout, axis: int) -> list[tuple[str, int] | None]:
    """Returns the register, lane or warp bit that each bit of the position along the axis is; None where it is several."""
    found: list[tuple[str, int] | None] = []
    input_bits, images = layout.input_bits(_INNER), [layout.coordinates(basis) for basis in layout.columns(_INNER)]
    columns = list(zip(input_bits, images, strict=True))
    for bit in range(log2(layout.shape[axis])):
        users = [(bit_of, at) for bit_of, at in columns if at[axis] >> bit & 1]
        alone = len(users) == 1 and users[0][1][axis] == 1 << bit and sum(users[0][1]) == 1 << bit
        found.append(users[0][0] if alone else None)
    return found


def _halved(layout: LinearLayout, axis: int, name: str, bit: int) -> LinearLayout:
    """Returns the layout without the lowest bit of the axis, which was this bit of registers or lanes."""
    shape = tuple(size // 2 if dim == axis else size for dim, size in enumerate(layout.shape))
    small = LinearLayout.of({}, shape)
    bases: dict[str, list[int]] = {}
    for each, column in layout.bases:
        bases[each] = []
        for number, basis in enumerate(column):
            if (each, number) == (name, bit):
                if name == LANE:
                    bases[each].append(0)  # both lanes have the result
                continue
            at = list(layout.coordinates(basis))
            at[axis] //= 2
            bases[each].append(small.flatten(at))
    return LinearLayout.of(bases, shape)


def _gathered(layout: LinearLayout, axis: int) -> LinearLayout:
    """Returns a layout in which no two warps share a line along the axis.

    Its low bits are registers. Lanes hold the other dims first, then remaining bits; warps hold other dims only.
    """
    shape = layout.shape
    step = prod(shape[axis + 1 :])
    along = [step << bit for bit in range(log2(shape[axis]))]
    across = [1 << bit for bit in range(layout.out_bits) if 1 << bit not in along]
    lanes, warps = len(layout[LANE]), len(layout[WARP])

    def taken(count: int, *sources: list[int]) -> Iterator[int]:
        for _ in range(count):
            source = next((each for each in sources if each), None)
            yield source.pop(0) if source else 0

    own, rest = along[:_PER_THREAD], along[_PER_THREAD:]
    in_lanes = list(taken(lanes, across, rest))
    in_warps = list(taken(warps, across))
    bases = {REGISTER: [*own, *rest, *across], LANE: in_lanes, WARP: in_warps}
    others = {name: [0] * len(layout[name]) for name in HARDWARE if name not in bases and name in layout.dims}
    return LinearLayout.of({**bases, **others}, shape)


__all__ = ["Exchange", "Fold", "Move", "Spread", "Take", "plan_ordered_reduction", "plan_ordered_scan"]
