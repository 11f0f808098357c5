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


def test_the_table_has_shares_of_one_process_and_overheads() -> None:
    code = """
rates = dict(per_second=100.0, per_cpu_second=200.0, per_cpu_second_with_start=160.0)
one = {("process", "joinery"): rates | dict(per_cpu_second=250.0)}
two = {("dask", "joinery"): rates | dict(pss=140.0, added=90.0, driver_block_ms=2.2, engine_block_ms=2.0)}
print(json.dumps([b.row("dask", "joinery", each).split() for each in (one | two, two)]))
"""
    shared, alone = run(code)  # type: ignore[misc]
    assert shared == ["dask", "joinery", "100", "200", "80.0%", "160", "100.0%", "140", "90", "2.20", "2.00", "+10%"]
    assert alone == ["dask", "joinery", "100", "200", "160", "140", "90", "2.20", "2.00", "+10%"]
