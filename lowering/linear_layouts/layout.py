"""Linear layouts: linear maps over F2 from named hardware bits to the coordinates of a block.

After Zhou et al., "Linear Layouts: Robust Code Generation of Efficient Tensor Computation Using F2" (arXiv 2505.23819).
A basis, the image of one input bit, is one integer: the row-major flattened coordinate, the last tensor dim in the low bits.
Applying a layout is an XOR of bases, a reshape changes the shape and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from .coordinates import flatten, unflatten
from .f2 import Span, combine, extend, log2

REGISTER, LANE, WARP, BLOCK, OFFSET = "register", "lane", "warp", "block", "offset"
HARDWARE = (REGISTER, LANE, WARP, BLOCK)
"""Input dims of a distributed layout, minor to major."""

Bases = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True)
class LinearLayout:
    """Ordered input dims with their bases, and the sizes of the output dims. Input dims may be absent: they have size 1."""

    bases: Bases
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        bits = sum(log2(size) for size in self.shape)
        names = [name for name, _ in self.bases]
        if len(set(names)) != len(names):
            raise ValueError(f"an input dim is named twice: {', '.join(names)}")
        for name, column in self.bases:
            for basis in column:
                if basis < 0 or basis >> bits:
                    raise ValueError(f"basis {basis} of {name} is outside the shape {self.shape}")

    # ------------------------------------------------------------ making

    @classmethod
    def of(cls, bases: Mapping[str, Iterable[int]], shape: Iterable[int]) -> LinearLayout:
        """Makes a layout of flattened bases; the hardware dims are put in order, minor to major, others follow."""
        order = [name for name in HARDWARE if name in bases] + [
            name for name in bases if name not in HARDWARE
        ]
        return LinearLayout(tuple((name, tuple(bases[name])) for name in order), tuple(shape))

    @classmethod
    def from_coordinates(
        cls, shape: Sequence[int], bases: Mapping[str, Iterable[Sequence[int]]]
    ) -> LinearLayout:
        """Makes a layout of bases that are written as coordinates, one number per tensor dim."""
        return cls.of(
            {name: [flatten(each, shape) for each in column] for name, column in bases.items()}, shape
        )

    @classmethod
    def identity(cls, size: int, name: str = REGISTER) -> LinearLayout:
        """Makes id(n): the input is the coordinate."""
        return cls.of({name: [1 << bit for bit in range(log2(size))]}, (size,))

    @classmethod
    def zeros(cls, size: int, name: str = REGISTER, shape: Sequence[int] = (1,)) -> LinearLayout:
        """Makes z(n): n copies of element 0."""
        return cls.of({name: [0] * log2(size)}, shape)

    @classmethod
    def empty(cls, rank: int) -> LinearLayout:
        """Makes the unit of the product."""
        return cls((), (1,) * rank)

    def with_bases(self, **bases: Iterable[int]) -> LinearLayout:
        """Returns the same layout with some input dims replaced."""
        return LinearLayout.of({**dict(self.bases), **bases}, self.shape)

    # ------------------------------------------------------------ queries

    @cached_property
    def _columns(self) -> dict[str, tuple[int, ...]]:
        return dict(self.bases)

    @property
    def dims(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.bases)

    def __getitem__(self, name: str) -> tuple[int, ...]:
        """Returns the bases of an input dim; none when it is absent."""
        return self._columns.get(name, ())

    def size(self, name: str) -> int:
        return 1 << len(self[name])

    @property
    def out_bits(self) -> int:
        return sum(log2(size) for size in self.shape)

    @property
    def in_bits(self) -> int:
        return sum(len(column) for _, column in self.bases)

    def columns(self, dims: Iterable[str] | None = None) -> list[int]:
        """Returns the bases of the input dims one after the other: the matrix, first input bit first."""
        return [basis for name in (self.dims if dims is None else dims) for basis in self[name]]

    def input_bits(self, dims: Iterable[str] | None = None) -> list[tuple[str, int]]:
        """Returns (input dim, bit) of every column."""
        return [
            (name, bit) for name in (self.dims if dims is None else dims) for bit in range(len(self[name]))
        ]

    def flatten(self, coordinate: Sequence[int]) -> int:
        return flatten(coordinate, self.shape)

    def coordinates(self, flat: int) -> tuple[int, ...]:
        return unflatten(flat, self.shape)

    def apply_flat(self, **position: int) -> int:
        """Returns the flattened coordinate at a hardware position; absent inputs are 0."""
        result = 0
        for name, index in position.items():
            if not 0 <= index < self.size(name):
                raise ValueError(f"{name} {index} is outside 0..{self.size(name) - 1}")
            result ^= combine(self[name], index)
        return result

    def apply(self, **position: int) -> tuple[int, ...]:
        return self.coordinates(self.apply_flat(**position))

    def table(self) -> tuple[int, ...]:
        """Returns the flattened coordinate of every input, the first input dim counting fastest."""
        found = [0]
        for basis in self.columns():
            found += [each ^ basis for each in found]
        return tuple(found)

    @cached_property
    def rank(self) -> int:
        return Span(self.columns()).rank

    @property
    def is_surjective(self) -> bool:
        """Whether every element is held somewhere; required of the layout of a block."""
        return self.rank == self.out_bits

    @property
    def is_injective(self) -> bool:
        """Whether no element is stored twice."""
        return self.rank == self.in_bits

    @property
    def is_invertible(self) -> bool:
        return self.is_surjective and self.is_injective

    @property
    def is_normal_form(self) -> bool:
        """Whether each basis is zero or a unit vector, no unit vector twice."""
        found = [basis for basis in self.columns() if basis]
        return len(set(found)) == len(found) and not any(basis & (basis - 1) for basis in found)

    def same_map(self, other: LinearLayout) -> bool:
        """Compares two layouts as maps: the order of input dims and dims of size 1 do not matter."""
        names = {*self.dims, *other.dims}
        return self.shape == other.shape and all(self[name] == other[name] for name in names)

    def free_masks(self, dims: Sequence[str] = HARDWARE) -> dict[str, int]:
        """Returns the input bits that may be held at 0 without losing an element.

        Exactly one position of an element has all of them 0. Earlier dims keep their bits: of copies in several dims,
        those of the later ones are dropped.
        """
        span, masks = Span(), dict.fromkeys(dims, 0)
        for name, bit in self.input_bits(dims):
            if not span.add(self[name][bit]):
                masks[name] |= 1 << bit
        return masks

    # ------------------------------------------------------------ algebra

    def __mul__(self, other: LinearLayout) -> LinearLayout:
        """Returns the product (block diagonal): `self` is the minor part of every input and output dim. Not commutative."""
        if len(self.shape) != len(other.shape):
            raise ValueError(f"a product needs equal ranks, not {self.shape} and {other.shape}")
        shape = tuple(a * b for a, b in zip(self.shape, other.shape, strict=True))
        bases = {name: [flatten(self.coordinates(each), shape) for each in self[name]] for name in self.dims}
        for name in other.dims:
            scaled = [
                [c * s for c, s in zip(other.coordinates(each), self.shape, strict=True)]
                for each in other[name]
            ]
            bases.setdefault(name, []).extend(flatten(each, shape) for each in scaled)
        return LinearLayout.of(bases, shape)

    def compose(self, inner: LinearLayout) -> LinearLayout:
        """Returns the map x → self(inner(x)).

        The flattened result of `inner` is the input index of `self`, its first dim in the low bits. ValueError when
        the bits differ.
        """
        if inner.out_bits != self.in_bits:
            raise ValueError(f"{inner.out_bits} output bits do not fit {self.in_bits} input bits")
        columns = self.columns()
        bases = {name: [combine(columns, each) for each in inner[name]] for name in inner.dims}
        return LinearLayout.of(bases, self.shape)

    def invert_and_compose(self, other: LinearLayout) -> LinearLayout:
        """Returns a map C with other(C(x)) = self(x).

        Its shape is the sizes of the inputs of `other`, the first dim in the low bits. Of several solutions it is the
        one that sets dependent columns of `other`, in the order of its dims, to 0. ValueError when an element of this
        layout is not in the image of the other.
        """
        if self.shape != other.shape:
            raise ValueError(f"the output shapes differ: {self.shape} and {other.shape}")
        span = Span(other.columns())
        bases: dict[str, list[int]] = {}
        for name in self.dims:
            bases[name] = []
            for each in self[name]:
                found = span.solve(each)
                if found is None:
                    raise ValueError(
                        f"element {self.coordinates(each)} is not in the image of the other layout"
                    )
                bases[name].append(found)
        return LinearLayout.of(bases, tuple(other.size(name) for name in reversed(other.dims)))

    def pseudo_inverse(self) -> LinearLayout:
        """Returns B+ with B(B+(y)) = y and free bits 0; its one input dim is "offset", the flattened coordinate."""
        if not self.is_surjective:
            raise ValueError("only a surjective layout has a pseudo-inverse")
        whole = LinearLayout.of({OFFSET: [1 << bit for bit in range(self.out_bits)]}, self.shape)
        return whole.invert_and_compose(self)

    def _quotient_shape(self, tile: LinearLayout) -> tuple[int, ...] | None:
        """Returns the shape of a quotient by the tile; None where sizes alone rule it out."""
        if len(self.shape) != len(tile.shape):
            raise ValueError(f"a division needs equal ranks, not {self.shape} and {tile.shape}")
        too_large = any(len(tile[name]) > len(self[name]) for name in tile.dims)
        if too_large or any(a % b for a, b in zip(self.shape, tile.shape, strict=True)):
            return None
        return tuple(a // b for a, b in zip(self.shape, tile.shape, strict=True))

    def divide_left(self, tile: LinearLayout) -> LinearLayout | None:
        """Returns Q with self = tile * Q, or None when the layout does not start with the tile in every dim's low bits."""
        shape = self._quotient_shape(tile)
        if shape is None:
            return None
        bases: dict[str, list[int]] = {}
        for name in self.dims:
            own = [self.coordinates(each) for each in self[name]]
            count = len(tile[name])
            if own[:count] != [tile.coordinates(each) for each in tile[name]]:
                return None
            rest = own[count:]
            if any(c % t for each in rest for c, t in zip(each, tile.shape, strict=True)):
                return None
            bases[name] = [
                flatten([c // t for c, t in zip(each, tile.shape, strict=True)], shape) for each in rest
            ]
        return LinearLayout.of(bases, shape)

    # ------------------------------------------------------------ shape operations, which move no data

    def _pick(self, axes: Sequence[int]) -> LinearLayout:
        shape = tuple(self.shape[axis] for axis in axes)
        bases = {
            name: [flatten([self.coordinates(each)[axis] for axis in axes], shape) for each in column]
            for name, column in self.bases
        }
        return LinearLayout.of(bases, shape)

    def reshape(self, shape: Sequence[int]) -> LinearLayout:
        """Reshapes in row-major order: the bases stay the same."""
        if prod(shape) != prod(self.shape):
            raise ValueError(f"cannot reshape {self.shape} to {tuple(shape)}")
        return LinearLayout(self.bases, tuple(shape))

    def transpose(self, permutation: Sequence[int]) -> LinearLayout:
        """Permutes the output dims: dim i of the result is dim permutation[i] of this layout."""
        if sorted(permutation) != list(range(len(self.shape))):
            raise ValueError(f"{tuple(permutation)} is no permutation of {len(self.shape)} dims")
        return self._pick(permutation)

    def expand_dims(self, axis: int) -> LinearLayout:
        """Adds a dim of size 1 at `axis`."""
        axis = _axis(axis, len(self.shape) + 1)
        return LinearLayout(self.bases, (*self.shape[:axis], 1, *self.shape[axis:]))

    def collapse(self, axis: int) -> LinearLayout:
        """Drops the coordinate along `axis` and keeps the dim with size 1; no input bit is removed."""
        axis = _axis(axis, len(self.shape))
        return self._pick([i for i in range(len(self.shape)) if i != axis]).expand_dims(axis)

    def slice(self, axis: int) -> LinearLayout:
        """Returns the layout of a reduction along `axis`: without that coordinate and the registers that then are copies."""
        axis = _axis(axis, len(self.shape))
        return self._pick([i for i in range(len(self.shape)) if i != axis]).unique_registers()

    def unique_registers(self) -> LinearLayout:
        """Returns the layout without the register bits that only make copies inside a thread."""
        if REGISTER not in self.dims:
            return self
        return self.with_bases(register=extend((), self[REGISTER]))

    def broadcast(self, axis: int, size: int) -> LinearLayout:
        """Returns a layout of the block repeated `size` times along `axis`, in which every thread already has its values.

        Lanes and warps that hold copies take different indices along the axis; what is missing becomes registers.
        """
        axis = _axis(axis, len(self.shape))
        if self.shape[axis] != 1:
            raise ValueError(f"dim {axis} has size {self.shape[axis]}, only a dim of size 1 is repeated")
        shape = (*self.shape[:axis], size, *self.shape[axis + 1 :])
        source = self.unique_registers()
        bases = {
            n: [flatten(source.coordinates(each), shape) for each in column] for n, column in source.bases
        }
        step = prod(shape[axis + 1 :])
        masks = source.free_masks()
        missing = [step << bit for bit in range(log2(size))]
        for name in (LANE, WARP):
            for bit in range(len(source[name])):
                if masks[name] >> bit & 1 and missing:
                    bases[name][bit] ^= missing.pop(0)
        bases[REGISTER] = [*bases.get(REGISTER, ()), *missing]
        return LinearLayout.of(bases, shape)

    def join(self) -> LinearLayout:
        """Puts two blocks side by side in a new last dim of size 2: register bit 0 says which."""
        bases = {name: [each << 1 for each in column] for name, column in self.bases}
        bases[REGISTER] = [1, *bases.get(REGISTER, ())]
        return LinearLayout.of(bases, (*self.shape, 2))

    def split(self) -> tuple[LinearLayout, int]:
        """Returns the layout of either half of the last dim, of size 2, and the register bit that says which half.

        ValueError when exactly one register bit does not tell the halves apart: convert first.
        """
        if not self.shape or self.shape[-1] != 2:
            raise ValueError(f"the last dim of {self.shape} has not size 2")
        users = [(name, bit) for name, bit in self.input_bits() if self[name][bit] & 1]
        if len(users) != 1 or users[0][0] != REGISTER or self[REGISTER][users[0][1]] != 1:
            raise ValueError("the last dim is not exactly one register bit; convert to another layout first")
        bit = users[0][1]
        bases = {name: [each >> 1 for each in column] for name, column in self.bases}
        del bases[REGISTER][bit]
        return LinearLayout.of(bases, self.shape[:-1]), bit

    def __str__(self) -> str:
        parts = [f"{name} {[self.coordinates(each) for each in column]}" for name, column in self.bases]
        return f"{'x'.join(map(str, self.shape)) or 'scalar'}: {', '.join(parts)}"


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is outside {rank} dims")
    return axis % rank
