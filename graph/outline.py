"""Makes graphs of their own of symbols of a graph: of some, as what is compiled as a unit, or of all, with other arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..promotion.arrays import Array
from .data_sizes import mentioned
from .graph import Graph
from .symbol import Symbol
from .types import TensorType


class Outline:
    """A graph under construction that computes symbols of another one.

    Attributes:
        graph: the new graph.
        taken: the symbols that its inputs stand for, in order: those that it uses and does not compute.
    """

    def __init__(self, source: Graph, name: str, sources: Mapping[int, Symbol] | None = None) -> None:
        """Begin a graph of parts of `source`.

        sources: symbols of kind "source", of any graph, that replace symbols, by id.
        """
        self.source, self.sources = source, sources or {}
        self.graph = Graph(name, semantics=source.rules, policy=source.policy)
        self.graph.journal.busy, self.graph.chains = True, False
        self.taken: list[Symbol] = []
        self._new: dict[int, Symbol] = {}

    def add(self, symbol: Symbol) -> None:
        """Compute a symbol in the new graph; whatever else it needs becomes an input."""
        self._new[symbol.id] = self.graph.adopt(symbol, [self.of(operand) for operand in symbol.inputs])

    def of(self, symbol: Symbol) -> Symbol:
        """Return the symbol of the new graph for one of the source: constants and sizes are copied."""
        if symbol.id not in self._new:
            origin = self.sources.get(symbol.id, symbol)
            if origin.op.kind == "source" and origin.op.name != "input":
                self._new[symbol.id] = self.graph.adopt(origin, ())
            else:
                with self.graph.located(symbol.location):
                    self._new[symbol.id] = self.graph.input(TensorType(symbol.dtype, symbol.shape, f"value{symbol.id}"))
                self.taken.append(symbol)
        return self._new[symbol.id]

    def finish(self, results: Sequence[Symbol], known: Iterable[str], names: Sequence[str] | None = None) -> None:
        """End the graph. known: names of dims; the checks of the source that these decide are made. names: of the outputs."""
        decided = set(known)
        self.graph.standing = tuple([check for check in self.source.checks if mentioned(check[:2]) <= decided])
        outputs = [self.of(symbol) for symbol in results]
        self.graph.output(*outputs, names=names or [f"value{position}" for position in range(len(outputs))])


def with_arrays(
    graph: Graph, results: Sequence[Symbol], arrays: Mapping[int, Array]
) -> tuple[Graph, tuple[Symbol, ...]]:
    """Return an unfinished copy of a graph and what stands for its results there.

    arrays: constants and weights in place of others, by the ids of these; they are not verified before the copy is finished.
    """
    copy = graph.rewriting()
    made: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        attrs = symbol.attrs
        if symbol.op.name in ("constant", "weight") and id(attrs["value"]) in arrays:
            attrs = {**attrs, "value": arrays[id(attrs["value"])]}
        made[symbol.id] = copy.adopt(symbol, [made[operand.id] for operand in symbol.inputs], attrs=attrs)
    return copy, tuple([made[symbol.id] for symbol in results])
