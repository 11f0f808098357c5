"""Products and convolutions with more around them: loads ahead, taps in constant memory, segments under locks, bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from .cases import F32, F64, I8, I32, TYPES, Generator, inside, kernel, normal, wide

Made = tuple[list[Any], dict[int, Any]]
NN, TN, NT, TT = {}, {"AT": True}, {"BT": True}, {"AT": True, "BT": True}
for _how, _flags, (_type, _dtype) in (
    ("nn", NN, TYPES[0]), ("tn", TN, TYPES[1]), ("nt", NT, TYPES[0]), ("tt", TT, TYPES[1]),
    ("nn bias", {**NN, "BIAS": 1}, TYPES[1]), ("tt bias", {**TT, "BIAS": 1}, TYPES[0]),
):  # fmt: skip

    @kernel(f"gemm with beta {_how}", "gemm_beta", (2, 2), 2e-2 if _type == "half" else 1e-4, NAME="gemm", TYPE=_type,
            TM=32, TN=16, TK=16, **_flags)  # fmt: skip
    def _(rng: Generator, flags: dict[str, Any] = _flags, dtype: Any = _dtype) -> Made:
        m, n, k = 35, 27, 41
        a, b, c = normal(rng, m, k, dtype=dtype), normal(rng, k, n, dtype=dtype), normal(rng, m, n, dtype=dtype)
        stored_a, stored_b = inside(a.T if "AT" in flags else a, (48, 48), 9), inside(b.T if "BT" in flags else b, (48, 48), 9)
        bias = normal(rng, n) if "BIAS" in flags else None
        value = 0.5 * (a.astype(F64) @ b.astype(F64)) + (0 if bias is None else bias) + 0.25 * c.astype(F64)
        return [stored_a, stored_b, c, 0.5, 0.25, bias, m, n, k, 48, 48, n], {2: value}


for _stride, _type, _dtype in ((1, *TYPES[1]), (2, *TYPES[0])):

    @kernel(f"convolution's input gradient {_stride}", "conv_delta", (3 - _stride // 2, 1), 4e-2 if _type == "half" else 1e-4,
            TYPE=_type, TM=32, TN=8, TK=16, HH=6, WW=5, PP=-(-6 // _stride), QQ=4, RR=3, SS=4 - _stride // 2, PAD=1,
            STRIDE=_stride, LUT_SIZE=3 * (4 - _stride // 2))  # fmt: skip
    def _(rng: Generator, stride: int = _stride, dtype: Any = _dtype) -> Made:
        n, c, k, h, w, r, s, p, q = 2, 8, 5, 6, 5, 3, 4 - stride // 2, -(-6 // stride), 4
        dy, weights = normal(rng, n, k, p, q, dtype=dtype), normal(rng, k, r, s, c, dtype=dtype)
        dx = np.zeros((n, c, h + 16, w + 16))
        for dr in range(r):
            for ds in range(s):
                part = np.einsum("nkpq,kc->ncpq", dy.astype(F64), weights[:, dr, ds].astype(F64))
                dx[:, :, 7 + dr : 7 + dr + stride * p : stride, 7 + ds : 7 + ds + stride * q : stride] += part
        table = np.array([(j + 16) // (r * s) - j // (r * s) for j in range(r * s)], I32)
        arguments = [dy, weights, np.zeros((n, c, h, w), dtype), n * h * w, c, k * r * s, k * p * q, p * q, q, table]
        return arguments, {2: dx[:, :, 8 : 8 + h, 8 : 8 + w]}


@kernel("segments under locks", "segmented_dds", (6, 2), 1e-4, TYPE="float", TM=32, BLOCK=16)
def _(rng: Generator) -> Made:
    layout = np.array([[1, 0, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1]], bool)  # the first column has four blocks
    a, dense = normal(rng, 40, 64), normal(rng, 64, 48)
    dense *= np.kron(layout, np.ones((16, 16), bool))
    blocks = [(row, column) for row in range(4) for column in range(3) if layout[row, column]]
    stored = np.stack([dense[row * 16 : row * 16 + 16, column * 16 : column * 16 + 16] for row, column in blocks])
    headers: list[int] = []
    entries: list[int] = []
    segments = [(0, [0, 1]), (0, [2]), (0, [3]), (1, [1, 3]), (2, [0]), (2, [3])]
    locks = {0: (1, 3), 1: (0, 1), 2: (2, 2)}
    for column, rows in segments:
        headers += [30 + len(entries), len(rows), column, *locks[column]]
        places = [(row * 16, blocks.index((row, column)) * 256) for row in rows]
        steps = [places[0], *(tuple(np.subtract(y, x)) for x, y in pairwise(places)), (0, 0)]
        entries += [int(each) for step in steps for each in step]
    table = np.array(headers + entries, I32)
    arguments = [a, stored, np.full((40, 48), 7, F32), 64, 48, 40, table, np.zeros(8, I32), 2]
    return arguments, {2: a.astype(F64) @ dense.astype(F64)}


@kernel("shift convolution", "shift", (3, 1), 1e-4, is_checked=False, TYPE="float", TM=32, TN=16, TC=16, HH=6, WW=7)
def _(rng: Generator) -> Made:
    n, c, k, h, w = 2, 19, 10, 6, 7
    x, weights = normal(rng, n, c, h, w), normal(rng, c, k)
    moves = rng.integers(-2, 3, (2, 32)).astype(I32)
    padded = np.pad(x.astype(F64), [(0, 0), (0, 0), (2, 2), (2, 2)])
    moved = np.stack([
        padded[:, at, 2 + dh : 2 + dh + h, 2 + dw : 2 + dw + w] for at, (dh, dw) in enumerate(moves.T[:c].tolist())
    ], 1)  # fmt: skip
    y = np.einsum("nchw,ck->nkhw", moved, weights)
    arguments = [x, weights, np.zeros(y.shape, F32), moves[0].copy(), moves[1].copy(), n, c, k, h * w]
    return arguments, {2: y}


@kernel("bytes with scales", "quantized", (2, 2), 0.0, TM=16, TN=16, TK=32)
def _(rng: Generator) -> Made:
    a, b = rng.integers(-128, 128, (20, 64)).astype(I8), rng.integers(-128, 128, (18, 64)).astype(I8)
    sa, sb = rng.random(20).astype(F32), rng.random(18).astype(F32)
    scale = sa[:, None] * sb / F32(600)
    value = np.clip(np.floor(scale * (a.astype(I32) @ b.T.astype(I32)).astype(F32) + F32(0.5)), -128, 127)
    return [a, b, np.zeros((20, 18), I8), sa, sb, 600.0, 20, 18, 64], {2: value}


for _order in ((2, 0, 1), (1, 2, 0), (0, 2, 1)):

    @kernel(f"permutation of tiles {_order}", "permute3", (9, 2), TYPE=("half", "int", "double")[_order[0]], T0=4, T1=8, T2=4,
            **{f"P{axis}": place for axis, place in enumerate(_order)})  # fmt: skip
    def _(rng: Generator, order: tuple[int, ...] = _order) -> Made:
        x = rng.integers(-99, 99, (10, 11, 9)).astype((np.float16, I32, F64)[order[0]])
        y = np.ascontiguousarray(x.transpose(order))
        return [np.zeros_like(y), x, *x.shape], {0: y}


for _how, _flags, (_type, _dtype) in (
    ("plain", {}, TYPES[0]), ("interleaved", {"INTERLEAVED": None}, TYPES[1]), ("interleaved on", {"INTERLEAVED": 1}, TYPES[1]),
    ("inverse", {"INVERSE": True}, TYPES[0]),
):  # fmt: skip

    @kernel(f"rotary {_how}", "rotary", (2, 3), 1e-2 if _type == "half" else 1e-5, TYPE=_type, TM=16, HALF=8, **_flags)
    def _(rng: Generator, flags: dict[str, Any] = _flags, dtype: Any = _dtype) -> Made:
        q, frequencies = normal(rng, 3, 21, 16, dtype=dtype), (1 / 10 ** (np.arange(8) / 4)).astype(F32)
        angle = np.arange(21)[:, None] * frequencies.astype(F64) * (-1 if "INVERSE" in flags else 1)
        first, second = (slice(0, None, 2), slice(1, None, 2)) if flags.get("INTERLEAVED") else (slice(0, 8), slice(8, 16))
        value, (x, y) = np.zeros(q.shape), wide(q[..., first], q[..., second])
        value[..., first], value[..., second] = x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
        return [q, frequencies, 21, 21 * 16, 16], {0: value}


