"""joinery as a back end of PyTorch: `torch.compile(model, backend="joinery")`, and models of `torch.export` as graphs.

    import joinery.torch
    print(joinery.torch.report())               # which operators of compiled models run in PyTorch, and what they cost

PyTorch finds the back end by the entry point "joinery" of the group `torch_dynamo_backends`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...promotion.arrays import Array
from .reporting import Report, forget, recorded

if TYPE_CHECKING:
    from ..kernel import Kernel

__all__ = ["custom_op", "report", "to_array", "to_tensor"]


def report(*, clear: bool = False) -> Report:
    """Return what became of the graphs that `torch.compile` has handed over in this process: its text is a table.

    clear: whether to begin anew after this.
    """
    found = Report(recorded())
    if clear:
        forget()
    return found


def custom_op(
    kernel: Kernel, name: str, *, mutates_args: Sequence[str] = (), threads: int | None = None
) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes an operator of PyTorch of a function that launches a block kernel.

        @joinery.torch.custom_op(kernel, "mine::scaled_add")
        def scaled_add(launch, x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
            out = torch.empty_like(x)
            launch((-(-x.numel() // 1024),), x, y, out, scale, x.numel())
            return out

    Args:
        kernel: what `joinery.kernel.from_triton_c` or `from_ttir` returned.
        name: a namespace of your own and the operator's name, as `torch.library.custom_op` takes it.
        mutates_args: names of the arguments that the kernel writes to.
        threads: what launches use, as for `Kernel.launch`.

    The function gets `launch` first, which takes a grid and the kernel's arguments, tensors for its pointers. Its other
    parameters and its result are annotated, as `torch.library.custom_op` asks for. PyTorch also calls it with tensors that have
    no elements, to learn about shapes: `launch` does nothing then.

    What the decorator returns is what `torch.library.custom_op` returns: it is called like the function without `launch`,
    stays one node in `torch.compile` and `torch.export`, and `register_autograd` gives it a gradient. A launch raises
    `UserError` for tensors that are not contiguous or on another device, besides what `Kernel.launch` raises.
    """
    from .custom_ops import made_operator

    return made_operator(kernel, name, mutates_args, threads)


def to_array(tensor: Any) -> Array:
    """Return a tensor of the CPU as an array over the same memory, with its strides, in bfloat16 and 8-bit floats too.

    Elements that memory does not have as they are (negated views, zeros without memory) are written to new memory first.
    Raises `UserError` for sparse, nested and quantised tensors, and those of other devices.
    """
    from .tensors import checked_array

    return checked_array(tensor)


def to_tensor(array: Array) -> Any:
    """Return an array as a tensor of PyTorch over the same memory, in bfloat16 and 8-bit floats too.

    Of a read-only array it is one over a copy, since PyTorch has no tensors that may not be written. Raises `UserError` for
    arrays with negative strides or another byte order.
    """
    from .tensors import checked_tensor

    return checked_tensor(array)
