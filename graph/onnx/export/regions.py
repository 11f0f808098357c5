"""Writes loops and branches: as If, Loop and Scan, whose subgraphs read what they capture by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ....promotion.dtype import DType, bool_, int64
from ...graph import Graph
from ...ops.control import captures_of, regions_of
from ...symbol import Symbol
from ...types import Shape
from .body import Body, OnnxNode, Subgraph
from .sizes import Sizes

_FROM_END = -(1 << 63)


class Shared(Protocol):
    """What a model's writers share."""

    sizes: Sizes


class Writer(Protocol):
    """What writes the graph that a loop or branch stands in."""

    graph: Graph
    body: Body
    names: dict[int, str]
    live: list[Symbol]

    @property
    def model(self) -> Shared: ...

    def inside(self, region: Graph, body: Body, inputs: Sequence[str]) -> list[str]: ...


_RESULTS = ("region_result", "host_result")
Declared = tuple[str, DType, "Shape | None"]


def write_branch(writer: Writer, branch: Symbol) -> None:
    """Write a branch as If."""
    arms = []
    for number, region in enumerate(regions_of(branch)):
        body = Body(outer=writer.body)
        found = _inside(writer, region, body, _captured(writer, branch, number))
        types = [(symbol.dtype, symbol.shape) for symbol in region.outputs]
        if _is_read(writer, branch):
            found, types = [*found, body.constant(number, int64)], [*types, (int64, ())]
        arms.append(Subgraph(("then", "else")[number], body, (), _returned(body, found, types)))
    count = len(arms[0].outputs)
    results = _Results(writer, branch, count, count - 1 if _is_read(writer, branch) else None)
    condition = writer.names[branch.inputs[0].id]
    node = OnnxNode("If", "", (condition,), results.names, {"then_branch": arms[0], "else_branch": arms[1]})
    if branch.op.name == "host_branch":
        node.metadata["joinery.row"] = branch.op.name
    writer.body.nodes.append(node)
    results.finish()


def write_loop(writer: Writer, loop: Symbol) -> None:
    """Write a loop: as Scan where only sequences say how often it runs and no index is read, else as Loop."""
    attrs = loop.attrs
    body = attrs["regions"][0]
    has_index = _is_among(body.inputs[0], [*body.outputs, *[each for symbol in body.symbols for each in symbol.inputs]])
    is_counted = attrs["limited"] or len(attrs["regions"]) == 2 or _is_read(writer, loop)
    if attrs["sequences"] and not is_counted and not has_index:
        _write_scan(writer, loop)
    else:
        _write_loop(writer, loop)


def _write_scan(writer: Writer, loop: Symbol) -> None:
    attrs, region = loop.attrs, loop.attrs["regions"][0]
    carried, sequences = attrs["carried"], attrs["sequences"]
    operands = [writer.names[symbol.id] for symbol in loop.inputs[: carried + sequences]]
    body = Body(outer=writer.body)
    own = [(body.name(str(each.name)), each.dtype, each.shape) for each in region.inputs[1 : 1 + carried + sequences]]
    found = writer.inside(region, body, ["", *[name for name, _, _ in own], *_captured(writer, loop, 0)])
    step = Subgraph("body", body, tuple(own), _returned(body, found, [(each.dtype, each.shape) for each in region.outputs]))
    results = _Results(writer, loop, len(found))
    given: dict[str, Any] = {"body": step, "num_scan_inputs": sequences}
    if attrs["reverse"]:
        given["scan_input_directions"] = (1,) * sequences
        if len(found) > carried:
            given["scan_output_directions"] = (1,) * (len(found) - carried)
    writer.body.nodes.append(OnnxNode("Scan", "", tuple(operands), results.names, given))
    results.finish()


def _write_loop(writer: Writer, loop: Symbol) -> None:
    """Write a loop as Loop: slices are gathered, and the condition stands before the loop and at the end of the body."""
    attrs, outer, sizes = loop.attrs, writer.body, writer.model.sizes
    regions, carried, length = attrs["regions"], attrs["carried"], attrs["length"]
    operands = [writer.names[symbol.id] for symbol in loop.inputs]
    limits, operands = operands[: int(attrs["limited"])], operands[int(attrs["limited"]) :]
    state, scanned = operands[:carried], operands[carried : carried + attrs["sequences"]]
    if not isinstance(length, int) or length >= 0:
        limits.append(sizes.scalar(length))
    trips = limits[0] if len(limits) == 1 else outer.node("Min", *limits) if limits else ""

    body, region, is_read = Body(outer=outer), regions[0], _is_read(writer, loop)
    index, again = body.name("index"), body.name("going")
    own: list[Declared] = [
        (body.name(str(each.name)), each.dtype, each.shape) for each in region.inputs[1 : 1 + carried]
    ]
    given: list[Declared] = [(index, int64, ()), (again, bool_, ()), *own]
    at = index
    if attrs["reverse"] and scanned:
        at = body.node("Sub", sizes.scalar(length - 1), index)
    slices = [body.node("Gather", each, at, axis=0) for each in scanned]
    found = writer.inside(region, body, [index, *[name for name, _, _ in own], *slices, *_captured(writer, loop, 0)])
    types = [(each.dtype, each.shape) for each in region.outputs]
    begin = "" if len(regions) == 2 else outer.constant(True, bool_)
    following = body.node("Add", index, body.constant(1, int64)) if is_read or len(regions) == 2 else ""
    if len(regions) == 2:
        captured = _captured(writer, loop, 1)
        (begin,) = writer.inside(regions[1], outer, [outer.constant(0, int64), *state, *captured])
        (again,) = writer.inside(regions[1], body, [following, *found[:carried], *captured])
    if is_read:  # how often it ran is one more value that is carried
        given.append((body.name("count"), int64, ()))
        state.append(outer.constant(0, int64))
        found.insert(carried, following)
        types.insert(carried, (int64, ()))
    step = Subgraph("body", body, tuple(given), _returned(body, [again, *found], [(bool_, ()), *types]))
    results = _Results(writer, loop, len(found), carried if is_read else None)
    first = carried + is_read
    stacked = results.names[first:] if attrs["reverse"] else ()
    backwards = [outer.name(f"{name}_backwards") for name in stacked]
    names = (*results.names[: len(found) - len(backwards)], *backwards)
    outer.nodes.append(OnnxNode("Loop", "", (trips, begin, *state), names, {"body": step}))
    for name, rows in zip(stacked, backwards, strict=True):
        outer.node("Slice", rows, outer.ints(-1), outer.ints(_FROM_END), outer.ints(0), outer.ints(-1), output=name)
    results.finish()


def write_host_loop(writer: Writer, loop: Symbol) -> None:
    """Write a loop of the host as Loop: the first value that it carries is the condition."""
    attrs, outer, (region,) = loop.attrs, writer.body, loop.attrs["regions"]
    limited, carried, is_read = int(attrs["limited"]), attrs["carried"], _is_read(writer, loop)
    operands = [writer.names[symbol.id] for symbol in loop.inputs]
    trips, going, state = operands[0] if limited else "", operands[limited], operands[limited + 1 : limited + carried]
    body = Body(outer=outer)
    index, again = body.name("index"), body.name("going")
    own: list[Declared] = [(body.name(str(each.name)), each.dtype, each.shape) for each in region.inputs[2 : 1 + carried]]
    given: list[Declared] = [(index, int64, ()), (again, bool_, ()), *own]
    found = _inside(writer, region, body, [index, again, *[name for name, _, _ in own], *_captured(writer, loop, 0)])
    types = [(each.dtype, each.shape) for each in region.outputs]
    more: list[tuple[str, DType, str]] = []  # what else is read of the loop is one more value that is carried
    if any(each.op.name == "host_result" and each.inputs[0] is loop and not each.attrs["index"] for each in writer.live):
        more.append((found[0], bool_, going))
    if is_read:
        more.append((body.node("Add", index, body.constant(1, int64)), int64, outer.constant(0, int64)))
    for number, (value, dtype, before) in enumerate(more):
        given.append((body.name("carried"), dtype, ()))
        state.append(before)
        found.insert(carried + number, value)
        types.insert(carried + number, (dtype, ()))

    def position_of(index: int) -> int:
        return carried - 1 if not index else index - 1 + (len(more) if index >= carried else 0)

    step = Subgraph("body", body, tuple(given), _returned(body, found, types))
    results = _Results(writer, loop, len(found) - 1, carried - 2 + len(more) if is_read else None, position_of)
    row = {"joinery.row": loop.op.name}
    outer.nodes.append(OnnxNode("Loop", "", (trips, going, *state), results.names, {"body": step}, row))
    results.finish()


def _inside(writer: Writer, region: Graph, body: Body, inputs: Sequence[str]) -> list[str]:
    """Write a region, in whose body the sizes are computed that it alone knows."""
    if not region.own_dims:
        return writer.inside(region, body, inputs)
    before = writer.model.sizes
    shapes = [symbol.shape for symbol in region.inputs]
    writer.model.sizes = before.inside(body, list(zip(inputs, shapes, strict=True)), region.own_dims)
    try:
        return writer.inside(region, body, inputs)
    finally:
        writer.model.sizes = before


def _captured(writer: Writer, symbol: Symbol, region: int) -> list[str]:
    return [writer.names[each.id] for each in captures_of(symbol, region)]


def _is_read(writer: Writer, symbol: Symbol) -> bool:
    """Return whether somebody reads how often a loop ran, or which region did."""
    operands = [operand for each in writer.live if each.op.name not in _RESULTS for operand in each.inputs]
    return _is_among(symbol, [*operands, *writer.graph.outputs])


def _is_among(symbol: Symbol, others: Sequence[Symbol]) -> bool:
    return any(each is symbol for each in others)


def _returned(body: Body, names: Sequence[str], types: Sequence[tuple[DType, Shape]]) -> tuple[Declared, ...]:
    """Return the outputs of a subgraph: each is the value of a node of its own body, and stands there once."""
    made = {name for node in body.nodes for name in node.outputs}
    found: list[Declared] = []
    for name, (dtype, shape) in zip(names, types, strict=True):
        output = name if name in made else body.node("Identity", name)
        made.discard(output)
        found.append((output, dtype, shape))
    return tuple(found)


class _Results:
    """The outputs of a node, which are the values of symbols.

    Attributes:
        names: of all outputs, in order.
    """

    def __init__(
        self, writer: Writer, symbol: Symbol, count: int, own: int | None = None,
        position_of: Callable[[int], int] | None = None,
    ) -> None:  # fmt: skip
        """Give results their names.

        own: the output that is the value of the loop or branch itself, before which and behind which its results stand.
        position_of: which output a result is, if it is another one.
        """
        self._writer, found = writer, dict[int, str]()
        self._copies: list[tuple[str, str]] = []

        def name(each: Symbol, position: int) -> None:
            known = writer.names.get(each.id)
            if position not in found:
                found[position] = known or writer.body.name(f"{each.op.name}_{each.id}")
                writer.names[each.id] = found[position]
            elif known is None:
                writer.names[each.id] = found[position]
            else:
                self._copies.append((found[position], known))

        for each in writer.live:
            if each.op.name in _RESULTS and each.inputs[0] is symbol:
                index = each.attrs["index"]
                name(each, position_of(index) if position_of else index + (own is not None and index >= own))
        if own is not None:
            name(symbol, own)
        self.names = tuple([found.get(position) or writer.body.name("unused") for position in range(count)])

    def finish(self) -> None:
        """Give results their other names, behind the node."""
        for source, name in self._copies:
            self._writer.body.node("Identity", source, output=name)
