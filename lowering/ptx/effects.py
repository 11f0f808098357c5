"""Decodes the instructions that reach beyond the registers of inline assembly: accesses to global memory, the order of
launches, and the special registers that it may read.

What else has effects is refused (`instructions.REFUSED`).
Source: NVIDIA, "PTX ISA", "Data Movement and Conversion Instructions: ld, st", "Parallel Synchronization and Communication
Instructions: atom, red, griddepcontrol", "Special Registers".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError, UserError
from .syntax import Address, Float, Instruction, Integer, Operand, Register, Sink, Vector

CLOCKS: dict[str, str] = {
    "%globaltimer": "u64", "%clock64": "u64",
    "%globaltimer_lo": "u32", "%globaltimer_hi": "u32", "%clock": "u32", "%clock_hi": "u32",
}  # fmt: skip
"""The registers whose every read gives another number."""
READABLE: dict[str, str] = {
    **CLOCKS, "%smid": "u32", "%nsmid": "u32",
    **{f"%{name}.{axis}": "u32" for name in ("ctaid", "nctaid") for axis in "xyz"},
}  # fmt: skip
"""The special registers that inline assembly may read, and their types."""
_OF_THREADS = ("%tid", "%ntid", "%laneid", "%warpid", "%nwarpid", "%lanemask")

_TYPES = frozenset(f"{kind}{width}" for kind in "bus" for width in (8, 16, 32, 64)) | {"f32", "f64"}
_SCOPES = {"cta": "cta", "cluster": "gpu", "gpu": "gpu", "sys": "sys"}
_ORDERS = {
    "ld": ("weak", "volatile", "relaxed", "acquire"), "st": ("weak", "volatile", "relaxed", "release"),
    "atom": ("relaxed", "acquire", "release", "acq_rel"), "red": ("relaxed", "release"),
}  # fmt: skip
_CACHES = {"ld": ("ca", "cg", "cs", "lu", "cv"), "st": ("wb", "cg", "cs", "wt")}
_VECTORS = {"v2": 2, "v4": 4}
_EVICTIONS = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")
_PREFETCHES = ("L2::64B", "L2::128B", "L2::256B")
_OTHER_MEMORY = ("shared", "local", "param", "const", "shared::cta", "shared::cluster", "param::entry", "param::func")
_COMBINED = {
    "add": ("u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"), "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"), "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
    "exch": ("b32", "b64"), "cas": ("b16", "b32", "b64"),
}  # fmt: skip
"""Operation of atom and red → types."""


@dataclass(frozen=True, slots=True)
class Access:
    """A load, store or read-modify-write of global memory, of `count` neighbours of one type.

    order: "weak", or that of the memory model; what is volatile is relaxed in the scope of the system, as PTX has it.
    operation: of atom and red. results, sources: one operand per element; cas has two sources, what is expected and what is
    written.
    """

    opcode: str
    type: str
    count: int
    order: str
    scope: str
    operation: str
    cache: str
    eviction: str
    address: Operand
    offset: int
    results: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    guard: Register | None
    line: int
    spelling: str

    @property
    def reads(self) -> bool:
        return self.opcode != "st"


@dataclass(frozen=True, slots=True)
class GridControl:
    """griddepcontrol: the order of launches that may overlap. kind: "wait" or "launch_dependents"."""

    kind: str
    guard: Register | None
    line: int
    spelling: str


def check_readable(name: str, width: int, where: str) -> None:
    """Checks that inline assembly may read `width` bits of a special register. Raises `UnsupportedError` or `UserError`."""
    known = READABLE.get(name)
    if known is None:
        if name.startswith(_OF_THREADS):
            why = "tells the threads of a GPU's block apart, and which of them computes an element is not defined here"
            fix = "take positions from tl.arange and tl.program_id"
        else:
            why, fix = "is not known to inline assembly", "pass its value as an operand"
        raise UnsupportedError(
            f"{where}: the special register {name} {why}; fix: {fix}. What may be read: {', '.join(READABLE)}"
        )
    if int(known[1:]) < width:
        raise UserError(f"{where}: {name} has {known[1:]} bits, expected {width}")


def decode_effect(instruction: Instruction, registers: Mapping[str, str]) -> Access | GridControl | None:
    """Decodes ld, st, atom, red and griddepcontrol; returns None for any other instruction.

    Raises:
        UnsupportedError: a form that inline assembly may not have, such as an access to shared memory.
        UserError: the operands do not fit.
    """
    where = f"PTX line {instruction.line}: {instruction.spelling}"
    match instruction.opcode:
        case "griddepcontrol":
            if instruction.modifiers not in (("wait",), ("launch_dependents",)) or instruction.operands:
                raise UserError(f"{where}: expected griddepcontrol.wait or griddepcontrol.launch_dependents, without operands")
            return GridControl(instruction.modifiers[0], instruction.guard, instruction.line, instruction.spelling)
        case "ld" | "st" | "atom" | "red":
            return _access(instruction, registers, where)
    return None


class _Modifiers:
    """The modifiers of one access, taken one kind after the other in any order."""

    def __init__(self, instruction: Instruction, where: str) -> None:
        self.left = list(instruction.modifiers)
        self.where = where

    def take(self, choices: Sequence[str], otherwise: str = "") -> str:
        found = [modifier for modifier in self.left if modifier in choices]
        if len(found) > 1:
            raise UserError(f"{self.where}: .{found[0]} and .{found[1]} exclude each other")
        if found:
            self.left.remove(found[0])
        return found[0] if found else otherwise


def _access(instruction: Instruction, registers: Mapping[str, str], where: str) -> Access:
    opcode = instruction.opcode
    modifiers = _Modifiers(instruction, where)
    other = modifiers.take(_OTHER_MEMORY)
    if other:
        raise UnsupportedError(
            f"{where}: reaches for .{other} memory, which a program has no address of; fix: access global memory, "
            "or keep the value in a block"
        )
    modifiers.take(("global",))
    is_atomic = opcode in ("atom", "red")
    operation = modifiers.take(tuple(_COMBINED)) if is_atomic else ""
    type_ = modifiers.take(_COMBINED.get(operation, ()) if is_atomic else tuple(_TYPES))
    orders = _ORDERS[opcode]
    order = modifiers.take(orders, orders[0])
    scope = _SCOPES[modifiers.take(tuple(_SCOPES), "gpu")]
    cache = modifiers.take(_CACHES.get(opcode, ()))
    modifiers.take(("nc",) if opcode == "ld" else ("noftz",) if type_ in ("f16", "bf16") else ())
    eviction = modifiers.take([f"L1::{name}" for name in _EVICTIONS])
    modifiers.take([f"L2::{name}" for name in _EVICTIONS])
    modifiers.take(_PREFETCHES)
    count = _VECTORS.get(modifiers.take(() if is_atomic else tuple(_VECTORS)), 1)
    if modifiers.left or not type_:
        types = ", ".join(sorted(_COMBINED.get(operation, _COMBINED) if is_atomic else _TYPES))
        wrong = f".{modifiers.left[0]} is not known here" if modifiers.left else "no type is named"
        raise UnsupportedError(f"{where}: {wrong}; inline assembly may {opcode} global memory as {types}")
    if order == "volatile" or cache == "cv":  # both ask memory itself, in whatever order
        order, scope, cache = "relaxed" if order in ("weak", "volatile") else order, "sys", ""
    operands = list(instruction.operands)
    wanted = {"ld": 2, "st": 2, "atom": 3, "red": 2}[opcode] + (operation == "cas")
    if len(operands) != wanted or (operation == "cas" and opcode == "red"):
        raise UserError(f"{where}: {len(operands)} operands, expected {wanted}")
    results = _elements(operands.pop(0), count, where) if opcode in ("ld", "atom") else ()
    address, offset = _address(operands.pop(0), registers, where)
    sources = _elements(operands[0], count, where) if opcode == "st" else tuple(operands)
    for operand in results:
        _check(operand, type_, registers, where, (Sink, Register), exact=opcode == "atom")
    for operand in sources:
        _check(operand, type_, registers, where, (Register, Integer, Float), exact=opcode != "st")
    if operation == "cas" and instruction.guard is not None:
        raise UnsupportedError(f"{where}: cas under a guard; fix: branch around the assembly in the kernel")
    return Access(
        opcode, type_, count, order, scope, operation, cache if cache != "lu" else "",
        eviction.removeprefix("L1::") if eviction in ("L1::evict_first", "L1::evict_last") else "",
        address, offset, results, sources, instruction.guard, instruction.line, instruction.spelling,
    )  # fmt: skip


def _elements(operand: Operand, count: int, where: str) -> tuple[Operand, ...]:
    found = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(found) != count:
        raise UserError(f"{where}: {len(found)} registers, expected {count}")
    return found


def _address(operand: Operand, registers: Mapping[str, str], where: str) -> tuple[Operand, int]:
    if not isinstance(operand, Address) or operand.parts:
        raise UserError(f"{where}: expected an address [register + offset]")
    match operand.base:
        case Register(name, False) if registers[name] == "b64" or registers[name] in ("u64", "s64"):
            return operand.base, operand.offset
        case Register(name):
            raise UserError(
                f"{where}: the address {_named(name)} is {registers[name]}, expected 64 bits; fix: pass it by an operand with "
                'the constraint "l"'
            )
    raise UnsupportedError(f"{where}: an address that is no register; fix: pass a pointer as an operand")


def _named(register: str) -> str:
    return register.split("#")[0].replace("%$", "$")


def _check(
    operand: Operand, type_: str, registers: Mapping[str, str], where: str, kinds: tuple[type, ...], exact: bool
) -> None:
    """Checks an element. A register of a load or store may be wider than what is moved."""
    width = int(type_.lstrip("bfsu"))
    if not isinstance(operand, kinds):
        raise UserError(f"{where}: expected a register of {width} bits as an element")
    if isinstance(operand, Register):
        declared = registers[operand.name]
        has = 1 if declared == "pred" else int(declared.lstrip("bfsu").split("x")[0])
        if has < width or (exact and has != width) or (has != width and type_[0] == "f"):
            raise UserError(f"{where}: register {_named(operand.name)} is {declared}, expected {width} bits ({type_})")


__all__ = ["CLOCKS", "READABLE", "Access", "GridControl", "check_readable", "decode_effect"]
