"""Takes blocks of GGUF apart into integers, scales and offsets, where they are such: llama.cpp's formats Q2_K to Q8_0.

A block is a row of bytes. What a format calls a minimum, and subtracts, is an offset with the other sign. Values times
scales plus offsets are the bits of the package's own decoding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import int4, uint2, uint4
from .block_quantised import BlockQuantized

_Parts = tuple[Array, Array, Array | None]
"""Values by (block, part of it, element), their scales by (block, part), and their offsets."""


def _half(blocks: Array, start: int) -> Array:
    """Return a float16 of each block."""
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2").astype(np.float16)


def _low_and_high(packed: Array, run: int, bits: int = 4) -> Array:
    """Return fields of bytes: of each run of bytes first all lowest fields, then all that follow them."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8).reshape(1, 1, -1, 1)
    fields = packed.reshape(len(packed), packed.shape[1] // run, 1, run) >> shifts
    return (fields & np.uint8((1 << bits) - 1)).reshape(len(packed), -1)


def _bits_of(packed: Array) -> Array:
    """Return the bits of bytes one after the other, the lowest first."""
    return np.unpackbits(np.ascontiguousarray(packed), axis=1, bitorder="little")


def _parted(values: Array, parts: int) -> Array:
    return values.reshape(len(values), parts, -1)


def _q4_0(blocks: Array) -> _Parts:
    values = _low_and_high(blocks[:, 2:], 16).astype(np.int8) - np.int8(8)
    return _parted(values, 1).astype(int4.numpy), _half(blocks, 0), None


def _q4_1(blocks: Array) -> _Parts:
    return _parted(_low_and_high(blocks[:, 4:], 16), 1).astype(uint4.numpy), _half(blocks, 0), _half(blocks, 2)


def _q5_0(blocks: Array) -> _Parts:
    values = _low_and_high(blocks[:, 6:], 16) | (_bits_of(blocks[:, 2:6]) << 4)
    return _parted(values.astype(np.int8) - np.int8(16), 1), _half(blocks, 0), None


def _q5_1(blocks: Array) -> _Parts:
    values = _low_and_high(blocks[:, 8:], 16) | (_bits_of(blocks[:, 4:8]) << 4)
    return _parted(values, 1), _half(blocks, 0), _half(blocks, 2)


def _q8_0(blocks: Array) -> _Parts:
    return _parted(np.ascontiguousarray(blocks[:, 2:]).view(np.int8), 1), _half(blocks, 0), None


def _times(factor: Array, small: Array) -> Array:
    """Return the float32 of each part of a block: the block's float16 times the part's integer."""
    with np.errstate(all="ignore"):
        return factor.astype(np.float32) * small.astype(np.float32)


def _q2_k(blocks: Array) -> _Parts:
    small, factor, least = blocks[:, :16], _half(blocks, 80), _half(blocks, 82)
    values = _parted(_low_and_high(blocks[:, 16:80], 32, 2), 16).astype(uint2.numpy)
    return values, _times(factor, small & 15), -_times(least, small >> 4)


def _q3_k(blocks: Array) -> _Parts:
    low, high = _low_and_high(blocks[:, 32:96], 32, 2), _low_and_high(blocks[:, :32], 32, 1)
    values = low.astype(np.int8) - ((high ^ 1) << 2).astype(np.int8)
    packed = blocks[:, 96:108]
    small = _low_and_high(packed[:, :8], 8) | (_low_and_high(packed[:, 8:], 4, 2) << 4)
    return _parted(values, 16).astype(int4.numpy), _times(_half(blocks, 108), small.astype(np.int8) - np.int8(32)), None


def _scales_and_minima(packed: Array) -> tuple[Array, Array]:
    """Return 8 scales and 8 minima of 6 bits out of 12 bytes."""
    first, second, third = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = np.concatenate([first & 63, (third & 15) | ((first >> 2) & 48)], axis=1)
    return scales, np.concatenate([second & 63, (third >> 4) | ((second >> 2) & 48)], axis=1)


def _q4_k(blocks: Array) -> _Parts:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    values = _parted(_low_and_high(blocks[:, 16:], 32), 8).astype(uint4.numpy)
    return values, _times(_half(blocks, 0), scales), -_times(_half(blocks, 2), minima)


def _q5_k(blocks: Array) -> _Parts:
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    values = _low_and_high(blocks[:, 48:], 32) | (_low_and_high(blocks[:, 16:48], 32, 1) << 4)
    return _parted(values, 8), _times(_half(blocks, 0), scales), -_times(_half(blocks, 2), minima)


def _q6_k(blocks: Array) -> _Parts:
    low, high = _low_and_high(blocks[:, :128], 64), _low_and_high(blocks[:, 128:192], 32, 2)
    values = (low | (high << 4)).astype(np.int8) - np.int8(32)
    small = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    return _parted(values, 16), _times(_half(blocks, 208), small), None


FORMATS: dict[str, Callable[[Array], _Parts]] = {
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
    "Q2_K": _q2_k, "Q3_K": _q3_k, "Q4_K": _q4_k, "Q5_K": _q5_k, "Q6_K": _q6_k,
}  # fmt: skip
"""Block formats that are integers with scales and offsets, by the package's names."""


def apart(form: str, blocks: Array, shape: tuple[int, ...]) -> BlockQuantized:
    """Return an array of `shape` in one of `FORMATS`, of its blocks (blocks, bytes of each)."""
    count = len(blocks)
    values, scales, offsets = FORMATS[form](blocks if count else np.zeros((1, blocks.shape[1]), np.uint8))
    parts = (*shape[:-1], shape[-1] // values.shape[2])
    arrays = [values[:count].reshape(shape), scales[:count].reshape(parts)]
    if offsets is not None:
        arrays.append(offsets[:count].reshape(parts))
    for array in arrays:
        array.flags.writeable = False
    return BlockQuantized(*arrays)
