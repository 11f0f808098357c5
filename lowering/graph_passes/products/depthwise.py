"""Convolutions of single channels between images with channels first: what had better be stored with channels last.

A sum over taps has a channel in each lane and reads a tap's numbers as vectors. Of an image in planes it would read them one by
one, and so it would write its results: the kernels that permute take a tenth of the time. Few taps without steps
between them are read along planes as fast, if the results are planes, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ....graph.graph import Graph
from ....graph.symbol import Symbol

MIN_CHANNELS = 16
"""Channels that fill a register."""
FEW_TAPS = 9
"""Most taps of windows without steps that are read along planes."""
MASKED_TAPS = 32
"""Most taps that read padding under masks; of more the padded image is stored, which permutes it as well."""


def sums_apart(graph: Graph, readers: Mapping[int, Sequence[Symbol]]) -> frozenset[int]:
    """Returns the ids of images and of sums over taps that are stored with channels last, by kernels of their own."""
    found: set[int] = set()
    for symbol in graph.symbols:
        if symbol.op.name == "multiply_add" and not any(_goes_on(each, symbol) for each in readers.get(symbol.id, ())):
            windows = _windows_of(symbol)
            if windows is not None:
                found |= _apart(symbol, windows, readers)
    return frozenset(found)


def _goes_on(reader: Symbol, total: Symbol) -> bool:
    return reader.op.name == "multiply_add" and reader.inputs[2] is total


def _windows_of(total: Symbol) -> Symbol | None:
    """Returns the windows that a sum adds up taps of."""
    part = total.inputs[0]
    while part.op.kind == "view" or part.op.name == "cast":
        if part.op.name == "windows":
            return part
        part = part.inputs[0]
    return None


def _apart(total: Symbol, windows: Symbol, readers: Mapping[int, Sequence[Symbol]]) -> set[int]:
    attrs, image = windows.attrs, windows.inputs[0]
    channels, rank, taps = image.shape[-1], len(image.shape), math.prod(attrs["sizes"])
    if type(channels) is not int or channels < MIN_CHANNELS or rank < 4 or attrs["axes"] != tuple(range(1, rank - 1)):
        return set()
    while image.op.name == "pad" and taps <= MASKED_TAPS:
        image = image.inputs[0]
    from_planes = image.op.name == "permute" and image.attrs["axes"][-1] != rank - 1
    to_planes = is_permuted(total, readers)
    if from_planes and to_planes and taps <= FEW_TAPS and set(attrs["strides"]) == {1}:
        return set()
    return ({image.id} if from_planes else set()) | ({total.id} if to_planes else set())


def is_permuted(symbol: Symbol, readers: Mapping[int, Sequence[Symbol]]) -> bool:
    """Returns whether a permutation that moves the last axis reads a symbol, or what alone is made of it element by element.

    What others read as well, as the next convolution does, is stored with channels last in any case.
    """
    made = {symbol.id}
    found = {each.id: each for each in readers.get(symbol.id, ())}  # activations may read a number twice
    while found:
        if any(each.op.name == "permute" and each.attrs["axes"][-1] != len(each.shape) - 1 for each in found.values()):
            return True
        if not all(each.op.kind == "map" or each.op.name == "reshape" for each in found.values()):
            return False
        made |= found.keys()
        found = {each.id: each for number in found for each in readers.get(number, ()) if each.id not in made}
    return False
