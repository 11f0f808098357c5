"""Handles the attention of com.microsoft: heads side by side in the last axis, caches of keys and values, rotated positions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .....promotion.dtype import bool_, float32, int64
from ....construction.stated import require_at_most
from ....dims.dim import Extent, maximum
from ....functions.activations import softmax
from ....functions.building import apply
from ....functions.creation import full
from ....functions.joining import concat, stack
from ....functions.linalg import matmul
from ....functions.networks.rotary import rotated
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import Node, Result
from ...registry import handles

_DOMAIN = "com.microsoft"


def _heads(x: Symbol, heads: int) -> Symbol:
    """Return (batch, length, heads · size) as (batch, heads, length, size)."""
    batch, length, width = x.shape
    return x.reshape((batch, length, heads, width // heads)).permute((0, 2, 1, 3))


def _merged(x: Symbol) -> Symbol:
    batch, heads, length, size = x.shape
    return x.permute((0, 2, 1, 3)).reshape((batch, length, heads * size))


def _scale(node: Node, q: Symbol) -> float:
    """Return the factor of scores: the one given, else 1 / √size."""
    given, size = float(node.attr("scale", 0.0)), q.shape[-1]
    if given:
        return given
    if not isinstance(size, int):
        raise node.size_needed((size,), f"heads of {size} elements")
    return 1.0 / math.sqrt(size)


def _attended(
    q: Symbol, k: Symbol, v: Symbol, scale: float, biases: Sequence[Symbol], softcap: float = 0.0, sink: Symbol | None = None
) -> Symbol:
    """Attend, with scores to which biases are added one after the other: next to -10000 the order decides how they round.

    sink: scores of one key more for each head (heads,), which has no value.
    """
    scores = apply("mul", matmul(q, k.transpose()).cast(float32), scale)
    if softcap:
        scores = apply("mul", apply("tanh", apply("div", scores, softcap)), softcap)
    for bias in biases:
        scores = apply("add", scores, bias.cast(float32))
    if sink is not None:
        last = apply("broadcast_to", sink.cast(float32).reshape((1, -1, 1, 1)), shape=(*scores.shape[:3], 1))
        return matmul(softmax(concat([scores, last], 3), -1)[..., : scores.shape[3]].cast(v.dtype), v).cast(v.dtype)
    return matmul(softmax(scores, -1).cast(v.dtype), v).cast(v.dtype)


def _blocked(allowed: Symbol, filler: float) -> Symbol:
    """Return 0 where attention is allowed, and a large negative number elsewhere."""
    return apply("where", allowed, 0.0, allowed.graph.scalar(filler, float32))


def _causal(q: Symbol, past: Extent, total: Extent) -> Symbol:
    """Return where query i sees key j: none after its own position; as in onnxruntime the last query sees all keys."""
    graph, length = q.graph, q.shape[2]
    rows = counting(graph, length).reshape((length, 1))
    seen = apply("less_equal", counting(graph, total).reshape((1, total)), apply("add", rows, graph.dim_value(past)))
    if total == past + length:
        return seen
    return apply("logical_or", seen, apply("equal", rows, graph.dim_value(length - 1)))


def _masked(node: Node, q: Symbol, past: Extent, total: Extent, mask: int, starts: bool = True) -> list[Symbol]:
    """Return what masks add to scores: mask_filter_value where a key is padding, the lowest float, instead, where it is later.

    So a query before which all is padding attends to that, and to nothing behind it.

    mask: the position of the mask of keys among the inputs.  starts: whether it may say where keys begin.
    """
    filler = float(node.attr("mask_filter_value", -10000.0))
    padding = _padding(node, node[mask], q.shape[0], total, filler, starts) if node.has(mask) else None
    if not node.attr("unidirectional", 0):
        return [] if padding is None else [padding]
    seen, lowest = _causal(q, past, total), float(float32.min_value)
    return [_blocked(seen, lowest) if padding is None else apply("where", seen, padding, q.graph.scalar(lowest, float32))]


def _padding(node: Node, mask: Symbol, batch: Extent, length: Extent, filler: float, starts: bool = True) -> Symbol:
    """Return what a mask of keys adds to scores: keys (batch, keys), or (batch, queries, keys), that count where they are
    positive, or a vector that says where the keys of each row end.

    starts: whether the vector may say where they begin, too.
    """
    if len(mask.shape) == 1:
        keep = _between(node, mask, batch, length, starts)
    else:
        keep = mask if mask.dtype is bool_ else apply("greater", mask, 0)
    if len(keep.shape) == 2:
        keep = keep.reshape((keep.shape[0], 1, 1, keep.shape[1]))
    elif len(keep.shape) == 3:
        keep = keep.reshape((keep.shape[0], 1, *keep.shape[1:]))
    else:
        node.unsupported(f"a mask of {len(mask.shape)} axes", "a mask of (batch,), (batch, keys) or (batch, queries, keys)")
    return _blocked(keep, filler)


def _between(node: Node, mask: Symbol, batch: Extent, length: Extent, starts: bool) -> Symbol:
    """Return which keys of each row a vector lets count: of (batch,) those before the end that it has for the row.

    (2 · batch,) has ends, and behind them where rows begin. (3 · batch + 2,) has ends, and behind them how rows without
    padding lie one after the other, which has no bearing.
    """
    count = mask.shape[0]
    kinds = (batch, 2 * batch, 3 * batch + 2) if starts else (batch, 3 * batch + 2)
    if count not in kinds:
        if not (isinstance(count, int) and isinstance(batch, int)):
            raise node.size_needed((count, batch), f"a mask of {count} elements for a batch of {batch}")
        shapes = "(batch,), (2 · batch,) or (3 · batch + 2,)" if starts else "(batch,) or (3 · batch + 2,)"
        node.require(False, f"a mask of {count} elements for a batch of {batch}", f"a mask of {shapes}")
    at = counting(mask.graph, length).reshape((1, length))
    edges = mask.cast(int64)
    keep = apply("less", at, edges[:batch].reshape((batch, 1)))
    if starts and count not in (batch, 3 * batch + 2):
        keep = apply("logical_and", keep, apply("greater_equal", at, edges[batch:].reshape((batch, 1))))
    return keep


def _unpacked(node: Node, heads: int) -> tuple[Symbol, Symbol, Symbol]:
    """Return queries, keys and values, which may come in one tensor, or keys and values in one."""

    def parts(position: int, count: int) -> list[Symbol]:
        packed = node[position]
        sizes = (None, None, heads, count, None)
        packed = node.agreeing(packed, sizes, f"input {position}, (batch, length, heads, parts, size),")
        batch, length, _, _, size = packed.shape
        return [packed[:, :, :, number].reshape((batch, length, size * heads)) for number in range(count)]

    if not node.has(1):
        node.require(not node.has(2), "values without keys")
        q, k, v = parts(0, 3)
        return q, k, v
    q = node[0]
    k, v = (node[1], node[2]) if node.has(2) else parts(1, 2)
    for what, x, ranks in (("queries", q, (3,)), ("keys", k, (3, 4)), ("values", v, (3, 4))):
        node.require(len(x.shape) in ranks, f"{what} of {len(x.shape)} axes; (batch, length, width) is expected")
    return q, k, v


@handles("MultiHeadAttention", domain=_DOMAIN)
def multi_head_attention(node: Node) -> Result:
    """Attend with several heads; keys and values may be cached, masked and biased."""
    heads = node.attr("num_heads")
    node.require(heads > 0, f"num_heads is {heads}")
    q, k, v = _unpacked(node, heads)
    if node.has(3):
        added, width = node[3], q.shape[2]
        q = apply("add", q, added[:width])
        if len(k.shape) == 3:
            k, v = apply("add", k, added[width : width * 2]), apply("add", v, added[width * 2 :])
    q = _heads(q, heads)
    k, v = (each if len(each.shape) == 4 else _heads(each, heads) for each in (k, v))
    past: Extent = 0
    if node.has(6) and node.has(7):
        past = node.shape(6)[2]
        k, v = concat([node[6], k], 2), concat([node[7], v], 2)
    total = k.shape[2]
    biases = _masked(node, q, past, total, 4, starts=False) + ([node[5]] if node.has(5) else [])
    return _merged(_attended(q, k, v, _scale(node, q), biases)), k, v


@handles("Attention", domain=_DOMAIN)
def attention(node: Node) -> Result:
    """Make queries, keys and values of one input by one matrix, and attend."""
    heads = node.attr("num_heads")
    x, weights = node[0], node[1]
    node.require(heads > 0 and len(x.shape) == 3 and len(weights.shape) == 2, f"num_heads {heads}, {len(x.shape)} axes")
    if node.attr("do_rotary", 0):
        node.unsupported("do_rotary", "rotate queries and keys by RotaryEmbedding")
    wide = matmul(x, weights).cast(x.dtype)
    wide = apply("add", wide, node[2]) if node.has(2) else wide
    return attended_by_one_matrix(node, wide, mask=3, past=4, bias=5)


def attended_by_one_matrix(node: Node, wide: Symbol, mask: int, past: int, bias: int | None) -> Result:
    """Attend with queries, keys and values that lie side by side; the others are positions of inputs that may be there."""
    heads, width = node.attr("num_heads"), wide.shape[2]
    if not isinstance(width, int):
        raise node.size_needed((width,), f"queries, keys and values of {width} elements")
    sizes = node.attr("qkv_hidden_sizes", None) or [width // 3] * 3
    node.require(heads > 0, f"num_heads {heads}")
    node.require(len(sizes) == 3 and sum(sizes) == width, f"qkv_hidden_sizes {sizes} of {width}")
    q, k, v = (
        _heads(part, heads)
        for part in (wide[:, :, : sizes[0]], wide[:, :, sizes[0] : sizes[0] + sizes[1]], wide[:, :, sizes[0] + sizes[1] :])
    )
    before: Extent = 0
    if node.has(past):
        before = node.shape(past)[3]
        k, v = concat([node[past][0], k], 2), concat([node[past][1], v], 2)
    total = k.shape[2]
    biases = _masked(node, q, before, total, mask) + ([node[bias]] if bias is not None and node.has(bias) else [])
    result = _merged(_attended(q, k, v, _scale(node, q), biases))
    return result, stack([k, v], 0) if node.wants(1) else None


def _rotated(x: Symbol, positions: Symbol, cosines: Symbol, sines: Symbol, interleaved: bool) -> Symbol:
    """Rotate pairs of (batch, heads, length, size) by the angles of positions (batch, length); what is left over stays."""
    half = cosines.shape[1]
    batch, length = positions.shape
    cos, sin = (
        apply("gather", table, positions, axis=0).reshape((batch, 1, length, half)).cast(x.dtype) for table in (cosines, sines)
    )
    return rotated(x, cos, sin, interleaved)


@handles("RotaryEmbedding", domain=_DOMAIN)
def rotary_embedding(node: Node) -> Result:
    """Rotate the elements of each head by angles that depend on the position."""
    x, positions, cosines, sines = node[0], node[1], node[2], node[3]
    heads, partial = node.attr("num_heads", 0), node.attr("rotary_embedding_dim", 0)
    node.ignore("is_packed_batching")
    if node.attr("scale", 1.0) != 1.0:
        node.unsupported("a scale of angles", "multiply the tables by it")
    flat = len(x.shape) == 3
    if flat and not heads:
        node.require(partial == 0, "num_heads is missing")
        width, half = node.static_sizes((x.shape[2], cosines.shape[1]), "heads that num_heads does not count")
        heads = width // (2 * half)
    wide = _heads(x, heads) if flat else x
    batch, length = wide.shape[0], wide.shape[2]
    if len(positions.shape) == 1:  # where the first row is; the others follow
        first = node.agreeing(positions, (1,), "position_ids").cast(int64)
        positions = apply("add", counting(x.graph, length), first).reshape((1, length))
        positions = apply("broadcast_to", positions, shape=(batch, length))
    else:
        positions = node.agreeing(positions, (batch, length), "position_ids")
    result = _rotated(wide, positions, cosines, sines, bool(node.attr("interleaved", 0)))
    return _merged(result) if flat else result


@handles("GroupQueryAttention", domain=_DOMAIN)
def group_query_attention(node: Node) -> Result:
    """Attend causally, several heads of queries to one of keys, after the keys and values of a cache.

    How much of the cache is valid may differ in each row of the batch. What is returned is as long as the larger one of the
    cache and of the past with the new positions: a cache that is made once, longer than what it holds, keeps its length.
    """
    heads, shared = node.attr("num_heads"), node.attr("kv_num_heads")
    node.require(heads > 0 and shared > 0 and heads % shared == 0, f"{heads} heads of queries, {shared} of keys")
    for name in ("k_quant_type", "v_quant_type", "kv_cache_bit_width", "qk_output"):
        if node.attr(name, 0) not in (0, -1, "NONE"):
            node.unsupported(name, "export the model without it")
    if any(node.has(position) for position in (9, 10, *range(12, len(node)))):
        node.unsupported("position_ids, attention_bias or scales of a cache", "export the model without it")
    q = node[0]
    sink = node.agreeing(node[11], (heads,), "head_sink") if node.has(11) else None
    if sink is None and node.attr("smooth_softmax", -1) == 1:  # one key more whose score is 0
        sink = full(q.graph, (heads,), 0.0, float32)
    node.require(len(q.shape) == 3, f"queries of {len(q.shape)} axes; (batch, length, width) is expected")
    if node.has(1):
        q, k, v = _heads(q, heads), _heads(node[1], shared), _heads(node[2], shared)
    else:  # queries, keys and values side by side
        wide = _heads(q, heads + 2 * shared)
        q, k, v = wide[:, :heads], wide[:, heads : heads + shared], wide[:, heads + shared :]
    batch, _, length, _ = q.shape
    past: Extent = node.shape(3)[2] if node.has(3) else 0
    stated = node.count(6, "total_sequence_length")
    counted = f"total_sequence_length {stated} counts the {length} new positions and as many of the {past} before as are valid"
    require_at_most(q.graph, length, stated, counted)
    require_at_most(q.graph, stated, past + length, counted)
    total = stated if stated == past + length else maximum(stated, past)
    valid = apply("add", node[5].cast(int64).reshape((-1, 1)), 1)  # positions of each row, with the new ones
    before = apply("maximum", apply("sub", valid, q.graph.dim_value(length)), 0)
    positions = apply("add", counting(q.graph, length).reshape((1, length)), before)
    if node.attr("do_rotary", 0):
        interleaved = bool(node.attr("rotary_interleaved", 0))
        q, k = (_rotated(each, positions, node[7], node[8], interleaved) for each in (q, k))
    else:
        node.ignore("rotary_interleaved")
    if node.has(3):
        k, v = (_cached(node[number], new, before, total) for number, new in ((3, k), (4, v)))
    group = heads // shared
    keys, values = (
        apply("broadcast_to", each.reshape((batch, shared, 1, *each.shape[2:])), shape=(batch, shared, group, *each.shape[2:]))
        .reshape((batch, heads, *each.shape[2:])) for each in (k, v)
    )  # fmt: skip
    reach = counting(q.graph, total).reshape((1, 1, total))
    rows = positions.reshape((batch, length, 1))
    allowed = apply("less_equal", reach, rows)
    window = node.attr("local_window_size", -1)
    if window > 0:
        allowed = apply("logical_and", allowed, apply("greater", reach, apply("sub", rows, window)))
    bias = _blocked(allowed.reshape((batch, 1, length, total)), float("-inf"))
    result = _attended(q, keys, values, _scale(node, q), [bias], float(node.attr("softcap", 0.0)), sink)
    return _merged(result), k, v


def _cached(past: Symbol, new: Symbol, before: Symbol, total: Extent) -> Symbol:
    """Return the cache with new entries after the valid ones of each row, and zeros after them."""
    capacity, batch = past.shape[2], new.shape[0]
    graph = past.graph
    at = counting(graph, total).reshape((1, total))
    since = apply("sub", at, before)
    later = apply("add", since, graph.dim_value(capacity))
    which = apply("where", apply("less", since, 0), at, later).reshape((batch, 1, total, 1))
    taken = apply("take_along_axis", concat([past, new], 2), which, axis=2)
    filled = apply("less", since, graph.dim_value(new.shape[2])).reshape((batch, 1, total, 1))
    return apply("where", filled, taken, graph.scalar(0.0, taken.dtype))
