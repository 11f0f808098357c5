"""Analyses the structure of a nest: its reductions, scans and contractions, the roles of its axes, and its
memory accesses."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import InternalError
from ..nest import Affine, Nest, Value


def values_of(nest: Nest, op: str) -> tuple[int, ...]:
    """Returns the numbers of all body values with that op."""
    return tuple([number for number, value in enumerate(nest.body) if value.op == op])


def reach(nest: Nest, targets: Iterable[int], stop: Iterable[int] = ()) -> set[int]:
    """Returns every value that `targets` need, themselves included, without following the operands of
    `stop`."""
    ends, found, pending = set(stop), set[int](), list(targets)
    while pending:
        number = pending.pop()
        if number not in found:
            found.add(number)
            if number not in ends:
                pending.extend(nest.body[number].operands)
    return found


def reduced_axes(nest: Nest) -> tuple[int, ...]:
    """Returns the axes that a reduction runs over, or a scan along, in order."""
    found: set[int] = set()
    for value in nest.body:
        if value.op == "reduce":
            found.update(value.attrs["over"])
        elif value.op == "scan":
            found.add(value.attrs["axis"])
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Product:
    """A contraction and the roles of its axes. `m` or `n` is None when its operand has no axis of its own."""

    number: int
    m: int | None
    n: int | None
    k: int
    batch: tuple[int, ...]


def product_of(nest: Nest, number: int) -> Product:
    """Returns a contraction with the roles of its axes: m is the last axis that only the first operand has, n
    the last that only the second has; all others are batch axes."""
    value = nest.body[number]
    k: int = value.attrs["over"]
    left, right = (nest.body[operand].axes for operand in value.operands)
    rows = [axis for axis in left if axis not in right and axis != k]
    columns = [axis for axis in right if axis not in left and axis != k]
    m = rows[-1] if rows else None
    n = columns[-1] if columns else None
    batch = tuple([axis for axis in value.axes if axis not in (m, n)])
    return Product(number, m, n, k, batch)


def products(nest: Nest) -> tuple[Product, ...]:
    return tuple([product_of(nest, number) for number in values_of(nest, "contract")])


def accesses(nest: Nest) -> list[tuple[Affine, Value | None]]:
    """Returns the addresses of the stores (with None) and of the loads (with the load)."""
    return [(store.at, None) for store in nest.stores] + [(v.attrs["at"], v) for v in nest.loads]


def unit_axis(at: Affine) -> int | None:
    """Returns the axis along which an address moves by one element, or None."""
    for axis, coefficient in at.terms:
        if type(coefficient) is int and coefficient == 1:
            return axis
    return None


def contiguous_axis(nest: Nest, candidates: Iterable[int]) -> int | None:
    """Returns the candidate axis along which most of the memory traffic is contiguous: accesses along more
    axes weigh more."""
    weights = dict.fromkeys(candidates, 0)
    for at, _ in accesses(nest):
        axis = unit_axis(at)
        if axis in weights:
            weights[axis] += 16 ** len(at.terms)
    best = max(weights.values(), default=0)
    return next((axis for axis in reversed(weights) if weights[axis] == best), None) if best else None


def attention_products(nest: Nest) -> tuple[Product, Product, int]:
    """Returns the products (scores, values) of an attention nest, and the axis of the scores' rows."""
    first, second = products(nest)
    if second.number in reach(nest, nest.body[first.number].operands):
        first, second = second, first
    if first.m is None:
        raise InternalError("tile: scores of an attention without rows")
    return first, second, first.m


def may_be_negative_zero(nest: Nest, number: int) -> bool:
    """Returns whether a float value of the nest may be -0.0, as far as its operation tells."""
    value = nest.body[number]
    match value.op:
        case "const":
            return bool(np.signbit(np.float64(value.attrs["value"])))
        case "mul" if value.operands[0] == value.operands[1]:
            return False
        case "where":
            return any(may_be_negative_zero(nest, operand) for operand in value.operands[1:])
        case "cast":
            source = nest.body[value.operands[0]].dtype
            return source.is_float and may_be_negative_zero(nest, value.operands[0])
    return value.op not in ("abs", "exp", "exp2", "exp_shifted", "exp_shifted_unchecked", "one_unless_below", "sigmoid")
