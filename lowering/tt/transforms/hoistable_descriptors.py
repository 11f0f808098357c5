"""Descriptors that a kernel makes and that a launch could make in its place: which they are, and of what.

A `tt.make_tensor_descriptor` is one if it describes the memory of a pointer parameter, with extents and strides that are the
same in all programs: constants, integer parameters, and arithmetic on these (`EXPRESSION_OPERATIONS`). Copies by tensor maps go
another way to memory than all other accesses, and nothing keeps the two in order. So all that is done with the descriptor is
loads, and nothing in the kernel may write the parameter's memory; or stores, and nothing else in the kernel may access it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from ...artifact import EXPRESSION_OPERATIONS, MAX_EXPRESSION_STEPS, ArgumentExpression, TensorSource
from .. import types as t
from ..analysis.aliasing import ANYWHERE, Places, Provenance, overlap
from ..dialect.descriptor_types import TensorDescType, is_composite, part_types
from ..dialect.descriptors import MakeTensorDescriptorOp
from ..dialect.functions import FuncOp
from .cleanups import constant_of

SOURCE = "tt.tensor_source"
"""Of a parameter that is a tensor map: what a launch makes it of (`source_attribute`)."""

_READS = frozenset({"tt.load", "tt.atomic_load", "tt.atomic_poll", "tt.descriptor_load", "tt.descriptor_gather"})
_WRITES = frozenset(
    {"tt.store", "tt.atomic_rmw", "tt.atomic_cas", "tt.atomic_store", "tt.descriptor_store", "tt.descriptor_reduce",
     "tt.descriptor_scatter"}
)  # fmt: skip
_HANDED_ON = frozenset(
    {"tt.addptr", "tt.advance", "tt.bitcast", "tt.broadcast", "tt.expand_dims", "tt.make_tensor_descriptor",
     "tt.make_tensor_ptr", "tt.reshape", "tt.splat", "tt.trans", "arith.select"}
)  # fmt: skip
"""Besides control flow: what `Provenance` follows pointers through. Whatever else takes a pointer may do anything with it."""


@dataclass(frozen=True, slots=True)
class MadeDescriptor:
    """A tensor that a kernel describes, as a launch could: its type, and what it is made of.

    parameter: number of the pointer that it is based on, among the function's parameters; `source` counts the words that these
    come to (`part_types`).
    """

    type: TensorDescType
    parameter: int
    source: TensorSource


def made_descriptors(function: FuncOp) -> dict[MadeDescriptor, list[MakeTensorDescriptorOp]]:
    """Those of a function without calls, in the order of the text, with the operations that make each."""
    words = first_words(function.function_type.inputs.data)
    found: dict[MadeDescriptor, list[MakeTensorDescriptorOp]] = {}
    for op in function.walk():
        if isinstance(op, MakeTensorDescriptorOp) and (made := _described(op, function, words)) is not None:
            found.setdefault(made, []).append(op)
    if not found:
        return {}
    accesses = _Accesses(function)
    return {made: makers for made, makers in found.items() if accesses.allow(made, makers)}


def first_words(types: Sequence[Attribute]) -> list[int]:
    """By parameter, given their types: the first of the words that a launch hands over for it."""
    found, end = [], 0
    for type_ in types:
        found.append(end)
        end += len(part_types(type_)) if is_composite(type_) else 1
    return found


def _described(op: MakeTensorDescriptorOp, function: FuncOp, words: list[int]) -> MadeDescriptor | None:
    entry, type_ = function.body.blocks[0], op.result.type
    base = op.base
    if not isinstance(base, BlockArgument) or base.block is not entry or not isinstance(type_, TensorDescType):
        return None
    arguments = dict(zip(entry.args, words, strict=True))
    sizes = [_expression(value, arguments) for value in (*op.shape, *op.strides)]
    known = tuple([each for each in sizes if each is not None])
    if len(known) < len(sizes):
        return None
    rank, nan = len(op.shape), ArgumentExpression.constant(int(op.pads_with_nan))
    source = TensorSource(words[base.index], known[:rank], known[rank:], nan)
    return MadeDescriptor(type_, base.index, source)


def _expression(value: SSAValue, arguments: dict[BlockArgument, int]) -> ArgumentExpression | None:
    """The integer as a launch computes it, if it can. arguments: the function's → words."""
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
    """What a function does with the memory behind its pointers."""

    def __init__(self, function: FuncOp) -> None:
        provenance = Provenance(function)

        def places(value: SSAValue) -> Places:
            return provenance.of(value) or frozenset({ANYWHERE})

        self._reads: list[tuple[Operation, Places]] = []
        self._writes: list[tuple[Operation, Places]] = []
        self._escaped: Places = frozenset()
        for op in function.walk():
            others = list(op.operands)
            if op.name in _READS or op.name in _WRITES:
                (self._writes if op.name in _WRITES else self._reads).append((op, places(op.operands[0])))
                others = others[1:]
            elif op.name in _HANDED_ON or op.name.startswith(("scf.", "cf.")):
                continue
            for value in others:
                if t.is_pointer(value.type) or is_composite(value.type):
                    self._escaped |= places(value)

    def allow(self, made: MadeDescriptor, makers: Sequence[MakeTensorDescriptorOp]) -> bool:
        """Whether its accesses may go another way to memory."""
        uses = [use.operation for maker in makers for use in maker.result.uses]
        names = {op.name for op in uses}
        memory = frozenset({made.parameter})
        if made.parameter in self._escaped or len(names) != 1:
            return False
        if names == {"tt.descriptor_load"}:
            return not any(overlap(memory, places) for _, places in self._writes)
        own = set(uses)
        others = (places for op, places in (*self._reads, *self._writes) if op not in own)
        return names == {"tt.descriptor_store"} and not any(overlap(memory, places) for places in others)


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


def source_of(attribute: Attribute) -> TensorSource:
    """The inverse of `source_attribute`."""
    assert isinstance(attribute, DictionaryAttr)
    parameter, nan = attribute.data["parameter"], attribute.data["pads_with_nan"]
    assert isinstance(parameter, IntegerAttr)
    extents, strides = (tuple(_all_read(attribute.data[name])) for name in ("extents", "strides"))
    return TensorSource(parameter.value.data, extents, strides, _read(nan))


def _written(expression: ArgumentExpression) -> StringAttr:
    return StringAttr(" ".join(f"{operation}:{width}:{number}" for operation, width, number in expression.steps))


def _all_read(attribute: Attribute) -> Iterator[ArgumentExpression]:
    assert isinstance(attribute, ArrayAttr)
    yield from map(_read, attribute.data)


def _read(attribute: Attribute) -> ArgumentExpression:
    assert isinstance(attribute, StringAttr)
    steps = [step.split(":") for step in attribute.data.split()]
    return ArgumentExpression(tuple([(operation, int(width), int(number)) for operation, width, number in steps]))
