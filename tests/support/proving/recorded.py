"""Runs single programs of launches of any size: no array is there, what would be read is drawn, and addresses are recorded.

So verdicts are held against runs near 2 ** 31 and 2 ** 63, where no sanitizer could run a launch.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from joinery.lowering.prove.preparation import Access, PreparedFunction
from joinery.lowering.tt import types as t
from joinery.lowering.tt.interpret.interpreter import _Interpreter
from joinery.lowering.tt.interpret.translation import PlainTranslation
from joinery.lowering.tt.types import numpy_dtype
from joinery.promotion.errors import JoineryError
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

SEGMENT = 59
"""Bits of the addresses of one array, which begins in the middle of them."""
MAX_BYTES = 1 << (SEGMENT - 1)
_MAX_STEPS = 3000
_UNSIGNED = {"arith.divui", "arith.remui", "arith.shrui", "arith.minui", "arith.maxui", "arith.extui"}


class Touch(NamedTuple):
    """What lanes of an access touched: addresses from the beginning of its array, and what was stored, as texts."""

    access: Access
    program: tuple[int, int, int]
    array: int
    offsets: list[int]
    values: list[Any]


class _Ends(Exception):
    """Ends a run of which enough has been seen."""


class _Recording(PlainTranslation):
    def __init__(self, machine: Any) -> None:
        super().__init__(machine)
        self._own = machine

    def operation(self, op: Operation) -> Any:
        machine = self._own
        access = machine.accesses.get(op)
        if access is None:
            inner = super().operation(op)
            watch = self._watched(op)
            slots = [(each, self.slot(each)) for each in (*op.results, *op.operands)]

            def step(env: Any) -> None:
                machine.count()
                before = [(ssa, env[slot]) for ssa, slot in slots[len(op.results) :]]
                if inner is not None:
                    inner(env)
                if watch is not None:
                    watch(env)
                if machine.seen is not None:
                    machine.keep(op, [*[(ssa, env[slot]) for ssa, slot in slots[: len(op.results)]], *before])

            return step
        operands = [self.slot(operand) for operand in op.operands]
        result = self.slot(op.results[0]) if op.results else None
        mask = self.slot(access.mask) if access.mask is not None else None
        stored = self.slot(access.stored) if access.stored is not None else None

        def touch(env: Any) -> None:
            machine.count()
            if machine.seen is not None:
                machine.keep(op, [(ssa, env[slot]) for ssa, slot in zip(op.operands, operands, strict=True)])
            shape = access.shape
            addresses = np.broadcast_to(np.asarray(env[operands[0]]), shape).reshape(-1)
            live = np.broadcast_to(np.asarray(True if mask is None else env[mask]), shape).reshape(-1)
            value = None if stored is None else np.broadcast_to(np.asarray(env[stored]), shape).reshape(-1)
            machine.note(access, addresses[live], None if value is None else value[live])
            if result is not None:
                drawn = machine.draw(op.results[0], addresses)
                if op.name == "tt.load" and len(operands) > 2:  # what lanes get that take no part
                    drawn = np.where(live.reshape(shape), drawn, env[operands[2]]).astype(np.asarray(drawn).dtype)[()]
                env[result] = drawn

        return touch

    def _watched(self, op: Operation) -> Any:
        """What notes that an operation wraps."""
        machine = self._own
        if not op.results or not op.operands or not t.is_integer(op.results[0].type):
            return None
        width = t.bit_width(op.results[0].type)
        if not op.name.startswith(("arith.", "math.absi")):
            return None  # of one bit, True is 1
        slots, result = [self.slot(each) for each in op.operands], self.slot(op.results[0])
        half = 1 << (width - 1)

        def watch(env: Any) -> None:
            if op in machine.wrapped:
                return
            operands = [np.asarray(env[slot]).astype(object) for slot in slots]
            found = np.asarray(env[result]).astype(object)
            x, y = operands[0], operands[-1]
            match op.name:
                case "arith.addi":
                    bad = x + y != found
                case "arith.subi":
                    bad = x - y != found
                case "arith.muli":
                    bad = x * y != found
                case "arith.shli":
                    bad = x * 2 ** np.clip(np.vectorize(int, otypes=[object])(y), 0, 200) != found
                case "arith.trunci":
                    bad = x != found
                case "math.absi":
                    bad = x == -half
                case "arith.divsi":
                    bad = (x == -half) & (y == -1)
                case name if name in _UNSIGNED and t.bit_width(op.operands[0].type) > 1:
                    bad = (x < 0) | (y < 0)
                case _:
                    return
            if np.any(bad):
                machine.wrapped.add(op)

        return watch


class _Machine(_Interpreter):
    def __init__(
        self,
        grid: tuple[int, ...],
        prepared: PreparedFunction,
        ranges: Mapping[int, tuple[int, int]],
        rng: random.Random,
    ) -> None:
        super().__init__(grid, None)
        self.accesses = {each.op: each for each in prepared.accesses if not each.is_gather}
        self.touches: list[Touch] = []
        self.wrapped: set[Operation] = set()
        self.ranges, self.rng = ranges, np.random.default_rng(rng.randrange(1 << 30))
        self._steps = 0
        self.seen: list[tuple[Any, ...]] | None = None

    def keep(self, op: Operation, values: list[tuple[SSAValue, Any]]) -> None:
        assert self.seen is not None
        self.seen.append((op, tuple(int(each) for each in self.program), values))

    def translate(self, body: Any) -> Any:
        return _Recording(self).body(body)

    def begin(self, program: tuple[int, int, int]) -> None:
        self.program = tuple(np.int32(each) for each in program)
        self._steps = 0

    def count(self) -> None:
        self._steps += 1
        if self._steps > _MAX_STEPS:
            raise _Ends

    def note(self, access: Access, addresses: Any, values: Any) -> None:
        if not len(addresses):
            return
        by_array: dict[int, list[int]] = {}
        for at, address in enumerate(addresses.tolist()):
            by_array.setdefault((address + (1 << 63)) % (1 << 64) - (1 << 63) >> SEGMENT, []).append(at)
        program = tuple(int(each) for each in self.program)
        for array, lanes in by_array.items():
            offsets = [int(addresses[at]) - base_of(array) for at in lanes]
            own = [] if values is None else [values[at] for at in lanes]
            self.touches.append(Touch(access, program, array - 1, offsets, own))  # type: ignore[arg-type]

    def draw(self, value: SSAValue, addresses: Any) -> Any:
        dtype, shape = (
            np.dtype(numpy_dtype(t.value_type(value.type) if t.is_tensor(value.type) else value.type)),
            t.shape_of(value.type),
        )
        if dtype.kind == "b":
            made = self.rng.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            limits = np.iinfo(dtype)
            array = int(addresses[0]) >> SEGMENT if len(addresses) else 0
            low, high = self.ranges.get(array - 1, (limits.min, limits.max))
            made = self.rng.integers(max(low, limits.min), min(high, limits.max), shape, dtype, endpoint=True)
        else:
            made = np.zeros(shape, dtype)
        return made if shape else made[()] if isinstance(made, np.ndarray) else dtype.type(made)


def base_of(array: int) -> int:
    """The address at which the array that has these high bits begins."""
    return (array << SEGMENT) + (1 << (SEGMENT - 1)) - (1 << (SEGMENT - 2))


def record(
    prepared: PreparedFunction, grid: tuple[int, int, int], programs: list[tuple[int, int, int]], numbers: list[Any],
    ranges: Mapping[int, tuple[int, int]], rng: random.Random, seen: list[tuple[Any, ...]] | None = None,
) -> tuple[list[Touch], set[Operation]] | None:  # fmt: skip
    """Runs some programs of a launch.

    numbers: by parameter; None for arrays. ranges: by position, what its elements are between. seen: gets all operations, with
    their programs and values.

    Returns what they touch, and the operations that wrap; None if the launch is refused.
    """
    machine = _Machine(grid, prepared, ranges, rng)
    machine.seen = seen
    values: list[Any] = []
    for position, (parameter, number) in enumerate(zip(prepared.parameters, numbers, strict=True)):
        if parameter.is_array:
            values.append(np.int64(base_of(position + 1)))
        else:
            dtype = np.dtype(numpy_dtype(parameter.type))
            values.append(dtype.type(number))
    with np.errstate(all="ignore"):
        code = machine.function(prepared.function)
        for program in programs:
            machine.begin(program)
            try:
                code(values)
            except _Ends:
                continue
            except JoineryError:
                return None
    return machine.touches, machine.wrapped


def slice_of(access: Access) -> set[Operation]:
    """The operations from which an address, a mask and a path are surely computed."""
    found: set[Operation] = set()
    waiting: list[SSAValue] = [
        access.pointer,
        *([] if access.mask is None else [access.mask]),
        *_controls(access.op),
    ]
    seen: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        waiting += list(_sources(value, found))
    return found


def _controls(op: Operation) -> Iterator[SSAValue]:
    parent = op.parent_op()
    while parent is not None and parent.name != "tt.func":
        if parent.name == "scf.for":
            yield from parent.operands[:3]
        elif parent.name == "scf.if":
            yield parent.operands[0]
        elif parent.name == "scf.while" and op.parent is not None and op.parent.parent is parent.regions[1]:
            yield parent.regions[0].block.last_op.operands[0]  # type: ignore[union-attr]
        op, parent = parent, parent.parent_op()


def _sources(value: SSAValue, found: set[Operation]) -> Iterator[SSAValue]:
    if isinstance(value, OpResult):
        op = value.op
        found.add(op)
        yield from _controls(op)
        if op.name == "scf.for":
            yield from op.operands[:3]
            yield op.operands[3 + value.index]
            yield op.regions[0].block.last_op.operands[value.index]  # type: ignore[union-attr]
        elif op.name == "scf.if":
            yield op.operands[0]
            for region in op.regions:
                yield region.block.last_op.operands[value.index]  # type: ignore[union-attr]
        elif op.name in ("scf.while", "scf.execute_region"):
            return
        else:
            yield from op.operands
        return
    assert isinstance(value, BlockArgument)
    parent = value.block.parent_op()
    if parent is not None and parent.name == "scf.for":
        yield from parent.operands[:3]
        if value.index:
            yield parent.operands[2 + value.index]
            yield value.block.last_op.operands[value.index - 1]  # type: ignore[union-attr]


__all__ = ["MAX_BYTES", "Touch", "base_of", "record", "slice_of"]
