"""Finds where two models, or one on two devices, first differ: symbol by symbol, in order, on given inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ..graph.data_sizes import extents_of, mentioned, needed
from ..graph.graph import Graph
from ..graph.symbol import Symbol
from ..graph.types import TensorType
from ..promotion.arrays import Array
from ..promotion.dataclass import dataclass
from ..promotion.errors import UserError

Run: TypeAlias = Callable[[Graph, Mapping[str, Any]], Sequence[Array]]
"""Runs a graph on arrays by name, on some device."""

_CHUNK = 32
"""Symbols whose values are held at a time."""


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Two symbols whose values differ.

    Attributes:
        first, second: the symbols; of outputs of a model these are what it returns.
        problem: how they differ.
    """

    first: Symbol
    second: Symbol
    problem: str


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """What `compare` has found.

    Attributes:
        compared: pairs of symbols that were computed.
        outputs: the outputs that differ, by the name that the first graph has for them.
        difference: the first pair that differs; None if all agree.
        by_position: the outputs that no name pairs, as many on both sides, and which of the second graph is compared with each.
        left: the outputs of either side that nothing is compared with.
    """

    compared: int
    outputs: Mapping[str, Difference]
    difference: Difference | None
    by_position: Mapping[str, str]
    left: tuple[tuple[str, ...], tuple[str, ...]]


def compare(
    first: Graph, second: Graph, inputs: Mapping[str, Any], runs: tuple[Run, Run], rtol: float = 0.0, atol: float = 0.0
) -> Comparison:
    """Compare two graphs on inputs, each by its `runs`.

    Elements agree if they are equal, both NaN, or differ by at most atol + rtol·|second|. Outputs are paired by name, the
    others in order if there are as many of them on both sides. Graphs of equal structure are compared symbol by symbol; of
    others, what stands at the same place of the source is, by operation and order. If all outputs agree nothing else is looked
    at. Raises `UserError` where there is no pair of outputs.
    """
    both = first.output_names, second.output_names
    others = [[name for name in one if name not in two] for one, two in (both, both[::-1])]
    by_position = dict(zip(*others, strict=True)) if len(others[0]) == len(others[1]) else {}
    names = [name for name in first.output_names if name in second.output_names or name in by_position]
    if not names:
        raise UserError(
            f"compare: graphs {first.name!r} and {second.name!r} have no output of the same name, and {len(others[0])} and "
            f"{len(others[1])} outputs; fix: names such as {', '.join(second.output_names[:3])}"
        )
    left = ((), ()) if by_position else (tuple(others[0]), tuple(others[1]))
    by_name = [dict(zip(graph.output_names, graph.outputs, strict=True)) for graph in (first, second)]
    ends = [(by_name[0][name], by_name[1][by_position.get(name, name)]) for name in names]
    found = list(_differences(ends, first, second, inputs, runs, rtol, atol))
    outputs = {name: found[at] for at, name in enumerate(names) if isinstance(found[at], Difference)}
    wrong = {name: each for name, each in outputs.items() if each is not None}
    if not wrong:
        return Comparison(len(ends), {}, None, by_position, left)
    pairs = paired(first, second)
    compared = 0
    for start in range(0, len(pairs), _CHUNK):
        for each in _differences(pairs[start : start + _CHUNK], first, second, inputs, runs, rtol, atol):
            compared += 1
            if each is not None:
                return Comparison(compared, wrong, each, by_position, left)
    return Comparison(compared, wrong, next(iter(wrong.values())), by_position, left)


def paired(first: Graph, second: Graph) -> list[tuple[Symbol, Symbol]]:
    """Return the symbols of two graphs that mean the same, in order: computed ones that the outputs need."""
    computed = [_computed(graph) for graph in (first, second)]
    texts = [[(symbol.op.name, symbol.dtype, symbol.shape) for symbol in symbols] for symbols in computed]
    if texts[0] == texts[1]:
        return list(zip(*computed, strict=True))
    positions = [dict(_by_location(symbols)) for symbols in computed]
    return [(symbol, positions[1][key]) for key, symbol in positions[0].items() if key in positions[1]]


def _computed(graph: Graph) -> list[Symbol]:
    live = needed(graph.symbols, graph.outputs)
    return [symbol for symbol in graph.symbols if symbol.id in live and symbol.op.kind != "source"]


def _by_location(symbols: Sequence[Symbol]) -> Iterator[tuple[tuple[str, str, int], Symbol]]:
    """Yield symbols with where they come from: the function of the source (of a model, its node), operation and count."""
    counts: dict[tuple[str, str], int] = {}
    for symbol in symbols:
        key = (symbol.location.function, symbol.op.name)
        counts[key] = counts.get(key, 0) + 1
        yield (*key, counts[key]), symbol


def observed(graph: Graph, symbols: Sequence[Symbol]) -> Graph:
    """Return a graph whose outputs are these symbols of another graph."""
    made = Graph(graph.name, semantics=graph.rules, policy=graph.policy)
    made.journal.busy = True
    live = needed(graph.symbols, (*graph.inputs, *symbols))
    new: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        if symbol.id not in live:
            continue
        if symbol.op.name == "input":
            with made.located(symbol.location):
                new[symbol.id] = made.input(TensorType(symbol.dtype, symbol.shape, str(symbol.name)))
        else:
            new[symbol.id] = made.adopt(symbol, [new[operand.id] for operand in symbol.inputs])
    known = {name for symbol in made.symbols for name in mentioned(extents_of(symbol))}
    made.standing = tuple([check for check in graph.checks if mentioned(check[:2]) <= known])
    made.output(*[new[symbol.id] for symbol in symbols], names=[f"value{symbol.id}" for symbol in symbols])
    return made


def _differences(
    pairs: Sequence[tuple[Symbol, Symbol]], first: Graph, second: Graph, inputs: Mapping[str, Any], runs: tuple[Run, Run],
    rtol: float, atol: float,
) -> Iterator[Difference | None]:  # fmt: skip
    values: list[dict[int, Array]] = []
    for side, graph in enumerate((first, second)):
        symbols = list({pair[side].id: pair[side] for pair in pairs}.values())
        made = observed(graph, symbols)
        given = {str(symbol.name): inputs[str(symbol.name)] for symbol in made.inputs if str(symbol.name) in inputs}
        values.append(dict(zip([symbol.id for symbol in symbols], runs[side](made, given), strict=True)))
    for one, other in pairs:
        problem = problem_of(values[0][one.id], values[1][other.id], rtol, atol)
        yield Difference(one, other, problem) if problem else None


def problem_of(first: Array, second: Array, rtol: float, atol: float) -> str:
    """Return how two arrays differ, "" if they agree."""
    if first.shape != second.shape:
        return f"shapes {list(first.shape)} and {list(second.shape)}"
    if first.dtype.hasobject or second.dtype.hasobject:
        wrong = np.asarray(first != second, np.bool_)
        size = ""
    else:
        wide = np.complex128 if first.dtype.kind == "c" or second.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            a, b = first.astype(wide), second.astype(wide)
            distance = np.abs(a - b)
            agree = (first == second) | (np.isnan(a) & np.isnan(b)) | (distance <= atol + rtol * np.abs(b))
        wrong = np.asarray(~agree)
        finite = distance[wrong & np.isfinite(distance)]
        size = f", by at most {finite.max():.3g}" if finite.size else ""
    if not wrong.any():
        return ""
    at = tuple([int(position[0]) for position in np.nonzero(np.atleast_1d(wrong))][: first.ndim])
    return f"{int(wrong.sum())} of {wrong.size} elements{size}; first at {list(at)}: {first[at]} and {second[at]}"
