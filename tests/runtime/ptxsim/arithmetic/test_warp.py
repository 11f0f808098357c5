"""Exchanges between the lanes of a warp, and matrix fragments, against formulas for single lanes and elements."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.runtime.ptxsim import PtxCheckError

STORE = "add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r9; st.global.u32 [%rd1+256], %r8; ret;"


def shuffled(mode: str, lane: int, amount: int, control: int) -> tuple[int, bool]:
    segment, clamp, amount = control >> 8 & 31, control & 31, amount & 31
    low = lane & segment
    high = low | (clamp & ~segment)
    source = {
        "up": lane - amount,
        "down": lane + amount,
        "bfly": lane ^ amount,
        "idx": low | (amount & ~segment),
    }[mode]
    inside = source >= high if mode == "up" else source <= high
    return (source if inside else lane), inside


@pytest.mark.one_in(5)
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(
    ("amount", "control"), [(1, 31), (5, 0x1C1F), (16, 31), (3, 0), (2, 0x181F), (9, 0x0807)]
)
@pytest.mark.parametrize("own", [False, True])
def test_shuffles(run: Any, mode: str, amount: int, control: int, own: bool) -> None:
    out = np.zeros((2, 64), np.uint32)
    by = f"add.u32 %r3, %r0, {amount}; mov.u32 %r4, {control};" if own else ""
    operands = "%r3, %r4" if own else f"{amount}, {control}"
    run(
        f"add.u32 %r1, %r0, 100; {by} shfl.sync.{mode}.b32 %r9|%p1, %r1, {operands}, -1; selp.u32 %r8, 1, 0, %p1; {STORE}",
        [out],
        64,
    )
    for i in range(64):
        source, inside = shuffled(mode, i % 32, amount + (i if own else 0), control)
        assert (int(out[0, i]), int(out[1, i])) == (100 + i // 32 * 32 + source, inside), (i, mode)


@pytest.mark.parametrize("half", [False, True])
def test_votes_matches_and_reductions(run: Any, half: bool) -> None:
    """`half`: the two halves of a warp call with their own member masks."""
    out = np.zeros((2, 64), np.uint32)
    members = "%r7" if half else "-1"
    before = "and.b32 %r6, %r0, 16; shl.b32 %r7, 0xffff, %r6;"
    groups = [range(s, s + (16 if half else 32)) for s in range(0, 64, 16 if half else 32)]

    def check(text: str, want: Any) -> None:
        out[:] = 0
        run(
            f"{before} mul.lo.u32 %r1, %r0, %r0; and.b32 %r2, %r1, 7; setp.lt.u32 %p1, %r2, 2; mov.u32 %r8, 0; {text} {STORE}",
            [out],
            64,
        )
        for group in groups:
            for i in group:
                assert (int(out[0, i]), int(out[1, i])) == tuple(want(group, i)), (text, i)

    def p(i: int) -> bool:
        return (i * i & 7) < 2

    def bits(lanes: Any) -> int:
        return sum(1 << (i & 31) for i in lanes)

    check(f"vote.sync.ballot.b32 %r9, %p1, {members};", lambda g, i: (bits(j for j in g if p(j)), 0))
    check(
        f"vote.sync.any.pred %p2, !%p1, {members}; selp.u32 %r9, 1, 0, %p2;",
        lambda g, i: (any(not p(j) for j in g), 0),
    )
    check(
        f"vote.sync.all.pred %p2, %p1, {members}; selp.u32 %r9, 1, 0, %p2;",
        lambda g, i: (all(p(j) for j in g), 0),
    )
    check(
        f"vote.sync.uni.pred %p2, %p1, {members}; selp.u32 %r9, 1, 0, %p2;",
        lambda g, i: (len({p(j) for j in g}) == 1, 0),
    )
    check(
        f"match.any.sync.b32 %r9, %r2, {members};",
        lambda g, i: (bits(j for j in g if (j * j & 7) == (i * i & 7)), 0),
    )
    check(f"match.all.sync.b32 %r9|%p2, %r2, {members}; selp.u32 %r8, 1, 0, %p2;", lambda g, i: (0, 0))
    check(
        f"mov.u32 %r2, 5; match.all.sync.b32 %r9|%p2, %r2, {members}; selp.u32 %r8, 1, 0, %p2;",
        lambda g, i: (bits(g), 1),
    )
    check(f"redux.sync.add.u32 %r9, %r1, {members};", lambda g, i: (sum(j * j for j in g) & 0xFFFFFFFF, 0))
    check(
        f"sub.s32 %r1, 40, %r1; redux.sync.min.s32 %r9, %r1, {members};",
        lambda g, i: ((40 - g[-1] ** 2) & 0xFFFFFFFF, 0),
    )
    check(
        f"redux.sync.xor.b32 %r9, %r1, {members};",
        lambda g, i: (np.bitwise_xor.reduce([j * j for j in g]), 0),
    )
    check(f"elect.sync %r9|%p2, {members}; selp.u32 %r8, 1, 0, %p2;", lambda g, i: (g[0] & 31, i == g[0]))


def test_a_read_from_a_lane_that_does_not_take_part_is_warned_of(run: Any) -> None:
    result = run("setp.gt.u32 %p1, %r0, 15; @%p1 ret; shfl.sync.down.b32 %r1, %r0, 8, 31, 0xffff; ret;", [])
    assert [f.kind for f in result.findings] == ["shuffle"]
    assert result.findings[0].lanes == tuple(range(8, 16))


# -- matrices in shared memory

FILL = """
  .shared .align 128 .b8 tile[4096];
  mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; cvt.u64.u32 %rd9, %r2; add.u64 %rd1, %rd1, %rd9;
  ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]; st.shared.v4.u32 [%r3], {%r10, %r11, %r12, %r13}; bar.sync 0;
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_gives_every_lane_its_elements(run: Any, count: int, trans: bool) -> None:
    tile = np.arange(4 * 8 * 8, dtype=np.uint16).reshape(4, 8, 8)
    rng = np.random.default_rng(count)
    order = rng.permutation(32)
    rows = tile.reshape(32, 8)[np.argsort(order)]  # row r of the tile lies at place order[r]
    out = np.zeros((32, count, 2), np.uint16)
    places = (order * 16).astype(np.uint32)
    registers = ", ".join(f"%r{20 + i}" for i in range(count))
    stores = "".join(f"st.global.u32 [%rd3+{4 * i}], %r{20 + i};" for i in range(count))
    body = f"""
      {FILL} add.u64 %rd2, %rd2, %rd0; ld.global.u32 %r4, [%rd2]; add.u32 %r4, %r4, %r1;
      ldmatrix.sync.aligned.m8n8.x{count}{".trans" if trans else ""}.shared.b16 {{{registers}}}, [%r4];
      mad.wide.u32 %rd3, %r0, {4 * count}, %rd3; {stores} ret;
    """
    for level in (1, 2):
        run(body, [rows, places, out], level=level)
        for lane in range(32):
            for i in range(count):
                for e in range(2):
                    row, column = (
                        (2 * (lane % 4) + e, lane // 4) if trans else (lane // 4, 2 * (lane % 4) + e)
                    )
                    assert out[lane, i, e] == tile[i, row, column]


@pytest.mark.parametrize("trans", [False, True])
def test_stmatrix_is_the_inverse(run: Any, trans: bool) -> None:
    tile = np.arange(4 * 8 * 8, dtype=np.uint16)
    out = np.zeros(4 * 64, np.uint16)
    word = ".trans" if trans else ""
    body = f"""
      {FILL} ldmatrix.sync.aligned.m8n8.x4{word}.shared.b16 {{%r20, %r21, %r22, %r23}}, [%r3];
      stmatrix.sync.aligned.m8n8.x4{word}.shared.b16 [%r3+1024], {{%r20, %r21, %r22, %r23}}; bar.sync 0;
      ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r3+1024]; add.u64 %rd2, %rd2, %rd9;
      st.global.v4.u32 [%rd2], {{%r10, %r11, %r12, %r13}}; ret;
    """
    run(body, [tile, out], level=3)
    assert np.array_equal(tile, out)


def test_a_matrix_row_must_be_aligned_and_inside(run: Any) -> None:
    body = f"{FILL} ldmatrix.sync.aligned.m8n8.x1.shared.b16 {{%r20}}, [%r3+%d]; ret;"
    for offset, problem in ((8, "alignment"), (4096, "bounds")):
        with pytest.raises(PtxCheckError, match=problem):
            run(body.replace("%d", str(offset)), [np.zeros(256, np.uint16)])


# -- mma

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8}
DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8,
          "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2, "f32": np.float32, "s32": np.int32}  # fmt: skip
MMA = [
    ("m16n8k16", "f16", "f16", "f32"), ("m16n8k16", "f16", "f16", "f16"), ("m16n8k8", "f16", "f16", "f32"),
    ("m16n8k16", "bf16", "bf16", "f32"), ("m16n8k8", "bf16", "bf16", "f32"), ("m16n8k8", "tf32", "tf32", "f32"),
    ("m16n8k4", "tf32", "tf32", "f32"), ("m16n8k32", "s8", "s8", "s32"), ("m16n8k32", "u8", "s8", "s32"),
    ("m16n8k16", "s8", "u8", "s32"), ("m8n8k16", "s8", "s8", "s32"), ("m8n8k4", "f64", "f64", "f64"),
    ("m16n8k8", "f64", "f64", "f64"), ("m16n8k16", "f64", "f64", "f64"), ("m16n8k32", "e4m3", "e4m3", "f32"),
    ("m16n8k32", "e5m2", "e4m3", "f32"), ("m16n8k32", "e4m3", "e4m3", "f16"),
]  # fmt: skip


def a_place(lane: int, r: int, e: int, m: int, per: int) -> tuple[int, int]:
    g, q = lane // 4, lane % 4
    if m == 8:
        return g, per * q + e + 4 * per * r
    return g + 8 * (r & 1), per * q + e + 4 * per * (r >> 1)


def fragments(matrix: np.ndarray, count: int, per: int, place: Any) -> np.ndarray:
    """Register contents, lanes × registers × elements."""
    return np.array(
        [[[matrix[place(lane, r, e)] for e in range(per)] for r in range(count)] for lane in range(32)],
        matrix.dtype,
    )


CASES = [(*row, 32) for row in MMA] + [(*MMA[0], 96)]


@pytest.mark.parametrize(
    ("shape", "a_type", "b_type", "d_type", "threads"), CASES, ids=["-".join(map(str, row)) for row in CASES]
)
def test_mma_multiplies_what_the_fragments_hold(
    run: Any, shape: str, a_type: str, b_type: str, d_type: str, threads: int
) -> None:
    m, n, k = int(shape[1:].split("n")[0]), 8, int(shape.split("k")[1])
    rng = np.random.default_rng(k + m)
    warps = threads // 32
    small = {"s8": (-128, 128), "u8": (0, 256)}
    a, b = (
        rng.integers(*small.get(t, (-4, 5)), (warps, *s)).astype(DTYPES[t])
        for t, s in ((a_type, (m, k)), (b_type, (k, n)))
    )
    c = rng.integers(-9, 10, (warps, m, n)).astype(DTYPES[d_type])
    per = max(32 // BITS[a_type], 1)
    a_count, b_count = m * k // (32 * per), k * n // (32 * per)
    a_regs = np.stack([fragments(x, a_count, per, lambda lane, r, e: a_place(lane, r, e, m, per)) for x in a])
    b_regs = np.stack([
        fragments(x, b_count, per, lambda lane, r, e: (per * (lane % 4) + e + 4 * per * r, lane // 4)) for x in b
    ])  # fmt: skip

    def c_place(lane: int, i: int, _: int) -> tuple[int, int]:
        return lane // 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1)

    numbers = m * n // 32
    c_regs = np.stack([fragments(x, numbers, 1, c_place) for x in c]).reshape(threads, numbers)
    packed = 2 if d_type == "f16" else 1
    out = np.zeros((threads, numbers), DTYPES[d_type])
    wide = a_type == "f64"
    letter, word, size = ("rd", "b64", 8) if wide else ("r", "b32", 4)
    names = {x: [f"%{letter}{base + i}" for i in range(count)] for x, base, count in (
        ("a", 20, a_count), ("b", 30, b_count), ("c", 40, numbers // packed), ("d", 50, numbers // packed))}  # fmt: skip
    loads = ""
    for index, x in enumerate("abc"):
        loads += f"mad.wide.u32 %rd10, %r0, {len(names[x]) * size}, %rd{index + 1};"
        loads += "".join(f"ld.global.{word} {name}, [%rd10+{size * i}];" for i, name in enumerate(names[x]))
    group = {x: "{" + ", ".join(v) + "}" for x, v in names.items()}
    stores = f"mad.wide.u32 %rd10, %r0, {len(names['d']) * size}, %rd4;" + "".join(
        f"st.global.{word} [%rd10+{size * i}], {name};" for i, name in enumerate(names["d"])
    )
    types = f"{d_type}.{a_type}.{b_type}.{d_type}"
    mma = f"mma.sync.aligned.{shape}.row.col.{types} {group['d']}, {group['a']}, {group['b']}, {group['c']};"
    run(f"{loads} {mma} {stores} ret;", [a_regs, b_regs, c_regs, out], threads=threads, level=2)
    work = np.int64 if d_type == "s32" else np.float64
    want = np.stack(
        [x.astype(work) @ y.astype(work) + z.astype(work) for x, y, z in zip(a, b, c, strict=True)]
    )
    want_regs = np.stack([fragments(x, numbers, 1, c_place) for x in want]).reshape(threads, numbers)
    assert np.array_equal(out.astype(work), want_regs)


def test_integer_products_saturate_when_told(run: Any) -> None:
    out = np.zeros((2, 32), np.int32)
    one = "mov.b32 %r1, 0x7f7f7f7f; mov.u32 %r5, 0x7fffff00;"
    for index, word in enumerate((".satfinite", "")):
        mma = f"mma.sync.aligned.m8n8k16.row.col{word}.s32.s8.s8.s32 {{%r2, %r3}}, {{%r1}}, {{%r1}}, {{%r5, %r5}};"
        run(f"{one} {mma} add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r2; ret;", [out[index]])
    assert (out[0] == 2**31 - 1).all()
    assert (out[1] == 0x7FFFFF00 + 16 * 127 * 127 - 2**32).all()
