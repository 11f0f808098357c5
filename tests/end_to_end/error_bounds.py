"""How far compiled values may lie from the reference evaluator's: a running error analysis of a whole graph.

Every symbol gets its reference value and a bound on the absolute error of a back end that keeps the numeric contract. A bound
of 0 means "bit for bit" (up to the sign of zeros), infinity means "anything" (a comparison or an index that depends on a
rounded value). First-order bounds of Higham, "Accuracy and Stability of Numerical Algorithms" (2002), with room to spare;
sums and products of values that are exact in float32 have no error at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.dims import Dim
from joinery.graph.reference import bind_inputs

Array = np.ndarray[Any, Any]

MONOTONE: dict[str, Callable[[Array], Array]] = {
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log1p": np.log1p, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "tanh": np.tanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}  # fmt: skip
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
GRID = 2.0**-6
"""Values that are multiples of this, and whose sums stay below 2**24 of them, are summed without error in float32."""


def unit(dtype: jn.DType) -> float:
    """The unit roundoff of the type sums of `dtype` are computed in."""
    return 2.0**-53 if dtype.name == "float64" else 2.0**-24


class Node:
    """A symbol with its value as float64, its error, and its attributes with every dim replaced by its size."""

    def __init__(self, symbol: Any, value: Array, inputs: Sequence[Node], attrs: dict[str, Any]) -> None:
        self.symbol, self.value, self.inputs, self.attrs = symbol, value, inputs, attrs
        self.op, self.dtype = symbol.op, symbol.dtype
        self.wide = value.astype(np.float64) if value.dtype.kind != "c" else np.zeros(value.shape)
        self.error: Array = np.zeros(value.shape)

    @property
    def size(self) -> Array:
        """The largest magnitude the compiled value can have."""
        return np.abs(np.nan_to_num(self.wide, posinf=np.inf)) + self.error

    def rounding(self) -> Array:
        """What one more rounding to the node's dtype can add."""
        if not self.dtype.is_float:
            return np.zeros(self.value.shape)
        beyond = np.abs(self.wide) * (1 + 2.0**-self.dtype.mantissa_bits) > self.dtype.max_value
        return (
            np.where(beyond, 0.0, 2.0**-self.dtype.mantissa_bits * np.abs(self.wide))
            + self.dtype.smallest_subnormal
        )


def propagate(graph: jn.Graph, *arrays: Array) -> dict[int, Node]:
    """Value and error bound of every symbol of a finished graph, by symbol id."""
    twin = jn.Graph(graph.name, semantics=graph.rules, policy=graph.policy)
    for holds in graph.checks:
        twin.shape_checks.add(*holds)
    copies: dict[int, Any] = {}
    for symbol in graph.symbols:
        copies[symbol.id] = twin.adopt(symbol, [copies[operand.id] for operand in symbol.inputs])
    twin.output(*copies.values())
    _, dims = bind_inputs(graph, arrays)
    nodes: dict[int, Node] = {}
    with np.errstate(all="ignore"):
        values = jn.evaluate(twin, *arrays)
        for symbol, value in zip(
            graph.symbols, values if isinstance(values, tuple) else (values,), strict=True
        ):
            attrs = {name: sized(entry, dims) for name, entry in symbol.attrs.items()}
            node = nodes[symbol.id] = Node(symbol, value, [nodes[i.id] for i in symbol.inputs], attrs)
            node.error = np.broadcast_to(
                np.nan_to_num(error_of(node), nan=np.inf, posinf=np.inf), value.shape
            )
    return nodes


def sized(value: Any, dims: dict[str, int]) -> Any:
    if isinstance(value, Dim):
        return value.evaluate(dims)
    return tuple(sized(part, dims) for part in value) if isinstance(value, tuple) else value


def error_of(node: Node) -> Any:
    name, kind, inputs = node.op.name, node.op.kind, node.inputs
    exact = not any(operand.error.any() for operand in inputs)
    if kind in ("view", "join", "index"):
        return 0.0 if exact else moved(node)
    if kind == "map":
        return mapped(node, name, exact)
    if kind == "reduce" or kind == "scan":
        return reduced(node, name, exact)
    if kind == "contract":
        return contracted(node)
    if kind == "composite":
        return (
            COMPOSITES[name](node, *[(operand.wide, operand.error) for operand in inputs]) + node.rounding()
        )
    return 0.0


# -- maps -----------------------------------------------------------------------------------------------------------------


def mapped(node: Node, name: str, exact: bool) -> Any:
    own = node.op.ulp * 2 * node.rounding() if node.op.ulp > 0.5 and node.dtype.is_float else 0.0
    if exact:
        return own
    errors = [operand.error for operand in node.inputs]
    values = [operand.wide for operand in node.inputs]
    e, x = errors[0], values[0]
    if name in MONOTONE:
        f = MONOTONE[name]
        return np.maximum(np.abs(f(x + e) - f(x)), np.abs(f(x - e) - f(x))) + own + node.rounding()
    if name in ("sin", "cos"):
        return np.minimum(e, 2.0) + own
    if name in COMPARISONS:
        return np.where(np.abs(values[0] - values[1]) <= errors[0] + errors[1], 1.0, 0.0)
    match name:
        case "add" | "sub" if node.dtype.is_float:
            return errors[0] + errors[1] + node.rounding()
        case "mul" if node.dtype.is_float:
            y, d = values[1], errors[1]
            return np.abs(x) * d + np.abs(y) * e + e * d + node.rounding()
        case "div":
            y, d = np.abs(values[1]), errors[1]
            return np.where(y > d, (e + np.abs(node.wide) * d) / (y - d), np.inf) + node.rounding()
        case "maximum" | "minimum" | "logical_and" | "logical_or" | "logical_xor":
            return np.maximum(errors[0], errors[1])
        case "negate" | "abs" | "relu" | "logical_not":
            return e
        case "sign":
            return np.where(np.abs(x) > e, 0.0, np.inf)
        case "where":
            chosen = np.where(node.inputs[0].value, errors[1], errors[2])
            return np.where(e > 0, np.abs(values[1] - values[2]) + errors[1] + errors[2], chosen)
        case "floor" | "ceil" | "round" | "trunc":
            return np.where(e > 0, e + 1, 0.0)
        case "is_nan":
            return np.where(np.isfinite(e), 0.0, np.inf)
        case "cast":
            return cast_error(node, x, e)
    return np.inf


def cast_error(node: Node, x: Array, e: Array) -> Any:
    source, target = node.inputs[0].dtype, node.dtype
    if target.is_bool:
        return np.where(np.abs(x) > e, 0.0, 1.0) * (e > 0)
    if target.is_integer:
        low, high = float(target.min_value), float(target.max_value)
        fits = (x - e - 1 >= low) & (x + e + 1 <= high)
        return np.where(e > 0, np.where(source.is_float | fits, e + source.is_float, np.inf), 0.0)
    if target.is_float and target.bits >= 16:
        return np.where(e > 0, np.where(np.abs(x) + e < target.max_value, e + node.rounding(), np.inf), 0.0)
    return np.where(e > 0, np.inf, 0.0)


# -- what only moves values -----------------------------------------------------------------------------------------------


def moved(node: Node) -> Any:
    """The same movement applied to the errors."""
    attrs, shape, inputs = node.attrs, node.value.shape, node.inputs
    e = inputs[0].error
    match node.op.name:
        case "reshape":
            return e.reshape(shape)
        case "permute":
            return e.transpose(attrs["axes"])
        case "broadcast_to":
            return np.broadcast_to(e, shape)
        case "flip":
            return np.flip(e, attrs["axes"])
        case "slice":
            index = []
            for start, stop, step in zip(attrs["starts"], attrs["stops"], attrs["steps"], strict=True):
                empty = not range(start, stop, step)
                index.append(slice(0, 0) if empty else slice(start, stop if stop >= 0 else None, step))
            return e[tuple(index)]
        case "concat":
            return np.concatenate([operand.error for operand in inputs], attrs["axis"])
        case "pad":
            widths = list(zip(attrs["low"], attrs["high"], strict=True))
            return np.pad(e, widths, mode=attrs["mode"])
    if inputs[1].error.any():
        return np.inf
    axis = attrs["axis"]
    extent = e.shape[axis]
    positions = inputs[1].value.astype(np.float64)
    positions = np.clip(np.where(positions < 0, positions + extent, positions), 0, max(extent - 1, 0)).astype(
        np.int64
    )
    return np.take(e, positions, axis) if node.op.name == "gather" else np.take_along_axis(e, positions, axis)


# -- reductions and products ----------------------------------------------------------------------------------------------


def on_grid(value: Array) -> bool:
    return bool(np.isfinite(value).all() and (np.rint(value / GRID) * GRID == value).all())


def reduced(node: Node, name: str, exact: bool) -> Any:
    (operand,) = node.inputs
    if exact and not (node.dtype.is_float and name in ("reduce_sum", "reduce_prod", "cumsum")):
        return 0.0
    axes = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
    keep = bool(node.attrs.get("keepdims", name == "cumsum"))
    count = math.prod(operand.value.shape[axis] for axis in axes)

    def over(function: Callable[..., Any], values: Array, **options: Any) -> Any:
        return function(values, axis=tuple(axes), keepdims=keep, **options)

    if name in ("reduce_max", "reduce_min"):
        return over(np.max, operand.error, initial=0.0)
    if name in ("reduce_sum", "cumsum") and node.dtype.is_float:
        finite = np.where(np.isfinite(operand.size), operand.size, 0.0)
        size = over(np.sum, finite)
        none = exact and on_grid(operand.wide) and np.all(size / GRID < 2**24)
        rounding = 0.0 if none else (count + 1) * 2 * unit(node.dtype) * size + node.rounding()
        return over(np.sum, operand.error) + rounding
    if name == "reduce_prod" and exact:  # partial products may overflow in one order and not in another
        exponents = over(np.sum, np.abs(np.log2(np.abs(np.where(operand.wide == 0, 1.0, operand.wide)))))
        return np.where(exponents < 100, count * 2 * node.rounding(), np.inf)
    return np.inf


def contracted(node: Node) -> Any:
    if not node.dtype.is_float:
        return 0.0 if not any(operand.error.any() for operand in node.inputs) else np.inf
    a, b = node.inputs
    exact = not (a.error.any() or b.error.any())
    sizes = [np.abs(np.where(np.isfinite(operand.wide), operand.wide, 0.0)) for operand in (a, b)]
    errors = [operand.error for operand in (a, b)]
    if node.attrs["precision"] == "tf32":
        exact = False
        errors = [error + size * 2.0**-10 for error, size in zip(errors, sizes, strict=True)]
    total = np.matmul(*sizes)
    none = exact and on_grid(a.wide) and on_grid(b.wide) and np.all(total / GRID**2 < 2**24)
    depth = a.value.shape[-1]
    rounding = 0.0 if none else (2 * depth + 4) * unit(node.dtype) * total + 2 * node.rounding()
    spread = np.matmul(sizes[0], errors[1]) + np.matmul(errors[0], sizes[1]) + np.matmul(errors[0], errors[1])
    return spread + rounding


# -- composites -----------------------------------------------------------------------------------------------------------

Bound = tuple[Array, Array]


def axes_of(node: Node) -> tuple[int, ...]:
    return tuple(node.attrs["axes"])


def count_of(node: Node, axes: Sequence[int]) -> int:
    return math.prod(node.inputs[0].value.shape[axis] for axis in axes)


def softmax(node: Node, x: Bound) -> Any:
    value, e = x
    axis = node.attrs["axis"]
    if value.shape[axis] == 0:
        return 0.0
    u, count = unit(node.dtype), value.shape[axis]
    shifted = np.abs(value - np.max(value, axis, keepdims=True))
    own = u * (2 * np.where(np.isfinite(shifted), shifted, 0.0) + 2 * count + 32)
    return np.abs(node.wide) * (np.expm1(4 * np.max(e, axis, keepdims=True)) + own) + 1e-37


def logsoftmax(node: Node, x: Bound) -> Any:
    value, e = x
    axis = node.attrs["axis"]
    if value.shape[axis] == 0:
        return 0.0
    shifted = np.abs(value - np.max(value, axis, keepdims=True))
    own = 2 * shifted + 4 * np.abs(node.wide) + 2 * value.shape[axis] + 32
    return 4 * np.max(e, axis, keepdims=True) + unit(node.dtype) * np.where(np.isfinite(own), own, 0.0)


def logsumexp(node: Node, x: Bound) -> Any:
    value, e = x
    axes, keep = axes_of(node), node.attrs["keepdims"]
    largest = np.max(np.abs(np.where(np.isfinite(value), value, 0.0)), axes, keepdims=keep, initial=0.0)
    own = (
        2 * count_of(node, axes)
        + 32
        + 4 * np.where(np.isfinite(node.wide), np.abs(node.wide), 0.0)
        + 2 * largest
    )
    return 2 * np.max(e, axes, keepdims=keep, initial=0.0) + unit(node.dtype) * own


def mean_bound(node: Node, value: Array, e: Array, axes: tuple[int, ...]) -> Array:
    count = max(count_of(node, axes), 1)
    finite = np.where(np.isfinite(value), np.abs(value), 0.0)
    own = unit(node.dtype) * (count + 4) * np.sum(finite, axes, keepdims=True) / count
    return np.asarray(np.sum(e, axes, keepdims=True) / count + own)


def mean(node: Node, x: Bound) -> Any:
    return mean_bound(node, *x, axes_of(node)).reshape(node.value.shape)


def centred(node: Node, value: Array, e: Array, axes: tuple[int, ...]) -> Bound:
    """value - mean, and its error."""
    middle = np.sum(value, axes, keepdims=True) / max(count_of(node, axes), 1)
    distance = value - middle
    error = e + mean_bound(node, value, e, axes) + 2 * unit(node.dtype) * np.abs(distance)
    return distance, np.nan_to_num(error, posinf=np.inf)


def squares(node: Node, distance: Array, error: Array, axes: tuple[int, ...]) -> Bound:
    """Σ distance² over the axes, and its error."""
    total = np.sum(distance * distance, axes, keepdims=True)
    own = unit(node.dtype) * (2 * count_of(node, axes) + 8) * total
    if node.dtype.name != "float64":
        own = np.where(total < 1e37, own + 1e-37, np.inf)  # squares beyond float32 overflow
    return total, np.sum(2 * np.abs(distance) * error + error * error, axes, keepdims=True) + own


def var(node: Node, x: Bound) -> Any:
    axes = axes_of(node)
    _, error = squares(node, *centred(node, *x, axes), axes)
    divisor = max(count_of(node, axes) - node.attrs["correction"], 0)
    return (error / np.float64(divisor)).reshape(node.value.shape)


def normalized(node: Node, distance: Array, error: Array, factors: Sequence[Bound]) -> Any:
    """distance / sqrt(mean of squares + epsilon), times a scale, plus a bias."""
    axes = (distance.ndim - 1,)
    count = max(distance.shape[-1], 1)
    total, off = squares(node, distance, error, axes)
    level = total / count + node.attrs["epsilon"]
    relative = off / count / level + 8 * unit(node.dtype)
    inverse = 1 / np.sqrt(level)
    value = distance * inverse
    result = inverse * error + np.abs(value) * relative
    result = np.where(relative < 0.25, 2 * result, np.inf)
    for position, (factor, e) in enumerate(factors):
        if position == 0:
            result = np.abs(factor) * result + np.abs(value) * e + e * result
        else:
            result = result + e + 2 * unit(node.dtype) * np.abs(factor)
    return result + 8 * unit(node.dtype) * np.abs(node.wide) + 1e-37


def layer_norm(node: Node, x: Bound, *factors: Bound) -> Any:
    if node.attrs["has_bias"] and not node.attrs["has_scale"]:
        factors = ((np.ones(()), np.zeros(())), *factors)
    return normalized(node, *centred(node, *x, (x[0].ndim - 1,)), factors)


def rms_norm(node: Node, x: Bound, *factors: Bound) -> Any:
    return normalized(node, *x, factors)


def gelu(node: Node, x: Bound) -> Any:
    value, e = x
    u = unit(node.dtype)
    tail = {"none": 6e-7 if u > 2.0**-40 else 1e-14, "tanh": u * (12 * np.abs(value) + 40), "quick": 0.0}
    own = 0.5 * np.abs(value) * tail[node.attrs["approximate"]]
    return (
        2 * e
        + np.where(np.isfinite(own), own, 0.0)
        + np.abs(node.wide) * u * (8 * np.abs(value) + 32)
        + 1e-37
    )


def silu(node: Node, x: Bound) -> Any:
    value, e = x
    return 2 * e + np.abs(node.wide) * unit(node.dtype) * (8 * np.abs(value) + 32) + 1e-37


COMPOSITES: dict[str, Callable[..., Any]] = {
    "softmax": softmax, "logsoftmax": logsoftmax, "logsumexp": logsumexp, "mean": mean, "var": var, "gelu": gelu,
    "silu": silu, "layer_norm": layer_norm, "rms_norm": rms_norm,
}  # fmt: skip
