"""Finds axes that are resized: gathers at constant positions, and their sums with constant weights, which become Resize.

As in `windowed.py`, an axis is resized if making that again, for one of the ways in which ONNX places elements, gives the
symbols that the graph has.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from .....promotion.dataclass import dataclass
from ....functions.spatial.resizing import Axis, Options, ratio, resized, scaled, taps
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .windowed import consumers_of

_NEAREST = (
    ("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"), ("half_pixel", "round_prefer_ceil"),
    ("asymmetric", "round_prefer_floor"), ("align_corners", "round_prefer_floor"), ("half_pixel", "floor"),
    ("asymmetric", "ceil"),
)  # fmt: skip
_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
_MODES = {2: ("linear",), 3: ("cubic",), 4: ("cubic",)}
"""How many terms a sum has → in which modes it may be made."""
_MAX_TERMS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Resized:
    """A node that stands for several symbols.

    Attributes:
        image: what is resized.
        ways: the options that give these elements, the node's first.
        axes: which axes, in the order in which they are resized, of the image as the node takes it.
        sizes: how long they are afterwards.
        image_last: whether the image has channels last, and is turned before and after.
    """

    image: Symbol
    ways: tuple[Options, ...]
    axes: tuple[int, ...]
    sizes: tuple[int, ...]
    image_last: bool = False

    @property
    def options(self) -> Options:
        """The options of the node."""
        return self.ways[0]

    @property
    def scales(self) -> tuple[float, ...] | None:
        """A float32 factor for each axis of the image; None where float32 rounds a product to another size."""
        found = [1.0] * len(self.image.shape)
        for axis, count in zip(self.axes, self.sizes, strict=True):
            extent = self.image.shape[axis - int(self.image_last)]
            found[axis] = ratio(extent, count)
            if not isinstance(extent, int) or math.floor(scaled(extent, found[axis])) != count:
                return None
        return tuple(found)

    @property
    def lengths(self) -> tuple[int, ...] | None:
        """The size of each axis of the result, as the node has them; None where one has a name."""
        rank, shape = len(self.image.shape), self.image.shape
        if not all(isinstance(extent, int) for extent in shape):
            return None
        wide = [shape[0], shape[-1], *shape[1:-1]] if self.image_last else list(shape)
        for axis, count in zip(self.axes, self.sizes, strict=True):
            wide[axis] = count
        return tuple([int(extent) for extent in wide[:rank]])  # type: ignore[arg-type]

    @property
    def inputs(self) -> tuple[Symbol, ...]:
        """The symbols that the node reads."""
        return (self.image,)


def find_resized(graph: Graph, live: Sequence[Symbol]) -> dict[int, Resized]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    consumers = consumers_of(live)
    found: dict[int, Resized] = {}
    for symbol in live:
        weighed = symbol.op.name == "gather" and any(map(_weighs, consumers.get(symbol.id, ())))
        if symbol.op.name in ("gather", "add", "mul") and len(symbol.shape) >= 3 and not weighed:
            match = _along(graph, symbol)
            if match is not None:
                found[symbol.id] = match
    return _merged(graph, consumers, found)


def _weighs(symbol: Symbol) -> bool:
    """Return whether a symbol is a product with constants, as the terms of sums are."""
    return symbol.op.name == "mul" and symbol.inputs[1].op.name == "constant" and bool(symbol.inputs[1].shape)


def _along(graph: Graph, root: Symbol) -> Resized | None:
    """Return how one axis is resized."""
    terms = _terms(root)
    gather = None if terms is None else _gather(terms[0])
    if terms is None or gather is None or root.dtype.name != "float32":
        return None
    x, axis = gather.inputs[0], gather.attrs["axis"]
    size, count = x.shape[axis], root.shape[axis]
    if axis == 0 or len(x.shape) != len(root.shape) or not isinstance(size, int) or not isinstance(count, int) or size == 0:
        return None
    along = Axis(axis, size, count, ratio(size, count), float(count))
    positions = gather.inputs[1].attrs["value"]
    if size == count or (root.op.name == "gather" and count < 2):
        return None

    def is_made_by(options: Options) -> bool:
        columns = taps(options, along)[0].T
        if options.mode == "nearest":
            return np.array_equal(columns[0], positions)
        if not any(np.array_equal(column, positions) for column in columns):
            return False
        return found_among(graph, lambda _, value: resized(value, options, [along]), (x,), (root,)) is not None

    ways = tuple([options for options in _options(root, len(terms)) if is_made_by(options)])
    return Resized(x, ways, (axis,), (count,)) if ways else None


def _options(root: Symbol, terms: int) -> Iterator[Options]:
    if root.op.name == "gather":
        for coordinates, rounding in _NEAREST:
            yield Options("nearest", coordinates, rounding)
        return
    for mode in _MODES.get(terms, ()):
        for coordinates in _COORDINATES:
            for excludes in (False, True) if mode == "cubic" else (False,):
                yield Options(mode, coordinates, excludes=excludes)


def _terms(root: Symbol) -> list[Symbol] | None:
    """Return the terms of a sum, or a gather alone; None for what is neither."""
    terms: list[Symbol] = []
    while root.op.name == "add" and len(terms) < _MAX_TERMS:
        root, last = root.inputs
        terms.append(last)
    terms.append(root)
    if len(terms) > _MAX_TERMS or any(_gather(term) is None for term in terms):
        return None
    return terms


def _gather(term: Symbol) -> Symbol | None:
    """Return the gather at constant positions that a term weighs."""
    gather = term.inputs[0] if term.op.name == "mul" and term.inputs[1].op.name == "constant" else term
    if gather.op.name != "gather" or gather.inputs[1].op.name != "constant" or len(gather.inputs[1].shape) != 1:
        return None
    return gather


def _merged(graph: Graph, consumers: Mapping[int, list[Symbol]], found: Mapping[int, Resized]) -> dict[int, Resized]:
    """Return nodes for all axes that are resized one after the other in the same way, and with channels first."""
    outputs = {symbol.id for symbol in graph.outputs}
    result: dict[int, Resized] = {}
    inner: set[int] = set()
    for key, made in found.items():
        before = result.get(made.image.id)
        both = () if before is None else tuple([options for options in before.ways if options in made.ways])
        apart = before is not None and not set(before.axes) & set(made.axes) and made.image.id not in outputs
        if before is not None and both and apart and all(_reaches(each, key, consumers) for each in consumers[made.image.id]):
            inner.add(made.image.id)
            made = Resized(before.image, both, (*before.axes, *made.axes), (*before.sizes, *made.sizes))
        result[key] = made
    return {key: turned for key, made in result.items() if key not in inner and (turned := _turned(made)) is not None}


def _reaches(symbol: Symbol, key: int, consumers: Mapping[int, list[Symbol]]) -> bool:
    """Return whether all that reads a symbol is within the sum that ends in `key`."""
    while symbol.id != key:
        after = consumers.get(symbol.id, [])
        if len(after) != 1:
            return False
        (symbol,) = after
    return True


def _turned(made: Resized) -> Resized | None:
    """Return a node that runtimes have: one that interpolates axes of space turns images with channels last.

    onnxruntime interpolates the axes behind batch and channels, three at most, cubically those of (N, C, H, W) alone, and
    linearly those of (N, H, W, C). The result is None for
    other axes, and where no scale gives the sizes that are asked for.
    """
    rank = len(made.image.shape)
    if not all(isinstance(extent, int) for extent in made.image.shape) and made.scales is None:
        return None
    if (made.options.mode == "cubic" and rank != 4) or (made.options.mode == "linear" and rank > 5):
        return None
    linear_last = made.options.mode == "linear" and rank == 4 and set(made.axes) <= {1, 2}
    if made.options.mode == "nearest" or min(made.axes) >= 2 or linear_last:
        return made
    if max(made.axes) > rank - 2 or made.options.mode == "cubic":
        return None
    return Resized(made.image, made.ways, tuple([axis + 1 for axis in made.axes]), made.sizes, True)
