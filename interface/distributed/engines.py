"""Presents whatever runs tasks (this process, an executor, Dask, Ray) in one form, for those who keep few tasks in flight."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from typing import Any, Protocol

from ...promotion.errors import UserError
from .extras import required
from .failures import RunError

_INLINE_BYTES = 1 << 20
"""Arguments beyond this go to a worker of Dask by themselves, and not through the scheduler."""
_RAY_RETRIES = 3
_ASK_SECONDS = 2.0
_LOOK_SECONDS = 10.0
_ALONE_SECONDS = 300.0


class WorkerDied(Exception):
    """The worker of a task died, or those of each of its attempts: perhaps the task killed them."""


class Engine(Protocol):
    """What runs tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        """Begin a task, and return what stands for it."""

    def any_done(self) -> Hashable:
        """Wait until a task has ended, and return what stands for it."""

    def result(self, task: Any) -> Any:
        """Return what a task that has ended returned, and forget the task.

        Raises what the task raised, `WorkerDied`, or `RunError` where the engine itself is gone.
        """


class InProcess:
    """Runs tasks in this process, when somebody waits for them."""

    workers = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[..., Any], tuple[Any, ...]]] = deque()
        self._numbers = itertools.count()
        self._done: dict[int, Callable[[], Any]] = {}

    def submit(self, function: Callable[..., Any], *arguments: Any) -> int:
        number = next(self._numbers)
        self._waiting.append((number, function, arguments))
        return number

    def any_done(self) -> int:
        number, function, arguments = self._waiting.popleft()
        self._done[number] = lambda: function(*arguments)
        return number

    def result(self, task: int) -> Any:
        return self._done.pop(task)()


class OnExecutor:
    """Runs tasks on an executor of `concurrent.futures`, such as a pool of processes, or `mpi4py.futures.MPIPoolExecutor`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._tasks: set[Any] = set()
        self.workers = int(getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None) or 1)

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        task: Hashable
        try:
            task = self._executor.submit(function, *arguments)
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise RunError(f"stream: the executor takes no tasks ({error}); fix: one that is not shut down") from error
        self._tasks.add(task)
        return task

    def any_done(self) -> Hashable:
        done, _ = wait(self._tasks, return_when=FIRST_COMPLETED)
        found: Hashable = next(iter(done))
        return found

    def result(self, task: Any) -> Any:
        self._tasks.discard(task)
        try:
            return task.result()
        except BrokenExecutor as error:
            raise _broken(error) from error


def _broken(error: Exception) -> RunError:
    return RunError(f"a process of the executor died, and the executor with it ({error}); fix: Dask or Ray replace workers")


class _Recent:
    """Asks how many workers there are, at most every few seconds: clusters grow and shrink, and asking takes a message."""

    def __init__(self, ask: Callable[[], int]) -> None:
        self._ask, self._found, self._until = ask, 1, 0.0

    def __call__(self) -> int:
        if time.monotonic() >= self._until:
            self._found = max(1, self._ask())
            self._until = time.monotonic() + (_ASK_SECONDS if self._found > 1 else _ASK_SECONDS / 10)
        return self._found


class OnDask:
    """Runs tasks on the workers of a client of Dask."""

    def __init__(self, client: Any) -> None:
        self._distributed = required("distributed", "stream")
        self._client = client
        self._tasks: set[Any] = set()
        self._ended: list[Hashable] = []
        self._had_workers = False
        self._alone_since: float | None = None
        self._count = _Recent(lambda: len(client.scheduler_info(n_workers=-1)["workers"]))

    @property
    def workers(self) -> int:
        """One task runs at once on each worker, since all calls of a process share its threads."""
        return self._count() if self._client.status == "running" else 1

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        self._require_scheduler(None)
        task: Hashable
        try:
            sent = [self._client.scatter(each, hash=False) if _nbytes(each) > _INLINE_BYTES else each for each in arguments]
            task = self._client.submit(function, *sent, pure=False)
        except (OSError, RuntimeError, TimeoutError) as error:
            self._require_scheduler(error)
            raise
        self._tasks.add(task)
        return task

    def any_done(self) -> Hashable:
        if not self._ended:
            self._ended += self._first_done()
        return self._ended.pop()

    def _first_done(self) -> set[Hashable]:
        while True:
            try:
                found: set[Hashable] = self._distributed.wait(
                    self._tasks, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED"
                ).done
                return found
            except TimeoutError:
                self._require_workers()
            except (self._distributed.CancelledError, OSError, RuntimeError):
                return set(self._tasks)  # whose results tell what happened

    def result(self, task: Any) -> Any:
        self._tasks.discard(task)
        while True:
            try:
                value = task.result(timeout=_LOOK_SECONDS)
                self._had_workers = True
                return value
            except TimeoutError:  # a result that was lost with its worker is computed again
                if task.status == "error":
                    raise
                self._require_workers()
            except self._distributed.KilledWorker as error:
                raise WorkerDied(str(error)) from error
            except self._distributed.CancelledError as error:
                self._require_scheduler(error)
                raise WorkerDied(f"its arguments were lost with a worker: {error}") from error
            except (OSError, RuntimeError) as error:
                self._require_scheduler(error)
                raise

    def _require_workers(self) -> None:
        """Raise `RunError` where all workers are gone and none comes: Dask waits for one without an end."""
        self._require_scheduler(None)
        if not self._had_workers or self._client.scheduler_info(n_workers=-1)["workers"]:
            self._alone_since = None
            return
        self._alone_since = self._alone_since or time.monotonic()
        if time.monotonic() - self._alone_since > _ALONE_SECONDS:
            raise RunError(
                f"all workers of Dask are gone, and none came in {_ALONE_SECONDS:.0f} s; fix: start some, and go on with "
                "what is missing (joinery batch --resume)"
            )

    def _require_scheduler(self, error: Exception | None) -> None:
        if self._client.status != "running" or (error is not None and self._is_gone()):
            raise RunError(
                f"the connection to the scheduler of Dask is lost ({error or self._client.status}); fix: start it again, and "
                "go on with what is missing (joinery batch --resume)"
            ) from error

    def _is_gone(self) -> bool:
        try:
            self._client.run_on_scheduler(_nothing)
        except Exception:
            return True
        return False


def _nothing() -> None:
    pass


class OnRay:
    """Runs tasks of Ray, each with as many CPUs as a call of the model has threads."""

    def __init__(self, threads: int | None = None) -> None:
        self._ray = required("ray", "stream")
        if not self._ray.is_initialized():
            self._ray.init(log_to_driver=False, include_dashboard=False)
        self._threads = threads or 1
        self._tasks: list[Any] = []
        self._count = _Recent(lambda: int(self._ray.cluster_resources().get("CPU", 1)) // self._threads)
        self._remote: dict[Callable[..., Any], Any] = {}

    @property
    def workers(self) -> int:
        """Tasks run at once as far as there are CPUs for them."""
        return self._count()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Hashable:
        if function not in self._remote:
            options = self._ray.remote(num_cpus=self._threads, max_retries=_RAY_RETRIES, retry_exceptions=False)
            self._remote[function] = options(function)
        task: Hashable = self._remote[function].remote(*arguments)
        self._tasks.append(task)
        return task

    def any_done(self) -> Hashable:
        done, _ = self._ray.wait(self._tasks, num_returns=1)
        found: Hashable = done[0]
        return found

    def result(self, task: Any) -> Any:
        self._tasks.remove(task)
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise
        except (errors.WorkerCrashedError, errors.ObjectLostError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            raise WorkerDied(str(error).partition("\n")[0]) from error


def _nbytes(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(map(_nbytes, value.values()))
    return int(getattr(value, "nbytes", 0))


def engine_of(client: Any, threads: int | None) -> Engine:
    """Return the engine for what a user calls a client: None, an executor, a client of Dask, or "ray".

    Raises `UserError` for anything else.
    """
    if client is None:
        return InProcess()
    if isinstance(client, Executor):
        return OnExecutor(client)
    if isinstance(client, str) and client == "ray":
        return OnRay(threads)
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "submit"):
        return OnDask(client)
    raise UserError(
        f"stream: client {client!r:.80}; fix: a distributed.Client, an executor of concurrent.futures, 'ray', or None for this "
        "process"
    )
