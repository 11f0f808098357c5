"""Prepares a block function for proofs: expands what has no rule, and lists parameters and accesses."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from xdsl.dialects import cf, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    FileLineColLoc,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.traits import NoMemoryEffect, Pure

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError, printable
from ..libdevice.signatures import SIGNATURES
from ..tt import types as t
from ..tt.analysis.control_flow import switch_edges
from ..tt.arguments import parameters_of
from ..tt.dialect.attributes import enum_name
from ..tt.dialect.external import ExternElementwiseOp
from ..tt.dialect.functions import FuncOp, called_functions
from ..tt.dialect.memory.atomics import MEMORY_SCOPES
from ..tt.dialect.memory.descriptor_types import TensorDescType
from ..tt.facts import DIVISIBILITY, parameter_attributes
from ..tt.op_locations import OpLocations, source_line
from ..tt.transforms.pipeline import Pipeline, copy_function
from .evaluate.elements import has_size
from .evaluate.undefined import Undefined
from .initialised.sources import leaves_undefined
from .sorted_lines import expand_sorted_lines

_INLINED = "inline"
_EXPANDED = "drop-claims,expand-control,expand-arithmetic,expand-maps,expand-descriptors"
PASSES = f"{_INLINED},{_EXPANDED}"
"""Passes before a proof. None of them removes an access: what the text does and nobody uses is checked, too."""
_TEXT = "ttir"
_NAME = re.compile(r"[A-Za-z_][\w.]*")
_POSITION = re.compile(r"arg\d+")
_NO_COLUMN = re.compile(rf"\b({_TEXT}:\d+):0(?= called at |$)")
_NUMBER = re.compile(r"_\d+$")
_HARMLESS = frozenset({
    "tt.func", "tt.return", "tt.print", "tt.assert", "cf.assert", "cf.br", "cf.cond_br", "llvm.intr.assume", "ttg.barrier",
    "gpu.barrier", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents", "scf.for", "scf.if", "scf.while",
    "scf.execute_region", "scf.yield", "scf.condition", "tt.map_elementwise", "tt.map_elementwise.return",
})  # fmt: skip
"""Operations without a trait that says so which touch no memory themselves; those in their regions are looked at, too."""
_TENSOR_MAPS = "ttng."
"""Dialect of the operations on tensor maps."""
GATHER = "tt.gather"
_COMPOSITE = frozenset({"tt.make_tensor_descriptor", "tt.make_tensor_ptr", "tt.advance"})
_WHOLE = _COMPOSITE | {"tt.descriptor_load", "tt.descriptor_gather"}
"""Operations on descriptors and blocks' pointers whose results are defined if their operands are."""
_PARTLY_USED = frozenset({"arith.mului_extended", "arith.mulsi_extended", "math.ipowi", "math.fpowi"})
"""Operations whose results are undefined if an operand is, whatever the others are; expanded ones may not use all of them."""
_WRITTEN = {"tt.store": 1, "tt.descriptor_store": 1, "tt.descriptor_scatter": 3, "tt.descriptor_reduce": 1}
"""The position of the operand that operations on descriptors and blocks' pointers write."""
_COMPUTING = ("arith.", "math.")
"""Dialects of which no operation touches memory."""
_PLAIN = {"tt.load": (True, False), "tt.store": (False, True)}
_ATOMIC = {
    "tt.atomic_rmw": (True, True), "tt.atomic_cas": (True, True), "tt.atomic_load": (True, False),
    "tt.atomic_store": (False, True), "tt.atomic_poll": (True, False),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ProofParameter:
    """A parameter of the expanded function.

    Attributes:
        name: as specifications say it; those of the parts of a descriptor `a` are `a`, `a.shape.0` and `a.stride.0`.
        divisor: what the text promises to divide the number.
        rank: of a descriptor's array, how many extents and strides follow it here; 0 of others.
        promised: what the text promises to divide the address of an array.
    """

    name: str
    type: Attribute
    divisor: int = 1
    rank: int = 0
    promised: int = 1

    @property
    def alignment(self) -> int:
        """Bytes of which the address of an array is a multiple: arrays begin at a whole element, launches check promises."""
        return max(self.element_size, self.promised & -self.promised)

    @property
    def is_array(self) -> bool:
        return isinstance(self.type, t.PointerType)

    @property
    def element_size(self) -> int:
        return t.pointee_size(self.type)


@dataclass(frozen=True, slots=True)
class Access:
    """An operation that reads or writes memory, or takes elements of a block by indices.

    Attributes:
        is_ordered: whether it is an atomic access that orders programs: those of the scope "cta" do not.
        obstacle: why the access is not modelled; "" if it is.
        size: bytes of an element.
    """

    op: Operation
    line: str
    reads: bool
    writes: bool
    is_ordered: bool
    shape: tuple[int, ...]
    size: int
    mask: SSAValue | None
    stored: SSAValue | None
    obstacle: str = ""

    @property
    def is_atomic(self) -> bool:
        return self.op.name in _ATOMIC

    @property
    def is_gather(self) -> bool:
        """Whether it takes elements of a block, not of an array: its indices have bounds, too."""
        return self.op.name == GATHER

    @property
    def pointer(self) -> SSAValue:
        return self.op.operands[0]


@dataclass(frozen=True, slots=True)
class PreparedFunction:
    """A function whose calls, switches and descriptors are expanded. original: what it was made of.

    Attributes:
        doubtful: an operation of whose operands one may be undefined that is not followed, as expanded ones use less of them;
            None if there is none.
    """

    original: FuncOp
    function: FuncOp
    parameters: tuple[ProofParameter, ...]
    accesses: tuple[Access, ...]
    doubtful: Access | None = None

    @property
    def numbers(self) -> Mapping[str, int]:
        """The integer parameters of more than one bit, by name; of equal names the first."""
        found: dict[str, int] = {}
        for position, each in enumerate(self.parameters):
            if t.is_integer(each.type) and t.bit_width(each.type) > 1:
                found.setdefault(each.name, position)
        return found

    @property
    def arrays(self) -> Mapping[str, int]:
        """The pointer parameters, by name."""
        return {each.name: position for position, each in enumerate(self.parameters) if each.is_array}

    @property
    def asked_axes(self) -> frozenset[int]:
        """The axes of the grid along which programs ask which one they are."""
        asking = [op for op in self.function.walk() if op.name == "tt.get_program_id"]
        return frozenset([op.properties["axis"].value.data for op in asking])  # type: ignore[attr-defined]


def prepare(function: FuncOp) -> PreparedFunction:
    """Returns a copy of a function, expanded.

    Raises `UnsupportedError` for parameters that proofs have no name for, and what the passes raise.
    """
    _check_parameters(function)
    copy = copy_function(function)
    _locate(function, copy)
    parameters = _parameters(function)
    Pipeline.parse(_INLINED).run(copy)
    expand_sorted_lines(copy)
    maps = _tensor_maps(copy)  # of called functions, too
    doubtful = _doubtful(copy)
    Pipeline.parse(_EXPANDED).run(copy)
    if len(copy.body.blocks[0].args) != len(parameters):  # they would be taken for each other
        raise UnsupportedError(
            f"prove: @{function.sym_name.data} has a parameter that is expanded to several in a way that is not modelled; "
            "fix: pointers to elements, integers and descriptors (!tt.tensordesc) as parameters"
        )
    return PreparedFunction(function, copy, parameters, (*maps, *_accesses(copy)), doubtful)


def _check_parameters(function: FuncOp) -> None:
    """Refuses parameters that no launch passes, as blocks and pointers to blocks."""
    for each in parameters_of(function):
        if not _is_passed(each.type):
            other = "a number, a pointer to elements, or a descriptor (!tt.tensordesc)"
            fix = "i64" if isinstance(each.type, IndexType) else other
            raise UnsupportedError(
                f"prove: {each.name} of @{function.sym_name.data} is of type {each.type}, which no launch passes; fix: {fix}"
            )


def _is_passed(type_: Attribute) -> bool:
    """Returns whether launches pass arguments of a type: numbers that NumPy has, descriptors, arrays of numbers or addresses.

    An integer with a sign, as `ui32`, is none that operations take.
    """
    if isinstance(type_, TensorDescType):
        return True
    is_array = isinstance(type_, t.PointerType)
    while isinstance(type_, t.PointerType):
        type_ = type_.pointee
    is_number = isinstance(type_, AnyFloat)
    if isinstance(type_, IntegerType):
        is_number = type_.signedness.data is Signedness.SIGNLESS
    if not is_number or is_array:
        return is_number
    try:
        t.numpy_dtype(type_)
    except UnsupportedError:
        return False
    return True


def _tensor_maps(inlined: FuncOp) -> list[Access]:
    """Returns the operations on tensor maps of 128 bytes, of which expanded ones touch some words alone, or none.

    inlined: a function without calls, before descriptors are expanded.
    """
    return [
        Access(op, line_of(op), True, True, False, (), 1, None, None, f"{op.name}, which touches 128 bytes, is not modelled")
        for op in inlined.walk() if op.name.startswith(_TENSOR_MAPS)
    ]  # fmt: skip


def no_access(op: Operation, why: str) -> Access:
    """Returns an entry for an operation that is no access, of which a property says something besides."""
    return Access(op, line_of(op), False, False, False, (), 1, None, None, why)


def _doubtful(inlined: FuncOp) -> Access | None:
    """Returns an operation of which an operand that expanded ones may not use may be undefined; None if there is none.

    Expanded ones use no more of their operands than they need, and are undefined as a whole before.
    """
    possible = Undefined(inlined, lambda op: leaves_undefined(op) and op.name not in _WHOLE)
    for op in inlined.walk():
        is_block = op.name in ("tt.load", "tt.store") and t.is_tensor(t.pointee(op.operands[0].type))
        is_choice = (isinstance(op, scf.IndexSwitchOp) and not list(op.cases.iter_values())) or (
            isinstance(op, cf.SwitchOp) and not switch_edges(op)[0]
        )  # without cases, which leads where it does whatever is asked
        is_other = is_choice or op.name in _COMPOSITE or op.name in _PARTLY_USED
        if is_block or is_other or op.name.startswith("tt.descriptor_"):
            written = _WRITTEN.get(op.name)
            if any(possible.is_value(each) for number, each in enumerate(op.operands) if number != written):
                return no_access(op, f"an operand of {op.name} at {line_of(op)} may be undefined, and is not followed")
    return None


def _locate(function: FuncOp, copy: FuncOp) -> None:
    """Gives operations without a line, also those of called functions, that of the text, which sanitized runs name, too."""
    root: Operation = function
    while (parent := root.parent_op()) is not None:
        root = parent
    locations = OpLocations(root)
    pairs = zip((function, *called_functions(function)), (copy, *called_functions(copy)), strict=True)
    for own, twin in [each for pair in pairs for each in zip(pair[0].walk(), pair[1].walk(), strict=True)]:
        if source_line(own.location) is None:
            line = locations.line(own).rpartition(":")[2]
            twin.location = FileLineColLoc(StringAttr(_TEXT), IntAttr(int(line)), IntAttr(0))


def line_of(op: Operation) -> str:
    """Returns the user's line of an operation, in the words of a finding."""
    found = source_line(op.location) or _TEXT
    return _NO_COLUMN.sub(r"\1", found)


def parameter_names(function: FuncOp) -> tuple[str, ...]:
    """Returns a name for each parameter of a function, by which specifications tell them apart.

    That is the text's, where no other parameter could be meant by it. Texts are read without the numbers at the end of names:
    where theirs are `%n_1` and `%n_2`, both are called by their position, `arg1` and `arg2`. So are those without a name, those
    with a dot, as parts of descriptors have, `a.shape.0`, those that are named like another position, and descriptors of which
    a part has a name of the text. A position that another parameter is named like has an underscore more: `arg3_`, if the
    text has `%arg3` elsewhere.
    """
    texts = _texts_of(function)
    found = []
    for position, (text, parameter) in enumerate(zip(texts, parameters_of(function), strict=True)):
        others = {*texts[:position], *texts[position + 1 :]}
        rank = len(parameter.type.shape) if isinstance(parameter.type, TensorDescType) else 0
        is_known = _NAME.fullmatch(text) is not None and "." not in text and _POSITION.fullmatch(text) is None
        name = text if is_known else f"arg{position}"
        if is_known and _is_taken(name, rank, others):
            name = f"arg{position}"
        while _is_taken(name, rank, others):
            name += "_"
        found.append(name)
    return tuple(found)


def _is_taken(name: str, rank: int, others: Collection[str]) -> bool:
    """Returns whether a name, or that of a part of a descriptor, could be meant for other parameters of the text."""
    parts = _parts(name, rank) if rank else []
    return bool(_meant(name) & {*map(_plain, others)}) or not {*parts}.isdisjoint(others)


def taken_names(function: FuncOp) -> frozenset[str]:
    """Returns the names that are, or could be meant to be, a parameter's."""
    return frozenset((*parameter_names(function), *map(_plain, _texts_of(function))))


def ambiguous(function: FuncOp, name: str) -> bool:
    """Returns whether a name that is no parameter's could be meant to be one's, or a part's, as the text or proofs call it."""
    known = {*map(_plain, (*_texts_of(function), *parameter_names(function)))}
    return bool((_meant(name) | _meant(name.partition(".")[0])) & known)


def renamed(function: FuncOp, wanted: str | None = None) -> tuple[str, ...]:
    """Returns which parameter of the text is meant by each name that is not the text's, in sentences that proofs print.

    wanted: only of parameters that this name could be meant for.
    """
    found = []
    meant = None if wanted is None else _meant(wanted) | _meant(wanted.partition(".")[0])
    for position, (name, text) in enumerate(zip(parameter_names(function), _texts_of(function), strict=True)):
        if name != text and (meant is None or not meant.isdisjoint((_plain(text), _plain(name)))):
            written = f"%{printable(text)}" if text else "without a name"
            found.append(f"{name} is the parameter {written}, number {position} of the text, counted from 0")
    return tuple(found)


def _texts_of(function: FuncOp) -> list[str]:
    """Returns the names of parameters as the text has them, without the numbers at their end; "" for those without a name."""
    return [argument.name_hint or "" for argument in function.body.blocks[0].args]


def _plain(name: str) -> str:
    """Returns a name in the letters that names of specifications have."""
    return re.sub(r"\W", "_", name)


def _meant(name: str) -> set[str]:
    """Returns which names of the text, which have lost the number at their end, may be meant by a name."""
    plain = _plain(name)
    return {plain, _NUMBER.sub("", plain)}


def _parts(name: str, rank: int) -> list[str]:
    """Returns how the extents, strides and padding of a descriptor's tensor are called."""
    return [*[f"{name}.{what}.{axis}" for what in ("shape", "stride") for axis in range(rank)], f"{name}.padding"]


def _parameters(function: FuncOp) -> tuple[ProofParameter, ...]:
    found: list[ProofParameter] = []
    names = parameter_names(function)
    for position, each in enumerate(parameters_of(function)):
        name = names[position]
        if isinstance(each.type, TensorDescType):
            rank = len(each.type.shape)
            found.append(ProofParameter(name, t.ptr(each.type.elem), rank=rank))
            *sizes, padding = _parts(name, rank)
            found += [ProofParameter(size, t.I64) for size in sizes]
            found.append(ProofParameter(padding, t.I1))
            continue
        promised = parameter_attributes(function, position).get(DIVISIBILITY)
        divisor = promised.value.data if isinstance(promised, IntegerAttr) else 1
        divisor = max(1, divisor)
        if t.is_integer(each.type):
            found.append(ProofParameter(name, each.type, divisor))
        else:
            found.append(ProofParameter(name, each.type, promised=divisor))
    return tuple(found)


def _accesses(function: FuncOp) -> list[Access]:
    found = []
    undefined = Undefined(function)
    for op in function.walk():
        if op.name == GATHER:
            shape, poison = t.shape_of(op.operands[1].type), _poison(undefined, op, op.operands[1])
            found.append(Access(op, line_of(op), False, False, False, shape, 1, None, None, poison))
            continue
        effects = _PLAIN.get(op.name) or _ATOMIC.get(op.name)
        if effects is None:
            if not _is_harmless(op):
                found.append(Access(op, line_of(op), True, True, False, (), 1, None, None, f"{op.name} is not modelled"))
            continue
        pointee = t.pointee(op.operands[0].type)
        obstacle = "a pointer to a block is not modelled" if t.is_tensor(pointee) else ""
        if not obstacle and not has_size(op.operands[0].type):
            obstacle = f"the size of {pointee} in memory is not modelled"
        mask, stored = _operands(op)
        obstacle = obstacle or _poison(undefined, op, op.operands[0], mask)
        if obstacle:
            found.append(Access(op, line_of(op), True, True, False, (), 1, None, None, obstacle))
            continue
        value = t.value_type(op.operands[0].type)
        stored = None if undefined.is_value(stored) else stored  # lanes may store different numbers
        size = max(1, t.bit_width(value) // 8)
        shape = t.shape_of(op.operands[0].type)
        is_ordered = op.name in _ATOMIC and enum_name(MEMORY_SCOPES, op.properties["scope"]) in ("gpu", "sys")
        found.append(Access(op, line_of(op), *effects, is_ordered, shape, size, mask, stored))
    return found


def _poison(undefined: Undefined, op: Operation, *values: SSAValue | None) -> str:
    """Returns why an access is not modelled if poison has a part in its address, its mask or its path; "" if none has."""
    is_undefined = undefined.is_path(op) or any(undefined.is_value(value) for value in values)
    return "poison, or what tt.fft makes, in its address, its mask or its path is not modelled" * is_undefined


def claims_of(function: Operation) -> list[str]:
    """Returns what is believed of foreign code, because it says so."""
    found: dict[str, None] = {}
    for op in function.walk():
        if op.name == "tt.elementwise_inline_asm" and _is_harmless(op):
            found["assembly that says it is pure touches no memory"] = None
        if isinstance(op, ExternElementwiseOp) and _is_harmless(op) and not _is_libdevice(op):
            found[f"{printable(op.symbol.data)}, which says it is pure, touches no memory"] = None
    return list(found)


def _is_libdevice(op: ExternElementwiseOp) -> bool:
    """Returns whether a function is one of libdevice's: another library may have one of the same name."""
    return op.names_libdevice and op.symbol.data in SIGNATURES


def _is_harmless(op: Operation) -> bool:
    """Returns whether an operation is known to touch no memory. What nothing is known of may touch any."""
    if op.name in _HARMLESS:
        return True
    if op.name == "tt.elementwise_inline_asm":
        pure = op.properties.get("pure")
        return isinstance(pure, IntegerAttr) and bool(pure.value.data)
    if isinstance(op, ExternElementwiseOp):
        return bool(op.pure.value.data) or _is_libdevice(op)
    return op.name.startswith(_COMPUTING) or op.has_trait(NoMemoryEffect) or op.has_trait(Pure)


def ends_at_once(op: Operation) -> bool:
    """Returns whether an operation without regions is known to end: those of `_HARMLESS`, accesses, and what only computes."""
    if isinstance(op, ExternElementwiseOp):
        return _is_libdevice(op)
    return op.name == GATHER or op.name in _PLAIN or op.name in _ATOMIC or _is_harmless(op)


def _operands(op: Operation) -> tuple[SSAValue | None, SSAValue | None]:
    """Returns mask and stored value of an access."""
    operands: Sequence[SSAValue] = op.operands
    match op.name:
        case "tt.load" | "tt.atomic_load":
            return (operands[1] if len(operands) > 1 else None), None
        case "tt.store" | "tt.atomic_rmw" | "tt.atomic_store":
            return (operands[2] if len(operands) > 2 else None), operands[1]
    return None, None


__all__ = [
    "GATHER", "Access", "PreparedFunction", "ProofParameter", "ambiguous", "claims_of", "ends_at_once", "line_of",
    "no_access",
    "parameter_names", "prepare", "renamed", "taken_names",
]  # fmt: skip
