"""Quantized tensors on "cuda:0".

torch makes one of memory that it asks a GPU's allocator for, and DLPack does not know them. The tensors here have their device,
dtype, shape and strides in C++, no memory there, and a quantized tensor on the CPU beside them, with which everything is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_MIXES = frozenset({"copy_", "empty_quantized"})
"""Operators that take tensors of two devices."""


class Quantized:
    """Makes quantized tensors on "cuda:0", and computes with them.

    on_cpu, on_cuda: hand the memory of a dense tensor over to the other device.
    """

    def __init__(self, torch: Any, on_cpu: Callable[[Any], Any], on_cuda: Callable[[Any], Any]) -> None:
        self._torch, self._on_cpu, self._on_cuda = torch, on_cpu, on_cuda
        self._cpu, self._cuda = torch.device("cpu"), torch.device("cuda", 0)
        self._keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        self._kind = _kind(torch, self.run)

    def on_cuda(self, tensor: Any) -> Any:
        """A tensor on "cuda:0" whose elements are those of a quantized tensor on the CPU, which it keeps."""
        options = {"strides": tensor.stride(), "dtype": tensor.dtype, "device": self._cuda}
        made = self._torch.Tensor._make_wrapper_subclass(self._kind, tensor.shape, **options)
        made._on_cpu = tensor
        return made

    def run(self, operator: Any, *args: Any, **keywords: Any) -> Any:
        """Compute what an operator does, by the CPU's implementation.

        Raises `RuntimeError` for tensors of two devices, and `NotImplementedError` for what changes a tensor's shape in place.
        """
        if self._torch.Tag.inplace_view in operator.tags:
            raise NotImplementedError(
                f"{operator}: a quantized tensor on the 'cuda' that stands in for a GPU's keeps its shape; "
                "fix: take a view of it, or do this with tensor.cpu()"
            )
        given: dict[int, Any] = {}
        """What was given for each tensor of the CPU's, by the identity of that."""
        led_args = [self._led(arg, given) for arg in args]
        led_keywords = {name: self._led(value, given) for name, value in keywords.items()}
        is_cuda = any(each.is_cuda for each in given.values())
        if is_cuda and operator._opname not in _MIXES and any(each.is_cpu and each.dim() for each in given.values()):
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! ({operator})"
            )
        if (device := keywords.get("device")) is not None:
            is_cuda = device.type == "cuda"
        return self._returned(operator(*led_args, **led_keywords), given, is_cuda)

    def moved(self, operator: Any, tensor: Any, **keywords: Any) -> Any:
        """What `_to_copy` makes of a quantized tensor on the CPU: torch's own function looks at the memory of what it made."""
        return self.on_cuda(operator.redispatch(self._keys, tensor, **(keywords | {"device": self._cpu})))

    def _led(self, value: Any, given: dict[int, Any]) -> Any:
        if isinstance(value, self._torch.Tensor):
            led = value if value.is_cpu else value._on_cpu if isinstance(value, self._kind) else self._on_cpu(value)
            given[id(led)] = value
            return led
        if isinstance(value, list | tuple):
            return type(value)([self._led(each, given) for each in value])
        return self._cpu if isinstance(value, self._torch.device) and value.type == "cuda" else value

    def _returned(self, value: Any, given: dict[int, Any], is_cuda: bool) -> Any:
        if isinstance(value, self._torch.Tensor):
            if id(value) in given:
                return given[id(value)]
            return self._on_cuda(value) if is_cuda else value
        if isinstance(value, list | tuple):
            return type(value)([self._returned(each, given, is_cuda) for each in value])
        return value


def _kind(torch: Any, run: Callable[..., Any]) -> Any:
    """The class of quantized tensors on "cuda:0"."""

    class QuantizedTensor(torch.Tensor):  # type: ignore[misc]
        """A quantized tensor on "cuda:0", which has no memory there: neither its address nor its storage can be asked for."""

        __torch_function__ = torch._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, operator: Any, types: Any, args: Any = (), keywords: Any = None) -> Any:
            return run(operator, *args, **(keywords or {}))

        def data_ptr(self) -> int:
            raise _without_memory("data_ptr()", "pass tensor.int_repr(), its scale and its zero point")

        def untyped_storage(self) -> Any:
            raise _without_memory("untyped_storage()", "take that of tensor.int_repr()")

        def __deepcopy__(self, memo: dict[int, Any]) -> Any:
            return memo.setdefault(id(self), self.clone())

        def __reduce_ex__(self, protocol: Any) -> Any:
            raise _without_memory("pickling", "save tensor.cpu()")

    return QuantizedTensor


def _without_memory(asked: str, fix: str) -> NotImplementedError:
    return NotImplementedError(
        f"{asked}: a quantized tensor on the 'cuda' that stands in for a GPU's has no memory there; fix: {fix}"
    )
