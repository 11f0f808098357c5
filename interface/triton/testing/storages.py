"""Storages of a device that stands in for CUDA's: pinned memory, which kernels may be given, and copies."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_FACTORIES = (
    "empty", "empty_like", "empty_strided", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "rand",
    "rand_like", "randn", "randn_like", "randint", "arange", "tensor", "as_tensor",
)  # fmt: skip
_MAX_NOTES = 1 << 12
_notes: dict[int, Any] = {}
"""Weak references to storages in pinned memory, by their addresses."""


def follow_pinned(torch: Any) -> None:
    """Note which tensors are in pinned memory: to torch it is the CPU's like any other, but kernels may be given it."""
    from torch.utils._device import _device_constructors

    _device_constructors()  # kept by torch: the modes of default devices know functions by identity
    pin, is_pinned = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self: Any, *args: Any) -> Any:
        return self if _is_noted(self) else _note(pin(self))

    torch.Tensor.pin_memory = functools.wraps(pin)(pin_memory)
    torch.Tensor.is_pinned = functools.wraps(is_pinned)(lambda self, *args: self.is_cpu and _is_noted(self))
    for name in _FACTORIES:
        setattr(torch, name, _noting(getattr(torch, name)))


def _noting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def noting(*args: Any, **keywords: Any) -> Any:
        made = function(*args, **keywords)
        return _note(made) if keywords.get("pin_memory") else made

    from torch.jit import _builtins  # scripts know functions by identity

    name = _builtins._find_builtin(function)
    if name is not None:
        _builtins._register_builtin(noting, name)
    return noting


def _note(tensor: Any) -> Any:
    from torch.multiprocessing.reductions import StorageWeakRef

    if len(_notes) >= _MAX_NOTES:
        for each in [each for each, note in _notes.items() if note.expired()]:
            del _notes[each]
    storage = tensor.untyped_storage()
    _notes[storage.data_ptr()] = StorageWeakRef(storage)
    return tensor


def _is_noted(tensor: Any) -> bool:
    note = _notes.get(tensor.untyped_storage().data_ptr())
    return note is not None and not note.expired()


def let_storages_change(torch: Any, resize: Callable[[Any, int], None]) -> None:
    """Let storages be cloned, moved and resized: torch has no functions for a device that it was built without."""
    base = torch.storage._StorageBase
    plain_clone, plain_to, plain_resize = base.clone, base.to, torch.UntypedStorage.resize_

    def clone(self: Any) -> Any:
        return _bytes(torch, self).clone().untyped_storage() if self.device.type == "cuda" else plain_clone(self)

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        if torch.device(device).type == "cuda":
            return _bytes(torch, self).to(device).untyped_storage()
        return plain_to(self, device=device, non_blocking=non_blocking)

    def resize_(self: Any, size: int) -> Any:
        if self.device.type != "cuda":
            return plain_resize(self, size)
        resize(self, int(size))
        return self

    def share(self: Any, *args: Any) -> Any:
        raise NotImplementedError(
            "a tensor on the 'cuda' that stands in for a GPU's is not shared between processes; fix: send tensor.cpu()"
        )

    torch.UntypedStorage._share_cuda_ = share
    torch.UntypedStorage.resize_ = functools.wraps(plain_resize)(resize_)
    base.clone, base.to = functools.wraps(plain_clone)(clone), functools.wraps(plain_to)(to)
    base.cuda = lambda self, device=None, non_blocking=False: to(self, device="cuda")


def _bytes(torch: Any, storage: Any) -> Any:
    return torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
