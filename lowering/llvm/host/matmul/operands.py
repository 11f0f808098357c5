"""Describes the operands of a product in memory, and what of the product is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....promotion.dataclass import dataclass
from ...elementwise import NARROW, constant, memory_element, register_element
from ...values import TRUE, V, i64, is_integer
from ..evaluate import Evaluator
from ..loops.coordinates import Bound, decompose_mask, reads_memory
from ..loops.loop_nests import LoopNests
from ..masks.zero_limits import is_kept, is_zero, zero_limits
from ..nodes import Affine, Load, Map, Node, Splat, Stored, View, view
from ..scalars import ZERO
from .decoding import Decoding


@dataclass(frozen=True, slots=True)
class Operand:
    """A matrix in memory: element [i, j] at `pointer + i · row + j · column` (elements), with limits from its mask.

    gathered: its rows begin at the offsets that `row` points to.  decoding: how micro-kernels make floats of it, if memory
    holds it in fewer bits, with the arguments of that in `decoded`.  moved: memory holds bytes that are 128 more, unsigned.
    """

    pointer: V
    row: V
    column: V
    bounds: tuple[Bound, ...]
    gathered: bool = False
    decoding: Decoding | None = None
    decoded: tuple[V, ...] = ()
    moved: bool = False

    def limits(self, dim: int) -> set[str]:
        """Returns the limits that its mask sets on a dimension."""
        return {bound.limit.operand() for bound in self.bounds if bound.dim == dim}


def rows_of(bounds: Sequence[Bound]) -> tuple[Bound, ...]:
    """Returns the bounds of rows."""
    return tuple([bound for bound in bounds if bound.dim == 0])


@dataclass(frozen=True, slots=True)
class Wanted:
    """The bounds beyond which the product, and its right operand, are never read."""

    result: Sequence[Bound] = ()
    right: Sequence[Bound] = ()

    @property
    def left(self) -> tuple[Bound, ...]:
        """The bounds beyond which rows of the left operand, which are those of the result, are never read."""
        return rows_of(self.result)

    @property
    def turned(self) -> Wanted:
        """The bounds of the transposed product."""
        return Wanted([Bound(1 - bound.dim, bound.limit) for bound in self.result])


def within(shape: tuple[int, ...], bound: Bound) -> Map:
    """Returns the mask of a block that a bound says."""
    coordinate = Affine(shape, "i64", ZERO, tuple(i64(1) if d == bound.dim else None for d in range(len(shape))))
    return Map(shape, "i1", "arith.cmpi", (coordinate, Splat(shape, "i64", bound.limit)), {"predicate": "slt", "bound": bound})


def shared_limits(left: Sequence[Bound], right: Sequence[Bound]) -> list[V]:
    """Returns the limits along k beyond which both operands are zero, given the bounds of each."""
    known = {bound.limit.operand() for bound in left if bound.dim == 1}
    return [bound.limit for bound in right if bound.dim == 0 and bound.limit.operand() in known]


def cut(product: Map, limits: Sequence[V]) -> Node:
    """Returns products along the second dimension, zero beyond limits as they are anyway: sums of them then end there."""
    node: Node = product
    for limit in limits:
        zero = Splat(product.shape, product.elem, constant(0, product.elem))
        node = Map(product.shape, product.elem, "arith.select", (within(product.shape, Bound(1, limit)), node, zero))
    return node


EVERYTHING = Wanted()


class Operands:
    """Finds the operands of products in memory, and copies to scratch those that lie otherwise than products read them."""

    def __init__(self, evaluator: Evaluator, nests: LoopNests) -> None:
        self.ev = evaluator
        self.nests = nests
        self.copies: list[Stored] = []  # operands in scratch, which only the product being emitted reads

    def direct(self, node: Node, element: str) -> Operand | None:
        """Returns the operand in place, when it is a plain load of the right element type with zero fill, else None."""
        ev = self.ev
        if isinstance(node, Stored):
            if node.memory != element:
                return None
            row, column = (ev.s.constant(stride) for stride in node.strides)
            return Operand(node.pointer, row, column, ())
        replaced = ev.replacement.get(id(node))
        if replaced is not None and (not replaced[2] or is_kept(ev, node)):
            found = self.direct(replaced[1], element)
            return None if found is None else replace(found, bounds=tuple(replaced[2]))
        dims: tuple[int | None, ...] = (0, 1)
        load: Node = node
        if isinstance(node, View):
            load, dims = ev.source_of(node), node.dims
        if isinstance(load, Stored):
            strides = [0, 0]
            for stride, dim in zip(load.strides, dims, strict=True):
                if dim is not None:
                    strides[dim] = stride
            return Operand(load.pointer, ev.s.constant(strides[0]), ev.s.constant(strides[1]), ()) \
                if load.memory == element else None  # fmt: skip
        if not isinstance(load, Load) or load.pointers.rest is not None:
            return None
        if memory_element(load.pointers.pointee) != element or load.pointers.unit != element:
            return None
        if load.other is not None and not (isinstance(load.other, Splat) and is_zero(load.other)):
            return None
        inner, rest = decompose_mask(load.mask)
        if rest or any(dims[b.dim] is None for b in inner):
            return None
        bounds = tuple(Bound(d, b.limit) for b in inner if (d := dims[b.dim]) is not None)
        steps = [ev.s.constant(0), ev.s.constant(0)]
        for coefficient, dim in zip(load.pointers.offset.coefficients, dims, strict=True):
            if coefficient is not None and dim is not None:
                steps[dim] = coefficient
        base = ev.f.gep(load.pointers.base, load.pointers.offset.base, element)
        return Operand(base, steps[0], steps[1], bounds)

    def operand(
        self, node: Node, elem: str, contiguous: bool, tf32: bool, wanted: Sequence[Bound] = ()
    ) -> Operand:
        """Returns the operand with register elements `elem`; copied to scratch, within `wanted`, where it must be."""
        element = register_element(elem)
        if not tf32:
            direct = self.direct(node, element)
            if direct is not None and (not contiguous or is_integer(direct.column, 1)):
                return direct
            if not contiguous and (gathered := self._gathered(node, element)) is not None:
                return gathered
            if contiguous and isinstance(node, Load) and self._may_be_in_place(node, element):
                return self._straight_or_copied(node, element, wanted)
        limits = self.limits(node)  # beyond them the operand is zero, and the product stops there
        memory = self.nests.materialize(self.converted(node, elem, tf32), bounds=(*wanted, *limits))
        self.copies.append(memory)
        row, column = (self.ev.s.constant(stride) for stride in memory.strides)
        return Operand(memory.pointer, row, column, limits)

    def coded(self, node: Node, elem: str) -> Operand | None:
        """Returns a right operand in place that memory holds in fewer bits, to be made floats as it is read; else None."""
        if elem != "f32":
            return None
        rows: dict[str, Node | None] = {}
        node, rows["offset"] = self._with_row(node, "arith.addf", True)
        node, rows["scale"] = self._with_row(node, "arith.mulf", True)
        node, rows["zero"] = self._with_row(node, "arith.subf", False)
        mask: V | None = None
        if not isinstance(node, Map) or id(node) in self.ev.replacement:
            codes: Node = node
        elif node.op == "arith.extf":
            codes = node.operands[0]
        elif node.op in ("arith.uitofp", "arith.sitofp"):
            codes = masked = node.operands[0]
            if isinstance(masked, Map) and masked.op == "arith.andi" and isinstance(masked.operands[1], Splat):
                if id(masked) in self.ev.replacement:
                    return None
                codes, mask = masked.operands[0], masked.operands[1].value
        else:
            return None
        is_integer_code = codes.elem == "i8" and isinstance(node, Map) and node.op != "arith.extf"
        if not isinstance(codes, Load) or not (is_integer_code or (codes.elem in NARROW and not any(rows.values()))):
            return None
        found = self.direct(codes, memory_element(codes.elem))
        if found is None or not is_integer(found.column, 1):
            return None
        names = tuple([name for name in ("zero", "scale", "offset") if rows[name] is not None])
        signed = is_integer_code and isinstance(node, Map) and node.op == "arith.sitofp"
        decoding = Decoding(codes.elem, signed, mask is not None, names)
        pointers = [self.nests.materialize(row).pointer for row in map(rows.get, names) if row is not None]
        return replace(found, decoding=decoding, decoded=(*([] if mask is None else [mask]), *pointers))

    def _with_row(self, node: Node, op: str, either: bool) -> tuple[Node, Node | None]:
        """Returns a block, and the row of numbers, one for each column, that `op` combines it with; no row for another block.

        either: whether the row may be the first operand, too.
        """
        if not isinstance(node, Map) or node.op != op or node.elem != "f32" or id(node) in self.ev.replacement:
            return node, None
        pairs = [node.operands, node.operands[::-1]] if either else [node.operands]
        for block, row in pairs:
            if self.ev.depends(row) <= {1} and 0 in self.ev.depends(block):
                return block, view(row, node.shape[1:], (None, 0))
        return node, None

    def _gathered(self, node: Node, element: str) -> Operand | None:
        """Returns a left operand in place whose rows lie anywhere, each with its elements side by side; else None.

        Where rows begin is computed once, into scratch: rows of windows, rows that indices pick, rows modulo their number.
        """
        ev = self.ev
        if not isinstance(node, Load) or id(node) in ev.replacement or node.pointers.rest is None:
            return None
        rest, (step, along) = node.pointers.rest, node.pointers.offset.coefficients
        plain = memory_element(node.pointers.pointee) == node.pointers.unit == element
        if not plain or along is None or not is_integer(along, 1) or not ev.depends(rest) <= {0}:
            return None
        if node.other is not None and not is_zero(node.other):
            return None
        bounds, others = decompose_mask(node.mask)
        if others:
            return None
        rows = node.shape[:1]
        offsets = view(rest, rows, (0, None))
        if step is not None:
            offsets = Map(rows, "i64", "arith.addi", (offsets, Affine(rows, "i64", ZERO, (step,))))
        found = self.nests.materialize(offsets, bounds=[bound for bound in bounds if bound.dim == 0])
        base = ev.f.gep(node.pointers.base, node.pointers.offset.base, element)
        return Operand(base, found.pointer, along, tuple(bounds), True)

    def _may_be_in_place(self, load: Load, element: str) -> bool:
        """Returns whether a right operand with computed columns, `column % n`, could be used in place where they are a
        progression, as they are in all tiles but the last."""
        rest = load.pointers.rest
        if rest is None or id(load) in self.ev.replacement or reads_memory(rest) or decompose_mask(load.mask)[1]:
            return False
        along, across = load.pointers.offset.coefficients
        plain = memory_element(load.pointers.pointee) == load.pointers.unit == element
        zero = load.other is None or is_zero(load.other)
        return plain and zero and self.ev.depends(rest) == {1} and across is None and along is not None

    def _straight_or_copied(self, load: Load, element: str, wanted: Sequence[Bound]) -> Operand:
        """Returns one operand for both cases, which are told apart at run time, so that the product is emitted once."""
        ev, f = self.ev, self.ev.f
        straight, holds = self.nests.straightened(load, 1)
        direct = self.direct(straight, element)
        assert direct is not None
        memory = ev.scratch(load.shape, load.elem)
        kept = dict(ev.replacement)
        with f.when(f.binary("xor", holds, TRUE)), ev.scope():
            self.nests.materialize(load, memory, (*wanted, *self.limits(load)))
        ev.replacement = kept
        row, column = (ev.s.constant(stride) for stride in memory.strides)
        return Operand(
            f.select(holds, direct.pointer, memory.pointer), f.select(holds, direct.row, row), column, direct.bounds
        )

    def converted(self, node: Node, elem: str, tf32: bool) -> Node:
        """Returns the block with elements `elem`, rounded to 10 mantissa bits for `tf32`: shorter floats have no more."""
        converted = node
        if node.elem != elem:
            op = "arith.extsi" if node.elem[0] == "i" and elem[0] == "i" else "arith.extf"
            op = "arith.sitofp" if node.elem[0] == "i" and elem[0] == "f" else op
            converted = Map(node.shape, elem, op, (node,))
        if tf32 and node.elem == "f32":
            converted = Map(node.shape, elem, "joinery.round_tf32", (converted,))
        return converted

    def limits(self, node: Node) -> tuple[Bound, ...]:
        """Returns the bounds beyond which a block is known to be zero."""
        return zero_limits(self.ev, node)

    def rows_in_place(self, node: Node, elem: str) -> Operand | None:
        """Returns an operand whose rows have elements side by side, wherever these begin, in place; else None."""
        direct = self.direct(node, elem)
        return direct if direct is not None and is_integer(direct.column, 1) else self._gathered(node, elem)

    def release(self) -> None:
        while self.copies:
            self.ev.release(self.copies.pop())

    def side_by_side(self, node: Node, elem: str, limits: Sequence[Bound] = (), left: bool = True) -> Operand:
        """Returns an operand whose rows have elements, of bfloat16 bits, side by side; copied to scratch where it must be.

        limits: beyond which it need not be copied. left: whether its rows may be gathered.
        """
        direct = self.rows_in_place(node, elem) if left else self.direct(node, elem)
        if direct is not None and (direct.gathered or is_integer(direct.column, 1)):
            return direct
        memory = self.nests.materialize(self._as_bits(node, elem), bounds=limits or self.limits(node))
        self.copies.append(memory)
        return Operand(memory.pointer, self.ev.s.constant(memory.strides[0]), i64(1), self.limits(node))

    def _as_bits(self, node: Node, elem: str) -> Node:
        """Returns a block whose elements are those of another one in memory: loads of floats are loads of their bits."""
        if node.elem == elem:
            return node
        if isinstance(node, View):
            source = self.ev.source_of(node)
            if isinstance(source, Load):
                return replace(node, elem=elem, source=self._as_bits(source, elem))
        plain = isinstance(node, Load) and id(node) not in self.ev.replacement and (node.other is None or is_zero(node.other))
        if isinstance(node, Load) and plain and node.pointers.unit == memory_element(node.pointers.pointee) == elem:
            other = None if node.other is None else Splat(node.shape, elem, constant(0, elem))
            return replace(node, elem=elem, pointers=replace(node.pointers, pointee=elem), other=other)
        return Map(node.shape, elem, "arith.bitcast", (node,))
