"""Defines `rotary_embedding`: positions as rotations of pairs of elements."""

from __future__ import annotations

from ...construction import primitives
from ...errors import mistake
from ...graph import graph_of
from ...ops.opdef import accumulator
from ...protocols import TensorLike
from ...symbol import Symbol
from ...types import shape_text
from ..building import apply
from ..joining import concat, stack


def rotated(x: Symbol, cosines: Symbol, sines: Symbol, interleaved: bool) -> Symbol:
    """Rotate pairs of elements of the last axis; what is left over stays.

    x: (…, length, size). cosines, sines: (…, length, half), which broadcast against the pairs; of the dtype of x.
    """
    half = cosines.shape[-1]
    turned, rest = x[..., : half * 2], x[..., half * 2 :]
    if interleaved:
        pairs = primitives.reshape(turned, (*turned.shape[:-1], half, 2))
        a, b = pairs[..., 0], pairs[..., 1]
    else:
        a, b = turned[..., :half], turned[..., half:]
    first = apply("sub", apply("mul", a, cosines), apply("mul", b, sines))
    second = apply("add", apply("mul", b, cosines), apply("mul", a, sines))
    last = len(x.shape) - 1
    both = [first, second]
    result = primitives.reshape(stack(both, last + 1), turned.shape) if interleaved else concat(both, last)
    return concat([result, rest], last) if rest.shape[last] != 0 else result


def rotary_embedding(
    x: TensorLike, cos: TensorLike, sin: TensorLike, positions: TensorLike | None = None, interleaved: bool = False
) -> Symbol:
    """Rotate pairs of elements by angles that depend on the position (Su et al., 2021); as ONNX's RotaryEmbedding.

    Args:
        x: (N, heads, length, size), as `attention` takes it, with a known size.
        cos, sin: cosines and sines of the angles of size / 2 pairs, or of fewer: elements behind them stay as they are. Their
            shape is (longest, pairs) where `positions` says which rows are used, else (length, pairs) or (N, length, pairs).
        positions: integers (length,) or (N, length); those out of range are clamped.
        interleaved: whether pairs lie side by side; otherwise the second half of the elements are the partners of the first.

    Operands join in a float dtype, the result's; 16-bit floats are computed in float32 and rounded once. Raises `UserError` for
    tables that do not fit.

    Example:
        >>> x, positions = jn.TensorType(jn.float32, (1, 4, "n", 8), "x"), jn.TensorType(jn.int64, ("n",), "positions")
        >>> g = jn.Graph("g", [x, positions])
        >>> jn.rotary_embedding(g.inputs[0], np.ones((50, 4)), np.zeros((50, 4)), g.inputs[1]).shape
        (1, 4, Dim('n'), 8)
    """
    op = "rotary_embedding"
    given = (x, cos, sin)
    graph = graph_of(op, *given, *([] if positions is None else [positions]))
    joined = graph.promoted(op, given, "layer_norm")
    result = joined[0].dtype
    value, cosines, sines = (primitives.cast(each, accumulator(result)) for each in joined)
    if positions is not None:
        where = graph.as_symbol(positions, op)
        if not where.dtype.is_integer or len(where.shape) not in (1, 2) or len(cosines.shape) != 2 or len(sines.shape) != 2:
            what = f"positions {where.dtype} {shape_text(where.shape)} of tables {shape_text(cosines.shape)}"
            raise mistake(op, what, (*joined, where), "integers (length,) or (N, length), tables (longest, pairs)", "cast them")
        cosines, sines = (apply("gather", table, where, axis=0) for table in (cosines, sines))
    half, size = cosines.shape[-1] if cosines.shape else 0, value.shape[-1] if value.shape else 0
    known = isinstance(half, int) and isinstance(size, int) and 0 < 2 * half <= size
    if len(value.shape) != 4 or len(cosines.shape) not in (2, 3) or cosines.shape != sines.shape or not known:
        what = f"x {shape_text(value.shape)}, cos {shape_text(cosines.shape)}, sin {shape_text(sines.shape)}"
        raise mistake(op, what, joined, "(N, heads, length, size), and two tables (length, pairs), at most size / 2 pairs",
                      "check positions=")  # fmt: skip
    rows = cosines.shape[-2]
    if graph.shape_checks.decide(rows, value.shape[2]) is False:
        raise mistake(op, f"{rows} rows of angles for {value.shape[2]} positions", joined, "one for each", "pass positions=")
    if len(cosines.shape) == 3:
        cosines, sines = (primitives.reshape(each, (each.shape[0], 1, *each.shape[1:])) for each in (cosines, sines))
    return primitives.cast(rotated(value, cosines, sines, bool(interleaved)), result)
