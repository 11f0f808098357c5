"""Reductions, scans, sorts and transforms: of several blocks, across programs, with branches, in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from .numpy_cases import F32, F64, I32, case, normal, zeros

F16 = np.float16


def softmax(scores: Any) -> tuple[Any, Any]:
    """The rows' softmax and the logarithms of their sums."""
    top = scores.max(-1, keepdims=True)
    power = np.exp(scores - top)
    total = power.sum(-1, keepdims=True)
    return power / total, (top + np.log(total))[..., 0]


@case(1)
def topk_flip_histogram_gather(rng: Any) -> Any:
    x, at = normal(rng, 128), rng.integers(0, 16, 128).astype(I32)
    rows = np.take_along_axis(x.reshape(8, 16), at.reshape(8, 16), 1)
    moved = np.concatenate([x[::-1], x[(at * 7 + np.arange(128)) % 128], rows.ravel()])
    best, counts = np.sort(x)[::-1][:8], np.bincount(at[:123], minlength=16).astype(I32)
    return [x, zeros(8), zeros(384), at, zeros(16, dtype=I32)], [None, best, moved, None, counts]


@case(1)
def reduce_with_branches_raw(rng: Any) -> Any:
    x = rng.permutation(np.arange(-60, 68)).astype(F32)
    rows = x.reshape(16, 8)
    values = np.concatenate([[x[np.argmax(np.abs(x))], x.max()], rows.max(1)])
    places = np.concatenate([[x.argmax(), 0], rows.argmax(1)])
    return [x, zeros(18), zeros(18, dtype=I32)], [None, values, places]


@case(5, 1e-4)
def welford_partial(rng: Any) -> Any:
    x = normal(rng, 5, 333)
    return [x, zeros(5, 3), 333], [None, np.stack([x.mean(1), x.var(1), np.full(5, 333)], 1), None]


@case(1, 1e-4)
def recurrence_reversed(rng: Any) -> Any:
    a, b = normal(rng, 16, 32) / 3, normal(rng, 16, 32)
    out = b.astype(F64)
    for i in reversed(range(15)):
        out[i] += a[i] * out[i + 1]
    return [a, b, zeros(16, 32)], [None, None, out]


@case(8)
def decoupled_lookback(rng: Any) -> Any:
    x = rng.integers(-9, 9, 500).astype(I32)
    sums = np.concatenate([x, np.zeros(12, I32)]).reshape(8, 64).sum(1)
    arguments = [x, zeros(500, dtype=I32), *(zeros(8, dtype=I32) for _ in range(3)), 500]
    return arguments, [None, x.cumsum(), np.full(8, 2), sums, sums.cumsum(), None]


@case(6, 1e-4)
def cross_entropy_two_pass(rng: Any) -> Any:
    x, labels = normal(rng, 6, 150), np.array([3, -100, 149, 0, 64, -100])
    share, lse = softmax(x.astype(F64))
    kept, hot = (labels >= 0)[:, None], np.eye(150)[labels * (labels >= 0)]
    gradient = np.where(kept, share - 0.1 / 150 - 0.9 * hot, 0)
    loss = np.where(kept[:, 0], (lse - (x * hot).sum(1)) * 0.9 + 0.1 * (lse - x.mean(1)), 0)
    return [x, labels, zeros(6), zeros(6, 150), 150, -100, 0.1], [None, None, loss, gradient, *[None] * 3]


@case(7, 1e-4)
def layernorm_backward_lock_raw(rng: Any) -> Any:
    x, dy, w = normal(rng, 7, 100), normal(rng, 7, 100), normal(rng, 100)
    mean, rstd = x.mean(1), 1 / np.sqrt(x.var(1) + F32(1e-5))
    unit = (x.astype(F64) - mean[:, None]) * rstd[:, None]
    weighted = w * dy.astype(F64)
    inner = unit * (unit * weighted).mean(1, keepdims=True) + weighted.mean(1, keepdims=True)
    dw, db = (np.stack([each[g::2].sum(0) for g in range(2)]) for each in (dy * unit, dy))
    arguments = [zeros(7, 100), dy, zeros(2, 100), zeros(2, 100), x, w, mean, rstd, zeros(4, dtype=I32), 100]
    return arguments, [(weighted - inner) * rstd[:, None], None, dw, db, *[None] * 4, np.array([0, 0, 1, 1]), None]


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


@case(3, 1e-4)
def fft16(rng: Any) -> Any:
    """Four butterflies by reshape, permute, split and join."""
    real, imaginary = normal(rng, 3, 16), normal(rng, 3, 16)
    found = np.fft.fft(real + 1j * imaginary.astype(F64))
    return [real, imaginary, zeros(3, 16), zeros(3, 16)], [None, None, found.real, found.imag]


@case(1)
def reduce_branching_raw(rng: Any) -> Any:
    """The number farthest from 0 and its place; what combines two of them branches."""
    x = rng.normal(size=(8, 33))
    place = np.abs(x).argmax(1)
    return [x, zeros(8, dtype=F64), zeros(8, dtype=I32)], [None, x[np.arange(8), place], place]
