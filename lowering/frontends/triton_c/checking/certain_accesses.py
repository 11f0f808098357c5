"""Finds the parameters of a kernel that every program loads or stores through, whatever its other arguments are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..reading.source import Token
from . import typed
from .promises import expressions_in
from .typed import Symbol

_PASSED = (typed.Broadcast, typed.View, typed.Transpose, typed.Convert, typed.Bitcast)
"""What gives a pointer on as it is."""


def certain_accesses(kernel: typed.Function) -> dict[Symbol, Token]:
    """Return the parameters with their first access. Accesses under masks and conditions and behind a return do not count."""
    roots: dict[Symbol, Symbol | None] = {each: each for each in kernel.parameters if each.type.is_pointer}
    found: dict[Symbol, Token] = {}
    for statement in kernel.body:
        if isinstance(statement, typed.Declare):
            continue
        if not isinstance(statement, typed.Evaluate):
            if not isinstance(statement, typed.If | typed.Loop | typed.Switch) or _may_return(statement):
                break
            roots |= dict.fromkeys(each.symbol for each in expressions_in([statement]) if isinstance(each, typed.Assign))
            continue
        whole = statement.expression
        inner = [each for each in expressions_in([statement]) if isinstance(each, typed.Assign) and each is not whole]
        roots |= dict.fromkeys(each.symbol for each in inner)
        for access in _evaluated(whole):
            if isinstance(access, typed.Load | typed.Store | typed.Atomic) and access.mask is None:
                root = _root(access.pointer, roots)
                if root is not None:
                    found.setdefault(root, access.token)
        if isinstance(whole, typed.Assign) and whole.type.is_pointer:
            roots[whole.symbol] = _root(whole.value, roots)
    return found


def _may_return(statement: typed.Statement) -> bool:
    waiting: list[object] = [statement]
    while waiting:
        each = waiting.pop()
        if isinstance(each, typed.Return):
            return True
        if isinstance(each, tuple):
            waiting.extend(each)
        elif isinstance(each, typed.If):
            waiting += [each.first, each.second]
        elif isinstance(each, typed.Loop | typed.Section):
            waiting.append(each.body)
        elif isinstance(each, typed.Switch):
            waiting.append(each.sections)
    return False


def _evaluated(whole: typed.Expression) -> Iterator[typed.Expression]:
    """Give the parts of an expression that are evaluated whatever their values are."""
    waiting = [whole]
    while waiting:
        each = waiting.pop()
        yield each
        if isinstance(each, typed.Conditional):
            waiting.append(each.condition)
        elif isinstance(each, typed.Logical):
            waiting.append(each.left)
        else:
            waiting += reversed(typed.parts_of(each))


def _root(pointer: typed.Expression, roots: Mapping[Symbol, Symbol | None]) -> Symbol | None:
    """Return the parameter that a pointer certainly comes from; None if that is not known."""
    while not isinstance(pointer, typed.Variable):
        if isinstance(pointer, typed.MovePointer):
            pointer = pointer.pointer
        elif isinstance(pointer, _PASSED) and pointer.operand.type.is_pointer:
            pointer = pointer.operand
        else:
            return None
    return roots.get(pointer.symbol)


__all__ = ["certain_accesses"]
