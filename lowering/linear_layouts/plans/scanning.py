"""Plans scans along one axis, as data; the operator need not be commutative.

An axis coordinate bit sits in one bit of the hardware. Sklansky's scheme takes the bits from low to high: an element with bit k
set takes in the last element of the lower half, whose bit k is clear and whose lower bits are all set. That is right for every
assignment of bits. Where the low bits are registers and the next ones consecutive lanes, threads scan their own elements first
and lanes only their totals. A reverse scan is the same with the coordinate complemented.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError
from ..conversion import Plan, plan_conversion
from ..coordinates import axis_mask
from ..distributed import default_blocked
from ..f2 import log2
from ..layout import LANE, REGISTER, WARP, LinearLayout
from ..linear import ThreadMap, expand_unique, table, to_unique

_INNER = (REGISTER, LANE, WARP)


@dataclass(frozen=True, slots=True)
class Threads:
    """The threads whose lane and warp have these values under these masks."""

    lane_mask: int = 0
    lane_value: int = 0
    warp_mask: int = 0
    warp_value: int = 0

    def holds(self, lane: int, warp: int) -> bool:
        return lane & self.lane_mask == self.lane_value and warp & self.warp_mask == self.warp_value


@dataclass(frozen=True, slots=True)
class ThreadStep:
    """A step inside a thread: register `into` becomes f(register `source`, itself), for (source, into) in `pairs`."""

    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class LaneStep:
    """A step of shuffles (shfl.idx) from lane `source_lane`, one per entry (source register, registers that combine it).

    All registers are read before any is written; only threads in `active` write.
    """

    source_lane: ThreadMap
    active: Threads
    moves: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class LanePrefixStep:
    """Lanes scan the totals of their chains by shfl.up (reverse: shfl.down), then combine the prefix with the others.

    The index of a lane is the number in its `bits` bits from bit `first_bit` on, complemented when reverse. For i below `bits`:
    a lane of index 2^i or more takes in the total of the lane 2^i below. Then a lane of index 1 or more puts the total of the
    lane before it into the chain's other registers. `chains`: registers in order along the scan, the last holds the total.
    """

    first_bit: int
    bits: int
    reverse: bool
    chains: tuple[tuple[int, ...], ...]

    def index(self, lane: int) -> int:
        mask = (1 << self.bits) - 1
        return (~lane if self.reverse else lane) >> self.first_bit & mask


@dataclass(frozen=True, slots=True)
class SharedStep:
    """A step through shared memory, with `count` totals for each sequence, in the order of the axis.

    Threads in `writers` store register r at (`address` ^ c) for each (r, c) of `stores`. After a barrier, register r takes in
    totals, of `element_bytes` each, that lie at the byte address (`address` with its `index_mask` bits cleared) ^ `bases[r]`:
    those before the own index, `index` ^ `indices[r]` (after it when reverse), the nearest last.
    """

    element_bytes: int
    bytes: int
    count: int
    reverse: bool
    address: ThreadMap
    index_mask: int
    index: ThreadMap
    writers: Threads
    stores: tuple[tuple[int, int], ...]
    bases: tuple[int, ...]
    indices: tuple[int, ...]


Step = ThreadStep | LaneStep | LanePrefixStep | SharedStep


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The steps of a scan over the values of `working`, which has unique registers.

    `before` and `after` convert to and from it when the layout itself cannot be scanned; otherwise `source_registers` and
    `destination_registers` say which registers its values are, and which value each register of the result is.
    """

    working: LinearLayout
    steps: tuple[Step, ...]
    source_registers: tuple[int, ...]
    destination_registers: tuple[int, ...]
    before: Plan | None = None
    after: Plan | None = None


@lru_cache(maxsize=1024)
def plan_scan(layout: LinearLayout, axis: int, element_bits: int, *, reverse: bool = False) -> ScanPlan:
    """Plans an inclusive scan along `axis`; the result has the layout of the source.

    ValueError when the layout does not hold every element, UnsupportedError for a scan over the blocks of a cluster.
    """
    layout.slice(axis)  # rejects a wrong axis
    axis %= len(layout.shape)
    if not layout.is_surjective:
        raise ValueError("the layout of a block must hold every element")
    own = layout.unique_registers()
    mask = axis_mask(layout.shape, axis)
    if any(basis & mask for basis in own["block"]):
        raise UnsupportedError("a scan over the blocks of a cluster is not supported")
    size = max(8, element_bits) // 8
    if own.is_normal_form:
        return ScanPlan(own, _steps(own, axis, size, reverse), expand_unique(layout), to_unique(layout))
    if own["block"]:
        raise UnsupportedError(
            "a scan of a layout over a cluster needs each coordinate bit in one hardware bit"
        )
    order = (axis, *(i for i in reversed(range(len(layout.shape))) if i != axis))
    working = default_blocked(
        layout.shape, layout.size(WARP), element_bits, order=order, lanes=layout.size(LANE)
    ).unique_registers()
    every = table([1 << bit for bit in range(len(working[REGISTER]))])
    before, after = (
        plan_conversion(layout, working, element_bits),
        plan_conversion(working, layout, element_bits),
    )
    return ScanPlan(working, _steps(working, axis, size, reverse), every, every, before, after)


def _steps(own: LinearLayout, axis: int, size: int, reverse: bool) -> tuple[Step, ...]:
    shift = log2(axis_mask(own.shape, axis) & -axis_mask(own.shape, axis)) if own.shape[axis] > 1 else 0
    home = {own[name][bit]: (name, bit) for name, bit in own.input_bits(_INNER) if own[name][bit]}
    input_bits = [home[1 << shift + k] for k in range(log2(own.shape[axis]))]
    steps: list[Step] = []
    done = 0
    inside = _run(input_bits, 0, REGISTER)
    lanes = _consecutive_lanes(input_bits, inside)
    if inside:
        chains = _chains(own, input_bits[:inside], reverse)
        steps.append(ThreadStep(tuple((b, a) for chain in chains for a, b in pairwise(chain))))
        done = inside
    if lanes:
        chains = _chains(own, input_bits[:inside], reverse)
        steps.append(LanePrefixStep(input_bits[inside][1], lanes, reverse, chains))
        done = inside + lanes
    while done < len(input_bits):
        if any(name == WARP for name, _ in input_bits[: done + 1]):
            count = _run(input_bits, done, input_bits[done][0])
            steps.append(_shared_step(own, input_bits, shift, (done, count), size, reverse))
            done += count
        else:
            steps.append(_lane_step(own, input_bits, done, reverse))
            done += 1
    return tuple(steps)


def _run(input_bits: list[tuple[str, int]], start: int, name: str) -> int:
    count = 0
    while start + count < len(input_bits) and input_bits[start + count][0] == name:
        count += 1
    return count


def _consecutive_lanes(input_bits: list[tuple[str, int]], start: int) -> int:
    count = 0
    while start + count < len(input_bits) and input_bits[start + count] == (LANE, input_bits[start][1] + count):
        count += 1
    return count


def _chains(own: LinearLayout, input_bits: list[tuple[str, int]], reverse: bool) -> tuple[tuple[int, ...], ...]:
    """Returns the registers that differ in these axis bits only, in order along the scan."""
    along = [1 << bit for _, bit in input_bits]
    rest = [1 << bit for bit in range(len(own[REGISTER])) if 1 << bit not in along]
    chains = (table(along, start) for start in table(rest))
    return tuple(tuple(reversed(chain)) if reverse else chain for chain in chains)


def _set_bits(input_bits: list[tuple[str, int]], name: str) -> int:
    return sum(1 << bit for where, bit in input_bits if where == name)


def _lane_step(own: LinearLayout, input_bits: list[tuple[str, int]], k: int, reverse: bool) -> LaneStep:
    """Plans the step of bit k of the position along the axis.

    An element that has it set (reverse: clear) reads the last one of the other half along the scan.
    """
    below, name, bit = input_bits[:k], *input_bits[k]
    lane_low, register_low = _set_bits(below, LANE), _set_bits(below, REGISTER)
    lane_k = 1 << bit if name == LANE else 0
    register_k = 1 << bit if name == REGISTER else 0
    source = tuple(0 if (1 << i) & (lane_low | lane_k) else 1 << i for i in range(len(own[LANE])))
    constant = lane_k if reverse else lane_low
    takers: dict[int, list[int]] = {}
    for register in range(own.size(REGISTER)):
        if register_k and bool(register & register_k) == reverse:
            continue
        start = register & ~(register_low | register_k) | (register_k if reverse else register_low)
        takers.setdefault(start, []).append(register)
    return LaneStep(
        ThreadMap(constant, source, (0,) * len(own[WARP])),
        Threads(lane_k, 0 if reverse else lane_k),
        tuple((source, tuple(into)) for source, into in takers.items()),
    )


def _shared_step(
    own: LinearLayout,
    input_bits: list[tuple[str, int]],
    shift: int,
    run: tuple[int, int],
    size: int,
    reverse: bool,
) -> SharedStep:
    """Plans the scan of totals over the bits below a run: the run's bits number them, all others say which sequence."""
    first, count = run
    low = [1 << shift + k for k in range(first)]
    numbered = [1 << shift + k for k in range(first, first + count)]
    others = [unit for unit in sorted(own.columns(_INNER)) if unit and unit not in (*low, *numbered)]
    slot = {unit: size << index for index, unit in enumerate([*numbered, *others])}

    def address(basis: int) -> int:
        return slot.get(basis, 0)

    index_mask = size * ((1 << count) - 1)
    free, below = own.free_masks(_INNER), input_bits[:first]
    lane_low, warp_low, register_low = (_set_bits(below, name) for name in (LANE, WARP, REGISTER))
    per_register = table([address(each) for each in own[REGISTER]])
    lanes, warps = tuple(address(each) for each in own[LANE]), tuple(address(each) for each in own[WARP])
    wanted = 0 if reverse else register_low
    return SharedStep(
        size,
        size << len(slot),
        1 << count,
        reverse,
        ThreadMap(0, lanes, warps),
        index_mask,
        ThreadMap(
            0,
            tuple((each & index_mask) // size for each in lanes),
            tuple((each & index_mask) // size for each in warps),
        ),
        Threads(
            lane_low | free[LANE],
            0 if reverse else lane_low,
            warp_low | free[WARP],
            0 if reverse else warp_low,
        ),
        tuple((r, position) for r, position in enumerate(per_register) if r & register_low == wanted),
        tuple(position & ~index_mask for position in per_register),
        tuple((position & index_mask) // size for position in per_register),
    )
