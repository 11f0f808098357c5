"""What is fetched ahead is the next row as it lies in memory, not where it would be if rows were contiguous."""

from __future__ import annotations

import re
from dataclasses import replace

import joinery as jn
import numpy as np
import pytest
from joinery.interface.opening import devices
from joinery.lowering.llvm.compile import host_target


def prefetches(monkeypatch: pytest.MonkeyPatch, cpu: str, rows: int, passes: int) -> int:
    """How many a kernel over rows of 3000 numbers has that is made for a processor."""
    target = replace(host_target(), cpu=cpu)
    monkeypatch.setattr(devices, "host_target", lambda: target)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", (rows, 3000), "x")])
    x = graph.inputs[0]
    graph.output(x * 2.0 if passes == 1 else jn.softmax(x, axis=1))
    return str(jn.compile(graph, device="cpu", cache=False).kernels[0].llvm_ir).count("call void @llvm.prefetch")


@pytest.mark.skipif(not host_target().has("avx512f"), reason="names processors with AVX-512")
def test_processors_that_follow_streams_fetch_one_pass_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prefetches(monkeypatch, "sapphirerapids", 20, 1) > 0
    assert prefetches(monkeypatch, "znver4", 20, 1) == 0
    assert prefetches(monkeypatch, "znver4", 20, 3) == prefetches(monkeypatch, "sapphirerapids", 20, 3) > 0


@pytest.mark.parametrize(
    ("shape", "part", "row"),
    [
        ((20, 3000), np.s_[:, 500:2500], 3000),  # a row for each program
        ((40, 1700), np.s_[3:, :1000], 1700),
        ((40, 2, 900), np.s_[:, 1, 100:800], 1800),
        ((20, 2100), np.s_[:, 100:], 2100),
    ],
)
def test_the_next_row_of_a_slice_is_a_row_of_its_source_on(
    shape: tuple[int, ...], part: tuple[slice, ...], row: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = replace(host_target(), cpu="generic")
    monkeypatch.setattr(devices, "host_target", lambda: target)
    graph = jn.Graph("g", inputs=[jn.TensorType("float32", shape, "x")])
    graph.output(graph.inputs[0][part] * 2.0)
    model = jn.compile(graph, device="cpu", cache=False)
    text = str(model.kernels[0].llvm_ir)
    fetched = re.findall(r"call void @llvm.prefetch.p0\(ptr (%\w+)", text)
    assert fetched
    for name in fetched:
        (distance,) = re.findall(rf"{re.escape(name)} = getelementptr float, ptr %\w+, i64 (\d+)\n", text)
        assert int(distance) == row
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    assert np.array_equal(model(x), x[part] * 2)
