"""`--resume` of a run that is complete does nothing where the output is what the same run has written, and says why else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.__main__ import main
from joinery.interface.distributed.batch import jobs, journal, outputs, running

from .conftest import Run, rows
from .test_batch import plan

ARGUMENTS = ("--block", "10", "--resume")


def written(output: str) -> Path:
    """The file of an output that a test changes."""
    return {".npy": Path(output), "": Path(output, "y.npy"), ".zarr": Path(output, "y", "c", "3", "0"),
            ".parquet": Path(output, "part-00000003.parquet")}[Path(output).suffix]  # fmt: skip


@pytest.mark.parametrize("output", ["y.npy", "y", "y.zarr", "y.parquet"])
def test_a_complete_run_is_not_computed_again(batch: Run, monkeypatch: pytest.MonkeyPatch, output: str) -> None:
    if Path(output).suffix in (".zarr", ".parquet"):
        pytest.importorskip("zarr" if output == "y.zarr" else "pyarrow", reason="the extra dask is not installed")
    first = batch("--output", output, *ARGUMENTS)
    assert (first["computed"], first["before"]) == (11, 0)
    monkeypatch.setattr(jobs, "run_block", None)  # which would fail
    again = batch("--output", output, *ARGUMENTS)
    assert (again["computed"], again["before"], again["failed"], again["damaged"]) == (0, 11, [], 0)
    assert {name: again[name] for name in ("output", "digest", "targets", "rows", "model")} == {
        name: first[name] for name in ("output", "digest", "targets", "rows", "model")
    }
    assert not Path(f"{output}.partial").exists()
    batch("--output", output, *ARGUMENTS, "--same-target")


@pytest.mark.parametrize("output", ["y.npy", "y", "y.zarr", "y.parquet"])
@pytest.mark.parametrize("how", ["changed", "cut", "gone"])
def test_an_output_that_was_changed_is_not_taken_for_complete(batch: Run, output: str, how: str) -> None:
    if Path(output).suffix in (".zarr", ".parquet"):
        pytest.importorskip("zarr" if output == "y.zarr" else "pyarrow", reason="the extra dask is not installed")
    batch("--output", output, *ARGUMENTS)
    path = written(output)
    data = path.read_bytes()
    if how == "gone":
        path.unlink()
    else:
        path.write_bytes(data[:-9] if how == "cut" else data[: len(data) // 2] + b"\7\7\7\7" + data[len(data) // 2 + 4 :])
    if (output, how) == ("y.npy", "gone"):
        assert batch("--output", output, *ARGUMENTS)["computed"] == 11
        return
    error = batch("--output", output, *ARGUMENTS, status=2)["error"]
    assert f"{output} is there already, and " in error
    reasons = "it has changed since the run was complete", "of it cannot be read", "it has another form than the run gave it"
    assert any(reason in error for reason in reasons)
    assert not Path(f"{output}.partial").exists()


def test_another_run_is_told_by_what_differs(batch: Run) -> None:
    batch("--output", "y.npy", *ARGUMENTS)
    assert "block of the run that made it is 10, now it is 20" in batch(
        "--output", "y.npy", "--block", "20", "--resume", status=2
    )["error"]
    times = os.stat("x.npy")
    np.save("x.npy", rows(103, seed=2))
    assert "inputs x newest of the run that made it is" in batch("--output", "y.npy", *ARGUMENTS, status=2)["error"]
    np.save("x.npy", rows(103))
    os.utime("x.npy", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert batch("--output", "y.npy", *ARGUMENTS)["computed"] == 0
    graph = jn.Graph("m", [jn.TensorType(jn.float32, ("batch", 16), "x")])
    graph.output(graph.inputs[0][:, :5] * 2, name="y")
    jn.compile(graph, device="cpu").save("m.joinery")
    assert "model of the run that made it is" in batch("--output", "y.npy", *ARGUMENTS, status=2)["error"]


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", "{}", '{"targets": 3, "digest": "0"}', '{"targets": {}, "digest": "x"}', None]
)
def test_a_record_that_is_damaged_or_gone_counts_for_nothing(batch: Run, text: str | None) -> None:
    batch("--output", "y.npy", *ARGUMENTS)
    record = Path("y.npy.complete.json")
    assert json.loads(record.read_bytes())["rows"] == 103
    record.unlink()
    if text is not None:
        record.write_text(text)
    error = batch("--output", "y.npy", *ARGUMENTS, status=2)["error"]
    assert "y.npy.complete.json" in error
    assert ("is damaged" if text is not None else "by which a run with --resume is known, is not") in error


def test_a_run_without_resume_leaves_no_record_and_removes_an_old_one(batch: Run, folder: Path) -> None:
    batch("--output", "y.npy", *ARGUMENTS)
    os.unlink("y.npy")
    batch("--output", "y.npy", "--block", "10")
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy", "y.npy"]
    assert "is there already; fix:" in batch("--output", "y.npy", "--block", "10", status=2)["error"]


def test_a_run_that_died_once_its_output_had_its_name(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.Journal, "_leave", lambda self: os.close(self._locked))
    batch("--output", "y.npy", *ARGUMENTS)
    assert Path("y.npy.partial").is_dir()
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert batch("--output", "y.npy", *ARGUMENTS)["computed"] == 0
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy", "y.npy", "y.npy.complete.json"]


@pytest.mark.parametrize("count", [0, 1])
def test_few_rows(batch: Run, count: int) -> None:
    np.save("x.npy", rows(count))
    batch("--output", "y.npy", *ARGUMENTS)
    assert batch("--output", "y.npy", *ARGUMENTS)["computed"] == 0


def appended(output: str) -> None:
    """Add rows or files to an output, whose blocks stay as they are."""
    path = Path(output)
    if path.suffix == ".parquet":
        (path / "part-00000011.parquet").write_bytes((path / "part-00000003.parquet").read_bytes())
    elif path.suffix == ".zarr":
        pytest.importorskip("zarr").open_group(output, mode="r+")["y"].resize((150, 5))
    else:
        y = np.load(written(output))
        np.save(written(output), np.concatenate([y, y[:7]]))


@pytest.mark.parametrize("output", ["y.npy", "y", "y.zarr", "y.parquet"])
def test_an_output_with_more_than_the_run_wrote_is_not_taken_for_complete(batch: Run, output: str) -> None:
    if Path(output).suffix in (".zarr", ".parquet"):
        pytest.importorskip("zarr" if output == "y.zarr" else "pyarrow", reason="the extra dask is not installed")
    batch("--output", output, *ARGUMENTS)
    appended(output)
    error = batch("--output", output, *ARGUMENTS, status=2)["error"]
    assert "it has another form than the run gave it" in error


@pytest.mark.parametrize("change", [lambda y: y.reshape(5, 103), lambda y: y.view(np.int32), lambda y: y.T])
def test_an_output_of_another_shape_or_dtype_is_not_taken_for_complete(batch: Run, change: Any) -> None:
    batch("--output", "y.npy", *ARGUMENTS)
    np.save("y.npy", change(np.load("y.npy")))
    assert "another form" in batch("--output", "y.npy", *ARGUMENTS, status=2)["error"]


def test_an_output_without_rows_that_is_no_file_of_the_format(batch: Run) -> None:
    np.save("x.npy", rows(0))
    batch("--output", "y.npy", *ARGUMENTS)
    Path("y.npy").write_text("junk")
    assert "another form" in batch("--output", "y.npy", *ARGUMENTS, status=2)["error"]


@pytest.mark.parametrize(
    "made", [Path.mkdir, lambda path: path.write_text('{"mine": 1}'), lambda path: path.symlink_to("x.npy")]
)
@pytest.mark.parametrize("resume", [False, True])
def test_files_of_others_with_the_name_of_the_record_stay(batch: Run, made: Any, resume: bool) -> None:
    path = Path("scores.complete.json")
    made(path)
    before = path.read_bytes() if path.is_file() else b""
    error = batch("--output", "scores", "--block", "10", *(["--resume"] if resume else []), status=2)["error"]
    assert "scores.complete.json is there, where a run keeps what it was, and is no such record; fix: another path" in error
    assert not Path("scores").exists()
    assert not Path("scores.partial").exists()
    assert (path.read_bytes() if path.is_file() else b"") == before


@pytest.mark.parametrize("output", [".hid.npy", "..weird.npy", ".zarr.npy", "a b.npy"])
def test_names_of_any_kind(batch: Run, output: str) -> None:
    batch("--output", output, *ARGUMENTS)
    assert batch("--output", output, *ARGUMENTS)["computed"] == 0


DYING = """
import os, sys
from pathlib import Path
unlink = Path.unlink

def dying(path, missing_ok=False):
    if path.name == {name!r}:
        os._exit(9)
    unlink(path, missing_ok)

Path.unlink = dying
from joinery.__main__ import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "resume"), [("blocks.jsonl", True), ("run.json", True), ("lock", True), ("blocks.jsonl", False)]
)
def test_a_client_that_dies_while_it_cleans_up(batch: Run, name: str, resume: bool) -> None:
    """Whatever it left, the run is complete for the next one with `--resume`."""
    given = ["batch", "m.joinery", "--input", "x=x.npy", "--trusted", "--threads", "1", "--quiet", "--output", "y.npy"]
    command = [sys.executable, "-c", DYING.format(name=name), *given, "--block", "10", *(["--resume"] if resume else [])]
    assert subprocess.run(command, capture_output=True, check=False, timeout=100).returncode == 9
    assert Path("y.npy.partial").exists()
    found = batch("--output", "y.npy", *ARGUMENTS)
    assert (found["computed"], found["before"]) == (0, 11)
    assert not Path("y.npy.partial").exists()


def test_a_name_too_long_for_a_record_is_told_before_anything_runs(batch: Run, capsys: pytest.CaptureFixture[str]) -> None:
    for length, status in ((215, 0), (241, 0), (242, 2)):
        name, before = "y" * (length - 4) + ".npy", sorted(os.listdir())
        if status:
            assert main(["batch", "m.joinery", "--input", "x=x.npy", "--trusted", "--quiet", "--output", name]) == status
            assert "File name too long" in " ".join(capsys.readouterr().err.split())
            assert sorted(os.listdir()) == before  # no folder of a run either
        else:
            assert batch("--output", name, *ARGUMENTS)["computed"] == 11


def test_a_record_that_the_disk_does_not_take_leaves_nothing(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        if path.name == "complete.new":
            raise OSError(28, "No space left on device")
        sync(path)

    sync = outputs.sync_file
    monkeypatch.setattr(outputs, "sync_file", full)
    given = ["batch", "m.joinery", "--input", "x=x.npy", "--trusted", "--quiet", "--output", "y.npy", *ARGUMENTS]
    assert main(given) == 2
    assert not list(Path().rglob("complete.new"))
    assert not Path("y.npy").exists()
    monkeypatch.setattr(outputs, "sync_file", sync)
    assert batch("--output", "y.npy", *ARGUMENTS)["before"] == 11


def test_a_part_with_another_column_is_a_change(batch: Run, capsys: pytest.CaptureFixture[str]) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    batch("--output", "y.parquet", *ARGUMENTS)
    (first, *_) = sorted(Path("y.parquet").iterdir())
    table = parquet.read_table(first)
    parquet.write_table(table.append_column("z", pyarrow.array(range(table.num_rows))), first)
    arguments = ["batch", "m.joinery", "--input", "x=x.npy", "--trusted", "--quiet", "--output", "y.parquet", *ARGUMENTS]
    assert main(arguments) == 2
    assert "block 0 of it cannot be read" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("rows_of_it", [0, 103])
@pytest.mark.parametrize("change", ["renamed", "of another dtype"])
def test_columns_of_other_names_or_dtypes_are_changes(
    batch: Run, capsys: pytest.CaptureFixture[str], rows_of_it: int, change: str
) -> None:
    """Without rows there is no block to read, and nothing but the columns to look at."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    np.save("x.npy", rows(rows_of_it))
    batch("--output", "y.parquet", *ARGUMENTS)
    assert batch("--output", "y.parquet", *ARGUMENTS)["computed"] == 0
    (first, *_) = sorted(Path("y.parquet").iterdir())
    table = parquet.read_table(first)
    (field,) = table.schema
    if change == "renamed":
        table = table.rename_columns(["z"])
    else:
        table = table.cast(pyarrow.schema([(field.name, pyarrow.list_(pyarrow.float64(), field.type.list_size))]))
    parquet.write_table(table, first)
    arguments = ["batch", "m.joinery", "--input", "x=x.npy", "--trusted", "--quiet", "--output", "y.parquet", *ARGUMENTS]
    assert main(arguments) == 2
    assert "is there already" in " ".join(capsys.readouterr().err.split())


def test_the_record_of_an_old_run_is_removed_under_the_lock(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the lock is given back it may be the record of a run that began meanwhile."""
    batch("--output", "y.npy", "--block", "10", "--resume")
    Path("y.npy").unlink()
    real, refused = journal.remove_record, []

    def remove(output: Any) -> None:
        assert Path("y.npy").exists()
        refused.append(batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"])
        real(output)

    monkeypatch.setattr(journal, "remove_record", remove)
    running.run_job(plan(folder), running.Workers(), quiet=True)
    assert [each for each in refused if "another run writes to" in each] == refused != []
    assert not Path("y.npy.complete.json").exists()


def test_half_a_record_of_a_run_that_was_killed_is_removed(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a folder goes when a run that has nothing to go on with ends."""
    Path("y.npy.partial").mkdir()
    Path("y.npy.partial", "complete.new").write_text("{")
    monkeypatch.setattr(jobs, "run_block", None)  # which fails
    batch("--output", "y.npy", "--block", "10", status=1)
    assert sorted(os.listdir(folder)) == ["m.joinery", "x.npy"]
