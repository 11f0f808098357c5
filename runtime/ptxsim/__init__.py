"""Executes PTX modules with NumPy over all threads of a block: kernels are run and checked without a GPU."""

from .arguments import PointerTable
from .findings import Finding, PtxCheckError
from .launch import Kernel, Module, Result
from .tensor_maps import TensorMap

__all__ = ["Finding", "Kernel", "Module", "PointerTable", "PtxCheckError", "Result", "TensorMap"]
