"""Handles operators with subgraphs: branches that are known are chosen, small loops unrolled, others become regions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Ordered
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from ....promotion.dtype import DType, string
from ....promotion.errors import JoineryError, UnsupportedError
from ...construction.primitives import permute
from ...dims.dim import Extent
from ...functions.building import apply
from ...functions.joining import stack
from ...functions.shaping import flip
from ...ops.control import regions_of
from ...ops.host import is_host
from ...region import is_compiled_region
from ...symbol import Symbol
from ...types import Shape, shape_text
from ..loops.batched import BatchedScan, lengths_of
from ..loops.diverging import ends_runs
from ..loops.growing import selected
from ..loops.host_regions import import_host_branch, import_host_loop, import_host_scan
from ..loops.regions import (
    ChangingTypeError,
    Step,
    as_conditions,
    attempting,
    import_branch,
    import_loop,
    import_scan,
)
from ..messages import NoRegionError, SizeNeededError
from ..model import Body
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code, is_addressable
from ..values import COMPOSITE, Growing, Known, Sequence, Sizes, Stacked, Value, from_items
from .branches import EitherShape

_SELECTED = 8
"""Most nodes of both branches of an If that are computed, to select between the results: that fuses, and any device does it."""
_UNROLLED = 256
"""Most nodes that loops are unrolled to: what they compute of constants stays known, kernels fuse, and any device runs them."""
_UNROLLED_BY_TYPE = 4096
"""Most nodes that loops are unrolled to whose types change: beyond that the host drives them, and compiles one iteration."""
_LOOPS = frozenset(("Loop", "Scan", "SequenceMap", "RNN", "GRU", "LSTM"))
_PLAIN = frozenset(("", "ai.onnx.ml", "com.microsoft"))
"""Domains whose other operators have no loops."""
_GROWTH = 16
"""Most operations for each of these nodes: a node may be a function, or a loop that is unrolled itself."""
_UNROLLED_ON_HOST = 64
"""Most operations of the host that loops are unrolled to: each ends a part of a staged model."""
_MAX_COMPARED = 64
"""Most elements of constants that are compared."""


def truth_of(node: Node, value: Value) -> bool | None:
    """Return a condition if it is known, else None."""
    if isinstance(value, Known):
        node.require(value.array.size == 1, f"a condition of {value.array.size} elements; one is expected")
        return bool(value.array.reshape(-1)[0])
    return None


@handles("If", structural=True)
def if_(node: Node) -> Result:
    """Import the branch of a known condition. Of another one both become regions, or one selects between their results."""
    condition = node.value(0)
    then, otherwise = node.attr("then_branch"), node.attr("else_branch")
    counts = len(then.outputs), len(otherwise.outputs)
    node.require(counts[0] == counts[1], f"branches of {counts[0]} and {counts[1]} outputs; equally many are expected")
    if node.definition.is_condition:
        then, otherwise = _with_condition(then), _with_condition(otherwise)
    known = truth_of(node, condition)
    if known is not None:
        return tuple(node.run(then if known else otherwise, ()))
    flag = node[0].reshape(())
    if node.definition.row == "host_branch":
        with suppress(NoRegionError):
            return tuple(import_host_branch(node, flag, then, otherwise, always=True))
    if then.size + otherwise.size > _SELECTED or node.definition.is_region:
        try:
            return tuple(import_branch(node, flag, then, otherwise))
        except NoRegionError as refusal:
            if is_compiled_region(node.graph) and (refusal.needs_host or _is_inner(refusal)):
                raise _cause(refusal) from None  # so does the region around it, or what is selected between
        if _may_loop(then) or _may_loop(otherwise):
            try:
                return tuple(import_host_branch(node, flag, then, otherwise))
            except NoRegionError as refusal:
                if not is_compiled_region(node.graph) and _is_inner(refusal):
                    raise _cause(refusal) from None
    try:
        with attempting(node):
            before = len(node.graph.symbols)
            results = [as_conditions(node, node.run(body, ())) for body in (then, otherwise)]
            if ends_runs(node.graph.symbols[before:]):
                raise NoRegionError(
                    "a branch of an If that may end the run, and that the host cannot take here, is not supported; fix: let "
                    "data decide it outside of loops, and both branches return one dtype and rank"
                )
            either = EitherShape(node, flag, condition)
            return tuple([_selected(node, flag, yes, no, condition, either) for yes, no in zip(*results, strict=True)])
    except NoRegionError as refusal:
        error = _cause(refusal)
        is_specialised = getattr(error, "inputs", ()) or getattr(error, "sizes", ())
        if not is_specialised and not _is_inner(refusal):
            with suppress(NoRegionError):
                return tuple(import_host_branch(node, flag, then, otherwise, always=True))
        raise error from None


def _cause(refusal: NoRegionError) -> JoineryError:
    """Return the error for which a subgraph is no region."""
    return refusal.__cause__ if isinstance(refusal.__cause__, JoineryError) else refusal


def _is_inner(refusal: NoRegionError) -> bool:
    """Return whether a node of the subgraph cannot be imported: then no other way to import it there can, and trying each way
    at each depth would take twice as long for each level."""
    return hasattr(_cause(refusal), "onnx_node")


def _may_loop(body: Body) -> bool:
    """Return whether loops may stand in a body, or in functions that it calls."""
    for node in body.nodes:
        if node.op in _LOOPS or node.domain not in _PLAIN:
            return True
        if any(isinstance(attribute.value, Body) and _may_loop(attribute.value) for attribute in node.attributes.values()):
            return True
    return False


def _with_condition(body: Body) -> Body:
    """Return a body in which an If says of itself that it computes the first output, and that nothing else reads this."""
    if not body.outputs:
        return body
    name = body.outputs[0].name
    read = [each for node in body.nodes for each in (*node.inputs, *node.captured)]
    if name in read or name in [output.name for output in body.outputs[1:]]:
        return body
    nodes = [replace(each, is_condition=True) if each.op == "If" and each.outputs == (name,) else each for each in body.nodes]
    return replace(body, nodes=tuple(nodes))


def _selected(
    node: Node, flag: Symbol, yes: Value, no: Value, condition: Value, either: EitherShape | None = None
) -> Value:
    """Return one of two values. either: selects between tensors of other sizes, where that is possible."""
    if yes is no or (isinstance(yes, Known) and isinstance(no, Known) and _same(yes, no)):
        return yes
    if isinstance(yes, Growing) and isinstance(no, Growing):
        both = selected(node, flag, yes, no)
        if both is not None:
            return both
    if isinstance(yes, COMPOSITE) or isinstance(no, COMPOSITE):
        raise node.needed(condition, "the type of what an If returns")
    first, second = node.symbol_of(yes), node.symbol_of(no)
    if first.shape != second.shape or first.dtype is not second.dtype:
        if either is None:
            raise node.needed(condition, "the type of what an If returns")
        return either.selected(first, second)
    return apply("where", flag, first, second)


def _same(x: Known, y: Known) -> bool:
    """Return whether small constants are the same bits: what a condition selects between is then known."""
    if x.dtype is not y.dtype or x.shape != y.shape or x.array.size > _MAX_COMPARED or x.array.dtype.hasobject:
        return False
    return x.array.tobytes() == y.array.tobytes()


def element(node: Node, value: Value, position: int, axis: int = 0) -> Value:
    """Return one slice of a tensor along an axis, without the axis."""
    if isinstance(value, Known):
        return Known(np.take(value.array, position, axis=axis))
    if isinstance(value, Sizes):
        found = from_items(value.items[position : position + 1].reshape(()), value.dtype)
        if found is not None:
            return found
    return node.symbol_of(value)[(*(slice(None),) * axis, position)]


def stacked(node: Node, values: Ordered[Value], axis: int, body: Body, output: int) -> Value:
    """Return slices as one tensor along a new axis; of none, with the element that the body declares."""
    if values and all(isinstance(value, Known) for value in values):
        return Known(np.stack([value.array for value in values if isinstance(value, Known)], axis))
    if values:
        return stack([node.symbol_of(value) for value in values], axis)
    declared = body.outputs[output]
    sizes = declared.sizes
    if sizes is None or not all(isinstance(size, int) and size >= 0 for size in sizes):
        node.unsupported("the result of no iterations, whose shape is not declared", "declare the type of the body's output")
    shape = [size for size in sizes or () if isinstance(size, int)]
    shape.insert(axis, 0)
    dtype: DType = dtype_of_code(declared.element, "the body's output")
    node.require(is_addressable(shape, np.dtype(dtype.numpy).itemsize), f"the result of no iterations of shape {shape}")
    return Known(np.zeros(shape, dtype.numpy))


def require_unrollable(node: Node, trips: int, body: Body) -> None:
    """Raise `UserError` for more nodes than the limit of unrolling."""
    limit = node.limits.unrolled_nodes
    node.require(
        trips * max(body.size, 1) <= limit, f"{trips} iterations of {body.size} nodes would be unrolled to more than {limit}",
        "limits=OnnxLimits(unrolled_nodes=…)",
    )  # fmt: skip


@handles("Loop", structural=True)
def loop(node: Node) -> Result:
    """Unroll a small loop of known trip count, and make others loops of the graph, if all iterations have the same types.

    A condition that is data ends such a loop early by selection: later iterations go on from what they computed, which is
    dropped, so that counters stay known.
    """
    body = _with_condition(node.attr("body"))
    limit = node.value(0) if node.has(0) else None
    going: Value = node.value(1) if node.has(1) else Known(np.array(True))
    state = [node.value(position) for position in range(2, len(node))]
    fits = len(body.inputs) == 2 + len(state) and len(body.outputs) > len(state)
    node.require(fits, f"a body of {len(body.inputs)} inputs and {len(body.outputs)} outputs for {len(state)} states")
    node.require(not isinstance(limit, Known) or limit.array.size == 1, "a trip count that is not one number")
    nodes = int(limit.array.reshape(-1)[0]) * max(body.size, 1) if isinstance(limit, Known) else None
    if truth_of(node, going) is False and node.definition.row != "host_loop":
        return tuple(_unrolled(node, body, going, state, _Growth(node, 0)))  # there is no iteration
    ways: _Ways = {
        "unrolled": lambda growth: _unrolled(node, body, going, state, growth),
        "region": lambda _: _as_region(node, body, limit, going, state),
        "driven": lambda _: import_host_loop(node, body, limit, going, state),
    }
    return _by_first(node, ways, nodes)


class _TooLargeError(NoRegionError):
    """An unrolled loop adds too many operations to the graph."""


class _Growth:
    """Counts what an unrolled loop adds to a graph.

    nodes: how many nodes the loop is taken for; 0 for any number.
    """

    def __init__(self, node: Node, nodes: int) -> None:
        self._graph, self._seen, self._most = node.graph, len(node.graph.symbols), _GROWTH * nodes
        self._all = self._on_host = 0

    def check(self) -> None:
        """Raise `NoRegionError` for more operations than a loop is to be unrolled to."""
        added = self._graph.symbols[self._seen :]
        self._seen += len(added)
        self._all += _size_of(added)
        self._on_host += sum(is_host([each.dtype for each in symbol.inputs], symbol.op.kind, symbol.dtype) for symbol in added)
        if self._most and (self._all > self._most or self._on_host > _UNROLLED_ON_HOST):
            raise _TooLargeError(
                "unrolled, it has too many operations; fix: carry values that keep their dtype and number of axes"
            )


def _size_of(symbols: Ordered[Symbol]) -> int:
    """Return how many operations there are, with those of regions."""
    return len(symbols) + sum(_size_of(region.symbols) for symbol in symbols for region in regions_of(symbol))


_Ways: TypeAlias = Mapping[str, Callable[[_Growth], Ordered[Value]]]


def _by_first(node: Node, ways: _Ways, nodes: int | None) -> tuple[Value, ...]:
    """Return the results of a loop in the first way that imports it: unrolled, as one of the graph, or of the host.

    nodes: of all iterations, if that is known.
    """
    order, most = ["region", "unrolled", "driven"], _UNROLLED_BY_TYPE
    if nodes is None or nodes > _UNROLLED_BY_TYPE:
        order, most = ["region", "driven", "unrolled"], 0
    elif nodes <= _UNROLLED and not node.definition.is_region:
        order, most = ["unrolled", "region", "driven"], _UNROLLED
    body = node.attr("body")
    if id(body) in node.too_large:
        order, most = ["region", "driven", "unrolled"], 0
    if node.definition.row == "host_loop":
        order = ["driven", *[way for way in order if way != "driven"]]
    refused: dict[str, NoRegionError] = {}
    while order:
        way = order.pop(0)
        try:
            with attempting(node):
                return tuple(ways[way](_Growth(node, most)))
        except _TooLargeError as error:
            refused[way], node.too_large[id(body)] = error, body
            order, most = [*order, *(["unrolled"] if most else [])], 0  # where there is no other way
        except NoRegionError as error:
            refused[way] = error
        if way == "region" and refused[way].needs_host and "driven" in order:  # which unrolled iterations would need as often
            order.sort(key=["driven", "unrolled"].index)
    raise _refused(_cause(refused["unrolled"]), refused["region"], refused["driven"])


def _refused(error: JoineryError, refusal: NoRegionError, driven: NoRegionError) -> JoineryError:
    """Return the error for a loop that can neither be unrolled nor be one of the graph or of the host."""
    error.add_note(f"The host cannot drive it, either: {driven}")
    needs = (*getattr(error, "inputs", ()), *getattr(error, "sizes", ()))
    sizes = _sizes_needed(refusal)
    if sizes is not None and not needs:
        return sizes
    if refusal.growing and not needs and isinstance(error, UnsupportedError):
        names = ", ".join(map(repr, refusal.growing))
        found = UnsupportedError(
            f"a Loop that data ends, and whose body reads {names}, which grows with each iteration, is not supported; "
            "fix: carry a tensor of the largest size, and a count of what is used of it"
        )
        found.add_note(f"What the body does with it: {refusal}")
        found.add_note(f"The host cannot drive it, either: {driven}")
        return found
    error.add_note(f"It is no loop of the graph, either: {refusal}")
    return error


def _sizes_needed(refusal: NoRegionError) -> SizeNeededError | None:
    """Return the error that a body was refused with for sizes of inputs, with which it may be a region."""
    cause = refusal.__cause__
    return cause if isinstance(cause, SizeNeededError) and cause.sizes else None


def _as_region(
    node: Node, body: Body, limit: Value | None, going: Value, state: list[Value]
) -> list[Value]:
    """Return the results of a loop of the graph. Raises `NoRegionError`.

    States whose types change are tried as states that are only appended to.
    """
    rows = len(body.outputs) - 1 - len(state)
    growing = {position for position, value in enumerate(state) if isinstance(value, (Sequence, Stacked))}
    while True:
        try:
            return import_loop(node, body, limit, going, state, rows, growing)
        except ChangingTypeError as error:
            if error.position in growing:
                raise
            growing.add(error.position)
        except NoRegionError as error:
            error.growing = tuple([body.inputs[2 + position].name for position in sorted(growing)])
            raise


def _unrolled(node: Node, body: Body, going: Value, state: list[Value], growth: _Growth) -> list[Value]:
    trips = node.integer(0, "the trip count of Loop") if node.has(0) else None
    scans: list[list[Value]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    active: Symbol | None = None
    first: Value = going
    kept = state
    count = 0
    while trips is None or count < trips:
        known = truth_of(node, going)
        if known is False:
            break
        if known is None:
            if scans:
                raise node.needed(going, "the number of iterations of Loop")
            flag = node.symbol_of(going).reshape(())
            first = going if active is None else first
            active = flag if active is None else apply("logical_and", active, flag)
        if active is not None and (count + 1) * max(body.size, 1) > node.limits.unrolled_nodes:
            raise node.needed(first, "the number of iterations of Loop, which nothing else bounds,")
        require_unrollable(node, count + 1, body)
        results = node.run(body, (Known(np.array(count, np.int64)), going, *state), count)
        going, state = results[0], results[1 : 1 + len(state)]
        if active is None:
            kept = state
        else:
            flag = active
            kept = [_selected(node, flag, after, before, going) for after, before in zip(state, kept, strict=True)]
        for scan, value in zip(scans, results[1 + len(state) :], strict=True):
            scan.append(value)
        growth.check()
        count += 1
    finished = [stacked(node, scan, 0, body, 1 + len(state) + number) for number, scan in enumerate(scans)]
    return [*kept, *finished]


@handles("Scan", since=9, structural=True)
def scan(node: Node) -> Result:
    """Make a scan over slices of tensors a loop of the graph or of the host; unroll small ones."""
    body: Body = node.attr("body")
    count = node.attr("num_scan_inputs")
    node.require(0 < count <= len(node), f"num_scan_inputs is {count} of {len(node)} inputs")
    states = len(node) - count
    results = len(body.outputs) - states
    node.require(results >= 0, f"{states} states, and a body of {len(body.outputs)} outputs")
    in_axes = node.attr("scan_input_axes", None) or [0] * count
    out_axes = node.attr("scan_output_axes", None) or [0] * results
    backwards = node.attr("scan_input_directions", None) or [0] * count
    prepends = node.attr("scan_output_directions", None) or [0] * results
    for given, wanted, what in ((in_axes, count, "axes of inputs"), (backwards, count, "directions of inputs"),
                                (out_axes, results, "axes of outputs"), (prepends, results, "directions of outputs")):
        node.require(len(given) == wanted, f"{len(given)} {what}; {wanted} are expected")
    sources = [node.value(states + number) for number in range(count)]
    axes = [node.axis(axis, len(node.shape(states + number))) for number, axis in enumerate(in_axes)]
    trips = _agree_in_length(node, sources, axes)
    state = [node.value(position) for position in range(states)]
    step: Step = lambda inner, index, values: node.run(body, values, index)  # noqa: E731

    def scanned(reverse: bool) -> list[Symbol]:
        given = zip(sources, axes, backwards, strict=True)
        return [_to_front(node.symbol_of(source), axis, bool(back) and not reverse) for source, axis, back in given]

    def in_place(made: list[Value], reverse: bool) -> list[Value]:
        rows = [
            _from_front(node.symbol_of(value), node.axis(axis, _rank(value)), bool(prepend) and not reverse)
            for value, axis, prepend in zip(made[states:], out_axes, prepends, strict=True)
        ]
        return [*made[:states], *rows]

    def as_region(_: _Growth) -> list[Value]:
        reverse = all(backwards) and all(prepends)
        return in_place(import_scan(node, step, state, scanned(reverse), trips, reverse), reverse)

    def unrolled(growth: _Growth) -> list[Value]:
        return _unrolled_scan(node, body, state, sources, trips, axes, backwards, out_axes, prepends, growth)

    driven = lambda _: in_place(import_host_scan(node, step, state, scanned(False), trips), False)  # noqa: E731
    nodes = trips * max(body.size, 1) if isinstance(trips, int) else None
    return _by_first(node, {"unrolled": unrolled, "region": as_region, "driven": driven}, nodes)


def _unrolled_scan(
    node: Node, body: Body, state: list[Value], sources: Ordered[Value], trips: Extent, axes: Ordered[int],
    backwards: Ordered[int], out_axes: Ordered[int], prepends: Ordered[int], growth: _Growth,
) -> list[Value]:  # fmt: skip
    if not isinstance(trips, int):
        raise node.size_needed((trips,), f"a Scan of {trips} iterations")
    require_unrollable(node, trips, body)
    states = len(state)
    scans: list[list[Value]] = [[] for _ in prepends]
    for step in range(trips):
        slices = [
            element(node, source, trips - 1 - step if back else step, axis)
            for source, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        made = node.run(body, (*state, *slices), step)
        state = made[:states]
        for each, value in zip(scans, made[states:], strict=True):
            each.append(value)
        growth.check()
    finished = []
    for number, (each, axis, prepend) in enumerate(zip(scans, out_axes, prepends, strict=True)):
        rank = len(body.outputs[states + number].sizes or ()) if not each else _rank(each[0])
        ordered = each[::-1] if prepend else each
        finished.append(stacked(node, ordered, node.axis(axis, rank + 1), body, states + number))
    return [*state, *finished]


def _agree_in_length(node: Node, sources: list[Value], axes: Ordered[int]) -> Extent:
    """Return the length of scanned axes. Those whose sizes are not known to be equal are made so, which a launch checks."""
    lengths = [source.shape[axis] for source, axis in zip(sources, axes, strict=True) if not isinstance(source, COMPOSITE)]
    trips = next((length for length in lengths if isinstance(length, int)), lengths[0])
    decide = node.graph.shape_checks.decide
    node.require(
        all(decide(length, trips) is not False for length in lengths),
        f"the scanned axes have sizes {', '.join(map(str, lengths))}; equal ones are expected",
    )
    for number, (length, axis) in enumerate(zip(lengths, axes, strict=True)):
        if length != trips:
            symbol = node.symbol_of(sources[number])
            sizes = [trips if each == axis else None for each in range(len(symbol.shape))]
            sources[number] = node.agreeing(symbol, sizes, f"a scanned tensor {number}")
    return trips


def _to_front(x: Symbol, axis: int, is_reversed: bool) -> Symbol:
    """Return a tensor with the scanned axis in front, in the order of iterations."""
    moved = permute(x, (axis, *[each for each in range(len(x.shape)) if each != axis]))
    return flip(moved, 0) if is_reversed else moved


def _from_front(x: Symbol, axis: int, is_reversed: bool) -> Symbol:
    """Return stacked rows, which lie along axis 0, along another axis."""
    order = list(range(1, len(x.shape)))
    order.insert(axis, 0)
    return permute(flip(x, 0) if is_reversed else x, order)


def _rank(value: Value) -> int:
    return 0 if isinstance(value, COMPOSITE) else len(value.shape)


@handles("Scan", since=8, structural=True)
def scan_with_batch(node: Node) -> Result:
    """Make a scan of opset 8, whose tensors begin with a batch axis, two loops of the graph or of the host; unroll small ones.

    Rows after the end of a sequence are zeros.
    """
    body: Body = node.attr("body")
    count = node.attr("num_scan_inputs")
    backwards = node.attr("directions", None) or [0] * count
    states = len(node) - 1 - count
    node.require(count > 0 and states >= 0, f"num_scan_inputs is {count} of {len(node) - 1} inputs behind sequence_lens")
    node.require(len(backwards) == count, f"{len(backwards)} directions of {count} tensors to scan")
    node.require(len(body.outputs) >= states, f"{states} states, and a body of {len(body.outputs)} outputs")
    shapes = [node.shape(position) for position in range(1, len(node))]
    short = [shape for number, shape in enumerate(shapes) if len(shape) < 1 + (number >= states)]
    node.require(not short, f"a tensor of {len(short[0]) if short else 0} axes to scan; a batch and a sequence come first")
    batch, trips = shapes[states][:2]
    for sizes in ([shape[0] for shape in shapes], [shape[1] for shape in shapes[states:]]):
        alike = len(set(sizes)) == 1 or len(set(node.static_sizes(sizes, "what is scanned"))) == 1
        node.require(alike, f"tensors of shapes {', '.join(map(shape_text, shapes))}; equally many sequences are expected")
    lengths = lengths_of(node, batch, trips)

    def nested() -> BatchedScan:
        ends = None if lengths is None else node.symbol_of(lengths)
        values = [node[position] for position in range(1, len(node))]
        return BatchedScan(node, body, ends, values[:states], values[states:], [bool(back) for back in backwards])

    nodes = batch * trips * max(body.size, 1) if isinstance(batch, int) and isinstance(trips, int) else None
    ways: _Ways = {
        "unrolled": lambda growth: _unrolled_batch(node, body, states, shapes[states], lengths, backwards, growth),
        "region": lambda _: nested().as_region(),
        "driven": lambda _: nested().driven(),
    }
    return _by_first(node, ways, nodes)


def _unrolled_batch(
    node: Node, body: Body, states: int, shape: Shape, ends: Known | Symbol | None, backwards: Ordered[int], growth: _Growth
) -> list[Value]:
    batch, trips = node.static_sizes(shape[:2], "a tensor to scan")
    require_unrollable(node, batch * trips, body)
    lengths: list[int | Symbol] = [trips] * batch
    if ends is not None:
        lengths = ends.array.tolist() if isinstance(ends, Known) else [ends[row] for row in range(batch)]
    scans: list[list[list[Value]]] = []
    rows: list[list[Value]] = [[] for _ in body.outputs]
    for row, length in enumerate(lengths):
        values = [element(node, node.value(position), row) for position in range(1, len(node))]
        state, sources = values[:states], values[states:]
        scans.append([[] for _ in range(len(body.outputs) - states)])
        for step in range(length if isinstance(length, int) else trips):
            at = [length if back else None for back in backwards]
            slices = [_slice_of(node, each, step, end) for each, end in zip(sources, at, strict=True)]
            made = node.run(body, (*state, *slices), row * trips + step)
            if isinstance(length, Symbol):
                made = _if_inside(node, apply("greater", length, step), made, state, length)
            state = made[:states]
            for each, value in zip(scans[row], made[states:], strict=True):
                each.append(value)
            growth.check()
        for total, value in zip(rows, state, strict=False):
            total.append(value)
    for number in range(states, len(rows)):
        for scan in scans:
            made = scan[number - states]
            filled = [*made, *[_zeros(node, made[0]) for _ in range(trips - len(made))]] if made else made
            rows[number].append(stacked(node, filled, 0, body, number))
    return [stacked(node, each, 0, body, number) for number, each in enumerate(rows)]


def _slice_of(node: Node, source: Value, step: int, end: int | Symbol | None) -> Value:
    """Return the slice of a step. end: where the sequence ends, if it is taken from there."""
    if end is None or isinstance(end, int):
        return element(node, source, step if end is None else end - 1 - step)
    at = apply("maximum", apply("sub", end, step + 1), 0)
    return apply("gather", node.symbol_of(source), at, axis=0)


def _if_inside(node: Node, flag: Symbol, made: list[Value], state: Ordered[Value], length: Symbol) -> list[Value]:
    """Return what a step gives of a sequence that may have ended: the state of before then, and rows of zeros."""
    kept = [_selected(node, flag, after, before, length) for after, before in zip(made, state, strict=False)]
    return [*kept, *[_selected(node, flag, row, _zeros(node, row), length) for row in made[len(state) :]]]


def _zeros(node: Node, like: Value) -> Known:
    """Return zeros of the type of a tensor."""
    symbol = node.symbol_of(like)
    sizes = node.static_sizes(symbol.shape, "an output of Scan")
    return Known(np.full(sizes, "", object) if symbol.dtype is string else np.zeros(sizes, symbol.dtype.numpy))
