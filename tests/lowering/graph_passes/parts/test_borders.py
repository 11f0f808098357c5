"""Padding with elements of the tensor, and zeros around pixels: parts that are copied as they lie, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.graph_passes.expand import expand
from joinery.lowering.graph_passes.parts.borders import with_borders_apart
from numpy.lib.stride_tricks import sliding_window_view

from tests.support.one_array import run

MODES = ["reflect", "edge", "constant"]
TARGETS = [None, "x86-64-v3"]
CASES: list[tuple[tuple[int, ...], tuple[tuple[int, int], ...]]] = [
    ((300,), ((7, 0),)),
    ((2,), ((1, 1),)),
    ((40, 50), ((3, 2), (0, 9))),
    ((40, 50), ((3, 2), (49, 49))),
    ((33, 65), ((0, 0), (1, 1))),
    ((2, 30, 31, 3), ((0, 0), (3, 1), (2, 5), (0, 0))),
    ((3, 20, 21, 2), ((0, 0), (0, 0), (1, 0), (0, 0))),
    ((2, 9, 10, 64), ((0, 0), (1, 1), (1, 1), (0, 0))),
    ((12, 13, 14), ((1, 2), (3, 4), (5, 6))),
    ((500, 3), ((0, 0), (1, 2))),
]


def values(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 50).astype(dtype)


def count_concats(make: Callable[[Any], Any], shape: Any, dtype: str = "float32") -> int:
    graph = jn.Graph("g", [jn.TensorType(dtype, shape, "x")])
    graph.output(make(graph.inputs[0]))
    return sum(symbol.op.name == "concat" for symbol in with_borders_apart(expand(graph)).symbols)


@pytest.mark.one_in(6)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64", "float16", "complex64", "bool"])
@pytest.mark.parametrize("mode", [*MODES, "wrap", "symmetric"])
@pytest.mark.parametrize(("shape", "widths"), CASES)
def test_padding_is_numpys(
    shape: tuple[int, ...], widths: tuple[tuple[int, int], ...], mode: str, dtype: str, target: str | None
) -> None:
    x = values(shape, dtype)
    found = run(lambda x: jn.pad(x, widths, mode=mode), x, target=target)
    np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))


@pytest.mark.parametrize("mode", MODES)
def test_another_number_lies_around_pixels(mode: str) -> None:
    x = values((2, 30, 31, 3), "uint8")
    widths, options = ((0, 0), (3, 1), (2, 5), (0, 0)), {} if mode != "constant" else {"constant_values": 7}
    found = run(lambda x: jn.pad(x, widths, mode=mode, **({"value": 7} if options else {})), x)
    np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode, **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("extents", [(2, 9), (0, 9), (1, 1), (3, 200)])
def test_sizes_may_be_known_at_the_call(mode: str, extents: tuple[int, int]) -> None:
    x = values((*extents, 20, 3), "uint8")
    widths = ((0, 0), (min(2, extents[1] - 1),) * 2, (3, 4), (0, 0))
    found = run(lambda x: jn.pad(x, widths, mode=mode), x, ("n", "rows", 20, 3))
    np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))
    widths = ((0, 0), (0, 0), (0, 0), (1, 2))
    found = run(lambda x: jn.pad(x, widths, mode=mode), x, ("n", "rows", 20, 3))
    np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))


READERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "difference": lambda lib, pad, x: (lambda p: p[:, 2:] - p[:, :-2])(pad(x, ((0, 0), (1, 1)))),
    "sobel": lambda lib, pad, x: (lambda p: p[1:-1, 2:] - p[1:-1, :-2] + p[2:, 1:-1] - p[:-2, 1:-1])(pad(x, ((1, 1), (1, 1)))),
    "computed of it": lambda lib, pad, x: lib.sqrt(lib.abs(pad(x, ((2, 2), (3, 3))) * 2 + 1)),
    "of what is computed": lambda lib, pad, x: pad(lib.sqrt(lib.abs(x) + 1), ((2, 2), (3, 3))),
    "its sums": lambda lib, pad, x: lib.sum(pad(x, ((0, 0), (4, 4))), axis=1),
    "and itself": lambda lib, pad, x: (lambda p: lib.concatenate([p, p[::-1] * 2]))(pad(x, ((1, 1), (4, 4)))),
    "every second": lambda lib, pad, x: (lambda p: p[:, ::2] - p[:, 1::2])(pad(x, ((0, 0), (1, 1)))),
    "turned round": lambda lib, pad, x: pad(x, ((1, 1), (4, 4)))[:, ::-1],
    "twice": lambda lib, pad, x: pad(pad(x, ((1, 1), (2, 2))), ((0, 0), (3, 3))),
}


class _Joinery:
    concatenate = staticmethod(jn.concat)
    sqrt, abs, sum = staticmethod(jn.sqrt), staticmethod(jn.abs), staticmethod(jn.sum)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", READERS)
def test_what_reads_a_border(name: str, mode: str) -> None:
    x = values((37, 61) if name != "every second" else (37, 62), "float32")
    found = run(lambda x: READERS[name](_Joinery, lambda x, widths: jn.pad(x, widths, mode=mode), x), x)
    expected = READERS[name](np, lambda x, widths: np.pad(x, widths, mode=mode), x)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_pools_read_a_border_of_pixels(mode: str) -> None:
    x = values((2, 20, 21, 3), "float32")
    widths = ((0, 0), (1, 1), (1, 1), (0, 0))
    found = run(lambda x: jn.max_pool(jn.pad(x, widths, mode=mode), 3, stride=1), x)
    windows = sliding_window_view(np.pad(x, widths, mode=mode), (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(found, windows.max(axis=(-1, -2)))


def test_taps_of_rows_that_are_joined_read_them_from_memory() -> None:
    x = values((50, 400), "float32")

    def differences(lib: Any, x: Any) -> Any:
        around = lib.concatenate([x[:, -1:], x, x[:, :1]], 1)
        return around[:, 2:] - around[:, :-2]

    graph = jn.Graph("g", [jn.TensorType("float32", x.shape, "x")])
    graph.output(differences(_Joinery, graph.inputs[0]))
    model = jn.compile(graph, device="cpu")
    np.testing.assert_array_equal(model(x), differences(np, x))
    assert len(model.kernels) == 4  # three that store parts


def test_parts_that_are_taken_out_again_are_not_stored() -> None:
    x = values((50, 400), "float32")

    def halves(x: Any) -> Any:
        both = jn.concat([x * 2, x + 1], 1)
        return both[:, :400] * both[:, 400:]

    graph = jn.Graph("g", [jn.TensorType("float32", x.shape, "x")])
    graph.output(halves(graph.inputs[0]))
    assert len(jn.compile(graph, device="cpu").kernels) == 1


@pytest.mark.parametrize(("make", "count"), [
    (lambda x: jn.pad(x, ((0, 0), (1, 1), (0, 0)), mode="edge"), 1),
    (lambda x: jn.pad(x, ((0, 0), (1, 0), (0, 0)), mode="reflect") + 1, 1),
    (lambda x: jn.pad(x, ((0, 0), (1, 1), (0, 0))), 0),
    (lambda x: jn.pad(x, ((1, 1), (0, 0), (0, 0)), mode="edge"), 0),  # whole rows
    (lambda x: jn.pad(jn.permute(x, (0, 2, 1)), ((0, 0), (1, 1), (0, 0)), mode="edge"), 0),  # pixels do not lie in rows
    (lambda x: jn.pad(x * np.float32([1, 2, 3]), ((0, 0), (1, 1), (0, 0)), mode="edge"), 0),  # each channel by its own
])  # fmt: skip
def test_which_padding_is_parts(make: Callable[[Any], Any], count: int) -> None:
    assert count_concats(make, (8, 30, 3)) == count


@pytest.mark.parametrize("mode", ["wrap", "symmetric"])
@pytest.mark.parametrize("widths", [((1, 1), (0, 0)), ((0, 30), (2, 0)), ((9, 8), (7, 40))])
def test_symbolic_axes_continue_with_their_own_elements(widths: tuple[tuple[int, int], ...], mode: str) -> None:
    graph = jn.Graph("g", [jn.TensorType("float32", ("n", "m"), "x")])
    graph.output(jn.pad(graph.inputs[0], widths, mode))
    compiled = jn.compile(graph, device="cpu")
    for shape in ((1, 1), (2, 3), (33, 17), (1, 40)):
        x = values(shape, "float32")
        for found in (compiled(x), jn.evaluate(graph, x)):
            np.testing.assert_array_equal(found, np.pad(x, widths, mode=mode))
    with pytest.raises(jn.UserError, match=f"must not be empty in mode '{mode}'"):
        compiled(np.ones((0, 0), np.float32))
