"""The tile templates and what each can run. A nest that fits none is formed anew with more of its symbols
stored."""

from __future__ import annotations

from ..nest import Nest, Value


def template_of(nest: Nest) -> tuple[str, str]:
    """The name of the template that runs `nest` and "", or "" and the reason why there is none.

    map: no reduction, contraction or scan.
    row: every reduction is over the same axes.
    contract: one contraction; each operand is affine loads and elementwise ops on its own (batch, m, k) or
        (batch, k, n); all that follows is elementwise; the stores cover (batch, m, n).
    attention: two contractions; row operations over the keys between them.
    scan: one axis, elementwise ops around it.
    """
    contracts = [v for v in nest.body if v.op == "contract"]
    reduces = [v for v in nest.body if v.op == "reduce"]
    scans = [v for v in nest.body if v.op == "scan"]
    if scans:
        return _scan(scans, bool(contracts or reduces))
    if not contracts:
        overs = {tuple(sorted(v.attrs["over"])) for v in reduces}
        if len(overs) > 1:
            return "", "reductions over different axes"
        return ("row" if reduces else "map"), ""
    if len(contracts) == 1:
        return _contract(nest, contracts[0], bool(reduces))
    if len(contracts) == 2:
        return _attention(nest, contracts[0], contracts[1], reduces)
    return "", "more than two contractions"


def grid_axes(nest: Nest) -> tuple[int, ...]:
    """The axes whose positions are programs of their own: those that no reduction, scan or contraction runs along."""
    along: set[int] = set()
    for value in nest.body:
        if value.op in ("reduce", "contract"):
            over = value.attrs["over"]
            along.update((over,) if isinstance(over, int) else over)
        elif value.op == "scan":
            along.add(value.attrs["axis"])
    return tuple([axis for axis in range(len(nest.axes)) if axis not in along])


def _scan(scans: list[Value], mixed: bool) -> tuple[str, str]:
    if mixed:
        return "", "a scan beside a reduction or contraction"
    if len({v.attrs["axis"] for v in scans}) > 1:
        return "", "scans along different axes"
    return "scan", ""


def _contract(nest: Nest, contract: Value, reduces: bool) -> tuple[str, str]:
    if reduces:
        return "", "a reduction beside a contraction"
    k = contract.attrs["over"]
    names = {axis.name: position for position, axis in enumerate(nest.axes)}
    m, n = names["m"], names["n"]
    reason = _operands(nest, contract, m, n, k)
    if reason:
        return "", reason
    parallel = tuple([p for p, axis in enumerate(nest.axes) if axis.iterator == "parallel"])
    if len(parallel) + 1 != len(nest.axes):
        return "", "a reduction axis besides k"
    if any(nest.body[store.value].axes != parallel for store in nest.stores):
        return "", "a store that does not cover the result"
    return "contract", ""


def _operands(nest: Nest, contract: Value, m: int, n: int, k: int) -> str:
    lhs, rhs = (nest.body[operand] for operand in contract.operands)
    if n in lhs.axes or m in rhs.axes or not {m, k} <= set(lhs.axes) or not {n, k} <= set(rhs.axes):
        return "an operand of a contraction varies along the wrong axes"
    return (
        ""
        if all(_is_plain(nest, operand) for operand in contract.operands)
        else "an operand that is no affine load"
    )


def _is_plain(nest: Nest, operand: int) -> bool:
    """True when a contraction operand is made of affine, unguarded loads and elementwise ops."""
    pending, seen = [operand], {operand}
    while pending:
        value = nest.body[pending.pop()]
        if value.op in ("reduce", "scan", "contract", "index"):
            return False
        if value.op == "load" and value.operands:
            return False
        for below in value.operands:
            if below not in seen:
                seen.add(below)
                pending.append(below)
    return True


def _attention(nest: Nest, scores: Value, values: Value, reduces: list[Value]) -> tuple[str, str]:
    names = {axis.name: position for position, axis in enumerate(nest.axes)}
    m, keys, k = names["m"], names["keys"], names["k"]
    if scores.attrs["over"] != k or values.attrs["over"] != keys:
        return "", "two contractions that are not scores and values"
    reason = _operands(nest, scores, m, keys, k)
    if reason:
        return "", reason
    rhs = nest.body[values.operands[1]]
    if m in rhs.axes or not _is_plain(nest, values.operands[1]):
        return "", "values that are no affine load"
    if [v.attrs["kind"] for v in reduces] != ["max", "sum"] or any(
        v.attrs["over"] != (keys,) for v in reduces
    ):
        return "", "no softmax over the keys"
    parallel = tuple([p for p, axis in enumerate(nest.axes) if axis.iterator == "parallel"])
    if len(parallel) + 2 != len(nest.axes) or any(
        nest.body[store.value].axes != parallel for store in nest.stores
    ):
        return "", "a store that does not cover the result"
    return "attention", ""
