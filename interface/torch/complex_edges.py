"""Puts pairs of real numbers where complex ones enter and leave a graph: joinery computes with parts, PyTorch makes views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_COPY = torch.ops.aten.copy_.default
_REAL, _COMPLEX = torch.ops.aten.view_as_real_copy.default, torch.ops.aten.view_as_complex.default


def pairs_of(tensor: Any) -> Any:
    """Return real and imaginary parts on a last axis, over the same memory unless imaginary parts are negated there."""
    return torch.view_as_real(tensor.resolve_conj())


def real_edges(module: Any, written: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Let the graph take and return pairs.

    written: inputs, and what is copied into them at the end, which is returned with views of pairs in place of complex nodes.
    """
    graph = module.graph
    nodes = list(graph.nodes)
    begin = next(node for node in nodes if node.op != "placeholder")
    sources = {source for _, source in written}
    views: dict[Any, Any] = {}
    for node in nodes:
        if not is_complex(node) or isinstance(node.meta["val"], (tuple, list)):
            continue
        leaves = [user for user in node.users if user.op == "output" or user.target is _COPY]
        if node.op == "placeholder" and len(leaves) < len(node.users):
            inside = [user for user in node.users if user not in leaves]
            with graph.inserting_before(begin):
                whole = _complex(graph, _pairs(graph, node, pairs_of))
            for user in inside:
                user.replace_input_with(node, whole)
        elif node.op == "call_function" and node.target is not _COPY and (leaves or node in sources):
            with graph.inserting_before(node.next):
                views[node] = _complex(graph, _pairs(graph, node, _REAL))
            for user in leaves:
                user.replace_input_with(node, views[node])
    return [(target, views.get(source, source)) for target, source in written]


def is_complex(node: Any) -> bool:
    """Return whether the value of a node, or one of several, is a tensor of complex numbers."""
    value = node.meta.get("val")
    dtypes = [getattr(each, "dtype", None) for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return any(isinstance(dtype, torch.dtype) and dtype.is_complex for dtype in dtypes)


def _pairs(graph: Any, node: Any, function: Any) -> Any:
    value = node.meta["val"]
    made = graph.call_function(function, (node,))
    with value.fake_mode:  # in the memory order of the complex tensor
        made.meta["val"] = torch.view_as_real(value.resolve_conj())
    return made


def _complex(graph: Any, pairs: Any) -> Any:
    value = pairs.meta["val"]
    made = graph.call_function(_COMPLEX, (pairs,))
    with value.fake_mode:
        made.meta["val"] = torch.view_as_complex(value)
    return made
