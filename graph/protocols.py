"""Defines `Graph` and `Symbol` as protocols for the files they are made of, which cannot import them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np

from ..promotion.arrays import Array
from ..promotion.dtype import DType
from ..promotion.literals import Scalar
from ..promotion.result_rules import Promotion
from ..promotion.rules import RuleSet
from .checks import Check, Checks
from .dims.dim import Dim, Extent
from .location import Location
from .ops.attributes import Attributes
from .ops.opdef import OpDef
from .types import DimLike, Shape

SymbolT = TypeVar("SymbolT", bound="SymbolLike")
SymbolT_co = TypeVar("SymbolT_co", bound="SymbolLike", covariant=True)
TensorLike: TypeAlias = "SymbolLike | Dim | Array | np.generic | Scalar"
"""An operand: a symbol, a size, an array, whose dtype is strong, or a number, which is weak."""
WrittenOperand: TypeAlias = "SymbolLike | np.generic | Scalar"
"""An operand as the user wrote it, where arrays and sizes have become symbols."""


class GrowingList(Protocol):
    """A list whose last entries can be removed."""

    def __len__(self) -> int: ...

    def __delitem__(self, entries: slice, /) -> None: ...


class GrowingTable(Protocol):
    """A dict whose last entry can be removed."""

    def __len__(self) -> int: ...

    def popitem(self) -> object: ...


class Growing(NamedTuple):
    """The containers of a graph that only grow, in order of insertion."""

    lists: tuple[GrowingList, ...]
    tables: tuple[GrowingTable, ...]


class SymbolLike(Protocol):
    """A value of a graph; see `Symbol`."""

    @property
    def graph(self) -> GraphLike[Self]: ...

    @property
    def id(self) -> int: ...

    @property
    def op(self) -> OpDef: ...

    @property
    def inputs(self) -> tuple[Self, ...]: ...

    @property
    def attrs(self) -> Attributes: ...

    @property
    def dtype(self) -> DType: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def location(self) -> Location: ...

    @property
    def name(self) -> str | None: ...

    @property
    def weak(self) -> DType | None: ...

    @property
    def nbytes(self) -> Extent: ...

    @property
    def size(self) -> Extent: ...

    @property
    def _written(self) -> tuple[WrittenOperand, ...]: ...

    def describe(self) -> str: ...

    def alias(self) -> Self: ...


class ImplicitCast(Protocol):
    """An entry of the ledger; see `CastEntry`."""

    @property
    def op(self) -> str: ...

    @property
    def symbol(self) -> SymbolLike: ...


class GraphLike(Protocol[SymbolT_co]):
    """A computation under construction; see `Graph`."""

    @property
    def name(self) -> str: ...

    @property
    def rules(self) -> RuleSet: ...

    @property
    def policy(self) -> str: ...

    @property
    def symbols(self) -> Sequence[SymbolT_co]: ...

    @property
    def inputs(self) -> tuple[SymbolT_co, ...]: ...

    @property
    def outputs(self) -> tuple[SymbolT_co, ...]: ...

    @property
    def output_names(self) -> tuple[str, ...]: ...

    @property
    def dim_names(self) -> tuple[str, ...]: ...

    @property
    def checks(self) -> tuple[Check, ...]: ...

    @property
    def shape_checks(self) -> Checks: ...

    @property
    def finished(self) -> bool: ...

    @property
    def outer_dims(self) -> frozenset[str]: ...

    @property
    def own_dims(self) -> frozenset[str]: ...

    @property
    def current_location(self) -> Location | None: ...

    @property
    def parts(self) -> dict[int, tuple[DType, ...]]: ...

    def _growing(self) -> Growing: ...

    def as_symbol(self, value: TensorLike, op: str = "operand") -> SymbolT_co: ...

    def dim_value(self, extent: DimLike) -> SymbolT_co: ...

    def apply(
        self, op: str | OpDef, operands: Sequence[TensorLike], attrs: Attributes | None = None, dtype: DType | None = None
    ) -> SymbolT_co: ...

    def promotion(self, op: str | OpDef, operands: Sequence[WrittenOperand], dtype: DType | None = None) -> Promotion: ...

    def casts(self) -> Sequence[ImplicitCast]: ...

    def is_implicit(self, symbol: SymbolLike) -> bool: ...

    def is_inside(self, graph: object) -> bool: ...
