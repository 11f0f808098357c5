"""Diagonals and shifts near the ends of int64, to which no position can be added. NumPy, and Python's integers, witness."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_models import agrees, model, node

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
FAR = [2**63 - 1, 2**63 - 2, 2**62, -(2**62), 1 - 2**63, -(2**63), 2**70, -(2**70)]


def mask(k: int, upper: bool) -> Any:
    """Which elements of X a triangle keeps, in integers without bounds."""
    return np.array([[(j - i >= k) if upper else (j - i <= k) for j in range(4)] for i in range(3)])


def both(graph: jn.Graph, *arrays: Any) -> list[Any]:
    found = jn.evaluate(graph, *arrays)
    for one, other in zip(jn.compile(graph, device="cpu")(*arrays), found, strict=True):
        np.testing.assert_array_equal(one, other)
    return list(found)


@pytest.mark.parametrize("shape", [(3, 4), ("n", "m")], ids=str)
def test_triangles(shape: tuple[Any, ...]) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, "x")])
    (x,) = graph.inputs
    graph.output(*[triangle(x, k) for k in FAR for triangle in (jn.tril, jn.triu)])
    found = iter(both(graph, X))
    for k in FAR:
        for upper in (False, True):
            np.testing.assert_array_equal(next(found), np.where(mask(k, upper), X, 0))


def test_identities_and_bands() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m"), "x")])
    (x,) = graph.inputs
    many = [k for k in FAR if k > 0]
    graph.output(*[jn.eye(x, "n", "m", k) for k in FAR], *[jn.band_part(x, k, 0) for k in many],
                 *[jn.band_part(x, 0, k) for k in many])  # fmt: skip
    want = [np.zeros((3, 4))] * len(FAR) + [np.tril(X)] * len(many) + [np.triu(X)] * len(many)
    for one, other in zip(both(graph, X), want, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("shape", [(3, 4), ("n", "m")], ids=str)
def test_rolls(shape: tuple[Any, ...]) -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, shape, "x")])
    (x,) = graph.inputs
    shifts = [k for k in FAR if -(2**63) <= k < 2**63]
    graph.output(*[roll for k in shifts for roll in (jn.roll(x, k), jn.roll(x, k, 0))])
    found = iter(both(graph, X))
    for k in shifts:
        np.testing.assert_array_equal(next(found), np.roll(X, k % 12))
        np.testing.assert_array_equal(next(found), np.roll(X, k % 3, 0))


def test_a_roll_of_nothing() -> None:
    graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", "m"), "x")])
    graph.output(jn.roll(graph.inputs[0], 1 - 2**63, 1), jn.roll(graph.inputs[0], 3, 1))
    assert [each.shape for each in both(graph, np.zeros((3, 0), np.float32))] == [(3, 0)] * 2


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("shape", [[3, 4], ["n", "m"]], ids=str)
def test_trilu(shape: list[Any], upper: int) -> None:
    for k in (2**63 - 1, 2**62):
        made = model([node("Trilu", "x k", upper=upper)], {"x": (np.float32, shape)}, constants={"k": np.int64(k)})
        agrees(made, X)
    made = model([node("Trilu", "x k", upper=upper)], {"x": (np.float32, shape)}, constants={"k": np.int64(-(2**63))})
    np.testing.assert_array_equal(jn.evaluate(jn.from_onnx(made), X), X * upper)
