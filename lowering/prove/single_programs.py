"""Runs one program of a launch of any size, to see operations wrap.

A launch in which an offset of 32 bits wraps may have arrays of more bytes than there is memory. Only what the program touches
is there: an element that it did not write is what all of its array are at first, and what it writes is kept by address.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from xdsl.ir import Block, Operation, Region

from ...promotion.arrays import Array, NumpyDType
from ...promotion.errors import InternalError, JoineryError
from ..tt import types as t
from ..tt.interpret.machine import Environment, Function, Machine
from ..tt.interpret.machine import Step as Run
from ..tt.interpret.memory import Memory, Scalar
from ..tt.interpret.translation import PlainTranslation
from ..tt.op_locations import OpLocations
from ..tt.sanitize.findings import Finding
from ..tt.types import numpy_dtype
from .preparation import PreparedFunction, ProofParameter, line_of

_OPERATIONS, _ALL_OPERATIONS = 5_000, 30_000
"""Operations that a program may run, one of a large block counting as several, and all of a proof: one may never end."""
_LANES_AN_OPERATION = 1024
"""Lanes of a block that count as one operation."""
_ADDRESS_BITS = 62
_LEFT_OUT = frozenset({"tt.print"})
_ENDING = frozenset({"tt.ptr_to_int", "tt.int_to_ptr"})
"""Operations at which a program ends: the addresses of a launch are others than these."""
_WITH_OTHER = 2
"""Operands of a load that has a number for lanes in which its mask is false, as a third one."""
_UNDEFINED = (0, -97)
"""What lanes are that nothing defines, in each of two runs."""


class SinglePrograms:
    """Runs programs of one function, and sees which of some operations compute a number that their type does not hold."""

    def __init__(self, prepared: PreparedFunction, ops: Collection[Operation]) -> None:
        """Starts with nothing run. ops: operations of the function that are among `COMPUTING`, of more than one bit."""
        self._prepared = prepared
        self._ops = frozenset(ops)
        self._left = _ALL_OPERATIONS
        self._code: tuple[_Machine, Function] | None = None
        self._texts: OpLocations | None = None

    def run(
        self, sizes: Mapping[str, int], extents: Mapping[str, int], grid: tuple[int, int, int], contents: Mapping[str, int],
        program: tuple[int, int, int],
    ) -> dict[Operation, Finding]:  # fmt: skip
        """Runs a program, and returns what was seen of each operation first.

        Args:
            sizes: numbers by parameter; others are 1.
            extents: by array, its number of elements; others have all that is touched.
            contents: by array of integers, what all its elements are at first; others are 0.

        The program may end early: at an access outside of an array, where an address becomes a number or a number one, where it
        fails, and after many operations. What an undefined lane has a part in is not seen: it is another number in each of
        two runs.
        """
        if any(not 0 <= index < axis for index, axis in zip(program, grid, strict=True)):
            return {}
        found = self._seen(sizes, extents, grid, contents, program, _UNDEFINED[0])
        if found:
            again = self._seen(sizes, extents, grid, contents, program, _UNDEFINED[1])
            found = {op: each for op, each in found.items() if again.get(op) == each}
        if found and self._texts is None:
            root = self._prepared.function.get_toplevel_object()
            assert isinstance(root, Operation)
            self._texts = OpLocations(root)
        return {
            op: Finding("overflow", message, self._texts.text(op), line_of(op), program, lane)
            for op, (message, lane) in found.items() if self._texts is not None
        }  # fmt: skip

    def _seen(
        self, sizes: Mapping[str, int], extents: Mapping[str, int], grid: tuple[int, int, int], contents: Mapping[str, int],
        program: tuple[int, int, int], undefined: int,
    ) -> dict[Operation, tuple[str, tuple[int, ...]]]:  # fmt: skip
        machine, code = self._translated()
        machine.untouched.begin(extents, contents, undefined)
        machine.grid = tuple(np.int32(axis) for axis in grid)
        machine.program = tuple(np.int32(index) for index in program)
        machine.seen = {}
        machine.left = given = min(_OPERATIONS, self._left)
        try:
            values = [_argument(each, at, sizes, machine.untouched) for at, each in enumerate(self._prepared.parameters)]
            with np.errstate(all="ignore"):
                code(values)
        except InternalError:
            raise
        except (_Ends, JoineryError, OverflowError):
            pass  # a program that fails has shown what it has; a size that its parameter does not hold is none of a launch
        self._left -= given - max(machine.left, 0)
        return machine.seen

    def _translated(self) -> tuple[_Machine, Function]:
        """Returns the function as it is run, with the machine that it is run on."""
        if self._code is None:
            machine = _Machine(self._prepared, self._ops)
            self._code = machine, machine.function(self._prepared.function)
        return self._code


class _Ends(Exception):
    """Ends a program of which nothing more is to be seen."""


class _Untouched(Memory):
    """Arrays of any size, each behind addresses of its own, of which what is written is kept."""

    def __init__(self, prepared: PreparedFunction) -> None:
        super().__init__()
        self._prepared = prepared
        self.bits = _ADDRESS_BITS - len(prepared.parameters).bit_length()
        self._arrays: list[tuple[int, int | None, int]] = []
        self._written: dict[int, tuple[int, dict[int, bytes]]] = {}
        self.undefined = 0

    def begin(self, extents: Mapping[str, int], contents: Mapping[str, int], undefined: int) -> None:
        """Starts anew. extents, contents: as of `SinglePrograms.run`; undefined: what lanes are that nothing defines."""
        self._arrays = [
            (each.element_size, extents.get(each.name), contents.get(each.name, 0)) if each.is_array else (1, 0, 0)
            for each in self._prepared.parameters
        ]  # fmt: skip
        self._written = {}
        self.undefined = undefined

    def base(self, position: int) -> int:
        """Returns the address of the array of a parameter."""
        return ((position + 1) << self.bits) + (1 << (self.bits - 1))

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
        numbers = (lanes >> self.bits) - 1
        if ((numbers < 0) | (numbers >= len(self._arrays))).any():
            raise _Ends
        for number in np.unique(numbers).tolist():
            offsets = lanes[numbers == number] - self.base(number)
            size, extent, _ = self._arrays[number]
            is_inside = extent is None or (offsets.min() >= 0 and int(offsets.max()) + dtype.itemsize <= extent * size)
            if not is_inside or (offsets % dtype.itemsize).any():
                raise _Ends
        return np.asarray(numbers)


def _argument(parameter: ProofParameter, position: int, sizes: Mapping[str, int], memory: _Untouched) -> Any:
    if parameter.is_array:
        return np.int64(memory.base(position))
    dtype = np.dtype(numpy_dtype(parameter.type))
    return dtype.type(sizes.get(parameter.name, 1))


class _Machine(Machine):
    """Notes of some operations what they compute that does not fit, in words, and in which lane first."""

    def __init__(self, prepared: PreparedFunction, ops: frozenset[Operation]) -> None:
        memory = _Untouched(prepared)
        super().__init__((1, 1, 1), memory)
        self.masks = {
            each.op: each.mask for each in prepared.accesses
            if each.mask is not None and not (each.op.name == "tt.load" and len(each.op.operands) > _WITH_OTHER)
        }  # fmt: skip
        self.untouched = memory
        self.ops = ops
        self.seen: dict[Operation, tuple[str, tuple[int, ...]]] = {}
        self.left = 0

    def translate(self, body: Region) -> Function:
        return _Watching(self).body(body)

    def count(self, cost: int) -> None:
        """Counts operations. Ends the program after as many as it may run, and where all is seen."""
        self.left -= cost
        if self.left < 0 or len(self.seen) == len(self.ops):
            raise _Ends


class _Watching(PlainTranslation):
    """Counts operations, looks at the operands of some, and ends where it is not known which array an address is in."""

    def __init__(self, machine: _Machine) -> None:
        super().__init__(machine)
        self._own = machine

    def operation(self, op: Operation) -> Run[Environment] | None:
        inner = None if op.name in _LEFT_OUT else super().operation(op)
        if inner is None:
            return None
        watch = self._watch(op) if op in self._own.ops else self._stay(op) if op.name == "tt.addptr" else self._undefined(op)
        lanes = max([int(np.prod(t.shape_of(each.type))) for each in op.results], default=1)
        machine, cost = self._own, 1 + lanes // _LANES_AN_OPERATION
        is_end = op.name in _ENDING

        def step(env: Environment) -> None:
            machine.count(cost)
            if is_end:
                raise _Ends
            inner(env)
            if watch is not None:
                watch(env)

        return step

    def block(self, block: Block) -> Run[Environment]:
        inside, machine = super().block(block), self._own

        def run(env: Environment) -> None:
            machine.count(1)  # a loop without any operation ends, too
            inside(env)

        return run

    def _undefined(self, op: Operation) -> Run[Environment] | None:
        """Gives lanes that a load or an atomic leaves undefined the number that such lanes have in this run."""
        machine, mask = self._own, self._own.masks.get(op)
        if mask is None or not op.results or not t.is_integer(t.value_type(op.operands[0].type)):
            return None
        result, where = self.slot(op.results[0]), self.slot(mask)

        def fill(env: Environment) -> None:
            found = np.asarray(env[result])
            env[result] = np.where(env[where], found, machine.untouched.undefined).astype(found.dtype)[()]

        return fill

    def _stay(self, op: Operation) -> Run[Environment]:
        """Ends the program where an address leaves those of its array by more than any array has."""
        before, after, bits = self.slot(op.operands[0]), self.slot(op.results[0]), self._own.untouched.bits

        def stay(env: Environment) -> None:
            if (np.asarray(env[before]) >> bits != np.asarray(env[after]) >> bits).any():
                raise _Ends

        return stay

    def _watch(self, op: Operation) -> Run[Environment]:
        slots, half = [self.slot(each) for each in op.operands], 1 << (t.bit_width(op.results[0].type) - 1)
        shown, compute = _EXACT[op.name]
        machine = self._own
        wide = np.int64 if half < 1 << 32 and op.name != "arith.shli" else object  # products of 32 bits have 64

        def watch(env: Environment) -> None:
            if op in machine.seen:
                return
            operands = np.broadcast_arrays(*[env[slot] for slot in slots])  # in the region of a reduction they are blocks
            x, y = [each.astype(wide) for each in (operands[0], operands[-1])]
            exact = np.asarray(compute(x, y))
            wrong = np.flatnonzero(((exact < -half) | (exact >= half)).reshape(-1))
            if len(wrong):
                lane = int(wrong[0])
                number = int(exact.reshape(-1)[lane])
                text = shown.format(operands[0].reshape(-1)[lane], operands[-1].reshape(-1)[lane])
                is_ = "" if text == f"{number}" else f" is {number}, which"
                message = f"{text}{is_} does not fit {half.bit_length()} bits: it becomes {(number + half) % (2 * half) - half}"
                shape = exact.shape
                machine.seen[op] = message, tuple([int(each) for each in np.unravel_index(lane, shape)]) if shape else ()

        return watch


_EXACT: Mapping[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "arith.addi": ("{} + {}", lambda x, y: x + y),
    "arith.subi": ("{} - {}", lambda x, y: x - y),
    "arith.muli": ("{} * {}", lambda x, y: x * y),
    "arith.shli": ("{} << {}", lambda x, y: x * 2 ** np.clip(y, 0, 256)),
    "arith.trunci": ("{}", lambda x, _: x),
    "math.absi": ("|{}|", lambda x, _: abs(x)),
}
"""What operations on one or two integers compute, in words and exactly."""
COMPUTING = frozenset(_EXACT)
"""Operations that are seen to wrap."""

__all__ = ["COMPUTING", "SinglePrograms"]
