"""Finds what a value that is not known while importing depends on, and composes the error that says how to make it known."""

from __future__ import annotations

from ....promotion.dataclass import dataclass
from ....promotion.errors import JoineryError, UnsupportedError
from ...data_sizes import extents_of, mentioned
from ...dims.dim import Dim
from ...dims.messages import LongSizeError
from ...graph import Graph
from ...region import Region
from ...symbol import Symbol
from ..messages import SizeNeededError, ValueNeededError, constants_fix, sizes_fix

MAX_SPECIALISED = 1024
"""Most elements of an input that is worth making a constant."""


@dataclass(frozen=True, slots=True)
class Origins:
    """What a value is computed from.

    Attributes:
        inputs: small inputs of the model; those of an unknown length count, if they are vectors of integers or truths.
        large: other inputs.
        sizes: names of sizes of inputs.
        is_inside: whether data that is no input decides too: a carried value of a loop, a size that data has.
    """

    inputs: tuple[str, ...]
    large: tuple[str, ...]
    sizes: tuple[str, ...]
    is_inside: bool


def known_sizes(graph: Graph) -> set[str]:
    """Return the names of sizes that the inputs of the model have."""
    while isinstance(graph, Region):
        graph = graph.parent
    return mentioned([extent for symbol in graph.inputs for extent in symbol.shape])


def origins_of(symbol: Symbol) -> Origins:
    """Return what a symbol is computed from."""
    inputs: dict[str, None] = {}
    large: dict[str, None] = {}
    sizes: set[str] = set()
    own: set[str] = set()
    is_inside = False
    seen = {symbol.id}
    pending = [symbol]
    while pending:
        each = pending.pop()
        operands = each.inputs
        if each.op.name == "input":
            outer = captured(each)
            if outer is not None:
                operands = (outer,)
            elif isinstance(each.graph, Region):
                is_inside = True
            elif _is_small(each):
                inputs[str(each.name)] = None
                own |= mentioned(each.shape)
            else:
                large[str(each.name)] = None
        else:
            sizes |= mentioned(extents_of(each))
        for operand in operands:
            if operand.id not in seen:
                seen.add(operand.id)
                pending.append(operand)
    known = known_sizes(symbol.graph)
    is_inside |= not sizes <= known
    return Origins(tuple(sorted(inputs)), tuple(sorted(large)), tuple(sorted((sizes & known) - own)), is_inside)


def captured(symbol: Symbol) -> Symbol | None:
    """Return the symbol around a region that one of its inputs stands for."""
    region = symbol.graph
    if not isinstance(region, Region):
        return None
    captured = region.captured
    behind = region.inputs[len(region.inputs) - len(captured) :]
    return next((outer for inner, outer in zip(behind, captured, strict=True) if inner is symbol), None)


def _is_small(symbol: Symbol) -> bool:
    if isinstance(symbol.size, int):
        return symbol.size <= MAX_SPECIALISED
    return len(symbol.shape) == 1 and (symbol.dtype.is_integer or symbol.dtype.is_bool)


def value_needed(symbol: Symbol | None, what: str) -> UnsupportedError:
    """Return the error for a value that must be known: it names the inputs or sizes that decide it."""
    found = None if symbol is None else origins_of(symbol)
    if found is None or found.is_inside or found.large or not (found.inputs or found.sizes):
        names = found.large if found is not None else ()
        data = f"data, the values of {', '.join(map(repr, names))}" if names else "data"
        return ValueNeededError(
            f"{what} is computed from {data}, which is not supported; fix: compute it outside, and make it an input"
        )
    if not found.inputs:
        error = SizeNeededError(f"{what} is computed from sizes; fix: {sizes_fix(found.sizes)}")
        error.sizes = found.sizes
        return error
    needed = ValueNeededError(f"{what} depends on the values of an input; fix: {constants_fix(found.inputs)}")
    needed.inputs, needed.sizes = found.inputs, found.sizes
    return needed


def size_needed(graph: Graph, extents: list[object], problem: str) -> SizeNeededError:
    """Return the error for sizes that must be numbers: it names those of the inputs that they are made of."""
    names = mentioned([extent for extent in extents if isinstance(extent, Dim)])
    if not names <= known_sizes(graph):
        return SizeNeededError(f"{problem}, which data decides and is not supported; fix: compute this outside of the model")
    error = SizeNeededError(f"{problem}, which is not supported; fix: {sizes_fix(sorted(names))}")
    error.sizes = tuple(sorted(names))
    return error


def sizes_instead(graph: Graph, error: LongSizeError) -> JoineryError:
    """Return the error for a size that no graph can be saved with: numbers for what it is made of give it a short form."""
    if not set(error.names) <= known_sizes(graph):
        return error
    return size_needed(graph, [Dim(name) for name in error.names], error.problem)


def inputs_that_count(graph: Graph) -> tuple[str, ...]:
    """Return the small inputs whose values the host reads as sizes: made constants, they need no host."""
    counts = [symbol.inputs[0] for symbol in graph.symbols if symbol.op.name == "empty_rows"]
    return tuple(sorted({name for count in counts for name in origins_of(count).inputs}))
