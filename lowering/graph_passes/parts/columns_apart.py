"""Rows of a few elements that are computed of their own sums and extremes, one column at a time.

    softmax of (1000, 3):   m = max(x0, x1, x2);  ei = exp(xi - m);  s = e0 + e1 + e2;  stack(e0 / s, e1 / s, e2 / s)

A row of three elements fills three lanes of a register, and is reduced across these, twice. Here a lane has a row, and each
column a register, which one kernel stores side by side (`schedule/fusion/interleaving.py`).
"""

from __future__ import annotations

from ....graph.graph import Graph
from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dataclass import dataclass
from ....promotion.dtype import float32, float64
from ...nest import Extent
from ...schedule.costs import op_cost
from ...schedule.extents import is_one
from ...schedule.fusion.interleaving import MIN_ROWS
from ...schedule.fusion.repeated import known

MIN_COLUMNS, MAX_COLUMNS = 2, 12
"""The fewest and the most elements of such a row: of 16, a register of AVX-512, columns are no faster."""
_FEWER_COLUMNS = ((3, 4), (4, 6))
"""Less work than columns take to be read and stored: up to so much of an element, as in `costs.py`, and the most columns."""
MIN_ELEMENTS = 1 << 12
"""Elements from which on it is worth the longer code."""
MAX_MADE = 160
"""The most operations that columns are made of, of all of which a kernel takes the time to compile."""
_MAX_MEMBERS = MAX_MADE // MIN_COLUMNS
_REDUCTIONS = ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod")
_DTYPES = (float32, float64)


def with_columns_apart(graph: Graph, short_rows: bool) -> Graph:
    """Returns an expanded graph that computes such rows by columns; itself where there are none.

    short_rows: whether registers hold several rows, in 64 bytes. Where they do not, rows of 8 elements stay, which fill one.
    """
    rows = _Rows(graph, short_rows)
    if not rows.members:
        return graph
    target = graph.rewriting()
    made = _Made(target, {}, {})
    for symbol in graph.symbols:
        with target.located(symbol.location):
            if symbol.id in rows.members:
                made.columns[symbol.id] = made.computed(symbol)
            elif symbol.id in rows.reductions:
                made.new[symbol.id] = made.reduced(symbol)
            else:
                made.new[symbol.id] = target.adopt(symbol, [made.whole(operand) for operand in symbol.inputs])
    target.output(*[made.whole(symbol) for symbol in graph.outputs], names=graph.output_names)
    return target


class _Rows:
    """Finds what is computed by columns: `members`, elementwise operations on rows, and `reductions` of rows."""

    def __init__(self, graph: Graph, short_rows: bool) -> None:
        self.graph, self.short_rows = graph, short_rows
        self.outputs = {symbol.id for symbol in graph.outputs}
        self.readers: list[list[int]] = [[] for _ in graph.symbols]
        for symbol in graph.symbols:
            for operand in symbol.inputs:
                self.readers[operand.id].append(symbol.id)
        self.members: set[int] = set()
        self.reductions: set[int] = set()
        tried: set[int] = set()
        for symbol in graph.symbols:
            if symbol.id not in tried and self._is_reduction(symbol):
                self._add_region(symbol, tried)

    def _is_row(self, symbol: Symbol) -> bool:
        """Whether a symbol has many rows of a few floats."""
        shape = symbol.shape
        if len(shape) < 2 or symbol.dtype not in _DTYPES or type(shape[-1]) is not int:
            return False
        if not MIN_COLUMNS <= shape[-1] <= MAX_COLUMNS or (shape[-1] == 8 and not self.short_rows):
            return False
        is_large = known(shape) >= MIN_ELEMENTS or any(type(extent) is not int for extent in shape)
        return is_large and known(shape[-2:-1]) >= MIN_ROWS

    def _is_reduction(self, symbol: Symbol) -> bool:
        if symbol.op.name not in _REDUCTIONS or not self._is_row(symbol.inputs[0]):
            return False
        rows, attrs = symbol.inputs[0], symbol.attrs
        return symbol.dtype is rows.dtype and tuple(attrs["axes"]) == (len(rows.shape) - 1,) and attrs["keepdims"] is True

    def _add_region(self, first: Symbol, tried: set[int]) -> None:
        """Adds what the rows of a reduction are computed by and of, if rows are computed of it."""
        symbols, shape = self.graph.symbols, first.inputs[0].shape
        single: tuple[Extent, ...] = (*shape[:-1], 1)
        after, members, reductions = set[int](), set[int](), set[int]()
        pending = [first, *[symbols[key] for key in self.readers[first.inputs[0].id]]]
        while pending and len(members) <= _MAX_MEMBERS:  # what depends on it, element by element
            symbol = pending.pop()
            if symbol.id in after:
                continue
            is_reduction = symbol is first or self._follows(symbol, after, first)
            is_map = symbol.op.kind == "map" and symbol.shape in (shape, single)
            if not is_reduction and not (is_map and any(operand.id in after for operand in symbol.inputs)):
                continue
            if is_reduction:
                reductions.add(symbol.id)
            elif symbol.shape == shape:
                members.add(symbol.id)
            after.add(symbol.id)
            pending += [symbols[key] for key in self.readers[symbol.id]]
        tried |= reductions
        if not members or len(members) > _MAX_MEMBERS:
            return
        pending = [symbols[key] for key in members | reductions]
        while pending:  # and what nothing else reads
            for operand in pending.pop().inputs:
                is_map = operand.op.kind == "map" and operand.shape == shape and operand.id not in self.outputs
                is_read = any(reader not in members and reader not in reductions for reader in self.readers[operand.id])
                if is_map and not is_read and operand.id not in members and len(members) <= _MAX_MEMBERS:
                    members.add(operand.id)
                    pending.append(operand)
        if self._is_served(members, reductions, shape):
            self.members |= members
            self.reductions |= reductions

    def _follows(self, symbol: Symbol, after: set[int], first: Symbol) -> bool:
        """Whether a symbol is a reduction of what depends on the first one, or of the same rows."""
        if not self._is_reduction(symbol) or symbol.inputs[0].shape != first.inputs[0].shape:
            return False
        return symbol.inputs[0].id in after or symbol.inputs[0] is first.inputs[0]

    def _is_served(self, members: set[int], reductions: set[int], shape: tuple[Extent, ...]) -> bool:
        """Whether rows come from memory or a product, and go to memory: a product has blocks of its own."""
        symbols, columns = self.graph.symbols, shape[-1]
        assert isinstance(columns, int)
        work = sum(op_cost(symbols[key]) for key in members)
        if any(work <= most and columns > fewer for most, fewer in _FEWER_COLUMNS):
            return False
        if columns * (len(members) + len(reductions)) > MAX_MADE or members & self.members or reductions & self.reductions:
            return False
        for key in members | reductions:
            for operand in symbols[key].inputs:
                is_wide = bool(operand.shape) and not is_one(operand.shape[-1])
                if operand.id not in members and is_wide and not self._is_stored(operand):
                    return False
        outside = [reader for key in members for reader in self.readers[key] if reader not in members | reductions]
        is_read = bool(outside) or not members.isdisjoint(self.outputs)
        is_of_floats = all(symbols[key].dtype in _DTYPES for key in members)
        return is_read and is_of_floats and all(symbols[reader].op.kind not in ("contract", "map") for reader in outside)

    @staticmethod
    def _is_stored(symbol: Symbol) -> bool:
        """Whether a symbol is in memory: an input or a product, which is stored, or a view of one."""
        while symbol.op.kind == "view":
            symbol = symbol.inputs[0]
        return symbol.op.kind in ("source", "contract")


@dataclass(frozen=True, slots=True)
class _Made:
    """What the new graph has of the old one: whole symbols, and the columns of others, by id."""

    target: Graph
    new: dict[int, Symbol]
    columns: dict[int, list[Symbol]]

    def whole(self, symbol: Symbol) -> Symbol:
        found = self.new.get(symbol.id)
        if found is None:
            found = self.new[symbol.id] = _symbol(apply("concat", *self.columns[symbol.id], axis=len(symbol.shape) - 1))
        return found

    def of(self, symbol: Symbol, count: int) -> list[Symbol]:
        """Returns the columns of a symbol that has so many, or as often the one that it has."""
        if not symbol.shape or is_one(symbol.shape[-1]):
            return [self.whole(symbol)] * count
        if symbol.id not in self.columns:
            self.columns[symbol.id] = [_column(self.whole(symbol), number) for number in range(count)]
        return self.columns[symbol.id]

    def computed(self, symbol: Symbol) -> list[Symbol]:
        count, shape = symbol.shape[-1], (*symbol.shape[:-1], 1)
        assert isinstance(count, int)
        operands = [self.of(operand, count) for operand in symbol.inputs]
        return [self.target.adopt(symbol, each, shape=shape) for each in zip(*operands, strict=True)]

    def reduced(self, symbol: Symbol) -> Symbol:
        count = symbol.inputs[0].shape[-1]
        assert isinstance(count, int)
        current = list(self.of(symbol.inputs[0], count))
        if symbol.op.name == "reduce_sum":  # sums begin with 0, so that those of -0 are 0
            current[0] = _symbol(apply("add", current[0], self.target.scalar(0.0, symbol.dtype)))
        while len(current) > 1:
            pairs = [_symbol(apply(symbol.op.combine, a, b)) for a, b in zip(current[::2], current[1::2], strict=False)]
            current = [*pairs, *current[2 * len(pairs) :]]
        return current[0]


def _column(symbol: Symbol, number: int) -> Symbol:
    rank = len(symbol.shape)
    starts, stops = (*[0] * (rank - 1), number), (*symbol.shape[:-1], number + 1)
    return _symbol(apply("slice", symbol, starts=starts, stops=stops, steps=(1,) * rank))


def _symbol(found: SymbolLike) -> Symbol:
    assert isinstance(found, Symbol)
    return found
