"""Ends construction: names the outputs, and makes the errors for operands of other or finished graphs."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.errors import UserError
from ..errors import compose
from ..names import checked_name
from ..protocols import GraphLike, SymbolLike, TensorLike


def output_names(outputs: Sequence[SymbolLike], names: Sequence[str] | None) -> tuple[str, ...]:
    """Return one distinct name per output: those given, those of the symbols, or "output0", "output1", ….

    Raises `UserError` for given names that are too few or many, no valid names, or not distinct.
    """
    if names is None:
        own = [symbol.name or f"output{position}" for position, symbol in enumerate(outputs)]
        if len(set(own)) != len(own):
            own = [f"output{position}" for position in range(len(outputs))]
        return tuple(own)
    if isinstance(names, str):
        names = (names,)
    if len(names) != len(outputs):
        raise UserError(f"output: {len(names)} names for {len(outputs)} outputs; fix: one name per output")
    for entry in names:
        if not isinstance(entry, str) or not entry:
            raise UserError(f"output: {entry!r} is no name; fix: names are non-empty text")
        checked_name(entry, "output", "letters, digits and spaces")
    if len(set(names)) != len(names):
        raise UserError(
            f"output: the names {', '.join(names)} are not distinct; fix: name each output differently"
        )
    return tuple(names)


def foreign(graph: GraphLike[SymbolLike], op: str, symbol: SymbolLike) -> UserError:
    own, other = repr(symbol.graph.name), f"graph {graph.name!r}"
    if symbol.graph.name == graph.name:
        own, other = own + _made_at(symbol.graph), f"another one of this name{_made_at(graph)}"
    return UserError(
        compose(
            f"{op}: the operand belongs to graph {own}, the op to {other}", (symbol,),
            "operands of one graph", "build both values in one graph, or pass the value between two compiled graphs",
        )
    )  # fmt: skip


def _made_at(graph: GraphLike[SymbolLike]) -> str:
    """Return text that tells a graph from others of its name: address, first line, number of symbols."""
    symbols = graph.symbols
    return f" at {id(graph):#x} (" + (f"from {symbols[0].location}, {len(symbols)} symbols)" if symbols else "empty)")


def closed(graph: GraphLike[SymbolLike], op: str, values: Sequence[TensorLike]) -> UserError:
    return UserError(
        compose(
            f"{op}: graph {graph.name!r} is finished; output() ended its construction", values,
            fix="build everything first, then call output() once with all results",
        )
    )  # fmt: skip
