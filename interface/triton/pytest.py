"""A pytest plugin: a test-suite that was written for a GPU runs without one, its kernels by joinery.

    pytest -p joinery.triton.pytest --joinery             natively, with every access compared with its tensor
    pytest -p joinery.triton.pytest --joinery=sanitize    each launch under the sanitizer; what it finds fails the test

Options: --joinery[=native|interpret|sanitize|ptxsim], --joinery-target (the GPU of ptxsim and of `asm["ptx"]`),
--joinery-device=cuda|cpu (whether torch's CUDA surface is stood in for), --joinery-autotune=N (configurations that autotuning
may try), --joinery-no-bounds (native kernels compare nothing), --joinery-report PATH (a page of HTML).
"""

from __future__ import annotations

# Nothing above this package is imported here: pytest may load the file as `joinery.triton.pytest`, by its own finder.
from .testing.plugin import pytest_addoption, pytest_configure, pytest_load_initial_conftests

__all__ = ["pytest_addoption", "pytest_configure", "pytest_load_initial_conftests"]
