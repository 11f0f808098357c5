"""Puts pairs of real numbers where complex ones enter and leave a graph: joinery computes with parts, PyTorch makes views."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .reading import is_view

_EDGE = "joinery edge"
_REAL, _COMPLEX = torch.ops.aten.view_as_real_copy.default, torch.ops.aten.view_as_complex.default


def complex_of(pairs: Any) -> Any:
    """Return complex numbers over the memory of pairs, as no view: AOTAutograd would make views of what they are a view of."""
    return torch.view_as_complex(pairs).data


def pairs_of(tensor: Any) -> Any:
    """Return real and imaginary parts on a last axis, over the same memory unless imaginary parts are negated there."""
    return torch.view_as_real(tensor.resolve_conj())


def real_edges(module: Any, written: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Let the graph take and return pairs.

    What is returned as a view, and has complex numbers on its way, is made anew as a view of an input, or of the complex tensor
    over pairs that a part returns: so it shares memory as the model says.

    written: inputs, and what is copied into them at the end, which is returned with views of pairs in place of complex nodes.
    """
    graph = module.graph
    nodes = list(graph.nodes)
    begin, last = next(node for node in nodes if node.op != "placeholder"), nodes[-1]
    views: dict[Any, Any] = {}
    leaves = [*last.all_input_nodes, *[source for _, source in written]]
    for leaf in dict.fromkeys(leaves):
        if _is_by_complex(leaf):
            views[leaf] = _viewed(graph, leaf, views, last)
            last.replace_input_with(leaf, views[leaf])
    made = set(graph.nodes) - set(nodes)
    for node in nodes:
        if node.op != "placeholder" or not is_complex(node):
            continue
        inside = [user for user in node.users if user.op != "output" and user not in made]
        if inside:
            with graph.inserting_before(begin):
                whole = _complex(graph, _pairs(graph, node, pairs_of))
            for user in inside:
                user.replace_input_with(node, whole)
    return [(target, views.get(source, source)) for target, source in written]


def _is_by_complex(node: Any) -> bool:
    """Return whether a node is complex, or a view of what is."""
    while not (found := is_complex(node)) and is_view(node):
        node = node.args[0]
    return found and node.op != "placeholder"


def _viewed(graph: Any, node: Any, views: dict[Any, Any], last: Any) -> Any:
    """Return a node anew: as a view of an input or of a complex tensor over pairs, at the end of the graph."""
    if node.op == "placeholder" or (found := views.get(node)) is not None:
        return node if node.op == "placeholder" else found
    if is_view(node):
        base = _viewed(graph, node.args[0], views, last)
        with graph.inserting_before(last):
            made = graph.create_node(node.op, node.target, (base, *node.args[1:]), node.kwargs)
        made.meta = dict(node.meta)
    elif is_complex(node):
        with graph.inserting_before(node.next):
            made = _complex(graph, _pairs(graph, node, _REAL))
    else:
        made = node
    views[node] = made
    return made


def carried_as_pairs(module: Any, group: Callable[[Any], object]) -> bool:
    """Put pairs between complex numbers and what reads them in another group; return whether there are such.

    group: of a node: the part of joinery that computes it, or whether it is PyTorch's; None for nodes that are not computed.
    """
    graph = module.graph
    is_changed = False
    for node in list(graph.nodes):
        if node.op != "call_function" or not is_complex(node) or isinstance(node.meta["val"], (tuple, list)):
            continue
        own = group(node)
        readers: dict[object, list[Any]] = {}
        for user in node.users:
            theirs = None if user.op == "output" or user.target is operator.getitem else group(user)
            is_pairs = is_edge(user) and user.target is _REAL
            if own is not None and theirs is not None and theirs != own and not is_pairs:
                readers.setdefault(theirs, []).append(user)
        if readers:
            is_changed = True
            with graph.inserting_before(node.next):
                pairs = node.args[0] if is_edge(node) else _pairs(graph, node, _REAL)
            for users in readers.values():
                with graph.inserting_before((node if is_edge(node) else pairs).next):
                    anew = _complex(graph, pairs)
                for user in users:
                    user.replace_input_with(node, anew)
    return is_changed


def is_edge(node: Any) -> bool:
    """Return whether a node was put where complex numbers enter or leave the graph."""
    return bool(node.meta.get(_EDGE))


def is_complex(node: Any) -> bool:
    """Return whether the value of a node, or one of several, is a tensor of complex numbers."""
    value = node.meta.get("val")
    dtypes = [getattr(each, "dtype", None) for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return any(isinstance(dtype, torch.dtype) and dtype.is_complex for dtype in dtypes)


def _pairs(graph: Any, node: Any, function: Any) -> Any:
    value = node.meta["val"]
    made = graph.call_function(function, (node,))
    made.meta[_EDGE] = True
    with value.fake_mode:  # in the memory order of the complex tensor
        made.meta["val"] = torch.view_as_real(value.resolve_conj())
    return made


def _complex(graph: Any, pairs: Any) -> Any:
    value = pairs.meta["val"]
    made = graph.call_function(_COMPLEX, (pairs,))
    made.meta[_EDGE] = True
    with value.fake_mode:
        made.meta["val"] = torch.view_as_complex(value)
    return made
