"""The arguments of a launch as the parameters of the kernel's function, and the memory behind them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

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
    if size and not first:
        raise UserError(f"{what}: a tensor on {getattr(base, 'device', 'no device')} without memory")
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
    import gc
    import sys

    torch = sys.modules.get("torch")
    if torch is None:
        return
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor) and each.device.type in ("cpu", _device) and each.layout == torch.strided:
            try:
                storage = each.untyped_storage()
                yield storage.data_ptr(), storage.data_ptr() + storage.nbytes()
            except (RuntimeError, NotImplementedError):  # a tensor without memory
                continue
