"""Writes complex numbers that a graph computes with inside as their real and imaginary parts, which ONNX has operators for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ....promotion.dtype import DType
from ...functions.signal import transforms
from ...graph import Graph
from ...ops.building import apply
from ...ops.complex import fourier as rows
from ...ops.complex.parts import PARTS
from ...protocols import SymbolLike
from ...symbol import Symbol
from ...types import Shape
from .body import Refused
from .equality import leaf_of
from .table import REASONS


class Writer(Protocol):
    """What parts need of the writer of a graph."""

    @property
    def graph(self) -> Graph: ...

    @property
    def names(self) -> Mapping[int, str]: ...

    def beside(self, graph: Graph, names: Mapping[int, str]) -> list[str]: ...


_Value = tuple[str, DType, Shape]
_Step = Callable[[Symbol, Sequence[SymbolLike]], Sequence[SymbolLike]]
"""(a symbol, the parts of its operand) → those of its value."""


class ComplexParts:
    """The names of the parts of complex symbols, by their id, as a writer has come to them."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._names: dict[int, tuple[str, str]] = {}

    def is_of_parts(self, symbol: Symbol) -> bool:
        """Return whether a symbol makes complex numbers of parts, or takes some that were made so, or pairs of parts."""
        makes = symbol.op.name in ("complex", "rfft_lines", "fft_pairs")
        return makes or any([operand.id in self._names for operand in symbol.inputs])

    def has(self, symbol: Symbol) -> bool:
        """Return whether the parts of a symbol have names, and not the symbol."""
        return symbol.id in self._names

    def require_whole(self, symbol: Symbol) -> None:
        """Raise `Refused` for complex numbers that are parts here, and leave the graph."""
        if self.has(symbol):
            raise Refused(*REASONS["complex"])

    def write(self, symbol: Symbol) -> str | None:
        """Write a symbol of parts; return the name of its value if it is real. Raises `Refused` for other operations."""
        row = symbol.op.name
        if row in ("real", "imag"):
            return self._names[symbol.inputs[0].id][row == "imag"]
        step = _STEPS.get(row) or (_moved if symbol.op.kind == "view" else None)
        if step is None or (row != "complex" and len(symbol.inputs) > 1):
            raise Refused(*REASONS["complex"])
        names = self._made(symbol, step)
        if not symbol.dtype.is_complex:
            return names[0]
        self._names[symbol.id] = names[0], names[1]
        return None

    def _made(self, symbol: Symbol, step: _Step) -> list[str]:
        """Write what a step makes of parts, as a graph of its own, and return the names of its outputs."""
        writer = self._writer
        scratch = writer.graph.rewriting()
        leaves: list[Symbol] = []
        names: dict[int, str] = {}
        for name, dtype, shape in [value for operand in symbol.inputs for value in self._values(operand)]:
            leaves.append(leaf_of(scratch, len(leaves), dtype, shape, symbol.location))
            names[leaves[-1].id] = name
        with scratch.located(symbol.location):
            made = step(symbol, leaves)
        scratch.output(*made)
        return writer.beside(scratch, names)

    def _values(self, x: Symbol) -> list[_Value]:
        if x.id in self._names:
            return [(name, PARTS[x.dtype], x.shape) for name in self._names[x.id]]
        return [(self._writer.names[x.id], x.dtype, x.shape)]


def _complex(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    return [each if each.shape == symbol.shape else apply("broadcast_to", each, shape=symbol.shape) for each in parts]


def _moved(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    return [apply(symbol.op.name, each, **symbol.attrs) for each in parts]


def _padded(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    value = complex(symbol.attrs["value"])
    attrs = symbol.attrs
    return [
        apply("pad", each, low=attrs["low"], high=attrs["high"], mode=attrs["mode"], value=number)
        for each, number in zip(parts, (value.real, value.imag), strict=True)
    ]


def _transform(x: rows.Parts, length: int, sign: int) -> rows.Both:
    return rows.by_products(x, length, sign, transforms.waves)


def _matrices(parts: Sequence[SymbolLike]) -> list[SymbolLike]:
    """Return lines, of one line a matrix with one row."""
    return [each if len(each.shape) > 1 else rows.reshaped(each, (1, *each.shape)) for each in parts]


def _fft(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    real, imaginary = _matrices(parts)
    length = symbol.shape[-1]
    assert isinstance(length, int)
    found = _transform((real, imaginary), length, 1 if symbol.attrs["inverse"] else -1)
    return [rows.reshaped(each, symbol.shape) for each in found]


def _rfft(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    (x,) = _matrices(parts)
    length = x.shape[-1]
    assert isinstance(length, int)
    return [rows.reshaped(each, symbol.shape) for each in rows.half_of(x, length, _transform, transforms.waves)]


def _irfft(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    real, imaginary = _matrices(parts)
    length = symbol.shape[-1]
    assert isinstance(length, int)
    return [rows.reshaped(rows.from_half(real, imaginary, length, _transform, transforms.waves), symbol.shape)]


def _of_pairs(symbol: Symbol, parts: Sequence[SymbolLike]) -> Sequence[SymbolLike]:
    return [rows.pairs_by_products(parts[0], symbol.attrs["kind"], transforms.waves)]


_STEPS: dict[str, _Step] = {
    "complex": _complex, "pad": _padded, "fft_lines": _fft, "rfft_lines": _rfft, "irfft_lines": _irfft, "fft_pairs": _of_pairs,
}  # fmt: skip
