"""Operations that move values take every dtype that can be stored, and change no bit of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.graph.ops.table import OPS
from joinery.graph.text.parsing import from_text
from joinery.graph.text.printing import to_text
from joinery.promotion.dtype import DTYPES

from ..support.tiers import halved

COLUMNS = 7

Array = np.ndarray[Any, Any]
Move = tuple[Callable[[Any, Any, Any], Any], Callable[[Array, Array, Array], Array]]

MOVES: dict[str, Move] = {
    "copy": (lambda x, i, m: x, lambda x, i, m: x),
    "flip": (lambda x, i, m: jn.flip(x, (0,)), lambda x, i, m: x[::-1]),
    "slice": (lambda x, i, m: x[:, 5:0:-2], lambda x, i, m: x[:, 5:0:-2]),
    "permute": (lambda x, i, m: x.T, lambda x, i, m: x.T),
    "reshape": (lambda x, i, m: jn.flatten(x), lambda x, i, m: x.reshape(-1)),
    "broadcast_to": (lambda x, i, m: jn.tile(x, (2, 2)), lambda x, i, m: np.tile(x, (2, 2))),
    "concat": (lambda x, i, m: jn.concat([x, jn.flip(x, (1,))]), lambda x, i, m: np.concatenate([x, x[:, ::-1]])),
    "stack": (lambda x, i, m: jn.stack([x, x[:, ::-1]], 1), lambda x, i, m: np.stack([x, x[:, ::-1]], 1)),
    "pad": (lambda x, i, m: jn.pad(x, [(1, 2), (0, 1)], value=1), lambda x, i, m: _padded(x)),
    "edge": (lambda x, i, m: jn.pad(x, [(0, 0), (2, 1)], mode="edge"), lambda x, i, m: x[:, [0, 0, *range(7), 6]]),
    "gather": (lambda x, i, m: jn.gather(x, i, 1), lambda x, i, m: np.take(x, i, 1)),
    "take_along_axis": (
        lambda x, i, m: jn.take_along_axis(x, jn.unsqueeze(i, 0), 1),
        lambda x, i, m: np.take_along_axis(x, np.broadcast_to(i, (len(x), 3)), 1),
    ),
    "where": (lambda x, i, m: jn.where(m, x, x[:, ::-1]), lambda x, i, m: np.where(m, x, x[:, ::-1])),
    "masked_fill": (lambda x, i, m: jn.masked_fill(x, m, True), lambda x, i, m: np.where(m, np.ones((), x.dtype), x)),
}  # fmt: skip


def _padded(x: Array) -> Array:
    result = np.ones((len(x) + 3, COLUMNS + 1), x.dtype)
    result[1 : len(x) + 1, :COLUMNS] = x
    return result


def _graph(dtype: str) -> Any:
    types = [
        jn.TensorType(dtype, ("n", COLUMNS), name="x"),
        jn.TensorType("int64", (3,), name="i"),
        jn.TensorType("bool", ("n", COLUMNS), name="m"),
    ]
    graph = jn.Graph("moves", inputs=types)
    graph.output(*[built(*graph.inputs) for built, _ in MOVES.values()], names=list(MOVES))
    return graph


def _values(dtype: Any, rows: int) -> Array:
    """Any bits at all, but no signalling NaN of float16, which hosts convert to float32 and back."""
    random = np.random.default_rng(rows)
    if dtype.is_bool:
        return random.integers(0, 2, (rows, COLUMNS)).astype(bool)
    raw = random.integers(0, 256, rows * COLUMNS * dtype.itemsize, np.uint8)
    if dtype.name == "tensor_float32":
        return (raw.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).reshape(rows, COLUMNS)
    if dtype.is_integer and dtype.bits < 8:
        numbers = raw.astype(np.int8) % (1 << dtype.bits) + int(dtype.min_value)
        return numbers.astype(dtype.numpy).reshape(rows, COLUMNS)
    if dtype.bits < 8:
        raw &= np.uint8((1 << dtype.bits) - 1)
    values = raw.view(dtype.numpy).reshape(rows, COLUMNS)
    return np.where(np.isnan(values), np.float16(np.nan), values) if dtype.name == "float16" else values


def _same_bits(found: Array, expected: Array) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape and found.tobytes() == expected.tobytes()


def _check(model: Callable[..., Any], dtype: Any, rows: int) -> None:
    x, i = _values(dtype, rows), np.array([4, -1, 0])
    m = np.random.default_rng(1).integers(0, 2, (rows, COLUMNS)).astype(bool)
    for (name, (_, expected)), found in zip(MOVES.items(), model(x, i, m), strict=True):
        assert _same_bits(np.asarray(found), np.asarray(expected(x, i, m))), (name, rows)


@pytest.mark.one_in(24)
@pytest.mark.parametrize("name", halved(list(DTYPES)))
def test_every_dtype_is_moved_on_the_host(name: str) -> None:
    graph = _graph(name)
    model = jn.compile(graph, device="cpu", cache=False)
    for rows in (0, 1, 63, 64, 65):
        _check(model, DTYPES[name], rows)
        _check(lambda *arrays: jn.evaluate(graph, *arrays), DTYPES[name], rows)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn", "int4", "complex64", "complex128"])
def test_stored_dtypes_are_moved_on_gpus(name: str) -> None:
    model = jn.compile(_graph(name), device="ptxsim", cache=False)
    for rows in (0, 1, 33):
        _check(model, DTYPES[name], rows)


def test_what_moves_values_says_so_in_its_row() -> None:
    movers = [row for row in OPS.values() if row.kind in ("view", "join", "index")]
    assert [row.name for row in (*movers, OPS["where"]) if "any_dtype" not in row.traits] == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_constants_and_weights_reach_the_kernels(dtype: str, tmp_path: Any) -> None:
    table = (np.arange(24).reshape(8, 3) - 5j).astype(dtype)
    graph = jn.Graph("table", inputs=[jn.TensorType("int64", ("n",), name="rows")])
    (rows,) = graph.inputs
    weight, constant = graph.weight("table", table), graph.constant(table[::-1].copy())
    picked = jn.gather(weight, rows)
    graph.output(jn.concat([picked, jn.gather(constant, rows)], 1), jn.pad(picked, 1, value=2 - 3j), weight)
    model = jn.compile(graph, device="cpu", cache=False)
    model.save(tmp_path / "table.joinery")
    at = np.array([7, 0, 3])
    expected = np.concatenate([table[at], table[::-1][at]], 1), np.pad(table[at], 1, constant_values=2 - 3j), table
    results = (model(at), jn.load(tmp_path / "table.joinery", device="cpu")(at), jn.evaluate(graph, at))
    for found in results:
        assert all(_same_bits(np.asarray(f), e) for f, e in zip(found, expected, strict=True))


def test_complex_attributes_survive_the_text_form() -> None:
    (x,) = (graph := jn.Graph("g", inputs=[jn.TensorType("complex64", (2,))])).inputs
    graph.output(jn.pad(x, 1, value=complex(-0.0, float("inf"))), jn.pad(x, 1, value=complex(0.0, float("inf"))))
    text, arrays = to_text(graph)
    assert "value = complex(-0.0, float(inf))" in text
    assert to_text(from_text(text, arrays))[0] == text
    for wrong in ("complex(1.0)", "complex(1, 2)", "complex((1.0), 2.0)", "complex(1.0, 2.0"):
        with pytest.raises(jn.UserError, match="line 3"):
            from_text(text.replace("complex(-0.0, float(inf))", wrong), arrays)
    compiled = jn.compile(graph, device="cpu", cache=False)(np.zeros(2, np.complex64))
    assert [np.signbit(part[0].real) for part in compiled] == [True, False]


def test_values_that_no_dtype_of_the_operand_holds_are_refused() -> None:
    (x,) = jn.Graph("g", inputs=[jn.TensorType("float8_e8m0fnu", (2,))]).inputs
    with pytest.raises(jn.UserError, match="literal 0 does not fit float8_e8m0fnu"):
        jn.pad(x, 1)
    (x,) = jn.Graph("g", inputs=[jn.TensorType("int4", (2,))]).inputs
    with pytest.raises(jn.UserError, match="literal 8 does not fit int4"):
        jn.where(jn.equal(x.cast("int8"), 0), x, 8)
