"""A block function → one LLVM function that runs a range of programs.

Operations are visited in order. Scalar operations are emitted at once; block operations become lazy nodes (`nodes.py`), which
are evaluated in the bodies of loop nests (`loops/loop_nests.py`, `matmul/dot.py`). Loop-carried blocks live in scratch and are
updated in place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from xdsl.ir import BlockArgument

from ....promotion.errors import InternalError, UnsupportedError
from ...target import HostTarget
from ...tt.analysis.aliasing import AliasAnalysis
from .. import division
from ..elementwise import constant, emit_map, memory_element, register_element
from ..ir import Function, Module, V
from ..syntax import (
    attribute,
    attributes,
    constant_value,
    element_name,
    is_tensor,
    pointee_name,
    program_axis,
    shape_of,
)
from .control.branches import lower_blocks, lower_execute_region
from .control.effects import lower_assert, lower_poison, lower_poll, lower_print
from .control.loops import lower_for, lower_if, lower_while
from .control.regions import lower_map_elementwise
from .control.status import PrintSite, Site, Status
from .elements import lower_gather, lower_histogram
from .evaluate import Evaluator
from .launch_specialization import MULTIPLE, LaunchSpecialization
from .loops.coordinates import Bound
from .loops.demanded_elements import DemandedElements, wide_dim
from .loops.liveness import NEST_OPERATIONS, Liveness, all_operations, reachable
from .loops.loop_nests import LoopNests
from .matmul.dot import Dots
from .memory.accesses import lower_addptr, lower_bitcast, lower_load, lower_store
from .memory.affine import WIDENING, bound_of, fold
from .memory.atomics import lower_atomic
from .memory.offsets import LOWEST, is_static, may_bound, may_widen
from .memory.ordering import Ordering
from .nodes import Affine, Load, Map, Node, Pointers, Splat, Stored, View
from .reduce.handlers import lower_dot, lower_reduce, lower_scan
from .scalars import is_constant
from .shapes import (
    lower_broadcast,
    lower_cat,
    lower_expand_dims,
    lower_join,
    lower_make_range,
    lower_reshape,
    lower_splat,
    lower_split,
    lower_trans,
    lower_unsplat,
)

MAX_DEPTH = 80
"""Operations on blocks that follow one from another before the block is written down: evaluation recurses through them."""


class KernelLowering:
    """Lowers one `tt.func` into `void name(ptr args, i64 lo, i64 hi)`."""

    def __init__(
        self, module: Module, func: Any, name: str, target: HostTarget, launch: LaunchSpecialization | None = None
    ) -> None:
        """`launch`: what is known of the launches of a text. Without it the function was built here: its buffers are distinct,
        and as aligned as it says."""
        module.features = target.features
        self.func = func
        self.from_text = launch is not None
        self._launch = launch
        self.status: Status | None = None
        self.ordering = None if launch is None else Ordering(self, AliasAnalysis(func, dict(launch.groups)))
        self.f = Function(module, name, [("ptr noalias", "args"), ("i64", "lo"), ("i64", "hi")], numbering=True)
        self.ev = Evaluator(self.f, target)
        self.nests = LoopNests(self.ev, self._is_read_later, self._unread)
        self.dots = Dots(self.ev, self.nests)
        self.scalars: dict[Any, V] = {}
        self.nodes: dict[Any, Node] = {}
        self.program: V = V("0", "i64")
        self.value_of: dict[int, Any] = {}
        self.blocks = reachable(func.body)
        self.liveness = Liveness(self.blocks)
        self._demanded = DemandedElements(func) if len(self.blocks) == 1 else None
        self._current_nest = -1
        self.wide: dict[Any, V] = {}
        self.becomes_address: dict[Any, bool] = {}
        self.carried: dict[Any, Stored] = {}
        self.grid: list[V] = []
        self._depths: dict[int, int] = {}

    def run(self) -> Function:
        asked = any(op.name == "tt.store" and attributes(op).get("cachePolicy") == "cs" for op in self._operations())
        self.nests.streaming = asked if self._launch is None else self._launch.streaming
        self.nests.rows_apart = sum(op.name in NEST_OPERATIONS and op.name != "tt.return" for op in self._operations()) > 1
        self._arguments(self.blocks[0])
        lo, hi = self.f.params[1], self.f.params[2]
        with self.f.loop(lo, hi) as state, self.ev.scope():
            self.program = state.index
            self.leave_if_stopped()
            done = self.f.label("program")
            lower_blocks(self, self.func.body, lambda last: self.f.branch(done))
            self.f.start(done)
        self.ev.memory.end()
        self.f.ret()
        if self.status is not None:
            self.status.start_leaving()
            self.ev.memory.end()
            self.f.ret()
            self.ev.memory.finish()
        return self.f

    # -- preparation ------------------------------------------------------------

    def _arguments(self, block: Any) -> None:
        details = attribute(self.func, "arg_attrs")
        for i, argument in enumerate(block.args):
            slot = self.f.gep(self.f.params[0], 8 * i)
            if element_name(argument.type) == "ptr":
                pointer = self.f.load("ptr", slot, 8)
                facts = attributes(details.data[i]) if details is not None else {}
                if not self.from_text:
                    self.ev.s.assume_multiple(pointer, int(facts.get("tt.divisibility", 1)))
                self.scalars[argument] = pointer
                self.ev.arguments.add(pointer.ref)
            else:
                self.scalars[argument] = self.f.load(register_element(element_name(argument.type)), slot, 8)
            if self._launch is not None and i in self._launch.multiples:
                self.ev.s.assume_multiple(self.scalars[argument], MULTIPLE)
        if any(
            op.name == "tt.get_num_programs" or (op.name == "tt.get_program_id" and program_axis(op) != "x")
            for op in self._operations()
        ):  # the launcher puts the extents of the grid behind the arguments
            first = len(block.args)
            self.grid = [self.f.load("i64", self.f.gep(self.f.params[0], 8 * (first + i)), 8) for i in range(3)]
        if self.from_text:
            self.status = Status(self.f, self.f.load("ptr", self.f.gep(self.f.params[0], 8 * (len(block.args) + 3)), 8))
            self.ev.memory.begin(self.status)

    def _is_read_later(self, node: Node) -> bool:
        value = self.value_of.get(id(node))
        return value is not None and self.liveness.last.get(value, -1) > self._current_nest

    def _operations(self) -> Iterator[Any]:
        for block in self.blocks:
            yield from all_operations(block)

    def leave_if_stopped(self) -> None:
        """Every program, and every iteration of a loop, ends a launch that has been stopped."""
        if self.status is not None:
            self.status.leave_if_stopped()

    # -- values -------------------------------------------------------------------

    def node(self, value: Any) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value in self.scalars:
            return Splat((), element_name(value.type), self.scalars[value])
        raise InternalError(f"host lowering: value of type {value.type} has no definition yet")

    def limits(self, value: Any) -> list[Bound]:
        """Bounds beyond which nobody reads a block value, as far as their limits are known here."""
        if self._demanded is None:
            return []
        found = []
        for dim, comparison in self._demanded.of(value):
            limit = self.ev.s.known(self._compared(comparison))
            if limit is not None:
                found.append(Bound(dim, limit))
        return found

    def _compared(self, comparison: Any) -> tuple[str, ...]:
        """Names the limit of a comparison, and of all that compare the same."""
        assert self._demanded is not None
        return ("compared", str(self._demanded.comparisons.number(comparison)))

    def _unread(self, node: Node, bound: Bound) -> bool:
        """Whether nobody reads the node's block beyond the bound."""
        value = self.value_of.get(id(node))
        return value is not None and any(
            own.dim == bound.dim and own.limit.ref == bound.limit.ref for own in self.limits(value)
        )

    def define(self, value: Any, node: Node) -> None:
        self._depths[id(node)] = self._depth(node)
        self.nodes[value] = node
        self.value_of.setdefault(id(node), value)

    def scalar(self, value: Any) -> V:
        if value in self.scalars:
            return self.scalars[value]
        return self.nests.argument_of(self.node(value))

    def integer(self, value: Any) -> V:
        """A scalar integer as an i64 host word."""
        if value in self.wide:
            return self.wide[value]
        return self.ev.s.to_i64(self.scalar(value))

    def pointers(self, value: Any) -> Pointers:
        node = self.node(value)
        if isinstance(node, Pointers):
            return node
        pointee = pointee_name(value.type)
        unit = memory_element(pointee)
        if isinstance(node, Splat):
            offset = Affine(node.shape, "i64", V("0", "i64"), (None,) * len(node.shape))
            return Pointers(node.shape, "ptr", node.value, pointee, offset, self.ev.s.multiple(node.value), unit)
        addresses = Map(node.shape, "i64", "tt.ptr_to_int", (node,))
        nothing = Affine(node.shape, "i64", V("0", "i64"), (None,) * len(node.shape))
        return Pointers(node.shape, "ptr", V("null", "ptr"), pointee, nothing, 1, "i8", addresses)

    # -- operations ------------------------------------------------------------------

    def block(self, block: Any) -> None:
        for op in block.ops:
            if op in self.liveness.index:
                self._current_nest = self.liveness.index[op]
                if self.ordering is not None:
                    self.ordering.before(op, self._current_nest)
            self.operation(op)

    def operation(self, op: Any) -> None:
        handler = HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
        else:
            self.arithmetic(op)

    def arithmetic(self, op: Any) -> None:
        """An operation that works element by element."""
        if len(op.results) != 1 or op.regions:
            raise UnsupportedError(f"host lowering: operation {op.name}")
        result = op.results[0]
        if is_tensor(result.type):
            self.define(result, self._map(op, result))
        else:
            self.scalars[result] = self._scalar_operation(op, result)

    def _scalar_operation(self, op: Any, value: Any) -> V:
        s = self.ev.s
        elem = element_name(value.type)
        signed = op.name == "arith.extsi"
        if (signed or op.name == "arith.extui") and op.operands[0] in self.wide and elem == "i64" and (
            signed or not isinstance(op.operands[0], BlockArgument)  # a counter, which may be negative
        ):
            return self.wide[op.operands[0]]
        if not op.operands or any(is_tensor(o.type) for o in op.operands):
            raise UnsupportedError(f"host lowering: operation {op.name} with a scalar result")
        operands = [self.scalar(o) for o in op.operands]
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
        result = emit_map(
            self.f, op.name, elem, operands, [element_name(o.type) for o in op.operands], attributes(op)
        )
        s.follow_multiple(op.name, result, operands)
        return result

    def _map(self, op: Any, result: Any) -> Node:
        shape, elem = shape_of(result.type), element_name(result.type)
        operands = [self.node(o) for o in op.operands]
        if not operands or any(o.shape != shape for o in operands if o.shape):
            raise UnsupportedError(f"host lowering: operation {op.name}")
        narrow = self.from_text and elem not in ("i64", "index")
        folded = None
        if not (narrow and all(isinstance(o, Splat) for o in operands)):
            folded = self.folded(op, op.name, shape, elem, operands)
        if folded is not None:
            return folded
        facts = attributes(op)
        if all(isinstance(o, Splat) for o in operands):
            s = self.ev.s
            values = [s.address(o.value) if o.elem == "ptr" else o.value for o in operands if isinstance(o, Splat)]
            value = emit_map(self.f, op.name, elem, values, [o.elem for o in operands], facts)
            return Splat(shape, elem, s.pointer(value) if elem == "ptr" else value)
        if op.name == "arith.cmpi":
            bound = bound_of(self.ev.s, facts["predicate"], *operands)
            if bound is not None and (not self.from_text or may_bound(self, op, operands)):
                facts["bound"] = bound
                if self._demanded is not None and bound.dim == wide_dim(shape):
                    self.ev.s.remember(self._compared(result), bound.limit)
        if op.name in ("arith.divf", "tt.precise_divf", "tt.approx_divf") and elem == "f32":
            inverse = _inverse(operands[1])
            if inverse is not None:
                return self.shallow(Map(shape, elem, division.DIVIDE, (*operands, inverse), facts))
        return self.shallow(Map(shape, elem, op.name, tuple(operands), facts))

    def _depth(self, node: Node) -> int:
        """How many nodes evaluation descends through. Every new node is asked once, so this does not descend itself."""
        match node:
            case View():
                return 1 + self._depths.get(id(node.source), 0)
            case Pointers():
                return 0 if node.rest is None else self._depths.setdefault(id(node.rest), self._depth(node.rest))
            case Load():
                parts = [node.pointers, node.mask, node.other]
                return 1 + max(self._depths.get(id(part), 0) for part in parts if part is not None)
            case Map():
                return 1 + max(self._depths.get(id(operand), 0) for operand in node.operands)
        return 0

    def shallow(self, node: Map) -> Node:
        """The node, or a copy of its block in scratch where the chain behind it is too long to be evaluated in one go."""
        if self._depth(node) < MAX_DEPTH:
            return node
        return self.nests.materialize(node)

    def folded(
        self, op: Any, name: str, shape: tuple[int, ...], elem: str, operands: Sequence[Node]
    ) -> Node | None:
        """The operation's result as an affine block, if it is one. In functions built here i32 blocks are data, in texts also
        addresses."""
        if not self.from_text and elem == "i32":
            return None
        folded = fold(self.ev.s, name, shape, elem, operands)
        if folded is None or not self.from_text or name not in WIDENING:
            return folded
        source = operands[0]
        lowest = 0 if name == "arith.extui" else LOWEST
        if lowest == 0 and not (isinstance(source, Affine) and is_static(source)):
            return None
        return folded if not isinstance(source, Affine) or may_widen(self, source, op, lowest) else None

    # -- handlers -----------------------------------------------------------------------

    def op_constant(self, op: Any) -> None:
        result = op.results[0]
        elem, shape = element_name(result.type), shape_of(result.type)
        value = constant(constant_value(op), elem)
        if is_tensor(result.type):
            self.define(result, Splat(shape, elem, value))
        else:
            self.scalars[result] = value

    def op_program_id(self, op: Any) -> None:
        position = self.program
        if self.grid:  # programs are numbered along x first, then y, then z
            x, y, _ = self.grid
            rest = self.f.binary("udiv", position, x)
            match program_axis(op):
                case "x":
                    position = self.f.binary("urem", position, x)
                case "y":
                    position = self.f.binary("urem", rest, y)
                case _:
                    position = self.f.binary("udiv", rest, y)
        result = op.results[0]
        self.wide[result] = position
        self.ev.s.narrow.add(position.ref)  # no axis of a grid has 2^31 programs
        self.scalars[result] = self.f.cast("trunc", position, "i32")

    def op_num_programs(self, op: Any) -> None:
        result = op.results[0]
        self.wide[result] = self.grid["xyz".index(str(program_axis(op)))]
        self.scalars[result] = self.f.cast("trunc", self.wide[result], "i32")

    def op_nothing(self, op: Any) -> None:
        """Terminators (their operands are handled by the owner) and hints."""


def _inverse(divisor: Node) -> Node | None:
    """The reciprocal of a block that has fewer values than elements, as a node of its own: computed once per value."""
    match divisor:
        case Splat():
            one = Splat((), divisor.elem, divisor.value)
            return View(divisor.shape, divisor.elem, Map((), "f32", division.RECIPROCAL, (one,)), ())
        case View() if any(n > 1 and d not in divisor.dims for d, n in enumerate(divisor.shape)):
            source = divisor.source
            return View(divisor.shape, divisor.elem, Map(source.shape, "f32", division.RECIPROCAL, (source,)), divisor.dims)
    return None



HANDLERS = {
    "arith.constant": KernelLowering.op_constant,
    "tt.get_program_id": KernelLowering.op_program_id,
    "tt.get_num_programs": KernelLowering.op_num_programs,
    "tt.make_range": lower_make_range,
    "tt.splat": lower_splat,
    "tt.expand_dims": lower_expand_dims,
    "tt.broadcast": lower_broadcast,
    "tt.trans": lower_trans,
    "tt.reshape": lower_reshape,
    "tt.join": lower_join,
    "tt.cat": lower_cat,
    "tt.split": lower_split,
    "tt.unsplat": lower_unsplat,
    "tt.addptr": lower_addptr,
    "tt.bitcast": lower_bitcast,
    "tt.load": lower_load,
    "tt.store": lower_store,
    "tt.atomic_rmw": lower_atomic,
    "tt.atomic_cas": lower_atomic,
    "tt.atomic_load": lower_atomic,
    "tt.atomic_store": lower_atomic,
    "tt.atomic_poll": lower_poll,
    "tt.assert": lower_assert,
    "cf.assert": lower_assert,
    "tt.print": lower_print,
    "ub.poison": lower_poison,
    "tt.map_elementwise": lower_map_elementwise,
    "tt.gather": lower_gather,
    "tt.histogram": lower_histogram,
    "tt.reduce": lower_reduce,
    "tt.scan": lower_scan,
    "tt.dot": lower_dot,
    "scf.for": lower_for,
    "scf.if": lower_if,
    "scf.while": lower_while,
    "scf.execute_region": lower_execute_region,
    "scf.condition": KernelLowering.op_nothing,
    "scf.yield": KernelLowering.op_nothing,
    "ttg.barrier": KernelLowering.op_nothing,
    "llvm.intr.assume": KernelLowering.op_nothing,
    "tt.grid_dependency_wait": KernelLowering.op_nothing,
    "tt.grid_dependency_launch_dependents": KernelLowering.op_nothing,
    "tt.return": KernelLowering.op_nothing,
    "tt.reduce.return": KernelLowering.op_nothing,
    "tt.scan.return": KernelLowering.op_nothing,
    "tt.map_elementwise.return": KernelLowering.op_nothing,
    "cf.br": KernelLowering.op_nothing,
    "cf.cond_br": KernelLowering.op_nothing,
}


def lower_kernel(
    module: Module, func: Any, name: str, target: HostTarget, launch: LaunchSpecialization | None = None
) -> tuple[Site | PrintSite, ...]:
    """Add the LLVM function of a block function to the module; `launch` for functions from text. Returns the sites at which
    it can stop a launch."""
    lowering = KernelLowering(module, func, name, target, launch)
    module.add(lowering.run())
    return () if lowering.status is None else tuple(lowering.status.sites)


