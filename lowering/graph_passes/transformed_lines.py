"""Makes Fourier transforms of lines that a program holds whole one operation, for targets whose programs have them.

Two real numbers that are neighbours are a complex one, whose line has room for one more: half a transform has a number more
than there are pairs.
"""

from __future__ import annotations

from ...graph.ops.building import apply
from ...graph.ops.complex.fourier import filled, interleaved, parts_of, sliced
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol


def is_transform_of_lines(symbol: Symbol) -> bool:
    """Returns whether a symbol transforms lines that a program can have whole."""
    return symbol.op.name in ("fft_lines", "rfft_lines", "irfft_lines", "fft_pairs")


def transformed_whole(symbol: Symbol, x: SymbolLike) -> SymbolLike:
    """Returns the transforms of the lines of `x`, as `symbol` says."""
    axis = len(x.shape) - 1
    if symbol.op.name == "fft_pairs":
        return apply("fft_block", x, axis=axis, kind=symbol.attrs["kind"])
    if symbol.op.name == "fft_lines":
        return apply("fft_block", x, axis=axis, kind="inverse" if symbol.attrs["inverse"] else "forward")
    if symbol.op.name == "rfft_lines":
        length = x.shape[axis]
        assert isinstance(length, int)
        pairs = apply("complex", sliced(x, 0, length, 2), sliced(x, 1, length, 2))
        return apply("fft_block", filled(pairs, length // 2 + 1), axis=axis, kind="real")
    found = apply("fft_block", x, axis=axis, kind="real_inverse")
    return interleaved(*parts_of(sliced(found, 0, symbol.attrs["length"] // 2)))
