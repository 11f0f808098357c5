"""Says what becomes of positions that are data and out of range: clamped, dropped, or an error of the run."""

from __future__ import annotations

from collections.abc import Sequence

from ....promotion.dtype import int64
from ....promotion.errors import UnsupportedError
from ...construction import primitives
from ...dims.dim import Extent
from ...errors import mistake
from ...region import is_compiled_region
from ...symbol import Symbol
from ..building import apply
from ..host.data_sized import host


def with_mode(
    op: str, positions: Symbol, extent: Extent, axis: int, mode: str, modes: Sequence[str], operands: Sequence[Symbol]
) -> Symbol:
    """Return positions on an axis of a size, as a mode of `op` wants them: the first of `modes` leaves them as they are."""
    if mode not in modes:
        raise mistake(op, f"mode {mode!r}", operands, ", ".join(map(repr, modes)), f"mode={modes[0]!r}")
    if mode == modes[0] or not positions.dtype.is_integer:
        return positions
    graph = positions.graph
    if mode == "clip":
        if positions.dtype.kind == "uint" and positions.dtype.bits == 64:  # beyond int64 they are out of any range
            positions = apply("minimum", positions, (1 << 62))
        size = graph.dim_value(extent)
        low, high = apply("negate", size), apply("sub", size, 1)
        return apply("minimum", apply("maximum", primitives.cast(positions, int64), low), high)
    if is_compiled_region(graph):
        raise UnsupportedError(
            f"{op}: mode='error' in a loop or branch is not supported, whose iterations have nothing to raise from; fix: "
            f"mode={modes[0]!r}, or look at the positions outside"
        )
    return host("positions_in_range", positions, graph.dim_value(extent), operation=op, axis=axis)
