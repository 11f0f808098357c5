"""Keeps 32-bit block offsets as affine forms.

Texts compute addresses in i32, which wraps. An affine form of i32 elements holds modulo 2^32; where it becomes an address or a
loop bound it must hold exactly. That is decided when all numbers are known, and checked once per block where they are not: a
program whose offsets exceed 2^31 stops the launch instead of reading elsewhere.

A value that is widened and never becomes an address may wrap on purpose, as hashes do. It stays affine where ranges
prove that it does not wrap, and is computed as written otherwise. The same holds for comparisons of values that wrap
even in small launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation, SSAValue

from ....tt.analysis.integer_ranges import IntegerRanges, LaunchRanges
from ....tt.source_locations import callers_of, source_location
from ...values import TRUE, i64, integer
from ..context import KernelContext
from ..control.sites import Site
from ..nodes import Affine, Node
from ..scalars import is_constant
from .address_uses import RESHAPED
from .affine import WIDENING

LOWEST, HIGHEST = -(1 << 31), (1 << 31) - 1
_SMALL = (1, 1024)
"""The values that all parameters have in the launches of one program that stand for small ones."""


def is_exact(k: KernelContext, affine: Affine, op: Operation, lowest: int = LOWEST) -> bool:
    """Whether the form gives its elements exactly, not only modulo 2^32.

    False if it is known not to; checked by the program where it is not known. `lowest`: 0 for elements that are read unsigned.
    """
    if affine.elem != "i32":
        return True
    numbers = [affine.base, *(c for c in affine.coefficients if c is not None)]
    if all(map(is_constant, numbers)):
        spans = [integer(c) * (n - 1) for c, n in zip(affine.coefficients, affine.shape, strict=True) if c is not None]
        base = integer(affine.base)
        low, high = base + sum(min(s, 0) for s in spans), base + sum(max(s, 0) for s in spans)
        return lowest <= low and high <= HIGHEST
    status = k.status
    if status is None:
        return False
    s = k.ev.s
    steps = (c.operand() if c else "-" for c in affine.coefficients)
    key = ("exact", str(lowest), affine.base.operand(), *steps, *map(str, affine.shape))
    if s.known(key) is not None:
        return True
    low_end, high_end = affine.base, affine.base
    below = lowest > LOWEST or affine.base.operand() not in s.narrow
    for coefficient, extent in zip(affine.coefficients, affine.shape, strict=True):
        if coefficient is None or extent == 1:
            continue
        span = s.mul(coefficient, s.constant(extent - 1))
        if is_constant(span):
            if span.number < 0:
                low_end, below = s.add(low_end, span), True
            else:
                high_end = s.add(high_end, span)
        else:
            low_end, below = s.add(low_end, s.min(span, s.constant(0))), True
            high_end = s.add(high_end, s.max(span, s.constant(0)))
    conditions = []
    if high_end.operand() not in s.narrow:
        conditions.append(k.f.icmp("sle", high_end, s.constant(HIGHEST)))
    if below:
        conditions.append(k.f.icmp("sge", low_end, s.constant(lowest)))
    if conditions:
        holds = conditions[0] if len(conditions) == 1 else k.f.binary("and", *conditions)
        message = f"the 32-bit offsets that {op.name} uses pass 2**31; fix: compute them in i64"
        site = Site("overflow", message, source_location(op), callers=callers_of(op))
        status.stop_unless(holds, site, k.program, i64(-1))
    s.remember(key, TRUE)
    return True


def may_widen(k: KernelContext, affine: Affine, op: Operation, lowest: int) -> bool:
    """Whether the form also holds for the numbers after an operation widens them.

    That is proven, or checked by the program where they become addresses.
    """
    if op.name not in WIDENING:  # they move pointers
        return is_exact(k, affine, op, lowest)
    if _is_proven(IntegerRanges(), op.operands[0], lowest):
        return True
    return (is_static(affine) or k.address_uses.include(op.results[0])) and is_exact(k, affine, op, lowest)


def may_bound(k: KernelContext, op: Any, operands: Sequence[Node]) -> bool:
    """Whether a comparison may be one of exact numbers, which the program checks where it is not proven."""
    for node, value in zip(operands, op.operands, strict=True):
        if not isinstance(node, Affine) or node.elem != "i32" or is_static(node):
            continue
        while getattr(value.owner, "name", "") in RESHAPED:
            value = value.owner.operands[0]
        if not k.address_uses.include(value) and not any(_is_proven(_small(size, op), value, LOWEST) for size in _SMALL):
            return False
    return all(is_exact(k, node, op) for node in operands if isinstance(node, Affine))


def is_static(affine: Affine) -> bool:
    return is_constant(affine.base) and all(c is None or is_constant(c) for c in affine.coefficients)


def _is_proven(ranges: IntegerRanges, value: SSAValue, lowest: int) -> bool:
    low, high = ranges.of(value)
    return low >= lowest and (low, high) != (LOWEST, HIGHEST)


def _small(size: int, op: Any) -> IntegerRanges:
    """Returns the ranges in a launch of one program of an operation's function, all parameters `size`."""
    while op.name != "tt.func":
        op = op.parent_op()
    parameters = range(len(op.regions[0].blocks[0].args))
    return IntegerRanges(LaunchRanges(((1, 1),) * 3, dict.fromkeys(parameters, (size, size))))
