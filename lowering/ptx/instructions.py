"""The table of PTX's arithmetic instructions: their types, modifiers and operands.

`decode` checks an instruction against the table and finds its form; what it computes is defined by the interpreter
(`evaluate.py`) and by the translation into block operations.
Source: NVIDIA, "PTX ISA", chapter "Instruction Set".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ...promotion.dataclass import dataclass
from ...promotion.errors import UnsupportedError, UserError, close_names
from .effects import check_readable
from .syntax import Float, Instruction, Integer, Name, Operand, Pair, Register, Sink, Special, Vector

WIDTHS: dict[str, int] = {
    "pred": 1, "b8": 8, "u8": 8, "s8": 8, "b16": 16, "u16": 16, "s16": 16, "f16": 16, "bf16": 16, "b32": 32, "u32": 32,
    "s32": 32, "f32": 32, "tf32": 32, "b64": 64, "u64": 64, "s64": 64, "f64": 64, "b128": 128, "f16x2": 32, "bf16x2": 32,
    "f32x2": 64, "u16x2": 32, "s16x2": 32, "e4m3x2": 16, "e5m2x2": 16,
}  # fmt: skip
FLOATS = frozenset(["f16", "bf16", "f32", "f64", "tf32", "f16x2", "bf16x2", "f32x2", "e4m3x2", "e5m2x2"])


@dataclass(frozen=True, slots=True)
class Form:
    """One row of the table: the choices for every type suffix, groups of exclusive modifiers, and the operands.

    Operands: `T`, `U`, `V` are the types of the suffixes, `W` twice the width of `T`, other words are types; `pred|` may be a
    pair of predicates, `pred?` may be left out. Destinations stand before `=`.
    """

    types: tuple[tuple[str, ...], ...]
    groups: tuple[tuple[str, ...], ...]
    required: frozenset[int]
    results: tuple[str, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decoded:
    """An instruction that the table holds. `result_types` and `source_types` belong to `results` and `sources`."""

    opcode: str
    types: tuple[str, ...]
    flags: frozenset[str]
    results: tuple[Operand, ...]
    result_types: tuple[str, ...]
    sources: tuple[Operand, ...]
    source_types: tuple[str, ...]
    guard: Register | None
    line: int
    spelling: str

    def choice(self, *options: str) -> str:
        """Returns the first of these modifiers that the instruction has; "" for none."""
        return next((option for option in options if option in self.flags), "")


def _form(types: str, groups: str, operands: str) -> Form:
    results, sources = operands.split("=")
    split = [group.rstrip("!").split("|") for group in groups.split()]
    required = frozenset(index for index, group in enumerate(groups.split()) if group.endswith("!"))
    suffixes = tuple(tuple(choice.split()) for choice in types.split(",")) if types else ()
    return Form(suffixes, tuple(map(tuple, split)), required, tuple(results.split()), tuple(sources.split()))


_INT = "u16 u32 u64 s16 s32 s64"
_ROUND = "rn|rz|rm|rp"
COMPARISONS = (
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan",
)  # fmt: skip
_SIGNED_TESTS = "eq|ne|lt|le|gt|ge! and|or|xor"
_UNSIGNED_TESTS = "eq|ne|lt|le|gt|ge|lo|ls|hi|hs! and|or|xor"
_FLOAT_TESTS = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan! and|or|xor"
_COMPARED: tuple[tuple[str, str], ...] = (
    ("b16 b32 b64", "eq|ne! and|or|xor"), ("s16 s32 s64", _SIGNED_TESTS), ("u16 u32 u64", _UNSIGNED_TESTS),
    ("f32 f16", _FLOAT_TESTS + " ftz"), ("f64 bf16", _FLOAT_TESTS),
)  # fmt: skip
_VIDEO4 = "u32 s32,u32 s32,u32 s32"

_ROWS: tuple[tuple[str, str, str, str], ...] = (
    # integers
    ("add sub", _INT, "", "T = T T"),
    ("add sub", "s32", "sat!", "T = T T"),
    ("add min max", "u16x2 s16x2", "", "T = T T"),
    ("min max", "s16x2", "relu!", "T = T T"),
    ("add sub", "u32 s32 u64 s64", "cc!", "T = T T"),
    ("addc subc", "u32 s32 u64 s64", "cc", "T = T T"),
    ("mul", _INT, "lo|hi!", "T = T T"),
    ("mul", "u16 u32 s16 s32", "wide!", "W = T T"),
    ("mad", _INT, "lo|hi!", "T = T T T"),
    ("mad", "u16 u32 s16 s32", "wide!", "W = T T W"),
    ("mad", "s32", "hi! sat!", "T = T T T"),
    ("mad", "u32 s32 u64 s64", "lo|hi! cc!", "T = T T T"),
    ("madc", "u32 s32 u64 s64", "lo|hi! cc", "T = T T T"),
    ("mul24", "u32 s32", "lo|hi!", "T = T T"),
    ("mad24", "u32 s32", "lo|hi!", "T = T T T"),
    ("mad24", "s32", "hi! sat!", "T = T T T"),
    ("sad", _INT, "", "T = T T T"),
    ("div rem", _INT, "", "T = T T"),
    ("abs neg", "s16 s32 s64", "", "T = T"),
    ("min max", _INT, "", "T = T T"),
    ("min max", "s32", "relu!", "T = T T"),
    ("popc clz", "b32 b64", "", "u32 = T"),
    ("bfind", "u32 u64 s32 s64", "shiftamt", "u32 = T"),
    ("brev", "b32 b64", "", "T = T"),
    ("bfe", "u32 u64 s32 s64", "", "T = T u32 u32"),
    ("bfi", "b32 b64", "", "T = T T u32 u32"),
    ("bmsk", "b32", "clamp|wrap!", "T = T T"),
    ("szext", "u32 s32", "clamp|wrap!", "T = T u32"),
    ("dp4a", "u32 s32,u32 s32", "", "b32 = b32 b32 b32"),
    ("dp2a", "u32 s32,u32 s32", "lo|hi!", "b32 = b32 b32 b32"),
    # logic and moves
    ("and or xor", "pred b16 b32 b64", "", "T = T T"),
    ("not", "pred b16 b32 b64", "", "T = T"),
    ("cnot", "b16 b32 b64", "", "T = T"),
    ("lop3", "b32", "", "T = T T T u32"),
    ("shl", "b16 b32 b64", "", "T = T u32"),
    ("shr", "b16 b32 b64 u16 u32 u64 s16 s32 s64", "", "T = T u32"),
    ("shf", "b32", "l|r! wrap|clamp!", "T = T T u32"),
    ("prmt", "b32", "f4e|b4e|rc8|ecl|ecr|rc16", "T = T T u32"),
    ("mov", "pred b16 b32 b64 u16 u32 u64 s16 s32 s64 f16 f32 f64", "", "T = T"),
    # predicates
    *(("setp", types, groups, "pred| = T T pred?") for types, groups in _COMPARED),
    ("setp", "f16x2", _FLOAT_TESTS + " ftz", "pred| = T T pred?"),
    ("setp", "bf16x2", _FLOAT_TESTS, "pred| = T T pred?"),
    *(("set", "u32 s32 f32 u16 s16 f16 bf16," + types, groups, "T = U U pred?") for types, groups in _COMPARED),
    ("set", "f16x2,f16x2", _FLOAT_TESTS + " ftz", "T = U U pred?"),
    ("set", "bf16x2,bf16x2", _FLOAT_TESTS, "T = U U pred?"),
    ("selp", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64", "", "T = T T pred"),
    ("slct", "b16 b32 b64 u16 u32 u64 s16 s32 s64 f32 f64,s32 f32", "ftz", "T = T T U"),
    ("testp", "f32 f64", "finite|infinite|number|notanumber|normal|subnormal!", "pred = T"),
    # floats
    ("add sub mul", "f32", _ROUND + " ftz sat", "T = T T"),
    ("add sub mul", "f64", _ROUND, "T = T T"),
    ("add sub mul", "f16 f16x2", "rn ftz sat", "T = T T"),
    ("add sub mul", "bf16 bf16x2", "rn", "T = T T"),
    ("add sub mul", "f32x2", _ROUND + " ftz", "T = T T"),
    ("fma", "f32", _ROUND + "! ftz sat", "T = T T T"),
    ("fma", "f64", _ROUND + "!", "T = T T T"),
    ("fma", "f32x2", _ROUND + "! ftz", "T = T T T"),
    ("fma", "f16 f16x2", "rn! ftz sat|relu", "T = T T T"),
    ("fma", "bf16 bf16x2", "rn! relu", "T = T T T"),
    ("mad", "f32", _ROUND + " ftz sat", "T = T T T"),
    ("mad", "f64", _ROUND + "!", "T = T T T"),
    ("div", "f32", "approx|full|rn|rz|rm|rp! ftz", "T = T T"),
    ("div", "f64", _ROUND + "!", "T = T T"),
    ("rcp sqrt", "f32", "approx|rn|rz|rm|rp! ftz", "T = T"),
    ("rcp sqrt", "f64", _ROUND + "!", "T = T"),
    ("rcp rsqrt", "f64", "approx! ftz!", "T = T"),
    ("rsqrt", "f32 f64", "approx! ftz", "T = T"),
    ("sin cos lg2", "f32", "approx! ftz", "T = T"),
    ("ex2", "f32 f16 f16x2", "approx! ftz", "T = T"),
    ("ex2", "bf16 bf16x2", "approx! ftz!", "T = T"),
    ("tanh", "f32 f16 f16x2 bf16 bf16x2", "approx!", "T = T"),
    ("abs neg", "f32 f16 f16x2", "ftz", "T = T"),
    ("abs neg", "f64 bf16 bf16x2", "", "T = T"),
    ("min max", "f32 f16 f16x2", "ftz NaN", "T = T T"),
    ("min max", "f32 f16 f16x2", "ftz NaN xorsign! abs!", "T = T T"),
    ("min max", "bf16 bf16x2", "NaN", "T = T T"),
    ("min max", "bf16 bf16x2", "NaN xorsign! abs!", "T = T T"),
    ("min max", "f64", "", "T = T T"),
    ("copysign", "f32 f64", "", "T = T T"),
    # four and two packed integers
    ("vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4", _VIDEO4, "sat|add", "b32 = b32 b32 b32"),
    ("vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2", _VIDEO4, "sat|add", "b32 = b32 b32 b32"),
)  # fmt: skip

_INT_CVT = "u8 u16 u32 u64 s8 s16 s32 s64"
_CVT: tuple[tuple[str, str, str], ...] = (
    (_INT_CVT + "," + _INT_CVT, "sat", "T = U"),
    (_INT_CVT + ",f16 bf16 f32 f64", "rni|rzi|rmi|rpi! ftz sat", "T = U"),
    ("f16 bf16 f32 f64," + _INT_CVT, "rn|rz|rm|rp! sat", "T = U"),
    ("f16,f16", "rni|rzi|rmi|rpi sat", "T = U"),
    ("bf16,bf16", "rni|rzi|rmi|rpi", "T = U"),
    ("f32,f32", "rni|rzi|rmi|rpi ftz sat", "T = U"),
    ("f64,f64", "rni|rzi|rmi|rpi sat", "T = U"),
    ("f32,f16 bf16", "ftz sat", "T = U"),
    ("f64,f16 bf16 f32", "ftz sat", "T = U"),
    ("f16 bf16,f32", "rn|rz|rm|rp! ftz sat|satfinite relu", "T = U"),
    ("f16 bf16,f64", "rn|rz|rm|rp! sat", "T = U"),
    ("f16,bf16", "rn|rz|rm|rp! sat", "T = U"),
    ("bf16,f16", "rn|rz|rm|rp sat", "T = U"),
    ("f32,f64", "rn|rz|rm|rp! ftz sat", "T = U"),
    ("tf32,f32", "rn|rz|rna! relu satfinite", "T = U"),
    ("f16x2 bf16x2,f32", "rn|rz! relu satfinite", "T = U U"),
    ("e4m3x2 e5m2x2,f32", "rn! satfinite! relu", "T = U U"),
    ("e4m3x2 e5m2x2,f16x2", "rn! satfinite! relu", "T = U"),
    ("f16x2,e4m3x2 e5m2x2", "rn! relu", "T = U"),
)  # fmt: skip

_PACK = ("u16 s16 u8 s8,s32", "pack! sat!", "b32 = U U"), ("u8 s8,s32,b32", "pack! sat!", "b32 = U U b32")

FORMS: dict[str, tuple[Form, ...]] = {}
for _names, _types, _groups, _operands in _ROWS:
    for _name in _names.split():
        FORMS[_name] = (*FORMS.get(_name, ()), _form(_types, _groups, _operands))
FORMS["cvt"] = tuple(_form(*row) for row in (*_CVT, *_PACK))

MIXED: dict[str, tuple[Form, ...]] = {
    **dict.fromkeys(("add", "sub"), (_form("f32,f16 bf16", _ROUND + " sat", "T = U T"),)),
    "fma": (_form("f32,f16 bf16", _ROUND + "! sat", "T = U U T"),),
}
"""Forms that only kernels may hold: float32 arithmetic that widens 16-bit operands (PTX ISA 8.6, sm_100)."""

REFUSED: dict[str, str] = {
    **dict.fromkeys(["ld", "st", "ldu", "prefetch", "prefetchu", "cvta", "isspacep", "cp", "ldmatrix", "stmatrix"], "memory"),
    **dict.fromkeys(["atom", "red", "membar", "fence", "mbarrier", "tensormap"], "memory"),
    **dict.fromkeys(["bar", "barrier", "vote", "match", "activemask", "shfl", "redux", "elect", "mma", "wgmma", "wmma"],
                    "other threads"),
    **dict.fromkeys(["bra", "brx", "call", "ret", "exit", "trap", "brkpt", "nanosleep", "setmaxnreg"], "control"),
}  # fmt: skip
"""Instructions with effects or inputs beyond the registers of one thread, and what they access. Those that inline assembly may
have are decoded by `effects.py`."""


def decode(
    instruction: Instruction, registers: Mapping[str, str], specials: Mapping[str, str] | None = None
) -> Decoded:
    """Finds the form of an instruction and checks its operands.

    Args:
        registers: the type of every register.
        specials: in a kernel, the type of every special register; mov may then take the address of a symbol, too. None in
            inline assembly, which may read those of `effects.READABLE`.

    Raises:
        UnsupportedError: an instruction or a form that the table lacks, or that is not arithmetic.
        UserError: the operands do not fit.
    """
    forms = FORMS.get(instruction.opcode)
    where = f"PTX line {instruction.line}: {instruction.spelling}"
    if forms is None:
        kind = REFUSED.get(instruction.opcode)
        if kind is not None:
            raise UnsupportedError(
                f"{where}: reaches for {kind}; inline assembly computes with registers and accesses global memory only"
            )
        near = close_names(instruction.opcode, FORMS, 3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise UnsupportedError(f"{where}: no such instruction is known{hint}")
    types, flags, matching = _forms_of(instruction.opcode, instruction.modifiers, specials is not None)
    if not matching:
        known = sorted({" ".join(choices) for form in forms for choices in form.types})
        raise UnsupportedError(f"{where}: this combination of modifiers is not known; types: {'; '.join(known)}")
    counts = len(instruction.operands)
    for form in matching:
        least = len(form.results) + sum(not pattern.endswith("?") for pattern in form.sources)
        if least <= counts <= len(form.results) + len(form.sources):
            return _bind(instruction, form, types, flags, registers, where, specials)
    form = matching[0]
    raise UserError(f"{where}: {counts} operands, expected {len(form.results) + len(form.sources)}")


@lru_cache(maxsize=4096)
def _forms_of(
    opcode: str, modifiers: tuple[str, ...], in_kernel: bool
) -> tuple[tuple[str, ...], frozenset[str], tuple[Form, ...]]:
    """Splits the modifiers into types and flags, and returns them with the rows that they fit."""
    forms = (*FORMS[opcode], *(MIXED.get(opcode, ()) if in_kernel else ()))
    types = tuple(modifier for modifier in modifiers if modifier in WIDTHS)
    flags = [modifier for modifier in modifiers if modifier not in WIDTHS]
    return types, frozenset(flags), tuple(form for form in forms if _matches(form, types, flags))


def _matches(form: Form, types: tuple[str, ...], flags: list[str]) -> bool:
    if len(types) != len(form.types) or any(t not in choices for t, choices in zip(types, form.types, strict=True)):
        return False
    used: set[int] = set()
    for flag in flags:
        index = next((i for i, group in enumerate(form.groups) if flag in group), None)
        if index is None or index in used:
            return False
        used.add(index)
    return form.required <= used


def _bind(
    instruction: Instruction,
    form: Form,
    types: tuple[str, ...],
    flags: frozenset[str],
    registers: Mapping[str, str],
    where: str,
    specials: Mapping[str, str] | None,
) -> Decoded:
    names = dict(zip("TUV", types, strict=False))
    if types:
        names["W"] = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}.get(types[0], "")

    def type_of(pattern: str) -> str:
        plain = pattern.rstrip("|?")
        return names.get(plain, plain)

    first = len(form.results)
    results, sources = instruction.operands[:first], instruction.operands[first:]
    result_types = tuple(type_of(pattern) for pattern in form.results)
    source_types = tuple(type_of(pattern) for pattern in form.sources[: len(sources)])
    wide = instruction.opcode == "cvt"
    for operand, type_, pattern in zip(results, result_types, form.results, strict=True):
        pair = isinstance(operand, Pair)
        if pair and not pattern.endswith("|"):
            raise UserError(f"{where}: two destinations, expected one")
        for part in (operand.first, operand.second) if isinstance(operand, Pair) else (operand,):
            _check_destination(part, type_, registers, where, wide, instruction.opcode == "mov")
    for operand, type_ in zip(sources, source_types, strict=True):
        if specials is not None and _known_in_kernels(operand, type_, specials, where, instruction.opcode == "mov"):
            continue
        _check_source(operand, type_, registers, where, wide, instruction.opcode == "mov")
    if instruction.opcode in ("set", "setp") and bool(flags & {"and", "or", "xor"}) != (len(sources) == 3):
        raise UserError(f"{where}: a third source stands with .and, .or or .xor, and only there")
    if instruction.opcode == "mov" and isinstance(results[0], Vector) and isinstance(sources[0], Vector):
        raise UserError(f"{where}: a vector on both sides")
    return Decoded(
        instruction.opcode, types, flags, results, result_types, sources, source_types, instruction.guard,
        instruction.line, instruction.spelling,
    )  # fmt: skip


def _known_in_kernels(operand: Operand, type_: str, specials: Mapping[str, str], where: str, move: bool) -> bool:
    match operand:
        case Special(name):
            if name not in specials:
                raise UnsupportedError(f"{where}: the special register {name} is not known")
            if WIDTHS[specials[name]] < WIDTHS[type_]:
                raise UserError(f"{where}: {name} is {specials[name]}, expected {WIDTHS[type_]} bits ({type_})")
            return True
        case Name():
            return move and WIDTHS[type_] in (32, 64)
    return False


def _check_destination(
    operand: Operand, type_: str, registers: Mapping[str, str], where: str, wide: bool, vector: bool
) -> None:
    match operand:
        case Sink():
            return
        case Register(name, False):
            _check_width(name, type_, registers, where, wide)
        case Vector(elements) if vector:
            _check_vector(elements, type_, registers, where)
        case _:
            raise UserError(f"{where}: {describe(operand)} is no destination; expected a register")


def _check_source(
    operand: Operand, type_: str, registers: Mapping[str, str], where: str, wide: bool, vector: bool
) -> None:
    match operand:
        case Register(name, negated):
            if negated and type_ != "pred":
                raise UserError(f"{where}: !{name} is no predicate")
            _check_width(name, type_, registers, where, wide)
        case Integer():
            pass
        case Float(_, width):
            if type_ not in ("f32", "f64") and not (type_[0] == "b" and width == WIDTHS[type_]):
                raise UserError(f"{where}: a float literal for {type_}")
            if type_ == "f64" and width == 32:
                raise UserError(f"{where}: a 32-bit float literal for f64")
        case Vector(elements) if vector:
            _check_vector(elements, type_, registers, where)
        case Special(name):
            check_readable(name, WIDTHS[type_], where)
        case _:
            raise UserError(f"{where}: {describe(operand)} is no register of this text and no literal")


def _check_width(name: str, type_: str, registers: Mapping[str, str], where: str, wide: bool) -> None:
    declared = registers[name]
    has, needs = WIDTHS[declared], WIDTHS[type_]
    fits = has == needs if not wide or "pred" in (declared, type_) else has >= needs
    if not fits:
        raise UserError(f"{where}: register {name.split('#')[0]} is {declared}, expected {needs} bits ({type_})")


def _check_vector(elements: tuple[Operand, ...], type_: str, registers: Mapping[str, str], where: str) -> None:
    width = WIDTHS[type_]
    if len(elements) not in (1, 2, 4) or width // len(elements) not in (8, 16, 32, 64) or type_[0] != "b":
        raise UserError(f"{where}: {len(elements)} registers do not make {type_}")
    each = width // len(elements)
    for element in elements:
        match element:
            case Sink():
                continue
            case Register(name, False) if WIDTHS[registers[name]] == each:
                continue
        raise UserError(f"{where}: {describe(element)} in a vector, expected a register of {each} bits")


def describe(operand: Operand) -> str:
    """Describes an operand in words, for messages."""
    match operand:
        case Register(name):
            return f"register {name.split('#')[0]}"
        case Special(name):
            return f"special register {name}"
        case Integer(value):
            return f"literal {value}"
    return getattr(operand, "text", f"a {type(operand).__name__.lower()}")
