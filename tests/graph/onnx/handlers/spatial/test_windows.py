"""Poolings against their definition, window by window: random kernels, strides, dilations, paddings and rounding."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

from .....support.onnx_models import evaluated, model, node

F = np.float32


def counts(shape: tuple[int, ...], options: dict[str, Any]) -> list[int]:
    """How many windows there are: rounding up drops the one that would begin in the padding at the end."""
    rank = len(shape)
    found = []
    for axis, extent in enumerate(shape):
        low, high = options["pads"][axis], options["pads"][rank + axis]
        reach = extent + low + high - (options["kernel_shape"][axis] - 1) * options["dilations"][axis] - 1
        stride = options["strides"][axis]
        count = (math.ceil(reach / stride) if options["ceil_mode"] else reach // stride) + 1
        found.append(count - (options["ceil_mode"] and (count - 1) * stride >= extent + low))
    return found


def pooled(op: str, x: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """The result of a pooling, and the positions of the largest elements in the whole tensor."""
    shape = x.shape[2:]
    rank, pads = len(shape), options["pads"]
    sizes = counts(shape, options)
    result, positions = np.zeros((*x.shape[:2], *sizes)), np.zeros((*x.shape[:2], *sizes), np.int64)
    for lead in np.ndindex(x.shape[:2]):
        for window in np.ndindex(*sizes):
            values, where, counted = [], [], 0
            for tap in itertools.product(*[range(size) for size in options["kernel_shape"]]):
                at = [window[a] * options["strides"][a] + tap[a] * options["dilations"][a] - pads[a] for a in range(rank)]
                if all(0 <= at[a] < shape[a] for a in range(rank)):
                    values.append(float(x[(*lead, *at)]))
                    where.append(np.ravel_multi_index((*lead, *at), x.shape))
                    counted += 1
                elif all(-pads[a] <= at[a] < shape[a] + pads[rank + a] for a in range(rank)):
                    counted += options.get("count_include_pad", 0)
            if op == "MaxPool":
                best = int(np.argmax(values)) if values else 0
                result[(*lead, *window)] = values[best] if values else -math.inf
                positions[(*lead, *window)] = where[best] if values else -1
            elif op == "AveragePool":
                result[(*lead, *window)] = sum(values) / counted if counted else math.nan
            else:
                p = options["p"]
                result[(*lead, *window)] = sum(abs(value) ** p for value in values) ** (1 / p)
    return result, positions


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(60))
def test_poolings_are_what_their_definition_says(seed: int) -> None:
    choose = random.Random(seed)
    op, rank = ("MaxPool", "AveragePool", "LpPool")[seed % 3], choose.choice([1, 2, 2, 3])
    kernel = [choose.randint(1, 3) for _ in range(rank)]
    options: dict[str, Any] = {
        "kernel_shape": kernel, "strides": [choose.randint(1, 3) for _ in range(rank)],
        "dilations": [choose.randint(1, 2) for _ in range(rank)],
        "pads": [choose.randint(0, size - 1) for size in (*kernel, *kernel)], "ceil_mode": choose.randint(0, 1),
    }  # fmt: skip
    options |= {"AveragePool": {"count_include_pad": choose.randint(0, 1)}, "LpPool": {"p": choose.randint(1, 3)}}.get(op, {})
    x = np.random.default_rng(seed).standard_normal((1, 2, *[choose.randint(5, 7) for _ in range(rank)])).astype(F)
    outputs = "y i" if op == "MaxPool" else "y"
    found = evaluated(model([node(op, "x", outputs, **options)], {"x": (F, x.shape)}, outputs, opset=22), x)
    result, positions = pooled(op, x, options)
    np.testing.assert_allclose(found[0], result, rtol=1e-4, atol=1e-5)
    if op == "MaxPool":
        np.testing.assert_array_equal(found[1][positions >= 0], positions[positions >= 0])


def test_a_convolution_of_more_taps_than_may_be_unrolled() -> None:
    made = model([node("ConvTranspose", "x w")], {"x": (F, [1, 2, 3]), "w": (F, [2, 1, 1 << 20])})
    with pytest.raises(jn.UserError, match="a kernel of 1048576 taps"):
        jn.from_onnx(made)
