"""Imports subgraphs as regions: loops and branches of the graph, where every iteration has the same types."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from collections.abc import Sequence as Ordered
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from ....promotion.dtype import int64
from ....promotion.errors import UnsupportedError, UserError
from ...construction.history import mark, rewind
from ...dims.dim import Extent
from ...functions.control.branches import build_branch
from ...functions.control.loops import build_loop, results_of
from ...functions.host.data_sized import fresh_dim, host
from ...ops.host import is_host
from ...region import Region, is_compiled_region
from ...symbol import Symbol
from ...types import TensorType, shape_text
from ..messages import NoRegionError
from ..model import Body
from ..node import Node, as_symbol
from ..values import COMPOSITE, Growing, Known, Piece, Sizes, Value
from .growing import grown, only_piece

Step: TypeAlias = "Callable[[Node, Symbol, list[Value]], list[Value]]"
"""Computes an iteration of a node: for the node inside of the region, of the index, and of what is carried and the slices."""

_FOREVER = 1 << 62
"""Trip counts from here on bound nothing: exporters write the largest integer where there is none."""


class ChangingTypeError(NoRegionError):
    """A state of a loop changes its type from one iteration to the next.

    Attributes:
        position: which state.
    """

    position: int = -1


@contextmanager
def attempting(node: Node) -> Iterator[None]:
    """Undo what was added to the graph when a subgraph turns out to be no region."""
    before, symbols = mark(node.graph), dict(node.symbols)
    try:
        yield
    except (UserError, UnsupportedError) as error:
        rewind(node.graph, before)
        node.symbols.clear()
        node.symbols.update(symbols)
        if isinstance(error, NoRegionError):
            raise
        raise NoRegionError(str(error)) from error


def _region(
    node: Node, name: str, types: Ordered[TensorType],
    body: Callable[[Region, dict[int, tuple[Known, Symbol]]], list[Symbol]], trips: Extent = -1,
) -> Region:  # fmt: skip
    region = Region(node.graph, f"{node.op} {name}", types)
    region.trips = None if trips == -1 else trips
    with node.inside(region) as symbols:
        outputs = body(region, symbols)
    region.output(*outputs, names=[f"value{position}" for position in range(len(outputs))])
    for symbol in region.symbols:
        if is_host([operand.dtype for operand in symbol.inputs], symbol.op.kind, symbol.dtype):
            refusal = NoRegionError(f"{symbol.op.name} runs on the host, not in a loop or branch")
            refusal.needs_host = True
            raise refusal
    return region


def _tensor(region: Region, value: Value, symbols: dict[int, tuple[Known, Symbol]]) -> Symbol:
    if isinstance(value, COMPOSITE):
        raise NoRegionError("a sequence or optional value in a loop or branch")
    return region.as_symbol(as_symbol(region, value, symbols, "a result"), "result")


def _require_type(symbol: Symbol, wanted: TensorType, what: str) -> Symbol:
    checks = symbol.graph.shape_checks
    same = len(symbol.shape) == len(wanted.shape) and all(map(checks.decide, symbol.shape, wanted.shape))
    if symbol.dtype is not wanted.dtype or not same:
        raise NoRegionError(
            f"{what} is {symbol.dtype} {shape_text(symbol.shape)}, and {wanted.dtype} {shape_text(wanted.shape)} before it"
        )
    return symbol


def known_truth(value: Value) -> bool | None:
    """Return a condition if it is known, else None."""
    return bool(value.array.reshape(-1)[0]) if isinstance(value, Known) and value.array.size == 1 else None


def as_conditions(node: Node, values: list[Value]) -> list[Value]:
    """Return what a branch gives: a condition of one element without axes, for branches write it with one or with none."""
    if not node.definition.is_condition or isinstance(values[0], COMPOSITE) or set(values[0].shape) != {1}:
        return values
    return [Known(values[0].array.reshape(())) if isinstance(values[0], Known) else node.symbol_of(values[0]).reshape(())]


def import_branch(node: Node, condition: Symbol, then: Body, otherwise: Body) -> list[Value]:
    """Return the results of two subgraphs, of which a condition chooses one. Raises `NoRegionError`."""
    with attempting(node):
        returned: list[list[Symbol]] = []

        def arm(body: Body) -> Callable[[Region, dict[int, tuple[Known, Symbol]]], list[Symbol]]:
            def built(region: Region, symbols: dict[int, tuple[Known, Symbol]]) -> list[Symbol]:
                found = [_tensor(region, value, symbols) for value in as_conditions(node, node.run(body, ()))]
                if returned:
                    found = [
                        _require_type(symbol, TensorType(other.dtype, other.shape), "a result of the other branch")
                        for symbol, other in zip(found, returned[0], strict=True)
                    ]
                returned.append(found)
                return found

            return built

        regions = [_region(node, name, (), arm(body)) for name, body in (("then", then), ("else", otherwise))]
        return [*results_of(build_branch(condition, *regions))]


def import_loop(
    node: Node, body: Body, trips: Value | None, going: Value, state: Ordered[Value], rows: int,
    growing: Collection[int] = (),
) -> list[Value]:  # fmt: skip
    """Return the results of a Loop: its state, then tensors of one row for each iteration. Raises `NoRegionError`.

    What ends the loop is carried as its first value. Rows need the number of iterations: where values decide it, a first loop
    counts, and the rows are made by a second one of that length.

    growing: positions of states that iterations append to and do not read. What they append are rows, too.
    """
    with attempting(node):
        graph = node.graph
        length, limit = bound_of(node, trips)
        bound = length if limit is None or limit.op.name != "dim_value" else limit.attrs["extent"]
        kept = [position for position in range(len(state)) if position not in growing]
        first = [_tensor_of(node, state[position]) for position in kept]
        pieces: dict[int, Piece] = {}
        flag = node.symbol_of(going).reshape(())
        shape = () if isinstance(going, Known) and not going.array.ndim else going.shape  # type: ignore[union-attr]
        true = Known(np.ones([size for size in shape if isinstance(size, int)], np.bool_))

        def step(flags: int, wants_rows: bool) -> tuple[Region, bool]:
            """Return the body, and whether it always goes on. flags: 1 if it carries whether it does, else 0."""
            types = _state_types([flag, *first][1 - flags :])
            goes_on = [True]

            def built(region: Region, symbols: dict[int, tuple[Known, Symbol]]) -> list[Symbol]:
                index, values = region.inputs[0], iter(region.inputs[1 + flags :])
                given = [Growing() if position in growing else next(values) for position in range(len(state))]
                results = node.run(body, (index, true, *given), index)
                goes_on[0] = known_truth(results[0]) is True
                found = list(region.inputs[1 : 1 + flags])
                if flags and not goes_on[0]:
                    found = [_tensor(region, results[0], symbols).reshape(())]
                for wanted, position in zip(types[flags:], kept, strict=True):
                    found.append(_carried(_tensor(region, results[1 + position], symbols), wanted, position))
                appended = []
                for position in sorted(growing):
                    pieces[position] = piece = only_piece(results[1 + position])
                    appended += [piece.value] if piece.flag is None else [piece.value, piece.flag]
                stacked = [*results[1 + len(state) :], *appended] if wants_rows else []
                return [*found, *[_tensor(region, value, symbols) for value in stacked]]

            return _region(node, "body", (TensorType(int64, (), "index"), *types), built, bound), goes_on[0]

        flags, begin, known = 0, mark(graph), dict(node.symbols)
        is_endless = bool(first) and known_truth(going) is True
        if is_endless:
            counting, is_endless = step(0, wants_rows=False)
        if not is_endless:  # what was made for a body that goes on is in the way of one that may not
            rewind(graph, begin)
            node.symbols.clear()
            node.symbols.update(known)
            flags = 1
            counting, goes_on = step(1, wants_rows=False)
            is_endless = goes_on and known_truth(going) is True
        carried = [flag, *first][1 - flags :]
        condition = None
        if not is_endless:
            condition = _region(node, "condition", (TensorType(int64, (), "index"), *_state_types(carried)),
                                lambda region, symbols: [region.inputs[1]])  # fmt: skip
        elif limit is None and length == -1:
            raise NoRegionError("nothing ends the loop")
        if not rows and not growing:
            return [*results_of(build_loop(graph, "Loop", carried, counting, condition, limit=limit, length=length))[flags:]]
        if not is_endless or length == -1:
            if is_compiled_region(graph):
                raise NoRegionError("values decide how many rows a loop inside of another one returns")
            trips_run = limit
            if not is_endless:
                trips_run = build_loop(graph, "Loop", carried, counting, condition, limit=limit, length=length)
            length = fresh_dim(graph, "trips")
            host("empty_rows", graph.as_symbol(trips_run), sizes=(length,))  # type: ignore[arg-type]
        made, _ = step(flags, wants_rows=True)
        found = results_of(build_loop(graph, "Loop", carried, made, length=length))[flags:]
        results: dict[int, Value] = dict(zip(kept, found, strict=False))
        more = iter(found[len(kept) + rows :])
        for position in sorted(growing):
            is_chosen = pieces[position].flag is not None
            parts = [next(more) for _ in range(1 + is_chosen)]
            results[position] = grown(node, state[position], pieces[position], *parts)
        return [*[results[position] for position in range(len(state))], *found[len(kept) : len(kept) + rows]]


def _carried(symbol: Symbol, wanted: TensorType, position: int) -> Symbol:
    try:
        return _require_type(symbol, wanted, "a carried value")
    except NoRegionError as error:
        if symbol.dtype is not wanted.dtype or len(symbol.shape) != len(wanted.shape):
            raise
        changing = ChangingTypeError(str(error))
        changing.position = position
        raise changing from None


def _state_types(symbols: Ordered[Symbol]) -> list[TensorType]:
    return [TensorType(each.dtype, each.shape, f"state{number}") for number, each in enumerate(symbols)]


def _tensor_of(node: Node, value: Value) -> Symbol:
    if isinstance(value, COMPOSITE):
        raise NoRegionError("a sequence or optional value in a loop")
    return node.symbol_of(value)


def bound_of(node: Node, trips: Value | None) -> tuple[Extent, Symbol | None]:
    """Return the most iterations as a size (-1 for no bound), or as a symbol."""
    if trips is None:
        return -1, None
    if isinstance(trips, Known):
        count = max(int(trips.array.reshape(-1)[0]), 0)
        return (-1 if count >= _FOREVER else count), None
    if isinstance(trips, Sizes):
        (size,) = trips.items.reshape(-1).tolist()
        return size, None
    return -1, node.symbol_of(trips).reshape(()).cast(int64)


def import_scan(
    node: Node, step: Step, state: Ordered[Value], sequences: Ordered[Symbol], length: Extent, reverse: bool = False
) -> list[Value]:
    """Return the results of a Scan over axis 0 of its sequences, stacked along axis 0. Raises `NoRegionError`.

    step: takes the state, and a slice of each sequence; returns the next state, and rows.
    reverse: whether it begins at the end, and rows stand where the slices do.
    """
    with attempting(node):
        carried = [_tensor_of(node, each) for each in state]
        types = _state_types(carried)
        slices = [TensorType(each.dtype, each.shape[1:], f"x{number}") for number, each in enumerate(sequences)]

        def built(region: Region, symbols: dict[int, tuple[Known, Symbol]]) -> list[Symbol]:
            index, *values = region.inputs
            found = [_tensor(region, value, symbols) for value in step(node.within(region, symbols), index, [*values])]
            return [
                *[_require_type(each, wanted, "a carried value") for each, wanted in zip(found, types, strict=False)],
                *found[len(types) :],
            ]

        region = _region(node, "body", (TensorType(int64, (), "index"), *types, *slices), built, length)
        return [
            *results_of(
                build_loop(node.graph, "Scan", carried, region, length=length, sequences=sequences, reverse=reverse)
            )
        ]
