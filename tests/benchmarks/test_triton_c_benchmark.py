"""benchmarks/triton_c.py: how it counts, that its pairs do the same, and that main loops in Triton-C are no longer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NESTED = """
$L1:
  mov.u32 %r1, 0;
$L2:
  add.s32 %r1, %r1, 1;
  setp.lt.s32 %p1, %r1, 9;
  @%p1 bra $L2;
$L3:
  // a comment
  @%p2 bra $L1;
$L4:
  bra.uni $L4;
"""


def run(code: str) -> object:
    """Run code that sees the benchmark as `b`, in a process of its own; return the JSON that it prints last."""
    head = f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r}); import triton_c as b\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
def test_the_longest_innermost_loop_counts_and_dense_texts_are_kernels() -> None:
    code = f"""
found = b.reading(1)
counts = b.main_loop({NESTED!r}), b.main_loop("add.s32 %r1, %r1, 1;")
print(json.dumps([*counts, sorted(found), all(each["median_s"] > 0 for each in found.values())]))
"""
    assert run(code) == [3, 0, ["attention", "products"], True]


@pytest.mark.slow
def test_main_loops_are_no_longer_than_those_of_texts_by_triton() -> None:
    found = run("print(json.dumps({name: b.on_gpus(name, pair) for name, pair in b.PAIRS.items()}))")
    assert isinstance(found, dict)
    assert len(found) == 6
    for name, targets in found.items():
        for target, loops in targets.items():
            assert loops["Triton-C"] <= loops["TTIR"], (name, target)


@pytest.mark.slow
def test_pairs_compute_the_same() -> None:
    code = """
b.sample = lambda contenders, seconds: {each.name: [1.0] for each in contenders}
pairs = {name: pair for name, pair in b.PAIRS.items() if pair.launch is not None}
print(json.dumps([list(b.on_the_host(name, pair, 2, 0).samples) for name, pair in pairs.items()]))
"""
    assert run(code) == [["Triton-C", "TTIR"]] * 4
