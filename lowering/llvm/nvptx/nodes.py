"""Block values while a block function is lowered to threads.

A value that depends only on scalars and indices stays an expression: every thread evaluates the elements it needs, in any
layout, without memory or communication. A value that was loaded, or computed from loaded ones, is `Distributed` over the
registers of the threads by a linear layout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ....promotion.dataclass import dataclass
from ...linear_layouts.layout import LinearLayout
from ..values import V

Shape = tuple[int, ...]
MAX_DEPTH = 96
"""The longest chain of operations that one expression may have."""


@dataclass(frozen=True, slots=True, eq=False)
class Splat:
    """A block whose elements are all the same scalar."""

    shape: Shape
    elem: str
    value: V


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """A block of the consecutive i32 numbers start, start + 1, …."""

    shape: Shape
    elem: str
    start: int


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """An elementwise operation whose operands are expressions.

    loops: how many loops enclose the operation.  is_slow: whether it, or an operand, is so expensive that a loop that does not
    change it keeps it in registers, however many that takes.  depth: length of the longest chain of operations.
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
    """A view of the source's elements.

    kind: "reshape" (which also adds and drops dims of size 1), "transpose" with the permutation, or "broadcast" of
    dims of size 1.
    """

    shape: Shape
    elem: str
    source: Node
    kind: str
    permutation: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Distributed:
    """A distributed block: `registers[r]` of a thread is the element at the coordinates `layout(r, lane, warp)`.

    weak: the layout is a guess that other operands need not be converted to.
    """

    shape: Shape
    elem: str
    layout: LinearLayout
    registers: tuple[V, ...]
    weak: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """An operand of a tt.dot in shared memory.

    `operand` describes its layout; `base` is its start, either a pointer or, for wgmma, an address in units of 16 bytes.
    """

    shape: Shape
    elem: str
    operand: Any
    base: V


Node = Splat | Range | Map | View | Distributed | Staged


def viewed(source: Node, shape: Shape, elem: str, kind: str, permutation: tuple[int, ...] = ()) -> Node:
    """Builds a `View`; a splat or a staged operand just takes the new shape."""
    if isinstance(source, Splat):
        return Splat(shape, elem, source.value)
    if isinstance(source, Staged):  # its operand has the form that the product takes
        return Staged(shape, elem, source.operand, source.base)
    return View(shape, elem, source, kind, permutation)


def is_materialized(node: Node) -> bool:
    """Whether the node occupies registers or shared memory, instead of being an expression of scalars and indices."""
    while isinstance(node, View):
        node = node.source
    return isinstance(node, Distributed | Staged)


def depth_of(node: Node) -> int:
    """Returns the number of nodes that evaluation descends through."""
    views = 0
    while isinstance(node, View):
        node, views = node.source, views + 1
    return views + (node.depth if isinstance(node, Map) else 0)


def is_slow(node: Node) -> bool:
    while isinstance(node, View):
        node = node.source
    return isinstance(node, Map) and node.is_slow


def source_layout(view: View, layout: LinearLayout) -> LinearLayout:
    """Returns the layout of the source that gives the view this layout."""
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
    """Returns the layout that a node has without data movement, and whether it is the only one; None for expressions.

    A broadcast block could have many layouts: the answer is one of them, with False.
    """
    if isinstance(node, Distributed):
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
