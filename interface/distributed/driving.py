"""Keeps a bounded number of tasks in flight on an engine, tries again what failed, and hands on what is done."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

from ...promotion.dataclass import dataclass
from ...promotion.errors import JoineryError
from .engines import Engine, WorkerDied
from .failures import Failure, RunError

_ORDERED_BLOCKS = 4
"""Results in order: how many blocks, for each one in flight, may be done or begun beyond the one that is waited for."""


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
        self._running: dict[Hashable, Task] = {}
        self._again: deque[Task] = deque()
        self._suspects: deque[Task] = deque()
        self._attempts: dict[int, int] = {}

    def run(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Yield each block as it ends.

        Raises `RunError` where no block can be computed, and what `tasks` raises once the blocks in flight have been yielded.
        """
        finished: dict[int, Done] = {}
        expected: deque[int] = deque()
        source = iter(tasks)
        exhausted = False
        mistake: Exception | None = None
        while True:
            limit = self._in_flight * self._engine.workers
            while len(self._running) < limit and (not self._ordered or len(expected) < limit * _ORDERED_BLOCKS):
                if self._again:
                    self._submit(self._again.popleft())
                elif exhausted:
                    break
                else:
                    try:
                        task = next(source)
                    except StopIteration:
                        exhausted = True
                        break
                    except Exception as error:  # of the caller's own blocks
                        exhausted, mistake = True, error
                        break
                    if self._ordered:
                        expected.append(task.number)
                    self._submit(task)
            if not self._running:
                if not self._suspects:
                    if mistake is not None:
                        raise mistake
                    return
                self._submit(self._suspects.popleft())
                done = self._one_done(alone=True)
            else:
                done = self._one_done(alone=False)
            if done is None:
                continue
            if not self._ordered:
                yield done
                continue
            finished[done.number] = done
            while expected and expected[0] in finished:
                yield finished.pop(expected.popleft())

    def _submit(self, task: Task) -> None:
        self._attempts[task.number] = self._attempts.get(task.number, 0) + 1
        self._running[self._engine.submit(task.function, *task.arguments)] = task

    def _one_done(self, alone: bool) -> Done | None:
        """Wait for a task, and return it if it has ended for good."""
        handle = self._engine.any_done()
        task = self._running.pop(handle)
        number = task.number
        attempts = self._attempts[number]
        try:
            value = self._engine.result(handle)
        except RunError:
            raise
        except WorkerDied as error:
            if not alone:
                self._suspects.append(task)
                return None
            return self._ended(number, Failure(number, f"its worker died: {error}", attempts))
        except Exception as error:
            if not isinstance(error, JoineryError) and attempts <= self._retries:
                self._again.append(task)
                return None
            text = str(error) if isinstance(error, JoineryError) else f"{type(error).__name__}: {error}"
            return self._ended(number, Failure(number, text, attempts))
        return self._ended(number, value)

    def _ended(self, number: int, value: Any) -> Done:
        del self._attempts[number]
        return Done(number, value)
