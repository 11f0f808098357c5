"""Builds operations with normalised attributes, for the methods of `Symbol` and the public functions."""

from __future__ import annotations

from collections.abc import Sequence

from ...promotion.dtype import DType
from ...promotion.errors import UnsupportedError
from ..checks import ShapeError
from ..dims.dim import Dim, Extent
from ..errors import compose, describing, mistake
from ..ops.attributes import Attributes
from ..ops.opdef import accumulator
from ..ops.shape import infer_reshape, normalize_axis
from ..protocols import GraphLike, SymbolT, TensorLike
from ..types import DimLike, DTypeLike, ShapeLike, as_dtype, as_extent
from .nesting import innermost


def cast(x: SymbolT, dtype: DTypeLike, rounding: str = "nearest", saturate: bool = True) -> SymbolT:
    """Convert `x` to `dtype`; return `x` itself if it has that dtype and is strong.

    Raises `UnsupportedError` for dtypes whose values are only stored.
    """
    target = as_dtype(dtype, "cast: dtype")
    if rounding not in ("nearest", "toward_zero"):
        raise mistake(
            "cast", f"unknown rounding {rounding!r}", (x,), '"nearest" or "toward_zero"', 'rounding="nearest"'
        )
    if not isinstance(saturate, bool):
        raise mistake("cast", f"saturate is {saturate!r}", (x,), "True or False", "saturate=True")
    if target is x.dtype and x.weak is None:
        return x
    for side in () if x.dtype.is_complex or target.is_complex else (x.dtype, target):
        if side.storage_only:
            message = f"cast: values of {side} can be stored, viewed and bit-cast, but not converted"
            raise UnsupportedError(compose(message, (x,), fix="convert the array before it enters the graph"))
    result = x.graph.apply(
        "cast", (x,), {"dtype": target, "rounding": rounding, "saturate": saturate}, dtype=target
    )
    return result


def bitcast(x: SymbolT, dtype: DTypeLike) -> SymbolT:
    """Reinterpret the bits of `x` as another dtype of the same width."""
    target = as_dtype(dtype, "bitcast: dtype")
    if target is x.dtype:
        return x
    if target.itemsize != x.dtype.itemsize or (
        target.bits != x.dtype.bits and "bool" not in (target.kind, x.dtype.kind)
    ):
        raise mistake(
            "bitcast",
            f"{x.dtype} has {x.dtype.bits} bits, {target} has {target.bits}",
            (x,),
            "dtypes of equal width",
            f"bitcast to uint{x.dtype.bits} first" if x.dtype.bits >= 8 else "cast instead",
        )
    return x.graph.apply("bitcast", (x,), {"dtype": target}, dtype=target)


def reshape(x: SymbolT, shape: ShapeLike) -> SymbolT:
    """Reshape `x`; one size may be -1, which is computed."""
    sizes = _sizes(shape)
    with describing("reshape", x):
        unknown = [position for position, size in enumerate(sizes) if type(size) is int and size == -1]
        if len(unknown) > 1:
            raise ShapeError(
                f"-1 appears {len(unknown)} times", "at most one size to compute", "write the others out"
            )
        extents: list[Extent] = [
            0 if position in unknown else as_extent(size, f"reshape: size {position}")
            for position, size in enumerate(sizes)
        ]
        target = infer_reshape(x.shape, extents, unknown[0] if unknown else None, x.graph.shape_checks)
    if target == x.shape:
        return x
    return x.graph.apply("reshape", (x,), {"shape": target})


def _sizes(shape: ShapeLike) -> Sequence[DimLike]:
    if isinstance(shape, (int, str, Dim)) or not hasattr(shape, "__iter__"):
        return (shape,)
    return [int(size) if hasattr(size, "__index__") else size for size in shape]


def permute(x: SymbolT, axes: Sequence[int]) -> SymbolT:
    """Reorder axes: axis i of the result is axis axes[i] of `x`."""
    with describing("permute", x):
        if not isinstance(axes, (tuple, list)):
            raise ShapeError(f"axes {axes!r}", f"a tuple of {len(x.shape)} ints")
        order = tuple([normalize_axis(axis, len(x.shape)) for axis in axes])
    if order == tuple(range(len(x.shape))):
        return x
    return x.graph.apply("permute", (x,), {"axes": order})


def transpose(x: SymbolT, first: TensorLike, second: TensorLike) -> SymbolT:
    """Swap two axes."""
    with describing("transpose", x):
        a, b = (normalize_axis(axis, len(x.shape)) for axis in (first, second))
    order = list(range(len(x.shape)))
    order[a], order[b] = order[b], order[a]
    return permute(x, order)


def broadcast_to(x: SymbolT, shape: ShapeLike) -> SymbolT:
    """Repeat `x` along new leading axes and axes of size 1."""
    target = tuple([as_extent(size, f"broadcast_to: size {p}") for p, size in enumerate(_sizes(shape))])
    if target == x.shape:
        return x
    return x.graph.apply("broadcast_to", (x,), {"shape": target})


def matmul(graph: GraphLike[SymbolT], a: TensorLike, b: TensorLike, precision: str = "ieee", op: str = "matmul") -> SymbolT:
    """Multiply as numpy.matmul.

    A vector becomes a matrix for the product, and the added axis is dropped again.
    """
    if precision not in ("ieee", "tf32"):
        raise mistake(op, f"unknown precision {precision!r}", (a, b), '"ieee" or "tf32"', 'precision="ieee"')
    graph = innermost(graph, (a, b))
    lhs, rhs = graph.as_symbol(a, op), graph.as_symbol(b, op)
    for operand in (lhs, rhs):
        if not operand.shape:
            raise mistake(
                op,
                "a scalar cannot be contracted",
                (lhs, rhs),
                "operands of rank 1 or more",
                "use * to scale",
            )
    if lhs.dtype.is_complex or rhs.dtype.is_complex:
        if precision != "ieee":
            expected, fix = "float32 operands", 'precision="ieee"'
            raise mistake(op, f"precision={precision!r} of complex operands", (lhs, rhs), expected, fix)
        return graph.apply("matmul", (lhs, rhs), {})
    promotion = graph.promotion("matmul", (lhs, rhs))
    if precision == "tf32" and promotion.result.name not in ("float32", "tensor_float32"):
        raise mistake(
            op,
            f'precision="tf32" of {promotion.result} operands',
            (lhs, rhs),
            "float32 operands",
            'precision="ieee"',
        )
    left = reshape(lhs, (1, *lhs.shape)) if len(lhs.shape) == 1 else lhs
    right = reshape(rhs, (*rhs.shape, 1)) if len(rhs.shape) == 1 else rhs
    attrs: Attributes = {"accumulate": accumulator(promotion.result), "precision": precision}
    result = graph.apply("matmul", (left, right), attrs)
    if left is lhs and right is rhs:
        return result
    rows = () if left is not lhs else (result.shape[-2],)
    columns = () if right is not rhs else (result.shape[-1],)
    return reshape(result, (*result.shape[:-2], *rows, *columns))


def accumulate_in(x: SymbolT, dtype: DType) -> SymbolT:
    """Cast `x` to the dtype in which its sums are computed, given the dtype of the result."""
    return cast(x, accumulator(dtype))
