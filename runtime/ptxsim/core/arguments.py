"""Lays out the arguments of a launch: arrays are copied into the arena of global memory and, after the
launch, back.

A kernel that makes numbers of addresses, or addresses of numbers, finds allocations at the addresses that the arrays have on
the host, so that memory holds the same numbers as after a launch on it. Others find them far from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field

import numpy as np

from ....lowering.ptx.modules import SIZES, Function, Parameter, PtxModule, SymbolValue
from ....promotion.arrays import Array, PointerArgument
from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ...host.addresses import distinct, integers_in, mapped
from ..async_copies.tensor_maps import TensorMap
from ..memory.spaces import (
    MAX_ALLOCATIONS,
    Allocation,
    GlobalMemory,
    ParameterMemory,
    PointerSource,
    address_at,
)

MAX_VARIABLES = 1 << 30
"""The limit on the bytes of all variables of a module."""
_ALIGN = 256
"""The alignment of buffers, as of device allocations; a view of an array keeps its offset modulo this."""


@dataclass(slots=True)
class _Buffer:
    """Arrays whose bytes overlap, as one range of host memory."""

    low: int
    high: int
    members: list[tuple[str, Array]]
    allocation: Allocation = field(init=False)

    @property
    def name(self) -> str:
        return " and ".join(name for name, _ in self.members[:3])


@dataclass(slots=True)
class Arena:
    """Global memory and the parameters of a launch. `offsets`: the parameters' offsets by name; `pointers`: those of
    them that are addresses, as far as it is known."""

    memory: GlobalMemory
    addresses: dict[str, int]
    parameters: ParameterMemory
    offsets: dict[str, int]
    copies: list[tuple[Array, int]]
    pending: list[tuple[int, SymbolValue]] = field(default_factory=list)
    pointers: dict[str, PointerSource] = field(default_factory=dict)

    def write_back(self) -> None:
        """Copies the arrays that kernels may have written back to the user's arrays."""
        for array, start in self.copies:
            octets = self.memory.octets[start : start + array.nbytes]
            array.reshape(-1).view(np.uint8)[...] = octets

    def point_to_functions(self, address: Callable[[str], int]) -> None:
        """Writes the addresses of functions into the variables that hold them."""
        for offset, value in self.pending:
            target = address(value.name) + value.offset
            self.memory.octets[offset : offset + 8] = np.frombuffer(target.to_bytes(8, "little"), np.uint8)


def _check_array(array: Array, what: str) -> None:
    if not array.flags.c_contiguous:
        raise UserError(f"{what} is not C-contiguous; pass numpy.ascontiguousarray(…)")
    if array.dtype.hasobject:
        raise UserError(f"{what} holds Python objects")


def _root(array: Array) -> int:
    """Returns the address of the array that owns the memory of a view."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return int(owner.ctypes.data) if owner.flags.c_contiguous else int(array.ctypes.data)


def _buffers(arrays: list[tuple[str, Array]]) -> list[_Buffer]:
    found: list[_Buffer] = []
    ranges = [(int(a.ctypes.data), int(a.ctypes.data) + a.nbytes, name, a) for name, a in arrays if a.nbytes]
    for low, high, name, array in sorted(ranges, key=lambda r: r[:2]):
        if found and low < found[-1].high:
            found[-1].high = max(found[-1].high, high)
            found[-1].members.append((name, array))
        else:
            found.append(_Buffer(low, high, [(name, array)]))
    return found


class _Layout:
    """Places allocations in an arena, one behind the other, with addresses far from each other."""

    def __init__(self) -> None:
        self.allocations: list[Allocation] = []
        self.position = _ALIGN

    def allocate(
        self, name: str, size: int, align: int, writable: bool, skew: int = 0, address: int | None = None
    ) -> Allocation:
        """Places the next allocation, `skew` bytes behind a multiple of the alignment. Raises `UserError` for too many.

        address: where it is found; None for one far from all others.
        """
        if len(self.allocations) == MAX_ALLOCATIONS:
            raise UserError(f"more than {MAX_ALLOCATIONS} arrays and variables; fix: pass fewer")
        align = max(align, _ALIGN)
        start = -(-self.position // align) * align + skew
        given = address_at(len(self.allocations), start) if address is None else address
        made = Allocation(name, start, size, writable, given)
        self.allocations.append(made)
        self.position = start + size
        return made


def lay_out(
    function: Function, module: PtxModule, args: Sequence[object], names: Sequence[str] | None = None,
    host_addresses: bool = False,
) -> Arena:
    """Places arrays, variables and parameters in the memory of a launch. Raises `UserError` for arguments
    that do not fit the parameters. names: what the user calls the arguments. host_addresses: whether arrays have the
    addresses that they have on the host."""
    if len(args) != len(function.parameters):
        raise UserError(
            f"kernel {function.name} takes {len(function.parameters)} arguments, {len(args)} were given"
        )
    labels = [f"argument {number}" for number in range(len(args))]
    if names is not None:
        labels = [f"{label} ({name})" for label, name in zip(labels, names, strict=True)]
    arrays: list[tuple[str, Array]] = []
    tables = {number: table for number, value in enumerate(args) if (table := _table(value)) is not None}
    for number, value in enumerate(args):
        what = labels[number]
        if number in tables:
            for index, array in enumerate(tables[number]):
                if isinstance(array, np.ndarray):
                    _check_array(array, f"{what}[{index}]")
                    arrays.append((f"{what}[{index}]", array))
        else:
            memory_of = _memory(value, function.parameters[number])
            if memory_of is not None:
                _check_array(memory_of, what)
                arrays.append((what, memory_of))
    if host_addresses:
        arrays += _reached(arrays, args)
    buffers = _buffers(arrays)
    layout = _Layout()
    found: dict[int, Allocation] = {}
    for buffer in buffers:
        root = 0 if host_addresses else _root(buffer.members[0][1])
        writable = any(array.flags.writeable for _, array in buffer.members)
        buffer.allocation = layout.allocate(
            buffer.name, buffer.high - buffer.low, _ALIGN, writable, (buffer.low - root) % _ALIGN,
            buffer.low if host_addresses else None,
        )
        found.update((id(array), buffer.allocation) for _, array in buffer.members)
    for what, array in arrays:
        if array.nbytes == 0:
            found[id(array)] = layout.allocate(what, 0, _ALIGN, False)

    def reserve(name: str, size: int, align: int, writable: bool) -> int:
        return layout.allocate(name, size, align, writable).address

    addresses = reserve_variables(function, module, reserve)
    starts = {n: layout.allocate(labels[n], 8 * len(table), 8, False) for n, table in tables.items()}
    memory = GlobalMemory(-(-layout.position // _ALIGN) * _ALIGN, layout.allocations)
    arena = Arena(memory, addresses, _parameter_space(function), {}, [])
    device: dict[int, int] = {}
    for buffer in buffers:
        for _, array in buffer.members:
            behind = int(array.ctypes.data) - buffer.low
            start = buffer.allocation.start + behind
            device[id(array)] = buffer.allocation.address + behind
            memory.octets[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)
            if array.flags.writeable:
                arena.copies.append((array, start))
    initialise_variables(arena, module)

    def address(array: Array | None) -> int:
        if array is None:
            return 0
        return device[id(array)] if array.nbytes else found[id(array)].address

    for number, table_at in starts.items():
        entries = np.array([address(a) for a in tables[number]], np.uint64)
        memory.octets[table_at.start : table_at.start + entries.nbytes] = entries.view(np.uint8)
    offset = 0
    for number, (parameter, value) in enumerate(zip(function.parameters, args, strict=True)):
        offset = -(-offset // parameter.align) * parameter.align
        arena.offsets[parameter.name] = offset
        what = f"argument {number} ({parameter.name})"
        pointed: tuple[int, int, int] | None = None  # the address, the bytes behind it, the address of the allocation
        if number in tables:
            pointed = starts[number].address, starts[number].size, starts[number].address
        elif isinstance(value, PointerArgument):
            start = address(value.memory) + value.offset
            pointed = start, value.memory.nbytes - value.offset, found[id(value.memory)].address
        elif isinstance(value, np.ndarray) and not _is_scalar(value, parameter):
            pointed = address(value), value.nbytes, found[id(value)].address
        elif value is None and parameter.size == 8:
            pointed = 0, 0, -1
        if pointed is not None:
            data = _pointer(pointed[0], parameter, what)
            arena.pointers[parameter.name] = PointerSource(labels[number], *pointed, number in tables)
        elif isinstance(value, TensorMap):
            data = value.encode_map(address(value.array))
            if parameter.size != len(data):
                raise UserError(f"{what}: a tensor map has {len(data)} bytes, the parameter {parameter.size}")
        else:
            data = _scalar(value, parameter, what)
        arena.parameters.octets[offset : offset + parameter.size] = np.frombuffer(data, np.uint8)
        offset += parameter.size
    return arena


def _memory(value: object, parameter: Parameter) -> Array | None:
    """Returns the array that an argument points into; None for what is no address."""
    if isinstance(value, PointerArgument):
        return value.memory
    if isinstance(value, TensorMap):
        return value.array
    return value if isinstance(value, np.ndarray) and not _is_scalar(value, parameter) else None


def _reached(arrays: Sequence[tuple[str, Array]], args: Sequence[object]) -> list[tuple[str, Array]]:
    """Returns the memory, of no argument, at what may be addresses among the arguments, in their memory, and behind those.

    A number that happens to look like an address does no harm: the memory there is present, and stays what it is.
    """
    elsewhere = next((each.elsewhere for each in args if isinstance(each, PointerArgument) and each.elsewhere), None)
    if elsewhere is None:
        return []
    known = [(int(array.ctypes.data), int(array.ctypes.data) + array.nbytes) for _, array in arrays]
    found: list[tuple[str, Array]] = []
    numbers = np.array([int(each) for each in args if isinstance(each, (int, np.integer)) and 0 <= each < 1 << 63], np.int64)
    waiting = [numbers, *[_integers_in(array) for _, array in arrays]]
    while waiting:
        for address in mapped(distinct([waiting.pop()])):
            if any(low <= address < high for low, high in known):
                continue
            array = elsewhere(address)
            if array is not None:
                low = int(array.ctypes.data)
                known.append((low, low + array.nbytes))
                found.append((f"the tensor at {low:#x}", array))
                waiting.append(_integers_in(array))
    return found


def _integers_in(array: Array) -> Array:
    """Returns memory as 64-bit integers, whichever elements they are put together of; none if there are too many."""
    found = integers_in(array.reshape(-1).view(np.uint8), 1)
    return np.empty(0, np.int64) if found is None else found


def reserve_variables(
    function: Function, module: PtxModule, reserve: Callable[[str, int, int, bool], int]
) -> dict[str, int]:
    """Reserves memory for the variables of a module; returns their addresses. `reserve` takes a name, bytes,
    alignment and whether kernels may write, and returns an address."""
    if sum(v.size or 0 for v in module.variables.values()) > MAX_VARIABLES:
        raise UserError(
            f"kernel {function.name}: the module's variables have more than {MAX_VARIABLES} bytes"
        )
    return {
        v.name: reserve(f"variable {v.name}", v.size, v.align, v.space == "global")
        for v in module.variables.values()
        if v.space in ("global", "const") and v.size is not None
    }


def initialise_variables(arena: Arena, module: PtxModule) -> None:
    for name, address in arena.addresses.items():
        variable = module.variables[name]
        start = arena.memory.one(address, 0, False)
        _initialise(arena, module, start, SIZES[variable.type], variable.values)


def lay_out_arguments(
    function: Function, memory: GlobalMemory, addresses: dict[str, int], arguments: Sequence[bytes]
) -> Arena:
    """Returns the arena of a launch in memory that outlives it. arguments: the bytes of each parameter."""
    arena = Arena(memory, addresses, _parameter_space(function), {}, [])
    offset = 0
    for parameter, data in zip(function.parameters, arguments, strict=True):
        offset = -(-offset // parameter.align) * parameter.align
        arena.offsets[parameter.name] = offset
        arena.parameters.octets[offset : offset + parameter.size] = np.frombuffer(data, np.uint8)
        offset += parameter.size
    return arena


def _is_scalar(value: Array, parameter: Parameter) -> bool:
    return value.ndim == 0 and not (parameter.pointer or (parameter.size == 8 and value.dtype.itemsize != 8))


def _table(value: object) -> Sequence[Array | None] | None:
    """Returns the arrays whose addresses a table holds, and None for a null address; None where the argument is not a
    table."""
    table: Sequence[Array | None] | None = value if isinstance(value, (list, tuple)) else getattr(value, "arrays", None)
    return table


def _parameter_space(function: Function) -> ParameterMemory:
    offset = 0
    for parameter in function.parameters:
        offset = -(-offset // parameter.align) * parameter.align + parameter.size
    return ParameterMemory(offset)


def _pointer(address: int, parameter: Parameter, what: str) -> bytes:
    if parameter.size != 8:
        raise UserError(f"{what}: an array for a parameter of {parameter.size} bytes")
    return address.to_bytes(8, "little")


def _scalar(value: object, parameter: Parameter, what: str) -> bytes:
    """Encodes a number in the parameter's width: integers wrap, floats take the float format of the width."""
    size = parameter.size
    if value is None:
        if size != 8:
            raise UserError(f"{what}: None for a parameter of {size} bytes; None is a null pointer")
        return bytes(8)
    if isinstance(value, (bytes, bytearray)):
        if len(value) != size:
            raise UserError(f"{what}: {len(value)} bytes for a parameter of {size}")
        return bytes(value)
    if isinstance(value, (np.generic, np.ndarray)) and (
        value.dtype.kind in "fV" or value.dtype.itemsize == size
    ):
        if value.dtype.itemsize == size:
            return value.tobytes()
        value = float(value)
    if isinstance(value, (bool, np.bool_)):
        value = int(value)
    if isinstance(value, (int, np.integer)) and size in (1, 2, 4, 8):
        number = int(value)
        if parameter.type in ("f32", "f64"):
            return _scalar(float(number), parameter, what)
        if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
            raise UserError(f"{what}: {number} does not fit {size} bytes")
        return (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
    if isinstance(value, float) and size in (2, 4, 8):
        dtype = {2: np.float16, 4: np.float32, 8: np.float64}[size]
        return np.array(value, dtype).tobytes()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return _scalar(value[()].item(), parameter, what)
    raise UserError(f"{what}: {type(value).__name__} for a parameter of {size} bytes")


def _initialise(
    arena: Arena, module: PtxModule, start: int, width: int, values: tuple[int | SymbolValue, ...]
) -> None:
    octets: Array = np.zeros(len(values) * width, np.uint8)
    for index, value in enumerate(values):
        if isinstance(value, SymbolValue):
            if value.name in module.functions:
                arena.pending.append((start + index * width, value))
                continue
            if value.name not in arena.addresses:
                raise UserError(f"a variable's initial value names {value.name}, which is not there")
            value = arena.addresses[value.name] + value.offset
        octets[index * width : (index + 1) * width] = np.frombuffer(value.to_bytes(width, "little"), np.uint8)
    arena.memory.octets[start : start + octets.size] = octets
