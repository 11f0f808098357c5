"""Defines tensor maps, the descriptors of tensors in global memory that TMA copies read.

A map is 128 opaque bytes. The layout here is the simulator's own; all-zero bytes are a valid start, so that a kernel may
clear a map and then set its fields with tensormap.replace. Codes of types, swizzles and fills are those of tensormap.replace.

Source: PTX ISA, "Tensors", "tensormap.replace"; CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from ....lowering.artifact import TensorMap as Facts
from ....promotion.arrays import Array
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ..checks.findings import Fault

MAP_BYTES = 128
TYPES = ("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32.ftz", "f64", "bf16", "tf32", "tf32.ftz")
_SIZES = {"u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u64": 8, "s64": 8, "f64": 8}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
FILLS = {"zero": 0, "nan": 1}
_SPELLED = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float64": "f64", "int8": "u8", "int16": "u16", "int32": "s32",
    "int64": "s64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "i8": "u8", "i16": "u16", "i32": "s32",
    "i64": "s64", "s8": "u8", "s16": "u16", "f8e5m2": "u8", "f8e4m3fn": "u8",
}  # fmt: skip

FIELDS: dict[str, tuple[int, str, int]] = {
    "global_address": (0, "Q", 1), "rank": (8, "B", 1), "elemtype": (9, "B", 1), "swizzle_mode": (10, "B", 1),
    "fill_mode": (11, "B", 1), "interleave_layout": (12, "B", 1), "box_dim": (16, "I", 5), "global_dim": (36, "I", 5),
    "global_stride": (56, "Q", 4), "element_stride": (88, "I", 5),
}  # fmt: skip
"""Field → (byte offset, struct code, count)."""


def set_field(octets: Array, name: str, index: int, value: int) -> None:
    offset, code, count = FIELDS[name]
    if not 0 <= index < count:
        raise Fault("tensor map", f"{name} has no element {index}")
    size = struct.calcsize(code)
    data = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    octets[offset + index * size : offset + (index + 1) * size] = np.frombuffer(data, np.uint8)


def swizzled(address: Array, mode: int) -> Array:
    """Applies the swizzle, an XOR of absolute address bits, to addresses in shared memory. mode: 0 none, 1 32
    B, 2 64 B, 3 128 B."""
    if mode == 0:
        return address
    bits = (1 << mode) - 1
    return np.asarray(address ^ ((address >> 7 & bits) << 4))


@dataclass(frozen=True, slots=True)
class TensorView:
    """The checked contents of a map. Extents start with the innermost dimension; strides are in bytes."""

    address: int
    size: int
    type: str
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...]
    swizzle: int
    fill_nan: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of the box along every dimension."""
        return tuple(-(-b // s) for b, s in zip(self.box, self.steps, strict=True))

    @property
    def box_bytes(self) -> int:
        return int(np.prod(self.counts)) * self.size

    def offsets(self, coordinates: Sequence[int]) -> tuple[Array, Array]:
        """Returns the byte offsets from `address` of all elements of a box, innermost first, and which are
        inside the tensor."""
        offset = np.zeros((1,), np.int64)
        inside = np.ones((1,), np.bool_)
        for c, n, step, extent, stride in zip(
            coordinates, self.counts, self.steps, self.extents, self.strides, strict=True
        ):
            index = c + step * np.arange(n, dtype=np.int64)
            offset = (index[:, None] * stride + offset[None, :]).reshape(-1)
            inside = (((index >= 0) & (index < extent))[:, None] & inside[None, :]).reshape(-1)
        return offset, inside

    def shared_offsets(self, start: int) -> Array:
        """Returns the addresses in shared memory of the elements of a box, in the same order."""
        dense = start + np.arange(int(np.prod(self.counts)), dtype=np.int64) * self.size
        return swizzled(dense, self.swizzle)

    @property
    def fill(self) -> Array:
        """The bytes of an element outside the tensor."""
        if not self.fill_nan:
            return np.zeros(self.size, np.uint8)
        pattern = {2: 0x7FFF, 4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}[self.size]
        return np.frombuffer(pattern.to_bytes(self.size, "little"), np.uint8)


def read_map(octets: Array, rank: int) -> TensorView:
    """Decodes the map in 128 bytes, for an instruction of `rank` dimensions. Raises `Fault` for maps that no
    device accepts."""
    data = bytes(octets)

    def field(name: str) -> tuple[int, ...]:
        offset, code, count = FIELDS[name]
        return struct.unpack_from(f"<{count}{code}", data, offset)

    if field("rank")[0] + 1 != rank:
        raise Fault("tensor map", f"a map of {field('rank')[0] + 1} dimensions in an instruction of {rank}")
    if field("elemtype")[0] >= len(TYPES):
        raise Fault("tensor map", f"the element type {field('elemtype')[0]}")
    type_ = TYPES[field("elemtype")[0]]
    size = _SIZES.get(type_, 4)
    swizzle, fill = field("swizzle_mode")[0], field("fill_mode")[0]
    interleave = field("interleave_layout")[0]
    if swizzle > 3 or fill > 1 or interleave:
        raise Fault("tensor map", f"swizzle mode {swizzle}, fill mode {fill}, interleave layout {interleave}")
    view = TensorView(
        field("global_address")[0], size, type_, field("global_dim")[:rank], (size, *field("global_stride"))[:rank],
        field("box_dim")[:rank], field("element_stride")[:rank], swizzle, fill == 1,
    )  # fmt: skip
    inner = view.box[0] * size
    span = {0: 1 << 30, 1: 32, 2: 64, 3: 128}[swizzle]
    problems = [
        (view.address % 16 != 0, f"the tensor's address {view.address:#x} is no multiple of 16"),
        (any(s % 16 for s in view.strides[1:]), f"strides {view.strides[1:]} are no multiples of 16"),
        (any(not 1 <= b <= 256 for b in view.box), f"a box of {view.box}; every extent is 1 to 256"),
        (any(not 1 <= s <= 8 for s in view.steps), f"element strides {view.steps}; each is 1 to 8"),
        (any(e < 1 for e in view.extents), f"extents {view.extents}"),
        (inner % 16 != 0, f"{inner} bytes in a row of the box; expected a multiple of 16"),
        (inner > span, f"{inner} bytes in a row of the box, more than the swizzle's {span}"),
        (fill == 1 and type_[0] in "us", f"filling with NaN in a tensor of {type_}"),
    ]
    for wrong, text in problems:
        if wrong:
            raise Fault("tensor map", text)
    return view


class TensorMap:
    """A tensor map as an argument of a launch.

    Args:
        array: the tensor's memory, written in place by TMA stores.
        shape: extents, outermost first; strides: bytes, outermost first, by default those of a dense tensor.
        box: extents of the box that one copy moves, outermost first.
        dtype: element type as in tensormap.replace, or a NumPy or joinery spelling of it.
        swizzle: 0, 32, 64 or 128 bytes; fill: "zero" or "nan" outside the tensor; steps: element strides.
    """

    def __init__(
        self,
        array: Array,
        shape: Sequence[int],
        strides: Sequence[int] | None,
        box: Sequence[int],
        dtype: str,
        swizzle: int = 0,
        fill: str = "zero",
        steps: Sequence[int] | None = None,
    ) -> None:
        type_ = _SPELLED.get(dtype, dtype)
        rank = len(shape)
        if (
            type_ not in TYPES
            or swizzle not in SWIZZLES
            or fill not in FILLS
            or not 1 <= rank <= 5
            or len(box) != rank
        ):
            raise UserError(
                f"tensor map of {dtype}, shape {tuple(shape)}, box {tuple(box)}, swizzle {swizzle}, fill {fill!r}"
            )
        size = _SIZES.get(type_, 4)
        if strides is None:
            strides = [size * int(np.prod(shape[d + 1 :])) for d in range(rank)]
        if len(strides) != rank or strides[-1] != size:
            raise UserError(f"tensor map: strides {tuple(strides)}; the innermost is {size} bytes")
        self.array = array
        self.octets = np.zeros(MAP_BYTES, np.uint8)
        for name, value in (
            ("rank", rank - 1),
            ("elemtype", TYPES.index(type_)),
            ("swizzle_mode", SWIZZLES[swizzle]),
        ):
            set_field(self.octets, name, 0, value)
        set_field(self.octets, "fill_mode", 0, FILLS[fill])
        for d in range(rank):
            outer = rank - 1 - d
            set_field(self.octets, "global_dim", d, int(shape[outer]))
            set_field(self.octets, "box_dim", d, int(box[outer]))
            set_field(self.octets, "element_stride", d, int(steps[outer]) if steps is not None else 1)
            if d:
                set_field(self.octets, "global_stride", d - 1, int(strides[outer]))

    @staticmethod
    def of(
        facts: Facts, array: Array, extents: Sequence[int], strides: Sequence[int], pads_with_nan: bool
    ) -> TensorMap:
        """Makes a map of an array as a kernel requires it; strides in elements."""
        element = "u8" if facts.element.startswith("f8") else facts.element
        size = _SIZES.get(_SPELLED.get(element, element), 4)
        fill = "nan" if pads_with_nan else "zero"
        return TensorMap(array, extents, [each * size for each in strides], facts.box, element, facts.swizzle, fill)

    def encode_map(self, address: int) -> bytes:
        """Returns the map with the array's address in the simulated memory."""
        octets = self.octets.copy()
        set_field(octets, "global_address", 0, address)
        return octets.tobytes()
