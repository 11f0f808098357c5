"""Selects among codes instead of among the numbers that they stand for.

Quantised models pool, concatenate and move numbers between codes and codes: quantize(max(dequantize(x), …)), with one scale and
zero point. Quantising never decreases, so the code of the larger of two numbers is the larger of both codes, and the code of
what a code stands for is itself: this is tried for all codes. So the same codes are selected, in vectors of bytes.

    x ─ dequantize ─ pad -∞ ─ slices ─ maximum ─ quantize        ⇒        x ─ pad -128 ─ slices ─ maximum
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from ...graph.graph import Graph
from ...graph.ops.attributes import Attributes
from ...graph.ops.control import has_control
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, float32, int8, uint8
from .constant_values import constant_value

_SELECTING = frozenset((
    "reshape", "permute", "windows", "slice", "flip", "broadcast_to", "concat", "maximum", "minimum", "reduce_max",
    "reduce_min",
))  # fmt: skip
MAX_STEPS = 256
"""Symbols between codes and codes that are looked at."""


@dataclass(frozen=True, slots=True)
class Coding:
    """What codes stand for: (q - zero) · scale."""

    dtype: DType
    scale: float
    zero: int

    def code(self, number: float) -> int:
        """Return the code of a number, which may be infinite."""
        return int(self.codes(np.array([number], np.float32))[0])

    def codes(self, numbers: Any) -> Any:
        with np.errstate(over="ignore"):
            whole = np.rint(numbers / np.float32(self.scale)) + np.float32(self.zero)
        return np.clip(whole, int(self.dtype.min_value), int(self.dtype.max_value))

    def keeps_codes(self) -> bool:
        """Return whether every code is the code of what it stands for."""
        every = np.arange(int(self.dtype.min_value), int(self.dtype.max_value) + 1)
        with np.errstate(over="ignore", invalid="ignore"):
            numbers = (every - self.zero).astype(np.float32) * np.float32(self.scale)
            return bool(np.isfinite(numbers).all() and (self.codes(numbers) == every).all())


def with_selected_codes(graph: Graph) -> Graph:
    """Return a finished graph that selects among codes; the graph itself where it selects among no numbers of codes."""
    if has_control(graph):
        return graph
    found = {symbol.id: coding for symbol in graph.symbols if (coding := _selected(symbol)) is not None}
    return _Rewriting(graph, found).run() if found else graph


def _coding(symbol: Symbol) -> Coding | None:
    """Return the coding of a quantisation or its inverse, with one scale and zero point that are known."""
    codes = symbol if symbol.op.name == "quantize" else symbol.inputs[0]
    numbers = symbol.inputs[0] if symbol.op.name == "quantize" else symbol
    if codes.dtype not in (int8, uint8) or numbers.dtype is not float32 or symbol.attrs["block_size"]:
        return None
    if symbol.inputs[1].dtype is not float32:  # divides in the scale's dtype
        return None
    scale = _number(symbol.inputs[1])
    zero = _number(symbol.inputs[2]) if len(symbol.inputs) == 3 else 0
    if scale is None or zero is None or not scale > 0:
        return None
    return Coding(codes.dtype, scale, int(zero))


def _number(symbol: Symbol) -> float | None:
    found = constant_value(symbol) if all(extent == 1 for extent in symbol.shape) else None
    return None if found is None else float(found.reshape(()))


def _selected(symbol: Symbol) -> Coding | None:
    """Return the coding of codes that are those of selected numbers, None of other symbols."""
    if symbol.op.name != "quantize" or not symbol.attrs["saturate"]:
        return None
    coding = _coding(symbol)
    if coding is None or not coding.keeps_codes():
        return None
    pending, seen = [symbol.inputs[0]], set[int]()
    while pending:
        current = pending.pop()
        if current.id in seen:
            continue
        seen.add(current.id)
        if len(seen) > MAX_STEPS or current.dtype is not float32:
            return None
        if current.op.name == "dequantize":
            if _coding(current) != coding:
                return None
        elif _is_selecting(current):
            pending += current.inputs
        else:
            return None
    return coding


def _is_selecting(symbol: Symbol) -> bool:
    if symbol.op.name != "pad":
        return symbol.op.name in _SELECTING
    constant = symbol.attrs["mode"] == "constant"
    return not constant or not np.isnan(cast(float, symbol.attrs["value"]))


class _Rewriting:
    """Copies a graph; what is selected is copied again, on codes."""

    def __init__(self, graph: Graph, found: Mapping[int, Coding]) -> None:
        self.graph, self.target, self.found = graph, graph.rewriting(), found
        self.new: dict[int, Symbol] = {}
        self._codes: dict[tuple[int, Coding], Symbol] = {}

    def run(self) -> Graph:
        needed = self._needed()
        for symbol in self.graph.symbols:
            if symbol.id not in needed:
                continue
            with self.target.located(symbol.location):
                coding = self.found.get(symbol.id)
                if coding is None:
                    self.new[symbol.id] = self.target.adopt(symbol, [self.new[operand.id] for operand in symbol.inputs])
                else:
                    self.new[symbol.id] = self._selected(symbol.inputs[0], coding)
        self.target.output(*[self.new[symbol.id] for symbol in self.graph.outputs], names=self.graph.output_names)
        return self.target

    def _needed(self) -> set[int]:
        """Return the ids of the symbols that are copied as they are, or made of codes."""
        needed = {symbol.id for symbol in (*self.graph.outputs, *self.graph.inputs)}
        for symbol in reversed(self.graph.symbols):
            if symbol.id in needed:
                needed.update([each.id for each in (symbol.inputs if symbol.id not in self.found else _sources(symbol))])
        return needed

    def _selected(self, last: Symbol, coding: Coding) -> Symbol:
        """Return the codes of a symbol, each made once."""
        pending = [last]
        while pending:
            symbol = pending[-1]
            key = symbol.id, coding
            missing = [each for each in symbol.inputs if (each.id, coding) not in self._codes]
            if key in self._codes:
                pending.pop()
            elif symbol.op.name == "dequantize":
                self._codes[key] = self.new[symbol.inputs[0].id]
            elif missing:
                pending += missing
            else:
                with self.target.located(symbol.location):
                    self._codes[key] = self._step(symbol, coding)
        return self._codes[last.id, coding]

    def _step(self, symbol: Symbol, coding: Coding) -> Symbol:
        attrs: dict[str, Any] = dict(symbol.attrs)
        if symbol.op.name == "pad" and attrs["mode"] == "constant":
            attrs["value"] = coding.code(attrs["value"])
        return self.target.apply(symbol.op, [self._codes[each.id, coding] for each in symbol.inputs], cast(Attributes, attrs))


def _sources(quantized: Symbol) -> list[Symbol]:
    """Return the codes that are selected among."""
    found: list[Symbol] = []
    pending, seen = [quantized.inputs[0]], set[int]()
    while pending:
        symbol = pending.pop()
        if symbol.id not in seen:
            seen.add(symbol.id)
            if symbol.op.name == "dequantize":
                found.append(symbol.inputs[0])
            else:
                pending += symbol.inputs
    return found
