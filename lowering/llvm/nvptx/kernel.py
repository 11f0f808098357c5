"""Lowers a block function to the code of one thread: LLVM IR for NVPTX.

A program is a block of `warps` warps. Operations are lowered in order; each chooses the layouts of its operands, and layout
conversions are inserted where they differ. Control flow is uniform over the block, so barriers are allowed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....promotion.errors import InternalError, UnsupportedError
from ...artifact import TensorMap
from ...gc_paused import gc_paused
from ...libdevice.signatures import SIGNATURES
from ...linear_layouts.layout import LANE, REGISTER, WARP, LinearLayout
from ...tt.analysis.integer_ranges import Range as IntegerRange
from ...tt.dialect.descriptor_types import TensorDescType
from ...tt.transforms.loops.pointer_induction import with_distances
from ..elementwise import constant, memory_size, register_element
from ..ir import Function, Module, V, const
from ..syntax import attributes, constant_value, element_name, is_tensor, pointee_name, program_axis, shape_of
from .axis_info import AxisAnalysis, has_promises
from .control.branches import CONTROL, lower_body
from .control.loop_carried import CarriedPointers
from .control.map_elementwise import MAPS
from .control.pipelined_loads import MAX_STAGES
from .control.warp_specialization import Producer, may_have_a_producer
from .convert_layout import Moves
from .effects import EFFECTS, Assertion
from .evaluate import Evaluator
from .known_non_negative import Dividends, with_known_non_negative
from .matmul.mma_dot import DOTS, product_of_warpgroups
from .matmul.wgmma import Placed, WarpgroupProduct, group_number
from .memory.atomics import ATOMICS
from .memory.gathers import GATHERS
from .memory.global_memory import (
    LINE,
    AccessInfo,
    GlobalMemory,
    access_groups,
    coalesced,
    row_bytes,
    widest,
    written_groups,
)
from .memory.joins import JOINS
from .memory.ordering import MemoryOrder
from .memory.shared_memory import ALIGNMENT, SharedMemory
from .memory.tma import DESCRIPTORS, MAP_TYPE, tensor_maps
from .nodes import (
    MAX_DEPTH,
    Distributed,
    Node,
    Range,
    Shape,
    Splat,
    Staged,
    depth_of,
    is_materialized,
    own_layout,
    viewed,
)
from .occupancy import holds_many_elements
from .reduce.reductions import REDUCTIONS
from .reduce.scans import SCANS
from .symbols import symbol_of
from .targets import MAX_WARPS, WARP_SIZE, GpuTarget
from .threads import Threads, bits_of

ELEMENTWISE = frozenset(
    f"tt.{name}"
    for name in ("addptr", "approx_divf", "bitcast", "clampf", "extern_elementwise", "fp_to_fp", "int_to_ptr", "mulhiui",
                 "precise_divf", "precise_sqrt", "ptr_to_int")
)  # fmt: skip
"""Operations on elements besides those of `arith` and `math`."""


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """LLVM IR of a block function for a GPU, and what a launch has to know.

    name: name of the function, for messages.
    parameters: LLVM types of the parameters, in order.
    tensor_maps: the tensor maps that the last parameters point to.
    producers: warps that only copy, besides those that compute.
    assertions: the text that a failed assertion reports → the assertion.
    functions: the libdevice functions that the kernel calls.
    """

    name: str
    llvm_ir: str
    target: GpuTarget
    warps: int
    shared_bytes: int
    parameters: tuple[str, ...]
    tensor_maps: tuple[TensorMap, ...] = ()
    producers: int = 0
    assertions: Mapping[str, Assertion] = field(default_factory=dict)
    functions: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of the kernel in the generated code."""
        return symbol_of(self.name)

    @property
    def threads(self) -> int:
        return (self.warps + self.producers) * WARP_SIZE


def lower_to_threads(
    function: Any,
    target: GpuTarget,
    warps: int = 4,
    multiples: Mapping[int, int] | None = None,
    non_negative: Collection[int] | None = None,
) -> GpuKernel:
    """Lower a block function to the LLVM IR of one thread, for programs of `warps` warps.

    multiples: parameter number → what its address or its value is known to be a multiple of, beyond what the text says.
    non_negative: the numbers of the divisions whose dividends are never negative (`known_non_negative.Dividends`); None: those
        that are never negative in any launch.

    The function has gone through the passes. Raises `UnsupportedError` for operations that have no code yet, and for kernels
    that need more shared memory than the target has.
    """
    try:
        with gc_paused():
            numbers = Dividends(function).always if non_negative is None else non_negative
            function = with_known_non_negative(function, numbers)
            function = with_distances(function, CarriedPointers(function, multiples, warps * WARP_SIZE).are_few)
            has_producer = target.has_wgmma and warps < MAX_WARPS and may_have_a_producer(function)
            kernel = _lowered(function, target, warps, multiples, has_producer)
            if kernel.producer is not None and not kernel.producer.is_busy:
                kernel = _lowered(function, target, warps, multiples, False)
    except RecursionError:
        raise UnsupportedError(
            f"@{function.sym_name.data}: a chain of operations on blocks that is too long for one expression; fix: store what "
            "it has come to halfway, or carry it through a loop"
        ) from None
    if kernel.shared.bytes > target.shared_bytes:
        raise UnsupportedError(
            f"@{kernel.name} needs {kernel.shared.bytes} bytes of shared memory, {target.name} has {target.shared_bytes}; fix: "
            "smaller blocks"
        )
    types = tuple(v.type for v in kernel.f.params)
    maps = tensor_maps(function)
    functions = tuple([name for name in kernel.module.declarations if name in SIGNATURES])
    return GpuKernel(
        kernel.name, kernel.module.text(), target, warps, kernel.shared.bytes, types, maps,
        0 if kernel.producer is None else kernel.producer.warps, kernel.assertions, functions,
    )  # fmt: skip


def _lowered(
    function: Any, target: GpuTarget, warps: int, multiples: Mapping[int, int] | None, has_producer: bool
) -> KernelLowering:
    """With as many stages as are wanted and there is room for."""
    max_stages = MAX_STAGES
    while True:
        kernel = KernelLowering(function, target, warps, multiples, max_stages, has_producer)
        kernel.run()
        if kernel.producer is not None and kernel.producer.wanted:
            kernel = KernelLowering(function, target, warps, multiples, max_stages, has_producer, kernel.producer.reserved)
            kernel.run()
        if kernel.shared.bytes <= target.shared_bytes or max_stages == 1 or not kernel.stages:
            return kernel
        max_stages = kernel.stages - 1


def parameter_type(type_: Any) -> str:
    if isinstance(type_, TensorDescType):
        return MAP_TYPE
    elem = element_name(type_)
    if elem == "ptr":
        return "i64"
    return {"i1": "i8", "f16": "half", "bf16": "bfloat"}.get(elem, register_element(elem))


class KernelLowering:
    """State of the lowering of one function."""

    def __init__(
        self, function: Any, target: GpuTarget, warps: int, multiples: Mapping[int, int] | None, max_stages: int,
        has_producer: bool = False, reserved: int = 0,
    ) -> None:  # fmt: skip
        self.function = function
        self.target = target
        self.name: str = function.sym_name.data
        self.module = Module(features=target.features)
        entry = function.body.blocks[0]
        params = [(parameter_type(argument.type), f"p{i}") for i, argument in enumerate(entry.args)]
        self.f = Function(self.module, symbol_of(self.name), params, linkage="ptx_kernel", numbering=True)
        self.t = Threads(self.f, warps)
        self.shared = SharedMemory(self.t)
        self.moves = Moves(self.t, self.shared)
        self.ev = Evaluator(self.t, self.moves)
        self.memory = GlobalMemory(self.t)
        self.axes = AxisAnalysis(function, multiples)
        self.promised = AxisAnalysis(function, multiples, True) if has_promises(function) else self.axes
        self.order = MemoryOrder(function, self.shared)
        self.scalars: dict[Any, V] = {}
        self.loop_bounds: dict[Any, tuple[IntegerRange, ...]] = {}
        self.single_combines: dict[Any, Callable[[V, V], V] | None] = {}
        self.staged: dict[Any, Staged] = {}  # loads that a pipelined loop has copied to shared memory
        self.resident: dict[Any, tuple[Placed | tuple[V, ...], ...]] = {}  # operands that a loop has stored before it starts
        self.in_flight: set[Any] = set()  # products (wgmma) that are not waited for at once
        self._products: dict[Any, WarpgroupProduct | None] = {}
        self.max_stages = max_stages
        self.producer: Producer | None = None
        self._has_producer = has_producer
        self.reserved = reserved  # bytes of shared memory that only the producer's stages use
        self.stages = 0  # the most that a pipelined loop has
        self.nodes: dict[Any, Node] = {}
        self.assertions: dict[str, Assertion] = {}
        self.texts: dict[str, str] = {}  # of the kernel's messages, → names
        self.is_alone = False  # whether each thread runs a region on its own
        self.guard: V | None = None  # where what such a region gives counts
        self.reduced_rows = frozenset(
            shape_of(op.operands[0].type)[0]
            for op in function.walk()
            if op.name == "tt.reduce" and int(attributes(op)["axis"]) == 1 and len(shape_of(op.operands[0].type)) == 2
        )
        """Numbers of rows of the matrices that are reduced row by row."""
        self._elements = self._elements_per_thread()

    @property
    def warps(self) -> int:
        return self.t.warps

    @property
    def room(self) -> int:
        """Free bytes of shared memory, which a loop may keep to itself."""
        return self.shared.room(self.target.shared_bytes)

    @property
    def is_persistent(self) -> bool:
        """Whether the kernel is persistent: it reads the grid size, so each program loops over several tiles."""
        return any(op.name == "tt.get_num_programs" for op in self.function.walk())

    # -- preparation -----------------------------------------------------------------

    def _elements_per_thread(self) -> dict[tuple[Shape, tuple[int, ...]], int]:
        """Consecutive elements per thread by block shape and dim order: the most that any access to such a block wants."""
        found: dict[tuple[Shape, tuple[int, ...]], int] = {}
        threads = self.warps * WARP_SIZE
        for op in self.function.walk():
            if op.name in ("tt.load", "tt.store") and is_tensor(op.operands[0].type):
                shape, info = shape_of(op.operands[0].type), self.access_info(op)
                key = (shape, info.order())
                bits = 8 * memory_size(pointee_name(op.operands[0].type))
                found[key] = max(found.get(key, 1), widest(info, shape, bits, threads))
        return found

    def access_info(self, op: Any) -> AccessInfo:
        """The axis info of a load's or store's pointers and mask."""
        mask = getattr(op, "mask", None)
        known = None if mask is None or not is_tensor(mask.type) else self.axes.of(mask)
        return AccessInfo(self.promised.of(op.operands[0]), known)

    def coalesced(self, shape: Shape, order: Sequence[int] | None = None) -> LinearLayout:
        """The layout of accesses to blocks of this shape."""
        order = tuple(order) if order is not None else tuple(reversed(range(len(shape))))
        return coalesced(shape, order, self._elements.get((shape, order), 1), self.warps)

    # -- values ----------------------------------------------------------------------

    def scalar(self, value: Any) -> V:
        if value in self.scalars:
            return self.scalars[value]
        raise InternalError(f"nvptx lowering: scalar of type {value.type} has no definition yet")

    def node(self, value: Any) -> Node:
        if value in self.nodes:
            return self.nodes[value]
        if value in self.scalars:
            return Splat((), element_name(value.type), self.scalars[value])
        raise InternalError(f"nvptx lowering: value of type {value.type} has no definition yet")

    def define(self, value: Any, node: Node) -> None:
        if depth_of(node) >= MAX_DEPTH:  # evaluation descends through all of it
            own = own_layout(node)
            node = self.ev.distributed(node, self.preferred(value) if own is None else own[0])
        self.nodes[value] = node

    def registers(self, value: Any, layout: LinearLayout) -> tuple[V, ...]:
        return self.ev.at(self.node(value), layout)

    def elements(self, value: Any, layout: LinearLayout, registers: Sequence[int]) -> dict[int, V]:
        """The elements of these registers, by register."""
        return dict(zip(registers, self.ev.elements(self.node(value), layout, registers), strict=True))

    def natural_layout(self, value: Any) -> LinearLayout:
        """The layout that a block has, or else the preferred one."""
        node = self.node(value)
        found = self.ev.choose_layout([node])
        return found if found is not None else self.preferred(value)

    def preferred(self, value: Any) -> LinearLayout:
        """The layout for a block that has none yet: the coalesced one of accesses through it, or to blocks of its shape."""
        shape = shape_of(value.type)
        if element_name(value.type) == "ptr":
            return self.coalesced(shape, AccessInfo(self.promised.of(value)).order())
        known = [order for (own, order) in self._elements if own == shape]
        return self.coalesced(shape, known[0] if known else None)

    def access_layout(self, op: Any) -> LinearLayout:
        """The layout of an access: coalesced for pointers that are expressions, else the pointers' own."""
        own = self.ev.choose_layout([self.node(op.ptr)])
        return own if own is not None else self.coalesced(shape_of(op.ptr.type), self.access_info(op).order())

    def product(self, op: Any) -> WarpgroupProduct | None:
        """The wgmma plan of a tt.dot; None if wgmma does not compute it."""
        if op not in self._products:
            self._products[op] = product_of_warpgroups(self, op)
        return self._products[op]

    # -- operations ------------------------------------------------------------------

    def run(self) -> None:
        f = self.f
        for argument, value in zip(self.function.body.blocks[0].args, f.params, strict=True):
            elem = element_name(argument.type)
            if elem == "i1":
                value = f.icmp("ne", value, const(0, "i8"))
            elif elem in ("f16", "bf16"):
                value = f.cast("fpext", value, "float")
            self.scalars[argument] = value
        if any(op.name == "tt.dot" and self.product(op) is not None for op in self.function.walk()):
            group_number(self)  # before everything, so that it stays in a uniform register
        if self._has_producer:
            self._with_producer()
        else:
            lower_body(self)
        f.attributes = f'nounwind "nvvm.reqntid"="{self.threads}"'
        is_alone = self.target.blocks(self.shared.bytes) == 1  # then registers are free; to hand them over needs a bound, too
        if is_alone or holds_many_elements(self.function, self.warps * WARP_SIZE):
            f.attributes += ' "nvvm.minctasm"="1"'
        self.module.add(f)

    @property
    def threads(self) -> int:
        return (self.warps + (0 if self.producer is None else self.producer.warps)) * WARP_SIZE

    def _with_producer(self) -> None:
        self.shared.others = True
        with self.shared.kept(ALIGNMENT + self.reserved):  # its mbarriers and stages
            self.producer = Producer(self)
            lower_body(self)
        self.producer.finish()

    def block(self, block: Any) -> None:
        for op in block.ops:
            self.operation(op)

    def block_without_end(self, block: Any) -> None:
        for op in list(block.ops)[:-1]:
            self.operation(op)

    def operation(self, op: Any) -> None:
        handler = HANDLERS.get(op.name)
        if handler is not None:
            handler(self, op)
        elif self.is_elementwise(op):
            self.elementwise(op)
        else:
            raise self.unsupported(op)

    @staticmethod
    def is_elementwise(op: Any) -> bool:
        return op.name not in HANDLERS and (op.name.startswith(("arith.", "math.")) or op.name in ELEMENTWISE)

    def unsupported(self, op: Any, what: str = "") -> UnsupportedError:
        return UnsupportedError(f"nvptx lowering: operation {op.name}{what and ': ' + what}")

    def elementwise(self, op: Any) -> None:
        if len(op.results) != 1 or op.regions or not op.operands:
            raise self.unsupported(op)
        result = op.results[0]
        elem, shape = element_name(result.type), shape_of(result.type)
        attrs = attributes(op)
        if op.name == "tt.addptr":
            attrs["size"] = memory_size(pointee_name(op.operands[0].type))
            if is_tensor(result.type):
                offset = self.axes.of(op.operands[1])
                attrs["runs"] = tuple(map(offset.aligned, range(len(offset.contiguity))))
        elif elem == "i1" and is_tensor(result.type):
            attrs["equal"] = self.axes.of(result).constancy
        if is_tensor(result.type):
            self.define(result, self.ev.compute(op.name, shape, elem, [self.node(o) for o in op.operands], attrs))
            return
        if any(is_tensor(operand.type) for operand in op.operands):
            raise self.unsupported(op)
        values = [self.scalar(operand) for operand in op.operands]
        elems = [element_name(operand.type) for operand in op.operands]
        self.scalars[result] = self.ev.element(op.name, elem, values, elems, attrs)


Handler = Callable[[KernelLowering, Any], None]


def _constant(k: KernelLowering, op: Any) -> None:
    result = op.results[0]
    elem = element_name(result.type)
    if not is_tensor(result.type):
        k.scalars[result] = constant(constant_value(op), elem)
        return
    k.define(result, Splat(shape_of(result.type), elem, constant(constant_value(op), elem)))


def _program_id(k: KernelLowering, op: Any) -> None:
    what = "ctaid" if op.name == "tt.get_program_id" else "nctaid"
    k.scalars[op.results[0]] = k.t.call(f"read.ptx.sreg.{what}.{program_axis(op)}", [], "i32")


def _make_range(k: KernelLowering, op: Any) -> None:
    k.define(op.results[0], Range(shape_of(op.results[0].type), "i32", int(attributes(op)["start"])))


def _splat(k: KernelLowering, op: Any) -> None:
    result = op.results[0]
    k.define(result, Splat(shape_of(result.type), element_name(result.type), k.scalar(op.operands[0])))


def _unsplat(k: KernelLowering, op: Any) -> None:
    k.scalars[op.results[0]] = k.registers(op.operands[0], k.natural_layout(op.operands[0]))[0]


def _view(kind: str) -> Handler:
    def lower(k: KernelLowering, op: Any) -> None:
        result, order = op.results[0], tuple(attributes(op)["order"]) if kind == "transpose" else ()
        k.define(result, viewed(k.node(op.operands[0]), shape_of(result.type), element_name(result.type), kind, order))

    return lower


def _load(k: KernelLowering, op: Any) -> None:
    result = op.results[0]
    if op in k.staged:
        k.define(result, k.staged[op])
        return
    attrs = attributes(op)
    elem = element_name(result.type)
    cache, volatile = _cache(attrs), bool(attrs.get("isVolatile"))
    if not is_tensor(result.type):
        k.order.before(op, None)
        guard = None if op.mask is None else k.scalar(op.mask)
        fill = None if op.other is None else k.t.to_bits(k.scalar(op.other), elem)
        if guard is not None and fill is None:
            fill = k.t.to_bits(k.ev.zero(elem), elem)
        packed = k.memory.load_bits(k.scalar(op.ptr), bits_of(elem), guard, fill, cache, volatile)
        k.scalars[result] = k.t.from_bits(k.t.unpack(packed, 1, bits_of(elem))[0], elem)
        return
    layout = k.access_layout(op)
    if k.ev.only_layouts:
        k.define(result, Distributed(shape_of(result.type), elem, layout, k.ev.any(elem, layout.size(REGISTER))))
        return
    k.order.before(op, layout)
    known = k.access_info(op)
    vector, axis = known.width(shape_of(result.type), bits_of(elem), layout)
    groups = access_groups(layout, vector, axis)
    firsts = [registers[0] for registers in groups]
    mask = None if op.mask is None else k.elements(op.mask, layout, firsts)
    other = None if op.other is None else k.registers(op.other, layout)
    values = k.memory.load(elem, layout, groups, k.elements(op.ptr, layout, firsts), mask, other, cache, volatile)
    k.define(result, Distributed(shape_of(result.type), elem, layout, values))


def _store(k: KernelLowering, op: Any) -> None:
    if k.ev.only_layouts:
        return
    elem = pointee_name(op.ptr.type)
    cache = _cache(attributes(op))
    if not is_tensor(op.ptr.type):
        k.order.before(op, None)
        guard = k.t.is_first() if op.mask is None else k.f.binary("and", k.t.is_first(), k.scalar(op.mask))
        k.memory.store_bits(k.scalar(op.ptr), k.t.to_bits(k.scalar(op.value), elem), guard, cache)
        return
    layout = _written_layout(k, op, bits_of(elem))
    k.order.before(op, layout)
    vector, axis = k.access_info(op).width(shape_of(op.ptr.type), bits_of(elem), layout)
    groups = written_groups(layout, vector, axis)
    firsts = [registers[0] for registers in groups]
    mask = None if op.mask is None else k.elements(op.mask, layout, firsts)
    k.memory.store(elem, layout, groups, k.elements(op.ptr, layout, firsts), k.registers(op.value, layout), mask, cache)


def _written_layout(k: KernelLowering, op: Any, bits: int) -> LinearLayout:
    """The layout of a store: the value's own, if its lanes fill lines of memory as well as after a conversion."""
    best, found = k.access_layout(op), own_layout(k.node(op.value))
    operands = [k.node(op.ptr), *([] if op.mask is None else [k.node(op.mask)])]
    if found is None or not found[1] or any(map(is_materialized, operands)):
        return best
    if any(found[0].free_masks((LANE, WARP)).values()):
        return best
    shape, info = shape_of(op.ptr.type), k.access_info(op)
    rows = [row_bytes(layout, bits, *info.width(shape, bits, layout)) for layout in (found[0], best)]
    return found[0] if rows[0] >= min(rows[1], LINE) else best


def _cache(attrs: dict[str, Any]) -> str:
    found = attrs.get("cachePolicy") or attrs.get("cache") or ""
    return str(found) if found not in ("none", 1) else ""


def _nothing(k: KernelLowering, op: Any) -> None:
    """Emit nothing: hints, and orderings that a single launch has anyway."""


def _poison(k: KernelLowering, op: Any) -> None:
    """Lower ub.poison to zero; any value would do."""
    result = op.results[0]
    zero = k.ev.zero(element_name(result.type))
    if is_tensor(result.type):
        k.define(result, Splat(shape_of(result.type), element_name(result.type), zero))
    else:
        k.scalars[result] = zero


def _barrier(k: KernelLowering, op: Any) -> None:
    k.shared.barrier()


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant, "tt.get_program_id": _program_id, "tt.get_num_programs": _program_id,
    "tt.make_range": _make_range, "tt.splat": _splat, "tt.unsplat": _unsplat, "tt.expand_dims": _view("reshape"),
    "tt.reshape": _view("reshape"), "tt.broadcast": _view("broadcast"), "tt.trans": _view("transpose"),
    "tt.load": _load, "tt.store": _store, "llvm.intr.assume": _nothing, "tt.grid_dependency_wait": _nothing,
    "tt.grid_dependency_launch_dependents": _nothing, "ttg.barrier": _barrier, "ub.poison": _poison,
    **DESCRIPTORS, **CONTROL, **DOTS, **JOINS, **REDUCTIONS, **ATOMICS, **SCANS, **GATHERS, **MAPS, **EFFECTS,
}  # fmt: skip
