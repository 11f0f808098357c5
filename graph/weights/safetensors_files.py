"""Reads and writes arrays by name in files of the format safetensors, through the package of that name, which is an extra."""

from __future__ import annotations

import importlib
import json
import os
import stat
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.dtype import DType, float8_e4m3fn, float8_e5m2, float8_e8m0fnu
from ...promotion.errors import UnsupportedError, UserError
from ..graph import Graph
from .replacing import replacing

_EIGHT_BITS = {"F8_E4M3": float8_e4m3fn, "F8_E5M2": float8_e5m2, "F8_E8M0": float8_e8m0fnu}
"""Names that the format has for floats of 8 bits → their dtypes."""
_MAX_HEADER = 100_000_000
"""The most bytes that the format allows a header."""


def save_safetensors(weights: Graph | Mapping[str, Array], path: str | os.PathLike[str]) -> None:
    """Write arrays by name to a file of the format safetensors.

    Args:
        weights: a graph, whose weights are written, or arrays by name.
        path: the file, which is replaced as a whole.

    Equal arrays give equal bytes. The format has no dtypes of fewer than 8 bits. Needs the package `safetensors`, an extra:
    `pip install 'joinery-graph[safetensors]'`.
    """
    library = _library("save_safetensors")
    if isinstance(weights, Graph):
        arrays = {name: symbol.attrs["value"] for name, symbol in weights.weights.items()}
    elif isinstance(weights, Mapping):
        arrays = dict(weights)
    else:
        raise UserError(
            f"save_safetensors: expected a graph or arrays by name, not {type(weights).__name__}; fix: pass the graph"
        )
    checked = {name: _checked(name, array) for name, array in arrays.items()}
    target = os.fspath(path)
    try:
        with replacing(target) as temporary:
            library.numpy.save_file(checked, temporary)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"save_safetensors: {target!r} cannot be written ({reason}); fix: a path in a folder that is there"
        ) from None
    except library.SafetensorError as error:
        raise UnsupportedError(f"save_safetensors: {error}; fix: dtypes that the format has, or a newer safetensors") from None


def load_safetensors(path: str | os.PathLike[str], names: Iterable[str] | None = None) -> dict[str, Array]:
    """Return the arrays of a file of the format safetensors by name, read-only.

    Args:
        path: the file.
        names: which arrays to read; by default all of them.

    The header is checked before anything is read: sizes, offsets that overlap or leave the file, dtypes. Raises `UserError` for
    a file that is not well formed. Needs the package `safetensors`, an extra: `pip install 'joinery-graph[safetensors]'`.
    """
    library = _library("load_safetensors")
    source = os.fspath(path)
    what = f"load_safetensors: {source!r}"
    try:
        if not stat.S_ISREG(os.stat(source).st_mode):  # a pipe would wait for a writer
            raise UserError(f"{what} is no regular file; fix: check the path")
        with library.safe_open(source, framework="numpy", backend="pread") as file:
            _require_distinct(source, what)
            known = list(file.keys())
            wanted = known if names is None else list(names)
            missing = sorted({*wanted} - {*known})
            if missing:
                raise UserError(f"{what} has no {missing[0]!r}; it has {', '.join(known)[:200]}; fix: use its names")
            kinds = {name: file.get_slice(name).get_dtype() for name in wanted}
            if "BF16" in kinds.values():
                importlib.import_module("ml_dtypes")  # registers the dtype, which the library asks NumPy for
            narrow = [name for name, kind in kinds.items() if kind in _EIGHT_BITS]
            found = {name: _read(file, name, what) for name in wanted if name not in narrow}
        if narrow:
            found = {**found, **_read_narrow(library, source, narrow)}
            found = {name: found[name] for name in wanted}
    except OSError as error:
        raise UserError(f"{what} cannot be read ({error.strerror or error}); fix: check the path") from None
    except library.SafetensorError as error:
        broken = f"{what} is no safetensors file, or one that was cut off ({error})"
        raise UserError(f"{broken}; fix: fetch the file again") from None
    return found


def _require_distinct(source: str, what: str) -> None:
    """Raise `UserError` for a header, which the library has checked, that gives one name twice: readers disagree on it."""

    def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise UserError(f"{what} has {twice!r:.80} twice in its header; fix: save the file again")
        return found

    with open(source, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        try:
            json.loads(stream.read(min(length, _MAX_HEADER)), object_pairs_hook=distinct)
        except (json.JSONDecodeError, UnicodeDecodeError):
            raise UserError(f"{what} changed while it was read; fix: read it again") from None


def _read_narrow(library: Any, source: str, names: list[str]) -> dict[str, Array]:
    """Read 8-bit floats, of which the library makes no arrays, from their bytes."""
    with open(source, "rb") as stream:
        parts = dict(library.deserialize(stream.read()))
    found = {}
    for name in names:
        part = parts.get(name)
        if part is None or part["dtype"] not in _EIGHT_BITS:
            raise UserError(f"load_safetensors: {source!r} changed while it was read; fix: read it again")
        array = np.frombuffer(bytes(part["data"]), _EIGHT_BITS[part["dtype"]].numpy).reshape(part["shape"])
        array.flags.writeable = False
        found[name] = array
    return found


def _library(caller: str) -> Any:
    """Return the package `safetensors`. Raises `UserError` where it is not installed."""
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        fix = "fix: pip install 'joinery-graph[safetensors]'"
        raise UserError(f"{caller} needs the package safetensors; {fix}") from None
    return safetensors


def _checked(name: object, array: object) -> Array:
    """Return an array as the library takes it: in C order, of a dtype of 8 bits or more."""
    if not isinstance(name, str):
        raise UserError(f"save_safetensors: the name {name!r} is no text; fix: names of type str")
    if not isinstance(array, (np.ndarray, np.generic)):
        raise UserError(f"save_safetensors: {name!r} is {type(array).__name__}, no array; fix: numpy.asarray(value)")
    dtype = DType.from_numpy(array.dtype)
    if dtype.bits < 8 and not dtype.is_bool:
        raise UnsupportedError(
            f"save_safetensors: {name!r} is {dtype}, and the format has no dtype of fewer than 8 bits; "
            "fix: save it as int8, or as packed uint8"
        )
    return np.asarray(array, None if array.dtype.isnative else array.dtype.newbyteorder("="), order="C")


def _read(file: Any, name: str, what: str) -> Array:
    try:
        array: Array = file.get_tensor(name)
        DType.from_numpy(array.dtype)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise UnsupportedError(f"{what}: {name!r} has a dtype without an array ({error}); fix: convert the file") from None
    array.flags.writeable = False
    return array
