"""Handles factorisations of matrices (Cholesky, LU, QR) and solves, in programs that run without PyTorch, which has LAPACK.

One iteration of a loop does a column of all matrices at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .....promotion.dtype import bool_, int32, int64
from ....construction import primitives
from ....dims.dim import Extent, product
from ....functions.building import apply
from ....functions.control.loops import fori_loop
from ....functions.host import data_sized
from ....functions.indexing import take_along_axis
from ....functions.linalg import matmul
from ....functions.positions import counting
from ....functions.reductions import argmax, max_, prod, sum_
from ....functions.triangles import tril, triu
from ....symbol import Symbol
from ...node import Node
from ...registry import handles


def stacked(x: Symbol) -> Symbol:
    """Return matrices (…, m, n) as (count, m, n)."""
    return primitives.reshape(x, (product(x.shape[:-2]), *x.shape[-2:]))


def swapped(x: Symbol) -> Symbol:
    """Return matrices with rows for columns."""
    rank = len(x.shape)
    return apply("permute", x, axes=(*range(rank - 2), rank - 1, rank - 2))


def unit(x: Symbol, rows: Extent, columns: Extent) -> Symbol:
    """Return the unit matrix, of the dtype of another one."""
    at = primitives.reshape(counting(x.graph, rows), (rows, 1))
    return apply("equal", at, counting(x.graph, columns)).cast(x.dtype)


def repeated(count: Extent, step: Callable[[Symbol, Any], Any], state: Any) -> Any:
    """Return a state after a step for each column; of matrices without columns, as it is."""
    return state if count == 0 else fori_loop(0, count, step, state)


def column(x: Symbol, index: Symbol) -> Symbol:
    """Return a column of each matrix as (count, m)."""
    return apply("gather", x, index, axis=2)


def outer(a: Symbol, b: Symbol) -> Symbol:
    """Return the products of all pairs of elements: (count, m), (count, n) → (count, m, n)."""
    return apply("mul", primitives.reshape(a, (*a.shape, 1)), primitives.reshape(b, (b.shape[0], 1, b.shape[1])))


def _square(node: Node, x: Symbol) -> Extent:
    return node.graph.shape_checks.require_equal(x.shape[-2], x.shape[-1], "the sizes of a square matrix")


def _zeros(x: Symbol, shape: Sequence[Extent]) -> Symbol:
    return primitives.broadcast_to(x.graph.scalar(0, int32), tuple(shape))


# -- Cholesky ----------------------------------------------------------------------------------------------------------


@handles("linalg_cholesky_ex.default", alone=True)
def cholesky(node: Node, x: Symbol, upper: bool = False, check_errors: bool = False) -> tuple[Symbol, Symbol]:
    """Factor positive definite matrices; return which column failed too, counted from 1, or 0."""
    size = _square(node, x)
    given = stacked(swapped(x) if upper else x)

    def step(index: Symbol, state: tuple[Symbol, Symbol]) -> tuple[Symbol, Symbol]:
        m, info = state
        rows = counting(m.graph, size)
        at = column(m, index)
        square = apply("gather", at, index, axis=1)
        failed = apply("logical_and", apply("equal", info, m.graph.scalar(0, int32)),
                       apply("logical_not", apply("greater", square, m.graph.scalar(0.0, m.dtype))))  # fmt: skip
        info = apply("where", failed, apply("add", index, 1).cast(int32), info)
        pivot = primitives.reshape(apply("sqrt", square), (m.shape[0], 1))
        zero = m.graph.scalar(0.0, m.dtype)
        below = apply("where", apply("greater", rows, index), apply("div", at, pivot), zero)
        whole = apply("where", apply("equal", rows, index), pivot, below)
        left = apply("sub", m, outer(below, below))
        return apply("where", apply("equal", rows, index), primitives.reshape(whole, (*whole.shape, 1)), left), info

    factor, info = repeated(size, step, (given, _zeros(x, given.shape[:1])))
    lower = tril(primitives.reshape(factor, x.shape))
    _require(node, info, check_errors)
    return swapped(lower) if upper else lower, primitives.reshape(info, x.shape[:-2])


def _require(node: Node, info: Symbol, wanted: bool) -> None:
    """Require factorisations to have succeeded, where that is wanted."""
    if not wanted:
        return
    failures = sum_(apply("not_equal", primitives.reshape(info, (info.size,)), node.graph.scalar(0, int32)).cast(int64))
    holds = apply("equal", failures, node.graph.scalar(0, int64))
    what = "is not positive definite" if "cholesky" in node.kind else "is singular"
    node.hold(data_sized.size_of(holds.cast(int64)), f"{node.kind}: a matrix {what}")


@handles("linalg_cholesky.default", alone=True)
def checked_cholesky(node: Node, x: Symbol, upper: bool = False) -> Symbol:
    """Factor positive definite matrices; a run with others fails."""
    return cholesky(node, x, upper, True)[0]


@handles("cholesky_solve.default", alone=True)
def cholesky_solve(node: Node, b: Symbol, factor: Symbol, upper: bool = False) -> Symbol:
    """Solve by a Cholesky factor."""
    lower, right = _broadcast(node, swapped(factor) if upper else factor, b)
    half = _triangular(lower, right, False, False)
    return primitives.reshape(_triangular(swapped(lower), half, True, False), node.shape)


@handles("cholesky_inverse.default", alone=True)
def cholesky_inverse(node: Node, factor: Symbol, upper: bool = False) -> Symbol:
    """Invert the matrix that a Cholesky factor is of."""
    lower = stacked(swapped(factor) if upper else factor)
    size = lower.shape[-1]
    inverse = _triangular(lower, apply("broadcast_to", unit(lower, size, size), shape=lower.shape), False, False)
    return primitives.reshape(matmul(swapped(inverse), inverse), node.shape)


# -- triangles ---------------------------------------------------------------------------------------------------------


def _broadcast(node: Node, a: Symbol, b: Symbol, vector: bool = False) -> tuple[Symbol, Symbol]:
    """Return matrices and right-hand sides as (count, n, n) and (count, n, k)."""
    shape = (*node.shape, 1) if vector else node.shape
    batch = shape[:-2]
    b = primitives.reshape(b, (*b.shape, 1)) if vector else b
    wide = [apply("broadcast_to", each, shape=(*batch, *each.shape[-2:])) for each in (a, b)]
    return stacked(wide[0]), stacked(wide[1])


def _triangular(a: Symbol, b: Symbol, upper: bool, is_unit: bool) -> Symbol:
    """Solve (count, n, n) X = (count, n, k) by substitution, from the first row, or of upper ones from the last."""
    size = a.shape[-1]

    def step(number: Symbol, x: Symbol) -> Symbol:
        rows = counting(x.graph, size)
        index = apply("sub", x.graph.dim_value(size - 1), number) if upper else number
        at = column(a, index)
        row = apply("gather", x, index, axis=1)
        if not is_unit:
            row = apply("div", row, primitives.reshape(apply("gather", at, index, axis=1), (x.shape[0], 1)))
        rest = apply("where", apply("less" if upper else "greater", rows, index), at, x.graph.scalar(0.0, x.dtype))
        here = primitives.reshape(apply("equal", rows, index), (size, 1))
        found = primitives.reshape(row, (x.shape[0], 1, x.shape[2]))
        return apply("where", here, found, apply("sub", x, outer(rest, row)))

    solved: Symbol = repeated(size, step, b)
    return solved


@handles("linalg_solve_triangular.default", alone=True)
def solve_triangular(
    node: Node, a: Symbol, b: Symbol, upper: bool, left: bool = True, unitriangular: bool = False
) -> Symbol:
    """Solve triangular systems."""
    if left:
        return primitives.reshape(_triangular(*_broadcast(node, a, b), upper, unitriangular), node.shape)
    turned = (*node.shape[:-2], node.shape[-1], node.shape[-2])
    wide = [stacked(apply("broadcast_to", swapped(each), shape=(*turned[:-2], *swapped(each).shape[-2:]))) for each in (a, b)]
    return swapped(primitives.reshape(_triangular(wide[0], wide[1], not upper, unitriangular), turned))


@handles("triangular_solve.default", alone=True)
def triangular_solve(
    node: Node, b: Symbol, a: Symbol, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Symbol, Symbol]:
    """Solve triangular systems, and return their matrices."""
    wide, right = _broadcast(node, swapped(a) if transpose else a, b)
    copied = apply("broadcast_to", a, shape=node.result(1).shape)
    return primitives.reshape(_triangular(wide, right, upper != transpose, unitriangular), node.shape), copied


# -- LU ----------------------------------------------------------------------------------------------------------------


class Factors:
    """P A = L U of (count, m, n): both factors in one, rows that were exchanged (from 1), the order of rows, failures."""

    def __init__(self, x: Symbol, pivots: bool = True) -> None:
        count, m, n = x.shape
        least = m if m == n else min(m, n)  # type: ignore[type-var]
        numbers = counting(x.graph, least)
        order = apply("broadcast_to", counting(x.graph, m), shape=(count, m))

        def step(index: Symbol, state: tuple[Symbol, Symbol, Symbol, Symbol]) -> tuple[Symbol, Symbol, Symbol, Symbol]:
            a, pivot, order, info = state
            rows, columns = counting(a.graph, m), counting(a.graph, n)
            if pivots:
                lowest = a.graph.scalar(-1.0, a.dtype)
                sizes = apply("where", apply("less", rows, index), lowest, apply("abs", column(a, index)))
                best = primitives.reshape(argmax(sizes, 1), (count, 1))
            else:
                best = apply("broadcast_to", index, shape=(count, 1))
            here = apply("equal", rows, index)
            moved = apply("where", here, best, apply("where", apply("equal", rows, best), index, rows))
            a = take_along_axis(a, apply("broadcast_to", primitives.reshape(moved, (count, m, 1)), shape=a.shape), 1)
            order = take_along_axis(order, moved, 1)
            pivot = apply("where", apply("equal", numbers, index), apply("add", best, 1).cast(int32), pivot)
            row, at = apply("gather", a, index, axis=1), column(a, index)
            head = primitives.reshape(apply("gather", at, index, axis=1), (count, 1))
            zero = a.graph.scalar(0.0, a.dtype)
            is_zero = apply("equal", head, zero)
            failed = apply("logical_and", apply("equal", info, a.graph.scalar(0, int32)), primitives.reshape(is_zero, (count,)))
            info = apply("where", failed, apply("add", index, 1).cast(int32), info)
            below = apply("greater", rows, index)
            factor = apply("where", apply("logical_and", below, apply("logical_not", is_zero)), apply("div", at, head), zero)
            behind = apply("where", apply("greater", columns, index), row, zero)
            left = apply("sub", a, outer(factor, behind))
            is_column = apply("logical_and", primitives.reshape(below, (m, 1)), apply("equal", columns, index))
            return apply("where", is_column, primitives.reshape(factor, (count, m, 1)), left), pivot, order, info

        given = (x, _zeros(x, (count, least)), order, _zeros(x, (count,)))
        self.both, self.pivots, self.order, self.info = repeated(least, step, given)

    def solved(self, b: Symbol) -> Symbol:
        """Solve A X = B of (count, n, k)."""
        order = apply("broadcast_to", primitives.reshape(self.order, (*self.order.shape, 1)), shape=b.shape)
        half = _triangular(self.both, take_along_axis(b, order, 1), False, True)
        return _triangular(self.both, half, True, False)

    def diagonal(self) -> Symbol:
        """Return the pivots themselves, as (count, n)."""
        return diagonal(self.both)

    def sign(self) -> Symbol:
        """Return whether rows were exchanged an odd number of times, as bools (count,)."""
        numbers = apply("add", counting(self.both.graph, self.pivots.shape[1]), 1).cast(int32)
        moved = apply("not_equal", self.pivots, numbers).cast(int64)
        return apply("bitwise_and", sum_(moved, 1), 1).cast(bool_)


def diagonal(x: Symbol) -> Symbol:
    """Return the diagonals of square matrices (count, n, n)."""
    at = counting(x.graph, x.shape[1])
    index = apply("broadcast_to", primitives.reshape(at, (x.shape[1], 1)), shape=(*x.shape[:2], 1))
    return primitives.reshape(take_along_axis(x, index, 2), x.shape[:2])


def _factors(node: Node, x: Symbol, pivots: bool = True) -> Factors:
    if x.shape[-2] != x.shape[-1]:
        node.static(x.shape[-2:], "a matrix to factor")
    return Factors(stacked(x), pivots)


@handles("linalg_lu_factor_ex.default", alone=True)
def lu_factor(node: Node, x: Symbol, pivot: bool = True, check_errors: bool = False) -> tuple[Symbol, Symbol, Symbol]:
    """Factor matrices; return both factors in one, which rows were exchanged, and which pivot is 0, counted from 1."""
    found = _factors(node, x, pivot)
    _require(node, found.info, check_errors)
    batch = x.shape[:-2]
    return (primitives.reshape(found.both, x.shape), primitives.reshape(found.pivots, (*batch, found.pivots.shape[1])),
            primitives.reshape(found.info, batch))  # fmt: skip


@handles("linalg_lu_factor.default", alone=True)
def checked_lu_factor(node: Node, x: Symbol, pivot: bool = True) -> tuple[Symbol, Symbol]:
    """Factor matrices; a run with singular ones fails."""
    return lu_factor(node, x, pivot, True)[:2]


@handles("linalg_lu.default", alone=True)
def lu(node: Node, x: Symbol, pivot: bool = True) -> tuple[Symbol, Symbol, Symbol]:
    """Return P, L and U."""
    node.require(pivot, "LU without exchanges of rows", "pivot=True")
    found = _factors(node, x)
    count, m, _ = found.both.shape
    least = found.pivots.shape[1]
    order = apply("broadcast_to", primitives.reshape(found.order, (count, 1, m)), shape=(count, m, m))
    at = primitives.reshape(counting(x.graph, m), (m, 1))
    exchange = apply("equal", order, at).cast(x.dtype)
    lower = apply("add", tril(found.both[:, :, :least], -1), unit(x, m, least))
    shapes = [node.result(number).shape for number in range(3)]
    upper = primitives.reshape(triu(found.both[:, :least, :]), shapes[2])
    return primitives.reshape(exchange, shapes[0]), primitives.reshape(lower, shapes[1]), upper


@handles("_linalg_det.default", alone=True)
def det(node: Node, x: Symbol) -> tuple[Symbol, ...]:
    """Return determinants, and the factors of the transposed matrices."""
    _square(node, x)
    found = Factors(stacked(swapped(x)))
    total = prod(found.diagonal(), 1)
    total = apply("where", found.sign(), apply("negate", total), total)
    return _determinants(node, found, total)


@handles("_linalg_slogdet.default", alone=True)
def slogdet(node: Node, x: Symbol) -> tuple[Symbol, ...]:
    """Return signs and logarithms of determinants, and the factors of the transposed matrices."""
    _square(node, x)
    found = Factors(stacked(swapped(x)))
    pivots = found.diagonal()
    sign = prod(apply("sign", pivots), 1)
    sign = apply("where", found.sign(), apply("negate", sign), sign)
    size = sum_(apply("log", apply("abs", pivots)), 1)
    return _determinants(node, found, sign, size)


def _determinants(node: Node, found: Factors, *totals: Symbol) -> tuple[Symbol, ...]:
    parts = (*totals, found.both, found.pivots)
    return tuple([primitives.reshape(part, node.result(number).shape) for number, part in enumerate(parts)])


@handles("_linalg_solve_ex.default", alone=True)
def solve(node: Node, a: Symbol, b: Symbol, left: bool = True, check_errors: bool = False) -> tuple[Symbol, ...]:
    """Solve systems; return the factors too, and which pivot is 0, counted from 1."""
    found = Factors(stacked(a))
    _require(node, found.info, check_errors)
    rest = (found.both, found.pivots, found.info)
    parts = [primitives.reshape(part, node.result(number).shape) for number, part in enumerate(rest, start=1)]
    return (_solution(node, a, b, left), *parts)


@handles("linalg_solve.default", alone=True)
def checked_solve(node: Node, a: Symbol, b: Symbol, left: bool = True) -> Symbol:
    """Solve systems; a run with singular ones fails."""
    _require(node, Factors(stacked(a)).info, True)
    return _solution(node, a, b, left)


def _solution(node: Node, a: Symbol, b: Symbol, left: bool) -> Symbol:
    """Return what solves systems, in the declared shape of the first result."""
    _square(node, a)
    vector = len(b.shape) == 1 or (len(b.shape) == len(a.shape) - 1 and b.shape == a.shape[:-1])
    given = a if left else swapped(a)
    right = b if left or vector else swapped(b)
    shape = (*node.shape, 1) if vector else node.shape if left else (*node.shape[:-2], node.shape[-1], node.shape[-2])
    right = primitives.reshape(right, (*right.shape, 1)) if vector else right
    wide = [stacked(apply("broadcast_to", each, shape=(*shape[:-2], *each.shape[-2:]))) for each in (given, right)]
    solved = primitives.reshape(Factors(wide[0]).solved(wide[1]), shape)
    return primitives.reshape(solved, node.shape) if left or vector else swapped(solved)


@handles("linalg_lu_solve.default", alone=True)
def lu_solve(node: Node, both: Symbol, pivots: Symbol, b: Symbol, left: bool = True, adjoint: bool = False) -> Symbol:
    """Solve by the factors of a matrix."""
    node.require(left and not adjoint, "lu_solve from the right, or of transposed matrices", "linalg.solve")
    factors, right = _broadcast(node, both, b)
    count, size, _ = factors.shape
    exchanges = primitives.reshape(apply("broadcast_to", pivots, shape=(*node.shape[:-2], size)), (count, size))

    def step(index: Symbol, x: Symbol) -> Symbol:
        rows = counting(x.graph, size)
        other = apply("sub", apply("gather", exchanges, index, axis=1).cast(int64), 1)
        there = primitives.reshape(other, (count, 1))
        moved = apply("where", apply("equal", rows, index), there, apply("where", apply("equal", rows, there), index, rows))
        return take_along_axis(x, apply("broadcast_to", primitives.reshape(moved, (count, size, 1)), shape=x.shape), 1)

    ordered: Symbol = repeated(size, step, right)
    half = _triangular(factors, ordered, False, True)
    return primitives.reshape(_triangular(factors, half, True, False), node.shape)


@handles("linalg_inv_ex.default", alone=True)
def inverse(node: Node, x: Symbol, check_errors: bool = False) -> tuple[Symbol, Symbol]:
    """Invert matrices; return which pivot is 0 too, counted from 1."""
    size = _square(node, x)
    found = Factors(stacked(x))
    _require(node, found.info, check_errors)
    right = apply("broadcast_to", unit(x, size, size), shape=found.both.shape)
    return primitives.reshape(found.solved(right), x.shape), primitives.reshape(found.info, x.shape[:-2])


@handles("linalg_inv.default", "inverse.default", alone=True)
def checked_inverse(node: Node, x: Symbol) -> Symbol:
    """Invert matrices; a run with singular ones fails."""
    return inverse(node, x, True)[0]


# -- QR ----------------------------------------------------------------------------------------------------------------


@handles("linalg_qr.default", alone=True)
def qr(node: Node, x: Symbol, mode: str = "reduced") -> tuple[Symbol, Symbol]:
    """Return an orthogonal factor and a triangular one, by reflections (Householder), with the signs that LAPACK has."""
    node.static(x.shape[-2:], "a matrix to factor")
    given = stacked(x)
    count, m, n = given.shape
    least = min(m, n)  # type: ignore[type-var]

    def step(index: Symbol, state: tuple[Symbol, Symbol]) -> tuple[Symbol, Symbol]:
        r, q = state
        rows, zero, one = counting(r.graph, m), r.graph.scalar(0.0, r.dtype), r.graph.scalar(1.0, r.dtype)
        at = column(r, index)
        head = primitives.reshape(apply("gather", at, index, axis=1), (count, 1))
        below = apply("where", apply("greater", rows, index), at, zero)
        scale = apply("maximum", max_(apply("abs", below), axis=1, keepdims=True), apply("abs", head))
        by = apply("where", apply("equal", scale, zero), one, scale)
        rest = sum_(apply("mul", apply("div", below, by), apply("div", below, by)), 1, True)
        near = apply("div", head, by)
        size = apply("mul", apply("sqrt", apply("add", apply("mul", near, near), rest)), by)
        end = apply("where", apply("less", head, zero), size, apply("negate", size))
        is_done = apply("equal", rest, zero)
        divisor = apply("where", is_done, one, apply("sub", head, end))
        v = apply("where", apply("equal", rows, index), one, apply("div", below, divisor))
        factor = apply("where", is_done, zero, apply("div", apply("sub", end, head), apply("where", is_done, one, end)))
        scaled = apply("mul", v, factor)
        along = primitives.reshape(matmul(primitives.reshape(v, (count, 1, m)), r), (count, r.shape[2]))
        turned = primitives.reshape(matmul(q, primitives.reshape(v, (count, m, 1))), (count, m))
        return apply("sub", r, outer(scaled, along)), apply("sub", q, outer(turned, scaled))

    start = apply("broadcast_to", unit(x, m, m), shape=(count, m, m))
    r, q = repeated(least, step, (given, start))
    r = triu(r)
    if mode == "r":
        empty = node.broadcast(node.number(0.0, x.dtype), node.result(0).shape)
        return empty, primitives.reshape(r[:, :least, :], node.result(1).shape)
    parts = (q, r) if mode == "complete" else (q[:, :, :least], r[:, :least, :])
    shapes = [node.result(number).shape for number in (0, 1)]
    return primitives.reshape(parts[0], shapes[0]), primitives.reshape(parts[1], shapes[1])


