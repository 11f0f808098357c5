"""Finds hoistable descriptors, which a kernel creates and its launch could create instead.

A `tt.make_tensor_descriptor` is hoistable if it describes the memory of a pointer parameter, with extents and strides that are
the same in all programs: constants, integer parameters, and arithmetic on these (`EXPRESSION_OPERATIONS`). Copies by tensor
maps go through the async proxy, and nothing orders them with other accesses. So either all uses of the descriptor are loads,
and nothing in the kernel writes the parameter's memory; or all are stores, and nothing else in the kernel accesses it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from ....promotion.dataclass import dataclass
from ...artifact import EXPRESSION_OPERATIONS, MAX_EXPRESSION_STEPS, ArgumentExpression, TensorSource
from .. import types as t
from ..dialect.functions import FuncOp
from ..dialect.memory.descriptor_types import TensorDescType, is_composite, part_types
from ..dialect.memory.descriptors import MakeTensorDescriptorOp
from ..transforms.folding import constant_of
from .alias_sets import UNKNOWN, AliasSet, may_alias
from .aliasing import AliasAnalysis

SOURCE = "tt.tensor_source"
"""Attribute of a tensor map parameter: what a launch creates it from (`source_attribute`)."""
_STEP = re.compile(r"(\w{1,32}):(\d{1,4}):(-?\d{1,20})")
"""A step of an `ArgumentExpression`, written."""

_READS = frozenset({"tt.load", "tt.atomic_load", "tt.atomic_poll", "tt.descriptor_load", "tt.descriptor_gather"})
_WRITES = frozenset(
    {"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.descriptor_store", "tt.descriptor_reduce",
     "tt.descriptor_scatter"}
)  # fmt: skip
_HANDED_ON = frozenset(
    {"tt.addptr", "tt.advance", "tt.bitcast", "tt.broadcast", "tt.expand_dims", "tt.make_tensor_descriptor",
     "tt.make_tensor_ptr", "tt.reshape", "tt.splat", "tt.trans", "arith.select"}
)  # fmt: skip
"""Operations, besides control flow, through which `AliasAnalysis` follows pointers. Any other lets a pointer
escape."""


@dataclass(frozen=True, slots=True)
class HoistableDescriptor:
    """A descriptor that a launch could create: its type, and the source to create it from.

    parameter: number of the pointer that it is based on, among the function's parameters; `source` counts launch arguments
    instead, of which a composite parameter has several (`part_types`).
    """

    type: TensorDescType
    parameter: int
    source: TensorSource


def makes_descriptors(function: FuncOp) -> bool:
    """Returns whether a function, or another one of its module, creates descriptors."""
    return any(isinstance(op, MakeTensorDescriptorOp) for op in (function.parent_op() or function).walk())


def hoistable_descriptors(function: FuncOp) -> dict[HoistableDescriptor, list[MakeTensorDescriptorOp]]:
    """Returns the hoistable descriptors of a function without calls, in the order of the text, with the
    operations that create each."""
    offsets = argument_offsets(function.function_type.inputs.data)
    found: dict[HoistableDescriptor, list[MakeTensorDescriptorOp]] = {}
    for op in function.walk():
        if isinstance(op, MakeTensorDescriptorOp) and (descriptor := _hoistable(op, function, offsets)) is not None:
            found.setdefault(descriptor, []).append(op)
    if not found:
        return {}
    accesses = _Accesses(function)
    return {descriptor: makers for descriptor, makers in found.items() if accesses.allow(descriptor, makers)}


def argument_offsets(types: Sequence[Attribute]) -> list[int]:
    """Returns the number of the first launch argument of each parameter, given the parameters' types."""
    found, end = [], 0
    for type_ in types:
        found.append(end)
        end += len(part_types(type_)) if is_composite(type_) else 1
    return found


def _hoistable(op: MakeTensorDescriptorOp, function: FuncOp, offsets: list[int]) -> HoistableDescriptor | None:
    entry, type_ = function.body.blocks[0], op.result.type
    base = op.base
    if not isinstance(base, BlockArgument) or base.block is not entry or not isinstance(type_, TensorDescType):
        return None
    arguments = dict(zip(entry.args, offsets, strict=True))
    sizes = [_expression(value, arguments) for value in (*op.shape, *op.strides)]
    known = tuple([each for each in sizes if each is not None])
    if len(known) < len(sizes):
        return None
    rank, nan = len(op.shape), ArgumentExpression.constant(int(op.pads_with_nan))
    source = TensorSource(offsets[base.index], known[:rank], known[rank:], nan)
    return HoistableDescriptor(type_, base.index, source)


def _expression(value: SSAValue, arguments: dict[BlockArgument, int]) -> ArgumentExpression | None:
    """Returns the integer as an expression of launch arguments; None if it is none. arguments: the number of
    the first launch argument of each of the function's arguments."""
    steps: list[tuple[str, int, int]] = []
    waiting: list[SSAValue | Operation] = [value]
    while waiting:
        each = waiting.pop()
        if len(steps) + len(waiting) >= MAX_EXPRESSION_STEPS:
            return None
        if isinstance(each, Operation):  # its operands have been written
            of = each.results[0] if each.name == "arith.trunci" else each.operands[0]
            steps.append((each.name.removeprefix("arith."), t.bit_width(of.type), 0))
            continue
        number = constant_of(each)
        if not t.is_integer(each.type) or t.is_tensor(each.type):
            return None
        if number is not None:
            steps.append(("constant", t.bit_width(each.type), number))
        elif isinstance(each, BlockArgument) and each in arguments:
            steps.append(("argument", t.bit_width(each.type), arguments[each]))
        elif isinstance(each, OpResult) and _is_arithmetic(each.op):
            waiting += [each.op, *reversed(each.op.operands)]
        else:
            return None
    return ArgumentExpression(tuple(steps))


def _is_arithmetic(op: Operation) -> bool:
    dialect, _, name = op.name.partition(".")
    return dialect == "arith" and name in EXPRESSION_OPERATIONS


class _Accesses:
    """The accesses of a function, by alias set, and the pointers that escape."""

    def __init__(self, function: FuncOp) -> None:
        aliases = AliasAnalysis(function)

        def alias_set(value: SSAValue) -> AliasSet:
            return aliases.of(value) or frozenset({UNKNOWN})

        self._reads: list[tuple[Operation, AliasSet]] = []
        self._writes: list[tuple[Operation, AliasSet]] = []
        self._escaped: AliasSet = frozenset()
        for op in function.walk():
            others = list(op.operands)
            if op.name in _READS or op.name in _WRITES:
                (self._writes if op.name in _WRITES else self._reads).append((op, alias_set(op.operands[0])))
                others = others[1:]
            elif op.name in _HANDED_ON or op.name.startswith(("scf.", "cf.")):
                continue
            for value in others:
                if t.is_pointer(value.type) or is_composite(value.type):
                    self._escaped |= alias_set(value)

    def allow(self, descriptor: HoistableDescriptor, makers: Sequence[MakeTensorDescriptorOp]) -> bool:
        """Returns whether the descriptor's accesses may go through a tensor map."""
        uses = [use.operation for maker in makers for use in maker.result.uses]
        names = {op.name for op in uses}
        memory = frozenset({descriptor.parameter})
        if descriptor.parameter in self._escaped or len(names) != 1:
            return False
        if names == {"tt.descriptor_load"}:
            return not any(may_alias(memory, alias_set) for _, alias_set in self._writes)
        own = set(uses)
        others = (alias_set for op, alias_set in (*self._reads, *self._writes) if op not in own)
        return names == {"tt.descriptor_store"} and not any(may_alias(memory, alias_set) for alias_set in others)


# -- sources as attributes


def source_attribute(source: TensorSource) -> DictionaryAttr:
    return DictionaryAttr(
        {
            "parameter": IntegerAttr(source.parameter, 32),
            "extents": ArrayAttr(map(_written, source.extents)),
            "strides": ArrayAttr(map(_written, source.strides)),
            "pads_with_nan": _written(source.pads_with_nan),
        }
    )


def source_of(attribute: Attribute) -> TensorSource | None:
    """Inverts `source_attribute`. Returns None for an attribute that it does not make, as a text may hold any."""
    if not isinstance(attribute, DictionaryAttr):
        return None
    parameter, nan = attribute.data.get("parameter"), _read(attribute.data.get("pads_with_nan"))
    extents, strides = (_read_all(attribute.data.get(name)) for name in ("extents", "strides"))
    if not isinstance(parameter, IntegerAttr) or nan is None or extents is None or strides is None:
        return None
    return TensorSource(parameter.value.data, extents, strides, nan)


def _written(expression: ArgumentExpression) -> StringAttr:
    return StringAttr(" ".join(f"{operation}:{width}:{number}" for operation, width, number in expression.steps))


def _read_all(attribute: Attribute | None) -> tuple[ArgumentExpression, ...] | None:
    found = [_read(each) for each in attribute.data] if isinstance(attribute, ArrayAttr) else [None]
    known = tuple([each for each in found if each is not None])
    return known if len(known) == len(found) else None


def _read(attribute: Attribute | None) -> ArgumentExpression | None:
    if not isinstance(attribute, StringAttr):
        return None
    steps = [_STEP.fullmatch(step) for step in attribute.data.split()]
    known = tuple([(step[1], int(step[2]), int(step[3])) for step in steps if step is not None])
    return ArgumentExpression(known) if known and len(known) == len(steps) else None
