"""Executes ldmatrix, stmatrix and mma.sync.

Source: PTX ISA, "Warp Level Matrix Instructions". One rule describes all fragments (g = lane / 4, q = lane % 4, E elements per
register, e = 0 … E-1 from the low bits): register r of A is row g + 8(r & 1) (with two row blocks), k = E q + e + 4 E (r >> 1);
register r of B is column g, k = E q + e + 4 E r; C and D number i are row g + 8 (i >> 1), column 2 q + (i & 1).

Products are exact and summed in float64, then rounded once; hardware does not specify the order, the rounding and the
alignment of the sum.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import DTypeLike

from ....lowering.ptx.syntax import Instruction, Operand, Vector
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.dtype import BY_PTX_NAME
from ....promotion.errors import UnsupportedError
from ..checks.findings import Fault
from ..core.binding import Binding
from ..core.blocks import Control
from ..core.control import collective
from ..core.modifiers import Modifiers
from ..core.types import Mask, number_type
from ..memory.access import Router, address_of
from ..memory.spaces import RANK_SHIFT, Space
from .floats import finish, from_bf16


def _registers(k: Binding, operand: Operand, count: int, what: str) -> tuple[Operand, ...]:
    elements = operand.elements if isinstance(operand, Vector) else (operand,)
    if len(elements) != count:
        raise k.refuse(operand, f"{count} registers for {what}")
    return elements


def _whole_warps(mask: Mask, lanes: int) -> Array:
    """Returns which warps execute; the caller has converged their lanes."""
    return np.arange(lanes // 32) if mask is None else np.flatnonzero(mask.reshape(-1, 32).any(1))


def _matrix_modifiers(i: Instruction) -> tuple[int, bool]:
    """Returns the number of matrices and whether they are transposed, for ldmatrix and stmatrix."""
    modifiers = Modifiers(i)
    modifiers.require("sync", "aligned", "m8n8", "b16")
    count = int(modifiers.choice(("x1", "x2", "x4"))[1:])
    transposed = modifiers.has("trans")
    modifiers.choice(("shared", "shared::cta"), "")
    modifiers.done()
    modifiers.operands(2)
    return count, transposed


def load_matrix(k: Binding, i: Instruction) -> Control:
    count, trans = _matrix_modifiers(i)
    targets = _registers(k, i.operands[0], count, "the matrices")
    outs = [k.destination(o, "b32") for o in targets]
    rows = _RowAccess(k, i, i.operands[1], count, False)
    lane = np.arange(32)
    if trans:
        row = 2 * (lane % 4)[:, None] + np.arange(2)
        column = np.repeat((lane // 4)[:, None], 2, axis=1)
    else:
        row = np.repeat((lane // 4)[:, None], 2, axis=1)
        column = 2 * (lane % 4)[:, None] + np.arange(2)

    flat = (row * 8 + column)[None] + 64 * np.arange(count)[:, None, None]  # matrices × lanes × 2 elements

    def step(mask: Mask) -> None:
        warps = _whole_warps(mask, k.lanes)
        matrices = rows.read(warps)  # warps × count × 8 rows × 8 elements
        found = matrices.reshape(warps.size, -1).take(flat, axis=1).view(np.uint32)[..., 0]
        for index, out in enumerate(outs):
            if mask is None:
                np.copyto(out, found[:, index].reshape(-1))
            else:
                out.reshape(-1, 32)[warps] = found[:, index]

    def shadow(mask: Mask) -> list[Array]:
        warps = _whole_warps(mask, k.lanes)
        known = rows.defined(warps)
        found = [np.zeros(k.lanes, np.bool_) for _ in outs]
        for index, bad in enumerate(found):
            pairs = np.asarray(known[:, index][:, row, column].all(-1))
            bad.reshape(-1, 32)[warps] = ~pairs
        return found

    k.shadowed(targets, shadow)
    return collective(k, i, step)


def store_matrix(k: Binding, i: Instruction) -> Control:
    count, trans = _matrix_modifiers(i)
    operands = _registers(k, i.operands[1], count, "the matrices")
    values = [k.full(o, "b32") for o in operands]
    undefined = [k.undefined(o) for o in operands]
    rows = _RowAccess(k, i, i.operands[0], count, True)
    lane = np.arange(32)
    across, down = 2 * (lane % 4), lane // 4

    def spread(halves: list[Array], dtype: DTypeLike) -> Array:
        """Arranges elements, per register (warps, 32 lanes, 2 halves), as matrices."""
        found = np.empty((halves[0].shape[0], count, 8, 8), dtype)
        for index, part in enumerate(halves):
            for e in range(2):
                offset = (across + e, down) if trans else (down, across + e)
                found[:, index, offset[0], offset[1]] = part[:, :, e]
        return found

    def step(mask: Mask) -> None:
        warps = _whole_warps(mask, k.lanes)
        loaded = [np.ascontiguousarray(value()).reshape(-1, 32, 1)[warps] for value in values]
        defined = None
        if k.watch is not None:
            halves = np.array([3, 12], np.uint8)
            defined = spread([(bad().reshape(-1, 32, 1)[warps] & halves) == 0 for bad in undefined], np.bool_)
        rows.write(warps, spread([each.view(np.uint16) for each in loaded], np.uint16), defined)

    return collective(k, i, step)


class _RowAccess:
    """Accesses rows of 16 bytes: lanes 8 m … 8 m + 7 of a warp hold the addresses of the rows of matrix m."""

    def __init__(self, k: Binding, i: Instruction, operand: Operand, count: int, write: bool) -> None:
        values: list[Operand] = []
        self.k, self.count, self.writing = k, count, write
        self.address = address_of(k, operand)
        generic = not {"shared", "shared::cta"} & set(i.modifiers)
        self.router = Router(k, "" if generic else "shared")
        self.watch = k.watcher(operand, values, 16, write)

    def offsets(self, warps: Array) -> tuple[Space, Array, Array]:
        lanes = (warps[:, None] * 32 + np.arange(8 * self.count)).reshape(-1)
        address = self.address(None)[lanes]
        parts = list(self.router.parts(address, lanes))
        if len(parts) != 1 or parts[0][0] is not self.k.machine.cta.shared:
            raise Fault("bounds", "a matrix row outside the block's shared memory", lanes[:1])
        space, _, start, _ = parts[0]
        offset = space.offsets(start, 16, lanes, self.writing, self.router.site)
        if self.watch is not None:
            self.watch(space, offset, lanes)
        return space, offset, lanes

    def defined(self, warps: Array) -> Array:
        """Returns which elements are defined, in the shape of `read`."""
        lanes = (warps[:, None] * 32 + np.arange(8 * self.count)).reshape(-1)
        shared = self.k.machine.cta.shared
        offset = self.address(None)[lanes].astype(np.int64) & ((1 << RANK_SHIFT) - 1)
        if shared.defined is None or offset.max() + 16 > shared.octets.size:
            return np.ones((warps.size, self.count, 8, 8), np.bool_)
        octets = shared.defined[offset[:, None] + np.arange(16)].reshape(warps.size, self.count, 8, 8, 2)
        return np.asarray(octets.all(-1))

    def read(self, warps: Array) -> Array:
        space, offset, _ = self.offsets(warps)
        found = space.view(np.dtype(np.uint16), 8)[offset >> np.uint64(4)]
        return np.asarray(found).reshape(warps.size, self.count, 8, 8)

    def write(self, warps: Array, matrices: Array, defined: Array | None) -> None:
        space, offset, _ = self.offsets(warps)
        space.view(np.dtype(np.uint16), 8)[offset >> np.uint64(4)] = matrices.reshape(-1, 8)
        if space.defined is not None:
            known = True if defined is None else np.repeat(defined.reshape(-1, 8), 2, axis=1)
            space.defined[offset.astype(np.int64)[:, None] + np.arange(16)] = known


# -- mma


@dataclass(frozen=True, slots=True)
class Element:
    """The packing of elements of a type into registers. `kind`: "f" (float), "i" (integer), or "d" (float64)."""

    bits: int
    kind: str

    @property
    def per_register(self) -> int:
        return 1 if self.bits >= 32 else 32 // self.bits


ELEMENTS: dict[str, Element] = {
    "f16": Element(16, "f"), "bf16": Element(16, "f"), "tf32": Element(32, "f"), "e4m3": Element(8, "f"),
    "e5m2": Element(8, "f"), "s8": Element(8, "i"), "u8": Element(8, "i"), "f64": Element(64, "d"),
}  # fmt: skip
_EIGHT = {name: BY_PTX_NAME[name].numpy for name in ("e4m3", "e5m2")}

SHAPES: dict[str, frozenset[str]] = {
    "m16n8k16": frozenset(["f16", "bf16", "s8", "u8", "f64", "e4m3", "e5m2"]),
    "m16n8k8": frozenset(["f16", "bf16", "tf32", "f64"]), "m16n8k4": frozenset(["tf32", "f64"]),
    "m16n8k32": frozenset(["s8", "u8", "e4m3", "e5m2"]), "m8n8k16": frozenset(["s8", "u8"]),
    "m8n8k4": frozenset(["f64"]),
}  # fmt: skip


def decoded(registers: Array, type_: str) -> Array:
    """Unpacks registers (…) to elements (…, E): float64 for floats, int64 for integers."""
    element = ELEMENTS[type_]
    if element.kind == "d":
        return registers.view(np.float64)[..., None]
    if type_ == "tf32":
        return (registers & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)[..., None]
    parts = np.ascontiguousarray(registers)[..., None].view(f"u{element.bits // 8}")
    if type_ == "f16":
        return parts.view(np.float16).astype(np.float64)
    if type_ == "bf16":
        return from_bf16(parts).astype(np.float64)
    if element.kind == "i":
        return parts.view(np.int8 if type_ == "s8" else np.uint8).astype(np.int64)
    return np.asarray(parts.view(_EIGHT[type_]).astype(np.float64))


def fragment(values: Array, rows: int, per: int, row_blocks: int) -> Array:
    """Arranges register elements (warps, 32 lanes, registers, E) as matrices (warps, rows, k)."""
    warps, _, registers, _ = values.shape
    blocks = registers // row_blocks
    # lane = 4 g + q, register = row block + row_blocks · k block, k = 4 E (k block) + E q + e
    spread = values.reshape(warps, 8, 4, blocks, row_blocks, per).transpose(0, 4, 1, 3, 2, 5)
    return np.ascontiguousarray(spread).reshape(warps, rows, blocks * 4 * per)


def accumulate(a: Array, b: Array, c: Array, kind: str) -> Array:
    """Computes a (…, m, k) · b (…, n, k)ᵀ + c (…, m, n)."""
    if kind == "d":  # a chain of fused operations in double; the plain sum is within its rounding
        return np.asarray(np.einsum("wmk,wnk->wmn", a, b) + c)
    return np.asarray(np.matmul(a, np.swapaxes(b, -1, -2)) + c)


def rounded(total: Array, type_: str) -> Array:
    """Rounds a float64 sum to the type of D, and returns its bits."""
    if type_ == "f16":
        return finish(total.astype(np.float16), "f16", frozenset()).view(np.uint16)
    if type_ == "f32":
        return finish(total.astype(np.float32), "f32", frozenset()).view(np.uint32)
    return total


def multiply(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("sync", "aligned", "row", "col")
    modifiers.drop("kind::f8f6f4")
    saturate = modifiers.has("satfinite")
    shape = modifiers.choice(SHAPES)
    types = modifiers.left
    modifiers.left = []
    if len(types) != 4 or types[1] not in SHAPES[shape] or types[2] not in SHAPES[shape]:
        raise UnsupportedError(f"{modifiers.where}: this combination of shape and types is not known")
    d_type, a_type, b_type, c_type = types
    a_element = ELEMENTS[a_type]
    outputs = {"i": ("s32",), "d": ("f64",), "f": ("f32", "f16")}[a_element.kind]
    mixed = a_type != b_type and {a_type, b_type} not in ({"s8", "u8"}, {"e4m3", "e5m2"})
    only_f32 = a_type in ("bf16", "tf32") and d_type != "f32"
    if d_type not in outputs or c_type != d_type or mixed or only_f32 or (saturate and a_element.kind != "i"):
        raise UnsupportedError(f"{modifiers.where}: this combination of types is not known")
    modifiers.operands(4)
    m, n, depth = (int(number) for number in re.findall(r"\d+", shape))
    per = a_element.per_register
    row_blocks = m // 8
    a_count, b_count = m * depth // (32 * per), n * depth // (32 * per)
    a_operands = _registers(k, i.operands[1], a_count, "A")
    b_operands = _registers(k, i.operands[2], b_count, "B")
    a = _Fragment(k, a_operands, a_type, row_blocks)
    b = _Fragment(k, b_operands, b_type, 1)
    accumulator = _Accumulator(k, i.operands[0], i.operands[3], d_type, m, n)
    transposed = b.matrix.transpose(0, 2, 1)
    total = np.empty((k.lanes // 32, m, n))

    def step(mask: Mask) -> None:
        a.load()
        b.load()
        np.matmul(a.matrix, transposed, out=total)
        np.add(total, accumulator.load(), out=total)
        if saturate:
            np.clip(total, -(2.0**31), 2.0**31 - 1, out=total)
        accumulator.store(total, mask)

    a_bad, b_bad = ([k.undefined(o) for o in operands] for operands in (a_operands, b_operands))

    def shadow(mask: Mask) -> list[Array]:
        """Marks D undefined: in the row of an undefined element of A, and in the column of one of B."""
        rows, columns = (
            np.stack([bad() for bad in bads], axis=-1).reshape(-1, 32, len(bads))[..., None]
            for bads in (a_bad, b_bad)
        )
        spoiled = np.asarray(fragment(rows, m, 1, row_blocks) != 0).any(-1)
        across = np.asarray(fragment(columns, n, 1, 1) != 0).any(-1)
        return accumulator.shadow(np.asarray(spoiled)[:, :, None] | np.asarray(across)[:, None, :])

    k.shadowed(accumulator.targets, shadow)
    return collective(k, i, step)


class _Fragment:
    """Reads registers of A or B as a float64 matrix (warps, rows, k), into arrays that are allocated once."""

    def __init__(self, k: Binding, operands: tuple[Operand, ...], type_: str, row_blocks: int) -> None:
        element = ELEMENTS[type_]
        per, count, lanes = element.per_register, len(operands), k.lanes
        register_type = "b64" if element.bits == 64 else "b32"
        self.registers = [k.full(o, register_type) for o in operands]
        self.bits = np.empty((lanes, count), number_type(register_type))
        self.type = type_
        narrow = self.bits.view(f"u{element.bits // 8}")
        self.narrow = narrow
        if type_ in ("bf16", "tf32", "e4m3", "e5m2"):
            self.wide = np.empty(narrow.shape, np.float32)
        else:
            self.wide = narrow.view({"f16": "f2", "f64": "f8", "s8": "i1", "u8": "u1"}[type_])
        blocks = count // row_blocks
        # lane = 4 g + q, register = row block + row_blocks · k block, k = 4 E (k block) + E q + e
        self.spread = self.wide.reshape(-1, 8, 4, blocks, row_blocks, per).transpose(0, 4, 1, 3, 2, 5)
        self.elements = np.empty(self.spread.shape)
        self.matrix = self.elements.reshape(lanes // 32, 8 * row_blocks, blocks * 4 * per)

    def load(self) -> None:
        for index, register in enumerate(self.registers):
            self.bits[:, index] = register()
        if self.type == "bf16":
            np.left_shift(self.narrow, _HALF, out=self.wide.view(np.uint32), dtype=np.uint32)
        elif self.type == "tf32":
            np.bitwise_and(self.bits, _TF32, out=self.wide.view(np.uint32))
        elif self.type in _TABLES:
            np.take(_TABLES[self.type], self.narrow, out=self.wide)
        np.copyto(self.elements, self.spread)


_HALF, _TF32 = np.uint32(16), np.uint32(0xFFFFE000)
_TABLES = {
    name: np.arange(256, dtype=np.uint8).view(dtype).astype(np.float32) for name, dtype in _EIGHT.items()
}
_OUTPUTS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32}


class _Accumulator:
    """Reads C and writes D of mma: number 4 j + i of a lane is row g + 8 (i >> 1), column 8 j + 2 q + (i & 1)."""

    def __init__(self, k: Binding, target: Operand, source: Operand, type_: str, m: int, n: int) -> None:
        self.type, self.lanes, self.m, self.n = type_, k.lanes, m, n
        count = m * n // 32 // (2 if type_ == "f16" else 1)
        register_type = "b64" if type_ == "f64" else "b32"
        self.targets = _registers(k, target, count, "D")
        self.outs = [k.destination(o, register_type) for o in self.targets]
        sources = _registers(k, source, count, "C")
        self.bad = [k.undefined(o) for o in sources]
        self.sources = [k.full(o, register_type) for o in sources]
        self.bits = np.empty((k.lanes, count), number_type(register_type))
        self.values = self.bits.view(_OUTPUTS[type_])
        # lane = 4 g + q; number = 4 j + 2 (row block) + column bit, with one row block for m 8
        shape = (-1, 8, 4, n // 8, m // 8, 2)
        self.spread = self.values.reshape(shape).transpose(0, 4, 1, 3, 2, 5)
        self.elements = np.empty(self.spread.shape)
        self.matrix = self.elements.reshape(k.lanes // 32, m, n)

    def load(self) -> Array:
        """Returns C as a float64 array (warps, m, n)."""
        for index, source in enumerate(self.sources):
            self.bits[:, index] = source()
        np.copyto(self.elements, self.spread)
        return self.matrix

    def store(self, total: Array, mask: Mask) -> None:
        """Writes D: floats are rounded once, integers wrap."""
        found = total.reshape(self.elements.shape)
        if self.type == "s32":
            found = found.astype(np.int64)
        np.copyto(self.spread, found, casting="unsafe")
        if self.type != "s32":
            nan = np.isnan(self.values)
            if np.count_nonzero(nan):
                self.values[nan] = finish(self.values[nan], self.type, frozenset())
        for index, out in enumerate(self.outs):
            if mask is None:
                np.copyto(out, self.bits[:, index])
            else:
                np.copyto(out, self.bits[:, index], where=mask)

    def shadow(self, spoiled: Array) -> list[Array]:
        """Returns which lanes of D are undefined, when these elements of the product are."""
        spread = spoiled.reshape(-1, self.m // 8, 8, self.n // 8, 4, 2).transpose(0, 2, 4, 3, 1, 5)
        lanes: Array = np.asarray(
            np.ascontiguousarray(spread).reshape(self.lanes, len(self.outs), -1).any(-1)
        )
        return [lanes[:, index] | (bad() != 0) for index, bad in enumerate(self.bad)]
