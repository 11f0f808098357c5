"""Defines `Region`: a graph inside another one, as the body of a loop is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..promotion.errors import InternalError, UnsupportedError
from ..promotion.literals import is_scalar
from . import constants
from .checks import Checks
from .construction.recording import OWNERS, recorded
from .data_sizes import deciders, extents_of, mentioned
from .dims.dim import Extent
from .graph import Graph
from .protocols import Growing, TensorLike
from .symbol import Symbol
from .types import DTypeLike, TensorType


class Region(Graph):
    """A graph that a loop or branch of another one runs.

    What it uses of the graph around it becomes an input behind its own ones, and an operand of the loop: it is captured. So
    functions can use symbols of both graphs. Sizes and single numbers are made anew inside. Arrays are captured: a region
    holds no constant of more than one element.

    Attributes:
        parent: the graph around it.
        captured: the symbols of the parent that the last inputs stand for, in order.
        on_host: whether the host calls it, so that it may have operations of the host, and sizes of its own.
        trips: the most iterations of a loop whose body this is, which its first input counts; None if no size says that.
        is_arm: whether it is what a branch may choose: what is computed while it is built belongs to it.
    """

    trips: Extent | None = None

    def __init__(
        self, parent: Graph, name: str, inputs: Iterable[TensorType] = (), on_host: bool = False, is_arm: bool = False
    ) -> None:
        """Make a region that has the rules of its parent, and knows its dims and checks."""
        self.parent, self.on_host, self.is_arm = parent, on_host, is_arm
        self._captures: dict[int, tuple[Symbol, Symbol]] = {}
        actions = {str(loss): str(action) for loss, action in parent.on_loss.items()}
        super().__init__(f"{parent.name} {name}", (), parent.rules, parent.policy, actions)
        sizes = {known for symbol in parent.symbols for known in mentioned(extents_of(symbol))}
        self.outer_dims = parent.outer_dims | sizes | set(parent.dim_names)
        self.standing = self._given = tuple(parent.shape_checks.entries)
        self._learned = self._given[-1] if self._given else None
        self.shape_checks = Checks(self.standing, names=parent.shape_checks.names)
        self.chains = parent.chains
        self._location = parent.current_location
        for tensor in inputs:
            self.input(tensor)

    @property
    def is_region(self) -> bool:
        """Whether it can be an attribute: it has outputs."""
        return self.finished

    @property
    def captured(self) -> tuple[Symbol, ...]:
        """The symbols of the parent that the last inputs stand for."""
        return tuple([outer for outer, _ in self._captures.values()])

    @property
    def own_dims(self) -> frozenset[str]:  # type: ignore[override]
        """The names of sizes that the graphs around it do not have: those of inputs, and those that its values decide."""
        return frozenset({*self.dim_names, *deciders(self.symbols)} - self.outer_dims)

    def is_inside(self, graph: object) -> bool:
        """Return whether the region belongs to a symbol of `graph`, or of a region inside it."""
        return self.parent is graph or self.parent.is_inside(graph)

    @recorded
    def as_symbol(self, value: TensorLike, op: str = "operand") -> Symbol:
        """Return a symbol of this region: for one of the graphs around it, the input that stands for it."""
        if type(value) is Symbol and value.graph is not self:
            return self._capture(value, op)
        return super().as_symbol(value, op)

    def _capture(self, symbol: Symbol, op: str) -> Symbol:
        outer = self.parent.as_symbol(symbol, op)
        if outer.op.name == "dim_value":
            return self.dim_value(outer.attrs["extent"])
        if outer.op.name == "constant" and outer.attrs["value"].size == 1 and outer.weak is None:
            return self.constant(outer.attrs["value"], outer.dtype)
        found = self._captures.get(outer.id)
        if found is None:
            inner = self.input(TensorType(outer.dtype, outer.shape, f"captured{len(self._captures)}"))
            if outer.weak is not None:
                self._weak[inner.id] = outer.weak
            found = self._captures[outer.id] = (outer, inner)
        return found[1]

    @recorded
    def constant(self, value: TensorLike | str, dtype: DTypeLike | None = None) -> Symbol:
        """Return a constant; the parent has it, unless it is one number."""
        if is_scalar(value):
            return super().constant(value, dtype)
        if constants.text_options(value) is not None:
            if self.on_host:
                return super().constant(value, dtype)
            raise UnsupportedError("constant: strings in a loop or branch are not supported; fix: compute with them outside")
        array, _ = constants.as_array(value, "constant")
        if np.size(array) == 1:
            return super().constant(value, dtype)
        return self._capture(self.parent.constant(value, dtype), "constant")

    @recorded
    def weight(self, name: str, array: TensorLike, dtype: DTypeLike | None = None) -> Symbol:
        """Return the input that stands for a weight of the parent."""
        return self._capture(self.parent.weight(name, array, dtype), "weight")

    @recorded
    def output(self, *symbols: Any, names: Sequence[str] | None = None, name: str | None = None) -> None:
        """End the region. It keeps the checks of its parent only where its shapes do not follow without them."""
        inherited = self.standing
        self.standing = tuple([check for check in inherited if check not in self._given])
        try:
            super().output(*symbols, names=names, name=name)
        except InternalError:
            self.standing = inherited
            super().output(*symbols, names=names, name=name)

    def learn_checks(self) -> None:
        """Take over the checks that the graphs around got since this region was begun."""
        if isinstance(self.parent, Region):
            self.parent.learn_checks()
        entries = self.parent.shape_checks.entries
        if not entries or entries[-1] is self._learned:
            return
        self._learned = entries[-1]
        new = tuple([check for check in entries if check not in self._given])
        self._given, self.standing = (*self._given, *new), (*self.standing, *new)
        for check in new:
            self.shape_checks.add(*check)

    @contextmanager
    def building(self) -> Iterator[None]:
        """Make this the region that is being built in its parent: loops inside belong to it."""
        before, self.parent.open = self.parent.open, self
        try:
            yield
        finally:
            self.parent.open = before

    def _growing(self) -> Growing:
        lists, tables = super()._growing()
        return Growing(lists, (*tables, self._captures))


def is_compiled_region(graph: object) -> bool:
    """Return whether a graph is a region in which nothing can run on the host."""
    return isinstance(graph, Region) and not graph.on_host


OWNERS[Region] = lambda region: region


def traced(
    parent: Graph, name: str, inputs: Sequence[TensorType], function: Callable[[Region, tuple[Symbol, ...]], Sequence[Symbol]]
) -> Region:
    """Return the region that a function builds: it gets the region and its inputs, and returns its outputs."""
    region = Region(parent, name, inputs)
    with region.building():
        outputs = function(region, region.inputs)
    region.output(*outputs, names=[f"value{position}" for position in range(len(outputs))])
    return region
