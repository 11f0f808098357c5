"""Philox4x32-10 in Python's integers, as its authors describe it, for comparison."""

from __future__ import annotations

from typing import Any

import numpy as np

LOW = 0xFFFFFFFF


def philox(counter: int, key: int) -> int:
    """Return 128 bits for a counter of 128 bits and a key of 64, the lowest word first."""
    words = [counter >> shift & LOW for shift in (0, 32, 64, 96)]
    keys = [key & LOW, key >> 32]
    for _ in range(10):
        one, two = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [two >> 32 ^ words[1] ^ keys[0], two & LOW, one >> 32 ^ words[3] ^ keys[1], one & LOW]
        keys = [(keys[0] + 0x9E3779B9) & LOW, (keys[1] + 0xBB67AE85) & LOW]
    return sum(word << 32 * place for place, word in enumerate(words))


def blocks(count: int, seed: int, stream: int) -> Any:
    """Return the words of so many counters, a row for each."""
    numbers = [philox(stream << 64 | block, seed) for block in range(count)]
    return np.array([[number >> shift & LOW for shift in (0, 32, 64, 96)] for number in numbers], np.uint32).reshape(-1, 4)


def bits(count: int, seed: int, stream: int) -> Any:
    """Return the bits of so many elements."""
    return blocks(-(-count // 4), seed, stream).reshape(-1)[:count]


def uniform(count: int, seed: int, stream: int) -> Any:
    """Return float32 numbers in [0, 1)."""
    return (bits(count, seed, stream) >> 8).astype(np.float32) * np.float32(2.0**-24)


def normal(count: int, seed: int, stream: int) -> Any:
    """Return normally distributed numbers, in float64."""
    pairs = (blocks(-(-count // 2), seed, stream) >> 8) * 2.0**-24
    first, second = pairs[:, 0::2].reshape(-1)[:count], pairs[:, 1::2].reshape(-1)[:count]
    return np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)


def split(seed: int, stream: int, *iterations: int) -> tuple[int, int]:
    """Return the seed and the stream of an iteration of loops inside each other."""
    for number in iterations:
        found = philox(stream << 64 | number, seed ^ 0x5DEECE66 << 32)
        seed, stream = found & (1 << 64) - 1, found >> 64
    return seed, stream
