"""Graphs of one op each: every row that has a form in ONNX, with every dtype that it takes and values that are hard for it.

Rows of the host are not among them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import joinery as jn
import numpy as np
from joinery.graph.onnx.export.table import SIZED, WRITERS
from joinery.graph.ops.table import OPS
from joinery.promotion.dtype import DTYPES

SHAPE = (3, 5)
CARRIERS = {
    "bfloat16": "float32", "float8_e4m3fn": "float32", "float8_e5m2": "float32", "float8_e4m3fnuz": "float32",
    "float8_e5m2fnuz": "float32", "int4": "int8", "uint4": "uint8",
}  # fmt: skip
"""Dtypes that runtimes take no arrays of: inputs and outputs are of a wider one, with casts around the op."""
REDUCED = {"axes": (1,), "keepdims": False}
ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    **{
        row: [REDUCED, {"axes": (0, 1), "keepdims": True}, {"axes": (), "keepdims": False}]
        for row in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "mean", "logsumexp")
    },
    **{row: [REDUCED, {"axes": (0,), "keepdims": True}] for row in ("argmax", "argmin")},
    "var": [{**REDUCED, "correction": 0}, {"axes": (0, 1), "keepdims": True, "correction": 1}],
    "cumsum": [{"axis": 1, "exclusive": flag, "reverse": other} for flag in (False, True) for other in (False, True)],
    **{
        row: [{"axis": 1, "exclusive": flag, "reverse": other} for flag in (False, True) for other in (False, True)]
        for row in ("cumprod", "cummax", "cummin")
    },
    "sort": [{"axis": axis, "descending": flag} for axis in (0, 1) for flag in (False, True)],
    "argsort": [{"axis": axis, "descending": flag} for axis in (0, 1) for flag in (False, True)],
    "top_positions": [{"axis": 1, "k": 2, "largest": True}, {"axis": 0, "k": 3, "largest": False}],
    "windows": [{"axes": (1, 0), "counts": (2, 3), "sizes": (2, 1), "strides": (2, 1), "dilations": (2, 1)}],
    "reshape": [{"shape": (5, 3)}, {"shape": (15,)}],
    "permute": [{"axes": (1, 0)}],
    "broadcast_to": [{"shape": (2, 3, 5)}],
    "slice": [
        {"starts": (0, 4), "stops": (2, -1), "steps": (1, -2)},
        {"starts": (1, 0), "stops": (1, 5), "steps": (1, 1)},
    ],
    "flip": [{"axes": (0, 1)}, {"axes": (1,)}],
    "concat": [{"axis": 0}, {"axis": 1}],
    "pad": [
        {"low": (1, 0), "high": (0, 2), "mode": "constant", "value": 1},
        {"low": (1, 2), "high": (2, 1), "mode": "reflect", "value": 0},
        {"low": (1, 0), "high": (0, 3), "mode": "edge", "value": 0},
    ],
    "gather": [{"axis": 0}, {"axis": 1}],
    "take_along_axis": [{"axis": 1}],
    "softmax": [{"axis": 0}, {"axis": 1}],
    "logsoftmax": [{"axis": 1}],
    "gelu": [{"approximate": "none"}, {"approximate": "tanh"}, {"approximate": "quick"}],
    "layer_norm": [{"epsilon": 1e-5, "has_scale": a, "has_bias": b} for a in (False, True) for b in (False, True)],
    "searchsorted": [{"side": "left"}, {"side": "right"}],
    "rms_norm": [{"epsilon": 1e-5, "has_scale": flag} for flag in (False, True)],
}
"""Row → attributes to try; those of others depend on the dtype, or there are none."""
COMPLICATED = frozenset(("input", "constant", "weight", "dim_value", "cast", "bitcast", "matmul"))


class Case(NamedTuple):
    """A graph of one op, arrays for its inputs, and the number of the value that the op computes."""

    name: str
    row: str
    dtype: str
    graph: Any
    arrays: tuple[Any, ...]


def values(dtype: Any, count: int, seed: int, tame: bool = False) -> Any:
    """Return an array of values of a dtype: its extremes, small ones, and random ones; `tame` leaves out what is not finite."""
    rng = np.random.default_rng([seed, count])
    if dtype.is_bool:
        return rng.integers(0, 2, count).astype(np.bool_)
    if dtype.is_integer:
        low, high = int(dtype.min_value), int(dtype.max_value)
        picked = [0, 1, 2, 3, high, low, low + 1, high - 1, -1 % (high + 1) if low == 0 else -1, 7 if high >= 7 else 1]
        small = rng.integers(max(low, -9), min(high, 9) + 1, count)
        found = np.array([picked[i % 10] if i % 3 else small[i] for i in rng.permutation(count)], object)
        return found.astype(dtype.numpy)
    special = [] if tame else [0.0, -0.0, math.nan, math.inf, -math.inf]
    found = np.concatenate([special[: count // 2], rng.normal(size=count) * 3])[:count]
    found = rng.permutation(found)
    if not dtype.has_infinity:
        found = np.where(np.isinf(found), np.copysign(float(dtype.max_value), found), found)
    return found.astype(np.float32 if dtype.bits < 64 else np.float64).astype(dtype.numpy)


def _of_row(row: Any, dtype: Any) -> Iterator[tuple[str, list[tuple[Any, tuple[int, ...]]], dict[str, Any]]]:
    """(name, dtype and shape of each operand, attributes) of the calls of a row."""
    name = row.name
    if name in ("layer_norm", "rms_norm"):
        for position, attrs in enumerate(ATTRIBUTES[name]):
            vectors = sum(bool(attrs.get(flag)) for flag in ("has_scale", "has_bias"))
            yield str(position), [(dtype, SHAPE)] + [(dtype, (5,))] * vectors, attrs
    elif name == "matmul":
        wide = jn.int32 if dtype.is_bool or (dtype.is_integer and dtype.bits <= 8) else dtype
        accumulate = jn.float32 if dtype.is_float and dtype.bits < 32 else wide
        for shapes in ((SHAPE, (5, 4)), ((2, 1, 3, 5), (4, 5, 2))):
            yield str(len(shapes[0])), [(dtype, shape) for shape in shapes], {"accumulate": accumulate, "precision": "ieee"}
    elif name == "cast":
        for target in DTYPES.values():
            if target.names.onnx and target.name not in ("tensor_float32", "float8_e8m0fnu"):
                yield target.name, [(dtype, SHAPE)], {"dtype": target, "rounding": "nearest", "saturate": True}
    elif name == "bitcast":
        for target in DTYPES.values():
            if target.kind in ("int", "uint", "bool"):
                yield target.name, [(dtype, SHAPE)], {"dtype": target}
    elif name in ("gather", "take_along_axis"):
        for which in ("int8", "int32", "int64", "uint64"):
            for position, attrs in enumerate(ATTRIBUTES[name]):
                shape = (3, 2) if name == "take_along_axis" else (2, 2)
                yield f"{which}.{position}", [(dtype, SHAPE), (DTYPES[which], shape)], attrs
    elif name == "gather_nd":
        for which in ("int8", "int32", "int64", "uint64"):
            for attrs, shape in (({"batch_dims": 0}, (2, 2)), ({"batch_dims": 1}, (3, 2, 1))):
                yield f"{which}.{len(shape)}.{shape[-1]}", [(dtype, SHAPE), (DTYPES[which], shape)], attrs
    elif name == "searchsorted":
        for attrs in ATTRIBUTES[name]:
            for size in (1, 7):
                yield f"{attrs['side']}.{size}", [(dtype, (size,)), (dtype, SHAPE)], attrs
    elif name in ("quantize", "dequantize"):
        yield from _quantized(name, dtype)
    elif name == "scatter":
        for reduction in ("none", "add", "mul", "min", "max"):
            attrs = {"axis": 1, "reduction": reduction}
            for which in ("int8", "int64", "uint64"):
                yield f"{which}.{reduction}", [(dtype, SHAPE), (DTYPES[which], (3, 4)), (dtype, (3, 4))], attrs
    elif name == "concat":
        for position, attrs in enumerate(ATTRIBUTES[name]):
            yield str(position), [(dtype, SHAPE)] * 3, attrs
    elif name == "where":
        yield "", [(jn.bool, SHAPE), (dtype, SHAPE), (dtype, (5,))], {}
    else:
        shapes = [SHAPE, (5,)] if row.arity == 2 else [SHAPE]
        for position, attrs in enumerate(ATTRIBUTES.get(name, [{}])):
            yield str(position), [(dtype, shape) for shape in shapes], attrs


def _quantized(name: str, dtype: Any) -> Iterator[tuple[str, list[tuple[Any, tuple[int, ...]]], dict[str, Any]]]:
    """Conversions with one scale, one along each axis, and one for each block, the last of which is shorter."""
    work = dtype if dtype.is_float and dtype.has_arithmetic else jn.float32
    forms = ((), 0, 0), ((3,), 0, 0), ((3, 3), 1, 2)
    codes: tuple[str, ...] = (dtype.name,)
    if name == "quantize":
        codes = ("int8", "uint8", "int16", "int4", "uint2", "float8_e4m3fn", "float4_e2m1fn")
    for code in codes:
        target = DTYPES[code] if name == "quantize" else work
        for scale, axis, block in forms:
            attrs = {"axis": axis, "block_size": block, "dtype": target, **({"saturate": True} if name == "quantize" else {})}
            for has_zero in (False, True)[: 1 + DTYPES[code].is_integer]:
                zero = [(DTYPES[code], scale)] if has_zero else []
                yield f"{code}.{len(scale)}.{int(has_zero)}", [(dtype, SHAPE), (work, scale), *zero], attrs


def op_cases(dtypes: Sequence[str] = (), seed: int = 0, rows: Sequence[str] = ()) -> Iterator[Case]:
    """Yield a graph for each op and dtype (or those of these names) and set of attributes that joinery takes, without implicit
    casts."""
    for row in OPS.values():
        if row.kind in ("source", "host") or row.name not in {*WRITERS, *SIZED}:
            continue
        if rows and row.name not in rows:
            continue
        for dtype in DTYPES.values():
            if dtypes and dtype.name not in dtypes:
                continue
            if not dtype.names.onnx or dtype.storage_only or dtype.name in ("tensor_float32", "float8_e8m0fnu"):
                continue
            for label, operands, attrs in _of_row(row, dtype):
                case = _case(row, dtype, label, operands, attrs, seed)
                if case is not None:
                    yield case


def _case(row: Any, dtype: Any, label: str, operands: Any, attrs: dict[str, Any], seed: int) -> Case | None:
    graph = jn.Graph("case", policy="strict")
    inputs, arrays = [], []
    try:
        for position, (own, shape) in enumerate(operands):
            wide = DTYPES[CARRIERS.get(own.name, own.name)]
            x = graph.input(wide, shape, f"in{position}")
            tame = row.kind == "composite" or row.name in (
                "matmul", "cumsum", "cumprod", "reduce_sum", "reduce_prod", "scatter",
            )
            array = values(own, math.prod(shape), seed + position, tame).reshape(shape)
            if row.name == "searchsorted" and position == 0:
                array = array[np.argsort(array.astype(np.float64) if own.is_float else array, kind="stable")]
            if row.name in ("quantize", "dequantize") and position == 1:
                array = np.asarray(np.abs(array.astype(np.float64)) + 0.25, own.numpy)
            arrays.append(np.asarray(array.astype(wide.numpy)))
            inputs.append(x if own is wide else x.cast(own))
        y = graph.apply(row.name, inputs, attrs, attrs.get("dtype"))
        if y.op.name != row.name:
            return None
        wide = DTYPES[CARRIERS.get(y.dtype.name, y.dtype.name)]
        graph.output(y if y.dtype is wide else y.cast(wide), name="out")
    except (jn.UserError, jn.UnsupportedError):
        return None
    return Case(f"{row.name}.{dtype}.{label}".rstrip("."), row.name, dtype.name, graph, tuple(arrays))
