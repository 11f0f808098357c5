"""Kernels over elements and rows: masks, views with offsets, in place, tuples, prints, assertions, libdevice, atomics."""

import joinery
import pytest
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

torch.manual_seed(0)


@triton.jit
def add(x, y, out, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) * factor + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + i, mask=i < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * stride + i, e / tl.sum(e, 0), mask=i < n)


@triton.jit
def through_tuple(pair, scale, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(pair[1] + i, libdevice.asin(tl.load(pair[0] + i)) * scale[0])


@triton.jit
def histogram(x, counts, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(x + i, mask=i < n, other=0), 1, mask=i < n)


@triton.jit
def checked(x, BLOCK: tl.constexpr):
    v = tl.load(x + tl.arange(0, BLOCK))
    tl.device_print("value", v)
    tl.device_assert(v < 3, "three or more")


@triton.jit
def twice(v):
    return v + v


@triton.jit
def calls(x, BLOCK: tl.constexpr, F: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, F(tl.load(x + i)))


x, y, out = torch.randn(1000), torch.randn(1000), torch.empty(1000)
add[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, y, out, 1000, 2.0, BLOCK=256)
torch.testing.assert_close(out, x * 2 + y)
whole = torch.zeros(1010)
add[(4,)](x[3:], y[:-3], whole[7:], 997, 0.5, BLOCK=256)
torch.testing.assert_close(whole[7:1004], x[3:] * 0.5 + y[:-3])
assert not whole[:7].any()
assert not whole[1004:].any()
same = x.clone()
add[(4,)](same, same, same, 1000, 2.0, BLOCK=256)
torch.testing.assert_close(same, x * 3)
add[(0,)](x, y, out, 1000, 2.0, BLOCK=256)
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    a, b, c = x.to(dtype), y.to(dtype), torch.empty(1000, dtype=dtype)
    add[(4,)](a, b, c, 1000, 2.0, BLOCK=256)
    torch.testing.assert_close(c, a * 2 + b)

rows, soft = torch.randn(13, 70), torch.empty(13, 70)
softmax[(13,)](rows, soft, rows.stride(0), 70, BLOCK=128)
torch.testing.assert_close(soft, torch.softmax(rows, 1))

angles, result = torch.rand(64), torch.empty(64)
through_tuple[(1,)]((angles, result), (2.0,), BLOCK=64)
torch.testing.assert_close(result, torch.asin(angles) * 2, rtol=1e-6, atol=1e-6)

values, counts = torch.randint(0, 10, (500,)), torch.zeros(10, dtype=torch.int32)
histogram[(4,)](values, counts, 500, BLOCK=128)
assert counts.tolist() == torch.bincount(values, minlength=10).tolist()

checked[(1,)](torch.zeros(4), BLOCK=4, debug=True)
with pytest.raises((joinery.KernelAssertionError, joinery.SanitizerError), match="three or more") as stopped:
    checked[(1,)](torch.arange(4.0), BLOCK=4, debug=True)
assert "elementwise.py" in str(stopped.value)

z = torch.randn(16)
expected = z * 2
calls[(1,)](z, BLOCK=16, F=twice)
torch.testing.assert_close(z, expected)

parameter = torch.nn.Parameter(torch.ones(16))
calls[(1,)](parameter, BLOCK=16, F=twice)
assert (parameter == 2).all()
for wrong in (torch.ones(16, device="meta"), torch.ones(16).to_sparse()):
    with pytest.raises((joinery.UserError, RuntimeError, NotImplementedError)):
        calls[(1,)](wrong, BLOCK=16, F=twice)
print("launches checked")
