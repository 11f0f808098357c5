"""Runs a job over files to its end: cluster, blocks, journal, summary."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any

from ....promotion.dataclass import dataclass
from ....promotion.errors import UserError
from ....runtime.host.streams import tell
from ....runtime.host.threads import default_threads
from ..driving import Driver, Task
from ..engines import Engine, InProcess, OnDask, OnRay
from ..extras import required
from ..failures import Failure, InputChanged, RunError
from .connecting import connected, dashboard_line, quietly
from .jobs import BlockRecord, Job, host_name, run_job_block
from .journal import Journal, is_resumable
from .progress import Progress


@dataclass(frozen=True, slots=True)
class Workers:
    """Who computes: processes of this machine, a scheduler of Dask, or Ray.

    Attributes:
        count: processes; 0 for this one.
        scheduler: the address of one of Dask; "" for none.
        ray: whether Ray runs the blocks.
        bring: whether the model's file is brought to workers of the scheduler.
    """

    count: int = 0
    scheduler: str = ""
    ray: bool = False
    bring: bool = False


def run_job(
    job: Job, workers: Workers, *, resume: bool = False, same_target: bool = False, retries: int = 3, in_flight: int = 2,
    quiet: bool = False, completing: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Compute the blocks of a job that are missing, and return a summary.

    The output appears when all blocks are done; otherwise a folder beside it has those that are, for a later run with `resume`.
    `completing` is called once all blocks are done: what ends the process from there on loses nothing but time.

    Raises `UserError` and `RunError` where no block can be computed or written.
    """
    journal = Journal(replace(job, host=host_name()), resume)
    job = journal.job
    began, before = time.monotonic(), job.blocks - journal.done.count(0)
    failures: list[Failure] = []
    progress = Progress(job.blocks, before, quiet)
    try:
        job = replace(job, target=_target(journal) if same_target else None)
        if before < job.blocks:
            with _engine(job, workers) as (engine, job):
                driver = Driver(engine, in_flight, retries, ordered=False)
                for done in driver.run(Task(number, run_job_block, (job, number)) for number in journal.missing()):
                    if isinstance(done.value, Failure):
                        failures.append(replace(done.value, rows=job.rows_of(done.number)))
                    else:
                        _require_target(journal, done.value, same_target)
                        journal.add(done.value)
                    progress.count(isinstance(done.value, Failure))
        progress.end()
        if not journal.is_complete:
            journal.look()
        if not failures:
            completing()
    except BaseException as error:
        try:
            progress.end()
        finally:
            journal.close(changed=isinstance(error, InputChanged))
        raise
    if failures:
        journal.close()
    else:
        journal.complete()
    return _summary(job, journal, before, failures, time.monotonic() - began)


def _target(journal: Journal) -> str | None:
    if len(journal.targets) > 1:
        raise UserError(f"--same-target: the run has blocks of {', '.join(sorted(journal.targets))}; fix: begin it anew")
    return next(iter(journal.targets), None)


def _require_target(journal: Journal, record: BlockRecord, same_target: bool) -> None:
    if same_target and journal.targets and record.target not in journal.targets:
        raise RunError(
            f"block {record.number} was computed on {record.worker} with code for {record.target}, others with code for "
            f"{next(iter(journal.targets))}; fix: workers with one kind of CPU, or no --same-target"
        )


def _summary(job: Job, journal: Journal, before: int, failures: list[Failure], seconds: float) -> dict[str, Any]:
    failed = [
        {"block": each.number, "rows": list(each.rows or ()), "attempts": each.attempts, "error": each.error}
        for each in sorted(failures, key=lambda failure: failure.number)
    ]
    done = job.blocks - journal.done.count(0)
    kept = str(job.output.partial) if is_resumable(job.output) else None  # if all blocks have failed, nothing is
    return {
        "output": kept if failures else job.output.path, "model": job.reference.digest,
        "rows": job.output.rows, "blocks": job.blocks, "computed": done - before, "before": before,
        "damaged": journal.damaged, "failed": failed, "seconds": round(seconds, 3), "targets": journal.targets,
        "digest": f"{journal.digest:064x}",
    }  # fmt: skip


@contextlib.contextmanager
def _engine(job: Job, workers: Workers) -> Iterator[tuple[Engine, Job]]:
    """Yield what runs the blocks, and the job with the threads that its workers have."""
    if workers.scheduler:
        distributed = required("distributed", "batch --scheduler")
        with quietly(connected(distributed, workers.scheduler)) as client:
            _pass_over_given_up_waits(client)
            if workers.bring:
                from ..dask_workers import bring

                bring(client, job.reference)
            _show_dashboard(client)
            yield OnDask(client), job
    elif workers.ray:
        ray = required("ray", "batch --ray")
        is_ours = not ray.is_initialized()
        with _stdout_on_stderr():
            try:
                with _handlers_kept():
                    if workers.count:
                        ray.init(num_cpus=workers.count * _threads(job, workers.count), log_to_driver=False)
                    job = _with_threads(job, workers.count or 1)
                    engine = OnRay(job.reference.threads)
                yield engine, job
            finally:
                if is_ours:  # whose threads and processes would go on to print
                    ray.shutdown()
    elif workers.count:
        distributed = required("distributed", "batch --workers")
        from ..dask_clusters import local_cluster

        with contextlib.ExitStack() as ends:
            with _interrupts_deferred():
                try:
                    cluster = local_cluster(workers.count)
                except (OSError, RuntimeError, TimeoutError) as error:
                    raise RunError(
                        f"{workers.count} workers cannot be started: {error}; fix: fewer --workers, or --workers 0"
                    ) from error
                ends.enter_context(cluster)
            client = ends.enter_context(quietly(distributed.Client(cluster)))
            _pass_over_given_up_waits(client)
            _show_dashboard(client)
            yield OnDask(client), _with_threads(job, workers.count)
    else:
        yield InProcess(), job


@contextlib.contextmanager
def _stdout_on_stderr() -> Iterator[None]:
    """Let what this process prints, by Python and otherwise, and what it starts, go to stderr: stdout is for the summary.

    Ray's driver prints what it hears about workers that died, whatever `log_to_driver` says.
    """
    with contextlib.ExitStack() as ends:
        ends.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(OSError):  # of a process without one of them
            kept = os.dup(1)
            ends.callback(os.close, kept)
            os.dup2(2, 1)
            ends.callback(os.dup2, kept, 1)
        yield


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Let signals do afterwards what they did before: Ray's driver aborts at SIGTERM, by a handler in C and one in Python."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # which it is for one that is not Python's
                signal.signal(number, handler)


@contextlib.contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer interrupts until this ends, and keep them from all threads that begin meanwhile, and from their processes.

    A terminal sends Ctrl-C to all processes of a command. Workers of Dask, later ones too, would each print where it met them,
    and a cluster that is half started cannot be closed. A signal that is blocked in a thread stays so in what it starts.
    """
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    resource_tracker.ensure_running()  # which lets interrupts through again in the thread that begins it
    ended: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, frame: ended.append(number))  # by which Dask ends workers
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if handler is not None:  # which it is for one that is not Python's
            signal.signal(signal.SIGTERM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    if ended:
        signal.raise_signal(signal.SIGTERM)


def _pass_over_given_up_waits(client: Any) -> None:
    """Print no traces of waits that Dask goes on with after their time is over, and that end with the client."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if type(context.get("exception")).__name__ != "AllExit":
            loop.default_exception_handler(context)

    client.loop.asyncio_loop.set_exception_handler(handle)


def _threads(job: Job, workers: int) -> int:
    return job.reference.threads or max(1, default_threads() // workers)


def _with_threads(job: Job, workers: int) -> Job:
    return replace(job, reference=replace(job.reference, threads=_threads(job, workers)))


def _show_dashboard(client: Any) -> None:
    tell(f"dashboard: {dashboard_line(client)}")
