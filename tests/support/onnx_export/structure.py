"""Compares graphs up to names: the meaning of "import(export(g)) is g"."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from joinery.graph.data_sizes import needed
from joinery.graph.ops.control import captures_of, regions_of


def structure(graph: Any) -> tuple[str, ...]:
    """Return the symbols that outputs need, in the order in which a walk from the outputs finds them, and the outputs.

    Equal structures mean: the same ops with the same attributes, dtypes, shapes and operands, constants of the same bits, and
    the same inputs in order. Names (of graph, weights, outputs), numbers of symbols, source lines, the ledger of casts, unused
    symbols and the order of independent symbols do not count, nor do those of sizes that values decide; a weight is a constant,
    and equal constants are one. Numbers of norms count as float32, which is what ONNX stores, and the number that a pad adds by
    its value, whatever its Python type is.
    """
    lines = _lines(graph, {})
    decided = {str(extent) for each in _graphs(graph) for symbol in each.symbols for extent in symbol.attrs.get("extents", ())}
    decided |= {name for each in _graphs(graph) for name in each.own_dims}
    known = re.compile("|".join(rf"\b{name}\b" for name in sorted(decided, key=len, reverse=True)) or "(?!)")
    names: dict[str, str] = {}
    return tuple([known.sub(lambda found: names.setdefault(found[0], f"size {len(names)}"), line) for line in lines])


def _graphs(graph: Any) -> list[Any]:
    """A graph and all regions inside it."""
    inner = [each for symbol in graph.symbols for region in regions_of(symbol) for each in _graphs(region)]
    return [graph, *inner]


def _lines(graph: Any, captured: dict[int, str]) -> tuple[str, ...]:
    """captured: what inputs of a region stand for, by their id."""
    numbers: dict[int, str] = dict(captured)
    lines: list[str] = []
    constants: dict[str, str] = {}

    def visit(symbol: Any) -> None:
        stack = [(symbol, False)]
        while stack:
            current, ready = stack.pop()
            if current.id in numbers:
                continue
            if not ready:
                stack.append((current, True))
                stack.extend((operand, False) for operand in reversed(_own_first(current)))
                continue
            attrs = {
                name: _value(name, value)
                for name, value in current.attrs.items()
                if name not in ("name", "index", "regions", "captured") or (current.op.name, name) in _INDICES
            }
            op = "constant" if current.op.name == "weight" else current.op.name
            regions = [
                _lines(region, _captured(region, captures_of(current, number), numbers))
                for number, region in enumerate(regions_of(current))
            ]
            own = current.inputs[: len(current.inputs) - sum(current.attrs["captured"])] if regions else current.inputs
            operands = [numbers[operand.id] for operand in own]
            shape = [str(extent) for extent in current.shape]
            line = f"{op}[{', '.join(operands)}] {sorted(attrs.items())} {current.dtype} {shape} {regions}"
            if op == "constant" and line in constants:
                numbers[current.id] = constants[line]
                continue
            constants[line] = numbers[current.id] = str(len(lines))
            lines.append(line)

    for symbol in (*[each for each in graph.inputs if each.id not in captured], *graph.outputs):
        visit(symbol)
    wanted = needed(graph.symbols, graph.outputs)
    for symbol in graph.symbols:
        if symbol.id in wanted and "extents" in symbol.attrs:  # it decides a size, of which the name alone is used
            visit(symbol)
    return (*lines, f"[{', '.join(numbers[symbol.id] for symbol in graph.outputs)}]")


_INDICES = (("input", "index"), ("region_result", "index"), ("host_result", "index"))
"""Rows whose attribute `index` counts."""


def _own_first(symbol: Any) -> list[Any]:
    """The operands of a symbol, those that regions capture in the order in which the regions use them."""
    regions = regions_of(symbol)
    if not regions:
        return list(symbol.inputs)
    found = list(symbol.inputs[: len(symbol.inputs) - sum(symbol.attrs["captured"])])
    for number, region in enumerate(regions):
        stands_for = {inner: outer for inner, outer in _pairs(region, captures_of(symbol, number))}
        found += [stands_for[each] for each in _first_uses(region) if each in stands_for]
    return found


def _pairs(region: Any, captures: Any) -> list[tuple[int, Any]]:
    own = region.inputs[len(region.inputs) - len(captures) :]
    return [(inner.id, outer) for inner, outer in zip(own, captures, strict=True)]


def _captured(region: Any, captures: Any, numbers: dict[int, str]) -> dict[int, str]:
    return {inner: f"outer {numbers[outer.id]}" for inner, outer in _pairs(region, captures)}


def _first_uses(region: Any) -> list[int]:
    """The ids of inputs, in the order in which a walk from the outputs of a region finds them."""
    seen: dict[int, None] = {}

    def walk(symbol: Any) -> None:
        if symbol.id not in seen:
            for operand in _own_first(symbol):
                walk(operand)
            seen[symbol.id] = None

    for output in region.outputs:
        walk(output)
    wanted = needed(region.symbols, region.outputs)
    for symbol in region.symbols:
        if symbol.id in wanted and "extents" in symbol.attrs:
            walk(symbol)
    return list(seen)


def _value(name: str, value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.tobytes().hex()}"
    if isinstance(value, tuple):
        return str([str(entry) for entry in value])
    if isinstance(value, (bool, int, float)) and name == "value":
        return str(int(value)) if value == value and abs(value) != float("inf") and value == int(value) else str(value)
    return str(np.float32(value)) if name == "epsilon" else str(value)
