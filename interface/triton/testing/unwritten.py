"""Memory of torch that nothing has written yet, for sanitized launches.

`torch.empty` and its relatives fill what they return, and have a shadow of the memory (`memory/shadows.py`), from which goes
what operators of torch and launches write, and what holds something else.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ..memory import device
from .memory import shadows, writes
from .memory.shadows import unwritten_bytes

_MAX_BYTES = 1 << 28
"""Bytes up to which memory is filled: touching all of it takes time."""
_SMALL = 4
"""Bytes of an element from which on what memory holds tells whether somebody wrote it unseen."""
_FUNCTIONS = ("empty", "empty_like", "empty_strided")
_METHODS = ("new_empty", "new_empty_strided")
_EXPORTS = ("numpy", "__dlpack__")

_plain: list[tuple[Any, str, Any]] = []
"""What was replaced: (owner, name, function)."""


def follow() -> None:
    """Note memory that torch hands out unwritten from now on; nothing happens before torch is imported."""
    torch = sys.modules.get("torch")
    if _plain or not hasattr(torch, "empty_strided") or not hasattr(torch, "compiler"):
        return
    tensor: Any = torch.Tensor  # type: ignore[union-attr]
    for name in _EXPORTS:
        _replace(tensor, name, _exporting(getattr(tensor, name)))
    for owner, names in ((torch, _FUNCTIONS), (tensor, _METHODS)):
        for name in names:
            function = getattr(owner, name)
            replacement = _noting(torch, function)
            _replace(owner, name, replacement)
            _let_scripts_call(replacement, function)
    writes.watch(torch)


def _replace(owner: Any, name: str, replacement: Any) -> None:
    _plain.append((owner, name, vars(owner).get(name)))
    setattr(owner, name, replacement)


def forget() -> None:
    """Give torch its functions back."""
    for owner, name, function in _plain:
        if function is None:
            delattr(owner, name)
        else:
            setattr(owner, name, function)
    _plain.clear()
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if hasattr(rules, "clear_lru_cache"):  # it knows functions by identity, and may have met ours
        rules.clear_lru_cache()  # type: ignore[union-attr]
    writes.unwatch()
    shadows.clear()


def _let_scripts_call(replacement: Any, function: Any) -> None:
    """Make scripts of torch, which know functions by identity, take one function for the other."""
    from torch.jit import _builtins

    name = _builtins._find_builtin(function)
    if name is not None:
        _builtins._register_builtin(replacement, name)


def _noting(torch: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, with a note of the memory of what it returns."""

    @functools.wraps(function)
    def noting(*args: Any, **keywords: Any) -> Any:
        tensor = function(*args, **keywords)
        if not torch.compiler.is_compiling() and type(tensor) is torch.Tensor and keywords.get("out") is None:
            _note(torch, tensor)
        return tensor

    return noting


def _note(torch: Any, tensor: Any) -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    try:
        if tensor.layout != torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if storage.device.type not in ("cpu", device()) or not address or not 1 <= size <= _MAX_BYTES:
            return
    except (AttributeError, NotImplementedError, RuntimeError):  # a tensor without memory of its own
        return
    shadows.add(StorageWeakRef(storage), address, size)


def _exporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which hands memory over to who writes it unseen: a small element would tell nothing."""

    @functools.wraps(function)
    def exporting(self: Any, *args: Any, **keywords: Any) -> Any:
        found = function(self, *args, **keywords)
        if not shadows.is_empty() and self.is_cpu and self.element_size() < _SMALL:
            shadow = shadows.around(self.data_ptr())
            if shadow is not None:
                shadows.remove(shadow)
        return found

    return exporting


__all__ = ["follow", "forget", "unwritten_bytes"]
