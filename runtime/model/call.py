"""Provides the fast paths into a model: the callable behind `Model.__call__`, and prepared calls."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Callable, Sequence
from typing import NoReturn, SupportsIndex

import numpy as np

from ...graph.dims.dim import Dim
from ...promotion.arrays import Array, is_masked
from ...promotion.errors import UserError
from ..device import Result
from ..host import memory
from ..native.library import interrupts, native_library
from .executable import Executable, refuse_pickle

# A run that reads and writes this many bytes releases the GIL: at 16 KiB, it takes longer than the release and the
# return.
RELEASE_BYTES = 16 << 10
# 64-bit words of stack that the native entry may use for addresses and sizes.
MAX_STACK_SLOTS = 1 << 14


class _Table(Array):
    """An int64 table that native code reads, with references to everything that it points to."""

    keep_alive: tuple[object, ...] = ()

    # The functions of native code, a model's `__call__` above all, are pickled as the table that they belong to.
    def __reduce__(self) -> NoReturn:
        refuse_pickle("what calls a joinery.Model")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        self.__reduce__()


def native_table(entries: Sequence[int], *keep_alive: object) -> _Table:
    """Returns a table for native code, which keeps alive what its entries point to."""
    table = np.array(entries, np.int64).view(_Table)
    table.keep_alive = keep_alive
    return table


def entry_function(executable: Executable) -> Callable[..., Result]:
    """Returns the callable for plain calls: the native entry where it can run, else `executable.call`.

    Neither the callable nor anything it keeps refers back to a `Model`, so models are freed as soon as they
    are dropped.
    """
    entry = native_library().entry
    inputs, outputs, constants = executable.inputs, executable.outputs, executable.constants
    extents = sum(len(spec.shape) for spec in outputs)
    slots = len(inputs) + len(constants) + 2 * len(outputs) + len(executable.slots) + extents
    # sizes that must be computed per input go through Python: such models are far from the microsecond scale
    computed = any(isinstance(size, Dim) and size.name is None for spec in inputs for size in spec.shape)
    linked = executable.linked
    if entry is None or linked.prepare_address is None or linked.run_address is None:
        return executable.call
    if computed or slots > MAX_STACK_SLOTS:
        return executable.call
    formats = [spec.dtype.numpy for spec in (*inputs, *outputs)]
    input_fields: list[int] = []
    for spec in inputs:
        shape = [size if isinstance(size, int) else -1 - executable.slots[str(size)] for size in spec.shape]
        input_fields += [id(spec.dtype.numpy), spec.dtype.itemsize, len(shape), *shape]
    output_fields: list[int] = []
    for spec in outputs:
        output_fields += [id(spec.dtype.numpy), spec.dtype.itemsize, len(spec.shape)]
    input_records = np.array(input_fields or [0], np.int64)
    output_records = np.array(output_fields or [0], np.int64)
    addresses = np.array([memory.address(array) for array in constants] or [0], np.uint64)
    slow = executable.call
    names = [sys.intern(spec.name) for spec in inputs]  # the interpreter interns keywords: they are compared by identity
    name_addresses = np.array([id(name) for name in names] or [0], np.int64)
    table = native_table(
        [
            len(inputs),
            len(executable.slots),
            len(outputs),
            len(constants),
            linked.prepare_address,
            linked.run_address,
            executable.pool,
            id(slow),
            sum(array.nbytes for array in constants),
            RELEASE_BYTES,
            memory.address(input_records),
            memory.address(output_records),
            memory.address(addresses),
            extents,
            memory.address(name_addresses),
            interrupts().retake if linked.is_interruptible else 0,
        ],
        executable,
        names,
        name_addresses,
        slow,
        formats,
        input_records,
        output_records,
        addresses,
    )
    return entry.call_function(table)


class BoundCall:
    """A prepared call: inputs and outputs are fixed, and calling it only runs the kernels.

    Calling it returns the outputs as the model does: one array, or a tuple. The inputs are read anew by every
    call, so new values are passed by writing them into these arrays. Only one thread at a time may run it: a second
    one gets a `UserError`.

    Attributes:
        inputs: the arrays that are read, by name.
        outputs: the arrays that are written, by name.
        staged: names of outputs whose buffers are not on a 64-byte boundary; they are computed in an aligned
            buffer and copied. Without `outputs`, `bind` makes none of these.
    """

    __slots__ = ("_copies", "_function", "_keep_alive", "_result", "inputs", "outputs", "staged")

    def __init__(
        self, executable: Executable, inputs: Sequence[object], outputs: Sequence[object] | None
    ) -> None:
        label = executable.label
        checked, plan = executable.check(inputs)
        bound: list[Array] = []
        for spec, given, used in zip(executable.inputs, inputs, checked, strict=True):
            if not isinstance(given, np.ndarray) or memory.address(given) != memory.address(used):
                raise UserError(
                    f"{label}: bind makes no copies, but input {spec.name!r} would need one (it is not a "
                    "C-contiguous, aligned, "
                    f"native {spec.dtype} array); fix: bind numpy.ascontiguousarray({spec.name})"
                )
            bound.append(given)
        targets = (
            executable.allocate(plan)
            if outputs is None
            else _targets(executable, plan.shapes, checked, outputs)
        )
        written = [
            array if memory.is_aligned(array) else memory.empty(array.shape, array.dtype) for array in targets
        ]
        pairs = [(to, source) for to, source in zip(targets, written, strict=True) if to is not source]
        arena = memory.empty((max(1, plan.arena_bytes),), np.dtype(np.uint8))
        buffers = executable.buffers(checked, written, memory.address(arena))
        result = targets[0] if len(targets) == 1 else tuple(targets)
        traffic = plan.arena_bytes + sum(
            array.nbytes for array in (*checked, *executable.constants, *written)
        )
        names = [spec.name for spec in executable.outputs]
        self.inputs = dict(zip([spec.name for spec in executable.inputs], bound, strict=True))
        self.outputs = dict(zip(names, targets, strict=True))
        self.staged = tuple(
            name for name, to, from_ in zip(names, targets, written, strict=True) if to is not from_
        )
        self._copies = tuple(pairs)
        self._result = result
        entry = native_library().entry
        self._keep_alive = (executable, checked, written, arena, buffers, plan)
        run_address = executable.linked.run_address
        if entry is None or run_address is None:
            self._function: Callable[[], Result] = _python_bound(executable, buffers, plan.dim_values, result)
            return

        busy = functools.partial(_busy, label)
        table = native_table(
            [
                run_address,
                executable.pool,
                ctypes.addressof(buffers),
                ctypes.addressof(plan.dim_values),
                int(traffic >= RELEASE_BYTES),
                id(result),
                0,
                id(busy),
                interrupts().retake if executable.linked.is_interruptible else 0,
            ],
            *self._keep_alive,
            result,
            busy,
        )
        self._function = entry.bound_function(table)

    def __call__(self) -> Result:
        result = self._function()
        if self._copies:
            for to, source in self._copies:
                np.copyto(to, source)
        return result

    def __repr__(self) -> str:
        inputs = ", ".join(f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.inputs.items())
        outputs = ", ".join(
            f"{name}: {array.dtype}{list(array.shape)}" for name, array in self.outputs.items()
        )
        return f"<joinery.BoundCall ({inputs}) -> ({outputs})>"

    def __reduce__(self) -> NoReturn:
        raise UserError("a bound call cannot be copied or pickled: it is for its own arrays; fix: model.bind(…) once more")


def _python_bound(
    executable: Executable,
    buffers: ctypes.Array[ctypes.c_void_p],
    dim_values: ctypes.Array[ctypes.c_int64],
    result: Array | tuple[Array, ...],
) -> Callable[[], Result]:
    lock = threading.Lock()

    def run() -> Result:
        if not lock.acquire(blocking=False):
            _busy(executable.label)
        try:
            executable.linked.run(executable.pool, ctypes.addressof(buffers), ctypes.addressof(dim_values))
        finally:
            lock.release()
        return result

    return run


def _busy(label: str) -> NoReturn:
    raise UserError(
        f"{label}: this bound call is already running in another thread; fix: bind once per thread"
    )


def _targets(
    executable: Executable,
    shapes: Sequence[tuple[int, ...]],
    inputs: Sequence[Array],
    outputs: Sequence[object],
) -> list[Array]:
    """Checks and returns the arrays for the outputs. Raises `UserError` unless each can be written in place
    without disturbing another array."""
    label = executable.label
    if len(outputs) != len(executable.outputs):
        raise UserError(f"{label} has {len(executable.outputs)} outputs, got {len(outputs)} buffers")
    targets: list[Array] = []
    for spec, shape, target in zip(executable.outputs, shapes, outputs, strict=True):
        what = f"{label}: buffer of output {spec.name!r}"
        make = f"fix: numpy.empty({shape}, {str(spec.dtype.numpy)!r})"
        if not isinstance(target, np.ndarray) or is_masked(target):
            raise UserError(f"{what} must be an array, got a {type(target).__name__}; {make}")
        if target.dtype != spec.dtype.numpy or target.shape != shape:
            raise UserError(
                f"{what} must be {spec.dtype}{list(shape)}, got {target.dtype}{list(target.shape)}; {make}"
            )
        if not (target.flags.c_contiguous and target.flags.aligned):
            raise UserError(f"{what} is not C-contiguous and aligned; {make}")
        if not target.flags.writeable:
            raise UserError(f"{what} is read-only; {make}")
        targets.append(target)
    others = [(f"input {spec.name!r}", array) for spec, array in zip(executable.inputs, inputs, strict=True)]
    others += [
        (f"constant {spec.name!r}", array)
        for spec, array in zip(executable.compiled.constants, executable.constants, strict=True)
    ]
    for spec, target in zip(executable.outputs, targets, strict=True):
        for name, other in others:
            if np.may_share_memory(target, other):
                raise UserError(
                    f"{label}: buffer of output {spec.name!r} overlaps {name}; fix: a buffer of its own"
                )
        others.append((f"output {spec.name!r}", target))
    return targets
