"""The arguments of a launch as the parameters of the kernel's function, and the memory behind them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ...runtime.host.addresses import integers_in
from .known import holders
from .known.holders import Span
from .known.seen import Search, Seen

EVERYWHERE: Span = (0, 1 << 62)
"""The span of an address that nobody knows the memory of."""
_device = "cpu"


def use_cuda() -> None:
    """Take tensors on CUDA for arguments from now on, as a GPU does: those that stand in for them lie in this memory."""
    global _device
    _device = "cuda"
    holders.devices.add("cuda")


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
    if getattr(tensor, "is_neg", bool)():
        fix = f"pass {what}.resolve_neg()"
        raise UserError(f"{what}: a tensor with torch's negative bit, whose memory has the other signs; fix: {fix}")
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


_seen = Seen()


def addressed_memory(
    values: Sequence[int], spans: Sequence[tuple[int, int, int]], tables: Sequence[tuple[int, int]], again: bool
) -> list[Span]:
    """The memory that a kernel may find the addresses of.

    values, spans: its arguments, and (position, first byte, end) of the memory behind pointers.
    tables: parameters from whose memory it loads what it makes addresses of, each with the bytes of its smallest element;
        0 for numbers that it makes them of.
    again: whether it may load some from memory that it finds.
    """
    of_pointers = {position: (first, end) for position, first, end in spans}
    numbers = [np.array([values[position] for position, size in tables if not size and position not in of_pointers], np.int64)]
    looked = {(of_pointers[position], size) for position, size in tables if size and position in of_pointers}
    found: list[Span] = []
    waiting = list(looked)
    while waiting or numbers:
        for span, size in waiting:
            integers = integers_in(bytes_of(span), size)
            if integers is None:
                return _seen.everything()
            numbers.append(integers)
        spans_found = _seen.among(numbers)
        found += spans_found
        numbers, waiting = [], []
        if again:
            smallest = min((size for _, size in tables if size), default=8)
            fresh = {(span, smallest) for span in spans_found} - looked
            looked |= fresh
            waiting = list(fresh)
    return found


def memory_around(address: int, what: str, elsewhere: Elsewhere) -> Span:
    """The memory of what is alive and holds an address. Raises `UserError` if nothing does."""
    if not address:
        return 0, 0
    memory = elsewhere(address)
    if memory is None:
        raise UserError(f"{what}: the address {address:#x} lies in no tensor that is alive; fix: pass the tensor, or keep it")
    first = int(memory.ctypes.data)
    return first, first + len(memory)


class Elsewhere:
    """Finds the memory behind addresses that no argument of a launch holds: of all that is alive, wherever it is kept.

    found: is told of what was found.
    """

    def __init__(self, found: Callable[[Span], None] | None = None) -> None:
        self._found = found
        self._search = Search(_seen)

    def __call__(self, address: int) -> Array | None:
        spans, _ = self._search.find([address])
        if not spans:
            return None
        if self._found is not None:
            self._found(spans[0])
        return bytes_of(spans[0])


def bytes_of(span: Span) -> Array:
    """The memory of a span, as bytes."""
    first, end = span
    if first == end:
        return np.empty(0, np.uint8)
    octets = (ctypes.c_uint8 * (end - first)).from_address(first)
    setattr(octets, holders.BORROWED, True)
    return np.frombuffer(memoryview(octets), np.uint8)
