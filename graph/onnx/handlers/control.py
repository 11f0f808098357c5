"""Handles operators with subgraphs: branches that are known are chosen, small loops unrolled, others become regions."""

from __future__ import annotations

from collections.abc import Sequence as Ordered
from contextlib import suppress
from dataclasses import replace

import numpy as np

from ....promotion.dtype import DType, int64
from ....promotion.errors import JoineryError, UnsupportedError, UserError
from ...construction.history import mark, rewind
from ...construction.primitives import permute
from ...functions.building import apply
from ...functions.joining import stack
from ...functions.shaping import flip
from ...symbol import Symbol
from ..loops.growing import selected
from ..loops.host_regions import CHOSEN, import_host_branch, import_host_loop
from ..loops.regions import ChangingTypeError, as_conditions, import_branch, import_loop, import_scan
from ..messages import NoRegionError
from ..model import Body
from ..node import Node, Result
from ..registry import handles
from ..tensors import dtype_of_code
from ..values import COMPOSITE, Growing, Known, Sequence, Sizes, Stacked, Value, from_items
from .branches import EitherShape

_SELECTED = 8
"""Most nodes of both branches of an If that are computed, to select between the results: that fuses, and any device does it."""
_UNROLLED = 256
"""Most nodes that loops are unrolled to: what they compute of constants stays known, kernels fuse, and any device runs them."""
_UNROLLED_BY_TYPE = 4096
"""Most nodes that loops are unrolled to whose types change: beyond that the host drives them, and compiles one iteration."""
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
        with suppress(NoRegionError):
            return tuple(import_branch(node, flag, then, otherwise))
        with suppress(NoRegionError):
            return tuple(import_host_branch(node, flag, then, otherwise))
    before, symbols, count = mark(node.graph), dict(node.symbols), len(node.graph.symbols)
    results = [as_conditions(node, node.run(body, ())) for body in (then, otherwise)]
    if any(symbol.op.name in CHOSEN for symbol in node.graph.symbols[count:]):
        rewind(node.graph, before)
        node.symbols.clear()
        node.symbols.update(symbols)
        try:
            return tuple(import_host_branch(node, flag, then, otherwise, always=True))
        except NoRegionError as error:
            needed = node.needed(condition, "which branch of an If is taken, of which one may not end, or end the run,")
            needed.add_note(f"The host cannot take one, either: {error}")
            raise needed from None
    either = EitherShape(node, flag, condition)
    return tuple([_selected(node, flag, yes, no, condition, either) for yes, no in zip(*results, strict=True)])


def _with_condition(body: Body) -> Body:
    """Return a body in which an If says of itself that it computes the first output, and that nothing else reads this."""
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
    if node.definition.row == "host_loop":
        driven = _driven(node, body, limit, going, state)
        if not isinstance(driven, NoRegionError):
            return driven
    small = isinstance(limit, Known) and int(limit.array.reshape(-1)[0]) * max(body.size, 1) <= _UNROLLED
    if small and not node.definition.is_region:
        before, symbols = mark(node.graph), dict(node.symbols)
        try:
            return _unrolled(node, body, going, state)
        except (UserError, UnsupportedError) as error:
            rewind(node.graph, before)
            node.symbols.clear()
            node.symbols.update(symbols)
            made = _as_region(node, body, limit, going, state)
            if not isinstance(made, NoRegionError):
                return made
            driven = _driven(node, body, limit, going, state)
            if isinstance(driven, NoRegionError):
                raise _refused(error, made, driven) from None
            return driven
    refusal: NoRegionError | None = None
    if truth_of(node, going) is not False:
        made = _as_region(node, body, limit, going, state)
        if not isinstance(made, NoRegionError):
            return made
        refusal = made
    is_bounded = isinstance(limit, Known) and int(limit.array.reshape(-1)[0]) * max(body.size, 1) <= _UNROLLED_BY_TYPE
    refused: NoRegionError | None = None
    if refusal is not None and not is_bounded:
        made = _driven(node, body, limit, going, state)
        if not isinstance(made, NoRegionError):
            return made
        refused = made
    before, symbols = mark(node.graph), dict(node.symbols)
    try:
        return _unrolled(node, body, going, state)
    except (UserError, UnsupportedError) as error:
        if refusal is not None and is_bounded:
            rewind(node.graph, before)
            node.symbols.clear()
            node.symbols.update(symbols)
            made = _driven(node, body, limit, going, state)
            if not isinstance(made, NoRegionError):
                return made
            refused = made
        raise _refused(error, refusal, refused) from None


def _driven(
    node: Node, body: Body, limit: Value | None, going: Value, state: list[Value]
) -> tuple[Value, ...] | NoRegionError:
    """Return the results of a loop that the host drives, or why there is none."""
    try:
        return tuple(import_host_loop(node, body, limit, going, state))
    except NoRegionError as error:
        return error


def _refused(error: JoineryError, refusal: NoRegionError | None, driven: NoRegionError | None = None) -> JoineryError:
    """Return the error for a Loop that can neither be unrolled nor be a loop of the graph or of the host."""
    if refusal is None:
        return error
    if driven is not None:
        error.add_note(f"The host cannot drive it, either: {driven}")
    needs = (*getattr(error, "inputs", ()), *getattr(error, "sizes", ()))
    if refusal.growing and not needs and isinstance(error, UnsupportedError):
        names = ", ".join(map(repr, refusal.growing))
        found = UnsupportedError(
            f"a Loop that data ends, and whose body reads {names}, which grows with each iteration, is not supported; "
            "fix: carry a tensor of the largest size, and a count of what is used of it"
        )
        found.add_note(f"What the body does with it: {refusal}")
        if driven is not None:
            found.add_note(f"The host cannot drive it, either: {driven}")
        return found
    error.add_note(f"It is no loop of the graph, either: {refusal}")
    return error


def _as_region(
    node: Node, body: Body, limit: Value | None, going: Value, state: list[Value]
) -> tuple[Value, ...] | NoRegionError:
    """Return the results of a loop of the graph, or why there is none.

    States whose types change are tried as states that are only appended to.
    """
    rows = len(body.outputs) - 1 - len(state)
    growing = {position for position, value in enumerate(state) if isinstance(value, (Sequence, Stacked))}
    while True:
        try:
            return tuple(import_loop(node, body, limit, going, state, rows, growing))
        except ChangingTypeError as error:
            if error.position in growing:
                return error
            growing.add(error.position)
        except NoRegionError as error:
            error.growing = tuple([body.inputs[2 + position].name for position in sorted(growing)])
            return error


def _unrolled(node: Node, body: Body, going: Value, state: list[Value]) -> Result:
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
        results = node.run(body, (Known(np.array(count, np.int64)), going, *state))
        going, state = results[0], results[1 : 1 + len(state)]
        if active is None:
            kept = state
        else:
            flag = active
            kept = [_selected(node, flag, after, before, going) for after, before in zip(state, kept, strict=True)]
        for scan, value in zip(scans, results[1 + len(state) :], strict=True):
            scan.append(value)
        count += 1
    finished = [stacked(node, scan, 0, body, 1 + len(state) + number) for number, scan in enumerate(scans)]
    return tuple([*kept, *finished])


@handles("Scan", since=9, structural=True)
def scan(node: Node) -> Result:
    """Make a scan over the slices of tensors a loop of the graph; unroll small ones, and those whose types change."""
    body: Body = node.attr("body")
    count = node.attr("num_scan_inputs")
    node.require(0 < count <= len(node), f"num_scan_inputs is {count} of {len(node)} inputs")
    states = len(node) - count
    results = len(body.outputs) - states
    in_axes = node.attr("scan_input_axes", None) or [0] * count
    out_axes = node.attr("scan_output_axes", None) or [0] * results
    backwards = node.attr("scan_input_directions", None) or [0] * count
    prepends = node.attr("scan_output_directions", None) or [0] * results
    sources = [node.value(states + number) for number in range(count)]
    axes = [node.axis(axis, len(node.shape(states + number))) for number, axis in enumerate(in_axes)]
    lengths = {node.shape(states + number)[axis] for number, axis in enumerate(axes)}
    (trips,) = lengths if len(lengths) == 1 else (-1,)
    node.require(trips != -1, f"the scanned axes have sizes {lengths}; equal ones are expected")
    state = [node.value(position) for position in range(states)]
    if not isinstance(trips, int) or trips * max(body.size, 1) > _UNROLLED or node.definition.is_region:
        reverse = all(backwards) and all(prepends)
        with suppress(NoRegionError):
            scanned = zip(sources, axes, backwards, strict=True)
            tensors = [_to_front(node.symbol_of(source), axis, bool(back) and not reverse) for source, axis, back in scanned]
            made = import_scan(node, body, state, tensors, trips, reverse)
            rows = [
                _from_front(node.symbol_of(value), node.axis(axis, _rank(value)), bool(prepend) and not reverse)
                for value, axis, prepend in zip(made[states:], out_axes, prepends, strict=True)
            ]
            return tuple([*made[:states], *rows])
    if not isinstance(trips, int):
        raise node.size_needed((trips,), f"a Scan of {trips} iterations")
    require_unrollable(node, trips, body)
    scans: list[list[Value]] = [[] for _ in range(results)]
    for step in range(trips):
        slices = [
            element(node, source, trips - 1 - step if back else step, axis)
            for source, axis, back in zip(sources, axes, backwards, strict=True)
        ]
        made = node.run(body, (*state, *slices))
        state = made[:states]
        for each, value in zip(scans, made[states:], strict=True):
            each.append(value)
    finished = []
    for number, (each, axis, prepend) in enumerate(zip(scans, out_axes, prepends, strict=True)):
        rank = len(body.outputs[states + number].sizes or ()) if not each else _rank(each[0])
        ordered = each[::-1] if prepend else each
        finished.append(stacked(node, ordered, node.axis(axis, rank + 1), body, states + number))
    return tuple([*state, *finished])


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
    """Unroll a scan of opset 8, whose tensors begin with a batch axis. Rows after the end of a sequence are zeros."""
    body: Body = node.attr("body")
    count = node.attr("num_scan_inputs")
    backwards = node.attr("directions", None) or [0] * count
    states = len(node) - 1 - count
    shape = node.static_shape(1 + states)
    node.require(len(shape) >= 2, f"a tensor of {len(shape)} axes to scan; a batch and a sequence come first")
    batch, trips = shape[:2]
    require_unrollable(node, batch * trips, body)
    lengths = _lengths(node, batch, trips)
    scans: list[list[list[Value]]] = []
    rows: list[list[Value]] = [[] for _ in body.outputs]
    for row, length in enumerate(lengths):
        values = [element(node, node.value(position), row) for position in range(1, len(node))]
        state, sources = values[:states], values[states:]
        scans.append([[] for _ in range(len(body.outputs) - states)])
        for step in range(length if isinstance(length, int) else trips):
            ends = [length if back else None for back in backwards]
            slices = [_slice_of(node, each, step, end) for each, end in zip(sources, ends, strict=True)]
            made = node.run(body, (*state, *slices))
            if isinstance(length, Symbol):
                made = _if_inside(node, apply("greater", length, step), made, state, length)
            state = made[:states]
            for each, value in zip(scans[row], made[states:], strict=True):
                each.append(value)
        for total, value in zip(rows, state, strict=False):
            total.append(value)
    for number in range(states, len(rows)):
        for scan in scans:
            made = scan[number - states]
            filled = [*made, *[_zeros(node, made[0]) for _ in range(trips - len(made))]] if made else made
            rows[number].append(stacked(node, filled, 0, body, number))
    return tuple([stacked(node, each, 0, body, number) for number, each in enumerate(rows)])


def _lengths(node: Node, batch: int, trips: int) -> tuple[int | Symbol, ...]:
    """Return how long each sequence of a scan is: numbers, or scalars where data says so, of which `trips` is the most."""
    given = node.value(0) if node.has(0) else None
    if isinstance(given, Symbol):
        node.require(given.shape == (batch,), f"sequence_lens of shape {given.shape} for {batch} sequences")
        whole = apply("minimum", given.cast(int64), trips)
        return tuple([whole[row] for row in range(batch)])
    lengths = node.ints(0, "the sequence_lens of Scan") if node.has(0) else (trips,) * batch
    fits = len(lengths) == batch and all(0 < length <= trips for length in lengths)
    node.require(fits, f"sequence_lens {lengths} for {batch} sequences of {trips}")
    return lengths


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
    return Known(np.zeros(node.static_sizes(symbol.shape, "an output of Scan"), symbol.dtype.numpy))
