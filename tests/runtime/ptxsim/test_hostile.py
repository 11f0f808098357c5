"""Texts nobody promised anything about: damaged kernels are read and run, and end in our errors or in a result, in time."""

from __future__ import annotations

import random
import re
import time
from typing import Any

import numpy as np
import pytest
from joinery.promotion.errors import JoineryError, UserError
from joinery.runtime.ptxsim import Module

BODY = """
  .shared .align 128 .b8 ring[1536]; .local .align 16 .b8 depot[32];
  mov.u32 %r1, ring; shl.b32 %r2, %r0, 2; xor.b32 %r3, %r2, 64; mov.u32 %r4, 0; mov.u32 %r9, 0; add.u64 %rd1, %rd1, %rd0;
  add.u64 %rd2, %rd2, %rd0; add.u32 %r5, %r1, %r2; add.u32 %r6, %r1, %r3; mov.u64 %rd9, depot;
  st.local.v2.u32 [%rd9+8], {%r1, %r2};
  cp.async.ca.shared.global [%r5], [%rd1], 4; cp.async.commit_group;
LOOP:
  cp.async.wait_group 0; bar.sync 0; ld.shared.u32 %r10, [%r6]; add.u32 %r9, %r9, %r10; bar.sync 0;
  shfl.sync.bfly.b32 %r11|%p3, %r9, 1, 31, -1; vote.sync.ballot.b32 %r12, %p3, -1; prmt.b32 %r13, %r11, %r12, 0x5410;
  cvt.rn.f32.u32 %f1, %r13; fma.rn.f32 %f2, %f1, %f1, 0f3F800000; cvt.rn.bf16x2.f32 %r14, %f1, %f2; ex2.approx.f32 %f3, %f2;
  atom.global.add.u32 %r15, [%rd2], %r4; ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r1];
  mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%f4, %f5, %f6, %f7}, {%r20, %r21, %r22, %r23}, {%r14, %r14},
    {%f1, %f2, %f3, %f1};
  setp.lt.u32 %p1, %r4, 3; add.u32 %r4, %r4, 1; @%p1 bra LOOP;
  setp.eq.u32 %p4, %r0, 0; @%p4 mbarrier.init.shared.b64 [ring+1528], 32; @%p4 mbarrier.inval.shared.b64 [ring+1528];
  div.u32 %r16, %r9, %r4; st.global.u32 [%rd2], %r16; ret;
"""


def kinds(word: str) -> str:
    if word.startswith("%"):
        return re.sub(r"\d+$", "", word)
    if word[0].isdigit():
        return "number"
    return "opcode" if re.match(r"[a-z]\w*\.", word) else "other"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_damaged_kernels_end_in_our_errors(build: Any, seed: int) -> None:
    rng = random.Random(seed)
    tokens = re.findall(r"\s+|[\w$%.]+|.", BODY)
    words: dict[str, list[str]] = {}
    for token in tokens:
        if token.strip() and (len(token) > 1 or token.isdigit()):
            words.setdefault(kinds(token), []).append(token)
    places = [i for i, token in enumerate(tokens) if token.strip() and (len(token) > 1 or token.isdigit())]
    start = time.process_time()
    for _ in range(120):
        damaged = list(tokens)
        for _ in range(rng.choice((1, 1, 2, 4))):
            place = rng.choice(places)
            chance = rng.random()
            if chance < 0.8:
                damaged[place] = rng.choice(words[kinds(tokens[place])])
            elif chance < 0.9:
                damaged[place] = str(rng.choice((0, 1, -1, 7, 32, 64, 255, 65536, 2**31, 2**32, 2**63, 2**64)))
            else:
                damaged[place] = ""
        arrays = [np.zeros(256, np.uint32), np.zeros(256, np.uint32)]
        try:
            kernel = Module(build("".join(damaged), 2)).kernel()
            kernel.launch(2, None, arrays, level=rng.choice((1, 2, 3)), delivery=rng.choice(("late", "random")), budget=3000)
        except JoineryError:
            continue
    assert time.process_time() - start < 30


def test_the_undamaged_one_runs(build: Any) -> None:
    Module(build(BODY, 2)).kernel().launch(2, None, [np.zeros(256, np.uint32), np.zeros(256, np.uint32)])


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        (".local .align 16 .b8 big[600000];", "bytes of local memory"),
        (".shared .align 16 .b8 big[300000];", "bytes of shared memory"),
        (".local .align 16 .b8 big[400000];", "bytes of local memory"),
    ],
)  # fmt: skip
def test_memory_is_limited(build: Any, declared: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        Module(build(f"{declared} ret;", 0, 1024)).kernel().launch(1)


def test_variables_and_launches_are_limited(build: Any) -> None:
    with pytest.raises(UserError, match="variables have more than"):
        Module(build("ret;", 0, before=".global .b8 a[1000000000]; .global .b8 b[1000000000];")).kernel().launch(1)
    kernel = Module(build("ret;", 0)).kernel()
    for arguments, problem in (
        ({"grid": 0}, "positive"), ({"grid": (1, 1, 1, 1)}, "one to three"), ({"grid": 3, "cluster": 2}, "do not divide"),
        ({"grid": 32, "cluster": 32}, "at most 16"), ({"grid": 1, "level": 4}, "expected 1, 2 or 3"),
        ({"grid": 1, "delivery": "never"}, "expected 1, 2 or 3"), ({"grid": 1, "block": 64}, r"\.reqntid says"),
        ({"grid": 1, "shared": 1 << 20}, "bytes of shared memory"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=problem):
            kernel.launch(**arguments)
    with pytest.raises(UserError, match="1536 threads in a block"):
        Module(build("ret;", 0).replace(".reqntid 32", "")).kernel().launch(1, 1536)
