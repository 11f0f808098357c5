"""Replaces inline assembly by block operations.

Every register becomes a block with one element per group of `packed_element` elements; instructions become operations on such
blocks (`lowering.ptx.expand_*`). Operands are packed into registers, and results unpacked, by splits and joins of axes of
extent 2.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import or_

from xdsl.ir import Attribute, Operation

from .....promotion.errors import UnsupportedError
from ....ptx import expand_floats, expand_integers
from ....ptx.expand_floats import FLOAT_TYPES
from ....ptx.expand_integers import INTEGERS
from ....ptx.instructions import COMPARISONS, FLOATS, WIDTHS, Decoded
from ....ptx.syntax import Float, Integer, Operand, Pair, Register, Sink, Vector
from ... import types as t
from ...builder.block_builder import BlockBuilder
from ...dialect.external import ElementwiseInlineAsmOp, program_of
from ...dialect.functions import FuncOp
from ..expander import Expander, operations_named
from ..expression import Expr, where
from ..function_pass import FunctionPass
from ..inline_asm_text import AsmProgram, Slot

_CARRY = "CC.CF"


def expand_inline_asm(func: Operation) -> None:
    """Replaces the inline assembly of a function in place.

    Raises `UnsupportedError` for instructions that are not known or reach beyond the registers.
    """
    expander = Expander()
    for op in operations_named(func, "tt.elementwise_inline_asm"):
        assert isinstance(op, ElementwiseInlineAsmOp)
        types = [result.type for result in op.results]
        expander.replace(op, partial(_run, program_of(op), op.packed_element.value.data, types))


def _run(
    program: AsmProgram, packed: int, types: Sequence[Attribute], b: BlockBuilder, xs: Sequence[Expr]
) -> list[Expr]:
    shape, count = t.shape_of(types[0]), t.element_count(types[0])
    groups = shape if packed == 1 or not shape else (count // min(count, packed),)
    registers: dict[str, Expr] = {}
    for slots, x in zip(program.operands, xs, strict=True):
        columns = _columns(_bits_of(x), packed)
        for slot in slots:
            registers[slot.name] = _packed(columns[: slot.count], slot)
            columns = columns[slot.count :]
    machine = _Machine(registers, program.registers, b, groups)
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
            word = register.bits()
            bits = (word.lshr(index * slot.bits) if index else word).cast("arith.trunci", INTEGERS[slot.bits])
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
        self, registers: dict[str, Expr], declared: Mapping[str, str], b: BlockBuilder, shape: tuple[int, ...]
    ) -> None:
        self.registers = registers
        self.declared = declared
        self.b = b
        self.shape = shape

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
            case Float(word, width):
                if width == 64 and type_ == "f32":
                    return self.constant(struct.unpack("<d", word.to_bytes(8, "little"))[0], t.F32)
                return _view(self.constant(word, INTEGERS[width]), type_)
            case Vector(elements):
                width = WIDTHS[type_] // len(elements)
                total = self.constant(0, INTEGERS[WIDTHS[type_]])
                for index, element in enumerate(elements):
                    part = self.source(element, f"b{width}")
                    if len(elements) == 1:
                        return part
                    total = total | part.cast("arith.extui", INTEGERS[WIDTHS[type_]]).shl(width * index)
                return total
        raise UnsupportedError(f"tt.elementwise_inline_asm: operand {operand}")

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

    def step(self, d: Decoded) -> None:
        guard = None
        if d.guard is not None:
            guard = self.read(d.guard.name)
            guard = ~guard if d.guard.negated else guard
        sources = [self.source(operand, type_) for operand, type_ in zip(d.sources, d.source_types, strict=True)]
        results = self.compute(d, sources, guard)
        for operand, type_ in zip(d.results, d.result_types, strict=True):
            if isinstance(operand, Pair):
                self.write(operand.first, results[0], type_, guard)
                self.write(operand.second, results[1], type_, guard)
            else:
                self.write(operand, results[0], type_, guard)

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
