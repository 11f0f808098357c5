"""Makes random bits from counters: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).

A number depends on the seed and its position alone, so every device makes the same ones, in any order.
"""

from __future__ import annotations

from ....promotion.dtype import uint32, uint64
from ...construction import primitives
from ...dims.dim import Extent, product
from ...symbol import Symbol
from ..building import apply
from ..joining import stack
from ..positions import counting

_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_LOW = 0xFFFFFFFF


def philox(counter: tuple[Symbol, Symbol, Symbol, Symbol], key: tuple[int, int]) -> tuple[Symbol, Symbol, Symbol, Symbol]:
    """Return four words of random bits for a counter of four words, all of 32 bits in uint64."""
    a, b, c, d = counter
    for number in range(_ROUNDS):
        first, second = ((key[side] + number * _STEPS[side]) & _LOW for side in (0, 1))
        left, right = _with("mul", a, _FACTORS[0]), _with("mul", c, _FACTORS[1])
        a, b, c, d = _mixed(right, b, first), _low(right), _mixed(left, d, second), _low(left)
    return a, b, c, d


def _with(row: str, x: Symbol, number: int) -> Symbol:
    """Apply a row to words and a number, which is a word too: not all rule sets join literals with uint64."""
    return apply(row, x, x.graph.scalar(number, uint64))


def _mixed(product_: Symbol, other: Symbol, key: int) -> Symbol:
    return _with("bitwise_xor", apply("bitwise_xor", _with("shift_right", product_, 32), other), key)


def _low(product_: Symbol) -> Symbol:
    return _with("bitwise_and", product_, _LOW)


def bits_like(x: Symbol, seed: int, stream: int) -> Symbol:
    """Return uint32 random bits in the shape of `x`: four for each counter, in row-major order."""
    count: Extent = product(x.shape)
    blocks = (count + 3) // 4
    at = primitives.cast(counting(x.graph, blocks), uint64)
    zero = _with("mul", at, 0)
    counter = (_low(at), _with("shift_right", at, 32), _with("add", zero, stream & _LOW), _with("add", zero, stream >> 32))
    four = stack(list(philox(counter, (seed & _LOW, seed >> 32))), 1)
    flat = primitives.reshape(four, (blocks * 4,))[:count]
    return primitives.reshape(primitives.cast(flat, uint32), x.shape)
