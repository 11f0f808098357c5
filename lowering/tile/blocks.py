"""Defines the values that templates compute with: blocks, and the dimensions that a block varies along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Attribute, SSAValue

from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType
from ...promotion.errors import InternalError, UnsupportedError
from ..nest import Affine
from ..tt.types import scalar_type
from .index_builder import Index

MAX_BLOCK_ELEMENTS = 1 << 20
"""Largest number of elements of one block (the tt dialect's own limit)."""


def power_of_two(n: int) -> int:
    """Returns the smallest power of two that is at least `n` and at least 1."""
    return 1 << max(0, n - 1).bit_length()


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One dimension of the blocks of a kernel: positions `start … start + size - 1` of an axis, cut off at
    `extent`.

    Blocks order their dimensions by `rank`. `axis` is None for a dimension of extent 1 that stands for no
    axis (the row of a vector-matrix product). The same object is shared by everything that runs over the same
    positions. `start` is a multiple of `size`, unless `may_precede`, which says that positions may be
    negative too. `inside`: an i1 block of rank 1, the lanes that count of those within the extent; all do without one.
    """

    axis: int | None
    size: int
    start: Index
    extent: Index
    rank: int
    may_precede: bool = False
    inside: SSAValue | None = None

    @property
    def is_full(self) -> bool:
        """Whether every position lies inside the extent, so that no mask is needed."""
        extent, size = self.extent, self.size
        is_whole = isinstance(extent, int) and extent > 0 and extent % size == 0
        return is_whole and not self.may_precede and self.inside is None


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Axes over which one block dimension runs as over their row-major product, outermost first."""

    dim: Dimension
    axes: tuple[int, ...]


Coordinate = Dimension | Merged | Index
"""Where an axis of the nest lies: along a block dimension, with other axes along one, or at one index."""


@dataclass(frozen=True, slots=True)
class Block:
    """A value: an SSA scalar (`dims` empty) or block whose shape is the sizes of `dims`, in order of rank.

    A constant's `value` is a Python number, until it is needed in some shape. `zero_outside`: lanes outside the extents of
    `dims` are known to be zero.
    """

    value: SSAValue | int | float | bool
    dims: tuple[Dimension, ...]
    elem: Attribute
    zero_outside: bool = False

    @property
    def constant(self) -> int | float | bool | None:
        """The number that the value is, if it is known."""
        return None if isinstance(self.value, SSAValue) else self.value

    @property
    def emitted(self) -> SSAValue:
        """The SSA value. Raises `InternalError` for constants, which have none."""
        if not isinstance(self.value, SSAValue):
            raise InternalError(f"tile: the constant {self.value} is no SSA value")
        return self.value


def union(*groups: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Returns all dimensions of the groups, in order of rank."""
    merged = {dim: None for group in groups for dim in group}
    return tuple(sorted(merged, key=lambda dim: dim.rank))


def shape(dims: tuple[Dimension, ...]) -> tuple[int, ...]:
    return tuple([dim.size for dim in dims])


def memory_order(
    coordinates: Mapping[int, Coordinate], at: Affine, dims: tuple[Dimension, ...], blocks: Sequence[Block]
) -> tuple[Dimension, ...]:
    """Returns the order in which to access memory: the dimension of unit stride last.

    coordinates: where the axes lie.  blocks: what else the address or the mask is made of.
    """
    if len(dims) < 2 or any(len(block.dims) > 1 for block in blocks):
        return dims
    stride = {coordinate: at.coefficient(axis) for axis, coordinate in _dimensions_of(coordinates, at)}
    last = stride.get(dims[-1], 0)
    if type(last) is int and last in (0, 1):
        return dims
    unit = [dim for dim in dims if type(stride.get(dim, 0)) is int and stride.get(dim, 0) == 1 and dim.size > 1]
    return (*[dim for dim in dims if dim is not unit[-1]], unit[-1]) if unit else dims


def _dimensions_of(coordinates: Mapping[int, Coordinate], at: Affine) -> list[tuple[int, Dimension]]:
    found = []
    for axis, _ in at.terms:
        coordinate = coordinates[axis]
        if isinstance(coordinate, Dimension):
            found.append((axis, coordinate))
        elif isinstance(coordinate, Merged) and axis == coordinate.axes[-1]:
            found.append((axis, coordinate.dim))
    return found


def memory_type(dtype: DType) -> Attribute:
    """Returns the block-IR element type of a dtype in memory: bool and everything below 8 bits take one
    byte."""
    if dtype.bits < 8:
        return scalar_type("i8")
    if dtype.name == "complex64":  # moved, never computed with
        return scalar_type("i64")
    if dtype.name == "complex128":
        raise UnsupportedError("tile: kernels that move complex128 values (16-byte elements)")
    return scalar_type(dtype)


def register_type(dtype: DType) -> Attribute:
    """Returns the block-IR element type of a dtype in registers: bool is i1, integers of fewer than 8 bits
    are an i8 that holds the value, and a float4_e2m1fn one that holds its code."""
    return scalar_type("i1") if dtype.is_bool else memory_type(dtype)
