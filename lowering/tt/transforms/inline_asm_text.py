"""Parses inline assembly, and binds it by its constraints to the registers of one group of elements.

`$0`, `$1`, … are the results in order and then the operands in order, each with one number per register. Constraints are
LLVM's: `=r` a result, `=&r` likewise, `r` an operand, `0` an operand in the register of result 0, `~{…}` a clobber (ignored).
"""

from __future__ import annotations

import re
from functools import lru_cache

from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError, UserError
from ...ptx.effects import Access, GridControl, decode_effect
from ...ptx.instructions import Decoded, decode
from ...ptx.parser import parse_body
from ...ptx.syntax import Directive, Instruction, Label, Scope, Statement

REGISTER_OF = {
    "b": "pred", "c": "b16", "h": "b16", "r": "b32", "f": "b32", "l": "b64", "N": "b64", "d": "b64", "q": "b128", "n": "b64",
    "i": "b64",
}  # fmt: skip
"""Constraint letter → type of the register. Immediates (`n`, `i`) take the width of the operand that they
stand for."""

BITS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128}
MAX_ASM = 1 << 16

Step = Decoded | Access | GridControl
"""An instruction that inline assembly may have."""
_REFERENCE = re.compile(r"\$\$|%%|\$(\d{1,4})(?!\d)|\$\{(\d{1,4})\}|\$")


@dataclass(frozen=True, slots=True)
class Slot:
    """One register of a result or operand: `count` elements of `bits` each, the first in the lowest bits."""

    name: str
    type: str
    count: int
    bits: int


@dataclass(frozen=True, slots=True)
class AsmProgram:
    """The assembly of one operation.

    `results` and `operands` list the registers of each; `registers` holds the type of every register, the bound ones included.
    """

    results: tuple[tuple[Slot, ...], ...]
    operands: tuple[tuple[Slot, ...], ...]
    statements: tuple[Statement, ...]
    registers: dict[str, str]

    def instructions(self) -> list[Step]:
        """Return the instructions in order. Raises `UnsupportedError` for labels, directives, and
        instructions other than arithmetic, accesses to global memory and the order of launches."""
        return [_decoded(instruction, self.registers) for instruction in _straight(self.statements)]

    @property
    def accesses_memory(self) -> bool:
        """Whether an instruction loads, stores or updates memory."""
        return any(
            isinstance(each, Instruction) and each.opcode in ("ld", "st", "atom", "red") for each in _flat(self.statements)
        )


@lru_cache(maxsize=256)
def read_asm(
    text: str, constraints: str, result_bits: tuple[int, ...], operand_bits: tuple[int, ...], packed: int
) -> AsmProgram:
    """Parse the assembly and bind its operands.

    Args:
        text: the template.
        constraints: LLVM's constraint string.
        result_bits, operand_bits: width of the elements of each result and operand.
        packed: elements that one run handles.

    Raises `UserError` for texts, constraints and operands that do not fit. Unknown instructions are accepted.
    """
    if len(text) > MAX_ASM:
        raise UserError(f"the assembly has {len(text)} characters; at most {MAX_ASM} are read")
    shapes = [_split(bits, packed) for bits in (*result_bits, *operand_bits)]
    wanted = sum(count for count, _ in shapes)
    outputs = sum(count for count, _ in shapes[: len(result_bits)])
    letters = _letters(constraints, outputs, wanted - outputs)
    slots: list[tuple[Slot, ...]] = []
    registers: dict[str, str] = {}
    number = 0
    for bits, (count, elements) in zip((*result_bits, *operand_bits), shapes, strict=True):
        mine: list[Slot] = []
        for _ in range(count):
            mine.append(_slot(number, letters, elements, bits))
            registers[mine[-1].name] = mine[-1].type
            number += 1
        slots.append(tuple(mine))
    body = parse_body(_substituted(text, letters), registers)
    program = AsmProgram(
        tuple(slots[: len(result_bits)]), tuple(slots[len(result_bits) :]), body.statements, body.registers
    )
    for instruction in _flat(program.statements):
        if isinstance(instruction, Instruction):
            try:
                _decoded(instruction, program.registers)
            except UnsupportedError:  # refused only when it is run: it can be read and printed
                continue
    return program


def _decoded(instruction: Instruction, registers: dict[str, str]) -> Step:
    return decode_effect(instruction, registers) or decode(instruction, registers)


def _split(bits: int, packed: int) -> tuple[int, int]:
    """Return (registers, elements in each) of `packed` elements: below 32 bits they share a register."""
    elements = min(32 // bits, packed) if bits < 32 else 1
    return -(-packed // elements), elements


def _letters(constraints: str, outputs: int, inputs: int) -> list[str]:
    """Return one entry per register: a letter, or the number of the result that it is tied to."""
    found: list[str] = []
    seen_inputs = False
    for part in constraints.split(",") if constraints.strip() else []:
        constraint = part.strip()
        if constraint.startswith("~{") and constraint.endswith("}"):
            continue
        is_output = constraint.startswith("=")
        letter = constraint[1:].removeprefix("&") if is_output else constraint
        if is_output and seen_inputs:
            raise UserError(f"constraints {constraints!r}: result {constraint!r} stands after an operand")
        seen_inputs |= not is_output
        tied = not is_output and letter.isdecimal() and len(letter) < 5
        if not tied and (letter not in REGISTER_OF or (is_output and letter in "ni")):
            known = ", ".join(REGISTER_OF)
            raise UserError(
                f"constraints {constraints!r}: {constraint!r} is not known; registers: {known}, with '=' for results"
            )
        found.append(constraint if is_output else letter)
    results = sum(constraint.startswith("=") for constraint in found)
    if results != outputs or len(found) - results != inputs:
        raise UserError(
            f"constraints {constraints!r} name {results} results and {len(found) - results} operands; "
            f"the operation has {outputs} and {inputs} registers"
        )
    for constraint in found:
        if constraint.isdecimal() and int(constraint) >= outputs:
            raise UserError(f"constraints {constraints!r}: an operand is tied to result {constraint} of {outputs}")
    ties = [constraint for constraint in found if constraint.isdecimal()]
    if len(ties) != len(set(ties)):
        raise UserError(f"constraints {constraints!r}: two operands are tied to one result")
    return found


def _slot(number: int, letters: list[str], elements: int, bits: int) -> Slot:
    constraint = letters[number].lstrip("=").removeprefix("&")
    tied = letters[int(constraint)].lstrip("=").removeprefix("&") if constraint.isdecimal() else constraint
    type_ = REGISTER_OF[tied]
    if constraint in ("n", "i"):
        type_ = {1: "b32", 8: "b32", 16: "b32"}.get(bits, f"b{bits}")
    if bits * elements > BITS[type_]:
        raise UserError(
            f"operand ${number} holds {elements} element{'s' * (elements > 1)} of {bits} bits, "
            f"its constraint {letters[number]!r} a register of {BITS[type_]}"
        )
    return Slot(_spelled(number, letters), type_, elements, bits)


def _spelled(number: int, letters: list[str]) -> str:
    """Return the register behind `$number`; tied operands are spelled as their result."""
    constraint = letters[number]
    return f"%${constraint if constraint.isdecimal() else number}"


def _substituted(text: str, letters: list[str]) -> str:
    def replace(match: re.Match[str]) -> str:
        if match[0] in ("$$", "%%"):
            return match[0][0]
        digits = match[1] or match[2]
        if digits is not None and int(digits) < len(letters):
            return _spelled(int(digits), letters)
        line = text.count("\n", 0, match.start()) + 1
        if digits is None:
            raise UserError(f"PTX line {line}: '$' stands before the number of an operand; '$$' is the character itself")
        raise UserError(f"PTX line {line}: operand ${digits} of {len(letters)}")

    return _REFERENCE.sub(replace, text)


def _flat(statements: tuple[Statement, ...]) -> list[Statement]:
    found: list[Statement] = []
    for statement in statements:
        found += _flat(statement.statements) if isinstance(statement, Scope) else [statement]
    return found


def _straight(statements: tuple[Statement, ...]) -> list[Instruction]:
    found: list[Instruction] = []
    for statement in _flat(statements):
        match statement:
            case Instruction():
                found.append(statement)
            case Label(name, line):
                raise UnsupportedError(f"PTX line {line}: label {name}; inline assembly runs straight on, without branches")
            case Directive(names, line):
                raise UnsupportedError(f"PTX line {line}: directive {names[0]} in inline assembly")
    return found
