"""Defines `from_onnx`, the way from a model in ONNX to a graph."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Mapping
from collections.abc import Sequence as Ordered
from typing import Any, TypeAlias

import numpy as np

from ...promotion.dataclass import dataclass
from ...promotion.errors import UserError, printable
from ..checks import Checks
from ..dims.messages import LongSizeError
from ..graph import Graph
from ..location import Location
from ..symbol import Symbol
from ..types import shape_text
from .external import ExternalData
from .importing import Importer, Scope
from .inputs import DimNames, baked, elements_of, input_type
from .limits import OnnxLimits
from .messages import located
from .model import CheckedModel, Parameter
from .reading import checked_model, read_message
from .sizes.origins import sizes_instead
from .tensors import dtype_of_code
from .values import Known, Maps, Optional, Sequence, Sizes, Stacked, Value


@dataclass(frozen=True, slots=True)
class Rows:
    """A sequence whose elements are the slices of an output of the graph along axis 0; with keys, dictionaries of these."""

    output: int
    keys: tuple[int | str, ...] | None = None


Structure: TypeAlias = "int | list[Any] | Rows | None"
"""Of one output of the model: the number of the graph's output, a list of such or its rows for a sequence, None for an absent
optional."""


@dataclass(frozen=True, slots=True, eq=False)
class ImportedModel:
    """A graph, and how its outputs make up those of the model, of which some are sequences.

    Attributes:
        input_names: the arguments of the graph; constants and initialisers are none.
        outputs: the name and structure of each output of the model.
    """

    graph: Graph
    input_names: tuple[str, ...]
    outputs: tuple[tuple[str, Structure], ...]


def from_onnx(
    model: Any,
    *,
    constants: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    elements: Mapping[str, Any] | None = None,
    external_data_dir: str | os.PathLike[str] | None = None,
    limits: OnnxLimits | None = None,
    check_positions: bool = False,
) -> Graph:
    """Return the graph of a model in ONNX (opsets 1 to 28).

    Args:
        model: a path, the bytes of a file, or a `ModelProto`.
        constants: values for inputs, by name, which are then no inputs of the graph. An input that sizes, axes or trip counts
            are computed from has to be one; lists stand for sequences, None for an absent optional.
        sizes: numbers for sizes of inputs that have names, where something cannot be computed for all sizes, such as a
            recurrence over an axis.
        elements: types for inputs that are sequences or optional, by name: a list of the `TensorType` of each element, a type
            for an optional that is there, None for one that is absent. Their tensors are the inputs `name.0`, `name.1`, … (of
            an optional tensor: `name`).
        external_data_dir: the folder of the tensors that are kept outside the model's file; by default the one the file lies
            in. The data is read only from files inside it, and links are not followed.
        limits: budgets for models from strangers.
        check_positions: whether positions out of range are errors of a run, as ONNX says, in Gather, GatherElements, GatherND,
            Scatter, ScatterElements and ScatterND outside of loops and branches. Without it reads are clamped and writes left
            out. The host looks at the positions then, between two compiled parts, on the CPU only.

    Functions are inlined, constants folded, and sizes with names stay symbolic. No implicit cast is made: `casts()` of the
    graph is empty. An output that is a sequence becomes one output for each element, or one array of all elements where values
    decide how many there are, and the matrix of probabilities of ZipMap (`compile_onnx` returns lists, and dictionaries).
    Raises `UserError` for a model that is not well formed, `UnsupportedError` for operators that joinery has no form of; both
    name the file and the node. Needs the package `onnx`, an extra: `pip install 'joinery-graph[onnx]'`.
    """
    checked, budget = read_model(model, external_data_dir, limits)
    imported = import_model(checked, budget, constants, sizes, check_positions, elements)
    if not imported.graph.finished:
        raise UserError("from_onnx: no output of the model is a tensor; fix: make a tensor its output")
    return imported.graph


def read_model(
    model: Any, external_data_dir: str | os.PathLike[str] | None = None, limits: OnnxLimits | None = None
) -> tuple[CheckedModel, OnnxLimits]:
    """Return a model, read and checked as a whole, and what it may need: later changes to its files have no effect."""
    budget = limits or OnnxLimits()
    message, file, folder = read_message(model, budget)
    named = external_data_dir is not None
    external = ExternalData(os.fspath(external_data_dir) if external_data_dir is not None else folder, named)
    return checked_model(message, file, external, budget), budget


def import_model(
    checked: CheckedModel,
    budget: OnnxLimits,
    constants: Mapping[str, Any] | None = None,
    sizes: Mapping[str, int] | None = None,
    check_positions: bool = False,
    elements: Mapping[str, Any] | None = None,
) -> ImportedModel:
    """Return the graph of a checked model, with the structure of the outputs."""
    body, file = checked.graph, checked.file
    graph = Graph(_graph_name(body.name), policy="strict")
    graph.journal.busy = True  # no user builds it, call by call
    graph.shape_checks = Checks(names=False)  # exporters give one size several names, or none: launches check that they agree
    importer = Importer(checked, graph, budget, check_positions)
    scope = Scope(checked.opsets, {})
    given, types = dict(constants or {}), dict(elements or {})
    dims = DimNames(sizes or {}, file)
    for index, parameter in enumerate(body.inputs):
        if parameter.name in given:
            scope.names[parameter.name] = baked(parameter, given.pop(parameter.name), file)
            dims.note(parameter.sizes or ())
        elif parameter.name in types:
            with graph.located(Location(file, index, f"input {parameter.name!r}")):
                scope.names[parameter.name] = elements_of(parameter, types.pop(parameter.name), graph.input, file)
        elif parameter.name not in body.constants:
            with graph.located(Location(file, index, f"input {parameter.name!r}")):
                scope.names[parameter.name] = importer.checked(graph.input(input_type(parameter, dims, file)))
    for argument, left in (("constants", given), ("elements", types)):
        if left:
            known = ", ".join(printable(parameter.name) for parameter in body.inputs)
            raise UserError(f"{file}: {argument} has {sorted(left)}; the inputs are {known}; fix: use their names")
    dims.require_used()
    values = importer.run_body(body, scope)
    symbols: list[Symbol] = []
    names: list[str] = []
    structures: list[tuple[str, Structure]] = []
    with graph.located(Location(file, 0, "outputs")):
        for parameter, value in zip(body.outputs, values, strict=True):
            _compare(parameter, value, file)
            structures.append((parameter.name, _flattened(importer, parameter.name, value, symbols, names)))
        if symbols:
            try:
                graph.output(*symbols, names=names)
            except LongSizeError as error:
                raise located(sizes_instead(graph, error), file) from None
    return ImportedModel(graph, tuple([str(symbol.name) for symbol in graph.inputs]), tuple(structures))


def _compare(parameter: Parameter, value: Value, file: str) -> None:
    """Compare an output with the type that the file declares: another dtype is an error, other sizes are worth a warning."""
    if parameter.kind != "tensor" or not isinstance(value, (Known, Sizes, Symbol)):
        return
    what = f"{file}: output {parameter.name!r:.80}"
    if parameter.element:
        declared = dtype_of_code(parameter.element, what)
        if declared is not value.dtype:
            raise UserError(f"{what} is declared as {declared}, and is {value.dtype}; fix: export the model again")
    sizes, shape = parameter.sizes, value.shape
    if sizes is None:
        return
    pairs = zip(sizes, shape, strict=False)
    differ = any(isinstance(one, int) and one > 0 and isinstance(other, int) and one != other for one, other in pairs)
    if differ or len(sizes) != len(shape):
        text = ", ".join("?" if size is None else str(size) for size in sizes)
        warnings.warn(f"{what} is declared with the shape ({printable(text):.200}), and has {shape_text(shape)}", stacklevel=4)


def is_plain(structure: Structure) -> bool:
    """Return whether an output of the model is one of the graph."""
    return isinstance(structure, int)


def joined(structure: Structure, results: Ordered[Any]) -> Any:
    """Return an output of the model, of the outputs of its graph."""
    if structure is None:
        return None
    if isinstance(structure, Rows):
        if structure.keys is not None:
            return [dict(zip(structure.keys, row, strict=True)) for row in results[structure.output].tolist()]
        return [np.ascontiguousarray(row) for row in results[structure.output]]
    if isinstance(structure, list):
        return [joined(each, results) for each in structure]
    return results[structure]


def _graph_name(name: str) -> str:
    return re.sub(r"[^\w.\- ]", "_", name)[:80].strip() or "model"


def _flattened(importer: Importer, name: str, value: Value | None, symbols: list[Symbol], names: list[str]) -> Structure:
    """Add the tensors of an output to the outputs of the graph, and return how they make it up."""
    if isinstance(value, Optional):
        value = value.value
    if value is None:
        return None
    if isinstance(value, (Stacked, Maps)):
        symbols.append(value.rows)
        names.append(name)
        return Rows(len(symbols) - 1, value.keys if isinstance(value, Maps) else None)
    if isinstance(value, Sequence):
        return [_flattened(importer, f"{name}.{position}", each, symbols, names) for position, each in enumerate(value.items)]
    symbols.append(importer.symbol_of(value, f"output {name!r}"))
    names.append(name)
    return len(symbols) - 1
