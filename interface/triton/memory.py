"""The arguments of a launch as the parameters of the kernel's function, and the memory behind them."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError

Span = tuple[int, int]
"""First byte and end of memory."""
EVERYWHERE: Span = (0, 1 << 62)
"""The span of an address that nobody knows the memory of."""
_device = "cpu"


def use_cuda() -> None:
    """Take tensors on CUDA for arguments from now on, as a GPU does: those that stand in for them lie in this memory."""
    global _device
    _device = "cuda"


def device() -> str:
    """The kind of device that tensors of launches are on."""
    return _device


def storage_of(tensor: Any, what: str) -> tuple[int, Span]:
    """The address of an argument's first element, and the memory that it may be used to reach: its whole storage.

    Raises `UserError` for what has no memory on this machine's processors.
    """
    if type(tensor) is int:
        return tensor, EVERYWHERE
    if _device == "cuda":
        if not getattr(tensor, "is_cuda", True) and not getattr(tensor, "is_pinned", bool)():
            # As Triton says it for a GPU: suites ask for these words.
            raise ValueError(f"Pointer argument {what} cannot be accessed from Triton (cpu tensor?)")
    elif not getattr(tensor, "is_cpu", True):
        raise UserError(f"{what} is a tensor on {tensor.device}; joinery runs kernels on the CPU; fix: {what}.cpu()")
    try:
        address = int(tensor.data_ptr())
    except (AttributeError, RuntimeError, NotImplementedError) as error:
        fix = "pass a tensor on the CPU, or an array"
        raise UserError(f"{what}: a {type(tensor).__name__} has no memory to reach: {error}; fix: {fix}") from None
    if getattr(tensor, "is_nested", False) and str(getattr(tensor, "layout", "")) == "torch.strided":
        fix = f"pass {what}.values(), or torch.nested.to_padded_tensor({what}, 0)"
        raise UserError(f"{what}: a nested tensor, which is several; fix: {fix}")
    base = tensor
    while not hasattr(base, "untyped_storage"):
        base = getattr(base, "base", None)  # Triton's own wrapper, which gives a tensor another type
        if base is None:
            return address, EVERYWHERE
    storage = base.untyped_storage()
    if not hasattr(storage, "nbytes"):  # an address that programs wrap themselves
        return address, EVERYWHERE
    try:
        first, size = int(storage.data_ptr()), int(storage.nbytes())
    except (RuntimeError, NotImplementedError) as error:
        fix = f"pass {what}.values()" if getattr(base, "is_nested", False) else f"pass a copy that has memory, {what}.clone()"
        raise UserError(f"{what}: a {type(base).__name__} without memory of its own; fix: {fix}") from error
    if not first and (size or base.numel()):
        kind, shape = type(base).__name__, list(base.shape)
        fix = f"pass a tensor that has memory, such as torch.empty({shape}); None is a null pointer"
        raise UserError(f"{what}: a {kind} of shape {shape} without memory at its address 0; fix: {fix}")
    return address, (first, first + size)


def flattened(names: Sequence[str], types: Sequence[Any], args: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    """(name, type, argument) of what the kernel's function has as parameters: tuples taken apart, constexprs left out."""
    for name, type_, arg in zip(names, types, args, strict=True):
        if isinstance(type_, tuple):
            yield from flattened([f"{name}[{i}]" for i in range(len(type_))], type_, tuple(arg))
        elif type_ != "constexpr":
            yield name, type_, arg


def live_storages() -> Iterator[Span]:
    """The memory of every tensor of torch that is alive."""
    for _, span in _live_tensors():
        yield span


def _live_tensors() -> Iterator[tuple[Any, Span]]:
    import gc
    import sys

    torch = sys.modules.get("torch")
    if torch is None:
        return
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor) and each.device.type in ("cpu", _device) and each.layout == torch.strided:
            span = _span_of(each)
            if span is not None:
                yield each, span


def _span_of(tensor: Any) -> Span | None:
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    except (RuntimeError, NotImplementedError):  # a tensor without memory
        return None


SMALLEST_ADDRESS = 1 << 16
"""No memory lies below it: smaller integers are no addresses."""
MAX_TABLE = 1 << 16
"""Elements up to which memory of 64-bit integers is looked through for addresses."""


def integers_in(first: int, end: int) -> Array | None:
    """The 64-bit integers in memory; None if there are more than are looked through."""
    start = -(-first // 8) * 8
    count = max(0, (end - start) // 8)
    if count > MAX_TABLE:
        return None
    if not count:
        return np.empty(0, np.int64)
    found: Array = np.frombuffer(memoryview((ctypes.c_int64 * count).from_address(start)), np.int64)
    return found


class _Seen:
    """The tensors that were alive when all objects were last looked through, which takes milliseconds.

    starts, ends: of their memory, in order; the tensors themselves are not kept alive.
    """

    def __init__(self) -> None:
        self.tensors: list[weakref.ref[Any]] = []
        self.starts = self.ends = np.empty(0, np.int64)

    def renew(self) -> None:
        found = sorted(_live_tensors(), key=lambda each: each[1])
        self.tensors = [weakref.ref(tensor) for tensor, _ in found]
        self.starts = np.array([first for _, (first, _) in found], np.int64)
        self.ends = np.array([end for _, (_, end) in found], np.int64)

    def around(self, addresses: Array) -> list[Span] | None:
        """The memory that these addresses lie in; None if one of them lies in none that is known and still there."""
        numbers = np.searchsorted(self.starts, addresses, side="right") - 1
        if not len(self.starts) or (numbers < 0).any() or (addresses >= self.ends[numbers]).any():
            return None
        spans = []
        for number in np.unique(numbers).tolist():
            tensor, span = self.tensors[number](), (int(self.starts[number]), int(self.ends[number]))
            if tensor is None or _span_of(tensor) != span:
                return None
            spans.append(span)
        return spans


_seen = _Seen()


def addressed_storages(listed: Sequence[Array] | None) -> Iterable[Span]:
    """The memory of the tensors that a kernel may find the addresses of.

    listed: all that may be an address among its arguments; None if it may find others.
    """
    if listed is None:
        return live_storages()
    addresses = np.concatenate(listed)
    addresses = np.unique(addresses[addresses >= SMALLEST_ADDRESS])
    if not len(addresses):
        return ()
    found = _seen.around(addresses)
    if found is None:
        _seen.renew()
        found = _seen.around(addresses)
    return live_storages() if found is None else found
