"""Products of a matrix with a vector on the host: what is read whole, and from where."""

from __future__ import annotations

from ...nest import Nest
from ..blocks import power_of_two
from ..structure import Product, products, rows_extent

MIN_ROW, MAX_ROW, MAX_ROW_IN_PLACE, FEW_ROWS = 512, 16384, 65536, 32
"""Rows of a matrix that its product with a vector reads whole, as they lie in memory, are longer than the first number, and at
most so long where the vector may be copied, or is read in place; and the fewest rows that do in a cache."""
LOW_BLOCK = 16
"""Rows of the lowest blocks."""


def whole_row(nest: Nest, product: Product, l1_bytes: int, l2_bytes: int, is_enough: bool) -> int | None:
    """Returns the steps of k of a block of a matrix times a vector of floats, whose rows are read whole; None of others.

    Each program copies the vector: rows of a matrix that is in a cache are read in pieces where that is much, or more than the
    first-level cache has. With a vector that fills that cache, and lies in memory, several rows are multiplied at a time.

    is_enough: whether low blocks are work for all threads.
    """
    extent, depth = nest.axes[product.n].extent if product.n is not None else 1, nest.axes[product.k].extent
    left, right = (nest.body[number] for number in nest.body[product.number].operands)
    if type(extent) is not int or extent != 1 or left.op != "load" or left.dtype.name not in ("float32", "float64"):
        return None
    in_place = right.op == "load" and right.attrs["at"].coefficient(product.k) == 1
    longest = MAX_ROW_IN_PLACE if in_place else MAX_ROW
    if left.attrs["at"].coefficient(product.k) != 1 or type(depth) is not int or not MIN_ROW < depth <= longest:
        return None
    rows, itemsize = rows_extent(nest, product), left.dtype.itemsize
    is_low = type(rows) is int and rows < FEW_ROWS
    if in_place and 2 * power_of_two(depth) * itemsize >= l1_bytes and (is_enough or not is_low):
        return power_of_two(depth)
    in_cache = type(rows) is int and rows * depth * itemsize < 8 * l2_bytes
    return None if in_cache and (is_low or depth * itemsize > l1_bytes // 4) else power_of_two(depth)


def has_one_row(nest: Nest) -> bool:
    """Returns whether a nest multiplies one row with a matrix that is read as it lies, which may be the values that one query
    of an attention weighs."""
    made = products(nest)
    return all(rows_extent(nest, product) == 1 for product in made) and is_read_in_rows(nest, made[-1])


def is_read_in_rows(nest: Nest, product: Product) -> bool:
    """Returns whether the right operand is no constant, and floats whose rows are read as they lie."""
    right = nest.body[nest.body[product.number].operands[1]]
    if product.n is None or right.op != "load" or right.operands or right.dtype.name not in ("float32", "float64"):
        return False
    return bool(right.attrs["buffer"].kind != "constant" and right.attrs["at"].coefficient(product.n) == 1)
