"""Makes the native entry of compiled parts: tensors are read by pointer, sizes and strides, and results are PyTorch's tensors.

The interpreter calls `jn_tensors` of `tensors.ll`, which reads tensors where PyTorch keeps them. Whether they are kept there is
looked at with live tensors before the first use; where they are not, there is no entry, and parts run through arrays of NumPy.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...graph.dims.dim import Dim, Extent
from ...promotion.dtype import DType
from ...runtime.host.memory import address
from ...runtime.model.call import MAX_STACK_SLOTS, RELEASE_BYTES, native_table
from ...runtime.model.executable import Executable
from ...runtime.native.library import ObjectStore, cached_object, native_library
from ...runtime.native.linking import LinkedCode, address_of, link
from .layouts import Layout, Reading
from .tensors import torch_dtype

_SYMBOLS = (
    "PyObject_Vectorcall", "PyEval_SaveThread", "PyEval_RestoreThread", "PyTuple_New", "PyTuple_SetItem", "PyLong_FromLongLong",
    "PyLong_AsUnsignedLongLongMask", "PyErr_Occurred", "PyErr_Clear", "Py_DecRef",
)  # fmt: skip
_STORAGE, _RANK, _INSIDE, _OFFSET, _NUMEL, _DTYPE, _KEYS = 2, 7, 8, 18, 19, 20, 21
"""Where tensors have these, in words (`tensors.ll`)."""
_INLINE = 5
"""Up to how many sizes lie in the tensor itself."""


@dataclass(frozen=True, slots=True)
class TensorInput:
    """A tensor that a compiled part takes: which argument it is, its dtype and shape, and how it is read."""

    argument: int
    dtype: DType
    shape: tuple[Extent, ...]
    reading: Reading
    name: str


@dataclass(frozen=True, slots=True)
class SizeInput:
    """A size that a compiled part takes: an argument that is an integer, or an axis of a tensor of some rank."""

    argument: int
    name: str
    axis: int | None = None
    rank: int = 0


@dataclass(frozen=True, slots=True)
class TensorOutput:
    """A tensor that a compiled part returns, dense in the order of its layout."""

    dtype: DType
    shape: tuple[Extent, ...]
    layout: Layout


def tensor_entry(
    executable: Executable,
    given: int,
    inputs: Sequence[TensorInput | SizeInput],
    outputs: Sequence[TensorOutput],
    slow: Callable[..., tuple[Any, ...]],
    store: ObjectStore | None,
) -> Callable[..., tuple[Any, ...]] | None:
    """Return a callable that takes `given` arguments and returns the outputs; None where only `slow` can do that.

    Args:
        inputs: what the model takes, in its order.
        slow: gets all arguments that are not exactly as the inputs say.
        store: where compiled code is kept.
    """
    library = _library(store)
    linked = executable.linked
    entry = native_library().entry
    if library is None or entry is None or linked.prepare_address is None or linked.run_address is None:
        return None
    extents = sum(len(spec.shape) for spec in executable.outputs)
    if len(inputs) + len(executable.constants) + 2 * len(outputs) + len(executable.slots) + extents > MAX_STACK_SLOTS:
        return None
    input_entries: list[int] = []
    for each in inputs:
        record = _input_record(executable, each)
        if record is None:
            return None
        input_entries += [len(record) + 1, *record]
    kept: list[object] = []
    output_entries: list[int] = []
    for result in outputs:
        record = _output_record(result, kept)
        output_entries += [len(record) + 1, *record]
    input_table, output_table = np.array(input_entries or [0], np.int64), np.array(output_entries or [0], np.int64)
    constants = np.array([address(array) for array in executable.constants] or [0], np.uint64)
    fields = [
        len(inputs), given, len(executable.slots), len(outputs), len(executable.constants),
        linked.prepare_address, linked.run_address, executable.pool, id(slow),
        sum(array.nbytes for array in executable.constants), RELEASE_BYTES,
        address(input_table), address(output_table), address(constants), extents,
        library.forbidden, library.required, id(torch.Tensor), id(torch.nn.Parameter), id(library.allocate),
    ]  # fmt: skip
    signed = [field - (1 << 64) if field >= 1 << 63 else field for field in fields]
    table = native_table(signed, executable, slow, library, input_table, output_table, constants, *kept)
    return entry.fastcall(b"compiled_part", library.code["jn_tensors"], table)  # type: ignore[return-value]


def _input_record(executable: Executable, given: TensorInput | SizeInput) -> list[int] | None:
    """Return the words of an input after the first; None for a size that is an expression."""
    if isinstance(given, SizeInput):
        code = -1 - executable.slots[given.name]
        kind, number = (-1, 0) if given.axis is None else (-2, given.axis)
        return [given.argument, kind, 0, given.rank, 1, 1, number, code, 0, 0, 1]
    reading = given.reading
    fields = [
        given.argument, _number_of(torch_dtype(given.dtype)), given.dtype.itemsize, len(given.shape), len(reading.axes),
        reading.unit if isinstance(reading.unit, int) else -1 - executable.slots[reading.unit_name(given.name)],
    ]  # fmt: skip
    for axis in reversed(reading.axes):
        size = given.shape[axis.number]
        if isinstance(size, Dim) and size.name is None:
            return None
        code = size if isinstance(size, int) else -1 - executable.slots[str(size)]
        mode, room = 1 if axis.repeated else 0, 0
        if axis.room == "found":
            mode, room = 3, -1 - executable.slots[reading.room_name(given.name, axis)]
        elif axis.room is not None:
            mode, room = 2, axis.room
        fields += [axis.number, code, mode, room, axis.step]
    return fields


def _output_record(result: TensorOutput, kept: list[object]) -> list[int]:
    """Return the words of an output after the first; what they point to is added to what is kept."""
    order = result.layout.axes(len(result.shape))
    dtype = torch_dtype(result.dtype)
    kept.append(dtype)
    sizes = strides = 0
    if all(isinstance(size, int) for size in result.shape):
        shape = tuple([int(size) for size in result.shape if isinstance(size, int)])
        steps = result.layout.strides
        pair = (shape, _dense(shape, order) if steps is None or result.layout.copies else steps)
        kept.append(pair)
        sizes, strides = id(pair[0]), id(pair[1])
    return [id(dtype), result.dtype.itemsize, len(order), sizes, strides, *[order.index(axis) for axis in range(len(order))]]


def _dense(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a tensor whose elements lie side by side in an order of the axes."""
    steps, running = [0] * len(shape), 1
    for axis in reversed(order):
        steps[axis] = running
        running *= max(shape[axis], 1)
    return tuple(steps)


# -- the code ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Library:
    """The linked entry.

    Attributes:
        allocate: takes sizes, strides and a dtype.
        forbidden, required: dispatch keys of tensors that are more, and less, than plain ones of the CPU.
    """

    code: LinkedCode
    allocate: Callable[..., Any]
    forbidden: int
    required: int


_LOADED: list[_Library | None] = []


def _library(store: ObjectStore | None) -> _Library | None:
    """Return the entry of this process; None where it cannot run. The first call compiles it, or takes it from the store."""
    if not _LOADED:
        _LOADED.append(_load(store))
    return _LOADED[0]


def _load(store: ObjectStore | None) -> _Library | None:
    entry = native_library(store).entry
    allocate = getattr(torch._C._dynamo.guards, "_empty_strided_cpu", None)
    if entry is None or allocate is None or not has_known_tensors():
        return None
    text = (Path(__file__).parent / "tensors.ll").read_text(encoding="utf-8")
    imports = {name: address_of(ctypes.pythonapi, name) for name in _SYMBOLS} | entry.memory
    imports["PyLong_Type"] = id(int)
    code = link([cached_object("tensors", text, store)], ("jn_tensors",), imports)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))  # callables may outlive everything else at exit
    usual = _keys(torch.empty(1))
    with torch.inference_mode():
        least = _keys(torch.empty(1))
    return _Library(code, allocate, ~(usual | least) & (1 << 64) - 1, usual & least)


def _memory(at: int, count: int) -> list[int]:
    return [int(each) for each in (ctypes.c_uint64 * count).from_address(at)]


def _keys(tensor: Any) -> int:
    return _memory(tensor._cdata, _KEYS + 1)[_KEYS]


def _number_of(dtype: Any) -> int:
    """Return the number by which PyTorch keeps a dtype."""
    return _memory(torch.empty(0, dtype=dtype)._cdata, _DTYPE + 1)[_DTYPE] & 0xFFFF


@functools.cache
def has_known_tensors() -> bool:
    """Return whether PyTorch keeps tensors as `tensors.ll` reads them, as far as live tensors can tell."""
    base = torch.arange(720, dtype=torch.float32)
    tried = [
        base, base.view(5, 9, 16)[1:, ::2, 3:].transpose(0, 2), base.view(2, 3, 2, 3, 2, 10)[:, 1],
        base.view(2, 3, 2, 3, 2, 5, 2), base[3], torch.empty(0, 4, dtype=torch.int64),
        torch.empty((3, 2), dtype=torch.bfloat16), torch.nn.Parameter(base[:6]), torch.ones(4, 3).expand(2, 4, 3),
        torch.empty_strided((2, 2, 2, 2, 2), (16, 1, 2, 4, 8), dtype=torch.bool),
    ]  # fmt: skip
    with torch.inference_mode():
        tried.append(torch.ones(3, 3)[1:])
    return all(_is_kept_as_known(each) for each in tried) and len({_number_of(each.dtype) for each in tried}) == 4


def _is_kept_as_known(tensor: Any) -> bool:
    if type(tensor).__basicsize__ < 24 or _memory(id(tensor), 3)[2] != tensor._cdata:
        return False
    fields = _memory(tensor._cdata, _KEYS + 1)
    storage = tensor.untyped_storage()
    if fields[_STORAGE] != storage._cdata or fields[_RANK] != tensor.dim():
        return False
    rank = tensor.dim()
    if rank <= _INLINE:
        sizes, strides = fields[_INSIDE : _INSIDE + rank], fields[_INSIDE + _INLINE : _INSIDE + _INLINE + rank]
    else:
        both = _memory(fields[_INSIDE], 2 * rank)
        sizes, strides = both[:rank], both[rank:]
    begin = _memory(fields[_STORAGE], 3)[2]
    at = begin + fields[_OFFSET] * tensor.element_size()
    return (
        tuple(sizes) == tuple(tensor.shape) and tuple(strides) == tensor.stride() and begin == storage.data_ptr()
        and fields[_OFFSET] == tensor.storage_offset() and fields[_NUMEL] == tensor.numel() == math.prod(sizes)
        and (at == tensor.data_ptr() or not tensor.numel())
    )  # fmt: skip
