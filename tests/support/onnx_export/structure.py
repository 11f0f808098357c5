"""Compares graphs up to names: the meaning of "import(export(g)) is g"."""

from __future__ import annotations

from typing import Any

import numpy as np


def structure(graph: Any) -> tuple[str, ...]:
    """Return the symbols that outputs need, in the order in which a walk from the outputs finds them, and the outputs.

    Equal structures mean: the same ops with the same attributes, dtypes, shapes and operands, constants of the same bits, and
    the same inputs in order. Names (of graph, weights, outputs), numbers of symbols, source lines, the ledger of casts, unused
    symbols and the order of independent symbols do not count; a weight is a constant. Numbers of norms count as float32, which
    is what ONNX stores, and the number that a pad adds by its value, whatever its Python type is.
    """
    numbers: dict[int, int] = {}
    lines: list[str] = []

    def visit(symbol: Any) -> None:
        stack = [(symbol, False)]
        while stack:
            current, ready = stack.pop()
            if current.id in numbers:
                continue
            if not ready:
                stack.append((current, True))
                stack.extend((operand, False) for operand in reversed(current.inputs))
                continue
            attrs = {
                name: _value(name, value)
                for name, value in current.attrs.items()
                if name not in ("name", "index") or current.op.name == "input"
            }
            op = "constant" if current.op.name == "weight" else current.op.name
            operands = [numbers[operand.id] for operand in current.inputs]
            numbers[current.id] = len(lines)
            lines.append(f"{op}{operands} {sorted(attrs.items())} {current.dtype} {[str(extent) for extent in current.shape]}")

    for symbol in (*graph.inputs, *graph.outputs):
        visit(symbol)
    return (*lines, str([numbers[symbol.id] for symbol in graph.outputs]))


def _value(name: str, value: object) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.shape} {value.tobytes().hex()}"
    if isinstance(value, tuple):
        return str([str(entry) for entry in value])
    if isinstance(value, (bool, int, float)) and name == "value":
        return str(int(value)) if value == value and abs(value) != float("inf") and value == int(value) else str(value)
    return str(np.float32(value)) if name == "epsilon" else str(value)
