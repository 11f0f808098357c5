"""What a run that was ended leaves is believed only as far as it is there and right, and nobody else writes to it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from joinery.interface.distributed.batch import connecting, jobs, journal, outputs, running
from joinery.interface.distributed.failures import RunError

from .conftest import SIZE, Run, rows, scores
from .test_batch import plan, stopped_after

BLOCKS, LEFT = 11, 7


class Killed(BaseException):
    """Ends the process as `kill -9` does: nothing is put in order."""


@pytest.fixture
def left(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Let a run end after 7 of its 11 blocks, and return its folder."""

    def end(name: str = "y.npy") -> Path:
        with monkeypatch.context() as patch:
            stopped_after(patch, LEFT, KeyboardInterrupt())
            batch("--output", name, "--block", "10", status=1)
        return Path(f"{name}.partial")

    return end


def data_of(partial: Path) -> Path:
    (found,) = partial.glob("data-*")
    return found


def table(path: str) -> np.ndarray:
    if path.endswith(".npy"):
        return np.load(path)
    if path.endswith(".zarr"):
        return pytest.importorskip("zarr").open_group(path, mode="r")["y"][:]
    return np.array(pytest.importorskip("pyarrow.parquet").read_table(path).column("y").to_pylist())


def resumed(batch: Run, name: str, before: int, damaged: int) -> None:
    """The run goes on with the blocks that are right, and gives what a run of its own gives."""
    whole = batch("--output", "whole.npy", "--block", "10")
    summary = batch("--output", name, "--block", "10", "--resume")
    assert (summary["before"], summary["computed"], summary["damaged"]) == (before, BLOCKS - before, damaged)
    assert summary["digest"] == whole["digest"]
    np.testing.assert_allclose(table(name), scores(rows(103)), rtol=1e-5)
    assert not Path(f"{name}.partial").exists()


@pytest.mark.parametrize("name", ["y.npy", "y.zarr", "y.parquet"])
def test_noted_blocks_that_are_gone_are_computed_again(batch: Run, left: Callable[..., Path], name: str) -> None:
    if not name.endswith(".npy"):
        pytest.importorskip("pyarrow" if name.endswith(".parquet") else "zarr", reason="the extra dask is not installed")
    data = data_of(left(name))
    if name == "y.npy":
        (data / "y.npy").unlink()
    elif name == "y.zarr":
        shutil.rmtree(data)
    else:
        (data / "part-00000001.parquet").unlink()
    lost = 1 if name == "y.parquet" else LEFT
    resumed(batch, name, LEFT - lost, lost)


@pytest.mark.parametrize("name", ["y.npy", "y", "y.zarr", "y.parquet"])
def test_files_that_are_no_blocks_do_not_land_in_the_output(batch: Run, left: Callable[..., Path], name: str) -> None:
    """They are kept in the folder of the run: they are somebody's."""
    if name.endswith((".zarr", ".parquet")):
        pytest.importorskip("pyarrow" if name.endswith(".parquet") else "zarr", reason="the extra dask is not installed")
    partial = left(name)
    data = data_of(partial)
    strays = ["notes.txt", "part-00000011.parquet", "part-7.parquet", "part-000000001.parquet", "z.npy", "folder"]
    for stray in strays[:-1]:
        (data / stray).write_text(stray)
    (data / "folder").mkdir()
    summary = batch("--output", name, "--block", "10", "--resume")
    assert (summary["before"], summary["computed"], summary["damaged"]) == (LEFT, BLOCKS - LEFT, 0)
    parts = {"y": ["y.npy"], "y.zarr": ["y", "zarr.json"], "y.parquet": [f"part-{at:08}.parquet" for at in range(BLOCKS)]}
    if name in parts:
        assert sorted(os.listdir(name)) == parts[name]
    np.testing.assert_allclose(table("y/y.npy" if name == "y" else name), scores(rows(103)), rtol=1e-5)
    (aside,) = partial.iterdir()
    assert sorted(os.listdir(aside)) == sorted(strays)
    assert all((aside / stray).read_text() == stray for stray in strays[:-1])
    Path(name).rename(f"other {name}")
    assert batch("--output", name, "--block", "10")["before"] == 0
    assert list(partial.iterdir()) == [aside]


def test_blocks_with_other_bytes_than_noted_are_computed_again(batch: Run, left: Callable[..., Path]) -> None:
    with open(data_of(left()) / "y.npy", "r+b") as file:
        file.seek(128 + 10 * 5 * 4)  # the first row of block 1
        file.write(bytes(4))
    resumed(batch, "y.npy", LEFT - 1, 1)


def test_a_file_of_another_size_is_made_anew(batch: Run, left: Callable[..., Path]) -> None:
    os.truncate(data_of(left()) / "y.npy", 1000)
    resumed(batch, "y.npy", 0, LEFT)


@pytest.mark.parametrize(
    ("spoil", "lost", "damaged"),
    [
        (lambda lines: [lines[0][:30] + lines[1], *lines[2:]], 2, 1),
        (lambda lines: [lines[0].replace(b'"number":0', b'"number":99'), *lines[1:]], 1, 1),
        (lambda lines: [lines[0].replace(b'"number":0', b'"number":-1'), *lines[1:]], 1, 1),
        (lambda lines: [lines[0].replace(b'"number":0', b'"number":8'), *lines[1:]], 1, 1),
        (lambda lines: [*lines, bytes(512), b"\n", b"[]\n", b"\xff\n", b"[" * 100_000 + b"\n"], 0, 4),
        (lambda lines: [*lines, *lines], 0, 0),
        (lambda lines: [*lines[:-1], lines[-1][:-1]], 1, 1),
    ],
)
def test_damaged_lines_count_for_nothing(
    batch: Run, left: Callable[..., Path], spoil: Callable[[list[bytes]], list[bytes]], lost: int, damaged: int
) -> None:
    path = left() / "blocks.jsonl"
    path.write_bytes(b"".join(spoil(path.read_bytes().splitlines(keepends=True))))
    resumed(batch, "y.npy", LEFT - lost, damaged)


def test_lines_are_short(batch: Run, left: Callable[..., Path]) -> None:
    """A million of them have 160 MB: targets, of some 450 bytes, stand in the description of the run."""
    path = left() / "blocks.jsonl"
    lines = path.read_bytes().splitlines()
    assert len(lines) == LEFT
    assert max(map(len, lines)) < 180 + len(os.uname().nodename)
    described = json.loads((path.parent / "run.json").read_bytes())["targets"]
    (name,) = {json.loads(line)["target"] for line in lines}
    assert list(described) == [name]
    summary = batch("--output", "y.npy", "--block", "10", "--resume")
    assert summary["targets"] == {described[name]: BLOCKS}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda targets: {},
        lambda targets: dict.fromkeys(targets, "another"),
        lambda targets: dict.fromkeys(targets, 3),
        lambda targets: list(targets),
        lambda targets: None,
    ],
)
def test_blocks_of_a_target_that_is_not_known_are_computed_again(
    batch: Run, left: Callable[..., Path], spoil: Callable[[dict[str, str]], object]
) -> None:
    path = left() / "run.json"
    described = json.loads(path.read_bytes())
    path.write_text(json.dumps({**described, "targets": spoil(described["targets"])}))
    resumed(batch, "y.npy", 0, LEFT)


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_run_that_does_not_say_what_it_is_is_refused(batch: Run, left: Callable[..., Path], text: str) -> None:
    (left() / "run.json").write_text(text)
    error = batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    assert "run.json is damaged or gone" in error
    assert "fix: remove" in error


def test_a_line_that_the_disk_takes_in_part_is_taken_back(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, wrote = os.write, [0]

    def write(descriptor: int, data: bytes) -> int:
        wrote[0] += 1
        if wrote[0] == 4:
            return real(descriptor, data[:20])
        if wrote[0] == 5:
            raise OSError(28, "No space left on device")
        return real(descriptor, data)

    with monkeypatch.context() as patch:
        patch.setattr(journal, "_COMMIT_SECONDS", -1.0)
        patch.setattr(journal.os, "write", write)
        assert "No space left" in batch("--output", "y.npy", "--block", "10", status=2)["error"]
    resumed(batch, "y.npy", 3, 0)


# --- processes that are killed


def killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let whoever raises `Killed` leave everything as it is, but for the lock, which ends with a process."""
    monkeypatch.setattr(journal.Journal, "_leave", lambda self: os.close(self._locked))


def test_an_output_that_was_moved_away_is_computed_anew(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client dies between giving the output its name and removing the folder of the run."""
    real = outputs.Output.finish

    def finish(self: outputs.Output) -> None:
        real(self)
        raise Killed

    with monkeypatch.context() as patch:
        killed(patch)
        patch.setattr(outputs.Output, "finish", finish)
        with pytest.raises(Killed):
            batch("--output", "y.npy", "--block", "10")
    assert sorted(os.listdir("y.npy.partial"))
    os.rename("y.npy", "kept.npy")
    resumed(batch, "y.npy", 0, BLOCKS)
    assert np.array_equal(np.load("y.npy"), np.load("kept.npy"))


def test_what_a_finished_run_left_is_removed(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        killed(patch)
        batch("--output", "y.npy", "--block", "10")
    assert Path("y.npy.partial").exists()
    assert batch("--output", "y.npy", "--block", "10", "--resume")["computed"] == 0
    assert not Path("y.npy.partial").exists()


def test_an_output_of_somebody_else_costs_no_blocks(batch: Run, left: Callable[..., Path]) -> None:
    partial = left()
    Path("y.npy").write_text("mine")
    assert "is there already" in batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    assert partial.exists()
    Path("y.npy").unlink()
    resumed(batch, "y.npy", LEFT, 0)


def test_an_output_that_is_made_meanwhile_stays(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = outputs.Output.finish

    def finish(self: outputs.Output) -> None:
        Path("y.npy").write_text("mine")
        real(self)

    with monkeypatch.context() as patch:
        patch.setattr(outputs.Output, "finish", finish)
        error = batch("--output", "y.npy", "--block", "10", status=2)["error"]
    assert "it has been made meanwhile; all blocks are in" in error
    assert Path("y.npy").read_text() == "mine"
    assert "is there already" in batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    Path("y.npy").unlink()
    resumed(batch, "y.npy", BLOCKS, 0)


def test_files_of_others_stay(batch: Run, folder: Path) -> None:
    Path("y.npy.partial/data").mkdir(parents=True)
    Path("y.npy.partial/notes.txt").write_text("mine")
    batch("--output", "y.npy", "--block", "10")
    assert sorted(os.listdir("y.npy.partial")) == ["data", "notes.txt"]


def test_files_of_a_writer_that_was_killed_are_not_in_the_output(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra dask is not installed")
    real, count = parquet.write_table, [0]

    def write(table: object, path: Path) -> None:
        count[0] += 1
        if count[0] == 3:
            Path(path).write_bytes(b"PAR1 and not much more")
            raise Killed
        real(table, path)

    with monkeypatch.context() as patch:
        killed(patch)
        patch.setattr(Path, "unlink", lambda self, missing_ok=False: None)
        patch.setattr(parquet, "write_table", write)
        patch.setattr(journal, "_COMMIT_SECONDS", -1.0)
        with pytest.raises(Killed):
            batch("--output", "y.parquet", "--block", "10")
    resumed(batch, "y.parquet", 2, 0)
    assert sorted(os.listdir("y.parquet")) == [f"part-{number:08}.parquet" for number in range(BLOCKS)]


@pytest.mark.parametrize("name", ["y.npy", "y.zarr", "y.parquet"])
def test_a_worker_of_an_earlier_run_finds_nothing_to_write_to(batch: Run, folder: Path, name: str) -> None:
    if not name.endswith(".npy"):
        pytest.importorskip("pyarrow" if name.endswith(".parquet") else "zarr", reason="the extra dask is not installed")
    job = plan(folder, name)
    abandoned = journal.Journal(job, resume=False)
    stale = abandoned.job
    jobs.run_job_block(stale, 0)
    abandoned._is_of_use = True
    abandoned.close()
    shutil.rmtree(f"{name}.partial")
    follower = journal.Journal(job, resume=False)
    before = sorted(Path(f"{name}.partial").rglob("*"))
    with pytest.raises(RunError, match="block 1 cannot be written"):
        jobs.run_job_block(stale, 1)
    assert sorted(Path(f"{name}.partial").rglob("*")) == before
    follower.close()


def test_a_resumed_run_is_out_of_reach_of_the_workers_of_the_one_before(batch: Run, folder: Path) -> None:
    first = journal.Journal(plan(folder), resume=False)
    first.add(running.run_job_block(first.job, 0))
    first.close()
    second = journal.Journal(plan(folder), resume=True)
    assert second.done.count(1) == 1
    with pytest.raises(RunError, match="block 1 cannot be written"):
        jobs.run_job_block(first.job, 1)
    jobs.run_job_block(second.job, 1)
    second.close()


def test_data_is_found_whenever_the_client_died(batch: Run, left: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """It says in `run.json` how the data will be called, dies, and so does its follower."""
    partial = left()

    def rename(*_: object) -> None:
        raise Killed

    for _ in range(2):
        with monkeypatch.context() as patch:
            killed(patch)
            patch.setattr(journal.os, "rename", rename)
            with pytest.raises(Killed):
                batch("--output", "y.npy", "--block", "10", "--resume")
    assert data_of(partial).name != f"data-{json.loads((partial / 'run.json').read_text())['run']}"
    resumed(batch, "y.npy", LEFT, 0)


def test_the_output_is_looked_for_under_the_lock(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One run ends between another's first look at the folder and its lock: its output stays."""
    real = journal._lock

    def lock(partial: Path) -> int:
        monkeypatch.setattr(journal, "_lock", real)
        batch("--output", "y.npy", "--block", "10")
        return real(partial)

    monkeypatch.setattr(journal, "_lock", lock)
    assert "is there already" in batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"]
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)
    assert not Path("y.npy.partial").exists()


def test_the_lock_is_held_until_the_folder_is_gone(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, refused = journal._remove, []

    def remove(paths: list[Path]) -> None:
        if Path("y.npy").exists() and not refused:
            refused.append(batch("--output", "y.npy", "--block", "10", "--resume", status=2)["error"])
        real(paths)

    monkeypatch.setattr(journal, "_remove", remove)
    running.run_job(plan(folder), running.Workers(), quiet=True)
    assert "another run writes to" in refused[0]
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)


# --- inputs that change


def chunked(x: np.ndarray) -> None:
    group = pytest.importorskip("zarr", reason="the extra dask is not installed").open_group("in.zarr", mode="a")
    array = group["x"] if "x" in group else group.create_array("x", shape=x.shape, dtype="f4", chunks=(10, SIZE))
    array[:] = x


def parts(x: np.ndarray) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra dask is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    Path("in.parquet").mkdir(exist_ok=True)
    for at in range(0, 103, 30):
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(x[at : at + 30].ravel()), SIZE)
        parquet.write_table(pyarrow.table({"x": column}), f"in.parquet/{at:03}.parquet", use_dictionary=False)


INPUTS = [(lambda x: np.save("in.npy", x), "x=in.npy"), (chunked, "x=in.zarr/x"), (parts, "x=in.parquet")]


def later(folder: Path) -> None:
    """Let no file have the time of change that it had: clocks of file systems tick slowly."""
    for path in [*folder.glob("in.*"), *folder.glob("in.*/**/*")]:
        status = path.stat()
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 10_000_000))


@pytest.mark.parametrize(("write", "given"), INPUTS)
def test_a_run_is_not_resumed_with_other_inputs(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[np.ndarray], None], given: str
) -> None:
    write(rows(103))
    with monkeypatch.context() as patch:
        stopped_after(patch, 4, KeyboardInterrupt())
        batch("--output", "y.npy", "--block", "10", status=1, inputs=(given,))
    write(rows(103, seed=2))
    later(folder)
    error = batch("--output", "y.npy", "--block", "10", "--resume", status=2, inputs=(given,))["error"]
    assert "has changed since the run began" in error


@pytest.mark.parametrize(("write", "given"), INPUTS)
def test_inputs_that_change_under_way_end_the_run(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[np.ndarray], None], given: str
) -> None:
    write(rows(103))
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        if number == 3:
            write(rows(103, seed=2))
            later(folder)
        return real(job, number)

    monkeypatch.setattr(running, "run_job_block", run)
    error = batch("--output", "y.npy", "--block", "10", status=2, inputs=(given,))["error"]
    assert "is not what it was when the run was planned" in error
    assert not Path("y.npy").exists()


def test_inputs_that_change_after_they_were_read_end_the_run(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk gets older bytes with their older time, behind the workers."""
    chunked(rows(103))
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        found = real(job, number)
        if number == 9:
            path = folder / "in.zarr" / "x" / "c" / "1" / "0"
            path.write_bytes(path.read_bytes())
            os.utime(path, (1, 1))
        return found

    monkeypatch.setattr(running, "run_job_block", run)
    error = batch("--output", "y.npy", "--block", "10", status=2, inputs=("x=in.zarr/x",))["error"]
    assert "in.zarr is not what it was when the run was planned" in error


def disturbed(monkeypatch: pytest.MonkeyPatch, before: dict[int, Callable[[], object]]) -> None:
    """Let something happen in a block, after its rows were read and before they are computed."""
    real, calls = jobs.run_block, iter(range(1000))

    def run(*arguments: object) -> object:
        before.get(next(calls), lambda: None)()
        return real(*arguments)

    monkeypatch.setattr(jobs, "run_block", run)


def test_a_block_whose_input_changes_while_it_is_computed_is_not_noted(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file gets other bytes in place, and is what it was, with its times, when the run is resumed."""
    shutil.copy2("x.npy", "kept.npy")

    def change() -> None:
        np.load("x.npy", mmap_mode="r+")[:] = 0
        os.utime("x.npy", ns=(1, os.stat("x.npy").st_mtime_ns + 10_000_000))

    with monkeypatch.context() as patch:
        disturbed(patch, {6: change})
        error = batch("--output", "y.npy", "--block", "10", "--batch", "5", status=2)["error"]
    assert "is not what it was when the run was planned" in error
    shutil.copy2("kept.npy", "x.npy")
    batch("--output", "y.npy", "--block", "10", "--batch", "5", "--resume")
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)


CHUNK = Path("in.zarr/x/c/7/0")


@pytest.mark.skipif(os.name == "nt", reason="this system does not note when a file was moved")
@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("end", ["all blocks", "interrupt", "kill"])
def test_blocks_are_computed_again_whose_chunk_was_another_one_for_a_while(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch, end: str, older: bool
) -> None:
    """It is moved away, and back, so that sizes and times are as before; chunks that blocks share are not kept meanwhile."""
    chunked(rows(103))

    def away() -> None:
        CHUNK.rename("kept")
        if older:
            shutil.copy("in.zarr/x/c/3/0", CHUNK)
            os.utime(CHUNK, (1, 1))

    def stop() -> None:
        if end != "all blocks":
            raise Killed if end == "kill" else KeyboardInterrupt

    command = ("--output", "y.npy", "--block", "5")
    with monkeypatch.context() as patch:
        disturbed(patch, {9: away, 18: lambda: os.replace("kept", CHUNK), 19: stop})
        if end == "kill":
            killed(patch)
            patch.setattr(journal, "_COMMIT_SECONDS", 0.0)
            patch.setattr(journal.Journal, "close", lambda self, changed: self._leave())
            with pytest.raises(Killed):
                batch(*command, inputs=("x=in.zarr/x",))
        else:
            found = batch(*command, inputs=("x=in.zarr/x",), status=2 if end == "all blocks" else 1)["error"]
            assert end == "interrupt" or ("somebody wrote, moved or replaced files" in found and "fix: --resume" in found)
    assert not Path("y.npy").exists()
    batch(*command, "--resume", inputs=("x=in.zarr/x",))
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)


def test_blocks_before_the_last_look_at_the_inputs_count(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunked(rows(103))
    command = ("--output", "y.npy", "--block", "10")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_LOOK_SECONDS", 0.0)
        patch.setattr(journal, "_LOOK_SHARE", 0)
        disturbed(patch, {6: lambda: os.utime(CHUNK, ns=(1, CHUNK.stat().st_mtime_ns - 1000))})
        error = batch(*command, inputs=("x=in.zarr/x",), status=2)["error"]
    assert "is not what it was when the run was planned" in error
    os.utime(CHUNK, ns=(1, CHUNK.stat().st_mtime_ns + 1000))
    summary = batch(*command, "--resume", inputs=("x=in.zarr/x",))
    assert (summary["before"], summary["computed"], summary["damaged"]) == (6, BLOCKS - 6, 0)


def test_notes_of_a_run_that_was_killed_count_where_nobody_touched_the_inputs(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed(patch)
        patch.setattr(journal, "_COMMIT_SECONDS", 0.0)
        patch.setattr(journal.Journal, "close", lambda self, changed: self._leave())
        stopped_after(patch, LEFT, Killed())
        with pytest.raises(Killed):
            batch("--output", "y.npy", "--block", "10")
    resumed(batch, "y.npy", LEFT, 0)


def test_the_other_arrays_of_a_group_may_change(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunked(rows(103))
    real = jobs.run_job_block

    def run(job: jobs.Job, number: int) -> jobs.BlockRecord:
        if number == 3:
            pytest.importorskip("zarr").open_group("in.zarr", mode="a").create_array("z", data=rows(5))
        return real(job, number)

    monkeypatch.setattr(running, "run_job_block", run)
    batch("--output", "y.npy", "--block", "10", inputs=("x=in.zarr/x",))


# --- runs that never begin


def test_a_run_that_never_began_leaves_nothing(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(os.listdir())
    with monkeypatch.context() as patch:
        patch.setattr(connecting, "_SECONDS", 0.2)
        pytest.importorskip("distributed", reason="the extra dask is not installed")
        error = batch("--output", "y.npy", "--scheduler", "tcp://127.0.0.1:1", status=2)["error"]
        assert "does not answer" in error
    assert sorted(os.listdir()) == before

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(outputs.os, "posix_fallocate", full)
        assert "free some space" in batch("--output", "y.npy", status=2)["error"]
    assert sorted(os.listdir()) == before


def test_a_run_that_was_killed_before_its_first_block_is_begun_anew(
    batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        killed(patch)
        stopped_after(patch, 0, KeyboardInterrupt())
        batch("--output", "y.npy", "--block", "10", status=1)
    assert Path("y.npy.partial/run.json").exists()
    batch("--output", "y.npy", "--block", "20")
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)


# --- what cannot be made, and names that are none


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system where nothing can be made")
def test_a_folder_that_cannot_be_made_is_no_reason_to_wait(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_LOCK_SECONDS", 0.001)
    assert "/proc/o.npy.partial cannot be written" in batch("--output", "/proc/o.npy", status=2)["error"]


def test_a_lock_that_leads_nowhere_is_no_reason_to_wait(batch: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_LOCK_SECONDS", 0.001)
    partial = folder / "y.npy.partial"
    partial.mkdir()
    (partial / "lock").symlink_to("/no/where")
    assert f"{partial} cannot be written: {partial / 'lock'}: No such file" in batch("--output", "y.npy", status=2)["error"]


@pytest.mark.parametrize("name", ["a" * 300, "../../x", "", "data"])
def test_a_run_with_a_name_that_no_run_has(left: Callable[..., Path], batch: Run, name: str) -> None:
    what = left() / "run.json"
    what.write_text(json.dumps({**json.loads(what.read_text()), "run": "../../x", "before": name}))
    resumed(batch, "y.npy", 0, LEFT)
