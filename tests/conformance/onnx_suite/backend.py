"""Runs models for ONNX's own backend suite: imported, compiled for the host or evaluated, specialised where needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.onnx.importer import ImportedModel, import_model, joined, read_model
from joinery.graph.onnx.messages import ValueNeededError
from onnx.backend.base import Backend, BackendRep


class Prepared(BackendRep):
    """A model that is imported when it is run, because sizes may depend on the values of inputs.

    Attributes:
        specialised: the inputs that were made constants in the last run.
        computes: whether its graph had inputs.
    """

    def __init__(self, model: Any, device: str | None) -> None:
        self.model, self.device = model, device
        self.specialised: tuple[str, ...] = ()
        self.computes = False

    def run(self, inputs: Sequence[Any], **_: Any) -> tuple[Any, ...]:
        constants = {tensor.name for tensor in self.model.graph.initializer}
        parameters = [value for value in self.model.graph.input if value.name not in constants]
        given = {value.name: array(each) for value, each in zip(parameters, inputs, strict=False)}
        fixed = {value.name: given[value.name] for value in parameters if not value.type.HasField("tensor_type")}
        while True:
            try:
                imported = import_model(*read_model(self.model), fixed)
                break
            except ValueNeededError as error:
                wanted = {name: given[name] for name in error.inputs if name not in fixed}
                if not wanted:
                    raise
                fixed.update(wanted)
        self.specialised, self.computes = tuple(fixed), bool(imported.input_names)
        assert imported.graph.casts() == ()
        arrays = [given[name] for name in imported.input_names]
        return tuple(joined(structure, self.results(imported, arrays)) for _, structure in imported.outputs)

    def results(self, imported: ImportedModel, arrays: list[Any]) -> tuple[Any, ...]:
        if not imported.graph.finished:
            return ()
        if self.device is None:
            found = jn.evaluate(imported.graph, *arrays)
        else:
            found = jn.compile(imported.graph, device=self.device, cache=False)(*arrays)
        return found if isinstance(found, tuple) else (found,)


def array(value: Any) -> Any:
    """An input as the suite gives it: NumPy scalars become arrays."""
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)):
        return [array(each) for each in value]
    return np.asarray(value)


class Joinery(Backend):
    """The backend as the suite calls it. `last` is what was prepared last; device: None for the evaluator."""

    device: str | None = "cpu"
    last: Prepared | None = None

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> Prepared:
        cls.last = Prepared(model, cls.device)
        return cls.last

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device == "CPU"


class Evaluated(Joinery):
    """The same, with the reference evaluator."""

    device = None


class Simulated(Joinery):
    """The same, on a simulated GPU."""

    device = "ptxsim"
