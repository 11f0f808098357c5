"""A worker with another joinery version says so, and goes on to serve others: what comes is read, and refused when used."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import joinery as jn
import numpy as np
import pytest
from joinery.interface.distributed import references
from joinery.interface.distributed.batch import jobs
from joinery.interface.distributed.driving import Driver, Task
from joinery.interface.distributed.engines import OnDask
from joinery.interface.distributed.failures import InputChanged
from joinery.interface.distributed.references import ModelReference

from .conftest import Run, rows

MESSAGE = r"the client has joinery 9\.9\.9, this worker has"


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> None:
    """References leave this process as those of another version."""
    reduce: Callable[[ModelReference], Any] = ModelReference.__reduce__

    def of_another_version(self: ModelReference) -> tuple[Any, ...]:
        function, (_, *fields) = reduce(self)
        return function, ("9.9.9", *fields)

    monkeypatch.setattr(ModelReference, "__reduce__", of_another_version)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Of a worker in this process that gets its messages as those of others do."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with distributed.Client(**options, silence_logs=50) as client:
        yield client


@pytest.fixture
def worker(client: Any) -> Iterator[None]:
    """The worker of before is still there afterwards, and works."""
    before = set(client.scheduler_info()["workers"])
    yield
    assert set(client.scheduler_info()["workers"]) == before
    assert client.submit(os.getpid, pure=False).result(timeout=20) == os.getpid()


def test_a_stream(reference: ModelReference, other: None, client: Any, worker: None) -> None:
    with pytest.raises(jn.distributed.RunError, match=MESSAGE):
        list(jn.distributed.stream(reference, [rows(3)] * 4, client))


def test_arrays(reference: ModelReference, other: None, client: Any, worker: None) -> None:
    da = pytest.importorskip("dask.array")
    found = jn.distributed.map_blocks(reference, da.from_array(rows(12), chunks=(4, -1)))
    with pytest.raises(jn.distributed.RunError, match=MESSAGE):
        client.compute(found).result(timeout=20)


def test_a_file_that_is_brought(reference: ModelReference, other: None, client: Any, worker: None) -> None:
    with pytest.raises(jn.distributed.RunError, match=MESSAGE):
        jn.distributed.bring(client, reference)


def test_a_run_over_files(other: None, client: Any, worker: None, batch: Run) -> None:
    error = batch("--output", "y.npy", "--scheduler", client.scheduler.address, status=2)["error"]
    assert "the client has joinery 9.9.9, this worker has" in error


def test_a_run_whose_description_has_another_form(
    client: Any, worker: None, batch: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_another_version(self: jobs.Job) -> tuple[Any, ...]:
        return jobs._restored, ("9.9.9", b"no pickle of this version")

    monkeypatch.setattr(jobs.Job, "__reduce__", of_another_version)
    error = batch("--output", "y.npy", "--scheduler", client.scheduler.address, status=2)["error"]
    assert "the client has joinery 9.9.9, this worker has" in error


def test_jobs_of_another_version_are_handed_on() -> None:
    arrived = jobs._restored("9.9.9", b"content")
    assert pickle.loads(pickle.dumps(arrived)) == arrived
    with pytest.raises(jn.distributed.RunError, match=MESSAGE):
        jobs.run_job_block(arrived, 0)


class Unreadable:
    """What the process that it comes to cannot make."""

    def __reduce__(self) -> tuple[Any, ...]:
        return getattr, (os, "what only the client has")


def test_a_scheduler_that_cannot_read_tasks(client: Any, worker: None) -> None:
    """It has no joinery, or one without what the tasks name: then no block can be computed."""
    driver = Driver(OnDask(client), 2, 3, ordered=False)
    with pytest.raises(jn.distributed.RunError, match=r"the scheduler of Dask cannot read the tasks.*; fix: one version of"):
        list(driver.run(Task(number, str, (Unreadable(),)) for number in range(3)))


@pytest.mark.parametrize("kind", [jn.distributed.RunError, InputChanged])
def test_errors_that_end_a_run_are_of_their_class_after_any_pickle(kind: type[Exception]) -> None:
    """Ray pickles by value what it does not find in `sys.modules` by the name that it has, which is another class then."""
    dumps = pytest.importorskip("cloudpickle", reason="the extra dask is not installed").dumps
    for sent in (dumps(kind("why")), pickle.dumps(kind("why"))):
        arrived = pickle.loads(sent)
        assert type(arrived) is kind
        assert str(arrived) == "why"


def test_a_pool_of_processes(reference: ModelReference, other: None) -> None:
    """Whose process would end, and the pool with it."""
    with ProcessPoolExecutor(1, get_context("fork")) as executor:
        with pytest.raises(jn.distributed.RunError, match=MESSAGE):
            list(jn.distributed.stream(reference, [rows(3)], executor))
        assert executor.submit(os.getppid).result() == os.getpid()


def test_the_same_version_has_its_results(reference: ModelReference, client: Any) -> None:
    assert type(pickle.loads(pickle.dumps(reference))) is references.ModelReference
    ((_, found),) = jn.distributed.stream(reference, [rows(3)], client)
    assert np.array_equal(found, reference()(rows(3)))
