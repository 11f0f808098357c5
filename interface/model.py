"""Defines `joinery.Model`: the compiled model, with what needs the graph's block programs beside its code."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..graph.location import UNKNOWN
from ..lowering.artifact import CompiledGraph
from ..promotion.arrays import Array
from ..promotion.errors import InternalError
from ..promotion.float_modes import default_modes
from ..runtime.device import Device
from ..runtime.model.model import Archive
from ..runtime.model.model import Model as RuntimeModel
from ..runtime.model.profiling import Profile, Recorder, clock, profile_of, require_calls
from ..runtime.storage.artifact_file import Assembled

if TYPE_CHECKING:
    from ..lowering.choices.model_schedule import ModelSchedule
    from ..lowering.sanitize import ModelReport
    from ..lowering.stages import Tiled


class Model(RuntimeModel):
    __doc__ = RuntimeModel.__doc__

    __slots__ = ("_saving", "_tiled")

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
        tiled: Callable[[], Tiled] | None = None,
        digest: str | None = None,
        saving: Callable[[Assembled, str | os.PathLike[str], Sequence[str]], None] | None = None,
    ) -> None:
        """Make a model.

        `tiled` makes the block programs and their launches, `saving` writes what is saved with code for other targets; the
        others are those of the class.
        """
        super().__init__(
            compiled, constants, graph_text, threads, weights=weights, archive=archive, device=device, digest=digest
        )
        self._tiled, self._saving = tiled, saving

    def save(self, path: str | os.PathLike[str], targets: Sequence[str] | None = None) -> None:
        """Write the model as one file: graph, object code, weights. An existing file is replaced when the new one is complete.

        Args:
            path: where to write.
            targets: what to compile for, as for `joinery.save`; by default the file has this model's own code, and of a trusted
                file that it was loaded from the code for other targets as well.

        The graph in the file is the one that this model was compiled from, which for GPUs has no codes of 8 bits and fewer
        any more: a quantised graph is saved for CPUs, and for both, by `joinery.save`.

        Code that was compiled with `debug=True` keeps the lines of its sources, with their full paths. Raises `UserError` when
        the path cannot be written, and what `joinery.save` raises.
        """
        if targets is None:
            super().save(path)
            return
        if self._saving is None:
            raise InternalError(f"model {self.name!r} was made without its compiler")
        self._saving(self.assembled(), path, targets)

    def sanitize(self, *inputs: object, **named: object) -> ModelReport:
        """Run every kernel of the model under the sanitizer, in launch order, on these inputs.

        Each lane of every access is checked against the bounds of its array. Other findings are reads of memory that no kernel
        has written, writes to inputs and weights, wrapped offsets, uses of undefined values, races between the programs of a
        launch, and elements of outputs that are never written. Findings name the lines of the graph.

        The block programs that the model's code was made of (`Kernel.ttir`) are interpreted with NumPy on the host,
        whatever the model's device is: this is slow, and for small inputs. Loops run all their iterations; memory that these
        share counts as written after the first one.

        Args:
            inputs, named: what a call of the model takes, arrays of the host.

        Raises `UserError` for inputs that do not fit, `UnsupportedError` for operations the interpreter does not know.
        """
        if self._tiled is None:
            raise InternalError(f"model {self.name!r} was made without block programs")
        arrays, plan = self._executable.check(self._executable.collect(inputs, named))
        from ..lowering.sanitize import sanitize_launches

        with default_modes():
            return sanitize_launches(self._tiled(), arrays, self._executable.constants, plan.dims)


    def profile(self, *inputs: object, repeat: int = 10, **named: object) -> Profile:
        """Call the model several times, and return how long each of its kernels takes.

        Native code notes the time after every launch; calls of other threads meanwhile are not counted. Without a profile a
        launch costs a branch more.

        Args:
            inputs, named: what a call of the model takes, arrays of the host.
            repeat: how many calls are measured; one more comes before them.

        Raises `UserError` for inputs that do not fit, `UnsupportedError` for models on a GPU.
        """
        executable = self._executable
        calls = require_calls(executable.label, repeat)
        values = executable.collect(inputs, named)
        recorder = Recorder(executable, self.kernels)
        seconds = []
        for number in range(calls + 1):
            start = clock()
            recorder.call(values)
            seconds.append(clock() - start)
            if not number:
                recorder.forget()
        return profile_of(self.name, self.threads, seconds[1:], recorder.found(self.launch_lines()))

    @property
    def schedule(self) -> ModelSchedule:
        """How the model's kernels are cut into programs, all that the cost model chose included: `print` shows it as text,
        `replaced` changes it, and `joinery.compile(graph, schedule=)` takes it."""
        if self._tiled is None:
            raise InternalError(f"model {self.name!r} was made without block programs")
        from ..lowering.choices.kernel_schedules import schedule_of

        tiled = self._tiled()
        is_gpu = self._compiled.gpu is not None
        return schedule_of(tiled.laid_out.names, tiled.plan.nests, tiled.schedules, is_gpu)

    def launch_lines(self) -> list[tuple[str, ...]]:
        """Return the lines of the user that each launch computes; nothing where the block programs are not known."""
        if self._tiled is None:
            return []
        from ..lowering.tile.user_lines import nest_lines

        every = [nest_lines(nest) for nest in self._tiled().plan.nests]  # files of older versions have no lines
        return [tuple(dict.fromkeys([str(line) for line in lines if line != UNKNOWN])) for lines in every]


__all__ = ["Model"]
