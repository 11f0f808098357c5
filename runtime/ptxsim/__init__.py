"""Executes PTX modules with NumPy over all threads of a block, to run and check kernels without a GPU."""

from .async_copies.tensor_maps import TensorMap
from .checks.findings import Finding, PtxCheckError
from .launch import Kernel, Module, Result

__all__ = ["Finding", "Kernel", "Module", "PtxCheckError", "Result", "TensorMap"]
