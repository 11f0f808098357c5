"""Finds what would change under another rule set, by building the graph again from what the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError, UserError
from ...promotion.result_rules import EXPLICIT
from ...promotion.rules import RuleSet
from ..construction import primitives
from ..construction.ending import foreign
from ..construction.misuse import checked_graph
from ..construction.recording import Call, perform, rebuilt, symbols_in
from ..graph import Graph
from ..location import Location
from ..symbol import Symbol
from ..types import TensorType


@dataclass(frozen=True, slots=True)
class Change:
    """A symbol of the original graph and its dtype in the rebuilt one."""

    symbol: Symbol
    before: DType
    after: DType

    def __str__(self) -> str:
        return f"{self.symbol.location}: {self.symbol.op.name} is {self.after} instead of {self.before}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A symbol that the other rules do not allow, with the message that the user would have got."""

    symbol: Symbol
    message: str

    def __str__(self) -> str:
        return f"{self.symbol.location}: {self.message}"


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The answer of `what_if`.

    Attributes:
        original: the graph that was asked about.
        graph: the rebuilt graph; it has outputs when all of them could be rebuilt.
        changes: every symbol the user made whose dtype differs, in order.
        refusals: the ops the other rules refuse. What depends on them is left out.
    """

    original: Graph
    graph: Graph
    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]

    def __str__(self) -> str:
        before, after = self.original.casts(), self.graph.casts()
        lossy = [sum(entry.loss != "exact" for entry in casts) for casts in (before, after)]
        lines = [
            f"{self.original.name!r} with semantics {self.graph.rules.name!r} instead of {self.original.rules.name!r}: "
            f"{len(self.changes)} dtypes change, {len(self.refusals)} ops are refused; "
            f"implicit casts: {len(after)} instead of {len(before)}, of which lossy {lossy[1]} instead of {lossy[0]}"
        ]
        return "\n".join([*lines, *(f"  {entry}" for entry in (*self.changes, *self.refusals))])


class _Left(Exception):
    """Raised where an operand was refused, so that what reads it cannot be rebuilt."""


def what_if(graph: Graph, semantics: str | RuleSet | None = None, policy: str | None = None) -> WhatIf:
    """Rebuild `graph` under another rule set (or policy) and report every dtype that changes.

    Every call of the user is made again, with the same arguments: functions, methods, operators, constants, and casts that were
    none under the graph's own rules. The answer's graph is the one the same program builds under the other rules, as long as
    the program does not ask for dtypes in Python. (A graph read from text has forgotten its calls: there ops are applied again
    to the operands before implicit casts, and the casts inside functions stay as they are.)

    Args:
        graph: any graph, finished or not. It is not changed.
        semantics: a rule set or its name; by default the graph's own.
        policy: "lattice", "exact" or "strict"; by default the graph's own. What `on_loss` makes errors are refusals; nothing
            warns here.
    """
    checked_graph("what_if", graph)
    errors: dict[str, str] = {loss: action for loss, action in graph.on_loss.items() if action == "error"}
    target = Graph(graph.name, (), semantics or graph.rules, policy or graph.policy, errors)
    target.chains = False
    rebuild = _Rebuild(graph, target)
    target.twin = rebuild.twin_of
    rebuild.run()
    return WhatIf(graph, target, tuple(rebuild.changes), tuple(rebuild.refusals))


class _Rebuild:
    """Builds a graph again.

    `made` has the new symbol for every object that the user held, `nodes` for every symbol of a graph that
    was read from text.
    """

    def __init__(self, source: Graph, target: Graph) -> None:
        self.source, self.target = source, target
        self.made: dict[int, Symbol] = {}
        self.nodes: dict[int, Symbol] = {}
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []

    def run(self) -> None:
        calls = self.source.journal.calls
        read = calls[0].start if calls else len(self.source.symbols)
        for symbol in self.source.symbols[:read]:
            if not self.source.is_implicit(symbol):
                self._try(symbol, symbol.location, partial(self._read, symbol))
        for call in calls:
            candidates = (*symbols_in(call.result), *symbols_in(call.arguments))  # `output` returns none
            shown = [symbol for symbol in candidates if isinstance(symbol, Symbol)]
            self._try(shown[0], call.location, partial(self._call, call))
        if self.source.finished and not calls:
            outputs = [self.nodes.get(symbol.id) for symbol in self.source.outputs]
            if None not in outputs:
                self.target.output(*outputs, names=self.source.output_names)

    def _try(self, symbol: Symbol, location: Location, action: Callable[[], None]) -> None:
        try:
            with self.target.located(location):
                action()
        except _Left:
            return
        except (UserError, UnsupportedError) as error:
            self.refusals.append(Refusal(symbol, str(error)))

    def _finish(self, old: Symbol, new: Symbol) -> None:
        if new.dtype is not old.dtype:
            self.changes.append(Change(old, old.dtype, new.dtype))

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _call(self, call: Call) -> None:
        arguments = tuple([self._value(value) for value in call.arguments])
        options = {name: self._value(value) for name, value in call.options.items()}
        self._match(call.result, perform([self.target], call.function, arguments, options))

    def _match(self, old: object, new: object) -> None:
        """Pair the symbols that a call returned with those that it returns now."""
        for before, after in zip(symbols_in(old), symbols_in(new), strict=True):
            if isinstance(before, Symbol) and isinstance(after, Symbol):
                if id(before) not in self.made:
                    self._finish(before, after)
                self.made[id(before)] = after

    def _value(self, value: object) -> object:
        if value is self.source:
            return self.target
        if type(value) is Symbol:
            return self._symbol(value)
        if isinstance(value, (tuple, list)):
            return rebuilt(value, self._value)
        if isinstance(value, Mapping):
            return {key: self._value(entry) for key, entry in value.items()}
        return value

    def twin_of(self, symbol: Symbol) -> Symbol:
        """Return the new symbol for one that the function of a loop or branch holds."""
        if symbol.graph is not self.source:
            raise foreign(self.target, "what_if", symbol)
        return self._symbol(symbol)

    def _symbol(self, symbol: Symbol) -> Symbol:
        found = self.made.get(id(symbol), self.nodes.get(symbol.id))
        if found is None:
            raise _Left
        return found

    # -- symbols read from text ----------------------------------------------------------------------------------------

    def _read(self, symbol: Symbol) -> None:
        new = self.nodes[symbol.id] = self._again(symbol)
        self._finish(symbol, new)

    def _node(self, symbol: Symbol) -> Symbol:
        while self.source.is_implicit(symbol):
            (symbol,) = symbol.inputs
        return self._symbol(symbol)

    def _again(self, symbol: Symbol) -> Symbol:
        row, attrs, target = symbol.op, symbol.attrs, self.target
        operands = [self._node(operand) for operand in symbol.inputs]
        match row.name:
            case "input":
                return target.input(TensorType(symbol.dtype, symbol.shape, symbol.name))
            case "constant" if symbol.weak is not None:
                return target.scalar(attrs["value"].item())
            case "constant":
                return target.constant(attrs["value"], symbol.dtype)
            case "weight":
                return target.weight(attrs["name"], attrs["value"], symbol.dtype)
            case "dim_value":
                return target.dim_value(attrs["extent"])
            case "loop" | "branch":
                raise UnsupportedError(f"{row.name}: a region that was read from text is not built again under other rules")
            case "matmul":  # its accumulator depends on the dtypes
                return primitives.matmul(target, operands[0], operands[1], attrs["precision"])
        return target.apply(row, operands, attrs, attrs.get("dtype") if row.promote is EXPLICIT else None)
