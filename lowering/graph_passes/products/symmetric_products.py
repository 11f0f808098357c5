"""Products of a matrix with its own transpose, x.T @ x and x @ x.T: what lies below the diagonal is not computed.

Results at (i, j) and at (j, i) are the same chain of additions, in which factors change places: they are equal to the last bit.
What is computed of them afterwards may differ on both sides of the diagonal.
"""

from __future__ import annotations

from dataclasses import replace

from ....promotion.dtype import float32, float64
from ...nest import Affine, Extent, Nest
from ...schedule.plan import Plan
from ...tile.structure import products

MIN_ROWS, MIN_STEPS = 128, 32
"""The fewest rows of a result of which a block lies above the diagonal, and the fewest steps that computing it takes as long as
storing it transposed."""
MIN_SHORT_ROWS = 17
"""The fewest rows where vectors are short: a panel has 16 columns then, and so many rows and columns have the blocks of less
than `MIN_ROWS` (`tile/cost_models/host.py`)."""


def with_symmetric_products(plan: Plan, has_short_vectors: bool) -> Plan:
    """Returns the plan with `symmetric` among the attributes of such contractions."""
    least = MIN_SHORT_ROWS if has_short_vectors else MIN_ROWS
    nests = tuple([_marked(nest, least) for nest in plan.nests])
    return plan if all(new is old for new, old in zip(nests, plan.nests, strict=True)) else replace(plan, nests=nests)


def _marked(nest: Nest, least: int) -> Nest:
    found = products(nest) if nest.template == "contract" else ()
    if len(found) != 1 or found[0].m is None or found[0].n is None or len(found[0].rows) != 1:
        return nest
    (product,), value = found, nest.body[found[0].number]
    assert product.m is not None
    assert product.n is not None
    extents = [nest.axes[axis].extent for axis in (product.m, product.n, product.k)]
    if not _is_large(extents, least) or value.dtype not in (float32, float64) or "winograd" in value.attrs:
        return nest
    left, right = (nest.body[operand] for operand in value.operands)
    if left.op != "load" or right.op != "load" or left.operands or right.operands or left.dtype is not right.dtype:
        return nest
    if left.attrs["buffer"] != right.attrs["buffer"] or _swapped(left.attrs["at"], product.m, product.n) != right.attrs["at"]:
        return nest
    body = list(nest.body)
    body[product.number] = replace(value, attrs={**value.attrs, "symmetric": True})
    return replace(nest, body=tuple(body))


def _is_large(extents: list[Extent], least: int) -> bool:
    rows, columns, steps = extents
    return type(rows) is int and rows == columns and rows >= least and (type(steps) is not int or steps >= MIN_STEPS)


def _swapped(at: Affine, m: int, n: int) -> Affine:
    """Returns an address with one axis in the place of the other."""
    steps = {{m: n, n: m}.get(axis, axis): step for axis, step in at.terms}
    return Affine(at.offset, tuple([(axis, steps[axis]) for axis in sorted(steps)]))
