"""Products: transposed operands, split reductions, groups of programs, batches, convolutions, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .cases import F32, F64, I32, TYPES, Generator, inside, kernel, normal, wide

Made = tuple[list[Any], dict[int, Any]]


def _add_products() -> None:
    for at, bt, tz, (type_, dtype) in [
        (0, 0, 1, TYPES[0]), (0, 1, 1, TYPES[1]), (1, 0, 2, TYPES[0]), (1, 1, 3, TYPES[1]), (0, 0, 2, TYPES[1]),
    ]:  # fmt: skip
        strides = {
            "STRIDE_AM": "1" if at else "lda", "STRIDE_AK": "lda" if at else "1",
            "STRIDE_BN": "ldb" if bt else "1", "STRIDE_BK": "1" if bt else "ldb",
        }  # fmt: skip

        @kernel(f"product {at}{bt} {tz} {type_}", "product", (2, 2, tz), 2e-2 if type_ == "half" else 1e-4, is_checked=False,
                TYPE=type_, AT=at, BT=bt, TZ=tz, TM=16, TN=32, TK=16, LD_DIV=1, **strides)  # fmt: skip
        def _(rng: Generator, at: int = at, bt: int = bt, tz: int = tz, dtype: Any = dtype) -> Made:
            m, n, k = 23, 37, 45
            a, b = normal(rng, m, k, dtype=dtype), normal(rng, k, n, dtype=dtype)
            stored_a = inside(a.T if at else a, (80, 80), 50)
            stored_b = inside(b.T if bt else b, (80, 80), 50)
            c, locks = np.full((m, n), 3, dtype), np.zeros(8, I32)
            expected = 0.5 * (a.astype(F64) @ b.astype(F64))
            arguments = [stored_a, stored_b, c, 0.5, m, n, k, 80, 80, n, locks if tz > 1 else None]
            return arguments, {2: expected}


_add_products()

for _how, _flags in (
    ("plain", {}), ("relu", {"RELU": True}), ("sigmoid", {"SIGMOID": None, "RELU": 0}), ("sigmoid on", {"SIGMOID": True}),
    ("whole", {"K_MULTIPLE_OF_TK": True}),
):  # fmt: skip

    @kernel(f"swizzled {_how}", "swizzled_product", (9,), 1e-4, NAME="gemm", TYPE="float", TM=16, TN=16, TK=16, **_flags)
    def _(rng: Generator, how: str = _how) -> Made:
        m, n, k = 40, 35, 32 if how == "whole" else 27
        a, b, bias = normal(rng, m, k), normal(rng, k, n), normal(rng, n)
        value = a.astype(F64) @ b.astype(F64)
        if how == "relu":
            value = np.maximum(value + bias, 0)
        elif how == "sigmoid on":
            value = 1 / (1 + np.exp(-(value + bias)))
        elif how == "whole":
            value = value + bias
        return [a, b, np.zeros((m, n), F32), None if how in ("plain", "sigmoid") else bias, m, n, k], {2: value}


def _add_einsums() -> None:
    rows, columns = ":, newaxis, newaxis", "newaxis, :, newaxis"
    plain = {"SHAPE_A": "TM, TK, TB", "BROADCAST_AM": rows, "BROADCAST_AK": columns, "USE_A": "a",
             "SHAPE_B": "TK, TN, TB", "BROADCAST_BK": rows, "BROADCAST_BN": columns, "USE_B": "b"}  # fmt: skip
    turned = {"SHAPE_A": "TK, TM, TB", "BROADCAST_AM": columns, "BROADCAST_AK": rows, "USE_A": "a[^1, ^0, ^2]",
              "SHAPE_B": "TN, TK, TB", "BROADCAST_BK": columns, "BROADCAST_BN": rows, "USE_B": "b[^1, ^0, ^2]"}  # fmt: skip
    for name, shapes, split, (type_, dtype) in (
        ("plain", plain, 1, TYPES[0]), ("turned", turned, 1, TYPES[1]), ("added", plain, 2, TYPES[0])
    ):

        @kernel(f"einsum {name}", "einsum", (4, 2), 2e-2 if type_ == "half" else 1e-4, TYPE=type_, TM=16, TN=16, TK=16, TB=2,
                SPLITK=split, **shapes)  # fmt: skip
        def _(rng: Generator, name: str = name, split: int = split, dtype: Any = dtype) -> Made:
            m, n, k, batch = 20, 17, 25, 3
            a, b = normal(rng, batch, m, k, dtype=dtype), normal(rng, n, k, batch, dtype=dtype)
            c = np.ones((m, batch, n), dtype)
            value = np.einsum("bmk,nkb->mbn", *wide(a, b)) * 0.25 + (1 if split > 1 else 0)
            strides = [k, 1, m * k, batch, k * batch, 1, batch * n, 1, n]
            return [a, b, c, None, 0.25, m, n, k, batch, *strides], {2: value}


_add_einsums()


def convolved(x: np.ndarray, w: np.ndarray, pad: int, stride: int) -> np.ndarray:
    """Convolve [n, c, h, w] with [c, r, s, k] into [n, k, p, q]."""
    x = np.pad(x.astype(F64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    _, r, s, _ = w.shape
    p, q = ((extent - taps) // stride + 1 for extent, taps in zip(x.shape[2:], (r, s), strict=True))
    found = np.zeros((x.shape[0], w.shape[3], p, q))
    for dr in range(r):
        for ds in range(s):
            part = x[:, :, dr : dr + stride * p : stride, ds : ds + stride * q : stride]
            found += np.einsum("ncpq,ck->nkpq", part, w[:, dr, ds].astype(F64))
    return found


def deltas(channels: int, r: int, s: int, tk: int, strides: tuple[int, int, int]) -> np.ndarray:
    """Return, for each position of the reduction, how far the one that is tk further lies from it."""
    total = channels * r * s

    def offset(k: int) -> int:
        return k // (r * s) * strides[0] + k // s % r * strides[1] + k % s * strides[2]

    return np.array([offset(k + tk) - offset(k) for k in range(-(-total // tk) * tk + tk)], I32)


for _type, _dtype in TYPES:

    @kernel(f"convolution {_type}", "convolution", (4, 1, 1), 4e-2 if _type == "half" else 1e-4, TYPE=_type, TM=16, TN=16,
            TK=16, TZ=1, HH=7, WW=6, PP=4, QQ=3, RR=3, SS=3, W_MULT=1)  # fmt: skip
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        x, w = normal(rng, 5, 4, 7, 6, dtype=dtype), normal(rng, 4, 3, 3, 9, dtype=dtype)
        table = deltas(4, 3, 3, 16, (42, 6, 1))
        y = convolved(x, w, 1, 2)
        assert y.shape == (5, 9, 4, 3)
        sizes = [1.0, 5 * 4 * 3, 9, 4 * 3 * 3, 1, 1, 2, 2]
        return [x, w, np.zeros(y.shape, dtype), *sizes, table, 168, 42, 6, 1], {2: y}


@kernel("depthwise", "depthwise", (2, 3), 1e-4, TYPE="float", TILE=16, HH=9, WW=8, PP=5, QQ=4, RR=3, SS=2, PAD=1, STRIDE=2)
def _(rng: Generator) -> Made:
    x, w = normal(rng, 3, 9, 8), normal(rng, 3, 3, 2)
    padded = np.pad(x.astype(F64), [(0, 0), (1, 1), (1, 1)])
    y = np.zeros((3, 5, 4))
    for r in range(3):
        for s in range(2):
            y += padded[:, r : r + 9 : 2, s : s + 7 : 2] * w[:, r, s, None, None]
    return [np.zeros(y.shape, F32), x, w], {0: y}


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    scores = q @ k.swapaxes(1, 2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True) @ v


for _type, _dtype in TYPES:
    for _causal in (0, 1):

        @kernel(f"flash attention {_type} {_causal}", "flash_attention", (2, 2), 1e-2 if _type == "half" else 1e-5,
                TYPE=_type, CAUSAL=_causal, TM=32, TN=16, TD=16)  # fmt: skip
        def _(rng: Generator, dtype: Any = _dtype, causal: int = _causal) -> Made:
            q, k, v = (normal(rng, 2, 45, 16, dtype=dtype) for _ in range(3))
            scale = 1 / math.sqrt(16)
            value = attended(*wide(q, k, v), scale, bool(causal))
            return [q, k, v, np.zeros_like(q), 45, scale, 45 * 16, 16], {3: value}


