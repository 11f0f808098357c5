"""Provides random numbers: a seed and a stream decide them, and every device makes the same ones.

Functions keep no state: calls with the same seed and stream give the same numbers, in every iteration of a loop too. Both may
be scalars of the graph: in a loop `stream=i`, the index, draws new ones each time.
"""

from __future__ import annotations

import math

from ....promotion.dtype import bool_, float32, int64, uint64
from ...construction import primitives
from ...errors import describing, mistake
from ...graph import graph_of
from ...ops.shape import normalize_axis
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..activations import softmax
from ..building import apply
from ..reductions import cumsum, sum_
from .philox import Bits, bits_like, pairs_like


def _like(op: str, x: TensorLike, seed: Bits, stream: Bits) -> tuple[Symbol, Bits, Bits]:
    """Return a symbol, a seed and a stream of one graph; scalars are uint64 then."""
    graph = graph_of(op, x, seed, stream)
    symbol = graph.as_symbol(x, op)
    found: list[Bits] = []
    for name, number in (("seed", seed), ("stream", stream)):
        if isinstance(number, Symbol):
            if not number.dtype.is_integer or number.shape != ():
                problem = f"{name} is {number.dtype} {shape_text(number.shape)}"
                raise mistake(op, problem, (number,), "an int, or an integer scalar", f"{name}=0")
            found.append(primitives.cast(graph.as_symbol(number, op), uint64))
        elif type(number) is not int or not 0 <= number < 1 << 64:
            raise mistake(op, f"{name} is {number!r:.40}", (symbol,), "an int of 64 bits, 0 or more", f"{name}=0")
        else:
            found.append(number)
    return symbol, found[0], found[1]


def _unit(bits: Symbol) -> Symbol:
    """Return float32 numbers in [0, 1) of random bits."""
    return apply("mul", primitives.cast(apply("shift_right", bits, 8), float32), 2.0**-24)


def random_bits(x: TensorLike, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Return uint32 random bits in the shape of `x`, whose values have no bearing (Philox4x32-10).

    seed, stream: ints of 64 bits, or integer scalars of the graph, as the index of a loop is; each pair is a sequence of its
    own. The same pair gives the same bits, wherever it stands.
    """
    return bits_like(*_like("random_bits", x, seed, stream))


def random_uniform(
    x: TensorLike, low: float = 0.0, high: float = 1.0, seed: int | Symbol = 0, stream: int | Symbol = 0
) -> Symbol:
    """Return float32 numbers in the shape of `x`, with equal chances in [low, high): multiples of 2**-24 of the range."""
    unit = _unit(bits_like(*_like("random_uniform", x, seed, stream)))
    if (low, high) == (0.0, 1.0):
        return unit
    return apply("add", apply("mul", unit, float(high) - float(low)), float(low))


def random_normal(
    x: TensorLike, mean: float = 0.0, scale: float = 1.0, seed: int | Symbol = 0, stream: int | Symbol = 0
) -> Symbol:
    """Return normally distributed float32 numbers in the shape of `x` (Box and Muller, 1958)."""
    first, second = (_unit(bits) for bits in pairs_like(*_like("random_normal", x, seed, stream)))
    size = apply("sqrt", apply("mul", apply("log", apply("sub", 1.0, first)), -2.0))
    number = apply("mul", size, apply("cos", apply("mul", second, 2 * math.pi)))
    return apply("add", apply("mul", number, float(scale)), float(mean))


def bernoulli(p: TensorLike, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Return bools that are true with the chances `p`, each its own."""
    chances, seed, stream = _like("bernoulli", p, seed, stream)
    drawn = _unit(bits_like(chances, seed, stream))
    return primitives.cast(apply("less", primitives.cast(drawn, chances.dtype), chances), bool_)


def random_integers(x: TensorLike, low: int, high: int, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Return int64 numbers in the shape of `x`, with equal chances in [low, high), as numpy's Generator.integers.

    There may be up to 2^32 of them; chances differ by less than 2^-32 of one.
    """
    symbol, seed, stream = _like("random_integers", x, seed, stream)
    whole = type(low) is type(high) is int and -(1 << 63) <= low <= high <= 1 << 63
    if not whole or not 0 < high - low <= 1 << 32:
        problem = f"low is {low!r:.40}, high {high!r:.40}"
        raise mistake("random_integers", problem, (symbol,), "1 to 2^32 integers of 64 bits", "low=0, high=10")
    upper, lower = (primitives.cast(bits, uint64) for bits in pairs_like(symbol, seed, stream))
    span = high - low  # the upper half of a product of 64 and 32 bits, in two parts
    carried = apply("shift_right", apply("mul", lower, span), 32)
    number = apply("shift_right", apply("add", apply("mul", upper, span), carried), 32)
    return apply("add", primitives.cast(number, int64), low)


def random_permutation(x: TensorLike, axis: int = -1, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Return the elements of `x` along `axis` in a random order, each line in one of its own, as numpy's Generator.permuted."""
    symbol, seed, stream = _like("random_permutation", x, seed, stream)
    with describing("random_permutation", symbol):
        number = normalize_axis(axis, len(symbol.shape))
    order = apply("argsort", bits_like(symbol, seed, stream), axis=number, descending=False)
    return apply("take_along_axis", symbol, order, axis=number)


def categorical(logits: TensorLike, count: int = 1, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Draw `count` classes (int64) for each row of unnormalised log-probabilities: shape (…, classes) becomes (…, count).

    As `jax.random.categorical`, and ONNX's Multinomial.
    """
    symbol, seed, stream = _like("categorical", logits, seed, stream)
    if not symbol.shape or type(count) is not int or count < 0:
        raise mistake("categorical", f"{count!r:.40} draws", (symbol,), "rows of classes, and 0 draws or more", "count=1")
    *rows, classes = symbol.shape
    limits = primitives.reshape(cumsum(softmax(primitives.cast(symbol, float32), -1), -1), (*rows, 1, classes))
    chance = _unit(bits_like(primitives.broadcast_to(symbol.graph.scalar(0, float32), (*rows, count)), seed, stream))
    passed = apply("greater_equal", primitives.reshape(chance, (*rows, count, 1)), limits)
    return apply("minimum", sum_(primitives.cast(passed, int64), -1), symbol.graph.dim_value(classes - 1))


def dropout(x: TensorLike, ratio: float = 0.5, seed: int | Symbol = 0, stream: int | Symbol = 0) -> Symbol:
    """Return `x` with a share of its elements 0 and the others multiplied by 1 / (1 - ratio) (Srivastava et al., 2014).

    That is for training; without it, leave the call out. ratio: from 0, which keeps all, to 1, which keeps none.
    """
    symbol, seed, stream = _like("dropout", x, seed, stream)
    if isinstance(ratio, bool) or not isinstance(ratio, (int, float)) or not 0 <= ratio <= 1:
        raise mistake("dropout", f"ratio is {ratio!r:.40}", (symbol,), "a number from 0 to 1", "ratio=0.5")
    kept = apply("greater_equal", _unit(bits_like(symbol, seed, stream)), float(ratio))
    scale = 0.0 if ratio == 1 else 1.0 / (1.0 - ratio)
    return apply("where", kept, apply("mul", symbol, scale), 0.0)
