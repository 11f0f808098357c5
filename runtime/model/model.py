"""Provides the compiled model that users hold: they call it, bind it, inspect it and save it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

import numpy as np

from ...lowering.artifact import CompiledGraph, TensorSpec
from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ..device import Device, Result
from ..host.device import HostDevice
from ..storage import artifact_file
from .call import BoundCall, entry_function
from .device_call import BoundDeviceCall
from .executable import Executable, refuse_pickle
from .inputs import describe
from .kernels import Kernel, kernels_of, plan_table

Archive = tuple[Sequence[artifact_file.Code], str, Sequence[artifact_file.StoredWeight], Mapping[str, str]]
"""Code, the graph as text, its arrays, and what a file says of the options."""


class Model:
    """A compiled graph, ready to run.

    `m(x, y)` runs it on NumPy arrays, given by position or by input name, and returns one array or a tuple.
    Any memory layout is accepted and copied only when it is not C-contiguous; dtypes and shapes must match
    `m.inputs`, where equal names of symbolic dims must have equal extents. Outputs are new arrays that
    overlap nothing. Calls may come from several threads at once.

    A model on a CUDA device takes arrays on that device too: `Buffer`s, and arrays of other libraries by DLPack or the CUDA
    array interface. With one of them among the inputs the outputs are `Buffer`s, and nothing goes through the host.

    Args:
        compiled: the compiled form.
        constants: one array per `compiled.constants`, in their stored layout. They are read in place: do not
            write to them.
        graph_text: the graph as text, kept for `save`.
        threads: threads of a call, the caller included, from 1 to 1024; None uses the physical cores that the
            process may run on, 1 keeps all work on the calling thread.
        weights: the graph's weights by name, in their plain layout, for `save`; those among `constants` may
            be left out.
        archive: returns what `save` writes: all code, the graph as text, all of its arrays, and what else the file says. It is
            called by `save`, and replaces `graph_text` and `weights`.
        device: the device that it runs on; the host by default.
        digest: that of the file that it was loaded from.

    Raises `UserError` when constants do not fit their specs or `threads` is not a thread count.
    """

    # `m(x)` looks `__call__` up on the type: a class of its own per model lets the interpreter go straight
    # into the native entry.
    def __new__(cls, *args: object, **options: object) -> Model:
        del args, options
        return object.__new__(type(cls.__name__, (cls,), {"__module__": cls.__module__, "__slots__": ()}))

    __slots__ = ("__weakref__", "_archive", "_compiled", "_digest", "_executable", "_graph_text", "_kernels", "_weights")

    def __init__(
        self,
        compiled: CompiledGraph,
        constants: Sequence[Array],
        graph_text: str,
        threads: int | None = None,
        *,
        weights: Mapping[str, Array] | None = None,
        archive: Callable[[], Archive] | None = None,
        device: Device | None = None,
        digest: str | None = None,
    ) -> None:
        self._compiled = compiled
        self._digest = digest
        self._graph_text = graph_text
        self._weights = dict(weights or {})
        self._archive = archive
        self._executable = Executable(compiled, constants, device or HostDevice(), threads)
        self._kernels = kernels_of(compiled)
        type(self).__call__ = entry_function(self._executable)  # type: ignore[method-assign]

    def __del__(self) -> None:
        # A class is part of a reference cycle with itself; without this, only the cycle collector would free the
        # weights.
        if "__call__" in type(self).__dict__ and type(self) is not Model:
            del type(self).__call__

    def __call__(self, *arrays: object, **named: object) -> Result:
        """Runs the model on inputs given by position or by name; returns the output array, or a tuple of them
        (see the class)."""
        return self._executable.call(*arrays, **named)

    def run(self, inputs: Mapping[str, object]) -> dict[str, Array]:
        """Runs the model on inputs by name; returns the outputs by name. Raises `UserError` for unknown and
        missing names."""
        if not isinstance(inputs, Mapping):
            raise UserError(
                f"{self._executable.label}: run takes a mapping of input names to arrays, not a "
                f"{type(inputs).__name__}; "
                "fix: call the model itself with arrays"
            )
        result = self(*self._executable.order(inputs))
        outputs = (result,) if len(self.outputs) == 1 else result
        return {spec.name: array for spec, array in zip(self.outputs, outputs, strict=True)}

    def bind(
        self,
        *inputs: object,
        outputs: object = None,
        **named: object,
    ) -> BoundCall | BoundDeviceCall:
        """Prepares a call on exactly these arrays: nothing is checked, converted, copied or allocated when it runs.

        Args:
            inputs, named: C-contiguous arrays of the exact dtype, all of the host or all on the model's device. Write into
                them to run on new values.
            outputs: the arrays to write, by position or by name; new ones when left out.

        Raises `UserError` when an input would need a copy, or a buffer does not fit or overlaps another
        array.
        """
        values = self._executable.collect(inputs, named)
        there = self._executable.on_device(values)
        if there is not None:
            return BoundDeviceCall(self._executable, there, self._output_list(outputs))
        return BoundCall(self._executable, values, self._output_list(outputs))

    def _output_list(self, outputs: object) -> Sequence[object] | None:
        if outputs is None:
            return None
        if isinstance(outputs, np.ndarray) or self._executable.on_device([outputs]) is not None:
            return [outputs]
        if isinstance(outputs, Mapping):
            names = [spec.name for spec in self.outputs]
            if sorted(outputs) != sorted(names):
                raise UserError(
                    f"{self._executable.label}: outputs must name exactly {', '.join(names)}, got "
                    f"{', '.join(map(str, outputs))}"
                )
            return [outputs[name] for name in names]
        if not isinstance(outputs, Sequence):
            raise UserError(
                f"{self._executable.label}: outputs must be arrays, got {type(outputs).__name__}; "
                "fix: a list of arrays, or a mapping of output names to arrays"
            )
        return list(outputs)

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._compiled.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in call order."""
        return self._compiled.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output, in the order they are returned."""
        return self._compiled.outputs

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbolic dims."""
        return self._compiled.dims

    @property
    def threads(self) -> int:
        """Threads a call may use, the caller included."""
        return self._executable.threads

    @property
    def compiled(self) -> CompiledGraph:
        """The compiled form."""
        return self._compiled

    @property
    def numerics(self) -> str:
        """The numerics that the model was compiled with: "strict" or "fast"."""
        return self._compiled.numerics

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in launch order."""
        return self._kernels

    def plan(self) -> str:
        """Returns the launches as a printed table: grid, tiles, bytes, flops, and which operations each
        kernel fuses."""
        return plan_table(self._kernels)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model as one file: graph, object code, weights. Replaces an existing file atomically.

        Code that was compiled with `debug=True` keeps the lines of its sources, with their full paths.
        Raises `UserError` when the path cannot be written.
        """
        if not isinstance(path, (str, os.PathLike)):
            raise UserError(
                f"{self._executable.label}: save expects a path, got {type(path).__name__}; "
                "fix: save('model.joinery')"
            )
        self.assembled().write(path)

    @property
    def digest(self) -> str:
        """The SHA-256, in hexadecimal, that stands for the model's file: the one it was loaded from, or the one that `save`
        writes. It is that of the file's manifest, which has those of all parts (docs/artifact.md)."""
        if self._digest is None:
            self._digest = self.assembled().digest
        return self._digest

    def assembled(self) -> artifact_file.Assembled:
        """Returns what `save` writes. Of a model that was loaded and whose code is that of its file this is the file."""
        if self._archive is not None:
            compiled, text, arrays, metadata = self._archive()
            return artifact_file.assemble(self.name, text, compiled, arrays, metadata)
        stored = {
            spec.name: artifact_file.StoredWeight(spec.name, spec.dtype, spec.shape, spec.layout, array)
            for spec, array in zip(self._compiled.constants, self._executable.constants, strict=True)
        }
        for name, array in self._weights.items():
            stored.setdefault(name, artifact_file.StoredWeight.plain(name, array))
        weights, metadata = list(stored.values()), {"numerics": self.numerics}
        return artifact_file.assemble(self.name, self._graph_text, [self._compiled], weights, metadata)

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, self.inputs))
        outputs = ", ".join(map(describe, self.outputs))
        kernels = f"{len(self._kernels)} kernel{'s' if len(self._kernels) != 1 else ''}"
        return f"<joinery.Model {self.name!r} ({inputs}) -> ({outputs}); {kernels}, {self.threads} threads>"

    def __reduce__(self) -> NoReturn:
        refuse_pickle("a joinery.Model")
