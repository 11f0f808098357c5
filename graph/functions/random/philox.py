"""Makes random bits from counters: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

A number depends on the seed, the stream and its position alone, so every device makes the same ones, in any order. Seeds and
streams are ints, or scalars (uint64) that are known at a run: both give the same numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

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
        first, second = (_low(_add(key[side], number * _STEPS[side])) for side in (0, 1))
        left, right = _mul(a, _FACTORS[0]), _mul(c, _FACTORS[1])
        upper, lower = _xor(_xor(_high(right), b), first), _xor(_xor(_high(left), d), second)
        a, b, c, d = upper, _low(right), lower, _low(left)
    return a, b, c, d


def _of_bits(function: Callable[[Any, Any], Any]) -> Callable[[Bits, Bits], Bits]:
    """Return a function of bits. Ints become scalars of the graph where its rule set has no join of them with uint64."""

    def applied(x: Bits, y: Bits) -> Bits:
        if isinstance(x, Symbol) and isinstance(y, int) and x.graph.rules.name == "torch":
            y = x.graph.scalar(y, uint64)
        elif isinstance(y, Symbol) and isinstance(x, int) and y.graph.rules.name == "torch":
            x = y.graph.scalar(x, uint64)
        found: Bits = function(x, y)
        return found

    return applied


_mul, _add, _xor, _or = _of_bits(operator.mul), _of_bits(operator.add), _of_bits(operator.xor), _of_bits(operator.or_)
_and, _right, _left = _of_bits(operator.and_), _of_bits(operator.rshift), _of_bits(operator.lshift)


def _low(x: Bits) -> Bits:
    return _and(x, _LOW)


def _high(x: Bits) -> Bits:
    return _right(x, 32)


def _whole(low: Bits, high: Bits) -> Bits:
    return _or(low, _left(high, 32))


def split(seed: Bits, stream: Bits, number: Bits) -> tuple[Bits, Bits]:
    """Return the seed and the stream of one of many sequences, by its number: an iteration's, of what a loop draws.

    For one seed, all streams and numbers give other pairs, since Philox permutes counters.
    """
    counter = (_low(number), _high(number), _low(stream), _high(stream))
    a, b, c, d = philox(counter, (_low(seed), _xor(_high(seed), _SPLIT)))
    return _whole(a, b), _whole(c, d)


def _blocks(x: Symbol, seed: Bits, stream: Bits, each: int) -> tuple[list[Symbol], Extent]:
    """Return four times 32 bits of as many counters as `x` takes, if `each` elements share one, and the number of elements."""
    graph = graph_of("random_bits", x, seed, stream)
    count: Extent = product(x.shape)
    at = primitives.cast(counting(graph, (count + each - 1) // each), uint64)
    zero = _mul(at, 0)
    counter = (_low(at), _high(at), _add(zero, _low(stream)), _add(zero, _high(stream)))
    found = philox(counter, (_low(seed), _high(seed)))
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
