"""Defines the type of a graph input (dtype, shape, name), and converts what users write for its parts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, SupportsIndex, TypeAlias

from ..promotion.dataclass import dataclass
from ..promotion.dtype import DType
from ..promotion.errors import UserError
from .dims.dim import Dim, Extent, lower_bound
from .names import checked_name

if TYPE_CHECKING:
    import numpy as np

Shape: TypeAlias = tuple[Extent, ...]
DTypeLike: TypeAlias = "DType | str | np.dtype[np.generic] | type"
"""What users may write for a dtype."""
DimLike: TypeAlias = SupportsIndex | str | Dim
"""What users may write for a size: an int, a name or an expression of names."""
ShapeLike: TypeAlias = DimLike | Sequence[DimLike]
Axis: TypeAlias = int | tuple[int, ...] | list[int] | None
"""One axis, several, or all (None); negative ones count from the end."""

MAX_RANK = 64


def as_dtype(value: DTypeLike, what: str = "dtype") -> DType:
    """Return the `DType` of a DType, its name, or a NumPy dtype. Raises `UserError` for anything else."""
    if isinstance(value, str):
        value = DType(value)
    if isinstance(value, DType):
        if value.is_abstract:
            raise UserError(f"{what}: {value} is in promotion tables only, no tensor has it; fix: pass a dtype such as float32")
        return value
    if value is None:
        raise UserError(f"{what} is missing; fix: pass a dtype such as joinery.float32")
    if hasattr(value, "dtype") and hasattr(value, "graph"):
        raise UserError(f"{what} is the symbol {value}; expected a dtype; fix: pass its dtype, …dtype, or use cast_like")
    try:
        return DType.from_numpy(value)
    except (TypeError, ValueError):
        raise UserError(f"{what} is {value!r}; expected a dtype; fix: pass a dtype such as joinery.float32") from None


def as_extent(value: DimLike, what: str = "size") -> Extent:
    """Return an extent >= 0 from an int, a `Dim`, or text ("batch", "2*batch + 1").

    Raises `UserError` for anything else, negative sizes, and ints beyond 64 bits.
    """
    if type(value) is int:
        extent: Extent = value
    elif isinstance(value, Dim):
        extent = value
    elif isinstance(value, str):
        extent = Dim.parse(value)
    elif isinstance(value, bool):
        raise UserError(f"{what}: {value!r} is not a size; fix: pass an int, a name or a Dim")
    else:
        try:
            extent = operator.index(value)
        except TypeError:
            raise UserError(f"{what}: {value!r} is not a size; fix: pass an int, a name or a Dim") from None
    if isinstance(extent, int):
        if extent < 0:
            raise UserError(f"{what}: {extent} is negative; fix: sizes are 0 or more")
        if extent >= 2**63:
            raise UserError(f"{what}: {extent} does not fit 64 bits; fix: split the tensor")
    elif (below := lower_bound(-extent)) is not None and below > 0:
        raise UserError(f"{what}: {extent} is always negative; fix: sizes are 0 or more")
    return extent


def as_shape(value: ShapeLike, what: str = "shape") -> Shape:
    """Return a shape from an iterable of sizes, or from one size. Raises `UserError` for anything else."""
    if isinstance(value, (int, Dim, str)):
        value = (value,)
    if not isinstance(value, Iterable):
        raise UserError(f"{what}: {value!r} is not a shape; fix: pass a tuple of sizes such as (2, 'batch')")
    shape = tuple([as_extent(extent, f"{what}[{position}]") for position, extent in enumerate(value)])
    if len(shape) > MAX_RANK:
        raise UserError(f"{what}: {len(shape)} axes; at most {MAX_RANK} are allowed; fix: fewer sizes")
    return shape


def shape_text(shape: Iterable[Extent]) -> str:
    """Return a shape as Python would print it: `(batch, 784)`, `(3,)`, `()`."""
    texts = [str(extent) for extent in shape]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


@dataclass(frozen=True, slots=True)
class TensorType:
    """The dtype and shape of an input.

    Args:
        dtype: a `DType`, its name, or a NumPy dtype.
        shape: sizes: ints >= 0, names ("batch"), dim expressions as text ("2*batch") or `Dim`s.
        name: the name of the input; None lets the graph choose "input0", "input1", ….
    """

    dtype: DType
    shape: Shape
    name: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            dtype: DTypeLike,
            shape: ShapeLike,
            name: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name):
            raise UserError(
                f"TensorType: the name must be non-empty text or None, not {self.name!r}; fix: leave it out"
            )
        if self.name is not None:
            checked_name(self.name, "TensorType", "leave it out")
        if isinstance(self.dtype, (tuple, list)) and not isinstance(self.shape, (tuple, list)):
            raise UserError(
                f"TensorType: dtype and shape are swapped; fix: TensorType({self.shape}, {shape_text(self.dtype)})"
            )
        object.__setattr__(self, "dtype", as_dtype(self.dtype, "TensorType: dtype"))
        object.__setattr__(self, "shape", as_shape(self.shape, "TensorType: shape"))

    def __str__(self) -> str:
        return f"{self.dtype} {shape_text(self.shape)}"
