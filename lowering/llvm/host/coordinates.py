"""Positions in blocks: coordinates, bounds on them, and what varies along which dimension."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from ..elementwise import memory_size
from ..ir import V
from .nodes import Affine, Flattened, Load, Map, Node, Pointers, Splat, Stored, View
from .scalars import ZERO, is_constant


class Coordinate(NamedTuple):
    """Position along one block dimension: `at + offset`, covering `lanes` positions; `loop` names the loop it belongs to."""

    at: V
    offset: int = 0
    lanes: int = 1
    loop: int = 0


ORIGIN = Coordinate(ZERO)
Coordinates = tuple[Coordinate | None, ...]


class Bound(NamedTuple):
    """`coordinate[dim] < limit`"""

    dim: int
    limit: V


def dependencies(node: Node, of: Callable[[Node], frozenset[int]]) -> frozenset[int]:
    """The dimensions of the node's shape along which its value varies; `of` answers for its operands."""
    match node:
        case Splat():
            return frozenset()
        case Affine():
            return frozenset(d for d, c in enumerate(node.coefficients) if c is not None)
        case Pointers():
            return of(node.offset) if node.rest is None else of(node.offset) | of(node.rest)
        case Map():
            result: frozenset[int] = frozenset()
            for operand in node.operands:
                result |= of(operand)
            return result
        case View():
            inner = of(node.source)
            return frozenset(d for s, d in enumerate(node.dims) if d is not None and s in inner)
        case Load():
            result = of(node.pointers)
            for part in (node.mask, node.other):
                if part is not None:
                    result |= of(part)
            return result
    return frozenset(d for d, n in enumerate(node.shape) if n > 1)


def decompose_mask(mask: Node | None) -> tuple[list[Bound], list[Node]]:
    """A mask as bounds on single coordinates and what remains."""
    match mask:
        case None:
            return [], []
        case Map(op="arith.andi"):
            bounds: list[Bound] = []
            rest: list[Node] = []
            for operand in mask.operands:
                more, other = decompose_mask(operand)
                bounds += more
                rest += other
            return bounds, rest
        case Map(op="arith.cmpi") if "bound" in mask.attrs:
            return [mask.attrs["bound"]], []
        case View():
            inner, other = decompose_mask(mask.source)
            if not other and all(mask.dims[b.dim] is not None for b in inner):
                return [Bound(d, b.limit) for b in inner if (d := mask.dims[b.dim]) is not None], []
        case Splat() if mask.value.ref in ("true", "1"):
            return [], []
    return [], [mask] if mask is not None else []


def reads_memory(node: Node, scratch: bool = True, kept: Collection[int] = ()) -> bool:
    """Whether the node is made from what is loaded, or kept in scratch. scratch: whether that counts.  kept: ids of nodes that
    are not looked into."""
    stack, seen = [node], set(kept)
    while stack:
        here = stack.pop()
        if id(here) in seen:
            continue
        seen.add(id(here))
        match here:
            case Load():
                return True
            case Stored():
                if scratch:
                    return True
            case Map():
                stack.extend(here.operands)
            case View() | Flattened():
                stack.append(here.source)
            case Pointers() if here.rest is not None:
                stack.append(here.rest)
    return False


def stride_of(pointers: Pointers, dim: int) -> int:
    """The distance in elements between neighbours along a dimension as far as the affine part goes, where it is a known number;
    else 0."""
    coefficient = pointers.offset.coefficients[dim]
    if coefficient is None or not is_constant(coefficient):
        return 0
    distance, size = int(coefficient.ref) * memory_size_of(pointers.unit), memory_size(pointers.pointee)
    return distance // size if distance % size == 0 else 0


def memory_size_of(llvm_element: str) -> int:
    """Bytes of an LLVM element type."""
    return {"double": 8, "float": 4, "half": 2, "ptr": 8}.get(llvm_element) or max(
        1, int(llvm_element[1:]) // 8
    )
