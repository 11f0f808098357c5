"""Distributed and shared layouts against index formulas: those of the PTX ISA for fragments and swizzles, written out here."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from joinery.lowering.linear_layouts import distributed as d
from joinery.lowering.linear_layouts.layout import LinearLayout
from joinery.lowering.linear_layouts.shared import (
    match_descriptor,
    matrix_swizzled,
    plain,
    swizzle_address,
    swizzled,
)

Formula = Callable[[int, int], tuple[int, ...]]


def group(lane: int) -> int:
    return lane >> 2


def thread(lane: int) -> int:
    return lane % 4


# (name, layout, formula of (element index, lane)): the rows and columns as the PTX ISA gives them
FRAGMENTS: list[tuple[str, LinearLayout, Formula]] = [
    (
        "m16n8k16 f16 A",
        d.operand_a_fragment(16),
        lambda i, n: (
            group(n) + (0 if i < 2 or 4 <= i < 6 else 8),
            thread(n) * 2 + (i & 1) + (8 if i >= 4 else 0),
        ),
    ),
    (
        "m16n8k16 f16 B",
        d.operand_b_fragment(16),
        lambda i, n: (thread(n) * 2 + (i & 1) + (8 if i >= 2 else 0), group(n)),
    ),
    (
        "m16n8k8 tf32 A",
        d.operand_a_fragment(32),
        lambda i, n: (group(n) + (8 if i in (1, 3) else 0), thread(n) + (4 if i >= 2 else 0)),
    ),
    ("m16n8k8 tf32 B", d.operand_b_fragment(32), lambda i, n: (thread(n) + (4 if i == 1 else 0), group(n))),
    (
        "m16n8k8 f64 A",
        d.operand_a_fragment(64, 1),
        lambda i, n: (group(n) + (8 if i in (1, 3) else 0), thread(n) + (4 if i >= 2 else 0)),
    ),
    (
        "m16n8k32 s8 A",
        d.operand_a_fragment(8),
        lambda i, n: (
            group(n) + (0 if i < 4 or 8 <= i < 12 else 8),
            thread(n) * 4 + (i & 3) + (16 if i >= 8 else 0),
        ),
    ),
    (
        "m16n8k32 s8 B",
        d.operand_b_fragment(8),
        lambda i, n: (thread(n) * 4 + (i & 3) + (16 if i >= 4 else 0), group(n)),
    ),
    (
        "m16n8 C",
        d.accumulator_fragment(),
        lambda i, n: (group(n) + (0 if i < 2 else 8), thread(n) * 2 + (i & 1)),
    ),
    ("m8n8k4 f64 A", d.operand_a_fragment(64), lambda i, n: (group(n), thread(n))),
    ("m8n8k4 f64 B", d.operand_b_fragment(64), lambda i, n: (thread(n), group(n))),
    ("m8n8k4 f64 C", d.accumulator_fragment(8), lambda i, n: (group(n), thread(n) * 2 + (i & 1))),
]


def differing(layout: LinearLayout, formula: Formula) -> list[tuple[int, int]]:
    places = itertools.product(range(layout.size("register")), range(32))
    return [(i, lane) for i, lane in places if layout.apply(register=i, lane=lane) != formula(i, lane)]


@pytest.mark.parametrize(
    ("layout", "formula"), [each[1:] for each in FRAGMENTS], ids=[each[0] for each in FRAGMENTS]
)
def test_fragments_are_those_of_the_instruction_set(layout: LinearLayout, formula: Formula) -> None:
    assert layout.is_invertible
    assert differing(layout, formula) == []
    # The formulas tell fragments apart: any two bases exchanged, and the table is another one.
    bases = {name: list(layout[name]) for name in layout.dims}
    for (a, i), (b, j) in itertools.combinations(layout.input_bits(), 2):
        wrong = {name: list(column) for name, column in bases.items()}
        wrong[a][i], wrong[b][j] = wrong[b][j], wrong[a][i]
        assert differing(LinearLayout.of(wrong, layout.shape), formula)


@pytest.mark.parametrize("columns", [8, 16, 64, 256])
def test_wgmma_accumulators(columns: int) -> None:
    layout = d.wgmma_accumulator_fragment(columns)
    assert layout.is_invertible
    for i, lane, warp in itertools.product(range(columns // 2), range(32), range(4)):
        want = 16 * warp + lane // 4 + 8 * (i >> 1 & 1), 2 * (lane % 4) + (i & 1) + 8 * (i >> 2)
        assert layout.apply(register=i, lane=lane, warp=warp) == want


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_wgmma_operands_in_registers(bits: int) -> None:
    layout, one = d.wgmma_a_fragment(bits), d.operand_a_fragment(bits)
    assert layout.shape == (64, 256 // bits)
    for i, lane, warp in itertools.product(range(one.size("register")), range(32), range(4)):
        row, column = one.apply(register=i, lane=lane)
        assert layout.apply(register=i, lane=lane, warp=warp) == (row + 16 * warp, column)


@pytest.mark.parametrize(("bits", "width"), [(16, 4), (16, 8), (32, 4), (8, 16), (64, 2)])
def test_wider_k_permutes_the_contraction_alike_in_both_operands(bits: int, width: int) -> None:
    """With the k index renamed by one permutation, both operands are a row of ordinary fragments."""
    a, b = d.operand_a_fragment(bits, width), d.operand_b_fragment(bits, width)
    extra = (width * bits // 32 if bits < 64 else width).bit_length() - 1
    low = width.bit_length() - 1 - extra
    for i, lane in itertools.product(range(b.size("register")), range(32)):
        inside, half = i & width - 1, i >> low + extra
        k, column = b.apply(register=i, lane=lane)
        assert column == lane // 4
        assert a.apply(register=inside | half << low + extra + 1, lane=lane) == (lane // 4, k)
        assert k == inside + width * (lane % 4) + 4 * width * half


@pytest.mark.parametrize(("bits", "width"), [(16, 2), (16, 4), (16, 8), (32, 4), (8, 16), (64, 2)])
def test_instructions_of_wide_fragments_multiply_right(bits: int, width: int) -> None:
    """The products of the instructions, each read as an ordinary one, add up to the product of the operands."""
    rng = np.random.default_rng(bits + width)
    wide_a, wide_b = d.operand_a_fragment(bits, width), d.operand_b_fragment(bits, width)
    natural = max(1, 32 // bits)
    one_a, one_b = d.operand_a_fragment(bits, natural), d.operand_b_fragment(bits, natural)
    a, b = rng.integers(-8, 8, wide_a.shape), rng.integers(-8, 8, wide_b.shape)
    total = np.zeros((16, 8), dtype=np.int64)
    registers_a = d.instruction_registers(wide_a, bits, width)
    registers_b = d.instruction_registers(wide_b, bits, width)
    assert sorted(r for each in registers_a for r in each) == list(range(wide_a.size("register")))
    for own_a, own_b in zip(registers_a, registers_b, strict=True):
        seen_a, seen_b = np.zeros(one_a.shape, dtype=np.int64), np.zeros(one_b.shape, dtype=np.int64)
        for lane in range(32):
            for i, register in enumerate(own_a):
                seen_a[one_a.apply(register=i, lane=lane)] = a[wide_a.apply(register=register, lane=lane)]
            for i, register in enumerate(own_b):
                seen_b[one_b.apply(register=i, lane=lane)] = b[wide_b.apply(register=register, lane=lane)]
        total += seen_a @ seen_b
    assert np.array_equal(total, a @ b)


def test_the_tiles_of_a_block() -> None:
    layout, fragment = d.mma_accumulator((64, 32), (2, 2)), d.accumulator_fragment()
    tiles = d.fragment_tiles(layout, fragment)
    assert [place for _, place in tiles] == [(0, 0), (0, 16), (32, 0), (32, 16)]
    for registers, (row, column) in tiles:
        for i, register in enumerate(registers):
            inside = fragment.apply(register=i, lane=5)
            assert layout.apply(register=register, lane=5) == (row + inside[0], column + inside[1])
            assert layout.apply(register=register, lane=5, warp=3) == (
                row + inside[0] + 16,
                column + inside[1] + 8,
            )


# ---------------------------------------------------------------- blocked


@pytest.mark.parametrize(
    ("shape", "per_thread", "lanes", "warps", "order"),
    [
        ((16, 64), (1, 4), (2, 16), (4, 1), (1, 0)),
        ((32, 32), (2, 2), (8, 4), (2, 2), (0, 1)),
        ((4, 8), (1, 4), (2, 16), (2, 2), (1, 0)),
        ((128,), (2,), (32,), (4,), (0,)),
        ((2, 1, 8), (2, 1, 2), (4, 2, 4), (1, 1, 1), (2, 0, 1)),
        ((1,), (1,), (32,), (2,), (0,)),
        ((2, 4), (4, 2), (8, 4), (1, 2), (1, 0)),
    ],
)
def test_blocked_against_mixed_radix_numbers(shape, per_thread, lanes, warps, order) -> None:
    layout = d.blocked(shape, per_thread, lanes, warps, order)
    assert layout.is_surjective
    assert 0 not in layout["register"]

    def digits(number: int, tile: tuple[int, ...]) -> list[int]:
        found = [0] * len(shape)
        for dim in order:
            found[dim], number = number % tile[dim], number // tile[dim]
        return found

    for lane, warp in itertools.product(range(32), range(int(np.prod(warps)))):
        in_lane, in_warp = digits(lane, lanes), digits(warp, warps)
        starts = [p * (a + n * w) for p, a, n, w in zip(per_thread, in_lane, lanes, in_warp, strict=True)]
        assert layout.apply(lane=lane, warp=warp) == tuple(s % n for s, n in zip(starts, shape, strict=True))
    within = {layout.apply(register=r) for r in range(layout.size("register"))}
    tile = [min(p, n) for p, n in zip(per_thread, shape, strict=True)]
    assert set(itertools.product(*(range(t) for t in tile))) <= within


def test_the_default_is_coalesced() -> None:
    wide = d.default_blocked((64, 128), 4, 16)
    assert [wide.coordinates(each) for each in wide["register"][:3]] == [(0, 1), (0, 2), (0, 4)]
    assert [wide.coordinates(each) for each in wide["lane"]] == [(0, 8), (0, 16), (0, 32), (0, 64), (1, 0)]
    assert [wide.coordinates(each) for each in wide["warp"]] == [(2, 0), (4, 0)]
    assert d.default_blocked((64, 128), 4, 16, contiguity=2)["lane"][0] == 2
    assert d.default_blocked((1024,), 4, 32, contiguity=2)["lane"] == (2, 4, 8, 16, 32)
    assert d.default_blocked((1024,), 4, 32, alignment=4)["lane"] == (1, 2, 4, 8, 16)
    assert (
        d.default_blocked((1024,), 4, 8)["lane"][0] == 8
    )  # no more than the elements there are for a thread
    assert d.default_blocked((64, 64), 4, 32, order=(0, 1))["register"][:2] == (64, 128)
    for shape in ((), (1,), (8,), (4, 2, 2), (1, 1, 64)):
        layout = d.default_blocked(shape, 4)
        assert layout.is_surjective
        assert layout.size("lane") == 32
        assert layout.size("warp") == 4


# ---------------------------------------------------------------- fragments over a block


def test_operands_over_warps_share_what_the_other_operand_splits() -> None:
    shape_m, shape_n, shape_k, warps = 64, 32, 32, (2, 2)
    c = d.mma_accumulator((shape_m, shape_n), warps)
    a = d.dot_operand((shape_m, shape_k), "a", warps, 16)
    b = d.dot_operand((shape_k, shape_n), "b", warps, 16)
    for layout in (c, a, b):
        assert layout.is_surjective
    for lane, warp in itertools.product(range(32), range(4)):
        registers = range(c.size("register"))
        rows = {c.apply(register=r, lane=lane, warp=warp)[0] // 8 for r in registers}
        columns = {c.apply(register=r, lane=lane, warp=warp)[1] // 8 for r in registers}
        assert {a.apply(register=r, lane=lane, warp=warp)[0] // 8 for r in range(a.size("register"))} == rows
        assert {
            b.apply(register=r, lane=lane, warp=warp)[1] // 8 for r in range(b.size("register"))
        } == columns
    assert a["warp"] == (16 * shape_k, 0)
    assert b["warp"] == (0, 8)
    assert d.mma_accumulator((8, 16), (1, 2), element_bits=64)["warp"] == (8,)


def test_wgmma_groups_go_on_along_m() -> None:
    layout = d.wgmma_accumulator((256, 64), 32, (8, 1))
    assert [layout.coordinates(each) for each in layout["warp"]] == [(16, 0), (32, 0), (64, 0)]
    assert [layout.coordinates(each) for each in layout["register"][-2:]] == [(0, 32), (128, 0)]
    a = d.wgmma_operand_a((256, 64), 16, (8, 1))
    assert [a.coordinates(each) for each in a["warp"]] == [(16, 0), (32, 0), (64, 0)]


# ---------------------------------------------------------------- shared memory


def test_plain_and_swizzled_layouts_against_formulas() -> None:
    assert plain((2, 4, 8))["offset"] == (1, 2, 4, 8, 16, 32)
    down = plain((4, 8), (0, 1))
    assert all(down.apply(offset=o) == (o % 4, o // 4) for o in range(32))
    small = swizzled((4, 4), 1, 1, 4)
    assert small["offset"] == (1, 2, 5, 10)
    for vec, per_phase, max_phase in ((1, 1, 4), (4, 2, 4), (8, 1, 8), (2, 4, 2)):
        layout = swizzled((16, 32), vec, per_phase, max_phase)
        assert layout.is_invertible
        for offset in range(512):
            row, column = divmod(offset, 32)
            assert layout.apply(offset=offset) == (row, column ^ vec * (row // per_phase % max_phase) % 32)


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_swizzle_modes_are_address_bits(swizzle: int, bits: int) -> None:
    size = bits // 8
    layout = matrix_swizzled((32, 2 * swizzle // size), bits, swizzle)
    assert layout.is_invertible
    for offset in range(layout.size("offset")):
        address = swizzle_address(offset * size, swizzle)
        assert swizzle_address(address, swizzle) == offset * size
        atom, inside = divmod(address, 32 * swizzle)
        assert layout.apply(offset=offset) == (
            inside // swizzle,
            atom * (swizzle // size) + inside % swizzle // size,
        )


# ---------------------------------------------------------------- wgmma descriptors


def canonical(swizzle: int, k_major: bool, bits: int, leading: int, stride: int, row: int, k: int) -> int:
    """Byte address in CUTLASS's canonical layout, written as shape:stride, with the XOR put on."""
    t = 128 // bits
    w = max(1, swizzle // 16)
    if k_major and swizzle:
        element = row % 8 * w * t + row // 8 * stride + k % t + k // t * t
    elif k_major:
        element = row % 8 * t + row // 8 * stride + k % t + k // t * leading
    elif swizzle:
        element = row % (t * w) + row // (t * w) * leading + k % 8 * w * t + k // 8 * stride
    else:
        element = row % t + row // t * stride + k % 8 * t + k // 8 * leading
    return swizzle_address(element * bits // 8, swizzle)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("swizzle", [128, 64, 32, 0])
@pytest.mark.parametrize(("bits", "k_major"), [(8, True), (16, True), (32, True), (16, False)])
@pytest.mark.parametrize("rows", [8, 64, 128])
def test_descriptors_describe_the_layout(swizzle: int, bits: int, k_major: bool, rows: int) -> None:
    shape = (128, 1024 // bits * 2)
    layout = (
        matrix_swizzled(shape, bits, swizzle) if k_major else matrix_swizzled(shape, bits, swizzle, (0, 1))
    )
    found = match_descriptor(layout, bits, rows)
    if not k_major and rows * 2 < swizzle:
        assert found is None  # an instruction takes whole atoms
        return
    assert found is not None
    assert (found.swizzle, found.k_major) == (swizzle, k_major)
    size = bits // 8
    leading, stride = found.leading_bytes // size, found.stride_bytes // size
    where = layout.pseudo_inverse()
    depth = 256 // bits
    for row0, k0 in ((0, 0), (rows, 0), (0, depth), (rows, depth), (0, 2 * depth)):
        if row0 + rows > shape[0] or k0 + depth > shape[1]:
            continue
        start = 0
        for bit, step in enumerate(found.row_steps):
            start += step * (row0 // rows >> bit & 1)
        for bit, step in enumerate(found.k_steps):
            start += step * (k0 // depth >> bit & 1)
        for row, k in itertools.product(range(rows), range(depth)):
            inside = canonical(0, found.k_major, bits, leading, stride, row, k) if not found.swizzle else None
            if inside is None:
                before = swizzle_address(
                    canonical(found.swizzle, found.k_major, bits, leading, stride, row, k), found.swizzle
                )
                inside = swizzle_address(before + start, found.swizzle) - start
            assert where.apply_flat(offset=layout.flatten((row0 + row, k0 + k))) * size == inside + start


def test_descriptor_words() -> None:
    found = match_descriptor(matrix_swizzled((64, 64), 16, 128), 16, 64)
    assert found is not None
    assert (found.mode, found.stride_bytes, found.alignment, found.k_steps) == (1, 1024, 1024, (32, 64))
    assert found.encode(0x2400) == 0x240 | 1 << 16 | 64 << 32 | 1 << 62
    b = match_descriptor(matrix_swizzled((32, 128), 16, 64), 16, 64, k_axis=0)
    assert b is not None
    assert (b.mode, b.k_major, b.leading_bytes, b.stride_bytes) == (2, False, 2048, 512)
    none = match_descriptor(matrix_swizzled((64, 32), 16, 0), 16, 64)
    assert none is not None
    assert (none.mode, none.leading_bytes, none.stride_bytes, none.alignment) == (0, 1024, 128, 16)


def test_other_layouts_have_no_descriptor() -> None:
    assert match_descriptor(plain((64, 64)), 16, 64) is None
    assert match_descriptor(swizzled((64, 64), 8, 1, 4), 16, 64) is None
    assert (
        match_descriptor(matrix_swizzled((64, 64), 32, 128, (0, 1)), 32, 64) is None
    )  # 32 bits must be K-major
    assert match_descriptor(matrix_swizzled((32, 64), 16, 128), 16, 64) is None  # too few rows
    good = matrix_swizzled((64, 64), 16, 128)
    for i, j in itertools.combinations(range(12), 2):
        bases = list(good["offset"])
        bases[i], bases[j] = bases[j], bases[i]
        assert match_descriptor(LinearLayout.of({"offset": bases}, (64, 64)), 16, 64) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: d.blocked((4, 4), (1, 1), (4, 4), (1, 1), (0, 0)), "no permutation"),
        (lambda: d.blocked((4, 4), (1,), (4, 4), (1, 1), (0, 1)), "one size for each"),
        (lambda: d.wgmma_accumulator_fragment(512), "8 to 256"),
        (lambda: d.wgmma_a_fragment(64), "64 bits"),
        (lambda: d.wgmma_accumulator((64, 64), 64, (2, 1)), "four warps"),
        (lambda: d.operand_a_fragment(16, 1), "do not fill"),
        (lambda: d.operand_a_fragment(4), "do not fill"),
        (lambda: d.dot_operand((16, 16), "c", (1, 1), 16), '"a" or "b"'),
        (lambda: d.dot_operand((16, 8), "a", (1, 1), 16), "whole"),
        (lambda: d.mma_accumulator((16,), (1,)), "two dims"),
        (lambda: swizzled((8,), 1, 1, 2), "two dims"),
        (lambda: swizzled((8, 8), 3, 1, 2), "power of two"),
        (lambda: plain((4, 4), (1, 1)), "no permutation"),
        (lambda: matrix_swizzled((4, 64), 16, 128), "smaller than an atom"),
        (lambda: matrix_swizzled((8, 64), 16, 48), "no swizzle width"),
        (lambda: matrix_swizzled((8, 64), 4, 32), "8 to 64 bits"),
        (lambda: matrix_swizzled((8, 8, 8), 16, 0), "two dims"),
        (lambda: swizzle_address(0, 16), "no swizzle width"),
    ],
)
def test_misuse_is_named(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
