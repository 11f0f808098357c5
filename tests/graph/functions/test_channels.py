"""Normalisations over channels and groups, and bands of matrices, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

RNG = np.random.default_rng(12)


def compiled(graph: Any, *arrays: Any, device: str = "cpu") -> Any:
    return jn.compile(graph, device=device, cache=False)(*arrays)


def normalised(x: Any, groups: int, epsilon: float) -> Any:
    rows = x.astype(np.float64).reshape(len(x), groups, -1)
    centred = rows - rows.mean(-1, keepdims=True)
    return (centred / np.sqrt(rows.var(-1, keepdims=True) + epsilon)).reshape(x.shape)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("shape", [(2, 6, 4, 5), (3, 4), (1, 2, 1)])
def test_channels_and_groups(shape: tuple[int, ...]) -> None:
    channels = shape[1]
    x = RNG.normal(size=shape).astype(np.float32)
    scale, bias, mean, var = RNG.random((4, channels)).astype(np.float32)
    wide = [each.reshape(-1, *(1,) * (len(shape) - 2)) for each in (scale, bias, mean, var)]
    plain = (x - wide[2]) / np.sqrt(wide[3] + 1e-3)
    want = (
        plain * wide[0] + wide[1], plain, np.moveaxis(plain * wide[0], 1, -1), normalised(x, 2, 0.1) * wide[0] + wide[1],
        normalised(x, 1, 1e-5), normalised(x, channels, 1e-5) + wide[1],
    )  # fmt: skip
    for names in (False, True):
        graph = jn.Graph("g", [jn.TensorType(jn.float32, ("n", channels, *shape[2:]) if names else shape)])
        (v,) = graph.inputs
        last = v.permute((0, *range(2, len(shape)), 1))
        graph.output(
            jn.batch_norm(v, scale, bias, mean, var, 1e-3), jn.batch_norm(v, None, None, mean, var, 1e-3),
            jn.batch_norm(last, scale, None, mean, var, 1e-3, axis=-1), jn.group_norm(v, 2, scale, bias, 0.1),
            jn.group_norm(v, 1), jn.instance_norm(v, bias=bias),
        )  # fmt: skip
        for found in (jn.evaluate(graph, x), compiled(graph, x)):
            for one, other in zip(found, want, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def test_sixteen_bits_are_computed_in_float32() -> None:
    x = (RNG.normal(size=(2, 4, 300)) * 900).astype(np.float16)
    graph = jn.Graph("g", [jn.TensorType(jn.float16, x.shape)])
    graph.output(jn.group_norm(graph.inputs[0], 2))
    found = compiled(graph, x)
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, normalised(x, 2, 1e-5).astype(np.float16), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (2, 3, 3), (0, 3), (1, 1)])
def test_bands_of_matrices(shape: tuple[int, ...]) -> None:
    x = np.arange(1, 1 + np.prod(shape)).reshape(shape)
    graph = jn.Graph("g", [jn.TensorType(jn.int64, ("m", "n") if len(shape) == 2 else shape)])
    (v,) = graph.inputs
    lower, upper, all_, outside = jn.band_part(v, num_upper=0), jn.band_part(v, 0), jn.band_part(v), jn.band_part(v, 0, 0, True)
    graph.output(jn.band_part(v, 1, 2), lower, upper, all_, outside)
    want = np.triu(np.tril(x, 2), -1), np.tril(x), np.triu(x), x, x * (1 - np.eye(*shape[-2:], dtype=int))
    for one, other in zip(compiled(graph, x), want, strict=True):
        np.testing.assert_array_equal(one, other)


REFUSED: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "groups": (lambda x, s: jn.group_norm(x, 4), "4 groups of 6 channels"),
    "none": (lambda x, s: jn.group_norm(x, 0), "0 groups"),
    "channels": (lambda x, s: jn.batch_norm(x, s, None, s, s, axis=0), r"shape \(2,\)"),
    "rank": (lambda x, s: jn.instance_norm(s), "1 axes"),
    "epsilon": (lambda x, s: jn.group_norm(x, 2, epsilon=-1), "epsilon is -1"),
    "diagonals": (lambda x, s: jn.band_part(x, -1), "num_lower is -1"),
    "vector": (lambda x, s: jn.band_part(s, 1), "the operand has 1 axes"),
    "integers": (lambda x, s: jn.random_integers(x, 3, 3), "low is 3, high 3"),
    "ratio": (lambda x, s: jn.dropout(x, 1.5), r"ratio is 1\.5"),
    "draws": (lambda x, s: jn.categorical(x, -1), "-1 draws"),
    "line": (lambda x, s: jn.random_permutation(x, 5), "axis 5 is out of range"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_a_fix(name: str) -> None:
    build, told = REFUSED[name]
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 6, 3), "x"), jn.TensorType(jn.float32, (6,), "s")])
    with pytest.raises(jn.UserError, match=told) as caught:
        build(*graph.inputs)
    assert "fix" in str(caught.value)
