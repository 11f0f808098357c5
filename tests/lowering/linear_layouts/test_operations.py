"""Reductions, scans and gathers: plans run on simulated threads with operators that notice every mistake."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from joinery.lowering.linear_layouts.distributed import (
    blocked,
    default_blocked,
    mma_accumulator,
    wgmma_accumulator,
)
from joinery.lowering.linear_layouts.layout import LinearLayout
from joinery.lowering.linear_layouts.linear import Condition
from joinery.lowering.linear_layouts.plans.gathering import SharedGather, WarpGather, plan_gather
from joinery.lowering.linear_layouts.plans.reduction import plan_reduction
from joinery.lowering.linear_layouts.plans.scanning import (
    LanePrefixStep,
    LaneStep,
    SharedStep,
    ThreadStep,
    plan_scan,
)
from joinery.promotion.errors import UnsupportedError

from ...support.plan_interpreter import PlanFault, Values, distribute, gather, reduce, scan


def random_layout(
    rng: random.Random, shape: tuple[int, ...], counts: tuple[int, int, int], *, normal: bool
) -> LinearLayout:
    bits, total = int(np.prod(shape)).bit_length() - 1, sum(counts)
    while True:
        pool = [1 << bit for bit in range(bits)] + [0] * (total - bits)
        rng.shuffle(pool)
        if not normal:
            pool = [rng.randrange(1 << bits) for _ in range(total)]
        r, lanes, _ = counts
        parts = {"register": pool[:r], "lane": pool[r : r + lanes], "warp": pool[r + lanes :]}
        layout = LinearLayout.of(parts, shape)
        if layout.is_surjective:
            return layout


COPIES = [
    LinearLayout.of({"register": [1, 1, 0], "lane": [2, 2, 0], "warp": [4, 8, 4]}, (4, 4)),
    LinearLayout.of({"register": [3, 3], "lane": [1, 4, 5], "warp": [8, 1]}, (2, 8)),
    LinearLayout.of({"register": [], "lane": [1, 2, 4], "warp": []}, (2, 2, 2)),
    LinearLayout.of({"register": [8, 4], "lane": [0, 0, 0], "warp": [1, 2]}, (1, 16, 1)),
    LinearLayout.of({"lane": [0] * 5}, (1,)),
]


def disjoint_union(first: frozenset[int], second: frozenset[int]) -> frozenset[int]:
    assert not first & second, "an element is counted twice"
    return first | second


def check_reduction(layout: LinearLayout, axis: int) -> None:
    """Every copy of every result has every contribution once."""
    plan = plan_reduction(layout, axis, 32)
    assert plan.result.same_map(layout.slice(axis))
    elements = [frozenset([i]) for i in range(1 << layout.out_bits)]
    numbers = np.arange(1 << layout.out_bits).reshape(layout.shape)
    rows = np.moveaxis(numbers, axis, -1).reshape(-1, layout.shape[axis])
    want = distribute(plan.result, [frozenset(map(int, row)) for row in rows])
    assert reduce(plan, distribute(layout, elements), disjoint_union) == want

    if not layout.is_normal_form:
        return
    # An operator that is neither commutative nor associative: copies agree to the bit all the same.
    mixed = reduce(
        plan, distribute(layout, [str(i) for i in range(len(elements))]), lambda a, b: f"({a} {b})"
    )
    seen: dict[int, str] = {}
    for warp, lane, r in itertools.product(range(len(mixed)), range(len(mixed[0])), range(len(mixed[0][0]))):
        element = plan.result.apply_flat(register=r, lane=lane, warp=warp)
        assert seen.setdefault(element, mixed[warp][lane][r]) == mixed[warp][lane][r]


@pytest.mark.parametrize("seed", range(60))
def test_reductions_of_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    counts = (rng.randint(1, 3), rng.randint(2, 3), rng.randint(0, 2))
    bits = rng.randint(3, min(6, sum(counts)))
    first = rng.randint(0, bits)
    second = rng.randint(0, bits - first)
    shape = (1 << first, 1 << second, 1 << bits - first - second)
    layout = random_layout(rng, shape, counts, normal=seed % 2 == 0)
    for axis in range(3):
        check_reduction(layout, axis)


@pytest.mark.parametrize("layout", COPIES)
def test_reductions_where_copies_look_like_elements(layout: LinearLayout) -> None:
    for axis in range(len(layout.shape)):
        check_reduction(layout, axis)


def normal_forms(most: int) -> Iterator[LinearLayout]:
    """Every surjective layout in normal form with so many input bits, at any split into registers, lanes and warps."""
    for total in range(1, most + 1):
        for bits in range(1, total + 1):
            pools = sorted(set(itertools.permutations([1 << b for b in range(bits)] + [0] * (total - bits))))
            for r, warps in itertools.product(range(total + 1), repeat=2):
                if r + warps <= total:
                    for pool in pools:
                        lanes = pool[r : total - warps]
                        parts = {"register": pool[:r], "lane": lanes, "warp": pool[total - warps :]}
                        yield LinearLayout.of(parts, (1 << bits - 1, 2))


@pytest.mark.slow
def test_all_reductions_of_small_normal_forms() -> None:
    for layout in normal_forms(4):
        check_reduction(layout, 0)
        check_reduction(layout, 1)


def test_reductions_of_kernels() -> None:
    rows = default_blocked((16, 256), 4, 32)
    plan = plan_reduction(rows, 1, 32)
    assert [each.lane_mask for each in plan.butterflies] == [1, 2, 4, 8, 16]
    assert plan.is_of_whole_warp()
    check_reduction(rows, 1)
    whole = default_blocked((1024,), 4, 32)
    plan = plan_reduction(whole, 0, 32)
    assert plan.partials == 4
    assert plan.exchange is not None
    assert len(plan.groups) == 1
    assert len(plan.exchange.load.accesses) == 1  # the four partials are one vector
    assert plan.exchange.store.predicate.lane == 31
    check_reduction(whole, 0)
    c = mma_accumulator((32, 32), (2, 2))
    plan = plan_reduction(c, 1, 32)
    assert [each.lane_mask for each in plan.butterflies] == [1, 2]
    assert not plan.is_of_whole_warp()
    assert plan.partials == 2
    for layout in (c, wgmma_accumulator((64, 16), 16), blocked((8, 8), (2, 2), (2, 16), (2, 2), (0, 1))):
        check_reduction(layout, 0)
        check_reduction(layout, 1)


def test_groups_follow_the_axis() -> None:
    layout = LinearLayout.of({"register": [4, 16, 2, 1], "lane": [8]}, (4, 8))
    assert plan_reduction(layout, 1, 32).groups == (
        (0, 8, 4, 12, 1, 9, 5, 13),
        (2, 10, 6, 14, 3, 11, 7, 15),
    )


def test_blocks_of_a_cluster_reduce_and_scan_what_is_theirs() -> None:
    layout = LinearLayout.of({"register": [1], "lane": [2, 8], "warp": [4], "block": [16]}, (4, 8))
    plan = plan_reduction(layout, 1, 32)
    values = distribute(layout, [frozenset([i]) for i in range(32)])  # of the first block
    rows = [frozenset(range(8 * row, 8 * row + 8)) for row in range(4)]
    assert reduce(plan, values, disjoint_union) == distribute(plan.result, rows)
    assert plan.exchange is not None
    assert plan.exchange.bytes == 4 * 4  # two rows of two partials
    step = plan_scan(layout, 1, 32).steps[-1]
    assert isinstance(step, SharedStep)
    assert step.bytes == 4 * 4
    check_scan(layout, 1, False, random.Random(6))


def test_a_wrong_reduction_is_noticed() -> None:
    layout = mma_accumulator((16, 16), (1, 2))
    plan = plan_reduction(layout, 1, 32)
    elements = distribute(layout, [frozenset([i]) for i in range(256)])
    for mask in (0, 1, 4):
        wrong = replace(plan.butterflies[1], lane_mask=mask)
        bad = replace(plan, butterflies=(plan.butterflies[0], wrong))
        with pytest.raises((AssertionError, PlanFault)):
            assert reduce(bad, elements, disjoint_union) == reduce(plan, elements, disjoint_union)
    order = replace(
        plan, butterflies=tuple(replace(b, first=Condition(0, lane=16)) for b in plan.butterflies)
    )
    assert reduce(order, elements, disjoint_union) == reduce(plan, elements, disjoint_union)


# ---------------------------------------------------------------- scans

Affine = tuple[int, int]


def after(first: Affine, second: Affine) -> Affine:
    """Composition of affine maps: associative, not commutative."""
    return second[0] * first[0] % 97, (second[0] * first[1] + second[1]) % 97


def check_scan(layout: LinearLayout, axis: int, reverse: bool, rng: random.Random) -> None:
    block = [(rng.randrange(1, 97), rng.randrange(97)) for _ in range(1 << layout.out_bits)]
    want: list[Affine] = list(block)
    numbers = np.moveaxis(np.arange(len(block)).reshape(layout.shape), axis, -1).reshape(
        -1, layout.shape[axis]
    )
    for row in numbers:
        ordered = [int(i) for i in (row[::-1] if reverse else row)]
        for before, own in itertools.pairwise(ordered):
            want[own] = after(want[before], want[own])
    plan = plan_scan(layout, axis, 32, reverse=reverse)
    assert scan(plan, distribute(layout, block), after) == distribute(layout, want)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(60))
def test_scans_of_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    counts = (rng.randint(1, 3), rng.randint(2, 3), rng.randint(0, 2))
    bits = rng.randint(3, min(6, sum(counts)))
    first = rng.randint(0, bits)
    layout = random_layout(rng, (1 << first, 1 << bits - first), counts, normal=seed % 3 > 0)
    for axis, reverse in itertools.product(range(2), (False, True)):
        check_scan(layout, axis, reverse, rng)


@pytest.mark.parametrize("layout", COPIES)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_where_copies_look_like_elements(layout: LinearLayout, reverse: bool) -> None:
    for axis in range(len(layout.shape)):
        check_scan(layout, axis, reverse, random.Random(1))


@pytest.mark.slow
def test_all_scans_of_small_normal_forms() -> None:
    rng = random.Random(2)
    for layout in normal_forms(4):
        check_scan(layout.reshape((1 << layout.out_bits,)), 0, rng.random() < 0.5, rng)
        check_scan(layout, 0, rng.random() < 0.5, rng)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_of_kernels(reverse: bool) -> None:
    rng = random.Random(3)
    row = default_blocked((2048,), 4, 32)
    plan = plan_scan(row, 0, 32, reverse=reverse)
    assert [type(each) for each in plan.steps] == [ThreadStep, LanePrefixStep, SharedStep, SharedStep]
    check_scan(row, 0, reverse, rng)
    tall = default_blocked((64, 64), 2, 32)
    plan = plan_scan(tall, 1, 32, reverse=reverse)
    assert [type(each) for each in plan.steps] == [ThreadStep, LanePrefixStep]
    check_scan(tall, 1, reverse, rng)
    check_scan(tall, 0, reverse, rng)
    c = mma_accumulator((16, 32), (1, 2))
    plan = plan_scan(c, 1, 32, reverse=reverse)
    assert any(isinstance(each, SharedStep) for each in plan.steps)
    for axis in range(2):
        check_scan(c, axis, reverse, rng)
    repeated = blocked((64,), (2,), (4,), (1,), (0,))
    plan = plan_scan(repeated, 0, 32, reverse=reverse)
    assert [type(each) for each in plan.steps] == [ThreadStep, LanePrefixStep, LaneStep, LaneStep, LaneStep]
    check_scan(repeated, 0, reverse, rng)


def test_a_wrong_scan_is_noticed() -> None:
    layout = LinearLayout.of({"register": [4], "lane": [2, 1], "warp": [8]}, (16,))
    plan = plan_scan(layout, 0, 32)
    values = distribute(layout, [(3 + i, i) for i in range(16)])
    good = scan(plan, values, after)
    for i in range(len(plan.steps)):
        shorter = replace(plan, steps=plan.steps[:i] + plan.steps[i + 1 :])
        assert scan(shorter, values, after) != good
    swapped = scan(plan, values, lambda a, b: after(b, a))
    assert swapped != good


# ---------------------------------------------------------------- gathers


def check_gather(source: LinearLayout, index: LinearLayout, axis: int, rng: random.Random) -> Any:
    data = np.arange(1 << source.out_bits).reshape(source.shape)
    chosen = np.array([rng.randrange(source.shape[axis]) for _ in range(1 << index.out_bits)]).reshape(
        index.shape
    )
    want = np.take_along_axis(data, chosen, axis)
    plan = plan_gather(source, index, axis, 32)
    indices: Values[int] = distribute(index, [int(i) for i in chosen.ravel()])
    found = gather(plan, distribute(source, [int(i) for i in data.ravel()]), indices)
    assert found == distribute(index, [int(i) for i in want.ravel()])
    return plan


@pytest.mark.parametrize("seed", range(60))
def test_gathers_of_random_layouts(seed: int) -> None:
    rng = random.Random(seed)
    counts = (rng.randint(1, 3), rng.randint(2, 3), rng.randint(0, 1))
    bits = rng.randint(2, sum(counts))
    first = rng.randint(0, bits)
    source = random_layout(rng, (1 << first, 1 << bits - first), counts, normal=seed % 2 == 0)
    axis = rng.randrange(2)
    shape = list(source.shape)
    shape[axis] = 1 << rng.randint(0, sum(counts) - (bits - first if axis == 0 else first))
    index = random_layout(rng, (shape[0], shape[1]), counts, normal=seed % 2 == 0)
    check_gather(source, index, axis, rng)


def test_gathers_inside_warps_and_between_them() -> None:
    rng = random.Random(4)
    rows = default_blocked((16, 64), 4, 32)
    plan = check_gather(rows, rows, 1, rng)
    assert isinstance(plan, WarpGather)
    assert len(plan.candidates) == 4
    assert isinstance(
        check_gather(rows, default_blocked((16, 128), 4, 32), 1, rng), WarpGather | SharedGather
    )
    assert isinstance(check_gather(rows, rows, 0, rng), SharedGather)
    turned = LinearLayout.of({"register": [4], "lane": [1, 2]}, (2, 4))
    plan = check_gather(turned, LinearLayout.of({"register": [1], "lane": [4, 2]}, (2, 4)), 1, rng)
    assert isinstance(plan, WarpGather)
    assert plan.candidates == (0, 1)
    long = blocked((8, 256), (1, 1), (1, 32), (4, 1), (1, 0))
    assert isinstance(check_gather(long, long, 1, rng), SharedGather)  # eight registers to choose from
    narrow = blocked((8, 32), (1, 1), (1, 32), (4, 1), (1, 0))
    plan = check_gather(narrow, narrow, 1, rng)
    assert isinstance(plan, WarpGather)
    assert plan.candidates == (0,)
    for source, index in itertools.permutations(
        [COPIES[0], LinearLayout.of(dict(COPIES[0].bases), (4, 4))], 2
    ):
        check_gather(source, index, 1, rng)


def test_a_wrong_gather_is_noticed() -> None:
    layout = default_blocked((16, 64), 4, 32)
    plan = plan_gather(layout, layout, 1, 32)
    assert isinstance(plan, WarpGather)
    with pytest.raises(PlanFault, match="no candidate"):
        gather(
            replace(plan, candidates=plan.candidates[:2]),
            distribute(layout, range(1024)),
            distribute(layout, [63] * 1024),
        )


# ---------------------------------------------------------------- misuse

CLUSTER = LinearLayout.of({"register": [1], "lane": [2], "block": [4]}, (8,))
PART = LinearLayout.of({"lane": [1]}, (4,))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: plan_reduction(CLUSTER, 0, 32), UnsupportedError, "cluster"),
        (lambda: plan_scan(CLUSTER, 0, 32), UnsupportedError, "cluster"),
        (lambda: plan_reduction(PART, 0, 32), ValueError, "every element"),
        (lambda: plan_scan(PART, 0, 32), ValueError, "every element"),
        (lambda: plan_gather(PART, PART, 0, 32), ValueError, "every element"),
        (lambda: plan_reduction(CLUSTER, 1, 32), ValueError, "axis 1"),
        (lambda: plan_scan(CLUSTER, -2, 32), ValueError, "axis -2"),
        (lambda: plan_gather(CLUSTER, CLUSTER.reshape((4, 2)), 0, 32), ValueError, "differ outside"),
        (lambda: plan_gather(COPIES[0], COPIES[1], 0, 32), ValueError, "differ outside"),
    ],
)
def test_misuse_is_named(make, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
