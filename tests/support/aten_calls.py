"""Runs single operators of ATen on arrays, without PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joinery as jn
import numpy as np
from joinery.graph.aten.importing import import_program
from joinery.graph.aten.program import Call, Program, Ref, Source
from joinery.graph.types import TensorType
from joinery.promotion.dtype import DType


def run(
    op: str, *arguments: Any, dtype: Any, shape: tuple[int, ...], options: dict[str, Any] | None = None,
    more: Sequence[np.ndarray] = (), **named: Any,
) -> np.ndarray:  # fmt: skip
    """Run one operator on arrays; its (first) result must have this dtype and shape. more: like its other results."""
    arrays: list[np.ndarray] = []

    def given(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return Ref(f"x{len(arrays) - 1}")
        return tuple(map(given, value)) if isinstance(value, tuple) else value

    keywords = {name: given(value) for name, value in {**(options or {}), **named}.items()}
    stated = (TensorType(dtype, shape), *[TensorType(DType.from_numpy(each.dtype), each.shape) for each in more])
    call = Call("node", f"aten.{op}", tuple(map(given, arguments)), keywords, stated)
    sources = tuple(Source(f"x{n}", TensorType(DType.from_numpy(a.dtype), a.shape)) for n, a in enumerate(arrays))
    graph = import_program(Program("one", sources, (call,), (("output", Ref("node")),), {}))
    result = jn.evaluate(graph, *arrays)
    assert isinstance(result, np.ndarray)
    return result


def several(op: str, *arguments: Any, results: list[np.ndarray], **options: Any) -> list[np.ndarray]:
    """Run one operator with several results, of the dtypes and shapes of these arrays."""
    arrays: list[np.ndarray] = []

    def given(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return Ref(f"x{len(arrays) - 1}")
        return tuple(map(given, value)) if isinstance(value, tuple) else value

    stated = tuple(TensorType(DType.from_numpy(each.dtype), each.shape) for each in results)
    call = Call("node", f"aten.{op}", tuple(map(given, arguments)), options, stated)
    sources = tuple(Source(f"x{n}", TensorType(DType.from_numpy(a.dtype), a.shape)) for n, a in enumerate(arrays))
    outputs = tuple((f"output{n}", Ref("node", n)) for n in range(len(results)))
    found = jn.evaluate(import_program(Program("one", sources, (call,), outputs, {})), *arrays)
    return list(found) if isinstance(found, tuple) else [found]
