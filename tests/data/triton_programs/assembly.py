"""Inline assembly with memory and special registers, and the functions of Triton that are made of it."""

import os
import time

import joinery
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import cuda

MODE = os.environ["JOINERY_TRITON"]


@triton.jit
def read(pointer):
    return tl.inline_asm_elementwise("ld.global.acquire.gpu.b32 $0, [$1];", "=r,l", [pointer], tl.int32, is_pure=False, pack=1)


@triton.jit
def write(pointer, value):
    return tl.inline_asm_elementwise(
        "st.release.gpu.global.b32 [$1], $2; mov.u32 $0, 0;", "=r,l,r", [pointer, value], tl.int32, is_pure=False, pack=1
    )


@triton.jit
def copied(x, y, shift, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise("ld.global.cg.b32 $0, [$1];", "=r,l", [x + i + shift], tl.int32, is_pure=True, pack=1)
    write(y + i, v * 2)


@triton.jit
def hand_over(data, flag, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    if tl.program_id(0) == 0:
        tl.store(data + i, i * 3)
        write(flag, 1)
    else:
        while read(flag) != 1:
            pass
        tl.store(out + i, tl.load(data + i))


@triton.jit
def profiled(x, spans, BLOCK: tl.constexpr):
    cuda.gdc_wait()
    pid = tl.program_id(0)
    before = cuda.globaltimer()
    v = tl.load(x + tl.arange(0, BLOCK))
    cuda.gdc_launch_dependents()
    tl.store(spans + pid * 4, before)
    tl.store(spans + pid * 4 + 1, cuda.globaltimer())
    tl.store(spans + pid * 4 + 2, cuda.smid())
    own = tl.inline_asm_elementwise("mov.u32 $0, %ctaid.x;", "=r", [], tl.int32, is_pure=True, pack=1)
    tl.store(spans + pid * 4 + 3, own + tl.sum(v, 0).to(tl.int32) * 0)


@triton.jit
def through_addresses(addresses, out, BLOCK: tl.constexpr):
    address = tl.load(addresses + tl.program_id(0))
    i = tl.arange(0, BLOCK)
    v = tl.inline_asm_elementwise(
        "{ .reg .b64 a; mul.wide.s32 a, $2, 4; add.s64 a, a, $1; ld.volatile.global.b32 $0, [a]; }", "=r,l,r", [address, i],
        tl.int32, is_pure=False, pack=1,
    )  # fmt: skip
    tl.store(out + tl.program_id(0) * BLOCK + i, v)


@triton.jit
def thread_of(out):
    tl.store(out, tl.inline_asm_elementwise("mov.u32 $0, %tid.x;", "=r", [], tl.int32, is_pure=True, pack=1))


x, y = torch.arange(64, dtype=torch.int32), torch.zeros(64, dtype=torch.int32)
copied[(1,)](x, y, 0, BLOCK=64)
assert torch.equal(y, x * 2)
if MODE == "sanitize":
    with pytest.raises(joinery.SanitizerError, match="outside the array") as found:
        copied[(1,)](x, y, 1, BLOCK=64)
    assert "assembly.py:31" in str(found.value), found.value
elif MODE == "interpret":
    with pytest.raises(joinery.UserError, match="element 64 of array"):
        copied[(1,)](x, y, 1, BLOCK=64)

data, flag, out = (torch.zeros(64, dtype=torch.int32) for _ in range(3))
hand_over[(2,)](data, flag, out, BLOCK=64)
assert torch.equal(out, x * 3)

spans = torch.full((3, 4), -1, dtype=torch.int64)
start = time.monotonic_ns()
profiled[(3,)](x, spans, BLOCK=64)
assert (spans[:, 1] >= spans[:, 0]).all()
assert spans[:, 3].tolist() == [0, 1, 2]
if MODE != "ptxsim":
    assert (spans[:, 0] >= start).all()
    assert (spans[:, 1] <= time.monotonic_ns()).all()
    assert ((spans[:, 2] >= 0) & (spans[:, 2] < 1024)).all()

pair = [torch.arange(64, dtype=torch.int32) + 100, torch.arange(64, dtype=torch.int32) - 7]
addresses, out = torch.tensor([each.data_ptr() for each in pair]), torch.zeros((2, 64), dtype=torch.int32)
through_addresses[(2,)](addresses, out, BLOCK=64)
assert torch.equal(out, torch.stack(pair))

with pytest.raises(joinery.UnsupportedError, match=r"%tid.x tells the threads"):
    thread_of[(1,)](out)
print("launches checked")
