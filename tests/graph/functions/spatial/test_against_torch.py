"""Functions of images, with channels last, against what PyTorch gives; sizes are numbers, or known only when the graph runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import joinery as jn
import numpy as np
import pytest

from ....support.functions import agrees, built, cases, last, recorded
from ....support.tiers import both_tiers, share

MODES = {"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}


def both(
    build: Callable[..., Any], arrays: Any, expected: Any, fixed: Any = None, devices: Any = ("cpu",), **options: Any
) -> None:
    """With numbers as sizes on the evaluator, and with names on devices too."""
    agrees(built(build, arrays), arrays, expected, devices=(), **options)
    agrees(built(build, arrays, fixed or [()] * len(arrays)), arrays, expected, devices=devices, **options)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("1d", {"stride": 2}),
        ("2d", {"stride": (2, 1), "padding": (1, 0), "output_padding": (1, 0), "groups": 2, "dilation": (1, 2)}),
        ("3d", {"stride": (1, 2, 2), "padding": [(1, 1), (0, 0), (0, 0)]}),
    ],
)
def test_conv_transpose(case: str, options: dict[str, Any]) -> None:
    given, (expected,) = recorded(f"conv_transpose {case}")
    kernel = np.ascontiguousarray(np.moveaxis(given["w"], (0, 1), (-1, -2)))
    x = last(given["x"])
    both(lambda v: jn.conv_transpose(v, kernel, bias=given["b"], **options), [x], [last(expected)],
         fixed=[(x.ndim - 1,)], atol=1e-5, devices=["cpu"] if case == "2d" else ())  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("case", "options"),
    [
        ("plain", {"kernel_size": 2}),
        ("padded", {"kernel_size": (3, 2), "stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "ceil_mode": True}),
        ("lowest", {"kernel_size": 3, "stride": 1, "padding": 1, "dilation": 2}),
    ],
)
def test_positions_of_poolings(case: str, options: dict[str, Any]) -> None:
    given, expected = recorded(f"max_pool_with_indices {case}")
    both(lambda v: jn.max_pool_with_indices(v, **options), [last(given["x"])], [last(each) for each in expected])


def test_elements_are_put_back() -> None:
    plain, (whole,) = recorded("max_unpool plain")
    sized, (wider,) = recorded("max_unpool sized")
    arrays = [last(each) for each in (plain["x"], plain["indices"], sized["x"], sized["indices"])]
    both(lambda x, i, y, j: (jn.max_unpool(x, i, 2), jn.max_unpool(y, j, 3, 2, output_size=(8,))), arrays,
         [last(whole), last(wider)])  # fmt: skip


def test_norms_of_windows() -> None:
    arrays, expected = [], []
    for order in (1, 2, 3):
        given, (found,) = recorded(f"lp_pool {order}")
        arrays.append(last(given["x"]))
        expected.append(last(found))
    both(lambda x, y, z: (jn.lp_pool(x, 2, 1, p=1), jn.lp_pool(y, (3, 2), 2), jn.lp_pool(z, 2, p=3)), arrays, expected)


def test_windows_are_added_up() -> None:
    for case, options in (
        ("plain", {"image_shape": (5, 5), "block_shape": (2, 3)}),
        ("padded", {"image_shape": (6, 5), "block_shape": (2, 2), "dilation": (2, 1), "padding": (0, 1), "stride": 2}),
    ):
        given, (expected,) = recorded(f"col2im {case}")
        batch, width, count = given["x"].shape
        taps = int(np.prod(options["block_shape"]))
        rows = given["x"].reshape(batch, width // taps, taps, count).transpose(0, 3, 2, 1).reshape(batch, count, width)
        rows = np.ascontiguousarray(rows)
        both(lambda v, options=options: jn.col2im(v, **options), [rows], [last(expected)], fixed=[(1, 2)])


RESIZED = {
    "nearest up": {"scale": 2, "coordinates": "asymmetric", "rounding": "floor"},
    "nearest down": {"size": (3, 4), "coordinates": "asymmetric", "rounding": "floor"},
    "nearest-exact": {"size": (7, 4), "rounding": "round_prefer_ceil"},
    "linear": {"size": (7, 9), "mode": "linear"},
    "linear corners": {"size": (7, 9), "mode": "linear", "coordinates": "align_corners"},
    "cubic": {"size": (8, 4), "mode": "cubic"},
    "cubic corners": {"size": (8, 4), "mode": "cubic", "coordinates": "align_corners"},
    "linear antialias": {"size": (3, 4), "mode": "linear", "antialias": True, "exclude_outside": True},
    "cubic antialias": {"size": (3, 4), "mode": "cubic", "antialias": True, "cubic_coefficient": -0.5, "exclude_outside": True},
    "trilinear": {"size": (5, 3, 4), "mode": "linear"},
}


@pytest.mark.parametrize("case", RESIZED)
def test_resize(case: str) -> None:
    options = RESIZED[case]
    given, (expected,) = recorded(f"resize {case}")
    arrays = [last(given["x"])]
    agrees(built(lambda v: jn.resize(v, **options), arrays), arrays, [last(expected)], devices=(), atol=1e-5)
    first = given["x"].ndim - 2
    graph = built(lambda v: jn.resize(v, axes=tuple(range(2, 2 + first)), **options), [given["x"]])
    agrees(graph, [given["x"]], [expected], devices=(), atol=1e-5)


@both_tiers
def test_resize_by_sizes_that_are_known_at_a_run(in_full: bool) -> None:
    named = [case for case, options in RESIZED.items() if "antialias" not in options and case != "trilinear"]
    wanted = {case: RESIZED[case] for case in share(named, 1, 3, in_full)}
    given = recorded("resize linear")[0]
    arrays = [last(given["x"])]
    expected = [last(recorded(f"resize {case}")[1][0]) for case in wanted]
    agrees(built(lambda v: [jn.resize(v, **options) for options in wanted.values()], arrays, [()]), arrays, expected, atol=1e-5)


@pytest.mark.slow
@both_tiers
def test_grid_sample(in_full: bool) -> None:
    names = [name for name in cases("grid_sample") if name != "grid_sample 3d"]
    assert len(names) == 18
    given = recorded(names[0])[0]
    arrays = [last(given["x"]), given["grid"]]
    expected, options = [], []
    for name in names:
        _, mode, padding, corners = name.split()
        assert np.array_equal(recorded(name)[0]["grid"], given["grid"])
        expected.append(last(recorded(name)[1][0]))
        options.append((MODES[mode], padding, corners == "True"))
    graph = built(lambda x, grid: [jn.grid_sample(x, grid, *each) for each in options], arrays, [(), (3,)])
    agrees(graph, arrays, expected, devices=(), atol=1e-4)
    some = share(list(range(len(names))), 1, 6, in_full)
    graph = built(lambda x, grid: [jn.grid_sample(x, grid, *options[number]) for number in some], arrays)
    agrees(graph, arrays, [expected[number] for number in some], atol=1e-4)
    given, (found,) = recorded("grid_sample 3d")
    arrays = [last(given["x"]), given["grid"]]
    both(jn.grid_sample, arrays, [last(found)], fixed=[(), (4,)], atol=1e-5)


def test_affine_grid() -> None:
    arrays, expected = [], []
    for name in ("False", "True", "3d"):
        given, (found,) = recorded(f"affine_grid {name}")
        arrays.append(given["theta"])
        expected.append(found)
    fixed = [(1, 2)] * 3
    both(lambda x, y, z: (jn.affine_grid(x, (4, 5)), jn.affine_grid(y, (4, 5), True), jn.affine_grid(z, (2, 3, 2))), arrays,
         expected, fixed)  # fmt: skip
    graph = jn.Graph("g", [jn.TensorType(jn.float32, (2, 2, 3)), jn.TensorType(jn.float32, ("h", "w"))])
    graph.output(jn.affine_grid(graph.inputs[0], ("h", "w")))
    agrees(graph, [arrays[0], np.zeros((4, 5), np.float32)], expected[:1])
