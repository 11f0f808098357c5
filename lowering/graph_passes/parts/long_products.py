"""Products with few results and a long sum each: partial products of equal parts of the sum, which are added up.

A program computes whole results, so that a product of 16 x 100,000 with 100,000 x 16 would be the work of one thread. Its
parts are the work of several. How many there are is decided from the sizes alone: results do not depend on the threads, and
one thread takes as long (0 to 5 % more). The bound of the error of a sum holds: the parts are added in the order of a tree.
"""

from __future__ import annotations

from ....graph.ops.building import apply
from ....graph.protocols import SymbolLike
from ....graph.symbol import Symbol
from ....promotion.dtype import float32, float64
from ..constant_values import holds_array
from .cuts import is_cut_in_place

ENOUGH = 16
"""Blocks of results and parts of sums together, up to which sums are divided."""
BLOCK, COLUMN_BLOCK = 64, 16
"""Rows and columns of a block of results, and rows of one with a single column."""
LONG_BLOCK, MAX_ROW = 1024, 8192
"""Columns of a block of one row of results, and those up to which its sums are divided: a longer one is read in long pieces,
which are enough work for threads."""
MIN_PARTS_OF_ROW = 4
"""Parts of the sums of one row that are work for threads, so that each reads whole rows of the matrix."""
MIN_PART, MIN_PART_OF_ROW = 512, 128
"""Steps of a part: with fewer, adding the parts up is no small part of the work; fewer for one row, as whole rows of the matrix
are then read, where threads would have a piece of each."""
MIN_WORK, MIN_OF_VECTORS = 1 << 19, 1 << 17
"""Products of elements from which on parts pay for a second kernel, of matrices and where one operand is a vector: 10 to 20
microseconds of one thread."""
_NEAR = 64
"""Symbols that are looked at for a product that a left operand is computed from."""


def is_long_product(symbol: Symbol) -> bool:
    """Returns whether a symbol is a product of runtime matrices with sums in parts."""
    return _parts(symbol) > 1 and not _weighs(symbol)


def _parts(symbol: Symbol) -> int:
    """Returns the parts that the sums of a product have by its sizes; 1 of what is no such product."""
    if symbol.op.name != "matmul" or symbol.dtype not in (float32, float64) or symbol.attrs["accumulate"] is not symbol.dtype:
        return 1
    if symbol.attrs["precision"] != "ieee" or any(_is_constant(operand) for operand in symbol.inputs):
        return 1
    a, b = (operand.shape for operand in symbol.inputs)
    if len(a) != 2 or len(b) != 2:
        return 1
    rows, steps, columns = a[0], a[1], b[1]
    if not isinstance(rows, int) or not isinstance(steps, int) or not isinstance(columns, int):
        return 1
    if rows * steps * columns < (MIN_OF_VECTORS if min(rows, columns) == 1 else MIN_WORK):
        return 1
    if rows == 1 and columns > MAX_ROW:
        return 1
    height, width = (1, LONG_BLOCK) if rows == 1 else (COLUMN_BLOCK if columns == 1 else BLOCK, BLOCK)
    blocks = -(-rows // height) * -(-columns // width)
    enough = max(MIN_PARTS_OF_ROW, ENOUGH // blocks) if rows == 1 else ENOUGH // blocks
    most = min(enough, steps // (MIN_PART_OF_ROW if rows == 1 else MIN_PART))
    whole = next((parts for parts in range(most, most // 2, -1) if steps % parts == 0), 1)
    return whole if whole > 1 or not all(map(is_cut_in_place, symbol.inputs)) else max(1, most)


def _is_constant(operand: Symbol) -> bool:
    while operand.op.name in ("reshape", "permute", "cast"):
        operand = operand.inputs[0]
    return holds_array(operand)


def _weighs(symbol: Symbol) -> bool:
    """Returns whether a product's left operand may be a softmax of another product's results: the two are one kernel then."""
    left = symbol.inputs[0]
    pending, seen = [left], {left.id}
    found = reduces = False
    while pending:
        current = pending.pop()
        if current.op.name == "matmul":
            found = found or current.shape == left.shape
            continue
        reduces = reduces or current.op.kind in ("reduce", "composite")
        fresh = [operand for operand in current.inputs if operand.id not in seen]
        seen.update([operand.id for operand in fresh])
        pending += fresh
        if len(seen) > _NEAR:
            return True
    return found and reduces


def sum_of_parts(symbol: Symbol, a: Symbol, b: Symbol) -> SymbolLike:
    """Returns a long product as the sum of the products of its parts. a, b: its operands in the new graph."""
    parts = _parts(symbol)
    (rows, steps), columns = a.shape, b.shape[1]
    assert isinstance(rows, int)
    assert isinstance(steps, int)
    assert isinstance(columns, int)
    length = steps // parts
    whole = parts * length

    def cut(of: SymbolLike, starts: tuple[int, int], stops: tuple[int, int]) -> SymbolLike:
        return apply("slice", of, starts=starts, stops=stops, steps=(1, 1))

    def product(left: SymbolLike, right: SymbolLike) -> SymbolLike:
        return apply("matmul", left, right, **symbol.attrs)

    left = apply("reshape", a if whole == steps else cut(a, (0, 0), (rows, whole)), shape=(rows, parts, length))
    right = apply("reshape", b if whole == steps else cut(b, (0, 0), (whole, columns)), shape=(parts, length, columns))
    total = apply("reduce_sum", product(apply("permute", left, axes=(1, 0, 2)), right), axes=(0,), keepdims=False)
    if whole == steps:
        return total
    return apply("add", total, product(cut(a, (0, whole), (rows, steps)), cut(b, (whole, 0), (steps, columns))))
