"""joinery as a back end of PyTorch: `torch.compile(model, backend="joinery")`, and models of `torch.export` as graphs."""

from __future__ import annotations
