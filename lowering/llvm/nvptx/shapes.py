"""Lowers operations that make blocks, or view them in another shape: ranges, splats, views."""

from __future__ import annotations

from xdsl.ir import Operation

from ..syntax import attributes, element_name, shape_of
from .context import Handler, KernelContext
from .nodes import Range, Splat, viewed


def _make_range(k: KernelContext, op: Operation) -> None:
    k.define(op.results[0], Range(shape_of(op.results[0].type), "i32", int(attributes(op)["start"])))


def _splat(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    k.define(result, Splat(shape_of(result.type), element_name(result.type), k.scalar(op.operands[0])))


def _unsplat(k: KernelContext, op: Operation) -> None:
    k.scalars[op.results[0]] = k.registers(op.operands[0], k.layout_of(op.operands[0]))[0]


def _view(kind: str) -> Handler:
    def lower(k: KernelContext, op: Operation) -> None:
        result, order = op.results[0], tuple(attributes(op)["order"]) if kind == "transpose" else ()
        k.define(result, viewed(k.node(op.operands[0]), shape_of(result.type), element_name(result.type), kind, order))

    return lower


SHAPES: dict[str, Handler] = {
    "tt.make_range": _make_range, "tt.splat": _splat, "tt.unsplat": _unsplat, "tt.expand_dims": _view("reshape"),
    "tt.reshape": _view("reshape"), "tt.broadcast": _view("broadcast"), "tt.trans": _view("transpose"),
}  # fmt: skip
