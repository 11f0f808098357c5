"""Estimates what it costs to evaluate a symbol again where it is read, in simple vector instructions per
element."""

from __future__ import annotations

from collections.abc import Callable

from ...graph.ops.table import OPS
from ...graph.symbol import Symbol
from .extents import at_most
from .views import contiguous_taps, split_dimensions, storage_root, unsigned_codes, windows_below

RECOMPUTE_LIMIT = 6
"""A producer at least this expensive that several kernels read is stored once instead of being evaluated in
each."""

PROLOGUE_LIMIT = 4
"""Elementwise work allowed on an operand of a matmul, whose tiles are read several times."""

DECODING_LIMIT = 12
"""Elementwise work allowed on an operand that is made of constant codes, which take less memory than what they stand for."""

PICKED_LIMIT = 4
"""Work of an element, loads counted, from which on it is stored where several gathers along the last axis pick it."""

PICKED_SHARE, FEW_PICKED = 10, 16
"""So many times as many elements as each of them picks are computed in order in the time that it takes to read them. Where it
is not known how many there are, fewer picks than the second number are few."""

STEP_LIMIT, NUMBER_LIMIT = 32, 8
"""Elementwise work allowed on positions and updates of a scatter, which takes them one by one, and for each segment again; and
where updates are numbers, not rows of them: no register is filled then."""


LONGEST_WHOLE_ROW, MAX_KEPT, MAX_WHOLE_COLUMN = 16384, 512 << 10, 16
"""Most elements of a row in one block of the host; the bytes of what is kept of a longer one, whose values are used again
after a reduction, where chunks would compute them again; and most rows of columns that lie whole in one block."""

SMALL_POWER = 4
"""Work of a power with a constant exponent of small magnitude."""

MIN_TAPS = 8
"""Fewest neighbours in memory among the elements of a window for a product to read windows where they lie; others are
stored first."""


def op_cost(symbol: Symbol) -> int:
    if symbol.op.name == "pow" and _is_small_power(symbol.inputs[1]):
        return SMALL_POWER
    return 0 if symbol.op.kind == "view" else symbol.op.cost


def _is_small_power(exponent: Symbol) -> bool:
    """Returns whether a power is a few products, since its exponent is a constant of small magnitude."""
    return exponent.op.name == "constant" and is_scalar(exponent) and exponent.attrs["value"].item() in (-2, -1, 2, 3, 4)


def name_cost(name: str) -> int:
    """Returns the cost of an elementwise operation, in simple instructions per element, by its name in the op table."""
    row = OPS.get(name)
    return 1 if row is None else row.cost


def is_scalar(symbol: Symbol) -> bool:
    """Returns whether a symbol is a source of one element, such as a constant or runtime dim, which is free
    to read."""
    return symbol.op.kind == "source" and all(type(extent) is int and extent == 1 for extent in symbol.shape)


def is_cheap_prologue(symbol: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    """Returns whether a matmul may evaluate `symbol` on its operand tiles: affine loads, views and a few
    simple elementwise ops."""
    work = loads = 0
    pending, seen = [symbol], {symbol.id}
    while pending:
        current = pending.pop()
        if in_memory(current) or current.op.kind == "source":
            loads += not is_scalar(current)
        elif current.op.kind in ("map", "view"):
            work += op_cost(current)
            for operand in current.inputs:
                if operand.id not in seen:
                    seen.add(operand.id)
                    pending.append(operand)
        else:
            return False
        if work > PROLOGUE_LIMIT or loads > 2:
            return False
    return True


def is_decoding(symbol: Symbol) -> bool:
    """Returns whether a symbol is numbers that constant codes of at most half their bytes stand for, with columns side by side.

    A matmul computes them on its tiles though that is more work than for other operands: stored, they would be read anew from
    memory, at several times the bytes. Columns are side by side where the codes are not permuted.
    """
    wide = work = 0
    pending, seen = [symbol], {symbol.id}
    while pending:
        current = pending.pop()
        if current.op.kind == "source":
            if current.op.name not in ("constant", "weight"):
                return False
            wide += int(current.attrs["value"].nbytes)
        elif current.op.kind not in ("map", "view") or current.op.name == "permute":
            return False
        work += op_cost(current)
        for operand in current.inputs:
            if operand.id not in seen:
                seen.add(operand.id)
                pending.append(operand)
    return work <= DECODING_LIMIT and isinstance(symbol.nbytes, int) and 2 * wide <= symbol.nbytes


def stored_operand(operand: Symbol, is_left: bool, in_memory: Callable[[Symbol], bool]) -> Symbol | None:
    """Returns what has to be stored for a matmul to read `operand`; None where it computes that from what is in memory.

    It computes affine loads and cheap elementwise work. A left operand of windows, or of windows of unsigned codes, is read
    from what the windows are of.
    """
    codes = operand if not is_left or in_memory(operand) else unsigned_codes(operand)
    windowed = windows_below(codes, in_memory) if is_left else None
    if windowed is not None and at_most(MIN_TAPS, contiguous_taps(codes, windowed)):
        source = windowed.inputs[0]
        return None if in_memory(source) else storage_root(source)
    if in_memory(codes) or (not is_left and is_decoding(operand)) or _is_read_on_tiles(codes, in_memory):
        return None
    below = _permuted_source(codes, in_memory)
    return storage_root(codes) if below is None else below


def _is_read_on_tiles(operand: Symbol, in_memory: Callable[[Symbol], bool]) -> bool:
    matrix = (len(operand.shape) - 1, len(operand.shape) - 2)
    return is_cheap_prologue(operand, in_memory) and split_dimensions(operand, in_memory).isdisjoint(matrix)


def _permuted_source(operand: Symbol, in_memory: Callable[[Symbol], bool]) -> Symbol | None:
    """Returns what an operand has the elements of in another order, if a matmul can read them from there.

    Products read transposed matrices about as fast as others, while storing one takes longer than storing its elements in the
    order in which they are computed: the keys of an attention after new ones were appended, for example.
    """
    found: Symbol | None = None
    source = operand
    while source.op.name in ("permute", "reshape") and not in_memory(source.inputs[0]):
        is_permuted, source = source.op.name == "permute", source.inputs[0]
        if is_permuted and storage_root(source) is source:
            found = source
    if found is None or found.op.kind == "source":
        return None
    stored = found
    return found if _is_read_on_tiles(operand, lambda each: in_memory(each) or storage_root(each) is stored) else None
