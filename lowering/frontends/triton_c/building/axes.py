"""Finds which axes of blocks are the same lanes, so that a call's mask is applied to what the caller's lanes lead to.

Two axes are one where an operation goes along both element by element, or a variable hands one over as the other. Neither
extents nor the order of statements count: a block of 8 elements that has nothing to do with the 8 lanes of a condition is
none of them, however the function is written.

A variable may be along several axes of a value, as `j` is in `t[:, newaxis] + j` and in the sum of its rows with `j`. So an
axis also has sources, the axes that lead to it: what the result is computed from goes before what has the same lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from xdsl.ir import SSAValue

from .....promotion.dataclass import dataclass
from ....tt import types as t
from ..checking import typed
from ..checking.typed import Symbol
from ..types import Type, leaves_of

MAX_PLACEMENTS = 64
"""Ways in which the lanes of a mask may be axes of a value."""
Axis = int
"""One axis of some value. `Axes.root` of two is equal where they are the same lanes."""


class Axes:
    """The axes of the values of one function.

    Attributes:
        results: the axes of each part of what it returns.
        stores: those of what it stores, with what the functions that it calls do.
    """

    def __init__(self, function: typed.Function, axes_of: Callable[[str], Axes]) -> None:
        self._axes_of = axes_of
        self._parameters = function.parameters
        self._above: list[Axis] = []
        self.stores: list[Axis] = []
        self._sources: dict[Axis, list[Axis]] = {}
        self._leading: dict[Axis, frozenset[Axis]] = {}
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

    def _flow(self, sources: Sequence[Axis], targets: Sequence[Axis]) -> None:
        """Make axes of an operand those of what is computed from it."""
        self._unify(sources, targets)
        for source, target in zip(sources, targets, strict=True):
            if source != target:
                self._sources.setdefault(target, []).append(source)

    def leading_to(self, axis: Axis) -> frozenset[Axis]:
        """Return an axis with all that lead to it."""
        found = self._leading.get(axis)
        if found is None:
            found = self._leading[axis] = _reached([axis], self._sources)
        return found

    def leading_to_stores(self, lanes: Collection[Axis]) -> frozenset[Axis]:
        """Return what leads to stores in some lanes."""
        roots = {self.root(each) for each in lanes}
        return frozenset().union(*(self.leading_to(each) for each in self.stores if self.root(each) in roots))

    def led_by(self, axes: Collection[Axis]) -> frozenset[Axis]:
        """Return some axes with all that they lead to."""
        targets: dict[Axis, list[Axis]] = {}
        for target, sources in self._sources.items():
            for source in sources:
                targets.setdefault(source, []).append(target)
        return _reached(axes, targets)

    def passed_to(self, node: typed.Call) -> tuple[list[tuple[Axis, Axis]], list[tuple[Axis, Axis]]]:
        """Return the axes of the parameters and of the results of a called function, each with what it is here."""
        callee = self._axes_of(node.function)
        results = [self.of_symbol(each) for each in node.results] or [self.of(node)]
        passed = zip(map(callee.of_symbol, callee._parameters), map(self.of, node.arguments), strict=True)
        return _pairs(passed), _pairs(zip(callee.results, results, strict=False))

    def _statements(self, statements: Sequence[typed.Statement]) -> None:
        for each in statements:
            match each:
                case typed.Evaluate():
                    self._visit(each.expression)
                case typed.If():
                    following: tuple[typed.Statement, ...] = (each,)
                    while len(following) == 1 and isinstance(link := following[0], typed.If):  # chains of `else if` are long
                        self._visit(link.condition)
                        self._statements(link.first)
                        following = link.second
                    self._statements(following)
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
                        self._flow(self._visit(value), axes)

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
                self._flow(parts[0], self.of_symbol(node.symbol))
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
                found = self._fresh(node.type)
                self._flow((left[0], *left[2:]), (found[0], *found[2:]))
                self._flow(right[1:], found[1:])
                for accumulator in parts[2:]:
                    self._flow(accumulator, found)
                return found
            case typed.Sequence():
                return parts[node.result]
            case typed.Call():
                return self._called(node, parts)
        found = self._fresh(node.type)
        for each in parts:
            if len(each) == len(found) and each:
                self._flow(each, found)
        if isinstance(node, typed.Store | typed.Atomic):
            self.stores += found
        return found

    def _called(self, node: typed.Call, arguments: list[tuple[Axis, ...]]) -> tuple[Axis, ...]:
        """Take in a call: axes that the function makes one are one here."""
        callee = self._axes_of(node.function)
        found = self._fresh(node.type)
        results = [self.of_symbol(each) for each in node.results] or [found]
        passed = _pairs(zip(map(callee.of_symbol, callee._parameters), arguments, strict=True))
        targets = _pairs(zip(callee.results, results, strict=False))
        here: dict[Axis, Axis] = {}
        for axis, own in passed + targets:
            self._unify([here.setdefault(callee.root(axis), own)], [own])
        stores = [(axis, self._new()) for axis in callee.stores]
        self.stores += [own for _, own in stores]
        for target, own_target in targets + stores:
            sources = callee.leading_to(target)
            for axis, own in passed:
                if axis in sources:
                    self._flow([own], [own_target])
        return found


def _pairs(found: Iterable[tuple[Sequence[Axis], Sequence[Axis]]]) -> list[tuple[Axis, Axis]]:
    return [pair for each in found for pair in zip(*each, strict=True)]


def _reached(axes: Collection[Axis], edges: Mapping[Axis, Sequence[Axis]]) -> frozenset[Axis]:
    """Return some axes with all that edges lead to from them."""
    seen, waiting = set(axes), list(axes)
    while waiting:
        fresh = set(edges.get(waiting.pop(), ())) - seen
        seen |= fresh
        waiting += fresh
    return frozenset(seen)


@dataclass(frozen=True, slots=True)
class CallersMask:
    """Active lanes: those of an arm, or in the function that is built in place of a call those of its callers.

    Attributes:
        value: the mask.
        leading: for each of its axes, the axes that the arm, what the function returns, or stores in these lanes are computed
            from. They count before all others.
        roots: of the axes that are these lanes, in the function that the arm stands in.
        led: axes that are computed from those that the function got as these lanes.
    """

    value: SSAValue
    leading: tuple[frozenset[Axis], ...]
    roots: tuple[frozenset[Axis], ...]
    led: tuple[frozenset[Axis], ...]


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
        leading = tuple(self.axes.leading_to(axis) | self.axes.leading_to_stores([axis]) for axis in axes)
        roots = tuple(frozenset([self.axes.root(axis)]) for axis in axes)
        return CallersMask(mask, leading, roots, tuple(frozenset[Axis]() for _ in axes))

    def called(self, node: typed.Call, callee: Axes, mask: CallersMask | None) -> Lanes:
        """Return the lanes of a function that is called under a further mask."""
        passed, returned = self.axes.passed_to(node)
        found = []
        for each in (*self.masks, *(() if mask is None else (mask,))):
            leading, led = [], []
            for known, roots, computed in zip(each.leading, each.roots, each.led, strict=True):
                got = {inner for inner, own in passed if own in known or own in computed or self.axes.root(own) in roots}
                gives = {inner for inner, own in returned if own in known}
                sources = (callee.leading_to(inner) for inner in gives)
                leading.append(callee.leading_to_stores(got | gives).union(*sources))
                led.append(callee.led_by(got))
            found.append(CallersMask(each.value, tuple(leading), tuple(frozenset[Axis]() for _ in led), tuple(led)))
        return Lanes(callee, tuple(found))

    def placements(self, mask: CallersMask, node: typed.Expression) -> list[tuple[int | None, ...]]:
        """Return where the axes of a mask are among those of a value; None: nowhere. Nothing, if all are nowhere.

        There are several if axes of the value are the same lanes, as those of `x[:, newaxis] + x`: an element is active
        if it is by any of them.
        """
        axes = self.axes.of(node)
        extents = t.shape_of(mask.value.type)
        choices: list[list[int]] = []
        for leading, roots, led in zip(mask.leading, mask.roots, mask.led, strict=True):
            at = [number for number, axis in enumerate(axes) if axis in leading]
            choices.append(at or [number for number, axis in enumerate(axes) if axis in led or self.axes.root(axis) in roots])
        # an axis of extent 1 is the same wherever it is placed: one axis is looked for, when the others have theirs
        found = matchings([at if extent > 1 else [] for at, extent in zip(choices, extents, strict=True)])
        return [each for each in (_completed(each, choices) for each in found) if any(at is not None for at in each)]


def matchings(choices: Sequence[Sequence[int]]) -> list[tuple[int | None, ...]]:
    """Return the ways to give different numbers to as many as possible, each one of its choices; None for what has none.

    Raises `OverflowError` if there are more than `MAX_PLACEMENTS` of them.
    """
    found: list[tuple[int | None, ...]] = []
    most = _most(choices, 0, frozenset())

    def extend(before: tuple[int | None, ...], taken: frozenset[int]) -> None:
        at, missing = len(before), most - len(taken)
        if at == len(choices):
            if len(found) == MAX_PLACEMENTS:
                raise OverflowError
            found.append(before)
            return
        for each in choices[at]:
            if each not in taken and _most(choices, at + 1, taken | {each}) >= missing - 1:
                extend((*before, each), taken | {each})
        if _most(choices, at + 1, taken) >= missing:
            extend((*before, None), taken)

    extend((), frozenset())
    return found


def _most(choices: Sequence[Sequence[int]], start: int, taken: frozenset[int]) -> int:
    """Return for how many choices, from `start` on, there are different numbers that are not taken (Kuhn's algorithm)."""
    owner: dict[int, int] = {}

    def has_axis(number: int, seen: set[int]) -> bool:
        for each in choices[number]:
            if each in taken or each in seen:
                continue
            seen.add(each)
            if each not in owner or has_axis(owner[each], seen):
                owner[each] = number
                return True
        return False

    return sum(has_axis(number, set()) for number in range(start, len(choices)))


def _completed(placement: Sequence[int | None], choices: Sequence[Sequence[int]]) -> tuple[int | None, ...]:
    """Return a placement with an axis that is free for whatever has none, if it has such a choice."""
    found = list(placement)
    for number, axes in enumerate(choices):
        if found[number] is None:
            found[number] = next((each for each in axes if each not in found), None)
    return tuple(found)


__all__ = ["MAX_PLACEMENTS", "Axes", "CallersMask", "Lanes", "matchings"]
