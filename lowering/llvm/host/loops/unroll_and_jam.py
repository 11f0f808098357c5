"""Takes several rows of a nest in one iteration, so that what they share is read once for all: unroll and jam.

The factors of a depthwise convolution vary along the channels alone. Row by row each of them would be loaded for a single
product. (F. Allen and J. Cocke, A Catalogue of Optimizing Transformations, 1971.)

Where masks of loads demand something of rows as a whole, such as to lie inside of an image, it is tested for all rows of an
iteration at once: inside, they are read without masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....promotion.dataclass import dataclass
from ...values import V, lanes
from ..evaluate import Evaluator
from ..nodes import Affine, Load, Map, Node, Splat, View, cost, view
from ..scalars import is_constant
from .coordinates import ORIGIN, Bound, Coordinate, Coordinates, decompose_mask, reads_memory
from .invariants import spread
from .vector_loop import vector_loop

MIN_SHARED = 4
"""The fewest values that rows share for which an iteration takes several."""
MAX_INSTRUCTIONS = 1024
"""The most instructions of an iteration over several rows."""
ROWS = 4
_WASTEFUL = (5, 9)
"""How many rows are taken two at a time: of four at a time, three would be computed again."""
_MAX_CONDITION = 8
"""The most instructions of a condition that is tested ahead. Divisions, which may trap beyond the last row, are more."""

Effect = Callable[[Coordinates, V | None], None]


def jammed(
    ev: Evaluator, shape: tuple[int, ...], inner: int, nodes: Sequence[Node], n: int, vectors: int
) -> JammedRows | None:
    """Returns how to take rows of a nest together, as many as registers hold all values of; None where they share too little.

    inner: the dimension that is visited in vectors of `n` lanes, each of which takes so many registers.
    """
    row = max([d for d in range(inner) if shape[d] > 1], default=None)
    if row is None or n == 1:
        return None
    order = _evaluation_order(ev, [node for node in nodes if not isinstance(node, Load)])  # those only hoist addresses
    shared = [
        node for node in order
        if not isinstance(node, Map) and inner in ev.depends(node) and row not in ev.depends(node) and reads_memory(node)
    ]  # fmt: skip
    if len(shared) < MIN_SHARED or len(order) * ROWS > MAX_INSTRUCTIONS:
        return None
    rows = min(ROWS, shape[row])
    while rows > 1 and _registers(ev, order, row, rows) * vectors > ev.target.registers:
        rows //= 2
    return None if rows == 1 else JammedRows(ev, shape, row, inner, rows, n, tuple(nodes), tuple(order))


def _evaluation_order(ev: Evaluator, nodes: Sequence[Node]) -> list[Node]:
    """Returns the operations that make the nodes, and what they read, operands first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack = [(node, False) for node in reversed(nodes)]
    while stack:
        node, is_ready = stack.pop()
        if is_ready:
            order.append(node)
        elif id(node) not in seen and not isinstance(node, (Splat, Affine)):
            seen.add(id(node))
            stack.append((node, True))
            if isinstance(node, Map) and id(node) not in ev.replacement:
                stack += [(operand, False) for operand in sorted(reversed(node.operands), key=cost)]  # the longest one first
    return order


def _registers(ev: Evaluator, order: Sequence[Node], row: int, rows: int) -> int:
    """Returns how many values there are at once when each is computed for all rows before the next one."""
    last = {id(operand): at for at, node in enumerate(order) if isinstance(node, Map) for operand in node.operands}
    weight = {id(node): rows if row in ev.depends(node) else 1 for node in order}
    ending: dict[int, list[int]] = {}
    for node, at in last.items():
        ending.setdefault(at, []).append(node)
    live = most = 0
    for at, each in enumerate(order):
        live += weight[id(each)]
        most = max(most, live)
        live -= sum(weight.get(node, 0) for node in ending.get(at, ()))
    return most


@dataclass(frozen=True, slots=True)
class JammedRows:
    """A nest of which an iteration takes up to `rows` rows. order: what is evaluated for all of them, one after the other."""

    ev: Evaluator
    shape: tuple[int, ...]
    row: int
    inner: int
    rows: int
    n: int
    nodes: tuple[Node, ...]
    order: tuple[Node, ...]

    def visit(self, around: Sequence[Coordinate | None], bounds: Sequence[Bound], effect: Effect, once: bool) -> None:
        """Runs `effect` at every coordinate within the bounds, after all values of an iteration are there.

        around: the position along all dimensions but those of rows and vectors.  once: as for `vector_loop`.
        """
        ev, f, s = self.ev, self.ev.f, self.ev.s
        count, implied = ev.extent(self.shape[self.row], bounds, self.row)
        loop = ev.open_loop(implied)
        masks = _row_conditions(ev, self.order, self.row, self.inner, implied)
        outside = masks.test(ev, self.shape, tuple(around), self.row)
        together = self.rows
        if together == ROWS and is_constant(count) and count.number in _WASTEFUL:
            together = 2
        with f.loop(0, count, together) as state, ev.scope():
            if is_constant(count) and count.number % together == 0:
                positions = [Coordinate(state.index, r, 1, loop) for r in range(together)]
            else:  # the last row is computed several times
                last = s.sub(count, s.constant(1))
                positions = [Coordinate(s.min(s.add(state.index, s.constant(r)), last), 0, 1, loop) for r in range(together)]
            rows = [self._at(around, position) for position in positions]
            within = masks.test(ev, self.shape, self._at(around, Coordinate(state.index, 0, together, loop)), self.row)
            holds = ev.all_of([each for each in (outside, within) if each is not None])
            if holds is None:
                self._visit(rows, bounds, effect, once)
                return
            inside, border, done = f.label("inside"), f.label("border"), f.label("rows")
            f.cond_branch(holds, inside, border)
            f.start(inside)
            with ev.assuming(masks.keys(ev, rows), loop, masks.limits):
                self._visit(rows, bounds, effect, once)
            f.branch(done)
            f.start(border)
            with ev.scope():
                self._visit(rows, bounds, effect, once)
            f.branch(done)
            f.start(done)

    def _at(self, around: Sequence[Coordinate | None], position: Coordinate) -> Coordinates:
        return tuple([position if d == self.row else each for d, each in enumerate(around)])

    def _visit(self, rows: Sequence[Coordinates], bounds: Sequence[Bound], effect: Effect, once: bool) -> None:
        ev = self.ev
        for each in rows:
            ev.hoist(self.nodes, each)
            spread(ev, self.nodes, each, self.n)

        def body(coordinate: Coordinate, mask: V | None, _: list[V]) -> list[V]:
            here = [tuple([coordinate if d == self.inner else c for d, c in enumerate(each)]) for each in rows]
            for node in self.order:
                for each in here:
                    ev.at(node, each, mask)
            for each in here:
                effect(each, mask)
            return []

        vector_loop(ev, self.shape[self.inner], bounds, self.inner, self.n, 1, body, (), once=once)


@dataclass(frozen=True, slots=True)
class RowConditions:
    """What masks of loads demand of whole rows: conditions, as their dimensions lie in the nest, and bounds on the row."""

    conditions: tuple[tuple[Node, tuple[int | None, ...]], ...]
    bounds: tuple[Bound, ...]

    @property
    def limits(self) -> set[str]:
        """The limits of the bounds."""
        return {bound.limit.operand() for bound in self.bounds}

    def test(self, ev: Evaluator, shape: tuple[int, ...], rows: Coordinates, beside: int) -> V | None:
        """Emits whether all that vary along a dimension, or all that do not if it has no coordinate, hold in some rows.

        Returns None if there are none.
        """
        here = rows[beside]
        found = []
        for node, dims in self.conditions:
            seen = view(node, shape, dims)
            if (beside in ev.depends(seen)) == (here is not None):
                found.append(ev.at(seen, rows))
        if here is not None:
            found += [ev.lane_mask(ev.s.add(here.at, ev.s.constant(here.offset)), b.limit, here.lanes) for b in self.bounds]
        holds = ev.all_of(found)
        return holds if holds is None or lanes(holds.type) == 1 else ev.f.intrinsic("vector.reduce.and", [holds], "i1")

    def keys(self, ev: Evaluator, rows: Sequence[Coordinates]) -> set[tuple[object, ...]]:
        """Returns the conditions in rows as `Evaluator.assumed` holds them."""
        return {
            ev.key_of(node, tuple([ORIGIN if d is None else here[d] for d in dims]))
            for node, dims in self.conditions for here in rows
        }  # fmt: skip


def _row_conditions(ev: Evaluator, order: Sequence[Node], row: int, inner: int, implied: set[str]) -> RowConditions:
    """Returns what masks of loads demand of whole rows, each condition once. implied: the limits that hold in all rows.

    They are tested for as many rows as an iteration takes, of which the last ones may lie beyond the end: conditions that read
    memory are left to their loads.
    """
    conditions: dict[tuple[object, ...], tuple[Node, tuple[int | None, ...]]] = {}
    bounds: dict[str, Bound] = {}
    for load in order:
        if not isinstance(load, Load) or load.mask is None or id(load) in ev.replacement:
            continue
        limits, parts = decompose_mask(load.mask)
        bounds |= {b.limit.operand(): b for b in limits if b.dim == row and b.limit.operand() not in implied}
        identity: tuple[int | None, ...] = tuple(range(len(load.shape)))
        stack: list[tuple[Node, tuple[int | None, ...]]] = [(part, identity) for part in parts if inner not in ev.depends(part)]
        while stack:
            node, dims = stack.pop()
            match node:
                case View():
                    stack.append((node.source, tuple([None if d is None else dims[d] for d in node.dims])))
                case Map(op="arith.andi"):
                    stack += [(operand, dims) for operand in node.operands]
                case _ if cost(node) <= _MAX_CONDITION and not reads_memory(node):
                    conditions[id(node), dims] = node, dims
    return RowConditions(tuple(conditions.values()), tuple(bounds.values()))
