"""Standard streams that take nothing cost no block: the output is made, and the exit status says what could not be shown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import numpy as np
import pytest
from joinery.__main__ import main
from joinery.interface.distributed.batch import progress, running
from joinery.runtime.host.streams import refusal

from .conftest import Run, rows, scores
from .test_batch import stopped_after

ARGUMENTS = ["batch", "m.joinery", "--trusted", "--threads", "1", "--input", "x=x.npy", "--block", "10", "--output", "y.npy"]


def closed() -> TextIO:
    stream = open(os.devnull, "w")  # noqa: SIM115
    stream.close()
    return stream


def unread() -> TextIO:
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "w")


def full() -> TextIO:
    return open("/dev/full", "w")


STREAMS = [
    lambda: None, closed, unread,
    pytest.param(full, marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk")),
]  # fmt: skip
Make = Callable[[], TextIO | None]


@pytest.mark.parametrize("make", STREAMS)
def test_progress_that_nobody_takes_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], make: Make
) -> None:
    monkeypatch.setattr(progress, "_FILE_SECONDS", 0.0)  # a line for each block
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", make())
        assert main(ARGUMENTS) == 0
        running._show_dashboard(SimpleNamespace(dashboard_link="http://127.0.0.1:8787/status"))
        assert main(ARGUMENTS) == 2  # whose error is not on standard output either
    summary = json.loads(capsys.readouterr().out)
    assert (summary["computed"], summary["failed"]) == (11, [])
    np.testing.assert_allclose(np.load("y.npy"), scores(rows(103)), rtol=1e-5)
    assert not Path("y.npy.partial").exists()


@pytest.mark.parametrize("make", STREAMS)
def test_an_interrupted_run_keeps_its_notes_whoever_hears_of_it(
    batch: Run, monkeypatch: pytest.MonkeyPatch, make: Make
) -> None:
    with monkeypatch.context() as patch:
        stopped_after(patch, 4, KeyboardInterrupt())
        patch.setattr(sys, "stderr", make())
        assert main(ARGUMENTS) == 1
    assert batch("--output", "y.npy", "--block", "10", "--resume")["before"] == 4


def test_notes_are_written_whatever_progress_does(batch: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def end(self: progress.Progress) -> None:
        raise MemoryError("of a line")

    with monkeypatch.context() as patch:
        patch.setattr(progress.Progress, "end", end)
        stopped_after(patch, 4, KeyboardInterrupt())
        with pytest.raises(MemoryError):
            main(ARGUMENTS)
    assert batch("--output", "y.npy", "--block", "10", "--resume")["before"] == 4


@pytest.mark.parametrize("make", STREAMS)
def test_a_summary_that_cannot_be_printed_has_an_exit_status(
    batch: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], make: Make
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", make())
        assert main([*ARGUMENTS, "--quiet", "--resume"]) == 3
    error = capsys.readouterr().err
    assert "joinery batch: the summary cannot be printed: standard output: " in error
    again = batch("--output", "y.npy", "--block", "10", "--resume")
    assert again["before"] == 11
    assert f"all blocks are done, {os.path.abspath('y.npy')} is complete, digest {again['digest']}" in error


def test_blocks_that_have_failed_are_named_without_a_summary(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stopped_after(monkeypatch, 8, ValueError("poisoned"))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", None)
        assert main([*ARGUMENTS, "--quiet", "--retries", "0"]) == 1
    assert "; 3 of 11 blocks have failed: 8, 9, 10\n" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full disk")
def test_what_a_stream_has_not_taken_is_forgotten(tmp_path: Path) -> None:
    """Python would try it again when it ends, and have an exit status of its own, 120."""
    with full() as stream:
        assert refusal("lost", stream) == "No space left on device"
        with open(tmp_path / "log", "w+b") as log:
            os.dup2(log.fileno(), stream.fileno())
            assert refusal("kept", stream) is None
            log.seek(0)
            assert log.read() == b"kept\n"


PRINTING = """
import os, sys
from joinery.__main__ import main
from joinery.interface.distributed.batch import jobs, running

def run(job, number):
    os.write(2, b"a library in C")
    if number == 4:
        raise KeyboardInterrupt
    return jobs.run_job_block(job, number)

running.run_job_block = run
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="there is no such shell")
def test_no_file_takes_the_place_of_a_stream_that_is_closed(batch: Run, folder: Path) -> None:
    """The file of notes had descriptor 2, and what was printed there."""
    Path("run.py").write_text(PRINTING)
    command = ["sh", "-c", 'exec "$0" "$@" 2>&- 0<&-', sys.executable, "run.py", *ARGUMENTS, "--quiet"]
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 1
    summary = batch("--output", "y.npy", "--block", "10", "--resume")
    assert (summary["before"], summary["damaged"]) == (4, 0)
