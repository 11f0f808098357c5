"""Casts of one of several numbers: the numbers are cast before the choice, and values stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.promotion.rules import RuleSet

CASES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "chosen": lambda x, y, c: jn.where(c, 255, 0).cast("uint8"),
    "chosen floats": lambda x, y, c: jn.where(c, 2.75, -1e9).cast("int16"),
    "chosen for floats": lambda x, y, c: jn.where(c, 300, -5).cast("float32"),
    "chosen twice": lambda x, y, c: jn.where(c, 3, jn.where(x > 99, 300, -1)).cast("uint8"),
    "chosen by rows": lambda x, y, c: jn.where(c[:, None], 1, jn.where((x > 9)[None], 0, 7)).cast("int8"),
}


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_cast_before_the_choice(name: str) -> None:
    graph = jn.Graph("g", [jn.TensorType(dtype, ("n",), None) for dtype in ("uint8", "uint8", "bool")])
    graph.output(CASES[name](*graph.inputs))
    dtype = graph.outputs[0].dtype
    tensors = [symbol for symbol in expand(graph).symbols if symbol.shape and not symbol.dtype.is_bool]
    assert all(symbol.dtype.bits <= dtype.bits for symbol in tensors)
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 256, (2, 301)).astype(np.uint8)
    want = jn.evaluate(graph, x, y, x > y)
    np.testing.assert_array_equal(jn.compile(graph, device="cpu")(x, y, x > y), want)


def test_a_table_that_joins_a_dtype_with_itself_to_another_keeps_its_choices() -> None:
    dtypes = ["uint8", "int32", "int64"]
    table = {(a, b): max(a, b, "int32", key=dtypes.index) for a in dtypes for b in dtypes}
    graph = jn.Graph("g", [jn.TensorType("bool", (300,), "c")], semantics=RuleSet.from_table("c", table))
    graph.output(jn.where(graph.inputs[0], 300, 0).cast("uint8"))
    chosen = np.arange(300) % 3 == 0
    np.testing.assert_array_equal(jn.compile(graph, device="cpu")(chosen), np.where(chosen, 44, 0).astype(np.uint8))
