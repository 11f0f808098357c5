"""Models take arrays of other libraries in the host's memory by DLPack, without copies."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.runtime.host.dlpack import host_array, is_exported


class Exporter:
    """An array of another library."""

    def __init__(self, array: Any, device: int = 1, failure: Exception | None = None) -> None:
        self.array, self.device, self.failure = array, device, failure

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.array.__dlpack__(**options)


@pytest.mark.parametrize("array", [
    np.arange(12.0).reshape(3, 4), np.arange(12.0).reshape(3, 4).T, np.arange(24.0).reshape(4, 6)[1:, ::2], np.float64([7]),
    np.zeros((0, 3)), np.zeros((3, 0)).T, np.array(2.0), np.arange(6, dtype=np.int8), np.ones((2, 1, 3), np.complex64),
    np.broadcast_to(np.arange(3.0), (4, 3)).copy().astype(bool),
], ids=str)  # fmt: skip
def test_memory_is_shared_with_any_strides(array: Any) -> None:
    found = host_array(Exporter(array), "x")
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    if array.size:
        array[...] = 1
        assert (found == 1).all()
        assert np.shares_memory(found, array)


def test_the_memory_lives_as_long_as_the_array() -> None:
    array = np.arange(5.0)
    alive = weakref.ref(array)
    found = host_array(Exporter(array), "x")
    view = found[1:]
    del array, found
    gc.collect()
    assert alive() is not None
    assert view.tolist() == [1, 2, 3, 4]
    del view
    gc.collect()
    assert alive() is None


def test_models_take_exporters_and_refuse_what_does_not_fit() -> None:
    graph = jn.Graph("double", inputs=[jn.TensorType(jn.float32, ("n", 2), name="x")])
    graph.output(graph.inputs[0] * 2)
    model = jn.compile(graph, "cpu")
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    for given in (x, x[::2], x[:, ::-1].copy().T.copy().T):
        np.testing.assert_array_equal(model(Exporter(given)), given * 2)
    with pytest.raises(jn.UserError, match="expects float32, got int64"):
        model(Exporter(np.ones((3, 2), np.int64)))
    with pytest.raises(jn.UserError, match=r"rank 2, got \(3,\)"):
        model(Exporter(np.ones(3, np.float32)))
    with pytest.raises(jn.UserError, match=r"cannot be exported \(no memory\); fix: a dense copy"):
        model(Exporter(x, failure=BufferError("no memory")))
    with pytest.raises(jn.UserError, match="strides"):
        model(Exporter(x[::-1]))
    for other in (Exporter(x, device=2), Exporter(x, device=10), object()):
        assert not is_exported(other)
        with pytest.raises(jn.UserError, match="expects an array"):
            model(other)
