"""Stored layouts of matmul operands: what the schedule may change about how a matrix lies in memory.

`tt.dot` on the host reads its right operand panel by panel: `width` columns of all rows, contiguous. A constant operand is stored that
way once, at compile time; the kernel then walks memory linearly and large strides cost no cache conflicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .nest import Affine, Buffer, Nest, Value
from .schedule.plan import Plan

PANEL = 64
MIN_COLUMNS = 33  # fewer fill less than half a panel


@dataclass(frozen=True, slots=True)
class ConstantLayout:
    """How constant buffer i of a plan is stored: the symbol it comes from and the layout's name (`runtime.layouts`)."""

    symbol: int
    layout: str

    @property
    def transposed(self) -> bool:
        return self.layout.endswith(":t")


def panel_operand(nest: Nest) -> tuple[int, bool] | None:
    """The body index of the load that is the whole right operand of the nest's only contraction and may be stored in panels,
    and whether the matrix is stored transposed (N, K). None when there is none."""
    contracts = [v for v in nest.body if v.op == "contract"]
    if len(contracts) != 1:
        return None
    contract = contracts[0]
    position = contract.operands[1]
    load = nest.body[position]
    readers = sum(v.operands.count(position) for v in nest.body)
    if load.op != "load" or load.operands or readers != 1 or load.attrs["buffer"].kind != "constant":
        return None
    at: Affine = load.attrs["at"]
    depth = contract.attrs["over"]
    others = [axis for axis, _ in at.terms if axis != depth]
    if at.offset != 0 or len(at.terms) != 2 or len(others) != 1:
        return None
    buffer: Buffer = load.attrs["buffer"]
    if len(buffer.shape) != 2:
        return None
    k, n = nest.axes[depth].extent, nest.axes[others[0]].extent
    if not isinstance(k, int) or not isinstance(n, int) or n < MIN_COLUMNS:
        return None
    strides = (at.coefficient(depth), at.coefficient(others[0]))
    if buffer.shape == (k, n) and strides == (n, 1):
        return position, False
    if buffer.shape == (n, k) and strides == (1, k):
        return position, True
    return None


def _row_major(at: Affine, buffer: Buffer) -> Affine:
    """The index of a (N, K) matrix read as its transpose, as an index of the (K, N) matrix."""
    columns = buffer.shape[1]
    return replace(at, terms=tuple((axis, columns if step == 1 else 1) for axis, step in at.terms))


def store_constants_in_panels(plan: Plan) -> tuple[Plan, tuple[ConstantLayout, ...], tuple[bool, ...]]:
    """The plan with constant right operands in panels, the layouts of its constant buffers, and which nests use panels."""
    constants: list[Buffer] = []
    layouts: list[ConstantLayout] = []
    index: dict[tuple[int, str], int] = {}

    def place(buffer: Buffer, layout: str) -> Buffer:
        key = (buffer.symbol, layout)
        if key not in index:
            index[key] = len(constants)
            constants.append(replace(buffer, index=len(constants)))
            layouts.append(ConstantLayout(buffer.symbol, layout))
        return constants[index[key]]

    nests: list[Nest] = []
    packed: list[bool] = []
    for nest in plan.nests:
        found = panel_operand(nest)
        packed.append(found is not None)
        panel_at = found[0] if found is not None else -1
        body: list[Value] = []
        for position, value in enumerate(nest.body):
            if value.op == "load" and value.attrs["buffer"].kind == "constant":
                attrs = dict(value.attrs)
                if found is None or position != panel_at:
                    attrs["buffer"] = place(attrs["buffer"], "plain")
                elif found[1]:  # in panels it is a (K, N) matrix, whichever way it came
                    buffer = replace(attrs["buffer"], shape=attrs["buffer"].shape[::-1])
                    attrs["buffer"] = place(buffer, f"panels:{PANEL}:t")
                    attrs["at"] = _row_major(attrs["at"], buffer)
                else:
                    attrs["buffer"] = place(attrs["buffer"], f"panels:{PANEL}")
                value = replace(value, attrs=attrs)
            body.append(value)
        nests.append(replace(nest, body=tuple(body)))
    placed = replace(plan, nests=tuple(nests), constants=tuple(constants))
    return placed, tuple(layouts), tuple(packed)


__all__: Sequence[str] = ["PANEL", "ConstantLayout", "panel_operand", "store_constants_in_panels"]
