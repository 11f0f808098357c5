"""Positions in blocks: coordinates, bounds on them, and the dimensions along which nodes vary."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from .....promotion.errors import InternalError
from ...elementwise import memory_size
from ...values import V, is_integer
from ..nodes import Affine, Flattened, Load, Map, Node, Pointers, Splat, Stored, View
from ..scalars import ZERO, is_constant


class Coordinate(NamedTuple):
    """A position along one block dimension: `at + offset`, covering `lanes` positions; `loop` names the loop it belongs to."""

    at: V
    offset: int = 0
    lanes: int = 1
    loop: int = 0


ORIGIN = Coordinate(ZERO)
Coordinates = tuple[Coordinate | None, ...]


def along(coordinates: Coordinates, dim: int) -> Coordinate:
    """Returns the position along a dimension that a loop runs over; InternalError where it is not known."""
    found = coordinates[dim]
    if found is None:
        raise InternalError(f"host lowering: no position along dimension {dim}")
    return found


class Bound(NamedTuple):
    """The condition `coordinate[dim] < limit`."""

    dim: int
    limit: V


def dependencies(node: Node, of: Callable[[Node], frozenset[int]]) -> frozenset[int]:
    """Returns the dimensions of the node's shape along which its value varies; `of` gives those of its operands."""
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
    """Splits a mask into bounds on single coordinates and the remaining conditions.

    Each is returned once: masks may share parts over many levels.
    """
    return ([], []) if mask is None else _decomposed(mask, {})


def _decomposed(mask: Node, known: dict[int, tuple[list[Bound], list[Node]]]) -> tuple[list[Bound], list[Node]]:
    """Splits a mask as `decompose_mask` does; known: the results by the ids of views."""
    bounds: dict[tuple[int, str], Bound] = {}
    rest: list[Node] = []
    pending, seen = [mask], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        match part:
            case Map(op="arith.andi"):
                pending += reversed(part.operands)
            case Map(op="arith.cmpi") if "bound" in part.attrs:
                bound = part.attrs["bound"]
                bounds.setdefault((bound.dim, bound.limit.operand()), bound)
            case View():
                if id(part) not in known:
                    known[id(part)] = _of_view(part, *_decomposed(part.source, known))
                inner, other = known[id(part)]
                bounds |= {key: bound for bound in inner if (key := (bound.dim, bound.limit.operand())) not in bounds}
                rest += [node for node in other if node not in rest]
            case Splat() if is_integer(part.value, 1):
                pass
            case _:
                rest.append(part)
    return list(bounds.values()), rest


def _of_view(view: View, inner: list[Bound], other: list[Node]) -> tuple[list[Bound], list[Node]]:
    if not other and all(view.dims[bound.dim] is not None for bound in inner):
        return [Bound(d, bound.limit) for bound in inner if (d := view.dims[bound.dim]) is not None], []
    return [], [view]


def conjuncts(condition: Node) -> list[Node]:
    """Returns the conditions that one is the conjunction of, each once."""
    found: list[Node] = []
    pending, seen = [condition], set[int]()
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, Map) and part.op == "arith.andi":
            pending += reversed(part.operands)
        elif not (isinstance(part, Splat) and is_integer(part.value, 1)):
            found.append(part)
    return found


def reads_memory(node: Node, scratch: bool = True, kept: Collection[int] = ()) -> bool:
    """Whether the node is made from loaded values, or from ones kept in scratch, if `scratch` counts.

    kept: ids of nodes that are not examined.
    """
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
    """Returns the distance in elements between neighbours along a dimension by the affine part of the offsets.

    0 where it is not a known number of whole elements.
    """
    coefficient = pointers.offset.coefficients[dim]
    if coefficient is None or not is_constant(coefficient):
        return 0
    distance, size = coefficient.number * memory_size_of(pointers.unit), memory_size(pointers.pointee)
    return distance // size if distance % size == 0 else 0


def alignment_of(pointers: Pointers) -> int:
    """Returns the bytes of which addresses of elements are multiples: integers of two floats may lie where floats do."""
    return min(memory_size(pointers.pointee), memory_size_of(pointers.unit))


def memory_size_of(llvm_element: str) -> int:
    """Returns the bytes of an LLVM element type."""
    return {"double": 8, "float": 4, "half": 2, "ptr": 8}.get(llvm_element) or max(
        1, int(llvm_element[1:]) // 8
    )
