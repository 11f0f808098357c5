"""Finds variables whose values nobody takes. In arms of conditionals what is loaded for them is loaded for no lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..checking import typed
from ..checking.typed import Symbol

_DEEDS = (typed.Store, typed.Atomic, typed.Effect)
"""What does more than give a value."""
_OTHER_DEEDS = (*_DEEDS, typed.Assign, typed.Call)


class Uses:
    """Which variables of some functions lead to no result, no memory and no decision."""

    def __init__(self, functions: Mapping[str, typed.Function]) -> None:
        self._functions = functions
        self._known: dict[tuple[str, frozenset[int]], frozenset[Symbol]] = {}
        self._pure: dict[str, bool] = {}

    def unused(self, function: str, results: frozenset[int] = frozenset()) -> frozenset[Symbol]:
        """Return the variables and parameters of a function whose values nobody takes, if nobody takes some of its results."""
        found = self._known.get((function, results))
        if found is None:
            found = self._known[function, results] = self._not_taken(self._functions[function], results)
        return found

    def is_idle(self, node: typed.Expression, unused: frozenset[Symbol]) -> bool:
        """Return whether an expression loads, and does nothing but give a value.

        Assignments may be in it to variables that are unused. Whoever asks knows that nobody takes the value of the expression.
        """
        found = False
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, _DEEDS):
                return False
            symbols: Sequence[Symbol] = ()
            if isinstance(each, typed.Assign):
                symbols = (each.symbol,)
            elif isinstance(each, typed.Call):
                symbols = each.results
                if not self._is_pure(each.function):
                    return False
            if any(symbol not in unused for symbol in symbols):
                return False
            found = found or isinstance(each, typed.Load | typed.Call)
            waiting.extend(typed.parts_of(each))
        return found

    def _is_pure(self, function: str) -> bool:
        """Return whether a function does nothing but return a value."""
        found = self._pure.get(function)
        if found is None:
            roots = typed.evaluated(self._functions[function].body)
            found = self._pure[function] = all(self._gives_a_value(each) for each, _ in roots)
        return found

    def _gives_a_value(self, node: typed.Expression) -> bool:
        waiting = [node]
        while waiting:
            each = waiting.pop()
            if isinstance(each, _DEEDS) or (isinstance(each, typed.Call) and not self._is_pure(each.function)):
                return False
            waiting.extend(typed.parts_of(each))
        return True

    def _not_taken(self, function: typed.Function, results: frozenset[int]) -> frozenset[Symbol]:
        """Return what is not reached from what has an effect, back through assignments."""
        taken: set[Symbol] = set()
        known = set(function.parameters)
        sources: dict[Symbol, set[Symbol]] = {}
        nobody = Symbol("nobody", function.result, function.token)
        waiting: list[tuple[typed.Expression, Symbol | None]]  # with the variable that it is for; None: somebody takes it
        waiting = [(each, nobody if is_discarded else None) for each, is_discarded in typed.evaluated(function.body, results)]
        while waiting:
            node, target = waiting.pop()
            parts = typed.parts_of(node)
            match node:
                case typed.Variable():
                    if target is None:
                        taken.add(node.symbol)
                    else:
                        sources.setdefault(target, set()).add(node.symbol)
                case typed.Assign():
                    waiting.append((node.value, node.symbol))
                    known.add(node.symbol)
                    if target is None:
                        taken.add(node.symbol)
                    else:
                        sources.setdefault(target, set()).add(node.symbol)
                case typed.Sequence():
                    waiting += [(each, target if number == node.result else nobody) for number, each in enumerate(parts)]
                case typed.Call():
                    callee = self._functions[node.function].parameters
                    known.update(node.results)
                    unused = self.unused(node.function)
                    waiting += [(each, nobody if own in unused else None) for each, own in zip(parts, callee, strict=True)]
                case typed.Store() | typed.Atomic() | typed.Effect():
                    waiting += [(each, None) for each in parts]
                case typed.Conditional() | typed.Logical() if typed.contains(node, _OTHER_DEEDS):
                    waiting += [(each, None) for each in parts]  # the condition decides on more than the value
                case _:
                    waiting += [(each, target) for each in parts]
        reached = list(taken)
        while reached:
            fresh = sources.get(reached.pop(), set()) - taken
            taken |= fresh
            reached += fresh
        return frozenset(known - taken)


__all__ = ["Uses"]
