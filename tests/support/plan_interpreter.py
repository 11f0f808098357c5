"""Interprets plans on values held by simulated threads, and so defines what the data of a plan means.

Values are `values[warp][lane][register]`, of any type. Errors that hardware would not report raise `PlanFault`: two stores to
one address, a load where nothing was stored, an address that is not aligned to its vector, a value that is never delivered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from joinery.lowering.linear_layouts.conversion import Equal, Plan, RenamedRegisters
from joinery.lowering.linear_layouts.f2 import combine
from joinery.lowering.linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from joinery.lowering.linear_layouts.plans.exchange import SharedExchange
from joinery.lowering.linear_layouts.plans.gathering import SharedGather, WarpGather
from joinery.lowering.linear_layouts.plans.reduction import ReductionPlan
from joinery.lowering.linear_layouts.plans.scanning import (
    LanePrefixStep,
    LaneStep,
    ScanPlan,
    SharedStep,
    ThreadStep,
)
from joinery.lowering.linear_layouts.plans.shuffles import ShufflePlan

T = TypeVar("T")
Values = list[list[list[T]]]
Operator = Callable[[T, T], T]


class PlanFault(Exception):
    """A plan did something that no correct plan does."""


def distribute(layout: LinearLayout, block: Sequence[T]) -> Values[T]:
    """Distributes the values of a flattened block as the layout says."""
    return [
        [
            [block[layout.apply_flat(register=r, lane=lane, warp=w)] for r in range(layout.size(REGISTER))]
            for lane in range(layout.size(LANE))
        ]
        for w in range(layout.size(WARP))
    ]


def convert(plan: Plan, values: Values[T]) -> Values[T]:
    """Returns the values after a conversion."""
    match plan:
        case Equal():
            return values
        case RenamedRegisters():
            return [
                [
                    [own[plan.source(register, lane, warp)] for register in range(len(plan.sources))]
                    for lane, own in enumerate(lanes)
                ]
                for warp, lanes in enumerate(values)
            ]
        case ShufflePlan():
            return [_shuffle(plan, lanes, warp) for warp, lanes in enumerate(values)]
        case SharedExchange():
            return exchange(plan, values)


def _shuffle(plan: ShufflePlan, lanes: list[list[T]], warp: int) -> list[list[T]]:
    group = range(1 << plan.packed)
    results: list[dict[int, T]] = [{} for _ in lanes]
    for each in plan.rounds:
        offered = []
        for lane, own in enumerate(lanes):
            word = each.offered.at(lane, warp) << plan.packed
            offered.append([own[plan.source_registers[word | part]] for part in group])
        for lane in range(len(lanes)):
            read = each.source_lane.at(lane, warp)
            if each.kind == "none" and read != lane:
                raise PlanFault("a round without a shuffle reads another lane")
            if each.kind == "xor" and read ^ lane != each.source_lane.at(0, warp):
                raise PlanFault("an xor shuffle reads lanes at several distances")
            if all(condition.holds(0, lane, warp) for condition in each.keep):
                word = each.kept.at(lane, warp) << plan.packed
                results[lane].update({word | part: offered[read][part] for part in group})
    if any(set(own) != set(plan.destination_registers) for own in results):
        raise PlanFault("a lane did not get all values")
    return [[own[register] for register in plan.destination_registers] for own in results]


def exchange(plan: SharedExchange, values: Values[T]) -> Values[T]:
    """Exchanges values through shared memory: stores by the threads of the predicate, a barrier, loads."""
    found: list[list[dict[int, T]]] = [[{} for _ in lanes] for lanes in values]
    size = plan.bytes // (plan.layout.size("offset") * (len(values) if plan.is_warp_local else 1))
    for sources, results in plan.repetitions:
        memory: dict[int, T] = {}
        for warp, lanes in enumerate(values):
            for lane, own in enumerate(lanes):
                if not plan.store.predicate.holds(lane, warp):
                    continue
                for access in plan.store.accesses:
                    address = plan.store.address.at(lane, warp) ^ access.offset
                    _check(plan, address, size * len(access.registers))
                    for index, register in enumerate(access.registers):
                        if address + index * size in memory:
                            raise PlanFault(f"two stores to byte {address + index * size}")
                        memory[address + index * size] = own[register ^ sources]
        for warp, lanes in enumerate(values):
            for lane in range(len(lanes)):
                for access in plan.load.accesses:
                    address = plan.load.address.at(lane, warp) ^ access.offset
                    _check(plan, address, size * len(access.registers))
                    for index, value in enumerate(access.registers):
                        if address + index * size not in memory:
                            raise PlanFault(f"nobody stored byte {address + index * size}")
                        found[warp][lane][value ^ results] = memory[address + index * size]
    return [[[own[each] for each in plan.destination_registers] for own in lanes] for lanes in found]


def _check(plan: SharedExchange, address: int, size: int) -> None:
    if address % size or not 0 <= address <= plan.bytes - size:
        raise PlanFault(f"an access of {size} bytes at byte {address} of {plan.bytes}")


def reduce(plan: ReductionPlan, values: Values[T], operator: Operator[T]) -> Values[T]:
    """Returns the values of a reduction's result, in every copy."""
    found = [
        [[_tree([own[r] for r in group], operator) for group in plan.groups] for own in lanes]
        for lanes in values
    ]
    for each in plan.butterflies:
        found = [
            [
                [
                    operator(value, other)
                    if each.first.holds(register, lane, warp)
                    else operator(other, value)
                    for register, value in enumerate(own)
                    for other in [lanes[lane ^ each.lane_mask][register ^ each.register_mask]]
                ]
                for lane, own in enumerate(lanes)
            ]
            for warp, lanes in enumerate(found)
        ]
    if plan.exchange is None:
        return found
    partial, count = exchange(plan.exchange, found), plan.partials
    return [
        [[_tree(own[r : r + count], operator) for r in range(0, len(own), count)] for own in lanes]
        for lanes in partial
    ]


def _tree(values: list[T], operator: Operator[T]) -> T:
    while len(values) > 1:
        pairs = [operator(a, b) for a, b in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[len(pairs) * 2 :]
    return values[0]


def scan(plan: ScanPlan, values: Values[T], operator: Operator[T]) -> Values[T]:
    """Returns the values of an inclusive scan; the operator's first operand comes first along the scan."""
    if plan.before is not None:
        values = convert(plan.before, values)
    found = [[[own[register] for register in plan.source_registers] for own in lanes] for lanes in values]
    for step in plan.steps:
        match step:
            case ThreadStep(pairs):
                for own in (own for lanes in found for own in lanes):
                    for into, source in pairs:
                        own[into] = operator(own[source], own[into])
            case LaneStep():
                found = [_lane_step(step, lanes, warp, operator) for warp, lanes in enumerate(found)]
            case LanePrefixStep():
                found = [_lane_prefix(step, lanes, operator) for lanes in found]
            case SharedStep():
                found = _shared_step(step, found, operator)
    result = [
        [[own[register] for register in plan.destination_registers] for own in lanes] for lanes in found
    ]
    return result if plan.after is None else convert(plan.after, result)


def _lane_step(step: LaneStep, lanes: list[list[T]], warp: int, operator: Operator[T]) -> list[list[T]]:
    result = [list(own) for own in lanes]
    for lane, own in enumerate(result):
        if step.active.holds(lane, warp):
            for source, takers in step.moves:
                for register in takers:
                    own[register] = operator(
                        lanes[step.source_lane.at(lane, warp)][source], lanes[lane][register]
                    )
    return result


def _lane_prefix(step: LanePrefixStep, lanes: list[list[T]], operator: Operator[T]) -> list[list[T]]:
    result = [list(own) for own in lanes]
    towards = 1 if step.reverse else -1
    for chain in step.chains:
        totals = [own[chain[-1]] for own in lanes]
        for bit in range(step.bits):
            distance = towards << step.first_bit + bit
            totals = [
                operator(totals[lane + distance], total) if step.index(lane) >> bit else total
                for lane, total in enumerate(totals)
            ]
        for lane, own in enumerate(result):
            own[chain[-1]] = totals[lane]
            if step.index(lane):
                before = totals[lane + (towards << step.first_bit)]
                for register in chain[:-1]:
                    own[register] = operator(before, own[register])
    return result


def _shared_step(step: SharedStep, values: Values[T], operator: Operator[T]) -> Values[T]:
    memory: dict[int, T] = {}
    for warp, lanes in enumerate(values):
        for lane, own in enumerate(lanes):
            for register, constant in step.stores if step.writers.holds(lane, warp) else ():
                address = step.address.at(lane, warp) ^ constant
                if address in memory or not 0 <= address < step.bytes or address % step.element_bytes:
                    raise PlanFault(f"a bad or second store at byte {address}")
                memory[address] = own[register]
    order = range(step.count - 1, -1, -1) if step.reverse else range(step.count)
    result = [[list(own) for own in lanes] for lanes in values]
    for warp, lanes in enumerate(result):
        for lane, own in enumerate(lanes):
            start = step.address.at(lane, warp) & ~step.index_mask
            for register, base in enumerate(step.bases):
                index = step.index.at(lane, warp) ^ step.indices[register]
                before = [memory[(start ^ base) + c * step.element_bytes] for c in order]
                for value in reversed(before[: order.index(index)]):
                    own[register] = operator(value, own[register])
    return result


def gather(plan: WarpGather | SharedGather, values: Values[T], indices: Values[int]) -> Values[T]:
    """Returns the gathered values in the layout of the indices."""
    if isinstance(plan, SharedGather):
        return _shared_gather(plan, values, indices)
    result = []
    for warp, lanes in enumerate(indices):
        found: list[list[T]] = []
        for lane, own in enumerate(lanes):
            kept: dict[int, T] = {}
            for register, index in enumerate(own):
                wanted, read = _source_coordinate(plan, register, lane, warp, index)
                for candidate in plan.candidates:
                    offered = plan.registers[register] ^ candidate ^ plan.register_of.at(0, warp)
                    if offered == wanted:
                        kept[register] = values[warp][read][offered]
            if len(kept) != len(own):
                raise PlanFault("no candidate register holds a value that is wanted")
            found.append([kept[register] for register in range(len(own))])
        result.append(found)
    return result


def _source_coordinate(plan: WarpGather, register: int, lane: int, warp: int, index: int) -> tuple[int, int]:
    """Returns (register, lane) of the value that the reader at (register, lane, warp) wants for this index."""
    moved = combine(plan.index_registers, index), combine(plan.index_lanes, index)
    return (
        plan.registers[register] ^ plan.register_of.at(lane, warp) ^ moved[0],
        plan.lanes[register] ^ plan.lane_of.at(lane, warp) ^ moved[1],
    )


def _shared_gather(plan: SharedGather, values: Values[T], indices: Values[int]) -> Values[T]:
    memory: dict[int, T] = {}
    for warp, lanes in enumerate(values):
        for lane, own in enumerate(lanes):
            for access in plan.store.accesses if plan.store.predicate.holds(lane, warp) else ():
                address = plan.store.address.at(lane, warp) ^ access.offset
                if address % (plan.stride * len(access.registers)):
                    raise PlanFault(f"a store that is not aligned at byte {address}")
                for part, register in enumerate(access.registers):
                    if address + part * plan.stride in memory:
                        raise PlanFault(f"two stores to byte {address + part * plan.stride}")
                    memory[address + part * plan.stride] = own[register]
    return [
        [
            [
                memory[(plan.address.at(lane, warp) ^ plan.bases[r]) + i * plan.stride]
                for r, i in enumerate(own)
            ]
            for lane, own in enumerate(lanes)
        ]
        for warp, lanes in enumerate(indices)
    ]
