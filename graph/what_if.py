"""What would change under another rule set? The graph is built again from what the user wrote, and compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..promotion.dtype import DType
from ..promotion.errors import UnsupportedError, UserError
from ..promotion.result_rules import EXPLICIT
from ..promotion.rules import RuleSet
from . import primitives
from .graph import Graph
from .recording import Call
from .symbol import Symbol
from .types import TensorType


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
    """A symbol the other rules do not allow, with the message the user would have got."""

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
    """An operand was refused, so its reader cannot be rebuilt."""


def what_if(graph: Graph, semantics: str | RuleSet | None = None, policy: str | None = None) -> WhatIf:
    """Rebuild `graph` under another rule set (or policy) and report every dtype that changes.

    Ops are applied again to the operands the user wrote, before implicit casts; Python scalars stay weak; explicit casts and
    dtypes stay what they are; `//` and `%` divide as the other rules say. Functions of several ops are called again. (A graph
    read from text has forgotten its calls: there the casts inside such functions stay as they are.)

    Args:
        graph: any graph, finished or not. It is not changed.
        semantics: a rule set or its name; by default the graph's own.
        policy: "lattice", "exact" or "strict"; by default the graph's own.
    """
    rebuild = _Rebuild(graph, Graph(graph.name, (), semantics or graph.rules, policy or graph.policy))
    rebuild.run()
    return WhatIf(graph, rebuild.target, tuple(rebuild.changes), tuple(rebuild.refusals))


class _Rebuild:
    def __init__(self, source: Graph, target: Graph) -> None:
        self.source, self.target = source, target
        self.made: dict[int, Symbol] = {}
        self.changes: list[Change] = []
        self.refusals: list[Refusal] = []

    def run(self) -> None:
        calls = {call.start: call for call in self.source.calls}
        written = self._written()
        position = 0
        while position < len(self.source.symbols):
            call = calls.get(position)
            symbol = self.source.symbols[position]
            if call is not None:
                self._try(self.source.symbols[call.stop - 1], partial(self._call, call))
                position = call.stop
                continue
            if symbol.op.kind == "source" and symbol.op.name != "input":
                if symbol.id in written:
                    self._symbol(symbol)
            elif not self.source.is_implicit(symbol):
                self._try(symbol, partial(self._one, symbol))
            position += 1
        outputs = [self.made.get(symbol.id) for symbol in self.source.outputs]
        if outputs and None not in outputs:
            self.target.output(*outputs, names=self.source.output_names)

    def _written(self) -> set[int]:
        """The constants, weights and sizes the user wrote down, rather than literals that became constants."""
        found = {symbol.id for symbol in self.source.outputs}
        found.update(symbol.id for symbol in self.source.weights.values())

        def collect(value: Any) -> None:
            if type(value) is Symbol:
                found.add(value.id)
            elif isinstance(value, (tuple, list)):
                for entry in value:
                    collect(entry)

        for symbol in self.source.symbols:
            collect(symbol._operands or symbol.inputs)
        for call in self.source.calls:
            collect((*call.arguments, *call.options.values()))
        return found

    def _try(self, symbol: Symbol, action: Callable[[], None]) -> None:
        try:
            with self.target.located(symbol.location):
                action()
        except _Left:
            return
        except (UserError, UnsupportedError) as error:
            self.refusals.append(Refusal(symbol, str(error)))

    def _finish(self, symbol: Symbol, new: Symbol) -> None:
        self.made[symbol.id] = new
        if new.dtype is not symbol.dtype:
            self.changes.append(Change(symbol, symbol.dtype, new.dtype))

    def _call(self, call: Call) -> None:
        arguments = self._value(call.arguments)
        options = {name: self._value(value) for name, value in call.options.items()}
        self._match(call.result, call.function(*arguments, **options))

    def _match(self, old: Any, new: Any) -> None:
        """Pairs the symbols a call returned with those it returns now."""
        if type(old) is Symbol:
            if old.id not in self.made:
                self._finish(old, new)
        elif isinstance(old, (tuple, list)):
            for before, after in zip(old, new, strict=True):
                self._match(before, after)

    def _one(self, symbol: Symbol) -> None:
        self._finish(symbol, self._input(symbol) if symbol.op.name == "input" else self._again(symbol))

    def _input(self, symbol: Symbol) -> Symbol:
        return self.target.input(TensorType(symbol.dtype, symbol.shape, symbol.name))

    def _again(self, symbol: Symbol) -> Symbol:
        row, attrs = symbol.op, symbol.attrs
        operands = [self._value(operand) for operand in symbol._operands or symbol.inputs]
        if row.name == "matmul":  # its accumulator depends on the dtypes
            return primitives.matmul(self.target, operands[0], operands[1], attrs["precision"])
        if symbol.id in self.source.operator_divisions:
            whole = row.name in ("floor_div", "trunc_div")
            divided: Symbol = operands[0] // operands[1] if whole else operands[0] % operands[1]
            return divided
        dtype = attrs.get("dtype") if row.promote is EXPLICIT else None
        return self.target.apply(row, operands, attrs, dtype)

    def _value(self, value: Any) -> Any:
        if type(value) is Symbol:
            return self._symbol(value)
        if isinstance(value, (tuple, list)):
            return type(value)([self._value(entry) for entry in value])
        if isinstance(value, Mapping):
            return {key: self._value(entry) for key, entry in value.items()}
        return value

    def _symbol(self, symbol: Symbol) -> Symbol:
        found = self.made.get(symbol.id)
        if found is None:
            found = self.made[symbol.id] = self._source(symbol)
        return found

    def _source(self, symbol: Symbol) -> Symbol:
        match symbol.op.name:
            case "constant" if symbol.weak is not None or symbol.id in self.source.default_scalars:
                return self.target.scalar(symbol.attrs["value"].item())
            case "constant":
                return self.target.constant(symbol.attrs["value"], symbol.dtype)
            case "weight":
                return self.target.weight(symbol.attrs["name"], symbol.attrs["value"], symbol.dtype)
            case "dim_value":
                return self.target.dim_value(symbol.attrs["extent"])
        raise _Left
