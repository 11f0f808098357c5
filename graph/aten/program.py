"""Defines what is imported: a program of functional ATen operators, as plain values without PyTorch.

`interface/torch` reads such programs from the graphs of `torch.export` and `torch.compile`; tests read them from files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...promotion.arrays import Array
from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ..checks import Check
from ..dims.dim import Dim, Extent
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


DECIDING = frozenset({
    "aten._local_scalar_dense.default", "aten._unique2.default", "aten.bincount.default", "aten.index.Tensor",
    "aten.masked_select.default", "aten.nonzero.default", "aten.repeat_interleave.Tensor", "aten.unique_consecutive.default",
    "aten.unique_dim.default",
})  # fmt: skip
"""Operators whose results may have sizes that data decides, and that a graph has a form of."""


def decided(extent: object) -> bool:
    """Return whether data decides a size: PyTorch calls such u0, u1, …"""
    return isinstance(extent, Dim) and extent.name is not None and extent.name[0] == "u" and extent.name[1:].isdigit()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on sizes.

    Attributes:
        kind: "equal", "not_equal", "less", "less_equal", "greater", "greater_equal" of two sizes; "and", "or", "not" of
            conditions.
    """

    kind: str
    parts: tuple[Condition | Extent, ...]


Argument: TypeAlias = "Ref | Extent | float | complex | str | DType | Condition | Program | tuple[Argument, ...] | None"
"""An argument of an operator: a tensor, a size (`Dim` where it is symbolic), a number, a bool, an option, a dtype, a list; of
a higher-order operator also a condition on sizes, and the programs that it runs, whose sources stand for its operands."""


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
        alone: whether it runs without PyTorch, which otherwise runs what has no form here.
        seed: of random numbers, where the program may draw some.
        checks: what else holds of sizes.
    """

    name: str
    sources: tuple[Source, ...]
    calls: tuple[Call, ...]
    outputs: tuple[tuple[str, Ref | Extent], ...]
    ranges: Mapping[str, tuple[int, int | None]]
    alone: bool = False
    seed: int | None = None
    checks: tuple[Check, ...] = ()
