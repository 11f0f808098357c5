"""Blocks in a stream: order, what is in flight, retries, and workers that die, on an engine that a test controls."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import engines
from joinery.interface.distributed.driving import Done, Driver, Task
from joinery.interface.distributed.engines import InProcess, OnExecutor, WorkerDied
from joinery.interface.distributed.failures import Failure

from .conftest import rows, scores


class Unreliable(InProcess):
    """Ends tasks in any order. A task that raises `Fatal` takes all that are in flight with it, as Dask blames them."""

    def __init__(self, workers: int, seed: int = 0) -> None:
        super().__init__()
        self.workers = workers
        self.most = 0
        self.messages = 0
        self.deaths = 0
        self._random = random.Random(seed)
        self._dead: set[int] = set()

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[int]:
        numbers = super().submit(function, calls)
        self.messages += 1
        self.most = max(self.most, len(self._waiting) + len(self._dead) + len(self._done))
        return numbers

    def some_done(self, several: int) -> list[int]:
        """Return one of them, or some more than were asked for."""
        found: list[int] = []
        for _ in range(min(self._random.choice([1, several, several + 1]), len(self._waiting) + len(self._dead))):
            if self._dead:
                found.append(self._dead.pop())
            else:
                self._waiting.rotate(self._random.randrange(len(self._waiting)))
                found += super().some_done(1)
        return found

    def result(self, task: int) -> Any:
        try:
            return super().result(task)
        except Fatal:
            self.deaths += 1
            for number, _, _ in self._waiting:
                self._done[number] = _die
                self._dead.add(number)
            self._waiting.clear()
            raise WorkerDied("killed") from None


class Fatal(Exception):
    """What the engine takes for the death of the worker."""


def _die() -> None:
    raise WorkerDied("blamed")


def double(number: int) -> int:
    return 2 * number


def tasks(count: int, function: Callable[..., Any] = double) -> Iterator[Task]:
    return (Task(number, function, (number,)) for number in range(count))


@pytest.mark.parametrize("name", ["ordered", "same_target"])
def test_texts_are_no_flags(reference: jn.distributed.ModelReference, name: str) -> None:
    """A text such as "no" would count as True."""
    for wrong in ("no", 0, None):
        with pytest.raises(jn.UserError, match=f"stream: {name}={wrong!r} is no bool; fix: True or False"):
            jn.distributed.stream(reference, [rows(2)], **{name: wrong})


@pytest.mark.parametrize("ordered", [True, False])
def test_every_block_ends_once_and_few_are_in_flight(ordered: bool) -> None:
    engine = Unreliable(workers=3)
    done = list(Driver(engine, 2, 3, ordered).run(tasks(200)))
    numbers = [each.number for each in done]
    assert sorted(numbers) == list(range(200))
    assert (numbers == sorted(numbers)) == ordered
    assert all(each.value == 2 * each.number for each in done)
    assert engine.most == 6


@pytest.mark.parametrize("ordered", [True, False])
def test_many_short_blocks_share_messages(ordered: bool) -> None:
    engine = Unreliable(workers=2)
    done = list(Driver(engine, 64, 3, ordered).run(tasks(2000)))
    assert sorted(each.number for each in done) == list(range(2000))
    assert engine.most == 128
    assert engine.messages < 500  # of some 16, or of one where a group that ended has a single block


def test_blocks_that_take_long_to_get_are_not_kept_for_others() -> None:
    """The first ones run while the others are read."""
    engine = Unreliable(workers=4)

    def slow() -> Iterator[Task]:
        for task in tasks(8):
            time.sleep(0.01)
            yield task

    assert len(list(Driver(engine, 2, 3, True).run(slow()))) == 8
    assert engine.messages >= 4


def test_what_others_wait_for_is_tried_again() -> None:
    """In order, few results are held back: a block that fails for once when there are as many is the next one to run."""
    attempts: dict[int, int] = {}

    def run(number: int) -> int:
        attempts[number] = attempts.get(number, 0) + 1
        if number == 0:
            time.sleep(0.2)
            if attempts[0] == 1:
                raise OSError("for once")
        return number

    with ThreadPoolExecutor(2) as executor:
        done = list(Driver(OnExecutor(executor), 2, 3, ordered=True).run(tasks(40, run)))
    assert [each.value for each in done] == list(range(40))
    assert attempts[0] == 2


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_a_poisoned_block_takes_no_other_with_it(ordered: bool, seed: int) -> None:
    def run(number: int) -> int:
        if number in (3, 40):
            raise Fatal
        return 2 * number

    engine = Unreliable(workers=4, seed=seed)
    done = {each.number: each.value for each in Driver(engine, 2, 3, ordered).run(tasks(60, run))}
    assert sorted(done) == list(range(60))
    failed = {number: value for number, value in done.items() if isinstance(value, Failure)}
    assert sorted(failed) == [3, 40]
    assert "its worker died: killed" in str(failed[3])
    assert all(done[number] == 2 * number for number in done if number not in failed)
    assert engine.deaths >= 4  # each of the two with others, and by itself


def test_errors_are_tried_again_and_then_final() -> None:
    attempts: dict[int, int] = {}

    def run(number: int) -> int:
        attempts[number] = attempts.get(number, 0) + 1
        if number == 2 and attempts[2] < 3:
            raise OSError("for a while")
        if number == 5:
            raise ValueError("always")
        return number

    done = {each.number: each.value for each in Driver(InProcess(), 2, 3, True).run(tasks(8, run))}
    assert done[2] == 2
    assert attempts[2] == 3
    assert str(done[5]) == "block 5 failed 4 times: ValueError: always"
    assert attempts[5] == 4


def test_a_mistake_about_the_block_is_not_tried_again() -> None:
    attempts: list[int] = []

    def run(number: int) -> int:
        attempts.append(number)
        raise jn.UserError("the block does not fit")

    (done,) = Driver(InProcess(), 2, 3, True).run(tasks(1, run))
    assert str(done.value) == "block 0 failed: the block does not fit"
    assert attempts == [0]


def test_what_concerns_all_blocks_ends_the_run() -> None:
    def run(number: int) -> int:
        raise jn.distributed.RunError("another version")

    with pytest.raises(jn.distributed.RunError, match="another version"):
        list(Driver(InProcess(), 2, 3, True).run(tasks(5, run)))


def test_blocks_are_taken_as_they_are_needed() -> None:
    """A million blocks are never there at once."""
    taken: list[int] = []

    def endless() -> Iterator[Task]:
        number = 0
        while True:
            taken.append(number)
            yield Task(number, double, (number,))
            number += 1

    driver = Driver(InProcess(), 2, 3, True).run(endless())
    first = [next(driver) for _ in range(100)]
    assert first[-1] == Done(99, 198)
    assert len(taken) < 110


@pytest.mark.parametrize("pool", [True, False])
def test_results_of_blocks(reference: jn.distributed.ModelReference, pool: bool) -> None:
    x = rows(103)
    whole = reference()(x)
    blocks = [x[at : at + 10] for at in range(0, 103, 10)] + [x[:0]]
    with ThreadPoolExecutor(2) as executor:
        found = list(jn.distributed.stream(reference, iter(blocks), executor if pool else None))
    assert [number for number, _ in found] == list(range(12))
    assert found[-1][1].shape == (0, 5)
    assert np.array_equal(np.concatenate([out for _, out in found]), whole)
    np.testing.assert_allclose(whole, scores(x), rtol=1e-5)


def test_blocks_in_any_memory_give_the_same_bits(reference: jn.distributed.ModelReference) -> None:
    x = rows(12)
    shifted = np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)
    readonly = x.copy()
    readonly.flags.writeable = False
    wide = np.zeros((24, 32), np.float32)
    wide[::2, ::2] = x
    blocks = [x, shifted, readonly, wide[::2, ::2], x.astype(">f4"), {"x": x}, (x,)]
    assert not shifted.flags.aligned
    results = [out for _, out in jn.distributed.stream(reference, blocks)]
    assert len(results) == 7
    assert all(np.array_equal(out, results[0]) for out in results)


def test_a_block_that_does_not_fit_is_reported_at_the_end(reference: jn.distributed.ModelReference) -> None:
    x = rows(4)
    results = jn.distributed.stream(reference, [x, x.astype(np.float64), x])
    assert [next(results)[0], next(results)[0]] == [0, 2]
    with pytest.raises(jn.distributed.BlocksFailed, match=r"1 block failed, .*\n  block 1 failed: .*float64") as caught:
        next(results)
    assert [failure.number for failure in caught.value.failures] == [1]


@pytest.mark.parametrize("pool", [True, False])
def test_blocks_may_come_in_one_buffer(reference: jn.distributed.ModelReference, pool: bool) -> None:
    buffer = np.zeros((4, 16), np.float32)

    def blocks() -> Iterator[np.ndarray]:
        for number in range(8):
            buffer[:] = rows(4, seed=number)
            yield buffer

    with ThreadPoolExecutor(2) as executor:
        for number, out in jn.distributed.stream(reference, blocks(), executor if pool else None):
            np.testing.assert_allclose(out, scores(rows(4, seed=number)), rtol=1e-5)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_error_of_the_blocks_comes_after_those_in_flight(
    reference: jn.distributed.ModelReference, ordered: bool
) -> None:
    def blocks() -> Iterator[np.ndarray]:
        yield from (rows(4) for _ in range(5))
        raise KeyError("mine")

    with ThreadPoolExecutor(2) as executor:
        results = jn.distributed.stream(reference, blocks(), executor, ordered=ordered)
        assert sorted(next(results)[0] for _ in range(5)) == [0, 1, 2, 3, 4]
        with pytest.raises(KeyError, match="mine"):
            next(results)


@pytest.mark.parametrize("ordered", [True, False])
def test_an_error_of_the_blocks_names_those_that_failed_before(
    reference: jn.distributed.ModelReference, ordered: bool
) -> None:
    def blocks(count: int) -> Iterator[np.ndarray]:
        yield from (rows(4)[:, : 15 if number in (1, 4) or number > 40 else 16] for number in range(count))
        raise KeyError("mine")

    results = jn.distributed.stream(reference, blocks(5), ordered=ordered)
    assert [next(results)[0] for _ in range(3)] == [0, 2, 3]
    with pytest.raises(KeyError, match="mine") as caught:
        next(results)
    (note,) = caught.value.__notes__
    first, *lines = note.splitlines()
    assert first == "2 blocks failed before this error ended the run"
    assert [line.partition(" failed: ")[0] for line in lines] == ["  block 1", "  block 4"]
    assert all("is 15, not 16" in line for line in lines)
    with pytest.raises(KeyError, match="mine") as caught:
        list(jn.distributed.stream(reference, blocks(60), ordered=ordered))
    assert caught.value.__notes__[0].endswith("\n  and 11 more")
    with pytest.raises(KeyError, match="mine") as caught:
        list(jn.distributed.stream(reference, blocks(1), ordered=ordered))
    assert not hasattr(caught.value, "__notes__")


def test_a_block_of_other_arrays_names_those_that_failed_before(reference: jn.distributed.ModelReference) -> None:
    blocks = [rows(4), rows(4)[:, :15], rows(4), {"z": rows(1)}]
    with pytest.raises(jn.UserError, match="block 3: model 'scorer' takes x") as caught:
        list(jn.distributed.stream(reference, blocks))
    assert caught.value.__notes__[0].startswith("1 block failed before this error ended the run\n  block 1 failed: ")


def test_mistakes_in_the_call(reference: jn.distributed.ModelReference) -> None:
    with pytest.raises(jn.UserError, match=r"stream: in_flight is 0; fix: a number of 1 or more"):
        jn.distributed.stream(reference, [], in_flight=0)
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with pytest.raises(jn.distributed.RunError, match=r"the executor takes no tasks .*fix: one that is not shut down"):
        list(jn.distributed.stream(reference, [rows(1)], executor))
    with pytest.raises(jn.UserError, match=r"stream: client 7; fix: a distributed\.Client"):
        jn.distributed.stream(reference, [], 7)
    with pytest.raises(jn.UserError, match=r"block 0 has 2 arrays, model 'scorer' takes x: float32\[batch, 16\]"):
        list(jn.distributed.stream(reference, [(rows(1), rows(1))]))
    with pytest.raises(jn.UserError, match=r"block 1: model 'scorer' takes x: .*; got z"):
        list(jn.distributed.stream(reference, [rows(1), {"z": rows(1)}]))


class RayOfSmallNodes:
    """Ray as far as an engine asks it: it waits for a node with as many CPUs as a task needs."""

    def __init__(self, *sizes: int) -> None:
        self.sizes, self.needed = list(sizes), 0

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": float(sum(self.sizes))}

    def nodes(self) -> list[dict[str, Any]]:
        gone = {"Alive": False, "Resources": {"CPU": 64.0}}
        return [gone, *[{"Alive": True, "Resources": {"CPU": float(size)} if size else {}} for size in self.sizes]]

    def remote(self, num_cpus: int, **options: object) -> Callable[..., Any]:
        self.needed = num_cpus
        return lambda function: SimpleNamespace(remote=lambda *arguments: len(arguments))

    def wait(self, tasks: list[Any], num_returns: int, timeout: float | None = None) -> tuple[list[Any], list[Any]]:
        fits = max(self.sizes, default=0) >= self.needed
        if not fits and timeout is None:
            raise AssertionError("this would wait for ever")
        return (tasks[:1], tasks[1:]) if fits else ([], tasks)


@pytest.mark.parametrize(("sizes", "fix"), [((2, 3), "fix: 3 threads or fewer, or larger nodes"), ((0,), "fix: larger nodes")])
def test_no_node_of_ray_has_the_cpus_of_a_call(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sizes: tuple[int, ...], fix: str
) -> None:
    ray = RayOfSmallNodes(*sizes)
    monkeypatch.setattr(engines, "required", lambda name, what: ray)
    monkeypatch.setattr(engines, "_ALONE_SECONDS", 0.05)
    engine = engines.OnRay(4)
    engine.submit(double, [(1,), (2,)])
    with pytest.raises(jn.distributed.RunError, match=rf"no node of Ray has 4 CPUs, .*the largest has {max(sizes)}, .*{fix}$"):
        engine.some_done(1)
    assert caplog.text.count("nothing runs until one comes") == 1
    ray.sizes.append(4)
    assert len(engine.some_done(1)) == 1


def test_an_actor_of_ray_takes_columns(reference: jn.distributed.ModelReference) -> None:
    """Ray itself runs it in `make test-scale`."""
    actor = jn.distributed.ray_actor(reference)()
    x = rows(6)
    found = actor({"x": x, "id": np.arange(6)})
    assert sorted(found) == ["id", "y"]
    np.testing.assert_allclose(found["y"], scores(x), rtol=1e-5)
    with pytest.raises(jn.UserError, match=r"lack \['x'\]; model 'scorer' takes x"):
        actor({"z": x})
    with pytest.raises(jn.UserError, match=r"have the names of outputs, \['y'\]"):
        actor({"x": x, "y": x})


def test_an_actor_of_ray_is_for_models_that_treat_rows_alone(tmp_path: Path) -> None:
    """Ray decides which rows are a batch."""

    def saved(name: str, build: Callable[[Any], Any], rows: Any = "batch") -> jn.distributed.ModelReference:
        graph = jn.Graph(name, [jn.TensorType(jn.float32, (rows, 4), "x")])
        graph.output(build(graph.inputs[0]), name="y")
        return jn.distributed.reference(jn.compile(graph, device="cpu"), directory=tmp_path)

    centred = saved("centred", lambda x: x - jn.mean(x, axis=0))
    with pytest.raises(jn.UserError, match=r"ray_actor: model 'centred' cannot .*reduces over 'batch'; fix: .*stream .*indep"):
        jn.distributed.ray_actor(centred)
    with pytest.raises(jn.UserError, match=r"ray_actor: independent=\['rows'\]; model 'centred' has the dims"):
        jn.distributed.ray_actor(centred, independent=["rows"])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    believed = jn.distributed.ray_actor(centred, independent=["batch"])()
    assert np.array_equal(believed({"x": x})["y"], x - x.mean(axis=0))
    for build in (lambda x: jn.transpose(x, 0, 1), lambda x: jn.reshape(x, (2 * jn.dim("batch"), 2))):
        with pytest.raises(jn.UserError, match=r"ray_actor: output y: .* has not one row for each of 'batch'"):
            jn.distributed.ray_actor(saved("moved", build))
    with pytest.raises(jn.UserError, match=r"ray_actor: .*has no axis 'batch'"):
        jn.distributed.ray_actor(saved("summed", lambda x: jn.sum(x, axis=0)), independent=["batch"])
    with pytest.raises(jn.UserError, match=r"ray_actor: .*in several axes or in a computed size"):
        jn.distributed.ray_actor(saved("pairs", lambda x: x - jn.mean(x, axis=0), 2 * jn.dim("pairs")))
    with pytest.raises(jn.UserError, match=r"input x: float32\[3, 4\] of model 'three' has no named size of rows"):
        jn.distributed.ray_actor(saved("three", lambda x: x - jn.mean(x, axis=0), 3))
    alone = saved("alone", lambda x: x - jn.mean(x, axis=1, keepdims=True), 1)
    assert jn.distributed.ray_actor(alone)()({"x": x[:1]})["y"].shape == (1, 4)


@pytest.mark.parametrize("blocks", [5, None, np.float32(1), np.array(1.0)])
def test_blocks_that_are_none(reference: jn.distributed.ModelReference, blocks: object) -> None:
    with pytest.raises(jn.UserError, match=r"stream: blocks is .*; fix: an iterable of blocks"):
        jn.distributed.stream(reference, blocks)  # type: ignore[arg-type]


def test_loops_that_values_end_run_where_the_file_is_trusted(tmp_path: Path) -> None:
    graph = jn.Graph("halving", [jn.TensorType(jn.float32, ("n",), "x")])
    (x,) = graph.inputs

    def step(state: Any) -> Any:
        goes = jn.logical_and(state[0], state[1] > 1.0)
        return goes, jn.where(goes, state[1] / 2, state[1])

    graph.output(jn.while_loop(lambda state: jn.any(state[0]), step, (x > 0, x))[1], name="y")
    jn.save(graph, tmp_path / "m.joinery")
    given = np.array([5, -3, 0.5, 9], np.float32)
    expected = jn.load(tmp_path / "m.joinery", trusted=True)(given)
    reference = jn.distributed.reference(tmp_path / "m.joinery", trusted=True)
    assert np.array_equal(next(jn.distributed.stream(reference, [given]))[1], expected)
    with pytest.raises(jn.distributed.RunError, match="values decide how often a loop runs"):
        list(jn.distributed.stream(jn.distributed.reference(tmp_path / "m.joinery"), [given]))
