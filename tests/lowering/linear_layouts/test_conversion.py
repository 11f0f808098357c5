"""Conversions: plans run on simulated threads, the level test against brute force, bank conflicts against simulated banks."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest
from joinery.lowering.linear_layouts.conversion import (
    Equal,
    Plan,
    RenamedRegisters,
    cost,
    is_warp_local,
    plan_conversion,
)
from joinery.lowering.linear_layouts.distributed import (
    blocked,
    default_blocked,
    dot_operand,
    mma_accumulator,
    wgmma_accumulator,
    wgmma_operand_a,
)
from joinery.lowering.linear_layouts.f2 import intersect
from joinery.lowering.linear_layouts.layout import LinearLayout
from joinery.lowering.linear_layouts.levels import find_moves
from joinery.lowering.linear_layouts.plans.exchange import (
    Accesses,
    SharedExchange,
    choose_shared,
    plan_exchange,
    plan_warp_exchange,
)
from joinery.lowering.linear_layouts.plans.shuffles import ShufflePlan, plan_shuffles
from joinery.promotion.errors import UnsupportedError

from ...support.plan_interpreter import PlanFault, convert, distribute

LEVELS = ("register", "lane", "warp")


def pool_layout(pool: list[int], counts: tuple[int, int, int], bits: int) -> LinearLayout:
    r, lanes, warps = counts
    parts = {"register": pool[:r], "lane": pool[r : r + lanes], "warp": pool[r + lanes : r + lanes + warps]}
    return LinearLayout.of(parts, (1 << bits,))


def random_layout(
    rng: random.Random, bits: int, counts: tuple[int, int, int], *, normal: bool
) -> LinearLayout:
    total = sum(counts)
    while True:
        pool = [1 << bit for bit in range(bits)] + [0] * (total - bits)
        rng.shuffle(pool)
        if not normal:
            pool = [rng.randrange(1 << bits) for _ in range(total)]
        layout = pool_layout(pool, counts, bits)
        if layout.is_surjective:
            return layout


def check(plan: Plan, src: LinearLayout, dst: LinearLayout) -> None:
    block = list(range(1 << src.out_bits))
    assert convert(plan, distribute(src, block)) == distribute(dst, block)


def brute_level(src: LinearLayout, dst: LinearLayout) -> int:
    """How far the farthest destination place is from the nearest copy of its element."""
    holders: dict[int, list[tuple[int, int]]] = {}
    for r, lane, warp in itertools.product(*(range(src.size(n)) for n in LEVELS)):
        holders.setdefault(src.apply_flat(register=r, lane=lane, warp=warp), []).append((lane, warp))
    worst = 0
    for r, lane, warp in itertools.product(*(range(dst.size(n)) for n in LEVELS)):
        near = holders[dst.apply_flat(register=r, lane=lane, warp=warp)]
        worst = max(worst, 0 if (lane, warp) in near else 1 if any(w == warp for _, w in near) else 2)
    return worst


def simulated_conflicts(accesses: Accesses, size: int, lanes: int) -> int:
    """Banks of the hardware model: 32 of 4 bytes; 128 bytes are served at a time; lanes that want one word share it."""
    width = size * accesses.elements
    together = max(1, 32 // max(1, width // 4))
    worst = 1
    for access in accesses.accesses:
        for first in range(0, lanes, together):
            words = set()
            for lane in range(first, min(first + together, lanes)):
                address = accesses.address.at(lane) ^ access.offset
                words |= set(range(address // 4, (address + width + 3) // 4))
            banks = [word % 32 for word in words]
            worst = max(worst, max(banks.count(bank) for bank in banks))
    return worst


# ---------------------------------------------------------------- exhaustive and random


@pytest.mark.slow
def test_all_pairs_of_small_normal_forms() -> None:
    """One register, two lane and one warp bit, 1 to 4 element bits: every pair of layouts, by every way that can do it."""
    kinds = set()
    for bits in (1, 2, 3, 4):
        pools = sorted({p for p in itertools.permutations([1 << b for b in range(bits)] + [0] * (4 - bits))})
        layouts = [pool_layout(list(pool), (1, 2, 1), bits) for pool in pools]
        for src, dst in itertools.product(layouts, repeat=2):
            plan = plan_conversion(src, dst, 32)
            kinds.add(type(plan))
            check(plan, src, dst)
            moves = find_moves(src.unique_registers(), dst.unique_registers())
            assert LEVELS.index(moves.level) == brute_level(src, dst)
            if moves.level == "warp" or bits > 2:
                check(plan_exchange(src, dst, 32), src, dst)
    assert kinds == {Equal, RenamedRegisters, ShufflePlan, SharedExchange}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", range(120))
def test_random_pairs_by_every_way(seed: int) -> None:
    rng = random.Random(seed)
    counts = (rng.randint(0, 3), rng.randint(1, 3), rng.randint(0, 2))
    bits = rng.randint(min(2, sum(counts)), sum(counts))
    src = random_layout(rng, bits, counts, normal=seed % 2 == 0)
    dst = random_layout(rng, bits, counts, normal=seed % 2 == 0)
    if (
        seed % 4 < 2
    ):  # make near conversions likely: shuffle the bits inside a warp, change warps by what a warp holds
        pool = src.columns(("register", "lane"))
        rng.shuffle(pool)
        warps = [each ^ rng.choice((0, *pool)) for each in src["warp"]]
        dst = pool_layout([*pool, *warps], counts, bits)
    element_bits = rng.choice((1, 8, 16, 32, 64))
    level = find_moves(src, dst).level
    assert LEVELS.index(level) == brute_level(src, dst)
    assert is_warp_local(src, dst) == (level != "warp")
    plan = plan_conversion(src, dst, element_bits)
    check(plan, src, dst)
    assert isinstance(plan, Equal) == src.same_map(dst)
    through = plan_exchange(src, dst, element_bits)
    check(through, src, dst)
    assert through.bytes == max(1, element_bits // 8) << bits
    if level != "warp":
        own, wanted = src.unique_registers(), dst.unique_registers()
        moves = find_moves(own, wanted)
        shuffles = plan_shuffles(own, wanted, moves, element_bits)
        check(shuffles, own, wanted)
        local = plan_warp_exchange(src, dst, element_bits)
        check(local, src, dst)
        assert local.is_warp_local


@pytest.mark.parametrize("seed", range(60))
def test_a_warp_may_need_only_part_of_what_it_holds(seed: int) -> None:
    """Then a lane can be asked for two registers at once, and rounds are doubled where nothing else helps."""
    rng = random.Random(1000 + seed)
    counts = (rng.choice((1, 2, 3)), 3, 0)
    src = random_layout(rng, rng.randint(max(2, counts[0]), sum(counts)), counts, normal=seed % 3 > 0)
    columns = [*src.columns(), 0]
    pool = [rng.choice(columns) for _ in range(rng.randint(0, 2) + 3)]
    dst = LinearLayout.of({"register": pool[3:], "lane": pool[:3], "warp": []}, src.shape).unique_registers()
    own = src.unique_registers()
    plan = plan_shuffles(own, dst, find_moves(own, dst), 32)
    check(plan, own, dst)
    check(plan_conversion(src, dst, 32), src, dst)


def test_rounds_are_destination_registers_when_the_elements_are_the_same() -> None:
    rng = random.Random(9)
    doubled = 0
    for trial in range(60):
        counts = (rng.choice((1, 2, 3)), 3, 0)
        bits = rng.randint(max(2, counts[0]), sum(counts))
        src, dst = (
            random_layout(rng, bits, counts, normal=trial % 2 == 0).unique_registers() for _ in range(2)
        )
        plan = plan_shuffles(src, dst, find_moves(src, dst), 32)
        assert len(plan.rounds) == dst.size("register")
        part = dst.with_bases(register=(), lane=rng.choices([*src["register"], 0], k=3))
        doubled += len(plan_shuffles(src, part, find_moves(src, part), 32).rounds) > 1
    assert doubled  # the case that needs it occurs


# ---------------------------------------------------------------- named cases


def test_a_difference_of_warps_is_found() -> None:
    src = LinearLayout.of({"register": [1], "lane": [2], "warp": [4]}, (8,))
    dst = LinearLayout.of({"register": [1], "lane": [4], "warp": [2]}, (8,))
    assert isinstance(plan_conversion(src, dst, 32), SharedExchange)


def test_registers_are_renamed_per_warp_and_per_lane() -> None:
    src = LinearLayout.of({"register": [1, 2], "lane": [4], "warp": [8]}, (16,))
    dst = LinearLayout.of({"register": [2, 1], "lane": [4 ^ 1], "warp": [8 ^ 3]}, (16,))
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, RenamedRegisters)
    assert plan.sources == (0, 2, 1, 3)
    assert (plan.flips.lane, plan.flips.warp) == ((1,), (3,))
    check(plan, src, dst)
    assert cost(plan, 32) == 8


def test_a_single_swap_is_one_xor_shuffle_per_two_registers_or_less() -> None:
    """A lane bit moves by a lane bit: the source lane is the own lane XOR a constant in no round but the plan finds those."""
    src = LinearLayout.of({"register": [1], "lane": [2, 4], "warp": [8]}, (16,))
    dst = src.with_bases(warp=[8 ^ 4])
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, ShufflePlan)
    assert [each.kind for each in plan.rounds] == ["xor", "xor"]
    assert [each.source_lane.warp for each in plan.rounds] == [(2,), (2,)]
    check(plan, src, dst)


def test_narrow_elements_are_packed() -> None:
    src = LinearLayout.of({"register": [1, 2], "lane": [4, 8], "warp": []}, (16,))
    dst = src.with_bases(lane=[8, 4])
    by_bits = {bits: plan_conversion(src, dst, bits) for bits in (8, 16, 32, 64)}
    counts = {}
    for bits, plan in by_bits.items():
        assert isinstance(plan, ShufflePlan)
        check(plan, src, dst)
        counts[bits] = plan.shuffles(bits)
    assert counts == {8: 1, 16: 2, 32: 4, 64: 8}


def test_chained_products_move_nothing() -> None:
    """Two neighbouring 16x8 accumulator tiles are one 16x16 operand, and likewise for wgmma."""
    c = mma_accumulator((64, 64), (4, 1))
    a = dot_operand((64, 64), "a", (4, 1), 16)
    plan = plan_conversion(c, a, 16)
    assert isinstance(plan, Equal | RenamedRegisters)
    check(plan, c, a)
    c, a = wgmma_accumulator((128, 64), 64, (4, 1)), wgmma_operand_a((128, 64), 16, (4, 1))
    plan = plan_conversion(c, a, 16)
    assert isinstance(plan, Equal | RenamedRegisters)
    check(plan, c, a)
    narrow = plan_conversion(mma_accumulator((16, 32), (1, 1)), dot_operand((16, 32), "a", (1, 1), 8), 8)
    assert isinstance(narrow, ShufflePlan)
    check(narrow, mma_accumulator((16, 32), (1, 1)), dot_operand((16, 32), "a", (1, 1), 8))


REAL = {
    "rows": default_blocked((64, 64), 4, 32),
    "columns": default_blocked((64, 64), 4, 32, order=(0, 1)),
    "halves": default_blocked((64, 64), 4, 16),
    "accumulator": mma_accumulator((64, 64), (2, 2)),
    "a": dot_operand((64, 64), "a", (2, 2), 16),
    "b": dot_operand((64, 64), "b", (2, 2), 16),
    "a8": dot_operand((64, 64), "a", (2, 2), 8),
    "wgmma": wgmma_accumulator((64, 64), 64),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("element_bits", [8, 16, 32, 64])
def test_layouts_of_kernels_without_conflicts(element_bits: int) -> None:
    for src, dst in itertools.permutations(REAL.values(), 2):
        plan = plan_conversion(src, dst, element_bits)
        if element_bits == 32:
            check(plan, src, dst)
        through = plan if isinstance(plan, SharedExchange) else plan_exchange(src, dst, element_bits)
        assert (through.store.conflicts, through.load.conflicts) == (1, 1)
        for side in (through.store, through.load):
            assert simulated_conflicts(side, element_bits // 8, 32) == 1


def test_the_transpose_of_a_tile_by_one_warp() -> None:
    across = LinearLayout.from_coordinates(
        (32, 32), {"register": [(1 << i, 0) for i in range(5)], "lane": [(0, 1 << i) for i in range(5)]}
    )
    down = across.transpose((1, 0))
    plan = plan_conversion(across, down, 32)
    check(plan, across, down)
    through = plan_exchange(across, down, 32)
    assert through.store.conflicts == through.load.conflicts == 1
    plain_order = Accesses(through.store.address, through.store.accesses, through.store.predicate, 1)
    assert simulated_conflicts(plain_order, 4, 32) == 1


@pytest.mark.parametrize("seed", range(80))
def test_the_conflict_formula_is_what_banks_do(seed: int) -> None:
    rng = random.Random(seed)
    element_bits = rng.choice((8, 16, 32, 64))
    r = rng.choice((3, 4, 5))
    bits = r + 5 - rng.choice((0, 0, 1))
    normal = seed % 3 > 0
    src, dst = (random_layout(rng, bits, (r, 5, 0), normal=normal).unique_registers() for _ in range(2))
    plan = plan_exchange(src, dst, element_bits)
    for side in (plan.store, plan.load):
        assert side.conflicts == simulated_conflicts(side, element_bits // 8, 32)
        assert not normal or side.conflicts == 1
    vector, banks, segments = choose_shared(src, dst, element_bits)
    assert [*vector, *banks, *segments] == list(plan.layout["offset"])
    for side, layout in ((plan.store, src), (plan.load, dst)):
        # The formula of the paper: span(V + S) and what is touched together meet in span(V) only.
        phase = max(0, (side.elements * element_bits // 32).bit_length() - 1)
        touched = [*vector, *layout["lane"][: 5 - phase]]
        assert side.elements < 1 << len(vector) or (
            1 << len(intersect([*vector, *segments], touched)) - len(vector) == side.conflicts
        )


def test_vectors_are_as_wide_as_both_sides_allow() -> None:
    src, dst = (
        blocked((32, 64), (1, 8), (4, 8), (1, 1), (1, 0)),
        blocked((32, 64), (1, 8), (32, 1), (1, 1), (1, 0)),
    )
    plan = plan_exchange(src, dst, 16)
    assert (plan.store.elements, plan.load.elements) == (8, 8)
    check(plan, src, dst)
    narrow = plan_exchange(src, dst.transpose((1, 0)).reshape((32, 64)), 16)
    check(narrow, src, dst.transpose((1, 0)).reshape((32, 64)))


def test_each_element_is_stored_once() -> None:
    """Lanes and warps that hold copies do not store; the interpreter raises on a second store to one place."""
    src = LinearLayout.of({"register": [1, 1, 0], "lane": [2, 2, 0], "warp": [4, 2]}, (8,))
    dst = LinearLayout.of({"register": [4], "lane": [0, 2, 0], "warp": [1, 0]}, (8,))
    plan = plan_exchange(src, dst, 32)
    assert (plan.store.predicate.lane, plan.store.predicate.warp) == (0b110, 0b10)
    check(plan, src, dst)
    everyone = replace(plan, store=replace(plan.store, predicate=replace(plan.store.predicate, warp=0)))
    with pytest.raises(PlanFault, match="two stores"):
        check(everyone, src, dst)
    missing = replace(plan, store=replace(plan.store, accesses=plan.store.accesses[:-1]))
    with pytest.raises(PlanFault, match="nobody stored"):
        check(missing, src, dst)


@pytest.mark.parametrize("limit", [64, 256, 1024, 4096])
def test_a_small_buffer_is_used_several_times(limit: int) -> None:
    src, dst = default_blocked((32, 64), 4, 32), default_blocked((32, 64), 4, 32, order=(0, 1))
    whole = plan_exchange(src, dst, 32)
    plan = plan_exchange(src, dst, 32, max_bytes=limit)
    assert plan.bytes * len(plan.repetitions) == whole.bytes == 8192
    check(plan, src, dst)
    registers = (
        blocked((32, 64), (8, 8), (2, 8), (2, 1), (1, 0)),
        blocked((32, 64), (8, 8), (4, 4), (1, 2), (0, 1)),
    )
    plan = plan_exchange(*registers, 32, max_bytes=limit)
    assert plan.bytes * len(plan.repetitions) == 8192
    assert plan.bytes <= max(limit, 8192 >> 6 - 2)
    check(plan, *registers)


def test_many_shuffles_go_through_the_memory_of_the_warp() -> None:
    src, dst = default_blocked((64, 64), 1, 32), default_blocked((64, 64), 1, 32, order=(0, 1))
    plan = plan_conversion(src, dst, 32)
    assert isinstance(plan, SharedExchange)
    assert plan.is_warp_local
    check(plan, src, dst)
    assert cost(plan, 32) < cost(replace(plan, is_warp_local=False), 32)


def test_a_lane_that_holds_a_copy_keeps_to_itself() -> None:
    src = LinearLayout.of({"register": [1], "lane": [2, 2, 4]}, (8,))
    dst = LinearLayout.of({"register": [4], "lane": [2, 2, 1]}, (8,))
    moves = find_moves(src, dst)
    assert (moves.level, moves.lane) == ("lane", ((0, 1, 0), (0, 2, 0), (1, 0, 0)))
    check(plan_conversion(src, dst, 32), src, dst)


def test_blocks_of_a_cluster_keep_to_themselves() -> None:
    src = LinearLayout.of({"register": [1, 16], "lane": [2, 4], "warp": [32], "block": [8, 64]}, (128,))
    for dst in (
        src.with_bases(lane=[4, 2]),
        src.with_bases(register=[16, 1]),
        src.with_bases(register=[1, 32], warp=[16]),
    ):
        plan = plan_conversion(src, dst, 32)
        check(plan, src, dst)
        through = plan_exchange(src, dst, 32)
        check(through, src, dst)
        assert through.bytes == 32 * 4


def test_what_cannot_be_converted() -> None:
    src = LinearLayout.of({"register": [1], "lane": [2], "block": [4]}, (8,))
    with pytest.raises(UnsupportedError, match="cluster"):
        plan_conversion(src, LinearLayout.of({"register": [1], "lane": [4], "block": [2]}, (8,)), 32)
    with pytest.raises(UnsupportedError, match="cluster"):
        plan_conversion(src, src.with_bases(block=[4 ^ 1]), 32)
    with pytest.raises(UnsupportedError, match="cluster"):
        plan_exchange(src, src.with_bases(block=[4 ^ 1]), 32)
    with pytest.raises(ValueError, match="shapes differ"):
        plan_conversion(src, src.reshape((4, 2)), 32)
    with pytest.raises(ValueError, match="2 and 1 blocks"):
        plan_conversion(src, LinearLayout.of({"register": [1, 4], "lane": [2]}, (8,)), 32)
    with pytest.raises(ValueError, match="does not hold"):
        plan_conversion(LinearLayout.of({"lane": [1]}, (4,)), LinearLayout.of({"lane": [2]}, (4,)), 32)
    with pytest.raises(ValueError, match="offset is no dim"):
        plan_conversion(LinearLayout.of({"offset": [1]}, (2,)), LinearLayout.of({"lane": [1]}, (2,)), 32)
    with pytest.raises(ValueError, match="not local to warps"):
        plan_warp_exchange(
            LinearLayout.of({"lane": [1], "warp": [2]}, (4,)),
            LinearLayout.of({"lane": [2], "warp": [1]}, (4,)),
            32,
        )


# ---------------------------------------------------------------- the tests can fail


def test_wrong_plans_are_noticed() -> None:
    rng = random.Random(5)
    noticed = tried = 0
    while tried < 60:
        counts = (2, 3, 1)
        src, dst = (random_layout(rng, 6, counts, normal=True) for _ in range(2))
        pool = src.columns(("register", "lane"))
        rng.shuffle(pool)
        dst = pool_layout([*pool, *src["warp"]], counts, 6)
        plan = plan_conversion(src, dst, 32)
        if not isinstance(plan, ShufflePlan):
            continue
        tried += 1
        victim = rng.randrange(len(plan.rounds))
        part = rng.choice(("offered", "source_lane", "kept"))
        wrong = getattr(plan.rounds[victim], part).shifted(1)
        rounds = list(plan.rounds)
        rounds[victim] = replace(rounds[victim], **{part: wrong})
        try:
            check(replace(plan, rounds=tuple(rounds)), src, dst)
        except (AssertionError, PlanFault):
            noticed += 1
    assert noticed == tried
