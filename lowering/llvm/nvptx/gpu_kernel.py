"""A block function as LLVM IR for a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ....promotion.dataclass import dataclass
from ...artifact import TensorMap
from .messages import Assertion
from .symbols import symbol_of
from .targets import WARP_SIZE, GpuTarget


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """The LLVM IR of a block function for a GPU, and the properties that a launch needs.

    name: name of the function, for messages.
    parameters: LLVM types of the parameters, in order.
    tensor_maps: the tensor maps that the last parameters point to.
    producers: warps that only copy, besides those that compute.
    assertions: the text that a failed assertion reports → the assertion.
    functions: the libdevice functions that the kernel calls.
    """

    name: str
    llvm_ir: str
    target: GpuTarget
    warps: int
    shared_bytes: int
    parameters: tuple[str, ...]
    tensor_maps: tuple[TensorMap, ...] = ()
    producers: int = 0
    assertions: Mapping[str, Assertion] = field(default_factory=dict)
    functions: tuple[str, ...] = ()

    @property
    def symbol(self) -> str:
        """The name of the kernel in the generated code."""
        return symbol_of(self.name)

    @property
    def threads(self) -> int:
        return (self.warps + self.producers) * WARP_SIZE
