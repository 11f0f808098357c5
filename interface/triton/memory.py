"""The arguments of a launch as the parameters of the kernel's function, and the memory behind them."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ...promotion.arrays import Array
from ...promotion.errors import UserError
from ...runtime.host.addresses import SMALLEST_ADDRESS, distinct, integers_in, mapped

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


def _holders(thorough: bool) -> Iterator[tuple[Any, Span]]:
    """What has memory, with that memory.

    thorough: whether to look for arrays too, which the collector does not know, and for what `gc.freeze` hid from it, by what
        its objects, modules and frames refer to. That takes a few tenths of a second.
    """
    torch = sys.modules.get("torch")
    kinds = () if torch is None else (torch.Tensor, torch.UntypedStorage)
    for each in _referred() if thorough else gc.get_objects():
        type_ = type(each)
        span = _span_of(each) if issubclass(type_, kinds) or (thorough and issubclass(type_, np.ndarray)) else None
        if span is not None:
            yield each, span


def _referred() -> Iterator[Any]:
    """All objects that can be reached."""
    pending: list[Any] = gc.get_objects()
    yield from pending
    for frame in sys._current_frames().values():  # frames that run tell the collector nothing of their variables
        caller: Any = frame
        while caller is not None:
            pending.append(dict(caller.f_locals))
            caller = caller.f_back
    if gc.get_freeze_count():
        pending.append(sys.modules)
    seen = set(map(id, pending))
    while pending:
        found = []
        for each in gc.get_referents(*pending):
            if id(each) not in seen:
                seen.add(id(each))
                found.append(each)
        yield from found
        pending = found


def _outermost(holders: Iterable[tuple[Any, Span]]) -> list[tuple[Any, Span]]:
    """Those whose memory lies in no other's, in order: of overlapping ones, the last that begins before an address holds it."""
    found: list[tuple[Any, Span]] = []
    for holder, (first, end) in sorted(holders, key=lambda each: (each[1][0], -each[1][1])):
        if not found or end > found[-1][1][1]:
            found.append((holder, (first, end)))
    return found


def _span_of(holder: Any) -> Span | None:
    """The memory of a tensor, a storage or an array; None for one without: a tensor of torch's for shapes alone lies at 0."""
    if isinstance(holder, np.ndarray):
        while isinstance(holder.base, np.ndarray):
            holder = holder.base
        low, high = np.lib.array_utils.byte_bounds(holder)
        return (int(low), int(high)) if high > low >= SMALLEST_ADDRESS else None
    try:
        if getattr(holder, "layout", None) is not None and holder.layout is not sys.modules["torch"].strided:
            return None
        storage = holder.untyped_storage() if hasattr(holder, "untyped_storage") else holder
        if storage.device.type not in ("cpu", _device):
            return None
        first, size = int(storage.data_ptr()), int(storage.nbytes())
    except (AttributeError, RuntimeError, NotImplementedError):  # a tensor without memory
        return None
    return (first, first + size) if first >= SMALLEST_ADDRESS else None


class _Seen:
    """The tensors that were alive when all objects were last looked through, which takes milliseconds.

    starts, ends: of their memory, in order; the tensors themselves are not kept alive.
    """

    def __init__(self) -> None:
        self.tensors: list[Callable[[], Any]] = []
        self.starts = self.ends = np.empty(0, np.int64)

    def renew(self, thorough: bool = False) -> None:
        found = _outermost(_holders(thorough))
        self.tensors = [_reference(tensor) for tensor, _ in found]
        self.starts = np.array([first for _, (first, _) in found], np.int64)
        self.ends = np.array([end for _, (_, end) in found], np.int64)

    def around(self, addresses: Array, renewed: bool = False) -> tuple[list[Span], Array]:
        """The memory that these addresses lie in, and those that lie in none that is known and still there.

        renewed: whether all that was seen is still there for certain.
        """
        if not len(self.starts):
            return [], addresses
        numbers = np.searchsorted(self.starts, addresses, side="right") - 1
        inside = (numbers >= 0) & (addresses < self.ends[numbers])
        spans = []
        for number in np.unique(numbers[inside]).tolist():
            tensor, span = self.tensors[number](), (int(self.starts[number]), int(self.ends[number]))
            if renewed or (tensor is not None and _span_of(tensor) == span):
                spans.append(span)
            else:
                inside &= numbers != number
        return spans, addresses[~inside]

    def among(self, numbers: Sequence[Array]) -> list[Span]:
        """The memory of what is alive that the numbers lie in; all of it if one is an address in none, which may lead back."""
        addresses = distinct(numbers)
        if not len(addresses):
            return []
        spans, left = self.around(addresses)
        for thorough in (False, True):
            left = mapped(left) if len(left) else left  # other numbers lead nowhere, whoever is alive
            if not len(left):
                break
            self.renew(thorough)
            spans, left = self.around(addresses, renewed=True)
        return self._all() if len(mapped(left)) else spans

    def everything(self) -> list[Span]:
        """The memory of all that is alive."""
        self.renew(thorough=True)
        return self._all()

    def _all(self) -> list[Span]:
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))


_seen = _Seen()


def _reference(holder: Any) -> Callable[[], Any]:
    """What returns a holder of memory while it is alive; None for a storage, to which no weak reference leads."""
    try:
        return weakref.ref(holder)
    except TypeError:
        return _gone


def _gone() -> None:
    return None


def addressed_memory(
    values: Sequence[int], spans: Sequence[tuple[int, int, int]], tables: Sequence[tuple[int, int]], again: bool
) -> list[Span]:
    """The memory that a kernel may find the addresses of.

    values, spans: its arguments, and (position, first byte, end) of the memory behind pointers.
    tables: parameters from whose memory it loads what it makes addresses of, each with the bytes of its smallest element.
    again: whether it may load some from memory that it finds.
    """
    of_pointers = {position: (first, end) for position, first, end in spans}
    numbers = [np.array([value for i, value in enumerate(values) if i not in of_pointers], np.int64)]
    looked = {(of_pointers[position], size) for position, size in tables if position in of_pointers}
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
            smallest = min((size for _, size in tables), default=8)
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
        self._looks = 0

    def __call__(self, address: int) -> Array | None:
        span = self._around(np.array([address], np.int64))
        if span is None:
            return None
        if self._found is not None:
            self._found(span)
        return bytes_of(span)

    def _around(self, address: Array) -> Span | None:
        """The memory around an address; looks through all objects when it is new, but twice at most."""
        found, _ = _seen.around(address, renewed=self._looks > 0)
        while not found and self._looks < 2 and len(mapped(address)):
            _seen.renew(thorough=self._looks > 0)
            self._looks += 1
            found, _ = _seen.around(address, renewed=True)
        return found[0] if found else None


def bytes_of(span: Span) -> Array:
    """The memory of a span, as bytes."""
    first, end = span
    if first == end:
        return np.empty(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * (end - first)).from_address(first)), np.uint8)
