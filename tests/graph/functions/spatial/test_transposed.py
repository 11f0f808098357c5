"""Transposed convolutions against their definition: each element of the image adds the kernel, times itself, to the result."""

from __future__ import annotations

import random
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.onnx_models import evaluated, model, node

F = np.float32


def backwards(x: Any, w: Any, strides: list[int], dilations: list[int], pads: list[int], extra: list[int], group: int) -> Any:
    rank, spatial, kernel = len(strides), x.shape[2:], w.shape[2:]
    channels, each = x.shape[1] // group, w.shape[1]
    axes = range(rank)
    full = [(spatial[a] - 1) * strides[a] + (kernel[a] - 1) * dilations[a] + 1 + extra[a] for a in axes]
    result = np.zeros((x.shape[0], each * group, *full))
    for at in np.ndindex(*spatial):
        for tap in np.ndindex(*kernel):
            place = tuple([at[a] * strides[a] + tap[a] * dilations[a] for a in axes])
            for g in range(group):
                part = slice(g * channels, (g + 1) * channels)
                term = x[(slice(None), part, *at)] @ w[(part, slice(None), *tap)].astype(np.float64)
                result[(slice(None), slice(g * each, (g + 1) * each), *place)] += term
    return result[(slice(None), slice(None), *[slice(pads[a], full[a] - pads[rank + a]) for a in axes])]


def case(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    choose = random.Random(seed)
    rank, group = choose.choice([1, 2, 2, 3]), choose.choice([1, 1, 2, 4])
    kernel = [choose.randint(1, 5 if rank < 3 else 3) for _ in range(rank)]
    strides, dilations = ([choose.randint(1, 4) for _ in range(rank)] for _ in range(2))
    spans = [(size - 1) * gap + 1 for size, gap in zip(kernel, dilations, strict=True)]
    extra = [choose.randint(0, max(pair) - 1) for pair in zip(strides, dilations, strict=True)]
    extents = [choose.randint(1, 4) for _ in range(rank)]
    whole = [(e - 1) * s + span + more for e, s, span, more in zip(extents, strides, spans, extra, strict=True)]
    low = [choose.randint(0, min(span, size) - 1) for span, size in zip(spans, whole, strict=True)]
    high = [choose.randint(0, min(span, size - first) - 1) for span, size, first in zip(spans, whole, low, strict=True)]
    rng = np.random.default_rng(seed)
    depth = group * choose.choice([1, 2])
    x = rng.standard_normal((choose.randint(1, 2), depth, *extents)).astype(F)
    w = rng.standard_normal((depth, choose.choice([1, 3]), *kernel)).astype(F)
    return x, w, {"strides": strides, "dilations": dilations, "pads": [*low, *high], "output_padding": extra, "group": group}


@pytest.mark.one_in(8)
@pytest.mark.parametrize("seed", [*range(10), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(10, 200)]])
def test_transposed_convolutions_are_what_their_definition_says(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize("seed", [69, 163])
def test_products_of_rows_of_which_the_number_is_a_difference(seed: int) -> None:
    """As `d0 - 2`, of which the text does not say that it is 0 or more: it was compared with `max(d0 - 2, 0)`."""
    check(seed)


def check(seed: int) -> None:
    x, w, options = case(seed)
    expected = backwards(x, w, *options.values())
    sized = [None, (*["n"], x.shape[1], *[f"d{a}" for a in range(x.ndim - 2)])][seed % 2]
    if seed % 3:
        made = model([node("ConvTranspose", "x w", **options)], {"x": (F, sized or x.shape)}, constants={"w": w})
        arrays = [x]
    else:
        made = model([node("ConvTranspose", "x w", **options)], {"x": (F, sized or x.shape), "w": (F, w.shape)})
        arrays = [x, w]
    for found in evaluated(made, *arrays), [jn.compile(jn.from_onnx(made), device="cpu")(*arrays)]:
        np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-5)


def test_taps_that_no_element_reaches_are_no_terms() -> None:
    """An infinite weight times the zeros between elements would be NaN."""
    w = np.array([[[np.inf, 2.0]]], F)
    made = model([node("ConvTranspose", "x w", strides=[2])], {"x": (F, (1, 1, 2))}, constants={"w": w})
    np.testing.assert_array_equal(evaluated(made, np.array([[[1.0, -3.0]]], F))[0], [[[np.inf, 2.0, -np.inf, -6.0]]])


def test_channels_that_the_weights_do_not_have() -> None:
    made = model([node("ConvTranspose", "x w", strides=[2])], {"x": (F, (1, 3, 4)), "w": (F, (4, 2, 2))})
    with pytest.raises(jn.UserError, match="3 channels, the weights take 4"):
        jn.from_onnx(made)
