"""Checks of sizes, as torch.export.Dim(min=, max=) states them: calls that they refuse are refused before anything runs, or the
calls of a run are cut so that they hold."""

from __future__ import annotations

from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from .conftest import Run, rows


def bounded(folder: Path, least: int = 2, most: int = 64) -> jn.Graph:
    """Rows of 16 numbers doubled, of between `least` and `most` of them."""
    graph = jn.Graph("bounded", [jn.TensorType(jn.float32, ("batch", 16), "x")])
    batch = jn.dim("batch")
    graph.standing = (
        jn.graph.checks.Check(jn.graph.dims.dim.maximum(batch, least), batch, f"batch must be {least} or more"),
        jn.graph.checks.Check(jn.graph.dims.dim.minimum(batch, most), batch, f"batch must be {most} or less"),
    )
    graph.output(graph.inputs[0] * 2, name="y")
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    return graph


def test_the_sizes_of_chunks_are_checked_before_anything_runs(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array", reason="the extra dask is not installed")
    bounded(tmp_path)
    reference = jn.distributed.reference(tmp_path / "m.joinery")
    for count, size, message in ((200, 100, "64 or less"), (199, 198, "2 or more"), (199, 33, "2 or more")):
        x = da.from_array(rows(count), chunks=(size, 16))
        with pytest.raises(jn.UserError, match=rf"{message}.*fix: x.rechunk\(\{{0: N\}}\)") as caught:
            jn.distributed.map_blocks(reference, x)
        assert str(caught.value).startswith("map_blocks: model 'bounded'")
    with pytest.raises(jn.UserError, match=r"fix: dask.array.asarray\(x\).rechunk"):
        jn.distributed.map_blocks(reference, rows(200))
    x = rows(200)
    y = jn.distributed.map_blocks(reference, da.from_array(x, chunks=(50, 16)))
    np.testing.assert_array_equal(y.compute(scheduler="sync"), x * 2)


def test_labelled_arrays_name_their_axis(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("dask.array", reason="the extra dask is not installed")
    bounded(tmp_path)
    reference = jn.distributed.reference(tmp_path / "m.joinery")
    x = xarray.DataArray(rows(200), dims=("time", "feature"))
    with pytest.raises(jn.UserError, match=r"64 or less.*fix: x.chunk\(\{'time': N\}\)"):
        jn.distributed.apply(reference, x.chunk({"time": 100}))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("count", [2, 63, 64, 65, 103, 129, 1024, 1025, 1089])
def test_calls_have_as_many_rows_as_the_model_takes(batch: Run, folder: Path, count: int) -> None:
    """1089 is 1024 + 65, whose last call of 64 would leave 1 row over."""
    bounded(folder)
    x = rows(count)
    np.save("x.npy", x)
    summary = batch("--output", "y.npy") if count != 1025 else batch("--output", "y.npy", "--block", "100")
    assert summary["failed"] == []
    np.testing.assert_array_equal(np.load("y.npy"), x * 2)


@pytest.mark.parametrize(
    ("count", "arguments", "message"),
    [
        (103, ("--batch", "100"), "64 or less: min(batch, 64) is 64, not batch = 100 (where batch = 100); fix: --batch 64"),
        (1, (), "2 or more: max(batch, 2) is 2, not batch = 1 (where batch = 1); fix: other files, or a --block"),
        (101, ("--block", "10"), "batch must be 2 or more"),
    ],
)
def test_calls_that_the_model_refuses(
    batch: Run, folder: Path, count: int, arguments: tuple[str, ...], message: str
) -> None:
    bounded(folder)
    np.save("x.npy", rows(count))
    error = batch("--output", "y.npy", *arguments, status=2)["error"]
    assert message in error
    assert not Path("y.npy.partial").exists()


def test_no_rows_are_no_calls(batch: Run, folder: Path) -> None:
    bounded(folder)
    np.save("x.npy", rows(0))
    assert batch("--output", "y.npy")["failed"] == []
