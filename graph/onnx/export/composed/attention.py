"""Finds attention and rotated positions, which opset 23 has as one node each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

from .....promotion.dtype import bool_, float32, int64
from ....dims.dim import Extent
from ....functions.networks.rotary import rotary_embedding
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.networks.transformers import attended
from ..equality import found_among
from .composed import Composed, Expanded, Operand, plain, walked

OPSET = 23
"""The opset that has these operators."""
_Caches = tuple[Symbol, Symbol] | None


def attention(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of an attention whose result is `root`."""
    found = root.inputs[1] if root.op.name == "where" else root
    if found.op.name != "matmul" or found.dtype is not float32 or len(root.shape) != 4:
        return None
    weights, v = found.inputs
    if weights.op.name != "softmax" or len(weights.inputs[0].shape) != 4:
        return None
    scores, masks = weights.inputs[0], list[Symbol]()
    while scores.op.name == "add":
        masks += _masks(scores.inputs[1])
        scores = scores.inputs[0]
    softcap = scale = None
    if scores.op.name == "mul" and scores.inputs[0].op.name == "tanh":
        softcap = _number(scores.inputs[1])
        scores = scores.inputs[0].inputs[0]
        if scores.op.name != "div":
            return None
        scores = scores.inputs[0]
    if scores.op.name == "mul":
        scale = _number(scores.inputs[1])
        scores = scores.inputs[0]
    if scores.op.name != "matmul" or scores.inputs[1].op.name != "permute" or scale is None:
        return None
    q, k = scores.inputs[0], scores.inputs[1].inputs[0]
    size = q.shape[-1]
    factor = None if isinstance(size, int) and size and abs(scale * math.sqrt(size) - 1.0) < 1e-6 else scale
    ways = itertools.product((True, False), _keys(k, v), [*masks[::-1], None])
    for is_causal, (own_k, own_v, caches), mask in ways:
        for used in dict.fromkeys((factor, scale)):
            operands = (q, own_k, own_v)
            match = _made(graph, root, (_apart(k), _apart(v)), operands, mask, caches, is_causal, used, softcap)
            if match is not None:
                return match
    return None


def _made(
    graph: Graph, root: Symbol, whole: Sequence[Symbol], operands: tuple[Symbol, Symbol, Symbol], mask: Symbol | None,
    caches: _Caches, is_causal: bool, scale: float | None, softcap: float | None,
) -> Composed | None:  # fmt: skip
    rest = [*(() if mask is None else (mask,)), *(caches or ())]
    if any([0 in each.shape for each in operands]):
        return None  # which onnxruntime refuses

    def make(_: Graph, q: Symbol, k: Symbol, v: Symbol, *given: Symbol) -> Symbol:
        others = list(given)
        own_mask = None if mask is None else others.pop(0)
        own_caches = None if caches is None else (others[0], others[1])
        return attended(q, k, v, own_mask, own_caches, is_causal, scale, softcap)[0]

    if found_among(graph, make, (*operands, *rest), (root,)) is None:
        return None
    attributes: dict[str, Any] = {"is_causal": int(is_causal)}
    if scale is not None:
        attributes["scale"] = scale
    if softcap is not None:
        attributes["softcap"] = softcap
    results = ((root,), *[(each,) for each in whole]) if caches is not None else ((root,),)
    given = (*operands, _for_queries(mask, root.shape[2]), *(caches or ()))
    return Composed("Attention", given, results, attributes, {}, None, caches is not None)


def _for_queries(mask: Symbol | None, length: Extent) -> Operand:
    """Return a mask with a row for each query: onnxruntime refuses one row for all, though ONNX lets it broadcast."""
    return mask if mask is None or mask.shape[-2] == length else Expanded(mask, (length, 1))


def _keys(k: Symbol, v: Symbol) -> Iterator[tuple[Symbol, Symbol, _Caches]]:
    """Yield keys and values as the node may take them: shared by heads of queries, and behind those of caches."""
    k, v = _apart(k), _apart(v)
    if all(each.op.name == "concat" and len(each.inputs) == 2 and each.attrs["axis"] == 2 for each in (k, v)):
        yield k.inputs[1], v.inputs[1], (k.inputs[0], v.inputs[0])
    yield k, v, None


def _apart(x: Symbol) -> Symbol:
    """Return keys or values before they were repeated for several heads."""
    if x.op.name == "reshape" and x.inputs[0].op.name == "broadcast_to" and x.inputs[0].inputs[0].op.name == "reshape":
        return x.inputs[0].inputs[0].inputs[0]
    return x


def _masks(bias: Symbol) -> list[Symbol]:
    """Return what may be the mask of which a bias is made."""
    found = [bias]
    if bias.op.name == "where":
        seen = bias.inputs[0]
        found = [seen]
        if seen.op.name == "logical_and":
            found.append(seen.inputs[0])
    elif bias.op.name == "add":
        found.append(bias.inputs[0])
    return [each for each in found if each.dtype in (bool_, float32) and 2 <= len(each.shape) <= 4]


def _number(x: Symbol) -> float | None:
    return float(x.attrs["value"]) if x.op.name == "constant" and not x.shape else None


def rotary(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of pairs that are rotated, of heads (N, heads, length, size)."""
    if root.op.name not in ("concat", "reshape") or root.dtype is not float32 or len(root.shape) != 4:
        return None
    inner = list(walked(root, 24))
    tables = [each.inputs[1] for each in inner if each.op.name == "mul"]
    if root.op.name == "reshape" and not tables:
        return None
    heads = [each for each in inner if each.shape == root.shape and each is not root]
    heads += [each.inputs[0] for each in inner if each.op.name == "slice" and each.inputs[0].shape == root.shape]
    for x in _once(heads):
        for cosines, sines in itertools.permutations(_once(tables), 2):
            for leaves in _tables(cosines, sines):
                for interleaved in (False, True):

                    def make(_: Graph, *given: Symbol, interleaved: bool = interleaved) -> Symbol:
                        where = given[3] if len(given) > 3 else None
                        return rotary_embedding(given[0], given[1], given[2], where, interleaved)

                    if leaves[0].shape[-1:] != leaves[1].shape[-1:]:
                        continue
                    if len(leaves) == 2 and leaves[0].shape[0] != x.shape[0]:
                        continue  # onnxruntime has tables for each element of the batch
                    if found_among(graph, make, (x, *leaves), (root,)) is not None:
                        half, size = leaves[0].shape[-1], root.shape[-1]
                        if not isinstance(half, int) or not isinstance(size, int):
                            return None
                        width = {} if 2 * half == size else {"rotary_embedding_dim": 2 * half, "num_heads": root.shape[1]}
                        return plain("RotaryEmbedding", (x, *leaves), root, interleaved=int(interleaved), **width)
    return None


def _once(symbols: Sequence[Symbol]) -> list[Symbol]:
    return list({symbol.id: symbol for symbol in symbols}.values())


def _tables(cosines: Symbol, sines: Symbol) -> Iterator[Sequence[Symbol]]:
    """Yield tables (longest, pairs) with the positions that choose rows, or tables (N, length, pairs)."""
    one, other = (each.inputs[0] if each.op.name == "reshape" else each for each in (cosines, sines))
    if one.op.name == "gather" and other.op.name == "gather" and one.inputs[1] is other.inputs[1]:
        positions = one.inputs[1]
        if positions.dtype is int64 and len(positions.shape) == 2:
            yield one.inputs[0], other.inputs[0], positions
    if len(one.shape) == 3 and len(other.shape) == 3:
        yield one, other


