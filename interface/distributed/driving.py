"""Keeps a bounded number of tasks in flight on an engine, tries again what failed, and hands on what is done."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import groupby
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError
from .engines import Engine, WorkerDied
from .failures import Failure, RunError

_ORDERED_BLOCKS = 4
"""Results in order: how many blocks, for each one in flight, may be done or begun beyond the one that is waited for."""
_TOGETHER_SECONDS = 0.005
"""How long blocks wait for others that go to the engine, or come from it, in one message with them."""


@dataclass(frozen=True, slots=True)
class Task:
    """A block to compute: its number, and a function that workers can import, with its arguments."""

    number: int
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Done:
    """A block that has ended: its value, or a `Failure`."""

    number: int
    value: Any


class Driver:
    """Runs tasks on an engine.

    A task whose worker died may be the cause or a bystander: engines blame all tasks of a worker. So it runs again when nothing
    else is in flight, and has failed if its worker dies then too. Mistakes that joinery reports about a block are final; other
    errors are tried again.

    Args:
        engine: what runs the tasks.
        in_flight: how many tasks for each of its workers.
        retries: how often a task that raised is tried again.
        ordered: whether results come in the order of the tasks, which holds few of them back.
    """

    def __init__(self, engine: Engine, in_flight: int, retries: int, ordered: bool) -> None:
        self._engine, self._in_flight, self._retries, self._ordered = engine, in_flight, retries, ordered
        self._together = max(1, in_flight // 4)
        self._running: dict[Hashable, Task] = {}
        self._ready: deque[Hashable] = deque()  # of those, what has ended
        self._again: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._attempts: dict[int, int] = {}
        self._expected: deque[int] = deque()
        self._source: Iterator[Task] | None = None
        self._mistake: Exception | None = None

    def run(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Yield each block as it ends.

        Raises `RunError` where no block can be computed, and what `tasks` raises once the blocks in flight have been yielded.
        """
        try:
            yield from self._run(iter(tasks))
        finally:
            if self._running:  # nobody takes what comes of them
                self._engine.forget(list(self._running))

    def _run(self, source: Iterator[Task]) -> Iterator[Done]:
        finished: dict[int, Done] = {}
        self._source = source
        filled = -_TOGETHER_SECONDS
        while True:
            # What ends together is followed together, in one message: unless whoever takes it takes long.
            if not self._ready or time.monotonic() - filled > _TOGETHER_SECONDS:
                self._fill()
                filled = time.monotonic()
            alone = not self._running
            if alone:
                if not self._suspects:
                    if self._mistake is not None:
                        raise self._mistake
                    return
                self._submit([self._suspects.popleft()])
            if not self._ready:
                self._ready += self._engine.some_done(min(self._together, len(self._running)))
            done = self._one_done(self._ready.popleft(), alone)
            if done is None:
                continue
            if not self._ordered:
                yield done
                continue
            finished[done.number] = done
            while self._expected and self._expected[0] in finished:
                yield finished.pop(self._expected.popleft())

    def _fill(self) -> None:
        """Submit as many tasks as may be in flight, together, unless it takes long to get them."""
        limit = self._in_flight * self._engine.workers
        new: list[Task] = []
        began = 0.0
        while len(self._running) + len(new) < limit:
            # What others wait for is tried again however many there are.
            task = self._again.popleft() if self._again else self._next(limit * _ORDERED_BLOCKS)
            if task is None:
                break
            now = time.monotonic()
            began = began if new else now
            new.append(task)
            if now - began > _TOGETHER_SECONDS:
                self._submit(new)
                new = []
        self._submit(new)

    def _next(self, most: int) -> Task | None:
        """Return a task that was not begun yet; None if there is none, or if results of `most` tasks are held back in order."""
        if self._source is None or len(self._expected) >= most:
            return None
        try:
            task = next(self._source)
        except StopIteration:
            self._source = None
            return None
        except Exception as error:  # of the caller's own blocks
            self._source, self._mistake = None, error
            return None
        if self._ordered:
            self._expected.append(task.number)
        return task

    def _submit(self, tasks: list[Task]) -> None:
        for function, group in groupby(tasks, key=lambda task: task.function):
            together = list(group)
            for task in together:
                self._attempts[task.number] = self._attempts.get(task.number, 0) + 1
            handles = self._engine.submit(function, [task.arguments for task in together])
            self._running.update(zip(handles, together, strict=True))

    def _one_done(self, handle: Hashable, alone: bool) -> Done | None:
        """Return a task that the engine has done with, None if it is not ended for good."""
        task = self._running.pop(handle)
        number = task.number
        attempts = self._attempts[number]
        try:
            value = self._engine.result(handle)
        except RunError:
            raise
        except WorkerDied as error:
            _forget_frames(error)
            if not alone:
                self._suspects.append(task)
                return None
            return self._ended(number, Failure(number, f"its worker died: {error}", attempts))
        except Exception as error:
            _forget_frames(error)
            if not isinstance(error, JoineryError) and attempts <= self._retries:
                self._again.append(task)
                return None
            text = str(error) if isinstance(error, JoineryError) else f"{type(error).__name__}: {error}"
            return self._ended(number, Failure(number, text, attempts))
        return self._ended(number, value)

    def _ended(self, number: int, value: Any) -> Done:
        del self._attempts[number]
        return Done(number, value)


def _forget_frames(error: BaseException) -> None:
    """Let an error hold none of the frames that it came through: they hold its task, and that the error."""
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
