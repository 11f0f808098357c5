"""Divides graphs with loops and branches into blocks: straight parts, which are graphs of their own, and what runs blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from ...graph.data_sizes import needed
from ...graph.dims.dim import lower_bound
from ...graph.graph import Graph
from ...graph.ops.control import captures_of, regions_of
from ...graph.outline import Outline
from ...graph.symbol import Symbol
from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, complex128, int32, int64
from ..graph_passes.channels_last import keep_channels_last
from ..graph_passes.expand import expand
from ..graph_passes.whole_lines import WholeLines
from ..graph_passes.wide import split_complex128


@dataclass(frozen=True, slots=True)
class Straight:
    """A part without loops and branches.

    Attributes:
        graph: of primitive operations.
        wide: the arrays of its complex128 constants, by the id of their symbol.
        inputs: the symbols of the block that it takes.
        results: for each output a symbol of the block, or the position among the outputs of the block.
    """

    graph: Graph
    wide: Mapping[int, Array]
    inputs: tuple[Symbol, ...]
    results: tuple[Symbol | int, ...]


@dataclass(frozen=True, slots=True)
class Control:
    """A loop or branch.

    Attributes:
        results: those that are used.
        blocks: of its regions.
        constants: constants and weights of which a loop reads rows where they lie, by the id of the symbol that it reads.
    """

    symbol: Symbol
    results: tuple[Symbol, ...]
    blocks: tuple[Block, ...]
    constants: Mapping[int, Symbol] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Block:
    """The parts of a graph or region in order.

    Attributes:
        graph: the graph that was divided.
        unchanged: positions of outputs that are the input of the same place: nothing computes them.
        direct: positions of outputs that a loop or branch writes itself, by the id of its result.
    """

    graph: Graph
    parts: tuple[Straight | Control, ...]
    unchanged: frozenset[int] = frozenset()
    direct: Mapping[int, int] = field(default_factory=dict)

    def every_part(self) -> Iterator[Straight | Control]:
        """Yield all parts, those of regions among them."""
        for part in self.parts:
            yield part
            if isinstance(part, Control):
                for block in part.blocks:
                    yield from block.every_part()

    def straight(self) -> Iterator[Straight]:
        """Yield all straight parts, those of regions among them."""
        for part in self.every_part():
            if isinstance(part, Straight):
                yield part

    def constants(self) -> tuple[dict[int, int], dict[int, Array]]:
        """Return a number for each constant, by identity of its array; and by number the array as the user gave it."""
        numbers: dict[int, int] = {}
        arrays: dict[int, Array] = {}
        for part in self.every_part():
            if isinstance(part, Straight):
                named = [symbol for symbol in part.graph.symbols if symbol.op.name in ("constant", "weight")]
                found = [part.wide.get(symbol.id, symbol.attrs["value"]) for symbol in named]
            else:
                found = [symbol.attrs["value"] for symbol in part.constants.values()]
            for array in found:
                number = numbers.setdefault(id(array), len(numbers))
                arrays[number] = array
        return numbers, arrays

    def wide(self) -> dict[int, Array]:
        """Return the arrays of complex128 constants by number."""
        numbers, _ = self.constants()
        return {numbers[id(array)]: array for part in self.straight() for array in part.wide.values()}


Part: TypeAlias = "Straight | Control"


def divide(
    graph: Graph, known: frozenset[str], lines: WholeLines, sources: Mapping[int, Symbol] | None = None,
    kept: Mapping[int, int] | None = None,
) -> Block:  # fmt: skip
    """Return the parts of a finished graph.

    known: names of dims. lines: as for `expand`. sources: constants and sizes that inputs of a region stand for, by the
    id of the input. kept: for outputs that a loop carries, by position, the id of the input that has their value before.
    """
    own_sources = sources or {}
    live = needed(graph.symbols, graph.outputs)
    symbols = [symbol for symbol in graph.symbols if symbol.id in live and symbol.op.kind != "source"]
    levels = _levels(symbols)
    gathered = gathered_sequences(symbols, graph.outputs)
    written, unchanged, direct = _written(graph, levels, kept or {})
    count = 1 + max([*levels.values(), *written.values()], default=0)
    parts: list[Part] = []
    for level in range(count):
        here = [symbol for symbol in symbols if levels[symbol.id] == level]
        plain = [symbol for symbol in here if symbol.op.kind != "control" and symbol.id not in gathered]
        ending = [position for position, found in written.items() if found == level]
        parts += _straight(graph, plain, symbols, gathered, ending, own_sources, known, lines, level == 0)
        for symbol in here:
            if symbol.op.kind == "control" and symbol.op.name != "region_result":
                parts.append(_control(symbol, here, gathered, own_sources, known, lines))
    return Block(graph, tuple(parts), unchanged, direct)


def _written(
    graph: Graph, levels: Mapping[int, int], kept: Mapping[int, int]
) -> tuple[dict[int, int], frozenset[int], Mapping[int, int]]:
    """Return which straight part writes each output, the outputs that keep their value, and by id of the result those that a
    loop or branch writes itself."""
    written: dict[int, int] = {}
    unchanged = set()
    direct: dict[int, int] = {}
    for position, symbol in enumerate(graph.outputs):
        if kept.get(position) == symbol.id:
            unchanged.add(position)
        elif symbol.op.name == "region_result" and _is_written_there(symbol) and symbol.id not in direct:
            direct[symbol.id] = position
        else:
            written[position] = levels.get(symbol.id, -1) + (symbol.op.kind == "control" or symbol.id not in levels)
    return written, frozenset(unchanged), direct


def _is_written_there(symbol: Symbol) -> bool:
    """Return whether a result has one place in memory: what a loop carries has two, in turn."""
    (source,) = symbol.inputs
    return source.op.name == "branch" or symbol.attrs["index"] >= source.attrs["carried"]


def _levels(symbols: Sequence[Symbol]) -> dict[int, int]:
    """Return in which part each symbol is computed: straight part n, loops and branches n, straight part n + 1, …"""
    levels: dict[int, int] = {}
    for symbol in symbols:
        level = 0
        for operand in symbol.inputs:
            if operand.id in levels:
                later = operand.op.kind == "control" and symbol.op.name != "region_result"
                level = max(level, levels[operand.id] + later)
        levels[symbol.id] = level
    return levels


def sequences_of(symbol: Symbol) -> range:
    """Return the positions of the operands of which a loop reads a row in each iteration."""
    if symbol.op.name != "loop":
        return range(0)
    first = int(symbol.attrs["limited"]) + symbol.attrs["carried"]
    return range(first, first + symbol.attrs["sequences"])


def gathered_sequences(symbols: Sequence[Symbol], outputs: Sequence[Symbol]) -> dict[int, Symbol]:
    """Return, by id, the rows of tensors that loops alone read, one after another: they are read where the tensors lie."""
    found = {symbol.id: symbol for symbol in symbols if _gathers_rows(symbol)}
    for reader in symbols if found else ():
        rows = sequences_of(reader)
        for position, operand in enumerate(reader.inputs):
            if operand.id in found and position not in rows:
                del found[operand.id]
    for symbol in outputs:
        found.pop(symbol.id, None)
    return found


def _gathers_rows(symbol: Symbol) -> bool:
    if symbol.op.name != "gather" or symbol.attrs["axis"] != 0:
        return False
    whole, positions = symbol.inputs
    is_long = (lower_bound(whole.shape[0]) or 0) >= 1
    return is_long and len(positions.shape) == 1 and positions.dtype in (int32, int64) and _has_whole_bytes(whole.dtype)


def _has_whole_bytes(dtype: DType) -> bool:
    """Return whether elements of constants lie in memory as in NumPy's arrays; complex128 is pairs of integers there."""
    return dtype.bits % 8 == 0 and dtype is not complex128


def _constant(operand: Symbol, sources: Mapping[int, Symbol]) -> Symbol | None:
    """Return the constant or weight of which rows can be read where it lies, if an operand is one."""
    origin = sources.get(operand.id, operand)
    return origin if origin.op.name in ("constant", "weight") and _has_whole_bytes(origin.dtype) else None


def _read(reader: Symbol, gathered: Mapping[int, Symbol], sources: Mapping[int, Symbol]) -> Iterator[Symbol]:
    """Yield the operands that a symbol reads in memory: regions have their own copies of constants and sizes."""
    if reader.id in gathered:
        return  # the loop reads it
    captured = sum(reader.attrs["captured"]) if "captured" in reader.attrs else 0
    own, rows = len(reader.inputs) - captured, sequences_of(reader)
    for position, operand in enumerate(reader.inputs):
        if position >= own and _is_source(operand, sources):
            continue
        whole = operand
        if operand.id in gathered:
            whole, positions = operand.inputs
            yield positions
        if position not in rows or _constant(whole, sources) is None:
            yield whole


def _is_source(symbol: Symbol, sources: Mapping[int, Symbol]) -> bool:
    """Return whether a symbol is a constant or a size."""
    origin = sources.get(symbol.id, symbol)
    return origin.op.kind == "source" and origin.op.name != "input"


def _straight(
    graph: Graph, plain: Sequence[Symbol], symbols: Sequence[Symbol], gathered: Mapping[int, Symbol], ending: Sequence[int],
    sources: Mapping[int, Symbol], known: frozenset[str], lines: WholeLines, is_first: bool,
) -> list[Straight]:  # fmt: skip
    own = {symbol.id for symbol in plain}
    wanted: dict[int, Symbol] = {}
    for reader in symbols:
        if reader.id not in own and reader.op.name != "region_result":
            for operand in _read(reader, gathered, sources):
                # loops and branches read memory: constants and sizes are copied there first
                if operand.id in own or (is_first and reader.op.kind == "control" and _is_source(operand, sources)):
                    wanted[operand.id] = operand
    results: list[Symbol | int] = [*wanted.values(), *ending]
    if not results:
        return []
    outline = Outline(graph, graph.name, sources)
    outline.graph.outer_dims = known
    for symbol in plain:
        outline.add(symbol)
    outline.finish([each if isinstance(each, Symbol) else graph.outputs[each] for each in results], known)
    expanded, wide = split_complex128(keep_channels_last(expand(outline.graph, lines)))
    return [Straight(expanded, wide, tuple(outline.taken), tuple(results))]


def _control(
    symbol: Symbol, here: Sequence[Symbol], gathered: Mapping[int, Symbol], sources: Mapping[int, Symbol],
    known: frozenset[str], lines: WholeLines,
) -> Control:  # fmt: skip
    results = tuple([each for each in here if each.op.name == "region_result" and each.inputs[0] is symbol])
    blocks = []
    for number, region in enumerate(regions_of(symbol)):
        captured = captures_of(symbol, number)
        inner: dict[int, Symbol] = {}
        first = len(region.inputs) - len(captured)
        for own, outer in zip(region.inputs[first:], captured, strict=True):
            if _is_source(outer, sources):
                inner[own.id] = sources.get(outer.id, outer)
        kept = {}
        if symbol.op.name == "loop" and number == 0:
            kept = {position: region.inputs[1 + position].id for position in range(symbol.attrs["carried"])}
        blocks.append(divide(region, known, lines, inner, kept))
    constants = {}
    for position in sequences_of(symbol):
        operand = symbol.inputs[position]
        whole = operand.inputs[0] if operand.id in gathered else operand
        constant = _constant(whole, sources)
        if constant is not None:
            constants[whole.id] = constant
    return Control(symbol, results, tuple(blocks), constants)
