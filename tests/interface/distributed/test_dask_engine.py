"""Tasks on Dask through the driver: small and large results, errors, streams that nobody reads to their end, idle clusters."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import engines
from joinery.interface.distributed.driving import Driver, Task
from joinery.interface.distributed.engines import OnDask
from joinery.interface.distributed.failures import Failure

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.Client(**options) as client:
        yield client


def tasks(count: int, function: Callable[..., Any], *arguments: Any) -> Iterator[Task]:
    return (Task(number, function, (number, *arguments)) for number in range(count))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, condition
        time.sleep(0.02)


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("limit", [0, 20_000, 1 << 30])
@pytest.mark.parametrize(("in_flight", "ordered"), [(2, True), (2, False), (40, False)])
def test_results_are_those_of_their_tasks(
    client: Any, monkeypatch: pytest.MonkeyPatch, size: int, limit: int, in_flight: int, ordered: bool
) -> None:
    """Whether they come when they are there, when they are asked for, or now so and now so."""
    monkeypatch.setattr(engines, "_FETCHED_BYTES", limit)
    scheduler = client.cluster.scheduler

    def work(number: int, size: int) -> np.ndarray:
        return np.full(size if number % 3 else 1, number)

    most, found = 0, []
    for done in Driver(OnDask(client), in_flight, 3, ordered).run(tasks(100, work, size)):
        most = max(most, len(scheduler.tasks))
        assert done.value.tolist() == [done.number] * (size if done.number % 3 else 1)
        found.append(done.number)
    assert sorted(found) == list(range(100))
    assert (found == sorted(found)) or not ordered
    assert most <= 2 * 2 * in_flight  # those whose end the scheduler has not been told yet
    del done
    wait_for(lambda: gc.collect() >= 0 and not scheduler.tasks)


def test_large_arguments_and_small_ones(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "_INLINE_BYTES", 1000)
    monkeypatch.setattr(engines, "_TOGETHER_BYTES", 3000)

    def work(number: int, block: np.ndarray) -> int:
        return int(block.sum()) + number

    sizes = [1, 100, 124, 126, 4000, 0, 5] * 10
    given = (Task(number, work, (number, np.ones(size, np.int64))) for number, size in enumerate(sizes))
    done = {each.number: each.value for each in Driver(OnDask(client), 16, 3, ordered=False).run(given)}
    assert done == {number: size + number for number, size in enumerate(sizes)}


def test_blocks_that_go_by_themselves_keep_their_inputs(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dask takes the keys of a dict for the names of what is sent, and blocks are dicts."""
    monkeypatch.setattr(engines, "_INLINE_BYTES", 1000)

    def work(inputs: dict[str, np.ndarray]) -> float:
        return float(inputs["x"].mean())

    given = (Task(number, work, ({"x": np.full(500, number, np.float64)},)) for number in range(40))
    done = {each.number: each.value for each in Driver(OnDask(client), 16, 3, ordered=False).run(given)}
    assert done == {number: number for number in range(40)}


def test_errors_are_tried_again_and_reported(client: Any) -> None:
    def work(number: int) -> int:
        if number % 5 == 0:
            raise ValueError(f"of {number}")
        return number

    done = {each.number: each.value for each in Driver(OnDask(client), 8, 2, ordered=True).run(tasks(30, work))}
    assert sorted(done) == list(range(30))
    for number, value in done.items():
        if number % 5:
            assert value == number
        else:
            assert isinstance(value, Failure)
            assert str(value) == f"block {number} failed 3 times: ValueError: of {number}"
    wait_for(lambda: not client.cluster.scheduler.tasks)  # no error holds its task


@pytest.mark.parametrize("limit", [0, 1 << 30])
def test_a_stream_that_nobody_reads_on_begins_no_more(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(engines, "_FETCHED_BYTES", limit)

    def work(number: int, folder: Path) -> int:
        (folder / str(number)).touch()
        time.sleep(0.1)
        return number

    done = Driver(OnDask(client), 8, 3, ordered=False).run(tasks(100, work, tmp_path))
    next(done)
    done.close()
    wait_for(lambda: not client.cluster.scheduler.tasks)
    time.sleep(0.5)
    assert len(list(tmp_path.iterdir())) <= 8  # of the 16 that were in flight


def test_an_asynchronous_client_is_refused(reference: jn.distributed.ModelReference) -> None:
    """Its messages would wait for the stream, which waits for them."""

    async def stream() -> None:
        async with distributed.Client(n_workers=1, processes=False, dashboard_address=":0", asynchronous=True) as client:
            with pytest.raises(jn.UserError, match=r"the client is asynchronous, .*fix: .*in another thread"):
                jn.distributed.stream(reference, [], client)

    asyncio.run(stream())


IDLE = """
import os, time
from distributed import Client
from joinery.interface.distributed.dask_clusters import local_cluster

def seconds(pids):
    fields = [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split() for pid in pids]
    return sum(int(each[11]) + int(each[12]) for each in fields) / os.sysconf("SC_CLK_TCK")

def main():
    with local_cluster(2) as cluster, Client(cluster) as client:
        pids = [os.getpid(), *client.run(os.getpid).values()]
        time.sleep(2)
        before = seconds(pids)
        time.sleep(10)
        print((seconds(pids) - before) / 10)

if __name__ == "__main__":
    main()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processor time is read in /proc")
def test_a_cluster_that_has_nothing_to_do_does_little(tmp_path: Path) -> None:
    """Client, scheduler and two workers: some 1 % of a core, where Dask's own settings take 8 %."""
    (tmp_path / "idle.py").write_text(IDLE)
    given = [sys.executable, str(tmp_path / "idle.py")]
    done = subprocess.run(given, capture_output=True, text=True, check=False, timeout=300, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 0.04
