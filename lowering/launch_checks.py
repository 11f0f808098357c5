"""Collects the checks that a launch makes first: that every size fits 64 bits, then those of the graph and of
its budget.

Generated code computes sizes in 64-bit integers that wrap. A check on a size that wrapped would say nothing,
so the first check is on a polynomial that no size of the model exceeds, computed where nothing wraps: in
float64 on hosts, in Python's integers for GPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..graph.checks import MAX_SIZE, Check
from ..graph.dims.dim import Atom, Dim, dim
from ..graph.graph import Graph
from ..promotion.errors import UserError
from .nest import Extent
from .stages import Tiled

SIZES_MESSAGE = "some size of the model does not fit 64 bits for these dims; fix: pass smaller arrays"


def launch_checks(graph: Graph) -> tuple[Check, ...]:
    """Returns the checks of the graph, then those of its budget."""
    return (*graph.checks, *graph.limits)


def check_messages(graph: Graph) -> tuple[str, ...]:
    """Returns the messages of all checks of a launch, in their order."""
    return tuple([SIZES_MESSAGE, *[check.message for check in launch_checks(graph)]])


def magnitude(tiled: Tiled) -> Extent:
    """Returns a polynomial in the dims with nonnegative coefficients that bounds the absolute value of every
    size of the model.

    Raises `UserError` if the bound is a number that does not fit 64 bits.
    """
    largest: dict[Any, int] = {}
    for extent in set(_sizes(tiled)):
        bounds: list[Extent] = []
        bounds.append(_bound(extent, bounds))
        for bound in bounds:
            for coefficient, monomial in bound.terms if isinstance(bound, Dim) else [(bound, ())]:
                largest[monomial] = max(largest.get(monomial, 0), coefficient)
    total: Extent = 0
    for monomial, coefficient in largest.items():
        term: Extent = min(coefficient, MAX_SIZE)  # any more fails the check just the same, and may overflow a float64
        for name, power in monomial:
            term = term * dim(name) ** power
        total = total + term
    if isinstance(total, int) and total >= MAX_SIZE:
        raise UserError(f"graph {tiled.source.name!r}: a size of {total} does not fit 64 bits; fix: choose smaller sizes")
    return total


def _sizes(tiled: Tiled) -> Iterator[Extent]:
    for check in launch_checks(tiled.source):
        yield from check[:2]
    for symbol in tiled.laid_out.expanded.symbols():
        yield symbol.nbytes
        yield from symbol.shape
        for value in symbol.attrs.values():
            yield from _extents(value)
    for launch in tiled.launches:
        yield launch.grid
        yield from launch.scalars
        for tensor in launch.descriptors:
            yield from (*tensor.extents, *tensor.strides)
    yield from tiled.plan.memory.offsets
    yield tiled.plan.memory.size


def _extents(value: Any) -> Iterable[Extent]:
    if isinstance(value, Dim):
        return (value,)
    return [entry for entry in value if isinstance(entry, Dim)] if isinstance(value, tuple) else ()


def _bound(extent: Extent, inner: list[Extent]) -> Extent:
    """Returns a polynomial in dim names that bounds the absolute value of `extent`. Those of intermediate results that it does
    not bound are added to `inner`."""
    positive, negative = _parts(extent, inner)
    return positive + negative


def _parts(extent: Extent, inner: list[Extent]) -> tuple[Extent, Extent]:
    """Returns polynomials p and n with nonnegative coefficients so that -n <= extent <= p."""
    if isinstance(extent, int):
        return max(extent, 0), max(-extent, 0)
    positive: Extent = 0
    negative: Extent = 0
    for coefficient, monomial in extent.terms:
        term: Extent = abs(coefficient)
        for atom, power in monomial:
            factor = dim(atom) if isinstance(atom, str) else _factor(atom, inner)
            for _ in range(power):
                term = term * factor
        has_sign = any(isinstance(atom, Atom) and atom.kind == "floordiv" for atom, _ in monomial)
        if has_sign or coefficient > 0:
            positive = positive + term
        if has_sign or coefficient < 0:
            negative = negative + term
    return positive, negative


def _factor(atom: Atom, inner: list[Extent]) -> Extent:
    if atom.kind != "max":
        dividend, divisor = _bound(atom.args[0], inner), atom.args[1]
        if isinstance(divisor, int) and divisor:
            inner.append(dividend)
            return _divided(dividend, abs(divisor)) if atom.kind == "floordiv" else abs(divisor)
        # a quotient is at most its dividend, a remainder less than its divisor or the dividend
        return dividend + _bound(divisor, inner)
    # max(p, 0): min(n, 2^63 - 1) is n - max(n - (2^63 - 1), 0), which is no more than n, and computes nothing that is larger
    positive, negative = _parts(atom.args[0], inner)
    inner.append(positive)
    if not isinstance(negative, int) or negative >= 1 << 63:
        inner.append(negative)
    return positive


def _divided(extent: Extent, divisor: int) -> Extent:
    """Returns a bound of |x // divisor|, for a polynomial that bounds |x|: its terms, each divided and rounded up.

    A block that covers an axis of any size is of 2^48 elements: its number of blocks is 1, which the dividend does not say.
    """
    total: Extent = 0
    for coefficient, monomial in extent.terms if isinstance(extent, Dim) else [(extent, ())]:
        term: Extent = -(-coefficient // divisor)
        for name, power in monomial:
            term = term * dim(name) ** power
        total = total + term
    return total
