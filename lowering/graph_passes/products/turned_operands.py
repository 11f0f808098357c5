"""Left operands that lie along their columns, x.T @ y: copied with their rows as rows, by a kernel of their own.

A micro-kernel takes elements of few rows at each step, which lie in another cache line each. Where the step is a power of two,
those lines fall into the same sets, and are gone when the next rows ask for them; tiles of AVX2 have fewer columns than those
of AVX-512, and pass over them as many times more.
"""

from __future__ import annotations

from dataclasses import replace

from ....promotion.dtype import float32, float64
from ...nest import Affine, Axis, Buffer, Nest, Store, Value
from ...schedule.plan import Plan, with_nests
from ...tile.structure import products

MIN_ROWS, MIN_COLUMNS, MIN_STEPS = 64, 128, 32
"""Rows, columns and steps from which on a copy is a small part of a product."""
TURNED = -1
"""`Buffer.symbol` of a temporary that is no symbol of the graph."""


def with_turned_operands(plan: Plan) -> Plan:
    """Returns the plan with such operands copied first."""
    if plan.steps:
        return plan
    nests: list[Nest] = []
    temporaries = list(plan.temporaries)
    copies: dict[tuple[str, int], Buffer] = {}
    for nest in plan.nests:
        position = _left_operand(nest)
        if position is not None:
            source: Buffer = nest.body[position].attrs["buffer"]
            key = (source.kind, source.index)
            steps, rows = source.shape
            assert isinstance(steps, int)  # as `_left_operand` looks at
            if key not in copies:
                copies[key] = Buffer("temporary", len(temporaries), source.dtype, (rows, steps), TURNED)
                temporaries.append(copies[key])
                nests.append(_copy(source, copies[key], nest))
            nest = _read_from(nest, position, copies[key], steps)
        nests.append(nest)
    return plan if not copies else with_nests(plan, nests, temporaries)


def _left_operand(nest: Nest) -> int | None:
    """Returns where in a nest's body a left operand is loaded that is better copied; None where there is none."""
    found = products(nest)
    if len(found) != 1 or found[0].m is None or found[0].n is None or found[0].outer or len(found[0].rows) != 1:
        return None
    product = found[0]
    position = nest.body[product.number].operands[0]
    load = nest.body[position]
    if load.op != "load" or load.operands or load.dtype not in (float32, float64):
        return None
    if sum(value.operands.count(position) for value in nest.body) != 1:
        return None
    buffer: Buffer = load.attrs["buffer"]
    assert product.m is not None
    assert product.n is not None
    rows, columns, steps = (nest.axes[axis].extent for axis in (product.m, product.n, product.k))
    if not isinstance(rows, int) or not isinstance(columns, int) or not isinstance(steps, int):
        return None
    if rows < MIN_ROWS or columns < MIN_COLUMNS or steps < MIN_STEPS or buffer.kind == "constant":
        return None
    at: Affine = load.attrs["at"]
    plain = at.offset == 0 and dict(at.terms) == {product.k: rows, product.m: 1}
    return position if plain and buffer.shape == (steps, rows) else None


def _copy(source: Buffer, target: Buffer, reader: Nest) -> Nest:
    """Makes the nest target[m, k] = source[k, m]. It counts as part of its reader."""
    rows, steps = target.shape
    attrs = {"buffer": source, "at": Affine(0, ((0, 1), (1, rows))), "strides": (), "guarded": False, "fill": 0}
    body = (Value("load", source.dtype, (0, 1), (), attrs),)
    store = Store(0, target, Affine(0, ((0, steps), (1, 1))))
    return Nest((Axis("m", rows), Axis("k", steps)), body, (store,), "map", ("turn",), reader.symbols)


def _read_from(nest: Nest, position: int, buffer: Buffer, steps: int) -> Nest:
    (product,) = products(nest)
    assert product.m is not None
    load = nest.body[position]
    body = list(nest.body)
    attrs = {**load.attrs, "buffer": buffer, "at": Affine(0, ((product.m, steps), (product.k, 1)))}
    body[position] = replace(load, attrs=attrs)
    return replace(nest, body=tuple(body))
