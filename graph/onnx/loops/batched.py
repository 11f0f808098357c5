"""Imports scans of opset 8, whose tensors begin with a batch: a loop over sequences, and in it one over slices."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from contextlib import suppress

import numpy as np

from ....promotion.dtype import DType, string
from ...functions.building import apply
from ...functions.joining import concat
from ...functions.shaping import flip
from ...graph import Graph
from ...symbol import Symbol
from ...types import Shape
from ..messages import NoRegionError
from ..model import Body
from ..node import Node
from ..values import Value
from .host_regions import import_host_scan
from .regions import import_scan


class BatchedScan:
    """A Scan of opset 8. What its loops return stands behind the batch: last states, and rows, which are zeros behind the end.

    Attributes:
        lengths: how long each sequence is; None for all of it.
        state: before each sequence.
        sources: of which a slice is taken in each step.
        backwards: which of these are read from the end of the sequence on.
        trips: the most steps of a sequence.
    """

    def __init__(
        self, node: Node, body: Body, lengths: Symbol | None, state: Ordered[Symbol], sources: Ordered[Symbol],
        backwards: Ordered[bool],
    ) -> None:  # fmt: skip
        self.node, self.body, self.lengths, self.state, self.sources = node, body, lengths, state, sources
        self.backwards = backwards
        self._batch, self.trips = sources[0].shape[:2]

    def as_region(self) -> list[Value]:
        """Return the results of loops of the graph. Raises `NoRegionError`."""
        return import_scan(self.node, self._sequence, (), self._operands(), self._batch)

    def driven(self) -> list[Value]:
        """Return the results of loops, of which the host drives the outer one at least. Raises `NoRegionError`."""
        return import_host_scan(self.node, self._sequence_on_host, (), self._operands(), self._batch)

    def _operands(self) -> list[Symbol]:
        lengths = () if self.lengths is None else (self.lengths,)
        return [*lengths, *self.state, *self.sources]

    def _taken(self, values: Ordered[Value]) -> tuple[Symbol | None, list[Symbol], list[Symbol]]:
        """Return the length, the state and the sources of one sequence."""
        given = [value for value in values if isinstance(value, Symbol)]
        length = None if self.lengths is None else given.pop(0)
        return length, given[: len(self.state)], given[len(self.state) :]

    def _sequence(self, inner: Node, index: Symbol, values: list[Value]) -> list[Value]:
        """Return what a loop of the graph makes of one sequence: it goes on behind the end, and keeps what it had there."""
        length, state, sources = self._taken(values)
        turned, given = self._in_order(sources, length)
        states = len(state)

        def step(node: Node, at: Symbol, values: list[Value]) -> list[Value]:
            before, slices = values[:states], values[states:]
            made = self.node.run(self.body, (*before, *self._slices(slices, turned, at, length)), self._iteration(index, at))
            if length is None:
                return made
            goes_on = apply("greater", length, at)
            after = [node.symbol_of(value) for value in made]
            kept = [node.symbol_of(value) for value in before]
            nothing = [zeros(row.graph, row.dtype, row.shape) for row in after[states:]]
            for one, other in zip(after, kept, strict=False):
                if one.shape != other.shape or one.dtype is not other.dtype:
                    raise NoRegionError("a state changes its type, and sequences have lengths of their own")
            return [apply("where", goes_on, *pair) for pair in zip(after, [*kept, *nothing], strict=True)]

        return import_scan(inner, step, state, given, self.trips)

    def _sequence_on_host(self, inner: Node, index: Symbol, values: list[Value]) -> list[Value]:
        """Return what is made of one sequence by a loop of the graph, else by one that the host drives as far as it goes."""
        with suppress(NoRegionError):
            return self._sequence(inner, index, values)
        length, state, sources = self._taken(values)
        turned, given = self._in_order(sources, length)
        states = len(state)

        def step(node: Node, at: Symbol, values: list[Value]) -> list[Value]:
            slices = self._slices(values[states:], turned, at, length)
            return self.node.run(self.body, (*values[:states], *slices), self._iteration(index, at))

        made = import_host_scan(inner, step, state, given, self.trips, length)
        if length is None:
            return made
        return [*made[:states], *[self._filled(inner.symbol_of(rows)) for rows in made[states:]]]

    def _iteration(self, index: Symbol, at: Symbol) -> Symbol:
        """Return the number of an iteration among those of all sequences, as if they were scanned one after the other."""
        return apply("add", apply("mul", index, self.trips), at)

    def _in_order(self, sources: Ordered[Symbol], length: Symbol | None) -> tuple[list[Symbol | None], list[Symbol]]:
        """Return the sources that are read from where a run says that they end, and those that are scanned in order."""
        if length is None:
            turned = [flip(each, 0) if back else each for each, back in zip(sources, self.backwards, strict=True)]
            return [None] * len(sources), turned
        ends = [each if back else None for each, back in zip(sources, self.backwards, strict=True)]
        return ends, [each for each, end in zip(sources, ends, strict=True) if end is None]

    def _slices(
        self, slices: Ordered[Value], turned: Ordered[Symbol | None], at: Symbol, length: Symbol | None
    ) -> list[Value]:
        """Return the slices of a step, among them those from the end on."""
        following, found = iter(slices), list[Value]()
        for source in turned:
            if source is None or length is None:
                found.append(next(following))
            else:
                position = apply("maximum", apply("sub", apply("sub", length, at), 1), 0)
                found.append(apply("gather", source, position, axis=0))
        return found

    def _filled(self, rows: Symbol) -> Symbol:
        """Return rows with zeros behind them, up to the most steps."""
        missing = zeros(rows.graph, rows.dtype, (self.trips - rows.shape[0], *rows.shape[1:]))
        return concat((rows, missing), 0)


def zeros(graph: Graph, dtype: DType, shape: Shape) -> Symbol:
    """Return a tensor of zeros, or of empty strings."""
    nothing = graph.constant("") if dtype is string else graph.constant(np.zeros((), dtype.numpy), dtype)
    return apply("broadcast_to", nothing, shape=shape)
