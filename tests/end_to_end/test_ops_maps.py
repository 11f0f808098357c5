"""Elementwise rows of the op table, compiled and compared with the reference evaluator: every row, dtype and size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.promotion.dtype import DTYPES

from ..support.tiers import both_tiers, each, share

ROWS = [row for row in OPS.values() if row.kind == "map" and not row.attrs and "internal" not in row.traits]
ALL = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index", "float16", "bfloat16",
       "float32", "tensor_float32", "float64")  # fmt: skip
SIZES = (0, 1, 3, 31, 33, 63, 64, 65, 257, 1000, 1023, 1024, 1025)
STATIC_SIZES = (0, 1, 33, 65, 1025)
CONVERTIBLE = tuple(name for name, dtype in DTYPES.items() if not dtype.storage_only and not dtype.is_complex)


def every_row(dtype: str, size: int | str) -> jn.Graph:
    """One graph with an output per elementwise row that takes `dtype`, for x, y and a condition."""
    shape = (size,)
    graph = jn.Graph(
        "maps", [jn.TensorType(dtype, shape, name) for name in "xy"] + [jn.TensorType("bool", shape, "c")]
    )
    x, y, c = graph.inputs
    outputs = {}
    for row in ROWS:
        try:
            outputs[row.name] = graph.apply(row.name, {1: (x,), 2: (x, y), 3: (c, x, y)}[row.arity])
        except jn.UserError:
            assert not row.accepts(jn.DType(dtype)) or row.name in ("sub", "negate")
    graph.output(*outputs.values(), names=list(outputs))
    return graph


def close(agreement: Any, results: dict[str, Any], **about: np.ndarray) -> None:
    for name, (ours, theirs, dtype) in results.items():
        ulp = OPS[name].ulp
        if ulp > 0.5 and dtype.is_float:  # the reference itself is float64, with an ulp or two of its own
            agreement.near(ours, theirs, dtype, ulp=ulp + 2 * (dtype.name == "float64"), what=name, **about)
        else:
            agreement.same(ours, theirs, what=name, **about)


def test_every_dtype_has_its_rows() -> None:
    counts = {dtype: len(every_row(dtype, 1).outputs) for dtype in ALL}
    assert counts["bool"] >= 30
    assert min(count for dtype, count in counts.items() if dtype != "bool") >= 42
    tried = {name for dtype in ALL for name in every_row(dtype, 1).output_names}
    assert tried == {row.name for row in ROWS}


@pytest.mark.one_in(16)
@pytest.mark.parametrize("dtype", ALL)
@both_tiers
def test_special_values_and_all_sizes(agreement: Any, dtype: str, in_full: bool) -> None:
    graph = every_row(dtype, "n")
    model = agreement.compile(graph)
    kind = jn.DType(dtype)
    x, y = agreement.pairs(kind)
    close(agreement, agreement.both(graph, x, y, agreement.random(jn.bool, len(x)), model=model), x=x, y=y)
    for size in share(SIZES, ALL.index(dtype), 3, in_full):
        x, y, c = (
            agreement.random(t, size, seed) for t, seed in ((kind, size), (kind, size + 1), (jn.bool, size))
        )
        close(agreement, agreement.both(graph, x, y, c, model=model), x=x, y=y)


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("dtype", "size"), each(ALL, STATIC_SIZES))
def test_sizes_known_when_compiling(agreement: Any, dtype: str, size: int) -> None:
    graph = every_row(dtype, size)
    kind = jn.DType(dtype)
    x, y, c = (agreement.random(t, size, seed) for t, seed in ((kind, 1), (kind, 2), (jn.bool, 3)))
    close(agreement, agreement.both(graph, x, y, c), x=x, y=y)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "float64"]
)
def test_one_lane_beyond_a_vector_writes_nothing_else(agreement: Any, dtype: str) -> None:
    """One output per kernel, so that every size has its own tail; guards surround the output."""
    for size in (5, 9, 17, 33, 65, 129):
        graph = jn.Graph("tail", [jn.TensorType(dtype, (size,), "x")])
        graph.output(graph.apply("maximum", (graph.inputs[0], graph.inputs[0])))
        agreement.agrees(graph, agreement.random(jn.DType(dtype), size, tame=True))


LITERALS = {"int": (0, 2, -1, 7), "uint": (0, 2, 7), "float": (0.0, 0.5, 2.0, -1.0), "bool": (True,)}


@pytest.mark.one_in(24)
@pytest.mark.parametrize("dtype", ALL)
@both_tiers
def test_literals(agreement: Any, dtype: str, in_full: bool) -> None:
    """x op 2, 2 op x: literal operands have short cuts of their own, such as powers with a known exponent."""
    kind = jn.DType(dtype)
    values = np.concatenate([agreement.special(kind), agreement.random(kind, 200)])
    for literal in share(LITERALS[kind.kind], ALL.index(dtype), 2 if dtype != "bool" else 1, in_full):
        graph = jn.Graph("literals", [jn.TensorType(kind, ("n",), "x")])
        (x,) = graph.inputs
        outputs, rows = {}, {}
        for row in [row for row in ROWS if row.arity == 2]:
            for name, operands in (
                (f"{row.name} x {literal}", (x, literal)),
                (f"{row.name} {literal} x", (literal, x)),
            ):
                try:
                    outputs[name] = graph.apply(row.name, operands)
                    rows[name] = row
                except jn.UserError:
                    continue
        graph.output(*outputs.values(), names=list(outputs))
        for name, (ours, theirs, out) in agreement.both(graph, values).items():
            if rows[name].ulp > 0.5 and out.is_float:
                agreement.near(
                    ours, theirs, out, ulp=rows[name].ulp + 2 * (dtype == "float64"), what=name, x=values
                )
            else:
                agreement.same(ours, theirs, what=name, x=values)


BROADCASTS = [
    ((), (3,)), ((3,), ()), ((1,), (5,)), ((4, 1), (1, 65)), ((33, 64), (64,)), ((33, 64), (33, 1)), ((2, 1, 5), (3, 1)),
    ((0, 5), (1, 5)), ((), (0, 2, 2)), ((2, 3, 4), (1, 1, 1)), ((1, 257), (3, 257)), ((5, 1, 3, 1), (1, 2, 1, 7)),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("dtype", ["float32", "int16", "bool", "float16"])
def test_broadcasting(agreement: Any, dtype: str) -> None:
    for left, right in BROADCASTS:
        graph = jn.Graph("broadcast", [jn.TensorType(dtype, left, "x"), jn.TensorType(dtype, right, "y")])
        x, y = graph.inputs
        less = x < y
        graph.output(
            x * y,
            jn.maximum(y, x),
            less,
            jn.where(less, x, y),
            jn.where(x == y, y, 1).reshape(-1) if x.size != 0 and y.size != 0 else x,
        )
        agreement.bounded(
            graph, agreement.random(jn.DType(dtype), left, 1), agreement.random(jn.DType(dtype), right, 2)
        )


@pytest.mark.one_in(16)
@pytest.mark.parametrize("left", [name for name in ALL if name != "bool"])
def test_dtypes_meet_in_one_kernel(agreement: Any, left: str) -> None:
    """Implicit casts of every dtype to its join with every other, fused into additions and comparisons."""
    names = [name for name in ALL if name not in ("bool", left)]
    graph = jn.Graph("mixed", [jn.TensorType(name, ("n",), name) for name in (left, *names)])
    x, *others = graph.inputs
    outputs = [value for y in others for value in (x + y, y < x)]
    graph.output(*outputs, names=[f"y{i}" for i in range(len(outputs))])
    agreement.bounded(
        graph, *[agreement.random(jn.DType(name), 300, i) for i, name in enumerate((left, *names))]
    )


# -- casts ----------------------------------------------------------------------------------------------------------------


def cast_graph(source: str, targets: Sequence[str] = CONVERTIBLE) -> jn.Graph:
    graph = jn.Graph("casts", [jn.TensorType(source, ("n",), "x")])
    (x,) = graph.inputs
    outputs = {}
    for name in targets:
        target = jn.DType(name)
        if name == source:
            continue
        for rounding in ("nearest", "toward_zero") if target.is_float else ("nearest",):
            for saturate in (True, False) if target.is_float and target.bits == 8 else (True,):
                label = f"{source} to {name}, {rounding}, saturate={saturate}"
                outputs[label] = x.cast(target, rounding=rounding, saturate=saturate)
        try:
            outputs[f"bits of {source} as {name}"] = x.bitcast(target)
        except jn.UserError:
            assert target.itemsize != jn.DType(source).itemsize or target.bits != jn.DType(source).bits
    graph.output(*outputs.values(), names=list(outputs))
    return graph


def cast_values(agreement: Any, source: jn.DType) -> np.ndarray:
    """All values of types of up to 16 bits; of wider ones the special values, random ones, and those around the midpoints
    between neighbours of every narrower float type."""
    if source.is_bool:
        return np.array([False, True, True])
    if source.bits == 4:
        return (np.arange(16) - (8 if source.kind == "int" else 0)).astype(source.numpy)
    if source.bits <= 16:
        return np.arange(2**source.bits).astype(f"uint{source.bits}").view(source.numpy)
    values = [agreement.special(source), agreement.random(source, 3000)]
    narrower = [
        DTYPES[name]
        for name in CONVERTIBLE
        if DTYPES[name].is_float and DTYPES[name].mantissa_bits < source.bits
    ]
    for target in narrower:
        half = 2.0 ** -(target.mantissa_bits + 1)
        if source.is_float:
            with np.errstate(all="ignore"):
                base = (
                    np.exp2(np.arange(-130.0, 120.0))
                    if not target.is_signed
                    else agreement.random(target, 300, 1).astype(np.float64)
                )
                middle = base * (1 + half)
                near = [
                    middle,
                    np.nextafter(middle, 0),
                    np.nextafter(middle, np.inf),
                    base + target.smallest_subnormal / 2,
                ]
                values += [agreement.rounded(part, source) for part in near]
        else:
            power = np.uint64(1) << np.arange(source.bits - 1, dtype=np.uint64)
            middle = power | (power >> np.uint64(target.mantissa_bits + 1))
            for part in (middle, middle + np.uint64(1), middle - np.uint64(1)):
                values += [part.astype(source.numpy), (~part).astype(source.numpy)]
    return np.concatenate(values)


@pytest.mark.one_in(36)
@pytest.mark.parametrize("source", CONVERTIBLE)
@both_tiers
def test_casts(agreement: Any, source: str, in_full: bool) -> None:
    graph = cast_graph(source, share(CONVERTIBLE, CONVERTIBLE.index(source), 3, in_full))
    values = cast_values(agreement, jn.DType(source))
    for name, (ours, theirs, _) in agreement.both(graph, values).items():
        agreement.same(ours, theirs, what=name, x=values)


def test_casts_of_scalars_and_single_values(agreement: Any) -> None:
    for shape in ((), (1,), (0,)):
        graph = jn.Graph("casts", [jn.TensorType("float32", shape, "x"), jn.TensorType("uint16", shape, "y")])
        x, y = graph.inputs
        graph.output(
            x.cast("int8"), x.bitcast("uint32"), x.cast("float8_e5m2"), y.bitcast("bfloat16"), y.cast("bool")
        )
        agreement.agrees(graph, np.full(shape, -300.7, np.float32), np.full(shape, 0x3FC0, np.uint16))
