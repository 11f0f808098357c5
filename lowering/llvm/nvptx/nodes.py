"""Block values while a block function is lowered to threads.

What depends on nothing but scalars and positions stays an expression, which every thread evaluates for the elements it wants,
in any layout; it costs no memory and no communication. What was loaded or computed from loaded values is `Held`: it lies in
the registers of threads as its layout says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...linear_layouts.layout import LinearLayout
from ..ir import V

Shape = tuple[int, ...]
DEEPEST = 96
"""Operations one after the other that may be one expression."""


@dataclass(frozen=True, slots=True, eq=False)
class Splat:
    """The same scalar everywhere."""

    shape: Shape
    elem: str
    value: V


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """start, start + 1, … as i32."""

    shape: Shape
    elem: str
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """An operation on elements with equal places; its operands hold nothing.

    loops: how many loops are around the operation. is_slow: whether it, or what it takes, is worth keeping through a loop that
    does not change it however many registers that needs.  depth: operations one after the other.
    """

    shape: Shape
    elem: str
    op: str
    operands: tuple[Node, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    loops: int = 0
    is_slow: bool = False
    depth: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """Another arrangement of the source's elements: "reshape" (also of dims of size 1), "transpose" with the permutation, or
    "broadcast" of dims of size 1."""

    shape: Shape
    elem: str
    source: Node
    kind: str
    permutation: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Elements in registers: `registers[r]` of a thread is the element at `layout` of (r, lane, warp).

    weak: the layout is a guess, which nothing need be converted to.
    """

    shape: Shape
    elem: str
    layout: LinearLayout
    registers: tuple[V, ...]
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A block in shared memory, for a product to read: `operand` says how, `base` is where it starts: a pointer, or what wgmma
    counts addresses in."""

    shape: Shape
    elem: str
    operand: Any
    base: V


Node = Splat | Range | Map | View | Held | Staged


def viewed(source: Node, shape: Shape, elem: str, kind: str, permutation: tuple[int, ...] = ()) -> Node:
    """See `View`."""
    if isinstance(source, Splat):
        return Splat(shape, elem, source.value)
    if isinstance(source, Staged):  # its operand is as the product takes it
        return Staged(shape, elem, source.operand, source.base)
    return View(shape, elem, source, kind, permutation)


def holds(node: Node) -> bool:
    """Whether the node is more than an expression of scalars and positions."""
    while isinstance(node, View):
        node = node.source
    return isinstance(node, Held | Staged)


def depth_of(node: Node) -> int:
    """Through how many nodes evaluation descends."""
    views = 0
    while isinstance(node, View):
        node, views = node.source, views + 1
    return views + (node.depth if isinstance(node, Map) else 0)


def is_slow(node: Node) -> bool:
    while isinstance(node, View):
        node = node.source
    return isinstance(node, Map) and node.is_slow


def source_layout(view: View, layout: LinearLayout) -> LinearLayout:
    """Where the source's elements have to lie for the view to lie as in `layout`."""
    source = view.source.shape
    if view.kind == "reshape":
        return layout.reshape(source)
    if view.kind == "transpose":
        inverse = sorted(range(len(source)), key=view.permutation.__getitem__)
        return layout.transpose(inverse)
    for axis, (own, wide) in enumerate(zip(source, view.shape, strict=True)):
        if own != wide:
            layout = layout.collapse(axis)
    return layout


def own_layout(node: Node) -> tuple[LinearLayout, bool] | None:
    """The layout in which a node's elements lie without moving any, and whether it holds each of them; None for expressions.

    A broadcast block could lie in many layouts: the answer is one of them, and not `True`.
    """
    if isinstance(node, Held):
        return node.layout, not node.weak
    if not isinstance(node, View):
        return None
    found = own_layout(node.source)
    if found is None:
        return None
    layout, exact = found
    if node.kind == "reshape":
        return layout.reshape(node.shape), exact
    if node.kind == "transpose":
        return layout.transpose(node.permutation), exact
    for axis, (own, wide) in enumerate(zip(node.source.shape, node.shape, strict=True)):
        if own != wide:
            layout = layout.broadcast(axis, wide)
    return layout, False
