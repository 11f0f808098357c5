"""Types of tensors on "cuda:0" by their old names, `torch.cuda.FloatTensor` and others, which torch refuses without CUDA."""

from __future__ import annotations

import functools
from typing import Any

NAMES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Byte": "uint8", "Char": "int8",
    "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool",
}  # fmt: skip


class _OfTensors(type):
    """A class of tensors that are on the device and have a dtype; calling it makes one."""

    dtype: Any
    is_cuda = True

    def __instancecheck__(cls, value: Any) -> bool:
        import torch

        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype == cls.dtype

    def __call__(cls, *args: Any, **keywords: Any) -> Any:
        """A tensor of these extents, of these numbers, or one that is given.

        Raises `TypeError` for a tensor of another type.
        """
        import torch

        keywords.setdefault("device", "cuda")
        if len(args) == 1 and isinstance(args[0], torch.Tensor):
            if not isinstance(args[0], cls):
                raise TypeError(f"expected {cls.__name__} (got {args[0].type()})")
            return args[0]
        if len(args) == 1 and not isinstance(args[0], int | torch.Size):
            return torch.tensor(args[0], dtype=cls.dtype, **keywords)
        return torch.empty(args[0] if args and isinstance(args[0], torch.Size) else args, dtype=cls.dtype, **keywords)


def install(torch: Any) -> None:
    """Let the old names of types make tensors on the device, and be the default type."""
    for short, dtype in NAMES.items():
        name = f"{short}Tensor"
        # named as `Tensor.type` looks for it
        made = _OfTensors(f"torch.cuda.{name}", (), {"dtype": getattr(torch, dtype), "layout": torch.strided})
        setattr(torch.cuda, name, made)
    plain = torch.set_default_tensor_type

    @functools.wraps(plain)
    def set_default_tensor_type(kind: Any) -> None:
        if isinstance(kind, str) and kind.startswith("torch.cuda."):
            kind = getattr(torch.cuda, kind.removeprefix("torch.cuda."))
        if isinstance(kind, _OfTensors):
            torch.set_default_dtype(kind.dtype)
            torch.set_default_device("cuda")
        else:
            torch.set_default_device(None)
            plain(kind)

    torch.set_default_tensor_type = set_default_tensor_type
