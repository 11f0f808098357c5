"""Holds the rows of the op table that are not one scalar function per element."""

from __future__ import annotations

import math
from collections.abc import Callable

from ...promotion.dtype import DType
from ...promotion.result_rules import EXPLICIT, JOIN, JOIN_FLOAT, MEAN, SAME, ResultRule
from ..types import Shape
from . import demands, expansions, shape
from .attributes import Attributes
from .opdef import (
    CONTRACT,
    INDEXED,
    POSITION,
    SCATTERED,
    VARIADIC,
    Demand,
    OpDef,
    OpKind,
    ShapeFunction,
    ViewIndex,
    ViewTerms,
)

_REDUCTION = ("axes", "keepdims")


def _row(
    name: str,
    kind: OpKind,
    arity: int,
    doc: str,
    promote: ResultRule,
    infer: ShapeFunction,
    attrs: tuple[str, ...] = (),
    *,
    demand: Demand | None = None,
    dunder: str = "",
    traits: str = "",
    ulp: float = 0.5,
    onnx: tuple[str, int] | None = None,
    bound: str = "",
    cost: int = 1,
    index: ViewIndex | None = None,
    combine: str = "",
    neutral: Callable[[DType], float] | None = None,
    numpy: str = "",
) -> OpDef:
    expand = getattr(expansions, name) if kind == "composite" else None
    return OpDef(
        name, kind, arity, doc, promote, infer, attrs=attrs, demand=demand, dunder=dunder, expand=expand,
        traits=frozenset(traits.split()), ulp=math.inf if bound else ulp, onnx=onnx, bound=bound, cost=cost,
        index=index, combine=combine, neutral=neutral, numpy=numpy,
    )  # fmt: skip


SOURCES = (
    _row("input", "source", 0, "The argument number `index` of the graph, called `name`.", EXPLICIT, shape.given,
         ("index", "name"), traits="any_dtype"),
    _row("constant", "source", 0, "An array known when the graph is built.", EXPLICIT, shape.given, ("value",),
         traits="any_dtype", onnx=("Constant", 13)),
    _row("text_constant", "source", 0, "Strings known when the graph is built.", EXPLICIT, shape.given, ("options",),
         traits="any_dtype"),
    _row("weight", "source", 0, "A constant with a name, which stays beside the graph.", EXPLICIT, shape.given,
         ("name", "value"), traits="any_dtype"),
    _row("dim_value", "source", 0, "A size as an int64 scalar.", EXPLICIT, shape.given, ("extent",)),
)  # fmt: skip



def _zero(dtype: DType) -> float:
    return 0.0 if dtype.is_float else False if dtype.is_bool else 0


def _one(dtype: DType) -> float:
    return 1.0 if dtype.is_float else True if dtype.is_bool else 1


def _lowest(dtype: DType) -> float:
    return -math.inf if dtype.is_float else False if dtype.is_bool else dtype.min_value


def _highest(dtype: DType) -> float:
    return math.inf if dtype.is_float else True if dtype.is_bool else dtype.max_value


REDUCTIONS = (
    _row("reduce_sum", "reduce", 1, "The sum over `axes`, accumulated in the operand's dtype; 0 of nothing. "
         "It begins with 0, so that it is never -0.0. Where Σ|x| is too large for the dtype it may be infinite or NaN: the "
         "order is open.", SAME, shape.reduction, _REDUCTION, bound="(n + 2) ε Σ|x|", onnx=("ReduceSum", 13),
         combine="add", neutral=_zero),
    _row("reduce_prod", "reduce", 1, "The product over `axes`, accumulated in the operand's dtype; 1 of nothing.", SAME,
         shape.reduction, _REDUCTION, bound="2 n ε |Πx|", onnx=("ReduceProd", 18), combine="mul", neutral=_one),
    _row("reduce_max", "reduce", 1, "The largest element over `axes`; NaN if there is one. "
         "Of zeros of both signs it may be either.", SAME, shape.reduction, _REDUCTION,
         demand=demands.elements, onnx=("ReduceMax", 18), combine="maximum", neutral=_lowest),
    _row("reduce_min", "reduce", 1, "The smallest element over `axes`; NaN if there is one. "
         "Of zeros of both signs it may be either.", SAME, shape.reduction,
         _REDUCTION, demand=demands.elements, onnx=("ReduceMin", 18), combine="minimum", neutral=_highest),
    _row("argmax", "reduce", 1, "The position (int64) of the first largest element; of the first NaN if there is one.",
         POSITION, shape.arg_reduction, _REDUCTION, demand=demands.positions, onnx=("ArgMax", 13), neutral=_lowest),
    _row("argmin", "reduce", 1, "The position (int64) of the first smallest element; of the first NaN if there is one.",
         POSITION, shape.arg_reduction, _REDUCTION, demand=demands.positions, onnx=("ArgMin", 13), neutral=_highest),
)  # fmt: skip

SCANS = (
    _row("cumsum", "scan", 1, "Running sums along `axis`, in the operand's dtype; `exclusive` leaves the element itself "
         "out, `reverse` starts at the end. Sums of nothing but -0.0 are -0.0; exclusive ones begin with 0. Where Σ|x| is too "
         "large for the dtype they may be infinite or NaN: the order is open.", SAME,
         shape.along_axis, ("axis", "exclusive", "reverse"),
         bound="(n + 2) ε Σ|x|", onnx=("CumSum", 14), combine="add", neutral=_zero),
    _row("cumprod", "scan", 1, "Running products along `axis`, in the operand's dtype; `exclusive` leaves the element itself "
         "out and begins with 1, `reverse` starts at the end.", SAME, shape.along_axis, ("axis", "exclusive", "reverse"),
         bound="2 n ε |Πx|", onnx=("CumProd", 26), combine="mul", neutral=_one),
    _row("cummax", "scan", 1, "The largest of the elements so far along `axis`; NaN from the first NaN on. `exclusive` leaves "
         "the element itself out and begins with the lowest value, `reverse` starts at the end. Of zeros of both signs it may "
         "be either.", SAME, shape.along_axis, ("axis", "exclusive", "reverse"), combine="maximum", neutral=_lowest),
    _row("cummin", "scan", 1, "The smallest of the elements so far along `axis`; NaN from the first NaN on. `exclusive` leaves "
         "the element itself out and begins with the highest value, `reverse` starts at the end. Of zeros of both signs it may "
         "be either.", SAME, shape.along_axis, ("axis", "exclusive", "reverse"), combine="minimum", neutral=_highest),
    _row("sort_block", "scan", 1, "int32 or int64 elements along `axis` in ascending order, by a program that has all of them.",
         SAME, shape.along_axis, ("axis",), demand=demands.sortable, traits="internal", neutral=_highest, cost=64),
)  # fmt: skip

CONTRACTIONS = (
    _row("matmul", "contract", 2,
         "(…, M, K) @ (…, K, N) → (…, M, N), batch axes broadcast. Sums are accumulated in `accumulate` and rounded once; "
         'precision "tf32" rounds float32 operands to 10 mantissa bits first. Where Σ|a b| is too large for the dtype sums may '
         "be infinite or NaN: the order is open.", CONTRACT, shape.matmul,
         ("accumulate", "precision"), demand=demands.product, dunder="matmul", bound="(n + 4) ε Σ|a b|",
         onnx=("MatMul", 13)),
)  # fmt: skip


def _permuted(operand: Shape, result: Shape, attrs: Attributes) -> list[ViewTerms]:
    return [(((attrs["axes"].index(axis), 1),), 0) for axis in range(len(operand))]


def _broadcast(operand: Shape, result: Shape, attrs: Attributes) -> list[ViewTerms]:
    new = len(result) - len(operand)
    return [(((new + axis, 1),), 0) for axis in range(len(operand))]


def _sliced(operand: Shape, result: Shape, attrs: Attributes) -> list[ViewTerms]:
    return [(((axis, step),), start) for axis, (start, step) in enumerate(zip(attrs["starts"], attrs["steps"], strict=True))]


def _flipped(operand: Shape, result: Shape, attrs: Attributes) -> list[ViewTerms]:
    return [
        (((axis, -1),), extent - 1) if axis in attrs["axes"] else (((axis, 1),), 0) for axis, extent in enumerate(operand)
    ]


def _windowed(operand: Shape, result: Shape, attrs: Attributes) -> list[ViewTerms]:
    found: list[ViewTerms] = [(((axis, 1),), 0) for axis in range(len(operand))]
    for position, (axis, stride, dilation) in enumerate(zip(attrs["axes"], attrs["strides"], attrs["dilations"], strict=True)):
        found[axis] = (((axis, stride), (len(operand) + position, dilation)), 0)
    return found


VIEWS = (
    _row("reshape", "view", 1, "The same elements in row-major order under another shape.", SAME, shape.reshape, ("shape",),
         traits="any_dtype", onnx=("Reshape", 14)),
    _row("permute", "view", 1, "Axes reordered: axis i of the result is axis axes[i] of the operand.", SAME, shape.permute,
         ("axes",), traits="any_dtype", onnx=("Transpose", 13), index=_permuted),
    _row("broadcast_to", "view", 1, "The operand repeated along new axes and axes of size 1.", SAME, shape.broadcast_to,
         ("shape",), traits="any_dtype", onnx=("Expand", 13), index=_broadcast),
    _row("slice", "view", 1, "One slice start:stop:step per axis, normalised; with a negative step a stop of -1 is just past "
         "the first element.", SAME, shape.slicing, ("starts", "stops", "steps"), traits="any_dtype", onnx=("Slice", 13),
         index=_sliced),
    _row("flip", "view", 1, "The order of the elements reversed along `axes`.", SAME, shape.flip, ("axes",),
         traits="any_dtype", index=_flipped),
    _row("windows", "view", 1, "All windows of `sizes` elements along `axes`: each of these axes becomes the `counts` windows "
         "along it, and the elements of a window, `dilations` apart, come as new last axes. Window i begins at i · stride.",
         SAME, shape.windows, ("axes", "counts", "sizes", "strides", "dilations"), traits="any_dtype", index=_windowed),
)  # fmt: skip

JOINS = (
    _row("concat", "join", VARIADIC, "Tensors one after the other along `axis`.", JOIN, shape.concat, ("axis",),
         traits="any_dtype", onnx=("Concat", 13), cost=2),
    _row("pad", "join", 1, "`low` elements before and `high` after, per axis: a constant `value`, the reflection without the "
         "border, or the edge repeated.", SAME, shape.pad, ("low", "high", "mode", "value"), demand=demands.fill,
         traits="any_dtype", onnx=("Pad", 18), cost=2),
)  # fmt: skip

INDEXING = (
    _row("gather", "index", 2, "Elements of `axis` at integer positions, as numpy.take; negative ones count from the end, "
         "others are clamped into range.", INDEXED, shape.gather, ("axis",), traits="any_dtype", onnx=("Gather", 13), cost=4),
    _row("take_along_axis", "index", 2, "Elements of `axis` at integer positions of equal rank, as numpy.take_along_axis; "
         "positions as in gather.", INDEXED, shape.take_along_axis, ("axis",), traits="any_dtype",
         onnx=("GatherElements", 13), cost=4),
)  # fmt: skip

ORDERED = (
    _row("scatter", "ordered", 3, "The first operand, a copy of it, with updates (the third) at integer positions (the second) "
         "along `axis`: they replace an element, or are combined with it by `reduction`, one after the other in the order of "
         "`axis`. Negative positions count from the end; updates at others out of range are dropped.", SCATTERED,
         shape.scatter, ("axis", "reduction"), demand=demands.scattered, traits="any_dtype", onnx=("ScatterElements", 18),
         cost=8),
    _row("sort_keys", "ordered", 1, "Of int32 keys k along the last axis, in two rows: 2³² k + position in ascending order, "
         "and these positions; a third row, of lines that may be long, is memory to work in.", POSITION, shape.sorted_keys,
         demand=demands.keys, traits="internal", cost=64),
    _row("sort_lines", "ordered", 1, "int32 or int64 elements along the last axis, `axis`, in ascending order, in the memory "
         "of the result.", SAME, shape.along_axis, ("axis",), demand=demands.sortable_lines, traits="internal", cost=64),
)  # fmt: skip

COMPOSITES = (
    _row("sort", "composite", 1, "The elements along `axis` in order, equal ones as they come. NaN is beyond infinity, "
         "zeros of both signs are equal.", SAME,
         shape.along_axis, ("axis", "descending"), demand=demands.orderable, traits="any_dtype", onnx=("TopK", 11)),
    _row("argsort", "composite", 1, "Positions (int64) along `axis` that put the elements in order, equal ones in that of "
         "their positions. NaN is beyond infinity, zeros of both signs are equal.", POSITION, shape.along_axis,
         ("axis", "descending"), demand=demands.orderable, traits="any_dtype", onnx=("TopK", 11)),
    _row("sorted_positions", "composite", 1, "Positions (int64) along the last axis, `axis`, that put int32 keys in order, "
         "equal ones in that of their positions.", POSITION, shape.along_axis, ("axis",), demand=demands.keys,
         traits="internal"),
    _row("least_positions", "composite", 1, "Positions (int64) of the `k` least int32 or int64 keys along the last axis, "
         "`axis`, in order, equal ones in that of their positions.", POSITION, shape.top, ("axis", "k"), demand=demands.keys,
         traits="internal"),
    _row("top_positions", "composite", 1, "Positions (int64) of the `k` largest or smallest elements along `axis`, in order: "
         "the first `k` of argsort.", POSITION, shape.top, ("axis", "k", "largest"), demand=demands.orderable,
         traits="any_dtype internal", onnx=("TopK", 11)),
    _row("softmax", "composite", 1, "exp(x - max) / sum(exp(x - max)) along `axis`.", JOIN_FLOAT, shape.along_axis, ("axis",),
         bound="(n + 12) ε/2 |y|", onnx=("Softmax", 13)),
    _row("logsoftmax", "composite", 1, "log(softmax(x)) along `axis`, without leaving the log domain.", JOIN_FLOAT,
         shape.along_axis, ("axis",), bound="(n + 16) ε/2 |y|", onnx=("LogSoftmax", 13)),
    _row("logsumexp", "composite", 1, "log(sum(exp(x))) over `axes`; -inf where all elements are -inf.", JOIN_FLOAT,
         shape.reduction, _REDUCTION, bound="(n + 16 + 2|y| + max|x|) ε", onnx=("ReduceLogSumExp", 18)),
    _row("mean", "composite", 1, "sum(x) / count over `axes`; of bools and integers in float32. "
         "The sum is one of float32 (of float64 for float64), which may be infinite or NaN where Σ|x| is beyond its largest "
         "number.", MEAN, shape.reduction,
         _REDUCTION, bound="(n + 6) ε/2 Σ|x| / n", onnx=("ReduceMean", 18)),
    _row("var", "composite", 1,
         "sum((x - mean)²) / (count - correction) over `axes`, in two passes. "
         "Sums, differences and squares have the range of float32 (float64 for float64), as the sum of `mean`.", MEAN,
         shape.reduction, (*_REDUCTION, "correction"), bound="(n + 8) ε y + 2 m Σ|x - mean| / n + m²"),
    _row("gelu", "composite", 1, 'x · Φ(x); "tanh" and "quick" (x · sigmoid(1.702 x)) approximate it.',
         JOIN_FLOAT, shape.same, ("approximate",), ulp=12.0, onnx=("Gelu", 20)),
    _row("silu", "composite", 1, "x · sigmoid(x).", JOIN_FLOAT, shape.same, (), ulp=4.0),
    _row("layer_norm", "composite", VARIADIC,
         "(x - mean) / √(var + epsilon) · scale + bias over the last axis; operands x, [scale], [bias]. Mean and variance as "
         "`mean` and `var`, so values near the largest number give NaN.", JOIN_FLOAT,
         shape.normalization, ("epsilon", "has_scale", "has_bias"), bound="(2 n + 20) ε |y| + 2 m (1 + 2|y|) / √var",
         onnx=("LayerNormalization", 17)),
    _row("rms_norm", "composite", VARIADIC, "x / √(mean(x²) + epsilon) · scale over the last axis; operands x, [scale]. "
         "Squares beyond the largest float32 (float64) are infinite, and the quotients 0.",
         JOIN_FLOAT, shape.normalization, ("epsilon", "has_scale"), bound="(2 n + 20) ε |y|", onnx=("RMSNormalization", 23)),
)  # fmt: skip

ROWS = (
    *SOURCES, *REDUCTIONS, *SCANS, *CONTRACTIONS, *VIEWS, *JOINS, *INDEXING, *ORDERED, *COMPOSITES,
)  # fmt: skip
