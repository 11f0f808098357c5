"""Starts workers of Dask on this machine, with a scheduler that does not remember every task, and little beside the tasks."""

from __future__ import annotations

from typing import Any

from distributed import LocalCluster
from distributed.scheduler import DEFAULT_EXTENSIONS
from distributed.spans import SpansSchedulerExtension

from .extras import required

_SETTINGS = {
    # Workers that take longer to return than this are given up for good, and a busy machine is slow to start one.
    "distributed.deploy.lost-worker-timeout": "5 minutes",
    # Each process of Dask looks at itself 50 times a second, and workers at what they run 100 times: 4 % of two cores.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}


class LeanSpans(SpansSchedulerExtension):  # type: ignore[misc] # of a library without types
    """Spans without a note of each submission: Dask keeps these as long as the scheduler lives, 240 bytes for each block."""

    def observe_tasks(self, tss: Any, code: Any, span_metadata: Any) -> Any:
        """Observe tasks as Dask does, but for what was submitted."""
        return super().observe_tasks(tss, code=code, span_metadata=None)


def lean_extensions() -> dict[str, Any]:
    """Return Dask's extensions of a scheduler, with these spans in place of its own."""
    return {**DEFAULT_EXTENSIONS, "spans": LeanSpans}


def local_cluster(workers: int) -> Any:
    """Return a cluster of processes of this machine, and set what Dask does beside the tasks, for this process as well.

    Workers that die are replaced, with these settings: nannies read them then. Raises what Dask raises where it cannot start.
    """
    required("dask", "batch --workers").config.set(_SETTINGS)
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs=50,
        scheduler_kwargs={"extensions": lean_extensions()},
    )  # fmt: skip
