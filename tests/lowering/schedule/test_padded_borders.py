"""What is padded with elements of its own and read by several is stored once, against NumPy."""

from __future__ import annotations

import joinery as jn
import numpy as np
import pytest
from joinery.lowering.schedule.plan import schedule


@pytest.mark.parametrize("mode", ["edge", "reflect"])
@pytest.mark.parametrize("shape", [(3, 40), (1, 9), (16, 1000), ("m", "n")])
def test_taps_of_a_filter(mode: str, shape: tuple[int | str, ...]) -> None:
    x = np.random.default_rng(0).standard_normal([each if isinstance(each, int) else 23 for each in shape], dtype=np.float32)
    graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, shape, "x")])
    padded = jn.pad(graph.inputs[0], ((0, 0), (2, 2)), mode=mode)
    taps = [padded[:, start : padded.shape[1] - 4 + start] for start in range(5)]
    graph.output(taps[0] + taps[1] * 2.0 + taps[2] * 3.0 + taps[3] * 2.0 + taps[4])
    expected = np.pad(x, ((0, 0), (2, 2)), mode=mode)
    columns = x.shape[1]
    total = sum(factor * expected[:, start : columns + start] for start, factor in enumerate((1, 2, 3, 2, 1)))
    model = jn.compile(graph, device="cpu")
    np.testing.assert_allclose(model(x), total, rtol=1e-5, atol=1e-5)
    assert len(model.kernels) == (2 if isinstance(shape[1], str) else 4)  # of known sizes each part is copied


def test_zeros_and_what_one_reads_are_computed_where_they_are_read() -> None:
    for mode, readers, kernels in (("constant", 2, 1), ("edge", 1, 1), ("edge", 2, 2)):
        graph = jn.Graph("g", inputs=[jn.TensorType(jn.float32, (30, 40), "x")])
        padded = jn.pad(graph.inputs[0], ((1, 1), (0, 0)), mode=mode)
        graph.output(sum((padded[start : 30 + start] for start in range(1, readers)), start=padded[:30] * 2.0))
        assert len(schedule(graph, stores_repeated=True).nests) == kernels
        assert len(schedule(graph).nests) == 1
