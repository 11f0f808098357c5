"""Products, tensor descriptors, autotuning, tables of addresses, hooks and texts."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

torch.manual_seed(0)


CONFIGURATIONS = [triton.Config({"M": 32, "N": 32, "K": 16}, num_warps=w, num_stages=s) for w in (1, 4) for s in (1, 2)]


@triton.autotune(CONFIGURATIONS, key=["m"])
@triton.jit
def matmul(a, b, c, m, n, k, sa, sb, sc, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows, columns, depth = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * N + tl.arange(0, N), tl.arange(0, K)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        at = start + depth
        x = tl.load(a + rows[:, None] * sa + at[None, :], mask=(rows < m)[:, None] & (at < k)[None, :], other=0.0)
        y = tl.load(b + at[:, None] * sb + columns[None, :], mask=(at < k)[:, None] & (columns < n)[None, :], other=0.0)
        total = tl.dot(x, y, total)
    tl.store(c + rows[:, None] * sc + columns[None, :], total, mask=(rows < m)[:, None] & (columns < n)[None, :])


@triton.jit
def described(a, b, c, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        total = tl.dot(a.load([tl.program_id(0) * M, start]), b.load([start, tl.program_id(1) * N]), total)
    c.store([tl.program_id(0) * M, tl.program_id(1) * N], total)


@triton.jit
def gather(addresses, out, BLOCK: tl.constexpr):
    source = tl.load(addresses + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * BLOCK + i, tl.load(source + i))


m, n, k = 70, 40, 50
a, b, c = torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)
grid = lambda meta: (triton.cdiv(m, meta["M"]), triton.cdiv(n, meta["N"]))  # noqa: E731
matmul[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0))
torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-5)

c.zero_()
tiles = {"a": [32, 16], "b": [16, 32], "c": [32, 32]}
views = [TensorDescriptor.from_tensor(t, tiles[name]) for name, t in (("a", torch.zeros(m, 64)), ("b", b), ("c", c))]
views[0].base[:, :k] = a
described[(3, 2)](*views, k, M=32, N=32, K=16)
torch.testing.assert_close(c, a @ b, rtol=1e-5, atol=1e-5)

sources = [torch.randn(16) for _ in range(5)]
table, out = torch.tensor([t.data_ptr() for t in sources]), torch.empty(5, 16)
gather[(5,)](table, out, BLOCK=16)
torch.testing.assert_close(out, torch.stack(sources))

kernel = gather.warmup(torch.int64, torch.float32, BLOCK=16, grid=(1,))
assert "tt.func public @gather" in kernel.asm["ttir"]
assert "define" in kernel.asm["llir"]
assert ".visible .entry" in kernel.asm["ptx"]
assert kernel.asm["asm"]
with pytest.raises(KeyError, match="'ptx'"):
    kernel.asm["cubin"]
print("launches checked")
