"""Compiles models in ONNX whose sizes, axes or trip counts depend on what they are called with: one graph for each of these.

The importer names the inputs whose values it needs as constants, and the sizes that must be numbers. A call takes these from
its arguments, and looks up the model that was compiled for them.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from threading import Lock
from typing import Any, NoReturn

import numpy as np

from ...graph.constants import as_texts
from ...graph.dims.binding import shape_pattern
from ...graph.dims.dim import Dim, Extent
from ...graph.graph import Graph
from ...graph.onnx.importer import ImportedModel, import_model, read_model
from ...graph.onnx.inputs import DimNames
from ...graph.onnx.limits import OnnxLimits
from ...graph.onnx.messages import SizeNeededError, ValueNeededError
from ...graph.onnx.model import CheckedModel, Parameter
from ...graph.onnx.sizes.origins import MAX_SPECIALISED, inputs_that_count
from ...graph.onnx.tensors import dtype_of_code
from ...graph.types import TensorType
from ...lowering.artifact import TensorSpec
from ...promotion.arrays import Array
from ...promotion.dtype import DType, string
from ...promotion.errors import JoineryError, UnsupportedError, UserError, printable
from ...runtime.model.inputs import InputSpec, convert, describe
from ...runtime.model.kernels import Kernel
from ...runtime.model.profiling import Profile
from ...runtime.storage.cache import CacheOption
from ..compiling import compile as compile_graph
from ..model import Model
from .grouped import grouped

_OF_TENSORS = ("tensor", "sequence", "optional")
"""Kinds of inputs whose tensors are arguments of a compiled model; of others the values are constants."""
MAX_KEPT = 64
"""Models that are kept, by what they are specialised to; the one that was used longest ago goes first."""


def compile_onnx(
    model: Any,
    device: str = "auto",
    *,
    target: str | None = None,
    threads: int | None = None,
    numerics: str = "strict",
    cache: CacheOption = True,
    constants: Mapping[str, Any] | None = None,
    external_data_dir: str | os.PathLike[str] | None = None,
    limits: OnnxLimits | None = None,
    check_positions: bool = False,
) -> Model:
    """Import a model in ONNX and compile it.

    Args:
        model, constants, external_data_dir, limits, check_positions: what `from_onnx` takes.
        device, target, threads, numerics, cache: what `compile` takes.

    Where sizes, axes or trip counts depend on the values of inputs, or something cannot be computed for all sizes, the model is
    a `SpecialisedModel`: a call compiles a graph for these values and sizes, and later calls with equal ones find it. Where
    a model for all sizes refuses those of a call, such as two sizes of which one is 1 and broadcast, that call is served by a
    graph for its sizes, too. An input that is a sequence takes a list of arrays, an optional one an array, a list or None; a
    graph is compiled for each number and shapes of their arrays, and their values stay arguments where nothing depends on
    them. An output that is a sequence is returned as a list of arrays. Raises what `from_onnx` and
    `compile` raise; what data inside the model decides cannot be specialised, and the error says so.
    """
    checked, budget = read_model(model, external_data_dir, limits)

    def compiled(imported: ImportedModel) -> Model:
        model = compile_graph(imported.graph, device, target=target, threads=threads, numerics=numerics, cache=cache)
        return grouped(model, imported)

    given = dict(constants or {})

    def imported_for(values: Mapping[str, Any], sizes: Mapping[str, int], elements: Mapping[str, Any]) -> ImportedModel:
        found = import_model(checked, budget, {**given, **values}, sizes, check_positions, elements)
        if not found.graph.finished:
            raise UserError(f"{checked.file}: no output of the model is a tensor; fix: make a tensor its output")
        return found

    others = {parameter.name for parameter in checked.graph.inputs if parameter.kind != "tensor"} - {*checked.graph.constants}
    if not others - set(given):
        try:
            imported = import_model(checked, budget, given, None, check_positions)
            if imported.graph.finished:
                try:
                    general = compiled(imported)
                except UnsupportedError:
                    counts = inputs_that_count(imported.graph)
                    if not counts:
                        raise
                    return SpecialisedModel(checked, given, imported_for, compiled, needed=counts)
                if imported.graph.dim_names and imported.graph.checks:
                    every = partial(SpecialisedModel, checked, given, imported_for, compiled, every_size=True)
                    _serve_refused_sizes(general, every)
                return general
            raise UserError("compile_onnx: no output of the model is a tensor; fix: make a tensor its output")
        except (ValueNeededError, SizeNeededError) as error:
            if not needed_by(error):
                raise

    return SpecialisedModel(checked, given, imported_for, compiled)


def needed_by(error: UnsupportedError) -> tuple[str, ...]:
    """Return the names of inputs and sizes that would have to be known."""
    return (*getattr(error, "inputs", ()), *getattr(error, "sizes", ()))


def _serve_refused_sizes(general: Model, make: Callable[[], SpecialisedModel]) -> None:
    """Let calls whose sizes a model refuses go to one that is compiled for them; what that cannot do either stays refused."""
    kind = type(general)  # each model has a class of its own, which holds the native entry
    entry = vars(kind).get("__call__")
    made: list[SpecialisedModel] = []

    def call(self: Model, *arrays: object, **named: object) -> Any:
        try:
            return entry(*arrays, **named) if entry is not None else super(kind, self).__call__(*arrays, **named)
        except UserError as refused:
            if not refused.refuses_sizes:
                raise
            try:
                if not made:
                    made.append(make())
                return made[0](*arrays, **named)
            except JoineryError:
                raise refused from None

    setattr(kind, "__call__", call)  # noqa: B010 - a type checker refuses to assign methods


class SpecialisedModel(Model):
    """A model in ONNX that is compiled for what it is called with.

    It is called like other models, with arrays of the host. `constants` and `sizes` name what calls have been specialised to so
    far, `specialised(…)` returns the compiled model for arguments, which can be saved and bound.
    """

    __slots__ = ("_build", "_compiled_for", "_composite", "_dims", "_given", "_inputs", "_kept", "_lock", "_name", "_names",
                 "_needed", "_sizes_needed")

    def __init__(
        self, checked: Any, given: Mapping[str, Any],
        build: Callable[[Mapping[str, Any], Mapping[str, int], Mapping[str, Any]], ImportedModel],
        compiled: Callable[[ImportedModel], Model],
        *, every_size: bool = False, needed: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Make a model.

        `build` imports for values, sizes, and types of tensors in sequences and optionals, `compiled` compiles what it made.
        `every_size`: whether all sizes that have names are specialised to, needed or not. `needed`: inputs whose values are.
        """
        self._name, self._given, self._build, self._compiled_for = checked.graph.name or "model", dict(given), build, compiled
        self._inputs = [
            parameter for parameter in checked.graph.inputs if parameter.name not in {*given, *checked.graph.constants}
        ]
        self._dims = _declared(checked, given)
        self._needed = {parameter.name for parameter in self._inputs if parameter.kind not in _OF_TENSORS} | {*needed}
        self._composite = {parameter.name for parameter in self._inputs if parameter.kind in _OF_TENSORS[1:]}
        names_of_sizes = {extent.name for extents in self._dims.values() for extent in extents if isinstance(extent, Dim)}
        self._names = {name for name in names_of_sizes if name is not None}
        self._sizes_needed: set[str] = set(self._names) if every_size else set()
        self._kept: OrderedDict[object, tuple[Model, tuple[str, ...]]] = OrderedDict()
        self._lock = Lock()

    def __call__(self, *arrays: object, **named: object) -> Any:
        """Run the model on inputs given by position or by name; return the output array, or a tuple of them."""
        return self._called(self._by_name(arrays, named))[1]

    def _called(self, values: dict[str, object]) -> tuple[Model, Any]:
        """Call the model for arguments; if it refuses their sizes, call the one that is specialised to all of these."""
        model, inputs = self._found(values)
        try:
            return model, model(*inputs)
        except UserError as refused:
            if not refused.refuses_sizes or self._names <= self._sizes_needed:
                raise
            with self._lock:
                self._sizes_needed |= self._names
            try:
                model, inputs = self._found(values)
            except JoineryError:
                raise refused from None
            return model, model(*inputs)

    def specialised(self, *arrays: object, **named: object) -> Model:
        """Return the compiled model for arguments; its inputs are those that it is not specialised to."""
        return self._found(self._by_name(arrays, named))[0]

    def run(self, inputs: Mapping[str, object]) -> dict[str, Any]:
        """Run the model on inputs by name; return the outputs by name."""
        if not isinstance(inputs, Mapping):
            raise UserError(
                f"model {self.name!r}: run takes a mapping of input names to arrays, not a {type(inputs).__name__}; "
                "fix: call the model itself with arrays"
            )
        model, result = self._called(self._by_name((), dict(inputs)))
        outputs = (result,) if len(model.outputs) == 1 else result
        return {spec.name: array for spec, array in zip(model.outputs, outputs, strict=True)}

    def _by_name(self, arrays: tuple[object, ...], named: Mapping[str, object]) -> dict[str, object]:
        names = [parameter.name for parameter in self._inputs]
        listed = printable(", ".join(names))
        if len(arrays) > len(names):
            raise UserError(f"model {self.name!r}: {len(arrays)} inputs; expected {listed}; fix: one array for each")
        values = dict(zip(names, arrays, strict=False))
        twice = sorted(set(values) & set(named))
        if twice:
            raise UserError(f"model {self.name!r}: input {twice[0]!r} is given by position and by name; fix: give it once")
        values.update(named)
        for problem, found in (("missing", set(names) - set(values)), ("unknown", set(values) - set(names))):
            if found:
                raise UserError(
                    f"model {self.name!r}: {problem} input {sorted(found)[0]!r}; fix: the inputs are {listed}"
                )
        return values

    def _found(self, values: dict[str, object]) -> tuple[Model, list[object]]:
        """Return the model for arguments, and the arguments that it takes."""
        for parameter in self._inputs:
            if parameter.kind == "tensor":
                values[parameter.name] = self._checked(parameter, values[parameter.name])
        sizes = self._sizes_of(values)
        with self._lock:
            while True:
                elements = self._elements(values)
                fixed = {name: values[name] for name in sorted(self._needed)}
                self._require_few(fixed)
                numbers = {name: sizes[name] for name in sorted(self._sizes_needed & sizes.keys())}
                key = (tuple([_key(value) for value in fixed.values()]), tuple(numbers.values()), len(fixed), repr(elements))
                if key in self._kept:
                    self._kept.move_to_end(key)
                    break
                try:
                    imported = self._build(fixed, numbers, elements)
                except (ValueNeededError, SizeNeededError) as error:
                    if not self._learnt(error, values, sizes):
                        self._require_few({name: values[name] for name in error.inputs if name in values})
                        raise
                    continue
                except UnsupportedError:
                    if not elements:
                        raise
                    self._needed |= self._composite  # what cannot be computed of their tensors may be of their values
                    continue
                self._kept[key] = self._compiled_for(imported), imported.input_names
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
                break
            model, names = self._kept[key]
        arrays = dict(values)
        for name in elements:
            _flatten(name, values[name], arrays)
        return model, [arrays[name] for name in names]

    def _require_few(self, fixed: Mapping[str, object]) -> None:
        """Raise `UnsupportedError` for arguments that are too large to specialise a model to their values."""
        for name, value in fixed.items():
            count = getattr(value, "size", 0)
            if count > MAX_SPECIALISED:
                raise UnsupportedError(
                    f"model {self.name!r}: {name!r} decides shapes or counts, and has {count} elements; models are "
                    f"specialised to {MAX_SPECIALISED} at most; fix: a smaller array"
                )

    def _checked(self, parameter: Parameter, value: object) -> Array:
        """Return an argument as an array of the host. Raises `UserError` unless it has the declared dtype, rank and sizes.

        Numbers and lists of them have no dtype of their own.
        """
        what = f"model {self.name!r}"
        array = _array(value, f"{what}: input {parameter.name!r}")
        if not isinstance(value, (np.ndarray, np.generic)) or array.dtype.hasobject:
            return array
        dtype = dtype_of_code(parameter.element, parameter.name)
        extents = self._dims[parameter.name] if parameter.sizes is not None else array.shape
        shape = tuple([extent if isinstance(extent, int) else str(extent) for extent in extents])
        spec = TensorSpec(parameter.name, dtype.name, shape)
        array = convert(InputSpec.of(spec), array, what)
        if any(isinstance(extent, int) and extent != size for extent, size in zip(extents, array.shape, strict=True)):
            expected = f"{what}: input {parameter.name!r} expects shape {shape_pattern(extents)}"
            raise UserError(f"{expected}, got {array.shape}; fix: pass an array {describe(spec)}")
        return array

    def _elements(self, values: Mapping[str, object]) -> dict[str, object]:
        """Return the types of the tensors in arguments that are sequences or optional."""
        what = f"model {self.name!r}: input"
        return {name: _types_of(values[name], f"{what} {name!r}") for name in sorted(self._composite - self._needed)}

    def _learnt(self, error: UnsupportedError, values: Mapping[str, object], sizes: Mapping[str, int]) -> bool:
        """Note what an import needs; return whether that is anything new. What was kept holds for less."""
        small = {name for name, value in values.items() if getattr(value, "size", 0) <= MAX_SPECIALISED}
        wanted = set(getattr(error, "inputs", ()))
        wanted |= {name for name in self._composite if any(each.startswith(f"{name}.") for each in wanted)}
        inputs = wanted & (small | self._composite) - self._needed
        numbers = set(getattr(error, "sizes", ())) & set(sizes) - self._sizes_needed
        self._needed |= inputs
        self._sizes_needed |= numbers
        return bool(inputs or numbers)

    def _sizes_of(self, values: Mapping[str, object]) -> dict[str, int]:
        """Return the numbers of sizes that have a name of their own, of which all that are equal must agree."""
        return _named_sizes(self._dims, values, f"model {self.name!r}")

    def profile(self, *inputs: object, repeat: int = 10, **named: object) -> Profile:
        """Call the model for these arguments several times, and return how long its kernels take (see `Model.profile`)."""
        model, values = self._found(self._by_name(inputs, named))
        return model.profile(*values, repeat=repeat)

    def bind(self, *inputs: object, outputs: object = None, **named: object) -> NoReturn:
        """Refuse: what is bound is a model for certain values."""
        raise self._refused("has no bound calls", "model.specialised(…).bind(…)")

    def save(self, path: Any, targets: object = None) -> NoReturn:
        """Refuse: what is saved is a model for certain values."""
        raise self._refused("is not saved as a whole", "model.specialised(…).save(path)")

    def sanitize(self, *inputs: object, **named: object) -> NoReturn:
        """Refuse: what is sanitized is a model for certain values."""
        raise self._refused("is not sanitized as a whole", "model.specialised(…).sanitize(…)")

    def _refused(self, problem: str, fix: str) -> UnsupportedError:
        return UnsupportedError(f"model {self.name!r}, which is compiled for what it is called with, {problem}; fix: {fix}")

    @property
    def constants(self) -> tuple[str, ...]:
        """Names of the inputs whose values calls are specialised to, as far as is known."""
        return tuple(sorted(self._needed))

    @property
    def sizes(self) -> tuple[str, ...]:
        """Names of the sizes that calls are specialised to, as far as is known."""
        return tuple(sorted(self._sizes_needed))

    @property
    def models(self) -> tuple[Model, ...]:
        """The compiled models, the one used last at the end."""
        return tuple([model for model, _ in self._kept.values()])

    @property
    def name(self) -> str:
        """The name of the model's graph."""
        return self._name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of every input that is a tensor, in call order."""
        return tuple([
            TensorSpec(
                parameter.name, dtype_of_code(parameter.element, parameter.name).name,
                tuple([extent if isinstance(extent, int) else str(extent) for extent in self._dims[parameter.name]]),
            )
            for parameter in self._inputs if parameter.kind == "tensor"
        ])  # fmt: skip

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Those of the model that was called last, none before the first call."""
        return self.models[-1].outputs if self._kept else ()

    @property
    def dims(self) -> tuple[str, ...]:
        """Names of the symbolic dims of the inputs."""
        names = [name for extents in self._dims.values() for extent in extents if isinstance(extent, Dim)
                 for name in sorted(extent.symbols())]  # fmt: skip
        return tuple(dict.fromkeys(names))

    @property
    def threads(self) -> int:
        """Threads a call may use, the caller included."""
        return max([model.threads for model in self.models], default=1)

    @property
    def numerics(self) -> str:
        """The numerics that models are compiled with."""
        return self.models[-1].numerics if self._kept else "strict"

    @property
    def compiled(self) -> NoReturn:
        """Refuse: there is one compiled form for each specialisation."""
        raise self._refused("has no single compiled form", "model.specialised(…).compiled")

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of the model that was called last."""
        return self.models[-1].kernels if self._kept else ()

    def plan(self) -> str:
        """Return the plan of the model that was called last."""
        return self.models[-1].plan() if self._kept else ""

    def __repr__(self) -> str:
        inputs = ", ".join(map(describe, self.inputs))
        return f"<joinery.SpecialisedModel {self.name!r} ({inputs}); {len(self._kept)} compiled>"


def _declared(checked: CheckedModel, given: Mapping[str, Any]) -> dict[str, list[Extent]]:
    """Return the declared sizes of the inputs that are no constants."""
    names = DimNames({}, checked.file)
    return {
        parameter.name: [names.extent(size, f"{parameter.name}_{axis}") for axis, size in enumerate(parameter.sizes or ())]
        for parameter in checked.graph.inputs
        if parameter.name not in {*given, *checked.graph.constants}
    }


def _named_sizes(declared: Mapping[str, list[Extent]], values: Mapping[str, object], what: str) -> dict[str, int]:
    """Return the numbers of sizes that have a name of their own, of which all that are equal must agree."""
    found: dict[str, int] = {}
    for name, extents in declared.items():
        array = values.get(name)
        if not isinstance(array, np.ndarray) or array.ndim != len(extents):
            continue  # the model that is called says what is wrong
        for extent, size in zip(extents, array.shape, strict=True):
            if isinstance(extent, Dim) and extent.name is not None and found.setdefault(extent.name, size) != size:
                raise UserError(
                    f"{what}: {extent.name} is {found[extent.name]}, but {size} in {name!r}; fix: pass arrays whose sizes agree"
                )
    return found


def graph_for_arguments(path: str, constants: dict[str, Any], sizes: dict[str, int], arguments: Mapping[str, Array]) -> Graph:
    """Return the graph of a file in ONNX; what it needs of arguments for that is added to `constants` and `sizes`."""
    checked, budget = read_model(path)
    while True:
        try:
            graph = import_model(checked, budget, constants, sizes).graph
        except (ValueNeededError, SizeNeededError) as error:
            known = _named_sizes(_declared(checked, {}), arguments, path)
            values = {name: arguments[name] for name in error.inputs if name in arguments and name not in constants}
            numbers = {name: known[name] for name in error.sizes if name in known and name not in sizes}
            if not values and not numbers:
                raise
            constants.update(values)
            sizes.update(numbers)
            continue
        if not graph.finished:
            raise UserError(f"{checked.file}: no output of the model is a tensor; fix: make a tensor its output")
        return graph


def _array(value: object, what: str) -> Array:
    """Return an argument as an array of the host; strings as objects."""
    if not isinstance(value, (np.ndarray, np.generic, int, float, list)):
        raise UserError(f"{what} is {type(value).__name__}; fix: pass a NumPy array")
    array = np.asarray(value)
    return as_texts(array, what) if array.dtype.kind in "OUT" else array


def _types_of(value: object, what: str) -> object:
    """Return the types of the tensors of an argument, in lists for sequences, None for what is absent."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [_types_of(each, what) for each in value]
    array = _array(value, what)
    if array.dtype.hasobject:
        return TensorType(string, array.shape)
    return TensorType(DType.from_numpy(array.dtype), array.shape)


def _flatten(name: str, value: object, arrays: dict[str, object]) -> None:
    """Add the tensors of an argument by the names that the graph has for them."""
    if isinstance(value, (list, tuple)):
        for position, each in enumerate(value):
            _flatten(f"{name}.{position}", each, arrays)
    elif value is not None:
        arrays[name] = _array(value, name)


def _key(value: object) -> object:
    """Return a value by which equal arguments are found again."""
    if isinstance(value, (list, tuple)):
        return tuple([_key(entry) for entry in value])
    if value is None:
        return None
    array = np.asarray(value)
    content = tuple(array.reshape(-1).tolist()) if array.dtype.hasobject else array.tobytes()
    return array.dtype.str, array.shape, content
