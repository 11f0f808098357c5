"""Imports a program of ATen operators: runs its calls in order on symbols, each through the handler of its overload."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError, JoineryError, UnsupportedError, UserError
from ..checks import Check, Checks
from ..construction.nesting import under_construction
from ..dims.dim import Dim, Extent, at_most, dim, maximum, minimum
from ..functions.building import apply
from ..functions.complex.parts import Complex, from_pairs, to_pairs
from ..graph import Graph
from ..location import Location
from ..ops.complex.parts import PARTS
from ..symbol import Symbol
from ..types import TensorType, shape_text
from .node import Effects, Node
from .parts import of_parts
from .program import Argument, Call, Condition, Program, Ref, Source
from .table import COMPLEX_HANDLERS, EXPORT_HANDLERS, HANDLERS

_TRIES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What a fault of a handler raises: it is reported with its call, as ours."""
_IGNORED = ("layout", "device", "pin_memory", "memory_format", "non_blocking")
"""Options for where and how a tensor lies in memory, which the layers below choose; the reader has checked the device."""
Value: TypeAlias = Symbol | Complex
_NAME = re.compile(r"[^\w.\- ]")


@dataclass(frozen=True, slots=True, eq=False)
class Refusal:
    """A call that has no form in joinery, and why."""

    call: Call
    error: JoineryError


def import_program(program: Program) -> Graph:
    """Return the finished graph of a program.

    Promotion follows ATen (rule set "torch"); the ledger `casts()` has the casts that ATen makes of operands. Raises
    `UnsupportedError` for operators without a handler, with the call, its operands and the line of the model.
    """
    importer = Importer(program)
    for call in program.calls:
        importer.run(call)
    return importer.finished()


def refusals(program: Program) -> list[Refusal]:
    """Return the calls that cannot be imported. Those that need their results are tried on inputs in place of these."""
    importer = Importer(program)
    found = []
    for call in program.calls:
        try:
            importer.run(call)
        except JoineryError as error:
            found.append(Refusal(call, error))
            importer.replace(call)
    return found


class Importer:
    """Adds the calls of a program to a graph."""

    def __init__(self, program: Program) -> None:
        """Begin a graph."""
        self.program = program
        self.effects: Effects | None = Effects(program.seed)
        self.graph = graph = Graph(_NAME.sub("_", program.name)[:80].strip() or "model", semantics="torch")
        graph.journal.busy = True  # no user builds it, call by call
        graph.shape_checks = Checks([*_range_checks(program.ranges), *program.checks], names=False)
        graph.standing = tuple(graph.shape_checks.entries)
        self.values: dict[str, tuple[Value | None, ...]] = {}
        for position, source in enumerate(program.sources):
            with graph.located(Location(program.name, position, f"input {source.name!r}")):
                if source.array is None:
                    declared = of_parts(source.type)
                    symbol = graph.input(TensorType(declared.dtype, declared.shape, source.name))
                else:
                    symbol = _weight(graph, source)
                self.values[source.name] = (from_pairs(symbol) if source.type.dtype in PARTS else symbol,)

    @classmethod
    def inside(cls, program: Program, graph: Graph, operands: Sequence[Symbol]) -> Importer:
        """Return an importer that adds a program to a graph that is being built, with symbols for its inputs."""
        importer = cls.__new__(cls)
        importer.program, importer.graph, importer.values, importer.effects = program, graph, {}, None
        given = iter(operands)
        for source in program.sources:
            if source.array is None:
                importer.values[source.name] = (next(given),)
            else:
                symbol = _weight(graph, source)
                importer.values[source.name] = (from_pairs(symbol) if source.type.dtype in PARTS else symbol,)
        return importer

    def run(self, call: Call) -> None:
        """Run one call through its handler, and check what comes out against what PyTorch states."""
        graph = self.graph
        known = len(graph.symbols)
        try:
            with graph.located(call.location):
                options = {name: self.argument(value) for name, value in call.options.items() if name not in _IGNORED}
                arguments = [self.argument(value) for value in call.arguments]
                is_complex = _has_complex((arguments, *options.values())) or any(
                    [declared is not None and declared.dtype in PARTS for declared in call.results]
                )
                handler = (COMPLEX_HANDLERS if is_complex else HANDLERS).get(call.op)
                if handler is None and self.program.alone and not is_complex:
                    handler = EXPORT_HANDLERS.get(call.op)
                if handler is None:
                    raise UnsupportedError(
                        f"operator {call.op}{' of complex numbers' * is_complex} is not supported; fix: compute this part "
                        "outside, or with torch.compile, which leaves it to PyTorch"
                    )
                results = handler(Node(call, graph, self.effects), *arguments, **options)
                self.values[call.name] = self._checked(call, results)
        except JoineryError as error:
            raise self._located(error, call, known) from None
        except MemoryError:
            raise self._located(UserError("too little memory; fix: smaller sizes"), call, known) from None
        except _TRIES as error:
            raise self._located(InternalError(f"{type(error).__name__}: {error}"), call, known) from error

    def replace(self, call: Call) -> None:
        """Let inputs stand for the results of a call, for what comes after it."""
        stood: list[Value | None] = []
        for position, declared in enumerate(call.results):
            if declared is None:
                stood.append(None)
                continue
            pairs = of_parts(declared)
            symbol = self.graph.input(TensorType(pairs.dtype, pairs.shape, f"{call.name}.{position}"))
            stood.append(from_pairs(symbol) if declared.dtype in PARTS else symbol)
        self.values[call.name] = tuple(stood)

    def argument(self, value: Argument) -> Any:
        """Return an argument as handlers take it: a symbol for a tensor, everything else as it is."""
        if isinstance(value, Ref):
            return self.value(value)
        if isinstance(value, tuple):
            return tuple([self.argument(entry) for entry in value])
        if isinstance(value, Program):
            return partial(self.body, value)
        if isinstance(value, Condition):
            return self._condition(value)
        return value

    def body(self, program: Program, *operands: Symbol) -> tuple[Symbol, ...]:
        """Add a program that a higher-order operator runs to the region that is being built, and return its results."""
        inner = Importer.inside(program, under_construction(self.graph), operands)
        for call in program.calls:
            inner.run(call)
        return tuple([inner.symbol(each) if isinstance(each, Ref) else inner._size(each) for _, each in program.outputs])

    def _condition(self, condition: Condition) -> Symbol:
        parts = [self._condition(part) if isinstance(part, Condition) else self._size(part) for part in condition.parts]
        if condition.kind == "not":
            return apply("logical_not", parts[0])
        row = {"and": "logical_and", "or": "logical_or"}.get(condition.kind, condition.kind)
        result = parts[0]
        for part in parts[1:]:
            result = apply(row, result, part)
        return result

    def value(self, ref: Ref) -> Value:
        """Return the symbol of a tensor, or the parts of complex numbers."""
        values = self.values.get(ref.name, ())
        found = values[ref.position or 0] if (ref.position or 0) < len(values) else None
        if found is None:
            raise UserError(f"{ref.name!r} has no value here; fix: export the model again")
        return found

    def symbol(self, ref: Ref) -> Symbol:
        """Return the symbol of a tensor; complex numbers are pairs of parts on a last axis."""
        found = self.value(ref)
        return to_pairs(found) if isinstance(found, Complex) else found

    def finished(self) -> Graph:
        """End the graph with the outputs of the program."""
        symbols: list[Symbol] = []
        names: list[str] = []
        with self.graph.located(Location(self.program.name, 0, "outputs")):
            for name, value in self.program.outputs:
                symbols.append(self.symbol(value) if isinstance(value, Ref) else self._size(value))
                names.append(name)
            if not symbols:
                raise UserError(f"{self.program.name}: no output is a tensor; fix: return a tensor")
            symbols[0] = self._asserted(symbols[0])
            self.graph.output(*symbols, names=names)
        return self.graph

    def _asserted(self, result: Symbol) -> Symbol:
        """Return a result that needs all that is asserted, since a graph computes what its outputs need."""
        assert self.effects is not None
        shape = result.shape
        for check in self.effects.assertions:
            self.graph.shape_checks.add(*check)
            self.graph.standing += (check,)
            result = apply("reshape", apply("reshape", result, shape=(check.lhs, *shape)), shape=shape)
        return result

    def _size(self, value: Extent) -> Symbol:
        return self.graph.dim_value(value)

    def _checked(self, call: Call, results: Any) -> tuple[Value | None, ...]:
        """Return the results in the shapes that PyTorch states. A dtype other than PyTorch's is a fault of the handler."""
        found = results if isinstance(results, tuple) else (results,)
        if len(found) > len(call.results):
            raise InternalError(f"{len(found)} results; PyTorch has {len(call.results)}")
        checked: list[Value | None] = []
        for position, (symbol, declared) in enumerate(zip(found, call.results, strict=False)):
            if symbol is None or declared is None:
                checked.append(None)
                continue
            if symbol.dtype is not declared.dtype or len(symbol.shape) != len(declared.shape):
                own = f"{symbol.dtype} {shape_text(symbol.shape)}"
                raise InternalError(f"result {position} is {own}; PyTorch has {declared}")
            what = f"{call.op}: result {position}"
            if isinstance(symbol, Complex):
                checked.append(Complex(*[self._agreed(each, declared, what) for each in (symbol.real, symbol.imaginary)]))
            else:
                checked.append(self._agreed(symbol, declared, what))
        return tuple(checked)

    def _agreed(self, symbol: Symbol, declared: TensorType, what: str) -> Symbol:
        """Return a result under the sizes that PyTorch states; launches check what is not proven."""
        if symbol.shape == declared.shape:
            return symbol
        for axis, (own, stated) in enumerate(zip(symbol.shape, declared.shape, strict=True)):
            self.graph.shape_checks.add(own, stated, f"{what}: axis {axis} must have the size {stated}, not {own}")
        return apply("reshape", symbol, shape=declared.shape)

    def _located(self, error: JoineryError, call: Call, known: int) -> JoineryError:
        """Return the error again with the call, its operands and its line in front."""
        where = f"{self.program.name}: node {call.name!r} ({call.op}), from {call.location}"
        again = type(error)(f"{where}: {error}{''.join(self._operands(call))}")
        vars(again).update({name: value for name, value in vars(error).items() if name != "args"})
        return again

    def _operands(self, call: Call) -> Iterable[str]:
        for position, value in enumerate(call.arguments):
            if isinstance(value, Ref):
                values = self.values.get(value.name, ())
                symbol = values[value.position or 0] if (value.position or 0) < len(values) else None
                if symbol is not None:
                    yield f"\n  operand {position}: {value.name} {symbol.dtype} {shape_text(symbol.shape)}"
            else:
                yield f"\n  argument {position}: {value!r:.80}"


def _weight(graph: Graph, source: Source) -> Symbol:
    """Return a weight; of complex numbers, the pairs that memory has."""
    assert source.array is not None
    part = PARTS.get(source.type.dtype)
    if part is None:
        return graph.weight(source.name, source.array, source.type.dtype)
    dense = np.ascontiguousarray(source.array).reshape(-1)
    return graph.weight(source.name, dense.view(part.numpy).reshape(*source.array.shape, 2), part)


def _has_complex(value: object) -> bool:
    if isinstance(value, (tuple, list)):
        return any([_has_complex(each) for each in value])
    return isinstance(value, (Complex, complex))


def _range_checks(ranges: Mapping[str, tuple[int, int | None]]) -> list[Check]:
    """Return the conditions that sizes lie in their ranges."""
    found = []
    for name, (least, most) in ranges.items():
        size = dim(name)
        if not at_most(least, size):
            found.append(Check(maximum(size, least), size, f"the size {name} must be at least {least}"))
        if most is not None and isinstance(size, Dim):
            found.append(Check(minimum(size, most), size, f"the size {name} must be at most {most}"))
    return found
