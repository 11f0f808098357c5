"""Compares what a kernel promises of its pointers with what it does: kernels mark outputs `__readonly` and mean nothing by it.

Which parameters a pointer may be based on is followed through variables and calls, whatever the order of statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..reading.diagnostics import Diagnostics
from ..reading.source import Token
from . import typed
from .typed import Symbol

_KINDS = {"readonly": "stores", "writeonly": "loads"}


def kept_promises(
    kernel: typed.Function, functions: Mapping[str, typed.Function], diagnostics: Diagnostics
) -> tuple[tuple[typed.Promise, ...], ...]:
    """Return the promises of a kernel's parameters without those that it breaks, which are warned about."""
    if not any(each.name in _KINDS for promises in kernel.promises for each in promises):
        return kernel.promises
    accesses = _Accesses(functions).of(kernel)
    found = []
    for symbol, promises in zip(kernel.parameters, kernel.promises, strict=True):
        kept = []
        for each in promises:
            token = accesses.get((symbol, _KINDS.get(each.name, "")))
            if token is None:
                kept.append(each)
                continue
            what = _KINDS[each.name]
            message = f"the kernel {what} through {symbol.name} here, and promises {each.token.text}, which is left out"
            diagnostics.warning(token, message, f"{symbol.name} without {each.token.text}")
        found.append(tuple(kept))
    return tuple(found)


_RELEVANT = frozenset([typed.Assign, typed.Load, typed.Store, typed.Atomic, typed.Call])


class _Accesses:
    """Which parameters a function loads and stores through, and where."""

    def __init__(self, functions: Mapping[str, typed.Function]) -> None:
        self._functions = functions
        self._known: dict[str, dict[tuple[Symbol, str], Token]] = {}

    def of(self, function: typed.Function) -> dict[tuple[Symbol, str], Token]:
        """Return (parameter, "loads" or "stores") → the first access."""
        known = self._known.get(function.name)
        if known is not None:
            return known
        sources: dict[Symbol, set[Symbol]] = {}
        accesses: list[tuple[set[Symbol], str, Token]] = []
        for node in expressions_in(function.body):
            if type(node) not in _RELEVANT:
                continue
            if isinstance(node, typed.Assign) and node.type.is_pointer:
                sources.setdefault(node.symbol, set()).update(_bases(node.value))
            elif isinstance(node, typed.Load | typed.Atomic):
                accesses.append((_bases(node.pointer), "loads", node.token))
            if isinstance(node, typed.Store | typed.Atomic):
                accesses.append((_bases(node.pointer), "stores", node.token))
            if isinstance(node, typed.Call):
                for symbol in node.results:  # each may come from any pointer that is passed
                    if symbol.type.is_pointer:
                        sources.setdefault(symbol, set()).update(*map(_bases, node.arguments))
                callee = self._functions[node.function]
                inner = self.of(callee)
                for symbol, argument in zip(callee.parameters, node.arguments, strict=True):
                    accesses += [(_bases(argument), what, node.token) for what in _KINDS.values() if (symbol, what) in inner]
        found: dict[tuple[Symbol, str], Token] = {}
        parameters = set(function.parameters)
        for bases, what, token in accesses:
            for symbol in _closure(bases, sources) & parameters:
                found.setdefault((symbol, what), token)
        self._known[function.name] = found
        return found


def _bases(pointer: typed.Expression) -> set[Symbol]:
    """Return the variables that a pointer is computed from. What is loaded is no pointer that anybody knows."""
    found: set[Symbol] = set()
    waiting = [pointer]
    while waiting:
        each = waiting.pop()
        if isinstance(each, typed.Variable | typed.Assign):
            found.add(each.symbol)
        elif isinstance(each, typed.MovePointer):
            waiting.append(each.pointer)
        elif isinstance(each, typed.Conditional):
            waiting += [each.first, each.second]
        elif not isinstance(each, typed.Load | typed.Atomic) and each.type.is_pointer:
            waiting += typed.parts_of(each)
    return found


def _closure(symbols: set[Symbol], sources: Mapping[Symbol, set[Symbol]]) -> set[Symbol]:
    found: set[Symbol] = set()
    waiting = list(symbols)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(sources.get(each, ()))
    return found


def expressions_in(statements: Sequence[typed.Statement]) -> Iterator[typed.Expression]:
    """Yield all expressions in statements, those inside of others too."""
    waiting: list[object] = list(reversed(statements))
    while waiting:
        node = waiting.pop()
        if isinstance(node, typed.Expression):
            yield node
            parts = typed.parts_of(node)
            parts.reverse()
            waiting += parts
        elif isinstance(node, tuple):
            waiting.extend(reversed(node))
        elif isinstance(node, typed.Section):
            waiting.append(node.body)
        elif isinstance(node, typed.Evaluate):
            waiting.append(node.expression)
        elif isinstance(node, typed.If):
            waiting += [node.second, node.first, node.condition]
        elif isinstance(node, typed.Loop):
            waiting += [node.step, node.body, *([] if node.condition is None else [node.condition])]
        elif isinstance(node, typed.Switch):
            waiting += [node.sections, node.subject]
        elif isinstance(node, typed.Return):
            waiting += [node.values, node.before]


__all__ = ["expressions_in", "kept_promises"]
