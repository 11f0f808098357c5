"""Finds recurrent networks, which are loops or a few steps in a row here, and one node of ONNX.

A product of a sequence with weights is where one may begin. What is computed from it has the other weights, biases and states
somewhere among its operands, which their shapes tell; the network that is made again of these says whether it is one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from .....promotion.dataclass import dataclass
from .....promotion.dtype import float32, int32
from ....functions.networks.cells import GRU, LSTM, RNN, Kind, Layer, functions_named, ran_layer
from ....graph import Graph
from ....ops.control import captures_of, regions_of
from ....symbol import Symbol
from ..equality import found_of_several
from .composed import Composed

_DIRECTIONS = {(False,): "forward", (True,): "reverse", (False, True): "bidirectional"}
_NAMES = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu", "minimum": "HardSigmoid"}
"""Row of a step → the activation that it may come from."""
_MAX_REACH = 800
"""Symbols behind a product that are looked at."""
_MAX_TRIES = 96
"""Networks that are made again for one product."""
_VIEWS = ("reshape", "permute", "slice", "cast", "broadcast_to")


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """What the symbols behind a product read, and which rows they are."""

    operands: tuple[Symbol, ...]
    rows: frozenset[str]
    limits: tuple[float, ...]
    reverses: tuple[bool, ...]


def network(product: Symbol, consumers: Mapping[int, Sequence[Symbol]], graph: Graph) -> Composed | None:
    """Return the node of a network whose inputs are multiplied by weights in `product`."""
    weights = _whole(product.inputs[1]) if product.op.name == "matmul" and product.dtype is float32 else None
    x = product.inputs[0] if product.op.name == "matmul" else product
    if weights is None or len(x.shape) != 3 or len(weights.shape) != 3 or weights.shape[2] != x.shape[2]:
        return None
    directions, wide = weights.shape[:2]
    if directions not in (1, 2) or not isinstance(wide, int):
        return None
    reached = _reached(product, consumers)
    parts = _parts(reached)
    for kind in (LSTM, GRU, RNN):
        hidden = wide // kind.gates
        if wide % kind.gates or hidden == 0:
            continue
        square = (directions, wide, hidden)
        for r in _of_shape(parts, square):
            found = _made(graph, kind, reached, parts, x, weights, r)
            if found is not None:
                return found
    return None


def _made(
    graph: Graph, kind: Kind, reached: Sequence[Symbol], parts: _Parts, x: Symbol, w: Symbol, r: Symbol
) -> Composed | None:
    directions, wide, hidden = r.shape
    batch = x.shape[1]
    biases = _of_shape(parts, (directions, 2 * wide))
    lengths = [each for each in _of_shape(parts, (batch,)) if each.dtype is int32]
    peepholes = _of_shape(parts, (directions, 3 * hidden)) if kind is LSTM else []
    states = _of_shape(parts, (directions, batch, hidden))
    given = (_either(biases), _either(lengths), _either(peepholes), _states(states, kind.states))
    both = [(False, True)] if directions == 2 else [(reverse,) for reverse in parts.reverses]
    options = [
        (names, clip, flag)
        for names in _activations(kind, parts.rows) for clip in (None, *parts.limits)
        for flag in ((False,) if kind is RNN else (False, True))
    ]  # fmt: skip
    tries = itertools.islice(itertools.product(both, options, *given), _MAX_TRIES)
    for backwards, (names, clip, flag), b, valid, p, own in tries:
        leaves = [x, w, r, *[one for one in (b, valid, p, *own) if one is not None]]
        functions = [functions_named(names)] * len(backwards)
        layer = Layer(functions, backwards, clip, kind is LSTM and flag, kind is GRU and flag)
        results = _results(graph, kind, layer, leaves, (b, valid, p, *own), reached)
        if any(results):
            attributes: dict[str, object] = {"hidden_size": hidden, "direction": _DIRECTIONS[backwards]}
            if list(names) != [name.capitalize() for name in kind.activations]:
                attributes["activations"] = tuple(names) * len(backwards)
            if clip is not None:
                attributes["clip"] = clip
            if flag:
                attributes["input_forget" if kind is LSTM else "linear_before_reset"] = 1
            operands = (x, w, r, b, valid, *own, *((p,) if kind is LSTM else ()))
            return Composed(kind.name.upper(), operands, tuple([tuple(each) for each in results]), attributes, {})
    return None


def _results(
    graph: Graph, kind: Kind, layer: Layer, leaves: Sequence[Symbol], given: Sequence[Symbol | None], reached: Sequence[Symbol]
) -> list[list[Symbol]]:
    """Return the symbols that are the results of a network."""

    def make(scratch: Graph, x: Symbol, w: Symbol, r: Symbol, *rest: Symbol) -> list[Symbol]:
        others = iter(rest)
        b, valid, p, *states = [None if each is None else next(others) for each in given]
        return ran_layer(kind, layer, x, w, r, b, valid, states, p)

    steps, batch, hidden, directions = leaves[0].shape[0], leaves[0].shape[1], leaves[2].shape[2], leaves[1].shape[0]
    shapes = [(steps, directions, batch, hidden), *[(directions, batch, hidden)] * kind.states]
    candidates = [[each for each in reached if each.shape == shape] for shape in shapes]
    return found_of_several(graph, make, leaves, candidates)


def _activations(kind: Kind, rows: frozenset[str]) -> Iterator[tuple[str, ...]]:
    """Yield the names of activations that a step of these rows may have, the usual ones first."""
    usual = tuple([name.capitalize() for name in kind.activations])
    names = [name for row, name in _NAMES.items() if row in rows]
    if {name.lower() for name in usual} <= rows:
        yield usual
    for each in itertools.product(names, repeat=len(usual)):
        if each != usual and set(each) == set(names):
            yield each


def _either(found: Sequence[Symbol]) -> list[Symbol | None]:
    return [*found, None]


def _states(found: Sequence[Symbol], count: int) -> list[tuple[Symbol | None, ...]]:
    """Return which symbols the first states may be: all that there are, or none."""
    some = [each for each in itertools.permutations(found, count)] if len(found) >= count else []
    single = [(each, None) for each in found] + [(None, each) for each in found] if count == 2 else []
    return [*some, *single, (None,) * count]


def _reached(product: Symbol, consumers: Mapping[int, Sequence[Symbol]]) -> list[Symbol]:
    """Return what is computed from a product, in order, and with it what the other direction computes."""
    found: dict[int, Symbol] = {}
    pending = [product]
    while pending and len(found) < _MAX_REACH:
        symbol = pending.pop(0)
        for each in consumers.get(symbol.id, ()):
            if each.id not in found:
                found[each.id] = each
                if len(each.shape) < 4 or len(symbol.shape) < 4:  # results for all steps have four axes
                    pending.append(each)
    return [found[key] for key in sorted(found)]


def _parts(reached: Sequence[Symbol]) -> _Parts:
    """Return what symbols read, inside of loops too."""
    loops = [symbol for symbol in reached if symbol.op.name == "loop"]
    inner = [each for loop in loops for region in regions_of(loop) for each in region.symbols]
    steps = [*reached, *inner]
    captured = [each for loop in loops for number in range(len(regions_of(loop))) for each in captures_of(loop, number)]
    operands = [operand for symbol in reached for operand in symbol.inputs]
    upper, lower = _bounds(steps, "minimum"), _bounds(steps, "maximum")
    limits = tuple(sorted([number for number in upper if -number in lower]))
    reverses = tuple({bool(loop.attrs["reverse"]): None for loop in loops}) or (False, True)
    unique = {each.id: each for each in (*operands, *captured)}
    known = {symbol.id for symbol in reached}
    found: dict[int, Symbol] = {}
    for each in unique.values():
        for source in _sources(each):
            if source.id not in known:
                found[source.id] = source
    return _Parts(tuple(found.values()), frozenset([symbol.op.name for symbol in steps]), limits, reverses)


def _bounds(steps: Sequence[Symbol], row: str) -> set[float]:
    """Return the numbers that are bounds of values in a step."""
    bounds = [symbol.inputs[1] for symbol in steps if symbol.op.name == row]
    return {float(each.attrs["value"]) for each in bounds if each.op.name == "constant" and not each.shape}


def _sources(symbol: Symbol) -> Iterator[Symbol]:
    """Yield a symbol, and what it is a view or the sum of views of."""
    pending = [symbol]
    for _ in range(64):
        if not pending:
            return
        each = pending.pop()
        yield each
        if each.op.name in _VIEWS or (each.op.name == "add" and len(each.shape) == 1) or each.op.name == "matmul":
            pending.extend(each.inputs)


def _of_shape(parts: _Parts, shape: tuple[object, ...]) -> list[Symbol]:
    return [
        each for each in parts.operands
        if each.shape == shape and not (each.op.name == "slice" and each.inputs[0].shape == shape)
    ]  # fmt: skip


def _whole(symbol: Symbol) -> Symbol | None:
    """Return the weights (directions, …) of which a matrix is the transpose of one."""
    for row in ("permute", "reshape"):
        if symbol.op.name != row:
            return None
        (symbol,) = symbol.inputs
    if symbol.op.name == "slice" and symbol.shape[0] == 1 and symbol.inputs[0].shape[1:] == symbol.shape[1:]:
        (symbol,) = symbol.inputs
    return symbol
