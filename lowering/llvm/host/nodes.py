"""Defines lazy block values: a block operation becomes a node that can be evaluated at any coordinate of its block.

Stores, reductions, dots and loop-carried values force evaluation. Each of them is one loop nest, which evaluates the nodes that
it needs in its body, so a chain of block operations never exists as one giant vector and never touches memory in between.
Integer nodes that are affine in the block coordinates keep their coefficients, which give loads their strides and turn masks
into loop bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any, NamedTuple

from ....promotion.dataclass import dataclass
from ..math.library import INSTRUCTIONS
from ..values import V

Shape = tuple[int, ...]


@dataclass(eq=False, slots=True)
class Node:
    """A block value of static `shape` with element type `elem` in block-IR spelling (`f32`, `bf16`, `i1`, `i64`, `ptr`)."""

    shape: Shape
    elem: str


@dataclass(eq=False, slots=True)
class Splat(Node):
    """A block with the same scalar everywhere."""

    value: V


@dataclass(eq=False, slots=True)
class Affine(Node):
    """The integers `base + Σ coefficients[d] · coordinate[d]`; base and coefficients are i64 scalars (None = 0).

    For i32 elements it gives the low 32 bits (`memory/offsets.py`).
    """

    base: V
    coefficients: tuple[V | None, ...]


@dataclass(eq=False, slots=True)
class Pointers(Node):
    """Pointers to `base + offset + rest`, counted in LLVM elements `unit`.

    `rest`: the part of the offset that is not affine, an i64 block. Blocks of pointers that have no common base are offsets in
    bytes from null. As values, blocks of pointers are i64 addresses.
    """

    base: V
    pointee: str
    offset: Affine
    alignment: int  # known alignment of base in bytes
    unit: str
    rest: Node | None = None


@dataclass(eq=False, slots=True)
class Map(Node):
    """One operation applied per element."""

    op: str
    operands: tuple[Node, ...]
    attrs: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False, slots=True)
class View(Node):
    """A block re-indexed without arithmetic: dimension s of `source` reads coordinate `dims[s]` (None: index 0)."""

    source: Node
    dims: tuple[int | None, ...]


@dataclass(eq=False, slots=True)
class Load(Node):
    pointers: Pointers
    mask: Node | None
    other: Node | None


@dataclass(eq=False, slots=True)
class Stored(Node):
    """A block kept in scratch memory: `pointer` plus `strides` (in elements of the scratch element type)."""

    pointer: V
    strides: tuple[int, ...]
    memory: str  # element type in memory, LLVM spelling


class Digit(NamedTuple):
    """A term of a position, `coefficient · (position // step % extent)`; step and extent are powers of two."""

    step: int
    extent: int
    coefficient: V


@dataclass(eq=False, slots=True)
class Flattened(Node):
    """`source` at the coordinates that a position had before the block was flattened (`loops/flat.py`).

    The sum of its coefficients, or strides, times its coordinates is the sum of these digits of the position.
    """

    source: Affine | Stored
    digits: tuple[Digit, ...]


def view(source: Node, shape: Shape, dims: Sequence[int | None]) -> Node:
    """Makes a View of any node, folded into nodes that can express it themselves."""
    dims = tuple(dims)
    if source.shape == shape and dims == tuple(range(len(shape))):
        return source
    match source:
        case Splat():
            return Splat(shape, source.elem, source.value)
        case Affine():
            coefficients: list[V | None] = [None] * len(shape)
            for coefficient, dim in zip(source.coefficients, dims, strict=True):
                if dim is not None:
                    coefficients[dim] = coefficient
            return Affine(shape, source.elem, source.base, tuple(coefficients))
        case Pointers():
            offset = view(source.offset, shape, dims)
            assert isinstance(offset, Affine)
            rest = None if source.rest is None else view(source.rest, shape, dims)
            return Pointers(shape, source.elem, source.base, source.pointee, offset, source.alignment, source.unit, rest)
        case View():
            inner = tuple(None if d is None else dims[d] for d in source.dims)
            return View(shape, source.elem, source.source, inner)
    return View(shape, source.elem, source, dims)


COST = INSTRUCTIONS | {
    **dict.fromkeys(("arith.divf", "tt.precise_divf", "joinery.divide", "joinery.reciprocal"), 5),
    **dict.fromkeys(("arith.divsi", "arith.divui", "arith.remsi", "arith.remui"), 40),
}
"""Maps operations to instructions per element, where these are more than one."""


def cost(node: Node, limit: int = 64) -> int:
    """Returns a rough instruction count of evaluating the node once; stops at `limit`."""
    match node:
        case Map():
            total = COST.get(node.op, 1)
            if node.elem in ("bf16", "f16"):
                total += 4
            for operand in node.operands:
                if total >= limit:
                    break
                total += cost(operand, limit - total)
            return total
        case View():
            return cost(node.source, limit)
        case Load():
            return 1 if node.pointers.rest is None else 6 + cost(node.pointers.rest, limit)
        case Stored() | Flattened():
            return 1
    return 0


def dense(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns row-major strides; 0 for extents of 1."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step if extent > 1 else 0)
        step *= extent
    return tuple(reversed(strides))
