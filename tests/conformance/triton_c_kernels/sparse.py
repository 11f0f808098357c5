"""Block-sparse products and softmax, found by tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cases import F32, F64, I32, TYPES, Generator, kernel, normal, wide

Made = tuple[list[Any], dict[int, Any]]
BLOCK = 16
SIZE = 3 * BLOCK
LAYOUT = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], bool)


def blocks_of(dense: np.ndarray) -> np.ndarray:
    """Return the blocks of [z, rows, columns] that the layout has, [z, number, BLOCK, BLOCK]."""
    z = dense.shape[0]
    tiles = dense.reshape(z, LAYOUT.shape[0], BLOCK, LAYOUT.shape[1], BLOCK).transpose(0, 1, 3, 2, 4)
    return np.ascontiguousarray(tiles[:, LAYOUT])


def masked(dense: np.ndarray) -> np.ndarray:
    return dense * np.kron(LAYOUT, np.ones((BLOCK, BLOCK), bool))


def table(by_column: bool) -> np.ndarray:
    """Return (start, count) for each row or column of blocks, then (other coordinate, number of the block)."""
    numbers = LAYOUT.cumsum().reshape(LAYOUT.shape) - 1
    layout, numbers = (LAYOUT.T, numbers.T) if by_column else (LAYOUT, numbers)
    headers: list[int] = []
    entries: list[int] = []
    for line in range(len(layout)):
        found = np.flatnonzero(layout[line])
        headers += [2 * len(layout) + len(entries), len(found)]
        for other in found:
            entries += [int(other), int(numbers[line, other])]
    return np.array(headers + entries, I32)


for _type, _dtype in TYPES:
    _tolerance = 5e-2 if _type == "half" else 1e-4
    _common: dict[str, object] = {"TYPE": _type, "BLOCK": BLOCK, "TK": 16, "TM": 32}

    @kernel(f"sdd {_type}", "blocksparse_product", (6, 1, 2), _tolerance, NAME="sdd", SDD=True, **_common)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        a, b = normal(rng, 2, SIZE, 32, dtype=dtype), normal(rng, 2, 32, SIZE, dtype=dtype)
        lut = np.ascontiguousarray(np.argwhere(LAYOUT), I32)
        c = np.zeros((2, 6, BLOCK, BLOCK), dtype)
        arguments = [a, b, c, 32, SIZE, 0, a[0].size, b[0].size, c[0].size, 32, lut, 0, None, None]
        return arguments, {2: blocks_of(np.matmul(*wide(a, b)))}

    @kernel(f"dsd {_type}", "blocksparse_product", (2, 3, 2), _tolerance, NAME="dsd", DSD=True, **_common)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        dense, b = normal(rng, 2, SIZE, SIZE, dtype=dtype), normal(rng, 2, SIZE, 40, dtype=dtype)
        a, c = blocks_of(dense), np.zeros((2, SIZE, 40), dtype)
        arguments = [a, b, c, 0, 40, 40, a[0].size, b[0].size, c[0].size, 40, table(by_column=False), 0, None, None]
        return arguments, {2: np.matmul(*wide(masked(dense), b))}

    @kernel(f"dds {_type}", "blocksparse_product", (2, 3, 2), _tolerance, NAME="dds", DDS=True, **_common)
    def _(rng: Generator, dtype: Any = _dtype) -> Made:
        a, dense = normal(rng, 2, 40, SIZE, dtype=dtype), normal(rng, 2, SIZE, SIZE, dtype=dtype)
        b, c = blocks_of(dense), np.zeros((2, 40, SIZE), dtype)
        arguments = [a, b, c, SIZE, 0, SIZE, a[0].size, b[0].size, c[0].size, 40, table(by_column=True), 0, None, None]
        return arguments, {2: np.matmul(*wide(a, masked(dense)))}


def softmax_table() -> np.ndarray:
    """Return (count, start) for each row of blocks, then (number of the block, column)."""
    found = table(by_column=False)
    headers, entries = found[:6].reshape(3, 2)[:, ::-1], found[6:].reshape(-1, 2)[:, ::-1]
    return np.concatenate([headers.ravel(), entries.ravel()]).astype(I32)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


_FLAGS: dict[str, dict[str, object]] = {
    "plain": {}, "scale": {"APPLY_SCALE": True}, "rpe": {"APPLY_SCALE": True, "APPLY_RPE": True},
    "added masks": {"APPLY_KP_MASK": True, "APPLY_ATTN_MASK": True},
    "masks": {"APPLY_KP_MASK": True, "KP_MASK_MUL": True, "APPLY_ATTN_MASK": True, "ATTN_MASK_MUL": True},
}  # fmt: skip
for _how, _flags in _FLAGS.items():
    for _type, _dtype in TYPES if _how in ("plain", "masks") else TYPES[:1]:

        _tolerance, _infinity = (3e-3, "F16_INFINITY") if _type == "half" else (1e-5, "F32_INFINITY")

        @kernel(f"sparse softmax {_how} {_type}", "blocksparse_softmax", (48, 2), _tolerance, "softmax_fwd", TYPE=_type,
                BLOCK=BLOCK, TN=64, INFINITY=_infinity, **_flags)  # fmt: skip
        def _(rng: Generator, flags: dict[str, object] = _flags, dtype: Any = _dtype) -> Made:
            dense = normal(rng, 2, 48, 48, dtype=dtype)
            rpe, kp, attn = (normal(rng, *shape, dtype=dtype) for shape in ((2, 48, 48), (2, 48), (48, 48)))
            if "KP_MASK_MUL" in flags:
                kp = (rng.random((2, 48)) > 0.3).astype(dtype)
                attn = (rng.random((48, 48)) > 0.3).astype(dtype)
                kp[:, ::16] = attn[:, ::16] = 1
            x = blocks_of(dense)
            value = dense.astype(F64) * (0.5 if "APPLY_SCALE" in flags else 1)
            if "APPLY_RPE" in flags:
                value = value + rpe
            for flag, is_product, mask in (("KP", "KP_MASK_MUL", kp[:, None]), ("ATTN", "ATTN_MASK_MUL", attn)):
                if f"APPLY_{flag}_MASK" in flags:
                    value = value + (np.where(mask == 0, -np.inf, 0.0) if is_product in flags else mask)
            value = np.where(np.kron(LAYOUT, np.ones((BLOCK, BLOCK), bool)), value, -np.inf)
            arguments = [x, 0.5, softmax_table(), rpe, kp, attn, 6, 3, x[0].size, 48 * 48, 0, 48, 48, 48]
            return arguments, {0: blocks_of(softmax(value))}


@kernel("sparse softmax backward", "blocksparse_softmax", (48, 2), 1e-5, "softmax_bwd", TYPE="float", BLOCK=BLOCK, TN=64)
def _(rng: Generator) -> Made:
    filled = np.where(np.kron(LAYOUT, np.ones((BLOCK, BLOCK), bool)), rng.standard_normal((2, 48, 48)), -np.inf)
    y, dy = softmax(filled).astype(F32), masked(normal(rng, 2, 48, 48))
    expected = y * (dy - (y * dy).sum(-1, keepdims=True, dtype=F64)) * 0.5
    x, dx = blocks_of(y), blocks_of(dy)
    return [x, 0.5, dx, softmax_table(), 3, x[0].size, dx[0].size], {2: blocks_of(expected)}
