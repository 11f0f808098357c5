"""Scans whose bodies need the host: sizes from data, strings, states that grow, and what stands around and inside of them."""

from __future__ import annotations

from typing import Any

import joinery as jn
import numpy as np
import pytest

from ...support.onnx_texts import by_onnxruntime, model
from .test_loops_of_the_host import agrees, floats

pytest.importorskip("onnxruntime")


def scan(body: str, states: str, sources: str, results: str, **attributes: list[int]) -> str:
    """Returns a Scan: `body` is its whole subgraph."""
    given = ", ".join(f"{name} = {values}" for name, values in attributes.items())
    count = len(sources.split(","))
    names = ", ".join(filter(None, (states, sources)))
    return f"{results} = Scan <num_scan_inputs = {count}, {given + ', ' if given else ''}body = {body}> ({names})"


COUNTED = """b (float[3] h, float[3] e) => (float[3] h1, float[1] total, float[3] seen) {
  p = NonZero (e) pt = Transpose <perm = [1, 0]> (p) found = GatherND (e, pt)
  total = ReduceSum <keepdims = 1> (found, axis) h1 = Add (h, total) seen = Mul (h1, e) }"""


@pytest.mark.parametrize("length", [40, 600, "n"])
def test_sizes_from_data_stay_inside(length: int | str) -> None:
    text = scan(COUNTED, "h", "x", "last, totals, rows")
    made = model(f"(float[3] h, float[{length}, 3] x) => (float[3] last, float[{length}, 1] totals, float[{length}, 3] rows)",
                 text, axis=np.array([0]))  # fmt: skip
    sizes = [length] if isinstance(length, int) else [1, 5, 300]
    runs = [{"h": floats(3), "x": floats(size, 3) * (floats(size, 3) > 0)} for size in sizes]
    compiled = jn.compile_onnx(made, device="cpu", threads=1)
    for feeds in runs:
        for value, want in zip(compiled.run(feeds).values(), by_onnxruntime(made, feeds), strict=True):
            np.testing.assert_allclose(value, want, 1e-5, 1e-5)
    if length != 40:  # which is unrolled
        agrees(made, *runs)


@pytest.mark.parametrize("back", [0, 1])
@pytest.mark.parametrize("front", [0, 1])
@pytest.mark.parametrize("axes", [(0, 0), (1, -1), (-1, 1)])
def test_axes_and_directions(axes: tuple[int, int], back: int, front: int) -> None:
    body = """b (float h, float[3] e, float[2] f) => (float h1, float[1] total, float[3] row) {
      p = NonZero (e) n = Size (p) m = Cast <to = 1> (n) h1 = Add (h, m) t = ReduceMax <keepdims = 1> (f, axis)
      total = Add (t, h1) row = Mul (e, h1) }"""
    text = scan(body, "h", "x, z", "last, totals, rows", scan_input_axes=[axes[0], 0], scan_input_directions=[back, front],
                scan_output_axes=[0, axes[1]], scan_output_directions=[front, back])  # fmt: skip
    x, rows = ("n, 3", "m, 3") if not axes[0] else ("3, n", "3, m")
    made = model(f"(float h, float[{x}] x, float[n, 2] z) => (float last, float[t, 1] totals, float[{rows}] rows)", text,
                 axis=np.array([0]))  # fmt: skip
    runs = []
    for size in (1, 4, 9):
        shape = (size, 3) if not axes[0] else (3, size)
        runs.append({"h": floats(), "x": floats(*shape) * (floats(*shape) > 0), "z": floats(size, 2)})
    agrees(made, *runs)
