"""Writes the text form of a graph, and computes the key made of it.

    graph "mlp" semantics "max" policy "lattice"
      %0 = input {index = 0, name = "x"} : float32 [batch, 784]
      %1 = constant {value = hex"0000803f"} : float32 []  # 1.0
      %2 = weight {name = "w", value = sha256"…"} : float32 [784, 10]
      %3 = matmul(%0, %2) {accumulate = float32, precision = "ieee"} : float32 [batch, 10]
      check [batch, 2*seq] "…"
      output %3 "y"

One statement per line; `#` starts a comment. Casts that promotion inserted end in `implicit "op"`, and with locations
every symbol ends in `at "file" line "function"`. The regions of a loop or branch stand before it, each between `region "name"`
and `end`, with symbols of their own. Small arrays are written as bytes, larger ones by digest and kept in
a dict beside the text.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType
from ...promotion.errors import InternalError
from ...promotion.presets import PRESETS, rules
from ..constants import array_digest
from ..construction.misuse import checked_graph
from ..data_sizes import needed
from ..dims.dim import Dim, Extent
from ..location import Location, NodeLocation, file_name
from ..ops.control import regions_of
from ..protocols import GraphLike, SymbolLike

INLINE_BYTES = 64
"""Arrays up to this many bytes are written into the text."""

ArrayText = Callable[[Array], str]
Shown = Callable[[Location], "Location | None"]
"""What is written of a location, None for nothing."""


def value_text(value: object, array_text: ArrayText) -> str:
    """Return the text of an attribute value.

    It is Python's own notation where that is exact, so that no bit is lost when it is read back.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f"float({value!r})"
    if isinstance(value, complex):
        return f"complex({value_text(value.real, array_text)}, {value_text(value.imag, array_text)})"
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Dim):
        return f"<{value}>"
    if isinstance(value, tuple):
        return f"({', '.join(value_text(entry, array_text) for entry in value)})"
    if isinstance(value, np.ndarray):
        return array_text(value)
    raise InternalError(f"an attribute of type {type(value).__name__} has no text form")


def attributes_text(attrs: Mapping[str, object], array_text: ArrayText) -> str:
    """Return the text of attributes, without regions, which have lines of their own."""
    plain = sorted(attrs.keys() - {"regions"})
    if not plain:
        return ""
    return " {" + ", ".join(f"{name} = {value_text(attrs[name], array_text)}" for name in plain) + "}"


def shape_list(shape: tuple[Extent, ...]) -> str:
    return f"[{', '.join(str(extent) for extent in shape)}]"


def to_text(graph: GraphLike[SymbolLike], locations: bool = False) -> tuple[str, dict[str, Array]]:
    """Return the text of a graph, and the arrays it refers to by the SHA-256 of their bytes.

    The text is deterministic; `from_text(*to_text(graph))` is a graph of equal text. With `locations` every
    symbol has its line in the user's code.
    """
    return _text(graph, (lambda line: line) if locations else None)


def stored_text(graph: GraphLike[SymbolLike]) -> tuple[str, dict[str, Array]]:
    """Return what `to_text` does, as files keep it: with the nodes of models that symbols come from, and no lines of programs.

    A file is given away, and the same program makes the same one, wherever it lies: directories are left out.
    """

    def node(line: Location) -> Location | None:
        return Location(file_name(line.file), line.line, line.function) if isinstance(line, NodeLocation) else None

    return _text(graph, node)


def _text(graph: GraphLike[SymbolLike], shown: Shown | None) -> tuple[str, dict[str, Array]]:
    checked_graph("to_text", graph)
    arrays: dict[str, Array] = {}

    def array_text(array: Array) -> str:
        if array.nbytes <= INLINE_BYTES:
            return f'hex"{array.tobytes().hex()}"'
        digest = str(array_digest(array).hexdigest())
        arrays[digest] = array
        return f'sha256"{digest}"'

    header = (json.dumps(text) for text in (graph.name, graph.rules.name, graph.policy))
    lines = ["graph {} semantics {} policy {}".format(*header)]
    if graph.rules.name not in PRESETS or rules(graph.rules.name) != graph.rules:
        lines[0] += f" rules {json.dumps(json.dumps(graph.rules.definition.to_dict()))}"
    return "\n".join([*lines, *_body(graph, array_text, shown, "  ")]) + "\n", arrays


def _body(graph: GraphLike[SymbolLike], array_text: ArrayText, shown: Shown | None, indent: str) -> list[str]:
    """Return the lines of a graph without its header; those of regions stand before the symbol that has them."""
    lines: list[str] = []
    implicit = {entry.symbol.id: entry.op for entry in graph.casts() if entry.symbol.graph is graph}
    for symbol in graph.symbols:
        for region in regions_of(symbol):
            inner = _body(region, array_text, shown, f"{indent}  ")
            lines += [f"{indent}region {json.dumps(region.name)}", *inner, f"{indent}end"]
        line = f"{indent}{_statement(symbol, array_text)}"
        if symbol.weak is not None:
            line += f" weak {symbol.weak}"
        if symbol.id in implicit:
            line += f" implicit {json.dumps(implicit[symbol.id])}"
        location = None if shown is None else shown(symbol.location)
        if location is not None:
            file, number, function = location
            line += f" at {json.dumps(file)} {number} {json.dumps(function)}"
        if symbol.op.name == "constant" and symbol.attrs["value"].size == 1:
            line += f"  # {symbol.attrs['value'].reshape(())[()]}"
        lines.append(line)
    for check in graph.checks:
        lines.append(f"{indent}check {shape_list((check.lhs, check.rhs))} {json.dumps(check.message)}")
    for name, symbol in zip(graph.output_names, graph.outputs, strict=True):
        lines.append(f"{indent}output %{symbol.id} {json.dumps(name)}")
    return lines


def _statement(symbol: SymbolLike, array_text: ArrayText) -> str:
    operands = f"({', '.join(f'%{operand.id}' for operand in symbol.inputs)})" if symbol.inputs else ""
    attributes = attributes_text(symbol.attrs, array_text)
    return (
        f"%{symbol.id} = {symbol.op.name}{operands}{attributes} : {symbol.dtype} {shape_list(symbol.shape)}"
    )


# ------------------------------------------------------------------------------------------------------ canonical key


def canonical_key(graph: GraphLike[SymbolLike]) -> str:
    """Return the SHA-256 of what a graph computes, whatever its parts are called.

    Live symbols are renumbered in order, dims in order of appearance in the inputs, names and locations are
    left out, arrays enter by their bytes.
    """
    renamed: dict[str, Extent] = {
        name: Dim(f"d{position}") for position, name in enumerate(_dims_in_order(graph))
    }
    digest = hashlib.sha256(b"joinery graph 1\n")

    def array_text(array: Array) -> str:
        return str(array_digest(array).hexdigest())

    def rename(value: object) -> Any:
        if isinstance(value, Dim):
            return value.substitute(renamed)
        return tuple([rename(entry) for entry in value]) if isinstance(value, tuple) else value

    def add(graph: GraphLike[SymbolLike]) -> None:
        live = needed(graph.symbols, (*graph.outputs, *graph.inputs))
        numbers: dict[int, int] = {}
        ordered = [*graph.inputs, *[symbol for symbol in graph.symbols if symbol.op.name != "input"]]
        for symbol in ordered:
            if symbol.id not in live:
                continue
            for region in regions_of(symbol):
                digest.update(b"region\n")
                add(region)
            numbers[symbol.id] = len(numbers)
            operands = ",".join(str(numbers[operand.id]) for operand in symbol.inputs)
            attrs = {name: rename(value) for name, value in symbol.attrs.items() if name not in ("name", "regions")}
            op = "constant" if symbol.op.name == "weight" else symbol.op.name
            attributes = attributes_text(attrs, array_text)
            digest.update(f"{op}({operands}){attributes}:{symbol.dtype}{shape_list(rename(symbol.shape))}\n".encode())
        for check in graph.checks:
            digest.update(f"check {shape_list((rename(check.lhs), rename(check.rhs)))}\n".encode())
        digest.update(f"outputs {[numbers[symbol.id] for symbol in graph.outputs]}\n".encode())

    add(graph)
    return digest.hexdigest()


def _dims_in_order(graph: GraphLike[SymbolLike]) -> tuple[str, ...]:
    """Return named dims by first appearance: those that are an input axis alone, then those in expressions.

    Within one expression they are in order of their names.
    """
    names: dict[str, None] = {}
    for plain in (True, False):
        for symbol in graph.inputs:
            for extent in symbol.shape:
                if isinstance(extent, Dim) and (extent.name is not None) == plain:
                    names.update(dict.fromkeys(sorted(extent.symbols())))
    return tuple(names)
