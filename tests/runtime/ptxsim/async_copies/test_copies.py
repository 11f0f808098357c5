"""Asynchronous copies, mbarriers, TMA, clusters and products of warpgroups."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from joinery.promotion.errors import UserError
from joinery.runtime.ptxsim import PtxCheckError, TensorMap

POLICIES = [("late", 0), ("early", 0), ("random", 1), ("random", 2)]
FIRST = "setp.ne.u32 %p1, %r0, 0;"
INIT = f"""
  {FIRST} mov.u32 %r1, tile; mov.u32 %r2, bar; @%p1 bra READY;
  mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0;
"""
WAIT = "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra WAIT;"
SHARED = ".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b8 bar[16];"


@pytest.mark.parametrize(("delivery", "seed"), POLICIES)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_land_by_groups(run: Any, delivery: str, seed: int, size: int) -> None:
    rng = np.random.default_rng(size)
    x = rng.integers(0, 256, (3, 64 * size), dtype=np.uint8)
    out = np.zeros_like(x)
    kind = "cg" if size == 16 else "ca"
    letter, word = ("r", "b32") if size == 4 else ("rd", "b64")
    vector, value = (".v2", "{%rd20, %rd21}") if size == 16 else ("", f"%{letter}20")
    body = (
        f"{SHARED} mov.u32 %r1, tile; mad.lo.u32 %r1, %r0, {size}, %r1; mad.wide.u32 %rd1, %r0, {size}, %rd1;"
    )
    body += f"mad.wide.u32 %rd2, %r0, {size}, %rd2;"
    for i in range(3):
        body += f"cp.async.{kind}.shared.global [%r1+{i * 64 * size}], [%rd1+{i * 64 * size}], {size}; cp.async.commit_group;"
    for i in range(3):
        body += f"cp.async.wait_group {2 - i}; ld.shared{vector}.{word} {value}, [%r1+{i * 64 * size}];"
        body += f"st.global{vector}.{word} [%rd2+{i * 64 * size}], {value};"
    for level in (1, 3):
        out[:] = 0
        run(body + "ret;", [x, out], threads=64, delivery=delivery, seed=seed, level=level)
        assert np.array_equal(x, out)


def test_copies_that_are_cut_short_fill_with_zeros(run: Any) -> None:
    """The source ends where the lane's count says; a lane with nothing to read may point anywhere."""
    x = np.arange(100, dtype=np.uint8) + 1
    out = np.full(128, 7, np.uint8)
    body = f"""
      {SHARED} setp.gt.u32 %p1, %r0, 7; @%p1 ret; mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r1, %r1, %r2;
      cvt.u64.u32 %rd5, %r2; add.u64 %rd1, %rd1, %rd5; add.u64 %rd2, %rd2, %rd5;
      sub.s32 %r3, 100, %r2; min.s32 %r3, %r3, 16; max.s32 %r3, %r3, 0;
      cp.async.cg.shared.global [%r1], [%rd1], 16, %r3; cp.async.wait_all;
      ld.shared.v4.u32 {{%r4, %r5, %r6, %r7}}, [%r1]; st.global.v4.u32 [%rd2], {{%r4, %r5, %r6, %r7}}; ret;
    """
    run(body, [x, out], level=2)
    assert out.tolist() == [*range(1, 101), *[0] * 28]


def test_a_copy_into_an_mbarrier(run: Any) -> None:
    x, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    for word, count in ((".noinc", 32), ("", 1)):
        body = f"""
          {SHARED} {INIT.replace("], 1;", f"], {count};")} shl.b32 %r5, %r0, 2; add.u32 %r6, %r1, %r5; add.u64 %rd1, %rd1, %rd0;
          cp.async.ca.shared.global [%r6], [%rd1], 4; cp.async.mbarrier.arrive{word}.shared.b64 [%r2];
          {"" if word else "@!%p1 mbarrier.arrive.shared.b64 %rd9, [%r2];"}
          {WAIT} xor.b32 %r6, %r6, 124; ld.shared.u32 %r7, [%r6]; add.u64 %rd2, %rd2, %rd0; st.global.u32 [%rd2], %r7; ret;
        """
        for delivery, seed in POLICIES:
            out[:] = 0
            run(body, [x, out], level=3, delivery=delivery, seed=seed)
            assert out.tolist() == list(range(31, -1, -1))


def test_mbarriers_count_phases(run: Any) -> None:
    out = np.zeros(6, np.uint64)
    body = f"""
      {SHARED} {INIT.replace("], 1;", "], 3;")} @%p1 ret;
      mbarrier.arrive.shared.b64 %rd5, [%r2]; mbarrier.pending_count.b64 %r5, %rd5; st.global.u32 [%rd1], %r5;
      mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1; selp.u32 %r6, 1, 0, %p2; st.global.u32 [%rd1+8], %r6;
      mbarrier.arrive.noComplete.shared.b64 %rd6, [%r2], 1; mbarrier.test_wait.shared.b64 %p2, [%r2], %rd6;
      selp.u32 %r6, 1, 0, %p2; st.global.u32 [%rd1+16], %r6;
      mbarrier.arrive_drop.shared.b64 %rd7, [%r2]; mbarrier.test_wait.shared.b64 %p2, [%r2], %rd6; selp.u32 %r6, 1, 0, %p2;
      st.global.u32 [%rd1+24], %r6;
      mbarrier.arrive.shared.b64 _, [%r2], 2; mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1; selp.u32 %r6, 1, 0, %p2;
      st.global.u32 [%rd1+32], %r6; mbarrier.inval.shared.b64 [%r2]; ret;
    """
    run(body, [out])
    assert out.tolist() == [3, 1, 0, 1, 1, 0]


@pytest.mark.parametrize(("delivery", "seed"), POLICIES)
def test_bulk_copies(run: Any, delivery: str, seed: int) -> None:
    x, out = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    body = f"""
      {SHARED} {INIT} @%p1 bra DONE;
      mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 512, [%r2];
      cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1+512], [%rd1+512], 512, [%r2];
    DONE:
      {WAIT} shl.b32 %r5, %r0, 5; add.u32 %r5, %r5, %r1; ld.shared.u32 %r6, [%r5]; add.u32 %r6, %r6, 1000;
      st.shared.u32 [%r5], %r6;
      fence.proxy.async.shared::cta; bar.sync 0; @%p1 ret;
      cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1], 1024; cp.async.bulk.commit_group;
      cp.async.bulk.wait_group 0; ret;
    """
    for level in (1, 2, 3):
        out[:] = 0
        result = run(body, [x, out], delivery=delivery, seed=seed, level=level)
        assert out.tolist() == [i + (1000 if i % 8 == 0 else 0) for i in range(256)]
        assert not result.findings


# -- tensor maps


def swizzled(offset: int, span: int) -> int:
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[span]
    return offset ^ ((offset >> 7 & bits) << 4)


TMA = f"""
  {SHARED} {INIT} mov.u64 %rd9, map; cvta.param.u64 %rd9, %rd9; @%p1 bra DONE;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], BYTES;
  cp.async.bulk.tensor.RANKd.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd9, {{COORDINATES}}], [%r2];
DONE:
  {WAIT} AFTER ret;
"""
DUMP = """
  shl.b32 %r5, %r0, 4; add.u32 %r6, %r1, %r5; cvt.u64.u32 %rd10, %r5; add.u64 %rd1, %rd1, %rd10; mov.u32 %r7, 0;
MORE:
  ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r6]; st.global.v4.u32 [%rd1], {%r10, %r11, %r12, %r13};
  add.u32 %r6, %r6, 512; add.u64 %rd1, %rd1, 512; add.u32 %r7, %r7, 512; setp.lt.u32 %p3, %r7, BYTES; @%p3 bra MORE;
"""
MAP = ".param .align 64 .b8 map[128]"


def load_box(run: Any, tensor_map: TensorMap, corner: list[int], size: int, **options: Any) -> np.ndarray:
    out = np.zeros(-(-size // 512) * 512, np.uint8)
    text = TMA.replace("AFTER", DUMP).replace("BYTES", str(size)).replace("RANK", str(len(corner)))
    run(
        text.replace("COORDINATES", ", ".join(map(str, reversed(corner)))),
        [out],
        more=MAP,
        scalars=[tensor_map],
        **options,
    )
    return out[:size]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize(
    ("dtype", "name"), [(np.uint8, "u8"), (np.uint16, "bf16"), (np.float32, "f32"), (np.float64, "f64")]
)
@pytest.mark.parametrize("corner", [[0, 0], [3, -5], [30, 40], [-2, 13]])
def test_a_box_lands_swizzled_and_filled(
    run: Any, span: int, dtype: Any, name: str, corner: list[int]
) -> None:
    size = np.dtype(dtype).itemsize
    inner = (span or 64) // size
    x = (np.arange(37 * 48) % 251).astype(dtype).reshape(37, 48)
    fill = "nan" if name in ("f32", "f64") else "zero"
    found = load_box(
        run, TensorMap(x, (37, 48), None, (16, inner), name, span, fill), corner, 16 * inner * size
    )
    want = np.zeros((16, inner), dtype)
    for i in range(16):
        for j in range(inner):
            row, column = corner[0] + i, corner[1] + j
            inside = 0 <= row < 37 and 0 <= column < 48
            want[i, j] = x[row, column] if inside else (np.nan if fill == "nan" else 0)
    octets = want.view(np.uint8).reshape(-1)
    if fill == "nan":
        got = found[[swizzled(o, span) for o in range(octets.size)]].view(dtype).reshape(want.shape)
        assert np.array_equal(got, want, equal_nan=True)
    else:
        assert found[[swizzled(o, span) for o in range(octets.size)]].tolist() == octets.tolist()


def test_boxes_of_more_dimensions_with_steps_and_strides(run: Any) -> None:
    x = np.arange(5 * 6 * 16, dtype=np.float32).reshape(5, 6, 16)
    found = load_box(
        run, TensorMap(x, (5, 6, 16), None, (2, 4, 8), "f32", steps=(1, 2, 1)), [1, 1, 4], 2 * 2 * 8 * 4
    )
    want = [
        [x[1 + k, 1 + 2 * j, 4 + i] if 1 + 2 * j < 6 else 0 for i in range(8)]
        for k in range(2)
        for j in range(2)
    ]
    assert found.view(np.float32).reshape(4, 8).tolist() == want
    view = x.reshape(30, 16)
    found = load_box(run, TensorMap(view, (10, 8), (192, 4), (4, 8), "f32"), [2, 0], 128)
    assert found.view(np.float32).reshape(4, 8).tolist() == view[6:18:3, :8].tolist()


@pytest.mark.parametrize(("operation", "function"), [("", None), ("add", np.add), ("max", np.maximum)])
@pytest.mark.parametrize(("delivery", "seed"), POLICIES)
def test_boxes_are_stored_where_they_are_inside(
    run: Any, operation: str, function: Any, delivery: str, seed: int
) -> None:
    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    target = np.full((18, 20), 100, np.float32)
    target_map = TensorMap(target, (18, 20), None, (16, 16), "f32", 64)
    opcode, word = (
        ("cp.reduce.async.bulk.tensor", f".{operation}") if operation else ("cp.async.bulk.tensor", "")
    )
    after = f"""
      @%p1 bra END; mov.u64 %rd9, to; cvta.param.u64 %rd9, %rd9;
      {opcode}.2d.global.shared::cta{word}.tile.bulk_group [%rd9, {{7, -3}}], [%r1]; cp.async.bulk.commit_group;
      cp.async.bulk.wait_group.read 0;
    END:
    """
    text = (
        TMA.replace("AFTER", after)
        .replace("BYTES", "1024")
        .replace("RANK", "2")
        .replace("COORDINATES", "0, 0")
    )
    source = TensorMap(x, (16, 16), None, (16, 16), "f32", 64)
    options = {"delivery": delivery, "seed": seed, "level": 3}
    run(text, [], more=f"{MAP}, .param .align 64 .b8 to[128]", scalars=[source, target_map], **options)
    want = np.full((18, 20), 100, np.float32)
    box = x[3:, :13]
    want[:13, 7:] = function(want[:13, 7:], box) if function else box
    assert np.array_equal(target, want)


def test_maps_that_no_device_accepts(run: Any) -> None:
    x = np.zeros((16, 16), np.float32)
    for arguments, problem in (
        ({"box": (16, 3)}, "multiple of 16"), ({"box": (16, 16), "swizzle": 32}, "more than the swizzle's 32"),
        ({"box": (300, 4)}, "every extent is 1 to 256"), ({"box": (16, 4), "strides": (68, 4)}, "no multiples of 16"),
    ):  # fmt: skip
        tensor_map = TensorMap(
            x, (16, 16), arguments.get("strides"), arguments["box"], "f32", arguments.get("swizzle", 0)
        )
        with pytest.raises(PtxCheckError, match=problem):
            load_box(run, tensor_map, [0, 0], 1024)
    with pytest.raises(PtxCheckError, match="bounds"):
        load_box(run, TensorMap(x, (17, 16), None, (16, 16), "f32"), [5, 0], 1024)
    text = TMA.replace("AFTER", "").replace("BYTES", "1024").replace("RANK", "2").replace("COORDINATES", "0, 0")
    text = text.replace("[%r1], [%rd9", "[%r1+64], [%rd9")
    with pytest.raises(PtxCheckError, match="no multiple of 128"):
        run(text, [], more=MAP, scalars=[TensorMap(x, (16, 16), None, (16, 16), "f32")])
    with pytest.raises(UserError, match="tensor map of f33"):
        TensorMap(x, (16, 16), None, (16, 16), "f33")


REPLACED = f"""
  {SHARED} {INIT} .shared .align 128 .b8 desc[128];
  mov.u32 %r3, desc; mad.lo.u32 %r4, %r0, 4, %r3; st.shared.u32 [%r4], 0; bar.warp.sync -1; cvt.u64.u32 %rd5, %r3;
  @%p1 bra COPY;
  tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%rd5+0], %rd1;
  tensormap.replace.tile.rank.shared::cta.b1024.b32 [%rd5+0], 0x1;
  mov.u32 %r6, 8; mov.u32 %r7, 24; mov.u32 %r8, 1; mov.u64 %rd6, 96;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd5+0], 0x0, %r6;
  tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%rd5+0], 0x1, %r6;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd5+0], 0x0, %r7;
  tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%rd5+0], 0x1, %r6;
  tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%rd5+0], 0x0, %rd6;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%rd5+0], 0x0, %r8;
  tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%rd5+0], 0x1, %r8;
  tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%rd5+0], 0x7;
  tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%rd5+0], 0x1;
COPY: bar.warp.sync -1;
  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2+0], [%rd5+0], 0x80;
  FENCE
  bar.sync 0; @%p1 bra DONE;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 256;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%rd2, {{16, 0}}], [%r2];
DONE: {WAIT}
  shl.b32 %r5, %r0, 3; add.u32 %r6, %r1, %r5; cvt.u64.u32 %rd10, %r5; add.u64 %rd3, %rd3, %rd10;
  ld.shared.v2.u32 {{%r10, %r11}}, [%r6]; st.global.v2.u32 [%rd3], {{%r10, %r11}}; ret;
"""


def test_a_map_made_by_the_kernel(run: Any) -> None:
    x, space, out = np.arange(8 * 24, dtype=np.float32), np.zeros(128, np.uint8), np.zeros(64, np.float32)
    acquire = "fence.proxy.tensormap::generic.acquire.gpu [%rd2+0], 0x80;"
    run(REPLACED.replace("FENCE", acquire), [x, space, out], level=2)
    octets = out.view(np.uint8)[[swizzled(o, 32) for o in range(256)]]
    assert octets.view(np.float32).reshape(8, 8).tolist() == x.reshape(8, 24)[:, 16:].tolist()
    with pytest.raises(PtxCheckError, match="proxy: a tensor map that was written and not acquired"):
        run(REPLACED.replace("FENCE", ""), [x, space, out])


# -- clusters


def test_blocks_of_a_cluster_read_each_other(run: Any) -> None:
    out = np.zeros((4, 32), np.uint32)
    body = """
      .shared .align 16 .b8 own[128]; mov.u32 %r1, own; shl.b32 %r2, %r0, 2; add.u32 %r1, %r1, %r2; mov.u32 %r3, %ctaid.x;
      mov.u32 %r4, %cluster_ctarank; mul.lo.u32 %r5, %r3, 1000; add.u32 %r5, %r5, %r0; st.shared.u32 [%r1], %r5;
      barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
      xor.b32 %r6, %r4, 1; mapa.shared::cluster.u32 %r7, %r1, %r6; ld.shared::cluster.u32 %r8, [%r7];
      getctarank.shared::cluster.u32 %r9, %r7; mad.lo.u32 %r8, %r9, 100000, %r8;
      mad.lo.u32 %r10, %r3, 32, %r0; mad.wide.u32 %rd1, %r10, 4, %rd1; st.global.u32 [%rd1], %r8;
      barrier.cluster.arrive; barrier.cluster.wait; ret;
    """
    run(body, [out], grid=4, cluster=2, level=3)
    lane = np.arange(32)
    for block in range(4):
        assert out[block].tolist() == ((block ^ 1) * 1000 + lane + 100000 * (1 - block % 2)).tolist()
    with pytest.raises(PtxCheckError, match=r"bounds: a shared::cluster address of block|mapa for a block"):
        run(body.replace("xor.b32 %r6, %r4, 1", "mov.u32 %r6, 2"), [out], grid=4, cluster=2)
    late = "nanosleep.u32 1; LATE: add.u32 %r11, %r11, 1; setp.lt.u32 %p1, %r11, %r6; @%p1 bra LATE; mapa"
    without = body.replace("barrier.cluster.arrive; barrier.cluster.wait;", "").replace("mapa", late)
    with pytest.raises(PtxCheckError, match="has ended; its shared memory is gone"):
        run(without.replace("mov.u32 %r4", "mov.u32 %r11, 0; mov.u32 %r4"), [out], grid=4, cluster=2)


def test_a_multicast_reaches_the_blocks_of_its_mask(run: Any) -> None:
    x = np.arange(16 * 16, dtype=np.float32).reshape(16, 16)
    out = np.zeros((2, 256), np.float32)
    body = f"""
      {SHARED} {INIT} @%p1 bra ARRIVED; mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
    ARRIVED:
      barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r5, %cluster_ctarank; setp.ne.or.u32 %p3, %r5, 0, %p1;
      @%p3 bra DONE;
      mov.u64 %rd9, map; cvta.param.u64 %rd9, %rd9; mov.u16 %h1, 3;
      cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster
        [%r1], [%rd9, {{0, 0}}], [%r2], %h1;
    DONE:
      {WAIT} shl.b32 %r6, %r0, 5; add.u32 %r6, %r6, %r1; mad.wide.u32 %rd1, %r5, 1024, %rd1; mad.wide.u32 %rd1, %r0, 32, %rd1;
      ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r6]; st.global.v4.u32 [%rd1], {{%r10, %r11, %r12, %r13}};
      barrier.cluster.arrive; barrier.cluster.wait; ret;
    """
    for delivery, seed in POLICIES:
        tensor_map = TensorMap(x, (16, 16), None, (16, 16), "f32")
        run(body, [out], more=MAP, scalars=[tensor_map], grid=2, cluster=2, delivery=delivery, seed=seed)
        assert all(np.array_equal(row.reshape(32, 8)[:, :4], x.reshape(32, 8)[:, :4]) for row in out)
    with pytest.raises(PtxCheckError, match="multicast mask"):
        run(body.replace("mov.u16 %h1, 3", "mov.u16 %h1, 7"), [out], more=MAP,
            scalars=[TensorMap(x, (16, 16), None, (16, 16), "f32")], grid=2, cluster=2)  # fmt: skip


# -- products of warpgroups


def descriptor(start: int, leading: int, stride: int, span: int) -> int:
    code = {0: 0, 128: 1, 64: 2, 32: 3}[span]
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | code << 62


def panel(matrix: np.ndarray, span: int) -> tuple[np.ndarray, int, int]:
    """A rows × k operand (contiguous k) as bytes in shared memory with a swizzle, and the descriptor's two distances."""
    rows, octets = matrix.shape[0], matrix.view(np.uint8).reshape(matrix.shape[0], -1)
    width = octets.shape[1]
    space = np.zeros(rows * max(width, span or 16), np.uint8)
    if span:
        leading, stride = 16, 8 * span
        for r in range(rows):
            for b in range(width):
                space[swizzled(r // 8 * stride + r % 8 * span + b, span)] = octets[r, b]
    else:
        leading, stride = rows * 16, 128
        for r in range(rows):
            for b in range(width):
                space[r // 8 * stride + r % 8 * 16 + b // 16 * leading + b % 16] = octets[r, b]
    return space, leading, stride


WGMMA = [
    ("bf16", "f32", 8, 16, "bf16.bf16", ml_dtypes.bfloat16), ("f16", "f32", 24, 16, "f16.f16", np.float16),
    ("f16", "f16", 16, 16, "f16.f16", np.float16), ("tf32", "f32", 16, 8, "tf32.tf32", np.float32),
    ("s8", "s32", 32, 32, "s8.s8", np.int8), ("e4m3", "f32", 16, 32, "e4m3.e4m3", ml_dtypes.float8_e4m3fn),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("span", [0, 32, 64, 128])
@pytest.mark.parametrize(
    ("a_type", "d_type", "n", "k", "types", "dtype"), WGMMA, ids=[f"{r[0]}-{r[1]}-{r[2]}" for r in WGMMA]
)
def test_wgmma(run: Any, span: int, a_type: str, d_type: str, n: int, k: int, types: str, dtype: Any) -> None:
    rng = np.random.default_rng(n + k)
    a, b = rng.integers(-4, 5, (64, k)).astype(dtype), rng.integers(-4, 5, (n, k)).astype(dtype)
    (a_space, a_lead, a_stride), (b_space, b_lead, b_stride) = panel(a, span), panel(b, span)
    place = -(-a_space.size // 1024) * 1024
    memory = np.zeros(-(-(place + b_space.size) // 2048) * 2048, np.uint8)
    memory[: a_space.size], memory[place : place + b_space.size] = a_space, b_space
    count = n // 2 // (2 if d_type == "f16" else 1)
    out = np.zeros((128, count), np.uint32)
    registers = "{" + ", ".join(f"%r{50 + i}" for i in range(count)) + "}"
    rest = "" if d_type == "s32" else ", 1, 1" + (", 0, 0" if k == 16 else "")
    instruction = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d_type}.{types} {registers}, %rd5, %rd6, %p5{rest};"
    )
    fill = "".join(
        f"ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd1+{o}]; st.shared.v4.u32 [%r3+{o}], {{%r10, %r11, %r12, %r13}};"
        for o in range(0, memory.size, 2048)
    )
    body = f"""
      .shared .align 1024 .b8 operands[{memory.size}];
      mov.u32 %r1, operands; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; cvt.u64.u32 %rd9, %r2; add.u64 %rd1, %rd1, %rd9; {fill}
      fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned;
      mov.b64 %rd5, {descriptor(0, a_lead, a_stride, span)}; mov.b64 %rd6, {descriptor(place, b_lead, b_stride, span)};
      setp.ne.u32 %p5, 0, 0; {instruction}
      setp.eq.u32 %p5, 0, 0; {instruction}
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mad.wide.u32 %rd2, %r0, {4 * count}, %rd2;
      {"".join(f"st.global.u32 [%rd2+{4 * i}], %r{50 + i};" for i in range(count))} ret;
    """
    run(body, [memory, out], threads=128, level=3)
    work = np.int64 if d_type == "s32" else np.float64
    want = 2 * (a.astype(work) @ b.astype(work).T)
    got = out.view({"f32": np.float32, "f16": np.float16, "s32": np.int32}[d_type]).reshape(128, n // 2)
    for lane in range(128):
        for i in range(n // 2):
            row, column = (
                16 * (lane // 32) + lane % 32 // 4 + 8 * (i >> 1 & 1),
                8 * (i // 4) + 2 * (lane % 4) + (i & 1),
            )
            assert got[lane, i] == want[row, column]


def test_an_operand_in_registers_and_one_with_n_contiguous(run: Any) -> None:
    """A from registers, B row-major [k, n] in panels of 64 columns, sign of A turned."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(-4, 5, (64, 16)).astype(np.float16), rng.integers(-4, 5, (16, 128)).astype(np.float16)
    memory = np.zeros(4096, np.uint8)
    for kk in range(16):
        for n in range(128):
            at = swizzled(n * 2 // 128 * 2048 + kk // 8 * 1024 + kk % 8 * 128 + n * 2 % 128, 128)
            memory[at : at + 2] = b[kk, n : n + 1].view(np.uint8)
    lanes = np.zeros((128, 4, 2), np.float16)
    for lane in range(128):
        for r in range(4):
            for e in range(2):
                lanes[lane, r, e] = a[
                    16 * (lane // 32) + lane % 32 // 4 + 8 * (r & 1), 2 * (lane % 4) + e + 8 * (r >> 1)
                ]
    out = np.zeros((128, 64), np.float32)
    registers = "{" + ", ".join(f"%r{50 + i}" for i in range(64)) + "}"
    body = f"""
      .shared .align 1024 .b8 operands[4096];
      mov.u32 %r1, operands; shl.b32 %r2, %r0, 4; add.u32 %r3, %r1, %r2; cvt.u64.u32 %rd9, %r2; add.u64 %rd1, %rd1, %rd9;
      ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd1]; st.shared.v4.u32 [%r3], {{%r10, %r11, %r12, %r13}};
      ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd1+2048]; st.shared.v4.u32 [%r3+2048], {{%r10, %r11, %r12, %r13}};
      add.u64 %rd2, %rd2, %rd9; ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd2];
      fence.proxy.async; bar.sync 0; wgmma.fence.sync.aligned; setp.ne.u32 %p5, 0, 0;
      wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {registers}, {{%r20, %r21, %r22, %r23}},
        {descriptor(0, 2048, 1024, 128)}, %p5, -1, 1, 1;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mad.wide.u32 %rd3, %r0, 256, %rd3;
      {"".join(f"st.global.u32 [%rd3+{4 * i}], %r{50 + i};" for i in range(64))} ret;
    """
    run(body, [memory, lanes, out], threads=128, level=2)
    want = -(a.astype(np.float32) @ b.astype(np.float32))
    for lane in range(0, 128, 3):
        for i in range(64):
            row, column = (
                16 * (lane // 32) + lane % 32 // 4 + 8 * (i >> 1 & 1),
                8 * (i // 4) + 2 * (lane % 4) + (i & 1),
            )
            assert out[lane, i] == want[row, column]


def test_register_pools(run: Any) -> None:
    body = """
      setp.ge.u32 %p1, %r0, 128; @%p1 bra WORK;
      setmaxnreg.dec.sync.aligned.u32 40; ret;
    WORK: setmaxnreg.inc.sync.aligned.u32 INCREASE; ret;
    """
    run(body.replace("INCREASE", "232"), [], threads=384)
    with pytest.raises(PtxCheckError, match="deadlock"):
        run(body.replace("INCREASE", "248"), [], threads=384)
    with pytest.raises(UserError, match="multiple of 8"):
        run(body.replace("INCREASE", "230"), [], threads=384)
