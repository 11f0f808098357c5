"""Kernels that leave their tensor and stay in its storage, or find tensors by addresses: nothing is wrong with them."""

import os

import torch
import triton
import triton.language as tl

torch.manual_seed(0)
MODE = os.environ["JOINERY_TRITON"]


@triton.jit
def flip(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x - i, mask=i < n), mask=i < n)


@triton.jit
def around(x, out, before, after, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i - before) + tl.load(x + i + after))


@triton.jit
def sum_of_rows(addresses, sizes, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(addresses + row).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(out + row, tl.sum(tl.load(x + i, mask=i < tl.load(sizes + row), other=0.0), 0))


@triton.jit
def chosen(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    source = x
    if tl.program_id(0) % 2 == 1:
        source = y
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(source + i))


@triton.jit
def by_difference(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    far = (y.to(tl.int64) - x.to(tl.int64)) // 4
    tl.store(out + i, tl.load(x + far + i))


@triton.jit
def gather(x, index, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.load(index + i)))


x = torch.randn(200)
out = torch.zeros(64)
for start in (63, 100, 199):  # the kernel is given the last element, and goes back
    flip[(1,)](x[start:], out, 64, BLOCK=64)
    assert torch.equal(out, x[start - 63 : start + 1].flip(0))

around[(2,)](x[70:134], out, 70, 66, BLOCK=32)
assert torch.equal(out, x[:64] + x[136:])

shared = torch.arange(128.0)
flip[(1,)](shared[63:], shared[64:], 64, BLOCK=64)  # two views of one storage, one read backwards, the other written
assert torch.equal(shared[64:], torch.arange(64.0).flip(0))

tensors = [torch.randn(n) for n in (5, 31, 64, 1)]
addresses = torch.tensor([*[each.data_ptr() for each in tensors], 0, 0])  # of which no program looks at the last ones
sums = torch.zeros(4)
sum_of_rows[(4,)](addresses, torch.tensor([len(each) for each in tensors]), sums, BLOCK=64)
torch.testing.assert_close(sums, torch.stack([each.sum() for each in tensors]))

two = torch.randn(2, 32).unbind()
first, second = two[0].clone(), two[1].clone()
result = torch.zeros(4, 32)
chosen[(4,)](first, second, result, BLOCK=32)
assert torch.equal(result, torch.stack([first, second, first, second]))

index = torch.randint(0, 200, (64,))
gather[(2,)](x, index, out, BLOCK=32)
assert torch.equal(out, x[index])

if MODE in ("native", "ptxsim"):  # the others tell tensors apart by their addresses, which have no difference
    by_difference[(1,)](first, second, result, BLOCK=32)
    assert torch.equal(result[0], second)
print("launches checked")
