"""Matches nests with the tile templates that can run them. The group of a nest that fits none is formed anew
with more symbols stored."""

from __future__ import annotations

from collections.abc import Sequence

from ..nest import Axis, Nest, Store, Template, Value
from .attention import find_softmax

IN_ORDER = {"scatter": ("target", "over"), "sort": ("axis", "half"), "sort_lines": ("axis",)}
"""Operations that work in the memory of their result → their attributes that are axes."""


class NoTemplateError(Exception):
    """Raised with the reason why no template runs a nest. Never leaves the scheduler."""


def template_of(axes: Sequence[Axis], body: Sequence[Value], stores: Sequence[Store]) -> Template:
    """Returns the template that runs a nest of these parts, or raises `NoTemplateError`.

    map: no reduction, contraction or scan.
    row: every reduction is over the same axes.
    contract: one contraction, over one axis or several; each operand is affine loads and elementwise ops on its own
        (batch, m, k) or (batch, k, n); all that follows is elementwise; the stores cover (batch, m, n).
    attention: two contractions; row operations over the keys between them.
    scan: one axis, elementwise ops around it.
    ordered: one scatter or sort, elementwise ops before it.
    """
    contracts = [v for v in body if v.op == "contract"]
    reduces = [v for v in body if v.op == "reduce"]
    scans = [v for v in body if v.op == "scan"]
    in_order = [v for v in body if v.op in IN_ORDER]
    if in_order:
        if len(in_order) > 1 or contracts or reduces or scans or len(stores) != 1 or body[stores[0].value] is not in_order[0]:
            raise NoTemplateError("something beside an operation in order")
        return "ordered"
    if scans:
        _check_scan(scans, bool(contracts or reduces))
        return "scan"
    if not contracts:
        if len({tuple(sorted(v.attrs["over"])) for v in reduces}) > 1:
            raise NoTemplateError("reductions over different axes")
        return "row" if reduces else "map"
    if len(contracts) > 2:
        raise NoTemplateError("more than two contractions")
    names = {axis.name: position for position, axis in enumerate(axes)}
    if len(contracts) == 1:
        _check_contract(body, names, contracts[0], bool(reduces))
    else:
        _check_attention(body, names, contracts[0], contracts[1], len(reduces))
    _check_stores(axes, body, stores, sum(1 + len(value.attrs.get("outer", ())) for value in contracts))
    return "contract" if len(contracts) == 1 else "attention"


def grid_axes(nest: Nest) -> tuple[int, ...]:
    """Returns the axes of the grid, which are those along which no reduction, scan, contraction, sort or order of updates
    runs."""
    along: set[int] = set()
    for value in nest.body:
        if value.op in ("reduce", "contract"):
            over = value.attrs["over"]
            along.update((over, *value.attrs.get("outer", ())) if isinstance(over, int) else over)
        elif value.op == "scan":
            along.add(value.attrs["axis"])
        elif value.op == "scatter":
            along.add(value.attrs["over"])
        elif value.op in ("sort", "sort_lines"):
            along.update([value.attrs[name] for name in IN_ORDER[value.op]])
    return tuple([axis for axis in range(len(nest.axes)) if axis not in along])


def _check_scan(scans: Sequence[Value], mixed: bool) -> None:
    if mixed:
        raise NoTemplateError("a scan beside a reduction or contraction")
    if len({v.attrs["axis"] for v in scans}) > 1:
        raise NoTemplateError("scans along different axes")


def _check_contract(body: Sequence[Value], names: dict[str, int], contract: Value, reduces: bool) -> None:
    if reduces:
        raise NoTemplateError("a reduction beside a contraction")
    _check_operands(body, contract, names["m"], names["n"], contract.attrs["over"])


def _check_attention(body: Sequence[Value], names: dict[str, int], scores: Value, values: Value, reduces: int) -> None:
    m, keys, k = names["m"], names["keys"], names["k"]
    if scores.attrs["over"] != k or values.attrs["over"] != keys or scores.attrs.get("outer") or values.attrs.get("outer"):
        raise NoTemplateError("two contractions that are not scores and values")
    _check_operands(body, scores, m, keys, k)
    weights, right = values.operands
    if m in body[right].axes or not _is_plain(body, right):
        raise NoTemplateError("values that are no affine load")
    if reduces != 2 or find_softmax(body, weights, keys) is None:
        raise NoTemplateError("no softmax over the keys")


def _check_stores(axes: Sequence[Axis], body: Sequence[Value], stores: Sequence[Store], contracted: int) -> None:
    """Checks that all axes but the contracted ones are parallel, and that every store varies along them."""
    parallel = tuple([position for position, axis in enumerate(axes) if axis.iterator == "parallel"])
    if len(parallel) + contracted != len(axes):
        raise NoTemplateError("a reduction axis besides those of the contractions")
    if any(body[store.value].axes != parallel for store in stores):
        raise NoTemplateError("a store that does not cover the result")


def _check_operands(body: Sequence[Value], contract: Value, m: int, n: int, k: int) -> None:
    lhs, rhs = (body[operand] for operand in contract.operands)
    if n in lhs.axes or m in rhs.axes or not {m, k} <= set(lhs.axes) or not {n, k} <= set(rhs.axes):
        raise NoTemplateError("an operand of a contraction varies along the wrong axes")
    if not all(_is_plain(body, operand) for operand in contract.operands):
        raise NoTemplateError("an operand that is no affine load")


def _is_plain(body: Sequence[Value], operand: int) -> bool:
    """Returns whether a contraction operand is made of affine, unguarded loads and elementwise ops."""
    pending, seen = [operand], {operand}
    while pending:
        value = body[pending.pop()]
        if value.op in ("reduce", "scan", "contract", "index"):
            return False
        if value.op == "load" and value.operands:
            return False
        for below in value.operands:
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return True
