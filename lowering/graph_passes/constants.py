"""Computes numbers of constant codes, and parts of constants, while a graph is compiled, so that no run does.

Quantised models hold their weights as codes and scales, and graphs keep them so, because they are written and explained so.
What `dequantize` makes of constants is a constant, and so is its permutation, as a kernel of a convolution. Bodies of loops and
branches capture codes: they capture the numbers instead.

Models hold the weights of several products as one array, too: of queries, keys and values, or of both directions of an LSTM. A
slice of a constant is a constant, which is then stored as its product reads it (`weight_packing.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...graph.graph import Graph
from ...graph.ops.control import captures_of, regions_of
from ...graph.reference.evaluate import evaluate
from ...graph.region import Region
from ...graph.symbol import Symbol

MAX_FOLDED = 1 << 28
"""Bytes of one array up to which it is computed; larger ones stay what they are, at 4 to 8 times fewer bytes."""

_ARRAYS = frozenset(("constant", "weight"))
_VIEWS = frozenset(("slice", "reshape", "permute", "contiguous"))
_Arrays = Mapping[int, Symbol]
"""Symbols of a graph or region that are arrays, by their id, as symbols of the outermost graph."""
_Parts = Mapping[int, tuple[Symbol, ...]]
"""Views of arrays that become arrays, by their id: the views one after the other, from an array to the symbol itself."""
_NOTHING: _Parts = {}


def fold_constants(graph: Graph) -> Graph:
    """Return a finished graph in which what constant codes stand for, and slices of constants, are constants; the graph itself
    where there are none.

    In regions the numbers are captured, and codes that nobody reads any more are not.
    """
    while (parts := _parts(graph)) or _has_codes(graph, {}):  # views of numbers of codes are views of constants then
        target = graph.rewriting()
        _Fold(target).copy(graph, target, {}, {}, parts)
        graph = target
    return graph


def _arrays_of(graph: Graph, captured: _Arrays) -> dict[int, Symbol]:
    """Return the arrays of a graph. captured: those that its inputs stand for."""
    return {**captured, **{symbol.id: symbol for symbol in graph.symbols if symbol.op.name in _ARRAYS}}


def _parts(graph: Graph) -> _Parts:
    """Return the symbols that become constants because they are views of these: slices of what only slices read, if they are no
    more than it, and what would be copied: for regions that capture it, or by `contiguous`."""
    arrays = _arrays_of(graph, {})
    views: dict[int, tuple[Symbol, ...]] = {}
    slices: dict[int, list[Symbol]] = {}
    copied: set[int] = set()
    whole = {symbol.id for symbol in graph.outputs}
    for symbol in graph.symbols:
        number = symbol.inputs[0].id if symbol.inputs else -1
        if symbol.op.name in _VIEWS and (number in arrays or number in views) and isinstance(symbol.nbytes, int):
            views[symbol.id] = (*views.get(number, ()), symbol)
        if symbol.op.name == "slice" and symbol.id in views:
            slices.setdefault(number, []).append(symbol)
        else:
            whole.update([operand.id for operand in symbol.inputs])
        for region in range(len(regions_of(symbol))):
            copied.update([each.id for each in captures_of(symbol, region)])
        if symbol.op.name == "contiguous":
            copied.add(symbol.id)
    found = {number for number in copied if number in views and _bytes(views[number][-1]) <= MAX_FOLDED}
    for number, parts in slices.items():
        if number in arrays and number not in whole:
            available = _bytes(arrays[number])
            if sum([_bytes(part) for part in parts]) <= available <= MAX_FOLDED:
                found.update([part.id for part in parts])
    return {number: views[number] for number in found}


def _bytes(symbol: Symbol) -> int:
    """Return the bytes of what has static sizes."""
    assert isinstance(symbol.nbytes, int)
    return symbol.nbytes


def _captured(symbol: Symbol, number: int, arrays: _Arrays) -> dict[int, Symbol]:
    """Return the inputs of a region that stand for arrays around it."""
    outer = captures_of(symbol, number)
    region: Graph = regions_of(symbol)[number]
    inner = region.inputs[len(region.inputs) - len(outer) :]
    return {one.id: arrays[other.id] for one, other in zip(inner, outer, strict=True) if other.id in arrays}


def _has_codes(graph: Graph, captured: _Arrays) -> bool:
    """Return whether a graph or a region in it makes numbers of constant codes."""
    arrays = _arrays_of(graph, captured)
    for symbol in graph.symbols:
        if _is_made(symbol, arrays):
            return True
        for number, region in enumerate(regions_of(symbol)):
            if _has_codes(region, _captured(symbol, number, arrays)):
                return True
    return False


def _is_made(symbol: Symbol, arrays: _Arrays, parts: _Parts = _NOTHING) -> bool:
    """Return whether a symbol is the numbers of constant codes, and not too large, or one of some parts of constants."""
    if symbol.id in parts:
        return True
    if symbol.op.name != "dequantize" or not all([operand.id in arrays for operand in symbol.inputs]):
        return False
    return isinstance(symbol.nbytes, int) and symbol.nbytes <= MAX_FOLDED


def _read(graph: Graph, arrays: _Arrays, parts: _Parts = _NOTHING) -> set[int]:
    """Return the ids of symbols that are read when codes are numbers."""
    found = {symbol.id for symbol in graph.outputs}
    for symbol in reversed(graph.symbols):
        if symbol.id not in found and symbol.op.kind != "control":
            continue
        if _is_made(symbol, arrays, parts) or (symbol.op.name == "permute" and _is_made(symbol.inputs[0], arrays, parts)):
            continue
        own = len(symbol.inputs) - sum(symbol.attrs["captured"]) if regions_of(symbol) else len(symbol.inputs)
        found.update([operand.id for operand in symbol.inputs[:own]])
        for number, region in enumerate(regions_of(symbol)):
            inner = _read(region, _arrays_of(region, _captured(symbol, number, arrays)))
            outer = captures_of(symbol, number)
            pairs = zip(region.inputs[len(region.inputs) - len(outer) :], outer, strict=True)
            found.update([other.id for one, other in pairs if one.id in inner])
    return found


class _Fold:
    """Copies a graph into another one, with the numbers of codes as constants, each computed once."""

    def __init__(self, target: Graph) -> None:
        self._target = target
        self._computed: dict[tuple[object, ...], Symbol] = {}

    def copy(
        self, graph: Graph, target: Graph, captured: _Arrays, new: dict[int, Symbol], parts: _Parts = _NOTHING
    ) -> None:
        """Copy a graph or region, and end the copy.

        captured: the arrays that inputs of a region stand for.  new: the symbols around it that these become, by their id.
        parts: views of arrays that become arrays.
        """
        arrays = _arrays_of(graph, captured)
        permuted = {
            symbol.id
            for symbol in graph.symbols
            if symbol.op.name == "permute" and _is_made(symbol.inputs[0], arrays, parts)
        }
        read = _read(graph, arrays, parts)
        for symbol in graph.symbols:
            is_kept = symbol.op.kind == "control" or (symbol.op.name == "input" and target is self._target)
            if symbol.id in new or (symbol.id not in read and not is_kept):
                continue
            with target.located(symbol.location):
                if symbol.id in permuted or _is_made(symbol, arrays, parts):
                    new[symbol.id] = target.as_symbol(self._constant(symbol, arrays, parts))
                elif regions_of(symbol):
                    new[symbol.id] = self._control(target, symbol, arrays, new)
                else:
                    new[symbol.id] = target.adopt(symbol, [target.as_symbol(new[each.id]) for each in symbol.inputs])
        target.output(*[target.as_symbol(new[symbol.id]) for symbol in graph.outputs], names=graph.output_names)

    def _constant(self, symbol: Symbol, arrays: _Arrays, parts: _Parts) -> Symbol:
        """Return what is computed of arrays as a constant of the outermost graph."""
        if symbol.id in parts:
            steps = parts[symbol.id]
        else:
            steps = (symbol.inputs[0], symbol) if symbol.op.name == "permute" else (symbol,)
        read = [arrays[operand.id] for operand in steps[0].inputs]
        key = (*[each.id for each in read], *[(each.op.name, tuple(sorted(each.attrs.items(), key=str))) for each in steps])
        if key not in self._computed:
            scratch = self._target.rewriting()
            scratch.standing = ()  # checks are of the inputs, which this graph has not
            found = scratch.adopt(steps[0], [scratch.adopt(each, ()) for each in read])
            for each in steps[1:]:
                found = scratch.adopt(each, [found])
            scratch.output(found)
            with self._target.located(symbol.location):
                self._computed[key] = self._target.constant(np.asarray(evaluate(scratch), order="C"), symbol.dtype)
        return self._computed[key]

    def _control(self, target: Graph, symbol: Symbol, arrays: _Arrays, new: Mapping[int, Symbol]) -> Symbol:
        """Copy a loop or branch, whose regions capture what they read."""
        regions: list[Region] = []
        for number, region in enumerate(regions_of(symbol)):
            copy = Region(target, "")
            copy.name, copy.journal.busy = region.name, True
            outer = captures_of(symbol, number)
            own = region.inputs[: len(region.inputs) - len(outer)]
            inner = region.inputs[len(own) :]
            known = {one.id: copy.adopt(one, ()) for one in own}
            known.update({one.id: new[other.id] for one, other in zip(inner, outer, strict=True) if other.id in new})
            with copy.building():
                self.copy(region, copy, _captured(symbol, number, arrays), known)
            regions.append(copy)
        counts = tuple([len(region.captured) for region in regions])
        first = len(symbol.inputs) - sum(symbol.attrs["captured"])
        operands = [target.as_symbol(new[each.id]) for each in symbol.inputs[:first]]
        operands += [each for region in regions for each in region.captured]
        return target.adopt(symbol, operands, attrs={**symbol.attrs, "captured": counts, "regions": tuple(regions)})
