"""Evaluation of block values in a layout: the elements that the registers of each thread hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...linear_layouts.layout import LinearLayout
from ...linear_layouts.linear import to_unique
from ..elementwise import emit_map, register_element
from ..ir import V, const
from .moves import Moves
from .nodes import Held, Map, Node, Range, Splat, View, holds, own_layout, source_layout
from .threads import Threads

Registers = tuple[V, ...]


class Evaluator:
    """Emits block values. What was evaluated is remembered where it may be used again."""

    def __init__(self, threads: Threads, moves: Moves) -> None:
        self.t = threads
        self.f = threads.f
        self.moves = moves
        self._scopes: list[dict[tuple[int, LinearLayout], Registers]] = [{}]
        self._alive: list[Node] = []  # keeps the ids of remembered nodes unique

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values made inside are not used outside."""
        self._scopes.append({})
        with self.t.scope():
            yield
        self._scopes.pop()

    def at(self, node: Node, layout: LinearLayout) -> Registers:
        """The node's elements in a layout of its shape."""
        if isinstance(node, Splat):
            return (node.value,) * layout.size("register")
        key = (id(node), layout)
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        unique = layout.unique_registers()
        if unique is not layout and len(unique["register"]) < len(layout["register"]):
            own = self.at(node, unique)
            found = tuple(own[each] for each in to_unique(layout))
        else:
            found = self._at(node, layout)
        self._scopes[-1][key] = found
        self._alive.append(node)
        return found

    def _at(self, node: Node, layout: LinearLayout) -> Registers:
        match node:
            case Range():
                start = const(node.start, "i32")
                return tuple(self.f.add(index, start) for index in self.t.indices(layout, 0))
            case Held():
                return self.moves.convert(node.registers, node.elem, node.layout, layout)
            case View():
                return self.at(node.source, source_layout(node, layout))
            case Map():
                return self.map(node.op, node.elem, node.operands, node.attrs, layout)
        raise AssertionError

    def map(
        self, op: str, elem: str, operands: Sequence[Node], attrs: Mapping[str, Any], layout: LinearLayout
    ) -> Registers:
        """An operation on the elements of each register. Operands that are scalars everywhere are computed with once."""
        if all(isinstance(operand, Splat) for operand in operands):
            values = [operand.value for operand in operands if isinstance(operand, Splat)]
            return (self.element(op, elem, values, [o.elem for o in operands], attrs),) * layout.size("register")
        columns = [self.at(operand, layout) for operand in operands]
        elems = [operand.elem for operand in operands]
        done: dict[tuple[str, ...], V] = {}
        found = []
        for row in zip(*columns, strict=True):
            refs = tuple(value.ref for value in row)
            if refs not in done:
                done[refs] = self.element(op, elem, row, elems, attrs)
            found.append(done[refs])
        return tuple(found)

    def element(self, op: str, elem: str, values: Sequence[V], elems: Sequence[str], attrs: Mapping[str, Any]) -> V:
        """One operation on scalars. Pointers are addresses (i64)."""
        if op == "tt.addptr":
            pointer, offset = values
            wide = self.f.cast("sext", offset, "i64")
            size = int(attrs["size"])
            scaled = wide if size == 1 else self.f.mul(wide, const(size, "i64"))
            return self.f.add(pointer, scaled)
        if op == "arith.select" and values[0].ref in ("true", "false"):
            return values[1] if values[0].ref == "true" else values[2]
        if op in ("arith.andi", "arith.ori") and elem == "i1":
            neutral = "true" if op == "arith.andi" else "false"
            for own, other in ((0, 1), (1, 0)):
                if values[own].ref == neutral:
                    return values[other]
        return emit_map(self.f, op, elem, list(values), list(elems), attrs)

    def choose_layout(self, nodes: Sequence[Node]) -> LinearLayout | None:
        """In which layout to compute with these nodes: where most elements need not move. None: all are expressions."""
        weak: LinearLayout | None = None
        for node in nodes:
            found = own_layout(node)
            if found is None:
                continue
            layout, exact = found
            if exact:
                return layout
            weak = weak or layout
        return weak

    def compute(self, op: str, shape: tuple[int, ...], elem: str, operands: Sequence[Node], attrs: Mapping[str, Any]) -> Node:
        """The value of an operation on elements: an expression where nothing is held, else held where it is computed."""
        if all(isinstance(operand, Splat) for operand in operands):
            values = [operand.value for operand in operands if isinstance(operand, Splat)]
            return Splat(shape, elem, self.element(op, elem, values, [o.elem for o in operands], attrs))
        if not any(holds(operand) for operand in operands):
            return Map(shape, elem, op, tuple(operands), attrs)
        layout = self.choose_layout(operands)
        assert layout is not None
        weak = all(operand.weak for operand in operands if isinstance(operand, Held))
        return Held(shape, elem, layout, self.map(op, elem, operands, attrs, layout), weak and _any_held(operands))

    def held(self, node: Node, layout: LinearLayout) -> Held:
        if isinstance(node, Held) and node.layout == layout:
            return node
        return Held(node.shape, node.elem, layout, self.at(node, layout))

    def zero(self, elem: str) -> V:
        return const(0, register_element(elem)) if elem != "ptr" else const(0, "i64")


def _any_held(nodes: Sequence[Node]) -> bool:
    return any(isinstance(node, Held) for node in nodes)
