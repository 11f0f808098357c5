"""benchmarks/workloads: its lists, that results are compared with a peer's before they are timed, and what it says of them."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SAMPLED = {
    "elementwise": "x + y of 16 float32",
    "casts": "cast float32 to bool",
    "reductions": "sums of 100 blocks of 20x20",
    "moving": "permute uint8 64x64x64 to 210",
    "indices": "embedding of 5000 in 50 rows of 64",
    "products": "matmul float32 64x64x64",
    "images": "cosine transforms of 8x8 blocks",
    "convolutions": "means of 2x2 by slices, channels last",
    "networks": "gates of an LSTM 64x1024",
    "training": "binary cross entropy",
    "simulations": "step of advection along rows of 512",
    "geometry": "intersections of 200 and 300 boxes",
    "signals": "lengths of pairs",
    "statistics and finance": "covariance of 32 columns",
    "bits and texts": "bytes to their bits",
}
"""A small workload of each family that NumPy can run."""


@pytest.fixture(autouse=True, scope="module")
def _importable() -> Any:
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


@pytest.fixture(scope="module")
def peers() -> Any:
    """NumPy, and a peer that is not installed."""
    from peers import Peers

    found = Peers(1, with_joinery=True, names=("numpy",))
    found.absent["jax"] = "No module named 'jax'"
    return found


def workload(**changes: Any) -> Any:
    """Return a small workload of float32."""
    from workloads.workload import Workload, draw, normal

    added = Workload("sum", "family", draw([normal(8), normal(8)]), lambda jn, x, y: x + y, numpy=np.add)
    return dataclasses.replace(added, **changes)


def test_names_are_unique_and_every_workload_has_a_peer() -> None:
    from workloads.selection import FAMILIES, WORKLOADS

    counts = Counter(each.name.lower() for each in WORKLOADS)
    assert [name for name, count in counts.items() if count > 1] == []
    assert [each.name for each in WORKLOADS if not each.peers] == []
    assert [family.name for family in FAMILIES] == list(SAMPLED)
    assert all(each.family == family.name for family in FAMILIES for each in family.workloads)


def test_inputs_are_the_same_in_every_call() -> None:
    from workloads.selection import selected

    (chosen,) = selected(["linear layer and relu, constant weights"])
    for draw in (chosen.arrays, chosen.constants):
        for one, other in zip(draw(), draw(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.one_in(16)
@pytest.mark.parametrize("family", SAMPLED)
def test_results_agree_with_numpy(family: str, peers: Any) -> None:
    from workloads.measuring import measured
    from workloads.selection import WORKLOADS
    from workloads.summary import line

    (chosen,) = (each for each in WORKLOADS if each.name == SAMPLED[family])
    assert chosen.family == family
    outcome = measured(dataclasses.replace(chosen, torch=None), peers, seconds=0.0, rounds=1)
    assert outcome.faults == ()
    assert list(outcome.measurement.samples) == ["joinery", "numpy"]
    assert outcome.ratio > 0
    assert "jax cannot run it: No module named 'jax'" in line(outcome)


def test_constants_belong_to_the_graph(peers: Any) -> None:
    from workloads.measuring import measured
    from workloads.workload import draw, normal

    def scaled(jn: Any, x: Any, y: Any, scale: Any) -> Any:
        assert scale.graph is x.graph
        return (x + y) * scale

    changed = workload(joinery=scaled, numpy=lambda x, y, scale: (x + y) * scale, constants=draw([normal(8)]))
    assert measured(changed, peers, seconds=0.0, rounds=1).faults == ()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"numpy": np.subtract}, "joinery differs from numpy: relative error"),
        ({"numpy": lambda x, y: (x + y)[:4]}, r"joinery differs from numpy: shape \(8,\) for \(4,\)"),
        ({"numpy": lambda x, y: (x, y)}, "joinery differs from numpy: 1 results for 2"),
        ({"joinery": lambda jn, x, y: jn.reshape(x, (3, 3))}, "joinery cannot run it: UserError: reshape"),
    ],
)
def test_wrong_results_are_faults_and_are_not_timed(changes: dict[str, Any], fault: str, peers: Any) -> None:
    from workloads.command import result
    from workloads.measuring import measured
    from workloads.summary import line, overview

    outcome = measured(workload(**changes), peers, seconds=0.0, rounds=1)
    assert outcome.measurement is None
    assert re.match(fault, outcome.faults[0])
    assert line(outcome) == f"FAULT sum: {outcome.faults[0]}"
    assert overview([outcome]).endswith(line(outcome))
    assert result([outcome], 1, {}, [])["faults"] == {"sum": list(outcome.faults)}


def test_a_peer_that_cannot_run_a_workload_is_named(peers: Any) -> None:
    from workloads.measuring import measured
    from workloads.summary import line, overview

    def lacking(_x: Any, _y: Any) -> Any:
        raise NotImplementedError("not for float32\nand more")

    outcome = measured(workload(numpy=lacking), peers, seconds=0.0, rounds=1)
    assert outcome.unable == {"numpy": "NotImplementedError: not for float32"}
    assert outcome.ratio is None
    assert "numpy cannot run it: NotImplementedError" in line(outcome)
    assert "without a peer: sum" in overview([outcome])


def test_differences_are_exact_for_integers_and_relative_for_floats() -> None:
    from workloads.measuring import difference

    ones, other = np.ones(1000, np.int32), np.ones(1000, np.int64)
    other[0] = 2
    assert difference(workload(), ones, np.ones(1000, np.int64)) == ""
    assert difference(workload(), ones, other) == "0.10% of the integers differ"
    assert difference(workload(differing=1e-3), ones, other) == ""
    near = np.ones(8, np.float32) + np.float32(1e-3)
    assert difference(workload(), near, np.ones(8, np.float32)).startswith("relative error 1.00e-03")
    assert difference(workload(tolerance=1e-2), near, np.ones(8, np.float32)) == ""
    assert difference(workload(), near.astype(np.float16), np.ones(8, np.float32)) == ""
    assert difference(workload(compared=False), near, np.zeros(8, np.float32)) == ""
    assert difference(workload(), np.full(8, np.nan), np.ones(8))
    numbers = np.array([1 + 2j, 3 - 1j], np.complex64)
    assert difference(workload(), numbers.view(np.float32).reshape(2, 2), numbers) == ""
    assert difference(workload(), numbers.conj(), numbers)


def test_the_overview_has_means_of_families_counts_and_what_is_behind() -> None:
    from harness import Measurement
    from workloads.measuring import Outcome
    from workloads.summary import overview

    def outcome(name: str, family: str, ours: float, theirs: float) -> Outcome:
        samples = {"joinery": [ours], "numpy": [theirs], "torch": [10 * theirs]}
        return Outcome(workload(name=name, family=family), Measurement(name, "", samples, ("joinery",)), (), {})

    found = overview([outcome("a", "one", 2.0, 1.0), outcome("b", "one", 1.0, 2.0), outcome("c", "two", 1.1, 1.0)])
    rows = [line.split() for line in found.splitlines()]
    assert rows[0] == ["cases", "mean", ">", "1.03", ">", "1.25", ">", "1.5"]
    assert rows[1] == ["one", "2", "1.00", "1", "1", "1"]
    assert rows[2] == ["two", "1", "1.10", "1", "0", "0"]
    assert rows[3] == ["all", "3", "1.03", "2", "1", "1"]
    assert "behind: a 2.00, c 1.10" in found


def test_result_files_are_compared_and_reported_as_others_are(peers: Any) -> None:
    import compare
    import report
    from workloads.command import result
    from workloads.measuring import measured

    content = result([measured(workload(), peers, seconds=0.0, rounds=2)], 1, peers.absent, [0.0])
    (change,) = compare.changes(content, content)
    assert (change.case, change.pair, change.factor) == ("sum", "joinery / numpy", 1.0)
    assert "| sum | numpy |" in report.markdown(content)
    assert content["cases"][0]["family"] == "family"


def test_texts_select_by_name_and_family() -> None:
    from workloads.selection import WORKLOADS, selected

    assert len(selected([])) == len(WORKLOADS)
    assert {each.family for each in selected(["convolutions"])} == {"convolutions"}
    found = selected(["SOFTMAX", "cast bool"])
    assert {each.family for each in found} == {"casts", "networks"}
    assert all("softmax" in each.name or "cast bool" in each.name for each in found)


def test_an_unknown_name_ends_the_command_with_a_suggestion() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARKS / "workloads"), "sofmax"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("no workload or family has 'sofmax' in its name; did you mean 'softmax'")
