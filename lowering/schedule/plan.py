"""Schedules a graph: makes its kernels as nests in order, and the buffers between them and their memory."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from ...graph.checks import Check
from ...graph.graph import Graph
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from ..control.steps import Step, steps_text
from ..nest import Buffer, BufferKind, Nest
from .body import NeedsBufferError
from .fusion.grouping import Grouping
from .fusion.passes import in_one_pass
from .fusion.shared_borders import shared_borders
from .fusion.storage import assign_storage
from .fusion.turned_joins import turned_joins
from .groups import Group
from .memory import Lifetime, MemoryPlan, plan_memory
from .nests import EmptyGridError, MisfitError, build_nest, copy_nest
from .traffic import bytes_read, bytes_written, flops, fused_names
from .views import storage_root

MAX_ATTEMPTS = 200
MAX_REPEATED_ATTEMPTS, MAX_PASS_ATTEMPTS = 2, 16
"""Attempts that only store what the last one would compute again and again, and those that only cut kernels after their first
pass: each cuts one more of the passes of a chain."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The kernels of a graph in order, and the memory that they work on.

    Attributes:
        name: the graph's name.
        nests: the kernels, in an order in which every buffer is written before it is read.
        inputs: one buffer per graph input, in order, read or not.
        constants: the constants and weights that some nest loads; `Buffer.symbol` is their id in the
            scheduled graph.
        outputs: one buffer per graph output, in order.
        temporaries: the buffers in the arena; `memory.offsets[i]` is the byte offset of `temporaries[i]`.
        memory: offsets and size of the arena.
        checks: equations (lhs, rhs, message) that must hold at launch.
        dims: the named dims, in the order in which the graph's inputs mention them.
        steps: what runs, where that is more than the kernels in order; variables: how many addresses it changes.
    """

    name: str
    nests: tuple[Nest, ...]
    inputs: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    memory: MemoryPlan
    checks: tuple[Check, ...]
    dims: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    variables: int = 0

    def describe(self) -> str:
        """Returns a table of the kernels (template, axes, bytes moved, operations, fused ops), and the size
        of the arena."""
        rows = [("#", "template", "axes", "read B", "written B", "flops", "fused")]
        for number, nest in enumerate(self.nests):
            axes = " ".join(
                [
                    f"{axis.name}{'' if axis.iterator == 'parallel' else '*'}={axis.extent}"
                    for axis in nest.axes
                ]
            )
            rows.append((
                str(number), nest.template, axes or "-", str(bytes_read(nest)), str(bytes_written(nest)), str(flops(nest)),
                fused_names(nest.fused),
            ))  # fmt: skip
        widths = [max(len(row[column]) for row in rows) for column in range(6)]
        lines = [f"plan {self.name}: {len(self.nests)} kernels (* reduction axis)"]
        for row in rows:
            cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
            lines.append("  ".join([*cells, row[6]]).rstrip())
        lines += steps_text(self.steps)
        lines.append(f"arena: {self.memory.size} bytes for {len(self.temporaries)} temporaries")
        return "\n".join(lines)


class _Buffers:
    """Gives every symbol that lives in memory its buffer, on first use."""

    def __init__(
        self,
        symbols: Sequence[Symbol],
        inputs: Sequence[Symbol],
        outputs: Sequence[int],
        bound: dict[int, int],
    ):
        self.inputs = [Buffer("input", i, s.dtype, s.shape, s.id) for i, s in enumerate(inputs)]
        self.outputs = [
            Buffer("output", i, symbols[key].dtype, symbols[key].shape, key) for i, key in enumerate(outputs)
        ]
        self.constants: list[Buffer] = []
        self.temporaries: list[Buffer] = []
        self.by_root: dict[int, Buffer] = {buffer.symbol: buffer for buffer in self.inputs}
        self.by_root.update({root: self.outputs[position] for position, root in bound.items()})

    def of(self, symbol: Symbol) -> Buffer:
        root = storage_root(symbol)
        found = self.by_root.get(root.id)
        if found is None:
            kind: BufferKind = "constant" if root.op.kind == "source" else "temporary"
            pool = self.constants if kind == "constant" else self.temporaries
            found = Buffer(kind, len(pool), root.dtype, root.shape, root.id)
            pool.append(found)
            self.by_root[root.id] = found
        return found


def schedule(graph: Graph, apart: Collection[int] = (), stores_repeated: bool = False) -> Plan:
    """Plans a graph of primitive ops (`expand` makes one from any graph).

    apart: ids of symbols that are stored by kernels of their own.
    stores_repeated: whether what a kernel would compute again and again is stored, as arithmetic is what takes time, and what
        parts of a concatenation have in common is computed once.

    Groups are formed greedily; when the nest of a group turns out not to be expressible (an index that is not
    affine, a body no tile template runs, a store that misses a grid axis that may be empty), the symbols
    responsible are stored and the groups are formed anew. In the limit every symbol is stored, which always
    works, so this ends.
    """
    symbols = graph.symbols
    outputs = [symbol.id for symbol in graph.outputs]
    forced = {*apart, *(shared_borders(symbols) if stores_repeated else ())}
    refused: set[int] = set()
    repeated: set[int] = set()
    in_pass: set[int] = set()
    cut: set[int] = set()
    left, passes_left = (MAX_REPEATED_ATTEMPTS, MAX_PASS_ATTEMPTS) if stores_repeated else (0, 0)
    for _ in range(MAX_ATTEMPTS + left + passes_left):
        grouping = Grouping(symbols, outputs, forced, refused, repeated, in_pass, cut, stores_repeated)
        grouping.run()
        broken = [
            group for group in grouping.groups.values() if group.kind == "attention" and len(group.roles) == 1
        ]
        if broken:
            refused.update(next(iter(group.roles)) for group in broken)
            continue
        bound = assign_storage(grouping)
        try:
            plan = _assemble(graph, grouping, bound)
            is_repeated = left > 0 and _is_new((grouping.found_repeated, turned_joins(grouping)), (repeated, forced))
            is_cut = passes_left > 0 and _is_new(in_one_pass(grouping), (in_pass, forced, cut))
            if is_repeated or is_cut:
                left, passes_left = left - is_repeated, passes_left - is_cut
                continue
            while (unread := _unread(plan)) and _forget_stores(grouping, unread):
                plan = _assemble(graph, grouping, bound)
            return plan
        except NeedsBufferError as need:
            root = storage_root(need.symbol).id
            if root in forced:
                raise InternalError(
                    f"schedule: %{root} ({need.symbol.op.name}) is stored but still evaluated inline"
                ) from need
            forced.add(root)
        except EmptyGridError as empty:
            if empty.symbols <= forced:
                raise InternalError(f"schedule: {empty}, and they are kernels of their own") from empty
            forced.update(empty.symbols)
        except MisfitError as misfit:
            _break_up(grouping, misfit, forced, refused)
    raise InternalError(f"schedule: no plan for graph {graph.name!r} after {MAX_ATTEMPTS} attempts")


def _is_new(found: Sequence[set[int]], known: Sequence[set[int]]) -> bool:
    """Adds what was found to what is known; returns whether any of it is new."""
    is_new = any(not some <= others for some, others in zip(found, known, strict=True))
    for some, others in zip(found, known, strict=True):
        others |= some
    return is_new


def _break_up(grouping: Grouping, misfit: MisfitError, forced: set[int], refused: set[int]) -> None:
    """Makes the next attempt form smaller groups than the one that fitted no template."""
    group = misfit.group
    if group.kind == "attention":
        refused.add(next(iter(group.roles)))
        return
    known = len(forced)
    for key in group.reads:
        for operand in grouping.symbols[key].inputs:
            root = storage_root(operand)
            if root.op.kind != "source":
                forced.add(root.id)
        forced.add(key)
    if not group.reads:
        forced.update(key for key in group.members if grouping.symbols[key].op.kind != "source")
    if len(forced) == known:
        raise InternalError(f"schedule: a {group.kind} group fits no template: {misfit}")


def _unread(plan: Plan) -> set[int]:
    """Returns the symbols of temporaries that no nest loads: operands whose value turned out not to matter
    (an index into an axis of extent 1)."""
    read = {
        load.attrs["buffer"].index
        for nest in plan.nests
        for load in nest.loads
        if load.attrs["buffer"].kind == "temporary"
    }
    return {buffer.symbol for buffer in plan.temporaries if buffer.index not in read}


def _forget_stores(grouping: Grouping, roots: set[int]) -> bool:
    """Drops the stores of some symbols; returns whether there were any."""
    found = False
    for group in grouping.groups.values():
        for root in roots & group.stores.keys():
            del group.stores[root]
            found = True
        parts = grouping.parts.get(group.bit, [])
        left = [part for part in parts if part.whole not in roots]
        if len(left) < len(parts):
            grouping.parts[group.bit] = left
            found = True
    return found


def _assemble(graph: Graph, grouping: Grouping, bound: dict[int, int]) -> Plan:
    buffers = _Buffers(grouping.symbols, graph.inputs, grouping.outputs, bound)
    nests = [build_nest(grouping, group, buffers.of) for group in _with_stores(grouping)]
    for position, key in enumerate(grouping.outputs):
        if position not in bound:
            nests.append(copy_nest(grouping, grouping.symbols[key], buffers.outputs[position], buffers.of))
    ordered = order_nests(nests)
    return Plan(
        graph.name,
        tuple(ordered),
        tuple(buffers.inputs),
        tuple(buffers.constants),
        tuple(buffers.outputs),
        tuple(buffers.temporaries),
        plan_memory(_lifetimes(ordered, buffers.temporaries)),
        graph.checks,
        graph.dim_names,
    )


def _with_stores(grouping: Grouping) -> list[Group]:
    return [group for bit, group in grouping.groups.items() if group.stores or grouping.parts.get(bit)]


def order_nests(nests: Sequence[Nest]) -> list[Nest]:
    """Returns the nests in topological order, earliest symbols first.

    Raises `InternalError` when kernels depend on each other in a cycle: fusion made a group that is not
    convex.
    """
    writers: dict[tuple[str, int], list[int]] = {}
    for number, nest in enumerate(nests):
        for store in nest.stores:
            writers.setdefault((store.buffer.kind, store.buffer.index), []).append(number)
    sorter: TopologicalSorter[int] = TopologicalSorter()
    for number, nest in enumerate(nests):
        buffers = [load.attrs["buffer"] for load in nest.loads]
        sorter.add(number, *{w for buffer in buffers for w in writers.get((buffer.kind, buffer.index), ())})
    try:
        sorter.prepare()
    except CycleError as error:
        names = " → ".join(fused_names(nests[number].fused) or "copy" for number in error.args[1])
        raise InternalError(f"schedule: kernels depend on each other in a cycle: {names}") from error
    ready: list[tuple[int, int]] = []
    order: list[Nest] = []
    while sorter:
        for number in sorter.get_ready():
            heapq.heappush(ready, (_order_key(nests[number]), number))
        _, number = heapq.heappop(ready)
        order.append(nests[number])
        sorter.done(number)
    return order


def _order_key(nest: Nest) -> int:
    return nest.symbols[-1] if nest.symbols else -1


def with_nests(plan: Plan, nests: Sequence[Nest], temporaries: Sequence[Buffer]) -> Plan:
    """Returns the plan with other kernels over the same inputs and outputs, ordered and assigned memory
    anew."""
    ordered = order_nests(nests)
    return replace(
        plan,
        nests=tuple(ordered),
        temporaries=tuple(temporaries),
        memory=plan_memory(_lifetimes(ordered, temporaries)),
    )


def _lifetimes(nests: Sequence[Nest], temporaries: Sequence[Buffer]) -> list[Lifetime]:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, nest in enumerate(nests):
        used = [load.attrs["buffer"] for load in nest.loads] + [store.buffer for store in nest.stores]
        for buffer in used:
            if buffer.kind == "temporary":
                first.setdefault(buffer.index, number)
                last[buffer.index] = number
    return [Lifetime(buffer, first[buffer.index], last[buffer.index]) for buffer in temporaries]
