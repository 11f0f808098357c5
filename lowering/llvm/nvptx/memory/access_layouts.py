"""Chooses layouts of accesses to global memory: the axis info of pointers decides how threads share their elements."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from ....linear_layouts.layout import LinearLayout
from ....tt.dialect.functions import FuncOp
from ...elementwise import memory_size
from ...syntax import element_name, is_tensor, pointee_name, shape_of
from ..analysis.axis_info import AxisAnalysis, has_promises
from ..nodes import Shape
from ..targets import WARP_SIZE
from .global_memory import AccessInfo, coalesced, widest


class AccessLayouts:
    """The accesses of one function, and the layouts that suit them.

    axes: the axis info of every value.
    promised: the same, with what texts promise of pointers.
    """

    def __init__(self, function: FuncOp, warps: int) -> None:
        self.axes = AxisAnalysis(function)
        self.promised = AxisAnalysis(function, True) if has_promises(function) else self.axes
        self._function = function
        self._warps = warps
        self._elements = self._elements_per_thread()

    def _elements_per_thread(self) -> dict[tuple[Shape, tuple[int, ...]], int]:
        """Returns the most consecutive elements per thread of any access, by block shape and dim order."""
        found: dict[tuple[Shape, tuple[int, ...]], int] = {}
        threads = self._warps * WARP_SIZE
        for op in self._function.walk():
            if op.name in ("tt.load", "tt.store") and is_tensor(op.operands[0].type):
                shape, info = shape_of(op.operands[0].type), self.info(op)
                key = (shape, info.order())
                bits = 8 * memory_size(pointee_name(op.operands[0].type))
                found[key] = max(found.get(key, 1), widest(info, shape, bits, threads))
        return found

    def info(self, op: Operation) -> AccessInfo:
        """Returns the axis info of a load's or store's pointers and mask."""
        mask = getattr(op, "mask", None)
        known = None if mask is None or not is_tensor(mask.type) else self.axes.of(mask)
        return AccessInfo(self.promised.of(op.operands[0]), known)

    def coalesced(self, shape: Shape, order: Sequence[int] | None = None) -> LinearLayout:
        """Returns the layout of accesses to blocks of this shape."""
        order = tuple(order) if order is not None else tuple(reversed(range(len(shape))))
        return coalesced(shape, order, self._elements.get((shape, order), 1), self._warps)

    def preferred(self, value: SSAValue) -> LinearLayout:
        """Returns the layout for a block that has none: the coalesced one of accesses through it, or to blocks of its shape."""
        shape = shape_of(value.type)
        if element_name(value.type) == "ptr":
            return self.coalesced(shape, AccessInfo(self.promised.of(value)).order())
        known = [order for (own, order) in self._elements if own == shape]
        return self.coalesced(shape, known[0] if known else None)
