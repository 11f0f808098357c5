"""What the command says of its client of Dask: where the dashboard is, if there is one, and no traces of a lost connection."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from joinery.interface.distributed.batch.connecting import dashboard_line, quietly

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
dask = pytest.importorskip("dask")


class BokehApplication:
    """In the place of Dask's pages, which need bokeh."""


def test_a_dashboard_is_shown_where_there_is_one() -> None:
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster.scheduler_address) as client,
    ):
        applications = cluster.scheduler.http_application.applications
        kept = [*applications]
        applications.clear()
        assert client.scheduler_info()["services"]["dashboard"], "Dask serves other pages by that name"
        assert dashboard_line(client).startswith("none; the scheduler was begun without one")
        applications.append(BokehApplication())
        assert dashboard_line(client) == client.dashboard_link
        assert client.dashboard_link.startswith("http")
        applications[:] = kept


def test_a_scheduler_that_runs_nothing_of_others() -> None:
    with (
        dask.config.set({"distributed.scheduler.blocked-handlers": ["run_function"]}),
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0", silence_logs=50) as cluster,
        distributed.Client(cluster.scheduler_address) as client,
    ):
        assert dashboard_line(client) == "the scheduler does not say whether it has one"


class Client(contextlib.AbstractContextManager[None]):
    """A client that logs, as Dask's does, when it is closed without its scheduler."""

    status = "running"

    def __exit__(self, *_: object) -> None:
        log.error("closing")


log = logging.getLogger("distributed.client")


@pytest.fixture
def logged() -> Iterator[list[str]]:
    found: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler = Handler()
    log.addHandler(handler)
    yield found
    log.removeHandler(handler)


def log_all() -> None:
    client: Any = Client()
    with quietly(client):
        log.error("running")
        client.status = "connecting"
        log.error("lost")
    log.error("afterwards")


def test_a_lost_connection_is_told_once(logged: list[str]) -> None:
    log_all()
    assert logged == ["running", "afterwards"]


@pytest.mark.parametrize("key", ["logging", "distributed.logging"])
def test_who_configures_the_log_gets_it(logged: list[str], key: str) -> None:
    with dask.config.set({key: {"distributed.client": "error"}}):
        log_all()
    assert logged == ["running", "lost", "closing", "afterwards"]
