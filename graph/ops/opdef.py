"""Defines one row of the op table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Literal

from ...promotion.dataclass import dataclass
from ...promotion.dtype import DType, bool_, float32, int32, int64
from ...promotion.errors import UserError
from ...promotion.literals import Operand
from ...promotion.result_rules import JOIN, Promotion, ResultRule
from ...promotion.rules import RuleSet, dtype_of
from ..checks import Checks, ShapeError
from ..dims.dim import Extent
from ..types import MAX_RANK, Shape
from .attributes import Attributes, require_attributes

OpKind = Literal[
    "source", "map", "reduce", "scan", "contract", "view", "join", "index", "ordered", "host", "control", "composite"
]  # fmt: skip
ShapeFunction = Callable[[Sequence[Shape], Attributes, Checks], Shape]
Demand = Callable[[Sequence[DType], Sequence[Shape], Attributes, Checks], None]
ViewTerms = tuple[tuple[tuple[int, int], ...], Extent]
"""An index of a view's operand: (axis of the result, step) pairs, and where it starts."""
ViewIndex = Callable[[Shape, Shape, Attributes], Sequence[ViewTerms]]

VARIADIC = -1
_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class OpDef:
    """The definition of an op. Rows are compared by identity.

    Attributes:
        name: the op's name in the graph and the public function's.
        kind: what the op is to the lower layers (docs/design/001-architecture.md).
        arity: number of operands, or `VARIADIC` (at least one).
        doc: one sentence of definition, with the formula where there is one.
        promote: how operand dtypes become casts and the result dtype.
        shape: (operand shapes, attrs, checks) → result shape; raises `ShapeError`.
        attrs: names of the attributes; a symbol of this op has exactly these (`attributes.py` says of what kind they are).
        demand: what else must hold of operand dtypes, shapes and attributes (`demands.py`), or None.
        dunder: Python operator ("add" stands for `__add__` and `__radd__`), or "".
        emit: kind of operand ("bool", "int", "uint", "float") → block IR op, or "@emitter". Missing kinds are refused.
        expand: for composites: (symbol, *operands) → the same value from simpler ops, on the operands' graph.
        traits: some of "commutative", "associative", "idempotent", "any_dtype" (moves values without looking at them) and
            "internal" (no public function: for expansions of composites).
        ulp: largest error of a back end in units in the last place of the result dtype; 0.5 means correctly rounded. Infinite
            where `bound` says what holds instead. What was measured is in docs/accuracy.json.
        bound: the absolute error of a result in terms of its operands (docs/ops.md explains the letters), or "".
        index: for views (operand shape, result shape, attrs) → for each axis of the operand (((axis, step), …), start): the
            element of a result's index i lies at start + Σ step · i[axis]. None where the index is not affine.
        combine: for reductions and scans, the map that combines the results of two parts; "" where there is none.
        neutral: for reductions and scans, the value of an operand's dtype that changes no result.
        numpy: the NumPy function that the evaluator computes a map with (16-bit floats in float32, rounded once), or the ufunc
            whose `reduce` a reduction is; "" where an implementation is registered in `graph/reference`.
        cost: simple vector instructions per element, where lowering weighs evaluating the op again against keeping its value.
        onnx: (op type, version it exists since) of the ONNX op of the same meaning, or None.
    """

    name: str
    kind: OpKind
    arity: int
    doc: str
    promote: ResultRule
    shape: ShapeFunction
    attrs: tuple[str, ...] = ()
    demand: Demand | None = None
    dunder: str = ""
    emit: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    expand: Callable[..., Any] | None = None
    traits: frozenset[str] = frozenset()
    ulp: float = 0.5
    onnx: tuple[str, int] | None = None
    bound: str = ""
    cost: int = 1
    index: ViewIndex | None = None
    combine: str = ""
    neutral: Callable[[DType], float] | None = None
    numpy: str = ""

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def accepts(self, dtype: DType) -> bool:
        """Return whether the op computes on values of `dtype` (after promotion)."""
        if "any_dtype" in self.traits:
            return True
        if not dtype.has_arithmetic:
            return False
        return not self.emit or dtype.kind in self.emit


    def infer(self, dtypes: Sequence[DType], shapes: Sequence[Shape], attrs: Attributes, checks: Checks) -> Shape:
        """Return the shape of the result for operands of these dtypes (after casts) and shapes.

        This is the one statement of what the op needs, which builders and the verifier use. Raises
        `ShapeError`; conditions that depend on symbolic sizes go to `checks`.
        """
        if self.attrs or attrs:
            require_attributes(self.attrs, attrs)
        shape = self.shape(shapes, attrs, checks)
        if self.demand is not None:
            self.demand(dtypes, shapes, attrs, checks)
        if len(shape) > MAX_RANK:
            raise ShapeError(f"the result has {len(shape)} axes", f"at most {MAX_RANK}", "merge some with reshape")
        return shape


def _contract(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    joined = JOIN.apply(rule_set, operands, op=op)
    target = joined.result
    if target.is_bool or (target.is_integer and target.bits <= 8):
        return Promotion(joined.casts, int32)
    return joined


def _positions(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    return Promotion(tuple([dtype_of(operand) for operand in operands]), int64)


def _indexed(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    own = tuple([dtype_of(operand) for operand in operands])
    if not own[1].is_integer:
        raise UserError(
            f"{op}: the indices must be integers, not {own[1]}; fix: cast them with .cast(int64)"
            + (", or select with where(mask, x, y)" if own[1] is bool_ else "")
        )
    return Promotion(own, own[0])


def _scattered(rule_set: RuleSet, operands: Sequence[Operand], op: str, dtype: DType | None) -> Promotion:
    data, positions, updates = operands
    own = dtype_of(positions)
    if not own.is_integer:
        raise UserError(f"{op}: the indices must be integers, not {own}; fix: cast them with .cast(int64)")
    joined = JOIN.apply(rule_set, (data, updates), op=op)
    return Promotion((joined.casts[0], own, joined.casts[1]), joined.result)


CONTRACT = ResultRule(
    "CONTRACT",
    "as JOIN; products of bools and 8-bit integers are summed in int32, which is the result",
    _contract,
)
POSITION = ResultRule("POSITION", "operands keep their dtypes; the result is int64, a position", _positions)
INDEXED = ResultRule(
    "INDEXED",
    "the first operand gives the result dtype, the second is made of integers; neither is cast",
    _indexed,
)

SCATTERED = ResultRule(
    "SCATTERED",
    "the first and the third operand are cast to their join, which is the result; the second is made of integers",
    _scattered,
)


def accumulator(dtype: DType) -> DType:
    """Return the dtype in which sums, products and composites of `dtype` are computed before one rounding."""
    return float32 if dtype.name in ("float16", "bfloat16", "tensor_float32") else dtype
