"""Leaves out the first and last blocks of keys of an attention that a mask excludes for all rows of a program.

A causal mask, or a window, compares positions of keys with positions of rows: what it excludes of a block of keys is known from
the least and the largest of both. Weights of excluded keys are exp(-inf) = 0, and change nothing, so long as

* the values that they are multiplied with are finite: 0 · inf is NaN;
* where -inf is added to scores, these are finite: inf - inf is NaN.

Both are looked at, which takes an element of keys and values once where products take it once for each row; where one does not
hold, all keys are walked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from ....promotion.dataclass import dataclass
from ...nest import Nest
from ...schedule.attention import Softmax
from ...tt.builder.block_builder import BlockBuilder
from ...tt.types import F32, F64, I64, elem, shape_of
from ..blocks import Dimension
from ..emit import Frame
from ..index_builder import Index
from ..structure import Product
from .products import operand

_COMPARISONS = {"less": "slt", "less_equal": "sle", "greater": "sgt", "greater_equal": "sge"}
_SWAPPED = {"slt": "sgt", "sle": "sge", "sgt": "slt", "sge": "sle"}
_HIGHEST = (1 << 63) - 1
LARGEST = 1e37
"""Scores up to which none of their sums is infinite."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Keys are included where `keys predicate rows` holds: values of the nest that vary along keys, and along rows at most."""

    keys: int
    predicate: str
    rows: int


@dataclass(frozen=True, slots=True)
class KeyMask:
    """A mask of scores. excluded where one of the comparisons does not hold. factor: of the scores that -inf is added to; None
    where -inf takes the place of what is excluded, whatever it is."""

    comparisons: tuple[Comparison, ...]
    factor: float | None


def key_mask(nest: Nest, scores: Product, softmax: Softmax, keys: int) -> KeyMask | None:
    """Returns the mask of an attention's scores, if it compares integers that vary along keys with others that do not."""
    body = nest.body
    logits = body[softmax.logits]
    if logits.op == "where":
        condition, _, other = logits.operands
        if _constant(nest, other) != -math.inf:
            return None
        found = _comparisons(nest, condition, keys)
        return KeyMask(found, None) if found else None
    if logits.op != "add":
        return None
    for summand, masked in (logits.operands, logits.operands[::-1]):
        factor = _factor(nest, summand, scores.number)
        if factor is None or body[masked].op != "where":
            continue
        condition, kept, other = body[masked].operands
        if _constant(nest, kept) != 0 or _constant(nest, other) != -math.inf:
            continue
        found = _comparisons(nest, condition, keys)
        if found:
            return KeyMask(found, factor)
    return None


def _constant(nest: Nest, number: int) -> float | None:
    value = nest.body[number]
    return float(value.attrs["value"]) if value.op == "const" else None


def _factor(nest: Nest, number: int, scores: int) -> float | None:
    """Returns the number that scores are multiplied by; None of anything else."""
    if number == scores:
        return 1.0
    value = nest.body[number]
    if value.op != "mul":
        return None
    for one, other in (value.operands, value.operands[::-1]):
        factor = _constant(nest, other)
        if one == scores and factor is not None and math.isfinite(factor):
            return abs(factor)
    return None


def _comparisons(nest: Nest, number: int, keys: int) -> tuple[Comparison, ...]:
    """Returns comparisons that all hold where a condition holds."""
    value = nest.body[number]
    if value.op in ("logical_and", "bitwise_and"):
        return tuple([found for part in value.operands for found in _comparisons(nest, part, keys)])
    if value.op not in _COMPARISONS:
        return ()
    one, other = value.operands
    predicate = _COMPARISONS[value.op]
    if keys not in nest.body[one].axes:
        one, other, predicate = other, one, _SWAPPED[predicate]
    along, beside = nest.body[one], nest.body[other]
    plain = all(each.dtype.kind == "int" and each.dtype.bits in (32, 64) for each in (along, beside))
    if not plain or along.axes != (keys,) or keys in beside.axes:
        return ()
    return (Comparison(one, predicate, other),)


@dataclass(frozen=True, slots=True, eq=False)
class Walked:
    """The blocks of keys that are walked: their number, and the first."""

    count: Index
    first: Index


class MaskedKeys:
    """Emits which blocks of keys a program walks."""

    def __init__(
        self, frame: Frame, mask: KeyMask, products: tuple[Product, Product], columns: Dimension, rows: Dimension
    ) -> None:
        self.frame, self.mask, self.columns, self.rows = frame, mask, columns, rows
        self.scores, self.values = products
        self.b: BlockBuilder = frame.builder

    def walked(self, count: Index, step: int, rank: int) -> Walked:
        """Returns the blocks from the first to the last that no comparison excludes; all where what they exclude could change a
        result."""
        indices, b, kernel = self.frame.indices, self.b, self.frame.kernel
        beside = [self._ends(self.frame, each.rows) for each in self.mask.comparisons]
        last, none = indices.value(count), indices.value(0)
        with kernel.loop(count, [last, none]) as loop:
            inner = self._at(loop.index, step, rank)
            included = self._is_included(inner, beside)
            at = indices.value(loop.index)
            first = b.select(included, b.binary("arith.minsi", loop.args[0], at), loop.args[0])
            end = b.select(included, b.binary("arith.addi", at, b.const(1, I64)), loop.args[1])
            loop.yield_([first, end])
        end = self._limited(loop.results[1], none, last)  # which proofs need not find out
        first = self._limited(loop.results[0], none, end)  # where all are excluded, none is walked
        is_safe = self._is_safe(count, step, rank, first, end)
        begin = b.select(is_safe, first, none)
        return Walked(b.binary("arith.subi", b.select(is_safe, end, last), begin), begin)

    def _limited(self, value: SSAValue, least: SSAValue, largest: SSAValue) -> SSAValue:
        return self.b.binary("arith.maxsi", least, self.b.binary("arith.minsi", value, largest))

    def _at(self, block: Index, step: int, rank: int) -> Frame:
        kernel = self.frame.kernel
        keys = kernel.dimension(self.values.k, step, self.frame.indices.mul(block, step), rank)
        return self.frame.child({self.values.k: keys})

    def _ends(self, frame: Frame, number: int) -> tuple[SSAValue, SSAValue]:
        """Returns the least and the largest of some integers, in int64, of those within their extents."""
        b, block = self.b, frame.block(number)
        value = frame.expand(block, block.dims)
        if elem(value.type) != I64:
            value = b.cast("arith.extsi", value, I64)
        inside = frame.mask(block.dims, block.dims)
        ends = []
        for name, beyond in (("arith.minsi", _HIGHEST), ("arith.maxsi", -_HIGHEST - 1)):
            among = value if inside is None else b.select(inside, value, b.const(beyond, I64, shape_of(value.type)))
            ends.append(self._reduced(name, among))
        return ends[0], ends[1]

    def _reduced(self, name: str, block: SSAValue) -> SSAValue:
        """Returns what an operation makes of all elements of a block."""
        while shape_of(block.type):
            block = self.b.reduce([block], 0, lambda b, x, y: [b.binary(name, x[0], y[0])])[0]
        return block

    def _is_included(self, inner: Frame, beside: Sequence[tuple[SSAValue, SSAValue]]) -> SSAValue:
        """Returns whether no comparison excludes a whole block of keys."""
        b, included = self.b, None
        for each, (least, largest) in zip(self.mask.comparisons, beside, strict=True):
            low, high = self._ends(inner, each.keys)
            is_upper = each.predicate in ("slt", "sle")
            holds = b.cmpi(each.predicate, low if is_upper else high, largest if is_upper else least)
            included = holds if included is None else b.binary("arith.andi", included, holds)
        assert included is not None
        return included

    def _is_safe(self, count: Index, step: int, rank: int, first: SSAValue, end: SSAValue) -> SSAValue:
        """Returns whether excluded keys change nothing: values are finite, and scores too, where -inf is added to them."""
        b, frame = self.b, self.frame
        left = frame.kernel.nest.body[self.scores.number].operands[0]
        sizes = [self._largest(first, None, step, rank), self._largest(end, count, step, rank)]
        largest = [b.binary("arith.maximumf", one, other) for one, other in zip(*sizes, strict=True)]
        is_safe = b.cmpf("olt", largest[-1], b.const(math.inf, elem(largest[-1].type)))
        if self.mask.factor is None:
            return is_safe
        head = frame.coordinates[self.scores.k]
        assert isinstance(head, Dimension)
        rows = self._magnitude(operand(frame, left, self.rows, head, head))
        most = b.const(head.size * max(1.0, self.mask.factor), elem(rows.type))
        bound = b.binary("arith.mulf", b.binary("arith.mulf", rows, largest[0]), most)
        finite = b.cmpf("olt", bound, b.const(LARGEST, elem(bound.type)))
        return b.binary("arith.andi", is_safe, finite)

    def _largest(self, first: SSAValue, end: Index | None, step: int, rank: int) -> list[SSAValue]:
        """Returns the largest magnitudes of keys (where they matter) and of values, of the blocks before `first`, or from it to
        `end`."""
        b, frame, indices = self.b, self.frame, self.frame.indices
        body = frame.kernel.nest.body
        right, value = (body[product.number].operands[1] for product in (self.scores, self.values))
        count: Index = first if end is None else indices.sub(end, first)
        kinds = [F64 if body[number].dtype.name == "float64" else F32 for number in (right, value)]
        inits = [b.const(0.0, kind) for kind in (kinds if self.mask.factor is not None else kinds[1:])]
        with frame.kernel.loop(count, inits) as loop:
            at = loop.index if end is None else indices.add(loop.index, first)
            inner = self._at(at, step, rank)
            keys = inner.coordinates[self.values.k]
            head = inner.coordinates[self.scores.k]
            assert isinstance(keys, Dimension)
            assert isinstance(head, Dimension)
            found = [self._magnitude(operand(inner, value, keys, self.columns, keys))]
            if self.mask.factor is not None:
                found.insert(0, self._magnitude(operand(inner, right, head, keys, head)))
            loop.yield_([b.binary("arith.maximumf", one, other) for one, other in zip(loop.args, found, strict=True)])
        return list(loop.results)

    def _magnitude(self, block: SSAValue) -> SSAValue:
        """Returns the largest magnitude in a block of floats; NaN if there is one."""
        b = self.b
        if elem(block.type) not in (F32, F64):
            block = b.cast("arith.extf", block, F32)
        return self._reduced("arith.maximumf", b.unary("math.absf", block))
