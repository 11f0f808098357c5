"""Provides prepared calls on arrays in the memory of a device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NoReturn

from ...lowering.artifact import GPU_ALIGNMENT
from ...promotion.arrays import DeviceArray
from ...promotion.errors import UserError
from ..device import Result
from ..gpu import DeviceArrays
from .executable import DeviceValues, Executable
from .inputs import bind_dims


class BoundDeviceCall:
    """A prepared call on arrays of a device: nothing is checked, copied or allocated when it runs.

    Calling it queues a run and returns the outputs, which may not be written yet: kernels that read them on the device, and
    `numpy()`, wait for them. The inputs are read anew by every run.

    Attributes:
        inputs: the arrays that are read, by name.
        outputs: the arrays that are written, by name.
    """

    __slots__ = ("_addresses", "_arrays", "_bound", "_label", "_launches", "_result", "inputs", "outputs")

    def __init__(
        self,
        executable: Executable,
        values: DeviceValues,
        outputs: Sequence[object] | None,
    ) -> None:
        label = executable.label
        linked = values.linked
        arrays = linked.arrays
        for spec, value, array in zip(executable.inputs, values.values, values.found, strict=True):
            if array is None:
                raise UserError(
                    f"{label}: bind makes no copies: input {spec.name!r} is a {type(value).__name__}, others are on the "
                    f"device; fix: bind joinery.Buffer({spec.name})"
                )
        given = [array for array in values.found if array is not None]
        executable.check_on_device(values)
        plan = executable.plan(bind_dims(executable.inputs, given, label))
        shapes = plan.shapes
        targets = (
            executable.allocate_on_device(arrays, plan)
            if outputs is None
            else _targets(executable, arrays, shapes, given, outputs)
        )
        for spec, array in zip((*executable.inputs, *executable.outputs), (*given, *targets), strict=True):
            if array.address % GPU_ALIGNMENT:
                raise UserError(
                    f"{label}: {spec.name!r} starts at {array.address:#x} on the device, which is no multiple of "
                    f"{GPU_ALIGNMENT}; fix: bind a copy, or call the model itself"
                )
        self.inputs = {spec.name: array for spec, array in zip(executable.inputs, given, strict=True)}
        self.outputs = {spec.name: array for spec, array in zip(executable.outputs, targets, strict=True)}
        self._result = targets[0] if len(targets) == 1 else tuple(targets)
        self._label = label
        self._bound = [*given, *targets]
        self._addresses = [array.address for array in self._bound]
        self._arrays = arrays
        self._launches = linked.record_on_device(
            given, executable.constant_addresses, targets, ctypes.addressof(plan.words)
        )

    def __call__(self) -> Result:
        if [array.address for array in self._bound] != self._addresses:
            raise UserError(f"{self._label}: a bound array was freed; fix: free it after the last call, or bind anew")
        self._launches.replay()
        self._arrays.settle(self._bound)
        return self._result

    def __reduce__(self) -> NoReturn:
        raise UserError("a bound call cannot be copied or pickled: it is for its own arrays; fix: model.bind(…) once more")


def _targets(
    executable: Executable,
    arrays: DeviceArrays,
    shapes: Sequence[tuple[int, ...]],
    inputs: Sequence[DeviceArray],
    outputs: Sequence[object],
) -> list[DeviceArray]:
    """Checks and returns the buffers for the outputs. Raises `UserError` unless each can be written in place
    without disturbing another array."""
    label = executable.label
    if len(outputs) != len(executable.outputs):
        raise UserError(f"{label} has {len(executable.outputs)} outputs, got {len(outputs)} buffers")
    targets: list[DeviceArray] = []
    others = [(f"input {spec.name!r}", array) for spec, array in zip(executable.inputs, inputs, strict=True)]
    for spec, shape, output in zip(executable.outputs, shapes, outputs, strict=True):
        what = f"{label}: buffer of output {spec.name!r}"
        make = f"fix: joinery.Buffer({shape}, {spec.dtype.name!r})"
        found = arrays.array_of(output)
        if found is None:
            raise UserError(f"{what} must be on the device, as the inputs are, got a {type(output).__name__}; {make}")
        if found.dtype != spec.dtype.numpy or found.shape != shape:
            raise UserError(f"{what} must be {spec.dtype}{list(shape)}, got {found.dtype}{list(found.shape)}; {make}")
        if not arrays.is_writeable(found):
            raise UserError(f"{what} is read-only; {make}")
        for name, other in others:
            if found.address < other.address + other.nbytes and other.address < found.address + found.nbytes:
                raise UserError(f"{what} overlaps {name}; fix: a buffer of its own")
        others.append((f"output {spec.name!r}", found))
        targets.append(found)
    return targets
