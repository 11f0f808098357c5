"""benchmarks/scaleout.py: its sentences, and the simulation of more workers than there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(code: str) -> object:
    """Run code that sees the benchmark as `b`, in a process of its own; return the JSON that it prints last."""
    head = f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r}); import scaleout as b\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_sentences_are_cut_into_blocks() -> None:
    code = "print(json.dumps([[list(x['input_ids'].shape), int((x['input_ids'] * (1 - x['attention_mask'])).sum())]"
    assert run(code + " for x in b.blocks(600)]))") == [[[256, 17], 0], [[256, 17], 0], [[88, 17], 0]]


def test_the_simulation_is_linear_until_the_scheduler_is_busy() -> None:
    found = run("print(json.dumps([b.simulated(0.1, each, 10) for each in (0.0, 0.001, 0.01, 0.02, 0.1)]))")
    assert isinstance(found, list)
    assert abs(found[0] - 1) < 1e-9
    assert found[1] > 0.98
    assert abs(found[3] - 0.5) < 0.02  # 10 workers of 0.1 s ask for a block each 0.01 s, and get one each 0.02 s
    assert abs(found[4] - 0.1) < 0.02
    assert found == sorted(found, reverse=True)
