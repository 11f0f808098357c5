"""Constants whose numbers differ by a step are positions of kernels: they have the same values, wherever they are used."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(4)
CONSTANTS = [
    np.arange(8, dtype=np.int64), np.arange(8, dtype=np.uint8), np.arange(250, 242, -1, dtype=np.uint8),
    np.arange(-4, 4, dtype=np.int8),
    np.arange(0, 80, 10, dtype=np.int32), np.arange(7, -1, -1, dtype=np.int64), np.arange(2**31 - 8, 2**31, dtype=np.uint32),
    np.array([0, 1, 2, 3, 4, 5, 6, 8]), np.array([0, 2, 2, 6, 8, 10, 12, 14]), np.zeros(8, np.int64),
    np.arange(2**62, 2**62 + 8, dtype=np.int64), np.arange(2**63, 2**63 + 8, dtype=np.uint64),
    np.array([2**63 - 8, 2**63 - 7, 2**63 - 5, 2**63 - 5, 2**63 - 4, 2**63 - 3, 2**63 - 2, 2**63 - 1]),
    np.array([2**63 - 8 * step for step in range(8)], np.uint64),
    np.array([2**64 - 1 - 2**60 * step for step in range(8)], np.uint64),
    np.array([-(2**63), -1, 2**63 - 2, 0, 0, 0, 0, 0]), np.arange(32768, 32776, dtype=np.uint16),
]  # fmt: skip


def run(build: Any, *arrays: Any, **options: Any) -> Any:
    graph = jn.Graph("g", [jn.TensorType(str(x.dtype), x.shape) for x in arrays])
    graph.output(*build(graph, *graph.inputs))
    return [np.asarray(each) for each in jn.compile(graph, device="cpu", cache=False, **options)(*arrays)]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("number", range(len(CONSTANTS)))
@pytest.mark.parametrize("numerics", ["strict", "reproducible"])
def test_every_use(number: int, numerics: Any) -> None:
    constant = CONSTANTS[number]
    x = RNG.integers(0, 100, (33, 8)).astype(constant.dtype)

    def build(graph: Any, x: Any) -> Any:
        row = graph.constant(constant)
        square = graph.constant(constant[:4].reshape(2, 2))
        return (
            x + row, row, x * jn.reshape(row, (1, 8)), jn.permute(x, (1, 0)) + jn.reshape(row, (8, 1)),
            jn.where(jn.less(x, row), x, row), jn.max(jn.cast(row, "float64")), jn.reshape(row, (2, 4))[:, ::-1],
            square * square, jn.cast(row, "float32"), row[::2] + row[1::2],
            jn.gather(row, x % jn.cast(graph.constant(np.array(8)), x.dtype), axis=0), jn.concat([row, x[0]], axis=0),
        )  # fmt: skip

    found = run(build, x, numerics=numerics)
    row, square = constant, constant[:4].reshape(2, 2)
    with np.errstate(over="ignore"):
        wanted = [
            x + row, row, x * row, x.T + row[:, None], np.where(x < row, x, row), row.astype(np.float64).max(),
            row.reshape(2, 4)[:, ::-1], square * square, row.astype(np.float32), row[::2] + row[1::2],
            row[x % np.array(8, x.dtype)], np.concatenate([row, x[0]]),
        ]  # fmt: skip
    for index, (mine, other) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(mine, other, err_msg=f"{constant} {index}")


def test_operands_of_products_and_positions_of_scatters() -> None:
    x = RNG.integers(0, 5, (12, 16)).astype(np.int32)

    def build(graph: Any, x: Any) -> Any:
        matrix = graph.constant(np.arange(128, dtype=np.int32).reshape(16, 8))
        places = graph.constant(np.arange(12)[::-1].copy())
        return x @ matrix, jn.scatter_nd_add(x, x, jn.unsqueeze(places, 1)), jn.gather(x, places, axis=0), jn.take_along_axis(
            x, graph.constant(np.arange(12).reshape(12, 1)), axis=1)  # fmt: skip

    product, added, gathered, taken = run(build, x)
    np.testing.assert_array_equal(product, x @ np.arange(128, dtype=np.int32).reshape(16, 8))
    np.testing.assert_array_equal(added, x + x[::-1])
    np.testing.assert_array_equal(gathered, x[::-1])
    np.testing.assert_array_equal(taken, np.take_along_axis(x, np.arange(12).reshape(12, 1), 1))


def test_masks_of_positions_load_nothing() -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", (4, 64, 64), name="x")])
    (x,) = graph.inputs
    at = jn.arange(x, 64)
    graph.output(jn.where(jn.greater_equal(jn.unsqueeze(at, 1), at), x, 0.0))
    model = jn.compile(graph, device="cpu", cache=False)
    (kernel,) = model.kernels
    assert "constant" not in kernel.ttir.split("{", 2)[1].split("->")[0].replace("arith.constant", "")
    value = RNG.standard_normal((4, 64, 64)).astype(np.float32)
    np.testing.assert_array_equal(np.asarray(model(value)), np.tril(value))
