"""Draws the steps of random graphs: each takes a value and draws one op, or a pattern of a few, on it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.ops.table import OPS

from .function_steps import FunctionSteps

MAPS: dict[int, tuple[str, ...]] = {
    arity: tuple([
        row.name for row in OPS.values()
        if row.kind == "map" and row.arity == arity and not row.attrs and not row.traits & {"internal"}
    ])
    for arity in (1, 2)
}  # fmt: skip
SUGAR = (
    "square", "reciprocal", "clip", "tan", "sinh", "cosh", "asinh", "log10", "cbrt", "leaky_relu", "elu", "selu", "softplus",
    "mish", "softsign", "hard_sigmoid", "hard_swish", "is_inf", "is_finite",
)  # fmt: skip
REDUCTIONS = (
    "sum", "sum", "max", "min", "prod", "mean", "var", "any", "all", "argmax", "argmin", "logsumexp", "count_nonzero",
    "reduce_l1", "sum_square", "reduce_l2", "stdev", "log_sum",
)  # fmt: skip
EINSUMS = (
    "ij,jk->ik", "ij,kj->ik", "bij,bjk->bik", "ij,ij->ij", "i,j->ij", "ij,j->i", "bij,bj->bi", "ii->i", "ij->ji", "ij->",
    "ijk,ijk->ij", "ij,ij->i", "bhd,hd->bh", "bi,ij,bj->b",
)  # fmt: skip


class Steps(FunctionSteps):
    """The steps that `graphs.Builder` can add to a graph; the builder has the values and draws the choices."""

    one: Callable[..., Any]
    integer: Callable[[int, int], int]
    several: Callable[..., list[Any]]
    order: Callable[[int], list[int]]
    flag: Callable[[], bool]
    pick: Callable[..., Any]
    like: Callable[..., Any]
    is_rough: Callable[[Any], bool]
    graph: Any
    values: list[Any]
    dims: dict[str, int]
    count: int
    DTYPES: tuple[str, ...]
    FLOATS: tuple[str, ...]
    INTEGERS: tuple[str, ...]

    ANY = ("pair", "unary", "unary", "unary", "binary", "binary", "select", "cast", "cast", "literal", "expand", "sugar")
    OF_AXES = (
        "reduce", "reduce", "normalize", "permute", "reshape", "reshape", "slice", "concat", "pad", "flip", "gather", "along",
        "windows",
        "mask", "scan", "stack", "split", "mask", "roll", "one_hot", "extent_of", "scaled_by_a_reduction",
        "lacking", "lacking",
    )  # fmt: skip
    OF_MATRICES = (
        "triangle", "matmul", "matmul", "convolution", "attention", "row", "einsum", "masked_product", "masked_product",
    )  # fmt: skip

    # -- maps -------------------------------------------------------------------------------------------------------------

    def guarded(self, name: str, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns operands for which small errors make only a small difference to the op's result."""
        rough = [self.is_rough(operand) for operand in operands]
        if not any(rough):
            return operands
        x = operands[0]
        if name in ("exp", "exp2", "expm1", "sinh", "cosh"):
            return (jn.minimum(x, 4),)
        if name in ("log", "log2", "log1p", "rsqrt", "sqrt", "reciprocal", "log10", "cbrt"):
            return (jn.abs(x) + 1,)
        if name in ("asin", "acos", "tan"):
            return (jn.sin(x) * 0.5,)
        if name in ("div", "floor_div", "trunc_div", "mod", "rem") and rough[-1]:
            return (x, jn.maximum(operands[1], 0) + 1)
        if name == "pow":
            y = operands[1]
            return (jn.minimum(jn.abs(x), 2) + 0.5, jn.minimum(jn.maximum(y, -2), 2))
        if name in ("less", "less_equal", "greater", "greater_equal"):
            return (
                x,
                jn.minimum(operands[1], 9.0) + 0.037,
            )  # away from the ties of whole numbers and of sums to 1
        if name in ("equal", "not_equal") or (
            name.startswith(("bit", "shift", "pop")) and not x.dtype.is_bool
        ):
            raise jn.UserError("the bits of what is rounded are anything")
        return operands

    def apply(self, name: str, *operands: Any) -> Any:
        return self.graph.apply(name, self.guarded(name, operands), {})

    def unary(self, x: Any) -> Any:
        return self.apply(self.one(*MAPS[1]), x)

    def sugar(self, x: Any) -> Any:
        name = self.one(*SUGAR)
        return getattr(jn, name)(*self.guarded(name, (x,)), *((-1, 1) if name == "clip" else ()))

    def fitting(self, x: Any) -> Any:
        """Returns a value that broadcasts with x, mostly."""
        if self.integer(0, 4) == 4:
            return self.pick()
        return self.pick(
            lambda y: all(a == b or 1 in (a, b) for a, b in zip(x.shape[::-1], y.shape[::-1], strict=False))
        )

    def binary(self, x: Any) -> Any:
        y = self.fitting(x)
        return self.apply(self.one(*MAPS[2]), *((x, y) if self.flag() else (y, x)))

    def literal(self, x: Any) -> Any:
        value: Any = self.one(0, 1, 2, 3, -1, 0.5, -0.25, True, -0.0)
        name = self.one(*MAPS[2])
        if self.is_rough(x):
            value = self.one(1, 2, 3, 0.5)
        operands = (x, value) if self.flag() else (value, x)
        if self.is_rough(x) and name in ("div", "floor_div", "trunc_div", "mod", "rem", "pow"):
            operands = (jn.abs(x) + 1, value)
        if self.is_rough(x) and (name.startswith(("bit", "shift", "pop")) or "equal" in name):
            raise jn.UserError("the bits of what is rounded are anything")
        return self.graph.apply(name, operands, {})

    def select(self, x: Any) -> Any:
        value = self.fitting(x)
        name, limit = self.one("less", "equal", "greater_equal"), 1.0
        if self.is_rough(value):
            name, limit = self.one("less", "greater_equal"), 1.037
        condition = self.graph.apply(name, (value, limit if value.dtype.is_float else 1), {})
        return jn.where(condition, x, self.one(self.fitting(x), 0, 1, -0.0 if x.dtype.is_float else 0))

    def scaled_by_a_reduction(self, x: Any) -> Any:
        """Combines rows with a reduction of another value: kernels that compute both may have several grids."""
        reduced = self.reduce(self.pick(lambda y: bool(y.shape)))
        self.values.append(reduced)
        return self.one(jn.mul, jn.add, jn.sub)(x, reduced)

    def lacking(self, x: Any) -> Any:
        """Reduces x ∘ y, where y lacks some axes of x and is in memory."""
        shape = [entry if type(entry) is int and self.flag() else 1 for entry in x.shape]
        if math.prod(shape) > 4096:
            shape = [1] * len(shape)
        return self.reduce(self.one(jn.mul, jn.add, jn.sub)(x, self.like(x, *shape)))

    def cast(self, x: Any) -> Any:
        if self.integer(0, 9) == 9 and not self.is_rough(x):
            same = [
                n for n in self.DTYPES if jn.DType(n).itemsize == x.dtype.itemsize and jn.DType(n).is_integer
            ]
            return x.bitcast(self.one(*same)) if x.dtype.is_integer else x.cast("int64")
        return x.cast(self.one(*self.DTYPES), rounding=self.one("nearest", "nearest", "toward_zero"))

    # -- shapes -----------------------------------------------------------------------------------------------------------

    def axis(self, x: Any) -> int:
        return self.integer(0, len(x.shape) - 1)

    def axes(self, x: Any) -> tuple[int, ...]:
        return tuple(sorted(self.several(range(len(x.shape)), 1, 3, distinct=True)))

    def expand(self, x: Any) -> Any:
        inserted = x.reshape(*[e for entry in x.shape for e in ((entry, 1) if self.flag() else (entry,))])
        target = [
            self.one(2, 3, 1) if type(entry) is int and entry == 1 else entry for entry in inserted.shape
        ]
        return inserted.broadcast_to((*([self.one(1, 2)] if self.flag() else []), *target))

    def permute(self, x: Any) -> Any:
        return x.permute(*self.order(len(x.shape)))

    def reshape(self, x: Any) -> Any:
        shape = list(x.shape)
        axis = self.axis(x)
        choice = self.one("merge", "merge", "split", "flat", "unit", "drop")
        if choice == "merge" and axis + 1 < len(shape):
            shape[axis : axis + 2] = [shape[axis] * shape[axis + 1]]
        elif choice == "split" and type(shape[axis]) is int and shape[axis] > 3:
            factor = next((f for f in (3, 2, 5, 11, 13) if shape[axis] % f == 0), 1)
            parts = [factor, shape[axis] // factor]
            shape[axis : axis + 1] = parts if self.flag() else parts[::-1]
        elif choice == "flat":
            shape = [math.prod(shape)]
        elif choice == "drop":
            shape = [entry for entry in shape if not (type(entry) is int and entry == 1)]
        else:
            shape.insert(axis, 1)
        return x.reshape(*shape)

    def slice(self, x: Any) -> Any:
        ends = (None, *range(-6, 7))
        steps = (1, 1, 2, -1, -2, 3)
        index: list[Any] = [
            slice(self.one(*ends), self.one(*ends), self.one(*steps)) if self.flag() else slice(None)
            for _ in x.shape
        ]
        if self.integer(0, 4) == 4:
            index[self.axis(x)] = self.one(0, -1)
        return x[tuple(index)]

    def concat(self, x: Any) -> Any:
        parts = [
            x,
            *[self.pick(lambda value: len(value.shape) == len(x.shape)) for _ in range(self.integer(1, 2))],
        ]
        return jn.concat(parts if self.flag() else parts[::-1], self.axis(x))

    def stack(self, x: Any) -> Any:
        y = self.pick(lambda value: value.shape == x.shape)
        return jn.stack([x, y], self.integer(0, len(x.shape)))

    def split(self, x: Any) -> Any:
        axis = self.axis(x)
        if not isinstance(x.shape[axis], int) or x.shape[axis] < 2:
            return jn.repeat_interleave(x, 2, axis)
        at = self.integer(1, x.shape[axis] - 1)
        return self.one(*jn.split(x, [at, x.shape[axis] - at], axis))

    def pad(self, x: Any) -> Any:
        low, high = (tuple(self.several((0, 0, 1, 2, 5), len(x.shape), len(x.shape))) for _ in range(2))
        attrs = {
            "low": low,
            "high": high,
            "mode": self.one("constant", "edge", "reflect"),
            "value": self.one(0, 1),
        }
        return self.graph.apply("pad", (x,), attrs)

    def flip(self, x: Any) -> Any:
        return jn.flip(x, self.axes(x))

    def windows(self, x: Any) -> Any:
        axis = self.axis(x)
        size, stride, dilation = self.one(1, 2, 3), self.one(1, 2, 3), self.one(1, 1, 2)
        return jn.windows(x, size, axis, stride, dilation)

    def indices(self, *shape: int) -> Any:
        self.count += 1
        values = np.random.default_rng(self.count).integers(-7, 8, shape)
        dtype = self.one("int64", "int32", "int8", "uint8")
        return self.graph.constant(values.astype(dtype))

    def gather(self, x: Any) -> Any:
        integers = [value for value in self.values if value.dtype.is_integer and len(value.shape) <= 2]
        fresh = self.indices(*self.one((), (3,), (2, 4), (17,)))
        return jn.gather(x, self.one(fresh, fresh, *integers[-2:]), self.axis(x))

    def along(self, x: Any) -> Any:
        axis = self.axis(x)
        if self.flag():
            other = self.pick(lambda value: len(value.shape) == len(x.shape))
            return jn.take_along_axis(x, jn.argmax(other, axis, keepdims=True), axis)
        shape = [1] * len(x.shape)
        shape[axis] = 3
        return jn.take_along_axis(x, self.indices(*shape), axis)

    def extent_of(self, x: Any) -> Any:
        """Computes with a size, which may be known only when the model is called."""
        extent = x.shape[self.axis(x)]
        return self.one(x + extent, x * extent, x / (extent + 1))

    def roll(self, x: Any) -> Any:
        return jn.roll(x, self.one(1, -1, 3, 100), self.axis(x))

    def triangle(self, x: Any) -> Any:
        return self.one(jn.tril, jn.triu)(x, self.integer(-2, 3))

    def one_hot(self, x: Any) -> Any:
        return jn.one_hot(x, self.one(3, 1, 17), self.one(*self.FLOATS, "int8", "bool"))

    def pair(self, x: Any) -> Any:
        y = self.fitting(x)
        if self.is_rough(x) or self.is_rough(y):
            x, y = jn.minimum(jn.abs(x), 1) + 0.25, jn.abs(y) + 1.5  # so that it is certain which of the two is larger
            return self.one(jn.atan2, jn.hypot)(*((x, y) if self.flag() else (y, x)))
        return self.one(jn.atan2, jn.hypot, jn.copysign)(x, y)

    # -- reductions -------------------------------------------------------------------------------------------------------

    def reduce(self, x: Any) -> Any:
        name = self.one(*REDUCTIONS)
        keep = self.flag()
        if name == "prod" and self.is_rough(x):
            x = jn.minimum(jn.abs(x), 1) + 0.5
        if name in ("argmax", "argmin"):
            return getattr(jn, name)(x, axis=self.one(None, self.axis(x)), keepdims=keep)
        if name in ("log_sum", "reduce_l2", "stdev") and self.is_rough(x):
            x = jn.abs(x) + 1
        if name in ("var", "stdev"):
            return getattr(jn, name)(x, self.axes(x), keep, correction=self.one(0, 0, 1))
        return getattr(jn, name)(x, axis=self.one(None, self.axes(x)), keepdims=keep)

    def normalize(self, x: Any) -> Any:
        name = self.one(
            "softmax", "softmax", "logsoftmax", "gelu", "silu", "centre", "own_softmax", "hardmax"
        )
        if name == "hardmax" and self.is_rough(x):
            raise jn.UserError("ties that rounding makes or breaks")
        if name == "centre":
            return x - jn.mean(x, self.axes(x), keepdims=True)
        if name == "gelu":
            return jn.gelu(x, self.one("none", "tanh", "quick"))
        axis = self.axis(x)
        if self.is_rough(x):
            x = jn.minimum(jn.maximum(x, -8), 8)
        if name == "own_softmax":
            weights = jn.exp(self.maybe_cast(x - jn.max(x, axis=axis, keepdims=True)))
            return self.maybe_cast(weights) / (jn.sum(weights, axis=axis, keepdims=True))
        return jn.silu(x) if name == "silu" else getattr(jn, name)(x, axis)

    def row(self, x: Any) -> Any:
        width = x.shape[-1]
        factors = (
            [self.like(x, width) for _ in range(2)] if isinstance(width, int) and x.dtype.is_float else []
        )
        if self.flag():
            return jn.layer_norm(x, *factors[: self.one(0, 1, 2)])
        return jn.rms_norm(x, *factors[: self.one(0, 1)])

    def scan(self, x: Any) -> Any:
        return jn.cumsum(x, self.axis(x), exclusive=self.flag(), reverse=self.flag())

    # -- products ---------------------------------------------------------------------------------------------------------

    def maybe_cast(self, x: Any) -> Any:
        return x.cast(self.one(*self.FLOATS)) if self.one(False, False, True) else x

    def matmul(self, x: Any) -> Any:
        others = [v for v in self.values if len(v.shape) >= 1 and v.dtype.is_float == x.dtype.is_float]
        fits = [v for v in others if (v.shape[-2] if len(v.shape) > 1 else v.shape[0]) == x.shape[-1]]
        choices = [x.transpose(), *fits[-4:]]
        if isinstance(x.shape[-1], int):
            choices.append(self.like(x, x.shape[-1], self.one(1, 3, 17, 64)))
            choices.append(self.like(x, x.shape[-1]))
        precision = "tf32" if x.dtype.name == "float32" and self.integer(0, 7) == 7 else "ieee"
        return self.maybe_cast(jn.matmul(x, self.one(*choices), precision=precision))

    def convolution(self, x: Any) -> Any:
        """Builds a product with the windows of a tensor, with channels last or elsewhere."""
        rank = len(x.shape) - 1
        if rank < 1 or not isinstance(x.shape[-1], int):
            return self.matmul(x)
        axes = tuple(range(max(0, rank - self.integer(1, 2)), rank))
        sizes, strides, dilations = (tuple(self.several(o, len(axes), len(axes))) for o in ((1, 2, 3), (1, 1, 2), (1, 1, 2)))
        if self.flag():
            x = jn.pad(x, [(self.integer(0, 2),) * 2 if axis in axes else (0, 0) for axis in range(rank + 1)])
        taken = jn.windows(x, sizes, axes, strides, dilations)
        inner = [rank, *range(rank + 1, rank + 1 + len(axes))]
        inner = [*inner[1:], inner[0]] if self.one(True, True, True, False) else inner
        depth = math.prod(sizes) * x.shape[-1]
        rows = taken.permute((*range(rank), *inner)).reshape((*taken.shape[:rank], depth))
        return self.maybe_cast(rows @ self.like(x, depth, self.one(1, 5, 33, 64)))

    def attention(self, x: Any) -> Any:
        """Builds softmax(x kᵀ · scale + bias) v, with casts, masks and further operations anywhere between."""
        cast = self.maybe_cast
        if self.is_rough(x):  # exponentials of values with large errors have no useful bound
            x = jn.minimum(jn.maximum(x, -2), 2)
        keys = values = x
        if isinstance(x.shape[-1], int) and self.flag():
            count = self.one(3, 33, 65, 300, 1030)
            keys, values = self.like(x, count, x.shape[-1]), self.like(x, count, self.one(x.shape[-1], 1, 5))
        scores = cast(x @ keys.transpose())
        large = (1000.0, 1e5) if not self.is_rough(x) else ()
        scores = cast(scores * self.one(0.125, 0.5, 1.0, -0.25, *large))
        if self.flag():
            scores = scores + self.pick(lambda v: v.dtype.is_float)
        if self.one(False, False, True):
            scores = jn.where(
                self.positions(scores, -1) <= self.positions(scores, -2), scores, self.one(-1e4, -np.inf)
            )
        if self.flag():
            return cast(jn.softmax(cast(scores), -1)) @ cast(values)
        weights = cast(jn.exp(scores - cast(jn.max(scores, axis=-1, keepdims=True))))
        if self.flag():
            return cast((weights / jn.sum(cast(weights), axis=-1, keepdims=True)) @ cast(values))
        return cast(weights @ cast(values)) / cast(jn.sum(weights, axis=-1, keepdims=True))

    def einsum(self, x: Any) -> Any:
        spec = self.one(*EINSUMS)
        terms, _, _ = spec.partition("->")
        operands, extents = [], {}
        for term in terms.split(","):
            wanted = [
                value
                for value in [x, *self.values[-8:]]
                if len(value.shape) == len(term)
                and value.dtype is x.dtype
                and all(
                    extents.get(letter, entry) == entry
                    for letter, entry in zip(term, value.shape, strict=True)
                )
            ]
            if wanted:
                operand = self.one(*wanted)
            else:
                shape = [extents.get(letter, self.one(2, 3, 5, 64)) for letter in term]
                if not all(isinstance(extent, int) for extent in shape):
                    raise jn.UserError("no constant has a symbolic shape")
                operand = self.like(x, *shape)
            extents.update(zip(term, operand.shape, strict=True))
            operands.append(operand)
        return jn.einsum(spec, *operands)

    # -- masks ------------------------------------------------------------------------------------------------------------

    def positions(self, x: Any, axis: int) -> Any:
        """Returns 0, 1, … along one axis."""
        ones = jn.ones_like(x).cast("int32")
        return jn.cumsum(ones, axis if axis >= 0 else len(x.shape) + axis, exclusive=True)

    def mask(self, x: Any) -> Any:
        axis = self.axis(x)
        return jn.where(self.positions(x, axis) < self.integer(0, 4), x, self.one(0, 1, -1))

    def masked_product(self, x: Any) -> Any:
        """Builds a product with one operand masked along the axis that is summed: by where, or by slicing and
        padding."""
        how = self.one("where", "pad", "both")
        if how == "pad":
            y = (
                x.transpose()
                if x.shape[-1] == x.shape[-2]
                else self.pick(lambda v: len(v.shape) >= 2 and v.shape[-2] == x.shape[-1])
            )
            widths = [(0, 0)] * (len(x.shape) - 1) + [(0, 2)]
            taller = [(0, 0)] * (len(y.shape) - 2) + [(0, 2), (0, 0)]
            return jn.matmul(jn.pad(x, widths), jn.pad(y, taller, value=self.one(0, 1)))
        masked = jn.where(self.positions(x, -1) < self.integer(0, 3), x, 0)
        other = x.transpose()
        return jn.matmul(masked, masked.transpose() if how == "both" else other)
