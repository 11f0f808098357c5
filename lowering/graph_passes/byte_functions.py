"""Functions of one byte that give a byte, by a table of all that they can be.

    x ─ cast ─ / 255 ─ sqrt ─ · 255 ─ cast        ⇒        table[x],  table = the same of 0 … 255

A register of bytes is looked up in a few instructions, and arithmetic on floats takes four registers for each of these. The
table is computed by the same operations, so results have the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...graph.graph import Graph
from ...graph.ops.building import apply
from ...graph.protocols import SymbolLike
from ...graph.symbol import Symbol
from ...promotion.dataclass import dataclass
from ...promotion.dtype import int64, uint8
from ..schedule.costs import op_cost
from ..schedule.extents import is_one
from ..schedule.fusion.repeated import known

BYTES = 256
MIN_WORK, MIN_SLOW_WORK, MIN_ELEMENTS = 4, 12, 1 << 14
"""The least work of an element, as in `costs.py`, with AVX-512 and with AVX2; and how many elements pay for the kernel that
computes the table. A lookup takes AVX2 the same 47 instructions for the bytes of a register and for those of a register of
floats, so only what is stored as bytes is looked up there."""


@dataclass(frozen=True, slots=True)
class ByteFunction:
    """What computes a symbol: the bytes of which, and the ids of all operations in between."""

    source: Symbol
    members: frozenset[int]


def with_byte_tables(graph: Graph, tables: Sequence[tuple[int, int]]) -> Graph:
    """Returns an expanded graph that looks functions of bytes up; itself where there are none.

    tables: by the bytes of an element, the elements of the longest arrays that registers hold.
    """
    longest = dict(tables)
    if longest.get(1, 0) < BYTES:
        return graph
    functions = _functions(graph, is_slow=not longest.get(2, 0))
    if not functions:
        return graph
    inside = {key for number, found in functions.items() for key in found.members if key != number}
    target = graph.rewriting()
    new: dict[int, Symbol] = {}
    for symbol in graph.symbols:
        if symbol.id in inside:
            continue
        with target.located(symbol.location):
            found = functions.get(symbol.id)
            if found is None:
                new[symbol.id] = target.adopt(symbol, [new[operand.id] for operand in symbol.inputs])
            else:
                new[symbol.id] = _looked_up(graph, target, symbol, found, new)
    target.output(*[new[symbol.id] for symbol in graph.outputs], names=graph.output_names)
    return target


def _functions(graph: Graph, is_slow: bool) -> dict[int, ByteFunction]:
    readers: list[list[int]] = [[] for _ in graph.symbols]
    is_moved: list[bool] = []  # whether nothing but elementwise operations and moves makes it of inputs
    for symbol in graph.symbols:
        for operand in symbol.inputs:
            readers[operand.id].append(symbol.id)
        kind = symbol.op.kind
        is_moved.append(kind in ("source", "view", "join", "index", "map") and all(is_moved[each.id] for each in symbol.inputs))
    outputs = {symbol.id for symbol in graph.outputs}
    found: dict[int, ByteFunction] = {}
    taken: set[int] = set()
    for symbol in reversed(graph.symbols):
        if symbol.id in taken or symbol.op.kind != "map" or not _is_byte(symbol) or known(symbol.shape) < MIN_ELEMENTS:
            continue
        if is_slow and (readers[symbol.id] or symbol.id not in outputs):
            continue
        function = _function(graph, symbol, MIN_SLOW_WORK if is_slow else MIN_WORK)
        if function is None or not is_moved[function.source.id]:
            continue
        others = function.members - {symbol.id}
        if others & outputs or any(reader not in function.members for key in others for reader in readers[key]):
            continue  # computed anyway
        found[symbol.id] = function
        taken |= function.members
    return found


def _function(graph: Graph, result: Symbol, least: int) -> ByteFunction | None:
    """Returns how a symbol is computed of the bytes of one other symbol and of single numbers, if in floats; else None."""
    source: Symbol | None = None
    members: set[int] = set()
    pending = [result]
    while pending:
        symbol = pending.pop()
        if symbol.id in members:
            continue
        members.add(symbol.id)
        for operand in symbol.inputs:
            if _is_number(operand):
                continue
            if operand.shape != result.shape:
                return None
            if operand.op.kind == "map":
                pending.append(operand)
            elif not _is_byte(operand) or (source is not None and operand is not source):
                return None
            else:
                source = operand
    computed = [graph.symbols[key] for key in members]
    in_floats = any(symbol.dtype.is_float for symbol in computed)
    work = sum(op_cost(symbol) for symbol in computed)
    return ByteFunction(source, frozenset(members)) if source is not None and in_floats and work >= least else None


def _is_byte(symbol: Symbol) -> bool:
    return symbol.dtype.kind in ("int", "uint") and symbol.dtype.bits == 8


def _is_number(symbol: Symbol) -> bool:
    return all(is_one(extent) for extent in symbol.shape)


def _looked_up(graph: Graph, target: Graph, result: Symbol, function: ByteFunction, new: dict[int, Symbol]) -> Symbol:
    source = new[function.source.id]
    codes = target.constant(np.arange(BYTES, dtype=np.uint8))
    is_unsigned = source.dtype is uint8
    made = {function.source.id: codes if is_unsigned else _symbol(apply("bitcast", codes, dtype=source.dtype))}
    for key in sorted(function.members):
        symbol = graph.symbols[key]
        operands = [_number(new[each.id]) if _is_number(each) else made[each.id] for each in symbol.inputs]
        made[key] = target.adopt(symbol, operands, shape=(BYTES,))
    unsigned = source if is_unsigned else apply("bitcast", source, dtype=uint8)
    positions = apply("cast", unsigned, dtype=int64, rounding="nearest", saturate=True)
    return _symbol(apply("gather", made[result.id], positions, axis=0))


def _number(symbol: Symbol) -> Symbol:
    return symbol if not symbol.shape else _symbol(apply("reshape", symbol, shape=()))


def _symbol(found: SymbolLike) -> Symbol:
    assert isinstance(found, Symbol)
    return found
