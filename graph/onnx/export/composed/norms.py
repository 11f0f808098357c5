"""Finds normalisations, and norms of axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .....promotion.dtype import float32
from ....functions import normalization as functions
from ....functions.reductions import log_sum, reduce_l1, reduce_l2, sum_square
from ....graph import Graph
from ....symbol import Symbol
from ...handlers.normalization import as_vectors
from ..equality import found_among
from .composed import Composed, Size, plain

_GROUPS = 21
"""The opset from which on GroupNormalization has a scale for each channel."""
_RMS = 23
_WIDE = ("float32", "float64")


def in_groups(root: Symbol, graph: Graph, opset: int) -> Composed | None:
    """Return the node of groups of channels that are normalised over space, scaled and shifted."""
    if root.op.name != "add" or root.dtype is not float32 or len(root.shape) < 3 or root.inputs[0].op.name != "mul":
        return None
    product, bias = root.inputs[0].inputs, _vector(root.inputs[1])
    scale = _vector(product[1])
    normal = product[0].inputs[0] if product[0].op.name == "reshape" else product[0]
    if scale is None or bias is None or normal.op.name != "mul":
        return None
    centred, spread = normal.inputs
    if centred.op.name != "sub" or spread.op.name != "rsqrt" or centred.inputs[0].op.name != "reshape":
        return None
    apart, shifted = centred.inputs[0], spread.inputs[0]
    number = _number(shifted.inputs[1]) if shifted.op.name == "add" else None
    x, groups = apart.inputs[0], apart.shape[1]
    if number is None or x.shape != root.shape or (not isinstance(groups, int) and groups != x.shape[1]):
        return None
    is_instance = groups == x.shape[1]
    if not is_instance and (opset < _GROUPS or 0 in x.shape):
        return None  # onnxruntime has no groups of nothing

    def make(_: Graph, value: Symbol, factors: Symbol, shifts: Symbol) -> Symbol:
        if is_instance:
            return functions.instance_norm(value, factors, shifts, number)
        return functions.group_norm(value, int(groups), factors, shifts, number)  # type: ignore[arg-type]

    if found_among(graph, make, (x, scale, bias), (root,)) is None:
        return None
    if is_instance:
        return plain("InstanceNormalization", (x, scale, bias), root, epsilon=number)
    return plain("GroupNormalization", (x, scale, bias), root, epsilon=number, num_groups=groups)


def of_last_axes(root: Symbol, graph: Graph, opset: int) -> Composed | None:
    """Return the node of a normalisation over several of the last axes, which are one for the operation."""
    if root.op.name != "reshape" or root.inputs[0].op.name not in ("layer_norm", "rms_norm") or root.dtype is not float32:
        return None
    inner = root.inputs[0]
    is_rms = inner.op.name == "rms_norm"
    flat, *vectors = inner.inputs
    if (is_rms and opset < _RMS) or not inner.attrs["has_scale"] or any([each.op.name != "reshape" for each in inner.inputs]):
        return None
    x, parameters, axis = flat.inputs[0], [each.inputs[0] for each in vectors], len(flat.shape) - 1
    epsilon = float(inner.attrs["epsilon"])
    if x.shape != root.shape or any([each.dtype is not float32 or each.shape != x.shape[axis:] for each in (*parameters,)]):
        return None

    def make(_: Graph, value: Symbol, *given: Symbol) -> Symbol:
        found = as_vectors(value, axis, *given)
        assert found is not None
        norm: Callable[..., Symbol] = functions.rms_norm if is_rms else functions.layer_norm
        return norm(found[0], *found[1], *([] if is_rms or len(given) > 1 else [None]), epsilon).reshape(value.shape)

    if found_among(graph, make, (x, *parameters), (root,)) is None:
        return None
    op = "RMSNormalization" if is_rms else "LayerNormalization"
    return plain(op, (x, *parameters), root, axis=axis, epsilon=epsilon)


_NORMS: Mapping[tuple[str, ...], tuple[str, Callable[..., Symbol]]] = {
    ("sqrt", "reduce_sum", "mul"): ("ReduceL2", reduce_l2),
    ("reduce_sum", "mul"): ("ReduceSumSquare", sum_square),
    ("reduce_sum", "abs"): ("ReduceL1", reduce_l1),
    ("log", "reduce_sum"): ("ReduceLogSum", log_sum),
}


def over_axes(root: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> Composed | None:
    """Return the node of a norm: what a sum over axes is taken of, or what becomes of it, is read by nothing else."""
    if root.dtype.name not in _WIDE:
        return None
    for rows, (op, function) in _NORMS.items():
        chain = [root]
        while len(chain) < len(rows) and chain[-1].op.name == rows[len(chain) - 1] and chain[-1].inputs:
            chain.append(chain[-1].inputs[0])
        total = next((each for each in chain if each.op.name == "reduce_sum"), None)
        if [each.op.name for each in chain] != [*rows] or total is None or not total.attrs["axes"]:
            continue
        if any([len(consumers.get(each.id, ())) != 1 or _is_output(each, graph) for each in chain[1:]]):
            continue
        axes, keeps = tuple(total.attrs["axes"]), bool(total.attrs["keepdims"])

        def make(_: Graph, value: Symbol, given: Any = (function, axes, keeps)) -> Symbol:
            made: Symbol = given[0](value, given[1], given[2])
            return made

        x = chain[-1].inputs[0]
        if found_among(graph, make, (x,), (root,)) is not None:
            return plain(op, (x, Size(axes)), root, keepdims=int(keeps))
    return None


def divided(root: Symbol, graph: Graph) -> Composed | None:
    """Return the node of a tensor that is divided by its norm along an axis, but where that is 0."""
    if root.op.name != "where" or root.dtype.name not in _WIDE or root.inputs[2].op.name != "div":
        return None
    x, norm = root.inputs[2].inputs
    p = 2 if norm.op.name == "sqrt" else 1
    total = norm.inputs[0] if p == 2 else norm
    if total.op.name != "reduce_sum" or len(total.attrs["axes"]) != 1 or not total.attrs["keepdims"]:
        return None
    (axis,) = total.attrs["axes"]

    def make(_: Graph, value: Symbol) -> Symbol:
        return functions.lp_norm(value, p, axis)

    if found_among(graph, make, (x,), (root,)) is None:
        return None
    return plain("LpNormalization", (x,), root, axis=axis, p=p)



def _is_output(symbol: Symbol, graph: Graph) -> bool:
    return any([symbol is each for each in graph.outputs])


def _vector(x: Symbol) -> Symbol | None:
    """Return the numbers of channels that a parameter is, in a form that broadcasts."""
    source = x.inputs[0] if x.op.name == "reshape" else x
    return source if len(source.shape) == 1 else None


def _number(x: Symbol) -> float | None:
    """Return a constant that an attribute holds exactly, as the dtype has it."""
    if x.op.name != "constant" or x.shape:
        return None
    number = float(x.attrs["value"])
    return number if number == float(np.float32(number)) else None
