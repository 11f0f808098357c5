"""Compiles the regions of loops and branches that the host drives: each is a model of its own, called once an iteration.

Sizes that change from one iteration to the next are symbolic sizes of that model, so it is compiled once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..graph.data_sizes import extents_of, mentioned, needed
from ..graph.ops.control import captures_of, regions_of
from ..graph.outline import Outline
from ..graph.region import Region
from ..graph.symbol import Symbol
from ..graph.types import TensorType
from ..promotion.arrays import Array
from ..promotion.dtype import bool_
from .model import Model

Call = Callable[[Model, Sequence[object]], Any]
"""Calls a model with arguments, and returns its output, or a tuple of them."""


class HostRegion:
    """A region as a compiled model. Constants of the graph around it are constants of the model.

    Attributes:
        model: what is compiled; None for a region that returns nothing but what it takes.
    """

    def __init__(self, region: Region, captured: Sequence[Symbol], compiled: Callable[..., Model]) -> None:
        """Compile a region. captured: the symbols that its last inputs stand for. compiled: compiles a graph."""
        own = len(region.inputs) - len(captured)
        sources = {
            inner.id: outer for inner, outer in zip(region.inputs[own:], captured, strict=True)
            if outer.op.name in ("constant", "weight", "text_constant")
        }  # fmt: skip
        outline = Outline(region, region.name, sources)
        live = needed(region.symbols, region.outputs)
        for symbol in region.symbols:
            if symbol.id in live and symbol.op.kind != "source":
                outline.add(symbol)
        positions = {symbol.id: position for position, symbol in enumerate(region.inputs)}
        self._outputs: list[int | Symbol] = [positions.get(symbol.id, symbol) for symbol in region.outputs]
        made = {each.id: each for each in self._outputs if isinstance(each, Symbol)}
        self._order = {key: number for number, key in enumerate(made)}
        self.model: Model | None = None
        self._given: list[int | str] = []
        if not made:
            return
        graph = outline.graph
        for symbol in made.values():
            outline.of(symbol)
        self._given += [positions[symbol.id] for symbol in outline.taken]
        checks = mentioned([extent for check in region.checks for extent in check[:2]])
        used = checks | {name for symbol in graph.symbols for name in mentioned(extents_of(symbol))}
        plain = {getattr(extent, "name", None) for symbol in graph.inputs for extent in symbol.shape}
        outside = {name for symbol in region.inputs for name in mentioned(symbol.shape)} | region.outer_dims
        for name in sorted((used - plain) & outside):
            graph.input(TensorType(bool_, (name, 0), f"size {name}"))
            self._given.append(name)
        outline.finish(list(made.values()), {*used, *checks}, [f"value{symbol.id}" for symbol in made.values()])
        self.model = compiled(graph)
        self._region = region

    def run(self, inputs: Sequence[Array], dims: Mapping[str, int], call: Call) -> tuple[Array, ...]:
        """Return the outputs of the region. dims: sizes that the graph around it knows. call: calls its model."""
        found: tuple[Array, ...] = ()
        if self.model is not None:
            sizes = self._sizes(inputs, dims)
            arguments = [
                np.zeros((sizes[each], 0), np.bool_) if isinstance(each, str) else inputs[each] for each in self._given
            ]
            results = call(self.model, arguments)
            found = results if len(self._order) > 1 else (results,)
        return tuple([inputs[each] if isinstance(each, int) else found[self._order[each.id]] for each in self._outputs])

    def _sizes(self, inputs: Sequence[Array], dims: Mapping[str, int]) -> Mapping[str, int]:
        """Return the sizes that no argument of the model shows: of the graph around it, and of inputs that are unread."""
        names = [each for each in self._given if isinstance(each, str)]
        if all(name in dims and name not in self._region.own_dims for name in names):
            return dims
        found = dict(dims)
        for symbol, array in zip(self._region.inputs, inputs, strict=True):
            for extent, size in zip(symbol.shape, array.shape, strict=True):
                name = getattr(extent, "name", None)
                if name is not None:
                    found[name] = size
        return found


def host_regions(symbols: Sequence[Symbol], compiled: Callable[..., Model]) -> dict[int, HostRegion]:
    """Return the regions of loops and branches of the host, by the ids of their objects."""
    return {
        id(region): HostRegion(region, captures_of(symbol, number), compiled)
        for symbol in symbols if symbol.op.kind == "host" for number, region in enumerate(regions_of(symbol))
    }  # fmt: skip
