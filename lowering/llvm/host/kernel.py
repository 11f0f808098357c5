"""A block function → one LLVM function that runs a range of programs.

Operations are visited in order. Scalar operations are emitted at once; block operations become lazy nodes (`nodes.py`) and turn
into loops only at the roots (`roots.py`, `dot.py`). Loop-carried blocks live in scratch and are updated in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....promotion.errors import InternalError, UnsupportedError
from ...target import HostTarget
from ..ir import Function, Module, V
from .affine import bound_of, fold
from .atomics import lower_atomic
from .combine import Combine
from .control import lower_for, lower_if, lower_while
from .demand import Demands, wide_dim
from .dot import Dots, Wanted
from .elements import lower_gather, lower_histogram
from .elementwise import constant, emit_map, from_memory, memory_element, memory_size, register_element
from .evaluate import ORIGIN, Bound, Evaluator
from .liveness import all_operations, number_roots
from .nodes import Affine, Load, Map, Node, Pointers, Splat, Stored, View, view
from .roots import Roots
from .scalars import is_constant
from .syntax import (
    attribute,
    attributes,
    constant_value,
    element_name,
    is_tensor,
    pointee_name,
    program_axis,
    shape_of,
)

MAX_DEPTH = 80
"""Operations on blocks that follow one from another before the block is written down: evaluation recurses through them."""


class KernelLowering:
    """Lowers one `tt.func` into `void name(ptr args, i64 lo, i64 hi)`."""

    def __init__(
        self, module: Module, func: Any, name: str, target: HostTarget, trusts_alignment: bool = True
    ) -> None:
        self.func = func
        self._trusts_alignment = trusts_alignment
        self.f = Function(module, name, [("ptr noalias", "args"), ("i64", "lo"), ("i64", "hi")])
        self.ev = Evaluator(self.f, target)
        self.roots = Roots(self.ev, self._again, self._unread)
        self.dots = Dots(self.ev, self.roots)
        self.scalars: dict[Any, V] = {}
        self.nodes: dict[Any, Node] = {}
        self.program: V = V("0", "i64")
        self._value_of: dict[int, Any] = {}
        self._root_index, self._last_root = number_roots(func.body.blocks[0])
        self._demands = Demands(func)
        self._current_root = -1
        self._wide: dict[Any, V] = {}
        self._carried: dict[Any, Stored] = {}
        self._grid: list[V] = []
        self._depths: dict[int, int] = {}

    def run(self) -> Function:
        block = self.func.body.blocks[0]
        self.roots.streaming = any(
            op.name == "tt.store" and attributes(op).get("cachePolicy") == "cs" for op in all_operations(block)
        )
        self._arguments(block)
        lo, hi = self.f.params[1], self.f.params[2]
        with self.f.loop(lo, hi) as state, self.ev.scope():
            self.program = state.index
            self._block(block)
        self.f.ret()
        return self.f

    # -- preparation ------------------------------------------------------------

    def _arguments(self, block: Any) -> None:
        details = attribute(self.func, "arg_attrs")
        for i, argument in enumerate(block.args):
            slot = self.f.gep(self.f.params[0], 8 * i)
            if element_name(argument.type) == "ptr":
                pointer = self.f.load("ptr", slot, 8)
                facts = attributes(details.data[i]) if details is not None else {}
                if self._trusts_alignment:
                    self.ev.s.assume_multiple(pointer, int(facts.get("tt.divisibility", 1)))
                self.scalars[argument] = pointer
            else:
                self.scalars[argument] = self.f.load(register_element(element_name(argument.type)), slot, 8)
        if any(
            op.name == "tt.get_num_programs" or (op.name == "tt.get_program_id" and program_axis(op) != "x")
            for op in all_operations(block)
        ):  # the launcher puts the extents of the grid behind the arguments
            first = len(block.args)
            self._grid = [self.f.load("i64", self.f.gep(self.f.params[0], 8 * (first + i)), 8) for i in range(3)]

    def _again(self, node: Node) -> bool:
        value = self._value_of.get(id(node))
        return value is not None and self._last_root.get(value, -1) > self._current_root

    # -- values -------------------------------------------------------------------

    def _node(self, value: Any) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value in self.scalars:
            return Splat((), element_name(value.type), self.scalars[value])
        raise InternalError(f"host lowering: value of type {value.type} has no definition yet")

    def _limits(self, value: Any) -> list[Bound]:
        """Bounds beyond which nobody reads a block value, as far as their limits are known by now."""
        found = []
        for dim, comparison in self._demands.of(value):
            node = self.nodes.get(comparison)
            bound = node.attrs.get("bound") if isinstance(node, Map) else None
            if node is not None and bound is not None and bound.dim == wide_dim(node.shape):
                found.append(Bound(dim, bound.limit))
        return found

    def _unread(self, node: Node, bound: Bound) -> bool:
        """Whether nobody reads the node's block beyond the bound."""
        value = self._value_of.get(id(node))
        return value is not None and any(
            own.dim == bound.dim and own.limit.ref == bound.limit.ref for own in self._limits(value)
        )

    def _define(self, value: Any, node: Node) -> None:
        self._depths[id(node)] = self._depth(node)
        self.nodes[value] = node
        self._value_of.setdefault(id(node), value)

    def _scalar(self, value: Any) -> V:
        if value in self.scalars:
            return self.scalars[value]
        return self.roots.argument_of(self._node(value))

    def _integer(self, value: Any) -> V:
        """A scalar integer as an i64 host word."""
        if value in self._wide:
            return self._wide[value]
        return self.ev.s.to_i64(self._scalar(value))

    def _pointers(self, value: Any) -> Pointers:
        node = self._node(value)
        if isinstance(node, Pointers):
            return node
        if isinstance(node, Splat):
            offset = Affine(node.shape, "i64", V("0", "i64"), (None,) * len(node.shape))
            pointee = pointee_name(value.type)
            return Pointers(node.shape, "ptr", node.value, pointee, offset, self.ev.s.multiple(node.value))
        raise UnsupportedError("host lowering: a block of pointers that is not a base pointer plus offsets")

    # -- operations ------------------------------------------------------------------

    def _block(self, block: Any) -> None:
        for op in block.ops:
            if op in self._root_index:
                self._current_root = self._root_index[op]
            self._operation(op)

    def _operation(self, op: Any) -> None:
        handler = HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
            return
        if len(op.results) != 1 or op.regions:
            raise UnsupportedError(f"host lowering: operation {op.name}")
        result = op.results[0]
        if is_tensor(result.type):
            self._define(result, self._map(op, result))
        else:
            self.scalars[result] = self._scalar_operation(op, result)

    def _scalar_operation(self, op: Any, result: Any) -> V:
        s = self.ev.s
        elem = element_name(result.type)
        if op.name in ("arith.extsi", "arith.extui") and op.operands[0] in self._wide and elem == "i64":
            return self._wide[op.operands[0]]
        if not op.operands or any(is_tensor(o.type) for o in op.operands):
            raise UnsupportedError(f"host lowering: operation {op.name} with a scalar result")
        operands = [self._scalar(o) for o in op.operands]
        match op.name:
            case "tt.bitcast" if elem == "ptr":
                return operands[0]
            case "tt.ptr_to_int":
                return self.f.op(f"ptrtoint ptr {operands[0].ref} to i64", "i64")
            case "tt.int_to_ptr":
                return self.f.op(f"inttoptr i64 {operands[0].ref} to ptr", "ptr")
        if operands[0].type == "i64" and elem == "i64":
            match op.name:
                case "arith.addi":
                    return s.add(*operands)
                case "arith.subi":
                    return s.sub(*operands)
                case "arith.muli":
                    return s.mul(*operands)
                case "arith.minsi":
                    return s.min(*operands)
                case "arith.maxsi":
                    return s.max(*operands)
                case "arith.divsi" | "arith.divui" | "arith.remsi" | "arith.remui":
                    if all(is_constant(o) for o in operands) and operands[1].ref != "0":
                        a, b = (int(o.ref) for o in operands)
                        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
                        return s.constant(quotient if "div" in op.name else a - quotient * b)
                    if is_constant(operands[1]) and operands[1].ref == "1":
                        return operands[0] if "div" in op.name else s.constant(0)
        return emit_map(
            self.f, op.name, elem, operands, [element_name(o.type) for o in op.operands], attributes(op)
        )

    def _map(self, op: Any, result: Any) -> Node:
        shape, elem = shape_of(result.type), element_name(result.type)
        operands = [self._node(o) for o in op.operands]
        if not operands or any(o.shape != shape for o in operands if o.shape):
            raise UnsupportedError(f"host lowering: operation {op.name}")
        folded = fold(self.ev.s, op.name, shape, elem, operands)
        if folded is not None:
            return folded
        facts = attributes(op)
        if all(isinstance(o, Splat) for o in operands):
            values = [o.value for o in operands if isinstance(o, Splat)]
            return Splat(
                shape, elem, emit_map(self.f, op.name, elem, values, [o.elem for o in operands], facts)
            )
        if op.name == "arith.cmpi":
            bound = bound_of(self.ev.s, facts["predicate"], *operands)
            if bound is not None:
                facts["bound"] = bound
        return self._shallow(Map(shape, elem, op.name, tuple(operands), facts))

    def _depth(self, node: Node) -> int:
        """How many nodes evaluation descends through. Every new node is asked once, so this does not descend itself."""
        match node:
            case View():
                return 1 + self._depths.get(id(node.source), 0)
            case Pointers():
                return self._depths.setdefault(id(node.offset), self._depth(node.offset))
            case Load():
                parts = [node.pointers.offset, node.mask, node.other]
                return 1 + max(self._depths.get(id(part), 0) for part in parts if part is not None)
            case Map():
                return 1 + max(self._depths.get(id(operand), 0) for operand in node.operands)
        return 0

    def _shallow(self, node: Map) -> Node:
        """The node, or a copy of its block in scratch where the chain behind it is too long to be evaluated in one go."""
        if self._depth(node) < MAX_DEPTH:
            return node
        return self.roots.materialize(node)

    # -- handlers -----------------------------------------------------------------------

    def op_constant(self, op: Any) -> None:
        result = op.results[0]
        elem, shape = element_name(result.type), shape_of(result.type)
        value = constant(constant_value(op), elem)
        if is_tensor(result.type):
            self._define(result, Splat(shape, elem, value))
        else:
            self.scalars[result] = value

    def op_program_id(self, op: Any) -> None:
        position = self.program
        if self._grid:  # programs are numbered along x first, then y, then z
            x, y, _ = self._grid
            rest = self.f.binary("udiv", position, x)
            match program_axis(op):
                case "x":
                    position = self.f.binary("urem", position, x)
                case "y":
                    position = self.f.binary("urem", rest, y)
                case _:
                    position = self.f.binary("udiv", rest, y)
        result = op.results[0]
        self._wide[result] = position
        self.scalars[result] = self.f.cast("trunc", position, "i32")

    def op_num_programs(self, op: Any) -> None:
        result = op.results[0]
        self._wide[result] = self._grid["xyz".index(str(program_axis(op)))]
        self.scalars[result] = self.f.cast("trunc", self._wide[result], "i32")

    def op_make_range(self, op: Any) -> None:
        facts = attributes(op)
        start = self.ev.s.constant(int(facts["start"]))
        self._define(op.results[0], Affine(shape_of(op.results[0].type), "i32", start, (V("1", "i64"),)))

    def op_splat(self, op: Any) -> None:
        result = op.results[0]
        source = op.operands[0]
        elem, shape = element_name(result.type), shape_of(result.type)
        value = self._integer(source) if elem in ("i64", "index") else self._scalar(source)
        self._define(result, Splat(shape, elem, value))

    def op_expand_dims(self, op: Any) -> None:
        result = op.results[0]
        axis = int(attributes(op)["axis"])
        shape = shape_of(result.type)
        dims = [d for d in range(len(shape)) if d != axis]
        self._define(result, view(self._node(op.operands[0]), shape, dims))

    def op_broadcast(self, op: Any) -> None:
        result = op.results[0]
        source = self._node(op.operands[0])
        shape = shape_of(result.type)
        dims = [d if source.shape[d] == shape[d] else None for d in range(len(shape))]
        self._define(result, view(source, shape, dims))

    def op_trans(self, op: Any) -> None:
        result = op.results[0]
        order = [int(x) for x in attributes(op)["order"]]
        dims = [order.index(s) for s in range(len(order))]
        self._define(result, view(self._node(op.operands[0]), shape_of(result.type), dims))

    def op_reshape(self, op: Any) -> None:
        result = op.results[0]
        source = self._node(op.operands[0])
        shape = shape_of(result.type)
        if isinstance(source, Splat):
            self._define(result, Splat(shape, source.elem, source.value))
            return
        memory = self.ev.scratch(source.shape, source.elem, pad=source.shape[-1] if source.shape else 1)
        self.roots.materialize(source, memory)
        self._define(result, Stored(shape, source.elem, memory.pointer, _dense(shape), memory.memory))

    def op_join(self, op: Any) -> None:
        """Both blocks are written side by side, every other element."""
        result = op.results[0]
        shape, elem = shape_of(result.type), element_name(result.type)
        self._define(result, self._woven(op, shape, elem, (0, 1), 2))

    def op_cat(self, op: Any) -> None:
        result = op.results[0]
        shape, elem = shape_of(result.type), element_name(result.type)
        self._define(result, self._woven(op, shape, elem, (0, math.prod(shape) // 2), 1))

    def _woven(self, op: Any, shape: tuple[int, ...], elem: str, places: Sequence[int], step: int) -> Stored:
        """A dense block made of the operation's operands: operand k starts at its place and lies `step` elements apart."""
        memory = self.ev.scratch((math.prod(shape),), elem)
        for operand, start in zip(op.operands, places, strict=True):
            node = self._node(operand)
            strides = [step * stride for stride in _dense(node.shape)]
            pointer = self.f.gep(memory.pointer, start, memory.memory)
            self.roots.materialize(node, Stored(node.shape, elem, pointer, tuple(strides), memory.memory))
        return Stored(shape, elem, memory.pointer, _dense(shape), memory.memory)

    def op_split(self, op: Any) -> None:
        """Two views of the block in scratch, every other element each."""
        source = self._node(op.operands[0])
        memory = self.roots.materialize(source, self.ev.scratch(source.shape, source.elem, pad=source.shape[-1]))
        for half, result in enumerate(op.results):
            pointer = self.f.gep(memory.pointer, half, memory.memory)
            if is_tensor(result.type):
                view_ = Stored(source.shape[:-1], source.elem, pointer, memory.strides[:-1], memory.memory)
                self._define(result, view_)
            else:
                scalar = Stored((), source.elem, pointer, (), memory.memory)
                self.scalars[result] = self.ev.at(scalar, ())

    def op_unsplat(self, op: Any) -> None:
        node = self._node(op.operands[0])
        self.scalars[op.results[0]] = self.ev.at(node, (ORIGIN,) * len(node.shape))

    def op_addptr(self, op: Any) -> None:
        result = op.results[0]
        if not is_tensor(result.type):
            base, offset = self._scalar(op.operands[0]), self._integer(op.operands[1])
            el = memory_element(pointee_name(result.type))
            moved = self.f.gep(base, offset, el)
            size = memory_size(pointee_name(result.type))
            known = self.ev.s.multiple(base)
            while known > 1 and (size * self.ev.s.multiple(offset)) % known:
                known //= 2
            self.ev.s.assume_multiple(moved, known)
            self.scalars[result] = moved
            return
        pointers = self._pointers(op.operands[0])
        offset_node = self._node(op.operands[1])
        if offset_node.elem != "i64":
            offset_node = fold(self.ev.s, "arith.extsi", offset_node.shape, "i64", [offset_node]) or Map(
                offset_node.shape, "i64", "arith.extsi", (offset_node,))  # fmt: skip
        total = fold(self.ev.s, "arith.addi", pointers.shape, "i64", [pointers.offset, offset_node])
        if total is None:
            start = pointers.offset
            zero_start = isinstance(start, Affine) and start.base.ref == "0" and not any(start.coefficients)
            total = offset_node if zero_start else self._shallow(Map(
                pointers.shape, "i64", "arith.addi", (start, offset_node)))  # fmt: skip
        self._define(
            result,
            Pointers(pointers.shape, "ptr", pointers.base, pointers.pointee, total, pointers.alignment),
        )

    def op_load(self, op: Any) -> None:
        result = op.results[0]
        pointer, mask, other = op.ptr, op.mask, op.other
        elem = element_name(result.type)
        if is_tensor(result.type):
            node = Load(shape_of(result.type), elem, self._pointers(pointer),
                        None if mask is None else self._node(mask), None if other is None else self._node(other))  # fmt: skip
            self._define(result, node)
            return
        address = self._scalar(pointer)
        if mask is not None:
            safe = self.f.alloca("i64", 1, 8)
            self.f.store(V("0", "i64"), safe, 8)
            address = self.f.select(self._scalar(mask), address, safe)
        value = from_memory(self.f, self.f.load(memory_element(elem), address, memory_size(elem)), elem)
        if mask is not None and other is not None:
            value = self.f.select(self._scalar(mask), value, self._scalar(other))
        self.scalars[result] = value

    def op_store(self, op: Any) -> None:
        streaming = attributes(op).get("cachePolicy") == "cs"
        mask = None if op.mask is None else self._node(op.mask)
        if is_tensor(op.ptr.type):
            self.roots.store(self._pointers(op.ptr), self._node(op.value), mask, streaming)
            return
        offset = Affine((), "i64", V("0", "i64"), ())
        pointers = Pointers((), "ptr", self._scalar(op.ptr), pointee_name(op.ptr.type), offset, 1)
        self.roots.store(pointers, self._node(op.value), mask, False)

    def _combine(self, op: Any) -> Combine:
        block = op.regions[0].blocks[0]
        operations: list[tuple[str, str, Any, tuple[Any, ...], tuple[str, ...], dict[str, Any]]] = []
        captured: dict[int, V] = {}
        for inner in block.ops:
            for value in inner.operands:
                if value in self.scalars or (value in self.nodes and not is_tensor(value.type)):
                    captured[id(value)] = self._scalar(value)
            if inner.name.endswith(".return"):
                return Combine(tuple(block.args), tuple(operations), tuple(inner.operands), captured)
            facts = {"value": constant_value(inner)} if inner.name == "arith.constant" else attributes(inner)
            operations.append((inner.name, element_name(inner.results[0].type), inner.results[0], tuple(inner.operands),
                               tuple(element_name(o.type) for o in inner.operands), facts))  # fmt: skip
        raise InternalError(f"host lowering: the region of {op.name} has no terminator")

    def op_reduce(self, op: Any) -> None:
        operands = [self._node(o) for o in op.operands]
        axis = int(attributes(op)["axis"])
        # All results of one reduction are written together.
        limits = self._limits(op.results[0]) if len(op.results) == 1 and is_tensor(op.results[0].type) else []
        wanted = [Bound(b.dim + (b.dim >= axis), b.limit) for b in limits]
        results = self.roots.reduce(operands, axis, self._combine(op), wanted)
        for result, node in zip(op.results, results, strict=True):
            if is_tensor(result.type):
                self._define(result, node)
            else:
                self.scalars[result] = self.roots.argument_of(node)

    def op_scan(self, op: Any) -> None:
        facts = attributes(op)
        operands = [self._node(o) for o in op.operands]
        nodes = self.roots.scan(
            operands, int(facts["axis"]), self._combine(op), bool(facts.get("reverse", False))
        )
        for result, node in zip(op.results, nodes, strict=True):
            self._define(result, node)

    def op_dot(self, op: Any) -> None:
        a, b, c = (self._node(o) for o in op.operands[:3])
        precision = str(attributes(op).get("inputPrecision", "ieee"))
        result = op.results[0]
        into = self._update_in_place(op, result, c)
        if len(a.shape) == 3:
            self._define(result, self._batched(a, b, c, precision))
            return
        wanted = Wanted(self._limits(result), self._limits(op.operands[1]))
        self._define(result, self.dots.dot(a, b, c, precision, into, wanted))

    def _batched(self, a: Node, b: Node, c: Node, precision: str) -> Stored:
        """One product after the other, on blocks in scratch."""
        stored = [self.roots.materialize(node) for node in (a, b, c)]
        with self.f.loop(0, c.shape[0]) as state, self.ev.scope():
            first, second, target = (
                Stored(m.shape[1:], m.elem, self.f.gep(m.pointer, self.ev.s.mul(state.index, self.ev.s.constant(m.strides[0])),
                                                       m.memory), m.strides[1:], m.memory)
                for m in stored
            )  # fmt: skip
            self.dots.dot(first, second, target, precision, target)
        return stored[2]

    def _update_in_place(self, op: Any, result: Any, c: Node) -> Stored | None:
        """The loop-carried scratch that this dot's result becomes, if the old value is not needed any more."""
        memory = self._carried.get(result)
        if memory is None:
            return None
        owner = self._value_of.get(id(memory))
        if owner is not None and self._last_root.get(owner, -1) > self._root_index[op]:
            return None
        if c is not memory:
            self.roots.materialize(c, memory, self._limits(result))
        return memory

    def op_nothing(self, op: Any) -> None:
        """Terminators (their operands are handled by the owner) and hints."""


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides; 0 for extents of 1."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step if extent > 1 else 0)
        step *= extent
    return tuple(reversed(strides))


HANDLERS = {
    "arith.constant": KernelLowering.op_constant,
    "tt.get_program_id": KernelLowering.op_program_id,
    "tt.get_num_programs": KernelLowering.op_num_programs,
    "tt.make_range": KernelLowering.op_make_range,
    "tt.splat": KernelLowering.op_splat,
    "tt.expand_dims": KernelLowering.op_expand_dims,
    "tt.broadcast": KernelLowering.op_broadcast,
    "tt.trans": KernelLowering.op_trans,
    "tt.reshape": KernelLowering.op_reshape,
    "tt.join": KernelLowering.op_join,
    "tt.cat": KernelLowering.op_cat,
    "tt.split": KernelLowering.op_split,
    "tt.unsplat": KernelLowering.op_unsplat,
    "tt.addptr": KernelLowering.op_addptr,
    "tt.load": KernelLowering.op_load,
    "tt.store": KernelLowering.op_store,
    "tt.atomic_rmw": lower_atomic,
    "tt.atomic_cas": lower_atomic,
    "tt.atomic_load": lower_atomic,
    "tt.atomic_store": lower_atomic,
    "tt.gather": lower_gather,
    "tt.histogram": lower_histogram,
    "tt.reduce": KernelLowering.op_reduce,
    "tt.scan": KernelLowering.op_scan,
    "tt.dot": KernelLowering.op_dot,
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
    "scf.condition": KernelLowering.op_nothing,
    "scf.yield": KernelLowering.op_nothing,
    "ttg.barrier": KernelLowering.op_nothing,
    "llvm.intr.assume": KernelLowering.op_nothing,
    "tt.return": KernelLowering.op_nothing,
}


def lower_kernel(
    module: Module, func: Any, name: str, target: HostTarget, trusts_alignment: bool = True
) -> None:
    """Add the LLVM function of a block function to the module. `trusts_alignment`: pointers are as aligned as the text says."""
    module.add(KernelLowering(module, func, name, target, trusts_alignment).run())


