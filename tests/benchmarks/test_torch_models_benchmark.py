"""benchmarks/torch_models.py: how it sums up, and that it ends where results are wrong."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(code: str) -> object:
    """Run code that sees the benchmark as `b`, in a process of its own; return the JSON that it prints last."""
    head = f"import sys, json; sys.path.insert(0, {str(BENCHMARKS)!r}); import torch_models as b, harness\n"
    done = subprocess.run([sys.executable, "-c", head + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_overview_has_geometric_means_and_names_what_is_slower() -> None:
    found = run("""
cases = [harness.Measurement(name, "", {"joinery": [ours], "eager": [eager]}, ("joinery",))
         for name, ours, eager in (("a", 1.0, 4.0), ("b", 9.0, 1.0), ("c", 1.0, 2.0))]
print(json.dumps([b.overview(cases), b.geometric_mean([2.0, 8.0])]))
""")
    assert found == ["joinery / eager: 1.04 in the geometric mean of 3; slower in b 9.00", 4.0]


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")
def test_a_model_is_measured_and_wrong_results_end_it() -> None:
    found = run("""
import torch
made = b.measured("relu of 16", False, ("joinery",), 0.01, 1)
try:
    b.check("x", torch.ones(3), torch.zeros(3))
    wrong = False
except AssertionError as error:
    wrong = str(error).startswith("x: ")
print(json.dumps([sorted(made.samples), made.notes["share"].split()[0], wrong]))
""")
    assert found == [["eager", "joinery"], "1.000", True]
