"""joinery as a back end of PyTorch: `torch.compile(model, backend="joinery")`, and models of `torch.export` as graphs.

    import joinery.torch
    print(joinery.torch.report())               # which operators of compiled models run in PyTorch, and what they cost

PyTorch finds the back end by the entry point "joinery" of the group `torch_dynamo_backends`.
"""

from __future__ import annotations

from typing import Any

from .reporting import Report, forget, recorded

__all__ = ["custom_op", "report", "to_array", "to_tensor"]


def report(*, clear: bool = False) -> Report:
    """Return what became of the graphs that `torch.compile` has handed over in this process: its text is a table.

    clear: whether to begin anew after this.
    """
    found = Report(recorded())
    if clear:
        forget()
    return found


def __getattr__(name: str) -> Any:  # they need PyTorch, which reports do not
    if name == "custom_op":
        from .custom_ops import custom_op

        return custom_op
    if name in ("to_array", "to_tensor"):
        from . import tensors

        return getattr(tensors, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
