"""Splits complex128 values into pairs of uint64: no register holds 16 bytes, and they are only moved, or taken apart.

A tensor of shape s becomes one of shape (*s, 2) over the same memory. Only operations that move values take complex128, and
each of them means the same with one more axis at the end. The types of inputs, outputs and constants stay those of the
original graph.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...graph.constants import scalar_array
from ...graph.graph import Graph
from ...graph.ops.attributes import Attributes, fixed
from ...graph.ops.complex.fourier import cut_from
from ...graph.ops.complex.parts import is_wide
from ...graph.symbol import Symbol
from ...graph.types import Shape
from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError

_WIDE = DType("complex128")
_HALF = DType("uint64")


def split_complex128(graph: Graph) -> tuple[Graph, Mapping[int, Array]]:
    """Returns the graph with every complex128 symbol as pairs of uint64, and the original arrays of its constants by symbol id.

    `graph` is expanded and not changed; without complex128 it is returned itself.
    """
    if not any(symbol.dtype is _WIDE for symbol in graph.symbols):
        return graph, {}
    target = graph.rewriting()
    new: dict[int, Symbol] = {}
    arrays: dict[int, Array] = {}
    for symbol in graph.symbols:
        operands = [new[operand.id] for operand in symbol.inputs]
        with target.located(symbol.location):
            if is_wide(symbol):
                made = _part(target, symbol, operands)
            elif symbol.dtype is not _WIDE:
                made = target.adopt(symbol, operands)
            elif symbol.op.kind == "source":
                made = _source(target, symbol)
                if "value" in symbol.attrs:
                    arrays[made.id] = symbol.attrs["value"]
            else:
                made = _moved(target, symbol, operands)
        new[symbol.id] = made
    target.output(*[new[symbol.id] for symbol in graph.outputs], names=graph.output_names)
    return target, arrays


def _source(target: Graph, symbol: Symbol) -> Symbol:
    attrs = symbol.attrs.copy()
    if "value" in attrs:
        attrs["value"] = _as_pairs(attrs["value"])
    shape = (*symbol.shape, 2)
    return target.restore(symbol.op, (), fixed(attrs), _HALF, shape, symbol.location)


def _as_pairs(array: Array) -> Array:
    pairs = np.ascontiguousarray(array).view(np.uint64).reshape(*array.shape, 2)
    pairs.flags.writeable = False
    return pairs


def _part(target: Graph, symbol: Symbol, operands: list[Symbol]) -> Symbol:
    """Returns one of the parts of complex numbers, or the numbers of both."""
    shape = symbol.shape
    if symbol.op.name == "complex":
        whole = [target.apply("broadcast_to", (each,), {"shape": shape}) if each.shape != shape else each for each in operands]
        pairs = cut_from(*whole)
        if pairs is not None:
            halves = target.apply("bitcast", (pairs,), {"dtype": _HALF}, _HALF)
            return target.apply("reshape", (halves,), {"shape": (*shape, 2)})
        bits = [target.apply("bitcast", (each,), {"dtype": _HALF}, _HALF) for each in whole]
        return target.apply("concat", [_with_axis(each) for each in bits], {"axis": len(shape)})
    if symbol.op.name == "complex_parts":
        halves = target.apply("reshape", operands, {"shape": shape})
        return target.apply("bitcast", (halves,), {"dtype": symbol.dtype}, symbol.dtype)
    at = int(symbol.op.name == "imag")
    attrs: Attributes = {
        "starts": (*[0] * len(shape), at), "stops": (*shape, at + 1), "steps": (1,) * (len(shape) + 1),
    }  # fmt: skip
    half = target.apply("reshape", (target.apply("slice", operands, attrs),), {"shape": shape})
    return target.apply("bitcast", (half,), {"dtype": symbol.dtype}, symbol.dtype)


def _moved(target: Graph, symbol: Symbol, operands: list[Symbol]) -> Symbol:
    name, attrs = symbol.op.name, symbol.attrs.copy()
    rank = len(symbol.inputs[0].shape)
    match name:
        case "reshape" | "broadcast_to":
            attrs["shape"] = (*attrs["shape"], 2)
        case "permute":
            attrs["axes"] = (*attrs["axes"], rank)
        case "slice":
            attrs |= {"starts": (*attrs["starts"], 0), "stops": (*attrs["stops"], 2), "steps": (*attrs["steps"], 1)}
        case "pad":
            fill = _as_pairs(scalar_array(attrs["value"], _WIDE))
            if attrs["mode"] == "constant" and fill[0] != fill[1]:
                return _padded(target, operands[0], attrs["low"], attrs["high"], fill)
            attrs |= {"low": (*attrs["low"], 0), "high": (*attrs["high"], 0), "value": int(fill[0])}
        case "take_along_axis":
            operands = [operands[0], _with_axis(operands[1])]
        case "scatter" if attrs["reduction"] == "none":
            both = target.apply("broadcast_to", (_with_axis(operands[1]),), {"shape": operands[2].shape})
            operands = [operands[0], both, operands[2]]
        case "where":
            operands = [_with_axis(operands[0]), *operands[1:]]
        case "windows":
            taken = target.apply(symbol.op, operands, attrs)
            order = [axis for axis in range(len(taken.shape)) if axis != rank]
            return target.apply("permute", (taken,), {"axes": (*order, rank)})
        case "flip" | "concat" | "gather":
            pass
        case _:
            raise UnsupportedError(f"{name} of complex128 values")
    return target.apply(symbol.op, operands, attrs)


def _with_axis(x: Symbol) -> Symbol:
    return x.graph.apply("reshape", (x,), {"shape": (*x.shape, 1)})


def _padded(target: Graph, x: Symbol, low: Shape, high: Shape, fill: Array) -> Symbol:
    """Pads `x` with a value whose two halves differ, by concatenation along each axis."""
    parts = [target.apply("reshape", (target.constant(half),), {"shape": (1,)}) for half in fill]
    value = target.apply("concat", parts, {"axis": 0})
    for axis, widths in enumerate(zip(low, high, strict=True)):
        before, after = [
            target.apply("broadcast_to", (value,), {"shape": (*x.shape[:axis], width, *x.shape[axis + 1 :])})
            for width in widths
        ]
        x = target.apply("concat", (before, x, after), {"axis": axis})
    return x
