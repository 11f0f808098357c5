"""Provides random numbers: a seed and a stream decide them, and every device makes the same ones."""

from __future__ import annotations

import math

from ....promotion.dtype import bool_, float32
from ...construction import primitives
from ...errors import mistake
from ...protocols import TensorLike
from ...symbol import Symbol
from ..building import apply, symbol_of
from .philox import bits_like


def _like(op: str, x: TensorLike, seed: int, stream: int) -> Symbol:
    symbol = symbol_of(op, x)
    for name, number in (("seed", seed), ("stream", stream)):
        if type(number) is not int or not 0 <= number < 1 << 64:
            raise mistake(op, f"{name} is {number!r}", (symbol,), "an int of 64 bits, 0 or more", f"{name}=0")
    return symbol


def random_bits(x: TensorLike, seed: int = 0, stream: int = 0) -> Symbol:
    """Return uint32 random bits in the shape of `x`, whose values have no bearing (Philox4x32-10).

    seed, stream: ints of 64 bits; each pair is a sequence of its own.
    """
    return bits_like(_like("random_bits", x, seed, stream), seed, stream)


def random_uniform(x: TensorLike, low: float = 0.0, high: float = 1.0, seed: int = 0, stream: int = 0) -> Symbol:
    """Return float32 numbers in the shape of `x`, with equal chances in [low, high): multiples of 2**-24 of the range."""
    bits = bits_like(_like("random_uniform", x, seed, stream), seed, stream)
    unit = apply("mul", primitives.cast(apply("shift_right", bits, 8), float32), 2.0**-24)
    if (low, high) == (0.0, 1.0):
        return unit
    return apply("add", apply("mul", unit, float(high) - float(low)), float(low))


def random_normal(x: TensorLike, mean: float = 0.0, scale: float = 1.0, seed: int = 0, stream: int = 0) -> Symbol:
    """Return normally distributed float32 numbers in the shape of `x` (Box and Muller, 1958).

    The stream after `stream` is used as well.
    """
    symbol = _like("random_normal", x, seed, stream)
    first = random_uniform(symbol, seed=seed, stream=stream)
    second = random_uniform(symbol, seed=seed, stream=(stream + 1) % (1 << 64))
    size = apply("sqrt", apply("mul", apply("log", apply("sub", 1.0, first)), -2.0))
    number = apply("mul", size, apply("cos", apply("mul", second, 2 * math.pi)))
    return apply("add", apply("mul", number, float(scale)), float(mean))


def bernoulli(p: TensorLike, seed: int = 0, stream: int = 0) -> Symbol:
    """Return bools that are true with the chances `p`, each its own."""
    chances = _like("bernoulli", p, seed, stream)
    drawn = random_uniform(chances, seed=seed, stream=stream)
    return primitives.cast(apply("less", primitives.cast(drawn, chances.dtype), chances), bool_)
