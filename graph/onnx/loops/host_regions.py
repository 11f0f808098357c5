"""Imports subgraphs as regions that the host calls: sizes may change from one iteration to the next, and operations of the
host stand inside."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Ordered

import numpy as np

from ....promotion.dtype import int64
from ....promotion.errors import UnsupportedError, UserError
from ...construction.history import mark, rewind
from ...dims.dim import Dim, Extent, dim
from ...functions.building import apply
from ...functions.host.control import build_host_branch, build_host_loop
from ...functions.joining import stack
from ...ops.host_control import is_own
from ...region import Region, is_compiled_region
from ...symbol import Symbol
from ...types import Shape, TensorType, shape_text
from ..messages import NoRegionError
from ..model import Body
from ..node import Node, as_symbol
from ..values import COMPOSITE, Known, Sequence, Stacked, Value
from .diverging import ends_runs
from .regions import Step, as_conditions, attempting, bound_of, known_truth

Symbols = dict[int, tuple[Known, Symbol]]
_TRUE = Known(np.ones((), np.bool_))


def import_host_loop(
    node: Node, body: Body, trips: Value | None, going: Value, state: Ordered[Value]
) -> list[Value]:
    """Return the results of a Loop that the host drives. Raises `NoRegionError`."""
    with attempting(node):
        length, limit = bound_of(node, trips)
        if limit is not None and limit.op.name == "dim_value":
            length, limit = limit.attrs["extent"], None
        step: Step = lambda inner, index, values: node.run(body, (index, _TRUE, *values), index)  # noqa: E731
        return _loop_of(node, step, state, going, None if limit is None and length == -1 else length, limit)


def import_host_scan(
    node: Node, step: Step, state: Ordered[Value], sequences: Ordered[Symbol], length: Extent, limit: Symbol | None = None
) -> list[Value]:
    """Return the results of a Scan over axis 0 of its sequences that the host drives. Raises `NoRegionError`.

    step: as that of `import_scan`.
    length: how many iterations there are, and rows.
    limit: how many there are if values decide it; then there are as many rows.
    """

    def sliced(inner: Node, index: Symbol, values: list[Value]) -> list[Value]:
        slices = [apply("gather", sequence, index, axis=0) for sequence in sequences]
        return [_TRUE, *step(inner, index, [*values, *slices])]

    with attempting(node):
        return _loop_of(node, sliced, state, _TRUE, length, limit)


def _loop_of(
    node: Node, step: Step, state: Ordered[Value], going: Value, length: Extent | None, limit: Symbol | None
) -> list[Value]:
    """Return what a loop returns that ends after `limit` iterations, else `length`, else when its condition does not hold.

    An axis of a state whose size changes gets a name of the body's own. Which these are is found by importing the body for the
    sizes before the loop, and again with a name for what has changed, until nothing else does.

    step: returns whether to go on, the next state, and rows.
    """
    graph, trips = node.graph, length
    if is_compiled_region(graph):
        raise NoRegionError("a loop that the host drives does not stand in one that is compiled")
    if limit is not None:
        length = None
    elif length is not None:
        limit = graph.constant(np.array(length, np.int64)) if isinstance(length, int) else graph.dim_value(length)
    carried = [node.symbol_of(going).reshape(()), *[_carried(node, each) for each in state]]
    region, goes_on = _body_of(node, step, state, carried, trips)
    is_endless = goes_on and known_truth(going) is True
    if limit is None and is_endless:
        raise NoRegionError("nothing ends the loop")
    found = build_host_loop(graph, carried, region, limit, length if is_endless else None)
    results: list[Value] = [*found[1:]]
    for position, before in enumerate(state):
        if isinstance(before, (Sequence, Stacked)):
            results[position] = Stacked(found[1 + position])
    return results


def import_host_branch(node: Node, condition: Symbol, then: Body, otherwise: Body, always: bool = False) -> list[Value]:
    """Return the results of an If of which the host takes one branch, because the other one may not end, or may end the run.

    always: whether without a loop, too. Raises `NoRegionError`.
    """
    if is_compiled_region(node.graph):
        raise NoRegionError("a branch that the host takes does not stand in one that is compiled")
    with attempting(node):
        are_sequences: list[list[bool]] = []

        def arm(body: Body) -> Callable[[Region, Symbols], list[Symbol]]:
            def built(region: Region, symbols: Symbols) -> list[Symbol]:
                values = as_conditions(node, node.run(body, ()))
                are_sequences.append([isinstance(value, (Sequence, Stacked)) for value in values])
                return [_returned(node, region, value, symbols) for value in values]

            return built

        regions = [_region(node, name, [], arm(body)) for name, body in (("then", then), ("else", otherwise))]
        loops = [each for region in regions for each in region.symbols if each.op.name in ("loop", "host_loop")]
        if not always and not loops and not any(ends_runs(region.symbols) for region in regions):
            raise NoRegionError("neither branch has a loop or ends a run, so that both can be computed")
        types = [[(each.dtype, len(each.shape)) for each in region.outputs] for region in regions]
        if types[0] != types[1] or are_sequences[0] != are_sequences[1]:
            raise NoRegionError("the branches return other dtypes, or other numbers of axes")
        found = build_host_branch(condition, *regions)
        return [Stacked(each) if rows else each for each, rows in zip(found, are_sequences[0], strict=True)]


def _carried(node: Node, value: Value) -> Symbol:
    """Return a state before the loop as a tensor: the elements of a sequence are rows of one."""
    if isinstance(value, Stacked):
        return value.rows
    if isinstance(value, Sequence):
        items = [node.symbol_of(item) for item in value.items if not isinstance(item, COMPOSITE)]
        if not items or len(items) < len(value.items):
            raise NoRegionError("a sequence without elements, whose type nothing says, is carried")
        if any(item.shape != items[0].shape or item.dtype is not items[0].dtype for item in items):
            raise NoRegionError("elements of a sequence that is carried differ in type")
        return stack(items, 0)
    if isinstance(value, COMPOSITE):
        raise NoRegionError("an optional value is carried")
    return node.symbol_of(value)


def _returned(node: Node, region: Region, value: Value, symbols: Symbols) -> Symbol:
    if isinstance(value, (Sequence, Stacked)):
        return region.as_symbol(_carried(node, value), "result")
    if isinstance(value, COMPOSITE):
        raise NoRegionError("an optional value is returned")
    return region.as_symbol(as_symbol(region, value, symbols, "a result"), "result")


def _region(
    node: Node, name: str, types: Ordered[TensorType], body: Callable[[Region, Symbols], list[Symbol]],
    trips: Extent | None = None,
) -> Region:  # fmt: skip
    region = Region(node.graph, f"{node.op} {name}", types, on_host=True)
    region.trips = trips
    with node.inside(region) as symbols:
        outputs = body(region, symbols)
    region.output(*outputs, names=[f"value{position}" for position in range(len(outputs))])
    return region


def _body_of(
    node: Node, step: Step, state: Ordered[Value], carried: Ordered[Symbol], trips: Extent | None
) -> tuple[Region, bool]:
    """Return the body of a loop, whose inputs have names for the sizes that change, and whether it always goes on."""
    shapes: list[Shape] = [each.shape for each in carried]
    before, symbols = mark(node.graph), dict(node.symbols)
    while True:
        rewind(node.graph, before)  # what was made for other sizes
        node.symbols.clear()
        node.symbols.update(symbols)
        try:
            region, goes_on = _with_shapes(node, step, state, carried, shapes, trips)
        except (UserError, UnsupportedError):
            opened = [
                _opened(node, shape, position, [extent == 0 for extent in shape]) for position, shape in enumerate(shapes)
            ]
            if opened == shapes:  # nothing that a body may fail for because it is empty at first
                raise
            shapes = opened
            continue
        returned = [each.shape for each in region.outputs[: len(carried)]]
        checks, own = region.shape_checks, region.own_dims
        opened = []
        for position, (first, after) in enumerate(zip(carried, region.outputs, strict=False)):
            taken, made = shapes[position], returned[position]
            if after.dtype is not first.dtype or len(made) != len(taken):
                raise NoRegionError(
                    f"a carried value is {after.dtype} {shape_text(made)}, and {first.dtype} {shape_text(taken)} before it"
                )
            changes = [not is_own(size, own) and not checks.decide(new, size) for size, new in zip(taken, made, strict=True)]
            opened.append(_opened(node, taken, position, changes))
        if opened == shapes:
            return region, goes_on
        shapes = opened


def _opened(node: Node, shape: Shape, position: int, changes: Ordered[bool]) -> Shape:
    """Return a shape with names for the sizes that change."""
    return tuple([_own_name(node, position, axis) if changes[axis] else extent for axis, extent in enumerate(shape)])


def _own_name(node: Node, position: int, axis: int) -> Dim:
    graph = node.graph
    name = f"state{position}_{axis}_{len(graph.symbols)}"
    while name in graph.outer_dims or name in graph.dim_names:
        name += "_"
    return dim(name)


def _with_shapes(
    node: Node, step: Step, state: Ordered[Value], carried: Ordered[Symbol], shapes: Ordered[Shape], trips: Extent | None
) -> tuple[Region, bool]:
    """Import a body for what it carries; return, too, whether it always goes on."""
    goes_on = [False]
    types = [TensorType(each.dtype, shape, f"state{number}") for number, (each, shape) in
             enumerate(zip(carried, shapes, strict=True))]  # fmt: skip

    def built(region: Region, symbols: Symbols) -> list[Symbol]:
        index, _, *values = region.inputs
        given: list[Value] = [
            Stacked(value) if isinstance(before, (Sequence, Stacked)) else value
            for value, before in zip(values, state, strict=True)
        ]
        results = step(node.within(region, symbols), index, given)
        for before, after in zip(state, results[1:], strict=False):
            if isinstance(before, (Sequence, Stacked)) != isinstance(after, (Sequence, Stacked)):
                raise NoRegionError("a carried value is a sequence in some iterations, and a tensor in others")
        goes_on[0] = known_truth(results[0]) is True
        found = [_returned(node, region, value, symbols) for value in results]
        return [found[0].reshape(()), *found[1:]]

    return _region(node, "body", (TensorType(int64, (), "index"), *types), built, trips), goes_on[0]
