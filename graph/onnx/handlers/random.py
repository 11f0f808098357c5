"""Handles random numbers: they are those of a seed, or without one of the node, and the same at each run.

ONNX names no generator, so that results agree with no other runtime's. What has no seed is fixed by the position of the node in
the model. In loops the numbers of the iterations are part of both, so that each draws its own, however the loop runs.
"""

from __future__ import annotations

import hashlib

import numpy as np

from ....promotion.dtype import DType, bool_, float32, int32, uint64
from ...functions.building import apply
from ...functions.creation import zeros
from ...functions.random.distributions import bernoulli, categorical, random_normal, random_uniform
from ...functions.random.philox import Bits, split
from ...symbol import Symbol
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code


def sequence(node: Node) -> tuple[Bits, Bits]:
    """Return the seed and the stream of a node, in an iteration of the loops around it.

    Without a seed they are 128 bits of a hash of where the node stands, by which all nodes have other ones. Nothing counts
    nodes while they are imported: loops import a body several times, in other ways, and draw the same numbers.
    """
    given = node.attr("seed", None)
    seed: Bits
    stream: Bits
    if given is None:
        digest = hashlib.sha256(repr(node.path).encode()).digest()
        seed, stream = int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:16], "little")
    else:
        seed, stream = int(np.float32(given).view(np.uint32)), 0
    for number in node.iterations:
        counted = node.graph.as_symbol(number).cast(uint64) if isinstance(number, Symbol) else number
        seed, stream = split(seed, stream, counted)
    return seed, stream


def _dtype(node: Node, default: DType) -> DType:
    code = node.attr("dtype", None)
    target = default if code is None else dtype_of_code(code, node.op)
    node.require(target.has_arithmetic, f"random numbers of {target}", "a dtype with arithmetic")
    return target


def _drawn(node: Node, like: Symbol, dtype: DType) -> Symbol:
    seed, stream = sequence(node)
    if "Uniform" in node.op:
        low, high = float(node.attr("low")), float(node.attr("high"))
        return random_uniform(like, low, high, seed, stream).cast(dtype)
    return random_normal(like, float(node.attr("mean")), float(node.attr("scale")), seed, stream).cast(dtype)


@handles("RandomUniform", "RandomNormal", structural=True)
def random_tensor(node: Node) -> Result:
    """Make random numbers of a given shape."""
    shape = tuple(node.attr("shape"))
    node.require(all(size >= 0 for size in shape), f"a shape of {list(shape)}")
    return _drawn(node, zeros(node.graph, shape), _dtype(node, float32))


@handles("RandomUniformLike", "RandomNormalLike", structural=True)
def random_like(node: Node) -> Result:
    """Make random numbers in the shape of a tensor."""
    x = node[0]
    return _drawn(node, x, _dtype(node, x.dtype))


@handles("Bernoulli", structural=True)
def drawn(node: Node) -> Result:
    """Return 1 with the chances that the elements give, else 0."""
    p = node[0]
    return bernoulli(p, *sequence(node)).cast(_dtype(node, p.dtype))


@handles("Multinomial", structural=True)
def multinomial(node: Node) -> Result:
    """Draw classes by their unnormalised log-probabilities, several for each row."""
    x, count = node[0], node.attr("sample_size", 1)
    node.require(len(x.shape) == 2 and count > 0, f"{len(x.shape)} axes, sample_size {count}")
    classes = categorical(x, count, *sequence(node))
    code = node.attr("dtype", None)
    return classes.cast(int32 if code is None else dtype_of_code(code, "Multinomial"))


def dropped(node: Node, x: Symbol, ratio: float) -> tuple[Symbol, Symbol]:
    """Return `x` with a share of its elements 0 and the others larger for that, and which those are."""
    seed, stream = sequence(node)
    kept = apply("greater_equal", random_uniform(x, 0.0, 1.0, seed, stream), ratio).cast(bool_)
    scale = 0.0 if ratio >= 1 else 1.0 / (1.0 - ratio)
    return apply("where", kept, apply("mul", x, scale), 0.0), kept
