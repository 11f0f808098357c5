"""Inputs behind symbolic links are known by the files that these lead to, which may have the size and times of others."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from joinery.interface.distributed.batch import jobs, journal, running
from joinery.interface.distributed.batch.stamps import look_at

from .conftest import SIZE, Run, rows
from .test_batch import stopped_after

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links take rights there")


def file(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, rows(103, seed))


def chunks(path: Path, seed: int) -> None:
    zarr = pytest.importorskip("zarr", reason="the extra dask is not installed")
    group = zarr.open_group(path.parent, mode="w")
    array = group.create_array(path.name, shape=(103, SIZE), dtype="f4", chunks=(20, SIZE), compressors=None)
    array[:] = rows(103, seed)


def parts(path: Path, seed: int) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    path.mkdir(parents=True)
    values = pyarrow.array(rows(103, seed).reshape(-1))
    table = pyarrow.table({"x": pyarrow.FixedSizeListArray.from_arrays(values, SIZE)})
    parquet.write_table(table, path / "0.parquet", compression="none", use_dictionary=False)


def same_times(path: Path) -> None:
    """Let files have the time of change that archives and builds give to all of them."""
    for each in [path, *path.rglob("*")]:
        os.utime(each, (1, 1))


def turn(link: Path, to: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(to)


WRITERS = {
    "file": (file, "a/x.npy", "b/x.npy", "in.npy", "x=in.npy"),
    "folder above": (file, "a/x.npy", "b/x.npy", "above", "x=above/x.npy"),
    "Zarr": (chunks, "a/in.zarr/x", "b/in.zarr/x", "in.zarr", "x=in.zarr/x"),
    "chunk of Zarr": (chunks, "a/in.zarr/x", "b/in.zarr/x", "a/in.zarr/x/c/0", "x=a/in.zarr/x"),
    "Parquet": (parts, "a/in", "b/in", "in.parquet", "x=in.parquet"),
    "file of Parquet": (parts, "a/in", "b/in", "a/in/0.parquet", "x=a/in"),
}
Turn = Callable[[str], str]


@pytest.fixture
def turned(folder: Path, request: pytest.FixtureRequest) -> Turn:
    """Return a function that turns the link to "first" or "second", and returns what `--input` says."""
    write, first, second, link, given = WRITERS[request.param]
    for path, seed in ((first, 1), (second, 2)):
        write(folder / path, seed)
    whole = {"first": folder / first, "second": folder / second}
    if Path(link).parts[0] == "a":  # the link is in the folder that is read
        inside = (folder / link).relative_to(folder / first)
        whole = {name: shutil.move(path / inside, folder / name) for name, path in whole.items()}
    elif "x.npy" in given or link == "in.zarr":
        whole = {name: path.parent for name, path in whole.items()}
    for path in whole.values():
        same_times(Path(path))

    def to(name: str) -> str:
        turn(folder / link, Path(whole[name]))
        return given

    return to


@pytest.mark.parametrize("turned", WRITERS, indirect=True)
def test_a_run_is_not_resumed_with_what_another_link_leads_to(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, turned: Turn
) -> None:
    given = turned("first")
    with monkeypatch.context() as patch:
        stopped_after(patch, 4, KeyboardInterrupt())
        batch("--output", "y.npy", "--block", "10", "--resume", status=1, inputs=(given,))
    turned("second")
    error = batch("--output", "y.npy", "--block", "10", "--resume", status=2, inputs=(given,))["error"]
    assert f"input 'x': {folder}/" in error
    assert " when the run began, so blocks of different inputs would be mixed; fix: links as they were" in error
    turned("first")
    summary = batch("--output", "y.npy", "--block", "10", "--resume", inputs=(given,))
    assert (summary["before"], summary["computed"]) == (4, 7)
    assert summary["digest"] == batch("--output", "z.npy", "--block", "10")["digest"]  # which has the same rows
    turned("second")
    error = batch("--output", "y.npy", "--block", "10", "--resume", status=2, inputs=(given,))["error"]
    assert "inputs x of the run that made it is" in error


@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("turned", ["file", "folder above", "chunk of Zarr", "file of Parquet"], indirect=True)
def test_a_link_that_is_turned_under_way_ends_the_run(
    batch: Run, monkeypatch: pytest.MonkeyPatch, turned: Turn, back: bool
) -> None:
    real, given = jobs.run_job_block, turned("first")

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        if number == 3:
            turned("second")
        found = real(job, number)
        if back:
            turned("first")
        return found

    monkeypatch.setattr(running, "run_job_block", run)
    error = batch("--output", "y.npy", "--block", "10", status=2, inputs=(given,))["error"]
    assert ("somebody wrote, moved or replaced files" if back else " when the run was planned, so blocks of") in error
    assert not Path("y.npy").exists()


def test_each_link_on_the_way_is_watched(tmp_path: Path) -> None:
    """One that is turned away and back has another time, which nobody can set."""
    file(tmp_path / "deep" / "a" / "x.npy", 1)
    (tmp_path / "to").symlink_to("deep")
    (tmp_path / "file").symlink_to("to/a/x.npy")
    path, plain = tmp_path / "file", tmp_path / "deep" / "a" / "x.npy"
    first, direct = look_at(path), look_at(plain)
    assert (first.stamp, first.real) == (direct.stamp, direct.real) == (look_at(path).stamp, str(plain))
    assert look_at(path) == first
    for link, to in ((tmp_path / "to", "deep"), (path, "to/a/x.npy")):
        turn(link, Path("nowhere"))
        turn(link, Path(to))
        again = look_at(path)
        assert (again.stamp, again.real) == (first.stamp, first.real)
        assert again.watch != first.watch
    assert look_at(plain) == direct


def test_a_run_of_an_earlier_format_is_refused(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its notes do not say where links led."""
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_FORMAT", 3)
        batch("--output", "y.npy", "--block", "10", "--resume")
        stopped_after(patch, 4, KeyboardInterrupt())
        batch("--output", "z.npy", "--block", "10", status=1)
    error = batch("--output", "z.npy", "--block", "10", "--resume", status=2)["error"]
    assert "format of the run is 3, now it is 4: its blocks would not go together; fix: the same joinery as before" in error
    error = batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    assert "format of the run that made it is 3, now it is 4" in error
    assert json.loads(Path("z.npy.partial/run.json").read_bytes())["format"] == 3
