"""Reductions and scans in a fixed order: plans run on simulated threads, on expressions that show the order."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from joinery.lowering.linear_layouts.distributed import default_blocked, mma_accumulator, wgmma_accumulator
from joinery.lowering.linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from joinery.lowering.linear_layouts.plans.ordered import (
    Exchange,
    Fold,
    Move,
    Spread,
    Take,
    plan_ordered_reduction,
    plan_ordered_scan,
)

Place = tuple[int, int]


def places(layout: LinearLayout) -> list[Place]:
    return [(lane, warp) for lane in range(layout.size(LANE)) for warp in range(layout.size(WARP))]


def held(layout: LinearLayout, block: np.ndarray[Any, Any]) -> dict[Place, list[Any]]:
    """What every thread has of a block in a layout."""
    flat = block.reshape(-1)
    return {
        (lane, warp): [flat[layout.apply_flat(register=r, lane=lane, warp=warp)] for r in range(layout.size(REGISTER))]
        for lane, warp in places(layout)
    }


def gathered(layout: LinearLayout, values: dict[Place, list[Any]]) -> np.ndarray[Any, Any]:
    """The block that threads hold; all copies of an element must be equal."""
    found: dict[int, Any] = {}
    for (lane, warp), registers in values.items():
        assert len(registers) == layout.size(REGISTER)
        for register, value in enumerate(registers):
            at = layout.apply_flat(register=register, lane=lane, warp=warp)
            assert found.setdefault(at, value) == value, "copies differ"
    block = np.empty(len(found), object)
    for at, value in found.items():
        block[at] = value
    return block.reshape(layout.shape)


def run(steps: Any, values: dict[Place, list[Any]]) -> dict[Place, list[Any]]:
    for step in steps:
        before = values
        match step:
            case Take():
                values = {place: [own[r] for r in step.registers] for place, own in before.items()}
            case Move():
                values = held(step.destination, gathered(step.source, before))
            case Fold():
                values = {place: [(own[a], own[b]) for a, b in step.pairs] for place, own in before.items()}
            case Exchange():
                values = {}
                for (lane, warp), own in before.items():
                    other, is_left = before[lane ^ step.lane_mask, warp], not lane & step.lane_mask
                    values[lane, warp] = [(a, b) if is_left else (b, a) for a, b in zip(own, other, strict=True)]
            case Spread():
                values = {place: list(own) for place, own in before.items()}
                for (lane, warp), own in before.items():
                    if step.lane_bit and bool(lane & step.lane_bit) != step.value:
                        continue
                    source = before[(lane | step.lanes_on) & ~step.lanes_off, warp]
                    for register, taker in step.takers:
                        values[lane, warp][taker] = (source[register], own[taker])
    return values


def names(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    block = np.empty(shape, object)
    for index in np.ndindex(shape):
        block[index] = "x" + ".".join(map(str, index))
    return block


def paired(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    found = np.empty(left.shape, object)
    for index in np.ndindex(left.shape):
        found[index] = (left[index], right[index])
    return found


def tree(block: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    block = np.moveaxis(block, axis, 0)
    while len(block) > 1:
        block = paired(block[0::2], block[1::2])
    return block[0:1].reshape(block.shape[1:])


def equal(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    return x.shape == y.shape and all(x[index] == y[index] for index in np.ndindex(x.shape))


def prefixes(block: np.ndarray[Any, Any], axis: int, reverse: bool) -> np.ndarray[Any, Any]:
    """Halves first: the definition from above, by recursion."""

    def scanned(items: list[Any]) -> list[Any]:
        if len(items) == 1:
            return items
        left, right = scanned(items[: len(items) // 2]), scanned(items[len(items) // 2 :])
        if reverse:
            return [(right[0], each) for each in left] + right
        return left + [(left[-1], each) for each in right]

    found = np.empty_like(block)
    for index in np.ndindex(tuple(1 if d == axis else n for d, n in enumerate(block.shape))):
        line = tuple(slice(None) if d == axis else i for d, i in enumerate(index))
        for place, value in enumerate(scanned(list(block[line]))):
            found[(*index[:axis], place, *index[axis + 1 :])] = value
    return found


def random_layout(rng: random.Random, shape: tuple[int, ...], normal: bool) -> LinearLayout:
    bits = int(np.prod(shape)).bit_length() - 1
    counts = rng.choice([(2, 2, 1), (1, 3, 2), (4, 2, 0), (0, 3, 3), (3, 1, 2)])
    while True:
        pool = [1 << bit for bit in range(bits)] + [0] * max(0, sum(counts) - bits)
        rng.shuffle(pool)
        if not normal:
            pool = [rng.randrange(1 << bits) for _ in pool]
        _, lanes, warps = counts
        parts = {LANE: pool[:lanes], WARP: pool[lanes : lanes + warps], REGISTER: pool[lanes + warps :]}
        layout = LinearLayout.of(parts, shape)
        if layout.is_surjective:
            return layout


def layouts() -> list[LinearLayout]:
    rng = random.Random(5)
    shapes = [(8,), (4, 8), (16, 2), (2, 4, 4), (1, 16), (32, 1), (1,)]
    found = [random_layout(rng, shape, normal) for shape in shapes for normal in (True, False) for _ in range(6)]
    found += [default_blocked((64, 16), 4), mma_accumulator((32, 32), (2, 2)), wgmma_accumulator((64, 32), 32, (4, 1))]
    return found


@pytest.mark.one_in(9)
@pytest.mark.parametrize("layout", layouts(), ids=str)
def test_every_layout_has_one_order(layout: LinearLayout) -> None:
    for axis in range(len(layout.shape)):
        block = names(layout.shape)
        steps, result = plan_ordered_reduction(layout, axis)
        assert result.same_map(layout.slice(axis))
        found = run(steps, held(layout, block))
        assert equal(gathered(result, found), tree(block, axis))
        for reverse in (False, True):
            found = run(plan_ordered_scan(layout, axis, reverse), held(layout, block))
            assert equal(gathered(layout.unique_registers(), found), prefixes(block, axis, reverse))


def test_a_line_within_lanes_and_registers_does_not_move() -> None:
    inside = LinearLayout.of({REGISTER: [1, 64], LANE: [2, 4, 8, 16, 32], WARP: [128]}, (2, 128))
    assert not any(isinstance(step, Move) for step in plan_ordered_scan(inside, 1, False))
    assert [type(step) for step in plan_ordered_reduction(inside, 1)[0]] == [Take, Fold, *[Exchange] * 5, Fold]
