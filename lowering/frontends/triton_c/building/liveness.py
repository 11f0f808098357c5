"""Finds which variables live where: they alone become results of branches and arguments of loops.

Without jumps one pass from the inside out tells what each node reads of before (gen) and surely assigns (kill), and one
from the end back tells what is read behind it.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..checking import typed
from ..checking.typed import Events, Symbol
from ..reading.diagnostics import Diagnostics
from .structure import Branch, Node, Repeat, Structured

_Summary = tuple[frozenset[Symbol], frozenset[Symbol], frozenset[Symbol]]
"""gen: variables that may be read as they were before; kill: those that are surely assigned; writes: may be assigned."""


def find_liveness(function: Structured, diagnostics: Diagnostics) -> None:
    """Fill in what lives where. Variables that may be read before they are assigned are warned about: they are 0."""
    results = frozenset(function.results)
    _Liveness(diagnostics, results).live(function.nodes, results)


class _Liveness:
    def __init__(self, diagnostics: Diagnostics, results: frozenset[Symbol]) -> None:
        self._diagnostics = diagnostics
        self._results = results
        self._summaries: dict[int, _Summary] = {}

    def _summary(self, nodes: Sequence[Node]) -> _Summary:
        gen: set[Symbol] = set()
        kill: set[Symbol] = set()
        writes: set[Symbol] = set()
        for each in nodes:
            more = self._of_node(each)
            gen |= more[0] - kill
            kill |= more[1]
            writes |= more[2]
        return frozenset(gen), frozenset(kill), frozenset(writes)

    def _of_node(self, node: Node) -> _Summary:
        found = self._summaries.get(id(node))
        if found is None:
            found = self._summaries[id(node)] = self._made(node)
        return found

    def _made(self, node: Node) -> _Summary:
        if isinstance(node, typed.Declare):
            own = frozenset([node.symbol])
            return frozenset(), own, own
        gen, kill, writes = _of_events(node.events)
        if isinstance(node, typed.Evaluate):
            return gen, kill, writes
        if isinstance(node, Branch):
            first, second = self._summary(node.first), self._summary(node.second)
            node.writes = first[2] | second[2]
            return gen | ((first[0] | second[0]) - kill), kill | (first[1] & second[1]), writes | node.writes
        body = self._summary(node.body)
        if node.counter is not None:
            gen |= {node.counter.symbol}
            body = body[0], body[1], body[2] | {node.counter.symbol}
        node.writes = writes | body[2]
        if not node.is_post:
            node.gen = gen | (body[0] - kill)
            node.passed = writes & body[0]
            return node.gen, kill, node.writes
        node.gen = body[0] | (gen - body[1])
        # once a flag is set, the condition is not evaluated, and assigns nothing
        return node.gen, body[1] if node.flags else kill | body[1], node.writes

    def live(self, nodes: Sequence[Node], out: frozenset[Symbol]) -> frozenset[Symbol]:
        """Return what lives before these nodes, if `out` lives behind them."""
        for node in reversed(nodes):
            gen, kill, _ = self._of_node(node)
            if isinstance(node, typed.Declare) and node.symbol in out and node.symbol not in self._results:
                message = f"{node.symbol.name} may be read before something is assigned to it: it is 0"
                self._diagnostics.warning(node.token, message, "an initial value")
            elif isinstance(node, Branch):
                node.live = out
                self.live(node.first, out)
                self.live(node.second, out)
            elif isinstance(node, Repeat):
                header = node.gen | out
                node.live, node.carried = out, node.writes & header
                read = _of_events(node.events)[0] if node.is_post else frozenset()
                self.live(node.body, header | read)
            out = gen | (out - kill)
        return out


def _of_events(events: Events) -> _Summary:
    gen: set[Symbol] = set()
    kill: set[Symbol] = set()
    writes: set[Symbol] = set()
    for symbol, what in events:
        if what == "read":
            if symbol not in kill:
                gen.add(symbol)
        else:
            writes.add(symbol)
            if what == "write":
                kill.add(symbol)
    return frozenset(gen), frozenset(kill), frozenset(writes)


__all__ = ["find_liveness"]
