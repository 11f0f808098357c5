"""Views, joins and indexing, compiled and compared with the reference evaluator: nothing is computed, so all bits are equal."""

from __future__ import annotations

import itertools
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ..support.tiers import both_tiers, each, share

SHAPES = [(), (1,), (5,), (0,), (65,), (3, 4), (1, 7), (0, 3), (33, 64), (65, 33), (3, 1, 5), (4, 5, 33), (2, 0, 3),
          (2, 3, 4, 5)]  # fmt: skip
MOVED = ("float32", "int8", "bool", "float64", "bfloat16", "int4", "float8_e4m3fn", "complex64")
JOINED = ("float32", "uint8", "bool", "int64", "float16")
PADDED = ("float32", "int16", "bool", "bfloat16")
POSITIONS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "index")
SLICES = [slice(None, None, 2), slice(None, None, -1), slice(1, None), slice(None, -1), slice(-3, None), slice(None, None, -2),
          slice(5, 1, -3), slice(2, 2), slice(100, None), slice(None, None, 7)]  # fmt: skip


def inputs(*types: tuple[str, tuple[int, ...]], symbolic: bool = False) -> jn.Graph:
    """A graph with inputs of these dtypes and shapes; equal extents get one name when `symbolic`."""
    made = []
    for position, (dtype, shape) in enumerate(types):
        extents = tuple([f"d{extent}" if symbolic and extent != 1 else extent for extent in shape])
        made.append(jn.TensorType(dtype, extents, f"x{position}"))
    return jn.Graph("structure", made)


def finish(graph: jn.Graph, outputs: dict[str, jn.Symbol]) -> jn.Graph:
    graph.output(*outputs.values(), names=list(outputs))
    return graph


def storage(agreement: Any, dtype: str, shape: tuple[int, ...], number: int = 0) -> np.ndarray:
    """Random values of any dtype, those that are only stored among them."""
    kind = jn.DType(dtype)
    if kind.has_arithmetic:
        values: np.ndarray = agreement.random(kind, shape, number)
        return values
    rng = np.random.default_rng(number)
    if kind.is_complex:
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(kind.numpy)
    if kind.is_float and kind.bits == 8:
        return rng.integers(0, 256, shape).astype(np.uint8).view(kind.numpy)
    return rng.integers(0 if kind.kind == "uint" else -8, 8, shape).astype(kind.numpy)


def views(graph: jn.Graph) -> dict[str, jn.Symbol]:
    (x,) = graph.inputs
    rank = len(x.shape)
    outputs = {"broadcast": x.broadcast_to((2, 3, *x.shape))}
    for order in itertools.permutations(range(rank)):
        if order != tuple(range(rank)):
            outputs[f"permute {order}"] = x.permute(*order)
    for count in range(1, rank + 1):
        for axes in itertools.combinations(range(rank), count):
            outputs[f"flip {axes}"] = jn.flip(x, axes)
    outputs["flat"] = x.reshape(x.size)
    if rank:
        outputs["flat transposed"] = x.permute(*reversed(range(rank))).reshape(x.size)
    inserted = x.reshape(*[entry for extent in x.shape for entry in (1, extent)], 1)
    outputs["unsqueezed"] = inserted
    outputs["repeated"] = inserted.broadcast_to((*[entry for extent in x.shape for entry in (3, extent)], 2))
    if all(isinstance(extent, int) for extent in x.shape):
        for number, entry in enumerate(SLICES if rank else ()):
            for axis in range(rank):
                outputs[f"slice {number} of {axis}"] = x[(slice(None),) * axis + (entry,)]
            outputs[f"slice {number} of all"] = x[(entry,) * rank]
        if rank and all(x.shape):
            outputs |= {"first": x[(0,) * rank], "last": x[-1], "new axes": x[None, ..., None]}
            outputs["both"] = x[::-1].permute(*reversed(range(rank)))
    return outputs


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("dtype", "symbolic"), each(MOVED, [False, True]))
@both_tiers
def test_views(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    shapes = SHAPES if dtype == "float32" or not in_full else SHAPES[5:]
    for shape in share(shapes, 2 * MOVED.index(dtype) + symbolic, 7, in_full):
        graph = inputs((dtype, shape), symbolic=symbolic)
        agreement.agrees(finish(graph, views(graph)), storage(agreement, dtype, shape))


def test_reshapes_split_and_merge(agreement: Any) -> None:
    """Chains of reshapes and permutations, whose indices are divided and put together again."""
    graph = inputs(("float32", (6, 20, 9)))
    (x,) = graph.inputs
    outputs = {
        "merge, split": x.reshape(120, 9).reshape(5, 24, 9),
        "split, permute": x.reshape(2, 3, 4, 5, 9).permute(3, 0, 4, 2, 1),
        "permute, merge": x.permute(1, 0, 2).reshape(120, 9),
        "across": x.permute(2, 1, 0).reshape(27, 40),
        "shifted": x.reshape(1080)[1:].reshape(13, 83),
        "rows of windows": x.reshape(30, 36)[::2, 1:7].reshape(45, 2).permute(1, 0),
        "doubled": jn.concat([x.reshape(108, 10), x.reshape(108, 10)[::-1]], 1).reshape(30, 72) * 2,
        "tiled": jn.tile(x[:2, :3], (2, 1, 3)),
        "interleaved": jn.repeat_interleave(x[:, :2], 3, 1),
    }
    agreement.agrees(finish(graph, outputs), agreement.random(jn.float32, (6, 20, 9)))


@pytest.mark.one_in(16)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", JOINED)
@both_tiers
def test_concat_and_stack(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    pairs = ((1,), (1,)), ((5,), (3,)), ((65,), (64,)), ((0,), (3,)), ((3, 4), (3, 4)), ((33, 65),) * 2, ((2, 3, 4),) * 2
    for left, right in share(pairs, 2 * JOINED.index(dtype) + symbolic, 3, in_full):
        graph = inputs((dtype, left), (dtype, right), symbolic=symbolic)
        x, y = graph.inputs
        outputs = {}
        for axis in range(len(left)):
            outputs[f"two along {axis}"] = jn.concat([x, y], axis)
            outputs[f"four along {axis}"] = jn.concat([x, jn.flip(y, axis), x, y], axis)
        if left == right:
            for axis in range(len(left) + 1):
                outputs[f"stack at {axis}"] = jn.stack([x, y, x], axis)
            outputs["computed parts"] = jn.concat([jn.maximum(x, y), x == y, y], 0)
            outputs["of concats"] = jn.concat([jn.concat([x, y], 0), jn.concat([y, x], 0)], len(left) - 1)
        outputs["flattened"] = jn.concat([jn.flatten(x), jn.flatten(y), jn.flatten(x)], 0)
        values = [agreement.random(jn.DType(dtype), shape, number) for number, shape in enumerate((left, right))]
        agreement.agrees(finish(graph, outputs), *values)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", PADDED)
@both_tiers
def test_pad(agreement: Any, dtype: str, symbolic: bool, in_full: bool) -> None:
    kind = jn.DType(dtype)
    shapes = ((), (1,), (7,), (65,), (1025,), (0,), (9, 8), (33, 64), (9, 8, 10), (1, 9), (0, 9))
    for shape in share(shapes, PADDED.index(dtype) + 2 * symbolic, 4, in_full):
        graph = inputs((dtype, shape), symbolic=symbolic)
        (x,) = graph.inputs
        rank = len(shape)
        outputs = {}
        for (low, high), mode in itertools.product(((0, 1), (1, 0), (2, 3), (5, 6)), ("constant", "edge", "reflect")):
            if mode != "constant" and (0 in shape or (symbolic and 1 in shape)):
                continue
            attrs = {"low": (low,) * rank, "high": (high,) * rank, "mode": mode, "value": 0}
            try:
                outputs[f"{mode} {low} {high}"] = graph.apply("pad", (x,), attrs)
            except jn.UserError:
                assert mode == "reflect"
                assert min(shape) <= max(low, high)
        filled = {"low": (2,) * rank, "high": (0,) * rank, "mode": "constant", "value": True if kind.is_bool else 3}
        outputs["filled"] = twice = graph.apply("pad", (x,), filled)
        outputs["padded twice"] = graph.apply("pad", (twice,), {**filled, "low": (0,) * rank, "high": (1,) * rank, "value": 0})
        if rank and not symbolic:
            outputs["cut again"] = outputs["padded twice"][(slice(1, -1),) * rank]
        agreement.agrees(finish(graph, outputs), agreement.random(kind, shape))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("dtype", POSITIONS)
@both_tiers
def test_gather(agreement: Any, dtype: str, in_full: bool) -> None:
    """Positions from both ends, far out of range on both sides, in every integer dtype; of data of several dtypes."""
    kind = jn.DType(dtype)
    rng = np.random.default_rng(0)
    tables = (("float32", (1,)), ("int8", (65,)), ("bool", (3, 4)), ("float16", (33, 7)), ("uint64", (2, 3, 5)))
    for data, shape in share(tables, POSITIONS.index(dtype), 2, in_full):
        shapes = [(), (4,), (2, 3), shape]
        positions = []
        for entry in shapes:
            values = rng.integers(max(-9, int(kind.min_value)), 9, entry).astype(kind.numpy)
            if values.size > 2:
                values.reshape(-1)[:2] = kind.min_value, kind.max_value
            positions.append(values)
        for symbolic in share((False, True), POSITIONS.index(dtype), 2, in_full):
            graph = inputs((data, shape), *[(dtype, entry) for entry in shapes], symbolic=symbolic)
            x, *indices = graph.inputs
            outputs = {}
            for axis in range(len(shape)):
                for number, index in enumerate(indices[:3]):
                    outputs[f"gather {number} along {axis}"] = jn.gather(x, index, axis)
                outputs[f"along {axis}"] = jn.take_along_axis(x, indices[3], axis)
                outputs[f"of flipped along {axis}"] = jn.gather(jn.flip(x, axis), indices[1], axis)
            agreement.agrees(finish(graph, outputs), agreement.random(jn.DType(data), shape), *positions)


def test_gather_by_computed_positions(agreement: Any) -> None:
    graph = inputs(("float32", (40, 33)), ("int64", (40,)))
    x, i = graph.inputs
    best = jn.argmax(x, 1)
    outputs = {
        "rows": jn.gather(x * 2, i % 7, 0),
        "largest": jn.take_along_axis(x, jn.unsqueeze(best, 1), 1),
        "twice": jn.gather(jn.gather(x, i, 0), best % 33, 1),
        "of a sum": jn.gather(jn.sum(x, 1), best, 0),
    }
    agreement.bounded(finish(graph, outputs), agreement.random(jn.float32, (40, 33), tame=True), agreement.random(jn.int64, 40))


def test_no_index_points_into_an_empty_axis(agreement: Any) -> None:
    for take in (jn.gather, jn.take_along_axis):
        graph = jn.Graph("empty", [jn.TensorType("float32", ("n",), "x"), jn.TensorType("int64", ("k",), "i")])
        x, i = graph.inputs
        graph.output(take(x, i, 0))
        model = agreement.compile(graph)
        for run in (model, lambda *arrays, graph=graph: jn.evaluate(graph, *arrays)):
            with pytest.raises(jn.UserError, match="no index points into it"):
                run(np.zeros(0, np.float32), np.zeros(2, np.int64))
            assert run(np.zeros(0, np.float32), np.zeros(0, np.int64)).shape == (0,)
            np.testing.assert_array_equal(run(np.ones(3, np.float32), np.array([9, -9])), [1, 1])
        with pytest.raises(jn.UserError, match="no index points into it"):
            take(jn.Graph("fixed", [jn.TensorType("float32", (0,), "x")]).inputs[0], np.array([0]), 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("number", range(3), ids=["uint8", "float32", "float64"])
@both_tiers
def test_sizes_around_blocks(agreement: Any, number: int, in_full: bool) -> None:
    """Copies, transpositions and shifts of every size around a block's."""
    dtype = ("uint8", "float32", "float64")[number]
    for rows, columns in share(list(itertools.product((1, 63, 64, 65), (1, 31, 64, 129))), number, 3, in_full):
        graph = inputs((dtype, (rows, columns)))
        (x,) = graph.inputs
        outputs = {"copy": x, "transpose": x.T, "shift": jn.concat([x[1:], x[:1]], 0), "flip": x[::-1, ::-1]}
        outputs["sum"] = x + x.reshape(-1)[-1]
        agreement.agrees(finish(graph, outputs), agreement.random(jn.DType(dtype), (rows, columns)))
