"""Products and attention: grouped, wrapped, quantized, sparse, transposed, carried and overwritten in place."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np

from .numpy_cases import BF16, F32, F64, I32, case, normal, small, zeros

F16 = np.float16


def softmax(scores: Any) -> tuple[Any, Any]:
    """The rows' softmax and the logarithms of their sums."""
    top = scores.max(-1, keepdims=True)
    power = np.exp(scores - top)
    total = power.sum(-1, keepdims=True)
    return power / total, (top + np.log(total))[..., 0]


@case(4, 1e-4)
def grouped_matmul(rng: Any) -> Any:
    sizes = [(20, 30, 40), (5, 50, 17), (33, 16, 16), (0, 4, 4), (16, 16, 0)]
    left = [normal(rng, max(m * k, 1)) for m, _, k in sizes]
    right = [normal(rng, max(k * n, 1)) for _, n, k in sizes]
    out = [np.full(max(m * n, 1), 7, F32) for m, n, _ in sizes]
    products = [
        (a[: m * k].reshape(m, k) @ b[: k * n].reshape(k, n)).ravel() if m * n else o
        for a, b, o, (m, n, k) in zip(left, right, out, sizes, strict=True)
    ]
    tables = [jn.PointerTable(arrays) for arrays in (left, right, out)]
    return [*tables, np.array(sizes, I32), 5], [left, right, products, None, None]


@case(3, 2e-2)
def matmul_strided_bf16(rng: Any) -> Any:
    a, b = normal(rng, 90, 75).astype(BF16), normal(rng, 90, 53).astype(BF16)  # a is read by columns
    c = a.astype(F64).T @ b.astype(F64)
    return [a, b, zeros(75, 53), 75, 53, 90, 1, 75, 53, 1, 53], [None, None, np.where(c >= 0, c, c * 0.01), *[None] * 8]


@case((2, 4, 2), 2e-2)
def attention_gqa_causal(rng: Any) -> Any:
    q, bias = normal(rng, 2, 4, 50, 32).astype(np.float16), normal(rng, 4, 50, 50)
    k, v = (normal(rng, 2, 2, 50, 32).astype(np.float16) for _ in range(2))
    keys, values = (np.repeat(each.astype(F64), 2, 1) for each in (k, v))
    scores = q.astype(F64) @ keys.swapaxes(-1, -2) * 32**-0.5
    share, lse = softmax(np.where(np.tri(50, dtype=bool), scores, -np.inf))
    out = zeros(2, 4, 50, 32, dtype=np.float16)
    return [q, k, v, bias, out, zeros(2, 4, 50), 4, 2, 50, 32**-0.5], [*[None] * 4, share @ values, lse, *[None] * 4]


@case((2, 2), 1e-3)
def attention_backward(rng: Any) -> Any:
    q, k, v, do = (normal(rng, 2, 53, 32) for _ in range(4))
    scale = 32**-0.5
    share, lse = softmax(np.where(np.tri(53, dtype=bool), q.astype(F64) @ k.swapaxes(1, 2) * scale, -np.inf))
    delta = ((share @ v) * do).sum(-1)
    inner = share * (do @ v.swapaxes(1, 2) - delta[..., None]) * scale
    results = [inner @ k, inner.swapaxes(1, 2) @ q, share.swapaxes(1, 2) @ do]
    arguments = [q, k, v, do, lse.astype(F32), delta.astype(F32), *(zeros(2, 53, 32) for _ in range(3)), 53, scale]
    return arguments, [*[None] * 6, *results, None, None]


@case(1)
def dot_after_overwrite(rng: Any) -> Any:
    x, y = small(rng, 32, 32), small(rng, 32, 32)
    product = x.T @ y
    return [x, y], [product + x.T, product]


@case(1)
def matrix_power(rng: Any) -> Any:
    x, w = small(rng, 16, 16), small(rng, 16, 16)
    return [x, w, zeros(2, 16, 16), 3], [None, None, np.stack([x @ w @ w @ w, w]), None]


@case(1)
def dot_transposed_carry(rng: Any) -> Any:
    x, w = small(rng, 16, 16), small(rng, 16, 16)
    a = x
    for _ in range(3):
        a = a.T @ w + a
    return [x, w, zeros(2, 16, 16), 3], [None, None, np.stack([a, w]), None]


@case(8, 1e-2)
def matmul_wrapped(rng: Any) -> Any:
    """Rows and columns modulo the matrix, programs in groups of two rows of tiles."""
    a, b = normal(rng, 80, 48).astype(F16), normal(rng, 48, 112).astype(F16)
    product = np.maximum(a.astype(F64) @ b.astype(F64), 0)
    return [a, b, zeros(80, 112, dtype=F16), 80, 112, 48], [None, None, product, *[None] * 3]


@case((1, 2), 1e-2)
def gptq_matmul(rng: Any) -> Any:
    """Weights of four bits along k, their zeros along n, scales per group of 16."""
    a, scales = normal(rng, 20, 64).astype(F16), np.abs(normal(rng, 4, 32)).astype(F16)
    weights, offsets = (rng.integers(-(2**31), 2**31, shape).astype(I32) for shape in ((8, 32), (4, 4)))
    k, n = np.arange(64), np.arange(32)
    w = (weights.view(np.uint32)[k // 8] >> (k % 8 * 4).astype(np.uint32)[:, None] & 15).astype(F64)
    zero = (offsets.view(np.uint32)[:, n // 8] >> (n % 8 * 4).astype(np.uint32) & 15).astype(F64) + 1
    product = a.astype(F64) @ ((w - zero[k // 16]).astype(F16) * scales[k // 16]).astype(F64)
    return [a, weights, scales, offsets, zeros(20, 32, dtype=F16), 20, 32, 64], [*[None] * 4, product, *[None] * 3]


@case(2, 1e-2)
def block_sparse_attention(rng: Any) -> Any:
    """A list of blocks of keys per program; the second one's is empty."""
    q, k, v = normal(rng, 2, 64, 32).astype(F16) * F16(0.3), normal(rng, 96, 32).astype(F16), normal(rng, 96, 32).astype(F16)
    blocks, counts = np.array([[5, 0, 3, 1], [0, 0, 0, 0]], I32), np.array([3, 0], I32)
    keys = np.concatenate([np.arange(16) + 16 * block for block in (5, 0, 3)])
    power = np.exp(q[0].astype(F64) @ k[keys].astype(F64).T)
    out = np.stack([power / power.sum(1, keepdims=True) @ v[keys].astype(F64), np.zeros((64, 32))])
    return [q, k, v, blocks, counts, zeros(2, 64, 32)], [*[None] * 5, out]


@case(3, 1e-2)
def persistent_flat(rng: Any) -> Any:
    """One loop over tiles and steps: the accumulator is stored and cleared in an if."""
    a, b = normal(rng, 100, 96).astype(F16), normal(rng, 96, 64).astype(F16)
    product = a.astype(F64) @ b.astype(F64)
    return [a, b, zeros(100, 64, dtype=F16), 100, 64, 96], [None, None, product, *[None] * 3]
