"""Moves the permutations from channels-last to channels-first towards the outputs, until they meet their inverses.

Convolutions read channels last: the channels of a window's row lie side by side. Importers of models that state channels first
put a permutation before and after each of them. This pass takes a permutation that makes channels first through everything that
can as well be done before it: elementwise operations, reductions, padding, slices, windows, concatenation. Between two
convolutions it meets the permutation that undoes it, and both are gone; what is left lies at the ends of the model. Values are
the same: only the order of axes changes, and with it the order in which reductions over several of them add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...graph.graph import Graph
from ...graph.ops.attributes import Attributes, fixed
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ..nest import Extent

Axes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Permuted:
    """A value of the original graph as `base`, of the new one, under a permutation: its axis i is axis order[i] of `base`."""

    base: Symbol
    order: Axes

    @property
    def is_plain(self) -> bool:
        return self.order == tuple(range(len(self.order)))


def keep_channels_last(graph: Graph) -> Graph:
    """Returns the graph with permutations to channels-first as late as possible; itself if it has no windows.

    `graph` is one of primitive operations and is not changed.
    """
    names = {symbol.op.name for symbol in graph.symbols}
    if "windows" not in names or not any(_makes_channels_first(symbol) for symbol in graph.symbols):
        return graph
    return _Rewriting(graph).run()


def _makes_channels_first(symbol: Symbol) -> bool:
    return symbol.op.name == "permute" and _is_channels_first(symbol.attrs["axes"])


def _is_channels_first(order: Axes) -> bool:
    """Returns whether an order of axes takes the last one to the second place, and leaves the others in order."""
    rank = len(order)
    return rank > 2 and order == (0, rank - 1, *range(1, rank - 1))


def _inverse(order: Axes) -> Axes:
    return tuple([order.index(axis) for axis in range(len(order))])


class _Rewriting:
    def __init__(self, graph: Graph) -> None:
        self.graph, self.target = graph, graph.rewriting()
        self.values: dict[int, Permuted] = {}
        self._plain: dict[int, Symbol] = {}  # of values under a permutation, the symbol that performs it
        self._of_products = _windows_of_products(graph)

    def run(self) -> Graph:
        for symbol in self.graph.symbols:
            with self.target.located(symbol.location):
                self.values[symbol.id] = self._moved(symbol)
        outputs = [self._performed(symbol) for symbol in self.graph.outputs]
        self.target.output(*outputs, names=self.graph.output_names)
        return self.target

    def _performed(self, symbol: Symbol) -> Symbol:
        """Returns the value of an original symbol in its own order of axes."""
        value = self.values[symbol.id]
        if value.is_plain:
            return value.base
        if symbol.id not in self._plain:
            self._plain[symbol.id] = self.target.apply("permute", (value.base,), {"axes": value.order})
        return self._plain[symbol.id]

    def _made(self, base: Symbol, order: Axes | None = None) -> Permuted:
        return Permuted(base, tuple(range(len(base.shape))) if order is None else order)

    def _restored(
        self, symbol: Symbol, inputs: Sequence[Symbol], order: Axes, attrs: Mapping[str, Any] | None = None
    ) -> Permuted:
        """Makes a symbol's operation anew on operands in another order of axes."""
        changed = None if attrs is None else fixed(cast(Attributes, dict(attrs)))
        return Permuted(self.target.adopt(symbol, inputs, _scattered(symbol.shape, order), changed), order)

    def _moved(self, symbol: Symbol) -> Permuted:
        if symbol.op.name == "permute":
            return self._permuted(symbol)
        operands = [self.values[operand.id] for operand in symbol.inputs]
        moving = [value.order for value in operands if not value.is_plain and len(value.order) == len(symbol.inputs[0].shape)]
        found = None
        if moving:
            if symbol.op.kind == "map":
                found = self._elementwise(symbol, max(moving, key=len))
            elif symbol.op.name == "concat":
                found = self._concatenated(symbol, moving[0])
            elif len(operands) == 1:
                found = self._of_one(symbol, operands[0])
        elif symbol.op.kind == "map" and any(not value.is_plain for value in operands):
            found = self._elementwise(symbol, max([value.order for value in operands if not value.is_plain], key=len))
        if found is not None:
            return found
        return self._made(self.target.adopt(symbol, [self._performed(operand) for operand in symbol.inputs]))

    def _permuted(self, symbol: Symbol) -> Permuted:
        value = self.values[symbol.inputs[0].id]
        order = tuple([value.order[axis] for axis in symbol.attrs["axes"]])
        found = self._made(value.base, order)
        if found.is_plain or _is_channels_first(order):
            return found
        return self._made(self.target.apply("permute", (value.base,), {"axes": order}))

    def _elementwise(self, symbol: Symbol, order: Axes) -> Permuted | None:
        rank = len(symbol.shape)
        if len(order) != rank:
            return None
        operands = [self._in_order(operand, order) for operand in symbol.inputs]
        return self._restored(symbol, operands, order)

    def _in_order(self, symbol: Symbol, order: Axes) -> Symbol:
        """Returns a value that broadcasts against the base of a permuted one as it does against that one itself."""
        value = self.values[symbol.id]
        if value.order == order:
            return value.base
        shape = symbol.shape
        if all(extent == 1 for extent in shape):
            return self._performed(symbol)
        found = self._performed(symbol)
        if len(shape) < len(order):
            found = self.target.apply("reshape", (found,), {"shape": (*(1,) * (len(order) - len(shape)), *shape)})
        return self.target.apply("permute", (found,), {"axes": _inverse(order)})

    def _concatenated(self, symbol: Symbol, order: Axes) -> Permuted:
        operands = [self._in_order_whole(operand, order) for operand in symbol.inputs]
        return self._restored(symbol, operands, order, {"axis": order[symbol.attrs["axis"]]})

    def _in_order_whole(self, symbol: Symbol, order: Axes) -> Symbol:
        value = self.values[symbol.id]
        if value.order == order:
            return value.base
        return self.target.apply("permute", (self._performed(symbol),), {"axes": _inverse(order)})

    def _of_one(self, symbol: Symbol, value: Permuted) -> Permuted | None:
        """Returns the result of an operation on a permuted value by one on its base; None where the order of axes counts."""
        order, attrs, name = value.order, symbol.attrs, symbol.op.name
        changed: dict[str, Any]
        if symbol.op.kind == "reduce":
            return self._reduced(symbol, value)
        match name:
            case "pad":
                changed = {**attrs, "low": _scattered(attrs["low"], order), "high": _scattered(attrs["high"], order)}
            case "slice":
                changed = {key: _scattered(attrs[key], order) for key in ("starts", "stops", "steps")}
            case "flip":
                changed = {"axes": tuple(sorted([order[axis] for axis in attrs["axes"]]))}
            case "cumsum":
                changed = {**attrs, "axis": order[attrs["axis"]]}
            case "windows" if symbol.id in self._of_products and len(order) - 1 in [order[axis] for axis in attrs["axes"]]:
                return None  # its rows would have channels apart: with one axis of space, the first order is the last one too
            case "windows":
                changed = {**attrs, "axes": tuple([order[axis] for axis in attrs["axes"]])}
                order = (*order, *range(len(order), len(symbol.shape)))
            case "reshape":
                return self._reshaped(symbol, value)
            case _:
                return None
        return self._restored(symbol, (value.base,), order, changed)

    def _reduced(self, symbol: Symbol, value: Permuted) -> Permuted | None:
        axes = symbol.attrs["axes"]
        if symbol.op.name in ("argmax", "argmin") and len(axes) != 1:
            return None
        order, along = value.order, {value.order[axis] for axis in axes}
        if not symbol.attrs["keepdims"]:
            kept = [axis for axis in order if axis not in along]
            order = tuple([sorted(kept).index(axis) for axis in kept])
        attrs = {"axes": tuple(sorted(along)), "keepdims": symbol.attrs["keepdims"]}
        return self._restored(symbol, (value.base,), order, attrs)

    def _reshaped(self, symbol: Symbol, value: Permuted) -> Permuted | None:
        """Returns a reshape that the permutation does not concern: it moves axes of size 1 alone."""
        long = [axis for axis in value.order if value.base.shape[axis] != 1]
        if long != sorted(long):
            return None
        return self._made(self.target.adopt(symbol, (value.base,)))


def _windows_of_products(graph: Graph) -> frozenset[int]:
    """Returns the ids of windows that products read, through views."""
    found: set[int] = set()
    pending = [symbol.inputs[0] for symbol in graph.symbols if symbol.op.name == "matmul"]
    while pending:
        symbol = pending.pop()
        if symbol.op.kind == "view" and symbol.id not in found:
            found.add(symbol.id)
            pending += symbol.inputs
    return frozenset([number for number in found if graph.symbols[number].op.name == "windows"])


def _scattered(values: Sequence[Extent], order: Axes) -> tuple[Extent, ...]:
    """Returns values for the axes of a permuted value in the order of the base's."""
    return tuple([values[order.index(axis)] for axis in range(len(order))])
