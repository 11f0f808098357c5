"""Instructions by left division: vectors and rows of ldmatrix against enumeration, banks and sectors against simulation."""

from __future__ import annotations

import itertools
import random

import pytest
from joinery.lowering.linear_layouts.distributed import blocked, default_blocked, dot_operand, mma_accumulator
from joinery.lowering.linear_layouts.f2 import combine
from joinery.lowering.linear_layouts.layout import LinearLayout
from joinery.lowering.linear_layouts.matching import (
    bank_conflicts,
    global_vector_elements,
    match_matrix,
    offsets,
    sectors,
    vector_accesses,
    vector_elements,
)
from joinery.lowering.linear_layouts.shared import matrix_swizzled, plain, swizzled


def widest_vector(where: LinearLayout, limit: int) -> int:
    """By trying: aligned runs of offsets of which every thread holds all or nothing."""
    best = 1
    for count in (2, 4, 8, 16):
        if count > limit or count > where.shape[0]:
            break
        for lane, warp in itertools.product(range(where.size("lane")), range(where.size("warp"))):
            mine = {where.apply_flat(register=r, lane=lane, warp=warp) for r in range(where.size("register"))}
            if any({o // count * count + i for i in range(count)} - mine for o in mine):
                return best
        best = count
    return best


@pytest.mark.parametrize("seed", range(40))
def test_vectors_against_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    pool = [1, 2, 4, 8, 16, 32, 0]
    rng.shuffle(pool)
    if seed % 4 == 3:
        pool[rng.randrange(7)] ^= 3
    where = LinearLayout.of({"register": pool[:4], "lane": pool[4:6], "warp": pool[6:]}, (64,))
    found = vector_elements(where, 16)
    assert found == widest_vector(where, 8) or seed % 4 == 3
    assert found <= widest_vector(where, 8)
    seen: set[int] = set()
    for access in vector_accesses(where, 16, found):
        placed = [where.apply_flat(register=r) * 2 for r in access.registers]
        assert placed == [access.offset + 2 * i for i in range(found)]
        assert access.offset % (2 * found) == 0
        seen |= set(access.registers)
    assert seen == set(range(16))


def test_vectors_of_blocked_layouts_in_swizzled_memory() -> None:
    layout = blocked((16, 64), (1, 8), (4, 8), (4, 1), (1, 0))
    assert vector_elements(offsets(layout, plain((16, 64))), 16) == 8
    assert vector_elements(offsets(layout, plain((16, 64))), 32) == 4
    assert vector_elements(offsets(layout, swizzled((16, 64), 4, 1, 8)), 16) == 4
    assert vector_elements(offsets(layout, plain((16, 64), (0, 1))), 16) == 1
    with pytest.raises(ValueError, match="consecutive"):
        vector_accesses(offsets(layout, plain((16, 64), (0, 1))), 16, 2)


def test_global_vectors_are_bounded_by_what_is_known() -> None:
    layout = default_blocked((64, 64), 4, 16)
    assert global_vector_elements(layout, 16, contiguity=64, alignment=16) == 8
    assert global_vector_elements(layout, 16, contiguity=64, alignment=4) == 2
    assert global_vector_elements(layout, 16, contiguity=6, alignment=16) == 2
    assert global_vector_elements(layout, 16, contiguity=64, alignment=16, mask_constancy=4) == 4
    assert global_vector_elements(layout, 16, axis=0, contiguity=64, alignment=16) == 1
    down = default_blocked((64, 64), 4, 32, order=(0, 1))
    assert global_vector_elements(down, 32, axis=0, contiguity=64, alignment=256) == 4


def load_matrices(where: LinearLayout, bits: int, transposed: bool) -> dict[tuple[int, int, int], int] | None:
    """What ldmatrix delivers from a memory that holds its own offsets: (register, lane, warp) → offset."""
    plan = match_matrix(where, bits, transposed=transposed)
    if plan is None:
        return None
    per_word, row_bytes = 32 // bits, 16
    got = {}
    for access, warp in itertools.product(plan.accesses, range(where.size("warp"))):
        rows = [plan.row_address.at(a, warp) ^ access.offset for a in range(8 * plan.count)]
        assert all(row % row_bytes == 0 for row in rows)
        for matrix, lane, part in itertools.product(range(plan.count), range(32), range(per_word)):
            if transposed:
                byte = rows[matrix * 8 + 2 * (lane % 4) + part] + lane // 4 * 2
            else:
                byte = rows[matrix * 8 + lane // 4] + lane % 4 * 4 + part * bits // 8
            register = access.registers[matrix * per_word + part]
            assert (register, lane, warp) not in got
            got[register, lane, warp] = byte * 8 // bits
    return got


def check_matrices(where: LinearLayout, bits: int, transposed: bool) -> None:
    got = load_matrices(where, bits, transposed)
    assert got is not None
    places = itertools.product(*(range(where.size(n)) for n in ("register", "lane", "warp")))
    assert got == {(r, n, w): where.apply_flat(register=r, lane=n, warp=w) for r, n, w in places}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("swizzle", [128, 64, 32])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_ldmatrix_of_operands_in_swizzled_memory(bits: int, swizzle: int) -> None:
    k = 1024 // bits
    a = dot_operand((64, k), "a", (2, 2), bits)
    check_matrices(offsets(a, matrix_swizzled((64, k), bits, swizzle)), bits, False)
    b = dot_operand((k, 64), "b", (2, 2), bits)
    check_matrices(offsets(b, matrix_swizzled((k, 64), bits, swizzle, (0, 1))), bits, False)
    across = offsets(b, matrix_swizzled((k, 64), bits, 32))
    assert match_matrix(across, bits) is None
    if bits == 16:
        check_matrices(across, bits, True)
        down = offsets(a, matrix_swizzled((64, k), bits, swizzle, (0, 1)))
        check_matrices(down, bits, True)
        assert match_matrix(down, bits) is None
    else:
        assert match_matrix(across, bits, transposed=True) is None


def test_the_number_of_matrices_follows_the_registers() -> None:
    counts = {}
    for columns in (8, 16, 32):
        c = mma_accumulator(
            (8 if columns == 8 else 16, columns), (1, 1), element_bits=64 if columns == 8 else 32
        )
        where = offsets(c, plain(c.shape))
        found = match_matrix(where, 16)
        assert found is not None
        check_matrices(where, 16, False)
        counts[columns] = (found.count, len(found.accesses))
    assert counts == {8: (1, 1), 16: (4, 1), 32: (4, 2)}
    two = mma_accumulator((16, 8), (1, 1))
    found = match_matrix(offsets(two, plain((16, 8))), 16)
    assert found is not None
    assert (found.count, found.row_address.lane) == (2, (16, 32, 64, 128, 0))


def test_rows_that_are_not_aligned_are_refused() -> None:
    c = mma_accumulator((16, 16), (1, 1))
    assert match_matrix(offsets(c, swizzled((16, 16), 4, 1, 4)), 16) is None
    assert match_matrix(offsets(c, plain((16, 16))), 64) is None
    assert match_matrix(offsets(default_blocked((16, 16), 1, 16), plain((16, 16))), 16) is None


@pytest.mark.parametrize("seed", range(60))
def test_banks_and_sectors_against_simulation(seed: int) -> None:
    rng = random.Random(seed)
    access = rng.choice((1, 2, 4, 8, 16))
    lanes = [rng.randrange(1 << 10) & ~(access - 1) for _ in range(5)]
    together = 32 // max(1, access // 4)
    worst = 0
    for first in range(0, 32, together):
        words = set()
        for lane in range(first, first + together):
            address = combine(lanes, lane)
            words |= {(address + byte) // 4 for byte in range(access)}
        banks = [word % 32 for word in words]
        worst = max(worst, max(banks.count(bank) for bank in banks))
    assert bank_conflicts(lanes, access) == worst
    assert sectors(lanes) == len({combine(lanes, lane) // 32 for lane in range(32)})
