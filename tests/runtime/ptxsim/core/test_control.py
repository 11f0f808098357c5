"""Divergence, loops, barriers, spin locks, calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from joinery.promotion.errors import UnsupportedError, UserError
from joinery.runtime.ptxsim import Module, PtxCheckError

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def lanes(threads: int) -> np.ndarray:
    return np.arange(threads, dtype=np.uint32)


COLLATZ = """
  add.u64 %rd1, %rd1, %rd0; add.u64 %rd2, %rd2, %rd0;
  ld.global.u32 %r1, [%rd1]; mov.u32 %r2, 0;
LOOP:
  setp.le.u32 %p1, %r1, 1; @%p1 bra DONE;
  and.b32 %r3, %r1, 1; setp.eq.u32 %p2, %r3, 0; @%p2 bra EVEN;
  mad.lo.u32 %r1, %r1, 3, 1; bra NEXT;
EVEN:
  shr.u32 %r1, %r1, 1;
NEXT:
  add.u32 %r2, %r2, 1; bra LOOP;
DONE:
  st.global.u32 [%rd2], %r2; ret;
"""


def collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n, steps = (3 * n + 1 if n % 2 else n // 2), steps + 1
    return steps


@pytest.mark.parametrize("threads", [32, 96, 70, 1])
@pytest.mark.parametrize("level", [1, 3])
def test_lanes_loop_as_often_as_they_want(run: Any, threads: int, level: int) -> None:
    x, out = lanes(threads) * 7 + 1, np.zeros(threads, np.uint32)
    run(COLLATZ, [x, out], threads=threads, level=level)
    assert out.tolist() == [collatz(int(n)) for n in x]


def test_lanes_meet_again_behind_a_branch(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      setp.lt.u32 %p1, %r0, 10; @%p1 bra THEN;
      mov.u32 %r1, 100; bra JOIN;
    THEN:
      mov.u32 %r1, 200;
    JOIN:
      shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
      add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r2; ret;
    """
    run(body, [out])
    assert out.tolist() == [100] * 22 + [200] * 10


def test_an_exit_block_that_stands_before_the_loop(run: Any) -> None:
    """Lanes that leave early reach the barrier of the exit first; they wait for the others there."""
    out = np.zeros(64, np.uint32)
    body = """
      mov.u32 %r1, 0; bra LOOP;
    EXIT:
      bar.sync 0;
      shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
      add.u64 %rd1, %rd1, %rd0; add.u32 %r2, %r2, %r1; st.global.u32 [%rd1], %r2; ret;
    LOOP:
      add.u32 %r1, %r1, 1; setp.gt.u32 %p1, %r1, %r0; @%p1 bra EXIT; bra LOOP;
    """
    run(body, [out], threads=64)
    assert out.tolist() == [i + 1 + (1 if i < 32 else 33) for i in range(64)]


def test_predicated_exits_and_instructions(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      add.u64 %rd1, %rd1, %rd0; setp.gt.u32 %p1, %r0, 20; setp.lt.u32 %p2, %r0, 5;
      @%p1 ret;
      mov.u32 %r1, 1; @%p2 mov.u32 %r1, 2; @!%p2 add.u32 %r1, %r1, 10;
      @%p2 exit;
      st.global.u32 [%rd1], %r1;
    """
    run(body, [out])
    assert out.tolist() == [0] * 5 + [11] * 16 + [0] * 11


def test_branch_tables(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      rem.u32 %r1, %r0, 3; add.u64 %rd1, %rd1, %rd0;
    TABLE: .branchtargets A, B, C;
      brx.idx %r1, TABLE;
    A: mov.u32 %r2, 7; bra OUT;
    B: mov.u32 %r2, 8; bra OUT;
    C: mov.u32 %r2, 9;
    OUT: st.global.u32 [%rd1], %r2; ret;
    """
    run(body, [out])
    assert out.tolist() == [7 + i % 3 for i in range(32)]
    with pytest.raises(PtxCheckError, match="beyond the branch table"):
        run(body.replace("rem.u32 %r1, %r0, 3", "rem.u32 %r1, %r0, 4"), [out])


@pytest.mark.slow
@pytest.mark.parametrize(
    "release", ["atom.global.exch.b32 %r6, [%rd1], 0;", "st.release.gpu.global.u32 [%rd1], 0;"]
)
@pytest.mark.parametrize("threads", [32, 64])
def test_a_spin_lock_between_the_lanes_of_a_warp(run: Any, threads: int, release: str) -> None:
    lock, total = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    body = f"""
    SPIN:
      atom.global.cas.b32 %r1, [%rd1], 0, 1; setp.ne.u32 %p1, %r1, 0; @%p1 bra SPIN;
      ld.volatile.global.u32 %r2, [%rd2]; add.u32 %r2, %r2, %r0; st.volatile.global.u32 [%rd2], %r2;
      {release}
      ret;
    """
    run(body, [lock, total], threads=threads)
    assert total[0] == threads * (threads - 1) // 2


def test_a_lane_waits_for_another_lane_of_its_warp(run: Any) -> None:
    flag, out = np.zeros(1, np.uint32), np.zeros(1, np.uint32)
    body = """
      setp.ne.u32 %p1, %r0, 0; @%p1 bra REST;
    WAIT:
      ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p2, %r1, 0; @%p2 bra WAIT;
      st.global.u32 [%rd2], %r1; ret;
    REST:
      setp.ne.u32 %p3, %r0, 31; @%p3 bra END;
      st.release.gpu.global.u32 [%rd1], 77;
    END: ret;
    """
    run(body, [flag, out])
    assert out[0] == 77


@pytest.mark.parametrize("level", [1, 2, 3])
def test_blocks_that_wait_for_each_other_take_turns(run: Any, level: int) -> None:
    """A grid barrier: every block waits until all have arrived."""
    counter, out = np.zeros(1, np.uint32), np.zeros(6, np.uint32)
    body = """
      mov.u32 %r1, %ctaid.x; mov.u32 %r9, %nctaid.x; setp.ne.u32 %p1, %r0, 0; @%p1 bra READY;
      red.release.gpu.global.add.u32 [%rd1], 1;
    WAIT:
      ld.acquire.gpu.global.u32 %r2, [%rd1]; setp.lt.u32 %p2, %r2, %r9; @%p2 bra WAIT;
    READY:
      bar.sync 0; ld.global.u32 %r3, [%rd1]; mul.wide.u32 %rd5, %r1, 4; add.u64 %rd2, %rd2, %rd5;
      @!%p1 st.global.u32 [%rd2], %r3; ret;
    """
    run(body, [counter, out], threads=64, grid=6, level=level)
    assert out.tolist() == [6] * 6


def test_a_wait_that_nobody_ends_is_a_deadlock(run: Any) -> None:
    body = "WAIT: ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT; ret;"
    with pytest.raises(PtxCheckError, match="deadlock: polls") as error:
        run(body, [np.zeros(1, np.uint32)], grid=2)
    assert {f.cta for f in error.value.findings} == {(0, 0, 0), (1, 0, 0)}


def test_an_endless_loop_exhausts_the_budget(run: Any) -> None:
    with pytest.raises(PtxCheckError, match="budget"):
        run("LOOP: add.u32 %r1, %r0, 1; bra LOOP;", [np.zeros(1, np.uint32)], budget=100_000)


# -- barriers


def test_named_barriers_between_producer_and_consumer_warps(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      mov.u32 %r5, buffer; shl.b32 %r6, %r0, 2; setp.ge.u32 %p1, %r0, 32; mov.u32 %r7, 0; @%p1 bra PRODUCE;
    CONSUME:
      bar.sync 1, 64; add.u32 %r8, %r5, %r6; ld.shared.u32 %r1, [%r8]; add.u32 %r9, %r9, %r1; bar.arrive 2, 64;
      add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 5; @%p2 bra CONSUME;
      add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], %r9; ret;
    PRODUCE:
      setp.eq.u32 %p3, %r7, 0; @%p3 bra FILL;
      bar.sync 2, 64;
    FILL:
      sub.u32 %r8, %r6, 128; add.u32 %r8, %r8, %r5; add.u32 %r1, %r7, %r0; st.shared.u32 [%r8], %r1; bar.arrive 1, 64;
      add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 5; @%p2 bra PRODUCE;
      ret;
    """
    body = body.replace("mov.u32 %r5, buffer", "mov.u32 %r9, 0; mov.u32 %r5, buffer")
    for level in (1, 2, 3):
        out[:] = 0
        run(body, [out], threads=64, before=".shared .align 16 .b8 buffer[128];", level=level)
        assert out.tolist() == [5 * (32 + i) + 10 for i in range(32)]


@pytest.mark.parametrize(("kind", "want"), [("and", 0), ("or", 1)])
def test_reducing_barriers(run: Any, kind: str, want: int) -> None:
    out = np.zeros(96, np.uint32)
    body = f"""
      setp.eq.u32 %p1, %r0, 40; add.u64 %rd1, %rd1, %rd0;
      bar.red.{kind}.pred %p2, 0, %p1; bar.red.popc.u32 %r1, 1, !%p1;
      selp.u32 %r2, 1, 0, %p2; mad.lo.u32 %r2, %r2, 1000, %r1; st.global.u32 [%rd1], %r2; ret;
    """
    run(body, [out], threads=96)
    assert out.tolist() == [1000 * want + 95] * 96


def test_lanes_that_have_ended_do_not_count_at_barriers(run: Any) -> None:
    out = np.zeros(64, np.uint32)
    body = """
      setp.ge.u32 %p1, %r0, 40; @%p1 ret;
      bar.sync 0; add.u64 %rd1, %rd1, %rd0; st.global.u32 [%rd1], 1; ret;
    """
    run(body, [out], threads=64)
    assert out.tolist() == [1] * 40 + [0] * 24


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "setp.lt.u32 %p1, %r0, 7; @%p1 bra A; bar.sync 1; bra B; A: bar.sync 2; B: ret;",
            "divergence: only some lanes",
        ),
        (
            "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1; bra B; A: bar.sync 2; B: ret;",
            "deadlock: waits at barrier",
        ),
        ("bar.sync 16; ret;", "there is no barrier 16"),
        ("bar.sync 1, 48; ret;", "multiple of 32"),
        ("bar.sync 1, 32; ret;", "64 threads arrived, 32 are expected"),
        (
            "setp.lt.u32 %p1, %r0, 32; @%p1 bra A; bar.sync 1, 64; bra B; A: bar.sync 1, 32; B: ret;",
            "arrived with|deadlock",
        ),
        ("bar.arrive 1, 128; ret;", "multiple of 32 up to"),
        ("trap;", "trap: the kernel trapped"),
        ("mov.u32 %r1, 1; shfl.sync.idx.b32 %r2, %r1, 0, 31, 0xfffffffe; ret;", "member mask"),
        ("setp.lt.u32 %p1, %r0, 7; @%p1 shfl.sync.idx.b32 %r2, %r0, 0, 31, -1; ret;", ""),
    ],
)
def test_broken_rules_are_reported(run: Any, body: str, problem: str) -> None:
    if not problem:  # the lanes that pass by end, and the others go on without them
        run(body, [], threads=64)
        return
    with pytest.raises(PtxCheckError, match=problem) as error:
        run(body, [], threads=64)
    assert error.value.findings[0].line > 0


# -- calls

CALLS = """
.func (.param .b32 func_retval0) twice (.param .b32 twice_param_0)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [twice_param_0]; add.u32 %r2, %r1, %r1; st.param.b32 [func_retval0], %r2; ret;
}
.func (.param .b32 func_retval0) plus_one (.param .b32 plus_one_param_0)
{
  .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.b32 %r1, [plus_one_param_0]; setp.gt.u32 %p1, %r1, 9;
  @%p1 bra BIG; add.u32 %r1, %r1, 1; bra END;
BIG: add.u32 %r1, %r1, 100;
END: st.param.b32 [func_retval0], %r1; ret;
}
.func (.param .b32 func_retval0) both (.param .b32 both_param_0)
{
  .reg .b32 %r<4>;
  ld.param.b32 %r1, [both_param_0];
  { .param .b32 a; .param .b32 r; st.param.b32 [a], %r1; call.uni (r), twice, (a); ld.param.b32 %r2, [r]; }
  { .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call.uni (r), plus_one, (a); ld.param.b32 %r3, [r]; }
  st.param.b32 [func_retval0], %r3; ret;
}
.global .align 8 .u64 table[2] = {twice, plus_one};
"""


def test_calls_of_functions_that_call(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      add.u64 %rd1, %rd1, %rd0;
      { .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; call.uni (r), both, (a); ld.param.b32 %r1, [r]; }
      st.global.u32 [%rd1], %r1; ret;
    """
    for level in (1, 2):
        run(body, [out], before=CALLS, level=level)
        assert out.tolist() == [2 * i + (1 if 2 * i <= 9 else 100) for i in range(32)]


def test_indirect_and_predicated_calls(run: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = """
      add.u64 %rd1, %rd1, %rd0; and.b32 %r1, %r0, 1; mov.u64 %rd5, table; mul.wide.u32 %rd6, %r1, 8; add.u64 %rd5, %rd5, %rd6;
      ld.global.u64 %rd7, [%rd5]; setp.lt.u32 %p1, %r0, 20; mov.u32 %r2, 5;
      {
      .param .b32 a; .param .b32 r; st.param.b32 [a], %r0; st.param.b32 [r], 5;
      P: .callprototype (.param .b32 _) _ (.param .b32 _);
      @%p1 call (r), %rd7, (a), P; ld.param.b32 %r2, [r];
      }
      st.global.u32 [%rd1], %r2; ret;
    """
    run(body, [out], before=CALLS)
    want = [(i + (1 if i <= 9 else 100) if i & 1 else 2 * i) if i < 20 else 5 for i in range(32)]
    assert out.tolist() == want
    with pytest.raises(PtxCheckError, match="no function's address"):
        run(body.replace("ld.global.u64 %rd7, [%rd5]", "mov.u64 %rd7, 12"), [out], before=CALLS)


def test_recursion_and_missing_functions_are_refused(build: Any) -> None:
    loop = ".func f () { call.uni g; ret; }\n.func g () { call.uni f; ret; }\n"
    with pytest.raises(UnsupportedError, match="calls itself"):
        Module(build("call.uni f; ret;", 0, before=loop)).kernel().launch(1)
    with pytest.raises(UserError, match="no function nowhere"):
        Module(build("call.uni nowhere; ret;", 0)).kernel().launch(1)
    with pytest.raises(UnsupportedError, match="has no body"):
        Module(build("call.uni f; ret;", 0, before=".extern .func f ();")).kernel().launch(1)
    with pytest.raises(UserError, match="takes 1 arguments"):
        Module(build("call.uni twice; ret;", 0, before=CALLS)).kernel().launch(1)


@pytest.mark.parametrize(
    "text",
    ["frobnicate.b32 %r1, %r2;", "add.frob.u32 %r1, %r1, %r1;", "ld.global.frob.b32 %r1, [%rd1];", "mov.u32 %r1, %nonsense;",
     "shfl.sync.wave.b32 %r1, %r1, 1, 31, -1;", "mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32 {%r1}, {%r1}, {%r1}, {%r1};",
     "bra NOWHERE;", "st.const.b32 [%rd1], %r1;", "atom.global.nand.b32 %r1, [%rd1], %r1;",
     "cp.async.cg.shared.global [%r1], [%rd1], 8;",
     "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16.frob {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1;",
     "tcgen05.wait::ld.sync.aligned;",
     "fence.frob;", "mbarrier.frob.b64 [%r1];", "ld.global.v4.b64 {%rd1, %rd2}, [%rd1];"],
)  # fmt: skip
def test_what_is_not_known_is_named_with_its_line_before_anything_runs(text: str, build: Any) -> None:
    out = np.zeros(32, np.uint32)
    body = f"  st.global.u32 [%rd1], 1;\n  {text}\n  ret;"
    with pytest.raises((UserError, UnsupportedError), match=r"PTX line \d+: "):
        Module(build(body, 1)).kernel().launch(1, None, [out])
    assert not out.any()


def test_special_registers(run: Any, build: Any) -> None:
    out = np.zeros((8, 2, 64), np.uint32)
    names = ["%tid.x", "%tid.y", "%ctaid.x", "%ntid.y", "%nctaid.x", "%laneid", "%warpid", "%lanemask_lt"]
    stores = "".join(
        f"mov.u32 %r1, {name}; st.global.u32 [%rd1+{i * 512}], %r1;\n" for i, name in enumerate(names)
    )
    text = build(
        "mov.u32 %r5, %tid.y; mad.lo.u32 %r0, %r5, 16, %r0; mov.u32 %r6, %ctaid.x; mad.lo.u32 %r0, %r6, 64, %r0;"
        f"mul.wide.u32 %rd0, %r0, 4; add.u64 %rd1, %rd1, %rd0; {stores} ret;", 1, 32
    ).replace(".reqntid 32", ".maxntid 16, 4")  # fmt: skip
    Module(text).kernel().launch(2, (16, 4), [out])
    lane = np.arange(64)
    for block in range(2):
        got = out[:, block]
        want = [
            lane % 16,
            lane // 16,
            0 * lane + block,
            0 * lane + 4,
            0 * lane + 2,
            lane % 32,
            lane // 32,
            (1 << lane % 32) - 1,
        ]
        assert np.array_equal(got, np.array(want))


def test_two_kernels_and_names() -> None:
    module = Module(HEADER + ".entry a() { ret; }\n.entry b() .reqntid 32 { ret; }")
    assert module.names == ["a", "b"]
    with pytest.raises(UserError, match="2 kernels: a, b"):
        module.kernel()
    with pytest.raises(UserError, match="no kernel c"):
        module.kernel("c")
    with pytest.raises(UserError, match=r"has no \.reqntid"):
        module.kernel("a").launch(1)
    with pytest.raises(UserError, match=r"\.reqntid says"):
        module.kernel("b").launch(1, 64)
    assert module.kernel("b").launch((2, 3)).executed == 6
