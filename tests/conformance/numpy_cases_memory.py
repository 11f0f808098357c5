"""Memory and control flow: in place, locks, calls, loops, descriptors, numbers of few bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numpy_cases import BF16, F8, F32, F64, I32, case, normal, small, zeros

F16 = np.float16


def philox(seed: int, offsets: Any, rounds: int) -> list[Any]:
    """Philox 4 × 32 (J. K. Salmon et al., SC 2011)."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [offsets.astype(np.uint64), *(np.zeros(offsets.shape, np.uint64) for _ in range(3))]
    keys = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(rounds):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [
            *((second >> half) ^ counter[1] ^ np.uint64(keys[0]), second & low),
            *((first >> half) ^ counter[3] ^ np.uint64(keys[1]), first & low),
        ]
        keys = [(keys[0] + 0x9E3779B9) & 0xFFFFFFFF, (keys[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return [word.astype(np.uint32).view(I32) for word in counter]


@case((3, 3))
def transpose_in_place(rng: Any) -> Any:
    x = normal(rng, 37, 37)
    return [x, 37], [x.T, None]


@case(9)
def spin_lock_rows(rng: Any) -> Any:
    x = rng.integers(0, 99, (9, 32)).astype(I32)
    return [zeros(1, dtype=I32), zeros(33, dtype=I32), x, 1], [None, np.append(x.sum(0), 9), None, None]


@case(1)
def triangle_transposed(rng: Any) -> Any:
    x = small(rng, 32, 32)
    upper = np.where(np.tri(32, dtype=bool).T, x, -1).T
    return [x, zeros(2, 32, 32), 19], [None, np.stack([upper, upper + np.where(np.tri(32, dtype=bool).T, x.T, 3)]), None]


@case(4, 1e-5)
def philox_streams(rng: Any) -> Any:
    seed = 0x123456789ABCDEF
    words, few = philox(seed, np.arange(256), 10), philox(seed, np.arange(256), 7)
    uniform = [np.where(word < 0, -word.astype(np.int64) - 1, word) * 4.6566127342e-10 for word in words]
    normals = np.sqrt(-2 * np.log(np.maximum(1e-7, uniform[0]))) * np.cos(2 * np.pi * uniform[1])
    out = np.concatenate([uniform[0], normals])
    arguments = [zeros(512), zeros(256, dtype=I32), zeros(256, dtype=I32), seed]
    return arguments, [out, words[0], few[0] ^ few[1] ^ few[2] ^ few[3], None]


@case(1, 1e-4)
def noinline_raw(rng: Any) -> Any:
    x = normal(rng, 60)
    power = np.ones(60)
    for i in range(3):
        power = power * x + i
    return [x, zeros(60), 60, 3], [None, (power + x) * (power - x) + x + 3 + x * 9, None, None]


@case(1)
def loop_attributes(rng: Any) -> Any:
    """Every option of `tl.range`, and a `while`."""
    x = rng.integers(-8, 8, (3, 64)).astype(F32)
    out = 7 * x.sum(0, dtype=F64)
    for row in x:
        out = out * 0.5 + row
    return [x, zeros(64), 3], [None, out + 2 * x.sum(0) + 3, None]


@case(1)
def linked_lists(rng: Any) -> Any:
    after = np.array([-1 if k == 0 or rng.random() < 0.2 else rng.integers(0, k) for k in range(50)], I32)
    values, heads = rng.integers(-99, 99, 50), np.append(rng.integers(0, 50, 15), -1).astype(I32)
    sums = []
    for head in heads:
        total, at = 0, head
        while at >= 0:
            total, at = total + values[at], after[at]
        sums.append(total)
    return [after, values, zeros(16, dtype=np.int64), heads], [None, None, np.array(sums), None]


@case((3, 3))
def descriptor_3d_nan(rng: Any) -> Any:
    x = normal(rng, 3, 7, 12)
    padded = np.full((20, 20, 40), 7, F32)  # the kernel replaces NaN by 7
    padded[5:8, 5:12, 5:17] = x
    tiles = [padded[4 + 2 * p : 6 + 2 * p, 3 + 4 * q : 7 + 4 * q, 1:17] for p in range(3) for q in range(3)]
    return [x, zeros(9, 2, 4, 16), 3, 7, 12], [None, np.stack(tiles), *[None] * 3]


@case(2)
def descriptor_max_u32(rng: Any) -> Any:
    x, o = (rng.integers(0, 2**32, shape, np.uint32) for shape in ((27, 12), (16, 16)))
    padded = np.zeros((32, 16), np.uint32)
    padded[:27, :12] = x
    return [x, o, 27, 12], [None, np.maximum(o, padded.reshape(2, 16, 16).max(0)), None, None]


@case(4)
def dequantize_int4(rng: Any) -> Any:
    packed, scales = rng.integers(-(2**31), 2**31, 32).astype(I32), normal(rng, 8).astype(np.float16)
    i = np.arange(250)
    nibble = (packed.view(np.uint32)[i // 8] >> (i % 8 * 4).astype(np.uint32) & 15).astype(I32)
    out = np.append(np.where(nibble >= 8, nibble - 16, nibble) * scales[i // 32].astype(F32), np.zeros(6))
    return [packed, scales, zeros(256, dtype=np.float16), 250], [None, None, out, None]


@case(4)
def quantize_fp8_rows(rng: Any) -> Any:
    x = normal(rng, 4, 100).astype(BF16)
    wide = x.astype(F32)
    scales = (np.abs(wide).max(1) / F32(448)).astype(F32)
    quotients = np.clip(wide / scales[:, None], -448, 448).astype(F8)
    return [x, zeros(4, 100, dtype=F8), zeros(4), 100], [None, quotients, scales, None]


@case(1, 1e-4)
def cholesky_in_place(rng: Any) -> Any:
    root = rng.normal(0, 1, (13, 13))
    x = (root @ root.T + 13 * np.eye(13)).astype(F32)
    factor = np.linalg.cholesky(x.astype(F64))
    above = factor.T * np.diag(factor)[:, None]  # what is left of x there when its row's turn comes
    return [x, 13], [np.where(np.tri(13, dtype=bool), factor, above), None]


@case(1)
def life_in_place(rng: Any) -> Any:
    x = rng.integers(0, 2, (13, 13)).astype(I32)
    now, changes = x, []
    for _ in range(3):
        around = sum(np.roll(now, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1)) - now
        after = ((around == 3) | ((now == 1) & (around == 2))).astype(I32)
        changes.append(after - now)
        now = after
    return [x, zeros(3, 13, 13, dtype=I32), 13], [now, np.stack(changes), None]


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
