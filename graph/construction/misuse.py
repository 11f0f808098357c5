"""Messages for graphs that are made as other libraries would have it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn, Self

from ...promotion.errors import UserError
from ..errors import describe
from ..types import TensorType

_EXAMPLE = "Graph('model', inputs=[TensorType(float32, ('batch', 8), name='x')])"


class NeverCurrent:
    """What `Graph` is not: a context. And it has a name."""

    def __new__(cls, *arguments: object, **options: object) -> Self:
        if not arguments and "name" not in options:
            raise UserError(f"Graph: it has no name; fix: {_EXAMPLE}")
        return super().__new__(cls)

    def __enter__(self) -> NoReturn:
        raise UserError(
            "Graph: there is no current graph for a `with` block to set, an operation belongs to the graph of its operands; "
            "fix: g = Graph(name, inputs=[…]), then x, = g.inputs"
        )

    def __exit__(self, *_: object) -> None:
        """Never called: `__enter__` refuses."""


def checked_graph(what: str, graph: object) -> None:
    """Raise `UserError` unless `graph` has a graph's symbols: compiled models and results of operations have none."""
    if not hasattr(graph, "symbols") or not hasattr(graph, "rules"):
        raise UserError(f"{what}: expected a Graph, got {type(graph).__name__}; fix: pass the graph it was made from")


def input_types(inputs: object) -> Iterable[TensorType]:
    """What was given as `inputs`, one entry per argument of the graph. Raises `UserError` for dicts and bare pairs."""
    if isinstance(inputs, TensorType):
        return (inputs,)
    if isinstance(inputs, Mapping):
        raise UserError(
            f"Graph: inputs is a dict; expected a list, in the order of the arguments, whose types have names; fix: {_EXAMPLE}"
        )
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise UserError(f"Graph: inputs is {describe(inputs)}; expected a list of TensorType; fix: {_EXAMPLE}")
    types = list(inputs)
    for entry in types:
        if isinstance(entry, (tuple, list)):
            raise UserError(f"Graph: the input {entry!r} is a {type(entry).__name__}; expected a TensorType; fix: {_EXAMPLE}")
    return types
