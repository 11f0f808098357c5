"""Divides the nodes of a graph into parts that joinery compiles and steps that PyTorch runs, in the order in which they run."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ...graph.aten.importing import refusals
from ...graph.aten.program import DECIDING, Argument, Call, Condition, Program, Ref, Source, decided
from ...graph.dims.dim import Dim
from ...graph.types import TensorType
from ...promotion.dtype import bool_
from ...promotion.errors import JoineryError
from .complex_edges import carried_as_pairs, is_complex, is_edge, pairs_of
from .reading import Reader, gives_size, is_view, rebase_views_by_strides, states_sizes

_WHERE = re.compile(r"^graph: node '[^']*' \([^)]*\), from .*?:\d+ in \S+: ")
"""How messages of the importer begin: the report has the operator beside them."""


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that joinery compiles together.

    Attributes:
        calls: their calls, in order.
        inputs: nodes whose values it needs.
        outputs: nodes whose values others need.
        sizes: symbolic sizes that it needs and no input has as one of its own.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]
    sizes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Division:
    """The steps of a graph.

    Attributes:
        steps: parts, and nodes that PyTorch runs.
        tail: views that PyTorch makes of results at the end, so that they share memory as the model says.
        reasons: why PyTorch runs a node, by its name.
        operators: how many operators the graph has, without those that only make sizes, and views of the tail.
    """

    steps: tuple[Part | Any, ...]
    tail: tuple[Any, ...]
    reasons: dict[str, str]
    operators: int


class Partitioner:
    """Divides one graph."""

    def __init__(self, module: Any, reader: Reader, sources: Sequence[Source], wanted: Iterable[Any]) -> None:
        """wanted: the nodes whose values the graph returns or writes."""
        self.module, self.reader, self.sources = module, reader, tuple(sources)
        rebase_views_by_strides(module)
        self.wanted = list(dict.fromkeys(wanted))
        self.reasons: dict[str, str] = {}
        self._read()
        if carried_as_pairs(module, self._is_compiled):
            reader.begin_again()
            self._read()

    def _read(self) -> None:
        """Read the calls of all nodes, and try which of them can be imported."""
        self.nodes = [node for node in self.module.graph.nodes if node.op in ("call_function", "get_attr")]
        reader = self.reader
        calls = reader.calls(self.nodes)
        program = Program("graph", (*self.sources, *reader.sources, *self._sizes_alone()), tuple(calls), (), {})
        for refusal in refusals(program):
            self.reasons[refusal.call.name] = _reason(reader.refused.get(refusal.call.name, refusal.error))
        for name, error in reader.refused.items():
            self.reasons.setdefault(name, _reason(error))
        self.calls = {call.name: call for call in calls if call.name not in self.reasons}

    def _decide(self) -> None:
        """Decide what PyTorch runs beside the nodes that cannot be imported."""
        self._keep_storages()
        self._keep_complex()
        self._opaque = {node.name: node for node in self.nodes if node.name in self.reader.opaque}
        self.node_of: dict[Ref, Any] = {}
        for node in self.module.graph.nodes:
            ref = self.reader.refs.get(node.name)
            if isinstance(ref, Ref):
                self.node_of.setdefault(ref, node)

    def _sizes_alone(self) -> list[Source]:
        """Return sources for sizes that are inputs themselves, or made by PyTorch: no tensor may have them."""
        nodes = [node for node in self.module.graph.nodes if node.op == "placeholder" or node.name in self.reader.opaque]
        found = {size.name: size for node in nodes if isinstance(size := self.reader.refs.get(node.name), Dim) and size.name}
        return [Source(f"size {name}", TensorType(bool_, (size, 0))) for name, size in found.items()]

    def _keep_storages(self) -> None:
        """Leave views to PyTorch where it takes a view by strides of them: that counts from the beginning of their storage."""
        for node in self.nodes:
            if str(node.target).startswith("aten.as_strided") and node.name not in self.calls:
                at = node.args[0]
                while is_view(at):
                    if self.calls.pop(at.name, None) is not None:
                        self.reasons[at.name] = "a view by strides is taken of its storage"
                    at = at.args[0]

    def _keep_complex(self) -> None:
        """Leave calls to PyTorch that give it complex numbers, or take them from it: parts exchange real numbers alone."""
        changed = True
        while changed:
            changed = False
            for node in self.nodes:
                if not is_complex(node) or node.target is operator.getitem or node.op != "call_function":
                    continue
                ends = [node, *_users(node)]
                if len({self._is_compiled(each) for each in ends if each.op != "output"}) > 1:
                    for each in ends:
                        if self.calls.pop(each.name, None) is not None:
                            changed = True
                            self.reasons[each.name] = "PyTorch computes the complex numbers beside it"

    def _is_number(self, node: Any) -> bool:
        """Return whether a node is a float that sizes decide: each part that needs it computes it, and so does Python."""
        return type(node.meta.get("val")).__name__ == "SymFloat" and node.name in self.calls

    def _is_form(self, node: Any) -> bool:
        """Return whether a node is a size that joinery takes as an expression."""
        return self._is_size(node) and node.name not in self.reader.opaque and not gives_size(node)

    def divided(self) -> Division:
        """Return the steps."""
        while True:
            self._decide()
            tail, bases = self._tail()
            self._needed = self._demanded([*bases, *self.wanted], set(tail))
            levels = self._levels()
            compiled = {node: level for node, level in levels.items() if self._is_compiled(node)}
            if not carried_as_pairs(self.module, compiled.get):
                break
            self.reader.begin_again()
            self._read()
        steps: list[Part | Any] = []
        for level in sorted({*levels.values()}):
            inside = [node for node in self.nodes if levels.get(node) == level]
            if level % 2:
                steps += inside
            else:
                steps.append(self._part(inside, {*bases, *(node for node in self.wanted if node not in tail)}, tail))
        operators = sum(1 for node in self.nodes if self._is_operator(node) and node in self._needed)
        return Division(tuple(steps), tuple(tail), self.reasons, operators)

    # -- which nodes ---------------------------------------------------------------------------------------------------

    def _is_compiled(self, node: Any) -> bool:
        if node.target is operator.getitem:
            return self._is_compiled(node.args[0])
        return node.name in self.calls and not self._is_number(node)

    def _is_size(self, node: Any) -> bool:
        """Return whether a node makes a size, which joinery takes as an expression."""
        return type(node.meta.get("val")).__name__ in ("SymInt", "int") and node.op == "call_function"

    def _is_operator(self, node: Any) -> bool:
        is_call = node.op == "call_function" and node.target is not operator.getitem
        is_size = self._is_size(node) and not gives_size(node)
        return is_call and not is_size and not states_sizes(node) and not is_edge(node)

    def _tail(self) -> tuple[list[Any], list[Any]]:
        """Return the views at the ends of the graph in order, and what they are views of."""
        found: set[Any] = set()
        bases: list[Any] = []
        for node in self.wanted:
            at = node
            while is_view(at):
                found.add(at)
                at = at.args[0]
            if at is not node:
                bases.append(at)
        return [node for node in self.nodes if node in found], [node for node in bases if node.op != "placeholder"]

    def _demanded(self, wanted: Sequence[Any], tail: set[Any]) -> set[Any]:
        """Return the nodes that must run: for what is wanted, for views at the end, and those with effects."""
        effects = [node for node in self.nodes if node.op == "call_function" and node.is_impure()]
        pending = [node for node in (*wanted, *effects) if node not in tail]
        for node in tail:
            pending += [each for each in node.all_input_nodes if each not in tail]
        found: set[Any] = set()
        while pending:
            node = pending.pop()
            if node in found or node.op == "placeholder":
                continue
            found.add(node)
            pending += self._operands(node)
        return found

    def _operands(self, node: Any) -> list[Any]:
        """Return the nodes that must run before a node does."""
        if not self._is_compiled(node):
            return list(node.all_input_nodes)
        found = dict.fromkeys(self._decided(node.all_input_nodes))
        if self._opaque and (call := self.calls.get(node.name)) is not None:  # sizes of equal expressions have one name
            found.update(dict.fromkeys(self._opaque[name] for name in sizes_of((call,)) if name in self._opaque))
        return list(found)

    def _decided(self, operands: Iterable[Any]) -> list[Any]:
        """Return the operands of a compiled node that must run: sizes are expressions, of what `.item()` gives in the end."""
        found: dict[Any, None] = {}
        for each in operands:
            found.update(self._deciding(each) if self._is_form(each) or self._is_number(each) else {each: None})
        return list(found)

    def _deciding(self, node: Any) -> dict[Any, None]:
        """Return the nodes of numbers that a size is made of and that must run."""
        found: dict[Any, None] = {}
        for each in node.all_input_nodes:
            kind = type(each.meta.get("val")).__name__
            if kind == "SymFloat" and self._is_form(node):
                found.update(self._deciding(each))
            elif kind in ("SymInt", "SymFloat", "int"):
                found.update(dict.fromkeys(self._decided([each])))
        return found

    def _levels(self) -> dict[Any, int]:
        """Return when each node runs: parts of joinery at even levels, nodes of PyTorch at odd ones, the latter in order."""
        levels: dict[Any, int] = {}
        last = 1
        for node in self.nodes:
            if node not in self._needed or node.op == "get_attr":
                continue
            before = [levels[each] for each in self._operands(node) if each in levels]
            if node.target is pairs_of:
                levels[node] = -1  # before everything, since it is of an input
            elif self._is_compiled(node):
                levels[node] = max([0, *(level + level % 2 for level in before)])
            else:
                last = max([last, *(level if level % 2 else level + 1 for level in before)])
                levels[node] = last
        for node in levels:  # complex numbers are made of pairs by the part that reads them
            if is_edge(node) and is_complex(node) and self._is_compiled(node):
                levels[node] = min([levels[user] for user in node.users if user in levels], default=levels[node])
        return levels

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _numbers(self, nodes: Sequence[Any]) -> list[Any]:
        """Return the floats that nodes need, in order."""
        found: set[Any] = set()
        pending = list(nodes)
        while pending:
            for each in pending.pop().all_input_nodes:
                if self._is_number(each) and each not in found:
                    found.add(each)
                    pending.append(each)
        return [node for node in self.nodes if node in found]

    def _part(self, nodes: Sequence[Any], wanted: set[Any], tail: Sequence[Any]) -> Part:
        numbers = self._numbers(nodes)
        nodes = [*numbers, *nodes]
        own = {node.name for node in nodes if node.name in self.calls}
        inputs: dict[Any, None] = {}
        calls = []
        for node in nodes:
            if node.name in own:
                call = self.calls[node.name]
                arguments = tuple([self._outside(each, own, inputs) for each in call.arguments])
                options = {name: self._outside(each, own, inputs) for name, each in call.options.items()}
                calls.append(Call(call.name, call.op, arguments, options, call.results, call.location))
        inside = set(nodes)
        outputs = [node for node in nodes
                   if isinstance(self.reader.refs.get(node.name), Ref) and not self._has_several(node) and node not in numbers
                   and (node in wanted or any(user not in inside and (user in self._needed or user in tail)
                                              for user in node.users))]  # fmt: skip
        return Part(tuple(calls), tuple(inputs), tuple(outputs), self._sizes(calls, inputs))

    def _has_several(self, node: Any) -> bool:
        return isinstance(node.meta.get("val"), (tuple, list, dict))

    def _outside(self, value: Argument, own: set[str], inputs: dict[Any, None]) -> Argument:
        """Return an argument with results of other parts as inputs of this one."""
        if isinstance(value, tuple):
            return tuple([self._outside(each, own, inputs) for each in value])
        if not isinstance(value, Ref) or value.name in own:
            return value
        node = self.node_of[value]
        inputs.setdefault(node)
        return Ref(node.name)

    def _sizes(self, calls: Sequence[Call], inputs: Iterable[Any]) -> tuple[str, ...]:
        used = sizes_of(calls)
        known = {extent.name for call in calls if call.op in DECIDING for result in call.results if result is not None
                 for extent in result.shape if isinstance(extent, Dim) and decided(extent)}  # fmt: skip
        for node in inputs:
            shape = self.reader.type_of(node.meta["val"], node.name).shape
            _add_sizes(shape, used)
            known |= {extent.name for extent in shape if isinstance(extent, Dim) and extent.name}
        return tuple([name for name in used if name not in known])


def sizes_of(calls: Iterable[Call]) -> dict[str, None]:
    """Return the symbolic sizes that calls name, in order."""
    used: dict[str, None] = {}
    for call in calls:
        _add_sizes((call.arguments, *call.options.values()), used)
        _add_sizes([result.shape for result in call.results if result is not None], used)
    return used


def _add_sizes(value: object, used: dict[str, None]) -> None:
    if isinstance(value, Dim):
        used.update(dict.fromkeys(sorted(value.symbols())))
    elif isinstance(value, (tuple, list)):
        for each in value:
            _add_sizes(each, used)
    elif isinstance(value, Condition):
        _add_sizes(value.parts, used)
    elif isinstance(value, Program):
        used.update(sizes_of(value.calls))


def _users(node: Any) -> list[Any]:
    """Return the nodes that use a result, or one of several."""
    found: list[Any] = []
    for user in node.users:
        found += _users(user) if user.target is operator.getitem else [user]
    return found


def _reason(error: JoineryError) -> str:
    """Return the problem of a message, in one line."""
    text = str(error).partition("\n")[0]
    return _WHERE.sub("", text).partition("; fix:")[0] or text
