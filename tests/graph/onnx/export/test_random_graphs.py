"""Random typed graphs of many ops become models that are valid, and that are read back as graphs of the same values."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np

from ....fuzz import graphs
from ....fuzz.choices import Choices
from ....support.onnx_export.agreement import exported, outputs
from ....support.tiers import both_tiers

IMPORT_REFUSES = "a slice may be of either sign"


def drawn(number: int) -> tuple[Any, list[Any]]:
    choices = Choices(f"onnx {number}")
    builder = graphs.drawn(choices, choices.flag(), 60, steps=choices.one(4, 9, 18))
    return builder.graph, graphs.arrays_of(choices, builder)


@both_tiers
def test_random_graphs_are_valid_models_that_are_read_back_with_the_same_values(in_full: bool) -> None:
    """What is read back is the same ops, except where sizes are computed in another way, and 64-bit numbers are uint64."""
    refused = count = 0
    for number in range(600 if in_full else 25):
        graph, arrays = drawn(number)
        try:
            want = outputs(graph, arrays)
        except (jn.UserError, jn.UnsupportedError):
            continue
        told = ""
        try:
            model = exported(graph)
            again = jn.from_onnx(model)
        except jn.UnsupportedError as error:
            told = str(error)
        if told:
            assert "fix: " in told
            assert told.startswith("to_onnx: ") or IMPORT_REFUSES in told, (number, told)
            refused += 1
            continue
        count += 1
        for got, expected in zip(outputs(again, arrays), want, strict=True):
            assert got.dtype == np.asarray(expected).dtype, number
            np.testing.assert_allclose(got.astype(np.float64) if got.dtype.kind == "f" else got, expected, rtol=1e-5, atol=1e-6)
    assert count > refused


