"""Handles attention and rotated positions of ai.onnx, as far as one function of joinery means the same.

What these leave to the operators' definitions: 16-bit floats, which definitions round at each step, and what `attention` has
not, as scores that are an output. The exporter makes `attended` again to tell it in a graph.
"""

from __future__ import annotations

from .....promotion.dtype import float32, float64
from ....construction import primitives
from ....dims.dim import Extent
from ....functions.building import apply
from ....functions.joining import concat
from ....functions.linalg import attention
from ....functions.networks.rotary import rotary_embedding
from ....functions.positions import counting
from ....symbol import Symbol
from ...node import LeftToDefinition, Node, Result
from ...registry import handles

_INFINITY = float("inf")


def attended(
    q: Symbol, k: Symbol, v: Symbol, mask: Symbol | None, caches: tuple[Symbol, Symbol] | None, is_causal: bool,
    scale: float | None, softcap: float | None,
) -> tuple[Symbol, Symbol, Symbol]:  # fmt: skip
    """Attend with heads (N, heads, length, size), and return the result and keys and values with those of the caches before.

    A query sees keys up to its own position, behind those of the caches, where `is_causal`.
    """
    if caches is not None:
        k, v = concat([caches[0], k], 2), concat([caches[1], v], 2)
    if not is_causal or (mask is None and caches is None):
        return attention(q, k, v, mask, is_causal, scale, softcap), k, v
    rows = counting(q.graph, q.shape[2])
    if caches is not None:
        rows = apply("add", rows, q.graph.dim_value(caches[0].shape[2]))
    seen = apply("less_equal", counting(q.graph, k.shape[2]), primitives.reshape(rows, (q.shape[2], 1)))
    if mask is None:
        mask = seen
    elif mask.dtype.is_bool:
        mask = apply("logical_and", mask, seen)
    else:
        numbers = [seen.graph.scalar(number, mask.dtype) for number in (0.0, -_INFINITY)]
        mask = apply("add", mask, apply("where", seen, *numbers))
    return attention(q, k, v, mask, False, scale, softcap), k, v


@handles("Attention")
def scaled_dot_product(node: Node) -> Result:
    """Attend to keys and values, which may be cached, masked, and shared by several heads of queries."""
    given = [node.dtype(position) for position in range(3)]
    plain = given[0] in (float32, float64) and given[1] is given[2] is given[0]
    outputs = [position for position in range(4) if node.wants(position)]
    others = [node.attr(name, None) for name in ("left_window_size", "right_window_size")]
    mode, precision = node.attr("qk_matmul_output_mode", 0), node.attr("softmax_precision", None)
    code = {"float32": 1, "float64": 11}.get(str(given[0]))
    if (
        not plain or 3 in outputs or node.has(6) or mode or any(each not in (None, -1) for each in others)
        or precision not in (None, 0, code) or node.has(4) is not node.has(5)
    ):  # fmt: skip
        raise LeftToDefinition
    q, k, v = (_heads(node, position) for position in range(3))
    caches = (node[4], node[5]) if node.has(4) else None
    for position in (4, 5) if caches is not None else ():
        node.require(len(node.shape(position)) == 4, f"past keys or values of {len(node.shape(position))} axes; 4 are expected")
    mask = None if not node.has(3) else _of_all_queries(node[3])
    keys = k.shape[2] if caches is None else caches[0].shape[2] + k.shape[2]
    if mask is not None and (mask.dtype not in (q.dtype,) and not mask.dtype.is_bool):
        raise LeftToDefinition
    if mask is not None and not (mask.shape and _spans(node, mask.shape[-1], keys)):
        raise LeftToDefinition
    softcap = float(node.attr("softcap", 0.0)) or None
    scale = node.attr("scale", None)
    if not isinstance(q.shape[-1], int) or (softcap is not None and softcap < 0):
        raise LeftToDefinition
    y, keys_, values = attended(
        q, k, v, mask, caches, bool(node.attr("is_causal", 0)), None if scale is None else float(scale), softcap
    )
    if len(node.shape(0)) == 3:
        y = y.permute((0, 2, 1, 3)).reshape((y.shape[0], y.shape[2], y.shape[1] * y.shape[3]))
    return y, keys_, values


def _of_all_queries(mask: Symbol) -> Symbol:
    """Return the one row of which a mask has a copy for each query: it broadcasts, and runtimes want the copies."""
    if mask.op.name != "broadcast_to":
        return mask
    (row,) = mask.inputs
    is_repeated = len(row.shape) == len(mask.shape) > 1 and row.shape[-2] == 1
    return row if is_repeated and row.shape[:-2] == mask.shape[:-2] and row.shape[-1] == mask.shape[-1] else mask


def _spans(node: Node, length: Extent, keys: Extent) -> bool:
    """Return whether a mask is as long as there are keys; from opset 24 on shorter ones are filled up."""
    if length == keys:
        return True
    return node.version < 24 and node.graph.shape_checks.decide(length, keys) is not False


def _heads(node: Node, position: int) -> Symbol:
    """Return queries, keys or values as (N, heads, length, size)."""
    x = node[position]
    count = node.attr("q_num_heads" if position == 0 else "kv_num_heads", None)
    if len(x.shape) == 4:
        return x
    node.require(len(x.shape) == 3 and bool(count), f"input {position} of {len(x.shape)} axes without a number of heads")
    batch, length, width = x.shape
    return x.reshape((batch, length, int(count), width // int(count))).permute((0, 2, 1, 3))


@handles("RotaryEmbedding")
def rotated_positions(node: Node) -> Result:
    """Rotate pairs of elements of heads by angles that positions choose."""
    x, cosines, sines = node[0], node[1], node[2]
    fits = len(x.shape) in (3, 4) and bool(cosines.shape)
    node.require(fits, f"a tensor of {len(x.shape)} axes, {len(cosines.shape)} of angles")
    width, heads, interleaved = (node.attr(name, 0) for name in ("rotary_embedding_dim", "num_heads", "interleaved"))
    last = x.shape[-1] if len(x.shape) == 4 else x.shape[-1] // heads if heads else None
    half, axes = cosines.shape[-1], 2 if node.has(3) else 3
    is_plain = x.dtype in (float32, float64) and cosines.dtype is sines.dtype is x.dtype
    if not is_plain or not isinstance(last, int) or half != (width or last) // 2 or len(cosines.shape) != axes:
        raise LeftToDefinition
    if len(x.shape) == 4:
        return rotary_embedding(x, cosines, sines, node.get(3), bool(interleaved))
    batch, length, _ = x.shape
    apart = x.reshape((batch, length, heads, last)).permute((0, 2, 1, 3))
    return rotary_embedding(apart, cosines, sines, node.get(3), bool(interleaved)).permute((0, 2, 1, 3)).reshape(x.shape)
