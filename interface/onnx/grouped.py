"""Models in ONNX of whose outputs some are sequences: a call returns these as lists of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...graph.onnx.importer import ImportedModel, Rows, Structure, is_plain, joined
from ...lowering.artifact import CompiledGraph, TensorSpec
from ...lowering.sanitize import ModelReport
from ...promotion.errors import UserError
from ...runtime.model.inputs import describe
from ...runtime.model.kernels import Kernel
from ...runtime.model.profiling import Profile
from ..model import Model


def grouped(model: Model, imported: ImportedModel) -> Model:
    """Return a compiled model whose outputs are those of the model in ONNX: lists for sequences, None for what is absent."""
    return model if all(is_plain(structure) for _, structure in imported.outputs) else GroupedModel(model, imported.outputs)


class GroupedModel(Model):
    """A compiled model whose outputs are arrays, lists of them, or None.

    `model` is the compiled model, which returns each element of a sequence as an output of its own, `name.0`, `name.1`, or
    all as one array, if values decide how many there are or they are dictionaries. It is what is saved.
    """

    __slots__ = ("_model", "_structures")

    def __init__(self, model: Model, structures: Sequence[tuple[str, Structure]]) -> None:
        """Make a model. structures: the name of each output, and which outputs of `model` it consists of."""
        self._model, self._structures = model, tuple(structures)

    def __call__(self, *arrays: object, **named: object) -> Any:
        """Run the model on inputs given by position or by name; return the output, or a tuple of them."""
        result = self._model(*arrays, **named)
        results = (result,) if len(self._model.outputs) == 1 else result
        outputs = tuple([joined(structure, results) for _, structure in self._structures])
        return outputs[0] if len(outputs) == 1 else outputs

    def run(self, inputs: Mapping[str, object]) -> dict[str, Any]:
        """Run the model on inputs by name; return the outputs by name."""
        if not isinstance(inputs, Mapping):
            raise UserError(
                f"model {self.name!r}: run takes a mapping of input names to arrays, not a {type(inputs).__name__}; "
                "fix: call the model itself with arrays"
            )
        result = self(**inputs)
        outputs = (result,) if len(self._structures) == 1 else result
        return {name: output for (name, _), output in zip(self._structures, outputs, strict=True)}

    @property
    def model(self) -> Model:
        """The compiled model, whose outputs are arrays."""
        return self._model

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self._model.name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input, in call order."""
        return self._model.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every output; of a sequence those of its first element, the dtype as `seq(float32)`."""
        return tuple([_spec(name, structure, self._model.outputs) for name, structure in self._structures])

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbolic dims of the inputs."""
        return self._model.dims

    @property
    def threads(self) -> int:
        """Threads a call may use, the caller included."""
        return self._model.threads

    @property
    def numerics(self) -> str:
        """The numerics that the model was compiled with."""
        return self._model.numerics

    @property
    def compiled(self) -> CompiledGraph:
        """The compiled form."""
        return self._model.compiled

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels, in launch order."""
        return self._model.kernels

    def plan(self) -> str:
        """Return the launches as a printed table."""
        return self._model.plan()

    def save(self, path: Any, targets: Sequence[str] | None = None) -> None:
        """Write the compiled model, whose outputs are arrays."""
        self._model.save(path, targets)

    def profile(self, *inputs: object, repeat: int = 10, **named: object) -> Profile:
        """Call the model several times, and return how long its kernels take."""
        return self._model.profile(*inputs, repeat=repeat, **named)

    def sanitize(self, *inputs: object, **named: object) -> ModelReport:
        """Run the model's block programs with all accesses checked."""
        return self._model.sanitize(*inputs, **named)

    def bind(self, *inputs: object, outputs: object = None, **named: object) -> Any:
        """Bind the compiled model, whose outputs are arrays."""
        return self._model.bind(*inputs, outputs=outputs, **named)

    def __repr__(self) -> str:
        inputs, outputs = (", ".join(map(describe, specs)) for specs in (self.inputs, self.outputs))
        return f"<joinery.GroupedModel {self.name!r} ({inputs}) -> ({outputs})>"


def _spec(name: str, structure: Structure, outputs: Sequence[TensorSpec]) -> TensorSpec:
    if isinstance(structure, int):
        return TensorSpec(name, outputs[structure].dtype, outputs[structure].shape)
    if isinstance(structure, Rows):
        rows = outputs[structure.output]
        if structure.keys is not None:
            return TensorSpec(name, f"seq(map({rows.dtype}))", ())
        return TensorSpec(name, f"seq({rows.dtype})", rows.shape[1:])
    if not structure:
        return TensorSpec(name, "seq()" if structure is not None else "absent", ())
    first = _spec(name, structure[0], outputs)
    return TensorSpec(name, f"seq({first.dtype})", first.shape)
