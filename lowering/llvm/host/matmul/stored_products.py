"""Products that only a store reads: their sums are written where the store would put them, and never lie in scratch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from ...elementwise import memory_element
from ...syntax import attributes
from ...values import integer, is_integer
from ..context import KernelContext
from ..loops.coordinates import Bound, decompose_mask, memory_size_of
from ..masks.zero_limits import is_zero
from ..memory.only_stores import only_store
from ..nodes import Node, Pointers, Stored
from ..scalars import is_constant
from .operands import Wanted


def defer_product(k: KernelContext, op: Operation, a: Node, b: Node, c: Node) -> bool:
    """Leaves a product that begins with zeros to the store of its result, if nothing else reads that; returns whether it does.

    Micro-kernels read operands after they have written sums, so that the store must not write what any block is loaded from.
    They write each sum once, as the store would: programs that store the same numbers in the same memory do no harm.
    """
    store = only_store(op)
    if store is None or k.bounds is not None or not _has_own_sums(k, a, b, c):
        return False
    if k.ordering is not None and k.ordering.may_overwrite(store):
        return False
    result, location, precision = op.results[0], k.f.location, str(attributes(op).get("inputPrecision", "ieee"))
    right, read = k.limits(op.operands[1]), k.limits(result)

    def emit(pointers: Pointers, mask: Node | None, streaming: bool) -> None:
        here, k.f.location = k.f.location, location
        bounds, others = decompose_mask(mask)
        once = not others and _are_written_once(k, a, b, bounds)
        target = None if streaming or not once else _target(k, pointers, bounds, c)
        wanted = Wanted(read if target is None else bounds, right)  # sums beyond the mask of rows are never formed
        found = k.dots.dot(a, b, c, precision, wanted=wanted, target=target)
        k.f.location = here
        if target is None:
            k.nests.store(pointers, found, mask, streaming)

    k.deferred[result] = emit
    return True


def _has_own_sums(k: KernelContext, a: Node, b: Node, c: Node) -> bool:
    """Whether a product begins with zeros, and its sums are formed as they are then read."""
    plain = len(c.shape) == 2 and min(c.shape) > 1 and c.elem in ("f32", "f64") and is_zero(c)
    paired = (a.elem, b.elem) == ("bf16", "bf16") and k.ev.target.multiplies_pairs
    return plain and not paired and not k.dots.is_read_across(a, b, c)


def _are_written_once(k: KernelContext, a: Node, b: Node, bounds: Sequence[Bound]) -> bool:
    """Whether masks cut both operands alike, so that nothing is added to sums afterwards (`ragged_products.py`)."""

    def limits(found: Sequence[Bound], dim: int) -> set[str]:
        return {bound.limit.operand() for bound in found if bound.dim == dim}

    left, right = k.dots.operands.limits(a), k.dots.operands.limits(b)
    ends = limits(right, 1) <= limits(bounds, 1)
    return limits(left, 1) == limits(right, 0) and limits(left, 0) <= limits(bounds, 0) and ends


def _target(k: KernelContext, pointers: Pointers, bounds: Sequence[Bound], c: Node) -> Stored | None:
    """Returns the memory of a store as that of a block, where its rows have elements side by side, of whole vectors or as many
    as a mask says; else None."""
    (rows, columns), element = c.shape, memory_element(c.elem)
    row, column = pointers.offset.coefficients
    lanes = k.ev.target.vector_bytes // memory_size_of(element)
    if pointers.rest is not None or pointers.unit != element or column is None or not is_integer(column, 1):
        return None
    limits = [bound.limit for bound in bounds if bound.dim == 1]
    if columns % lanes and not limits:
        return None
    longest = min([columns, *[integer(limit) for limit in limits if is_constant(limit)]])
    if row is None or not is_constant(row) or (rows > 1 and integer(row) < longest):
        return None  # rows of other strides may be the same memory
    return Stored(c.shape, c.elem, k.f.gep(pointers.base, pointers.offset.base, element), (integer(row), 1), element)
