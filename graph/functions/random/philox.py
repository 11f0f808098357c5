"""Makes random bits from counters: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

A number depends on the seed, the stream and its position alone, so every device makes the same ones, in any order. Seeds and
streams are ints, or scalars (uint64) that are known at a run: both give the same numbers.
"""

from __future__ import annotations

from typing import TypeAlias

from ....promotion.dtype import uint32, uint64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...graph import graph_of
from ...symbol import Symbol
from ..joining import stack
from ..positions import counting

Bits: TypeAlias = "int | Symbol"
"""A number of 32 or 64 bits: an int, or uint64 numbers of a run."""

_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF
_SPLIT = 0x5DEECE66
"""Tells keys that make keys from those that make numbers."""


def philox(counter: tuple[Bits, Bits, Bits, Bits], key: tuple[Bits, Bits]) -> tuple[Bits, Bits, Bits, Bits]:
    """Return four times 32 random bits for a counter of four times 32."""
    a, b, c, d = counter
    for number in range(_ROUNDS):
        first, second = ((key[side] + number * _STEPS[side]) & _LOW for side in (0, 1))
        left, right = a * _FACTORS[0], c * _FACTORS[1]
        a, b, c, d = (right >> 32) ^ b ^ first, right & _LOW, (left >> 32) ^ d ^ second, left & _LOW
    return a, b, c, d


def split(seed: Bits, stream: Bits, number: Bits) -> tuple[Bits, Bits]:
    """Return the seed and the stream of one of many sequences, by its number: an iteration's, of what a loop draws.

    For one seed, all streams and numbers give other pairs, since Philox permutes counters.
    """
    counter = (number & _LOW, number >> 32, stream & _LOW, stream >> 32)
    a, b, c, d = philox(counter, (seed & _LOW, (seed >> 32) ^ _SPLIT))
    return a | (b << 32), c | (d << 32)


def _blocks(x: Symbol, seed: Bits, stream: Bits, each: int) -> tuple[list[Symbol], Extent]:
    """Return four times 32 bits of as many counters as `x` takes, if `each` elements share one, and the number of elements."""
    graph = graph_of("random_bits", x, seed, stream)
    count: Extent = product(x.shape)
    at = primitives.cast(counting(graph, (count + each - 1) // each), uint64)
    zero = at * 0
    counter = (at & _LOW, at >> 32, zero + (stream & _LOW), zero + (stream >> 32))
    found = philox(counter, (seed & _LOW, seed >> 32))
    return [graph.as_symbol(bits) for bits in found], count


def _in_shape(parts: list[Symbol], count: Extent, x: Symbol) -> Symbol:
    """Return the bits of each counter side by side, the first `count` of them, in the shape of `x`."""
    together = stack(parts, 1)
    flat = primitives.reshape(together, (together.shape[0] * len(parts),))[:count]
    return primitives.reshape(primitives.cast(flat, uint32), x.shape)


def bits_like(x: Symbol, seed: Bits, stream: Bits) -> Symbol:
    """Return uint32 random bits in the shape of `x`: four for each counter, in row-major order."""
    parts, count = _blocks(x, seed, stream, 4)
    return _in_shape(parts, count, x)


def pairs_like(x: Symbol, seed: Bits, stream: Bits) -> tuple[Symbol, Symbol]:
    """Return two uint32 tensors of random bits in the shape of `x`, of one stream: two elements share a counter."""
    (a, b, c, d), count = _blocks(x, seed, stream, 2)
    return _in_shape([a, c], count, x), _in_shape([b, d], count, x)
