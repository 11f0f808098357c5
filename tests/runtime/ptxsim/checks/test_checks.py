"""Every check: a kernel without the bug is silent under all policies, one with the bug is reported at the right level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joinery.runtime.ptxsim import PtxCheckError, Result

POLICIES = [("late", 0), ("early", 0), ("random", 1), ("random", 2)]


def kinds(run: Any, body: str, arrays: list[Any], **options: Any) -> set[str]:
    """What a launch reports, violations and warnings."""
    try:
        result: Result = run(body, arrays, **options)
    except PtxCheckError as error:
        return {f.kind for f in error.findings}
    return {f.kind for f in result.findings}


# A pipeline: 128 threads copy tiles of 512 bytes into a ring of three and add up what other lanes brought.
PIPELINE = """
  .shared .align 128 .b8 ring[1536];
  mov.u32 %r1, ring; shl.b32 %r2, %r0, 2; xor.b32 %r3, %r2, 128; mov.u32 %r4, 0; mov.u32 %r9, 0;
  add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; add.u32 %r5, %r1, %r2; add.u32 %r6, %r1, %r3;
  cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%r5+512], [%rd1+512], 4; cp.async.commit_group;
LOOP:
  cp.async.wait_group 1;
  bar.sync 0;
  rem.u32 %r7, %r4, 3; mad.lo.u32 %r8, %r7, 512, %r6; ld.shared.u32 %r10, [%r8]; add.u32 %r9, %r9, %r10;
  add.u32 %r11, %r4, 2; rem.u32 %r7, %r11, 3; mad.lo.u32 %r8, %r7, 512, %r5; mul.wide.u32 %rd5, %r11, 512;
  add.u64 %rd6, %rd1, %rd5;
  setp.lt.u32 %p1, %r11, 6; @%p1 cp.async.ca.shared.global [%r8], [%rd6], 4; cp.async.commit_group;
  add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 6; @%p2 bra LOOP;
  cp.async.wait_group 0;
  st.global.u32 [%rd2], %r9; ret;
"""
PIPELINE_BUGS = {
    "waits for one group too few": (
        "cp.async.wait_group 1;",
        "cp.async.wait_group 2;",
        2,
        {"in flight", "race"},
    ),
    "no barrier": ("bar.sync 0;\n", "", 3, {"race"}),
    "no commit": ("[%rd6], 4; cp.async.commit_group;", "[%rd6], 4;", 2, {"in flight"}),
    "a stage too few": ("rem.u32 %r7, %r11, 3;", "rem.u32 %r7, %r4, 3;", 3, {"race"}),
}


def pipeline(run: Any, body: str, **options: Any) -> tuple[set[str], bool]:
    x, out = np.arange(6 * 128, dtype=np.uint32), np.zeros(128, np.uint32)
    found = kinds(run, body, [x, out], threads=128, **options)
    return found, np.array_equal(out, x.reshape(6, 4, 32).sum(0)[[1, 0, 3, 2]].reshape(-1))


@pytest.mark.parametrize(("delivery", "seed"), POLICIES)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_pipeline_of_copies_is_silent_and_right(run: Any, delivery: str, seed: int, level: int) -> None:
    assert pipeline(run, PIPELINE, level=level, delivery=delivery, seed=seed) == (set(), True)


@pytest.mark.parametrize("name", PIPELINE_BUGS)
def test_bugs_of_the_pipeline_are_reported(run: Any, name: str) -> None:
    old, new, level, expected = PIPELINE_BUGS[name]
    assert PIPELINE.count(old) == 1
    found, _ = pipeline(run, PIPELINE.replace(old, new), level=level)
    assert found & expected


def test_a_missing_wait_shows_in_the_result_at_level_1(run: Any) -> None:
    found, right = pipeline(
        run, PIPELINE.replace("cp.async.wait_group 1;", "cp.async.wait_group 2;"), level=1
    )
    assert not found
    assert not right


# -- undefined values

UNDEFINED = {
    "a register that one path leaves alone": (
        "setp.lt.u32 %p1, %r0, 9; @%p1 mov.u32 %r1, 5; add.u32 %r2, %r1, 1; {use} ret;",
        "@%p1 mov.u32 %r1, 5", "mov.u32 %r1, 5"),
    "shared bytes that nothing wrote": (
        "ld.shared.u32 %r2, [buffer+64]; {use} ret;", "ld.shared", "st.shared.u32 [buffer+64], 3; bar.sync 0; ld.shared"),
    "local bytes that nothing wrote": (
        "mov.u64 %rd5, depot; st.local.u16 [%rd5], 7; ld.local.u32 %r2, [%rd5]; {use} ret;", "st.local.u16", "st.local.u32"),
    "half of a word": (
        "st.shared.u16 [buffer], 7; bar.sync 0; ld.shared.u32 %r2, [buffer]; {use} ret;", "st.shared.u16", "st.shared.u32"),
    "what a shuffle brings": (
        "setp.lt.u32 %p1, %r0, 9; @%p1 mov.u32 %r1, 5; shfl.sync.idx.b32 %r2, %r1, 20, 31, -1; {use} ret;", "20, 31", "3, 31"),
    "the result of a conversion": ("cvt.rn.f32.u32 %f1, %r1; mov.b32 %r2, %f1; {use} ret;", "cvt", "mov.u32 %r1, 4; cvt"),
}  # fmt: skip
USES = {
    "branch": "setp.eq.u32 %p3, %r2, 0; @%p3 bra NEXT; NEXT:",
    "address": "mad.wide.u32 %rd9, %r2, 0, %rd1; ld.global.u32 %r4, [%rd9];",
    "result": "st.global.u32 [%rd1], %r2;", "atomic": "red.global.add.u32 [%rd1], %r2;",
}  # fmt: skip
DECLARED = ".shared .align 16 .b8 buffer[128]; .local .align 16 .b8 depot[16];"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", UNDEFINED)
@pytest.mark.parametrize("use", USES)
def test_undefined_values_are_reported_where_they_matter(run: Any, name: str, use: str) -> None:
    body, old, new = UNDEFINED[name]
    out = [np.zeros(8, np.uint32)]
    assert body.count(old) == 1
    text = DECLARED + body.replace("{use}", USES[use])
    assert kinds(run, text, out, level=2) == {"uninitialised"}
    assert kinds(run, text, out, level=1) == set()
    assert kinds(run, DECLARED + body.replace("{use}", USES[use]).replace(old, new, 1), out, level=2) == set()


@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %r2, {%h1, %h2}; mov.b32 {%h3, %h4}, %r2;",  # moved only
        "mov.u16 %h1, 4; mov.b32 %r2, {%h1, %h2}; and.b32 %r3, %r2, 0xffff; st.global.u32 [%rd1], %r3;",
        "mov.u16 %h1, 4; mov.b32 %r2, {%h2, %h1}; shr.u32 %r3, %r2, 16; st.global.u32 [%rd1], %r3;",
        "mov.u16 %h1, 4; mov.b32 %r2, {%h2, %h1}; prmt.b32 %r3, %r2, 0, 0x4432; st.global.u32 [%rd1], %r3;",
        "mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 1; selp.u32 %r3, %r1, %r2, %p1; st.global.u32 [%rd1], %r3;",
        "mov.u32 %r1, 1; setp.eq.u32 %p1, %r1, 2; and.pred %p3, %p1, %p2; @%p3 bra NEXT; NEXT:",
        "mov.f32 %f1, 0f3F800000; cvt.rn.bf16x2.f32 %r3, %f2, %f1; cvt.u16.u32 %h1, %r3; st.global.u16 [%rd1], %h1;",
        "mov.u16 %h1, 4; mov.b32 %r2, {%h1, %h2}; add.f16x2 %r3, %r2, %r2; mov.b32 {%h4, %h5}, %r3; st.global.b16 [%rd1], %h4;",
        'mov.u64 %rd5, depot; st.local.u16 [%rd5], 7; .pragma "used_bytes_mask 0x3"; ld.local.u32 %r2, [%rd5];'
        "st.global.u32 [%rd1], %r2;",
    ],
)
def test_undefined_halves_may_travel_along(run: Any, body: str) -> None:
    assert kinds(run, DECLARED + body + " ret;", [np.zeros(8, np.uint32)], level=2) == set()


# -- races in shared memory

EXCHANGE = """
  .shared .align 16 .b8 cells[256]; mov.u32 %r1, cells; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; xor.b32 %r4, %r2, OTHER;
  add.u32 %r4, %r4, %r1; st.shared.u32 [%r3], %r0; {first} ld.shared.u32 %r5, [%r4]; {second} st.shared.u32 [%r3], %r5;
  {third} ld.shared.u32 %r6, [%r4]; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r6; ret;
"""


SHUFFLE = "shfl.sync.bfly.b32 %r9, %r0, 1, 31, -1;"


@pytest.mark.parametrize("missing", ["", "first", "second", "third"])
@pytest.mark.parametrize(("other", "barrier"), [(128, "bar.sync 0;"), (4, "bar.sync 0;"), (4, "bar.warp.sync -1;")])
@pytest.mark.parametrize("instead", ["", SHUFFLE])
def test_races_between_lanes(run: Any, missing: str, other: int, barrier: str, instead: str) -> None:
    """Lanes run in step here, and lanes of a warp meet at shuffles: neither orders memory."""
    barriers = {name: instead if name == missing else barrier for name in ("first", "second", "third")}
    body = EXCHANGE.replace("OTHER", str(other)).format(**barriers)
    found = kinds(run, body, [np.zeros(64, np.uint32)], threads=64, level=3)
    assert found == ({"race"} if missing else set())


@pytest.mark.parametrize(("mask", "raced"), [("-1", False), ("%r7", False), ("%r8", True)])
def test_a_barrier_of_a_warp_is_for_the_lanes_of_its_mask(run: Any, mask: str, raced: bool) -> None:
    """Lanes exchange with the lane next to them; %r7: the pairs that do; %r8: other pairs."""
    pairs = """
      and.b32 %r7, %r0, 30; mov.u32 %r8, 3; shl.b32 %r7, %r8, %r7;
      add.u32 %r9, %r0, 1; and.b32 %r9, %r9, 30; shl.b32 %r8, 1, %r9; sub.u32 %r9, %r9, 1; and.b32 %r9, %r9, 31;
      shl.b32 %r9, 1, %r9; or.b32 %r8, %r8, %r9;
    """
    barriers = dict.fromkeys(("first", "second", "third"), f"bar.warp.sync {mask};")
    body = pairs + EXCHANGE.replace("OTHER", "4").format(**barriers)
    assert kinds(run, body, [np.zeros(32, np.uint32)], level=3) == ({"race"} if raced else set())


HANDED_OVER = """
  .shared .align 16 .b8 cells[128]; .shared .align 8 .b8 bar[8]; mov.u32 %r1, cells; mov.u32 %r2, bar;
  setp.ne.u32 %p1, %r0, 0; @%p1 bra READY; mbarrier.init.shared.b64 [%r2], 1; READY: bar.sync 0;
  and.b32 %r3, %r0, 31; shl.b32 %r4, %r3, 2; add.u32 %r4, %r4, %r1; setp.gt.u32 %p2, %r0, 31; @%p2 bra WAIT;
  st.shared.u32 [%r4], %r0; {between} setp.ne.u32 %p3, %r3, 0; @%p3 bra END; mbarrier.arrive.shared.b64 _, [%r2]; bra.uni END;
  WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra WAIT;
  ld.shared.u32 %r5, [%r4]; mul.wide.u32 %rd5, %r3, 4; add.u64 %rd1, %rd1, %rd5; st.global.u32 [%rd1], %r5;
  END: ret;
"""


def test_an_arrival_speaks_for_its_lane(run: Any) -> None:
    """The first lane of a warp says that the warp has written, which the others have to have told it."""
    for between, found in (("bar.warp.sync -1;", set()), ("", {"race"}), (SHUFFLE, {"race"})):
        assert kinds(run, HANDED_OVER.format(between=between), [np.zeros(32, np.uint32)], threads=64, level=3) == found


def test_a_copy_writes_from_its_start(run: Any) -> None:
    """What others still read must not be the target of a copy that starts, however late it lands."""
    body = """
      .shared .align 16 .b8 cells[256]; mov.u32 %r1, cells; shl.b32 %r2, %r0, 2; add.u32 %r3, %r1, %r2; xor.b32 %r4, %r3, 128;
      add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0; st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r5, [%r4];
      BEFORE cp.async.ca.shared.global [%r3], [%rd1], 4; cp.async.wait_all; bar.sync 0;
      ld.shared.u32 %r6, [%r4]; add.u32 %r5, %r5, %r6; st.global.u32 [%rd2], %r5; ret;
    """
    x, out = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32)
    assert kinds(run, body.replace("BEFORE", "bar.sync 0;"), [x, out], threads=64, level=3) == set()
    assert kinds(run, body.replace("BEFORE", ""), [x, out], threads=64, level=3) == {"race"}


LOCKED = """
  .shared .align 4 .b8 lock[4]; .shared .align 4 .b8 total[4]; setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
  st.shared.u32 [lock], 0; st.shared.u32 [total], 0;
READY: bar.sync 0; and.b32 %r1, %r0, 31; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;
SPIN: ATOM; setp.ne.u32 %p2, %r2, 0; @%p2 bra SPIN;
  ld.shared.u32 %r3, [total]; add.u32 %r3, %r3, %r0; st.shared.u32 [total], %r3;
  atom.shared.exch.b32 %r4, [lock], 0;
END: bar.sync 0; ld.shared.u32 %r5, [total]; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r5; ret;
"""


def test_a_lock_orders_warps(run: Any) -> None:
    out = np.zeros(96, np.uint32)
    body = LOCKED.replace("ATOM", "atom.shared.cas.b32 %r2, [lock], 0, 1")
    assert kinds(run, body, [out], threads=96, level=3) == set()
    assert out.tolist() == [96] * 96
    without = LOCKED.replace("ATOM", "mov.u32 %r2, 0").replace("atom.shared.exch.b32 %r4, [lock], 0;", "")
    assert kinds(run, without, [out], threads=96, level=3) == {"race"}


def test_bytes_that_the_grid_writes_are_not_loaded_as_constant(run: Any) -> None:
    body = "add.u64 %rd1, %rd1, %rd0; ld.global.nc.u32 %r1, [%rd1]; st.global.u32 [%rd1+PLACE], %r1; ret;"
    assert kinds(run, body.replace("PLACE", "128"), [np.zeros(64, np.uint32)], level=2) == set()
    assert kinds(run, body.replace("PLACE", "0"), [np.zeros(64, np.uint32)], level=2) == {"non-coherent"}
    assert kinds(run, body.replace("PLACE", "4"), [np.zeros(64, np.uint32)], grid=2, level=2) == {"non-coherent"}


def test_a_race_names_both_places(run: Any) -> None:
    body = EXCHANGE.replace("OTHER", "128").format(first="", second="bar.sync 0;", third="bar.sync 0;")
    with pytest.raises(PtxCheckError) as error:
        run(body, [np.zeros(64, np.uint32)], threads=64, level=3)
    message = str(error.value.findings[0])
    assert "reads shared byte" in message
    assert "written by lane" in message
    assert "at PTX line" in message


# -- TMA and warpgroups

TMA = """
  .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b8 bar[8];
  setp.ne.u32 %p1, %r0, 0; mov.u32 %r1, tile; mov.u32 %r2, bar; @%p1 bra READY;
  mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;
READY:
  bar.sync 0; mov.u32 %r4, 0; shl.b32 %r5, %r0, 4; add.u32 %r6, %r1, %r5; mov.u32 %r9, 0; cvt.u64.u32 %rd6, %r5;
LOOP:
  @%p1 bra WAIT;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];
WAIT:
  and.b32 %r7, %r4, 1; mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r7; @!%p2 bra WAIT;
  ld.shared.u32 %r8, [%r6]; add.u32 %r9, %r9, %r8; st.shared.u32 [%r6+2048], %r9;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 bra NEXT;
  cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r1+2048], 1024; cp.async.bulk.commit_group;
  cp.async.bulk.wait_group.read 0;
NEXT:
  bar.sync 0; add.u64 %rd1, %rd1, 1024; add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3; @%p3 bra LOOP;
  ret;
"""
TMA = TMA.replace(
    "bar.sync 0; mov.u32 %r4", "st.shared.v4.u32 [%r6+2048], {%r9, %r9, %r9, %r9}; bar.sync 0; mov.u32 %r4"
).replace("READY:", "READY: shl.b32 %r5, %r0, 4; add.u32 %r6, %r1, %r5; mov.u32 %r9, 0;")
TMA_BUGS = {
    "too few bytes expected": ("[%r2], 1024;", "[%r2], 512;", 1, {"race", "deadlock", "in flight", "mbarrier"}),
    "too many bytes expected": ("[%r2], 1024;", "[%r2], 2048;", 1, {"deadlock"}),
    "the other parity": ("and.b32 %r7, %r4, 1;", "and.b32 %r7, %r4, 1; xor.b32 %r7, %r7, 1;", 2,
                         {"in flight", "mbarrier", "uninitialised"}),
    "no fence before the store": ("fence.proxy.async.shared::cta;\n", "", 2, {"proxy"}),
    "no wait for the store": ("cp.async.bulk.wait_group.read 0;\n", "", 2, {"in flight"}),
    "no barrier behind the initialisation": ("bar.sync 0; mov.u32 %r4", "mov.u32 %r4", 3, {"race"}),
    "no wait for the load": ("WAIT;\n  ld.shared", "NOTHING; NOTHING:\n  ld.shared", 2, {"in flight"}),
    "store not committed": ("1024; cp.async.bulk.commit_group;", "1024;", 2, {"in flight"}),
    "no barrier before the store": ("bar.sync 0;\n  @%p1 bra NEXT;", "@%p1 bra NEXT;", 3, {"race", "proxy", "in flight"}),
    "initialised twice": ("fence.mbarrier_init", "mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init", 1, {"mbarrier"}),
    "never initialised": ("mbarrier.init.shared.b64 [%r2], 1;", "", 1, {"mbarrier"}),
    "an arrival too many": ("mbarrier.arrive.expect_tx", "mbarrier.arrive.shared.b64 _, [%r2], 2; mbarrier.arrive.expect_tx", 1,
                            {"mbarrier"}),
}  # fmt: skip


def tma(run: Any, body: str, **options: Any) -> tuple[set[str], bool]:
    x, out = np.arange(3 * 256, dtype=np.uint32), np.zeros(256, np.uint32)
    found = kinds(run, body, [x, out], threads=64, **options)
    return found, out.reshape(64, 4)[:, 0].tolist() == x.reshape(3, 64, 4)[:, :, 0].sum(0).tolist()


@pytest.mark.parametrize(("delivery", "seed"), POLICIES)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_bulk_copies_in_a_loop_are_silent_and_right(run: Any, delivery: str, seed: int, level: int) -> None:
    assert tma(run, TMA, level=level, delivery=delivery, seed=seed) == (set(), True)


@pytest.mark.parametrize("name", TMA_BUGS)
def test_bugs_of_bulk_copies_are_reported(run: Any, name: str) -> None:
    old, new, level, expected = TMA_BUGS[name]
    assert TMA.count(old) == 1, old
    body = TMA.replace(old, new)
    found, right = tma(run, body, level=level)
    if name == "too few bytes expected":  # the phase ends early: the data or the next level tells
        found |= tma(run, body, level=3)[0]
    assert found & expected, (found, right)


OBJECT = """
  .shared .align 1024 .b8 tile[2048]; .shared .align 8 .b8 bar[8];
  mov.u32 %r1, tile; mov.u32 %r2, bar; setp.ne.u32 %p1, %r0, 0; mov.u32 %r9, 0; setp.eq.u32 %p3, 0, 0; mov.u64 %rd9, 0;
  mul.wide.u32 %rd3, %r0, 16; cvt.u32.u64 %r3, %rd3; add.u32 %r3, %r1, %r3; st.shared.v4.u32 [%r3], {%r9, %r9, %r9, %r9};
  fence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
  @!%p1 mbarrier.init.shared.b64 [%r2], 1; @!%p1 mbarrier.init.shared.b64 [%r1+512], 1; fence.mbarrier_init.release.cluster;
  bar.sync 0;
  @!%p1 mbarrier.inval.shared.b64 [%r1+512];
  fence.proxy.async.shared::cta; bar.sync 0;
  ACCESS
  bar.sync 0; ret;
"""
OBJECT_ACCESSES = {
    "a store": "@!%p1 st.shared.u32 [%r1+512], %r9;",
    "a store of its end": "@!%p1 st.shared.u16 [%r1+518], %h1;",
    "a wide store that reaches it": "@!%p1 st.shared.v4.u32 [%r1+512], {%r9, %r9, %r9, %r9};",
    "a load": "@!%p1 ld.shared.u64 %rd8, [%r1+512];",
    "an atomic": "@!%p1 atom.shared.add.u32 %r9, [%r1+512], 1;",
    "a matrix's rows": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r9}, [%r3];",
    "cp.async": "@!%p1 cp.async.ca.shared.global [%r1+512], [%rd1], 16; cp.async.wait_all;",
    "a bulk copy into it": """@!%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1024;
      @!%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];
      WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0; @!%p2 bra WAIT;""",
    "a bulk copy out of it": """@!%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 1024;
      cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""",
    "a product's operand": """wgmma.fence.sync.aligned; shr.u32 %r4, %r1, 4; cvt.u64.u32 %rd5, %r4;
      or.b64 %rd6, %rd5, 0x0000000800080000; or.b64 %rd5, %rd5, 0x0000000800400000;
      wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r5, %r6, %r7, %r8}, %rd5, %rd6, %p3, 1, 1, 0, 0;
      wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;""",
}


@pytest.mark.parametrize("name", OBJECT_ACCESSES)
def test_memory_of_an_mbarrier_is_used_for_nothing_else(run: Any, name: str) -> None:
    """What lies where an mbarrier was is an access like others behind mbarrier.inval, and reported without."""
    body = OBJECT.replace("ACCESS", OBJECT_ACCESSES[name])
    invalidated = "@!%p1 mbarrier.inval.shared.b64 [%r1+512];"
    assert body.count(invalidated) == 1
    data = [np.zeros(256, np.uint32)]
    assert "mbarrier" not in kinds(run, body, data, threads=128, level=2)
    assert "mbarrier" in kinds(run, body.replace(invalidated, ""), data, threads=128, level=2)


WGMMA = """
  .shared .align 1024 .b8 a[2048]; .shared .align 1024 .b8 b[1024];
  mov.u32 %r1, a; mov.u32 %r2, b; shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; shl.b32 %r5, %r0, 3; add.u32 %r6, %r2, %r5;
  mov.u32 %r10, 0x3C003C00; st.shared.v4.u32 [%r4], {%r10, %r10, %r10, %r10}; st.shared.v2.u32 [%r6], {%r10, %r10};
  mov.b32 %r20, 0; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  wgmma.fence.sync.aligned; setp.eq.u32 %p1, 0, 0;
  shr.u32 %r7, %r1, 4; cvt.u64.u32 %rd5, %r7; or.b64 %rd5, %rd5, 0x0000000800400000;
  shr.u32 %r7, %r2, 4; cvt.u64.u32 %rd6, %r7; or.b64 %rd6, %rd6, 0x0000000800080000;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23}, %rd5, %rd6, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 0;
  st.shared.u32 [%r4], %r10;
  add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r20; ret;
"""
WGMMA_BUGS = {
    "D read before the wait": ("wgmma.wait_group.sync.aligned 0;\n  st.shared.u32 [%r4], %r10;",
                               "add.u32 %r9, %r20, 1; wgmma.wait_group.sync.aligned 0;", {"in flight"}),
    "D written before the wait": ("wgmma.wait_group.sync.aligned 0;\n  st.shared.u32 [%r4], %r10;",
                                  "mov.u32 %r21, 1; wgmma.wait_group.sync.aligned 0;", {"in flight"}),
    "no wait": ("wgmma.wait_group.sync.aligned 0;", "", {"in flight"}),
    "a wait for all but one": ("wait_group.sync.aligned 0;", "wait_group.sync.aligned 1;", {"in flight"}),
    "operand overwritten": ("wgmma.wait_group.sync.aligned 0;\n  st.shared.u32 [%r4], %r10;",
                            "st.shared.u32 [%r4], 0; wgmma.wait_group.sync.aligned 0;", {"in flight"}),
    "no fence": ("fence.proxy.async.shared::cta;\n", "", {"proxy"}),
    "undefined operand": ("st.shared.v2.u32 [%r6], {%r10, %r10};", "", {"uninitialised"}),
}  # fmt: skip


def test_bugs_of_wgmma_are_reported(run: Any) -> None:
    def go(body: str) -> tuple[set[str], Any]:
        out = np.zeros(128, np.float32)
        return kinds(run, body, [out], threads=128, level=2), out

    found, out = go(WGMMA)
    assert (found, out.tolist()) == (set(), [16.0] * 128)
    for name, (old, new, expected) in WGMMA_BUGS.items():
        assert WGMMA.count(old) == 1, name
        found, _ = go(WGMMA.replace(old, new))
        assert found & expected, (name, found)


STAGES = """
  .shared .align 1024 .b8 a[4096]; .shared .align 1024 .b8 b[1024];
  mov.u32 %r1, a; mov.u32 %r2, b; shl.b32 %r3, %r0, 4; add.u32 %r4, %r1, %r3; shl.b32 %r5, %r0, 2; add.u32 %r6, %r2, %r5;
  mov.u32 %r10, 0x3C003C00; st.shared.v4.u32 [%r4], {%r10, %r10, %r10, %r10}; st.shared.u32 [%r6], %r10;
  fence.proxy.async.shared::cta; bar.sync 0; wgmma.fence.sync.aligned; setp.ne.u32 %p1, 0, 0;
  shr.u32 %r7, %r0, 7; shl.b32 %r7, %r7, 11; add.u32 %r7, %r7, %r1; shr.u32 %r7, %r7, 4; cvt.u64.u32 %rd5, %r7;
  or.b64 %rd5, %rd5, 0x0000000800400000; shr.u32 %r7, %r2, 4; cvt.u64.u32 %rd6, %r7; or.b64 %rd6, %rd6, 0x0000000800080000;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r20, %r21, %r22, %r23}, %rd5, %rd6, %p1, 1, 1, 0, 0;
  wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
  bar.sync 0; st.shared.u32 [%r6], %r20; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r21; ret;
"""


def test_a_warpgroup_does_not_write_what_another_one_multiplies(run: Any) -> None:
    """Each has waited for its own product only; B belongs to both."""
    out = np.zeros(256, np.float32)
    assert kinds(run, STAGES, [out], threads=256, level=3) == set()
    assert out.tolist() == [16.0] * 256
    without = STAGES.replace("wait_group.sync.aligned 0;\n  bar.sync 0;", "wait_group.sync.aligned 0;")
    assert kinds(run, without, [out], threads=256, level=3) == {"race"}


# -- statistics

ACCESS = """
  .shared .align 128 .b8 cells[16384]; mov.u32 %r1, cells; mad.lo.u32 %r2, %r0, STRIDE, %r1; st.shared.WORD [%r2], VALUE;
  mad.wide.u32 %rd1, %r0, STRIDE, %rd1; st.global.WORD [%rd1], VALUE; ret;
"""


@pytest.mark.parametrize(
    ("stride", "word", "passes", "sectors"),
    [(4, "u32", (2, 2, 2), (2, 8, 8)), (8, "u32", (2, 2, 4), (2, 8, 16)), (128, "u32", (2, 2, 64), (2, 8, 64)),
     (0, "u32", (2, 2, 2), (2, 2, 2)), (16, "v4.u32", (2, 8, 8), (2, 32, 32)), (32, "v4.u32", (2, 8, 16), (2, 32, 64))],
)  # fmt: skip
def test_bank_conflicts_and_sectors(run: Any, stride: int, word: str, passes: Any, sectors: Any) -> None:
    value = "{%r0, %r0, %r0, %r0}" if word.startswith("v4") else "%r0"
    body = ACCESS.replace("STRIDE", str(stride)).replace("WORD", word).replace("VALUE", value)
    text = (
        body if stride else body.replace(f"st.shared.{word} [%r2], {value};", f"ld.shared.{word} %r9, [%r2];")
    )
    result = run(text, [np.zeros(4096, np.uint32)], threads=64, level=3)
    assert list(result.conflicts.values()) == [passes]
    assert list(result.sectors.values()) == [sectors]


def test_bank_conflicts_of_matrix_rows(run: Any) -> None:
    """Rows of 16 bytes: 32 apart twice as many passes as side by side, 128 apart eight times."""
    for distance, passes in ((16, 4), (32, 8), (128, 32)):
        body = f"""
          .shared .align 128 .b8 tile[4096]; mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, {distance}, %r1;
          ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2]; ret;
        """
        assert list(run(body, [], level=3).conflicts.values()) == [(1, 4, passes)]


def test_undefined_elements_travel_through_matrix_stores(run: Any) -> None:
    body = """
      .shared .align 128 .b8 tile[512]; mov.u32 %r1, tile; shl.b32 %r2, %r0, 4; add.u32 %r2, %r2, %r1; mov.u16 %h1, 5;
      mov.b32 %r3, {%h1, %h2};
      stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {%r3}; bar.sync 0; ld.shared.u16 %h3, [%r2+PLACE];
      st.global.u16 [%rd1], %h3; ret;
    """
    first = body.replace("st.global", "setp.eq.u32 %p1, %r0, 0; @%p1 st.global")
    assert kinds(run, first.replace("PLACE", "0"), [np.zeros(2, np.uint16)], level=2) == set()
    assert kinds(run, first.replace("PLACE", "2"), [np.zeros(2, np.uint16)], level=2) == {"uninitialised"}


def test_division_by_zero_is_a_warning(run: Any) -> None:
    out = np.zeros(4, np.uint32)
    body = "setp.gt.u32 %p1, %r0, 3; @%p1 ret; div.u32 %r1, 8, %r0; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r1; ret;"
    result = run(body, [out])
    assert [(f.kind, f.warning, f.lanes) for f in result.findings] == [("division by zero", True, (0,))]
    assert out.tolist()[1:] == [8, 4, 2]
    assert result.families["div"] == 1
