"""Tuned models: searches find what is fastest, choices are kept in a file, and what cannot be tuned says so."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import joinery as jn
import numpy as np
import pytest
from joinery.interface.model import Model
from joinery.lowering.choices.kernel_schedules import edited
from joinery.lowering.choices.model_schedule import KernelSchedule
from joinery.lowering.choices.search import search
from joinery.lowering.tile.schedule import Schedule

RNG = np.random.default_rng(0)
INPUT = RNG.standard_normal((96, 64), np.float32)
WEIGHTS = RNG.standard_normal((64, 70), np.float32)


def model(rows: int | str = 96) -> jn.Graph:
    graph = jn.Graph("tuned")
    x = graph.input(jn.float32, (rows, 64), "x")
    graph.output(jn.softmax(x @ graph.constant(WEIGHTS)), jn.exp(x.T))
    return graph


def convolution() -> jn.Graph:
    graph = jn.Graph("convolution")
    x = graph.input(jn.float32, (1, 24, 24, 32), "x")
    graph.output(jn.conv2d(x, graph.constant(RNG.standard_normal((3, 3, 32, 32), np.float32))))
    return graph


def searched(graph: jn.Graph, cost: Callable[[Schedule, KernelSchedule], float]) -> list[tuple[KernelSchedule, int, float]]:
    """Search with a made-up cost; returns the best of each kernel, how many were tried, and the cost of the first."""
    compiled = jn.compile(graph, "cpu", cache=False)
    tiled = compiled._tiled()
    found = []
    for name, nest, default in zip(tiled.laid_out.names, tiled.plan.nests, tiled.schedules, strict=True):
        steps = search(nest, default, name)
        said, tried, first = next(steps), 0, None
        try:
            while True:
                seconds = cost(edited(nest, default, said, name), said)  # which refuses what is illegal
                first = seconds if first is None else first
                said, tried = steps.send(seconds), tried + 1
        except StopIteration as end:
            found.append((end.value, tried, first))
    return found


@pytest.mark.one_in(2)
@pytest.mark.parametrize("graph", [model, convolution])
def test_a_search_keeps_what_costs_less_and_ends(graph: Callable[[], jn.Graph]) -> None:
    def cost(schedule: Schedule, said: KernelSchedule) -> float:
        return sum(abs(np.log2(size) - 5) for _, size in schedule.blocks) + schedule.streaming + 0.1

    for best, tried, first in searched(graph(), cost):
        assert 1 <= tried < 40
        sizes = {} if best.blocks is None else best.blocks
        assert sum(abs(np.log2(size) - 5) for size in sizes.values()) <= first


def test_noise_changes_nothing() -> None:
    generator = np.random.default_rng(0)
    for best, _, _ in searched(model(), lambda schedule, said: 1 - 0.015 * generator.random()):
        assert best.blocks is None


@pytest.mark.slow
def test_a_tuned_model_computes_the_same_and_its_choice_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock.json"
    tuned = jn.compile(model(), "cpu", cache=False, tune=jn.Tuning(20, lock=lock, progress=False), threads=1)
    scores = INPUT.astype(np.float64) @ WEIGHTS
    powers = np.exp(scores - scores.max(1, keepdims=True))
    np.testing.assert_allclose(tuned(INPUT)[0], powers / powers.sum(1, keepdims=True), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(tuned(INPUT)[1], np.exp(INPUT.T), rtol=1e-6)
    ((name, entry),) = json.loads(lock.read_text())["models"].items()
    assert name.startswith("tuned ")
    assert name.endswith(" 1 threads")
    assert entry["seconds"] > 0
    monkeypatch.setattr(Model, "profile", lambda *_, **__: pytest.fail("it was measured again"))
    again = jn.compile(model(), "cpu", cache=False, tune=jn.Tuning(20, lock=lock), threads=1)
    assert again.schedule == tuned.schedule
    lock.write_text("[1]")
    with pytest.raises(jn.UserError, match=r"lock file .* is not valid: expected format 1 and models; fix: delete it"):
        jn.compile(model(), "cpu", cache=False, tune=jn.Tuning(20, lock=lock), threads=1)


def test_a_slower_choice_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("joinery.interface.tuning.models._compared", lambda first, second, inputs: (False, 1.0))
    lock = tmp_path / "lock.json"
    tuned = jn.compile(model(), "cpu", cache=False, tune=jn.Tuning(0.2, lock=lock), threads=1)
    assert tuned.schedule == jn.compile(model(), "cpu", cache=False, threads=1).schedule
    assert next(iter(json.loads(lock.read_text())["models"].values()))["schedule"] == ""


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["fast", pytest.param("strict", marks=pytest.mark.slow), "reproducible"])
def test_all_algorithms_of_a_convolution_are_tried(monkeypatch: pytest.MonkeyPatch, numerics: str) -> None:
    seen = []
    real = Model.profile

    def profile(self: Model, *inputs: object, **options: int) -> object:
        seen.append({self.schedule[name].algorithm for name in self.schedule} - {None})
        return real(self, *inputs, **options)

    monkeypatch.setattr(Model, "profile", profile)
    jn.compile(convolution(), "cpu", cache=False, tune=3, threads=1, numerics=numerics)
    assert {"plain"} in seen
    assert ({"winograd"} in seen) == (numerics != "reproducible")
    assert ({"winograd4"} in seen) == (numerics == "fast")


@pytest.mark.slow
def test_sizes_and_inputs_are_those_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(jn.UserError, match=r"'n' is known only at a call; fix: tune=joinery.Tuning\(seconds=60, sizes=\{'n'"):
        jn.compile(model("n"), "cpu", cache=False, tune=1)
    tuned = jn.compile(model("n"), "cpu", cache=False, tune=jn.Tuning(0.1, sizes={"n": 40}, progress=True))
    assert "tuning [" in capsys.readouterr().err
    assert tuned(INPUT)[0].shape == (96, 70)
    jn.compile(model("n"), "cpu", cache=False, tune=jn.Tuning(0.1, inputs={"x": INPUT}))
    with pytest.raises(jn.UserError, match="tune with an input 'y'; fix: 'x'"):
        jn.compile(model("n"), "cpu", cache=False, tune=jn.Tuning(0.1, inputs={"y": INPUT}))


NO_TIMES = [0, -1, float("nan"), float("inf"), True, "60", jn.Tuning("60"), jn.Tuning(1, sizes={"n": -1})]


@pytest.mark.parametrize("tune", NO_TIMES)
def test_what_is_no_time_is_refused(tune: object) -> None:
    with pytest.raises(jn.UserError, match="fix: "):
        jn.compile(model(), "cpu", cache=False, tune=tune)


@pytest.mark.slow
def test_a_round_that_does_not_compile_is_slower_than_any(monkeypatch: pytest.MonkeyPatch) -> None:
    real, rounds = jn.compile, []

    def failing(graph: jn.Graph, *args: object, schedule: object = None, **options: object) -> jn.Model:
        rounds.append(schedule)
        if schedule is not None and len(rounds) in (3, 4):
            raise jn.UnsupportedError("too much scratch memory; fix: smaller blocks")
        return real(graph, *args, schedule=schedule, **options)

    monkeypatch.setattr("joinery.interface.compiling.compile", failing)
    tuned = real(model(), "cpu", cache=False, tune=3, threads=1)
    assert len(rounds) > 4
    assert tuned(INPUT)[0].shape == (96, 70)


def test_what_cannot_be_tuned_says_so() -> None:
    graph = jn.Graph("host")
    graph.output(jn.nonzero(graph.input(jn.float32, (4,), "x")))
    with pytest.raises(jn.UnsupportedError, match="fix: leave tune= out"):
        jn.compile(graph, "cpu", tune=1)
    with pytest.raises(jn.UnsupportedError, match="fix: device='cpu'"):
        jn.compile(model(), "ptxsim", cache=False, tune=1)
    with pytest.raises(jn.UserError, match="schedule and tune; fix: one of them"):
        jn.compile(model(), "cpu", tune=1, schedule=jn.compile(model(), "cpu", cache=False).schedule)
