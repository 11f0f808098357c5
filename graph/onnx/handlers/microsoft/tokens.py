"""Handles operators of com.microsoft on tokens and words: hashes, convolutions over characters, and repeated n-grams."""

from __future__ import annotations

from .....promotion.dtype import int32, int64, string, uint32, uint64
from ....construction import primitives
from ....dims.dim import maximum
from ....functions.building import apply
from ....functions.host.strings import string_hash
from ....functions.linalg import matmul
from ....functions.ordered.scattering import scatter_max
from ....functions.positions import counting
from ....functions.reductions import max_, sum_
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles

_DOMAIN = "com.microsoft"
_INFINITY = float("inf")


@handles("NGramRepeatBlock", domain=_DOMAIN)
def without_repeated_ngrams(node: Node) -> Result:
    """Set the scores of tokens to -inf that would complete an n-gram which is there already."""
    tokens, scores, size = node[0].cast(int64), node[1], node.attr("ngram_size")
    node.require(size > 0, f"ngram_size {size}")
    axes = len(tokens.shape), len(scores.shape)
    node.require(axes == (2, 2), f"tokens of {axes[0]} axes, scores of {axes[1]}; 2 are expected")
    length, graph = tokens.shape[1], node.graph
    count = maximum(length - size + 1, 0)  # places where an n-gram begins
    starts = counting(graph, count)
    holds: Symbol | None = None
    for number in range(size - 1):
        there = apply("gather", tokens, apply("add", starts, number), axis=1)
        last = apply("add", graph.dim_value(length), number - size + 1).reshape((1,))
        same = apply("equal", there, apply("gather", tokens, last, axis=1))
        holds = same if holds is None else apply("logical_and", holds, same)
    ends = apply("gather", tokens, apply("add", starts, size - 1), axis=1)
    if holds is None:
        holds = apply("broadcast_to", graph.scalar(True), shape=ends.shape)
    none = apply("broadcast_to", graph.scalar(0, int32), shape=scores.shape)
    blocked = scatter_max(none, holds.cast(int32), ends, 1)
    return apply("where", apply("greater", blocked, 0), graph.scalar(-_INFINITY, scores.dtype), scores)


@handles("WordConvEmbedding", domain=_DOMAIN)
def character_convolution(node: Node) -> Result:
    """Look up the characters of each word, convolve along them, and take the largest value of each filter."""
    texts, weights, bias, table = node[0], node[1], node[2], node[3]
    axes = len(texts.shape), len(weights.shape)
    node.require(axes == (2, 4), f"words of {axes[0]} axes, weights of {axes[1]}; (words, letters) and 4 are expected")
    filters, size, width = (node.attr(name, None) for name in ("embedding_size", "conv_window_size", "char_embedding_size"))
    weights = node.agreeing(weights, (filters, 1, size, width), "the weights")
    (window,) = node.static_sizes(weights.shape[2:3], "a window of letters")
    length = texts.shape[1]
    windows = length - window + 1
    node.graph.shape_checks.require_at_least(windows, 1, "a word is shorter than the window")
    letters = apply("gather", table, texts, axis=0)
    starts = counting(node.graph, windows)
    total: Symbol | None = None
    for number in range(window):
        part = apply("gather", letters, apply("add", starts, number), axis=1)
        term = matmul(part, weights[:, 0, number].transpose())
        total = term if total is None else apply("add", total, term)
    assert total is not None
    is_letter = apply("greater", texts, 0)
    used = apply("where", is_letter[:, 0], sum_(is_letter, 1, dtype=int64), 0)
    last = apply("maximum", apply("sub", used, window), 0).reshape((-1, 1, 1))
    inside = apply("less_equal", starts.reshape((windows, 1)), last)
    largest = max_(apply("where", inside, total, node.graph.scalar(-_INFINITY, total.dtype)), axis=1)
    result = apply("tanh", apply("add", largest, bias))
    there = apply("greater", used, 0).reshape((-1, 1))
    return apply("where", there, result, node.graph.scalar(0.0, result.dtype))


@handles("MurmurHash3", domain=_DOMAIN)
def murmur_hash(node: Node) -> Result:
    """Hash the bytes of each element: MurmurHash3_x86_32."""
    x, seed = node[0], node.attr("seed", 0) % (1 << 32)
    if x.dtype is string:
        result = string_hash(x, seed)
    else:
        node.require(x.dtype.bits in (32, 64), f"elements of {x.dtype}; 32 or 64 bits are expected")
        graph = node.graph
        if x.dtype.bits == 64:
            bits = primitives.bitcast(x, uint64)
            low = apply("bitwise_and", bits, graph.scalar(0xFFFFFFFF, uint64)).cast(uint32)
            blocks = [low, apply("shift_right", bits, graph.scalar(32, uint64)).cast(uint32)]
        else:
            blocks = [primitives.bitcast(x, uint32)]
        result = _hashed(blocks, seed)
    return result if node.attr("positive", 1) else primitives.bitcast(result, int32)


def _hashed(blocks: list[Symbol], seed: int) -> Symbol:
    """Return the hash of elements of whole blocks of 4 bytes."""
    graph = blocks[0].graph

    def number(value: int) -> Symbol:
        return graph.scalar(value, uint32)

    def rotated(value: Symbol, by: int) -> Symbol:
        return apply("bitwise_or", apply("shift_left", value, number(by)), apply("shift_right", value, number(32 - by)))

    found = number(seed)
    for block in blocks:
        mixed = apply("mul", rotated(apply("mul", block, number(0xCC9E2D51)), 15), number(0x1B873593))
        found = apply("add", apply("mul", rotated(apply("bitwise_xor", found, mixed), 13), number(5)), number(0xE6546B64))
    found = apply("bitwise_xor", found, number(4 * len(blocks)))
    for by, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        found = apply("mul", apply("bitwise_xor", found, apply("shift_right", found, number(by))), number(factor))
    return apply("bitwise_xor", found, apply("shift_right", found, number(16)))
