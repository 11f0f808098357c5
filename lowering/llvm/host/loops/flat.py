"""Visits blocks of many short dimensions as one dimension: a nest over the row-major positions of their shape.

Sorts reshape a block of 512 to nine dimensions of 2. Eight loops around a vector of 2 lanes are long and slow; one loop over
512 positions is neither. What varies with single dimensions then varies with digits of the position, `position // step %
extent`: as all extents are powers of two, a digit is either the same in all lanes of a vector, or a pattern of its lanes that
repeats in every vector.

Nests are flattened by rewriting their nodes: views disappear into the leaves, and a leaf that is not simply contiguous
becomes a `Flattened` node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...elementwise import from_memory, register_element
from ...op_lines import NodeLines
from ...values import V, i64, int_vector, integer, is_integer, vector, zero
from ..nodes import Affine, Digit, Flattened, Load, Map, Node, Pointers, Shape, Splat, Stored, View
from ..scalars import ZERO, Scalars, is_constant, wrapped
from .coordinates import Bound, Coordinate, memory_size_of

Dims = tuple[int | None, ...]
FEWEST = 3
"""The fewest dimensions with an extent above 1 for which flattening a nest pays."""
_SMALL = 4
"""How often a load at addresses that are not affine in the position must be visited to get a nest of its own."""


def is_deep(shape: Shape, lanes: Callable[[], int]) -> bool:
    """Whether a nest over the shape is better one loop: it would be deep, or its vectors short. `lanes`: of a vector."""
    if len(shape) < FEWEST:
        return False
    wide = [n for n in shape if n > 1]
    if len(wide) < FEWEST or any(n & (n - 1) for n in wide):
        return False
    return len(wide) > FEWEST or wide[-1] < lanes()


def digits(shape: Shape, coefficients: Sequence[V | None]) -> tuple[Digit, ...]:
    """Returns how `Σ coefficients[d] · coordinate[d]` varies with the row-major position in the shape, the lowest digit first.

    Neighbouring dimensions whose coefficients continue each other are one digit.
    """
    found: list[Digit] = []
    step = 1
    for extent, coefficient in zip(reversed(shape), reversed(coefficients), strict=True):
        if extent > 1 and coefficient is not None and not is_integer(coefficient, 0):
            last = found[-1] if found else None
            if last is not None and last.step * last.extent == step and _goes_on(last, coefficient):
                found[-1] = Digit(last.step, last.extent * extent, last.coefficient)
            else:
                found.append(Digit(step, extent, coefficient))
        step *= extent
    return tuple(found)


def _goes_on(digit: Digit, coefficient: V) -> bool:
    if not is_constant(coefficient) or not is_constant(digit.coefficient):
        return False
    return coefficient.number == digit.coefficient.number * digit.extent


def as_line(shape: Shape, coefficients: Sequence[V | None]) -> V | None:
    """Returns the coefficient of the position, if the form is affine in it, else None."""
    found = digits(shape, coefficients)
    if not found:
        return ZERO
    whole = len(found) == 1 and found[0].step == 1 and found[0].extent == math.prod(shape)
    return found[0].coefficient if whole else None


def flat_memory(memory: Stored) -> Stored | None:
    """Returns the scratch indexed by row-major position, if its elements are evenly spaced, else None."""
    stride = as_line(memory.shape, [i64(stride) for stride in memory.strides])
    if stride is None:
        return None
    return Stored((math.prod(memory.shape),), memory.elem, memory.pointer, (integer(stride),), memory.memory)


class Flattener:
    """Rewrites the nodes of a nest over `shape` for one over its positions. None where that is not possible."""

    def __init__(
        self,
        replacement: dict[int, tuple[Node, Stored, tuple[Bound, ...]]],
        shape: Shape,
        origins: dict[int, tuple[Node, Node]],
        materialize: Callable[[Node], Stored],
        lines: NodeLines,
    ) -> None:
        """Begins a rewriting of one nest.

        `replacement`: the blocks that are kept in scratch, by node. `origins` receives, by the id of a node of the
        nest's shape, the node and the one that it was rewritten from. `materialize` makes a nest of its own. `lines`:
        the source lines of nodes.
        """
        self._lines = lines
        self._origins = origins
        self._materialize = materialize
        self._replacement = replacement
        self._shape = shape
        self._flat = (math.prod(shape),)
        self._found: dict[tuple[int, Dims], Node | None] = {}
        self._same: Dims = tuple(range(len(shape)))

    def node(self, node: Node) -> Node | None:
        return self._of(node, self._same if node.shape else ())

    def pointers(self, pointers: Pointers) -> Pointers | None:
        return self._pointers(pointers, self._same)

    def _of(self, node: Node, dims: Dims) -> Node | None:
        """Rewrites a node. `dims`: the nest's dimension that each of the node's dimensions follows; None: it stays at 0."""
        key = (id(node), dims)
        if key not in self._found:
            found = self._write(node, dims)
            self._found[key] = found
            if found is not None:
                self._lines.set(found, self._lines.of(node, ""))
            if found is not None and dims == self._same and found is not node:
                self._origins[id(found)] = (found, node)
        return self._found[key]

    def _write(self, node: Node, dims: Dims) -> Node | None:
        kept = self._replacement.get(id(node))
        if kept is not None and not kept[2]:
            node = kept[1]
        match node:
            case Splat():
                return Splat(self._flat, node.elem, node.value)
            case Affine():
                return self._leaf(node, dims, node.coefficients)
            case Stored():
                return self._leaf(node, dims, [i64(stride) for stride in node.strides])
            case View():
                return self._of(node.source, tuple(None if d is None else dims[d] for d in node.dims))
            case Map():
                operands: list[Node] = []
                for operand in node.operands:
                    found = self._of(operand, dims if operand.shape else ())
                    if found is None:
                        return None
                    operands.append(found)
                # what bounds a dimension that is removed
                facts = {name: fact for name, fact in node.attrs.items() if name not in ("bound", "begin")}
                return Map(self._flat, node.elem, node.op, tuple(operands), facts)
            case Load():
                return self._load(node, dims)
        return None

    def _along(self, dims: Dims, coefficients: Sequence[V | None]) -> list[V | None]:
        """Returns the coefficients of a node as coefficients of the nest's dimensions."""
        found: list[V | None] = [None] * len(self._shape)
        for dim, coefficient in zip(dims, coefficients, strict=True):
            if dim is not None:
                found[dim] = coefficient
        return found

    def _leaf(self, node: Affine | Stored, dims: Dims, coefficients: Sequence[V | None]) -> Node:
        along = self._along(dims, coefficients)
        line = as_line(self._shape, along)
        match node:
            case Stored() if line is not None:
                return Stored(self._flat, node.elem, node.pointer, (integer(line),), node.memory)
            case Affine() if line is not None:
                return Affine(self._flat, node.elem, node.base, (None if is_integer(line, 0) else line,))
        return Flattened(self._flat, node.elem, node, digits(self._shape, along))

    def _pointers(self, pointers: Pointers, dims: Dims) -> Pointers | None:
        if pointers.rest is not None:
            return None
        line = as_line(self._shape, self._along(dims, pointers.offset.coefficients))
        if line is None:
            return None
        offset = Affine(self._flat, "i64", pointers.offset.base, (None if is_integer(line, 0) else line,))
        return replace(pointers, shape=self._flat, offset=offset)

    def _load(self, node: Load, dims: Dims) -> Node | None:
        pointers = self._pointers(node.pointers, dims)
        if pointers is None:
            if _SMALL * math.prod(node.shape) > self._flat[0]:
                return None
            stored = self._materialize(node)
            self._replacement[id(node)] = (node, stored, ())
            return self._write(stored, dims)
        parts: list[Node | None] = []
        for part in (node.mask, node.other):
            parts.append(None if part is None else self._of(part, dims if part.shape else ()))
            if part is not None and parts[-1] is None:
                return None
        return Load(self._flat, node.elem, pointers, parts[0], parts[1])


# -- evaluation -----------------------------------------------------------------


def read_flattened(s: Scalars, node: Flattened, coordinate: Coordinate) -> V:
    """Emits the values at a vector of positions, the first a multiple of their number; a scalar where all are the same."""
    n = coordinate.lanes
    total, lane_terms = _split(s, node.digits, coordinate)
    match node.source:
        case Affine():
            return _affine(s, node.source, total, lane_terms, n)
        case Stored():
            return _stored(s, node.source, total, [sum(offset) for offset in _lane_offsets(lane_terms, n)])


def _split(s: Scalars, found: Sequence[Digit], at: Coordinate) -> tuple[V, list[tuple[V, list[int]]]]:
    """Splits Σ coefficient · digit into the part that all lanes share and the terms that vary between them.

    A term is a coefficient, and its factor by lane.
    """
    n = at.lanes
    position = s.add(at.at, s.constant(at.offset))
    total, terms = ZERO, []
    for step, extent, coefficient in found:
        if step < n:
            inner = min(extent, n // step)
            terms.append((coefficient, [lane // step % inner for lane in range(n)]))
            step, extent, coefficient = n, extent // inner, s.mul(coefficient, s.constant(inner))
        if extent > 1:
            quotient = s.floor_div(position, step)
            digit = s.sub(quotient, s.round_down(quotient, extent)) if is_constant(quotient) else s.f.binary(
                "and", quotient, s.constant(extent - 1))  # fmt: skip
            total = s.add(total, s.mul(coefficient, digit))
    return total, terms


def _lane_offsets(terms: Sequence[tuple[V, list[int]]], n: int) -> list[list[int]]:
    """Returns, by lane, the products of constant coefficients and their factors."""
    return [[integer(coefficient) * factors[lane] for coefficient, factors in terms] for lane in range(n)]


def _affine(s: Scalars, node: Affine, total: V, terms: Sequence[tuple[V, list[int]]], n: int) -> V:
    narrow = register_element(node.elem)
    value = s.truncated(s.add(node.base, total), narrow)
    known = [term for term in terms if is_constant(term[0])]
    if known:
        lanes = [wrapped(sum(offset), narrow) for offset in _lane_offsets(known, n)]
        if is_constant(value):
            value = int_vector([wrapped(value.number + lane, narrow) for lane in lanes], narrow)
        else:
            value = s.f.binary("add", s.f.splat(value, n), int_vector(lanes, narrow))
    for coefficient, factors in terms:
        if not is_constant(coefficient):
            step = s.f.splat(s.truncated(coefficient, narrow), n)
            value = s.f.binary("add", s.f.splat(value, n), s.f.binary("mul", step, int_vector(factors, narrow)))
    return value


def _stored(s: Scalars, node: Stored, total: V, offsets: Sequence[int]) -> V:
    raw = _gathered(s, node, s.f.gep(node.pointer, total, node.memory), offsets)
    return from_memory(s.f, raw, "i1") if node.elem == "i1" else raw


def _gathered(s: Scalars, node: Stored, pointer: V, offsets: Sequence[int]) -> V:
    """Loads the elements at these offsets, the first being the lowest: in one access where they are close, else in halves.

    Nothing is known to be readable after the last one.
    """
    f, n, size = s.f, len(offsets), memory_size_of(node.memory)
    reach = max(offsets) - offsets[0] + 1
    if reach <= 2 * n:
        raw = f.load(vector(node.memory, reach), f.gep(pointer, offsets[0], node.memory), size)
        lanes = [offset - offsets[0] for offset in offsets]
        return raw if reach == 1 or lanes == list(range(reach)) else f.shuffle(raw, raw, lanes)
    low, high = (_gathered(s, node, pointer, half) for half in (offsets[: n // 2], offsets[n // 2 :]))
    if n == 2:
        return f.insert(f.insert(zero(vector(node.memory, 2)), low, 0), high, 1)
    return f.shuffle(f.splat(low, n // 2), f.splat(high, n // 2), range(n))
