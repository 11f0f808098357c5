"""Makes the inputs of the graph from those of the model: sizes with names, and values that the caller makes constants."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError, UserError
from ..constants import as_texts, frozen
from ..dims.dim import Dim, Extent, dim
from ..dims.parser import RESERVED
from ..symbol import Symbol
from ..types import TensorType
from .model import Parameter
from .tensors import dtype_of_code
from .values import Known, Optional, Sequence, Value

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


class DimNames:
    """Gives the sizes of inputs their names in the graph, or the numbers that the caller gives for these names.

    One name of the model is one size.
    """

    def __init__(self, given: Mapping[str, int], file: str) -> None:
        for name, size in given.items():
            if type(size) is not int or size < 0:
                raise UserError(f"{file}: sizes[{name!r}] is {size!r:.60}; fix: an int, 0 or more")
        self.given, self.file = dict(given), file
        self._opaque: dict[str, Dim] = {}
        self._taken: set[str] = set()

    def extent(self, size: int | str | None, hint: str) -> Extent:
        """Return a size: numbers as they are, names and expressions of names as dims, what has no name as a new one."""
        found = self._extent(size, hint)
        return found.substitute(self.given) if isinstance(found, Dim) and self.given else found

    def note(self, sizes: Iterable[int | str | None]) -> None:
        """Note the names of sizes of a constant: numbers may be given for them, though no input may have them any more."""
        for size in sizes:
            if isinstance(size, str):
                self._extent(size, size)

    def require_used(self) -> None:
        """Raise `UserError` for a number that no size was given for."""
        unknown = sorted(set(self.given) - self._taken)
        if unknown:
            known = ", ".join(sorted(self._taken)) or "none"
            raise UserError(f"{self.file}: sizes has {unknown}; the sizes with names are {known}; fix: use their names")

    def _extent(self, size: int | str | None, hint: str) -> Extent:
        if isinstance(size, int) and size >= 0:
            if size == 0:
                warnings.warn(f"{hint}: the size is 0, which some exporters write for an unknown one", stacklevel=7)
            return size
        if isinstance(size, int) or size is None:
            return self._fresh(hint)
        if _NAME.fullmatch(size) and size not in RESERVED:
            self._taken.add(size)
            return dim(size)
        try:
            parsed = Dim.parse(size)
        except UserError:
            parsed = None
        if isinstance(parsed, Dim):
            self._taken |= parsed.symbols()
            return parsed
        if size not in self._opaque:
            self._opaque[size] = self._fresh(size)
        return self._opaque[size]

    def _fresh(self, hint: str) -> Dim:
        plain = re.sub(r"[^A-Za-z0-9_.]", "_", hint)
        name = base = plain if _NAME.fullmatch(plain) and plain not in RESERVED else f"n_{plain}"
        count = 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return dim(name)


def input_type(parameter: Parameter, dims: DimNames, file: str) -> TensorType:
    """Return the type of a graph input. Raises `UnsupportedError` for what has no tensor type with a known rank."""
    what = f"{file}: input {parameter.name!r}"
    if parameter.kind != "tensor":
        kind = parameter.kind or "value of no declared type"
        fix = f"constants={{{parameter.name!r}: value}}"
        if parameter.kind in ("sequence", "optional"):
            types = "[TensorType(…), …]" if parameter.kind == "sequence" else "TensorType(…)"
            fix = f"elements={{{parameter.name!r}: {types}}}, which makes its tensors inputs, or {fix}"
        raise UnsupportedError(f"{what} is a {kind}; arguments of a graph are tensors; fix: from_onnx(…, {fix})")
    dtype = dtype_of_code(parameter.element, what)
    if parameter.sizes is None:
        raise UnsupportedError(f"{what} has no declared rank; fix: declare its shape, with names for sizes that vary")
    shape = [dims.extent(size, f"{parameter.name}_{axis}") for axis, size in enumerate(parameter.sizes)]
    return TensorType(dtype, shape, parameter.name)


def elements_of(parameter: Parameter, given: object, make: Callable[[TensorType], Symbol], file: str) -> Value:
    """Return an input that is a sequence or optional, whose tensors become inputs of the graph: `name.0`, `name.1`, ….

    given: the type of each tensor, in lists for sequences, None for what is absent.  make: adds an input to the graph.
    """
    what = f"{file}: elements[{parameter.name!r}]"
    if parameter.kind not in ("sequence", "optional"):
        kind = parameter.kind or "value of no declared type"
        raise UserError(f"{what}: the input is a {kind}; fix: elements= is for sequences and optionals")
    if parameter.kind == "sequence" and not isinstance(given, (list, tuple)):
        raise UserError(f"{what} is {given!r:.60}; fix: a list of the TensorType of each element")
    value = _elements(given, parameter.name, make, what)
    return value if parameter.kind == "sequence" or isinstance(value, Optional) else Optional(value)


def _elements(given: object, name: str, make: Callable[[TensorType], Symbol], what: str) -> Value:
    if given is None:
        return Optional(None)
    if isinstance(given, (list, tuple)):
        return Sequence(tuple([_elements(each, f"{name}.{position}", make, what) for position, each in enumerate(given)]))
    if not isinstance(given, TensorType):
        raise UserError(f"{what} has {given!r:.60}; fix: a TensorType for each tensor, lists of them, or None")
    return make(TensorType(given.dtype, given.shape, name))


def baked(parameter: Parameter, given: object, file: str) -> Value:
    """Return what the caller gives for an input as a constant. Raises `UserError` where its type is another one."""
    what = f"{file}: constants[{parameter.name!r}]"
    if parameter.kind == "tensor":
        return _known(given, parameter, what)
    return _any(given, what, parameter.kind)


def _any(given: object, what: str, kind: str = "") -> Value:
    if given is None:
        return Optional(None)
    if isinstance(given, (list, tuple)):
        return Sequence(tuple([_any(entry, what) for entry in given]))
    value = Known(_array(given, what))
    return Optional(value) if kind == "optional" else value


def _known(given: object, parameter: Parameter, what: str) -> Known:
    array = _array(given, what)
    dtype = dtype_of_code(parameter.element, what)
    if array.dtype != dtype.numpy:
        raise UserError(f"{what} is {array.dtype}, the input is {dtype}; fix: pass an array of that dtype")
    if parameter.sizes is not None:
        pairs = zip(parameter.sizes, array.shape, strict=False)
        if len(parameter.sizes) != array.ndim or any(type(size) is int and size > 0 and size != own for size, own in pairs):
            raise UserError(f"{what} has shape {array.shape}, the input {parameter.sizes}; fix: pass an array of that shape")
    return Known(array)


def _array(given: object, what: str) -> Any:
    if not isinstance(given, (np.ndarray, np.generic)):
        raise UserError(f"{what} is {type(given).__name__}; expected an array; fix: numpy.array(value, dtype)")
    array = np.asarray(given)
    if array.dtype.kind in "OUT":
        return as_texts(array, what)
    DType.from_numpy(array.dtype)
    return frozen(array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("=")))
