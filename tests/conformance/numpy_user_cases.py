"""More cases of `test_numpy_formulas`, as people write kernels: helpers that return early, rows that wrap around, scans of
several blocks, numbers of few bits, accumulators that change within a loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numpy_cases import BF16, F32, F64, I32, case, normal, zeros

F16 = np.float16


@case(8, 1e-2)
def matmul_wrapped(rng: Any) -> Any:
    """Rows and columns modulo the matrix, programs in groups of two rows of tiles."""
    a, b = normal(rng, 80, 48).astype(F16), normal(rng, 48, 112).astype(F16)
    product = np.maximum(a.astype(F64) @ b.astype(F64), 0)
    return [a, b, zeros(80, 112, dtype=F16), 80, 112, 48], [None, None, product, *[None] * 3]


@case(3)
def promised_wrap(rng: Any) -> Any:
    """Rows and columns that are said to be consecutive, and wrap around."""
    x = normal(rng, 48, 320).astype(F16)
    tiles = [x[np.ix_((p * 64 + np.arange(64)) % 48, (p * 128 + np.arange(128)) % 320)] for p in range(3)]
    return [x, zeros(3, 64, 128, dtype=F16), 320, 48], [None, np.stack(tiles), None, None]


@case(1)
def negative_remainder(rng: Any) -> Any:
    x, i = normal(rng, 1088), np.arange(-512, 512)
    return [x, zeros(1024)], [None, x[64 + np.fmod(i, 16)]]


@case((5, 3), 1e-2)
def rope_interleaved(rng: Any) -> Any:
    """In place, pairs of neighbours."""
    x, cos, sin = normal(rng, 5, 3, 20).astype(BF16), normal(rng, 5, 10), normal(rng, 5, 10)
    a, b = x[..., ::2].astype(F64), x[..., 1::2].astype(F64)
    turned = np.stack([a * cos[:, None] - b * sin[:, None], a * sin[:, None] + b * cos[:, None]], -1).reshape(5, 3, 20)
    return [x, cos, sin, 5, 3, 20], [turned, *[None] * 5]


@case((5, 2), 1e-3)
def selective_scan(rng: Any) -> Any:
    """A state of four numbers per channel, chunks of 16 steps as scans of two blocks."""
    u, dt, a = normal(rng, 2, 40, 5), np.abs(normal(rng, 2, 40, 5)), -np.abs(normal(rng, 5, 4))
    b, c = normal(rng, 2, 40, 4), normal(rng, 2, 40, 4)
    state, out = np.zeros((2, 5, 4)), np.zeros((2, 40, 5))
    for t in range(40):
        state = np.exp(dt[:, t, :, None] * a) * state + (dt[:, t] * u[:, t])[..., None] * b[:, t, None]
        out[:, t] = (state * c[:, t, None]).sum(-1)
    # the kernel goes on to the end of its last chunk, where steps change nothing
    return [u, dt, a, b, c, zeros(2, 40, 5), zeros(2, 5, 4), 40], [*[None] * 5, out, state, None]


@case(1, 1e-4)
def segmented_scan3(rng: Any) -> Any:
    """Three blocks of different types, from the end; a flag starts anew."""
    x, starts, c = normal(rng, 4, 32), (rng.random((4, 32)) < 0.2).astype(np.int8), normal(rng, 4, 32).astype(F16)
    sums, most = x.astype(F64), np.maximum.accumulate(c[:, ::-1], 1)[:, ::-1]
    for j in reversed(range(31)):
        sums[:, j] += np.where(starts[:, j], 0, sums[:, j + 1])
    return [x, starts, c, zeros(4, 32), zeros(4, 32, dtype=F16)], [None, None, None, sums, most]


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


@case(1)
def moe_align(rng: Any) -> Any:
    """Tokens sorted by expert, each expert's share padded to a multiple of 16."""
    ids = rng.integers(0, 8, 60).astype(I32)
    counts = np.bincount(ids, minlength=8)
    ends = np.concatenate([[0], ((counts + 15) // 16 * 16).cumsum()])
    order, at = np.full(256, 60), ends[:-1].copy()
    for i, expert in enumerate(ids):
        order[at[expert]] = i
        at[expert] += 1
    return [ids, zeros(8, dtype=I32), zeros(9, dtype=I32), zeros(256, dtype=I32), 60], [None, counts, ends, order, None]


@case(1)
def hillis_steele(rng: Any) -> Any:
    """Prefix sums in place, in memory, a barrier before and after each step."""
    x = rng.integers(0, 9, 256).astype(I32)
    return [x], [x.cumsum()]


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


@case(3, 1e-4)
def fft16(rng: Any) -> Any:
    """Four butterflies by reshape, permute, split and join."""
    real, imaginary = normal(rng, 3, 16), normal(rng, 3, 16)
    found = np.fft.fft(real + 1j * imaginary.astype(F64))
    return [real, imaginary, zeros(3, 16), zeros(3, 16)], [None, None, found.real, found.imag]


@case(1)
def loop_kinds(rng: Any) -> Any:
    """Loops downwards, by a parameter, over 64 bits, over unsigned numbers, over nothing, within each other."""
    n, step, big = 11, 4, 2**40
    sums = [
        *(sum(range(n, 0, -3)), sum(range(0, n, step)), sum(range(big, big + 5)), sum(range(n + 7)), 0),
        sum(i * j for i in range(n) for j in range(i, n, 2)),
    ]
    return [zeros(6, dtype=np.int64), n, step, big], [np.array(sums), None, None, None]


@case(3, 1e-5)
def helpers_early_return_raw(rng: Any) -> Any:
    """Helpers that return in several places, blocks and scalars."""
    x = np.abs(normal(rng, 3, 20)).astype(F32)
    out = np.zeros((3, 20))
    for p in range(3):
        v, low = x[p].astype(F64), (p - 1) * 0.5
        w = np.log(np.maximum(v, low)) if low > 0 else v * 2
        out[p] = w * (3.0, 4.0, 7.0)[p] + (v if p % 2 == 0 else w)
    return [x, zeros(3, 20), 20], [None, out, None]


@case(4, 1e-5)
def noinline_in_loop_raw(rng: Any) -> Any:
    """A helper that stores, returns, or stores once more, called in a loop."""
    x, out = normal(rng, 4, 16), np.zeros((4, 3, 2, 16))
    for p in range(4):
        for k in range(3):
            out[p, k] = (p + k) % 2 * np.stack([x[p] + k, (x[p] + k) * 2])
    return [x, zeros(4, 3, 2, 16)], [None, out]


@case(1)
def reduce_branching_raw(rng: Any) -> Any:
    """The number farthest from 0 and its place; what combines two of them branches."""
    x = rng.normal(size=(8, 33))
    place = np.abs(x).argmax(1)
    return [x, zeros(8, dtype=F64), zeros(8, dtype=I32)], [None, x[np.arange(8), place], place]
