"""Provides a linked model with everything that a run needs, and the complete way to run it, with explanations
of errors.

The native entry (`native/entry.ll`) handles calls with arrays of the right types and shapes and calls
this module for everything else; without a native entry, all calls come here. Both follow the same steps: check inputs, bind
dims, `jn_prepare`, allocate, `jn_run`.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn

from ...graph.dims.dim import Dim
from ...lowering.artifact import CompiledGraph
from ...promotion.arrays import Array, DeviceArray
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import InternalError, UserError, close_names
from ..device import Device, GpuLinkedModel, Result
from ..gpu import DeviceArrays
from ..host import memory
from ..host.threadpools import register
from ..host.threads import pool_address, resolve_threads
from ..storage.weight_packing import stored_shape
from .inputs import InputSpec, bind_dims, check_device_array, convert, describe

_MAX_RANK = 64


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one run: the dims passed to the code, the bytes of its arena, and the shape of every output."""

    dims: Mapping[str, int]
    dim_values: ctypes.Array[ctypes.c_int64]
    arena_bytes: int
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class DeviceValues:
    """Values for inputs, at least one of which lives on the model's device.

    found: for each value its array on the device; None for values that live elsewhere.
    """

    linked: GpuLinkedModel
    values: Sequence[object]
    found: Sequence[DeviceArray | None]


def refuse_pickle(what: str) -> NoReturn:
    """Raises the `TypeError` for a model, or what belongs to one, that somebody pickles."""
    raise TypeError(
        f"{what} cannot be pickled; fix: m.save(path) and joinery.load(path), or joinery.distributed.reference(m), which "
        "travels in its place and opens it once per process"
    )


class Executable:
    """A compiled graph, linked, with its constants in place.

    Args:
        compiled: the compiled form.
        constants: one array per `compiled.constants`, in their stored layout; kept by reference when 64-byte
            aligned.
        device: the device that it runs on.
        threads: see `resolve_threads`.

    Raises `UserError` when the constants do not fit their specs.
    """

    def __init__(
        self, compiled: CompiledGraph, constants: Sequence[Array], device: Device, threads: int | None
    ) -> None:
        self.compiled = compiled
        self.label = f"model {compiled.name!r}"
        self.threads = resolve_threads(threads)
        self.linked = device.link(compiled)  # first: it loads the native library with the device's store
        self.constants = self._check_constants(constants)
        self.inputs = tuple(InputSpec.of(spec) for spec in compiled.inputs)
        self.outputs = tuple(InputSpec.of(spec) for spec in compiled.outputs)
        for spec in (*self.inputs, *self.outputs):
            if len(spec.shape) > _MAX_RANK:
                raise UserError(
                    f"{self.label}: {spec.text} has rank {len(spec.shape)}; NumPy arrays have at most "
                    f"{_MAX_RANK}"
                )
        self.slots = self._assign_slots()
        register()
        self.pool = pool_address(self.threads)
        self._empty = device.empty
        self.profiled = threading.Lock()
        self._profile_table: ctypes.Array[ctypes.c_int64] | None = None

    def _check_constants(self, constants: Sequence[Array]) -> tuple[Array, ...]:
        specs = self.compiled.constants
        if len(constants) != len(specs):
            raise UserError(f"{self.label} has {len(specs)} constants, got {len(constants)} arrays")
        checked = []
        for spec, array in zip(specs, constants, strict=True):
            dtype = DType(spec.dtype)
            shape = stored_shape(spec.shape, spec.layout)
            if array.dtype != dtype.numpy or array.size != math.prod(shape):
                raise UserError(
                    f"{self.label}: constant {spec.name!r} expects {dtype}{list(shape)} (layout "
                    f"{spec.layout}), "
                    f"got {array.dtype}{list(array.shape)}"
                )
            checked.append(memory.aligned_copy(array.reshape(shape)))
        return tuple(checked)

    def _assign_slots(self) -> dict[str, int]:
        """Assigns every dim its position among the sizes passed to the code: first the compiled dims, then
        those that only inputs mention."""
        slots = {name: slot for slot, name in enumerate(self.compiled.dims)}
        mentioned: set[str] = set()
        for spec in self.inputs:
            for entry in spec.shape:
                names = sorted(entry.symbols()) if isinstance(entry, Dim) else []
                mentioned.update(names)
                for name in names:
                    slots.setdefault(name, len(slots))
        missing = [name for name in self.compiled.dims if name not in mentioned]
        if missing:
            raise InternalError(f"{self.label}: no input determines dim {missing[0]!r}")
        return slots

    # --- arguments

    def order(self, named: Mapping[str, object]) -> list[object]:
        """Returns the values in input order. Raises `UserError` for unknown and missing names."""
        names = [spec.name for spec in self.inputs]
        for name in named:
            if name not in names:
                guesses = close_names(str(name), names, n=1)
                hint = f"did you mean {guesses[0]!r}?" if guesses else f"inputs: {', '.join(names) or 'none'}"
                raise UserError(f"{self.label} has no input {name!r}; {hint}")
        missing = [name for name in names if name not in named]
        if missing:
            raise UserError(
                f"{self.label}: missing input {', '.join(map(repr, missing))}; expects {self._signature()}"
            )
        return [named[name] for name in names]

    def collect(self, values: Sequence[object], named: Mapping[str, object]) -> list[object]:
        """Returns positional and named values in input order. Raises `UserError` for inputs given twice and
        for a wrong number of values."""
        if named:
            names = [spec.name for spec in self.inputs]
            given = dict(zip(names, values, strict=False))
            twice = [name for name in named if name in given]
            if twice:
                raise UserError(f"{self.label}: input {twice[0]!r} is given by position and by name")
            if len(values) <= len(names):
                return self.order({**given, **named})
        if len(values) != len(self.inputs):
            count = len(self.inputs)
            raise UserError(
                f"{self.label} takes {count} input{'s' if count != 1 else ''} ({self._signature()}), got "
                f"{len(values)}"
            )
        return list(values)

    def _signature(self) -> str:
        return ", ".join(describe(spec) for spec in self.compiled.inputs) or "none"

    def check(self, values: Sequence[object]) -> tuple[list[Array], Plan]:
        """Converts the inputs and computes the sizes of the run. Raises `UserError` for inputs that do not fit."""
        arrays = [convert(spec, value, self.label) for spec, value in zip(self.inputs, values, strict=True)]
        return arrays, self.plan(bind_dims(self.inputs, arrays, self.label))

    def plan(self, dims: Mapping[str, int]) -> Plan:
        """Computes the sizes of a run with these dims. Raises `UserError` with the message of the check that
        fails."""
        dim_values = (ctypes.c_int64 * max(1, len(self.slots)))()
        for name, slot in self.slots.items():
            dim_values[slot] = dims[name]
        sizes = (ctypes.c_int64 * (1 + sum(len(spec.shape) for spec in self.outputs)))()
        failed = self.linked.prepare(ctypes.addressof(dim_values), ctypes.addressof(sizes))
        bound = ", ".join(f"{name} = {value}" for name, value in dims.items()) or "no symbolic dims"
        if failed != -1:
            if not 0 <= failed < len(self.compiled.checks):
                raise InternalError(f"{self.label}: jn_prepare answered {failed} for {bound}")
            error = UserError(f"{self.label}: {self.compiled.checks[failed]} ({bound})")
            error.refuses_sizes = True
            raise error
        if sizes[0] < 0:
            raise InternalError(f"{self.label}: jn_prepare asks for an arena of {sizes[0]} bytes for {bound}")
        shapes, at = [], 1
        for spec in self.outputs:
            shape = tuple(sizes[at : at + len(spec.shape)])
            at += len(spec.shape)
            if min(shape, default=0) < 0:
                raise UserError(f"{self.label}: output {spec.text} would have shape {shape} for {bound}")
            if math.prod([size or 1 for size in shape]) * spec.dtype.itemsize >= 1 << 63:  # NumPy counts sizes beside a 0, too
                raise UserError(f"{self.label}: output {spec.text} would have shape {shape} for {bound}, beyond 64 bits")
            shapes.append(shape)
        return Plan(dims, dim_values, sizes[0], tuple(shapes))

    # --- runs

    def buffers(
        self, inputs: Iterable[Array], outputs: Iterable[Array], arena: int
    ) -> ctypes.Array[ctypes.c_void_p]:
        """Returns the addresses that `jn_run` takes: inputs, constants, outputs, arena."""
        arrays = [*inputs, *self.constants, *outputs]
        return (ctypes.c_void_p * (len(arrays) + 1))(*map(memory.address, arrays), arena)

    def allocate(self, plan: Plan) -> list[Array]:
        return [
            self._empty(shape, spec.dtype.numpy)
            for spec, shape in zip(self.outputs, plan.shapes, strict=True)
        ]

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array], plan: Plan) -> None:
        """Runs the model once on checked arrays; the outputs must be aligned and must not overlap anything."""
        with memory.scratch(plan.arena_bytes) as arena:
            buffers = self.buffers(inputs, outputs, arena)
            self.linked.run(self.pool, ctypes.addressof(buffers), ctypes.addressof(plan.dim_values))

    def profile_table(self, entries: int) -> ctypes.Array[ctypes.c_int64]:
        """Returns the table in which native code notes times. It lives as long as the code: another thread's call that has
        seen it may look at it late."""
        if self._profile_table is None:
            self._profile_table = (ctypes.c_int64 * entries)()
        return self._profile_table

    def on_device(self, values: Sequence[object]) -> DeviceValues | None:
        """Returns the values with their arrays on the model's device; None if no value lives there."""
        linked = self.linked.on_device
        if linked is None:
            return None
        found = [linked.arrays.array_of(value) for value in values]
        return None if all(array is None for array in found) else DeviceValues(linked, values, found)

    def call_on_device(self, given: DeviceValues) -> Result:
        """Runs the model with inputs on the device: the outputs are there too, and may not be written yet."""
        linked = given.linked
        inputs = self.check_on_device(given)
        plan = self.plan(bind_dims(self.inputs, inputs, self.label))
        outputs = self.allocate_on_device(linked.arrays, plan)
        linked.run_on_device(inputs, self.constant_addresses, outputs, ctypes.addressof(plan.dim_values))
        linked.arrays.wait_for_foreign([array for array in given.found if array is not None])
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def check_on_device(self, given: DeviceValues) -> list[Array | DeviceArray]:
        """Checks inputs on the device, which stay as they are, and converts the others. Raises `UserError`
        for inputs that do not fit."""
        return [
            convert(spec, value, self.label) if array is None else check_device_array(spec, array, self.label)
            for spec, value, array in zip(self.inputs, given.values, given.found, strict=True)
        ]

    def allocate_on_device(self, arrays: DeviceArrays, plan: Plan) -> list[DeviceArray]:
        return [
            arrays.new_array(shape, spec.dtype.numpy)
            for spec, shape in zip(self.outputs, plan.shapes, strict=True)
        ]

    @functools.cached_property
    def constant_addresses(self) -> list[int]:
        return [memory.address(array) for array in self.constants]

    def __reduce__(self) -> NoReturn:
        refuse_pickle("what calls a joinery.Model")

    def call(self, *values: object, **named: object) -> Result:
        """Checks the inputs, runs the model and returns the output array, or a tuple of output arrays."""
        given = self.collect(values, named)
        there = self.on_device(given)
        if there is not None:
            return self.call_on_device(there)
        arrays, plan = self.check(given)
        outputs = self.allocate(plan)
        self.run(arrays, outputs, plan)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)
