"""Handles random numbers in programs that run without PyTorch: others than its generator gives, of the same distributions.

PyTorch itself draws them where it is there, so that one seed gives the numbers of eager mode.
"""

from __future__ import annotations

import math

from .....promotion.dtype import DType, bool_, float32, float64, int64, uint64
from ....construction import primitives
from ....dims.dim import Dim, Extent
from ....functions.building import apply
from ....functions.ordered.sorting import top_k
from ....functions.positions import counting
from ....functions.random import distributions
from ....symbol import Symbol
from ...node import Node, Number
from ...registry import handles


def _like(node: Node) -> Symbol:
    """Return a tensor of the declared shape, whose values have no bearing."""
    return node.broadcast(node.number(0, float32))


def _unit(node: Node, dtype: DType, x: Symbol) -> Symbol:
    """Return numbers in [0, 1) with equal chances, which a dtype has without rounding: it would give 1 as well."""
    stream = node.stream()
    if dtype is float64:
        after = {**stream, "stream": stream["stream"] + 1}
        high, low = [primitives.cast(distributions.random_bits(x, **each), uint64) for each in (stream, after)]
        six, many, five = [x.graph.scalar(number, uint64) for number in (6, 27, 5)]
        bits = apply("bitwise_or", apply("shift_left", apply("shift_right", high, six), many), apply("shift_right", low, five))
        return apply("mul", primitives.cast(bits, float64), 2.0**-53)
    unit = distributions.random_uniform(x, **stream)
    if dtype.bits > 16:
        return primitives.cast(unit, dtype)
    digits = {"float16": 11}.get(dtype.name, 8)
    return primitives.cast(apply("mul", apply("floor", apply("mul", unit, 2.0**digits)), 2.0**-digits), dtype)


def _normal(node: Node, x: Symbol) -> Symbol:
    return distributions.random_normal(x, **node.stream())


@handles("rand.default", "rand_like.default", alone=True)
def rand(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Draw from [0, 1)."""
    return _unit(node, node.dtype, _like(node))


@handles("randn.default", "randn_like.default", alone=True)
def randn(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Draw from the normal distribution."""
    return _normal(node, _like(node)).cast(node.dtype)


@handles("uniform.default", alone=True)
def uniform(node: Node, x: Symbol, low: float = 0.0, high: float = 1.0, generator: None = None) -> Symbol:
    """Draw from a range."""
    wide = float64 if node.dtype is float64 else float32
    unit = _unit(node, node.dtype, x).cast(wide)
    found = apply("add", apply("mul", unit, high - low), low).cast(node.dtype)
    return apply("where", apply("less", found, node.number(high, node.dtype)), found, node.number(low, node.dtype))


@handles("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor", "normal.float_float", alone=True)
def normal(
    node: Node, mean: Symbol | Number = 0.0, std: Symbol | Number = 1.0, size: object = None, generator: None = None,
    dtype: DType | None = None,
) -> Symbol:  # fmt: skip
    """Draw from normal distributions of given means and deviations."""
    number = _normal(node, _like(node)).cast(node.dtype)
    spread, middle = [node.broadcast(node.operand(each, node.dtype)) for each in (std, mean)]
    return apply("add", apply("mul", number, spread), middle)


@handles("normal_functional.default", alone=True)
def normal_like(node: Node, x: Symbol, mean: float = 0.0, std: float = 1.0, generator: None = None) -> Symbol:
    """Draw from a normal distribution, in the shape of a tensor."""
    return normal(node, mean, std)


@handles("exponential.default", alone=True)
def exponential(node: Node, x: Symbol, lambd: float = 1.0, generator: None = None) -> Symbol:
    """Draw from an exponential distribution: never 0, since 1 is not drawn from [0, 1)."""
    wide = float64 if node.dtype is float64 else float32
    size = apply("negate", apply("log", apply("sub", 1.0, _unit(node, wide, x))))
    least = 2.0**-54 if wide is float64 else 2.0**-25
    return apply("div", apply("maximum", size, least), lambd).cast(node.dtype)


@handles("randint.default", "randint_like.default", alone=True)
def randint(node: Node, first: Symbol | Extent, second: object = None, dtype: DType | None = None) -> Symbol:
    """Draw integers from 0 on."""
    return _integers(node, 0, second if isinstance(first, Symbol) else first)


@handles("randint.low", "randint_like.low_dtype", alone=True)
def randint_from(node: Node, *arguments: object, dtype: DType | None = None) -> Symbol:
    """Draw integers of a range."""
    low, high = [each for each in arguments if isinstance(each, (int, Dim))][:2]
    return _integers(node, low, high)


def _integers(node: Node, low: object, high: object) -> Symbol:
    if not isinstance(low, int) or not isinstance(high, int):
        node.unsupported(f"the range {low} … {high} of random integers", "a range of numbers")
    node.require(high - low <= 1 << 32, f"a range of {high - low} integers", "at most 2^32")
    return distributions.random_integers(_like(node), low, high, **node.stream()).cast(node.dtype)


@handles("bernoulli.default", "bernoulli.p", "bernoulli.Tensor", alone=True)
def bernoulli(node: Node, x: Symbol, p: Symbol | float | None = None, generator: None = None) -> Symbol:
    """Draw 1 with given chances, else 0."""
    chances = x if p is None else node.operand(p, float32)
    wide = chances.cast(float64 if chances.dtype is float64 else float32)
    return apply("less", _unit(node, wide.dtype, _like(node)), node.broadcast(wide)).cast(node.dtype)


@handles("native_dropout.default", alone=True)
def native_dropout(node: Node, x: Symbol, p: float, train: bool | None = True) -> tuple[Symbol, Symbol]:
    """Leave out elements, and scale the others; return which are kept too."""
    if train is False or p == 0:
        return x, node.broadcast(node.number(True, bool_), x.shape)
    kept = apply("greater_equal", distributions.random_uniform(x, **node.stream()), float(p))
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    wide = x.cast(float64 if x.dtype is float64 else float32)
    return apply("mul", apply("mul", wide, kept.cast(wide.dtype)), scale).cast(x.dtype), kept


@handles("randperm.default", alone=True)
def randperm(node: Node, n: Extent, dtype: DType | None = None) -> Symbol:
    """Return positions in a random order."""
    return distributions.random_permutation(counting(node.graph, n).cast(int64), 0, **node.stream()).cast(node.dtype)


@handles("multinomial.default", alone=True)
def multinomial(node: Node, x: Symbol, num_samples: int, replacement: bool = False, generator: None = None) -> Symbol:
    """Draw classes with given weights. Without replacement they are the largest of logarithms with noise (Gumbel)."""
    logits = apply("log", x.cast(float32))
    node.require(isinstance(num_samples, int), f"{num_samples} draws", "a fixed number")
    if replacement:
        return distributions.categorical(logits, num_samples, **node.stream())
    unit = apply("maximum", _unit(node, float32, logits), 2.0**-25)
    noise = apply("negate", apply("log", apply("negate", apply("log", unit))))
    return top_k(apply("add", logits, noise), num_samples, -1, True)[1]


@handles("cauchy.default", alone=True)
def cauchy(node: Node, x: Symbol, median: float = 0.0, sigma: float = 1.0, generator: None = None) -> Symbol:
    """Draw from a Cauchy distribution."""
    wide = float64 if node.dtype is float64 else float32
    angle = apply("mul", apply("sub", _unit(node, wide, x), 0.5), math.pi)
    found = apply("div", apply("sin", angle), apply("cos", angle))
    return apply("add", apply("mul", found, sigma), median).cast(node.dtype)
