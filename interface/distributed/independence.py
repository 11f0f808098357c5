"""Finds out whether a graph treats each element along a dim alone, so that blocks of it give what the whole gives.

Every symbol of the expanded graph either is the same for all blocks, or has one axis along which its elements are those of the
dim: the element at `i` of the dim depends on nothing but the inputs' elements at `i`. An axis may have the dim merged with
others, as a reshape of (batch, seq) to (batch * seq) does, or of (seq, batch) in PyTorch's attention: `inner` is the product of
those that vary faster, `outer` of those that vary slower.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ...graph.dims.dim import Dim, Extent
from ...graph.graph import Graph
from ...graph.location import UNKNOWN
from ...graph.symbol import Symbol
from ...graph.types import shape_text
from ...lowering.graph_passes.expand import expand
from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError


@dataclass(frozen=True, slots=True)
class Along:
    """The axis of a symbol that has the dim: its extent is `outer`, times the dim, times `inner`."""

    axis: int
    inner: Extent = 1
    outer: Extent = 1

    def moved(self, axis: int) -> Along:
        """Return the same of another axis."""
        return replace(self, axis=axis)


@dataclass(frozen=True, slots=True)
class Mixture:
    """The operation that needs several elements of the dim at once, or of which nothing is known, and why."""

    operation: str
    why: str

    def __str__(self) -> str:
        return f"{self.operation} {self.why}"


class _Mixes(Exception):
    """An operation needs several elements of the dim."""


State = Along | None


def independence(graph: Graph, dim: str) -> dict[str, State] | Mixture:
    """Return where each output has the dim, None for one that does not have it, or the operation that mixes its elements."""
    try:
        expanded = expand(graph)
    except UserError:
        symbol = _of_decided_size(graph)
        if symbol is None:
            raise
        return _mixture(symbol, f"has a size that values decide, those of all elements along {dim!r} together")
    size = Dim(dim)
    states: dict[int, State] = {}
    loops: dict[int, list[State]] = {}
    for symbol in expanded.symbols:
        try:
            states[symbol.id] = _state_after_loops(symbol, states, loops, size)
        except _Mixes as reason:
            return _mixture(symbol, str(reason))
    counts = [symbol for symbol in expanded.outputs if symbol.id in loops]
    if counts:
        return _mixture(counts[0], "is how often a loop ran, which all elements decide together")
    return {name: states[symbol.id] for name, symbol in zip(expanded.output_names, expanded.outputs, strict=True)}


def _of_decided_size(graph: Graph) -> Symbol | None:
    """Return the first symbol of a size that no input has."""
    known = {name for symbol in graph.inputs for extent in symbol.shape if isinstance(extent, Dim) for name in extent.symbols()}
    for symbol in graph.symbols:
        if any(isinstance(extent, Dim) and extent.symbols() - known for extent in symbol.shape):
            return symbol
    return None


def _state_after_loops(symbol: Symbol, states: Mapping[int, State], loops: dict[int, list[State]], size: Dim) -> State:
    """Return the state of a symbol of the graph; those of what a loop or branch returns are added to `loops`."""
    operands = [states[operand.id] for operand in symbol.inputs]
    if symbol.op.name == "region_result":
        return loops[symbol.inputs[0].id][symbol.attrs["index"]]
    if any(operand.id in loops for operand in symbol.inputs):
        raise _Mixes("uses how often a loop ran, which all elements decide together")
    if symbol.op.name in ("loop", "branch"):
        loops[symbol.id] = (_loop if symbol.op.name == "loop" else _branch)(symbol, operands, size)
        return None
    return _state(symbol, operands, size)


def _branch(symbol: Symbol, operands: Sequence[State], size: Dim) -> list[State]:
    """Return the states of what both arms of a branch return. Its condition is a scalar, and so the same for all blocks."""
    found, at = [], 1
    for region, count in zip(symbol.attrs["regions"], symbol.attrs["captured"], strict=True):
        found.append(_in_region(region, operands[at : at + count], size, "an arm"))
        at += count
    if found[0] != found[1]:
        raise _Mixes(f"has arms that return elements along {str(size)!r} in different places")
    return found[0]


def _loop(symbol: Symbol, operands: Sequence[State], size: Dim) -> list[State]:
    """Return the states of what a loop carries, and of what it returns for each iteration.

    Raises `_Mixes` unless each iteration treats the elements alone, and either all blocks have as many iterations, or an
    element stays as it is in the iterations that others need.
    """
    attrs = symbol.attrs
    carried: int = attrs["carried"]
    if _mentions(attrs["length"], size):
        raise _Mixes(f"has an iteration for each element along {str(size)!r}")
    body, *conditions = attrs["regions"]
    at = int(attrs["limited"])  # a limit is a scalar, and so the same for all blocks
    first, rest = list(operands[at : at + carried]), operands[at + carried :]
    slices = [None if each is None else each.moved(each.axis - 1) for each in rest[: attrs["sequences"]]]
    captured, asked = (rest := rest[attrs["sequences"] :])[: attrs["captured"][0]], rest[attrs["captured"][0] :]
    returned = _in_region(body, [None, *first, *slices, *captured], size, "an iteration")
    if returned[:carried] != first:
        raise _Mixes(f"carries values in which elements along {str(size)!r} change their places")
    for condition in conditions:
        try:
            decides = _in_region(condition, [None, *first, *asked], size, "a condition") != [None]
        except _Mixes:
            decides = True
        if decides and (attrs["sequences"] or len(returned) > carried or not _stays(body, condition)):
            raise _Mixes(f"ends when elements along {str(size)!r} say so together")
    stacked = [None if each is None else each.moved(each.axis + 1) for each in returned[carried:]]
    return [*first, *stacked]


def _in_region(region: Graph, given: Sequence[State], size: Dim, what: str) -> list[State]:
    """Return the states of what a region returns, from those of its inputs."""
    expanded = expand(region)
    states = {symbol.id: state for symbol, state in zip(expanded.inputs, given, strict=True)}
    loops: dict[int, list[State]] = {}
    for symbol in expanded.symbols:
        if symbol.id in states:
            continue
        try:
            states[symbol.id] = _state_after_loops(symbol, states, loops, size)
        except _Mixes as reason:
            raise _Mixes(f"has {what} in which {symbol.op.name} {reason}") from None
    if any(output.id in loops for output in expanded.outputs):
        raise _Mixes("returns how often a loop ran, which all elements decide together")
    return [states[output.id] for output in expanded.outputs]


def _stays(body: Graph, condition: Graph) -> bool:
    """Return whether an element for which a carried truth is false stays as it is from then on, and any true one goes on.

    The condition is `any` of the truth. The body returns the truth only where it was true before, and where it is not, or was
    not, what it was given.
    """
    (asked,) = condition.outputs
    if asked.op.name != "reduce_max" or set(asked.attrs["axes"]) != set(range(len(asked.inputs[0].shape))):
        return False
    ids = [symbol.id for symbol in condition.inputs]
    at = ids.index(asked.inputs[0].id) if asked.inputs[0].id in ids else 0
    if not 1 <= at <= len(body.outputs):
        return False
    before, after = body.inputs[at].id, body.outputs[at - 1]
    if after.op.name != "logical_and" or before not in [symbol.id for symbol in after.inputs]:
        return False
    for number, (given, output) in enumerate(zip(body.inputs[1:], body.outputs, strict=False), 1):
        parts = [symbol.id for symbol in output.inputs]
        keeps = output.op.name == "where" and parts[0] in (before, after.id) and parts[2] == given.id
        if not (number == at or output.id == given.id or keeps):
            return False
    return True


def _mixture(symbol: Symbol, why: str) -> Mixture:
    operands = ", ".join([f"{each.dtype} {shape_text(each.shape)}" for each in symbol.inputs])
    of = f" of {operands}" if operands else ""
    line = "" if symbol.location == UNKNOWN else f" from {symbol.location}"  # files of older versions have no lines
    return Mixture(f"{symbol.op.name}{of}{line}", why)


def _state(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    name = str(size)
    if symbol.op.kind == "source":
        return _source(symbol, size)
    if any(each is not None for each in operands):
        rule = _RULES.get(symbol.op.name) or _RULES.get(symbol.op.kind)
        if rule is None:
            raise _Mixes(f"is an operation of which joinery does not know whether it mixes elements along {name!r}")
        found = rule(symbol, operands, size)
    elif symbol.op.name == "broadcast_to":
        found = _only_axis(symbol, size)
    elif any(_mentions(extent, size) for extent in symbol.shape):
        raise _Mixes(f"makes values by their position along {name!r}")
    else:
        found = None
    # These may name the dim where they keep it, which a rule has seen to: that of slices for operands that have it alone.
    may_name = symbol.op.name in ("reshape", "broadcast_to") or (symbol.op.name == "slice" and operands[0] is not None)
    if not may_name and _mentions(list(symbol.attrs.values()), size):
        raise _Mixes(f"computes with the number {name!r}")
    others = [extent for axis, extent in enumerate(symbol.shape) if found is None or axis != found.axis]
    if _mentions(others, size):
        raise _Mixes(f"has {name!r} in several axes or in a computed size")
    return found


def _source(symbol: Symbol, size: Dim) -> State:
    if symbol.op.name == "input":
        return _only_axis(symbol, size)
    if _mentions([*symbol.shape, *symbol.attrs.values()], size):
        raise _Mixes(f"computes with the number {str(size)!r}")
    return None


def _only_axis(symbol: Symbol, size: Dim) -> State:
    """Return the one axis whose extent is the dim."""
    axes = [axis for axis, extent in enumerate(symbol.shape) if _mentions(extent, size)]
    if not axes:
        return None
    if len(axes) > 1 or symbol.shape[axes[0]] != size:
        raise _Mixes(f"has {str(size)!r} in several axes or in a computed size")
    return Along(axes[0])


def _mentions(value: object, size: Dim) -> bool:
    """Return whether a dim is in a value of an attribute, or in a region of it, which may ask for the dim anew."""
    if isinstance(value, Dim):
        return str(size) in value.symbols()
    if isinstance(value, Graph):
        return any(_mentions([*symbol.shape, *symbol.attrs.values()], size) for symbol in value.symbols)
    return isinstance(value, tuple | list) and any(_mentions(each, size) for each in value)


# --- one rule for each kind of operation: (symbol, states of the operands, dim) → state


def _joint(symbol: Symbol, found: Iterable[tuple[int, State]]) -> Along:
    """Return the state that all operands agree on, which come with the operand's number."""
    known = list(found)
    first = next(state for _, state in known if state is not None)
    for number, state in known:
        shape = symbol.inputs[number].shape
        own = first.axis - len(symbol.shape) + len(shape)
        if state is None and own >= 0 and shape[own] != 1:
            raise _Mixes("takes elements of an operand by their position in the block")
        if state is not None and state != first:
            raise _Mixes("pairs elements of different positions")
    return first


def _map(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    del size
    rank = len(symbol.shape)
    return _joint(symbol, [
        (number, None if each is None else each.moved(each.axis + rank - len(symbol.inputs[number].shape)))
        for number, each in enumerate(operands)
    ])  # fmt: skip


def _reduce(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    axes: Sequence[int] = symbol.attrs["axes"]
    if along.axis in axes:
        raise _Mixes(f"reduces over {str(size)!r}")
    before = 0 if symbol.attrs["keepdims"] else sum(axis < along.axis for axis in axes)
    return along.moved(along.axis - before)


def _scan(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    if along.axis == symbol.attrs["axis"]:
        raise _Mixes(f"runs along {str(size)!r}")
    return along


def _sort(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    if along.axis == len(symbol.inputs[0].shape) - 1:
        raise _Mixes(f"sorts along {str(size)!r}")
    return along


def _contract(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    rank = len(symbol.shape)
    found: list[tuple[int, State]] = []
    for number, each in enumerate(operands):
        own = len(symbol.inputs[number].shape)
        if each is None:
            continue
        if each.axis == own - 1 - number:
            raise _Mixes(f"contracts {str(size)!r}")
        found.append((number, each.moved(each.axis + rank - own)))
    first = found[0][1]
    if len(found) == 1 and first is not None and first.axis >= rank - 2:
        return first
    if len(found) == 1:
        number = 1 - found[0][0]
        found.append((number, None))
    return _joint(symbol, found)


def _permute(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    del size
    along = _one(operands)
    return along.moved(list(symbol.attrs["axes"]).index(along.axis))


def _broadcast(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    del size
    along = _one(operands)
    axis = along.axis + len(symbol.shape) - len(symbol.inputs[0].shape)
    if symbol.shape[axis] != symbol.inputs[0].shape[along.axis]:
        raise _Mixes("repeats a block as if it were one element")
    return along.moved(axis)


def _slice(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    starts, stops, steps = (list(symbol.attrs[name]) for name in ("starts", "stops", "steps"))
    axis = along.axis
    if (starts[axis], stops[axis], steps[axis]) != (0, symbol.inputs[0].shape[axis], 1):
        raise _Mixes(f"takes a part of {str(size)!r}")
    others = [bound[:axis] + bound[axis + 1 :] for bound in (starts, stops, steps)]
    if _mentions(others, size):
        raise _Mixes(f"computes with the number {str(size)!r}")
    return along


def _untouched(verb: str) -> Callable[[Symbol, Sequence[State], Dim], State]:
    """Return the rule of an operation that changes the axes that it names, and leaves the others where they are."""

    def rule(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
        along = _one(operands)
        if along.axis in symbol.attrs["axes"]:
            raise _Mixes(f"{verb} {str(size)!r}")
        return along

    return rule


def _pad(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    if (symbol.attrs["low"][along.axis], symbol.attrs["high"][along.axis]) != (0, 0):
        raise _Mixes(f"pads {str(size)!r}")
    return along


def _concat(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _joint(symbol, enumerate(operands))
    if along.axis == symbol.attrs["axis"]:
        raise _Mixes(f"joins arrays along {str(size)!r}")
    return along


def _reshape(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    along = _one(operands)
    source, target = symbol.inputs[0].shape, symbol.shape
    before = _product(source[: along.axis]) * along.outer
    behind = along.inner * _product(source[along.axis + 1 :])
    for axis, extent in enumerate(target):
        if _mentions(extent, size):
            outer, inner = _quotient(before, _product(target[:axis])), _quotient(behind, _product(target[axis + 1 :]))
            if outer is not None and inner is not None and outer * size * inner == extent:
                return Along(axis, inner, outer)
    raise _Mixes(f"divides {str(size)!r} among several axes")


def _quotient(extent: Extent, by: Extent) -> Extent | None:
    """Return an extent divided by another one; None where that leaves a rest, or nobody knows."""
    if by == 0:
        return None
    found = extent // by
    return found if found * by == extent else None


def _gather(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    data, positions = operands
    axis: int = symbol.attrs["axis"]
    if data is not None and (positions is not None or data.axis == axis):
        raise _Mixes(f"takes elements along {str(size)!r} by index, or of all of {str(size)!r} for each of its elements")
    if data is None:
        return None if positions is None else positions.moved(axis + positions.axis)
    behind = len(symbol.inputs[1].shape) - 1 if data.axis > axis else 0
    return data.moved(data.axis + behind)


def _along_axis(symbol: Symbol, operands: Sequence[State], size: Dim) -> State:
    """Rule of operations whose operands have equal ranks, and which mix elements along an axis alone."""
    along = _joint(symbol, enumerate(operands))
    if along.axis == symbol.attrs["axis"]:
        raise _Mixes(f"takes or puts elements along {str(size)!r} by index")
    return along


def _one(operands: Sequence[State]) -> Along:
    (along,) = operands
    assert along is not None
    return along


def _product(extents: Iterable[Extent]) -> Extent:
    result: Extent = 1
    for extent in extents:
        result = result * extent
    return result


_RULES: Mapping[str, Callable[[Symbol, Sequence[State], Dim], State]] = {
    "map": _map, "reduce": _reduce, "scan": _scan, "contract": _contract, "reshape": _reshape, "permute": _permute,
    "broadcast_to": _broadcast, "slice": _slice, "flip": _untouched("reverses"),
    "windows": _untouched("takes windows along"), "concat": _concat, "pad": _pad, "gather": _gather,
    "take_along_axis": _along_axis, "scatter": _along_axis, "sort_keys": _sort,
}  # fmt: skip
"""Rules by the name or the kind of an operation that has an operand with the dim."""
