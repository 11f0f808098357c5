"""`joinery batch` in this process: formats in and out, rows of different lengths, what is resumed, and what is refused."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed.batch import jobs, journal, outputs, padding, running, sources
from joinery.interface.distributed.batch.progress import Progress

from .conftest import SIZE, Run, rows, scores


def test_rows_into_one_file(batch: Run, folder: Path) -> None:
    summary = batch("--output", "y.npy", "--block", "10")
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)
    assert (summary["rows"], summary["blocks"], summary["computed"], summary["failed"]) == (103, 11, 11, [])
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy", "y.npy"]


def test_the_digest_tells_results_apart_and_blocks_do_not_change_them(batch: Run) -> None:
    first = batch("--output", "a.npy", "--block", "10")
    assert batch("--output", "b", "--block", "10")["digest"] == first["digest"]
    batch("--output", "c.npy", "--block", "103")
    assert np.array_equal(np.load("a.npy"), np.load("c.npy"))
    changed = rows(103)
    changed[50, 3] += 1
    np.save("x.npy", changed)
    assert batch("--output", "d.npy", "--block", "10")["digest"] != first["digest"]


@pytest.mark.parametrize("count", [0, 1, 10, 11])
def test_few_rows(batch: Run, count: int) -> None:
    np.save("x.npy", rows(count))
    summary = batch("--output", "y.npy", "--block", "10")
    assert summary["blocks"] == -(-count // 10)
    assert np.load("y.npy").shape == (count, 5)


def test_arrays_of_archives(batch: Run) -> None:
    np.savez("x.npz", x=rows(20), other=rows(30))
    batch("--output", "a.npy", inputs=("x=x.npz",))
    batch("--output", "b.npy", inputs=("x=x.npz:other",))
    np.testing.assert_allclose(np.load("a.npy"), scores(rows(20)), rtol=1e-5)
    np.testing.assert_allclose(np.load("b.npy"), scores(rows(30)), rtol=1e-5)
    assert "x.npz has no 'z'; fix: one of x, other" in batch("--output", "c.npy", inputs=("x=x.npz:z",), status=2)["error"]


def test_members_whose_names_end_in_npy(batch: Run, folder: Path) -> None:
    """They are members, unless there is a file of that name; NumPy takes "x" for "x.npy" where an archive has both."""
    np.savez("in.npz", **{"x": rows(20, seed=2), "x.npy": rows(30, seed=3), "only.npy": rows(10, seed=4)})
    for member, count, seed in (("x", 20, 2), ("x.npy", 30, 3), ("only.npy", 10, 4)):
        output = f"{member}.out.npy"
        assert batch("--output", output, inputs=(f"x=in.npz:{member}",))["rows"] == count
        np.testing.assert_allclose(np.load(output), scores(rows(count, seed)), rtol=1e-5)
    np.savez("plain.npz", x=rows(20, seed=2))
    assert batch("--output", "p.npy", inputs=("x=plain.npz:x.npy",))["rows"] == 20, "as the file in the archive is called"
    np.save("in.npz:only.npy", rows(7))
    assert batch("--output", "f.npy", inputs=("x=in.npz:only.npy",))["rows"] == 7
    (folder / "old.npz").mkdir()
    np.save("old.npz/x.npy", rows(8))
    assert batch("--output", "g.npy", inputs=("x=old.npz/x.npy",))["rows"] == 8
    assert "none.npy cannot be read: No such file" in batch("--output", "h.npy", inputs=("x=none.npy",), status=2)["error"]
    assert "in.npz has no 'z.npy'; fix: one of x, x.npy, only.npy" in batch(
        "--output", "i.npy", inputs=("x=in.npz:z.npy",), status=2
    )["error"]
    safetensors = pytest.importorskip("safetensors.numpy")
    safetensors.save_file({"x.npy": rows(9)}, "in.safetensors")
    assert batch("--output", "s.npy", inputs=("x=in.safetensors:x.npy",))["rows"] == 9
    zarr = pytest.importorskip("zarr")
    zarr.create_array("in.zarr/x.npy", data=rows(11))
    zarr.open_group("in.zarr", mode="a")
    assert batch("--output", "t.npy", inputs=("x=in.zarr/x.npy",))["rows"] == 11


def test_tensors_of_safetensors(batch: Run) -> None:
    jn.save_safetensors({"x": rows(20)}, "x.safetensors")
    batch("--output", "y.npy", inputs=("x=x.safetensors",))
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(20)), rtol=1e-5)


def test_zarr_in_and_out(batch: Run) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    group = zarr.open_group("in.zarr", mode="w")
    group.create_array("x", data=rows(103), chunks=(7, SIZE))
    first = batch("--output", "y.zarr", "--block", "10", inputs=("x=in.zarr/x",))
    found = zarr.open_group("y.zarr", mode="r")["y"]
    assert found.chunks == (10, 5)
    np.testing.assert_allclose(found[:], scores(rows(103)), rtol=1e-5)
    assert batch("--output", "y.npy", "--block", "10")["digest"] == first["digest"]
    batch("--output", "z.npy", inputs=("x=in.zarr",))
    assert "in.zarr has no 'z'" in batch("--output", "w.npy", inputs=("x=in.zarr/z",), status=2)["error"]


def test_zeros_with_signs_in_zarr(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zarr leaves out chunks that equal zero, and -0-0j does: they came back as 0+0j."""
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    graph = jn.Graph("negative", [jn.TensorType(jn.complex64, ("batch", 2), "x")])
    graph.output(-graph.inputs[0], name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    x = np.zeros((9, 2), np.complex64)
    x[7] = 1 - 2j
    np.save("x.npy", x)
    with monkeypatch.context() as patch:
        stopped_after(patch, 2, KeyboardInterrupt())
        batch("--output", "y.zarr", "--block", "2", status=1)
    summary = batch("--output", "y.zarr", "--block", "2", "--resume")
    assert (summary["before"], summary["computed"], summary["damaged"]) == (2, 3, 0)
    found = zarr.open_group("y.zarr", mode="r")["y"][:]
    assert found.tobytes() == (-x).tobytes()
    assert np.signbit(found.imag[:6]).all()
    assert len(list(Path("y.zarr/y/c").rglob("0"))) == 5 + 1  # a file for each block, and the folder of the first
    assert batch("--output", "y.zarr", "--block", "2", "--resume")["before"] == 5


@pytest.mark.one_in(2)
@pytest.mark.parametrize("output", ["y.zarr", "y.npy", "y.parquet", "y"])
@pytest.mark.parametrize("block", [104, 10**30])
def test_a_block_of_more_rows_than_there_are(batch: Run, output: str, block: int) -> None:
    """Zarr made a chunk of all rows that a block may have, beyond any memory."""
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    assert batch("--output", output, "--block", str(block), "--resume")["computed"] == 1
    if output == "y.zarr":
        found = zarr.open_group(output, mode="r")["y"]
        assert found.chunks == (103, 5)
        assert np.array_equal(found[:], jn.load("m.joinery")(rows(103)))
    assert batch("--output", output, "--block", str(block), "--resume")["before"] == 1


@pytest.mark.parametrize("output", ["in.zarr/y", "./in.zarr/a/y", "new.zarr/y", "in.zarr/y/", "renamed/y"])
def test_a_folder_in_a_zarr_is_refused(batch: Run, folder: Path, output: str) -> None:
    """`--input x=in.zarr/x` names an array, and `--output in.zarr/y` would be a folder of .npy files that Zarr does not see."""
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    for name in ("in.zarr", "renamed"):
        zarr.open_group(name, mode="w", zarr_format=2 if name == "renamed" else 3).create_array("x", data=rows(103))
    before = sorted(folder.rglob("*"))
    error = batch("--output", output, inputs=("x=in.zarr/x",), status=2)["error"]
    assert "is a Zarr, which would not see a folder of .npy files in it" in error
    assert error.endswith("fix: --output out.zarr, with y")
    assert sorted(folder.rglob("*")) == before
    batch("--output", "out.zarr", inputs=("x=in.zarr/x",))
    np.testing.assert_allclose(zarr.open_group("out.zarr", mode="r")["y"][:], scores(rows(103)), rtol=1e-5)


def test_parquet_in_and_out(batch: Run) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    x = rows(103)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.ravel()), SIZE)
    parquet.write_table(pyarrow.table({"features": column}), "in.parquet", row_group_size=9)
    batch("--output", "y.parquet", "--block", "10", inputs=("x=in.parquet:features",))
    assert sorted(os.listdir("y.parquet")) == [f"part-{number:08}.parquet" for number in range(11)]
    found = np.array(parquet.read_table("y.parquet").column("y").to_pylist())
    np.testing.assert_allclose(found, scores(x), rtol=1e-5)
    assert "has no 'x'; fix: one of features" in batch("--output", "z.npy", inputs=("x=in.parquet",), status=2)["error"]


# --- rows of different lengths


@pytest.fixture
def sentences(folder: Path) -> list[list[int]]:
    """A model that adds up a table's rows for the ids that the mask keeps, and scales by how many there are."""
    table = np.arange(40, dtype=np.float32).reshape(10, 4) ** 2
    graph = jn.Graph(
        "bag", [jn.TensorType(jn.int64, ("batch", "seq"), "ids"), jn.TensorType(jn.int64, ("batch", "seq"), "mask")]
    )
    ids, mask = graph.inputs
    kept = mask.cast(jn.float32)[:, :, None]
    graph.output(jn.sum(jn.gather(graph.weight("table", table), ids, axis=0) * kept, axis=1), name="sums")
    jn.compile(graph, device="cpu").save("m.joinery")
    rng = np.random.default_rng(5)
    return [rng.integers(0, 10, rng.integers(0, 9)).tolist() for _ in range(57)]


@pytest.mark.parametrize(
    ("dtype", "item", "output"),
    [
        ("float32", (0,), "y.parquet"), ("bfloat16", (4,), "y.parquet"), ("bfloat16", (0,), "y.parquet"),
        ("bfloat16", (2, 3), "y.parquet"), ("float32", (2, 3), "y.parquet"), ("complex64", (4,), "y.parquet"),
        ("bfloat16", (4,), "y.zarr"), ("float8_e5m2", (), "y.zarr"),
    ],
)  # fmt: skip
def test_what_a_format_has_no_place_for_is_refused_with_one_that_has(
    batch: Run, folder: Path, dtype: str, item: tuple[int, ...], output: str
) -> None:
    """Before anything is computed, and the fix works."""
    pytest.importorskip("pyarrow.parquet", reason="the extra dask is not installed")
    pytest.importorskip("zarr", reason="the extra dask is not installed")
    graph = jn.Graph("same", [jn.TensorType(jn.DType(dtype), ("batch", *item), "x")])
    graph.output(jn.reshape(graph.inputs[0], (jn.dim("batch"), *item)), name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    x = np.arange(20 * math.prod(item)).reshape(20, *item).astype(jn.DType(dtype).numpy)
    np.save("x.npy", x if x.dtype.isbuiltin == 1 else x.view(f"V{x.itemsize}"))
    before = sorted(folder.iterdir())
    error = batch("--output", output, "--block", "7", status=2)["error"]
    assert sorted(folder.iterdir()) == before
    fix = re.search(r"fix: --output (out), a folder of \.npy files$|fix: --output (out\.zarr)$", error)
    assert fix, error
    batch("--output", fix[1] or fix[2], "--block", "7")
    if fix[2]:
        assert np.array_equal(pytest.importorskip("zarr").open_group("out.zarr", mode="r")["y"][:], x)
    else:
        assert np.load("out/y.npy").view(x.dtype).tobytes() == x.tobytes()


def test_lists_are_padded_and_masked(batch: Run, sentences: list[list[int]]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    column = pyarrow.array(sentences, pyarrow.list_(pyarrow.int64()))
    parquet.write_table(pyarrow.table({"ids": column}), "in.parquet", row_group_size=8)
    table = np.arange(40, dtype=np.float64).reshape(10, 4) ** 2
    expected = np.array([table[row].sum(axis=0) for row in sentences])
    given = {"inputs": ("ids=in.parquet",)}
    batch("--mask", "mask=ids", "--output", "a.npy", "--block", "20", "--batch", "3", **given)
    np.testing.assert_array_equal(np.load("a.npy"), expected)
    batch("--mask", "mask=ids", "--output", "b.npy", "--block", "20", "--pad-to", "9", **given)
    np.testing.assert_array_equal(np.load("b.npy"), expected)
    failed = batch("--mask", "mask=ids", "--output", "c.npy", "--block", "20", "--pad-to", "7", status=1, **given)["failed"]
    long = [next(at for at in range(begin, begin + 20) if len(sentences[at]) > 7) for begin in (0, 20)]
    for number, row in enumerate(long):
        assert f"input 'ids': row {row} has 8 elements, more than --pad-to 7" in failed[number]["error"]
    assert "got ids; fix" in batch("--output", "d.npy", status=2, **given)["error"]


def test_rows_of_about_one_length_are_padded_together() -> None:
    lengths = np.array([5, 1, 5, 2, 1, 2])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    column = sources.Ragged(np.arange(16), offsets)
    calls = [rows.tolist() for rows in padding.calls_of({"ids": column}, 6, 2, None)]
    assert calls == [[1, 4], [3, 5], [0, 2]]
    padded = padding.padded_inputs({"ids": column}, np.array([1, 3]), None, (), [padding.Lists("ids", "seq")])["ids"]
    assert padded.tolist() == [[5, 0], [11, 12]]


# --- what goes wrong


def stopped_after(monkeypatch: pytest.MonkeyPatch, blocks: int, error: BaseException) -> None:
    """Let a run end after some blocks as if by `error`."""
    real, count = jobs.run_job_block, [0]

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        count[0] += 1
        if count[0] > blocks:
            raise error
        return real(job, number)

    monkeypatch.setattr(running, "run_job_block", run)


def test_a_run_that_was_ended_is_resumed(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = batch("--output", "whole.npy", "--block", "10")
    with monkeypatch.context() as patch:
        stopped_after(patch, 4, KeyboardInterrupt())
        assert "interrupted; --resume goes on" in batch("--output", "y.npy", "--block", "10", status=1)["error"]
    assert not (folder / "y.npy").exists()
    lines = folder / "y.npy.partial" / "blocks.jsonl"
    lines.write_bytes(lines.read_bytes() + b'{"number": 9, "dig')  # the process died here
    assert "a run that is not complete; fix: --resume" in batch("--output", "y.npy", "--block", "10", status=2)["error"]
    refused = batch("--output", "y.npy", "--block", "20", "--resume", status=2)["error"]
    assert "block of the run is 10, now it is 20" in refused
    np.save("z.npy", rows(103))
    refused = batch("--output", "y.npy", "--block", "10", "--resume", status=2, inputs=("x=z.npy",))["error"]
    assert "inputs of the run is" in refused
    summary = batch("--output", "y.npy", "--block", "10", "--resume")
    assert (summary["before"], summary["computed"], summary["digest"]) == (4, 7, whole["digest"])
    assert np.array_equal(np.load("y.npy"), np.load("whole.npy"))
    again = batch("--output", "y.npy", "--block", "10", "--resume")
    assert (again["before"], again["computed"], again["digest"]) == (11, 0, whole["digest"])
    assert "is there already" in batch("--output", "y.npy", "--block", "10", status=2)["error"]


def test_a_run_that_has_nothing_to_go_on_with_says_so(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        stopped_after(patch, 0, KeyboardInterrupt())
        error = batch("--output", "y.npy", "--block", "10", status=1)["error"]
        assert "interrupted; no block was noted, nothing is kept" in error
        assert "--resume" not in error
        assert not (folder / "y.npy.partial").exists()
    with monkeypatch.context() as patch:
        stopped_after(patch, 0, ArithmeticError("poisoned"))
        summary = batch("--output", "y.npy", "--block", "10", "--retries", "0", status=1)
        assert (summary["output"], summary["computed"], len(summary["failed"])) == (None, 0, 11)
        assert not (folder / "y.npy.partial").exists()
        stopped_after(patch, 1, ArithmeticError("poisoned"))
        summary = batch("--output", "y.npy", "--block", "10", "--retries", "0", status=1)
        assert summary["output"] == f"{folder / 'y.npy'}.partial"
        assert Path(summary["output"]).exists()
    batch("--output", "y.npy", "--block", "10", "--resume")
    with monkeypatch.context() as patch:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(journal, "complete_run", interrupted)
        error = batch("--output", "y.npy", "--block", "10", "--resume", status=1)["error"]
    assert f"interrupted; {folder / 'y.npy'} is as it was" in error
    assert np.load("y.npy").shape == (103, 5)


def test_a_block_that_fails_is_reported_with_its_rows(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        if number in (2, 10):
            raise ArithmeticError("poisoned")
        return real(job, number)

    with monkeypatch.context() as patch:
        patch.setattr(running, "run_job_block", run)
        summary = batch("--output", "y.npy", "--block", "10", "--retries", "1", status=1)
    failed = [(each["block"], each["rows"], each["attempts"]) for each in summary["failed"]]
    assert failed == [(2, [20, 30], 2), (10, [100, 103], 2)]
    assert summary["failed"][0]["error"] == "ArithmeticError: poisoned"
    assert summary["computed"] == 9
    assert not (folder / "y.npy").exists()
    assert batch("--output", "y.npy", "--block", "10", "--resume")["computed"] == 2
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)


def test_two_runs_do_not_write_to_one_output(batch: Run, folder: Path) -> None:
    job = plan(folder)
    kept = journal.Journal(job, resume=False)
    assert "another run writes to" in batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    kept.close()
    batch("--output", "y.npy", "--block", "10", "--resume")


def plan(folder: Path, name: str = "y.npy") -> jobs.Job:
    made = jn.distributed.reference(folder / "m.joinery", threads=1, trusted=True)
    from joinery.interface.distributed.signatures import signature

    x = sources.source("x", str(folder / "x.npy"))
    return jobs.plan_job(
        made, signature(made, "batch"), [x], [], str(folder / name), block=10, batch=None, width=None, independent=False
    )


def test_a_full_disk_is_found_before_anything_runs(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs.os, "posix_fallocate", full)
    assert "cannot be written: No space left on device: free some space" in batch("--output", "y.npy", status=2)["error"]
    assert [path.name for path in (folder / "y.npy.partial").rglob("*.n*")] == []
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("arguments", "inputs", "message"),
    [
        (("--output", "y.txt"), ("x=x.npy",), "batch does not write .txt"),
        (("--output", "y.npy"), ("x=x.csv",), "in no format that batch reads"),
        (("--output", "y.npy"), ("x=gone.npy",), "gone.npy cannot be read: No such file"),
        (("--output", "y.npy"), ("z=x.npy",), "model 'scorer' takes x: float32[batch, 16]; got z"),
        (("--output", "y.npy"), ("x=wide.npy",), "axis 1 of input x: float32[batch, 16] is 17"),
        (("--output", "y.npy"), ("x=double.npy",), "expects x: float32[batch, 16], got float64"),
        (("--output", "y.npy"), ("x=flat.npy",), "has 2 axes"),
        (("--output", "y.npy", "--block", "0"), ("x=x.npy",), "--block 0; fix: 1 or more"),
        (("--output", "y.npy", "--mask", "m=x"), ("x=x.npy",), "got x, m"),
        (("--output", "y.npy", "--pad-to", "7"), ("x=x.npy",), "--pad-to 7 is for lists of different lengths, and all files"),
        (("--output", "y.npy", "--scheduler", "tcp://127.0.0.1:1", "--workers", "2"), ("x=x.npy",), "leave out --workers"),
        (("--output", "y.npy", "--bring"), ("x=x.npy",), "--bring is for workers of a scheduler"),
        (("--output", "x.npy"), ("x=x.npy",), "is there already"),
        (("--output", "gone/y.npy"), ("x=x.npy",), ""),
    ],
)  # fmt: skip
def test_mistakes(batch: Run, arguments: tuple[str, ...], inputs: tuple[str, ...], message: str) -> None:
    np.save("wide.npy", np.zeros((3, 17), np.float32))
    np.save("double.npy", np.zeros((3, 16)))
    np.save("flat.npy", np.zeros(3, np.float32))
    if message:
        assert message in batch(*arguments, inputs=inputs, status=2)["error"]
    else:
        batch(*arguments, inputs=inputs)


def test_graphs_that_mix_rows_are_refused(batch: Run) -> None:
    graph = jn.Graph("centred", [jn.TensorType(jn.float32, ("batch", SIZE), "x")])
    (x,) = graph.inputs
    graph.output(x - jn.mean(x, axis=0), name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    error = batch("--output", "y.npy", status=2)["error"]
    assert "cannot be computed in blocks along 'batch'" in error
    assert "fix: joinery.load(path) and a call with all rows, or --independent if you know better" in error
    batch("--output", "y.npy", "--independent", "--block", "103")
    np.testing.assert_allclose(np.load("y.npy"), rows(103) - rows(103).mean(axis=0), atol=1e-6)


@pytest.mark.parametrize("arguments", [(), ("--independent",)])
@pytest.mark.parametrize("name", ["nonzero", "bincount"])
def test_sizes_that_values_decide_are_refused(batch: Run, name: str, arguments: tuple[str, ...]) -> None:
    graph = jn.Graph("decided", [jn.TensorType(jn.int64, ("batch",), "x")])
    graph.output(getattr(jn, name)(graph.inputs[0]), name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    np.save("x.npy", np.arange(9))
    error = batch("--output", "y.npy", *arguments, status=2)["error"]
    assert re.search(r"batch: output y: int64\[.*\] of model 'decided' has the size '.*', which values decide", error)
    assert "fix: joinery.distributed.stream" in error


def test_a_truncated_model_is_refused(batch: Run, folder: Path) -> None:
    path = folder / "m.joinery"
    path.write_bytes(path.read_bytes()[:-64])
    assert "truncated" in batch("--output", "y.npy", status=2)["error"]
    assert not (folder / "y.npy.partial").exists()


def test_the_line_of_progress() -> None:
    progress = Progress(100, 20, quiet=True)
    for number in range(8):
        progress.count(failed=number == 3)
    line = progress.line(progress._began + 4.0)
    assert line == "27/100 blocks, 2 blocks/s, 1 failed, 36 s left"
    assert Progress(10, 4, quiet=True).line(time.monotonic()) == "4/10 blocks, 0 blocks/s, 0 failed, an unknown time left"
    assert Progress(4, 4, quiet=True).line(time.monotonic()) == "4/4 blocks, 0 blocks/s, 0 failed, 0 s left"
    assert progress.line(progress._began + 8000.0).endswith("20:00 h left")


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="this system has no such signal")
def test_a_run_that_is_terminated_says_how_to_go_on(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        if number == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(job, number)

    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(running, "run_job_block", run)
        assert "interrupted; --resume goes on" in batch("--output", "y.npy", "--block", "10", status=1)["error"]
    assert signal.getsignal(signal.SIGTERM) is before
    assert batch("--output", "y.npy", "--block", "10", "--resume")["before"] == 4


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or os.name == "nt", reason="this system has no such signal")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_is_complete_once_its_output_has_its_name(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, moment: str
) -> None:
    real = os.replace

    def replace(source: str, target: str) -> None:
        is_output = str(target).endswith("y.npy")
        if is_output and moment == "before":
            os.kill(os.getpid(), number)
        real(source, target)
        if is_output and moment == "after":
            os.kill(os.getpid(), number)

    before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    monkeypatch.setattr(outputs.os, "replace", replace)
    prepared = outputs.Output.prepare

    def prepare(self: outputs.Output) -> None:  # which gives a file its name, too
        with monkeypatch.context() as patch:
            patch.setattr(outputs.os, "replace", real)
            prepared(self)

    monkeypatch.setattr(outputs.Output, "prepare", prepare)
    summary = batch("--output", "y.npy", "--block", "10")
    assert (summary["computed"], summary["output"]) == (11, str(folder / "y.npy"))
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy", "y.npy"]
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "uint16", "float16", "bfloat16", "float32", "float64"])
def test_masks_have_the_dtype_of_their_input(batch: Run, folder: Path, dtype: str) -> None:
    pyarrow, parquet = (pytest.importorskip(name, reason="no pyarrow") for name in ("pyarrow", "pyarrow.parquet"))
    graph = jn.Graph("sums", [jn.TensorType(jn.int64, ("b", "s"), "ids"), jn.TensorType(jn.DType(dtype), ("b", "s"), "mask")])
    ids, mask = graph.inputs
    graph.output(jn.sum((ids.cast(jn.float32) + 1) * mask.cast(jn.float32), axis=1), name="y")
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    lists = [[1, 2, 3], [4], [], [5, 6]]
    parquet.write_table(pyarrow.table({"ids": pyarrow.array(lists, pyarrow.list_(pyarrow.int64()))}), "t.parquet")
    batch("--mask", "mask=ids", "--output", "y.npy", inputs=("ids=t.parquet",))
    assert np.load("y.npy").tolist() == [sum(each) + len(each) for each in lists]


def test_a_complex_mask_is_refused(batch: Run, folder: Path) -> None:
    pyarrow, parquet = (pytest.importorskip(name, reason="no pyarrow") for name in ("pyarrow", "pyarrow.parquet"))
    graph = jn.Graph("sums", [jn.TensorType(jn.int64, ("b", "s"), "ids"), jn.TensorType(jn.complex64, ("b", "s"), "mask")])
    ids, mask = graph.inputs
    graph.output(jn.sum(ids.cast(jn.complex64) * mask, axis=1), name="y")
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    parquet.write_table(pyarrow.table({"ids": pyarrow.array([[1], [2, 3]], pyarrow.list_(pyarrow.int64()))}), "t.parquet")
    error = batch("--mask", "mask=ids", "--output", "y.npy", status=2, inputs=("ids=t.parquet",))["error"]
    assert "needs numbers or bools of the shape of ids" in error


@pytest.mark.parametrize("output", ["in.parquet/out.parquet", "in.parquet/sub/y.npy", "link/y.npy"])
def test_an_output_among_the_files_of_an_input_is_refused(batch: Run, folder: Path, output: str) -> None:
    pyarrow, parquet = (pytest.importorskip(name, reason="no pyarrow") for name in ("pyarrow", "pyarrow.parquet"))
    Path("in.parquet").mkdir()
    os.symlink("in.parquet", "link")
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows(20).ravel()), SIZE)
    parquet.write_table(pyarrow.table({"x": column}), "in.parquet/0.parquet")
    error = batch("--output", output, status=2, inputs=("x=in.parquet",))["error"]
    assert "in.parquet, which is input 'x': its files would change" in error
    assert "fix: another folder" in error
    assert os.listdir("in.parquet") == ["0.parquet"]
    batch("--output", "in.parquet.npy", inputs=("x=in.parquet",))


def test_an_output_among_the_chunks_of_an_input_is_refused(batch: Run, folder: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    zarr.create_array("x.zarr", data=rows(20), chunks=(10, SIZE))
    zarr.open_group("g.zarr", mode="w").create_array("x", data=rows(20), chunks=(10, SIZE))
    for given, output in (("x=x.zarr", "x.zarr/y.npy"), ("x=g.zarr/x", "g.zarr/x/y.npy"), ("x=g.zarr", "g.zarr/x/c/y.npy")):
        assert "its files would change" in batch("--output", output, status=2, inputs=(given,))["error"]
    batch("--output", "g.zarr/y.npy", inputs=("x=g.zarr/x",))


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("count", [10, 30])
def test_a_group_whose_copy_of_the_metadata_is_old(batch: Run, folder: Path, count: int) -> None:
    """Rows were added to an array, or cut off, after the metadata of the group was consolidated."""
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    zarr.open_group("g.zarr", mode="w").create_array("x", data=rows(20), chunks=(5, SIZE))
    zarr.consolidate_metadata("g.zarr")
    array = zarr.open("g.zarr/x", mode="r+")
    array.resize((count, SIZE))
    array[:] = rows(count, seed=3)
    assert batch("--output", "y.npy", inputs=("x=g.zarr/x",))["rows"] == count
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(count, seed=3)), rtol=1e-5)


def test_what_engines_print_goes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    with running._stdout_on_stderr():
        print("by Python", flush=True)
        os.write(1, b"by a library\n")
        subprocess.run([sys.executable, "-c", "print('by a process')"], check=True)
    print("a summary", flush=True)
    os.write(1, b"and more\n")
    found = capfd.readouterr()
    assert found.out == "a summary\nand more\n"
    assert sorted(found.err.splitlines()) == ["by Python", "by a library", "by a process"]


def test_a_column_whose_name_is_one_of_a_field_as_well(batch: Run) -> None:
    """Parquet's readers take `x.y` for the field y of a struct x, too."""
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    x = rows(103)
    column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x.ravel()), SIZE)
    struct = pyarrow.StructArray.from_arrays([pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(-x.ravel()), SIZE)], ["y"])
    for number, names in enumerate((("x", "x.y"), ("x.y", "x"))):
        table = {"x": struct, "x.y": column}
        parquet.write_table(pyarrow.table({name: table[name] for name in names}), "in.parquet", row_group_size=9)
        batch("--output", f"{number}.npy", "--block", "10", inputs=("x=in.parquet:x.y",))
        np.testing.assert_allclose(np.load(f"{number}.npy"), scores(x), rtol=1e-5)


def test_arrays_of_a_zarr_below_a_folder_that_is_called_so(batch: Run) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    for form in (2, 3):
        zarr.open_group(f"run{form}.zarr/in.zarr", mode="w", zarr_format=form).create_array("x", data=rows(103))
        batch("--output", f"y{form}.npy", inputs=(f"x=run{form}.zarr/in.zarr/x",))
        np.testing.assert_allclose(np.load(f"y{form}.npy"), scores(rows(103)), rtol=1e-5)


def test_an_input_without_rows_whose_dim_is_an_axis_of_another(batch: Run, folder: Path) -> None:
    graph = jn.Graph("scaled", [jn.TensorType(jn.float32, ("batch", "n"), "x"), jn.TensorType(jn.float32, ("n",), "z")])
    graph.output(graph.inputs[0] * graph.inputs[1], name="y")
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    z = np.arange(16, dtype=np.float32)
    np.save("z.npy", z)
    batch("--output", "y.npy", "--block", "10", inputs=("x=x.npy", "z=z.npy"))
    np.testing.assert_array_equal(np.load("y.npy"), rows(103) * z)


def test_several_rows_for_each_are_refused(batch: Run, folder: Path) -> None:
    graph = jn.Graph("doubled", [jn.TensorType(jn.float32, ("batch", 16), "x")])
    n = jn.dim("batch")
    graph.output(jn.reshape(jn.broadcast_to(graph.inputs[0][:, None], (n, 2, 16)), (2 * n, 16)), name="y")
    jn.compile(graph, device="cpu").save(folder / "m.joinery")
    error = batch("--output", "y.npy", status=2)["error"]
    assert "has 2*batch rows, several for each of 'batch'; fix: give them an axis of their own" in error
