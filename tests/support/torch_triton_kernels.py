"""Kernels of Triton that tests launch in models of PyTorch. Triton reads their source, so they stand in a file of their own."""

import triton
import triton.language as tl


@triton.jit
def scaled_add(x, y, out, n, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, scale * tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)
