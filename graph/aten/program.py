"""Defines what is imported: a program of functional ATen operators, as plain values without PyTorch.

`interface/torch` reads such programs from the graphs of `torch.export` and `torch.compile`; tests read them from files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ..dims.dim import Extent
from ..location import UNKNOWN, Location
from ..types import TensorType


@dataclass(frozen=True, slots=True)
class Ref:
    """A tensor of the program by the name of the source or call that gives it.

    Attributes:
        position: which of several results, None for a call that has one.
    """

    name: str
    position: int | None = None


Argument: TypeAlias = "Ref | Extent | float | str | DType | tuple[Argument, ...] | None"
"""An argument of an operator: a tensor, a size (`Dim` where it is symbolic), a number, a bool, an option, a dtype, a list."""


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A tensor that the program begins with: an input, or a weight if it has an array."""

    name: str
    type: TensorType
    array: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call of an operator.

    Attributes:
        op: the overload, such as "aten.add.Tensor".
        results: dtype and shape of each tensor it returns, as PyTorch inferred them; None for results that are no tensors.
        location: the line of the model that it comes from.
    """

    name: str
    op: str
    arguments: tuple[Argument, ...]
    options: Mapping[str, Argument]
    results: tuple[TensorType | None, ...]
    location: Location = UNKNOWN


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """Calls in the order in which they run.

    Attributes:
        outputs: a tensor or a size, and its name.
        ranges: the least and the largest value of symbolic sizes; None for no limit.
    """

    name: str
    sources: tuple[Source, ...]
    calls: tuple[Call, ...]
    outputs: tuple[tuple[str, Ref | Extent], ...]
    ranges: Mapping[str, tuple[int, int | None]]
