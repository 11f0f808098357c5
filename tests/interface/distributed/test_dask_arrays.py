"""Arrays of Dask and of xarray through a model, in this process; the model on everything at once is what they must equal."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest

from .conftest import rows

da = pytest.importorskip("dask.array", reason="the extra dask is not installed")


@pytest.fixture(scope="module")
def two_outputs(tmp_path_factory: pytest.TempPathFactory) -> jn.distributed.ModelReference:
    """(batch, seq) and a table of columns → per position, and per row."""
    graph = jn.Graph("two", [jn.TensorType(jn.float32, ("batch", "seq"), "x"), jn.TensorType(jn.float32, ("seq",), "z")])
    x, z = graph.inputs
    graph.output(x * z, jn.max(x, axis=1), names=["scaled", "largest"])
    return jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path_factory.mktemp("two"), threads=1)


def elementwise(folder: Path) -> jn.distributed.ModelReference:
    graph = jn.Graph("map", [jn.TensorType(jn.float32, ("n", "m"), "x")])
    graph.output(jn.relu(graph.inputs[0]), name="y")
    return jn.distributed.reference(jn.compile(graph, device="cpu"), directory=folder)


@pytest.mark.parametrize("chunk", [1, 7, 50, 51, 200])
def test_any_chunks_along_the_batch(reference: jn.distributed.ModelReference, chunk: int) -> None:
    x = rows(101)
    y = jn.distributed.map_blocks(reference, da.from_array(x, chunks=(chunk, -1)))
    assert y.dtype == np.float32
    assert y.shape == (101, 5)
    assert y.chunks == (da.from_array(x, chunks=(chunk, -1)).chunks[0], (5,))
    assert np.array_equal(y.compute(scheduler="sync"), reference()(x))


def test_nothing_runs_before_it_is_asked_for(reference: jn.distributed.ModelReference) -> None:
    def poisoned(block: np.ndarray) -> np.ndarray:
        raise AssertionError("computed")

    zeros = da.zeros((10, 16), chunks=(5, 16), dtype=np.float32)
    x = zeros.map_blocks(poisoned, dtype=np.float32, meta=np.empty((0, 0), np.float32))
    y = jn.distributed.map_blocks(reference, x)
    assert y.numblocks == (2, 1)
    with pytest.raises(AssertionError, match="computed"):
        y.compute(scheduler="sync")


def test_several_outputs_are_computed_once(two_outputs: jn.distributed.ModelReference) -> None:
    x, z = rows(20), np.arange(16, dtype=np.float32)
    scaled, largest = jn.distributed.map_blocks(two_outputs, da.from_array(x, chunks=(6, 16)), z=z)
    assert (scaled.chunks, largest.chunks) == (((6, 6, 6, 2), (16,)), ((6, 6, 6, 2),))
    import dask

    found = dask.compute(scaled, largest, scheduler="sync")
    assert np.array_equal(found[0], x * z)
    assert np.array_equal(found[1], x.max(axis=1))


def test_every_axis_of_an_elementwise_graph_may_have_chunks(tmp_path: Path) -> None:
    x = rows(20)
    y = jn.distributed.map_blocks(elementwise(tmp_path), da.from_array(x, chunks=(6, 5)))
    assert y.chunks == ((6, 6, 6, 2), (5, 5, 5, 1))
    assert np.array_equal(y.compute(scheduler="sync"), np.maximum(x, 0))


def test_merged_axes_have_the_chunks_of_what_they_are_made_of(tmp_path: Path) -> None:
    graph = jn.Graph("flat", [jn.TensorType(jn.float32, ("batch", "seq"), "x")])
    graph.output(jn.reshape(graph.inputs[0], (jn.dim("batch") * jn.dim("seq"),)), name="y")
    reference = jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path)
    x = rows(7)
    y = jn.distributed.map_blocks(reference, da.from_array(x, chunks=(3, 16)))
    assert y.chunks == ((48, 48, 16),)
    assert np.array_equal(y.compute(scheduler="sync"), x.ravel())


def test_chunks_that_would_change_results_are_refused(
    reference: jn.distributed.ModelReference, two_outputs: jn.distributed.ModelReference
) -> None:
    x = da.from_array(rows(20), chunks=(5, 8))
    with pytest.raises(jn.UserError, match=r"axis 1 of input x: .* has the size 16.*fix: x\.rechunk\(\{1: -1\}\)"):
        jn.distributed.map_blocks(reference, x)
    z = da.from_array(np.arange(16, dtype=np.float32), chunks=8)
    with pytest.raises(jn.UserError, match=r"in blocks along 'seq': reduce_max of float32 \(batch, seq\) reduces over"):
        jn.distributed.map_blocks(two_outputs, x, z)
    with pytest.raises(jn.UserError, match=r"output largest: float32\[batch\] of model 'two' has no axis 'seq'"):
        jn.distributed.map_blocks(two_outputs, x, z, independent=["seq"])
    with pytest.raises(jn.UserError, match=r"independent=\['rows'\]; model 'two' has the dims"):
        jn.distributed.map_blocks(two_outputs, x.rechunk((5, 16)), z.rechunk(16), independent=["rows"])
    with pytest.raises(jn.UserError, match=r"input z: .* has blocks of 16, axis 1 of 'x' has blocks of 8 along 'seq'; fix"):
        jn.distributed.map_blocks(two_outputs, x, z.rechunk(16))


@pytest.mark.parametrize("wrap", ["ndarray", "memmap", "list", "DataArray"])
def test_what_has_no_chunks_is_one_block_however_large(
    two_outputs: jn.distributed.ModelReference, tmp_path: Path, wrap: str
) -> None:
    """Dask would cut NumPy's arrays above its `array.chunk-size`."""
    import dask

    x, z = rows(20), np.arange(16, dtype=np.float32)
    np.save(tmp_path / "z.npy", z)
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    mapped = np.load(tmp_path / "z.npy", mmap_mode="r")
    given = {"ndarray": z, "memmap": mapped, "list": list(z), "DataArray": xarray.DataArray(z)}
    with dask.config.set({"array.chunk-size": "16B"}):
        scaled, _ = jn.distributed.map_blocks(two_outputs, da.from_array(x, chunks=(6, 16)), given[wrap])
        whole, _ = jn.distributed.map_blocks(two_outputs, x, given[wrap])
    assert scaled.chunks == ((6, 6, 6, 2), (16,))
    assert whole.chunks == ((20,), (16,))
    for found in (scaled, whole):
        assert np.array_equal(found.compute(scheduler="sync"), x * z)


def test_arrays_of_zarr_keep_their_chunks(reference: jn.distributed.ModelReference, tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    import dask

    x = rows(20)
    group = zarr.open_group(tmp_path / "x.zarr", mode="w")
    group.create_array("rows", data=x, chunks=(6, 16))
    group.create_array("columns", data=x, chunks=(20, 4))
    with dask.config.set({"array.chunk-size": "400B"}):
        y = jn.distributed.map_blocks(reference, group["rows"])
        assert y.chunks == ((6, 6, 6, 2), (5,))
        assert np.array_equal(y.compute(scheduler="sync"), reference()(x))
        with pytest.raises(jn.UserError, match=r"has blocks of 4; fix: dask\.array\.asarray\(x\)\.rechunk\(\{1: -1\}\)"):
            jn.distributed.map_blocks(reference, group["columns"])


def test_arrays_that_do_not_fit_are_refused_before_anything_runs(reference: jn.distributed.ModelReference) -> None:
    x = rows(20)
    with pytest.raises(jn.UserError, match=r"input 'x' expects x: .*, got float64; fix: \.astype\('float32'\)"):
        jn.distributed.map_blocks(reference, da.from_array(x.astype(np.float64)))
    texts = [np.full((2, 16), "a"), np.zeros((2, 16), "M8[s]"), np.zeros((2, 16), [("a", "f4")])]
    if hasattr(np.dtypes, "StringDType"):  # which has no byte order, and raises for the question
        texts.append(np.full((2, 16), "a", np.dtypes.StringDType()))
    for text in texts:
        with pytest.raises(jn.UserError, match=r"expects x: float32\[batch, 16\], got .*; fix: an array of numbers, 'float32'"):
            jn.distributed.map_blocks(reference, da.from_array(text, chunks=2))
    with pytest.raises(jn.UserError, match=r"expects x: float32\[batch, 16\], got 1 axes"):
        jn.distributed.map_blocks(reference, da.from_array(x[0]))
    with pytest.raises(jn.UserError, match="axis 1 is 15, not 16"):
        jn.distributed.map_blocks(reference, da.from_array(x[:, :15]))
    known = da.from_array(x, chunks=(5, 16))
    with pytest.raises(jn.UserError, match=r"chunks of unknown size; fix: x\.compute_chunk_sizes\(\)"):
        jn.distributed.map_blocks(reference, known[known[:, 0] > 0])
    with pytest.raises(jn.UserError, match="got nothing"):
        jn.distributed.map_blocks(reference)
    with pytest.raises(jn.UserError, match="each once"):
        jn.distributed.map_blocks(reference, x, x=x)


@pytest.mark.parametrize(
    ("independent", "message"),
    [
        ("batch", r"independent='batch' is no list of dims; fix: independent=\['batch'\]"),
        (3, "independent=3 is no list of dims"),
        (None, "independent=None is no list of dims"),
        ([3], "independent has 3, which is no name of a dim"),
        (["other"], r"independent=\['other'\]; model 'scorer' has the dims"),
    ],
)
def test_dims_are_named_in_a_list(reference: jn.distributed.ModelReference, independent: object, message: str) -> None:
    x = da.from_array(rows(4), chunks=(2, 16))
    with pytest.raises(jn.UserError, match=message):
        jn.distributed.map_blocks(reference, x, independent=independent)  # type: ignore[arg-type]


def test_sizes_that_differ_between_blocks_are_not_believed(tmp_path: Path) -> None:
    """The array said that it had 7 columns, and its blocks had 4."""
    graph = jn.Graph("widened", [jn.TensorType(jn.float32, ("batch", 1), "x")])
    batch = jn.dim("batch")
    graph.output(jn.broadcast_to(graph.inputs[0], (batch, batch + 1)), name="y")
    reference = jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path)
    x = np.arange(6, dtype=np.float32).reshape(6, 1)
    assert jn.distributed.map_blocks(reference, x).compute().shape == (6, 7)
    with pytest.raises(jn.UserError, match=r"output y: float32\[batch, batch \+ 1\] of model .* no axis 'batch' of its own"):
        jn.distributed.map_blocks(reference, da.from_array(x, chunks=(3, 1)), independent=["batch"])


@pytest.mark.parametrize("believed", [False, True])
@pytest.mark.parametrize("name", ["nonzero", "bincount", "unique"])
def test_sizes_that_values_decide_are_refused(tmp_path: Path, name: str, believed: bool) -> None:
    """And `stream`, which the message names, takes such a model."""
    graph = jn.Graph(name, [jn.TensorType(jn.int64, ("batch",), "x")])
    (x,) = graph.inputs
    graph.output({"nonzero": jn.nonzero, "bincount": jn.bincount, "unique": lambda x: jn.unique(x)[0]}[name](x), name="y")
    reference = jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path)
    x = np.array([3, 0, 2, 3, 0, 1])
    with pytest.raises(jn.UserError) as caught:
        jn.distributed.map_blocks(reference, da.from_array(x, chunks=2), independent=["batch"] if believed else [])
    assert re.fullmatch(
        rf"map_blocks: output y: int64\[.*\] of model '{name}' has the size '.*', which values decide, so .*; fix: "
        r"joinery\.distributed\.stream, .*", str(caught.value),
    )  # fmt: skip
    expected = {"nonzero": lambda x: np.array(np.nonzero(x)), "bincount": np.bincount, "unique": np.unique}[name]
    for number, found in jn.distributed.stream(reference, [x[:2], x[2:4], x[4:]]):
        assert np.array_equal(found, expected(x[2 * number : 2 * number + 2]))


def test_a_worker_of_another_kind_is_refused(reference: jn.distributed.ModelReference, monkeypatch: pytest.MonkeyPatch) -> None:
    x = da.from_array(rows(4), chunks=(2, 16))
    y = jn.distributed.map_blocks(reference, x, same_target=True)
    assert np.array_equal(y.compute(scheduler="sync"), reference()(rows(4)))
    from joinery.interface.distributed import blocks

    with pytest.raises(jn.distributed.RunError, match=r"this worker's code is for .*, other blocks .* pdp-11"):
        blocks.run_block(reference, {"x": rows(2)}, "pdp-11")


def test_texts_are_no_flags(reference: jn.distributed.ModelReference) -> None:
    with pytest.raises(jn.UserError, match="map_blocks: same_target='no' is no bool; fix: True or False"):
        jn.distributed.map_blocks(reference, rows(4), same_target="no")  # type: ignore[arg-type]
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    with pytest.raises(jn.UserError, match="apply: same_target=1 is no bool"):
        jn.distributed.apply(reference, xarray.DataArray(rows(4), dims=("a", "b")), same_target=1)  # type: ignore[arg-type]


def test_labelled_arrays_keep_their_coordinates(reference: jn.distributed.ModelReference) -> None:
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    x = rows(20)
    given = xarray.DataArray(x, dims=("sample", "feature"), coords={"sample": np.arange(100, 120)}, name="measured")
    for array in (given, given.chunk(sample=6)):
        found = jn.distributed.apply(reference, array)
        assert found.name == "y"
        assert found.dims == ("sample", "y_1")
        assert found.sample.values.tolist() == list(range(100, 120))
        assert np.array_equal(found.values, reference()(x))
    named = jn.distributed.apply(reference, given.chunk(sample=6), output_dims={"y": ("sample", "cls")})
    assert dict(named.chunksizes) == {"sample": (6, 6, 6, 2), "cls": (5,)}
    with pytest.raises(jn.UserError, match=r"apply: axis 1 .*fix: x\.chunk\(\{'feature': -1\}\)"):
        jn.distributed.apply(reference, given.chunk(feature=4))
    with pytest.raises(jn.UserError, match=r"input 'x' is a ndarray; fix: an xarray\.DataArray"):
        jn.distributed.apply(reference, x)
    with pytest.raises(jn.UserError, match="fix: one for each of y"):
        jn.distributed.apply(reference, given, output_dims={"y": ("sample",)})
    with pytest.raises(jn.UserError, match=r"output_dims has \['nope'\]; model 'scorer' returns y: .*; fix"):
        jn.distributed.apply(reference, given, output_dims={"nope": ("sample", "cls")})


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: jn.distributed.ModelReference) -> None:
    """Its example stores what the model makes of everything at once."""
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    pytest.importorskip("zarr", reason="the extra dask is not installed")
    text = (Path(__file__).resolve().parents[3] / "docs" / "guides" / "distributed.md").read_text(encoding="utf-8")
    code = text.partition("## Arrays of xarray\n")[2].partition("```py\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    x = rows(3000)
    measured = xarray.DataArray(x.T, dims=("feature", "sample"), coords={"sample": np.arange(3000) * 2}, name="spectra")
    measured.to_dataset().to_zarr("measured.zarr")
    exec(code, {"jn": jn, "reference": reference})
    found = xarray.open_zarr("scores.zarr")["y"]
    assert found.dims == ("sample", "class")
    assert found.sample.values.tolist() == list(range(0, 6000, 2))
    assert np.array_equal(found.values, reference()(x))


def test_each_output_has_its_name(tmp_path: Path) -> None:
    """Also that of an axis, with whose coordinates it has nothing to do."""
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    graph = jn.Graph("two", [jn.TensorType(jn.float32, ("batch", 4), "x")])
    (x,) = graph.inputs
    graph.output(x * 2.0, jn.sum(x, 1), names=["sample", "total"])
    reference = jn.distributed.reference(jn.compile(graph, "cpu"), directory=tmp_path)
    numbers = rows(10)[:, :4]
    given = xarray.DataArray(numbers, dims=("sample", "feature"), coords={"sample": np.arange(10)}, name="x")
    for array in (given, given.chunk(sample=3)):
        doubled, total = jn.distributed.apply(reference, array)
        assert (doubled.name, total.name) == ("sample", "total")
        assert total.sample.values.tolist() == list(range(10))
        assert np.array_equal(doubled.values, numbers * 2)


def test_labelled_arrays_of_a_graph_that_only_its_owner_knows(tmp_path: Path) -> None:
    """A sum of all rows times zero keeps rows apart, which joinery does not see; the message names what says so."""
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    graph = jn.Graph("mixed", [jn.TensorType(jn.float32, ("batch", 4), "x")])
    (x,) = graph.inputs
    graph.output(x * 2.0 + jn.sum(x, 0) * 0.0, names=["y"])
    jn.compile(graph, "cpu").save(tmp_path / "m.joinery")
    known = jn.distributed.reference(tmp_path / "m.joinery", trusted=True)
    numbers = rows(10)[:, :4]
    given = xarray.DataArray(numbers, dims=("sample", "feature")).chunk(sample=3)
    with pytest.raises(jn.UserError, match="independent"):
        jn.distributed.apply(known, given)
    found = jn.distributed.apply(known, given, independent=["batch"], same_target=True)
    assert np.array_equal(found.values, known()(numbers))
    with pytest.raises(jn.UserError, match=r"apply: independent=\['rows'\]; model 'mixed' has the dims"):
        jn.distributed.apply(known, given, independent=["rows"])


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        (("a", "a"), r"axes of output y: float32\[batch, 5\] are called \['a', 'a'\].*; fix: output_dims=\{'y': …\} with 2"),
        (("sample", "sample"), r"are called \['sample', 'sample'\]"),
        ("ab", r"output_dims of 'y' are 'ab'; fix: one for each of y: float32\[batch, 5\], in a list"),
        (5, "output_dims of 'y' are 5; fix: one for each"),
        (("sample", ["a"]), "fix: one for each"),
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_names_of_axes_that_xarray_does_not_take(
    reference: jn.distributed.ModelReference, lazy: bool, dims: object, message: str
) -> None:
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    given = xarray.DataArray(rows(20), dims=("sample", "feature"))
    with pytest.raises(jn.UserError, match=message):
        jn.distributed.apply(reference, given.chunk(sample=6) if lazy else given, output_dims={"y": dims})  # type: ignore[dict-item]


def test_two_axes_of_one_dim_need_names(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray", reason="the extra dask is not installed")
    graph = jn.Graph("gram", [jn.TensorType(jn.float32, ("batch", 16), "x")])
    (x,) = graph.inputs
    graph.output(x @ jn.transpose(x, 0, 1), name="y")
    reference = jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path)
    given = xarray.DataArray(rows(5), dims=("sample", "feature"))
    with pytest.raises(jn.UserError, match=r"are called \['sample', 'sample'\].*fix: output_dims=\{'y': …\}"):
        jn.distributed.apply(reference, given)
    found = jn.distributed.apply(reference, given, output_dims={"y": ("sample", "other")})
    np.testing.assert_allclose(found.values, rows(5) @ rows(5).T, rtol=1e-5)


def test_masks_are_refused(reference: jn.distributed.ModelReference) -> None:
    masked = np.ma.masked_greater(rows(6), 0)
    with pytest.raises(jn.UserError, match=r"map_blocks: input 'x' is a masked array.*fix: x\.filled\(0\)"):
        jn.distributed.map_blocks(reference, da.from_array(masked, chunks=(2, -1)))
    hidden = da.from_array(rows(6), chunks=(2, -1)).map_blocks(lambda block: np.ma.masked_greater(block, 0), meta=rows(0))
    with pytest.raises(jn.UserError, match="is a masked array"):
        jn.distributed.map_blocks(reference, hidden).compute(scheduler="sync")
    with pytest.raises(jn.UserError, match="stream: block 1: input 'x' is a masked array"):
        list(jn.distributed.stream(reference, [rows(6), masked]))
    with pytest.raises(jn.UserError, match="is a masked array"):
        jn.distributed.ray_actor(reference)()({"x": masked})


def test_a_model_that_is_brought_is_the_one_of_the_reference(tmp_path: Path, model_path: Path, forgotten: None) -> None:
    """What lies at the path meanwhile is refused, and what a host has kept of it is fetched again."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    path, data = tmp_path / "m.joinery", model_path.read_bytes()
    path.write_bytes(data)
    reference = jn.distributed.reference(path, trusted=True)
    path.write_bytes(b"x" * len(data))
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0", "local_directory": str(tmp_path / "w")}
    with distributed.Client(**options) as client:
        with pytest.raises(jn.distributed.RunError, match=r"bring: model 'scorer' in .* is not a joinery artifact"):
            jn.distributed.bring(client, reference)
        assert not list((tmp_path / "w").rglob("*.joinery"))
        path.write_bytes(data)
        jn.distributed.bring(client, reference)
        (kept,) = (tmp_path / "w").rglob("*.joinery")
        assert kept.read_bytes() == data
        kept.write_bytes(b"x" * len(data))
        jn.distributed.bring(client, reference)
        assert kept.read_bytes() == data


def test_two_clients_may_bring_one_model_at_the_same_time(
    tmp_path: Path, model_path: Path, reference: jn.distributed.ModelReference, monkeypatch: pytest.MonkeyPatch, forgotten: None
) -> None:
    """The scheduler was left with a part of the file, which workers that came later could not use."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    from joinery.interface.distributed import dask_workers

    monkeypatch.setattr(dask_workers, "_PIECE_BYTES", model_path.stat().st_size // 3 + 1)
    options = {"n_workers": 1, "processes": False, "dashboard_address": ":0", "local_directory": str(tmp_path / "w")}
    with distributed.Client(**options) as client, distributed.Client(client.scheduler.address) as other:
        own, calls = client.run_on_scheduler, []

        def run_on_scheduler(function: Callable[..., object], *arguments: object) -> object:
            calls.append(function)
            if calls.count(dask_workers._append) == 2:  # a piece was sent
                calls.append(dask_workers._append)
                jn.distributed.bring(other, reference)
            return own(function, *arguments)

        monkeypatch.setattr(client, "run_on_scheduler", run_on_scheduler)
        jn.distributed.bring(client, reference)
        assert calls.count(dask_workers._append) == 4
        assert own(dask_workers._known, reference.digest) == hashlib.sha256(model_path.read_bytes()).hexdigest()
        folder = dask_workers._files(client.cluster.scheduler)
        assert [path.name for path in folder.iterdir()] == [reference.digest]
        for name, age in (("dead.part", 2 * dask_workers._STALE_SECONDS), ("new.part", 0.0)):
            (folder / name).write_bytes(b"")
            os.utime(folder / name, (time.time() - age, time.time() - age))
        (folder / reference.digest).write_bytes(b"x")
        jn.distributed.bring(other, reference)
        assert sorted(path.name for path in folder.iterdir()) == [reference.digest, "new.part"]


def test_a_stream_on_workers_until_there_are_none(
    reference: jn.distributed.ModelReference, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    from joinery.interface.distributed import engines

    monkeypatch.setattr(engines, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(engines, "_ALONE_SECONDS", 0.3)
    x = rows(40)
    with distributed.Client(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as client:
        found = list(jn.distributed.stream(reference, (x[at : at + 10] for at in range(0, 40, 10)), client))
        assert [number for number, _ in found] == [0, 1, 2, 3]
        assert np.array_equal(np.concatenate([out for _, out in found]), reference()(x))
        results = jn.distributed.stream(reference, (x[:10] for _ in range(100)), client)
        next(results)
        client.cluster.scale(0)
        with pytest.raises(jn.distributed.RunError, match="all workers of Dask are gone, and none came in 0 s"):
            list(results)


def test_tables_and_tasks_are_no_arrays(reference: jn.distributed.ModelReference) -> None:
    import dask

    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for given, fix in ((pandas.DataFrame(rows(3)), "numpy.asarray"), (dask.delayed(rows)(3), "from_delayed")):
        with pytest.raises(jn.UserError, match=f"map_blocks: input 'x' is a D.*fix: an array, as .*{fix}"):
            jn.distributed.map_blocks(reference, given)
