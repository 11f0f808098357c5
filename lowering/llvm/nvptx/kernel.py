"""Lowers a block function to the code of one thread: LLVM IR for NVPTX.

A program is a block of `warps` warps. Operations are lowered in order; each chooses the layouts of its operands, and layout
conversions are inserted where they differ. Control flow is uniform over the block, so barriers are allowed anywhere.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation

from ....promotion.errors import ResourceError, UnsupportedError
from ...gc_paused import gc_paused
from ...libdevice.signatures import SIGNATURES
from ...tt.dialect.functions import FuncOp
from ...tt.dialect.memory.descriptor_types import TensorDescType
from ...tt.source_locations import naming_line
from ..elementwise import constant, register_element
from ..ir import Function
from ..metadata import Metadata
from ..module import Module
from ..op_lines import begin_lines
from ..syntax import constant_value, element_name, is_tensor, program_axis, shape_of
from ..values import const
from .analysis.occupancy import holds_many_elements
from .context import Handler, KernelContext
from .control.branches import CONTROL, lower_body
from .control.map_elementwise import MAPS
from .control.pipelined_loads import MAX_STAGES
from .control.producer import Producer, may_have_a_producer
from .effects import EFFECTS
from .elementwise import lower_elementwise
from .gpu_kernel import GpuKernel
from .matmul.mma_dot import DOTS
from .matmul.wgmma import group_number
from .memory.accesses import ACCESSES
from .memory.atomics import ATOMICS
from .memory.gathers import GATHERS
from .memory.joins import JOINS
from .memory.shared_memory import ALIGNMENT
from .memory.tma import DESCRIPTORS, MAP_TYPE, check_descriptors, tensor_maps
from .nodes import Splat
from .reduce.reductions import REDUCTIONS
from .reduce.scans import SCANS
from .shapes import SHAPES
from .symbols import symbol_of
from .targets import MAX_WARPS, WARP_SIZE, GpuTarget


def lower_to_threads(function: FuncOp, target: GpuTarget, warps: int = 4, debug: bool = False) -> GpuKernel:
    """Lowers a block function to the LLVM IR of one thread, for programs of `warps` warps.

    debug: whether instructions have the source lines that they come from.

    The function has gone through the pipeline for GPUs (`tt/transforms/pipelines.py`). Raises `UnsupportedError` for operations
    that have no code yet, for descriptors that are no tensor maps, and for kernels that need more shared memory than the target
    has.
    """
    with naming_line(function):
        check_descriptors(function, target)
        return _kernel(function, target, warps, debug)


def _kernel(function: FuncOp, target: GpuTarget, warps: int, debug: bool) -> GpuKernel:
    try:
        with gc_paused():
            has_producer = target.has_wgmma and warps < MAX_WARPS and may_have_a_producer(function)
            kernel = _lowered(function, target, warps, has_producer, debug)
            if kernel.producer is not None and not kernel.producer.is_busy:
                kernel = _lowered(function, target, warps, False, debug)
    except RecursionError:
        raise UnsupportedError(
            f"@{function.sym_name.data}: a chain of operations on blocks that is too long for one expression; fix: store what "
            "it has come to halfway, or carry it through a loop"
        ) from None
    if kernel.shared.bytes > target.shared_bytes:
        raise ResourceError(
            f"@{kernel.name} needs {kernel.shared.bytes} bytes of shared memory, {target.name} has {target.shared_bytes}; fix: "
            "smaller blocks",
            "shared memory",
            kernel.shared.bytes,
            target.shared_bytes,
        )
    types = tuple(v.type for v in kernel.f.params)
    maps = tensor_maps(function)
    functions = tuple([name for name in kernel.f.module.declarations if name in SIGNATURES])
    return GpuKernel(
        kernel.name, kernel.f.module.text(), target, warps, kernel.shared.bytes, types, maps,
        0 if kernel.producer is None else kernel.producer.warps, kernel.messages.assertions, functions,
    )  # fmt: skip


def _lowered(
    function: FuncOp, target: GpuTarget, warps: int, has_producer: bool, debug: bool
) -> KernelContext:
    """Lowers with as many stages as are wanted and fit in shared memory."""
    max_stages = MAX_STAGES
    while True:
        kernel = _lowered_once(function, target, warps, max_stages, has_producer, debug)
        reserved = 0 if kernel.producer is None else kernel.producer.reserved
        if reserved:
            kernel = _lowered_once(function, target, warps, max_stages, has_producer, debug, reserved)
        if kernel.shared.bytes <= target.shared_bytes or max_stages == 1 or not kernel.stages:
            return kernel
        max_stages = kernel.stages - 1


def _lowered_once(
    function: FuncOp, target: GpuTarget, warps: int, max_stages: int, has_producer: bool,
    debug: bool, reserved: int = 0,
) -> KernelContext:  # fmt: skip
    parameters = function.body.blocks[0].args
    params = [(parameter_type(argument.type), f"p{i}") for i, argument in enumerate(parameters)]
    module = Module(features=target.features, metadata=Metadata("DebugDirectivesOnly" if debug else None))
    f = Function(module, symbol_of(function.sym_name.data), params, linkage="ptx_kernel", numbering=True)
    begin_lines(f, function)
    k = KernelContext(f, function, target, warps, max_stages, reserved, HANDLERS, lower_elementwise)
    for argument, value in zip(parameters, f.params, strict=True):
        elem = element_name(argument.type)
        if elem == "i1":
            value = f.icmp("ne", value, const(0, "i8"))
        elif elem in ("f16", "bf16"):
            value = f.cast("fpext", value, "float")
        k.scalars[argument] = value
    if any(op.name == "tt.dot" and k.product(op) is not None for op in function.walk()):
        group_number(k.t)  # before everything, so that it stays in a uniform register
    if has_producer:
        k.shared.others = True
        with k.shared.kept(ALIGNMENT + reserved):  # its mbarriers and stages
            k.producer = Producer(k)
            lower_body(k)
        k.producer.finish()
    else:
        lower_body(k)
    threads = (warps + (0 if k.producer is None else k.producer.warps)) * WARP_SIZE
    f.attributes = f'nounwind "nvvm.reqntid"="{threads}"'
    is_alone = target.blocks(k.shared.bytes) == 1  # then registers are free; setmaxnreg needs a bound, too
    if is_alone or holds_many_elements(function, warps * WARP_SIZE):
        f.attributes += ' "nvvm.minctasm"="1"'
    module.add(f)
    return k


def parameter_type(type_: Attribute) -> str:
    if isinstance(type_, TensorDescType):
        return MAP_TYPE
    elem = element_name(type_)
    if elem == "ptr":
        return "i64"
    return {"i1": "i8", "f16": "half", "bf16": "bfloat"}.get(elem, register_element(elem))


def _constant(k: KernelContext, op: Operation) -> None:
    result = op.results[0]
    elem = element_name(result.type)
    if not is_tensor(result.type):
        k.scalars[result] = constant(constant_value(op), elem)
        return
    k.define(result, Splat(shape_of(result.type), elem, constant(constant_value(op), elem)))


def _program_id(k: KernelContext, op: Operation) -> None:
    what = "ctaid" if op.name == "tt.get_program_id" else "nctaid"
    k.scalars[op.results[0]] = k.t.call(f"read.ptx.sreg.{what}.{program_axis(op)}", [], "i32")


def _nothing(k: KernelContext, op: Operation) -> None:
    """Emits nothing: for hints."""


def _poison(k: KernelContext, op: Operation) -> None:
    """Lowers ub.poison to zero; any value would do."""
    result = op.results[0]
    zero = k.ev.zero(element_name(result.type))
    if is_tensor(result.type):
        k.define(result, Splat(shape_of(result.type), element_name(result.type), zero))
    else:
        k.scalars[result] = zero


def _barrier(k: KernelContext, op: Operation) -> None:
    k.shared.barrier()


HANDLERS: dict[str, Handler] = {
    "arith.constant": _constant, "tt.get_program_id": _program_id, "tt.get_num_programs": _program_id,
    "llvm.intr.assume": _nothing, "ttg.barrier": _barrier, "ub.poison": _poison,
    **SHAPES, **ACCESSES, **DESCRIPTORS, **CONTROL, **DOTS, **JOINS, **REDUCTIONS, **ATOMICS, **SCANS, **GATHERS, **MAPS,
    **EFFECTS,
}  # fmt: skip
