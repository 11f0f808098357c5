"""Products whose columns are no whole panels: as many vectors as there are, stored where they belong, and nothing beside."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.llvm.compile import host_target

TARGETS = [target for target, feature in (("x86-64-v3", "avx2"), (None, "")) if not feature or host_target().has(feature)]
COLUMNS = (1, 2, 5, 15, 16, 17, 31, 33, 37, 48, 53, 63, 64, 65, 100, 129)


def bound(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x.shape[-1] + 4) * np.finfo(x.dtype).eps * (np.abs(x).astype(np.float64) @ np.abs(y).astype(np.float64))


def agrees(found: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    return bool((np.abs(found - x.astype(np.longdouble) @ y.astype(np.longdouble)) <= bound(x, y)).all())


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_of_any_columns(dtype: str, target: str | None) -> None:
    rng = np.random.default_rng(1)
    graph = jn.Graph("g")
    wanted: list[Any] = []
    arrays = []
    for columns in COLUMNS:
        for rows, depth, batch in ((7, 3, ()), (70, 9, ()), (33, 40, (3,))):
            pair = []
            for shape in ((*batch, rows, depth), (*batch, depth, columns)):
                arrays.append(rng.standard_normal(shape).astype(dtype))
                pair.append(graph.input(jn.DType(dtype), shape, f"x{len(arrays)}"))
            wanted.append((arrays[-2], arrays[-1], pair[0] @ pair[1]))
    graph.output(*[symbol for _, _, symbol in wanted])
    found = jn.compile(graph, device="cpu", target=target, threads=3)(*arrays)
    for (x, y, _), each in zip(wanted, found, strict=True):
        assert agrees(each, x, y), (x.shape, y.shape)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("columns", [3, 17, 37, 65])
def test_what_lies_beside_a_product_is_left_alone(columns: int) -> None:
    """Rows of the result are longer than those of the product."""
    x, y, z = (np.random.default_rng(2).standard_normal(shape).astype(np.float32)
               for shape in ((90, 20), (20, columns), (90, 11)))  # fmt: skip
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", each.shape, f"x{i}") for i, each in enumerate((x, y, z))])
    a, b, c = graph.inputs
    graph.output(jn.concat([c, a @ b, c], axis=1))
    for threads in (1, 2):
        found = jn.compile(graph, device="cpu", threads=threads)(x, y, z)
        assert np.array_equal(found[:, :11], z)
        assert np.array_equal(found[:, 11 + columns :], z)
        assert agrees(found[:, 11 : 11 + columns], x, y)


@pytest.mark.parametrize("columns", [2, 33, 52, 70])
def test_columns_that_calls_decide(columns: int) -> None:
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", ("m", "k"), "x"), jn.TensorType("float32", ("k", "n"), "y")])
    graph.output(graph.inputs[0] @ graph.inputs[1])
    model = jn.compile(graph, device="cpu")
    rng = np.random.default_rng(columns)
    for rows, depth in ((1, 5), (65, 33), (40, 700)):
        x, y = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, depth), (depth, columns)))
        assert agrees(np.asarray(model(x, y)), x, y)
