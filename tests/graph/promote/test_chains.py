"""Whoever chains operators under "exact" is told where the chain decides otherwise than the join of all operands at once."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.promotion import PRESETS, rules


def graph_of(*dtypes: str, semantics: str = "exact") -> Any:
    return jn.Graph("g", [jn.TensorType(d, (2,), f"x{i}") for i, d in enumerate(dtypes)], semantics=semantics)


def chained(graph: Any, a: Any, b: Any, c: Any) -> tuple[Any, bool]:
    """The dtype of (a + b) + c, None where it is refused, and whether somebody was told."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return ((a + b) + c).dtype, bool(caught)
        except (jn.UserError, jn.UnsupportedError):
            return None, bool(caught)


@pytest.mark.slow
def test_a_warning_tells_of_every_chain_that_decides_otherwise_and_of_no_other() -> None:
    names = [dtype.name for dtype in rules("exact").dtypes if not dtype.is_abstract and dtype.has_arithmetic]
    graph = graph_of(*names)
    symbols = dict(zip(names, graph.inputs, strict=True))
    told = 0
    for triple in itertools.product(names, repeat=3):
        for order in (triple, (triple[1], triple[2], triple[0])):
            found, warned = chained(graph, *[symbols[name] for name in order])
            try:
                at_once = rules("exact").promote(*order)
            except jn.UserError:
                continue
            if found is not None:
                assert warned == (found is not at_once), order
                told += warned
    assert told


def test_other_rule_sets_are_silent() -> None:
    for name in PRESETS:
        if name != "exact":
            graph = graph_of("int8", "uint8", "float16", semantics=name)
            assert chained(graph, *graph.inputs)[1] is False


def test_the_warning_names_the_line_and_a_fix_that_works() -> None:
    graph = graph_of("int8", "uint8", "float16")
    a, b, c = graph.inputs
    total = -(a + b).reshape(2)[::-1]
    with pytest.warns(jn.PromotionWarning, match="add: int16, float16 meet in float32, but int8, uint8, float16") as caught:
        assert (total + c).dtype is jn.float32
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a, b, c = jn.promote(a, b, c)
        assert ((a + b) + c).dtype is jn.float16
        graph.output(total.cast("int16") + graph.inputs[2])
        jn.what_if(graph, semantics="exact")
        jn.evaluate(graph, *[np.ones(2, symbol.dtype.numpy) for symbol in graph.inputs])
