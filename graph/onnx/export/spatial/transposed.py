"""Finds transposed convolutions, which are convolutions forwards, one for each class of residues, interleaved.

As in `windowed.py`, one is found by making it again: how results are interleaved tells the strides, and the classes tell the
taps. Weights that were an array are put together again from the kernels of the classes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from .....promotion.arrays import Array
from .....promotion.dataclass import dataclass
from ....dims.dim import Extent
from ....functions.spatial.geometry import kernel_span
from ....functions.spatial.residues import Residues, convolved_backwards, residues_of, weights_of_matrices
from ....graph import Graph
from ....symbol import Symbol
from ..equality import found_among
from .windowed import Windowed, turned


@dataclass(frozen=True, slots=True, eq=False)
class _Class:
    """The results of one class of residues along each axis: how many residues, their windows, and the kernel."""

    residues: tuple[int, ...]
    taken: Symbol
    kernel: Symbol
    groups: int


_Classes: TypeAlias = Mapping[tuple[int, ...], _Class | None]
"""Classes by their number along each axis; None for residues that no tap of the kernel reaches."""


def convolution_backwards(
    graph: Graph, whole: Symbol, found: Mapping[int, Windowed], consumers: Mapping[int, Sequence[Symbol]]
) -> tuple[Symbol, Windowed] | None:
    """Return the transposed convolution whose results are `whole` before they are cut, with channels last, and its node.

    found: convolutions, by the id of the symbol whose value they compute.
    """
    rank, apart = len(whole.shape) - 2, whole.inputs[0]
    if rank < 1 or len(apart.shape) != 2 * rank + 2:
        return None
    if apart.op.name == "permute":
        if apart.attrs["axes"] != (0, *[axis for pair in range(rank) for axis in (pair + 1, pair + 1 + rank)], 2 * rank + 1):
            return None
        apart = apart.inputs[0]
    strides = tuple([size for size in apart.shape[1 + rank : -1] if isinstance(size, int)])
    classes = {numbers: _class(leaf, rank, found) for numbers, leaf in _leaves(apart, rank, ())}
    if len(strides) != rank or all(each is None for each in classes.values()):
        return None
    after = consumers.get(whole.id, ())
    is_cut = len(after) == 1 and after[0].op.name == "slice" and all(symbol.id != whole.id for symbol in graph.outputs)
    ways = [_ways(classes, axis, stride) for axis, stride in enumerate(strides)]
    for root in (after[0], whole) if is_cut else (whole,):
        for chosen in itertools.product(*ways):
            dilations, axes = [dilation for dilation, _ in chosen], [residues for _, residues in chosen]
            made = _remade(graph, root, whole, classes, axes, strides, dilations)
            if made is not None:
                return root, made
    return None


def _leaves(symbol: Symbol, rank: int, numbers: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Symbol]]:
    """Yield the results of each class, and its number along each axis, of which `numbers` has the first."""
    if len(numbers) == rank:
        yield numbers, symbol
        return
    is_joined = symbol.op.name == "concat" and symbol.attrs["axis"] == 1 + rank + len(numbers)
    for number, part in enumerate(symbol.inputs if is_joined else (symbol,)):
        yield from _leaves(part, rank, (*numbers, number))


def _class(leaf: Symbol, rank: int, found: Mapping[int, Windowed]) -> _Class | None:
    residues = tuple([int(size) for size in leaf.shape[1 + rank : -1] if isinstance(size, int)])
    while leaf.id not in found and leaf.op.name in ("reshape", "permute"):
        leaf = leaf.inputs[0]
    made = found.get(leaf.id) if len(residues) == rank else None
    if made is None or made.op != "Conv" or made.kernel is None or len(made.kernel.shape) != rank + 2:
        return None
    while leaf.op.name in ("matmul", "mul", "add", "multiply_add", "permute", "reshape", "slice", "cast"):
        leaf = leaf.inputs[0]
    return _Class(residues, leaf, made.kernel, made.attributes["group"]) if leaf.op.name == "windows" else None


def _ways(classes: _Classes, axis: int, stride: int) -> list[tuple[int, list[Residues]]]:
    """Return the dilations with which the residues of an axis are in classes as these, and the residues."""
    along: dict[int, tuple[int, int, int]] = {}
    for numbers, each in classes.items():
        if each is not None:
            taps, step = int(each.kernel.shape[axis]), each.taken.attrs["dilations"][axis]  # type: ignore[arg-type]
            along[numbers[axis]] = (each.residues[axis], taps, step)
    size = sum([residues * taps for residues, taps, _ in along.values()])
    most = max([step for _, taps, step in along.values() if taps > 1], default=2) * stride
    ways = []
    for dilation in range(1, most + 1 if size > 1 else 2):
        residues = residues_of(size, stride, dilation)
        of_taps = {number: (one.residues, one.taps, one.step) for number, one in enumerate(residues) if one.taps}
        if of_taps == along and len(residues) == len({numbers[axis] for numbers in classes}):
            ways.append((dilation, residues))
    return ways


def _remade(
    graph: Graph, root: Symbol, whole: Symbol, classes: _Classes, axes: Sequence[Sequence[Residues]], strides: Sequence[int],
    dilations: Sequence[int],
) -> Windowed | None:  # fmt: skip
    """Return the node if a transposed convolution with these residues is what the graph has."""
    numbers, first = next((numbers, each) for numbers, each in classes.items() if each is not None)
    starts: Sequence[Extent] = (0,) * len(strides)
    sizes: Sequence[Extent] = whole.shape[1:-1]
    if root is not whole:  # a size may be below 0, unlike that of a shape
        starts, stops = (root.attrs[name][1:-1] for name in ("starts", "stops"))
        sizes = [stop - start for start, stop in zip(starts, stops, strict=True)]
    reaches = [axis[number].reach for axis, number in zip(axes, numbers, strict=True)]
    kernel = [sum([one.residues * one.taps for one in axis]) for axis in axes]
    for x, offsets in _images(first.taken, len(strides)):
        begins = [
            (offset + reach) * stride + start
            for offset, reach, stride, start in zip(offsets, reaches, strides, starts, strict=True)
        ]
        if any(not isinstance(begin, int) or begin < 0 for begin in begins):
            continue
        ends, extra = [], []
        for extent, size, stride, span, begin in zip(
            x.shape[1:-1], sizes, strides, kernel_span(kernel, dilations), begins, strict=True
        ):
            left = (extent - 1) * stride + span - begin - size
            if not isinstance(left, int):
                break
            ends.append(max(left, 0))
            extra.append(max(-left, 0))
        else:
            if any(more >= stride for more, stride in zip(extra, strides, strict=True)):  # which onnxruntime refuses
                continue
            weights = _weights(graph, root, x, classes, axes, (begins, sizes, strides, dilations))
            if weights is not None:
                image, last = turned(x)
                given = {
                    "strides": tuple(strides), "dilations": tuple(dilations), "group": first.groups,
                    "pads": (*begins, *ends), "output_padding": tuple(extra),
                }  # fmt: skip
                return Windowed("ConvTranspose", image, None, given, last, True, weights=weights)
    return None


def _images(taken: Symbol, rank: int) -> Iterator[tuple[Symbol, list[int]]]:
    """Yield what windows may have been taken of, and where in it they begin: a tensor without what pads and cuts it first."""
    x = taken.inputs[0]
    if len(x.shape) == rank + 3 and x.op.name == "reshape":  # channels in groups
        x = x.inputs[0]
    offsets = [0] * rank
    found = [(x, offsets)]
    while x.op.name in ("slice", "pad") and len(x.shape) == rank + 2 and len(found) < 4:
        moved = x.attrs["starts" if x.op.name == "slice" else "low"][1:-1]
        known = [width for width in moved if isinstance(width, int)]
        if len(known) < rank:
            break
        sign = 1 if x.op.name == "slice" else -1
        offsets = [offset + sign * width for offset, width in zip(offsets, known, strict=True)]
        x = x.inputs[0]
        found.append((x, offsets))
    yield from reversed([(image, begins) for image, begins in found if len(image.shape) == rank + 2])


def _weights(
    graph: Graph, root: Symbol, x: Symbol, classes: _Classes, axes: Sequence[Sequence[Residues]],
    numbers: tuple[Sequence[Extent], Sequence[Extent], Sequence[int], Sequence[int]],
) -> Symbol | Array | None:  # fmt: skip
    """Return the weights (C, M / groups, …) with which the results are those of a graph.

    numbers: how many results are left out at the beginning of each axis, how many there are, strides and dilations.
    """
    full = {numbers: each for numbers, each in classes.items() if each is not None}
    groups = next(iter(full.values())).groups

    def make(scratch: Graph, image: Symbol, weights: Symbol | Array) -> Symbol:
        return convolved_backwards(image, weights, *numbers, groups)

    channels, filters = x.shape[-1], root.shape[-1]
    if not isinstance(channels, int) or not isinstance(filters, int):
        return None
    for position, each in full.items():
        taps = [axis[number].taps for axis, number in zip(axes, position, strict=True)]
        if each.groups != groups or each.kernel.shape != (*taps, channels // groups, math.prod(each.residues) * filters):
            return None
    if all(each.kernel.op.name == "constant" for each in full.values()):
        matrices = {position: each.kernel.attrs["value"] for position, each in full.items()}
        array = weights_of_matrices(matrices, axes, channels, groups)
        is_made = found_among(graph, lambda scratch, image: make(scratch, image, array), (x,), (root,)) is not None
        return array if is_made else None
    symbol = next(iter(full.values())).kernel
    kernel = tuple([sum([one.residues * one.taps for one in axis]) for axis in axes])
    while symbol.op.name in ("reshape", "permute", "concat", "slice", "flip"):
        symbol = symbol.inputs[0]
        is_like = len(symbol.shape) == len(x.shape) and symbol.shape[0] == x.shape[-1] and symbol.shape[2:] == kernel
        if is_like and found_among(graph, make, (x, symbol), (root,)) is not None:
            return symbol
    return None
