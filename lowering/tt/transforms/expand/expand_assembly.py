"""Replaces inline assembly by block operations.

Every register becomes a block with one element per group of `packed_element` elements; instructions become operations on such
blocks (`lowering.ptx.expand_*`). Operands are packed into registers, and results unpacked, by splits and joins of axes of
extent 2. Accesses to memory become the dialect's own (`tt.load`, `tt.atomic_rmw`, …), so what holds for these holds for them. A
special register is read once per instruction, by assembly that does nothing else (`dialect.external.register_read`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from xdsl.ir import Attribute, Block, Operation, SSAValue

from .....promotion.errors import UnsupportedError
from ....ptx import expand_accesses, expand_floats, expand_integers
from ....ptx.effects import READABLE, Access, GridControl
from ....ptx.expand_floats import FLOAT_TYPES
from ....ptx.expand_integers import INTEGERS
from ....ptx.instructions import COMPARISONS, FLOATS, WIDTHS, Decoded
from ....ptx.syntax import Float, Integer, Operand, Pair, Register, Sink, Special, Vector
from ... import types as t
from ...builder.block_builder import BlockBuilder
from ...dialect.attributes import PROGRAM_AXES, enum_attr
from ...dialect.external import ElementwiseInlineAsmOp, program_of, read_register, register_read
from ...dialect.functions import FuncOp
from ...source_locations import naming_line
from ..expander import Expander, operations_named
from ..expression import Expr, where
from ..function_pass import FunctionPass
from ..inline_asm_text import Slot, Step

_CARRY = "CC.CF"
_GRID = {"%ctaid": "tt.get_program_id", "%nctaid": "tt.get_num_programs"}
_LEFT = frozenset(name for name in READABLE if name.partition(".")[0] not in _GRID)
"""The special registers that only back ends know."""


def expand_inline_asm(func: Operation) -> None:
    """Replaces the inline assembly of a function in place.

    Raises `UnsupportedError` for instructions that are not known, or that reach beyond the registers and global memory.
    """
    expander = Expander()
    for op in operations_named(func, "tt.elementwise_inline_asm"):
        assert isinstance(op, ElementwiseInlineAsmOp)
        if _combines(op):
            with naming_line(op):
                _expect_arithmetic(op)
        if register_read(op) not in _LEFT:
            expander.replace(op, partial(_run, op))


def _combines(op: Operation) -> bool:
    """Whether the operation is a part of what a reduction or a scan combines two elements by."""
    outer = op.parent_op()
    while outer is not None and outer.name not in ("tt.reduce", "tt.scan"):
        outer = outer.parent_op()
    return outer is not None


def _expect_arithmetic(op: ElementwiseInlineAsmOp) -> None:
    for step in program_of(op).instructions():
        if not isinstance(step, Decoded) or any(isinstance(source, Special) for source in step.sources):
            raise UnsupportedError(
                f"PTX line {step.line}: {step.spelling}: in the region of a reduction or a scan, which may only compute; "
                "fix: load, store and read special registers outside, and pass the values in"
            )


def expanded(op: ElementwiseInlineAsmOp) -> tuple[Block, list[SSAValue]]:
    """Returns a block that does what an operation does, its arguments the operands, and its values for the results."""
    b = BlockBuilder.function("expansion", [(f"x{i}", value.type) for i, value in enumerate(op.operands)])
    b.location = op.location
    values = [found.v for found in _run(op, b, [Expr(b, argument) for argument in b.args])]
    return b.finish().body.block, values


def _run(op: ElementwiseInlineAsmOp, b: BlockBuilder, xs: Sequence[Expr]) -> list[Expr]:
    program, packed, types = program_of(op), op.packed_element.value.data, [result.type for result in op.results]
    shape, count = t.shape_of(types[0]), t.element_count(types[0])
    groups = shape if packed == 1 or not shape else (count // min(count, packed),)
    registers: dict[str, Expr] = {}
    for slots, x in zip(program.operands, xs, strict=True):
        columns = _columns(_bits_of(x), packed)
        for slot in slots:
            registers[slot.name] = _packed(columns[: slot.count], slot)
            columns = columns[slot.count :]
    machine = _Machine(registers, program.registers, b, groups, not op.pure.value.data)
    for instruction in program.instructions():
        machine.step(instruction)
    results = []
    for slots, type_ in zip(program.results, types, strict=True):
        columns = [column for slot in slots for column in _unpacked(machine.read(slot.name), slot, type_)]
        results.append(_joined(columns, shape))
    return results


# -- elements to registers and back


def _bits_of(x: Expr) -> Expr:
    """Returns elements as integers, or as floats that a register of their width holds as they are."""
    if t.is_pointer(x.type):
        return x.cast("tt.ptr_to_int", t.I64)
    if t.is_float(x.type) and x.width == 8:
        return x.cast("tt.bitcast", t.I8)
    return x


def _columns(x: Expr, packed: int) -> list[Expr]:
    """Returns element 0, 1, … of every group; elements that a group lacks are zero."""
    count = t.element_count(x.type)
    if packed == 1:
        return [x]
    inner = min(count, packed)
    columns = [x]
    if t.shape_of(x.type):
        levels = inner.bit_length() - 1
        shaped = Expr(x.b, x.b.reshape(x.v, (count // inner, *[2] * levels)))
        columns = _split(shaped, levels)
    return columns + [columns[0].like(0)] * (packed - inner)


def _split(x: Expr, levels: int) -> list[Expr]:
    """Splits a block into its elements along the last axes, of which the last is the lowest bit of the
    element's number."""
    if levels == 0:
        return [x]
    even, odd = (_split(Expr(x.b, half), levels - 1) for half in x.b.split(x.v))
    return [column for both in zip(even, odd, strict=True) for column in both]


def _joined(columns: list[Expr], shape: tuple[int, ...]) -> Expr:
    if not shape or len(columns) == 1:
        return columns[0]
    count = 1
    for extent in shape:
        count *= extent
    joined = _join(columns[: min(count, len(columns))])
    return Expr(joined.b, joined.b.reshape(joined.v, shape)) if t.shape_of(joined.type) != shape else joined


def _join(columns: list[Expr]) -> Expr:
    if len(columns) == 1:
        return columns[0]
    even, odd = _join(columns[::2]), _join(columns[1::2])
    return Expr(even.b, even.b.join(even.v, odd.v))


def _packed(columns: Sequence[Expr], slot: Slot) -> Expr:
    width = WIDTHS[slot.type]
    if slot.type == "pred":
        return columns[0] if slot.bits == 1 else columns[0].ne(0)
    if width == slot.bits:
        return columns[0]
    if width == 128:
        raise UnsupportedError("tt.elementwise_inline_asm: registers of 128 bits")
    wide = (column.bits().cast("arith.extui", INTEGERS[width]) for column in columns)
    return reduce(or_, (part.shl(index * slot.bits) if index else part for index, part in enumerate(wide)))


def _unpacked(register: Expr, slot: Slot, type_: Attribute) -> list[Expr]:
    element = t.elem(type_)
    if slot.type == "pred":
        return [register]
    found = []
    for index in range(slot.count):
        bits = register
        if WIDTHS[slot.type] != slot.bits:
            value = register.bits()
            bits = (value.lshr(index * slot.bits) if index else value).cast("arith.trunci", INTEGERS[slot.bits])
        if t.elem(bits.type) == element:
            found.append(bits)
        elif t.is_pointer(type_):
            found.append(bits.bits().cast("tt.int_to_ptr", element))
        elif t.is_float(type_):
            found.append(bits.bits().cast("tt.bitcast" if slot.bits == 8 else "arith.bitcast", element))
        else:
            found.append(bits.bits())
    return found


# -- instructions


class _Machine:
    """The registers, as integers or as floats of their width, whichever was written."""

    def __init__(
        self, registers: dict[str, Expr], declared: Mapping[str, str], b: BlockBuilder, shape: tuple[int, ...], volatile: bool
    ) -> None:
        self.registers = registers
        self.declared = declared
        self.b = b
        self.shape = shape
        self.volatile = volatile

    def constant(self, value: float | int | bool, type_: Attribute) -> Expr:
        return Expr(self.b, self.b.const(value, type_, self.shape))

    def read(self, name: str) -> Expr:
        found = self.registers.get(name)
        if found is None:
            width = WIDTHS[self.declared[name]]
            if width > 64:
                raise UnsupportedError("tt.elementwise_inline_asm: registers of 128 bits")
            found = self.registers[name] = self.constant(0, INTEGERS[width])
        return found

    def source(self, operand: Operand, type_: str) -> Expr:
        match operand:
            case Register(name, negated):
                value = self.read(name)
                if type_ == "pred":
                    return ~value if negated else value
                return _view(value, type_)
            case Integer(value) if type_ == "pred":
                return self.constant(value != 0, t.I1)
            case Integer(value):
                width = WIDTHS[type_]
                return _view(self.constant(value, INTEGERS[width]), type_)
            case Float(bits, width):
                if width == 64 and type_ == "f32":
                    return self.constant(struct.unpack("<d", bits.to_bytes(8, "little"))[0], t.F32)
                return _view(self.constant(bits, INTEGERS[width]), type_)
            case Vector(elements):
                width = WIDTHS[type_] // len(elements)
                total = self.constant(0, INTEGERS[WIDTHS[type_]])
                for index, element in enumerate(elements):
                    part = self.source(element, f"b{width}")
                    if len(elements) == 1:
                        return part
                    total = total | part.cast("arith.extui", INTEGERS[WIDTHS[type_]]).shl(width * index)
                return total
            case Special(name):
                return _view(self.special(name), type_)
        raise UnsupportedError(f"tt.elementwise_inline_asm: operand {operand}")

    def special(self, name: str) -> Expr:
        what, _, axis = name.partition(".")
        if what in _GRID:
            (found,) = self.b.op(_GRID[what], (), (t.I32,), {"axis": enum_attr(PROGRAM_AXES[axis])})
        else:
            properties, type_ = read_register(name)
            (found,) = self.b.op("tt.elementwise_inline_asm", (), (type_,), properties)
        return Expr(self.b, self.b.splat(found, self.shape))

    def write(self, operand: Operand, value: Expr, type_: str, guard: Expr | None) -> None:
        match operand:
            case Register(name):
                width = WIDTHS[self.declared[name]]
                if width > value.width:  # cvt extends by the destination's sign
                    value = value.bits().resized(INTEGERS[width], type_[0] == "s")
                if guard is not None:
                    old = self.read(name)
                    if t.elem(old.type) != t.elem(value.type):
                        old, value = old.bits(), value.bits()
                    value = where(guard, value, old)
                self.registers[name] = value
            case Vector(elements):
                bits = value.bits()
                width = WIDTHS[type_] // len(elements)
                for index, element in enumerate(elements):
                    part = bits.lshr(width * index) if index else bits
                    part = part.cast("arith.trunci", INTEGERS[width]) if len(elements) > 1 else part
                    self.write(element, part, f"b{width}", guard)
            case Sink():
                pass

    def step(self, d: Step) -> None:
        if isinstance(d, GridControl):  # a guard makes no difference: launches run one after the other
            self.b.op(f"tt.grid_dependency_{d.kind}", (), ())
            return
        guard = None
        if d.guard is not None:
            guard = self.read(d.guard.name)
            guard = ~guard if d.guard.negated else guard
        if isinstance(d, Access):
            values = expand_accesses.access(d, self.source(d.address, "b64"), self.values(d), guard, self.volatile)
            for operand, value in zip(d.results, values, strict=False):
                self.write(operand, value, d.type, guard)
            return
        sources = [self.source(operand, type_) for operand, type_ in zip(d.sources, d.source_types, strict=True)]
        results = self.compute(d, sources, guard)
        for operand, type_ in zip(d.results, d.result_types, strict=True):
            if isinstance(operand, Pair):
                self.write(operand.first, results[0], type_, guard)
                self.write(operand.second, results[1], type_, guard)
            else:
                self.write(operand, results[0], type_, guard)

    def values(self, d: Access) -> list[Expr]:
        """Returns what an access writes, as integers or as the floats that it adds."""
        found = [self.source(operand, d.type) for operand in d.sources]
        return found if d.operation == "add" and d.type in FLOAT_TYPES else [value.bits() for value in found]

    def compute(self, d: Decoded, sources: list[Expr], guard: Expr | None) -> list[Expr]:
        if d.opcode in ("addc", "subc", "madc") or "cc" in d.flags:
            return [self.chained(d, sources, guard)]
        if d.opcode in ("set", "setp"):
            return self.compared(d, sources)
        if d.opcode == "cvt":
            return [expand_integers.pack(d, sources) if "pack" in d.flags else expand_floats.convert(d, sources)]
        if d.opcode == "testp":
            return [expand_floats.test(d, sources)]
        if d.types and d.types[0] in FLOATS and d.opcode in expand_floats.HANDLERS:
            return [expand_floats.HANDLERS[d.opcode](d, sources)]
        return [expand_integers.HANDLERS[d.opcode](d, sources)]

    def chained(self, d: Decoded, sources: list[Expr], guard: Expr | None) -> Expr:
        old = self.registers.get(_CARRY) or self.constant(False, t.I1)
        takes = d.opcode in ("addc", "subc", "madc")
        result, carry = expand_integers.chained(d, sources, old if takes else self.constant(False, t.I1))
        if "cc" in d.flags:
            self.registers[_CARRY] = carry if guard is None else where(guard, carry, old)
        return result

    def compared(self, d: Decoded, sources: list[Expr]) -> list[Expr]:
        name = d.choice(*COMPARISONS)
        type_ = d.types[-1]
        combined = [self.combined(d, part, sources) for part in self.relations(d, type_, sources, name)]
        if d.opcode == "setp":
            return combined
        target = d.types[0]
        if target.endswith("x2"):
            one = {"f16x2": 0x3C00, "bf16x2": 0x3F80}[target]
            return [expand_integers.from_halves(*[where(part, one, self.constant(0, t.I16)) for part in combined])]
        one = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}.get(target, -1)
        return [where(combined[0], one, self.constant(0, INTEGERS[WIDTHS[target]]))]

    def relations(self, d: Decoded, type_: str, sources: list[Expr], name: str) -> list[Expr]:
        """Returns the comparison, and for setp its opposite; for packed types the low and the high
        comparison."""
        a, b = sources[:2]
        if type_.endswith("x2"):
            single = type_[:-2]
            parts = zip(expand_integers.halves(a), expand_integers.halves(b), strict=True)
            return [
                expand_floats.compare(d, single, x.reinterpret(FLOAT_TYPES[single]), y.reinterpret(FLOAT_TYPES[single]), name)
                for x, y in parts
            ]
        if type_ in FLOATS:
            found = expand_floats.compare(d, type_, a, b, name)
        else:
            found = expand_integers.relation(d, type_, a, b, name)
        return [found, ~found] if d.opcode == "setp" else [found]

    def combined(self, d: Decoded, found: Expr, sources: list[Expr]) -> Expr:
        if len(sources) < 3:
            return found
        match d.choice("and", "or", "xor"):
            case "and":
                return found & sources[2]
            case "or":
                return found | sources[2]
        return found ^ sources[2]


def _view(value: Expr, type_: str) -> Expr:
    """Reads a register as the type: an integer of its width, or a float."""
    width = WIDTHS[type_]
    if type_ in FLOAT_TYPES and t.elem(value.type) == FLOAT_TYPES[type_]:
        return value
    bits = value.bits()
    if bits.width > width:
        bits = bits.cast("arith.trunci", INTEGERS[width])
    return bits.reinterpret(FLOAT_TYPES[type_]) if type_ in FLOAT_TYPES else bits


@dataclass(frozen=True)
class ExpandAssembly(FunctionPass):
    """Writes inline PTX as arithmetic."""

    name = "expand-assembly"

    def run(self, function: FuncOp) -> None:
        expand_inline_asm(function)
