"""Rejects graphs that are made in the way of other libraries, with messages that show joinery's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NoReturn, Self

from ...promotion.errors import UserError
from ..errors import describe
from ..types import TensorType

_EXAMPLE = "Graph('model', inputs=[TensorType(float32, ('batch', 8), name='x')])"


class NeverCurrent:
    """A base of `Graph` that rejects graphs without a name, `with` blocks (there is no current graph) and copies."""

    name: str
    finished: bool

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
        """Do nothing: `__enter__` always raises."""

    def __copy__(self) -> Self:
        """Return the graph itself, which does not change once it is finished. Raises `UserError` before that."""
        if not self.finished:
            raise UserError(
                f"Graph {self.name!r} cannot be copied while it is built: its symbols belong to one graph; "
                "fix: call output(…) first, or build another graph with the same function"
            )
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        """Return what `__copy__` does: symbols, too, are their own copies."""
        return self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise UserError(
            f"Graph {self.name!r} cannot be pickled; fix: keep pair = joinery.to_text(graph), "
            "and read it with joinery.from_text(*pair); to other processes send joinery.distributed.reference of the compiled "
            "model, which each opens once"
        )


def checked_graph(what: str, graph: object) -> None:
    """Raise `UserError` unless `graph` has symbols and rules, as compiled models and symbols do not."""
    if not hasattr(graph, "symbols") or not hasattr(graph, "rules"):
        raise UserError(f"{what}: expected a Graph, got {type(graph).__name__}; fix: pass the graph it was made from")


def input_types(inputs: object) -> Iterable[TensorType]:
    """Return the types given as `inputs`, one per argument of the graph.

    Raises `UserError` for dicts, bare pairs and what is no sequence.
    """
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
