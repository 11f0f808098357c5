"""Runs plans on values held by simulated threads: the definition of what the data of a plan means.

Values are `values[warp][lane][register]`, of any type. What hardware would get wrong raises: two stores to one address, a load
of what nobody stored, an address that is not aligned to its vector, a value that is never delivered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .conversion import Equal, Plan, RenamedRegisters
from .exchange import SharedExchange
from .layout import LANE, REGISTER, WARP, LinearLayout
from .shuffles import ShufflePlan

T = TypeVar("T")
Values = list[list[list[T]]]


class PlanFault(Exception):
    """A plan did what no correct plan does."""


def distribute(layout: LinearLayout, block: Sequence[T]) -> Values[T]:
    """The values of a flattened block where the layout wants them."""
    return [
        [
            [block[layout.apply_flat(register=r, lane=lane, warp=w)] for r in range(layout.size(REGISTER))]
            for lane in range(layout.size(LANE))
        ]
        for w in range(layout.size(WARP))
    ]


def convert(plan: Plan, values: Values[T]) -> Values[T]:
    """The values after a conversion."""
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
    """Through shared memory: stores by elected threads, a barrier, loads."""
    found: list[list[dict[int, T]]] = [[{} for _ in lanes] for lanes in values]
    size = plan.bytes // (plan.layout.size("offset") * (len(values) if plan.is_warp_local else 1))
    for sources, results in plan.repetitions:
        memory: dict[int, T] = {}
        for warp, lanes in enumerate(values):
            for lane, own in enumerate(lanes):
                if not plan.store.elected.holds(lane, warp):
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
