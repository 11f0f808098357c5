"""Classifies the operands of a tt.dot, and selects the instruction of a warp that takes them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from .....promotion.dataclass import dataclass
from .....promotion.dtype import float8_e4m3fn, float8_e5m2
from ....tt.facts import EXACT, ORDERED
from ...syntax import attributes, element_name, shape_of

STEP = 32
"""The extent of a fragment along k."""
NAMES = {dtype.names.mlir: dtype.names.ptx for dtype in (float8_e4m3fn, float8_e5m2)}
SPLIT = frozenset({"tf32x3", "bf16x3", "bf16x6"})
"""The precisions that take a float32 as the sum of two numbers."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """An mma.sync instruction.

    name: in LLVM.  shape: rows, columns and depth of what fragments hold.  bits: of operand elements there.
    register_type,
    accumulator: types of a word of an operand and of an accumulator register.  feeds: the number of instructions that
    take a pair of fragments, one after the other, each with elements of `feeds` times as many bits.
    """

    name: str
    shape: tuple[int, int, int]
    bits: int
    register_type: str
    accumulator: str
    feeds: int = 1


INSTRUCTIONS: dict[str, Instruction] = {
    "f16": Instruction("m16n8k16.row.col.f32.f32", (16, 8, 16), 16, "<2 x half>", "float"),
    "bf16": Instruction("m16n8k16.row.col.bf16", (16, 8, 16), 16, "i32", "float"),
    "tf32": Instruction("m16n8k8.row.col.tf32", (16, 8, 8), 32, "i32", "float"),
    "i8": Instruction("m16n8k32.row.col.s8", (16, 8, 32), 8, "i32", "i32"),
    "f8": Instruction("m16n8k16.row.col.f32.f32", (16, 8, STEP), 8, "<2 x half>", "float", 2),
    "f64": Instruction("m8n8k4.row.col.f64", (8, 8, 4), 64, "double", "double"),
}


def are_eight(op: Operation) -> bool:
    """Whether both operands of a tt.dot are 8-bit floats of the kinds that instructions take, in whole fragments."""
    elems = [element_name(operand.type) for operand in op.operands[:2]]
    return all(elem in NAMES for elem in elems) and shape_of(op.operands[0].type)[-1] % STEP == 0


def may_be_imprecise(op: Operation) -> bool:
    """Whether the text allows a sum over all of k in fewer bits than a float32 has."""
    return int(attributes(op).get("maxNumImpreciseAcc") or 0) >= shape_of(op.operands[0].type)[-1]


def precision_of(op: Operation) -> str:
    return str(attributes(op).get("inputPrecision") or "ieee")


def kind_of(op: Operation) -> str | None:
    """Returns the kind of operands for the instruction; None: each thread multiplies."""
    if ORDERED in op.attributes:
        return None
    elems, elem = [element_name(operand.type) for operand in op.operands[:2]], element_name(op.results[0].type)
    exact = attributes(op).get(EXACT)
    if exact in ("bf16", "tf32") and elems == ["f32", "f32"]:  # a text may state anything
        return str(exact)
    if are_eight(op):
        return "f8"
    if elems[0] != elems[1]:
        return "f16" if all(e.startswith("f8") for e in elems) else None
    if elems[0].startswith("f8"):
        return "f16"  # float16 holds all their numbers
    if elems[0] == "f32":
        return "tf32" if precision_of(op) in ("tf32", *SPLIT) else None
    return elems[0] if elems[0] in INSTRUCTIONS and (elems[0] != "i8" or elem == "i32") else None


def _fits(instruction: Instruction, sizes: Sequence[int]) -> bool:
    return all(size % tile == 0 for size, tile in zip(sizes, instruction.shape, strict=True))


def instruction_of(op: Operation, kind: str | None) -> Instruction | None:
    """Returns the instruction for operands of this kind; None: each thread multiplies."""
    found = INSTRUCTIONS.get(kind or "")
    sizes = (*shape_of(op.results[0].type)[-2:], shape_of(op.operands[0].type)[-1])
    return found if found is not None and _fits(found, sizes) else None
