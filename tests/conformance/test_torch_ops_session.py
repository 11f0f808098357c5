"""A run of PyTorch's samples outlives samples that end or stop its process, and goes on where it was interrupted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .torch_ops.session import Journal, run

CHILD = """
import json, os, signal, sys, time
path, ends = sys.argv[1], sys.argv[2]
known = {json.loads(line)["name"] for line in open(path)} if os.path.exists(path) else set()
for number in range(5):
    name = f"a float32 {number}"
    if name in known:
        continue
    with open(path, "a") as file:
        print(json.dumps({"name": name, "op": "a"}), file=file, flush=True)
        if number == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        if number == 2:
            time.sleep(60)
        if number == 3:
            os._exit(7)
        print(json.dumps({"name": name, "op": "a", "kind": "passed", "reason": ""}), file=file)
sys.exit(int(ends))
"""
"""Runs five samples, of which one is a crash, one never ends, and one ends the process."""


def command(journal: Path, ends: int = 0) -> list[str]:
    return [sys.executable, "-S", "-c", CHILD, str(journal), str(ends)]


@pytest.mark.slow
def test_samples_that_end_their_process_have_raised_and_the_rest_runs(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "out" / "samples.jsonl")
    journal.begin("a float32 0", "a")
    journal.end("a float32 0", "a", "left", "aten.b")
    found = run(journal, command(journal.path), seconds=0.6)
    assert {name: (kind, reason) for name, (_, kind, reason) in found.items()} == {
        "a float32 0": ("left", "aten.b"),
        "a float32 1": ("raises", "it ended the process by SIGSEGV"),
        "a float32 2": ("raises", "it took more than 1 s"),
        "a float32 3": ("raises", "it ended the process with status 7"),
        "a float32 4": ("passed", ""),
    }
    assert run(journal, command(journal.path)) == found


def test_lines_that_were_cut_off_count_as_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "samples.jsonl")
    assert journal.lines() == []
    journal.begin("a float32 0", "a")
    assert journal.begun() == {"name": "a float32 0", "op": "a"}
    with journal.path.open("a") as file:
        file.write('{"name": "a fl')
    assert journal.begun() == {"name": "a float32 0", "op": "a"}
    assert journal.results() == {}


def test_a_child_that_fails_outside_of_samples_ends_the_run(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "samples.jsonl")
    for number in range(5):
        journal.end(f"a float32 {number}", "a", "passed", "")
    with pytest.raises(SystemExit, match="status 3 outside of samples"):
        run(journal, command(journal.path, 3))
