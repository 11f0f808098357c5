"""Finds axes that are resized from or to sizes that are known at a run: their taps are computed, and made again to compare."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from .....promotion.dataclass import dataclass
from .....promotion.dtype import float32
from ....construction.scaled_sizes import scaled_size
from ....dims.dim import Dim
from ....functions.spatial.resizing import ROUNDINGS, Options, resized
from ....functions.spatial.resizing_at_run import SymbolicAxis
from ....graph import Graph
from ....symbol import Symbol
from ..body import Constant
from ..composed.composed import Composed, Size
from ..equality import found_among

_COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
_COEFFICIENTS = (-0.75, -0.5)
_TERMS = {1: "nearest", 2: "linear", 4: "cubic"}
"""How many gathers there are → the mode."""
_MAX_STEPS = 80


@dataclass(frozen=True, slots=True, eq=False)
class _Along:
    """One axis that is resized, and the options by which it is."""

    image: Symbol
    along: SymbolicAxis
    options: Options


def find_resized_at_run(graph: Graph, live: Sequence[Symbol], consumers: Mapping[int, Sequence[Symbol]]) -> dict[int, Composed]:
    """Return the nodes that stand for several symbols, by the id of the symbol whose value they compute."""
    single: dict[int, _Along] = {}
    for symbol in live:
        if symbol.op.name in ("gather", "add") and symbol.dtype is float32 and len(symbol.shape) >= 3:
            made = _along(graph, symbol)
            if made is not None:
                single[symbol.id] = made
    outputs = {symbol.id for symbol in graph.outputs}
    found: dict[int, Composed] = {}
    inner: set[int] = set()
    for symbol in reversed(live):
        if symbol.id not in single or symbol.id in inner:
            continue
        chain = [single[symbol.id]]
        while chain[-1].image.id in single and chain[-1].image.id not in outputs:
            before = single[chain[-1].image.id]
            taken = {each.along.axis for each in chain}
            same = before.options == chain[0].options and (before.along.scale is None) == (chain[0].along.scale is None)
            gathers = [each for each in consumers.get(chain[-1].image.id, ()) if each.op.name == "gather"]
            terms = next(count for count, mode in _TERMS.items() if mode == before.options.mode)
            if not same or before.along.axis in taken or len(gathers) != terms or len(consumers[chain[-1].image.id]) != terms:
                break
            inner.add(chain[-1].image.id)
            chain.append(before)
        node = _node(symbol, chain[::-1])
        if node is not None:
            found[symbol.id] = node
    return found


def _along(graph: Graph, root: Symbol) -> _Along | None:
    gathers = _gathers(root)
    if gathers is None or len(gathers) not in _TERMS:
        return None
    x, axis = gathers[0].inputs[0], int(gathers[0].attrs["axis"])
    size, count = x.shape[axis], root.shape[axis]
    if len(x.shape) != len(root.shape) or not (isinstance(size, Dim) or isinstance(count, Dim)) or size == count:
        return None
    for scale in _scales(gathers[0]):
        if scale is not None and scaled_size(graph.rewriting(), size, scale) != count:
            continue
        along = SymbolicAxis(axis, size, count, scale)
        for options in _options(_TERMS[len(gathers)]):
            if scale is not None and scale != int(scale) and options.coordinates == "align_corners":
                continue  # onnxruntime computes with the rounded size

            def make(_: Graph, value: Symbol, given: Options = options, along: SymbolicAxis = along) -> Symbol:
                return resized(value, given, [along])

            if found_among(graph, make, (x,), (root,)) is not None:
                return _Along(x, along, options)
    return None


def _gathers(root: Symbol) -> list[Symbol] | None:
    """Return the gathers at computed positions that a symbol is a weighted sum of, or is."""
    terms: list[Symbol] = []
    each = root
    while each.op.name == "add" and len(terms) < 4:
        each, last = each.inputs
        terms.append(last)
    terms.append(each)
    if len(terms) > 1:
        if any([term.op.name != "mul" for term in terms]):
            return None
        terms = [term.inputs[0] for term in terms]
    for term in terms:
        if term.op.name != "gather" or term.inputs[1].op.name != "cast" or term.inputs[1].inputs[0].op.name != "maximum":
            return None
    return terms


def _scales(gather: Symbol) -> Iterator[float | None]:
    """Yield None for the quotient of the sizes, and numbers that something is divided by."""
    yield None
    pending, seen = [gather.inputs[1]], {gather.inputs[1].id}
    for each in pending:
        if each.op.name == "div" and each.inputs[1].op.name == "constant" and not each.inputs[1].shape:
            number = float(each.inputs[1].attrs["value"])
            if number > 0 and math.isfinite(number) and number == float(np.float32(number)):
                yield number
        for operand in each.inputs:
            if operand.id not in seen and len(seen) < _MAX_STEPS:
                seen.add(operand.id)
                pending.append(operand)


def _options(mode: str) -> Iterator[Options]:
    if mode == "nearest":
        for coordinates, nearest in itertools.product(_COORDINATES, ROUNDINGS):
            yield Options(mode, coordinates, nearest)
        return
    ways = itertools.product(_COORDINATES, (False, True), _COEFFICIENTS) if mode == "cubic" else None
    for coordinates, excludes, coefficient in ways or [(each, False, -0.75) for each in _COORDINATES]:
        yield replace(Options(mode, coordinates), excludes=excludes, coefficient=coefficient)


def _node(root: Symbol, chain: Sequence[_Along]) -> Composed | None:
    """Return the node of axes that are resized one after the other, if onnxruntime has it for these axes."""
    image, options, axes = chain[0].image, chain[0].options, {each.along.axis for each in chain}
    rank = len(root.shape)
    is_last = rank == 4 and axes <= {1, 2} and options.mode == "linear"
    if options.mode != "nearest" and not is_last and min(axes) < 2:
        return None
    if rank > 5 or (options.mode == "cubic" and rank != 4) or 0 in axes:
        return None
    attributes: dict[str, object] = {"mode": options.mode, "coordinate_transformation_mode": options.coordinates}
    if options.mode == "nearest":
        attributes["nearest_mode"] = options.nearest
    if options.mode == "cubic":
        attributes.update(cubic_coeff_a=options.coefficient, exclude_outside=int(options.excludes))
    if chain[0].along.scale is None:
        return Composed("Resize", (image, None, None, Size(root.shape)), ((root,),), attributes, {})
    scales = np.ones(rank, np.float32)
    for each in chain:
        scales[each.along.axis] = each.along.scale
    return Composed("Resize", (image, None, Constant(scales, float32)), ((root,),), attributes, {})
