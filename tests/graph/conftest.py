"""Helpers of the graph tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import pytest


def _graph(*types: Any, **options: Any) -> Any:
    """A graph with inputs given as (dtype, shape) or (dtype, shape, name)."""
    return jn.Graph("test", inputs=[jn.TensorType(*entry) for entry in types], **options)


@pytest.fixture
def make() -> Callable[..., Any]:
    return _graph


@pytest.fixture
def run() -> Callable[..., Any]:
    """Build a function's graph for arrays and evaluate it with the reference evaluator."""

    def evaluate(function: Callable[..., Any], *arrays: Any, **options: Any) -> Any:
        graph = _graph(*[(array.dtype, array.shape) for array in arrays], **options)
        result = function(*graph.inputs)
        graph.output(*(result if isinstance(result, tuple) else (result,)))
        return jn.evaluate(graph, *arrays)

    return evaluate
