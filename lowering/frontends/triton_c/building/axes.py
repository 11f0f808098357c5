"""Finds which axes of blocks are the same lanes, so that a call's mask is applied to what the caller's lanes lead to.

Two axes are one where an operation goes along both element by element, or a variable hands one over as the other. Neither
extents nor the order of statements count: a block of 8 elements that has nothing to do with the 8 lanes of a condition is
none of them, however the function is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

from xdsl.ir import SSAValue

from .....promotion.dataclass import dataclass
from ....tt import types as t
from ..checking import typed
from ..checking.typed import Symbol
from ..types import Type, leaves_of

Axis = int
"""One axis of some value. `Axes.root` of two is equal where they are the same lanes."""


class Axes:
    """The axes of the values of one function.

    Attributes:
        results: the axes of each part of what it returns.
    """

    def __init__(self, function: typed.Function, axes_of: Callable[[str], Axes]) -> None:
        self._axes_of = axes_of
        self._parameters = function.parameters
        self._above: list[Axis] = []
        self._symbols: dict[Symbol, tuple[Axis, ...]] = {}
        self._found: dict[int, tuple[typed.Expression, tuple[Axis, ...]]] = {}
        self.results = [self._fresh(leaf) for _, leaf in leaves_of(function.result)]
        self._statements(function.body)

    def root(self, axis: Axis) -> Axis:
        """Return the axis that stands for all that are the same lanes."""
        while self._above[axis] != axis:
            self._above[axis] = self._above[self._above[axis]]
            axis = self._above[axis]
        return axis

    def of(self, node: typed.Expression) -> tuple[Axis, ...]:
        """Return the axes of an expression of the function."""
        found = self._found.get(id(node))
        return self._visit(node) if found is None else found[1]

    def signature(self, node: typed.Call) -> dict[Axis, Axis]:
        """Return what the axes that a called function takes and returns are here; keys are roots of the called function."""
        callee = self._axes_of(node.function)
        results = [self.of_symbol(each) for each in node.results] or [self.of(node)]
        pairs = [
            *zip(map(callee.of_symbol, callee._parameters), map(self.of, node.arguments), strict=True),
            *zip(callee.results, results, strict=False),
        ]
        return {callee.root(axis): own for inner, outer in pairs for axis, own in zip(inner, outer, strict=True)}

    def of_symbol(self, symbol: Symbol) -> tuple[Axis, ...]:
        """Return the axes of a variable."""
        found = self._symbols.get(symbol)
        if found is None:
            found = self._symbols[symbol] = self._fresh(symbol.type)
        return found

    def _fresh(self, type_: Type) -> tuple[Axis, ...]:
        return tuple(self._new() for _ in type_.shape)

    def _new(self) -> Axis:
        self._above.append(len(self._above))
        return len(self._above) - 1

    def _unify(self, a: Sequence[Axis], b: Sequence[Axis]) -> None:
        for left, right in zip(a, b, strict=True):
            self._above[self.root(left)] = self.root(right)

    def _statements(self, statements: Sequence[typed.Statement]) -> None:
        for each in statements:
            match each:
                case typed.Evaluate():
                    self._visit(each.expression)
                case typed.If():
                    self._visit(each.condition)
                    self._statements(each.first)
                    self._statements(each.second)
                case typed.Loop():
                    if each.condition is not None:
                        self._visit(each.condition)
                    self._statements(each.body)
                    self._statements(each.step)
                case typed.Switch():
                    self._visit(each.subject)
                    for section in each.sections:
                        self._statements(section.body)
                case typed.Return():
                    for value in each.before:
                        self._visit(value)
                    for axes, value in zip(self.results, each.values, strict=True):
                        self._unify(axes, self._visit(value))

    def _visit(self, expression: typed.Expression) -> tuple[Axis, ...]:
        """Take in an expression, its parts before itself, without recursion: sums may be long."""
        waiting = [(expression, False)]
        while waiting:
            node, is_ready = waiting.pop()
            if is_ready:
                self._found[id(node)] = node, self._made(node)
            else:
                waiting.append((node, True))
                waiting.extend((each, False) for each in typed.parts_of(node))
        return self._found[id(expression)][1]

    def _made(self, node: typed.Expression) -> tuple[Axis, ...]:
        parts = [self._found[id(each)][1] for each in typed.parts_of(node)]
        match node:
            case typed.Variable():
                return self.of_symbol(node.symbol)
            case typed.Assign():
                self._unify(self.of_symbol(node.symbol), parts[0])
                return parts[0]
            case typed.Broadcast():
                own, extents = node.operand.type.shape, node.type.shape
                missing = len(extents) - len(own)
                return tuple(
                    parts[0][axis - missing] if axis >= missing and own[axis - missing] == extent else self._new()
                    for axis, extent in enumerate(extents)
                )
            case typed.View():
                kept = iter(parts[0])
                return tuple(self._new() if axis in node.axes else next(kept) for axis in range(len(node.type.shape)))
            case typed.Reduce() | typed.ArgReduce():
                return parts[0][: node.axis] + parts[0][node.axis + 1 :]
            case typed.Transpose():
                return tuple(parts[0][axis] for axis in node.order)
            case typed.Gather():
                operand, index = parts
                return operand[: node.axis] + index + operand[node.axis + 1 :]
            case typed.Dot():
                left, right = parts[0], parts[1]
                self._unify((left[1], *left[2:]), (right[0], *right[2:]))
                found = (left[0], *right[1:])
                for accumulator in parts[2:]:
                    self._unify(found, accumulator)
                return found
            case typed.Sequence():
                return parts[node.result]
            case typed.Call():
                return self._called(node, parts)
        found = self._fresh(node.type)
        for each in parts:
            if len(each) == len(found) and each:
                self._unify(found, each)
        return found

    def _called(self, node: typed.Call, arguments: list[tuple[Axis, ...]]) -> tuple[Axis, ...]:
        """Take in a call: axes that the function makes one are one here."""
        callee = self._axes_of(node.function)
        found = self._fresh(node.type)
        results = [self.of_symbol(each) for each in node.results] or [found]
        pairs = [
            *zip(map(callee.of_symbol, callee._parameters), arguments, strict=True),
            *zip(callee.results, results, strict=False),
        ]
        here: dict[Axis, Axis] = {}
        for inner, outer in pairs:
            for axis, own in zip(inner, outer, strict=True):
                self._unify([here.setdefault(callee.root(axis), own)], [own])
        return found


@dataclass(frozen=True, slots=True)
class CallersMask:
    """The active lanes of a call, in the function that is built in its place.

    Attributes:
        value: the mask.
        results: for each of its axes, the axes of the function that are the same lanes by what it returns.
        arguments: those that are by what it got, which count where nothing is connected with the result.
    """

    value: SSAValue
    results: tuple[frozenset[Axis], ...]
    arguments: tuple[frozenset[Axis], ...]


class Lanes:
    """A function that is built in place of a call: its axes, and the masks of those who called it."""

    def __init__(self, axes: Axes, masks: tuple[CallersMask, ...]) -> None:
        self.axes = axes
        self.masks = masks

    def mask_of(self, mask: SSAValue, like: typed.Expression) -> CallersMask | None:
        """Return a mask with the axes of an expression; None if it has not that expression's axes."""
        axes = self.axes.of(like)
        if t.shape_of(mask.type) != like.type.shape:
            return None
        roots = tuple(frozenset([self.axes.root(axis)]) for axis in axes)
        return CallersMask(mask, roots, roots)

    def called(self, node: typed.Call, callee: Axes, mask: CallersMask | None) -> Lanes:
        """Return the lanes of a function that is called under a further mask."""
        here = {inner: self.axes.root(outer) for inner, outer in self.axes.signature(node).items()}

        def inside(axes: frozenset[Axis]) -> frozenset[Axis]:
            return frozenset(inner for inner, outer in here.items() if outer in axes)

        found = [
            CallersMask(each.value, tuple(map(inside, each.results)), tuple(map(inside, each.arguments)))
            for each in self.masks
        ]
        if mask is not None:
            arguments = tuple(map(inside, mask.arguments))
            is_result = not node.results and t.shape_of(mask.value.type) == node.type.shape
            axes = [frozenset([callee.root(axis)]) for axis in callee.results[0]] if is_result and callee.results else None
            found.append(CallersMask(mask.value, arguments if axes is None else tuple(axes), arguments))
        return Lanes(callee, tuple(found))

    def placements(self, mask: CallersMask, node: typed.Expression) -> list[tuple[int | None, ...]]:
        """Return where the axes of a mask are among those of a value; None: nowhere. Nothing, if all are nowhere.

        There are several if axes of the value are the same lanes, as those of `x[:, newaxis] + x`: an element is active
        if it is by any of them.
        """
        roots = [self.axes.root(axis) for axis in self.axes.of(node)]
        choices: list[list[int | None]] = []
        for by_result, by_argument in zip(mask.results, mask.arguments, strict=True):
            at = [number for number, root in enumerate(roots) if root in by_result]
            at = at or [number for number, root in enumerate(roots) if root in by_argument]
            choices.append([*at, None])
        found = [each for each in product(*choices) if _is_injective(each)]
        most = max(map(_matched, found))
        return [each for each in found if _matched(each) == most] if most else []


def _matched(placement: Sequence[int | None]) -> int:
    return sum(each is not None for each in placement)


def _is_injective(placement: Sequence[int | None]) -> bool:
    return len(set(placement) - {None}) == _matched(placement)


__all__ = ["Axes", "CallersMask", "Lanes"]
