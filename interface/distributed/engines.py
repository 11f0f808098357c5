"""Presents whatever runs tasks (this process, an executor, Dask, Ray) in one form, for those who keep few tasks in flight."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, wait
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from ...promotion.errors import UserError
from .extras import required
from .failures import RunError

_INLINE_BYTES = 1 << 20
"""Arguments beyond this go to a worker of Dask by themselves, and not through the scheduler."""
_TOGETHER_BYTES = 4 << 20
"""Arguments of several tasks go in one message up to this."""
_FETCHED_BYTES = 64 << 20
"""Results come to the client when they are there if all in flight are less than this, and otherwise when they are asked for."""
_TOGETHER_SECONDS = 0.02
"""How long a result waits for others, where workers have many tasks before them."""
_UNREAD = "deserialization of the task graph"
"""What Dask says of tasks that its scheduler cannot unpickle."""
_RAY_RETRIES = 3
_ASK_SECONDS = 2.0
_LOOK_SECONDS = 2.0
_ALONE_SECONDS = 300.0

_log = logging.getLogger("joinery.distributed")


class WorkerDied(Exception):
    """The worker of a task died, or those of each of its attempts: perhaps the task killed them."""


class Engine(Protocol):
    """What runs tasks."""

    @property
    def workers(self) -> int:
        """How many tasks run at once."""

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Sequence[Hashable]:
        """Begin a task for each tuple of arguments, and return what stands for it."""

    def some_done(self, several: int) -> Sequence[Hashable]:
        """Wait until a task has ended, or, where that saves messages, a moment for several, and return what stands for them."""

    def result(self, task: Any) -> Any:
        """Return what a task that has ended returned, and forget the task.

        Raises what the task raised, `WorkerDied`, or `RunError` where the engine itself is gone.
        """

    def forget(self, tasks: Sequence[Any]) -> None:
        """Begin nothing of tasks whose results nobody takes, as far as the engine can do so. What runs may go on."""


class InProcess:
    """Runs tasks in this process, when somebody waits for them."""

    workers = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Callable[..., Any], tuple[Any, ...]]] = deque()
        self._numbers = itertools.count()
        self._done: dict[int, Callable[[], Any]] = {}

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[int]:
        begun = [(next(self._numbers), function, arguments) for arguments in calls]
        self._waiting += begun
        return [number for number, _, _ in begun]

    def some_done(self, several: int) -> list[int]:
        number, function, arguments = self._waiting.popleft()
        self._done[number] = lambda: function(*arguments)
        return [number]

    def result(self, task: int) -> Any:
        return self._done.pop(task)()

    def forget(self, tasks: Sequence[Any]) -> None:
        self._waiting.clear()
        self._done.clear()


class OnExecutor:
    """Runs tasks on an executor of `concurrent.futures`, such as a pool of processes, or `mpi4py.futures.MPIPoolExecutor`."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._tasks: set[Any] = set()
        self.workers = int(getattr(executor, "_max_workers", None) or getattr(executor, "num_workers", None) or 1)

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        try:
            begun = [self._executor.submit(function, *arguments) for arguments in calls]
        except BrokenExecutor as error:
            raise _broken(error) from error
        except RuntimeError as error:
            raise RunError(f"stream: the executor takes no tasks ({error}); fix: one that is not shut down") from error
        self._tasks.update(begun)
        return begun

    def some_done(self, several: int) -> list[Any]:
        done, self._tasks = wait(self._tasks, return_when=FIRST_COMPLETED)
        return list(done)

    def result(self, task: Any) -> Any:
        try:
            return task.result()
        except BrokenExecutor as error:
            raise _broken(error) from error

    def forget(self, tasks: Sequence[Any]) -> None:
        for task in tasks:
            task.cancel()


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
        self._done: SimpleQueue[tuple[Any, list[Any]]] = SimpleQueue()  # what has ended, with its result if it was fetched
        self._results: dict[Hashable, Any] = {}
        self._begun = 0
        self._size = _FETCHED_BYTES  # of a result
        self._had_workers = False
        self._alone_since: float | None = None
        self._count = _Recent(lambda: len(client.scheduler_info(n_workers=-1)["workers"]))

    @property
    def workers(self) -> int:
        """One task runs at once on each worker, since all calls of a process share its threads."""
        return self._count() if self._client.status == "running" else 1

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Begin tasks: in one message, as far as their arguments are small."""
        self._require_scheduler(None)
        begun: list[Any] = []
        try:
            waiting: list[tuple[Any, ...]] = []
            size = 0
            for arguments in calls:
                sizes = [_nbytes(each) for each in arguments]
                if waiting and size + sum(sizes) > _TOGETHER_BYTES:
                    begun += self._mapped(function, waiting)
                    waiting, size = [], 0
                waiting.append(tuple([
                    self._sent(each) if one > _INLINE_BYTES else each for each, one in zip(arguments, sizes, strict=True)
                ]))  # fmt: skip
                size += sum(one for one in sizes if one <= _INLINE_BYTES)
            begun += self._mapped(function, waiting)
        except (OSError, RuntimeError, TimeoutError) as error:
            self._require_scheduler(error)
            raise
        self._begun += len(begun)
        fetched = self._begun * self._size <= _FETCHED_BYTES
        for task in begun:
            if fetched:
                self._client.loop.add_callback(self._fetch, task)
            else:
                task.add_done_callback(lambda task: self._done.put((task, [])))
        return begun

    def _sent(self, argument: Any) -> Any:
        """Send an argument to a worker, under a name of its own: Dask takes the keys of a dict for names."""
        (sent,) = self._client.scatter([argument], hash=False)
        return sent

    def _mapped(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        if len(calls) < 2:  # for which Dask has less to do
            return [self._client.submit(function, *arguments, pure=False) for arguments in calls]
        return list(self._client.map(function, *zip(*calls, strict=True), pure=False))

    async def _fetch(self, task: Any) -> None:
        """Take a result to the client when it is there, in the thread of the client's messages."""
        found: list[Any] = []
        with contextlib.suppress(Exception, asyncio.CancelledError):  # `result` finds out what it is
            found = await self._client.gather([task], errors="skip", asynchronous=True)
        self._done.put((task, found))

    def some_done(self, several: int) -> list[Any]:
        done = [self._first_done()]
        until = time.monotonic() + _TOGETHER_SECONDS
        with contextlib.suppress(Empty):
            while True:
                left = until - time.monotonic() if len(done) < several else 0.0
                done.append(self._done.get(timeout=left) if left > 0 else self._done.get_nowait())
        self._results.update((task, found[0]) for task, found in done if found)
        return [task for task, _ in done]

    def _first_done(self) -> Any:
        while True:
            try:
                return self._done.get(timeout=_LOOK_SECONDS)
            except Empty:
                self._require_workers()

    def forget(self, tasks: Sequence[Any]) -> None:
        async def cancelled() -> None:
            with contextlib.suppress(Exception, asyncio.CancelledError):  # there may be no scheduler to be told
                await self._client.cancel(tasks, asynchronous=True)

        with contextlib.suppress(RuntimeError):  # nor a thread that sends messages
            self._client.loop.add_callback(cancelled)

    def result(self, task: Any) -> Any:
        self._begun -= 1
        value = self._results.pop(task) if task in self._results else self._waited_for(task)
        self._had_workers = True
        self._size = max(_nbytes(value), self._size // 2)
        return value

    def _waited_for(self, task: Any) -> Any:
        while True:
            try:
                return task.result(timeout=_LOOK_SECONDS)
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
                if _UNREAD in str(error):  # which is about all tasks, and no mistake of this one
                    raise RunError(
                        "the scheduler of Dask cannot read the tasks of the client; fix: one version of joinery, Python and "
                        "Dask on scheduler, workers and client"
                    ) from error
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
        self._too_small_since: float | None = None
        self._count = _Recent(lambda: int(self._ray.cluster_resources().get("CPU", 1)) // self._threads)
        self._remote: dict[Callable[..., Any], Any] = {}

    @property
    def workers(self) -> int:
        """Tasks run at once as far as there are CPUs for them."""
        return self._count()

    def submit(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        if function not in self._remote:
            options = self._ray.remote(num_cpus=self._threads, max_retries=_RAY_RETRIES, retry_exceptions=False)
            self._remote[function] = options(function)
        begun = [self._remote[function].remote(*arguments) for arguments in calls]
        self._tasks += begun
        return begun

    def some_done(self, several: int) -> list[Any]:
        while True:
            done, self._tasks = self._ray.wait(self._tasks, num_returns=1, timeout=_LOOK_SECONDS)
            if done:
                return list(done)
            self._require_room()

    def _require_room(self) -> None:
        """Raise `RunError` where no node has the CPUs of a task, and none comes: Ray waits for one without an end."""
        sizes = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        if (most := max(sizes, default=0)) >= self._threads:
            self._too_small_since = None
            return
        problem = f"no node of Ray has {self._threads} CPUs, as many as calls have threads; the largest has {most}"
        if self._too_small_since is None:
            self._too_small_since = time.monotonic()
            _log.warning("%s, so nothing runs until one comes", problem)
        if time.monotonic() - self._too_small_since > _ALONE_SECONDS:
            fix = f"{most} threads or fewer, or " if most else ""
            raise RunError(f"{problem}, and no other came in {_ALONE_SECONDS:.0f} s; fix: {fix}larger nodes")

    def result(self, task: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            if isinstance(error.cause, Exception):
                raise error.cause from None
            raise
        except (errors.WorkerCrashedError, errors.ObjectLostError, errors.OutOfMemoryError, errors.NodeDiedError) as error:
            raise WorkerDied(str(error).partition("\n")[0]) from error

    def forget(self, tasks: Sequence[Any]) -> None:
        """Let them end: what Ray cancels it interrupts."""


def _nbytes(value: object) -> int:
    if isinstance(value, Mapping):
        return sum(map(_nbytes, value.values()))
    return int(getattr(value, "nbytes", 0))


def engine_of(client: Any, threads: int | None) -> Engine:
    """Return the engine for what a user calls a client: None, an executor, a client of Dask, or "ray".

    Raises `UserError` for anything else, and for an asynchronous client.
    """
    if client is None:
        return InProcess()
    if isinstance(client, Executor):
        return OnExecutor(client)
    if isinstance(client, str) and client == "ray":
        return OnRay(threads)
    if type(client).__module__.partition(".")[0] == "distributed" and hasattr(client, "submit"):
        if client.asynchronous:  # whose messages wait for the caller, who waits for them
            raise UserError(
                "stream: the client is asynchronous, or this is its event loop's thread; fix: a distributed.Client that is "
                "not asynchronous, in another thread (asyncio.to_thread)"
            )
        return OnDask(client)
    raise UserError(
        f"stream: client {client!r:.80}; fix: a distributed.Client, an executor of concurrent.futures, 'ray', or None for this "
        "process"
    )
