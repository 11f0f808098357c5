"""Layers that go along rows: norms of groups, losses with flags, running sums, bags of an embedding, masks kept as bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import F16, F32, F64, I32, I64, TYPES, Generator, kernel, normal

Made = tuple[list[Any], dict[int, Any]]


for _how, _flags, (_type, _dtype) in (
    ("plain", {}, TYPES[0]), ("relu running", {"RELU": 1, "HAS_RUNNING": 1, "MOMENTUM": "0.25f"}, TYPES[0]),
    ("swish", {"SWISH": True}, TYPES[1]),
):  # fmt: skip

    @kernel(f"group norm {_how}", "group_norm", (3, 2), 2e-2 if _type == "half" else 1e-4, TYPE=_type, TC=4, TP=16, **_flags)
    def _(rng: Generator, how: str = _how, dtype: Any = _dtype) -> Made:
        x = normal(rng, 2, 9, 21, dtype=dtype)
        gamma, beta = (None, None) if how == "plain" else (normal(rng, 9), normal(rng, 9))
        means, variances = normal(rng, 2, 3), rng.random((2, 3)).astype(F32)
        grouped = x.astype(F64).reshape(2, 3, -1)
        mean, variance = grouped.mean(2), grouped.var(2)
        y = ((grouped - mean[:, :, None]) / np.sqrt(variance[:, :, None] + 1e-5)).reshape(x.shape)
        if gamma is not None and beta is not None:
            y = y * gamma[:, None] + beta[:, None]
        y = np.maximum(y, 0) if "relu" in how else y / (1 + np.exp(-y)) if how == "swish" else y
        expected: dict[int, Any] = {0: y}
        running: list[Any] = [None, None]
        if "running" in how:
            running = [means, variances]
            expected |= {4: means * 0.75 + 0.25 * mean, 5: variances * 0.75 + 0.25 * variance}
        return [np.zeros_like(x), x, gamma, beta, *running, 3, 9, 21, 1e-5], expected


for _how, _flags, (_type, _dtype) in (
    ("plain", {}, TYPES[0]), ("smoothed", {"SMOOTH": 0.1, "GRAD": True}, TYPES[0]), ("half", {"GRAD": 1}, TYPES[1]),
):  # fmt: skip

    @kernel(f"negative log-likelihood {_how}", "nll_smooth", (6,), 5e-3 if _type == "half" else 1e-5, TYPE=_type, TILE=64,
            **_flags)  # fmt: skip
    def _(rng: Generator, flags: dict[str, Any] = _flags, how: str = _how, dtype: Any = _dtype) -> Made:
        x, labels, smooth = normal(rng, 6, 37, dtype=dtype), np.array([3, 0, -100, 36, 8, -100], I64), flags.get("SMOOTH", 0)
        weights = rng.random(37).astype(F32) if how == "smoothed" else None
        z = x.astype(F64) - x.astype(F64).max(1, keepdims=True)
        softmax = np.exp(z) / np.exp(z).sum(1, keepdims=True)
        target = (np.arange(37) == labels[:, None]) * (1 - smooth) + smooth / 37
        scale = (labels >= 0) * (1 if weights is None else weights[np.maximum(labels, 0)])
        loss = -(target * np.log(softmax)).sum(1) * scale
        grad = np.full((6, 37), 7, dtype) if "GRAD" in flags else None
        expected = {0: loss} if grad is None else {0: loss, 4: (softmax - target) * scale[:, None]}
        return [np.full(6, 7, F32), x, labels, weights, grad, 37], expected


for _exclusive, (_type, _dtype) in ((0, TYPES[0]), (1, TYPES[1])):

    @kernel(f"running sums {_exclusive}", "scan", (2,), 2e-2 if _type == "half" else 1e-4, TYPE=_type, EXCLUSIVE=_exclusive,
            TM=16, TK=16)  # fmt: skip
    def _(rng: Generator, exclusive: int = _exclusive, dtype: Any = _dtype) -> Made:
        x = normal(rng, 20, 40, dtype=dtype)
        value = np.cumsum(x[:, :37].astype(F64), 1) - exclusive * x[:, :37].astype(F64)
        y = np.full((20, 40), 7, dtype)
        return [y, x, 20, 37, 40], {0: np.hstack([value, np.full((20, 3), 7)])}


for _mode, _weighted in (("SUM", True), ("MEAN", False), ("MAX", True)):

    @kernel(f"bags {_mode}", "embedding_bag", (4, 2), 1e-5, TYPE="float", TD=16, MODE=_mode)
    def _(rng: Generator, mode: str = _mode, weighted: bool = _weighted) -> Made:
        table, rows = normal(rng, 9, 21), np.array([3, 3, -1, 8, 0, 1, 2, -1], I32)
        offsets, weights = np.array([0, 4, 4, 7, 8], I32), rng.random(8).astype(F32) if weighted else None
        value = np.zeros((4, 21))
        for bag in range(4):
            at = [each for each in range(offsets[bag], offsets[bag + 1]) if rows[each] >= 0]
            if at:
                found = table[rows[at]].astype(F64)
                found = found * weights[at, None] if weights is not None and mode != "MAX" else found
                value[bag] = {"SUM": np.sum, "MEAN": np.mean, "MAX": np.max}[mode](found, 0)
        return [np.zeros((4, 21), F32), table, rows, offsets, weights, 21], {0: value}


def kept(n: int, seed: int, keep: float) -> np.ndarray:
    h = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    for factor, shift in ((0x85EBCA6B, 16), (0xC2B2AE35, 13)):
        h = (h ^ (h >> np.uint32(shift))) * np.uint32(factor)
    found: np.ndarray = (h >> np.uint32(8)).astype(F32) * F32(5.9604645e-8) < F32(keep)
    return found


def packed(bits: np.ndarray) -> np.ndarray:
    return np.packbits(np.pad(bits, (0, -len(bits) % 32)), bitorder="little").view(np.uint32)


@kernel("bits of a mask", "pack_bits", (2,), 1e-6, "forward", TYPE="float", TILE=128)
def _(rng: Generator) -> Made:
    x, mask = normal(rng, 203), kept(203, 77, 0.7)
    arguments = [np.zeros(203, F32), np.zeros(7, np.uint32), x, 77, 0.7, 203]
    return arguments, {0: np.where(mask, x / F32(0.7), 0), 1: packed(mask)}


@kernel("bits of a mask again", "pack_bits", (2,), 2e-3, "backward", TYPE="half", TILE=128)
def _(rng: Generator) -> Made:
    dy, mask = normal(rng, 203, dtype=F16), kept(203, 77, 0.7)
    return [np.zeros(203, F16), packed(mask), dy, 0.7, 203], {0: np.where(mask, dy / 0.7, 0)}
