"""Tells which symbols decide sizes when they run, and what must run for given outputs because of that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from .dims.dim import Dim, Extent
from .protocols import SymbolLike, SymbolT


def deciders(symbols: Iterable[SymbolLike]) -> Mapping[str, int]:
    """Return the name of each size that a host operation decides, with the id of the first symbol that does."""
    found: dict[str, int] = {}
    for symbol in symbols:
        if symbol.op.kind == "host":
            for extent in symbol.attrs.get("extents", ()):
                if isinstance(extent, Dim) and extent.name is not None:
                    found.setdefault(extent.name, symbol.id)
    return found


def extents_of(symbol: SymbolLike) -> Iterator[Extent]:
    """Yield the sizes in the shape and the attributes of a symbol, and those in its regions that are not the region's own."""
    yield from symbol.shape
    for value in symbol.attrs.values():
        for entry in value if isinstance(value, tuple) else (value,):
            if isinstance(entry, Dim):
                yield entry
    for region in symbol.attrs.get("regions", ()):
        own = region.own_dims
        for inner in region.symbols:
            yield from [each for extent in extents_of(inner) for each in _outside(extent, own)]


def _outside(extent: Extent, own: frozenset[str]) -> list[Extent]:
    """Return a size, or where names of a region's own are in it, the other names."""
    if not isinstance(extent, Dim) or not extent.symbols() & own:
        return [extent]
    return [Dim(name) for name in sorted(extent.symbols() - own)]


def mentioned(extents: Iterable[Extent]) -> set[str]:
    """Return the names in sizes."""
    return {name for extent in extents if isinstance(extent, Dim) for name in extent.symbols()}


def needed(
    symbols: Sequence[SymbolT], roots: Iterable[SymbolT], operands: Mapping[int, Sequence[SymbolT]] | None = None
) -> set[int]:
    """Return the ids of the symbols that `roots` are computed from, including those that decide their sizes.

    operands: by id, what a symbol is computed from in place of its inputs.
    """
    found = {symbol.id for symbol in roots}
    deciding = deciders(symbols)
    for symbol in reversed(symbols):
        if symbol.id in found:
            inputs = symbol.inputs if operands is None else operands.get(symbol.id, symbol.inputs)
            found.update([operand.id for operand in inputs])
            if deciding:
                found.update([deciding[name] for name in mentioned(extents_of(symbol)) if name in deciding])
    return found
