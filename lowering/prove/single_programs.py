"""Runs one program of a launch of any size, to see operations wrap.

A launch in which an offset of 32 bits wraps may have arrays of more bytes than there is memory. Only what the program touches
is there: an element that it did not write is what all of its array are at first, and what it writes is kept by address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, Region

from ...promotion.arrays import Array, NumpyDType
from ...promotion.errors import JoineryError
from ..tt import types as t
from ..tt.interpret.machine import Environment, Function, Machine
from ..tt.interpret.machine import Step as Run
from ..tt.interpret.memory import Memory, Scalar
from ..tt.interpret.translation import PlainTranslation
from ..tt.op_locations import OpLocations
from ..tt.sanitize.findings import Finding
from ..tt.types import numpy_dtype
from .preparation import PreparedFunction, line_of

_OPERATIONS = 5_000
"""Operations that a program may run, one of a large block counting as several: it may never end."""
_LANES_AN_OPERATION = 1024
"""Lanes of a block that count as one operation."""
_ADDRESS_BITS = 62
_LEFT_OUT = frozenset({"tt.print"})


def wrapping(
    prepared: PreparedFunction, ops: Collection[Operation], sizes: Mapping[str, int], extents: Mapping[str, int],
    grid: tuple[int, int, int], contents: Mapping[str, int], program: tuple[int, int, int],
) -> dict[Operation, Finding]:  # fmt: skip
    """Runs a program, and returns which of some operations compute a number that their type does not hold.

    Args:
        ops: operations of the function that are among `COMPUTING`, of more than one bit.
        sizes: integer parameters by name; others are 1.
        extents: by array, its number of elements; others have all that is touched.
        contents: by array of integers, what all its elements are at first; others are 0.

    The program may end early: at an access outside of an array, where it fails, and after many operations.
    """
    if any(not 0 <= index < axis for index, axis in zip(program, grid, strict=True)):
        return {}
    memory = _Untouched(prepared, extents, contents)
    machine = _Machine(grid, memory, ops)
    machine.program = tuple(np.int32(index) for index in program)
    try:
        values = [_argument(prepared, position, sizes, memory) for position in range(len(prepared.parameters))]
        with np.errstate(all="ignore"):
            machine.function(prepared.function)(values)
    except (_Ends, JoineryError, OverflowError):
        pass  # a size that its parameter does not hold is none of a launch
    if not machine.seen:
        return {}
    root: Operation = prepared.function
    while (parent := root.parent_op()) is not None:
        root = parent
    texts = OpLocations(root)
    return {
        op: Finding("overflow", message, texts.text(op), line_of(op), program, lane)
        for op, (message, lane) in machine.seen.items()
    }


class _Ends(Exception):
    """Ends a program of which nothing more is to be seen."""


class _Untouched(Memory):
    """Arrays of any size, each behind addresses of its own, of which what is written is kept."""

    def __init__(self, prepared: PreparedFunction, extents: Mapping[str, int], contents: Mapping[str, int]) -> None:
        super().__init__()
        self._bits = _ADDRESS_BITS - len(prepared.parameters).bit_length()
        self._arrays = [
            (each.element_size, extents.get(each.name), contents.get(each.name, 0)) if each.is_array else (1, 0, 0)
            for each in prepared.parameters
        ]  # fmt: skip
        self._written: dict[int, tuple[int, dict[int, bytes]]] = {}

    def base(self, position: int) -> int:
        """Returns the address of the array of a parameter."""
        return ((position + 1) << self._bits) + (1 << (self._bits - 1))

    def load(self, addresses: Array, mask: Array | None, dtype: NumpyDType, fill: Scalar, verb: str = "read") -> Array:
        addresses = np.asarray(addresses)
        live = np.broadcast_to(np.True_ if mask is None else mask, addresses.shape)
        result = np.empty(addresses.shape, dtype)
        result[...] = fill
        if not live.any():
            return result
        lanes = addresses[live]
        numbers = self._touched(lanes, dtype)
        values = np.zeros(lanes.shape, dtype)
        for number in np.unique(numbers).tolist():
            size, _, content = self._arrays[number]
            own = numbers == number
            if content:
                if size != dtype.itemsize or dtype.kind not in "iu":
                    raise _Ends
                values[own] = np.array(content & ((1 << 64) - 1), np.uint64).astype(dtype)
            written_size, written = self._written.get(number, (dtype.itemsize, {}))
            if written and written_size != dtype.itemsize:
                raise _Ends
            for at in np.flatnonzero(own) if written else ():
                found = written.get(int(lanes[at]))
                if found is not None:
                    values[at] = np.frombuffer(found, dtype)[0]
        result[live] = values
        return result

    def store(self, addresses: Array, values: Array, mask: Array | None) -> None:
        addresses = np.asarray(addresses)
        live = np.broadcast_to(np.True_ if mask is None else mask, addresses.shape)
        if not live.any():
            return
        lanes, written = addresses[live], np.broadcast_to(values, addresses.shape)[live]
        numbers = self._touched(lanes, written.dtype)
        for lane, number, value in zip(lanes.tolist(), numbers.tolist(), written, strict=True):
            size, kept = self._written.setdefault(number, (written.dtype.itemsize, {}))
            if size != written.dtype.itemsize:
                raise _Ends
            kept[lane] = value.tobytes()

    def _touched(self, lanes: Array, dtype: NumpyDType) -> Array:
        """Returns the parameter of each address. Ends the program at one outside of all arrays, or between two elements."""
        numbers = (lanes >> self._bits) - 1
        if ((numbers < 0) | (numbers >= len(self._arrays))).any():
            raise _Ends
        for number in np.unique(numbers).tolist():
            offsets = lanes[numbers == number] - self.base(number)
            size, extent, _ = self._arrays[number]
            is_inside = extent is None or (offsets.min() >= 0 and int(offsets.max()) + dtype.itemsize <= extent * size)
            if not is_inside or (offsets % dtype.itemsize).any():
                raise _Ends
        return np.asarray(numbers)


def _argument(prepared: PreparedFunction, position: int, sizes: Mapping[str, int], memory: _Untouched) -> Any:
    parameter = prepared.parameters[position]
    if parameter.is_array:
        return np.int64(memory.base(position))
    dtype = np.dtype(numpy_dtype(parameter.type))
    return dtype.type(sizes.get(parameter.name, 1))


class _Machine(Machine):
    """Notes of some operations what they compute that does not fit, in words, and in which lane first."""

    def __init__(self, grid: tuple[int, ...], memory: Memory, ops: Collection[Operation]) -> None:
        super().__init__(grid, memory)
        self.ops = frozenset(ops)
        self.seen: dict[Operation, tuple[str, tuple[int, ...]]] = {}
        self._left = _OPERATIONS

    def translate(self, body: Region) -> Function:
        return _Watching(self).body(body)

    def count(self, cost: int) -> None:
        """Counts operations. Ends the program after as many as it may run, and where all is seen."""
        self._left -= cost
        if self._left < 0 or len(self.seen) == len(self.ops):
            raise _Ends


class _Watching(PlainTranslation):
    """Counts operations, and looks at the operands of some."""

    def __init__(self, machine: _Machine) -> None:
        super().__init__(machine)
        self._own = machine

    def operation(self, op: Operation) -> Run[Environment] | None:
        inner = None if op.name in _LEFT_OUT else super().operation(op)
        if inner is None:
            return None
        watch = self._watch(op) if op in self._own.ops else None
        lanes = max([int(np.prod(t.shape_of(each.type))) for each in op.results], default=1)
        machine, cost = self._own, 1 + lanes // _LANES_AN_OPERATION

        def step(env: Environment) -> None:
            machine.count(cost)
            inner(env)
            if watch is not None and op not in machine.seen:
                watch(env)

        return step

    def block(self, block: Block) -> Run[Environment]:
        inside, machine = super().block(block), self._own

        def run(env: Environment) -> None:
            machine.count(1)  # a loop without any operation ends, too
            inside(env)

        return run

    def _watch(self, op: Operation) -> Run[Environment]:
        slots, width, seen = [self.slot(each) for each in op.operands], t.bit_width(op.results[0].type), self._own.seen

        def watch(env: Environment) -> None:
            operands = np.broadcast_arrays(*[env[slot] for slot in slots])  # in the region of a reduction they are blocks
            shape = operands[0].shape
            for number, values in enumerate(zip(*[each.reshape(-1).tolist() for each in operands], strict=True)):
                if message := _wraps(op.name, values, width):
                    seen[op] = message, tuple([int(each) for each in np.unravel_index(number, shape)]) if shape else ()
                    return

        return watch


_EXACT: Mapping[str, Callable[[int, int], tuple[str, int]]] = {
    "arith.addi": lambda x, y: (f"{x} + {y}", x + y),
    "arith.subi": lambda x, y: (f"{x} - {y}", x - y),
    "arith.muli": lambda x, y: (f"{x} * {y}", x * y),
    "arith.shli": lambda x, y: (f"{x} << {y}", x << min(max(y, 0), 256)),
    "arith.trunci": lambda x, _: (f"{x}", x),
    "math.absi": lambda x, _: (f"|{x}|", abs(x)),
}
"""What operations on one or two integers compute, in words and exactly."""


COMPUTING = frozenset(_EXACT)
"""Operations that are seen to wrap."""


def _wraps(name: str, numbers: Sequence[int], width: int) -> str:
    """Returns in words what an operation computes, if its type does not hold that; "" if it does."""
    text, exact = _EXACT[name](numbers[0], numbers[-1])
    half = 1 << (width - 1)
    if -half <= exact < half:
        return ""
    is_ = "" if text == f"{exact}" else f" is {exact}, which"
    return f"{text}{is_ or ','} does not fit {width} bits: it becomes {(exact + half) % (2 * half) - half}"


__all__ = ["COMPUTING", "wrapping"]
