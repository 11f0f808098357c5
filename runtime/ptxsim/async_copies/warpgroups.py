"""Executes wgmma: products of four warps with operands in shared memory, which are in flight until they are
waited for.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions". Every warp owns 16 of the 64 rows:
number 4 j + i of lane 4 g + q is row 16 w + g + 8 (i >> 1), column 8 j + 2 q + (i & 1). The product is computed at the wait;
until then the registers of D hold a pattern, and operands that changed since issue are a violation.
"""

from __future__ import annotations

import re
from dataclasses import field

import numpy as np

from ....lowering.ptx.syntax import Instruction, Register, Vector
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UnsupportedError, UserError
from ..arithmetic.matrices import ELEMENTS, accumulate, decoded, fragment, rounded
from ..checks.findings import Fault
from ..checks.races import Wait
from ..core.binding import Binding
from ..core.blocks import Control, Cta
from ..core.context import MachineContext
from ..core.control import collective
from ..core.modifiers import Modifiers
from ..core.types import Mask
from ..memory.spaces import SharedMemory
from .bulk import asynchronous_read
from .tensor_maps import swizzled

_PATTERN = np.uint32(0x7FC5A5A5)
_DEPTHS = {16: 16, 32: 8, 8: 32}
_SPANS = {0: 0, 1: 128, 2: 64, 3: 32}
"""The descriptor's swizzle code → bytes; the codes differ from a tensor map's."""
_SWIZZLES = {128: 3, 64: 2, 32: 1, 0: 0}


@dataclass(frozen=True, slots=True)
class Tile:
    """An operand in shared memory: the byte offsets of its elements, as an array of rows × k."""

    shared: SharedMemory
    offsets: Array
    type: str

    def read(self) -> Array:
        size = max(ELEMENTS[self.type].bits // 8, 1)
        octets = self.shared.octets[self.offsets[..., None] + np.arange(size)]
        registers = np.ascontiguousarray(octets).view(f"u{size}")
        return decoded(registers, self.type).reshape(self.offsets.shape)


@dataclass(slots=True)
class Product:
    """One instruction of one warpgroup, with the operands to multiply at the wait."""

    a: Tile | Array
    b: Tile
    a_seen: Array
    b_seen: Array
    scale: Array
    signs: tuple[int, int]
    line: int
    waits: list[list[Wait]]
    reading: list[Array]
    """Per register of A: the number of pending products that read it, by lane; at level 2."""


@dataclass(slots=True)
class Chain:
    """Pending products into the same registers of one warpgroup. `start`: the former value of D; `flight`,
    `undefined`: shadows of D."""

    outs: list[Array]
    start: Array
    type: str
    columns: int
    flight: list[Array]
    undefined: list[Array]
    products: list[tuple[int, Product]] = field(default_factory=list)


@dataclass(slots=True)
class Groups:
    """The wgmma groups of one warpgroup: how many are committed, and the pending chains by the registers of D."""

    committed: int = 0
    chains: dict[tuple[str, ...], Chain] = field(default_factory=dict)


def groups_of(cta: Cta, warpgroup: int) -> Groups:
    found = cta.agents.setdefault(f"wgmma {warpgroup}", Groups())
    assert isinstance(found, Groups)
    return found


def _warpgroups(machine: MachineContext, mask: Mask) -> list[int]:
    """Returns the warpgroups that execute. Raises `Fault` unless all four warps of each do."""
    warps = np.ones(machine.lanes // 32, np.bool_) if mask is None else mask.reshape(-1, 32).any(1)
    padded = np.append(warps, np.zeros(-warps.size % 4, np.bool_)).reshape(-1, 4)
    if not (padded.all(1) | ~padded.any(1)).all():
        raise Fault("wgmma", "not all four warps of a warpgroup execute this together")
    return [int(index) for index in np.flatnonzero(padded.any(1))]


def tile_offsets(descriptor: int, rows: int, depth: int, bits: int, transposed: bool) -> Array:
    """Returns the addresses in shared memory of a tile's elements, rows × k, for a matrix descriptor."""
    start, leading = (descriptor & 0x3FFF) << 4, (descriptor >> 16 & 0x3FFF) << 4
    stride, span = (descriptor >> 32 & 0x3FFF) << 4, _SPANS[descriptor >> 62 & 3]
    if descriptor >> 49 & 7:
        raise Fault("wgmma", "a matrix descriptor with a base offset; the pattern is expected to be aligned")
    row, k = np.arange(rows)[:, None], np.arange(depth)[None, :]
    if not transposed:
        octets = k * (bits // 8)
        if span:
            return swizzled(start + row // 8 * stride + row % 8 * span + octets, _SWIZZLES[span])
        return np.asarray(start + row // 8 * stride + row % 8 * 16 + octets // 16 * leading + octets % 16)
    octets = row * (bits // 8)
    if span:
        return swizzled(
            start + octets // span * leading + k // 8 * stride + k % 8 * span + octets % span, _SWIZZLES[span]
        )
    return np.asarray(start + octets // 16 * stride + k // 8 * leading + k % 8 * 16 + octets % 16)


def multiply(k: Binding, i: Instruction) -> Control:
    """Builds wgmma.mma_async D, a, b, scale-d{, imm-a, imm-b{, trans-a, trans-b}}."""
    modifiers = Modifiers(i)
    modifiers.require("mma_async", "sync", "aligned")
    shape = next((w for w in modifiers.left if re.fullmatch(r"m64n\d+k\d+", w)), "")
    if not shape:
        raise UnsupportedError(f"{modifiers.where}: expected a shape m64nNkK")
    modifiers.has(shape)
    modifiers.drop("satfinite")
    types, modifiers.left = modifiers.left, []
    columns, depth = (int(v) for v in re.findall(r"\d+", shape)[1:])
    if (
        len(types) != 3
        or types[1] not in ELEMENTS
        or types[2] not in ELEMENTS
        or not 8 <= columns <= 256
        or columns % 8
    ):
        raise UnsupportedError(f"{modifiers.where}: this combination of shape and types is not known")
    d_type, a_type, b_type = types
    element = ELEMENTS[a_type]
    outputs = {"i": ("s32",), "f": ("f32",) if a_type in ("bf16", "tf32") else ("f32", "f16")}.get(
        element.kind, ()
    )
    if (
        d_type not in outputs
        or depth != _DEPTHS[element.bits]
        or ELEMENTS[b_type] != element
        or "satfinite" in i.modifiers
    ):
        raise UnsupportedError(f"{modifiers.where}: this combination of shape and types is not known")
    operands = i.operands
    if not isinstance(operands[0], Vector) or len(operands) < 4:
        raise UserError(f"{modifiers.where}: expected D, a, b and scale-d")
    targets = operands[0].elements
    expected = 64 * columns // 128 // (2 if d_type == "f16" else 1)
    if len(targets) != expected:
        raise k.refuse(operands[0], f"{expected} registers")
    outs = [k.destination(o, "b32") for o in targets]
    for o in targets:
        k.source(o, "b32")
    in_registers = isinstance(operands[1], Vector)
    a_registers = [k.full(o, "b32") for o in operands[1].elements] if isinstance(operands[1], Vector) else []
    if in_registers and len(a_registers) != 4:
        raise k.refuse(operands[1], "4 registers for A")
    a_descriptor = None if in_registers else k.full(operands[1], "b64")
    b_descriptor = k.full(operands[2], "b64")
    scale = k.predicate(operands[3])
    rest = [k.constant(o, "an immediate") for o in operands[4:]]
    signs = (rest[0], rest[1]) if len(rest) >= 2 else (1, 1)
    trans = rest[2:] if element.bits == 16 else []
    trans_a, trans_b = (0 if in_registers else (trans[0] if trans else 0)), (trans[-1] if trans else 0)
    immediates = 0 if element.kind == "i" else 2 + (2 - in_registers if element.bits == 16 else 0)
    if len(rest) != immediates:
        raise UserError(f"{modifiers.where}: {len(rest)} immediates do not fit these types")
    if not {*signs} <= {-1, 1}:
        raise UserError(f"{modifiers.where}: the operands' signs are 1 or -1")
    names = tuple(o.name for o in targets if isinstance(o, Register))
    machine = k.machine
    a_names = [
        o.name for o in (operands[1].elements if isinstance(operands[1], Vector) else ()) if isinstance(o, Register)
    ]
    watch = k.watch
    flight, undefined, own_rows = [], [], np.zeros(0, np.int64)
    if watch is not None:
        d_rows, a_rows = ([watch.products.row(k.function.name, name) for name in each] for each in (names, a_names))
        flight = [watch.products.writing[row] for row in d_rows]
        undefined = [watch.row(k, name) for name in names]
        own_rows = np.array([*d_rows, *a_rows])

    def step(mask: Mask) -> None:
        cta = machine.cta
        for index in _warpgroups(machine, mask):
            lanes = slice(128 * index, 128 * index + 128)
            groups = groups_of(cta, index)
            waits: list[list[Wait]] = []
            b = _tile(machine, b_descriptor()[lanes], index, waits, columns, depth, b_type, bool(trans_b))
            a: Tile | Array
            if a_descriptor is None:
                stacked = np.stack([r()[lanes] for r in a_registers], axis=-1).reshape(4, 32, 4)
                a = a_seen = fragment(decoded(stacked, a_type), 16, element.per_register, 2).reshape(
                    64, depth
                )
            else:
                a = _tile(machine, a_descriptor()[lanes], index, waits, 64, depth, a_type, bool(trans_a))
                a_seen = a.read()
            chain = groups.chains.get(names)
            if chain is None:
                busy = [other for other in groups.chains if set(other) & set(names)]
                if busy:
                    raise Fault("in flight", "registers of D that a pending wgmma of another shape writes")
                start = np.stack([out[lanes] for out in outs], axis=-1)
                parts, rows = [out[lanes] for out in outs], [row[lanes] for row in flight]
                spoiled = [row[lanes] for row in undefined]
                chain = groups.chains[names] = Chain(parts, start, d_type, columns, rows, spoiled)
                for part in chain.outs:
                    part[...] = _PATTERN
                for row in chain.flight:
                    row[...] = True
            seen = np.array(scale()[lanes])
            if seen.any() != seen.all():
                raise Fault("wgmma", "scale-d differs between the lanes of a warpgroup")
            reading: list[Array] = []
            if watch is not None:
                watch.products.check(own_rows, lanes)
                reading = [watch.products.reading[row, lanes] for row in a_rows]
                for row in reading:
                    row += 1
            line = i.line
            product = Product(a, b, a_seen, b.read(), seen, (signs[0], signs[1]), line, waits, reading)
            chain.products.append((groups.committed, product))

    names_written = list(k.writes)
    k.writes.clear()
    control = collective(k, i, step, warps=4)
    k.writes.update(names_written)
    return control


def _tile(
    machine: MachineContext,
    descriptors: Array,
    warpgroup: int,
    waits: list[list[Wait]],
    rows: int,
    depth: int,
    type_: str,
    transposed: bool,
) -> Tile:
    if np.count_nonzero(descriptors != descriptors[0]):
        raise Fault("wgmma", "a matrix descriptor that differs between the lanes of a warpgroup")
    bits = ELEMENTS[type_].bits
    offsets = tile_offsets(int(descriptors[0]), rows, depth, bits, transposed)
    shared = machine.cta.shared
    if int(offsets.max()) + bits // 8 > shared.size:
        raise Fault(
            "bounds",
            f"a matrix up to shared address {int(offsets.max()):#x}; {shared.size} bytes of shared memory",
        )
    octets = offsets.reshape(-1)[:, None] + np.arange(bits // 8)
    waits.append(asynchronous_read(machine, shared, octets.reshape(-1), warpgroup))
    return Tile(shared, offsets, type_)


def commit(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("commit_group", "sync", "aligned")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine

    def step(mask: Mask) -> None:
        for index in _warpgroups(machine, mask):
            groups_of(machine.cta, index).committed += 1

    return collective(k, i, step, warps=4)


def fence(k: Binding, i: Instruction) -> Control:
    """Builds wgmma.fence, which orders accesses to registers; they are always in order here, and only level 2
    checks for it."""
    modifiers = Modifiers(i)
    modifiers.require("fence", "sync", "aligned")
    modifiers.done()
    modifiers.operands(0)
    machine = k.machine

    def step(mask: Mask) -> None:
        watch = k.watch
        for index in _warpgroups(machine, mask):
            if watch is not None:
                watch.products.fence(slice(128 * index, 128 * index + 128))

    return collective(k, i, step, warps=4)


def wait(k: Binding, i: Instruction) -> Control:
    modifiers = Modifiers(i)
    modifiers.require("wait_group", "sync", "aligned")
    modifiers.done()
    modifiers.operands(1)
    newest = k.constant(i.operands[0], "a number of groups")
    machine = k.machine

    def step(mask: Mask) -> None:
        for index in _warpgroups(machine, mask):
            groups = groups_of(machine.cta, index)
            ready = groups.committed - newest
            if machine.races is not None:
                for chain in groups.chains.values():
                    for wait in (
                        w for group, product in chain.products if group < ready for w in product.waits
                    ):
                        machine.races.product_done(machine.cta, index, wait)
            for names, chain in list(groups.chains.items()):
                if all(group < ready for group, _ in chain.products):
                    _finish(machine, chain, chain.products)
                    for row in chain.flight:
                        row[...] = False
                    del groups.chains[names]
                elif chain.products[0][0] < ready:
                    done = [entry for entry in chain.products if entry[0] < ready]
                    chain.products = [entry for entry in chain.products if entry[0] >= ready]
                    chain.start = _accumulated(machine, chain, done)

    return collective(k, i, step, warps=4)


def _accumulated(machine: MachineContext, chain: Chain, products: list[tuple[int, Product]]) -> Array:
    """Returns the registers of D after products of a chain: the bits, as lanes × registers."""
    numbers = chain.columns // 8 * 4
    registers = np.ascontiguousarray(chain.start)
    if chain.type == "f16":
        values: Array = registers.view(np.float16).astype(np.float64)
    else:
        values = (
            registers.view(np.float32).astype(np.float64)
            if chain.type == "f32"
            else registers.view(np.int32).astype(np.int64)
        )
    # lane = 32 w + 4 g + q, number = 4 j + 2 (row block) + column bit
    matrix = (
        values.reshape(4, 8, 4, numbers // 4, 2, 2).transpose(0, 4, 1, 3, 2, 5).reshape(64, chain.columns)
    )
    for _, product in products:
        for row in product.reading:
            row -= 1
        a = product.a.read() if isinstance(product.a, Tile) else product.a
        b = product.b.read()
        if not (
            np.array_equal(a, product.a_seen, equal_nan=True)
            and np.array_equal(b, product.b_seen, equal_nan=True)
        ):
            text = f"shared operands of the wgmma at PTX line {product.line} were overwritten before it was waited for"
            machine.violation("in flight", text)
        kept = matrix if product.scale.all() else np.zeros_like(matrix)
        total = accumulate(a * product.signs[0], b * product.signs[1], kept, "f")
        if chain.type == "s32":
            matrix = (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32).astype(np.int64)
        else:
            dtype = np.float16 if chain.type == "f16" else np.float32
            matrix = total.astype(dtype).astype(np.float64)
    final = matrix if chain.type == "s32" else rounded(matrix, chain.type)
    if chain.type == "s32":
        final = (matrix & 0xFFFFFFFF).astype(np.uint32)
    spread = final.reshape(4, 2, 8, chain.columns // 8, 4, 2).transpose(0, 2, 4, 3, 1, 5).reshape(128, -1)
    return np.ascontiguousarray(spread).view(np.uint32)


def _finish(machine: MachineContext, chain: Chain, products: list[tuple[int, Product]]) -> None:
    registers = _accumulated(machine, chain, products)
    if products and not products[0][1].scale.all():
        for row in chain.undefined:  # the former value of D is not used
            row[...] = 0
    for index, out in enumerate(chain.outs):
        out[...] = registers[:, index]


def warpgroup(k: Binding, i: Instruction) -> Control:
    """Builds any wgmma instruction."""
    if not i.modifiers:
        raise UnsupportedError(f"PTX line {i.line}: {i.spelling}: no such instruction is known")
    kinds = {"mma_async": multiply, "commit_group": commit, "fence": fence, "wait_group": wait}
    builder = kinds.get(i.modifiers[0])
    if builder is None:
        raise UnsupportedError(f"PTX line {i.line}: {i.spelling}: no such instruction is known")
    return builder(k, i)


def pending(cta: Cta) -> bool:
    """Returns whether a block still has products in flight."""
    return any(isinstance(agent, Groups) and agent.chains for agent in cta.agents.values())
